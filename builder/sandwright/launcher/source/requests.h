/* Further commands in a session (`sandwright exec`, docs/launcher.md): requests.c outside, requests_inside.c
 * in the session's first process. A client connects and sends a request with REQUEST_FILES descriptors: its
 * standard streams, and memory that contains the words. If a stream is to be a terminal, the reply is the
 * terminal's master, or NO_TERMINAL, in which case the client creates one. Then the client sends signals
 * (TO_DELIVER), and the leader sends BEGUN, EXECUTED, STOPPED and STATUS. */
#ifndef REQUESTS_H
#define REQUESTS_H

#include "launch.h"

enum { REQUEST_FILES = 4, MOST_WORDS = 1 << 24 /* bytes */, NO_TERMINAL = 1 };

struct request {
    int terminal;  /* one bit for each standard stream that is to be a terminal */
    char name[64]; /* the program's name for the audit log; a shorter one ends with NUL */
};

/* Monitor: listens on the socket that the run document names, if it names one. requests_end removes it. */
void requests_listen(const struct run *run);
int requests_socket(void);                /* readable when a client connects; -1: none */
/* Sets run->requests, and returns the other end, for the first process; -1: not wanted. */
int requests_pair(struct run *run);
/* Monitor: creates a socket at a path, for a first process that inherits no descriptor (Docker). That process
 * connects before it starts anything. The monitor accepts the connection when the first client comes. */
void requests_await(const struct run *run, const char *path);
/* Child: puts `end` at descriptor `number`, for the program that it executes. */
void requests_pass_on(int end, int number);
void requests_pass(struct run *run); /* passes new connections to the first process */
void requests_end(const struct run *run); /* monitor or launcher */

/* First process: receives commands over this descriptor, which it passes to no program that it starts. */
void requests_take(int file);
/* The same where no first process of the sandbox exists (`user`, landlock): the process that executes the
 * command starts another process for this, with the command's variables. Programs inside can kill that
 * process. */
void requests_serve(int file, char **variables);
int requests_connect(const char *path); /* -1: failed, and the command runs without further commands */

/* Launcher, in `launch --exec SOCKET DIRECTORY COMMAND ...`: sends the request, and returns the connection,
 * or refuses. Signals end the launcher here, because programs inside could delay the answer for ever. The
 * signals in `set` are blocked before a command can start. */
int requests_ask(const struct run *run, const char *path, char *const *words, const sigset_t *set);

#endif
