#ifndef PROBE_H
#define PROBE_H

/* For system calls that only Linux has; each part includes system headers after this one. */
#define _GNU_SOURCE

#include <stddef.h>

enum { MAX_ARGUMENTS = 8, MAX_VALUE = 64 * 1024 };

/* The decoded arguments of an attempt, each followed by a NUL. A missing one is an empty text. */
struct arguments {
    int count;
    char *text[MAX_ARGUMENTS];
    size_t length[MAX_ARGUMENTS];
};

/* The value of an attempt that succeeded: `length` bytes of `bytes`. */
struct value {
    size_t length;
    char bytes[MAX_VALUE];
};

/* Makes one attempt. Returns 0 if it succeeded, otherwise errno, the kernel's reason. */
typedef int (*attempt)(const struct arguments *given, struct value *value);

struct operation {
    const char *name;
    attempt attempt;
};

/* The operations of each part; the last entry has no name. */
extern const struct operation file_operations[];
extern const struct operation process_operations[];
extern const struct operation network_operations[];
extern const struct operation limit_operations[];
extern const struct operation secret_operations[];

/* The name of an error, as in errno(3); NULL if it is not listed. */
const char *errno_name(int number);

/* Parses a number as strtol(3) with base 0 does: 0x…, 0…, decimal, negative. */
long number(const char *text);

/* These append to a value, as far as there is room. */
void say(struct value *value, const char *format, ...) __attribute__((format(printf, 2, 3)));
void say_bytes(struct value *value, const void *bytes, size_t length);

/* Converts the result of a system call to 0 or errno. */
int outcome(long result);

#endif
