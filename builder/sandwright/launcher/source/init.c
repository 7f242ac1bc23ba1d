/*
 * launch --init STOP_FD COMMAND [ARGUMENT ...]: what starts the command inside. In containers it is process 1, and in
 * bubblewrap's sandboxes with a terminal or Unix sockets of their own.
 *
 * It leads the session and starts the command as a job of it, as a shell does (credentials(7)), so that the suspend key
 * stops the command: the kernel stops no group whose members have no parent in their session. It waits for every process
 * that has lost its parent, hands signals on, and is never ended by one, as process 1 is not (pid_namespaces(7)).
 *
 * STOP_FD is how it tells outside that the command has stopped: a descriptor that it writes a byte to, or a file that it
 * reads, which is seen there by inotify(7); `-` without. The command doesn't get the descriptor.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "launch.h"

/* ---- the job */
static bool controls(void)
{
    return isatty(0) && tcgetpgrp(0) >= 0;
}

/* Called on both sides of the fork, as either may come first. */
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

/* What keys send goes to who has the terminal, or to all of the command's job; anything else to the command. */
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

/* ---- the first process */
enum { GATE = 60000, GATE_STEP = 20 }; /* milliseconds */
static const char *gate;

void init_gate(const char *path)
{
    gate = path;
}

/* The mount watch writes to the file when it has compared the mounts that are here. */
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

static void take_stop(const char *word)
{
    stop_end = word[0] >= '0' && word[0] <= '9' ? atoi(word) : -1;
    stop_fd = strcmp(word, "-") == 0 ? NULL : word;
    if (stop_end >= 0)
        fcntl(stop_end, F_SETFD, FD_CLOEXEC);
    if (stop_end >= 0) /* nor can it open it here; what looks at this process from outside has opened it by now */
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Without a listener the command goes on: it would be stopped for ever. */
static void tell_stop(pid_t job, bool *stopped)
{
    char byte = 0;
    *stopped = true;
    if (stop_fd == NULL && controls()) {
        job_signal(job, SIGCONT, stopped);
    } else if (stop_end >= 0) {
        (void)!write(stop_end, &byte, 1);
    } else if (stop_fd != NULL) {
        int file = open(stop_fd, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        (void)!read(file, &byte, 1);
        close(file);
    }
}

void lead_session(void)
{
    if (getsid(0) != getpid())
        setsid();
    if (isatty(0))
        ioctl(0, TIOCSCTTY, 0);
}

static _Noreturn void attend(pid_t job, const sigset_t *all)
{
    bool stopped = false;
    for (int number, status;;) {
        pid_t ended;
        while ((ended = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
            if (ended == job && !WIFSTOPPED(status))
                _exit(exit_status(status));
            if (ended == job)
                tell_stop(job, &stopped);
        }
        if (sigwait(all, &number) != 0 || number == SIGCHLD)
            continue;
        if (number == SIGTSTP && stopped) /* what should have continued it was taken back by this one (signal(7)) */
            tell_stop(job, &stopped);
        else
            job_signal(job, number, &stopped);
    }
}

static _Noreturn void lead(char **command, char *const *variables)
{
    sigset_t all, given;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &given);
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_NAME, "init");
    wait_for_gate(); /* signals of that time are pending for the command */
    lead_session();
    pid_t job = fork();
    if (job < 0)
        die_errno("no process can be made");
    job_begin(job);
    if (job == 0) {
        sigprocmask(SIG_SETMASK, &given, NULL);
        exec_command(command, variables);
    }
    attend(job, &all);
}

_Noreturn void init_main(char **words)
{
    if (words[0] == NULL || words[1] == NULL)
        die("give a command to run");
    take_stop(words[0]);
    lead(words + 1, environ);
}

_Noreturn void init_here(int stop_number, char **command, char *const *variables)
{
    take_stop(xasprintf("%d", stop_number));
    lead(command, variables);
}
