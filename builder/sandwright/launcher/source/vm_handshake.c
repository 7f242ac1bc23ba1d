/* The settings of a run, sent to the guest's first process (guest.c) before the command: user, limits,
 * terminal, filter, mounts. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/capability.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "launch.h"
#include "line.h"
#include "vm.h"
#include "watch.h"

extern char **environ;

enum { MOST_GROUPS = 1 << 16 };

static struct bytes *out;
static const struct vm_plan *here;

static void say_word(enum frame frame, const char *word)
{
    line_say(out, frame, word, strlen(word));
}

static void say_identity(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    static gid_t groups[MOST_GROUPS];
    int count = getgroups(MOST_GROUPS, groups);
    /* Clears the relay's umask: the guest applies its own, and files of the host must not get both. */
    mode_t mask = umask(0);
    if (syscall(SYS_capget, &header, data) != 0)
        die_errno("cannot read the sandbox's capabilities");
    struct identity own = {(int32_t)getuid(), (int32_t)getgid(), {data[0].effective, data[1].effective}, (int32_t)mask};
    line_say(out, IDENTITY, &own, sizeof own);
    for (int index = 0; index < count; index++)
        line_number(out, GROUP, (int32_t)groups[index]);
}

static void say_limits(const char *processes, const char *processors, const char *files)
{
    struct rlimit own;
    if (getrlimit(RLIMIT_NOFILE, &own) != 0)
        die_errno("cannot read limits");
    long most = strtol(files, NULL, 10);
    int32_t both[2] = {(int32_t)(own.rlim_cur > INT_MAX ? INT_MAX : own.rlim_cur),
                       (int32_t)(own.rlim_max > INT_MAX ? INT_MAX : own.rlim_max)};
    if (most >= 0)
        both[0] = both[1] = (int32_t)(most > INT_MAX ? INT_MAX : most);
    line_say(out, LIMIT_FILES, both, sizeof both);
    if (strtol(processes, NULL, 10) >= 0)
        line_number(out, LIMIT_PROCESSES, (int32_t)strtol(processes, NULL, 10));
    if (strtol(processors, NULL, 10) >= 0)
        line_number(out, LIMIT_PROCESSORS, (int32_t)strtol(processors, NULL, 10));
    /* The kernel's process opens a file of the host for each one that is open inside. */
    own.rlim_cur = own.rlim_max;
    setrlimit(RLIMIT_NOFILE, &own);
}

static bool say_terminal(bool terminal)
{
    struct terminal_of own = {.errors = isatty(2)};
    struct stat output, errors;
    bool one_output = fstat(1, &output) == 0 && fstat(2, &errors) == 0 && output.st_dev == errors.st_dev &&
                 output.st_ino == errors.st_ino && !isatty(1);
    if (one_output)
        line_say(out, ONE_OUTPUT, NULL, 0);
    if (!terminal)
        return one_output;
    if (tcgetattr(0, &own.modes) != 0 || ioctl(0, TIOCGWINSZ, &own.size) != 0)
        die_errno("cannot read the settings of the terminal");
    line_say(out, TERMINAL, &own, sizeof own);
    cfmakeraw(&own.modes);
    if (tcsetattr(0, TCSANOW, &own.modes) != 0)
        die_errno("cannot change the settings of the terminal");
    return one_output;
}

static void say_filter(const char *word)
{
    int file = atoi(word);
    struct stat size;
    if (here != NULL) {
        line_say(out, FILTER_OF_CALLS, here->filter, here->filter_length);
        return;
    }
    if (fstat(file, &size) != 0)
        die_errno("cannot read the seccomp filter");
    char *content = xcalloc((size_t)size.st_size);
    if (pread(file, content, (size_t)size.st_size, 0) != size.st_size)
        die_errno("cannot read the seccomp filter");
    line_say(out, FILTER_OF_CALLS, content, (size_t)size.st_size);
    close(file);
}

static char **say_given(char **word)
{
    for (; word[0] != NULL && word[1] != NULL && strcmp(word[0], "-") != 0; word += 2)
        say_word((enum frame)word[0][0], word[1]);
    if (*word == NULL)
        die("give a command to run");
    return word + 1;
}

bool vm_is_of_kernel(const char *path)
{
    static const char *const own[] = {"/dev", "/proc", "/sys"};
    for (size_t index = 0; index < sizeof own / sizeof *own; index++) {
        size_t length = strlen(own[index]);
        if (strncmp(path, own[index], length) == 0 && (path[length] == '\0' || path[length] == '/'))
            return true;
    }
    return false;
}

/* In the order of mountinfo: parents first. */
static void say_mounts(void)
{
    char *content = read_file(AT_FDCWD, "/proc/self/mountinfo", 1 << 24, NULL), *each;
    struct mount mount;
    if (content == NULL)
        die_errno("/proc/self/mountinfo");
    while ((each = strsep(&content, "\n")) != NULL && *each != '\0') {
        if (!mount_parse(each, &mount))
            die("cannot parse /proc/self/mountinfo");
        if (!vm_is_of_kernel(mount.point))
            say_word(MOUNT_POINT, xasprintf("%c%s", mount.readonly ? 'r' : 'w', mount.point));
    }
}

bool vm_handshake(struct bytes *to, const struct vm_plan *plan, bool terminal, char **words)
{
    char random[64], name[256] = "";
    out = to;
    here = plan;
    const char *directory = here != NULL ? here->directory : getcwd(NULL, 0);
    if (here != NULL && here->hostname != NULL)
        strncpy(name, here->hostname, sizeof name - 1);
    else if (gethostname(name, sizeof name - 1) != 0)
        die_errno("cannot describe the sandbox");
    if (getrandom(random, sizeof random, 0) != sizeof random || directory == NULL)
        die_errno("cannot describe the sandbox");
    line_say(out, ENTROPY, random, sizeof random);
    say_word(HOST_NAME, name);
    say_word(DIRECTORY, directory);
    say_identity();
    say_filter(words[1]);
    say_limits(words[5], words[6], words[7]);
    bool one_output = say_terminal(terminal);
    if (here != NULL)
        here->say_paths(out);
    else
        say_mounts();
    for (char **each = environ; *each != NULL; each++)
        say_word(VARIABLE, *each);
    for (words = say_given(words + 9); *words != NULL; words++)
        say_word(WORD_OF_COMMAND, *words);
    line_say(out, BEGIN, NULL, 0);
    return one_output;
}
