/* Changes mounts inside a running sandbox: by a child, which enters its user namespace and mount namespace (setns(2)) and
 * ends. */
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

/* The namespace of users is the one that owns the mounts; a process of the sandbox may be in a deeper one. */
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
    pid_t child = vfork(); /* the child makes some calls and ends */
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

/* A link is not followed. */
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

/* It is read-only before anybody sees it (Linux 5.12). */
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

/* The kernel's default is half of the memory for each. The mode does not keep the owner out. */
static bool limit_memory(const char *path)
{
    struct statvfs place;
    unsigned long kept = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC; /* as ST_RDONLY and so on */
    return statvfs(path, &place) == 0 &&
           mount(NULL, path, NULL, MS_REMOUNT | (place.f_flag & kept), "size=8k,nr_inodes=4") == 0;
}

static const struct mount_plan *prepared;

/* Later mounts outside stay outside, and mounts over placeholders have little memory. */
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
