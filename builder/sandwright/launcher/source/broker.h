/* What confine.c, notify.c, notify_threads.c, broker.c, lookup.c and diag.c share: connect(2) of programs inside is done outside, by the
 * supervisor, on its own copies of the socket and of the address (seccomp_unotify(2)). */
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

/* A Unix socket of the host that the policy lists. */
struct listed {
    const char *path;
    int held; /* what was there at the start; -1 without */
};

struct strv;
struct seccomp_notif;
struct broker {
    int listener;     /* seccomp's */
    bool keeps;       /* landlock's: it makes the sockets itself (socket_broker.c), and there is no network but the host's */
    bool names;       /* a kernel of the sandbox's own: it makes the calls that name a path (paths.c) */
    bool own;         /* programs inside may have Unix sockets of their own */
    const struct strv *connects, *binds; /* ports of the host's loopback, and at any address of it */
    int proxy_port;   /* where the proxy listens, and its greeting; NULL without one */
    const char *greeting;
    int inside;       /* for diag_listens: the network namespace of the sandbox */
    int outside;      /* and ours */
    uint64_t network; /* the cookie of the sandbox's (SO_NETNS_COOKIE, Linux 5.14); 0: not known */
    struct listed *listed;
    size_t count;
    const struct strv *repositories; /* Git's directories, in which programs inside make no links */
    struct stat mounts; /* the mount namespace of the sandbox */
    const char *root;   /* and where its root is there, empty for `/` */
    const char *tried; /* a path that our own shims try before they take another way; NULL: none. Not reported as refused. */
};

/* ---- broker.c: one call. 0, or the error that it ends with. -1: the caller is gone.
 * `binds`: it is bind(2) and no connect(2). */
int broker_address(const struct broker *broker, uint64_t id, pid_t thread, const uint64_t arguments[6], bool binds);
/* The answer to getsockopt(SO_ERROR). `flags` may get SECCOMP_USER_NOTIF_FLAG_CONTINUE. */
int broker_socket_error(const struct broker *broker, const struct seccomp_notif *call, uint32_t *flags);
/* Whether the caller still waits. */
static inline bool broker_valid(const struct broker *broker, uint64_t id)
{
    return ioctl(broker->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

enum address { ADDRESS_WRONG, ADDRESS_NONE, ADDRESS_ABSTRACT, ADDRESS_PATH, ADDRESS_OTHER };
/* What the address of a Unix socket is: `path` gets it with NUL behind. NONE takes a connection away (AF_UNSPEC). */
enum address address_of(const void *address, size_t length, char path[109]);

/* ---- socket_broker.c */
enum { PROXY_PORT = 3128 }; /* where programs inside look for the proxy (render/proxyfacts.py) */
struct stat;
int socket_broker_answer(const struct broker *broker, const struct seccomp_notif *call); /* as above */
/* A copy of a socket of which a process has a descriptor, its number, whether it was bound; -1 and errno. */
int socket_broker_copy(int process, int number, uint64_t *inode, bool *bound);
void socket_broker_forget(uint64_t inode);      /* it is connected or listens */
void socket_broker_set_bound(uint64_t inode);
bool socket_broker_owns(const struct stat *found); /* the file of a Unix socket of the sandbox's own */
int socket_broker_bind(const struct broker *broker, int process, int socket, uint64_t inode, const void *address, size_t length);
int socket_broker_connect_ip(const struct broker *broker, uint64_t id, pid_t thread, int socket, const void *address, size_t length);

/* ---- links.c. `first` is a process of the sandbox's. */
bool links_is_probe(const char *target);
const char *links_base(int number, const char *path, char base[32]); /* the rest of the path, from `base` for open_as */
size_t links_above_last(const char *path); /* its length without the last name */
void links_begin(struct broker *broker, pid_t first);
/* 0, the error, or -1 as above; the caller is one that is_link or io_uring_setup(2) let ask. */
int links_answer(const struct broker *broker, const struct seccomp_notif *call);

struct seccomp_data;
struct program;
/* ---- pairs.c: whether a refused call asks for a pair of datagrams, in whose place the filters allow another */
bool pairs_is_datagram(const struct seccomp_data *call);
bool pairs_may_replace(const struct program *filters, size_t count, const struct seccomp_data *call);
int pairs_answer(const struct broker *broker, const struct seccomp_notif *call); /* as above */

/* ---- confine.c: whether it is connect(2), of one of the ABIs that are handed over */
bool is_connect(const struct seccomp_data *call);
bool is_socket_error(const struct seccomp_data *call); /* getsockopt(2) for SO_ERROR */
bool asks_for_links(const struct seccomp_data *call);  /* symlink(2), symlinkat(2), or what could hide them */
bool is_link(const struct seccomp_data *call, bool *at); /* at: symlinkat(2) */

/* ---- notify_threads.c: connect(2), which is interrupted once its caller has a signal to handle or is gone */
int patient_connect(uint64_t id, pid_t thread, int file, const void *address, socklen_t length);
bool has_signal(const char *status); /* by /proc/PID/status */

/* ---- lookup.c: what a path means to a process, `process` being its directory in /proc */
int open_as(int process, const char *base, const char *path); /* O_PATH, from `base` (cwd, fd/N); -1 and errno */
int open_cached_as(int process, const char *base, const char *path); /* the same, without waiting for a file system (EAGAIN) */
bool device_in(const char *mountinfo, unsigned long mount, uint32_t *device); /* of a mount, by its number */
bool device_of(int process, int file, uint32_t *device);  /* the file system's, where fstat(2) tells another (btrfs) */
uint32_t kernel_device(dev_t device);                     /* as the kernel has it (linux/kdev_t.h) */

/* ---- diag.c: listening Unix sockets of a network namespace (sock_diag(7)) */
int diag_open(void);                      /* ours; -1 and errno */
int diag_open_at(int process);            /* that of a process, by its directory in /proc */
int diag_listens(int diag, uint32_t device, uint32_t inode); /* whether one is bound to this file: 1, 0; -1 unknown */
int diag_bound(int diag, uint32_t socket, uint32_t device, uint32_t inode); /* whether a socket, by its number, is bound to it */
struct diag_question {
    uint32_t sequence, device, inode;
    bool found, cut; /* by the answer; cut: something changed meanwhile, and may be missing */
};
enum diag_answer { DIAG_MORE, DIAG_END, DIAG_FAULT };
enum diag_answer diag_read(const void *answer, size_t length, struct diag_question *question); /* one datagram */

#endif
