/* What vm_ports.c and vm.c share. */
#ifndef VM_PORTS_H
#define VM_PORTS_H

#include "launch.h"

/* The relay asks, with the number of a tunnel, and is answered with the same and a connection, or without one where there is
 * none. Or, without having asked, with -1 and a connection that has come to a port. */
struct vm_ports_message {
    int32_t number, port;
};

static inline bool vm_ports_wanted(const struct run *run)
{
    return has_kernel(run) && (run->plan.proxy || run->plan.expose.count + run->plan.localhost.count > 0);
}
void vm_ports_start(struct run *run); /* monitor, before the child */
int vm_ports_channel(void);           /* child: the relay's end; -1 without */

#endif
