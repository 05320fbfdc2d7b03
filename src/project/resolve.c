/*
 * A project meets the plugins that are installed: for each agent, in the order of the file, which
 * of its plugins can be used, and what of them. Pure: nothing is read or started, and what comes
 * out owns all that it shows. A plugin that cannot be used takes nothing but itself away from the
 * agent.
 */
#include "project/internal.h"

#include "base/semver.h"

#include <stdio.h>
#include <stdlib.h>

#define NEAREST_MAX 1000 /* tools that a wrong name is compared with */
#define REASON_MAX  512

#define HANDOFF_PREFIX "agent."
#define HANDOFF_PARAMETERS                                                                         \
    "{\"type\":\"object\",\"properties\":{\"task\":{\"type\":\"string\",\"description\":\"What "   \
    "is to be "                                                                                    \
    "done, with all that the subagent has to know: it sees nothing else of this "                  \
    "conversation.\"}},\"required\":[\"task\"],\"additionalProperties\":false}"

const char *const project_origin_names[] = {"schema", "operator", "primary", "agent"};
const char *const project_state_names[] = {"ready", "not_installed", "wrong_version", "refused",
                                           "misconfigured"};

/* The tools of an agent's plugins so far, by both of their names; values are their uses. */
struct known {
    struct kg_map *names, *wire_names;
};

/* -- plugins ----------------------------------------------------------------------------------- */

static const struct manifest *find_manifest(const struct project_world *world, const char *package)
{
    for (size_t i = 0; i < world->manifest_count; i++)
        if (strcmp(world->manifests[i]->package, package) == 0)
            return world->manifests[i];
    for (size_t i = 0; i < world->manifest_count; i++)
        if (manifest_is_package(world->manifests[i], package))
            return world->manifests[i];
    return NULL;
}

static struct project_tool resolve_take_tool(struct kg_arena *arena,
                                             const struct manifest *manifest,
                                             const struct manifest_tool *tool)
{
    kg_auto(kg_buf_free) struct kg_buf parameters = {0};
    kg_auto(kg_free) char *name =
        kg_format("%s.%s", manifest->shown ? manifest->shown : manifest->name, tool->name);
    if (tool->parameters_node != NULL)
        kg_json_put_node(&parameters, tool->parameters_node);
    return (struct project_tool){
        .name = project_keep_text(arena, name),
        .wire_name = project_wire_name(arena, name),
        .description = project_keep_text(arena, tool->description),
        .parameters = tool->parameters_node ? project_keep(arena, kg_buf_view(&parameters)) : NULL,
    };
}

/* The plugin's part of the resolved project, made at the first use. */
static const struct project_plugin *resolve_plugin_of(struct project_resolved *resolved,
                                                      const struct manifest *manifest)
{
    struct kg_arena *arena = resolved->arena;
    for (size_t i = 0; i < resolved->plugin_count; i++)
        if (strcmp(resolved->plugins[i]->package, manifest->package) == 0)
            return resolved->plugins[i];
    struct project_plugin *plugin = kg_arena_alloc(arena, sizeof(*plugin));
    *plugin = (struct project_plugin){
        .package = project_keep_text(arena, manifest->package),
        .name = project_keep_text(arena, manifest->name),
        .version = project_keep_text(arena, manifest->version),
        .tools = kg_arena_alloc(arena, (manifest->tool_count + 1) * sizeof(*plugin->tools)),
        .tool_count = manifest->tool_count,
    };
    for (size_t i = 0; i < manifest->tool_count; i++)
        plugin->tools[i] = resolve_take_tool(arena, manifest, &manifest->tools[i]);
    resolved->plugins[resolved->plugin_count++] = plugin;
    return plugin;
}

/* -- why one cannot be used -------------------------------------------------------------------- */

__attribute__((format(printf, 7, 8))) static void
set_aside(const struct resolving *resolving, struct project_use *use, enum project_state state,
          enum project_code code, const struct kg_member *place, const char *hint,
          const char *format, ...)
{
    char reason[REASON_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    kg_problems_add(resolving->problems, &project_rows[code], place->key_line, place->key_column,
                    hint, "%s", reason);
    if (use->state != PROJECT_READY)
        return; /* the first reason is the one that is shown */
    use->state = state;
    use->reason = project_keep_text(resolving->resolved->arena, reason);
}

static void list_missing(struct project_resolved *resolved, const struct project_use *use,
                         const char *installed)
{
    for (size_t i = 0; i < resolved->missing_count; i++) {
        const struct project_missing *other = &resolved->missing[i];
        if (kg_same_text(other->package, use->package) &&
            kg_same_text(other->version, use->version) && kg_same_text(other->source, use->source))
            return;
    }
    resolved->missing[resolved->missing_count++] = (struct project_missing){
        .package = use->package,
        .version = use->version,
        .source = use->source,
        .installed = project_keep_text(resolved->arena, installed),
    };
}

static void set_not_installed(const struct resolving *resolving, struct project_use *use,
                              const struct kg_member *place)
{
    const struct project_world *world = resolving->world;
    kg_auto(kg_free) char *hint =
        kg_format("kaged plugin install %" KG_S_PATH, use->source ? use->source : "SOURCE");
    for (size_t i = 0; i < world->manifest_count; i++)
        if (strcmp(world->manifests[i]->name, manifest_name_in(use->package)) == 0) {
            free(hint);
            hint = kg_format("the plugin %s that is installed is the package %s",
                             world->manifests[i]->name, world->manifests[i]->package);
        }
    list_missing(resolving->resolved, use, NULL);
    set_aside(resolving, use, PROJECT_NOT_INSTALLED, PROJECT_PLUGIN_MISSING, place, hint,
              "%s is not installed", use->package);
}

static bool version_fits(const char *range_text, const char *version_text)
{
    struct kg_semver version;
    struct kg_semver_range *range =
        range_text ? kg_semver_range_parse(kg_str(range_text), NULL) : NULL;
    bool fits =
        range_text == NULL || (range != NULL && kg_semver_parse(kg_str(version_text), &version) &&
                               kg_semver_range_has(range, &version));
    kg_semver_range_free(range);
    return fits;
}

/* -- for the audit log ------------------------------------------------------------------------- */

static void resolve_find(const struct resolving *resolving, enum project_code code,
                         const struct project_agent *agent, const struct project_use *use,
                         const struct project_use *other_or_null, const char *what)
{
    struct project_resolved *resolved = resolving->resolved;
    resolved->findings =
        kg_realloc(resolved->findings, (resolved->finding_count + 1) * sizeof(*resolved->findings));
    resolved->findings[resolved->finding_count++] = (struct project_finding){
        .code = code,
        .agent = project_keep_text(resolved->arena, agent->path),
        .plugin = project_keep_text(resolved->arena, use->plugin ? use->plugin->name
                                                                 : manifest_name_in(use->package)),
        .use = use->name,
        .other = other_or_null ? other_or_null->name : NULL,
        .other_plugin = other_or_null && other_or_null->plugin
                            ? project_keep_text(resolved->arena, other_or_null->plugin->name)
                            : NULL,
        .what = project_keep_text(resolved->arena, what),
    };
}

/* The problems from the given one on, which are those of the configuration. */
static void find_config_errors(const struct resolving *resolving, const struct project_agent *agent,
                               const struct project_use *use, size_t first)
{
    kg_auto(kg_buf_free) struct kg_buf errors = {0};
    struct kg_json_writer json = kg_json_writer(&errors);
    kg_json_begin(&json, '[');
    for (size_t i = first; i < resolving->problems->count; i++)
        kg_json_text(&json, resolving->problems->items[i].message);
    kg_json_end(&json, ']');
    resolve_find(resolving, PROJECT_CONFIG_INVALID, agent, use, NULL, kg_buf_terminate(&errors));
}

/* A hook of sessions that a subagent itself asks for. */
static void find_illegal_hooks(const struct resolving *resolving, const struct project_agent *agent,
                               const struct project_declaration *declaration,
                               const struct project_use *use)
{
    if (agent->parent == PROJECT_NO_PARENT || declaration->hooks == NULL)
        return;
    for (enum manifest_hook hook = 0; hook < MANIFEST_HOOK_COUNT; hook++)
        if (project_hook_is_sessions(hook) &&
            kg_node_has_text(declaration->hooks, kg_str(manifest_hook_names[hook])))
            resolve_find(resolving, PROJECT_HOOK_ILLEGAL, agent, use, NULL,
                         manifest_hook_names[hook]);
}

/* -- hooks and roles --------------------------------------------------------------------------- */

static void check_offered(const struct resolving *resolving,
                          const struct project_declaration *declaration,
                          const struct manifest *manifest)
{
    const struct kg_node *hooks = declaration->hooks;
    for (uint32_t i = 0; hooks != NULL && i < hooks->count; i++)
        for (size_t k = 0; k < MANIFEST_HOOK_COUNT; k++)
            if (kg_str_is(hooks->items[i].text, manifest_hook_names[k]) && !manifest->hooks[k])
                problem_at(resolving->problems, HOOK_NOT_OFFERED, &hooks->items[i], "remove it",
                           "the plugin %s does not subscribe to %s", manifest->name,
                           manifest_hook_names[k]);
}

static void resolve_take_hooks(const struct resolving *resolving, const struct project_agent *agent,
                               const struct project_declaration *declaration,
                               const struct manifest *manifest, struct project_use *use)
{
    const struct kg_node *hooks = project_hooks(declaration);
    bool is_primary = agent->parent == PROJECT_NO_PARENT, any = false;
    check_offered(resolving, declaration, manifest);
    for (enum manifest_hook hook = 0; hook < MANIFEST_HOOK_COUNT; hook++) {
        use->hooks[hook] =
            manifest->hooks[hook] && (is_primary || !project_hook_is_sessions(hook)) &&
            (hooks == NULL || kg_node_has_text(hooks, kg_str(manifest_hook_names[hook])));
        any |= use->hooks[hook];
    }
    use->roles = any ? manifest->roles : 0;
    if (!use->hooks[MANIFEST_PRE_COMPACT]) /* without it, it is never asked to compact */
        use->roles &= ~(unsigned)MANIFEST_COMPACTOR;
}

/* Whether a plugin keeps its place on the agent, so that another one cannot have it. */
static bool holds_its_place(const struct project_use *use)
{
    return use->state == PROJECT_READY || use->state == PROJECT_MISCONFIGURED;
}

static void check_compactor(const struct resolving *resolving, const struct project_agent *agent,
                            const struct project_use *uses, struct project_use *use,
                            const struct kg_member *place)
{
    for (const struct project_use *other = uses; (use->roles & MANIFEST_COMPACTOR) && other < use;
         other++)
        if (holds_its_place(other) && (other->roles & MANIFEST_COMPACTOR)) {
            set_aside(resolving, use, PROJECT_REFUSED, PROJECT_ROLE_VIOLATION, place,
                      "keep one, or give this one hooks without pre_compact",
                      "\"%s\" is a compactor, and %s has one: \"%s\"", use->name, agent->path,
                      other->name);
            resolve_find(resolving, PROJECT_ROLE_VIOLATION, agent, use, other, "compactor");
            return;
        }
}

/* -- tools ------------------------------------------------------------------------------------- */

static void resolve_check_name(const struct resolving *resolving, const struct project_agent *agent,
                               const struct project_use *uses, struct project_use *use,
                               const struct kg_member *place)
{
    if (manifest_name_is_builtin(kg_str(use->plugin->name)))
        problem_at_key(resolving->problems, NAME_BUILTIN, place, NULL,
                       "the plugin %s has the name of built-in tools; they are easy to confuse",
                       use->plugin->name);
    for (const struct project_use *other = uses; use->state == PROJECT_READY && other < use;
         other++)
        if (holds_its_place(other) && strcmp(other->plugin->name, use->plugin->name) == 0) {
            set_aside(resolving, use, PROJECT_REFUSED, PROJECT_PLUGIN_TWICE, place,
                      "keep one of the two", "%s has two plugins called %s, \"%s\" and \"%s\"",
                      agent->path, use->plugin->name, other->name, use->name);
            return;
        }
}

static void resolve_check_tools(const struct resolving *resolving,
                                const struct project_agent *agent, const struct known *known,
                                struct project_use *use, const struct kg_member *place)
{
    for (size_t i = 0; i < use->plugin->tool_count; i++) {
        const struct project_tool *tool = &use->plugin->tools[i];
        const struct project_use *other = kg_map_get(known->wire_names, kg_str(tool->wire_name));
        if (other == NULL)
            continue;
        set_aside(resolving, use, PROJECT_REFUSED, PROJECT_TOOL_COLLISION, place,
                  "keep one of the two", "\"%s\" and \"%s\" both have the tool %s", other->name,
                  use->name, tool->name);
        resolve_find(resolving, PROJECT_TOOL_COLLISION, agent, use, other, tool->name);
        return;
    }
}

static void resolve_take_tools(struct known *known, struct project_use *use)
{
    for (size_t i = 0; holds_its_place(use) && i < use->plugin->tool_count; i++) {
        const struct project_tool *tool = &use->plugin->tools[i];
        kg_map_set(known->names, kg_str(tool->name), use);
        kg_map_set(known->wire_names, kg_str(tool->wire_name), use);
    }
}

/* -- one plugin of an agent -------------------------------------------------------------------- */

static void resolve_take_plugin(const struct resolving *resolving,
                                const struct project_agent *agent,
                                const struct project_declaration *declaration,
                                const struct manifest *manifest, struct known *known,
                                struct project_resolved_agent *result, struct project_use *use)
{
    struct project_resolved *resolved = resolving->resolved;
    use->plugin = resolve_plugin_of(resolved, manifest);
    use->tools = kg_arena_alloc(resolved->arena, use->plugin->tool_count + 1);
    if (!version_fits(use->version, manifest->version)) {
        list_missing(resolved, use, manifest->version);
        set_aside(resolving, use, PROJECT_WRONG_VERSION, PROJECT_PLUGIN_VERSION,
                  declaration->member, "install a version that fits, or change the range",
                  "%s is installed in version %s, and %s asks for %" KG_S_WORD, use->package,
                  manifest->version, agent->path, use->version);
        return;
    }
    resolve_take_hooks(resolving, agent, declaration, manifest, use);
    resolve_check_tools(resolving, agent, known, use, declaration->member);
    resolve_check_name(resolving, agent, result->uses, use, declaration->member);
    check_compactor(resolving, agent, result->uses, use, declaration->member);
    size_t known_problems = resolving->problems->count;
    bool is_usable = project_settings_take(resolving, declaration, manifest, use);
    if (!is_usable)
        find_config_errors(resolving, agent, use, known_problems);
    if (!is_usable && use->state == PROJECT_READY) {
        use->state = PROJECT_MISCONFIGURED;
        use->reason = "its configuration cannot be used";
    }
    resolve_take_tools(known, use);
}

static void take_use(const struct resolving *resolving, const struct project_agent *agent,
                     const struct project_declaration *declaration, struct known *known,
                     struct project_resolved_agent *result)
{
    struct kg_arena *arena = resolving->resolved->arena;
    struct project_use *use = &result->uses[result->use_count++];
    *use = (struct project_use){
        .name = project_keep_text(arena, declaration->name),
        .package = project_keep_text(arena, project_package(declaration)),
        .version = project_keep_text(arena, project_version(declaration)),
        .source = project_keep_text(arena, project_source(declaration)),
        .isolation = declaration->isolation,
    };
    const struct manifest *manifest = find_manifest(resolving->world, use->package);
    if (manifest == NULL)
        set_not_installed(resolving, use, declaration->member);
    else
        resolve_take_plugin(resolving, agent, declaration, manifest, known, result, use);
    find_illegal_hooks(resolving, agent, declaration, use);
}

/* -- the agent's tools ------------------------------------------------------------------------- */

/* Of a plugin that is not installed, no one knows which tools it has. */
static bool may_be_of_missing(const struct project_resolved_agent *agent, const char *tool)
{
    size_t length = strcspn(tool, ".");
    for (size_t i = 0; i < agent->use_count; i++) {
        const char *name = manifest_name_in(agent->uses[i].package);
        if (agent->uses[i].plugin == NULL && strlen(name) == length &&
            strncmp(name, tool, length) == 0)
            return true;
    }
    return false;
}

static void warn_unknown_tool(const struct resolving *resolving, const struct known *known,
                              const struct project_agent *agent, const struct project_switch *tool)
{
    char **names = kg_list_new(NEAREST_MAX);
    size_t count = 0, position = 0;
    struct kg_str name;
    void *use;
    while (count < NEAREST_MAX && kg_map_next(known->names, &position, &name, &use))
        names[count++] = kg_str_dup(name);
    const char *nearest = kg_str_nearest(kg_str(tool->tool), (const char *const *)names, count);
    kg_auto(kg_free) char *hint =
        nearest ? kg_format("did you mean %s?", nearest) : kg_strdup("remove it");
    problem_at_key(resolving->problems, TOOL_UNKNOWN, tool->member, hint,
                   "no plugin of %s has the tool %s", agent->path, tool->tool);
    kg_list_free(names);
}

static void switch_tools(struct project_resolved_agent *agent, const struct kg_map *switches)
{
    for (size_t i = 0; i < agent->use_count; i++) {
        struct project_use *use = &agent->uses[i];
        for (size_t k = 0; use->state == PROJECT_READY && k < use->plugin->tool_count; k++) {
            const struct project_switch *found =
                kg_map_get(switches, kg_str(use->plugin->tools[k].name));
            use->tools[k] = found == NULL || found->enabled;
        }
    }
    for (size_t i = 0; i < agent->handoff_count; i++) {
        struct project_handoff *handoff = &agent->handoffs[i];
        const struct project_switch *found = kg_map_get(switches, kg_str(handoff->tool.name));
        handoff->enabled &= found == NULL || found->enabled;
    }
}

static size_t tools_on(const struct project_resolved_agent *agent)
{
    size_t count = 0;
    for (size_t i = 0; i < agent->handoff_count; i++)
        count += agent->handoffs[i].enabled;
    for (size_t i = 0; i < agent->use_count; i++)
        for (size_t k = 0; agent->uses[i].plugin && k < agent->uses[i].plugin->tool_count; k++)
            count += agent->uses[i].tools[k];
    return count;
}

static void resolve_take_switches(const struct resolving *resolving,
                                  const struct project_agent *agent, const struct known *known,
                                  struct project_resolved_agent *result)
{
    struct kg_map *switches = kg_map_new();
    for (size_t i = 0; i < agent->switch_count; i++) {
        struct project_switch *tool = &agent->switches[i];
        kg_map_set(switches, kg_str(tool->tool), tool);
        if (kg_map_get(known->names, kg_str(tool->tool)) == NULL &&
            project_handoff_find(result, kg_str(tool->tool)) == NULL &&
            !may_be_of_missing(result, tool->tool))
            warn_unknown_tool(resolving, known, agent, tool);
    }
    switch_tools(result, switches);
    kg_map_free(switches);
    size_t on = tools_on(result);
    if (on > PROJECT_TOOLS_ADVISED)
        problem_at(resolving->problems, TOOLS_MANY, kg_node_get(agent->node, "plugins"),
                   "turn some off in tools", "%s has %zu tools; some models take at most %d",
                   agent->path, on, PROJECT_TOOLS_ADVISED);
}

/* -- subagents --------------------------------------------------------------------------------- */

/* What its parent's model is told of it. */
static const char *resolve_describe(struct kg_arena *arena, const struct project_agent *agent,
                                    const char *name)
{
    size_t line = agent->prompt ? strcspn(agent->prompt, "\n") : 0;
    kg_auto(kg_free) char *text =
        kg_format("Hand a task to the subagent %s, which works on it with its own context and "
                  "tools, and answers.%s%.*s",
                  name, line > 0 ? " Its instructions begin: " : "", (int)(line < 400 ? line : 400),
                  line > 0 ? agent->prompt : "");
    text[kg_utf8_valid(kg_str(text))] = '\0'; /* where it was cut */
    return project_keep_text(arena, agent->description ? agent->description : text);
}

static void take_handoff(const struct resolving *resolving, const struct known *known,
                         const struct project_agent *subagent,
                         struct project_resolved_agent *result)
{
    struct kg_arena *arena = resolving->resolved->arena;
    const char *name = strrchr(subagent->path, '.') + 1;
    kg_auto(kg_free) char *tool = kg_format(HANDOFF_PREFIX "%s", name);
    const char *wire_name = project_wire_name(arena, tool);
    if (kg_map_get(known->wire_names, kg_str(wire_name)) != NULL) {
        problem_at(resolving->problems, HANDOFF_TAKEN, subagent->node,
                   "give the subagent another name, or leave the plugin out",
                   "%s cannot hand work to %s: a plugin of it has the tool %s", result->path, name,
                   tool);
        return;
    }
    result->handoffs[result->handoff_count++] = (struct project_handoff){
        .tool = {.name = project_keep_text(arena, tool),
                 .wire_name = wire_name,
                 .description = resolve_describe(arena, subagent, name),
                 .parameters = HANDOFF_PARAMETERS},
        .agent = project_keep_text(arena, subagent->path),
        .enabled = true,
    };
}

static void take_handoffs(const struct resolving *resolving, const struct project_agent *agent,
                          const struct known *known, struct project_resolved_agent *result)
{
    const struct project *project = resolving->project;
    size_t index = (size_t)(agent - project->agents);
    result->description = project_keep_text(resolving->resolved->arena, agent->description);
    result->delegates = agent->delegates;
    result->handoffs = kg_arena_alloc(resolving->resolved->arena,
                                      project->agent_count * sizeof(*result->handoffs));
    for (size_t i = 0; agent->delegates && i < project->agent_count; i++)
        if (project->agents[i].parent == index)
            take_handoff(resolving, known, &project->agents[i], result);
}

/* -- models ------------------------------------------------------------------------------------ */

static void resolve_check_model(const struct resolving *resolving, const struct kg_node *alias)
{
    const struct local *local = resolving->world->local;
    if (alias == NULL || local == NULL || local_model_find(local, alias->text) != NULL)
        return;
    size_t count = local->model_count < NEAREST_MAX ? local->model_count : NEAREST_MAX;
    char **names = kg_list_new(count);
    for (size_t i = 0; i < count; i++)
        names[i] = kg_str_dup(local->models[i].alias);
    const char *nearest = kg_str_nearest(alias->text, (const char *const *)names, count);
    kg_auto(kg_free) char *hint = nearest ? kg_format("did you mean %s?", nearest)
                                          : kg_strdup("add it to [models] in local.toml");
    problem_at(resolving->problems, MODEL_UNKNOWN, alias, hint,
               "the operator has no model \"%.*s\"", KG_STR_CUT(alias->text, KG_CUT_WORD));
    kg_list_free(names);
}

/* -- compaction -------------------------------------------------------------------------------- */

static const struct project_use *use_find(const struct project_resolved_agent *agent,
                                          const char *name)
{
    for (size_t i = 0; i < agent->use_count; i++)
        if (strcmp(agent->uses[i].name, name) == 0)
            return &agent->uses[i];
    return NULL;
}

static void resolve_take_compaction(const struct resolving *resolving,
                                    const struct project_agent *agent,
                                    struct project_resolved_agent *result)
{
    struct kg_arena *arena = resolving->resolved->arena;
    const char *delegate = agent->compaction.delegate;
    const struct project_use *use = delegate ? use_find(result, delegate) : NULL;
    result->compaction = agent->compaction;
    result->compaction.node = NULL;
    result->compaction.delegate = project_keep_text(arena, delegate);
    result->compaction.summary_model = project_keep_text(arena, agent->compaction.summary_model);
    if (use == NULL || use->state != PROJECT_READY || (use->roles & MANIFEST_COMPACTOR))
        return;
    const struct manifest *manifest = find_manifest(resolving->world, use->package);
    problem_at(resolving->problems, DELEGATE_ROLE,
               kg_node_get(kg_node_get(agent->compaction.node, "delegate"), "plugin"),
               (manifest->roles & MANIFEST_COMPACTOR) ? "add pre_compact to its hooks"
                                                      : "name a plugin whose role is compactor",
               "\"%s\" is not a compactor of %s", delegate, agent->path);
}

/* -- the whole --------------------------------------------------------------------------------- */

/* Nothing of a plugin that is not ready reaches a session. */
static void silence(struct project_resolved_agent *agent)
{
    for (size_t i = 0; i < agent->use_count; i++) {
        struct project_use *use = &agent->uses[i];
        if (use->state == PROJECT_READY)
            continue;
        memset(use->hooks, 0, sizeof(use->hooks));
        use->roles = 0;
    }
}

static void resolve_take_agent(const struct resolving *resolving, const struct project_agent *agent,
                               struct project_resolved_agent *result)
{
    struct kg_arena *arena = resolving->resolved->arena;
    struct known known = {kg_map_new(), kg_map_new()};
    *result = (struct project_resolved_agent){
        .path = project_keep_text(arena, agent->path),
        .parent = agent->parent,
        .model = project_keep_text(arena, agent->model),
        .prompt = project_keep_text(arena, agent->prompt),
        .prompt_file = project_keep_text(arena, agent->prompt_file),
        .uses = kg_arena_alloc(arena, (agent->declaration_count + 1) * sizeof(*result->uses)),
    };
    for (size_t i = 0; i < agent->declaration_count; i++)
        take_use(resolving, agent, &agent->declarations[i], &known, result);
    take_handoffs(resolving, agent, &known, result);
    resolve_take_switches(resolving, agent, &known, result);
    resolve_check_model(resolving, kg_node_get(agent->node, "model"));
    resolve_check_model(resolving, kg_node_get(agent->compaction.node, "summary_model"));
    silence(result);
    resolve_take_compaction(resolving, agent, result);
    kg_map_free(known.names);
    kg_map_free(known.wire_names);
}

static struct project_resolved *resolved_new(const struct project *project)
{
    struct project_resolved *resolved = kg_alloc(sizeof(*resolved));
    struct kg_arena *arena = resolved->arena = kg_arena_new();
    size_t uses = 1;
    for (size_t i = 0; i < project->agent_count; i++)
        uses += project->agents[i].declaration_count;
    resolved->name = project_keep_text(arena, project->name);
    resolved->agents = kg_arena_alloc(arena, project->agent_count * sizeof(*resolved->agents));
    resolved->agent_count = project->agent_count;
    resolved->plugins = kg_arena_alloc(arena, uses * sizeof(struct project_plugin *));
    resolved->missing = kg_arena_alloc(arena, uses * sizeof(*resolved->missing));
    resolved->documents = kg_arena_alloc(arena, uses * sizeof(struct kg_doc *));
    return resolved;
}

struct project_resolved *project_resolve(const struct project *project,
                                         const struct project_world *world,
                                         struct kg_problems *problems)
{
    const struct resolving resolving = {
        .project = project,
        .world = world,
        .problems = problems,
        .resolved = resolved_new(project),
        .slow = kg_map_new(),
    };
    for (size_t i = 0; i < project->agent_count; i++)
        resolve_take_agent(&resolving, &project->agents[i], &resolving.resolved->agents[i]);
    kg_map_free(resolving.slow);
    kg_problems_sort(problems);
    return resolving.resolved;
}

void project_resolved_free(struct project_resolved *resolved)
{
    if (resolved == NULL)
        return;
    for (size_t i = 0; i < resolved->document_count; i++)
        kg_doc_free(resolved->documents[i]);
    free(resolved->findings);
    kg_arena_free(resolved->arena);
    free(resolved);
}

/* -- asking ------------------------------------------------------------------------------------ */

const char *project_resolved_name(const struct project_resolved *resolved)
{
    return resolved->name;
}

size_t project_resolved_count(const struct project_resolved *resolved)
{
    return resolved->agent_count;
}

const struct project_resolved_agent *project_resolved_at(const struct project_resolved *resolved,
                                                         size_t index)
{
    return &resolved->agents[index];
}

const struct project_resolved_agent *project_resolved_find(const struct project_resolved *resolved,
                                                           struct kg_str path)
{
    for (size_t i = 0; i < resolved->agent_count; i++)
        if (kg_str_is(path, resolved->agents[i].path))
            return &resolved->agents[i];
    return NULL;
}

const struct project_resolved_agent *
project_agent_find(const struct project_resolved *resolved_or_null, struct kg_str path,
                   struct kg_err *err)
{
    const struct project_resolved *resolved = resolved_or_null;
    const struct project_resolved_agent *agent =
        resolved ? project_resolved_find(resolved, path) : NULL;
    const char *paths[PROJECT_AGENTS_MAX];
    if (agent != NULL)
        return agent;
    size_t count = resolved ? resolved->agent_count : 0;
    for (size_t i = 0; i < count; i++)
        paths[i] = resolved->agents[i].path;
    const char *nearest = kg_str_nearest(path, paths, count);
    kg_fail(err, KG_E_NOT_FOUND, "there is no agent \"%.*s\"", KG_STR_CUT(path, KG_CUT_PATH));
    if (nearest != NULL)
        kg_hint(err, "did you mean %s?", nearest);
    else if (count > 0)
        kg_hint(err, "it has %s%s", paths[0], count > 1 ? " and those below it" : " alone");
    return NULL;
}

const struct project_finding *project_resolved_findings(const struct project_resolved *resolved,
                                                        size_t *ret_count)
{
    *ret_count = resolved->finding_count;
    return resolved->findings;
}
