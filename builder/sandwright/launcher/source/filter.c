/* seccomp filters, programs of classic BPF: reads and evaluates them, and joins them so that refusals
 * (SECCOMP_RET_ERRNO, but not ENOSYS) become notifications to a listener (SECCOMP_RET_USER_NOTIF). */
#define _GNU_SOURCE

#include "filter.h"
#include "utils.h"

enum { MAX_ERRNO = 4095 }; /* the kernel reduces larger errors to this one */

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

/* Jumps lead forward only, and not beyond the end, so that the program ends for each call. */
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
    /* With error 0, the call is skipped and seems to have succeeded. */
    uint32_t error = action & SECCOMP_RET_DATA;
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

/* A call that one filter allows is decided by the next one. As with separate filters, the strictest action
 * counts, and of several errors the first one. */
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
        if (whole.count > 0) /* every filter expects 0 in the accumulator, as the kernel sets it */
            whole.at[whole.count++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0);
        struct program part = {whole.at + MOST_INSTRUCTIONS, filters[index].count};
        memcpy(part.at, filters[index].at, part.count * sizeof *part.at);
        filter_ask(&part);
        append(&whole, &part, index + 1 == count);
    }
    return whole;
}
