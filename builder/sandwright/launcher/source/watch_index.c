/* Checks whether a Git index, which a sandbox may have written, would lead Git on the host out of the work
 * tree (gitformat-index(5)). It is strict: data that Git itself would not write is refused, so that Git's
 * parser can't read the file differently. */
#define _GNU_SOURCE
#include <limits.h>
#include <poll.h>

#include "launch.h"
#include "watch.h"

enum { MOST = 1 << 28, HEADER = 12, TO_MODE = 24, TO_NAME = 40, EXTENDED = 0x4000, LENGTH = 0xfff, TYPE = 0170000, GITLINK = 0160000 };

struct index {
    const unsigned char *data;
    size_t end, hash; /* `end`: without the checksum of the whole file */
    uint32_t version, count;
    uint32_t *starts; /* offsets of entries; 0 for a path that is compressed against the previous one */
    char path[PATH_MAX];
    size_t length, kept, at; /* of the path; its first `kept` bytes come from the previous path */
    const char *tree;
    const struct strv *writable;
};

static const char BROKEN[] = "its format is not Git's";

static uint32_t number_at(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool has_parent(const char *path)
{
    for (const char *part = path; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (*part == '/' || (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')))
            return true;
    }
    return false;
}

/* Whether an entry is another repository in a writable directory, or a path outside the work tree. */
static bool leads_out(const struct index *index, uint32_t mode)
{
    const char *whole;
    if (index->path[0] == '/' || has_parent(index->path))
        return true;
    if ((mode & TYPE) != GITLINK)
        return false;
    whole = xasprintf("%s/%s", index->tree, index->path);
    for (size_t each = 0; each < index->writable->count; each++) {
        const char *above = index->writable->at[each];
        size_t length = strlen(above);
        if (is_below(whole, strlen(whole), above, length) && strlen(whole) != length &&
            !is_below(index->tree, strlen(index->tree), above, length))
            return true;
    }
    return false;
}

/* Version 4: how many bytes to remove from the previous path, encoded as an offset in pack files. */
static bool take_removed(struct index *index, size_t *removed)
{
    unsigned char byte;
    *removed = 0;
    for (int bytes = 0;; bytes++) {
        if (index->at >= index->end || bytes > 4)
            return false;
        byte = index->data[index->at++];
        *removed = (*removed << 7) | (byte & 0x7f);
        if ((byte & 0x80) == 0)
            return true;
        ++*removed;
    }
}

static bool take_path(struct index *index, size_t entry, unsigned flags)
{
    size_t removed, length;
    index->kept = 0;
    if (index->version == 4) {
        if (!take_removed(index, &removed) || removed > index->length)
            return false;
        index->kept = index->length - removed;
    }
    const unsigned char *text = index->data + index->at, *stop = memchr(text, '\0', index->end - index->at);
    if (stop == NULL || (length = (size_t)(stop - text)) + index->kept >= sizeof index->path)
        return false;
    memcpy(index->path + index->kept, text, length + 1);
    index->length = index->kept + length;
    index->at += length + 1;
    if (index->version < 4)
        index->at = entry + ((index->at - 1 - entry + 8) & ~(size_t)7);
    return index->at <= index->end &&
           (index->length < LENGTH ? (flags & LENGTH) == index->length : (flags & LENGTH) == LENGTH);
}

static const char *read_entry(struct index *index, uint32_t which)
{
    size_t entry = index->at, flags_at = entry + TO_NAME + index->hash;
    if (flags_at + 4 > index->end)
        return BROKEN;
    unsigned flags = (unsigned)index->data[flags_at] << 8 | index->data[flags_at + 1];
    uint32_t mode = number_at(index->data + entry + TO_MODE);
    index->at = flags_at + 2 + (index->version > 2 && (flags & EXTENDED) != 0 ? 2 : 0);
    if (!take_path(index, entry, flags))
        return BROKEN;
    index->starts[which] = index->kept == 0 ? (uint32_t)entry : 0;
    return leads_out(index, mode) ? xasprintf("it has the entry %s", index->path) : NULL;
}

/* Checks the table of blocks, at which Git's threads start to read. */
static bool right_blocks(const struct index *index, const unsigned char *data, size_t size)
{
    uint64_t read = 0;
    if (size < 4 || (size - 4) % 8 != 0 || number_at(data) != 1)
        return false;
    for (size_t at = 4; at < size; at += 8) {
        if (read >= index->count || number_at(data + at) != index->starts[read])
            return false;
        read += number_at(data + at + 4);
    }
    return read == index->count;
}

static const char *read_extensions(const struct index *index)
{
    size_t at = index->at;
    while (at < index->end) {
        const unsigned char *name = index->data + at, *data = name + 8;
        if (index->end - at < 8 || number_at(name + 4) > index->end - at - 8)
            return BROKEN;
        size_t size = number_at(name + 4);
        if (memcmp(name, "link", 4) == 0)
            return "it is a split index, and its shared index can be written inside (core.splitIndex)";
        if ((memcmp(name, "IEOT", 4) == 0 && !right_blocks(index, data, size)) ||
            (memcmp(name, "EOIE", 4) == 0 && (size < 4 || number_at(data) != index->at)))
            return BROKEN;
        at += 8 + size;
    }
    return NULL;
}

static const char *read_index(struct index *index)
{
    const char *fault = NULL;
    index->version = number_at(index->data + 4);
    index->count = number_at(index->data + 8);
    index->at = HEADER;
    if (memcmp(index->data, "DIRC", 4) != 0 || index->version < 2 || index->version > 4 || index->count > index->end / TO_NAME)
        return BROKEN;
    index->starts = xcalloc(index->count * sizeof *index->starts + 1);
    for (uint32_t each = 0; each < index->count && fault == NULL; each++)
        fault = read_entry(index, each);
    if (fault == NULL)
        fault = read_extensions(index);
    free(index->starts);
    return fault;
}

/* The length of object names can't change during a run, because the repository's configuration is
 * protected. */
static const char *index_fault(const char *path, const char *content, size_t length, const struct strv *writable)
{
    static struct index index;
    static size_t hash;
    const char *git = strrchr(path, '/'), *fault = BROKEN;
    for (size_t tried = hash == 0 ? 20 : hash; fault == BROKEN && tried <= (hash == 0 ? 32 : hash); tried += 12) {
        if (length < HEADER + tried)
            return BROKEN;
        index = (struct index){.data = (const unsigned char *)content, .end = length - tried, .hash = tried, .writable = writable};
        index.tree = xasprintf("%.*s", (int)(git - path - (long)strlen("/.git")), path);
        fault = read_index(&index);
        if (fault != BROKEN)
            hash = tried;
    }
    return fault;
}

/* While the watch has the lease, no process can open the file for writing under any name; it has to wait, and
 * the watch gets SIGIO (fcntl(2)). Returns whether a process has the file open for writing. File systems
 * without leases count as not open. */
static bool is_open_for_writing(int file)
{
    for (int tries = 20; tries > 0; tries--) {
        if (fcntl(file, F_SETLEASE, F_RDLCK) == 0 || errno != EAGAIN)
            return false;
        poll(NULL, 0, 10);
    }
    return true;
}

const char *index_hold(const char *path, const struct strv *writable)
{
    static int held = -1;
    size_t length;
    if (held >= 0)
        close(held);
    held = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (held < 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (is_open_for_writing(held))
        return "it is open for writing";
    char *content = read_file(AT_FDCWD, xasprintf("/proc/self/fd/%d", held), MOST, &length);
    const char *fault = content == NULL ? strerror(errno) : index_fault(path, content, length, writable);
    free(content);
    return fault;
}
