/*
 * mount-watch PLAN OPTION ...: sees that what is mounted in a sandbox is what was planned, and stays so.
 *
 *   --pid NUMBER      the sandbox's first process, which waits before it runs the command
 *   --waits-on NUMBER the descriptor from which it reads then
 *   --private         let nothing come in that is mounted on the host from now on
 *   --pid-file FILE   the number of the first process will be in this file, of a container that doesn't wait
 *   --wait            that file will be there for sure, and what is wrong before is told by ending the container
 *   --opaque          the first process has other mounts than the sandbox (gVisor): only the host is watched
 *   --root DIRECTORY  we are in the sandbox's namespaces, and that will be its root; all others there are killed
 *   --input           standard input ends with the launcher, and we with it
 *
 * Says "mounted" on standard output when all is as it should be, once, and closes it. What is replaced while the
 * sandbox runs is said on standard error, and its first process is killed. Exits with 0 when the sandbox has ended by
 * itself, with 9 when something was replaced, with 10 when whoever started us has to end it besides, and with 125 when
 * nothing may be run.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watch.h"

static void read_plan(const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    if (file < 0 || fstat(file, &status) != 0 || status.st_size > 1 << 26 ||
        (text = malloc((size_t)status.st_size + 1)) == NULL || read(file, text, (size_t)status.st_size) != status.st_size)
        refuse("the plan of mounts can't be read: ", path, "");
    close(file);
    const char *fault = plan_parse(text, (size_t)status.st_size, &plan);
    if (fault != NULL)
        refuse("the plan of mounts can't be used: ", fault, "");
}

static void prepare(void)
{
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE};
    for (size_t index = 0; index < sizeof ignored / sizeof *ignored; index++)
        signal(ignored[index], SIG_IGN);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int count, char **words)
{
    for (int index = 2; index < count; index++) {
        const char *value = index + 1 < count ? words[index + 1] : "";
        if (strcmp(words[index], "--private") == 0)
            options.private = true;
        else if (strcmp(words[index], "--input") == 0)
            options.input = true;
        else if (strcmp(words[index], "--wait") == 0)
            options.wait = true;
        else if (strcmp(words[index], "--opaque") == 0)
            options.opaque = true;
        else if (strcmp(words[index], "--pid") == 0 && ++index < count)
            options.pid = (pid_t)strtol(value, NULL, 10);
        else if (strcmp(words[index], "--waits-on") == 0 && ++index < count)
            options.waits_on = (int)strtol(value, NULL, 10);
        else if (strcmp(words[index], "--root") == 0 && ++index < count)
            options.root = value;
        else if (strcmp(words[index], "--pid-file") == 0 && ++index < count)
            options.pid_file = value;
        else
            count = 0;
    }
    if (count < 2)
        refuse("usage: mount-watch PLAN OPTION ...", "", "");
    prepare();
    read_plan(words[1]);
    watch_sandbox();
}
