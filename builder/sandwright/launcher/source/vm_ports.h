#ifndef VM_PORTS_H
#define VM_PORTS_H

#include "launch.h"

/* Messages between the relay and the process that connects for it. The relay asks with a tunnel's number; the
 * reply has the same number, and a connection if there is one. A message with the number -1, which the relay
 * did not ask for, brings a connection that was accepted on a port. */
struct vm_ports_message {
    int32_t number, port;
};

static inline bool vm_ports_wanted(const struct run *run)
{
    return has_kernel(run) && (run->plan.proxy || run->plan.expose.count + run->plan.localhost.count > 0);
}
void vm_ports_start(struct run *run); /* monitor, before the child */
int vm_ports_channel(void);           /* child: the relay's end; -1: none */

#endif
