/* Resolves a path as a process inside would. A wrong result is harmless, because only the opened file is
 * judged and used. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "broker.h"
#include "launch.h"

enum { TRIES = 8, MOST = 1 << 24, CACHED = 0x20 /* RESOLVE_CACHED, Linux 5.12 */ };

/* EAGAIN: a name was changed during the lookup. */
static int open_below(int process, const char *name, const char *path, unsigned long long resolve)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_MAGICLINKS};
    _cleanup_close_ int above = openat(process, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int file = -1;
    if (above < 0)
        return -1;
    for (int tries = (resolve & CACHED) != 0 ? TRIES - 1 : 0; file < 0 && tries < TRIES; tries++)
        if ((file = (int)syscall(SYS_openat2, above, path, &how, sizeof how)) < 0 && errno != EAGAIN)
            break;
    return file;
}

/* A relative path that leads above `base`, or through an absolute link, is resolved from the root (EXDEV:
 * openat2(2)). */
static int open_path_as(int process, const char *base, const char *path, unsigned long long resolve)
{
    char whole[2 * PATH_MAX], root[PATH_MAX];
    ssize_t length, above;
    if (path[0] == '/')
        return open_below(process, "root", path, RESOLVE_IN_ROOT | resolve);
    int file = open_below(process, base, path, RESOLVE_BENEATH | resolve);
    if (file >= 0 || errno != EXDEV || (length = readlinkat(process, base, whole, PATH_MAX)) <= 0)
        return file;
    if (length == PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    snprintf(whole + length, sizeof whole - (size_t)length, "/%s", path);
    if ((above = readlinkat(process, "root", root, sizeof root)) > 1 && strncmp(whole, root, (size_t)above) != 0) {
        errno = ENOENT;
        return -1;
    }
    /* The root was changed, for example by chroot(2). */
    return open_below(process, "root", whole + (above > 1 ? above : 0), RESOLVE_IN_ROOT | resolve);
}

int open_as(int process, const char *base, const char *path)
{
    return open_path_as(process, base, path, 0);
}

int open_cached_as(int process, const char *base, const char *path)
{
    return open_path_as(process, base, path, CACHED);
}

uint32_t kernel_device(dev_t device)
{
    return (uint32_t)(major(device) << 20 | minor(device));
}

bool device_in(const char *mountinfo, unsigned long mount, uint32_t *device)
{
    for (const char *line = mountinfo; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        char *rest; /* `ID PARENT MAJOR:MINOR` */
        line += *line == '\n';
        if (strtoul(line, &rest, 10) != mount)
            continue;
        strtoul(rest, &rest, 10);
        unsigned long above = strtoul(rest, &rest, 10);
        if (*rest != ':')
            return false;
        *device = (uint32_t)(above << 20 | strtoul(rest + 1, NULL, 10));
        return true;
    }
    return false;
}

bool device_of(int process, int file, uint32_t *device)
{
    char name[48];
    snprintf(name, sizeof name, "/proc/self/fdinfo/%d", file);
    _cleanup_free_ char *told = read_file(AT_FDCWD, name, 4096, NULL);
    char *mount = told == NULL ? NULL : strstr(told, "mnt_id:\t");
    _cleanup_free_ char *mounts = mount == NULL ? NULL : read_file(process, "mountinfo", MOST, NULL);
    return mounts != NULL && device_in(mounts, strtoul(mount + strlen("mnt_id:\t"), NULL, 10), device);
}
