/* The host's files for the guest kernel (method vm) under Landlock: notify.c, landlock.c, vm.c, paths.c and
 * pathnames.c. */
#ifndef PATHS_H
#define PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct run;
struct broker;
struct seccomp_notif;
struct seccomp_data;

/* ---- pathnames.c. Before the processes are forked: reads the mount plan (`mounts`), and adds what the
 * kernel's process needs: its `program`, the first program inside, `guest`, and `own`, a directory of the
 * run. Refuses the run on failure. */
void paths_prepare(const struct run *run, const char *program, const char *guest, const char *own);
/* The directory in which the kernel's process creates the unnamed file with the guest's memory. */
const char *paths_memory(void);

#define NOTHING "/dev/null"

enum access { ACCESS_NONE, ACCESS_READ, ACCESS_CHANGE };
enum access access_to(const char *path); /* of a normalised path, as take_name returns it */
/* can't be moved, because it is or contains a mount point of the plan or a path with a rule of its own. */
bool is_held(const char *path);

/* The Git directory around this path in which no links may be created; NULL: none. */
const char *repository_of(const char *path);

struct name {
    char path[PATH_MAX]; /* absolute, without empty components, `.` and `..` */
    char last[NAME_MAX + 1];
    int above; /* a descriptor of the directory that contains `last`; -1: none */
};
/* Copies memory of the caller. Only the copy may be used afterwards, because the caller can change the
 * original at any time. */
bool read_theirs(pid_t thread, uint64_t address, void *to, size_t length);
/* These return 0, an error for the caller, or -1 if the caller has gone. */
int read_path(pid_t thread, uint64_t address, char path[PATH_MAX]);
int take_name(const struct broker *broker, const struct seccomp_notif *call, uint64_t address, struct name *name);
/* Also opens `above`. */
int take_changed(const struct broker *broker, const struct seccomp_notif *call, uint64_t address, struct name *name);
int open_above(struct name *name); /* follows no links (ELOOP) */
void close_name(struct name *name);

/* ---- paths.c, supervisor: paths_are_named says whether a call names a path and is answered here.
 * paths_answer returns 0, the error for the caller, or -1 if the caller has gone or was answered; it may
 * change `flags`, those of the response. */
bool paths_are_named(const struct seccomp_data *call);
int paths_answer(const struct broker *broker, const struct seccomp_notif *call, uint32_t *flags);

#endif
