/* The fields of an entry of the render cache; session/entry.py has the same table, docs/front.md says what each means. */
WORD(method)
WORDS(questions)      /* of each: kind, count and words that it is about, count and words of the answer */
FLAG(attended)        /* Python stays beside the launcher */
WORDS(excepted)       /* names of commands that Python looks at */
WORDS(said)           /* lines on standard error */
WORDS(launcher)       /* what stands before the command */
PAIRS(environment)
WORD(sessions)        /* the directory of session records */
WORD(guards)          /* a directory in which nothing may be (session/elsewhere.py) */
WORD(record)          /* of a session: JSON behind what each run has of its own */
WORDS(report)         /* Python's words for the report after a run, without the record's path and the status */
WORDS(roots)          /* what the sandbox can write */
WORDS(closed)         /* and what it can't below them */
WORDS(git)
WORDS(names)          /* that programs of the host use; "*x": all that end with x */
WORD(known)           /* the file in which the last report wrote what it found; absent: there is always one */
WORD(sandbox)         /* JSON, for Python */
