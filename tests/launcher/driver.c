/* driver [FIELD=VALUE ...] OPERATION ... [-- COMMAND ...]: calls single functions of the launcher.
 *
 * The fields are those of a launch plan, and a few of `struct run`. `wait` prints "up" and reads a line of standard
 * input. `run` starts the command and, at its end, the relays of its output. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

static struct run run = {
    .method = &(const struct method){0}, .lock = -1, .artifacts = -1, .child_handle = -1, .wakes = -1, .document = {.channel = -1, .started = -1}, .requests = -1};

static bool set_field(const char *name, char *value)
{
#define SET_WORD(label, into) if (strcmp(name, label) == 0) return into = value, true;
#define SET_WORDS(label, into) if (strcmp(name, label) == 0) return strv_push(&into, value), true;
#define SET_PAIRS(label, into) SET_WORDS(label, into)
#define SET_NUMBER(label, into) if (strcmp(name, label) == 0) return into = atol(value), true;
#define SET_FLAG(label, into) if (strcmp(name, label) == 0) return into = true, true;
#define FIELD(kind, field) SET_##kind(#field, run.plan.field)
#define IN(section, kind, field) SET_##kind(#section "." #field, run.plan.section.field)
#define SECTION(name)
#define END(name)
#include "fields.h"
    SET_NUMBER("channel", run.document.channel)
    if (strcmp(name, "directory") == 0) {
        run.directory = value;
        run.artifacts = open(value, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return true;
    }
    return false;
}

static void print_words(const struct strv *words)
{
    for (size_t index = 0; index < words->count; index++)
        printf("%s%c", words->at[index], 0);
}

static void run_command(void)
{
    int ended;
    pid_t child = fork();
    if (child == 0) {
        execvp(run.command[0], run.command);
        _exit(127);
    }
    while (waitpid(child, &ended, 0) != child)
        ;
    exit(end_relays(&run, WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended)));
}

/* Prints whether is_helper is true of a running helper, and of an unrelated process that later has the same PID. */
static void number_again(void)
{
    pid_t helper = fork_helper(NULL), other = 0;
    if (helper == 0)
        _exit(pause());
    bool was = is_helper(helper);
    kill(helper, SIGKILL);
    waitpid(helper, NULL, 0);
    usleep(20000); /* start times have a resolution of 10 ms (proc_pid_stat(5)) */
    FILE *last = fopen("/proc/sys/kernel/ns_last_pid", "w");
    if (last == NULL || fprintf(last, "%d", (int)helper - 1) < 0 || fclose(last) != 0)
        exit(4);
    if ((other = fork()) == 0)
        _exit(pause());
    printf("%s %d %d\n", other == helper ? "same" : "another", was, is_helper(other));
    kill(other, SIGKILL);
}

static void call(const char *operation, const char *argument)
{
    char line[16];
#define IS(name) (strcmp(operation, name) == 0)
    if (IS("descriptors"))
        check_descriptors(&run);
    else if (IS("path")) {
        check_path(&run);
        printf("%s\n%s\n", run.path, run.given_path);
    } else if (IS("artifacts"))
        check_artifacts(&run);
    else if (IS("paths"))
        check_paths(&run);
    else if (IS("environment")) {
        choose_environment(&run);
        print_words(&run.passed);
    } else if (IS("find"))
        puts(find_program(&run, argument) == NULL ? "none" : find_program(&run, argument));
    else if (IS("keys"))
        stream_keys(&run);
    else if (IS("relay"))
        relay_streams(&run);
    else if (IS("place"))
        rundir_choose(&run);
    else if (IS("directory")) {
        run.launcher = getppid();
        rundir_make(&run, "bwrap");
        puts(run.state);
    } else if (IS("tree"))
        remove_tree(argument);
    else if (IS("lock"))
        lock_project(&run);
    else if (IS("make"))
        make_placeholders(&run);
    else if (IS("remove"))
        puts(remove_placeholders(&run, argument != NULL) ? "removed" : "others");
    else if (IS("wait")) {
        puts("up");
        fflush(stdout);
        if (fgets(line, sizeof line, stdin) == NULL)
            exit(3);
    } else if (IS("number"))
        number_again();
    else if (IS("run"))
        run_command();
    else {
        fprintf(stderr, "no such operation: %s\n", operation);
        exit(2);
    }
    fflush(stdout);
}

int main(int count, char **words)
{
    run.plan.uid = run.plan.time = -1;
    for (int index = 1; index < count; index++)
        if (strcmp(words[index], "--") == 0) {
            run.command = words + index + 1;
            count = index;
        }
    for (int index = 1; index < count; index++) {
        char *word = strdup(words[index]), *value = strchr(word, '=');
        if (value != NULL)
            *value++ = '\0';
        if (value == NULL || !set_field(word, value))
            call(word, value);
    }
    return 0;
}
