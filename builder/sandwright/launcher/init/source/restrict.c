/* launch-init --restrict RULE ... -- COMMAND ...: for a program of the host that parses data of a sandbox
 * (squid, the bridge's git). It restricts itself before it executes the command, with Landlock and a seccomp
 * filter, which both need no namespace:
 *
 *   account=UID:GID    the account to which root switches
 *   read=, write=, execute=PATH   access to a path and everything below; a missing path is skipped
 *   bind=, connect=PORT           allowed TCP ports, or `none`; without such a rule, all ports
 *   filter=FILE        a BPF filter; of several, the strictest action counts
 *   die-with-parent    the kernel kills the program when its parent has ended
 *
 * If the kernel has an older Landlock, or none, the rest still applies: the filter and no_new_privs in any
 * case.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>

#include "filter.h"
#include "inside.h"
#include "landlock.h"
#include "launch.h"

enum { FILTERS = 2 };

static const char *value_of(const char *rule, const char *name)
{
    size_t length = strlen(name);
    return strncmp(rule, name, length) == 0 && rule[length] == '=' ? rule + length + 1 : NULL;
}

static void change_account(const char *value)
{
    char *rest;
    gid_t group = 0;
    uid_t user = (uid_t)strtoul(value, &rest, 10);
    if (*rest == ':')
        group = (gid_t)strtoul(rest + 1, &rest, 10);
    if (*rest != '\0' || user == 0 || group == 0)
        die("'%s' is not UID:GID", value);
    if (!become_account(user, group, NULL, 0, 0))
        die_errno("cannot change to the user %s", value);
}

static void add_path(int ruleset, uint64_t rights, const char *path)
{
    _cleanup_close_ int file = open(path, O_PATH | O_CLOEXEC);
    if (file >= 0)
        landlock_path(ruleset, file, rights, path);
}

static void add_port(int ruleset, uint64_t right, const char *port)
{
    if (right != 0 && strcmp(port, "none") != 0)
        landlock_port(ruleset, right, port);
}

static void add_rule(int ruleset, const struct landlock_rules *all, const char *rule)
{
    static const struct {
        const char *name;
        uint64_t rights;
    } kinds[] = {{"read", MAY_READ | MAY_LIST},
                 {"execute", MAY_EXECUTE | MAY_READ | MAY_LIST},
                 {"write", ALL_FILES & ~(MAY_EXECUTE | MAY_MAKE_CHARACTER_DEVICE | MAY_MAKE_BLOCK_DEVICE | MAY_CONTROL_DEVICE)}};
    const char *value;
    for (size_t index = 0; index < sizeof kinds / sizeof *kinds; index++)
        if ((value = value_of(rule, kinds[index].name)) != NULL)
            add_path(ruleset, kinds[index].rights & all->files, value);
    if ((value = value_of(rule, "bind")) != NULL)
        add_port(ruleset, all->ports & MAY_BIND, value);
    if ((value = value_of(rule, "connect")) != NULL)
        add_port(ruleset, all->ports & MAY_CONNECT, value);
}

static bool has_rule(char *const *rules, const char *name)
{
    for (; *rules != NULL; rules++)
        if (value_of(*rules, name) != NULL)
            return true;
    return false;
}

static int make_ruleset(char *const *rules)
{
    int version = landlock_version();
    if (version < 1)
        return -1;
    struct landlock_rules all = landlock_held(version);
    if (!has_rule(rules, "bind"))
        all.ports &= ~(uint64_t)MAY_BIND;
    if (!has_rule(rules, "connect"))
        all.ports &= ~(uint64_t)MAY_CONNECT;
    int ruleset = landlock_make(&all);
    for (; *rules != NULL; rules++)
        add_rule(ruleset, &all, *rules);
    return ruleset;
}

static struct program filter_of(const char *path)
{
    _cleanup_close_ int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        die_errno("%s", path);
    return read_filter(file);
}

_Noreturn void restrict_main(char **words)
{
    char **command = words;
    const char *account = NULL, *value;
    struct program filters[FILTERS];
    size_t count = 0;
    pid_t parent = getppid();
    while (*command != NULL && strcmp(*command, "--") != 0)
        command++;
    if (*command == NULL || command[1] == NULL)
        die("give a command to run");
    *command++ = NULL;
    for (char **rule = words; *rule != NULL; rule++) {
        account = (value = value_of(*rule, "account")) != NULL ? value : account;
        if ((value = value_of(*rule, "filter")) == NULL)
            continue;
        if (count == FILTERS)
            die("too many seccomp filters");
        filters[count++] = filter_of(value);
    }
    if (count == 0)
        die("no seccomp filter given");
    int ruleset = make_ruleset(words);
    if (account != NULL)
        change_account(account);
    if (!drop_capabilities())
        die_errno("cannot drop privileges");
    if (ruleset >= 0)
        landlock_enter(ruleset);
    for (char **rule = words; *rule != NULL; rule++) /* after the switch to the account, which clears this */
        if (strcmp(*rule, "die-with-parent") == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
            _exit(NOT_RUN);
    load_filters(filters, count);
    exec_command(command, environ);
}
