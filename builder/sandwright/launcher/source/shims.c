/* The programs of credentials.shims run on the host, through a bridge that the session runs. Without it nothing is
 * started: a program of the same name on the path would be called in a shim's place. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch.h"

/* A number that no method takes for something else: bwrap.c gives 3 to 72 at most, and 100 to 103. */
enum { CHANNEL = 80 };

void shims_check(struct run *run)
{
    struct stat socket;
    const char *shims = getenv("SANDWRIGHT_SHIMS"), *channel = getenv("SANDWRIGHT_SHIMS_CHANNEL");
    if (!is_set("SANDWRIGHT_SHIMS") || stat(xasprintf("%s/socket", shims), &socket) != 0 ||
        !S_ISSOCK(socket.st_mode) || socket.st_uid != geteuid())
        die("the policy names shims, and SANDWRIGHT_SHIMS names no bridge that runs: start this with \"sandwright run\"");
    /* No Unix socket of the host is reached inside; the bridge listens on the sandbox's loopback before the command
     * starts. */
    if (run->plan.shims.loopback && (!is_set("SANDWRIGHT_SHIMS_CHANNEL") || strlen(channel) > 6 ||
                                        strspn(channel, "0123456789") != strlen(channel)))
        die("SANDWRIGHT_SHIMS_CHANNEL names no descriptor of a bridge: start this with \"sandwright run\"");
}

const char *shims_place(const struct run *run)
{
    return run->plan.shims.place != NULL ? run->plan.shims.place : getenv("SANDWRIGHT_SHIMS");
}

/* In a container they come before what the image has on its path, and the socket is there: no channel. */
void shims_command(struct run *run, bool container)
{
    if (!container && !run->plan.shims.loopback)
        return;
    const char *channel = "-";
    if (!container) { /* whatever its number: it is closed by what is executed, as check_descriptors says */
        int given = atoi(getenv("SANDWRIGHT_SHIMS_CHANNEL")), moved = given < 3 ? -1 : fcntl(given, F_DUPFD, CHANNEL);
        if (moved < 0)
            die("SANDWRIGHT_SHIMS_CHANNEL names no descriptor of a bridge: start this with \"sandwright run\"");
        close(given);
        channel = xasprintf("%d", moved);
    }
    char *const words[] = {xasprintf("%s/sandwright-enter", shims_place(run)), (char *)channel};
    put_before(run, words, 2);
}
