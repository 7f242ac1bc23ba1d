/* A guest kernel under Landlock: prepares the relay (vm_relay.c), which runs in the launcher's child, from
 * the run's plans. */
#define _GNU_SOURCE

#include "launch.h"
#include "line.h"
#include "paths.h"
#include "vm.h"
#include "watch.h"

static struct run *here;

static void say_planned(struct bytes *out, enum planned kind, const char *path, const char *seen)
{
    const char *head = xasprintf("%c%s", kind, path);
    size_t length = strlen(head) + 1, all = length + strlen(seen);
    char *content = xcalloc(all + 1);
    strcpy(content, head);
    strcpy(content + length, seen);
    line_say(out, PLANNED, content, all);
}

/* In the plan's order; a link comes after the paths below it. */
static void say_plan(struct bytes *out)
{
    static const enum planned kinds[] = {[MASK_FILE] = PLAN_HIDDEN, [MASK_DIRECTORY] = PLAN_HIDDEN, [READ] = PLAN_READ,
                                         [WRITE] = PLAN_WRITE, [PLACEHOLDER_FILE] = PLAN_READ};
    struct mount_plan plan = watch_plan_checked(here);
    for (size_t index = 0; index < plan.count; index++) {
        const struct record *each = &plan.records[index];
        enum planned kind = each->kind == OWN               ? each->writable ? PLAN_OWN : PLAN_EMPTY
                            : each->kind == PLACEHOLDER_DIRECTORY ? strv_contains(&here->plan.ignored, each->target) ? PLAN_IGNORED : PLAN_PLACEHOLDER
                                                            : kinds[each->kind];
        bool binds = kind == PLAN_READ || kind == PLAN_WRITE;
        if (!vm_is_of_kernel(each->target))
            say_planned(out, kind, each->target, binds ? each->source : "");
    }
    for (size_t index = 0; index + 1 < here->plan.vm.links.count; index += 2)
        say_planned(out, PLAN_LINK, here->plan.vm.links.at[index], here->plan.vm.links.at[index + 1]);
}

_Noreturn void vm_here(struct run *run, const char *stop, int ways, const char *program, const char *own, char *const *variables)
{
    struct strv words = {0};
    struct vm_plan plan = {.directory = run->plan.landlock.start_directory, .hostname = run->plan.vm.hostname,
                           .memory = paths_memory(), .own = own, .say_paths = say_plan};
    here = run;
    plan.filter = checked_artifact(run, "guest.bpf", &plan.filter_length);
    environ = (char **)variables;
    vm_words(run, &words, stop, "-", ways >= 0 ? xasprintf("%d", ways) : "-", program);
    vm_relay(&plan, words.at);
}
