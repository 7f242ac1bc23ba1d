/* What the sandbox was refused, and how often. Names are of those inside: they are written as hexadecimal digits. */
#define _GNU_SOURCE
#include "denied.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/audit.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launch.h"

#if defined(__x86_64__)
enum { NATIVE = AUDIT_ARCH_X86_64 };
#else
enum { NATIVE = AUDIT_ARCH_AARCH64 };
#endif
enum { MOST = 256, PATH = 108 };

struct refusal {
    uint32_t architecture; /* 0: of a socket */
    int number, error;     /* of the call */
    bool local;            /* it makes a Unix socket */
    uint64_t count;
    unsigned char length, path[PATH];
};

static struct refusals {
    size_t count;
    uint64_t others; /* that found no room */
    struct refusal each[MOST];
} *shared;
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
    program->at = take(length);
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
    return (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO && (action & SECCOMP_RET_DATA) != ENOSYS;
}

void filter_ask(struct program *program)
{
    for (size_t index = 0; index < program->count; index++)
        if (program->at[index].code == (BPF_RET | BPF_K) && is_refusal(program->at[index].k))
            program->at[index].k = SECCOMP_RET_USER_NOTIF;
}

/* ---- the counts */
void denied_share(void)
{
    void *made = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        refuse("there is no memory");
    shared = made;
}

static void count(const struct refusal *found)
{
    pthread_mutex_lock(&counting);
    size_t index = 0;
    for (; index < shared->count; index++) {
        const struct refusal *each = &shared->each[index];
        if (each->architecture == found->architecture && each->number == found->number && each->error == found->error &&
            each->local == found->local &&
            each->length == found->length && memcmp(each->path, found->path, PATH) == 0)
            break;
    }
    if (index == MOST)
        shared->others++;
    else if (index < shared->count)
        shared->each[index].count++;
    else {
        shared->each[index] = *found;
        shared->each[index].count = 1;
        shared->count++;
    }
    pthread_mutex_unlock(&counting);
}

/* Of arguments only a socket's family counts: Unix sockets of some kinds are refused by own_sockets, not by the profile. */
void denied_call(const struct seccomp_data *call, int error)
{
    bool makes = call->nr == SYS_socket || call->nr == SYS_socketpair;
    bool local = makes && call->arch == NATIVE && (uint32_t)call->args[0] == AF_UNIX;
    count(&(struct refusal){.architecture = call->arch, .number = call->nr, .error = error, .local = local});
}

void denied_socket(const char *path, int error)
{
    struct refusal found = {.error = error};
    size_t length = strnlen(path, PATH);
    memcpy(found.path, path, length);
    found.length = (unsigned char)length;
    count(&found);
}

/* Lines: `call ARCHITECTURE NUMBER ERROR COUNT`, `local` with the same, `connect ERROR COUNT PATH` (hexadecimal), `others COUNT`. */
void denied_write(const char *name)
{
    if (shared == NULL || shared->count == 0)
        return;
    int file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *out = file < 0 ? NULL : fdopen(file, "w");
    if (out == NULL) {
        say("what was refused can't be told: %s: %s", name, strerror(errno));
        return;
    }
    for (size_t index = 0; index < shared->count && index < MOST; index++) {
        const struct refusal *each = &shared->each[index];
        if (each->architecture != 0)
            fprintf(out, "%s %u %d %d %llu", each->local ? "local" : "call", each->architecture, each->number, each->error, (unsigned long long)each->count);
        else
            fprintf(out, "connect %d %llu ", each->error, (unsigned long long)each->count);
        for (size_t at = 0; at < each->length && at < PATH; at++)
            fprintf(out, "%02x", each->path[at]);
        fputc('\n', out);
    }
    fprintf(out, "others %llu\n", (unsigned long long)shared->others);
    fclose(out);
}
