/* The fields of a run document, which `sandwright run` writes. launcher/run_document.py has the same table,
 * and docs/launcher.md describes the fields. */
/* The command that the launcher executes at its end, with the exit status as last argument. */
FIELD(WORDS, post_run)
FIELD(WORD, denials)       /* the file to which denials are written at the end */
FIELD(WORD, journal)       /* a file to which each kind of denial is appended when it first happens */
/* The file to which calls with paths are written at the end; absent: they are not recorded. */
FIELD(WORD, record)
FIELD(WORDS, record_calls) /* numbers of further system calls to record */
FIELD(FLAG, record_uses)   /* calls that only inspect a path, such as stat(2), are not recorded */
FIELD(WORD, egress)        /* the directory of the running proxy (egress.c) */
/* The directory of authorities.pem and authorities.jks, which programs inside trust; absent: the host's
 * certificates. */
FIELD(WORD, authorities)
FIELD(WORD, shims)         /* the directory of the running bridge (shims.c) */
FIELD(NUMBER, channel)     /* an inherited descriptor of the bridge */
/* An inherited descriptor to which a byte is written when the command has been executed. */
FIELD(NUMBER, started)
FIELD(WORD, requests)      /* the path of the socket for further commands (requests.c); absent: none */
FIELD(WORD, cidfile)       /* the file to which an engine writes the container's ID */
/* NAME=VALUE: variables to set inside, independent of the launcher's environment. */
FIELD(WORDS, variables)
/* The project and the copy that is shown in its place, each followed by DEVICE:INODE (workspace.c); absent:
 * no copy. */
FIELD(WORDS, workspace)
FIELD(FLAG, mcp) /* standard input and output are pipes to a process that reads the messages of MCP */
