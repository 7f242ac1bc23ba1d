/* The fields of an entry of the render cache; session/entry.py has the same table, docs/front.md says what each means. */
FIELD(WORDS, questions)      /* of each: kind, count and words that it is about, count and words of the answer */
FIELD(WORDS, excepted)       /* names of commands that Python looks at */
FIELD(WORDS, said)           /* lines on standard error */
FIELD(WORDS, launcher)       /* what stands before the command */
FIELD(PAIRS, environment)
FIELD(WORD, sessions)        /* the directory of session records */
FIELD(WORD, guards)          /* a directory in which nothing may be (session/absent_guard.py) */
FIELD(WORD, record)          /* of a session: JSON after the fields that differ between runs */
FIELD(WORDS, report)         /* Python's words for the report after a run, without record and status; none: it stays beside the run */
FIELD(WORDS, roots)          /* what the sandbox can write */
FIELD(WORDS, closed)         /* and what it can't below them */
FIELD(WORDS, git)
FIELD(WORDS, names)          /* that programs of the host use; "*x": all that end with x */
FIELD(WORD, known)           /* the file in which the last report wrote what it found; absent: there is always one */
FIELD(WORD, sandbox)         /* JSON, for Python */
