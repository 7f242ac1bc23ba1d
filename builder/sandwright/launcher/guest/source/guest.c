/* guest [FILE | --machine]: the first process (init) of the guest kernel of the method vm (vm.c starts that
 * kernel). FILE is the file beside the line; without it, everything goes over the line. `--machine`: the
 * machine is QEMU's.
 *
 * This file has the main loop; guestsystem.c sets the system up, and guestcommand.c starts the command. The
 * root is that of the host's sandbox, through hostfs. The guest has a /dev, /proc and /sys of its own. It
 * sets user and limits, loads the seccomp filter, and runs the command as a job, with input and output over
 * the line (line.h). Root inside has only the rights of the kernel's process outside, which are those of
 * every command in the host's sandbox.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "guest.h"
#include "guestnet.h"
#include "launch.h"

enum {
    HELD = 1 << 18, /* bytes that wait for the line; with more, no output is read */
    LINGER = 5,     /* seconds */
    QUIET = 20,     /* milliseconds without output after which a terminal counts as empty */
};

static int line = -1, signals = -1;
static struct bytes in, out, pending;
static struct settings set = {.processes = -1, .processors = -1, .directory = "/"};
static struct job job = {.input = -1, .outputs = {-1, -1}, .master = -1};
static bool begun, input_ended, stopped;

static void flush(void)
{
    while (bytes_held(&out) > 0) {
        struct pollfd each = {.fd = line, .events = POLLOUT};
        if (poll(&each, 1, -1) < 0 && errno != EINTR)
            return;
        if (!bytes_write(&out, line, SIZE_MAX))
            return;
    }
}

_Noreturn void guest_end(void)
{
    flush();
    /* With a port of QEMU's; the relay ends the machine when it has read everything. */
    if (tcdrain(line) != 0 && errno == ENOTTY)
        sleep(LINGER);
    reboot(RB_POWER_OFF);
    _exit(NOT_RUN);
}

_Noreturn void guest_refuse(const char *format, ...)
{
    const char *reason = strerror(errno);
    char what[PATH_MAX + 100];
    va_list words;
    va_start(words, format);
    vsnprintf(what, sizeof what, format, words);
    va_end(words);
    char *why = xasprintf("in the sandbox's kernel: %s: %s", what, reason);
    line_say(&out, REFUSED, why, strlen(why));
    guest_end();
}

static _Noreturn void leave_guest(int code)
{
    (void)code;
    guest_refuse("the first process failed");
}

/* ---- receiving frames */
static void take_frame(enum frame frame, const unsigned char *content, size_t length)
{
    struct winsize size;
    switch (frame) {
    case INPUT:
        input_ended = input_ended || length == 0;
        bytes_add(&pending, content, job.input < 0 ? 0 : length);
        break;
    case SIGNAL:
        job_signal(job.pid, line_take_number(content, length), &stopped);
        break;
    case SIZE:
        copy_fixed(&size, sizeof size, content, length);
        if (job.master >= 0 && length == sizeof size)
            ioctl(job.master, TIOCSWINSZ, &size);
        break;
    case CLOSED: {
        int number = line_take_number(content, length);
        if (number >= 0 && number < 2 && job.outputs[number] >= 0 && job.outputs[number] != job.master) {
            close(job.outputs[number]);
            job.outputs[number] = -1;
        }
        break;
    }
    default:
        if (!tunnels_take(&guest_tunnels, frame, content, length))
            guest_refuse("cannot parse a message of the host");
    }
}

static void begin(bool said)
{
    if (said) {
        int procs = guest_system(&set);
        guest_network(line);
        if (guest_command(&set, procs, &job))
            line_say(&out, EXECUTED_COMMAND, NULL, 0);
    }
    begun = said;
}

/* Replaces a BESIDE frame with the frame that it announces, whose content is in the file beside the line. */
static void take_beside(enum frame *frame, unsigned char **content, size_t *length)
{
    struct beside said = {0};
    if (*length != sizeof said)
        guest_refuse("cannot parse a message of the host");
    memcpy(&said, *content, sizeof said);
    *content = guest_read_beside(&said);
    *frame = (enum frame)said.frame;
    *length = (size_t)said.length;
    line_number(&out, BESIDE_TAKEN, (said.length + BESIDE_PAGE - 1) / BESIDE_PAGE * BESIDE_PAGE);
}

static void take_line(void)
{
    enum frame frame;
    unsigned char *content;
    size_t length;
    int next;
    size_t held = bytes_held(&in);
    if (!bytes_read(&in, line))
        guest_end();
    if (bytes_held(&in) > held)
        line_number(&out, RECEIVED, (int32_t)(bytes_held(&in) - held));
    while ((next = line_next(&in, &frame, &content, &length)) > 0) {
        if (frame == BESIDE)
            take_beside(&frame, &content, &length);
        if (begun)
            take_frame(frame, content, length);
        else
            begin(guest_setting(&set, frame, content, length));
    }
    if (next < 0)
        guest_refuse("cannot parse a message of the host");
}

static void close_input(void)
{
    if (job.input >= 0 && job.input != job.master)
        close(job.input);
    job.input = -1;
    pending.begin = pending.end;
}

/* Data that the command can't read any more, because it has closed its input, is not acknowledged, so no more
 * is sent. */
static void give_input(void)
{
    size_t held = bytes_held(&pending);
    if (job.input >= 0 && !bytes_write(&pending, job.input, SIZE_MAX))
        close_input();
    else if (held > bytes_held(&pending))
        line_number(&out, TAKEN, (int32_t)(held - bytes_held(&pending)));
    if (input_ended && bytes_held(&pending) == 0)
        close_input();
}

/* False: there is no output at the moment. */
static bool take_output(int number)
{
    static char content[1 << 16];
    ssize_t got = job.outputs[number] < 0 ? -1 : read(job.outputs[number], content, sizeof content);
    if (got > 0)
        line_say(&out, number == 0 ? OUTPUT : ERRORS, content, (size_t)got);
    if (got == 0 && job.outputs[number] != job.master) {
        close(job.outputs[number]);
        job.outputs[number] = -1;
    }
    return got > 0;
}

static void serve_events(int most);

static _Noreturn void finish_run(int wait_status)
{
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    for (int number = 0; number < 2; number++)
        while (take_output(number) ||
               (job.outputs[number] >= 0 && job.outputs[number] == job.master &&
                poll(&(struct pollfd){.fd = job.master, .events = POLLIN}, 1, QUIET) > 0))
            flush();
    for (long until = milliseconds() + TUNNELS_LAST; tunnels_hold(&guest_tunnels) && milliseconds() < until;)
        serve_events(QUIET);
    sync();
    line_number(&out, ENDED, exit_status(wait_status));
    guest_end();
}

static void take_children(void)
{
    struct signalfd_siginfo info;
    int status;
    pid_t child;
    while (read(signals, &info, sizeof info) == sizeof info)
        ;
    while ((child = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (child != job.pid)
            continue;
        if (!WIFSTOPPED(status))
            finish_run(status);
        stopped = true;
        line_say(&out, HALTED, NULL, 0);
    }
}

static void serve_events(int most)
{
    bool carries = guest_tunnels.reach != NULL, room = bytes_held(&out) < HELD && (!carries || tunnels_room(&out));
    bool feeds = job.input >= 0 && (bytes_held(&pending) > 0 || (input_ended && job.input != job.master));
    struct pollfd each[5 + TUNNELS_WAITS] = {
        {.fd = line, .events = (short)(POLLIN | (bytes_held(&out) > 0 ? POLLOUT : 0))},
        {.fd = signals, .events = POLLIN},
        {.fd = feeds ? job.input : -1, .events = POLLOUT},
        {.fd = room ? job.outputs[0] : -1, .events = POLLIN},
        {.fd = room ? job.outputs[1] : -1, .events = POLLIN},
    };
    size_t count = 5 + (carries ? tunnels_wait(&guest_tunnels, &out, each + 5) : 0);
    if (poll(each, count, most) < 0)
        return;
    if ((each[0].revents & (POLLIN | POLLHUP)) != 0)
        take_line();
    if (each[2].revents != 0)
        give_input();
    for (int number = 0; number < 2; number++)
        if (each[3 + number].revents != 0)
            take_output(number);
    if (each[1].revents != 0)
        take_children();
    if (carries)
        tunnels_turn(&guest_tunnels, each + 5, &out);
    if (!bytes_write(&out, line, SIZE_MAX))
        guest_end();
}

/* The kernel assumes that a child of a machine's first process is never continued, so the suspend key would
 * have no effect on it (kernel/exit.c, will_become_orphaned_pgrp). The first process therefore only waits,
 * and a second one does everything else. */
static void become_second(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    int status;
    pid_t second = fork(), ended;
    if (second < 0)
        guest_refuse("cannot create a process");
    if (second == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        return;
    }
    close(line);
    do {
        ended = waitpid(-1, &status, WUNTRACED);
        /* Stopped by root inside with capabilities (process.sandbox_root). */
        if (ended == second && WIFSTOPPED(status))
            kill(second, SIGCONT);
    } while (ended != second || WIFSTOPPED(status));
    guest_end();
}

/* On a host, this program would mount over /dev and power the machine off. */
static void check_first(void)
{
    if (getpid() != 1)
        die("only the kernel of a sandbox starts this");
}

/* User-Mode Linux appends further arguments, so the count is not checked. */
int main(int count, char **words)
{
    bool machine = count > 1 && strcmp(words[1], "--machine") == 0;
    sigset_t all;
    check_first();
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    leave = leave_guest;
    umask(0);
    if (count > 1 && words[1][0] == '/')
        guest_beside(words[1]);
    line = machine ? machine_line() : guest_line();
    become_second();
    line_say(&out, READY, NULL, 0);
    if (machine) {
        /* Initialises the random number generator: otherwise the kernel might seed it after the machine was
         * restored, and hide a missing ENTROPY frame. */
        char drawn[8];
        (void)!getrandom(drawn, sizeof drawn, 0);
        flush();
        machine_root(line);
    }
    guest_devices();
    guest_kernel();
    if ((signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        guest_refuse("cannot receive signals");
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    for (;;)
        serve_events(-1);
}
