/* What the parts of the front share. plan.c, text.c and sha256.c are the launcher's, and find this in place of its header. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct words {
    char **at; /* count words, then NULL; NULL while there are none */
    size_t count;
};

struct plan {
#define WORD(name) const char *name;
#define WORDS(name) struct words name;
#define PAIRS(name) struct words name;
#define FLAG(name) bool name;
#include "fields.h"
#undef WORD
#undef WORDS
#undef PAIRS
#undef FLAG
};

const char *plan_parse(char *text, size_t length, struct plan *plan);
void *take(size_t size);
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void add(struct words *words, char *word);
char *read_file(int directory, const char *path, size_t most, size_t *length);
int write_file(int directory, const char *path, const void *content, size_t length, mode_t mode);
void sha256(const void *data, size_t length, unsigned char digest[32]);
_Noreturn void become_python(void); /* start.c */
#define refuse(...) become_python()
#define refuse_errno(...) become_python()

/* questions.c */
bool questions_hold(const struct words *questions); /* each has the recorded answer */
char *hex_digest(const void *data, size_t length);
bool contains(const struct words *words, const char *word);
DIR *open_directory(int above, const char *path);
struct dirent *next_entry(DIR *entries); /* NULL at the end, where it closes it, and for NULL */

/* scan.c: whether the report after a run would have nothing to say. `since`: nanoseconds, of the file systems' clock */
bool nothing_to_report(const struct plan *plan, long long since);

static inline long long nanoseconds(struct timespec time)
{
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

#endif
