/* What the parts of the probe program share. */
#ifndef PROBE_H
#define PROBE_H

#define _GNU_SOURCE /* Linux' own calls, which each part includes headers for after this one */

#include <stddef.h>

enum { MAX_ARGUMENTS = 8, MAX_VALUE = 64 * 1024 };

/* One attempt's words, decoded: bytes that are followed by a NUL of ours. A missing one is an empty text. */
struct arguments {
    int count;
    char *text[MAX_ARGUMENTS];
    size_t length[MAX_ARGUMENTS];
};

/* What an attempt that worked has to say besides; `length` bytes of `bytes`. */
struct value {
    size_t length;
    char bytes[MAX_VALUE];
};

/* Attempts one thing. Gives 0 when it worked, else errno: the kernel's own word for why it did not. */
typedef int (*attempt)(const struct arguments *given, struct value *value);

struct operation {
    const char *name;
    attempt attempt;
};

/* Each part's operations, ended by one without a name. */
extern const struct operation file_operations[];
extern const struct operation process_operations[];
extern const struct operation network_operations[];
extern const struct operation limit_operations[];
extern const struct operation secret_operations[];

/* errno's name as in errno(3), NULL for one that has none here. */
const char *errno_name(int number);

/* A number as in strtol(3) with base 0: 0x…, 0…, decimal, negative. */
long number(const char *text);

/* Append to a value as far as there is room. */
void say(struct value *value, const char *format, ...) __attribute__((format(printf, 2, 3)));
void say_bytes(struct value *value, const void *bytes, size_t length);

/* 0 or errno, from what a system call gave. */
int outcome(long result);

#endif
