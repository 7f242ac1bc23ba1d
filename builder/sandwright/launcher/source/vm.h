/* What the parts of the relay to a kernel of the sandbox's own share: vm.c, vm_handshake.c, vm_kernel.c, qemu.c. */
#ifndef VM_H
#define VM_H

#include <stdbool.h>
#include <sys/types.h>

struct bytes;
struct run;

/* Where the kernel keeps its memory: the sandbox's own, of which nothing is seen. */
#define MEMORY "/dev/shm"

struct machine {
    struct run *here;      /* under landlock; else NULL, and it is what the sandbox that we are in shows */
    const char *init;      /* the first program inside */
    const char *directory; /* of the kernel's process */
    const char *accelerator; /* of QEMU, whose machine is restored; NULL: User-Mode Linux */
    const char *beside;      /* the file beside the line (line.h); NULL: there is none */
    pid_t process;
    int line;
};

/* vm_handshake.c: of the `words` of --vm, all that is said before the command begins. Whether both outputs are one file.
 * `here` is the run under landlock, which tells by its plans what is there; else it is the sandbox that we are in. */
bool vm_handshake(struct bytes *out, struct run *here, bool terminal, char **words);

/* vm_kernel.c */
void vm_start(struct machine *machine, const char *program, const char *memory);
int vm_console(void);            /* to be heard when there is something; -1: no more is taken from it */
void vm_hear(void);
const char *vm_last_words(void); /* what it said last, or why it panicked */

/* qemu.c: the machine of `memory` MiB that lies here, restored; before the fork, and behind it. */
#define QEMU_PLACE "/dev/.sandwright-machine"
void qemu_prepare(const char *memory);
_Noreturn void qemu_become(const char *program, const char *accelerator, const char *memory, int its_line);

#endif
