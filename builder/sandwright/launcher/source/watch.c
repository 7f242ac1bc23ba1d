/* The mount watch: a separate process that compares the mounts with the plan before the command starts, and
 * again after each event. It reports when all mounts are as planned, ends the sandbox when something is
 * replaced, and ends when the other end of `over` is closed. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "launch.h"
#include "watch.h"

enum { LOOK = 250, SETUP = 20000, ANSWER = 20000, GRACE = 1000, STEP = 5, REPLACED = 9 };
enum { MOUNTED = 'm', WELL = 'w', SILENT = '-' }; /* messages of the watch */

static struct watch options;
static struct mount_plan plan;
static int over = -1;
static struct sandbox sandbox = {-1, -1, -1, -1};
static struct inside inside = {{-1, -1}, false};
static struct host_watch host = {.inotify = -1};
static pid_t first;
static const char *root;
static const struct strv *denied, *writable;
static const char *appeared = "";

/* Ends the run before it reports why: a program inside could delay the report by not reading its standard
 * error. */
static _Noreturn void leave_watch(int status)
{
    sandbox_end(&sandbox);
    _exit(status);
}

static _Noreturn void forbid(const char *format, const char *path)
{
    sandbox_end(&sandbox);
    die("%s: nothing was run", xasprintf(format, path));
}

/* Whether a process that may run has ended, or will end in this time. With `told`, an event on the host ends
 * the wait, too. */
static bool ended_or_told(int milliseconds, bool told)
{
    struct pollfd each[] = {
        {.fd = sandbox.handle, .events = POLLIN},
        {.fd = over, .events = POLLIN},
        {.fd = told ? host.inotify : -1, .events = POLLIN},
    };
    if (poll(each, 3, milliseconds) <= 0)
        return false;
    return each[0].revents != 0 || each[1].revents != 0;
}

static bool ended(int milliseconds)
{
    return ended_or_told(milliseconds, false);
}

static void kill_now(void)
{
    if (inside.here)
        kill(-1, SIGKILL);
    else
        sandbox_end(&sandbox);
}

/* Waits for a container that does not exist yet, and ends it then. If that is impossible, the method ends
 * it. */
static void kill_it(void)
{
    while (sandbox.handle < 0 && options.wait && !ended(STEP))
        if ((first = (pid_t)number_in(options.pid_file)) > 0)
            sandbox_open(first, &sandbox);
    kill_now();
}

static _Noreturn void end(const char *path, const char *what)
{
    kill_it();
    warn("%s%s: the run was stopped", path, what);
    _exit(REPLACED);
}

static const char WAS_REPLACED[] = " was replaced on the host during the run";

/* The first record whose mount differs from the plan. Reads the list again if it changed while it was
 * read. */
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

/* ---- Git's index: programs on the host replace it in normal work, and it can point Git on the host to other
 * repositories */
static volatile sig_atomic_t was_opened;
static const char *git_index; /* NULL: not watched; there is at most one */

static void opened_for_writing(int signal)
{
    (void)signal;
    was_opened = true;
    kill_now();
}

/* Once no process writes to it any more, moves an index that Git must not use away: a shell or an editor on
 * the host may run `git status` at any moment. */
static _Noreturn void end_for_index(const char *fault)
{
    const char *aside = xasprintf("%s.refused", git_index);
    kill_it();
    (void)ended(GRACE);
    bool moved = index_hold(git_index, writable) != NULL && rename(git_index, aside) == 0;
    warn("%s can no longer be trusted, because %s: the run was stopped", git_index, fault);
    if (moved)
        warn("the index is now %s: examine it, and create another one with `git reset`", aside);
    _exit(REPLACED);
}

/* Before the command starts. */
static void hold_index(void)
{
    struct sigaction action = {.sa_handler = opened_for_writing};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGIO);
    if (sigaction(SIGIO, &action, NULL) != 0 || sigprocmask(SIG_UNBLOCK, &set, NULL) != 0)
        forbid("cannot receive signals (%s)", strerror(errno));
    for (size_t index = 0; index < plan.count; index++)
        if (plan.records[index].rebound)
            git_index = plan.records[index].source;
    const char *fault = git_index == NULL ? NULL : index_hold(git_index, writable);
    if (fault != NULL)
        forbid("%s", xasprintf("%s cannot be trusted, because %s", git_index, fault));
}

/* ---- mounts over replaced files */
/* Whether the mount shows the file that the host has now, not the previous one. */
static bool lies_there(struct record *record)
{
    struct mounts mounts;
    struct stat seen, held;
    if (!mounts_read(sandbox.mounts, &mounts))
        return false;
    const struct mount *mount = mounts_at(&mounts, record->target, record->length);
    bool there = strcmp(mount->point, record->target) == 0 && mount->readonly;
    record->mount = mount->id;
    mounts_free(&mounts);
    return there && (!record->rebound || (look_inside(sandbox.root, record->target, &seen) == 0 &&
                                          fstat(record->held, &held) == 0 && same_file(&seen, &held)));
}

static bool cover_again(struct record *record)
{
    bool there = false;
    for (int tries = 0; tries < 100 && !there; tries++) {
        bool covered = options.by_name || (record->rebound ? inside_rebind : inside_hide)(&inside, record->target);
        host_hold(&host, record);
        record->gone = record->held < 0;
        there = covered && (options.by_name || record->gone || lies_there(record));
    }
    return there;
}

/* Covers a replaced path again if no program inside can write there, even if it is replaced several times. */
static bool covered_again(struct record *record)
{
    bool can = options.by_name || inside.spaces[1] >= 0 || inside.here;
    if (!can || !(record->again || record->rebound) || !cover_again(record))
        return false;
    const char *fault = record->rebound ? index_hold(record->source, writable) : NULL;
    if (fault != NULL)
        end_for_index(fault);
    return true;
}

/* Compares the host's files and, with `inside_too`, the mounts inside. */
static void compare_all(bool inside_too)
{
    for (int tries = 0; tries < 1000; tries++) {
        char *where = NULL;
        const struct record *wrong = host_compare(&plan);
        if (wrong == NULL && inside_too && sandbox.mounts >= 0)
            wrong = compare_mounts(false, &where);
        if (where != NULL)
            end(where, " was mounted inside during the run and is writable");
        if (wrong == NULL)
            return;
        if (!covered_again(&plan.records[wrong - plan.records]))
            end(wrong->target + strlen(root), WAS_REPLACED);
    }
    end("the mounts", " changed too often to be checked");
}

/* Covers the index first, because programs inside must not write to it meanwhile. */
static void cover_index_again(void)
{
    const struct record *wrong = git_index == NULL ? NULL : host_compare(&plan);
    if (wrong != NULL && wrong->rebound)
        (void)covered_again(&plan.records[wrong - plan.records]);
}

/* Paths that had disappeared may exist again. */
static void look_for_gone(void)
{
    struct stat status;
    for (size_t index = 0; index < plan.count; index++)
        if (plan.records[index].gone && lstat(plan.records[index].source, &status) == 0 &&
            !covered_again(&plan.records[index]))
            end(plan.records[index].target + strlen(root), WAS_REPLACED);
}

/* Hides denied names that have been created on the host, or that lead elsewhere now. Returns whether all are
 * hidden; if not, the run ends. */
static bool hide_denied(void)
{
    if (denied->count == 0)
        return true;
    for (int tries = 0; tries < 1000; tries++) {
        struct mounts mounts;
        bool can_hide = inside.spaces[1] >= 0 || inside.here;
        if (can_hide && !mounts_read(sandbox.mounts, &mounts))
            continue;
        const char *path = absent_find(denied, &plan, can_hide ? &mounts : NULL, sandbox.root, root, &host);
        if (can_hide)
            mounts_free(&mounts);
        if (path == NULL)
            return true;
        appeared = path;
        if (!can_hide || has_second_spelling(path + strlen(root)))
            return false;
        (void)inside_hide(&inside, path); /* a path that has disappeared again is not found */
    }
    return false;
}

static void hide_denied_or_end(void)
{
    if (!hide_denied())
        end(appeared + strlen(root), " is denied and was created on the host during the run");
}

/* Ends without an error. The kernel takes milliseconds to close an inotify descriptor (SRCU), so the watch
 * closes everything else first, and no other process waits for it. */
static _Noreturn void leave_well(void)
{
    if (host.config_locked && options.tells)
        warn("cannot write Git's configuration inside, because it names programs that the host's Git runs: run this "
             "outside, or add filesystem.git: [config]");
    dup2(host.inotify, 0);
    syscall(SYS_close_range, 1, over - 1, 0);
    syscall(SYS_close_range, over + 1, ~0U, 0);
    (void)!write(over, (char[]){WELL}, 1);
    _exit(0);
}

static _Noreturn void follow(void)
{
    for (;;) {
        struct pollfd each[] = {
            {.fd = sandbox.handle, .events = POLLIN},
            {.fd = sandbox.mounts, .events = POLLPRI},
            {.fd = host.inotify, .events = POLLIN},
            {.fd = over, .events = POLLIN},
        };
        if (was_opened)
            end_for_index("it was opened for writing");
        int ready = poll(each, 4, host.incomplete ? LOOK : -1);
        bool last = each[0].revents != 0 || each[3].revents != 0 || (ready < 0 && errno != EINTR);
        bool told = (each[2].revents != 0 && host_events(&host)) || host.incomplete;
        if (told && !last) {
            cover_index_again();
            hide_denied_or_end();
            look_for_gone();
        }
        /* At the end, mounts are compared only if they have changed since the last time. */
        if (told || last || each[1].revents != 0)
            compare_all(told || each[1].revents != 0);
        if (last)
            leave_well();
    }
}

/* An open mountinfo shows the mounts below the root that the process had at the time, so open it again after
 * pivot_root. */
static void open_again(void)
{
    if (sandbox.mounts >= 0)
        close(sandbox.mounts);
    if (sandbox.root >= 0)
        close(sandbox.root);
    sandbox.mounts = openat(sandbox.process, "mountinfo", O_RDONLY | O_CLOEXEC);
    sandbox.root = openat(sandbox.process, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Waits until all mounts exist. bubblewrap has made them when process 1 waits; if that can't be seen, waits
 * for the mounts themselves, and polls less often the longer it takes. */
static void settle(void)
{
    long began = milliseconds();
    int step = 2;
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
        if (ended(step))
            _exit(0);
        step = 1 + (int)(milliseconds() - began) / 8;
        if (milliseconds() > began + SETUP)
            forbid("the sandbox's %s mounts were not made in time; list directories with many repositories in filesystem.readonly",
                   xasprintf("%zu", plan.count));
    }
}

static void hold_placeholders(void)
{
    for (size_t index = 0; index < plan.count; index++)
        if (plan.records[index].kind == PLACEHOLDER_FILE || plan.records[index].kind == PLACEHOLDER_DIRECTORY)
            host_hold(&host, &plan.records[index]);
}

static void compare_before(void)
{
    for (int tries = 0;; tries++) {
        char *where;
        const struct record *wrong = compare_mounts(true, &where);
        if (wrong == NULL && where == NULL)
            return;
        if (ended(0))
            _exit(0);
        /* Covers a path that the host has replaced meanwhile, before the command can see it. */
        if (wrong != NULL && (tries == 100 || !covered_again(&plan.records[wrong - plan.records])))
            forbid("%s is not mounted as it was rendered", wrong->target + strlen(root));
        if (wrong == NULL && (tries == 100 || !inside_remove(&inside, where)))
            forbid("%s was mounted inside and is writable", where);
        free(where);
    }
}

/* Before the command starts. */
static void begin(void)
{
    if (!sandbox_open(first, &sandbox) || !sandbox_is_first(&sandbox))
        _exit(ended(0) || (sandbox.handle < 0 && errno == ESRCH) ? 0 : NOT_RUN);
    settle();
    if (!inside_open(sandbox.process, &inside) || !inside_prepare(&inside, &plan))
        forbid("cannot make the sandbox's mounts private, or limit the memory of mounts on placeholders (%s)",
               strerror(errno));
    hold_placeholders();
    compare_before();
}

/* In this process's namespaces, in which a directory becomes the command's root. */
static void begin_here(void)
{
    if (!sandbox_is_here())
        forbid("the namespaces of the root %s belong to another sandbox", root);
    inside.here = true;
    sandbox.mounts = open("/proc/thread-self/mountinfo", O_RDONLY | O_CLOEXEC);
    sandbox.root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t index = 0; index < plan.count; index++) {
        struct record *each = &plan.records[index];
        each->target = xasprintf("%s%s", root, each->length == 1 ? "" : each->target);
        each->length = strlen(each->target);
    }
    if (sandbox.mounts < 0 || !inside_private(&inside))
        forbid("cannot make the sandbox's mounts private (%s)", strerror(errno));
    hold_placeholders();
    compare_before();
}

/* Waits for the PID of the container's first process. */
static void find(void)
{
    const char *name = base_name(options.pid_file);
    int step = STEP;
    host_watch_name(&host, xasprintf("%.*s", (int)(name - options.pid_file), options.pid_file), name);
    compare_all(false); /* sources could have been exchanged before the watch opened them */
    while ((first = (pid_t)number_in(options.pid_file)) <= 0) {
        if (host.inotify >= 0 && host_events(&host)) {
            hide_denied_or_end();
            compare_all(true);
            step = STEP;
        }
        if (ended_or_told(step, true)) {
            compare_all(true);
            _exit(0);
        }
        step = step < LOOK ? step + step / 16 + 1 : LOOK;
    }
}

/* False: the process has ended. */
static bool compare_container(void)
{
    for (long until = milliseconds() + GRACE;;) {
        char *where;
        open_again();
        const struct record *replaced = host_compare(&plan), *wrong = compare_mounts(true, &where);
        if (replaced != NULL)
            end(replaced->target, WAS_REPLACED);
        if (wrong == NULL && where == NULL)
            return true;
        if (ended(STEP))
            return false;
        if (milliseconds() > until)
            end(wrong != NULL ? wrong->target : where, " is not mounted as it was rendered");
        free(where);
    }
}

/* Checks a container as soon as its first process exists, which waits for the gate. */
static void begin_container(void)
{
    find();
    bool seen = sandbox_open(first, &sandbox) && !options.opaque, ends = false;
    if (seen)
        ends = !compare_container();
    else
        compare_all(false);
    if ((!seen || ends) && sandbox.mounts >= 0)
        close(sandbox.mounts);
    if (!seen || ends)
        sandbox.mounts = -1;
    if (options.gate != NULL && !ends)
        open_gate(options.gate);
}

static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Closes the descriptors that the monitor holds, so that they do not stay open because of the watch. */
static void keep_only(int kept)
{
    redirect_to_null(0, 1);
    if (dup2(options.words, 2) < 0)
        _exit(NOT_RUN);
    syscall(SYS_close_range, 3, kept - 1, 0);
    syscall(SYS_close_range, kept + 1, ~0U, 0);
}

static _Noreturn void watch_sandbox(const struct run *run)
{
    leave = leave_watch;
    ignore_signals();
    plan = watch_plan_checked(run);
    keep_only(over);
    raise_limit();
    root = options.root == NULL ? "" : options.root;
    denied = &run->plan.denied_names;
    writable = &run->plan.writable;
    first = options.first;
    host_watch(&host, &plan);
    if (first > 0)
        begin();
    else if (options.root != NULL)
        begin_here();
    else
        hold_placeholders();
    hold_index();
    if (!hide_denied())
        forbid("%s is denied and was created on the host after this was rendered: render it again", appeared + strlen(root));
    if (write(over, (char[]){MOUNTED}, 1) != 1)
        _exit(NOT_RUN);
    if (options.pid_file != NULL)
        begin_container();
    follow();
}

/* `sandwright run` then reports this itself, because it knows the command. */
static bool runs_git(const struct run *run)
{
    for (char **word = run->command; *word != NULL; word++)
        if (strcmp(base_name(*word), "git") == 0)
            return true;
    return false;
}

void watch_start(struct run *run, struct watch *watch)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        die_errno("cannot watch the mounts");
    watch->mounted = false;
    watch->words = memfd_create("words", MFD_CLOEXEC);
    leave_alone(0);
    watch->process = fork_helper(&watch->handle);
    if (watch->words < 0 || watch->process < 0)
        die_errno("cannot watch the mounts");
    if (watch->process == 0) {
        options = *watch;
        options.tells = !runs_git(run);
        over = ends[1];
        watch_sandbox(run);
    }
    close(ends[1]);
    watch->says = ends[0];
}

/* The next message of the watch. 0: it has ended. SILENT: it is blocked itself, for example by an
 * unresponsive file system. */
static char hear(const struct watch *watch)
{
    char said;
    ssize_t got;
    if (!wait_readable(watch->says, milliseconds() + (launcher_there() ? ANSWER : GRACE)))
        return SILENT;
    while ((got = read(watch->says, &said, 1)) < 0 && errno == EINTR)
        ;
    return got == 1 ? said : 0;
}

bool watch_mounted(struct watch *watch)
{
    return watch->mounted = hear(watch) == MOUNTED;
}

int watch_end(struct watch *watch)
{
    char said;
    shutdown(watch->says, SHUT_WR);
    while ((said = hear(watch)) == MOUNTED)
        ;
    close(watch->says);
    if (said == WELL) {
        leave_alone(watch->process);
        if (watch->handle >= 0)
            close(watch->handle);
        warn_again(watch->words);
        return 0;
    }
    int status = wait_for(watch->process, watch->handle, said == SILENT ? 0 : ANSWER);
    warn_again(watch->words);
    if (status == 0 || status == NOT_RUN)
        return status;
    if (status < 0 || status > 128)
        warn(said == SILENT ? "the mount watch does not answer, perhaps because a file system does not: the run was stopped"
                           : "the mount watch was killed, so the run was stopped");
    return watch->mounted ? KILLED : NOT_RUN;
}
