/* The network of the guest: a loopback interface, some of whose ports are tunnelled over the line
 * (tunnels.c). */
#define _GNU_SOURCE
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include "launch.h"
#include "guest.h"
#include "guestnet.h"
#include "ports.h"

struct tunnels guest_tunnels;
static struct run names; /* host names, for dns.c */
static struct strv ports;
static bool exposes;

bool guest_network_setting(enum frame frame, char *word)
{
    switch (frame) {
    case LISTEN:
        strv_push(&ports, word);
        break;
    case EXPOSED:
        exposes = true;
        break;
    case NAME_OF_HOST:
        strv_push(&names.plan.names.patterns, word);
        break;
    case NAME_PORT:
        strv_push(&names.plan.names.ports, word);
        break;
    case RESOLVER:
        names.plan.names.resolver_place = word;
        break;
    case HOSTS:
        names.plan.names.hosts_place = word;
        break;
    default:
        return false;
    }
    return true;
}

static int connected(int end, const void *address, unsigned length)
{
    return connect(end, address, length);
}

/* If no server inside listens yet, the client outside is refused. */
static int reach(int32_t number, unsigned short port)
{
    (void)number;
    return loopback_socket(AF_INET, port, connected);
}

static void raise_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    _cleanup_close_ int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request) != 0)
        guest_refuse("cannot bring up the loopback");
}

static void lay_over(const char *place, const char *content)
{
    static const char own[] = "/dev/names";
    if (write_file(AT_FDCWD, own, content, strlen(content), 0444) != 0 || mount(own, place, NULL, MS_BIND, NULL) != 0 ||
        mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0 ||
        unlink(own) != 0)
        guest_refuse("cannot mount %s", place);
}

void guest_network(int line)
{
    guest_tunnels.inside = true;
    raise_loopback();
    if (names.plan.names.resolver_place != NULL)
        lay_over(names.plan.names.resolver_place, "nameserver 127.0.0.1\n");
    if (names.plan.names.hosts_place != NULL)
        lay_over(names.plan.names.hosts_place, "127.0.0.1\tlocalhost\n::1\tlocalhost\n");
    if (dns_wanted(&names)) {
        dns_listen(&names);
        dns_start(&names, line);
    }
    for (size_t index = 0; index < ports.count; index++) {
        unsigned short port = (unsigned short)atoi(ports.at[index]);
        tunnels_listen(&guest_tunnels, loopback_socket(AF_INET, port, ports_listen), port);
    }
    if (ports.count > 0 || exposes)
        guest_tunnels.reach = reach;
}
