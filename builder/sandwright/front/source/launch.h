/* What the parts of the front share. bytes.c, document.c, utils.c and sha256.c are the launcher's, and find this in place of its header of
 * that name: whatever goes wrong, Python does it. */
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
extern const struct document entry_form; /* of struct entry */
bool questions_hold(const struct strv *questions); /* each has the recorded answer */

/* scan.c: whether the report after a run would have nothing to say, or a signal says not to look. `since`: nanoseconds, of the file
 * systems' clock */
bool nothing_to_report(const struct entry *entry, long long since);

#endif
