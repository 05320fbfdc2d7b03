/*
 * The operator's yes, as local.toml keeps it: installed, installed_from, local, hash and
 * process of
 * [plugins."PACKAGE"]. All other keys of the table, its comments and its order are the operator's,
 * and stay as they are.
 */
#include "store/internal.h"

#include <errno.h>
#include <stdlib.h>

void store_record_free(struct store_record *record)
{
    free(record->package);
    free(record->installed);
    free(record->hash);
    free(record->process);
    free(record->from);
    *record = (struct store_record){0};
}

/* -- reading ----------------------------------------------------------------------------------- */

const struct local_plugin *store_record_find(const struct local *local, const char *name)
{
    const struct local_plugin *found = NULL;
    for (size_t i = 0; i < local->plugin_count; i++) {
        const struct local_plugin *plugin = &local->plugins[i];
        if (!kg_str_is(manifest_package_name(plugin->package), name))
            continue;
        if (found == NULL || (found->hash.length == 0 && plugin->hash.length > 0))
            found = plugin;
    }
    return found;
}

static char *store_record_text_or_null(struct kg_str text)
{
    return text.length > 0 ? kg_str_dup(text) : NULL;
}

static bool says_local(const struct local *local, struct kg_str package)
{
    const struct kg_node *plugins = kg_node_get(local->doc->root, "plugins");
    const struct kg_member *member = kg_node_member(plugins, package);
    return kg_node_get(&member->value, "local") != NULL;
}

int store_record_read(struct store *store, const char *name, struct store_record *ret_record,
                      struct kg_err *err)
{
    struct local *local = local_load(store->parts.paths->local_file, LOCAL_LEAVE, err);
    if (local == NULL)
        return -EINVAL;
    const struct local_plugin *plugin = store_record_find(local, name);
    *ret_record = (struct store_record){0};
    if (plugin != NULL)
        *ret_record = (struct store_record){
            .package = kg_str_dup(plugin->package),
            .installed = store_record_text_or_null(plugin->installed),
            .hash = store_record_text_or_null(plugin->hash),
            .process = store_record_text_or_null(plugin->process),
            .from = store_record_text_or_null(plugin->from),
            .has_local = says_local(local, plugin->package),
            .local = plugin->local,
        };
    local_free(local);
    return 0;
}

bool store_record_equal(const struct store_record *a, const struct store_record *b)
{
    return kg_same_text(a->package, b->package) && kg_same_text(a->installed, b->installed) &&
           kg_same_text(a->hash, b->hash) && kg_same_text(a->process, b->process) &&
           kg_same_text(a->from, b->from) && a->has_local == b->has_local &&
           (!a->has_local || a->local == b->local);
}

/* -- writing ----------------------------------------------------------------------------------- */

int store_record_cut(struct kg_buf *text, const char *const *path, size_t count, struct kg_err *err)
{
    struct kg_err gone = {0};
    int result = edit_toml_remove(text, path, count, &gone);
    if (result == 0 || gone.code == KG_E_NOT_FOUND)
        return 0;
    if (err != NULL)
        *err = gone;
    return result;
}

static int store_record_set_text(struct kg_buf *text, const char *package, const char *key,
                                 const char *value, struct kg_err *err)
{
    const char *path[] = {"plugins", package, key};
    const struct kg_node node = {.type = KG_STRING, .text = kg_str(value)};
    return value != NULL ? edit_toml_set(text, path, KG_COUNT(path), &node, err)
                         : store_record_cut(text, path, KG_COUNT(path), err);
}

static int set_local(struct kg_buf *text, const struct store_record *record, struct kg_err *err)
{
    const char *path[] = {"plugins", record->package, "local"};
    const struct kg_node node = {.type = KG_BOOL, .boolean = record->local};
    return record->has_local ? edit_toml_set(text, path, KG_COUNT(path), &node, err)
                             : store_record_cut(text, path, KG_COUNT(path), err);
}

/* What the operator granted to it is not for another that is called so. */
static int change_remove(struct kg_buf *text, void *data, struct kg_err *err)
{
    const char *path[] = {"plugins", data};
    kg_auto(kg_free) char *name = kg_str_dup(manifest_package_name(kg_str(data)));
    const char *const grants[] = {"grants", name};
    int result = store_record_cut(text, path, KG_COUNT(path), err);
    return result < 0 ? result : store_record_cut(text, grants, KG_COUNT(grants), err);
}

/* A table that lost its last key was ours alone. */
static int drop_if_empty(struct kg_buf *text, const char *package, struct kg_err *err)
{
    const char *path[] = {"plugins", package};
    struct local *local = local_read(kg_buf_view(text), LOCAL_LEAVE, NULL);
    const struct local_plugin *plugin = local ? local_plugin_find(local, kg_str(package)) : NULL;
    bool empty = plugin != NULL && plugin->installed.length == 0 && plugin->hash.length == 0 &&
                 plugin->config == NULL && plugin->system->count == 0;
    local_free(local);
    return empty ? store_record_cut(text, path, KG_COUNT(path), err) : 0;
}

static int change_record(struct kg_buf *text, void *data, struct kg_err *err)
{
    const struct store_record *record = data;
    int result = store_record_set_text(text, record->package, "installed", record->installed, err);
    if (result == 0)
        result = set_local(text, record, err);
    if (result == 0)
        result = store_record_set_text(text, record->package, "hash", record->hash, err);
    if (result == 0)
        result = store_record_set_text(text, record->package, "process", record->process, err);
    if (result == 0)
        result = store_record_set_text(text, record->package, "installed_from", record->from, err);
    if (result == 0 && record->offer != NULL)
        result = store_own_write(text, record->offer, err);
    if (result < 0 || record->installed != NULL || record->hash != NULL || record->has_local)
        return result;
    return drop_if_empty(text, record->package, err);
}

int store_record_edit(const struct store *store, edit_change *change, const void *data,
                      struct kg_err *err)
{
    const struct config_paths *paths = store->parts.paths;
    int result = edit_file(paths->local_file, change, (void *)data, err);
    if (result == -EACCES)
        kg_hint(err, "give it to the user of the daemon: move it to %s, and leave a symbolic link",
                paths->state_dir);
    return result;
}

int store_record_write(struct store *store, const struct store_record *record, struct kg_err *err)
{
    return store_record_edit(store, change_record, record, err);
}

int store_record_remove(struct store *store, const char *package, struct kg_err *err)
{
    return store_record_edit(store, change_remove, package, err);
}

/* -- promote ----------------------------------------------------------------------------------- */

int store_promote(struct store *store, const char *name, struct kg_err *err)
{
    kg_auto(store_hold_end) struct store_hold hold = {-1, -1, -1};
    kg_auto(store_record_free) struct store_record record = {0};
    int result = store_hold_begin(store, &hold, err);
    if (result == 0)
        result = store_record_read(store, name, &record, err);
    if (result < 0)
        return result;
    if (record.package == NULL || record.installed == NULL) {
        kg_fail(err, KG_E_NOT_FOUND, "plugin %s: local.toml has no entry of it", name);
        return kg_hint(err, "kaged plugin approve %s", name);
    }
    if (record.local)
        return kg_fail(err, KG_E_CONFLICT, "plugin %s is already available to every project", name);
    record.has_local = record.local = true;
    return store_record_write(store, &record, err);
}
