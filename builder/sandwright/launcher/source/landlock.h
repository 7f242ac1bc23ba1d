/* Landlock's calls and rights, as the kernel has them (include/uapi/linux/landlock.h): C libraries know none of the calls,
 * and their headers are older than the version that is needed. */
#ifndef LANDLOCK_H
#define LANDLOCK_H

#include <stdint.h>

#include "launch.h"

enum { LANDLOCK_NEEDED = 6 }; /* Linux 6.12 */

struct landlock_rules {
    uint64_t files, ports, scopes; /* what is restricted */
};

enum {
    MAY_EXECUTE = 1 << 0,
    MAY_WRITE = 1 << 1,
    MAY_READ = 1 << 2,
    MAY_LIST = 1 << 3,
    MAY_MAKE_CHARACTER_DEVICE = 1 << 6,
    MAY_MAKE_BLOCK_DEVICE = 1 << 11,
    MAY_REFER = 1 << 13, /* links and moves between directories: every domain denies it unless a rule grants it */
    MAY_TRUNCATE = 1 << 14,
    MAY_CONTROL_DEVICE = 1 << 15,
    ALL_FILES = (1 << 16) - 1, /* of version 5 */
};
enum { MAY_BIND = 1 << 0, MAY_CONNECT = 1 << 1, ALL_PORTS = 3 };
enum { SCOPE_ABSTRACT = 1 << 0, SCOPE_SIGNALS = 1 << 1, ALL_SCOPES = 3 };

/* Why this kernel's Landlock can't be used; NULL when it can. `version` is what it says of itself, or -errno. */
const char *landlock_lacks(int version);
int landlock_version(void);
int landlock_make(const struct landlock_rules *rules);             /* a descriptor; refuses */
void landlock_path(int ruleset, int file, uint64_t rights, const char *path); /* `file`: any descriptor of it */
void landlock_port(int ruleset, uint64_t right, const char *port);
void landlock_enter(int ruleset);                                  /* for good; closes it */

/* backstop.c: whether there is a second wall (launcher); its rules for the host's paths, and for `shown` besides (child); words behind
 * the first of the command that make it enter the wall inside; the descriptor that they name. */
bool backstop_available(const struct run *run);
int backstop_make(const struct run *run, const struct strv *shown);
void backstop_command(struct run *run, int descriptor);
void backstop_hand_over(int ruleset, int descriptor);
void backstop_own(int ruleset, char *const *own); /* inside: rules for what is the sandbox's own */
char **backstop_enter(char **words);             /* inside: words behind `--wall`; gives those that are left, behind a NULL */

/* landlock.c: all capabilities, now and later. Refuses. */
void drop_all_rights(void);

/* backstop.c: what a kernel with this version of Landlock can restrict. */
struct landlock_rules landlock_held(int version);

/* grants.c: rules for the artifact `rules`, words that each end with NUL: what is granted, and a path. Refuses. */
void grant_paths(const struct run *run, int ruleset);

#endif
