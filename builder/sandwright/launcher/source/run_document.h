/* What one run is started with, besides the plan that holds for all: `launch --run DESCRIPTOR COMMAND ...`. A launcher that is
 * started without has none of it. */
#ifndef RUN_DOCUMENT_H
#define RUN_DOCUMENT_H

#include "plan.h"

struct run_document {
#define FIELD(kind, name) TYPE_##kind name;
#include "run_fields.h"
#undef FIELD
};

/* Reads the document from a descriptor, named in digits, and closes that; or refuses. */
void run_document_read(const char *descriptor, struct run_document *document);

#endif
