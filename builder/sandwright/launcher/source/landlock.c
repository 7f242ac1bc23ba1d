/* Landlock: the command restricts itself, before it is executed, by rules that nothing it starts can lift. There are no
 * namespaces, so that this starts where none can be made.
 *
 * Without a namespace of processes the run's processes are ended by one of their own domain, the ender. It is in the outer
 * of two domains and the command in the inner one: signals of the outer reach the inner and no other process, so that
 * `kill(-1)` there ends all processes of the run in one call of the kernel, whatever sessions and parents they have given
 * themselves, and those that are being forked. The command reaches no process outside of the inner domain. The ender waits
 * for the end of a socket whose other end only the monitor has. */
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "refusals.h"
#include "landlock.h"
#include "launch.h"
#include "paths.h"
#include "requests.h"
#include "vm_ports.h"

enum { PATIENCE = 5000 }; /* milliseconds */

static int ours = -1, enders = -1; /* the ends of the ender's socket */
static int stop_fd[2] = {-1, -1};     /* a pipe: init writes when the command stops */
static int requests = -1;              /* the first process's end (requests.h) */
static struct strv variables;
static const char *kernel; /* the program of a kernel of the command's own (vm.c), which is what runs under the rules then */

/* ---- the launcher, and the monitor */
static const char *temporary(const struct run *run)
{
    return run->plan.landlock.temporary == NULL ? NULL : xasprintf("%s/%s", run->plan.landlock.temporary, run->name);
}

static void landlock_check(struct run *run)
{
    const char *lacks = landlock_lacks(landlock_version());
    if (lacks != NULL)
        die("%s", lacks);
    notify_filter(run, "seccomp.bpf");
    notify_filter(run, "closed.bpf");
    refusals_share();
    if (run->plan.proxy)
        egress_check(run);
    if (has_kernel(run) && (kernel = find_program(run, run->plan.vm.kernel)) == NULL)
        die("%s (User-Mode Linux) is not installed", run->plan.vm.kernel);
}

/* A name without blanks, which the kernel's command line can have. */
static void prepare_kernel(struct run *run)
{
    static struct watch watch = {.by_name = true};
    if (symlink(vm_guest(run), xasprintf("%s/init", temporary(run))) != 0)
        die_errno("%s/init can't be made", temporary(run));
    paths_prepare(run, kernel, vm_guest(run), temporary(run));
    watch_start(run, &watch);
    run->watch = &watch;
    if (!watch_mounted(&watch))
        die("the paths of the host can't be watched");
}

static void landlock_prepare(struct run *run)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        die_errno("no socket can be made");
    ours = ends[0];
    enders = ends[1];
    if (is_reported(run) && pipe2(stop_fd, O_CLOEXEC | O_NONBLOCK) != 0)
        die_errno("no pipe can be made");
    run->stop_fd = stop_fd[0];
    if (kernel == NULL)
        requests = requests_pair(run);
    if (!run->plan.sockets.supervised) /* else the command's parent does it */
        notify_start(run);
    rundir_make(run, "landlock");
    if (temporary(run) != NULL && mkdir(temporary(run), 0700) != 0)
        die_errno("%s can't be made", temporary(run));
    if (kernel != NULL)
        prepare_kernel(run);
}

static void landlock_started(struct run *run)
{
    (void)run;
    close(enders);
    enders = -1;
    close(stop_fd[1]);
    close(requests);
    notify_started();
}

/* All of the domain have been killed when the ender has ended. */
static void landlock_end(struct run *run)
{
    struct pollfd each = {.fd = ours, .events = 0};
    (void)run;
    if (ours < 0)
        return;
    shutdown(ours, SHUT_WR);
    for (long until = milliseconds() + PATIENCE, left = PATIENCE; left > 0 && (each.revents & POLLHUP) == 0;
         left = until - milliseconds())
        if (poll(&each, 1, (int)left) < 0 && errno != EINTR)
            break;
    close(ours);
    ours = -1;
}

static int landlock_status(struct run *run, int status)
{
    landlock_end(run);
    return exit_status(status);
}

static void landlock_clean(struct run *run)
{
    if (temporary(run) != NULL)
        remove_tree(temporary(run));
    remove_tree(run->state);
}

/* ---- the ender */
static _Noreturn void wait_for_the_end(void)
{
    char nothing;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, 0);
    setsid();
    /* Its messages are of no use, and the command's end of a pipe must not stay open by it. */
    if (dup2(enders, 0) < 0)
        _exit(NOT_RUN);
    close(1);
    close(2);
    close_others(NULL, 0);
    while (read(0, &nothing, 1) < 0 && errno == EINTR)
        ;
    kill(-1, SIGKILL);
    _exit(0);
}

/* Signals of this domain reach no process outside, not even the monitor: else `kill(-1)` would end all of the user's. */
static bool is_alone(const struct run *run)
{
    return kill(run->monitor, 0) != 0 && errno == EPERM && kill(1, 0) != 0 && errno == EPERM;
}

/* It is not the command's child: the process between ends, so that it becomes the monitor's. */
static void start_ender(const struct run *run)
{
    int status;
    if (!is_alone(run))
        die("Landlock cannot restrict signals on this kernel");
    pid_t between = fork();
    if (between == 0) {
        pid_t ender = fork();
        if (ender == 0)
            wait_for_the_end();
        _exit(ender < 0 ? NOT_RUN : 0);
    }
    if (between < 0 || waitpid(between, &status, 0) != between || status != 0)
        die_errno("no process can be made");
}

/* ---- the command */
static void grant_own_directory(const struct run *run, int ruleset)
{
    _cleanup_close_ int own = open_without_links(AT_FDCWD, temporary(run), O_PATH | O_DIRECTORY, 0);
    if (own < 0)
        die_errno("%s", temporary(run));
    landlock_path(ruleset, own, ALL_FILES & ~(MAY_MAKE_CHARACTER_DEVICE | MAY_MAKE_BLOCK_DEVICE | MAY_CONTROL_DEVICE),
                  temporary(run));
    if (kernel == NULL)
        strv_push(&variables, xasprintf("TMPDIR=%s", temporary(run)));
}

/* If it is there. */
static void grant_file(int ruleset, const char *path, uint64_t rights)
{
    _cleanup_close_ int file = open(path, O_PATH | O_CLOEXEC);
    if (file >= 0)
        landlock_path(ruleset, file, rights, path);
}

/* The plan of mounts decides by name which entries are listed (paths.c). */
static void grant_kernel(const struct run *run, int ruleset)
{
    grant_file(ruleset, "/", MAY_LIST);
    grant_file(ruleset, kernel, MAY_EXECUTE | MAY_READ);
    grant_file(ruleset, vm_guest(run), MAY_READ);
}

/* Nothing is mounted: variables name the bundle with the authority of this run's proxy. */
static void grant_authorities(const struct run *run, int ruleset)
{
    const char *copy = run->document.authorities != NULL ? authorities_copy(run) : NULL;
    if (copy == NULL)
        return;
    grant_file(ruleset, copy, MAY_READ);
    for (size_t index = 0; index < run->plan.authorities.variables.count; index++)
        strv_push(&variables, xasprintf("%s=%s", run->plan.authorities.variables.at[index], copy));
}

static int make_file_rules(const struct run *run)
{
    int ruleset = landlock_make(&(struct landlock_rules){.files = ALL_FILES});
    grant_paths(run, ruleset);
    if (kernel != NULL)
        grant_kernel(run, ruleset);
    if (temporary(run) != NULL)
        grant_own_directory(run, ruleset);
    grant_authorities(run, ruleset);
    return ruleset;
}

/* Rights without a file. Each domain has to let files be linked and moved that another one decides about. */
static int make_other_rules(const struct run *run, uint64_t ports)
{
    int ruleset = landlock_make(&(struct landlock_rules){MAY_REFER, ports, ALL_SCOPES});
    _cleanup_close_ int all = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (all < 0)
        die_errno("/");
    landlock_path(ruleset, all, MAY_REFER, "/");
    for (size_t index = 0; ports != 0 && index < run->plan.landlock.ports_connect.count; index++)
        landlock_port(ruleset, MAY_CONNECT, run->plan.landlock.ports_connect.at[index]);
    for (size_t index = 0; ports != 0 && index < run->plan.landlock.ports_bind.count; index++)
        landlock_port(ruleset, MAY_BIND, run->plan.landlock.ports_bind.at[index]);
    return ruleset;
}

/* Nothing but to become that program, with the loader that it names: all else it is handed. */
static int make_kernel_rules(void)
{
    int ruleset = landlock_make(&(struct landlock_rules){ALL_FILES, ALL_PORTS, ALL_SCOPES});
    grant_file(ruleset, kernel, MAY_EXECUTE | MAY_READ);
    grant_file(ruleset, "/lib64/ld-linux-x86-64.so.2", MAY_EXECUTE | MAY_READ);
    return ruleset;
}

static _Noreturn void become(struct run *run)
{
    char *none = NULL, *const *all = variables.count == 0 ? &none : variables.at;
    notify_confine(false);
    if (kernel != NULL)
        vm_here(run, stop_word(run, xasprintf("%d", stop_fd[1])), vm_ports_channel(), kernel, temporary(run), all);
    requests_serve(requests, (char **)all);
    if (is_reported(run))
        init_here(stop_word(run, xasprintf("%d", stop_fd[1])), run->command, all);
    exec_command(run->command, all);
}

/* A value in the temporary directory names the run's own, as that is the one that may be used. */
static void add_settings(const struct run *run)
{
    size_t length = run->plan.landlock.temporary == NULL || kernel != NULL ? 0 : strlen(run->plan.landlock.temporary);
    for (size_t index = 0; index < run->plan.landlock.settings.count; index++) {
        char *setting = run->plan.landlock.settings.at[index];
        const char *value = setting + strcspn(setting, "=") + 1;
        bool own = length > 0 && strncmp(value, run->plan.landlock.temporary, length) == 0 && (value[length] == '/' || value[length] == '\0');
        strv_push(&variables, own ? xasprintf("%.*s%s%s", (int)(value - setting), setting, temporary(run), value + length) : setting);
    }
}

/* Three domains: of files, in which the supervisor is, too, of the run, and of the command. */
static void landlock_start(struct run *run)
{
    pid_t above = run->monitor;
    close(ours);
    strv_extend(&variables, &run->passed);
    add_settings(run);
    int files = make_file_rules(run), run_rules = make_other_rules(run, 0);
    int rules = kernel != NULL ? make_kernel_rules() : make_other_rules(run, run->plan.landlock.ports_closed ? ALL_PORTS : 0);
    if (!drop_capabilities())
        die_errno("cannot drop privileges");
    if (run->plan.sockets.supervised)
        above = notify_above(run, files);
    else
        landlock_enter(files);
    terminal_control(run);
    lower_limit(RLIMIT_CORE, 0, 0, "core");
    if (run->plan.files >= 0 && kernel == NULL)
        lower_limit(RLIMIT_NOFILE, (rlim_t)run->plan.files, 0, "files");
    landlock_enter(run_rules);
    start_ender(run);
    landlock_enter(rules);
    if (chdir(kernel != NULL ? "/" : run->plan.landlock.start_directory) != 0)
        die_errno("%s can't be entered", run->plan.landlock.start_directory);
    close_others((int[]){stop_fd[1], notify_channel(), vm_ports_channel(), requests}, 4);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != above)
        _exit(NOT_RUN);
    become(run);
}

const struct method landlock_method = {
    .name = "landlock",
    .limits = true,
    .own_session = true,
    .check = landlock_check,
    .prepare = landlock_prepare,
    .start = landlock_start,
    .started = landlock_started,
    .end = landlock_end,
    .status = landlock_status,
    .clean = landlock_clean,
};
