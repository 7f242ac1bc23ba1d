/* The launch plan: `launch.plan` beside the program, rendered by launcher/plan.py, documented in
 * docs/launcher.md. A test compares the table of fields with the one in plan.py. */
#ifndef PLAN_H
#define PLAN_H

#include "document.h"

struct plan {
#define FIELD(kind, name) TYPE_##kind name;
#define IN(section, kind, name) TYPE_##kind name;
#define SECTION(name) struct {
#define END(name) } name;
#include "fields.h"
#undef FIELD
#undef IN
#undef SECTION
#undef END
};

/* Returns as document_parse does. */
const char *plan_parse(char *content, size_t length, struct plan *plan);

#endif
