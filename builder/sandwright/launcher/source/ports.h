#ifndef PORTS_H
#define PORTS_H

#include <sys/uio.h>

#include "launch.h"

/* A listener whose connections are forwarded to a port of the loopback interface in the relay's network
 * namespace. */
struct way {
    int listener; /* non-blocking */
    unsigned short port;
};

/* Forwards connections until `until` is readable or its other end is closed. The only limit on their number
 * is this process's limit of descriptors. */
void carry(const struct way *ways, size_t count, int until);

void carry_pair(int one, int other); /* copies between two connections until both have ended */

/* dns.c, in the sandbox's network namespace. dns_listen opens the socket while the process may use ports
 * below 1024. dns_start then drops that right and serves in a separate process, which ends with the
 * caller. */
void dns_listen(const struct run *run);
void dns_start(const struct run *run, int says);

/* -1 and errno. */
int loopback_socket(int family, unsigned short port, int (*use)(int, const void *, unsigned));
/* A function for loopback_socket: binds and listens. */
int ports_listen(int end, const void *address, unsigned length);
size_t ports_listeners(const struct way **ways); /* monitor: the listeners of network.expose */

/* Monitor: forks a process beside the sandbox that calls `work` with one end of a socket; returns the other
 * end. That process keeps the listeners of network.expose, and the monitor closes its own copies. */
int ports_beside(const struct run *run, void (*work)(const struct run *, int));

/* Sends words of any size and descriptors in one message. */
enum { PASSED = 128 };
ssize_t pass_files(int socket, struct iovec words, const int *files, size_t number);
/* Returns the number of descriptors received; -1 at the end of the stream, or if the words have another
 * size. */
int take_files(int socket, struct iovec words, int files[PASSED]);

#endif
