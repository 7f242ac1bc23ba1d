#ifndef INSIDE_H
#define INSIDE_H

_Noreturn void restrict_main(char **words);

#endif
