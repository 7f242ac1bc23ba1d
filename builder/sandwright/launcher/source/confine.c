/* launch --confine PROGRAM CHANNEL COMMAND...: the first program inside. It hands connect(2) of all that is started from here to the
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
#include "launch.h"

/* Of this processor's own calls, and of the 32-bit ones that its kernel may know. */
#if defined(__x86_64__)
enum { OTHER = AUDIT_ARCH_I386, OTHER_CONNECT = 362, OTHER_SOCKET = 359, OTHER_PAIR = 360, OTHER_ANY = 102 /* socketcall */ };
#elif defined(__aarch64__)
enum { OTHER = AUDIT_ARCH_ARM, OTHER_CONNECT = 283, OTHER_SOCKET = 281, OTHER_PAIR = 288, OTHER_ANY = -1 };
#else
#error "another processor"
#endif

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* Linux 5.19: a signal interrupts no call that was taken */
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), yes, no)
#define GIVE(action) BPF_STMT(BPF_RET | BPF_K, action)

/* Datagrams bring addresses of their own, and io_uring and socketcall hide theirs. The upper bit is that of x32's calls;
 * arguments are ints, in the lower half (little-endian). */
static struct sock_filter asks[] = {
    /*  0 */ LOAD(arch),
    /*  1 */ IS(OTHER, 0, 6),
    /*  2 */ LOAD(nr),
    /*  3 */ IS(OTHER_CONNECT, 17, 0),
    /*  4 */ IS(OTHER_SOCKET, 9, 0),
    /*  5 */ IS(OTHER_PAIR, 8, 0),
    /*  6 */ IS(OTHER_ANY, 13, 0),
    /*  7 */ IS(SYS_io_uring_setup, 12, 11),
    /*  8 */ LOAD(nr),
    /*  9 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~0x40000000U),
    /* 10 */ IS(SYS_connect, 10, 0),
    /* 11 */ IS(SYS_socket, 2, 0),
    /* 12 */ IS(SYS_socketpair, 1, 0),
    /* 13 */ IS(SYS_io_uring_setup, 6, 5),
    /* 14 */ LOAD(args[0]),
    /* 15 */ IS(AF_UNIX, 0, 3),
    /* 16 */ LOAD(args[1]),
    /* 17 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
    /* 18 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SOCK_DGRAM, 1, 0), /* or SOCK_RAW, which is taken for the same */
    /* 19 */ GIVE(SECCOMP_RET_ALLOW),
    /* 20 */ GIVE(SECCOMP_RET_ERRNO | EPERM),
    /* 21 */ GIVE(SECCOMP_RET_USER_NOTIF),
};

static int program, channel; /* descriptors: this program, and the supervisor's */

static int listen_for_calls(void)
{
    const struct sock_fprog filter = {sizeof asks / sizeof *asks, asks};
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
    if (channel < 3 || words[2] == NULL || fcntl(program, F_SETFD, FD_CLOEXEC) != 0 || fcntl(channel, F_SETFD, FD_CLOEXEC) != 0)
        refuse("this is the part of the launcher that runs inside");
    int listener = listen_for_calls();
    if (!hand_over(listener))
        _exit(NOT_RUN); /* the supervisor has said why */
    close(listener);
    close(channel);
    close(program);
    exec_command(words + 2, environ);
}
