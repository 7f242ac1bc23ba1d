/* What `sandwright run` leaves to do when all has ended: SANDWRIGHT_AFTER, words on lines of their own. Nothing inside can set
 * it: it is read before anything is started. */
#include "denied.h"
#include "launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE "SANDWRIGHT_AFTER"
#define DENIALS "SANDWRIGHT_DENIALS" /* where what was refused is written */

static struct words after;
static const char *denials;
static pid_t launcher;

void take_after(void)
{
    const char *given = getenv(VARIABLE);

    launcher = getpid();
    if (given != NULL && given[0] == '/')
        for (char *rest = text("%s", given), *word; (word = strsep(&rest, "\n")) != NULL;)
            add(&after, word);
    const char *file = getenv(DENIALS);
    denials = file != NULL && file[0] == '/' ? text("%s", file) : NULL;
    unsetenv(DENIALS);
    unsetenv(VARIABLE);
}

void finish(int status)
{
    if (denials != NULL && getpid() == launcher)
        denied_write(denials);
    if (after.count > 0 && getpid() == launcher) {
        add(&after, text("%d", status));
        execv(after.at[0], after.at);
        say("%s can't be started: %s", after.at[0], strerror(errno));
    }
    exit(status);
}
