/* Reads the content of frames from the file beside the line (line.h). */
#define _GNU_SOURCE

#include "guest.h"
#include "launch.h"

static int file = -1;

void guest_beside(const char *path)
{
    int found = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    file = fcntl(found, F_DUPFD_CLOEXEC, 10);
    close(found);
    /* No read-ahead: the next page may not be written yet. */
    if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM) != 0)
        guest_end();
}

unsigned char *guest_read_beside(const struct beside *said)
{
    static unsigned char *content;
    static size_t room;
    size_t length = (size_t)said->length;
    if (said->length < 0 || length > MOST_FRAME)
        guest_refuse("a message of the host has a wrong length");
    if (length > room && (content = realloc(content, room = length)) == NULL)
        guest_refuse("out of memory");
    for (size_t done = 0; done < length;) {
        ssize_t got = pread(file, content + done, length - done, said->at + (off_t)done);
        if (got <= 0)
            guest_refuse("cannot read a message of the host");
        done += (size_t)got;
    }
    posix_fadvise(file, said->at, said->length, POSIX_FADV_DONTNEED);
    return content;
}
