/* Ports that are forwarded from the host's loopback to the sandbox's (network.expose), and from the sandbox's
 * to the host's (network.localhost). A socket belongs to the network namespace in which it was created,
 * whichever process uses it. So a process in the sandbox's namespace accepts from the host's listeners, and
 * one in the host's namespace from those inside. Programs inside can see neither process. */
#define _GNU_SOURCE
#include <linux/nsfs.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "launch.h"
#include "ports.h"

enum { NAME = 64 }; /* bytes for a run's name in the file of locks */
enum { MOST = PASSED / 2, BACKLOG = 128, ANSWER = 10000, PATIENCE = 5000 }; /* ports; milliseconds */

static struct way host[2 * MOST], inner[2 * MOST];
static size_t host_count, inner_count;
/* A file with a lock for each port that a run exposes; kept open as long as its listeners. */
static int locks = -1;
/* One end of a socket, for the process that starts the sandbox; the process that forwards ports has the
 * other. */
static int asks = -1;

bool ports_wanted(const struct run *run)
{
    return !has_kernel(run) && (run->plan.expose.count + run->plan.localhost.count > 0 || dns_wanted(run));
}

int ports_listen(int end, const void *address, unsigned length)
{
    return bind(end, address, length) == 0 ? listen(end, BACKLOG) : -1;
}

/* Another run of this user that exposes the port holds its lock. A program that is not a run holds the port
 * only. */
static bool lock_port(const struct run *run, unsigned short port)
{
    char name[NAME] = "";
    const char *own = is_set("SANDWRIGHT_SESSION") ? getenv("SANDWRIGHT_SESSION") : run->name;
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)port * NAME, .l_len = NAME};
    if (locks < 0 && (locks = rundir_locks("ports")) < 0)
        return true;
    if (fcntl(locks, F_OFD_SETLK, &range) == 0) {
        snprintf(name, sizeof name, "%s", own);
        (void)!pwrite(locks, name, sizeof name, range.l_start);
        return true;
    }
    if (errno != EAGAIN && errno != EACCES)
        return true;
    (void)!pread(locks, name, sizeof name - 1, range.l_start);
    warn("port %u is already exposed by run %s; this run does not expose it", (unsigned)port, name);
    return false;
}

/* Listens on IPv4 and, if available, IPv6. Returns NULL, or the port for which this failed. With `locking`,
 * leaves out the ports that other runs expose. */
static const char *listen_all(const struct strv *ports, struct way *ways, size_t *count, const struct run *locking)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t index = 0; index < ports->count && index < MOST; index++) {
        unsigned short port = (unsigned short)atoi(ports->at[index]);
        if (locking != NULL && !lock_port(locking, port))
            continue;
        for (int each = 0; each < 2; each++) {
            int end = loopback_socket(families[each], port, ports_listen);
            if (end >= 0)
                ways[(*count)++] = (struct way){end, port};
            else if (families[each] == AF_INET || (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT))
                return ports->at[index];
        }
    }
    return NULL;
}

void ports_check(struct run *run)
{
    if (run->plan.expose.count > MOST || run->plan.localhost.count > MOST)
        die("network.expose and network.localhost take %d ports each", MOST);
    const char *port = listen_all(&run->plan.expose, host, &host_count, run);
    if (port != NULL && errno == EADDRINUSE)
        die("network.expose: port %s of this machine's localhost is taken", port);
    if (port != NULL)
        die_errno("network.expose: cannot listen on port %s of this machine's localhost", port);
}

size_t ports_listeners(const struct way **ways)
{
    *ways = host;
    return host_count;
}

void ports_release(void)
{
    for (; host_count > 0; host_count--)
        close(host[host_count - 1].listener);
    close(locks);
    locks = -1;
}


static bool is_up(int any, struct ifreq *loopback)
{
    return ioctl(any, SIOCGIFFLAGS, loopback) == 0 && (loopback->ifr_flags & IFF_UP) != 0;
}

/* With `waits`, another process brings the interface up, so this waits for that first. */
static void raise_loopback(bool waits)
{
    struct ifreq loopback = {.ifr_name = "lo"};
    _cleanup_close_ int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (long until = milliseconds() + PATIENCE; any >= 0 && waits && !is_up(any, &loopback) && milliseconds() < until;)
        poll(NULL, 0, 1);
    loopback.ifr_flags |= IFF_UP;
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &loopback) != 0)
        die_errno("cannot bring up the sandbox's loopback");
}

/* Enters the network namespace for good. Changing credentials clears the parent-death signal, so it is set
 * again. */
static void enter(int network, pid_t parent)
{
    struct stat theirs, own, owners;
    int owner;
    if (fstat(network, &theirs) != 0 || stat("/proc/self/ns/net", &own) != 0)
        die_errno("cannot identify the sandbox's network namespace");
    if (same_file(&theirs, &own))
        die("cannot forward ports: the sandbox has no separate network namespace");
    /* Enters the user namespace that owns the network namespace, not that of the process: bubblewrap's
     * process may be in another one by now, which has no rights over the network. */
    if (geteuid() != 0 && ((owner = ioctl(network, NS_GET_USERNS)) < 0 || fstat(owner, &owners) != 0 ||
                              stat("/proc/self/ns/user", &own) != 0 ||
                              (owners.st_ino != own.st_ino && setns(owner, CLONE_NEWUSER) != 0)))
        die_errno("cannot enter the sandbox's network namespace");
    if (setns(network, CLONE_NEWNET) != 0)
        die_errno("cannot enter the sandbox's network namespace");
    if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(NOT_RUN);
}

static _Noreturn void be_inside(const struct run *run, int network, bool waits, int says, pid_t parent)
{
    int files[2 * MOST];
    unsigned short ports[2 * MOST] = {0};
    enter(network, parent);
    raise_loopback(waits);
    const char *port = listen_all(&run->plan.localhost, inner, &inner_count, NULL);
    if (port != NULL)
        die_errno("network.localhost: cannot listen on port %s inside the sandbox", port);
    if (dns_wanted(run))
        dns_listen(run);
    if (!keep_capabilities(0))
        die_errno("cannot drop privileges");
    for (size_t index = 0; index < inner_count; index++) {
        files[index] = inner[index].listener;
        ports[index] = inner[index].port;
    }
    if (pass_files(says, (struct iovec){ports, sizeof ports}, files, inner_count) != (ssize_t)sizeof ports)
        _exit(NOT_RUN);
    for (size_t index = 0; index < inner_count; index++)
        close(files[index]);
    close(network);
    if (dns_wanted(run))
        dns_start(run, says);
    if (host_count > 0 || dns_wanted(run))
        carry(host, host_count, says);
    _exit(0);
}

/* ---- the process that forwards ports */

static pid_t inside;
static int to_inside = -1;

static void forget_inside(void)
{
    if (inside > 0 && kill(inside, SIGKILL) == 0)
        waitpid(inside, NULL, 0);
    for (; inner_count > 0; inner_count--)
        close(inner[inner_count - 1].listener);
    close(to_inside);
    inside = 0;
    to_inside = -1;
}

static bool make_ways(const struct run *run, int network, bool waits, int asked)
{
    int pair[2], files[2 * MOST], got;
    unsigned short ports[2 * MOST];
    pid_t own = getpid();
    forget_inside();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    if ((inside = fork_helper(NULL)) == 0) {
        signal(SIGPIPE, SIG_IGN);
        close(pair[0]);
        close(asked);
        be_inside(run, network, waits, pair[1], own);
    }
    close(pair[1]);
    to_inside = pair[0];
    got = inside < 0 ? -1 : take_files(to_inside, (struct iovec){ports, sizeof ports}, files);
    for (int index = 0; index < got; index++)
        inner[inner_count++] = (struct way){files[index], ports[index]};
    return got >= 0;
}

/* When this process ends, the process inside ends, too. */
static void serve(const struct run *run, int asked)
{
    int files[2 * MOST];
    bool waits;
    while (take_files(asked, (struct iovec){&waits, sizeof waits}, files) == 1) {
        bool made = make_ways(run, files[0], waits, asked);
        close(files[0]);
        if (send(asked, &made, sizeof made, MSG_NOSIGNAL) != sizeof made)
            break;
        if (made && inner_count > 0)
            carry(inner, inner_count, asked);
    }
}

void ports_start(struct run *run)
{
    if (ports_wanted(run))
        asks = ports_beside(run, serve);
}

int ports_beside(const struct run *run, void (*work)(const struct run *, int))
{
    int pair[2], kept[2 + 2 * MOST];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        die_errno("cannot create a socket");
    pid_t beside = fork_helper(NULL);
    if (beside < 0)
        die_errno("cannot create a process");
    if (beside == 0) {
        kept[0] = pair[1];
        for (size_t index = 0; index < host_count; index++)
            kept[1 + index] = host[index].listener;
        redirect_to_null(0, 1);
        kept[1 + host_count] = locks;
        close_others(kept, 2 + host_count);
        signal(SIGPIPE, SIG_IGN);
        work(run, pair[1]);
        _exit(0);
    }
    close(pair[1]);
    ports_release();
    return pair[0];
}

int network_of(pid_t process)
{
    return open(xasprintf("/proc/%d/ns/net", (int)process), O_RDONLY | O_CLOEXEC);
}

bool ports_open(int network, bool waits)
{
    bool made = false;
    if (network < 0 || pass_files(asks, (struct iovec){&waits, sizeof waits}, &network, 1) != (ssize_t)sizeof waits ||
        !wait_readable(asks, milliseconds() + ANSWER) || recv(asks, &made, sizeof made, 0) != sizeof made)
        made = false;
    if (!made)
        warn("cannot forward ports to or from the sandbox");
    close(network);
    return made;
}
