/* Compares the mounts inside with the plan. */
#define _GNU_SOURCE
#include <linux/openat2.h>
#include <sys/sysmacros.h>

#include "launch.h"
#include "watch.h"

int look_inside(int root, const char *path, struct stat *status)
{
    _cleanup_close_ int file = open_without_links(root, path, O_PATH, RESOLVE_IN_ROOT);
    return file < 0 || fstat(file, status) != 0 ? errno : 0;
}

/* Whether a path shows what was planned: the very file that is held, or for a mask an empty file or
 * directory. */
static bool shows(const struct record *record, int root)
{
    struct stat inside, held;
    if (root < 0 || record->kind == OWN || record->kind == PLACEHOLDER_DIRECTORY)
        return true;
    int fault = look_inside(root, record->target, &inside);
    if (fault == EACCES || fault == ENOSYS || fault == EPERM)
        return true; /* no process with these rights sees the path inside either */
    if (fault != 0)
        return false;
    if (record->kind == MASK_DIRECTORY)
        return S_ISDIR(inside.st_mode);
    if (record->kind == MASK_FILE)
        return (S_ISCHR(inside.st_mode) && inside.st_rdev == makedev(1, 3)) ||
               (S_ISREG(inside.st_mode) && inside.st_size == 0);
    if (record->held < 0)
        return record->fault == EACCES;
    return fstat(record->held, &held) == 0 && same_file(&inside, &held);
}

bool is_in_memory(const char *type)
{
    static const char *const types[] = {"tmpfs", "ramfs", "proc", "devtmpfs", "overlay"};
    for (size_t index = 0; index < sizeof types / sizeof *types; index++)
        if (strcmp(type, types[index]) == 0)
            return true;
    return false;
}

static bool right(const struct record *record, const struct mount *mount)
{
    switch (record->kind) {
    case OWN:
        return is_in_memory(mount->type);
    case PLACEHOLDER_DIRECTORY:
        return is_in_memory(mount->type) || mount->readonly;
    case MASK_DIRECTORY:
        return is_in_memory(mount->type) && mount->readonly;
    case MASK_FILE:
    case READ:
    case PLACEHOLDER_FILE:
        return mount->readonly;
    case WRITE:
        return true;
    }
    return false;
}

const struct record *record_about(const struct mount_plan *plan, const char *path, size_t length)
{
    const struct record *found = NULL;
    for (size_t index = 0; index < plan->count; index++) {
        const struct record *each = &plan->records[index];
        if (is_below(path, length, each->target, each->length) && (found == NULL || each->length > found->length))
            found = each;
    }
    return found;
}

/* The path of a visible, writable mount where none was planned; NULL: none. */
static const char *unplanned(const struct mount_plan *plan, const struct mounts *mounts, int root)
{
    struct stat status;
    for (size_t index = 0; index < mounts->count; index++) {
        const struct mount *each = &mounts->all[index];
        if (each->readonly || mounts_at(mounts, each->point, each->length) != each)
            continue;
        const struct record *record = record_about(plan, each->point, each->length);
        bool open = record == NULL || record->kind == WRITE || (record->kind == OWN && record->writable) ||
                    record->kind == PLACEHOLDER_DIRECTORY;
        if (open || (root >= 0 && look_inside(root, each->point, &status) == EACCES))
            continue;
        return each->point;
    }
    return NULL;
}

const struct record *compare(struct mount_plan *plan, const struct mounts *mounts, int root, bool first, const char **where)
{
    *where = NULL;
    for (size_t index = 0; index < plan->count; index++) {
        struct record *each = &plan->records[index];
        if (each->gone)
            continue;
        const struct mount *mount = mounts_at(mounts, each->target, each->length);
        if (strcmp(mount->point, each->target) != 0 || !right(each, mount) || (!first && mount->id != each->mount) ||
            (first && !shows(each, root)))
            return each;
        if (first)
            each->mount = mount->id;
    }
    *where = unplanned(plan, mounts, root);
    return NULL;
}
