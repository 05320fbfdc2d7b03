/*
 * MCP servers in the files of other clients on this machine: which there are, and one of them, to
 * be looked at and installed. A key in such a file never leaves the daemon: it becomes a secret,
 * whose name is all that is told.
 */
#include "http/internal.h"

#include "host/process.h"
#include "import/import.h"

#include <stdlib.h>

struct finding {
    struct loop_job job;
    struct http_request *request;
    struct import_list list;
    const struct import_server *server; /* that is wanted */
    size_t key;                         /* of its keys, the next to be kept */
};

static void finding_free(struct finding *finding)
{
    for (size_t i = 0; i < finding->list.count; i++)
        for (size_t k = 0; k < finding->list.items[i].key_count; k++)
            if (finding->list.items[i].keys[k].value != NULL)
                explicit_bzero(finding->list.items[i].keys[k].value,
                               strlen(finding->list.items[i].keys[k].value));
    import_list_free(&finding->list);
    free(finding);
}

static void found_run_find(struct loop_job *job)
{
    struct finding *finding = KG_CONTAINER(job, struct finding, job);
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/')
        import_find(home, home, &finding->list);
}

static void found_find(struct http_request *request, void (*done)(struct loop_job *job))
{
    struct finding *finding = kg_alloc(sizeof(*finding));
    finding->request = request;
    finding->job = (struct loop_job){.run = found_run_find, .done = done};
    host_store_job(http_host(request), &finding->job);
}

/* -- all of them ------------------------------------------------------------------------------- */

static void found_put_server(struct kg_json_writer *json, struct host *host,
                             const struct import_server *server)
{
    struct host_named named;
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", server->name);
    kg_json_named_text(json, "plugin", server->plugin);
    kg_json_named_text(json, "client", server->client);
    kg_json_named_list(json, "files", server->files);
    kg_json_named_text(json, "kind", import_kind_names[server->kind]);
    kg_json_named_text(json, "source", server->source);
    kg_json_named_text(json, "why", server->why);
    kg_json_named_text(json, "instead", server->instead);
    kg_json_named_bool(json, "disabled", server->disabled);
    kg_json_named_bool(json, "installed",
                       host_find(host, kg_str(server->plugin), &named, NULL) == 0);
    kg_json_named_begin(json, "secrets", '[');
    for (size_t i = 0; i < server->key_count; i++) {
        kg_auto(kg_free) char *secret = import_secret_name(server, &server->keys[i]);
        kg_json_begin(json, '{');
        kg_json_named_text(json, "name", secret);
        kg_json_named_bool(json, "has_value", server->keys[i].value != NULL);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
    kg_json_named_list(json, "dangers", server->dangers);
    kg_json_end(json, '}');
}

static void found_put_list(struct kg_json_writer *json, const char *name, char *const *list_or_null)
{
    kg_json_named_begin(json, name, '[');
    for (; list_or_null != NULL && *list_or_null != NULL; list_or_null++)
        kg_json_text(json, *list_or_null);
    kg_json_end(json, ']');
}

static void found_on_found(struct loop_job *job)
{
    struct finding *finding = KG_CONTAINER(job, struct finding, job);
    struct host *host = http_host(finding->request);
    const struct import_list *list = &finding->list;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    found_put_list(&json, "files", list->files);
    found_put_list(&json, "problems", list->problems);
    kg_json_named_begin(&json, "servers", '[');
    for (size_t i = 0; i < list->count; i++)
        found_put_server(&json, host, &list->items[i]);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    http_reply(finding->request, 200, kg_buf_view(&body));
    finding_free(finding);
    host_store_job_done(host);
}

void http_handle_mcp_found(struct http_request *request)
{
    found_find(request, found_on_found);
}

/* -- one of them ------------------------------------------------------------------------------- */

static void found_offer(struct finding *finding)
{
    const struct import_server *server = finding->server;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(store_own_free) struct store_own own = {kg_list_new(0), import_env(server)};
    import_server_json(server, &text);
    http_raise_consent(finding->request,
                       &(struct consent_wish){.kind = CONSENT_INSTALL,
                                              .source = server->source,
                                              .own = store_own_is_empty(&own) ? NULL : &own,
                                              .server = kg_buf_terminate(&text)});
    finding_free(finding);
}

/* Its keys one after the other, and then the rest. */
static void found_on_kept(void *data, const struct kg_err *err_or_null)
{
    struct finding *finding = data;
    const struct import_server *server = finding->server;
    if (err_or_null != NULL) {
        http_reply_error(finding->request, err_or_null);
        finding_free(finding);
        return;
    }
    while (finding->key < server->key_count && server->keys[finding->key].value == NULL)
        finding->key++;
    if (finding->key >= server->key_count) {
        found_offer(finding);
        return;
    }
    const struct import_key *key = &server->keys[finding->key++];
    kg_auto(kg_free) char *secret = import_secret_name(server, key);
    host_secret_set(http_host(finding->request), kg_str(secret), kg_str(key->value),
                    http_operator(finding->request), found_on_kept, finding);
}

static const struct import_server *wanted_of(const struct finding *finding, struct kg_err *err)
{
    struct kg_str name = http_path_parameter(finding->request, "plugin");
    for (size_t i = 0; i < finding->list.count; i++) {
        const struct import_server *server = &finding->list.items[i];
        if (!kg_str_is(name, server->plugin))
            continue;
        if (server->source != NULL)
            return server;
        kg_fail(err, KG_E_REFUSED, "server %s: %" KG_S_PATH, server->plugin, server->why);
        return NULL;
    }
    kg_fail(err, KG_E_NOT_FOUND, "no file of a client has a server %.*s",
            KG_STR_CUT(name, KG_CUT_NAME));
    kg_hint(err, "kaged mcp import lists them");
    return NULL;
}

static void found_on_looked(struct loop_job *job)
{
    struct finding *finding = KG_CONTAINER(job, struct finding, job);
    struct host *host = http_host(finding->request);
    struct kg_err err = {0};
    finding->server = wanted_of(finding, &err);
    if (finding->server != NULL) {
        found_on_kept(finding, NULL);
    } else {
        http_reply_error(finding->request, &err);
        finding_free(finding);
    }
    host_store_job_done(host);
}

void http_handle_mcp_found_take(struct http_request *request)
{
    found_find(request, found_on_looked);
}
