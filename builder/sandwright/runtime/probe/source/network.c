/* Attempts on the network and on sockets. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MILLISECONDS = 1500 };

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
};

/* The address of a name in /etc/hosts, otherwise the name itself; does not use DNS. */
static const char *listed(const char *name) {
    static char line[1024];
    const char *found = name;
    FILE *hosts = fopen("/etc/hosts", "re");
    while (hosts && found == name && fgets(line, sizeof line, hosts)) {
        const char *address = strtok(line, " \t\n");
        for (const char *each; address && (each = strtok(NULL, " \t\n"));)
            found = strcmp(each, name) == 0 ? address : found;
    }
    if (hosts)
        fclose(hosts);
    return found;
}

/* The length of the IP address in `address`; 0 if the text is not an address. */
static socklen_t parse(union address *address, const char *text, const char *port) {
    const char *host = listed(text);
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons((unsigned short)number(port));
        return sizeof address->v4;
    }
    if (inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons((unsigned short)number(port));
        return sizeof address->v6;
    }
    return 0;
}

/* connect(2) with a timeout: ETIMEDOUT if there is no reply. */
static int connect_soon(int end, const union address *address, socklen_t length) {
    struct pollfd waiting = {.fd = end, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof error;
    fcntl(end, F_SETFL, O_NONBLOCK);
    if (connect(end, &address->any, length) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    if (poll(&waiting, 1, MILLISECONDS) == 0)
        return ETIMEDOUT;
    return getsockopt(end, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/* Connects, sends a word, and returns the reply, if there is one. */
static int tell(int type, const union address *address, socklen_t length, const struct arguments *given, int word,
                struct value *value) {
    char reply[256];
    int end = socket(address->any.sa_family, type, 0);
    if (end < 0)
        return errno;
    int error = connect_soon(end, address, length);
    if (!error && given->length[word])
        error = outcome(send(end, given->text[word], given->length[word], 0));
    struct pollfd waiting = {.fd = end, .events = POLLIN};
    if (!error && poll(&waiting, 1, type == SOCK_STREAM ? 300 : 50) > 0) {
        ssize_t got = recv(end, reply, sizeof reply, 0);
        error = outcome(got);
        if (got > 0)
            say_bytes(value, reply, (size_t)got);
    }
    close(end);
    return error;
}

static int tell_ip(int type, const struct arguments *given, struct value *value) {
    union address address;
    socklen_t length = parse(&address, given->text[0], given->text[1]);
    return length ? tell(type, &address, length, given, 2, value) : EINVAL;
}

/* tcp ADDRESS PORT [WORD], udp ADDRESS PORT [WORD] */
static int tell_tcp(const struct arguments *given, struct value *value) {
    return tell_ip(SOCK_STREAM, given, value);
}

static int tell_udp(const struct arguments *given, struct value *value) {
    return tell_ip(SOCK_DGRAM, given, value);
}

/* The address of a path, or with `skip` of an abstract name; returns 0 if it is too long. */
static socklen_t local_address(union address *address, int skip, const struct arguments *given) {
    if (given->length[0] + (size_t)skip + 1 > sizeof address->local.sun_path)
        return 0;
    address->local.sun_family = AF_UNIX;
    memcpy(address->local.sun_path + skip, given->text[0], given->length[0]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + given->length[0] + (size_t)(skip ? skip : 1));
}

/* unix PATH [WORD], abstract NAME [WORD], unixgram PATH [WORD] */
static int tell_local(int type, int skip, const struct arguments *given, struct value *value) {
    union address address = {0};
    socklen_t length = local_address(&address, skip, given);
    return length ? tell(type, &address, length, given, 1, value) : ENAMETOOLONG;
}

static int tell_unix(const struct arguments *given, struct value *value) {
    return tell_local(SOCK_STREAM, 0, given, value);
}

static int tell_unixgram(const struct arguments *given, struct value *value) {
    return tell_local(SOCK_DGRAM, 0, given, value);
}

static int tell_abstract(const struct arguments *given, struct value *value) {
    return tell_local(SOCK_STREAM, 1, given, value);
}

/* Listens at an address, connects to it, and sends a byte. */
static int own_listener(union address *address, socklen_t length) {
    int listener = socket(address->any.sa_family, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, &address->any, length) != 0 || listen(listener, 1) != 0)
        return errno;
    if (address->any.sa_family != AF_UNIX && getsockname(listener, &address->any, &length) != 0)
        return errno;
    int end = socket(address->any.sa_family, SOCK_STREAM, 0);
    int error = end < 0 ? errno : connect_soon(end, address, length);
    int peer = error ? -1 : accept(listener, NULL, NULL);
    return error ? error : peer < 0 ? errno : outcome(send(end, "x", 1, 0));
}

/* loopback ADDRESS */
static int own_loopback(const struct arguments *given, struct value *value) {
    union address address;
    (void)value;
    return own_listener(&address, parse(&address, given->text[0], "0"));
}

/* own-unix PATH, own-abstract NAME */
static int own_local(int skip, const struct arguments *given) {
    union address address = {0};
    socklen_t length = local_address(&address, skip, given);
    return length ? own_listener(&address, length) : ENAMETOOLONG;
}

/* Removes the socket's file, which may be in a directory that outlives the sandbox. */
static int own_unix(const struct arguments *given, struct value *value) {
    (void)value;
    int error = own_local(0, given);
    if (error != EADDRINUSE)
        unlink(given->text[0]);
    return error;
}

static int own_abstract(const struct arguments *given, struct value *value) {
    (void)value;
    return own_local(1, given);
}

/* bind ADDRESS PORT: listens where other machines could connect. */
static int bind_ip(const struct arguments *given, struct value *value) {
    union address address;
    socklen_t length = parse(&address, given->text[0], given->text[1]);
    (void)value;
    int end = socket(address.any.sa_family, SOCK_STREAM, 0);
    return end < 0 || bind(end, &address.any, length) != 0 ? errno : outcome(listen(end, 1));
}

/* serve ADDRESS PORT WORD MILLISECONDS: sends a word to the first client, and returns its reply. */
static int serve(const struct arguments *given, struct value *value) {
    union address address;
    socklen_t length = parse(&address, given->text[0], given->text[1]);
    char said[256];
    int yes = 1, listener = socket(address.any.sa_family, SOCK_STREAM, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(listener, &address.any, length) != 0 || listen(listener, 1) != 0)
        return errno;
    struct pollfd waiting = {.fd = listener, .events = POLLIN};
    if (poll(&waiting, 1, (int)number(given->text[3])) == 0)
        return ETIMEDOUT;
    int peer = accept(listener, NULL, NULL);
    ssize_t got = peer < 0 ? -1 : recv(peer, said, sizeof said, 0);
    if (got > 0)
        say_bytes(value, said, (size_t)got);
    return got < 0 ? errno : outcome(send(peer, given->text[2], given->length[2], 0));
}

/* socket FAMILY TYPE PROTOCOL: only creates the socket. */
static int make_socket(const struct arguments *given, struct value *value) {
    (void)value;
    return outcome(
        socket((int)number(given->text[0]), (int)number(given->text[1]), (int)number(given->text[2])));
}

/* pair: creates two connected Unix sockets. */
static int make_pair(const struct arguments *given, struct value *value) {
    int ends[2];
    (void)given;
    (void)value;
    return outcome(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
}

const struct operation network_operations[] = {
    {"tcp", tell_tcp},
    {"udp", tell_udp},
    {"unix", tell_unix},
    {"unixgram", tell_unixgram},
    {"abstract", tell_abstract},
    {"loopback", own_loopback},
    {"own-unix", own_unix},
    {"own-abstract", own_abstract},
    {"bind", bind_ip},
    {"serve", serve},
    {"socket", make_socket},
    {"pair", make_pair},
    {NULL, NULL},
};
