/* The method vm, a guest kernel for the command: starts it in bubblewrap's sandbox, or under Landlock
 * (vm_relay.c). */
#define _GNU_SOURCE

#include "broker.h"
#include "launch.h"
#include "line.h"
#include "vm.h"

static void add_said(struct strv *all, enum frame frame, const struct strv *words)
{
    for (size_t index = 0; index < words->count; index++) {
        strv_push(all, xasprintf("%c", frame));
        strv_push(all, words->at[index]);
    }
}

void vm_words(const struct run *run, struct strv *all, const char *stop_word, const char *filter, const char *ways_word,
                      const char *program)
{
    char *proxy[] = {xasprintf("%d", PROXY_PORT)}, *resolver[] = {(char *)run->plan.names.resolver_place};
    char *hosts[] = {(char *)run->plan.names.hosts_place};
    char *const first[] = {(char *)stop_word, (char *)filter, (char *)ways_word, (char *)program, xasprintf("%ld", run->plan.vm.memory),
                           xasprintf("%ld", run->plan.pids), xasprintf("%ld", run->plan.vm.cpus), xasprintf("%ld", run->plan.files),
                           (char *)(run->plan.vm.accelerator != NULL ? run->plan.vm.accelerator : VM_UML)};
    strv_extend(all, &(struct strv){(char **)first, sizeof first / sizeof *first});
    add_said(all, HIDDEN_PATH, &run->plan.vm.hidden);
    add_said(all, READ_ONLY_PATH, &run->plan.vm.readonly);
    add_said(all, LISTEN, &(struct strv){proxy, run->plan.proxy});
    add_said(all, LISTEN, &run->plan.localhost);
    add_said(all, EXPOSED, &run->plan.expose);
    add_said(all, NAME_OF_HOST, &run->plan.names.patterns);
    add_said(all, NAME_PORT, &run->plan.names.ports);
    add_said(all, RESOLVER, &(struct strv){resolver, resolver[0] != NULL});
    add_said(all, HOSTS, &(struct strv){hosts, hosts[0] != NULL});
    strv_push(all, "-");
    for (char **word = run->command; *word != NULL; word++)
        strv_push(all, *word);
}

/* QEMU is started from its own directory, where it finds its libraries and firmware. */
static void bind_machine(struct strv *given, const char *accelerator)
{
    char *const machine[] = {"--ro-bind", getenv("SANDWRIGHT_MACHINE"), QEMU_PLACE};
    char *const device[] = {"--dev-bind", "/dev/kvm", "/dev/kvm"};
    if (machine[1] == NULL || machine[1][0] != '/')
        die("SANDWRIGHT_MACHINE does not name the directory of a machine: `sandwright run` makes one");
    strv_extend(given, &(struct strv){(char **)machine, 3});
    if (strcmp(accelerator, "kvm") == 0)
        strv_extend(given, &(struct strv){(char **)device, 3});
}

const char *vm_guest(const struct run *run)
{
    static const char name[] = "guest";
    size_t length;
    checked_artifact(run, name, &length);
    return xasprintf("%s/%s", run->directory, name);
}

void vm_command(struct run *run, struct strv *given, const char *init, const char *stop_word, const char *filter,
                const char *ways_word)
{
    static const char place[] = "/dev/.sandwright-kernel";
    const char *program = find_program(run, run->plan.vm.kernel);
    struct strv all = {0};
    if (program == NULL)
        die("%s (%s) is not installed", run->plan.vm.kernel, run->plan.vm.accelerator != NULL ? "QEMU" : "User-Mode Linux");
    if (run->plan.vm.accelerator != NULL)
        bind_machine(given, run->plan.vm.accelerator);
    else {
        char *const binds[] = {"--ro-bind", (char *)program, (char *)place, "--ro-bind", (char *)vm_guest(run), (char *)VM_GUEST};
        strv_extend(given, &(struct strv){(char **)binds, 6});
    }
    strv_push(&all, (char *)init);
    vm_words(run, &all, stop_word, filter, ways_word, run->plan.vm.accelerator != NULL ? program : place);
    run->command = all.at;
}
