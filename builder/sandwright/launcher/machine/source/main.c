/* launch-vm: the first process of bubblewrap's sandbox for method vm, which starts a kernel of the command's own (vm_relay.c).
 * launch-vm --snapshot ...: a machine that QEMU restores from then on (qemu.c). */
#define _GNU_SOURCE
#include <string.h>

#include "vm.h"

int main(int count, char **words)
{
    if (count > 1 && strcmp(words[1], "--snapshot") == 0)
        snapshot_main(words + 2);
    vm_relay(NULL, words + (count > 0));
}
