/* What vmports.c and vm.c share. */
#ifndef VMPORTS_H
#define VMPORTS_H

#include <stdbool.h>
#include <stdint.h>

/* The relay asks, with the number of a tunnel, and is answered with the same and a connection, or without one where there is
 * none. Or, without having asked, with -1 and a connection that has come to a port. */
struct vmports_said {
    int32_t number, port;
};

struct run;
bool vmports_wanted(const struct run *run);
void vmports_start(struct run *run); /* keeper, before the child */
int vmports_channel(void);           /* child: the relay's end; -1 without */

#endif
