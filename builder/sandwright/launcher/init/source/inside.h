/* Declarations that the parts of launch-init, the program that runs inside, share. */
#ifndef INSIDE_H
#define INSIDE_H

_Noreturn void restrict_main(char **words);

#endif
