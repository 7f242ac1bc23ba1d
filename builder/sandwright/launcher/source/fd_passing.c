/* Passes file descriptors between processes through a Unix socket (SCM_RIGHTS, unix(7)). */
#define _GNU_SOURCE
#include <sys/socket.h>

#include "ports.h"

ssize_t pass_files(int socket, struct iovec words, const int *files, size_t number)
{
    char control[CMSG_SPACE(PASSED * sizeof *files)] = {0};
    struct msghdr message = {.msg_iov = &words, .msg_iovlen = 1};
    if (number > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(number * sizeof *files);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_len = CMSG_LEN(number * sizeof *files);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        memcpy(CMSG_DATA(head), files, number * sizeof *files);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL);
}

int take_files(int socket, struct iovec words, int files[PASSED])
{
    char control[CMSG_SPACE(PASSED * sizeof *files)];
    struct msghdr message = {.msg_iov = &words, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *head = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
    size_t size = head != NULL && head->cmsg_type == SCM_RIGHTS ? head->cmsg_len - CMSG_LEN(0) : 0;
    memcpy(files, size > 0 ? (const void *)CMSG_DATA(head) : (const void *)&size, size);
    return got == (ssize_t)words.iov_len ? (int)(size / sizeof *files) : -1;
}
