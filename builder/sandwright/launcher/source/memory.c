/* Limits the memory of all processes where there is no cgroup, in place of the kernel's OOM killer. The
 * monitor adds up their memory, more often when less is left, and kills the largest process when the limit is
 * exceeded. Programs can exceed the limit for milliseconds. The sum includes the sandbox's tmpfs mounts, but
 * not files in memory that no process maps (memfd_create(2)), swap, or the buffers of pipes and sockets. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <linux/magic.h>

#include "launch.h"
#include "watch.h"

enum { RARELY = 1000, OFTEN = 5, /* milliseconds */ FILLED = 4 << 20 /* bytes that programs can fill in one */,
       MEASURING = 1000, DYING = 10000, ENDING = 20000, MOST_PROCESSES = 1 << 16, TRIES = 8 };

struct measured {
    pid_t process;
    long memory; /* bytes */
};

enum { MOST_KILLED = 500 }; /* at once */

/* The result of one check. It is smaller than PIPE_BUF, so that it is written to a pipe at once (pipe(7)). */
struct answer {
    long used;
    size_t killed;
    pid_t processes[MOST_KILLED];
};

static long limit = 1L << 62, peak;
/* The time in milliseconds since which the limit has been exceeded; 0: it is not exceeded. */
static long over;
static size_t killed;
static struct answer last;    /* the processes killed last, whose memory may not be free yet */
static long killed_at = -DYING; /* when they were killed, in milliseconds */
static int timer = -1;
static pid_t monitor; /* all processes of the run are below it */
static struct strv temporary; /* paths in /proc of tmpfs mounts that only the sandbox has */
/* The time of the last search for such mounts, and the interval, in milliseconds. */
static long looked, look_again = OFTEN;

/* Converts a file's number of kilobytes to bytes. */
static long kilobytes(const char *content, const char *key)
{
    const char *found = content == NULL ? NULL : strstr(content, key);
    return found == NULL ? 0 : strtol(found + strlen(key), NULL, 10) * 1024;
}

/* Reads files of /proc that never wait for locks of the process. Counts page tables, too, which can be larger
 * than RSS. */
static long resident(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    _cleanup_free_ char *content = read_file(AT_FDCWD, path, 1 << 16, NULL);
    return kilobytes(content, "\nVmRSS:") + kilobytes(content, "\nVmPTE:");
}

/* Divides memory that several processes map among them (PSS). A program inside can delay this. */
static long proportional(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    _cleanup_free_ char *status = read_file(AT_FDCWD, path, 1 << 16, NULL);
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)process);
    _cleanup_free_ char *content = read_file(AT_FDCWD, path, 1 << 16, NULL);
    if (content == NULL || strstr(content, "\nPss:") == NULL)
        return resident(process);
    return kilobytes(content, "\nPss:") + kilobytes(status, "\nVmPTE:");
}

static bool has_other_mounts(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)process);
    _cleanup_free_ char *theirs = read_link(AT_FDCWD, path), *ours = read_link(AT_FDCWD, "/proc/self/ns/mnt");
    return theirs != NULL && ours != NULL && strcmp(theirs, ours) != 0;
}

/* Appends the children of all threads of a process to `found`, which has `count` entries. Returns the new
 * number. */
static size_t add_children(pid_t process, pid_t *found, size_t count)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)process);
    struct dirent *entry;
    DIR *threads = open_directory(AT_FDCWD, path);
    while ((entry = next_entry(threads)) != NULL) {
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)process, entry->d_name);
        _cleanup_free_ char *content = read_file(AT_FDCWD, path, 1 << 20, NULL);
        char *at = content;
        for (; at != NULL && *at >= '0' && *at <= '9' && count < MOST_PROCESSES; at += *at == ' ')
            found[count++] = (pid_t)strtol(at, &at, 10);
    }
    return count;
}

/* Measures all processes below the monitor, except its helpers. Returns their number. */
static size_t measure(long (*memory)(pid_t), struct measured *found)
{
    static pid_t processes[MOST_PROCESSES];
    size_t count = add_children(monitor, processes, 0), kept = 0;
    for (size_t index = 0; index < count; index++) {
        if (is_helper(processes[index]))
            continue;
        found[kept++] = (struct measured){processes[index], memory(processes[index])};
        count = add_children(processes[index], processes, count);
    }
    return kept;
}

static long sum_of(const struct measured *found, size_t count)
{
    long sum = 0;
    for (size_t index = 0; index < count; index++)
        sum += found[index].memory;
    return sum;
}

/* ---- tmpfs mounts */
/* Writes the devices of the tmpfs mounts that a process sees to `devices`, at most `most`, and their paths to
 * `points`, unless that is NULL. */
static size_t find_temporary(const char *process, dev_t *devices, size_t most, struct strv *points)
{
    size_t count = 0;
    struct stat status;
    struct mounts mounts;
    _cleanup_free_ char *table = xasprintf("/proc/%s/mountinfo", process);
    _cleanup_close_ int file = open(table, O_RDONLY | O_CLOEXEC);
    if (file < 0 || !mounts_read(file, &mounts))
        return 0;
    for (size_t index = 0; index < mounts.count && count < most; index++) {
        if (strcmp(mounts.all[index].type, "tmpfs") != 0)
            continue;
        char *point = xasprintf("/proc/%s/root%s", process, mounts.all[index].point);
        if (stat(point, &status) == 0) {
            devices[count++] = status.st_dev;
            if (points != NULL)
                strv_push(points, point);
        }
        if (points == NULL)
            free(point);
    }
    mounts_free(&mounts);
    return count;
}

static bool has_device(const dev_t *devices, size_t count, dev_t device)
{
    for (size_t index = 0; index < count; index++)
        if (devices[index] == device)
            return true;
    return false;
}

/* Looks for tmpfs mounts that the process has and the monitor does not. False: there are none. */
static bool look_at(pid_t inside)
{
    enum { MOST = 4096 };
    _cleanup_free_ dev_t *ours = xcalloc(MOST * sizeof *ours), *theirs = xcalloc(MOST * sizeof *theirs);
    _cleanup_free_ char *process = xasprintf("%d", (int)inside);
    struct strv points = {0};
    size_t count = find_temporary("self", ours, MOST, NULL), found = find_temporary(process, theirs, MOST, &points);
    for (size_t index = 0; index < temporary.count; index++)
        free(temporary.at[index]);
    temporary.count = 0;
    for (size_t index = 0; index < found; index++) {
        if (has_device(ours, count, theirs[index]) || has_device(theirs, index, theirs[index]))
            free(points.at[index]);
        else
            strv_push(&temporary, points.at[index]);
    }
    free(points.at);
    return temporary.count > 0;
}

/* Mounts change while the sandbox is created, and rarely afterwards. The processes found last are the
 * innermost. */
static void look_for_temporary(const struct measured *found, size_t count)
{
    size_t tries = 0;
    for (size_t index = count; index > 0 && tries < TRIES; index--)
        if (has_other_mounts(found[index - 1].process) && (tries++, look_at(found[index - 1].process)))
            break;
    looked = milliseconds();
    look_again = look_again < RARELY ? look_again * 2 : RARELY;
}

static long temporary_files(const struct measured *found, size_t count)
{
    long sum = 0;
    struct statfs status;
    if (milliseconds() - looked >= look_again)
        look_for_temporary(found, count);
    for (size_t index = 0; index < temporary.count; index++)
        if (statfs(temporary.at[index], &status) == 0 && status.f_type == TMPFS_MAGIC)
            sum += (long)(status.f_blocks - status.f_bfree) * (long)status.f_bsize;
    return sum;
}

static int by_memory(const void *one, const void *other)
{
    long first = ((const struct measured *)one)->memory, second = ((const struct measured *)other)->memory;
    return first > second ? -1 : first < second;
}

/* The PID may have been reused meanwhile: then the process is killed only if it belongs to this run, too. */
static bool kill_one(pid_t process)
{
    _cleanup_close_ int handle = (int)syscall(SYS_pidfd_open, process, 0);
    return handle >= 0 && descends_from(process, monitor) && syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0) == 0;
}

static bool was_killed(pid_t process)
{
    for (size_t index = 0; index < last.killed && milliseconds() - killed_at < DYING; index++)
        if (last.processes[index] == process)
            return true;
    return false;
}

/* Kills the largest processes until the rest uses no more than the limit. */
static struct answer kill_largest(struct measured *found, size_t count, long files)
{
    struct answer answer = {.used = sum_of(found, count) + files};
    long left = answer.used;
    qsort(found, count, sizeof *found, by_memory);
    for (size_t index = 0; index < count; index++)
        left -= was_killed(found[index].process) ? found[index].memory : 0;
    for (size_t index = 0; index < count && left > limit && answer.killed < MOST_KILLED; index++) {
        if (was_killed(found[index].process) || !kill_one(found[index].process))
            continue;
        left -= found[index].memory;
        answer.processes[answer.killed++] = found[index].process;
    }
    return answer;
}

/* Counts shared memory once. A child does this, because it may have to wait for a process inside. If it does
 * not answer in time, each process counts in full. */
static struct answer kill_by_share(struct measured *found, size_t count, long files)
{
    int ends[2], handle;
    struct answer answer;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return kill_largest(found, count, files);
    pid_t child = fork_helper(&handle);
    if (child == 0) {
        answer = kill_largest(found, measure(proportional, found), files);
        _exit(write(ends[1], &answer, sizeof answer) == sizeof answer ? 0 : NOT_RUN);
    }
    close(ends[1]);
    bool answered = child > 0 && wait_readable(ends[0], milliseconds() + MEASURING) &&
                    read(ends[0], &answer, sizeof answer) == sizeof answer;
    if (child > 0)
        wait_for(child, handle, 0);
    close(ends[0]);
    return answered ? answer : kill_largest(found, count, files);
}

static void set_timer(long wait)
{
    struct itimerspec time = {.it_value = {wait / 1000, wait % 1000 * 1000000}};
    if (timerfd_settime(timer, 0, &time, NULL) != 0)
        die_errno("cannot watch resources.memory");
}

void memory_watch(const struct run *run)
{
    if (run->plan.memory < 0 || cgroup_limits_memory() || has_kernel(run))
        return;
    limit = run->plan.memory;
    monitor = getpid();
    if ((timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) < 0)
        die_errno("cannot watch resources.memory");
    set_timer(OFTEN);
}

int memory_timer(void)
{
    return timer;
}

bool memory_check(void)
{
    char rung[8];
    static struct measured found[MOST_PROCESSES];
    long began = milliseconds();
    (void)!read(timer, rung, sizeof rung);
    size_t count = measure(resident, found);
    long files = temporary_files(found, count);
    struct answer answer = {.used = sum_of(found, count) + files};
    if (answer.used > limit)
        answer = kill_by_share(found, count, files);
    long left = (limit - answer.used) / FILLED, took = milliseconds() - began;
    set_timer(took + (left < OFTEN ? OFTEN : left > RARELY ? RARELY : left));
    peak = answer.used > peak ? answer.used : peak;
    if (answer.killed > 0) {
        last = answer;
        killed_at = milliseconds();
    }
    killed += answer.killed;
    over = answer.used > limit ? (over == 0 ? began : over) : 0;
    /* Processes of another account can't be killed from here. */
    bool helps = over == 0 || answer.killed > 0 || milliseconds() - killed_at < DYING;
    return files <= limit && helps && (over == 0 || milliseconds() - over < ENDING);
}

void memory_report(const struct run *run)
{
    long most = peak, ended = timer < 0 ? cgroup_out_of_memory(&most) : (long)killed;
    if (ended > 0 || most > limit)
        warn("out of memory: %s killed; resources.memory is %ld MiB, the peak was %ld MiB",
             ended == 0   ? "the run was"
             : ended == 1 ? "1 process was"
                          : xasprintf("%ld processes were", ended),
             run->plan.memory >> 20, most >> 20);
}
