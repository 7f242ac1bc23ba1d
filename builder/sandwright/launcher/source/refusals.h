/* Counts denials (refusals.c). */
#ifndef REFUSALS_H
#define REFUSALS_H

#include <linux/seccomp.h>
#include <stdbool.h>

#include "filter.h"

/* The counts, in memory that the launcher shares with the supervisor. */
void refusals_share(void);                                                 /* launcher, before the monitor is forked */
int refusals_memory(void);                                                 /* its descriptor */
bool refusals_take(int memory);                                            /* that of another process, not trusted */
void refusals_add_call(const struct seccomp_data *call, int error, int which); /* supervisor, by any of its threads */
void refusals_add_socket(const char *path, int error);                         /* without a path's first byte: abstract */
void refusals_add_address(const char *address, int error);                     /* of IP, with its port */
void refusals_write(const char *file);                                     /* launcher, when all has ended */
void refusals_report(int file);                                              /* launcher: new ones, a line each */

#endif
