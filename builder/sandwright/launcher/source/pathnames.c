/* Decides by the mount plan what the guest kernel (method vm) may do with a path, and reads the paths of its
 * calls (paths.c). */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "broker.h"
#include "launch.h"
#include "paths.h"
#include "watch.h"

enum { PAGE = 4096 };

static struct mount_plan plan;
static struct exception {
    const char *path;
    enum access access;
    bool below; /* also for paths below it */
} exceptions[8];
static size_t exception_count;
static const struct strv *repositories;
static const char *memory = "/dev/shm";

static void except(const char *path, enum access access, bool below)
{
    exceptions[exception_count++] = (struct exception){path, access, below};
}

void paths_prepare(const struct run *run, const char *program, const char *guest, const char *own)
{
    struct statfs place;
    plan = watch_plan_checked(run);
    repositories = &run->plan.repositories;
    except(program, ACCESS_READ, false);
    except(guest, ACCESS_READ, false);
    except(own, ACCESS_CHANGE, true);
    except(NOTHING, ACCESS_READ, false);
    except("/proc/cpuinfo", ACCESS_READ, false);
    /* User-Mode Linux accepts only a tmpfs here, or a directory that it is given. */
    if (statfs(memory, &place) != 0 || place.f_type != TMPFS_MAGIC)
        memory = own;
}

const char *paths_memory(void)
{
    return memory;
}

/* ---- the plan */
static bool is_excepted(const char *path, enum access *access)
{
    for (size_t index = 0; index < exception_count; index++) {
        const struct exception *each = &exceptions[index];
        if (strcmp(each->path, path) == 0 || (each->below && is_below(path, strlen(path), each->path, strlen(each->path)))) {
            *access = each->access;
            return true;
        }
    }
    return false;
}

/* The most specific rule decides; of several at the same path the last one, which is mounted over the
 * others. */
enum access access_to(const char *path)
{
    const struct record *found = NULL;
    enum access access;
    size_t length = strlen(path);
    if (is_excepted(path, &access))
        return access;
    for (size_t index = 0; index < plan.count; index++) {
        const struct record *each = &plan.records[index];
        if (is_below(path, length, each->target, each->length) && (found == NULL || each->length >= found->length))
            found = each;
    }
    if (found == NULL)
        return ACCESS_NONE;
    return found->kind == WRITE ? ACCESS_CHANGE : found->kind == READ || found->kind == PLACEHOLDER_FILE ? ACCESS_READ : ACCESS_NONE;
}

/* Whether moving the path would move one that is named here: a mount point, an exception, or a directory
 * above one. */
bool is_held(const char *path)
{
    size_t length = strlen(path);
    for (size_t index = 0; index < exception_count; index++)
        if (is_below(exceptions[index].path, strlen(exceptions[index].path), path, length))
            return true;
    for (size_t index = 0; index < plan.count; index++)
        if (is_below(plan.records[index].target, plan.records[index].length, path, length))
            return true;
    return false;
}

const char *repository_of(const char *path)
{
    for (size_t index = 0; index < repositories->count; index++)
        if (is_below(path, strlen(path), repositories->at[index], strlen(repositories->at[index])))
            return repositories->at[index];
    return NULL;
}

/* The caller may change the memory meanwhile, so only this copy is used. Docker 20.10 does not allow
 * process_vm_readv(2). */
bool read_theirs(pid_t thread, uint64_t address, void *to, size_t length)
{
    char name[32];
    snprintf(name, sizeof name, "/proc/%d/mem", (int)thread);
    _cleanup_close_ int theirs = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t got = theirs < 0 ? -1 : pread(theirs, to, length, (off_t)address);
    return got == (ssize_t)length;
}

int read_path(pid_t thread, uint64_t address, char path[PATH_MAX])
{
    for (size_t length = 0; length < PATH_MAX;) {
        size_t part = PAGE - (size_t)((address + length) % PAGE);
        part = part < PATH_MAX - length ? part : PATH_MAX - length;
        if (!read_theirs(thread, address + length, path + length, part))
            return EFAULT;
        if (memchr(path + length, '\0', part) != NULL)
            return 0;
        length += part;
    }
    return ENAMETOOLONG;
}

static int plain(char *path)
{
    char *to = path;
    if (*path != '/')
        return EACCES; /* the kernel's process uses absolute paths only */
    for (const char *from = path; *from != '\0';) {
        while (*from == '/')
            from++;
        size_t length = strcspn(from, "/");
        if (length == 0)
            break;
        if ((length == 1 && from[0] == '.') || (length == 2 && from[0] == '.' && from[1] == '.'))
            return EACCES;
        *to++ = '/';
        memmove(to, from, length);
        to += length;
        from += length;
    }
    if (to == path)
        *to++ = '/';
    *to = '\0';
    return 0;
}

/* ELOOP: a link is on the way. */
int open_above(struct name *name)
{
    static const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                                        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    char above[PATH_MAX];
    char *slash = strrchr(name->path, '/');
    if (strlen(slash + 1) > NAME_MAX)
        return ENAMETOOLONG;
    strcpy(name->last, slash[1] == '\0' ? "." : slash + 1);
    snprintf(above, sizeof above, "%.*s", slash == name->path ? 1 : (int)(slash - name->path), name->path);
    name->above = (int)syscall(SYS_openat2, AT_FDCWD, above, &how, sizeof how);
    return name->above < 0 ? errno : 0;
}

int take_name(const struct broker *broker, const struct seccomp_notif *call, uint64_t address, struct name *name)
{
    name->above = -1;
    int fault = read_path((pid_t)call->pid, address, name->path);
    if (!broker_valid(broker, call->id))
        return -1;
    return fault != 0 ? fault : plain(name->path);
}

/* Takes a path that may be changed, and opens its directory. */
int take_changed(const struct broker *broker, const struct seccomp_notif *call, uint64_t address, struct name *name)
{
    int fault = take_name(broker, call, address, name);
    if (fault != 0)
        return fault;
    return access_to(name->path) != ACCESS_CHANGE ? EACCES : open_above(name);
}

void close_name(struct name *name)
{
    if (name->above >= 0)
        close(name->above);
    name->above = -1;
}
