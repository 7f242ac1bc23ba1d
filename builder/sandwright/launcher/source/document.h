/* Documents of named fields, written by launcher/plan.py: a name and a version, the fields, then `end`. All
 * are words that end with NUL. A field consists of its name, the number of its values, and the values. */
#ifndef DOCUMENT_H
#define DOCUMENT_H

#include "utils.h"

enum field_kind { WORD, WORDS, PAIRS, NUMBER, FLAG };
#define TYPE_WORD const char * /* NULL if the document lacks the field */
#define TYPE_WORDS struct strv
#define TYPE_PAIRS struct strv /* an even number of words */
#define TYPE_NUMBER long       /* at most 15 digits; -1 if the document lacks the field */
#define TYPE_FLAG bool         /* true if the document has the field, which has no value */

struct field {
    const char *name;
    enum field_kind kind;
    size_t at; /* offset in the struct that document_parse fills in */
};

struct document {
    const char *name, *version, *what; /* `what`: a description for messages */
    const struct field *fields;
    size_t count;
};

/* Fills in `into`, which must be all zeros. Changes `content`, to which the result points. Returns NULL, or a
 * description of the fault with the field's name. */
const char *document_parse(char *content, size_t length, const struct document *document, void *into);

#endif
