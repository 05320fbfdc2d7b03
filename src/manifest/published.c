/*
 * The first check of a manifest: the published schema, schema/plugin-manifest-v1.json, which is
 * embedded in the program. Its errors get the stable codes of problems.def, by keyword and by
 * place.
 */
#include "manifest/internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define HINT_MAX 64

static const char manifest_schema[] =
#include "manifest-schema.h"
    ;

static struct schema *published; /* compiled at the first use, lives as long as the program */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void compile(void)
{
    struct kg_err err;
    const struct schema_options options = {.draft = SCHEMA_DRAFT_2020_12, .formats = true};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read((struct kg_str){manifest_schema, sizeof(manifest_schema) - 1}, &err);
    if (doc != NULL)
        published = schema_compile(doc->root, &options, &err);
    if (published == NULL) {
        kg_log(KG_ERROR_LEVEL, "the published manifest schema: %s", err.message);
        abort(); /* it is ours, and every build tests it */
    }
}

#define METHOD_FORM "two to four words of lower-case letters, digits and _, with dots between"

/* A place, where it decides; "*" is any one segment. The first row that fits is taken. */
static const struct code_row {
    const char *place;   /* of the instance; NULL: anywhere */
    const char *keyword; /* NULL: any */
    enum manifest_code code;
    const char *hint; /* NULL: the sentence says it all */
} codes[] = {
    {"/hooks/*", "enum", MANIFEST_UNKNOWN_HOOK, NULL},
    {"/roles/*", "enum", MANIFEST_UNKNOWN_ROLE, NULL},
    {"/role", "enum", MANIFEST_UNKNOWN_ROLE, NULL},
    {"/tools/*/name", "pattern", MANIFEST_TOOL_NAME,
     "one word of lower-case letters, digits and _"},
    {"/methods/*", "pattern", MANIFEST_METHOD_NAME, METHOD_FORM},
    {"/notifications/*", "pattern", MANIFEST_METHOD_NAME, METHOD_FORM},
    {"/name", "pattern", MANIFEST_NAME_INVALID, "lower-case letters, digits and -, a letter first"},
    {"/version", "pattern", MANIFEST_VERSION_INVALID, "three numbers and dots, such as 1.4.2"},
    {"/description", "pattern", MANIFEST_BAD_VALUE, "write it as one line"},
    {"/kaged_api", "maximum", MANIFEST_API_UNSUPPORTED, "a newer kaged is needed"},
    {"/kaged_api", "minimum", MANIFEST_API_UNSUPPORTED, NULL},
    {NULL, "required", MANIFEST_MISSING_KEY, NULL},
    {NULL, "additionalProperties", MANIFEST_UNKNOWN_KEY, NULL},
    {NULL, "propertyNames", MANIFEST_BAD_VALUE, NULL},
    {NULL, "type", MANIFEST_WRONG_TYPE, NULL},
    {NULL, "minimum", MANIFEST_OUT_OF_RANGE, NULL},
    {NULL, "maximum", MANIFEST_OUT_OF_RANGE, NULL},
    {NULL, "exclusiveMinimum", MANIFEST_OUT_OF_RANGE, NULL},
    {NULL, "minLength", MANIFEST_OUT_OF_RANGE, NULL},
    {NULL, "maxLength", MANIFEST_OUT_OF_RANGE, NULL},
    {NULL, "minItems", MANIFEST_OUT_OF_RANGE, NULL},
    {NULL, "maxItems", MANIFEST_OUT_OF_RANGE, NULL},
    {NULL, "maxProperties", MANIFEST_OUT_OF_RANGE, NULL},
    {NULL, NULL, MANIFEST_BAD_VALUE, NULL},
};

static struct kg_str next_segment(struct kg_str *path)
{
    const char *start = path->data + 1; /* behind the slash */
    size_t rest = path->length - 1;
    const char *slash = memchr(start, '/', rest);
    struct kg_str segment = {start, slash ? (size_t)(slash - start) : rest};
    *path = (struct kg_str){start + segment.length, rest - segment.length};
    return segment;
}

static bool place_fits(const char *pattern, struct kg_str path)
{
    struct kg_str rest = kg_str(pattern);
    while (rest.length > 0 && path.length > 0) {
        struct kg_str wanted = next_segment(&rest), segment = next_segment(&path);
        if (!kg_str_is(wanted, "*") && !kg_str_equal(wanted, segment))
            return false;
    }
    return rest.length == 0 && path.length == 0;
}

static struct kg_str keyword_of(struct kg_str schema_path)
{
    size_t start = schema_path.length;
    while (start > 0 && schema_path.data[start - 1] != '/')
        start--;
    return (struct kg_str){schema_path.data + start, schema_path.length - start};
}

static const struct code_row *row_of(const struct schema_error *error)
{
    struct kg_str keyword = keyword_of(error->schema_path);
    size_t i = 0;
    while ((codes[i].place != NULL && !place_fits(codes[i].place, error->instance_path)) ||
           (codes[i].keyword != NULL && !kg_str_is(keyword, codes[i].keyword)))
        i++;
    return &codes[i];
}

/* The value that a path leads to; NULL if a key on the way has a character that paths escape. */
static const struct kg_node *node_at(const struct kg_node *node, struct kg_str path)
{
    while (path.length > 0 && node != NULL) {
        struct kg_str segment = next_segment(&path);
        const struct kg_member *member = kg_node_member(node, segment);
        int64_t index = 0;
        if (node->type == KG_ARRAY && kg_str_to_int(segment, &index) && index < node->count)
            node = &node->items[index];
        else
            node = member ? &member->value : NULL;
    }
    return node;
}

/* What to do, for the author: the nearest of the values that are allowed, or how to write it. */
static const char *hint_of(const struct code_row *row, const struct schema_error *error,
                           const struct kg_node *root, char text[HINT_MAX])
{
    static const char *const roles[] = {"observer", "compactor"};
    const struct kg_node *node = node_at(root, error->instance_path);
    const char *nearest = NULL;
    if (node == NULL)
        return row->hint;
    if (row->code == MANIFEST_WRONG_TYPE && (node->type == KG_NUMBER || node->type == KG_BOOL) &&
        kg_str_starts(error->message, "must be a string"))
        return "put quotes around it";
    if (row->code == MANIFEST_UNKNOWN_HOOK && node->type == KG_STRING)
        nearest = kg_str_nearest(node->text, manifest_hook_names, MANIFEST_HOOK_COUNT);
    if (row->code == MANIFEST_UNKNOWN_ROLE && node->type == KG_STRING)
        nearest = kg_str_nearest(node->text, roles, KG_COUNT(roles));
    if (nearest == NULL)
        return row->hint;
    snprintf(text, HINT_MAX, "did you mean %s?", nearest);
    return text;
}

void published_check(const struct kg_node *root, struct manifest_problems *problems)
{
    pthread_once(&once, compile);
    kg_auto(schema_report_free) struct schema_report report = {0};
    if (schema_check(published, root, &report))
        return;
    for (size_t i = 0; i < report.count; i++) {
        const struct schema_error *error = &report.errors[i];
        const struct code_row *row = row_of(error);
        struct kg_str place = error->instance_path;
        char text[HINT_MAX];
        const char *hint = hint_of(row, error, root, text);
        if (place.length > 0)
            problems_add(problems, row->code, error->line, error->column, hint, "%.*s: %.*s",
                         KG_STR_CUT(((struct kg_str){place.data + 1, place.length - 1}), 100),
                         KG_STR_CUT(error->message, 600));
        else
            problems_add(problems, row->code, error->line, error->column, hint, "the manifest %.*s",
                         KG_STR_CUT(error->message, 600));
    }
}
