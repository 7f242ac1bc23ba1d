/* The fields of an entry of the render cache. session/entry.py has the same table, and docs/front.md
 * describes the fields. */
/* For each: kind, number of words that it is about and these words, number of words of the answer and these
 * words. */
FIELD(WORDS, questions)
FIELD(WORDS, excepted)       /* names of commands that Python has to start */
FIELD(WORDS, said)           /* lines to print on standard error */
FIELD(WORDS, launcher)       /* the words before the command */
FIELD(PAIRS, environment)
FIELD(WORD, sessions)        /* the directory of session records */
FIELD(WORD, guards)          /* a directory that must be empty (session/absent_guard.py) */
FIELD(WORD, record)          /* the session record: JSON after the fields that differ between runs */
/* Python's words for the report after a run, without record and status; empty: Python stays resident during
 * the run. */
FIELD(WORDS, report)
FIELD(WORDS, roots)          /* the writable paths of the sandbox */
FIELD(WORDS, closed)         /* the closed paths below them */
FIELD(WORDS, git)
FIELD(WORDS, names)          /* names that programs of the host use; "*x": all that end with x */
/* The file with the findings of the last report; without a path, a report is always needed. */
FIELD(WORD, known)
FIELD(WORD, sandbox)         /* JSON, for Python */
