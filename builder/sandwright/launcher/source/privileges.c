/* Drops privileges: capabilities(7), no_new_privs, and a switch to the command's account. */
#define _GNU_SOURCE
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "launch.h"

bool keep_capabilities(uint64_t kept)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {{.effective = (uint32_t)kept, .permitted = (uint32_t)kept},
                                             {.effective = (uint32_t)(kept >> 32), .permitted = (uint32_t)(kept >> 32)}};
    return syscall(SYS_capset, &header, sets) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* Only root can empty the bounding set; for others, no_new_privs keeps programs from gaining capabilities. */
bool drop_capabilities(void)
{
    for (int number = 0; prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; number++)
        if (prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0 && errno != EPERM)
            return false;
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 && keep_capabilities(0);
}

uint64_t effective_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {{0}};
    return syscall(SYS_capget, &header, sets) != 0 ? 0 : (uint64_t)sets[1].effective << 32 | sets[0].effective;
}

bool become_account(uid_t user, gid_t group, const gid_t *groups, size_t count, uint64_t kept)
{
    for (int number = 0; prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; number++)
        if ((kept >> number & 1) == 0 && prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0)
            return false;
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 && setgroups(count, groups) == 0 &&
           setresgid(group, group, group) == 0 && setresuid(user, user, user) == 0 && keep_capabilities(kept);
}
