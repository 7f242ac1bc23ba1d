/* Frames on the line to the guest kernel (line.h). */
#define _GNU_SOURCE
#include <sys/resource.h>

#include "launch.h"
#include "line.h"

bool line_make_beside(struct file_beside *beside, const char *path)
{
    struct rlimit most; /* with a limit, writing beyond it would raise SIGXFSZ */
    if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur != RLIM_INFINITY)
        return false;
    *beside = (struct file_beside){.file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
    return beside->file >= 0 && ftruncate(beside->file, BESIDE_SIZE) == 0;
}

void line_taken_beside(struct file_beside *beside, int32_t length)
{
    if (beside == NULL || length <= 0 || length > beside->end - beside->taken)
        return;
    if (fallocate(beside->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, beside->taken, length) != 0)
        beside->full = true;
    beside->taken += length;
}

static bool put_beside(struct file_beside *beside, enum frame frame, const void *content, size_t length, struct beside *said)
{
    *said = (struct beside){beside->end, (int32_t)length, (int32_t)frame};
    int64_t next = beside->end + (int64_t)((length + BESIDE_PAGE - 1) / BESIDE_PAGE * BESIDE_PAGE);
    if (beside->full || next > BESIDE_SIZE || pwrite(beside->file, content, length, beside->end) != (ssize_t)length)
        return false;
    beside->end = next;
    return true;
}

void line_say(struct bytes *out, enum frame frame, const void *content, size_t length)
{
    struct beside said;
    if (out->beside != NULL && length > LEAST_BESIDE && put_beside(out->beside, frame, content, length, &said)) {
        frame = BESIDE;
        content = &said;
        length = sizeof said;
    }
    unsigned char head[HEAD] = {(unsigned char)frame};
    for (int index = 1; index < HEAD; index++)
        head[index] = (unsigned char)(length >> 8 * (index - 1));
    bytes_add(out, head, sizeof head);
    bytes_add(out, content, length);
}

void line_number(struct bytes *out, enum frame frame, int32_t number)
{
    line_say(out, frame, &number, sizeof number);
}

int line_next(struct bytes *in, enum frame *frame, unsigned char **content, size_t *length)
{
    if (bytes_held(in) < HEAD)
        return 0;
    const unsigned char *head = in->at + in->begin;
    *length = 0;
    for (int index = 1; index < HEAD; index++)
        *length |= (size_t)head[index] << 8 * (index - 1);
    if (*length > MOST_FRAME)
        return -1;
    if (bytes_held(in) < HEAD + *length)
        return 0;
    *frame = (enum frame)head[0];
    *content = in->at + in->begin + HEAD;
    in->begin += HEAD + *length;
    return 1;
}

int32_t line_take_number(const unsigned char *content, size_t length)
{
    int32_t number = 0;
    if (length == sizeof number)
        memcpy(&number, content, sizeof number);
    return number;
}
