/* launch-vm: the first process of bubblewrap's sandbox for method vm, which starts the guest kernel (vm_relay.c).
 * --confine MODE CHANNEL FILTER comes before its words where the supervisor makes the links of that kernel (confine.c).
 * launch-vm --snapshot ...: a machine that QEMU restores from then on (qemu.c). */
#define _GNU_SOURCE
#include <string.h>

#include "filter.h"
#include "vm.h"

int main(int count, char **words)
{
    if (count > 1 && strcmp(words[1], "--snapshot") == 0)
        snapshot_main(words + 2);
    words += count > 0;
    if (*words != NULL && strcmp(*words, "--confine") == 0)
        words = confine_enter(words + 1);
    vm_relay(NULL, words);
}
