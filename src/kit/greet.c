/*
 * An MCP server is greeted by the daemon's own row of the dialect, so that what a test or a replay
 * says to it is what the daemon would say. What comes of it is kept here; nothing is done about it.
 */
#include "kit/internal.h"

#include "host/host.h"

#include <stdlib.h>

static void greet_on_ready(void *data)
{
    struct kit_greeting *greeting = data;
    greeting->is_ready = true;
}

static void greet_on_failed(void *data, bool mend, const char *words)
{
    struct kit_greeting *greeting = data;
    (void)mend;
    kg_replace(&greeting->failed, words);
}

static bool greet_on_request(void *data, int64_t request, struct kg_str method,
                             struct kg_str params)
{
    struct kit_greeting *greeting = data;
    greeting->on_request(greeting->data, request, method, params);
    return true;
}

static bool greet_put_roots(void *data, struct kg_json_writer *json_or_null)
{
    const struct kit_greeting *greeting = data;
    const char *root = kit_room_project_root(greeting->room);
    if (root == NULL)
        return false;
    if (json_or_null != NULL) {
        kg_auto(kg_free) char *uri = kg_format("file://%s", root);
        kg_json_begin(json_or_null, '{');
        kg_json_named_text(json_or_null, "uri", uri);
        kg_json_named_text(json_or_null, "name", KIT_PROJECT);
        kg_json_end(json_or_null, '}');
    }
    return true;
}

static void greet_on_log(void *data, struct kg_str line, struct kg_str message)
{
    (void)data, (void)line, (void)message; /* a trace has it */
}

static bool greet_may_request(void *data, struct kg_str method)
{
    const struct kit_greeting *greeting = data;
    const struct host_service *service = host_service_find(method);
    return service != NULL &&
           host_service_check(service, &greeting->room->parts.manifest->capability_set, NULL) == 0;
}

struct kit_greeting *kit_greeting_new(struct kit_seat *seat, enum dialect_variant variant,
                                      uint64_t timeout_ms, kit_request_fn *on_request_of,
                                      void *data)
{
    static const struct dialect_ops ops = {
        .on_ready = greet_on_ready,
        .on_failed = greet_on_failed,
        .on_request = greet_on_request,
        .put_roots = greet_put_roots,
        .on_log = greet_on_log,
        .may_request = greet_may_request,
    };
    const struct manifest *manifest = seat->room->parts.manifest;
    struct kit_greeting *greeting = kg_alloc(sizeof(*greeting));
    *greeting = (struct kit_greeting){
        .room = seat->room,
        .on_request = on_request_of,
        .data = data,
        .offered = kg_alloc_array(manifest->method_count + 1, sizeof(bool)),
    };
    greeting->talk = (struct dialect_talk){
        .dialect = &dialect_mcp,
        .ops = &ops,
        .data = greeting,
        .loop = seat->room->loop,
        .name = manifest->name,
        .plugin = manifest->name,
        .version = manifest->version,
        .methods = manifest->method_names,
        .capabilities = manifest->capabilities,
        .method_offered = greeting->offered,
        .timeout_ms = timeout_ms,
        .variant = variant,
        .peer = seat->peer,
    };
    dialect_begin(&greeting->talk);
    return greeting;
}

bool kit_greeting_is_over(const struct kit_greeting *greeting)
{
    return greeting->is_ready || greeting->failed != NULL;
}

void kit_greeting_free(struct kit_greeting *greeting)
{
    if (greeting == NULL)
        return;
    dialect_end(&greeting->talk);
    kg_buf_free(&greeting->talk.tools);
    free(greeting->offered);
    free(greeting->failed);
    free(greeting);
}
