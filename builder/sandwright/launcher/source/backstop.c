/* The second wall: Landlock behind the mounts (bwrap, runc, crun, user). Its list of paths is rendered from
 * the policy's rules, not from the mount plan, so a path that is mounted by mistake still can't be read or
 * written.
 *
 * The rules for the host's files are made outside, for the files at these paths there, independent of mounts
 * over them inside. The rules for the sandbox's own file systems (/proc, /dev, /tmp) are made inside, after
 * all mounts and before any other program runs. A rule allows access to everything below its path, so denied
 * and read-only paths in an allowed directory depend on mounts alone.
 */
#define _GNU_SOURCE

#include "closed.h"
#include "landlock.h"
#include "launch.h"

enum { LEAST = 2 }; /* version 1 lets no file be moved between directories (version 2: Linux 5.19) */

bool backstop_available(const struct run *run)
{
    return run->plan.backstop.enabled && landlock_version() >= LEAST;
}

static void grant_outside(int ruleset, uint64_t rights, const char *path)
{
    backstop_grant(ruleset, rights, open_without_links(AT_FDCWD, path, O_PATH, 0), path);
}

int backstop_make(const struct run *run, const struct strv *shown)
{
    const struct landlock_rules all = backstop_held();
    int ruleset = landlock_make(&all);
    for (size_t index = 0; index < run->plan.backstop.paths.count; index += 2) {
        bool writes = strcmp(run->plan.backstop.paths.at[index], "write") == 0;
        const char *path = run->plan.backstop.paths.at[index + 1];
        if (!writes || !closed_grant(ruleset, BACKSTOP_WRITES & all.files, path))
            grant_outside(ruleset, (writes ? BACKSTOP_WRITES : BACKSTOP_READS) & all.files, path);
    }
    for (size_t index = 0; index < shown->count; index++)
        grant_outside(ruleset, BACKSTOP_READS & all.files, shown->at[index]);
    return ruleset;
}

void backstop_hand_over(int ruleset, int descriptor)
{
    if (ruleset != descriptor && dup2(ruleset, descriptor) < 0)
        die_errno("cannot apply Landlock to the sandbox");
    if (ruleset != descriptor)
        close(ruleset);
    if (fcntl(descriptor, F_SETFD, 0) != 0)
        die_errno("cannot apply Landlock to the sandbox");
}
