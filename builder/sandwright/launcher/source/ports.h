/* Declarations that ports.c and relay.c share. */
#ifndef PORTS_H
#define PORTS_H

#include <sys/uio.h>

#include "launch.h"

/* Connections to a listener are forwarded to a port of the loopback interface in the relay's own network
 * namespace. */
struct way {
    int listener; /* non-blocking */
    unsigned short port;
};

/* Until `until` is readable or its other end is closed. Only this process's descriptors limit how many there are. */
void carry(const struct way *ways, size_t count, int until);

void carry_pair(int one, int other); /* between two connections, to their end */

/* dns.c, in the sandbox's network: listens while there are rights for ports below 1024; then, without them, serves in a
 * separate process, which ends with the caller's. */
void dns_listen(const struct run *run);
void dns_start(const struct run *run, int says);

int loopback_socket(int family, unsigned short port, int (*use)(int, const void *, unsigned)); /* -1 and errno */
int ports_listen(int end, const void *address, unsigned length); /* for it: binds and listens */
size_t ports_listeners(const struct way **ways); /* monitor: those of network.expose */

/* Keeper: a process beside the sandbox does that work, with the listeners of network.expose, which this one closes, and with an end
 * of a socket, of which the other is given. */
int ports_beside(const struct run *run, void (*work)(const struct run *, int));

/* Words of any size and descriptors, in one message. */
enum { PASSED = 128 };
ssize_t pass_files(int socket, struct iovec words, const int *files, size_t number);
/* How many descriptors came; -1 at the end, and with words of another size. */
int take_files(int socket, struct iovec words, int files[PASSED]);

#endif
