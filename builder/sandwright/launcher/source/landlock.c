/* The method landlock: the command restricts itself before it is executed, with rules that nothing it starts
 * can lift. It needs no namespaces, so it works where none can be created.
 *
 * Without a PID namespace, the run's processes are killed by one of their own, the ender. There are two
 * nested Landlock domains: the ender is in the outer one, the command in the inner one. Landlock's scopes let
 * the ender send signals to both domains, and to no process outside. `kill(-1)` in the ender therefore kills
 * all processes of the run in one system call, whatever their sessions and parents are, and those that are
 * just being forked. The command can signal only the inner domain. The ender waits until the other end of a
 * socket is closed, which only the monitor has open.
 */
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

static int ours = -1, enders = -1; /* the two ends of the ender's socket */
static int stop_fd[2] = {-1, -1};     /* a pipe to which init writes when the command stops */
static int requests = -1;              /* the first process's end (requests.h) */
static struct strv variables;
/* The program of the guest kernel (vm.c), which then runs under the rules instead of the command. */
static const char *kernel;

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

/* The path must contain no blanks, because it is part of the kernel's command line. */
static void prepare_kernel(struct run *run)
{
    static struct watch watch = {.by_name = true};
    if (symlink(vm_guest(run), xasprintf("%s/init", temporary(run))) != 0)
        die_errno("cannot create %s/init", temporary(run));
    paths_prepare(run, kernel, vm_guest(run), temporary(run));
    watch_start(run, &watch);
    run->watch = &watch;
    if (!watch_mounted(&watch))
        die("cannot watch paths of the host");
}

static void landlock_prepare(struct run *run)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        die_errno("cannot create a socket");
    ours = ends[0];
    enders = ends[1];
    if (is_reported(run) && pipe2(stop_fd, O_CLOEXEC | O_NONBLOCK) != 0)
        die_errno("cannot create a pipe");
    run->stop_fd = stop_fd[0];
    if (kernel == NULL)
        requests = requests_pair(run);
    if (!run->plan.sockets.supervised) /* otherwise the supervisor is the command's parent */
        notify_start(run);
    rundir_make(run, "landlock");
    if (temporary(run) != NULL && mkdir(temporary(run), 0700) != 0)
        die_errno("cannot create %s", temporary(run));
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

/* When the ender has ended, it has killed all processes of the domain. */
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
    /* Closes its outputs: its messages are useless, and it must not keep the command's end of a pipe open. */
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

/* Whether signals of this domain reach no process outside. Otherwise `kill(-1)` would kill all processes of
 * the user. */
static bool is_alone(const struct run *run)
{
    return kill(run->monitor, 0) != 0 && errno == EPERM && kill(1, 0) != 0 && errno == EPERM;
}

/* The process that forks the ender ends, so the ender becomes the monitor's child, not the command's. */
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
        die_errno("cannot create a process");
}

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

/* If the file exists. */
static void grant_file(int ruleset, const char *path, uint64_t rights)
{
    _cleanup_close_ int file = open(path, O_PATH | O_CLOEXEC);
    if (file >= 0)
        landlock_path(ruleset, file, rights, path);
}

/* The supervisor decides by the mount plan which directories can be listed (paths.c). */
static void grant_kernel(const struct run *run, int ruleset)
{
    grant_file(ruleset, "/", MAY_LIST);
    grant_file(ruleset, kernel, MAY_EXECUTE | MAY_READ);
    grant_file(ruleset, vm_guest(run), MAY_READ);
}

/* Nothing can be mounted, so variables name the bundle with this run's certificate authority. */
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

/* Rules for ports and scopes. MAY_REFER is allowed everywhere, because every domain must allow links and
 * moves, and another domain decides about those files. */
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

/* The kernel's process may only execute its program, with the dynamic loader. It gets everything else from
 * the supervisor. */
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

/* Values that name the temporary directory are changed to the run's own directory, the only accessible
 * one. */
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

/* Three domains: one for files, which includes the supervisor, one for the run, and one for the command. */
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
        die_errno("cannot change directory to %s", run->plan.landlock.start_directory);
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
