/* The recorder's memory, in which each access is stored once. When it is full, further accesses are only
 * counted. Programs inside choose the names, so the output contains \u00XX for each byte that is not
 * printable ASCII. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/un.h>

#include "launch.h"
#include "recorded.h"

enum { BYTES = 64 << 20, BUCKETS = 1 << 16, ALIGNED = 8, PIECE = 1 << 16 };

struct entry {
    uint32_t next; /* the next entry of its bucket, an offset in `at`; 0: none */
    uint32_t count;
    uint16_t what; /* 0: a path */
    uint16_t found, asked, kinds;
    uint32_t number;
    uint16_t length, real; /* lengths of the two paths in `text`; `real` is 0 if both are the same */
    char text[];
};

static struct memory {
    uint64_t calls, dropped;
    uint32_t used;
    uint32_t first[BUCKETS];
    unsigned char at[BYTES];
} *shared;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

void recorded_share(void)
{
    int kind = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
    void *made = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, kind, -1, 0);
    if (made == MAP_FAILED)
        die("not enough memory for the recording");
    shared = made;
    shared->used = ALIGNED; /* offset 0 means none */
}

/* FNV-1a */
static uint32_t hash(const void *bytes, size_t length)
{
    uint32_t value = 2166136261U;
    for (size_t index = 0; index < length; index++)
        value = (value ^ ((const unsigned char *)bytes)[index]) * 16777619U;
    return (value ^ value >> 16) % BUCKETS;
}

static struct entry *at(uint32_t place)
{
    return place == 0 ? NULL : (struct entry *)(void *)(shared->at + place);
}

static struct entry *next_like(struct entry *each, int what, const void *bytes, size_t length)
{
    while (each != NULL && (each->what != what || each->length != length || memcmp(each->text, bytes, length) != 0))
        each = at(each->next);
    return each;
}

static struct entry *add_entry(int what, const void *bytes, size_t length, const char *real)
{
    size_t more = real == NULL ? 0 : strlen(real), size = sizeof(struct entry) + length + more;
    size = (size + ALIGNED - 1) / ALIGNED * ALIGNED;
    if (length > UINT16_MAX || more > UINT16_MAX || size > BYTES - shared->used) {
        shared->dropped++;
        return NULL;
    }
    uint32_t bucket = hash(bytes, length);
    struct entry *made = at(shared->used);
    *made = (struct entry){.next = shared->first[bucket], .what = (uint16_t)what, .length = (uint16_t)length,
                           .real = (uint16_t)more};
    memcpy(made->text, bytes, length);
    if (more > 0)
        memcpy(made->text + length, real, more);
    shared->first[bucket] = shared->used;
    shared->used += (uint32_t)size;
    return made;
}

bool recorded_path_known(const char *path, unsigned asked)
{
    size_t length = strlen(path);
    pthread_mutex_lock(&writing);
    shared->calls++;
    struct entry *each = next_like(at(shared->first[hash(path, length)]), 0, path, length);
    while (each != NULL && (asked & ~(unsigned)each->asked) != 0)
        each = next_like(at(each->next), 0, path, length);
    pthread_mutex_unlock(&writing);
    return each != NULL;
}

void recorded_path(const char *path, const char *real, enum found found, unsigned asked, unsigned kinds)
{
    size_t length = strlen(path), own = strcmp(path, real) == 0 ? 0 : strlen(real);
    pthread_mutex_lock(&writing);
    struct entry *each = next_like(at(shared->first[hash(path, length)]), 0, path, length);
    while (each != NULL && (each->found != found || each->real != own || memcmp(each->text + length, real, own) != 0))
        each = next_like(at(each->next), 0, path, length);
    if (each == NULL && (each = add_entry(0, path, length, own == 0 ? NULL : real)) != NULL)
        each->found = (uint16_t)found;
    if (each != NULL) {
        each->asked = (uint16_t)(each->asked | asked);
        each->kinds = (uint16_t)(each->kinds | kinds);
    }
    pthread_mutex_unlock(&writing);
}

void recorded_other(int what, unsigned number, const void *address, size_t length)
{
    if (shared == NULL)
        return;
    pthread_mutex_lock(&writing);
    struct entry *each = next_like(at(shared->first[hash(address, length)]), what, address, length);
    while (each != NULL && each->number != number)
        each = next_like(at(each->next), what, address, length);
    if (each == NULL && (each = add_entry(what, address, length, NULL)) != NULL)
        each->number = number;
    if (each != NULL && each->count < UINT32_MAX)
        each->count++;
    pthread_mutex_unlock(&writing);
}

/* ---- the output, after the run */
static void write_path(struct bytes *out, const struct entry *each)
{
    static const char *const found[] = {"absent", "file", "directory", "link", "other"};
    static const char *const kinds[] = {"read", "write", "create", "exec", "list", "look", "remove"};
    const char *between = "";
    bytes_json(out, "path", each->text, each->length);
    if (each->real > 0) {
        bytes_text(out, ", ");
        bytes_json(out, "real", each->text + each->length, each->real);
    }
    bytes_text(out, ", \"found\": \"%s\", \"kinds\": [", found[each->found % 5]);
    for (size_t index = 0; index < sizeof kinds / sizeof *kinds; index++)
        if ((each->kinds & 1U << index) != 0) {
            bytes_text(out, "%s\"%s\"", between, kinds[index]);
            between = ", ";
        }
    bytes_text(out, "]");
}

static void write_address(struct bytes *out, const struct entry *each)
{
    static const char *const names[] = {[CONNECT] = "connect", [SEND] = "send", [LISTEN] = "listen"};
    const char *type = each->number == SOCK_STREAM ? "tcp" : each->number == SOCK_DGRAM ? "udp" : "other";
    char text[INET6_ADDRSTRLEN] = ""; /* empty for other families, such as netlink */
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
        struct sockaddr_un local;
    } address;
    /* The longest address. */
    size_t given = each->length < sizeof address.local ? each->length : sizeof address.local;
    memset(&address, 0, sizeof address);
    memcpy(&address, each->text, given);
    bytes_text(out, "\"%s\": ", names[each->what]);
    if (address.any.sa_family == AF_UNIX) {
        size_t head = offsetof(struct sockaddr_un, sun_path), length = given < head ? 0 : given - head;
        bytes_text(out, "\"unix\", ");
        bytes_json(out, "address", address.local.sun_path, length);
        return;
    }
    bool four = address.any.sa_family == AF_INET;
    if (four || address.any.sa_family == AF_INET6)
        inet_ntop(four ? AF_INET : AF_INET6, four ? (void *)&address.four.sin_addr : (void *)&address.six.sin6_addr, text, sizeof text);
    int port = ntohs(four ? address.four.sin_port : address.six.sin6_port);
    bytes_text(out, "\"%s\", \"address\": \"%s\", \"port\": %d", type, text, port);
}

static void write_entry(struct bytes *out, const struct entry *each)
{
    bytes_text(out, "{");
    if (each->what == 0)
        write_path(out, each);
    else if (each->what == CALL)
        bytes_text(out, "\"call\": %u", each->number);
    else if (each->what == UNRESOLVED)
        bytes_text(out, "\"unresolved\": %u", each->count);
    else
        write_address(out, each);
    bytes_text(out, "}\n");
}

/* Whether the access was certainly not denied: a mask is no regular file, and a lookup succeeds even
 * there. */
static bool is_unrefused(const struct entry *each)
{
    bool changes = (each->kinds & (WRITE | CREATE | REMOVE)) != 0;
    return each->what == 0 && !changes && (each->found == A_FILE || (each->kinds == LOOK && each->found != ABSENT));
}

void recorded_write(const char *name)
{
    if (shared == NULL)
        return;
    struct bytes out = {0};
    int file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool fine = file >= 0;
    for (size_t bucket = 0; bucket < BUCKETS; bucket++)
        for (struct entry *each = at(shared->first[bucket]); fine && each != NULL; each = at(each->next)) {
            if (!record_uses() || !is_unrefused(each))
                write_entry(&out, each);
            if (bytes_held(&out) > PIECE)
                fine = bytes_flush(&out, file);
        }
    bytes_text(&out, "{\"end\": true, \"calls\": %llu, \"dropped\": %llu}\n", (unsigned long long)shared->calls,
               (unsigned long long)shared->dropped);
    if (!fine || !bytes_flush(&out, file) || close(file) != 0)
        warn("cannot write the recording: %s: %s", name, strerror(errno));
}
