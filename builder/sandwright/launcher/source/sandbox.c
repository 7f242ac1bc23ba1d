/* The first process of a sandbox: held so that its number can't mean another. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watch.h"

bool sandbox_open(pid_t number, struct sandbox *sandbox)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld", (long)number);
    *sandbox = (struct sandbox){-1, (int)syscall(SYS_pidfd_open, number, 0), -1, -1};
    sandbox->process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (sandbox->process < 0) {
        if (sandbox->handle >= 0)
            close(sandbox->handle);
        sandbox->handle = -1;
        return false;
    }
    sandbox->mounts = openat(sandbox->process, "mountinfo", O_RDONLY | O_CLOEXEC);
    return sandbox->mounts >= 0;
}

static ssize_t content(const struct sandbox *sandbox, const char *name, char *text, size_t size)
{
    int file = openat(sandbox->process, name, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, size - 1);
    if (file >= 0)
        close(file);
    text[got > 0 ? got : 0] = '\0';
    return got;
}

/* Number 1 in a namespace that is not ours (NSpid in proc_pid_status(5)). */
bool sandbox_is_first(const struct sandbox *sandbox)
{
    char text[8192];
    if (content(sandbox, "status", text, sizeof text) <= 0)
        return false;
    char *numbers = strstr(text, "\nNSpid:");
    if (numbers == NULL)
        return false;
    numbers[1 + strcspn(numbers + 1, "\n")] = '\0';
    const char *last = strrchr(numbers, '\t');
    return last != NULL && last > numbers + 7 && strcmp(last, "\t1") == 0;
}

/* Whether we ourselves are in a namespace of processes below that of /proc. */
bool sandbox_is_here(void)
{
    struct sandbox own = {.process = open("/proc/thread-self", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    char text[8192];
    if (own.process < 0 || content(&own, "status", text, sizeof text) <= 0)
        return false;
    close(own.process);
    const char *numbers = strstr(text, "\nNSpid:\t");
    return numbers != NULL && memchr(numbers + 8, '\t', strcspn(numbers + 8, "\n")) != NULL;
}

int sandbox_waits(const struct sandbox *sandbox, int descriptor)
{
    char text[256];
    if (content(sandbox, "syscall", text, sizeof text) <= 0)
        return -1;
    char *rest;
    long number = strtol(text, &rest, 10);
    return text[0] >= '0' && text[0] <= '9' && number == SYS_read && strtol(rest, NULL, 16) == descriptor;
}

bool sandbox_end(const struct sandbox *sandbox, pid_t number)
{
    char text[16];
    if (sandbox->handle >= 0)
        return syscall(SYS_pidfd_send_signal, sandbox->handle, SIGKILL, NULL, 0) == 0 || errno == ESRCH;
    /* Before Linux 5.3: the directory in /proc is still that of the process while its files can be read. */
    return content(sandbox, "comm", text, sizeof text) <= 0 || kill(number, SIGKILL) == 0;
}
