#ifndef ENGINE_H
#define ENGINE_H

#include "launch.h"

/* Runs the engine's client with these words, up to NULL. Returns its output, or NULL if it can't be run or
 * fails. */
char *ask(struct run *run, ...) __attribute__((sentinel));
/* The same, with its standard error in the output. */
char *ask_all(struct run *run, ...) __attribute__((sentinel));
/* The last line that the client printed in the last call of `ask_all` that returned NULL. */
const char *refusal(void);
void remove_by_force(struct run *run, const char *name);
bool is_podman(const struct run *run);
const char *title(const struct run *run);
bool is_remote(void); /* Podman's service runs on another machine or as another user */
char *mount_source(const char *path); /* the field src of --mount */
/* In the run directory. */
const char *make_file(const struct run *run, const char *name, const char *content, mode_t mode);
const char *session_label(const struct run *run);
char *most_processes(void); /* the option for the limit of processes, for podman */

/* engine_check.c, launcher: refuses a run with a feature that the engine can't enforce. */
void engine_check_features(struct run *run);
/* Refuses an image that does not exist, with the message `missing`, and under Podman an image whose
 * annotations would configure the runtime. */
void check_annotations(struct run *run, const char *image, const char *missing);
bool docker_is(struct run *run, const char *what); /* whether the Docker daemon reports this feature */

enum { REQUESTS_PASSED = 3 }; /* the descriptor that Podman passes to the first process (`--preserve-fds`) */

/* engine_words.c, monitor: the arguments of `run`, up to the end of the command. `requests`: the first
 * process gets that descriptor. */
struct strv engine_words(struct run *run, const char *cid, bool requests);

/* engine_daemon.c. The PID of the container's first process; 0: not started yet; -1: can't be found out. */
pid_t first_process(struct run *run);
pid_t process_of(struct run *run, const char *name); /* the same for another container */
const char *ask_daemon(const char *what); /* Docker's reply over HTTP; NULL if only the client can ask */
bool usual_daemon(void);                  /* Docker's client will connect to /var/run/docker.sock */

/* engine_proxy.c: starts the proxy's container, and adds the options with which the sandbox reaches it. */
void proxy_start(struct run *run, struct strv *options);
void proxy_remove(struct run *run);

#endif
