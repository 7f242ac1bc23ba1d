/* Buffers of bytes (bytes.c). */
#ifndef BYTES_H
#define BYTES_H

#include <stdbool.h>
#include <stddef.h>

struct strv;

/* What came or goes, between `begin` and `end`; `beside` is for frames (line.h). Its lack of memory refuses. */
struct bytes {
    unsigned char *at;
    size_t begin, end, room;
    struct file_beside *beside;
};

size_t bytes_held(const struct bytes *bytes);
void bytes_add(struct bytes *bytes, const void *content, size_t length);
void bytes_text(struct bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bytes_words(struct bytes *bytes, const struct strv *words); /* each with its NUL */
void bytes_json(struct bytes *bytes, const char *name, const char *value, size_t length); /* a member; each byte is a character */
/* From or to a descriptor that doesn't wait: false at its end or for an error. */
bool bytes_read(struct bytes *bytes, int file);
bool bytes_write(struct bytes *bytes, int file, size_t most);
bool bytes_flush(struct bytes *bytes, int file); /* all of it, to a file; false and errno */

#endif
