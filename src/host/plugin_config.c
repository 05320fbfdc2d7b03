/*
 * The configuration of a plugin: what a project commits and what the operator keeps, each checked
 * against its own schema, then put together. The plugin sees one object; the split is ours. Nothing
 * here may put a value of the operator's side into a message.
 */
#include "host/internal.h"

#include <errno.h>

static const struct kg_node nothing = {.type = KG_OBJECT, .line = 1, .column = 1};

enum side { SIDE_PROJECT, SIDE_SYSTEM };
static const char *const side_names[] = {"project", "system"};

static bool plugin_config_is_required(const struct schema_error *error)
{
    static const char keyword[] = "/required";
    size_t length = sizeof(keyword) - 1;
    struct kg_str path = error->schema_path;
    return path.length >= length && memcmp(path.data + path.length - length, keyword, length) == 0;
}

static void plugin_config_report(struct host *host, const struct manifest *manifest, enum side side,
                                 struct kg_str errors)
{
    audit_emit(host->audit, AUDIT_PLUGIN_CONFIG_VALIDATION_FAILED, KG_STR_NULL,
               AUDIT_V_TEXT(manifest->name), AUDIT_V_TEXT(side_names[side]), AUDIT_V_RAW(errors));
}

/* What may be said of it: behind ", not " the checker shows what it found, a fraction for one. */
static struct kg_str plugin_config_sayable(enum side side, struct kg_str message)
{
    static const char found[] = ", not ";
    const char *at = memmem(message.data, message.length, found, sizeof(found) - 1);
    if (side == SIDE_PROJECT || at == NULL)
        return message;
    return (struct kg_str){message.data, (size_t)(at - message.data)};
}

static int check_side(struct host *host, const struct manifest *manifest, enum side side,
                      const struct schema *schema, const struct kg_node *config, struct kg_err *err)
{
    kg_auto(schema_report_free) struct schema_report found = {0};
    kg_auto(kg_buf_free) struct kg_buf errors = {0}, one = {0};
    if (schema == NULL || schema_check(schema, config, &found))
        return 0;
    struct kg_json_writer json = kg_json_writer(&errors);
    size_t count = 0;
    kg_json_begin(&json, '[');
    for (size_t i = 0; i < found.count; i++) {
        const struct schema_error *error = &found.errors[i];
        /* Without a project, what a project would have to give cannot be missed. */
        if (side == SIDE_PROJECT && plugin_config_is_required(error))
            continue;
        one.length = 0;
        kg_buf_str(&one, error->instance_path);
        kg_buf_text(&one, error->instance_path.length ? " " : "");
        kg_buf_str(&one, plugin_config_sayable(side, error->message));
        kg_json_str(&json, kg_buf_view(&one));
        if (count++ > 0)
            continue;
        kg_fail(err, KG_E_INVALID_CONFIG, "plugin %s: its %s configuration: %u:%u: %" KG_S_CAUSE,
                manifest->name, side_names[side], error->line, error->column,
                kg_buf_terminate(&one));
        kg_hint(err, "fix [plugins.\"%s\"] in %s", manifest->package, host->paths->local_file);
    }
    kg_json_end(&json, ']');
    if (count == 0 && !found.gave_up)
        return 0;
    if (count == 0)
        kg_fail(err, KG_E_INVALID_CONFIG, "plugin %s: checking its %s configuration took too long",
                manifest->name, side_names[side]);
    plugin_config_report(host, manifest, side, kg_buf_view(&errors));
    return -EINVAL;
}

/* A secret in what a project commits would be shared with everybody. */
static int plugin_config_check_no_secret(struct host *host, const struct manifest *manifest,
                                         const struct kg_node *project,
                                         const struct kg_node *system, struct kg_err *err)
{
    const struct kg_node *secrets = kg_node_get(manifest->system_config_schema_node, "properties");
    for (uint32_t i = 0; i < project->count; i++) {
        const struct kg_member *member = &project->members[i];
        if (kg_node_member(secrets, member->key) == NULL &&
            kg_node_member(system, member->key) == NULL)
            continue;
        kg_auto(kg_buf_free) struct kg_buf errors = {0};
        kg_buf_char(&errors, '[');
        kg_json_put_string(&errors, member->key);
        kg_buf_char(&errors, ']');
        plugin_config_report(host, manifest, SIDE_PROJECT, kg_buf_view(&errors));
        kg_fail(err, KG_E_INVALID_CONFIG,
                "plugin %s: %u:%u: \"%.*s\" belongs to the operator and is not allowed in config",
                manifest->name, member->key_line, member->key_column,
                KG_STR_CUT(member->key, KG_CUT_NAME));
        return kg_hint(err, "put it beside config, in [plugins.\"%s\"] of %s", manifest->package,
                       host->paths->local_file);
    }
    return 0;
}

/* A path that the plugin was never granted, whoever wrote it. */
static int plugin_config_check_paths(struct host *host, const struct manifest *manifest,
                                     const struct kg_node *project, struct kg_err *err)
{
    for (size_t i = 0; i < manifest->knob_count; i++) {
        const struct manifest_knob *knob = &manifest->knobs[i];
        const struct kg_member *member =
            manifest_knob_is_path(knob) ? kg_node_member(project, kg_str(knob->field)) : NULL;
        if (member == NULL || member->value.type != KG_STRING ||
            manifest_knob_allows(knob, member->value.text))
            continue;
        kg_fail(err, KG_E_INVALID_CONFIG,
                "plugin %s: %u:%u: the setting %s points to a path with none of its prefixes",
                manifest->name, member->value.line, member->value.column, knob->name);
        return kg_hint(err, "fix [plugins.\"%s\"] in %s", manifest->package,
                       host->paths->local_file);
    }
    return 0;
}

/* The members of a side, with the schema's defaults, appended to an object that is open. */
static void plugin_config_put_side(struct kg_json_writer *json, const struct schema *schema,
                                   const struct kg_node *config)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *whole =
        schema ? schema_with_defaults(schema, config) : NULL;
    const struct kg_node *node = whole ? whole->root : config;
    for (uint32_t i = 0; i < node->count; i++) {
        kg_auto(kg_free) char *key = kg_str_dup(node->members[i].key);
        kg_json_key(json, key);
        kg_json_node(json, &node->members[i].value);
    }
}

static const struct kg_node *project_side(const struct local_plugin *local_or_null)
{
    return local_or_null && local_or_null->config ? local_or_null->config : &nothing;
}

static const struct kg_node *system_side(const struct local_plugin *local_or_null)
{
    return local_or_null ? local_or_null->system : &nothing;
}

struct kg_doc *host_plugin_settings(const struct host *host, const struct manifest *manifest)
{
    if (manifest->config_schema == NULL)
        return NULL;
    const struct local_plugin *local = local_plugin_find(host->local, kg_str(manifest->package));
    return schema_with_defaults(manifest->config_schema, project_side(local));
}

static void plugin_config_put_both(struct kg_buf *json, const struct manifest *manifest,
                                   const struct schema *project_schema,
                                   const struct kg_node *project,
                                   const struct local_plugin *local_or_null)
{
    struct kg_json_writer writer = kg_json_writer(json);
    kg_json_begin(&writer, '{');
    plugin_config_put_side(&writer, project_schema, project);
    plugin_config_put_side(&writer, manifest->system_config_schema, system_side(local_or_null));
    kg_json_end(&writer, '}');
}

bool plugin_config_is_known(const struct host *host, const struct manifest *manifest)
{
    const struct local_plugin *local = local_plugin_find(host->local, kg_str(manifest->package));
    return local == NULL || local->problem == NULL;
}

void plugin_config_merge(const struct host *host, const struct manifest *manifest,
                         const struct kg_node *project, struct kg_buf *ret_json)
{
    const struct local_plugin *local = local_plugin_find(host->local, kg_str(manifest->package));
    plugin_config_put_both(ret_json, manifest, NULL, project ? project : &nothing, local);
}

int plugin_config_check(struct host *host, const struct manifest *manifest, struct kg_err *err)
{
    const struct local_plugin *local = local_plugin_find(host->local, kg_str(manifest->package));
    const struct kg_node *project = project_side(local), *system = system_side(local);
    if (manifest->tier >= MANIFEST_PACKAGE)
        return 0; /* its settings are the catalog's, which has checked them */
    if (local != NULL && local->problem != NULL) {
        *err = *local->problem;
        err->code = KG_E_INVALID_CONFIG;
        kg_wrap_file(err, host->paths->local_file);
        return kg_wrap(err, -EINVAL, "plugin %s", manifest->name);
    }
    int result = plugin_config_check_no_secret(host, manifest, project, system, err);
    if (result == 0)
        result = plugin_config_check_paths(host, manifest, project, err);
    if (result == 0)
        result = check_side(host, manifest, SIDE_PROJECT, manifest->config_schema, project, err);
    if (result == 0)
        result =
            check_side(host, manifest, SIDE_SYSTEM, manifest->system_config_schema, system, err);
    return result < 0 ? result : grants_check(host->local, manifest->name, err);
}

void plugin_config_make(const struct host_plugin *plugin, const struct host_whom *whom,
                        const struct manifest *manifest, struct kg_buf *ret_json)
{
    struct host *host = plugin->host;
    const struct local_plugin *local = local_plugin_find(host->local, kg_str(manifest->package));
    const struct kg_node *project = project_side(local);
    const struct kg_node *given = host->project_ops->config(host->projects, plugin->name, whom);
    if (manifest->config_schema == NULL && manifest->system_config_schema == NULL &&
        project->count == 0 && system_side(local)->count == 0 &&
        (given == NULL || given->count == 0))
        return; /* it takes none */
    if (given != NULL)
        plugin_config_put_both(ret_json, manifest, NULL, given, local);
    else
        plugin_config_put_both(ret_json, manifest, manifest->config_schema, project, local);
}
