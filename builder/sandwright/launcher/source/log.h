/* Messages on standard error begin with "sandbox: ". Characters other than printable ASCII are shown as `?`.
 *
 * The launcher has three exit statuses of its own: 124 if the time limit ended the run, 125 if no command was
 * started, 137 if the sandbox was killed. All others come from the command: 128 + n if signal n ended it
 * (utils.c, `exit_status`), 126 and 127 (exec.c).
 */
#ifndef LOG_H
#define LOG_H

enum { TIME_UP = 124, NOT_RUN = 125, KILLED = 137 }; /* the launcher's own exit statuses */

void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the messages that another process has written to this file, and closes it. */
void warn_again(int words);
/* Prints the message and ends with 125: the launcher with exit, the monitor after it has cleaned up, a child
 * with _exit. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Appends strerror(errno). */
_Noreturn void die_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern void (*leave)(int status); /* does not return */

#endif
