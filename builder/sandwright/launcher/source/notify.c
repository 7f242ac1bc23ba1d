/* The supervisor: a process beside the sandbox that answers the calls which the sandbox's filter hands to it
 * (seccomp_unotify(2)). When it ends, these calls fail with ENOSYS. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker.h"
#include "denied.h"
#include "landlock.h"
#include "launch.h"
#include "paths.h"
#include "record.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

enum { INTERRUPT = 64 }; /* a signal that nobody hands on */
enum { MOST = 64, STACK = 128 << 10, LOOK = 50 }; /* threads; bytes of each; milliseconds */

static struct broker broker = {.listener = -1, .inside = -1, .outside = -1};
static int program = -1, ends[2] = {-1, -1}, handle = -1;
static int at; /* the descriptor inside at which the program is, and behind it the socket to us, and the filter */
static struct program filters[2]; /* as they were rendered: of their errors the first one's counts */
static size_t filter_count;
static bool connects; /* for programs inside */
static pid_t keeper;  /* where a runtime hands over the listener, by connecting: all that descends from it may; else 0 */
static bool recording;
static pid_t supervisor;

/* ---- connect(2) that waits */
static struct waiting {
    bool used;
    uint64_t id;
    pid_t caller;
    pthread_t thread;
    long since;
} waiting[MOST];
static size_t waiting_count, threads, idle;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* One thread takes the calls: the kernel would wake all that wait for one. It answers by itself what can't wait. */
static bool taken;
static pthread_cond_t vacant = PTHREAD_COND_INITIALIZER;
static _Atomic uint64_t turn; /* of who takes them: odd while it answers */

static struct waiting *enter(uint64_t id, pid_t caller)
{
    pthread_mutex_lock(&lock);
    struct waiting *each = waiting;
    while (each->used)
        each++; /* there are as many as threads */
    *each = (struct waiting){true, id, caller, pthread_self(), milliseconds()};
    if (waiting_count++ == 0)
        pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return each;
}

static void leave_waiting(struct waiting *each)
{
    pthread_mutex_lock(&lock);
    each->used = false;
    waiting_count--;
    pthread_mutex_unlock(&lock);
}

int patient_connect(uint64_t id, pid_t thread, int file, const void *address, socklen_t length)
{
    struct waiting *own = (fcntl(file, F_GETFL) & O_NONBLOCK) != 0 ? NULL : enter(id, thread);
    int fault = connect(file, address, length) == 0 ? 0 : errno;
    if (own != NULL)
        leave_waiting(own);
    return fault;
}

static unsigned long set_of(const char *status, const char *name)
{
    const char *at = strstr(status, name);
    return at == NULL ? 0 : strtoul(at + strlen(name), NULL, 16);
}

bool has_signal(const char *status)
{
    unsigned long pending = set_of(status, "\nSigPnd:") | set_of(status, "\nShdPnd:");
    return (pending & ~(set_of(status, "\nSigBlk:") | set_of(status, "\nSigIgn:"))) != 0;
}

static bool is_called_away(const struct waiting *each)
{
    char name[32];
    snprintf(name, sizeof name, "/proc/%d/status", (int)each->caller);
    char *status = read_file(AT_FDCWD, name, 1 << 16, NULL);
    bool away = status == NULL || has_signal(status) || !broker_valid(&broker, each->id);
    free(status);
    return away;
}

/* ---- calls */
static void *work(void *nothing);

/* One more is there to take the next call. With the lock. */
static void keep_one_idle(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (idle == 0 && threads < MOST && pthread_attr_init(&attributes) == 0) {
        pthread_attr_setstacksize(&attributes, STACK);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        if (pthread_create(&thread, &attributes, work, NULL) == 0) {
            threads++;
            idle++;
        }
        pthread_attr_destroy(&attributes);
    }
}

static bool start_threads(void)
{
    pthread_mutex_lock(&lock);
    keep_one_idle();
    pthread_mutex_unlock(&lock);
    return threads > 0;
}

/* Another one takes the calls. With the lock. */
static void give_place(void)
{
    taken = false;
    idle--;
    keep_one_idle();
    pthread_cond_signal(&vacant);
}

static void take_place(void)
{
    pthread_mutex_lock(&lock);
    while (taken)
        pthread_cond_wait(&vacant, &lock);
    taken = true;
    pthread_mutex_unlock(&lock);
}

/* What is recorded is looked up where a program inside may let it wait, as in a file system of its own. With the lock. */
static void relieve(void)
{
    static uint64_t seen;
    uint64_t now = turn;
    if (now % 2 == 1 && now == seen && atomic_compare_exchange_strong(&turn, &now, now + 1))
        give_place();
    seen = now;
}

/* A signal that comes too early for connect(2) is sent again. */
static _Noreturn void *look_after(void *nothing)
{
    (void)nothing;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (waiting_count == 0 && !recording)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        poll(NULL, 0, LOOK);
        pthread_mutex_lock(&lock);
        for (size_t index = 0; index < MOST; index++)
            if (waiting[index].used && milliseconds() - waiting[index].since >= LOOK && is_called_away(&waiting[index]))
                pthread_kill(waiting[index].thread, INTERRUPT);
        relieve();
        pthread_mutex_unlock(&lock);
    }
}

/* Nobody is inside any more; else whoever called has gone. */
static bool is_over(void)
{
    struct pollfd each = {.fd = broker.listener};
    return poll(&each, 1, 0) > 0 && (each.revents & POLLHUP) != 0;
}

/* What the filters refuse, they refuse, and what is only recorded goes on as it is. -1: neither. */
static int answer_at_once(const struct seccomp_notif *call, uint32_t *flags)
{
    int which, error = filters_refusal(filters, filter_count, &call->data, &which);
    if (broker.names) /* filter 0 is the policy's: what it refuses, the launcher doesn't do for the caller either */
        return error == 0 ? EPERM : which > 0 && paths_are_named(&call->data) ? -1 : error;
    if (error != 0)
        denied_call(&call->data, error, which);
    else if (recording && !broker.keeps && record_call(call, connects))
        *flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else if (broker.keeps || (connects && is_connect(&call->data)))
        return -1;
    else
        return EPERM; /* confine.c alone refuses it */
    return error;
}

static int answer_later(const struct seccomp_notif *call, uint32_t *flags)
{
    if (broker.names)
        return paths_answer(&broker, call, flags);
    return broker.keeps ? kept_answer(&broker, call)
                        : broker_address(&broker, call->id, (pid_t)call->pid, (const uint64_t *)call->data.args, false);
}

static void send_answer(uint64_t id, int fault, uint32_t flags)
{
    struct seccomp_notif_resp answer = {.id = id, .error = -fault, .flags = flags};
    if (fault >= 0)
        ioctl(broker.listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

/* Who takes the calls answers one; or gives its place away, to do so. Whether it still has it. */
static bool answer(const struct seccomp_notif *call)
{
    uint64_t own = ++turn;
    uint32_t flags = 0;
    int fault = answer_at_once(call, &flags);
    if (fault >= 0)
        send_answer(call->id, fault, flags);
    bool kept = atomic_compare_exchange_strong(&turn, &own, own + 1);
    if (fault >= 0)
        return kept;
    if (kept) {
        pthread_mutex_lock(&lock);
        give_place();
        pthread_mutex_unlock(&lock);
    }
    fault = answer_later(call, &flags);
    send_answer(call->id, fault, flags);
    return false;
}

static void *work(void *nothing)
{
    sigset_t interrupt;
    (void)nothing;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, INTERRUPT);
    pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL);
    take_place();
    for (;;) {
        struct seccomp_notif call = {0};
        if (ioctl(broker.listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
            if (errno == EINTR || (errno == ENOENT && !is_over()))
                continue;
            if (broker.keeps) /* the command's end is still to be told */
                return NULL;
            _exit(0);
        }
        if (answer(&call))
            continue;
        pthread_mutex_lock(&lock);
        idle++;
        pthread_mutex_unlock(&lock);
        take_place();
    }
}

/* ---- the start */
static void nothing(int number)
{
    (void)number;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare" /* in musl's CMSG_NXTHDR */

/* The first program inside: its filter's listener, and its number, as the kernel tells it. */
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
            memcpy(&broker.listener, CMSG_DATA(each), sizeof(int));
        else if (each->cmsg_type == SCM_CREDENTIALS)
            memcpy(&who, CMSG_DATA(each), sizeof who);
    }
    return broker.listener < 0 ? 0 : who.pid;
}
#pragma GCC diagnostic pop

/* No rights over files but those of the account that runs inside; to look into its processes, where we had that. */
static void drop_rights(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct held[2];
    if (syscall(SYS_capget, &head, held) != 0)
        refuse_errno("rights can't be given up");
    unsigned kept = held[0].effective & 1U << CAP_SYS_PTRACE;
    held[0] = (struct __user_cap_data_struct){.effective = kept, .permitted = kept};
    held[1] = (struct __user_cap_data_struct){0};
    if (syscall(SYS_capset, &head, held) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        refuse_errno("rights can't be given up");
}

static void learn_network(int process)
{
    struct stat own, there;
    socklen_t length = sizeof broker.network;
    if (stat("/proc/self/ns/net", &own) != 0 || fstatat(process, "ns/net", &there, 0) != 0)
        refuse_errno("the sandbox's network can't be looked at");
    if (own.st_dev == there.st_dev && own.st_ino == there.st_ino)
        refuse("the sandbox has no network of its own, by which its Unix sockets are known");
    if ((broker.inside = diag_open_at(process)) < 0 || (broker.outside = diag_open()) < 0 ||
        diag_listens(broker.inside, 0, 0) != 0 || diag_listens(broker.outside, 0, 0) != 0)
        refuse("connections can't be supervised, as network.own_sockets needs it: this kernel has no unix_diag");
    if (getsockopt(broker.inside, SOL_SOCKET, SO_NETNS_COOKIE, &broker.network, &length) != 0)
        broker.network = 0;
}

/* `own`: sockets of the sandbox are connected to, and not those listed alone. */
static void look_into(pid_t first, bool own)
{
    int process = open(text("/proc/%d", (int)first), O_PATH | O_DIRECTORY | O_CLOEXEC);
    int there = (int)syscall(SYS_pidfd_open, first, 0);
    if (process >= 0 && own)
        learn_network(process);
    drop_rights();
    int copied = there < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, there, at + 1, 0);
    if (process < 0 || copied < 0)
        refuse_errno("connections can't be supervised, as network.own_sockets and unix_sockets need it (pidfd_getfd(2))");
    close(copied);
    close(there);
    close(process);
}

/* A runtime of ours connects, and no other process of the user's, nor one of the sandbox. */
static int accept_runtime(int socket)
{
    struct ucred who;
    socklen_t length = sizeof who;
    int channel;
    while ((channel = accept4(socket, NULL, NULL, SOCK_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (channel < 0 || getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
        refuse_errno("what is refused can't be told");
    pid_t above = who.pid;
    while (above > 1 && above != keeper)
        above = parent_of(above);
    if (who.uid != geteuid() || above != keeper)
        refuse("what is refused can't be told: process %d connected, and is none of the run's", (int)who.pid);
    close(socket);
    return channel;
}

static void serve(int channel, bool own)
{
    struct sigaction interrupts = {.sa_handler = nothing};
    if (keeper != 0)
        channel = accept_runtime(channel);
    pid_t first = take_listener(channel);
    if (first <= 0)
        _exit(0); /* it has ended */
    if (recording)
        record_begin(broker.listener, first);
    if (connects)
        look_into(first, own);
    else
        drop_rights();
    sigaction(INTERRUPT, &interrupts, NULL);
    if (!start_threads() || (keeper == 0 && send(channel, "", 1, MSG_NOSIGNAL) != 1))
        _exit(NOT_RUN);
    close(channel);
    look_after(NULL);
}

/* Those of the policy, and the bridge's where it is reached so. */
static void list_sockets(const struct run *run)
{
    struct words paths = {0};
    add_all(&paths, &run->plan.host_sockets);
    if (run->plan.shims && !run->plan.shims_loopback)
        add(&paths, text("%s/socket", getenv("SANDWRIGHT_SHIMS")));
    if (run->plan.shims_loopback)
        broker.tried = text("%s/socket", shims_place(run));
    broker.count = paths.count;
    broker.listed = take(broker.count * sizeof *broker.listed);
    for (size_t index = 0; index < broker.count; index++)
        broker.listed[index] = (struct listed){paths.at[index], open_without_links(AT_FDCWD, paths.at[index], O_PATH, 0)};
}

static void stand_apart(void)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere < 0 || dup2(nowhere, 0) < 0 || dup2(nowhere, 1) < 0 || prctl(PR_SET_DUMPABLE, 0) != 0)
        refuse_errno("what looks after the sandbox's sockets can't be started");
    close_others(&ends[0], 1);
}

static _Noreturn void supervise(const struct run *run)
{
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE};
    for (size_t index = 0; index < sizeof ignored / sizeof *ignored; index++)
        signal(ignored[index], SIG_IGN);
    stand_apart();
    if (connects)
        list_sockets(run);
    serve(ends[0], run->plan.own_sockets);
    _exit(0);
}

/* ---- landlock's, which is above the command: only so may it read addresses where Yama lets nobody else (ptrace_scope 1) */
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

static _Noreturn void attend(pid_t command, const sigset_t *signals)
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
    int memory = open(text("/proc/%d/mem", (int)process), O_RDONLY | O_CLOEXEC);
    if (memory >= 0)
        close(memory);
    return memory >= 0;
}

/* Nothing is started until it is seen that it can do its work. */
static void serve_below(int channel)
{
    struct sigaction interrupts = {.sa_handler = nothing};
    pthread_t looking;
    pid_t first = take_listener(channel);
    if (first <= 0)
        return; /* it has ended, having said why */
    if (broker.names && !can_look_into(first))
        refuse("the files of a kernel of its own can't be looked after here (ptrace(2))");
    if (!broker.names && (!can_look_into(first) || (broker.outside = diag_open()) < 0 || diag_listens(broker.outside, 0, 0) != 0))
        refuse("connections can't be supervised here (ptrace(2), sock_diag(7)), as network.own_sockets, unix_sockets, "
               "localhost and mode: proxy need it");
    sigaction(INTERRUPT, &interrupts, NULL);
    if (!start_threads() || pthread_create(&looking, NULL, look_after, NULL) != 0)
        refuse("connections can't be supervised: no thread can be made");
    if (send(channel, "", 1, MSG_NOSIGNAL) != 1)
        say("the command has ended before it was started");
    close(channel);
}

/* Who sends is told from the first word on, which may be said before the supervisor runs. What is accepted has it from
 * the socket that listens. */
static bool tells_who(int socket)
{
    int yes = 1;
    return setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0;
}

static void make_channel(void)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 || !tells_who(ends[0]))
        refuse_errno("what looks after the sandbox's sockets can't be started");
}

static void be_above(const struct run *run)
{
    broker.keeps = true;
    broker.names = run->plan.kernel != NULL;
    broker.own = run->plan.own_sockets;
    broker.connects = &run->plan.ports_connect;
    broker.binds = &run->plan.ports_bind;
    broker.greeting = run->plan.proxy ? egress_greeting(&broker.proxy_port) : NULL;
    make_channel();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        refuse_errno("the processes of the run can't be held");
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
        refuse_errno("no process can be made");
    if (command == 0) {
        sigaction(SIGCHLD, &before, NULL);
        sigprocmask(SIG_SETMASK, &given, NULL);
        close(ends[0]);
        return above;
    }
    stand_apart();
    if (broker.names)
        umask(0); /* the kernel inside has looked at that of its programs */
    list_sockets(run);
    serve_below(ends[0]);
    attend(command, &all);
}

/* ---- launcher, keeper and child */
void notify_filter(const struct run *run, const char *name)
{
    size_t length;
    const char *content = checked_artifact(run, name, &length);
    if (!filter_parse(content, length, &filters[filter_count++]))
        refuse("%s/%s: not of a kind whose refusals can be told", run->directory, name);
}

void notify_command(struct run *run, int descriptor)
{
    struct words command = {0};
    notify_filter(run, "seccomp.bpf");
    denied_share();
    if ((recording = record_file() != NULL))
        recorded_share();
    connects = run->plan.supervised;
    at = descriptor;
    add(&command, text("/proc/self/fd/%d", at));
    add(&command, text("--confine"));
    add(&command, connects ? "connects" : "counts");
    add(&command, text("%d", at));
    add(&command, text("%d", at + 1));
    add(&command, text("%d", at + 2));
    for (char **word = run->command; *word != NULL; word++)
        add(&command, *word);
    run->command = command.at;
}

static void fork_supervisor(struct run *run)
{
    supervisor = fork_child(&handle);
    if (supervisor < 0)
        refuse_errno("no process can be made");
    if (supervisor == 0)
        supervise(run);
    close(ends[0]);
    ends[0] = -1;
}

void notify_start(struct run *run)
{
    notify_end();
    program = open("/proc/self/exe", O_PATH | O_CLOEXEC);
    if (program < 0)
        refuse_errno("what looks after the sandbox's sockets can't be started");
    make_channel();
    fork_supervisor(run);
}

/* In the run's directory, which is the user's alone. A path that is too long for an address leads through our descriptor,
 * where the runtime may look at it. */
const char *notify_listen(struct run *run, bool apart)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = text("%s/listener", run->state);
    int directory = open(run->state, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (strlen(path) >= sizeof address.sun_path) {
        if (apart) {
            say("what is refused can't be told: %s is too long", path);
            return NULL;
        }
        path = text("/proc/%d/fd/%d/listener", (int)getpid(), directory);
    }
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/listener", directory);
    ends[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (directory < 0 || ends[0] < 0 || !tells_who(ends[0]) ||
        bind(ends[0], (struct sockaddr *)&address, sizeof address) != 0 || listen(ends[0], 1) != 0)
        refuse_errno("nothing can be told of what is refused");
    keeper = getpid();
    fork_supervisor(run);
    return path;
}

static int in_memory(const struct program *filter)
{
    size_t length = filter->count * sizeof *filter->at;
    int file = memfd_create("filter", MFD_CLOEXEC);
    if (file < 0 || write(file, filter->at, length) != (ssize_t)length || lseek(file, 0, SEEK_SET) != 0)
        refuse_errno("the sandbox can't be given its filter");
    return file;
}

int notify_asking(void)
{
    struct program asking = filters_joined(NULL, filters, filter_count);
    return in_memory(&asking);
}

void notify_confine(void)
{
    confine_self(ends[1], filters, filter_count, broker.names ? ASK_NAMES : broker.keeps ? ASK_SOCKETS : ASK_REFUSALS);
    close(ends[1]);
}

int notify_channel(void)
{
    return ends[1];
}

void notify_hand_over(void)
{
    const struct program whole = recording ? record_ask(&filters[0], connects) : filters[0];
    /* Above all, as one may be where the other goes. */
    int files[] = {program, ends[1], in_memory(&whole)};
    for (int index = 0; index < 3; index++)
        files[index] = files[index] < 0 ? -1 : fcntl(files[index], F_DUPFD_CLOEXEC, at + 3);
    for (int index = 0; index < 3; index++)
        if (files[index] < 0 || dup2(files[index], at + index) < 0)
            refuse_errno("the sandbox can't be given what confines it");
}

void notify_started(void)
{
    close(program);
    close(ends[1]);
    program = ends[1] = -1;
}

void notify_end(void)
{
    int status;
    if (supervisor <= 0)
        return;
    if (handle >= 0 && syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0) == 0)
        waitpid(supervisor, &status, 0); /* it may have been waited for */
    close(handle);
    supervisor = 0;
}
