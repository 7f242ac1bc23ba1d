/* Connections over the line (tunnels.h).
 *
 * The end that opens a connection chooses its number: twice its index, plus one for the guest. Each end sends
 * CARRIED_CLOSE once, and nothing about the connection afterwards; when both have sent it, the number can be
 * reused. In each direction, at most TUNNEL_AHEAD bytes may be on the way that the receiver has not taken, so
 * each end knows how much it may have to hold. Messages wait until the line has room; the other end can't
 * increase their number.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "launch.h"
#include "tunnels.h"

enum { OURS, THEIRS };
static const short BROKEN = POLLERR | POLLHUP;

void tunnels_listen(struct tunnels *tunnels, int listener, unsigned short port)
{
    if (listener < 0 || tunnels->listener_count == TUNNELS_PORTS)
        die_errno("cannot listen on port %d inside the sandbox", port);
    tunnels->listeners[tunnels->listener_count].file = listener;
    tunnels->listeners[tunnels->listener_count++].port = port;
}

static int32_t number_of(const struct tunnels *tunnels, int whose, size_t index)
{
    return (int32_t)(2 * index) + ((whose == OURS) == tunnels->inside);
}

/* NULL if the number is invalid. */
static struct tunnel *numbered(struct tunnels *tunnels, int32_t number, int *whose)
{
    if (number < 0 || number >= 2 * TUNNELS_EACH)
        return NULL;
    *whose = (number % 2 == 1) == tunnels->inside ? OURS : THEIRS;
    return &tunnels->all[*whose][number / 2];
}

/* On a failure, the peer of this end's socket gets a reset instead of an end of file. */
static void drop(struct tunnel *each, bool failed)
{
    struct linger now = {.l_onoff = 1};
    if (failed && each->end >= 0)
        setsockopt(each->end, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    if (each->end >= 0)
        close(each->end);
    free(each->pending.at);
    each->pending = (struct bytes){0};
    each->end = -1;
    each->owed = 0;
}

static void have(struct tunnel *each, int end)
{
    int one = 1;
    each->asked = end == TUNNEL_ASKED;
    each->connecting = end >= 0;
    each->end = end < 0 ? -1 : end;
    if (end >= 0)
        setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    else if (!each->asked)
        drop(each, true);
}

void tunnels_reached(struct tunnels *tunnels, int32_t number, int end)
{
    int whose;
    struct tunnel *each = numbered(tunnels, number, &whose);
    if (each != NULL && each->asked)
        have(each, end);
    else
        close(end);
}

static void arrive(struct tunnel *each)
{
    int fault = 0;
    socklen_t size = sizeof fault;
    each->connecting = false;
    if (getsockopt(each->end, SOL_SOCKET, SO_ERROR, &fault, &size) != 0 || fault != 0)
        drop(each, true);
}

static bool again(void)
{
    return errno == EAGAIN || errno == EINTR;
}

static void give(struct tunnel *each)
{
    size_t held = bytes_held(&each->pending);
    ssize_t sent = held == 0 ? 0 : send(each->end, each->pending.at + each->pending.begin, held, MSG_NOSIGNAL);
    if (sent < 0 && !again()) {
        drop(each, true);
        return;
    }
    each->pending.begin += sent > 0 ? (size_t)sent : 0;
    each->owed += sent > 0 ? (size_t)sent : 0;
    if (each->heard_end && !each->passed && bytes_held(&each->pending) == 0) {
        shutdown(each->end, SHUT_WR);
        each->passed = true;
    }
}

static bool may_read(const struct tunnel *each)
{
    return each->end >= 0 && !each->connecting && !each->said_end && !each->heard_close && each->ahead < TUNNEL_AHEAD;
}

static void take_some(struct tunnel *each, int32_t number, struct bytes *out)
{
    char part[sizeof number + TUNNELS_LINE], *content = part + sizeof number;
    size_t most = TUNNEL_AHEAD - each->ahead < TUNNELS_LINE ? TUNNEL_AHEAD - each->ahead : TUNNELS_LINE;
    ssize_t got = recv(each->end, content, most, 0);
    if (got < 0) {
        if (!again())
            drop(each, true);
        return;
    }
    each->said_end = got == 0;
    each->ahead += (size_t)got;
    memcpy(part, &number, sizeof number);
    line_say(out, CARRIED, part, sizeof number + (size_t)got);
}

bool tunnels_room(const struct bytes *out)
{
    return bytes_held(out) < TUNNELS_LINE;
}

static void say_numbers(struct bytes *out, enum frame frame, int32_t number, int32_t other)
{
    const int32_t both[2] = {number, other};
    line_say(out, frame, both, sizeof both);
}

static size_t free_place(const struct tunnels *tunnels)
{
    size_t index = 0;
    while (index < TUNNELS_EACH && tunnels->all[OURS][index].there)
        index++;
    return index;
}

void tunnels_begin(struct tunnels *tunnels, int end, unsigned short port, struct bytes *out)
{
    size_t index = free_place(tunnels);
    if (index == TUNNELS_EACH) {
        close(end);
        return;
    }
    tunnels->all[OURS][index] = (struct tunnel){.there = true};
    have(&tunnels->all[OURS][index], end);
    say_numbers(out, CARRY, number_of(tunnels, OURS, index), port);
}

static void turn_one(struct tunnels *tunnels, int whose, size_t index, short events, struct bytes *out)
{
    struct tunnel *each = &tunnels->all[whose][index];
    int32_t number = number_of(tunnels, whose, index);
    if (each->connecting && events != 0)
        arrive(each);
    if (each->end >= 0 && !each->connecting && (events & (POLLOUT | BROKEN)) != 0)
        give(each);
    if (may_read(each) && (events & (POLLIN | BROKEN)) != 0 && tunnels_room(out))
        take_some(each, number, out);
    bool over = each->said_end && each->passed, given = bytes_held(&each->pending) == 0 && each->heard_end == each->passed;
    if (each->end >= 0 && (over || (each->heard_close && given)))
        drop(each, !over);
    if (each->owed > 0 && tunnels_room(out)) {
        say_numbers(out, CARRIED_TAKEN, number, (int32_t)each->owed);
        each->owed = 0;
    }
    if (each->end < 0 && !each->asked && !each->said_close && tunnels_room(out)) {
        line_number(out, CARRIED_CLOSE, number);
        each->said_close = true;
    }
    each->there = !each->said_close || !each->heard_close;
}

static short wanted(const struct tunnel *each, bool room)
{
    bool gives = each->connecting || bytes_held(&each->pending) > 0 || (each->heard_end && !each->passed);
    return (short)((room && may_read(each) ? POLLIN : 0) | (gives ? POLLOUT : 0));
}

size_t tunnels_wait(const struct tunnels *tunnels, const struct bytes *out, struct pollfd *each)
{
    /* Further connections wait. */
    bool room = tunnels_room(out), more = room && free_place(tunnels) < TUNNELS_EACH;
    for (size_t index = 0; index < tunnels->listener_count; index++)
        *each++ = (struct pollfd){.fd = more ? tunnels->listeners[index].file : -1, .events = POLLIN};
    for (int whose = OURS; whose <= THEIRS; whose++)
        for (size_t index = 0; index < TUNNELS_EACH; index++) {
            const struct tunnel *one = &tunnels->all[whose][index];
            short events = one->there ? wanted(one, room) : 0;
            *each++ = (struct pollfd){.fd = events != 0 ? one->end : -1, .events = events};
        }
    return tunnels->listener_count + 2 * TUNNELS_EACH;
}

/* Starts with another connection each time, because all share the room of the line. */
void tunnels_turn(struct tunnels *tunnels, const struct pollfd *each, struct bytes *out)
{
    const struct pollfd *ends = each + tunnels->listener_count;
    tunnels->turn = (tunnels->turn + 1) % (2 * TUNNELS_EACH);
    for (size_t step = 0; step < 2 * TUNNELS_EACH; step++) {
        size_t place = (tunnels->turn + step) % (2 * TUNNELS_EACH), index = place % TUNNELS_EACH;
        int whose = place < TUNNELS_EACH ? OURS : THEIRS;
        if (tunnels->all[whose][index].there)
            turn_one(tunnels, whose, index, ends[place].revents, out);
    }
    for (size_t index = 0; index < tunnels->listener_count; index++) {
        bool takes = each[index].revents != 0 && tunnels_room(out) && free_place(tunnels) < TUNNELS_EACH;
        int end = takes ? accept4(tunnels->listeners[index].file, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
        if (end >= 0)
            tunnels_begin(tunnels, end, tunnels->listeners[index].port, out);
    }
}

bool tunnels_hold(const struct tunnels *tunnels)
{
    bool holds = false;
    for (size_t place = 0; place < 2 * TUNNELS_EACH; place++) {
        const struct tunnel *each = &tunnels->all[place % 2][place / 2];
        /* Inside, no process is left that could send, so an open socket has data or an end to read. */
        holds = holds || (each->there && each->end >= 0 && (bytes_held(&each->pending) > 0 || (tunnels->inside && !each->said_end)));
    }
    return holds;
}

static bool take_content(struct tunnel *each, const unsigned char *content, size_t length)
{
    if (each->heard_end)
        return false;
    each->heard_end = length == 0;
    if (each->end < 0 && !each->asked) /* the other end does not know yet that it is closed */
        return true;
    if (bytes_held(&each->pending) + each->owed + length > TUNNEL_AHEAD)
        return false;
    bytes_add(&each->pending, content, length);
    return true;
}

static bool take_begin(struct tunnels *tunnels, struct tunnel *each, int32_t number, int32_t port)
{
    if (each->there || port <= 0 || port > 0xffff)
        return false;
    *each = (struct tunnel){.there = true, .end = -1};
    have(each, tunnels->reach(number, (unsigned short)port));
    return true;
}

bool tunnels_take(struct tunnels *tunnels, enum frame frame, const unsigned char *content, size_t length)
{
    int whose = OURS;
    int32_t numbers[2] = {-1, -1};
    size_t head = frame == CARRY || frame == CARRIED_TAKEN ? sizeof numbers : sizeof *numbers;
    memcpy(numbers, content, length < head ? 0 : head);
    struct tunnel *each = numbered(tunnels, numbers[0], &whose);
    if (each == NULL || (frame != CARRIED && length != head))
        return false;
    if (frame == CARRY)
        return whose == THEIRS && take_begin(tunnels, each, numbers[0], numbers[1]);
    if (!each->there || each->heard_close)
        return false;
    if (frame == CARRIED)
        return take_content(each, content + head, length - head);
    if (frame == CARRIED_CLOSE) {
        each->heard_close = true;
        each->there = !each->said_close; /* the number can be reused at once */
        return true;
    }
    if (frame != CARRIED_TAKEN || numbers[1] <= 0 || (size_t)numbers[1] > each->ahead)
        return false;
    each->ahead -= (size_t)numbers[1];
    return true;
}
