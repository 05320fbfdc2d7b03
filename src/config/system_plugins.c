/*
 * [system_plugins] of local.toml. What stands here runs in the daemon: each key is known, and what
 * cannot be meant is an error with its place. Whether the file may be loaded is native/'s to say.
 */
#include "config/local_internal.h"

#include <errno.h>

#define fail_at LOCAL_FAIL_AT

#define HOOKS_MAX 64

static const char *const keys[] = {"path", "hash", "hooks", "required", "config"};

static int config_system_plugins_check_keys(const struct kg_node *table, struct kg_err *err)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct kg_member *member = &table->members[i];
        size_t at = 0;
        while (at < KG_COUNT(keys) && !kg_str_is(member->key, keys[at]))
            at++;
        if (at < KG_COUNT(keys))
            continue;
        kg_fail(err, KG_E_INVALID_CONFIG, "%u:%u: unknown key %.*s", member->key_line,
                member->key_column, KG_STR_CUT(member->key, KG_CUT_NAME));
        const char *nearest = kg_str_nearest(member->key, keys, KG_COUNT(keys));
        if (nearest != NULL)
            return kg_hint(err, "did you mean %s?", nearest);
        return kg_hint(err, "settings of the plugin itself belong in its table config");
    }
    return 0;
}

static int config_system_plugins_take_path(const struct kg_member *member,
                                           struct local_system_plugin *plugin, struct kg_err *err)
{
    const struct kg_node *path = kg_node_get(&member->value, "path");
    if (path == NULL)
        return fail_at(err, &member->value, "system_plugins.%.*s does not say its path",
                       KG_STR_ARG(member->key));
    if (path->type != KG_STRING || path->text.length < 2 || path->text.data[0] != '/' ||
        !kg_str_is_plain(path->text))
        return fail_at(err, path, "path takes an absolute path");
    plugin->path = path->text;
    return 0;
}

static int take_hash(const struct kg_node *hash, struct local_system_plugin *plugin,
                     struct kg_err *err)
{
    if (hash == NULL)
        return 0;
    if (hash->type != KG_STRING || !local_is_hash(hash->text))
        return fail_at(err, hash, "hash takes \"sha256:\" and 64 hexadecimal digits");
    plugin->hash = hash->text;
    return 0;
}

static int config_system_plugins_take_hooks(const struct kg_node *hooks,
                                            struct local_system_plugin *plugin, struct kg_err *err)
{
    bool good = hooks == NULL || (hooks->type == KG_ARRAY && hooks->count <= HOOKS_MAX);
    for (uint32_t i = 0; good && hooks != NULL && i < hooks->count; i++)
        good = hooks->items[i].type == KG_STRING;
    if (!good)
        return fail_at(err, hooks, "hooks takes a list of at most %d names", HOOKS_MAX);
    plugin->hooks = hooks;
    return 0;
}

static int config_system_plugins_take_one(struct local *local, const struct kg_member *member,
                                          struct kg_err *err)
{
    struct local_system_plugin *plugin = &local->system_plugins[local->system_plugin_count];
    if (local_check_name(member, "system_plugins", err) < 0 ||
        config_system_plugins_check_keys(&member->value, err) < 0)
        return -EINVAL;
    const struct kg_node *required = kg_node_get(&member->value, "required");
    if (member->key.data[0] == '.')
        return fail_at(err, &member->value, "the name of a system plugin cannot begin with \".\"");
    if (required != NULL && required->type != KG_BOOL)
        return fail_at(err, required, "required takes true or false");
    plugin->name = member->key;
    plugin->required = required != NULL && required->boolean;
    plugin->config = kg_node_get(&member->value, "config");
    plugin->problem = local_problem_of(local, "system_plugins", member->key);
    if (plugin->config != NULL && plugin->config->type != KG_OBJECT)
        return fail_at(err, plugin->config, "config takes a table");
    local->system_plugin_count++;
    int result = config_system_plugins_take_path(member, plugin, err);
    if (result == 0)
        result = take_hash(kg_node_get(&member->value, "hash"), plugin, err);
    return result < 0 ? result
                      : config_system_plugins_take_hooks(kg_node_get(&member->value, "hooks"),
                                                         plugin, err);
}

int local_take_system_plugins(struct local *local, struct kg_err *err)
{
    const struct kg_node *table;
    int result = local_section_of(local, "system_plugins", &table, err);
    if (result < 0 || table == NULL)
        return result;
    local->system_plugins = kg_alloc_array(table->count + 1u, sizeof(*local->system_plugins));
    for (uint32_t i = 0; i < table->count && result == 0; i++)
        result = config_system_plugins_take_one(local, &table->members[i], err);
    return result;
}
