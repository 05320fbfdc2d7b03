/*
 * Reads local.toml. Unknown sections and wrong types are errors with their place; the keys of a
 * plugin's table that are not ours are its system configuration, and are taken for secrets.
 */
#include "config/local_internal.h"

#include "base/doc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define HASH_DIGITS        64
#define COMMAND_WORDS_MAX  64
#define COMMAND_TIMEOUT_MS 10000

#define fail_at LOCAL_FAIL_AT

static const char *const sections[] = {"plugins",        "models",   "providers",
                                       "system_plugins", "projects", "secrets",
                                       "grants",         "cluster",  "services"};
static const char *const reserved[] = {"installed", "installed_from", "local",     "config",
                                       "hash",      "process",        LOCAL_SYSTEM};
static const char *const processes[] = {"shared", "project", "session"};

bool local_key_is_reserved(struct kg_str key)
{
    for (size_t i = 0; i < KG_COUNT(reserved); i++)
        if (kg_str_is(key, reserved[i]))
            return true;
    return false;
}

/* -- plugins ----------------------------------------------------------------------------------- */

static int local_take_text(const struct kg_node *node, const char *key, struct kg_str *ret_text,
                           struct kg_err *err)
{
    if (node == NULL)
        return 0;
    if (node->type != KG_STRING)
        return fail_at(err, node, "%s takes a string", key);
    *ret_text = node->text;
    return 0;
}

bool local_is_hash(struct kg_str text)
{
    static const char kind[] = "sha256:";
    size_t start = sizeof(kind) - 1;
    if (!kg_str_starts(text, kind) || text.length != start + HASH_DIGITS)
        return false;
    for (size_t i = start; i < text.length; i++)
        if (kg_hex_digit(text.data[i]) < 0)
            return false;
    return true;
}

/*
 * All keys but our own, as an object of their own; with them those of its table system_config,
 * where others write them.
 */
static int take_system(const struct local *local, const struct kg_node *table,
                       const struct kg_node **ret_system, struct kg_err *err)
{
    const struct kg_node *below = kg_node_get(table, LOCAL_SYSTEM);
    struct kg_node *system = kg_arena_alloc(local->doc->arena, sizeof(*system));
    if (below != NULL && below->type != KG_OBJECT)
        return fail_at(err, below, LOCAL_SYSTEM " takes a table");
    size_t most = table->count + (below ? below->count : 0) + 1u;
    *system = (struct kg_node){.type = KG_OBJECT, .line = table->line, .column = table->column};
    system->members = kg_arena_alloc(local->doc->arena, most * sizeof(*system->members));
    for (uint32_t i = 0; i < table->count; i++)
        if (!local_key_is_reserved(table->members[i].key))
            system->members[system->count++] = table->members[i];
    for (uint32_t i = 0; below != NULL && i < below->count; i++) {
        const struct kg_member *member = &below->members[i];
        if (kg_node_member(system, member->key) != NULL)
            return fail_at(err, &member->value,
                           "%.*s is given here and in the table above " LOCAL_SYSTEM,
                           KG_STR_CUT(member->key, KG_CUT_NAME));
        system->members[system->count++] = *member;
    }
    *ret_system = system;
    return 0;
}

static int local_take_process(struct local_plugin *plugin, const struct kg_node *node,
                              struct kg_err *err)
{
    int result = local_take_text(node, "process", &plugin->process, err);
    for (size_t i = 0; i < KG_COUNT(processes); i++)
        if (result < 0 || node == NULL || kg_str_is(plugin->process, processes[i]))
            return result;
    return fail_at(err, node, "process takes \"shared\", \"project\" or \"session\"");
}

static int local_take_plugin(struct local *local, const struct kg_member *member,
                             struct kg_err *err)
{
    const struct kg_node *table = &member->value;
    if (table->type != KG_OBJECT)
        return fail_at(err, table, "plugins.%.*s is a table: write it as [plugins.\"%.*s\"]",
                       KG_STR_CUT(member->key, KG_CUT_NAME), KG_STR_CUT(member->key, KG_CUT_NAME));
    struct local_plugin *plugin = &local->plugins[local->plugin_count++];
    const struct kg_node *is_local = kg_node_get(table, "local");
    plugin->package = member->key;
    plugin->config = kg_node_get(table, "config");
    plugin->problem = local_problem_of(local, "plugins", member->key);
    if (is_local != NULL && is_local->type != KG_BOOL)
        return fail_at(err, is_local, "local takes true or false");
    if (plugin->config != NULL && plugin->config->type != KG_OBJECT)
        return fail_at(err, plugin->config, "config takes a table");
    plugin->local = is_local == NULL || is_local->boolean;
    const struct kg_node *hash = kg_node_get(table, "hash");
    int result = take_system(local, table, &plugin->system, err);
    if (result == 0)
        result =
            local_take_text(kg_node_get(table, "installed"), "installed", &plugin->installed, err);
    if (result == 0)
        result = local_take_text(kg_node_get(table, "installed_from"), "installed_from",
                                 &plugin->from, err);
    if (result == 0)
        result = local_take_text(hash, "hash", &plugin->hash, err);
    if (result == 0 && hash != NULL && !local_is_hash(plugin->hash))
        result = fail_at(err, hash, "hash takes \"sha256:\" and 64 hexadecimal digits");
    return result < 0 ? result : local_take_process(plugin, kg_node_get(table, "process"), err);
}

static int check_projects(const struct kg_node *projects, struct kg_err *err)
{
    struct kg_str name;
    if (projects == NULL)
        return 0;
    if (projects->type != KG_ARRAY)
        return fail_at(err, projects, "projects is a list of tables: write each as [[projects]]");
    for (uint32_t i = 0; i < projects->count; i++) {
        const struct kg_node *project = &projects->items[i];
        if (project->type != KG_OBJECT)
            return fail_at(err, project,
                           "projects is a list of tables: write each as [[projects]]");
        int result = local_take_text(kg_node_get(project, "name"), "name", &name, err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* -- secrets ----------------------------------------------------------------------------------- */

static int local_take_words(const struct kg_node *table, const char *key,
                            const struct kg_node **ret_list, struct kg_err *err)
{
    const struct kg_node *list = kg_node_get(table, key);
    if (list == NULL)
        return 0;
    bool good = list->type == KG_ARRAY && list->count > 0 && list->count <= COMMAND_WORDS_MAX;
    for (uint32_t i = 0; good && i < list->count; i++) {
        const struct kg_node *word = &list->items[i];
        good = word->type == KG_STRING && word->text.length > 0 &&
               memchr(word->text.data, '\0', word->text.length) == NULL;
    }
    if (!good)
        return fail_at(err, list, "%s takes a list of 1 to %d texts", key, COMMAND_WORDS_MAX);
    *ret_list = list;
    return 0;
}

static int local_take_secrets(struct local *local, struct kg_err *err)
{
    static const char *const keys[] = {"command", "environment", "timeout_ms"};
    const struct kg_node *table = kg_node_get(local->doc->root, "secrets");
    struct local_secrets *secrets = &local->secrets;
    secrets->timeout_ms = COMMAND_TIMEOUT_MS;
    if (table == NULL)
        return 0;
    if (table->type != KG_OBJECT)
        return fail_at(err, table, "secrets is a table");
    for (uint32_t i = 0; i < table->count; i++) {
        bool known = false;
        for (size_t k = 0; k < KG_COUNT(keys); k++)
            known |= kg_str_is(table->members[i].key, keys[k]);
        if (!known)
            return fail_at(err, &table->members[i].value, "unknown key secrets.%.*s",
                           KG_STR_CUT(table->members[i].key, KG_CUT_NAME));
    }
    const struct kg_node *timeout = kg_node_get(table, "timeout_ms");
    if (timeout != NULL && (!kg_node_int(timeout, &secrets->timeout_ms) ||
                            secrets->timeout_ms < 10 || secrets->timeout_ms > 60000))
        return fail_at(err, timeout, "timeout_ms takes a number from 10 to 60000");
    int result = local_take_words(table, "command", &secrets->command, err);
    return result < 0 ? result : local_take_words(table, "environment", &secrets->environment, err);
}

/* -- the cluster ------------------------------------------------------------------------------- */

static int take_cluster(struct local *local, struct kg_err *err)
{
    const struct kg_node *table = kg_node_get(local->doc->root, "cluster");
    if (table == NULL)
        return 0;
    const struct kg_node *password = kg_node_get(table, "password");
    if (table->type != KG_OBJECT || table->count != (password != NULL))
        return fail_at(err, table, "cluster is a table with one key, password");
    if (password != NULL && (password->type != KG_STRING ||
                             memchr(password->text.data, '\0', password->text.length) != NULL))
        return fail_at(err, password, "password takes a text");
    local->cluster_password = password ? password->text : KG_STR("");
    return 0;
}

/* -- the sections ------------------------------------------------------------------------------ */

static int take_sections(struct local *local, struct kg_err *err)
{
    const struct kg_node *root = local->doc->root;
    for (uint32_t i = 0; i < root->count; i++) {
        const struct kg_member *member = &root->members[i];
        bool known = false;
        for (size_t k = 0; k < KG_COUNT(sections); k++)
            known |= kg_str_is(member->key, sections[k]);
        if (known)
            continue;
        kg_fail(err, KG_E_INVALID_CONFIG, "%u:%u: unknown section %.*s", member->key_line,
                member->key_column, KG_STR_CUT(member->key, KG_CUT_NAME));
        const char *nearest = kg_str_nearest(member->key, sections, KG_COUNT(sections));
        if (nearest != NULL)
            kg_hint(err, "did you mean %s?", nearest);
        return -EINVAL;
    }
    const struct kg_node *plugins = kg_node_get(root, "plugins");
    int problem = check_projects(kg_node_get(root, "projects"), err);
    if (problem < 0 || plugins == NULL)
        return problem;
    if (plugins->type != KG_OBJECT)
        return fail_at(err, plugins, "plugins is a table of tables");
    local->plugins = kg_alloc_array(plugins->count + 1u, sizeof(*local->plugins));
    for (uint32_t i = 0; i < plugins->count; i++) {
        int result = local_take_plugin(local, &plugins->members[i], err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* -- the file ---------------------------------------------------------------------------------- */

/*
 * The reader may begin what it says with the value that it could not read, in quotes: a secret that
 * the operator forgot to quote.
 */
static void local_hide_value(struct kg_err *err)
{
    char *start = strstr(err->message, ": ");
    if (start == NULL || start[2] != '"')
        return;
    char *end = start + 3;
    while (*end != '"' && *end != '\0')
        end += end[0] == '\\' && end[1] != '\0' ? 2 : 1;
    end += *end == '"';
    end += kg_str_starts(kg_str(end), "...") ? 3 : 0;
    kg_auto(kg_free) char *rest = kg_strdup(end);
    size_t used = (size_t)(start + 2 - err->message);
    snprintf(start + 2, sizeof(err->message) - used, "what stands here%s", rest);
}

static int local_read_document(struct local *local, struct kg_str text,
                               const struct local_lookup *lookup, struct kg_err *err)
{
    struct kg_doc *doc = kg_toml_read(text, err);
    if (doc == NULL && err != NULL)
        local_hide_value(err);
    local->doc = doc;
    if (doc == NULL || lookup == NULL)
        return doc == NULL ? -EINVAL : 0;
    local->doc = local_replace(doc, lookup, &local->problems, err);
    kg_doc_free(doc);
    return local->doc == NULL ? -EINVAL : 0;
}

static struct local *unusable(struct local *local, struct kg_err *err)
{
    if (err != NULL)
        err->code = KG_E_INVALID_CONFIG;
    local_free(local);
    return NULL;
}

struct local *local_read(struct kg_str text, const struct local_lookup *lookup, struct kg_err *err)
{
    struct local *local = kg_alloc(sizeof(*local));
    if (local_read_document(local, text, lookup, err) == 0 && take_sections(local, err) == 0 &&
        local_take_secrets(local, err) == 0 && take_cluster(local, err) == 0 &&
        local_take_providers(local, lookup, err) == 0 && local_take_models(local, err) == 0 &&
        local_take_grants(local, err) == 0 && local_take_system_plugins(local, err) == 0 &&
        local_take_services(local, err) == 0)
        return local;
    return unusable(local, err);
}

static struct local *read_references(struct kg_str text, const struct local_lookup *lookup,
                                     struct kg_err *err)
{
    struct local *local = kg_alloc(sizeof(*local));
    if (local_read_document(local, text, lookup, err) == 0 && local_take_secrets(local, err) == 0)
        return local;
    return unusable(local, err);
}

typedef struct local *local_read_fn(struct kg_str text, const struct local_lookup *lookup,
                                    struct kg_err *err);

static struct local *load(const char *path, local_read_fn *read, const struct local_lookup *lookup,
                          struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int result = kg_read_file(path, KG_DOC_BYTES_MAX, &text, err);
    if (result < 0 && result != -ENOENT) {
        if (err != NULL)
            err->code = KG_E_INVALID_CONFIG;
        return NULL;
    }
    struct local *local = read(kg_buf_view(&text), lookup, err);
    if (local == NULL)
        kg_wrap_file(err, path);
    return local;
}

struct local *local_load(const char *path, const struct local_lookup *lookup, struct kg_err *err)
{
    return load(path, local_read, lookup, err);
}

struct local *local_load_references(const char *path, const struct local_lookup *lookup,
                                    struct kg_err *err)
{
    return load(path, read_references, lookup, err);
}

void local_free(struct local *local)
{
    if (local == NULL)
        return;
    free(local->plugins);
    free(local->providers);
    free(local->models);
    free(local->system_plugins);
    local_free_grants(local);
    kg_doc_free(local->doc);
    free(local);
}

const struct local_plugin *local_plugin_find(const struct local *local, struct kg_str package)
{
    for (size_t i = 0; i < local->plugin_count; i++)
        if (kg_str_equal(local->plugins[i].package, package))
            return &local->plugins[i];
    return NULL;
}
