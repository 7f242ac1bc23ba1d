/* socketpair(2) with datagrams: an end of such a pair can send to any address, so the filters refuse it. The
 * supervisor creates a pair of SOCK_SEQPACKET instead, which also keeps message boundaries but takes no
 * address (unix(7)), and passes it to the program. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker.h"
#include "filter.h"
#include "launch.h"

enum { TYPE = 0xf };

bool pairs_is_datagram(const struct seccomp_data *call)
{
    return call->arch == NATIVE && call->nr == SYS_socketpair && (uint32_t)call->args[0] == AF_UNIX &&
           (call->args[1] & TYPE) == SOCK_DGRAM && (uint32_t)call->args[2] == 0;
}

bool pairs_may_replace(const struct program *filters, size_t count, const struct seccomp_data *call)
{
    struct seccomp_data other = *call;
    other.args[1] = (other.args[1] & ~(uint64_t)TYPE) | SOCK_SEQPACKET;
    return pairs_is_datagram(call) && filters_refusal(filters, count, &other, NULL) == 0;
}

static int hand_in(const struct broker *broker, const struct seccomp_notif *call, int file)
{
    struct seccomp_notif_addfd added = {.id = call->id, .srcfd = (uint32_t)file,
                                        .newfd_flags = (call->data.args[1] & SOCK_CLOEXEC) != 0 ? O_CLOEXEC : 0};
    return ioctl(broker->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &added);
}

/* Writes to the caller's memory before it passes the descriptors, because these can't be taken back. */
int pairs_answer(const struct broker *broker, const struct seccomp_notif *call)
{
    char name[40];
    int numbers[2];
    off_t at = (off_t)call->data.args[3];
    snprintf(name, sizeof name, "/proc/%d/mem", (int)call->pid);
    _cleanup_close_ int memory = open(name, O_RDWR | O_CLOEXEC);
    if (memory < 0)
        return EACCES;
    if (!broker_valid(broker, call->id))
        return -1;
    if (at < 0 || pread(memory, numbers, sizeof numbers, at) != sizeof numbers)
        return EFAULT;
    _cleanup_close_ int one = -1, other = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (call->data.args[1] & SOCK_NONBLOCK), 0, numbers) != 0)
        return errno;
    one = numbers[0];
    other = numbers[1];
    if ((numbers[0] = hand_in(broker, call, one)) < 0 || (numbers[1] = hand_in(broker, call, other)) < 0)
        return errno == ENOENT ? -1 : errno;
    return pwrite(memory, numbers, sizeof numbers, at) == sizeof numbers ? 0 : EFAULT;
}
