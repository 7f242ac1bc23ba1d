/* The first process of the guest kernel (method vm): guest.c, guestsystem.c, guestmachine.c,
 * guestcommand.c. */
#ifndef GUEST_H
#define GUEST_H

#include <linux/filter.h>

#include "launch.h"
#include "line.h"

/* The settings that arrive before BEGIN. */
struct settings {
    struct strv command, variables, mounts, planned, hidden, readonly;
    struct identity identity;
    struct terminal_of terminal;
    gid_t *groups;
    size_t group_count;
    int32_t files[2], processes, processors; /* negative: no limit */
    struct sock_fprog filter;
    const char *directory;
    bool has_terminal, one_output;
};

/* The command, and this process's ends of its streams; `master` is its terminal's master. -1: none. */
struct job {
    pid_t pid;
    int input, outputs[2], master;
};

/* guest.c: both end the machine; guest_refuse first sends the reason, with errno, to the relay. */
_Noreturn void guest_end(void);
_Noreturn void guest_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* guestbeside.c: opens the file beside the line while its name exists; reads the content of a frame from it,
 * which stays valid until the next one is read. */
void guest_beside(const char *path);
unsigned char *guest_read_beside(const struct beside *said);

/* guestsystem.c, called in this order. */
int guest_line(void);
void guest_devices(void);
void guest_kernel(void); /* /proc and /sys */
/* A descriptor with which a process enters the cgroup; -1: none. */
int guest_system(const struct settings *set);
void guest_entropy(const void *content, size_t length);

/* guestmachine.c: machine_line instead of guest_line; machine_root once the relay has sent something, before
 * guest_devices. */
int machine_line(void);
void machine_root(int line);

/* guestroot.c: creates the root from PLANNED frames, and enters it. Returns the step that failed, or NULL. */
const char *guest_root(const struct strv *planned, const struct identity *identity);

/* True: begin. */
bool guest_setting(struct settings *set, enum frame frame, const unsigned char *content, size_t length);
/* Whether the command was executed. */
bool guest_command(const struct settings *set, int procs, struct job *job);
/* Copies nothing if the length differs. */
void copy_fixed(void *to, size_t size, const void *content, size_t length);

#endif
