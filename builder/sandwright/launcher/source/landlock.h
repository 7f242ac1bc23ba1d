/* Landlock's calls and rights, as the kernel has them (include/uapi/linux/landlock.h): C libraries know none of the calls,
 * and their headers are older than the version that is needed. */
#ifndef LANDLOCK_H
#define LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct run;
struct strv;

enum { LANDLOCK_NEEDED = 6 }; /* Linux 6.12 */

struct landlock_rules {
    uint64_t files, ports, scopes; /* the restricted rights */
};

enum {
    MAY_EXECUTE = 1 << 0,
    MAY_WRITE = 1 << 1,
    MAY_READ = 1 << 2,
    MAY_LIST = 1 << 3,
    MAY_MAKE_CHARACTER_DEVICE = 1 << 6,
    MAY_MAKE_DIRECTORY = 1 << 7,
    MAY_MAKE_FILE = 1 << 8,
    MAY_MAKE_FIFO = 1 << 10,
    MAY_MAKE_BLOCK_DEVICE = 1 << 11,
    MAY_MAKE_LINK = 1 << 12, /* a symbolic one */
    MAY_REFER = 1 << 13, /* links and moves between directories: every domain denies it unless a rule grants it */
    MAY_TRUNCATE = 1 << 14,
    MAY_CONTROL_DEVICE = 1 << 15,
    ALL_FILES = (1 << 16) - 1, /* of version 5 */
    /* A name for something that can be read or entered. */
    CREATION = MAY_MAKE_CHARACTER_DEVICE | MAY_MAKE_DIRECTORY | MAY_MAKE_FILE | MAY_MAKE_FIFO | MAY_MAKE_BLOCK_DEVICE |
               MAY_MAKE_LINK | MAY_REFER,
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

struct landlock_rules landlock_held(int version); /* what a kernel with this version can restrict */

/* backstop.c: whether there is a second wall (launcher); its rules for the host's paths, and for `shown` besides (child); words behind
 * the first of the command that make it enter the wall inside; the descriptor that they name. */
bool backstop_available(const struct run *run);
int backstop_make(const struct run *run, const struct strv *shown);
void backstop_command(struct run *run, int descriptor);
void backstop_hand_over(int ruleset, int descriptor);

/* backstop_inside.c */
enum { BACKSTOP_READS = MAY_EXECUTE | MAY_READ | MAY_LIST, BACKSTOP_WRITES = ALL_FILES & ~(MAY_MAKE_BLOCK_DEVICE | MAY_CONTROL_DEVICE) };
struct landlock_rules backstop_held(void);        /* what this kernel holds, without ports: the network's namespace has them */
void backstop_grant(int ruleset, uint64_t rights, int file, const char *path); /* closes `file`; -1: it isn't seen inside, either */
void backstop_own(int ruleset, char *const *own); /* rules for the sandbox's private directories */
char **backstop_enter(char **words);              /* words behind `--backstop`; gives those that are left, behind a NULL */

/* grants.c: rules for the artifact `rules`, words that each end with NUL: the grant, and a path. Refuses. */
void grant_paths(const struct run *run, int ruleset);

#endif
