#ifndef NOTIFY_H
#define NOTIFY_H

#include "broker.h"
#include "refusals.h"

/* The signal that interrupts connect(2) in a thread; it is not forwarded to the command. */
enum { INTERRUPT = 64 };

struct served {
    struct broker broker;
    /* As rendered; where several refuse a call, the error of the first one counts. */
    struct program filters[2];
    size_t filter_count;
    bool connects; /* the supervisor connects for programs inside */
    bool recording;
    bool creates;  /* the supervisor creates names in closed directories for programs inside */
};

bool notify_threads_start(struct served *served); /* false: no thread could be started */
_Noreturn void *notify_threads_watch(void *unused);

#endif
