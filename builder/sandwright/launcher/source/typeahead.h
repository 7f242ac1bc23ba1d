#ifndef TYPEAHEAD_H
#define TYPEAHEAD_H

#include <stddef.h>
#include <termios.h>

/* Launcher: notes keys that are passed to the command's terminal. `person`: the settings of the user's
 * terminal. */
void typeahead_add(int master, const struct termios *person, const char *keys, size_t count);

/* Launcher, after the command's last process: gives keys that no program has read back to the user's
 * terminal. The caller restores the settings afterwards. */
void typeahead_return(int master, int terminal, const struct termios *person);

#endif
