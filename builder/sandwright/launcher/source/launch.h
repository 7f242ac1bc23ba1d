/* The declarations that the launcher's files share.
 *
 * Three kinds of processes run this program's code:
 *
 *   launcher  the process that the user started: runs the checks, forks the monitor, forwards signals to it,
 *             and exits with the status that the monitor reports
 *   monitor   the launcher's child, in a process group of its own, but in the same session, so that it keeps
 *             the terminal: creates the run's files, forks the child, enforces the time limit, watches
 *             mounts, cleans up
 *   child     the monitor's child, in a session of its own: executes bwrap, runc, runsc, docker, podman or
 *             sudo
 *
 * Launcher and monitor are both subreapers. If one of them dies, even by SIGKILL, the other one kills all
 * processes below it (`end_descendants`) and cleans up (`method->clean`, placeholders, run directory).
 */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <poll.h>
#include <signal.h>

#include "bytes.h"
#include "log.h"
#include "plan.h"
#include "run_document.h"
#include "utils.h"

/* ---- one run */
struct method;
struct run {
    struct plan plan;
    struct run_document document;
    const struct method *method;
    const char *directory;  /* absolute path of the directory with the artifacts */
    int artifacts;          /* a descriptor of that directory */
    char **command;         /* the command to run, ends with NULL */
    /* PATH without the directories that the sandbox can write; the launcher's own PATH once it is checked. */
    const char *path;
    const char *given_path; /* PATH as the caller set it, passed to the command */
    /* The variables that the policy passes to the command, as NAME=value; PATH as the caller set it. */
    struct strv passed;
    const char *name; /* names the run directory and the container: "sandwright-" and ten letters or digits */
    /* Absolute path of the run directory, <state>/runs/<name>; not every method creates it. */
    const char *state;
    int lock;               /* the lock on the project, held by launcher and monitor; -1: none */
    bool terminal;          /* standard input and output are terminals */
    /* The command's terminal sends no signals, so the launcher translates keys to signals (gVisor). */
    bool uncontrolled;
    pid_t launcher, monitor, child; /* `child` is set in the monitor only */
    int child_handle;       /* the child's pidfd, -1: none */
    /* Monitor: the file whose content lets the command start; NULL: the command does not wait. */
    const char *gate;
    int stop_fd;            /* monitor: readable when the command has stopped or was executed; -1: none */
    /* Monitor: the socket that passes connections to the first process (requests.c); -1: none. */
    int requests;
    int wakes; /* monitor: a descriptor of the method that wakes the monitor when readable; -1: none */
    /* Monitor: the mount watch; when it ends, so does the run, with its exit status; NULL: none. */
    struct watch *watch;
    /* Engine: the unpacked image that gVisor's sandbox uses as its root; NULL: none. */
    const char *image_root;
    /* Monitor: the proxy's address as seen from the sandbox, in network byte order; 0: the sandbox's
     * loopback. */
    unsigned proxy_address;
    bool over; /* monitor: the processes left below it belong to the engine's client, and end by themselves */
    /* The engine did not remove the container, which may still run: run directory and placeholders are
     * kept. */
    bool goes_on;
    /* The signal that was to end the run: if SIGKILL had to follow, 137 becomes 128 + this signal. */
    int ended_by;
};

/* User-Mode Linux and the machine states that QEMU restores exist for x86-64 only. On other processors, the
 * code for them is left out. */
#if defined(__x86_64__)
#define OWN_KERNELS true
#else
#define OWN_KERNELS false
#endif

static inline bool has_kernel(const struct run *run) /* the command runs under a guest kernel */
{
    return OWN_KERNELS && run->plan.vm.kernel != NULL;
}

/* Whether the first process writes to the stop descriptor: in a detached run, that the command was executed;
 * with a terminal, that the command has stopped. */
static inline bool is_reported(const struct run *run)
{
    return run->terminal || run->document.started >= 0;
}

/* The functions of a method; each may be NULL. `clean` and `end` run in the monitor or the launcher, in
 * any state of the run and of the caller. They therefore find things by name (run->name,
 * run->state), and may be called twice. */
struct method {
    const char *name;                         /* the plan's field `method` */
    /* The sandbox creates a session itself; otherwise the child leads one, with the command's terminal. */
    bool own_session;
    bool stateless;                           /* the method needs no run directory: run->state may be NULL */
    bool limits; /* the launcher enforces plan.memory, cpus and pids (cgroup.c, memory.c) */
    bool client; /* the child passes none of its descriptors on, so streams need no relays */
    void (*check)(struct run *);              /* launcher: before anything is created */
    void (*prepare)(struct run *);            /* monitor: creates the run's files */
    void (*start)(struct run *);              /* child: executes the sandbox; returns only if that fails */
    /* Monitor: the child has been forked, so the method closes its ends of pipes. */
    void (*started)(struct run *);
    void (*readable)(struct run *);           /* monitor: `wakes` is readable */
    /* Monitor: forwards a signal to the command (default: to the child). False: no process can receive it
     * yet; the monitor retries for 2 seconds. */
    bool (*deliver)(struct run *, int);
    /* Monitor: the run has to end now (time limit, launcher gone); the child and all descendants are killed
     * afterwards. */
    void (*end)(struct run *);
    /* Monitor: converts the status of wait(2) to the exit status; NULL: `exit_status`. */
    int (*status)(struct run *, int);
    void (*clean)(struct run *);              /* monitor or launcher */
    /* Monitor: the command did not start, and another try may succeed (at most 3). */
    bool (*again)(struct run *);
};
extern const struct method bwrap_method, runtime_method, engine_method, user_method, landlock_method;

/* ---- check.c, launcher: each check refuses the run, or returns if the host is as it was when the plan was
 * rendered */
/* Descriptors 0 to 2 are no directories; closes all others but a few, which become close-on-exec. */
void check_descriptors(struct run *run);
void check_path(struct run *run);        /* sets run->path and run->given_path */
const char *find_program(const struct run *run, const char *name); /* searches run->path; NULL: not found */
bool is_writable_inside(const struct run *run, const char *path);
bool has_artifact(const struct run *run, const char *name); /* the plan lists this artifact */
/* Compares the sha256 digests of plan.artifacts, and keeps the content in memory: later changes have no
 * effect. */
void check_artifacts(struct run *run);
/* The content that was checked. */
char *checked_artifact(const struct run *run, const char *name, size_t *length);
void check_paths(struct run *run); /* plan.absent, there_directories and there_files, uid and user mapping */
/* Checks there_directories, there_files and mount_ways again, as the host may have changed them meanwhile. */
void check_there_still(const struct run *run);

/* ---- privileges.c: on failure, false and errno. Afterwards no program that is executed can gain
 * privileges. */
bool keep_capabilities(uint64_t kept);    /* keeps these capabilities, one per bit, and drops all others */
bool drop_capabilities(void);             /* drops all capabilities for good */
uint64_t effective_capabilities(void);
/* Switches to this user, this group and exactly these supplementary groups. The capabilities in `kept` stay,
 * in the bounding set too. */
bool become_account(uid_t user, gid_t group, const gid_t *groups, size_t count, uint64_t kept);

/* ---- environment.c */
bool is_set(const char *name); /* one of the launcher's own variables is set and not empty */
void choose_environment(struct run *run);           /* sets run->passed, by plan.passed and plan.never */
/* Refuses a command or run->passed that is not UTF-8, because `taker` accepts nothing else. */
void check_text(const struct run *run, const char *taker);

/* ---- streams.c: the command gets pipes in place of files and devices (docs/launcher.md) */
/* Launcher: sets run->terminal; the command gets no input from a terminal if its output is something else. */
void stream_keys(struct run *run);
/* Launcher, before it forks the monitor: starts the relays, and replaces descriptors 0 to 2 with pipes. */
void relay_streams(struct run *run);
/* Launcher: waits until all output is written, and restores descriptors 0 to 2; returns `status`, or 1 on
 * failure. */
int end_relays(struct run *run, int status);

/* ---- devices.c, child: makes sure that the program it becomes changes no mode or owner of the host's
 * devices. They belong to root, so no other user can. Without CAP_SYS_ADMIN it does nothing: the launcher is
 * in a container then, and the devices are the container's. */
void keep_devices(void);

/* ---- cgroup.c: a cgroup for the run, for plan.memory, cpus and pids */
#define CGROUPS "/sys/fs/cgroup"
/* The path of the launcher's own cgroup in this controller's hierarchy, or NULL; "" means version 2. */
char *cgroup_own(const char *controller);
bool cgroup_enter(int directory);         /* moves this process to the cgroup; false: not permitted */
/* Monitor: creates the cgroup if this user may; refuses the run if a limit can't be enforced without it. */
void cgroup_make(struct run *run);
/* Monitor: the path of the cgroup that the OCI runtime is to create; refuses the run if there can be none. */
char *cgroup_for_runtime(const struct run *run);
bool cgroup_limits_memory(void);
void cgroup_join(void);                   /* child */
/* How many processes the kernel has killed in the cgroup for memory; `peak` gets the peak in bytes. */
long cgroup_out_of_memory(long *peak);
void cgroup_remove(const struct run *run); /* monitor or launcher, after the last process has ended */

/* ---- scope.c, monitor: enters a scope of the user's systemd, if it has one, because the user may create
 * cgroups there */
void scope_enter(const struct run *run);

/* ---- memory.c, monitor: enforces plan.memory where there is no cgroup */
void memory_watch(const struct run *run);
int memory_timer(void);                   /* readable when memory_check is due; -1: memory is not watched */
bool memory_check(void); /* kills the largest process if the run uses too much; false: the run has to end */
void memory_report(const struct run *run); /* at the end, for cgroup.c too: reports whether memory ran out */

/* ---- rundir.c: run directories, `runs/<name>` in $XDG_RUNTIME_DIR/sandwright, /run/sandwright or
 * ~/.cache/sandwright/run */
/* Launcher: sets run->name and run->state; creates the parent directories, not the run directory. */
void rundir_choose(struct run *run);
/* Launcher: opens a file beside `runs`, for locks between runs; -1 where no directory can be used. */
int rundir_locks(const char *name);
/* Monitor: creates the run directory, with the file `owner`, which names the processes in charge. */
void rundir_make(struct run *run, const char *method);
/* openat2(2) that follows no link. */
int open_without_links(int directory, const char *path, int flags, unsigned long resolve);
/* Whether a container of a killed run may still run in this project. */
bool rundir_orphaned(const struct run *run);
/* Creates a directory in the run directory that Git ignores. */
const char *rundir_make_ignored(const struct run *run);
void remove_tree(const char *path);  /* follows no links and crosses no mounts */

/* ---- workspace.c */
/* If the document names a copy of the project, mounts it at the project's path for this process. */
void workspace_enter(const struct run_document *document);

/* ---- placeholders.c */
/* Launcher: takes a shared lock on the project, run->lock; waits up to 10 s. */
void lock_project(struct run *run);
void make_placeholders(struct run *run);  /* launcher or monitor, once the monitor exists */
/* False: other runs use the project, and the last of them removes this run's placeholders too. With `wait`,
 * it waits up to a second for a run that is just ending. */
bool remove_placeholders(struct run *run, bool wait);
const char *project_digest(const struct plan *plan); /* names the project in the files of runs */

/* ---- command.c: the words before the command */
void put_before(struct run *run, char *const *words, size_t count);
/* Inserts them behind the program that runs inside. */
void command_insert(struct run *run, char *const *words, size_t count);
/* `requests` is the descriptor of the first process for further commands; -1: none. */
void init_command(struct run *run, const char *program, const char *stop, int requests);
/* A file that is mounted into containers. Their first process waits for it: the watch can compare the mounts
 * of a container only when that process exists. */
static const char GATE_INSIDE[] = "/.sandwright-gate";
void make_gate(struct run *run);          /* monitor: creates run->gate, closed */
void open_gate(const char *gate);
/* The word STOP for the first process: the number of a descriptor, or a file. */
const char *stop_word(const struct run *run, const char *stop);
/* Creates a file; the returned descriptor becomes readable when a process reads the file. */
int make_stop_file(const char *path);

/* ---- exec.c. `environment` ends with NULL and contains PATH; exits with 126 or 127 if the command can't be
 * executed. */
_Noreturn void exec_command(char **command, char *const *environment);
/* From now on a failed exec, or `die` before it, writes a byte to this pipe; a successful exec closes it. */
void exec_reports(int file);
bool exec_succeeded(int file); /* waits for that at the pipe's other end, and closes it */

/* ---- notify.c, confine.c. The supervisor, a separate process, receives seccomp notifications. It counts the
 * calls that the filters refuse to programs inside, and with plan.sockets.supervised it also makes their
 * connect(2). */
/* Launcher: adds the filter in this artifact; the program inside loads the last one added first. */
void notify_filter(const struct run *run, const char *name);
/* Launcher: puts a program before the command that loads the filters first. It inherits two descriptors, from
 * the number `descriptor` on. */
void notify_command(struct run *run, int descriptor);
/* The root half, before notify_command: the owner of the supervisor's files. */
void notify_act_as(uid_t user, gid_t group);
void notify_start(struct run *run);        /* monitor: forks the supervisor, before each start of the child */
/* Instead of that, a socket over which an OCI runtime passes the listener (`listenerPath` in its
 * configuration). With `apart`, the supervisor can't read the descriptors of processes inside. NULL, after a
 * message, if there is no socket. */
const char *notify_listen(struct run *run, bool apart);
int notify_asking(void); /* child: a new descriptor of the filter whose refusals are notifications */
void notify_hand_over(void); /* child, before exec: puts the descriptors where --confine expects them */
/* Child, in place of --confine: loads the filters; `links`: the supervisor creates links for it. */
void notify_confine(bool links);
int notify_channel(void);                  /* the descriptor that notify_confine needs */
void notify_started(void);                 /* monitor, after it has forked the child */
void notify_end(void);                     /* monitor */
/* landlock: forks the command's process, and returns only there, with the supervisor's process ID. The caller
 * becomes the supervisor, enters `ruleset`, forwards signals, and ends with the command's status. */
pid_t notify_above(const struct run *run, int ruleset);

/* ---- main.c, monitor.c, process.c */
/* Messages between launcher and monitor: forward a signal; the child is started; its status; the command has
 * stopped; the command was executed. */
enum { TO_DELIVER, BEGUN, STATUS, STOPPED, EXECUTED };
struct message {
    int kind, value;
};
/* The signals that the launcher forwards: all but those that were ignored when it was started. */
void caught_signals(sigset_t *set);
void ignore_signals(void); /* for processes that have to outlive the signals that end the command */
/* Before another program is executed: signal actions and mask as the launcher inherited them. */
void restore_signals(void);
_Noreturn void run_monitor(struct run *run, int socket);
void tell_stopped(void);                  /* monitor: reports that the command has stopped */
void tell_executed(void);                 /* monitor: reports that the command was executed */
/* The monitor's view of its launcher. `may_give_up` is called while the monitor waits for something during
 * preparation. */
struct launcher_link {
    int socket;
    bool gone, prepares;
    unsigned long pending; /* signals that no process could receive yet, one per bit */
    void (*may_give_up)(void);
};
enum { LAUNCHER_RETRY = 20 };             /* milliseconds between two attempts to forward a signal */
void launcher_link(struct launcher_link *link);
bool launcher_there(void);                /* monitor: whether the launcher still runs */
size_t children_of(pid_t process, pid_t *found, size_t most);
pid_t parent_of(pid_t process);           /* 0: unknown */
bool descends_from(pid_t process, pid_t ancestor); /* true also if both are the same process */
void spare_children(void);                /* launcher: its present children are not killed at the end */
void leave_alone(pid_t child); /* this child ends by itself, and is neither killed nor waited for; 0: none */
bool end_descendants(void); /* kills all processes below this one; false if some can't be killed */
/* Forks, and sets `handle` to a pidfd, or -1 before Linux 5.3. Returns 0 in the child. The child is killed
 * when the caller ends, can end only through `leave`, and has the launcher's standard descriptors, and the
 * signal actions and mask that the launcher inherited. */
pid_t fork_child(int *handle);
/* The same for a part of this program; is_helper is true of the process until it ends. */
pid_t fork_helper(int *handle);
bool is_helper(pid_t process);
/* `time` is in milliseconds. Closes `handle`. Returns the exit status, or -1 if the child took longer and was
 * killed. */
int wait_for(pid_t child, int handle, long time);
/* Waits until `file` is readable, or until the time `until` (`milliseconds`): false. In a monitor that is
 * preparing a run, it does not return if the run has to end. */
bool wait_readable(int file, long until);
/* Runs a program of the host (argv[0] with its path) without input, for at most `seconds`. Returns its exit
 * status, or -1 if it can't be run or took longer. `output`, unless NULL, gets its standard output with a NUL
 * at the end, and with `errors` its standard error too; otherwise standard error is discarded. */
int capture(char *const *argv, char **output, int seconds, bool errors);
/* Points these descriptors of the launcher at /dev/null, or refuses the run. */
void redirect_to_null(int from, int to);

/* Process 0: this one; refuses the run on failure. */
void lower_limit(int resource, unsigned long most, pid_t process, const char *name);

/* ---- init.c: the first process inside, which starts the command */
/* Called before the others: waits until this file, empty until then, lets the command start. */
void init_gate(const char *path);
_Noreturn void init_main(char **words);
/* The same with a resolver inside, for the host names of plan.names.patterns. */
_Noreturn void init_named(char **words);
/* The same in this process, without executing another program. */
_Noreturn void init_here(const char *stop, char **command, char *const *variables);
/* The part of init_here that starts and leads another command. */
_Noreturn void init_lead(char **command, char *const *variables);
void init_signal(pid_t job, int number, bool *stopped); /* forwards the signal to the job */
/* `hear` handles SIGIO; `tell` reports EXECUTED, STOPPED and STATUS instead of the stop descriptor. Either
 * may be NULL. */
void init_outside(void (*hear)(pid_t job, bool *stopped), void (*tell)(int kind, int value));
/* A new terminal of this root: returns its master, which is non-blocking; -1 and errno. */
int terminal_pair(int *slave);
/* Makes this process a session leader that controls the terminal at descriptor 0, if that is one. */
void lead_session(void);
void job_begin(pid_t job);                /* called on both sides of the fork: with 0 in the child */
void job_signal(pid_t job, int number, bool *stopped);

/* ---- vm.c: a guest kernel for the command (plan.vm.kernel), in bubblewrap's sandbox */
const char *vm_guest(const struct run *run); /* the path of the guest's first program, a checked artifact */
/* Launcher: puts `INIT ...` (launch-vm) before the command, and what it needs into bubblewrap's arguments. */
void vm_command(struct run *run, struct strv *given, const char *init, const char *stop_word, const char *filter,
                const char *ways);
/* vm_landlock.c, child: the same in this process, with `program` as the kernel. `own` is a directory of the
 * run. */
_Noreturn void vm_here(struct run *run, const char *stop, int ways, const char *program, const char *own, char *const *variables);

/* ---- terminal.c: a pseudo-terminal for the command */
/* Launcher, before the fork: whether the command gets a terminal; the user's terminal is in raw mode from
 * then on. */
bool terminal_open(struct run *run);
void terminal_begin(struct run *run);     /* launcher, after the fork */
void terminal_take(int master); /* launcher, instead of terminal_open: uses a terminal that already exists */
void terminal_give(struct run *run);      /* monitor: puts the command's terminal at descriptors 0 to 2 */
void terminal_control(const struct run *run); /* child: creates a session that the terminal controls */
void terminal_restore(void);              /* restores the settings of the user's terminal */
/* Stops the launcher until it is continued, unless the monitor has ended or is about to. */
void terminal_stop(int socket, bool (*has_ended)(int socket));
void terminal_continue(void);             /* after the launcher was continued, or may have been */
void terminal_resize(void);
/* Fills in the descriptors to poll, at most 2, and the timeout in milliseconds. */
size_t terminal_wait(struct pollfd *each, int *most);
void terminal_copy(const struct pollfd *each);
int terminal_signal(void);                /* the signal that the last keys stand for; 0: none */
void terminal_drain(void);                /* at the end: copies the remaining output */
/* Before terminal_restore: gives keys that no program has read back to the user's terminal (typeahead.h). */
void terminal_return(void);

/* ---- watch.c: the mount watch (watch.h), a separate process that compares mounts with the artifact
 * `mounts` */
struct watch {
    pid_t first;          /* the sandbox's process 1, which waits until the watch lets it go; or 0 */
    int waits_on;         /* the descriptor from which that process reads meanwhile */
    const char *pid_file; /* or the file that will contain the PID of process 1, which does not wait */
    /* With pid_file: the file that the watch writes once it has compared the mounts; NULL: none. */
    const char *gate;
    bool wait; /* pid_file is certain to appear: the watch reports an earlier fault by killing that process */
    bool opaque; /* process 1 does not see the sandbox's mounts (gVisor): the watch checks the host only */
    /* Or no process 1 is visible: the supervisor looks each path up by name (paths.c), whatever is there. */
    bool by_name;
    /* Or the watch runs in the sandbox's namespaces, and this becomes the sandbox's root; on a fault, all
     * other processes there are killed. */
    const char *root;
    /* These are set by watch_start. */
    bool tells;   /* the watch reports faults that no other part reports */
    pid_t process;
    int handle;   /* the watch's pidfd */
    int says;     /* readable when the watch has confirmed all mounts, or has ended */
    bool mounted; /* it has confirmed them */
    /* Its standard error, a file in memory: a slow reader of the launcher's standard error can't block the
     * watch. */
    int words;
};
void watch_start(struct run *run, struct watch *watch);
bool watch_mounted(struct watch *watch); /* waits for the confirmation */
/* 0; 137 if a mount was replaced, in which case method->end may have to be called; 125. */
int watch_end(struct watch *watch);

/* ---- finish.c: the end of the launcher. It executes the post-run step, which becomes this process and exits
 * with the given status. */
void post_run_take(const struct run_document *document); /* launcher, the first call of main */
void post_run_open(void);               /* launcher: opens the journal that the document names */
int post_run_journal(void); /* launcher: the file to which denials are reported as they happen; -1: none */
/* Launcher: the last call, instead of exit, after `end_relays` and the clean-up; in the launcher, `leave` is
 * this function. Signals may stay blocked. */
_Noreturn void finish(int status);

/* ---- egress.c: the connection to the proxy (run->document.egress) */
void egress_check(struct run *run);                            /* launcher */
/* Monitor or child; reports the reason on failure. */
bool egress_open(struct run *run, pid_t process, bool wait);
void egress_close(struct run *run);
/* Launcher: the port of the host's loopback on which the proxy listens, and the greeting that it expects; or
 * refuses the run. */
const char *egress_greeting(int *port);

/* ---- ports.c: network.expose and network.localhost */
bool ports_wanted(const struct run *run);
void ports_check(struct run *run);   /* launcher: listens on the host's ports, or refuses the run */
void ports_release(void);            /* launcher: closes the listeners, which the monitor has inherited */
void ports_start(struct run *run);   /* monitor, before the child */
int network_of(pid_t process);       /* the network namespace of a process; -1 and errno */
/* Called in the monitor or the child. Closes `network`. False after an error message. `waits`: another
 * process brings up the loopback interface. */
bool ports_open(int network, bool waits);

/* ---- authorities.c: the host's CA certificates, for the root of an image */
/* Monitor: a copy in the run directory; NULL: the image keeps its own certificates. */
const char *authorities_copy(const struct run *run);
/* The paths of `asked` that exist in an unpacked `image`, with links followed; without an image, all of
 * them. */
struct strv authorities_in(const struct strv *asked, const char *image);
/* Keeps the certificates of a PEM file and drops the rest; NULL if it has none. */
char *only_certificates(const char *content, size_t length);

/* The paths inside of Java's key stores with the same certificates; `path` gets the artifact, or NULL if
 * there is none. */
struct strv authorities_stores(const struct run *run, const char *image, const char **path);

/* ---- imagefiles.c, monitor: pairs of a path inside and the file that is mounted over the image's file; adds
 * to run->passed */
struct strv image_files(struct run *run, const char *image);

/* ---- dns.c: a resolver for the host names that are reached through the proxy */
enum { DNS_MESSAGE = 512 };
bool dns_wanted(const struct run *run);
/* Writes the reply to a DNS query into `answer`, which has DNS_MESSAGE bytes. Returns its length, 0 for no
 * reply. `names` contains the host names that have got an address. */
size_t dns_answer(const struct strv *patterns, struct strv *names, const unsigned char *question, size_t length,
                    unsigned char *answer);

/* ---- shims.c: the bridge (run->document.shims, .channel) */
void shims_check(struct run *run);                              /* launcher */
void shims_command(struct run *run, bool container);            /* puts sandwright-enter before the command */

/* ---- user.c: `launch --as-root NUMBER COMMAND ...`, which sudo runs. It trusts no environment variable, and
 * has no run document. */
_Noreturn void user_as_root(struct run *run, char **words);

#endif
