/* What notify.c, landlock.c, vm.c and paths.c share: the files of a kernel of the sandbox's own, where Landlock is the wall
 * around it. */
#ifndef PATHS_H
#define PATHS_H

#include <stdbool.h>
#include <stdint.h>

struct run;
struct broker;
struct seccomp_notif;
struct seccomp_data;

/* Before the processes are forked: reads the plan of `mounts`, and what the kernel's process needs besides: its `program`, and
 * `own`, a directory of the run's. Refuses. */
void paths_prepare(const struct run *run, const char *program, const char *own);
const char *paths_memory(void); /* in which directory that process makes the file of its memory, which has no name */
/* Supervisor: whether this call names a path and is made here; 0, the error that it ends with, or -1: whoever
 * called is gone, or has its answer. `flags`: of the answer. */
bool paths_are_named(const struct seccomp_data *call);
int paths_answer(const struct broker *broker, const struct seccomp_notif *call, uint32_t *flags);

#endif
