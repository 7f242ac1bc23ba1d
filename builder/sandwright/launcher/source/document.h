/* Documents of named fields, which launcher/plan.py writes: a name and a version, the fields, `end`. All are words that each end
 * with NUL. A field is its name, the count of its values and the values. */
#ifndef DOCUMENT_H
#define DOCUMENT_H

#include "utils.h"

enum field_kind { WORD, WORDS, PAIRS, NUMBER, FLAG };
#define TYPE_WORD const char * /* NULL where the document doesn't have it */
#define TYPE_WORDS struct strv
#define TYPE_PAIRS struct strv /* of an even count */
#define TYPE_NUMBER long       /* -1 where the document doesn't have it, else at most 15 digits */
#define TYPE_FLAG bool         /* it is there, without a value */

struct field {
    const char *name;
    enum field_kind kind;
    size_t at; /* in the filled struct */
};

struct document {
    const char *name, *version, *what; /* what it is, for messages */
    const struct field *fields;
    size_t count;
};

/* Fills `into`, which is all zeros. `content` is changed and has to stay. NULL, or the fault, with the field's name. */
const char *document_parse(char *content, size_t length, const struct document *document, void *into);

#endif
