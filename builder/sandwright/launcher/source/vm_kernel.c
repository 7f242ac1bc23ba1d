/* Starts the guest kernel of the method vm, User-Mode Linux as a process (or QEMU: qemu.c), with its command
 * line and memory, and reads its console. methods/vm/ chooses the kernel: backend.py, and machine.py for
 * QEMU. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>

#include "launch.h"
#include "line.h"
#include "vm.h"

enum {
    LINE = 3,              /* the kernel's descriptor */
    MOST_CONSOLE = 1 << 16,
};

static int console = -1;
static struct bytes said;

/* The kernel and its programs run in turns, several for each system call and fault. Across processors, each
 * turn waits until one wakes up, which takes four times as long. If this fails, the guest is only slower. */
static void stay_on_one_processor(void)
{
    cpu_set_t one;
    int now = sched_getcpu();
    CPU_ZERO(&one);
    if (now >= 0 && now < CPU_SETSIZE) {
        CPU_SET(now, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
}

static _Noreturn void become_kernel(const struct machine *machine, const char *program, const char *memory, int its_line,
                                    int its_console)
{
    static const int kept[] = {LINE};
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    char *const words[] = {(char *)program, xasprintf("mem=%sM", memory), "rootfstype=hostfs", "rootflags=/", "rw",
                           xasprintf("init=%s", machine->init), "devtmpfs.mount=0", xasprintf("ssl0=fd:%d", LINE), "con=null",
                           "con0=null,fd:1", "quiet", xasprintf("uml_dir=%s/", machine->directory), "panic=-1", "oops=panic",
                           "initcall_blacklist=raid6_select_algo,calibrate_xor_blocks", "--", (char *)machine->beside, NULL};
    char *const variables[] = {xasprintf("TMPDIR=%s", machine->here != NULL ? machine->here->memory : MEMORY),
                               xasprintf("HOME=%s", machine->directory), "PATH=/usr/bin:/bin", NULL};
    sigset_t none;
    sigemptyset(&none);
    its_line = fcntl(its_line, F_DUPFD_CLOEXEC, LINE + 1);
    its_console = fcntl(its_console, F_DUPFD_CLOEXEC, LINE + 1);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(its_console, 1) < 0 ||
        dup2(its_console, 2) < 0)
        _exit(NOT_RUN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (machine->accelerator != NULL)
        qemu_become(program, machine->accelerator, memory, its_line);
    if (dup2(its_line, LINE) < 0)
        _exit(NOT_RUN);
    close_others(kept, 1);
    stay_on_one_processor();
    execve(program, words, variables);
    warn("%s: %s", program, strerror(errno));
    _exit(NOT_RUN);
}

static void check_memory(const struct machine *machine, const char *memory)
{
    struct statfs place;
    struct sysinfo all;
    if (statfs(MEMORY, &place) != 0 && machine->here == NULL)
        die_errno("%s", MEMORY);
    unsigned long half = machine->here != NULL && sysinfo(&all) == 0
                             ? (all.totalram >> 21) * all.mem_unit
                             : (place.f_blocks >> 10) * ((unsigned long)place.f_bsize >> 10);
    if ((unsigned long)strtol(memory, NULL, 10) > half)
        die("the sandbox's kernel would get %s MiB, which is more than half of this machine's memory", memory);
}

void vm_start(struct machine *machine, const char *program, const char *memory)
{
    int lines[2], consoles[2];
    check_memory(machine, memory);
    if (machine->accelerator != NULL)
        qemu_prepare(memory);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lines) != 0 || pipe2(consoles, O_CLOEXEC) != 0 ||
        fcntl(lines[0], F_SETFL, O_NONBLOCK) != 0 || fcntl(consoles[0], F_SETFL, O_NONBLOCK) != 0)
        die_errno("cannot create a pipe");
    machine->process = fork();
    if (machine->process < 0)
        die_errno("cannot create a process");
    if (machine->process == 0)
        become_kernel(machine, program, memory, lines[1], consoles[1]);
    close(lines[1]);
    close(consoles[1]);
    machine->line = lines[0];
    console = consoles[0];
}

const char *vm_last_words(void)
{
    while (bytes_held(&said) < MOST_CONSOLE && bytes_read(&said, console))
        if (errno == EAGAIN || errno == EINTR)
            break;
    bytes_add(&said, "", 1);
    char *words = (char *)said.at + said.begin, *found = strstr(words, "Kernel panic");
    if (found != NULL) {
        found[strcspn(found, "\n")] = '\0';
        return found;
    }
    while (strlen(words) > 0 && words[strlen(words) - 1] == '\n')
        words[strlen(words) - 1] = '\0';
    found = strrchr(words, '\n');
    return found != NULL ? found + 1 : words;
}

int vm_console(void)
{
    return bytes_held(&said) < MOST_CONSOLE ? console : -1;
}

void vm_hear(void)
{
    if (bytes_read(&said, console))
        return;
    close(console);
    console = -1;
}
