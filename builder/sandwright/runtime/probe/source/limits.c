/* Attempts to exceed limits: each returns how much it got before the system refused. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* fork COUNT: this many processes at the same time, besides this one. */
static int fork_many(const struct arguments *given, struct value *value) {
    long wanted = number(given->text[0]), made = 0;
    int error = 0;
    for (; made < wanted; made++) {
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        if (child < 0) {
            error = errno;
            break;
        }
    }
    say(value, "%ld", made);
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    while (wait(NULL) > 0)
        continue;
    return made == wanted ? 0 : error;
}

/* memory MEBIBYTES MILLISECONDS: writes to the memory, so that it is really allocated, and keeps it for this
 * time, because a limit may be enforced by a watcher. */
static int use_memory(const struct arguments *given, struct value *value) {
    long wanted = number(given->text[0]);
    for (long have = 0; have < wanted; have++) {
        char *block = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED)
            return errno;
        memset(block, 1, 1 << 20);
    }
    poll(NULL, 0, (int)number(given->text[1]));
    say(value, "%ld", wanted);
    return 0;
}

/* files COUNT: this many more open files at the same time. */
static int open_many(const struct arguments *given, struct value *value) {
    (void)value;
    for (long have = 0; have < number(given->text[0]); have++)
        if (open("/dev/null", O_RDONLY) < 0)
            return errno;
    return 0;
}

/* limit NUMBER: the soft and hard limit of a resource (getrlimit(2)); `lift` tries to set both to none. */
static int read_limit(const struct arguments *given, struct value *value) {
    struct rlimit limit;
    if (getrlimit((int)number(given->text[0]), &limit) != 0)
        return errno;
    say(value, "%lld %lld", (long long)limit.rlim_cur, (long long)limit.rlim_max);
    return 0;
}

static int lift_limit(const struct arguments *given, struct value *value) {
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    (void)value;
    return outcome(setrlimit((int)number(given->text[0]), &limit));
}

/* core: whether a crash writes a core file, according to the status of wait(2). */
static int dump_core(const struct arguments *given, struct value *value) {
    int status = 0;
    (void)given;
    pid_t child = fork();
    if (child < 0)
        return errno;
    if (child == 0)
        abort();
    waitpid(child, &status, 0);
    say(value, "%s", WCOREDUMP(status) ? "core" : "none");
    return 0;
}

const struct operation limit_operations[] = {
    {"fork", fork_many}, {"memory", use_memory}, {"files", open_many}, {"limit", read_limit},
    {"lift", lift_limit}, {"core", dump_core},   {NULL, NULL},
};
