/* SHA-256 (FIPS 180-4) of memory. */

#include "launch.h"

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turned(uint32_t word, unsigned by)
{
    return word >> by | word << (32 - by);
}

static void take_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t words[64], now[8];
    for (int index = 0; index < 16; index++, block += 4)
        words[index] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (int index = 16; index < 64; index++) {
        uint32_t first = words[index - 15], last = words[index - 2];
        words[index] = words[index - 16] + words[index - 7] + (turned(first, 7) ^ turned(first, 18) ^ first >> 3) +
                       (turned(last, 17) ^ turned(last, 19) ^ last >> 10);
    }
    memcpy(now, state, sizeof now);
    for (int index = 0; index < 64; index++) {
        uint32_t one = now[7] + (turned(now[4], 6) ^ turned(now[4], 11) ^ turned(now[4], 25)) +
                       ((now[4] & now[5]) ^ (~now[4] & now[6])) + constants[index] + words[index];
        uint32_t two = (turned(now[0], 2) ^ turned(now[0], 13) ^ turned(now[0], 22)) +
                       ((now[0] & now[1]) ^ (now[0] & now[2]) ^ (now[1] & now[2]));
        memmove(now + 1, now, 7 * sizeof *now);
        now[4] += one;
        now[0] = one + two;
    }
    for (int index = 0; index < 8; index++)
        state[index] += now[index];
}

void sha256(const void *data, size_t length, unsigned char digest[32])
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char *at = data;
    size_t left = length;
    for (; left >= 64; left -= 64, at += 64)
        take_block(state, at);
    unsigned char end[128] = {0};
    size_t size = left < 56 ? 64 : 128;
    memcpy(end, at, left);
    end[left] = 0x80;
    for (int index = 0; index < 8; index++)
        end[size - 1 - (size_t)index] = (unsigned char)((uint64_t)length * 8 >> 8 * index);
    for (size_t done = 0; done < size; done += 64)
        take_block(state, end + done);
    for (int index = 0; index < 32; index++)
        digest[index] = (unsigned char)(state[index / 4] >> (24 - 8 * (index % 4)));
}

char *sha256_hex(const void *data, size_t length)
{
    unsigned char digest[32];
    char *hex = xcalloc(2 * sizeof digest + 1);
    sha256(data, length, digest);
    for (size_t index = 0; index < sizeof digest; index++)
        sprintf(hex + 2 * index, "%02x", digest[index]);
    return hex;
}
