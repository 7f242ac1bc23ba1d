/* Makes connect(2) and bind(2) in place of a program inside. It works on copies of the socket and the
 * address, and on opened files, so other threads of the program can change nothing after the checks. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "broker.h"
#include "refusals.h"
#include "launch.h"
#include "record.h"

enum { PATH_AT = offsetof(struct sockaddr_un, sun_path), THREAD = O_EXCL /* PIDFD_THREAD, Linux 6.9 */,
       CLOSED = 7 /* TCP_CLOSE (net/tcp_states.h) */ };

/* The calling thread, and the descriptors that the supervisor holds for it. */
struct caller {
    uint64_t id;
    pid_t thread;
    int process; /* a descriptor of its directory in /proc */
    int socket;  /* a copy of the socket that it named */
    uint64_t inode; /* the socket's inode, if the supervisor created it (socket_broker.c) */
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_nl netlink;
        struct sockaddr_storage all;
    } address;
    socklen_t length;
};

static int open_thread(pid_t thread, int process)
{
    int handle = (int)syscall(SYS_pidfd_open, thread, THREAD);
    char *status, *group;
    if (handle >= 0 || (status = read_file(process, "status", 1 << 16, NULL)) == NULL)
        return handle;
    group = strstr(status, "\nTgid:\t");
    if (group != NULL)
        handle = (int)syscall(SYS_pidfd_open, (pid_t)strtol(group + 7, NULL, 10), 0);
    free(status);
    return handle;
}

static int copy_address(struct caller *caller, uint64_t at, uint64_t length)
{
    if ((int)length < 0 || (int)length > (int)sizeof caller->address)
        return EINVAL;
    caller->length = (socklen_t)length;
    _cleanup_close_ int memory = caller->length == 0 ? -1 : openat(caller->process, "mem", O_RDONLY | O_CLOEXEC);
    bool whole = caller->length == 0 || (memory >= 0 && at <= INT64_MAX &&
                 pread(memory, &caller->address, caller->length, (off_t)at) == (ssize_t)caller->length);
    return whole ? 0 : EFAULT;
}

static int copy_socket(struct caller *caller, int number)
{
    _cleanup_close_ int handle = open_thread(caller->thread, caller->process);
    if (handle < 0)
        return EACCES;
    caller->socket = (int)syscall(SYS_pidfd_getfd, handle, number, 0);
    return caller->socket < 0 ? errno : 0;
}

static int copy(const struct broker *broker, struct caller *caller, int number)
{
    char name[32];
    bool bound;
    int fault = 0;
    snprintf(name, sizeof name, "/proc/%d", (int)caller->thread);
    caller->process = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (caller->process < 0)
        return EACCES;
    if (!broker->creates_sockets)
        fault = copy_socket(caller, number);
    else if ((caller->socket = socket_broker_copy(caller->process, number, &caller->inode, &bound)) < 0)
        fault = errno;
    return fault;
}

#define _cleanup_caller_ __attribute__((cleanup(close_copies)))
static void close_copies(const struct caller *caller)
{
    cleanup_close(&caller->socket);
    cleanup_close(&caller->process);
}

enum address address_of(const void *address, size_t length, char path[109])
{
    sa_family_t family;
    path[0] = '\0';
    if (length < sizeof family || length > sizeof(struct sockaddr_un))
        return ADDRESS_WRONG;
    memcpy(&family, address, sizeof family);
    if (family == AF_UNSPEC)
        return ADDRESS_NONE;
    if (family != AF_UNIX)
        return ADDRESS_OTHER;
    if (length <= PATH_AT)
        return ADDRESS_WRONG;
    memcpy(path, (const char *)address + PATH_AT, length - PATH_AT);
    path[length - PATH_AT] = '\0';
    return path[0] == '\0' ? ADDRESS_ABSTRACT : ADDRESS_PATH;
}

/* Whether this is an allowed socket of the host: the file that was there at the start, or a later one in a
 * directory in which no program inside can create files. */
static bool is_listed(const struct broker *broker, const struct stat *found, bool writable)
{
    struct stat own;
    for (size_t index = 0; index < broker->count; index++) {
        const struct listed *each = &broker->listed[index];
        if (each->held >= 0 && fstat(each->held, &own) == 0 && same_file(&own, found))
            return true;
        _cleanup_close_ int now = writable ? -1 : open_without_links(AT_FDCWD, each->path, O_PATH, 0);
        if (now >= 0 && fstat(now, &own) == 0 && same_file(&own, found))
            return true;
    }
    return false;
}

/* Decides about connecting to a socket's file. The kernel binds a socket to a file when it creates the file,
 * and never again. Files of two devices can look the same in the kernel's answer (sock_diag), so a file that
 * is bound in the host's network namespace counts as the host's. */
static int judge(const struct broker *broker, const struct caller *caller, int file, const struct stat *found)
{
    uint32_t devices[2] = {kernel_device(found->st_dev)}, inode = (uint32_t)found->st_ino;
    struct statvfs mount;
    bool writable = fstatvfs(file, &mount) != 0 || (mount.f_flag & ST_RDONLY) == 0;
    if (is_listed(broker, found, writable) || (broker->creates_sockets && socket_broker_owns(found)))
        return 0;
    if (!writable || broker->inside < 0)
        return EACCES;
    for (int index = 0; index < 2; index++) {
        if (index == 1 && (!device_of(caller->process, file, &devices[1]) || devices[1] == devices[0]))
            break;
        if (diag_listens(broker->outside, devices[index], inode) != 0)
            return EACCES;
        if (diag_listens(broker->inside, devices[index], inode) == 1)
            return 0;
    }
    return ECONNREFUSED; /* nobody listens, or only in another network namespace */
}

static int connect_path(const struct broker *broker, const struct caller *caller, const char *path)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    struct stat found;
    _cleanup_close_ int file = open_as(caller->process, "cwd", path);
    int fault;
    if (file < 0)
        return errno;
    if (fstat(file, &found) != 0)
        fault = errno;
    else
        fault = S_ISSOCK(found.st_mode) ? judge(broker, caller, file, &found) : ECONNREFUSED;
    if (fault == EACCES && (broker->tried == NULL || strcmp(path, broker->tried) != 0))
        refusals_add_socket(path, fault);
    if (fault == 0) {
        snprintf(own.sun_path, sizeof own.sun_path, "/proc/self/fd/%d", file);
        fault = patient_connect(caller->id, caller->thread, caller->socket, &own, sizeof own);
    }
    return fault;
}

static bool is_of_sandbox(const struct broker *broker, const struct caller *caller)
{
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
    return broker->network == 0 || (getsockopt(caller->socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) == 0 &&
                                       cookie == broker->network);
}

static int connect_unix(const struct broker *broker, const struct caller *caller)
{
    char path[109];
    int kind;
    socklen_t length = sizeof kind;
    if (getsockopt(caller->socket, SOL_SOCKET, SO_TYPE, &kind, &length) != 0 ||
        (kind != SOCK_STREAM && kind != SOCK_SEQPACKET))
        return EPERM; /* other sends can carry an address, which nobody would check */
    switch (address_of(&caller->address, caller->length, path)) {
    case ADDRESS_PATH:
        return connect_path(broker, caller, path);
    case ADDRESS_ABSTRACT:
        if (broker->inside < 0)
            return EACCES;
        return patient_connect(caller->id, caller->thread, caller->socket, &caller->address, caller->length);
    default:
        return EINVAL;
    }
}

/* Of datagram sockets, counts only DNS queries: glibc connects datagram sockets just to sort addresses. */
static void count_unreachable(const struct caller *caller, int type, int error)
{
    char text[INET6_ADDRSTRLEN], shown[INET6_ADDRSTRLEN + 8];
    const struct sockaddr_in *four = (const void *)&caller->address;
    const struct sockaddr_in6 *six = (const void *)&caller->address;
    bool is_six = caller->address.any.sa_family == AF_INET6;
    if (caller->length < (is_six ? sizeof *six : sizeof *four) || (type != SOCK_STREAM && ntohs(four->sin_port) != 53) ||
        inet_ntop(is_six ? AF_INET6 : AF_INET, is_six ? (const void *)&six->sin6_addr : &four->sin_addr, text, sizeof text) == NULL)
        return;
    snprintf(shown, sizeof shown, is_six ? "[%s]:%u" : "%s:%u", text, ntohs(four->sin_port));
    refusals_add_address(shown, error);
}

static int connect_copy(const struct broker *broker, const struct caller *caller)
{
    int domain, type = 0;
    socklen_t length = sizeof domain, other = sizeof type;
    if (getsockopt(caller->socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0)
        return errno;
    if (getsockopt(caller->socket, SOL_SOCKET, SO_TYPE, &type, &other) == 0)
        record_connect(&caller->address, caller->length, type);
    if (!is_of_sandbox(broker, caller))
        return EACCES; /* the socket was opened before the sandbox was created */
    if (domain == AF_UNIX)
        return connect_unix(broker, caller);
    /* For other addresses, the kernel would check the supervisor's rights, not the caller's. */
    if (domain == AF_NETLINK && caller->length >= sizeof caller->address.netlink &&
        (caller->address.netlink.nl_pid != 0 || caller->address.netlink.nl_groups != 0))
        return EPERM;
    if (domain != AF_INET && domain != AF_INET6 && domain != AF_NETLINK)
        return EACCES;
    bool judged = broker->creates_sockets && domain != AF_NETLINK;
    int fault = judged ? socket_broker_connect_ip(broker, caller->id, caller->thread, caller->socket, &caller->address, caller->length)
                       : patient_connect(caller->id, caller->thread, caller->socket, &caller->address, caller->length);
    if (fault == (judged ? EACCES : ENETUNREACH) && domain != AF_NETLINK)
        count_unreachable(caller, type, fault);
    return fault;
}

static int bind_copy(const struct broker *broker, const struct caller *caller)
{
    int fault = socket_broker_bind(broker, caller->process, caller->socket, caller->inode, &caller->address, caller->length);
    if (fault == 0)
        socket_broker_set_bound(caller->inode);
    return fault;
}

int broker_address(const struct broker *broker, uint64_t id, pid_t thread, const uint64_t arguments[6], bool binds)
{
    _cleanup_caller_ struct caller caller = {.id = id, .thread = thread, .process = -1, .socket = -1};
    int fault = copy(broker, &caller, (int)arguments[0]);
    if (fault == 0)
        fault = copy_address(&caller, arguments[1], arguments[2]);
    /* The descriptors opened so far may belong to a process that reuses the ID. */
    if (!broker_valid(broker, id))
        fault = -1;
    else if (fault == 0)
        fault = binds ? bind_copy(broker, &caller) : connect_copy(broker, &caller);
    if (broker->creates_sockets && !binds && fault == 0)
        socket_broker_forget(caller.inode);
    return fault;
}

/* ---- getsockopt(SO_ERROR). If a signal arrives before the supervisor has received a connect(2), the call
 * fails with EINTR and never reaches the supervisor. According to POSIX, the connection is then still being
 * established. CPython, asyncio, Go and the JDK therefore wait until the socket is writable, which an
 * unconnected one always is, and take an SO_ERROR of 0 as success. */
static bool has_option(int socket, int option, int wanted, int other)
{
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(socket, SOL_SOCKET, option, &value, &length) == 0 && (value == wanted || value == other);
}

/* A TCP socket whose connection failed or was reset is in state CLOSE, too, but it has sent or received
 * segments. */
static bool never_connected(int socket)
{
    struct tcp_info info;
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer, size = sizeof info;
    if (!has_option(socket, SO_TYPE, SOCK_STREAM, SOCK_SEQPACKET) || !has_option(socket, SO_ACCEPTCONN, 0, 0) ||
        getpeername(socket, (struct sockaddr *)&peer, &length) == 0 || errno != ENOTCONN)
        return false;
    if (has_option(socket, SO_DOMAIN, AF_UNIX, AF_UNIX))
        return true;
    return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           size >= offsetof(struct tcp_info, tcpi_segs_in) + sizeof info.tcpi_segs_in && info.tcpi_state == CLOSED &&
           info.tcpi_segs_out == 0 && info.tcpi_segs_in == 0;
}

/* Writes to the caller's memory, as getsockopt(2) does. The kernel reports ECONNABORTED for a failed
 * connection whose error is lost. With EINTR, EAGAIN or EINPROGRESS, the caller would wait for a change that
 * never comes. */
static int write_socket_error(const struct broker *broker, const struct caller *caller, uint64_t value_at, uint64_t length_at)
{
    _cleanup_close_ int memory = openat(caller->process, "mem", O_RDWR | O_CLOEXEC);
    int pending = 0;
    uint32_t length = sizeof pending, room = 0;
    if (getsockopt(caller->socket, SOL_SOCKET, SO_ERROR, &pending, &length) != 0 || pending == 0)
        pending = ECONNABORTED;
    bool written = memory >= 0 && value_at <= INT64_MAX && length_at <= INT64_MAX && broker_valid(broker, caller->id) &&
                   pread(memory, &room, sizeof room, (off_t)length_at) == sizeof room && room <= INT32_MAX;
    if (room < length)
        length = room;
    written = written && pwrite(memory, &pending, length, (off_t)value_at) == (ssize_t)length &&
              pwrite(memory, &length, sizeof length, (off_t)length_at) == sizeof length;
    return written ? 0 : pending;
}

int broker_socket_error(const struct broker *broker, const struct seccomp_notif *call, uint32_t *flags)
{
    _cleanup_caller_ struct caller caller = {.id = call->id, .thread = (pid_t)call->pid, .process = -1, .socket = -1};
    if (copy(broker, &caller, (int)call->data.args[0]) == 0 && broker_valid(broker, call->id) && never_connected(caller.socket))
        return write_socket_error(broker, &caller, call->data.args[3], call->data.args[4]);
    *flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    return 0;
}
