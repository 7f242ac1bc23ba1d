/* Opens the files of the host that the plan protects, and watches for their replacement (inotify(7), for each
 * name that leads to them). */
#define _GNU_SOURCE
#include <strings.h>
#include <sys/inotify.h>

#include "launch.h"
#include "watch.h"

/* IN_ATTRIB: a directory may become accessible, and with it denied files in it. */
enum { EVENTS = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR | IN_DONT_FOLLOW };

struct watched_name {
    int directory; /* its watch descriptor */
    size_t length;
    const char *text;
};

/* The host may make a name in another spelling, where the file system ignores case. */
static bool known(const struct host_watch *watch, int directory, const char *text, size_t length)
{
    for (size_t index = 0; index < watch->count; index++) {
        const struct watched_name *each = &watch->names[index];
        if (each->directory == directory && each->length == length && strncasecmp(each->text, text, length) == 0)
            return true;
    }
    return false;
}

static void remember(struct host_watch *watch, int directory, const char *text, size_t length)
{
    if (known(watch, directory, text, length))
        return;
    struct watched_name *more = reallocarray(watch->names, watch->count + 1, sizeof *more);
    if (more == NULL) {
        watch->incomplete = true;
        return;
    }
    watch->names = more;
    watch->names[watch->count++] = (struct watched_name){directory, length, text};
}

/* Returns the watch descriptor. Without one, accessible names are polled. A directory that can be entered but
 * not read (mode 0711) can't be watched. */
static int watch_directory(struct host_watch *watch, const char *directory)
{
    int number = inotify_add_watch(watch->inotify, directory, EVENTS);
    if (number >= 0)
        return number;
    bool hidden = errno == EACCES && faccessat(AT_FDCWD, directory, X_OK, AT_EACCESS) == 0;
    if (hidden || errno == ENOSPC || errno == ENOMEM)
        watch->incomplete = true;
    return -1;
}

void host_watch_name(struct host_watch *watch, const char *directory, const char *name)
{
    size_t length = strlen(name);
    int number = watch_directory(watch, directory);
    if (number > 0 && !known(watch, number, name, length))
        remember(watch, number, xasprintf("%s", name), length);
}

/* Watches the names on the way to a path, each in its directory. */
static void watch_names(struct host_watch *watch, const char *path, bool again)
{
    static const char *before = "";
    static int numbers[64]; /* watch descriptors of the directories on the way to `before` */
    char directory[4096] = "/";
    size_t depth = 0;
    for (const char *part = path + 1; *part != '\0'; depth++) {
        size_t length = strcspn(part, "/"), whole = (size_t)(part - path) + length;
        bool done = strncmp(before, path, whole) == 0 && (before[whole] == '/' || before[whole] == '\0');
        bool same = strncmp(before, path, (size_t)(part - path)) == 0 && depth < 64 && numbers[depth] > 0;
        int number = done && !again ? 0 : same && !again ? numbers[depth] : watch_directory(watch, directory);
        if (number != 0 && depth < 64)
            numbers[depth] = number;
        if (number > 0)
            remember(watch, number, part, length);
        part += length;
        if (*part == '\0' || (size_t)(part - path) >= sizeof directory)
            break;
        memcpy(directory, path, (size_t)(part - path));
        directory[part - path] = '\0';
        part++;
    }
    before = path;
}

void host_hold(struct host_watch *watch, struct record *record)
{
    if (record->source[0] == '\0')
        return;
    if (record->held >= 0)
        close(record->held);
    record->held = open_without_links(AT_FDCWD, record->source, O_PATH, 0);
    record->fault = record->held < 0 ? errno : 0;
    if (record->watched && watch->inotify >= 0)
        watch_names(watch, record->source, record->mount != 0);
}

void host_watch(struct host_watch *watch, struct mount_plan *plan)
{
    watch->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    watch->incomplete = watch->inotify < 0;
    for (size_t index = 0; index < plan->count; index++)
        if (plan->records[index].kind != PLACEHOLDER_FILE && plan->records[index].kind != PLACEHOLDER_DIRECTORY)
            host_hold(watch, &plan->records[index]);
}

/* Letters beyond ASCII count as any name: one may be another spelling of a letter in ASCII (U+212A of `k`). */
static bool is_watched(const struct host_watch *watch, const struct inotify_event *event)
{
    for (const char *letter = event->name; *letter != '\0'; letter++)
        if ((unsigned char)*letter > 0x7f)
            return true;
    return known(watch, event->wd, event->name, strlen(event->name));
}

bool host_events(struct host_watch *watch)
{
    char buffer[65536] __attribute__((aligned(__alignof__(struct inotify_event))));
    bool found = false;
    for (;;) {
        ssize_t got = read(watch->inotify, buffer, sizeof buffer);
        if (got <= 0)
            return found;
        for (char *at = buffer; at < buffer + got;) {
            const struct inotify_event *event = (const struct inotify_event *)(void *)at;
            at += sizeof *event + event->len;
            if (event->len > 0 && strcmp(event->name, "config.lock") == 0 && known(watch, event->wd, "config", 6))
                watch->config_locked = true;
            if ((event->mask & (IN_Q_OVERFLOW | IN_IGNORED | IN_UNMOUNT)) != 0 ||
                (event->len > 0 && is_watched(watch, event)))
                found = true;
        }
        if (found)
            return true;
    }
}

/* Compares current inode numbers: a file system may change that of an open file (overlayfs, when the file is
 * copied up). */
const struct record *host_compare(const struct mount_plan *plan)
{
    for (size_t index = 0; index < plan->count; index++) {
        const struct record *each = &plan->records[index];
        struct stat held, there;
        if (!each->watched)
            continue;
        /* Replaced with a link before it was opened. */
        if (each->fault == ELOOP && (each->kind == READ || each->kind == WRITE))
            return each;
        if (each->held < 0)
            continue;
        if (fstat(each->held, &held) != 0 || fstatat(AT_FDCWD, each->source, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
            !same_file(&held, &there))
            return each;
    }
    return NULL;
}
