/* Copies a project into a Pod's volume, and reports the changes there: `projectcopy`.
 *
 *   projectcopy fill IMAGE VOLUME            copies a tree into an empty directory
 *   projectcopy wait                         waits for SIGTERM, as the only process of a container
 *   projectcopy diff IMAGE VOLUME LIMIT      writes a tar archive of the differences between VOLUME and IMAGE
 *
 * Paths below the two directories are opened one name at a time, and no link is followed. The program runs
 * beside the sandbox, with its user but without any of its processes. On an error it exits with 1, after one
 * line on standard error. Files that no archive can hold (sockets, devices, names of whiteouts) are named
 * there and left out, and the exit status is 3.
 */
#define _GNU_SOURCE
#include "copier.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEPEST = 256, CHUNK = 1 << 16, INCOMPLETE = 3 };

static char first[CHUNK], second[CHUNK];
static int left_out;

void fail(const char *form, ...) {
    va_list words;
    va_start(words, form);
    vfprintf(stderr, form, words);
    va_end(words);
    if (errno != 0)
        fprintf(stderr, ": %s", strerror(errno));
    fputc('\n', stderr);
    exit(1);
}

static void leave_out(const char *path, const char *why) {
    fprintf(stderr, "%s: %s\n", path, why);
    left_out = INCOMPLETE;
}

/* The path of a name in a directory, relative to the root. */
static char *joined(const char *path, const char *name) {
    char *made;
    if (asprintf(&made, "%s%s%s", path, *path ? "/" : "", name) < 0)
        fail("out of memory");
    return made;
}

static DIR *listed(int directory, const char *path) {
    int copy = fcntl(directory, F_DUPFD_CLOEXEC, 0);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    if (stream == NULL)
        fail("%s", path);
    rewinddir(stream);
    return stream;
}

/* The next name except "." and ".."; NULL at the end. */
static const char *next_name(DIR *stream, const char *path) {
    struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(stream);
    } while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    if (entry == NULL && errno != 0)
        fail("%s", path);
    return entry == NULL ? NULL : entry->d_name;
}

/* Opens a file even if its owner has made it unreadable, as the command may have done. */
static int opened(int directory, const char *name, int flags, const struct stat *status) {
    mode_t needed = S_ISDIR(status->st_mode) ? 0500 : 0400;
    if ((status->st_mode & needed) != needed)
        /* Safe: the type was just checked, and no other process runs. */
        fchmodat(directory, name, (status->st_mode | needed) & 0777, 0);
    return openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
}

static size_t reading(int file, char *into, const char *path) {
    size_t had = 0;
    while (had < CHUNK) {
        ssize_t got = read(file, into + had, CHUNK - had);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            fail("%s", path);
        if (got == 0)
            break;
        had += (size_t)got;
    }
    return had;
}

void writing(int file, const char *data, size_t size) {
    while (size > 0) {
        ssize_t put = write(file, data, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            fail("writing");
        data += put;
        size -= (size_t)put;
    }
}

static char *link_text(int directory, const char *name, const char *path) {
    static char text[PATH_MAX];
    ssize_t size = readlinkat(directory, name, text, sizeof text - 1);
    if (size < 0)
        fail("%s", path);
    text[size] = '\0';
    return text;
}

/* fill */

static void copy_file(int from, int to, const char *name, const struct stat *status, const char *path) {
    int source = opened(from, name, O_RDONLY, status);
    mode_t mode = status->st_mode & S_IXUSR ? 0775 : 0664;
    int target = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (source < 0 || target < 0)
        fail("%s", path);
    for (size_t size; (size = reading(source, first, path)) > 0;)
        writing(target, first, size);
    const struct timespec times[2] = {status->st_mtim, status->st_mtim};
    if (futimens(target, times) != 0 || close(target) != 0)
        fail("%s", path);
    close(source);
}

static void fill(int from, int to, const char *path, int depth) {
    if (depth > DEEPEST) {
        errno = 0;
        fail("%s: more than %d levels of directories", path, DEEPEST);
    }
    DIR *stream = listed(from, path);
    const char *name;
    while ((name = next_name(stream, path)) != NULL) {
        char *inner = joined(path, name);
        struct stat status;
        if (fstatat(from, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            fail("%s", inner);
        const struct timespec times[2] = {status.st_mtim, status.st_mtim};
        if (S_ISREG(status.st_mode)) {
            copy_file(from, to, name, &status, inner);
        } else if (S_ISLNK(status.st_mode)) {
            if (symlinkat(link_text(from, name, inner), to, name) != 0)
                fail("%s", inner);
            utimensat(to, name, times, AT_SYMLINK_NOFOLLOW);
        } else if (S_ISDIR(status.st_mode)) {
            int source = opened(from, name, O_RDONLY | O_DIRECTORY, &status);
            int made = mkdirat(to, name, 0775) == 0 || errno == EEXIST ? 0 : -1;
            int target = made == 0 ? openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
            if (source < 0 || target < 0)
                fail("%s", inner);
            fill(source, target, inner, depth + 1);
            futimens(target, times);
            close(source);
            close(target);
        } else {
            leave_out(inner, "of a kind that is not copied");
        }
        free(inner);
    }
    closedir(stream);
}

/* diff */

static bool same_file(int base, int current, const char *name, const struct stat *was, const struct stat *is,
                      const char *path) {
    if (was->st_size != is->st_size || (was->st_mode & S_IXUSR) != (is->st_mode & S_IXUSR))
        return false;
    int one = opened(base, name, O_RDONLY, was), two = opened(current, name, O_RDONLY, is);
    if (one < 0 || two < 0)
        fail("%s", path);
    bool same = true;
    for (size_t size = 1; same && size > 0;) {
        size = reading(one, first, path);
        same = size == reading(two, second, path) && memcmp(first, second, size) == 0;
    }
    close(one);
    close(two);
    return same;
}

static void put_file(int current, const char *name, const struct stat *status, const char *path) {
    int file = opened(current, name, O_RDONLY, status);
    if (file < 0)
        fail("%s", path);
    put_header(path, '0', status->st_mode & S_IXUSR ? 0755 : 0644, (uint64_t)status->st_size, "");
    uint64_t left = (uint64_t)status->st_size;
    while (left > 0) {
        size_t size = reading(file, first, path);
        if (size == 0 || size > left) {
            errno = 0;
            fail("%s: changed while it was read", path);
        }
        put_data(first, size);
        left -= size;
    }
    put_padding((uint64_t)status->st_size);
    close(file);
}

static void put_whiteout(const char *path, const char *name) {
    char *hidden, *whole;
    if (asprintf(&hidden, ".wh.%s", name) < 0)
        fail("out of memory");
    whole = joined(path, hidden);
    put_header(whole, '0', 0600, 0, "");
    free(hidden);
    free(whole);
}

static void differences(int base, int current, const char *path, int depth);

static void put_directory(int base, int current, const char *name, const struct stat *was,
                          const struct stat *is, const char *path, int depth) {
    bool there = was != NULL && S_ISDIR(was->st_mode);
    int one = there ? opened(base, name, O_RDONLY | O_DIRECTORY, was) : -1;
    int two = opened(current, name, O_RDONLY | O_DIRECTORY, is);
    if (two < 0 || (there && one < 0))
        fail("%s", path);
    if (!there)
        put_header(path, '5', 0755, 0, "");
    differences(one, two, path, depth + 1);
    if (one >= 0)
        close(one);
    close(two);
}

/* Compares one name of the volume. `base` is -1 if the image has no such directory. */
static void compare(int base, int current, const char *name, const char *folder, const char *path, int depth) {
    struct stat was, is;
    if (fstatat(current, name, &is, AT_SYMLINK_NOFOLLOW) != 0)
        fail("%s", path);
    bool there = base >= 0 && fstatat(base, name, &was, AT_SYMLINK_NOFOLLOW) == 0;
    if (!S_ISREG(is.st_mode) && !S_ISDIR(is.st_mode) && !S_ISLNK(is.st_mode)) {
        leave_out(path, "neither a file, a directory nor a link");
        return;
    }
    if (there && (was.st_mode & S_IFMT) != (is.st_mode & S_IFMT)) {
        put_whiteout(folder, name);
        there = false;
    }
    if (S_ISDIR(is.st_mode)) {
        put_directory(base, current, name, there ? &was : NULL, &is, path, depth);
    } else if (S_ISREG(is.st_mode)) {
        if (!there || !same_file(base, current, name, &was, &is, path))
            put_file(current, name, &is, path);
    } else {
        char *text = strdup(link_text(current, name, path));
        if (text == NULL)
            fail("out of memory");
        if (!there || strcmp(link_text(base, name, path), text) != 0)
            put_header(path, '2', 0777, 0, text);
        free(text);
    }
}

static void differences(int base, int current, const char *path, int depth) {
    const char *name;
    if (depth > DEEPEST) {
        errno = 0;
        fail("%s: more than %d levels of directories", path, DEEPEST);
    }
    DIR *stream = listed(current, path);
    while ((name = next_name(stream, path)) != NULL) {
        char *inner = joined(path, name);
        if (strncmp(name, ".wh.", 4) == 0)
            leave_out(inner, "its name would mark another file as deleted (whiteout)");
        else
            compare(base, current, name, path, inner, depth);
        free(inner);
    }
    closedir(stream);
    if (base < 0)
        return;
    stream = listed(base, path);
    while ((name = next_name(stream, path)) != NULL) {
        struct stat status;
        if (fstatat(current, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        if (errno != ENOENT)
            fail("%s", path);
        put_whiteout(path, name);
    }
    closedir(stream);
}

static int directory(const char *path) {
    int found = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (found < 0)
        fail("%s", path);
    return found;
}

static int await_end(void) {
    sigset_t ends;
    int number;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    sigwait(&ends, &number);
    return 0;
}

int main(int count, char **words) {
    umask(0); /* the volume's group is the sandbox's, too */
    if (count == 4 && strcmp(words[1], "fill") == 0)
        fill(directory(words[2]), directory(words[3]), "", 0);
    else if (count == 5 && strcmp(words[1], "diff") == 0) {
        limit_archive(strtoull(words[4], NULL, 10));
        differences(directory(words[2]), directory(words[3]), "", 0);
        end_archive();
    } else if (count == 2 && strcmp(words[1], "wait") == 0)
        return await_end();
    else {
        errno = 0;
        fail("projectcopy fill IMAGE VOLUME | wait | diff IMAGE VOLUME LIMIT");
    }
    return left_out;
}
