/* The recorder: the filter sends notifications for calls with paths, too. The supervisor looks up what they
 * name, and lets them go on (SECCOMP_USER_NOTIF_FLAG_CONTINUE), so the mounts and the rendered filter decide
 * as usual. The path is resolved before the call is made, and a program can change it in between. The record
 * therefore contains requested paths. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "launch.h"
#include "recorded.h"

enum { PAGE = 4096, MOST_CALLS = 512 };

/* ---- the calls. `flags`: the number of the argument with AT_ flags, or with those of open(2); -1: none. */
enum style { PLAIN, OPEN, OPEN_HOW, BIND, SENDTO, CONNECTS, AT };
struct call {
    int number;
    signed char directory, path, flags; /* numbers of arguments; -1: none */
    unsigned char style, kinds;
    bool follows; /* the call follows a link at the end of the path */
};

static const struct call calls[] = {
#ifdef SYS_open
    {SYS_open, -1, 0, 1, OPEN, 0, true}, {SYS_creat, -1, 0, -1, PLAIN, WRITE | CREATE, true},
    {SYS_stat, -1, 0, -1, PLAIN, LOOK, true}, {SYS_lstat, -1, 0, -1, PLAIN, LOOK, false},
    {SYS_access, -1, 0, -1, PLAIN, LOOK, true}, {SYS_readlink, -1, 0, -1, PLAIN, LOOK, false},
    {SYS_mkdir, -1, 0, -1, PLAIN, CREATE, false}, {SYS_mknod, -1, 0, -1, PLAIN, CREATE, false},
    {SYS_rmdir, -1, 0, -1, PLAIN, REMOVE, false}, {SYS_unlink, -1, 0, -1, PLAIN, REMOVE, false},
    {SYS_rename, -1, 0, -1, PLAIN, REMOVE, false}, {SYS_rename, -1, 1, -1, PLAIN, CREATE | REMOVE, false},
    {SYS_link, -1, 0, -1, PLAIN, READ | WRITE, false}, {SYS_link, -1, 1, -1, PLAIN, CREATE, false},
    {SYS_symlink, -1, 1, -1, PLAIN, CREATE, false}, {SYS_chmod, -1, 0, -1, PLAIN, WRITE, true},
    {SYS_chown, -1, 0, -1, PLAIN, WRITE, true}, {SYS_lchown, -1, 0, -1, PLAIN, WRITE, false},
    {SYS_utime, -1, 0, -1, PLAIN, WRITE, true}, {SYS_utimes, -1, 0, -1, PLAIN, WRITE, true},
    {SYS_futimesat, 0, 1, -1, PLAIN, WRITE, true},
#endif
#ifdef SYS_renameat
    {SYS_renameat, 0, 1, -1, PLAIN, REMOVE, false}, {SYS_renameat, 2, 3, -1, PLAIN, CREATE | REMOVE, false},
#endif
    {SYS_openat, 0, 1, 2, OPEN, 0, true}, {SYS_openat2, 0, 1, 2, OPEN_HOW, 0, true},
    {SYS_execve, -1, 0, -1, PLAIN, EXEC, true}, {SYS_execveat, 0, 1, 4, AT, EXEC, true},
    {SYS_newfstatat, 0, 1, 3, AT, LOOK, true}, {SYS_statx, 0, 1, 2, AT, LOOK, true},
    {SYS_faccessat, 0, 1, -1, PLAIN, LOOK, true}, {SYS_faccessat2, 0, 1, 3, AT, LOOK, true},
    {SYS_readlinkat, 0, 1, -1, PLAIN, LOOK, false}, {SYS_statfs, -1, 0, -1, PLAIN, LOOK, true},
    {SYS_chdir, -1, 0, -1, PLAIN, LOOK, true}, {SYS_getxattr, -1, 0, -1, PLAIN, LOOK, true},
    {SYS_lgetxattr, -1, 0, -1, PLAIN, LOOK, false}, {SYS_listxattr, -1, 0, -1, PLAIN, LOOK, true},
    {SYS_llistxattr, -1, 0, -1, PLAIN, LOOK, false}, {SYS_inotify_add_watch, -1, 1, -1, PLAIN, LOOK, true},
    {SYS_mkdirat, 0, 1, -1, PLAIN, CREATE, false}, {SYS_mknodat, 0, 1, -1, PLAIN, CREATE, false},
    {SYS_unlinkat, 0, 1, -1, PLAIN, REMOVE, false},
    {SYS_renameat2, 0, 1, -1, PLAIN, REMOVE, false}, {SYS_renameat2, 2, 3, -1, PLAIN, CREATE | REMOVE, false},
    {SYS_linkat, 0, 1, -1, PLAIN, READ | WRITE, false}, {SYS_linkat, 2, 3, -1, PLAIN, CREATE, false},
    {SYS_symlinkat, 1, 2, -1, PLAIN, CREATE, false}, {SYS_truncate, -1, 0, -1, PLAIN, WRITE, true},
    {SYS_fchmodat, 0, 1, -1, PLAIN, WRITE, true}, {SYS_fchownat, 0, 1, 4, AT, WRITE, true},
    {SYS_utimensat, 0, 1, 3, AT, WRITE, true}, {SYS_setxattr, -1, 0, -1, PLAIN, WRITE, true},
    {SYS_lsetxattr, -1, 0, -1, PLAIN, WRITE, false}, {SYS_removexattr, -1, 0, -1, PLAIN, WRITE, true},
    {SYS_lremovexattr, -1, 0, -1, PLAIN, WRITE, false}, {SYS_bind, -1, 1, -1, BIND, 0, false},
    {SYS_sendto, -1, 4, -1, SENDTO, 0, false}, {SYS_connect, -1, 1, -1, CONNECTS, 0, false},
};
enum { COUNT = sizeof calls / sizeof *calls };

static const char *file;
static bool uses_alone;
static int further[MOST_CALLS], further_count;
static int listener = -1, root = -1; /* a descriptor of the sandbox's root directory */


/* Calls that the filter of confine.c refuses, or that the supervisor makes, never go on, so they are not
 * recorded. */
static bool is_kept(int number)
{
    static const int kept[] = {SYS_connect, SYS_socket, SYS_socketpair, SYS_seccomp, SYS_io_uring_setup};
    for (size_t index = 0; index < sizeof kept / sizeof *kept; index++)
        if (number == kept[index])
            return true;
    return false;
}

static bool is_further(int number)
{
    for (int index = 0; index < further_count; index++)
        if (further[index] == number)
            return true;
    return false;
}

static bool has_path(int number)
{
    for (size_t index = 0; index < COUNT; index++)
        if (calls[index].number == number)
            return true;
    return false;
}

void record_take(const struct run_document *document)
{
    file = document->record;
    for (size_t index = 0; index < document->record_calls.count; index++) {
        int number = atoi(document->record_calls.at[index]);
        if (number > 0 && further_count < MOST_CALLS && !is_kept(number) && !has_path(number))
            further[further_count++] = number;
    }
    uses_alone = document->record_uses;
}

const char *record_file(void)
{
    return file;
}

bool record_uses(void)
{
    return uses_alone;
}

/* ---- the filter. The kernel caches an answer for each call whose arguments the filter does not read, so
 * calls that are not recorded cost nothing. */
static void ask(struct program *program, int number)
{
    program->at[program->count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
    program->at[program->count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
}

/* fstat(2) is newfstatat with AT_EMPTY_PATH, and send(2) is sendto without an address. */
static void ask_by_argument(struct program *program)
{
    const struct sock_filter some[] = {
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, AT_EMPTY_PATH, 5, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendto, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
    };
    const size_t first = uses_alone ? 4 : 0;
    memcpy(program->at + program->count, some + first, sizeof some - first * sizeof *some);
    program->count += sizeof some / sizeof *some - first;
}

struct program record_ask(const struct program *filter, bool connects)
{
    enum { OWN = 2 * (COUNT + MOST_CALLS) + 16 };
    struct program made = {xcalloc((filter->count + OWN) * sizeof(struct sock_filter)), 0};
    made.at[made.count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    made.at[made.count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0);
    size_t jump = made.count++;
    made.at[made.count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t index = 0; index < COUNT; index++)
        if (calls[index].style == CONNECTS ? !connects
                                           : calls[index].number != SYS_newfstatat && calls[index].style != SENDTO &&
                                                 !(uses_alone && calls[index].kinds == LOOK))
            ask(&made, calls[index].number);
    for (int index = 0; index < further_count; index++)
        ask(&made, further[index]);
    ask_by_argument(&made);
    made.at[jump] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (unsigned)(made.count - jump - 1));
    memcpy(made.at + made.count, filter->at, filter->count * sizeof *filter->at);
    made.count += filter->count;
    if (made.count > MOST_INSTRUCTIONS - ASKS)
        die("the sandbox's filter is too long for a recording");
    return made;
}

void record_begin(int own_listener, pid_t first)
{
    listener = own_listener;
    root = open(xasprintf("/proc/%d/root", (int)first), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        die_errno("cannot record");
}

static bool copy_from(pid_t thread, uint64_t from, void *to, size_t length)
{
    struct iovec own = {to, length}, theirs = {(void *)(uintptr_t)from, length};
    return process_vm_readv(thread, &own, 1, &theirs, 1, 0) == (ssize_t)length;
}

/* Copies a path with its NUL, page by page: most paths end in the first page, and the second one may not be
 * readable. */
static bool copy_path(pid_t thread, uint64_t from, char path[PATH_MAX])
{
    for (size_t got = 0, more; got < PATH_MAX; got += more) {
        more = PAGE - (from + got) % PAGE;
        more = more < PATH_MAX - got ? more : PATH_MAX - got;
        if (!copy_from(thread, from + got, path + got, more))
            return false;
        if (memchr(path + got, '\0', more) != NULL)
            return true;
    }
    return false;
}

/* The target of the link /proc/THREAD/NAME, or "". */
static void read_place(pid_t thread, const char *name, int number, char place[PATH_MAX])
{
    char path[64];
    if (number < 0)
        snprintf(path, sizeof path, "/proc/%d/%s", (int)thread, name);
    else
        snprintf(path, sizeof path, "/proc/%d/%s/%d", (int)thread, name, number);
    ssize_t length = readlink(path, place, PATH_MAX - 1);
    place[length < 0 ? 0 : length] = '\0';
}

static bool goes_on(uint64_t id)
{
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

enum place { NONE, PLACED, LOST };

/* The absolute path that a call names, as the call spells it. NONE: the call names an open file instead. */
static enum place whole_path(const struct seccomp_notif *made, const struct call *call, unsigned flags, char whole[2 * PATH_MAX])
{
    const uint64_t *arguments = (const uint64_t *)made->data.args;
    char given[PATH_MAX];
    pid_t thread = (pid_t)made->pid;
    if (arguments[(int)call->path] == 0)
        return NONE;
    if (!copy_path(thread, arguments[(int)call->path], given))
        return LOST;
    if (given[0] == '/') {
        strcpy(whole, given);
        return PLACED;
    }
    if (given[0] == '\0' && (call->kinds != EXEC || (flags & AT_EMPTY_PATH) == 0))
        return NONE;
    int directory = call->directory < 0 ? AT_FDCWD : (int)arguments[(int)call->directory];
    if (directory == AT_FDCWD)
        read_place(thread, "cwd", -1, whole);
    else
        read_place(thread, "fd", directory, whole);
    if (whole[0] != '/') /* a pipe, a socket or a file in memory; or not the thread's descriptor */
        return whole[0] == '\0' ? LOST : NONE;
    size_t length = strlen(whole);
    if (given[0] != '\0' && length > 1)
        whole[length++] = '/';
    memcpy(whole + length, given, strlen(given) + 1);
    return PLACED;
}

static int look_up(const char *path, bool follows, uint64_t besides)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (follows ? 0 : O_NOFOLLOW),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | besides};
    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}

/* Whether a path that contains no links is already canonical. */
static bool is_place(const char *path)
{
    size_t length = strlen(path);
    return length < PATH_MAX && strstr(path, "//") == NULL && strstr(path, "/./") == NULL && strstr(path, "/../") == NULL &&
           path[length - 1] != '/' && (length < 2 || strcmp(path + length - 2, "/.") != 0) &&
           (length < 3 || strcmp(path + length - 3, "/..") != 0);
}

/* The canonical path in the sandbox, and the type of the file; ABSENT if it does not exist. */
static enum found find(const char *path, bool follows, char real[PATH_MAX])
{
    struct stat status;
    char name[32];
    bool plain = is_place(path);
    int opened = look_up(path, follows, plain ? RESOLVE_NO_SYMLINKS : 0);
    real[0] = '\0';
    if (opened < 0 && plain && errno == ELOOP) {
        plain = false;
        opened = look_up(path, follows, 0);
    }
    if (opened < 0)
        return ABSENT;
    if (plain)
        strcpy(real, path);
    else {
        snprintf(name, sizeof name, "/proc/self/fd/%d", opened);
        ssize_t length = readlink(name, real, PATH_MAX - 1);
        real[length < 0 ? 0 : length] = '\0';
    }
    bool told = fstat(opened, &status) == 0 && real[0] == '/';
    close(opened);
    if (!told)
        return ABSENT;
    return S_ISREG(status.st_mode) ? A_FILE : S_ISDIR(status.st_mode) ? A_DIRECTORY : S_ISLNK(status.st_mode) ? A_LINK : ANOTHER;
}

/* The path that a missing file would have: the canonical path of its directory, and its name without slashes
 * at the end. */
static bool find_new(const char *path, char real[PATH_MAX])
{
    char *copy = xasprintf("%s", path), *slash;
    size_t length = strlen(copy);
    while (length > 1 && copy[length - 1] == '/')
        copy[--length] = '\0';
    slash = strrchr(copy, '/');
    const char *name = slash + 1;
    bool known = *name != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    char *above = xasprintf("%.*s", slash == copy ? 1 : (int)(slash - copy), copy);
    known = known && find(above, true, real) == A_DIRECTORY && strlen(real) + strlen(name) + 2 < PATH_MAX;
    if (known)
        snprintf(real + strlen(real), PATH_MAX - strlen(real), "%s%s", real[1] == '\0' ? "" : "/", name);
    free(above);
    free(copy);
    return known;
}

static unsigned opened_for(uint64_t flags)
{
    unsigned kinds = (flags & O_PATH) != 0 ? LOOK : (flags & O_ACCMODE) == O_WRONLY ? WRITE : READ;
    if ((flags & O_PATH) == 0 && ((flags & O_ACCMODE) == O_RDWR || (flags & O_TRUNC) != 0))
        kinds |= WRITE;
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE)
        kinds |= CREATE;
    return kinds;
}

/* The access, once the type is known: an existing file is not created, and a missing one is not removed. */
static unsigned kinds_for(unsigned asked, enum found found)
{
    unsigned kinds = asked & ~(unsigned)(found == ABSENT ? REMOVE : CREATE);
    if (found == ABSENT && (kinds & CREATE) == 0)
        kinds &= ~(unsigned)WRITE;
    if ((kinds & READ) != 0 && found == A_DIRECTORY)
        kinds = (kinds & ~(unsigned)READ) | LIST;
    return kinds == 0 ? LOOK : kinds;
}

/* The sandbox's own /proc and /dev differ from the host's, so they are left out. */
static bool is_own(const char *path)
{
    return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/dev/", 5) == 0;
}

static void record_path(const struct seccomp_notif *made, const struct call *call)
{
    char whole[2 * PATH_MAX], real[PATH_MAX];
    const uint64_t *arguments = (const uint64_t *)made->data.args;
    uint64_t flags = call->flags < 0 ? 0 : arguments[(int)call->flags];
    if (call->style == OPEN_HOW && !copy_from((pid_t)made->pid, flags, &flags, sizeof flags))
        return;
    bool opens = call->style == OPEN || call->style == OPEN_HOW;
    unsigned asked = opens ? opened_for(flags) : call->kinds;
    enum place placed = whole_path(made, call, (unsigned)flags, whole);
    if (placed == LOST && goes_on(made->id))
        recorded_other(UNRESOLVED, 0, "", 0);
    if (placed != PLACED || is_own(whole) || recorded_path_known(whole, asked))
        return;
    if (!goes_on(made->id)) /* the memory may belong to a process that reuses the ID */
        return;
    bool follows = opens ? (flags & O_NOFOLLOW) == 0 && (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL)
                         : call->follows && (call->style != AT || (flags & AT_SYMLINK_NOFOLLOW) == 0);
    enum found found = find(whole, follows, real);
    if (found == ABSENT && !((asked & CREATE) != 0 && find_new(whole, real)))
        snprintf(real, sizeof real, "%.*s", PATH_MAX - 1, whole);
    recorded_path(whole, real, found, asked, kinds_for(asked, found));
}

static void record_address(const struct seccomp_notif *made, const struct call *call)
{
    const uint64_t *arguments = (const uint64_t *)made->data.args;
    struct sockaddr_storage address = {0};
    size_t length = (size_t)arguments[call->path + 1];
    if (length > sizeof address || !copy_from((pid_t)made->pid, arguments[(int)call->path], &address, length))
        return;
    if (call->style == SENDTO)
        recorded_other(SEND, SOCK_DGRAM, &address, length);
    else if (call->style == CONNECTS)
        record_connect(&address, length, 0);
    else if (address.ss_family == AF_INET || address.ss_family == AF_INET6 || address.ss_family == AF_UNIX)
        recorded_other(LISTEN, SOCK_STREAM, &address, length);
}

void record_connect(const void *address, size_t length, int type)
{
    struct sockaddr any = {0};
    memcpy(&any, address, length < sizeof any ? length : sizeof any);
    if (file != NULL && (any.sa_family == AF_INET || any.sa_family == AF_INET6 || any.sa_family == AF_UNIX))
        recorded_other(CONNECT, (unsigned)type, address, length);
}

bool record_call(const struct seccomp_notif *made, bool connects)
{
    bool known = false;
    if (file == NULL || made->data.arch != NATIVE)
        return false;
    if (is_further(made->data.nr)) {
        recorded_other(CALL, (unsigned)made->data.nr, &made->data.nr, sizeof made->data.nr);
        return true;
    }
    for (size_t index = 0; index < COUNT; index++) {
        const struct call *call = &calls[index];
        if (call->number != made->data.nr || (call->style == CONNECTS && connects))
            continue;
        known = true;
        if (call->style == BIND || call->style == SENDTO || call->style == CONNECTS)
            record_address(made, call);
        else
            record_path(made, call);
    }
    return known;
}
