/*
 * mount-watch PLAN OPTION ...: sees that what is mounted in a sandbox is what was planned, and stays so.
 *
 *   --pid NUMBER      the sandbox's first process, which waits before it runs the command
 *   --waits-on NUMBER the descriptor from which it reads then
 *   --private         let nothing come in that is mounted on the host from now on
 *   --pid-file FILE   the number of the first process will be in this file, of a container that doesn't wait
 *   --input           standard input ends with the launcher, and we with it
 *
 * Says "mounted" on standard output when all is as it should be, once, and closes it. What is replaced while the
 * sandbox runs is said on standard error, and its first process is killed. Exits with 0 when the sandbox has ended by
 * itself, with 9 when something was replaced, and with 125 when nothing may be run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "watch.h"

enum { REPLACED = 9, REFUSED = 125, LOOK = 250, SETUP = 20000, GRACE = 1000, STEP = 5 };

static struct plan plan;
static struct sandbox sandbox = {-1, -1, -1, -1};
static struct inside inside = {{-1, -1}};
static int watching = -1, waits_on = -1;
static pid_t first;
static bool hold_private, until_input;
static const char *pid_file;

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* First it is ended, then it is said: nobody inside may hold that up by not reading. */
static void refuse(const char *before, const char *path, const char *after)
{
    if (sandbox.process >= 0)
        sandbox_end(&sandbox, first);
    say(before, path, after);
    exit(REFUSED);
}

static void end(const char *path, const char *what)
{
    if (sandbox.process >= 0)
        sandbox_end(&sandbox, first);
    say("", path, what);
    exit(REPLACED);
}

static const char WAS_REPLACED[] = " was replaced on the host while this ran: the run is ended";

/* Whether a process that was let go has ended, or will at once. */
static bool ended(int milliseconds)
{
    struct pollfd each[] = {{.fd = sandbox.handle, .events = POLLIN}, {.fd = until_input ? 0 : -1, .events = POLLIN}};
    if (poll(each, 2, milliseconds) <= 0)
        return false;
    return each[0].revents != 0 || each[1].revents != 0;
}

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

/* What was replaced where nobody inside can write is hidden again. */
static bool hidden_again(struct record *record)
{
    struct mounts mounts;
    if (!record->again || inside.spaces[1] < 0 || !inside_hide(&inside, record))
        return false;
    host_hold(record, watching);
    record->gone = record->held < 0;
    if (record->gone)
        return true;
    if (!mounts_read(sandbox.mounts, &mounts))
        return false;
    const struct mount *mount = mounts_at(&mounts, record->target);
    bool there = strcmp(mount->point, record->target) == 0;
    record->mount = mount->id;
    mounts_free(&mounts);
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
            end(wrong->target, WAS_REPLACED);
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
            end(plan.records[index].target, WAS_REPLACED);
}

static void follow(void)
{
    for (;;) {
        struct pollfd each[] = {
            {.fd = sandbox.handle, .events = POLLIN},
            {.fd = sandbox.mounts, .events = POLLPRI},
            {.fd = watching, .events = POLLIN},
            {.fd = until_input ? 0 : -1, .events = POLLIN},
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
        open_again();
        int waits = waits_on < 0 ? -1 : sandbox_waits(&sandbox, waits_on);
        if (waits == 1) {
            open_again();
            return;
        }
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

/* Before the command is let go. */
static void begin(void)
{
    if (!sandbox_open(first, &sandbox) || !sandbox_is_first(&sandbox))
        exit(ended(0) || sandbox.process < 0 ? 0 : REFUSED);
    settle();
    if (hold_private && (!inside_open(sandbox.process, &inside) || !inside_private(&inside)))
        refuse("the sandbox's mounts can't be made private (", strerror(errno), "): nothing was run");
    hold_covers();
    for (int tries = 0;; tries++) {
        char *where;
        const struct record *wrong = compare_mounts(true, &where);
        if (wrong == NULL && where == NULL)
            return;
        if (ended(0))
            exit(0);
        if (wrong != NULL)
            refuse("", wrong->target, " is not mounted as it was rendered: nothing was run");
        if (tries == 100 || !hold_private || !inside_remove(&inside, where))
            refuse("", where, " was mounted inside, and can be written: nothing was run");
        free(where);
    }
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

/* A container is looked at as soon as it is there. */
static void find(void)
{
    while ((first = number_in(pid_file)) <= 0) {
        if (watching >= 0 && host_events(watching))
            compare_all();
        if (ended(STEP)) {
            compare_all();
            exit(0);
        }
    }
    if (!sandbox_open(first, &sandbox)) {
        sandbox.process = sandbox.mounts = -1;
        return;
    }
    hold_covers();
    for (long until = now() + GRACE;;) {
        char *where;
        open_again();
        const struct record *wrong = compare_mounts(true, &where);
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

static void read_plan(const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    if (file < 0 || fstat(file, &status) != 0 || status.st_size > 1 << 26 ||
        (text = malloc((size_t)status.st_size + 1)) == NULL || read(file, text, (size_t)status.st_size) != status.st_size)
        refuse("the plan of mounts can't be read: ", path, "");
    close(file);
    const char *fault = plan_parse(text, (size_t)status.st_size, &plan);
    if (fault != NULL)
        refuse("the plan of mounts can't be used: ", fault, "");
}

static void prepare(void)
{
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE};
    for (size_t index = 0; index < sizeof ignored / sizeof *ignored; index++)
        signal(ignored[index], SIG_IGN);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
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

int main(int count, char **words)
{
    for (int index = 2; index < count; index++) {
        const char *value = index + 1 < count ? words[index + 1] : "";
        if (strcmp(words[index], "--private") == 0)
            hold_private = true;
        else if (strcmp(words[index], "--input") == 0)
            until_input = true;
        else if (strcmp(words[index], "--pid") == 0 && ++index < count)
            first = (pid_t)strtol(value, NULL, 10);
        else if (strcmp(words[index], "--waits-on") == 0 && ++index < count)
            waits_on = (int)strtol(value, NULL, 10);
        else if (strcmp(words[index], "--pid-file") == 0 && ++index < count)
            pid_file = value;
        else
            count = 0;
    }
    if (count < 2)
        refuse("usage: mount-watch PLAN OPTION ...", "", "");
    prepare();
    read_plan(words[1]);
    watching = host_watch(&plan);
    if (first > 0)
        begin();
    tell("mounted\n");
    if (pid_file != NULL)
        find();
    follow();
}
