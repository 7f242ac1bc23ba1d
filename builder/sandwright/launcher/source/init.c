/* launch-init --init STOP_FD COMMAND [ARGUMENT ...]: the sandbox's init, which starts the command. It is
 * process 1 in every sandbox of bubblewrap (except under method vm), in OCI bundles, and in containers of
 * engines.
 *
 * It leads the session, and starts the command as a job in it, as a shell does (credentials(7)), so that the
 * suspend key can stop the command: the kernel stops no process group whose members have no parent in their
 * session (job control). It reaps orphans, as tini and catatonit do, and forwards signals. Signals don't end
 * it, because it is process 1 (pid_namespaces(7)).
 *
 * With STOP_FD, init reports outside that the command has stopped: it writes a byte to this descriptor, or
 * reads from this file, which inotify(7) shows to a process outside; `-`: no report. With `+` before it, init
 * reports that the command was executed instead: the run is detached, so a command that stops on its terminal
 * is continued. The command does not inherit the descriptor.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "launch.h"

static bool controls(void)
{
    return isatty(0) && tcgetpgrp(0) >= 0;
}

/* Called on both sides of the fork, as either may run first. */
void job_begin(pid_t job)
{
    sigset_t stop, given;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTTOU);
    sigprocmask(SIG_BLOCK, &stop, &given);
    setpgid(job, job);
    if (controls())
        tcsetpgrp(0, job == 0 ? getpid() : job);
    sigprocmask(SIG_SETMASK, &given, NULL);
}

/* Signals of keys go to the foreground job of the terminal or, without one, to all processes of the command's
 * job. Other signals go to the command. */
void job_signal(pid_t job, int number, bool *stopped)
{
    pid_t front = controls() ? tcgetpgrp(0) : 0;
    switch (number) {
    case SIGINT:
    case SIGQUIT:
    case SIGTSTP:
    case SIGWINCH:
        kill(front > 1 ? -front : -job, number);
        break;
    case SIGCONT:
        if (*stopped && controls())
            tcsetpgrp(0, job);
        *stopped = false;
        kill(-job, SIGCONT);
        break;
    default:
        kill(job, number);
    }
}

enum { GATE = 60000, GATE_STEP = 20 }; /* milliseconds */
static const char *gate;

void init_gate(const char *path)
{
    gate = path;
}

/* The mount watch writes to this file once it has compared the mounts inside. */
static void wait_for_gate(void)
{
    struct stat status;
    long began = milliseconds();
    while (gate != NULL) {
        if (stat(gate, &status) != 0)
            die_errno("%s cannot be read, so nothing was run", gate);
        long waited = milliseconds() - began;
        if (status.st_size > 0)
            return;
        if (waited > GATE)
            die("the mounts of the sandbox were not confirmed within %d seconds, so nothing was run", GATE / 1000);
        poll(NULL, 0, 1 + (waited / 16 < GATE_STEP ? (int)(waited / 16) : GATE_STEP));
    }
}

static const char *stop_fd;
static int stop_end = -1;
static bool tells_execution;
static void (*tell_outside)(int kind, int value);
static void (*hear_outside)(pid_t job, bool *stopped);

void init_outside(void (*hear)(pid_t, bool *), void (*tell)(int, int))
{
    hear_outside = hear;
    tell_outside = tell;
}

static void take_stop(const char *word)
{
    tells_execution = *word == '+';
    word += tells_execution;
    stop_end = word[0] >= '0' && word[0] <= '9' ? atoi(word) : -1;
    stop_fd = strcmp(word, "-") == 0 ? NULL : word;
    if (stop_end >= 0)
        fcntl(stop_end, F_SETFD, FD_CLOEXEC);
    /* No program inside can open it through /proc either; processes outside have opened it by now. */
    if (stop_end >= 0)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static void notify_monitor(void)
{
    char byte = 0;
    if (stop_end >= 0) {
        (void)!write(stop_end, &byte, 1);
    } else if (stop_fd != NULL) {
        int file = open(stop_fd, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        (void)!read(file, &byte, 1);
        close(file);
    }
}

/* If nobody would notice that the command has stopped, it is continued, as it would be stopped for ever. */
static void tell_stop(pid_t job, bool *stopped)
{
    *stopped = true;
    if (tell_outside != NULL)
        tell_outside(STOPPED, 0);
    /* Nobody continues a detached run. */
    else if ((stop_fd == NULL && controls()) || (tells_execution && isatty(0)))
        job_signal(job, SIGCONT, stopped);
    else if (!tells_execution)
        notify_monitor();
}

static void tell_execution(void)
{
    if (tell_outside != NULL)
        tell_outside(EXECUTED, 0);
    else if (tells_execution)
        notify_monitor();
}

static _Noreturn void end(int status)
{
    if (tell_outside != NULL)
        tell_outside(STATUS, status);
    _exit(status);
}

void init_signal(pid_t job, int number, bool *stopped)
{
    if (number == SIGTSTP && *stopped) /* this signal has discarded a pending SIGCONT (signal(7)) */
        tell_stop(job, stopped);
    else
        job_signal(job, number, stopped);
}

int terminal_pair(int *slave)
{
    int locked = 0, master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    *slave = ioctl(master, TIOCSPTLCK, &locked) != 0 ? -1 : ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return *slave < 0 ? -1 : master;
}

void lead_session(void)
{
    if (getsid(0) != getpid())
        setsid();
    if (isatty(0))
        ioctl(0, TIOCSCTTY, 0);
}

static _Noreturn void reap_until_end(pid_t job, const sigset_t *all)
{
    bool stopped = false;
    for (int number, status;;) {
        pid_t ended;
        while ((ended = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
            if (ended == job && !WIFSTOPPED(status))
                end(exit_status(status));
            if (ended == job)
                tell_stop(job, &stopped);
        }
        if (sigwait(all, &number) != 0 || number == SIGCHLD)
            continue;
        if (number == SIGIO && hear_outside != NULL)
            hear_outside(job, &stopped);
        else
            init_signal(job, number, &stopped);
    }
}

_Noreturn void init_lead(char **command, char *const *variables)
{
    static sigset_t all, given;
    static bool blocked;
    int reports[2];
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, blocked ? NULL : &given);
    blocked = true;
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_NAME, "init");
    wait_for_gate(); /* signals that arrive meanwhile stay pending for the command */
    lead_session();
    pid_t job = pipe2(reports, O_CLOEXEC) != 0 ? -1 : fork();
    if (job < 0)
        die_errno("cannot create a process");
    job_begin(job);
    if (job == 0) {
        /* Without a PID namespace, the kernel does not kill the command when init ends. */
        if (tell_outside != NULL || getppid() != 1)
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        exec_reports(reports[1]);
        sigprocmask(SIG_SETMASK, &given, NULL);
        exec_command(command, variables);
    }
    close(reports[1]);
    if (exec_succeeded(reports[0]))
        tell_execution();
    if (hear_outside != NULL)
        raise(SIGIO); /* handles data that arrived before SIGIO was requested */
    reap_until_end(job, &all);
}

_Noreturn void init_main(char **words)
{
    if (words[0] == NULL || words[1] == NULL)
        die("give a command to run");
    take_stop(words[0]);
    init_lead(words + 1, environ);
}

_Noreturn void init_here(const char *stop, char **command, char *const *variables)
{
    take_stop(stop);
    init_lead(command, variables);
}
