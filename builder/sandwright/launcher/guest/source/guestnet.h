/* What guestnet.c and guest.c share. */
#ifndef GUESTNET_H
#define GUESTNET_H

#include "tunnels.h"

extern struct tunnels guest_tunnels; /* without `reach` until the command begins */
bool guest_network_setting(enum frame frame, char *word); /* whether it is one */
/* Before the command, with all rights: the loopback, and what listens there. `line` is none of its processes'. */
void guest_network(int line);

#endif
