/* Parses the run document (run_document.h) from a descriptor; any version other than 1 is an error. */

#include "launch.h"

static const struct field fields[] = {
#define FIELD(kind, name) {#name, kind, offsetof(struct run_document, name)},
#include "run_fields.h"
#undef FIELD
};
static const struct document form = {"sandwright-run", "1", "run document", fields, sizeof fields / sizeof *fields};

void run_document_read(const char *descriptor, struct run_document *document)
{
    size_t length = strspn(descriptor, "0123456789"), size;
    if (length == 0 || length > 6 || descriptor[length] != '\0')
        die("--run needs the number of a descriptor");
    /* Opens the file again, to read it from its start even if the descriptor was used before. */
    char *content = read_file(AT_FDCWD, xasprintf("/proc/self/fd/%s", descriptor), 1 << 24, &size);
    if (content == NULL)
        die_errno("cannot read the run document");
    const char *fault = document_parse(content, size, &form, document);
    if (fault != NULL)
        die("the run document: %s", fault);
    close(atoi(descriptor));
}
