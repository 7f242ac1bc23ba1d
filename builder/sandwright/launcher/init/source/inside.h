/* What the parts of the program that runs inside share. */
#ifndef INSIDE_H
#define INSIDE_H

#include "filter.h"

struct program read_filter(int file); /* dies */
_Noreturn void restrict_main(char **words);

#endif
