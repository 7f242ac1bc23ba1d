/* The command's pseudo-terminal (pty(7)). The launcher copies data, and passes the window size on (SIGWINCH).
 * With a terminal of its own, the command can't insert input into the user's terminal with TIOCSTI
 * (CVE-2017-5226). */
#define _GNU_SOURCE
#include <sys/ioctl.h>
#include <termios.h>

#include "launch.h"
#include "typeahead.h"

enum { LOOK = 200, RECENT = 5000 }; /* milliseconds */
enum { MOST_LEFT = 1024 };          /* blocks: more than the kernel buffers of a terminal's output */

/* The user's terminal: standard input, even in the monitor, which has another descriptor 0. */
static int own = -1, master = -1, slave = -1;
static pid_t group;                           /* the launcher's process group */
static struct termios before;
static bool raw;
/* Keys that the command's terminal has not accepted yet; no further key is read before. */
static char typed[4096];
static size_t typed_at, typed_end;
static bool copies, arrived;
static long suspended; /* when the suspend key was last pressed */

/* In the background, keys belong to the shell. A terminal that does not control the launcher's session is
 * always read. */
static bool in_front(void)
{
    errno = 0;
    pid_t front = tcgetpgrp(own);
    return front == group || (front < 0 && errno == ENOTTY);
}

/* The settings that a shell uses for its line editor are not passed to the command. Settings of the master
 * are those of the slave. */
static bool settle(void)
{
    struct termios plain;
    if (in_front())
        return tcsetattr(master, TCSANOW, &before) == 0;
    if (tcgetattr(master, &plain) != 0)
        return false;
    plain.c_iflag |= before.c_iflag & IUTF8;
    return tcsetattr(master, TCSANOW, &plain) == 0;
}

void terminal_take(int file)
{
    group = getpgrp();
    master = file;
    if (master < 0 || (own = fcntl(0, F_DUPFD_CLOEXEC, 3)) < 0 || tcgetattr(own, &before) != 0 || !settle())
        die_errno("cannot create a terminal");
    terminal_resize();
}

bool terminal_open(struct run *run)
{
    if (!run->terminal)
        return false;
    terminal_take(terminal_pair(&slave));
    return true;
}

void terminal_resize(void)
{
    struct winsize size;
    if (ioctl(own, TIOCGWINSZ, &size) == 0)
        ioctl(master, TIOCSWINSZ, &size);
}

/* Saves the settings, to restore them later, unless the launcher or a program in raw mode has left them
 * behind. */
static void pass_keys(void)
{
    struct termios all;
    if (!in_front())
        return;
    if (tcgetattr(own, &all) == 0 && (all.c_lflag & ICANON) != 0)
        before = all;
    all = before;
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
    raw = true; /* or will be soon */
    close(master);
    master = -1;
    for (int number = 0; number < 3; number++)
        if (isatty(number) && dup2(slave, number) < 0)
            die_errno("cannot give the command a terminal");
}

void terminal_control(const struct run *run)
{
    if (setsid() < 0 || (slave >= 0 && !run->uncontrolled && ioctl(slave, TIOCSCTTY, 0) != 0))
        die_errno("cannot give the command a terminal");
}

/* Changes nothing if another process group is in the foreground by now, which has its own settings. */
void terminal_restore(void)
{
    if (raw && in_front())
        tcsetattr(own, TCSANOW, &before);
    raw = false;
}

/* Does what the suspend key does outside raw mode: it stops the launcher's process group, if that key was
 * pressed. A command that stops itself stops only the launcher. In an orphaned process group, which nobody
 * would continue, the kernel ignores SIGTSTP (setpgid(2)). */
void terminal_stop(int socket, bool (*has_ended)(int socket))
{
    sigset_t stop, go_on;
    bool key = suspended != 0 && milliseconds() - suspended < RECENT;
    suspended = 0;
    if (has_ended(socket))
        return;
    terminal_restore();
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigemptyset(&go_on);
    sigaddset(&go_on, SIGCONT);
    kill(key ? 0 : getpid(), SIGTSTP);
    /* Of SIGTSTP and SIGCONT, the later one discards the other (signal(7)). The monitor sends its SIGCONT
     * after its last message, so at least one of both is noticed here. */
    if (has_ended(socket))
        kill(key ? 0 : getpid(), SIGCONT);
    sigprocmask(SIG_UNBLOCK, &stop, NULL); /* stops here until somebody continues the launcher */
    sigprocmask(SIG_BLOCK, &stop, NULL);
    sigtimedwait(&go_on, NULL, &(struct timespec){0});
    terminal_continue();
}

void terminal_continue(void)
{
    if (own < 0)
        return;
    pass_keys();
    terminal_resize();
}

/* The user's terminal was closed while the launcher was in the background, where no signal reports that.
 * Closes the command's terminal, too. */
static void hang_up(void)
{
    copies = false;
    close(master);
    master = -1;
}

size_t terminal_wait(struct pollfd *each, int *most)
{
    *most = -1;
    if (!copies)
        return 0;
    bool more = typed_at < typed_end, front = in_front();
    if (!front && errno == EIO) {
        hang_up();
        return 0;
    }
    if (!front) /* no signal reports that a running process is moved to the foreground */
        *most = LOOK;
    else if (!raw)
        terminal_continue();
    each[0] = (struct pollfd){.fd = master, .events = (short)(POLLIN | (more ? POLLOUT : 0))};
    each[1] = (struct pollfd){.fd = more || *most >= 0 ? -1 : own, .events = POLLIN};
    return 2;
}

/* The user's terminal adds carriage returns itself, unless it is in raw mode. */
static ssize_t plain_lines(char *block, ssize_t length)
{
    ssize_t kept = 0;
    for (ssize_t at = 0; at < length; at++)
        if (block[at] != '\r' || at + 1 == length || block[at + 1] != '\n')
            block[kept++] = block[at];
    return kept;
}

/* False if there is nothing to write. Resets `copies` when either terminal is closed. */
static bool show(void)
{
    char block[65536];
    ssize_t got = read(master, block, sizeof block);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    copies = copies && got > 0; /* EIO: no process has the slave open */
    if (!raw && got > 0)
        got = plain_lines(block, got);
    return copies = copies && write_all(1, block, (size_t)got);
}

/* The terminal controls no session, so the kernel sends no signals for these keys; it does all else that the
 * keys cause. */
int terminal_signal(void)
{
    static const struct {
        int key, number;
    } KEYS[] = {{VINTR, SIGINT}, {VQUIT, SIGQUIT}, {VSUSP, SIGTSTP}};
    struct termios state;
    int number = 0;
    if (!arrived || tcgetattr(master, &state) != 0 || (state.c_lflag & ISIG) == 0)
        return 0;
    for (size_t index = 0; index < sizeof KEYS / sizeof *KEYS; index++)
        if (state.c_cc[KEYS[index].key] != 0 && memchr(typed, state.c_cc[KEYS[index].key], typed_end) != NULL)
            number = KEYS[index].number;
    arrived = false;
    return number;
}

void terminal_copy(const struct pollfd *each)
{
    if (each[1].revents != 0) {
        ssize_t got = read(own, typed, sizeof typed);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            copies = false;
        typed_at = 0;
        typed_end = got > 0 ? (size_t)got : 0;
        arrived = got > 0;
        typeahead_add(master, &before, typed, typed_end);
        if (memchr(typed, before.c_cc[VSUSP], typed_end) != NULL)
            suspended = milliseconds();
    }
    if (typed_at < typed_end) {
        ssize_t wrote = write(master, typed + typed_at, typed_end - typed_at);
        typed_at += wrote > 0 ? (size_t)wrote : 0;
        copies = copies && (wrote > 0 || errno == EAGAIN || errno == EINTR);
    }
    if (each[0].revents != 0)
        show();
}

/* Copies a limited amount, because a leftover process may write for ever. */
void terminal_drain(void)
{
    for (int blocks = 0; copies && blocks < MOST_LEFT && show(); blocks++)
        ;
}

void terminal_return(void)
{
    if (master >= 0 && raw && in_front())
        typeahead_return(master, own, &before);
}
