/*
 * A kernel of its own for the command: User-Mode Linux, an ordinary program, inside the sandbox that bubblewrap makes.
 *
 * launch --vm BELL FILTER KERNEL MEMORY PROCESSES PROCESSORS FILES { HIDDEN } - { READ-ONLY } - COMMAND [ARGUMENT ...]
 *
 * is the sandbox's first process: it starts the kernel, which sees of the host what this process sees, and relays standard
 * streams, signals and the size of the terminal over one line (line.h) to `launch --guest`, the first process there
 * (guest.c). Whatever comes over the line, and whatever the kernel's process does, stays inside the sandbox: the outer
 * launcher takes nothing from here but what it takes from any command.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <linux/capability.h>
#include <unistd.h>

#include "launch.h"
#include "line.h"
#include "paths.h"
#include "watch.h"

extern char **environ;

enum {
    LINE = 3,              /* the kernel's descriptor */
    BOOT = 60000,          /* milliseconds that it may take to start */
    PART = 4096,           /* bytes that a pipe takes without waiting once it takes any */
    HELD = 1 << 18,        /* bytes of output that are held before no more is taken from the line */
    MOST_CONSOLE = 1 << 16,
    MOST_GROUPS = 1 << 16,
};
static const char MEMORY[] = "/dev/shm"; /* where the kernel keeps its memory: the sandbox's own, of which nothing is seen */

static int line = -1, console = -1, signals = -1, bell = -1;
static pid_t kernel;
static struct bytes in, out, outputs[2], said;
static size_t ahead, on_line; /* of the input, what the command hasn't taken yet; of the line, what hasn't been read */
static bool terminal, one_output, ready, ended, input_ended, exited, gone; /* gone: nothing more comes from it */
static int status;
static struct run *here; /* under landlock: what is there is told by its plans and not by the sandbox that we are in */
static const char *begins = "/dev/.sandwright-init", *directory_of_kernel = MEMORY;

/* ---- outside: the command that starts all this */
static void add_words(const struct run *run, struct words *all, const char *bell_word, const char *filter, const char *program)
{
    char *const first[] = {(char *)bell_word, (char *)filter, (char *)program, text("%ld", run->plan.memory),
                           text("%ld", run->plan.pids), text("%ld", run->plan.cpus), text("%ld", run->plan.files)};
    add_all(all, &(struct words){(char **)first, sizeof first / sizeof *first});
    add_all(all, &run->plan.guest_hidden);
    add(all, "-");
    add_all(all, &run->plan.guest_readonly);
    add(all, "-");
    for (char **word = run->command; *word != NULL; word++)
        add(all, *word);
}

void vm_command(struct run *run, struct words *given, const char *init, const char *bell_word, const char *filter)
{
    static const char place[] = "/dev/.sandwright-kernel";
    const char *program = find_program(run, run->plan.kernel);
    struct words all = {0};
    if (program == NULL)
        refuse("%s (User-Mode Linux) is not installed", run->plan.kernel);
    char *const bind[] = {"--ro-bind", (char *)program, (char *)place};
    add_all(given, &(struct words){(char **)bind, 3});
    add(&all, (char *)init);
    add(&all, "--vm");
    add_words(run, &all, bell_word, filter, place);
    run->command = all.at;
}

/* ---- what is said first */
static void say_word(enum frame frame, const char *word)
{
    line_say(&out, frame, word, strlen(word));
}

static void say_identity(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    static gid_t groups[MOST_GROUPS];
    int count = getgroups(MOST_GROUPS, groups);
    mode_t mask = umask(0); /* the guest has its own; the host's would be taken from that again */
    if (syscall(SYS_capget, &header, data) != 0)
        refuse_errno("the rights of the sandbox can't be read");
    struct identity own = {(int32_t)getuid(), (int32_t)getgid(), {data[0].effective, data[1].effective}, (int32_t)mask};
    line_say(&out, IDENTITY, &own, sizeof own);
    for (int index = 0; index < count; index++)
        line_number(&out, GROUP, (int32_t)groups[index]);
}

static void say_limits(const char *processes, const char *processors, const char *files)
{
    struct rlimit own;
    if (getrlimit(RLIMIT_NOFILE, &own) != 0)
        refuse_errno("limits can't be read");
    long most = strtol(files, NULL, 10);
    int32_t both[2] = {(int32_t)(own.rlim_cur > INT_MAX ? INT_MAX : own.rlim_cur),
                       (int32_t)(own.rlim_max > INT_MAX ? INT_MAX : own.rlim_max)};
    if (most >= 0)
        both[0] = both[1] = (int32_t)(most > INT_MAX ? INT_MAX : most);
    line_say(&out, LIMIT_FILES, both, sizeof both);
    if (strtol(processes, NULL, 10) >= 0)
        line_number(&out, LIMIT_PROCESSES, (int32_t)strtol(processes, NULL, 10));
    if (strtol(processors, NULL, 10) >= 0)
        line_number(&out, LIMIT_PROCESSORS, (int32_t)strtol(processors, NULL, 10));
    own.rlim_cur = own.rlim_max; /* the kernel opens a file of the host for each that is open inside */
    setrlimit(RLIMIT_NOFILE, &own);
}

static void say_terminal(void)
{
    struct terminal_of own = {.errors = isatty(2)};
    struct stat output, errors;
    one_output = fstat(1, &output) == 0 && fstat(2, &errors) == 0 && output.st_dev == errors.st_dev &&
                 output.st_ino == errors.st_ino && !isatty(1);
    if (one_output)
        line_say(&out, ONE_OUTPUT, NULL, 0);
    if (!terminal)
        return;
    if (tcgetattr(0, &own.modes) != 0 || ioctl(0, TIOCGWINSZ, &own.size) != 0)
        refuse_errno("the terminal can't be read");
    line_say(&out, TERMINAL, &own, sizeof own);
    cfmakeraw(&own.modes);
    if (tcsetattr(0, TCSANOW, &own.modes) != 0)
        refuse_errno("the terminal can't be set");
}

static void say_filter(const char *word)
{
    int file = atoi(word);
    struct stat size;
    if (here != NULL) {
        size_t length;
        const char *program = checked_artifact(here, "guest.bpf", &length);
        line_say(&out, FILTER_OF_CALLS, program, length);
        return;
    }
    if (fstat(file, &size) != 0)
        refuse_errno("the filter can't be read");
    char *content = take((size_t)size.st_size);
    if (pread(file, content, (size_t)size.st_size, 0) != size.st_size)
        refuse_errno("the filter can't be read");
    line_say(&out, FILTER_OF_CALLS, content, (size_t)size.st_size);
    close(file);
}

static char **say_paths(char **word, enum frame frame)
{
    for (; *word != NULL && strcmp(*word, "-") != 0; word++)
        say_word(frame, *word);
    if (*word == NULL)
        refuse("give a command to run");
    return word + 1;
}

/* The kernel has its own of these. */
static bool is_its_own(const char *path)
{
    static const char *const own[] = {"/dev", "/proc", "/sys"};
    for (size_t index = 0; index < sizeof own / sizeof *own; index++) {
        size_t length = strlen(own[index]);
        if (strncmp(path, own[index], length) == 0 && (path[length] == '\0' || path[length] == '/'))
            return true;
    }
    return false;
}

/* In the kernel's order: what is above comes first. */
static void say_mounts(void)
{
    char *content = read_file(AT_FDCWD, "/proc/self/mountinfo", 1 << 24, NULL), *each;
    struct mount mount;
    if (content == NULL)
        refuse_errno("/proc/self/mountinfo");
    while ((each = strsep(&content, "\n")) != NULL && *each != '\0') {
        if (!mount_parse(each, &mount))
            refuse("/proc/self/mountinfo can't be understood");
        if (!is_its_own(mount.point))
            say_word(MOUNT_POINT, text("%c%s", mount.readonly ? 'r' : 'w', mount.point));
    }
}

static bool is_ignored(const char *path)
{
    for (size_t index = 0; index < here->plan.ignored.count; index++)
        if (strcmp(here->plan.ignored.at[index], path) == 0)
            return true;
    return false;
}

static void say_planned(enum planned kind, const char *path, const char *seen)
{
    const char *head = text("%c%s", kind, path);
    size_t length = strlen(head) + 1, all = length + strlen(seen);
    char *content = take(all + 1);
    strcpy(content, head);
    strcpy(content + length, seen);
    line_say(&out, PLANNED, content, all);
}

/* In the plan's order; what a link is comes behind what lies under it. */
static void say_plan(void)
{
    static const enum planned kinds[] = {[MASK_FILE] = PLAN_HIDDEN, [MASK_DIRECTORY] = PLAN_HIDDEN, [READ] = PLAN_READ,
                                         [WRITE] = PLAN_WRITE, [COVER_FILE] = PLAN_READ};
    struct mount_plan plan = checked_mount_plan(here);
    for (size_t index = 0; index < plan.count; index++) {
        const struct record *each = &plan.records[index];
        enum planned kind = each->kind == OWN               ? each->writable ? PLAN_OWN : PLAN_EMPTY
                            : each->kind == COVER_DIRECTORY ? is_ignored(each->target) ? PLAN_IGNORED : PLAN_COVER
                                                            : kinds[each->kind];
        bool binds = kind == PLAN_READ || kind == PLAN_WRITE;
        if (!is_its_own(each->target))
            say_planned(kind, each->target, binds ? each->source : "");
    }
    for (size_t index = 0; index + 1 < here->plan.guest_links.count; index += 2)
        say_planned(PLAN_LINK, here->plan.guest_links.at[index], here->plan.guest_links.at[index + 1]);
}

static void say_all(char **words)
{
    char random[64], name[256] = "";
    const char *directory = here != NULL ? here->plan.start_directory : getcwd(NULL, 0);
    if (here != NULL && here->plan.guest_name != NULL)
        strncpy(name, here->plan.guest_name, sizeof name - 1);
    else if (gethostname(name, sizeof name - 1) != 0)
        refuse_errno("the sandbox can't be described");
    if (getrandom(random, sizeof random, 0) != sizeof random || directory == NULL)
        refuse_errno("the sandbox can't be described");
    line_say(&out, ENTROPY, random, sizeof random);
    say_word(HOST_NAME, name);
    say_word(DIRECTORY, directory);
    say_identity();
    say_filter(words[1]);
    say_limits(words[4], words[5], words[6]);
    say_terminal();
    if (here != NULL)
        say_plan();
    else
        say_mounts();
    for (char **each = environ; *each != NULL; each++)
        say_word(VARIABLE, *each);
    for (words = say_paths(say_paths(words + 7, HIDDEN_PATH), READ_ONLY_PATH); *words != NULL; words++)
        say_word(WORD_OF_COMMAND, *words);
    line_say(&out, BEGIN, NULL, 0);
}

/* ---- the kernel */

/* It takes turns with its programs, a few for each of their calls and faults. Between processors each turn waits for one to wake
 * up, which takes four times as long. Where this is refused, it is slower. */
static void stay_on_one_processor(void)
{
    cpu_set_t one;
    int now = sched_getcpu();
    CPU_ZERO(&one);
    if (now >= 0 && now < CPU_SETSIZE) {
        CPU_SET(now, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
}

static _Noreturn void become_kernel(const char *program, const char *memory, int its_line, int its_console)
{
    static const int kept[] = {LINE};
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    char *const words[] = {(char *)program, text("mem=%sM", memory), "rootfstype=hostfs", "rootflags=/", "rw",
                           text("init=%s", begins), "devtmpfs.mount=0", text("ssl0=fd:%d", LINE), "con=null",
                           "con0=null,fd:1", "quiet", text("uml_dir=%s/", directory_of_kernel), "panic=-1", "oops=panic",
                           "initcall_blacklist=raid6_select_algo,calibrate_xor_blocks", "--", "--guest", NULL};
    char *const variables[] = {text("TMPDIR=%s", here != NULL ? paths_memory() : MEMORY), text("HOME=%s", directory_of_kernel),
                               "PATH=/usr/bin:/bin", NULL};
    sigset_t none;
    sigemptyset(&none);
    its_line = fcntl(its_line, F_DUPFD_CLOEXEC, LINE + 1);
    its_console = fcntl(its_console, F_DUPFD_CLOEXEC, LINE + 1);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(its_console, 1) < 0 ||
        dup2(its_console, 2) < 0 || dup2(its_line, LINE) < 0)
        _exit(NOT_RUN);
    close_others(kept, 1);
    stay_on_one_processor();
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(program, words, variables);
    say("%s: %s", program, strerror(errno));
    _exit(NOT_RUN);
}

static void check_memory(const char *memory)
{
    struct statfs place;
    struct sysinfo machine;
    if (statfs(MEMORY, &place) != 0 && here == NULL)
        refuse_errno("%s", MEMORY);
    unsigned long half = here != NULL && sysinfo(&machine) == 0
                             ? (machine.totalram >> 21) * machine.mem_unit
                             : (place.f_blocks >> 10) * ((unsigned long)place.f_bsize >> 10);
    if ((unsigned long)strtol(memory, NULL, 10) > half)
        refuse("a kernel of its own would get %s MiB, and half of this machine's memory is less", memory);
}

static void start_kernel(const char *program, const char *memory)
{
    int lines[2], consoles[2];
    check_memory(memory);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lines) != 0 || pipe2(consoles, O_CLOEXEC) != 0 ||
        fcntl(lines[0], F_SETFL, O_NONBLOCK) != 0 || fcntl(consoles[0], F_SETFL, O_NONBLOCK) != 0)
        refuse_errno("no pipe can be made");
    kernel = fork();
    if (kernel < 0)
        refuse_errno("no process can be made");
    if (kernel == 0)
        become_kernel(program, memory, lines[1], consoles[1]);
    close(lines[1]);
    close(consoles[1]);
    line = lines[0];
    console = consoles[0];
}

/* What it said last, or why it panicked. */
static const char *last_words(void)
{
    while (bytes_held(&said) < MOST_CONSOLE && bytes_read(&said, console))
        if (errno == EAGAIN || errno == EINTR)
            break;
    bytes_add(&said, "", 1);
    char *words = (char *)said.at + said.begin, *found = strstr(words, "Kernel panic");
    if (found != NULL) {
        found[strcspn(found, "\n")] = '\0';
        return found;
    }
    while (strlen(words) > 0 && words[strlen(words) - 1] == '\n')
        words[strlen(words) - 1] = '\0';
    found = strrchr(words, '\n');
    return found != NULL ? found + 1 : words;
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
    for (pid_t child; (child = waitpid(-1, NULL, WNOHANG)) > 0;)
        exited = exited || child == kernel;
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
        break;
    case OUTPUT:
    case ERRORS:
        bytes_add(&outputs[frame == ERRORS && !one_output], content, length);
        break;
    case RECEIVED:
        lessen(&on_line, line_take_number(content, length));
        break;
    case TAKEN:
        lessen(&ahead, line_take_number(content, length));
        break;
    case HALTED:
        if (bell >= 0)
            (void)!write(bell, "", 1);
        break;
    case REFUSED:
        refuse("%.*s", (int)length, (char *)content);
    case ENDED:
        ended = true;
        status = line_take_number(content, length);
        break;
    default:
        refuse("what is said inside can't be understood");
    }
}

static void take_line(void)
{
    enum frame frame;
    unsigned char *content;
    size_t length;
    int next;
    gone = !bytes_read(&in, line) || gone;
    while (!ended && (next = line_next(&in, &frame, &content, &length)) != 0) {
        if (next < 0)
            refuse("what is said inside can't be understood");
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
    if (!bytes_write(&out, line, LINE_AHEAD - on_line))
        out.begin = out.end; /* nobody reads it any more, but what was said before may still be there */
    on_line += held - bytes_held(&out);
}

static void relay_once(int most)
{
    bool room = !ended && !gone && bytes_held(&outputs[0]) < HELD && bytes_held(&outputs[1]) < HELD;
    bool says = ready && !exited && bytes_held(&out) > 0 && on_line < LINE_AHEAD;
    struct pollfd each[] = {
        {.fd = room || says ? line : -1, .events = (short)((room ? POLLIN : 0) | (says ? POLLOUT : 0))},
        {.fd = signals, .events = POLLIN},
        {.fd = ready && !ended && !input_ended && ahead < INPUT_AHEAD ? 0 : -1, .events = POLLIN},
        {.fd = bytes_held(&outputs[0]) > 0 ? 1 : -1, .events = POLLOUT},
        {.fd = bytes_held(&outputs[1]) > 0 ? 2 : -1, .events = POLLOUT},
        {.fd = bytes_held(&said) < MOST_CONSOLE ? console : -1, .events = POLLIN},
    };
    if (poll(each, sizeof each / sizeof *each, exited && room ? 0 : most) < 0)
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
    if (each[5].revents != 0 && !bytes_read(&said, console)) {
        close(console);
        console = -1;
    }
    if (says)
        write_line();
}

static void relay(void)
{
    for (long until = milliseconds() + BOOT; !ended && !gone;) {
        long left = ready ? -1 : until - milliseconds();
        if (!ready && left <= 0)
            refuse("the kernel of the sandbox doesn't start: %s", last_words());
        relay_once((int)left);
    }
    while (bytes_held(&outputs[0]) > 0 || bytes_held(&outputs[1]) > 0)
        relay_once(-1);
}

_Noreturn void vm_main(char **words)
{
    sigset_t all;
    for (int index = 0; index < 7; index++)
        if (words[index] == NULL)
            refuse("give a command to run");
    sigfillset(&all);
    if (sigprocmask(SIG_BLOCK, &all, NULL) != 0 || (signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        refuse_errno("signals can't be received");
    prctl(PR_SET_NAME, "init");
    if (here == NULL) /* else the supervisor reads which files it asks for */
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    bell = strcmp(words[0], "-") == 0 ? -1 : atoi(words[0]);
    terminal = bell >= 0;
    if (bell >= 0)
        fcntl(bell, F_SETFD, FD_CLOEXEC);
    lead_session();
    say_all(words);
    start_kernel(words[2], words[3]);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    relay();
    if (ended)
        _exit(status);
    say("the kernel of the sandbox has ended: %s", last_words());
    _exit(ready ? KILLED : NOT_RUN);
}

_Noreturn void vm_here(struct run *run, int bell_file, const char *program, const char *own, char *const *given)
{
    struct words all = {0};
    here = run;
    environ = (char **)given;
    begins = text("%s/init", own);
    directory_of_kernel = own;
    add_words(run, &all, bell_file >= 0 ? text("%d", bell_file) : "-", "-", program);
    vm_main(all.at);
}
