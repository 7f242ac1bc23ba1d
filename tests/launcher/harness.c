/* Feeds inputs to the parsers of the launcher. The first byte of an input, a letter, selects the parser.
 *
 * With -fsanitize=fuzzer, this is a fuzz target; -DONLY="'g'" restricts it to one letter. With -DSHOW, it reads
 * inputs from standard input, each after its length in four bytes, and prints one line for each.
 *
 * The launcher does not free its memory, so the harness tracks allocations and frees them after each input. Every
 * file that the launcher reads has the input as its content. */
#undef free /* the launcher's calls of free are compiled as free_held */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    void **at;
    size_t count;
} held;

/* Replaces `before` in the list of allocations, or adds a new one. */
static void *keep_memory(void *before, size_t size)
{
    size_t index = 0;
    while (index < held.count && held.at[index] != before)
        index++;
    if (index == held.count) {
        held.at = realloc(held.at, ++held.count * sizeof *held.at);
        held.at[index] = NULL;
    }
    return held.at[index] = realloc(before, size);
}

static void *keep_zeros(size_t size)
{
    return memset(keep_memory(NULL, size), 0, size);
}

static int keep_format(char **made, const char *format, va_list given)
{
    va_list words;
    va_copy(words, given);
    int length = vsnprintf(NULL, 0, format, words);
    va_end(words);
    *made = keep_memory(NULL, (size_t)length + 1);
    return vsnprintf(*made, (size_t)length + 1, format, given);
}

void free_held(void *memory);

void free_held(void *memory)
{
    for (size_t index = 0; index < held.count; index++)
        if (held.at[index] == memory)
            held.at[index] = NULL;
    free(memory);
}

#define calloc(count, size) keep_zeros((count) * (size))
#define realloc keep_memory
#define reallocarray(before, count, size) keep_memory(before, (count) * (size))
#define vasprintf keep_format
#define read_file read_real_file
#include "utils.c"
#undef calloc
#undef realloc
#undef reallocarray
#undef vasprintf
#undef read_file
char *read_file(int directory, const char *path, size_t most, size_t *length);
#include "placeholders.c"

#include "broker.c"
#define is_listed is_listed_name
#define MOST MOST_CONNECTIONS
#include "dns.c"
#undef MOST

#include "broker.h"
#include "refusals.h"
#include "watch.h"

bool feed_recorder(const char *content, size_t length);      /* recorder.c */
bool feed_named(const unsigned char *content, size_t length); /* named.c */
bool feed_tunnels(char *content, size_t length, size_t *taken); /* tunnelled.c */
const char *feed_relay(const char *content, size_t length);      /* relayed.c */

#include <setjmp.h>

static const char *input; /* the content of every file, with a NUL byte after it */
static size_t input_length;

char *read_file(int directory, const char *path, size_t most, size_t *length)
{
    (void)directory;
    (void)path;
    if (input_length > most)
        return NULL;
    if (length != NULL)
        *length = input_length;
    return memcpy(keep_zeros(input_length + 1), input, input_length);
}

static jmp_buf refused;

static void leave_input(int status)
{
    longjmp(refused, status);
}

static void (*show)(const char *format, ...);

static void show_plan(char *content, size_t length)
{
    struct plan plan;
    const char *fault = plan_parse(content, length, &plan);
    if (fault != NULL) {
        show("%s", fault);
        return;
    }
    show("right:");
#define SHOW_WORD(label, field) if (field != NULL) show(" " label "=%s", field);
#define SHOW_WORDS(label, field) for (size_t index = 0; index < field.count; index++) show(" " label "=%s", field.at[index]);
#define SHOW_PAIRS(label, field) SHOW_WORDS(label, field) if (field.count % 2 != 0) abort();
#define SHOW_NUMBER(label, field) if (field >= 0) show(" " label "=%ld", field);
#define SHOW_FLAG(label, field) if (field) show(" " label);
#define FIELD(kind, name) SHOW_##kind(#name, plan.name)
#define IN(section, kind, name) SHOW_##kind(#section "." #name, plan.section.name)
#define SECTION(name)
#define END(name)
#include "fields.h"
}

static void show_mount_plan(char *content, size_t length)
{
    struct mount_plan plan;
    const char *fault = watch_plan_parse(content, length, &plan);
    if (fault == NULL)
        show("%zu", plan.count);
    else
        show("%s", fault);
    for (size_t index = 0; index < plan.count; index++)
        if (plan.records[index].target[0] != '/')
            abort();
    free(plan.records);
}

static void show_mounts(char *content)
{
    struct mounts mounts;
    static const char *const paths[] = {"/", "/a", "/a/b", "/a b/c"};
    bool fine = mounts_parse(strdup(content), &mounts);
    show("%d %zu", fine, mounts.count);
    for (size_t index = 0; fine && index < sizeof paths / sizeof *paths; index++)
        show(" %lu", mounts_at(&mounts, paths[index], strlen(paths[index]))->id);
    mounts_free(&mounts);
}

static void show_address(const char *content, size_t length)
{
    char path[109];
    static const char *const names[] = {"wrong", "none", "abstract", "path", "other"};
    enum address found = address_of(content, length, path);
    show("%s %s", names[found], path);
}

static void show_answer(const char *content, size_t length)
{
    struct diag_question question = {.sequence = 1, .device = 2, .inode = 3};
    static const char *const names[] = {"more", "end", "fault"};
    enum diag_answer said = diag_read(content, length, &question);
    show("%s%s%s", names[said], question.found ? " found" : "", question.cut ? " cut" : "");
}

/* The input is a struct seccomp_data, followed by the filter. */
static void show_filter(const char *content, size_t length)
{
    struct seccomp_data call;
    struct program program;
    if (length < sizeof call) {
        show("short");
        return;
    }
    memcpy(&call, content, sizeof call);
    if (!filter_parse(content + sizeof call, length - sizeof call, &program)) {
        show("not known");
        return;
    }
    uint32_t action = filter_action(&program, &call);
    struct program two[] = {program, program}, joined = filters_joined(NULL, two, 2);
    uint32_t asked = joined.at == NULL ? action : filter_action(&joined, &call);
    int error = filters_refusal(two, 2, &call, NULL);
    filter_ask(&program);
    if (filter_action(&program, &call) != (is_refusal(action) ? SECCOMP_RET_USER_NOTIF : action) ||
        (joined.at != NULL && asked != filter_action(&program, &call)) || (error != 0) != is_refusal(action))
        abort();
    show("%x", action);
}

/* The input has the second and third argument of connect(2), followed by the address. An even second argument is
 * replaced by a pointer to that address, as the launcher reads it from the memory of another thread. */
static void show_connect(const char *content, size_t length)
{
    uint64_t arguments[6] = {0};
    char path[109] = "";
    struct caller caller = {.process = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC), .socket = -1};
    memcpy(arguments + 1, content, length < 16 ? length : 16);
    if (arguments[1] % 2 == 0)
        arguments[1] = (uint64_t)(content + (length < 16 ? length : 16));
    int fault = copy_address(&caller, arguments[1], arguments[2]);
    enum address found = fault == 0 ? address_of(&caller.address, caller.length, path) : ADDRESS_WRONG;
    int file = found == ADDRESS_PATH ? open_as(caller.process, "cwd", path) : -1;
    struct stat status;
    if (file >= 0 && fstat(file, &status) == 0 && S_ISLNK(status.st_mode))
        abort();
    show("%d %d %d", fault, found, file >= 0);
    close(file);
    close(caller.process);
}

/* The input is the proxy's response to CONNECT and the data after it, which must not be consumed. */
static void show_proxy(const char *content, size_t length)
{
    int ends[2], left = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    length = length < 16384 ? length : 16384;
    if (send(ends[0], content, length, MSG_DONTWAIT) != (ssize_t)length)
        abort();
    shutdown(ends[0], SHUT_WR);
    bool through = is_let_through(ends[1]);
    const char *end = memmem(content, length, "\r\n\r\n", 4);
    if (ioctl(ends[1], FIONREAD, &left) != 0 || (through && left != (int)(length - (size_t)(end + 4 - content))))
        abort();
    show("%d", through);
    close(ends[0]);
    close(ends[1]);
}

static void show_device(const char *content)
{
    uint32_t device = 0;
    bool known = device_in(content, 24, &device);
    show("%d %x", known, device);
}

static void show_files(char letter)
{
    struct run run = {.name = "sandwright-abc", .state = "/nowhere", .lock = 0};
    struct sandbox sandbox = {-1, -1, -1, -1};
    pid_t found[256];
    struct list list;
    switch (letter) {
    case 'c':
        show("%zu", children_of(1, found, 256));
        break;
    case 's':
        show("%d", parent_of(1));
        break;
    case 'n':
        show("%d %d", sandbox_is_first(&sandbox), sandbox_waits(&sandbox, 6));
        break;
    case 'o':
        show("%d", runtime_method.status(&run, 256));
        break;
    case 'l':
        show("%s", holders(&run));
        break;
    case 'd':
        list = parsed(read_file(-1, "", input_length, NULL), input_length);
        show("%zu %zu", list.directories.count, list.files.count / 2);
        break;
    }
}

/* Shows the name that was given an address, and the answer in hex. The same question must not add a name again. */
static void show_names(const char *content, size_t length)
{
    char *patterns[] = {"a.example", "*.b.example", NULL};
    const struct strv listed = {patterns, 2};
    struct strv names = {0};
    unsigned char answer[DNS_MESSAGE];
    size_t first = dns_answer(&listed, &names, (const unsigned char *)content, length, answer), count = names.count;
    size_t made = dns_answer(&listed, &names, (const unsigned char *)content, length, answer);
    if (made != first || names.count != count || count > 1 || made > sizeof answer)
        abort();
    show("%s ", count > 0 ? names.at[0] : "-");
    for (size_t index = 0; index < made; index++)
        show("%02x", answer[index]);
}

static void show_certificates(const char *content, size_t length)
{
    const char *kept = only_certificates(content, length);
    show("%s", kept != NULL ? kept : "");
}

static void show_tunnels(char *content, size_t length)
{
    size_t taken;
    bool fine = feed_tunnels(content, length, &taken);
    show("%d %zu", fine, taken);
}

static void feed(const uint8_t *data, size_t size)
{
    if (size == 0)
        return;
    size_t length = size - 1;
    char *content = malloc(length == 0 ? 1 : length), *ended = calloc(1, size); /* exact sizes: the sanitizer reports reads beyond the end */
    memcpy(content, data + 1, length);
    memcpy(ended, data + 1, length);
    switch (data[0]) {
    case 'p':
        show_plan(content, length);
        break;
    case 'm':
        show_mount_plan(content, length);
        break;
    case 'h':
        show_names(content, length);
        break;
    case 'k':
        show_certificates(content, length);
        break;
    case 'i':
        show_mounts(ended);
        break;
    case 'a':
        show_address(content, length);
        break;
    case 'q':
        show_answer(content, length);
        break;
    case 'f':
        show_filter(content, length);
        break;
    case 't':
        show_connect(content, length);
        break;
    case 'y':
        show_proxy(content, length);
        break;
    case 'r':
        show("%d", feed_recorder(content, length));
        break;
    case 'v':
        show("%d", feed_named((const unsigned char *)content, length));
        break;
    case 'g':
        show_tunnels(content, length);
        break;
    case 'x':
        show("%s", feed_relay(content, length));
        break;
    case 'w':
        show_device(ended);
        break;
    case 'u':
        show("%d", has_signal(ended));
        break;
    default:
        input = (const char *)data + 1;
        input_length = length;
        leave = leave_input;
        if (setjmp(refused) == 0)
            show_files((char)data[0]);
    }
    free(content);
    free(ended);
    for (size_t index = 0; index < held.count; index++)
        free(held.at[index]);
    held.count = 0;
}

#ifdef SHOW
static void print(const char *format, ...)
{
    va_list words;
    char *line;
    va_start(words, format);
    if (vasprintf(&line, format, words) < 0)
        abort();
    va_end(words);
    for (char *each = line; *each != '\0'; each++)
        putchar(*each == '\n' || *each == '\r' ? '?' : *each);
    free(line);
}

int main(void)
{
    unsigned char head[4];
    show = print;
    while (fread(head, 1, sizeof head, stdin) == sizeof head) {
        size_t length = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        uint8_t *data = malloc(length + 1);
        if (data == NULL || fread(data, 1, length, stdin) != length)
            return 2;
        feed(data, length);
        putchar('\n');
        fflush(stdout);
        free(data);
    }
    return 0;
}
#else
static void nowhere(const char *format, ...)
{
    (void)format;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
#ifdef ONLY
    if (size > 0 && data[0] != ONLY)
        return -1; /* it goes into no corpus */
#endif
    show = nowhere;
    feed(data, size);
    return 0;
}
#endif
