/* The mount watch: checks that the mounts in a sandbox are as planned, and stay so. */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum kind { OWN, MASK_FILE, MASK_DIRECTORY, READ, WRITE, PLACEHOLDER_FILE, PLACEHOLDER_DIRECTORY };

struct record {
    enum kind kind;
    const char *target; /* the path inside */
    size_t length;      /* of `target` */
    const char *source; /* the path on the host, which is watched if `watched` is true */
    bool watched;       /* replacing it on the host would remove the mount */
    bool again;         /* no program inside can create anything there, so the watch covers it again */
    bool rebound; /* programs on the host replace it in normal work, so the watch mounts it read-only again */
    bool writable;      /* the private directory is writable */
    bool gone;          /* the path does not exist at the moment */
    int held;           /* a descriptor of the file on the host; -1: none */
    int fault;          /* the error number if `held` is -1 */
    unsigned long mount; /* the mount's ID; 0: not seen yet */
};

struct mount_plan {
    struct record *records;
    size_t count;
};

struct mount {
    unsigned long id, parent;
    char *point, *type;
    size_t length; /* of `point` */
    bool readonly;
};

struct mounts {
    struct mount *all; /* sorted by `parent` */
    size_t count;
    struct mount *root;
    char *text;
};

/* The watched paths on the host. */
struct watched_name;
struct host_watch {
    int inotify;        /* -1: none */
    bool incomplete;    /* inotify does not cover everything, so the watch also polls */
    /* Git held the lock on its configuration, which is watched, and was about to replace it
     * (git-config(1)). */
    bool config_locked;
    struct watched_name *names;
    size_t count;
};

/* watch_plan.c. Returns NULL, or the fault. Changes `text`, to which the plan points. */
const char *watch_plan_parse(char *text, size_t length, struct mount_plan *plan);
struct run;
/* Parses the artifact; refuses the run if it is invalid. */
struct mount_plan watch_plan_checked(const struct run *run);

/* Parses a line without its newline; changes `text`, to which `mount` points. */
bool mount_parse(char *text, struct mount *mount);
bool mounts_parse(char *text, struct mounts *mounts); /* takes ownership of `text`, which must end with NUL */
bool mounts_read(int file, struct mounts *mounts);
void mounts_free(struct mounts *mounts);
const struct mount *mounts_at(const struct mounts *mounts, const char *path, size_t length);

/* watch_compare.c: the first record that differs from the plan, or NULL. `where` gets the path of an
 * unplanned mount, or NULL. */
const struct record *compare(struct mount_plan *plan, const struct mounts *mounts, int root, bool first, const char **where);

/* The record of `path`, or of the closest directory above it. */
const struct record *record_about(const struct mount_plan *plan, const char *path, size_t length);

/* Inspects the file at a path inside, without following links; returns an error number if that fails. */
struct stat;
int look_inside(int root, const char *path, struct stat *status);

bool is_in_memory(const char *type); /* whether file systems of this type are in memory */

/* watch_denied.c. `names` are the denied names as spelled, each with the path to which it led at rendering
 * ("": nowhere). Returns the path inside of the first name that leads to a file of the host that is visible
 * inside, or NULL. `mounts`, and the root `inside` to which they belong, may be NULL; then only the plan says
 * which files are hidden. */
struct strv;
const char *absent_find(const struct strv *names, const struct mount_plan *plan, const struct mounts *mounts, int inside,
                        const char *root, struct host_watch *watch);

/* watch_index.c: takes a lease on Git's index, so that no process writes to it unnoticed (SIGIO: one tried).
 * Returns the reason why Git must not use the file, or NULL. */
const char *index_hold(const char *path, const struct strv *writable);

void host_watch_name(struct host_watch *watch, const char *directory, const char *name);
void host_watch(struct host_watch *watch, struct mount_plan *plan);
/* The file that is there now must not be replaced. */
void host_hold(struct host_watch *watch, struct record *record);
bool host_events(struct host_watch *watch); /* whether an event concerns a watched path */
const struct record *host_compare(const struct mount_plan *plan);

struct sandbox {
    /* Of its first process: the directory in /proc, and a descriptor with which to kill it; -1: none. */
    int process, handle;
    int mounts, root;    /* its mountinfo and its root; -1: none */
};
bool sandbox_open(pid_t number, struct sandbox *sandbox);
bool sandbox_is_here(void);
bool sandbox_is_first(const struct sandbox *sandbox);
/* Whether the process reads from `descriptor`: 1; not yet: 0; unknown: -1. */
int sandbox_waits(const struct sandbox *sandbox, int descriptor);
void sandbox_end(const struct sandbox *sandbox);

/* watch_mountns.c: called in a separate process, because it changes namespaces */
struct inside {
    int spaces[2]; /* user namespace (-1: the watch's own) and mount namespace */
    bool here;     /* this process is in them already */
};
bool inside_open(int process, struct inside *inside);
/* Later mounts outside no longer propagate to the sandbox. */
bool inside_private(const struct inside *inside);
/* Also bounds the memory of the file systems that cover placeholders. */
bool inside_prepare(const struct inside *inside, const struct mount_plan *plan);
/* Covers a path in this process's mount namespace; a missing path counts as hidden. */
bool hide_path(const char *path);
bool inside_hide(const struct inside *inside, const char *path); /* follows links as a process inside would */
/* Mounts the file read-only again, if it exists and is not a link. */
bool inside_rebind(const struct inside *inside, const char *path);
/* Removes a mount that has propagated to the sandbox. */
bool inside_remove(const struct inside *inside, const char *path);

#endif
