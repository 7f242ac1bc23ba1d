/* The end of the launcher: writes denials and the recording, and executes the post-run step that the run
 * document names. */
#include "refusals.h"
#include "launch.h"
#include "record.h"

static struct strv after;
static const char *denials, *journal;
static pid_t launcher;
static int journal_file = -1;

void post_run_take(const struct run_document *document)
{
    launcher = getpid();
    after = document->post_run;
    denials = document->denials;
    journal = document->journal;
    record_take(document);
}

/* Opens the journal early: its path can be in /proc of the caller, to which the launcher has no access once
 * it has entered a user namespace (workspace.c). */
void post_run_open(void)
{
    if (journal != NULL && (journal_file = open(journal, O_WRONLY | O_APPEND | O_CLOEXEC)) < 0)
        die_errno("cannot report denials immediately");
}

int post_run_journal(void)
{
    return journal_file;
}

void finish(int status)
{
    static bool ending; /* functions called here may refuse the run, which calls this again */
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
        warn("cannot start %s: %s", after.at[0], strerror(errno));
    }
    exit(status);
}
