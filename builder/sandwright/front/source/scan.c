/* Inspects what a run could write, as session/scan.py does, but finds out only whether there may be something
 * to report. In any doubt there is: Python then inspects it again. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>

#include "launch.h"

enum { PLACEHOLDER = S_IFDIR | 01555, MOST_NAMES = 2000000, DEEPEST = 200, DAY = 86400, PATIENCE = 3 };
enum { HEAD = 1, COMMONDIR = 2, OBJECTS = 4, REFS = 8 };

static const struct entry *entry;
static long long since;
static int names_left = MOST_NAMES;
static bool complete; /* every file has to be inspected */

/* Whether programs of the host use a path: protected names, and names that make a directory a repository. A
 * name counts, too, if some file system would take it for such a name. */
static bool is_used(const char *path, const char *name, unsigned *parts)
{
    static const char *const git[] = {"head", "commondir", "objects", "refs", "config", "config.worktree", "hooks", "info", ".git"};
    size_t length = strlen(path), found = 0;
    for (const char *at = name; *at != '\0'; at++)
        found += (unsigned char)*at >= 0x80 || (at[1] == '\0' && strchr(". ", *at) != NULL);
    for (size_t index = 0; index < sizeof git / sizeof *git; index++)
        *parts |= strcasecmp(git[index], name) == 0 ? 1U << index : 0;
    for (size_t index = 0; index < entry->names.count && found == 0; index++) {
        const char *each = entry->names.at[index], *end = each + (*each == '*');
        size_t part = strlen(end);
        found += length > part && strcasecmp(path + length - part, end) == 0 && (*each == '*' || path[length - part - 1] == '/');
    }
    return found > 0;
}

/* Exits with 1 if there may be something to report, such as a link in a Git directory. `used`: programs of
 * the host use the entries. */
static void scan(int above, const char *name, const char *path, const struct stat *own, bool used, int depth)
{
    unsigned parts = 0;
    bool changed = nanoseconds(own->st_ctim) >= since;
    DIR *entries = open_directory(above, name);
    if (entries == NULL || depth > DEEPEST)
        _exit(1);
    for (struct dirent *each; (each = next_entry(entries)) != NULL;) {
        struct stat status;
        unsigned part = 0;
        char *below = xasprintf("%s/%s", path, each->d_name);
        bool tool = is_used(below, each->d_name, &part), closed = strv_contains(&entry->closed, below);
        parts |= part;
        if (complete || changed || used || tool || part != 0 || each->d_type == DT_DIR || each->d_type == DT_UNKNOWN) {
            if (fstatat(dirfd(entries), each->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
                _exit(1);
            bool is_new = nanoseconds(status.st_ctim) >= since, directory = S_ISDIR(status.st_mode);
            bool names_git = strcasecmp(each->d_name, ".git") == 0 && !directory, filled = used && own->st_mode == PLACEHOLDER;
            bool leads_git = S_ISLNK(status.st_mode) && (strstr(below, "/.git/") != NULL || strv_has_above(&entry->git, below));
            if ((is_new && (used || leads_git || names_git || (tool && !closed && status.st_mode != PLACEHOLDER))) ||
                (filled && changed) ||
                (S_ISREG(status.st_mode) && (status.st_mode & (S_ISUID | S_ISGID)) != 0))
                _exit(1);
            if (directory && !closed && !strv_contains(&entry->roots, below))
                scan(dirfd(entries), each->d_name, below, &status, used || tool, depth + 1);
        }
        free(below);
        if (--names_left < 0)
            _exit(1);
    }
    bool repository = (parts & HEAD) != 0 && ((parts & (OBJECTS | REFS)) == (OBJECTS | REFS) || (parts & COMMONDIR) != 0);
    if (repository && !strv_contains(&entry->git, path))
        _exit(1);
}

static _Noreturn void scan_all(void)
{
    if (entry->known[0] != '/')
        _exit(1);
    char *known = read_file(AT_FDCWD, entry->known, 1 << 24, NULL), *full = known == NULL ? NULL : strstr(known, "\"full\": \"");
    long long now = time(NULL), age = full == NULL ? -1 : now - atoll(full + strlen("\"full\": \""));
    complete = age < 0 || age >= DAY;
    if (known != NULL && (strstr(known, "\"set-id\"") != NULL || strstr(known, "\"unread\"") != NULL))
        _exit(1); /* Python has to inspect these */
    for (size_t index = 0; index < entry->roots.count; index++) {
        struct stat status;
        if (lstat(entry->roots.at[index], &status) == 0 && S_ISDIR(status.st_mode))
            scan(AT_FDCWD, entry->roots.at[index], entry->roots.at[index], &status, false, 0);
    }
    _exit(complete && !replace_file(entry->known, xasprintf("{\"full\": \"%lld\"}", now)));
}

bool nothing_to_report(const struct entry *of, long long from)
{
    static const struct timespec none, patience = {.tv_sec = PATIENCE};
    int status = 1, number = SIGCHLD;
    sigset_t signals, before;
    entry = of;
    since = from;
    sigemptyset(&signals);
    for (size_t index = 0; index < 4; index++)
        sigaddset(&signals, (int[]){SIGHUP, SIGINT, SIGTERM, SIGCHLD}[index]);
    sigprocmask(SIG_BLOCK, &signals, &before);
    signal(SIGCHLD, SIG_DFL);
    /* Signals that were meant for the command, which has ended. */
    while (sigtimedwait(&signals, NULL, &none) > 0)
        ;
    pid_t child = fork(); /* in a child, because a file system may never answer */
    if (child == 0) {
        /* Otherwise a process that reads until their end would wait for it. */
        for (int file = 0; file < 3; file++)
            close(file);
        scan_all();
    }
    while (child > 0 && number == SIGCHLD && waitpid(child, &status, WNOHANG) == 0)
        number = sigtimedwait(&signals, NULL, &patience);
    if (number != SIGCHLD)
        kill(child, SIGKILL);
    sigprocmask(SIG_SETMASK, &before, NULL); /* Python's children may wait for SIGCHLD */
    return number == SIGCHLD ? status == 0 : number > 0;
}
