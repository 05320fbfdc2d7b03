/*
 * What scripts ask of the daemon. One row is one request: its method, the powers that it takes, and
 * who serves it. The powers are looked at here, each time, by the process that asks; a row of those
 * who lie above is checked like our own. What is kept of a request is its way back: whoever serves
 * it answers once, then or later, and its process may be gone by then.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

struct host_script_request {
    struct host_process *process; /* one reference */
    uint32_t start;               /* which process asked, */
    int64_t id;                   /* and by which request */
};

/* -- answers ----------------------------------------------------------------------------------- */

static void script_service_answer(struct host_script_request *request, enum peer_answer kind,
                                  struct kg_str json)
{
    if (request->process->instance != NULL)
        instance_answer(request->process->instance, request->start, request->id, kind, json);
    host_process_drop(request->process);
    free(request);
}

void host_script_reply(struct host_script_request *request, struct kg_str json)
{
    script_service_answer(request, PEER_ANSWER_RESULT, json);
}

void host_script_fail(struct host_script_request *request, const struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf error = {0};
    rpc_put_error(&error, err->code, err->message);
    script_service_answer(request, PEER_ANSWER_ERROR, kg_buf_view(&error));
}

struct host_process *host_script_asker(const struct host_script_request *request)
{
    return request->process;
}

const struct host_whom *host_script_whom(const struct host_script_request *request)
{
    return &request->process->whom;
}

/* -- powers ------------------------------------------------------------------------------------ */

static void script_service_note_denied(const struct host_process *process, const char *method,
                                       const char *lacks)
{
    uint32_t suppressed;
    if (!instance_may_complain(process->instance, &suppressed))
        return;
    audit_emit(process->plugin->host->audit, AUDIT_SCRIPT_DENIED, KG_STR_NULL,
               AUDIT_V_TEXT(process->name), AUDIT_V_TEXT(method), AUDIT_V_TEXT(lacks),
               AUDIT_V_INT(suppressed));
}

/* What would allow it is a line of config.toml; or a yes to the file, if the line is there. */
static int script_service_refuse(const struct host_process *process, const char *what,
                                 const char *lacks, struct kg_err *err)
{
    const struct host_plugin *plugin = process->plugin;
    script_service_note_denied(process, what, lacks);
    if (plugin->script->notice.code != KG_OK)
        return kg_fail(err, KG_E_CAPABILITY_DENIED,
                       "%s needs %s, and the file of this script changed: kaged plugin approve %s",
                       what, lacks, plugin->name);
    return kg_fail(err, KG_E_CAPABILITY_DENIED,
                   "%s needs [plugins.capabilities] %s = [\"%s\"] in config.toml", what,
                   plugin->name, lacks);
}

int host_script_check(const struct host_script_request *request, enum config_power power,
                      struct kg_str what, const char *call, struct kg_err *err)
{
    if (config_grants_cover(host_script_grants(request->process), power, what))
        return 0;
    kg_auto(kg_free) char *lacks =
        kg_format("%s:%.*s", config_power_names[power], KG_STR_CUT(what, KG_CUT_NAME));
    return script_service_refuse(request->process, call, lacks, err);
}

static int check_powers(const struct host_process *process,
                        const struct host_script_service *service, struct kg_err *err)
{
    char *const *grants = host_script_grants(process);
    for (enum config_power power = 0; power < POWER_COUNT; power++)
        if ((service->powers & SCRIPT_POWER(power)) != 0 && !config_grants_have(grants, power))
            return script_service_refuse(process, service->call, config_power_names[power], err);
    return 0;
}

/* -- our own ----------------------------------------------------------------------------------- */

/* A variable of the daemon's, by a grant that names it. */
static void serve_env(struct host_script_request *request, const struct kg_node *params, void *data)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_str name = kg_node_text(params, "name");
    (void)data;
    if (host_script_check(request, POWER_ENV, name, "kage.env", &err) < 0) {
        host_script_fail(request, &err);
        return;
    }
    kg_auto(kg_free) char *variable = kg_str_dup(name);
    const char *value = getenv(variable);
    struct kg_json_writer json = kg_json_writer(&result);
    kg_json_begin(&json, '{');
    if (value != NULL && kg_utf8_valid(kg_str(value)) == strlen(value))
        kg_json_named_text(&json, "value", value);
    kg_json_end(&json, '}');
    host_script_reply(request, kg_buf_view(&result));
}

static const struct host_script_service services[] = {
    {"script.env", "kage.env", SCRIPT_POWER(POWER_ENV), serve_env},
    {"script.exec", "kage.exec", SCRIPT_POWER(POWER_EXEC), host_script_serve_exec},
    {"script.fs.read", "kage.fs.read", 0, host_script_serve_read},
    {"script.fs.write", "kage.fs.write", SCRIPT_POWER(POWER_FS_WRITE), host_script_serve_write},
    {"script.http", "kage.http", SCRIPT_POWER(POWER_NET), host_script_serve_http},
};

/* -- requests ---------------------------------------------------------------------------------- */

void host_set_script_services(struct host *host, const struct host_script_service *services_or_null,
                              size_t count, void *data)
{
    host->script_services = services_or_null;
    host->script_service_count = count;
    host->script_service_data = data;
}

static const struct host_script_service *script_service_find(const struct host_script_service *rows,
                                                             size_t count, struct kg_str method)
{
    for (size_t i = 0; i < count; i++)
        if (kg_str_is(method, rows[i].method))
            return &rows[i];
    return NULL;
}

static void script_service_serve(struct host_process *process, int64_t id,
                                 const struct host_script_service *service, struct kg_str params,
                                 void *data)
{
    struct kg_err err = {0};
    struct host_script_request *request = kg_alloc(sizeof(*request));
    *request = (struct host_script_request){host_process_keep(process),
                                            instance_start_count(process->instance), id};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(params.length > 0 ? params : KG_STR("{}"), &err);
    if (doc == NULL || check_powers(process, service, &err) < 0)
        host_script_fail(request, &err);
    else
        service->serve(request, doc->root, data);
}

bool host_script_serve(struct host_process *process, int64_t id, struct kg_str method,
                       struct kg_str params)
{
    const struct host *host = process->plugin->host;
    const struct host_script_service *service =
        script_service_find(services, KG_COUNT(services), method);
    void *data = process->plugin->host;
    if (service == NULL) {
        service = script_service_find(host->script_services, host->script_service_count, method);
        data = host->script_service_data;
    }
    if (service == NULL)
        return false;
    script_service_serve(process, id, service, params, data);
    return true;
}
