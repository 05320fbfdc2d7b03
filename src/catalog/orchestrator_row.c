/*
 * One orchestrator as it is kept. Its packages are named by pid, so that a new version is found at
 * the next load; one that is held to a version stays with it. Whatever is done with a row is done
 * on the keeper's thread, between one transaction's begin and end: so nobody's change is lost.
 */
#include "catalog/orchestrators.h"

#include "store/store.h"

#include <errno.h>
#include <stdlib.h>

/* -- memory ------------------------------------------------------------------------------------ */

static void plugin_clear(struct orchestrator_plugin *plugin)
{
    free(plugin->pid);
    free(plugin->version);
    free(plugin->settings);
}

void orchestrator_row_free(struct orchestrator_row *row)
{
    for (size_t i = 0; i < row->plugin_count; i++)
        plugin_clear(&row->plugins[i]);
    free(row->plugins);
    free(row->name);
    free(row->framework);
    free(row->mode);
    free(row->tier);
    free(row->whoami);
    free(row->config);
    free(row->created_by);
    *row = (struct orchestrator_row){0};
}

static struct orchestrator_plugin *plugin_add(struct orchestrator_row *row)
{
    row->plugins = kg_realloc(row->plugins, (row->plugin_count + 1) * sizeof(*row->plugins));
    struct orchestrator_plugin *plugin = &row->plugins[row->plugin_count++];
    *plugin = (struct orchestrator_plugin){0};
    return plugin;
}

/* -- the list of packages ---------------------------------------------------------------------- */

static void read_plugins(struct orchestrator_row *row, const char *text)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_str(text), NULL);
    for (uint32_t i = 0; doc != NULL && i < doc->root->count; i++) {
        const struct kg_node *item = &doc->root->items[i];
        const struct kg_node *settings = kg_node_typed(item, "settings", KG_OBJECT);
        struct kg_str version = kg_node_text(item, "version");
        struct orchestrator_plugin *plugin = plugin_add(row);
        kg_auto(kg_buf_free) struct kg_buf stored = {0};
        plugin->pid = kg_str_dup(kg_node_text(item, "pid"));
        plugin->version = version.data ? kg_str_dup(version) : NULL;
        plugin->active = kg_node_is_true(item, "active");
        if (settings != NULL)
            kg_json_put_node(&stored, settings);
        plugin->settings = settings ? kg_str_dup(kg_buf_view(&stored)) : NULL;
    }
}

static void orchestrator_row_put_plugins(const struct orchestrator_row *row, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '[');
    for (size_t i = 0; i < row->plugin_count; i++) {
        const struct orchestrator_plugin *plugin = &row->plugins[i];
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "pid", plugin->pid);
        kg_json_named_text(&json, "version", plugin->version);
        kg_json_named_bool(&json, "active", plugin->active);
        if (plugin->settings != NULL)
            kg_json_named_raw(&json, "settings", kg_str(plugin->settings));
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
}

static struct kg_str orchestrator_row_pid_of(struct kg_str reference, struct kg_str *ret_version)
{
    struct kg_str rest = reference;
    if (kg_str_starts(rest, "org:") || kg_str_starts(rest, "system:"))
        (void)kg_str_cut(&rest, ':');
    struct kg_str pid = kg_str_cut(&rest, '@');
    *ret_version = rest.length > 0 ? rest : KG_STR_NULL;
    return pid;
}

struct orchestrator_plugin *orchestrator_plugin_find(const struct orchestrator_row *row,
                                                     struct kg_str reference)
{
    struct kg_str version, pid = orchestrator_row_pid_of(reference, &version);
    for (size_t i = 0; i < row->plugin_count; i++)
        if (kg_str_is(pid, row->plugins[i].pid))
            return &row->plugins[i];
    return NULL;
}

/* Behind those that were attached before it. */
static void plugin_move(struct orchestrator_row *row, struct orchestrator_plugin *plugin, size_t to)
{
    struct orchestrator_plugin moved = *plugin;
    size_t from = (size_t)(plugin - row->plugins);
    memmove(&row->plugins[to + 1], &row->plugins[to], (from - to) * sizeof(moved));
    row->plugins[to] = moved;
}

int orchestrator_row_attach(struct orchestrator_row *row, const struct kg_node *references,
                            struct kg_err *err)
{
    for (size_t i = 0; i < row->plugin_count; i++)
        row->plugins[i].active = false;
    for (uint32_t i = 0; i < references->count; i++) {
        struct kg_str reference = references->items[i].text, version;
        struct kg_str pid = orchestrator_row_pid_of(reference, &version);
        struct orchestrator_plugin *plugin = orchestrator_plugin_find(row, pid);
        if (plugin != NULL && plugin->active)
            return kg_fail(err, KG_E_INVALID_PARAMS, "active_plugin_ids has %.*s twice",
                           KG_STR_CUT(pid, 100));
        if (plugin == NULL) {
            plugin = plugin_add(row);
            plugin->pid = kg_str_dup(pid);
        }
        if (version.data != NULL) {
            free(plugin->version);
            plugin->version = kg_str_dup(version);
        }
        plugin->active = true;
        plugin_move(row, plugin, i);
    }
    return 0;
}

/* -- reading and writing ----------------------------------------------------------------------- */

void orchestrator_row_take(const struct state_orchestrator *stored,
                           struct orchestrator_row *ret_row)
{
    *ret_row = (struct orchestrator_row){
        .name = kg_strdup(stored->name),
        .framework = kg_strdup(stored->framework),
        .mode = kg_strdup(stored->mode),
        .tier = kg_strdup(stored->tier),
        .whoami = kg_strdup(stored->whoami),
        .config = kg_strdup(stored->config),
        .created_by = kg_strdup(stored->created_by),
        .deleted = stored->deleted,
        .created_ms = stored->created_ms,
        .changed_ms = stored->changed_ms,
    };
    kg_str_copy(kg_str(stored->id), ret_row->id, sizeof(ret_row->id));
    kg_str_copy(kg_str(stored->org), ret_row->org, sizeof(ret_row->org));
    read_plugins(ret_row, stored->plugins);
}

static void orchestrator_row_take_row(void *data, const struct state_orchestrator *stored)
{
    orchestrator_row_free(data);
    orchestrator_row_take(stored, data);
}

int orchestrator_row_read(struct state *state, const char *org, const char *id,
                          struct orchestrator_row *ret_row, struct kg_err *err)
{
    int result = state_orchestrators(state, org, id, orchestrator_row_take_row, ret_row, err);
    if (result < 0 || ret_row->name != NULL)
        return result;
    return kg_fail(err, KG_E_NOT_FOUND, "there is no orchestrator %s", id);
}

int orchestrator_row_write(struct state *state, const struct orchestrator_row *row,
                           struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf plugins = {0};
    orchestrator_row_put_plugins(row, &plugins);
    const struct state_orchestrator stored = {
        .id = row->id,
        .org = row->org,
        .name = row->name,
        .framework = row->framework,
        .mode = row->mode,
        .tier = row->tier,
        .whoami = row->whoami,
        .config = row->config,
        .plugins = kg_buf_terminate(&plugins),
        .deleted = row->deleted,
        .created_by = row->created_by,
        .created_ms = row->created_ms,
        .changed_ms = row->changed_ms,
    };
    int result = state_orchestrator_set(state, &stored, err);
    if (result < 0)
        catalog_exists(err, "the org has another orchestrator %s", row->name);
    return result;
}

char *orchestrator_scope(const char *id, const char *pid)
{
    return kg_format("%s %s", id, pid);
}

/* Over all that a process of it depends on. */
static void orchestrator_row_hash(const struct orchestrator_row *row,
                                  char ret_hash[ORCHESTRATOR_HASH_TEXT])
{
    char hash[STORE_HASH_TEXT];
    kg_auto(kg_buf_free) struct kg_buf all = {0};
    kg_buf_printf(&all, "%s\n%s\n%s\n", row->mode, row->whoami ? row->whoami : "", row->config);
    orchestrator_row_put_plugins(row, &all);
    store_hash_text(kg_buf_view(&all), hash);
    kg_str_copy(kg_str(hash + strlen("sha256:")), ret_hash, ORCHESTRATOR_HASH_TEXT);
}

/* -- as it is shown ---------------------------------------------------------------------------- */

int orchestrator_package(struct state *state, const char *org,
                         const struct orchestrator_plugin *plugin, struct package_row *ret_row,
                         struct kg_err *err)
{
    const struct state_package_query query = {
        .org = org,
        .with_system = true,
        .pid = plugin->pid,
        .version = plugin->version,
        .latest_only = plugin->version == NULL,
        .enabled_only = true,
        .with_document = true,
    };
    int result = package_find(state, &query, ret_row, err);
    if (result < 0 && err->code == KG_E_NO_PACKAGE)
        err->code = KG_E_INVALID_PARAMS;
    return result;
}

/* [{"key","value"}], masked. */
static void orchestrator_row_put_values(struct kg_json_writer *json, const struct kg_node *schema,
                                        const char *stored)
{
    kg_auto(kg_buf_free) struct kg_buf masked = {0};
    struct kg_json_writer values = kg_json_writer(&masked);
    settings_put(&values, schema, stored);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&masked), NULL);
    kg_json_named_begin(json, "settings", '[');
    for (uint32_t i = 0; doc != NULL && i < doc->root->count; i++) {
        kg_json_begin(json, '{');
        kg_json_named_str(json, "key", doc->root->members[i].key);
        kg_json_named_node(json, "value", &doc->root->members[i].value);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

/* One whose package is not there any more has its pid, and what was set cannot be shown. */
static int orchestrator_row_put_plugin(struct state *state, const struct orchestrator_row *row,
                                       const struct orchestrator_plugin *plugin,
                                       struct kg_json_writer *json, struct kg_err *err)
{
    struct package_row found = {0};
    int result = orchestrator_package(state, row->org, plugin, &found, err);
    if (result < 0 && err->code != KG_E_INVALID_PARAMS)
        return result;
    bool is_there = result == 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *document =
        is_there ? kg_json_read(kg_str(found.row.document), NULL) : NULL;
    const struct kg_node *root = document ? document->root : NULL;
    const char *version = is_there ? found.row.version : plugin->version;
    kg_auto(kg_free) char *key =
        is_there ? kg_format("%s:%s@%s", found.row.org[0] != '\0' ? "org" : "system", plugin->pid,
                             version)
                 : kg_strdup(plugin->pid);
    kg_json_named_begin(json, key, '{');
    kg_json_named_text(json, "id", is_there ? found.row.id : NULL);
    kg_json_named_text(json, "pid", plugin->pid);
    kg_json_named_text(json, "version", version);
    kg_json_named_text(json, "pinned", plugin->version);
    kg_json_named_str(json, "name", root ? kg_node_text(root, "name") : KG_STR_NULL);
    kg_json_named_bool(json, "active", plugin->active);
    orchestrator_row_put_values(
        json, root ? kg_node_list(root, "settings_schema") : kg_node_list(NULL, ""),
        plugin->settings);
    kg_json_end(json, '}');
    package_row_free(&found);
    return 0;
}

static void put_attached(struct kg_json_writer *json, const struct orchestrator_row *row)
{
    kg_json_named_begin(json, "active_plugin_ids", '[');
    for (size_t i = 0; i < row->plugin_count; i++) {
        const struct orchestrator_plugin *plugin = &row->plugins[i];
        kg_auto(kg_free) char *pinned =
            plugin->version ? kg_format("%s@%s", plugin->pid, plugin->version) : NULL;
        if (plugin->active)
            kg_json_text(json, pinned ? pinned : plugin->pid);
    }
    kg_json_end(json, ']');
}

int orchestrator_row_put(struct state *state, const struct orchestrator_row *row,
                         struct kg_json_writer *json, struct kg_err *err)
{
    char hash[ORCHESTRATOR_HASH_TEXT];
    int result = 0;
    orchestrator_row_hash(row, hash);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "instance_id", row->id);
    kg_json_named_text(json, "org_id", row->org);
    kg_json_named_text(json, "name", row->name);
    kg_json_named_text(json, "framework_type", row->framework);
    kg_json_named_text(json, "engine", "kaged"); /* whatever the framework is called */
    kg_json_named_text(json, "mode", row->mode);
    kg_json_named_text(json, "tier", row->tier);
    kg_json_named_text(json, "status", row->deleted ? "deleted" : "active");
    kg_json_named_text(json, "whoami", row->whoami);
    kg_json_named_raw(json, "config", kg_str(row->config));
    put_attached(json, row);
    kg_json_named_begin(json, "plugin_settings", '{');
    for (size_t i = 0; i < row->plugin_count && result == 0; i++)
        result = orchestrator_row_put_plugin(state, row, &row->plugins[i], json, err);
    kg_json_end(json, '}');
    kg_json_named_text(json, "config_hash", hash);
    kg_json_named_text(json, "created_by", row->created_by);
    kg_json_named_time(json, "created_at", row->created_ms);
    kg_json_named_time(json, "updated_at", row->changed_ms);
    return result;
}
