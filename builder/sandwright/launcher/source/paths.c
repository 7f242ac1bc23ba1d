/* The host's files for the guest kernel (method vm) under Landlock: the supervisor opens them.
 *
 * The guest kernel accesses files of the host by their names (hostfs), and its mounts do not restrict a
 * program that has taken it over. Landlock can't deny a path inside a writable directory. The kernel's
 * process therefore opens, creates, moves and removes nothing itself: its seccomp filter sends each such call
 * to the supervisor (notify.c). The supervisor follows no link on the way, checks the path against the mount
 * plan, makes the call in the directory that it has opened, and passes the descriptor back
 * (SECCOMP_IOCTL_NOTIF_ADDFD). A program that takes the kernel over is therefore still restricted by the
 * supervisor, and by Landlock's rules for both processes.
 *
 * Calls are made one at a time, so that the sandbox can move nothing between the check and the call.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <utime.h>

#include "broker.h"
#include "refusals.h"
#include "launch.h"
#include "paths.h"

#if defined(__x86_64__)
enum { OLD_TIMES = SYS_utime };
#else
enum { OLD_TIMES = -1 };
#endif
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

enum { ALLOWED_FLAGS = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_DIRECTORY };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- passing descriptors */
static int give(const struct broker *broker, const struct seccomp_notif *call, int file, uint64_t flags)
{
    struct seccomp_notif_addfd given = {.id = call->id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = (uint32_t)file,
                                        .newfd_flags = (flags & O_CLOEXEC) != 0 ? O_CLOEXEC : 0};
    int fault = file < 0 ? errno : ioctl(broker->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &given) >= 0 ? -1 : errno;
    if (file >= 0)
        close(file);
    return fault == ENOENT && file >= 0 ? -1 : fault;
}

/* /dev/null is the host's, so it may only be read and written. */
static bool is_nothing(const struct name *name)
{
    return strcmp(name->path, NOTHING) == 0;
}

/* Opening a file of another type may block, or have a side effect. */
static bool is_plain(int file, const struct name *name)
{
    struct stat status;
    return fstat(file, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || is_nothing(name));
}

static int open_named(struct name *name, int flags, mode_t mode)
{
    struct stat status;
    int fault = open_above(name);
    if (fault != 0) {
        errno = fault;
        return -1;
    }
    if (fstatat(name->above, name->last, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(status.st_mode) &&
        !S_ISDIR(status.st_mode) && !is_nothing(name)) {
        errno = S_ISLNK(status.st_mode) ? ELOOP : ENXIO;
        return -1;
    }
    return openat(name->above, name->last, (flags & ALLOWED_FLAGS) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
}

/* Before the guest has its own root, its process finds its libraries through links. The target is checked. */
static int open_through_links(const char *path)
{
    static const char gone[] = " (deleted)";
    char found[PATH_MAX], place[32];
    struct stat status;
    _cleanup_close_ int file = open(path, O_PATH | O_CLOEXEC);
    snprintf(place, sizeof place, "/proc/self/fd/%d", file);
    ssize_t length = file < 0 ? -1 : readlink(place, found, sizeof found - 1);
    int opened = -1;
    errno = EACCES;
    if (length > 0 && length < (ssize_t)sizeof found - 1 && fstat(file, &status) == 0 &&
        (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) {
        found[length] = '\0';
        bool removed = length > (ssize_t)sizeof gone && strcmp(found + length - (sizeof gone - 1), gone) == 0;
        if (!removed && access_to(found) >= ACCESS_READ)
            opened = open(place, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    }
    return opened;
}

static int answer_open(const struct broker *broker, const struct seccomp_notif *call, uint64_t address, uint64_t flags, mode_t mode)
{
    struct name name;
    bool changes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
    int fault = take_name(broker, call, address, &name);
    if (fault != 0)
        return fault;
    /* The kernel's memory, which must work in noexec directories, too. */
    if ((flags & O_TMPFILE) == O_TMPFILE && strcmp(name.path, paths_memory()) == 0)
        return give(broker, call, memfd_create("memory", MFD_CLOEXEC), flags);
    if ((flags & (O_PATH | (O_TMPFILE & ~O_DIRECTORY))) != 0)
        return EACCES;
    int file = -1;
    errno = EACCES;
    if (is_nothing(&name))
        flags &= ~(uint64_t)O_CREAT;
    if (access_to(name.path) >= (changes && !is_nothing(&name) ? ACCESS_CHANGE : ACCESS_READ))
        file = open_named(&name, (int)flags, mode);
    fault = errno;
    close_name(&name);
    if (file < 0 && (fault == ELOOP || fault == EACCES) && !changes) {
        file = open_through_links(name.path);
        fault = errno;
    }
    if (file < 0)
        return fault;
    if (!is_plain(file, &name)) {
        close(file);
        return ENXIO;
    }
    fcntl(file, F_SETFL, (int)flags & O_APPEND);
    return give(broker, call, file, flags);
}

/* ---- calls that change files */
static int done(int result)
{
    return result == 0 ? 0 : errno;
}

/* Through a descriptor of the file, which must not be a link. */
static int change_mode(const struct name *name, mode_t mode)
{
    char place[32];
    struct stat status;
    _cleanup_close_ int file = openat(name->above, name->last, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return errno;
    snprintf(place, sizeof place, "/proc/self/fd/%d", file);
    return fstat(file, &status) != 0 ? errno : S_ISLNK(status.st_mode) ? EOPNOTSUPP : done(chmod(place, mode & 07777));
}

static int cut(const struct name *name, off_t length)
{
    _cleanup_close_ int file = openat(name->above, name->last, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
        return errno;
    return !is_plain(file, name) ? EINVAL : done(ftruncate(file, length));
}

/* NULL: the current time. */
static int take_times(const struct seccomp_notif *call, uint64_t address, struct timespec times[2])
{
    struct timeval old[2];
    struct utimbuf older;
    bool seconds = call->data.nr == OLD_TIMES, exact = call->data.nr == SYS_utimensat;
    times[0] = times[1] = (struct timespec){.tv_nsec = UTIME_NOW};
    if (address == 0)
        return 0;
    if (!read_theirs((pid_t)call->pid, address, exact ? (void *)times : seconds ? (void *)&older : (void *)old,
                     exact ? 2 * sizeof *times : seconds ? sizeof older : sizeof old))
        return EFAULT;
    for (int index = 0; index < 2 && !exact; index++) {
        if (!seconds && (old[index].tv_usec < 0 || old[index].tv_usec >= 1000000))
            return EINVAL; /* the error that the kernel's process would get (utimensat(2)) */
        times[index] = seconds ? (struct timespec){.tv_sec = index == 0 ? older.actime : older.modtime}
                               : (struct timespec){old[index].tv_sec, old[index].tv_usec * 1000};
    }
    return 0;
}

static int make_node(const struct name *name, mode_t mode)
{
    mode_t kind = mode & S_IFMT;
    return kind != 0 && kind != S_IFREG && kind != S_IFIFO && kind != S_IFSOCK ? EPERM
                                                                               : done(mknodat(name->above, name->last, mode, 0));
}

static int remove_name(const struct name *name, bool directory)
{
    return is_held(name->path) ? EBUSY : done(unlinkat(name->above, name->last, directory ? AT_REMOVEDIR : 0));
}

/* Both paths must be writable for the sandbox: a read-only file could be written through a hard link to
 * it. */
static int answer_two(const struct broker *broker, const struct seccomp_notif *call, uint64_t from, uint64_t to, bool moves,
                      unsigned flags)
{
    struct name one, other = {.above = -1};
    int fault = take_changed(broker, call, from, &one);
    if (fault == 0)
        fault = take_changed(broker, call, to, &other);
    if (fault == 0 && (is_held(one.path) || is_held(other.path)))
        fault = EBUSY;
    if (fault == 0 && repository_of(one.path) != repository_of(other.path))
        fault = EXDEV; /* as between mounts; a moved directory could contain links */
    if (fault == 0 && moves)
        fault = (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0
                    ? EINVAL
                    : done((int)syscall(SYS_renameat2, one.above, one.last, other.above, other.last, flags));
    else if (fault == 0)
        fault = done(linkat(one.above, one.last, other.above, other.last, 0));
    close_name(&one);
    close_name(&other);
    return fault;
}

static int answer_symlink(const struct broker *broker, const struct seccomp_notif *call, uint64_t content, uint64_t path)
{
    char target[PATH_MAX];
    struct name name = {.above = -1};
    int fault = read_path((pid_t)call->pid, content, target);
    if (fault == 0)
        fault = take_changed(broker, call, path, &name);
    if (fault == 0 && !links_is_probe(target) && repository_of(name.path) != NULL)
        fault = EPERM;
    if (fault == 0)
        fault = done(symlinkat(target, name.above, name.last));
    close_name(&name);
    return fault;
}

enum what { OPEN, CREATE, TRUNCATE, RENAME, MAKE_DIRECTORY, REMOVE_DIRECTORY, LINK, UNLINK, SYMLINK, MODE, OWNER, TIMES, NODE };
static const struct named {
    int number;
    enum what what;
    int path; /* the number of the argument, or of the first of two */
} named[] = {
    {SYS_openat, OPEN, 1},
#if defined(__x86_64__)
    {SYS_open, OPEN, 0},
    {SYS_creat, CREATE, 0},
    {SYS_truncate, TRUNCATE, 0},
    {SYS_rename, RENAME, 0},
    {SYS_renameat, RENAME, 1},
    {SYS_mkdir, MAKE_DIRECTORY, 0},
    {SYS_rmdir, REMOVE_DIRECTORY, 0},
    {SYS_link, LINK, 0},
    {SYS_unlink, UNLINK, 0},
    {SYS_symlink, SYMLINK, 0},
    {SYS_chmod, MODE, 0},
    {SYS_chown, OWNER, 0},
    {SYS_lchown, OWNER, 0},
    {SYS_utime, TIMES, 0},
    {SYS_utimes, TIMES, 0},
    {SYS_mknod, NODE, 0},
#endif
    {SYS_renameat2, RENAME, 1},
    {SYS_mkdirat, MAKE_DIRECTORY, 1},
    {SYS_unlinkat, UNLINK, 1},
    {SYS_linkat, LINK, 1},
    {SYS_symlinkat, SYMLINK, 1},
    {SYS_fchmodat, MODE, 1},
    {SYS_fchownat, OWNER, 1},
    {SYS_utimensat, TIMES, 1},
    {SYS_mknodat, NODE, 1},
};

static const struct named *find(const struct seccomp_data *call)
{
    for (size_t index = 0; call->arch == NATIVE && index < sizeof named / sizeof *named; index++)
        if (named[index].number == call->nr)
            return &named[index];
    return NULL;
}

bool paths_are_named(const struct seccomp_data *call)
{
    return find(call) != NULL;
}

static int answer_one(const struct broker *broker, const struct seccomp_notif *call, const struct named *each)
{
    const uint64_t *rest = (const uint64_t *)call->data.args + each->path + 1;
    struct timespec times[2];
    struct name name = {.above = -1};
    int fault = take_name(broker, call, rest[-1], &name);
    fault = fault != 0 ? fault : access_to(name.path) != ACCESS_CHANGE ? EACCES : open_above(&name);
    if (fault == 0 && each->what == TIMES && (fault = take_times(call, rest[0], times)) == 0)
        fault = done(utimensat(name.above, name.last, times, AT_SYMLINK_NOFOLLOW));
    else if (fault == 0)
        fault = each->what == TRUNCATE           ? cut(&name, (off_t)rest[0])
                : each->what == MAKE_DIRECTORY   ? done(mkdirat(name.above, name.last, (mode_t)rest[0] & 07777))
                : each->what == REMOVE_DIRECTORY ? remove_name(&name, true)
                : each->what == UNLINK           ? remove_name(&name, each->path == 1 && (rest[0] & AT_REMOVEDIR) != 0)
                : each->what == MODE             ? change_mode(&name, (mode_t)rest[0])
                : each->what == NODE             ? make_node(&name, (mode_t)rest[0])
                : each->what == OWNER
                    ? done(fchownat(name.above, name.last, (uid_t)rest[0], (gid_t)rest[1], AT_SYMLINK_NOFOLLOW))
                    : EPERM;
    close_name(&name);
    return fault;
}

static int answer(const struct broker *broker, const struct seccomp_notif *call, const struct named *each)
{
    const uint64_t *all = (const uint64_t *)call->data.args, *from = all + each->path;
    switch (each->what) {
    case OPEN:
        return answer_open(broker, call, from[0], from[1], (mode_t)from[2] & 07777);
    case CREATE:
        return answer_open(broker, call, from[0], O_WRONLY | O_CREAT | O_TRUNC, (mode_t)from[1] & 07777);
    case RENAME:
        return answer_two(broker, call, from[0], all[each->path == 0 ? 1 : 3], true,
                          call->data.nr == SYS_renameat2 ? (unsigned)all[4] : 0);
    case LINK:
        return answer_two(broker, call, from[0], all[each->path == 0 ? 1 : 3], false, 0);
    case SYMLINK:
        return answer_symlink(broker, call, all[0], all[each->path == 0 ? 1 : 2]);
    default:
        return answer_one(broker, call, each);
    }
}

int paths_answer(const struct broker *broker, const struct seccomp_notif *call, uint32_t *flags)
{
    /* Changes the times of a descriptor: no path is named. */
    if (call->data.nr == SYS_utimensat && call->data.args[1] == 0) {
        *flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        return 0;
    }
    pthread_mutex_lock(&lock);
    int fault = answer(broker, call, find(&call->data));
    pthread_mutex_unlock(&lock);
    return fault;
}
