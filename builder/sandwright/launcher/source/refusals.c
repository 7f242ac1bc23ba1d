/* What the sandbox was refused, and how often. Names are of those inside: they are written as hexadecimal digits. */
#define _GNU_SOURCE
#include "refusals.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launch.h"

enum { MOST = 256, PATH = 108 };
enum { MAX_ERRNO = 4095 }; /* as the kernel has it, which a filter's larger one becomes */

struct refusal {
    uint32_t architecture; /* 0: of a socket */
    int number, error;     /* of the call */
    int which;             /* of the filters: 0 is the policy's */
    enum { NO_SOCKET, LOCAL, DATAGRAM } local; /* whether it makes a Unix socket */
    uint64_t count;
    unsigned char length, path[PATH];
};

static struct refusals {
    size_t count;
    uint64_t others; /* that found no room */
    struct refusal each[MOST];
} *shared;
static int memory = -1;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

/* ---- the filter */
static bool is_known(const struct sock_filter *at, size_t index, size_t count)
{
    size_t left = count - index - 1;
    switch (at->code) {
    case BPF_RET | BPF_K:
        return true;
    case BPF_LD | BPF_W | BPF_ABS:
        return left > 0 && at->k % 4 == 0 && at->k < sizeof(struct seccomp_data);
    case BPF_ALU | BPF_AND | BPF_K:
        return left > 0;
    case BPF_JMP | BPF_JA:
        return at->k < left;
    case BPF_JMP | BPF_JEQ | BPF_K:
    case BPF_JMP | BPF_JGT | BPF_K:
    case BPF_JMP | BPF_JGE | BPF_K:
    case BPF_JMP | BPF_JSET | BPF_K:
        return at->jt < left && at->jf < left;
    default:
        return false;
    }
}

/* Jumps lead forward only, and none beyond the end: each call comes to an answer. */
bool filter_parse(const char *bytes, size_t length, struct program *program)
{
    *program = (struct program){NULL, length / sizeof(struct sock_filter)};
    if (length == 0 || length % sizeof(struct sock_filter) != 0 || program->count > MOST_INSTRUCTIONS - ASKS)
        return false;
    program->at = xcalloc(length);
    memcpy(program->at, bytes, length);
    for (size_t index = 0; index < program->count; index++)
        if (!is_known(&program->at[index], index, program->count))
            return false;
    return true;
}

static bool holds(const struct sock_filter *at, uint32_t value)
{
    switch (BPF_OP(at->code)) {
    case BPF_JEQ:
        return value == at->k;
    case BPF_JGT:
        return value > at->k;
    case BPF_JGE:
        return value >= at->k;
    default:
        return (value & at->k) != 0;
    }
}

uint32_t filter_action(const struct program *program, const struct seccomp_data *call)
{
    uint32_t value = 0;
    for (size_t index = 0;; index++) {
        const struct sock_filter *at = &program->at[index];
        switch (BPF_CLASS(at->code)) {
        case BPF_RET:
            return at->k;
        case BPF_LD:
            memcpy(&value, (const char *)call + at->k, sizeof value);
            break;
        case BPF_ALU:
            value &= at->k;
            break;
        default:
            index += at->code == (BPF_JMP | BPF_JA) ? at->k : holds(at, value) ? at->jt : at->jf;
        }
    }
}

bool is_refusal(uint32_t action)
{
    uint32_t error = action & SECCOMP_RET_DATA; /* with 0, the call is skipped and says that all went well */
    return (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO && error != ENOSYS && error != 0;
}

void filter_ask(struct program *program)
{
    for (size_t index = 0; index < program->count; index++)
        if (program->at[index].code == (BPF_RET | BPF_K) && is_refusal(program->at[index].k))
            program->at[index].k = SECCOMP_RET_USER_NOTIF;
}

int filters_refusal(const struct program *filters, size_t count, const struct seccomp_data *call, int *which)
{
    for (size_t index = 0; index < count; index++) {
        uint32_t action = filter_action(&filters[index], call);
        if (which != NULL)
            *which = (int)index;
        if (is_refusal(action))
            return (int)(action & SECCOMP_RET_DATA) < MAX_ERRNO ? (int)(action & SECCOMP_RET_DATA) : MAX_ERRNO;
    }
    return 0;
}

/* What one lets go, the next decides: as before, the strictest answer counts, and of errors the first one. */
static void append(struct program *whole, const struct program *part, bool last)
{
    struct sock_filter *at = whole->at + whole->count;
    memcpy(at, part->at, part->count * sizeof *at);
    for (size_t index = 0; index < part->count; index++)
        if (!last && at[index].code == (BPF_RET | BPF_K) &&
            (int32_t)(at[index].k & SECCOMP_RET_ACTION_FULL) > (int32_t)SECCOMP_RET_USER_NOTIF)
            at[index] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(part->count - index - 1));
    whole->count += part->count;
}

struct program filters_joined(const struct program *first, const struct program *filters, size_t count)
{
    struct program whole = {xcalloc(2 * MOST_INSTRUCTIONS * sizeof *whole.at), 0};
    if (first != NULL)
        append(&whole, first, true);
    for (size_t index = 0; index < count; index++) {
        if (whole.count + 1 + filters[index].count > MOST_INSTRUCTIONS)
            return (struct program){NULL, 0};
        if (whole.count > 0) /* each begins with 0 in the register, as the kernel has it */
            whole.at[whole.count++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0);
        struct program part = {whole.at + MOST_INSTRUCTIONS, filters[index].count};
        memcpy(part.at, filters[index].at, part.count * sizeof *part.at);
        filter_ask(&part);
        append(&whole, &part, index + 1 == count);
    }
    return whole;
}

/* ---- the counts */
static bool map(void)
{
    void *made = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    shared = made == MAP_FAILED ? NULL : made;
    return shared != NULL;
}

void refusals_share(void)
{
    memory = memfd_create("denials", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0 || ftruncate(memory, sizeof *shared) != 0 || fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0 ||
        !map())
        die_errno("there is no memory for what is refused");
}

int refusals_memory(void)
{
    return memory;
}

bool refusals_take(int taken)
{
    struct stat status;
    int seals = fcntl(taken, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(taken, &status) != 0 || status.st_size < (off_t)sizeof *shared)
        return false;
    memory = taken;
    return map();
}

/* Who else has the memory may have written anything there. */
static size_t counted(void)
{
    size_t count = shared->count;
    return count < MOST ? count : MOST;
}

static void count(const struct refusal *found)
{
    if (shared == NULL)
        return;
    pthread_mutex_lock(&counting);
    size_t index = 0, known = counted();
    for (; index < known; index++) {
        const struct refusal *each = &shared->each[index];
        if (each->architecture == found->architecture && each->number == found->number && each->error == found->error &&
            each->local == found->local && each->which == found->which &&
            each->length == found->length && memcmp(each->path, found->path, PATH) == 0)
            break;
    }
    if (index == MOST)
        shared->others++;
    else if (index < known)
        shared->each[index].count++;
    else {
        shared->each[index] = *found;
        shared->each[index].count = 1;
        shared->count = known + 1;
    }
    pthread_mutex_unlock(&counting);
}

/* Of arguments only a socket's family and kind count: Unix sockets are refused by own_sockets, not by the profile. */
void refusals_add_call(const struct seccomp_data *call, int error, int which)
{
    bool makes = call->nr == SYS_socket || call->nr == SYS_socketpair;
    bool local = makes && call->arch == NATIVE && (uint32_t)call->args[0] == AF_UNIX;
    bool datagrams = (call->args[1] & SOCK_DGRAM) != 0; /* SOCK_RAW is taken for the same */
    count(&(struct refusal){.architecture = call->arch, .number = call->nr, .error = error, .which = which,
                            .local = !local ? NO_SOCKET : datagrams ? DATAGRAM : LOCAL});
}

void refusals_add_socket(const char *path, int error)
{
    struct refusal found = {.error = error};
    size_t length = strnlen(path, PATH);
    memcpy(found.path, path, length);
    found.length = (unsigned char)length;
    count(&found);
}

/* Lines: `call ARCHITECTURE NUMBER ERROR COUNT FILTER`, `local` and `datagram` with the same, `connect ERROR COUNT PATH`
 * (hexadecimal), `others COUNT`. */
static void write_one(struct bytes *out, const struct refusal *each)
{
    static const char *const names[] = {"call", "local", "datagram"};
    if (each->architecture != 0)
        bytes_text(out, "%s %u %d %d %llu %d", names[each->local], each->architecture, each->number, each->error,
                (unsigned long long)each->count, each->which);
    else
        bytes_text(out, "connect %d %llu ", each->error, (unsigned long long)each->count);
    for (size_t at = 0; at < each->length && at < PATH; at++)
        bytes_text(out, "%02x", each->path[at]);
    bytes_text(out, "\n");
}

void refusals_write(const char *name)
{
    if (shared == NULL || shared->count == 0)
        return;
    struct bytes out = {0};
    for (size_t index = 0; index < counted(); index++)
        write_one(&out, &shared->each[index]);
    bytes_text(&out, "others %llu\n", (unsigned long long)shared->others);
    if (write_file(AT_FDCWD, name, out.at, out.end, 0600) != 0)
        warn("what was refused can't be told: %s: %s", name, strerror(errno));
}

void refusals_report(int file)
{
    static size_t told;
    struct bytes out = {0};
    if (shared == NULL || told >= counted())
        return;
    for (; told < counted(); told++)
        write_one(&out, &shared->each[told]);
    if (write(file, out.at, out.end) != (ssize_t)out.end)
        warn("what was refused can't be told: %s", strerror(errno));
    free(out.at);
}
