/* Reads the plan. Words that each end with NUL: a name and a version, the fields, `end`; docs/launcher.md. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

enum kind { WORD, WORDS, PAIRS, NUMBER, FLAG };

static const struct field {
    const char *name;
    enum kind kind;
    size_t at;
} FIELDS[] = {
#define FIELD(name, kind) {#name, kind, offsetof(struct plan, name)},
#define WORD(name) FIELD(name, WORD)
#define WORDS(name) FIELD(name, WORDS)
#define PAIRS(name) FIELD(name, PAIRS)
#define NUMBER(name) FIELD(name, NUMBER)
#define FLAG(name) FIELD(name, FLAG)
#include "fields.h"
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof *FIELDS, DIGITS = 15 };

static char *next(char **at, const char *end)
{
    char *word = *at, *stop = memchr(word, '\0', (size_t)(end - word));
    if (stop == NULL)
        return NULL;
    *at = stop + 1;
    return word;
}

/* Decimal, one spelling for each number; -1 for all else. */
static long number(const char *word)
{
    size_t length = strspn(word, "0123456789");
    if (length == 0 || length > DIGITS || word[length] != '\0' || (word[0] == '0' && length > 1))
        return -1;
    return strtol(word, NULL, 10);
}

/* Fills a field with `count` words, which are at `at`. */
static const char *fill(struct plan *plan, const struct field *field, long count, char **at, const char *end)
{
    char *place = (char *)plan + field->at;
    bool many = field->kind == WORDS || field->kind == PAIRS;
    if (count < 0 || count > end - *at || (field->kind == PAIRS && count % 2 != 0) ||
        (!many && count != (field->kind == FLAG ? 0 : 1)))
        return "it has another count of values";
    struct words words = {take(((size_t)count + 1) * sizeof(char *)), (size_t)count};
    for (long index = 0; index < count; index++)
        if ((words.at[index] = next(at, end)) == NULL)
            return "it ends in the middle";
    if (many)
        *(struct words *)(void *)place = words;
    else if (field->kind == WORD)
        *(const char **)(void *)place = words.at[0];
    else if (field->kind == FLAG)
        *(bool *)place = true;
    else if ((*(long *)(void *)place = number(words.at[0])) < 0)
        return "it is no number, or out of range";
    return NULL;
}

const char *plan_parse(char *content, size_t length, struct plan *plan)
{
    char *at = content, *end = content + length, *name = next(&at, end), *version = name ? next(&at, end) : NULL;
    bool seen[FIELD_COUNT] = {false};
    *plan = (struct plan){0};
    for (size_t index = 0; index < FIELD_COUNT; index++)
        if (FIELDS[index].kind == NUMBER)
            *(long *)(void *)((char *)plan + FIELDS[index].at) = -1;
    if (version == NULL || strcmp(name, "sandwright-launch") != 0)
        return "it is no plan of a launcher";
    if (strcmp(version, "1") != 0)
        return text("it has version %s, and this program reads version 1", version);
    while ((name = next(&at, end)) != NULL && strcmp(name, "end") != 0) {
        size_t index = 0;
        while (index < FIELD_COUNT && strcmp(FIELDS[index].name, name) != 0)
            index++;
        if (index == FIELD_COUNT)
            return text("%s: there is no such field", name);
        if (seen[index])
            return text("%s: it is there twice", name);
        seen[index] = true;
        const char *count = next(&at, end);
        const char *fault = count == NULL ? "it ends in the middle" : fill(plan, &FIELDS[index], number(count), &at, end);
        if (fault != NULL)
            return text("%s: %s", name, fault);
    }
    if (name == NULL)
        return "end: it is missing";
    if (at != end)
        return "end: something is behind it";
    return plan->method == NULL ? "method: it is missing" : NULL;
}
