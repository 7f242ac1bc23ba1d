/* The start of QEMU's machine: loads drivers from the initramfs, and mounts the host's files over 9p
 * (guest.c). */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "guest.h"
#include "launch.h"

enum { TRIES = 5000, PAUSE = 1000 }; /* attempts, microseconds: the port appears some time after its driver */

static void load_modules(void)
{
    for (int index = 0;; index++) {
        int file = open(xasprintf("/modules/%02d", index), O_RDONLY | O_CLOEXEC);
        if (file < 0)
            return;
        if (syscall(SYS_finit_module, file, "", 0) != 0 && errno != EEXIST)
            guest_end();
        close(file);
    }
}

int machine_line(void)
{
    int line = -1;
    if (mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, NULL) != 0)
        guest_end();
    load_modules();
    for (int tried = 0; line < 0 && tried < TRIES; tried++) {
        int file = open("/dev/vport0p1", O_RDWR | O_CLOEXEC | O_NONBLOCK);
        line = fcntl(file, F_DUPFD_CLOEXEC, 10);
        close(file);
        if (line < 0)
            usleep(PAUSE);
    }
    if (line < 0)
        guest_end();
    return line;
}

/* Until the relay sends something, nothing of the host is mounted, so the machine can be saved. */
void machine_root(int line)
{
    struct pollfd each = {.fd = line, .events = POLLIN};
    while (poll(&each, 1, -1) < 0 || (each.revents & POLLIN) == 0)
        usleep(PAUSE);
    if (mkdir("/host", 0700) != 0 ||
        mount("host", "/host", "9p", MS_NODEV | MS_NOSUID, "trans=virtio,version=9p2000.L,msize=512000,cache=mmap") != 0)
        guest_refuse("cannot mount the host's files");
    if (chdir("/host") != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0 || chdir("/") != 0 ||
        mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=0755") != 0)
        guest_refuse("cannot change the root directory");
}
