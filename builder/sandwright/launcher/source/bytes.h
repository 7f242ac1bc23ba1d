#ifndef BYTES_H
#define BYTES_H

#include <stdbool.h>
#include <stddef.h>

struct strv;

/* A buffer: the bytes between `begin` and `end` have arrived or are still to be written. `beside` is for
 * frames (line.h). If memory runs out, the run is refused. */
struct bytes {
    unsigned char *at;
    size_t begin, end, room;
    struct file_beside *beside;
};

size_t bytes_held(const struct bytes *bytes);
void bytes_add(struct bytes *bytes, const void *content, size_t length);
void bytes_text(struct bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bytes_words(struct bytes *bytes, const struct strv *words); /* each with its NUL */
/* Adds a member to an object; each byte becomes one character. */
void bytes_json(struct bytes *bytes, const char *name, const char *value, size_t length);
/* Reads from or writes to a non-blocking descriptor; false at its end or on an error. */
bool bytes_read(struct bytes *bytes, int file);
bool bytes_write(struct bytes *bytes, int file, size_t most);
bool bytes_flush(struct bytes *bytes, int file); /* writes all bytes to a file; false and errno */

#endif
