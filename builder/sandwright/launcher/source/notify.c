/* The supervisor: a process beside the sandbox that answers the seccomp notifications of programs inside
 * (seccomp_unotify(2)). If it ends, these calls fail with ENOSYS. */
#define _GNU_SOURCE
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "closed.h"
#include "landlock.h"
#include "launch.h"
#include "notify.h"
#include "record.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
enum { SYNC_WAKE_UP = 1 /* Linux 6.6 */ };

static struct served served = {.broker = {.listener = -1, .inside = -1, .outside = -1}};
static int ends[2] = {-1, -1}, handle = -1;
static int at; /* the number inside of the socket to the supervisor; the next number is the filter */
/* Set where a runtime connects to pass the listener on: only descendants of this process may; else 0. */
static pid_t monitor;
static pid_t supervisor;
static uid_t account; /* user: the owner of the files that the supervisor creates; else 0 */
static gid_t group;

/* ---- the start */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare" /* in musl's CMSG_NXTHDR */

/* Receives the listener from the first program inside. Returns that program's PID, as the kernel reports
 * it. */
static pid_t take_listener(int channel)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr head;
    } control;
    char word;
    struct iovec part = {&word, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct ucred who = {0};
    ssize_t got;
    while ((got = recvmsg(channel, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    for (struct cmsghdr *each = got == 1 ? CMSG_FIRSTHDR(&message) : NULL; each != NULL; each = CMSG_NXTHDR(&message, each)) {
        if (each->cmsg_type == SCM_RIGHTS && each->cmsg_len == CMSG_LEN(sizeof(int)))
            memcpy(&served.broker.listener, CMSG_DATA(each), sizeof(int));
        else if (each->cmsg_type == SCM_CREDENTIALS)
            memcpy(&who, CMSG_DATA(each), sizeof who);
    }
    return served.broker.listener < 0 ? 0 : who.pid;
}
#pragma GCC diagnostic pop

/* Keeps no rights over files but those of the account that runs inside, and CAP_SYS_PTRACE if it has it, with
 * which it reads processes inside. */
static void drop_rights(void)
{
    if (account != 0 && (setgroups(0, NULL) != 0 || (setfsgid(group), setfsuid(account), (uid_t)setfsuid((uid_t)-1) != account)))
        die_errno("cannot change to the account");
    if (!keep_capabilities(effective_capabilities() & 1ULL << CAP_SYS_PTRACE))
        die_errno("cannot drop privileges");
}

static void learn_network(int process)
{
    struct stat own, there;
    socklen_t length = sizeof served.broker.network;
    if (stat("/proc/self/ns/net", &own) != 0 || fstatat(process, "ns/net", &there, 0) != 0)
        die_errno("cannot examine the sandbox's network namespace");
    if (same_file(&own, &there))
        die("the sandbox has no separate network namespace, which identifies its Unix sockets");
    if ((served.broker.inside = diag_open_at(process)) < 0 || (served.broker.outside = diag_open()) < 0 ||
        diag_listens(served.broker.inside, 0, 0) != 0 || diag_listens(served.broker.outside, 0, 0) != 0)
        die("cannot supervise connections, which network.own_sockets needs: this kernel has no unix_diag");
    if (getsockopt(served.broker.inside, SOL_SOCKET, SO_NETNS_COOKIE, &served.broker.network, &length) != 0)
        served.broker.network = 0;
}

/* `own`: programs inside may connect to their own sockets too, not just to the listed ones. */
static void look_into(pid_t first, bool own)
{
    _cleanup_close_ int process = open(xasprintf("/proc/%d", (int)first), O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int there = (int)syscall(SYS_pidfd_open, first, 0);
    if (process >= 0 && own)
        learn_network(process);
    drop_rights();
    _cleanup_close_ int copied = there < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, there, at, 0);
    if (process < 0 || copied < 0)
        die_errno("cannot supervise connections, which network.own_sockets and unix_sockets need (pidfd_getfd(2))");
}

/* Accepts the runtime of this run, but no other process of the user and none inside the sandbox. */
static int accept_runtime(int socket)
{
    struct ucred who;
    socklen_t length = sizeof who;
    int channel;
    while ((channel = accept4(socket, NULL, NULL, SOCK_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (channel < 0 || getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
        die_errno("cannot report denials");
    if (who.uid != geteuid() || !descends_from(who.pid, monitor))
        die("cannot report denials: process %d connected, which does not belong to the run", (int)who.pid);
    close(socket);
    return channel;
}

static void serve(int channel, bool own)
{
    if (monitor != 0)
        channel = accept_runtime(channel);
    pid_t first = take_listener(channel);
    if (first <= 0)
        _exit(0); /* the first program has ended */
    if (served.recording)
        record_begin(served.broker.listener, first);
    if (served.broker.repositories->count > 0 || served.creates)
        links_begin(&served.broker, first);
    if (served.creates)
        creation_begin(first);
    /* Many calls are expected, so the supervisor runs on the caller's processor. */
    if (served.creates || served.recording)
        ioctl(served.broker.listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, (uint64_t)SYNC_WAKE_UP);
    if (served.connects)
        look_into(first, own);
    else
        drop_rights();
    if (!notify_threads_start(&served) || (monitor == 0 && send(channel, "", 1, MSG_NOSIGNAL) != 1))
        _exit(NOT_RUN);
    close(channel);
    notify_threads_watch(NULL);
}

/* The sockets of the policy, and the bridge's if it is reached over one. */
static void list_sockets(const struct run *run)
{
    struct strv paths = {0};
    strv_extend(&paths, &run->plan.sockets.host);
    if (run->plan.shims.enabled && !run->plan.shims.loopback)
        strv_push(&paths, xasprintf("%s/socket", run->document.shims));
    if (run->plan.shims.loopback)
        served.broker.tried = xasprintf("%s/socket", run->plan.shims.place);
    served.broker.count = paths.count;
    served.broker.listed = xcalloc(served.broker.count * sizeof *served.broker.listed);
    for (size_t index = 0; index < served.broker.count; index++)
        served.broker.listed[index] = (struct listed){paths.at[index], open_without_links(AT_FDCWD, paths.at[index], O_PATH, 0)};
}

static void stand_apart(void)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere < 0 || dup2(nowhere, 0) < 0 || dup2(nowhere, 1) < 0 || prctl(PR_SET_DUMPABLE, 0) != 0)
        die_errno("cannot start the supervisor of the sandbox's sockets");
    close_others(&ends[0], 1);
}

static _Noreturn void supervise(const struct run *run)
{
    served.broker.repositories = &run->plan.repositories;
    served.creates = run->plan.uncreatable.count > 0;
    ignore_signals();
    stand_apart();
    if (served.connects)
        list_sockets(run);
    serve(ends[0], run->plan.sockets.own);
    _exit(0);
}

/* ---- under landlock, the supervisor is the command's parent: with Yama's ptrace_scope 1, only an ancestor
 * may read the addresses in the memory of a process */
static _Noreturn void end_as(int status)
{
    sigset_t one;
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (number != 0) {
        signal(number, SIG_DFL);
        raise(number);
        sigemptyset(&one);
        sigaddset(&one, number);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
    }
    _exit(number != 0 ? 128 + number : WEXITSTATUS(status));
}

static void reap(pid_t command)
{
    int status;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
        if (ended == command)
            end_as(status);
}

static _Noreturn void serve_until_end(pid_t command, const sigset_t *signals)
{
    for (;;) {
        int number = sigwaitinfo(signals, NULL);
        reap(command);
        if (number > 0 && number != SIGCHLD)
            kill(command, number);
    }
}

static bool can_look_into(pid_t process)
{
    _cleanup_close_ int memory = open(xasprintf("/proc/%d/mem", (int)process), O_RDONLY | O_CLOEXEC);
    return memory >= 0;
}

/* Nothing is started before the supervisor is known to be able to do its work. */
static void serve_below(int channel)
{
    pthread_t looking;
    pid_t first = take_listener(channel);
    if (first <= 0)
        return; /* it has ended, and has reported the reason */
    if (served.broker.names && !can_look_into(first))
        die("cannot supervise the files of the sandbox's kernel here (ptrace(2))");
    if (!served.broker.names && (!can_look_into(first) || (served.broker.outside = diag_open()) < 0 ||
                                    diag_listens(served.broker.outside, 0, 0) != 0))
        die("cannot supervise connections (ptrace(2), sock_diag(7)), which network.own_sockets, unix_sockets, "
            "localhost and mode: proxy need");
    if (!notify_threads_start(&served) || pthread_create(&looking, NULL, notify_threads_watch, NULL) != 0)
        die("cannot supervise connections: cannot create a thread");
    if (send(channel, "", 1, MSG_NOSIGNAL) != 1)
        warn("the command exited before it was started");
    close(channel);
}

/* Makes the kernel attach the sender's credentials to all messages, even to those that are sent before the
 * supervisor runs. An accepted socket inherits this from the listening one. */
static bool tells_who(int socket)
{
    int yes = 1;
    return setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0;
}

static void make_channel(void)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 || !tells_who(ends[0]))
        die_errno("cannot start the supervisor of the sandbox's sockets");
}

static void be_above(const struct run *run)
{
    static const struct strv none;
    /* Would need mounts of Git directories, which landlock does not have. */
    served.broker.repositories = &none;
    served.broker.creates_sockets = true;
    served.broker.names = has_kernel(run);
    served.broker.own = run->plan.sockets.own;
    served.broker.connects = &run->plan.landlock.ports_connect;
    served.broker.binds = &run->plan.landlock.ports_bind;
    served.broker.greeting = run->plan.proxy ? egress_greeting(&served.broker.proxy_port) : NULL;
    make_channel();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        die_errno("cannot open pidfds of the run's processes");
}

pid_t notify_above(const struct run *run, int ruleset)
{
    struct sigaction usual = {.sa_handler = SIG_DFL}, before;
    sigset_t all, given;
    pid_t above = getpid();
    be_above(run);
    sigfillset(&all);
    sigdelset(&all, INTERRUPT);
    sigaction(SIGCHLD, &usual, &before);
    sigprocmask(SIG_SETMASK, &all, &given);
    landlock_enter(ruleset);
    pid_t command = fork();
    if (command < 0)
        die_errno("cannot create a process");
    if (command == 0) {
        sigaction(SIGCHLD, &before, NULL);
        sigprocmask(SIG_SETMASK, &given, NULL);
        close(ends[0]);
        return above;
    }
    stand_apart();
    if (served.broker.names)
        umask(0); /* the kernel inside has looked at that of its programs */
    list_sockets(run);
    serve_below(ends[0]);
    serve_until_end(command, &all);
}

/* ---- launcher, monitor and child */
void notify_filter(const struct run *run, const char *name)
{
    size_t length;
    const char *content = checked_artifact(run, name, &length);
    if (!filter_parse(content, length, &served.filters[served.filter_count++]))
        die("%s/%s: refusals of filters of this kind cannot be reported", run->directory, name);
}

void notify_command(struct run *run, int descriptor)
{
    static struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (has_kernel(run)) /* bubblewrap has loaded its filter, whose refusals are not reported */
        served.filters[served.filter_count++] = (struct program){&all, 1};
    else
        notify_filter(run, "seccomp.bpf");
    refusals_share();
    if ((served.recording = record_file() != NULL))
        recorded_share();
    served.connects = run->plan.sockets.supervised;
    at = descriptor;
    const char *mode = served.connects ? "connects" : "counts", *links = run->plan.repositories.count > 0 ? ",links" : "",
               *creation = run->plan.uncreatable.count > 0 ? ",creation" : "";
    char *const words[] = {"--confine", xasprintf("%s%s%s", mode, links, creation), xasprintf("%d", at), xasprintf("%d", at + 1)};
    command_insert(run, words, sizeof words / sizeof *words);
}

static void fork_supervisor(struct run *run)
{
    supervisor = fork_helper(&handle);
    if (supervisor < 0)
        die_errno("cannot create a process");
    if (supervisor == 0)
        supervise(run);
    close(ends[0]);
    ends[0] = -1;
}

void notify_act_as(uid_t user, gid_t its_group)
{
    account = user;
    group = its_group;
}

void notify_start(struct run *run)
{
    notify_end();
    make_channel();
    fork_supervisor(run);
}

/* The socket is in the run directory, which only the user can enter. If its path is too long for an address,
 * the address goes through a descriptor of the launcher, provided that the runtime may read it. */
const char *notify_listen(struct run *run, bool apart)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = xasprintf("%s/listener", run->state);
    int directory = open(run->state, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (strlen(path) >= sizeof address.sun_path) {
        if (apart) {
            warn("cannot report denials: %s is too long", path);
            return NULL;
        }
        path = xasprintf("/proc/%d/fd/%d/listener", (int)getpid(), directory);
    }
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/listener", directory);
    ends[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (directory < 0 || ends[0] < 0 || !tells_who(ends[0]) ||
        bind(ends[0], (struct sockaddr *)&address, sizeof address) != 0 || listen(ends[0], 1) != 0)
        die_errno("cannot report refusals");
    monitor = getpid();
    fork_supervisor(run);
    return path;
}

int notify_asking(void)
{
    struct program asking = filters_joined(NULL, served.filters, served.filter_count);
    return memory_file("filter", asking.at, asking.count * sizeof *asking.at);
}

void notify_confine(bool links)
{
    confine_self(ends[1], served.filters, served.filter_count,
                 served.broker.names ? ASK_NAMES : served.broker.creates_sockets ? ASK_SOCKETS : ASK_REFUSALS,
                 links ? WITH_LINKS : 0);
    close(ends[1]);
}

int notify_channel(void)
{
    return ends[1];
}

void notify_hand_over(void)
{
    const struct program whole = served.recording ? record_ask(&served.filters[0], served.connects) : served.filters[0];
    /* Move both above the target numbers first, as dup2 to one of these could close the other. */
    int files[] = {ends[1], memory_file("filter", whole.at, whole.count * sizeof *whole.at)};
    for (int index = 0; index < 2; index++)
        files[index] = files[index] < 0 ? -1 : fcntl(files[index], F_DUPFD_CLOEXEC, at + 2);
    for (int index = 0; index < 2; index++)
        if (files[index] < 0 || dup2(files[index], at + index) < 0)
            die_errno("cannot confine the sandbox");
}

void notify_started(void)
{
    close(ends[1]);
    ends[1] = -1;
}

void notify_end(void)
{
    int status;
    if (supervisor <= 0)
        return;
    if (handle >= 0 && syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0) == 0)
        waitpid(supervisor, &status, 0); /* it may have been reaped already */
    close(handle);
    supervisor = 0;
}
