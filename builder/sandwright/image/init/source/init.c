/* sandwright-init ACCOUNT COMMAND [ARGUMENT...]: the first process of a container that starts as root and
 * must not stay root.
 *
 * It switches for good to ACCOUNT, an account of the image, and runs COMMAND. The environment may contain
 * SANDWRIGHT_USER=UID:GID, or PUID and PGID; without a GID, it is the same number as the UID. Then the
 * account first gets these IDs, those of the user who started the container, so that new files belong to that
 * user. This changes /etc/passwd, /etc/group, and the owner of the account's files in its home directory.
 * Where these files can't be written (a read-only root, files mounted over them), they must contain the IDs
 * already.
 *
 * HOME, USER and LOGNAME are set accordingly. As process 1, it then waits: it reaps orphans, forwards
 * signals, and exits as COMMAND does, with 128+n if signal n ended it. It exits with 125 if it refuses to
 * start, and with 126 or 127 if the command can't be run.
 *
 * Started as another user, it changes neither accounts nor the user. It never gains privileges, and must not
 * be installed set-id, because its caller controls everything that it does.
 */

#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accounts.h"

enum { REFUSED = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127, SIGNALLED = 128 };
/* Signals that are caused by faults of this program itself. */
static const int FAULTS[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGABRT, SIGTRAP, SIGSYS};
enum { LONGEST_FILE = 1 << 20, LONGEST_TABLE = 8 << 20, LONGEST_PATH = 4096, DEEPEST = 128, MOST_GROUPS = 1024 };

static _Noreturn void refuse(const char *format, ...)
{
    va_list arguments;
    fputs("sandwright-init: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(REFUSED);
}


/* The content of a file of at most `limit` bytes, with a NUL at its end; `at` is NULL if there is none. Never
 * follows a link. */
static struct text content(int directory, const char *name, size_t limit)
{
    struct stat about;
    struct text made = {NULL, 0};
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 && errno == ENOENT)
        return made;
    if (file < 0 || fstat(file, &about) < 0)
        refuse("cannot read %s: %s", name, errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    if (!S_ISREG(about.st_mode))
        refuse("%s is not a regular file", name);
    made.at = malloc(limit + 2);
    if (!made.at)
        refuse("out of memory");
    for (ssize_t got; (got = read(file, made.at + made.size, limit + 1 - made.size)) != 0;) {
        if (got < 0 && errno != EINTR)
            refuse("cannot read %s: %s", name, strerror(errno));
        made.size += got > 0 ? (size_t)got : 0;
        if (made.size > limit)
            refuse("%s is longer than %zu bytes", name, limit);
    }
    close(file);
    made.at[made.size] = '\0';
    return made;
}

static struct text accounts_file(int etc, const char *name)
{
    struct text made = content(etc, name, LONGEST_FILE);
    if (made.at && memchr(made.at, '\0', made.size))
        refuse("/etc/%s contains a NUL byte", name);
    return made;
}

/* Mount points: one path after the other, each with a NUL at its end. */

static struct text mounts;

static void read_mounts(void)
{
    struct text rest = content(AT_FDCWD, "/proc/self/mountinfo", LONGEST_TABLE), field = {NULL, 0};
    if (!rest.at)
        refuse("/proc is not mounted, so the image's files cannot be told from mounted ones");
    mounts = (struct text){rest.at, 0}; /* decoding never makes it longer */
    for (struct text line; cut(&rest, '\n', &line);) {
        /* proc_pid_mountinfo(5): the fifth field, with octal escapes. */
        for (int count = 0; count < 5; count++)
            if (!cut(&line, ' ', &field))
                field.size = 0;
        for (size_t at = 0; at < field.size; at++) {
            const char *byte = field.at + at;
            bool escaped = *byte == '\\' && field.size - at >= 4;
            mounts.at[mounts.size++] =
                escaped ? (char)((byte[1] - '0') * 64 + (byte[2] - '0') * 8 + (byte[3] - '0')) : *byte;
            at += escaped ? 3 : 0;
        }
        if (field.size)
            mounts.at[mounts.size++] = '\0';
    }
}

static bool is_mount(const char *path)
{
    struct text rest = mounts;
    for (struct text each; cut(&rest, '\0', &each);)
        if (same(each, path))
            return true;
    return false;
}

/* The home directory: files that the account owned there get its new IDs. */

struct move {
    char path[LONGEST_PATH];
    dev_t device;
    uint32_t old_uid, old_gid, uid, gid;
};

/* Changes the owner of the files at `path`, children first, so that an interrupted change starts again from
 * the beginning.
 *
 * Nothing on another mount is touched: no mount point, not even that of a single file, and no directory on
 * another device (files of an overlay have devices of their own). No link is followed: each file is opened
 * before it is inspected.
 */
static void give(struct move *move, int parent, const char *name, int depth)
{
    struct stat about;
    if (is_mount(move->path))
        return;
    int held = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (held < 0 || fstat(held, &about) < 0)
        refuse("cannot examine %s: %s", move->path, strerror(errno));
    bool folder = S_ISDIR(about.st_mode);
    if (folder && about.st_dev != move->device) {
        close(held);
        return;
    }
    if (folder) {
        int opened = openat(held, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *directory = opened < 0 ? NULL : fdopendir(opened);
        if (!directory || depth >= DEEPEST)
            refuse("cannot change the owner of %s to %u: %s", move->path, move->uid,
                   directory ? "too many levels of directories" : strerror(errno));
        size_t length = strlen(move->path);
        for (struct dirent *each; (each = readdir(directory));) {
            size_t more = strlen(each->d_name);
            if (strcmp(each->d_name, ".") == 0 || strcmp(each->d_name, "..") == 0)
                continue;
            if (length + more + 2 > sizeof move->path)
                refuse("%s contains a path that is too long", move->path);
            move->path[length] = '/';
            memcpy(move->path + length + 1, each->d_name, more + 1);
            give(move, opened, each->d_name, depth + 1);
            move->path[length] = '\0';
        }
        closedir(directory);
    }
    uint32_t gid = about.st_gid == move->old_gid ? move->gid : NO_ID;
    bool its = about.st_uid == move->old_uid;
    if (its && fchownat(held, "", move->uid, gid, AT_EMPTY_PATH) < 0 &&
        /* gVisor of 2022 does not support this for such a descriptor */
        (errno != EBADF || fchownat(parent, name, move->uid, gid, AT_SYMLINK_NOFOLLOW) < 0))
        refuse("cannot change the owner of %s to %u: %s (needs the capabilities CHOWN and DAC_OVERRIDE)", move->path, move->uid,
               strerror(errno));
    close(held);
}

/* Opens the home directory if its path has no links, dots and mounts; -1 if it is not the image's own. */
static int open_home(struct text home, struct move *move)
{
    int held = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    size_t length = 0;
    for (struct text part; held >= 0 && cut(&home, '/', &part);) {
        if (part.size == 0)
            continue;
        if (same(part, ".") || same(part, "..") || length + part.size + 2 > sizeof move->path)
            break;
        move->path[length] = '/';
        memcpy(move->path + length + 1, part.at, part.size);
        length += part.size + 1;
        move->path[length] = '\0';
        char *name = move->path + length - part.size;
        int next = is_mount(move->path) ? -1 : openat(held, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(held);
        held = next;
        if (!home.at)
            return held;
    }
    if (held >= 0)
        close(held);
    return -1;
}

static void give_home(const struct entry *account, uint32_t uid, uint32_t gid)
{
    struct move move = {.old_uid = account->uid, .old_gid = account->gid, .uid = uid, .gid = gid};
    struct stat about;
    if ((account->uid == uid && account->gid == gid) || account->uid == 0)
        return;
    int home = open_home(account->home, &move);
    if (home < 0)
        return;
    if (fstat(home, &about) == 0 && about.st_uid == account->uid) {
        move.device = about.st_dev;
        give(&move, home, ".", 0);
    }
    close(home);
}

/* The account files: new ones are written beside the old ones, then renamed. */

static const char *const FILES[] = {"passwd", "group"};
static const char *const BESIDE[] = {".sandwright-passwd", ".sandwright-group"};

/* False if nothing can be written, as on a read-only root. */
static bool write_beside(int etc, int which, struct text text)
{
    struct stat before = {.st_mode = 0644};
    if (!text.at)
        refuse("out of memory");
    unlinkat(etc, BESIDE[which], 0);
    int file = openat(etc, BESIDE[which], O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 && (errno == EROFS || errno == EACCES || errno == EPERM))
        return false;
    bool done = file >= 0 && (fstatat(etc, FILES[which], &before, AT_SYMLINK_NOFOLLOW) == 0 || errno == ENOENT);
    for (size_t at = 0; done && at < text.size;) {
        ssize_t put = write(file, text.at + at, text.size - at);
        done = put >= 0 || errno == EINTR;
        at += put > 0 ? (size_t)put : 0;
    }
    if (!done || fchmod(file, before.st_mode & 0755) < 0 || close(file) < 0)
        refuse("cannot write /etc/%s: %s", FILES[which], strerror(errno));
    return true;
}

/* Changes the account's IDs in the files and in its home directory. False if the files can't be written, or
 * are not the image's own. */
static bool renumber(int etc, const struct text files[2], const char *name, uint32_t uid, uint32_t gid)
{
    struct entry account, group;
    bool new_group = !find_number(files[1], false, gid, &group);
    read_mounts();
    if (is_mount("/etc") || is_mount("/etc/passwd") || is_mount("/etc/group"))
        return false;
    if (!find_name(files[0], true, name, &account) ||
        !write_beside(etc, 0, renumbered(files[0], true, name, uid, gid)))
        return false;
    if (new_group)
        write_beside(etc, 1, renumbered(files[1], false, name, 0, gid));
    give_home(&account, uid, gid);
    for (int which = new_group; which >= 0; which--) /* last the file that marks the change as complete */
        if (renameat(etc, BESIDE[which], etc, FILES[which]) < 0)
            refuse("cannot replace /etc/%s: %s", FILES[which], strerror(errno));
    return true;
}

/* The identity to switch to. */

struct identity {
    uint32_t uid, gid;
    bool asked;
};

/* An empty variable counts as unset. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static struct identity asked_for(void)
{
    const char *wish = variable("SANDWRIGHT_USER"), *uid = variable("PUID"), *gid = variable("PGID");
    struct identity who = {.asked = wish || uid};
    struct text rest = {(char *)wish, wish ? strlen(wish) : 0}, first, second;
    if (!wish && !uid && gid)
        refuse("PGID needs PUID");
    if (!wish && uid) {
        first = (struct text){(char *)uid, strlen(uid)};
        second = gid ? (struct text){(char *)gid, strlen(gid)} : first;
        if (!number(first, &who.uid) || !number(second, &who.gid))
            refuse("PUID and PGID must be numbers such as 1000, not '%.40s' and '%.40s'", uid, gid ? gid : "");
    } else if (wish) {
        bool good = cut(&rest, ':', &first);
        second = first;
        if (rest.at && rest.size > 0)
            good = good && cut(&rest, ':', &second) && !rest.at;
        if (!good || !number(first, &who.uid) || !number(second, &who.gid))
            refuse("SANDWRIGHT_USER must be UID:GID in digits, such as 1000:1000, not '%.40s'", wish);
    }
    return who;
}

/* Converts an ID of this user namespace to one of the parent's; false if it is not mapped. */
static bool outside(const char *table, uint32_t inside, uint32_t *number_outside)
{
    struct text rest = content(AT_FDCWD, table, LONGEST_FILE);
    *number_outside = inside;
    if (!rest.at)
        return true; /* a kernel without user namespaces */
    for (struct text line; cut(&rest, '\n', &line);) {
        unsigned first, mapped, count;
        if (sscanf(line.at, "%u %u %u", &first, &mapped, &count) == 3 && inside >= first && inside - first < count) {
            *number_outside = mapped + (inside - first);
            return true;
        }
    }
    return false;
}

static void announce(const struct entry *account, int replace)
{
    char *name = strndup(account->name.at, account->name.size);
    char *home = strndup(account->home.at, account->home.size);
    if (!name || !home || setenv("HOME", home, replace) || setenv("USER", name, replace) ||
        setenv("LOGNAME", name, replace))
        refuse("out of memory");
    if (*home != '/' || strpbrk(name, " \t\r"))
        refuse("the account '%s' in /etc/passwd has an invalid name, or a home directory that is not absolute", name);
}

/* Root decides which identity to use, and makes the account files agree with it. */
static struct identity decide(const char *name, struct identity who, const struct text files[2], int etc)
{
    struct entry own, holder, group;
    uint32_t around;
    bool is_there = find_name(files[0], true, name, &own);
    if (!who.asked) {
        if (!is_there)
            refuse("/etc/passwd has no account %s", name);
        if (own.uid == 0)
            refuse("%s has the UID 0 in /etc/passwd: set SANDWRIGHT_USER=0:0 to run as root", name);
        who = (struct identity){own.uid, own.gid, false};
    } else if (outside("/proc/self/uid_map", 0, &around) && around == who.uid && around != 0) {
        who.uid = who.gid = 0; /* the caller is root in this user namespace already */
    }
    if (!outside("/proc/self/uid_map", who.uid, &around) || !outside("/proc/self/gid_map", who.gid, &around))
        refuse("%u:%u is not mapped in this user namespace (see /proc/self/uid_map)", who.uid, who.gid);
    bool held = find_number(files[0], true, who.uid, &holder);
    bool named = find_number(files[1], false, who.gid, &group);
    bool fits = held && is_there && same(holder.name, name) && holder.gid == who.gid && named;
    if (!fits && is_there && who.uid != 0 && renumber(etc, files, name, who.uid, who.gid))
        holder = own;
    else if (!held || (!named && who.asked))
        refuse("/etc/%s has no entry for %u and cannot be changed: mount a file that has one", held ? "group" : "passwd",
               held ? who.gid : who.uid);
    announce(&holder, 1);
    return who;
}

/* For a user other than root: sets the variables that name the user, unless they are set. */
static struct identity stay(struct identity who, struct text passwd)
{
    struct identity own = {getuid(), getgid(), false};
    struct entry holder;
    const char *home = getenv("HOME");
    if (who.asked && (who.uid != own.uid || who.gid != own.gid))
        refuse("started as %u:%u, which cannot change to %u:%u: start as root, or as that user", own.uid, own.gid,
               who.uid, who.gid);
    if (home && (!*home || strcmp(home, "/") == 0)) /* engines use `/` for user IDs without an account */
        unsetenv("HOME");
    if (find_number(passwd, true, own.uid, &holder))
        announce(&holder, 0);
    else
        setenv("HOME", "/", 0);
    return own;
}

/* Whether the image's file makes root a member of a group. */
static bool is_roots(struct text group, uint32_t gid)
{
    struct entry found;
    for (struct text line, member; cut(&group, '\n', &line);)
        if (entry_of(line, false, &found) && found.gid == gid)
            while (cut(&found.tail, ',', &member))
                if (same(member, "root"))
                    return true;
    return gid == 0;
}

/* Lets the account reopen pipes and terminals of the container with which it was started, for example through
 * /dev/stderr. */
static void give_outputs(uint32_t uid)
{
    struct stat about, terminals;
    char path[32], target[16];
    for (int fd = 0; fd < 3; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(path, target, sizeof target);
        if (fstat(fd, &about) < 0 || about.st_uid != 0)
            continue;
        bool pipe = size > 5 && memcmp(target, "pipe:", 5) == 0;
        bool terminal = isatty(fd) && stat("/dev/pts", &terminals) == 0 && terminals.st_dev == about.st_dev;
        if ((pipe || terminal) && fchown(fd, uid, NO_ID) < 0)
            continue; /* the descriptor itself can still be used */
    }
}

/* Keeps the groups that were given to the container (`--group-add`), but not those that the image gives to
 * root. */
static void become(struct identity who, struct text group)
{
    static gid_t groups[MOST_GROUPS];
    int count = getgroups(MOST_GROUPS, groups), kept = 0;
    for (int index = 0; index < count; index++)
        if (!is_roots(group, groups[index]))
            groups[kept++] = groups[index];
    give_outputs(who.uid);
    /* if the user namespace forbids it, root inside keeps the caller's groups */
    if (count < 0 || (setgroups((size_t)kept, groups) < 0 && !(errno == EPERM && who.uid == 0)))
        refuse("cannot drop supplementary groups: %s (needs the capability SETGID)", strerror(errno));
    if (setresgid(who.gid, who.gid, who.gid) < 0)
        refuse("cannot change to group %u: %s (needs the capability SETGID)", who.gid, strerror(errno));
    if (setresuid(who.uid, who.uid, who.uid) < 0)
        refuse("cannot change to user %u: %s (needs the capability SETUID)", who.uid, strerror(errno));
}

/* Drops for good all means to gain privileges, and verifies that they are gone. */
static void give_up_rights(struct identity who)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}}, left[2];
    uid_t uid[3];
    gid_t gid[3];
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        refuse("cannot drop ambient capabilities: %s", strerror(errno));
    if (syscall(SYS_capset, &header, none) < 0 || syscall(SYS_capget, &header, left) < 0)
        refuse("cannot drop capabilities: %s", strerror(errno));
    if (memcmp(none, left, sizeof none) != 0)
        refuse("capabilities were not dropped");
    if (getresuid(&uid[0], &uid[1], &uid[2]) < 0 || getresgid(&gid[0], &gid[1], &gid[2]) < 0)
        refuse("cannot determine user and group: %s", strerror(errno));
    for (int index = 0; index < 3; index++)
        if (uid[index] != who.uid || gid[index] != who.gid)
            refuse("user and group are not %u:%u after the change", who.uid, who.gid);
    if (who.uid != 0 && (setuid(0) == 0 || setresuid(NO_ID, 0, NO_ID) == 0))
        refuse("the process could change back to root");
}

/* With no_new_privs, the bounding set has no effect any more; it is emptied if SETPCAP allows that. */
static void forbid_rights(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        refuse("cannot set no_new_privs: %s", strerror(errno));
    for (int each = 0; prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; each++)
        if (prctl(PR_CAPBSET_DROP, each, 0, 0, 0) < 0)
            return;
}

/* The command, and the first process that waits for it. */

static _Noreturn void execute(char **command, const sigset_t *mask)
{
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(command[0], command);
    int status = errno == ENOENT || errno == ENOTDIR ? NOT_FOUND : NOT_EXECUTABLE;
    fprintf(stderr, "sandwright-init: %s: %s\n", command[0], strerror(errno));
    _exit(status);
}

static _Noreturn void wait_for(pid_t child, const sigset_t *signals)
{
    for (;;) {
        int number = sigwaitinfo(signals, NULL), ended;
        if (number > 0 && number != SIGCHLD)
            kill(child, number);
        for (pid_t pid; (pid = waitpid(-1, &ended, WNOHANG)) != 0;) {
            if (pid == child)
                /* the kernel then kills all other processes, because process 1 has ended */
                exit(WIFSIGNALED(ended) ? SIGNALLED + WTERMSIG(ended) : WEXITSTATUS(ended));
            if (pid < 0 && errno != EINTR)
                break;
        }
    }
}

static _Noreturn void run(char **command, const sigset_t *signals, const sigset_t *mask)
{
    if (getpid() != 1)
        execute(command, mask); /* another process is process 1, which reaps orphans and forwards signals */
    signal(SIGCHLD, SIG_DFL);
    pid_t child = fork();
    if (child < 0)
        refuse("cannot create a process: %s", strerror(errno));
    if (child == 0) {
        /* the new process group moves to the foreground; SIGTTOU is blocked, so this stops no process */
        if (setpgid(0, 0) == 0 && isatty(STDIN_FILENO))
            tcsetpgrp(STDIN_FILENO, getpgrp());
        execute(command, mask);
    }
    wait_for(child, signals);
}

int main(int count, char **words)
{
    sigset_t signals, mask;
    sigfillset(&signals);
    for (size_t index = 0; index < sizeof FAULTS / sizeof *FAULTS; index++)
        sigdelset(&signals, FAULTS[index]);
    /* Signals that arrive before the command exists stay pending for it. */
    sigprocmask(SIG_BLOCK, &signals, &mask);
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            _exit(REFUSED);
    if (getuid() != geteuid() || getgid() != getegid())
        refuse("this program must not be set-user-ID or set-group-ID");
    if (count < 3 || !*words[1] || *words[1] == '-' || strpbrk(words[1], ":,\n"))
        refuse("usage: sandwright-init ACCOUNT COMMAND [ARGUMENT...]");
    struct identity who = asked_for();
    unsetenv("SANDWRIGHT_USER");
    unsetenv("PUID");
    unsetenv("PGID");
    int etc = open("/etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (etc < 0)
        refuse("cannot open /etc: %s", strerror(errno));
    struct text files[] = {accounts_file(etc, "passwd"), accounts_file(etc, "group")};
    if (getuid() == 0) {
        who = decide(words[1], who, files, etc);
        forbid_rights();
        become(who, files[1]);
    } else {
        who = stay(who, files[0]);
        forbid_rights();
    }
    give_up_rights(who);
    run(words + 2, &signals, &mask);
}
