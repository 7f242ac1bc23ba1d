/* Writes a tar archive to standard output (POSIX.1-1988 ustar, POSIX.1-2001 pax). */
#define _GNU_SOURCE
#include "copier.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, GATHER = 1 << 16, SHORT = 100 };
static const uint64_t LARGEST = 077777777777;

static char gathered[GATHER];
static size_t held;
static uint64_t most, written;

void limit_archive(uint64_t limit) { most = limit; }

static void flush(void) {
    writing(1, gathered, held);
    held = 0;
}

void put_data(const char *data, size_t size) {
    written += size;
    if (written > most) {
        errno = 0;
        fail("the changes exceed %llu bytes", (unsigned long long)most);
    }
    while (size > 0) {
        size_t part = size < GATHER - held ? size : GATHER - held;
        memcpy(gathered + held, data, part);
        held += part;
        data += part;
        size -= part;
        if (held == GATHER)
            flush();
    }
}

void put_padding(uint64_t size) {
    static const char zeros[BLOCK];
    put_data(zeros, (BLOCK - size % BLOCK) % BLOCK);
}

static void put_block(const char *name, char kind, unsigned mode, uint64_t size, const char *link) {
    char block[BLOCK] = {0};
    memcpy(block, name, strnlen(name, SHORT));
    snprintf(block + 100, 8, "%07o", mode & 0777);
    snprintf(block + 108, 8, "%07o", 0);
    snprintf(block + 116, 8, "%07o", 0);
    snprintf(block + 124, 12, "%011llo", (unsigned long long)size);
    snprintf(block + 136, 12, "%011o", 0);
    memset(block + 148, ' ', 8);
    block[156] = kind;
    memcpy(block + 157, link, strnlen(link, SHORT));
    memcpy(block + 257, "ustar\0" "00", 8);
    unsigned sum = 0;
    for (size_t at = 0; at < BLOCK; at++)
        sum += (unsigned char)block[at];
    snprintf(block + 148, 8, "%06o", sum);
    block[155] = ' ';
    put_data(block, BLOCK);
}

/* Adds a record "LENGTH KEY=VALUE\n", whose length includes its own digits. */
static size_t put_record(char **records, size_t size, const char *key, const char *value) {
    size_t rest = strlen(key) + strlen(value) + 3, length = rest + 1;
    for (size_t digits = 1; (size_t)snprintf(NULL, 0, "%zu", length) != digits; length = rest + digits)
        digits = (size_t)snprintf(NULL, 0, "%zu", length);
    char *grown = realloc(*records, size + length + 1);
    if (grown == NULL)
        fail("out of memory");
    *records = grown;
    snprintf(grown + size, length + 1, "%zu %s=%s\n", length, key, value);
    return size + length;
}

void put_header(const char *path, char kind, unsigned mode, uint64_t size, const char *link) {
    char *records = NULL;
    size_t length = 0;
    if (size > LARGEST) {
        errno = 0;
        fail("%s: too large for an archive", path);
    }
    if (strlen(path) > SHORT)
        length = put_record(&records, length, "path", path);
    if (strlen(link) > SHORT)
        length = put_record(&records, length, "linkpath", link);
    if (length > 0) {
        put_block("PaxHeader", 'x', 0644, length, "");
        put_data(records, length);
        put_padding(length);
    }
    free(records);
    put_block(path, kind, mode, size, link);
}

void end_archive(void) {
    static const char zeros[2 * BLOCK];
    put_data(zeros, sizeof zeros);
    flush();
}
