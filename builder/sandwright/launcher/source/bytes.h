/* Bytes on their way, and texts with values in them: what stdio is for, in a twentieth of its size.
 *
 * Formats are a part of printf's: %s, %.*s, %c, %d, %u, %x and %%, with l, ll and z, and with zeros before a number (%02x).
 * The compiler compares them with the values; at what is no part of it, the process aborts. */
#ifndef BYTES_H
#define BYTES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* What came or goes, between `begin` and `end`; `beside` is for frames (line.h). Its lack of memory refuses. */
struct bytes {
    unsigned char *at;
    size_t begin, end, room;
    struct file_beside *beside;
};

size_t bytes_held(const struct bytes *bytes);
void bytes_add(struct bytes *bytes, const void *content, size_t length);
void bytes_text(struct bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* From or to a descriptor that doesn't wait: false at its end or for an error. */
bool bytes_read(struct bytes *bytes, int file);
bool bytes_write(struct bytes *bytes, int file, size_t most);
bool bytes_flush(struct bytes *bytes, int file); /* all of it, to a file; false and errno */

/* As snprintf(3) and vsnprintf(3): what finds no room is cut; the length of all of it. */
size_t text_into(char *to, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t text_given(char *to, size_t size, const char *format, va_list words) __attribute__((format(printf, 3, 0)));

/* Of `four` bytes or sixteen, as inet_ntop(3) has it, whose printf is 10 KB. */
enum { ADDRESS_TEXT = 46 };
void text_of_address(bool four, const void *address, char to[ADDRESS_TEXT]);

#endif
