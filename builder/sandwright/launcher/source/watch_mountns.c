/* Changes mounts inside a running sandbox, in a child that enters its user and mount namespaces (setns(2))
 * and then ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watch.h"

/* The user namespace must be the one that owns the mount namespace; a process of the sandbox may be in a
 * nested one. */
bool inside_open(int process, struct inside *inside)
{
    struct stat own, there;
    inside->spaces[0] = -1;
    inside->spaces[1] = openat(process, "ns/mnt", O_RDONLY | O_CLOEXEC);
    if (inside->spaces[1] < 0)
        return false;
    int users = ioctl(inside->spaces[1], NS_GET_USERNS);
    if (users < 0 || fstat(users, &there) != 0 || stat("/proc/self/ns/user", &own) != 0)
        return false;
    if (own.st_ino == there.st_ino && own.st_dev == there.st_dev)
        close(users);
    else
        inside->spaces[0] = users;
    return stat("/proc/self/ns/mnt", &own) == 0 && fstat(inside->spaces[1], &there) == 0 && own.st_ino != there.st_ino;
}

static bool in_child(const struct inside *inside, bool (*action)(const char *), const char *path)
{
    int status;
    pid_t child = vfork(); /* the child makes only a few system calls */
    if (child == 0) {
        bool there = inside->here || ((inside->spaces[0] < 0 || setns(inside->spaces[0], CLONE_NEWUSER) == 0) &&
                                         setns(inside->spaces[1], CLONE_NEWNS) == 0);
        _exit(there && action(path) ? 0 : 1);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* mount_namespaces(7) */
static bool make_private(const char *path)
{
    return mount(NULL, path, NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

bool inside_private(const struct inside *inside)
{
    return in_child(inside, make_private, "/");
}

/* Does not follow a link. */
bool hide_path(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    if (S_ISLNK(status.st_mode))
        return false;
    unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;
    if (S_ISDIR(status.st_mode))
        return mount("tmpfs", path, "tmpfs", flags | MS_NOEXEC, "mode=0755") == 0;
    return mount("/dev/null", path, NULL, MS_BIND, NULL) == 0 &&
           (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | flags | MS_NOEXEC, NULL) == 0 ||
            mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | flags, NULL) == 0);
}

bool inside_hide(const struct inside *inside, const char *path)
{
    return in_child(inside, hide_path, path);
}

/* Makes the mount read-only before it becomes visible (Linux 5.12). */
static bool rebind(const char *path)
{
    struct mount_attr readonly = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    struct stat status;
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (tree < 0)
        return errno == ENOENT;
    return fstat(tree, &status) == 0 && S_ISREG(status.st_mode) &&
           syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &readonly, sizeof readonly) == 0 &&
           syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

bool inside_rebind(const struct inside *inside, const char *path)
{
    return in_child(inside, rebind, path);
}

/* The kernel's default for each tmpfs is half of the memory. The mode does not keep its owner from
 * writing. */
static bool limit_memory(const char *path)
{
    struct statvfs place;
    /* These have the same values as ST_RDONLY etc. */
    unsigned long kept = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    return statvfs(path, &place) == 0 &&
           mount(NULL, path, NULL, MS_REMOUNT | (place.f_flag & kept), "size=8k,nr_inodes=4") == 0;
}

static const struct mount_plan *prepared;

/* Makes the mounts private, and bounds the memory of the file systems that cover placeholders. */
static bool prepare_mounts(const char *unused)
{
    (void)unused;
    if (!make_private("/"))
        return false;
    for (size_t index = 0; index < prepared->count; index++)
        if (prepared->records[index].kind == PLACEHOLDER_DIRECTORY && !limit_memory(prepared->records[index].target))
            return false;
    return true;
}

bool inside_prepare(const struct inside *inside, const struct mount_plan *plan)
{
    prepared = plan;
    return in_child(inside, prepare_mounts, NULL);
}

static bool take_away(const char *path)
{
    return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0;
}

bool inside_remove(const struct inside *inside, const char *path)
{
    return in_child(inside, take_away, path);
}
