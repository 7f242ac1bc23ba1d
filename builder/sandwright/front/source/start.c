/* The installed command `sandwright`: starts a sandbox from the render cache if its entry is not stale, which
 * means that all recorded questions about the host still have the same answers. Starts Python for everything
 * else (docs/front.md). */
#define _GNU_SOURCE
#include <sys/random.h>

#include "launch.h"

enum { KEY = 32, BLOCK = 64, HEX = 64, MOST = 1 << 24, CANNOT = 126, SET_BACK = 1000000000 };
#define VERSION "1" /* of entries, and of the questions in them (request.py) */
#define REQUESTS ".exec" /* the socket of a session (state.py) */
/* A script whose first line, written by the installer, names the interpreter. */
#define INTERPRETER "sandwright-interpreter"

static char **arguments;          /* this program's arguments */
static const char *home, *folder = ""; /* the user's home; the directory of this program's file */

/* Executes Python with the same arguments. */
void become_python(void)
{
    char *file = xasprintf("%s/%s", folder, INTERPRETER), *line = read_file(AT_FDCWD, file, MOST, NULL);
    char *python = line == NULL || strncmp(line, "#!", 2) != 0 ? NULL : strtok(line + 2, "\r\n");
    if (python == NULL || strcmp(python, "/bin/sh") == 0 || strncmp(python, "python", 6) == 0)
        python = xasprintf("%s/python3", folder); /* such a line can't hold a longer path */
    struct strv words = {0};
    strv_push_all(&words, (char *[]){python, "-E", "-P", file, NULL});
    strv_push_all(&words, arguments + 1);
    execv(python, words.at);
    dprintf(STDERR_FILENO, "sandwright: cannot start %s, which %s names: %s\n", python, file, strerror(errno));
    _exit(CANNOT);
}

/* Opens a file of this type if only this user can read or write it; otherwise -1. */
static int open_private(const char *path, mode_t kind)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool right = file >= 0 && fstat(file, &status) == 0 && (status.st_mode & S_IFMT) == kind;
    return right && status.st_uid == geteuid() && (status.st_mode & 077) == 0 ? file : -1;
}

/* Reads an entry if its HMAC proves that this user wrote its name and content: HMAC-SHA256 (RFC 2104), as in
 * cache_key.py. */
static bool read_entry(const char *path, struct entry *entry)
{
    size_t length, key_length, name = strlen(base_name(path)) + 1; /* with its NUL */
    char *key = read_fd(open_private(xasprintf("%s/.local/state/sandwright/keys/render-cache", home), S_IFREG), MOST, &key_length);
    char *content = read_fd(open_private(path, S_IFREG), MOST, &length);
    if (key == NULL || key_length != KEY || content == NULL || length <= HEX || content[HEX] != '\n')
        return false;
    unsigned char *message = xcalloc(BLOCK + name + length), outer[BLOCK + KEY];
    memcpy(message, key, KEY);
    for (size_t index = 0; index < BLOCK; index++) {
        outer[index] = message[index] ^ 0x5c;
        message[index] ^= 0x36;
    }
    memcpy(message + BLOCK, base_name(path), name);
    memcpy(message + BLOCK + name, content + HEX + 1, length -= HEX + 1);
    sha256(message, BLOCK + name + length, outer + BLOCK);
    /* Need not run in constant time: a process that could measure it can also read the key. */
    bool authentic = memcmp(content, sha256_hex(outer, sizeof outer), HEX) == 0;
    return authentic && document_parse(content + HEX + 1, length, &entry_form, entry) == NULL;
}

/* The path at which Python stores the entry for such a request (render_cache.py, cache_path). */
static char *entry_path(void)
{
    static const char *const variables[] = {"SANDBOX_METHOD", "SANDBOX_REASON", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "HOME"};
    const char *cache = getenv("XDG_CACHE_HOME");
    struct strv identity = {0};
    struct bytes key = {0};
    strv_push_all(&identity, (char *[]){VERSION, xasprintf("%s", folder), getcwd(NULL, 0), xasprintf("%u", geteuid()), NULL});
    for (size_t index = 0; index < sizeof variables / sizeof *variables; index++) {
        const char *value = getenv(variables[index]);
        strv_push(&identity, xasprintf("%s%s%s", variables[index], value == NULL ? "" : "=", value == NULL ? "" : value));
    }
    bytes_words(&key, &identity);
    cache = cache != NULL && *cache == '/' ? cache : xasprintf("%s/.cache", home);
    return xasprintf("%s/sandwright/sessions/%s.entry", cache, sha256_hex(key.at, bytes_held(&key)));
}

/* Whether the directory of session records and the one above belong to this user, and every record is of a
 * running process. Python removes records of others. */
static bool sessions_run(const char *path)
{
    const char *name = base_name(path);
    _cleanup_close_ int above = name == path ? -1 : open_private(xasprintf("%.*s", (int)(name - path - 1), path), S_IFDIR);
    DIR *records = above < 0 ? NULL : fdopendir(open_private(path, S_IFDIR));
    bool fine = records != NULL;
    for (struct dirent *each; (each = next_entry(records)) != NULL;) {
        if (strcmp(each->d_name + strcspn(each->d_name, "."), REQUESTS) == 0)
            continue;
        char *record = read_file(dirfd(records), each->d_name, MOST, NULL), process[16], start[24];
        const char *at = record == NULL ? NULL : strstr(record, "\"pid\": ");
        fine = fine && at != NULL && sscanf(at, "\"pid\": %15[0-9], \"start\": %23[0-9]", process, start) == 2 &&
               strcmp(start, process_start(process)) == 0;
    }
    return fine;
}

/* Whether Python has nothing to do for this run. */
static bool is_plain(const char *command, const struct entry *entry)
{
    static const char *const variables[] = {"OTEL_", "SANDWRIGHT_TELEMETRY=", "PYTHONHOME="};
    bool plain = !strv_contains(&entry->excepted, base_name(command)) && (*command != '/' || strstr(command, "/tmp") == NULL);
    for (const char *at = command; *at != '\0'; at++)
        plain = plain && *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\';
    for (char **each = environ; *each != NULL; each++)
        for (size_t index = 0; index < sizeof variables / sizeof *variables; index++)
            plain = plain && strncmp(*each, variables[index], strlen(variables[index])) != 0;
    for (int file = 0; file < 3; file++)
        plain = plain && fcntl(file, F_GETFD) >= 0;
    return plain && (entry->guards == NULL || next_entry(open_directory(AT_FDCWD, entry->guards)) == NULL);
}

/* Writes the session record; returns its path without the suffix. */
static char *write_record(const struct entry *entry, const char *command)
{
    unsigned long long random;
    const char *namespace = read_link(AT_FDCWD, "/proc/self/ns/pid");
    if (getrandom(&random, sizeof random, 0) != sizeof random || namespace == NULL)
        become_python();
    char *session = xasprintf("%016llx", random), *path = xasprintf("%s/%s", entry->sessions, session);
    long long now = clock_now(CLOCK_REALTIME) / 1000;
    char *record = xasprintf("{\"session\": \"%s\", \"pid\": %d, \"start\": %s, \"pid_namespace\": \"%s\", \"began\": %lld.%06lld, "
                        "\"clock\": [%lld, %lld], \"command\": \"%s\", %s", session, getpid(), process_start("self"), namespace,
                        now / 1000000, now % 1000000, clock_now(CLOCK_REALTIME_COARSE), clock_now(CLOCK_MONOTONIC), base_name(command),
                        entry->record);
    if (!replace_file(xasprintf("%s.json", path), record))
        become_python();
    setenv("SANDWRIGHT_SESSION", session, 1);
    return path;
}

/* The run document, as launcher/run_document.py writes it, in a memfd that the launcher inherits. */
static char *run_document(const char *session, const struct strv *post_run)
{
    struct strv words = {0};
    struct bytes document = {0};
    char *const head[] = {"sandwright-run", "1", "denials", "1", xasprintf("%s.denials", session), "requests", "1",
                          xasprintf("%s" REQUESTS, session), "post_run", xasprintf("%zu", post_run->count), NULL};
    strv_push_all(&words, head);
    strv_extend(&words, post_run);
    strv_push(&words, "end");
    bytes_words(&document, &words);
    int memory = memory_file("run", document.at, bytes_held(&document));
    fcntl(memory, F_SETFD, 0);
    return xasprintf("%d", memory);
}

static void become_launcher(const struct entry *entry, char *path, char **command)
{
    struct strv words = {0}, after = {0};
    char *session = write_record(entry, *command), *record = xasprintf("%s.json", session);
    strv_push_all(&after, (char *[]){xasprintf("%s/sandwright", folder), "--after", path, NULL});
    strv_extend(&after, &entry->report);
    strv_push(&after, record);
    for (size_t index = 0; index + 1 < entry->environment.count; index += 2)
        setenv(entry->environment.at[index], entry->environment.at[index + 1], 1);
    strv_push_all(&words, (char *[]){entry->launcher.at[0], "--run", run_document(session, &after), NULL});
    strv_push_all(&words, entry->launcher.at + 1);
    strv_push_all(&words, command);
    for (size_t index = 0; index < entry->said.count; index++)
        dprintf(STDERR_FILENO, "sandwright: %s\n", entry->said.at[index]);
    execv(words.at[0], words.at);
    unlink(record);
}

static void start(char **command)
{
    struct entry entry = {0};
    char *path = entry_path();
    if (read_entry(path, &entry) && entry.sessions != NULL && entry.launcher.count > 0 && entry.report.count > 0 &&
        entry.record != NULL && is_plain(*command, &entry) && questions_hold(&entry.questions) && sessions_run(entry.sessions))
        become_launcher(&entry, path, command);
}

/* Sets `since` to the file systems' time at which the session started. False if another run, with another
 * policy, has replaced the entry meanwhile: the entry then lists other places to inspect. */
static bool began(const struct entry *entry, const char *path, long long *since)
{
    char *record = read_file(AT_FDCWD, path, MOST, NULL), *clock = record == NULL ? NULL : strstr(record, "\"clock\": [");
    size_t length = entry->record == NULL ? 0 : strlen(entry->record);
    long long now = clock_now(CLOCK_REALTIME_COARSE) - clock_now(CLOCK_MONOTONIC), ticks;
    if (clock == NULL || sscanf(clock, "\"clock\": [%lld, %lld]", since, &ticks) != 2 || length < 2)
        return false;
    *since = now + ticks < *since - SET_BACK ? now + ticks : *since; /* the clock may have been set back */
    return strstr(record, xasprintf("%.*s", (int)length - 1, entry->record)) != NULL;
}

/* sandwright --after ENTRY PYTHON ... RECORD STATUS: the post-run step, after the launcher has ended. */
static _Noreturn void end(size_t count)
{
    struct entry entry = {0};
    char *record = arguments[count - 2], *denials = xasprintf("%.*s.denials", (int)strlen(record) - (int)strlen(".json"), record);
    long long since;
    int status = atoi(arguments[count - 1]);
    if (access(denials, F_OK) != 0 && home != NULL && read_entry(arguments[2], &entry) && entry.known != NULL &&
        began(&entry, record, &since) && nothing_to_report(&entry, since)) {
        unlink(record);
        _exit(status);
    }
    execv(arguments[3], arguments + 3);
    _exit(status);
}

/* Python and getenv(3) take the first entry of a variable, ld.so the last. */
static void remove_repeated_variables(void)
{
    for (char **each = environ; *each != NULL; each++) {
        size_t length = strcspn(*each, "=") + 1;
        char **end = each + 1;
        for (char **later = end; *later != NULL; later++)
            if (strncmp(*later, *each, length) != 0)
                *end++ = *later;
        *end = NULL;
    }
}

int main(int count, char **words)
{
    arguments = words;
    remove_repeated_variables();
    folder = own_directory();
    home = getenv("HOME") != NULL && *getenv("HOME") == '/' ? getenv("HOME") : NULL;
    if (count > 5 && strcmp(words[1], "--after") == 0)
        end((size_t)count);
    if (count > 2 && strcmp(words[1], "run") == 0 && home != NULL) {
        char **command = words + 2 + (strcmp(words[2], "--") == 0);
        if (*command != NULL && **command != '-' && **command != '\0')
            start(command);
    }
    become_python();
}
