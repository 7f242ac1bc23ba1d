/* The recorder's memory (recorded.c). */
#ifndef RECORDED_H
#define RECORDED_H

#include <stdbool.h>
#include <stddef.h>

#include "record.h"

enum kind { READ = 1, WRITE = 2, CREATE = 4, EXEC = 8, LIST = 16, LOOK = 32, REMOVE = 64 };
enum found { ABSENT, A_FILE, A_DIRECTORY, A_LINK, ANOTHER };
enum { CALL = 1, CONNECT, SEND, LISTEN, UNRESOLVED }; /* entries without a path */

bool recorded_path_known(const char *path, unsigned asked);
/* `asked`: all accesses that programs asked for at the absolute path `path`. `kinds`: the accesses that this
 * meant for the file `real`, to which the path led. */
void recorded_path(const char *path, const char *real, enum found found, unsigned asked, unsigned kinds);
void recorded_other(int what, unsigned number, const void *address, size_t length);

#endif
