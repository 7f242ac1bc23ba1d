/* QEMU as the machine of the guest kernel (method vm; vm_kernel.c). Like User-Mode Linux, it runs in
 * bubblewrap's sandbox.
 *
 *   launch-vm --snapshot QEMU ACCELERATOR MEMORY KERNEL INITRAMFS
 *
 * starts a machine outside any sandbox. It has no access to the host, and runs only its first process
 * (guest.c). When that is ready, the machine is saved in the current directory: `state`, `memory` (each page
 * that isn't empty, after its address), and `machine`, with sizes and checksums. Each run restores a copy, in
 * which the guest then mounts the host's files. Only the creator of that directory may write it; the
 * checksums detect damaged files.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "launch.h"
#include "line.h"
#include "vm.h"

enum { LINE = 3, MONITOR, STATE, PAGE = 4096, RECORD = PAGE + 8, MOST_INDEX = 256, PIECE = 1 << 20 };
static const char RAM[] = MEMORY "/machine";
static int monitor = -1, state = -1;

struct file {
    const unsigned char *at;
    size_t length;
};

/* The machine's configuration, the same for its first start and for every restore. The 9p device exports `/`
 * as this process sees it. */
static struct strv machine_words(const char *program, const char *accelerator, const char *memory, const char *ram)
{
    struct strv all = {0};
    bool kvm = strcmp(accelerator, "kvm") == 0;
    char *const words[] = {
        (char *)program, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-vga", "none", "-nic", "none",
        "-machine", xasprintf("q35,accel=%s,memory-backend=ram,usb=off,hpet=off", accelerator),
        "-cpu", kvm ? "host,-arch-capabilities" : "max", "-smp", "1", "-m", xasprintf("%sM", memory),
        "-object", xasprintf("memory-backend-file,id=ram,size=%sM,mem-path=%s,share=on", memory, ram),
        "-device", "virtio-serial-pci,max_ports=2", "-chardev", xasprintf("socket,id=line,fd=%d", LINE),
        "-device", "virtserialport,chardev=line,nr=1",
        "-fsdev", "local,id=host,path=/,security_model=none,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=host,mount_tag=host", "-serial", "file:/dev/fd/1", NULL};
    strv_push_all(&all, words);
    return all;
}

static struct file map(const char *path)
{
    struct stat status;
    _cleanup_close_ int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0 || fstat(file, &status) != 0 || status.st_size == 0)
        die("%s does not exist or is empty", path);
    void *at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (at == MAP_FAILED)
        die_errno("%s", path);
    return (struct file){at, (size_t)status.st_size};
}

static uint64_t sum(struct file file)
{
    uint64_t sums[4] = {1, 2, 3, 4}, all = file.length;
    for (size_t at = 0; at < file.length; at += sizeof sums) {
        uint64_t words[4] = {0};
        size_t left = file.length - at;
        memcpy(words, file.at + at, left < sizeof words ? left : sizeof words);
        for (int index = 0; index < 4; index++) {
            uint64_t mixed = (sums[index] ^ words[index]) * 0x9E3779B97F4A7C15ULL;
            sums[index] = mixed << 31 | mixed >> 33;
        }
    }
    for (int index = 0; index < 4; index++)
        all = (all ^ sums[index]) * 0xD6E8FEB86659FD93ULL;
    return all;
}

/* One line with everything that has to match. */
static char *index_of(const char *memory, struct file ram, struct file rest)
{
    return xasprintf("sandwright-machine 1 %s %zu %016llx %zu %016llx\n", memory, ram.length, (unsigned long long)sum(ram), rest.length,
                (unsigned long long)sum(rest));
}

static void write_memory(struct file packed, long size)
{
    _cleanup_close_ int ram = open(RAM, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (ram < 0 || ftruncate(ram, size << 20) != 0)
        die_errno("%s", RAM);
    for (size_t at = 0; at < packed.length; at += RECORD) {
        uint64_t place;
        memcpy(&place, packed.at + at, sizeof place);
        if (place % PAGE != 0 || place >= (uint64_t)size << 20 || pwrite(ram, packed.at + at + sizeof place, PAGE, (off_t)place) != PAGE)
            die("cannot restore the machine's memory");
    }
}

void qemu_prepare(const char *memory)
{
    static const char orders[] =
        "{\"execute\":\"qmp_capabilities\"}"
        "{\"execute\":\"migrate-set-capabilities\",\"arguments\":{\"capabilities\":"
        "[{\"capability\":\"x-ignore-shared\",\"state\":true}]}}"
        "{\"execute\":\"migrate-incoming\",\"arguments\":{\"uri\":\"fd:5\"}}";
    struct stat status;
    size_t length;
    int ends[2], directory = open(QEMU_PLACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0 || fstat(directory, &status) != 0 || status.st_uid != geteuid() || (status.st_mode & 077) != 0)
        die("other users have access to the machine's directory");
    struct file ram = map(QEMU_PLACE "/memory"), rest = map(QEMU_PLACE "/state");
    const char *index = read_file(directory, "machine", MOST_INDEX, &length);
    if (index == NULL || ram.length % RECORD != 0 || strcmp(index, index_of(memory, ram, rest)) != 0)
        die("the saved machine is damaged or has another memory size: remove the directory that SANDWRIGHT_MACHINE names");
    write_memory(ram, strtol(memory, NULL, 10));
    if ((state = openat(directory, "state", O_RDONLY | O_CLOEXEC)) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 ||
        write(ends[0], orders, sizeof orders - 1) != sizeof orders - 1)
        die_errno("cannot restore the machine");
    monitor = ends[1]; /* the other end stays open, because QEMU replies there */
}

_Noreturn void qemu_become(const char *program, const char *accelerator, const char *memory, int its_line)
{
    static const int kept[] = {LINE, MONITOR, STATE};
    char *const nothing[] = {NULL};
    char *const more[] = {"-incoming", "defer", "-chardev", xasprintf("socket,id=monitor,fd=%d", MONITOR), "-mon", "chardev=monitor,mode=control",
                          "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny", NULL};
    struct strv all = machine_words(program, accelerator, memory, RAM);
    int files[] = {its_line, monitor, state};
    for (int index = 0; index < 3; index++)
        files[index] = fcntl(files[index], F_DUPFD_CLOEXEC, STATE + 1);
    for (int index = 0; index < 3; index++)
        if (files[index] < 0 || dup2(files[index], LINE + index) < 0)
            _exit(NOT_RUN);
    close_others(kept, 3);
    strv_push_all(&all, more);
    execve(program, all.at, nothing);
    warn("%s: %s", program, strerror(errno));
    _exit(NOT_RUN);
}

/* ---- saving the machine */
static void pack(const char *ram)
{
    static unsigned char empty[PAGE]; /* not const, as it would then be stored in the program file */
    struct file whole = map(ram);
    struct bytes packed = {0};
    int file = open("memory", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    for (uint64_t at = 0; at < whole.length; at += PAGE)
        if (memcmp(whole.at + at, empty, PAGE) != 0) {
            bytes_add(&packed, &at, sizeof at);
            bytes_add(&packed, whole.at + at, PAGE);
            if (bytes_held(&packed) > PIECE && !bytes_flush(&packed, file))
                die_errno("cannot save the machine");
        }
    if (!bytes_flush(&packed, file) || close(file) != 0 || unlink(ram) != 0)
        die_errno("cannot save the machine");
}

_Noreturn void snapshot_main(char **words)
{
    static const char orders[] = "migrate_set_capability x-ignore-shared on\nmigrate \"exec:cat >state\"\nquit\n";
    static const int kept[] = {LINE};
    int lines[2], orders_of[2], status;
    char first;
    for (int index = 0; index < 5; index++)
        if (words[index] == NULL)
            die("usage: --machine needs five arguments");
    umask(077);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lines) != 0 || pipe2(orders_of, O_CLOEXEC) != 0)
        die_errno("cannot create a pipe");
    pid_t machine = fork();
    if (machine == 0) {
        struct strv all = machine_words(words[0], words[1], words[2], "memory.raw");
        char *const nothing[] = {"PATH=/usr/bin:/bin", NULL};
        char *const more[] = {"-kernel", words[3], "-initrd", words[4], "-append", "console=ttyS0 quiet panic=-1 oops=panic -- --machine",
                              "-chardev", "stdio,id=monitor,signal=off", "-mon", "chardev=monitor,mode=readline", NULL};
        strv_push_all(&all, more);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || dup2(orders_of[0], 0) < 0 || dup2(lines[1], LINE) < 0)
            _exit(NOT_RUN);
        close_others(kept, 1);
        execve(words[0], all.at, nothing);
        _exit(NOT_RUN);
    }
    close(lines[1]);
    close(orders_of[0]);
    if (machine < 0 || read(lines[0], &first, 1) != 1 || first != READY ||
        write(orders_of[1], orders, sizeof orders - 1) != sizeof orders - 1 || waitpid(machine, &status, 0) != machine || status != 0)
        die("the machine did not start");
    pack("memory.raw");
    char *index = index_of(words[2], map("memory"), map("state"));
    if (write_file(AT_FDCWD, "machine", index, strlen(index), 0600) != 0)
        die_errno("cannot save the machine");
    exit(0);
}
