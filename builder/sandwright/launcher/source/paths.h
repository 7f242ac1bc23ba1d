/* What notify.c, landlock.c, vm.c, paths.c and pathnames.c share: the host's files for the guest kernel (method vm), where Landlock is the
 * wall around it. */
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

/* ---- pathnames.c. Before the processes are forked: reads the plan of `mounts`, and what the kernel's process needs besides: its `program`, the
 * first one inside, `guest`, and `own`, a directory of the run's. Refuses. */
void paths_prepare(const struct run *run, const char *program, const char *guest, const char *own);
const char *paths_memory(void); /* in which directory that process makes the file of its memory, which has no name */

#define NOTHING "/dev/null"

enum access { ACCESS_NONE, ACCESS_READ, ACCESS_CHANGE };
enum access access_to(const char *path); /* that is plain, as take_name makes it */
bool is_held(const char *path);          /* it is a mount point of the plan or an exception, or has one below: it can't be moved */

const char *repository_of(const char *path); /* the directory of Git's in which no links are made; NULL */

struct name {
    char path[PATH_MAX]; /* absolute, and nothing in it is `.`, `..` or empty */
    char last[NAME_MAX + 1];
    int above; /* the directory in which `last` is; -1 without */
};
/* Memory of the caller's, who may change it meanwhile: what counts is the copy. */
bool read_theirs(pid_t thread, uint64_t address, void *to, size_t length);
/* 0, an error, or -1: the caller is gone. */
int read_path(pid_t thread, uint64_t address, char path[PATH_MAX]);
int take_name(const struct broker *broker, const struct seccomp_notif *call, uint64_t address, struct name *name);
int take_changed(const struct broker *broker, const struct seccomp_notif *call, uint64_t address, struct name *name); /* with `above` */
int open_above(struct name *name); /* through no link (ELOOP) */
void close_name(struct name *name);

/* ---- paths.c. Supervisor: whether this call names a path and is made here; 0, the error that it ends with, or -1: whoever
 * called is gone, or has its answer. `flags`: of the answer. */
bool paths_are_named(const struct seccomp_data *call);
int paths_answer(const struct broker *broker, const struct seccomp_notif *call, uint32_t *flags);

#endif
