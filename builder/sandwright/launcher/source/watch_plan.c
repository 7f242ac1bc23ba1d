/* Parses the mount plan: words that end with NUL, first a name and a version, then four for each mount. */

#include "launch.h"
#include "watch.h"

enum { MOST = 100000 };

static const char *const KINDS[] = {
    "own", "mask-file", "mask-directory", "read", "write", "cover-file", "cover-directory",
};

/* Absolute, without empty components, `.` and `..`. */
static bool plain(const char *path)
{
    if (path[0] != '/')
        return false;
    if (path[1] == '\0')
        return true;
    for (const char *part = path; *part != '\0';) {
        size_t length = strcspn(++part, "/");
        if (length == 0 || (length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += length;
    }
    return true;
}

static const char *fill(struct record *record, char **words)
{
    size_t kind = 0;
    while (kind < sizeof KINDS / sizeof *KINDS && strcmp(KINDS[kind], words[0]) != 0)
        kind++;
    if (kind == sizeof KINDS / sizeof *KINDS)
        return "unknown kind of mount";
    if (!plain(words[1]) || (words[2][0] != '\0' && !plain(words[2])))
        return "a path that is not absolute and normalized";
    *record = (struct record){.kind = (enum kind)kind, .target = words[1], .source = words[2], .held = -1};
    record->length = strlen(record->target);
    for (const char *flag = words[3]; *flag != '\0'; flag++) {
        if (*flag == 'w')
            record->watched = true;
        else if (*flag == 'a')
            record->again = true;
        else if (*flag == 'r')
            record->rebound = true;
        else if (*flag == 'o')
            record->writable = true;
        else
            return "unknown flag";
    }
    bool needs = record->watched || kind == READ || kind == WRITE || kind == PLACEHOLDER_FILE;
    return needs && record->source[0] == '\0' ? "a mount without its path on the host" : NULL;
}

const char *watch_plan_parse(char *text, size_t length, struct mount_plan *plan)
{
    char *at = text, *end = text + length;
    char *name = next_word(&at, end), *version = name == NULL ? NULL : next_word(&at, end);
    plan->records = NULL;
    plan->count = 0;
    if (version == NULL || strcmp(name, "sandwright-mounts") != 0)
        return "it is not a mount plan";
    if (strcmp(version, "1") != 0)
        return "unsupported version";
    size_t words = 0;
    for (const char *each = at; each < end; each++)
        words += *each == '\0';
    if (words % 4 != 0 || words / 4 > MOST || (end > at && end[-1] != '\0'))
        return "it is truncated";
    plan->records = calloc(words / 4 + 1, sizeof *plan->records);
    if (plan->records == NULL)
        return "out of memory";
    for (size_t index = 0; index < words / 4; index++) {
        char *record[4];
        for (size_t word = 0; word < 4; word++) {
            record[word] = next_word(&at, end);
            if (record[word] == NULL)
                return "it is truncated";
        }
        const char *fault = fill(&plan->records[index], record);
        if (fault != NULL)
            return fault;
        plan->count++;
    }
    return NULL;
}

struct mount_plan watch_plan_checked(const struct run *run)
{
    struct mount_plan plan;
    size_t length;
    char *content = checked_artifact(run, "mounts", &length), *copy = xcalloc(length + 1);
    memcpy(copy, content, length);
    const char *fault = watch_plan_parse(copy, length, &plan);
    if (fault != NULL)
        die("cannot use the mount plan: %s", fault);
    return plan;
}
