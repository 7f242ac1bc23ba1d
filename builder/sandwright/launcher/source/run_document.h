/* The run document: the input of one run, besides the plan, which is the same for all runs. It is passed as
 * `launch --run DESCRIPTOR COMMAND ...`. Without `--run`, all fields are absent. */
#ifndef RUN_DOCUMENT_H
#define RUN_DOCUMENT_H

#include "plan.h"

struct run_document {
#define FIELD(kind, name) TYPE_##kind name;
#include "run_fields.h"
#undef FIELD
};

/* Reads the document from a descriptor, given in digits, and closes it; or refuses the run. */
void run_document_read(const char *descriptor, struct run_document *document);

#endif
