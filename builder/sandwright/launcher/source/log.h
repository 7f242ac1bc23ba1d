/* Messages on standard error begin with "sandbox: "; other than printable ASCII is shown as ?. */
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
