/* What notify.c, broker.c and finish.c share with the recorder (record.c; recorded.c is its memory): the
 * accesses of programs inside are stored in memory that the launcher shares with the supervisor, and
 * written at the end. The recorder decides nothing. */
#ifndef RECORD_H
#define RECORD_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "refusals.h"

/* ---- record.c */
struct run_document;
void record_take(const struct run_document *document); /* launcher, the first call of main: whether it is wanted */
const char *record_file(void);              /* where it is written; NULL: nothing is recorded */
bool record_uses(void);                     /* calls that only inspect a path aren't recorded */
/* Child: that program, which asks for recorded calls, too. `connects`: the supervisor makes connections itself. */
struct program record_ask(const struct program *filter, bool connects);
void record_begin(int listener, pid_t first); /* supervisor: `first` is a process inside */
/* Supervisor, by any of its threads: whether it is a call that is recorded alone, and so goes on. */
bool record_call(const struct seccomp_notif *call, bool connects);
void record_connect(const void *address, size_t length, int type); /* type: SOCK_STREAM ... */
void recorded_share(void);                  /* launcher, before the monitor is forked */
void recorded_write(const char *file);      /* launcher, when all has ended */

#endif
