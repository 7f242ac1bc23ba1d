/* Feeds tunnels.c with frames of the line to a guest kernel: a separate file of the harness, because names of line.h
 * also occur in others. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tunnels.h"

static const char said[100];
static int far_ends[2 * TUNNELS_EACH + 1], far_count, asked;

/* The port's remainder modulo 3 decides: 0 connects to a peer that has sent data, 1 fails, 2 answers later. */
static int reach_any(int32_t number, unsigned short port)
{
    int ends[2];
    asked = port % 3 == 2 ? number : asked;
    if (port % 3 != 0 || far_count == 2 * TUNNELS_EACH)
        return port % 3 == 2 ? TUNNEL_ASKED : -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0 || send(ends[1], said, sizeof said, 0) < 0)
        abort();
    far_ends[far_count++] = ends[1];
    return ends[0];
}

static void check_tunnels(const struct tunnels *tunnels, const struct bytes *out, size_t before)
{
    for (size_t place = 0; place < 2 * TUNNELS_EACH; place++) {
        const struct tunnel *each = &tunnels->all[place % 2][place / 2];
        if (bytes_held(&each->pending) + each->owed > TUNNEL_AHEAD || each->ahead > TUNNEL_AHEAD || (!each->there && each->end > 0))
            abort();
    }
    if (bytes_held(out) > before && bytes_held(out) > 3 * TUNNELS_LINE)
        abort();
}

bool feed_tunnels(char *content, size_t length, size_t *taken);

/* The first byte selects the inner or outer end of the line, and frames follow. The output is not read. Sets `taken` to
 * the number of accepted frames. */
bool feed_tunnels(char *content, size_t length, size_t *taken)
{
    static struct tunnels tunnels;
    struct pollfd each[TUNNELS_WAITS];
    struct bytes in = {0}, out = {0};
    unsigned char *frame;
    enum frame kind;
    size_t size, before;
    bool fine = true;
    tunnels = (struct tunnels){.inside = length > 0 && content[0] == 1, .reach = reach_any};
    asked = -1;
    *taken = 0;
    bytes_add(&in, content + (length > 0), length > 0 ? length - 1 : 0);
    while (fine && line_next(&in, &kind, &frame, &size) > 0) {
        fine = tunnels_take(&tunnels, kind, frame, size);
        *taken += fine;
        before = bytes_held(&out);
        poll(each, tunnels_wait(&tunnels, &out, each), 0);
        tunnels_turn(&tunnels, each, &out);
        if (*taken % 3 == 0 && asked >= 0)
            tunnels_reached(&tunnels, asked, -1);
        check_tunnels(&tunnels, &out, before);
    }
    for (size_t place = 0; place < 2 * TUNNELS_EACH; place++) {
        struct tunnel *one = &tunnels.all[place % 2][place / 2];
        if (one->there && one->end >= 0)
            close(one->end);
        free(one->pending.at);
    }
    while (far_count > 0)
        close(far_ends[--far_count]);
    free(in.at);
    free(out.at);
    return fine;
}
