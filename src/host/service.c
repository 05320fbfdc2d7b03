/*
 * What plugins may ask of the host: one table. A request is checked against the capabilities of its
 * plugin here, and answered by whoever does the work; the answer goes to the process that asked.
 */
#include "host/internal.h"

#include <stdlib.h>

#define SQL_KEPT_BYTES 4096

struct service {
    const char *method;
    enum capability_kind needs;
    const char *asks; /* of kaged-storage */
};

static const struct service services[] = {
    {"kaged.storage.exec", CAPABILITY_STORAGE_WRITE, "exec"},
    {"kaged.storage.query", CAPABILITY_STORAGE_READ, "query"},
    {"kaged.storage.schema", CAPABILITY_STORAGE_READ, "schema"},
    {"kaged.storage.batch", CAPABILITY_STORAGE_WRITE, "batch"},
};

/* A request of a plugin that is being answered. */
struct served {
    struct host *host;
    struct host_plugin *plugin;
    uint32_t start; /* which process asked */
    int64_t id;
    struct kg_buf sql; /* as it came, in case it is denied */
};

static const struct service *find_service(struct kg_str method)
{
    for (size_t i = 0; i < KG_COUNT(services); i++)
        if (kg_str_is(method, services[i].method))
            return &services[i];
    return NULL;
}

static bool has_capability(const struct host_plugin *plugin, enum capability_kind kind)
{
    const struct capability wanted = {.kind = kind, .path = "", .program = "", .host = ""};
    return capability_set_covers(&plugin->manifest->capability_set, &wanted);
}

bool host_has_storage(const struct host *host, const struct host_plugin *plugin)
{
    return host->facts != NULL && has_capability(plugin, CAPABILITY_STORAGE_READ);
}

bool host_plugin_stores(const struct host_plugin *plugin)
{
    return plugin->manifest != NULL && host_has_storage(plugin->host, plugin);
}

/* -- the plugin's storage ---------------------------------------------------------------------- */

static void on_damaged(void *data, const char *moved_to)
{
    struct host_plugin *plugin = data;
    audit_emit(plugin->host->audit, AUDIT_PLUGIN_STORAGE_DAMAGED, KG_STR_NULL,
               AUDIT_V_TEXT(plugin->name), AUDIT_V_TEXT(moved_to));
}

static void on_closed(void *data)
{
    struct host_plugin *plugin = data;
    if (plugin->change != NULL)
        host_change_look(plugin->change);
    if (plugin->leaving)
        host_look_for_left(plugin->host);
    if (plugin->host->stopping)
        loop_defer(plugin->host->loop, &plugin->host->stop_check);
}

struct storage *host_plugin_storage(struct host_plugin *plugin)
{
    static const struct storage_ops ops = {on_damaged, on_closed};
    if (plugin->storage == NULL)
        plugin->storage = storage_new(&plugin->host->storage, plugin->name, &ops, plugin);
    return plugin->storage;
}

int host_storage_export(struct host *host, struct host_plugin *plugin, storage_done_fn *on_done,
                        void *data, char **ret_path, struct kg_err *err)
{
    struct kg_id id = kg_id_new("");
    kg_auto(kg_free) char *path =
        kg_format("%s/%s.export-%s.db", host->storage_dir, plugin->name, id.text);
    int result =
        storage_export(host_plugin_storage(plugin), path, host->reader, on_done, data, err);
    if (result == 0)
        *ret_path = kg_steal(&path);
    return result;
}

int host_storage_reset(struct host *host, struct host_plugin *plugin, const char *operator_id,
                       struct kg_err *err)
{
    int result = storage_reset(host_plugin_storage(plugin), err);
    if (result == 0)
        audit_emit(host->audit, AUDIT_PLUGIN_STORAGE_RESET, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
                   AUDIT_V_TEXT(operator_id));
    return result;
}

/* -- requests ---------------------------------------------------------------------------------- */

/* The span of the statement, or of the statements of a batch, as far as it is worth keeping. */
static void keep_sql(struct kg_str params, struct kg_buf *out)
{
    struct kg_str sql;
    bool found = kg_json_member(params, "sql", &sql) || kg_json_member(params, "statements", &sql);
    if (found && sql.length <= SQL_KEPT_BYTES)
        kg_buf_str(out, sql);
}

static void audit_denied(struct host *host, const struct host_plugin *plugin, struct kg_str sql)
{
    kg_auto(kg_buf_free) struct kg_buf redacted = {0};
    uint32_t suppressed;
    if (!instance_may_complain(plugin->instance, &suppressed))
        return;
    storage_redact(sql, &redacted);
    audit_emit(host->audit, AUDIT_PLUGIN_STORAGE_DENIED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_STR(kg_buf_view(&redacted)), AUDIT_V_INT(suppressed));
}

static void answer_failure(struct host_plugin *plugin, uint32_t start, int64_t id,
                           const struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf error = {0};
    struct kg_json_writer json = kg_json_writer(&error);
    kg_json_begin(&json, '{');
    kg_json_key(&json, "code");
    kg_json_int(&json, kg_error_row(err->code)->rpc_code);
    kg_json_key(&json, "message");
    kg_json_text(&json, err->message);
    kg_json_end(&json, '}');
    instance_answer(plugin->instance, start, id, PEER_ANSWER_ERROR, kg_buf_view(&error));
}

static void on_storage_done(void *data, enum storage_outcome outcome, struct kg_str payload)
{
    struct served *served = data;
    struct host_plugin *plugin = served->plugin;
    bool denied = outcome == STORAGE_ERROR &&
                  rpc_error_code(payload) == kg_error_row(KG_E_STORAGE_DENIED)->rpc_code;
    if (denied)
        audit_denied(served->host, plugin, kg_buf_view(&served->sql));
    instance_answer(plugin->instance, served->start, served->id,
                    outcome == STORAGE_RESULT ? PEER_ANSWER_RESULT : PEER_ANSWER_ERROR, payload);
    kg_buf_free(&served->sql);
    free(served);
}

static int refuse(struct host *host, const struct host_plugin *plugin,
                  const struct service *service, struct kg_str params, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf sql = {0};
    const char *needed = service->needs == CAPABILITY_STORAGE_WRITE ? "write" : "read";
    keep_sql(params, &sql);
    audit_denied(host, plugin, kg_buf_view(&sql));
    return kg_fail(err, KG_E_STORAGE_DENIED, "%s needs the capability kaged:storage:%s",
                   service->method, needed);
}

static int serve(struct host *host, struct host_plugin *plugin, const struct service *service,
                 int64_t id, struct kg_str params, struct kg_err *err)
{
    if (!has_capability(plugin, service->needs))
        return refuse(host, plugin, service, params, err);
    struct served *served = kg_alloc(sizeof(*served));
    *served = (struct served){
        .host = host,
        .plugin = plugin,
        .start = instance_start_count(plugin->instance),
        .id = id,
    };
    keep_sql(params, &served->sql);
    const struct storage_request request = {
        .method = service->asks,
        .params = params.length > 0 ? params : KG_STR("{}"),
        .on_done = on_storage_done,
        .data = served,
    };
    int result = storage_ask(host_plugin_storage(plugin), &request, err);
    if (result < 0) {
        kg_buf_free(&served->sql);
        free(served);
    }
    return result;
}

bool host_serve(struct host *host, struct host_plugin *plugin, int64_t id, struct kg_str method,
                struct kg_str params)
{
    struct kg_err err = {0};
    const struct service *service = find_service(method);
    if (service == NULL)
        return false;
    if (serve(host, plugin, service, id, params, &err) < 0)
        answer_failure(plugin, instance_start_count(plugin->instance), id, &err);
    return true;
}
