/* Inserts words before the command: the program that runs inside (init/source/main.c), and its arguments. */
#define _GNU_SOURCE
#include <sys/inotify.h>

#include "landlock.h"
#include "launch.h"

void put_before(struct run *run, char *const *words, size_t count)
{
    struct strv command = {0};
    strv_extend(&command, &(struct strv){(char **)words, count});
    strv_push_all(&command, run->command);
    run->command = command.at;
}

/* Behind the first word, which is the program that runs inside. */
void command_insert(struct run *run, char *const *words, size_t count)
{
    char **program = run->command++;
    put_before(run, words, count);
    put_before(run, program, 1);
}

void init_command(struct run *run, const char *program, const char *stop, int requests)
{
    char *const words[] = {(char *)program, "--init", (char *)stop};
    put_before(run, words, sizeof words / sizeof *words);
    if (run->document.requests != NULL && requests >= 0)
        command_insert(run, (char *[]){"--requests", xasprintf("%d", requests)}, 2);
}

void make_gate(struct run *run)
{
    run->gate = xasprintf("%s/gate", run->state);
    if (write_file(AT_FDCWD, run->gate, "", 0, 0644) != 0 || chmod(run->gate, 0644) != 0)
        die_errno("cannot create %s", run->gate);
}

void open_gate(const char *gate)
{
    _cleanup_close_ int file = open(gate, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 || write(file, "\n", 1) != 1)
        warn("cannot write %s (%s), so the command does not start", gate, strerror(errno));
}

const char *stop_word(const struct run *run, const char *stop)
{
    return run->document.started >= 0 ? xasprintf("+%s", stop) : is_reported(run) ? stop : "-";
}

int make_stop_file(const char *path)
{
    int rung = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (write_file(AT_FDCWD, path, "\n", 1, 0444) != 0 || rung < 0 || inotify_add_watch(rung, path, IN_ACCESS) < 0)
        die_errno("cannot detect that the command has stopped");
    return rung;
}

void backstop_command(struct run *run, int descriptor)
{
    struct strv words = {0};
    strv_push(&words, "--backstop");
    strv_push(&words, xasprintf("%d", descriptor));
    strv_extend(&words, &run->plan.backstop.own);
    strv_push(&words, "--");
    command_insert(run, words.at, words.count);
}
