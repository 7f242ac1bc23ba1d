/* Installs the seccomp filters in the process that executes the command, and sends their listener to the
 * supervisor (notify.c). Calls that the filter refuses become notifications, so that the supervisor can count
 * them, and so does connect(2) where the supervisor makes the connections. This runs in the first program
 * inside bubblewrap (init/source/main.c), and in the child under landlock and `user`. */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "broker.h"
#include "refusals.h"
#include "launch.h"

/* The system calls of the 32-bit ABI that this processor's kernel may support. */
#if defined(__x86_64__)
enum { OTHER = AUDIT_ARCH_I386, OTHER_CONNECT = 362, OTHER_SOCKET = 359, OTHER_PAIR = 360, OTHER_SECCOMP = 354,
       OTHER_GETSOCKOPT = 365, OTHER_ANY = 102 /* socketcall */, OTHER_SYMLINK = 83, OTHER_SYMLINKAT = 304,
       SYMLINK = SYS_symlink };
#elif defined(__aarch64__)
enum { OTHER = AUDIT_ARCH_ARM, OTHER_CONNECT = 283, OTHER_SOCKET = 281, OTHER_PAIR = 288, OTHER_SECCOMP = 383,
       OTHER_GETSOCKOPT = 295, OTHER_ANY = -1, OTHER_SYMLINK = 83, OTHER_SYMLINKAT = 331, SYMLINK = -1 };
#else
#error "another processor"
#endif

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
/* Linux 5.19: a signal does not interrupt a call that the supervisor has received. */
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), yes, no)
#define GIVE(action) BPF_STMT(BPF_RET | BPF_K, action)

/* Further calls become notifications or errors where the supervisor connects. Datagrams can carry an address
 * in each call, and io_uring and socketcall hide addresses from filters. A process with a listener of its own
 * could let every call go on, so a second listener fails with EBUSY: the kernel itself refuses one only while
 * ours exists, but this holds after the supervisor has died, too. Masking 0x40000000 removes the bit of x32's
 * calls. Arguments are ints, in the lower half (little-endian). The sandbox's own filter follows the last
 * instruction. */
static struct sock_filter asks[] = {
    /*  0 */ LOAD(arch),
    /*  1 */ IS(OTHER, 0, 8),
    /*  2 */ LOAD(nr),
    /*  3 */ IS(OTHER_CONNECT, 27, 0),
    /*  4 */ IS(OTHER_SOCKET, 13, 0),
    /*  5 */ IS(OTHER_PAIR, 12, 0),
    /*  6 */ IS(OTHER_ANY, 24, 0),
    /*  7 */ IS(OTHER_SECCOMP, 16, 0),
    /*  8 */ IS(OTHER_GETSOCKOPT, 18, 0),
    /*  9 */ IS(SYS_io_uring_setup, 21, 22),
    /* 10 */ LOAD(nr),
    /* 11 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~0x40000000U),
    /* 12 */ IS(SYS_connect, 18, 0),
    /* 13 */ IS(SYS_socket, 4, 0),
    /* 14 */ IS(SYS_socketpair, 3, 0),
    /* 15 */ IS(SYS_seccomp, 8, 0),
    /* 16 */ IS(SYS_getsockopt, 10, 0),
    /* 17 */ IS(SYS_io_uring_setup, 13, 14),
    /* 18 */ LOAD(args[0]),
    /* 19 */ IS(AF_UNIX, 0, 12),
    /* 20 */ LOAD(args[1]),
    /* 21 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
    /* 22 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SOCK_DGRAM, 8, 0), /* SOCK_DGRAM, or SOCK_RAW, which counts as the same */
    /* 23 */ BPF_STMT(BPF_JMP | BPF_JA, 8),
    /* 24 */ LOAD(args[1]),
    /* 25 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 6),
    /* 26 */ GIVE(SECCOMP_RET_ERRNO | EBUSY),
    /* 27 */ LOAD(args[1]),
    /* 28 */ IS(SOL_SOCKET, 0, 3),
    /* 29 */ LOAD(args[2]),
    /* 30 */ IS(SO_ERROR, 0, 1),
    /* 31 */ GIVE(SECCOMP_RET_USER_NOTIF), /* the supervisor connects, or refuses and counts the call */
};

/* Where the supervisor creates links (links.c), this comes before one of the other filters. io_uring can
 * create links, too. */
static struct sock_filter links_first[] = {
    /*  0 */ LOAD(arch),
    /*  1 */ IS(OTHER, 0, 3),
    /*  2 */ LOAD(nr),
    /*  3 */ IS(OTHER_SYMLINK, 6, 0),
    /*  4 */ IS(OTHER_SYMLINKAT, 5, 4),
    /*  5 */ LOAD(nr),
    /*  6 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~0x40000000U),
    /*  7 */ IS(SYMLINK, 2, 0),
    /*  8 */ IS(SYS_symlinkat, 1, 0),
    /*  9 */ IS(SYS_io_uring_setup, 0, 1),
    /* 10 */ GIVE(SECCOMP_RET_USER_NOTIF),
};

_Static_assert((sizeof asks + sizeof links_first) / sizeof *asks <= ASKS, "room for them");

/* Where the supervisor creates names (creation.c), this comes before the filters above. Calls of the 32-bit
 * ABI go to the kernel, where Landlock refuses them. */
#if defined(__x86_64__)
#define PLAIN(call) SYS_##call
#else
#define PLAIN(call) -1
#endif
static struct sock_filter creates_first[] = {
    /*  0 */ LOAD(arch),
    /*  1 */ IS(NATIVE, 0, 22),
    /*  2 */ LOAD(nr),
    /*  3 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~0x40000000U),
    /*  4 */ IS(SYS_openat, 14, 0),
    /*  5 */ IS(PLAIN(open), 15, 0),
    /*  6 */ IS(PLAIN(creat), 16, 0),
    /*  7 */ IS(SYS_openat2, 15, 0),
    /*  8 */ IS(PLAIN(mkdir), 14, 0),
    /*  9 */ IS(SYS_mkdirat, 13, 0),
    /* 10 */ IS(PLAIN(mknod), 12, 0),
    /* 11 */ IS(SYS_mknodat, 11, 0),
    /* 12 */ IS(PLAIN(symlink), 10, 0),
    /* 13 */ IS(SYS_symlinkat, 9, 0),
    /* 14 */ IS(PLAIN(link), 8, 0),
    /* 15 */ IS(SYS_linkat, 7, 0),
    /* 16 */ IS(PLAIN(rename), 6, 0),
    /* 17 */ IS(SYS_renameat, 5, 0),
    /* 18 */ IS(SYS_renameat2, 4, 5),
    /* 19 */ LOAD(args[2]),
    /* 20 */ BPF_STMT(BPF_JMP | BPF_JA, 1),
    /* 21 */ LOAD(args[1]),
    /* 22 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 0, 1),
    /* 23 */ GIVE(SECCOMP_RET_USER_NOTIF),
};
_Static_assert((sizeof asks + sizeof links_first + sizeof creates_first) / sizeof *asks <= ASKS, "room for them");

/* Where the supervisor makes no connections. */
static struct sock_filter denies_listener[] = {
    /*  0 */ LOAD(arch),
    /*  1 */ IS(OTHER, 0, 2),
    /*  2 */ LOAD(nr),
    /*  3 */ IS(OTHER_SECCOMP, 3, 6),
    /*  4 */ LOAD(nr),
    /*  5 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~0x40000000U),
    /*  6 */ IS(SYS_seccomp, 0, 3),
    /*  7 */ LOAD(args[1]),
    /*  8 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 1),
    /*  9 */ GIVE(SECCOMP_RET_ERRNO | EBUSY),
};
_Static_assert((sizeof denies_listener + sizeof links_first) / sizeof *denies_listener <= ASKS, "room for them");

/* Under landlock, where the supervisor creates the sockets (socket_broker.c). Another filter kills calls of
 * other ABIs. */
static struct sock_filter makes[] = {
    /*  0 */ LOAD(nr),
    /*  1 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~0x40000000U),
    /*  2 */ IS(SYS_connect, 17, 0),
    /*  3 */ IS(SYS_bind, 16, 0),
    /*  4 */ IS(SYS_listen, 15, 0),
    /*  5 */ IS(SYS_socket, 5, 0),
    /*  6 */ IS(SYS_getsockopt, 9, 0),
    /*  7 */ IS(SYS_seccomp, 0, 13),
    /*  8 */ LOAD(args[1]),
    /*  9 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 11),
    /* 10 */ GIVE(SECCOMP_RET_ERRNO | EBUSY),
    /* 11 */ LOAD(args[0]),
    /* 12 */ IS(AF_UNIX, 7, 0),
    /* 13 */ IS(AF_INET, 6, 0),
    /* 14 */ IS(AF_INET6, 5, 0),
    /* 15 */ IS(AF_NETLINK, 4, 5),
    /* 16 */ LOAD(args[1]),
    /* 17 */ IS(SOL_SOCKET, 0, 3),
    /* 18 */ LOAD(args[2]),
    /* 19 */ IS(SO_ERROR, 0, 1),
    /* 20 */ GIVE(SECCOMP_RET_USER_NOTIF),
};
_Static_assert((sizeof makes + sizeof links_first) / sizeof *makes <= ASKS, "room for them");

bool is_connect(const struct seccomp_data *call)
{
    return call->arch == OTHER ? call->nr == OTHER_CONNECT : (call->nr & ~0x40000000) == SYS_connect;
}

bool is_socket_error(const struct seccomp_data *call)
{
    bool reads = call->arch == OTHER ? call->nr == OTHER_GETSOCKOPT : (call->nr & ~0x40000000) == SYS_getsockopt;
    return reads && (uint32_t)call->args[1] == SOL_SOCKET && (uint32_t)call->args[2] == SO_ERROR;
}

bool is_link(const struct seccomp_data *call, bool *at)
{
    int number = call->nr & ~0x40000000;
    *at = call->arch == OTHER ? call->nr == OTHER_SYMLINKAT : number == SYS_symlinkat;
    return *at || (call->arch == OTHER ? call->nr == OTHER_SYMLINK : number == SYMLINK);
}

bool asks_for_links(const struct seccomp_data *call)
{
    bool at;
    return is_link(call, &at) || (call->nr & ~0x40000000) == SYS_io_uring_setup;
}

static long load(const struct program *filter, unsigned long flags)
{
    const struct sock_fprog program = {(unsigned short)filter->count, filter->at};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static long load_with_listener(const struct program *filter)
{
    const unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    long listener = load(filter, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    return listener < 0 && errno == EINVAL ? load(filter, flags) : listener;
}

static bool hand_over(int channel, int listener)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr head;
    } control = {.bytes = {0}};
    char word = 0;
    struct iovec part = {&word, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), &listener, sizeof listener);
    ssize_t got;
    if (sendmsg(channel, &message, MSG_NOSIGNAL) != 1)
        return false;
    while ((got = recv(channel, &word, 1, 0)) < 0 && errno == EINTR)
        ;
    return got == 1;
}

/* Whether the filters allow the calls that pass the listener on. If one of these calls were itself a
 * notification, nobody could answer it, and it would wait for ever. */
static bool can_hand_over(const struct program *filters, size_t count)
{
    static const struct seccomp_data needed[] = {{.nr = SYS_sendmsg, .arch = NATIVE, .args = {0, 0, MSG_NOSIGNAL}},
                                                 {.nr = SYS_recvfrom, .arch = NATIVE, .args = {0, 0, 1}}};
    for (size_t index = 0; index < sizeof needed / sizeof *needed; index++)
        if (filters_refusal(filters, count, &needed[index], NULL) != 0)
            return false;
    return true;
}

/* An error takes precedence over a notification (seccomp(2)), so the filters loaded already may send
 * notifications. */
void load_filters(const struct program *filters, size_t count)
{
    for (size_t index = count; index-- > 0;)
        if (load(&filters[index], 0) != 0)
            die_errno("cannot load the seccomp filter");
}

/* The other actions for an allowed call, such as a line in the kernel's log, come from these filters only. */
static void load_asking(const struct program *filters, size_t count)
{
    for (size_t index = count; index-- > 0;) {
        struct program asking = filters_joined(NULL, &filters[index], 1);
        if (load(&asking, 0) != 0)
            die_errno("cannot load the seccomp filter");
    }
}

static void add(struct program *whole, const struct sock_filter *part, size_t count)
{
    memcpy(whole->at + whole->count, part, count * sizeof *part);
    whole->count += count;
}

void confine_self(int channel, const struct program *filters, size_t count, enum confining what, unsigned with)
{
    const struct program without = {denies_listener, sizeof denies_listener / sizeof *denies_listener};
    const struct program firsts[] = {without, {asks, sizeof asks / sizeof *asks}, {makes, sizeof makes / sizeof *makes}, without};
    struct sock_filter joined[ASKS];
    struct program first = {joined, 0};
    if ((with & WITH_CREATION) != 0)
        add(&first, creates_first, sizeof creates_first / sizeof *creates_first);
    if ((with & WITH_LINKS) != 0)
        add(&first, links_first, sizeof links_first / sizeof *links_first);
    add(&first, firsts[what].at, firsts[what].count);
    struct program whole = filters_joined(&first, filters, count);
    bool able = whole.at != NULL && can_hand_over(filters, count);
    if (able && count > 1)
        load_asking(filters, count);
    int fault = able ? 0 : EPERM, listener = able ? (int)load_with_listener(&whole) : -1;
    if (listener < 0) {
        errno = fault != 0 ? fault : errno;
        if (what == ASK_NAMES)
            die_errno("cannot supervise the files of the command (seccomp(2))");
        if (with != 0 && what == ASK_REFUSALS)
            die_errno("cannot supervise the creation of %s (seccomp(2))", with == WITH_LINKS ? "links in Git directories" : "files");
        if (what != ASK_REFUSALS)
            die_errno("cannot supervise connections, which network.own_sockets and unix_sockets need (seccomp(2))");
        warn("cannot report denials: %s (seccomp(2))", strerror(errno));
        load_filters(filters, count);
        return;
    }
    if (!hand_over(channel, listener))
        _exit(NOT_RUN); /* the supervisor has reported the reason */
    close(listener);
}

struct program read_filter(int file)
{
    static char bytes[MOST_INSTRUCTIONS * sizeof(struct sock_filter)];
    struct program filter;
    ssize_t got = read(file, bytes, sizeof bytes);
    if (got <= 0 || !filter_parse(bytes, (size_t)got, &filter))
        die("cannot read the seccomp filter");
    return filter;
}

char **confine_enter(char **words)
{
    int files[2]; /* the socket to the supervisor, the sandbox's filter */
    bool connects = words[0] != NULL && strncmp(words[0], "connects", strlen("connects")) == 0;
    unsigned with = words[0] == NULL ? 0 : (strstr(words[0], ",links") != NULL ? WITH_LINKS : 0) |
                                               (strstr(words[0], ",creation") != NULL ? WITH_CREATION : 0);
    for (int index = 0; index < 2; index++) {
        files[index] = words[0] == NULL || words[index + 1] == NULL ? -1 : atoi(words[index + 1]);
        if (files[index] < 3 || fcntl(files[index], F_SETFD, FD_CLOEXEC) != 0)
            die("this part of the launcher runs inside the sandbox");
    }
    struct program filter = read_filter(files[1]);
    confine_self(files[0], &filter, 1, connects ? ASK_CONNECT : ASK_REFUSALS, with);
    for (int index = 0; index < 2; index++)
        close(files[index]);
    return words + 3;
}
