/* utils.c, sha256.c: memory, words and whole files. Memory is never freed (a launcher is short of nothing), and its lack refuses.
 * What nearly all files need of the C library is included here, as in bubblewrap's and crun's. */
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

/* For variables: closed and freed at the end of their block, which leaves errno as it is. */
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
    char **at; /* count words, then NULL; NULL while there are none */
    size_t count;
};

void *xcalloc(size_t size); /* all zeros */
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
void strv_push(struct strv *words, char *word);
void strv_push_all(struct strv *words, char *const *more); /* which end with NULL */
bool strv_contains(const struct strv *words, const char *word);
bool strv_has_above(const struct strv *paths, const char *path); /* one that is_below says */
bool strv_has_number(const struct strv *words, unsigned number);
void strv_extend(struct strv *words, const struct strv *more);
char *read_fd(int file, size_t most, size_t *length); /* at most so much, behind where it stands; NULL and errno */
char *read_file(int directory, const char *path, size_t most, size_t *length); /* NULL and errno; NUL behind the end */
char *first_line(const char *path); /* of a small file, without its end; NULL */
long number_in(const char *path); /* a file with a number, 0 without */
char *read_link(int directory, const char *path); /* its text; NULL and errno */
const char *base_name(const char *path); /* behind its last slash */
bool is_below(const char *path, size_t length, const char *above, size_t above_length); /* or the same */
char *own_directory(void); /* of this program's file */
char *process_start(const char *process); /* in clock ticks since the boot (proc_pid_stat(5)); "" when it has ended */
DIR *open_directory(int above, const char *path);
struct dirent *next_entry(DIR *entries); /* but . and ..; NULL at the end, where it closes it, and for NULL */
char *next_word(char **at, const char *end); /* that ends with NUL, behind which `at` stands then; NULL: none */
int memory_file(const char *name, const void *content, size_t length); /* a new descriptor, at its start; or refuses */
bool same_file(const struct stat *one, const struct stat *other); /* by device, number and kind */
bool write_all(int file, const void *content, size_t length); /* also where writing waits; false and errno */
int write_file(int directory, const char *path, const void *content, size_t length, mode_t mode); /* new; -1 and errno */
void write_own(const char *path, const char *content); /* a file that is there, such as a map of a user namespace; or refuses */
bool replace_file(const char *path, const char *text); /* by one for this user alone */
void close_others(const int *kept, size_t count); /* from 3 on; -1 among them counts for nothing */
long long nanoseconds(struct timespec time);
long long clock_now(clockid_t clock); /* in nanoseconds; 0 without such a clock */
long milliseconds(void);     /* of a clock that can't be set */
int exit_status(int status); /* of what wait(2) says; 128 + n for signals */
void sha256(const void *data, size_t length, unsigned char digest[32]);
char *sha256_hex(const void *data, size_t length);

#endif
