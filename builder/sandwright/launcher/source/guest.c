/*
 * launch --guest: the first process of a kernel of the sandbox's own (vm.c starts that).
 *
 * The root is what the host's sandbox shows, by hostfs. Here /dev, /proc and /sys are the guest's, the user and the limits
 * are set, the filter of system calls is put on, and the command is run as a job on the line's behalf (line.h). Who has
 * root here has what the kernel's process has outside: nothing that the host's sandbox doesn't give to any command.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/random.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"
#include "line.h"
#include "watch.h"

enum {
    SERIAL_MAJOR = 4, SERIAL_MINOR = 64, /* ttyS0 */
    HELD = 1 << 18,      /* bytes that wait for the line before no more output is read */
    QUIET = 20,          /* milliseconds without output after which a terminal has none left */
    MOST_FILES = 1 << 20, /* fs.nr_open */
    PERIOD = 100000,     /* microseconds, of the limit of processors */
};
static const uid_t NOBODYS = (uid_t)-2; /* the last that there is */

static int line = -1, signals = -1, procs = -1, master = -1, slave = -1;
static int input = -1, outputs[2] = {-1, -1}; /* ours */
static int its[3] = {-1, -1, -1};             /* the command's */
static struct bytes in, out, pending;
static struct words command, variables, mounts, planned, hidden, readonly;
static struct identity identity;
static struct terminal_of terminal;
static gid_t *groups;
static size_t group_count;
static int32_t files[2], processes = -1, processors = -1;
static struct sock_fprog filter;
static const char *directory = "/";
static bool has_terminal, one_output, begun, input_ended, stopped;
static pid_t job;

/* ---- the end */
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

static _Noreturn void power_off(void)
{
    flush();
    tcdrain(line);
    reboot(RB_POWER_OFF);
    _exit(NOT_RUN);
}

static _Noreturn void give_up(const char *what)
{
    char *why = text("inside: %s: %s", what, strerror(errno));
    line_say(&out, REFUSED, why, strlen(why));
    power_off();
}

static _Noreturn void leave_guest(int code)
{
    (void)code;
    give_up("the first process");
}

/* ---- what is there at the start */
static void make_node(const char *path, int major_number, int minor_number, mode_t mode)
{
    if (mknod(path, S_IFCHR | mode, makedev((unsigned)major_number, (unsigned)minor_number)) != 0 || chmod(path, mode) != 0)
        give_up(path);
}

static void make_devices(void)
{
    static const char *const links[][2] = {{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"},
                                           {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
                                           {"pts/ptmx", "/dev/ptmx"}};
    make_node("/dev/null", 1, 3, 0666);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int number = 0; number < 3; number++)
        if (nothing < 0 || (nothing != number && dup2(nothing, number) < 0))
            give_up("/dev/null");
    make_node("/dev/zero", 1, 5, 0666);
    make_node("/dev/full", 1, 7, 0666);
    make_node("/dev/random", 1, 8, 0666);
    make_node("/dev/urandom", 1, 9, 0666);
    make_node("/dev/tty", 5, 0, 0666);
    for (size_t index = 0; index < sizeof links / sizeof *links; index++)
        if (symlink(links[index][0], links[index][1]) != 0)
            give_up(links[index][1]);
    if (mkdir("/dev/pts", 0755) != 0 || mkdir("/dev/shm", 01777) != 0 || chmod("/dev/shm", 01777) != 0 ||
        mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620") != 0)
        give_up("/dev/pts");
}

/* No name leads to the line but for this moment: who has it says what it will. */
static void open_line(void)
{
    static const char place[] = "/dev/line";
    struct termios modes;
    if (mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=0755") != 0)
        give_up("/dev");
    make_node(place, SERIAL_MAJOR, SERIAL_MINOR, 0600);
    int file = open(place, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    line = fcntl(file, F_DUPFD_CLOEXEC, 10);
    close(file);
    if (line < 0 || unlink(place) != 0 || tcgetattr(line, &modes) != 0)
        power_off();
    cfmakeraw(&modes);
    if (tcsetattr(line, TCSAFLUSH, &modes) != 0)
        power_off();
}

static void mount_kernel(void)
{
    struct stat there;
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (mount("proc", "/proc", "proc", flags, NULL) != 0)
        give_up("/proc");
    if (stat("/sys", &there) == 0 && S_ISDIR(there.st_mode) && mount("sysfs", "/sys", "sysfs", flags | MS_RDONLY, NULL) != 0)
        give_up("/sys");
}

/* What is a mount outside is one here: it can't be moved away or linked out of, and what is read-only is so, too. The sandbox
 * outside keeps its contents; times and modes of what it lets nobody write would here be changed in memory. */
static void copy_mounts(void)
{
    for (size_t index = 0; index < mounts.count; index++) {
        const char *path = mounts.at[index] + 1;
        unsigned long flags = MS_NOSUID | MS_NODEV | (mounts.at[index][0] == 'r' ? MS_RDONLY : 0);
        bool root = strcmp(path, "/") == 0;
        if (!root && mount(path, path, NULL, MS_BIND, NULL) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
            continue; /* one of the host's, under what lies over it, or where nobody of this sandbox comes */
        if (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | flags, NULL) != 0)
            give_up(path);
    }
}

static void cover_kernel(void)
{
    for (size_t index = 0; index < hidden.count; index++)
        if (!hide_path(hidden.at[index]))
            give_up(hidden.at[index]);
    for (size_t index = 0; index < readonly.count; index++) {
        const char *path = readonly.at[index];
        if (access(path, F_OK) == 0 && (mount(path, path, NULL, MS_BIND | MS_REC, NULL) != 0 ||
                                           mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV |
                                                                        MS_NOEXEC, NULL) != 0))
            give_up(path);
    }
}

static void raise_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request) != 0)
        give_up("lo");
    close(any);
}

static void write_to(const char *path, const char *words)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, words, strlen(words)) < 0)
        give_up(path);
    close(file);
}

/* Control groups of this kernel: nobody outside has to delegate them. */
static void limit_all(void)
{
    if (processes < 0 && processors < 0)
        return;
    if (mkdir("/dev/group", 0700) != 0 || mount("none", "/dev/group", "cgroup2", 0, NULL) != 0)
        give_up("control groups");
    if (processes >= 0)
        write_to("/dev/group/cgroup.subtree_control", "+pids");
    if (processors >= 0)
        write_to("/dev/group/cgroup.subtree_control", "+cpu");
    if (mkdir("/dev/group/run", 0700) != 0)
        give_up("control groups");
    if (processes >= 0)
        write_to("/dev/group/run/pids.max", text("%d", processes));
    if (processors >= 0)
        write_to("/dev/group/run/cpu.max", text("%ld %d", (long)processors * (PERIOD / 1000), PERIOD));
    procs = open("/dev/group/run/cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (procs < 0 || umount2("/dev/group", MNT_DETACH) != 0 || rmdir("/dev/group") != 0)
        give_up("control groups");
}

static void add_entropy(const void *content, size_t length)
{
    struct rand_pool_info *pool = take(sizeof *pool + length);
    int file = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
    pool->entropy_count = (int)length * 8;
    pool->buf_size = (int)length;
    memcpy(pool->buf, content, length);
    if (file < 0 || ioctl(file, RNDADDENTROPY, pool) != 0)
        give_up("/dev/urandom");
    close(file);
}

/* ---- the command */
static void drop_rights(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct own[2] = {{0}};
    for (int half = 0; half < 2; half++)
        own[half].effective = own[half].permitted = identity.capabilities[half];
    for (int number = 0; prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; number++)
        if ((identity.capabilities[number / 32] >> number % 32 & 1) == 0 && prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0)
            refuse_errno("rights can not be given up");
    if (setgroups(group_count, groups) != 0 || setresgid((gid_t)identity.group, (gid_t)identity.group, (gid_t)identity.group) != 0 ||
        setresuid((uid_t)identity.user, (uid_t)identity.user, (uid_t)identity.user) != 0 ||
        syscall(SYS_capset, &header, own) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        refuse_errno("rights can not be given up");
}

static void set_limits(void)
{
    rlim_t soft = (rlim_t)(files[0] > MOST_FILES ? MOST_FILES : files[0]), hard = (rlim_t)(files[1] > MOST_FILES ? MOST_FILES : files[1]);
    if (setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) != 0 || setrlimit(RLIMIT_NOFILE, &(struct rlimit){soft, hard}) != 0 ||
        setrlimit(RLIMIT_NPROC, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) != 0)
        refuse_errno("limits can not be set");
    if (procs >= 0 && write(procs, "0", 1) != 1)
        refuse_errno("resources can not be limited");
}

static _Noreturn void leave_job(int code)
{
    _exit(code);
}

static _Noreturn void become_command(const sigset_t *given)
{
    char *none = NULL;
    leave = leave_job;
    for (int number = 0; number < 3; number++)
        if (dup2(its[number], number) < 0)
            _exit(NOT_RUN);
    set_limits();
    drop_rights();
    umask((mode_t)identity.mask);
    if (chdir(directory) != 0)
        refuse_errno("%s can't be entered", directory);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        refuse_errno("the filter can't be set");
    sigprocmask(SIG_SETMASK, given, NULL);
    exec_command(command.at, variables.count == 0 ? &none : variables.at);
}

static void make_pipe(int number)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        give_up("a pipe");
    int own = ends[number == 0];
    its[number] = ends[number != 0];
    fcntl(own, F_SETFL, O_NONBLOCK);
    /* Who isn't root here opens it anew by /dev/stdout, as with any pipe. */
    if (fchown(its[number], (uid_t)identity.user, (gid_t)identity.group) != 0)
        give_up("a pipe");
    *(number == 0 ? &input : &outputs[number - 1]) = own;
}

/* This process leads its session: it has it as standard input, too. */
static void make_terminal(void)
{
    int locked = 0;
    if ((master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) < 0 ||
        ioctl(master, TIOCSPTLCK, &locked) != 0 ||
        (slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0 ||
        fchown(slave, (uid_t)identity.user, (gid_t)identity.group) != 0 ||
        tcsetattr(slave, TCSANOW, &terminal.modes) != 0 || ioctl(master, TIOCSWINSZ, &terminal.size) != 0 ||
        dup2(slave, 0) < 0)
        give_up("a terminal");
    its[0] = its[1] = slave;
    input = outputs[0] = master;
}

/* Root inside would be this process's user, too, which may stop it, end it, and take its descriptors from it (prlimit(2)). */
static void be_nobodys(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct all[2];
    if (syscall(SYS_capget, &header, all) != 0 || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 ||
        setresuid(NOBODYS, NOBODYS, NOBODYS) != 0 || syscall(SYS_capset, &header, all) != 0)
        give_up("a user");
}

static void start_command(void)
{
    sigset_t none;
    sigemptyset(&none);
    if (has_terminal)
        make_terminal();
    else {
        make_pipe(0);
        make_pipe(1);
    }
    if (has_terminal && terminal.errors)
        its[2] = slave;
    else if (one_output)
        its[2] = its[1];
    else
        make_pipe(2);
    lead_session();
    be_nobodys();
    job = fork();
    if (job < 0)
        give_up("a process");
    job_begin(job);
    if (job == 0)
        become_command(&none);
    for (int number = 0; number < 3; number++)
        if (its[number] != slave)
            close(its[number]);
}

static void begin(void)
{
    const char *failed = planned.count == 0 ? NULL : guest_root(&planned, &identity);
    if (failed != NULL)
        give_up(failed);
    copy_mounts();
    cover_kernel();
    raise_loopback();
    limit_all();
    if (command.count == 0)
        give_up("no command");
    start_command();
    begun = true;
}

/* ---- the line */
static void copy_fixed(void *to, size_t size, const void *content, size_t length)
{
    if (length == size)
        memcpy(to, content, size);
}

static char *word_of(const void *content, size_t length)
{
    char *word = take(length + 1);
    memcpy(word, content, length);
    return word;
}

static void take_setting(enum frame frame, const unsigned char *content, size_t length)
{
    switch (frame) {
    case WORD_OF_COMMAND:
        add(&command, word_of(content, length));
        break;
    case VARIABLE:
        add(&variables, word_of(content, length));
        break;
    case MOUNT_POINT:
        add(&mounts, word_of(content, length));
        break;
    case PLANNED:
        add(&planned, word_of(content, length));
        break;
    case HIDDEN_PATH:
        add(&hidden, word_of(content, length));
        break;
    case READ_ONLY_PATH:
        add(&readonly, word_of(content, length));
        break;
    case DIRECTORY:
        directory = word_of(content, length);
        break;
    case IDENTITY:
        copy_fixed(&identity, sizeof identity, content, length);
        break;
    case GROUP:
        groups = reallocarray(groups, group_count + 1, sizeof *groups);
        if (groups == NULL)
            give_up("groups");
        groups[group_count++] = (gid_t)line_take_number(content, length);
        break;
    case HOST_NAME:
        if (sethostname((const char *)content, length) != 0)
            give_up("the name");
        break;
    case FILTER_OF_CALLS:
        filter = (struct sock_fprog){(unsigned short)(length / sizeof(struct sock_filter)),
                                     (struct sock_filter *)(void *)word_of(content, length)};
        break;
    case LIMIT_FILES:
        copy_fixed(files, sizeof files, content, length);
        break;
    case LIMIT_PROCESSES:
        processes = line_take_number(content, length);
        break;
    case LIMIT_PROCESSORS:
        processors = line_take_number(content, length);
        break;
    case ENTROPY:
        add_entropy(content, length);
        break;
    case TERMINAL:
        copy_fixed(&terminal, sizeof terminal, content, length);
        has_terminal = true;
        break;
    case ONE_OUTPUT:
        one_output = true;
        break;
    case BEGIN:
        begin();
        break;
    default:
        give_up("a frame");
    }
}

static void take_frame(enum frame frame, const unsigned char *content, size_t length)
{
    struct winsize size;
    switch (frame) {
    case INPUT:
        input_ended = input_ended || length == 0;
        bytes_add(&pending, content, input < 0 ? 0 : length);
        break;
    case SIGNAL:
        job_signal(job, line_take_number(content, length), &stopped);
        break;
    case SIZE:
        copy_fixed(&size, sizeof size, content, length);
        if (master >= 0 && length == sizeof size)
            ioctl(master, TIOCSWINSZ, &size);
        break;
    case CLOSED: {
        int number = line_take_number(content, length);
        if (number >= 0 && number < 2 && outputs[number] >= 0 && outputs[number] != master) {
            close(outputs[number]);
            outputs[number] = -1;
        }
        break;
    }
    default:
        give_up("a frame");
    }
}

static void take_line(void)
{
    enum frame frame;
    unsigned char *content;
    size_t length;
    int next;
    size_t held = bytes_held(&in);
    if (!bytes_read(&in, line))
        power_off();
    if (bytes_held(&in) > held)
        line_number(&out, RECEIVED, (int32_t)(bytes_held(&in) - held));
    while ((next = line_next(&in, &frame, &content, &length)) > 0)
        if (begun)
            take_frame(frame, content, length);
        else
            take_setting(frame, content, length);
    if (next < 0)
        give_up("a frame");
}

/* ---- the streams */
static void close_input(void)
{
    if (input >= 0 && input != master)
        close(input);
    input = -1;
    pending.begin = pending.end;
}

/* What a command that has closed its input doesn't take is not said to be taken: then no more comes. */
static void give_input(void)
{
    size_t held = bytes_held(&pending);
    if (input >= 0 && !bytes_write(&pending, input, SIZE_MAX))
        close_input();
    else if (held > bytes_held(&pending))
        line_number(&out, TAKEN, (int32_t)(held - bytes_held(&pending)));
    if (input_ended && bytes_held(&pending) == 0)
        close_input();
}

/* False: there is nothing now. */
static bool take_output(int number)
{
    static char content[1 << 16];
    ssize_t got = outputs[number] < 0 ? -1 : read(outputs[number], content, sizeof content);
    if (got > 0)
        line_say(&out, number == 0 ? OUTPUT : ERRORS, content, (size_t)got);
    if (got == 0 && outputs[number] != master) {
        close(outputs[number]);
        outputs[number] = -1;
    }
    return got > 0;
}

static _Noreturn void finish_run(int wait_status)
{
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    for (int number = 0; number < 2; number++)
        while (take_output(number) ||
               (outputs[number] >= 0 && outputs[number] == master && poll(&(struct pollfd){.fd = master, .events = POLLIN}, 1, QUIET) > 0))
            flush();
    sync();
    line_number(&out, ENDED, exit_status(wait_status));
    power_off();
}

static void take_children(void)
{
    struct signalfd_siginfo info;
    int status;
    pid_t child;
    while (read(signals, &info, sizeof info) == sizeof info)
        ;
    while ((child = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (child != job)
            continue;
        if (!WIFSTOPPED(status))
            finish_run(status);
        stopped = true;
        line_say(&out, HALTED, NULL, 0);
    }
}

static void attend(void)
{
    bool room = bytes_held(&out) < HELD;
    bool feeds = input >= 0 && (bytes_held(&pending) > 0 || (input_ended && input != master));
    struct pollfd each[] = {
        {.fd = line, .events = (short)(POLLIN | (bytes_held(&out) > 0 ? POLLOUT : 0))},
        {.fd = signals, .events = POLLIN},
        {.fd = feeds ? input : -1, .events = POLLOUT},
        {.fd = room ? outputs[0] : -1, .events = POLLIN},
        {.fd = room ? outputs[1] : -1, .events = POLLIN},
    };
    if (poll(each, sizeof each / sizeof *each, -1) < 0)
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
    if (!bytes_write(&out, line, SIZE_MAX))
        power_off();
}

/* Of a job whose parent is the first process of a machine the kernel thinks that nobody would continue it: the suspend key
 * would do nothing (kernel/exit.c, will_become_orphaned_pgrp). So this one only waits, and the second does all. */
static void become_second(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    int status;
    pid_t second = fork(), ended;
    if (second < 0)
        give_up("a process");
    if (second == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        return;
    }
    close(line);
    do {
        ended = waitpid(-1, &status, WUNTRACED);
        if (ended == second && WIFSTOPPED(status)) /* by root with rights (process.privileged) */
            kill(second, SIGCONT);
    } while (ended != second || WIFSTOPPED(status));
    power_off();
}

_Noreturn void guest_main(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    leave = leave_guest;
    umask(0);
    open_line();
    become_second();
    line_say(&out, READY, NULL, 0);
    make_devices();
    mount_kernel();
    if ((signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        give_up("signals");
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    for (;;)
        attend();
}
