/*
 * Instances of a JSON Schema: some that fit it, and some that do not, each wrong in one way. What
 * is made is checked with the real checker, and what is not as it was meant is left out; so a
 * schema past what is understood here gives fewer instances, never false ones.
 */
#ifndef KAGED_KIT_GENERATE_H
#define KAGED_KIT_GENERATE_H

#include "schema/schema.h"

#define KIT_INSTANCES_MAX 16

struct kit_instance {
    char *json; /* owned, like the next */
    char *what; /* "all properties", "without \"text\"" */
};
struct kit_instances {
    struct kit_instance items[KIT_INSTANCES_MAX];
    size_t count;
};
void kit_instances_free(struct kit_instances *instances); /* also for kg_auto */

/* `document` is what the schema was compiled of. The first is the smallest. */
void kit_generate_valid(const struct kg_node *document, const struct schema *schema,
                        struct kit_instances *ret_instances);
/* Objects only: nothing else can be the params of a request. */
void kit_generate_invalid(const struct kg_node *document, const struct schema *schema,
                          struct kit_instances *ret_instances);

/* A text that the pattern may match: its literals, and the first of each choice. See sample.c. */
void kit_sample_pattern(struct kg_str pattern, struct kg_buf *out);

#endif
