/* Declarations for the supervisor's broker: confine.c, notify.c, notify_threads.c, broker.c, lookup.c and
 * diag.c. When a program inside calls connect(2), the supervisor makes the connection outside. It works on
 * its own copies of the socket and of the address (seccomp_unotify(2)), because the program could change the
 * originals after a check. */
#ifndef BROKER_H
#define BROKER_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* A Unix socket of the host that the policy allows. */
struct listed {
    const char *path;
    int held; /* a descriptor of the file that was there at the start; -1: none */
};

struct strv;
struct seccomp_notif;
struct broker {
    int listener;     /* the seccomp listener */
    /* Landlock: the supervisor creates the sockets itself (socket_broker.c), and the only network is the
     * host's. */
    bool creates_sockets;
    bool names;       /* guest kernel: the supervisor makes the system calls that name a path (paths.c) */
    bool own;         /* programs inside may have Unix sockets of their own */
    /* Allowed ports: to connect to on the host's loopback, to bind at any of its addresses. */
    const struct strv *connects, *binds;
    /* The port on which the proxy listens, and the greeting that it expects; NULL: no proxy. */
    int proxy_port;
    const char *greeting;
    int inside;       /* for diag_listens: the sandbox's network namespace */
    int outside;      /* for diag_listens: the host's network namespace */
    /* The cookie of the sandbox's network namespace (SO_NETNS_COOKIE, Linux 5.14); 0: unknown. */
    uint64_t network;
    struct listed *listed;
    size_t count;
    const struct strv *repositories; /* Git directories in which programs inside can't create links */
    struct stat mounts; /* the sandbox's mount namespace */
    const char *root;   /* the path of the sandbox's root in that namespace, empty for `/` */
    /* A path that our shims try first, and have a fallback for, so a refusal is not reported; NULL: none. */
    const char *tried;
};

/* ---- broker.c: answers one call. Returns 0, the error for the caller, or -1 if the caller has gone. With
 * `binds`, the call is bind(2), otherwise connect(2). */
int broker_address(const struct broker *broker, uint64_t id, pid_t thread, const uint64_t arguments[6], bool binds);
/* Answers getsockopt(SO_ERROR). May set SECCOMP_USER_NOTIF_FLAG_CONTINUE in `flags`. */
int broker_socket_error(const struct broker *broker, const struct seccomp_notif *call, uint32_t *flags);
/* Whether the caller still waits. After a check of its memory or descriptors, this also shows that its thread
 * ID has not been reused. */
static inline bool broker_valid(const struct broker *broker, uint64_t id)
{
    return ioctl(broker->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

enum address { ADDRESS_WRONG, ADDRESS_NONE, ADDRESS_ABSTRACT, ADDRESS_PATH, ADDRESS_OTHER };
/* The kind of a Unix socket's address; `path` gets the address and a NUL. ADDRESS_NONE (AF_UNSPEC) dissolves
 * a connection. */
enum address address_of(const void *address, size_t length, char path[109]);

/* ---- socket_broker.c */
enum { PROXY_PORT = 3128 }; /* the proxy's port inside (render/proxyfacts.py) */
struct stat;
/* Returns as broker_address does. */
int socket_broker_answer(const struct broker *broker, const struct seccomp_notif *call);
/* Copies the socket at descriptor `number` of a process; `inode` gets its inode, and `bound` whether it was
 * bound. -1 and errno. */
int socket_broker_copy(int process, int number, uint64_t *inode, bool *bound);
void socket_broker_forget(uint64_t inode);      /* for a socket that is connected or listens */
void socket_broker_set_bound(uint64_t inode);
bool socket_broker_owns(const struct stat *found); /* whether this file is a Unix socket of the sandbox */
int socket_broker_bind(const struct broker *broker, int process, int socket, uint64_t inode, const void *address, size_t length);
int socket_broker_connect_ip(const struct broker *broker, uint64_t id, pid_t thread, int socket, const void *address, size_t length);

/* ---- links.c. `first` is a process in the sandbox. */
bool links_is_probe(const char *target);
/* Fills in `base` for open_as; returns the path relative to it. */
const char *links_base(int number, const char *path, char base[32]);
size_t links_above_last(const char *path); /* the length of the path without its last name */
void links_begin(struct broker *broker, pid_t first);
/* Returns as broker_address does. The call is one for which is_link is true, or io_uring_setup(2). */
int links_answer(const struct broker *broker, const struct seccomp_notif *call);

struct seccomp_data;
struct program;
/* ---- pairs.c: whether a refused call asks for a pair of datagram sockets, which can be replaced with
 * another kind of pair if the filters allow that one */
bool pairs_is_datagram(const struct seccomp_data *call);
bool pairs_may_replace(const struct program *filters, size_t count, const struct seccomp_data *call);
/* Returns as broker_address does. */
int pairs_answer(const struct broker *broker, const struct seccomp_notif *call);

/* ---- confine.c: whether the call is connect(2), for each ABI whose calls the supervisor receives */
bool is_connect(const struct seccomp_data *call);
bool is_socket_error(const struct seccomp_data *call); /* getsockopt(2) for SO_ERROR */
/* symlink(2), symlinkat(2), or a call through which a program could create links unseen. */
bool asks_for_links(const struct seccomp_data *call);
bool is_link(const struct seccomp_data *call, bool *at); /* `at`: symlinkat(2) */

/* ---- notify_threads.c: connect(2) that is interrupted when its caller has a signal to handle or has gone */
int patient_connect(uint64_t id, pid_t thread, int file, const void *address, socklen_t length);
bool has_signal(const char *status); /* `status` is the content of /proc/PID/status */

/* ---- lookup.c: opens paths as a process sees them; `process` is a descriptor of its directory in /proc */
/* Opens with O_PATH, from `base` (cwd, fd/N); -1 and errno. */
int open_as(int process, const char *base, const char *path);
/* The same, but never waits for a file system (EAGAIN). */
int open_cached_as(int process, const char *base, const char *path);
/* The device of a mount, by its mount ID. */
bool device_in(const char *mountinfo, unsigned long mount, uint32_t *device);
/* The device of the file system, where fstat(2) returns another one (btrfs). */
bool device_of(int process, int file, uint32_t *device);
uint32_t kernel_device(dev_t device);                     /* in the kernel's encoding (linux/kdev_t.h) */

/* ---- diag.c: listening Unix sockets of a network namespace (sock_diag(7)) */
int diag_open(void);                      /* in this process's namespace; -1 and errno */
int diag_open_at(int process); /* in the namespace of a process, by its directory in /proc; -1 and errno */
/* Whether a socket that is bound to this file listens: 1 or 0; -1: unknown. */
int diag_listens(int diag, uint32_t device, uint32_t inode);
/* Whether the socket with this inode is bound to the file. */
int diag_bound(int diag, uint32_t socket, uint32_t device, uint32_t inode);
struct diag_question {
    uint32_t sequence, device, inode;
    bool found, cut; /* results; cut: the kernel's list changed meanwhile, and may be incomplete */
};
enum diag_answer { DIAG_MORE, DIAG_END, DIAG_FAULT };
/* Parses one datagram. */
enum diag_answer diag_read(const void *answer, size_t length, struct diag_question *question);

#endif
