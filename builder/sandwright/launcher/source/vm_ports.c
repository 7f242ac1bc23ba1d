/* Connections out of the guest, and into it (network.mode: proxy, localhost, expose): a process beside the
 * sandbox, in the host's network, which the guest can't inspect. It connects to the proxy and to the ports
 * that the policy lists, and accepts connections to exposed ports. The relay (vm.c) gets the connections; the
 * sandbox has no network. */
#define _GNU_SOURCE
#include <sys/socket.h>

#include "broker.h"
#include "launch.h"
#include "ports.h"
#include "tunnels.h"
#include "vm_ports.h"

enum { PATIENCE = 5000 }; /* milliseconds */

static const char *greeting;
static int proxy_port, channel = -1; /* the relay's end */

int vm_ports_channel(void)
{
    return channel;
}

static int connected(int end, const void *address, unsigned length)
{
    struct pollfd each = {.fd = end, .events = POLLOUT};
    int fault = 0;
    socklen_t size = sizeof fault;
    if (connect(end, address, length) == 0)
        return 0;
    if (errno != EINPROGRESS || poll(&each, 1, PATIENCE) != 1 || getsockopt(end, SOL_SOCKET, SO_ERROR, &fault, &size) != 0)
        fault = ETIMEDOUT;
    errno = fault;
    return fault == 0 ? 0 : -1;
}

/* A server may listen on IPv4 or IPv6 only. -1: no server, or a port outside the policy. */
static int reach(const struct run *run, int32_t port)
{
    if (greeting != NULL && port == PROXY_PORT) {
        int end = loopback_socket(AF_INET, (unsigned short)proxy_port, connected);
        if (end >= 0 && send(end, greeting, strlen(greeting), MSG_NOSIGNAL) == (ssize_t)strlen(greeting))
            return end;
        close(end);
        return -1;
    }
    if (!strv_has_number(&run->plan.localhost, (unsigned)port))
        return -1;
    int end = loopback_socket(AF_INET, (unsigned short)port, connected);
    return end >= 0 ? end : loopback_socket(AF_INET6, (unsigned short)port, connected);
}

static void say_connection(int relay, struct vm_ports_message said, int end)
{
    pass_files(relay, (struct iovec){&said, sizeof said}, &end, end >= 0);
    close(end);
}

/* False: the sandbox has gone. */
static bool answer(const struct run *run, int relay)
{
    struct vm_ports_message asked;
    ssize_t got = recv(relay, &asked, sizeof asked, MSG_DONTWAIT);
    if (got != sizeof asked)
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    say_connection(relay, asked, reach(run, asked.port));
    return true;
}

static void serve(const struct run *run, int relay)
{
    const struct way *ways;
    size_t count = ports_listeners(&ways);
    struct pollfd each[1 + 2 * TUNNELS_PORTS];
    for (;;) {
        each[0] = (struct pollfd){.fd = relay, .events = POLLIN};
        for (size_t index = 0; index < count; index++)
            each[1 + index] = (struct pollfd){.fd = ways[index].listener, .events = POLLIN};
        if (poll(each, 1 + count, -1) < 0)
            continue;
        if (each[0].revents != 0 && !answer(run, relay))
            return;
        for (size_t index = 0; index < count; index++) {
            int end = each[1 + index].revents == 0 ? -1 : accept4(ways[index].listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (end >= 0)
                say_connection(relay, (struct vm_ports_message){-1, ways[index].port}, end);
        }
    }
}

void vm_ports_start(struct run *run)
{
    greeting = run->plan.proxy ? egress_greeting(&proxy_port) : NULL;
    channel = ports_beside(run, serve);
}
