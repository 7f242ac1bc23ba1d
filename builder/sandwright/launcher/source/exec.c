/* Executes a command, searched on PATH as by a shell (execvp(3)). Exits with 127 if it isn't found, with 126
 * if it can't be executed, after a message. */
#define _GNU_SOURCE

#include "launch.h"

static bool exec_at(char **command, char *const *environment, const char *path, int *why)
{
    execve(path, command, environment);
    *why = errno;
    if (errno == ENOEXEC) { /* a script without an interpreter line, as in exec*p(3) */
        struct strv script = {0};
        strv_push(&script, "/bin/sh");
        strv_push(&script, (char *)path);
        strv_push_all(&script, command + 1);
        execve(script.at[0], script.at, environment);
    }
    return access(path, F_OK) == 0;
}

static int failures = -1;

static _Noreturn void leave_unexecuted(int status)
{
    (void)!write(failures, "", 1);
    _exit(status);
}

void exec_reports(int file)
{
    failures = file;
    leave = leave_unexecuted;
}

bool exec_succeeded(int file)
{
    char word;
    ssize_t got;
    while ((got = read(file, &word, 1)) < 0 && errno == EINTR)
        ;
    close(file);
    return got == 0;
}

/* A directory that can't be searched counts as empty. */
_Noreturn void exec_command(char **command, char *const *environment)
{
    int why = ENOENT, last = ENOENT;
    bool there = false;
    const char *search = NULL;
    for (char *const *each = environment; *each != NULL; each++)
        if (strncmp(*each, "PATH=", 5) == 0)
            search = *each + 5;
    if (strchr(command[0], '/') != NULL) {
        there = exec_at(command, environment, command[0], &why);
    } else {
        char *rest = xasprintf("%s", search == NULL ? "/usr/local/bin:/usr/bin:/bin" : search), *part;
        while ((part = strsep(&rest, ":")) != NULL)
            if (exec_at(command, environment, xasprintf("%s/%s", *part == '\0' ? "." : part, command[0]), &last)) {
                there = true;
                why = last;
            }
    }
    if (there)
        warn("%s: %s", command[0], strerror(why));
    else
        warn("%s: not found", command[0]);
    leave_unexecuted(there ? 126 : 127);
}
