/* Landlock's system calls and rights (include/uapi/linux/landlock.h in the kernel). They are repeated here
 * because C libraries have no functions for the calls, and their headers may be older than the version that
 * is needed. */
#ifndef LANDLOCK_H
#define LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct run;
struct strv;

enum { LANDLOCK_NEEDED = 6 }; /* the ABI version of Linux 6.12 */

struct landlock_rules {
    uint64_t files, ports, scopes; /* the rights that the ruleset handles */
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
    MAY_MAKE_LINK = 1 << 12, /* symbolic */
    /* Links and moves between directories: every domain denies these unless a rule allows them. */
    MAY_REFER = 1 << 13,
    MAY_TRUNCATE = 1 << 14,
    MAY_CONTROL_DEVICE = 1 << 15,
    ALL_FILES = (1 << 16) - 1, /* ABI version 5 */
    /* The rights to create a name for an object that can be read or entered. */
    CREATION = MAY_MAKE_CHARACTER_DEVICE | MAY_MAKE_DIRECTORY | MAY_MAKE_FILE | MAY_MAKE_FIFO | MAY_MAKE_BLOCK_DEVICE |
               MAY_MAKE_LINK | MAY_REFER,
};
enum { MAY_BIND = 1 << 0, MAY_CONNECT = 1 << 1, ALL_PORTS = 3 };
enum { SCOPE_ABSTRACT = 1 << 0, SCOPE_SIGNALS = 1 << 1, ALL_SCOPES = 3 };

/* Why this kernel's Landlock can't be used; NULL: it can. `version` is the kernel's ABI version, or
 * -errno. */
const char *landlock_lacks(int version);
int landlock_version(void);
/* A descriptor of a new ruleset; refuses the run on failure. */
int landlock_make(const struct landlock_rules *rules);
/* Adds a rule; `file` is any descriptor of the path. */
void landlock_path(int ruleset, int file, uint64_t rights, const char *path);
void landlock_port(int ruleset, uint64_t right, const char *port);
void landlock_enter(int ruleset); /* restricts this process for good; closes the descriptor */

/* The rights that a kernel with this ABI version can restrict. */
struct landlock_rules landlock_held(int version);

/* backstop.c: Landlock as a second wall. backstop_available (launcher): whether there is one. backstop_make
 * (child): a ruleset with the rules for the host's paths, and for `shown` too. backstop_command: inserts the
 * words with which the program inside enters the ruleset. backstop_hand_over: puts the ruleset at the
 * descriptor that those words name. */
bool backstop_available(const struct run *run);
int backstop_make(const struct run *run, const struct strv *shown);
void backstop_command(struct run *run, int descriptor);
void backstop_hand_over(int ruleset, int descriptor);

enum { BACKSTOP_READS = MAY_EXECUTE | MAY_READ | MAY_LIST, BACKSTOP_WRITES = ALL_FILES & ~(MAY_MAKE_BLOCK_DEVICE | MAY_CONTROL_DEVICE) };
/* The rights that this kernel can restrict, without ports, which the network namespace isolates. */
struct landlock_rules backstop_held(void);
/* Closes `file`; -1: the path does not exist inside either. */
void backstop_grant(int ruleset, uint64_t rights, int file, const char *path);
void backstop_own(int ruleset, char *const *own); /* adds the rules for the sandbox's private directories */
char **backstop_enter(char **words); /* words: after `--backstop`; the rest follows the returned NULL */

/* grants.c: adds the rules of the artifact `rules`, words that end with NUL: a grant, then its path. Refuses
 * the run on failure. */
void grant_paths(const struct run *run, int ruleset);

#endif
