/* The method user: a Unix account for each project. The part that needs root is this program, too, which sudo
 * starts (`--as-root`), unless the launcher is root already. It creates namespaces, and in them a first
 * process, which mounts the run's root, switches to the account in a child, and executes the command there.
 * When the first process ends, all others end.
 *
 * The root half takes five things from its caller: the command, which runs with the account's rights only;
 * its environment, which only the command gets; a socket; memory for denials; and a socket for further
 * commands, which it passes unread to a process that has switched to the account. They come from the monitor.
 * The root half trusts only that the monitor runs this same program, and is its ancestor. It reads the mounts
 * and the account again, from beside the program that sudo was allowed to start.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "refusals.h"
#include "requests.h"
#include "user.h"

enum { OURS, THEIRS, MOST = 1 << 26, SUDO_ASKS = 10 };

/* A socket pair: signals to the root half; bytes back when the command is executed or has stopped. */
static int ends[2] = {-1, -1};
static int environment = -1; /* the root half's input: the numbers of four descriptors, and the environment */
static int requests = -1;        /* the end for further commands inside (requests.h) */
static const char *sudo;         /* NULL if the launcher is root */
static bool running;

/* ---- the caller's half */
static void user_check(struct run *run)
{
    struct stat status;
    const struct plan *plan = &run->plan;
    notify_filter(run, "seccomp.bpf");
    refusals_share();
    const struct passwd *account = getpwnam(plan->user.account);
    if (account == NULL || stat(plan->user.root, &status) != 0 || !S_ISDIR(status.st_mode))
        die("this project has no account on this machine: \"sandwright account-setup\" shows the commands that create one");
    if (is_below(account->pw_dir, strlen(account->pw_dir), plan->user.root,
                 (size_t)(base_name(plan->user.root) - plan->user.root - 1)))
        die("the account's home directory is writable in runs, and programs of the host obey files there: "
            "\"sandwright account-setup --yes\" corrects /etc/passwd");
    if (geteuid() == 0) {
        if (plan->proxy)
            egress_check(run);
        return;
    }
    if (plan->proxy || ports_wanted(run))
        die("network.mode: proxy, network.localhost and network.expose need root with this method");
    if ((sudo = find_program(run, "sudo")) == NULL)
        die("changing to the account needs root, and sudo is not installed");
    char *const words[] = {(char *)sudo, "-n", "true", NULL};
    if (capture(words, NULL, SUDO_ASKS, false) != 0)
        die("changing to the account needs root, and sudo asks for a password");
}

static void tell_word(const char *word)
{
    size_t length = strlen(word) + 1;
    for (ssize_t wrote; length > 0; word += wrote, length -= (size_t)wrote)
        if ((wrote = write(environment, word, length)) <= 0)
            die_errno("cannot pass on the environment");
}

static void user_prepare(struct run *run)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 ||
        (environment = memfd_create("environment", MFD_CLOEXEC)) < 0)
        die_errno("cannot pass on the environment");
    run->wakes = ends[OURS];
    tell_word(xasprintf("%d", ends[THEIRS]));
    tell_word(xasprintf("%d", run->lock));
    tell_word(xasprintf("%d", refusals_memory()));
    tell_word(xasprintf("%d", requests = requests_pair(run)));
    for (size_t index = 0; index < run->passed.count; index++)
        tell_word(run->passed.at[index]);
}

/* Reads the first process's messages. Returns whether all processes have ended. */
static bool hear(void)
{
    char word;
    ssize_t got;
    while ((got = recv(ends[OURS], &word, 1, MSG_DONTWAIT)) == 1) {
        if (word == HAS_STOPPED)
            tell_stopped();
        if (word == IS_EXECUTED) {
            close(requests); /* the root half has its own copy */
            requests = -1;
            tell_executed();
        }
        running = true;
    }
    return got == 0;
}

static void user_readable(struct run *run)
{
    if (hear())
        run->wakes = -1;
}

static bool user_deliver(struct run *run, int number)
{
    char word = (char)number;
    (void)run;
    hear();
    return running && send(ends[OURS], &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

static void user_end(struct run *run)
{
    (void)run;
    shutdown(ends[OURS], SHUT_RDWR);
}

/* sudo exits with 1 if it starts nothing. The process that it has started belongs to root: if sudo is killed,
 * that process ends because its socket is closed. */
static int user_status(struct run *run, int status)
{
    hear();
    user_end(run);
    return running ? exit_status(status) : exit_status(status) == KILLED ? KILLED : NOT_RUN;
}

static void user_clean(struct run *run)
{
    if (run->plan.proxy)
        egress_close(run);
}

/* The nearest ancestor that runs this program; sudo and its processes are in between. */
static pid_t find_monitor(void)
{
    struct stat own, other;
    if (stat("/proc/self/exe", &own) != 0)
        return 0;
    for (pid_t process = getppid(); process > 1; process = parent_of(process))
        if (stat(xasprintf("/proc/%d/exe", (int)process), &other) == 0 && own.st_dev == other.st_dev &&
            own.st_ino == other.st_ino)
            return process;
    return 0;
}

static int number(const char *word)
{
    char *end;
    long found = strtol(word, &end, 10);
    return *word == '\0' || *end != '\0' || found < 0 || found > 1 << 20 ? -1 : (int)found;
}

void user_as_root(struct run *run, char **words)
{
    clearenv();
    if (run->method != &user_method || geteuid() != 0 || setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0 ||
        setgroups(0, NULL) != 0)
        die("root runs this part of the launcher");
    check_descriptors(run);
    if (words[0] == NULL || words[1] == NULL)
        die("give a command to run");
    run->command = words + 1;
    check_artifacts(run);
    pid_t monitor = find_monitor();
    int handle = monitor > 1 ? (int)syscall(SYS_pidfd_open, monitor, 0) : -1;
    if (handle < 0 || find_monitor() != monitor)
        die("the launcher has exited");
    int said = (int)syscall(SYS_pidfd_getfd, handle, number(words[0]), 0);
    char *content = xcalloc(MOST + 1);
    ssize_t length = said < 0 ? -1 : pread(said, content, MOST, 0), at = 0;
    struct strv all = {0}, given = {0};
    while (at < length) {
        strv_push(&all, content + at);
        at += (ssize_t)strlen(content + at) + 1;
    }
    int socket = all.count < 4 ? -1 : (int)syscall(SYS_pidfd_getfd, handle, number(all.at[0]), 0);
    if (socket < 0)
        die_errno("the launcher has exited");
    if (number(all.at[1]) >= 0) /* kept open until all processes here have ended */
        run->lock = (int)syscall(SYS_pidfd_getfd, handle, number(all.at[1]), 0);
    notify_filter(run, "seccomp.bpf");
    if (!refusals_take((int)syscall(SYS_pidfd_getfd, handle, number(all.at[2]), 0)))
        die("cannot report denials");
    run->requests = number(all.at[3]) < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, handle, number(all.at[3]), 0);
    for (size_t index = 4; index < all.count; index++)
        strv_push(&given, all.at[index]);
    root_half(run, socket, &given);
}

static void user_start(struct run *run)
{
    struct strv words = {0};
    if (geteuid() == 0) {
        sigset_t set;
        bool apart = run->plan.proxy || ports_wanted(run);
        if ((apart && unshare(CLONE_NEWNET) != 0) || (run->plan.proxy && !egress_open(run, getpid(), false)) ||
            (ports_wanted(run) && !ports_open(network_of(getpid()), false)))
            die("nothing was run");
        run->plan.user.network = run->plan.user.network && !apart;
        close(ends[OURS]);
        run->requests = requests;
        caught_signals(&set);
        root_half(run, ends[THEIRS], &run->passed);
    }
    char *const first[] = {(char *)sudo, "-n", "--", xasprintf("%s/launch", run->directory), "--as-root", xasprintf("%d", environment), NULL};
    strv_push_all(&words, first);
    strv_push_all(&words, run->command);
    execve(sudo, words.at, environ);
    die_errno("cannot start %s", sudo);
}

const struct method user_method = {
    .name = "user",
    .limits = true,
    .check = user_check,
    .prepare = user_prepare,
    .start = user_start,
    .readable = user_readable,
    .deliver = user_deliver,
    .end = user_end,
    .status = user_status,
    .clean = user_clean,
};
