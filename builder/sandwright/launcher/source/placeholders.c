/* Placeholders: files and directories that exist during the runs in this project, so that no program inside
 * can create them. All runs that need them hold a lock on the project, and the last one removes them. A
 * placeholder is recognised by its mode: it is not writable, and a directory is sticky as well. A user could
 * have such a directory, too, so each one that a run creates is also recorded by device and inode. Its path
 * is recorded before it is created, because the run may be killed in between.
 *
 * Each is created and removed relative to a descriptor of its parent directory, to which no link leads, and
 * which stays open. If a program replaces a directory on the way, nothing is therefore created or removed
 * elsewhere.
 *
 * Runs with different policies need different placeholders, and the last run has to know all of them. Each
 * run therefore writes its list to a file beside the directories of runs, before it creates one. The file is
 * named after the project and the list.
 */
#define _GNU_SOURCE
#include <linux/openat2.h>
#include <poll.h>
#include <sys/file.h>

#include "launch.h"

/* Milliseconds; maximal bytes of a list. */
enum { BETWEEN = 20, LOCKING = 10000, ENDING = 1000, REMOVING = 5000, MOST = 1 << 22 };

static struct parent {
    const char *path;
    int directory;
    struct parent *next;
} *parents;

struct place {
    const char *path, *name, *line; /* `line`: NULL for a directory */
    int directory;                  /* a descriptor of the directory that contains `name`; -1: none */
};

/* The placeholders that were created, or were about to be (inode 0), the last one first. */
static struct made {
    const char *path;
    unsigned long device, number;
    bool modeless; /* created by this run on a file system that does not store modes */
    struct made *next;
} *made;
static bool recorded; /* `made` is complete: it contains those of all runs in the project */

static int directory_of(const struct plan *plan, const char *path)
{
    size_t below = strlen(plan->project);
    for (struct parent *each = parents; each != NULL; each = each->next)
        if (strcmp(each->path, path) == 0)
            return each->directory;
    bool inside = strncmp(path, plan->project, below) == 0 && path[below] == '/';
    int project = inside ? directory_of(plan, plan->project) : AT_FDCWD;
    int directory = open_without_links(project, inside ? path + below + 1 : path, O_PATH | O_DIRECTORY,
                                       inside ? RESOLVE_BENEATH : 0);
    if (directory < 0)
        return -1;
    struct parent *parent = xcalloc(sizeof *parent);
    *parent = (struct parent){path, directory, parents};
    parents = parent;
    return directory;
}

static struct place place_of(const struct plan *plan, const char *path, const char *line)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return (struct place){path, path, line, -1};
    const char *above = slash == path ? "/" : xasprintf("%.*s", (int)(slash - path), path);
    return (struct place){path, slash + 1, line, directory_of(plan, above)};
}

static void remember_made(const char *path, unsigned long device, unsigned long number)
{
    struct made *next = xcalloc(sizeof *next);
    *next = (struct made){path, device, number, false, made};
    made = next;
}

static bool was_made(const struct stat *status, bool modeless)
{
    for (const struct made *each = made; each != NULL; each = each->next)
        if (each->modeless >= modeless && each->device == status->st_dev && each->number == status->st_ino)
            return true;
    return false;
}

static bool was_begun(const char *path)
{
    const struct made *each = made;
    while (each != NULL && strcmp(each->path, path) != 0)
        each = each->next;
    return each != NULL && each->number == 0;
}

enum state { ABSENT, HALF /* a run is creating it, or was killed while it did */, OURS, OTHERS };

static enum state state_of_file(const struct place *place)
{
    char content[4096];
    size_t line = strlen(place->line);
    _cleanup_close_ int file = openat(place->directory, place->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, content, sizeof content);
    return got == (ssize_t)line + 1 && memcmp(content, place->line, line) == 0 && content[line] == '\n' ? OURS : OTHERS;
}

/* For an empty directory, or one that rmdir(2) shows to be empty. A file is opened only if its line has to be
 * read, because opening it wakes programs that watch the directory. */
static enum state state_of(const struct place *place)
{
    struct stat status;
    if (place->directory < 0 || fstatat(place->directory, place->name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return ABSENT;
    bool closed = (status.st_mode & 0222) == 0;
    if (place->line == NULL) {
        bool known = (closed && (status.st_mode & S_ISVTX) != 0) || was_made(&status, true);
        return S_ISDIR(status.st_mode) && known ? OURS : OTHERS;
    }
    if (!S_ISREG(status.st_mode) || !closed)
        return OTHERS;
    if (status.st_size == 0)
        return *place->line == '\0' ? OURS : HALF;
    return *place->line == '\0' ? OTHERS : state_of_file(place);
}

static bool is_empty(const struct place *place)
{
    int file = openat(place->directory, place->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = file < 0 ? NULL : fdopendir(file);
    bool empty = entries != NULL && next_entry(entries) == NULL;
    if (entries != NULL && !empty)
        closedir(entries);
    return empty;
}

static _Noreturn void refuse_place(const struct place *place, int fault)
{
    if (fault == EROFS || fault == EACCES || fault == EPERM)
        die("cannot write %.*s, which the policy makes writable: list it under filesystem.readonly",
               (int)(place->name - 1 - place->path), place->path);
    die("cannot create %s, so programs inside could", place->path);
}

static int make(const struct place *place)
{
    mode_t mask = umask(0);
    int done = place->line == NULL ? mkdirat(place->directory, place->name, 01555)
               : *place->line == '\0' ? mknodat(place->directory, place->name, S_IFREG | 0444, 0)
                                      : write_file(place->directory, place->name, xasprintf("%s\n", place->line),
                                                   strlen(place->line) + 1, 0444);
    int fault = done == 0 ? 0 : errno;
    umask(mask);
    return fault;
}

static void check_made(const struct place *place, bool by_us)
{
    struct stat status;
    if (state_of(place) == OURS)
        return;
    if (by_us && place->line != NULL)
        unlinkat(place->directory, place->name, 0);
    if (!by_us || place->line != NULL || fstatat(place->directory, place->name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISDIR(status.st_mode))
        refuse_place(place, 0);
    remember_made(place->path, status.st_dev, status.st_ino);
    made->modeless = true;
}

static enum state settled(const struct place *place)
{
    enum state state;
    for (int tries = 10; (state = state_of(place)) == HALF && tries > 0; tries--)
        poll(NULL, 0, 10);
    return state;
}

static enum state look(const struct place *place)
{
    enum state state = settled(place);
    if (state == HALF)
        unlinkat(place->directory, place->name, 0);
    if (state == OTHERS || (state == OURS && place->line == NULL && !is_empty(place)))
        die("%s appeared after this was rendered: render it again", place->path);
    return state == HALF ? ABSENT : state;
}

/* policy_warnings.py checks names that existed before. */
static void check_spelling(const struct place *place)
{
    _cleanup_free_ char *other = second_spelling(place->directory, place->name);
    if (other != NULL)
        die("%s is also %s on its file system, which ignores case itself, and a mount covers only one name: use a directory on "
            "a file system that distinguishes case", place->path, other);
}

static void ensure(const struct place *place)
{
    struct stat status;
    int fault = place->directory < 0 ? ENOENT : make(place);
    if (fault != 0 && fault != EEXIST)
        refuse_place(place, fault);
    if (fault == EEXIST)
        settled(place);
    check_made(place, fault == 0);
    check_spelling(place);
    if (fault == 0 && fstatat(place->directory, place->name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        remember_made(place->path, status.st_dev, status.st_ino);
}

static void discard(const struct place *place)
{
    struct stat status;
    enum state state = state_of(place);
    if (state == OURS && recorded && !was_begun(place->path) &&
        (fstatat(place->directory, place->name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !was_made(&status, false)))
        return;
    if (state == OURS || state == HALF)
        unlinkat(place->directory, place->name, place->line == NULL ? AT_REMOVEDIR : 0);
}

/* ---- all of a list: first the files, because `refs` may only exist with `commondir`, then the directories;
 * removed in reverse order */
struct list {
    struct strv directories, files;
};

static struct place nth(const struct plan *plan, const struct list *list, size_t index)
{
    size_t files = list->files.count / 2;
    if (index >= files)
        return place_of(plan, list->directories.at[index - files], NULL);
    return place_of(plan, list->files.at[2 * index], list->files.at[2 * index + 1]);
}

static void discard_all(const struct plan *plan, const struct list *list)
{
    for (size_t index = list->files.count / 2 + list->directories.count; index > 0; index--) {
        struct place place = nth(plan, list, index - 1);
        discard(&place);
    }
}

/* ---- the lists of all runs: directories, an empty word, then files and their lines */
static struct list own_list(const struct plan *plan)
{
    return (struct list){plan->placeholder_directories, plan->placeholder_files};
}

static char *written(const struct list *list, size_t *length)
{
    struct bytes made = {0};
    bytes_words(&made, &list->directories);
    bytes_add(&made, "", 1);
    bytes_words(&made, &list->files);
    *length = made.end;
    return (char *)made.at;
}

static struct list parsed(char *content, size_t length)
{
    struct list list = {0};
    struct strv *words = &list.directories;
    for (char *at = content; at < content + length; at += strlen(at) + 1)
        if (*at == '\0' && words == &list.directories)
            words = &list.files;
        else if (words == &list.files || *at == '/')
            strv_push(words, at);
    return list;
}

static const char *digest_of(const char *content, size_t length)
{
    unsigned char digest[32];
    unsigned long first;
    sha256(content, length, digest);
    memcpy(&first, digest, sizeof first);
    return xasprintf("%016lx", first);
}

const char *project_digest(const struct plan *plan)
{
    return plan->project == NULL ? "-" : digest_of(plan->project, strlen(plan->project));
}

/* The directory of the lists, which contains `runs`; -1: none. */
static int open_lists(const struct run *run)
{
    const char *slash = run->state == NULL ? NULL : strstr(run->state, "/runs/sandwright-");
    if (slash == NULL)
        return -1;
    const char *path = xasprintf("%.*s/placeholders", (int)(slash - run->state), run->state);
    mkdir(path, 0700);
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void write_list(const struct run *run)
{
    struct list own = own_list(&run->plan);
    struct stat status;
    size_t length;
    char *content = written(&own, &length);
    const char *name = xasprintf("%s-%s", project_digest(&run->plan), digest_of(content, length));
    _cleanup_close_ int lists = open_lists(run);
    if (lists < 0)
        return;
    if (fstatat(lists, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || status.st_size != (off_t)length) {
        unlinkat(lists, name, 0);
        write_file(lists, name, content, length, 0600);
    }
}

/* ---- the record of what was created, one file for each project: device, inode and path of each, and NUL */
static const char *made_name(const struct run *run)
{
    return xasprintf("%s+made", project_digest(&run->plan));
}

static void record_made(const struct run *run, const struct bytes *lines)
{
    _cleanup_close_ int lists = open_lists(run), file = -1;
    if (lists >= 0)
        file = openat(lists, made_name(run), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lists >= 0 && (file < 0 || write(file, lines->at, lines->end) != (ssize_t)lines->end))
        die_errno("cannot record the contents of %s", run->plan.project);
}

static void add_made(struct bytes *lines, unsigned long device, unsigned long number, const char *path)
{
    const char *line = xasprintf("%lu %lu %s", device, number, path);
    bytes_add(lines, line, strlen(line) + 1);
}

static void read_made(const struct run *run)
{
    size_t length = 0;
    _cleanup_close_ int lists = open_lists(run);
    char *content = lists < 0 ? NULL : read_file(lists, made_name(run), MOST, &length);
    recorded = content != NULL; /* the record is lost if the machine was switched off meanwhile */
    for (char *at = content; recorded && at < content + length; at += strlen(at) + 1) {
        char *rest;
        unsigned long device = strtoul(at, &rest, 10), number = strtoul(rest, &rest, 10);
        remember_made(*rest == ' ' ? rest + 1 : "", device, number);
    }
}

static void discard_lists(const struct run *run)
{
    int directory = open_lists(run);
    DIR *lists = directory < 0 ? NULL : fdopendir(directory);
    const char *project = project_digest(&run->plan);
    for (struct dirent *entry; (entry = next_entry(lists)) != NULL;) {
        size_t length;
        if (strncmp(entry->d_name, project, strlen(project)) != 0)
            continue;
        bool is_list = strchr(entry->d_name, '+') == NULL;
        char *content = is_list ? read_file(directory, entry->d_name, MOST, &length) : NULL;
        if (content != NULL) {
            struct list list = parsed(content, length);
            discard_all(&run->plan, &list);
        }
        unlinkat(directory, entry->d_name, 0);
    }
}

/* ---- the lock. A process that can read the project can hold it for ever, and then no run starts. */
static bool open_project(struct run *run)
{
    if (run->lock < 0)
        run->lock = open_without_links(AT_FDCWD, run->plan.project, O_RDONLY | O_DIRECTORY, 0);
    return run->lock >= 0;
}

static bool lock(const struct run *run, int kind, int most)
{
    while (flock(run->lock, kind | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || (most -= BETWEEN) <= 0)
            return false;
        poll(NULL, 0, BETWEEN);
    }
    return true;
}

/* The processes that hold the lock, according to the kernel (proc(5), /proc/locks). */
static const char *holders(const struct run *run)
{
    struct stat status;
    const char *found = "";
    char *locks = read_file(AT_FDCWD, "/proc/locks", MOST, NULL), *line;
    while (locks != NULL && fstat(run->lock, &status) == 0 && (line = strsep(&locks, "\n")) != NULL) {
        char *rest, *words[6], *inode; /* `1: FLOCK ADVISORY WRITE PROCESS MAJOR:MINOR:INODE`, and more */
        for (size_t index = 0; index < 6; index++)
            words[index] = strtok_r(index == 0 ? line : NULL, " ", &rest);
        if (words[5] == NULL || strcmp(words[1], "FLOCK") != 0 || (inode = strrchr(words[5], ':')) == NULL ||
            strtoul(inode + 1, NULL, 10) != status.st_ino)
            continue;
        long holder = strtol(words[4], NULL, 10);
        char *name = first_line(xasprintf("/proc/%ld/comm", holder));
        found = xasprintf("%s%sprocess %ld (%s)", found, *found == '\0' ? "" : ", ", holder,
                     name == NULL ? "which cannot be seen" : name);
    }
    return *found == '\0' ? "a process that cannot be seen" : found;
}

void lock_project(struct run *run)
{
    if (run->plan.placeholder_directories.count + run->plan.placeholder_files.count == 0)
        return;
    if (!open_project(run))
        die_errno("cannot open %s", run->plan.project);
    if (lock(run, LOCK_SH, LOCKING))
        return;
    if (errno != EWOULDBLOCK)
        die_errno("cannot lock the project");
    die("the project is locked by %s: wait until it exits, or stop it", holders(run));
}

void make_placeholders(struct run *run)
{
    struct list own = own_list(&run->plan);
    size_t count = own.files.count / 2 + own.directories.count;
    struct place *places = xcalloc(count * sizeof *places);
    struct bytes begun = {0}, done = {0};
    for (size_t index = 0; index < count; index++) {
        places[index] = nth(&run->plan, &own, index);
        if (look(&places[index]) == ABSENT)
            add_made(&begun, 0, 0, places[index].path);
    }
    if (count == 0)
        return;
    write_list(run);
    record_made(run, &begun);
    for (size_t index = 0; index < count; index++)
        ensure(&places[index]);
    for (const struct made *each = made; each != NULL; each = each->next)
        add_made(&done, each->device, each->number, each->path);
    record_made(run, &done);
}

enum { REMOVED, STAYS, ORPHANED };

/* Removes no placeholder that may still be a mount point of a container whose launcher and monitor were
 * killed: rmdir(2) detaches mounts of other namespaces, and the container could then create the name. */
static int remove_here(struct run *run, bool wait)
{
    struct list own = own_list(&run->plan);
    if (!open_project(run) || !lock(run, LOCK_EX, wait ? ENDING : 0))
        return STAYS;
    if (rundir_orphaned(run))
        return ORPHANED;
    read_made(run);
    discard_all(&run->plan, &own);
    discard_lists(run);
    flock(run->lock, LOCK_UN);
    return REMOVED;
}

/* Closes all other descriptors, so that readers of the run's output do not wait for this process. */
static void keep_places(const struct run *run)
{
    size_t count = 1;
    for (const struct parent *each = parents; each != NULL; each = each->next)
        count++;
    int *kept = xcalloc(count * sizeof *kept), *next = kept;
    *next++ = run->lock;
    for (const struct parent *each = parents; each != NULL; each = each->next)
        *next++ = each->directory;
    close_others(kept, count);
    redirect_to_null(0, 2);
}

/* A process that waits for an unresponsive file system can't be killed, so a child does the work. */
bool remove_placeholders(struct run *run, bool wait)
{
    int handle;
    if (run->plan.placeholder_directories.count + run->plan.placeholder_files.count == 0)
        return true;
    if (run->goes_on)
        return false;
    pid_t child = fork_helper(&handle);
    if (child == 0) {
        ignore_signals();
        keep_places(run);
        _exit(remove_here(run, wait));
    }
    int status = child < 0 ? STAYS : wait_for(child, handle, REMOVING);
    if (status < 0)
        warn("the file system of %s does not answer: the next run, or \"sandwright cleanup\", removes this run's files there",
            run->plan.project);
    if (status == ORPHANED)
        warn("an earlier run in this project was killed, and its container may still be running, so its placeholders stay: "
             "\"sandwright cleanup\" removes the container, and the next run removes the placeholders");
    return status == REMOVED;
}
