/* Further commands in a session (`sandwright exec`), inside: the first process gets a connection for each
 * (requests.c), and forks a leader, which inherits all restrictions of the session. No process enters the
 * session from outside. The leader reads the command and its streams from the connection, starts it as init.c
 * starts the session's command, and reports its end there. */
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "launch.h"
#include "ports.h"
#include "requests.h"

static int channel = -1, connection = -1;

static void send_to_client(int kind, int value)
{
    const struct message message = {kind, value};
    (void)!send(connection, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* If the client has gone, its command is ended. */
static void receive_from_client(pid_t job, bool *stopped)
{
    struct message message;
    ssize_t got;
    while ((got = recv(connection, &message, sizeof message, MSG_DONTWAIT)) == sizeof message)
        if (message.kind == TO_DELIVER && message.value > 0 && message.value < 64)
            init_signal(job, message.value, stopped);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    kill(-job, SIGKILL);
    end_descendants();
    _exit(KILLED);
}

/* Makes the kernel send SIGIO when the socket is readable. runc (Go) passes descriptors on in blocking
 * mode. */
static void request_sigio(int socket)
{
    if (fcntl(socket, F_SETOWN, getpid()) != 0 || fcntl(socket, F_SETFL, O_RDWR | O_ASYNC | O_NONBLOCK) != 0)
        die_errno("cannot receive commands");
}

static _Noreturn void leave_leader(int status)
{
    send_to_client(STATUS, status);
    _exit(status);
}

/* `at`: a directory and the command; an empty directory means that of the session's command. */
static _Noreturn void begin(char *at, size_t length)
{
    const char *end = at + length, *directory = next_word(&at, end);
    struct strv command = {0};
    char *word;
    while ((word = next_word(&at, end)) != NULL)
        strv_push(&command, word);
    if (command.count == 0)
        die("give a command to run");
    if (*directory != '\0' && chdir(directory) != 0)
        die_errno("cannot change directory to %s", directory);
    request_sigio(connection);
    init_outside(receive_from_client, send_to_client);
    send_to_client(BEGUN, 0);
    init_lead(command.at, environ);
}

/* Creates a terminal in the sandbox's devpts, so that its path exists inside. The client gets the master, and
 * replies when it has set the terminal up. If none can be created (landlock), the client sends one. `streams`
 * has a bit for each standard stream that becomes the terminal. */
static void take_terminal(int streams)
{
    int files[PASSED], slave, master = terminal_pair(&slave);
    struct message message = {.value = master < 0 ? NO_TERMINAL : 0};
    if (pass_files(connection, (struct iovec){&message, sizeof message}, &master, master >= 0) < 0)
        _exit(NOT_RUN);
    int got = take_files(connection, (struct iovec){&message, sizeof message}, files);
    if (got < 0 || (got == 0 && slave < 0))
        _exit(NOT_RUN);
    for (int number = 0; number < 3; number++)
        if ((streams & 1 << number) != 0)
            dup2(slave < 0 ? files[0] : slave, number);
}

static _Noreturn void lead_request(int socket)
{
    int files[PASSED];
    struct request request;
    size_t length;
    connection = socket;
    leave = leave_leader;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setsid();
    int got = take_files(connection, (struct iovec){&request, sizeof request}, files);
    for (int number = 0; number < 3; number++)
        if (got != REQUEST_FILES || dup2(files[number], number) < 0)
            _exit(NOT_RUN);
    if (request.terminal != 0)
        take_terminal(request.terminal);
    char *words = read_fd(files[3], MOST_WORDS, &length);
    if (words == NULL)
        die_errno("cannot read the command");
    close_others(&connection, 1);
    begin(words, length);
}

static void take_requests(pid_t job, bool *stopped)
{
    int files[PASSED];
    struct message message;
    (void)job;
    (void)stopped;
    for (int got; (got = take_files(channel, (struct iovec){&message, sizeof message}, files)) >= 0;) {
        if (got == 1 && fork() == 0)
            lead_request(files[0]);
        while (got > 0)
            close(files[--got]);
    }
}

int requests_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(made, (const struct sockaddr *)&address, sizeof address) == 0)
        return made;
    close(made);
    return -1;
}

void requests_take(int file)
{
    if (file < 0)
        return;
    channel = file;
    if (fcntl(channel, F_SETFD, FD_CLOEXEC) != 0)
        die_errno("cannot receive commands");
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no program inside can copy the descriptor, then */
    request_sigio(channel);
    init_outside(take_requests, NULL);
}

static _Noreturn void serve(int file, char **variables)
{
    int files[PASSED], nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct message message;
    setsid();
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    prctl(PR_SET_NAME, "init");
    signal(SIGCHLD, SIG_IGN); /* no process waits for a leader */
    for (int number = 0; number < 3; number++)
        dup2(nothing, number);
    close_others(&file, 1);
    environ = variables;
    if (fcntl(file, F_SETFL, O_RDWR) != 0) /* blocking mode */
        _exit(NOT_RUN);
    for (int got; (got = take_files(file, (struct iovec){&message, sizeof message}, files)) >= 0;) {
        if (got == 1 && fork() == 0)
            lead_request(files[0]);
        while (got > 0)
            close(files[--got]);
    }
    _exit(0);
}

void requests_serve(int file, char **variables)
{
    if (file < 0)
        return;
    pid_t between = fork();
    if (between == 0) {
        if (fork() == 0)
            serve(file, variables);
        _exit(0);
    }
    if (between < 0 || waitpid(between, NULL, 0) != between)
        die_errno("cannot create a process");
    close(file);
}
