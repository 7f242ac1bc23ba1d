/* Attempts on secrets: calls programs that run on the host, and searches for data that must not exist
 * inside. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST given->text[0]
#define SECOND given->text[1]

enum { MAX_FILES = 5000, MAX_DEPTH = 40, BLOCK = 64 * 1024, MAX_BYTES = 4 * 1024 * 1024 };

/* call PROGRAM [WORD ...]: searches PATH; returns `status N`, then all output. */
static int call_program(const struct arguments *given, struct value *value) {
    char *words[MAX_ARGUMENTS + 1] = {NULL}, block[4096];
    static struct value said;
    int output[2], status = 0;
    ssize_t length;
    memcpy(words, given->text, (size_t)given->count * sizeof *words);
    if (pipe(output) != 0)
        return errno;
    pid_t child = fork();
    if (child < 0)
        return errno;
    if (child == 0) {
        dup2(open("/dev/null", O_RDONLY), 0);
        dup2(output[1], 1);
        dup2(output[1], 2);
        close(output[0]);
        close(output[1]);
        execvp(FIRST, words);
        _exit(127);
    }
    close(output[1]);
    while ((length = read(output[0], block, sizeof block)) > 0)
        say_bytes(&said, block, (size_t)length);
    close(output[0]);
    waitpid(child, &status, 0);
    say(value, "status %d\n", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    say_bytes(value, said.bytes, said.length);
    return 0;
}

/* A search: the needle, the number of searched files, and the files found. */
struct search {
    const char *needle;
    size_t length;
    long files;
    struct value *value;
};

static void look_into(struct search *search, const char *path) {
    static char block[BLOCK];
    size_t held = 0, looked = 0;
    ssize_t length;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
        return;
    search->files++;
    while (looked < MAX_BYTES && (length = read(file, block + held, sizeof block - held)) > 0) {
        held += (size_t)length;
        looked += (size_t)length;
        if (memmem(block, held, search->needle, search->length)) {
            say(search->value, "%s\n", path);
            break;
        }
        size_t kept = held < search->length ? held : search->length - 1;
        memmove(block, block + held - kept, kept);
        held = kept;
    }
    close(file);
}

/* Directories of the kernel contain no ordinary files, and reading a device might never end. */
static int is_kernels(const char *path) {
    return strcmp(path, "/proc") == 0 || strcmp(path, "/sys") == 0 || strcmp(path, "/dev") == 0;
}

static void walk(struct search *search, const char *directory, int depth) {
    char path[PATH_MAX];
    struct stat status;
    DIR *opened = is_kernels(directory) || depth > MAX_DEPTH ? NULL : opendir(directory);
    if (!opened)
        return;
    for (struct dirent *entry; search->files < MAX_FILES && (entry = readdir(opened));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int length = snprintf(path, sizeof path, "%s/%s", directory[1] ? directory : "", entry->d_name);
        if (length < 0 || (size_t)length >= sizeof path || lstat(path, &status) != 0)
            continue;
        if (S_ISDIR(status.st_mode))
            walk(search, path, depth + 1);
        else if (S_ISREG(status.st_mode))
            look_into(search, path);
    }
    closedir(opened);
}

/* search NEEDLE DIRECTORY ...: the files that contain it, one per line, then the number of files searched. */
static int search_files(const struct arguments *given, struct value *value) {
    struct search search = {FIRST, given->length[0], 0, value};
    for (int each = 1; each < given->count; each++)
        walk(&search, given->text[each], 0);
    say(value, "%ld files\n", search.files);
    return search.length ? 0 : EINVAL;
}

/* search-processes NEEDLE: the same in what /proc shows of processes, such as arguments and variables. */
static int search_processes(const struct arguments *given, struct value *value) {
    static const char *const names[] = {"cmdline", "environ", "comm", "mountinfo"};
    struct search search = {FIRST, given->length[0], 0, value};
    char path[PATH_MAX];
    DIR *opened = opendir("/proc");
    if (!opened)
        return errno;
    for (struct dirent *entry; (entry = readdir(opened));) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        for (size_t each = 0; each < sizeof names / sizeof *names; each++) {
            snprintf(path, sizeof path, "/proc/%.20s/%s", entry->d_name, names[each]);
            look_into(&search, path);
        }
    }
    closedir(opened);
    say(value, "%ld files\n", search.files);
    return search.length ? 0 : EINVAL;
}

const struct operation secret_operations[] = {
    {"call", call_program},
    {"search", search_files},
    {"search-processes", search_processes},
    {NULL, NULL},
};
