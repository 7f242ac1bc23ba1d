/* Docker and Podman: refuses a run, before anything is created, if the engine can't enforce it: limits
 * without a cgroup (rootless Podman), user.mapping or network.expose with a remote engine, user.mapping with
 * Docker's userns-remap, a writable mount below a read-only path, an image that configures the runtime. */
#define _GNU_SOURCE
#include <sys/utsname.h>

#include "engine.h"
#include "watch.h"

static char *facts; /* the output of `docker info` */

/* `r` or `w` for the mount at a path; 0: none. */
static char shown_at(const struct plan *plan, const char *path)
{
    for (size_t index = 0; index < plan->engine.binds.count; index++)
        if (strcmp(plan->engine.binds.at[index] + 1, path) == 0)
            return plan->engine.binds.at[index][0];
    return 0;
}

/* Since version 25 (API 1.44), Docker also makes the mounts below a read-only one read-only, with Linux
 * 5.12. */
static bool closes_below(struct run *run)
{
    struct utsname system;
    char *rest, *said = is_podman(run) ? NULL : ask(run, "version", "--format", "{{.Server.APIVersion}}", NULL);
    if (said == NULL || strncmp(said, "1.", 2) != 0 || strtol(said + 2, NULL, 10) < 44 || uname(&system) != 0)
        return false;
    long major = strtol(system.release, &rest, 10);
    return major > 5 || (major == 5 && *rest == '.' && strtol(rest + 1, NULL, 10) >= 12);
}

static void check_mounts_below(struct run *run)
{
    struct mounts mounts;
    int list = run->plan.engine.binds.count > 0 ? open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) : -1;
    if (run->plan.engine.binds.count == 0)
        return;
    if (list < 0 || !mounts_read(list, &mounts))
        die_errno("cannot read /proc/self/mountinfo");
    for (size_t index = 0; index < mounts.count; index++) {
        char *path = xasprintf("%s", mounts.all[index].readonly ? "" : mounts.all[index].point);
        for (char found = shown_at(&run->plan, path), *end = path; found == 0 && *path != '\0';) {
            end = strrchr(path, '/');
            *end = '\0';
            found = shown_at(&run->plan, path);
            if (found == 'r' && !closes_below(run))
                die("%s would leave %s writable, which is mounted below a path that is read-only", title(run),
                       mounts.all[index].point);
        }
    }
    mounts_free(&mounts);
    close(list);
}

static const char *is_true(const char *json, const char *name)
{
    return strstr(json, xasprintf("\"%s\":true", name)) != NULL ? "true" : "false";
}

/* Asks the daemon once, for all features. */
static const char *docker_facts(struct run *run)
{
    const char *json = facts == NULL ? ask_daemon("/info") : NULL;
    const char *options = json != NULL ? strstr(json, "\"SecurityOptions\":[") : NULL;
    if (options != NULL)
        facts = xasprintf("%.*s memory=%s cpu=%s pids=%s ", (int)strcspn(options, "]"), options, is_true(json, "MemoryLimit"),
                     is_true(json, "CpuCfsQuota"), is_true(json, "PidsLimit"));
    else if (facts == NULL)
        facts = ask(run, "info", "--format",
                    "{{.SecurityOptions}} memory={{.MemoryLimit}} cpu={{.CPUCfsQuota}} pids={{.PidsLimit}} ", NULL);
    return facts = facts != NULL ? facts : xasprintf("%s", "");
}

/* The default daemon of this machine, which runs as root, need not be asked. */
bool docker_is(struct run *run, const char *what)
{
    return !is_podman(run) && (run->plan.uid >= 0 || !usual_daemon()) && strstr(docker_facts(run), what) != NULL;
}

/* An engine drops a limit that the machine can't enforce, and only warns. */
static void check_controllers(struct run *run)
{
    bool rootless = is_podman(run) && geteuid() != 0;
    char *said = NULL;
    if (run->plan.engine.controllers.count == 0)
        return;
    if (rootless)
        said = ask(run, "info", "--format", "{{range .Host.CgroupControllers}}{{.}} {{end}}", NULL);
    else
        said = read_file(AT_FDCWD, "/sys/fs/cgroup/cgroup.controllers", 4096, NULL);
    for (char *each = said; each != NULL && (each = strpbrk(each, "\t\n")) != NULL;)
        *each = ' ';
    said = xasprintf(" %s ", said != NULL ? said : "");
    for (size_t index = 0; index < run->plan.engine.controllers.count; index++) {
        const char *name = run->plan.engine.controllers.at[index];
        if (strstr(said, xasprintf(" %s ", name)) != NULL)
            continue;
        if (rootless)
            die("Podman has no cgroup for %s without root here: resources.memory, cpus and pids need one",
                   name);
        if (access(xasprintf("/sys/fs/cgroup/%s", name), F_OK) == 0)
            continue;
        /* The daemon may run on another machine. */
        if (is_podman(run) || strstr(docker_facts(run), xasprintf("%s=true ", name)) == NULL)
            die("%s has no cgroup for %s here: resources.memory, cpus and pids need one", title(run), name);
    }
}

/* The root for gVisor's sandbox: it is mounted read-only in the container, and shared by runs. */
static void check_root(struct run *run)
{
    const char *given = is_set("SANDWRIGHT_ROOTFS") ? getenv("SANDWRIGHT_ROOTFS") : xasprintf("%s/rootfs", run->directory);
    run->image_root = realpath(given, NULL);
    if (run->image_root == NULL)
        die("%s does not exist: set SANDWRIGHT_ROOTFS to the directory of the unpacked image %s", given,
               run->plan.image.root);
    for (size_t index = 0; index < run->plan.image.points.count; index++) {
        const char *point = run->plan.image.points.at[index], *path = xasprintf("%s%s", run->image_root, point);
        struct stat status;
        if (lstat(path, &status) != 0 || S_ISLNK(status.st_mode))
            die("the image has no %s to mount on, or a symbolic link there", point);
    }
}

static bool documents_only(const char *key)
{
    static const char *const known[] = {"org.opencontainers.image.", "org.label-schema.", "com.docker.", "io.buildah.", "dev.sandwright."};
    for (size_t index = 0; index < sizeof known / sizeof *known; index++)
        if (strncmp(key, known[index], strlen(known[index])) == 0)
            return true;
    return false;
}

/* Podman passes an image's annotations to the runtime, and these configure it: crun reads another seccomp
 * filter, a handler and groups from them (crun(1), run.oci.*), and both runtimes read properties of the
 * systemd scope. An image's name does not show that it is ours: sandwright/… may be another user's repository
 * on Docker Hub. */
void check_annotations(struct run *run, const char *image, const char *missing)
{
    char *keys = ask(run, "image", "inspect", "--format",
                     is_podman(run) ? "{{range $key, $value := .Annotations}}{{println $key}}{{end}}" : ".", image, NULL);
    if (keys == NULL)
        die("%s", ask_all(run, "ps", "--quiet", NULL) != NULL ? missing : refusal());
    if (!is_podman(run))
        return;
    char *rest = NULL;
    for (char *key = strtok_r(keys, "\n", &rest); key != NULL; key = strtok_r(NULL, "\n", &rest))
        if (!documents_only(key))
            die("the image %s has the annotation %s, which Podman passes on to its runtime; without annotations it is: "
                "podman save %s | podman load", image, key, image);
}

void engine_check_features(struct run *run)
{
    const struct plan *plan = &run->plan;
    if (plan->image.root != NULL)
        check_root(run);
    if (plan->engine.owner >= 0 && geteuid() != (uid_t)plan->engine.owner)
        die("this was rendered for user %ld, who would own new files: render it again", plan->engine.owner);
    if (plan->uid >= 0 && is_podman(run) && is_remote())
        die("user.mapping is required, and new files would belong to the user of the other machine's Podman");
    check_controllers(run);
    if (run->plan.expose.count > 0 && (is_podman(run) ? is_remote() : geteuid() != 0))
        die("network.expose needs to enter the container's network: %s", is_podman(run)
               ? "a Podman of this machine and this user" : "root, with Docker");
    const char *session = getenv("SANDWRIGHT_SESSION");
    if (session != NULL && session[strspn(session, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0')
        die("SANDWRIGHT_SESSION may contain only lower-case letters, digits and hyphens");
    check_text(run, title(run));
    check_mounts_below(run);
    if (is_podman(run))
        check_annotations(run, plan->engine.started.at[0], plan->engine.image_missing);
    if (plan->uid >= 0 && docker_is(run, "name=userns") && !docker_is(run, "name=rootless"))
        die("user.mapping is required, and this Docker maps users to other IDs (userns-remap)");
    if (plan->shims.enabled) {
        shims_check(run);
        shims_command(run, true);
    }
}
