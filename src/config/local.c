/*
 * Reads local.toml. Unknown sections and wrong types are errors with their place; the keys of a
 * plugin's table that are not ours are its system configuration, and are taken for secrets.
 */
#include "config/local_internal.h"

#include "base/doc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define VARIABLE_MAX 128
#define HASH_DIGITS  64

#define fail_at LOCAL_FAIL_AT

static const char *const sections[] = {"plugins", "models", "providers", "system_plugins",
                                       "projects"};
static const char *const reserved[] = {"installed", "local", "config", "hash", LOCAL_SYSTEM};

bool local_key_is_reserved(struct kg_str key)
{
    for (size_t i = 0; i < KG_COUNT(reserved); i++)
        if (kg_str_is(key, reserved[i]))
            return true;
    return false;
}

/* -- ${VAR} ------------------------------------------------------------------------------------ */

static bool is_name_char(char c, bool first)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           (!first && kg_is_digit(c));
}

/*
 * The name between the braces behind `at`, which stands at "${"; false if it is no such thing. What
 * cannot be a name may be a secret, which no message may repeat.
 */
static bool variable_at(struct kg_str text, size_t at, char name[VARIABLE_MAX], size_t *ret_end)
{
    size_t start = at + 2, end = start;
    while (end < text.length && is_name_char(text.data[end], end == start))
        end++;
    if (end == text.length || text.data[end] != '}' || end == start || end - start >= VARIABLE_MAX)
        return false;
    memcpy(name, text.data + start, end - start);
    name[end - start] = '\0';
    *ret_end = end + 1;
    return true;
}

/* "$${" stands for "${" itself. */
static int substitute(struct kg_str text, struct kg_buf *out, struct kg_str key,
                      const struct kg_node *node, struct kg_err *err)
{
    for (size_t i = 0; i < text.length;) {
        struct kg_str rest = {text.data + i, text.length - i};
        char name[VARIABLE_MAX];
        if (kg_str_starts(rest, "$${")) {
            kg_buf_text(out, "${");
            i += 3;
        } else if (kg_str_starts(rest, "${")) {
            if (!variable_at(text, i, name, &i))
                return fail_at(err, node, "%.*s: \"${\" without the name of a variable and \"}\"",
                               KG_STR_CUT(key, 64));
            const char *value = getenv(name);
            if (value == NULL) {
                fail_at(err, node, "%.*s needs the environment variable %s, which is not set",
                        KG_STR_CUT(key, 64), name);
                return kg_hint(err, "set %s where the daemon is started", name);
            }
            kg_buf_text(out, value);
        } else {
            kg_buf_char(out, text.data[i++]);
        }
    }
    return 0;
}

/* Copies a value into the builder, its strings substituted. */
static int copy_value(struct kg_builder *builder, const struct kg_node *node, struct kg_str key,
                      struct kg_err *err)
{
    struct kg_node copy = *node;
    int result = 0;
    switch (node->type) {
    case KG_STRING: {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        result = substitute(node->text, &text, key, node, err);
        copy.text = kg_arena_str(kg_builder_arena(builder), kg_buf_view(&text));
        kg_builder_value(builder, copy);
        return result;
    }
    case KG_ARRAY:
        kg_builder_open(builder, KG_ARRAY, node->line, node->column);
        for (uint32_t i = 0; i < node->count && result == 0; i++)
            result = copy_value(builder, &node->items[i], key, err);
        kg_builder_close(builder);
        return result;
    case KG_OBJECT:
        kg_builder_open(builder, KG_OBJECT, node->line, node->column);
        for (uint32_t i = 0; i < node->count && result == 0; i++) {
            const struct kg_member *member = &node->members[i];
            kg_builder_key(builder, kg_arena_str(kg_builder_arena(builder), member->key),
                           member->key_line, member->key_column);
            result = copy_value(builder, &member->value, member->key, err);
        }
        kg_builder_close(builder);
        return result;
    default:
        copy.text = kg_arena_str(kg_builder_arena(builder), node->text);
        kg_builder_value(builder, copy);
        return 0;
    }
}

/* The document once more, its variables replaced. */
static struct kg_doc *replace_variables(const struct kg_doc *doc, struct kg_err *err)
{
    struct kg_builder *builder = kg_builder_new();
    int result = copy_value(builder, doc->root, KG_STR_NULL, err);
    struct kg_doc *copy = kg_builder_finish(builder);
    kg_builder_free(builder);
    if (result == 0)
        return copy;
    kg_doc_free(copy);
    return NULL;
}

/* -- plugins ----------------------------------------------------------------------------------- */

static int take_text(const struct kg_node *node, const char *key, struct kg_str *ret_text,
                     struct kg_err *err)
{
    if (node == NULL)
        return 0;
    if (node->type != KG_STRING)
        return fail_at(err, node, "%s takes a string", key);
    *ret_text = node->text;
    return 0;
}

static bool is_hash(struct kg_str text)
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
                           "%.*s stands here and in the table above " LOCAL_SYSTEM,
                           KG_STR_CUT(member->key, 64));
        system->members[system->count++] = *member;
    }
    *ret_system = system;
    return 0;
}

static int take_plugin(struct local *local, const struct kg_member *member, struct kg_err *err)
{
    const struct kg_node *table = &member->value;
    if (table->type != KG_OBJECT)
        return fail_at(err, table, "plugins.%.*s is a table: write it as [plugins.\"%.*s\"]",
                       KG_STR_CUT(member->key, 64), KG_STR_CUT(member->key, 64));
    struct local_plugin *plugin = &local->plugins[local->plugin_count++];
    const struct kg_node *is_local = kg_node_get(table, "local");
    plugin->package = member->key;
    plugin->config = kg_node_get(table, "config");
    if (is_local != NULL && is_local->type != KG_BOOL)
        return fail_at(err, is_local, "local takes true or false");
    if (plugin->config != NULL && plugin->config->type != KG_OBJECT)
        return fail_at(err, plugin->config, "config takes a table");
    plugin->local = is_local == NULL || is_local->boolean;
    const struct kg_node *hash = kg_node_get(table, "hash");
    int result = take_system(local, table, &plugin->system, err);
    if (result == 0)
        result = take_text(kg_node_get(table, "installed"), "installed", &plugin->installed, err);
    if (result == 0)
        result = take_text(hash, "hash", &plugin->hash, err);
    if (result == 0 && hash != NULL && !is_hash(plugin->hash))
        result = fail_at(err, hash, "hash takes \"sha256:\" and 64 hexadecimal digits");
    return result;
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
        int result = take_text(kg_node_get(project, "name"), "name", &name, err);
        if (result < 0)
            return result;
    }
    return 0;
}

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
                member->key_column, KG_STR_CUT(member->key, 64));
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
        int result = take_plugin(local, &plugins->members[i], err);
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
static void hide_value(struct kg_err *err)
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

static struct kg_doc *read_document(struct kg_str text, enum local_variables variables,
                                    struct kg_err *err)
{
    struct kg_doc *doc = kg_toml_read(text, err);
    if (doc == NULL && err != NULL)
        hide_value(err);
    if (doc == NULL || variables == LOCAL_LEAVE)
        return doc;
    struct kg_doc *replaced = replace_variables(doc, err);
    kg_doc_free(doc);
    return replaced;
}

struct local *local_read(struct kg_str text, enum local_variables variables, struct kg_err *err)
{
    struct local *local = kg_alloc(sizeof(*local));
    local->doc = read_document(text, variables, err);
    if (local->doc != NULL && take_sections(local, err) == 0 &&
        local_take_providers(local, variables, err) == 0 && local_take_models(local, err) == 0)
        return local;
    if (err != NULL)
        err->code = KG_E_INVALID_CONFIG;
    local_free(local);
    return NULL;
}

struct local *local_load(const char *path, enum local_variables variables, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int result = kg_read_file(path, KG_DOC_BYTES_MAX, &text, err);
    if (result < 0 && result != -ENOENT) {
        if (err != NULL)
            err->code = KG_E_INVALID_CONFIG;
        return NULL;
    }
    struct local *local = local_read(kg_buf_view(&text), variables, err);
    if (local == NULL)
        kg_wrap_file(err, path);
    return local;
}

void local_free(struct local *local)
{
    if (local == NULL)
        return;
    free(local->plugins);
    free(local->providers);
    free(local->models);
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
