/*
 * An account of the project's own. What needs root is done by this program too, started by sudo (`--as-root`) unless it
 * is root already: it makes namespaces, and in them a first process, which mounts the root of the run, becomes the
 * account in a child and runs the command there. What ends the first process ends all.
 *
 * Root's half takes four things from whoever calls it: the command, which gets no right but the account's; its
 * environment, which only the command gets; a socket; and memory for what is refused. These are taken from the keeper, of whom nothing is believed
 * but that it runs this same program and that we descend from it. What is mounted and who is become is read again, from
 * beside the program that sudo was allowed to start.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "denied.h"
#include "launch.h"

enum { RUNS, HAS_STOPPED };
enum { OURS, THEIRS, MOST = 1 << 26, SUDO_ASKS = 10 };

static int ends[2] = {-1, -1};   /* a socket: signals go to root's half; a byte comes when the command runs, and when it stops */
static int environment = -1;     /* what root's half reads: three descriptors' numbers, and the environment */
static const char *sudo;         /* NULL when we are root */
static bool running;

/* ---- the caller's half */
static void check(struct run *run)
{
    struct stat status;
    const struct plan *plan = &run->plan;
    notify_filter(run, "seccomp.bpf");
    denied_share();
    if (getpwnam(plan->account) == NULL || stat(plan->account_place, &status) != 0 || !S_ISDIR(status.st_mode))
        refuse("this project has no account here yet: \"sandwright account-setup\" shows what makes one");
    if (geteuid() == 0) {
        if (plan->proxy)
            egress_check(run);
        return;
    }
    if (plan->proxy || ports_wanted(run))
        refuse("a network with a proxy, and ports that lead to it or from it, need root with this method");
    if ((sudo = find_program(run, "sudo")) == NULL)
        refuse("becoming the account needs root, and there is no sudo");
    char *const words[] = {(char *)sudo, "-n", "true", NULL};
    if (capture(run, words, NULL, SUDO_ASKS) != 0)
        refuse("becoming the account needs root, and sudo asks for a password");
}

static void tell_word(const char *word)
{
    size_t length = strlen(word) + 1;
    for (ssize_t wrote; length > 0; word += wrote, length -= (size_t)wrote)
        if ((wrote = write(environment, word, length)) <= 0)
            refuse_errno("the environment can't be passed on");
}

static void prepare(struct run *run)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 ||
        (environment = memfd_create("environment", MFD_CLOEXEC)) < 0)
        refuse_errno("the environment can't be passed on");
    run->wakes = ends[OURS];
    tell_word(text("%d", ends[THEIRS]));
    tell_word(text("%d", run->lock));
    tell_word(text("%d", denied_memory()));
    for (size_t index = 0; index < run->passed.count; index++)
        tell_word(run->passed.at[index]);
}

/* Whether nobody is there any more. */
static bool hear(void)
{
    char word;
    ssize_t got;
    while ((got = recv(ends[OURS], &word, 1, MSG_DONTWAIT)) == 1) {
        if (word == HAS_STOPPED)
            tell_stopped();
        running = true;
    }
    return got == 0;
}

static void readable(struct run *run)
{
    if (hear())
        run->wakes = -1;
}

static bool deliver(struct run *run, int number)
{
    char word = (char)number;
    (void)run;
    hear();
    return running && send(ends[OURS], &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

static void end(struct run *run)
{
    (void)run;
    shutdown(ends[OURS], SHUT_RDWR);
}

/* sudo exits with 1 when it starts nothing. What it has started is root's: it ends by the socket when sudo was killed. */
static int outcome(struct run *run, int status)
{
    hear();
    end(run);
    return running ? exit_status(status) : exit_status(status) == KILLED ? KILLED : NOT_RUN;
}

static void clean(struct run *run)
{
    if (run->plan.proxy)
        egress_close(run);
}

/* ---- root's half: the mounts */
static const char *place;
static int root = -1; /* the topmost mount on the place */

/* Mounts on the place itself are seen by who opens it again. */
static void open_root(void)
{
    if (root >= 0)
        close(root);
    root = open(place, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        refuse_errno("%s can't be opened", place);
}

/* A path inside, from the root: `.` for that itself. */
static const char *below(const char *path)
{
    return path[strspn(path, "/")] == '\0' ? "." : path + strspn(path, "/");
}

/* Through no link. */
static int open_plain(int from, const char *path, unsigned long resolve)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | resolve};
    return (int)syscall(SYS_openat2, from, path, &how, sizeof how);
}

/* Nobody's link is followed, as the account may write where some of the paths lead. */
static int open_inside(const char *path)
{
    return open_plain(root, below(path), RESOLVE_BENEATH);
}

static int target(const char *path)
{
    int file = open_inside(path);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0)
        refuse_errno("%s%s can't be mounted", place, path);
    if (S_ISLNK(status.st_mode))
        refuse("%s%s is a link", place, path);
    return file;
}

static void mounted(const char *type, const char *path, unsigned long flags, const char *data)
{
    int file = target(path);
    if (mount(type, text("/proc/self/fd/%d", file), type, flags, data) != 0)
        refuse_errno("%s%s can't be mounted", place, path);
    close(file);
    if (strcmp(below(path), ".") == 0)
        open_root();
}

/* Adds attributes, and never takes one away (Linux 5.12). */
static void restricted(int file, const char *path, unsigned long long set, unsigned depth)
{
    struct mount_attr given = {.attr_set = set};
    if (syscall(SYS_mount_setattr, file, "", AT_EMPTY_PATH | depth, &given, sizeof given) != 0)
        refuse_errno("%s%s can't be restricted, for which Linux 5.12 is needed", place, path);
}

/* All attributes are there before anybody can see the mount. */
static void bound(const char *source, const char *path, unsigned long long set)
{
    int from = open_plain(AT_FDCWD, source, 0);
    struct stat status;
    if (from < 0 || fstat(from, &status) != 0)
        refuse_errno("%s can't be shown", source);
    if (S_ISLNK(status.st_mode))
        refuse("%s is a link", source);
    int file = target(path), tree = (int)syscall(SYS_open_tree, from, "",
                                 AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        refuse_errno("%s%s can't be mounted", place, path);
    restricted(tree, path, set, AT_RECURSIVE);
    if (syscall(SYS_move_mount, tree, "", file, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        refuse_errno("%s%s can't be mounted", place, path);
    close(tree);
    close(file);
    close(from);
    if (strcmp(below(path), ".") == 0)
        open_root();
}

/* In memory of the sandbox's own. Gives the last part of a path; `above` is where it is made. */
static const char *make_above(const char *path, int *above)
{
    char *part = text("%s", below(path)), *slash;
    for (slash = strchr(part, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        const char *name;
        *slash = '\0';
        if ((*above = open_inside(part)) < 0) {
            name = make_above(part, above);
            if (mkdirat(*above, name, 0755) != 0)
                refuse_errno("%s/%s can't be made", place, part);
        }
        close(*above);
        *slash = '/';
    }
    slash = strrchr(part, '/');
    *above = slash == NULL ? open_inside("/") : (*slash = '\0', open_inside(part));
    if (*above < 0)
        refuse_errno("%s%s can't be made", place, path);
    return slash == NULL ? part : slash + 1;
}

static void make_directory(const char *path)
{
    int above;
    const char *name = make_above(path, &above);
    if (mkdirat(above, name, 0755) != 0 && errno != EEXIST)
        refuse_errno("%s%s can't be made", place, path);
    close(above);
}

static void make_file(const char *path)
{
    int above;
    const char *name = make_above(path, &above);
    int made = openat(above, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (made < 0)
        refuse_errno("%s%s can't be made", place, path);
    close(made);
    close(above);
}

static void link_to(const char *where, const char *path)
{
    int above;
    const char *name = make_above(path, &above);
    if (symlinkat(where, above, name) != 0)
        refuse_errno("%s%s can't be made", place, path);
    close(above);
}

static void devices(const char *path)
{
    static const char *const names[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const links[][2] = {{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"},
        {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}};
    mounted("tmpfs", path, MS_NOSUID | MS_NOEXEC, "mode=0755");
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        const char *name = text("%s/%s", path, names[index]);
        make_file(name);
        bound(text("/dev/%s", names[index]), name, 0);
    }
    make_directory(text("%s/pts", path));
    mounted("devpts", text("%s/pts", path), MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620");
    int made = target(path);
    if (mkdirat(made, "shm", 0755) != 0 || fchmodat(made, "shm", 01777, 0) != 0)
        refuse_errno("%s%s/shm can't be made", place, path);
    close(made);
    for (size_t index = 0; index < sizeof links / sizeof *links; index++)
        link_to(links[index][1], text("%s/%s", path, links[index][0]));
}

/* Of what there may not be. */
static void tried(const char *path, unsigned long long set)
{
    int there = open_plain(AT_FDCWD, path, 0), inside = open_inside(path);
    if (there >= 0 && inside >= 0)
        bound(path, path, set);
    else if (errno != ENOENT && errno != ENOTDIR)
        refuse_errno("%s can't be looked at", path);
    close(there);
    close(inside);
}

/* Empty but for what makes Git pass over it. */
static void ignored(const char *path)
{
    mounted("tmpfs", path, MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0555");
    int made = target(path);
    if (write_file(made, ".gitignore", "*\n", 2, 0444) != 0)
        refuse_errno("%s%s/.gitignore can't be made", place, path);
    close(made);
}

static void loopback(void)
{
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &up) != 0)
        refuse_errno("the loopback can't be brought up");
    close(any);
}

static const struct step {
    const char *name;
    size_t words;
} STEPS[] = {{"bind", 2}, {"ro-bind", 2}, {"try", 1}, {"tmpfs", 2}, {"proc", 1}, {"dev", 1}, {"readonly", 1},
             {"directory", 1}, {"file", 1}, {"symlink", 2}, {"ignored", 1}, {"loopback", 0}};
enum { BIND, RO_BIND, TRY, TMPFS, PROC, DEV, READONLY, DIRECTORY, A_FILE, SYMLINK, IGNORED, LOOPBACK, STEP_COUNT };

static void take_step(int step, const char *first, const char *second)
{
    const unsigned long long safe = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, readonly = safe | MOUNT_ATTR_RDONLY;
    int there;
    switch (step) {
    case BIND:
    case RO_BIND:
        bound(first, second, step == BIND ? safe : readonly);
        break;
    case TRY:
        tried(first, readonly);
        break;
    case TMPFS:
        mounted("tmpfs", first, MS_NOSUID | MS_NODEV, text("mode=%s", second));
        break;
    case PROC:
        mounted("proc", first, MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
        break;
    case DEV:
        devices(first);
        break;
    case READONLY:
        there = target(first);
        restricted(there, first, MOUNT_ATTR_RDONLY, 0);
        close(there);
        break;
    case DIRECTORY:
        make_directory(first);
        break;
    case A_FILE:
        make_file(first);
        break;
    case SYMLINK:
        link_to(first, second);
        break;
    case IGNORED:
        ignored(first);
        break;
    default:
        loopback();
    }
}

/* Each word ends with NUL; `content` has one more behind its end. */
static void make_root(const char *content, size_t length)
{
    const char *end = content + length, *words[3];
    while (content < end) {
        int step = 0;
        while (step < STEP_COUNT && strcmp(content, STEPS[step].name) != 0)
            step++;
        if (step == STEP_COUNT)
            refuse("the plan says '%s', which is no step", content);
        for (size_t count = 0; count <= STEPS[step].words; count++) {
            if (content >= end)
                refuse("the plan ends too early");
            words[count] = content;
            content += strlen(content) + 1;
        }
        take_step(step, words[1], words[2]);
    }
}

/* ---- root's half: the command */
static const struct passwd *account;
static struct words variables;

static void limit(int resource, rlim_t most, bool lower, const char *name)
{
    struct rlimit own;
    if (lower && getrlimit(resource, &own) == 0 && own.rlim_max <= most)
        return;
    own.rlim_cur = own.rlim_max = most;
    if (setrlimit(resource, &own) != 0)
        refuse_errno("resources.%s can not be set", name);
}

/* No group but its own, no capability now or ever, no new rights by any program. */
static void become_account(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
            refuse_errno("the account can not be taken on");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 || setgroups(0, NULL) != 0 ||
        setresgid(account->pw_gid, account->pw_gid, account->pw_gid) != 0 ||
        setresuid(account->pw_uid, account->pw_uid, account->pw_uid) != 0 || syscall(SYS_capset, &header, none) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        refuse_errno("the account can not be taken on");
}

static _Noreturn void begin_command(struct run *run)
{
    job_begin(0);
    if (fchdir(root) != 0 || chroot(".") != 0)
        refuse_errno("%s can't become the root", place);
    limit(RLIMIT_CORE, 0, false, "core");
    if (run->plan.files >= 0) /* not the first process's, which would wait for nothing with less than 3 (poll(2)) */
        limit(RLIMIT_NOFILE, (rlim_t)run->plan.files, true, "files");
    if (run->plan.pids >= 0)
        limit(RLIMIT_NPROC, (rlim_t)run->plan.pids, false, "pids");
    become_account();
    if (getppid() != 1)
        _exit(NOT_RUN);
    if (chdir(run->plan.account_start) != 0)
        refuse_errno("%s can't be entered", run->plan.account_start);
    close_others((int[]){notify_channel()}, 1);
    notify_confine();
    exec_command(run->command, variables.at);
}

/* ---- root's half: the first process */
static _Noreturn void leave_namespace(int status)
{
    _exit(status); /* and all others here end */
}

static bool stopped;

static void from_keeper(int socket, pid_t command)
{
    char word;
    const char still = HAS_STOPPED;
    ssize_t got = recv(socket, &word, 1, MSG_DONTWAIT);
    if (got == 1 && word == SIGTSTP && stopped)
        (void)!send(socket, &still, 1, MSG_NOSIGNAL);
    else if (got == 1 && word > 0 && word < 64)
        job_signal(command, word, &stopped);
    else if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        leave_namespace(KILLED);
}

/* Whether the command has ended. The watch is waited for elsewhere. */
static bool ended(int socket, int children, pid_t command, pid_t watch, int *status)
{
    const char word = HAS_STOPPED;
    struct signalfd_siginfo told;
    siginfo_t info;
    while (read(children, &told, sizeof told) > 0)
        ;
    while (waitpid(command, status, WNOHANG | WUNTRACED) == command) {
        if (!WIFSTOPPED(*status))
            return true;
        stopped = true;
        (void)!send(socket, &word, 1, MSG_NOSIGNAL);
    }
    while (info.si_pid = 0, waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0 &&
                                info.si_pid != command && info.si_pid != watch)
        waitpid(info.si_pid, NULL, 0);
    return false;
}

static int attend(int socket, int children, pid_t command, struct watch *watch)
{
    for (int status;;) {
        struct pollfd each[] = {{.fd = socket, .events = POLLIN | POLLRDHUP},
                                {.fd = children, .events = POLLIN},
                                {.fd = watch->handle, .events = POLLIN}};
        if (poll(each, 3, -1) < 0)
            continue;
        if (each[0].revents != 0)
            from_keeper(socket, command);
        if (ended(socket, children, command, watch->process, &status)) {
            int said = watch_end(watch);
            return said != 0 ? said : exit_status(status);
        }
        if (each[2].revents != 0)
            return watch_end(watch);
    }
}

static _Noreturn void be_first(struct run *run, int socket, const char *steps, size_t length)
{
    struct watch watch = {.root = place, .waits_on = -1};
    sigset_t set;
    leave = leave_namespace;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    int children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (children < 0 || sigprocmask(SIG_BLOCK, &set, NULL) != 0 || chdir("/") != 0)
        refuse_errno("the processes of the run can't be held");
    umask(022);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        refuse_errno("mounts can't be made private");
    open_root();
    make_root(steps, length);
    /* Before anything runs, what is mounted is compared with the plan; later whoever replaces something ends the run. */
    watch_start(run, &watch);
    if (!watch_mounted(&watch))
        leave_namespace(NOT_RUN);
    pid_t command = fork_child(NULL);
    if (command == 0)
        begin_command(run);
    if (command < 0)
        refuse_errno("no process can be made");
    notify_started();
    job_begin(command);
    (void)!send(socket, "", 1, MSG_NOSIGNAL);
    leave_namespace(attend(socket, children, command, &watch));
}

/* Makes the first process, and ends with it, or it with the keeper. */
static _Noreturn void root_half(struct run *run, int socket)
{
    size_t length;
    int handle, status, spaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE};
    place = run->plan.account_place;
    account = getpwnam(run->plan.account);
    if (account == NULL || account->pw_uid == 0 || account->pw_gid == 0)
        refuse("there is no account to become");
    const char *steps = checked_artifact(run, "plan", &length);
    notify_start(run);
    add_all(&variables, &run->plan.account_settings);
    for (size_t index = 0; index < sizeof ignored / sizeof *ignored; index++)
        signal(ignored[index], SIG_IGN);
    if (unshare(spaces | (run->plan.account_network ? CLONE_NEWNET : 0)) != 0)
        refuse_errno("root can make no namespaces here, as in many containers");
    int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
    pid_t first = own < 0 ? -1 : fork();
    if (first == 0) { /* who is outside has no number here */
        struct pollfd parent = {.fd = own, .events = POLLIN};
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || poll(&parent, 1, 0) != 0)
            _exit(NOT_RUN);
        be_first(run, socket, steps, length);
    }
    notify_started();
    if (first < 0 || (handle = (int)syscall(SYS_pidfd_open, first, 0)) < 0)
        refuse_errno("root can make no namespaces here, as in many containers");
    for (;;) {
        struct pollfd each[] = {{.fd = socket, .events = POLLRDHUP}, {.fd = handle, .events = POLLIN}};
        if (poll(each, 2, -1) < 0)
            continue;
        if (each[0].revents != 0)
            kill(first, SIGKILL);
        if (each[1].revents != 0 && waitpid(first, &status, 0) == first)
            _exit(exit_status(status));
    }
}

/* The next process above us that runs this program; sudo and what it starts are between. */
static pid_t find_keeper(void)
{
    struct stat own, other;
    if (stat("/proc/self/exe", &own) != 0)
        return 0;
    for (pid_t process = getppid(); process > 1; process = parent_of(process))
        if (stat(text("/proc/%d/exe", (int)process), &other) == 0 && own.st_dev == other.st_dev &&
            own.st_ino == other.st_ino)
            return process;
    return 0;
}

static int number(const char *word)
{
    char *end;
    long found = strtol(word, &end, 10);
    return *word == '\0' || *end != '\0' || found < 0 || found > 1 << 20 ? -1 : (int)found;
}

void user_as_root(struct run *run, char **words)
{
    clearenv();
    if (run->method != &user_method || geteuid() != 0 || setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0 ||
        setgroups(0, NULL) != 0)
        refuse("this is the half of the launcher that root runs");
    check_descriptors(run);
    if (words[0] == NULL || words[1] == NULL)
        refuse("give a command to run");
    run->command = words + 1;
    check_artifacts(run);
    pid_t keeper = find_keeper();
    int handle = keeper > 1 ? (int)syscall(SYS_pidfd_open, keeper, 0) : -1;
    if (handle < 0 || find_keeper() != keeper)
        refuse("the launcher is gone");
    int said = (int)syscall(SYS_pidfd_getfd, handle, number(words[0]), 0);
    char *content = take(MOST + 1);
    ssize_t length = said < 0 ? -1 : pread(said, content, MOST, 0), at = 0;
    struct words all = {0};
    while (at < length) {
        add(&all, content + at);
        at += (ssize_t)strlen(content + at) + 1;
    }
    int socket = all.count < 3 ? -1 : (int)syscall(SYS_pidfd_getfd, handle, number(all.at[0]), 0);
    if (socket < 0)
        refuse_errno("the launcher is gone");
    if (number(all.at[1]) >= 0) /* it is held until nothing runs here any more */
        run->lock = (int)syscall(SYS_pidfd_getfd, handle, number(all.at[1]), 0);
    notify_filter(run, "seccomp.bpf");
    if (!denied_take((int)syscall(SYS_pidfd_getfd, handle, number(all.at[2]), 0)))
        refuse("what is refused can't be told");
    for (size_t index = 3; index < all.count; index++)
        add(&variables, all.at[index]);
    root_half(run, socket);
}

/* ---- the child */
static void start(struct run *run)
{
    struct words words = {0};
    if (geteuid() == 0) {
        sigset_t set;
        bool apart = run->plan.proxy || ports_wanted(run);
        if ((apart && unshare(CLONE_NEWNET) != 0) || (run->plan.proxy && !egress_open(run, getpid(), false)) ||
            (ports_wanted(run) && !ports_open(network_of(getpid()), false)))
            refuse("nothing was run");
        run->plan.account_network = run->plan.account_network && !apart;
        close(ends[OURS]);
        caught_signals(&set);
        add_all(&variables, &run->passed);
        root_half(run, ends[THEIRS]);
    }
    for (const char *each[] = {sudo, "-n", "--", text("%s/launch", run->directory), "--as-root", NULL}, **word = each;
         *word != NULL; word++)
        add(&words, (char *)*word);
    add(&words, text("%d", environment));
    for (char **word = run->command; *word != NULL; word++)
        add(&words, *word);
    execve(sudo, words.at, environ);
    refuse_errno("%s can't be started", sudo);
}

const struct method user_method = {
    .name = "user",
    .check = check,
    .prepare = prepare,
    .start = start,
    .readable = readable,
    .deliver = deliver,
    .end = end,
    .status = outcome,
    .clean = clean,
};
