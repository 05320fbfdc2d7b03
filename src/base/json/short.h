/* For writers whose room is made already, on ways that every call takes. */
#ifndef KAGED_JSON_SHORT_H
#define KAGED_JSON_SHORT_H

#include "base/base.h"

#define KG_JSON_SHORT_MAX ((size_t)64)
/*
 * A text of at most so many bytes that needs no escapes, as a JSON string, to where there is room
 * for it and two quotes; returns the end. NULL for any other text: what was written does not count.
 */
char *kg_json_put_short(char *to, struct kg_str text);

#endif
