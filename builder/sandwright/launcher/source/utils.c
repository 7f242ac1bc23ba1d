/* Memory, lists of words, whole files, and the exit status of a process (128 + n for signal n). */
#define _GNU_SOURCE
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "launch.h"

void *xcalloc(size_t size)
{
    void *memory = calloc(1, size == 0 ? 1 : size);
    if (memory == NULL)
        die("out of memory");
    return memory;
}

char *xasprintf(const char *format, ...)
{
    char *made;
    va_list words;
    va_start(words, format);
    int length = vasprintf(&made, format, words);
    va_end(words);
    if (length < 0)
        die("out of memory");
    return made;
}

static void enlarge(struct strv *words, size_t more)
{
    words->at = reallocarray(words->at, words->count + more + 1, sizeof *words->at);
    if (words->at == NULL)
        die("out of memory");
    words->at[words->count + more] = NULL;
}

void strv_push(struct strv *words, char *word)
{
    enlarge(words, 1);
    words->at[words->count++] = word;
}

void strv_push_all(struct strv *words, char *const *more)
{
    for (; *more != NULL; more++)
        strv_push(words, *more);
}

void strv_extend(struct strv *words, const struct strv *more)
{
    enlarge(words, more->count);
    for (size_t index = 0; index < more->count; index++)
        words->at[words->count++] = more->at[index];
}

/* Reads in blocks, because files in /proc have no size. */
char *read_fd(int file, size_t most, size_t *length)
{
    size_t size = 4096, end = 0;
    char *content = NULL;
    ssize_t got = 1;
    while (got > 0 && end < most) {
        size *= size - end < 1024 ? 2 : 1;
        content = realloc(content, size + 1);
        if (content == NULL)
            die("out of memory");
        do
            got = read(file, content + end, (size < most ? size : most) - end);
        while (got < 0 && errno == EINTR);
        end += got > 0 ? (size_t)got : 0;
    }
    content[end] = '\0';
    *length = end;
    return got < 0 ? NULL : content;
}

char *read_file(int directory, const char *path, size_t most, size_t *length)
{
    size_t end;
    _cleanup_close_ int file = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    char *content = file < 0 ? NULL : read_fd(file, most + 1, &end);
    if (content != NULL && length != NULL)
        *length = end;
    if (content == NULL || end <= most)
        return content;
    errno = EFBIG;
    return NULL;
}

char *first_line(const char *path)
{
    char *content = read_file(AT_FDCWD, path, 1 << 16, NULL);
    return content == NULL ? NULL : strsep(&content, "\n");
}

long number_in(const char *path)
{
    _cleanup_free_ char *content = read_file(AT_FDCWD, path, 32, NULL);
    return content == NULL ? 0 : strtol(content, NULL, 10);
}

bool strv_contains(const struct strv *words, const char *word)
{
    for (size_t index = 0; index < words->count; index++)
        if (strcmp(words->at[index], word) == 0)
            return true;
    return false;
}

bool strv_has_number(const struct strv *words, unsigned number)
{
    for (size_t index = 0; index < words->count; index++)
        if (strtoul(words->at[index], NULL, 10) == number)
            return true;
    return false;
}

char *read_link(int directory, const char *path)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(directory, path, target, sizeof target - 1);
    return length < 0 ? NULL : xasprintf("%.*s", (int)length, target);
}

bool strv_has_above(const struct strv *paths, const char *path)
{
    for (size_t index = 0; index < paths->count; index++)
        if (is_below(path, strlen(path), paths->at[index], strlen(paths->at[index])))
            return true;
    return false;
}

const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

bool is_below(const char *path, size_t length, const char *above, size_t above_length)
{
    if (above_length == 1)
        return true;
    return length >= above_length && (path[above_length] == '\0' || path[above_length] == '/') &&
           memcmp(path, above, above_length) == 0;
}

char *own_directory(void)
{
    char *own = read_link(AT_FDCWD, "/proc/self/exe"), *slash = own == NULL ? NULL : strrchr(own, '/');
    if (slash == NULL)
        die_errno("cannot read /proc/self/exe");
    slash[slash == own ? 1 : 0] = '\0';
    return own;
}

char *process_start(const char *process)
{
    char *stat = read_file(AT_FDCWD, xasprintf("/proc/%s/stat", process), 1 << 16, NULL), *at = stat == NULL ? NULL : strrchr(stat, ')');
    at = at == NULL || at[1] == '\0' || strchr("ZX", at[2]) != NULL ? NULL : strtok(at + 1, " ");
    for (int field = 0; at != NULL && field < 19; field++)
        at = strtok(NULL, " ");
    return at == NULL ? "" : at;
}

DIR *open_directory(int above, const char *path)
{
    int directory = openat(above, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return directory < 0 ? NULL : fdopendir(directory);
}

struct dirent *next_entry(DIR *entries)
{
    for (struct dirent *each; entries != NULL && (each = readdir(entries)) != NULL;)
        if (strcmp(each->d_name, ".") != 0 && strcmp(each->d_name, "..") != 0)
            return each;
    if (entries != NULL)
        closedir(entries);
    return NULL;
}

char *next_word(char **at, const char *end)
{
    char *word = *at;
    size_t length = (size_t)(end - word);
    char *stop = length == 0 ? NULL : memchr(word, '\0', length);
    if (stop == NULL)
        return NULL;
    *at = stop + 1;
    return word;
}

int memory_file(const char *name, const void *content, size_t length)
{
    int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || write(file, content, length) != (ssize_t)length || lseek(file, 0, SEEK_SET) != 0)
        die_errno("cannot create a file in memory");
    return file;
}

bool same_file(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino && (one->st_mode & S_IFMT) == (other->st_mode & S_IFMT);
}

bool write_all(int file, const void *content, size_t length)
{
    for (const char *at = content; length > 0;) {
        ssize_t wrote = write(file, at, length);
        struct pollfd room = {.fd = file, .events = POLLOUT};
        if (wrote < 0 && errno == EAGAIN)
            poll(&room, 1, -1);
        else if (wrote < 0 && errno != EINTR)
            return false;
        at += wrote > 0 ? wrote : 0;
        length -= wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}

int write_file(int directory, const char *path, const void *content, size_t length, mode_t mode)
{
    _cleanup_close_ int file = openat(directory, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file < 0)
        return -1;
    if (!write_all(file, content, length))
        return -1;
    int written = file;
    file = -1;
    return close(written);
}

void write_own(const char *path, const char *content)
{
    _cleanup_close_ int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, content, strlen(content)) != (ssize_t)strlen(content))
        die_errno("cannot write %s", path);
}

bool replace_file(const char *path, const char *text)
{
    struct stat namespace;
    bool known = stat("/proc/self/ns/pid", &namespace) == 0;
    char *part = xasprintf("%s.%d-%llu.part", path, getpid(), known ? (unsigned long long)namespace.st_ino : 0);
    if (write_file(AT_FDCWD, part, text, strlen(text), 0600) == 0 && rename(part, path) == 0)
        return true;
    unlink(part);
    return false;
}

void close_others(const int *kept, size_t count)
{
    for (int first = 3, next; first < INT_MAX; first = next + 1) {
        next = INT_MAX;
        for (size_t index = 0; index < count; index++)
            if (kept[index] >= first && kept[index] < next)
                next = kept[index];
        if (next > first && syscall(SYS_close_range, (unsigned)first, (unsigned)next - 1, 0) != 0)
            die_errno("cannot close inherited file descriptors");
        if (next == INT_MAX)
            return;
    }
}

long long nanoseconds(struct timespec time)
{
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

long long clock_now(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? nanoseconds(now) : 0;
}

long milliseconds(void)
{
    return (long)(clock_now(CLOCK_MONOTONIC) / 1000000);
}

int exit_status(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
