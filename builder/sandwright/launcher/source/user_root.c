/* The root of a run under the method user. The root half mounts it, step by step, by the artifact `plan`. */
#define _GNU_SOURCE
#include <linux/mount.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "user.h"

static const char *place, *artifacts, *authorities;
static int root = -1; /* a descriptor of the topmost mount at `place` */

/* Opens `place` again: a new mount there is visible only through a new descriptor. */
static void open_root(void)
{
    if (root >= 0)
        close(root);
    root = open(place, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        die_errno("cannot open %s", place);
}

/* A path relative to the root: `.` for the root itself. */
static const char *below(const char *path)
{
    return path[strspn(path, "/")] == '\0' ? "." : path + strspn(path, "/");
}

/* Follows no links, because the account can write to some of these directories. */
static int open_inside(const char *path)
{
    return open_without_links(root, below(path), O_PATH, RESOLVE_BENEATH);
}

static int target(const char *path)
{
    int file = open_inside(path);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0)
        die_errno("cannot mount %s%s", place, path);
    if (S_ISLNK(status.st_mode))
        die("%s%s is a symbolic link", place, path);
    return file;
}

static void mounted(const char *type, const char *path, unsigned long flags, const char *data)
{
    _cleanup_close_ int file = target(path);
    if (mount(type, xasprintf("/proc/self/fd/%d", file), type, flags, data) != 0)
        die_errno("cannot mount %s%s", place, path);
    if (strcmp(below(path), ".") == 0)
        open_root();
}

/* Adds attributes, and never removes one (Linux 5.12). */
static void restricted(int file, const char *path, unsigned long long set, unsigned depth)
{
    struct mount_attr given = {.attr_set = set};
    if (syscall(SYS_mount_setattr, file, "", AT_EMPTY_PATH | depth, &given, sizeof given) != 0)
        die_errno("cannot restrict the mount %s%s, which needs Linux 5.12", place, path);
}

/* Sets all attributes before the mount becomes visible. */
static void bound(const char *source, const char *path, unsigned long long set)
{
    _cleanup_close_ int from = open_without_links(AT_FDCWD, source, O_PATH, 0);
    struct stat status;
    if (from < 0 || fstat(from, &status) != 0)
        die_errno("cannot show %s inside", source);
    if (S_ISLNK(status.st_mode))
        die("%s is a symbolic link", source);
    _cleanup_close_ int file = target(path), tree = (int)syscall(SYS_open_tree, from, "",
                                 AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        die_errno("cannot mount %s%s", place, path);
    restricted(tree, path, set, AT_RECURSIVE);
    if (syscall(SYS_move_mount, tree, "", file, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        die_errno("cannot mount %s%s", place, path);
    if (strcmp(below(path), ".") == 0)
        open_root();
}

/* Creates the directories above a path, in the sandbox's tmpfs. Returns the last part of the path; `above`
 * gets the directory that contains it. */
static const char *make_above(const char *path, int *above)
{
    char *part = xasprintf("%s", below(path)), *slash;
    for (slash = strchr(part, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        const char *name;
        *slash = '\0';
        if ((*above = open_inside(part)) < 0) {
            name = make_above(part, above);
            if (mkdirat(*above, name, 0755) != 0)
                die_errno("cannot create %s/%s", place, part);
        }
        close(*above);
        *slash = '/';
    }
    slash = strrchr(part, '/');
    *above = slash == NULL ? open_inside("/") : (*slash = '\0', open_inside(part));
    if (*above < 0)
        die_errno("cannot create %s%s", place, path);
    return slash == NULL ? part : slash + 1;
}

static void make_directory(const char *path)
{
    _cleanup_close_ int above = -1;
    const char *name = make_above(path, &above);
    if (mkdirat(above, name, 0755) != 0 && errno != EEXIST)
        die_errno("cannot create %s%s", place, path);
}

static void make_file(const char *path)
{
    _cleanup_close_ int above = -1;
    const char *name = make_above(path, &above);
    _cleanup_close_ int made = openat(above, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (made < 0)
        die_errno("cannot create %s%s", place, path);
}

static void link_to(const char *where, const char *path)
{
    _cleanup_close_ int above = -1;
    const char *name = make_above(path, &above);
    if (symlinkat(where, above, name) != 0)
        die_errno("cannot create %s%s", place, path);
}

static void devices(const char *path)
{
    static const char *const names[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const links[][2] = {{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"},
        {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}};
    mounted("tmpfs", path, MS_NOSUID | MS_NOEXEC, "mode=0755");
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        const char *name = xasprintf("%s/%s", path, names[index]);
        make_file(name);
        bound(xasprintf("/dev/%s", names[index]), name, 0);
    }
    make_directory(xasprintf("%s/pts", path));
    mounted("devpts", xasprintf("%s/pts", path), MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620");
    _cleanup_close_ int made = target(path);
    if (mkdirat(made, "shm", 0755) != 0 || fchmodat(made, "shm", 01777, 0) != 0)
        die_errno("cannot create %s%s/shm", place, path);
    for (size_t index = 0; index < sizeof links / sizeof *links; index++)
        link_to(links[index][1], xasprintf("%s/%s", path, links[index][0]));
}

/* Mounts a path only if it exists. */
static void tried(const char *path, unsigned long long set)
{
    _cleanup_close_ int there = open_without_links(AT_FDCWD, path, O_PATH, 0), inside = open_inside(path);
    if (there >= 0 && inside >= 0)
        bound(path, path, set);
    else if (errno != ENOENT && errno != ENOTDIR)
        die_errno("cannot examine %s", path);
}

/* Empty, except for a .gitignore that makes Git ignore it. */
static void ignored(const char *path)
{
    mounted("tmpfs", path, MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0555,size=8k,nr_inodes=4");
    _cleanup_close_ int made = target(path);
    if (write_file(made, ".gitignore", "*\n", 2, 0444) != 0)
        die_errno("cannot create %s%s/.gitignore", place, path);
}

static void loopback(void)
{
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    _cleanup_close_ int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &up) != 0)
        die_errno("cannot bring up the loopback");
}

static const struct step {
    const char *name;
    size_t words;
} STEPS[] = {{"bind", 2}, {"ro-bind", 2}, {"try", 1}, {"tmpfs", 2}, {"proc", 1}, {"dev", 1}, {"readonly", 1},
             {"directory", 1}, {"file", 1}, {"symlink", 2}, {"ignored", 1}, {"beside", 2},
             {"trusted", 2}, {"loopback", 0}};
enum { BIND, RO_BIND, TRY, TMPFS, PROC, DEV, READONLY, DIRECTORY, A_FILE, SYMLINK, IGNORED, BESIDE, TRUSTED, LOOPBACK, STEP_COUNT };

static void take_step(int step, const char *first, const char *second)
{
    const unsigned long long safe = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, readonly = safe | MOUNT_ATTR_RDONLY;
    int there;
    switch (step) {
    case BIND:
    case RO_BIND:
        bound(first, second, step == BIND ? safe : readonly);
        break;
    case TRY:
        tried(first, readonly);
        break;
    case TMPFS:
        mounted("tmpfs", first, MS_NOSUID | MS_NODEV, xasprintf("mode=%s", second));
        break;
    case PROC:
        mounted("proc", first, MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
        break;
    case DEV:
        devices(first);
        break;
    case READONLY:
        there = target(first);
        restricted(there, first, MOUNT_ATTR_RDONLY, 0);
        close(there);
        break;
    case DIRECTORY:
        make_directory(first);
        break;
    case A_FILE:
        make_file(first);
        break;
    case SYMLINK:
        link_to(first, second);
        break;
    case IGNORED:
        ignored(first);
        break;
    case BESIDE:
        bound(xasprintf("%s/%s", artifacts, first), second, readonly);
        break;
    case TRUSTED:
        if (authorities == NULL)
            die("the policy reads HTTPS requests, and no proxy is running: start this with \"sandwright run\"");
        bound(xasprintf("%s/%s", authorities, first), second, readonly);
        break;
    default:
        loopback();
    }
}

/* Each word ends with NUL; `content` has another NUL at its end. */
int make_user_root(const struct run *run, const char *content, size_t length)
{
    place = run->plan.user.root;
    artifacts = run->directory;
    authorities = run->document.authorities;
    open_root();
    const char *end = content + length, *words[3];
    while (content < end) {
        int step = 0;
        while (step < STEP_COUNT && strcmp(content, STEPS[step].name) != 0)
            step++;
        if (step == STEP_COUNT)
            die("the plan has an unknown step '%s'", content);
        for (size_t count = 0; count <= STEPS[step].words; count++) {
            if (content >= end)
                die("the plan ends too early");
            words[count] = content;
            content += strlen(content) + 1;
        }
        take_step(step, words[1], words[2]);
    }
    return root;
}
