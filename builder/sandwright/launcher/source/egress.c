/* Connects the sandbox to its proxy (squid), which the session runs: the proxy's supervisor listens on the
 * proxy's port in the sandbox's network namespace, which has no other way out. */
#define _GNU_SOURCE

#include "launch.h"

enum { ANSWER = 10000 }; /* milliseconds */

static const char *directory;

void egress_check(struct run *run)
{
    struct stat ask;
    directory = run->document.egress;
    if (directory == NULL || stat(xasprintf("%s/ask", directory), &ask) != 0 ||
        !S_ISFIFO(ask.st_mode) || ask.st_uid != geteuid())
        die("the policy needs a proxy, and none is running: start this with \"sandwright run\"");
}

/* The directory `way-` with the last part of the run's name, which launcher and monitor both know. */
static const char *way(const struct run *run)
{
    return xasprintf("%s/way-%s", directory, strrchr(run->name, '-') + 1);
}

void egress_close(struct run *run)
{
    if (directory == NULL)
        return;
    unlink(xasprintf("%s/answer", way(run)));
    rmdir(way(run));
}

static const char *asked(struct run *run, pid_t process, bool wait)
{
    static char answer[512];
    const char *line = xasprintf("%s %d %s\n", strrchr(way(run), '/') + 1, (int)process, wait ? "wait" : "up");
    const char *pipe = xasprintf("%s/answer", way(run));
    memset(answer, 0, sizeof answer); /* may contain the reply to an earlier start */
    egress_close(run);
    if (mkdir(way(run), 0700) != 0 || mkfifo(pipe, 0600) != 0)
        return "cannot send the request to the proxy";
    _cleanup_close_ int ask = open(xasprintf("%s/ask", directory), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    _cleanup_close_ int said = open(pipe, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    size_t got = 0;
    if (ask >= 0 && said >= 0 && write(ask, line, strlen(line)) == (ssize_t)strlen(line))
        for (long until = milliseconds() + ANSWER; strchr(answer, '\n') == NULL && got < sizeof answer - 1;) {
            if (!wait_readable(said, until))
                break;
            ssize_t more = read(said, answer + got, sizeof answer - 1 - got);
            got += more > 0 ? (size_t)more : 0;
        }
    answer[strcspn(answer, "\n")] = '\0';
    return answer[0] == '\0' ? "no answer" : answer;
}

bool egress_open(struct run *run, pid_t process, bool wait)
{
    const char *answer = asked(run, process, wait);
    if (strcmp(answer, "ok") == 0)
        return true;
    warn("cannot reach the proxy: %s", answer);
    return false;
}

/* The file `greeting` contains the port, a newline, and the greeting. */
const char *egress_greeting(int *port)
{
    char *content = read_file(AT_FDCWD, xasprintf("%s/greeting", directory), 1024, NULL), *line;
    if (content == NULL || (line = strchr(content, '\n')) == NULL || (*port = atoi(content)) <= 0 || line[1] == '\0')
        die("cannot read the proxy's greeting: %s/greeting", directory);
    return line + 1;
}
