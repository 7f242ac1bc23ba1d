/* The root half of the method user: creates namespaces, and in them the first process, which mounts the root,
 * starts the command as the account, and forwards signals. When the first process ends, all others end. */
#define _GNU_SOURCE
#include <pwd.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "landlock.h"
#include "requests.h"
#include "user.h"

/* Only IDs of a named account are accepted: setresuid(2) treats the highest ID as "unchanged". */
static const struct passwd *account;
static struct strv variables;
static const char *place;
static int root = -1; /* a descriptor of the mount at `place` */

static _Noreturn void begin_command(struct run *run, int report)
{
    struct strv shown = {0};
    /* The host's files of the run for host names. */
    strv_push(&shown, xasprintf("%s/resolv.conf", run->directory));
    strv_push(&shown, xasprintf("%s/hosts", run->directory));
    int wall = backstop_available(run) ? backstop_make(run, &shown) : -1;
    job_begin(0);
    if (fchdir(root) != 0 || chroot(".") != 0)
        die_errno("cannot make %s the root", place);
    lower_limit(RLIMIT_CORE, 0, 0, "core");
    if (run->plan.files >= 0) /* not in the first process: with a limit below 3, poll(2) would fail there */
        lower_limit(RLIMIT_NOFILE, (rlim_t)run->plan.files, 0, "files");
    /* Counted for the account, not for the caller. */
    struct rlimit most = {(rlim_t)run->plan.pids, (rlim_t)run->plan.pids};
    if (run->plan.pids >= 0 && setrlimit(RLIMIT_NPROC, &most) != 0)
        die_errno("cannot set resources.pids");
    if (wall >= 0)
        backstop_own(wall, run->plan.backstop.own.at);
    if (!become_account(account->pw_uid, account->pw_gid, NULL, 0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        die_errno("cannot change to the account");
    if (getppid() != 1)
        _exit(NOT_RUN);
    if (wall >= 0)
        landlock_enter(wall);
    if (chdir(run->plan.user.start_directory) != 0)
        die_errno("cannot change directory to %s", run->plan.user.start_directory);
    close_others((int[]){notify_channel(), report, run->requests}, 3);
    exec_reports(report);
    notify_confine(run->plan.repositories.count > 0);
    requests_serve(run->requests, variables.at);
    exec_command(run->command, variables.at);
}

static _Noreturn void leave_namespace(int status)
{
    _exit(status); /* the kernel then kills all other processes in the PID namespace */
}

static bool stopped;

static void from_monitor(int socket, pid_t command)
{
    char word;
    const char still = HAS_STOPPED;
    ssize_t got = recv(socket, &word, 1, MSG_DONTWAIT);
    if (got == 1 && word == SIGTSTP && stopped)
        (void)!send(socket, &still, 1, MSG_NOSIGNAL);
    else if (got == 1 && word > 0 && word < 64)
        job_signal(command, word, &stopped);
    else if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        leave_namespace(KILLED);
}

/* Whether the command has ended. The watch's end is handled elsewhere. */
static bool ended(int socket, int children, pid_t command, pid_t watch, int *status)
{
    const char word = HAS_STOPPED;
    struct signalfd_siginfo told;
    siginfo_t info;
    while (read(children, &told, sizeof told) > 0)
        ;
    while (waitpid(command, status, WNOHANG | WUNTRACED) == command) {
        if (!WIFSTOPPED(*status))
            return true;
        stopped = true;
        (void)!send(socket, &word, 1, MSG_NOSIGNAL);
    }
    while (info.si_pid = 0, waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0 &&
                                info.si_pid != command && info.si_pid != watch)
        waitpid(info.si_pid, NULL, 0);
    return false;
}

static int wait_for_command(int socket, int children, pid_t command, struct watch *watch)
{
    for (int status;;) {
        struct pollfd each[] = {{.fd = socket, .events = POLLIN | POLLRDHUP},
                                {.fd = children, .events = POLLIN},
                                {.fd = watch->handle, .events = POLLIN}};
        if (poll(each, 3, -1) < 0)
            continue;
        if (each[0].revents != 0)
            from_monitor(socket, command);
        if (ended(socket, children, command, watch->process, &status)) {
            int said = watch_end(watch);
            return said != 0 ? said : exit_status(status);
        }
        if (each[2].revents != 0)
            return watch_end(watch);
    }
}

static _Noreturn void be_first(struct run *run, int socket, const char *steps, size_t length)
{
    struct watch watch = {.root = place, .waits_on = -1};
    sigset_t set;
    leave = leave_namespace;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    int children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (children < 0 || sigprocmask(SIG_BLOCK, &set, NULL) != 0 || chdir("/") != 0)
        die_errno("cannot open pidfds of the run's processes");
    umask(022);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        die_errno("cannot make mounts private");
    root = make_user_root(run, steps, length);
    /* Compares the mounts with the plan before anything runs. If a mount is replaced later, the run ends. */
    watch_start(run, &watch);
    if (!watch_mounted(&watch)) {
        watch_end(&watch); /* reports the reason */
        leave_namespace(NOT_RUN);
    }
    int reports[2];
    pid_t command = pipe2(reports, O_CLOEXEC) != 0 ? -1 : fork_child(NULL);
    if (command == 0)
        begin_command(run, reports[1]);
    if (command < 0)
        die_errno("cannot create a process");
    notify_started();
    job_begin(command);
    (void)!send(socket, "", 1, MSG_NOSIGNAL);
    close(reports[1]);
    const char executed = IS_EXECUTED;
    if (exec_succeeded(reports[0]))
        (void)!send(socket, &executed, 1, MSG_NOSIGNAL);
    leave_namespace(wait_for_command(socket, children, command, &watch));
}

_Noreturn void root_half(struct run *run, int socket, const struct strv *given)
{
    size_t length;
    int handle, status, spaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
    place = run->plan.user.root;
    if ((account = getpwnam(run->plan.user.account)) == NULL || account->pw_uid == 0 || account->pw_gid == 0 ||
        account->pw_uid == (uid_t)-1 || account->pw_gid == (gid_t)-1)
        die("no account given");
    const char *steps = checked_artifact(run, "plan", &length);
    notify_act_as(account->pw_uid, account->pw_gid);
    notify_start(run);
    strv_extend(&variables, given);
    strv_extend(&variables, &run->plan.user.settings);
    ignore_signals();
    if (unshare(spaces | (run->plan.user.network ? CLONE_NEWNET : 0)) != 0)
        die_errno("root cannot create namespaces here, as in many containers");
    int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
    pid_t first = own < 0 ? -1 : fork();
    /* Processes outside the PID namespace have no PID here, so the socket shows whether the parent has
     * ended. */
    if (first == 0) {
        struct pollfd parent = {.fd = own, .events = POLLIN};
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || poll(&parent, 1, 0) != 0)
            _exit(NOT_RUN);
        be_first(run, socket, steps, length);
    }
    notify_started();
    if (first < 0 || (handle = (int)syscall(SYS_pidfd_open, first, 0)) < 0)
        die_errno("root cannot create namespaces here, as in many containers");
    for (;;) {
        struct pollfd each[] = {{.fd = socket, .events = POLLRDHUP}, {.fd = handle, .events = POLLIN}};
        if (poll(each, 2, -1) < 0)
            continue;
        if (each[0].revents != 0)
            kill(first, SIGKILL);
        if (each[1].revents != 0 && waitpid(first, &status, 0) == first)
            _exit(exit_status(status));
    }
}
