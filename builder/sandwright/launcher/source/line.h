/* The line: a serial connection between the guest and the relay on the host, with frames in both directions
 * (vm.c, guest.c).
 *
 * A frame is one byte for its kind, four bytes for the length of its content (little-endian), and the
 * content. Both ends are built from these sources for one processor, so a number is an `int32_t` as it is
 * stored in memory.
 */
#ifndef LINE_H
#define LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "bytes.h"

enum frame {
    /* To the guest, once each, before BEGIN. */
    WORD_OF_COMMAND = 'c',
    VARIABLE = 'v',
    DIRECTORY = 'd', /* in which the command starts */
    IDENTITY = 'u',  /* struct identity */
    GROUP = 'g',     /* a number */
    HOST_NAME = 'n',
    FILTER_OF_CALLS = 'f',
    LIMIT_FILES = 'l',     /* two numbers: soft and hard */
    LIMIT_PROCESSES = 'p', /* a number */
    LIMIT_PROCESSORS = 'k', /* a number: thousandths of a processor */
    MOUNT_POINT = 'm', /* `r` (read-only) or `w`, and the path */
    PLANNED = 'y', /* enum planned, a path with NUL, and its source */
    HIDDEN_PATH = 'h',
    READ_ONLY_PATH = 'r',
    ENTROPY = 'x',
    CLOCK = 'a',     /* two numbers of eight bytes: seconds and nanoseconds */
    TERMINAL = 't', /* struct terminal_of */
    BESIDE = 'B', /* struct beside: a frame whose content is in the file beside the line */
    CLOSED = 'q', /* a number: this output (0, standard error: 1) has no reader any more */
    ONE_OUTPUT = '2', /* standard output and standard error are the same file */
    /* A port in digits, as in the following kinds: the guest forwards it to the same port outside. */
    LISTEN = 'o',
    EXPOSED = 'e', /* a port to which connections from outside may be forwarded */
    NAME_OF_HOST = '7', /* a pattern of host names that are resolved inside */
    NAME_PORT = 'j',    /* a port on which connections to these hosts go through the proxy */
    RESOLVER = '9',     /* the guest's resolv.conf, which names the resolver, is mounted over this file */
    HOSTS = '8',        /* the guest's hosts file, without any of these hosts, is mounted over this file */
    BEGIN = 'b',
    /* To the guest, after BEGIN. */
    INPUT = 'i', /* empty: end of the input */
    SIGNAL = 's', /* a number */
    SIZE = 'w', /* struct winsize */
    /* From both ends, after BEGIN (tunnels.c). The content starts with the tunnel's number. */
    CARRY = '3',         /* opens a connection to the port that follows */
    CARRIED = '4',       /* data; empty: end of this direction */
    CARRIED_TAKEN = '5', /* how many bytes of the data were taken */
    CARRIED_CLOSE = '6',
    /* From the guest. */
    READY = 'R', /* the first frame: the relay sends nothing before it */
    OUTPUT = 'O',
    ERRORS = 'E',
    RECEIVED = 'L', /* a number: bytes that were read from the line */
    TAKEN = 'A',   /* a number: bytes of the input that the command's pipe or terminal has accepted */
    BESIDE_TAKEN = 'K', /* a number: bytes that were read from the file beside the line, in whole pages */
    HALTED = 'Z',  /* the command has stopped */
    EXECUTED_COMMAND = 'z', /* the command was executed */
    REFUSED = 'M', /* the command was not run, and the reason */
    ENDED = 'X',   /* a number: the exit status, after all output was sent and the host has received it */
};

/* Limits in bytes: input that the guest has not taken; a frame; the head of a frame; bytes on the way to the
 * guest. The guest's driver (User-Mode Linux 6.1) stops reading for a while if more bytes wait than its
 * terminal can hold, 4095. */
enum { INPUT_AHEAD = 1 << 16, MOST_FRAME = 1 << 21, HEAD = 5, LINE_AHEAD = 3584 };

/* The objects of a root that is created inside: directories and files of the host, and private ones of the
 * sandbox. */
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
    int32_t mask;             /* umask */
};

struct terminal_of {
    struct termios modes;
    struct winsize size;
    int32_t errors; /* standard error is the terminal, too */
};

/* User-Mode Linux's driver reads the line byte by byte, with one system call of the host for each byte.
 * Longer content is therefore written to a file that the guest has also opened. It is appended in whole
 * pages: the guest's kernel may cache a page once it has read it, so no page is read before it is written,
 * and no page is written twice. Pages that were read are freed (line_taken_beside). */
enum { LEAST_BESIDE = 256, BESIDE_PAGE = 4096 };
#define BESIDE_SIZE ((int64_t)1 << 43) /* the largest file of ext4 */

struct beside {
    int64_t at;
    int32_t length, frame;
};

struct file_beside {
    int file;
    int64_t end, taken;
    bool full; /* pages can't be freed, so nothing more is written to the file */
};

void line_say(struct bytes *out, enum frame frame, const void *content, size_t length);
void line_number(struct bytes *out, enum frame frame, int32_t number);
/* The next complete frame, valid until more is read: 1. 0: not complete yet; -1: longer than MOST_FRAME. */
int line_next(struct bytes *in, enum frame *frame, unsigned char **content, size_t *length);
/* Creates a file at a path; false on failure. line_taken_beside gets the number of bytes that the guest has
 * read. */
bool line_make_beside(struct file_beside *beside, const char *path);
void line_taken_beside(struct file_beside *beside, int32_t length);
int32_t line_take_number(const unsigned char *content, size_t length);

#endif
