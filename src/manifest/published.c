/*
 * The first check of a manifest: the published schema, schema/plugin-manifest-v1.json, which is
 * embedded in the program. Its errors get the stable codes of problems.def, by keyword and by
 * place.
 */
#include "manifest/internal.h"

static const char manifest_schema[] =
#include "manifest-schema.h"
    ;

#define METHOD_FORM "two to four words of lower-case letters, digits and _, with dots between"

static const char *const roles[] = {"observer", "compactor", NULL};
static const char *const starts[] = {"daemon", "first-use", NULL};

static const struct schema_code codes[] = {
    {"/hooks/*", "enum", &manifest_rows[MANIFEST_UNKNOWN_HOOK], NULL, manifest_hook_names},
    {"/roles/*", "enum", &manifest_rows[MANIFEST_UNKNOWN_ROLE], NULL, roles},
    {"/role", "enum", &manifest_rows[MANIFEST_UNKNOWN_ROLE], NULL, roles},
    {"/process", "enum", &manifest_rows[MANIFEST_BAD_VALUE], NULL, manifest_process_names},
    {"/start", "enum", &manifest_rows[MANIFEST_BAD_VALUE], NULL, starts},
    {"/tools/*/name", "pattern", &manifest_rows[MANIFEST_TOOL_NAME],
     "one word of lower-case letters, digits and _"},
    {"/methods/*", "pattern", &manifest_rows[MANIFEST_METHOD_NAME], METHOD_FORM},
    {"/notifications/*", "pattern", &manifest_rows[MANIFEST_METHOD_NAME], METHOD_FORM},
    {"/name", "pattern", &manifest_rows[MANIFEST_NAME_INVALID],
     "lower-case letters, digits and -, a letter first"},
    {"/version", "pattern", &manifest_rows[MANIFEST_VERSION_INVALID],
     "three numbers and dots, such as 1.4.2"},
    {"/description", "pattern", &manifest_rows[MANIFEST_BAD_VALUE], "write it as one line"},
    {"/kaged_api", "maximum", &manifest_rows[MANIFEST_API_UNSUPPORTED], "a newer kaged is needed"},
    {"/kaged_api", "minimum", &manifest_rows[MANIFEST_API_UNSUPPORTED], NULL},
    {NULL, "required", &manifest_rows[MANIFEST_MISSING_KEY], NULL},
    {NULL, "additionalProperties", &manifest_rows[MANIFEST_UNKNOWN_KEY], NULL},
    {NULL, "propertyNames", &manifest_rows[MANIFEST_BAD_VALUE], NULL},
    {NULL, "type", &manifest_rows[MANIFEST_WRONG_TYPE], NULL},
    {NULL, "minimum", &manifest_rows[MANIFEST_OUT_OF_RANGE], NULL},
    {NULL, "maximum", &manifest_rows[MANIFEST_OUT_OF_RANGE], NULL},
    {NULL, "exclusiveMinimum", &manifest_rows[MANIFEST_OUT_OF_RANGE], NULL},
    {NULL, "minLength", &manifest_rows[MANIFEST_OUT_OF_RANGE], NULL},
    {NULL, "maxLength", &manifest_rows[MANIFEST_OUT_OF_RANGE], NULL},
    {NULL, "minItems", &manifest_rows[MANIFEST_OUT_OF_RANGE], NULL},
    {NULL, "maxItems", &manifest_rows[MANIFEST_OUT_OF_RANGE], NULL},
    {NULL, "maxProperties", &manifest_rows[MANIFEST_OUT_OF_RANGE], NULL},
    {NULL, NULL, &manifest_rows[MANIFEST_BAD_VALUE], NULL},
};

static struct schema_published published = {
    .json = {manifest_schema, sizeof(manifest_schema) - 1},
    .what = "the manifest",
    .codes = codes,
};

void published_check(const struct kg_node *root, struct kg_problems *problems)
{
    schema_published_check(&published, root, problems);
}
