/* Checks the host against the plan before a start: digests of artifacts, paths, descriptors, programs. If
 * anything differs, nothing is started (exit status 125), so the command never runs without its sandbox. */
#define _GNU_SOURCE
#include <limits.h>
#include <sys/resource.h>

#include "launch.h"

enum { LEAST_FILES = 128 }; /* descriptors have fixed numbers, some above 100 (bwrap.c) */

enum { MOST = 1 << 27 }; /* maximal size of an artifact in bytes */

enum { MOST_LINKS = 40 }; /* MAXSYMLINKS of Linux */

/* The bridge's descriptor, which the command needs; -1: none. */
static int channel(const struct run *run)
{
    struct stat status;
    long number = run->plan.shims.loopback ? run->document.channel : -1;
    if (number <= 2 || number >= INT_MAX)
        return -1;
    if (fstat((int)number, &status) != 0 || !S_ISSOCK(status.st_mode))
        die("the bridge has no channel: start this with \"sandwright run\"");
    return (int)number;
}

/* A descriptor of one of the host's directories would give access to everything above it, through `..`. */
void check_descriptors(struct run *run)
{
    struct stat status;
    struct rlimit files;
    const int preserved[] = {run->artifacts, channel(run), (int)run->document.started, post_run_journal()};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < LEAST_FILES)
        die("the limit of open files is %d, and a sandbox needs %d: raise it (ulimit -n %d)", (int)files.rlim_cur,
               LEAST_FILES, LEAST_FILES);
    for (int file = 0; file < 3; file++)
        if (fstat(file, &status) == 0 && S_ISDIR(status.st_mode))
            die("standard input or output is a directory");
    close_others(preserved, sizeof preserved / sizeof *preserved);
    for (size_t index = 0; index < sizeof preserved / sizeof *preserved; index++)
        if (preserved[index] >= 0)
            fcntl(preserved[index], F_SETFD, FD_CLOEXEC);
}

bool is_writable_inside(const struct run *run, const char *path)
{
    return strv_has_above(&run->plan.writable, path);
}

/* Directories that contain no sandbox.yaml. The directories on PATH share most of their parents, so each is
 * checked once. */
static struct strv plain;

static bool is_plain(const char *directory)
{
    struct stat status;
    if (strv_contains(&plain, directory))
        return true;
    if (lstat(xasprintf("%s/sandbox.yaml", directory), &status) == 0)
        return false;
    strv_push(&plain, xasprintf("%s", directory));
    return true;
}

/* Whether a canonical path is a directory with a sandbox.yaml, or is below one: a sandbox of that project may
 * have created it. `/` is not checked, because a project there would leave no programs. */
static bool is_below_project(const char *path)
{
    for (char *above = xasprintf("%s", path); above[strspn(above, "/")] != '\0'; *strrchr(above, '/') = '\0')
        if (!is_plain(above))
            return true;
    return false;
}

/* Whether a path, or the target of a link at it, is below a project: a sandbox of that project may have
 * created the link. */
static bool leads_through_project(const char *path)
{
    for (int links = 0; links < MOST_LINKS && !is_below_project(path); links++) {
        const char *target = read_link(AT_FDCWD, path);
        if (target == NULL)
            return false;
        path = *target == '/' ? target : xasprintf("%.*s/%s", (int)(strrchr(path, '/') - path), path, target);
    }
    return true;
}

/* Whether this sandbox, or one of another project, can have written the file to which an absolute path
 * leads. */
static bool is_plantable(const struct run *run, const char *path, const char *real)
{
    return is_writable_inside(run, real) || is_below_project(real) || leads_through_project(path);
}

/* Programs are searched only in directories that no sandbox can write. The command gets PATH as the caller
 * set it. */
void check_path(struct run *run)
{
    const char *caller_path = getenv("PATH");
    char *search = xasprintf("%s", caller_path == NULL || *caller_path == '\0' ? "/usr/local/bin:/usr/bin:/bin" : caller_path), *part;
    char real[PATH_MAX], *path = xasprintf("%s", "");
    while ((part = strsep(&search, ":")) != NULL) {
        struct stat status;
        if (*part != '/' || realpath(part, real) == NULL || stat(real, &status) != 0 || !S_ISDIR(status.st_mode) ||
            access(real, X_OK) != 0 || strchr(real, ':') != NULL || is_plantable(run, part, real))
            continue;
        path = xasprintf("%s%s%s", path, *path == '\0' ? "" : ":", real);
    }
    if (*path == '\0')
        die("every directory of PATH can be written by the sandbox, or is below a sandbox.yaml");
    run->given_path = caller_path == NULL ? "" : xasprintf("%s", caller_path);
    run->path = path;
    if (caller_path != NULL && setenv("PATH", path, 1) != 0)
        die("out of memory");
}

const char *find_program(const struct run *run, const char *name)
{
    char *search = xasprintf("%s", run->path), *part, real[PATH_MAX];
    while ((part = strsep(&search, ":")) != NULL) {
        struct stat status;
        const char *path = xasprintf("%s/%s", part, name);
        if (stat(path, &status) == 0 && S_ISREG(status.st_mode) && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 &&
            realpath(path, real) != NULL && !is_plantable(run, path, real))
            return path;
    }
    return NULL;
}

/* Artifacts stay in memory, so that the content that was checked is the content that is used. */
static struct artifact {
    const char *name;
    char *content;
    size_t length;
    struct artifact *next;
} *checked;

bool has_artifact(const struct run *run, const char *name)
{
    return strv_contains(&run->plan.artifacts, name); /* no artifact is named like a digest */
}

void check_artifacts(struct run *run)
{
    const struct strv *artifacts = &run->plan.artifacts;
    for (size_t index = 0; index + 1 < artifacts->count; index += 2) {
        struct artifact *each = xcalloc(sizeof *each);
        *each = (struct artifact){.name = artifacts->at[index], .next = checked};
        if ((each->content = read_file(run->artifacts, each->name, MOST, &each->length)) == NULL)
            die("cannot read %s/%s", run->directory, each->name);
        if (strcmp(sha256_hex(each->content, each->length), artifacts->at[index + 1]) != 0)
            die("%s/%s was changed after it was rendered: render it again", run->directory, each->name);
        checked = each;
    }
}

char *checked_artifact(const struct run *run, const char *name, size_t *length)
{
    for (const struct artifact *each = checked; each != NULL; each = each->next)
        if (strcmp(each->name, name) == 0) {
            *length = each->length;
            return each->content;
        }
    die("%s/launch.plan: artifacts: %s is missing", run->directory, name);
}

/* Mount points must not have changed. A mount would follow a link in place of one, and create a missing
 * one. */
static void check_there(const struct strv *paths, bool directory)
{
    for (size_t index = 0; index < paths->count; index++) {
        struct stat status;
        const char *path = paths->at[index];
        if (lstat(path, &status) != 0)
            die("%s was removed after this was rendered: render it again", path);
        if (S_ISLNK(status.st_mode))
            die("%s became a symbolic link after this was rendered", path);
        if (S_ISDIR(status.st_mode) != directory)
            die("%s changed its type after this was rendered: render it again", path);
    }
}

void check_there_still(const struct run *run)
{
    check_there(&run->plan.there_directories, true);
    check_there(&run->plan.there_files, false);
    /* Through a link, mount points would be created at its target. */
    for (size_t index = 0; index < run->plan.mount_ways.count; index++) {
        struct stat status;
        const char *path = run->plan.mount_ways.at[index];
        if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode))
            die("%s is a symbolic link, and the sandbox needs a mount point there: remove it", path);
    }
}

void check_paths(struct run *run)
{
    const struct plan *plan = &run->plan;
    struct stat status;
    if (plan->mcp && !run->document.mcp)
        die("mcp.tools needs `sandwright run`, which filters the messages: start it with that");
    if (plan->review && run->document.workspace.count == 0)
        die("workspace: review needs `sandwright run`, which prepares the copy: start it with that");
    if (plan->uid >= 0 && (long)geteuid() != plan->uid)
        die("user.mapping is required, and this was rendered for user %ld: render it again", plan->uid);
    for (size_t index = 0; index < plan->absent.count; index++)
        if (lstat(plan->absent.at[index], &status) == 0)
            die("%s appeared after this was rendered: render it again", plan->absent.at[index]);
    check_there_still(run);
}
