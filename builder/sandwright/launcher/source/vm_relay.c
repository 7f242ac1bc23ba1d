/* A guest kernel for the command: User-Mode Linux, an ordinary program, in bubblewrap's sandbox.
 *
 *   launch-vm STOP_FD FILTER WAYS KERNEL MEMORY PROCESSES PROCESSORS FILES ENGINE { FRAME CONTENT } -
 *       COMMAND [ARGUMENT ...]
 *
 * is the sandbox's first process. It starts the kernel, which sees the same files of the host as this
 * process, and relays standard streams, signals and the terminal's size over the line (line.h) to the guest's
 * first process (guest/source/guest.c). The first messages are in vm_handshake.c; vm_kernel.c starts the
 * kernel. Nothing that comes over the line, or that the kernel's process does, leaves the sandbox: the
 * launcher outside trusts this process no more than any other command.
 */
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "broker.h"
#include "launch.h"
#include "ports.h"
#include "tunnels.h"
#include "vm.h"
#include "vm_ports.h"

enum {
    BOOT = 60000,   /* milliseconds within which the kernel must start */
    LAST = 20,      /* milliseconds between two checks for leftovers at the end */
    PART = 4096,    /* bytes that a pipe takes without blocking once it takes any */
    HELD = 1 << 18, /* bytes of held output from which on nothing is read from the line */
};

static int signals = -1, stop_fd = -1, ways = -1; /* ways: to vm_ports.c */
static struct machine machine = {.init = VM_GUEST, .directory = MEMORY, .line = -1};
static struct bytes in, out, outputs[2];
static struct file_beside beside;
/* Input that the command has not taken yet; bytes on the line that the guest has not read. */
static size_t ahead, on_line;
/* Gone: the kernel sends nothing more. */
static bool terminal, tells_execution, one_output, ready, ended, input_ended, exited, gone;
static int status, last; /* last: the status of the kernel's process, from wait(2) */

/* ---- tunnels */
static int ask_outside(int32_t number, unsigned short port)
{
    const struct vm_ports_message asked = {number, port};
    bool said = ways >= 0 && send(ways, &asked, sizeof asked, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof asked;
    return said ? TUNNEL_ASKED : -1;
}

static struct tunnels tunnels;

static void take_outside(void)
{
    int files[PASSED];
    struct vm_ports_message said;
    int got = take_files(ways, (struct iovec){&said, sizeof said}, files);
    if (got < 0)
        die("the relay out of the sandbox has exited");
    if (said.number >= 0)
        tunnels_reached(&tunnels, said.number, got == 1 ? files[0] : -1);
    else if (got == 1)
        tunnels_begin(&tunnels, files[0], (unsigned short)said.port, &out);
}

static void send_signal(int number)
{
    struct winsize size;
    if (number == SIGWINCH && terminal) {
        if (ioctl(0, TIOCGWINSZ, &size) == 0)
            line_say(&out, SIZE, &size, sizeof size);
        return;
    }
    line_number(&out, SIGNAL, number);
}

static void take_signals(void)
{
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGPIPE) /* SIGPIPE: an output without a reader */
            send_signal((int)info.ssi_signo);
    int how;
    for (pid_t child; (child = waitpid(-1, &how, WNOHANG)) > 0;)
        if (child == machine.process) {
            exited = true;
            last = how;
        }
}

static void lessen(size_t *count, int32_t by)
{
    *count -= by > 0 && (size_t)by < *count ? (size_t)by : *count;
}

static void take_frame(enum frame frame, unsigned char *content, size_t length)
{
    switch (frame) {
    case READY:
        ready = true;
        if (machine.beside != NULL)
            unlink(machine.beside);
        break;
    case BESIDE_TAKEN:
        line_taken_beside(out.beside, line_take_number(content, length));
        break;
    case OUTPUT:
    case ERRORS:
        bytes_add(&outputs[frame == ERRORS && !one_output], content, length);
        break;
    case RECEIVED:
        ready = true;
        lessen(&on_line, line_take_number(content, length));
        break;
    case TAKEN:
        lessen(&ahead, line_take_number(content, length));
        break;
    case HALTED:
    case EXECUTED_COMMAND:
        if (stop_fd >= 0 && tells_execution == (frame == EXECUTED_COMMAND))
            (void)!write(stop_fd, "", 1);
        else if (frame == HALTED && tells_execution && terminal) /* as init does (init.c) */
            send_signal(SIGCONT);
        break;
    case REFUSED:
        die("%.*s", (int)length, (char *)content);
    case ENDED:
        ended = true;
        status = line_take_number(content, length);
        break;
    default:
        if (!tunnels_take(&tunnels, frame, content, length))
            die("cannot parse a message from inside the sandbox");
    }
}

static void take_line(void)
{
    enum frame frame;
    unsigned char *content;
    size_t length;
    int next;
    gone = !bytes_read(&in, machine.line) || gone;
    while (!ended && (next = line_next(&in, &frame, &content, &length)) != 0) {
        if (next < 0)
            die("cannot parse a message from inside the sandbox");
        take_frame(frame, content, length);
    }
}

static void take_input(void)
{
    static char content[INPUT_AHEAD];
    ssize_t got = read(0, content, sizeof content - ahead);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    input_ended = got <= 0;
    ahead += got > 0 ? (size_t)got : 0;
    line_say(&out, INPUT, content, got > 0 ? (size_t)got : 0);
}

/* If the reader has gone, the command is to get the same error. */
static void write_output(int number)
{
    struct bytes *bytes = &outputs[number];
    size_t length = bytes_held(bytes) < PART ? bytes_held(bytes) : PART;
    ssize_t wrote = write(number + 1, bytes->at + bytes->begin, length);
    if (wrote > 0)
        bytes->begin += (size_t)wrote;
    if (wrote >= 0 || errno == EAGAIN || errno == EINTR)
        return;
    bytes->begin = bytes->end;
    line_number(&out, CLOSED, number);
}

static void write_line(void)
{
    size_t held = bytes_held(&out);
    if (!bytes_write(&out, machine.line, LINE_AHEAD - on_line))
        /* The guest does not read any more, but its earlier messages may still be there. */
        out.begin = out.end;
    on_line += held - bytes_held(&out);
}

static void relay_once(int most)
{
    bool room = !ended && !gone && bytes_held(&outputs[0]) < HELD && bytes_held(&outputs[1]) < HELD;
    bool says = (ready || machine.accelerator != NULL) && !exited && bytes_held(&out) > 0 && on_line < LINE_AHEAD;
    bool more = ready && tunnels_room(&out);
    struct pollfd each[7 + TUNNELS_WAITS] = {
        {.fd = room || says ? machine.line : -1, .events = (short)((room ? POLLIN : 0) | (says ? POLLOUT : 0))},
        {.fd = signals, .events = POLLIN},
        {.fd = more && !ended && !input_ended && ahead < INPUT_AHEAD ? 0 : -1, .events = POLLIN},
        {.fd = bytes_held(&outputs[0]) > 0 ? 1 : -1, .events = POLLOUT},
        {.fd = bytes_held(&outputs[1]) > 0 ? 2 : -1, .events = POLLOUT},
        {.fd = vm_console(), .events = POLLIN},
        {.fd = more && !ended ? ways : -1, .events = POLLIN},
    };
    size_t count = 7 + (ways >= 0 ? tunnels_wait(&tunnels, &out, each + 7) : 0);
    if (poll(each, count, exited && room ? 0 : most) < 0)
        return;
    if (room && each[0].revents != 0)
        take_line();
    else
        gone = gone || (exited && room); /* all its output has been taken */
    if (each[1].revents != 0)
        take_signals();
    if (each[2].revents != 0)
        take_input();
    for (int number = 0; number < 2; number++)
        if (each[3 + number].revents != 0)
            write_output(number);
    if (each[5].revents != 0)
        vm_hear();
    if (each[6].revents != 0)
        take_outside();
    if (ways >= 0)
        tunnels_turn(&tunnels, each + 7, &out);
    if (says)
        write_line();
}

static void relay(void)
{
    for (long until = milliseconds() + BOOT; !ended && !gone;) {
        long left = ready ? -1 : until - milliseconds();
        if (!ready && left <= 0)
            die("the kernel of the sandbox did not start: %s", vm_last_words());
        relay_once((int)left);
    }
    while (bytes_held(&outputs[0]) > 0 || bytes_held(&outputs[1]) > 0)
        relay_once(-1);
    for (long until = milliseconds() + TUNNELS_LAST; ended && tunnels_hold(&tunnels) && milliseconds() < until;)
        relay_once(LAST);
}

/* A restored machine was ready when it was saved, so only its clock and the like must be set. */
static void restore(const char *accelerator)
{
    struct timespec now;
    machine.accelerator = accelerator;
    clock_gettime(CLOCK_REALTIME, &now);
    line_say(&out, CLOCK, (int64_t[]){now.tv_sec, now.tv_nsec}, 2 * sizeof(int64_t));
}

/* On failure, everything goes over the line. */
static void begin_beside(void)
{
    char *path = xasprintf("%s/line", machine.directory);
    if (!line_make_beside(&beside, path))
        return;
    machine.beside = path;
    out.beside = &beside;
}

/* The reason why the kernel ended, after its line was closed. A kernel that has only closed the line is
 * killed. */
static const char *why_ended(void)
{
    /* This has no effect on a process that a signal has already ended. */
    if (!exited && kill(machine.process, SIGKILL) == 0)
        waitpid(machine.process, &last, 0);
    return WIFSIGNALED(last) && WTERMSIG(last) == SIGXFSZ
               ? "a file, such as its memory, exceeds the limit of file sizes (RLIMIT_FSIZE, `ulimit -f`)"
               : vm_last_words();
}

_Noreturn void vm_relay(const struct vm_plan *plan, char **words)
{
    sigset_t all;
    for (int index = 0; index < 9; index++)
        if (words[index] == NULL)
            die("give a command to run");
    sigfillset(&all);
    if (sigprocmask(SIG_BLOCK, &all, NULL) != 0 || (signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        die_errno("cannot receive signals");
    prctl(PR_SET_NAME, "init");
    if (plan != NULL) {
        machine.here = plan;
        machine.init = xasprintf("%s/init", plan->own);
        machine.directory = plan->own;
    } else /* not under landlock: there the supervisor reads file names from this memory */
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    tells_execution = *words[0] == '+';
    terminal = tells_execution ? isatty(0) : *words[0] >= '0' && *words[0] <= '9';
    stop_fd = strcmp(words[0], "-") == 0 ? -1 : atoi(words[0]); /* a `+` before the number, too */
    ways = strcmp(words[2], "-") == 0 ? -1 : atoi(words[2]);
    tunnels.reach = ask_outside;
    fcntl(stop_fd, F_SETFD, FD_CLOEXEC);
    fcntl(ways, F_SETFD, FD_CLOEXEC);
    lead_session();
    if (strcmp(words[8], VM_UML) != 0)
        restore(words[8]);
    else
        begin_beside();
    one_output = vm_handshake(&out, machine.here, terminal, words);
    vm_start(&machine, words[3], words[4]);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    relay();
    if (ended)
        _exit(status);
    warn("the kernel of the sandbox exited: %s", why_ended());
    _exit(ready ? KILLED : NOT_RUN);
}
