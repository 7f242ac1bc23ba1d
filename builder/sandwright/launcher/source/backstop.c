/* The second wall: Landlock behind the mounts (bwrap, runc, crun, user). It is a list of paths of its own, rendered from the
 * policy's rules and not from the plan of mounts, so that what a mistake mounts is not read or written for that.
 *
 * The rules for what is the host's are made outside, for what is at these paths there, whatever lies there inside; those for
 * what the sandbox makes for itself (/proc, /dev, /tmp) inside, when all is mounted and before anything else has run. Rules
 * grant, and hold for all below: what is denied or read-only in a directory that is granted is held by mounts alone. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "landlock.h"

enum { LEAST = 2 }; /* the version before lets nothing be moved between directories (Linux 5.19) */

static const uint64_t READS = MAY_EXECUTE | MAY_READ | MAY_LIST, CHANGES = MAY_READ | MAY_WRITE | MAY_TRUNCATE;
static const uint64_t WRITES = ALL_FILES & ~(MAY_MAKE_BLOCK_DEVICE | MAY_CONTROL_DEVICE);
static const uint64_t DEVICES = MAY_READ | MAY_WRITE | MAY_TRUNCATE | MAY_CONTROL_DEVICE;

struct landlock_rules landlock_held(int version)
{
    uint64_t later = (version < 2 ? MAY_REFER : 0) | (version < 3 ? MAY_TRUNCATE : 0) | (version < 5 ? MAY_CONTROL_DEVICE : 0);
    return (struct landlock_rules){ALL_FILES & ~later, version < 4 ? 0 : ALL_PORTS, version < 6 ? 0 : ALL_SCOPES};
}

/* What this kernel holds for the second wall, which leaves ports to the network's namespace. */
static struct landlock_rules held(void)
{
    struct landlock_rules all = landlock_held(landlock_version());
    all.ports = 0;
    return all;
}

bool backstop_available(const struct run *run)
{
    return run->plan.backstop.enabled && landlock_version() >= LEAST;
}

/* What isn't there isn't seen inside, either. */
static void grant(int ruleset, uint64_t rights, int file, const char *path)
{
    if (file < 0)
        return;
    landlock_path(ruleset, file, rights, path);
    close(file);
}

static void grant_outside(int ruleset, uint64_t rights, const char *path)
{
    grant(ruleset, rights, open_without_links(AT_FDCWD, path, O_PATH, 0), path);
}

/* The same by openat(2), as the filter of system calls may be there already, and then there is no openat2(2). */
static void grant_inside(int ruleset, uint64_t rights, const char *path)
{
    struct stat status;
    char *rest = xasprintf("%s", path), *state;
    int file = open("/", O_PATH | O_CLOEXEC);
    for (char *name = strtok_r(rest, "/", &state); name != NULL && file >= 0; name = strtok_r(NULL, "/", &state)) {
        int above = file;
        file = openat(above, name, O_PATH | O_NOFOLLOW | O_CLOEXEC); /* below a link there is nothing */
        close(above);
    }
    free(rest);
    if (file >= 0 && (fstat(file, &status) != 0 || S_ISLNK(status.st_mode))) {
        close(file);
        file = -1;
    }
    grant(ruleset, rights, file, path);
}

int backstop_make(const struct run *run, const struct strv *shown)
{
    const struct landlock_rules all = held();
    int ruleset = landlock_make(&all);
    for (size_t index = 0; index < run->plan.backstop.paths.count; index += 2) {
        bool writes = strcmp(run->plan.backstop.paths.at[index], "write") == 0;
        grant_outside(ruleset, (writes ? WRITES : READS) & all.files, run->plan.backstop.paths.at[index + 1]);
    }
    for (size_t index = 0; index < shown->count; index++)
        grant_outside(ruleset, READS & all.files, shown->at[index]);
    return ruleset;
}

void backstop_own(int ruleset, char *const *own)
{
    static const struct {
        const char *path;
        const uint64_t *rights;
    } always[] = {{"/proc", &CHANGES}, {"/dev/null", &DEVICES}, {"/dev/zero", &DEVICES}, {"/dev/full", &DEVICES},
                  {"/dev/random", &DEVICES}, {"/dev/urandom", &DEVICES}, {"/dev/tty", &DEVICES}, {"/dev/pts", &DEVICES},
                  {"/dev/shm", &WRITES}, {"/dev/mqueue", &WRITES}};
    const uint64_t files = held().files;
    grant_inside(ruleset, MAY_LIST, "/");
    for (size_t index = 0; index < sizeof always / sizeof *always; index++)
        grant_inside(ruleset, *always[index].rights & files, always[index].path);
    for (; own != NULL && *own != NULL; own++)
        grant_inside(ruleset, ((*own)[0] == 'w' ? WRITES : READS) & files, *own + 1);
    /* The terminal may be of the host's, where no path inside leads to it: /dev/stderr is opened by its descriptor. */
    for (int file = 0; file < 3; file++)
        if (isatty(file))
            landlock_path(ruleset, file, DEVICES & files, "the terminal");
}

void backstop_command(struct run *run, int descriptor)
{
    struct strv all = {0};
    strv_push(&all, run->command[0]);
    strv_push(&all, "--wall");
    strv_push(&all, xasprintf("%d", descriptor));
    strv_extend(&all, &run->plan.backstop.own);
    strv_push(&all, "--");
    for (char **word = run->command + 1; *word != NULL; word++)
        strv_push(&all, *word);
    run->command = all.at;
}

void backstop_hand_over(int ruleset, int descriptor)
{
    if (ruleset != descriptor && dup2(ruleset, descriptor) < 0)
        die_errno("the sandbox can't be given its second wall");
    if (ruleset != descriptor)
        close(ruleset);
    if (fcntl(descriptor, F_SETFD, 0) != 0)
        die_errno("the sandbox can't be given its second wall");
}

char **backstop_enter(char **words)
{
    int ruleset = words[0] == NULL ? -1 : atoi(words[0]);
    char **behind = words[0] == NULL ? words : words + 1, **own = behind;
    while (*behind != NULL && strcmp(*behind, "--") != 0)
        behind++;
    if (ruleset < 3 || *behind == NULL || fcntl(ruleset, F_SETFD, FD_CLOEXEC) != 0)
        die("this is the part of the launcher that runs inside");
    *behind = NULL;
    backstop_own(ruleset, own);
    landlock_enter(ruleset);
    return behind;
}
