/* The supervisor makes the calls that create a name in place of programs inside. It does so in closed
 * directories (closed.h), in which Landlock lets no program create anything, and in new directories below
 * them. All other calls go on unchanged.
 *
 * A call that goes on is safe, even if the caller's threads change its memory meanwhile: if it then
 * creates a name in a closed directory, the kernel refuses it. The supervisor uses its own copies of the
 * paths, in directories that it has opened and judged. Restricted names fail with EACCES. Mount points can't
 * be renamed, as in the sandbox: the kernel would allow it here, because the supervisor is in another mount
 * namespace (rename(2)).
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <limits.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "broker.h"
#include "closed.h"
#include "filter.h"
#include "launch.h"
#include "paths.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif
enum { LINKS = 8, TURNS = 8, CACHED_ONLY = 0x20 /* RESOLVE_CACHED, Linux 5.12 */, MOUNT_ID = 0x1000 /* STATX_MNT_ID, Linux 5.8 */, MASK_AT = 0, MOUNT_AT = 144 /* in struct statx */ };

/* Serialises renames, so that no rename can happen between another one's check for mount points and its
 * call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the calls */
enum kind { OPEN, OPEN_HOW, DIRECTORY, NODE, SYMLINK, LINK, RENAME };
struct created {
    int base;         /* a descriptor of the caller, or AT_FDCWD */
    uint64_t address; /* the path's address in the caller's memory */
    char path[PATH_MAX];
    const char *last; /* the last name in `path`, with the slashes after it */
    int above;        /* a descriptor of the directory that contains it; -1: none */
};
struct creation {
    enum kind kind;
    struct created name, from; /* `from`: for LINK and RENAME */
    uint64_t text;          /* an address: for SYMLINK of the target, for OPEN_HOW of the flags */
    unsigned flags;
    mode_t mode;
};

static void take(struct created *name, uint64_t base, uint64_t address)
{
    name->base = (int)base;
    name->address = address;
}

static bool take_at(struct creation *made, int number, const uint64_t *all)
{
    switch (number) {
    case SYS_openat:
        *made = (struct creation){.kind = OPEN, .flags = (unsigned)all[2], .mode = (mode_t)all[3]};
        break;
    case SYS_openat2:
        *made = (struct creation){.kind = OPEN_HOW, .text = all[2]};
        break;
    case SYS_mkdirat:
        *made = (struct creation){.kind = DIRECTORY, .mode = (mode_t)all[2]};
        break;
    case SYS_mknodat:
        *made = (struct creation){.kind = NODE, .mode = (mode_t)all[2]};
        break;
    case SYS_symlinkat:
        *made = (struct creation){.kind = SYMLINK, .text = all[0]};
        take(&made->name, all[1], all[2]);
        return true;
    case SYS_linkat:
    case SYS_renameat2:
#ifdef SYS_renameat
    case SYS_renameat:
#endif
        *made = (struct creation){.kind = number == SYS_linkat ? LINK : RENAME,
                                  .flags = number == SYS_linkat || number == SYS_renameat2 ? (unsigned)all[4] : 0};
        take(&made->from, all[0], all[1]);
        take(&made->name, all[2], all[3]);
        return true;
    default:
        return false;
    }
    take(&made->name, all[0], all[1]);
    return true;
}

/* Calls without directory descriptors. */
static bool take_plain(struct creation *made, int number, const uint64_t *all)
{
#ifdef SYS_open
    const uint64_t here = (uint64_t)AT_FDCWD;
    switch (number) {
    case SYS_open:
        return take_at(made, SYS_openat, (uint64_t[]){here, all[0], all[1], all[2]});
    case SYS_creat:
        return take_at(made, SYS_openat, (uint64_t[]){here, all[0], O_WRONLY | O_CREAT | O_TRUNC, all[1]});
    case SYS_mkdir:
        return take_at(made, SYS_mkdirat, (uint64_t[]){here, all[0], all[1]});
    case SYS_mknod:
        return take_at(made, SYS_mknodat, (uint64_t[]){here, all[0], all[1]});
    case SYS_symlink:
        return take_at(made, SYS_symlinkat, (uint64_t[]){all[0], here, all[1]});
    case SYS_link:
        return take_at(made, SYS_linkat, (uint64_t[]){here, all[0], here, all[1], 0});
    case SYS_rename:
        return take_at(made, SYS_renameat2, (uint64_t[]){here, all[0], here, all[1], 0});
    }
#endif
    return take_at(made, number, all);
}

static bool take_call(struct creation *made, const struct seccomp_data *call)
{
    return call->arch == NATIVE && take_plain(made, call->nr & ~0x40000000, (const uint64_t *)call->args) &&
           (made->kind != OPEN || (made->flags & O_CREAT) != 0);
}

bool creation_is_asked(const struct seccomp_data *call)
{
    struct creation made;
    return take_call(&made, call);
}

static uint64_t mount_of(int directory, const char *name)
{
    unsigned char status[256];
    uint32_t mask;
    uint64_t mount;
    int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name == '\0' ? AT_EMPTY_PATH : 0);
    if (syscall(SYS_statx, directory, name, flags, MOUNT_ID, status) != 0)
        return 0;
    memcpy(&mask, status + MASK_AT, sizeof mask);
    memcpy(&mount, status + MOUNT_AT, sizeof mount);
    return (mask & MOUNT_ID) != 0 ? mount : 0;
}

void creation_begin(pid_t first)
{
    struct closed *all;
    _cleanup_close_ int process = open(xasprintf("/proc/%d", (int)first), O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t index = 0, count = closed_all(&all); index < count; index++) {
        all[index].inside = open_as(process, "root", all[index].path);
        struct stat status;
        if (all[index].inside < 0 || fstat(all[index].inside, &status) != 0 || !same_file(&status, &all[index].status) ||
            (all[index].mount = mount_of(all[index].inside, "")) == 0)
            die("%s is not the same directory inside the sandbox, so nothing was run", all[index].path);
    }
}

static bool is_ascii(const char *name, size_t length)
{
    for (size_t index = 0; index < length; index++)
        if ((unsigned char)name[index] >= 0x80)
            return false;
    return true;
}

/* Whether folding could turn a name into the restricted one, by unknown rules: a character outside ASCII may
 * stand for any other one, for several, or for none. `reached`: the numbers of characters of the restricted
 * name that the characters read so far may stand for. */
static bool may_fold(const char *name, size_t length, const char *restricted)
{
    bool reached[NAME_MAX + 1] = {true};
    size_t most = strlen(restricted);
    if (most > NAME_MAX)
        return true;
    for (const char *each = name; each < name + length; each++) {
        bool other = (unsigned char)*each >= 0x80;
        for (size_t at = 1; other && at <= most; at++)
            reached[at] |= reached[at - 1];
        for (size_t at = most; !other && at > 0; at--)
            reached[at] = reached[at - 1] && tolower(*each) == tolower((unsigned char)restricted[at - 1]);
        reached[0] &= other;
    }
    return reached[most];
}

/* For file systems that compare names by rules that are unknown here, such as ext4 with casefold, vfat, ntfs3
 * and CIFS. */
static bool folds_to(const char *name, size_t length, const char *restricted)
{
    while (length > 1 && (name[length - 1] == '.' || name[length - 1] == ' '))
        length--;
    const char *tilde = memchr(name, '~', length);
    if (tilde != NULL && tilde + 1 < name + length && isdigit((unsigned char)tilde[1])) /* a short name */
        return true;
    if (is_ascii(name, length) || !is_ascii(restricted, strlen(restricted)))
        return !is_ascii(name, length) || (strlen(restricted) == length && strncasecmp(restricted, name, length) == 0);
    return may_fold(name, length, restricted);
}

/* Ignores case, which refuses more than necessary where case matters. */
static bool is_restricted(const struct closed *closed, const char *name)
{
    size_t length = strcspn(name, "/");
    for (size_t index = 0; index < closed->names.count; index++) {
        const char *each = closed->names.at[index];
        if (closed->folds ? folds_to(name, length, each) : strlen(each) == length && strncasecmp(each, name, length) == 0)
            return true;
    }
    return false;
}

static bool has_restricted_name(int directory, const char *name)
{
    struct stat status;
    const struct closed *closed = fstat(directory, &status) == 0 ? closed_at(&status) : NULL;
    return closed != NULL && is_restricted(closed, name);
}

static bool is_plain_name(const char *last)
{
    size_t length = strcspn(last, "/");
    return length > 0 && strncmp(last, ".", length) != 0 && !(length == 2 && last[0] == '.' && last[1] == '.');
}

/* Opens the directory that contains a name, as the caller would find it; false: the kernel is to answer the
 * call. */
static bool open_parent(int process, struct created *name, bool at_once)
{
    char base[32], above[PATH_MAX];
    const char *path = links_base(name->base, name->path, base);
    size_t length = links_above_last(path);
    snprintf(above, sizeof above, "%.*s", (int)length, path);
    name->last = path + length;
    errno = EINVAL;
    name->above = is_plain_name(name->last) ? (at_once ? open_cached_as : open_as)(process, base, length == 0 ? "." : above) : -1;
    return name->above >= 0;
}

static void close_parent(const struct created *name)
{
    if (name->above >= 0)
        close(name->above);
}

enum standing { OUTSIDE, OPEN_TO_ALL, CLOSED, RESTRICTED };

/* Classifies a directory by its path in the sandbox. A wrong result can only refuse too much, because
 * Landlock's rules hold for inodes. */
static enum standing standing_of(const struct broker *broker, int directory)
{
    char descriptor[32], path[PATH_MAX], first[NAME_MAX + 1];
    struct stat status;
    size_t root = strlen(broker->root);
    snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", directory);
    ssize_t length = readlink(descriptor, path, sizeof path - 1);
    if (length <= (ssize_t)root || fstat(directory, &status) != 0 || strncmp(path, broker->root, root) != 0)
        return OUTSIDE;
    path[length] = '\0';
    if (closed_at(&status) != NULL)
        return CLOSED;
    const struct closed *above = closed_above(path + root, (size_t)length - root);
    if (above == NULL || mount_of(directory, "") != above->mount)
        return OUTSIDE;
    const char *rest = path + root + above->length;
    rest += strspn(rest, "/");
    snprintf(first, sizeof first, "%.*s", (int)strcspn(rest, "/"), rest);
    if (is_restricted(above, first)) /* the host has created it meanwhile */
        return RESTRICTED;
    return fstatat(above->inside, first, &status, AT_SYMLINK_NOFOLLOW) == 0 && closed_granted(&status) ? OPEN_TO_ALL : CLOSED;
}

bool creation_is_refused(const struct broker *broker, int directory, const char *name)
{
    return has_restricted_name(directory, name) || standing_of(broker, directory) == RESTRICTED;
}

static mode_t mask_of(int process)
{
    _cleanup_free_ char *status = read_file(process, "status", 1 << 16, NULL);
    const char *found = status == NULL ? NULL : strstr(status, "\nUmask:\t");
    return found == NULL ? 077 : (mode_t)strtoul(found + 8, NULL, 8) & 0777;
}

/* Sets the caller's umask for this thread. The kernel then ignores it where it has to (default ACLs,
 * umask(2)). */
static int take_mask(int process)
{
    static _Thread_local bool apart;
    if (!apart && unshare(CLONE_FS) != 0)
        return errno;
    apart = true;
    umask(mask_of(process));
    return 0;
}

enum { GO_ON = -2, LATER = -3 };

static int hand_in(const struct broker *broker, const struct seccomp_notif *call, int file, unsigned flags)
{
    struct seccomp_notif_addfd given = {.id = call->id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = (uint32_t)file,
                                        .newfd_flags = (flags & O_CLOEXEC) != 0 ? O_CLOEXEC : 0};
    int fault = ioctl(broker->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &given) >= 0 ? -1 : errno;
    return fault == ENOENT ? -1 : fault;
}

/* If the caller can't have another descriptor (EMFILE), the new file is removed. */
static void take_back(int file, const struct created *name)
{
    struct stat own, there;
    if (fstat(file, &own) == 0 && fstatat(name->above, name->last, &there, AT_SYMLINK_NOFOLLOW) == 0 && same_file(&own, &there))
        unlinkat(name->above, name->last, 0);
}

/* Opens an existing regular file (EAGAIN: it is not one), without waiting for the holder of a lease
 * (fcntl(2)). */
static int open_file(const struct creation *made)
{
    char descriptor[32];
    struct stat status;
    unsigned flags = made->flags & ~(unsigned)(O_CREAT | O_NOFOLLOW);
    _cleanup_close_ int there = openat(made->name.above, made->name.last, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (there < 0)
        return -1;
    errno = EAGAIN;
    if (fstat(there, &status) != 0 || !S_ISREG(status.st_mode))
        return -1;
    snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", there);
    int file = open(descriptor, (int)flags | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && (flags & O_NONBLOCK) == 0)
        fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
    return file;
}

/* Also opens an existing file: if the call went on and the file was removed meanwhile, Landlock would refuse
 * to create it. */
static int create_file(const struct broker *broker, const struct seccomp_notif *call, const struct creation *made)
{
    /* O_EXCL follows no links (open(2)). */
    const int flags = (int)made->flags | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY;
    if ((made->flags & (O_PATH | O_DIRECTORY | O_TMPFILE)) != 0)
        return GO_ON; /* the kernel creates nothing with these flags, or returns an error */
    for (int turn = 0; turn < TURNS; turn++) {
        _cleanup_close_ int file = openat(made->name.above, made->name.last, flags, made->mode & 07777);
        bool is_new = file >= 0;
        if (!is_new && (errno != EEXIST || (made->flags & O_EXCL) != 0))
            return errno;
        if (!is_new && (file = open_file(made)) < 0 && errno == ENOENT)
            continue;
        if (file < 0)
            return errno == EAGAIN ? GO_ON : errno;
        int fault = hand_in(broker, call, file, made->flags);
        if (fault > 0 && is_new)
            take_back(file, &made->name);
        return fault;
    }
    return GO_ON;
}

static int create_node(const struct creation *made)
{
    mode_t kind = made->mode & S_IFMT;
    if (kind != 0 && kind != S_IFREG && kind != S_IFIFO)
        return GO_ON;
    return mknodat(made->name.above, made->name.last, kind | (made->mode & 07777), 0) == 0 ? 0 : errno;
}

static bool is_mount_point(const struct created *name)
{
    char last[NAME_MAX + 1];
    struct stat status;
    snprintf(last, sizeof last, "%.*s", (int)strcspn(name->last, "/"), name->last);
    if (fstatat(name->above, last, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno != ENOENT;
    uint64_t here = mount_of(name->above, "");
    return here == 0 || here != mount_of(name->above, last);
}

/* The number of the caller's descriptor that linkat(2) is to link; NULL: it names a file by another path. */
static const char *linked_descriptor(const struct creation *made, char number[16])
{
    static const char *const own[] = {"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"};
    const char *path = made->from.path;
    if ((made->flags & AT_EMPTY_PATH) != 0 && *path == '\0') {
        snprintf(number, 16, "%d", made->from.base);
        return number;
    }
    for (size_t index = 0; (made->flags & AT_SYMLINK_FOLLOW) != 0 && index < sizeof own / sizeof *own; index++) {
        size_t length = strlen(own[index]);
        if (strncmp(path, own[index], length) == 0 && strlen(path + length) <= 10)
            return path + length;
    }
    return NULL;
}

/* For files without a name (open(2), O_TMPFILE). */
static int link_descriptor(const struct creation *made, int process, const char *number)
{
    char path[32];
    if (*number == '\0' || strspn(number, "0123456789") != strlen(number))
        return GO_ON;
    snprintf(path, sizeof path, "fd/%s", number);
    return linkat(process, path, made->name.above, made->name.last, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

/* find_place has already followed links as in the sandbox. */
static int create_second_name(const struct creation *made, int process)
{
    char own[16];
    const char *number = linked_descriptor(made, own);
    if (number != NULL)
        return link_descriptor(made, process, number);
    if (made->from.above < 0 || (made->flags & ~(unsigned)(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) != 0)
        return GO_ON;
    if (has_restricted_name(made->from.above, made->from.last))
        return EACCES;
    return linkat(made->from.above, made->from.last, made->name.above, made->name.last, 0) == 0 ? 0 : errno;
}

static int rename_entry(const struct creation *made)
{
    if (made->from.above < 0 || (made->flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0)
        return GO_ON;
    if (has_restricted_name(made->from.above, made->from.last))
        return EACCES;
    if (mount_of(made->from.above, "") != mount_of(made->name.above, ""))
        return EXDEV;
    pthread_mutex_lock(&lock);
    int fault = is_mount_point(&made->from) || is_mount_point(&made->name) ? EBUSY
                : syscall(SYS_renameat2, made->from.above, made->from.last, made->name.above, made->name.last, made->flags) == 0
                    ? 0
                    : errno;
    pthread_mutex_unlock(&lock);
    return fault;
}

static int create_symlink(const struct broker *broker, const struct seccomp_notif *call, const struct creation *made)
{
    char text[PATH_MAX];
    int fault = read_path((pid_t)call->pid, made->text, text);
    if (!broker_valid(broker, call->id))
        return -1; /* the target may have been read from a process that reuses the ID */
    return fault != 0 ? fault : symlinkat(text, made->name.above, made->name.last) == 0 ? 0 : errno;
}

static int create(const struct broker *broker, const struct seccomp_notif *call, const struct creation *made, int process)
{
    int fault = has_restricted_name(made->name.above, made->name.last) ? EACCES : made->kind < SYMLINK ? take_mask(process) : 0;
    if (fault != 0)
        return fault;
    switch (made->kind) {
    case OPEN:
        return create_file(broker, call, made);
    case OPEN_HOW:
        return ENOSYS; /* callers are prepared for kernels without openat2(2) */
    case DIRECTORY:
        return mkdirat(made->name.above, made->name.last, made->mode & 01777) == 0 ? 0 : errno;
    case NODE:
        return create_node(made);
    case SYMLINK:
        return create_symlink(broker, call, made);
    case LINK:
        return create_second_name(made, process);
    default:
        return rename_entry(made);
    }
}


/* For a dangling link, through which open(2) would create the target: replaces the name with the target. */
static bool follow(const struct broker *broker, struct created *name)
{
    char text[PATH_MAX], above[PATH_MAX], descriptor[32];
    ssize_t length = readlinkat(name->above, name->last, text, sizeof text - 1);
    if (length <= 0)
        return false;
    text[length] = '\0';
    snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", name->above);
    ssize_t base = text[0] == '/' ? 0 : readlink(descriptor, above, sizeof above - 1);
    size_t root = text[0] == '/' ? 0 : strlen(broker->root);
    if (base < (ssize_t)root || (size_t)(base + length) + 2 > sizeof name->path)
        return false;
    char *end = mempcpy(name->path, above + root, (size_t)base - root);
    *end = '/';
    memcpy(end + 1, text, (size_t)length + 1);
    return true;
}

/* What exists at a name, without following links: 'l' for a link, 'f' for a regular file, another letter for
 * anything else, 0 for nothing. -1: can't be found out without waiting. */
static int entry_of(const struct created *name, bool at_once)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = at_once ? CACHED_ONLY : 0};
    struct stat status;
    _cleanup_close_ int file = (int)syscall(SYS_openat2, name->above, name->last, &how, sizeof how);
    if (file < 0)
        return at_once && errno == EAGAIN ? -1 : errno == ENOENT ? 0 : 'e';
    return fstat(file, &status) != 0 ? 'e' : S_ISLNK(status.st_mode) ? 'l' : S_ISREG(status.st_mode) ? 'f' : 'o';
}

/* A directory on the way is missing. Returns ENOENT if it would be in a closed directory: if the call went on
 * and another thread created the directory meanwhile, Landlock would refuse it. GO_ON: it would be elsewhere.
 * 0: it exists now. */
static int judge_missing(const struct broker *broker, const struct created *name, int process)
{
    char base[32], above[PATH_MAX];
    struct stat status;
    const char *path = links_base(name->base, name->path, base);
    size_t length = links_above_last(path);
    for (snprintf(above, sizeof above, "%.*s", (int)length, path); length > 0; above[length] = '\0') {
        length = links_above_last(above);
        char *missing = above + length;
        missing[strcspn(missing, "/")] = '\0';
        _cleanup_free_ char *parent = xasprintf("%.*s", (int)length, length == 0 ? "." : above);
        _cleanup_close_ int directory = open_as(process, base, length == 0 ? "." : parent);
        if (directory < 0 && errno == ENOENT)
            continue;
        if (directory < 0 || !is_plain_name(missing))
            return GO_ON;
        if (fstatat(directory, missing, &status, AT_SYMLINK_NOFOLLOW) == 0)
            return S_ISDIR(status.st_mode) ? 0 : GO_ON;
        return errno == ENOENT && standing_of(broker, directory) >= CLOSED ? ENOENT : GO_ON;
    }
    return GO_ON;
}

/* Whether the call follows a link at this name. */
static bool is_followed(const struct creation *made, const struct created *name)
{
    if (name == &made->from)
        return made->kind == LINK && (made->flags & AT_SYMLINK_FOLLOW) != 0;
    return made->kind <= OPEN_HOW && (made->flags & (O_EXCL | O_NOFOLLOW)) == 0;
}

/* Whether the supervisor also opens an existing file (create_file). */
static bool is_opened_here(const struct creation *made, const struct created *name, int entry)
{
    return made->kind == OPEN && ((made->flags & O_EXCL) != 0 || (entry == 'f' && !has_restricted_name(name->above, name->last)));
}

/* Opens the directory that contains a name, after it has followed links: 0. */
static int find_place(const struct broker *broker, const struct seccomp_notif *call, const struct creation *made,
                      struct created *name, int process, bool at_once)
{
    for (int turn = 0; turn < LINKS; turn++) {
        bool found = open_parent(process, name, at_once);
        if (!found && errno != ENOENT)
            return at_once && errno == EAGAIN ? LATER : GO_ON;
        if (!found && at_once)
            return LATER;
        int missing = found ? 0 : judge_missing(broker, name, process);
        if (!broker_valid(broker, call->id))
            return -1; /* the opened directory may belong to a process that reuses the ID */
        if (missing != 0)
            return missing;
        if (!found)
            continue;
        bool opened = made->kind <= OPEN_HOW, followed = is_followed(made, name);
        if (!opened && !followed)
            return 0;
        if (strchr(name->last, '/') != NULL)
            return GO_ON; /* the kernel returns an error for this */
        int entry = entry_of(name, at_once);
        if (entry != 'l' || !followed)
            return entry < 0 ? LATER : entry == 0 || !opened || is_opened_here(made, name, entry) ? 0 : GO_ON;
        if (!follow(broker, name))
            return GO_ON;
        close_parent(name);
        name->above = -1;
    }
    return GO_ON; /* ELOOP */
}

/* Finds the file to move or link. GO_ON: not found; a descriptor, for example, has no directory. */
static int find_source(const struct broker *broker, const struct seccomp_notif *call, struct creation *made, int process, bool at_once)
{
    char own[16];
    if (made->kind < LINK || (made->kind == LINK && linked_descriptor(made, own) != NULL))
        return GO_ON;
    return find_place(broker, call, made, &made->from, process, at_once);
}

static int judge(const struct broker *broker, const struct seccomp_notif *call, struct creation *made, int process, bool at_once)
{
    int fault = find_place(broker, call, made, &made->name, process, at_once);
    if (fault != 0)
        return fault;
    fault = find_source(broker, call, made, process, at_once);
    if (fault != 0 && fault != GO_ON)
        return fault;
    enum standing to = standing_of(broker, made->name.above);
    enum standing from = fault == 0 ? standing_of(broker, made->from.above) : OUTSIDE;
    if (to == RESTRICTED || from == RESTRICTED)
        return EACCES;
    if (to == OUTSIDE || (to == OPEN_TO_ALL && from != CLOSED))
        return GO_ON;
    return at_once ? LATER : create(broker, call, made, process);
}

/* The flags of openat2(2) are in the caller's memory. */
static bool take_flags(pid_t thread, struct creation *made)
{
    struct open_how how;
    if (made->kind != OPEN_HOW)
        return true;
    if (!read_theirs(thread, made->text, &how, sizeof how))
        return false;
    made->flags = (unsigned)how.flags;
    return (made->flags & O_CREAT) != 0;
}

int creation_answer(const struct broker *broker, const struct seccomp_notif *call, uint32_t *flags, bool at_once)
{
    struct creation made;
    char name[32];
    pid_t thread = (pid_t)call->pid;
    int fault = GO_ON;
    if (take_call(&made, &call->data)) {
        made.name.above = made.from.above = -1;
        snprintf(name, sizeof name, "/proc/%d", (int)thread);
        _cleanup_close_ int process = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (process >= 0 && take_flags(thread, &made) && read_path(thread, made.name.address, made.name.path) == 0 &&
            (made.kind < LINK || read_path(thread, made.from.address, made.from.path) == 0))
            fault = judge(broker, call, &made, process, at_once);
        close_parent(&made.name);
        close_parent(&made.from);
    }
    if (fault == LATER)
        return -1;
    if (fault != GO_ON)
        return fault;
    *flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    return 0;
}
