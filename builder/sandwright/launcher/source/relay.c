/* Copies connections from listeners to ports of the loopback interface, without reading them: from socket to
 * pipe to socket, in the kernel (splice(2)). Each direction reads more only after all previous data is
 * written. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "launch.h"
#include "ports.h"

enum { MOST = 1024, EACH = 6, SPARE = 64, CHUNK = 1 << 18, ROUNDS = 16 };

struct flow {
    int from, to, pipe[2];
    size_t held;
    bool over; /* the sender has ended, and all its data is written */
};

struct connection {
    struct flow flows[2]; /* from the client, and back to it */
    int family;           /* the address family of the attempt to connect to the port; 0: connected */
    unsigned short port;
};

static struct connection *all;
static struct pollfd *waiting;
static size_t count, most;

int loopback_socket(int family, unsigned short port, int (*use)(int, const void *, unsigned))
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int one = 1, end = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (end < 0)
        return -1;
    setsockopt(end, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (family == AF_INET6)
        setsockopt(end, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if ((family == AF_INET ? use(end, &four, sizeof four) : use(end, &six, sizeof six)) == 0 || errno == EINPROGRESS)
        return end;
    int fault = errno;
    close(end);
    errno = fault;
    return -1;
}

static int connected(int end, const void *address, unsigned length)
{
    int one = 1;
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return connect(end, address, length);
}

/* On a failure, the client gets a reset instead of an end of file. */
static void drop(struct connection *each, bool failed)
{
    struct linger now = {.l_onoff = 1};
    for (int way = 0; way < 2; way++) {
        if (failed && each->flows[way].from >= 0)
            setsockopt(each->flows[way].from, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(each->flows[way].from);
        close(each->flows[way].pipe[0]);
        close(each->flows[way].pipe[1]);
    }
    *each = all[--count];
}

/* A server inside may listen on IPv4 or IPv6 only. */
static bool reach(struct connection *each, int family)
{
    int end = loopback_socket(family, each->port, connected);
    if (end < 0 && family == AF_INET)
        end = loopback_socket(family = AF_INET6, each->port, connected);
    if (each->flows[1].from >= 0)
        close(each->flows[1].from);
    each->flows[0].to = each->flows[1].from = end;
    each->family = family;
    return end >= 0;
}

static void begin(int end, unsigned short port)
{
    struct connection *each = &all[count++];
    int one = 1;
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *each = (struct connection){.flows = {{end, -1, {-1, -1}, 0, false}, {-1, end, {-1, -1}, 0, false}}, .port = port};
    if (pipe2(each->flows[0].pipe, O_CLOEXEC | O_NONBLOCK) != 0 || pipe2(each->flows[1].pipe, O_CLOEXEC | O_NONBLOCK) != 0 ||
        !reach(each, AF_INET)) {
        drop(each, true);
        return;
    }
    for (int way = 0; way < 2; way++) /* a user's pipe memory is limited (pipe-user-pages-soft) */
        fcntl(each->flows[way].pipe[1], F_SETPIPE_SZ, CHUNK);
}

/* Whether the flow goes on. */
static bool move(struct flow *flow)
{
    for (int round = 0; !flow->over && round < ROUNDS; round++) {
        ssize_t moved = 1;
        if (flow->held == 0) {
            moved = splice(flow->from, NULL, flow->pipe[1], NULL, CHUNK, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
            flow->held = moved > 0 ? (size_t)moved : 0;
            flow->over = moved == 0;
            if (flow->over)
                shutdown(flow->to, SHUT_WR);
        } else if ((moved = splice(flow->pipe[0], NULL, flow->to, NULL, flow->held, SPLICE_F_NONBLOCK | SPLICE_F_MOVE)) > 0)
            flow->held -= (size_t)moved;
        if (moved < 0)
            return errno == EAGAIN || errno == EINTR;
    }
    return true;
}

static bool arrived(struct connection *each)
{
    int fault = 0, family = each->family;
    socklen_t size = sizeof fault;
    if (getsockopt(each->flows[0].to, SOL_SOCKET, SO_ERROR, &fault, &size) != 0 || fault != 0)
        return family == AF_INET && reach(each, AF_INET6);
    each->family = 0;
    return true;
}

/* The events to poll for at each end; none for an idle end, not even a hangup. */
static void await(struct connection *each, struct pollfd *ends)
{
    for (int way = 0; way < 2; way++) {
        const struct flow *here = &each->flows[way], *other = &each->flows[1 - way];
        short events = (short)((!here->over && here->held == 0 ? POLLIN : 0) | (other->held > 0 ? POLLOUT : 0));
        if (each->family != 0)
            events = way == 1 ? POLLOUT : 0;
        ends[way] = (struct pollfd){.fd = events != 0 ? here->from : -1, .events = events};
    }
}

static bool turn(struct connection *each, const struct pollfd *ends)
{
    if (each->family != 0)
        return ends[1].revents == 0 || arrived(each);
    if ((ends[0].revents | ends[1].revents) == 0)
        return true;
    if (((ends[0].revents | ends[1].revents) & POLLERR) != 0)
        return false;
    return move(&each->flows[0]) && move(&each->flows[1]);
}

static void room(size_t ways)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max < MOST * EACH + SPARE ? files.rlim_max : MOST * EACH + SPARE;
        setrlimit(RLIMIT_NOFILE, &files);
        most = files.rlim_cur < SPARE + ways + EACH ? 1 : (files.rlim_cur - SPARE - ways) / EACH;
    }
    most = most == 0 || most > MOST ? MOST : most;
    all = xcalloc(most * sizeof *all);
    waiting = xcalloc((1 + ways + 2 * most) * sizeof *waiting);
}

void carry(const struct way *ways, size_t listening, int until)
{
    room(listening);
    for (;;) {
        waiting[0] = (struct pollfd){.fd = until, .events = POLLIN};
        for (size_t index = 0; index < listening; index++) /* further connections wait */
            waiting[1 + index] = (struct pollfd){.fd = count < most ? ways[index].listener : -1, .events = POLLIN};
        struct pollfd *ends = waiting + 1 + listening;
        for (size_t index = 0; index < count; index++)
            await(&all[index], ends + 2 * index);
        if (poll(waiting, 1 + listening + 2 * count, -1) < 0)
            continue;
        if (waiting[0].revents != 0)
            return;
        /* Backwards, because the last one takes the place of one that is dropped, and was handled already. */
        for (size_t index = count; index-- > 0;) {
            struct connection *each = &all[index];
            bool on = turn(each, ends + 2 * index), over = each->flows[0].over && each->flows[1].over;
            if (!on || over)
                drop(each, !on);
        }
        for (size_t index = 0; index < listening; index++) {
            int end = waiting[1 + index].revents == 0 || count == most
                          ? -1 : accept4(ways[index].listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (end >= 0)
                begin(end, ways[index].port);
        }
    }
}

void carry_pair(int one, int other)
{
    struct pollfd ends[2];
    room(0);
    struct connection *each = &all[count++];
    *each = (struct connection){.flows = {{one, other, {-1, -1}, 0, false}, {other, one, {-1, -1}, 0, false}}};
    bool on = fcntl(one, F_SETFL, O_NONBLOCK) == 0 && fcntl(other, F_SETFL, O_NONBLOCK) == 0 &&
              pipe2(each->flows[0].pipe, O_CLOEXEC | O_NONBLOCK) == 0 && pipe2(each->flows[1].pipe, O_CLOEXEC | O_NONBLOCK) == 0;
    while (on && !(each->flows[0].over && each->flows[1].over)) {
        await(each, ends);
        if (poll(ends, 2, -1) > 0)
            on = turn(each, ends);
    }
    drop(each, !on);
}
