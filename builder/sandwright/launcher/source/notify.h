/* What notify.c and calls.c share. */
#ifndef NOTIFY_H
#define NOTIFY_H

#include "broker.h"
#include "denied.h"

enum { INTERRUPT = 64 }; /* a signal that nobody hands on: a call of connect(2) is given up */

extern struct served {
    struct broker broker;
    struct program filters[2]; /* as they were rendered: of their errors the first one's counts */
    size_t filter_count;
    bool connects; /* for programs inside */
    bool recording;
} served;

bool calls_begin(void); /* starts the threads; false: there is none */
_Noreturn void *calls_look_after(void *unused);

#endif
