/* Chooses, creates and removes run directories, <state>/runs/<name>. No other user may write there, because
 * runtimes and engines trust the files in them. */
#define _GNU_SOURCE
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "launch.h"

enum { OWNER = 4096 }; /* maximal size of the file `owner` in bytes */

int open_without_links(int directory, const char *path, int flags, unsigned long resolve)
{
    struct open_how how = {.flags = (unsigned)flags | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | resolve};
    return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
}

static bool is_ours_to_rename(const char *directory)
{
    struct stat status;
    return stat(directory, &status) == 0 && status.st_uid == geteuid() &&
           ((status.st_mode & 022) == 0 || (status.st_mode & S_ISVTX) != 0);
}

/* Does not use another user's directory in $XDG_RUNTIME_DIR (`sudo -E` keeps the variable), nor one in which
 * other users can rename this user's files (user_dirs.py, runtime). */
static const char *find_place(void)
{
    struct stat status;
    const char *given = getenv("XDG_RUNTIME_DIR"), *home = getenv("HOME");
    if (given != NULL && *given == '/' && is_ours_to_rename(given))
        return xasprintf("%s/sandwright", given);
    if (geteuid() == 0 && stat("/run", &status) == 0 && S_ISDIR(status.st_mode))
        return "/run/sandwright";
    if (home == NULL || *home != '/')
        return NULL;
    return xasprintf("%s/.cache/sandwright/run", home);
}

static void make_directories(const char *path)
{
    mode_t mask = umask(077); /* the caller's umask may even remove this user's rights */
    char *each = xasprintf("%s", path);
    for (char *slash = strchr(each + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(each, 0700);
        *slash = '/';
    }
    mkdir(each, 0700);
    umask(mask);
}

/* Refuses a directory that another user could have created. */
static void close_to_others(const char *path)
{
    struct stat status;
    _cleanup_close_ int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0 || fstat(directory, &status) != 0 || status.st_uid != geteuid())
        die("%s is not a directory of this user, so the run cannot have its files there: set XDG_RUNTIME_DIR to one", path);
    if ((status.st_mode & 07777) != 0700 && fchmod(directory, 0700) != 0)
        die("cannot make %s private", path);
}

static const char *make_name(void)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    char name[11] = "";
    for (int index = 0; index < 10;) {
        unsigned char byte;
        if (getrandom(&byte, 1, 0) != 1)
            die_errno("cannot choose a name for the run");
        if (byte < 4 * (sizeof letters - 1))
            name[index++] = letters[byte % (sizeof letters - 1)];
    }
    return xasprintf("sandwright-%s", name);
}

void rundir_choose(struct run *run)
{
    size_t count = run->plan.placeholder_directories.count + run->plan.placeholder_files.count;
    const char *place = find_place(), *runs;
    run->name = make_name();
    if (run->method->stateless && (place == NULL || count == 0))
        return;
    if (place == NULL)
        die("no directory for the files of the run: set XDG_RUNTIME_DIR or HOME");
    runs = xasprintf("%s/runs", place);
    make_directories(runs);
    close_to_others(place);
    close_to_others(runs);
    run->state = xasprintf("%s/%s", runs, run->name);
}

int rundir_locks(const char *name)
{
    const char *place = find_place();
    if (place == NULL)
        return -1;
    make_directories(place);
    close_to_others(place);
    mode_t mask = umask(077);
    int lock = open(xasprintf("%s/%s", place, name), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    umask(mask);
    return lock;
}

/* A PID with its start time identifies a process. */
static const char *signed_by(pid_t process)
{
    const char *number = xasprintf("%d", (int)process), *start = process_start(number);
    return xasprintf("%s %s\n", number, *start == '\0' ? "-" : start);
}

/* A PID and start time are valid in one boot and one PID namespace only, and a home directory may be shared
 * by several machines (signalling.py, identity). */
static const char *counted_in(void)
{
    struct utsname system = {0};
    const char *machine = first_line("/etc/machine-id"), *boot = first_line("/proc/sys/kernel/random/boot_id");
    const char *namespace = read_link(AT_FDCWD, "/proc/self/ns/pid");
    uname(&system);
    return xasprintf("%s %s %s\n", boot == NULL ? "" : boot, namespace == NULL ? "" : namespace,
                machine == NULL || *machine == '\0' ? system.nodename : machine);
}

/* Writes the file `owner`, for `sandwright cleanup` and later runs: the method, the processes in charge,
 * their PID namespace, and the project. */
void rundir_make(struct run *run, const char *method)
{
    const char *owner = xasprintf("%s\n%s%s%s%s\n", method, signed_by(run->launcher), signed_by(getpid()), counted_in(),
                             project_digest(&run->plan));
    mode_t mask = umask(077);
    if (mkdir(run->state, 0700) != 0 ||
        write_file(AT_FDCWD, xasprintf("%s/owner", run->state), owner, strlen(owner), 0600) != 0)
        die_errno("cannot create a directory for the run");
    umask(mask);
}

static bool is_there(const char *signature)
{
    const char *start = strchr(signature, ' ');
    return start != NULL && strcmp(process_start(xasprintf("%.*s", (int)(start - signature), signature)), start + 1) == 0;
}

/* Whether this is the directory of a run in this project whose launcher and monitor were killed, and whose
 * container may still run. */
static bool is_orphan(const struct run *run, const char *directory)
{
    char *owner = read_file(AT_FDCWD, xasprintf("%s/owner", directory), OWNER, NULL), *lines[5];
    for (size_t index = 0; index < sizeof lines / sizeof *lines; index++)
        if (owner == NULL || (lines[index] = strsep(&owner, "\n")) == NULL)
            return false;
    if (strcmp(lines[4], project_digest(&run->plan)) != 0 || strcmp(xasprintf("%s\n", lines[3]), counted_in()) != 0 ||
        is_there(lines[1]) || is_there(lines[2]))
        return false;
    long first = number_in(xasprintf("%s/pid", directory)); /* 0 if the PID is unknown */
    return first <= 0 || *process_start(xasprintf("%ld", first)) != '\0';
}

bool rundir_orphaned(const struct run *run)
{
    const char *name = run->state == NULL ? NULL : base_name(run->state);
    const char *runs = name == NULL ? NULL : xasprintf("%.*s", (int)(name - run->state), run->state);
    DIR *entries = runs == NULL ? NULL : open_directory(AT_FDCWD, runs);
    bool found = false;
    for (struct dirent *each; (each = next_entry(entries)) != NULL;) /* closes `entries` at its end */
        found |= strcmp(each->d_name, name) != 0 && is_orphan(run, xasprintf("%s%s", runs, each->d_name));
    return found;
}

const char *rundir_make_ignored(const struct run *run)
{
    const char *path = xasprintf("%s/ignored", run->state), *file = xasprintf("%s/.gitignore", path);
    if (mkdir(path, 0755) != 0 || chmod(path, 0755) != 0 || write_file(AT_FDCWD, file, "*\n", 2, 0444) != 0 ||
        chmod(file, 0444) != 0)
        die_errno("cannot create %s", path);
    return path;
}

static void remove_all(int directory, const char *last)
{
    DIR *entries = fdopendir(directory);
    if (entries == NULL)
        close(directory);
    for (struct dirent *entry; (entry = next_entry(entries)) != NULL;) {
        if (strcmp(entry->d_name, last) == 0 || unlinkat(dirfd(entries), entry->d_name, 0) == 0)
            continue;
        int below = open_without_links(dirfd(entries), entry->d_name, O_RDONLY | O_DIRECTORY, RESOLVE_NO_XDEV);
        if (below >= 0)
            remove_all(below, "");
        unlinkat(dirfd(entries), entry->d_name, AT_REMOVEDIR);
    }
}

/* Removes the file `owner` last, so that a directory that was removed only in part can still be
 * identified. */
void remove_tree(const char *path)
{
    const char *name = base_name(path);
    _cleanup_close_ int above = open(xasprintf("%.*s", (int)(name - path), path), O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int directory = open_without_links(above, name, O_RDONLY | O_DIRECTORY, RESOLVE_NO_XDEV);
    if (directory >= 0) {
        remove_all(fcntl(directory, F_DUPFD_CLOEXEC, 3), "owner");
        unlinkat(directory, "owner", 0);
        unlinkat(above, name, AT_REMOVEDIR);
    }
}
