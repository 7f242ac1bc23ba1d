/* TCP connections that are carried over the line to the guest kernel, in both directions (line.h). Both ends run this. Input
 * from the other end is hostile: it gets no port but the allowed ones, and no memory beyond its share. */
#ifndef TUNNELS_H
#define TUNNELS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "line.h"

/* Connections that each end may begin; bytes of one that were not taken yet, and of all that wait for the line; ports. */
enum { TUNNELS_EACH = 128, TUNNEL_AHEAD = 1 << 15, TUNNELS_LINE = 1 << 14, TUNNELS_PORTS = 130 };
enum { TUNNELS_WAITS = TUNNELS_PORTS + 2 * TUNNELS_EACH, TUNNEL_ASKED = -2, TUNNELS_LAST = 5000 /* milliseconds, at the end */ };

struct tunnel {
    bool there, asked, connecting;
    int end;                           /* our socket; -1: none yet, or none any more */
    bool said_end, heard_end, passed;  /* of a direction; passed: to our socket */
    bool said_close, heard_close;      /* the number is free once both are */
    size_t ahead, owed;                /* bytes that the other end hasn't taken; that we took and haven't said so */
    struct bytes pending;              /* for our socket */
};

struct tunnels {
    bool inside; /* this is the kernel's end */
    /* What leads to a port at this end: a socket, which may still be connecting; -1: nothing; TUNNEL_ASKED: `tunnels_reached`
     * will be told, for a port that this end doesn't give away -1. */
    int (*reach)(int32_t number, unsigned short port);
    struct tunnel all[2][TUNNELS_EACH]; /* that we began, that the other end did */
    struct {
        int file;
        unsigned short port;
    } listeners[TUNNELS_PORTS];
    size_t listener_count, turn;
};

/* What connects to this non-blocking listener is carried to that port of the other end. */
void tunnels_listen(struct tunnels *tunnels, int listener, unsigned short port);
/* A connection that is there, which becomes the tunnels'. */
void tunnels_begin(struct tunnels *tunnels, int end, unsigned short port, struct bytes *out);
void tunnels_reached(struct tunnels *tunnels, int32_t number, int end); /* -1: no server */
bool tunnels_room(const struct bytes *out); /* for more on the line */
/* What to wait for: TUNNELS_WAITS places, of which the count is given. `out`: what waits for the line. */
size_t tunnels_wait(const struct tunnels *tunnels, const struct bytes *out, struct pollfd *each);
void tunnels_turn(struct tunnels *tunnels, const struct pollfd *each, struct bytes *out);
/* Whether something that was said on one of our sockets, or is for one, is still here. */
bool tunnels_hold(const struct tunnels *tunnels);
/* A frame of theirs; false: it breaks the protocol. */
bool tunnels_take(struct tunnels *tunnels, enum frame frame, const unsigned char *content, size_t length);

#endif
