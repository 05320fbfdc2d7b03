/*
 * JSON Schema, draft 2020-12 and draft-07. A schema is compiled once into a compact form and
 * checked many times; a check that passes allocates nothing. Nothing is ever fetched: references
 * reach the schema itself, the bundled metaschemas, and documents that were registered.
 */
#ifndef KAGED_SCHEMA_H
#define KAGED_SCHEMA_H

#include "base/problems.h"

/* -- documents that references may reach ------------------------------------------------------- */

struct schema_registry;
struct schema_registry *schema_registry_new(void); /* knows the metaschemas of both drafts */
void schema_registry_free(struct schema_registry *registry);
/* The text is parsed and kept under its URI (and under the $id values in it). */
int schema_registry_add(struct schema_registry *registry, struct kg_str uri, struct kg_str json,
                        struct kg_err *err);

/* -- compiling --------------------------------------------------------------------------------- */

enum schema_draft { SCHEMA_DRAFT_2020_12, SCHEMA_DRAFT_7 };

struct schema_options {
    enum schema_draft draft; /* where the document has no $schema */
    bool formats;            /* "format" is asserted for the formats that are known */
    const struct schema_registry *registry; /* NULL: the metaschemas only; outlives the schema */
};

struct schema; /* immutable; may be shared by threads */
/*
 * Copies what it keeps, so the tree may go away. A schema that is not valid itself, refers to
 * something unknown, or is past a bound (nodes, depth, pattern size) is refused with its place in
 * it: KG_E_INVALID_PARAMS, "LINE:COLUMN: #/properties/x/pattern: sentence".
 */
struct schema *schema_compile(const struct kg_node *document, const struct schema_options *options,
                              struct kg_err *err);
void schema_free(struct schema *schema);

/* -- checking ---------------------------------------------------------------------------------- */

#define SCHEMA_ERRORS_MAX 64

/* One thing that is wrong. Texts are owned by the report. */
struct schema_error {
    struct kg_str instance_path; /* JSON pointer: "/methods/2" */
    struct kg_str schema_path;   /* "#/properties/methods/items/pattern" */
    struct kg_str message;       /* a sentence: "must be a string, not number" */
    uint32_t line, column;       /* of the instance's node; of its key if the property is unknown */
};
struct schema_report {
    struct kg_arena *arena; /* owned; NULL while there is no error */
    struct schema_error *errors;
    size_t count;
    bool truncated; /* there were more than SCHEMA_ERRORS_MAX */
    bool gave_up;   /* the check was past its bound of work; it did not pass */
};
void schema_report_free(struct schema_report *report); /* also for kg_auto */

/* True if the instance fits. With a report (zeroed), every error is collected up to the bound. */
bool schema_check(const struct schema *schema, const struct kg_node *instance,
                  struct schema_report *report_or_null);

/*
 * A new document: the instance with the "default" of each absent property put in, as far as they
 * are reached through properties, $ref and allOf. The instance is not changed.
 */
struct kg_doc *schema_with_defaults(const struct schema *schema, const struct kg_node *instance);

/* -- published schemas: what they find wrong gets a stable code -------------------------------- */

/* By place and by keyword; the first row that fits is taken. */
struct schema_code {
    const char *place;   /* of the instance; "*" is any one segment, "**" at its start any number;
                            NULL: anywhere */
    const char *keyword; /* NULL: any */
    const struct kg_problem_row *row;
    const char *hint;         /* NULL: the sentence says it all */
    const char *const *words; /* NULL-ended; the nearest to a text is suggested. NULL: none */
    const char *sentence;     /* in the place of the checker's; NULL: that one will do */
};

/* A schema of ours, embedded in the program. */
struct schema_published {
    struct kg_str json;
    const char *what;                /* "the manifest" */
    const struct schema_code *codes; /* the last row fits everything */
    struct schema *schema;           /* compiled at the first use, lives as long as the program */
};
/* A NUL in a text of the instance is a problem, too, with the last row's code. */
void schema_published_check(struct schema_published *published, const struct kg_node *root,
                            struct kg_problems *problems);

#endif
