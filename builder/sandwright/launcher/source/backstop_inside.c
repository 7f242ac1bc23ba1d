/* Enters the second wall (Landlock, backstop.c) inside, after it has added rules for the sandbox's own
 * file systems. */
#define _GNU_SOURCE

#include "landlock.h"
#include "log.h"
#include "utils.h"

enum { CHANGES = MAY_READ | MAY_WRITE | MAY_TRUNCATE, DEVICES = CHANGES | MAY_CONTROL_DEVICE };

struct landlock_rules backstop_held(void)
{
    struct landlock_rules all = landlock_held(landlock_version());
    all.ports = 0;
    return all;
}

void backstop_grant(int ruleset, uint64_t rights, int file, const char *path)
{
    if (file < 0)
        return;
    landlock_path(ruleset, file, rights, path);
    close(file);
}

/* Uses openat(2), because the seccomp filter may be loaded already, and it does not allow openat2(2). */
static void grant_inside(int ruleset, uint64_t rights, const char *path)
{
    struct stat status;
    char *rest = xasprintf("%s", path), *state;
    int file = open("/", O_PATH | O_CLOEXEC);
    for (char *name = strtok_r(rest, "/", &state); name != NULL && file >= 0; name = strtok_r(NULL, "/", &state)) {
        int above = file;
        /* O_NOFOLLOW: below a link, openat fails. */
        file = openat(above, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        close(above);
    }
    free(rest);
    if (file >= 0 && (fstat(file, &status) != 0 || S_ISLNK(status.st_mode))) {
        close(file);
        file = -1;
    }
    backstop_grant(ruleset, rights, file, path);
}

void backstop_own(int ruleset, char *const *own)
{
    static const struct {
        const char *path;
        uint64_t rights;
    } always[] = {{"/proc", CHANGES}, {"/dev/null", DEVICES}, {"/dev/zero", DEVICES}, {"/dev/full", DEVICES},
                  {"/dev/random", DEVICES}, {"/dev/urandom", DEVICES}, {"/dev/tty", DEVICES}, {"/dev/pts", DEVICES},
                  {"/dev/shm", BACKSTOP_WRITES}, {"/dev/mqueue", BACKSTOP_WRITES}};
    const uint64_t files = backstop_held().files;
    grant_inside(ruleset, MAY_LIST, "/");
    for (size_t index = 0; index < sizeof always / sizeof *always; index++)
        grant_inside(ruleset, always[index].rights & files, always[index].path);
    for (; own != NULL && *own != NULL; own++)
        grant_inside(ruleset, ((*own)[0] == 'w' ? BACKSTOP_WRITES : BACKSTOP_READS) & files, *own + 1);
    /* The terminal may be the host's, to which no path inside leads; opening /dev/stderr uses the
     * descriptor. */
    for (int file = 0; file < 3; file++)
        if (isatty(file))
            landlock_path(ruleset, file, DEVICES & files, "the terminal");
}

char **backstop_enter(char **words)
{
    int ruleset = words[0] == NULL ? -1 : atoi(words[0]);
    char **behind = words[0] == NULL ? words : words + 1, **own = behind;
    while (*behind != NULL && strcmp(*behind, "--") != 0)
        behind++;
    if (ruleset < 3 || *behind == NULL || fcntl(ruleset, F_SETFD, FD_CLOEXEC) != 0)
        die("this part of the launcher runs inside the sandbox");
    *behind = NULL;
    backstop_own(ruleset, own);
    landlock_enter(ruleset);
    return behind;
}
