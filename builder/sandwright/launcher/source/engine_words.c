/* The arguments of `docker run` and `podman run` that depend on the run: account files, hidden paths, limits
 * on open files and processes, variables, the host's CA certificates, init. The other arguments were
 * rendered. */
#define _GNU_SOURCE
#include <sys/resource.h>

#include "engine.h"

enum { NPROC = 32768, NOFILE = 1048576, MOST = 1 << 24 /* maximal size of /etc/subuid in bytes */ };

static struct strv words;

const char *session_label(const struct run *run)
{
    return is_set("SANDWRIGHT_SESSION") ? getenv("SANDWRIGHT_SESSION") : run->name + strlen("sandwright-");
}

/* Fields of --mount are CSV: quotes are doubled. */
char *mount_source(const char *path)
{
    char *field = xcalloc(2 * strlen(path) + sizeof "\"src=\""), *to = stpcpy(field, "\"src=");
    for (; *path != '\0'; path++) {
        if (*path == '"')
            *to++ = '"';
        *to++ = *path;
    }
    strcpy(to, "\"");
    return field;
}

static void add_file(const char *path, const char *fields)
{
    strv_push(&words, xasprintf("--mount=type=bind,readonly,%s,%s", mount_source(path), fields));
}

const char *make_file(const struct run *run, const char *name, const char *content, mode_t mode)
{
    const char *path = xasprintf("%s/%s", run->state, name);
    if (write_file(AT_FDCWD, path, content, strlen(content), mode) != 0 || chmod(path, mode) != 0)
        die_errno("cannot write %s", path);
    return path;
}

/* A hidden path is covered by a file without permissions. gVisor creates that mount itself, and has to open
 * the file. */
static void add_hidden(struct run *run)
{
    if (run->plan.engine.hidden_files.count == 0)
        return;
    const char *nothing = make_file(run, "nothing", "", run->plan.image.root != NULL ? 0444 : 0);
    for (size_t index = 0; index < run->plan.engine.hidden_files.count; index++)
        add_file(nothing, run->plan.engine.hidden_files.at[index]);
}

/* Covers placeholders with a directory of the run: a tmpfs could contain no `.gitignore`. */
static void add_ignored(struct run *run)
{
    const char *source = run->plan.ignored.count > 0 ? rundir_make_ignored(run) : NULL;
    for (size_t index = 0; index < run->plan.ignored.count; index++)
        add_file(source, xasprintf("%s,bind-propagation=rprivate", run->plan.ignored.at[index]));
}

/* Root's home directory inside is the caller's, not the image's. */
static void add_root_account(struct run *run)
{
    add_file(make_file(run, "passwd", xasprintf("root:x:0:0::%s:/bin/sh\nnobody:x:65534:65534::/nonexistent:/sbin/nologin\n",
                                           run->plan.engine.home), 0644), "dst=/etc/passwd");
}

/* Whether a caller has subordinate IDs. Only then can the caller keep the own ID inside; otherwise the caller
 * is root inside, which is the caller's account outside. */
static bool has_numbers(const struct strv *callers)
{
    char *list = read_file(AT_FDCWD, "/etc/subuid", MOST, NULL), *line;
    while (list != NULL && (line = strsep(&list, "\n")) != NULL) {
        line[strcspn(line, ":")] = '\0';
        if (strv_contains(callers, line))
            return true;
    }
    return false;
}

static void add_account(struct run *run)
{
    const struct plan *plan = &run->plan;
    if (plan->engine.home == NULL)
        return;
    if (plan->engine.callers.count > 0 && !has_numbers(&plan->engine.callers)) {
        strv_push(&words, xasprintf("--userns=host"));
        strv_push(&words, xasprintf("--user=0:0"));
        add_root_account(run);
    } else if (docker_is(run, "name=rootless")) {
        /* In rootless Docker, root inside is the caller, and no other ID is mapped. */
        strv_push(&words, xasprintf("--user=0:0"));
        add_root_account(run);
    } else {
        add_file(xasprintf("%s/passwd", run->directory), "dst=/etc/passwd");
        add_file(xasprintf("%s/group", run->directory), "dst=/etc/group");
    }
}

static rlim_t hard_limit(int resource, rlim_t most)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) != 0 || limit.rlim_max > most ? most : limit.rlim_max;
}

/* Without this option, Podman asks for a higher limit than the caller's, which needs a capability that
 * containers and CI machines lack. For processes, it can pass on 32768 (seen with 4.3). */
char *most_processes(void)
{
    unsigned long limit = hard_limit(RLIMIT_NPROC, NPROC);
    return xasprintf("--ulimit=nproc=%lu:%lu", limit, limit);
}

static void add_podman(struct run *run)
{
    bool bounded = false;
    if (!is_remote()) {
        strv_push(&words, xasprintf("--conmon-pidfile=%s/monitor", run->state));
        strv_push(&words, xasprintf("--pidfile=%s/pid", run->state));
    }
    strv_push(&words, most_processes());
    for (size_t index = 0; index < run->plan.engine.options.count; index++)
        bounded = bounded || strncmp(run->plan.engine.options.at[index], "--ulimit=nofile=", 16) == 0;
    unsigned long limit = hard_limit(RLIMIT_NOFILE, RLIM_INFINITY - 1);
    if (limit == RLIM_INFINITY - 1)
        limit = NOFILE;
    if (!bounded)
        strv_push(&words, xasprintf("--ulimit=nofile=%lu:%lu", limit, limit));
}

/* In gVisor's container, the session program takes the values of these variables from its own environment. */
static void add_outer(struct run *run, const char *names)
{
    add_file(run->image_root, "dst=/sandwright/rootfs");
    strv_push(&words, xasprintf("--env=SANDWRIGHT_PASSED=%s", names));
    /* A directory that keeps runsc's logs, in one directory for each run. */
    if (is_set("SANDWRIGHT_RUNSC_LOG")) {
        const char *logs = getenv("SANDWRIGHT_RUNSC_LOG"), *own = xasprintf("%s/%s", logs, run->name);
        if (mkdir(own, 0700) != 0 || (own = realpath(own, NULL)) == NULL)
            die("cannot create a directory in %s", logs);
        strv_push(&words, xasprintf("--mount=type=bind,%s,dst=/run/sandwright/log", mount_source(own)));
    }
}

static void add_places(const struct run *run, const struct strv *places, const char *source)
{
    for (size_t index = 0; index < places->count; index++)
        add_file(source, xasprintf("dst=%s%s", run->image_root != NULL ? "/sandwright/rootfs" : "", places->at[index]));
}

/* Mounts the host's CA certificates over the image's; for gVisor, over those in its sandbox's root. Returns
 * the variables that name them, each after a blank. */
static const char *add_authorities(struct run *run)
{
    const char *copy = authorities_copy(run), *names = "", *store;
    if (copy == NULL)
        return names;
    struct strv places = authorities_in(&run->plan.authorities.bundles, run->image_root);
    struct strv stores = authorities_stores(run, run->image_root, &store);
    add_places(run, &places, copy);
    add_places(run, &stores, store);
    for (size_t index = 0; places.count > 0 && index < run->plan.authorities.variables.count; index++) {
        strv_push(&words, xasprintf("--env=%s=%s", run->plan.authorities.variables.at[index], places.at[0]));
        names = xasprintf("%s %s", names, run->plan.authorities.variables.at[index]);
    }
    return names;
}

static void add_variables(struct run *run)
{
    const char *names = add_authorities(run);
    for (size_t index = 0; index < run->passed.count; index++) {
        char *name = xasprintf("%.*s", (int)strcspn(run->passed.at[index], "="), run->passed.at[index]);
        names = xasprintf("%s %s", names, name);
        /* The client's PATH differs from the command's, so the command's is passed as an argument. */
        if (strcmp(name, "PATH") == 0 && strcmp(run->path, run->given_path) != 0)
            name = run->passed.at[index];
        strv_push(&words, xasprintf("--env=%s", name));
    }
    if (run->plan.image.root != NULL)
        add_outer(run, names);
}

/* After the image: init, with the words that the plan and the run add to the command. */
static void add_init(struct run *run, bool requests)
{
    char *const stop_fd = xasprintf("%s/stop", run->state), *const first[] = {"/.sandwright-init", dns_wanted(run) ? "--init-named" : "--init",
                                                                    "/.sandwright-stop"};
    add_file(xasprintf("%s/launch-init", run->directory), "dst=/.sandwright-init");
    if (is_reported(run)) {
        run->stop_fd = make_stop_file(stop_fd);
        add_file(stop_fd, "dst=/.sandwright-stop");
    }
    if (run->gate != NULL)
        add_file(run->gate, xasprintf("dst=%s", GATE_INSIDE));
    const char *awaited = xasprintf("%s/requests", run->state);
    if (access(awaited, F_OK) == 0)
        add_file(awaited, "dst=/.sandwright-requests");
    strv_push(&words, run->plan.engine.started.at[0]);
    strv_push(&words, first[0]);
    if (run->gate != NULL)
        strv_extend(&words, &(struct strv){(char *[]){"--gate", (char *)GATE_INSIDE}, 2});
    if (requests)
        strv_extend(&words, &(struct strv){(char *[]){"--requests", xasprintf("%d", REQUESTS_PASSED)}, 2});
    if (access(awaited, F_OK) == 0)
        strv_extend(&words, &(struct strv){(char *[]){"--requests", "/.sandwright-requests"}, 2});
    strv_push(&words, first[1]);
    strv_push(&words, (char *)stop_word(run, first[2]));
    for (size_t index = 1; index < run->plan.engine.started.count; index++)
        strv_push(&words, run->plan.engine.started.at[index]);
    for (char **word = run->command; *word != NULL; word++)
        strv_push(&words, *word);
}

struct strv engine_words(struct run *run, const char *cid, bool requests)
{
    const struct plan *plan = &run->plan;
    strv_push(&words, (char *)plan->engine.client);
    strv_push(&words, xasprintf("run"));
    strv_extend(&words, &plan->engine.options);
    add_hidden(run);
    add_ignored(run);
    if (plan->proxy)
        proxy_start(run, &words);
    strv_push(&words, xasprintf("--name=%s", run->name));
    strv_push(&words, xasprintf("--cidfile=%s", cid));
    strv_push(&words, xasprintf("--label=sandwright.session=%s", session_label(run)));
    strv_push(&words, xasprintf("--security-opt=seccomp=%s/seccomp.json", run->directory));
    if (run->terminal)
        strv_push(&words, xasprintf("--tty"));
    if (is_podman(run))
        add_podman(run);
    if (requests)
        strv_push(&words, xasprintf("--preserve-fds=1"));
    add_account(run);
    for (size_t index = 0; index + 1 < plan->engine.files_inside.count; index += 2)
        /* The run has its own resolv.conf then. */
        if (!dns_wanted(run) || strcmp(plan->engine.files_inside.at[index], "resolv.conf") != 0)
            add_file(xasprintf("%s/%s", run->directory, plan->engine.files_inside.at[index]), plan->engine.files_inside.at[index + 1]);
    if (plan->shims.enabled)
        strv_push(&words, xasprintf("--mount=type=bind,readonly,bind-propagation=rprivate,%s,dst=%s",
                         mount_source(run->document.shims), plan->shims.place));
    add_variables(run);
    add_init(run, requests);
    return words;
}
