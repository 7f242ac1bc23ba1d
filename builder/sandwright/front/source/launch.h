/* Declarations of the native command (front). bytes.c, document.c, utils.c and sha256.c are the launcher's;
 * they include this header instead of the launcher's launch.h. On any failure, Python takes over. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include "bytes.h"
#include "document.h"

_Noreturn void become_python(void); /* start.c */
#define die(...) become_python()
#define die_errno(...) become_python()

struct entry {
#define FIELD(kind, name) TYPE_##kind name;
#include "fields.h"
#undef FIELD
};

/* questions.c */
extern const struct document entry_form; /* for struct entry */
bool questions_hold(const struct strv *questions); /* whether all questions still have the recorded answers */

/* scan.c: whether a report after the run would find nothing, or a signal asks to skip it. `since`: in
 * nanoseconds, of the file systems' clock */
bool nothing_to_report(const struct entry *entry, long long since);

#endif
