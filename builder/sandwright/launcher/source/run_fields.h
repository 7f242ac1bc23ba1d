/* The fields of a run document, which `sandwright run` hands over; launcher/run_document.py has the same table, docs/launcher.md
 * says how. */
FIELD(WORDS, post_run)     /* what the launcher executes at its end, with the exit status behind */
FIELD(WORD, denials)       /* the file in which refusals are written at the end */
FIELD(WORD, journal)       /* a file to which each kind of refusal is appended when it happens first */
FIELD(WORD, record)        /* the file in which the calls with paths are written at the end; absent: they aren't recorded */
FIELD(WORDS, record_calls) /* numbers of further calls that are recorded */
FIELD(FLAG, record_uses)   /* calls that only look at what is there, as stat(2), aren't recorded */
FIELD(WORD, egress)        /* the directory of the proxy that runs (egress.c) */
FIELD(WORD, authorities)   /* the directory of authorities.pem and authorities.jks that programs inside believe; absent: the host's */
FIELD(WORD, shims)         /* the directory of the bridge that runs (shims.c) */
FIELD(NUMBER, channel)     /* a descriptor of that bridge's, which is inherited */
FIELD(NUMBER, started)     /* a descriptor, which is inherited: gets a byte when the command has been executed */
FIELD(WORD, requests)      /* the socket at which further commands are asked for (requests.c); absent: none */
FIELD(WORD, cidfile)       /* where an engine writes the container's id */
FIELD(WORDS, variables)    /* NAME=VALUE: set inside, whatever the launcher's own environment has */
FIELD(WORDS, workspace)    /* the project and the copy that is shown there, each with DEVICE:INODE behind (workspace.c); absent: none */
FIELD(FLAG, mcp)           /* standard input and output are pipes of a process that reads the messages of MCP */
