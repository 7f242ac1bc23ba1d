/* What vmports.c and vm.c share. */
#ifndef VMPORTS_H
#define VMPORTS_H

#include <stdint.h>

#include "launch.h"

/* The relay asks, with the number of a tunnel, and is answered with the same and a connection, or without one where there is
 * none. Or, without having asked, with -1 and a connection that has come to a port. */
struct vmports_said {
    int32_t number, port;
};

static inline bool vmports_wanted(const struct run *run)
{
    return has_kernel(run) && (run->plan.proxy || run->plan.expose.count + run->plan.localhost.count > 0);
}
void vmports_start(struct run *run); /* keeper, before the child */
int vmports_channel(void);           /* child: the relay's end; -1 without */

#endif
