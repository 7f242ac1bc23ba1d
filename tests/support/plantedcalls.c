/* plantedcalls NUMBER...: makes each system call once, with zero arguments. It is linked statically, so that it runs
 * on any root file system. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words)
{
    for (int index = 1; index < count; index++)
        syscall(atol(words[index]), 0, 0, 0, 0, 0, 0);
    return 0;
}
