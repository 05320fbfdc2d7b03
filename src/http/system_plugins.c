/* System plugins over HTTP: which there are, and how they do. They change at a start alone. */
#include "http/internal.h"

static struct native *native_of(const struct http_request *request)
{
    const struct http_server *server = http_server_of(request);
    return server != NULL ? server->native : NULL;
}

void http_handle_system_plugins(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_key(&json, "system_plugins");
    native_put_all(native_of(request), &json);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_system_plugin(struct http_request *request)
{
    struct kg_str name = http_path_parameter(request, "name");
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct kg_err err = {0};
    if (native_put_one(native_of(request), name, &json)) {
        http_reply(request, 200, kg_buf_view(&body));
        return;
    }
    kg_fail(&err, KG_E_NOT_FOUND, "there is no system plugin %.*s", KG_STR_CUT(name, KG_CUT_NAME));
    kg_hint(&err, "a table [system_plugins.NAME] in %s makes one, at the next start",
            host_paths(http_host(request))->local_file);
    http_reply_error(request, &err);
}
