/* Processes of the launcher: catches the signals that are forwarded to the command, forks children with a
 * pidfd, and kills all descendants, orphans too, because launcher and monitor are subreapers. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "launch.h"

enum { ENDING = 5000 }; /* milliseconds */

/* ---- signals, as the launcher inherited them */
static const int changed[] = {SIGPIPE, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU};
static struct sigaction before[sizeof changed / sizeof *changed];
static sigset_t mask_before;
static bool signals_known;

void caught_signals(sigset_t *set)
{
    static const int handed[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};
    struct sigaction own;
    for (size_t index = 0; index < sizeof changed / sizeof *changed; index++)
        sigaction(changed[index], NULL, &before[index]);
    sigprocmask(SIG_BLOCK, NULL, &mask_before);
    signals_known = true;
    sigemptyset(set);
    for (size_t index = 0; index < sizeof handed / sizeof *handed; index++)
        if (sigaction(handed[index], NULL, &own) == 0 && own.sa_handler != SIG_IGN)
            sigaddset(set, handed[index]);
    sigaddset(set, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
}

void ignore_signals(void)
{
    for (size_t index = 0; index < sizeof changed / sizeof *changed; index++)
        signal(changed[index], SIG_IGN);
}

void restore_signals(void)
{
    for (size_t index = 0; signals_known && index < sizeof changed / sizeof *changed; index++)
        sigaction(changed[index], &before[index], NULL);
    if (signals_known)
        sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

/* ---- the monitor's view of its launcher */
static struct launcher_link *launcher;
static pid_t monitor;

void launcher_link(struct launcher_link *link)
{
    launcher = link;
    monitor = getpid();
}

bool launcher_there(void)
{
    struct pollfd each = {.fd = launcher == NULL ? -1 : launcher->socket, .events = POLLRDHUP};
    bool gone = launcher != NULL && launcher->gone;
    return !gone && (poll(&each, 1, 0) <= 0 || (each.revents & (POLLHUP | POLLRDHUP | POLLERR)) == 0);
}

bool wait_readable(int file, long until)
{
    bool prepares = launcher != NULL && launcher->prepares && getpid() == monitor;
    for (;;) {
        struct pollfd each[] = {{.fd = file, .events = POLLIN}, {.fd = prepares ? launcher->socket : -1, .events = POLLIN}};
        long left = until - milliseconds(), most = prepares && launcher->pending != 0 ? LAUNCHER_RETRY : left;
        int ready = poll(each, 2, left <= 0 ? 0 : (int)(most < left ? most : left));
        if (prepares && (launcher->pending != 0 || (ready > 0 && each[1].revents != 0)))
            launcher->may_give_up();
        if (ready > 0 && each[0].revents != 0)
            return true;
        if (left <= 0)
            return false;
    }
}

size_t children_of(pid_t process, pid_t *found, size_t most)
{
    char path[64], *at;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)process);
    size_t count = 0, length;
    char *content = read_file(AT_FDCWD, path, 1 << 20, &length);
    for (at = content; at != NULL && *at >= '0' && *at <= '9' && count < most; at += *at == ' ')
        found[count++] = (pid_t)strtol(at, &at, 10);
    return count;
}

/* A number in /proc/PID/stat; fields are counted as in proc_pid_stat(5), and only those after the name can be
 * read. 0 if the process has gone. */
static unsigned long long stat_field(pid_t process, int field)
{
    char path[64];
    size_t length;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    _cleanup_free_ char *content = read_file(AT_FDCWD, path, 1 << 16, &length);
    const char *at = content == NULL ? NULL : strrchr(content, ')'); /* a name may contain any characters */
    for (int passed = 2; at != NULL && passed < field; passed++)
        at = strchr(at + 1, ' ');
    return at == NULL ? 0 : strtoull(at, NULL, 10);
}

pid_t parent_of(pid_t process)
{
    return (pid_t)stat_field(process, 4);
}

bool descends_from(pid_t process, pid_t ancestor)
{
    while (process > 1 && process != ancestor)
        process = parent_of(process);
    return process == ancestor;
}

/* The children that the launcher had first are relays, which still write the rest of the output. */
static pid_t spared[8];
static size_t spared_count;
static pid_t left_alone;

static bool childless(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

void spare_children(void)
{
    spared_count = childless() ? 0 : children_of(getpid(), spared, sizeof spared / sizeof *spared);
}

static bool is_spared(pid_t child)
{
    for (size_t index = 0; index < spared_count; index++)
        if (spared[index] == child)
            return true;
    return child == left_alone;
}

void leave_alone(pid_t child)
{
    left_alone = child;
}

/* A child's PID is not reused before this process has waited for it. Orphans of killed children become
 * children of this process. */
bool end_descendants(void)
{
    pid_t found[256];
    for (long until = milliseconds() + ENDING; !childless();) {
        size_t killed = 0, alive = 0, count = children_of(getpid(), found, sizeof found / sizeof *found);
        for (size_t index = 0; index < count; index++) {
            if (is_spared(found[index]))
                continue;
            kill(found[index], SIGKILL);
            alive += waitpid(found[index], NULL, WNOHANG) != found[index];
            killed++;
        }
        if (killed == 0)
            return true;
        if (milliseconds() > until)
            return false;
        if (alive > 0)
            poll(NULL, 0, 1);
    }
    return true;
}

static _Noreturn void leave_child(int status)
{
    _exit(status);
}

enum { START_TIME = 22 /* in /proc/PID/stat */ };

static struct {
    pid_t process;
    unsigned long long began; /* start time: after the helper has ended, a program inside may get its PID */
} helpers[256];               /* the last ones */
static size_t helper_count;

bool is_helper(pid_t process)
{
    for (size_t index = 0; index < helper_count && index < sizeof helpers / sizeof *helpers; index++)
        if (helpers[index].process == process && helpers[index].began == stat_field(process, START_TIME))
            return true;
    return false;
}

pid_t fork_helper(int *handle)
{
    pid_t child = fork_child(handle);
    if (child > 0) {
        size_t index = helper_count++ % (sizeof helpers / sizeof *helpers);
        helpers[index].process = child;
        helpers[index].began = stat_field(child, START_TIME);
    }
    return child;
}

pid_t fork_child(int *handle)
{
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        leave = leave_child;
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
            _exit(NOT_RUN);
        restore_signals();
        return 0;
    }
    if (handle != NULL)
        *handle = child > 0 ? (int)syscall(SYS_pidfd_open, child, 0) : -1;
    return child;
}

void redirect_to_null(int from, int to)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (; from <= to; from++)
        if (nothing < 0 || dup2(nothing, from) < 0)
            die_errno("cannot open /dev/null");
    if (nothing > to)
        close(nothing);
}

static _Noreturn void become(char *const *argv, int output, bool errors)
{
    redirect_to_null(0, 2);
    if (dup2(output, 1) < 0 || (errors && dup2(output, 2) < 0))
        _exit(NOT_RUN);
    execv(argv[0], argv);
    _exit(127);
}

/* Waits until the child has ended or the time is up; returns as waitpid(2) does. */
static pid_t wait_until(pid_t child, int handle, int *status, long until)
{
    pid_t ended;
    for (long now; (ended = waitpid(child, status, WNOHANG)) == 0 && (now = milliseconds()) < until;)
        wait_readable(handle, handle < 0 ? now + 2 : until);
    return ended;
}

/* A process that waits for a device or an unresponsive file system does not end after SIGKILL, so it is not
 * waited for. */
int wait_for(pid_t child, int handle, long time)
{
    int status = 0, killed;
    pid_t ended = wait_until(child, handle, &status, milliseconds() + time);
    if (ended == 0 && kill(child, SIGKILL) == 0)
        wait_until(child, handle, &killed, milliseconds() + ENDING);
    if (handle >= 0)
        close(handle);
    return ended > 0 ? exit_status(status) : -1;
}

int capture(char *const *argv, char **output, int seconds, bool errors)
{
    int handle;
    _cleanup_close_ int file = memfd_create("output", MFD_CLOEXEC);
    pid_t child = file < 0 ? -1 : fork_child(&handle);
    if (child == 0)
        become(argv, file, errors);
    int status = child < 0 ? -1 : wait_for(child, handle, seconds * 1000L);
    struct stat size;
    if (status >= 0 && output != NULL && fstat(file, &size) == 0) {
        *output = xcalloc((size_t)size.st_size + 1);
        ssize_t got = pread(file, *output, (size_t)size.st_size, 0);
        (*output)[got > 0 ? got : 0] = '\0';
    }
    return status;
}

void lower_limit(int resource, unsigned long most, pid_t process, const char *name)
{
    struct rlimit own;
    if (prlimit(process, resource, NULL, &own) == 0 && own.rlim_max <= most)
        return;
    own.rlim_cur = own.rlim_max = most;
    if (prlimit(process, resource, &own, NULL) != 0)
        die_errno("cannot set resources.%s", name);
}
