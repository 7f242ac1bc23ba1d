/* The host's certificates of authorities as Java reads them, which takes no PEM file: a key store of its oldest kind, JKS, that
 * every release of it knows, whatever the file's name. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "launch.h"

enum { MOST_COPY = 1 << 24, ROOM = 64 }; /* bytes; what a store has besides its entries, and more */

/* What the digest at its end begins with. Who gives a password gives that of Java's own stores, in UTF-16 here. */
static const char seal[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";

static uint32_t turned(uint32_t word, unsigned by)
{
    return word << by | word >> (32 - by);
}

static void take_block(uint32_t state[5], const unsigned char *block)
{
    uint32_t words[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int index = 0; index < 16; index++, block += 4)
        words[index] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (int index = 16; index < 80; index++)
        words[index] = turned(words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16], 1);
    for (int index = 0; index < 80; index++) {
        uint32_t mixed = index < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                         : index < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                         : index < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                      : (b ^ c ^ d) + 0xca62c1d6;
        uint32_t next = turned(a, 5) + mixed + e + words[index];
        e = d, d = c, c = turned(b, 30), b = a, a = next;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

static unsigned char *put(unsigned char *to, uint64_t number, int bytes)
{
    while (bytes-- > 0)
        *to++ = (unsigned char)(number >> 8 * bytes);
    return to;
}

/* SHA-1 (FIPS 180-4), which this format has. It protects nothing: the file is the launcher's own, and read-only. */
static void sha1(const unsigned char *data, size_t length, unsigned char digest[20])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    unsigned char end[128] = {0};
    size_t left = length % 64, size = left < 56 ? 64 : 128;
    for (size_t done = 0; done < length - left; done += 64)
        take_block(state, data + done);
    memcpy(end, data + length - left, left);
    end[left] = 0x80;
    put(end + size - 8, (uint64_t)length * 8, 8);
    for (size_t done = 0; done < size; done += 64)
        take_block(state, end + done);
    for (int index = 0; index < 5; index++)
        digest = put(digest, state[index], 4);
}

static int digit(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        return letter - 'A';
    if (letter >= 'a' && letter <= 'z')
        return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9')
        return letter - '0' + 52;
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

/* The bytes of base64 (RFC 4648) up to the line behind it; blanks are passed over. */
static size_t decode(const char *from, unsigned char *to)
{
    uint32_t bits = 0;
    unsigned held = 0;
    size_t length = 0;
    for (; *from != '\0' && *from != '-' && *from != '='; from++) {
        if (digit(*from) < 0)
            continue;
        bits = bits << 6 | (uint32_t)digit(*from);
        held += 6;
        if (held >= 8)
            to[length++] = (unsigned char)(bits >> (held -= 8));
    }
    return length;
}

/* How long the sequence is that begins there (X.690, 8.1.3), as a certificate does; 0: there is none in `most` bytes. */
static size_t sequence(const unsigned char *at, size_t most)
{
    size_t more = most < 2 || at[1] < 0x80 ? 0 : at[1] & 0x7f, length = 0;
    if (most < 2 || at[0] != 0x30 || at[1] == 0x80 || more > 3 || more > most - 2)
        return 0;
    for (size_t index = 0; index < more; index++)
        length = length << 8 | at[2 + index];
    length += 2 + (more == 0 ? at[1] : more);
    return length <= most ? length : 0;
}

/* No entry is longer than the lines it comes from: 54 bytes around the data, against 37 and a name. */
char *java_keystore(const char *certificates, size_t *length)
{
    static const char begin[] = "-----BEGIN CERTIFICATE-----", kind[] = "X.509";
    unsigned char *sealed = xcalloc(sizeof seal - 1 + strlen(certificates) + ROOM), *store = sealed + sizeof seal - 1;
    unsigned char *certificate = xcalloc(strlen(certificates)), *to = store + 12;
    uint32_t count = 0;
    while ((certificates = strstr(certificates, begin)) != NULL) {
        certificates += sizeof begin - 1;
        size_t size = sequence(certificate, decode(certificates, certificate));
        if (size == 0)
            continue;
        const char *name = xasprintf("%u", ++count);
        to = put(put(to, 2, 4), strlen(name), 2); /* 2: a certificate that is trusted */
        to = put(mempcpy(to, name, strlen(name)), 0, 8); /* since when */
        to = put(mempcpy(put(to, sizeof kind - 1, 2), kind, sizeof kind - 1), size, 4);
        to = mempcpy(to, certificate, size);
    }
    put(put(put(store, 0xfeedfeed, 4), 2, 4), count, 4); /* its mark, and version */
    memcpy(sealed, seal, sizeof seal - 1);
    sha1(sealed, (size_t)(to - sealed), to);
    *length = (size_t)(to - store) + 20;
    return (char *)store;
}

const char *authorities_store(const struct run *run, const char *copy)
{
    const char *path = xasprintf("%s/authorities.jks", run->state);
    size_t length;
    char *content = read_file(AT_FDCWD, copy, MOST_COPY, NULL);
    if (content == NULL)
        die_errno("%s can't be read", copy);
    content = java_keystore(content, &length);
    if (write_file(AT_FDCWD, path, content, length, 0644) != 0 || chmod(path, 0644) != 0)
        die_errno("%s can't be written", path);
    return path;
}
