/* launch [--run DESCRIPTOR] COMMAND [ARGUMENT ...]: the launcher (run_document.h).
 * launch --exec SOCKET DIRECTORY COMMAND [ARGUMENT ...]: a further command in a session (requests.h).
 * launch --uncover: removes the placeholders that killed runs left in the project. */
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "refusals.h"
#include "landlock.h"
#include "launch.h"
#include "requests.h"

static struct run run = {.document = {.channel = -1, .started = -1}, .child_handle = -1, .wakes = -1, .stop_fd = -1, .lock = -1,
                         .requests = -1};
static bool relayed, begun;
static long ends; /* --exec: the deadline for a command that was signalled to end; 0: none */
static int told;  /* the signal that it got */
static int last_status = -1;  /* the status that the monitor has reported */
/* The monitor has reported that the command has stopped; it has closed its end of the socket. */
static bool stopped, closed;
/* Milliseconds between reports of denials, if they are to be reported as they happen. */
enum { TELLING = 200 };
enum { ENDING = 10000 }; /* milliseconds, as for a run (monitor.c) */

static _Noreturn void leave_launcher(int status)
{
    terminal_restore();
    finish(relayed ? end_relays(&run, status) : status);
}

/* Opens closed standard descriptors, so that no file opened later gets their numbers. */
static void fill_standard(void)
{
    int file;
    while ((file = open("/dev/null", O_RDWR | O_CLOEXEC)) < 3)
        if (file < 0 || fcntl(file, F_SETFD, 0) != 0)
            die_errno("/dev/null");
    close(file);
}

/* Whether the monitor has ended. With --exec there is no monitor, and its end of the socket is closed if
 * `wait` is true. */
static bool has_ended(bool wait)
{
    int status;
    return run.monitor > 0 ? waitpid(run.monitor, &status, wait ? 0 : WNOHANG) == run.monitor : wait;
}

static void read_plan(void)
{
    static const struct method *const methods[] = {&bwrap_method, &runtime_method, &engine_method, &user_method,
                                                   &landlock_method};
    const char *own = run.directory = own_directory();
    run.artifacts = open(own, O_PATH | O_DIRECTORY | O_CLOEXEC);
    size_t length;
    char *content = read_file(run.artifacts, "launch.plan", 1 << 26, &length);
    if (content == NULL)
        die_errno("cannot read %s/launch.plan", own);
    const char *fault = plan_parse(content, length, &run.plan);
    if (fault != NULL)
        die("%s/launch.plan: %s", own, fault);
    for (size_t index = 0; index < sizeof methods / sizeof *methods; index++)
        if (run.plan.method != NULL && strcmp(run.plan.method, methods[index]->name) == 0)
            run.method = methods[index];
    if (run.method == NULL)
        die("%s/launch.plan: method: unknown", own);
    if (run.plan.vm.kernel != NULL && !OWN_KERNELS)
        die("vm runs on amd64 only");
}

static _Noreturn void uncover(void)
{
    rundir_choose(&run);
    exit(remove_placeholders(&run, true) ? 0 : 1);
}

static void check(int count, char **words)
{
    if (count < 2)
        die("give a command to run");
    run.command = words + 1;
    check_descriptors(&run);
    check_path(&run);
    check_artifacts(&run);
    check_paths(&run);
    if (run.plan.refused != NULL)
        die("%s", run.plan.refused);
    if (run.document.workspace.count > 0 && (run.method == &engine_method || run.method == &user_method))
        die("%s does not support workspace: review, because its mounts are made in another namespace", run.plan.method);
    choose_environment(&run);
    stream_keys(&run);
    if (run.method->check != NULL)
        run.method->check(&run);
    lock_project(&run);
    rundir_choose(&run);
    relay_streams(&run);
    relayed = true;
    ports_check(&run);
}

static pid_t fork_monitor(int sockets[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) != 0)
        die_errno("cannot create a socket");
    spare_children();
    pid_t monitor = fork();
    if (monitor < 0)
        die_errno("cannot create a process");
    if (monitor == 0) {
        close(sockets[0]);
        run_monitor(&run, sockets[1]);
    }
    close(sockets[1]);
    return monitor;
}

static void tell_monitor(int socket, int number)
{
    struct message message = {TO_DELIVER, number};
    (void)!send(socket, &message, sizeof message, MSG_NOSIGNAL);
}

static void report_execution(void)
{
    if (run.document.started >= 0) {
        (void)!write((int)run.document.started, "", 1);
        close((int)run.document.started);
    }
    run.document.started = -1;
}

/* Reads the monitor's messages. True if none will follow. */
static bool read_messages(int socket)
{
    struct message message;
    ssize_t got;
    /* If the monitor exits with unread messages, the socket reports that once, before its own messages
     * (unix(7)). */
    while ((got = recv(socket, &message, sizeof message, 0)) == sizeof message || (got < 0 && errno == ECONNRESET)) {
        if (got < 0)
            continue;
        begun = begun || message.kind == BEGUN || message.kind == EXECUTED;
        stopped = stopped || message.kind == STOPPED;
        if (message.kind == EXECUTED)
            report_execution();
        if (message.kind == STATUS)
            last_status = message.value;
    }
    closed = closed || got == 0;
    return closed || last_status >= 0;
}

/* Stops until the launcher is continued, and continues the command then. */
static void stop_with_command(int socket)
{
    terminal_stop(socket, read_messages);
    read_messages(socket);
    stopped = false;
    tell_monitor(socket, SIGCONT);
}

/* If the command has a terminal of its own, the launcher stops when the command has stopped. */
static void hand_on(int socket, int number, bool terminal)
{
    if (number == SIGWINCH && terminal)
        terminal_resize();
    if (number == SIGCONT)
        terminal_continue();
    if (number == SIGCHLD || (number == SIGWINCH && terminal && !run.uncontrolled))
        return;
    tell_monitor(socket, number);
    if (run.monitor == 0 && told == 0 && (number == SIGTERM || number == SIGHUP || number == SIGINT || number == SIGQUIT))
        told = number;
    if (number == SIGTSTP && !terminal)
        stop_with_command(socket);
}

/* --exec: whether to stop waiting for a command that was signalled to end: immediately if it has not started.
 * The caller has read the session's messages before, which may report that it has. */
static bool gives_up(void)
{
    if (told == 0 || !begun)
        return told != 0;
    if (told == SIGINT || told == SIGQUIT)
        told = 0;
    else if (ends == 0)
        ends = milliseconds() + ENDING;
    return told != 0 && milliseconds() >= ends;
}

/* Returns the status that the monitor has reported, or -1 if it ended without. */
static int see_through(int socket, int signals, bool terminal, int journal)
{
    int most, key;
    for (bool over = false; !over;) {
        struct pollfd each[4] = {{.fd = signals, .events = POLLIN}, {.fd = socket, .events = POLLIN}};
        size_t copied = terminal_wait(each + 2, &most);
        if (journal >= 0) {
            refusals_report(journal);
            most = most < 0 || most > TELLING ? TELLING : most;
        }
        if (ends != 0)
            most = most < 0 || most > TELLING ? TELLING : most;
        if (poll(each, 2 + copied, most) < 0 && errno != EINTR)
            die_errno("cannot wait for the command");
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof info) == sizeof info)
            hand_on(socket, (int)info.ssi_signo, terminal);
        if (copied > 0)
            terminal_copy(each + 2);
        if (run.uncontrolled && (key = terminal_signal()) != 0)
            tell_monitor(socket, key);
        over = has_ended(false);
        read_messages(socket);
        if (stopped && terminal && !over)
            stop_with_command(socket);
        if (closed && !over) /* the monitor has ended, or will do so at once */
            over = has_ended(true);
        if (!over && gives_up())
            return -1;
    }
    return last_status;
}

/* The monitor has ended, so its children are the launcher's now. */
static int clean_up(void)
{
    bool all = end_descendants();
    cgroup_remove(&run);
    if (run.method->clean != NULL)
        run.method->clean(&run);
    remove_placeholders(&run, true);
    requests_end(&run);
    terminal_restore();
    warn("the supervisor was killed, so the run was stopped%s", all ? "" : ", but not all of its processes");
    return begun ? KILLED : NOT_RUN;
}

static int open_signals(const sigset_t *set)
{
    int signals = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0 || sigprocmask(SIG_BLOCK, set, NULL) != 0)
        die_errno("cannot receive signals");
    return signals;
}

/* --exec: the session's first process takes the place of the monitor. */
static _Noreturn void execute(const sigset_t *set, char **words)
{
    run.artifacts = -1;
    check_descriptors(&run);
    stream_keys(&run);
    relay_streams(&run);
    relayed = true;
    int session = requests_ask(&run, words[0], words + 1, set), signals = open_signals(set);
    if (run.terminal) {
        terminal_begin(&run);
        terminal_resize();
    }
    int status = see_through(session, signals, run.terminal, -1);
    bool given_up = status < 0 && gives_up();
    if (!given_up)
        terminal_drain();
    if (status >= 0)
        terminal_return();
    terminal_restore();
    if (status < 0)
        warn("%s", !begun    ? "the session accepts no commands"
                   : given_up ? "the command did not exit in time; no longer waiting for it"
                              : "the session has ended, and the command with it");
    leave_launcher(status >= 0 ? status : given_up ? 128 + told : begun ? KILLED : NOT_RUN);
}

int main(int count, char **words)
{
    bool as_root = count > 1 && strcmp(words[1], "--as-root") == 0;
    /* With --run before it, `--uncover` is a command. */
    bool uncovers = count == 2 && strcmp(words[1], "--uncover") == 0;
    bool executes = count > 4 && strcmp(words[1], "--exec") == 0;
    sigset_t set;
    caught_signals(&set);
    if (!as_root) {
        leave = leave_launcher;
        if (count > 2 && strcmp(words[1], "--run") == 0) {
            run_document_read(words[2], &run.document);
            words += 2;
            count -= 2;
        }
        post_run_take(&run.document);
    }
    fill_standard();
    post_run_open();
    if (!as_root)
        workspace_enter(&run.document);
    if (executes)
        execute(&set, words + 2);
    read_plan();
    if (uncovers)
        uncover();
    if (as_root)
        user_as_root(&run, words + 2);
    check(count, words);
    run.launcher = getpid();
    bool terminal = terminal_open(&run);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        die_errno("cannot open pidfds of the run's processes");
    int sockets[2], signals = open_signals(&set);
    run.monitor = fork_monitor(sockets);
    ports_release();
    if (terminal)
        terminal_begin(&run);
    int status = see_through(sockets[0], signals, terminal, post_run_journal());
    if (post_run_journal() >= 0)
        refusals_report(post_run_journal());
    terminal_drain();
    if (status >= 0)
        terminal_return();
    leave_launcher(status < 0 ? clean_up() : status);
}
