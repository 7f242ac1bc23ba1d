/* TCP connections over the line to the guest kernel, in both directions (line.h). Both ends run this code.
 * Input from the other end is untrusted: it reaches the allowed ports only, and its use of memory is
 * bounded. */
#ifndef TUNNELS_H
#define TUNNELS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "line.h"

/* Limits: connections that each end may open; bytes of one connection that the other end has not taken; bytes
 * of all connections that wait for the line; ports. */
enum { TUNNELS_EACH = 128, TUNNEL_AHEAD = 1 << 15, TUNNELS_LINE = 1 << 14, TUNNELS_PORTS = 130 };
/* Milliseconds, at the end. */
enum { TUNNELS_WAITS = TUNNELS_PORTS + 2 * TUNNELS_EACH, TUNNEL_ASKED = -2, TUNNELS_LAST = 5000 };

struct tunnel {
    bool there, asked, connecting;
    int end;                           /* this end's socket; -1: not connected yet, or closed */
    /* Of one direction each; `passed`: the end was passed on to this end's socket. */
    bool said_end, heard_end, passed;
    bool said_close, heard_close;      /* the number can be used again when both are true */
    /* Bytes that the other end has not taken yet; bytes that this end has taken but not reported. */
    size_t ahead, owed;
    struct bytes pending;              /* data for this end's socket */
};

struct tunnels {
    bool inside; /* this is the guest's end */
    /* Connects to a port at this end. Returns a socket, which may still be connecting, or -1 if the port is
     * not allowed or can't be reached, or TUNNEL_ASKED: the result comes later, through `tunnels_reached`. */
    int (*reach)(int32_t number, unsigned short port);
    struct tunnel all[2][TUNNELS_EACH]; /* opened by this end; opened by the other end */
    struct {
        int file;
        unsigned short port;
    } listeners[TUNNELS_PORTS];
    size_t listener_count, turn;
};

/* Carries connections to this non-blocking listener to `port` at the other end. */
void tunnels_listen(struct tunnels *tunnels, int listener, unsigned short port);
/* Carries a connection that is already accepted; the tunnels own its descriptor from then on. */
void tunnels_begin(struct tunnels *tunnels, int end, unsigned short port, struct bytes *out);
void tunnels_reached(struct tunnels *tunnels, int32_t number, int end); /* -1: no connection */
bool tunnels_room(const struct bytes *out); /* whether the line can take more data */
/* Fills in the descriptors to poll, at most TUNNELS_WAITS, and returns their number. `out`: the data that
 * waits for the line. */
size_t tunnels_wait(const struct tunnels *tunnels, const struct bytes *out, struct pollfd *each);
void tunnels_turn(struct tunnels *tunnels, const struct pollfd *each, struct bytes *out);
/* Whether data from one of this end's sockets, or for one, has not been delivered yet. */
bool tunnels_hold(const struct tunnels *tunnels);
/* Handles a frame of the other end; false: it violates the protocol. */
bool tunnels_take(struct tunnels *tunnels, enum frame frame, const unsigned char *content, size_t length);

#endif
