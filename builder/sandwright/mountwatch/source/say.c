/* Says a line on standard error, in which a path can't do anything to a terminal. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watch.h"

/* The length of a character of UTF-8 that may be printed; 0 for anything else. */
static size_t printable(const unsigned char *at)
{
    unsigned long point;
    size_t length = at[0] < 0x80 ? 1 : (at[0] & 0xe0) == 0xc0 ? 2 : (at[0] & 0xf0) == 0xe0 ? 3 : (at[0] & 0xf8) == 0xf0 ? 4 : 0;
    static const unsigned long least[] = {0, 0x20, 0x80, 0x800, 0x10000};
    if (length == 0)
        return 0;
    point = length == 1 ? at[0] : at[0] & (0x7fu >> length);
    for (size_t index = 1; index < length; index++) {
        if ((at[index] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (at[index] & 0x3f);
    }
    bool control = point == 0x7f || (point >= 0x80 && point < 0xa0);
    bool turns = (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
                 (point >= 0x2060 && point <= 0x206f) || point == 0x61c || point == 0xfeff;
    bool surrogate = point >= 0xd800 && point < 0xe000;
    return point < least[length] || point > 0x10ffff || control || turns || surrogate ? 0 : length;
}

void say(const char *before, const char *path, const char *after)
{
    char text[20000];
    size_t length = (size_t)snprintf(text, 512, "sandbox: %s", before);
    for (const unsigned char *at = (const unsigned char *)path; *at != '\0' && length < sizeof text - 600;) {
        size_t bytes = printable(at);
        if (bytes == 0)
            length += (size_t)sprintf(text + length, "\\x%02x", *at++);
        for (; bytes > 0; bytes--)
            text[length++] = (char)*at++;
    }
    length += (size_t)snprintf(text + length, 512, "%s\n", after);
    for (size_t done = 0; done < length;) {
        ssize_t wrote = write(STDERR_FILENO, text + done, length - done);
        if (wrote <= 0)
            return;
        done += (size_t)wrote;
    }
}
