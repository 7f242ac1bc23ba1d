#ifndef TYPEAHEAD_H
#define TYPEAHEAD_H

#include <stddef.h>
#include <termios.h>

/* Launcher: keys that go to the command's terminal. `person` is how the person's terminal is set. */
void typeahead_add(int master, const struct termios *person, const char *keys, size_t count);

/* Launcher, after the command's last process: pushes back what was not read. The caller sets the terminal again. */
void typeahead_return(int master, int terminal, const struct termios *person);

#endif
