/* Sets up the guest (method vm) before the command: devices, /proc and /sys, mounts, limits on processes,
 * processors and files, the line to the relay (guest.c). */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <linux/random.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "guest.h"
#include "launch.h"
#include "watch.h"

enum {
    SERIAL_MAJOR = 4, SERIAL_MINOR = 64, /* ttyS0 */
    PERIOD = 100000,     /* microseconds: the period of the processor limit */
};
static const uid_t NOBODYS = (uid_t)-2; /* the highest user ID */

static void make_node(const char *path, int major_number, int minor_number, mode_t mode)
{
    if (mknod(path, S_IFCHR | mode, makedev((unsigned)major_number, (unsigned)minor_number)) != 0 || chmod(path, mode) != 0)
        guest_refuse("cannot create %s", path);
}

void guest_devices(void)
{
    static const char *const links[][2] = {{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"},
                                           {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
                                           {"pts/ptmx", "/dev/ptmx"}};
    make_node("/dev/null", 1, 3, 0666);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int number = 0; number < 3; number++)
        if (nothing < 0 || (nothing != number && dup2(nothing, number) < 0))
            guest_refuse("cannot open /dev/null");
    make_node("/dev/zero", 1, 5, 0666);
    make_node("/dev/full", 1, 7, 0666);
    make_node("/dev/random", 1, 8, 0666);
    make_node("/dev/urandom", 1, 9, 0666);
    make_node("/dev/tty", 5, 0, 0666);
    for (size_t index = 0; index < sizeof links / sizeof *links; index++)
        if (symlink(links[index][0], links[index][1]) != 0)
            guest_refuse("cannot create %s", links[index][1]);
    if (mkdir("/dev/pts", 0755) != 0 || mkdir("/dev/shm", 01777) != 0 || chmod("/dev/shm", 01777) != 0 ||
        mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620") != 0)
        guest_refuse("cannot mount /dev/pts");
}

/* The line has a name only for this moment, because a program that opened it could send any frame. */
int guest_line(void)
{
    static const char place[] = "/dev/line";
    struct termios modes;
    if (mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=0755") != 0)
        guest_refuse("cannot mount /dev");
    make_node(place, SERIAL_MAJOR, SERIAL_MINOR, 0600);
    int file = open(place, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    int line = fcntl(file, F_DUPFD_CLOEXEC, 10);
    close(file);
    if (line < 0 || unlink(place) != 0 || tcgetattr(line, &modes) != 0)
        guest_end();
    cfmakeraw(&modes);
    if (tcsetattr(line, TCSAFLUSH, &modes) != 0)
        guest_end();
    return line;
}

void guest_kernel(void)
{
    struct stat there;
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (mount("proc", "/proc", "proc", flags, NULL) != 0)
        guest_refuse("cannot mount /proc");
    if (stat("/sys", &there) == 0 && S_ISDIR(there.st_mode) && mount("sysfs", "/sys", "sysfs", flags | MS_RDONLY, NULL) != 0)
        guest_refuse("cannot mount /sys");
}

/* Each mount outside is mounted here, too, so it can't be moved or linked out of, and a read-only one is
 * read-only. The sandbox outside protects contents; but times and modes of read-only files would otherwise
 * change in the guest's memory. */
static void copy_mounts(const struct strv *mounts)
{
    for (size_t index = 0; index < mounts->count; index++) {
        const char *path = mounts->at[index] + 1;
        unsigned long flags = MS_NOSUID | MS_NODEV | (mounts->at[index][0] == 'r' ? MS_RDONLY : 0);
        bool root = strcmp(path, "/") == 0;
        if (!root && mount(path, path, NULL, MS_BIND, NULL) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
            continue; /* covered by another mount of the host, or not accessible in this sandbox */
        if (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | flags, NULL) != 0)
            guest_refuse("cannot remount %s", path);
    }
}

static void cover_kernel(const struct strv *hidden, const struct strv *readonly)
{
    for (size_t index = 0; index < hidden->count; index++)
        if (!hide_path(hidden->at[index]))
            guest_refuse("cannot hide %s", hidden->at[index]);
    for (size_t index = 0; index < readonly->count; index++) {
        const char *path = readonly->at[index];
        if (access(path, F_OK) == 0 && (mount(path, path, NULL, MS_BIND | MS_REC, NULL) != 0 ||
                                           mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV |
                                                                        MS_NOEXEC, NULL) != 0))
            guest_refuse("cannot make %s read-only", path);
    }
}

static void write_to(const char *path, const char *words)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, words, strlen(words)) < 0)
        guest_refuse("cannot write %s", path);
    close(file);
}

/* Cgroups of the guest need no delegation outside. */
static int limit_all(int32_t processes, int32_t processors)
{
    if (processes < 0 && processors < 0)
        return -1;
    if (mkdir("/dev/group", 0700) != 0 || mount("none", "/dev/group", "cgroup2", 0, NULL) != 0)
        guest_refuse("cannot create the cgroup of the command");
    if (processes >= 0)
        write_to("/dev/group/cgroup.subtree_control", "+pids");
    if (processors >= 0)
        write_to("/dev/group/cgroup.subtree_control", "+cpu");
    if (mkdir("/dev/group/run", 0700) != 0)
        guest_refuse("cannot create the cgroup of the command");
    if (processes >= 0)
        write_to("/dev/group/run/pids.max", xasprintf("%d", processes));
    if (processors >= 0)
        write_to("/dev/group/run/cpu.max", xasprintf("%ld %d", (long)processors * (PERIOD / 1000), PERIOD));
    int procs = open("/dev/group/run/cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (procs < 0 || umount2("/dev/group", MNT_DETACH) != 0 || rmdir("/dev/group") != 0)
        guest_refuse("cannot create the cgroup of the command");
    return procs;
}

void guest_entropy(const void *content, size_t length)
{
    struct rand_pool_info *pool = xcalloc(sizeof *pool + length);
    _cleanup_close_ int file = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
    pool->entropy_count = (int)length * 8;
    pool->buf_size = (int)length;
    memcpy(pool->buf, content, length);
    /* Reseeds immediately: otherwise every restored machine would return the same random numbers
     * (crng_reseed). */
    if (file < 0 || ioctl(file, RNDADDENTROPY, pool) != 0 || ioctl(file, RNDRESEEDCRNG) != 0)
        guest_refuse("cannot seed /dev/urandom");
}

/* Changes to another user ID: otherwise root inside would have this process's user ID, and could stop or kill
 * it, or change its limits (prlimit(2)). */
static void be_nobodys(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct all[2];
    if (syscall(SYS_capget, &header, all) != 0 || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 ||
        setresuid(NOBODYS, NOBODYS, NOBODYS) != 0 || syscall(SYS_capset, &header, all) != 0)
        guest_refuse("cannot change to an unprivileged user");
}

int guest_system(const struct settings *set)
{
    const char *failed = set->planned.count == 0 ? NULL : guest_root(&set->planned, &set->identity);
    if (failed != NULL)
        guest_refuse("cannot set up %s", failed);
    copy_mounts(&set->mounts);
    cover_kernel(&set->hidden, &set->readonly);
    int procs = limit_all(set->processes, set->processors);
    be_nobodys();
    return procs;
}
