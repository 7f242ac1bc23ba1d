#ifndef GUESTNET_H
#define GUESTNET_H

#include "tunnels.h"

extern struct tunnels guest_tunnels; /* `reach` is NULL until the command starts */
bool guest_network_setting(enum frame frame, char *word); /* whether the frame is such a setting */
/* Before the command, with all capabilities: starts the loopback interface, and listens on it. `line` is
 * closed in the processes that this starts. */
void guest_network(int line);

#endif
