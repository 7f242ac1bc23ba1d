/* The watch over mounts: what its parts share. It checks that the mounts in a sandbox are as planned, and stay so. */
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
    const char *source; /* the path on the host, which is watched where `watched` says so */
    bool watched;       /* replacing it on the host removes the mount */
    bool again;         /* no program inside can write there: it is hidden again */
    bool rebound;       /* the host replaces it in normal work: it is bound read-only again */
    bool writable;      /* a private directory may be written */
    bool gone;          /* nothing is there at the moment */
    int held;           /* a descriptor of the file on the host, -1 without */
    int fault;          /* why there is none */
    unsigned long mount; /* the number of its mount, 0 before it was seen */
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
    struct mount *all; /* by parent */
    size_t count;
    struct mount *root;
    char *text;
};

/* The watched paths on the host. */
struct watched_name;
struct host_watch {
    int inotify;        /* -1 without */
    bool incomplete;    /* something can't be watched, and has to be looked at now and then */
    bool config_locked; /* Git was about to write its configuration, which is watched (git-config(1)) */
    struct watched_name *names;
    size_t count;
};

/* watch_plan.c: NULL, or the fault. `text` is changed, and has to stay. */
const char *watch_plan_parse(char *text, size_t length, struct mount_plan *plan);
struct run;
struct mount_plan watch_plan_checked(const struct run *run); /* the artifact; refuses one that can't be used */

/* mountinfo.c */
bool mount_parse(char *text, struct mount *mount); /* one line without its end, which is changed, and held by `mount` */
bool mounts_parse(char *text, struct mounts *mounts); /* takes `text`, which ends with NUL */
bool mounts_read(int file, struct mounts *mounts);
void mounts_free(struct mounts *mounts);
const struct mount *mounts_at(const struct mounts *mounts, const char *path, size_t length);

/* watch_compare.c: the record that is not as it was planned, or NULL. `where` is the path of an unplanned mount, else NULL. */
const struct record *compare(struct mount_plan *plan, const struct mounts *mounts, int root, bool first, const char **where);

const struct record *record_about(const struct mount_plan *plan, const char *path, size_t length); /* which says most of it */

/* The file at a path inside, without a link on the way; an error number when it can't be seen. */
struct stat;
int look_inside(int root, const char *path, struct stat *status);

bool is_in_memory(const char *type); /* of a file system */

/* watch_denied.c: of denied names, as spelled and where each led when rendered ("": nowhere), the path inside of the first that leads to
 * something of the host's which is shown and not hidden; NULL without. `mounts`, and the root `inside` that they are seen from, may
 * be NULL: then none is hidden but as rendered. */
struct strv;
const char *absent_find(const struct strv *names, const struct mount_plan *plan, const struct mounts *mounts, int inside,
                        const char *root, struct host_watch *watch);

/* watch_index.c: from now on no process writes into the file (SIGIO: one tried); why Git must not use it, or NULL */
const char *index_hold(const char *path, const struct strv *writable);

/* watch_host.c */
void host_watch_name(struct host_watch *watch, const char *directory, const char *name);
void host_watch(struct host_watch *watch, struct mount_plan *plan);
void host_hold(struct host_watch *watch, struct record *record); /* the current file must stay */
bool host_events(struct host_watch *watch);                      /* whether one of them is about a watched path */
const struct record *host_compare(const struct mount_plan *plan);

/* watch_sandbox.c */
struct sandbox {
    int process, handle; /* its first process: the directory in /proc, and a descriptor to end it by, each -1 without */
    int mounts, root;    /* its mountinfo and its root, each -1 without */
};
bool sandbox_open(pid_t number, struct sandbox *sandbox);
bool sandbox_is_here(void);
bool sandbox_is_first(const struct sandbox *sandbox);
int sandbox_waits(const struct sandbox *sandbox, int descriptor); /* to read there: 1; not yet: 0; unknown: -1 */
void sandbox_end(const struct sandbox *sandbox);

/* watch_mountns.c: in a separate process, as it changes namespaces */
struct inside {
    int spaces[2]; /* of users, -1 where it is ours, and of mounts */
    bool here;     /* we are in them */
};
bool inside_open(int process, struct inside *inside);
bool inside_private(const struct inside *inside);                          /* nothing comes in that is mounted outside later */
bool inside_prepare(const struct inside *inside, const struct mount_plan *plan); /* and what lies over placeholders has little memory */
bool hide_path(const char *path); /* here, in the mount namespace of this process; what isn't there is hidden */
bool inside_hide(const struct inside *inside, const char *path); /* a link on the way is followed as inside */
bool inside_rebind(const struct inside *inside, const char *path); /* a file read-only, if there is one; not a link */
bool inside_remove(const struct inside *inside, const char *path);          /* a mount that came in meanwhile */

#endif
