#ifndef BUNDLE_H
#define BUNDLE_H

#include "launch.h"

static const char BUNDLE_INIT[] = "/.sandwright-init", BUNDLE_STOP[] = "/.sandwright-stop";

struct bundle {
    const char *image; /* the directory of the unpacked image, and a descriptor of it */
    int image_handle;
    /* The parts of the image that are mounted: names at its root, and paths below a new directory. */
    struct strv shown;
    struct strv absent;  /* mount points in /var that the image lacks */
    struct strv laid;    /* pairs of a path inside and the file that is mounted there */
    const char *cgroup; /* the cgroup for the run's limits */
    /* The socket over which the runtime passes the seccomp listener; NULL: it loads the filter as
     * rendered. */
    const char *listener;
};

/* Also closes image_handle, and fills in `shown`. */
void bundle_root(struct bundle *bundle, const struct run *run);
void bundle_config(const struct bundle *bundle, const struct run *run);

#endif
