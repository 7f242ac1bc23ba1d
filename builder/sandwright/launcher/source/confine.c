/* launch --confine PROGRAM CHANNEL FILTER COMMAND...: the first program inside. It hands connect(2) of all that is started from here to the
 * supervisor outside (notify.c), and becomes the command. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker.h"
#include "denied.h"
#include "launch.h"

/* Of this processor's own calls, and of the 32-bit ones that its kernel may know. */
#if defined(__x86_64__)
enum { OTHER = AUDIT_ARCH_I386, OTHER_CONNECT = 362, OTHER_SOCKET = 359, OTHER_PAIR = 360, OTHER_SECCOMP = 354,
       OTHER_ANY = 102 /* socketcall */ };
#elif defined(__aarch64__)
enum { OTHER = AUDIT_ARCH_ARM, OTHER_CONNECT = 283, OTHER_SOCKET = 281, OTHER_PAIR = 288, OTHER_SECCOMP = 383,
       OTHER_ANY = -1 };
#else
#error "another processor"
#endif

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* Linux 5.19: a signal interrupts no call that was taken */
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), yes, no)
#define GIVE(action) BPF_STMT(BPF_RET | BPF_K, action)

/* Datagrams bring addresses of their own, and io_uring and socketcall hide theirs. Who had a listener could let all run that
 * is asked: while ours is there, the kernel makes no second; this holds when the supervisor has died. The upper bit is that of
 * x32's calls; arguments are ints, in the lower half (little-endian). Behind the last stands the sandbox's own filter. */
static struct sock_filter asks[] = {
    /*  0 */ LOAD(arch),
    /*  1 */ IS(OTHER, 0, 7),
    /*  2 */ LOAD(nr),
    /*  3 */ IS(OTHER_CONNECT, 21, 0),
    /*  4 */ IS(OTHER_SOCKET, 11, 0),
    /*  5 */ IS(OTHER_PAIR, 10, 0),
    /*  6 */ IS(OTHER_ANY, 18, 0),
    /*  7 */ IS(OTHER_SECCOMP, 14, 0),
    /*  8 */ IS(SYS_io_uring_setup, 16, 17),
    /*  9 */ LOAD(nr),
    /* 10 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~0x40000000U),
    /* 11 */ IS(SYS_connect, 13, 0),
    /* 12 */ IS(SYS_socket, 3, 0),
    /* 13 */ IS(SYS_socketpair, 2, 0),
    /* 14 */ IS(SYS_seccomp, 7, 0),
    /* 15 */ IS(SYS_io_uring_setup, 9, 10),
    /* 16 */ LOAD(args[0]),
    /* 17 */ IS(AF_UNIX, 0, 8),
    /* 18 */ LOAD(args[1]),
    /* 19 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
    /* 20 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SOCK_DGRAM, 4, 0), /* or SOCK_RAW, which is taken for the same */
    /* 21 */ BPF_STMT(BPF_JMP | BPF_JA, 4),
    /* 22 */ LOAD(args[1]),
    /* 23 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 2),
    /* 24 */ GIVE(SECCOMP_RET_ERRNO | EBUSY),
    /* 25 */ GIVE(SECCOMP_RET_USER_NOTIF), /* connected, or refused and counted */
};
_Static_assert(sizeof asks / sizeof *asks <= ASKS, "room for them");

static int program, channel, rendered; /* descriptors: this program, the supervisor's, the sandbox's own filter */

bool is_connect(const struct seccomp_data *call)
{
    return call->arch == OTHER ? call->nr == OTHER_CONNECT : (call->nr & ~0x40000000) == SYS_connect;
}

/* Behind those asks, what the filter of the sandbox asks, which is loaded already: only the newest has a listener. */
static struct sock_fprog whole_filter(void)
{
    static struct sock_filter whole[MOST_INSTRUCTIONS];
    const size_t first = sizeof asks / sizeof *asks;
    memcpy(whole, asks, sizeof asks);
    ssize_t got = read(rendered, whole + first, sizeof whole - sizeof asks);
    if (got <= 0 || (size_t)got % sizeof *whole != 0)
        refuse("the filter can't be read");
    return (struct sock_fprog){(unsigned short)(first + (size_t)got / sizeof *whole), whole};
}

static int listen_for_calls(void)
{
    const struct sock_fprog filter = whole_filter();
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
    if (listener < 0 && errno == EINVAL)
        listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
    if (listener < 0)
        refuse_errno("connections can't be supervised, as network.own_sockets and unix_sockets need it (seccomp(2))");
    return (int)listener;
}

static bool hand_over(int listener)
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

_Noreturn void confine(char **words)
{
    program = words[0] == NULL ? -1 : atoi(words[0]);
    channel = program < 3 || words[1] == NULL ? -1 : atoi(words[1]);
    rendered = channel < 3 || words[2] == NULL ? -1 : atoi(words[2]);
    if (rendered < 3 || words[3] == NULL || fcntl(program, F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(channel, F_SETFD, FD_CLOEXEC) != 0 || fcntl(rendered, F_SETFD, FD_CLOEXEC) != 0)
        refuse("this is the part of the launcher that runs inside");
    int listener = listen_for_calls();
    if (!hand_over(listener))
        _exit(NOT_RUN); /* the supervisor has said why */
    close(listener);
    close(channel);
    close(program);
    close(rendered);
    exec_command(words + 3, environ);
}
