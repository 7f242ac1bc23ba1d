/* What user.c, user_first.c and user_root.c share. */
#ifndef USER_H
#define USER_H

#include "launch.h"

enum { RUNS, HAS_STOPPED, IS_EXECUTED }; /* what the first process says to the monitor, which sends it signals */

/* Makes the first process, and ends with it, or it with the monitor, which holds the other end of this socket. */
_Noreturn void root_half(struct run *run, int socket, const struct strv *given);
int make_user_root(const struct run *run, const char *content, size_t length); /* the steps: each word ends with NUL */

#endif
