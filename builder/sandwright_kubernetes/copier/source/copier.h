#include <stddef.h>
#include <stdint.h>

/* Prints a message, with errno's text unless errno is 0, and exits. */
void fail(const char *form, ...) __attribute__((format(printf, 1, 2), noreturn));
void writing(int file, const char *data, size_t size);

/* The archive on standard output: ustar, with a pax header for a name that is too long for it. */
void limit_archive(uint64_t most);
void put_header(const char *path, char kind, unsigned mode, uint64_t size, const char *link);
void put_data(const char *data, size_t size);
void put_padding(uint64_t size);
void end_archive(void);
