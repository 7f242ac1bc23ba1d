/* Asks Docker's daemon over its socket (docker.sock), if its path is known: starting the client `docker`
 * takes longer than the whole rest of the launcher. */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/un.h>

#include "engine.h"

enum { ANSWER = 1 << 18, SECONDS = 2 };
static const char USUAL[] = "/var/run/docker.sock";

bool usual_daemon(void)
{
    struct stat status;
    const char *folder = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
    if (is_set("DOCKER_HOST") || is_set("DOCKER_CONTEXT") || stat(USUAL, &status) != 0 || !S_ISSOCK(status.st_mode))
        return false;
    const char *file = is_set("DOCKER_CONFIG") ? xasprintf("%s/config.json", folder)
                                                          : xasprintf("%s/.docker/config.json", home != NULL ? home : "");
    const char *config = read_file(AT_FDCWD, file, ANSWER, NULL);
    return config == NULL || strstr(config, "\"currentContext\"") == NULL;
}

static const char *socket_path(void)
{
    const char *host = getenv("DOCKER_HOST");
    if (host != NULL && strncmp(host, "unix://", 7) == 0 && strlen(host + 7) < sizeof(struct sockaddr_un) - sizeof(sa_family_t))
        return host + 7;
    return usual_daemon() ? USUAL : NULL;
}

/* The daemon's reply, or its beginning; NULL if it can't be asked. */
const char *ask_daemon(const char *what)
{
    static char said[ANSWER];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval time = {.tv_sec = SECONDS};
    const char *path = socket_path(), *request = xasprintf("GET %s HTTP/1.0\r\nHost: docker\r\n\r\n", what);
    size_t length = 0;
    ssize_t got;
    long until = milliseconds() + 1000 * SECONDS;
    _cleanup_close_ int handle = path == NULL ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (handle < 0)
        return NULL;
    strcpy(address.sun_path, path);
    setsockopt(handle, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(handle, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    if (connect(handle, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(handle, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request))
        while (length < ANSWER - 1 && milliseconds() < until && (got = read(handle, said + length, ANSWER - 1 - length)) > 0)
            length += (size_t)got;
    said[length] = '\0';
    return length > 0 ? said : NULL;
}

/* If the daemon runs on another machine, the PID belongs to some other process here. */
pid_t first_process(struct run *run)
{
    return process_of(run, run->name);
}

pid_t process_of(struct run *run, const char *name)
{
    static const char digits[] = "0123456789abcdef";
    const char *said = ask_daemon(xasprintf("/containers/%s/json", name)), *found;
    if (said != NULL) {
        if ((said = strstr(said, "{\"Id\":\"")) == NULL)
            return 0;
        said += strlen("{\"Id\":\"");
        /* Quotes in the command's words are escaped, so this matches no word of the command. */
        if ((found = strstr(said, "\"Pid\":")) == NULL)
            return -1;
        found += strlen("\"Pid\":");
    } else {
        if ((said = ask(run, "inspect", "--format", "{{.Id}} {{.State.Pid}}", name, NULL)) == NULL)
            return 0;
        found = said + strspn(said, digits);
    }
    const char *container = xasprintf("%.*s", (int)strspn(said, digits), said);
    int first = atoi(found);
    if (first <= 0 || container[0] == '\0')
        return 0;
    const char *groups = read_file(AT_FDCWD, xasprintf("/proc/%d/cgroup", first), 1 << 16, NULL);
    return groups != NULL && strstr(groups, container) != NULL ? first : -1;
}
