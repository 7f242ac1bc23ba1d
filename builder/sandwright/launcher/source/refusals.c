/* Counts denials: the supervisor adds them in shared memory, and the launcher writes them as events, at the
 * end or while the command runs (post_run_journal). session/events.py reads them. */
#define _GNU_SOURCE
#include "refusals.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "launch.h"

enum { MOST = 256, PATH = 108 };

struct refusal {
    uint32_t architecture; /* 0: a denied connection */
    int number, error;     /* of the system call */
    int which;             /* the index of the filter: 0 is the policy's */
    enum { NO_SOCKET, LOCAL, DATAGRAM } local; /* whether the call creates a Unix socket */
    uint64_t count;
    bool network; /* `path` is an IP address as text */
    unsigned char length, path[PATH];
};

static struct refusals {
    size_t count;
    uint64_t others; /* denials for which there was no room */
    struct refusal each[MOST];
} *shared;
static int memory = -1;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static bool map(void)
{
    void *made = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    shared = made == MAP_FAILED ? NULL : made;
    return shared != NULL;
}

void refusals_share(void)
{
    memory = memfd_create("denials", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0 || ftruncate(memory, sizeof *shared) != 0 || fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0 ||
        !map())
        die_errno("not enough memory for the report of refusals");
}

int refusals_memory(void)
{
    return memory;
}

bool refusals_take(int descriptor)
{
    struct stat status;
    int seals = fcntl(descriptor, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(descriptor, &status) != 0 || status.st_size < (off_t)sizeof *shared)
        return false;
    memory = descriptor;
    return map();
}

/* A process that shares the memory may be compromised, so the count is checked. */
static size_t counted(void)
{
    size_t count = shared->count;
    return count < MOST ? count : MOST;
}

static void count(const struct refusal *found)
{
    if (shared == NULL)
        return;
    pthread_mutex_lock(&counting);
    size_t index = 0, known = counted();
    for (; index < known; index++) {
        const struct refusal *each = &shared->each[index];
        if (each->architecture == found->architecture && each->number == found->number && each->error == found->error &&
            each->local == found->local && each->which == found->which && each->network == found->network &&
            each->length == found->length && memcmp(each->path, found->path, PATH) == 0)
            break;
    }
    if (index == MOST)
        shared->others++;
    else if (index < known)
        shared->each[index].count++;
    else {
        shared->each[index] = *found;
        shared->each[index].count = 1;
        shared->count = known + 1;
    }
    pthread_mutex_unlock(&counting);
}

/* Of the arguments, only a socket's family and type are recorded: Unix sockets are refused by own_sockets,
 * not by the seccomp profile. */
void refusals_add_call(const struct seccomp_data *call, int error, int which)
{
    bool makes = call->nr == SYS_socket || call->nr == SYS_socketpair;
    bool local = makes && call->arch == NATIVE && (uint32_t)call->args[0] == AF_UNIX;
    bool datagrams = (call->args[1] & SOCK_DGRAM) != 0; /* SOCK_RAW counts as the same */
    count(&(struct refusal){.architecture = call->arch, .number = call->nr, .error = error, .which = which,
                            .local = !local ? NO_SOCKET : datagrams ? DATAGRAM : LOCAL});
}

static void add_text(const char *path, int error, bool network)
{
    struct refusal found = {.error = error, .network = network};
    size_t length = strnlen(path, PATH);
    memcpy(found.path, path, length);
    found.length = (unsigned char)length;
    count(&found);
}

void refusals_add_socket(const char *path, int error)
{
    add_text(path, error, false);
}

void refusals_add_address(const char *address, int error)
{
    add_text(address, error, true);
}

/* Writes an event for session/events.py. */
static void write_one(struct bytes *out, const struct refusal *each)
{
    static const char *const sockets[] = {"", "local", "datagram"};
    bytes_text(out, "{\"event\": \"refused\", \"what\": {\"error\": %d, ", each->error);
    if (each->architecture != 0)
        bytes_text(out, "\"architecture\": %u, \"number\": %d, \"filter\": %d, \"socket\": \"%s\"", each->architecture, each->number,
                   each->which, sockets[each->local % 3U]);
    else
        bytes_json(out, each->network ? "address" : "path", (const char *)each->path, each->length < PATH ? each->length : PATH);
    bytes_text(out, "}, \"count\": %llu}\n", (unsigned long long)each->count);
}

void refusals_write(const char *name)
{
    if (shared == NULL || shared->count == 0)
        return;
    struct bytes out = {0};
    for (size_t index = 0; index < counted(); index++)
        write_one(&out, &shared->each[index]);
    bytes_text(&out, "{\"event\": \"omitted\", \"count\": %llu}\n", (unsigned long long)shared->others);
    if (write_file(AT_FDCWD, name, out.at, out.end, 0600) != 0)
        warn("cannot report denials: %s: %s", name, strerror(errno));
}

void refusals_report(int file)
{
    static size_t written;
    struct bytes out = {0};
    if (shared == NULL || written >= counted())
        return;
    for (; written < counted(); written++)
        write_one(&out, &shared->each[written]);
    if (write(file, out.at, out.end) != (ssize_t)out.end)
        warn("cannot report denials: %s", strerror(errno));
    free(out.at);
}
