/* A scope of the user's systemd, in which a normal user may create cgroups (cgroup version 2 only).
 *
 * The monitor requests it for its own process, as systemd-run(1) does: StartTransientUnit of
 * org.freedesktop.systemd1.Manager, with Delegate=yes. systemd removes the scope after its last process has
 * ended. The messages follow the D-Bus specification: each value is aligned to its size.
 */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/un.h>

#include "bytes.h"
#include "launch.h"

enum { PATIENCE = 3000 /* milliseconds */, HEADER = 16, LONGEST = 1 << 16 };
enum { ORDER = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 'l' : 'B' };
enum { CALL = 1, RETURN, FAILED, SIGNAL };                            /* message types */
enum { PATH = 1, INTERFACE, MEMBER, DESTINATION = 6, SIGNATURE = 8 }; /* header fields */
static const char SYSTEMD[] = "org.freedesktop.systemd1";

static void align(struct bytes *message, size_t size)
{
    static const unsigned char zeros[8];
    bytes_add(message, zeros, (size - bytes_held(message) % size) % size);
}

static void put_number(struct bytes *message, uint32_t number)
{
    align(message, sizeof number);
    bytes_add(message, &number, sizeof number);
}

static void put_string(struct bytes *message, const char *text)
{
    put_number(message, (uint32_t)strlen(text));
    bytes_add(message, text, strlen(text) + 1);
}

static void put_signature(struct bytes *message, const char *text)
{
    unsigned char length = (unsigned char)strlen(text);
    bytes_add(message, &length, 1);
    bytes_add(message, text, (size_t)length + 1);
}

/* Writes the length of an array that begins at `begin` to `at`. */
static void set_length(struct bytes *message, size_t at, size_t begin)
{
    uint32_t length = (uint32_t)(bytes_held(message) - begin);
    memcpy(message->at + message->begin + at, &length, sizeof length);
}

static void put_field(struct bytes *message, unsigned char code, const char *type, const char *value)
{
    align(message, 8);
    bytes_add(message, &code, 1);
    put_signature(message, type);
    (*type == 'g' ? put_signature : put_string)(message, value);
}

struct bus_call {
    const char *destination, *path, *interface, *name, *signature; /* NULL: no arguments */
};

static void put_call(struct bytes *out, uint32_t serial, const struct bus_call *call, const struct bytes *body)
{
    static const unsigned char start[] = {ORDER, CALL, 0 /* flags */, 1 /* version */};
    struct bytes message = {0};
    bytes_add(&message, start, sizeof start);
    put_number(&message, (uint32_t)bytes_held(body));
    put_number(&message, serial);
    put_number(&message, 0);
    put_field(&message, PATH, "o", call->path);
    put_field(&message, INTERFACE, "s", call->interface);
    put_field(&message, MEMBER, "s", call->name);
    put_field(&message, DESTINATION, "s", call->destination);
    if (call->signature != NULL)
        put_field(&message, SIGNATURE, "g", call->signature);
    set_length(&message, HEADER - sizeof(uint32_t), HEADER);
    align(&message, 8);
    bytes_add(out, message.at, bytes_held(&message));
    bytes_add(out, body->at, bytes_held(body));
    free(message.at);
}

static void put_hello(struct bytes *out)
{
    const struct bus_call hello = {"org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello", NULL};
    put_call(out, 1, &hello, &(struct bytes){0});
}

static void put_property(struct bytes *body, const char *name, const char *type)
{
    align(body, 8);
    put_string(body, name);
    put_signature(body, type);
}

static void put_start(struct bytes *out, const char *scope)
{
    const struct bus_call start = {SYSTEMD, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "StartTransientUnit",
                                 "ssa(sv)a(sa(sv))"};
    struct bytes body = {0};
    put_string(&body, scope);
    put_string(&body, "fail"); /* the mode: fail if a unit of this name exists */
    put_number(&body, 0);
    size_t length_at = bytes_held(&body) - sizeof(uint32_t);
    align(&body, 8);
    size_t begin = bytes_held(&body);
    put_property(&body, "PIDs", "au");
    put_number(&body, sizeof(uint32_t));
    /* 0 means the sender of the message, because its PID may differ in systemd's PID namespace. */
    put_number(&body, 0);
    put_property(&body, "Delegate", "b");
    put_number(&body, true);
    put_property(&body, "CollectMode", "s");
    put_string(&body, "inactive-or-failed");
    set_length(&body, length_at, begin);
    put_number(&body, 0); /* no auxiliary units */
    align(&body, 8);
    put_call(out, 2, &start, &body);
    free(body.at);
}

/* The bus's address is `unix:path=PATH`, with or without `,guid=…`. Other forms, and addresses with escapes,
 * are ignored. */
static char *bus_path(void)
{
    static const char form[] = "unix:path=";
    const char *given = getenv("DBUS_SESSION_BUS_ADDRESS"), *runtime = getenv("XDG_RUNTIME_DIR");
    if (given != NULL && strncmp(given, form, strlen(form)) == 0 && strpbrk(given, ";%") == NULL)
        return xasprintf("%.*s", (int)strcspn(given + strlen(form), ","), given + strlen(form));
    return runtime != NULL && *runtime == '/' ? xasprintf("%s/bus", runtime) : xasprintf("/run/user/%u/bus", (unsigned)geteuid());
}

static int connect_bus(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char *path = bus_path();
    int bus = strlen(path) < sizeof address.sun_path ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    if (bus < 0)
        return -1;
    strcpy(address.sun_path, path);
    if (connect(bus, (struct sockaddr *)&address, sizeof address) == 0)
        return bus;
    close(bus);
    return -1;
}

/* Removes the line `OK …\r\n`, the reply to the authentication: 1. 0: incomplete; -1: another reply. */
static int take_line(struct bytes *answers)
{
    const char *at = (const char *)answers->at + answers->begin;
    const char *end = bytes_held(answers) == 0 ? NULL : memchr(at, '\n', bytes_held(answers));
    if (end == NULL)
        return bytes_held(answers) > LONGEST ? -1 : 0;
    answers->begin += (size_t)(end + 1 - at);
    return strncmp(at, "OK ", 3) == 0 ? 1 : -1;
}

/* Removes a message and returns its type. 0: incomplete; -1: too long. */
static int take_message(struct bytes *answers)
{
    uint32_t body, fields;
    const unsigned char *at = answers->at + answers->begin;
    if (bytes_held(answers) < HEADER)
        return 0;
    memcpy(&body, at + 4, sizeof body);
    memcpy(&fields, at + HEADER - sizeof fields, sizeof fields);
    if (body > LONGEST || fields > LONGEST)
        return -1;
    size_t length = HEADER + (fields + 7) / 8 * 8 + body;
    if (bytes_held(answers) < length)
        return 0;
    answers->begin += length;
    return at[1];
}

/* Removes the next reply: 1. 0: incomplete; -1: it is an error. */
static int take_answer(struct bytes *answers, bool authenticated)
{
    int type;
    if (!authenticated)
        return take_line(answers);
    do
        type = take_message(answers);
    while (type == SIGNAL);
    return type == RETURN ? 1 : type == 0 ? 0 : -1;
}

/* Whether the authentication and both calls succeeded. */
static bool is_answered(int bus, long until)
{
    struct bytes answers = {0};
    int taken = 0;
    for (int step = 0; step < 3 && taken >= 0; step += taken == 1) {
        taken = take_answer(&answers, step > 0);
        if (taken == 0 && (milliseconds() >= until || !wait_readable(bus, until) || !bytes_read(&answers, bus)))
            taken = -1;
    }
    free(answers.at);
    return taken == 1;
}

/* Asks systemd to move this process to a new scope. Sends everything at once, as sd_bus(3) does. */
static bool ask_systemd(const char *scope, long until)
{
    struct bytes out = {0};
    char *user = xasprintf("%u", (unsigned)geteuid());
    _cleanup_close_ int bus = connect_bus();
    if (bus < 0)
        return false;
    bytes_add(&out, "", 1);
    bytes_text(&out, "AUTH EXTERNAL ");
    for (const char *digit = user; *digit != '\0'; digit++)
        bytes_text(&out, "%02x", (unsigned)*digit);
    bytes_text(&out, "\r\nBEGIN\r\n");
    put_hello(&out);
    put_start(&out, scope);
    bool sent = bytes_flush(&out, bus);
    free(out.at);
    return sent && is_answered(bus, until);
}

/* Waits until this process is in the scope, and returns its directory; NULL: the time is up. */
static char *wait_for_scope(const char *scope, long until)
{
    do {
        char *own = cgroup_own("");
        if (own != NULL && strcmp(base_name(own), scope) == 0)
            return xasprintf("%s%s", CGROUPS, own);
        poll(NULL, 0, 1);
    } while (milliseconds() < until);
    return NULL;
}

/* Moves this process to a cgroup of its own, because one that contains processes can't have limits below
 * it. */
static void leave_top(const char *directory)
{
    _cleanup_free_ char *own = xasprintf("%s/monitor", directory);
    mkdir(own, 0755);
    _cleanup_close_ int handle = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle >= 0)
        cgroup_enter(handle);
}

void scope_enter(const struct run *run)
{
    long until = milliseconds() + PATIENCE;
    const char *scope = xasprintf("%s.scope", run->name);
    if (geteuid() == 0 || access(CGROUPS "/cgroup.controllers", F_OK) != 0 || !ask_systemd(scope, until))
        return;
    const char *directory = wait_for_scope(scope, until);
    if (directory != NULL)
        leave_top(directory);
}
