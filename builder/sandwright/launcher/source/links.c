/* Symbolic links that programs inside create (symlink(2), symlinkat(2)). Through a link in one of its
 * directories, Git on the host would write elsewhere, so the supervisor creates all links, but none there.
 * The kernel refuses to move a link there (EXDEV), because each Git directory is a mount of its own. The
 * supervisor opens the directory, checks it, and uses its descriptor, so concurrent changes by the caller's
 * threads have no effect. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker.h"
#include "closed.h"
#include "launch.h"
#include "paths.h"
#include "watch.h"

/* `git init` creates this link to find out whether the file system supports links, even for a submodule. If
 * it fails, Git stores links as files. */
bool links_is_probe(const char *target)
{
    return strcmp(target, "testing") == 0;
}

/* Judges the directory by its path in the sandbox, as the kernel reports it. Git directories are mounts
 * there, so they can't be moved, and nothing can be moved into them. A caller in a mount namespace of its own
 * could see other paths, so it gets no links. */
static bool may_hold_links(const struct broker *broker, int process, int directory)
{
    char descriptor[32], path[PATH_MAX]; /* a longer path is truncated */
    size_t root = strlen(broker->root);
    struct stat space;
    snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", directory);
    ssize_t length = readlink(descriptor, path, sizeof path - 1);
    if (length <= 0 || fstatat(process, "ns/mnt", &space, 0) != 0 || !same_file(&space, &broker->mounts))
        return false;
    path[length] = '\0';
    if (strncmp(path, broker->root, root) != 0)
        return false;
    for (size_t index = 0; index < broker->repositories->count; index++) {
        const char *each = broker->repositories->at[index];
        if (is_below(path + root, (size_t)length - root, each, strlen(each)))
            return false;
    }
    return true;
}

/* The directory to which a path is relative, in the caller's /proc directory. `/proc/self` in a path would
 * mean the supervisor. */
const char *links_base(int number, const char *path, char base[32])
{
    static const char *const own[] = {"/proc/self/", "/proc/thread-self/"};
    snprintf(base, 32, number == AT_FDCWD ? "cwd" : "fd/%d", number);
    for (size_t index = 0; index < sizeof own / sizeof *own; index++) {
        const char *rest = path + strlen(own[index]);
        if (strncmp(path, own[index], strlen(own[index])) != 0)
            continue;
        size_t length = strncmp(rest, "fd/", 3) == 0 ? 3 + strspn(rest + 3, "0123456789") : 3 * (strncmp(rest, "cwd", 3) == 0);
        if (length == 0 || length > 16 || rest[length] != '/')
            continue;
        snprintf(base, 32, "%.*s", (int)length, rest);
        return rest + length + strspn(rest + length, "/");
    }
    return path;
}

/* Splits off the last name, with the slashes after it, which matter to the kernel. */
size_t links_above_last(const char *path)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    while (end > 0 && path[end - 1] != '/')
        end--;
    return end;
}

static int make_link(const struct broker *broker, const struct seccomp_notif *call, int process, int number, const char *target,
                     const char *path)
{
    char base[32], above[PATH_MAX];
    struct stat there;
    path = links_base(number, path, base);
    size_t length = links_above_last(path);
    snprintf(above, sizeof above, "%.*s", (int)length, length == 0 ? "." : path);
    /* access(2) would check with the real user ID. */
    if (path[0] != '/' && fstatat(process, base, &there, AT_SYMLINK_NOFOLLOW) != 0)
        return EBADF;
    _cleanup_close_ int directory = open_as(process, base, length == 0 ? "." : above);
    int fault = directory < 0 ? errno : 0;
    if (!broker_valid(broker, call->id))
        return -1; /* the opened directory may belong to a process that reuses the ID */
    if (fault == 0 && !links_is_probe(target) && !may_hold_links(broker, process, directory))
        /* "does not support the creation of symbolic links" (symlink(2)), an error that programs are prepared
         * for. */
        fault = EPERM;
    if (fault == 0 && creation_is_refused(broker, directory, path + length))
        fault = EACCES;
    if (fault == 0 && symlinkat(target, directory, path[length] == '\0' ? path : path + length) != 0)
        fault = errno;
    return fault;
}

void links_begin(struct broker *broker, pid_t first)
{
    if (stat(xasprintf("/proc/%d/ns/mnt", (int)first), &broker->mounts) != 0 ||
        (broker->root = read_link(AT_FDCWD, xasprintf("/proc/%d/root", (int)first))) == NULL)
        die_errno("cannot examine the sandbox's mounts");
    if (strcmp(broker->root, "/") == 0)
        broker->root = "";
}

int links_answer(const struct broker *broker, const struct seccomp_notif *call)
{
    char name[32], target[PATH_MAX], path[PATH_MAX];
    pid_t thread = (pid_t)call->pid;
    bool at;
    if (!is_link(&call->data, &at))
        return EPERM; /* io_uring, which would hide the path */
    snprintf(name, sizeof name, "/proc/%d", (int)thread);
    _cleanup_close_ int process = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process < 0)
        return EACCES;
    int fault = read_path(thread, call->data.args[0], target);
    if (fault == 0)
        fault = read_path(thread, call->data.args[at ? 2 : 1], path);
    if (fault == 0 && (target[0] == '\0' || path[0] == '\0'))
        fault = ENOENT;
    return fault != 0 ? fault : make_link(broker, call, process, at ? (int)call->data.args[1] : AT_FDCWD, target, path);
}
