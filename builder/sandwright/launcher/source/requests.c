/* Further commands in a session (`sandwright exec`), outside: the monitor listens on a socket in the user's
 * directory of sessions, which no sandbox sees, and passes each connection to the session's first process.
 * The client sends the command over it. */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "ports.h"
#include "requests.h"

enum { WAITING = 16, ASKING = 1000 /* milliseconds */ };

static int listener = -1;
static int awaited = -1; /* the socket to which a first process connects that inherits no descriptor */

/* Through /proc/self/fd, because a socket address holds only a short path. */
static struct sockaddr_un address_of(const char *path, int *directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = base_name(path);
    *directory = open(xasprintf("%.*s", (int)(name - path), path), O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", *directory, name);
    return address;
}

/* -1 on failure: the run goes on, without `exec`. */
static int listen_at(const char *path)
{
    _cleanup_close_ int directory = -1;
    const struct sockaddr_un address = address_of(path, &directory);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(made, (const struct sockaddr *)&address, sizeof address) == 0 && listen(made, WAITING) == 0)
        return made;
    close(made);
    return -1;
}

void requests_listen(const struct run *run)
{
    if (run->requests >= 0 || awaited >= 0)
        listener = listen_at(run->document.requests);
}

void requests_await(const struct run *run, const char *path)
{
    if (run->document.requests == NULL)
        return;
    awaited = listen_at(path);
    chmod(path, 0666); /* the command may run with another user ID; no other user can enter this directory */
}

/* Whether the peer is process 1 of a PID namespace directly below the launcher's. Programs inside can create
 * namespaces that are further below. */
static bool is_first(int client)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0)
        return false;
    char *status = read_file(AT_FDCWD, xasprintf("/proc/%d/status", (int)peer.pid), 1 << 16, NULL);
    char *line = status == NULL ? NULL : strstr(status, "\nNSpid:\t"), *rest = NULL;
    if (line == NULL)
        return false;
    line = strtok_r(line + strlen("\nNSpid:\t"), "\n", &rest);
    char *inside = line == NULL ? NULL : strchr(line, '\t');
    return inside != NULL && strcmp(inside, "\t1") == 0;
}

/* The first process connects before it starts any program, so its connection is the first in the queue. */
static void take_awaited(struct run *run)
{
    int first = accept4(awaited, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (first < 0)
        return; /* not connected yet */
    if (is_first(first))
        run->requests = first;
    else
        close(first);
    close(awaited);
    awaited = -1;
}

int requests_socket(void)
{
    return listener;
}

int requests_pair(struct run *run)
{
    int ends[2];
    if (run->document.requests == NULL)
        return -1;
    if (run->requests >= 0)
        close(run->requests);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        die_errno("cannot create a socket");
    run->requests = ends[0];
    return ends[1];
}

void requests_pass_on(int end, int number)
{
    /* `end` may have that number already, and then dup2 does not clear close-on-exec. */
    if (dup2(end, number) < 0 || fcntl(number, F_SETFD, 0) != 0)
        die_errno("cannot pass a socket to the sandbox");
}

/* Accepts connections of this user and root only. */
static bool is_ours(int client)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

/* Appends the program's name to the journal, from which the audit log is written (session/events.py). */
static bool is_journaled(const struct run *run, int client)
{
    struct request request;
    struct bytes line = {0};
    if (run->document.journal == NULL)
        return true;
    if (!wait_readable(client, milliseconds() + ASKING) || recv(client, &request, sizeof request, MSG_PEEK) != sizeof request)
        return false;
    int file = post_run_journal();
    bytes_text(&line, "{\"event\": \"executed\", ");
    bytes_json(&line, "command", request.name, strnlen(request.name, sizeof request.name));
    bytes_text(&line, "}\n");
    bool written = file >= 0 && write(file, line.at, line.end) == (ssize_t)line.end;
    free(line.at);
    return written;
}

void requests_pass(struct run *run)
{
    struct message message = {0};
    if (run->requests < 0 && awaited >= 0)
        take_awaited(run);
    for (int client; (client = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0; close(client))
        if (run->requests >= 0 && is_ours(client) && is_journaled(run, client))
            (void)!pass_files(run->requests, (struct iovec){&message, sizeof message}, &client, 1);
}

void requests_end(const struct run *run)
{
    if (run->document.requests != NULL)
        unlink(run->document.requests);
}

/* Receives the master of the sandbox's terminal. Refuses any other descriptor, because a program inside might
 * send one. If no terminal can be created inside, this creates one, and sends `slave` there. */
static int take_terminal(int session, int *slave)
{
    int files[PASSED];
    struct message message;
    struct stat status;
    int got = take_files(session, (struct iovec){&message, sizeof message}, files);
    if (got == 0 && message.value == NO_TERMINAL)
        return terminal_pair(slave);
    if (got != 1 || fstat(files[0], &status) != 0 || !S_ISCHR(status.st_mode) || status.st_rdev != makedev(5, 2))
        die("the session did not pass a terminal");
    return files[0];
}

int requests_ask(const struct run *run, const char *path, char *const *words, const sigset_t *set)
{
    _cleanup_close_ int directory = -1;
    struct bytes content = {0};
    struct strv all = {0};
    struct request request = {0};
    const struct sockaddr_un address = address_of(path, &directory);
    int session = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(session, (const struct sockaddr *)&address, sizeof address) != 0)
        die_errno("the session accepts no commands");
    strv_push_all(&all, words);
    bytes_words(&content, &all);
    int files[REQUEST_FILES] = {0, 1, 2, memory_file("command", content.at, bytes_held(&content))};
    for (int number = 0; number < 3; number++)
        if (run->terminal && isatty(number)) {
            request.terminal |= 1 << number;
            files[number] = files[3];
        }
    memcpy(request.name, base_name(words[1]), strnlen(base_name(words[1]), sizeof request.name));
    if (request.terminal == 0)
        sigprocmask(SIG_BLOCK, set, NULL);
    bool asked = pass_files(session, (struct iovec){&request, sizeof request}, files, REQUEST_FILES) == sizeof request;
    if (asked && request.terminal != 0) {
        int slave = -1;
        terminal_take(take_terminal(session, &slave));
        sigprocmask(SIG_BLOCK, set, NULL);
        asked = pass_files(session, (struct iovec){&(struct message){0}, sizeof(struct message)}, &slave, slave >= 0) > 0;
        close(slave);
    }
    if (!asked || fcntl(session, F_SETFL, O_NONBLOCK) != 0)
        die_errno("the session accepts no commands");
    close(files[3]);
    return session;
}
