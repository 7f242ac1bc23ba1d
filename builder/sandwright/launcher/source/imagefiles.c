/* The files that are mounted over those of an unpacked image (runc, crun, runsc): /etc/passwd, /etc/group,
 * /etc/hosts, /etc/resolv.conf, and the host's CA certificates. */
#define _GNU_SOURCE

#include "launch.h"

static void lay(struct strv *files, const char *inside, const char *source)
{
    strv_push(files, xasprintf("%s", inside));
    strv_push(files, xasprintf("%s", source));
}

/* Only where the image has the file, and no link leads there, because nothing may be created in an image that
 * runs share. */
static void lay_over(struct strv *files, const char *image, const char *inside, const char *source)
{
    struct stat status;
    _cleanup_close_ int above = open(image, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int file = open_without_links(above, inside + 1, O_PATH, 0);
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode))
        lay(files, inside, source);
}

/* A copy of the host's file for name resolution, for a sandbox in the host's network; NULL if the host has no
 * such file. */
static const char *copied(const struct run *run, const char *name)
{
    size_t length;
    const char *path = xasprintf("%s/%s", run->state, name);
    char *content = read_file(AT_FDCWD, xasprintf("/etc/%s", name), 1 << 20, &length);
    if (content == NULL)
        return NULL;
    if (write_file(AT_FDCWD, path, content, length, 0644) != 0 || chmod(path, 0644) != 0)
        die_errno("cannot write %s", path);
    return path;
}

/* Mounts the certificates over the image's files, or at the root if the image has none. */
static void lay_authorities(struct run *run, const char *image, struct strv *files)
{
    static char own[] = "/.sandwright-authorities.pem";
    const char *copy = authorities_copy(run);
    if (copy == NULL)
        return;
    struct strv places = authorities_in(&run->plan.authorities.bundles, image);
    const char *store;
    struct strv stores = authorities_stores(run, image, &store);
    if (places.count == 0) {
        strv_push(&places, own);
        if (write_file(AT_FDCWD, xasprintf("%s/rootfs%s", run->state, own), "", 0, 0644) != 0)
            die_errno("cannot create a directory for certificates");
    }
    for (size_t index = 0; index < places.count; index++)
        lay(files, places.at[index], copy);
    for (size_t index = 0; index < stores.count; index++)
        lay(files, stores.at[index], store);
    for (size_t index = 0; index < run->plan.authorities.variables.count; index++)
        strv_push(&run->passed, xasprintf("%s=%s", run->plan.authorities.variables.at[index], places.at[0]));
}

struct strv image_files(struct run *run, const char *image)
{
    static const char *const names[] = {"passwd", "group", "hosts", "resolv.conf"};
    struct strv files = {0};
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        const char *source = NULL;
        if (has_artifact(run, names[index]))
            source = xasprintf("%s/%s", run->directory, names[index]);
        else if (index >= 2 && run->plan.image.host_names)
            source = copied(run, names[index]);
        if (source != NULL)
            lay_over(&files, image, xasprintf("/etc/%s", names[index]), source);
    }
    lay_authorities(run, image, &files);
    return files;
}
