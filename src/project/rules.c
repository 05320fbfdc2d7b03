/*
 * The rules that a schema cannot say, and that need nothing but the file. They run also on a tree
 * that the published schema refused, so that an author sees all that is wrong at once: a value of
 * another type counts as absent here, since the schema has reported it. Agents and declarations
 * past their bounds are not looked at.
 */
#include "project/internal.h"

#include "base/semver.h"

#include <stdio.h>
#include <stdlib.h>

#define ENTRIES_MAX 1024 /* the most that the published schema allows in a map */
#define HINT_MAX    128

const char *const project_isolation_names[] = {"agent", "project"};
const char *const project_strategy_names[] = {NULL,       "drop",       "summarize",
                                              "delegate", "checkpoint", NULL};

struct reading {
    struct project *project;
    struct kg_problems *problems;
    size_t declarations; /* of all agents so far */
};

/* -- helpers ----------------------------------------------------------------------------------- */

char *project_keep(struct kg_arena *arena, struct kg_str text)
{
    char *copy = kg_arena_alloc(arena, text.length + 1);
    if (text.length > 0)
        memcpy(copy, text.data, text.length);
    return copy;
}

const char *project_keep_text(struct kg_arena *arena, const char *text)
{
    return text ? project_keep(arena, kg_str(text)) : NULL;
}

/* A map with more entries than it may have counts as absent, too. */
static const struct kg_node *map_of(const struct kg_node *node, const char *key)
{
    const struct kg_node *map = kg_node_typed(node, key, KG_OBJECT);
    return map != NULL && map->count <= ENTRIES_MAX ? map : NULL;
}

static const char *project_rules_text_of(const struct reading *reading, const struct kg_node *node,
                                         const char *key)
{
    const struct kg_node *text = kg_node_typed(node, key, KG_STRING);
    return text ? project_keep(reading->project->doc->arena, text->text) : NULL;
}

static double project_rules_number_of(const struct kg_node *node, const char *key, double fallback)
{
    const struct kg_node *number = kg_node_typed(node, key, KG_NUMBER);
    if (number == NULL)
        return fallback;
    kg_auto(kg_free) char *digits = kg_str_dup(number->text);
    double value = strtod(digits, NULL);
    return value >= -1e9 && value <= 1e9 ? value : fallback;
}

/* The place of a text among others, or 0. */
static size_t project_rules_index_of(const struct kg_node *text, const char *const *names,
                                     size_t count)
{
    for (size_t i = 0; text != NULL && i < count; i++)
        if (names[i] != NULL && kg_str_is(text->text, names[i]))
            return i;
    return 0;
}

const struct project_declaration *project_declaration_find(const struct project_agent *agent,
                                                           struct kg_str name)
{
    for (size_t i = 0; i < agent->declaration_count; i++)
        if (kg_str_is(name, agent->declarations[i].name))
            return &agent->declarations[i];
    return NULL;
}

/* -- inheritance ------------------------------------------------------------------------------- */

#define OWN_OR_BASE(declaration, field)                                                            \
    ((declaration)->field != NULL || (declaration)->base == NULL ? (declaration)->field            \
                                                                 : (declaration)->base->field)

const char *project_package(const struct project_declaration *declaration)
{
    return OWN_OR_BASE(declaration, package);
}

const char *project_version(const struct project_declaration *declaration)
{
    return OWN_OR_BASE(declaration, version);
}

const char *project_source(const struct project_declaration *declaration)
{
    return OWN_OR_BASE(declaration, source);
}

const struct kg_node *project_hooks(const struct project_declaration *declaration)
{
    return OWN_OR_BASE(declaration, hooks);
}

/* The primary's declaration of that name, if it is shared by the project. */
static const struct project_declaration *find_base(const struct project *project,
                                                   const struct project_declaration *declaration)
{
    const struct project_declaration *base =
        project_declaration_find(&project->agents[0], kg_str(declaration->name));
    return base != NULL && base->isolation == PROJECT_ISOLATION_PROJECT ? base : NULL;
}

static void check_override(const struct reading *reading, struct project_declaration *declaration)
{
    const struct project_declaration *base = declaration->base;
    if (declaration->package != NULL && base->package != NULL &&
        strcmp(declaration->package, base->package) != 0)
        problem_at(reading->problems, PACKAGE_OVERRIDE,
                   kg_node_get(&declaration->member->value, "package"),
                   "remove it, or declare the other package under another name",
                   "\"%s\" is the primary's %s, shared by the project; a subagent cannot give it "
                   "another package",
                   declaration->name, base->package);
    if (declaration->isolation_node != NULL && declaration->isolation != base->isolation)
        problem_at(reading->problems, ISOLATION_OVERRIDE, declaration->isolation_node,
                   "remove it, or declare it under another name",
                   "\"%s\" is shared by the project, as the primary says; a subagent cannot "
                   "isolate it",
                   declaration->name);
    declaration->isolation = base->isolation;
}

static void project_rules_check_package(const struct reading *reading,
                                        const struct project_agent *agent,
                                        const struct project_declaration *declaration)
{
    bool of_primary = agent->parent == PROJECT_NO_PARENT;
    if (kg_node_get(&declaration->member->value, "package") != NULL || declaration->base != NULL)
        return;
    problem_at_key(reading->problems, PACKAGE_MISSING, declaration->member,
                   of_primary ? "add package: the package of the plugin"
                              : "add package; only what the primary declares with isolation: "
                                "project is inherited",
                   "the plugin \"%s\" of %s has no package", declaration->name, agent->path);
}

static void check_twice(const struct reading *reading, const struct project_agent *agent,
                        const struct project_declaration *declaration)
{
    const char *package = project_package(declaration);
    for (const struct project_declaration *other = agent->declarations;
         package != NULL && other < declaration; other++) {
        const char *its = project_package(other);
        if (its == NULL || strcmp(its, package) != 0)
            continue;
        problem_at_key(reading->problems, PACKAGE_TWICE, declaration->member,
                       "keep one of the two declarations",
                       "%s declares the package %s twice, as \"%s\" and as \"%s\"", agent->path,
                       package, other->name, declaration->name);
        return;
    }
}

/* -- one declaration --------------------------------------------------------------------------- */

static void project_rules_check_version(const struct reading *reading,
                                        const struct project_declaration *declaration)
{
    struct kg_err err = {0};
    if (declaration->version == NULL)
        return;
    struct kg_semver_range *range = kg_semver_range_parse(kg_str(declaration->version), &err);
    if (range == NULL)
        problem_at(reading->problems, VERSION_INVALID,
                   kg_node_get(&declaration->member->value, "version"), err.hint, "%s",
                   err.message);
    kg_semver_range_free(range);
}

static bool leads_up(const char *path)
{
    for (const char *at = path; at != NULL; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0'))
            return true;
    }
    return false;
}

static void project_rules_check_source(const struct reading *reading,
                                       const struct project_declaration *declaration)
{
    const char *source = declaration->source;
    if (source != NULL && strncmp(source, "./", 2) == 0 && leads_up(source))
        problem_at(reading->problems, SOURCE_INVALID,
                   kg_node_get(&declaration->member->value, "source"),
                   "a relative source is a folder of the project",
                   "the source \"%" KG_S_PATH "\" leads out of the project", source);
}

static void project_rules_check_hooks(const struct reading *reading,
                                      const struct project_agent *agent,
                                      const struct project_declaration *declaration)
{
    const struct kg_node *hooks = declaration->hooks;
    if (agent->parent == PROJECT_NO_PARENT || hooks == NULL)
        return;
    for (uint32_t i = 0; i < hooks->count; i++)
        for (enum manifest_hook hook = 0; hook < MANIFEST_HOOK_COUNT; hook++)
            if (project_hook_is_sessions(hook) && hooks->items[i].type == KG_STRING &&
                kg_str_is(hooks->items[i].text, manifest_hook_names[hook]))
                problem_at(reading->problems, HOOK_ILLEGAL, &hooks->items[i], "remove it",
                           "%s is never called for %s: sessions are the primary's",
                           manifest_hook_names[hook], agent->path);
}

/* The declaration's word counts; an author who writes it into the configuration should know. */
static void check_isolation(const struct reading *reading,
                            const struct project_declaration *declaration)
{
    const struct kg_node *written = kg_node_typed(declaration->config, "isolation", KG_STRING);
    const char *counts = project_isolation_names[declaration->isolation];
    if (written != NULL && !kg_str_is(written->text, counts))
        problem_at(reading->problems, ISOLATION_IN_CONFIG, written,
                   "write isolation beside config, not in it",
                   "the plugin \"%s\" has isolation: %s, whatever its config says",
                   declaration->name, counts);
}

static void check_declaration(const struct reading *reading, const struct project_agent *agent,
                              struct project_declaration *declaration)
{
    if (agent->parent != PROJECT_NO_PARENT)
        declaration->base = find_base(reading->project, declaration);
    if (declaration->base != NULL)
        check_override(reading, declaration);
    project_rules_check_package(reading, agent, declaration);
    check_twice(reading, agent, declaration);
    project_rules_check_version(reading, declaration);
    project_rules_check_source(reading, declaration);
    project_rules_check_hooks(reading, agent, declaration);
    check_isolation(reading, declaration);
}

/* The declaration's own word; where it has none, that of its configuration, if it is one. */
static const struct kg_node *isolation_of(const struct kg_node *declaration)
{
    const struct kg_node *own = kg_node_get(declaration, "isolation");
    const struct kg_node *config = kg_node_typed(declaration, "config", KG_OBJECT);
    const struct kg_node *said = kg_node_typed(config, "isolation", KG_STRING);
    if (own != NULL)
        return own->type == KG_STRING ? own : NULL;
    for (size_t i = 0; said != NULL && i < KG_COUNT(project_isolation_names); i++)
        if (kg_str_is(said->text, project_isolation_names[i]))
            return said;
    return NULL;
}

static void take_declaration(const struct reading *reading, const struct kg_member *member,
                             struct project_declaration *declaration)
{
    const struct kg_node *node = &member->value;
    const struct kg_node *isolation = isolation_of(node);
    *declaration = (struct project_declaration){
        .name = project_keep(reading->project->doc->arena, member->key),
        .member = member,
        .package = project_rules_text_of(reading, node, "package"),
        .version = project_rules_text_of(reading, node, "version"),
        .source = project_rules_text_of(reading, node, "source"),
        .hooks = kg_node_typed(node, "hooks", KG_ARRAY),
        .isolation_node = isolation,
        .isolation =
            (enum project_isolation)project_rules_index_of(isolation, project_isolation_names, 2),
        .config = kg_node_typed(node, "config", KG_OBJECT),
    };
}

static void take_declarations(struct reading *reading, struct project_agent *agent)
{
    const struct kg_node *plugins = map_of(agent->node, "plugins");
    size_t count = plugins ? plugins->count : 0;
    size_t room = PROJECT_DECLARATIONS_MAX - reading->declarations;
    if (count > room) {
        problem_at(reading->problems, PLUGINS_MANY, plugins, NULL,
                   "the agents declare more than %d plugins together", PROJECT_DECLARATIONS_MAX);
        count = room;
    }
    reading->declarations += count;
    agent->declarations = kg_alloc_array(count + 1, sizeof(*agent->declarations));
    agent->declaration_count = count;
    for (size_t i = 0; i < count; i++)
        take_declaration(reading, &plugins->members[i], &agent->declarations[i]);
}

/* -- the rest of an agent ---------------------------------------------------------------------- */

static void project_rules_take_switches(const struct reading *reading, struct project_agent *agent)
{
    const struct kg_node *tools = map_of(agent->node, "tools");
    agent->switches = kg_alloc_array((tools ? tools->count : 0) + 1, sizeof(*agent->switches));
    for (size_t i = 0; tools != NULL && i < tools->count; i++) {
        const struct kg_member *member = &tools->members[i];
        const struct kg_node *enabled = member->value.type == KG_BOOL
                                            ? &member->value
                                            : kg_node_typed(&member->value, "enabled", KG_BOOL);
        if (enabled != NULL)
            agent->switches[agent->switch_count++] = (struct project_switch){
                .tool = project_keep(reading->project->doc->arena, member->key),
                .member = member,
                .enabled = enabled->boolean,
            };
    }
}

static void project_rules_take_compaction(const struct reading *reading,
                                          struct project_agent *agent)
{
    const struct kg_node *node = kg_node_typed(agent->node, "compaction", KG_OBJECT);
    const struct kg_node *delegate = kg_node_typed(node, "delegate", KG_OBJECT);
    struct project_compaction *compaction = &agent->compaction;
    *compaction = (struct project_compaction){
        .node = node,
        .threshold = project_rules_number_of(node, "threshold", 0),
        .strategy = (enum project_strategy)project_rules_index_of(
            kg_node_typed(node, "strategy", KG_STRING), project_strategy_names,
            KG_COUNT(project_strategy_names)),
        .delegate = project_rules_text_of(reading, delegate, "plugin"),
        .keep_recent = (int64_t)project_rules_number_of(node, "keep_recent", -1),
        .summary_model = project_rules_text_of(reading, node, "summary_model"),
    };
}

static void check_delegate(const struct reading *reading, const struct project_agent *agent)
{
    const struct project_compaction *compaction = &agent->compaction;
    const struct kg_node *place =
        kg_node_typed(kg_node_get(compaction->node, "delegate"), "plugin", KG_STRING);
    if (compaction->delegate == NULL ||
        project_declaration_find(agent, kg_str(compaction->delegate)) != NULL)
        return;
    char **names = kg_list_new(agent->declaration_count);
    for (size_t i = 0; i < agent->declaration_count; i++)
        names[i] = kg_strdup(agent->declarations[i].name);
    const char *nearest =
        kg_str_nearest(place->text, (const char *const *)names, agent->declaration_count);
    char hint[HINT_MAX] = "declare it in plugins, or name one that is declared";
    if (nearest != NULL)
        snprintf(hint, sizeof(hint), "did you mean %s?", nearest);
    problem_at(reading->problems, DELEGATE_UNKNOWN, place, hint, "%s declares no plugin \"%s\"",
               agent->path, compaction->delegate);
    kg_list_free(names);
}

static void check_compaction(const struct reading *reading, struct project_agent *agent)
{
    struct project_compaction *compaction = &agent->compaction;
    const struct kg_node *strategy = kg_node_get(compaction->node, "strategy");
    check_delegate(reading, agent);
    if (compaction->strategy == PROJECT_STRATEGY_DELEGATE &&
        kg_node_get(compaction->node, "delegate") == NULL)
        problem_at(reading->problems, DELEGATE_MISSING, strategy,
                   "add delegate: { plugin: NAME }, or choose another strategy",
                   "the compaction of %s is delegated, but not to whom", agent->path);
    if (compaction->delegate == NULL)
        return;
    if (strategy == NULL)
        compaction->strategy = PROJECT_STRATEGY_DELEGATE;
    else if (compaction->strategy != PROJECT_STRATEGY_DELEGATE &&
             compaction->strategy != PROJECT_STRATEGY_UNSET)
        problem_at(reading->problems, DELEGATE_UNUSED, strategy,
                   "keep one of the two: strategy or delegate",
                   "%s compacts for %s; this strategy counts only if it fails to",
                   compaction->delegate, agent->path);
}

/* -- the tree of agents ------------------------------------------------------------------------ */

static void project_rules_take_agent(struct reading *reading, const struct kg_node *node,
                                     const char *path, size_t parent, unsigned depth);

static bool may_take(const struct reading *reading, const struct kg_member *member, unsigned depth)
{
    if (depth > PROJECT_DEPTH_MAX)
        problem_at_key(reading->problems, AGENTS_DEEP, member, "make the tree flatter",
                       "\"%.*s\" is more than %d agents deep", KG_STR_CUT(member->key, KG_CUT_NAME),
                       PROJECT_DEPTH_MAX);
    else if (reading->project->agent_count == PROJECT_AGENTS_MAX)
        problem_at_key(reading->problems, AGENTS_MANY, member, NULL,
                       "\"%.*s\" is past the %d agents that a project may have",
                       KG_STR_CUT(member->key, KG_CUT_NAME), PROJECT_AGENTS_MAX);
    else
        return true;
    return false;
}

static void take_subagents(struct reading *reading, const struct kg_node *node, size_t parent)
{
    const struct kg_node *subagents = map_of(node, "subagents");
    const struct project_agent *above = &reading->project->agents[parent];
    for (size_t i = 0; subagents != NULL && i < subagents->count; i++) {
        const struct kg_member *member = &subagents->members[i];
        kg_auto(kg_free) char *path =
            kg_format("%s.subagents.%.*s", above->path, KG_STR_ARG(member->key));
        if (may_take(reading, member, above->depth + 1))
            project_rules_take_agent(reading, &member->value, path, parent, above->depth + 1);
    }
}

/* The agent's own word; where it has none, the project's. */
static bool delegates(const struct project *project, const struct kg_node *agent)
{
    const struct kg_node *own = kg_node_typed(agent, "delegate", KG_BOOL);
    const struct kg_node *said = own ? own : kg_node_typed(project->doc->root, "delegate", KG_BOOL);
    return said == NULL || said->boolean;
}

static void project_rules_take_agent(struct reading *reading, const struct kg_node *node,
                                     const char *path, size_t parent, unsigned depth)
{
    struct project *project = reading->project;
    size_t index = project->agent_count++;
    struct project_agent *agent = &project->agents[index];
    *agent = (struct project_agent){
        .path = project_keep(project->doc->arena, kg_str(path)),
        .parent = parent,
        .depth = depth,
        .node = node,
        .model = project_rules_text_of(reading, node, "model"),
        .prompt = project_rules_text_of(reading, node, "prompt"),
        .prompt_file = project_rules_text_of(reading, kg_node_get(node, "prompt"), "file"),
        .description = project_rules_text_of(reading, node, "description"),
        .delegates = delegates(project, node),
    };
    take_declarations(reading, agent);
    project_rules_take_switches(reading, agent);
    project_rules_take_compaction(reading, agent);
    take_subagents(reading, node, index);
}

/* -- the whole --------------------------------------------------------------------------------- */

void project_rules_apply(struct project *project, struct kg_problems *problems)
{
    const struct kg_node *root = project->doc->root;
    const struct kg_node *primary = kg_node_get(root, "primary");
    struct reading reading = {.project = project, .problems = problems};
    project->name = project_rules_text_of(&reading, root, "name");
    project->agents = kg_alloc_array(PROJECT_AGENTS_MAX, sizeof(*project->agents));
    if (primary != NULL)
        project_rules_take_agent(&reading, primary, "primary", PROJECT_NO_PARENT, 1);
    for (size_t i = 0; i < project->agent_count; i++) {
        struct project_agent *agent = &project->agents[i];
        for (size_t k = 0; k < agent->declaration_count; k++)
            check_declaration(&reading, agent, &agent->declarations[k]);
        check_compaction(&reading, agent);
    }
}
