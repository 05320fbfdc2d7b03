/*
 * What changed between two resolved projects. Each is a list of facts (this agent has that hook of
 * that plugin), and the difference of the lists is the answer. Of something that is new or gone as
 * a whole, its parts are not listed again.
 */
#include "project/internal.h"

#include <stdlib.h>

const char *const project_change_names[] = {"agent",  "model",   "prompt", "compaction", "order",
                                            "plugin", "version", "state",  "isolation",  "hook",
                                            "role",   "tool",    "config"};

struct fact {
    enum project_change_kind kind;
    const char *agent, *plugin, *what;
    const char *value; /* JSON */
    bool hidden;
};

struct facts {
    struct kg_arena *arena; /* the list's, borrowed */
    struct kg_map *map;     /* owned; key: all but the value */
};

/* -- facts ------------------------------------------------------------------------------------- */

/* No name has a NUL or a line break in it; a key of a configuration may, and stands last. */
static void diff_put_key(struct kg_buf *out, enum project_change_kind kind, const char *agent,
                         const char *plugin, const char *what)
{
    kg_buf_printf(out, "%d\n%s\n%s\n%s", kind, agent, plugin ? plugin : "", what ? what : "");
}

static void diff_add(const struct facts *facts, const struct fact *fact)
{
    kg_auto(kg_buf_free) struct kg_buf key = {0};
    struct fact *copy = kg_arena_alloc(facts->arena, sizeof(*copy));
    *copy = (struct fact){
        .kind = fact->kind,
        .agent = project_keep_text(facts->arena, fact->agent),
        .plugin = project_keep_text(facts->arena, fact->plugin),
        .what = project_keep_text(facts->arena, fact->what),
        .value = project_keep_text(facts->arena, fact->value),
        .hidden = fact->hidden,
    };
    diff_put_key(&key, fact->kind, fact->agent, fact->plugin, fact->what);
    kg_map_set(facts->map, kg_buf_view(&key), copy);
}

static const struct fact *fact_find(const struct facts *facts, enum project_change_kind kind,
                                    const char *agent, const char *plugin, const char *what)
{
    kg_auto(kg_buf_free) struct kg_buf key = {0};
    diff_put_key(&key, kind, agent, plugin, what);
    return kg_map_get(facts->map, kg_buf_view(&key));
}

static void diff_add_text(const struct facts *facts, enum project_change_kind kind,
                          const char *agent, const char *plugin, const char *text)
{
    kg_auto(kg_buf_free) struct kg_buf value = {0};
    if (text == NULL)
        return;
    kg_json_put_string(&value, kg_str(text));
    diff_add(facts, &(struct fact){kind, agent, plugin, NULL, kg_buf_terminate(&value), false});
}

static void diff_add_settings(const struct facts *facts, const char *agent,
                              const struct project_use *use)
{
    for (size_t i = 0; i < use->setting_count; i++) {
        const struct project_setting *setting = &use->settings[i];
        kg_auto(kg_buf_free) struct kg_buf value = {0};
        kg_json_put_node(&value, setting->value);
        diff_add(facts, &(struct fact){PROJECT_CHANGE_CONFIG, agent, use->name, setting->key,
                                       kg_buf_terminate(&value), setting->sensitive});
    }
}

static void add_tools(const struct facts *facts, const char *agent, const struct project_use *use)
{
    for (size_t i = 0; use->plugin != NULL && i < use->plugin->tool_count; i++) {
        const struct project_tool *tool = &use->plugin->tools[i];
        kg_auto(kg_buf_free) struct kg_buf value = {0};
        struct kg_json_writer json = kg_json_writer(&value);
        if (!use->tools[i])
            continue;
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "description", tool->description);
        kg_json_named_raw(&json, "parameters",
                          tool->parameters ? kg_str(tool->parameters) : KG_STR("null"));
        kg_json_end(&json, '}');
        diff_add(facts, &(struct fact){PROJECT_CHANGE_TOOL, agent, use->name, tool->name,
                                       kg_buf_terminate(&value), false});
    }
}

static void diff_add_use(const struct facts *facts, const char *agent,
                         const struct project_use *use)
{
    diff_add_text(facts, PROJECT_CHANGE_PLUGIN, agent, use->name, use->package);
    diff_add_text(facts, PROJECT_CHANGE_VERSION, agent, use->name,
                  use->plugin ? use->plugin->version : NULL);
    diff_add_text(facts, PROJECT_CHANGE_STATE, agent, use->name, project_state_names[use->state]);
    diff_add_text(facts, PROJECT_CHANGE_ISOLATION, agent, use->name,
                  project_isolation_names[use->isolation]);
    for (size_t i = 0; i < MANIFEST_HOOK_COUNT; i++)
        if (use->hooks[i])
            diff_add(facts, &(struct fact){PROJECT_CHANGE_HOOK, agent, use->name,
                                           manifest_hook_names[i], "true", false});
    for (size_t i = 0; i < PROJECT_ROLE_COUNT; i++)
        if (use->roles & 1u << i)
            diff_add(facts, &(struct fact){PROJECT_CHANGE_ROLE, agent, use->name,
                                           project_role_names[i], "true", false});
    add_tools(facts, agent, use);
    diff_add_settings(facts, agent, use);
}

static void add_agent(const struct facts *facts, const struct project_resolved_agent *agent)
{
    kg_auto(kg_buf_free) struct kg_buf value = {0};
    struct kg_json_writer json = kg_json_writer(&value);
    diff_add(facts, &(struct fact){PROJECT_CHANGE_AGENT, agent->path, NULL, NULL, "true", false});
    diff_add_text(facts, PROJECT_CHANGE_MODEL, agent->path, NULL, agent->model);
    diff_add_text(facts, PROJECT_CHANGE_PROMPT, agent->path, NULL, agent->prompt);
    project_put_compaction(&agent->compaction, &json);
    if (project_compaction_is_said(&agent->compaction))
        diff_add(facts, &(struct fact){PROJECT_CHANGE_COMPACTION, agent->path, NULL, NULL,
                                       kg_buf_terminate(&value), false});
    for (size_t i = 0; i < agent->use_count; i++)
        diff_add_use(facts, agent->path, &agent->uses[i]);
    for (size_t i = 0; i < agent->handoff_count; i++)
        if (agent->handoffs[i].enabled)
            diff_add(facts, &(struct fact){PROJECT_CHANGE_TOOL, agent->path, NULL,
                                           agent->handoffs[i].tool.name, "true", false});
}

static void diff_add_project(const struct facts *facts, const struct project_resolved *project)
{
    for (size_t i = 0; i < project->agent_count; i++)
        add_agent(facts, &project->agents[i]);
}

/* -- order ------------------------------------------------------------------------------------- */

static bool has_use(const struct project_resolved_agent *agent, const char *name)
{
    for (size_t i = 0; i < agent->use_count; i++)
        if (strcmp(agent->uses[i].name, name) == 0)
            return true;
    return false;
}

/* The agent's plugins that the other one has, too, in their order. */
static char *order_of(const struct project_resolved_agent *agent,
                      const struct project_resolved_agent *other)
{
    struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_begin(&json, '[');
    for (size_t i = 0; i < agent->use_count; i++)
        if (has_use(other, agent->uses[i].name))
            kg_json_text(&json, agent->uses[i].name);
    kg_json_end(&json, ']');
    return kg_buf_terminate(&text);
}

static void add_orders(const struct facts *facts, const struct project_resolved *project,
                       const struct project_resolved *other)
{
    for (size_t i = 0; i < project->agent_count; i++) {
        const struct project_resolved_agent *agent = &project->agents[i];
        const struct project_resolved_agent *same =
            project_resolved_find(other, kg_str(agent->path));
        kg_auto(kg_free) char *order = same ? order_of(agent, same) : NULL;
        if (order != NULL)
            diff_add(facts,
                     &(struct fact){PROJECT_CHANGE_ORDER, agent->path, NULL, NULL, order, false});
    }
}

/* -- changes ----------------------------------------------------------------------------------- */

/* Whether the whole that a fact is part of is not in the other list at all. */
static bool whole_is_absent(const struct facts *other, const struct fact *fact)
{
    if (fact->kind != PROJECT_CHANGE_AGENT &&
        fact_find(other, PROJECT_CHANGE_AGENT, fact->agent, NULL, NULL) == NULL)
        return true;
    return fact->plugin != NULL && fact->kind != PROJECT_CHANGE_PLUGIN &&
           fact_find(other, PROJECT_CHANGE_PLUGIN, fact->agent, fact->plugin, NULL) == NULL;
}

static void list_change(struct project_changes *changes, const struct fact *before,
                        const struct fact *after)
{
    const struct fact *fact = after ? after : before;
    bool hidden = (before && before->hidden) || (after && after->hidden);
    if ((changes->count & (changes->count - 1)) == 0)
        changes->items = kg_realloc(changes->items, (changes->count ? changes->count * 2 : 1) *
                                                        sizeof(*changes->items));
    changes->items[changes->count++] = (struct project_change){
        .kind = fact->kind,
        .agent = fact->agent,
        .plugin = fact->plugin,
        .what = fact->what,
        .before = !before  ? NULL
                  : hidden ? "null"
                           : before->value,
        .after = !after   ? NULL
                 : hidden ? "null"
                          : after->value,
        .hidden = hidden,
    };
}

/* Facts of one list that the other has not, or (once, from the new list) with another value. */
static void diff_compare(struct project_changes *changes, const struct facts *facts,
                         const struct facts *other, bool facts_are_new)
{
    size_t position = 0;
    struct kg_str key;
    void *value;
    while (kg_map_next(facts->map, &position, &key, &value)) {
        const struct fact *fact = value, *match = kg_map_get(other->map, key);
        if (match == NULL && !whole_is_absent(other, fact))
            list_change(changes, facts_are_new ? NULL : fact, facts_are_new ? fact : NULL);
        else if (match != NULL && facts_are_new && strcmp(match->value, fact->value) != 0)
            list_change(changes, match, fact);
    }
}

static int text_order(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

static int by_place(const void *left, const void *right)
{
    const struct project_change *a = left, *b = right;
    int order = text_order(a->agent, b->agent);
    if (order == 0)
        order = text_order(a->plugin, b->plugin);
    if (order == 0)
        order = (int)a->kind - (int)b->kind;
    return order != 0 ? order : text_order(a->what, b->what);
}

struct project_changes *project_diff(const struct project_resolved *before,
                                     const struct project_resolved *after)
{
    struct project_changes *changes = kg_alloc(sizeof(*changes));
    changes->arena = kg_arena_new();
    const struct facts old = {changes->arena, kg_map_new()}, new = {changes->arena, kg_map_new()};
    diff_add_project(&old, before);
    diff_add_project(&new, after);
    add_orders(&old, before, after);
    add_orders(&new, after, before);
    diff_compare(changes, &old, &new, false);
    diff_compare(changes, &new, &old, true);
    if (changes->count > 1)
        qsort(changes->items, changes->count, sizeof(*changes->items), by_place);
    kg_map_free(old.map);
    kg_map_free(new.map);
    return changes;
}

void project_changes_free(struct project_changes *changes)
{
    if (changes == NULL)
        return;
    free(changes->items);
    kg_arena_free(changes->arena);
    free(changes);
}

/* -- shown ------------------------------------------------------------------------------------- */

static void diff_put_change(struct kg_json_writer *json, const struct project_change *change)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "kind", project_change_names[change->kind]);
    kg_json_named_text(json, "agent", change->agent);
    kg_json_named_text(json, "plugin", change->plugin);
    kg_json_named_text(json, "what", change->what);
    kg_json_named_bool(json, "hidden", change->hidden);
    if (change->before != NULL)
        kg_json_named_raw(json, "before", kg_str(change->before));
    if (change->after != NULL)
        kg_json_named_raw(json, "after", kg_str(change->after));
    kg_json_end(json, '}');
}

void project_changes_json(const struct project_changes *changes, struct kg_json_writer *json)
{
    kg_json_begin(json, '[');
    for (size_t i = 0; i < changes->count; i++)
        diff_put_change(json, &changes->items[i]);
    kg_json_end(json, ']');
}
