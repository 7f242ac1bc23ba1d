/* Chooses the command's environment: the variables of the host that the policy passes on, with their
 * values. */
#define _GNU_SOURCE
#include <ctype.h>

#include "launch.h"

extern char **environ;

bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

/* A variable with a name that shells can't use is not passed on. */
static bool is_name(const char *name, size_t length)
{
    for (size_t index = 0; index < length; index++)
        if (!isalnum((unsigned char)name[index]) && name[index] != '_')
            return false;
    return length > 0 && !isdigit((unsigned char)name[0]);
}

static bool is_among(const struct strv *patterns, const char *name, size_t length)
{
    for (size_t index = 0; index < patterns->count; index++) {
        const char *pattern = patterns->at[index];
        size_t size = strlen(pattern);
        bool beginning = size > 0 && pattern[size - 1] == '*';
        if (beginning ? length >= size - 1 && memcmp(name, pattern, size - 1) == 0
                      : length == size && memcmp(name, pattern, size) == 0)
            return true;
    }
    return false;
}

/* If a name occurs twice, the last value counts, as in a shell. */
static void pass(struct strv *passed, char *variable, size_t length)
{
    for (size_t index = 0; index < passed->count; index++)
        if (strncmp(passed->at[index], variable, length + 1) == 0) {
            passed->at[index] = variable;
            return;
        }
    strv_push(passed, variable);
}

void choose_environment(struct run *run)
{
    for (char **variable = environ; *variable != NULL; variable++) {
        size_t length = strcspn(*variable, "=");
        if ((*variable)[length] != '=' || !is_name(*variable, length) || is_among(&run->plan.never, *variable, length) ||
            !is_among(&run->plan.passed, *variable, length))
            continue;
        bool path = length == 4 && memcmp(*variable, "PATH", 4) == 0;
        pass(&run->passed, path ? xasprintf("PATH=%s", run->given_path) : *variable, length);
    }
    for (size_t index = 0; index < run->document.variables.count; index++) {
        char *variable = run->document.variables.at[index];
        pass(&run->passed, variable, strcspn(variable, "="));
    }
}

/* Engines and runtimes read JSON, in which any other byte would be replaced. */
static bool is_utf8(const char *word)
{
    const unsigned char *at = (const unsigned char *)word;
    while (*at != 0) {
        unsigned char first = *at++, low = 0x80, high = 0xbf;
        if (first < 0x80)
            continue;
        if (first < 0xc2 || first > 0xf4)
            return false;
        low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : low;
        high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : high;
        for (int more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3; more > 0; more--, low = 0x80, high = 0xbf)
            if (*at < low || *at++ > high)
                return false;
    }
    return true;
}

void check_text(const struct run *run, const char *taker)
{
    for (size_t index = 0; index < run->passed.count; index++)
        if (!is_utf8(run->passed.at[index]))
            die("the variable %.*s is not valid UTF-8, which %s requires",
                   (int)strcspn(run->passed.at[index], "="), run->passed.at[index], taker);
    for (char **word = run->command; *word != NULL; word++)
        if (!is_utf8(*word))
            die("an argument of the command is not valid UTF-8, which %s requires", taker);
}
