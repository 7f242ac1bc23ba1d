/* Creates the guest's root if none was created outside: mounts by the plan, as bubblewrap would make them.
 * These mounts only shape what programs inside see. The supervisor outside (paths.c) enforces the plan: it
 * checks each name against it. */
#define _GNU_SOURCE
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "guest.h"
#include "launch.h"
#include "watch.h"

static const char ROOT[] = "/dev/root";
static const unsigned long USUAL = MS_NOSUID | MS_NODEV;

static const char *in_root(const char *path)
{
    return strcmp(path, "/") == 0 ? ROOT : xasprintf("%s%s", ROOT, path);
}

/* Mount points are created in memory only, never on the host. */
static bool above_is_memory(const char *path)
{
    struct statfs place;
    const char *above = xasprintf("%.*s", (int)(strrchr(path, '/') - path), path);
    return statfs(above, &place) == 0 && place.f_type == TMPFS_MAGIC;
}

static bool make_ways(const char *path)
{
    char *each = xasprintf("%s", path);
    for (char *slash = strchr(each + sizeof ROOT, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (access(each, F_OK) != 0 && (!above_is_memory(each) || mkdir(each, 0755) != 0))
            return false;
        *slash = '/';
    }
    return true;
}

static bool make_point(const char *point, bool directory)
{
    struct stat status;
    if (lstat(point, &status) == 0)
        return true;
    if (!make_ways(point) || !above_is_memory(point))
        return false;
    return (directory ? mkdir(point, 0755) : mknod(point, S_IFREG | 0444, 0)) == 0;
}

static bool bind(const char *source, const char *point, bool readonly)
{
    struct stat status;
    return stat(source, &status) == 0 && make_point(point, S_ISDIR(status.st_mode)) &&
           mount(source, point, NULL, MS_BIND, NULL) == 0 &&
           mount(NULL, point, NULL, MS_REMOUNT | MS_BIND | USUAL | (readonly ? MS_RDONLY : 0), NULL) == 0;
}

static bool make_memory(const char *point, const char *mode, const struct identity *identity, const char *ignores)
{
    const char *options = xasprintf("mode=%s,uid=%d,gid=%d", mode, (int)identity->user, (int)identity->group);
    return make_point(point, true) && mount("tmpfs", point, "tmpfs", USUAL, options) == 0 &&
           (ignores == NULL || write_file(AT_FDCWD, xasprintf("%s/.gitignore", point), ignores, strlen(ignores), 0444) == 0);
}

static bool close_memory(const char *point)
{
    return mount(NULL, point, NULL, MS_REMOUNT | MS_BIND | USUAL | MS_RDONLY, NULL) == 0;
}

static bool make_one(enum planned kind, const char *path, const char *source, const struct identity *identity)
{
    const char *point = in_root(path);
    switch (kind) {
    case PLAN_READ:
    case PLAN_WRITE:
        return bind(source, point, kind == PLAN_READ);
    case PLAN_HIDDEN:
        return hide_path(point);
    case PLAN_OWN:
        return make_memory(point, "0755", identity, NULL);
    case PLAN_EMPTY: /* further entries of the root are created later */
        return make_memory(point, "0755", identity, NULL) && (strcmp(path, "/") == 0 || close_memory(point));
    case PLAN_PLACEHOLDER:
        return make_memory(point, "0555", identity, NULL) && close_memory(point);
    case PLAN_IGNORED:
        return make_memory(point, "0555", identity, "*\n") && close_memory(point);
    case PLAN_LINK:
        return make_ways(point) && symlink(source, point) == 0;
    }
    return false;
}

/* The guest's own mounts exist already, and are also mounted in the new root. */
static bool bring_own(void)
{
    static const char *const own[] = {"/dev", "/dev/pts", "/proc", "/sys"};
    struct stat there;
    for (size_t index = 0; index < sizeof own / sizeof *own; index++) {
        const char *point = in_root(own[index]);
        if (strcmp(own[index], "/sys") == 0 && stat(point, &there) != 0)
            continue;
        if (!make_point(point, true) || mount(own[index], point, NULL, MS_BIND, NULL) != 0)
            return false;
    }
    return true;
}

static bool enter(void)
{
    return chdir(ROOT) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 && chdir("/") == 0 &&
           rmdir("/dev/root") == 0;
}

const char *guest_root(const struct strv *planned, const struct identity *identity)
{
    bool memory = false;
    if (mkdir(ROOT, 0755) != 0)
        return ROOT;
    for (size_t index = 0; index < planned->count; index++) {
        const char *path = planned->at[index] + 1, *source = path + strlen(path) + 1;
        memory = memory || (strcmp(path, "/") == 0 && planned->at[index][0] == PLAN_EMPTY);
        if (!make_one((enum planned)planned->at[index][0], path, source, identity))
            return path;
    }
    if (!bring_own())
        return "/dev";
    if (memory && !close_memory(ROOT))
        return "/";
    return enter() ? NULL : "the root directory";
}
