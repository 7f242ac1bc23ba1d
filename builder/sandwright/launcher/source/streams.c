/* The command gets pipes in place of files and devices, and of a terminal that is not both its standard input
 * and output. Otherwise a file at standard input could be reopened for writing, a terminal at standard error
 * could be read, and gVisor would overwrite a file from its start. An IP or datagram socket would bypass the
 * sandbox's network. Pipes of the caller and connected Unix sockets are passed unchanged, and so is
 * /dev/null, except by root: gVisor would give the device to the command's user, so root passes a pipe.
 *
 * One process copies the data. It also waits on a socket. When the socket is closed, the launcher has gone;
 * the process then continues to copy output until all pipes are closed. A message on it means that the
 * command has ended; then only the present content of the pipes is copied, because a leftover process may
 * write for ever.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>

#include "launch.h"

enum { BLOCK = 65536 };

/* Standard input uses `write`, and `look`, the command's end of the pipe, to see the data that the command
 * has not read. Outputs use `read`. */
static struct relay {
    int read, write, look;
} relays[3] = {{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}};

static int given[3] = {-1, -1, -1}; /* the launcher's original descriptors */
static pid_t copier;
static int talk = -1;
static char block[BLOCK];      /* data that was read from standard input, and is not written yet */
static size_t begin, end;
static size_t taken;           /* bytes read from standard input in total */
static bool failed;

/* Replaces standard input with one at its end. */
static void give_no_input(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || dup2(ends[0], 0) < 0)
        die_errno("cannot replace standard input");
    close(ends[0]);
    close(ends[1]);
}

/* If the terminal is not both standard input and output, its keys are meant for another process. */
void stream_keys(struct run *run)
{
    struct termios state;
    if (!isatty(0))
        return;
    run->terminal = isatty(1) && tcgetattr(0, &state) == 0;
    if (run->terminal)
        return;
    if (!isatty(1) && isatty(2))
        warn("the command cannot read the terminal, because its standard output is not a terminal");
    give_no_input();
}

static struct stat status_of(int file)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        die_errno("cannot use standard input or output");
    return status;
}

static bool is_nothing(const struct stat *status)
{
    return S_ISCHR(status->st_mode) && status->st_rdev == makedev(1, 3);
}

/* The owner of a device or file could change its mode for the whole host. */
static bool is_owned(const struct stat *status)
{
    return geteuid() == 0 || geteuid() == status->st_uid;
}

/* Whether the socket reaches only its peer. A datagram can carry an address, an IP socket can be connected
 * again, and an unconnected socket can still be connected, each in the network namespace in which it was
 * created. */
static bool is_connected_stream(int file)
{
    struct sockaddr_storage peer;
    int domain, type;
    socklen_t lengths[] = {sizeof domain, sizeof type, sizeof peer};
    return getsockopt(file, SOL_SOCKET, SO_DOMAIN, &domain, &lengths[0]) == 0 && domain == AF_UNIX &&
           getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &lengths[1]) == 0 && (type == SOCK_STREAM || type == SOCK_SEQPACKET) &&
           getpeername(file, (struct sockaddr *)&peer, &lengths[2]) == 0;
}

static bool passes(const struct run *run, int file)
{
    struct stat status = status_of(file);
    return S_ISFIFO(status.st_mode) || (S_ISSOCK(status.st_mode) && is_connected_stream(file)) || (run->terminal && isatty(file)) ||
           (is_nothing(&status) && !is_owned(&status));
}

/* Whether standard output and error are the same file, as with 2>&1: the same flags and position. */
static bool are_one_file(void)
{
    struct stat first, second;
    return fstat(1, &first) == 0 && fstat(2, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino && fcntl(1, F_GETFL) == fcntl(2, F_GETFL) &&
           lseek(1, 0, SEEK_CUR) == lseek(2, 0, SEEK_CUR);
}

/* If the output can't be written, the pipe is closed, so that the command's next write fails. */
static size_t copy_output(int number, size_t most)
{
    static const char *const names[] = {"standard input", "standard output", "standard error"};
    static char content[BLOCK];
    struct relay *relay = &relays[number];
    ssize_t got = read(relay->read, content, most < sizeof content ? most : sizeof content);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (got > 0 && write_all(number, content, (size_t)got))
        return (size_t)got;
    if (got > 0) {
        failed = true;
        if (errno != EPIPE)
            warn("cannot write %s: %s", names[number], strerror(errno));
    }
    close(relay->read);
    relay->read = -1;
    return 0;
}

static void end_input(void)
{
    close(relays[0].write);
    relays[0].write = -1;
}

/* Reads nothing before the last block was written. The read fails if standard input is not open for reading,
 * or its device has disappeared. */
static void copy_input(void)
{
    ssize_t done;
    if (begin == end) {
        begin = end = 0;
        done = read(0, block, sizeof block);
        if (done > 0) {
            end = (size_t)done;
            taken += end;
        }
    } else {
        done = write(relays[0].write, block + begin, end - begin);
        if (done > 0)
            begin += (size_t)done;
    }
    if (done == 0 || (done < 0 && errno != EAGAIN && errno != EINTR))
        end_input();
}

/* Moves a file's position back over the data that the command has not read, for the next reader. The command
 * may have written to the pipe itself. */
static void leave_input(void)
{
    struct stat status;
    int left = 0;
    if (relays[0].write >= 0)
        end_input();
    if (relays[0].look < 0 || ioctl(relays[0].look, FIONREAD, &left) != 0)
        return;
    size_t unread = (size_t)left + (end - begin);
    if (unread > taken)
        unread = taken;
    if (unread > 0 && fstat(0, &status) == 0 && S_ISREG(status.st_mode))
        lseek(0, -(off_t)unread, SEEK_CUR);
    close(relays[0].look);
    relays[0].look = -1;
}

static void drain(int number)
{
    int left = 0;
    if (relays[number].read >= 0 && ioctl(relays[number].read, FIONREAD, &left) == 0)
        for (size_t more = (size_t)left, copied; more > 0 && relays[number].read >= 0; more -= copied)
            if ((copied = copy_output(number, more)) == 0)
                break;
}

static _Noreturn void copy(int launcher)
{
    for (bool there = true; there || relays[1].read >= 0 || relays[2].read >= 0;) {
        bool empty = begin == end;
        struct pollfd each[4] = {
            {.fd = there ? launcher : -1, .events = POLLIN},
            {.fd = relays[0].write < 0 ? -1 : empty ? 0 : relays[0].write, .events = empty ? POLLIN : POLLOUT},
            {.fd = relays[1].read, .events = POLLIN},
            {.fd = relays[2].read, .events = POLLIN},
        };
        if (poll(each, 4, -1) < 0)
            continue;
        if (each[1].revents != 0)
            copy_input();
        for (int number = 1; number < 3; number++)
            if (each[number + 1].revents != 0)
                copy_output(number, BLOCK);
        if (each[0].revents != 0) {
            char word;
            leave_input();
            there = false;
            if (recv(launcher, &word, 1, 0) == 1)
                break;
        }
    }
    drain(1);
    drain(2);
    _exit(failed ? 1 : 0);
}

/* Ignores signals to the launcher's process group, so that they do not end this process before the
 * command. */
static _Noreturn void begin_copying(int launcher)
{
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE};
    const int kept[] = {launcher, relays[0].write, relays[0].look, relays[1].read, relays[2].read};
    for (size_t index = 0; index < sizeof ignored / sizeof *ignored; index++)
        signal(ignored[index], SIG_IGN);
    close_others(kept, sizeof kept / sizeof *kept);
    copy(launcher);
}

/* Returns the command's end. */
static int make_pipe(int number)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        die_errno("cannot create a pipe");
    if (number == 0) {
        relays[0].write = ends[1];
        relays[0].look = ends[0];
        fcntl(ends[1], F_SETFL, O_WRONLY | O_NONBLOCK);
        return ends[0];
    }
    relays[number].read = ends[0];
    return ends[1];
}

void relay_streams(struct run *run)
{
    int ends[3] = {-1, -1, -1}, sockets[2];
    if (run->method != NULL && run->method->client)
        return;
    struct stat input = status_of(0);
    if (is_nothing(&input) && is_owned(&input))
        give_no_input();
    for (int number = 0; number < 3; number++)
        if (!passes(run, number))
            ends[number] = number == 2 && ends[1] >= 0 && are_one_file() ? ends[1] : make_pipe(number);
    if (ends[0] < 0 && ends[1] < 0 && ends[2] < 0)
        return;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0 || (copier = fork()) < 0)
        die_errno("cannot create the process that relays output");
    if (copier == 0)
        begin_copying(sockets[1]);
    talk = sockets[0];
    close(sockets[1]);
    for (int number = 0; number < 3; number++) {
        if (ends[number] < 0)
            continue;
        if ((given[number] = fcntl(number, F_DUPFD_CLOEXEC, 3)) < 0 || dup2(ends[number], number) < 0)
            die_errno("cannot replace standard input and output");
        close(number == 0 ? relays[0].write : relays[number].read);
    }
    for (int number = 0; number < 3; number++)
        if (ends[number] >= 0 && (number != 2 || ends[2] != ends[1]))
            close(ends[number]);
}

int end_relays(struct run *run, int status)
{
    int ended;
    (void)run;
    if (copier <= 0)
        return status;
    for (int number = 0; number < 3; number++)
        if (given[number] >= 0)
            dup2(given[number], number);
    send(talk, "", 1, MSG_NOSIGNAL);
    while (waitpid(copier, &ended, 0) < 0 && errno == EINTR)
        ;
    copier = 0;
    return status == 0 && ended != 0 ? 1 : status;
}
