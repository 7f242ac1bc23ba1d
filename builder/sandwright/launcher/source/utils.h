/* Memory, words and whole files (utils.c, sha256.c). Memory is never freed, as the launcher needs little of
 * it; if it runs out, the run is refused. Like the utils.h of bubblewrap and crun, this header includes what
 * nearly all files need of the C library. */
#ifndef UTILS_H
#define UTILS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* For variables that are closed or freed at the end of their block; errno is preserved. */
#define _cleanup_close_ __attribute__((cleanup(cleanup_close)))
#define _cleanup_free_ __attribute__((cleanup(cleanup_free)))

static inline void cleanup_close(const int *file)
{
    int fault = errno;
    if (*file >= 0)
        close(*file);
    errno = fault;
}

static inline void cleanup_free(const void *variable)
{
    int fault = errno;
    free(*(void *const *)variable);
    errno = fault;
}

struct strv {
    char **at; /* `count` words, then NULL; NULL if empty */
    size_t count;
};

void *xcalloc(size_t size); /* all zeros */
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
void strv_push(struct strv *words, char *word);
void strv_push_all(struct strv *words, char *const *more); /* `more` ends with NULL */
bool strv_contains(const struct strv *words, const char *word);
/* Whether one of `paths` is `path` or above it. */
bool strv_has_above(const struct strv *paths, const char *path);
bool strv_has_number(const struct strv *words, unsigned number);
void strv_extend(struct strv *words, const struct strv *more);
/* Reads at most `most` bytes from the current position; NULL and errno. */
char *read_fd(int file, size_t most, size_t *length);
/* NULL and errno; a NUL follows the content. */
char *read_file(int directory, const char *path, size_t most, size_t *length);
char *first_line(const char *path); /* of a small file, without the newline; NULL on failure */
long number_in(const char *path); /* the number in a file; 0 if there is none */
char *read_link(int directory, const char *path); /* the target of a link; NULL and errno */
const char *base_name(const char *path); /* the part after the last slash */
/* True also if both are the same. */
bool is_below(const char *path, size_t length, const char *above, size_t above_length);
char *own_directory(void); /* the directory of this program's file */
/* Start time in clock ticks since boot (proc_pid_stat(5)); "" if the process has ended. */
char *process_start(const char *process);
DIR *open_directory(int above, const char *path);
/* Skips . and ..; at the end returns NULL and closes the directory; accepts NULL. */
struct dirent *next_entry(DIR *entries);
/* spelling.c. The name with its case changed, if the file system ignores case itself and finds the file by it;
 * else NULL. */
char *second_spelling(int directory, const char *name);
bool has_second_spelling(const char *path); /* of the last name in it that has letters */
/* The next word, which ends with NUL; moves `at` behind that; NULL: no more words. */
char *next_word(char **at, const char *end);
/* A new memfd, positioned at its start; or refuses the run. */
int memory_file(const char *name, const void *content, size_t length);
bool same_file(const struct stat *one, const struct stat *other); /* compares device, inode and type */
/* Writes everything, even if it has to wait; false and errno. */
bool write_all(int file, const void *content, size_t length);
/* Creates the file; -1 and errno. */
int write_file(int directory, const char *path, const void *content, size_t length, mode_t mode);
/* Writes an existing file, such as a map of a user namespace; or refuses the run. */
void write_own(const char *path, const char *content);
bool replace_file(const char *path, const char *text); /* the new file is accessible to this user only */
/* Closes all descriptors from 3 on except `kept`; -1 in `kept` is ignored. */
void close_others(const int *kept, size_t count);
long long nanoseconds(struct timespec time);
long long clock_now(clockid_t clock); /* in nanoseconds; 0 if the clock does not exist */
long milliseconds(void);     /* of the monotonic clock */
int exit_status(int status); /* converts a status of wait(2); 128 + n for signal n */
void sha256(const void *data, size_t length, unsigned char digest[32]);
char *sha256_hex(const void *data, size_t length);

#endif
