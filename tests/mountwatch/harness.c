/* Feeds the parsers of mount-watch: standard input holds a kind (p, m), a length of four bytes, and as many bytes, again and
 * again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watch.h"

static void read_plan(char *text, size_t length)
{
    struct plan plan;
    const char *fault = plan_parse(text, length, &plan);
    if (fault == NULL)
        printf("%zu\n", plan.count);
    else
        puts(fault);
    for (size_t index = 0; index < plan.count; index++)
        if (plan.records[index].target[0] != '/')
            abort();
    free(plan.records);
}

static void list(char *text)
{
    struct mounts mounts;
    static const char *const paths[] = {"/", "/a", "/a/b", "/a b/c"};
    bool fine = mounts_parse(text, &mounts);
    printf("%d %zu", fine, mounts.count);
    for (size_t index = 0; fine && index < sizeof paths / sizeof *paths; index++)
        printf(" %lu", mounts_at(&mounts, paths[index])->id);
    putchar('\n');
    free(mounts.all);
}

int main(void)
{
    unsigned char head[5];
    while (fread(head, 1, sizeof head, stdin) == sizeof head) {
        size_t length = head[1] | (size_t)head[2] << 8 | (size_t)head[3] << 16 | (size_t)head[4] << 24;
        char *text = malloc(length + (head[0] == 'm'));
        if (text == NULL || fread(text, 1, length, stdin) != length)
            return 2;
        if (head[0] == 'm') {
            text[length] = '\0';
            list(text);
        } else {
            read_plan(text, length);
        }
        free(text);
    }
    return 0;
}
