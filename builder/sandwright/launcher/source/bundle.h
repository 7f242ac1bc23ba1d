/* Declarations that runtime.c and bundle.c share. */
#ifndef BUNDLE_H
#define BUNDLE_H

#include "launch.h"

static const char BUNDLE_INIT[] = "/.sandwright-init", BUNDLE_BELL[] = "/.sandwright-bell";

struct bundle {
    const char *image; /* where it is unpacked, and the same as a descriptor */
    int image_handle;
    struct strv shown;   /* mounted parts of the image: names at its root, and paths below a new directory */
    struct strv absent;  /* mount points in /var that the image lacks */
    struct strv laid;    /* places inside, and files that lie there */
    const char *cgroup; /* the one that limits need */
    const char *listener; /* where a runtime hands over the filter's; NULL: it loads the filter as it was rendered */
};

void bundle_root(struct bundle *bundle, const struct run *run); /* also closes image_handle, and fills `shown` */
void bundle_config(const struct bundle *bundle, const struct run *run);

#endif
