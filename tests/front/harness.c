/* Feeds the native command with render cache entries whose HMAC was already accepted: 4 bytes of length and the entry,
 * on standard input. Prints for each whether it can be parsed and whether its recorded answers still hold, and scans
 * the writable directories that it names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

void become_python(void)
{
    _exit(3);
}

/* A scan replaces the file that an entry names. As root, it could replace /dev/null or /bin/sh for a hostile entry. */
static void write_below_only(const char *directory)
{
    uint64_t writing = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                       LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM |
                       LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO;
    struct landlock_ruleset_attr handled = {.handled_access_fs = writing};
    struct landlock_path_beneath_attr below = {.allowed_access = writing, .parent_fd = open(directory, O_PATH | O_CLOEXEC)};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    if (rules < 0 || syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_landlock_restrict_self, rules, 0) != 0)
        _exit(77);
    close(rules);
    close(below.parent_fd);
}

enum { SCANNED = 16 }; /* one of 16 entries is scanned, because each scan starts a process */

int main(int count, char **words)
{
    unsigned char head[4];
    if (count > 1)
        write_below_only(words[1]);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    while (fread(head, 1, sizeof head, stdin) == sizeof head) {
        size_t length = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        char *content = malloc(length == 0 ? 1 : length); /* exact size: the sanitizer reports reads beyond the end */
        struct entry entry = {0};
        if (fread(content, 1, length, stdin) != length)
            return 2;
        bool parsed = document_parse(content, length, &entry_form, &entry) == NULL;
        puts(!parsed ? "damaged" : questions_hold(&entry.questions) ? "holds" : "differs");
        if (parsed && entry.known != NULL && length % SCANNED == 0) {
            fflush(stdout);
            nothing_to_report(&entry, time(NULL) * 1000000000LL);
        }
    }
    return 0;
}
