/* Bytes on their way; texts with values in them. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

enum { PIECE = 1 << 16, DIGITS = 20 /* of the longest number */ };

/* ---- texts */
static unsigned long long next_number(va_list *words, int longs, bool sign)
{
    if (longs > 0) /* all as long as an address */
        return va_arg(*words, unsigned long);
    return sign ? (unsigned long long)va_arg(*words, int) : va_arg(*words, unsigned);
}

/* What stands for a value: where, of which length. */
struct part {
    const char *at;
    size_t length;
    char made[DIGITS + 2];
};

/* Before its end: at least so many digits. */
static void put_number(struct part *part, unsigned long long value, char kind, int least)
{
    char *end = part->made + sizeof part->made, *first = end;
    bool minus = kind == 'd' && (long long)value < 0;
    for (value = minus ? -value : value; value != 0 || least > 0; value /= kind == 'x' ? 16 : 10, least--)
        *--first = "0123456789abcdef"[value % (kind == 'x' ? 16 : 10)];
    if (minus)
        *--first = '-';
    part->at = first;
    part->length = (size_t)(end - first);
}

/* One value, from behind its %: the last letter of what says how it is written. */
static const char *put_value(struct part *part, const char *format, va_list *words)
{
    int least = 1, longs = 0, most = -1;
    if (*format == '0')
        for (least = 0; *format >= '0' && *format <= '9'; format++)
            least = least * 10 + *format - '0';
    if (*format == '.' && *++format == '*' && format++)
        most = va_arg(*words, int);
    for (; *format == 'l' || *format == 'z'; format++)
        longs++;
    *part = (struct part){.at = format, .length = 1};
    switch (*format) {
    case '%':
        break;
    case 's':
        if ((part->at = va_arg(*words, const char *)) == NULL)
            part->at = "(null)"; /* as C libraries have it */
        part->length = most < 0 ? strlen(part->at) : strnlen(part->at, (size_t)most);
        break;
    case 'c':
        part->made[0] = (char)va_arg(*words, int);
        part->at = part->made;
        break;
    case 'd':
    case 'u':
    case 'x':
        put_number(part, next_number(words, longs, *format == 'd'), *format, least < DIGITS ? least : DIGITS);
        break;
    default:
        abort();
    }
    return format;
}

size_t text_given(char *to, size_t size, const char *format, va_list given)
{
    size_t whole = 0;
    va_list words;
    va_copy(words, given);
    for (; *format != '\0'; format++) {
        struct part part = {.at = format, .length = strcspn(format, "%")};
        if (part.length > 0)
            format += part.length - 1;
        else
            format = put_value(&part, format + 1, &words);
        if (whole < size)
            memcpy(to + whole, part.at, part.length < size - whole ? part.length : size - whole);
        whole += part.length;
    }
    if (size > 0)
        to[whole < size ? whole : size - 1] = '\0';
    va_end(words);
    return whole;
}

size_t text_into(char *to, size_t size, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    size_t length = text_given(to, size, format, words);
    va_end(words);
    return length;
}

void text_of_address(bool four, const void *address, char to[ADDRESS_TEXT])
{
    const unsigned char *at = address;
    size_t first = 8, most = 1, end = 0; /* the longest run of zeros, of two groups at least, is left out */
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool inner = !four && memcmp(at, mapped, sizeof mapped) == 0; /* IPv4's, in IPv6 */
    if (four || inner) {
        at += inner ? sizeof mapped : 0;
        text_into(to, ADDRESS_TEXT, "%s%d.%d.%d.%d", inner ? "::ffff:" : "", at[0], at[1], at[2], at[3]);
        return;
    }
    for (size_t begin = 0; begin < 8; begin++) {
        size_t run = 0;
        while (begin + run < 8 && at[2 * (begin + run)] == 0 && at[2 * (begin + run) + 1] == 0)
            run++;
        if (run > most) {
            first = begin;
            most = run;
        }
    }
    for (size_t group = 0; group < 8; group++)
        if (group == first) {
            end += text_into(to + end, ADDRESS_TEXT - end, group == 0 ? "::" : ":");
            group += most - 1;
        } else
            end += text_into(to + end, ADDRESS_TEXT - end, group == 7 ? "%x" : "%x:", at[2 * group] << 8 | at[2 * group + 1]);
}

/* ---- bytes */
size_t bytes_held(const struct bytes *bytes)
{
    return bytes->end - bytes->begin;
}

static void make_room(struct bytes *bytes, size_t more)
{
    if (bytes->begin > 0) {
        memmove(bytes->at, bytes->at + bytes->begin, bytes_held(bytes));
        bytes->end -= bytes->begin;
        bytes->begin = 0;
    }
    if (bytes->end + more <= bytes->room)
        return;
    bytes->room = bytes->end + bytes->end / 2 + more + PIECE;
    bytes->at = realloc(bytes->at, bytes->room);
    if (bytes->at == NULL)
        refuse("there is no memory");
}

void bytes_add(struct bytes *bytes, const void *content, size_t length)
{
    if (length == 0)
        return;
    make_room(bytes, length);
    memcpy(bytes->at + bytes->end, content, length);
    bytes->end += length;
}

void bytes_text(struct bytes *bytes, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    size_t length = text_given(NULL, 0, format, words);
    make_room(bytes, length + 1);
    text_given((char *)bytes->at + bytes->end, length + 1, format, words);
    va_end(words);
    bytes->end += length;
}

bool bytes_read(struct bytes *bytes, int file)
{
    make_room(bytes, PIECE);
    ssize_t got = read(file, bytes->at + bytes->end, PIECE);
    if (got > 0)
        bytes->end += (size_t)got;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

bool bytes_write(struct bytes *bytes, int file, size_t most)
{
    size_t length = bytes_held(bytes) < most ? bytes_held(bytes) : most;
    ssize_t wrote = length == 0 ? 0 : write(file, bytes->at + bytes->begin, length);
    if (wrote > 0)
        bytes->begin += (size_t)wrote;
    return wrote >= 0 || errno == EAGAIN || errno == EINTR;
}

bool bytes_flush(struct bytes *bytes, int file)
{
    while (bytes_held(bytes) > 0)
        if (!bytes_write(bytes, file, SIZE_MAX))
            return false;
    return true;
}
