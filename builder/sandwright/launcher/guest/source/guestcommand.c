/* Starts the command in the guest (method vm), after it has set its user, limits and seccomp filter
 * (guest.c). */
#define _GNU_SOURCE
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "guest.h"
#include "guestnet.h"
#include "launch.h"

enum { MOST_FILES = 1 << 20 /* fs.nr_open */ };

static int slave = -1, its[3] = {-1, -1, -1}; /* the command's ends */

/* ---- settings */
void copy_fixed(void *to, size_t size, const void *content, size_t length)
{
    if (length == size)
        memcpy(to, content, size);
}

static char *word_of(const void *content, size_t length)
{
    char *word = xcalloc(length + 1);
    memcpy(word, content, length);
    return word;
}

bool guest_setting(struct settings *set, enum frame frame, const unsigned char *content, size_t length)
{
    switch (frame) {
    case WORD_OF_COMMAND:
        strv_push(&set->command, word_of(content, length));
        break;
    case VARIABLE:
        strv_push(&set->variables, word_of(content, length));
        break;
    case MOUNT_POINT:
        strv_push(&set->mounts, word_of(content, length));
        break;
    case PLANNED:
        strv_push(&set->planned, word_of(content, length));
        break;
    case HIDDEN_PATH:
        strv_push(&set->hidden, word_of(content, length));
        break;
    case READ_ONLY_PATH:
        strv_push(&set->readonly, word_of(content, length));
        break;
    case DIRECTORY:
        set->directory = word_of(content, length);
        break;
    case IDENTITY:
        copy_fixed(&set->identity, sizeof set->identity, content, length);
        break;
    case GROUP:
        set->groups = reallocarray(set->groups, set->group_count + 1, sizeof *set->groups);
        if (set->groups == NULL)
            guest_refuse("out of memory");
        set->groups[set->group_count++] = (gid_t)line_take_number(content, length);
        break;
    case HOST_NAME:
        if (sethostname((const char *)content, length) != 0)
            guest_refuse("cannot set the host name");
        break;
    case FILTER_OF_CALLS:
        set->filter = (struct sock_fprog){(unsigned short)(length / sizeof(struct sock_filter)),
                                     (struct sock_filter *)(void *)word_of(content, length)};
        break;
    case LIMIT_FILES:
        copy_fixed(set->files, sizeof set->files, content, length);
        break;
    case LIMIT_PROCESSES:
        set->processes = line_take_number(content, length);
        break;
    case LIMIT_PROCESSORS:
        set->processors = line_take_number(content, length);
        break;
    case ENTROPY:
        guest_entropy(content, length);
        break;
    case CLOCK: {
        int64_t now[2] = {0};
        copy_fixed(now, sizeof now, content, length);
        if (clock_settime(CLOCK_REALTIME, &(struct timespec){now[0], (long)now[1]}) != 0)
            guest_refuse("cannot set the clock");
        break;
    }
    case TERMINAL:
        copy_fixed(&set->terminal, sizeof set->terminal, content, length);
        set->has_terminal = true;
        break;
    case ONE_OUTPUT:
        set->one_output = true;
        break;
    case BEGIN:
        if (set->command.count == 0)
            guest_refuse("the host sent no command");
        return true;
    default:
        if (!guest_network_setting(frame, word_of(content, length)))
            guest_refuse("cannot parse a message of the host");
    }
    return false;
}

static void set_limits(const struct settings *set, int procs)
{
    rlim_t soft = (rlim_t)(set->files[0] > MOST_FILES ? MOST_FILES : set->files[0]);
    rlim_t hard = (rlim_t)(set->files[1] > MOST_FILES ? MOST_FILES : set->files[1]);
    if (setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) != 0 || setrlimit(RLIMIT_NOFILE, &(struct rlimit){soft, hard}) != 0 ||
        setrlimit(RLIMIT_NPROC, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) != 0)
        die_errno("cannot set limits");
    if (procs >= 0 && write(procs, "0", 1) != 1)
        die_errno("cannot join the command's cgroup");
}

static _Noreturn void become_command(const struct settings *set, int procs, int report, const sigset_t *given)
{
    char *none = NULL;
    exec_reports(report);
    for (int number = 0; number < 3; number++)
        if (dup2(its[number], number) < 0)
            _exit(NOT_RUN);
    set_limits(set, procs);
    const uint32_t *halves = set->identity.capabilities;
    if (!become_account((uid_t)set->identity.user, (gid_t)set->identity.group, set->groups, set->group_count,
                        (uint64_t)halves[1] << 32 | halves[0]))
        die_errno("cannot drop privileges");
    umask((mode_t)set->identity.mask);
    if (chdir(set->directory) != 0)
        die_errno("cannot change directory to %s", set->directory);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &set->filter) != 0)
        die_errno("cannot load the seccomp filter");
    sigprocmask(SIG_SETMASK, given, NULL);
    exec_command(set->command.at, set->variables.count == 0 ? &none : set->variables.at);
}

static void make_pipe(const struct identity *owner, struct job *job, int number)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        guest_refuse("cannot create a pipe");
    int own = ends[number == 0];
    its[number] = ends[number != 0];
    fcntl(own, F_SETFL, O_NONBLOCK);
    /* A user other than root opens the pipe again through /dev/stdout, which its owner may. */
    if (fchown(its[number], (uid_t)owner->user, (gid_t)owner->group) != 0)
        guest_refuse("cannot create a pipe");
    *(number == 0 ? &job->input : &job->outputs[number - 1]) = own;
}

/* This process leads the terminal's session, so the terminal is its standard input, too. */
static void make_terminal(const struct settings *set, struct job *job)
{
    if ((job->master = terminal_pair(&slave)) < 0 ||
        fchown(slave, (uid_t)set->identity.user, (gid_t)set->identity.group) != 0 ||
        tcsetattr(slave, TCSANOW, &set->terminal.modes) != 0 || ioctl(job->master, TIOCSWINSZ, &set->terminal.size) != 0 ||
        dup2(slave, 0) < 0)
        guest_refuse("cannot create a terminal");
    its[0] = its[1] = slave;
    job->input = job->outputs[0] = job->master;
}

bool guest_command(const struct settings *set, int procs, struct job *job)
{
    int reports[2];
    sigset_t none;
    sigemptyset(&none);
    if (set->has_terminal)
        make_terminal(set, job);
    else {
        make_pipe(&set->identity, job, 0);
        make_pipe(&set->identity, job, 1);
    }
    if (set->has_terminal && set->terminal.errors)
        its[2] = slave;
    else if (set->one_output)
        its[2] = its[1];
    else
        make_pipe(&set->identity, job, 2);
    lead_session();
    job->pid = pipe2(reports, O_CLOEXEC) != 0 ? -1 : fork();
    if (job->pid < 0)
        guest_refuse("cannot create a process");
    job_begin(job->pid);
    if (job->pid == 0)
        become_command(set, procs, reports[1], &none);
    for (int number = 0; number < 3; number++)
        if (its[number] != slave)
            close(its[number]);
    close(reports[1]);
    return exec_succeeded(reports[0]);
}
