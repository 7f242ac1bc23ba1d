/* DNS for programs that do not use the proxy variables. Inside, a resolver gives each name that the policy
 * lists an address of 127.77.0.0/16. A connection to it is forwarded through the proxy to that name, on
 * the same port. Other names do not exist, so that a name that the proxy would refuse fails at once. The
 * proxy enforces the policy, not this resolver. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "launch.h"
#include "ports.h"

enum {
    DNS = 53, PROXY = 3128, BLOCK = 127 << 8 | 77,
    HEAD = 12, RECORD = 16, /* sizes in a message (RFC 1035, 4.1) */
    ADDRESS = 1, INTERNET = 1, FAILED = 2, UNKNOWN = 3,
    LONGEST = 253, MOST_NAMES = 4096, MOST_PORTS = 64, TUNNELS = 256, BACKLOG = 128, ANSWER = 8192
};

static int resolver = -1, listeners[MOST_PORTS];
static size_t listener_count;
static struct strv known; /* the name of 127.77.0.1, then that of 127.77.0.2, and so on */

bool dns_wanted(const struct run *run)
{
    /* The guest kernel has a resolver of its own (guestnet.c). */
    return run->plan.names.patterns.count > 0 && !has_kernel(run);
}


/* Reads the name in a query, in lower case and without a dot at its end. Returns the position after it, or 0
 * if it is malformed. */
static size_t read_name(const unsigned char *message, size_t length, char *name)
{
    size_t at = HEAD, end = 0;
    while (at < length && message[at] != 0) {
        size_t label = message[at++];
        if (label > 63 || label > length - at || end + (end > 0) + label > LONGEST)
            return 0;
        if (end > 0)
            name[end++] = '.';
        for (; label > 0; label--, at++) {
            unsigned char each = message[at];
            if (each >= 'A' && each <= 'Z')
                each = (unsigned char)(each - 'A' + 'a');
            if ((each < 'a' || each > 'z') && (each < '0' || each > '9') && each != '-')
                return 0;
            name[end++] = (char)each;
        }
    }
    name[end] = '\0';
    return at < length && end > 0 ? at + 1 : 0;
}

/* The patterns of network.allow: a name, all names below one (`*.name`), all names (`*`). */
static bool is_listed(const struct strv *patterns, const char *name)
{
    size_t length = strlen(name);
    for (size_t index = 0; index < patterns->count; index++) {
        const char *pattern = patterns->at[index];
        size_t rest = strlen(pattern) - 1;
        if (strcmp(pattern, "*") == 0 || strcmp(pattern, name) == 0 ||
            (pattern[0] == '*' && length > rest && strcmp(name + length - rest, pattern + 1) == 0))
            return true;
    }
    return false;
}

/* The index of a name among those that have an address; a new name gets the next one. MOST_NAMES: none is
 * left. */
static size_t number_of(struct strv *names, const char *name)
{
    size_t index = 0;
    while (index < names->count && strcmp(names->at[index], name) != 0)
        index++;
    if (index == names->count && index < MOST_NAMES)
        strv_push(names, xasprintf("%s", name));
    return index;
}

size_t dns_answer(const struct strv *patterns, struct strv *names, const unsigned char *question, size_t length,
                    unsigned char *answer)
{
    char name[LONGEST + 1];
    /* A standard query (QR and OPCODE are 0) with one question. */
    if (length < HEAD || length > DNS_MESSAGE - RECORD || (question[2] & 0xf8) != 0 || question[4] != 0 || question[5] != 1)
        return 0;
    size_t end = read_name(question, length, name);
    if (end == 0 || length - end < 4)
        return 0;
    int kind = question[end] << 8 | question[end + 1], class = question[end + 2] << 8 | question[end + 3];
    bool found = class == INTERNET && is_listed(patterns, name);
    size_t number = found && kind == ADDRESS ? number_of(names, name) : MOST_NAMES;
    bool given = number < MOST_NAMES;
    memcpy(answer, question, end += 4);
    answer[2] = (unsigned char)(0x84 | (question[2] & 1)); /* an authoritative answer; RD as in the query */
    answer[3] = (unsigned char)(0x80 | (!found ? UNKNOWN : kind == ADDRESS && !given ? FAILED : 0));
    memcpy(answer + 4, (const unsigned char[]){0, 1, 0, given, 0, 0, 0, 0}, 8);
    if (!given)
        return end;
    number++;
    memcpy(answer + end, (const unsigned char[]){0xc0, HEAD, 0, ADDRESS, 0, INTERNET, 0, 0, 0, 60, 0, 4, BLOCK >> 8, BLOCK & 0xff,
                                                 (unsigned char)(number >> 8), (unsigned char)number}, RECORD);
    return end + RECORD;
}

static void answer_one(const struct run *run)
{
    unsigned char question[DNS_MESSAGE], answer[DNS_MESSAGE];
    struct sockaddr_in client;
    socklen_t size = sizeof client;
    ssize_t got = recvfrom(resolver, question, sizeof question, MSG_DONTWAIT, (struct sockaddr *)&client, &size);
    size_t length = got <= 0 ? 0 : dns_answer(&run->plan.names.patterns, &known, question, (size_t)got, answer);
    if (length > 0)
        sendto(resolver, answer, length, MSG_DONTWAIT, (struct sockaddr *)&client, size);
}

/* ---- one connection, in a separate process */

/* Reads byte by byte, so that no data after the reply's head is consumed. */
static bool is_let_through(int proxy)
{
    char head[ANSWER + 1];
    size_t length = 0;
    while (length < ANSWER && recv(proxy, head + length, 1, 0) == 1) {
        head[++length] = '\0';
        if (length >= 4 && strcmp(head + length - 4, "\r\n\r\n") == 0)
            return strncmp(head, "HTTP/1.", 7) == 0 && length > 12 && head[8] == ' ' && head[9] == '2';
    }
    return false;
}

static void lead(const struct run *run, int end)
{
    in_addr_t place = run->proxy_address != 0 ? run->proxy_address : htonl(INADDR_LOOPBACK);
    struct sockaddr_in here, there = {.sin_family = AF_INET, .sin_port = htons(PROXY), .sin_addr = {place}};
    struct linger now = {.l_onoff = 1};
    socklen_t size = sizeof here;
    int proxy = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned long address = getsockname(end, (struct sockaddr *)&here, &size) == 0 ? ntohl(here.sin_addr.s_addr) : 0;
    size_t number = (address & 0xffff) - 1;
    if (address >> 16 == BLOCK && number < known.count && proxy >= 0 &&
        connect(proxy, (struct sockaddr *)&there, sizeof there) == 0) {
        const char *name = known.at[number];
        char *ask = xasprintf("CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n", name, ntohs(here.sin_port), name, ntohs(here.sin_port));
        if (send(proxy, ask, strlen(ask), 0) == (ssize_t)strlen(ask) && is_let_through(proxy)) {
            carry_pair(end, proxy);
            return;
        }
    }
    setsockopt(end, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static size_t led; /* number of open connections */

static void accept_one(const struct run *run, int listener)
{
    pid_t own = getpid(), child;
    int end = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (end < 0)
        return;
    if ((child = fork()) == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == own)
            lead(run, end);
        _exit(0);
    }
    led += child > 0;
    close(end);
}

/* ---- in the sandbox's network namespace */

static bool listens(int end, unsigned long address, int port)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr = {htonl((unsigned)address)}};
    int one = 1;
    setsockopt(end, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    return end >= 0 && bind(end, (struct sockaddr *)&here, sizeof here) == 0;
}

void dns_listen(const struct run *run)
{
    const struct strv *ports = &run->plan.names.ports;
    for (size_t index = 0; index < ports->count && index < MOST_PORTS; index++) {
        int end = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (!listens(end, INADDR_ANY, atoi(ports->at[index])) || listen(end, BACKLOG) != 0)
            die_errno("cannot listen on port %s inside the sandbox", ports->at[index]);
        listeners[listener_count++] = end;
    }
    /* Last, because programs that wait for the resolver look for this socket. */
    resolver = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (!listens(resolver, INADDR_LOOPBACK, DNS))
        die_errno("cannot resolve names inside the sandbox");
}

_Noreturn static void serve(const struct run *run)
{
    struct pollfd waiting[1 + MOST_PORTS];
    for (;;) {
        while (led > 0 && waitpid(-1, NULL, WNOHANG) > 0)
            led--;
        waiting[0] = (struct pollfd){.fd = resolver, .events = POLLIN};
        for (size_t index = 0; index < listener_count; index++) /* further connections wait */
            waiting[1 + index] = (struct pollfd){.fd = led < TUNNELS ? listeners[index] : -1, .events = POLLIN};
        if (poll(waiting, 1 + listener_count, led < TUNNELS ? -1 : 50) <= 0)
            continue;
        if (waiting[0].revents != 0)
            answer_one(run);
        for (size_t index = 0; index < listener_count; index++)
            if (waiting[1 + index].revents != 0)
                accept_one(run, listeners[index]);
    }
}

void dns_start(const struct run *run, int says)
{
    pid_t own = getpid(), child = fork();
    if (child < 0)
        die_errno("cannot create a process");
    if (child == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != own)
            _exit(NOT_RUN);
        close(says);
        serve(run);
    }
    close(resolver);
    for (; listener_count > 0; listener_count--)
        close(listeners[listener_count - 1]);
}
