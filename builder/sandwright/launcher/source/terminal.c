/* A terminal of the command's own, which the launcher relays: the sandbox can't type into ours (CVE-2017-5226). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "launch.h"

static int own = -1, master = -1, slave = -1; /* ours: standard input, in the keeper too, which has another one there */
static struct termios before;
static bool raw;
static char typed[4096]; /* what the command's terminal hasn't taken yet; no key is read before */
static size_t typed_at, typed_end;
static bool copies;

bool terminal_open(struct run *run)
{
    char name[32];
    unsigned number;
    int locked = 0;
    if (!run->terminal || run->method->terminal == TERMINAL_PASSED)
        return false;
    if ((own = fcntl(0, F_DUPFD_CLOEXEC, 3)) < 0 || tcgetattr(own, &before) != 0 ||
        (master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) < 0 ||
        ioctl(master, TIOCSPTLCK, &locked) != 0 || ioctl(master, TIOCGPTN, &number) != 0)
        refuse_errno("no terminal can be made");
    if ((slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) { /* before Linux 4.13 */
        snprintf(name, sizeof name, "/dev/pts/%u", number);
        slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    }
    if (slave < 0 || tcsetattr(slave, TCSANOW, &before) != 0)
        refuse_errno("no terminal can be made");
    terminal_resize();
    return true;
}

void terminal_resize(void)
{
    struct winsize size;
    if (ioctl(own, TIOCGWINSZ, &size) == 0)
        ioctl(master, TIOCSWINSZ, &size);
}

static void pass_keys(void)
{
    struct termios all = before;
    cfmakeraw(&all);
    raw = tcsetattr(own, TCSANOW, &all) == 0;
}

void terminal_begin(struct run *run)
{
    (void)run;
    close(slave);
    slave = -1;
    copies = true;
    pass_keys();
}

void terminal_give(struct run *run)
{
    (void)run;
    if (slave < 0)
        return;
    raw = true; /* or will be */
    close(master);
    master = -1;
    for (int number = 0; number < 3; number++)
        if (isatty(number) && dup2(slave, number) < 0)
            refuse_errno("no terminal can be given");
}

void terminal_control(void)
{
    if (setsid() < 0 || (slave >= 0 && ioctl(slave, TIOCSCTTY, 0) != 0))
        refuse_errno("no terminal can be given");
}

void terminal_restore(void)
{
    if (raw)
        tcsetattr(own, TCSANOW, &before);
    raw = false;
}

void terminal_stop(void)
{
    terminal_restore();
    raise(SIGSTOP);
    pass_keys();
    terminal_resize();
}

size_t terminal_wait(struct pollfd *each)
{
    if (!copies)
        return 0;
    bool more = typed_at < typed_end;
    each[0] = (struct pollfd){.fd = master, .events = (short)(POLLIN | (more ? POLLOUT : 0))};
    each[1] = (struct pollfd){.fd = more ? -1 : own, .events = POLLIN};
    return 2;
}

/* False when nothing is there to be written; `copies` ends with either side. */
static bool show(void)
{
    char block[65536];
    ssize_t got = read(master, block, sizeof block);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    copies = copies && got > 0; /* EIO: nobody has the other side open */
    for (ssize_t done = 0; done < got && copies;) {
        ssize_t wrote = write(1, block + done, (size_t)(got - done));
        struct pollfd writable = {.fd = 1, .events = POLLOUT};
        if (wrote > 0)
            done += wrote;
        else if (errno == EAGAIN)
            poll(&writable, 1, -1);
        else if (errno != EINTR)
            copies = false;
    }
    return copies;
}

void terminal_copy(const struct pollfd *each)
{
    if (each[1].revents != 0) {
        ssize_t got = read(own, typed, sizeof typed);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            copies = false;
        typed_at = 0;
        typed_end = got > 0 ? (size_t)got : 0;
    }
    if (typed_at < typed_end) {
        ssize_t wrote = write(master, typed + typed_at, typed_end - typed_at);
        typed_at += wrote > 0 ? (size_t)wrote : 0;
        copies = copies && (wrote > 0 || errno == EAGAIN || errno == EINTR);
    }
    if (each[0].revents != 0)
        show();
}

void terminal_drain(void)
{
    while (copies && show())
        ;
}
