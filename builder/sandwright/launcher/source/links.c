/* Links that programs inside make, by symlink(2) and symlinkat(2): Git on the host would write through a
 * link in one of its directories. So the supervisor makes them, and none there. Links that are moved there
 * the kernel refuses (EXDEV), as each of these directories is a separate mount. The directory in which a
 * link is made is opened, judged, and used by its descriptor, so concurrent changes by the caller's
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

/* By this link `git init` tries whether a file system has links, also for a submodule: without, it says that there are none. */
bool links_is_probe(const char *target)
{
    return strcmp(target, "testing") == 0;
}

/* By the name that the kernel has for the directory in the sandbox. Those of Git's are mounts there: nothing moves them away, or
 * something into them. In a mount namespace of the caller's own, they may have other names. */
static bool may_hold_links(const struct broker *broker, int process, int directory)
{
    char descriptor[32], path[PATH_MAX]; /* of a longer one, the beginning */
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

/* What a path is relative to, in the caller's directory in /proc. `self` in a path would mean us. */
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

/* Splits off the last name, with the slashes after it, which have a meaning for the kernel. */
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
    if (path[0] != '/' && fstatat(process, base, &there, AT_SYMLINK_NOFOLLOW) != 0) /* access(2) would ask as the real user */
        return EBADF;
    _cleanup_close_ int directory = open_as(process, base, length == 0 ? "." : above);
    int fault = directory < 0 ? errno : 0;
    if (!broker_valid(broker, call->id))
        return -1; /* the opened file may be another's */
    if (fault == 0 && !links_is_probe(target) && !may_hold_links(broker, process, directory))
        fault = EPERM; /* "does not support the creation of symbolic links" (symlink(2)), for which programs are prepared */
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
        return EPERM; /* io_uring, which hides it */
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
