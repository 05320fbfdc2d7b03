/* Manifests: every problem with its place and code, the rules one by one, and hostile ones. */
#include "manifest/manifest.h"

#include "base/doc.h"
#include "cpu.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* -- helpers ---------------------------------------------------------------------------------- */

/* A manifest that is fine, one entry a key and a line; what is added starts on line 8. */
static const struct entry {
    const char *key, *text;
} entries[] = {
    {"name", "name: oh-my-pi\n"},
    {"version", "version: 1.4.2\n"},
    {"kaged_api", "kaged_api: 1\n"},
    {"description", "description: Presets.\n"},
    {"command", "command: [./run, --fast]\n"},
    {"capabilities", "capabilities: []\n"},
    {"methods", "methods: [presets.list]\n"},
};

/* It, with another text for one key (or one more key). */
static struct kg_buf manifest_with(const char *key, const char *text)
{
    struct kg_buf yaml = {0};
    bool replaced = false;
    for (size_t i = 0; i < KG_COUNT(entries); i++) {
        bool this_one = strcmp(entries[i].key, key) == 0;
        kg_buf_text(&yaml, this_one ? text : entries[i].text);
        replaced |= this_one;
    }
    if (!replaced)
        kg_buf_text(&yaml, text);
    return yaml;
}

static struct manifest *read_with(const char *key, const char *text, struct kg_problems *problems)
{
    kg_auto(kg_buf_free) struct kg_buf yaml = manifest_with(key, text);
    return manifest_read(kg_buf_view(&yaml), problems);
}

/* "LINE:COLUMN code message" of each problem, a line each. */
static char *listing(const struct kg_problems *problems)
{
    struct kg_buf out = {0};
    for (size_t i = 0; i < problems->count; i++) {
        const struct kg_problem *problem = &problems->items[i];
        kg_buf_printf(&out, "%u:%u %s %s\n", problem->line, problem->column, problem->row->code,
                      problem->message);
    }
    return kg_buf_terminate(&out);
}

static void fail_with(const char *text, const struct kg_problems *problems)
{
    kg_auto(kg_free) char *all = listing(problems);
    fail_msg("%.300s:\n%s", text, all);
}

static struct manifest *must_read(struct kg_str text)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest = manifest_read(text, &problems);
    if (manifest == NULL)
        fail_with(text.data, &problems);
    return manifest;
}

static struct manifest *must_read_with(const char *key, const char *text)
{
    kg_auto(kg_buf_free) struct kg_buf yaml = manifest_with(key, text);
    return must_read(kg_buf_view(&yaml));
}

/* Read, and without a warning. */
static void assert_taken(const char *key, const char *text)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest = read_with(key, text, &problems);
    if (manifest == NULL || problems.count > 0)
        fail_with(text, &problems);
    manifest_free(manifest);
}

/* One problem of that code, with a place, with these words in its message or hint; no other. */
static void assert_refused(const char *key, const char *text, enum manifest_code code,
                           const char *words)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest = read_with(key, text, &problems);
    if (manifest != NULL)
        fail_msg("%.200s was taken", text);
    const struct kg_problem *problem = problems.items;
    if (problems.count != 1 || problem->row != &manifest_rows[code] || problem->line == 0 ||
        (strstr(problem->message, words) == NULL &&
         (problem->hint == NULL || strstr(problem->hint, words) == NULL)))
        fail_with(text, &problems);
}

struct rule {
    const char *text;
    enum manifest_code code;
    const char *words; /* NULL: it is taken */
};

static void check_rules(const char *key, const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rules[i].words == NULL)
            assert_taken(key, rules[i].text);
        else
            assert_refused(key, rules[i].text, rules[i].code, rules[i].words);
    }
}

#define CHECK_RULES(key, rules) check_rules(key, rules, KG_COUNT(rules))

static struct kg_buf repeated(const char *before, const char *piece, size_t count,
                              const char *after)
{
    struct kg_buf text = {0};
    kg_buf_text(&text, before);
    for (size_t i = 0; i < count; i++)
        kg_buf_text(&text, piece);
    kg_buf_text(&text, after);
    kg_buf_terminate(&text);
    return text;
}

/* -- the whole -------------------------------------------------------------------------------- */

/* The full example of the document, with a custom method's schemas and timeout beside it. */
static const char full_example[] = "name: memory-markdown\n"
                                   "package: \"@kaged/memory-markdown\"\n"
                                   "version: 0.1.0-rc.1\n"
                                   "kaged_api: 1\n"
                                   "description: >-\n"
                                   "  Markdown-file-backed\n"
                                   "  agent memory.\n"
                                   "author: kaged\n"
                                   "license: MIT\n"
                                   "homepage: https://github.com/kaged/memory-markdown\n"
                                   "command:\n"
                                   "  - /usr/bin/env\n"
                                   "  - bun\n"
                                   "  - ./dist/index.js\n"
                                   "env:\n"
                                   "  LOG_LEVEL: info\n"
                                   "  EMPTY: \"\"\n"
                                   "capabilities:\n"
                                   "  - read:fs:config:/other\n"
                                   "  - write:fs:config:/memory\n"
                                   "  - kaged:storage:read\n"
                                   "  - net: []\n"
                                   "roles:\n"
                                   "  - observer\n"
                                   "hooks:\n"
                                   "  - on_session_start\n"
                                   "  - on_session_idle\n"
                                   "  - pre_compact\n"
                                   "  - post_compact\n"
                                   "tools:\n"
                                   "  - name: retain\n"
                                   "    description: \"Store information in long-term memory.\"\n"
                                   "    parameters_schema:\n"
                                   "      type: object\n"
                                   "      properties:\n"
                                   "        content: { type: string }\n"
                                   "        context: { type: string }\n"
                                   "        tags: { type: array, items: { type: string } }\n"
                                   "      required: [content]\n"
                                   "  - name: recall\n"
                                   "    description: \"Search long-term memory.\"\n"
                                   "methods:\n"
                                   "  - presets.list\n"
                                   "  - presets.apply\n"
                                   "schemas:\n"
                                   "  presets.list:\n"
                                   "    params: { type: object }\n"
                                   "    result: { type: array, items: { type: string } }\n"
                                   "timeouts:\n"
                                   "  presets.apply: 120\n"
                                   "notifications:\n"
                                   "  - catalog.updated\n"
                                   "config_schema:\n"
                                   "  type: object\n"
                                   "  properties:\n"
                                   "    isolation:\n"
                                   "      type: string\n"
                                   "      enum: [agent, project]\n"
                                   "      default: agent\n"
                                   "    store:\n"
                                   "      type: string\n"
                                   "      default: \"config:/memory\"\n"
                                   "    every: { type: integer, minimum: 1 }\n"
                                   "    model: { type: [string, \"null\"] }\n"
                                   "  additionalProperties: false\n"
                                   "system_config_schema:\n"
                                   "  type: object\n"
                                   "  properties:\n"
                                   "    api_token: { type: string }\n"
                                   "  required: [api_token]\n"
                                   "  additionalProperties: false\n"
                                   "knobs:\n"
                                   "  store:\n"
                                   "    type: path\n"
                                   "    label: \"Storage location\"\n"
                                   "    description: \"Where memory files are stored.\"\n"
                                   "    prefixes: [\"config:\", \"project:\"]\n"
                                   "    default: \"config:/memory\"\n"
                                   "    binds_to: \"config.store\"\n"
                                   "  isolation:\n"
                                   "    type: enum\n"
                                   "    label: \"Isolation scope\"\n"
                                   "    values: [agent, project]\n"
                                   "    labels: { agent: \"One each\", project: \"Shared\" }\n"
                                   "    default: agent\n"
                                   "    binds_to: \"config.isolation\"\n"
                                   "  every:\n"
                                   "    type: int_range\n"
                                   "    label: \"Auto-retain frequency\"\n"
                                   "    min: 1\n"
                                   "    max: 20\n"
                                   "    step: 1\n"
                                   "    default: 3\n"
                                   "    binds_to: \"config.every\"\n"
                                   "  model:\n"
                                   "    type: model_alias\n"
                                   "    label: \"Reflection model\"\n"
                                   "    filter: reasoning\n"
                                   "    default: null\n"
                                   "    binds_to: \"config.model\"\n"
                                   "shutdown_timeout_sec: 5\n"
                                   "health_interval_sec: 30\n"
                                   "hook_timeout_sec: 10\n";

static void the_full_example_has_no_problem(void **state)
{
    (void)state;
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest = manifest_read(kg_str(full_example), &problems);
    if (manifest == NULL || problems.count > 0)
        fail_with(full_example, &problems);
    manifest_free(manifest);
}

static void who_it_is_and_what_it_runs_is_read(void **state)
{
    (void)state;
    struct manifest *manifest = must_read(kg_str(full_example));
    assert_string_equal(manifest->name, "memory-markdown");
    assert_string_equal(manifest->package, "@kaged/memory-markdown");
    assert_string_equal(manifest->version, "0.1.0-rc.1");
    assert_int_equal(manifest->kaged_api, 1);
    assert_string_equal(manifest->description, "Markdown-file-backed agent memory.");
    assert_string_equal(manifest->author, "kaged");
    assert_string_equal(manifest->license, "MIT");
    assert_string_equal(manifest->homepage, "https://github.com/kaged/memory-markdown");
    assert_int_equal(kg_list_count(manifest->command), 3);
    assert_string_equal(manifest->command[2], "./dist/index.js");
    assert_string_equal(manifest->env[0], "LOG_LEVEL=info");
    assert_string_equal(manifest->env[1], "EMPTY=");
    assert_int_equal(manifest->shutdown_timeout_sec, 5);
    assert_int_equal(manifest->health_interval_sec, 30);
    assert_int_equal(manifest->hook_timeout_sec, 10);
    manifest_free(manifest);
}

static void what_it_needs_and_offers_is_read(void **state)
{
    (void)state;
    struct manifest *manifest = must_read(kg_str(full_example));
    assert_int_equal(kg_list_count(manifest->capabilities), 4);
    assert_int_equal(manifest->capability_set.count, 4);
    assert_string_equal(manifest->capabilities[1], "write:fs:config:/memory");
    assert_string_equal(manifest->capabilities[3], "net:[]");
    assert_int_equal(manifest->roles, MANIFEST_OBSERVER);
    for (size_t i = 0; i < MANIFEST_HOOK_COUNT; i++)
        assert_true(manifest->hooks[i]);
    assert_int_equal(manifest->tool_count, 2);
    assert_string_equal(manifest->tools[0].name, "retain");
    assert_non_null(manifest->tools[0].parameters);
    assert_string_equal(manifest->tools[1].description, "Search long-term memory.");
    assert_null(manifest->tools[1].parameters);
    assert_null(manifest->tools[1].parameters_node);
    assert_string_equal(manifest->method_names[1], "presets.apply");
    assert_string_equal(manifest->notifications[0], "catalog.updated");
    manifest_free(manifest);
}

static void methods_have_their_schemas_and_timeouts(void **state)
{
    (void)state;
    struct manifest *manifest = must_read(kg_str(full_example));
    const struct manifest_method *list = manifest_method_find(manifest, KG_STR("presets.list"));
    const struct manifest_method *apply = manifest_method_find(manifest, KG_STR("presets.apply"));
    kg_auto(kg_doc_cleanup) struct kg_doc *texts = kg_json_read(KG_STR("[\"a\"]"), NULL);
    kg_auto(kg_doc_cleanup) struct kg_doc *numbers = kg_json_read(KG_STR("[1]"), NULL);
    assert_true(schema_check(list->result, texts->root, NULL));
    assert_false(schema_check(list->result, numbers->root, NULL));
    assert_false(schema_check(list->params, texts->root, NULL));
    assert_int_equal(list->timeout_ms, 0);
    assert_null(apply->params);
    assert_null(apply->result);
    assert_int_equal(apply->timeout_ms, 120000);
    assert_null(manifest_method_find(manifest, KG_STR("presets")));
    manifest_free(manifest);
}

static void tools_have_timeouts_by_either_name(void **state)
{
    (void)state;
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest = read_with("tools",
                                          "tools:\n"
                                          "  - {name: find, description: a}\n"
                                          "  - {name: keep, description: b}\n"
                                          "  - {name: drop, description: c}\n"
                                          "timeouts: {find: 5, oh-my-pi.keep: 90}\n",
                                          &problems);
    assert_non_null(manifest);
    assert_int_equal(manifest_tool_find(manifest, KG_STR("find"))->timeout_ms, 5000);
    assert_int_equal(manifest_tool_find(manifest, KG_STR("keep"))->timeout_ms, 90000);
    assert_int_equal(manifest_tool_find(manifest, KG_STR("drop"))->timeout_ms, 0);
    assert_null(manifest_tool_find(manifest, KG_STR("oh-my-pi.keep")));
    manifest_free(manifest);
}

static void configuration_and_knobs_are_read(void **state)
{
    (void)state;
    struct manifest *manifest = must_read(kg_str(full_example));
    kg_auto(kg_doc_cleanup) struct kg_doc *empty = kg_json_read(KG_STR("{}"), NULL);
    assert_true(schema_check(manifest->config_schema, empty->root, NULL));
    assert_false(schema_check(manifest->system_config_schema, empty->root, NULL));
    assert_non_null(kg_node_get(manifest->config_schema_node, "properties"));
    assert_non_null(kg_node_get(manifest->system_config_schema_node, "required"));
    assert_int_equal(manifest->knob_count, 4);
    assert_string_equal(manifest->knobs[2].name, "every");
    assert_string_equal(manifest->knobs[2].type, "int_range");
    assert_string_equal(manifest->knobs[2].field, "every");
    assert_non_null(kg_node_get(manifest->knobs[2].node, "max"));
    manifest_free(manifest);
}

static void what_is_absent_is_empty(void **state)
{
    (void)state;
    struct manifest *manifest = must_read_with("methods", "methods: [presets.list]\n");
    assert_null(manifest->author);
    assert_int_equal(kg_list_count(manifest->env), 0);
    assert_int_equal(kg_list_count(manifest->notifications), 0);
    assert_int_equal(kg_list_count(manifest->capabilities), 0);
    assert_int_equal(manifest->tool_count + manifest->knob_count, 0);
    assert_null(manifest->config_schema);
    assert_null(manifest->system_config_schema_node);
    assert_int_equal(manifest->roles, 0);
    assert_int_equal(manifest->shutdown_timeout_sec, 0);
    manifest_free(manifest);
    manifest_free(NULL);
}

/* -- problems --------------------------------------------------------------------------------- */

#define SCHEMAS                                                                                    \
    "config_schema: {type: object, properties: {a: {type: string}, n: {type: integer}}}\n"         \
    "system_config_schema: {type: object, properties: {token: {type: string}}}\n"

/* For each code a manifest that has this problem, at this place, and no other. */
static const struct sample {
    enum manifest_code code;
    const char *key, *text;
    uint32_t line, column;
} samples[] = {
    {MANIFEST_YAML, "author", "author: \"open\n", 8, 9},
    {MANIFEST_YAML, "author", "author: a\nauthor: b\n", 9, 1},
    {MANIFEST_MISSING_KEY, "version", "", 1, 1},
    {MANIFEST_MISSING_KEY, "tools", "tools:\n  - name: x\n", 9, 5},
    {MANIFEST_UNKNOWN_KEY, "licence", "licence: MIT\n", 8, 1},
    {MANIFEST_UNKNOWN_KEY, "tools", "tools: [{name: x, description: y, param: {}}]\n", 8, 35},
    {MANIFEST_WRONG_TYPE, "command", "command: ./run\n", 5, 10},
    {MANIFEST_WRONG_TYPE, "env", "env:\n  PORT: 80\n", 9, 9},
    {MANIFEST_OUT_OF_RANGE, "hook_timeout_sec", "hook_timeout_sec: 61\n", 8, 19},
    {MANIFEST_OUT_OF_RANGE, "timeouts", "timeouts: {presets.list: 3601}\n", 8, 26},
    {MANIFEST_BAD_VALUE, "homepage", "homepage: \"my page\"\n", 8, 11},
    {MANIFEST_BAD_VALUE, "env", "env: {A-B: x}\n", 8, 7},
    {MANIFEST_NAME_INVALID, "name", "name: Oh_My\n", 1, 7},
    {MANIFEST_NAME_BUILTIN, "name", "name: shell\n", 1, 7},
    {MANIFEST_PACKAGE_NAME, "package", "package: \"@x/oh-my-pie\"\n", 8, 10},
    {MANIFEST_VERSION_INVALID, "version", "version: v1\n", 2, 10},
    {MANIFEST_API_UNSUPPORTED, "kaged_api", "kaged_api: 2\n", 3, 12},
    {MANIFEST_CAPABILITY_INVALID, "capabilities", "capabilities:\n  - read:fs:x\n", 7, 5},
    {MANIFEST_CAPABILITY_INVALID, "capabilities", "capabilities: [net: [\"x:70000\"]]\n", 6, 22},
    {MANIFEST_CAPABILITY_REDUNDANT, "capabilities",
     "capabilities: [\"read:fs:/opt\", \"read:fs:/opt/x\"]\n", 6, 32},
    {MANIFEST_ENV_RESERVED, "env", "env: {KAGED_PLUGIN_NAME: x}\n", 8, 26},
    {MANIFEST_UNKNOWN_ROLE, "roles", "roles: [observer, boss]\n", 8, 19},
    {MANIFEST_UNKNOWN_ROLE, "role", "role: boss\n", 8, 7},
    {MANIFEST_ROLE_TWICE, "role", "role: observer\nroles: [observer]\n", 8, 7},
    {MANIFEST_ROLE_WITHOUT_HOOK, "roles", "roles: [compactor]\nhooks: [post_compact]\n", 8, 8},
    {MANIFEST_ROLE_WITHOUT_HOOK, "role", "role: compactor\n", 8, 7},
    {MANIFEST_BAD_VALUE, "process", "process: alone\n", 8, 10},
    {MANIFEST_BAD_VALUE, "start", "start: later\n", 8, 8},
    {MANIFEST_OUT_OF_RANGE, "idle_after", "idle_after: 0\n", 8, 13},
    {MANIFEST_PROCESS_SHARED, "capabilities",
     "capabilities: [\"read:fs:project:/\"]\nprocess: shared\n", 7, 10},
    {MANIFEST_UNKNOWN_HOOK, "hooks", "hooks: [pre_compact, pre_compat]\n", 8, 22},
    {MANIFEST_TOOL_NAME, "tools", "tools: [{name: a.b, description: x}]\n", 8, 16},
    {MANIFEST_TOOL_NAME, "name", "name: e\ntools: [{name: a, description: x}]\n", 1, 7},
    {MANIFEST_TOOL_TWICE, "tools",
     "tools:\n  - {name: a, description: x}\n  - {name: a, description: y}\n", 10, 12},
    {MANIFEST_METHOD_NAME, "methods", "methods: [a.b, list]\n", 7, 16},
    {MANIFEST_METHOD_NAME, "notifications", "notifications: [A.b]\n", 8, 17},
    {MANIFEST_METHOD_RESERVED, "methods", "methods: [a.b, config.update]\n", 7, 16},
    {MANIFEST_METHOD_UNKNOWN, "timeouts", "timeouts: {presets.lits: 5}\n", 8, 12},
    {MANIFEST_METHOD_UNKNOWN, "schemas", "schemas:\n  presets.get: {params: {}}\n", 9, 3},
    {MANIFEST_NOTHING_OFFERED, "methods", "", 1, 1},
    {MANIFEST_SCHEMA_INVALID, "config_schema",
     "config_schema:\n  properties:\n    a: {type: strin}\n", 10, 15},
    {MANIFEST_SCHEMA_INVALID, "schemas",
     "schemas:\n  presets.list:\n    params: {pattern: \"(\"}\n", 10, 23},
    {MANIFEST_CONFIG_OVERLAP, "config_schema",
     "config_schema: {properties: {a: {}}}\nsystem_config_schema: {properties: {a: {}}}\n", 9, 37},
    {MANIFEST_CONFIG_RESERVED, "system_config_schema",
     "system_config_schema: {properties: {hash: {}}}\n", 8, 37},
    {MANIFEST_KNOB_SYSTEM, "knobs",
     SCHEMAS "knobs:\n"
             "  k: {type: text, label: K, default: x, binds_to: config.token}\n",
     11, 51},
    {MANIFEST_KNOB_SYSTEM, "knobs",
     SCHEMAS "knobs:\n"
             "  k: {type: text, label: K, default: x, binds_to: system_config.token}\n",
     11, 51},
    {MANIFEST_KNOB_UNBOUND, "knobs",
     SCHEMAS "knobs:\n"
             "  k: {type: text, label: K, default: x, binds_to: config.b}\n",
     11, 51},
    {MANIFEST_KNOB_DEFAULT, "knobs",
     SCHEMAS "knobs:\n  k: {type: int_range, label: K, min: 1, max: 5, step: 1, default: 6,\n"
             "      binds_to: config.n}\n",
     11, 6},
    {MANIFEST_NOT_OF_MCP, "methods", "protocol: mcp\nmethods: [a.b]\n", 8, 10},
    {MANIFEST_REMOTE_INVALID, "methods", "protocol: mcp\nurl: https://example.org/mcp\n", 8, 6},
    {MANIFEST_KNOB_TYPE, "knobs",
     SCHEMAS "knobs:\n"
             "  k: {type: boolean, label: K, default: true, binds_to: config.a}\n",
     11, 6},
};

static void check_sample(const struct sample *sample)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    const struct kg_problem_row *row = &manifest_rows[sample->code];
    bool is_error = row->severity == KG_SEVERITY_ERROR;
    struct manifest *manifest = read_with(sample->key, sample->text, &problems);
    const struct kg_problem *problem = problems.items;
    if (problems.count != 1 || problem->row != &manifest_rows[sample->code] ||
        problem->line != sample->line || problem->column != sample->column ||
        problem->message[0] == '\0' || problems.errors != is_error ||
        (manifest == NULL) != is_error)
        fail_with(sample->text, &problems);
    manifest_free(manifest);
}

static void every_problem_has_its_code_and_place(void **state)
{
    (void)state;
    bool seen[MANIFEST_CODE_COUNT] = {false};
    for (size_t i = 0; i < KG_COUNT(samples); i++) {
        seen[samples[i].code] = true;
        check_sample(&samples[i]);
    }
    for (size_t i = 0; i < MANIFEST_CODE_COUNT; i++)
        if (!seen[i])
            fail_msg("%s has no sample", manifest_rows[i].code);
}

static void codes_are_there_once_and_explained(void **state)
{
    (void)state;
    for (size_t i = 0; i < MANIFEST_CODE_COUNT; i++) {
        const struct kg_problem_row *row = &manifest_rows[i];
        assert_int_equal(strspn(row->code, "abcdefghijklmnopqrstuvwxyz_"), strlen(row->code));
        assert_int_equal(row->meaning[strlen(row->meaning) - 1], '.');
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(row->code, manifest_rows[k].code);
    }
}

static void ten_mistakes_are_ten_problems_by_place(void **state)
{
    (void)state;
    static const char text[] = "name: Ten\n"
                               "version: 1.0\n"
                               "kaged_api: 7\n"
                               "command: []\n"
                               "capabilities: [read:fs:x]\n"
                               "hooks: [on_start]\n"
                               "methods: [kaged.get, a.b]\n"
                               "timeouts: {a.c: 5}\n"
                               "licence: MIT\n";
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    assert_null(manifest_read(kg_str(text), &problems));
    kg_auto(kg_free) char *all = listing(&problems);
    kg_auto(kg_buf_free) struct kg_buf places = {0};
    for (size_t i = 0; i < problems.count; i++)
        kg_buf_printf(&places, "%u:%u %s\n", problems.items[i].line, problems.items[i].column,
                      problems.items[i].row->code);
    assert_string_equal(kg_buf_terminate(&places), "1:1 missing_key\n"
                                                   "1:7 name_invalid\n"
                                                   "2:10 wrong_type\n"
                                                   "3:12 api_unsupported\n"
                                                   "4:10 out_of_range\n"
                                                   "5:16 capability_invalid\n"
                                                   "6:9 unknown_hook\n"
                                                   "7:11 reserved_method_namespace\n"
                                                   "8:12 unknown_method\n"
                                                   "9:1 unknown_key\n");
    assert_int_equal(problems.errors, 10);
}

static void problems_suggest_the_nearest(void **state)
{
    (void)state;
    static const struct {
        const char *key, *text, *nearest;
    } rows[] = {
        {"licence", "licence: MIT\n", "license"},
        {"hooks", "hooks: [pre_compat]\n", "pre_compact"},
        {"roles", "roles: [observr]\n", "observer"},
        {"timeouts", "timeouts: {presets.lits: 5}\n", "presets.list"},
        {"timeouts", "timeouts: {fnid: 5}\ntools: [{name: find, description: y}]\n", "find"},
        {"tools", "tools: [{name: x, description: y, parameter_schema: {}}]\n",
         "parameters_schema"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_problems_free) struct kg_problems problems = {0};
        assert_null(read_with(rows[i].key, rows[i].text, &problems));
        assert_int_equal(problems.count, 1);
        const char *hint = problems.items[0].hint ? problems.items[0].hint : "";
        kg_auto(kg_free) char *all = kg_format("%s %s", problems.items[0].message, hint);
        assert_non_null(strstr(all, "did you mean"));
        assert_non_null(strstr(all, rows[i].nearest));
    }
}

static void warnings_do_not_fail(void **state)
{
    (void)state;
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest =
        read_with("name", "name: file\nenv: {KAGED_API_VERSION: \"2\"}\n", &problems);
    assert_non_null(manifest);
    assert_int_equal(problems.count, 2);
    assert_int_equal(problems.errors, 0);
    assert_ptr_equal(problems.items[0].row, &manifest_rows[MANIFEST_NAME_BUILTIN]);
    assert_ptr_equal(problems.items[1].row, &manifest_rows[MANIFEST_ENV_RESERVED]);
    manifest_free(manifest);
}

static void the_first_error_stands_for_all(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(kg_problems_free) struct kg_problems one = {0}, three = {0};
    assert_null(read_with("version", "version: one\n", &one));
    assert_true(manifest_problems_fail(&one, "/p/x.yaml", &err) < 0);
    assert_int_equal(err.code, KG_E_INVALID_MANIFEST);
    assert_true(kg_str_starts(kg_str(err.message), "/p/x.yaml:2:10: version: "));
    assert_non_null(strstr(err.message, " [version_invalid]"));
    assert_null(strstr(err.message, "more"));
    /* A warning before them is not what failed. */
    assert_null(read_with("name", "name: file\nx: 1\nauthor: 5\nhooks: [a]\n", &three));
    assert_true(manifest_problems_fail(&three, "x", &err) < 0);
    assert_true(kg_str_starts(kg_str(err.message), "x:2:1: "));
    assert_non_null(strstr(err.message, "(and 2 more)"));
}

/* The list was full of warnings when the first error came: the daemon then looked past its end. */
static void warnings_cannot_crowd_out_an_error(void **state)
{
    (void)state;
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf text =
        repeated("tools: [{name: a, description: x}, {name: a, description: y}]\ncapabilities:\n",
                 "  - read:fs:/opt\n", 300, "");
    assert_null(read_with("capabilities", text.data, &problems));
    assert_int_equal(problems.count, KG_PROBLEMS_MAX);
    assert_int_equal(problems.errors, 1);
    assert_true(manifest_problems_fail(&problems, "x", &err) < 0);
    assert_non_null(strstr(err.message, "tool_name_duplicate"));
}

static void the_list_of_problems_is_bounded(void **state)
{
    (void)state;
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_buf_free) struct kg_buf text = repeated("methods: [", "kaged.x,", 1000, "]\n");
    assert_null(read_with("methods", text.data, &problems));
    assert_int_equal(problems.count, KG_PROBLEMS_MAX);
    assert_in_range(problems.errors, 1000, 1100);
}

/* -- forms that are made one ------------------------------------------------------------------ */

static unsigned roles_of(const char *text)
{
    struct manifest *manifest = must_read_with("role", text);
    unsigned roles = manifest->roles;
    manifest_free(manifest);
    return roles;
}

static void role_and_roles_mean_the_same(void **state)
{
    (void)state;
    assert_int_equal(roles_of("role: observer\n"), MANIFEST_OBSERVER);
    assert_int_equal(roles_of("roles: [observer]\n"), MANIFEST_OBSERVER);
    assert_int_equal(roles_of("role: compactor\nhooks: [pre_compact]\n"), MANIFEST_COMPACTOR);
    assert_int_equal(roles_of("roles: [compactor, observer]\nhooks: [pre_compact]\n"),
                     MANIFEST_COMPACTOR | MANIFEST_OBSERVER);
}

static void who_has_hooks_is_an_observer(void **state)
{
    (void)state;
    assert_int_equal(roles_of("hooks: [post_compact]\n"), MANIFEST_OBSERVER);
    assert_int_equal(roles_of("hooks: []\n"), 0);
    assert_int_equal(roles_of("roles: []\nhooks: [post_compact]\n"), 0);
}

/* Of seven copies of this rule one took fewer scopes than the schema does. */
static void the_name_is_the_last_part_of_a_package(void **state)
{
    (void)state;
    static const struct {
        const char *package, *name;
        bool valid;
    } rows[] = {
        {"echo", "echo", true},
        {"@can1/oh-my-pi", "oh-my-pi", true},
        {"@can1/plugin-oh-my-pi", "oh-my-pi", true},
        {"plugin-echo", "plugin-echo", true},
        {"@can1/plugin-", "plugin-", true},
        {"@2fa/echo", "echo", true},
        {"@my.org_a-b/echo", "echo", true},
        {"@a/b/echo", "echo", false},
        {"a/echo", "echo", false},
        {"/echo", "echo", false},
        {"@/echo", "echo", false},
        {"@.a/echo", "echo", false},
        {"@A/echo", "echo", false},
        {"@a/Echo", "Echo", false},
        {"@a/", "", false},
        {"@a", "@a", false},
        {"/", "", false},
        {"", "", false},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct kg_str package = kg_str(rows[i].package);
        assert_string_equal(manifest_name_in(rows[i].package), rows[i].name);
        assert_true(kg_str_is(manifest_package_name(package), rows[i].name));
        if (manifest_package_is_valid(package) != rows[i].valid)
            fail_msg("%s is %s", rows[i].package, rows[i].valid ? "refused" : "taken");
    }
}

static void packages_are_what_the_schema_says(void **state)
{
    (void)state;
    char package[512] = "@";
    memset(package + 1, 'a', 208);
    strcpy(package + 209, "/echo");
    assert_true(manifest_package_is_valid(kg_str(package)));
    strcpy(package + 209, "x/echo");
    assert_false(manifest_package_is_valid(kg_str(package)));
}

static void the_package_is_the_name_by_default(void **state)
{
    (void)state;
    struct manifest *plain = must_read_with("package", "");
    struct manifest *bare = must_read_with("package", "package: oh-my-pi\n");
    struct manifest *scoped = must_read_with("package", "package: \"@can1/oh-my-pi\"\n");
    assert_string_equal(plain->package, "oh-my-pi");
    assert_string_equal(bare->package, "oh-my-pi");
    assert_string_equal(scoped->package, "@can1/oh-my-pi");
    manifest_free(plain);
    manifest_free(bare);
    manifest_free(scoped);
}

static void assert_capabilities(const char *text, const char *wanted)
{
    struct manifest *manifest = must_read_with("capabilities", text);
    kg_auto(kg_buf_free) struct kg_buf joined = {0};
    for (char **at = manifest->capabilities; *at != NULL; at++)
        kg_buf_printf(&joined, "%s;", *at);
    manifest_free(manifest);
    assert_string_equal(kg_buf_terminate(&joined), wanted);
}

static void net_may_be_written_as_a_map(void **state)
{
    (void)state;
    assert_capabilities("capabilities: []\n", "");
    assert_capabilities("capabilities:\n  - net: []\n", "net:[];");
    assert_capabilities("capabilities:\n  - \"net:[]\"\n", "net:[];");
    assert_capabilities("capabilities:\n  - net:api.example.com:443\n", "net:api.example.com:443;");
    assert_capabilities("capabilities:\n  - net: [\"a.b:443\", \"b.c:*\"]\n  - read:fs:/opt/x\n",
                        "net:a.b:443;net:b.c:*;read:fs:/opt/x;");
}

static void capabilities_are_kept_in_canonical_form(void **state)
{
    (void)state;
    assert_capabilities("capabilities: [\"net:API.Example.com:443\"]\n",
                        "net:api.example.com:443;");
    assert_capabilities("capabilities: [\"read:fs:/opt\", \"read:fs:/opt\"]\n", "read:fs:/opt;");
}

/* A schema takes 5.0 for an integer; the timeouts were then silently those of the daemon. */
static void whole_numbers_may_have_a_fraction_of_zero(void **state)
{
    (void)state;
    struct manifest *manifest = must_read_with(
        "kaged_api", "kaged_api: 1.0\ntimeouts: {presets.list: 5.0}\nhook_timeout_sec: 1e1\n");
    assert_int_equal(manifest->kaged_api, 1);
    assert_int_equal(manifest->methods[0].timeout_ms, 5000);
    assert_int_equal(manifest->hook_timeout_sec, 10);
    manifest_free(manifest);
}

static void assert_life(const char *key, const char *text, enum manifest_process process,
                        bool first_use)
{
    struct manifest *manifest = must_read_with(key, text);
    assert_int_equal(manifest->process, process);
    assert_int_equal(manifest->first_use, first_use);
    manifest_free(manifest);
}

static void whom_it_serves_and_when_it_starts_follow_from_what_it_offers(void **state)
{
    (void)state;
#define TOOL "tools: [{name: x, description: y}]\n"
    assert_life("methods", "methods: [presets.list]\n", MANIFEST_SHARED, false);
    assert_life("methods", TOOL, MANIFEST_PROJECT, true);
    assert_life("methods", "methods: [presets.list]\n" TOOL, MANIFEST_PROJECT, false);
    assert_life("methods", "notifications: [presets.new]\n" TOOL, MANIFEST_PROJECT, false);
    assert_life("methods", "hooks: [on_session_start]\n" TOOL, MANIFEST_PROJECT, false);
    assert_life("methods", "hooks: [on_session_start]\n", MANIFEST_PROJECT, false);
    assert_life("capabilities", "capabilities: [\"read:fs:project:/x\"]\n", MANIFEST_PROJECT,
                false);
    assert_life("methods", TOOL "process: session\nstart: daemon\n", MANIFEST_SESSION, false);
    assert_life("methods", "methods: [presets.list]\nprocess: project\nstart: first-use\n",
                MANIFEST_PROJECT, true);
#undef TOOL
}

/* -- rule by rule ----------------------------------------------------------------------------- */

static void each_required_key_is_missed_by_name(void **state)
{
    (void)state;
    static const char *const required[] = {"name",        "version", "kaged_api",
                                           "description", "command", "capabilities"};
    for (size_t i = 0; i < KG_COUNT(required); i++) {
        kg_auto(kg_free) char *words = kg_format("missing the property \"%s\"", required[i]);
        assert_refused(required[i], "", MANIFEST_MISSING_KEY, words);
    }
}

static void an_mcp_server_declares_no_tools_of_its_own(void **state)
{
    (void)state;
    kg_auto(kg_problems_free) struct kg_problems none = {0}, some = {0};
    struct manifest *server = read_with("methods", "protocol: mcp\n", &none);
    assert_non_null(server);
    assert_true(server->is_mcp);
    assert_int_equal(server->tool_count, 0);
    assert_non_null(manifest_method_find(server, KG_STR("resources/read")));
    manifest_free(server);
    assert_null(read_with("methods", "protocol: mcp\ntools: []\nhooks: [pre_compact]\n", &some));
    kg_auto(kg_free) char *listed = listing(&some);
    assert_string_equal(listed, "8:8 not_of_mcp an MCP server cannot declare tools\n"
                                "9:8 not_of_mcp an MCP server cannot declare hooks\n");
}

static void learned_tools_that_cannot_be_used_are_left_out(void **state)
{
    (void)state;
    kg_auto(kg_problems_free) struct kg_problems none = {0}, some = {0};
    struct manifest *server =
        read_with("methods", "protocol: mcp\ntimeouts: {getUser: 7}\n", &none);
    assert_non_null(server);
    manifest_learn_tools(
        server,
        KG_STR("[{\"name\":\"getUser\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"},"
               "\"outputSchema\":{\"type\":\"string\"}},{\"name\":\"resolve-library.id\"},"
               "{\"name\":\"a b\"},{\"name\":\"getUser\"},{\"name\":\"x\",\"inputSchema\":7},"
               "{\"name\":\"y\",\"inputSchema\":{\"pattern\":\"(\"}},7]"),
        &some);
    assert_int_equal(server->tool_count, 2);
    const struct manifest_tool *tool = manifest_tool_find(server, KG_STR("getUser"));
    assert_non_null(tool);
    assert_non_null(tool->parameters);
    assert_non_null(tool->output);
    assert_int_equal(tool->timeout_ms, 7000);
    assert_non_null(manifest_tool_find(server, KG_STR("resolve-library.id")));
    assert_int_equal(some.count, 5);
    assert_int_equal(some.errors, 0);
    manifest_free(server);
}

static void a_plugin_that_offers_nothing_is_refused(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"", MANIFEST_NOTHING_OFFERED, "offers nothing"},
        {"methods: []\n", MANIFEST_NOTHING_OFFERED, "offers nothing"},
        {"methods: []\nhooks: []\ntools: []\nnotifications: []\n", MANIFEST_NOTHING_OFFERED,
         "offers nothing"},
        {"hooks: [pre_compact]\n", 0, NULL},
        {"tools: [{name: recall, description: Recalls.}]\n", 0, NULL},
        {"notifications: [catalog.updated]\n", 0, NULL},
    };
    CHECK_RULES("methods", rules);
}

static void what_is_no_yaml_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "name: [\n", "\t", "a: 1\na: 2\n", "\xFF", "--- 1\n--- 2\n", "a: !!binary x\n"};
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        kg_auto(kg_problems_free) struct kg_problems problems = {0};
        assert_null(manifest_read(kg_str(texts[i]), &problems));
        assert_int_equal(problems.count, 1);
        assert_ptr_equal(problems.items[0].row, &manifest_rows[MANIFEST_YAML]);
        assert_in_range(problems.items[0].line, 1, 3);
        assert_in_range(problems.items[0].column, 1, 20);
    }
}

static void what_is_no_map_of_keys_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "42\n", "[]\n", "just words\n", "null\n"};
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        kg_auto(kg_problems_free) struct kg_problems problems = {0};
        assert_null(manifest_read(kg_str(texts[i]), &problems));
        assert_int_equal(problems.errors, 1);
        assert_int_equal(problems.items[0].line, 1);
    }
}

static void names_are_slugs(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a-1-b", "a--"};
    static const char *const bad[] = {"A",  "oh_my", "1a",   "-a",       "a.b",
                                      "..", "",      "a\\n", "\xC3\xA9", "a/b"};
    for (size_t i = 0; i < KG_COUNT(good); i++) {
        kg_auto(kg_free) char *text = kg_format("name: \"%s\"\n", good[i]);
        assert_taken("name", text);
        assert_true(manifest_name_is_valid(kg_str(good[i])));
    }
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        kg_auto(kg_free) char *text = kg_format("name: \"%s\"\n", bad[i]);
        assert_refused("name", text, MANIFEST_NAME_INVALID, "lower-case letters");
        assert_false(manifest_name_is_valid(kg_str(bad[i])));
    }
    assert_false(manifest_name_is_valid(KG_STR_NULL));
    assert_false(manifest_name_is_valid(KG_STR("a\0")));
}

static void names_are_short_texts(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"name: 7\n", MANIFEST_WRONG_TYPE, "must be a string, not number"},
        {"name: null\n", MANIFEST_WRONG_TYPE, "must be a string, not null"},
        {"name: [a]\n", MANIFEST_WRONG_TYPE, "must be a string, not array"},
        {"name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 0, NULL},
        {"name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
         MANIFEST_OUT_OF_RANGE, "at most 64 characters"},
    };
    CHECK_RULES("name", rules);
}

static void versions_are_semantic(void **state)
{
    (void)state;
    static const char *const good[] = {"0.0.0",
                                       "1.4.2",
                                       "10.20.30",
                                       "1.0.0-alpha",
                                       "1.0.0-alpha.1",
                                       "1.0.0-0.3.7",
                                       "1.0.0-x-y-z.--",
                                       "1.0.0+20130313144700",
                                       "1.0.0-beta+exp.sha.5114f85",
                                       "1.0.0+0.build.1-rc.10000",
                                       "999999999999999999.0.0",
                                       "1.0.0+007"};
    static const char *const bad[] = {
        "1",         "1.2",       "1.2.3.4", "01.2.3",   "1.02.3",     "1.2.03",
        "v1.2.3",    "1.2.3-",    "1.2.3+",  "1.2.3-01", "1.2.3-a..b", "1.2.3+a..b",
        "1.2.3-a_b", "1.2.3+a+b", "1.2.3 ",  " 1.2.3",   "",           "a.b.c",
        "1..3",      "1.2.",      "-1.2.3",  "1.2.3\\n", "^1.2.3"};
    for (size_t i = 0; i < KG_COUNT(good); i++) {
        kg_auto(kg_free) char *text = kg_format("version: \"%s\"\n", good[i]);
        assert_taken("version", text);
    }
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        kg_auto(kg_free) char *text = kg_format("version: \"%s\"\n", bad[i]);
        assert_refused("version", text, MANIFEST_VERSION_INVALID, "such as 1.4.2");
    }
    assert_refused("version", "version: 1.0\n", MANIFEST_WRONG_TYPE, "put quotes around it");
}

static void the_api_must_be_one_that_we_speak(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"kaged_api: 2\n", MANIFEST_API_UNSUPPORTED, "a newer kaged is needed"},
        {"kaged_api: 2147483647\n", MANIFEST_API_UNSUPPORTED, "a newer kaged is needed"},
        {"kaged_api: 99999999999999999999\n", MANIFEST_YAML, "does not fit in 64 bits"},
        {"kaged_api: 0\n", MANIFEST_API_UNSUPPORTED, "at least 1"},
        {"kaged_api: -1\n", MANIFEST_API_UNSUPPORTED, "at least 1"},
        {"kaged_api: 1.5\n", MANIFEST_WRONG_TYPE, "must be an integer"},
        {"kaged_api: \"1\"\n", MANIFEST_WRONG_TYPE, "must be an integer"},
        {"kaged_api: yes\n", MANIFEST_WRONG_TYPE, "must be an integer"},
    };
    CHECK_RULES("kaged_api", rules);
}

static void assert_description(const char *piece, size_t count, enum manifest_code code,
                               const char *words)
{
    kg_auto(kg_buf_free) struct kg_buf text = repeated("description: \"", piece, count, "\"\n");
    check_rules("description", &(struct rule){text.data, code, words}, 1);
}

static void descriptions_are_one_line_of_200_characters(void **state)
{
    (void)state;
    assert_description("a", 200, 0, NULL);
    assert_description("a", 201, MANIFEST_OUT_OF_RANGE, "at most 200");
    assert_description("\xE2\x82\xAC", 200, 0, NULL); /* characters, not bytes */
    assert_description("\xE2\x82\xAC", 201, MANIFEST_OUT_OF_RANGE, "at most 200");
    assert_description("a", 100000, MANIFEST_OUT_OF_RANGE, "at most 200");
    assert_description("a", 0, MANIFEST_OUT_OF_RANGE, "at least 1");
    assert_description("a\\n", 2, MANIFEST_BAD_VALUE, "one line");
    assert_description("a\\r", 2, MANIFEST_BAD_VALUE, "one line");
    assert_description("\\e[2J", 1, MANIFEST_BAD_VALUE, "one line");
    assert_description("\\x9b", 1, MANIFEST_BAD_VALUE, "one line");
    assert_refused("description", "description: |\n  one\n  two\n", MANIFEST_BAD_VALUE, "one line");
    assert_refused("description", "description: 5\n", MANIFEST_WRONG_TYPE, "must be a string");
}

static void optional_texts_must_be_texts(void **state)
{
    (void)state;
    assert_refused("author", "author: [a]\n", MANIFEST_WRONG_TYPE, "author: must be a string");
    assert_refused("license", "license: 3\n", MANIFEST_WRONG_TYPE, "license: must be a string");
    assert_refused("homepage", "homepage: {a: b}\n", MANIFEST_WRONG_TYPE, "homepage: must be");
    assert_refused("author", "author: \"\\e[2J\"\n", MANIFEST_BAD_VALUE, "pattern");
    assert_taken("author", "author: \"\"\n");
}

static void commands_name_a_program(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"command: [./run]\n", 0, NULL},
        {"command: [./run, \"\"]\n", 0, NULL},
        {"command: []\n", MANIFEST_OUT_OF_RANGE, "at least 1"},
        {"command: [\"\"]\n", MANIFEST_OUT_OF_RANGE, "at least 1"},
        {"command: ./run\n", MANIFEST_WRONG_TYPE, "must be an array, not string"},
        {"command: [5]\n", MANIFEST_WRONG_TYPE, "must be a string, not number"},
        {"command: [./run, 5]\n", MANIFEST_WRONG_TYPE, "must be a string, not number"},
    };
    CHECK_RULES("command", rules);
}

/* It would cut short what the operator reads, or what the program is given. */
static void no_text_has_a_nul_in_it(void **state)
{
    (void)state;
    static const struct {
        const char *key, *text;
    } rows[] = {
        {"command", "command: [\"a\\0b\"]\n"},
        {"env", "env: {A: \"x\\0y\"}\n"},
        {"homepage", "config_schema: {title: \"a\\0b\"}\n"},
        {"tools", "tools: [{name: a, description: \"x\\0y\"}]\n"},
        {"config_schema", "config_schema: {properties: {\"a\\0b\": {}}}\n"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_refused(rows[i].key, rows[i].text, MANIFEST_BAD_VALUE, "NUL");
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    assert_null(read_with("capabilities", "capabilities: [\"read:fs:/a\\0/../b\"]\n", &problems));
}

static void methods_have_two_to_four_segments(void **state)
{
    (void)state;
    static const char *const good[] = {"a.b",      "a.b.c.d",   "presets.list", "a_1.b_2__",
                                       "kagedx.y", "a.kaged.b", "systems.x",    "config.get"};
    static const char *const bad[] = {"a",    "a.b.c.d.e", ".a",     "a.",         "a..b",
                                      "A.b",  "a.B",       "1.a",    "a.1",        "_a.b",
                                      "a._b", "a-b.c",     "a.b ",   "a b.c",      "",
                                      "ping", "a/b.c",     "a.b\\n", "\xC3\xA9.a", "initialize"};
    for (size_t i = 0; i < KG_COUNT(good); i++) {
        kg_auto(kg_free) char *text = kg_format("methods: [\"%s\"]\n", good[i]);
        assert_taken("methods", text);
    }
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        kg_auto(kg_free) char *methods = kg_format("methods: [\"%s\"]\n", bad[i]);
        kg_auto(kg_free) char *notifications = kg_format("notifications: [\"%s\"]\n", bad[i]);
        assert_refused("methods", methods, MANIFEST_METHOD_NAME, "two to four");
        assert_refused("notifications", notifications, MANIFEST_METHOD_NAME, "two to four");
    }
}

static void methods_of_kaged_itself_are_reserved(void **state)
{
    (void)state;
    static const char *const names[] = {
        "kaged.x",       "kaged.hook.on_session_start", "kaged.storage.query", "system.x",
        "config.update", "projects.activated",          "projects.deactivated"};
    for (size_t i = 0; i < KG_COUNT(names); i++) {
        kg_auto(kg_free) char *methods = kg_format("methods: [%s]\n", names[i]);
        kg_auto(kg_free) char *notifications = kg_format("notifications: [%s]\n", names[i]);
        assert_refused("methods", methods, MANIFEST_METHOD_RESERVED, names[i]);
        assert_refused("notifications", notifications, MANIFEST_METHOD_RESERVED, names[i]);
    }
}

static void methods_fit_on_the_wire(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf fits = repeated("methods: [a.", "a", 126, "]\n");
    kg_auto(kg_buf_free) struct kg_buf longer = repeated("methods: [a.", "a", 127, "]\n");
    assert_taken("methods", fits.data);
    assert_refused("methods", longer.data, MANIFEST_OUT_OF_RANGE, "at most 128");
    assert_refused("methods", "methods: [a.b, a.b]\n", MANIFEST_BAD_VALUE, "equal items");
}

static void tools_have_names_and_descriptions(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"tools: [{name: a_1, description: x}]\n", 0, NULL},
        {"tools: [{name: a, description: x, parameters_schema: true}]\n", 0, NULL},
        {"tools: [{name: A, description: x}]\n", MANIFEST_TOOL_NAME, "one word"},
        {"tools: [{name: a-b, description: x}]\n", MANIFEST_TOOL_NAME, "one word"},
        {"tools: [{name: oh-my-pi.a, description: x}]\n", MANIFEST_TOOL_NAME, "one word"},
        {"tools: [{name: a}]\n", MANIFEST_MISSING_KEY, "description"},
        {"tools: [{description: a}]\n", MANIFEST_MISSING_KEY, "name"},
        {"tools: [recall]\n", MANIFEST_WRONG_TYPE, "must be an object"},
        {"tools: {name: a}\n", MANIFEST_WRONG_TYPE, "must be an array"},
        {"tools: [{name: a, description: x, parameters_schema: {type: 5}}]\n",
         MANIFEST_SCHEMA_INVALID, "the parameters_schema of a"},
        {"tools: [{name: a, description: x, parameters_schema: x}]\n", MANIFEST_WRONG_TYPE,
         "must be an object or a boolean"},
    };
    CHECK_RULES("tools", rules);
}

static void env_maps_variables_to_strings(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"env: {A: x, _b1: \"a=b\"}\n", 0, NULL},
        {"env: {}\n", 0, NULL},
        {"env: [A]\n", MANIFEST_WRONG_TYPE, "env: must be an object"},
        {"env: A=b\n", MANIFEST_WRONG_TYPE, "env: must be an object"},
        {"env: {A: 1}\n", MANIFEST_WRONG_TYPE, "put quotes around it"},
        {"env: {A: true}\n", MANIFEST_WRONG_TYPE, "put quotes around it"},
        {"env: {A: null}\n", MANIFEST_WRONG_TYPE, "must be a string, not null"},
        {"env: {A: [x]}\n", MANIFEST_WRONG_TYPE, "must be a string, not array"},
        {"env: {1A: x}\n", MANIFEST_BAD_VALUE, "1A"},
        {"env: {\"\": x}\n", MANIFEST_BAD_VALUE, "property name"},
        {"env: {\"A=B\": x}\n", MANIFEST_BAD_VALUE, "A=B"},
        {"env: {A-B: x}\n", MANIFEST_BAD_VALUE, "A-B"},
    };
    CHECK_RULES("env", rules);
}

static void capabilities_of_other_shapes_are_refused(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"capabilities: null\n", MANIFEST_WRONG_TYPE, "must be an array, not null"},
        {"capabilities: \"net:[]\"\n", MANIFEST_WRONG_TYPE, "must be an array"},
        {"capabilities: [1]\n", MANIFEST_WRONG_TYPE, "must be an object or a string"},
        {"capabilities: [[]]\n", MANIFEST_WRONG_TYPE, "must be an object or a string"},
        {"capabilities:\n  - net: \"*\"\n", MANIFEST_WRONG_TYPE, "must be an array"},
        {"capabilities:\n  - net:\n", MANIFEST_WRONG_TYPE, "must be an array"},
        {"capabilities:\n  - net: [1]\n", MANIFEST_WRONG_TYPE, "must be a string"},
        {"capabilities:\n  - net: []\n    x: []\n", MANIFEST_UNKNOWN_KEY, "\"x\""},
        {"capabilities:\n  - {}\n", MANIFEST_MISSING_KEY, "\"net\""},
        {"capabilities: [\"read:fs:/a/../b\"]\n", MANIFEST_CAPABILITY_INVALID, ".."},
        {"capabilities: [\"raed:fs:/a\"]\n", MANIFEST_CAPABILITY_INVALID, "raed"},
        {"capabilities: [\"net:[]\", \"net:*\"]\n", MANIFEST_CAPABILITY_INVALID, "net:"},
    };
    CHECK_RULES("capabilities", rules);
}

static void timeouts_are_within_the_documented_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        int min, max;
    } rows[] = {{"shutdown_timeout_sec", 1, 30},
                {"health_interval_sec", 5, 300},
                {"hook_timeout_sec", 1, 60}};
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        const int values[] = {rows[i].min - 1, rows[i].min, rows[i].max, rows[i].max + 1};
        for (size_t k = 0; k < KG_COUNT(values); k++) {
            kg_auto(kg_free) char *text = kg_format("%s: %d\n", rows[i].key, values[k]);
            const char *words = k == 0 ? "at least" : k == 3 ? "at most" : NULL;
            check_rules(rows[i].key, &(struct rule){text, MANIFEST_OUT_OF_RANGE, words}, 1);
        }
        kg_auto(kg_free) char *text = kg_format("%s: 5.5\n", rows[i].key);
        assert_refused(rows[i].key, text, MANIFEST_WRONG_TYPE, "must be an integer");
    }
}

/* -- knobs ------------------------------------------------------------------------------------ */

#define KNOB_FIELDS                                                                                \
    "config_schema: {properties: {n: {type: number}, i: {type: integer}, b: {type: boolean},\n"    \
    "  s: {type: string}, e: {enum: [x, y]}, o: {type: [string, \"null\"]}}}\n"                    \
    "system_config_schema: {properties: {token: {type: string}}}\n"                                \
    "knobs:\n  k: "

static void check_knobs(const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kg_auto(kg_free) char *text = kg_format(KNOB_FIELDS "%s\n", rules[i].text);
        check_rules("knobs", &(struct rule){text, rules[i].code, rules[i].words}, 1);
    }
}

static void every_type_of_knob_is_taken(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"{type: range, label: K, min: 0, max: 1.5, step: 0.1, default: 1, binds_to: config.n}", 0,
         NULL},
        {"{type: int_range, label: K, min: 1, max: 5, step: 2, default: 5, binds_to: config.i}", 0,
         NULL},
        {"{type: enum, label: K, values: [y, x], default: x, binds_to: config.e}", 0, NULL},
        {"{type: boolean, label: K, default: false, binds_to: config.b}", 0, NULL},
        {"{type: text, label: K, default: ab, max_length: 2, pattern: ^a, binds_to: config.s}", 0,
         NULL},
        {"{type: text, label: K, default: \"\xC3\xA9\xC3\xA9\", max_length: 2, binds_to: config.s}",
         0, NULL},
        {"{type: multiline, label: K, default: \"a\\nb\", binds_to: config.s}", 0, NULL},
        {"{type: model_alias, label: K, default: null, filter: fast, binds_to: config.o}", 0, NULL},
        {"{type: path, label: K, default: \"project:/x\", prefixes: [\"project:\"],\n"
         "    must_exist: true, binds_to: config.s}",
         0, NULL},
    };
    check_knobs(rules, KG_COUNT(rules));
}

static void a_knob_has_what_its_type_needs(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"{label: K, binds_to: config.s}", MANIFEST_MISSING_KEY, "\"type\""},
        {"{type: slider, label: K, binds_to: config.s}", MANIFEST_BAD_VALUE, "\"range\""},
        {"{type: text, default: x, binds_to: config.s}", MANIFEST_MISSING_KEY, "\"label\""},
        {"{type: text, label: K, default: x}", MANIFEST_MISSING_KEY, "\"binds_to\""},
        {"{type: text, label: K, binds_to: config.s}", MANIFEST_MISSING_KEY, "\"default\""},
        {"{type: enum, label: K, default: x, binds_to: config.e}", MANIFEST_MISSING_KEY,
         "\"values\""},
        {"{type: int_range, label: K, min: 0.5, max: 2, step: 1, default: 1, binds_to: config.i}",
         MANIFEST_WRONG_TYPE, "must be an integer"},
        {"{type: range, label: K, min: 0, max: 2, step: 0, default: 1, binds_to: config.n}",
         MANIFEST_OUT_OF_RANGE, "above 0"},
        {"{type: text, label: K, default: x, pattern: \"(\", binds_to: config.s}",
         MANIFEST_BAD_VALUE, "regex"},
    };
    check_knobs(rules, KG_COUNT(rules));
}

static void a_default_is_within_the_knobs_own_bounds(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"{type: range, label: K, min: 0, max: 1, step: 1, default: -1, binds_to: config.n}",
         MANIFEST_KNOB_DEFAULT, "between min and max"},
        {"{type: range, label: K, min: 2, max: 1, step: 1, default: 1, binds_to: config.n}",
         MANIFEST_KNOB_DEFAULT, "min is larger than max"},
        {"{type: enum, label: K, values: [x, y], default: z, binds_to: config.e}",
         MANIFEST_KNOB_DEFAULT, "not one of the values"},
        {"{type: path, label: K, prefixes: [\"config:\"], default: \"project:/x\",\n"
         "    binds_to: config.s}",
         MANIFEST_KNOB_DEFAULT, "none of the prefixes"},
        {"{type: text, label: K, default: abc, max_length: 2, binds_to: config.s}",
         MANIFEST_KNOB_DEFAULT, "longer than max_length"},
    };
    check_knobs(rules, KG_COUNT(rules));
}

static void a_knob_is_bound_to_a_field_of_the_project(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"{type: text, label: K, default: x, binds_to: s}", MANIFEST_KNOB_UNBOUND, "config.FIELD"},
        {"{type: text, label: K, default: x, binds_to: config.}", MANIFEST_KNOB_UNBOUND, ""},
        {"{type: text, label: K, default: x, binds_to: config.s.t}", MANIFEST_KNOB_UNBOUND, ""},
        {"{type: text, label: K, default: x, binds_to: Config.s}", MANIFEST_KNOB_UNBOUND, ""},
        {"{type: text, label: K, default: x, binds_to: config.token}", MANIFEST_KNOB_SYSTEM,
         "secret"},
        {"{type: text, label: K, default: x, binds_to: system_config.any}", MANIFEST_KNOB_SYSTEM,
         "secret"},
    };
    check_knobs(rules, KG_COUNT(rules));
}

static void a_knob_that_disagrees_with_its_field_is_warned_of(void **state)
{
    (void)state;
    static const char *const knobs[] = {
        "{type: boolean, label: K, default: true, binds_to: config.s}",
        "{type: text, label: K, default: x, binds_to: config.n}",
        "{type: enum, label: K, values: [x, z], default: x, binds_to: config.e}",
        "{type: enum, label: K, values: [x], default: x, binds_to: config.e}",
        "{type: enum, label: K, values: [x], default: x, binds_to: config.s}",
    };
    for (size_t i = 0; i < KG_COUNT(knobs); i++) {
        kg_auto(kg_problems_free) struct kg_problems problems = {0};
        kg_auto(kg_free) char *text = kg_format(KNOB_FIELDS "%s\n", knobs[i]);
        struct manifest *manifest = read_with("knobs", text, &problems);
        if (manifest == NULL || problems.count != 1 ||
            problems.items[0].row != &manifest_rows[MANIFEST_KNOB_TYPE])
            fail_with(knobs[i], &problems);
        manifest_free(manifest);
    }
}

/* -- the published schema --------------------------------------------------------------------- */

static void the_published_schema_is_valid_and_takes_the_example(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (kg_read_file("schema/plugin-manifest-v1.json", KG_DOC_BYTES_MAX, &text, &err) < 0)
        fail_msg("%s", err.message);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), &err);
    kg_auto(kg_doc_cleanup) struct kg_doc *example = kg_yaml_read(kg_str(full_example), &err);
    if (doc == NULL || example == NULL) {
        fail_msg("%s", err.message);
        return;
    }
    const struct schema_options options = {.formats = true};
    struct schema *schema = schema_compile(doc->root, &options, &err);
    if (schema == NULL)
        fail_msg("%s", err.message);
    assert_true(schema_check(schema, example->root, NULL));
    schema_free(schema);
}

/* -- hostile ---------------------------------------------------------------------------------- */

#define PATIENCE_MS                                                                                \
    5000 /* for a sanitized build on a busy machine; a release needs a hundredth                   \
          */

/* Refused within a bounded time, with a problem of that code. */
static void assert_bounded(const char *key, const char *text, enum manifest_code code)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    uint64_t started_ms = cpu_ms();
    struct manifest *manifest = read_with(key, text, &problems);
    uint64_t took_ms = cpu_ms() - started_ms;
    bool found = false;
    for (size_t i = 0; i < problems.count; i++)
        found |= problems.items[i].row == &manifest_rows[code];
    if (manifest != NULL || !found || took_ms > PATIENCE_MS) {
        print_message("%llu ms\n", (unsigned long long)took_ms);
        fail_with(text, &problems);
    }
}

static void a_text_past_the_bound_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = repeated("# ", "x", KG_DOC_BYTES_MAX, "\n");
    assert_bounded("author", text.data, MANIFEST_YAML);
}

static void aliases_cannot_blow_it_up(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 60; i++) {
        kg_buf_printf(&text, "a%d: &a%d [", i, i);
        for (int k = 0; k < 9; k++)
            kg_buf_printf(&text, "*a%d,", i - 1);
        kg_buf_text(&text, "]\n");
    }
    assert_bounded("author", kg_buf_terminate(&text), MANIFEST_YAML);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf lists = repeated("author: ", "[", 100000, "\n");
    kg_auto(kg_buf_free) struct kg_buf maps = repeated("author: ", "{a: ", 100000, "\n");
    kg_auto(kg_buf_free) struct kg_buf schemas = repeated("config_schema: ", "{not: ", 60, "{}");
    for (int i = 0; i < 60; i++)
        kg_buf_char(&schemas, '}');
    assert_bounded("author", lists.data, MANIFEST_YAML);
    assert_bounded("author", maps.data, MANIFEST_YAML);
    assert_taken("config_schema", kg_buf_terminate(&schemas));
}

static void schemas_that_refer_to_themselves_end(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "config_schema: {$ref: \"#\"}\n",
        "config_schema: {$ref: \"#/$defs/a\", $defs: {a: {$ref: \"#/$defs/b\"},"
        " b: {$ref: \"#/$defs/a\"}}}\n",
        "config_schema: {allOf: [{$ref: \"#\"}, {$ref: \"#\"}]}\n",
    };
    kg_auto(kg_doc_cleanup) struct kg_doc *empty = kg_json_read(KG_STR("{}"), NULL);
    for (size_t i = 0; i < KG_COUNT(schemas); i++) {
        kg_auto(kg_problems_free) struct kg_problems problems = {0};
        uint64_t started_ms = cpu_ms();
        struct manifest *manifest = read_with("config_schema", schemas[i], &problems);
        if (manifest == NULL)
            assert_ptr_equal(problems.items[0].row, &manifest_rows[MANIFEST_SCHEMA_INVALID]);
        else
            schema_check(manifest->config_schema, empty->root, NULL);
        manifest_free(manifest);
        assert_in_range(cpu_ms() - started_ms, 0, PATIENCE_MS);
    }
}

static void schemas_reach_nothing_outside(void **state)
{
    (void)state;
    assert_refused("config_schema", "config_schema: {$ref: \"https://example.org/x.json\"}\n",
                   MANIFEST_SCHEMA_INVALID, "example.org");
    assert_refused("config_schema", "config_schema: {$ref: \"file:///etc/passwd\"}\n",
                   MANIFEST_SCHEMA_INVALID, "passwd");
}

static struct kg_buf huge_enum(int count)
{
    struct kg_buf text = {0};
    kg_buf_text(&text, "config_schema: {properties: {e: {type: string, enum: [");
    for (int i = 0; i < count; i++)
        kg_buf_printf(&text, "v%d,", i);
    kg_buf_text(&text, "]}}}\n");
    kg_buf_terminate(&text);
    return text;
}

/* Knobs against it, too: both lists were once compared value by value. */
static void a_huge_enum_takes_a_bounded_time(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf larger = huge_enum(100000), text = huge_enum(40000);
    kg_buf_text(&text, "knobs:\n");
    for (int k = 0; k < 20; k++) {
        kg_buf_printf(&text, "  k%d: {type: enum, label: K, default: v1, binds_to: config.e,", k);
        kg_buf_text(&text, " values: [");
        for (int i = 0; i < 1000; i++)
            kg_buf_text(&text, "v39999,");
        kg_buf_text(&text, "]}\n");
    }
    assert_bounded("knobs", larger.data, MANIFEST_YAML);
    assert_bounded("knobs", kg_buf_terminate(&text), MANIFEST_OUT_OF_RANGE);
}

static void a_catastrophic_pattern_takes_a_bounded_time(void **state)
{
    (void)state;
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest = read_with(
        "config_schema", "config_schema: {properties: {a: {pattern: \"^(a+)+$\"}}}\n", &problems);
    kg_auto(kg_doc_cleanup) struct kg_doc *victim = kg_json_read(
        KG_STR("{\"a\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"}"), NULL);
    assert_non_null(manifest);
    uint64_t started_ms = cpu_ms();
    assert_false(schema_check(manifest->config_schema, victim->root, NULL));
    assert_in_range(cpu_ms() - started_ms, 0, PATIENCE_MS);
    manifest_free(manifest);
    kg_auto(kg_buf_free) struct kg_buf longest =
        repeated("config_schema: {pattern: \"", "(a|", 100000, "\"}\n");
    assert_bounded("config_schema", longest.data, MANIFEST_SCHEMA_INVALID);
}

/* Many targets in few net: maps once cost time by the square of their number. */
static void lists_are_bounded(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf methods = repeated("methods: [", "a.b,", 1025, "]\n");
    kg_auto(kg_buf_free) struct kg_buf targets =
        repeated("capabilities:\n  - net: [", "a,", 60000, "]\n");
    kg_auto(kg_buf_free) struct kg_buf strings = repeated("capabilities: [", "a,", 60000, "]\n");
    kg_auto(kg_buf_free) struct kg_buf env = {0};
    kg_buf_text(&env, "env: {");
    for (int i = 0; i < 40000; i++)
        kg_buf_printf(&env, "A%d: x,", i);
    kg_buf_text(&env, "}\n");
    assert_bounded("methods", methods.data, MANIFEST_OUT_OF_RANGE);
    assert_bounded("capabilities", targets.data, MANIFEST_OUT_OF_RANGE);
    assert_bounded("capabilities", strings.data, MANIFEST_OUT_OF_RANGE);
    assert_bounded("env", kg_buf_terminate(&env), MANIFEST_OUT_OF_RANGE);
}

/* Five maps within their bounds, and together past that of a set: it was taken, and had none. */
static void capabilities_are_bounded_as_a_whole(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf maps = {0};
    kg_buf_text(&maps, "capabilities:\n");
    for (int map = 0; map < 5; map++) {
        kg_buf_text(&maps, "  - net: [");
        for (int i = 0; i < 250; i++)
            kg_buf_printf(&maps, "\"h%d-%d:1\",", map, i);
        kg_buf_text(&maps, "]\n");
    }
    assert_refused("capabilities", kg_buf_terminate(&maps), MANIFEST_OUT_OF_RANGE,
                   "more than 1024");
}

/* Each key was compared with each method, and with all of them for a suggestion. */
static void many_timeouts_of_many_methods_take_a_bounded_time(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "methods: [");
    for (int i = 0; i < 30000; i++)
        kg_buf_printf(&text, "a.b%d,", i);
    kg_buf_text(&text, "]\ntimeouts: {");
    for (int i = 0; i < 30000; i++)
        kg_buf_printf(&text, "c.d%d: 1,", i);
    kg_buf_text(&text, "}\n");
    assert_bounded("methods", kg_buf_terminate(&text), MANIFEST_OUT_OF_RANGE);
}

static void texts_are_bounded(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf author = repeated("author: ", "a", 201, "\n");
    kg_auto(kg_buf_free) struct kg_buf argument = repeated("command: [\"", "a", 4097, "\"]\n");
    kg_auto(kg_buf_free) struct kg_buf key = repeated("", "k", 1000, ": 1\n");
    assert_refused("author", author.data, MANIFEST_OUT_OF_RANGE, "at most 200");
    assert_refused("command", argument.data, MANIFEST_OUT_OF_RANGE, "at most 4096");
    assert_bounded("author", key.data, MANIFEST_UNKNOWN_KEY);
}

/* -- files ------------------------------------------------------------------------------------ */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/kaged-unit-manifest.XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", folder);
    return system(command);
}

static void load_reads_the_file_of_a_folder(void **state)
{
    (void)state;
    kg_auto(kg_problems_free) struct kg_problems missing = {0}, bad = {0};
    assert_null(manifest_load(folder, &missing));
    assert_ptr_equal(missing.items[0].row, &manifest_rows[MANIFEST_YAML]);
    assert_int_equal(missing.items[0].line, 0);
    assert_non_null(strstr(missing.items[0].message, "No such file or directory"));

    kg_auto(kg_free) char *path = kg_format("%s/" MANIFEST_FILE, folder);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    kg_auto(kg_buf_free) struct kg_buf yaml = manifest_with("name", "name: BAD\n");
    assert_int_equal(kg_write_all(fd, yaml.data, yaml.length), 0);
    assert_null(manifest_load(folder, &bad));
    assert_ptr_equal(bad.items[0].row, &manifest_rows[MANIFEST_NAME_INVALID]);
}

static void load_refuses_what_is_no_small_file(void **state)
{
    (void)state;
    kg_auto(kg_problems_free) struct kg_problems fifo = {0}, huge = {0};
    kg_auto(kg_free) char *path = kg_format("%s/" MANIFEST_FILE, folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    assert_null(manifest_load(folder, &fifo));
    alarm(0);
    assert_int_equal(fifo.errors, 1);
    assert_int_equal(unlink(path), 0);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, (off_t)100 << 20), 0);
    assert_null(manifest_load(folder, &huge));
    assert_non_null(strstr(huge.items[0].message, "larger than"));
}

#define FOLDER_TEST(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

/* -- names towards models ---------------------------------------------------------------------- */

#define TEN "abcdefghij"

static const struct {
    const char *name, *model;
} model_names[] = {
    {"echo.say", "echo__say"},
    {"git.log.show", "git__log__show"},
    {"context7.resolve-library-id", "context7__resolve-library-id"},
    {"github.getUser", "github__getUser"},
    {"ui.ui_extras", "ui__ui_extras"},
    {"echo__say", "echo__say"},
    {"a", "a"},
    {"a.b__c", "a__b__c_b1a758b393"},
    {"a.b._c", "a__b___c_af7d0299a8"},
    {"a.b c", "a__b_c_b5133b29e5"},
    {"a.b_c", "a__b_c"},
    {"a.\xc3\xa4", "a_____827af49ca1"},
    {"", "_e484222325"},
    {TEN TEN TEN TEN "."
                     "abcdefgh",
     TEN TEN TEN TEN "__abcdefgh"},
    {TEN TEN TEN TEN "."
                     "abcdefghi",
     TEN TEN TEN "abcdefghi_892ddc7898"},
    {TEN TEN TEN TEN TEN, TEN TEN TEN TEN TEN},
    {TEN TEN TEN TEN TEN "k", TEN TEN TEN "abcdefghi_229406a8a3"},
};

static void names_for_models_fit_stay_apart_and_stay_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < KG_COUNT(model_names); i++) {
        kg_auto(kg_buf_free) struct kg_buf name = {0}, again = {0};
        manifest_model_name_put(kg_str(model_names[i].name), &name);
        assert_string_equal(kg_buf_terminate(&name), model_names[i].model);
        assert_in_range(name.length, 1, MANIFEST_MODEL_NAME_MAX);
        manifest_model_name_put(kg_buf_view(&name), &again);
        assert_string_equal(kg_buf_terminate(&again), name.data);
        for (size_t k = 0; k < i; k++)
            if (strcmp(model_names[i].name, "echo__say") !=
                0) /* a model's own word for the first */
                assert_string_not_equal(model_names[k].model, name.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_full_example_has_no_problem),
        cmocka_unit_test(an_mcp_server_declares_no_tools_of_its_own),
        cmocka_unit_test(learned_tools_that_cannot_be_used_are_left_out),
        cmocka_unit_test(names_for_models_fit_stay_apart_and_stay_the_same),
        cmocka_unit_test(who_it_is_and_what_it_runs_is_read),
        cmocka_unit_test(what_it_needs_and_offers_is_read),
        cmocka_unit_test(methods_have_their_schemas_and_timeouts),
        cmocka_unit_test(tools_have_timeouts_by_either_name),
        cmocka_unit_test(configuration_and_knobs_are_read),
        cmocka_unit_test(what_is_absent_is_empty),
        cmocka_unit_test(every_problem_has_its_code_and_place),
        cmocka_unit_test(codes_are_there_once_and_explained),
        cmocka_unit_test(ten_mistakes_are_ten_problems_by_place),
        cmocka_unit_test(problems_suggest_the_nearest),
        cmocka_unit_test(warnings_do_not_fail),
        cmocka_unit_test(the_first_error_stands_for_all),
        cmocka_unit_test(warnings_cannot_crowd_out_an_error),
        cmocka_unit_test(the_list_of_problems_is_bounded),
        cmocka_unit_test(role_and_roles_mean_the_same),
        cmocka_unit_test(who_has_hooks_is_an_observer),
        cmocka_unit_test(the_name_is_the_last_part_of_a_package),
        cmocka_unit_test(packages_are_what_the_schema_says),
        cmocka_unit_test(the_package_is_the_name_by_default),
        cmocka_unit_test(net_may_be_written_as_a_map),
        cmocka_unit_test(capabilities_are_kept_in_canonical_form),
        cmocka_unit_test(whole_numbers_may_have_a_fraction_of_zero),
        cmocka_unit_test(whom_it_serves_and_when_it_starts_follow_from_what_it_offers),
        cmocka_unit_test(each_required_key_is_missed_by_name),
        cmocka_unit_test(a_plugin_that_offers_nothing_is_refused),
        cmocka_unit_test(what_is_no_yaml_is_refused_with_its_place),
        cmocka_unit_test(what_is_no_map_of_keys_is_refused),
        cmocka_unit_test(names_are_slugs),
        cmocka_unit_test(names_are_short_texts),
        cmocka_unit_test(versions_are_semantic),
        cmocka_unit_test(the_api_must_be_one_that_we_speak),
        cmocka_unit_test(descriptions_are_one_line_of_200_characters),
        cmocka_unit_test(optional_texts_must_be_texts),
        cmocka_unit_test(commands_name_a_program),
        cmocka_unit_test(no_text_has_a_nul_in_it),
        cmocka_unit_test(methods_have_two_to_four_segments),
        cmocka_unit_test(methods_of_kaged_itself_are_reserved),
        cmocka_unit_test(methods_fit_on_the_wire),
        cmocka_unit_test(tools_have_names_and_descriptions),
        cmocka_unit_test(env_maps_variables_to_strings),
        cmocka_unit_test(capabilities_of_other_shapes_are_refused),
        cmocka_unit_test(timeouts_are_within_the_documented_ranges),
        cmocka_unit_test(every_type_of_knob_is_taken),
        cmocka_unit_test(a_knob_has_what_its_type_needs),
        cmocka_unit_test(a_default_is_within_the_knobs_own_bounds),
        cmocka_unit_test(a_knob_is_bound_to_a_field_of_the_project),
        cmocka_unit_test(a_knob_that_disagrees_with_its_field_is_warned_of),
        cmocka_unit_test(the_published_schema_is_valid_and_takes_the_example),
        cmocka_unit_test(a_text_past_the_bound_is_refused),
        cmocka_unit_test(aliases_cannot_blow_it_up),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(schemas_that_refer_to_themselves_end),
        cmocka_unit_test(schemas_reach_nothing_outside),
        cmocka_unit_test(a_huge_enum_takes_a_bounded_time),
        cmocka_unit_test(a_catastrophic_pattern_takes_a_bounded_time),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(capabilities_are_bounded_as_a_whole),
        cmocka_unit_test(many_timeouts_of_many_methods_take_a_bounded_time),
        cmocka_unit_test(texts_are_bounded),
        FOLDER_TEST(load_reads_the_file_of_a_folder),
        FOLDER_TEST(load_refuses_what_is_no_small_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
