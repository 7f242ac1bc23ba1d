/* seccomp filters: programs of classic BPF (filter.c). */
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
enum { MOST_INSTRUCTIONS = 4096 /* BPF_MAXINSNS */, ASKS = 96 /* room for the instructions of confine.c */ };

struct program {
    struct sock_filter *at;
    size_t count;
};

/* Whether these bytes are a program that filter_action can evaluate, and that ends for every call. */
bool filter_parse(const char *bytes, size_t length, struct program *program);
uint32_t filter_action(const struct program *program, const struct seccomp_data *call);
bool is_refusal(uint32_t action); /* any error but ENOSYS, with which programs choose a fallback */
void filter_ask(struct program *program);     /* turns refusals into notifications (SECCOMP_RET_USER_NOTIF) */
/* Evaluates several filters. The error of the first one counts, as the kernel uses the error of the filter
 * loaded last. Returns the error, or 0. `which` (may be NULL) gets the index of that filter. */
int filters_refusal(const struct program *filters, size_t count, const struct seccomp_data *call, int *which);
/* Joins the filters into one that sends a notification if any of them refuses, because only the newest filter
 * has a listener. `first` (may be NULL) is put before them. The result has no instructions if there are too
 * many. */
struct program filters_joined(const struct program *first, const struct program *filters, size_t count);

/* ---- confine.c: loads the filters, and passes their listener over the socket `channel`. If the kernel gives
 * no listener, it warns that denials can't be reported, and loads the filters unchanged; if the supervisor
 * has to answer further calls, it refuses the run. no_new_privs must be set. */
/* Which further calls are notifications: connect(2); those of socket_broker.c; those of paths.c. */
enum confining { ASK_REFUSALS, ASK_CONNECT, ASK_SOCKETS, ASK_NAMES };
enum { WITH_LINKS = 1, WITH_CREATION = 2 }; /* and the calls that links.c and creation.c answer */
void confine_self(int channel, const struct program *filters, size_t count, enum confining what, unsigned with);
/* The same in a separate process, with the words of notify_command after `--confine`. Returns the words after
 * them. */
char **confine_enter(char **words);
struct program read_filter(int file);                              /* refuses the run on failure */
/* can't be undone; refuses the run on failure. */
void load_filters(const struct program *filters, size_t count);

#endif
