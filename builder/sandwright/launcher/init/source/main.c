/* launch-init: the first program inside a sandbox. It restricts itself as its arguments say, and starts the
 * command.
 *
 * The restrictions have to be made in this order: first mounts, by the sandbox's creator, because Landlock
 * denies mount(2); then Landlock; then the filter with its listener, so that none of this program's own calls
 * is reported as a denial.
 *
 *   --backstop RULES OWN ... --      enters the second wall (backstop.c): a descriptor of its ruleset, and
 *                                    the sandbox's private directories
 *   --confine MODE CHANNEL FILTER    loads the filter, and passes its listener to the supervisor
 *                                    (confine.c). MODE: whether that connects or counts, with `,links` if
 *                                    it creates links; then two descriptors
 *   --gate FILE                      for init: the command starts when this file is not empty any more
 *   --requests CHANNEL               for init: further commands arrive at this descriptor, or at the
 *                                    socket with this path (requests_inside.c)
 *   --init STOP COMMAND ...          becomes the sandbox's init (init.c)
 *   --init-named STOP COMMAND ...    the same, after a resolver has started inside
 *   COMMAND ...                      executes a program that connects the bridge, before init
 *
 * Or, on the host: launch-init --restrict RULE ... -- COMMAND ... (restrict.c).
 */
#define _GNU_SOURCE
#include <poll.h>

#include "filter.h"
#include "inside.h"
#include "landlock.h"
#include "launch.h"
#include "requests.h"

enum { NAMED = 30000 }; /* milliseconds */

/* In an engine's container, the launcher enters the network namespace only when this process already runs. */
static void wait_for_names(void)
{
    for (long until = milliseconds() + NAMED;; poll(NULL, 0, 2)) {
        _cleanup_free_ char *bound = read_file(AT_FDCWD, "/proc/self/net/udp", 1 << 16, NULL);
        if (bound != NULL && strstr(bound, ":0035 ") != NULL) /* port 53 */
            return;
        if (milliseconds() > until)
            die("cannot resolve names inside the sandbox");
    }
}

int main(int count, char **words)
{
    (void)count;
    words += *words != NULL;
    if (*words != NULL && strcmp(*words, "--restrict") == 0)
        restrict_main(words + 1);
    if (*words != NULL && strcmp(*words, "--backstop") == 0)
        words = backstop_enter(words + 1) + 1;
    if (*words != NULL && strcmp(*words, "--confine") == 0)
        words = confine_enter(words + 1);
    if (*words != NULL && strcmp(*words, "--gate") == 0 && words[1] != NULL) {
        init_gate(words[1]);
        words += 2;
    }
    if (*words != NULL && strcmp(*words, "--requests") == 0 && words[1] != NULL) {
        requests_take(*words[1] == '/' ? requests_connect(words[1]) : atoi(words[1]));
        words += 2;
    }
    if (*words == NULL)
        die("this part of the launcher runs inside the sandbox");
    if (strcmp(*words, "--init-named") == 0)
        wait_for_names();
    else if (strcmp(*words, "--init") != 0)
        exec_command(words, environ);
    init_main(words + 1);
}
