/* The programs of credentials.shims run on the host, through a bridge that the session starts. Without the
 * bridge, nothing is started: otherwise a program of the same name on PATH would be executed instead of a
 * shim. */
#define _GNU_SOURCE

#include "launch.h"

/* A number that no method uses: bwrap.c uses 3 to 72 at most, and 100 to 103. */
enum { CHANNEL = 80 };

void shims_check(struct run *run)
{
    struct stat socket;
    const char *shims = run->document.shims;
    if (shims == NULL || stat(xasprintf("%s/socket", shims), &socket) != 0 ||
        !S_ISSOCK(socket.st_mode) || socket.st_uid != geteuid())
        die("the policy has shims, and no bridge is running: start this with \"sandwright run\"");
    /* No Unix socket of the host can be reached inside, so the bridge listens on the sandbox's loopback
     * before the command starts. */
    if (run->plan.shims.loopback && run->document.channel < 0)
        die("the bridge has no channel: start this with \"sandwright run\"");
}

/* In a container, shims come before the image's directories on PATH, and the bridge's socket is mounted, so
 * no channel is needed. */
void shims_command(struct run *run, bool container)
{
    if (!container && !run->plan.shims.loopback)
        return;
    const char *channel = "-";
    /* Moved to a number that the program to be executed inherits: check_descriptors has marked this one
     * close-on-exec. */
    if (!container) {
        int given = (int)run->document.channel, moved = given < 3 ? -1 : fcntl(given, F_DUPFD, CHANNEL);
        if (moved < 0)
            die("the bridge has no channel: start this with \"sandwright run\"");
        close(given);
        channel = xasprintf("%d", moved);
    }
    char *const words[] = {xasprintf("%s/sandwright-enter", run->plan.shims.place), (char *)channel};
    put_before(run, words, 2);
}
