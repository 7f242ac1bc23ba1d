/* Attempts on processes, capabilities, namespaces, chroot, mounts and system calls; questions about the
 * process. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#ifdef __linux__
#include <dirent.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#endif

extern char **environ;

#define FIRST given->text[0]
#define SECOND given->text[1]

/* echo TEXT: returns the text, to show that the program runs. */
static int echo(const struct arguments *given, struct value *value) {
    say_bytes(value, FIRST, given->length[0]);
    return 0;
}

/* print TEXT: writes the text to standard output by itself, as a server of MCP does. */
static int print(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(write(STDOUT_FILENO, FIRST, given->length[0]));
}

/* identity: uid, effective uid, gid, effective gid */
static int identity(const struct arguments *given, struct value *value) {
    (void)given;
    say(value, "%ld %ld %ld %ld", (long)getuid(), (long)geteuid(), (long)getgid(), (long)getegid());
    return 0;
}

/* environment [NAME]: the value of a variable, ENOENT if it is not set; without a name all variables, each
 * ended by NUL. */
static int environment(const struct arguments *given, struct value *value) {
    if (given->count == 0) {
        for (char **each = environ; *each; each++)
            say_bytes(value, *each, strlen(*each) + 1);
        return 0;
    }
    const char *found = getenv(FIRST);
    if (!found)
        return ENOENT;
    say_bytes(value, found, strlen(found));
    return 0;
}

/* descriptors: the open descriptors that the program has inherited, one per line. */
static int descriptors(const struct arguments *given, struct value *value) {
    (void)given;
    for (int each = 0; each < 1024; each++)
        if (fcntl(each, F_GETFD) != -1)
            say(value, "%d\n", each);
    return 0;
}

#ifdef __linux__
/* directories: a line for each directory that any process has open, because its `..` leads to everything
 * above it. Leaves out directories in /proc. */
static int open_directories(const struct arguments *given, struct value *value) {
    (void)given;
    DIR *processes = opendir("/proc");
    if (!processes)
        return errno;
    for (struct dirent *process; (process = readdir(processes));) {
        char path[64], target[256];
        if (process->d_name[0] < '1' || process->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%.20s/fd", process->d_name);
        DIR *descriptors = opendir(path);
        if (!descriptors)
            continue;
        for (struct dirent *each; (each = readdir(descriptors));) {
            struct stat status;
            ssize_t length = readlinkat(dirfd(descriptors), each->d_name, target, sizeof target);
            if (length < 0 || (length >= 5 && memcmp(target, "/proc", 5) == 0))
                continue;
            if (fstatat(dirfd(descriptors), each->d_name, &status, 0) == 0 && S_ISDIR(status.st_mode))
                say(value, "%s/%s\n", path, each->d_name);
        }
        closedir(descriptors);
    }
    closedir(processes);
    return 0;
}
#endif

/* setuid UID: switches to another user, usually root. */
static int set_user(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(setuid((uid_t)number(FIRST)));
}

static int set_group(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(setgid((gid_t)number(FIRST)));
}

static int change_root(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(chroot(FIRST));
}

/* kill PID SIGNAL */
static int kill_process(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(kill((pid_t)number(FIRST), (int)number(SECOND)));
}

/* run PROGRAM [WORD ...]: starts a program without a shell; returns its exit status, or 128 and the signal
 * that ended it. */
static int run_program(const struct arguments *given, struct value *value) {
    char *words[MAX_ARGUMENTS + 1] = {NULL};
    int failed[2], error = 0, status = 0;
    memcpy(words, given->text, (size_t)given->count * sizeof *words);
    if (pipe(failed) != 0)
        return errno;
    pid_t child = fork();
    if (child < 0)
        return errno;
    if (child == 0) {
        int nothing = open("/dev/null", O_RDWR);
        fcntl(failed[1], F_SETFD, FD_CLOEXEC);
        dup2(nothing, 1);
        dup2(nothing, 2);
        execv(FIRST, words);
        _exit(write(failed[1], &errno, sizeof errno) > 0 ? 126 : 127);
    }
    close(failed[1]);
    ssize_t length = read(failed[0], &error, sizeof error);
    waitpid(child, &status, 0);
    if (length > 0)
        return error;
    say(value, "%d", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    return 0;
}

/* exit STATUS, fault ADDRESS (an unmapped one), sleep SECONDS: for separate runs. */
static int exit_with(const struct arguments *given, struct value *value) {
    (void)value;
    exit((int)number(FIRST));
}

static int fault(const struct arguments *given, struct value *value) {
    (void)value;
    signal(SIGSEGV, SIG_DFL);
    return *(volatile int *)number(FIRST);
}

static int sleep_for(const struct arguments *given, struct value *value) {
    (void)value;
    for (unsigned left = (unsigned)number(FIRST); left;)
        left = sleep(left);
    return 0;
}

/* terminal REQUEST: an ioctl on a new controlling pseudo-terminal, with a byte to insert. */
static int terminal_request(const struct arguments *given, struct value *value) {
    char input[64] = "x";
    (void)value;
    int leader = posix_openpt(O_RDWR | O_NOCTTY);
    if (leader < 0 || grantpt(leader) != 0 || unlockpt(leader) != 0)
        return errno;
    setsid();
    int terminal = open(ptsname(leader), O_RDWR);
    return terminal < 0 ? errno : outcome(ioctl(terminal, (unsigned long)number(FIRST), input));
}

#ifdef __linux__

static char page[4096];

/* syscall NUMBER [ARGUMENT ...]: makes a system call; an argument `page` is the address of 4096 zero
 * bytes. */
static int system_call(const struct arguments *given, struct value *value) {
    long words[MAX_ARGUMENTS] = {0};
    for (int at = 0; at < given->count; at++)
        words[at] = strcmp(given->text[at], "page") == 0 ? (long)page : number(given->text[at]);
    long result = syscall(words[0], words[1], words[2], words[3], words[4], words[5], words[6]);
    say(value, "%ld", result);
    return outcome(result);
}

/* syscall32 NUMBER [ARGUMENT]: makes a system call through the 32-bit entry (numbers of i386). */
static int system_call_32(const struct arguments *given, struct value *value) {
#ifdef __x86_64__
    long result = number(FIRST);
    __asm__ volatile("int $0x80" : "+a"(result) : "b"(number(SECOND)), "c"(0L), "d"(0L) : "memory", "r8", "r9", "r10", "r11");
    if ((int)result < 0)
        return -(int)result;
    say(value, "%d", (int)result);
    return 0;
#else
    (void)given;
    (void)value;
    return ENOSYS;
#endif
}

/* mount SOURCE TARGET TYPE FLAGS */
static int mount_at(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(mount(FIRST, SECOND, given->text[2], (unsigned long)number(given->text[3]), NULL));
}

/* umount TARGET: detaches it, even while it is in use. */
static int unmount(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(umount2(FIRST, MNT_DETACH));
}

/* pivot DIRECTORY: makes the directory the root. */
static int pivot(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(syscall(SYS_pivot_root, FIRST, FIRST));
}

/* unshare FLAGS */
static int unshare_namespaces(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(unshare((int)number(FIRST)));
}

/* clone FLAGS: creates a child that exits at once. */
static int clone_child(const struct arguments *given, struct value *value) {
    (void)value;
    long child = syscall(SYS_clone, number(FIRST) | SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0)
        _exit(0);
    return outcome(child);
}

/* enter PATH FLAGS: enters a namespace through its file (setns(2)). */
static int enter_namespace(const struct arguments *given, struct value *value) {
    (void)value;
    int file = open(FIRST, O_RDONLY | O_CLOEXEC);
    return file < 0 ? errno : outcome(setns(file, (int)number(SECOND)));
}

static int set_groups(const struct arguments *given, struct value *value) {
    (void)given;
    (void)value;
    return outcome(setgroups(0, NULL));
}

static int set_host_name(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(sethostname(FIRST, given->length[0]));
}

/* trace PID, peek PID: another process; 0 means the parent, which waits for this one. */
static pid_t target(const struct arguments *given) {
    return number(FIRST) ? (pid_t)number(FIRST) : getppid();
}

static int trace(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(ptrace(PTRACE_SEIZE, target(given), NULL, NULL));
}

static int peek(const struct arguments *given, struct value *value) {
    char byte;
    struct iovec local = {&byte, 1}, remote = {page, 1};
    (void)value;
    return outcome(syscall(SYS_process_vm_readv, target(given), &local, 1UL, &remote, 1UL, 0UL));
}

/* raise: requests all capabilities of the bounding set, as root would (capset(2), version 3). */
static int raise_capabilities(const struct arguments *given, struct value *value) {
    struct {
        unsigned version;
        int pid;
    } header = {0x20080522, 0};
    unsigned sets[2][3] = {{~0U, ~0U, ~0U}, {0x1ff, 0x1ff, 0x1ff}};
    (void)given;
    (void)value;
    return outcome(syscall(SYS_capset, &header, sets));
}

#endif

const struct operation process_operations[] = {
    {"echo", echo},
    {"print", print},
    {"identity", identity},
    {"environment", environment},
    {"descriptors", descriptors},
    {"setuid", set_user},
    {"setgid", set_group},
    {"chroot", change_root},
    {"kill", kill_process},
    {"run", run_program},
    {"exit", exit_with},
    {"fault", fault},
    {"sleep", sleep_for},
    {"terminal", terminal_request},
#ifdef __linux__
    {"directories", open_directories},
    {"syscall", system_call},
    {"syscall32", system_call_32},
    {"mount", mount_at},
    {"umount", unmount},
    {"pivot", pivot},
    {"unshare", unshare_namespaces},
    {"clone", clone_child},
    {"enter", enter_namespace},
    {"setgroups", set_groups},
    {"sethostname", set_host_name},
    {"trace", trace},
    {"peek", peek},
    {"raise", raise_capabilities},
#endif
    {NULL, NULL},
};
