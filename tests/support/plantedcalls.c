/* planted NUMBER...: makes each call once, without arguments that mean anything. Static, so that it runs on any root. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words)
{
    for (int index = 1; index < count; index++)
        syscall(atol(words[index]), 0, 0, 0, 0, 0, 0);
    return 0;
}
