/* Asks the kernel to which files the listening Unix sockets of a network namespace are bound. The kernel
 * reports only the lower 32 bits of an inode's number (linux/unix_diag.h). */
#define _GNU_SOURCE
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "broker.h"
#include "utils.h"

enum { LISTENING = 1 << 10, TRIES = 4 }; /* the bit of TCP_LISTEN (net/tcp_states.h) */

static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
static uint32_t sequences;

int diag_open(void)
{
    struct timeval most = {.tv_sec = 10};
    int diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (diag >= 0)
        setsockopt(diag, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    return diag;
}

/* Runs in a child that shares the descriptors, because a process with several threads can't enter a user
 * namespace. */
static int enter_and_open(int network, int users, int place)
{
    int diag = -1;
    if ((users < 0 || setns(users, CLONE_NEWUSER) == 0) && setns(network, CLONE_NEWNET) == 0)
        diag = diag_open();
    return diag >= 0 && dup3(diag, place, O_CLOEXEC) == place && close(diag) == 0 ? 0 : 1;
}

int diag_open_at(int process)
{
    struct stat own, there;
    int status = 1, place = open("/dev/null", O_RDONLY | O_CLOEXEC);
    _cleanup_close_ int network = openat(process, "ns/net", O_RDONLY | O_CLOEXEC), users = network < 0 ? -1 : ioctl(network, NS_GET_USERNS);
    if (users >= 0 && stat("/proc/self/ns/user", &own) == 0 && fstat(users, &there) == 0 && own.st_ino == there.st_ino) {
        close(users);
        users = -1;
    }
    pid_t child = network < 0 || place < 0 ? -1 : (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        _exit(enter_and_open(network, users, place));
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (status == 0)
        return place;
    close(place);
    return -1;
}

/* `at`: the attributes of a socket. */
static bool is_bound(const char *at, size_t left, uint32_t device, uint32_t inode)
{
    struct nlattr attribute;
    struct unix_diag_vfs file;
    while (left >= sizeof attribute) {
        memcpy(&attribute, at, sizeof attribute);
        if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > left)
            return false;
        if (attribute.nla_type == UNIX_DIAG_VFS && attribute.nla_len >= NLA_HDRLEN + sizeof file) {
            memcpy(&file, at + NLA_HDRLEN, sizeof file);
            return file.udiag_vfs_dev == device && file.udiag_vfs_ino == inode;
        }
        size_t whole = NLA_ALIGN(attribute.nla_len);
        at += whole < left ? whole : left;
        left -= whole < left ? whole : left;
    }
    return false;
}

enum diag_answer diag_read(const void *answer, size_t length, struct diag_question *question)
{
    const size_t fixed = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct unix_diag_msg));
    struct nlmsghdr head;
    for (const char *at = answer; length >= sizeof head;) {
        memcpy(&head, at, sizeof head);
        if (head.nlmsg_len < NLMSG_HDRLEN || head.nlmsg_len > length)
            return DIAG_FAULT;
        bool ours = head.nlmsg_seq == question->sequence;
        question->cut = question->cut || (ours && (head.nlmsg_flags & NLM_F_DUMP_INTR) != 0);
        if (ours && head.nlmsg_type == NLMSG_ERROR)
            return DIAG_FAULT;
        if (ours && head.nlmsg_type == NLMSG_DONE)
            return DIAG_END;
        if (ours && head.nlmsg_type == SOCK_DIAG_BY_FAMILY && head.nlmsg_len > fixed &&
            is_bound(at + fixed, head.nlmsg_len - fixed, question->device, question->inode))
            question->found = true;
        size_t whole = NLMSG_ALIGN(head.nlmsg_len);
        at += whole < length ? whole : length;
        length -= whole < length ? whole : length;
    }
    return length == 0 ? DIAG_MORE : DIAG_FAULT;
}

/* `socket`: asks for this socket only, by the lower half of its inode number; 0: for all that listen. */
static int ask(int diag, uint32_t socket, uint32_t device, uint32_t inode)
{
    static char answer[32768];
    struct {
        struct nlmsghdr head;
        struct unix_diag_req asked;
    } words = {
        .head = {.nlmsg_len = sizeof words, .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | (socket == 0 ? NLM_F_DUMP : 0)), .nlmsg_seq = ++sequences},
        .asked = {.sdiag_family = AF_UNIX, .udiag_states = LISTENING, .udiag_ino = socket, .udiag_show = UDIAG_SHOW_VFS,
                  .udiag_cookie = {UINT32_MAX, UINT32_MAX}},
    };
    struct diag_question question = {.sequence = sequences, .device = device, .inode = inode};
    if (send(diag, &words, sizeof words, 0) != (ssize_t)sizeof words)
        return -1;
    for (;;) {
        ssize_t got = recv(diag, answer, sizeof answer, MSG_TRUNC);
        if (got < 0 && errno == EINTR)
            continue;
        enum diag_answer said = got <= 0 || (size_t)got > sizeof answer ? DIAG_FAULT
                                : diag_read(answer, (size_t)got, &question);
        if (said == DIAG_FAULT)
            return -1;
        if (socket != 0) /* the reply to a single socket is one message */
            return question.found ? 1 : 0;
        if (said == DIAG_END)
            return question.found ? 1 : question.cut ? -1 : 0;
    }
}

static int ask_again(int diag, uint32_t socket, uint32_t device, uint32_t inode)
{
    int answer = -1;
    pthread_mutex_lock(&asking);
    for (int tries = 0; answer < 0 && tries < TRIES; tries++)
        answer = ask(diag, socket, device, inode);
    pthread_mutex_unlock(&asking);
    return answer;
}

int diag_listens(int diag, uint32_t device, uint32_t inode)
{
    return ask_again(diag, 0, device, inode);
}

int diag_bound(int diag, uint32_t socket, uint32_t device, uint32_t inode)
{
    return socket == 0 ? -1 : ask_again(diag, socket, device, inode);
}
