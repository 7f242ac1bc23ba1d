/* Reads cases from standard input, and prints the results of accounts.h.
 *
 * A case is KIND (u or g) NAME-SIZE NAME UID GID FILE-SIZE and the file; FILE-SIZE -1 means that there is no file.
 * The result has the entry found by name, the entry found by number, and the file with the new numbers. Each file
 * has memory of exactly its size, so that a sanitizer reports reads beyond its end. */

#include "accounts.h"

static void show(bool found, const struct entry *entry, bool user)
{
    if (!found) {
        puts("none");
        return;
    }
    printf("%u %u %zu ", user ? entry->uid : 0, entry->gid, entry->name.size);
    fwrite(entry->name.at, 1, entry->name.size, stdout);
    printf(" %zu ", entry->home.size);
    if (entry->home.size)
        fwrite(entry->home.at, 1, entry->home.size, stdout);
    putchar('\n');
}

int main(void)
{
    char kind;
    unsigned length, uid, gid;
    int size;
    while (scanf(" %c %u", &kind, &length) == 2) {
        char name[64] = "";
        if (length >= sizeof name || getchar() != ' ' || fread(name, 1, length, stdin) != length ||
            scanf(" %u %u %d", &uid, &gid, &size) != 3 || getchar() != '\n')
            return 2;
        struct text file = {size < 0 ? NULL : malloc((size_t)size + (size == 0)), size < 0 ? 0 : (size_t)size};
        if (file.size && fread(file.at, 1, file.size, stdin) != file.size)
            return 2;
        struct entry entry;
        bool user = kind == 'u';
        show(find_name(file, user, name, &entry), &entry, user);
        show(find_number(file, user, user ? uid : gid, &entry), &entry, user);
        struct text made = renumbered(file, user, name, uid, gid);
        printf("%zu\n", made.size);
        fwrite(made.at, 1, made.size, stdout);
        free(made.at);
        free(file.at);
    }
    return 0;
}
