/* A review workspace: the launcher and every process that it starts see a copy of the project at the
 * project's path. The launcher therefore enters a new mount namespace and mounts the copy there. A user other
 * than root needs a new user namespace, too, in which only that user is mapped. The rest of the launcher does
 * not know about the copy: mounts, watch, placeholders and Landlock rules use the project's path. */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "launch.h"

/* Paths, and DEVICE:INODE of both as they were prepared. */
enum { PROJECT, PROJECT_ID, COPY, COPY_ID, WORKSPACE_WORDS };

/* Returns whether the capabilities come from a user namespace that was created here, and have to be
 * dropped. */
static bool enter_mount_namespace(void)
{
    uid_t user = geteuid();
    gid_t group = getegid();
    if ((effective_capabilities() & 1ULL << CAP_SYS_ADMIN) != 0) {
        if (unshare(CLONE_NEWNS) != 0)
            die_errno("a review workspace needs a mount namespace");
        return false;
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        die_errno("a review workspace needs a user namespace, and none can be created");
    write_own("/proc/self/setgroups", "deny");
    write_own("/proc/self/uid_map", xasprintf("%u %u 1", user, user));
    write_own("/proc/self/gid_map", xasprintf("%u %u 1", group, group));
    return true;
}

/* Opens the directory if it is still the prepared one. It is opened in this namespace, because mounts of
 * another one can't be used here. */
static int open_prepared(const char *path, const char *identity)
{
    struct stat status;
    int directory = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0 || fstat(directory, &status) != 0)
        die_errno("%s", path);
    if (strcmp(identity, xasprintf("%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino)) != 0)
        die("%s was replaced while the review workspace was prepared", path);
    return directory;
}

/* The working directory is still in the original project, so enter the same path again, now in the copy. */
static void enter_again(const char *project)
{
    char *current = getcwd(NULL, 0);
    if ((current == NULL || chdir(current) != 0) && chdir(project) != 0)
        die_errno("cannot change directory to %s", project);
    free(current);
}

void workspace_enter(const struct run_document *document)
{
    const struct strv *words = &document->workspace;
    if (words->count == 0)
        return;
    if (words->count != WORKSPACE_WORDS)
        die("the run document: workspace: %zu words, not %d", words->count, WORKSPACE_WORDS);
    char *const *word = words->at;
    bool drops = enter_mount_namespace();
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        die_errno("cannot separate mounts of the run from the host's");
    _cleanup_close_ int copy = open_prepared(word[COPY], word[COPY_ID]);
    _cleanup_close_ int project = open_prepared(word[PROJECT], word[PROJECT_ID]);
    if (mount(xasprintf("/proc/self/fd/%d", copy), xasprintf("/proc/self/fd/%d", project), NULL, MS_BIND, NULL) != 0)
        die_errno("cannot mount %s at %s", word[COPY], word[PROJECT]);
    close(open_prepared(word[PROJECT], word[COPY_ID])); /* checks that nothing else is mounted over it */
    enter_again(word[PROJECT]);
    if (drops && (!drop_capabilities() || prctl(PR_SET_DUMPABLE, 1) != 0))
        die_errno("cannot drop privileges");
}
