/* Makes Landlock rules from the granted paths. Rules can only allow. If a directory contains entries that are
 * not granted, each other entry that exists now gets a rule, and the directory itself gets none. Programs can
 * therefore not list the directory, or read entries that are created there later. */
#define _GNU_SOURCE

#include "landlock.h"
#include "launch.h"

enum grant { INHERITED, HIDE, READ, WRITE, DEVICE, TERMINAL };
static const char *const names[] = {"", "hide", "read", "write", "device", "terminal"};
static const uint64_t rights[] = {
    [READ] = MAY_EXECUTE | MAY_READ | MAY_LIST,
    [WRITE] = ALL_FILES & ~(MAY_MAKE_CHARACTER_DEVICE | MAY_MAKE_BLOCK_DEVICE | MAY_CONTROL_DEVICE),
    [DEVICE] = MAY_READ | MAY_WRITE | MAY_TRUNCATE,
    [TERMINAL] = MAY_READ | MAY_WRITE | MAY_TRUNCATE | MAY_CONTROL_DEVICE,
};

struct node {
    const char *name;
    enum grant grant;
    struct node *below, *next;
    struct stat status; /* of the file, once it has been opened; empty for none */
};

static struct node *entry(struct node *node, const char *name)
{
    struct node *each = node->below;
    while (each != NULL && strcmp(each->name, name) != 0)
        each = each->next;
    if (each == NULL) {
        each = xcalloc(sizeof *each);
        *each = (struct node){.name = name, .next = node->below};
        node->below = each;
    }
    return each;
}

static void add_path(struct node *root, const char *grant, const char *path)
{
    char *rest = xasprintf("%s", path), *part;
    struct node *node = root;
    enum grant found = INHERITED;
    for (size_t index = HIDE; index < sizeof names / sizeof *names; index++)
        if (strcmp(grant, names[index]) == 0)
            found = (enum grant)index;
    while ((part = strsep(&rest, "/")) != NULL)
        if (*part != '\0')
            node = entry(node, part);
    if (*path != '/' || found == INHERITED)
        die("rules: %s %s: not known", grant, path);
    node->grant = found;
}

/* Whether a rule here would also allow something below that isn't granted. */
static bool hides(const struct node *node)
{
    for (const struct node *each = node->below; each != NULL; each = each->next)
        if (each->grant == HIDE || hides(each))
            return true;
    return false;
}

/* Whether an entry has a rule of its own: by its name, or because a listed name leads to the same file, as on
 * a file system that ignores case. */
static bool is_named(const struct node *node, const char *name, int file)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return true;
    for (const struct node *each = node->below; each != NULL; each = each->next)
        if (strcmp(each->name, name) == 0 || (each->status.st_nlink > 0 && same_file(&each->status, &status)))
            return true;
    return false;
}

/* -1: the entry does not exist, or is not accessible. */
static int open_entry(int directory, const char *name, bool *link)
{
    struct stat status;
    int file = open_without_links(directory, name, O_PATH, 0);
    *link = file >= 0 && fstat(file, &status) == 0 && S_ISLNK(status.st_mode);
    if (*link)
        close(file);
    return *link ? -1 : file;
}

static void grant_entries(const struct node *node, int ruleset, int file, const char *path)
{
    int directory = open_without_links(file, ".", O_RDONLY | O_DIRECTORY, 0);
    DIR *entries = directory < 0 ? NULL : fdopendir(directory);
    /* If the directory can't be listed, its entries are not granted. */
    for (struct dirent *each; (each = next_entry(entries)) != NULL;) {
        bool link;
        _cleanup_close_ int found = open_entry(file, each->d_name, &link);
        if (found >= 0 && !is_named(node, each->d_name, found))
            landlock_path(ruleset, found, rights[READ], path);
    }
}

static void grant_below(struct node *node, int ruleset, int file, const char *path, enum grant grant)
{
    bool link, some = node->grant == INHERITED ? false : true;
    grant = some ? node->grant : grant;
    bool apart = grant == READ && hides(node);
    if (grant > READ || (grant == READ && !apart))
        landlock_path(ruleset, file, rights[grant], path);
    for (struct node *each = node->below; grant <= READ && each != NULL; each = each->next) {
        const char *below = xasprintf("%s/%s", path, each->name);
        _cleanup_close_ int found = open_entry(file, each->name, &link);
        if (link)
            die("%s became a symbolic link after this was rendered", below);
        if (found < 0)
            continue;
        if (fstat(found, &each->status) != 0)
            die_errno("%s", below);
        grant_below(each, ruleset, found, below, grant);
    }
    if (apart)
        grant_entries(node, ruleset, file, path);
}

void grant_paths(const struct run *run, int ruleset)
{
    size_t length;
    struct node root = {.name = ""};
    char *content = checked_artifact(run, "rules", &length), *end = content + length;
    for (char *grant, *path; (grant = next_word(&content, end)) != NULL; add_path(&root, grant, path))
        if ((path = next_word(&content, end)) == NULL)
            die("rules: %s: has no path", grant);
    _cleanup_close_ int file = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (file < 0)
        die_errno("/");
    grant_below(&root, ruleset, file, "", HIDE);
}
