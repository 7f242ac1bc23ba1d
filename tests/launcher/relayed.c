/* Feeds vm_relay.c with data of the line to a guest kernel: a separate file of the harness, because its static names
 * also occur in others. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <sys/mman.h>

#include "vm_relay.c"

enum { ON_THE_WAY = 1000 };

static jmp_buf refused;

static _Noreturn void leave_relay(int code)
{
    longjmp(refused, code);
}

static void forget(struct bytes *bytes)
{
    free(bytes->at);
    *bytes = (struct bytes){0};
}

static void check_relay(size_t length)
{
    if (ahead > ON_THE_WAY || on_line > ON_THE_WAY || bytes_held(&outputs[0]) + bytes_held(&outputs[1]) > length ||
        beside.taken > beside.end || bytes_held(&out) > TUNNELS_LINE)
        abort();
}

const char *feed_relay(const char *content, size_t length);

/* Reads until the relay refuses a frame or the line ends. Connections have no destination. */
const char *feed_relay(const char *content, size_t length)
{
    static const char *how;
    void (*before)(int) = leave;
    leave = leave_relay;
    ended = gone = ready = false;
    ahead = on_line = ON_THE_WAY;
    beside = (struct file_beside){.file = -1, .end = 1 << 20};
    out.beside = &beside;
    machine.line = memfd_create("line", MFD_CLOEXEC);
    tunnels = (struct tunnels){.reach = ask_outside};
    if (machine.line < 0 || pwrite(machine.line, content, length, 0) != (ssize_t)length)
        abort();
    how = "refused";
    if (setjmp(refused) == 0) {
        while (!gone && !ended)
            take_line();
        how = ended ? "ended" : ready ? "ready" : "nothing";
    }
    check_relay(length);
    leave = before;
    close(machine.line);
    forget(&in);
    forget(&out);
    forget(&outputs[0]);
    forget(&outputs[1]);
    for (size_t place = 0; place < 2 * TUNNELS_EACH; place++)
        free(tunnels.all[place % 2][place / 2].pending.at);
    return how;
}
