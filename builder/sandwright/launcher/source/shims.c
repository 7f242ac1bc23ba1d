/* The programs of credentials.shims run on the host, through a bridge that the session runs. Without the
 * bridge nothing is started: otherwise a program of the same name on PATH would be called in place of a
 * shim. */
#define _GNU_SOURCE

#include "launch.h"

/* A number that no method takes for something else: bwrap.c gives 3 to 72 at most, and 100 to 103. */
enum { CHANNEL = 80 };

void shims_check(struct run *run)
{
    struct stat socket;
    const char *shims = run->document.shims;
    if (shims == NULL || stat(xasprintf("%s/socket", shims), &socket) != 0 ||
        !S_ISSOCK(socket.st_mode) || socket.st_uid != geteuid())
        die("the policy names shims, and no bridge runs: start this with \"sandwright run\"");
    /* No Unix socket of the host is reached inside; the bridge listens on the sandbox's loopback before the command
     * starts. */
    if (run->plan.shims.loopback && run->document.channel < 0)
        die("the bridge has no channel: start this with \"sandwright run\"");
}

/* In a container they come before what the image has on its path, and the socket is there: no channel. */
void shims_command(struct run *run, bool container)
{
    if (!container && !run->plan.shims.loopback)
        return;
    const char *channel = "-";
    if (!container) { /* whatever its number: it is closed by what is executed, as check_descriptors says */
        int given = (int)run->document.channel, moved = given < 3 ? -1 : fcntl(given, F_DUPFD, CHANNEL);
        if (moved < 0)
            die("the bridge has no channel: start this with \"sandwright run\"");
        close(given);
        channel = xasprintf("%d", moved);
    }
    char *const words[] = {xasprintf("%s/sandwright-enter", run->plan.shims.place), (char *)channel};
    put_before(run, words, 2);
}
