/*
 * What plugins may ask of the host: one table. A request is checked against the capabilities of its
 * plugin here, and answered by whoever does the work; the answer goes to the process that asked.
 */
#include "host/internal.h"

#include <stdlib.h>

#define SQL_KEPT_BYTES 4096

static const struct host_service services[] = {
    {"kaged.storage.exec", CAPABILITY_STORAGE_WRITE, "exec"},
    {"kaged.storage.query", CAPABILITY_STORAGE_READ, "query"},
    {"kaged.storage.schema", CAPABILITY_STORAGE_READ, "schema"},
    {"kaged.storage.batch", CAPABILITY_STORAGE_WRITE, "batch"},
    {"kaged.ask", CAPABILITY_ASK, NULL, HOST_ASK_FORM},
    {"kaged.sample", CAPABILITY_SAMPLE, NULL, HOST_ASK_SAMPLE},
    {"kaged.roots", CAPABILITY_ASK, NULL, HOST_ASK_ROOTS},
};

/* A request of a plugin that is being answered. */
struct served {
    struct host_process *process;
    uint32_t start; /* which process asked */
    int64_t id;
    struct kg_buf sql; /* as it came, in case it is denied */
};

const struct host_service *host_service_find(struct kg_str method)
{
    for (size_t i = 0; i < KG_COUNT(services); i++)
        if (kg_str_is(method, services[i].method))
            return &services[i];
    return NULL;
}

static bool service_has_capability(const struct capability_set *set, enum capability_kind kind)
{
    const struct capability wanted = {.kind = kind, .path = "", .program = "", .host = ""};
    return capability_set_covers(set, &wanted);
}

int host_service_check(const struct host_service *service, const struct capability_set *set,
                       struct kg_err *err)
{
    const struct capability needed = {.kind = service->needs};
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    if (service_has_capability(set, service->needs))
        return 0;
    capability_print(&needed, &line);
    return kg_fail(err, service->asks != NULL ? KG_E_STORAGE_DENIED : KG_E_CAPABILITY_DENIED,
                   "%s needs the capability %s", service->method, kg_buf_terminate(&line));
}

bool host_process_may_ask(const struct host_process *process)
{
    const struct capability_set *set = &process->grants.set;
    for (size_t i = 0; i < set->count; i++)
        if (set->items[i].kind == CAPABILITY_ASK || set->items[i].kind == CAPABILITY_SAMPLE)
            return true;
    return false;
}

bool host_stores(const struct host_process *process)
{
    return process->plugin->host->facts != NULL &&
           service_has_capability(&process->grants.set, CAPABILITY_STORAGE_READ);
}

/* -- the plugin's storage ---------------------------------------------------------------------- */

static void service_on_damaged(void *data, const char *moved_to)
{
    struct host_process *process = data;
    audit_emit(process->plugin->host->audit, AUDIT_PLUGIN_STORAGE_DAMAGED, KG_STR_NULL,
               AUDIT_V_TEXT(process->name), AUDIT_V_TEXT(moved_to));
}

static void service_on_closed(void *data)
{
    host_process_moved(data);
}

struct host_process *host_storage_owner(struct host_process *process)
{
    struct host_process *nobodys = host_process_find(process->plugin, &host_nobody);
    return process->tier->has_one_storage && nobodys != NULL ? nobodys : process;
}

struct storage *host_storage(struct host_process *process)
{
    static const struct storage_ops ops = {service_on_damaged, service_on_closed};
    process = host_storage_owner(process);
    if (process->storage == NULL)
        process->storage =
            storage_new(&process->plugin->host->storage, process->name, &ops, process);
    return process->storage;
}

int host_storage_export(struct host_process *process, storage_done_fn *on_done, void *data,
                        char **ret_path, struct kg_err *err)
{
    struct host *host = process->plugin->host;
    struct kg_id id = kg_id_new("");
    kg_auto(kg_free) char *path =
        kg_format("%s/%s.export-%s.db", host->storage_dir, process->name, id.text);
    int result = storage_export(host_storage(process), path, host->reader, on_done, data, err);
    if (result == 0)
        *ret_path = kg_steal(&path);
    return result;
}

int host_storage_reset(struct host_process *process, const char *operator_id, struct kg_err *err)
{
    int result = storage_reset(host_storage(process), err);
    if (result == 0)
        audit_emit(process->plugin->host->audit, AUDIT_PLUGIN_STORAGE_RESET, KG_STR_NULL,
                   AUDIT_V_TEXT(process->name), AUDIT_V_TEXT(operator_id));
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

static void audit_denied(const struct host_process *process, struct kg_str sql)
{
    kg_auto(kg_buf_free) struct kg_buf redacted = {0};
    uint32_t suppressed;
    if (!instance_may_complain(process->instance, &suppressed))
        return;
    storage_redact(sql, &redacted);
    audit_emit(process->plugin->host->audit, AUDIT_PLUGIN_STORAGE_DENIED, KG_STR_NULL,
               AUDIT_V_TEXT(process->name), AUDIT_V_STR(kg_buf_view(&redacted)),
               AUDIT_V_INT(suppressed));
}

static void service_answer_failure(struct host_process *process, uint32_t start, int64_t id,
                                   const struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf error = {0};
    rpc_put_error(&error, err->code, err->message);
    instance_answer(process->instance, start, id, PEER_ANSWER_ERROR, kg_buf_view(&error));
}

static void on_storage_done(void *data, enum storage_outcome outcome, struct kg_str payload)
{
    struct served *served = data;
    struct host_process *process = served->process;
    bool denied = outcome == STORAGE_ERROR &&
                  rpc_error_code(payload) == kg_error_row(KG_E_STORAGE_DENIED)->rpc_code;
    if (denied)
        audit_denied(process, kg_buf_view(&served->sql));
    instance_answer(process->instance, served->start, served->id,
                    outcome == STORAGE_RESULT ? PEER_ANSWER_RESULT : PEER_ANSWER_ERROR, payload);
    kg_buf_free(&served->sql);
    free(served);
}

static int service_serve(struct host_process *process, const struct host_service *service,
                         int64_t id, struct kg_str params, struct kg_err *err)
{
    int result = host_service_check(service, &process->grants.set, err);
    if (result < 0) {
        kg_auto(kg_buf_free) struct kg_buf sql = {0};
        keep_sql(params, &sql);
        audit_denied(process, kg_buf_view(&sql));
        return result;
    }
    struct served *served = kg_alloc(sizeof(*served));
    *served = (struct served){
        .process = process,
        .start = instance_start_count(process->instance),
        .id = id,
    };
    keep_sql(params, &served->sql);
    const struct storage_request request = {
        .method = service->asks,
        .params = params.length > 0 ? params : KG_STR("{}"),
        .whose = process,
        .on_done = on_storage_done,
        .data = served,
    };
    result = storage_ask(host_storage(process), &request, err);
    if (result < 0) {
        kg_buf_free(&served->sql);
        free(served);
    }
    return result;
}

static int serve_ask(struct host_process *process, const struct host_service *service, int64_t id,
                     struct kg_str params, struct kg_err *err)
{
    int result = host_service_check(service, &process->grants.set, err);
    return result < 0 ? result
                      : host_ask_serve(process, service, id,
                                       params.length > 0 ? params : KG_STR("{}"), err);
}

bool host_may_request(void *data, struct kg_str method)
{
    const struct host_process *process = data;
    const struct host_service *service = host_service_find(method);
    return service != NULL && service_has_capability(&process->grants.set, service->needs);
}

bool host_serve(void *data, int64_t id, struct kg_str method, struct kg_str params)
{
    struct host_process *process = data;
    struct kg_err err = {0};
    const struct host_service *service = host_service_find(method);
    if (service == NULL)
        return process->tier->serve != NULL && process->tier->serve(process, id, method, params);
    int result = service->asks != NULL ? service_serve(process, service, id, params, &err)
                                       : serve_ask(process, service, id, params, &err);
    if (result < 0)
        service_answer_failure(process, instance_start_count(process->instance), id, &err);
    return true;
}
