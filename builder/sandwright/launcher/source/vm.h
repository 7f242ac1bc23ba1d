/* What the parts of the relay to the guest kernel (method vm) share. */
#ifndef VM_H
#define VM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct bytes;
struct run;
struct strv;

/* Where the kernel keeps its memory: the sandbox's own, of which nothing is seen. */
#define MEMORY "/dev/shm"

#define VM_GUEST "/dev/.sandwright-guest"
#define VM_UML "uml"

/* Under landlock, where the relay runs in the launcher's child: the run's plans. Else it is the sandbox that we are in. */
struct vm_plan {
    const char *directory, *hostname, *memory; /* memory: in which directory the kernel makes the file of its memory */
    const char *own;                           /* a directory of the run's */
    const char *filter;
    size_t filter_length;
    void (*say_paths)(struct bytes *out);
};

struct machine {
    const struct vm_plan *here; /* NULL in a sandbox of bubblewrap's */
    const char *init;      /* the first program inside */
    const char *directory; /* of the kernel's process */
    const char *accelerator; /* for QEMU, which restores a machine; NULL: User-Mode Linux */
    const char *beside;      /* the file beside the line (line.h); NULL: there is none */
    pid_t process;
    int line;
};

/* vm.c: the relay's words */
void vm_words(const struct run *run, struct strv *all, const char *stop_word, const char *filter, const char *ways_word,
              const char *program);

/* vm_relay.c */
_Noreturn void vm_relay(const struct vm_plan *plan, char **words);

/* vm_handshake.c: of the relay's words, the messages before the command begins. Whether both outputs are one file. */
bool vm_handshake(struct bytes *out, const struct vm_plan *plan, bool terminal, char **words);
bool vm_is_of_kernel(const char *path); /* the kernel has its own of these */

/* vm_kernel.c */
void vm_start(struct machine *machine, const char *program, const char *memory);
int vm_console(void);            /* to be heard when there is something; -1: no more is taken from it */
void vm_hear(void);
const char *vm_last_words(void); /* what it said last, or why it panicked */

/* qemu.c: the machine of `memory` MiB that lies here, restored; before the fork, and behind it. */
#define QEMU_PLACE "/dev/.sandwright-machine"
void qemu_prepare(const char *memory);
_Noreturn void snapshot_main(char **words);
_Noreturn void qemu_become(const char *program, const char *accelerator, const char *memory, int its_line);

#endif
