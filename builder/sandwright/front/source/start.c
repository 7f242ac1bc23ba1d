/* sandwright: starts a cached sandbox if all that it was made from is as it was, and Python for everything else (docs/front.md). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

enum { KEY = 32, BLOCK = 64, HEX = 64, MOST = 1 << 24, CANNOT = 126, SET_BACK = 1000000000 };
#define VERSION "1" /* of entries, and of the questions in them (request.py) */
#define INTERPRETER "sandwright-interpreter" /* its first line names the interpreter, as the installer wrote it */

static char **arguments;          /* our own words */
static const char *home, *folder = ""; /* of this program's file */

/* Becomes Python with the words that were given. */
void become_python(void)
{
    char *file = xasprintf("%s/%s", folder, INTERPRETER), *line = read_file(AT_FDCWD, file, MOST, NULL);
    char *python = line == NULL || strncmp(line, "#!", 2) != 0 ? NULL : strtok(line + 2, "\r\n");
    if (python == NULL || strcmp(python, "/bin/sh") == 0 || strncmp(python, "python", 6) == 0)
        python = xasprintf("%s/python3", folder); /* whose path is too long for such a line */
    struct strv words = {0};
    char *const first[] = {python, "-E", "-P", file};
    for (size_t index = 0; index < 4; index++)
        strv_push(&words, first[index]);
    for (char **each = arguments + 1; *each != NULL; each++)
        strv_push(&words, *each);
    execv(python, words.at);
    dprintf(STDERR_FILENO, "sandwright: %s, which %s names, can't be started: %s\n", python, file, strerror(errno));
    _exit(CANNOT);
}

static bool is_private(const struct stat *status)
{
    return status->st_uid == geteuid() && (status->st_mode & 077) == 0;
}

/* The content of a file that only this user can read or write; NULL for any other. */
static char *private_file(const char *path, size_t *length)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool fine = file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && is_private(&status);
    return fine ? read_file(AT_FDCWD, xasprintf("/proc/self/fd/%d", file), MOST, length) : NULL;
}

/* Reads an entry, if this user's key authenticates its name and content: HMAC-SHA256 (RFC 2104), as cache_key.py. */
static bool read_entry(const char *path, struct entry *entry)
{
    size_t length = 0, key_length = 0, name = strlen(path) - (size_t)(strrchr(path, '/') - path), differs = 0;
    char *key = private_file(xasprintf("%s/.local/state/sandwright/keys/render-cache", home), &key_length);
    char *content = private_file(path, &length);
    if (key == NULL || key_length != KEY || content == NULL || length <= HEX || content[HEX] != '\n')
        return false;
    unsigned char *message = xcalloc(BLOCK + name + length), outer[BLOCK + KEY];
    memcpy(message, key, KEY);
    for (size_t index = 0; index < BLOCK; index++) {
        outer[index] = message[index] ^ 0x5c;
        message[index] ^= 0x36;
    }
    memcpy(message + BLOCK, strrchr(path, '/') + 1, name); /* with its NUL */
    memcpy(message + BLOCK + name, content + HEX + 1, length -= HEX + 1);
    sha256(message, BLOCK + name + length, outer + BLOCK);
    const char *right = sha256_hex(outer, sizeof outer);
    for (size_t index = 0; index < HEX; index++)
        differs |= (size_t)(content[index] ^ right[index]);
    return differs == 0 && entry_parse(content + HEX + 1, length, entry);
}

/* Where Python keeps what it made for such a request (request.py, identity). */
static char *entry_path(void)
{
    static const char *const variables[] = {"SANDBOX_METHOD", "SANDBOX_REASON", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "HOME"};
    const char *cache = getenv("XDG_CACHE_HOME");
    char *key = xasprintf(VERSION "\n%s\n%s\n%u", folder, getcwd(NULL, 0), geteuid());
    for (size_t index = 0; index < sizeof variables / sizeof *variables; index++) {
        const char *value = getenv(variables[index]);
        key = xasprintf("%s\n%s%s%s", key, variables[index], value == NULL ? "" : "=", value == NULL ? "" : value);
    }
    cache = cache != NULL && *cache == '/' ? cache : xasprintf("%s/.cache", home);
    return xasprintf("%s/sandwright/sessions/%s.entry", cache, sha256_hex(key, strlen(key)));
}

static bool is_private_directory(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && is_private(&status);
}

/* The directory of records is ours, as is the one above, and each is of a process that runs: Python removes what others left. */
static bool sessions_run(const char *path)
{
    const char *slash = strrchr(path, '/'), *above = xasprintf("%.*s", slash == NULL ? 0 : (int)(slash - path), path);
    DIR *records = is_private_directory(above) && is_private_directory(path) ? open_directory(AT_FDCWD, path) : NULL;
    bool fine = records != NULL;
    for (struct dirent *each; (each = next_entry(records)) != NULL;) {
        char *record = read_file(dirfd(records), each->d_name, MOST, NULL), process[16] = "", start[24] = "none";
        char *at = record == NULL ? NULL : strstr(record, "\"pid\": ");
        fine = fine && at != NULL && sscanf(at, "\"pid\": %15[0-9], \"start\": %23[0-9]", process, start) == 2 && strcmp(start, process_start(process)) == 0;
    }
    return fine;
}

/* Whether nothing of this run is for Python to look at. */
static bool is_plain(const char *command, const struct entry *entry)
{
    static const char *const variables[] = {"OTEL_", "SANDWRIGHT_TELEMETRY=", "PYTHONHOME="};
    const char *slash = strrchr(command, '/');
    bool plain = !strv_contains(&entry->excepted, slash == NULL ? command : slash + 1) && (*command != '/' || strstr(command, "/tmp") == NULL);
    for (const char *at = command; *at != '\0'; at++)
        plain = plain && *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\';
    for (char **each = environ; *each != NULL; each++)
        for (size_t index = 0; index < sizeof variables / sizeof *variables; index++)
            plain = plain && strncmp(*each, variables[index], strlen(variables[index])) != 0;
    for (int file = 0; file < 3; file++)
        plain = plain && fcntl(file, F_GETFD) >= 0;
    return plain && (entry->guards == NULL || next_entry(open_directory(AT_FDCWD, entry->guards)) == NULL);
}

static long long now_in(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? nanoseconds(now) : 0;
}

/* Writes this session's record; gives its path without the ending. */
static char *write_record(const struct entry *entry, const char *command, long long began, long long ticks)
{
    unsigned long long random;
    const char *namespace = read_link(AT_FDCWD, "/proc/self/ns/pid");
    if (getrandom(&random, sizeof random, 0) != sizeof random || namespace == NULL)
        become_python();
    const char *process = xasprintf("%d", getpid()), *slash = strrchr(command, '/');
    char *session = xasprintf("%016llx", random), *path = xasprintf("%s/%s", entry->sessions, session);
    long long now = now_in(CLOCK_REALTIME) / 1000;
    char *record = xasprintf("{\"session\": \"%s\", \"pid\": %s, \"start\": %s, \"pid_namespace\": \"%s\", \"began\": %lld.%06lld, "
                        "\"clock\": [%lld, %lld], \"command\": \"%s\", %s", session, process, process_start(process), namespace,
                        now / 1000000, now % 1000000, began, ticks, slash == NULL ? command : slash + 1, entry->record);
    if (!replace_file(xasprintf("%s.json", path), record))
        become_python();
    setenv("SANDWRIGHT_SESSION", session, 1);
    return path;
}

static void add_field(struct bytes *document, const char *name, const struct strv *values)
{
    bytes_text(document, "%s%c%zu%c", name, '\0', values->count, '\0');
    for (size_t index = 0; index < values->count; index++)
        bytes_add(document, values->at[index], strlen(values->at[index]) + 1);
}

/* The run document, as launcher/run_document.py writes it, in memory of ours: a descriptor that the launcher inherits. */
static char *run_document(char *denials, const struct strv *post_run)
{
    static const char head[] = "sandwright-run\0" "1", end[] = "end";
    struct bytes document = {0};
    bytes_add(&document, head, sizeof head);
    add_field(&document, "post_run", post_run);
    add_field(&document, "denials", &(struct strv){&denials, 1});
    bytes_add(&document, end, sizeof end);
    int memory = memory_file("run", document.at, bytes_held(&document));
    fcntl(memory, F_SETFD, 0);
    return xasprintf("%d", memory);
}

static void become_launcher(const struct entry *entry, const char *path, char **command)
{
    struct strv words = {0}, after = {0};
    long long began = now_in(CLOCK_REALTIME_COARSE), ticks = now_in(CLOCK_MONOTONIC);
    char *record = write_record(entry, *command, began, ticks);
    char *const front[] = {xasprintf("%s/sandwright", folder), "--after", (char *)path, xasprintf("%lld", began), xasprintf("%lld", ticks)};
    for (size_t index = 0; index < sizeof front / sizeof *front; index++)
        strv_push(&after, front[index]);
    strv_extend(&after, &entry->report);
    strv_push(&after, xasprintf("%s.json", record));
    for (size_t index = 0; index + 1 < entry->environment.count; index += 2)
        setenv(entry->environment.at[index], entry->environment.at[index + 1], 1);
    strv_push(&words, entry->launcher.at[0]);
    strv_push(&words, "--run");
    strv_push(&words, run_document(xasprintf("%s.denials", record), &after));
    for (size_t index = 1; index < entry->launcher.count; index++)
        strv_push(&words, entry->launcher.at[index]);
    for (; *command != NULL; command++)
        strv_push(&words, *command);
    for (size_t index = 0; index < entry->said.count; index++)
        dprintf(STDERR_FILENO, "sandwright: %s\n", entry->said.at[index]);
    execv(words.at[0], words.at);
    unlink(xasprintf("%s.json", record));
}

static void start(char **command)
{
    struct entry entry;
    char *path = entry_path();
    if (read_entry(path, &entry) && !entry.attended && entry.sessions != NULL && entry.launcher.count > 0 && entry.report.count > 0 &&
        entry.record != NULL && is_plain(*command, &entry) && questions_hold(&entry.questions) &&
        sessions_run(entry.sessions))
        become_launcher(&entry, path, command);
}

/* Another run with another policy may have replaced the entry meanwhile: it says where to look for that one's changes. */
static bool is_of(const char *session, const struct entry *entry)
{
    char *record = read_file(AT_FDCWD, session, MOST, NULL);
    size_t length = entry->record == NULL ? 0 : strlen(entry->record);
    return record != NULL && length > 1 && strstr(record, xasprintf("%.*s", (int)length - 1, entry->record)) != NULL;
}

/* sandwright --after ENTRY BEGAN TICKS PYTHON ... RECORD STATUS: what is left to do when the launcher has ended. */
static _Noreturn void end(size_t count)
{
    struct entry entry;
    char *record = arguments[count - 2], *denials = xasprintf("%.*s.denials", (int)strlen(record) - (int)strlen(".json"), record);
    long long began = atoll(arguments[3]), since = now_in(CLOCK_REALTIME_COARSE) - (now_in(CLOCK_MONOTONIC) - atoll(arguments[4]));
    int status = atoi(arguments[count - 1]);
    if (access(denials, F_OK) != 0 && home != NULL && read_entry(arguments[2], &entry) && entry.known != NULL &&
        is_of(record, &entry)) {
        if (nothing_to_report(&entry, since < began - SET_BACK ? since : began)) {
            unlink(record);
            _exit(status);
        }
    }
    execv(arguments[5], arguments + 5);
    _exit(status);
}

int main(int count, char **words)
{
    arguments = words;
    folder = own_directory();
    home = getenv("HOME") != NULL && *getenv("HOME") == '/' ? getenv("HOME") : NULL;
    if (count > 8 && strcmp(words[1], "--after") == 0)
        end((size_t)count);
    if (count > 2 && strcmp(words[1], "run") == 0 && home != NULL) {
        char **command = words + 2 + (strcmp(words[2], "--") == 0);
        if (*command != NULL && **command != '-' && **command != '\0')
            start(command);
    }
    become_python();
}
