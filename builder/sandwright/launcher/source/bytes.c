/* Byte buffers, for non-blocking descriptors and for JSON. */
#define _GNU_SOURCE
#include <stdarg.h>

#include "launch.h"

enum { PIECE = 1 << 16 };

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
        die("out of memory");
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
    char *made;
    int length = vasprintf(&made, format, words);
    va_end(words);
    if (length < 0)
        die("out of memory");
    bytes_add(bytes, made, (size_t)length);
    free(made);
}

void bytes_words(struct bytes *bytes, const struct strv *words)
{
    for (size_t index = 0; index < words->count; index++)
        bytes_add(bytes, words->at[index], strlen(words->at[index]) + 1);
}

static bool needs_no_escape(char each)
{
    return each >= ' ' && each <= '~' && each != '"' && each != '\\';
}

void bytes_json(struct bytes *bytes, const char *name, const char *value, size_t length)
{
    bytes_text(bytes, "\"%s\": \"", name);
    for (size_t index = 0, plain; index < length; index += plain + 1) {
        for (plain = 0; index + plain < length && needs_no_escape(value[index + plain]); plain++)
            ;
        bytes_add(bytes, value + index, plain);
        if (index + plain < length)
            bytes_text(bytes, "\\u%04x", (unsigned)(unsigned char)value[index + plain]);
    }
    bytes_text(bytes, "\"");
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
