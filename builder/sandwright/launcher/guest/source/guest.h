/* What the parts of the first process of the guest kernel (method vm) share: guest.c, guestsystem.c, guestmachine.c,
 * guestcommand.c. */
#ifndef GUEST_H
#define GUEST_H

#include <linux/filter.h>

#include "launch.h"
#include "line.h"

/* The settings before BEGIN. */
struct settings {
    struct strv command, variables, mounts, planned, hidden, readonly;
    struct identity identity;
    struct terminal_of terminal;
    gid_t *groups;
    size_t group_count;
    int32_t files[2], processes, processors; /* negative: not limited */
    struct sock_fprog filter;
    const char *directory;
    bool has_terminal, one_output;
};

/* The command, and our ends of its streams; `master` is that of its terminal. What isn't there is -1. */
struct job {
    pid_t pid;
    int input, outputs[2], master;
};

/* guest.c: ends the machine, with the reason from errno for the one outside. */
_Noreturn void guest_end(void);
_Noreturn void guest_refuse(const char *what);

/* guestbeside.c: the file beside the line, while its name is there; what follows in it of a frame, until the next is read. */
void guest_beside(const char *path);
unsigned char *guest_read_beside(const struct beside *said);

/* guestsystem.c, in this order. */
int guest_line(void);
void guest_devices(void);
void guest_kernel(void); /* /proc and /sys */
int guest_system(const struct settings *set); /* what of the cgroup lets a process in, -1 without */
void guest_entropy(const void *content, size_t length);

/* guestmachine.c: in the place of guest_line, and, when the other side has said something, before guest_devices. */
int machine_line(void);
void machine_root(int line);

/* guestroot.c: makes the root from PLANNED, and enters it; returns the failed step, or NULL. */
const char *guest_root(const struct strv *planned, const struct identity *identity);

/* guestcommand.c */
bool guest_setting(struct settings *set, enum frame frame, const unsigned char *content, size_t length); /* true: begin */
bool guest_command(const struct settings *set, int procs, struct job *job); /* whether it was executed */
void copy_fixed(void *to, size_t size, const void *content, size_t length); /* nothing for another length */

#endif
