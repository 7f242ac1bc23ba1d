/* Counts denials (refusals.c). */
#ifndef REFUSALS_H
#define REFUSALS_H

#include <linux/seccomp.h>
#include <stdbool.h>

#include "filter.h"

/* The counts are in memory that the launcher shares with the supervisor. */
void refusals_share(void); /* launcher, before it forks the monitor */
int refusals_memory(void);                                                 /* the descriptor of that memory */
bool refusals_take(int memory); /* uses the memory of another process, whose content is not trusted */
void refusals_add_call(const struct seccomp_data *call, int error, int which); /* supervisor, any thread */
/* For an abstract address, `path` has no leading NUL. */
void refusals_add_socket(const char *path, int error);
void refusals_add_address(const char *address, int error); /* an IP address with its port */
void refusals_write(const char *file); /* launcher, after all processes have ended */
void refusals_report(int file); /* launcher: writes new kinds of denials, one per line */

#endif
