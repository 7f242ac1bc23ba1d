/* Parses /proc/PID/mountinfo (proc_pid_mountinfo(5)), with any names that a sandbox has put there, and finds
 * the mount that is visible at a path. */
#define _GNU_SOURCE

#include "utils.h"
#include "watch.h"

/* Decodes in place: the kernel writes blanks and backslashes as three octal digits (fs/proc_namespace.c,
 * mangle). */
static void decode(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
            from[3] <= '7') {
            *to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

static bool number(const char *text, unsigned long *value)
{
    char *end;
    errno = 0;
    *value = strtoul(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

/* The next word, where words are separated by `end`; NULL: no more words. */
static char *next(char **rest, char end)
{
    char *word = *rest;
    while (*word == end)
        word++;
    char *at = word;
    while (*at != '\0' && *at != end)
        at++;
    *rest = at + (*at != '\0');
    *at = '\0';
    return at == word ? NULL : word;
}

/* id parent major:minor root point options [field ...] - type source options */
bool mount_parse(char *text, struct mount *mount)
{
    char *fields[6];
    for (int index = 0; index < 6; index++)
        if ((fields[index] = next(&text, ' ')) == NULL)
            return false;
    if (!number(fields[0], &mount->id) || !number(fields[1], &mount->parent) || fields[4][0] != '/')
        return false;
    mount->point = fields[4];
    decode(mount->point);
    mount->length = strlen(mount->point);
    mount->readonly = strncmp(fields[5], "ro", 2) == 0 && (fields[5][2] == ',' || fields[5][2] == '\0');
    char *field;
    while ((field = next(&text, ' ')) != NULL && strcmp(field, "-") != 0)
        ;
    mount->type = field == NULL ? NULL : next(&text, ' ');
    return mount->type != NULL;
}

static int by_parent(const void *one, const void *other)
{
    const struct mount *first = one, *second = other;
    if (first->parent != second->parent)
        return first->parent < second->parent ? -1 : 1;
    return first->id < second->id ? -1 : first->id > second->id;
}

/* The index of a mount's first child. */
static size_t children(const struct mounts *mounts, unsigned long parent)
{
    size_t low = 0, high = mounts->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (mounts->all[middle].parent < parent)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has(const struct mounts *mounts, unsigned long id)
{
    for (size_t index = 0; index < mounts->count; index++)
        if (mounts->all[index].id == id)
            return true;
    return false;
}

bool mounts_parse(char *text, struct mounts *mounts)
{
    size_t lines = 0;
    for (const char *each = text; *each != '\0'; each++)
        lines += *each == '\n';
    *mounts = (struct mounts){.text = text, .all = calloc(lines + 1, sizeof *mounts->all)};
    if (mounts->all == NULL)
        return false;
    for (char *each; (each = next(&text, '\n')) != NULL;)
        if (mounts->count > lines || !mount_parse(each, &mounts->all[mounts->count++]))
            return false;
    qsort(mounts->all, mounts->count, sizeof *mounts->all, by_parent);
    for (size_t index = 0; index < mounts->count; index++) {
        struct mount *each = &mounts->all[index];
        if (strcmp(each->point, "/") == 0 && (each->parent == each->id || !has(mounts, each->parent)))
            mounts->root = each;
    }
    return mounts->root != NULL;
}

void mounts_free(struct mounts *mounts)
{
    free(mounts->all);
    free(mounts->text);
    *mounts = (struct mounts){0};
}

bool mounts_read(int file, struct mounts *mounts)
{
    size_t size = 1 << 16, length = 0;
    char *text = malloc(size);
    *mounts = (struct mounts){0};
    while (text != NULL) {
        ssize_t got = pread(file, text + length, size - length - 1, (off_t)length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            break;
        if (got == 0) {
            text[length] = '\0';
            if (mounts_parse(text, mounts))
                return true;
            mounts_free(mounts);
            return false;
        }
        length += (size_t)got;
        if (length + 4096 > size) {
            char *more = realloc(text, size *= 2);
            if (more == NULL)
                break;
            text = more;
        }
    }
    free(text);
    return false;
}

/* Starts at the root, and moves to the first mount on the path that is mounted on the current one, because
 * each hides the one below it. */
const struct mount *mounts_at(const struct mounts *mounts, const char *path, size_t length)
{
    const struct mount *seen = mounts->root;
    for (size_t steps = 0; steps <= mounts->count; steps++) {
        const struct mount *found = NULL;
        for (size_t index = children(mounts, seen->id);
             index < mounts->count && mounts->all[index].parent == seen->id; index++) {
            const struct mount *each = &mounts->all[index];
            if (each != seen && is_below(path, length, each->point, each->length) &&
                is_below(each->point, each->length, seen->point, seen->length) &&
                (found == NULL || each->length < found->length))
                found = each;
        }
        if (found == NULL)
            return seen;
        seen = found;
    }
    return seen;
}
