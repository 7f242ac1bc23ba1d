/* The launcher's part of closed directories (closed.h): their entries get Landlock rules, they themselves get
 * none.
 *
 * Landlock then denies to create, link or move anything in a closed directory, even if a program changes its
 * memory while the supervisor checks a call. The directories below that exist at the start need no
 * supervisor, because they have rules.
 */
#define _GNU_SOURCE
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "closed.h"
#include "landlock.h"
#include "launch.h"

#ifndef FS_CASEFOLD_FL
#define FS_CASEFOLD_FL 0x40000000
#endif
enum { XFS = 0x58465342, BTRFS = 0x9123683e, EXT4 = 0xef53, F2FS = 0xf2f52010, TMPFS = 0x01021994, OVERLAY = 0x794c7630,
       ZFS = 0x2fc12fc1 };

static struct closed *all;
static size_t count;
static struct stat *granted; /* sorted by device and inode */
static size_t granted_count, granted_room;

static int order(const void *one, const void *other)
{
    const struct stat *left = one, *right = other;
    if (left->st_dev != right->st_dev)
        return left->st_dev < right->st_dev ? -1 : 1;
    return left->st_ino < right->st_ino ? -1 : left->st_ino > right->st_ino;
}

struct closed *closed_at(const struct stat *status)
{
    for (size_t index = 0; index < count; index++)
        if (same_file(&all[index].status, status))
            return &all[index];
    return NULL;
}

struct closed *closed_above(const char *path, size_t length)
{
    struct closed *found = NULL;
    for (size_t index = 0; index < count; index++)
        if (is_below(path, length, all[index].path, all[index].length) && (found == NULL || all[index].length > found->length))
            found = &all[index];
    return found;
}

bool closed_granted(const struct stat *status)
{
    return granted_count > 0 && bsearch(status, granted, granted_count, sizeof *granted, order) != NULL;
}

size_t closed_all(struct closed **found)
{
    *found = all;
    return count;
}

/* ---- the closed directories, when a run starts */
static struct closed *add(const char *path)
{
    for (size_t index = 0; index < count; index++)
        if (strcmp(all[index].path, path) == 0)
            return &all[index];
    struct closed *more = xcalloc((count + 1) * sizeof *more);
    if (count > 0)
        memcpy(more, all, count * sizeof *more);
    all = more;
    all[count] = (struct closed){.path = path, .length = strlen(path), .inside = -1};
    return &all[count++];
}

/* Whether the directory ignores case, or is on a file system that is not known to compare names byte by
 * byte. */
static bool folds(int directory)
{
    static const unsigned exact[] = {EXT4, XFS, BTRFS, F2FS, TMPFS, OVERLAY, ZFS};
    struct statfs system;
    long flags = 0;
    if (fstatfs(directory, &system) != 0)
        return true;
    for (size_t index = 0; index < sizeof exact / sizeof *exact; index++)
        if ((unsigned)system.f_type == exact[index])
            return ioctl(directory, FS_IOC_GETFLAGS, &flags) == 0 && (flags & FS_CASEFOLD_FL) != 0;
    return true;
}

static void grant_entry(int directory, const char *name)
{
    struct stat status;
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(status.st_mode) || closed_at(&status) != NULL)
        return;
    if (granted_count == granted_room) {
        struct stat *more = xcalloc((granted_room = 2 * granted_room + 64) * sizeof *more);
        if (granted_count > 0)
            memcpy(more, granted, granted_count * sizeof *more);
        granted = more;
    }
    granted[granted_count++] = status;
}

static int open_closed(const struct closed *each)
{
    int directory = open_without_links(AT_FDCWD, each->path, O_RDONLY | O_DIRECTORY, 0);
    if (directory < 0)
        die_errno("cannot examine %s, where the policy restricts names that do not exist", each->path);
    return directory;
}

/* Inspects all closed directories first, because none of them may get a rule as an entry of another one. */
static void look(void)
{
    for (size_t index = 0; index < count; index++) {
        _cleanup_close_ int directory = open_closed(&all[index]);
        if (fstat(directory, &all[index].status) != 0)
            die_errno("%s", all[index].path);
        all[index].folds = folds(directory);
    }
    for (size_t index = 0; index < count; index++) {
        _cleanup_close_ int directory = open_closed(&all[index]);
        DIR *entries = open_directory(directory, ".");
        for (struct dirent *entry; (entry = next_entry(entries)) != NULL;)
            if (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)
                grant_entry(directory, entry->d_name);
    }
    qsort(granted, granted_count, sizeof *granted, order);
}

static bool is_written(const struct run *run, size_t index)
{
    return strcmp(run->plan.backstop.paths.at[index], "write") == 0;
}

/* Closes the directories from the writable one down to the one in which the name would be created. */
static void close_below(const struct run *run, const char *directory)
{
    size_t length = strlen(directory);
    for (size_t index = 0; index < run->plan.backstop.paths.count; index += 2) {
        const char *root = run->plan.backstop.paths.at[index + 1];
        size_t above = strlen(root);
        if (!is_written(run, index) || !is_below(directory, length, root, above))
            continue;
        add(root);
        for (const char *slash = strchr(directory + above + 1, '/'); above < length && slash != NULL; slash = strchr(slash + 1, '/'))
            add(xasprintf("%.*s", (int)(slash - directory), directory));
    }
}

void closed_prepare(const struct run *run)
{
    all = NULL;
    granted = NULL;
    count = granted_count = granted_room = 0;
    for (size_t index = 0; index < run->plan.uncreatable.count; index += 2) {
        close_below(run, run->plan.uncreatable.at[index]);
        struct closed *each = add(run->plan.uncreatable.at[index]);
        strv_push(&each->names, run->plan.uncreatable.at[index + 1]);
    }
    look();
}

void closed_check(const struct run *run)
{
    if (run->plan.uncreatable.count > 0 && !backstop_available(run))
        die("this was rendered for a kernel with Landlock (Linux 5.19), which this kernel lacks: render it again on this machine");
}

static void grant_entries(int ruleset, uint64_t rights, const struct closed *each)
{
    _cleanup_close_ int directory = open_closed(each);
    DIR *entries = open_directory(directory, ".");
    for (struct dirent *entry; (entry = next_entry(entries)) != NULL;) {
        struct stat status;
        _cleanup_close_ int file = -1;
        if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)
            continue;
        file = openat(directory, entry->d_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (file >= 0 && fstat(file, &status) == 0 && closed_granted(&status))
            landlock_path(ruleset, file, rights, entry->d_name);
    }
}

/* Sockets may be created, even with a restricted name: programs don't read a socket as a file. */
bool closed_grant(int ruleset, uint64_t rights, const char *path)
{
    size_t length = strlen(path);
    bool found = false;
    for (size_t index = 0; index < count; index++) {
        const struct closed *each = &all[index];
        struct stat status;
        if (!is_below(each->path, each->length, path, length))
            continue;
        _cleanup_close_ int directory = open_closed(each);
        if (fstat(directory, &status) != 0 || !same_file(&status, &each->status))
            die("%s was replaced while the sandbox was starting", each->path);
        landlock_path(ruleset, directory, rights & ~(uint64_t)CREATION, each->path);
        grant_entries(ruleset, rights, each);
        found = true;
    }
    return found;
}
