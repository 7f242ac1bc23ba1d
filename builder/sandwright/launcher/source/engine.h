/* Declarations that engine.c and the files engine_*.c share. */
#ifndef ENGINE_H
#define ENGINE_H

#include "launch.h"

/* Runs the engine's client with words that end with NULL; its output, or NULL when it can't be run or says no. */
char *ask(struct run *run, ...) __attribute__((sentinel));
char *ask_all(struct run *run, ...) __attribute__((sentinel)); /* with what it says on standard error */
const char *refusal(void); /* the last line of what the last one of `ask_all` said that was NULL */
void remove_by_force(struct run *run, const char *name);
bool is_podman(const struct run *run);
const char *title(const struct run *run);
bool is_remote(void); /* Podman is another machine's or another user's */
char *mount_source(const char *path); /* the field src of --mount */
const char *make_file(const struct run *run, const char *name, const char *content, mode_t mode); /* in the run's directory */
const char *session_label(const struct run *run);
char *most_processes(void); /* the option that bounds them, for podman */

/* engine_check_features.c, launcher: refuses what the engine can't keep. */
void engine_check_features(struct run *run);
/* Refuses an image that is not there, with the message `missing`, and one of Podman's that steers the runtime. */
void check_annotations(struct run *run, const char *image, const char *missing);
bool docker_is(struct run *run, const char *what); /* whether its daemon says so of itself */

enum { REQUESTS_PASSED = 3 }; /* the descriptor that Podman passes on to the first process (`--preserve-fds`) */

/* engine_words.c, monitor: of `run`, to the end of the command. `requests`: with that descriptor. */
struct strv engine_words(struct run *run, const char *cid, bool requests);

/* engine_daemon.c. The number of the container's first process; 0 while there is none, -1 where it can't be known. */
pid_t first_process(struct run *run);
pid_t process_of(struct run *run, const char *name); /* the same of another container */
const char *ask_daemon(const char *what); /* Docker's answer, in HTTP; NULL where only its client can be asked */
bool usual_daemon(void);                  /* Docker's client will take /var/run/docker.sock */

/* engine_proxy.c: adds the options by which the sandbox gets to it. */
void proxy_start(struct run *run, struct strv *options);
void proxy_remove(struct run *run);

#endif
