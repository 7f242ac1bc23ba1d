/* Simulates a compromised User-Mode Linux kernel: asks over the line for connections to PORTS, and prints the result of
 * each. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 3, HEAD = 5, READY = 'R', RECEIVED = 'L', CARRY = '3', CARRIED = '4', CLOSED = '6' };

static const int32_t ports[] = {PORTS};
enum { COUNT = sizeof ports / sizeof *ports };

static void send_frame(unsigned char frame, const void *content, uint32_t length)
{
    unsigned char all[64] = {frame};
    memcpy(all + 1, &length, sizeof length);
    memcpy(all + HEAD, content, length);
    if (write(LINE, all, HEAD + length) != (ssize_t)(HEAD + length))
        _exit(1);
}

static void receive(void *content, size_t length)
{
    for (size_t got = 0; got < length;) {
        ssize_t more = read(LINE, (char *)content + got, length - got);
        if (more <= 0)
            _exit(1);
        got += (size_t)more;
    }
}

int main(void)
{
    static unsigned char content[1 << 21];
    int told[COUNT] = {0}, count = 0;
    send_frame(READY, "", 0);
    for (int index = 0; index < COUNT; index++)
        send_frame(CARRY, (int32_t[]){2 * index + 1, ports[index]}, 2 * sizeof(int32_t));
    while (count < COUNT) {
        unsigned char head[HEAD];
        uint32_t length;
        int32_t number;
        receive(head, sizeof head);
        memcpy(&length, head + 1, sizeof length);
        receive(content, length);
        send_frame(RECEIVED, (int32_t[]){(int32_t)(HEAD + length)}, sizeof(int32_t));
        memcpy(&number, content, sizeof number);
        if (*head != CLOSED && (*head != CARRIED || length == sizeof number))
            continue;
        if (told[number / 2]++ > 0)
            continue;
        printf("%d=%s ", ports[number / 2], *head == CARRIED ? "reached" : "closed");
        count++;
        if (*head == CARRIED)
            send_frame(CLOSED, &number, sizeof number);
    }
    printf("\n");
}
