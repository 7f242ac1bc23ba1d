/* Parses a launch plan or run document (document.h), strictly: an unknown field, a field that occurs twice,
 * or another version is an error. */

#include "document.h"

enum { DIGITS = 15 };

/* Decimal, with one spelling for each number; -1 for anything else. */
static long number(const char *word)
{
    size_t length = strspn(word, "0123456789");
    if (length == 0 || length > DIGITS || word[length] != '\0' || (word[0] == '0' && length > 1))
        return -1;
    return strtol(word, NULL, 10);
}

/* Fills in a field from `count` words at `at`. */
static const char *fill(void *into, const struct field *field, long count, char **at, const char *end)
{
    char *place = (char *)into + field->at;
    bool many = field->kind == WORDS || field->kind == PAIRS;
    if (count < 0 || count > end - *at || (field->kind == PAIRS && count % 2 != 0) ||
        (!many && count != (field->kind == FLAG ? 0 : 1)))
        return "wrong number of values";
    struct strv words = {xcalloc(((size_t)count + 1) * sizeof(char *)), (size_t)count};
    for (long index = 0; index < count; index++)
        if ((words.at[index] = next_word(at, end)) == NULL)
            return "it is truncated";
    if (many)
        *(struct strv *)(void *)place = words;
    else if (field->kind == WORD)
        *(const char **)(void *)place = words.at[0];
    else if (field->kind == FLAG)
        *(bool *)place = true;
    else if ((*(long *)(void *)place = number(words.at[0])) < 0)
        return "not a number, or out of range";
    return NULL;
}

const char *document_parse(char *content, size_t length, const struct document *document, void *into)
{
    char *at = content, *end = content + length, *name = next_word(&at, end), *version = name ? next_word(&at, end) : NULL;
    bool *seen = xcalloc(document->count * sizeof *seen);
    for (size_t index = 0; index < document->count; index++)
        if (document->fields[index].kind == NUMBER)
            *(long *)(void *)((char *)into + document->fields[index].at) = -1;
    if (version == NULL || strcmp(name, document->name) != 0)
        return xasprintf("it is not a %s", document->what);
    if (strcmp(version, document->version) != 0)
        return xasprintf("it has version %s, and this program reads version %s", version, document->version);
    while ((name = next_word(&at, end)) != NULL && strcmp(name, "end") != 0) {
        size_t index = 0;
        while (index < document->count && strcmp(document->fields[index].name, name) != 0)
            index++;
        if (index == document->count)
            return xasprintf("%s: unknown field", name);
        if (seen[index])
            return xasprintf("%s: given twice", name);
        seen[index] = true;
        const char *count = next_word(&at, end);
        const char *fault = count == NULL ? "it is truncated" : fill(into, &document->fields[index], number(count), &at, end);
        if (fault != NULL)
            return xasprintf("%s: %s", name, fault);
    }
    if (name == NULL)
        return "end: missing";
    return at != end ? "end: followed by more data" : NULL;
}
