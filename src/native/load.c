/* A file becomes a plugin: opened, its table found, measured and checked, its start run. */
#include "native/internal.h"

#include <dlfcn.h>
#include <errno.h>

#define SYMBOL "kaged_system_plugin"
/* What the first of all kageds with system plugins knew; a table has at least this. */
#define FIRST_SIZE (offsetof(struct kaged_system_plugin, audit_unavailable) + sizeof(kaged_hook *))

kaged_hook *native_hook_of(const struct kaged_system_plugin *table, enum native_hook hook)
{
    kaged_hook *found = NULL;
    memcpy(&found, (const char *)table + native_hook_rows[hook].offset, sizeof(found));
    return found;
}

/* What lies past our table is of a newer kaged; where it is empty, it is not used. */
static bool uses_more(const struct kaged_system_plugin *found)
{
    const char *bytes = (const char *)found;
    for (size_t i = sizeof(*found); i < found->size; i++)
        if (bytes[i] != 0)
            return true;
    return false;
}

static int check_table(const struct kaged_system_plugin *found, struct kg_err *err)
{
    size_t known = sizeof(*found);
    if (found->size < FIRST_SIZE || found->size > known * 16) {
        kg_fail(err, KG_E_REFUSED, "its table " SYMBOL " says that it has %zu bytes, not %zu",
                found->size, known);
        return kg_hint(err, "build it with kaged/system-plugin.h, and set size in its table");
    }
    if (uses_more(found)) {
        kg_fail(err, KG_E_REFUSED,
                "it was built for a newer kaged: its table has %zu bytes, this one knows %zu",
                found->size, known);
        return kg_hint(err, "upgrade kaged, or build the plugin with the header of this one");
    }
    if (found->start == NULL)
        return kg_fail(err, KG_E_REFUSED, "its table has no start");
    return 0;
}

/* As it stands now, in the size that we know. */
static void copy_table(struct kaged_system_plugin *table, const struct kaged_system_plugin *found)
{
    memcpy(table, found, found->size < sizeof(*table) ? found->size : sizeof(*table));
}

static const struct kaged_system_plugin *find_table(const struct native_plugin *plugin,
                                                    struct kg_err *err)
{
    void *library = dlopen(plugin->path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        kg_fail(err, KG_E_REFUSED, "it cannot be loaded: %s", dlerror());
        return NULL;
    }
    const struct kaged_system_plugin *found = dlsym(library, SYMBOL);
    if (found == NULL) {
        kg_fail(err, KG_E_REFUSED, "it has no table " SYMBOL);
        kg_hint(err, "kaged-system-plugin(3) shows how to make one");
        return NULL;
    }
    return check_table(found, err) == 0 ? found : NULL;
}

static int native_load_start(struct native_plugin *plugin, struct kg_err *err)
{
    uint64_t began_ms = kg_monotonic_ms();
    native_call_begin(plugin, DOING_THREAD, "start");
    const char *problem = plugin->table->start(&plugin->kaged, &plugin->own_state);
    native_call_end(plugin, DOING_THREAD, "start", began_ms);
    if (problem == NULL)
        return 0;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    kg_buf_escaped(&words, (struct kg_str){problem, strnlen(problem, TEXT_MAX)});
    return kg_fail(err, KG_E_REFUSED, "it does not start: %" KG_S_CAUSE, kg_buf_terminate(&words));
}

static int native_load_check_hooks(const struct native_plugin *plugin, uint32_t *ret_hooks,
                                   struct kg_err *err)
{
    for (int hook = 0; hook < NATIVE_HOOKS; hook++) {
        if (native_hook_of(plugin->table, (enum native_hook)hook) == NULL)
            continue;
        *ret_hooks |= 1u << hook;
        if ((plugin->allowed & 1u << hook) != 0)
            continue;
        kg_fail(err, KG_E_REFUSED, "it registers the hook %s, which its table does not name",
                native_hook_rows[hook].name);
        return kg_hint(err, "if it may have it, add it to hooks of [system_plugins.%s] in %s",
                       plugin->name, plugin->local_file);
    }
    return 0;
}

int native_load(struct native_plugin *plugin, struct kg_err *err)
{
    struct kaged_system_plugin *table = kg_alloc(sizeof(*table));
    uint32_t hooks = 0;
    uint64_t began_ms = kg_monotonic_ms();
    plugin->table = table;
    native_call_begin(plugin, DOING_THREAD, "load");
    const struct kaged_system_plugin *found = find_table(plugin, err);
    native_call_end(plugin, DOING_THREAD, "load", began_ms);
    if (found == NULL)
        return -EINVAL;
    copy_table(table, found);
    if (native_load_start(plugin, err) < 0)
        return -EINVAL;
    copy_table(table, found);
    if (native_load_check_hooks(plugin, &hooks, err) < 0) {
        native_run_stop(plugin);
        return -EINVAL;
    }
    const char *version = table->version;
    uv_mutex_lock(&plugin->lock);
    plugin->hooks = hooks;
    if (version != NULL)
        kg_str_copy((struct kg_str){version, strnlen(version, sizeof(plugin->version) - 1)},
                    plugin->version, sizeof(plugin->version));
    uv_mutex_unlock(&plugin->lock);
    return 0;
}
