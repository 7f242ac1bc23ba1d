/* The numbers of an account (user.c): getpwnam(3) without its stdio, and without nscd. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user.h"

enum { MOST_ACCOUNTS = 1 << 26 }; /* bytes of the list of accounts */

/* Digits; 0 for all else. */
static unsigned id(const char *word)
{
    size_t length = word == NULL ? 0 : strspn(word, "0123456789");
    unsigned long found = length == 0 || word[length] != '\0' ? 0 : strtoul(word, NULL, 10);
    return found < UINT32_MAX ? (unsigned)found : 0; /* the last number means "as it is" to setresuid(2) */
}

bool account_find(const char *name, struct account *account)
{
    char *list = read_file(AT_FDCWD, "/etc/passwd", MOST_ACCOUNTS, NULL), *line;
    while (list != NULL && (line = strsep(&list, "\n")) != NULL)
        if (strcmp(strsep(&line, ":"), name) == 0) {
            strsep(&line, ":");
            account->user = id(strsep(&line, ":"));
            account->group = id(strsep(&line, ":"));
            return true;
        }
    return false;
}
