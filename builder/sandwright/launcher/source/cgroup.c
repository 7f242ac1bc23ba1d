/* The cgroup of a run, for limits on all its processes together (cgroups(7)): memory, processors, number of
 * processes. In version 1, there is one in the hierarchy of each controller, below the launcher's. In version
 * 2, it is beside the launcher's, because a cgroup that contains processes can't delegate controllers to
 * others below it. The launcher locks it during the run. The next run removes cgroups without a lock, which
 * killed launchers have left.
 *
 * Where no cgroup can be created, resources.cpus is refused, and so is resources.pids for root under bwrap,
 * because RLIMIT_NPROC does not limit root. memory.c limits the memory then.
 */
#define _GNU_SOURCE
#include <sys/file.h>

#include "launch.h"

enum { MEMORY, CPU, PIDS, CONTROLLERS, PERIOD = 100000 /* microseconds */, TRIES = 200 };
static const char *const names[CONTROLLERS] = {"memory", "cpu", "pids"};
/* Tells them from runc's cgroups, which are named after the run. */
static const char SUFFIX[] = ".sandwright";

/* In version 2, several controllers have the same directory. */
static struct {
    char *above;    /* the directory in which the run's cgroup is created */
    int directory;  /* a descriptor of the run's cgroup */
    bool unified;   /* version 2 */
} groups[CONTROLLERS] = {{NULL, -1, false}, {NULL, -1, false}, {NULL, -1, false}};

static bool write_limit(int directory, const char *file, const char *value)
{
    _cleanup_close_ int handle = openat(directory, file, O_WRONLY | O_CLOEXEC);
    return handle >= 0 && write(handle, value, strlen(value)) == (ssize_t)strlen(value);
}

static long read_number(int directory, const char *file, const char *key)
{
    _cleanup_free_ char *content = read_file(directory, file, 1 << 16, NULL);
    const char *at = content == NULL ? NULL : *key == '\0' ? content : strstr(content, key);
    return at == NULL ? 0 : strtol(at + strlen(key), NULL, 10);
}

/* Lines of /proc/self/cgroup have the form NUMBER:CONTROLLERS:PATH; version 2 has no controllers there. */
char *cgroup_own(const char *controller)
{
    char *content = read_file(AT_FDCWD, "/proc/self/cgroup", 1 << 16, NULL), *rest = NULL;
    for (char *line = content == NULL ? NULL : strtok_r(content, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *listed = strchr(line, ':'), *path = listed == NULL ? NULL : strchr(listed + 1, ':');
        if (path == NULL)
            continue;
        *path++ = '\0';
        char *each, *more = NULL;
        bool found = *controller == '\0' && listed[1] == '\0';
        for (each = strtok_r(listed + 1, ",", &more); each != NULL; each = strtok_r(NULL, ",", &more))
            found = found || strcmp(each, controller) == 0;
        if (found)
            return path;
    }
    return NULL;
}

/* The directory of this path. In a container, only the launcher's own cgroup may be mounted there, although
 * the path is the host's. */
static char *mounted_group(const char *hierarchy, const char *path)
{
    char *found = xasprintf("%s%s", hierarchy, strcmp(path, "/") == 0 ? "" : path);
    return access(found, F_OK) == 0 ? found : (char *)hierarchy;
}

/* Whether cgroups below this one can use the controller. */
static bool delegates(const char *above, const char *controller)
{
    _cleanup_close_ int directory = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *file = "cgroup.subtree_control";
    if (directory < 0)
        return false;
    write_limit(directory, file, xasprintf("+%s", controller));
    _cleanup_free_ char *content = read_file(directory, file, 4096, NULL);
    char *rest = NULL;
    for (char *each = content == NULL ? NULL : strtok_r(content, " \n", &rest); each != NULL; each = strtok_r(NULL, " \n", &rest))
        if (strcmp(each, controller) == 0)
            return true;
    return false;
}

static char *place_unified(const char *controller)
{
    const char *hierarchy = access(CGROUPS "/cgroup.controllers", F_OK) == 0 ? CGROUPS : CGROUPS "/unified";
    const char *own = cgroup_own("");
    char *above = own == NULL ? NULL : mounted_group(hierarchy, own), *slash;
    if (above != NULL && strlen(above) > strlen(hierarchy) && (slash = strrchr(above, '/')) != NULL)
        *slash = '\0';
    if (above != NULL && delegates(above, controller))
        return above;
    return own != NULL && delegates(hierarchy, controller) ? (char *)hierarchy : NULL;
}

static void remove_unlocked(const char *above)
{
    struct dirent *entry;
    DIR *entries = open_directory(AT_FDCWD, above);
    while ((entry = next_entry(entries)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');
        if (end == NULL || strcmp(end, SUFFIX) != 0)
            continue;
        _cleanup_free_ char *path = xasprintf("%s/%s", above, entry->d_name);
        _cleanup_close_ int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory >= 0 && flock(directory, LOCK_EX | LOCK_NB) == 0)
            rmdir(path);
    }
}

static char *group_path(const char *above, const struct run *run)
{
    return xasprintf("%s/%s%s", above, run->name + strlen("sandwright-"), SUFFIX);
}

/* Creates and locks a cgroup. If another launcher removes it before it is locked, it is created again. */
static int make_group(const char *above, const struct run *run)
{
    char *path = group_path(above, run);
    for (int tries = 0; tries < TRIES && (mkdir(path, 0755) == 0 || errno == EEXIST); tries++) {
        int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory >= 0 && flock(directory, LOCK_EX | LOCK_NB) == 0 && faccessat(directory, "cgroup.procs", W_OK, 0) == 0)
            return directory;
        if (directory >= 0)
            close(directory);
        poll(NULL, 0, 1);
    }
    return -1;
}

static bool limit_memory(int directory, bool unified, long most)
{
    const char *bytes = xasprintf("%ld", most);
    if (unified) {
        write_limit(directory, "memory.swap.max", "0"); /* fails on a kernel without swap */
        write_limit(directory, "memory.oom.group", "0");
        return write_limit(directory, "memory.max", bytes);
    }
    bool limited = write_limit(directory, "memory.limit_in_bytes", bytes);
    write_limit(directory, "memory.memsw.limit_in_bytes", bytes);
    return limited;
}

static bool limit_group(const struct run *run, int which)
{
    const struct plan *plan = &run->plan;
    int directory = groups[which].directory;
    bool unified = groups[which].unified;
    long quota = plan->cpus * (PERIOD / 1000);
    if (which == MEMORY)
        return limit_memory(directory, unified, plan->memory);
    if (which == PIDS)
        return write_limit(directory, "pids.max", xasprintf("%ld", plan->pids));
    if (unified)
        return write_limit(directory, "cpu.max", xasprintf("%ld %d", quota, PERIOD));
    return write_limit(directory, "cpu.cfs_period_us", xasprintf("%d", PERIOD)) &&
           write_limit(directory, "cpu.cfs_quota_us", xasprintf("%ld", quota));
}

/* The directory of an earlier controller with the same hierarchy. */
static int shared_group(int which)
{
    for (int other = 0; other < which; other++)
        if (groups[other].directory >= 0 && strcmp(groups[other].above, groups[which].above) == 0)
            return groups[other].directory;
    return -1;
}

static bool is_limited(const struct run *run, int which)
{
    const long limits[CONTROLLERS] = {run->plan.memory, run->plan.cpus, run->plan.pids};
    return run->method->limits && !has_kernel(run) && limits[which] >= 0;
}

/* Finds the directory for a controller's cgroup. */
static void find_group(int which)
{
    const char *hierarchy = xasprintf("%s/%s", CGROUPS, names[which]), *own = cgroup_own(names[which]);
    groups[which].unified = own == NULL;
    groups[which].above = own == NULL ? place_unified(names[which]) : mounted_group(hierarchy, own);
    if (groups[which].above != NULL && access(groups[which].above, W_OK) != 0)
        groups[which].above = NULL;
}

static void make_one(const struct run *run, int which)
{
    remove_unlocked(groups[which].above);
    int directory = shared_group(which);
    groups[which].directory = directory >= 0 ? directory : make_group(groups[which].above, run);
    if (groups[which].directory >= 0 && !limit_group(run, which))
        groups[which].directory = -1;
}

void cgroup_make(struct run *run)
{
    bool limited = is_limited(run, MEMORY) || is_limited(run, CPU) || is_limited(run, PIDS);
    /* First, because systemd manages the cgroups beside its units, even where this user could create some. */
    if (limited)
        scope_enter(run);
    for (int which = 0; which < CONTROLLERS; which++) {
        if (!is_limited(run, which))
            continue;
        find_group(which);
        if (groups[which].above != NULL)
            make_one(run, which);
    }
    if (is_limited(run, CPU) && groups[CPU].directory < 0)
        die("resources.cpus needs a cgroup, which root can create, or with cgroup version 2 a user of systemd");
    if (is_limited(run, PIDS) && groups[PIDS].directory < 0 && geteuid() == 0 && run->method == &bwrap_method)
        die("resources.pids needs a cgroup, which cannot be created here: RLIMIT_NPROC does not apply to root");
}

char *cgroup_for_runtime(const struct run *run)
{
    if (geteuid() == 0)
        return xasprintf("/%s", run->name);
    scope_enter(run);
    for (int which = 0; which < CONTROLLERS && access(CGROUPS "/cgroup.controllers", F_OK) == 0; which++) {
        find_group(which);
        if (groups[which].above != NULL)
            return xasprintf("%s/%s", groups[which].above + strlen(CGROUPS), run->name);
    }
    die("resources.memory, cpus and pids need a cgroup, which root can create, or with cgroup version 2 a user of systemd");
}

bool cgroup_enter(int directory)
{
    return write_limit(directory, "cgroup.procs", "0");
}

bool cgroup_limits_memory(void)
{
    return groups[MEMORY].directory >= 0;
}

void cgroup_join(void)
{
    for (int which = 0; which < CONTROLLERS; which++)
        if (groups[which].directory >= 0 && !cgroup_enter(groups[which].directory))
            die_errno("cannot enter the run's cgroup");
}

long cgroup_out_of_memory(long *peak)
{
    int directory = groups[MEMORY].directory;
    if (directory < 0)
        return 0;
    bool unified = groups[MEMORY].unified;
    *peak = read_number(directory, unified ? "memory.peak" : "memory.max_usage_in_bytes", "");
    return read_number(directory, unified ? "memory.events" : "memory.oom_control", "oom_kill ");
}

void cgroup_remove(const struct run *run)
{
    for (int which = 0; which < CONTROLLERS; which++) {
        /* In the launcher, after its monitor was killed. */
        if (is_limited(run, which) && groups[which].above == NULL)
            find_group(which);
        for (int tries = 0; groups[which].above != NULL && tries < TRIES; tries++) {
            _cleanup_free_ char *path = group_path(groups[which].above, run);
            if (rmdir(path) == 0 || errno != EBUSY)
                break;
            poll(NULL, 0, 5); /* the last process is still exiting */
        }
    }
}
