/* Feeds paths.c and pathnames.c, which make system calls for the guest kernel, with calls of a compromised kernel,
 * in a temporary tree. Aborts if a call reaches more than the mount plan allows. A separate file of the harness,
 * because static names of the tested files also occur in others. */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>

static int handed_in(int listener, unsigned long request, ...);
#define ioctl handed_in
#define watch_plan_checked own_plan
#include "pathnames.c"

#include "paths.c"
#undef ioctl

#include <stdarg.h>

bool feed_named(const unsigned char *content, size_t length);

enum { NOBODY = 65534, SEEN = 13, RECORDS = 6, MOST_CALLS = 24 };
static char tree[64];
static struct stat before[SEEN];
static const char *const seen[SEEN] = {"/s",    "/s/key",  "/r",        "/r/file",   "/r/link",    "/w/ro",
                                       "/w/ro/file", "/w/hidden", "/w/file", "/d/guest", "/p/program",
                                       "/w/deep/ro", "/w/deep/ro/file"};

static const char *at(const char *path)
{
    return xasprintf("%s%s", tree, path);
}

struct mount_plan own_plan(const struct run *run)
{
    static const struct record records[RECORDS] = {{.kind = WRITE, .target = "/w"},
                                      {.kind = READ, .target = "/w/ro"},
                                      {.kind = PLACEHOLDER_DIRECTORY, .target = "/w/hidden"},
                                      {.kind = PLACEHOLDER_FILE, .target = "/w/file"},
                                      {.kind = READ, .target = "/w/deep/ro"},
                                      {.kind = READ, .target = "/r"}};
    static struct record placed[RECORDS];
    (void)run;
    for (size_t index = 0; index < RECORDS; index++) {
        placed[index] = records[index];
        placed[index].target = at(records[index].target);
        placed[index].length = strlen(placed[index].target);
    }
    return (struct mount_plan){placed, RECORDS};
}

static bool lies(const char *path, const char *above)
{
    size_t length = strlen(above);
    return strncmp(path, above, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

/* The rules of own_plan again, written independently of it. */
static bool may(const char *path, bool writes)
{
    if (strcmp(path, "/dev/null") == 0 || strncmp(path, "/memfd:", 7) == 0)
        return true;
    if (strcmp(path, "/proc/cpuinfo") == 0)
        return !writes;
    if (strncmp(path, tree, strlen(tree)) != 0)
        return false;
    path += strlen(tree);
    if (lies(path, "/w/hidden"))
        return false;
    if (lies(path, "/w/ro") || lies(path, "/w/deep/ro") || lies(path, "/w/file") || lies(path, "/r") ||
        lies(path, "/d/guest") || lies(path, "/p/program"))
        return !writes;
    return lies(path, "/w") || lies(path, "/own");
}

static int handed_in(int listener, unsigned long request, ...)
{
    char path[PATH_MAX], place[32];
    struct stat status;
    va_list words;
    (void)listener;
    if (request == SECCOMP_IOCTL_NOTIF_ID_VALID)
        return 0;
    va_start(words, request);
    const struct seccomp_notif_addfd *given = va_arg(words, const struct seccomp_notif_addfd *);
    va_end(words);
    int file = (int)given->srcfd, flags = fcntl(file, F_GETFL);
    snprintf(place, sizeof place, "/proc/self/fd/%d", file);
    ssize_t length = readlink(place, path, sizeof path - 1);
    if (length < 0 || flags < 0 || fstat(file, &status) != 0)
        abort();
    path[length] = '\0';
    if (!may(path, (flags & O_ACCMODE) != O_RDONLY) ||
        (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode) && strcmp(path, "/dev/null") != 0))
        abort();
    return 0;
}

/* As NOBODY, a faulty call cannot change files of this machine; CAP_DAC_READ_SEARCH lets it read all of them. */
static void act_as(uid_t user)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct held[2];
    if (geteuid() != 0)
        return;
    setfsgid(user);
    setfsuid(user);
    if (syscall(SYS_capget, &head, held) != 0)
        abort();
    held[0].effective |= 1U << CAP_DAC_READ_SEARCH;
    if (user != 0 && ((held[0].effective & 1U << CAP_DAC_OVERRIDE) != 0 || syscall(SYS_capset, &head, held) != 0))
        abort();
}

static void make_file(const char *path)
{
    if (write_file(AT_FDCWD, at(path), "content", 7, 0644) != 0)
        abort();
}

static void make_link(const char *target, const char *path)
{
    if (symlink(target, at(path)) != 0)
        abort();
}

static void make_writable(void)
{
    static const char *const directories[] = {"/w", "/w/ro", "/w/hidden", "/w/deep", "/w/deep/ro", "/own"};
    for (size_t index = 0; index < sizeof directories / sizeof *directories; index++)
        if (mkdir(at(directories[index]), 0755) != 0)
            abort();
    make_file("/w/ro/file");
    make_file("/w/deep/ro/file");
    make_file("/w/file");
    make_file("/w/a");
    make_link(at("/s"), "/w/link");
    make_link("..", "/w/up");
}

static void remove_own(void)
{
    act_as(NOBODY);
    remove_tree(tree);
    act_as(0);
}

static void make_tree(void)
{
    static const char *const directories[] = {"/s", "/r", "/d", "/p"};
    strcpy(tree, "/dev/shm/sandwright-named-XXXXXX");
    if (mkdtemp(tree) == NULL || (geteuid() == 0 && chown(tree, NOBODY, NOBODY) != 0))
        abort();
    atexit(remove_own);
    act_as(NOBODY);
    for (size_t index = 0; index < sizeof directories / sizeof *directories; index++)
        if (mkdir(at(directories[index]), 0755) != 0)
            abort();
    make_file("/s/key");
    make_file("/r/file");
    make_file("/d/guest");
    make_file("/p/program");
    make_link(at("/s/key"), "/r/link");
}

static void look(bool begin)
{
    struct stat now;
    for (size_t index = 0; index < SEEN; index++) {
        const struct stat *then = &before[index];
        if (lstat(at(seen[index]), begin ? &before[index] : &now) != 0)
            abort();
        if (!begin && (now.st_ino != then->st_ino || now.st_mode != then->st_mode || now.st_size != then->st_size ||
                          now.st_nlink != then->st_nlink || now.st_uid != then->st_uid ||
                          now.st_mtim.tv_sec != then->st_mtim.tv_sec || now.st_mtim.tv_nsec != then->st_mtim.tv_nsec))
            abort();
    }
}

/* The rest of the input. */
struct rest {
    const unsigned char *at;
    size_t length;
};

static unsigned next(struct rest *rest, int bytes)
{
    unsigned value = 0;
    for (int index = 0; index < bytes && rest->length > 0; index++, rest->at++, rest->length--)
        value |= (unsigned)*rest->at << 8 * index;
    return value;
}

/* A path after its length. Byte 1 stands for the tree, 2 for the longest name, 3 for more than the longest path. */
static uint64_t next_path(struct rest *rest)
{
    size_t length = next(rest, 1), made = 0;
    if (length == 255)
        return 1; /* an address that is not mapped */
    char *path = xcalloc(length * (PATH_MAX + 1) + sizeof(struct timespec) * 2 + 1);
    for (; length > 0 && rest->length > 0; length--) {
        unsigned byte = next(rest, 1);
        if (byte == 1)
            made += (size_t)sprintf(path + made, "%s", tree);
        else if (byte == 2 || byte == 3)
            for (int more = byte == 2 ? NAME_MAX : PATH_MAX; more > 0; more--)
                path[made++] = 'n';
        else
            path[made++] = (char)byte;
    }
    return (uint64_t)path;
}

static bool feed_call(struct rest *rest)
{
    static const struct broker nobody = {.listener = -1};
    const struct named *each = &named[next(rest, 1) % (sizeof named / sizeof *named)];
    unsigned given = next(rest, 3), mode = next(rest, 2);
    uint64_t one = next_path(rest), other = next_path(rest), *all;
    struct seccomp_notif call = {.id = 1, .pid = (unsigned)getpid(), .data.arch = NATIVE, .data.nr = each->number};
    uint32_t flags = 0;
    all = (uint64_t *)call.data.args;
    for (int index = 0; index < 6; index++)
        all[index] = index == each->path + 1 ? given : mode;
    all[each->path] = one;
    if (each->what == MODE || each->what == MAKE_DIRECTORY)
        all[each->path + 1] |= 0700; /* without these bits, NOBODY could not remove the directory */
    if (each->what == RENAME || each->what == LINK) {
        all[each->path == 0 ? 1 : 3] = other;
        all[4] = given;
    } else if (each->what == SYMLINK) {
        all[0] = other;
        all[each->path == 0 ? 1 : 2] = one;
    } else if (each->what == TIMES)
        all[each->path + 1] = given % 2 == 0 ? other : 0;
    return paths_answer(&nobody, &call, &flags) == 0;
}

/* Each call has its number, three bytes of flags, two of a mode, and two paths. Returns whether the last one was made. */
bool feed_named(const unsigned char *content, size_t length)
{
    struct run run = {0};
    struct rest rest = {content, length};
    bool done = false;
    if (tree[0] == '\0')
        make_tree();
    act_as(NOBODY);
    mode_t mask = umask(0);
    exception_count = 0;
    paths_prepare(&run, at("/p/program"), at("/d/guest"), at("/own"));
    make_writable();
    look(true);
    for (int count = 0; rest.length > 0 && count < MOST_CALLS; count++) {
        done = feed_call(&rest);
        look(false);
    }
    chmod(at("/w"), 0755);
    chmod(at("/own"), 0755);
    remove_tree(at("/w"));
    remove_tree(at("/own"));
    umask(mask);
    act_as(0);
    return done;
}
