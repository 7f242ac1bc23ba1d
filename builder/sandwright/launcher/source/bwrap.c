/* Starts bubblewrap, which creates the namespaces and mounts, and then waits (--block-fd) until the watch has
 * compared the mounts with the plan. No program of the sandbox runs before that. */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "closed.h"
#include "landlock.h"
#include "launch.h"
#include "requests.h"
#include "vm_ports.h"

/* The numbers of bubblewrap's descriptors. `args` contains that of the filter. */
enum { ARGUMENTS = 3, SETTINGS, FILTER, BLOCK, SAYS, STOP_FD, FREE, CONFINED = 100, GUEST = CONFINED + 2,
       WALL = CONFINED + 2, REQUESTS = WALL + 1 };
enum { MOST_PROGRAM = 1 << 26, TRYING = 60000, ENDING = 100 }; /* bytes; milliseconds */
static const char ELF[] = "\177ELF";

/* bubblewrap's messages that mean that the host changed just then, so a retry may succeed. */
static const char *const PASSING[] = {"Unable to apply mount flags", "Unable to remount destination", "in mount table"};

/* Mounted read-only: otherwise a program inside could change the host's file through /proc/N/exe. */
static const char INIT[] = "/dev/.sandwright-init";

static const char *program;
static char *typed;             /* the command's first word as the caller wrote it */
static struct strv extra_args;  /* further arguments: the environment */
static int block[2], says[2];   /* two pipes: bubblewrap waits for `block`, and reports its child in `says` */
static int stop_fd[2] = {-1, -1};  /* a pipe to which init writes when the command stops */
static int requests = -1;       /* the first process's end (requests.h) */
static pid_t first;             /* the sandbox's first process */
static int first_handle = -1;
static struct watch watch = {.waits_on = BLOCK};
static bool released, ran, refused, once_more, walled;
static char status_text[4096];  /* the output of bubblewrap's --json-status-fd since the last newline */
static size_t status_length;

static void lay_over(const char *artifact, const char *place, const struct run *run)
{
    char *const bind[] = {"--ro-bind", xasprintf("%s/%s", run->directory, artifact), (char *)place};
    if (place != NULL)
        strv_extend(&extra_args, &(struct strv){(char **)bind, 3});
}

/* Mounts a bundle with this run's certificate authority over the host's bundles that are visible inside. */
static void lay_authorities(const struct run *run, struct strv *shown)
{
    const char *copy = run->document.authorities != NULL ? authorities_copy(run) : NULL, *store;
    if (copy == NULL)
        return;
    struct strv stores = authorities_stores(run, NULL, &store);
    const struct strv *places[] = {&run->plan.authorities.bundles, &stores};
    for (size_t kind = 0; kind < sizeof places / sizeof *places; kind++)
        for (size_t index = 0; index < places[kind]->count; index++) {
            char *const bind[] = {"--ro-bind", (char *)(kind == 0 ? copy : store), places[kind]->at[index]};
            if (shown == NULL)
                strv_extend(&extra_args, &(struct strv){(char **)bind, 3});
            else if (!strv_contains(shown, bind[1]))
                strv_push(shown, bind[1]);
        }
}

static char *inside_program(const struct run *run)
{
    return xasprintf("%s/%s", run->directory, has_kernel(run) ? "launch-vm" : "launch-init");
}

/* The guest kernel's calls to the host are not the command's, so they are not supervised, except those that
 * create links. */
static bool is_supervised(const struct run *run)
{
    return !has_kernel(run) || run->plan.repositories.count > 0;
}

static void bwrap_check(struct run *run)
{
    if ((program = find_program(run, "bwrap")) == NULL)
        die("bwrap (bubblewrap) is not installed");
    typed = run->command[0];
    for (size_t index = 0; index < run->passed.count; index++) {
        char *name = xasprintf("%s", run->passed.at[index]), *value = strchr(name, '=');
        *value = '\0';
        strv_push(&extra_args, "--setenv");
        strv_push(&extra_args, name);
        strv_push(&extra_args, value + 1);
    }
    /* bubblewrap's own first process would have no listener, and through its memory (/proc/1/mem) a command
     * could install one for its own calls. */
    char *const first_bind[] = {"--as-pid-1", "--ro-bind", inside_program(run), (char *)INIT};
    strv_extend(&extra_args, &(struct strv){(char **)first_bind, 4});
    const char *stop = stop_word(run, xasprintf("%d", STOP_FD));
    if (has_kernel(run))
        vm_command(run, &extra_args, INIT, stop, xasprintf("%d", GUEST), vm_ports_wanted(run) ? xasprintf("%d", GUEST + 1) : "-");
    else
        init_command(run, INIT, stop, REQUESTS);
    if (run->plan.shims.enabled) {
        const char *path = run->given_path != NULL ? run->given_path : "/usr/local/bin:/usr/bin:/bin";
        shims_check(run);
        shims_command(run, false);
        if (run->plan.shims.loopback)
            put_before(run, (char *[]){(char *)INIT}, 1);
        char *const bind[] = {"--ro-bind", (char *)run->document.shims, (char *)run->plan.shims.place, "--setenv", "PATH"};
        strv_extend(&extra_args, &(struct strv){(char **)bind, 5});
        strv_push(&extra_args, xasprintf("%s/bin:%s", run->plan.shims.place, run->plan.shims.search != NULL ? run->plan.shims.search : path));
    }
    if (!has_kernel(run)) {
        lay_over("resolv.conf", run->plan.names.resolver_place, run);
        lay_over("hosts", run->plan.names.hosts_place, run);
    }
    lay_authorities(run, NULL);
    if (run->plan.proxy)
        egress_check(run);
    if (is_supervised(run))
        notify_command(run, CONFINED);
    walled = !has_kernel(run) && backstop_available(run);
    if (walled)
        backstop_command(run, WALL);
    closed_check(run);
}

static void bwrap_prepare(struct run *run)
{
    if (pipe2(block, O_CLOEXEC) != 0 || pipe2(says, O_CLOEXEC) != 0 || fcntl(says[0], F_SETFL, O_NONBLOCK) != 0 ||
        (is_reported(run) && pipe2(stop_fd, O_CLOEXEC | O_NONBLOCK) != 0))
        die_errno("cannot create a pipe");
    run->stop_fd = stop_fd[0];
    run->wakes = says[0];
    if (!has_kernel(run))
        requests = requests_pair(run);
    closed_prepare(run);
    if (is_supervised(run))
        notify_start(run);
}

/* Puts a file at the number that bubblewrap's arguments name. */
static void give(int file, int number)
{
    if (file < 0 || dup2(file, number) < 0)
        die_errno("cannot pass arguments to bubblewrap");
}

/* At the numbers that `args` names. */
static void give_ignored(const struct run *run)
{
    if (run->plan.ignored.count == 0)
        return;
    /* The file is opened anew for each number, because duplicates of a descriptor share their position. */
    int content = fcntl(memory_file("gitignore", "*\n", 2), F_DUPFD_CLOEXEC, FREE + (int)run->plan.ignored.count);
    const char *path = xasprintf("/proc/self/fd/%d", content);
    for (size_t index = 0; index < run->plan.ignored.count; index++) {
        int file = open(path, O_RDONLY | O_CLOEXEC), number = FREE + (int)index;
        if (file == number && fcntl(file, F_SETFD, 0) == 0)
            continue;
        give(file, number);
        close(file);
    }
}

static int artifact(const struct run *run, const char *name)
{
    size_t length;
    const char *content = checked_artifact(run, name, &length);
    return memory_file(name, content, length);
}

/* bubblewrap stays as the first process inside, and through /proc/1/exe a program inside could change it on
 * the host if the user owns the file (CVE-2019-5736). In that case, a sealed copy is executed. */
static _Noreturn void execute(char *const *words)
{
    static const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
    char *const nothing[] = {NULL};
    struct stat status;
    size_t length;
    char *content = stat(program, &status) != 0 || status.st_uid != geteuid()
                        ? NULL
                        : read_file(AT_FDCWD, program, MOST_PROGRAM, &length);
    if (content != NULL && strncmp(content, ELF, sizeof ELF - 1) == 0) {
        int copy = memory_file("bwrap", content, length);
        if (fcntl(copy, F_ADD_SEALS, seals) == 0)
            syscall(SYS_execveat, copy, "", words, nothing, AT_EMPTY_PATH);
        die_errno("cannot start %s from a copy, and the command could change the original", program);
    }
    execve(program, words, nothing);
    die_errno("cannot start %s", program);
}

static _Noreturn void become(struct run *run, bool tries)
{
    struct strv all = {0};
    struct bytes settings = {0};
    bytes_words(&settings, &extra_args);
    /* Above the target numbers, because `dup2` closes what is open there. */
    int files[] = {artifact(run, "args"), memory_file("settings", settings.at, settings.end),
                   !has_kernel(run) ? notify_asking() : artifact(run, "seccomp.bpf"),
                   /* Opened for writing too: otherwise, if the process that is to let bubblewrap go died, the
                    * end of the pipe would do that. */
                   tries ? -1 : open(xasprintf("/proc/self/fd/%d", block[0]), O_RDWR | O_CLOEXEC), says[1],
                   stop_fd[1], has_kernel(run) ? artifact(run, "guest.bpf") : -1, vm_ports_channel()};
    for (size_t index = 0; index < sizeof files / sizeof *files; index++)
        files[index] = fcntl(files[index], F_DUPFD_CLOEXEC, FREE + (int)run->plan.ignored.count);
    for (int number = ARGUMENTS; number <= (tries ? FILTER : is_reported(run) ? STOP_FD : SAYS); number++)
        give(files[number - ARGUMENTS], number);
    give_ignored(run);
    if (has_kernel(run) && !tries)
        give(files[STOP_FD + 1 - ARGUMENTS], GUEST);
    if (vm_ports_wanted(run) && !tries)
        give(files[STOP_FD + 2 - ARGUMENTS], GUEST + 1);
    static const char *const words[] = {"bwrap", "--args", "3", "--args", "4", "--json-status-fd", "7", "--block-fd", "6"};
    for (size_t index = 0; index < (tries ? 5 : sizeof words / sizeof *words); index++)
        strv_push(&all, (char *)words[index]);
    strv_push(&all, "--");
    if (tries)
        strv_push(&all, "/proc/none/such");
    else
        strv_push_all(&all, run->command);
    execute(all.at);
}

/* The second wall, with the mounts of this run. */
static void make_wall(const struct run *run)
{
    struct strv shown = {0};
    strv_push(&shown, inside_program(run));
    if (run->plan.shims.enabled)
        strv_push(&shown, (char *)run->document.shims);
    if (run->plan.names.resolver_place != NULL)
        strv_push(&shown, xasprintf("%s/resolv.conf", run->directory));
    if (run->plan.names.hosts_place != NULL)
        strv_push(&shown, xasprintf("%s/hosts", run->directory));
    lay_authorities(run, &shown);
    backstop_hand_over(backstop_make(run, &shown), WALL);
}

static void bwrap_start(struct run *run)
{
    keep_devices();
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (is_supervised(run))
        notify_hand_over(); /* maybe above RLIMIT_NOFILE, which is lowered only below */
    if (walled)
        make_wall(run);
    if (requests >= 0)
        give(requests, REQUESTS);
    /* Also limits bubblewrap, so that no program inside can raise it. */
    if (run->plan.files >= 0 && !has_kernel(run))
        lower_limit(RLIMIT_NOFILE, (rlim_t)run->plan.files, 0, "files");
    become(run, false);
}

static void bwrap_started(struct run *run)
{
    (void)run;
    close(block[0]);
    close(says[1]);
    close(stop_fd[1]);
    close(requests);
    if (is_supervised(run))
        notify_started();
}

static void bwrap_end(struct run *run)
{
    (void)run;
    if (first_handle >= 0)
        syscall(SYS_pidfd_send_signal, first_handle, SIGKILL, NULL, 0);
    else if (first > 0 && parent_of(first) == run->child)
        kill(first, SIGKILL);
}

/* Waits for at most `patience` milliseconds. */
static bool has_ended(int patience)
{
    struct pollfd each = {.fd = first_handle, .events = POLLIN};
    return poll(&each, 1, patience) == 1;
}

static bool ways_open(struct run *run)
{
    if (run->plan.proxy && !has_kernel(run) && !egress_open(run, first, true))
        return false;
    return !ports_wanted(run) || ports_open(network_of(first), true);
}

/* Opens a pidfd of bubblewrap's child. Its PID can't be reused while bubblewrap runs and has not waited for
 * it. */
static void hold(struct run *run, pid_t number)
{
    first_handle = (int)syscall(SYS_pidfd_open, number, 0);
    if (number <= 0 || parent_of(number) != run->child) {
        if (first_handle >= 0)
            close(first_handle);
        first_handle = -1;
        return; /* it has ended, so bubblewrap will end, too */
    }
    first = number;
    /* Set on the first process inside, because a user namespace counts its own processes (Linux 5.14). */
    if (run->plan.pids >= 0 && !has_kernel(run) && geteuid() != 0)
        lower_limit(RLIMIT_NPROC, (rlim_t)run->plan.pids, first, "pids");
    watch.first = first;
    watch_start(run, &watch);
    run->watch = &watch;
    run->wakes = watch.says;
    if (!has_ended(0) && !ways_open(run)) {
        /* A process that has ended has no network either; bubblewrap reports why, and a retry may succeed. */
        refused = !has_ended(ENDING);
        bwrap_end(run);
    }
}

static void let_go(struct run *run)
{
    run->wakes = says[0];
    if (run->watch == NULL || !watch_mounted(&watch) || refused)
        return;
    if (!launcher_there())
        bwrap_end(run);
    else if (write(block[1], "1", 1) == 1)
        released = true;
}

static void hear(struct run *run)
{
    ssize_t got = 0;
    while (status_length < sizeof status_text - 1 && (got = read(says[0], status_text + status_length, sizeof status_text - 1 - status_length)) > 0)
        status_length += (size_t)got;
    status_text[status_length] = '\0';
    char *process = strstr(status_text, "\"child-pid\": ");
    ran = ran || strstr(status_text, "\"exit-code\": ") != NULL;
    if (process != NULL && first == 0 && strchr(process, '\n') != NULL)
        hold(run, (pid_t)strtol(process + strlen("\"child-pid\": "), NULL, 10));
    if (got == 0 && run->wakes == says[0])
        run->wakes = -1;
}

static void bwrap_readable(struct run *run)
{
    if (run->wakes == says[0])
        hear(run);
    else
        let_go(run);
}

/* Not to bubblewrap, which is between monitor and init: the signal would kill it, and the command with it. */
static bool bwrap_deliver(struct run *run, int number)
{
    (void)run;
    pid_t command;
    /* init accepts signals once it has started the command, and forwards them. */
    return released && children_of(first, &command, 1) > 0 && first_handle >= 0 &&
           syscall(SYS_pidfd_send_signal, first_handle, number, NULL, 0) == 0;
}

/* bubblewrap exits with 1 if it could not run the command. To find the reason, the launcher starts it again
 * with a command that can't be executed. If bubblewrap gets as far as that, the reason was the command
 * itself, or has passed: bubblewrap reads all mounts of the machine, and fails if one of them disappears at
 * that moment. */
static int not_run(struct run *run)
{
    char words[4096] = "";
    struct stat status;
    int handle;
    _cleanup_close_ int file = memfd_create("errors", MFD_CLOEXEC);
    pid_t child = file < 0 ? -1 : fork_child(&handle);
    if (child == 0) {
        redirect_to_null(0, 0);
        if (dup2(file, 1) < 0 || dup2(file, 2) < 0)
            _exit(NOT_RUN);
        become(run, true);
    }
    if (child < 0 || wait_for(child, handle, TRYING) < 0 || pread(file, words, sizeof words - 1, 0) < 0)
        return NOT_RUN;
    for (size_t index = 0; index < sizeof PASSING / sizeof *PASSING; index++)
        once_more = once_more || strstr(words, PASSING[index]) != NULL;
    if (strstr(words, "execvp /proc/none/such: ") == NULL)
        return NOT_RUN;
    const char *found = strchr(typed, '/') != NULL ? typed : find_program(run, typed);
    if (found == NULL || stat(found, &status) != 0)
        return 127;
    once_more = !S_ISDIR(status.st_mode) && access(found, X_OK) == 0;
    return 126;
}

static int bwrap_status(struct run *run, int status)
{
    hear(run);
    close(says[0]);
    close(block[1]);
    run->wakes = -1;
    if (refused)
        return NOT_RUN;
    return !ran && exit_status(status) == 1 ? not_run(run) : exit_status(status);
}

static bool bwrap_again(struct run *run)
{
    if (!once_more)
        return false;
    if (first_handle >= 0)
        close(first_handle);
    first = 0;
    first_handle = -1;
    released = ran = once_more = false;
    status_length = 0;
    bwrap_prepare(run);
    return true;
}

static void bwrap_clean(struct run *run)
{
    if (run->plan.proxy)
        egress_close(run);
}

const struct method bwrap_method = {
    .name = "bwrap",
    .limits = true,
    .own_session = true,
    .stateless = true,
    .check = bwrap_check,
    .prepare = bwrap_prepare,
    .start = bwrap_start,
    .started = bwrap_started,
    .readable = bwrap_readable,
    .deliver = bwrap_deliver,
    .end = bwrap_end,
    .status = bwrap_status,
    .clean = bwrap_clean,
    .again = bwrap_again,
};
