/*
 * The first check of a project's file: the published schema, schema/project-v1.json, which is
 * embedded in the program. Its errors get the stable codes of problems.def, by keyword and by
 * place.
 */
#include "project/internal.h"

static const char project_schema[] =
#include "project-schema.h"
    ;

#define NAME_FORM  "lower-case letters, digits and -, a letter first"
#define LABEL_FORM "lower-case letters, digits, - and _, a letter first"

static const char *const isolations[] = {"agent", "project", NULL};

#define ROW(symbol) &project_rows[PROJECT_##symbol]

static const struct schema_code codes[] = {
    {"/plugins", NULL, ROW(ROOT_PLUGINS),
     "move it below primary, and below each subagent that uses it: primary.plugins", NULL,
     "plugins are declared by the agent that uses them, not by the project"},
    {"/subagents", NULL, ROW(ROOT_SUBAGENTS), "move it below primary: primary.subagents", NULL,
     "subagents are the primary's"},
    {"/version", "maximum", ROW(FORMAT_UNSUPPORTED), "a newer kaged is needed"},
    {"/version", "minimum", ROW(FORMAT_UNSUPPORTED), "write version: 1"},
    {"/name", "pattern", ROW(NAME_INVALID), NAME_FORM},
    {"**/plugins/*/package", "pattern", ROW(BAD_VALUE), "such as @you/memory, or memory"},
    {"**/plugins/*/source", "pattern", ROW(SOURCE_INVALID),
     "./FOLDER below the project's root, https://..., git+https://..., npm:PACKAGE or catalog:PID",
     NULL, "must be a folder of the project, an https URL or a package of npm or the catalog"},
    {"**/plugins/*/hooks/*", "enum", ROW(UNKNOWN_HOOK), NULL, manifest_hook_names},
    {"**/plugins/*/isolation", "enum", ROW(BAD_VALUE), NULL, isolations},
    {"**/plugins", "pattern", ROW(NAME_INVALID), LABEL_FORM},
    {"**/subagents", "pattern", ROW(NAME_INVALID), LABEL_FORM},
    {"**/plugins", "maxProperties", ROW(PLUGINS_MANY)},
    {"**/subagents", "maxProperties", ROW(AGENTS_MANY)},
    {"**/tools", "pattern", ROW(NAME_INVALID), "PLUGIN.TOOL, such as memory-markdown.recall"},
    {"**/compaction/strategy", "enum", ROW(UNKNOWN_STRATEGY), NULL, project_strategy_names + 1},
    {"**/prompt/file", "pattern", ROW(BAD_VALUE), "write it relative to the project's root"},
    {NULL, "required", ROW(MISSING_KEY)},
    {NULL, "additionalProperties", ROW(UNKNOWN_KEY)},
    {NULL, "type", ROW(WRONG_TYPE)},
    {NULL, "minimum", ROW(OUT_OF_RANGE)},
    {NULL, "maximum", ROW(OUT_OF_RANGE)},
    {NULL, "exclusiveMinimum", ROW(OUT_OF_RANGE)},
    {NULL, "minLength", ROW(OUT_OF_RANGE)},
    {NULL, "maxLength", ROW(OUT_OF_RANGE)},
    {NULL, "maxProperties", ROW(OUT_OF_RANGE)},
    {NULL, NULL, ROW(BAD_VALUE)},
};

static struct schema_published published = {
    .json = {project_schema, sizeof(project_schema) - 1},
    .what = "the project",
    .codes = codes,
};

void project_published_check(const struct kg_node *root, struct kg_problems *problems)
{
    schema_published_check(&published, root, problems);
}
