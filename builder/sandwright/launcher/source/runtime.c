/* OCI runtimes (runc, crun, runsc) with an unpacked image. The bundle of a run is its run directory
 * (bundle.c). */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "bundle.h"
#include "refusals.h"
#include "landlock.h"
#include "launch.h"
#include "requests.h"

enum { QUESTION = 10 }; /* seconds for a question to the runtime */
/* The first descriptor that a runtime passes on (`--preserve-fds`), and the largest number of them. */
enum { WALL = 3, PASSED_ON = 2 };

static const char *program;
static char *environment[3];
static bool walled;
static int requests = -1; /* the first process's end (requests.h) */
static struct watch watch;
static struct bundle bundle = {.image_handle = -1};

static void open_image(struct run *run)
{
    static char resolved[PATH_MAX];
    const char *given = getenv("SANDWRIGHT_ROOTFS");
    const char *place = is_set("SANDWRIGHT_ROOTFS") ? given : xasprintf("%s/rootfs", run->directory);
    bundle.image = realpath(place, resolved);
    bundle.image_handle = bundle.image == NULL ? -1 : open(bundle.image, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (bundle.image_handle < 0)
        die("%s does not exist: set SANDWRIGHT_ROOTFS to the directory of the unpacked image \"%s\"", place, run->plan.image.root);
}

static int open_in_image(const char *path, unsigned long long resolve)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = resolve};
    return (int)syscall(SYS_openat2, bundle.image_handle, path, &how, sizeof how);
}

/* Whether a mount point in /var that the image lacks can be created in the run's root: the existing
 * directories above it must be the image's, and no links. */
static bool can_be_placed(const char *path)
{
    bool missing = false;
    for (const char *end = path; strncmp(path, "/var/", 5) == 0 && !missing && (end = strchr(end + 1, '/')) != NULL;) {
        struct stat status;
        _cleanup_close_ int above = open_in_image(xasprintf("%.*s", (int)(end - path), path), RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
        missing = above < 0 && errno == ENOENT;
        if (!missing && (above < 0 || fstat(above, &status) != 0 || !S_ISDIR(status.st_mode)))
            return false;
        if (missing || strchr(end + 1, '/') == NULL)
            return true;
    }
    return false;
}

/* Mount points are never created in the image itself, which other runs share. Links on the way may lead to
 * files of the image only. */
static void check_points(const struct run *run)
{
    for (size_t index = 0; index < run->plan.image.points.count; index++) {
        const char *path = run->plan.image.points.at[index];
        struct stat status;
        _cleanup_close_ int point = open_in_image(path, RESOLVE_IN_ROOT);
        if (point < 0 && errno == ENOENT && can_be_placed(path))
            strv_push(&bundle.absent, (char *)path);
        else if (point < 0 || fstat(point, &status) != 0 || S_ISLNK(status.st_mode))
            die("the image has no %s to mount on, or a symbolic link there, and nothing is created in its system directories: "
                "choose a path below /var, /srv or a home directory, or the method docker, podman or bwrap", path);
    }
}

static bool asks(const struct run *run)
{
    return strv_contains(&run->plan.runtime.config_holes, "seccomp");
}

static void runtime_check(struct run *run)
{
    if (run->plan.runtime.gvisor)
        program = find_program(run, "runsc");
    else if ((program = find_program(run, "runc")) == NULL)
        program = find_program(run, "crun");
    if (program == NULL)
        die(run->plan.runtime.gvisor ? "runsc (gVisor) is not installed" : "neither runc nor crun is installed");
    if (run->plan.runtime.rootless != (geteuid() != 0))
        die("this was rendered for %s: render it again", run->plan.runtime.rootless ? "another user than root" : "root");
    check_text(run, run->plan.runtime.gvisor ? "gVisor" : strrchr(program, '/') + 1);
    environment[0] = xasprintf("PATH=%s", run->path);
    environment[1] = "HOME=/nonexistent";
    open_image(run);
    check_points(run);
    if (run->plan.proxy)
        egress_check(run);
    if (asks(run)) {
        notify_filter(run, "seccomp.bpf");
        refusals_share();
    }
    run->uncontrolled = run->plan.runtime.gvisor; /* signals of a terminal would kill runsc's processes */
    walled = backstop_available(run);
    init_command(run, BUNDLE_INIT, stop_word(run, BUNDLE_STOP), run->plan.runtime.gvisor ? -1 : WALL + walled);
    command_insert(run, (char *const[]){"--gate", (char *)GATE_INSIDE}, 2);
    if (walled)
        backstop_command(run, WALL);
    if (run->plan.shims.enabled) {
        shims_check(run);
        shims_command(run, true);
    }
}

static void runtime_prepare(struct run *run)
{
    mode_t mask = umask(022);
    rundir_make(run, run->plan.runtime.gvisor ? "gvisor" : "oci");
    make_gate(run);
    watch = (struct watch){.waits_on = -1,
                           .pid_file = xasprintf("%s/pid", run->state),
                           .gate = run->gate,
                           .wait = true,
                           .opaque = run->plan.runtime.gvisor};
    watch_start(run, &watch);
    run->watch = &watch;
    if (run->plan.runtime.gvisor && write_file(AT_FDCWD, xasprintf("%s/nothing", run->state), "", 0, 0) != 0)
        die_errno("cannot create the empty file that covers denied files");
    if (run->plan.ignored.count > 0)
        rundir_make_ignored(run);
    if (is_reported(run))
        run->stop_fd = make_stop_file(xasprintf("%s/stop", run->state));
    if (!run->plan.runtime.gvisor)
        requests = requests_pair(run);
    if (asks(run))
        bundle.listener = notify_listen(run, run->plan.runtime.rootless && run->plan.runtime.own_network);
    if (strv_contains(&run->plan.runtime.config_holes, "cgroup"))
        bundle.cgroup = cgroup_for_runtime(run);
    bundle_root(&bundle, run);
    bundle.laid = image_files(run, bundle.image);
    bundle_config(&bundle, run);
    umask(mask);
    if (!watch_mounted(&watch))
        die("cannot start the mount watch");
    check_there_still(run); /* the watch does not notice what was exchanged before it started */
}

/* Keeps capabilities through exec, as ambient ones: a user other than root would lose them
 * (capabilities(7)). */
static void keep_rights(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct held[2];
    bool kept = syscall(SYS_capget, &head, held) == 0;
    for (int half = 0; half < 2; half++)
        held[half].inheritable = held[half].permitted;
    kept = kept && syscall(SYS_capset, &head, held) == 0;
    for (unsigned long right = 0; right < 64 && kept; right++)
        if ((held[right / 32].permitted & 1U << right % 32) != 0)
            kept = prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, right, 0, 0) == 0;
    if (!kept)
        die_errno("cannot keep the privileges over a network namespace");
}

/* Creates a network namespace, which the container then uses. runsc creates a user namespace in this one, in
 * which it must be root. Other runtimes use the IDs in the configuration, which are those outside. */
static void own_network(struct run *run)
{
    uid_t user = geteuid(), group = getegid();
    if (unshare(CLONE_NEWNET | (run->plan.runtime.rootless ? CLONE_NEWUSER : 0)) != 0)
        die_errno("cannot create a network namespace");
    if (run->plan.runtime.rootless) {
        write_own("/proc/self/setgroups", "deny");
        write_own("/proc/self/uid_map", xasprintf("%u %u 1", run->plan.runtime.gvisor ? 0 : user, user));
        write_own("/proc/self/gid_map", xasprintf("%u %u 1", run->plan.runtime.gvisor ? 0 : group, group));
        if (!run->plan.runtime.gvisor)
            keep_rights();
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != run->monitor)
            _exit(NOT_RUN);
    }
    if ((run->plan.proxy && !egress_open(run, getpid(), false)) ||
        (ports_wanted(run) && !ports_open(network_of(getpid()), false)))
        _exit(NOT_RUN);
}

/* The runtime's arguments, with its state in the run directory, then `words`, which end with NULL. */
static struct strv words_of(const struct run *run, const char *const *words)
{
    struct strv all = {0};
    strv_push(&all, (char *)program);
    strv_push(&all, "--root");
    strv_push(&all, xasprintf("%s/state", run->state));
    strv_extend(&all, &run->plan.runtime.flags);
    strv_push_all(&all, (char *const *)words);
    return all;
}

/* The second wall: the image's directories, and the files that the run adds. */
static void make_wall(const struct run *run)
{
    struct strv all = {0};
    for (size_t index = 0; index < bundle.shown.count; index++)
        strv_push(&all, xasprintf("%s/%s", bundle.image, bundle.shown.at[index]));
    for (size_t index = 0; index < bundle.laid.count; index += 2)
        strv_push(&all, bundle.laid.at[index + 1]);
    if (is_reported(run))
        strv_push(&all, xasprintf("%s/stop", run->state));
    if (run->plan.shims.enabled)
        strv_push(&all, (char *)run->document.shims);
    backstop_hand_over(backstop_make(run, &all), WALL);
}

/* Moves the bridge's descriptor above those that the runtime passes on. */
static int moved_channel(const struct run *run)
{
    int channel = fcntl((int)run->document.channel, F_DUPFD, WALL + PASSED_ON);
    if (channel < 0)
        die_errno("cannot reach the bridge");
    return channel;
}

static void runtime_start(struct run *run)
{
    const char *log = xasprintf("%s/log", run->state), *pid = xasprintf("%s/pid", run->state);
    struct strv enter = {0};
    int passed = walled + (requests >= 0);
    char *const last[] = {"--preserve-fds", xasprintf("%d", passed), (char *)run->name};
    struct strv all = words_of(
        run, (const char *const[]){"--log", log, "run", "--bundle", run->state, "--pid-file", pid, NULL});
    for (size_t index = passed > 0 ? 0 : 2; index < 3; index++)
        strv_push(&all, last[index]);
    if (!run->plan.runtime.gvisor) /* gVisor emulates its devices */
        keep_devices();
    if (run->plan.runtime.own_network)
        own_network(run);
    if (run->plan.shims.loopback) {
        strv_push(&enter, xasprintf("%s/sandwright-enter", run->document.shims));
        strv_push(&enter, xasprintf("%d", moved_channel(run)));
    }
    if (walled)
        make_wall(run);
    if (requests >= 0)
        requests_pass_on(requests, WALL + walled);
    strv_extend(&enter, &all);
    execve(enter.at[0], enter.at, environment);
    die_errno("cannot start %s", enter.at[0]);
}

/* ---- monitor: signals, exit status, end */
static int ask(struct run *run, const char *const *words)
{
    char **own = environ;
    environ = environment;
    int status = capture(words_of(run, words).at, NULL, QUESTION, false);
    environ = own;
    return status;
}

/* The PID of the container's process 1, a descendant of the monitor; 0: not started yet. */
static pid_t first_process(const struct run *run)
{
    pid_t first = (pid_t)number_in(xasprintf("%s/pid", run->state));
    return descends_from(first, run->monitor) ? first : 0;
}

/* Whether init accepts signals, which it shows by its name. Before that, a signal to it would be lost. */
static bool is_ready(pid_t process)
{
    char *name = read_file(AT_FDCWD, xasprintf("/proc/%d/comm", (int)process), 64, NULL);
    return name != NULL && strcmp(name, "init\n") == 0;
}

/* `runsc run` would be killed by the signal, and forward nothing. */
static bool runtime_deliver(struct run *run, int number)
{
    if (run->plan.runtime.gvisor)
        return ask(run, (const char *const[]){"kill", run->name, xasprintf("%d", number), NULL}) == 0;
    pid_t first = first_process(run);
    return first != 0 && is_ready(first) && kill(run->child, number) == 0;
}

static bool has(const char *line, const char *first, const char *then)
{
    const char *at = strstr(line, first);
    return at != NULL && strstr(at + strlen(first), then) != NULL;
}

/* If the program could not be run, returns a shell's exit status; runtimes use other values. */
static int runtime_status_of(struct run *run, int ended)
{
    int status = exit_status(ended);
    char *log = read_file(AT_FDCWD, xasprintf("%s/log", run->state), 1 << 24, NULL), *line;
    while (log != NULL && (line = strsep(&log, "\n")) != NULL) {
        if (strstr(line, "run failed: ") == NULL && strstr(line, "running container: ") == NULL)
            continue;
        if (has(line, " exec: ", "permission denied") || has(line, " exec: ", "is a directory") ||
            has(line, " exec: ", "exec format error") || has(line, "failed to load ", "permission denied"))
            status = 126;
        else if (has(line, " exec: ", "not found in $PATH") || has(line, " exec: ", "no such file or directory") ||
                 strstr(line, "error finding executable ") != NULL || has(line, "failed to load ", "no such file or directory"))
            status = 127;
        else
            status = NOT_RUN;
    }
    return status;
}

/* Whether the runtime still has a state of the container. It removes that when the container has ended,
 * unless the runtime was killed. */
static bool is_known(const struct run *run)
{
    bool known = false;
    DIR *entries = open_directory(AT_FDCWD, xasprintf("%s/state", run->state));
    for (struct dirent *entry; (entry = next_entry(entries)) != NULL;) {
        const char *found = strstr(entry->d_name, run->name);
        known = known || (found != NULL && strstr(found, ".lock") == NULL);
    }
    return known;
}

/* In each hierarchy. A cgroup can be removed only a moment after its last process has ended. */
static void remove_groups(const struct run *run)
{
    DIR *entries = open_directory(AT_FDCWD, "/sys/fs/cgroup");
    rmdir(xasprintf("/sys/fs/cgroup/%s", run->name));
    for (struct dirent *entry; (entry = next_entry(entries)) != NULL;)
        for (int tries = 0; tries < 100 && entry->d_type == DT_DIR && entry->d_name[0] != '.'; tries++) {
            if (rmdir(xasprintf("/sys/fs/cgroup/%s/%s", entry->d_name, run->name)) == 0 || errno != EBUSY)
                break;
            poll(NULL, 0, 5);
        }
}

static void runtime_clean(struct run *run)
{
    if (run->plan.proxy)
        egress_close(run);
    if (access(run->state, F_OK) != 0)
        return;
    if (is_known(run))
        ask(run, (const char *const[]){"delete", "--force", run->name, NULL});
    remove_groups(run);
    remove_tree(run->state);
}

const struct method runtime_method = {
    .name = "runtime",
    .check = runtime_check,
    .prepare = runtime_prepare,
    .start = runtime_start,
    .deliver = runtime_deliver,
    .status = runtime_status_of,
    .clean = runtime_clean,
};
