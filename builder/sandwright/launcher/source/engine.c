/* Docker and Podman: starts and ends a container with the engine's client. `docker run` or `podman run` is
 * the monitor's child, but the container is not its descendant. The exit status is 125 if no container was
 * started, otherwise the command's.
 *
 * The container has a unique name, run->name, by which it is removed however the run ends. Variables for the
 * command are named to the client, which takes the values from its own environment, so that no value is
 * visible in an argument.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdarg.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "engine.h"
#include "requests.h"

enum { ASKING = 60, STEP = 5, MOST_STEP = 250, REMOVING = 60000 /* milliseconds */ };

static const char *client, *cid;
static int requests = -1; /* the first process's end (requests.h) */
static struct strv words;
static struct watch watch = {.waits_on = -1};
static int step = STEP;
static bool signalled, gone, refused;

bool is_podman(const struct run *run)
{
    return strcmp(run->plan.engine.client, "podman") == 0;
}

const char *title(const struct run *run)
{
    return is_podman(run) ? "Podman" : "Docker";
}

static char *answer;

static char *asked(bool errors, va_list more)
{
    struct strv argv = {0};
    char *word;
    answer = NULL;
    strv_push(&argv, (char *)client);
    while ((word = va_arg(more, char *)) != NULL)
        strv_push(&argv, word);
    return capture(argv.at, &answer, ASKING, errors) == 0 ? answer : NULL;
}

char *ask(struct run *run, ...)
{
    va_list more;
    va_start(more, run);
    char *output = asked(false, more);
    va_end(more);
    return output;
}

char *ask_all(struct run *run, ...)
{
    va_list more;
    va_start(more, run);
    char *output = asked(true, more);
    va_end(more);
    return output;
}

const char *refusal(void)
{
    char *line = answer != NULL ? answer : xasprintf("%s", "no answer");
    for (size_t end = strlen(line); end > 0 && line[end - 1] == '\n';)
        line[--end] = '\0';
    return strrchr(line, '\n') != NULL ? strrchr(line, '\n') + 1 : line;
}

/* Podman's service runs on another machine, or as another user. */
bool is_remote(void)
{
    return is_set("CONTAINER_HOST") || is_set("CONTAINER_CONNECTION");
}

static void engine_check(struct run *run)
{
    if ((client = find_program(run, run->plan.engine.client)) == NULL)
        die("%s is not installed", run->plan.engine.client);
    engine_check_features(run);
}

static void choose_cid(const struct run *run)
{
    char *here = NULL;
    cid = run->document.cidfile != NULL ? run->document.cidfile : xasprintf("%s/cid", run->state);
    if (cid[0] != '/' && (here = getcwd(NULL, 0)) == NULL)
        die_errno("cannot determine the current directory");
    if (here != NULL)
        cid = xasprintf("%s/%s", here, cid);
}

static void engine_prepare(struct run *run)
{
    const struct plan *plan = &run->plan;
    gone = true;
    choose_cid(run);
    rundir_make(run, plan->engine.client);
    /* Podman's monitor may create a file `oom` in its working directory. */
    if (is_podman(run) && chdir(run->state) != 0)
        die_errno("cannot change directory to %s", run->state);
    if (plan->engine.watched) {
        watch.pid_file = xasprintf("%s/pid", run->state);
        watch.opaque = plan->image.root != NULL;
        /* Otherwise no process on this machine has the container's mounts. */
        if (!is_podman(run) || !is_remote()) {
            make_gate(run);
            watch.gate = run->gate;
        }
        watch_start(run, run->watch = &watch);
        if (!watch_mounted(&watch))
            die("cannot start the mount watch");
        check_there_still(run);
    }
    if (plan->image.root == NULL && !is_podman(run))
        requests_await(run, xasprintf("%s/requests", run->state));
    else if (plan->image.root == NULL && !is_remote()) /* runsc passes no socket on */
        requests = requests_pair(run);
    words = engine_words(run, cid, requests >= 0);
    gone = false;
}

static void engine_start(struct run *run)
{
    for (size_t index = 0; index < run->plan.engine.unset.count; index++)
        unsetenv(run->plan.engine.unset.at[index]);
    if (is_podman(run)) {
        /* Programs that Podman starts would inherit that these signals are ignored. */
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
    }
    if (requests >= 0)
        requests_pass_on(requests, REQUESTS_PASSED);
    execv(client, words.at);
}


static void look_later(struct run *run)
{
    struct itimerspec time = {.it_value.tv_nsec = step * 1000000L};
    if (run->wakes < 0)
        run->wakes = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (run->wakes < 0 || timerfd_settime(run->wakes, 0, &time, NULL) != 0)
        die_errno("cannot create a timer");
    step = step < MOST_STEP ? step + step / 16 + 1 : MOST_STEP;
}

static void engine_started(struct run *run)
{
    close(requests);
    if ((run->watch != NULL && !is_podman(run)) || ports_wanted(run))
        look_later(run);
}

/* The content of the file of --cidfile, which a program inside may be able to write. */
static char *container(void)
{
    char *number = first_line(cid);
    return number != NULL && number[0] != '\0' && number[strspn(number, "0123456789abcdef")] == '\0' ? number : NULL;
}

/* The PID of the container's first process; 0: not started yet; -1: can't be found out. Its parent is
 * Podman's monitor. */
static pid_t first_of(struct run *run)
{
    if (!is_podman(run))
        return container() != NULL ? first_process(run) : 0;
    pid_t first = (pid_t)number_in(xasprintf("%s/pid", run->state)), monitor = (pid_t)number_in(xasprintf("%s/monitor", run->state));
    return first > 0 && monitor > 0 && parent_of(first) == monitor ? first : 0;
}

/* Enters the network namespace, then looks the PID up again, as it could have been reused before that. */
static bool opens_ports(struct run *run, pid_t first)
{
    int network = network_of(first);
    if (network >= 0 && first_of(run) == first)
        return ports_open(network, false);
    close(network);
    warn("cannot enter the container's network namespace");
    return false;
}

/* Podman writes the PID of the container's first process to a file for the watch. Docker has to be asked. */
static void engine_readable(struct run *run)
{
    unsigned long times;
    if (read(run->wakes, &times, sizeof times) < 0)
        return;
    pid_t first = first_of(run);
    char *number = xasprintf("%d\n", (int)first);
    if (first == 0)
        look_later(run);
    else if (first < 0 && run->gate != NULL && !is_podman(run))
        open_gate(run->gate); /* the engine runs in a virtual machine, whose processes are not visible here */
    else if (first > 0 && run->watch != NULL && !is_podman(run))
        write_file(AT_FDCWD, xasprintf("%s/pid", run->state), number, strlen(number), 0600);
    if (first != 0 && ports_wanted(run) && !opens_ports(run, first)) {
        refused = true;
        run->method->end(run);
    }
}

static bool runs(const struct run *run)
{
    siginfo_t info = {0};
    return run->child > 0 && waitid(P_PID, (id_t)run->child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

void remove_by_force(struct run *run, const char *name)
{
    ask(run, "rm", "--force", "--volumes", is_podman(run) ? "--time=0" : "--force", name, NULL);
}

/* Removes the container. An engine creates it even after the client was killed, so it may appear later; or
 * the engine may be removing it already. A client that waits until it can write to its terminal does not end
 * by itself, and the Docker daemon waits for it. */
static void engine_remove_container(struct run *run)
{
    char *name = xasprintf("name=^%s$", run->name);
    if (!is_podman(run) && container() != NULL && runs(run))
        kill(run->child, SIGKILL);
    long until = milliseconds() + REMOVING;
    for (int tries = 0; milliseconds() < until; tries++) {
        remove_by_force(run, run->name);
        char *there = ask(run, "ps", "--all", "--quiet", "--filter", name, NULL);
        bool ended = !runs(run) || (container() != NULL && tries >= 20);
        if (there != NULL && there[0] == '\0' && ended &&
            (container() != NULL || tries >= (is_podman(run) ? 1 : 20))) {
            gone = true;
            return;
        }
        poll(NULL, 0, 100);
    }
    warn("%s does not answer: %s may still exist", title(run), run->name);
}

/* If the client was killed, it may leave a container that Podman does not know. Its monitor (conmon(8)) is a
 * descendant of the launcher then. Removes that, and the runtime's state. */
static void remove_unknown(struct run *run)
{
    char *runtime, *output;
    if (!is_podman(run) || number_in(xasprintf("%s/monitor", run->state)) <= 0)
        return;
    end_descendants();
    if (run->document.cidfile != NULL || container() == NULL ||
        (runtime = ask(run, "info", "--format", "{{.Host.OCIRuntime.Path}}", NULL)) == NULL)
        return;
    runtime[strcspn(runtime, "\n")] = '\0';
    char *const argv[] = {runtime, xasprintf("delete"), xasprintf("--force"), container(), NULL};
    capture(argv, &output, ASKING, false);
}

/* Before version 4.5, Podman's client forwards signals only while the command runs, and is killed by an
 * earlier one (containers/podman#17489). Signals therefore go to the container itself, or to the client if
 * there is no container. */
static bool engine_deliver(struct run *run, int number)
{
    signalled = signalled || (number != SIGWINCH && number != SIGTSTP && number != SIGCONT);
    return (is_podman(run) && ask(run, "kill", xasprintf("--signal=%d", number), run->name, NULL) != NULL) ||
           kill(run->child, number) == 0;
}


static int engine_status(struct run *run, int ended)
{
    int code = refused ? NOT_RUN : exit_status(ended);
    if (code == NOT_RUN && container() == NULL) {
        gone = true;
        /* An engine that does not answer has reported that itself. */
        if (ask(run, "image", "inspect", "--format", ".", run->plan.engine.started.at[0], NULL) == NULL &&
            ask(run, "ps", "--quiet", NULL) != NULL)
            warn("%s", run->plan.engine.image_missing);
    } else if (code < NOT_RUN && !signalled)
        gone = true;
    else if (!gone)
        engine_remove_container(run);
    run->over = gone && !WIFSIGNALED(ended);
    return code;
}

static void engine_clean(struct run *run)
{
    if (access(run->state, F_OK) != 0)
        return;
    if (cid == NULL)
        choose_cid(run);
    if (!gone)
        engine_remove_container(run);
    if (!run->over)
        remove_unknown(run);
    if (run->plan.proxy)
        proxy_remove(run);
    run->goes_on = !gone;
    if (gone)
        remove_tree(run->state);
}

const struct method engine_method = {
    .name = "engine",
    .client = true,
    .check = engine_check,
    .prepare = engine_prepare,
    .start = engine_start,
    .started = engine_started,
    .readable = engine_readable,
    .deliver = engine_deliver,
    .end = engine_remove_container,
    .status = engine_status,
    .clean = engine_clean,
};
