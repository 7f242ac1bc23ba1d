/* Whatever goes wrong, Python does it. */
#ifndef LOG_H
#define LOG_H

_Noreturn void become_python(void); /* start.c */
#define die(...) become_python()
#define die_errno(...) become_python()

#endif
