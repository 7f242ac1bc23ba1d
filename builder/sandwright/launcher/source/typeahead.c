/* Type-ahead: text that the user typed during a run, and that the command did not read, is given back to the
 * user's terminal.
 *
 * The launcher pushes back only its own copy of the user's keys, never the content of the command's terminal,
 * into which a program inside can put text. Such a program can decide only whether the text is pushed back,
 * by reading it or not. Nothing is pushed back if a part was read, a control key was typed, or a program had
 * changed the terminal's settings when a key came (shell prompts, editors, passwords): such text was meant
 * for that program, and a shell of the host would execute it.
 */
#define _GNU_SOURCE
#include <sys/ioctl.h>
#include <termios.h>

#include "launch.h"
#include "typeahead.h"

static unsigned char text[4096]; /* the size of a terminal's buffer (N_TTY_BUF_SIZE) */
static size_t length;
static bool discarded;

static bool same_settings(const struct termios *one, const struct termios *other)
{
    return one->c_iflag == other->c_iflag && one->c_lflag == other->c_lflag &&
           /* The last control character; the kernel sets none after it. */
           memcmp(one->c_cc, other->c_cc, VEOL2 + 1) == 0;
}

/* Erases as the kernel does: in the last line only, and a whole character if the terminal knows UTF-8. */
static void erase(const struct termios *settings)
{
    bool wide = (settings->c_iflag & IUTF8) != 0;
    if (length == 0 || text[length - 1] == '\r' || text[length - 1] == '\n')
        return;
    while (--length > 0 && wide && (text[length] & 0xc0) == 0x80)
        ;
}

void typeahead_add(int master, const struct termios *person, const char *keys, size_t count)
{
    struct termios settings;
    bool lines = (person->c_lflag & (ICANON | ECHO)) == (ICANON | ECHO);
    discarded = discarded || !lines || tcgetattr(master, &settings) != 0 || !same_settings(&settings, person);
    for (size_t index = 0; index < count && !discarded; index++) {
        unsigned char key = (unsigned char)keys[index];
        bool plain = (key >= ' ' && key != 0x7f) || key == '\r' || key == '\n' || key == '\t';
        if (key != 0 && key == person->c_cc[VERASE])
            erase(person);
        else if (plain && length < sizeof text)
            text[length++] = key;
        else
            discarded = true;
    }
}

/* Counts all bytes, not only complete lines. */
static size_t unread(int master)
{
    struct termios settings;
    int count = 0;
    _cleanup_close_ int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0 || tcgetattr(slave, &settings) != 0)
        return 0;
    settings.c_lflag &= ~(tcflag_t)ICANON;
    if (tcsetattr(slave, TCSANOW, &settings) != 0 || ioctl(slave, FIONREAD, &count) != 0)
        return 0;
    return (size_t)count;
}

void typeahead_return(int master, int terminal, const struct termios *person)
{
    struct termios silent = *person;
    if (discarded || length == 0 || unread(master) != length)
        return;
    silent.c_lflag &= ~(tcflag_t)(ECHO | ECHONL); /* the keys were echoed when they were typed */
    if (tcsetattr(terminal, TCSANOW, &silent) != 0)
        return;
    /* The kernel may refuse this (dev.tty.legacy_tiocsti). */
    for (size_t index = 0; index < length && ioctl(terminal, TIOCSTI, text + index) == 0; index++)
        ;
}
