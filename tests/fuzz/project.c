/*
 * Any bytes as a project's file: read, or refused with an error. One that is read is resolved
 * against a few plugins; then every plugin that is ready has what sessions rely on, the views are
 * JSON, a project does not differ from itself, and a setting that is written is there when it is
 * read again.
 */
#include "project/project.h"
#include "base/doc.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PLUGIN                                                                                     \
    "kaged_api: 1\ndescription: A plugin.\ncommand: [./run]\ncapabilities: []\nversion: 1.2.3\n"

static const char *const manifests[] = {
    PLUGIN "name: memory\n"
           "roles: [observer, compactor]\n"
           "hooks: [on_session_start, on_session_idle, pre_compact, post_compact]\n"
           "tools: [{ name: recall, description: Finds., parameters_schema: { required: [q] } }]\n"
           "config_schema:\n"
           "  additionalProperties: false\n"
           "  required: [tag]\n"
           "  properties:\n"
           "    isolation: { enum: [agent, project] }\n"
           "    tag: { type: string }\n"
           "    depth: { type: integer, default: 3 }\n"
           "    salt: { sensitive: true }\n"
           "    nested: { properties: { a: { default: 1 } }, additionalProperties: false }\n"
           "system_config_schema: { properties: { token: { type: string } } }\n",
    PLUGIN "name: smart\nroles: [compactor]\nhooks: [pre_compact]\n",
    PLUGIN "name: notes\ntools: [{ name: list, description: Lists. }]\n",
    PLUGIN "name: notes\npackage: \"@x/notes\"\ntools: [{ name: list, description: Lists. }]\n",
};
static const char local_text[] =
    "[plugins.memory]\ntoken = \"s\"\nconfig = { depth = 5, salt = \"x\" }\n";

static struct manifest *installed[KG_COUNT(manifests)];
static struct project_world world = {
    .manifests = (const struct manifest *const *)installed,
    .manifest_count = KG_COUNT(manifests),
};

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void make_world(void)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    for (size_t i = 0; i < KG_COUNT(manifests); i++)
        must((installed[i] = manifest_read(kg_str(manifests[i]), &problems)) != NULL);
    must((world.local = local_read(kg_str(local_text), LOCAL_LEAVE, NULL)) != NULL);
}

static void check_problems(const struct kg_problems *problems)
{
    must(problems->count <= KG_PROBLEMS_MAX);
    for (size_t i = 0; i < problems->count; i++) {
        const struct kg_problem *problem = &problems->items[i];
        const struct kg_problem *before = &problems->items[i ? i - 1 : 0];
        must(problem->message[0] != '\0');
        must(before->line < problem->line ||
             (before->line == problem->line && before->column <= problem->column));
    }
}

static void check_json(const struct kg_buf *text)
{
    size_t offset;
    must(kg_json_check(kg_buf_view(text), &offset) == KG_JSON_OK);
}

static void check_use(const struct project_use *use)
{
    bool is_ready = use->state == PROJECT_READY;
    must(use->package != NULL && (use->reason == NULL) == is_ready);
    must(!is_ready || use->plugin != NULL);
    must(!(use->roles & MANIFEST_COMPACTOR) || use->hooks[MANIFEST_PRE_COMPACT]);
    for (size_t i = 0; i < MANIFEST_HOOK_COUNT; i++)
        must(is_ready || !use->hooks[i]);
    for (size_t i = 0; use->plugin != NULL && i < use->plugin->tool_count; i++)
        must(is_ready || !use->tools[i]);
    for (size_t i = 0; i < use->setting_count; i++) {
        must(strcmp(use->settings[i].key, "token") != 0 ||
             strcmp(use->plugin->name, "memory") != 0);
        must(use->settings[i].sensitive == (strcmp(use->settings[i].key, "salt") == 0 &&
                                            strcmp(use->plugin->name, "memory") == 0));
    }
}

static void check_agent(const struct project_resolved_agent *agent)
{
    size_t compactors = 0;
    for (size_t i = 0; i < agent->use_count; i++) {
        check_use(&agent->uses[i]);
        compactors += (agent->uses[i].roles & MANIFEST_COMPACTOR) != 0;
        must(agent->parent == PROJECT_NO_PARENT ||
             (!agent->uses[i].hooks[MANIFEST_ON_SESSION_START] &&
              !agent->uses[i].hooks[MANIFEST_ON_SESSION_IDLE]));
    }
    must(compactors <= 1);
    for (enum project_dialect dialect = PROJECT_OPENAI; dialect <= PROJECT_ANTHROPIC; dialect++) {
        kg_auto(kg_buf_free) struct kg_buf tools = {0};
        struct kg_json_writer json = kg_json_writer(&tools);
        project_tools_json(agent, dialect, &json);
        check_json(&tools);
    }
}

static void check_shown(const struct project_resolved *resolved, const struct kg_problems *problems)
{
    kg_auto(kg_buf_free) struct kg_buf view = {0}, words = {0};
    struct kg_json_writer json = kg_json_writer(&view);
    struct project_changes *changes = project_diff(resolved, resolved);
    project_view(resolved, problems, &json);
    project_words(resolved, &words);
    check_json(&view);
    must(kg_utf8_valid(kg_buf_view(&words)) == words.length);
    must(memchr(words.data, 0x1b, words.length) == NULL);
    must(changes->count == 0);
    project_changes_free(changes);
}

static const struct kg_node *written(const struct project *project, const char *agent,
                                     const char *plugin, const char *key)
{
    for (size_t i = 0; i < project->agent_count; i++)
        for (size_t k = 0; k < project->agents[i].declaration_count; k++)
            if (strcmp(project->agents[i].path, agent) == 0 &&
                strcmp(project->agents[i].declarations[k].name, plugin) == 0)
                return kg_node_get(project->agents[i].declarations[k].config, key);
    return NULL;
}

/* The last declaration of the file gets a setting, or the edit is refused and nothing changes. */
static void check_edit(const struct project *project, struct kg_str text)
{
    static const struct kg_node value = {.type = KG_STRING, .text = {"new: #1", 7}};
    const struct project_agent *agent = &project->agents[project->agent_count - 1];
    const char *key = "tag";
    kg_auto(kg_buf_free) struct kg_buf edited = {0};
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    if (agent->declaration_count == 0)
        return;
    const char *plugin = agent->declarations[agent->declaration_count - 1].name;
    kg_buf_str(&edited, text);
    if (project_edit_config(&edited, agent->path, plugin, &key, 1, &value, NULL) < 0) {
        must(kg_str_equal(kg_buf_view(&edited), text));
        return;
    }
    struct project *again = project_read(kg_buf_view(&edited), &problems);
    must(again != NULL);
    const struct kg_node *found = written(again, agent->path, plugin, key);
    must(found != NULL && kg_str_equal(found->text, value.text));
    project_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct kg_str text = {(const char *)data, size};
    if (installed[0] == NULL)
        make_world();
    struct project *project = project_read(text, &problems);
    check_problems(&problems);
    must((project != NULL) == (problems.errors == 0));
    if (project == NULL)
        return 0;
    struct project_resolved *resolved = project_resolve(project, &world, &problems);
    check_problems(&problems);
    for (size_t i = 0; i < project_resolved_count(resolved); i++)
        check_agent(project_resolved_at(resolved, i));
    check_shown(resolved, &problems);
    check_edit(project, text);
    project_resolved_free(resolved);
    project_free(project);
    return 0;
}
