/* Directories in which programs inside create nothing themselves: some names that the policy restricts do not exist there
 * (plan.uncreatable), and Landlock rules hold for inodes, not for names. closed.c, creation.c. */
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

/* One of them. The directories between it and the writable directory that grants it are closed, too: a rule for one of them
 * would hold for everything below. */
struct closed {
    const char *path;
    size_t length;
    struct stat status;
    struct strv names;   /* that no program inside may create here */
    int inside;          /* supervisor: the directory as the sandbox sees it */
    uint64_t mount;      /* supervisor: and its mount there */
    bool folds;          /* several spellings may lead to one name */
};

/* ---- closed.c: the launcher's part */
void closed_check(const struct run *run);   /* launcher: refuses where there is no Landlock */
void closed_prepare(const struct run *run); /* monitor, before the supervisor is forked: looks at the directories */
bool closed_grant(int ruleset, uint64_t rights, const char *path); /* child: rules for a writable directory with closed ones; false: it has none */
struct closed *closed_at(const struct stat *status);                  /* by device and inode; NULL */
struct closed *closed_above(const char *path, size_t length);         /* the nearest one that contains a path, or is it; NULL */
bool closed_granted(const struct stat *status);                       /* a directory in one of them that has a rule */
size_t closed_all(struct closed **all);

/* ---- creation.c: the supervisor's part */
void creation_begin(pid_t first); /* `first`: a process of the sandbox's */
/* Whether a name may not be created in this directory: the policy restricts it, or one of the directory's parents. */
bool creation_is_refused(const struct broker *broker, int directory, const char *name);
bool creation_is_asked(const struct seccomp_data *call); /* a call that creates a name */
/* 0, the error that the call ends with, or -1: the caller is gone, or has its answer. `flags` may get
 * SECCOMP_USER_NOTIF_FLAG_CONTINUE: the call goes on, and Landlock decides. `at_once`: also -1 where something has to be created,
 * or a file system may make us wait. */
int creation_answer(const struct broker *broker, const struct seccomp_notif *call, uint32_t *flags, bool at_once);

#endif
