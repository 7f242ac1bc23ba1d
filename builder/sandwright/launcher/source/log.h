/* Messages on standard error begin with "sandbox: "; other than printable ASCII is shown as ?. The exit statuses of the
 * launcher itself: 124 when the time limit ended the run, 125 when no command was started, 137 when the sandbox was
 * killed. The others are the command's: 128 + n when signal n ended it (utils.c, `exit_status`), 126 and 127 (exec.c). */
#ifndef LOG_H
#define LOG_H

enum { TIME_UP = 124, NOT_RUN = 125, KILLED = 137 }; /* exit statuses that are ours */

void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void warn_again(int words); /* what another process has said to a file, which is closed */
/* Says it and leaves with 125: in the launcher by exit, in the monitor after it has cleaned up, in a child by _exit. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void die_errno(const char *format, ...) __attribute__((format(printf, 1, 2))); /* with strerror(errno) */
extern void (*leave)(int status); /* never returns */

#endif
