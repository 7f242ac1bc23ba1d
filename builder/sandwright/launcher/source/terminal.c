/* The command's pseudo-terminal (pty(7)), which the launcher relays together with the window's size (SIGWINCH): the
 * sandbox can't type into ours by TIOCSTI (CVE-2017-5226). */
#define _GNU_SOURCE
#include <sys/ioctl.h>
#include <termios.h>

#include "launch.h"
#include "typeahead.h"

enum { LOOK = 200, RECENT = 5000 }; /* milliseconds */
enum { MOST_LEFT = 1024 };          /* blocks: more than the kernel keeps of a terminal's output */

static int own = -1, master = -1, slave = -1; /* ours: standard input, in the monitor too, which has another one there */
static pid_t group;                           /* the launcher's */
static struct termios before;
static bool raw;
static char typed[4096]; /* what the command's terminal hasn't taken yet; no key is read before */
static size_t typed_at, typed_end;
static bool copies, arrived;
static long suspended; /* when the suspend key came last */

/* In the background keys are for the shell. One that isn't ours to control is left to us. */
static bool in_front(void)
{
    errno = 0;
    pid_t front = tcgetpgrp(own);
    return front == group || (front < 0 && errno == ENOTTY);
}

/* A shell's settings for its own line editor aren't for the command. The master's settings are the
 * slave's. */
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
        die_errno("no terminal can be made");
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

/* Saves the settings, to restore them later, except for those that we, or a program in raw mode, left
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
    raw = true; /* or will be */
    close(master);
    master = -1;
    for (int number = 0; number < 3; number++)
        if (isatty(number) && dup2(slave, number) < 0)
            die_errno("no terminal can be given");
}

void terminal_control(const struct run *run)
{
    if (setsid() < 0 || (slave >= 0 && !run->uncontrolled && ioctl(slave, TIOCSCTTY, 0) != 0))
        die_errno("no terminal can be given");
}

/* Whoever has taken it meanwhile has set it. */
void terminal_restore(void)
{
    if (raw && in_front())
        tcsetattr(own, TCSANOW, &before);
    raw = false;
}

/* As the suspend key does where keys are signals: to all of the launcher's group, if it was that key. A
 * command that stops by itself stops only the launcher. In an orphaned process group, where nobody would
 * continue it, nothing stops (SIGTSTP: setpgid(2)). */
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
    /* Of SIGTSTP and SIGCONT the later one takes the other back (signal(7)), and the monitor's comes after its last word: so
     * one of both is seen here. */
    if (has_ended(socket))
        kill(key ? 0 : getpid(), SIGCONT);
    sigprocmask(SIG_UNBLOCK, &stop, NULL); /* until somebody continues us */
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

/* The person's has gone while we were in the background, where no signal says so: the command's goes, too. */
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
    if (!front) /* nobody tells who is brought to the front while it runs */
        *most = LOOK;
    else if (!raw)
        terminal_continue();
    each[0] = (struct pollfd){.fd = master, .events = (short)(POLLIN | (more ? POLLOUT : 0))};
    each[1] = (struct pollfd){.fd = more || *most >= 0 ? -1 : own, .events = POLLIN};
    return 2;
}

/* Ours adds the carriage returns, too, unless all keys pass. */
static ssize_t plain_lines(char *block, ssize_t length)
{
    ssize_t kept = 0;
    for (ssize_t at = 0; at < length; at++)
        if (block[at] != '\r' || at + 1 == length || block[at + 1] != '\n')
            block[kept++] = block[at];
    return kept;
}

/* False when nothing is there to be written; `copies` ends with either side. */
static bool show(void)
{
    char block[65536];
    ssize_t got = read(master, block, sizeof block);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    copies = copies && got > 0; /* EIO: nobody has the other side open */
    if (!raw && got > 0)
        got = plain_lines(block, got);
    return copies = copies && write_all(1, block, (size_t)got);
}

/* The kernel sends no signal if the terminal controls no session; it does everything else that belongs to
 * these keys. */
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

/* What the command has left behind may write for ever. */
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
