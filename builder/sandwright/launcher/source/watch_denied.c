/* Denied names that did not exist when the sandbox was rendered, or that lead through links. Each is followed
 * on the host; every name on the way is watched before it is looked up, so that no change is missed. */
#define _GNU_SOURCE
#include <limits.h>

#include "launch.h"
#include "watch.h"

enum { MOST_LINKS = 40 }; /* MAXSYMLINKS of the kernel */

/* The part of a path that is still to be followed, and the part that was followed: without links, and empty
 * for the root. */
struct way {
    char rest[2 * PATH_MAX], real[PATH_MAX];
    size_t length;
    int links;
};

/* Cuts the next name off the path; NULL at its end. */
static char *next_name(struct way *way, char name[NAME_MAX + 1])
{
    size_t skipped = strspn(way->rest, "/"), length = strcspn(way->rest + skipped, "/");
    if (length == 0 || length > NAME_MAX)
        return NULL;
    memcpy(name, way->rest + skipped, length);
    name[length] = '\0';
    memmove(way->rest, way->rest + skipped + length, strlen(way->rest + skipped + length) + 1);
    return name;
}

static bool append(struct way *way, const char *name)
{
    size_t length = strlen(name);
    if (way->length + length + 2 > sizeof way->real)
        return false;
    way->real[way->length] = '/';
    memcpy(way->real + way->length + 1, name, length + 1);
    way->length += length + 1;
    return true;
}

static void cut_to(struct way *way, size_t length)
{
    way->length = length;
    way->real[length] = '\0';
}

/* Puts the target of a link before the rest. */
static bool enter_link(struct way *way, const char *target, size_t length, size_t above)
{
    if (++way->links > MOST_LINKS || length + strlen(way->rest) + 1 > sizeof way->rest)
        return false;
    memmove(way->rest + length, way->rest, strlen(way->rest) + 1);
    memcpy(way->rest, target, length);
    cut_to(way, target[0] == '/' ? 0 : above);
    return true;
}

/* Starts where the previous path led, as far as both share directories, and if that had no links. */
static void begin_way(struct way *way, const char *path, const struct way *before)
{
    size_t same = 0, above = 0;
    for (; before->links == 0 && same < before->length && path[same] == before->real[same]; same++)
        if (path[same] == '/')
            above = same;
    *way = (struct way){.length = above};
    memcpy(way->real, before->real, above);
    snprintf(way->rest, sizeof way->rest, "%s", path + above);
}

/* Whether something exists at its end. */
static bool follow_way(struct way *way, struct host_watch *watch)
{
    char name[NAME_MAX + 1], target[PATH_MAX];
    struct stat status;
    while (next_name(way, name) != NULL) {
        size_t above = way->length;
        if (strcmp(name, ".") == 0)
            continue;
        if (strcmp(name, "..") == 0) {
            char *slash = strrchr(way->real, '/');
            cut_to(way, slash == NULL ? 0 : (size_t)(slash - way->real));
            continue;
        }
        host_watch_name(watch, above == 0 ? "/" : way->real, name);
        if (!append(way, name))
            return false;
        ssize_t length = readlink(way->real, target, sizeof target - 1);
        if (length < 0 && errno != EINVAL)
            return false;
        if (length >= 0 && !enter_link(way, target, (size_t)length, above))
            return false;
    }
    return lstat(way->length == 0 ? "/" : way->real, &status) == 0;
}

/* Whether the plan shows the host's file at this path, and no mount covers it. If this can't be found out, it
 * counts as shown. */
static bool is_shown(const struct mount_plan *plan, const struct mounts *mounts, int inside, const char *path)
{
    struct stat status;
    const struct record *record = record_about(plan, path, strlen(path));
    if (record == NULL || (record->kind != READ && record->kind != WRITE))
        return false;
    if (mounts == NULL)
        return true;
    const struct mount *mount = mounts_at(mounts, path, strlen(path));
    int fault = look_inside(inside, path, &status);
    bool hidden = mount->readonly && is_in_memory(mount->type) && strcmp(mount->point, path) == 0;
    return fault != ENOENT && fault != ENOTDIR && !hidden;
}

const char *absent_find(const struct strv *names, const struct mount_plan *plan, const struct mounts *mounts, int inside,
                        const char *root, struct host_watch *watch)
{
    static char found[2 * PATH_MAX];
    static struct way ways[2];
    ways[1].length = 0;
    for (size_t index = 0; index + 1 < names->count; index += 2) {
        struct way *way = &ways[index / 2 % 2];
        begin_way(way, names->at[index], &ways[1 - index / 2 % 2]);
        if (!follow_way(way, watch) || strcmp(way->real, names->at[index + 1]) == 0)
            continue;
        snprintf(found, sizeof found, "%s%s", root, way->real);
        if (is_shown(plan, mounts, inside, found))
            return found;
    }
    return NULL;
}
