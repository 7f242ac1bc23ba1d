/* Attempts on files. PATH is used unchanged, relative to the program's working directory. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000 /* of linux/stat.h, which can't be included beside musl's header */
#endif
#endif

#define PATH given->text[0]
#define OTHER given->text[1]

/* read PATH: returns as much of the content as a value can hold. */
static int read_file(const struct arguments *given, struct value *value) {
    char block[4096];
    ssize_t length = -1;
    int file = open(PATH, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
        return errno;
    while (value->length < MAX_VALUE && (length = read(file, block, sizeof block)) > 0)
        say_bytes(value, block, (size_t)length);
    return outcome(length);
}

/* length PATH: how much of it can be read, without showing the content: for personal files. */
static int read_length(const struct arguments *given, struct value *value) {
    static struct value content;
    int error = read_file(given, &content);
    if (!error)
        say(value, "%lu", (unsigned long)content.length);
    return error;
}

/* Whether a readable empty file is a mask: the null device, or a file that is mounted there. An ordinary
 * empty file is not. */
static bool is_mask(const char *path) {
#ifdef __linux__
    struct stat status, parent;
    struct statx extended;
    char above[4096];
    if (stat(path, &status) != 0)
        return false;
    if (S_ISCHR(status.st_mode))
        return status.st_rdev == makedev(1, 3);
    if (!S_ISREG(status.st_mode))
        return false;
    if (statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &extended) == 0 &&
        (extended.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0)
        return (extended.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
    /* gVisor does not report this attribute, but each mount has a device of its own there. */
    const char *name = strrchr(path, '/');
    if (!name || snprintf(above, sizeof above, "%.*s/", (int)(name - path), path) >= (int)sizeof above)
        return false;
    return stat(above, &parent) == 0 && parent.st_dev != status.st_dev;
#else
    (void)path;
    return false;
#endif
}

/* content PATH: returns the readable length, as `length` does; ENODATA if an empty mask covers the file. */
static int read_content(const struct arguments *given, struct value *value) {
    static struct value content;
    int error = read_file(given, &content);
    if (error)
        return error;
    if (!content.length && is_mask(PATH))
        return ENODATA;
    say(value, "%lu", (unsigned long)content.length);
    return 0;
}

static int write_all(int file, const char *bytes, size_t length) {
    if (file < 0)
        return errno;
    ssize_t written = length ? write(file, bytes, length) : 0;
    int error = outcome(written);
    close(file);
    return error;
}

/* write PATH [BYTES]: opens the file for writing. Changes nothing without BYTES, otherwise appends them. */
static int write_file(const struct arguments *given, struct value *value) {
    (void)value;
    return write_all(open(PATH, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), OTHER, given->length[1]);
}

/* create PATH [BYTES]: creates a new file; fails if the file exists. */
static int create_file(const struct arguments *given, struct value *value) {
    (void)value;
    return write_all(open(PATH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644), OTHER, given->length[1]);
}

static int truncate_file(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(truncate(PATH, 0));
}

/* list PATH: the names in a directory, one per line. */
static int list_directory(const struct arguments *given, struct value *value) {
    DIR *directory = opendir(PATH);
    if (!directory)
        return errno;
    errno = 0;
    for (const struct dirent *entry; (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            say(value, "%s\n", entry->d_name);
    int error = errno;
    closedir(directory);
    return error;
}

/* stat PATH: type and mode in octal, uid, gid, device and inode; does not follow a link. */
static int stat_path(const struct arguments *given, struct value *value) {
    struct stat status;
    if (lstat(PATH, &status) != 0)
        return errno;
    say(value, "%o %ld %ld %llu:%llu", (unsigned)status.st_mode, (long)status.st_uid, (long)status.st_gid,
        (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
    return 0;
}

static int read_link(const struct arguments *given, struct value *value) {
    char text[4096];
    ssize_t length = readlink(PATH, text, sizeof text);
    if (length < 0)
        return errno;
    say_bytes(value, text, (size_t)length);
    return 0;
}

/* flags PATH: the relevant flags of the file system. */
static int mount_flags(const struct arguments *given, struct value *value) {
    struct statvfs status;
    if (statvfs(PATH, &status) != 0)
        return errno;
    say(value, "%s%s", status.f_flag & ST_RDONLY ? "ro " : "rw ", status.f_flag & ST_NOSUID ? "nosuid " : "suid ");
#ifdef __linux__
    say(value, "%s", status.f_flag & ST_NODEV ? "nodev" : "dev");
#endif
    return 0;
}

static int unlink_path(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(unlink(PATH));
}

static int remove_directory(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(rmdir(PATH));
}

static int make_directory(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(mkdir(PATH, 0755));
}

static int rename_path(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(rename(PATH, OTHER));
}

static int link_path(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(link(PATH, OTHER));
}

/* symlink TEXT PATH */
static int make_symlink(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(symlink(PATH, OTHER));
}

/* chmod PATH MODE */
static int change_mode(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(chmod(PATH, (mode_t)number(OTHER)));
}

/* chown PATH UID */
static int change_owner(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(lchown(PATH, (uid_t)number(OTHER), (gid_t)-1));
}

static int set_times(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(utimes(PATH, NULL));
}

/* mknod PATH p|c: a FIFO, or device 1:3, which is /dev/null on Linux */
static int make_node(const struct arguments *given, struct value *value) {
    (void)value;
    if (OTHER[0] == 'p')
        return outcome(mkfifo(PATH, 0644));
    return outcome(mknod(PATH, S_IFCHR | 0666, (dev_t)(1 << 8 | 3)));
}

#ifdef __linux__
/* exchange PATH OTHER: swaps the two files (renameat2(2), RENAME_EXCHANGE). */
static int exchange_paths(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(syscall(SYS_renameat2, AT_FDCWD, PATH, AT_FDCWD, OTHER, 2));
}

/* handle PATH: opens a file by its handle, which bypasses all directories (open_by_handle_at(2)). PATH is on
 * the same file system. */
static int open_handle(const struct arguments *given, struct value *value) {
    struct {
        unsigned bytes;
        int type;
        char handle[128];
    } handle = {.bytes = sizeof handle.handle};
    int mount = 0;
    (void)value;
    int directory = open(PATH, O_RDONLY | O_CLOEXEC);
    if (directory < 0)
        return errno;
    if (syscall(SYS_name_to_handle_at, AT_FDCWD, PATH, &handle, &mount, 0) != 0) {
        /* If handles are not supported, tries the root directory, whose inode is 2 on most file systems. */
        handle.bytes = 8;
        handle.type = 1;
        memset(handle.handle, 0, sizeof handle.handle);
        handle.handle[0] = 2;
    }
    return outcome(syscall(SYS_open_by_handle_at, directory, &handle, O_RDONLY));
}
#endif

const struct operation file_operations[] = {
    {"read", read_file},
    {"length", read_length},
    {"content", read_content},
    {"write", write_file},
    {"create", create_file},
    {"truncate", truncate_file},
    {"list", list_directory},
    {"stat", stat_path},
    {"readlink", read_link},
    {"flags", mount_flags},
    {"unlink", unlink_path},
    {"rmdir", remove_directory},
    {"mkdir", make_directory},
    {"rename", rename_path},
    {"link", link_path},
    {"symlink", make_symlink},
    {"chmod", change_mode},
    {"chown", change_owner},
    {"utimes", set_times},
    {"mknod", make_node},
#ifdef __linux__
    {"exchange", exchange_paths},
    {"handle", open_handle},
#endif
    {NULL, NULL},
};
