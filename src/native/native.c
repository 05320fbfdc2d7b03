/*
 * All system plugins, from the daemon's start to its end. The loop owns the list; what a thread
 * has to say comes as a message.
 */
#include "native/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define FOLDER        "system-plugins" /* below the state's */
#define LOOK_MS       1000
#define LEAVE_WAIT_MS 500 /* after the last answer */
#define IDLE_MS       60000

struct entry {
    struct entry *next;
    struct native_plugin *plugin; /* borrowed of the process, see plugin.c */
};

struct native {
    struct helper_place place;
    struct audit *audit;
    uint64_t tables; /* a hash of what local.toml has of them */
    struct entry *first;
    uint32_t wanted; /* hooks that somebody may want, a bit each */
    struct helper_pool_place fetch_place;
    struct helper_pool *fetch;
    struct loop_timer look;
    struct loop_timer stop_timer;
    bool stopping, fetch_closed;
    struct loop_task stopped;
    void (*on_stopped)(void *data);
    void *stopped_data;
};

static const char *const state_names[] = {
    [NATIVE_STARTING] = "starting",
    [NATIVE_RUNNING] = "running",
    [NATIVE_FAILED] = "failed",
    [NATIVE_STOPPED] = "stopped",
};

struct helper_pool *native_fetch(struct native *native)
{
    return native->fetch;
}

struct audit *native_audit(struct native *native)
{
    return native->audit;
}

/* -- what is heard of them --------------------------------------------------------------------- */

static void gather_wanted(struct native *native)
{
    native->wanted = 0;
    for (const struct entry *at = native->first; at != NULL; at = at->next)
        native->wanted |= at->plugin->wanted;
}

static void native_put_hooks(struct kg_json_writer *json, const char *key, uint32_t hooks)
{
    kg_json_named_begin(json, key, '[');
    for (int hook = 0; hook < NATIVE_HOOKS; hook++)
        if ((hooks & 1u << hook) != 0)
            kg_json_text(json, native_hook_rows[hook].name);
    kg_json_end(json, ']');
}

static void native_tell_failed(struct native_plugin *plugin)
{
    kg_log(KG_ERROR_LEVEL, "system plugin %s is left out: %s%s%s", plugin->name,
           plugin->problem.message, plugin->problem.hint[0] != '\0' ? "; " : "",
           plugin->problem.hint);
    audit_emit(plugin->native->audit, AUDIT_SYSTEM_PLUGIN_REFUSED, KG_STR_NULL,
               AUDIT_V_TEXT(plugin->name), AUDIT_V_TEXT(plugin->path),
               AUDIT_V_TEXT(plugin->problem.message));
}

static void tell_loaded(struct native_plugin *plugin)
{
    kg_auto(kg_buf_free) struct kg_buf hooks = {0};
    struct kg_json_writer json = kg_json_writer(&hooks);
    kg_json_begin(&json, '[');
    for (int hook = 0; hook < NATIVE_HOOKS; hook++)
        if ((plugin->hooks & 1u << hook) != 0)
            kg_json_text(&json, native_hook_rows[hook].name);
    kg_json_end(&json, ']');
    kg_log(KG_INFO, "system plugin %s is loaded from %s", plugin->name, plugin->path);
    audit_emit(plugin->native->audit, AUDIT_SYSTEM_PLUGIN_LOADED, KG_STR_NULL,
               AUDIT_V_TEXT(plugin->name), AUDIT_V_TEXT(plugin->version),
               AUDIT_V_TEXT(plugin->path), AUDIT_V_TEXT(plugin->hash),
               AUDIT_V_RAW(kg_buf_view(&hooks)));
}

/* What is told here was written before the message was posted, and never again. */
void native_on_loaded(struct native_plugin *plugin)
{
    uv_mutex_lock(&plugin->lock);
    bool is_failed = plugin->state == NATIVE_FAILED;
    uint32_t hooks = plugin->hooks;
    uv_mutex_unlock(&plugin->lock);
    plugin->wanted = is_failed ? 0 : hooks;
    gather_wanted(plugin->native);
    if (is_failed)
        native_tell_failed(plugin);
    else
        tell_loaded(plugin);
}

static void native_on_network(void *data, const char *whose, const struct gate_event *event)
{
    const struct native *native = data;
    audit_emit(native->audit, AUDIT_SYSTEM_PLUGIN_CONNECTION, KG_STR_NULL, AUDIT_V_TEXT(whose),
               AUDIT_V_TEXT(gate_outcomes[event->kind]), AUDIT_V_TEXT(event->host),
               AUDIT_V_INT(event->port), AUDIT_V_TEXT(event->address), AUDIT_V_TEXT(event->reason),
               AUDIT_V_INT((int64_t)event->bytes_out), AUDIT_V_INT((int64_t)event->bytes_in));
}

static void native_on_look(struct loop_timer *timer)
{
    struct native *native = KG_CONTAINER(timer, struct native, look);
    bool any = false;
    for (const struct entry *at = native->first; at != NULL; at = at->next)
        any |= native_plugin_look(at->plugin);
    if (any)
        loop_timer_start(native->place.loop, timer, LOOK_MS, native_on_look);
}

/* Somebody was given something to do: whether that takes long is looked at until all is done. */
static void look_later(struct native *native)
{
    if (!loop_timer_running(&native->look))
        loop_timer_start(native->place.loop, &native->look, LOOK_MS, native_on_look);
}

/* -- telling ----------------------------------------------------------------------------------- */

bool native_wants(const struct native *native, enum native_hook hook)
{
    return native != NULL && (native->wanted & 1u << hook) != 0;
}

void native_tell_values(struct native *native, enum native_hook hook,
                        const struct audit_value *values, size_t count)
{
    if (!native_wants(native, hook))
        return;
    for (const struct entry *at = native->first; at != NULL; at = at->next)
        if ((at->plugin->wanted & 1u << hook) != 0)
            native_plugin_tell(at->plugin, native_event_new(hook, values, count));
    look_later(native);
}

void native_tell_object(struct native *native, enum native_hook hook, struct kg_str object)
{
    const char *const *fields = native_hook_rows[hook].fields;
    struct audit_value values[NATIVE_FIELDS_MAX];
    size_t count = 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        native_wants(native, hook) ? kg_json_read(object, NULL) : NULL;
    if (doc == NULL)
        return;
    for (; fields[count] != NULL; count++) {
        const struct kg_node *node = kg_node_get(doc->root, fields[count]);
        struct kg_str span;
        if (node == NULL || node->type == KG_NULL)
            values[count] = AUDIT_V_NULL;
        else if (node->type == KG_STRING)
            values[count] = AUDIT_V_STR(node->text);
        else
            values[count] =
                kg_json_member(object, fields[count], &span) ? AUDIT_V_RAW(span) : AUDIT_V_NULL;
    }
    native_tell_values(native, hook, values, count);
}

/* -- opening ----------------------------------------------------------------------------------- */

static int unknown_hook(struct kg_str name, struct kg_err *err)
{
    const char *names[NATIVE_HOOKS];
    for (int hook = 0; hook < NATIVE_HOOKS; hook++)
        names[hook] = native_hook_rows[hook].name;
    kg_fail(err, KG_E_INVALID_CONFIG, "hooks names %.*s, which is not a hook",
            KG_STR_CUT(name, KG_CUT_NAME));
    const char *nearest = kg_str_nearest(name, names, NATIVE_HOOKS);
    if (nearest != NULL)
        return kg_hint(err, "did you mean %s?", nearest);
    return kg_hint(err, "kaged-system-plugin(3) has all of them");
}

static int native_take_hooks(const struct kg_node *list, uint32_t *ret_hooks, struct kg_err *err)
{
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        int hook = 0;
        while (hook < NATIVE_HOOKS && !kg_str_is(list->items[i].text, native_hook_rows[hook].name))
            hook++;
        if (hook == NATIVE_HOOKS)
            return unknown_hook(list->items[i].text, err);
        *ret_hooks |= 1u << hook;
    }
    return 0;
}

/* All that can be said of it before a byte of it is run. */
static int native_check(struct native_plugin *plugin, const struct local_system_plugin *table,
                        struct kg_err *err)
{
    if (table->problem != NULL) {
        *err = *table->problem;
        return -EINVAL;
    }
    if (native_take_hooks(table->hooks, &plugin->allowed, err) < 0)
        return -EINVAL;
    return native_check_file(table, geteuid(), plugin->hash, err);
}

static void note_left(struct native_plugin *plugin)
{
    if (plugin->left[0] == '\0')
        return;
    kg_log(KG_ERROR_LEVEL,
           "the daemon ended while system plugin %s was in: %s; if it crashed, that is where",
           plugin->name, plugin->left);
    audit_emit(plugin->native->audit, AUDIT_SYSTEM_PLUGIN_LEFT, KG_STR_NULL,
               AUDIT_V_TEXT(plugin->name), AUDIT_V_TEXT(plugin->left));
}

static void open_one(struct native *native, const struct native_parts *parts, const char *folder,
                     const struct local_system_plugin *table)
{
    struct kg_err err = {0};
    struct native_plugin *plugin = native_plugin_new(native, native->place.loop, table);
    plugin->local_file = kg_strdup(parts->local_file);
    struct entry *entry = kg_alloc(sizeof(*entry));
    struct entry **last = &native->first;
    while (*last != NULL)
        last = &(*last)->next;
    entry->plugin = plugin;
    *last = entry;
    doing_open(&plugin->doing, folder, plugin->name, plugin->left);
    note_left(plugin);
    if (native_check(plugin, table, &err) < 0) {
        native_plugin_fail(plugin, &err);
        native_tell_failed(plugin);
        return;
    }
    plugin->wanted = plugin->allowed;
    native_plugin_begin(plugin);
}

/* Until it runs, or cannot. */
static int native_wait_for(struct native_plugin *plugin, struct kg_err *err)
{
    uint64_t until_ms = kg_monotonic_ms() + START_WAIT_MS, now_ms;
    uv_mutex_lock(&plugin->lock);
    while (plugin->state == NATIVE_STARTING && (now_ms = kg_monotonic_ms()) < until_ms)
        uv_cond_timedwait(&plugin->changed, &plugin->lock, (until_ms - now_ms) * 1000000);
    enum native_state state = plugin->state;
    if (state == NATIVE_FAILED)
        *err = plugin->problem;
    uv_mutex_unlock(&plugin->lock);
    if (state == NATIVE_STARTING)
        kg_fail(err, KG_E_REFUSED, "it did not start within %d s", START_WAIT_MS / 1000);
    if (state == NATIVE_RUNNING)
        return 0;
    return kg_wrap(err, -EINVAL, "system plugin %s, which is required", plugin->name);
}

static int wait_for_required(struct native *native, struct kg_err *err)
{
    for (const struct entry *at = native->first; at != NULL; at = at->next)
        if (at->plugin->required && native_wait_for(at->plugin, err) < 0)
            return -EINVAL;
    return 0;
}

static void on_stopped_task(struct loop_task *task)
{
    struct native *native = KG_CONTAINER(task, struct native, stopped);
    native->on_stopped(native->stopped_data);
}

static uint64_t hash_tables(const struct local *local)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    const struct kg_node *tables = kg_node_get(local->doc->root, "system_plugins");
    if (tables != NULL)
        kg_json_put_node(&text, tables);
    return kg_hash(kg_buf_view(&text));
}

void native_see_reload(struct native *native, const struct local *local)
{
    uint64_t tables = hash_tables(local);
    if (tables != native->tables)
        kg_log(KG_INFO, "[system_plugins] of local.toml was changed: that applies when the daemon "
                        "starts");
    native->tables = tables;
}

struct native *native_open(const struct native_parts *parts, struct kg_err *err)
{
    struct native *native = kg_alloc(sizeof(*native));
    kg_auto(kg_free) char *folder = kg_path_join(parts->state_dir, FOLDER);
    native->place = parts->place;
    /* A plugin that says that the audit log fails could not, if this had to be in the log first. */
    native->place.tells_later = true;
    native->audit = parts->audit;
    native->tables = hash_tables(parts->local);
    native->stopped.run = on_stopped_task;
    native->fetch_place = (struct helper_pool_place){
        .where = native->place,
        .facts = parts->facts,
        .calls_max = REQUESTS_MAX,
        .idle_ms = IDLE_MS,
        .on_network = native_on_network,
        .data = native,
    };
    native->fetch = fetch_pool_new(&native->fetch_place);
    if (parts->local->system_plugin_count > 0 && kg_make_dirs(folder, 0700, err) < 0) {
        native_free(native);
        return NULL;
    }
    for (size_t i = 0; i < parts->local->system_plugin_count; i++)
        open_one(native, parts, folder, &parts->local->system_plugins[i]);
    gather_wanted(native);
    look_later(native);
    if (wait_for_required(native, err) == 0)
        return native;
    native_free(native);
    return NULL;
}

/* -- stopping ---------------------------------------------------------------------------------- */

static bool all_ended(const struct native *native)
{
    for (const struct entry *at = native->first; at != NULL; at = at->next) {
        uv_mutex_lock(&at->plugin->lock);
        bool ended = at->plugin->ended;
        uv_mutex_unlock(&at->plugin->lock);
        if (!ended)
            return false;
    }
    return true;
}

static void finish_stop(struct native *native)
{
    loop_timer_stop(native->place.loop, &native->stop_timer);
    loop_defer(native->place.loop, &native->stopped);
}

static void on_leave(struct loop_timer *timer)
{
    finish_stop(KG_CONTAINER(timer, struct native, stop_timer));
}

static void native_check_stopped(struct native *native)
{
    if (native->stopping && native->fetch_closed && all_ended(native))
        finish_stop(native);
}

static void on_fetch_closed(void *data)
{
    struct native *native = data;
    native->fetch_closed = true;
    native_check_stopped(native);
}

/* Requests on their way end, and with them what a hook may still wait for. */
static void close_fetch(struct native *native)
{
    loop_timer_start(native->place.loop, &native->stop_timer, LEAVE_WAIT_MS, on_leave);
    helper_pool_close(native->fetch, on_fetch_closed, native);
}

static void on_stop_due(struct loop_timer *timer)
{
    close_fetch(KG_CONTAINER(timer, struct native, stop_timer));
}

void native_on_ended(struct native_plugin *plugin)
{
    struct native *native = plugin->native;
    if (native->stopping && !native->fetch_closed && all_ended(native))
        close_fetch(native);
    else
        native_check_stopped(native);
}

void native_stop(struct native *native, void (*on_stopped)(void *data), void *data)
{
    native->stopping = true;
    native->on_stopped = on_stopped;
    native->stopped_data = data;
    for (const struct entry *at = native->first; at != NULL; at = at->next)
        native_plugin_end(at->plugin);
    if (all_ended(native))
        close_fetch(native);
    else
        loop_timer_start(native->place.loop, &native->stop_timer, STOP_WAIT_MS, on_stop_due);
}

void native_free(struct native *native)
{
    if (native == NULL)
        return;
    for (struct entry *at = native->first; at != NULL; at = at->next)
        native_plugin_close(at->plugin);
    loop_deliver_messages(native->place.loop);
    helper_pool_free(native->fetch);
    loop_timer_stop(native->place.loop, &native->look);
    loop_timer_stop(native->place.loop, &native->stop_timer);
    loop_undefer(native->place.loop, &native->stopped);
    while (native->first != NULL) {
        struct entry *entry = native->first;
        native->first = entry->next;
        entry->plugin->native = NULL;
        free(entry);
    }
    free(native);
}

/* -- showing ----------------------------------------------------------------------------------- */

static void native_put_figures(struct kg_json_writer *json, const struct native_plugin *plugin)
{
    bool is_busy = plugin->now[0] != '\0';
    kg_json_named_int(json, "calls", (int64_t)plugin->calls);
    kg_json_named_int(json, "waiting", (int64_t)plugin->event_count);
    kg_json_named_int(json, "dropped", (int64_t)plugin->dropped);
    kg_json_named_int(json, "slow", (int64_t)plugin->slow);
    kg_json_named_text(json, "slowest", plugin->slow > 0 ? plugin->slowest : NULL);
    kg_json_named_int(json, "slowest_ms", (int64_t)plugin->slowest_ms);
    kg_json_named_text(json, "busy", is_busy ? plugin->now : NULL);
    kg_json_named_int(json, "busy_ms",
                      is_busy ? (int64_t)(kg_monotonic_ms() - plugin->now_since_ms) : 0);
}

static void native_put_plugin(struct kg_json_writer *json, struct native_plugin *plugin)
{
    uv_mutex_lock(&plugin->lock);
    bool is_failed = plugin->state == NATIVE_FAILED;
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", plugin->name);
    kg_json_named_text(json, "state", state_names[plugin->state]);
    kg_json_named_text(json, "version", plugin->version[0] != '\0' ? plugin->version : NULL);
    kg_json_named_text(json, "path", plugin->path);
    kg_json_named_text(json, "hash", plugin->hash[0] != '\0' ? plugin->hash : NULL);
    kg_json_named_bool(json, "required", plugin->required);
    native_put_hooks(json, "allowed", plugin->allowed);
    native_put_hooks(json, "hooks", plugin->hooks);
    kg_json_named_text(json, "problem", is_failed ? plugin->problem.message : NULL);
    kg_json_named_text(json, "hint",
                       is_failed && plugin->problem.hint[0] != '\0' ? plugin->problem.hint : NULL);
    kg_json_named_text(json, "left_in", plugin->left[0] != '\0' ? plugin->left : NULL);
    native_put_figures(json, plugin);
    kg_json_end(json, '}');
    uv_mutex_unlock(&plugin->lock);
}

void native_put_all(struct native *native, struct kg_json_writer *json)
{
    kg_json_begin(json, '[');
    for (const struct entry *at = native ? native->first : NULL; at != NULL; at = at->next)
        native_put_plugin(json, at->plugin);
    kg_json_end(json, ']');
}

bool native_put_one(struct native *native, struct kg_str name, struct kg_json_writer *json)
{
    for (const struct entry *at = native ? native->first : NULL; at != NULL; at = at->next) {
        if (!kg_str_is(name, at->plugin->name))
            continue;
        native_put_plugin(json, at->plugin);
        return true;
    }
    return false;
}
