/* The line between the guest and the relay outside: frames, in both directions (vm.c, guest.c).
 *
 * A frame is a byte with its kind, the length of its content in four bytes, the lowest first, and the
 * content. Both ends are built of these sources, for one processor, so a number is an `int32_t` as it lies
 * in memory. */
#ifndef LINE_H
#define LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "bytes.h"

enum frame {
    /* To the guest; these are said once, before BEGIN. */
    WORD_OF_COMMAND = 'c',
    VARIABLE = 'v',
    DIRECTORY = 'd', /* in which the command begins */
    IDENTITY = 'u',  /* struct identity */
    GROUP = 'g',     /* a number */
    HOST_NAME = 'n',
    FILTER_OF_CALLS = 'f',
    LIMIT_FILES = 'l',     /* two numbers: soft and hard */
    LIMIT_PROCESSES = 'p', /* a number */
    LIMIT_PROCESSORS = 'k', /* a number: thousandths of one */
    MOUNT_POINT = 'm', /* r, read-only, or w, and its path */
    PLANNED = 'y', /* enum planned, a path with NUL, and its source */
    HIDDEN_PATH = 'h',
    READ_ONLY_PATH = 'r',
    ENTROPY = 'x',
    CLOCK = 'a',     /* two of eight bytes: seconds, and nanoseconds */
    TERMINAL = 't', /* struct terminal_of */
    BESIDE = 'B', /* struct beside: another frame, what follows of which lies in a file beside the line */
    CLOSED = 'q', /* a number: that output (0, errors: 1) has no reader any more */
    ONE_OUTPUT = '2', /* standard error is what standard output is */
    LISTEN = 'o', /* a port, in digits, as what follows has them: it leads to the same outside */
    EXPOSED = 'e', /* a port to which connections may come from outside */
    NAME_OF_HOST = '7', /* that is resolved inside, */
    NAME_PORT = 'j',    /* on these ports led through the proxy, */
    RESOLVER = '9',     /* and what lies over this file says so, */
    HOSTS = '8',        /* as over this, which knows none of them */
    BEGIN = 'b',
    /* To the guest, after it. */
    INPUT = 'i', /* nothing: it has ended */
    SIGNAL = 's', /* a number */
    SIZE = 'w', /* struct winsize */
    /* From both ends, after BEGIN (tunnels.c). A number stands first. */
    CARRY = '3',         /* a connection begins, to the port that follows */
    CARRIED = '4',       /* bytes of it; none: that direction has ended */
    CARRIED_TAKEN = '5', /* so many of them */
    CARRIED_CLOSE = '6',
    /* From the guest. */
    READY = 'R', /* the first: nothing is sent before */
    OUTPUT = 'O',
    ERRORS = 'E',
    RECEIVED = 'L', /* a number: bytes that were read from the line */
    TAKEN = 'A',   /* a number: bytes of the input that the command has, or its pipe */
    BESIDE_TAKEN = 'K', /* a number: bytes of that file that were read, whole pages */
    HALTED = 'Z',  /* the command has stopped */
    EXECUTED_COMMAND = 'z', /* it was executed */
    REFUSED = 'M', /* nothing was run, and why */
    ENDED = 'X',   /* a number: the exit status. All that was written has been said, and is with the host */
};

/* Bytes: of input on the way; of a frame; of its head; on the way to the guest, whose driver (User-Mode Linux 6.1) loses its turn
 * when more waits than a terminal holds, 4095. */
enum { INPUT_AHEAD = 1 << 16, MOST_FRAME = 1 << 21, HEAD = 5, LINE_AHEAD = 3584 };

/* What lies where in a root that is made inside: directories and files of the host, and the sandbox's private ones. */
enum planned {
    PLAN_READ = 'r',
    PLAN_WRITE = 'w',
    PLAN_HIDDEN = 'h',
    PLAN_OWN = 'o',
    PLAN_EMPTY = 'e',
    PLAN_PLACEHOLDER = 'c',
    PLAN_IGNORED = 'i', /* a placeholder that Git ignores */
    PLAN_LINK = 'l',
};

struct identity {
    int32_t user, group;
    uint32_t capabilities[2]; /* the lower half first */
    int32_t mask;             /* of modes of new files */
};

struct terminal_of {
    struct termios modes;
    struct winsize size;
    int32_t errors; /* standard error is the terminal, too */
};

/* The driver of User-Mode Linux reads the line byte by byte, with a call of the host's for each. So what is longer than LEAST_BESIDE is
 * written to a file that the guest has open too, page behind page, so that no page is read before it is written, and none is
 * written twice: what a kernel has read once of a file it may keep. Pages that were read are given back (line_taken_beside). */
enum { LEAST_BESIDE = 256, BESIDE_PAGE = 4096 };
#define BESIDE_SIZE ((int64_t)1 << 43) /* ext4 has no larger ones */

struct beside {
    int64_t at;
    int32_t length, frame;
};

struct file_beside {
    int file;
    int64_t end, taken;
    bool full; /* pages can't be given back: nothing more is put there */
};

void line_say(struct bytes *out, enum frame frame, const void *content, size_t length);
void line_number(struct bytes *out, enum frame frame, int32_t number);
/* The next whole frame, which stays until more is read: 1; 0: there is none yet; -1: it is longer than any. */
int line_next(struct bytes *in, enum frame *frame, unsigned char **content, size_t *length);
/* A new file at a path: false where it can't be created. Then the number of bytes that the guest has read. */
bool line_make_beside(struct file_beside *beside, const char *path);
void line_taken_beside(struct file_beside *beside, int32_t length);
int32_t line_take_number(const unsigned char *content, size_t length);

#endif
