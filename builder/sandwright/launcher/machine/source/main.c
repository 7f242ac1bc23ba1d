/* launch-vm: the first process of bubblewrap's sandbox under the method vm; it starts the guest kernel
 * (vm_relay.c). --confine MODE CHANNEL FILTER comes before its arguments if the supervisor creates links for
 * that kernel (confine.c). launch-vm --snapshot ...: saves a machine for QEMU to restore (qemu.c). */
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
