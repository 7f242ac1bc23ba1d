/* Landlock's system calls: creates rulesets, adds rules, and enters them. */
#define _GNU_SOURCE
#include <sys/syscall.h>

#include "landlock.h"
#include "log.h"
#include "utils.h"

/* The system calls' numbers, the same on all architectures. */
enum { CREATE_RULESET = 444, ADD_RULE, RESTRICT_SELF };
enum { QUERY_VERSION = 1, PATH_BENEATH = 1, NET_PORT = 2 };

const char *landlock_lacks(int version)
{
    static const char *const lacks[] = {
        [1] = "it cannot restrict moves between directories", [2] = "it cannot restrict truncation",
        [3] = "it cannot restrict TCP",                     [4] = "it cannot restrict ioctl(2) on devices",
        [5] = "it cannot restrict signals and abstract sockets",
    };
    if (version >= LANDLOCK_NEEDED)
        return NULL;
    if (version == -ENOSYS)
        return "this kernel has no Landlock, or a seccomp filter denies it";
    if (version == -EOPNOTSUPP)
        return "Landlock is off: the kernel's parameter lsm= does not list it";
    if (version <= 0)
        return xasprintf("cannot use Landlock: %s", strerror(-version));
    return xasprintf("this kernel's Landlock has version %d, and %d is needed (Linux 6.12): %s", version, LANDLOCK_NEEDED,
                lacks[version]);
}

int landlock_version(void)
{
    long version = syscall(CREATE_RULESET, NULL, 0, QUERY_VERSION);
    return version < 0 ? -errno : (int)version;
}

int landlock_make(const struct landlock_rules *rules)
{
    int ruleset = (int)syscall(CREATE_RULESET, rules, sizeof *rules, 0);
    if (ruleset < 0)
        die_errno("cannot create a Landlock ruleset");
    return ruleset;
}

void landlock_path(int ruleset, int file, uint64_t rights, const char *path)
{
    struct stat status;
    struct __attribute__((packed)) {
        uint64_t allowed;
        int32_t parent;
    } rule = {rights, file};
    if (fstat(file, &status) == 0 && !S_ISDIR(status.st_mode))
        rule.allowed &= MAY_EXECUTE | MAY_WRITE | MAY_READ | MAY_TRUNCATE | MAY_CONTROL_DEVICE;
    if (syscall(ADD_RULE, ruleset, PATH_BENEATH, &rule, 0) != 0)
        die_errno("cannot add a Landlock rule for %s", *path == '\0' ? "/" : path);
}

void landlock_port(int ruleset, uint64_t right, const char *port)
{
    struct {
        uint64_t allowed, port;
    } rule = {right, strtoul(port, NULL, 10)};
    if (syscall(ADD_RULE, ruleset, NET_PORT, &rule, 0) != 0)
        die_errno("cannot add a Landlock rule for port %s", port);
}

void landlock_enter(int ruleset)
{
    if (syscall(RESTRICT_SELF, ruleset, 0) != 0)
        die_errno("cannot enforce the Landlock ruleset");
    close(ruleset);
}

struct landlock_rules landlock_held(int version)
{
    uint64_t later = (version < 2 ? MAY_REFER : 0) | (version < 3 ? MAY_TRUNCATE : 0) | (version < 5 ? MAY_CONTROL_DEVICE : 0);
    return (struct landlock_rules){ALL_FILES & ~later, version < 4 ? 0 : ALL_PORTS, version < 6 ? 0 : ALL_SCOPES};
}
