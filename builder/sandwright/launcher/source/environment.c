/* The variables that the policy passes on, and the programs that are ours. */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch.h"

extern char **environ;

/* What a shell can't hold is not passed on. */
static bool is_name(const char *name, size_t length)
{
    for (size_t index = 0; index < length; index++)
        if (!isalnum((unsigned char)name[index]) && name[index] != '_')
            return false;
    return length > 0 && !isdigit((unsigned char)name[0]);
}

static bool is_among(const struct words *patterns, const char *name, size_t length)
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

/* Of a name that is there twice the last counts, as in a shell. */
static void pass(struct words *passed, char *variable, size_t length)
{
    for (size_t index = 0; index < passed->count; index++)
        if (strncmp(passed->at[index], variable, length + 1) == 0) {
            passed->at[index] = variable;
            return;
        }
    add(passed, variable);
}

void choose_environment(struct run *run)
{
    for (char **variable = environ; *variable != NULL; variable++) {
        size_t length = strcspn(*variable, "=");
        if ((*variable)[length] != '=' || !is_name(*variable, length) || is_among(&run->plan.never, *variable, length) ||
            !is_among(&run->plan.passed, *variable, length))
            continue;
        bool path = length == 4 && memcmp(*variable, "PATH", 4) == 0;
        pass(&run->passed, path ? text("PATH=%s", run->given_path) : *variable, length);
    }
}

const char *find_program(const struct run *run, const char *name)
{
    char *search = text("%s", run->path), *part;
    while ((part = strsep(&search, ":")) != NULL) {
        struct stat status;
        const char *path = text("%s/%s", part, name);
        if (stat(path, &status) == 0 && S_ISREG(status.st_mode) && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0)
            return path;
    }
    return NULL;
}
