/* Creates the OCI bundle of a run (runtime.c): the rendered `config.json`, with the values of the run
 * inserted, and a root directory on which the image's directories are mounted. */
#define _GNU_SOURCE
#include "bundle.h"

#include <sys/ioctl.h>

enum { MOST_SHOWN = 256 };

static bool is_private(const struct run *run, const char *name)
{
    return strcmp(name, BUNDLE_INIT + 1) == 0 || strcmp(name, BUNDLE_STOP + 1) == 0 || strcmp(name, GATE_INSIDE + 1) == 0 ||
           strv_contains(&run->plan.image.private_names, name);
}

/* Creates an empty mount point, or copies a link of the image. */
static bool make_place(struct bundle *bundle, int image, int root, const char *name, const char *path, mode_t mode)
{
    const char *target = S_ISLNK(mode) ? read_link(image, name) : NULL;
    if (S_ISLNK(mode))
        return target != NULL && symlinkat(target, root, name) == 0;
    if (!S_ISDIR(mode) && !S_ISREG(mode))
        return true;
    strv_push(&bundle->shown, xasprintf("%s", path));
    return S_ISDIR(mode) ? mkdirat(root, name, 0755) == 0 : write_file(root, name, "", 0, 0644) == 0;
}

/* Whether the run needs a new directory here, in which the runtime creates a mount point that the image
 * lacks. */
static bool is_opened(const struct bundle *bundle, const char *path)
{
    size_t length = strlen(path);
    for (size_t index = 0; index < bundle->absent.count; index++)
        if (strncmp(bundle->absent.at[index] + 1, path, length) == 0 && bundle->absent.at[index][length + 1] == '/')
            return true;
    return false;
}

static int open_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Creates mount points for the entries of an image's directory; `below` is its path below the root, without
 * slashes at its ends. Closes both descriptors. */
static bool make_places(struct bundle *bundle, const struct run *run, int image, int root, const char *below)
{
    struct dirent *entry;
    struct stat status;
    DIR *entries = image < 0 ? NULL : fdopendir(image);
    bool made = entries != NULL && root >= 0;
    while (made && (errno = 0, entry = readdir(entries)) != NULL) {
        const char *name = entry->d_name, *path = below[0] == '\0' ? name : xasprintf("%s/%s", below, name);
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (below[0] == '\0' && is_private(run, name)))
            continue;
        if (bundle->shown.count >= MOST_SHOWN)
            die("the image has more than %d entries beside the directories of the run", MOST_SHOWN);
        made = fstatat(image, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
               (S_ISDIR(status.st_mode) && is_opened(bundle, path)
                       ? mkdirat(root, name, 0755) == 0 &&
                             make_places(bundle, run, open_folder(image, name), open_folder(root, name), path)
                       : make_place(bundle, image, root, name, path, status.st_mode));
    }
    made = made && errno == 0;
    if (entries != NULL)
        closedir(entries);
    if (root >= 0)
        close(root);
    return made;
}

void bundle_root(struct bundle *bundle, const struct run *run)
{
    const char *path = xasprintf("%s/rootfs", run->state);
    int root = mkdir(path, 0755) == 0 ? open_folder(AT_FDCWD, path) : -1;
    if (root < 0)
        die_errno("cannot create the root directory of the run");
    if (write_file(root, BUNDLE_INIT + 1, "", 0, 0644) != 0 || write_file(root, GATE_INSIDE + 1, "", 0, 0644) != 0 ||
        (is_reported(run) && write_file(root, BUNDLE_STOP + 1, "", 0, 0644) != 0) ||
        !make_places(bundle, run, bundle->image_handle, root, ""))
        die_errno("cannot create mount points for the image's directories");
}

static void quote(struct bytes *out, const char *word)
{
    bytes_text(out, "\"");
    for (; *word != '\0'; word++) {
        unsigned char byte = (unsigned char)*word;
        if (byte < 0x20)
            bytes_text(out, "\\u%04x", byte);
        else
            bytes_text(out, byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
    }
    bytes_text(out, "\"");
}

static void put_list(struct bytes *out, char **words, const char *behind)
{
    for (; words != NULL && *words != NULL; words++) {
        quote(out, *words);
        bytes_text(out, "%s", words[1] != NULL ? ", " : behind);
    }
}

static void put_mount(struct bytes *out, const char *destination, const char *source, const char *options)
{
    bytes_text(out, "{\"destination\": ");
    quote(out, destination);
    bytes_text(out, ", \"type\": \"bind\", \"source\": ");
    quote(out, source);
    bytes_text(out, ", \"options\": [\"rbind\", \"rprivate\", \"nosuid\", \"nodev\", %s\"ro\"]},\n    ", options);
}

static void put_mounts(struct bytes *out, const struct bundle *bundle, const struct run *run)
{
    for (size_t index = 0; index < bundle->shown.count; index++)
        put_mount(out, xasprintf("/%s", bundle->shown.at[index]), xasprintf("%s/%s", bundle->image, bundle->shown.at[index]), "");
    for (size_t index = 0; index < bundle->laid.count; index += 2)
        put_mount(out, bundle->laid.at[index], bundle->laid.at[index + 1], "\"noexec\", ");
    put_mount(out, BUNDLE_INIT, xasprintf("%s/launch-init", run->directory), "");
    put_mount(out, GATE_INSIDE, run->gate, "\"noexec\", ");
    if (is_reported(run))
        put_mount(out, BUNDLE_STOP, xasprintf("%s/stop", run->state), "\"noexec\", ");
    if (run->plan.shims.enabled)
        put_mount(out, run->plan.shims.place, run->document.shims, "");
}

/* A runtime sets the size of its terminal only after the command has started, so the configuration contains
 * it. */
static void put_terminal(struct bytes *out, const struct run *run)
{
    struct winsize size = {0};
    if (run->terminal && ioctl(0, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    bytes_text(out, run->terminal ? "true, \"consoleSize\": {\"height\": %d, \"width\": %d}" : "false", size.ws_row, size.ws_col);
}

/* The rendered filter that sends notifications, and the socket over which the runtime passes the listener. */
static void put_filter(struct bytes *out, const struct bundle *bundle, const struct run *run)
{
    size_t length;
    const char *asking = checked_artifact(run, "asking.json", &length);
    bytes_text(out, "{\"listenerPath\": ");
    quote(out, bundle->listener);
    bytes_text(out, ",");
    bytes_add(out, asking + 1, length - 1);
}

static void fill(struct bytes *out, const struct bundle *bundle, const struct run *run, const char *hole, bool more)
{
    if (strcmp(hole, "args") == 0)
        put_list(out, run->command, "");
    else if (strcmp(hole, "env") == 0)
        put_list(out, run->passed.at, more ? ", " : "");
    else if (strcmp(hole, "terminal") == 0)
        put_terminal(out, run);
    else if (strcmp(hole, "cgroup") == 0)
        quote(out, bundle->cgroup);
    else if (strcmp(hole, "network") == 0)
        bytes_text(out, "\"path\": \"/proc/self/ns/net\", ");
    else if (strcmp(hole, "mounts") == 0)
        put_mounts(out, bundle, run);
    else if (strcmp(hole, "seccomp") == 0)
        put_filter(out, bundle, run);
    else
        die("config.json: unknown key %s", hole);
}

void bundle_config(const struct bundle *bundle, const struct run *run)
{
    size_t length, at = 0;
    struct bytes made = {0};
    const char *config = checked_artifact(run, "config.json", &length);
    for (size_t index = 0; index < run->plan.runtime.config_holes.count; index += 2) {
        char *rest;
        unsigned long begin = strtoul(run->plan.runtime.config_holes.at[index + 1], &rest, 10), end = strtoul(rest, NULL, 10);
        if (begin < at || end < begin || end > length)
            die("config.json was changed after it was rendered: render it again");
        if (strcmp(run->plan.runtime.config_holes.at[index], "seccomp") == 0 && bundle->listener == NULL)
            continue;
        bytes_add(&made, config + at, begin - at);
        at = end;
        fill(&made, bundle, run, run->plan.runtime.config_holes.at[index], config[at + strspn(config + at, " \n")] != ']');
    }
    bytes_add(&made, config + at, length - at);
    if (write_file(AT_FDCWD, xasprintf("%s/config.json", run->state), made.at, made.end, 0600) != 0)
        die_errno("cannot write config.json of the run");
}
