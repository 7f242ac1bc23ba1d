/* Under landlock, the supervisor creates the sandbox's sockets itself, passes each to the program
 * (SECCOMP_IOCTL_NOTIF_ADDFD), and keeps a descriptor until the socket is connected or listens. It therefore
 * binds and connects its own sockets, to copies of the addresses, and never needs to take a descriptor out of
 * a process (pidfd_getfd(2)), which container engines forbid. It is restricted by the command's Landlock
 * rules for files, so it can create a socket's file only where the command may. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "broker.h"
#include "refusals.h"
#include "launch.h"

enum { MOST_KEPT = 512, MOST_OWN = 256, PATIENCE = 5000 /* milliseconds */ };

static struct kept {
    int file; /* 0: none */
    uint64_t inode;
    bool bound;
} kept[MOST_KEPT];
static size_t oldest;
/* Descriptors of the sandbox's own socket files, kept open so that their inode numbers are not reused. */
static int own[MOST_OWN];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, naming = PTHREAD_MUTEX_INITIALIZER;

static struct kept *find(uint64_t inode)
{
    for (size_t index = 0; index < MOST_KEPT; index++)
        if (kept[index].file > 0 && kept[index].inode == inode)
            return &kept[index];
    return NULL;
}

/* Drops the oldest entry if the table is full: that socket was most likely never used. */
static void retain(int file, uint64_t inode)
{
    pthread_mutex_lock(&lock);
    struct kept *each = &kept[oldest++ % MOST_KEPT];
    for (size_t index = 0; index < MOST_KEPT && each->file > 0; index++)
        if (kept[index].file == 0)
            each = &kept[index];
    if (each->file > 0)
        close(each->file);
    *each = (struct kept){file, inode, false};
    pthread_mutex_unlock(&lock);
}

void socket_broker_forget(uint64_t inode)
{
    pthread_mutex_lock(&lock);
    struct kept *each = find(inode);
    if (each != NULL) {
        close(each->file);
        each->file = 0;
    }
    pthread_mutex_unlock(&lock);
}

int socket_broker_copy(int process, int number, uint64_t *inode, bool *bound)
{
    char name[32], link[64];
    snprintf(name, sizeof name, "fd/%d", number);
    ssize_t length = readlinkat(process, name, link, sizeof link - 1);
    if (length < 0) {
        errno = errno == ENOENT ? EBADF : EACCES;
        return -1;
    }
    link[length] = '\0';
    uint64_t found = strncmp(link, "socket:[", 8) == 0 ? strtoull(link + 8, NULL, 10) : 0;
    if (found == 0) {
        errno = ENOTSOCK;
        return -1;
    }
    pthread_mutex_lock(&lock);
    struct kept *each = find(found);
    int copy = each == NULL ? -1 : fcntl(each->file, F_DUPFD_CLOEXEC, 3);
    *bound = each != NULL && each->bound;
    pthread_mutex_unlock(&lock);
    /* For sockets that the supervisor did not create, and those that are connected or listen. */
    errno = each == NULL ? EISCONN : EMFILE;
    *inode = found;
    return copy;
}

/* ---- socket(2): its arguments are no pointers, so the filters have already checked them */
static int make(const struct broker *broker, const struct seccomp_notif *call)
{
    int type = (int)call->data.args[1];
    struct stat status;
    int made = socket((int)call->data.args[0], type | SOCK_CLOEXEC, (int)call->data.args[2]);
    if (made < 0)
        return errno;
    if (fstat(made, &status) != 0) {
        close(made);
        return EMFILE;
    }
    retain(made, status.st_ino); /* before a program inside can use the socket */
    struct seccomp_notif_addfd given = {.id = call->id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = (uint32_t)made,
                                        .newfd_flags = (type & SOCK_CLOEXEC) != 0 ? O_CLOEXEC : 0};
    if (ioctl(broker->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &given) >= 0)
        return -1;
    int fault = errno;
    socket_broker_forget(status.st_ino);
    return fault == ENOENT ? -1 : fault;
}

static mode_t umask_of(int process)
{
    _cleanup_free_ char *status = read_file(process, "status", 1 << 16, NULL);
    char *found = status == NULL ? NULL : strstr(status, "\nUmask:\t");
    return found == NULL ? 077 : (mode_t)strtoul(found + 8, NULL, 8) & 0777;
}

static bool is_same(int file, const struct stat *found)
{
    struct stat status;
    return fstat(file, &status) == 0 && status.st_nlink > 0 && same_file(&status, found);
}

bool socket_broker_owns(const struct stat *found)
{
    bool same = false;
    pthread_mutex_lock(&lock);
    for (size_t index = 0; index < MOST_OWN && !same; index++)
        same = own[index] > 0 && is_same(own[index], found);
    pthread_mutex_unlock(&lock);
    return same;
}

static bool remember(int file)
{
    struct stat status;
    bool done = false;
    pthread_mutex_lock(&lock);
    for (size_t index = 0; index < MOST_OWN && !done; index++) {
        if (own[index] > 0 && fstat(own[index], &status) == 0 && status.st_nlink > 0)
            continue;
        if (own[index] > 0)
            close(own[index]);
        own[index] = file;
        done = true;
    }
    pthread_mutex_unlock(&lock);
    return done;
}

/* Another socket may have replaced the file meanwhile, so ask the kernel to which file this socket is
 * bound. */
static bool is_bound_to(const struct broker *broker, uint64_t inode, int file)
{
    struct stat status;
    uint32_t device;
    _cleanup_close_ int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fstat(file, &status) == 0 && S_ISSOCK(status.st_mode) &&
                 (diag_bound(broker->outside, (uint32_t)inode, kernel_device(status.st_dev), (uint32_t)status.st_ino) == 1 ||
                     (self >= 0 && device_of(self, file, &device) &&
                         diag_bound(broker->outside, (uint32_t)inode, device, (uint32_t)status.st_ino) == 1));
}

/* Binds to the address as the program wrote it, because programs read it back (getsockname(2)), from the
 * program's working directory. Program and supervisor have the same root. */
static int bind_here(const struct broker *broker, int socket, uint64_t inode, const void *address, size_t length, const char *path)
{
    if (bind(socket, address, (socklen_t)length) != 0)
        return errno;
    int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file >= 0 && !(is_bound_to(broker, inode, file) && remember(file)))
        close(file); /* no program can connect to it, then */
    return 0;
}

static int bind_path(const struct broker *broker, int process, int socket, uint64_t inode, const void *address, size_t length,
                     const char *path)
{
    _cleanup_close_ int place = openat(process, "cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fault = EACCES;
    pthread_mutex_lock(&naming);
    mode_t before = umask(umask_of(process));
    if (place >= 0 && fchdir(place) == 0)
        fault = bind_here(broker, socket, inode, address, length, path);
    umask(before);
    if (chdir("/") != 0)
        fault = EACCES;
    pthread_mutex_unlock(&naming);
    return fault;
}

static unsigned port_of(const void *address, size_t length)
{
    struct sockaddr_in inet; /* the port of an IPv6 address is at the same offset */
    if (length < sizeof inet)
        return 0;
    memcpy(&inet, address, sizeof inet);
    return ntohs(inet.sin_port);
}

static int domain_of(int socket)
{
    int domain = -1;
    socklen_t length = sizeof domain;
    return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 ? domain : -1;
}

int socket_broker_bind(const struct broker *broker, int process, int socket, uint64_t inode, const void *address, size_t length)
{
    char path[109];
    struct sockaddr_nl netlink;
    switch (domain_of(socket)) {
    case AF_UNIX:
        if (!broker->own || address_of(address, length, path) != ADDRESS_PATH)
            return EACCES; /* abstract names belong to the host's network namespace */
        return bind_path(broker, process, socket, inode, address, length, path);
    case AF_INET:
    case AF_INET6: {
        unsigned port = port_of(address, length);
        if (port == 0 || !strv_has_number(broker->binds, port))
            return EACCES;
        break;
    }
    case AF_NETLINK:
        if (length < sizeof netlink)
            return EINVAL;
        memcpy(&netlink, address, sizeof netlink);
        if (netlink.nl_groups != 0)
            return EPERM;
        break;
    default:
        return EACCES;
    }
    return bind(socket, address, (socklen_t)length) == 0 ? 0 : errno;
}

void socket_broker_set_bound(uint64_t inode)
{
    pthread_mutex_lock(&lock);
    struct kept *each = find(inode);
    if (each != NULL)
        each->bound = true;
    pthread_mutex_unlock(&lock);
}

/* listen(2) on an unbound TCP socket would open a port that nobody has checked. */
static int start_listening(const struct seccomp_notif *call, int process)
{
    uint64_t inode;
    bool bound;
    _cleanup_close_ int copy = socket_broker_copy(process, (int)call->data.args[0], &inode, &bound);
    if (copy < 0)
        return errno == EISCONN ? EINVAL : errno;
    int fault = !bound ? EACCES : listen(copy, (int)call->data.args[1]) == 0 ? 0 : errno;
    if (fault == 0)
        socket_broker_forget(inode);
    return fault;
}

/* ::ffff:127.0.0.1. Java and .NET connect to 127.0.0.1 with IPv6 sockets. */
static const struct in6_addr MAPPED = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};

static bool is_mapped(const void *address, size_t length)
{
    struct sockaddr_in6 inet6;
    if (length < sizeof inet6)
        return false;
    memcpy(&inet6, address, sizeof inet6);
    return inet6.sin6_family == AF_INET6 && IN6_ARE_ADDR_EQUAL(&inet6.sin6_addr, &MAPPED);
}

static bool is_loopback(const void *address, size_t length, int domain)
{
    struct sockaddr_in inet;
    struct sockaddr_in6 inet6;
    if (domain == AF_INET && length >= sizeof inet) {
        memcpy(&inet, address, sizeof inet);
        return inet.sin_family == AF_INET && inet.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
    }
    if (domain == AF_INET6 && length >= sizeof inet6) {
        memcpy(&inet6, address, sizeof inet6);
        return inet6.sin6_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(&inet6.sin6_addr) || is_mapped(address, length));
    }
    return false;
}

/* Sends the greeting, by which the proxy recognises the session, before the program gets the connection. */
static int connect_proxy(const struct broker *broker, uint64_t id, pid_t thread, int socket, bool mapped)
{
    in_port_t port = htons((uint16_t)broker->proxy_port);
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = MAPPED};
    const void *proxy = mapped ? (const void *)&six : &four;
    struct pollfd each = {.fd = socket, .events = POLLOUT};
    int said = 0, fault = patient_connect(id, thread, socket, proxy, mapped ? sizeof six : sizeof four);
    socklen_t size = sizeof said;
    if (fault == EINPROGRESS)
        fault = poll(&each, 1, PATIENCE) != 1 ? ETIMEDOUT
                : getsockopt(socket, SOL_SOCKET, SO_ERROR, &said, &size) != 0 ? errno : said;
    size_t length = strlen(broker->greeting);
    if (fault == 0 && send(socket, broker->greeting, length, MSG_NOSIGNAL) != (ssize_t)length) {
        shutdown(socket, SHUT_RDWR);
        fault = ECONNREFUSED;
    }
    return fault;
}

int socket_broker_connect_ip(const struct broker *broker, uint64_t id, pid_t thread, int socket, const void *address, size_t length)
{
    int domain = domain_of(socket);
    unsigned port = port_of(address, length);
    if (!is_loopback(address, length, domain) || port == 0)
        return EACCES;
    bool mapped = domain == AF_INET6 && is_mapped(address, length);
    if ((domain == AF_INET || mapped) && broker->greeting != NULL && port == PROXY_PORT)
        return connect_proxy(broker, id, thread, socket, mapped);
    if (!strv_has_number(broker->connects, port))
        return EACCES;
    return patient_connect(id, thread, socket, address, (socklen_t)length);
}

int socket_broker_answer(const struct broker *broker, const struct seccomp_notif *call)
{
    int number = call->data.nr & ~0x40000000;
    char name[32];
    if (call->data.arch != NATIVE)
        return EPERM;
    if (number == SYS_socket)
        return make(broker, call);
    if (number == SYS_connect || number == SYS_bind)
        return broker_address(broker, call->id, (pid_t)call->pid, (const uint64_t *)call->data.args, number == SYS_bind);
    if (number != SYS_listen)
        return EPERM;
    snprintf(name, sizeof name, "/proc/%d", (int)call->pid);
    _cleanup_close_ int process = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process < 0)
        return EACCES;
    return broker_valid(broker, call->id) ? start_listening(call, process) : -1;
}
