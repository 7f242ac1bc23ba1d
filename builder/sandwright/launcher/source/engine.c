/*
 * Docker and Podman: the child is their client, which a container hangs on that is no descendant of ours.
 *
 * The container has a name of its own, run->name, and goes by that, however we end. Variables that are passed on are
 * named to the client, which takes their values from its own environment: none is an argument.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"

enum { ASKING = 60, STEP = 5, MOST_STEP = 250, NPROC = 32768, NOFILE = 1048576, REMOVING = 60000 /* milliseconds */ };

static const char *client, *root, *cid;
static char *facts; /* what `docker info` said */
static struct words words;
static struct watch watch = {.waits_on = -1};
static int step = STEP;
static bool signalled, gone, refused;

bool is_podman(const struct run *run)
{
    return strcmp(run->plan.engine, "podman") == 0;
}

static const char *title(const struct run *run)
{
    return is_podman(run) ? "Podman" : "Docker";
}

void pause_for(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static char *asked(struct run *run, struct words *argv, va_list more)
{
    char *output = NULL, *word;
    add(argv, (char *)client);
    while ((word = va_arg(more, char *)) != NULL)
        add(argv, word);
    return capture(run, argv->at, &output, ASKING) == 0 ? output : NULL;
}

char *ask(struct run *run, ...)
{
    struct words argv = {0};
    va_list more;
    va_start(more, run);
    char *output = asked(run, &argv, more);
    va_end(more);
    return output;
}

char *ask_all(struct run *run, ...)
{
    struct words argv = {0};
    va_list more;
    add(&argv, text("/bin/sh"));
    add(&argv, text("-c"));
    add(&argv, text("exec \"$@\" 2>&1"));
    add(&argv, text("sh"));
    va_start(more, run);
    char *output = asked(run, &argv, more);
    va_end(more);
    return output;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

/* Podman of another machine, or of another user. */
bool is_remote(void)
{
    return is_set("CONTAINER_HOST") || is_set("CONTAINER_CONNECTION");
}

/* ---- before anything is made */

/* r or w of what is shown at a path, 0 where nothing is. */
static char shown_at(const struct plan *plan, const char *path)
{
    for (size_t index = 0; index < plan->binds.count; index++)
        if (strcmp(plan->binds.at[index] + 1, path) == 0)
            return plan->binds.at[index][0];
    return 0;
}

static void decode(char *point)
{
    char *to = point;
    for (const char *from = point; *from != '\0'; to++)
        if (from[0] == '\\' && from[1] != '\0' && from[2] != '\0' && from[3] != '\0') {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + from[3] - '0');
            from += 4;
        } else
            *to = *from++;
    *to = '\0';
}

/* Docker makes what is mounted below read-only too since 25 (API 1.44), with Linux 5.12. */
static bool closes_below(struct run *run)
{
    struct utsname system;
    int major = 0, minor = 0, api = 0;
    char *said = is_podman(run) ? NULL : ask(run, "version", "--format", "{{.Server.APIVersion}}", NULL);
    return said != NULL && sscanf(said, "1.%d", &api) == 1 && api >= 44 && uname(&system) == 0 &&
           sscanf(system.release, "%d.%d", &major, &minor) == 2 && major * 1000 + minor >= 5012;
}

static void check_mounts_below(struct run *run)
{
    char *line = NULL;
    size_t room = 0;
    FILE *list = run->plan.binds.count > 0 ? fopen("/proc/self/mountinfo", "re") : NULL;
    if (list == NULL && run->plan.binds.count > 0)
        refuse_errno("/proc/self/mountinfo can't be read");
    while (list != NULL && getline(&line, &room, list) > 0) {
        char *field[6], *rest = line;
        for (int index = 0; index < 6; index++)
            field[index] = strsep(&rest, " ");
        if (rest == NULL || (strncmp(field[5], "ro", 2) == 0 && (field[5][2] == ',' || field[5][2] == '\0')))
            continue;
        char *path = text("%s", field[4]);
        decode(path);
        for (char found = shown_at(&run->plan, path), *end = path; found == 0 && *path != '\0';) {
            end = strrchr(path, '/');
            *end = '\0';
            found = shown_at(&run->plan, path);
            if (found == 'r' && !closes_below(run))
                refuse("%s would leave %s writable, which is mounted below a path that is read-only", title(run),
                       field[4]);
        }
    }
    if (list != NULL)
        fclose(list);
    free(line);
}

static const char *is_true(const char *json, const char *name)
{
    return strstr(json, text("\"%s\":true", name)) != NULL ? "true" : "false";
}

/* One answer for all that is asked of a daemon. */
static const char *docker_facts(struct run *run)
{
    const char *json = facts == NULL ? ask_daemon("/info") : NULL;
    const char *options = json != NULL ? strstr(json, "\"SecurityOptions\":[") : NULL;
    if (options != NULL)
        facts = text("%.*s memory=%s cpu=%s pids=%s ", (int)strcspn(options, "]"), options, is_true(json, "MemoryLimit"),
                     is_true(json, "CpuCfsQuota"), is_true(json, "PidsLimit"));
    else if (facts == NULL)
        facts = ask(run, "info", "--format",
                    "{{.SecurityOptions}} memory={{.MemoryLimit}} cpu={{.CPUCfsQuota}} pids={{.PidsLimit}} ", NULL);
    return facts = facts != NULL ? facts : text("%s", "");
}

/* The daemon that root of this machine runs need not be asked. */
static bool docker_is(struct run *run, const char *what)
{
    return !is_podman(run) && (run->plan.uid >= 0 || !usual_daemon()) && strstr(docker_facts(run), what) != NULL;
}

/* A limit that the machine can't keep, an engine leaves out with a warning. */
static void check_controllers(struct run *run)
{
    bool rootless = is_podman(run) && geteuid() != 0;
    char *said = NULL;
    if (run->plan.controllers.count == 0)
        return;
    if (rootless)
        said = ask(run, "info", "--format", "{{range .Host.CgroupControllers}}{{.}} {{end}}", NULL);
    else
        said = read_file(AT_FDCWD, "/sys/fs/cgroup/cgroup.controllers", 4096, NULL);
    for (char *each = said; each != NULL && (each = strpbrk(each, "\t\n")) != NULL;)
        *each = ' ';
    said = text(" %s ", said != NULL ? said : "");
    for (size_t index = 0; index < run->plan.controllers.count; index++) {
        const char *name = run->plan.controllers.at[index];
        if (strstr(said, text(" %s ", name)) != NULL)
            continue;
        if (rootless)
            refuse("Podman has no control group for %s without root here: resources.memory, cpus and pids need one",
                   name);
        if (access(text("/sys/fs/cgroup/%s", name), F_OK) == 0)
            continue;
        /* The daemon's machine may be another. */
        if (is_podman(run) || strstr(docker_facts(run), text("%s=true ", name)) == NULL)
            refuse("%s has no control group for %s here: resources.memory, cpus and pids need one", title(run), name);
    }
}

/* The root that gVisor's sandbox runs on: shown to the container read-only, and shared. */
static void check_root(struct run *run)
{
    const char *given = is_set("SANDWRIGHT_ROOTFS") ? getenv("SANDWRIGHT_ROOTFS") : text("%s/rootfs", run->directory);
    root = realpath(given, NULL);
    if (root == NULL)
        refuse("there is no %s: set SANDWRIGHT_ROOTFS to where the image %s is unpacked", given,
               run->plan.image);
    for (size_t index = 0; index < run->plan.image_points.count; index++) {
        const char *point = run->plan.image_points.at[index], *path = text("%s%s", root, point);
        struct stat status;
        if (lstat(path, &status) != 0 || S_ISLNK(status.st_mode))
            refuse("the image has no %s to mount on, or a link there", point);
    }
}

static void check(struct run *run)
{
    const struct plan *plan = &run->plan;
    client = find_program(run, plan->engine);
    if (client == NULL)
        refuse("%s is not installed", plan->engine);
    if (plan->image != NULL)
        check_root(run);
    if (plan->owner >= 0 && geteuid() != (uid_t)plan->owner)
        refuse("this was rendered for user %ld, to whom files that are made belong: render it again", plan->owner);
    if (plan->uid >= 0 && is_podman(run) && is_remote())
        refuse("user.mapping is required, and a Podman of another machine or user gives files that are made to that");
    check_controllers(run);
    if (ports_wanted(run) && (is_podman(run) ? is_remote() : geteuid() != 0))
        refuse("network.expose needs to enter the container's network: %s", is_podman(run)
               ? "a Podman of this machine and this user" : "root, with Docker");
    const char *session = getenv("SANDWRIGHT_SESSION");
    if (session != NULL && session[strspn(session, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0')
        refuse("SANDWRIGHT_SESSION holds more than small letters, digits and hyphens");
    check_text(run, title(run));
    check_mounts_below(run);
    if (plan->uid >= 0 && docker_is(run, "name=userns") && !docker_is(run, "name=rootless"))
        refuse("this Docker gives files that are made to other numbers (userns-remap), and user.mapping is required");
    if (plan->shims) {
        shims_check(run);
        shims_command(run, true);
    }
}

/* ---- the arguments: what of them depends on the run */

const char *session_label(const struct run *run)
{
    return is_set("SANDWRIGHT_SESSION") ? getenv("SANDWRIGHT_SESSION") : run->name + strlen("sandwright-");
}

/* Fields of --mount are CSV: quotes are doubled. */
char *mount_source(const char *path)
{
    char *field = take(2 * strlen(path) + sizeof "\"src=\""), *to = stpcpy(field, "\"src=");
    for (; *path != '\0'; path++) {
        if (*path == '"')
            *to++ = '"';
        *to++ = *path;
    }
    strcpy(to, "\"");
    return field;
}

static void add_file(const char *path, const char *fields)
{
    add(&words, text("--mount=type=bind,readonly,%s,%s", mount_source(path), fields));
}

const char *make_file(const struct run *run, const char *name, const char *content, mode_t mode)
{
    const char *path = text("%s/%s", run->state, name);
    if (write_file(AT_FDCWD, path, content, strlen(content), mode) != 0 || chmod(path, mode) != 0)
        refuse_errno("%s can't be written", path);
    return path;
}

/* Nothing can be done with what is hidden: a file without rights. gVisor puts one over it itself, and opens it for that. */
static void add_hidden(struct run *run)
{
    if (run->plan.hidden_files.count == 0)
        return;
    const char *nothing = make_file(run, "nothing", "", run->plan.image != NULL ? 0444 : 0);
    for (size_t index = 0; index < run->plan.hidden_files.count; index++)
        add_file(nothing, run->plan.hidden_files.at[index]);
}

/* Over placeholders: something in memory has no `.gitignore` in it. */
static void add_ignored(struct run *run)
{
    const char *source = run->plan.ignored.count > 0 ? make_ignored(run) : NULL;
    for (size_t index = 0; index < run->plan.ignored.count; index++)
        add_file(source, text("%s,bind-propagation=rprivate", run->plan.ignored.at[index]));
}

/* Root's home inside is the caller's, and not the image's idea of it. */
static void add_root_account(struct run *run)
{
    add_file(make_file(run, "passwd", text("root:x:0:0::%s:/bin/sh\nnobody:x:65534:65534::/nonexistent:/sbin/nologin\n",
                                           run->plan.home), 0644), "dst=/etc/passwd");
}

/* Only who has been given other numbers can be himself inside; anybody else is root there, which is himself outside. */
static bool has_numbers(const struct words *callers)
{
    FILE *list = fopen("/etc/subuid", "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (list != NULL && !found && getline(&line, &room, list) > 0)
        for (size_t index = 0; index < callers->count; index++)
            found = found || (line[strcspn(line, ":\n")] = '\0', strcmp(line, callers->at[index]) == 0);
    if (list != NULL)
        fclose(list);
    free(line);
    return found;
}

static void add_account(struct run *run)
{
    const struct plan *plan = &run->plan;
    if (plan->home == NULL)
        return;
    if (plan->callers.count > 0 && !has_numbers(&plan->callers)) {
        add(&words, text("--userns=host"));
        add(&words, text("--user=0:0"));
        add_root_account(run);
    } else if (docker_is(run, "name=rootless")) {
        /* Root of a Docker without root is its caller, and other numbers belong to nobody. */
        add(&words, text("--user=0:0"));
        add_root_account(run);
    } else {
        add_file(text("%s/passwd", run->directory), "dst=/etc/passwd");
        add_file(text("%s/group", run->directory), "dst=/etc/group");
    }
}

static rlim_t hard_limit(int resource, rlim_t most)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) != 0 || limit.rlim_max > most ? most : limit.rlim_max;
}

/* Left to itself, Podman asks for more than the caller has, which needs a right that containers and CI machines lack;
 * of processes it can pass on 32768 (seen with 4.3). */
char *most_processes(void)
{
    unsigned long limit = hard_limit(RLIMIT_NPROC, NPROC);
    return text("--ulimit=nproc=%lu:%lu", limit, limit);
}

static void add_podman(struct run *run)
{
    bool bounded = false;
    if (!is_remote()) {
        add(&words, text("--conmon-pidfile=%s/monitor", run->state));
        add(&words, text("--pidfile=%s/pid", run->state));
    }
    add(&words, most_processes());
    for (size_t index = 0; index < run->plan.options.count; index++)
        bounded = bounded || strncmp(run->plan.options.at[index], "--ulimit=nofile=", 16) == 0;
    unsigned long limit = hard_limit(RLIMIT_NOFILE, RLIM_INFINITY - 1);
    if (limit == RLIM_INFINITY - 1)
        limit = NOFILE;
    if (!bounded)
        add(&words, text("--ulimit=nofile=%lu:%lu", limit, limit));
}

/* In the container the session program takes the variables' values from its own environment, by these names. */
static void add_outer(struct run *run, const char *names)
{
    add_file(root, "dst=/sandwright/rootfs");
    add(&words, text("--env=SANDWRIGHT_PASSED=%s", names));
    if (is_set("SANDWRIGHT_RUNSC_LOG")) { /* a directory, in which what runsc writes of itself is kept, run by run */
        const char *logs = getenv("SANDWRIGHT_RUNSC_LOG"), *own = text("%s/%s", logs, run->name);
        if (mkdir(own, 0700) != 0 || (own = realpath(own, NULL)) == NULL)
            refuse("no directory can be made in %s", logs);
        add(&words, text("--mount=type=bind,%s,dst=/run/sandwright/log", mount_source(own)));
    }
}

/* The host's authorities in place of the image's; gVisor's are those of the root that its container is shown. The variables
 * that name them, each behind a blank. */
static const char *add_authorities(struct run *run)
{
    const char *copy = authorities_copy(run), *names = "";
    struct words places = copy != NULL ? authorities_in(run, root) : (struct words){0};
    for (size_t index = 0; index < places.count; index++)
        add_file(copy, text("dst=%s%s", root != NULL ? "/sandwright/rootfs" : "", places.at[index]));
    for (size_t index = 0; places.count > 0 && index < run->plan.authority_names.count; index++) {
        add(&words, text("--env=%s=%s", run->plan.authority_names.at[index], places.at[0]));
        names = text("%s %s", names, run->plan.authority_names.at[index]);
    }
    return names;
}

static void add_variables(struct run *run)
{
    const char *names = add_authorities(run);
    for (size_t index = 0; index < run->passed.count; index++) {
        char *name = text("%.*s", (int)strcspn(run->passed.at[index], "="), run->passed.at[index]);
        names = text("%s %s", names, name);
        /* The client's own PATH is another than the command's: that alone is an argument. */
        if (strcmp(name, "PATH") == 0 && strcmp(run->path, run->given_path) != 0)
            name = run->passed.at[index];
        add(&words, text("--env=%s", name));
    }
    if (run->plan.image != NULL)
        add_outer(run, names);
}

/* Behind the image: init, and what the plan and the run make of the command. */
static void add_init(struct run *run)
{
    char *const bell = text("%s/bell", run->state), *const first[] = {"/.sandwright-init", "--init", "/.sandwright-bell"};
    add_file(text("%s/launch", run->directory), "dst=/.sandwright-init");
    if (run->terminal) {
        run->bell = make_bell(bell);
        add_file(bell, "dst=/.sandwright-bell");
    }
    add(&words, run->plan.started.at[0]);
    add_all(&words, &(struct words){(char **)first, 2});
    add(&words, run->terminal ? first[2] : text("-"));
    for (size_t index = 1; index < run->plan.started.count; index++)
        add(&words, run->plan.started.at[index]);
    for (char **word = run->command; *word != NULL; word++)
        add(&words, *word);
}

static void choose_cid(const struct run *run)
{
    char *here = NULL;
    cid = is_set("SANDWRIGHT_CIDFILE") ? getenv("SANDWRIGHT_CIDFILE") : text("%s/cid", run->state);
    if (cid[0] != '/' && (here = getcwd(NULL, 0)) == NULL)
        refuse_errno("the current directory can't be known");
    if (here != NULL)
        cid = text("%s/%s", here, cid);
}

static void prepare(struct run *run)
{
    const struct plan *plan = &run->plan;
    gone = true;
    choose_cid(run);
    make_run_directory(run, plan->engine);
    if (is_podman(run) && chdir(run->state) != 0) /* its monitor may make a file `oom` where it is started */
        refuse_errno("%s can't be entered", run->state);
    if (plan->watched) {
        watch.pid_file = text("%s/pid", run->state);
        watch.opaque = plan->image != NULL;
        watch_start(run, run->watch = &watch);
        if (!watch_mounted(&watch))
            refuse("the watch over mounts can't be started");
    }
    add(&words, (char *)plan->engine);
    add(&words, text("run"));
    add_all(&words, &plan->options);
    add_hidden(run);
    add_ignored(run);
    if (plan->proxy)
        proxy_start(run, &words);
    add(&words, text("--name=%s", run->name));
    add(&words, text("--cidfile=%s", cid));
    add(&words, text("--label=sandwright.session=%s", session_label(run)));
    add(&words, text("--security-opt=seccomp=%s/seccomp.json", run->directory));
    if (run->terminal)
        add(&words, text("--tty"));
    if (is_podman(run))
        add_podman(run);
    add_account(run);
    for (size_t index = 0; index + 1 < plan->files_inside.count; index += 2)
        add_file(text("%s/%s", run->directory, plan->files_inside.at[index]), plan->files_inside.at[index + 1]);
    if (plan->shims)
        add(&words, text("--mount=type=bind,readonly,bind-propagation=rprivate,%s,dst=%s",
                         mount_source(getenv("SANDWRIGHT_SHIMS")), plan->shims_place));
    add_variables(run);
    add_init(run);
    gone = false;
}

static void start(struct run *run)
{
    for (size_t index = 0; index < run->plan.unset.count; index++)
        unsetenv(run->plan.unset.at[index]);
    if (is_podman(run)) {
        signal(SIGINT, SIG_DFL); /* what Podman starts inherits that a key is ignored */
        signal(SIGQUIT, SIG_DFL);
    }
    execv(client, words.at);
}

/* ---- while it runs */

static void look_later(struct run *run)
{
    struct itimerspec time = {.it_value.tv_nsec = step * 1000000L};
    if (run->wakes < 0)
        run->wakes = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (run->wakes < 0 || timerfd_settime(run->wakes, 0, &time, NULL) != 0)
        refuse_errno("no timer can be made");
    step = step < MOST_STEP ? step + step / 16 + 1 : MOST_STEP;
}

static void started(struct run *run)
{
    if ((run->watch != NULL && !is_podman(run)) || ports_wanted(run))
        look_later(run);
}

/* What the client has written to --cidfile, which may lie where somebody inside can write. */
static char *container(void)
{
    char *number = read_file(AT_FDCWD, cid, 128, NULL);
    if (number != NULL)
        number[strcspn(number, "\n")] = '\0';
    return number != NULL && number[0] != '\0' && number[strspn(number, "0123456789abcdef")] == '\0' ? number : NULL;
}

/* The container's first process; 0 while there is none, -1 where it can't be known. Podman's monitor is its parent. */
static pid_t first_of(struct run *run)
{
    if (!is_podman(run))
        return container() != NULL ? first_process(run) : 0;
    const char *said = read_file(AT_FDCWD, text("%s/pid", run->state), 32, NULL);
    const char *monitor = read_file(AT_FDCWD, text("%s/monitor", run->state), 32, NULL);
    pid_t first = said == NULL ? 0 : (pid_t)atoi(said);
    return first > 0 && monitor != NULL && parent_of(first) == (pid_t)atoi(monitor) ? first : 0;
}

/* Once it was entered, its number is looked for again, as it could have been another's. */
static bool opens_ports(struct run *run, pid_t first)
{
    int network = network_of(first);
    if (network >= 0 && first_of(run) == first)
        return ports_open(network, false);
    close(network);
    say("the container's network can't be entered");
    return false;
}

/* Podman writes the number of the container's first process for who watches; Docker has to be asked. */
static void readable(struct run *run)
{
    unsigned long times;
    if (read(run->wakes, &times, sizeof times) < 0)
        return;
    pid_t first = first_of(run);
    char *number = text("%d\n", (int)first);
    if (first == 0)
        look_later(run);
    else if (first > 0 && run->watch != NULL && !is_podman(run))
        write_file(AT_FDCWD, text("%s/pid", run->state), number, strlen(number), 0600);
    if (first != 0 && ports_wanted(run) && !opens_ports(run, first)) {
        refused = true;
        run->method->end(run);
    }
}

static bool runs(const struct run *run)
{
    siginfo_t info = {0};
    return run->child > 0 && waitid(P_PID, (id_t)run->child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

void remove_by_force(struct run *run, const char *name)
{
    ask(run, "rm", "--force", "--volumes", is_podman(run) ? "--time=0" : "--force", name, NULL);
}

/* Removes the container. What was asked for is made though who asked was killed, so that it may yet appear; and the
 * engine may be about to remove it. A client that waits for its terminal to take more doesn't end by itself, and Docker's daemon waits for
 * it. */
static void remove_container(struct run *run)
{
    char *name = text("name=^%s$", run->name);
    if (!is_podman(run) && container() != NULL && runs(run))
        kill(run->child, SIGKILL);
    long until = milliseconds() + REMOVING;
    for (int tries = 0; milliseconds() < until; tries++) {
        remove_by_force(run, run->name);
        char *there = ask(run, "ps", "--all", "--quiet", "--filter", name, NULL);
        bool ended = !runs(run) || (container() != NULL && tries >= 20);
        if (there != NULL && there[0] == '\0' && ended &&
            (container() != NULL || tries >= (is_podman(run) ? 1 : 20))) {
            gone = true;
            return;
        }
        pause_for(100);
    }
    say("%s does not answer: %s may be there yet", title(run), run->name);
}

/* A client that was killed may leave a container that Podman does not know of, with its monitor (conmon(8)), which is
 * a descendant of ours; and what the runtime keeps of it. */
static void remove_unknown(struct run *run)
{
    char *monitor = read_file(AT_FDCWD, text("%s/monitor", run->state), 32, NULL), *runtime, *output;
    if (!is_podman(run) || monitor == NULL || monitor[0] == '\0')
        return;
    end_descendants();
    if (is_set("SANDWRIGHT_CIDFILE") || container() == NULL ||
        (runtime = ask(run, "info", "--format", "{{.Host.OCIRuntime.Path}}", NULL)) == NULL)
        return;
    runtime[strcspn(runtime, "\n")] = '\0';
    char *const argv[] = {runtime, text("delete"), text("--force"), container(), NULL};
    capture(run, argv, &output, ASKING);
}

/* Podman's client before 4.5 passes signals on only when the command runs already, and dies of one that comes before
 * (containers/podman#17489): they go to the container itself, and to the client while there is none. */
static bool deliver(struct run *run, int number)
{
    signalled = signalled || (number != SIGWINCH && number != SIGTSTP && number != SIGCONT);
    return (is_podman(run) && ask(run, "kill", text("--signal=%d", number), run->name, NULL) != NULL) ||
           kill(run->child, number) == 0;
}

/* ---- at the end */

static int status(struct run *run, int ended)
{
    int code = refused ? NOT_RUN : exit_status(ended);
    if (code == NOT_RUN && container() == NULL) {
        gone = true;
        /* An engine that does not answer has said so. */
        if (ask(run, "image", "inspect", "--format", ".", run->plan.started.at[0], NULL) == NULL &&
            ask(run, "ps", "--quiet", NULL) != NULL)
            say("%s", run->plan.image_missing);
    } else if (code < NOT_RUN && !signalled)
        gone = true;
    else if (!gone)
        remove_container(run);
    run->over = gone && !WIFSIGNALED(ended);
    return code;
}

static void clean(struct run *run)
{
    if (access(run->state, F_OK) != 0)
        return;
    if (cid == NULL)
        choose_cid(run);
    if (!gone)
        remove_container(run);
    if (!run->over)
        remove_unknown(run);
    if (run->plan.proxy)
        proxy_remove(run);
    remove_tree(run->state);
}

const struct method engine_method = {
    .name = "engine",
    .client = true,
    .check = check,
    .prepare = prepare,
    .start = start,
    .started = started,
    .readable = readable,
    .deliver = deliver,
    .end = remove_container,
    .status = status,
    .clean = clean,
};
