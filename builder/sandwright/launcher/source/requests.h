/* Further commands in a session (`sandwright exec`, docs/launcher.md): requests.c outside, requests_inside.c in the session's
 * first process. Over the connection of a client goes a request with REQUEST_FILES descriptors: standard streams, and memory
 * with the words. For a terminal, the answer is its master, or NO_TERMINAL, and the client makes one. The client sends signals (TO_DELIVER); the leader sends BEGUN,
 * EXECUTED, STOPPED and STATUS. */
#ifndef REQUESTS_H
#define REQUESTS_H

#include "launch.h"

enum { REQUEST_FILES = 4, MOST_WORDS = 1 << 24 /* bytes */, NO_TERMINAL = 1 };

struct request {
    int terminal;  /* a bit for each standard stream that is to be a terminal */
    char name[64]; /* of the program, for the audit log; shorter ones end with NUL */
};

/* Monitor: listens at the run document's socket; without one nothing is done. It is removed at the end. */
void requests_listen(const struct run *run);
int requests_socket(void);                /* readable when a client connects; -1 without */
int requests_pair(struct run *run);       /* run->requests; the other end is the first process's. -1: not wanted */
/* Monitor: makes a socket at a path, for a first process that inherits nothing (Docker), and that connects to it before it starts
 * anything. Its connection is taken when the first client comes. */
void requests_await(const struct run *run, const char *path);
void requests_pass_on(int end, int number); /* child: puts that end at descriptor `number`, for the program that it executes */
void requests_pass(struct run *run); /* hands connections to the first process */
void requests_end(const struct run *run); /* monitor or launcher */

/* First process: commands come by this descriptor, which no program that it starts gets. */
void requests_take(int file);
/* Instead, where there is no first process behind the walls (`user`, landlock): the process that executes the command starts another one
 * for it, with the command's variables. Programs inside can end that one. */
void requests_serve(int file, char **variables);
int requests_connect(const char *path); /* -1: the command runs without */

/* Launcher of `launch --exec SOCKET DIRECTORY COMMAND ...`, a connection, on which it was asked for;
 * or refuses. Signals end it, while programs inside could let it wait; those of `set` are blocked before a command can begin. */
int requests_ask(const struct run *run, const char *path, char *const *words, const sigset_t *set);

#endif
