/* Mounts /dev/null and five other devices of the host read-only over themselves, before root starts
 * bubblewrap, runc or crun. These mount the devices again inside, where no program can then change a device's
 * mode or owner. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "launch.h"

/* Later bind mounts inherit the read-only flag. Programs can still write to the device. */
static bool bound(const char *path)
{
    struct statvfs place;
    return statvfs(path, &place) == 0 && mount(path, path, NULL, MS_BIND, NULL) == 0 &&
           mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | (place.f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)),
                 NULL) == 0;
}

void keep_devices(void)
{
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};
    if (geteuid() != 0 || (unshare(CLONE_NEWNS) != 0 && errno == EPERM))
        return;
    bool kept = mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0;
    for (size_t index = 0; index < sizeof devices / sizeof *devices; index++)
        kept = kept && bound(devices[index]);
    if (!kept)
        die_errno("cannot protect the host's devices");
}
