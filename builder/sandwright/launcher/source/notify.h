/* Declarations that notify.c and notify_threads.c share. */
#ifndef NOTIFY_H
#define NOTIFY_H

#include "broker.h"
#include "refusals.h"

enum { INTERRUPT = 64 }; /* a signal that is not passed on: a call of connect(2) is given up */

struct served {
    struct broker broker;
    struct program filters[2]; /* as they were rendered: of their errors the first one's counts */
    size_t filter_count;
    bool connects; /* for programs inside */
    bool recording;
    bool creates;  /* names in closed directories, for programs inside */
};

bool notify_threads_start(struct served *served); /* starts the threads; false: there is none */
_Noreturn void *notify_threads_watch(void *unused);

#endif
