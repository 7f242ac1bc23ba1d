/* Compares the mounts before the command is let go, and again whenever something happens. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "watch.h"

enum { LOOK = 250, SETUP = 20000, GRACE = 1000, STEP = 5 };

struct options options = {.waits_on = -1, .root = ""};
struct plan plan;
static struct sandbox sandbox = {-1, -1, -1, -1};
static struct inside inside = {{-1, -1}, false};
static int watching = -1;
static pid_t first;

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* First it is ended, then it is said: nobody inside may hold that up by not reading. */
_Noreturn void refuse(const char *before, const char *path, const char *after)
{
    if (sandbox.process >= 0)
        sandbox_end(&sandbox, first);
    say(before, path, after);
    exit(REFUSED);
}

static pid_t number_in(const char *path)
{
    char text[32] = "";
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    return got > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* Whether a process that was let go has ended, or will at once. */
static bool ended(int milliseconds)
{
    struct pollfd each[] = {
        {.fd = sandbox.handle, .events = POLLIN},
        {.fd = options.input ? 0 : -1, .events = POLLIN},
        {.fd = watching, .events = POLLIN},
    };
    if (poll(each, 3, milliseconds) <= 0)
        return false;
    return each[0].revents != 0 || each[1].revents != 0;
}

/* A container that is not there yet is ended when it comes. */
static bool kill_it(void)
{
    while (sandbox.process < 0 && options.wait && !ended(STEP))
        if ((first = number_in(options.pid_file)) > 0)
            sandbox_open(first, &sandbox);
    if (inside.here)
        return kill(-1, SIGKILL) == 0;
    return sandbox.process >= 0 && sandbox_end(&sandbox, first);
}

static _Noreturn void end(const char *path, const char *what)
{
    bool killed = kill_it();
    say("", path, what);
    exit(killed ? REPLACED : STAYS);
}

static const char WAS_REPLACED[] = " was replaced on the host while this ran: the run is ended";

/* The record that is mounted otherwise than planned; a list that was read while it changed is read again. */
static const struct record *compare_mounts(bool begin, char **where)
{
    const struct record *wrong = NULL;
    *where = NULL;
    for (int tries = 0; tries < 2; tries++) {
        struct mounts mounts;
        const char *point;
        free(*where);
        *where = NULL;
        if (!mounts_read(sandbox.mounts, &mounts))
            return plan.records;
        wrong = compare(&plan, &mounts, sandbox.root, begin, &point);
        if (wrong == NULL && point != NULL)
            *where = strdup(point);
        mounts_free(&mounts);
        if (wrong == NULL && *where == NULL)
            break;
    }
    return wrong;
}

/* What was replaced where nobody inside can write is hidden again, also when that happens several times. */
static bool hidden_again(struct record *record)
{
    bool there = false;
    if (!record->again || (inside.spaces[1] < 0 && !inside.here))
        return false;
    for (int tries = 0; tries < 100 && !there; tries++) {
        struct mounts mounts;
        bool hidden = inside_hide(&inside, record);
        host_hold(record, watching);
        record->gone = record->held < 0;
        if (record->gone && hidden)
            return true;
        if (!hidden || !mounts_read(sandbox.mounts, &mounts))
            continue;
        const struct mount *mount = mounts_at(&mounts, record->target);
        there = strcmp(mount->point, record->target) == 0;
        record->mount = mount->id;
        mounts_free(&mounts);
    }
    return there;
}

static void compare_all(void)
{
    for (int tries = 0; tries < 1000; tries++) {
        char *where = NULL;
        const struct record *wrong = host_compare(&plan);
        if (wrong == NULL && sandbox.mounts >= 0)
            wrong = compare_mounts(false, &where);
        if (where != NULL)
            end(where, " was mounted inside while this ran, and can be written: the run is ended");
        if (wrong == NULL)
            return;
        if (!hidden_again(&plan.records[wrong - plan.records]))
            end(wrong->target + strlen(options.root), WAS_REPLACED);
    }
    end("the mounts", " change again and again: the run is ended");
}

/* What had gone may be there again. */
static void look_for_gone(void)
{
    struct stat status;
    for (size_t index = 0; index < plan.count; index++)
        if (plan.records[index].gone && lstat(plan.records[index].source, &status) == 0 &&
            !hidden_again(&plan.records[index]))
            end(plan.records[index].target + strlen(options.root), WAS_REPLACED);
}

static _Noreturn void follow(void)
{
    for (;;) {
        struct pollfd each[] = {
            {.fd = sandbox.handle, .events = POLLIN},
            {.fd = sandbox.mounts, .events = POLLPRI},
            {.fd = watching, .events = POLLIN},
            {.fd = options.input ? 0 : -1, .events = POLLIN},
        };
        bool looks = host_incomplete || (sandbox.process >= 0 && sandbox.handle < 0);
        int ready = poll(each, 4, looks ? LOOK : -1);
        bool over = each[0].revents != 0 || each[3].revents != 0 || (ready < 0 && errno != EINTR);
        if (sandbox.process >= 0 && sandbox.handle < 0 && faccessat(sandbox.process, "stat", F_OK, 0) != 0)
            over = true;
        bool told = (each[2].revents != 0 && host_events(watching)) || host_incomplete;
        if (told && !over)
            look_for_gone();
        if (told || over || each[1].revents != 0)
            compare_all();
        if (over)
            exit(0);
    }
}

/* mountinfo shows what is below the root that the process had when it was opened. */
static void open_again(void)
{
    if (sandbox.mounts >= 0)
        close(sandbox.mounts);
    if (sandbox.root >= 0)
        close(sandbox.root);
    sandbox.mounts = openat(sandbox.process, "mountinfo", O_RDONLY | O_CLOEXEC);
    sandbox.root = openat(sandbox.process, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* bubblewrap has made all mounts when it waits; who can't see that has to see the mounts. */
static void settle(void)
{
    long until = now() + SETUP;
    for (;;) {
        char *where = NULL;
        int waits = options.waits_on < 0 ? -1 : sandbox_waits(&sandbox, options.waits_on);
        if (waits != 0)
            open_again();
        if (waits == 1)
            return;
        if (waits < 0 && sandbox_is_first(&sandbox) && compare_mounts(true, &where) == NULL && !ended(50) &&
            compare_mounts(true, &where) == NULL)
            return;
        free(where);
        if (ended(1))
            exit(0);
        if (now() > until)
            refuse("the sandbox's mounts were not made in time: nothing was run", "", "");
    }
}

static void hold_covers(void)
{
    for (size_t index = 0; index < plan.count; index++)
        if (plan.records[index].kind == COVER_FILE || plan.records[index].kind == COVER_DIRECTORY)
            host_hold(&plan.records[index], watching);
}

static void compare_before(void)
{
    for (int tries = 0;; tries++) {
        char *where;
        const struct record *wrong = compare_mounts(true, &where);
        if (wrong == NULL && where == NULL)
            return;
        if (ended(0))
            exit(0);
        if (wrong != NULL)
            refuse("", wrong->target + strlen(options.root), " is not mounted as it was rendered: nothing was run");
        if (tries == 100 || !options.private || !inside_remove(&inside, where))
            refuse("", where, " was mounted inside, and can be written: nothing was run");
        free(where);
    }
}

/* Before the command is let go. */
static void begin(void)
{
    if (!sandbox_open(first, &sandbox) || !sandbox_is_first(&sandbox))
        exit(ended(0) || sandbox.process < 0 ? 0 : REFUSED);
    settle();
    if (options.private && (!inside_open(sandbox.process, &inside) || !inside_private(&inside)))
        refuse("the sandbox's mounts can't be made private (", strerror(errno), "): nothing was run");
    hold_covers();
    compare_before();
}

/* Our own namespaces, where a directory becomes the root of the command. */
static void begin_here(void)
{
    if (!sandbox_is_here())
        refuse("--root is for namespaces of a sandbox", "", "");
    inside.here = true;
    sandbox.mounts = open("/proc/thread-self/mountinfo", O_RDONLY | O_CLOEXEC);
    sandbox.root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t index = 0; index < plan.count; index++) {
        struct record *each = &plan.records[index];
        char *target = malloc(strlen(options.root) + strlen(each->target) + 1);
        if (target == NULL || sandbox.mounts < 0)
            refuse("the sandbox's mounts can't be read: nothing was run", "", "");
        strcpy(target, options.root);
        each->target = strcmp(each->target, "/") == 0 ? target : strcat(target, each->target);
    }
    if (options.private && !inside_private(&inside))
        refuse("the sandbox's mounts can't be made private (", strerror(errno), "): nothing was run");
    hold_covers();
    compare_before();
}

/* A container is looked at as soon as it is there. */
static void find(void)
{
    int step = STEP;
    while ((first = number_in(options.pid_file)) <= 0) {
        if (watching >= 0 && host_events(watching))
            compare_all();
        if (ended(step)) {
            compare_all();
            exit(0);
        }
        step = step < LOOK ? step + step / 16 + 1 : LOOK;
    }
    if (!sandbox_open(first, &sandbox)) {
        sandbox.process = sandbox.mounts = -1;
        return;
    }
    if (options.opaque) {
        close(sandbox.mounts);
        sandbox.mounts = -1;
        return;
    }
    for (long until = now() + GRACE;;) {
        char *where;
        open_again();
        const struct record *replaced = host_compare(&plan), *wrong = compare_mounts(true, &where);
        if (replaced != NULL)
            end(replaced->target, WAS_REPLACED);
        if (wrong == NULL && where == NULL)
            return;
        if (ended(STEP)) {
            sandbox.mounts = -1;
            return;
        }
        if (now() > until)
            end(wrong != NULL ? wrong->target : where, " is not mounted as it was rendered: the run is ended");
        free(where);
    }
}

static void tell(const char *word)
{
    if (write(STDOUT_FILENO, word, strlen(word)) < 0)
        exit(REFUSED);
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDOUT_FILENO) < 0)
        exit(REFUSED);
    close(nothing);
}

_Noreturn void watch_sandbox(void)
{
    first = options.pid;
    watching = host_watch(&plan);
    if (first > 0)
        begin();
    else if (options.root[0] != '\0')
        begin_here();
    else
        hold_covers();
    tell("mounted\n");
    if (options.pid_file != NULL)
        find();
    follow();
}
