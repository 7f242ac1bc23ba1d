/* The relay to the guest kernel (method vm). */
#ifndef VM_H
#define VM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct bytes;
struct run;
struct strv;

/* The directory for the file with the guest's memory. It is private to the sandbox, and the guest does not
 * see it. */
#define MEMORY "/dev/shm"

#define VM_GUEST "/dev/.sandwright-guest"
#define VM_UML "uml"

/* The relay's input under landlock, where it runs in the launcher's child. Under bubblewrap, it inspects the
 * sandbox that it runs in instead. */
struct vm_plan {
    /* Memory: the directory for the file with the guest's memory. */
    const char *directory, *hostname, *memory;
    const char *own;                           /* a directory of the run */
    const char *filter;
    size_t filter_length;
    void (*say_paths)(struct bytes *out);
};

struct machine {
    const struct vm_plan *here; /* NULL in bubblewrap's sandbox */
    const char *init;      /* the first program in the guest */
    const char *directory; /* the working directory of the kernel's process */
    const char *accelerator; /* QEMU's, which restores a machine state; NULL: User-Mode Linux */
    const char *beside;      /* the path of the file beside the line (line.h); NULL: none */
    pid_t process;
    int line;
};

/* vm.c: the relay's arguments */
void vm_words(const struct run *run, struct strv *all, const char *stop_word, const char *filter, const char *ways_word,
              const char *program);

_Noreturn void vm_relay(const struct vm_plan *plan, char **words);

/* vm_handshake.c: the messages before the command starts, made from the relay's arguments. Returns whether
 * standard output and standard error are the same file. */
bool vm_handshake(struct bytes *out, const struct vm_plan *plan, bool terminal, char **words);
bool vm_is_of_kernel(const char *path); /* the guest kernel has its own of these */

void vm_start(struct machine *machine, const char *program, const char *memory);
int vm_console(void); /* a descriptor to poll, then call vm_hear; -1: console output is not read any more */
void vm_hear(void);
const char *vm_last_words(void); /* the last line on the console, or the reason of a panic */

/* qemu.c: restores the state of a machine with `memory` MiB that is stored here. qemu_prepare is called
 * before the fork, qemu_become after it, in the child. */
#define QEMU_PLACE "/dev/.sandwright-machine"
void qemu_prepare(const char *memory);
_Noreturn void snapshot_main(char **words);
_Noreturn void qemu_become(const char *program, const char *accelerator, const char *memory, int its_line);

#endif
