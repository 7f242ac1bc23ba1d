/* The supervisor's threads (notify.c): one receives notifications, and answers those that need no waiting.
 * The others make calls that block, such as connect(2). */
#define _GNU_SOURCE
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "closed.h"
#include "launch.h"
#include "notify.h"
#include "paths.h"
#include "record.h"

enum { MOST = 64, STACK = 128 << 10, LOOK = 50 }; /* threads; bytes per thread; milliseconds */

static struct served *served;

/* ---- blocking connect(2) */
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

/* Only one thread receives notifications, because the kernel would wake every waiting thread for each. It
 * answers those that need no waiting itself. */
static bool taken;
static pthread_cond_t vacant = PTHREAD_COND_INITIALIZER;
static _Atomic uint64_t turn; /* counts the receiving thread's steps: odd while it answers a notification */

static struct waiting *enter(uint64_t id, pid_t caller)
{
    pthread_mutex_lock(&lock);
    struct waiting *each = waiting;
    while (each->used)
        each++; /* there is an entry for every thread */
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
    bool away = status == NULL || has_signal(status) || !broker_valid(&served->broker, each->id);
    free(status);
    return away;
}

static void *work(void *unused);

/* Makes sure that a thread is ready to receive the next notification. The caller holds the lock. */
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

static void nothing(int number)
{
    (void)number;
}

bool notify_threads_start(struct served *by)
{
    served = by;
    struct sigaction interrupts = {.sa_handler = nothing};
    sigaction(INTERRUPT, &interrupts, NULL);
    pthread_mutex_lock(&lock);
    keep_one_idle();
    pthread_mutex_unlock(&lock);
    return threads > 0;
}

/* Lets another thread receive notifications. The caller holds the lock. */
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

/* Replaces the receiving thread if it is stuck: recording looks paths up, and a program inside could delay
 * that, for example with a file system that it serves. The caller holds the lock. */
static void relieve(void)
{
    static uint64_t seen;
    uint64_t now = turn;
    if (now % 2 == 1 && now == seen && atomic_compare_exchange_strong(&turn, &now, now + 1))
        give_place();
    seen = now;
}

/* Sends a signal again if it came just before connect(2), and therefore did not interrupt it. */
_Noreturn void *notify_threads_watch(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (waiting_count == 0 && !served->recording)
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

/* Whether no program is left inside; otherwise only the caller has gone. */
static bool is_over(void)
{
    struct pollfd each = {.fd = served->broker.listener};
    return poll(&each, 1, 0) > 0 && (each.revents & POLLHUP) != 0;
}

/* Answers a refused call with the filter's errno and counts it; lets a call that is only recorded go on. -1:
 * neither. */
static int answer_at_once(const struct seccomp_notif *call, uint32_t *flags)
{
    int which, error = filters_refusal(served->filters, served->filter_count, &call->data, &which);
    /* Filter 0 is the policy's: the supervisor makes no call for the guest that this filter refuses. */
    if (OWN_KERNELS && served->broker.names)
        return error == 0 ? EPERM : which > 0 && paths_are_named(&call->data) ? -1 : error;
    if (error != 0 && !served->broker.creates_sockets &&
        pairs_may_replace(served->filters, served->filter_count, &call->data))
        return -1;
    bool recorded = error == 0 && served->recording && !served->broker.creates_sockets &&
                    record_call(call, served->connects);
    if (error != 0)
        refusals_add_call(&call->data, error, which);
    else if (served->broker.repositories->count > 0 && asks_for_links(&call->data))
        return -1;
    else if (served->creates && creation_is_asked(&call->data))
        return creation_answer(&served->broker, call, flags, true);
    else if (served->broker.creates_sockets ||
             (served->connects && (is_connect(&call->data) || is_socket_error(&call->data))))
        return -1;
    else if (recorded)
        *flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else
        return EPERM; /* only the filter of confine.c refuses it */
    return error;
}

static int answer_later(const struct seccomp_notif *call, uint32_t *flags)
{
    if (OWN_KERNELS && served->broker.names)
        return paths_answer(&served->broker, call, flags);
    if (served->broker.repositories->count > 0 && asks_for_links(&call->data))
        return links_answer(&served->broker, call);
    if (served->creates && creation_is_asked(&call->data))
        return creation_answer(&served->broker, call, flags, false);
    if (pairs_is_datagram(&call->data))
        return pairs_answer(&served->broker, call);
    if (is_socket_error(&call->data))
        return broker_socket_error(&served->broker, call, flags);
    return served->broker.creates_sockets ? socket_broker_answer(&served->broker, call)
                        : broker_address(&served->broker, call->id, (pid_t)call->pid, (const uint64_t *)call->data.args, false);
}

static void send_answer(uint64_t id, int fault, uint32_t flags)
{
    struct seccomp_notif_resp answer = {.id = id, .error = -fault, .flags = flags};
    if (fault >= 0)
        ioctl(served->broker.listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

/* Answers a call in the receiving thread, or lets another thread receive and answers then. Returns whether
 * this thread still receives. */
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

static void *work(void *unused)
{
    sigset_t interrupt;
    (void)unused;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, INTERRUPT);
    pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL);
    take_place();
    for (;;) {
        struct seccomp_notif call = {0};
        if (ioctl(served->broker.listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
            if (errno == EINTR || (errno == ENOENT && !is_over()))
                continue;
            if (served->broker.creates_sockets) /* the command's end must still be reported */
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
