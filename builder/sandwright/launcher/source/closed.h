/* Closed directories: directories in which programs inside can create nothing directly. The policy restricts
 * names in them that do not exist (plan.uncreatable). Landlock can't deny a single name, because its rules
 * hold for inodes, so it denies every creation there, and the supervisor creates the other names (closed.c,
 * creation.c). */
#ifndef CLOSED_H
#define CLOSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "utils.h"

struct run;
struct broker;
struct seccomp_data;
struct seccomp_notif;

/* A closed directory. The directories between it and the writable directory that contains it are closed, too,
 * because a Landlock rule for one of them would hold for everything below it. */
struct closed {
    const char *path;
    size_t length;
    struct stat status;
    struct strv names;   /* the names that no program inside may create here */
    int inside;          /* supervisor: a descriptor of the directory in the sandbox */
    uint64_t mount;      /* supervisor: the mount of `inside` */
    bool folds;          /* several spellings may lead to one name */
};

/* ---- closed.c: the launcher's part */
void closed_check(const struct run *run);   /* launcher: refuses the run if Landlock is missing */
/* Monitor, before it forks the supervisor: inspects the directories. */
void closed_prepare(const struct run *run);
/* Child: adds the rules for a writable directory that contains closed ones; false: it contains none. */
bool closed_grant(int ruleset, uint64_t rights, const char *path);
struct closed *closed_at(const struct stat *status); /* by device and inode; NULL: not closed */
/* The nearest closed directory that is `path` or contains it; NULL: none. */
struct closed *closed_above(const char *path, size_t length);
/* Whether this directory in a closed one has a Landlock rule. */
bool closed_granted(const struct stat *status);
size_t closed_all(struct closed **all);

/* ---- creation.c: the supervisor's part */
void creation_begin(pid_t first); /* `first`: a process in the sandbox */
/* Whether a name must not be created in this directory, because the policy restricts the name itself or one
 * of the directory's parents. */
bool creation_is_refused(const struct broker *broker, int directory, const char *name);
bool creation_is_asked(const struct seccomp_data *call); /* whether the call creates a name */
/* Returns 0, the error for the caller, or -1 if the caller has gone or was answered. May set
 * SECCOMP_USER_NOTIF_FLAG_CONTINUE in `flags`: the call goes on, and Landlock decides. With `at_once`, it
 * also returns -1 if something has to be created, or if a file system could block. */
int creation_answer(const struct broker *broker, const struct seccomp_notif *call, uint32_t *flags, bool at_once);

#endif
