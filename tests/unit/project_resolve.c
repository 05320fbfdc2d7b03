/*
 * A project and the plugins that are installed: hooks, roles, tools, configuration and where each
 * value comes from, what is refused and why; then the views, the differences and the model's side.
 */
#include "project/project.h"

#include "base/doc.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- helpers ----------------------------------------------------------------------------------- */

#define HEAD          "version: 1\nname: music\n" /* what follows starts on line 3 */
#define MANIFESTS_MAX 8

/* The plugins of these tests; each is a manifest but for what all have. */
static const char memory[] =
    "name: memory-markdown\npackage: \"@kaged/memory-markdown\"\nversion: 1.4.2\n"
    "roles: [observer, compactor]\n"
    "hooks: [on_session_start, on_session_idle, pre_compact, post_compact]\n"
    "tools:\n"
    "  - { name: retain, description: Store it., parameters_schema: { type: object } }\n"
    "  - { name: recall, description: Find it. }\n"
    "config_schema:\n"
    "  type: object\n"
    "  additionalProperties: false\n"
    "  required: [project_tag]\n"
    "  properties:\n"
    "    isolation: { type: string, enum: [agent, project], default: agent }\n"
    "    budget: { enum: [low, mid, high], default: mid }\n"
    "    tags: { type: array, items: { type: string } }\n"
    "    project_tag: { type: string }\n"
    "    depth: { type: integer, default: 3 }\n"
    "    salt: { type: string, sensitive: true }\n"
    "system_config_schema:\n"
    "  type: object\n"
    "  required: [api_token]\n"
    "  properties: { api_token: { type: string }, proxy: { type: string } }\n";
static const char notes[] = "name: notes\nversion: 0.2.0\n"
                            "tools: [{ name: list, description: All notes. }]\n";
static const char other_notes[] = "name: notes\npackage: \"@other/notes\"\nversion: 3.0.0\n"
                                  "tools: [{ name: list, description: Other notes. }]\n";
static const char quiet_notes[] = "name: notes\npackage: \"@quiet/notes\"\nversion: 1.0.0\n"
                                  "methods: [notes.list]\n";
static const char smart[] =
    "name: smart\nversion: 2.0.0\nroles: [compactor]\nhooks: [pre_compact]\n";
static const char watcher[] =
    "name: watcher\nversion: 1.0.0\nhooks: [on_session_idle, post_compact]\n";
static const char file_plugin[] = "name: file\nversion: 1.0.0\n"
                                  "tools: [{ name: read, description: Reads. }]\n";

static const char agent_plugin[] = "name: agent\nversion: 1.0.0\n"
                                   "tools: [{ name: read, description: Reads. }]\n";

struct world {
    struct manifest *manifests[MANIFESTS_MAX];
    struct local *local;
    struct project_world seen;
    struct kg_problems problems;
    struct project_resolved *resolved;
};

static struct manifest *manifest_of(const char *text)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_free) char *whole = kg_format("kaged_api: 1\ndescription: A plugin.\n"
                                             "command: [./run]\ncapabilities: []\n%s",
                                             text);
    struct manifest *manifest = manifest_read(kg_str(whole), &problems);
    if (manifest == NULL)
        fail_msg("%s: %s", text, problems.items[0].message);
    return manifest;
}

static char *listing(const struct kg_problems *problems)
{
    struct kg_buf out = {0};
    kg_problems_print(problems, "x", &out);
    return kg_buf_terminate(&out);
}

static struct project *project_of(const char *text)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_free) char *whole = kg_format(HEAD "%s", text);
    struct project *project = project_read(kg_str(whole), &problems);
    kg_auto(kg_free) char *all = listing(&problems);
    if (project == NULL)
        fail_msg("%s%s", all, whole);
    return project;
}

static void world_end(struct world *world)
{
    project_resolved_free(world->resolved);
    kg_problems_free(&world->problems);
    for (size_t i = 0; i < world->seen.manifest_count; i++)
        manifest_free(world->manifests[i]);
    local_free(world->local);
}

/* A project with those plugins installed; local may be NULL. */
static struct world world_with(const char *text, const char *local, const char *const *manifests)
{
    struct world world = {0};
    struct kg_err err = {0};
    for (; manifests[world.seen.manifest_count] != NULL; world.seen.manifest_count++)
        world.manifests[world.seen.manifest_count] =
            manifest_of(manifests[world.seen.manifest_count]);
    if (local != NULL && (world.local = local_read(kg_str(local), LOCAL_LEAVE, &err)) == NULL)
        fail_msg("%s", err.message);
    struct project *project = project_of(text);
    const struct project_world seen = {(const struct manifest *const *)world.manifests,
                                       world.seen.manifest_count, world.local};
    world.resolved = project_resolve(project, &seen, &world.problems);
    project_free(project);
    return world;
}

#define WORLD(text, local, ...) world_with(text, local, (const char *const[]){__VA_ARGS__, NULL})

static const struct project_resolved_agent *agent_of(const struct world *world, const char *path)
{
    const struct project_resolved_agent *agent =
        project_resolved_find(world->resolved, kg_str(path));
    assert_non_null(agent);
    return agent;
}

static const struct project_use *use_of(const struct world *world, const char *path, size_t index)
{
    const struct project_resolved_agent *agent = agent_of(world, path);
    assert_in_range(index, 0, agent->use_count - 1);
    return &agent->uses[index];
}

/* "line:column code" of each problem, a line each. */
static void assert_problems(const struct world *world, const char *expected)
{
    kg_auto(kg_buf_free) struct kg_buf found = {0};
    for (size_t i = 0; i < world->problems.count; i++)
        kg_buf_printf(&found, "%u:%u %s\n", world->problems.items[i].line,
                      world->problems.items[i].column, world->problems.items[i].row->code);
    kg_auto(kg_free) char *all = listing(&world->problems);
    if (strcmp(kg_buf_terminate(&found), expected) != 0)
        fail_msg("%s", all);
}

static void assert_said(const struct world *world, const char *words)
{
    kg_auto(kg_free) char *all = listing(&world->problems);
    if (strstr(all, words) == NULL)
        fail_msg("%s does not say \"%s\"", all, words);
}

/* "on_session_start post_compact" */
static void assert_hooks(const struct project_use *use, const char *expected)
{
    kg_auto(kg_buf_free) struct kg_buf found = {0};
    for (size_t i = 0; i < MANIFEST_HOOK_COUNT; i++)
        if (use->hooks[i])
            kg_buf_printf(&found, "%s%s", found.length ? " " : "", manifest_hook_names[i]);
    assert_string_equal(kg_buf_terminate(&found), expected);
}

/* "key=value(origin) ...", of all settings. */
static void assert_settings(const struct project_use *use, const char *expected)
{
    kg_auto(kg_buf_free) struct kg_buf found = {0};
    struct kg_json_writer json = kg_json_writer(&found);
    for (size_t i = 0; i < use->setting_count; i++) {
        kg_buf_printf(&found, "%s%s=", i ? " " : "", use->settings[i].key);
        json.comma = false;
        kg_json_node(&json, use->settings[i].value);
        kg_buf_printf(&found, "(%s)", project_origin_names[use->settings[i].origin]);
    }
    assert_string_equal(kg_buf_terminate(&found), expected);
}

#define MEMORY(more) "memory: { package: \"@kaged/memory-markdown\"" more " }"
#define TAGGED       ", config: { project_tag: x }"

/* -- hooks and roles --------------------------------------------------------------------------- */

static void a_declaration_without_hooks_has_all_of_the_manifest(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { " MEMORY(TAGGED) " } }\n", NULL, memory);
    const struct project_use *use = use_of(&world, "primary", 0);
    assert_problems(&world, "");
    assert_int_equal(use->state, PROJECT_READY);
    assert_hooks(use, "on_session_start on_session_idle pre_compact post_compact");
    assert_int_equal(use->roles, MANIFEST_OBSERVER | MANIFEST_COMPACTOR);
}

static void a_hook_has_to_be_named_by_both(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world = WORLD(
        "primary: { plugins: { w: { package: watcher, hooks: [post_compact, pre_compact] } } }\n",
        NULL, watcher);
    assert_hooks(use_of(&world, "primary", 0), "post_compact");
    assert_problems(&world, "3:68 hook_not_offered\n");
}

static void hooks_of_sessions_are_the_primarys(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary:\n"
              "  plugins: { w: { package: watcher } }\n"
              "  subagents: { a: { plugins: { w: { package: watcher } } } }\n",
              NULL, watcher);
    assert_hooks(use_of(&world, "primary", 0), "on_session_idle post_compact");
    assert_hooks(use_of(&world, "primary.subagents.a", 0), "post_compact");
    assert_problems(&world, "");
}

static void no_hooks_is_no_role(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { w: { package: watcher, hooks: [] } } }\n", NULL, watcher);
    assert_hooks(use_of(&world, "primary", 0), "");
    assert_int_equal(use_of(&world, "primary", 0)->roles, 0);
}

static void the_second_compactor_of_an_agent_is_refused(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world = WORLD(
        "primary:\n"
        "  plugins:\n"
        "    " MEMORY(TAGGED) "\n"
                              "    smart: { package: smart }\n"
                              "  subagents: { a: { plugins: { smart: { package: smart } } } }\n",
        NULL, memory, smart);
    assert_problems(&world, "6:5 plugin.role_violation\n");
    assert_int_equal(use_of(&world, "primary", 0)->state, PROJECT_READY);
    const struct project_use *second = use_of(&world, "primary", 1);
    assert_int_equal(second->state, PROJECT_REFUSED);
    assert_non_null(strstr(second->reason, "\"memory\""));
    assert_hooks(second, "");
    assert_int_equal(use_of(&world, "primary.subagents.a", 0)->roles, MANIFEST_COMPACTOR);
}

static void without_pre_compact_nobody_compacts(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary:\n"
              "  plugins:\n"
              "    " MEMORY(
                  TAGGED
                  ", hooks: [on_session_start]") "\n"
                                                 "    smart: { package: smart }\n"
                                                 "  compaction: { delegate: { plugin: memory } }\n",
              NULL, memory, smart);
    assert_int_equal(use_of(&world, "primary", 0)->roles, MANIFEST_OBSERVER);
    assert_int_equal(use_of(&world, "primary", 1)->roles, MANIFEST_COMPACTOR);
    assert_problems(&world, "7:37 delegate_not_compactor\n");
    assert_said(&world, "add pre_compact to its hooks");
}

static void compaction_is_delegated_to_a_compactor(void **state)
{
    (void)state;
    kg_auto(world_end) struct world fine =
        WORLD("primary:\n"
              "  plugins: { smart: { package: smart } }\n"
              "  compaction: { threshold: 0.75, delegate: { plugin: smart } }\n",
              NULL, smart);
    assert_problems(&fine, "");
    assert_int_equal(agent_of(&fine, "primary")->compaction.strategy, PROJECT_STRATEGY_DELEGATE);
    kg_auto(world_end) struct world wrong = WORLD("primary:\n"
                                                  "  plugins: { notes: { package: notes } }\n"
                                                  "  compaction: { delegate: { plugin: notes } }\n",
                                                  NULL, notes);
    assert_problems(&wrong, "5:37 delegate_not_compactor\n");
}

static void a_model_that_the_operator_does_not_have_is_warned_of(void **state)
{
    (void)state;
    static const char project[] = "primary: { model: smrt, compaction: { summary_model: fast } }\n";
    kg_auto(world_end) struct world world =
        WORLD(project,
              "[providers.p]\nkind = \"openai\"\n"
              "[models.smart]\nprovider = \"p\"\nmodel = \"x\"\n",
              notes);
    assert_problems(&world, "3:19 model_unknown\n3:54 model_unknown\n");
    assert_said(&world, "did you mean smart?");
    kg_auto(world_end) struct world none = WORLD(project, "", notes);
    assert_problems(&none, "3:19 model_unknown\n3:54 model_unknown\n");
}

/* What the view lists as to be installed. */
static void assert_missing(const struct world *world, const char *wanted)
{
    kg_auto(kg_buf_free) struct kg_buf view = {0};
    struct kg_json_writer json = kg_json_writer(&view);
    struct kg_str missing = KG_STR("");
    project_view(world->resolved, NULL, &json);
    assert_true(kg_json_member(kg_buf_view(&view), "missing", &missing));
    assert_true(kg_str_is(missing, wanted));
}

/* -- which plugins ----------------------------------------------------------------------------- */

static void plugins_keep_the_order_of_the_file(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world = WORLD("primary:\n"
                                                  "  plugins:\n"
                                                  "    zebra: { package: watcher }\n"
                                                  "    ant: { package: smart }\n"
                                                  "    mole: { package: notes }\n",
                                                  NULL, notes, smart, watcher);
    static const char *const names[] = {"zebra", "ant", "mole"};
    for (size_t i = 0; i < KG_COUNT(names); i++)
        assert_string_equal(use_of(&world, "primary", i)->name, names[i]);
}

static void a_plugin_that_is_not_installed_is_listed(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world = WORLD(
        "primary:\n"
        "  plugins: { n: { package: notes, version: ^0.2, source: ./plugins/notes } }\n"
        "  subagents:\n"
        "    a: { plugins: { n: { package: notes, version: ^0.2, source: ./plugins/notes } } }\n"
        "    b: { plugins: { n: { package: notes } } }\n",
        NULL, NULL);
    assert_missing(&world, "[{\"package\":\"notes\",\"version\":\"^0.2\","
                           "\"source\":\"./plugins/notes\",\"installed\":null},"
                           "{\"package\":\"notes\",\"version\":null,\"source\":null,"
                           "\"installed\":null}]");
    assert_problems(&world, "4:14 plugin_missing\n6:21 plugin_missing\n7:21 plugin_missing\n");
    assert_said(&world, "kaged plugin install ./plugins/notes");
    assert_int_equal(world.problems.errors, 0);
    assert_int_equal(use_of(&world, "primary", 0)->state, PROJECT_NOT_INSTALLED);
}

static void a_package_of_the_same_name_is_not_taken_for_another(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { n: { package: \"@x/notes\" } } }\n", NULL, other_notes);
    assert_problems(&world, "3:23 plugin_missing\n");
    assert_said(&world, "is the package @other/notes");
}

static void a_plugin_is_found_by_its_name_and_by_any_scope_if_it_has_none(void **state)
{
    (void)state;
    kg_auto(world_end) struct world by_name =
        WORLD("primary: { plugins: { n: { package: notes } } }\n", NULL, other_notes);
    assert_problems(&by_name, "");
    kg_auto(world_end) struct world by_scope =
        WORLD("primary: { plugins: { n: { package: \"@x/notes\" } } }\n", NULL, notes);
    assert_problems(&by_scope, "");
}

static void versions_have_to_fit(void **state)
{
    (void)state;
    static const struct {
        const char *range;
        bool fits;
    } rows[] = {{"^1.4", true},       {"1.4.2", true},    {">=1 <2", true}, {"~1.4.0", true},
                {"^2 || ^1.4", true}, {"^1.5", false},    {"2.x", false},   {"<1.4.2", false},
                {"*", true},          {"1.4.2-rc", false}};
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *text = kg_format(
            "primary: { plugins: { " MEMORY(TAGGED ", version: \"%s\"") " } }\n", rows[i].range);
        kg_auto(world_end) struct world world = WORLD(text, NULL, memory);
        kg_auto(kg_free) char *missing =
            kg_format("[{\"package\":\"@kaged/memory-markdown\",\"version\":\"%s\","
                      "\"source\":null,\"installed\":\"1.4.2\"}]",
                      rows[i].range);
        assert_problems(&world, rows[i].fits ? "" : "3:23 plugin_version\n");
        assert_missing(&world, rows[i].fits ? "[]" : missing);
        assert_int_equal(use_of(&world, "primary", 0)->state,
                         rows[i].fits ? PROJECT_READY : PROJECT_WRONG_VERSION);
    }
}

/* -- tools ------------------------------------------------------------------------------------- */

static bool has_tool(const struct world *world, const char *path, const char *name)
{
    const struct project_use *use = NULL;
    return project_tool_find(agent_of(world, path), kg_str(name), &use) != NULL;
}

static void tools_are_on_unless_they_are_switched_off(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary:\n"
              "  plugins: { " MEMORY(
                  TAGGED) ", n: { package: notes } }\n"
                          "  tools:\n"
                          "    memory-markdown.recall: { enabled: false }\n"
                          "    memory-markdown.retain: { enabled: true }\n"
                          "    notes.list: false\n"
                          "  subagents: { a: { plugins: { n: { package: notes } } } }\n",
              NULL, memory, notes);
    assert_problems(&world, "");
    assert_true(has_tool(&world, "primary", "memory-markdown.retain"));
    assert_false(has_tool(&world, "primary", "memory-markdown.recall"));
    assert_false(has_tool(&world, "primary", "notes.list"));
    assert_true(has_tool(&world, "primary.subagents.a", "notes.list"));
    assert_false(has_tool(&world, "primary.subagents.a", "memory-markdown.retain"));
}

static void a_tool_that_nobody_has_is_warned_of(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary:\n"
              "  plugins: { n: { package: notes }, gone: { package: \"@x/gone\" } }\n"
              "  tools: { notes.lst: false, gone.what: false, shell.exec: true }\n",
              NULL, notes);
    assert_problems(&world, "4:37 plugin_missing\n5:12 tool_unknown\n5:48 tool_unknown\n");
    assert_said(&world, "did you mean notes.list?");
}

static void two_plugins_with_one_tool_are_one_too_many(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world = WORLD("primary:\n"
                                                  "  plugins:\n"
                                                  "    first: { package: notes }\n"
                                                  "    second: { package: \"@other/notes\" }\n"
                                                  "    third: { package: \"@quiet/notes\" }\n",
                                                  NULL, notes, other_notes, quiet_notes);
    assert_problems(&world, "6:5 plugin.tool_name_collision\n7:5 plugin_twice\n");
    assert_said(&world, "\"first\" and \"second\" both have the tool notes.list");
    assert_int_equal(use_of(&world, "primary", 0)->state, PROJECT_READY);
    assert_int_equal(use_of(&world, "primary", 1)->state, PROJECT_REFUSED);
    const struct project_use *use = NULL;
    const struct project_tool *tool =
        project_tool_find(agent_of(&world, "primary"), KG_STR("notes.list"), &use);
    assert_string_equal(tool->description, "All notes.");
    assert_string_equal(use->name, "first");
}

static void a_name_of_built_in_tools_is_warned_of(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { f: { package: file } } }\n", NULL, file_plugin);
    assert_problems(&world, "3:23 name_is_builtin\n");
    assert_true(has_tool(&world, "primary", "file.read"));
}

static void very_many_tools_are_warned_of(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf many = {0};
    kg_buf_text(&many, "name: many\nversion: 1.0.0\ntools:\n");
    for (int i = 0; i <= PROJECT_TOOLS_ADVISED; i++)
        kg_buf_printf(&many, "  - { name: t%d, description: One. }\n", i);
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { m: { package: many } } }\n", NULL, kg_buf_terminate(&many));
    assert_problems(&world, "3:21 too_many_tools\n");
    kg_auto(world_end) struct world fewer = WORLD("primary: { tools: { many.t7: false },\n"
                                                  "  plugins: { m: { package: many } } }\n",
                                                  NULL, many.data);
    assert_problems(&fewer, "");
}

/* -- configuration ----------------------------------------------------------------------------- */

static const char operators[] = "[plugins.\"@kaged/memory-markdown\"]\n"
                                "api_token = \"s3cret\"\n"
                                "config = { budget = \"low\", depth = 5, tags = [\"op\"] }\n";

static void each_value_knows_where_it_comes_from(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary:\n"
              "  plugins:\n"
              "    memory:\n"
              "      package: \"@kaged/memory-markdown\"\n"
              "      isolation: project\n"
              "      config: { tags: [primary], project_tag: p }\n"
              "  subagents:\n"
              "    a: { plugins: { memory: { config: { tags: [a] } } } }\n"
              "    b: { plugins: { memory: } }\n",
              operators, memory);
    assert_problems(&world, "");
    assert_settings(use_of(&world, "primary", 0),
                    "budget=\"low\"(operator) depth=5(operator) tags=[\"primary\"](agent) "
                    "project_tag=\"p\"(agent) isolation=\"project\"(agent)");
    assert_settings(use_of(&world, "primary.subagents.a", 0),
                    "budget=\"low\"(operator) depth=5(operator) project_tag=\"p\"(primary) "
                    "tags=[\"a\"](agent) isolation=\"project\"(primary)");
    assert_settings(use_of(&world, "primary.subagents.b", 0),
                    "budget=\"low\"(operator) depth=5(operator) tags=[\"primary\"](primary) "
                    "project_tag=\"p\"(primary) isolation=\"project\"(primary)");
}

static void nothing_is_inherited_by_an_agents_own(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary:\n"
              "  plugins: { " MEMORY(
                  ", config: { project_tag: p, budget: high }") " }\n"
                                                                "  subagents:\n"
                                                                "    a: { plugins: { " MEMORY(
                                                                    ", config: { project_tag: "
                                                                    "a }") " } }\n"
                                                                           "    b: {}\n",
              NULL, memory);
    assert_problems(&world, "");
    assert_settings(use_of(&world, "primary.subagents.a", 0),
                    "project_tag=\"a\"(agent) isolation=\"agent\"(schema) budget=\"mid\"(schema) "
                    "depth=3(schema)");
    assert_int_equal(agent_of(&world, "primary.subagents.b")->use_count, 0);
}

static void what_the_schema_requires_is_missed(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { " MEMORY("") " } }\n", NULL, memory);
    assert_problems(&world, "3:23 plugin.config_validation_failed\n");
    assert_said(&world, "project_tag");
    const struct project_use *use = use_of(&world, "primary", 0);
    assert_int_equal(use->state, PROJECT_MISCONFIGURED);
    assert_hooks(use, "");
    assert_false(has_tool(&world, "primary", "memory-markdown.retain"));
}

static void what_does_not_fit_the_schema_has_its_place(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary:\n"
              "  plugins:\n"
              "    memory:\n"
              "      package: \"@kaged/memory-markdown\"\n"
              "      isolation: project\n"
              "      config:\n"
              "        project_tag: p\n"
              "        tags: [1]\n"
              "        bugdet: low\n"
              "  subagents:\n"
              "    a: { plugins: { memory: { config: { depth: 1.5 } } } }\n",
              NULL, memory);
    assert_problems(&world, "10:16 plugin.config_validation_failed\n"
                            "11:9 plugin.config_validation_failed\n"
                            "13:48 plugin.config_validation_failed\n");
    assert_said(&world, "did you mean \"budget\"?");
    assert_said(&world, "the config of \"memory\", tags/0: must be a string");
}

static void a_wrong_default_of_the_operator_is_said_to_be_his(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world = WORLD(
        "primary: { plugins: { " MEMORY(TAGGED) " } }\n",
        "[plugins.\"@kaged/memory-markdown\"]\nconfig = { depth = 4.25, mystery = 1 }\n", memory);
    assert_problems(&world, "3:23 plugin.config_validation_failed\n"
                            "3:23 plugin.config_validation_failed\n");
    assert_said(&world, "local.toml");
    kg_auto(kg_free) char *all = listing(&world.problems);
    assert_null(strstr(all, "4.25"));
}

static void a_secret_cannot_stand_in_the_project(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world = WORLD(
        "primary: { plugins: { " MEMORY(", config: { project_tag: x, api_token: t0p }") " } }\n",
        operators, memory);
    assert_problems(&world, "3:94 secret_in_project\n");
    const struct project_use *use = use_of(&world, "primary", 0);
    assert_int_equal(use->state, PROJECT_MISCONFIGURED);
    assert_int_equal(use->secret_count, 2);
    assert_true(use->secrets[0].set && use->secrets[0].required);
    assert_false(use->secrets[1].set || use->secrets[1].required);
}

/* Where such a setting points, the plugin may write. */
static void no_project_points_a_path_outside_of_its_prefixes(void **state)
{
    static const char scribe[] =
        "name: scribe\nversion: 1.0.0\nmethods: [scribe.write]\n"
        "config_schema: { type: object, properties: { store: { type: string } } }\n"
        "knobs:\n"
        "  store: { type: path, label: Store, binds_to: config.store, default: config:/a,\n"
        "           prefixes: [\"config:\"] }\n";
    (void)state;
    kg_auto(world_end) struct world fine =
        WORLD("primary: { plugins: { s: { package: scribe, config: { store: config:/b } } } }\n",
              NULL, scribe);
    assert_problems(&fine, "");
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { s: { package: scribe, config: { store: project:/ } } } }\n",
              NULL, scribe);
    assert_problems(&world, "3:55 plugin.config_validation_failed\n");
    assert_said(&world, "the path has none of its prefixes");
    kg_auto(world_end) struct world operators_own =
        WORLD("primary: { plugins: { s: { package: scribe } } }\n",
              "[plugins.scribe.config]\nstore = \"project:/\"\n", scribe);
    assert_problems(&operators_own, "3:23 plugin.config_validation_failed\n");
}

static void a_key_that_the_operator_keeps_is_a_secret_without_a_schema_too(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { n: { package: notes, config: { key: k } } } }\n",
              "[plugins.notes]\nkey = \"s3cret\"\n", notes);
    assert_problems(&world, "3:54 secret_in_project\n");
}

static void a_plugin_without_a_schema_takes_what_it_is_given(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { n: { package: notes, config: { a: [1, x] } },\n"
              "  w: { package: watcher } } }\n",
              NULL, notes, watcher);
    assert_problems(&world, "");
    assert_settings(use_of(&world, "primary", 0), "a=[1,\"x\"](agent)");
    assert_null(use_of(&world, "primary", 1)->config);
}

static void the_isolation_of_the_declaration_counts(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { " MEMORY(
                  ", isolation: agent, config: { project_tag: x, isolation: project }") " } }\n",
              NULL, memory);
    assert_settings(use_of(&world, "primary", 0),
                    "project_tag=\"x\"(agent) isolation=\"agent\"(agent) budget=\"mid\"(schema) "
                    "depth=3(schema)");
}

static void the_isolation_of_the_configuration_counts_where_the_declaration_has_none(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { " MEMORY(
                  ", config: { project_tag: x, isolation: project }") " } }\n",
              NULL, memory);
    assert_problems(&world, "");
    assert_settings(use_of(&world, "primary", 0),
                    "project_tag=\"x\"(agent) isolation=\"project\"(agent) budget=\"mid\"(schema) "
                    "depth=3(schema)");
    assert_int_equal(use_of(&world, "primary", 0)->isolation, PROJECT_ISOLATION_PROJECT);
}

/* A schema that takes for ever to check costs that once, not once for each agent. */
static void a_schema_that_is_too_much_work_is_given_up(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf manifest = {0};
    kg_buf_text(&manifest, "name: slow\nversion: 1.0.0\nhooks: [post_compact]\n"
                           "config_schema:\n  allOf: [{ $ref: '#/$defs/a0' }]\n  $defs:\n");
    for (int i = 0; i < 60; i++)
        kg_buf_printf(&manifest,
                      "    a%d: { allOf: [{ $ref: '#/$defs/a%d' }, { $ref: '#/$defs/a%d' }] }\n", i,
                      i + 1, i + 1);
    kg_buf_text(&manifest, "    a60: { type: 'object' }\n");
    kg_auto(world_end) struct world world =
        WORLD("primary:\n"
              "  plugins: { s: { package: slow } }\n"
              "  subagents: { a: { plugins: { s: { package: slow } } } }\n",
              NULL, kg_buf_terminate(&manifest));
    assert_problems(&world, "4:14 plugin.config_validation_failed\n"
                            "5:32 plugin.config_validation_failed\n");
    assert_said(&world, "took too long");
}

/* A default of 100 kB, put in for each of 240 declarations, is more than a project may hold. */
static void configurations_are_bounded_together(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0}, filler = {0};
    char *manifests[5] = {NULL};
    bool found = false;
    while (filler.length < 100000)
        kg_buf_text(&filler, "xxxxxxxxxx");
    for (int i = 0; i < 4; i++)
        manifests[i] = kg_format("name: big%d\nversion: 1.0.0\nhooks: [post_compact]\n"
                                 "config_schema: { properties: { a: { default: %s } } }\n",
                                 i, kg_buf_terminate(&filler));
    kg_buf_text(&text, "primary:\n  subagents:\n");
    for (int i = 0; i < 60; i++)
        kg_buf_printf(&text,
                      "    a%d: { plugins: { a: { package: big0 }, b: { package: big1 },"
                      " c: { package: big2 }, d: { package: big3 } } }\n",
                      i);
    struct world world = world_with(kg_buf_terminate(&text), NULL, (const char *const *)manifests);
    for (size_t i = 0; i < world.problems.count; i++)
        found |= world.problems.items[i].row == &project_rows[PROJECT_CONFIG_LARGE];
    assert_true(found);
    assert_int_equal(use_of(&world, "primary.subagents.a0", 3)->state, PROJECT_READY);
    assert_int_equal(use_of(&world, "primary.subagents.a59", 3)->state, PROJECT_MISCONFIGURED);
    world_end(&world);
    for (int i = 0; i < 4; i++)
        free(manifests[i]);
}

/* -- sensitive --------------------------------------------------------------------------------- */

static void what_is_sensitive_is_marked_wherever_the_schema_says_so(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *hidden; /* of the keys a, b and c, those that are */
    } rows[] = {
        {"{ properties: { a: { sensitive: true }, b: {}, c: { sensitive: false } } }", "a"},
        {"{ properties: { a: { properties: { x: { sensitive: true } } } } }", "a"},
        {"{ properties: { b: { $ref: '#/$defs/s' } }, $defs: { s: { sensitive: true } } }", "b"},
        {"{ properties: { b: { $ref: '#s' } }, $defs: { s: { $anchor: s } } }", "b"},
        {"{ allOf: [{ properties: { c: { sensitive: true } } }] }", "c"},
        {"{ $ref: '#/$defs/o', $defs: { o: { properties: { a: { sensitive: true } } } } }", "a"},
        {"{ if: {}, then: { properties: { b: { sensitive: true } } } }", "b"},
        {"{ patternProperties: { '^s_': { sensitive: true } } }", "abc"},
        {"{ properties: { a: { $ref: '#' } } }", ""},
        {"{ properties: { sensitive: {} } }", ""},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *manifest = kg_format(
            "name: s\nversion: 1.0.0\nhooks: [post_compact]\nconfig_schema: %s\n", rows[i].schema);
        kg_auto(world_end) struct world world =
            WORLD("primary: { plugins: { s: { package: s, config: { a: {}, b: {}, c: {} } } } }\n",
                  NULL, manifest);
        const struct project_use *use = use_of(&world, "primary", 0);
        for (size_t k = 0; k < use->setting_count; k++)
            if (use->settings[k].sensitive !=
                (strchr(rows[i].hidden, *use->settings[k].key) != NULL))
                fail_msg("%s: %s", rows[i].schema, use->settings[k].key);
    }
}

/* -- views ------------------------------------------------------------------------------------- */

static const char shown_project[] =
    "primary:\n"
    "  model: smart\n"
    "  prompt: |\n    You are\n    a musician.\n"
    "  plugins:\n"
    "    memory:\n"
    "      package: \"@kaged/memory-markdown\"\n"
    "      version: ^1.4\n"
    "      isolation: project\n"
    "      config: { project_tag: p, salt: gr41n }\n"
    "    gone: { package: \"@x/gone\", version: ^2, source: ./plugins/gone }\n"
    "  tools: { memory-markdown.recall: false }\n"
    "  compaction: { threshold: 0.8, delegate: { plugin: memory }, keep_recent: 4 }\n"
    "  subagents:\n"
    "    reader: { plugins: { memory: { hooks: [post_compact], config: { tags: [r] } } } }\n";

static void the_view_is_one_json_object(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world = WORLD(shown_project, operators, memory);
    kg_auto(kg_buf_free) struct kg_buf view = {0};
    struct kg_json_writer json = kg_json_writer(&view);
    project_view(world.resolved, &world.problems, &json);
    static const char expected[] =
        "{\"name\":\"music\",\"agents\":[{\"path\":\"primary\",\"model\":\"smart\","
        "\"prompt\":\"You are\\na musician.\\n\",\"prompt_file\":null,"
        "\"compaction\":{\"threshold\":0.8,\"strategy\":\"delegate\",\"delegate\":\"memory\","
        "\"keep_recent\":4},"
        "\"plugins\":[{\"name\":\"memory\",\"package\":\"@kaged/memory-markdown\","
        "\"plugin\":\"memory-markdown\",\"installed\":\"1.4.2\",\"version\":\"^1.4\","
        "\"source\":null,\"state\":\"ready\",\"reason\":null,\"isolation\":\"project\","
        "\"hooks\":[\"on_session_start\",\"on_session_idle\",\"pre_compact\",\"post_compact\"],"
        "\"roles\":[\"observer\",\"compactor\"],"
        "\"config\":[{\"key\":\"budget\",\"origin\":\"operator\",\"sensitive\":false,"
        "\"value\":\"low\"},{\"key\":\"depth\",\"origin\":\"operator\",\"sensitive\":false,"
        "\"value\":5},{\"key\":\"tags\",\"origin\":\"operator\",\"sensitive\":false,"
        "\"value\":[\"op\"]},{\"key\":\"project_tag\",\"origin\":\"agent\",\"sensitive\":false,"
        "\"value\":\"p\"},{\"key\":\"salt\",\"origin\":\"agent\",\"sensitive\":true},"
        "{\"key\":\"isolation\",\"origin\":\"agent\",\"sensitive\":false,\"value\":\"project\"}],"
        "\"secrets\":[{\"key\":\"api_token\",\"required\":true,\"set\":true},"
        "{\"key\":\"proxy\",\"required\":false,\"set\":false}]},"
        "{\"name\":\"gone\",\"package\":\"@x/gone\",\"plugin\":null,\"installed\":null,"
        "\"version\":\"^2\",\"source\":\"./plugins/gone\",\"state\":\"not_installed\","
        "\"reason\":\"@x/gone is not installed\",\"isolation\":\"agent\",\"hooks\":[],"
        "\"roles\":[],\"config\":[],\"secrets\":[]}],"
        "\"tools\":[{\"name\":\"memory-markdown.retain\","
        "\"model_name\":\"memory-markdown__retain\",\"plugin\":\"memory\",\"enabled\":true,"
        "\"description\":\"Store it.\"},{\"name\":\"memory-markdown.recall\","
        "\"model_name\":\"memory-markdown__recall\",\"plugin\":\"memory\",\"enabled\":false,"
        "\"description\":\"Find it.\"}],\"description\":null,\"delegate\":true,"
        "\"handoffs\":[{\"name\":\"agent.reader\",\"model_name\":\"agent__reader\","
        "\"agent\":\"primary.subagents.reader\",\"enabled\":true,"
        "\"description\":\"Hand a task to the subagent reader, which works on it with its own "
        "context and tools, and answers.\"}]},{\"path\":\"primary.subagents.reader\","
        "\"model\":null,\"prompt\":null,\"prompt_file\":null,\"compaction\":null,"
        "\"plugins\":[{\"name\":\"memory\",\"package\":\"@kaged/memory-markdown\","
        "\"plugin\":\"memory-markdown\",\"installed\":\"1.4.2\",\"version\":\"^1.4\","
        "\"source\":null,\"state\":\"ready\",\"reason\":null,\"isolation\":\"project\","
        "\"hooks\":[\"post_compact\"],\"roles\":[\"observer\"],"
        "\"config\":[{\"key\":\"budget\",\"origin\":\"operator\",\"sensitive\":false,"
        "\"value\":\"low\"},{\"key\":\"depth\",\"origin\":\"operator\",\"sensitive\":false,"
        "\"value\":5},{\"key\":\"project_tag\",\"origin\":\"primary\",\"sensitive\":false,"
        "\"value\":\"p\"},{\"key\":\"salt\",\"origin\":\"primary\",\"sensitive\":true},"
        "{\"key\":\"tags\",\"origin\":\"agent\",\"sensitive\":false,\"value\":[\"r\"]},"
        "{\"key\":\"isolation\",\"origin\":\"primary\",\"sensitive\":false,"
        "\"value\":\"project\"}],\"secrets\":[{\"key\":\"api_token\",\"required\":true,"
        "\"set\":true},{\"key\":\"proxy\",\"required\":false,\"set\":false}]}],"
        "\"tools\":[{\"name\":\"memory-markdown.retain\","
        "\"model_name\":\"memory-markdown__retain\",\"plugin\":\"memory\",\"enabled\":true,"
        "\"description\":\"Store it.\"},{\"name\":\"memory-markdown.recall\","
        "\"model_name\":\"memory-markdown__recall\",\"plugin\":\"memory\",\"enabled\":true,"
        "\"description\":\"Find it.\"}],\"description\":null,\"delegate\":true,\"handoffs\":[]}],"
        "\"missing\":[{\"package\":\"@x/gone\",\"version\":\"^2\",\"source\":\"./plugins/gone\","
        "\"installed\":null}],"
        "\"problems\":[{\"code\":\"model_unknown\",\"severity\":\"warning\",\"line\":4,"
        "\"column\":10,\"message\":\"the operator has no model \\\"smart\\\"\","
        "\"hint\":\"add it to [models] in local.toml\"},"
        "{\"code\":\"plugin_missing\",\"severity\":\"warning\",\"line\":14,"
        "\"column\":5,\"message\":\"@x/gone is not installed\","
        "\"hint\":\"kaged plugin install ./plugins/gone\"}]}";
    assert_string_equal(kg_buf_terminate(&view), expected);
}

static void the_words_are_for_people(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world = WORLD(shown_project, operators, memory);
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    project_words(world.resolved, &words);
    static const char expected[] =
        "project music: 2 agents\n"
        "\n"
        "primary\n"
        "  model       smart\n"
        "  prompt      You are (20 bytes)\n"
        "  compaction  delegate to memory, at 80 % of the context, the last 4 turns stay\n"
        "  memory      @kaged/memory-markdown 1.4.2, shared by the project\n"
        "    hooks       on_session_start, on_session_idle, pre_compact, post_compact\n"
        "    roles       observer, compactor\n"
        "    config      budget = \"low\"   [local.toml]\n"
        "                depth = 5   [local.toml]\n"
        "                tags = [\"op\"]   [local.toml]\n"
        "                project_tag = \"p\"   [this agent]\n"
        "                salt = (hidden)   [this agent]\n"
        "                isolation = \"project\"   [this agent]\n"
        "    secrets     api_token: set in local.toml\n"
        "                proxy: not set\n"
        "  gone        @x/gone\n"
        "    not used    @x/gone is not installed\n"
        "    wanted      ^2\n"
        "    source      ./plugins/gone\n"
        "  tools       memory-markdown.retain\n"
        "              memory-markdown.recall (off)\n"
        "  hands to    agent.reader\n"
        "\n"
        "primary.subagents.reader\n"
        "  memory      @kaged/memory-markdown 1.4.2, shared by the project\n"
        "    hooks       post_compact\n"
        "    roles       observer\n"
        "    config      budget = \"low\"   [local.toml]\n"
        "                depth = 5   [local.toml]\n"
        "                project_tag = \"p\"   [the primary]\n"
        "                salt = (hidden)   [the primary]\n"
        "                tags = [\"r\"]   [this agent]\n"
        "                isolation = \"project\"   [the primary]\n"
        "    secrets     api_token: set in local.toml\n"
        "                proxy: not set\n"
        "  tools       memory-markdown.retain\n"
        "              memory-markdown.recall\n"
        "\n"
        "to be installed\n"
        "  @x/gone ^2 from ./plugins/gone\n";
    assert_string_equal(kg_buf_terminate(&words), expected);
}

static void texts_of_a_project_cannot_steer_the_terminal(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary:\n"
              "  prompt: \"\\e[31mred\\u202E\"\n"
              "  plugins: { n: { package: notes, config: { \"\\e]0;x\\a\": \"\\e[2J\" } } }\n",
              NULL, notes);
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    project_words(world.resolved, &words);
    assert_null(strpbrk(kg_buf_terminate(&words), "\x1b\x07"));
    assert_null(strstr(words.data, "\u202e"));
}

/* -- differences ------------------------------------------------------------------------------- */

static void assert_changes(const char *before, const char *after, const char *expected)
{
    kg_auto(world_end) struct world old = WORLD(before, operators, memory, notes, watcher);
    kg_auto(world_end) struct world new = WORLD(after, operators, memory, notes, watcher);
    struct project_changes *changes = project_diff(old.resolved, new.resolved);
    kg_auto(kg_buf_free) struct kg_buf text = {0}, words = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    project_changes_json(changes, &json);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), NULL);
    assert_non_null(doc);
    project_changes_view_words(doc->root, &words);
    assert_string_equal(kg_buf_terminate(&words), expected);
    project_changes_free(changes);
}

static void nothing_changed_is_an_empty_list(void **state)
{
    (void)state;
    assert_changes(shown_project, shown_project, "");
}

static void each_change_is_listed_once(void **state)
{
    (void)state;
    assert_changes(
        "primary:\n"
        "  model: fast\n"
        "  prompt: one\n"
        "  plugins:\n"
        "    " MEMORY(
            ", config: { project_tag: p, salt: a, tags: [x] }") "\n"
                                                                "    n: { package: notes }\n"
                                                                "  subagents: { old: { plugins: { "
                                                                "n: { package: notes } } } }\n",
        "primary:\n"
        "  model: smart\n"
        "  prompt: two\n"
        "  compaction: { strategy: drop }\n"
        "  tools: { memory-markdown.recall: false }\n"
        "  plugins:\n"
        "    w: { package: watcher }\n"
        "    " MEMORY(
            ", isolation: project, hooks: [on_session_start],"
            " config: { project_tag: q, salt: b, budget: high }") "\n"
                                                                  "  subagents: { new: { plugins: "
                                                                  "{ n: { package: notes } } } }\n",
        "~ primary: model \"fast\" -> \"smart\"\n"
        "~ primary: prompt\n"
        "+ primary: compaction {\"strategy\":\"drop\"}\n"
        "+ primary: tool agent.new\n"
        "- primary: tool agent.old\n"
        "~ primary memory: isolation \"agent\" -> \"project\"\n"
        "- primary memory: hook on_session_idle\n"
        "- primary memory: hook post_compact\n"
        "- primary memory: hook pre_compact\n"
        "- primary memory: role compactor\n"
        "- primary memory: tool memory-markdown.recall\n"
        "~ primary memory: config budget \"low\" -> \"high\"\n"
        "~ primary memory: config isolation \"agent\" -> \"project\"\n"
        "~ primary memory: config project_tag \"p\" -> \"q\"\n"
        "~ primary memory: config salt (hidden)\n"
        "~ primary memory: config tags [\"x\"] -> [\"op\"]\n"
        "- primary n: plugin \"notes\"\n"
        "+ primary w: plugin \"watcher\"\n"
        "+ primary.subagents.new: agent\n"
        "- primary.subagents.old: agent\n");
}

static void the_order_of_plugins_is_a_change_of_its_own(void **state)
{
    (void)state;
    assert_changes("primary: { plugins: { n: { package: notes }, w: { package: watcher } } }\n",
                   "primary: { plugins: { w: { package: watcher }, n: { package: notes } } }\n",
                   "~ primary: order [\"n\",\"w\"] -> [\"w\",\"n\"]\n");
}

static void changes_as_json_hide_what_is_sensitive(void **state)
{
    (void)state;
    kg_auto(world_end) struct world old =
        WORLD("primary: { plugins: { " MEMORY(", config: { project_tag: x, salt: a1b2 }") " } }\n",
              NULL, memory);
    kg_auto(world_end) struct world new = WORLD(
        "primary: { plugins: { " MEMORY(", config: { project_tag: x }") " } }\n", NULL, memory);
    struct project_changes *changes = project_diff(old.resolved, new.resolved);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    project_changes_json(changes, &json);
    assert_string_equal(kg_buf_terminate(&text),
                        "[{\"kind\":\"config\",\"agent\":\"primary\",\"plugin\":\"memory\","
                        "\"what\":\"salt\",\"hidden\":true,\"before\":null}]");
    project_changes_free(changes);
}

/* -- the model's side -------------------------------------------------------------------------- */

static void assert_tools(const struct world *world, enum project_dialect dialect,
                         const char *expected)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    project_tools_json(agent_of(world, "primary"), dialect, &json);
    assert_string_equal(kg_buf_terminate(&text), expected);
}

static void tools_are_defined_in_both_dialects(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { " MEMORY(TAGGED) ", n: { package: notes } },\n"
                                                      "  tools: { notes.list: false } }\n",
              NULL, memory, notes);
    assert_tools(&world, PROJECT_OPENAI,
                 "[{\"type\":\"function\",\"function\":{\"name\":\"memory-markdown__retain\","
                 "\"description\":\"Store it.\",\"parameters\":{\"type\":\"object\"}}},"
                 "{\"type\":\"function\",\"function\":{\"name\":\"memory-markdown__recall\","
                 "\"description\":\"Find it.\","
                 "\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]");
    assert_tools(&world, PROJECT_ANTHROPIC,
                 "[{\"name\":\"memory-markdown__retain\",\"description\":\"Store it.\","
                 "\"input_schema\":{\"type\":\"object\"}},"
                 "{\"name\":\"memory-markdown__recall\",\"description\":\"Find it.\","
                 "\"input_schema\":{\"type\":\"object\",\"properties\":{}}}]");
}

static void parameters_are_always_an_object(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *expected;
    } rows[] = {
        {"true", "{\"type\":\"object\",\"properties\":{}}"},
        {"{}", "{\"type\":\"object\",\"properties\":{}}"},
        {"false", "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}"},
        {"{ required: [a] }", "{\"type\":\"object\",\"required\":[\"a\"]}"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *manifest =
            kg_format("name: to\nversion: 1.0.0\n"
                      "tools: [{ name: x, description: X., parameters_schema: %s }]\n",
                      rows[i].schema);
        kg_auto(kg_free) char *expected = kg_format(
            "[{\"name\":\"to__x\",\"description\":\"X.\",\"input_schema\":%s}]", rows[i].expected);
        kg_auto(world_end) struct world world =
            WORLD("primary: { plugins: { t: { package: to } } }\n", NULL, manifest);
        assert_tools(&world, PROJECT_ANTHROPIC, expected);
    }
}

static void long_names_fit_and_lead_back_to_their_tools(void **state)
{
    (void)state;
    static const char plugin[] = "a-plugin-with-a-name-that-goes-on-and-on-up-to-its-limit";
    kg_auto(kg_free) char *manifest = kg_format(
        "name: %s\nversion: 1.0.0\n"
        "tools: [{ name: first_one, description: A. }, { name: first_two, description: B. }]\n",
        plugin);
    kg_auto(kg_free) char *text =
        kg_format("primary: { plugins: { long: { package: %s } } }\n", plugin);
    kg_auto(world_end) struct world world = WORLD(text, NULL, manifest);
    const struct project_plugin *found = use_of(&world, "primary", 0)->plugin;
    assert_problems(&world, "");
    for (size_t i = 0; i < found->tool_count; i++) {
        const struct project_use *use = NULL;
        const char *name = found->tools[i].wire_name;
        assert_int_equal(strlen(name), MANIFEST_MODEL_NAME_MAX);
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-"),
                         MANIFEST_MODEL_NAME_MAX);
        assert_ptr_equal(project_tool_called(agent_of(&world, "primary"), kg_str(name), &use),
                         &found->tools[i]);
    }
    assert_string_not_equal(found->tools[0].wire_name, found->tools[1].wire_name);
}

static void a_long_description_is_cut_for_openai(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf manifest = {0}, text = {0};
    kg_buf_text(&manifest, "name: to\nversion: 1.0.0\ntools: [{ name: x, description: \"");
    for (int i = 0; i < 1025; i++)
        kg_buf_text(&manifest, "ä");
    kg_buf_text(&manifest, "\" }]\n");
    kg_auto(world_end) struct world world =
        WORLD("primary: { plugins: { t: { package: to } } }\n", NULL, kg_buf_terminate(&manifest));
    struct kg_json_writer json = kg_json_writer(&text);
    project_tools_json(agent_of(&world, "primary"), PROJECT_OPENAI, &json);
    assert_non_null(strstr(kg_buf_terminate(&text), "ä...\""));
    assert_int_equal(kg_utf8_valid(kg_buf_view(&text)), text.length);
    assert_in_range(text.length, 2 * 1021, 2 * 1021 + 200);
}

static void a_plugins_tool_goes_before_that_of_a_subagent(void **state)
{
    (void)state;
    kg_auto(world_end) struct world world = WORLD(
        "primary:\n  plugins: { a: { package: agent } }\n  subagents: { read: {}, write: {} }\n",
        NULL, agent_plugin);
    const struct project_resolved_agent *primary = agent_of(&world, "primary");
    assert_int_equal(primary->handoff_count, 1);
    assert_string_equal(primary->handoffs[0].tool.name, "agent.write");
    assert_null(project_handoff_find(primary, KG_STR("agent__read")));
    assert_ptr_equal(project_handoff_find(primary, KG_STR("agent__write")), &primary->handoffs[0]);
    assert_problems(&world, "4:14 name_is_builtin\n5:22 subagent_tool_taken\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plugins_tool_goes_before_that_of_a_subagent),
        cmocka_unit_test(a_declaration_without_hooks_has_all_of_the_manifest),
        cmocka_unit_test(a_hook_has_to_be_named_by_both),
        cmocka_unit_test(hooks_of_sessions_are_the_primarys),
        cmocka_unit_test(no_hooks_is_no_role),
        cmocka_unit_test(the_second_compactor_of_an_agent_is_refused),
        cmocka_unit_test(without_pre_compact_nobody_compacts),
        cmocka_unit_test(compaction_is_delegated_to_a_compactor),
        cmocka_unit_test(a_model_that_the_operator_does_not_have_is_warned_of),
        cmocka_unit_test(plugins_keep_the_order_of_the_file),
        cmocka_unit_test(a_plugin_that_is_not_installed_is_listed),
        cmocka_unit_test(a_package_of_the_same_name_is_not_taken_for_another),
        cmocka_unit_test(a_plugin_is_found_by_its_name_and_by_any_scope_if_it_has_none),
        cmocka_unit_test(versions_have_to_fit),
        cmocka_unit_test(tools_are_on_unless_they_are_switched_off),
        cmocka_unit_test(a_tool_that_nobody_has_is_warned_of),
        cmocka_unit_test(two_plugins_with_one_tool_are_one_too_many),
        cmocka_unit_test(a_name_of_built_in_tools_is_warned_of),
        cmocka_unit_test(very_many_tools_are_warned_of),
        cmocka_unit_test(each_value_knows_where_it_comes_from),
        cmocka_unit_test(nothing_is_inherited_by_an_agents_own),
        cmocka_unit_test(what_the_schema_requires_is_missed),
        cmocka_unit_test(what_does_not_fit_the_schema_has_its_place),
        cmocka_unit_test(a_wrong_default_of_the_operator_is_said_to_be_his),
        cmocka_unit_test(a_secret_cannot_stand_in_the_project),
        cmocka_unit_test(no_project_points_a_path_outside_of_its_prefixes),
        cmocka_unit_test(a_key_that_the_operator_keeps_is_a_secret_without_a_schema_too),
        cmocka_unit_test(a_plugin_without_a_schema_takes_what_it_is_given),
        cmocka_unit_test(the_isolation_of_the_declaration_counts),
        cmocka_unit_test(the_isolation_of_the_configuration_counts_where_the_declaration_has_none),
        cmocka_unit_test(a_schema_that_is_too_much_work_is_given_up),
        cmocka_unit_test(configurations_are_bounded_together),
        cmocka_unit_test(what_is_sensitive_is_marked_wherever_the_schema_says_so),
        cmocka_unit_test(the_view_is_one_json_object),
        cmocka_unit_test(the_words_are_for_people),
        cmocka_unit_test(texts_of_a_project_cannot_steer_the_terminal),
        cmocka_unit_test(nothing_changed_is_an_empty_list),
        cmocka_unit_test(each_change_is_listed_once),
        cmocka_unit_test(the_order_of_plugins_is_a_change_of_its_own),
        cmocka_unit_test(changes_as_json_hide_what_is_sensitive),
        cmocka_unit_test(tools_are_defined_in_both_dialects),
        cmocka_unit_test(parameters_are_always_an_object),
        cmocka_unit_test(long_names_fit_and_lead_back_to_their_tools),
        cmocka_unit_test(a_long_description_is_cut_for_openai),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
