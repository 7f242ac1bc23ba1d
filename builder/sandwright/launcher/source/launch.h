/* launch: the declarations that its parts share.
 *
 * Three kinds of processes run this program's code:
 *
 *   launcher  the process that was started: checks, forks the monitor, hands signals on, gives the exit status
 *   monitor    its child, in a new process group (same session, so that the terminal stays): makes what the run
 *             needs, forks the child, keeps the time limit, watches mounts, cleans up, tells the launcher the status
 *   child     the monitor's child, in a new session: executes bwrap, runc, runsc, docker, podman or sudo
 *
 * Launcher and monitor are both subreapers. If one of them dies, however it dies, the other ends everything below it
 * (`end_descendants`) and cleans up (`method->clean`, placeholders, run directory).
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
    const char *directory;  /* absolute: where the artifacts are */
    int artifacts;          /* the same, as a descriptor */
    char **command;         /* what to run, ends with NULL */
    const char *path;       /* PATH, without what the sandbox can write; also our own PATH from then on */
    const char *given_path; /* PATH as it was given, for the command */
    struct strv passed;    /* the variables that the policy passes on, as NAME=value, PATH as given */
    const char *name;       /* "sandwright-" and ten letters or digits: of the run's directory and its container */
    const char *state;      /* absolute: the run's directory, <state>/runs/<name>; not made by all methods */
    int lock;               /* of the project, -1 without: held by launcher and monitor */
    bool terminal;          /* standard input and output are terminals */
    bool uncontrolled;      /* the command's sends no signals: the launcher makes them of keys (gVisor) */
    pid_t launcher, monitor, child; /* child: known to the monitor only */
    int child_handle;       /* its pidfd, -1 without */
    const char *gate;       /* the monitor's: the file that lets the command start, NULL without */
    int stop_fd;            /* the monitor's: readable when the command has stopped or was executed, -1 without */
    int requests;           /* the monitor's: takes connections to the first process (requests.c), -1 without */
    int wakes;              /* the monitor's: a descriptor of the method's that ends its sleep when readable, -1 without */
    struct watch *watch;    /* the monitor's: NULL without; it is asked how it ended, and the run ends with it */
    const char *image_root; /* engine: what gVisor's sandbox runs on, NULL without */
    unsigned proxy_address; /* the monitor's: of the proxy, as the sandbox reaches it, in network order; 0: its own loopback */
    bool over;              /* the monitor's: the processes left below it are the engine's, and end by themselves */
    bool goes_on;           /* its container may, as the engine did not remove it: the run's directory and the placeholders stay */
    int ended_by;           /* the signal that the run was ended by, though with KILL: 137 becomes 128 + this */
};

/* User-Mode Linux, and the machines that QEMU restores, are of this processor: elsewhere all that is for them is left out. */
#if defined(__x86_64__)
#define OWN_KERNELS true
#else
#define OWN_KERNELS false
#endif

static inline bool has_kernel(const struct run *run) /* a kernel of the command's own */
{
    return OWN_KERNELS && run->plan.vm.kernel != NULL;
}

/* Whether the first process reports by STOP: of a detached run that the command was executed, else, with a terminal, that it has
 * stopped. */
static inline bool is_reported(const struct run *run)
{
    return run->terminal || run->document.started >= 0;
}

/* What a method does. Each function may be NULL. `clean` and `end` are called in monitor or launcher, whatever was made
 * and whatever is known: they go by names (run->name, run->state), and may be called twice. */
struct method {
    const char *name;                         /* the plan's field `method` */
    bool own_session;                         /* the sandbox makes a session itself; else the child leads one, which the
                                                 command's terminal controls */
    bool stateless;                           /* it makes no directory of the run: run->state may be NULL */
    bool limits;                              /* the launcher holds plan.memory, cpus and pids (cgroup.c, memory.c) */
    bool client;                              /* the child hands none of its descriptors on: no relays */
    void (*check)(struct run *);              /* launcher: before anything is made */
    void (*prepare)(struct run *);            /* monitor: creates the run's files */
    void (*start)(struct run *);              /* child: execs; returns only if it can't */
    void (*started)(struct run *);            /* monitor: the child has been forked (close your ends of pipes) */
    void (*readable)(struct run *);           /* monitor: `wakes` is readable */
    bool (*deliver)(struct run *, int);       /* monitor: hands a signal to the command (default: to the child); false:
                                                 there is none yet, it is tried again for 2 seconds */
    void (*end)(struct run *);                /* monitor: the run has to end now (time, launcher gone); then the child and
                                                 all descendants are killed */
    int (*status)(struct run *, int);         /* monitor: wait(2)'s status to the exit status; NULL: `exit_status` */
    void (*clean)(struct run *);              /* monitor or launcher */
    bool (*again)(struct run *);              /* monitor: nothing was run, and a new start may do (at most 3) */
};
extern const struct method bwrap_method, runtime_method, engine_method, user_method, landlock_method;

/* ---- check.c, launcher: refuses, or says that all is as it was rendered */
void check_descriptors(struct run *run); /* 0 to 2 are open and no directories; all others are closed or close-on-exec */
void check_path(struct run *run);        /* run->path, given_path */
const char *find_program(const struct run *run, const char *name); /* on run->path; NULL without */
bool is_writable_inside(const struct run *run, const char *path);
bool has_artifact(const struct run *run, const char *name); /* by the plan */
void check_artifacts(struct run *run);   /* sha256 of plan.artifacts, which stay in memory from then on */
char *checked_artifact(const struct run *run, const char *name, size_t *length); /* its content, which was looked at */
void check_paths(struct run *run);       /* plan.absent, there_directories, there_files; uid, mapping */
void check_there_still(const struct run *run); /* there_directories, there_files and mount_ways once more */

/* ---- privileges.c: false and errno. No program can give new rights afterwards. */
bool keep_capabilities(uint64_t kept);    /* a bit each, and no others */
bool drop_capabilities(void);             /* all, now and later */
uint64_t effective_capabilities(void);
/* These groups and no others; `kept` stay in the bounding set, too. */
bool become_account(uid_t user, gid_t group, const gid_t *groups, size_t count, uint64_t kept);

/* ---- environment.c */
bool is_set(const char *name);                      /* a variable of ours, and not empty */
void choose_environment(struct run *run);           /* run->passed, from plan.passed and plan.never */
void check_text(const struct run *run, const char *taker); /* command and run->passed are UTF-8: `taker` takes nothing else */

/* ---- streams.c: the command gets pipes in place of files and devices (docs/launcher.md) */
void stream_keys(struct run *run);    /* launcher: terminal rules; run->terminal */
void relay_streams(struct run *run);  /* launcher, before the monitor is forked: starts relays, puts pipes at 0 to 2 */
int end_relays(struct run *run, int status); /* launcher: all that was written is there, and 0 to 2 are what they were;
                                                status, or 1 if it can't be */

/* ---- devices.c, child: what it becomes changes no mode and owner of the host's devices. They are root's: of other users none
 * may. Without CAP_SYS_ADMIN nothing is done: this is a container, and they are its own. */
void keep_devices(void);

/* ---- cgroup.c: a cgroup of the run's, for plan.memory, cpus and pids */
#define CGROUPS "/sys/fs/cgroup"
char *cgroup_own(const char *controller); /* our own one's path in its hierarchy; NULL. "" for version 2 */
bool cgroup_enter(int directory);         /* this process; false: it may not */
void cgroup_make(struct run *run);        /* monitor: as far as this user may; refuses where nothing else can hold a limit */
char *cgroup_for_runtime(const struct run *run); /* monitor: the path of the cgroup that an OCI runtime creates, or refuses */
bool cgroup_limits_memory(void);
void cgroup_join(void);                   /* child */
long cgroup_out_of_memory(long *peak);    /* processes that the kernel killed for it; the peak in bytes */
void cgroup_remove(const struct run *run); /* monitor or launcher, after the last process */

/* ---- scope.c, monitor: enters a scope of the user's systemd, if there is one, in which cgroups can be created */
void scope_enter(const struct run *run);

/* ---- memory.c, monitor: plan.memory without a cgroup */
void memory_watch(const struct run *run);
int memory_timer(void);                   /* readable when memory_check is due; -1: it isn't watched */
bool memory_check(void);                  /* kills the largest process where too much is used; false: the run has to end */
void memory_report(const struct run *run); /* at the end, with cgroup.c: whether memory ran out */

/* ---- rundir.c: $XDG_RUNTIME_DIR/sandwright, /run/sandwright or ~/.cache/sandwright/run; `runs/<name>` in it */
void rundir_choose(struct run *run); /* launcher: run->name, run->state; makes the places, not the run's directory */
int rundir_locks(const char *name); /* launcher: opens a file there for locks between runs; -1 without a place */
void rundir_make(struct run *run, const char *method); /* monitor: with `owner`, who looks after it */
int open_without_links(int directory, const char *path, int flags, unsigned long resolve); /* by openat2(2), through no link */
bool rundir_orphaned(const struct run *run); /* whether a container of a killed run may go on in this project */
const char *rundir_make_ignored(const struct run *run); /* in that: a directory that Git passes over */
void remove_tree(const char *path);  /* never follows links, crosses no mounts */

/* ---- workspace.c */
void workspace_enter(const struct run_document *document); /* show a copy at the project's path from here on, if it names one */

/* ---- placeholders.c */
void lock_project(struct run *run);       /* launcher: shared; run->lock; waits 10 s */
void make_placeholders(struct run *run);  /* launcher or monitor, after the monitor is there */
/* False: others still run in the project, and the last of them removes ours, too. `wait`: for a second, as one may be ending. */
bool remove_placeholders(struct run *run, bool wait);
const char *project_digest(const struct plan *plan); /* names the project in the files of runs */

/* ---- command.c: the words before the command */
void put_before(struct run *run, char *const *words, size_t count);
void command_insert(struct run *run, char *const *words, size_t count); /* behind the program that runs inside */
void init_command(struct run *run, const char *program, const char *stop, int requests); /* its descriptor for them; -1 without */
/* The gate of containers, whose mounts the watch compares only when their first process is there: a file that is mounted inside. */
static const char GATE_INSIDE[] = "/.sandwright-gate";
void make_gate(struct run *run);          /* monitor: run->gate, closed */
void open_gate(const char *gate);
const char *stop_word(const struct run *run, const char *stop); /* STOP: a descriptor's number or a file, for the first process */
int make_stop_file(const char *path); /* whose reading is seen by what is given */

/* ---- exec.c. `environment` ends with NULL and holds PATH; exits with 126 or 127 where nothing can be run. */
_Noreturn void exec_command(char **command, char *const *environment);
void exec_reports(int file); /* where it fails, or `die` is called before, a byte is written to this pipe; success closes it */
bool exec_succeeded(int file); /* at the pipe's other end, which is closed: waits for one or the other */

/* ---- notify.c, confine.c. A separate process counts the filters' refusals to all programs inside, and, with
 * plan.sockets.supervised, answers its connect(2). */
void notify_filter(const struct run *run, const char *name); /* launcher: an artifact, of those the last one that is loaded first */
/* Launcher: the program inside confines itself first, and finds two descriptors from this one on. */
void notify_command(struct run *run, int descriptor);
void notify_act_as(uid_t user, gid_t group); /* root's half, before that: the owner of the supervisor's files */
void notify_start(struct run *run);        /* monitor, before each start of the child: forks the supervisor */
/* Or: a socket at which a runtime of ours hands over the listener (`listenerPath` of its configuration). `apart`: it can't look
 * at our descriptors. NULL, after a message: there is none. */
const char *notify_listen(struct run *run, bool apart);
int notify_asking(void);                   /* child: a new descriptor of the filter, which asks where it refused */
void notify_hand_over(void);               /* child, before it execs: the descriptors that --confine finds */
void notify_confine(bool links);           /* or child, in place of --confine: loads the filters; `links`: made for it */
int notify_channel(void);                  /* which it needs for that */
void notify_started(void);                 /* monitor, after the child was forked */
void notify_end(void);                     /* monitor */
/* landlock: forks the command's process, in which alone it returns, with the supervisor's number; this one becomes the supervisor,
 * under the rules of `ruleset`, hands signals on and ends as the command did. */
pid_t notify_above(const struct run *run, int ruleset);

/* ---- main.c, monitor.c, process.c */
enum { TO_DELIVER, BEGUN, STATUS, STOPPED, EXECUTED }; /* between launcher and monitor: a signal; the child is started; its status;
                                                       the command has stopped; it was executed */
struct message {
    int kind, value;
};
void caught_signals(sigset_t *set);       /* what the launcher hands on: no signal that was ignored when it was started */
void ignore_signals(void);                /* in what must not end by what ends the command */
void restore_signals(void);               /* before executing another program: as we inherited them */
_Noreturn void keep(struct run *run, int socket);
void tell_stopped(void);                  /* monitor: the command has stopped */
void tell_executed(void);                 /* monitor: it was executed */
/* What a monitor knows of its launcher: `may_give_up` is called while something is waited for that is prepared. */
struct launcher_link {
    int socket;
    bool gone, prepares;
    unsigned long pending; /* signals that found no process, by bits */
    void (*may_give_up)(void);
};
enum { LAUNCHER_RETRY = 20 };             /* milliseconds between two tries to hand a signal on */
void launcher_link(struct launcher_link *link);
bool launcher_there(void);                /* monitor: it hasn't ended */
size_t children_of(pid_t process, pid_t *found, size_t most);
pid_t parent_of(pid_t process);           /* 0 without */
bool descends_from(pid_t process, pid_t ancestor); /* or is it */
void spare_children(void);                /* launcher: those that it has now aren't ended */
void leave_alone(pid_t child);            /* it ends by itself, and is not waited for; 0: none */
bool end_descendants(void);               /* kills all below this process; false if some can't be ended */
/* Forks; with a pidfd, or -1 before Linux 5.3. 0 in the child, which is killed when we end and can't go on without
 * `leave`; it has the signals of the caller, and standard descriptors of ours. */
pid_t fork_child(int *handle);
pid_t fork_helper(int *handle);           /* the same, for a part of this program, of which is_helper is true until its end */
bool is_helper(pid_t process);
/* `time` in milliseconds. Closes `handle`; the exit status, -1: killed, as it took longer. */
int wait_for(pid_t child, int handle, long time);
/* Until it is, or until then (`milliseconds`): false. In a monitor that prepares, it doesn't come back when the run has to end. */
bool wait_readable(int file, long until);
/* A program of ours (argv[0] with its path) to its end, in at most `seconds`, without input: its exit status; -1 when it
 * can't be run or took longer. `output` (NULL: nowhere) is what it wrote, NUL behind it, with its `errors`, or they are shown nowhere. */
int capture(char *const *argv, char **output, int seconds, bool errors);
void redirect_to_null(int from, int to);      /* these descriptors of ours: to /dev/null, or refuses */

void lower_limit(int resource, unsigned long most, pid_t process, const char *name); /* 0: ours; or refuses */

/* ---- init.c: what starts the command inside */
void init_gate(const char *path); /* before the others: a file that is empty until the command may start */
_Noreturn void init_main(char **words);
_Noreturn void init_named(char **words); /* once names are resolved inside, as plan.names.patterns says */
_Noreturn void init_here(const char *stop, char **command, char *const *variables); /* without a program between */
_Noreturn void init_lead(char **command, char *const *variables); /* the same behind init_here, for another command */
void init_signal(pid_t job, int number, bool *stopped); /* hands it on */
/* `hear` handles SIGIO; `tell` reports EXECUTED, STOPPED and STATUS in place of STOP. Either may be NULL. */
void init_outside(void (*hear)(pid_t job, bool *stopped), void (*tell)(int kind, int value));
int terminal_pair(int *slave); /* a new terminal of this root: its other side, which doesn't wait; -1 and errno */
void lead_session(void);                  /* this process, which controls the terminal at 0, if one is there */
void job_begin(pid_t job);                /* both sides of a fork: 0 in the child */
void job_signal(pid_t job, int number, bool *stopped);

/* ---- vm.c: a kernel of the command's own (plan.vm.kernel), in bubblewrap's sandbox */
const char *vm_guest(const struct run *run); /* the first program there, an artifact that was looked at: its path */
/* Launcher: puts `INIT ...` (launch-vm) before the command, and what it needs into bubblewrap's arguments. */
void vm_command(struct run *run, struct strv *given, const char *init, const char *stop_word, const char *filter,
                const char *ways);
/* vm_landlock.c, child: the same here, with the `program` of the kernel. `own` is a directory of the run's. */
_Noreturn void vm_here(struct run *run, const char *stop, int ways, const char *program, const char *own, char *const *variables);

/* ---- terminal.c: a terminal of the command's own */
bool terminal_open(struct run *run);      /* launcher, before the fork: whether there is one; ours passes all keys then */
void terminal_begin(struct run *run);     /* launcher, after it */
void terminal_take(int master);           /* launcher, in place of terminal_open: one that is there already */
void terminal_give(struct run *run);      /* monitor: at 0 to 2, in place of ours */
void terminal_control(const struct run *run); /* child: a session, which it controls */
void terminal_restore(void);              /* ours is as it was */
/* The launcher stops until it is continued, unless the monitor has ended, or will. */
void terminal_stop(int socket, bool (*has_ended)(int socket));
void terminal_continue(void);             /* it was, or may have been */
void terminal_resize(void);
size_t terminal_wait(struct pollfd *each, int *most); /* what to wait for, at most 2, and how many milliseconds */
void terminal_copy(const struct pollfd *each);
int terminal_signal(void);                /* the one that the last keys mean, 0 without */
void terminal_drain(void);                /* at the end: the last output */
void terminal_return(void);               /* and what was typed and not read (typeahead.h), before terminal_restore */

/* ---- watch.c: the watch over mounts (watch.h), in a separate process, by the artifact `mounts` */
struct watch {
    pid_t first;          /* the sandbox's process 1, which waits to be let go; or 0 */
    int waits_on;         /* the descriptor that it reads from then */
    const char *pid_file; /* or where the number of process 1 will be; it doesn't wait */
    const char *gate;     /* then: written to when the mounts are compared; NULL without */
    bool wait;            /* that file will be there for sure: an earlier fault is reported by ending that process */
    bool opaque;          /* process 1 has other mounts than the sandbox (gVisor): only the host is watched */
    bool by_name;         /* or there is none: who holds the paths goes by their names (paths.c), whatever lies there */
    const char *root;     /* or: we are in the sandbox's namespaces, and this will be its root; all others are killed */
    /* These are set by watch_start. */
    bool tells;   /* of faults that no other part reports */
    pid_t process;
    int handle;   /* its pidfd */
    int says;     /* readable when it has said that all is mounted, or has ended */
    bool mounted; /* it has said so */
    int words;    /* what it says on standard error, in memory: who reads ours doesn't wait for it */
};
void watch_start(struct run *run, struct watch *watch);
bool watch_mounted(struct watch *watch); /* waits for its word */
int watch_end(struct watch *watch);      /* 0; 137 when something was replaced, and method->end may be needed; 125 */

/* ---- finish.c: the end of the launcher; it executes the post-run step. It becomes the launcher's process, and exits with the given status. */
void post_run_take(const struct run_document *document); /* launcher, the first call of main */
void post_run_open(void);               /* launcher: opens what the next one gives */
int post_run_journal(void);              /* launcher: where refusals are reported at once; -1: nowhere */
_Noreturn void finish(int status);    /* launcher: the last one, in place of exit, after `end_relays` and all clean-up;
                                         `leave` is this, too, in the launcher. Blocked signals may stay so. */

/* ---- egress.c: the way to the proxy (run->document.egress) */
void egress_check(struct run *run);                            /* launcher */
bool egress_open(struct run *run, pid_t process, bool wait);   /* monitor or child; says why not */
void egress_close(struct run *run);
/* Launcher: the port of the host's loopback at which the proxy listens, and its greeting; or refuses. */
const char *egress_greeting(int *port);

/* ---- ports.c: network.expose and network.localhost */
bool ports_wanted(const struct run *run);
void ports_check(struct run *run);   /* launcher: listens on the host's ports, or refuses */
void ports_release(void);            /* launcher: its monitor has them */
void ports_start(struct run *run);   /* monitor, before the child */
int network_of(pid_t process);       /* its network namespace; -1 and errno */
/* Called in the monitor or the child, which closes `network`. False after an error message. `waits`: another process brings the loopback up. */
bool ports_open(int network, bool waits);

/* ---- authorities.c: the host's certificates of authorities, for an image's root */
const char *authorities_copy(const struct run *run); /* monitor: a file in the run's directory; NULL: the image's stay */
/* Those of the places that an unpacked `image` has, links followed; all of them without one. */
struct strv authorities_in(const struct strv *asked, const char *image);
char *only_certificates(const char *content, size_t length); /* of PEM; NULL without any */

/* Where the key store of the same, for Java, lies inside; `path` gets the artifact, NULL without one. */
struct strv authorities_stores(const struct run *run, const char *image, const char **path);

/* ---- imagefiles.c, monitor: places inside, and after each the file that lies over the image's; adds to run->passed */
struct strv image_files(struct run *run, const char *image);

/* ---- dns.c: names that lead through the proxy */
enum { DNS_MESSAGE = 512 };
bool dns_wanted(const struct run *run);
/* What a resolver says to a question, in `answer` of DNS_MESSAGE bytes: its length, 0 for nothing. `names` have addresses. */
size_t dns_answer(const struct strv *patterns, struct strv *names, const unsigned char *question, size_t length,
                    unsigned char *answer);

/* ---- shims.c: the bridge (run->document.shims, .channel) */
void shims_check(struct run *run);                              /* launcher */
void shims_command(struct run *run, bool container);            /* puts sandwright-enter before the command */

/* ---- user.c: `launch --as-root NUMBER COMMAND ...`, for sudo; nothing of the environment counts, nor is there a run document */
_Noreturn void user_as_root(struct run *run, char **words);

#endif
