#ifndef USER_H
#define USER_H

#include "launch.h"

/* Messages from the first process to the monitor, which sends it signals. */
enum { RUNS, HAS_STOPPED, IS_EXECUTED };

/* Creates the first process. When that ends, the root half ends too; when the monitor ends, which holds the
 * other end of `socket`, both end. */
_Noreturn void root_half(struct run *run, int socket, const struct strv *given);
/* Content: the steps, words that end with NUL. */
int make_user_root(const struct run *run, const char *content, size_t length);

#endif
