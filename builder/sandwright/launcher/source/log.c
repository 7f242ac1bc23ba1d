/* Prints a line on standard error; names in it can't control a terminal. `die` then exits with 125, because
 * no command was started. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdarg.h>

#include "launch.h"

enum { PATIENCE = 1000 }; /* milliseconds */
static const char begin[] = "sandbox: ";

void (*leave)(int status) = exit;

/* Opens the terminal again without blocking: the command may have stopped it, or nobody reads it any more,
 * and a write would wait for ever. */
static int open_errors(int *flags)
{
    int own = isatty(STDERR_FILENO) ? open("/proc/self/fd/2", O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) : -1;
    *flags = own < 0 && isatty(STDERR_FILENO) ? fcntl(STDERR_FILENO, F_GETFL) : -1;
    if (*flags >= 0)
        fcntl(STDERR_FILENO, F_SETFL, *flags | O_NONBLOCK);
    return own < 0 ? STDERR_FILENO : own;
}

static void write_line(const char *said, size_t length)
{
    int flags, errors = open_errors(&flags);
    for (size_t done = 0; done < length;) {
        ssize_t wrote = write(errors, said + done, length - done);
        struct pollfd room = {.fd = errors, .events = POLLOUT};
        if (wrote > 0)
            done += (size_t)wrote;
        else if (wrote == 0 || (errno != EINTR && (errno != EAGAIN || poll(&room, 1, PATIENCE) <= 0)))
            break;
    }
    if (flags >= 0)
        fcntl(STDERR_FILENO, F_SETFL, flags);
    if (errors != STDERR_FILENO)
        close(errors);
}

/* Writes the line at once, so that lines of several processes don't mix. Names have the length of a few
 * paths; a longer line is cut. */
static void line(const char *format, va_list words, const char *reason)
{
    /* A child has the caller's action, and its exit status is more useful than SIGPIPE. */
    signal(SIGPIPE, SIG_IGN);
    char said[16384];
    strcpy(said, begin);
    const size_t size = sizeof said - 256;
    int length = vsnprintf(said + sizeof begin - 1, size, format, words);
    size_t end = sizeof begin - 1 + (length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1);
    if (reason != NULL)
        end += (size_t)snprintf(said + end, 200, ": %s", reason);
    for (size_t index = 0; index < end; index++)
        if (said[index] < ' ' || said[index] > '~')
            said[index] = '?';
    said[end++] = '\n';
    write_line(said, end);
}

void warn(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    line(format, words, NULL);
    va_end(words);
}

void warn_again(int words)
{
    char lines[16384];
    ssize_t got = pread(words, lines, sizeof lines, 0);
    for (char *rest = lines, *end; got > 0 && (end = memchr(rest, '\n', (size_t)(lines + got - rest))) != NULL; rest = end + 1)
        if (strncmp(rest, begin, sizeof begin - 1) == 0)
            warn("%.*s", (int)(end - rest) - (int)(sizeof begin - 1), rest + sizeof begin - 1);
    close(words);
}

void die(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    line(format, words, NULL);
    va_end(words);
    leave(NOT_RUN);
    _exit(NOT_RUN);
}

void die_errno(const char *format, ...)
{
    const char *reason = strerror(errno);
    va_list words;
    va_start(words, format);
    line(format, words, reason);
    va_end(words);
    leave(NOT_RUN);
    _exit(NOT_RUN);
}
