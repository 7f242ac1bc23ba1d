/* What notify.c, confine.c and denied.c share: refusals of the filter are told to the supervisor, which counts them. */
#ifndef DENIED_H
#define DENIED_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_INSTRUCTIONS = 4096 /* BPF_MAXINSNS */, ASKS = 32 /* room for those of confine.c */ };

struct program {
    struct sock_filter *at;
    size_t count;
};

/* Whether these bytes are a program of instructions that filter_action knows, which ends for each call. */
bool filter_parse(const char *bytes, size_t length, struct program *program);
uint32_t filter_action(const struct program *program, const struct seccomp_data *call);
bool is_refusal(uint32_t action);             /* an error, but ENOSYS: by that programs choose other ways */
void filter_ask(struct program *program);     /* refusals become questions to a listener (SECCOMP_RET_USER_NOTIF) */

/* The counts, in memory that the launcher shares with the supervisor. */
void denied_share(void);                                                 /* launcher, before the keeper is forked */
void denied_call(const struct seccomp_data *call, int error);            /* supervisor, by any of its threads */
void denied_socket(const char *path, int error);                         /* without a path's first byte: abstract */
void denied_write(const char *file);                                     /* launcher, when all has ended */

#endif
