/*
 * A kernel of its own for the command: User-Mode Linux, an ordinary program, inside the sandbox that bubblewrap makes.
 *
 * launch --vm STOP_FD FILTER WAYS KERNEL MEMORY PROCESSES PROCESSORS FILES ENGINE { FRAME CONTENT } - COMMAND [ARGUMENT ...]
 *
 * is the sandbox's first process: it starts the kernel, which sees of the host what this process sees, and relays standard
 * streams, signals and the size of the terminal over one line (line.h) to the first process there (guest/source/guest.c).
 * What is said first is in vm_handshake.c; vm_kernel.c starts the kernel. Whatever comes over the line, and whatever the
 * kernel's process does, stays inside the sandbox: the outer launcher takes nothing from here but what it takes from any
 * command.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "broker.h"
#include "launch.h"
#include "ports.h"
#include "tunnels.h"
#include "vm.h"
#include "vm_ports.h"

extern char **environ;

enum {
    BOOT = 60000,   /* milliseconds that the kernel may take to start */
    LAST = 20,      /* milliseconds between two looks at what is left at the end */
    PART = 4096,    /* bytes that a pipe takes without waiting once it takes any */
    HELD = 1 << 18, /* bytes of output that are held before no more is taken from the line */
};

static const char UML[] = "uml";
static int signals = -1, stop_fd = -1, ways = -1; /* ways: to vm_ports.c */
static const char GUEST[] = "/dev/.sandwright-guest";
static struct machine machine = {.init = GUEST, .directory = MEMORY, .line = -1};
static struct bytes in, out, outputs[2];
static struct file_beside beside;
static size_t ahead, on_line; /* of the input, what the command hasn't taken yet; of the line, what hasn't been read */
static bool terminal, one_output, ready, ended, input_ended, exited, gone; /* gone: nothing more comes from it */
static int status, last; /* last: how the kernel's process ended, as wait(2) has it */

/* ---- outside: the command that starts all this */
static void add_said(struct strv *all, enum frame frame, const struct strv *words)
{
    for (size_t index = 0; index < words->count; index++) {
        strv_push(all, xasprintf("%c", frame));
        strv_push(all, words->at[index]);
    }
}

/* In the order of vm_main's. */
static void add_words(const struct run *run, struct strv *all, const char *stop_word, const char *filter, const char *ways_word,
                      const char *program)
{
    char *proxy[] = {xasprintf("%d", PROXY_PORT)}, *resolver[] = {(char *)run->plan.names.resolver_place};
    char *hosts[] = {(char *)run->plan.names.hosts_place};
    char *const first[] = {(char *)stop_word, (char *)filter, (char *)ways_word, (char *)program, xasprintf("%ld", run->plan.vm.memory),
                           xasprintf("%ld", run->plan.pids), xasprintf("%ld", run->plan.vm.cpus), xasprintf("%ld", run->plan.files),
                           (char *)(run->plan.vm.accelerator != NULL ? run->plan.vm.accelerator : UML)};
    strv_extend(all, &(struct strv){(char **)first, sizeof first / sizeof *first});
    add_said(all, HIDDEN_PATH, &run->plan.vm.hidden);
    add_said(all, READ_ONLY_PATH, &run->plan.vm.readonly);
    add_said(all, LISTEN, &(struct strv){proxy, run->plan.proxy});
    add_said(all, LISTEN, &run->plan.localhost);
    add_said(all, EXPOSED, &run->plan.expose);
    add_said(all, NAME_OF_HOST, &run->plan.names.patterns);
    add_said(all, NAME_PORT, &run->plan.names.ports);
    add_said(all, RESOLVER, &(struct strv){resolver, resolver[0] != NULL});
    add_said(all, HOSTS, &(struct strv){hosts, hosts[0] != NULL});
    strv_push(all, "-");
    for (char **word = run->command; *word != NULL; word++)
        strv_push(all, *word);
}

/* QEMU itself is started where it is: it finds its libraries and its firmware from there. */
static void bind_machine(struct strv *given, const char *accelerator)
{
    char *const machine[] = {"--ro-bind", getenv("SANDWRIGHT_MACHINE"), QEMU_PLACE};
    char *const device[] = {"--dev-bind", "/dev/kvm", "/dev/kvm"};
    if (machine[1] == NULL || machine[1][0] != '/')
        die("SANDWRIGHT_MACHINE does not name the directory of a machine: `sandwright run` makes one");
    strv_extend(given, &(struct strv){(char **)machine, 3});
    if (strcmp(accelerator, "kvm") == 0)
        strv_extend(given, &(struct strv){(char **)device, 3});
}

const char *vm_guest(const struct run *run)
{
    static const char name[] = "guest";
    size_t length;
    checked_artifact(run, name, &length);
    return xasprintf("%s/%s", run->directory, name);
}

void vm_command(struct run *run, struct strv *given, const char *init, const char *stop_word, const char *filter,
                const char *ways_word)
{
    static const char place[] = "/dev/.sandwright-kernel";
    const char *program = find_program(run, run->plan.vm.kernel);
    struct strv all = {0};
    if (program == NULL)
        die("%s (%s) is not installed", run->plan.vm.kernel, run->plan.vm.accelerator != NULL ? "QEMU" : "User-Mode Linux");
    if (run->plan.vm.accelerator != NULL)
        bind_machine(given, run->plan.vm.accelerator);
    else {
        char *const binds[] = {"--ro-bind", (char *)program, (char *)place, "--ro-bind", (char *)vm_guest(run), (char *)GUEST};
        strv_extend(given, &(struct strv){(char **)binds, 6});
    }
    strv_push(&all, (char *)init);
    strv_push(&all, "--vm");
    add_words(run, &all, stop_word, filter, ways_word, run->plan.vm.accelerator != NULL ? program : place);
    run->command = all.at;
}

/* ---- ways out and in */
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
        die("what leads out of the sandbox has ended");
    if (said.number >= 0)
        tunnels_reached(&tunnels, said.number, got == 1 ? files[0] : -1);
    else if (got == 1)
        tunnels_begin(&tunnels, files[0], (unsigned short)said.port, &out);
}

/* ---- the relay */
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
        if (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGPIPE) /* which is our own, of an output that nobody reads */
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
        if (stop_fd >= 0)
            (void)!write(stop_fd, "", 1);
        break;
    case REFUSED:
        die("%.*s", (int)length, (char *)content);
    case ENDED:
        ended = true;
        status = line_take_number(content, length);
        break;
    default:
        if (!tunnels_take(&tunnels, frame, content, length))
            die("what is said inside can't be understood");
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
            die("what is said inside can't be understood");
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

/* Who reads may have gone: then the command is to see the same. */
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
        out.begin = out.end; /* nobody reads it any more, but what was said before may still be there */
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
        gone = gone || (exited && room); /* all that it had said is taken */
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
            die("the kernel of the sandbox doesn't start: %s", vm_last_words());
        relay_once((int)left);
    }
    while (bytes_held(&outputs[0]) > 0 || bytes_held(&outputs[1]) > 0)
        relay_once(-1);
    for (long until = milliseconds() + TUNNELS_LAST; ended && tunnels_hold(&tunnels) && milliseconds() < until;)
        relay_once(LAST);
}

/* What was ready when it was copied is told nothing but what it doesn't know: how late it is. */
static void restore(const char *accelerator)
{
    struct timespec now;
    machine.accelerator = accelerator;
    clock_gettime(CLOCK_REALTIME, &now);
    line_say(&out, CLOCK, (int64_t[]){now.tv_sec, now.tv_nsec}, 2 * sizeof(int64_t));
}

/* Without it all goes by the line. */
static void begin_beside(void)
{
    char *path = xasprintf("%s/line", machine.directory);
    if (!line_make_beside(&beside, path))
        return;
    machine.beside = path;
    out.beside = &beside;
}

/* Why the kernel ended, once its line is closed. One that only closed it is not waited for: it is killed. */
static const char *why_ended(void)
{
    if (!exited && kill(machine.process, SIGKILL) == 0) /* which changes nothing for one that a signal ended before */
        waitpid(machine.process, &last, 0);
    return WIFSIGNALED(last) && WTERMSIG(last) == SIGXFSZ
               ? "one of its files, as its memory is, would be larger than files may be here (RLIMIT_FSIZE, `ulimit -f`)"
               : vm_last_words();
}

_Noreturn void vm_main(char **words)
{
    sigset_t all;
    for (int index = 0; index < 9; index++)
        if (words[index] == NULL)
            die("give a command to run");
    sigfillset(&all);
    if (sigprocmask(SIG_BLOCK, &all, NULL) != 0 || (signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        die_errno("signals can't be received");
    prctl(PR_SET_NAME, "init");
    if (machine.here == NULL) /* else the supervisor reads which files it asks for */
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    stop_fd = strcmp(words[0], "-") == 0 ? -1 : atoi(words[0]);
    ways = strcmp(words[2], "-") == 0 ? -1 : atoi(words[2]);
    tunnels.reach = ask_outside;
    terminal = stop_fd >= 0;
    fcntl(stop_fd, F_SETFD, FD_CLOEXEC);
    fcntl(ways, F_SETFD, FD_CLOEXEC);
    lead_session();
    if (strcmp(words[8], UML) != 0)
        restore(words[8]);
    else
        begin_beside();
    one_output = vm_handshake(&out, machine.here, terminal, words);
    vm_start(&machine, words[3], words[4]);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    relay();
    if (ended)
        _exit(status);
    warn("the kernel of the sandbox has ended: %s", why_ended());
    _exit(ready ? KILLED : NOT_RUN);
}

_Noreturn void vm_here(struct run *run, int stop_file, int ways_file, const char *program, const char *own, char *const *given)
{
    struct strv all = {0};
    machine.here = run;
    environ = (char **)given;
    machine.init = xasprintf("%s/init", own);
    machine.directory = own;
    const char *ways_word = ways_file >= 0 ? xasprintf("%d", ways_file) : "-";
    add_words(run, &all, stop_file >= 0 ? xasprintf("%d", stop_file) : "-", "-", ways_word, program);
    vm_main(all.at);
}
