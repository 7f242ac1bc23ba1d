/* The shim: a program inside the sandbox that takes the place of a program on the host, and has its name.
 *
 * It sends its arguments, working directory, standard input and signals to the bridge, writes the output that
 * the bridge returns, and ends as the program on the host does. bridge/frames.py describes the protocol. The
 * shim never runs the program itself: without a bridge it exits with 125, after a message.
 *
 * The bridge's socket is beside the shim's file. Where no Unix socket of the host can be reached, the file
 * `port` there contains the bridge's port on the sandbox's loopback. `sandwright-enter FD COMMAND...` has
 * created that listener before it starts COMMAND, and has sent it to the bridge over FD, an inherited Unix
 * socket. `sandwright-enter - COMMAND...` only puts the shims first on PATH, for an image that has a PATH of
 * its own.
 */

#define _GNU_SOURCE
#define _DARWIN_C_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

enum { CALL = 1, STDIN = 2, SIGNAL = 3, STDOUT = 17, STDERR = 18, EXIT = 19, REFUSED = 20, CREDIT = 21 };
enum { VERSION = 1, HEADER = 5, MAX_PAYLOAD = 1 << 20, CHUNK = 64 * 1024, NOTHING_RUN = 125 };

static const char *self = "shim";
static int signals[2];

static _Noreturn void fail(const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s: ", self);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(NOTHING_RUN);
}

static _Noreturn void gone(void)
{
    fail("the bridge exited during this call, so the program was stopped");
}

static void put_number(unsigned char *at, uint32_t number)
{
    for (int index = 0; index < 4; index++)
        at[index] = (unsigned char)(number >> (24 - 8 * index));
}

static uint32_t number_at(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Frames to the bridge. */

static void send_all(int bridge, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(bridge, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return; /* the bridge has closed the connection; its last messages can still be read */
        at += sent;
        size -= (size_t)sent;
    }
}

static void send_frame(int bridge, int kind, const void *payload, size_t size)
{
    unsigned char head[HEADER];
    put_number(head, (uint32_t)size);
    head[4] = (unsigned char)kind;
    send_all(bridge, head, HEADER);
    send_all(bridge, payload, size);
}

static size_t put_word(unsigned char *at, const char *word)
{
    size_t size = strlen(word);
    put_number(at, (uint32_t)size);
    memcpy(at + 4, word, size);
    return size + 4;
}

static void send_call(int bridge, const char *program, int count, char **arguments)
{
    static char directory[PATH_MAX];
    if (!getcwd(directory, sizeof directory))
        fail("cannot determine the working directory: %s", strerror(errno));
    size_t size = 1 + 4 + 4 + strlen(program) + 4 + strlen(directory);
    for (int index = 0; index < count; index++)
        size += 4 + strlen(arguments[index]);
    if (size > MAX_PAYLOAD)
        fail("the arguments are too long for the bridge: %zu bytes", size);
    unsigned char *payload = malloc(size);
    if (!payload)
        fail("out of memory");
    payload[0] = VERSION;
    put_number(payload + 1, (uint32_t)count + 2);
    size_t at = 5;
    at += put_word(payload + at, program);
    at += put_word(payload + at, directory);
    for (int index = 0; index < count; index++)
        at += put_word(payload + at, arguments[index]);
    send_frame(bridge, CALL, payload, size);
    free(payload);
}

/* Signals: the handler writes their number to a pipe, and the main loop sends them to the bridge. */

static void note_signal(int number)
{
    int saved = errno;
    unsigned char byte = (unsigned char)number;
    if (write(signals[1], &byte, 1) < 0) {
        /* the pipe is full of signals already */
    }
    errno = saved;
}

/* Signals whose numbers differ between systems use those of Linux on amd64. */
static int wire_number(int number)
{
    switch (number) {
    case SIGUSR1: return 10;
    case SIGUSR2: return 12;
    default: return number; /* HUP, INT, QUIT and TERM are the same everywhere */
    }
}

static void catch_signals(void)
{
    static const int caught[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    if (pipe(signals) < 0)
        fail("cannot create a pipe: %s", strerror(errno));
    for (int end = 0; end < 2; end++) {
        fcntl(signals[end], F_SETFL, O_NONBLOCK);
        fcntl(signals[end], F_SETFD, FD_CLOEXEC);
    }
    for (size_t index = 0; index < sizeof caught / sizeof *caught; index++) {
        struct sigaction action, before;
        memset(&action, 0, sizeof action);
        action.sa_handler = note_signal; /* without SA_RESTART, so that a blocking write is interrupted */
        sigaction(caught[index], NULL, &before);
        if (before.sa_handler != SIG_IGN)
            sigaction(caught[index], &action, NULL);
    }
}

static void forward_signals(int bridge)
{
    unsigned char byte;
    while (read(signals[0], &byte, 1) == 1) {
        unsigned char number = (unsigned char)wire_number(byte);
        send_frame(bridge, SIGNAL, &number, 1);
    }
}

/* Frames from the bridge. */

static void write_all(int bridge, int target, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(target, data, size);
        if (written < 0 && errno == EINTR) {
            forward_signals(bridge);
            continue;
        }
        if (written < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = target, .events = POLLOUT};
            poll(&ready, 1, -1);
            forward_signals(bridge);
            continue;
        }
        if (written < 0)
            exit(1); /* no reader: the program itself would end, too */
        data += written;
        size -= (size_t)written;
    }
}

static const char *unfinished; /* a signature's file, which is removed unless the call succeeds */

static void remove_unfinished(void)
{
    if (unfinished)
        unlink(unfinished);
}

static _Noreturn void end_like(const unsigned char *how)
{
    if (how[0] == 0 && how[1] == 0)
        unfinished = NULL;
    remove_unfinished();
    if (how[0] == 0)
        exit(how[1]);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(how[1], SIG_DFL);
    kill(getpid(), how[1]);
    exit(128 + how[1]);
}

static void take_frame(int kind, const char *payload, size_t size, uint64_t *credit)
{
    switch (kind) {
    case CREDIT:
        if (size == 4)
            *credit += number_at((const unsigned char *)payload);
        return;
    case EXIT:
        if (size == 2)
            end_like((const unsigned char *)payload);
        gone();
    case REFUSED:
        if (size < 1)
            gone();
        fprintf(stderr, "%s: %.*s\n", self, (int)size - 1, payload + 1);
        exit((unsigned char)payload[0]);
    default: fail("the bridge speaks another version of the protocol");
    }
}

/* Writes output as it arrives, without waiting for the end of its frame; other frames are small. */
static void take_output(int bridge, uint64_t *credit)
{
    static char buffer[CHUNK * 4];
    static size_t held, rest; /* bytes in the buffer; bytes of an output frame that are still missing */
    static int target;
    ssize_t got = recv(bridge, buffer + held, sizeof buffer - held, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0)
        gone();
    held += (size_t)got;
    size_t at = 0;
    for (;;) {
        if (rest > 0) {
            size_t part = rest < held - at ? rest : held - at;
            write_all(bridge, target, buffer + at, part);
            rest -= part;
            at += part;
        }
        if (held - at < HEADER)
            break;
        size_t size = number_at((const unsigned char *)buffer + at);
        int kind = (unsigned char)buffer[at + 4];
        if (kind == STDOUT || kind == STDERR) {
            target = kind == STDOUT ? 1 : 2;
            rest = size;
            at += HEADER;
            continue;
        }
        if (size > sizeof buffer - HEADER)
            fail("the bridge speaks another version of the protocol");
        if (held - at < HEADER + size)
            break;
        take_frame(kind, buffer + at + HEADER, size, credit);
        at += HEADER + size;
    }
    memmove(buffer, buffer + at, held - at);
    held -= at;
}

static int send_input(int bridge, uint64_t *credit)
{
    static char buffer[CHUNK];
    ssize_t got = read(0, buffer, *credit < CHUNK ? (size_t)*credit : CHUNK);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 1;
    if (got < 0)
        got = 0;
    send_frame(bridge, STDIN, buffer, (size_t)got);
    *credit -= (uint64_t)got;
    return got > 0;
}

static _Noreturn void converse(int bridge)
{
    uint64_t credit = 0;
    int input = 1;
    for (;;) {
        struct pollfd ready[3] = {
            {.fd = bridge, .events = POLLIN},
            {.fd = signals[0], .events = POLLIN},
            {.fd = input && credit > 0 ? 0 : -1, .events = POLLIN},
        };
        if (poll(ready, 3, -1) < 0 && errno != EINTR)
            fail("poll: %s", strerror(errno));
        forward_signals(bridge);
        if (ready[0].revents)
            take_output(bridge, &credit);
        if (ready[2].revents)
            input = send_input(bridge, &credit);
    }
}

/* Finding the bridge. */

static void own_directory(char *path, size_t size)
{
#ifdef __APPLE__
    char raw[PATH_MAX];
    uint32_t room = sizeof raw;
    if (_NSGetExecutablePath(raw, &room) != 0 || !realpath(raw, path))
        fail("cannot determine the path of this program");
    (void)size;
#else
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length <= 0)
        fail("cannot determine the path of this program: /proc/self/exe: %s", strerror(errno));
    path[length] = '\0';
#endif
    *strrchr(path, '/') = '\0';
}

/* The number in a file beside the shims; 0 if there is none. */
static int port_in(const char *directory, const char *name)
{
    char path[PATH_MAX + 16];
    int port = 0;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%d", &port) != 1 || port < 0 || port > 65535)
        port = 0;
    fclose(file);
    return port;
}

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int connect_loopback(int port)
{
    int bridge = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in address = loopback(port);
    if (bridge < 0 || connect(bridge, (struct sockaddr *)&address, sizeof address) < 0)
        fail("there is no bridge to the host: 127.0.0.1:%d: %s", port, strerror(errno));
    setsockopt(bridge, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return bridge;
}

static int connect_bridge(const char *directory)
{
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", directory);
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        fail("the path of the bridge's socket is too long: %s/socket", directory);
    int bridge = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bridge >= 0 && connect(bridge, (struct sockaddr *)&address, sizeof address) == 0)
        return bridge;
    int why = errno, port = port_in(directory, "port");
    if (bridge >= 0)
        close(bridge);
    if (port == 0)
        fail("there is no bridge to the host: %s: %s", address.sun_path, strerror(why));
    return connect_loopback(port);
}

/* sandwright-enter FD|- COMMAND [ARGUMENT...] */

/* In a new network namespace, the loopback interface is down. Without the capability to change that, it stays
 * so. */
static void switch_on_loopback(int any)
{
#ifdef __linux__
    struct ifreq request;
    memset(&request, 0, sizeof request);
    strcpy(request.ifr_name, "lo");
    if (ioctl(any, SIOCGIFFLAGS, &request) == 0 && !(request.ifr_flags & IFF_UP)) {
        request.ifr_flags |= IFF_UP;
        ioctl(any, SIOCSIFFLAGS, &request);
    }
#else
    (void)any;
#endif
}

/* Sends the listener, and a pipe for the answer. */
static void hand_over(int channel, int listener)
{
    char byte = VERSION;
    int answer[2];
    if (pipe(answer) < 0)
        fail("cannot create a pipe: %s", strerror(errno));
    int given[2] = {listener, answer[1]};
    union { struct cmsghdr head; char room[CMSG_SPACE(sizeof given)]; } control;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message;
    memset(&control, 0, sizeof control);
    memset(&message, 0, sizeof message);
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.room;
    message.msg_controllen = sizeof control.room;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof given);
    memcpy(CMSG_DATA(head), given, sizeof given);
    if (sendmsg(channel, &message, MSG_NOSIGNAL) != 1)
        fail("cannot pass a listener to the bridge: %s", strerror(errno));
    close(answer[1]);
    ssize_t got;
    do
        got = read(answer[0], &byte, 1);
    while (got < 0 && errno == EINTR);
    close(answer[0]);
    if (got != 1 || byte != VERSION)
        fail("the bridge refused this sandbox's listener");
}

static void bring_listener(const char *directory, int channel)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = loopback(port_in(directory, "listen"));
    if (listener < 0)
        fail("cannot create a socket on this sandbox's loopback: %s", strerror(errno));
    switch_on_loopback(listener);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 128) < 0)
        fail("cannot listen on this sandbox's loopback: %s", strerror(errno));
    hand_over(channel, listener);
    close(listener);
    close(channel);
}

static void put_first_on_path(const char *directory)
{
    const char *path = getenv("PATH");
    if (!path || !*path)
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    size_t size = strlen(directory) + strlen("/bin:") + strlen(path) + 1;
    char *both = malloc(size);
    if (!both)
        fail("out of memory");
    snprintf(both, size, "%s/bin:%s", directory, path);
    setenv("PATH", both, 1);
}

static int enter(const char *directory, int count, char **arguments)
{
    if (count < 3)
        fail("usage: sandwright-enter FD|- COMMAND [ARGUMENT...]");
    if (strcmp(arguments[1], "-") == 0)
        put_first_on_path(directory);
    else
        bring_listener(directory, atoi(arguments[1]));
    execvp(arguments[2], arguments + 2);
    int why = errno;
    fprintf(stderr, "%s: %s\n", arguments[2], strerror(why));
    return why == ENOENT ? 127 : 126;
}

/* Git's programs for signatures: only calls that sign with a key of the host go to the bridge. */

/* Executes the next program of this name on PATH that is not a shim. */
static _Noreturn void run_own_program(const char *directory, char **arguments)
{
    static char path[PATH_MAX], shim[PATH_MAX];
    struct stat ours, found;
    snprintf(shim, sizeof shim, "%s/shim", directory);
    const char *rest = getenv("PATH");
    int known = stat(shim, &ours) == 0;
    while (rest && *rest) {
        int length = (int)strcspn(rest, ":");
        snprintf(path, sizeof path, "%.*s/%s", length, rest, self);
        rest += length + (rest[length] == ':');
        if (stat(path, &found) < 0 || access(path, X_OK) < 0)
            continue;
        int is_shim = known && found.st_dev == ours.st_dev && found.st_ino == ours.st_ino;
        if (is_shim || strncmp(path, directory, strlen(directory)) == 0)
            continue;
        execv(path, arguments);
        break;
    }
    fprintf(stderr, "%s: not installed in this sandbox; the bridge only signs commits and tags\n", self);
    exit(127);
}

/* Whether this name only signs with a key that the policy lists, and is not a shim for other calls. */
static int only_signs(const char *directory)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/sign-%s", directory, self);
    return access(path, F_OK) == 0;
}

static int signs(int count, char **arguments)
{
    for (int index = 1; index < count; index++) {
        if (strcmp(self, "gpg") == 0 && strcmp(arguments[index], "-bsau") == 0)
            return 1;
        if (strcmp(self, "ssh-keygen") == 0 && strcmp(arguments[index], "-Y") == 0 && index + 1 < count &&
            strcmp(arguments[index + 1], "sign") == 0)
            return 1;
    }
    return 0;
}

/* Reads the beginning of a file, as text. */
static int read_beginning(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t got = fread(text, 1, size - 1, file);
    fclose(file);
    text[got] = '\0';
    return got > 0;
}

/* Names a key by its content if it can be read here, otherwise by its path, with `~` for the home
 * directory. */
static char *key_name(char *path)
{
    static char text[16 * 1024], shown[PATH_MAX];
    const char *home = getenv("HOME");
    size_t length = home ? strlen(home) : 0;
    if (read_beginning(path, text, sizeof text) && strncmp(text, "-----", 5) != 0) {
        text[strcspn(text, "\n")] = '\0';
        return text;
    }
    if (length > 1 && strncmp(path, home, length) == 0 && path[length] == '/') {
        snprintf(shown, sizeof shown, "~%s", path + length);
        return shown;
    }
    return path;
}

/* Whether the private key can be read here: then it belongs to the sandbox, and needs no bridge. */
static int has_private_key(const char *path)
{
    static char text[64], private[PATH_MAX];
    snprintf(private, sizeof private, "%s", path);
    size_t length = strlen(private);
    if (length > 4 && strcmp(private + length - 4, ".pub") == 0)
        private[length - 4] = '\0';
    return read_beginning(private, text, sizeof text) && strncmp(text, "-----BEGIN", 10) == 0;
}

/* Opens the file that ssh-keygen is to sign as standard input, and FILE.sig as standard output. */
static void take_files(const char *file)
{
    static char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s.sig", file) >= (int)sizeof path)
        fail("%s: the path is too long", file);
    int input = open(file, O_RDONLY | O_CLOEXEC);
    int output = input < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (output < 0)
        fail("%s: %s", input < 0 ? file : path, strerror(errno));
    unfinished = path;
    atexit(remove_unfinished);
    if (dup2(input, 0) < 0 || dup2(output, 1) < 0)
        fail("%s: %s", file, strerror(errno));
}

/* ssh-keygen's arguments for the bridge: without the file, and with the key's name on the bridge. */
static int take_signing_arguments(const char *directory, int count, char **arguments)
{
    char *file = NULL, **words = calloc((size_t)count + 1, sizeof *words);
    int kept = 0;
    if (!words)
        fail("out of memory");
    for (int index = 1; index < count; index++) {
        int valued = strcmp(arguments[index], "-Y") == 0 || strcmp(arguments[index], "-n") == 0 ||
                     strcmp(arguments[index], "-f") == 0 || strcmp(arguments[index], "-O") == 0;
        if (strcmp(arguments[index], "-f") == 0 && index + 1 < count && has_private_key(arguments[index + 1]))
            run_own_program(directory, arguments);
        if (arguments[index][0] != '-' && !file) {
            file = arguments[index];
            continue;
        }
        words[kept++] = arguments[index];
        if (valued && index + 1 < count) {
            words[kept++] = strcmp(arguments[index], "-f") == 0 ? key_name(arguments[index + 1]) : arguments[index + 1];
            index++;
        }
    }
    memcpy(arguments + 1, words, (size_t)kept * sizeof *words);
    free(words);
    if (file)
        take_files(file);
    return kept + 1;
}

int main(int count, char **arguments)
{
    static char directory[PATH_MAX];
    if (count < 1)
        return NOTHING_RUN;
    char *slash = strrchr(arguments[0], '/');
    self = slash ? slash + 1 : arguments[0];
    own_directory(directory, sizeof directory);
    if (strcmp(self, "sandwright-enter") == 0)
        return enter(directory, count, arguments);
    if (only_signs(directory)) {
        if (!signs(count, arguments))
            run_own_program(directory, arguments);
        if (strcmp(self, "ssh-keygen") == 0)
            count = take_signing_arguments(directory, count, arguments);
    }
    int bridge = connect_bridge(directory);
    fcntl(bridge, F_SETFD, FD_CLOEXEC);
    catch_signals();
    send_call(bridge, self, count - 1, arguments + 1);
    converse(bridge);
}
