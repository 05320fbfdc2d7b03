/*
 * The configuration that a plugin gets for an agent: the schema's defaults, over them the
 * operator's, over them the primary's where the plugin is shared, over them the agent's own; each
 * field as a whole. It is checked as the plugin will see it. Secrets are the operator's: a
 * project's file cannot give one, and here only their names are known.
 */
#include "project/internal.h"

#include <stdlib.h>

/* What is put together, from the bottom up. Each may be NULL. */
struct layers {
    const struct kg_node *operators, *primary, *own;
    const struct kg_node *secrets;   /* properties of the system_config_schema */
    const struct kg_node *system;    /* what local.toml has of them */
    const struct kg_node *isolation; /* the field's value, if the schema knows the field */
    enum project_origin isolation_origin;
    const struct kg_member *place; /* of the declaration */
};

struct checking {
    const struct resolving *resolving;
    const struct manifest *manifest;
    const struct layers *layers;
    const char *name; /* the agent's word for the plugin */
};

static const struct kg_node *project_settings_properties_of(const struct kg_node *schema)
{
    return kg_node_typed(schema, "properties", KG_OBJECT);
}

static bool project_settings_has(const struct kg_node *node, struct kg_str key)
{
    return kg_node_member(node, key) != NULL;
}

/* Whether it is the operator's own. No layer here may have it, and it is left out of all. */
static bool project_settings_is_secret(const struct layers *layers, struct kg_str key)
{
    return project_settings_has(layers->secrets, key) || project_settings_has(layers->system, key);
}

/* -- putting together -------------------------------------------------------------------------- */

static enum project_origin project_settings_origin_of(const struct layers *layers,
                                                      struct kg_str key)
{
    if (layers->isolation != NULL && kg_str_is(key, "isolation"))
        return layers->isolation_origin;
    if (project_settings_has(layers->own, key))
        return PROJECT_ORIGIN_AGENT;
    if (project_settings_has(layers->primary, key))
        return PROJECT_ORIGIN_PRIMARY;
    return project_settings_has(layers->operators, key) ? PROJECT_ORIGIN_OPERATOR
                                                        : PROJECT_ORIGIN_SCHEMA;
}

/* Adds the members that no higher layer has. The operator's have no place in the project's file. */
static void add_layer(const struct layers *layers, const struct kg_node *layer,
                      enum project_origin origin, struct kg_node *merged)
{
    for (uint32_t i = 0; layer != NULL && i < layer->count; i++) {
        struct kg_str key = layer->members[i].key;
        if (project_settings_origin_of(layers, key) != origin ||
            project_settings_is_secret(layers, key) ||
            (layers->isolation != NULL && kg_str_is(key, "isolation")))
            continue;
        struct kg_member *member = &merged->members[merged->count++];
        *member = layer->members[i];
        if (origin == PROJECT_ORIGIN_OPERATOR)
            member->key_line = member->key_column = 0;
    }
}

static uint32_t project_settings_count_of(const struct kg_node *node)
{
    return node ? node->count : 0;
}

/* Borrows from the layers. */
static struct kg_node merge(struct kg_arena *arena, const struct layers *layers)
{
    struct kg_node merged = {
        .type = KG_OBJECT, .line = layers->place->key_line, .column = layers->place->key_column};
    size_t most = (size_t)project_settings_count_of(layers->operators) +
                  project_settings_count_of(layers->primary) +
                  project_settings_count_of(layers->own) + 1;
    merged.members = kg_arena_alloc(arena, most * sizeof(*merged.members));
    add_layer(layers, layers->operators, PROJECT_ORIGIN_OPERATOR, &merged);
    add_layer(layers, layers->primary, PROJECT_ORIGIN_PRIMARY, &merged);
    add_layer(layers, layers->own, PROJECT_ORIGIN_AGENT, &merged);
    if (layers->isolation != NULL)
        merged.members[merged.count++] =
            (struct kg_member){KG_STR("isolation"), layers->place->key_line,
                               layers->place->key_column, *layers->isolation};
    return merged;
}

static struct kg_doc *put_together(const struct manifest *manifest, const struct layers *layers)
{
    struct kg_arena *arena = kg_arena_new();
    const struct kg_node merged = merge(arena, layers);
    struct kg_doc *doc = manifest->config_schema
                             ? schema_with_defaults(manifest->config_schema, &merged)
                             : kg_doc_copy(&merged);
    kg_arena_free(arena);
    return doc;
}

static struct layers layers_of(const struct resolving *resolving,
                               const struct project_declaration *declaration,
                               const struct manifest *manifest, struct kg_node *ret_isolation)
{
    const struct local *local = resolving->world->local;
    const struct local_plugin *table =
        local ? local_plugin_find(local, kg_str(manifest->package)) : NULL;
    const struct project_declaration *base = declaration->base;
    struct layers layers = {
        .operators = table ? table->config : NULL,
        .primary = base ? base->config : NULL,
        .own = declaration->config,
        .secrets = project_settings_properties_of(manifest->system_config_schema_node),
        .system = table ? table->system : NULL,
        .place = declaration->member,
    };
    if (!project_settings_has(project_settings_properties_of(manifest->config_schema_node),
                              KG_STR("isolation")))
        return layers;
    *ret_isolation = (struct kg_node){
        .type = KG_STRING,
        .line = declaration->member->key_line,
        .column = declaration->member->key_column,
        .text = kg_str(project_isolation_names[declaration->isolation]),
    };
    layers.isolation = ret_isolation;
    layers.isolation_origin = declaration->isolation_node    ? PROJECT_ORIGIN_AGENT
                              : base && base->isolation_node ? PROJECT_ORIGIN_PRIMARY
                                                             : PROJECT_ORIGIN_SCHEMA;
    return layers;
}

/* -- checking ---------------------------------------------------------------------------------- */

/* The first key of a path like "/tags/0", and what follows it. */
static struct kg_str first_key(struct kg_str path)
{
    const char *slash = path.length > 1 ? memchr(path.data + 1, '/', path.length - 1) : NULL;
    size_t length = slash ? (size_t)(slash - path.data) : path.length;
    return length > 0 ? (struct kg_str){path.data + 1, length - 1} : KG_STR_NULL;
}

/* The node that a path leads to, or the last one on the way that the file has. */
static const struct kg_node *deepest(const struct kg_node *node, struct kg_str path)
{
    while (path.length > 0) {
        struct kg_str key = first_key(path);
        const struct kg_member *member = kg_node_member(node, key);
        int64_t index = 0;
        if (member != NULL)
            node = &member->value;
        else if (node->type == KG_ARRAY && kg_str_to_int(key, &index) && index >= 0 &&
                 index < node->count)
            node = &node->items[index];
        else
            break;
        path = (struct kg_str){key.data + key.length, path.length - key.length - 1};
    }
    return node;
}

/* Where in the project's file it is wrong; the declaration, if the value comes from elsewhere. */
static void project_settings_place_of(const struct checking *checking,
                                      const struct schema_error *error, uint32_t *ret_line,
                                      uint32_t *ret_column)
{
    const struct layers *layers = checking->layers;
    bool names_key = kg_str_ends(error->schema_path, "Properties") && error->line > 0;
    bool at_root = error->instance_path.length == 0;
    enum project_origin origin =
        project_settings_origin_of(layers, first_key(error->instance_path));
    *ret_line = layers->place->key_line;
    *ret_column = layers->place->key_column;
    if (names_key && (at_root || origin >= PROJECT_ORIGIN_PRIMARY)) {
        *ret_line = error->line;
        *ret_column = error->column;
    } else if (!at_root && origin >= PROJECT_ORIGIN_PRIMARY) {
        const struct kg_node *node = deepest(
            origin == PROJECT_ORIGIN_AGENT ? layers->own : layers->primary, error->instance_path);
        *ret_line = node->line;
        *ret_column = node->column;
    }
}

/* Behind ", not " the checker shows what it found; that may be a secret, or the operator's own. */
static struct kg_str project_settings_sayable(const struct checking *checking,
                                              const struct schema_error *error,
                                              enum project_origin origin)
{
    static const char found[] = ", not ";
    size_t work = SENSITIVE_WORK_MAX;
    struct kg_str message = error->message;
    const char *at = memmem(message.data, message.length, found, sizeof(found) - 1);
    struct kg_str key = first_key(error->instance_path);
    bool escaped = key.length > 0 && memchr(key.data, '~', key.length) != NULL;
    bool hide = origin == PROJECT_ORIGIN_OPERATOR || escaped ||
                project_is_sensitive(checking->manifest->config_schema_node, key, &work);
    return hide && at ? (struct kg_str){message.data, (size_t)(at - message.data)} : message;
}

static void project_settings_report(const struct checking *checking,
                                    const struct schema_error *error)
{
    static const char *const whose[] = {
        [PROJECT_ORIGIN_SCHEMA] = ", by the schema's own default",
        [PROJECT_ORIGIN_OPERATOR] = ", as local.toml has it",
        [PROJECT_ORIGIN_PRIMARY] = "",
        [PROJECT_ORIGIN_AGENT] = "",
    };
    struct kg_str path = error->instance_path;
    enum project_origin origin = path.length
                                     ? project_settings_origin_of(checking->layers, first_key(path))
                                     : PROJECT_ORIGIN_AGENT;
    struct kg_str sentence = project_settings_sayable(checking, error, origin);
    uint32_t line, column;
    project_settings_place_of(checking, error, &line, &column);
    struct kg_str below = path.length ? (struct kg_str){path.data + 1, path.length - 1} : path;
    bool is_operators = origin == PROJECT_ORIGIN_OPERATOR;
    kg_problems_add(checking->resolving->problems, &project_rows[PROJECT_CONFIG_INVALID], line,
                    column, is_operators ? "fix config of the plugin in local.toml" : NULL,
                    "the config of \"%s\"%s%.*s: %.*s%s", checking->name, path.length ? ", " : "",
                    KG_STR_CUT(below, KG_CUT_WORD), KG_STR_CUT(sentence, KG_ERR_MESSAGE_MAX),
                    whose[origin]);
}

static bool project_settings_check_schema(const struct checking *checking,
                                          const struct kg_node *config)
{
    const struct manifest *manifest = checking->manifest;
    const struct resolving *resolving = checking->resolving;
    kg_auto(schema_report_free) struct schema_report found = {0};
    bool is_slow = kg_map_get(resolving->slow, kg_str(manifest->package)) != NULL;
    if (manifest->config_schema == NULL ||
        (!is_slow && schema_check(manifest->config_schema, config, &found)))
        return true;
    if (is_slow || found.gave_up) { /* it would be as much work for every other agent */
        kg_map_set(resolving->slow, kg_str(manifest->package), resolving->slow);
        problem_at_key(resolving->problems, CONFIG_INVALID, checking->layers->place, NULL,
                       "the config of \"%s\": checking it against the schema took too long",
                       checking->name);
        return false;
    }
    for (size_t i = 0; i < found.count; i++)
        project_settings_report(checking, &found.errors[i]);
    return false;
}

/* Where a path setting points is a grant: a value outside of what was granted is refused. */
static bool project_settings_check_paths(const struct checking *checking,
                                         const struct kg_node *config)
{
    const struct manifest *manifest = checking->manifest;
    const struct layers *layers = checking->layers;
    bool fine = true;
    for (size_t i = 0; i < manifest->knob_count; i++) {
        const struct manifest_knob *knob = &manifest->knobs[i];
        struct kg_str key = kg_str(knob->field);
        const struct kg_node *value =
            manifest_knob_is_path(knob) ? kg_node_typed(config, knob->field, KG_STRING) : NULL;
        if (value == NULL || manifest_knob_allows(knob, value->text))
            continue;
        const struct kg_member *own = kg_node_member(layers->own, key);
        const struct kg_member *primary = kg_node_member(layers->primary, key);
        problem_at_key(checking->resolving->problems, CONFIG_INVALID,
                       own       ? own
                       : primary ? primary
                                 : layers->place,
                       "point it below one of the prefixes that its manifest names",
                       "the config of \"%s\", %" KG_S_NAME ": the path has none of its prefixes",
                       checking->name, knob->field);
        fine = false;
    }
    return fine;
}

static bool project_settings_check_no_secret(const struct checking *checking)
{
    const struct kg_node *own = checking->layers->own, *primary = checking->layers->primary;
    bool fine = true;
    for (uint32_t i = 0; i < project_settings_count_of(own); i++) {
        if (!project_settings_is_secret(checking->layers, own->members[i].key))
            continue;
        problem_at_key(checking->resolving->problems, CONFIG_SECRET, &own->members[i],
                       "keep it in local.toml, which is not shared",
                       "\"%.*s\" of the plugin %s belongs to the operator, and is not allowed in a "
                       "project's file",
                       KG_STR_CUT(own->members[i].key, KG_CUT_NAME), checking->manifest->name);
        fine = false;
    }
    /* What the primary says for all was reported there. */
    for (uint32_t i = 0; i < project_settings_count_of(primary); i++)
        fine &= !project_settings_is_secret(checking->layers, primary->members[i].key);
    return fine;
}

/* -- taking ------------------------------------------------------------------------------------ */

static void project_settings_take_secrets(const struct resolving *resolving,
                                          const struct manifest *manifest, struct project_use *use)
{
    const struct kg_node *schema = manifest->system_config_schema_node;
    const struct kg_node *properties = project_settings_properties_of(schema);
    const struct kg_node *required = kg_node_typed(schema, "required", KG_ARRAY);
    const struct local *local = resolving->world->local;
    const struct local_plugin *table =
        local ? local_plugin_find(local, kg_str(manifest->package)) : NULL;
    struct kg_arena *arena = resolving->resolved->arena;
    use->secrets =
        kg_arena_alloc(arena, (project_settings_count_of(properties) + 1u) * sizeof(*use->secrets));
    for (uint32_t i = 0; i < project_settings_count_of(properties); i++) {
        const char *key = project_keep(arena, properties->members[i].key);
        use->secrets[use->secret_count++] = (struct project_secret){
            .key = key,
            .required = kg_node_has_text(required, kg_str(key)),
            .set = table != NULL && project_settings_has(table->system, kg_str(key)),
        };
    }
}

static void project_settings_take_settings(const struct resolving *resolving,
                                           const struct manifest *manifest,
                                           const struct layers *layers, struct project_use *use)
{
    struct kg_arena *arena = resolving->resolved->arena;
    const struct kg_node *config = use->config;
    size_t work = SENSITIVE_WORK_MAX;
    use->settings = kg_arena_alloc(arena, (config->count + 1u) * sizeof(*use->settings));
    for (uint32_t i = 0; i < config->count; i++)
        use->settings[use->setting_count++] = (struct project_setting){
            .key = project_keep(arena, config->members[i].key),
            .value = &config->members[i].value,
            .origin = project_settings_origin_of(layers, config->members[i].key),
            .sensitive =
                project_is_sensitive(manifest->config_schema_node, config->members[i].key, &work),
        };
}

/* Whether the resolved project may hold one more; takes it if so. */
static bool keep_document(const struct resolving *resolving, struct kg_doc *doc)
{
    struct project_resolved *resolved = resolving->resolved;
    size_t bytes = doc ? kg_arena_bytes(doc->arena) : 0;
    if (doc == NULL || resolved->config_bytes + bytes > PROJECT_CONFIG_BYTES_MAX) {
        kg_doc_free(doc);
        return false;
    }
    resolved->documents[resolved->document_count++] = doc;
    resolved->config_bytes += bytes;
    return true;
}

bool project_settings_take(const struct resolving *resolving,
                           const struct project_declaration *declaration,
                           const struct manifest *manifest, struct project_use *use)
{
    struct kg_node isolation;
    const struct layers layers = layers_of(resolving, declaration, manifest, &isolation);
    const struct checking checking = {resolving, manifest, &layers, declaration->name};
    project_settings_take_secrets(resolving, manifest, use);
    if (manifest->config_schema == NULL && project_settings_count_of(layers.operators) == 0 &&
        project_settings_count_of(layers.primary) == 0 &&
        project_settings_count_of(layers.own) == 0)
        return true;
    struct kg_doc *doc = put_together(manifest, &layers);
    if (!keep_document(resolving, doc)) {
        problem_at_key(resolving->problems, CONFIG_LARGE, declaration->member, NULL,
                       "the config of \"%s\": the configurations of all agents together are too "
                       "large",
                       declaration->name);
        return false;
    }
    use->config = doc->root;
    project_settings_take_settings(resolving, manifest, &layers, use);
    bool fine = project_settings_check_no_secret(&checking);
    fine = project_settings_check_paths(&checking, use->config) && fine;
    return project_settings_check_schema(&checking, use->config) && fine;
}
