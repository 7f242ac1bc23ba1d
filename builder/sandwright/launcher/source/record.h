/* The recorder (record.c; its memory is recorded.c): stores the accesses of programs inside in memory that
 * the launcher shares with the supervisor, and writes them to a file at the end. It allows and refuses
 * nothing. */
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
/* Launcher, the first call of main: whether accesses are recorded. */
void record_take(const struct run_document *document);
const char *record_file(void);              /* the file that is written; NULL: nothing is recorded */
bool record_uses(void);                     /* calls that only inspect a path are left out */
/* Child: this filter, with notifications for recorded calls added. `connects`: the supervisor makes the
 * connections itself, so connect(2) is a notification already. */
struct program record_ask(const struct program *filter, bool connects);
void record_begin(int listener, pid_t first); /* supervisor: `first` is a process inside */
/* Supervisor, any thread: whether the call is only recorded, and therefore goes on. */
bool record_call(const struct seccomp_notif *call, bool connects);
void record_connect(const void *address, size_t length, int type); /* type: SOCK_STREAM, … */
void recorded_share(void);                  /* launcher, before it forks the monitor */
void recorded_write(const char *file);      /* launcher, after all processes have ended */

#endif
