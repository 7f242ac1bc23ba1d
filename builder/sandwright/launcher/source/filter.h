/* seccomp filters, programs of classic BPF (filter.c). */
#ifndef FILTER_H
#define FILTER_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
enum { NATIVE = AUDIT_ARCH_X86_64 };
#else
enum { NATIVE = AUDIT_ARCH_AARCH64 };
#endif
enum { MOST_INSTRUCTIONS = 4096 /* BPF_MAXINSNS */, ASKS = 96 /* room for those of confine.c */ };

struct program {
    struct sock_filter *at;
    size_t count;
};

/* Whether these bytes are a program of instructions that filter_action knows, which ends for each call. */
bool filter_parse(const char *bytes, size_t length, struct program *program);
uint32_t filter_action(const struct program *program, const struct seccomp_data *call);
bool is_refusal(uint32_t action);             /* an error, but ENOSYS: by that programs choose other ways */
void filter_ask(struct program *program);     /* refusals become questions to a listener (SECCOMP_RET_USER_NOTIF) */
/* Several, of which the first one's error counts, as the kernel does it with the one that was loaded last: the error, or 0.
 * `which` (may be NULL) gets the filter's index. */
int filters_refusal(const struct program *filters, size_t count, const struct seccomp_data *call, int *which);
/* Joins filters, with `first` before them (NULL: nothing), into one that notifies if any of them refuses,
 * because only the newest filter has a listener. The result has no instructions if they are too many. */
struct program filters_joined(const struct program *first, const struct program *filters, size_t count);

/* ---- confine.c: loads the filters and hands their listener to `channel`. Without a listener, it warns that refusals
 * can't be reported, and loads them as they are; refuses where the supervisor is to do something else. `no_new_privs` is set. */
enum confining { ASK_REFUSALS, ASK_CONNECT, ASK_SOCKETS, ASK_NAMES }; /* the further calls (socket_broker.c); paths.c */
enum { WITH_LINKS = 1, WITH_CREATION = 2 };                           /* and calls that the supervisor makes (links.c, creation.c) */
void confine_self(int channel, const struct program *filters, size_t count, enum confining what, unsigned with);
/* The same in a separate process, by words of notify_command after `--confine`; returns the words after them. */
char **confine_enter(char **words);
struct program read_filter(int file);                              /* refuses */
void load_filters(const struct program *filters, size_t count); /* for good; refuses */

#endif
