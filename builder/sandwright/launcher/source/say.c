/* Says a line on standard error, in which a name can't do anything to a terminal. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

void (*leave)(int status) = exit;

/* In one write, so that lines of several processes don't mix. Names are at most some paths long; the rest is cut. */
static void line(const char *format, va_list words, const char *reason)
{
    static const char begin[] = "sandbox: ";
    signal(SIGPIPE, SIG_IGN); /* in a child, which has the caller's: its status says more than that nobody reads this */
    char said[16384];
    strcpy(said, begin);
    size_t size = sizeof said - 256;
    int length = vsnprintf(said + sizeof begin - 1, size, format, words);
    size_t end = sizeof begin - 1 + (length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1);
    if (reason != NULL)
        end += (size_t)snprintf(said + end, 200, ": %s", reason);
    for (size_t index = 0; index < end; index++)
        if (said[index] < ' ' || said[index] > '~')
            said[index] = '?';
    said[end++] = '\n';
    for (size_t done = 0; done < end;) {
        ssize_t wrote = write(STDERR_FILENO, said + done, end - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return;
        done += (size_t)wrote;
    }
}

void say(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    line(format, words, NULL);
    va_end(words);
}

void refuse(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    line(format, words, NULL);
    va_end(words);
    leave(NOT_RUN);
    _exit(NOT_RUN);
}

void refuse_errno(const char *format, ...)
{
    const char *reason = strerror(errno);
    va_list words;
    va_start(words, format);
    line(format, words, reason);
    va_end(words);
    leave(NOT_RUN);
    _exit(NOT_RUN);
}
