/* What `sandwright run` leaves to do when all has ended: SANDWRIGHT_AFTER, words on lines of their own. Nothing inside can set
 * it: it is read before anything is started. */
#include "refusals.h"
#include "launch.h"
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE "SANDWRIGHT_AFTER"
#define DENIALS "SANDWRIGHT_DENIALS" /* where what was refused is written */
#define NOW "SANDWRIGHT_DENIALS_NOW" /* a file to which it is written when it happens */

static struct strv after;
static const char *denials, *journal;
static pid_t launcher;

void post_run_take(void)
{
    const char *given = getenv(VARIABLE);

    launcher = getpid();
    if (given != NULL && given[0] == '/')
        for (char *rest = xasprintf("%s", given), *word; (word = strsep(&rest, "\n")) != NULL;)
            strv_push(&after, word);
    const char *file = getenv(DENIALS);
    denials = file != NULL && file[0] == '/' ? xasprintf("%s", file) : NULL;
    const char *now = getenv(NOW);
    journal = now != NULL && now[0] == '/' ? xasprintf("%s", now) : NULL;
    unsetenv(DENIALS);
    unsetenv(NOW);
    record_take();
    unsetenv(VARIABLE);
}

int post_run_journal(void)
{
    int file = journal == NULL ? -1 : open(journal, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (journal != NULL && file < 0)
        die_errno("what is refused can't be told at once");
    return file;
}

void finish(int status)
{
    static bool ending; /* what is done here may refuse */
    if (ending || getpid() != launcher)
        exit(status);
    ending = true;
    if (denials != NULL)
        refusals_write(denials);
    if (record_file() != NULL)
        recorded_write(record_file());
    if (after.count > 0) {
        strv_push(&after, xasprintf("%d", status));
        execv(after.at[0], after.at);
        warn("%s can't be started: %s", after.at[0], strerror(errno));
    }
    exit(status);
}
