/* Makes attempts inside a sandbox, and prints the result of each.
 *
 * Standard input contains a line for each attempt: WORD ID OPERATION [HEX ...]
 * HEX are the operation's arguments, two digits for each byte, `-` for an empty one. The program writes a
 * line for each attempt: WORD ID ANSWER DETAIL
 *
 *   ok HEX          it worked; HEX is its value, `-` for none
 *   errno NAME      it failed with this error, such as EROFS
 *   signal NUMBER   it was killed by that signal
 *   late 0          it did not end within its time limit
 *   unknown NAME    there is no such operation on this system
 *
 * WORD is chosen by the caller, and marks the lines that this program wrote. Each attempt is made in a
 * process of its own, so that it does not disturb others if it changes its identity, its root or its limits,
 * or dies.
 *
 * Without standard input, the lines are arguments, and the program exits with the given status:
 *   probe --lines STATUS LINE ...
 *
 * With other arguments, the program makes one attempt, in its own process:
 *   probe OPERATION [TEXT ...]
 * and its exit status is 0 for ok, 1 for a failure, 2 for an unknown operation.
 */
#include "probe.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 10, MAX_LINE = 256 * 1024 };

/* The result of an attempt, in memory that its process shares with the process that waits for it. */
struct report {
    int done;
    int unknown;
    int error;
    struct value value;
};

static const struct operation *const parts[] = {
    file_operations, process_operations, network_operations, limit_operations, secret_operations,
};

long number(const char *text) { return (long)strtoull(text, NULL, 0); }

int outcome(long result) { return result < 0 ? errno : 0; }

void say_bytes(struct value *value, const void *bytes, size_t length) {
    size_t room = sizeof value->bytes - value->length;
    length = length < room ? length : room;
    memcpy(value->bytes + value->length, bytes, length);
    value->length += length;
}

void say(struct value *value, const char *format, ...) {
    char text[4096];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (length > 0)
        say_bytes(value, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

static attempt find(const char *name) {
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
        for (const struct operation *each = parts[part]; each->name; each++)
            if (strcmp(each->name, name) == 0)
                return each->attempt;
    return NULL;
}

static int digit(char letter) {
    const char *digits = "0123456789abcdef", *at = letter ? strchr(digits, letter) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Decodes hex in place; the result is shorter. */
static void add_argument(struct arguments *given, char *hex) {
    size_t length = 0;
    if (given->count == MAX_ARGUMENTS)
        return;
    for (const char *at = hex; digit(at[0]) >= 0 && digit(at[1]) >= 0; at += 2)
        hex[length++] = (char)(digit(at[0]) * 16 + digit(at[1]));
    hex[length] = '\0';
    given->text[given->count] = hex;
    given->length[given->count++] = length;
}

static void answer(const char *word, const char *id, const struct report *report, int status) {
    if (!report->done && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        printf("%s %s late 0\n", word, id);
    } else if (!report->done) {
        printf("%s %s signal %d\n", word, id, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    } else if (report->unknown) {
        printf("%s %s unknown operation\n", word, id);
    } else if (report->error) {
        const char *name = errno_name(report->error);
        name ? printf("%s %s errno %s\n", word, id, name) : printf("%s %s errno %d\n", word, id, report->error);
    } else {
        printf("%s %s ok ", word, id);
        for (size_t at = 0; at < report->value.length; at++)
            printf("%02x", (unsigned char)report->value.bytes[at]);
        puts(report->value.length ? "" : "-");
    }
    fflush(stdout);
}

static void make(struct report *report, const char *name, const struct arguments *given) {
    attempt attempt = find(name);
    report->unknown = !attempt;
    report->error = attempt ? attempt(given, &report->value) : 0;
    report->done = 1;
}

static void attempt_line(char *line, struct report *report) {
    struct arguments given = {0};
    char *word = strtok(line, " \n"), *id = strtok(NULL, " \n"), *name = strtok(NULL, " \n");
    for (int at = 0; at < MAX_ARGUMENTS; at++)
        given.text[at] = "";
    if (!word || !id || !name)
        return;
    for (char *hex; (hex = strtok(NULL, " \n"));)
        add_argument(&given, hex);
    memset(report, 0, offsetof(struct report, value.bytes));
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        alarm(SECONDS);
        make(report, name, &given);
        _exit(0);
    }
    int status = 0;
    if (child < 0) {
        report->done = 1;
        report->error = errno;
    } else {
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            continue;
        kill(-child, SIGKILL); /* kills processes that the attempt may have left */
    }
    answer(word, id, report, status);
}

static int attempt_words(char **words, struct report *report) {
    struct arguments given = {0};
    for (int at = 0; at < MAX_ARGUMENTS; at++)
        given.text[at] = "";
    for (char **each = words + 1; *each && given.count < MAX_ARGUMENTS; each++) {
        given.text[given.count] = *each;
        given.length[given.count++] = strlen(*each);
    }
    make(report, words[0], &given);
    if (report->unknown)
        return 2;
    if (report->error) {
        const char *name = errno_name(report->error);
        fprintf(stderr, "%s\n", name ? name : strerror(report->error));
        return 1;
    }
    fwrite(report->value.bytes, 1, report->value.length, stdout);
    return 0;
}

int main(int count, char **words) {
    static char line[MAX_LINE];
    struct report *report =
        mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED) {
        perror("probe");
        return 3;
    }
    if (count > 2 && strcmp(words[1], "--lines") == 0) {
        for (char **each = words + 3; *each; each++)
            attempt_line(*each, report);
        return (int)number(words[2]);
    }
    if (count > 1)
        return attempt_words(words + 1, report);
    while (fgets(line, sizeof line, stdin))
        attempt_line(line, report);
    return 0;
}
