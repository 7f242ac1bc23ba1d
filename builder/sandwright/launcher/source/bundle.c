/* The bundle of a run (runtime.c): `config.json` as it was rendered, with what the run brings in its holes, and a root of its
 * own that the image's directories are mounted on. */
#define _GNU_SOURCE
#include "bundle.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_private(const struct run *run, const char *name)
{
    if (strcmp(name, BUNDLE_INIT + 1) == 0 || strcmp(name, BUNDLE_BELL + 1) == 0)
        return true;
    for (size_t index = 0; index < run->plan.image_private.count; index++)
        if (strcmp(run->plan.image_private.at[index], name) == 0)
            return true;
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* An empty place for what is mounted; a link is as it is in the image. */
static bool make_place(struct bundle *bundle, int root, const char *name, mode_t mode)
{
    char target[PATH_MAX];
    ssize_t length;
    if (S_ISLNK(mode))
        return (length = readlinkat(bundle->image_handle, name, target, sizeof target - 1)) >= 0 &&
               (target[length] = '\0', symlinkat(target, root, name) == 0);
    if (!S_ISDIR(mode) && !S_ISREG(mode))
        return true;
    add(&bundle->shown, text("%s", name));
    return S_ISDIR(mode) ? mkdirat(root, name, 0755) == 0 : write_file(root, name, "", 0, 0644) == 0;
}

void bundle_root(struct bundle *bundle, const struct run *run)
{
    const char *path = text("%s/rootfs", run->state);
    struct dirent *entry;
    struct stat status;
    DIR *entries = fdopendir(bundle->image_handle);
    int root = mkdir(path, 0755) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (entries == NULL || root < 0)
        refuse_errno("no root can be made for the run");
    while (errno = 0, (entry = readdir(entries)) != NULL)
        if (!is_private(run, entry->d_name) &&
            (fstatat(bundle->image_handle, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
                !make_place(bundle, root, entry->d_name, status.st_mode)))
            break;
    if (errno != 0 || write_file(root, BUNDLE_INIT + 1, "", 0, 0644) != 0 ||
        (run->terminal && write_file(root, BUNDLE_BELL + 1, "", 0, 0644) != 0))
        refuse_errno("no places can be made for the image's directories");
    closedir(entries);
    close(root);
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
        put_mount(out, text("/%s", bundle->shown.at[index]), text("%s/%s", bundle->image, bundle->shown.at[index]), "");
    for (size_t index = 0; index < bundle->laid.count; index += 2)
        put_mount(out, bundle->laid.at[index], bundle->laid.at[index + 1], "\"noexec\", ");
    put_mount(out, BUNDLE_INIT, text("%s/launch", run->directory), "");
    if (run->terminal)
        put_mount(out, BUNDLE_BELL, text("%s/bell", run->state), "\"noexec\", ");
    if (run->plan.shims)
        put_mount(out, run->plan.shims_place, getenv("SANDWRIGHT_SHIMS"), "");
}

/* A runtime sets the size of its terminal only when the command runs already. */
static void put_terminal(struct bytes *out, const struct run *run)
{
    struct winsize size = {0};
    if (run->terminal && ioctl(0, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    bytes_text(out, run->terminal ? "true, \"consoleSize\": {\"height\": %d, \"width\": %d}" : "false", size.ws_row, size.ws_col);
}

/* The filter that asks, as it was rendered, with where the runtime finds who answers. */
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
        quote(out, text("/%s", run->name));
    else if (strcmp(hole, "network") == 0)
        bytes_text(out, "\"path\": \"/proc/self/ns/net\", ");
    else if (strcmp(hole, "mounts") == 0)
        put_mounts(out, bundle, run);
    else if (strcmp(hole, "seccomp") == 0)
        put_filter(out, bundle, run);
    else
        refuse("config.json: nothing is known of its %s", hole);
}

void bundle_config(const struct bundle *bundle, const struct run *run)
{
    size_t length, at = 0;
    struct bytes made = {0};
    const char *config = checked_artifact(run, "config.json", &length);
    for (size_t index = 0; index < run->plan.config_holes.count; index += 2) {
        char *rest;
        unsigned long begin = strtoul(run->plan.config_holes.at[index + 1], &rest, 10), end = strtoul(rest, NULL, 10);
        if (begin < at || end < begin || end > length)
            refuse("config.json is not as it was rendered: render it again");
        if (strcmp(run->plan.config_holes.at[index], "seccomp") == 0 && bundle->listener == NULL)
            continue;
        bytes_add(&made, config + at, begin - at);
        at = end;
        fill(&made, bundle, run, run->plan.config_holes.at[index], config[at + strspn(config + at, " \n")] != ']');
    }
    bytes_add(&made, config + at, length - at);
    if (write_file(AT_FDCWD, text("%s/config.json", run->state), made.at, made.end, 0600) != 0)
        refuse_errno("the configuration of the run can not be written");
}
