/* Finds a second spelling of a name. A mount covers one spelling. That is enough if the kernel folds names; on
 * FUSE, CIFS and 9p, each spelling can have a separate inode. */
#define _GNU_SOURCE
#include <ctype.h>
#include <sys/vfs.h>

#include "launch.h"

/* Whether the kernel has one entry in its cache for all spellings: ext4, F2FS, tmpfs, vfat, exFAT, XFS, ntfs3
 * (linux/magic.h, fs/exfat, fs/ntfs3). */
static bool is_folded_by_kernel(int directory)
{
    static const unsigned folded[] = {0xef53, 0xf2f52010, 0x01021994, 0x4d44, 0x2011bab0, 0x58465342, 0x7366746e};
    struct statfs system;
    if (fstatfs(directory, &system) != 0)
        return true;
    for (size_t index = 0; index < sizeof folded / sizeof *folded; index++)
        if ((unsigned)system.f_type == folded[index])
            return true;
    return false;
}

static bool is_directory_entry(int directory, const char *name)
{
    DIR *entries = open_directory(directory, ".");
    bool found = false;
    for (struct dirent *each; (each = next_entry(entries)) != NULL;) /* closes `entries` at its end */
        found |= strcmp(each->d_name, name) == 0;
    return found;
}

char *second_spelling(int directory, const char *name)
{
    struct stat status;
    char *other = xasprintf("%s", name);
    for (char *letter = other; *letter != '\0'; letter++)
        *letter = isupper((unsigned char)*letter) ? tolower((unsigned char)*letter) : toupper((unsigned char)*letter);
    if (strcmp(other, name) != 0 && fstatat(directory, other, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        !is_folded_by_kernel(directory) && !(is_directory_entry(directory, other) && is_directory_entry(directory, name)))
        return other;
    free(other);
    return NULL;
}

static bool has_letters(const char *name)
{
    while (*name != '\0' && !isalpha((unsigned char)*name))
        name++;
    return *name != '\0';
}

bool has_second_spelling(const char *path)
{
    _cleanup_free_ char *above = xasprintf("%s", path);
    char *slash = strrchr(above, '/');
    for (; slash != NULL && !has_letters(slash + 1); slash = strrchr(above, '/'))
        *slash = '\0';
    if (slash == NULL)
        return false;
    *slash = '\0';
    _cleanup_close_ int directory = open(slash == above ? "/" : above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_free_ char *other = directory < 0 ? NULL : second_spelling(directory, slash + 1);
    return other != NULL;
}
