/* Feeds the launcher's parsers: standard input holds a kind, a length of four bytes, and as many bytes, again and again.
 * A line for each is printed. Built with sanitizers, which end it at the first wrong access. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

static void show_plan(char *content, size_t length)
{
    struct plan plan;
    const char *fault = plan_parse(content, length, &plan);
    if (fault != NULL) {
        puts(fault);
        return;
    }
    fputs("right:", stdout);
#define WORD(name) if (plan.name != NULL) printf(" " #name "=%s", plan.name);
#define WORDS(name) for (size_t index = 0; index < plan.name.count; index++) printf(" " #name "=%s", plan.name.at[index]);
#define PAIRS(name) WORDS(name)
#define NUMBER(name) if (plan.name >= 0) printf(" " #name "=%ld", plan.name);
#define FLAG(name) if (plan.name) printf(" " #name);
#include "fields.h"
    putchar('\n');
}

int main(void)
{
    unsigned char head[5];
    while (fread(head, 1, sizeof head, stdin) == sizeof head) {
        size_t length = head[1] | (size_t)head[2] << 8 | (size_t)head[3] << 16 | (size_t)head[4] << 24;
        char *content = malloc(length == 0 ? 1 : length);
        if (content == NULL || fread(content, 1, length, stdin) != length)
            return 2;
        show_plan(content, length);
        fflush(stdout);
    }
    return 0;
}
