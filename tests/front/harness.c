/* Feeds entries to what the front does with an authentic one: 4 bytes of length and as many of an entry, on standard input. Says for
 * each whether it could be read and whether its questions hold. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "launch.h"

void become_python(void)
{
    _exit(3);
}

int main(void)
{
    unsigned char head[4];
    while (fread(head, 1, sizeof head, stdin) == sizeof head) {
        size_t length = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        char *content = malloc(length == 0 ? 1 : length); /* so that what reads beyond it is seen */
        struct entry entry;
        if (fread(content, 1, length, stdin) != length)
            return 2;
        puts(!entry_parse(content, length, &entry) ? "damaged" : questions_hold(&entry.questions) ? "holds" : "differs");
    }
    return 0;
}
