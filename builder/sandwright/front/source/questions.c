/* Decides whether an entry of the render cache is stale: asks the host the recorded questions again, and
 * compares the answers. questions.py has the same kinds; docs/front.md describes them. */
#define _GNU_SOURCE

#include <sys/syscall.h>

#include "launch.h"

enum { CREATE_RULESET = 444, QUERY_VERSION = 1 }; /* landlock_create_ruleset(2) */
enum { SMALL = 1 << 20, LARGE = 1 << 28 };
enum { DEPTH = 3, MAX_DIRECTORIES = 100000, MAX_ENTRIES = 5000000, MAX_FOUND = 10000 }; /* as in nested.py */

static const struct field fields[] = {
#define FIELD(kind, name) {#name, kind, offsetof(struct entry, name)},
#include "fields.h"
};
const struct document entry_form = {"sandwright-entry", "1", "entry of the render cache", fields, sizeof fields / sizeof *fields};

/* Whether this is a placeholder, which a launcher creates for the time of a run (questions.py,
 * is_placeholder). */
static bool is_placeholder(int above, const char *name, const struct stat *status)
{
    struct strv covered = {(char *[]){"alternates", "attributes", "commondir", "config", "config.worktree"}, 5};
    if ((status->st_mode & 0222) != 0)
        return false;
    if (S_ISDIR(status->st_mode)) {
        DIR *entries = (status->st_mode & S_ISVTX) != 0 ? open_directory(above, name) : NULL;
        return entries != NULL && next_entry(entries) == NULL;
    }
    if (!S_ISREG(status->st_mode) || status->st_size > 2 || !strv_contains(&covered, base_name(name)))
        return false;
    char *content = read_file(above, name, 2, NULL);
    return content != NULL && (strcmp(content, "") == 0 || strcmp(content, ".\n") == 0);
}

static char *entry_at(int above, const char *name)
{
    struct stat status;
    char *target;
    if (above < 0 || fstatat(above, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || is_placeholder(above, name, &status))
        return "";
    if (S_ISLNK(status.st_mode))
        return (target = read_link(above, name)) == NULL ? "" : xasprintf("l%s", target);
    return S_ISDIR(status.st_mode) ? "d" : S_ISREG(status.st_mode) ? "f" : S_ISSOCK(status.st_mode) ? "s"
           : S_ISFIFO(status.st_mode) ? "p" : "c";
}

static void ask_entries(const struct strv *subject, struct strv *found)
{
    _cleanup_close_ int directory = open(subject->at[0], O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t index = 1; index < subject->count; index++)
        strv_push(found, entry_at(directory, subject->at[index]));
}

static void ask_content(const struct strv *subject, struct strv *found)
{
    struct stat status;
    size_t length;
    _cleanup_close_ int file = open(subject->at[0], O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    bool regular = file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    char *content = regular && !is_placeholder(AT_FDCWD, subject->at[0], &status) ? read_fd(file, SMALL, &length) : NULL;
    if (content != NULL) {
        strv_push(found, xasprintf("%lld", (long long)(status.st_size > (off_t)length ? status.st_size : (off_t)length)));
        strv_push(found, sha256_hex(content, length));
    }
}

static void ask_machine(const struct strv *subject, struct strv *found)
{
    gid_t groups[1 << 16];
    int count = getgroups(sizeof groups / sizeof *groups, groups);
    strv_push(found, xasprintf("%lld", (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) >> 20 << 20));
    long landlock = syscall(CREATE_RULESET, NULL, 0, QUERY_VERSION);
    strv_push(found, xasprintf("%ld", landlock > 0 ? landlock : 0));
    strv_push(found, xasprintf("%u", getuid()));
    strv_push(found, xasprintf("%u", getgid()));
    for (int index = 0; subject->count == 1 && index < count; index++)
        strv_push(found, xasprintf("%u", groups[index]));
}

/* git/index.py: shared_indexes */
static bool is_split(const char *content, size_t length)
{
    enum { HEADER = 12, EXTENSION = 8, LEAST = 20 };
    const char *end = content + length, *at = length < HEADER ? end : content + HEADER;
    for (; (at = memmem(at, (size_t)(end - at), "link", 4)) != NULL; at++) {
        size_t rest = (size_t)(end - at), size = 0;
        for (size_t index = 4; rest >= EXTENSION && index < EXTENSION; index++)
            size = size << 8 | (unsigned char)at[index];
        if (rest >= EXTENSION && size >= LEAST && size <= rest - EXTENSION)
            return true;
    }
    return false;
}

static void ask_index(const struct strv *subject, struct strv *found)
{
    struct stat status;
    size_t length;
    bool regular = stat(subject->at[0], &status) == 0 && S_ISREG(status.st_mode);
    char *content = regular ? read_file(AT_FDCWD, subject->at[0], LARGE, &length) : NULL;
    if (content != NULL && length > 0) /* the mode of an entry that is another repository, 160000 */
        strv_push(found, memmem(content, length, "\0\0\xe0", 4) == NULL && !is_split(content, length)
                             ? "none"
                             : sha256_hex(content, length));
}

static bool is_directory(int above, const struct dirent *entry)
{
    struct stat status;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(above, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

/* Whether a directory that can't be opened may be left out. Programs inside own no directory of root's, so
 * these are never listed. For other owners, such as accounts of the method user, Python decides (nested.py,
 * check_listed). */
static bool is_closed(int above, const char *name)
{
    struct stat status;
    int fault = errno;
    bool roots = fault == EACCES && geteuid() != 0 && fstatat(above, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_uid == 0;
    return fault != ENOENT && fault != ENOTDIR && !roots;
}

static bool is_passable(DIR *entries)
{
    return faccessat(dirfd(entries), ".", X_OK, 0) == 0;
}

static void ask_listing(const struct strv *subject, struct strv *found)
{
    DIR *entries = open_directory(AT_FDCWD, subject->at[0]);
    if (entries == NULL ? is_closed(AT_FDCWD, subject->at[0]) : !is_passable(entries))
        strv_push(found, "");
    for (struct dirent *each; (each = next_entry(entries)) != NULL;)
        strv_push(found, xasprintf("%s%s", each->d_name, is_directory(dirfd(entries), each) ? "/" : ""));
}

/* A search for names, like that of nested.py. If it is incomplete, its answer matches no recorded one. */
struct search {
    const struct strv *subject;
    struct strv *found;
    long directories, entries; /* how many may still be listed */
    bool incomplete;
    bool begins[256]; /* the first bytes of the names */
};

static void match_names(struct search *search, int above, const char *directory, const char *entry)
{
    size_t length = strlen(entry);
    struct stat status;
    for (size_t index = 1; search->begins[(unsigned char)*entry] && index < search->subject->count; index++) {
        const char *name = search->subject->at[index];
        if (strncmp(name, entry, length) == 0 &&
            (name[length] == '\0' || (name[length] == '/' && fstatat(above, name, &status, AT_SYMLINK_NOFOLLOW) == 0)))
            strv_push(search->found, xasprintf("%s%s", directory, name));
    }
}

/* Whether the search enters a directory: not version control metadata, and no directory that the question
 * excludes. */
static bool is_entered(const struct search *search, const char *directory, const char *entry)
{
    const struct strv metadata = {(char *[]){".git", ".hg", ".jj", ".sl", ".svn", ".bzr"}, 6};
    const struct strv names = {search->subject->at + 1, search->subject->count - 1};
    _cleanup_free_ char *path = xasprintf("/%s%s", directory, entry);
    return !strv_contains(&metadata, entry) && !strv_contains(&names, path);
}

static void search_directory(struct search *search, int above, const char *name, const char *directory, int depth)
{
    DIR *entries = open_directory(above, name);
    if (entries == NULL)
        search->incomplete |= is_closed(above, name);
    else if (--search->directories < 0 || !is_passable(entries))
        search->incomplete = true;
    for (struct dirent *each; (each = next_entry(entries)) != NULL && !search->incomplete;) {
        if (--search->entries < 0 || search->found->count > MAX_FOUND)
            search->incomplete = true;
        match_names(search, dirfd(entries), directory, each->d_name);
        if (depth < DEPTH && is_directory(dirfd(entries), each) && is_entered(search, directory, each->d_name)) {
            _cleanup_free_ char *inner = xasprintf("%s%s/", directory, each->d_name);
            search_directory(search, dirfd(entries), each->d_name, inner, depth + 1);
        }
    }
}

static void ask_nested(const struct strv *subject, struct strv *found)
{
    struct search search = {subject, found, MAX_DIRECTORIES, MAX_ENTRIES, false, {false}};
    for (size_t index = 1; index < subject->count; index++)
        search.begins[(unsigned char)*subject->at[index]] = true;
    search_directory(&search, AT_FDCWD, subject->at[0], "", 0);
    if (search.incomplete)
        strv_push(found, "");
}

/* ---- as in mount_aliases.py */
struct mount {
    const char *device, *root, *point;
};

/* Blanks and backslashes are three octal digits (fs/proc_namespace.c, mangle). */
static char *decoded(char *field)
{
    char *to = field;
    for (const char *from = field; *from != '\0'; from++) {
        bool escaped = from[0] == '\\' && from[1] != '\0' && from[2] != '\0' && from[3] != '\0';
        *to++ = escaped ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0')) : *from;
        from += escaped ? 3 : 0;
    }
    *to = '\0';
    return field;
}

static size_t read_mounts(struct mount **mounts)
{
    char *line, *rest = read_file(AT_FDCWD, "/proc/self/mountinfo", LARGE, NULL);
    size_t count = 0;
    *mounts = NULL;
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *fields[5] = {0};
        for (size_t index = 0; index < 5; index++)
            fields[index] = strsep(&line, " ");
        if (fields[4] == NULL)
            continue;
        if ((*mounts = reallocarray(*mounts, count + 1, sizeof **mounts)) == NULL)
            die("out of memory");
        (*mounts)[count++] = (struct mount){fields[2], decoded(fields[3]), decoded(fields[4])};
    }
    return count;
}

static bool is_inside(const char *path, const char *directory)
{
    return is_below(path, strlen(path), directory, strlen(directory));
}

/* Replaces the directory `from` at the beginning of a path with `to`. */
static char *moved_path(const char *path, const char *from, const char *to)
{
    const char *rest = path + strlen(from);
    while (*rest == '/')
        rest++;
    size_t length = strcmp(to, "/") == 0 ? 0 : strlen(to);
    return *rest == '\0' ? xasprintf("%s", to) : xasprintf("%.*s/%s", (int)length, to, rest);
}

static const struct mount *mount_of(const char *path, const struct mount *mounts, size_t count)
{
    const struct mount *found = NULL;
    for (size_t index = 0; index < count; index++)
        if (is_inside(path, mounts[index].point))
            found = &mounts[index];
    return found;
}

static char *aliases(const char *path, const struct mount *mounts, size_t count)
{
    const struct mount *mount = mount_of(path, mounts, count);
    char *found = "", *place = mount == NULL ? NULL : moved_path(path, mount->point, mount->root);
    for (size_t index = 0; mount != NULL && index < count; index++) {
        const struct mount *other = &mounts[index];
        bool shows = is_inside(place, other->root);
        if (other == mount || strcmp(other->device, mount->device) != 0 || (!shows && !is_inside(other->root, place)))
            continue;
        const char *alias = shows ? moved_path(place, other->root, other->point) : other->point;
        const char *own_place = shows ? path : moved_path(other->root, mount->root, mount->point);
        if (strcmp(alias, own_place) != 0)
            found = xasprintf("%s%s%s", found, *found == '\0' ? "" : "/", alias); /* join_aliases */
    }
    return found;
}

static void ask_aliases(const struct strv *subject, struct strv *found)
{
    struct mount *mounts;
    size_t count = read_mounts(&mounts);
    for (size_t index = 0; index < subject->count; index++)
        strv_push(found, aliases(subject->at[index], mounts, count));
}

/* The first mark above the path is the nearest one. */
static bool is_shown(const char *path, const struct strv *marks)
{
    for (size_t index = 1; index < marks->count; index++)
        if (is_below(path, strlen(path), marks->at[index] + 1, strlen(marks->at[index] + 1)))
            return marks->at[index][0] == '+';
    return false;
}

/* The canonical paths of listening sockets and datagram sockets (proc(5), /proc/net/unix). */
static void ask_sockets(const struct strv *subject, struct strv *found)
{
    char flags[9], type[9], *line, *rest = read_file(AT_FDCWD, "/proc/net/unix", LARGE, NULL);
    while ((line = strsep(&rest, "\r\n")) != NULL) {
        int at = 0;
        if (sscanf(line, "%*s %*s %*s %8s %8s %*s %*s %n", flags, type, &at) != 2 || line[at] != '/' ||
            strncmp(line + at, "/proc/", 6) == 0 || (strncmp(flags, "0001", 4) != 0 && strcmp(type, "0002") != 0))
            continue;
        char *name = strrchr(line, '/'), *folder;
        *name++ = '\0';
        if ((folder = realpath(line[at] == '\0' ? "/" : line + at, NULL)) == NULL)
            continue;
        char *path = xasprintf("%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name);
        if (is_shown(path, subject) && !strv_contains(found, path))
            strv_push(found, path);
    }
}

/* For each path, the numbers of stat(2) that the letters select, which are those of stat(1). `L`: follows
 * links. */
static void ask_numbers(const struct strv *subject, const char *letters, struct strv *found)
{
    for (size_t index = 0; index < subject->count; index++) {
        struct stat status = {0};
        char *answer = "";
        bool there = fstatat(AT_FDCWD, subject->at[index], &status, *letters == 'L' ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
        const unsigned long long numbers[] = {
            ['h'] = S_ISREG(status.st_mode) ? status.st_nlink : 0, ['f'] = status.st_mode, ['u'] = status.st_uid, ['g'] = status.st_gid,
            ['d'] = status.st_dev, ['i'] = status.st_ino, ['s'] = (unsigned long long)status.st_size,
            ['y'] = (unsigned long long)nanoseconds(status.st_mtim), ['z'] = (unsigned long long)nanoseconds(status.st_ctim)};
        for (const char *each = letters + (*letters == 'L'); there && *each != '\0'; each++)
            answer = xasprintf("%s%s%llu", answer, *answer == '\0' ? "" : ",", numbers[(unsigned char)*each]);
        strv_push(found, answer);
    }
}

static void ask_tree(const struct strv *subject, struct strv *found)
{
    uint64_t sum = 0;
    for (size_t index = 0; index < subject->count; index++) {
        DIR *entries = open_directory(AT_FDCWD, subject->at[index]);
        sum += entries == NULL ? 1 : 0;
        for (struct dirent *each; (each = next_entry(entries)) != NULL;) {
            struct stat status;
            if (each->d_type == DT_DIR || fstatat(dirfd(entries), each->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
                continue;
            sum += status.st_ino * 0x9E3779B97F4A7C15U + (uint64_t)status.st_size * 0xC2B2AE3D27D4EB4FU +
                   (uint64_t)nanoseconds(status.st_mtim) * 0x165667B19E3779F9U +
                   (uint64_t)nanoseconds(status.st_ctim) * 0x27D4EB2F165667C5U;
        }
    }
    strv_push(found, xasprintf("%llu", (unsigned long long)sum));
}

static void ask_variable(const struct strv *subject, struct strv *found)
{
    for (size_t index = 0; index < subject->count; index++)
        strv_push(found, getenv(subject->at[index]) == NULL ? "" : xasprintf("=%s", getenv(subject->at[index])));
}

static const struct kind {
    const char *name; /* NULL: the last one */
    void (*ask)(const struct strv *subject, struct strv *found);
    bool ordered; /* false: the order of the answer's words does not matter, and none occurs twice */
    const char *letters; /* used instead of `ask`; leaves out numbers that may change without an effect */
} kinds[] = {
    {"aliases", ask_aliases, true, NULL}, {"content", ask_content, true, NULL}, {"entries", ask_entries, true, NULL}, {"index", ask_index, true, NULL},
    {"listing", ask_listing, false, NULL}, {"machine", ask_machine, true, NULL}, {"nested", ask_nested, false, NULL},
    {"sockets", ask_sockets, false, NULL}, {"tree", ask_tree, true, NULL}, {"variable", ask_variable, true, NULL},
    {"artifact", NULL, true, "fugdisy"}, {"stamp", NULL, true, "Lfugdisyz"}, {"status", NULL, true, "hfugd"},
    {NULL, NULL, false, NULL},
};

static bool same_words(const struct strv *one, const struct strv *other, bool ordered)
{
    bool same = one->count == other->count;
    for (size_t index = 0; same && index < one->count; index++)
        same = strcmp(one->at[index], other->at[index]) == 0 || (!ordered && strv_contains(other, one->at[index]));
    return same;
}

/* Reads a count and this many words at `at`, and moves it behind them. */
static bool take_words(const struct strv *from, size_t *at, struct strv *words)
{
    char *end;
    unsigned long count = *at < from->count ? strtoul(from->at[(*at)++], &end, 10) : 1;
    if (count > from->count - *at || *end != '\0')
        return false;
    *words = (struct strv){from->at + *at, count};
    *at += count;
    return true;
}

bool questions_hold(const struct strv *questions)
{
    for (size_t at = 0; at < questions->count;) {
        struct strv subject, answer, found = {0};
        const struct kind *kind = kinds;
        const char *name = questions->at[at++];
        while (kind->name != NULL && strcmp(kind->name, name) != 0)
            kind++;
        if (kind->name == NULL || !take_words(questions, &at, &subject) || subject.count == 0 || !take_words(questions, &at, &answer))
            return false;
        if (kind->letters != NULL)
            ask_numbers(&subject, kind->letters, &found);
        else
            kind->ask(&subject, &found);
        if (!same_words(&found, &answer, kind->ordered))
            return false;
    }
    return questions->count > 0;
}
