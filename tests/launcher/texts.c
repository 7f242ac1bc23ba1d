/* Compares what the launcher makes of formats and addresses with what the C library makes of them; finds accounts. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user.h"

void refuse(const char *format, ...)
{
    (void)format;
    abort();
}

/* What is there for /etc/passwd. */
static const char passwd[] = "root:x:0:0::/:/bin/sh\n\nbob:x:1001:1002:Bob:/home/bob:/bin/sh\nall:x:4294967295:7::/:\nmost:x:4294967294:7::/:\n"
                             "big:x:4294967296:99999999999::/:\nminus:x:-1:+5::/:\nblank: x: 5: 6::/:\nnone\nmixed:x:12x:13 ::/:\nshort:x:5\nempty:x:::\nbobby:x:3:4::/:";

char *read_file(int directory, const char *path, size_t most, size_t *length)
{
    static char own[sizeof passwd];
    (void)directory;
    (void)length;
    return strcmp(path, "/etc/passwd") == 0 && most > sizeof passwd ? memcpy(own, passwd, sizeof passwd) : NULL;
}

static void compare(size_t size, size_t length, const char *made, const char *expected, int known)
{
    if (length == (size_t)known && (size == 0 || strcmp(made, expected) == 0))
        return;
    printf("%zu bytes: %s (%zu), and not %s (%d)\n", size, size == 0 ? "" : made, length, size == 0 ? "" : expected, known);
    exit(1);
}

/* With all rooms up to one that is enough; each is of its own, to see what writes behind it. */
#define TRY(...)                                                                 \
    for (size_t size = 0; size < 80; size++) {                                    \
        char *made = malloc(size + (size == 0)), expected[80];                    \
        size_t length = text_into(made, size, __VA_ARGS__);                       \
        compare(size, length, made, expected, snprintf(expected, size, __VA_ARGS__)); \
        free(made);                                                               \
    }

static void try_bytes(void)
{
    struct bytes all = {0};
    for (int index = 0; index < 20000; index++) {
        bytes_text(&all, "%s=%d,", "word", index);
        bytes_add(&all, "\0", 1);
        all.begin += index % 2;
    }
    if (strcmp((char *)all.at + all.end - sizeof "word=19999,", "word=19999,") != 0 || all.begin + bytes_held(&all) != all.end)
        abort();
    free(all.at);
}

static void try_address(int family, const char *word)
{
    unsigned char address[16];
    char made[ADDRESS_TEXT];
    if (inet_pton(family, word, address) != 1)
        abort();
    text_of_address(family == AF_INET, address, made);
    compare(sizeof made, strlen(made), made, word, (int)strlen(word));
}

/* With many zeros; what begins with six groups of them is written otherwise by glibc, and not by musl. */
static void try_any_address(void)
{
    for (unsigned step = 0, number = 1; step < 200000; step++) {
        unsigned char address[16];
        char made[ADDRESS_TEXT], expected[INET6_ADDRSTRLEN];
        for (size_t group = 0; group < 8; group++) {
            number = number * 1664525 + 1013904223;
            unsigned value = number >> 29 < 5 ? 0 : number >> 29 == 5 ? 0xffff : number >> 8;
            address[2 * group] = (unsigned char)(value >> 8);
            address[2 * group + 1] = (unsigned char)value;
        }
        if (memcmp(address, (unsigned char[12]){0}, 12) == 0)
            continue;
        text_of_address(false, address, made);
        inet_ntop(AF_INET6, address, expected, sizeof expected);
        compare(sizeof made, strlen(made), made, expected, (int)strlen(expected));
    }
}

static void try_any_number(void)
{
    for (unsigned long step = 0, number = 1; step < 100000; step++) {
        char made[160], expected[160];
        number = number * 6364136223846793005UL + 1442695040888963407UL;
        unsigned long value = number >> step % 64;
        size_t length = text_into(made, sizeof made, "%ld %lu %lx %d %u %02x %016lx", (long)value, value, value, (int)value,
                                  (unsigned)value, (unsigned)value, value);
        compare(sizeof made, length, made, expected,
                snprintf(expected, sizeof expected, "%ld %lu %lx %d %u %02x %016lx", (long)value, value, value, (int)value,
                         (unsigned)value, (unsigned)value, value));
    }
}

static void try_account(const char *name, bool there, unsigned user, unsigned group)
{
    struct account found = {7, 7};
    if (account_find(name, &found) != there || (there && (found.user != user || found.group != group))) {
        printf("%s: %u %u\n", name, found.user, found.group);
        exit(1);
    }
}

/* Who has no number that can be taken on has 0, and is refused. */
static void try_accounts(void)
{
    try_account("bob", true, 1001, 1002);
    try_account("bobby", true, 3, 4);
    try_account("root", true, 0, 0);
    try_account("most", true, 4294967294, 7);
    try_account("all", true, 0, 7);
    try_account("big", true, 0, 0);
    try_account("minus", true, 0, 0);
    try_account("blank", true, 0, 0);
    try_account("mixed", true, 0, 0);
    try_account("none", true, 0, 0);
    try_account("short", true, 5, 0);
    try_account("empty", true, 0, 0);
    try_account("bo", false, 0, 0);
    try_account("x", false, 0, 0);
}

int main(void)
{
    static const char *const addresses[] = {"::", "::1", "fe80::1", "2001:db8::", "1:2:3:4:5:6:7:8", "1:0:3:4:5:6:7:8", "1::4:0:0:7:8",
                                            "1:0:0:4::8", "fd00:99::ffff:a", "::ffff:192.0.2.1", "::ffff:0.0.0.0",
                                            "::fffe:c000:201", "::1:ffff:c000:201", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"};
    const char *volatile none = NULL;
    TRY("nothing, 100%%");
    TRY("%s and %s", "one", none);
    TRY("%s", "");
    TRY("%s and %s%c", "one", "another", '!');
    TRY("<%.*s>", 3, "abcdef");
    TRY("<%.*s>%s", 9, "abc", "d");
    TRY("<%.*s>", 0, "abc");
    TRY("%d %d %d %d", 0, 7, -7, INT_MAX);
    TRY("%d %ld %ld", INT_MIN, LONG_MIN, LONG_MAX);
    TRY("%u %lu %llu %zu", UINT_MAX, ULONG_MAX, 0ULL, SIZE_MAX);
    TRY("%x %02x %02x %04x %016lx", 0x1fU, 0x5U, 0xa1U, 0x20ACU, 0x123456789aUL);
    TRY("%016llx %02d %02d", ULLONG_MAX, 3, 123);
    TRY("%d %d %d %d %d %d %d %s", 1, 2, 3, 4, 5, 6, 7, "more than registers");
    for (size_t index = 0; index < sizeof addresses / sizeof *addresses; index++)
        try_address(AF_INET6, addresses[index]);
    try_address(AF_INET, "0.0.0.0");
    try_address(AF_INET, "192.168.255.1");
    try_any_address();
    try_any_number();
    try_bytes();
    try_accounts();
    return 0;
}
