/* The first process of a sandbox, held by a pidfd, so that its PID can't mean another process. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>

#include "launch.h"
#include "watch.h"

bool sandbox_open(pid_t number, struct sandbox *sandbox)
{
    *sandbox = (struct sandbox){-1, (int)syscall(SYS_pidfd_open, number, 0), -1, -1};
    if (sandbox->handle >= 0)
        sandbox->process = open(xasprintf("/proc/%ld", (long)number), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (sandbox->process >= 0)
        sandbox->mounts = openat(sandbox->process, "mountinfo", O_RDONLY | O_CLOEXEC);
    return sandbox->mounts >= 0;
}

/* Whether the process is PID 1 in a PID namespace other than the watch's (NSpid in proc_pid_status(5)). */
static bool is_below_us(int process, const char *last)
{
    _cleanup_free_ char *status = read_file(process, "status", 1 << 16, NULL);
    char *numbers = status == NULL ? NULL : strstr(status, "\nNSpid:\t");
    if (numbers == NULL)
        return false;
    numbers += strlen("\nNSpid:\t");
    numbers[strcspn(numbers, "\n")] = '\0';
    const char *inner = strrchr(numbers, '\t');
    return inner != NULL && (last == NULL || strcmp(inner + 1, last) == 0);
}

bool sandbox_is_first(const struct sandbox *sandbox)
{
    return is_below_us(sandbox->process, "1");
}

/* Whether this process is in a PID namespace below that of /proc. */
bool sandbox_is_here(void)
{
    int own = open("/proc/thread-self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool here = own >= 0 && is_below_us(own, NULL);
    close(own);
    return here;
}

int sandbox_waits(const struct sandbox *sandbox, int descriptor)
{
    char *call = read_file(sandbox->process, "syscall", 4096, NULL), *rest = NULL;
    int waits = call == NULL || *call == '\0' ? -1
                : *call >= '0' && *call <= '9' && strtol(call, &rest, 10) == SYS_read && strtol(rest, NULL, 16) == descriptor;
    free(call);
    return waits;
}

void sandbox_end(const struct sandbox *sandbox)
{
    if (sandbox->handle >= 0)
        syscall(SYS_pidfd_send_signal, sandbox->handle, SIGKILL, NULL, 0);
}
