/* Parses and changes account files as text: passwd(5) and group(5). Nothing here touches the system.
 *
 * The text comes from an image, so it may contain anything. A line that can't be parsed is not changed.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t NO_ID = UINT32_MAX; /* means "none" in chown(2) and setresuid(2) */

/* Bytes without a NUL at the end. If `at` is NULL, there is no text, for example because the file does not
 * exist. */
struct text {
    char *at;
    size_t size;
};

static bool same(struct text text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.at, word, text.size) == 0;
}

/* Cuts off the text before the next `end`; false if nothing is left. */
static bool cut(struct text *rest, char end, struct text *piece)
{
    if (!rest->at)
        return false;
    char *found = rest->size ? memchr(rest->at, end, rest->size) : NULL;
    *piece = (struct text){rest->at, found ? (size_t)(found - rest->at) : rest->size};
    *rest = found ? (struct text){found + 1, rest->size - piece->size - 1} : (struct text){NULL, 0};
    return true;
}

static bool number(struct text digits, uint32_t *value)
{
    uint64_t sum = 0;
    for (size_t index = 0; index < digits.size; index++) {
        if (digits.at[index] < '0' || digits.at[index] > '9' || sum >= NO_ID)
            return false;
        sum = sum * 10 + (uint64_t)(digits.at[index] - '0');
    }
    *value = (uint32_t)sum;
    return digits.size > 0 && sum < NO_ID;
}

static void append_line(struct text *text, struct text line)
{
    memcpy(text->at + text->size, line.at, line.size);
    text->size += line.size;
    text->at[text->size++] = '\n';
}

/* Entries of passwd(5) and group(5). The first line with a name or ID counts, as in every C library. */

struct entry {
    struct text name, tail, home; /* tail: the fields after the IDs */
    uint32_t uid, gid;
};

/* Parses a line of either file; false for comments, NIS lines (`+`, `-`), and malformed lines. */
static bool entry_of(struct text line, bool user, struct entry *entry)
{
    struct text field[6], rest = line;
    int count = 0, before_tail = user ? 4 : 3;
    *entry = (struct entry){{0}, {0}, {0}, 0, 0};
    while (count < 6 && cut(&rest, ':', &field[count]))
        if (++count == before_tail)
            entry->tail = rest;
    if (!entry->tail.at || (user && (count < 6 || !rest.at)) || !field[0].size || strchr("#+-", field[0].at[0]))
        return false;
    entry->name = field[0];
    if (!user)
        return number(field[2], &entry->gid);
    entry->home = field[5];
    return number(field[2], &entry->uid) && number(field[3], &entry->gid);
}

static bool find_name(struct text file, bool user, const char *name, struct entry *found)
{
    for (struct text line; cut(&file, '\n', &line);)
        if (entry_of(line, user, found) && same(found->name, name))
            return true;
    return false;
}

static bool find_number(struct text file, bool user, uint32_t number, struct entry *found)
{
    for (struct text line; cut(&file, '\n', &line);)
        if (entry_of(line, user, found) && (user ? found->uid : found->gid) == number)
            return true;
    return false;
}

/* The file with the line of this account or group first, with new IDs, and no other line with that name. The
 * ID then belongs to this name, whichever account had it before. A new group has no members. The caller frees
 * the text; if memory runs out, `at` is NULL. */
static struct text renumbered(struct text file, bool user, const char *name, uint32_t uid, uint32_t gid)
{
    struct entry before;
    struct text tail = find_name(file, user, name, &before) ? before.tail : (struct text){"", 0};
    size_t length = strlen(name);
    struct text made = {malloc(length + 2 * sizeof "4294967295:" + tail.size + file.size + 8), 0};
    if (!made.at)
        return made;
    int head = user ? sprintf(made.at, "%s:x:%u:%u:", name, uid, gid) : sprintf(made.at, "%s:x:%u:", name, gid);
    made.size = (size_t)head;
    append_line(&made, tail);
    for (struct text line; cut(&file, '\n', &line);) {
        bool its = line.size > length && line.at[length] == ':' && memcmp(line.at, name, length) == 0;
        bool none = line.size == 0 && !file.at; /* after the newline of the last line */
        if (!its && !none)
            append_line(&made, line);
    }
    return made;
}
