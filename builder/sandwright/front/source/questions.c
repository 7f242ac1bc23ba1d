/* Asks the host what a recording asks, and compares the answers. questions.py has the same kinds; docs/front.md describes them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "launch.h"

enum { SMALL = 1 << 20, LARGE = 1 << 28 };
enum { DEPTH = 3, MOST_ENTRIES = 10000, MOST_DIRECTORIES = 1000 }; /* nested.py */

static const struct field fields[] = {
#define FIELD(kind, name) {#name, kind, offsetof(struct entry, name)},
#include "fields.h"
};
static const struct document form = {"sandwright-entry", "1", "entry of the render cache", fields, sizeof fields / sizeof *fields};

bool entry_parse(char *content, size_t length, struct entry *entry)
{
    *entry = (struct entry){0};
    return document_parse(content, length, &form, entry) == NULL;
}

/* What a launcher puts there for the time of a run (questions.py, is_cover). */
static bool is_placeholder(int above, const char *name, const struct stat *status)
{
    struct strv covered = {(char *[]){"alternates", "attributes", "commondir", "config", "config.worktree"}, 5};
    const char *slash = strrchr(name, '/');
    if ((status->st_mode & 0222) != 0)
        return false;
    if (S_ISDIR(status->st_mode)) {
        DIR *entries = (status->st_mode & S_ISVTX) != 0 ? open_directory(above, name) : NULL;
        return entries != NULL && next_entry(entries) == NULL;
    }
    if (!S_ISREG(status->st_mode) || status->st_size > 2 || !strv_contains(&covered, slash == NULL ? name : slash + 1))
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
    int directory = open(subject->at[0], O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t index = 1; index < subject->count; index++)
        strv_push(found, entry_at(directory, subject->at[index]));
    close(directory);
}

static void ask_content(const struct strv *subject, struct strv *found)
{
    static char content[SMALL];
    struct stat status;
    size_t end = 0;
    ssize_t got = 1;
    int file = open(subject->at[0], O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && !is_placeholder(AT_FDCWD, subject->at[0], &status)) {
        while (end < SMALL && (got = read(file, content + end, SMALL - end)) > 0)
            end += (size_t)got;
        if (got >= 0) {
            strv_push(found, xasprintf("%lld", (long long)(status.st_size > (off_t)end ? status.st_size : (off_t)end)));
            strv_push(found, sha256_hex(content, end));
        }
    }
    close(file);
}

static void ask_groups(const struct strv *subject, struct strv *found)
{
    gid_t groups[1 << 16];
    int count = getgroups(sizeof groups / sizeof *groups, groups);
    strv_push(found, xasprintf("%u", getuid()));
    strv_push(found, xasprintf("%u", getgid()));
    for (int index = 0; subject->count == 1 && index < count; index++)
        strv_push(found, xasprintf("%u", groups[index]));
}

static void ask_index(const struct strv *subject, struct strv *found)
{
    struct stat status;
    size_t length;
    bool regular = stat(subject->at[0], &status) == 0 && S_ISREG(status.st_mode);
    char *content = regular ? read_file(AT_FDCWD, subject->at[0], LARGE, &length) : NULL;
    if (content != NULL && length > 0) /* the mode of an entry that is another repository: 160000 */
        strv_push(found, memmem(content, length, "\0\0\xe0", 4) == NULL ? "none" : sha256_hex(content, length));
}

static void ask_listing(const struct strv *subject, struct strv *found)
{
    DIR *entries = open_directory(AT_FDCWD, subject->at[0]);
    for (struct dirent *each; (each = next_entry(entries)) != NULL;)
        strv_push(found, xasprintf("%s%s", each->d_name, each->d_type == DT_DIR ? "/" : ""));
}

static void ask_memory(const struct strv *subject, struct strv *found)
{
    struct sysinfo machine;
    if (subject->count == 1 && sysinfo(&machine) == 0)
        strv_push(found, xasprintf("%llu", (unsigned long long)machine.totalram * machine.mem_unit >> 20 << 20));
}

/* `left`: directories and entries; beyond them there is no answer. */
static void find_nested(const char *directory, int depth, const struct strv *subject, struct strv *found, int left[2])
{
    static const char closed[] = "/.git/.hg/.jj/.sl/.svn/.bzr/";
    struct stat status;
    DIR *entries = open_directory(AT_FDCWD, xasprintf("%s/%s", subject->at[0], directory));
    left[0]--;
    for (struct dirent *each; (each = next_entry(entries)) != NULL && left[0] >= 0 && left[1]-- > 0;) {
        size_t length = strlen(each->d_name);
        for (size_t index = 1; index < subject->count; index++) {
            const char *name = subject->at[index];
            char *path = strncmp(name, each->d_name, length) == 0 ? xasprintf("%s%s", directory, name) : NULL;
            if (path != NULL && (name[length] == '\0' || (name[length] == '/' && lstat(xasprintf("%s/%s", subject->at[0], path), &status) == 0)))
                strv_push(found, path);
        }
        if (depth < DEPTH && each->d_type == DT_DIR && strstr(closed, xasprintf("/%s/", each->d_name)) == NULL)
            find_nested(xasprintf("%s%s/", directory, each->d_name), depth + 1, subject, found, left);
    }
}

static void ask_nested(const struct strv *subject, struct strv *found)
{
    int left[] = {MOST_DIRECTORIES, MOST_ENTRIES};
    find_nested("", 0, subject, found, left);
    if (left[0] < 0 || left[1] <= 0)
        strv_push(found, "");
}

static bool is_shown(const char *path, const struct strv *marks)
{
    char *above = xasprintf("%s", path), *slash;
    do
        for (size_t index = 1; index < marks->count; index++)
            if (strcmp(marks->at[index] + 1, above) == 0)
                return marks->at[index][0] == '+';
    while (strcmp(above, "/") != 0 && (slash = strrchr(above, '/')) != NULL && (*(slash == above ? slash + 1 : slash) = '\0') == 0);
    return false;
}

/* Sockets that listen, and those of datagrams, by their canonical paths (proc(5), /proc/net/unix) */
static void ask_sockets(const struct strv *subject, struct strv *found)
{
    char flags[9], type[9], *line, *rest = read_file(AT_FDCWD, "/proc/net/unix", LARGE, NULL);
    while ((line = strsep(&rest, "\r\n")) != NULL) {
        int at = 0;
        if (sscanf(line, "%*s %*s %*s %8s %8s %*s %*s %n", flags, type, &at) != 2 || line[at] != '/' ||
            strncmp(line + at, "/proc/", 6) == 0 || (strncmp(flags, "0001", 4) != 0 && strcmp(type, "0002") != 0))
            continue;
        char *slash = strrchr(line, '/');
        *slash = '\0';
        char *folder = realpath(line[at] == '\0' ? "/" : line + at, NULL);
        char *path = folder == NULL ? "" : xasprintf("%s/%s", strcmp(folder, "/") == 0 ? "" : folder, slash + 1);
        if (folder != NULL && is_shown(path, subject) && !strv_contains(found, path))
            strv_push(found, path);
    }
}

/* What is at a path, from a number of stat(2) to another: what may change without a difference is left out. */
static void add_status(const char *path, int flags, size_t from, size_t to, struct strv *found)
{
    struct stat status;
    if (fstatat(AT_FDCWD, path, &status, flags) != 0)
        return;
    const unsigned long long numbers[] = {
        S_ISREG(status.st_mode) ? status.st_nlink : 0, status.st_mode, status.st_uid, status.st_gid, status.st_dev, status.st_ino,
        (unsigned long long)status.st_size, (unsigned long long)nanoseconds(status.st_mtim), (unsigned long long)nanoseconds(status.st_ctim)};
    for (size_t index = from; index < to; index++)
        strv_push(found, xasprintf("%llu", numbers[index]));
}

static void ask_artifact(const struct strv *subject, struct strv *found)
{
    add_status(subject->at[0], AT_SYMLINK_NOFOLLOW, 1, 8, found);
}

static void ask_stamp(const struct strv *subject, struct strv *found)
{
    add_status(subject->at[0], 0, 1, 9, found);
}

static void ask_status(const struct strv *subject, struct strv *found)
{
    for (size_t index = 0; index < subject->count; index++) {
        struct strv each = {0};
        add_status(subject->at[index], AT_SYMLINK_NOFOLLOW, 0, 5, &each);
        char **at = each.at;
        strv_push(found, each.count == 0 ? "" : xasprintf("%s,%s,%s,%s,%s", at[0], at[1], at[2], at[3], at[4]));
    }
}

static void ask_tree(const struct strv *subject, struct strv *found)
{
    uint64_t count = 0, sum = 0;
    for (size_t index = 0; index < subject->count; index++) {
        DIR *entries = open_directory(AT_FDCWD, subject->at[index]);
        count += entries == NULL ? 1ULL << 32 : 0;
        for (struct dirent *each; (each = next_entry(entries)) != NULL;) {
            struct stat status;
            if (each->d_type == DT_DIR || fstatat(dirfd(entries), each->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
                continue;
            count++;
            sum += status.st_ino * 0x9E3779B97F4A7C15U + (uint64_t)status.st_size * 0xC2B2AE3D27D4EB4FU +
                   (uint64_t)nanoseconds(status.st_mtim) * 0x165667B19E3779F9U +
                   (uint64_t)nanoseconds(status.st_ctim) * 0x27D4EB2F165667C5U;
        }
    }
    strv_push(found, xasprintf("%llu", (unsigned long long)count));
    strv_push(found, xasprintf("%llu", (unsigned long long)sum));
}

static void ask_variable(const struct strv *subject, struct strv *found)
{
    for (size_t index = 0; index < subject->count; index++)
        strv_push(found, getenv(subject->at[index]) == NULL ? "" : xasprintf("=%s", getenv(subject->at[index])));
}

static const struct {
    const char *name;
    void (*ask)(const struct strv *subject, struct strv *found);
    bool ordered; /* else no answer has a word twice */
} KINDS[] = {
    {"artifact", ask_artifact, true}, {"content", ask_content, true}, {"entries", ask_entries, true}, {"groups", ask_groups, true},
    {"index", ask_index, true}, {"listing", ask_listing, false}, {"memory", ask_memory, true}, {"nested", ask_nested, false},
    {"sockets", ask_sockets, false}, {"stamp", ask_stamp, true}, {"status", ask_status, true}, {"tree", ask_tree, true},
    {"variable", ask_variable, true},
};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

static bool same_words(const struct strv *one, const struct strv *other, bool ordered)
{
    bool same = one->count == other->count;
    for (size_t index = 0; same && index < one->count; index++)
        same = strcmp(one->at[index], other->at[index]) == 0 || (!ordered && strv_contains(other, one->at[index]));
    return same;
}

/* A count and as many words, from `at` on, which is moved behind them. */
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
    for (size_t at = 0, kind; at < questions->count;) {
        struct strv subject, answer, found = {0};
        const char *name = questions->at[at++];
        for (kind = 0; kind < KIND_COUNT && strcmp(KINDS[kind].name, name) != 0;)
            kind++;
        if (kind == KIND_COUNT || !take_words(questions, &at, &subject) || subject.count == 0 || !take_words(questions, &at, &answer))
            return false;
        KINDS[kind].ask(&subject, &found);
        if (!same_words(&found, &answer, KINDS[kind].ordered))
            return false;
    }
    return questions->count > 0;
}
