/* Parses `launch.plan` with the table in fields.h; any version other than 2 is an error. */

#include "plan.h"

static const struct field fields[] = {
#define FIELD(kind, name) {#name, kind, offsetof(struct plan, name)},
#define IN(section, kind, name) {#section "." #name, kind, offsetof(struct plan, section.name)},
#define SECTION(name)
#define END(name)
#include "fields.h"
};
static const struct document document = {"sandwright-launch", "2", "plan of a launcher", fields, sizeof fields / sizeof *fields};

const char *plan_parse(char *content, size_t length, struct plan *plan)
{
    memset(plan, 0, sizeof *plan);
    const char *fault = document_parse(content, length, &document, plan);
    return fault != NULL ? fault : plan->method == NULL ? "method: missing" : NULL;
}
