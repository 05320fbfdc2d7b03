/*
 * What a plugin declares: its tools, its schemas; and its manifest read again. The answers come
 * from the manifest that the plugin was started with.
 */
#include "http/internal.h"

/* The plugin of the path, if its manifest can be used; answers itself otherwise. */
static bool find_declared(struct http_request *request, struct host_named *ret_named,
                          struct host_status *ret_status)
{
    if (!http_find_plugin(request, ret_named))
        return false;
    *ret_status = host_status(*ret_named);
    if (ret_status->manifest == NULL)
        http_reply_error(request, ret_status->problem);
    return ret_status->manifest != NULL;
}

/* -- tools ------------------------------------------------------------------------------------- */

static void declared_put_tool(struct kg_json_writer *json, const struct manifest *manifest,
                              const struct manifest_tool *tool)
{
    kg_auto(kg_free) char *full_name = kg_format("%s.%s", manifest->name, tool->name);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", tool->name);
    kg_json_named_text(json, "full_name", full_name);
    kg_json_named_text(json, "description", tool->description);
    kg_json_named_node(json, "parameters_schema", tool->parameters_node);
    kg_json_named_text(json, "state", "approved");
    kg_json_end(json, '}');
}

static void put_declared(struct kg_json_writer *json, const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->tool_count; i++)
        declared_put_tool(json, manifest, &manifest->tools[i]);
}

void http_handle_tools(struct http_request *request)
{
    struct host_named named;
    struct host_status status;
    char waits[STORE_HASH_TEXT];
    if (!find_declared(request, &named, &status))
        return;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    host_tools_digest(named, waits);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", status.name);
    kg_json_named_text(&json, "waits", waits[0] != '\0' ? waits : NULL);
    kg_json_named_begin(&json, "tools", '[');
    if (!host_tools_put(named, &json))
        put_declared(&json, status.manifest);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

static void on_tools_decided(void *data, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        http_reply_error(data, err_or_null);
    else
        http_handle_tools(data);
}

/* One of the three, as the body's schema has it. */
void http_handle_tools_decide(struct http_request *request)
{
    struct host_named named;
    if (!http_find_plugin(request, &named))
        return;
    const struct kg_node *body = http_body_tree(request);
    struct kg_str digest = kg_node_text(body, "approve");
    struct kg_str off = kg_node_text(body, "off"), on = kg_node_text(body, "on");
    if (digest.length > 0)
        host_tools_approve(named, digest, http_asker(request), on_tools_decided, request);
    else
        host_tools_switch(named, off.length > 0 ? off : on, off.length > 0, http_asker(request),
                          on_tools_decided, request);
}

/* -- what a script may do ---------------------------------------------------------------------- */

void http_handle_script(struct http_request *request)
{
    struct host_named named;
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    if (!http_find_plugin(request, &named))
        return;
    if (host_script_write_grants(named, &body, &err) < 0)
        http_reply_error(request, &err);
    else
        http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_script_approve(struct http_request *request)
{
    struct host_named named;
    struct kg_err err = {0};
    if (!http_find_plugin(request, &named))
        return;
    struct kg_str hash = kg_node_text(http_body_tree(request), "approve");
    if (host_script_approve(named, hash, http_operator(request), &err) < 0)
        http_reply_error(request, &err);
    else
        http_handle_script(request);
}

/* -- schemas ----------------------------------------------------------------------------------- */

static void declared_put_method(struct kg_json_writer *json, const char *method,
                                const struct kg_node *schemas)
{
    const struct kg_node *declared = kg_node_get(schemas, method);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", method);
    kg_json_named_node(json, "params", declared ? kg_node_get(declared, "params") : NULL);
    kg_json_named_node(json, "result", declared ? kg_node_get(declared, "result") : NULL);
    kg_json_end(json, '}');
}

void http_handle_schema(struct http_request *request)
{
    struct host_named named;
    struct host_status status;
    if (!find_declared(request, &named, &status))
        return;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    const struct manifest *manifest = status.manifest;
    const struct kg_node *schemas = kg_node_get(manifest->doc->root, "schemas");
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", status.name);
    kg_json_named_node(&json, "config_schema", manifest->config_schema_node);
    kg_json_named_node(&json, "system_config_schema", manifest->system_config_schema_node);
    kg_json_named_begin(&json, "methods", '[');
    for (size_t i = 0; i < manifest->method_count; i++)
        declared_put_method(&json, manifest->methods[i].name, schemas);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

/* -- reload ------------------------------------------------------------------------------------ */

static void declared_on_looked_up(void *data, const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    struct host_reloaded reloaded;
    struct kg_err err = {0};
    struct host_named named;
    if (err_or_null != NULL) {
        http_reply_error(request, err_or_null);
        return;
    }
    if (!http_find_plugin(request, &named))
        return;
    kg_auto(kg_buf_free) struct kg_buf others = {0};
    struct kg_json_writer others_json = kg_json_writer(&others);
    kg_json_begin(&others_json, '{');
    if (host_plugin_reload(http_host(request), named, http_operator(request), &reloaded,
                           &others_json, &err) < 0) {
        http_reply_error(request, &err);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    const struct host_status status = host_status(named);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", status.name);
    kg_json_named_text(&json, "action", host_reload_names[reloaded.act]);
    kg_json_named_begin(&json, "reasons", '[');
    for (size_t i = 0; reloaded.reasons[i] != NULL; i++)
        kg_json_text(&json, reloaded.reasons[i]);
    kg_json_end(&json, ']');
    kg_json_named_text(&json, "state", instance_state_name(status.state));
    kg_json_end(&others_json, '}');
    kg_json_named_raw(&json, "others", kg_buf_view(&others));
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_plugin_reload(struct http_request *request)
{
    struct host_named named;
    if (http_find_plugin(request, &named))
        host_look_up(http_host(request), declared_on_looked_up, request);
}
