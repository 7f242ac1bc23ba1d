/* The monitor, the launcher's child: creates placeholders, starts the sandbox, forwards signals, enforces the
 * time limit (a timerfd; exit status 124), returns the command's exit status (128 + n for signal n), and
 * cleans up, even if the launcher was killed (kill -9). */
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "launch.h"
#include "requests.h"
#include "vm_ports.h"

enum { PATIENCE = 2000, GRACE = 10000, STARTS = 3, AFTER = 30000 }; /* milliseconds, except STARTS */

static struct run *current;
static void may_give_up(void);
static struct launcher_link launcher = {.socket = -1, .may_give_up = may_give_up};
static int children = -1, timer = -1;
static bool late, began;       /* the time limit was reached; the child is started */
static bool stop_sent; /* the launcher was told that the command has stopped, and has not continued yet */
static int watched;            /* the watch's exit status, if that decides */
static long patience, grace, last; /* deadlines, 0: none; `last`: for the child, after it was killed */

static void tell(int kind, int value)
{
    struct message message = {kind, value};
    (void)!send(launcher.socket, &message, sizeof message, MSG_NOSIGNAL);
}

void tell_executed(void)
{
    if (current->document.started >= 0)
        tell(EXECUTED, 0);
    current->document.started = -1; /* the launcher has its own copy of this descriptor */
}

/* Sent only once until the launcher continues: otherwise a command could fill the socket, and the exit status
 * could not be sent. */
void tell_stopped(void)
{
    if (current->document.started >= 0) {
        tell_executed();
        return;
    }
    if (!stop_sent && current->terminal)
        tell(STOPPED, 0);
    stop_sent = true;
}

static _Noreturn void tell_status(int status)
{
    tell(STATUS, status);
    if (launcher_there())
        kill(current->launcher, SIGCONT); /* a stopped launcher would not reap the monitor */
    _exit(status);
}

static void ended_watch(struct run *run)
{
    struct watch *watch = run->watch;
    run->watch = NULL;
    int result = watch == NULL ? 0 : watch_end(watch);
    watched = watched != 0 ? watched : result;
}

static void kill_child(struct run *run)
{
    if (run->child > 0 && kill(run->child, SIGKILL) != 0 && errno != ESRCH &&
        /* Sudo ends when the program that it has started ends. */
        (errno != EPERM || run->method->end == NULL))
        warn("cannot kill the command's process");
}

static void end_run(struct run *run)
{
    launcher.prepares = false;
    if (run->method->end != NULL)
        run->method->end(run);
    kill_child(run);
    last = last != 0 ? last : milliseconds() + AFTER;
}

static _Noreturn void end_monitor(int status)
{
    leave = tell_status;
    launcher.prepares = false;
    kill_child(current);
    ended_watch(current);
    bool all = current->over || end_descendants();
    requests_end(current);
    memory_report(current);
    cgroup_remove(current);
    if (current->method->clean != NULL)
        current->method->clean(current);
    remove_placeholders(current, launcher.gone || status == NOT_RUN);
    if (!all)
        warn("cannot kill all processes of the run");
    if (late)
        warn("the time limit (resources.time) was reached");
    tell_status(late ? TIME_UP : status);
}

/* Whether the child has ended. Also reaps orphans, which become the monitor's children. */
static bool ended_child(struct run *run, int *status)
{
    siginfo_t info;
    struct signalfd_siginfo received;
    while (read(children, &received, sizeof received) > 0)
        ;
    while (info.si_pid = 0, waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0) {
        if (info.si_pid == run->child || (run->watch != NULL && info.si_pid == run->watch->process))
            break;
        waitpid(info.si_pid, NULL, 0);
    }
    return waitpid(run->child, status, WNOHANG) == run->child;
}

static void take_signal(int number)
{
    if (number <= 0 || number >= 64)
        return;
    launcher.pending |= 1UL << number;
    patience = milliseconds() + PATIENCE;
    if ((number == SIGTERM || number == SIGHUP) && grace == 0) {
        grace = milliseconds() + GRACE;
        current->ended_by = number;
    }
}

/* Forwards signals that no process could receive before. If one of them has waited too long, because nothing
 * has started, the start is ended. */
static void deliver_pending(struct run *run)
{
    for (int number = 1; number < 64; number++) {
        if ((launcher.pending & 1UL << number) == 0)
            continue;
        bool there = run->method->deliver != NULL ? run->method->deliver(run, number) : kill(run->child, number) == 0;
        if (!there && milliseconds() < patience)
            continue;
        launcher.pending &= ~(1UL << number);
        if (!there && number != SIGWINCH && number != SIGTSTP && number != SIGCONT) {
            run->ended_by = run->ended_by != 0 ? run->ended_by : number;
            end_run(run);
        }
    }
    if (grace != 0 && milliseconds() >= grace) {
        grace = 0;
        end_run(run);
    }
}

/* Whether the stop descriptor was written to. */
static bool hear_stop(struct run *run)
{
    char rung[4096];
    ssize_t got = run->stop_fd < 0 ? -1 : read(run->stop_fd, rung, sizeof rung);
    if (got == 0 || (got < 0 && errno != EAGAIN))
        run->stop_fd = -1;
    return got > 0;
}

static void hear_launcher(struct run *run)
{
    struct message message;
    ssize_t got;
    while ((got = recv(launcher.socket, &message, sizeof message, 0)) == sizeof message)
        if (message.kind == TO_DELIVER) {
            take_signal(message.value);
            /* Discards reports from before the command was continued. */
            while (message.value == SIGCONT && hear_stop(run))
                ;
            stop_sent = stop_sent && message.value != SIGCONT;
        }
    launcher.gone = launcher.gone || got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

static void from_launcher(struct run *run)
{
    hear_launcher(run);
    if (launcher.gone) {
        terminal_restore();
        end_run(run);
    }
}

/* Gives the preparation up if the launcher has gone, or if a signal has found no process for too long. */
static void may_give_up(void)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    hear_launcher(current);
    if (launcher.gone)
        end_monitor(NOT_RUN);
    for (size_t index = 0; index < sizeof numbers / sizeof *numbers && milliseconds() >= patience; index++)
        if ((launcher.pending & 1UL << numbers[index]) != 0)
            end_monitor(128 + numbers[index]);
}

static int sleep_for(void)
{
    long until = grace == 0 || (last != 0 && last < grace) ? last : grace, left = until - milliseconds();
    return launcher.pending != 0 ? LAUNCHER_RETRY : until == 0 ? -1 : left > 0 ? (int)left : 0;
}

/* Waits until the child has ended, and returns its status of wait(2). A child that can't be killed counts as
 * killed. */
static int wait_for_run(struct run *run)
{
    for (int status;;) {
        struct pollfd each[] = {
            {.fd = launcher.gone ? -1 : launcher.socket, .events = POLLIN},
            {.fd = children, .events = POLLIN},
            {.fd = timer, .events = POLLIN},
            {.fd = run->watch == NULL ? -1 : run->watch->handle, .events = POLLIN},
            {.fd = run->wakes, .events = POLLIN},
            {.fd = run->stop_fd, .events = POLLIN},
            {.fd = requests_socket(), .events = POLLIN},
            {.fd = memory_timer(), .events = POLLIN},
        };
        if (poll(each, sizeof each / sizeof *each, sleep_for()) < 0)
            continue;
        if (each[0].revents != 0)
            from_launcher(run);
        if (each[4].revents != 0 && run->method->readable != NULL)
            run->method->readable(run);
        if (each[5].revents != 0 && hear_stop(run))
            tell_stopped();
        if (each[6].revents != 0)
            requests_pass(run);
        if (each[7].revents != 0 && !memory_check())
            end_run(run);
        if (each[3].revents != 0) {
            ended_watch(run);
            if (watched != 0)
                end_run(run);
        }
        if (each[1].revents != 0 && ended_child(run, &status)) {
            run->child = 0;
            return status;
        }
        if (each[2].revents != 0) {
            late = true;
            close(timer);
            timer = -1;
            end_run(run);
        }
        deliver_pending(run);
        if (last != 0 && milliseconds() >= last)
            return SIGKILL;
    }
}

static void start(struct run *run)
{
    run->child = fork_child(&run->child_handle);
    if (run->child < 0)
        die_errno("cannot create a process");
    if (run->child == 0) {
        cgroup_join();
        if (!run->method->own_session)
            terminal_control(run);
        run->method->start(run);
        _exit(NOT_RUN);
    }
    if (!began)
        tell(BEGUN, 0);
    began = true;
    launcher.prepares = false;
    if (run->method->started != NULL)
        run->method->started(run);
}

static int outcome(struct run *run, int status)
{
    int code = run->method->status != NULL ? run->method->status(run, status) : exit_status(status);
    notify_end();
    ended_watch(run);
    if (watched != 0)
        return watched;
    return run->ended_by != 0 && code == KILLED ? 128 + run->ended_by : code;
}

static void prepare(struct run *run, int socket)
{
    current = run;
    launcher.socket = socket;
    launcher.prepares = true;
    launcher_link(&launcher);
    run->monitor = getpid();
    setpgid(0, 0);
    ignore_signals();
    leave = end_monitor;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_SETMASK, &set, NULL);
    children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (children < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        die_errno("cannot open pidfds of the run's processes");
    terminal_give(run);
    struct itimerspec time = {.it_value.tv_sec = run->plan.time};
    if (run->plan.time >= 0 && ((timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) < 0 ||
                                   timerfd_settime(timer, 0, &time, NULL) != 0))
        die_errno("cannot set resources.time");
}

_Noreturn void run_monitor(struct run *run, int socket)
{
    prepare(run, socket);
    make_placeholders(run);
    if (run->method->prepare != NULL)
        run->method->prepare(run);
    requests_listen(run);
    ports_start(run);
    if (vm_ports_wanted(run))
        vm_ports_start(run);
    cgroup_make(run);
    memory_watch(run);
    for (int starts = 1;; starts++) {
        if (!launcher_there())
            end_monitor(NOT_RUN);
        start(run);
        int status = outcome(run, wait_for_run(run));
        bool again = !late && !launcher.gone && watched == 0 && run->ended_by == 0;
        if (!again || run->method->again == NULL || !run->method->again(run) || starts == STARTS)
            end_monitor(status);
        warn("the sandbox did not start (mounts changed on the host); retrying");
        if (run->child_handle >= 0)
            close(run->child_handle);
    }
}
