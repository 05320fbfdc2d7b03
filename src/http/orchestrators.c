/*
 * The routes of orchestrators, and of chats with them. An answer is told whole, or as events while
 * it is made; a client that leaves ends its turn, and one that does not read is waited for up to a
 * bound of bytes.
 */
#include "http/internal.h"

#include <stdlib.h>

#define QUEUE_BYTES ((size_t)8 << 20) /* that wait for a client */

/* -- orchestrators ----------------------------------------------------------------------------- */

static struct kg_str http_orchestrators_instance_of(const struct http_request *request)
{
    return http_path_parameter(request, "instance_id");
}

void http_handle_orchestrators(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_orchestrators_list(&asked);
}

void http_handle_orchestrator_create(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_orchestrator_create(&asked);
}

void http_handle_orchestrator(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_orchestrator_show(&asked, http_orchestrators_instance_of(request));
}

void http_handle_orchestrator_change(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_orchestrator_change(&asked, http_orchestrators_instance_of(request));
}

void http_handle_orchestrator_delete(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_orchestrator_delete(&asked, http_orchestrators_instance_of(request));
}

void http_handle_orchestrator_settings(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_orchestrator_settings(&asked, http_orchestrators_instance_of(request));
}

void http_handle_orchestrator_activate(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_orchestrator_activate(&asked, http_orchestrators_instance_of(request));
}

void http_handle_orchestrator_load(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_orchestrator_load(&asked, http_orchestrators_instance_of(request));
}

void http_handle_orchestrator_unload(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_orchestrator_unload(&asked, http_orchestrators_instance_of(request));
}

/* -- chats ------------------------------------------------------------------------------------- */

struct chat_reply {
    struct http_request *request;
    struct catalog_chat *chat;
    bool streams, begun, full;
    struct kg_buf queue; /* while the client does not read */
};

/* Both are headers, and chats are of one orchestrator. */
static bool find_instance(struct http_request *request, struct catalog_request *ret_asked,
                          struct kg_str *ret_instance)
{
    static const char *const needed[] = {"x-org-id", "x-instance-id"};
    struct kg_err err = {0};
    *ret_asked = http_catalog_request(request);
    ret_asked->org = http_header(request, "x-org-id");
    *ret_instance = http_header(request, "x-instance-id");
    for (size_t i = 0; i < KG_COUNT(needed); i++)
        if (http_header(request, needed[i]).length == 0) {
            kg_fail(&err, KG_E_USAGE, "the header %s is missing",
                    i == 0 ? "X-ORG-ID" : "X-INSTANCE-ID");
            http_reply_error(request, &err);
            return false;
        }
    return true;
}

static void chat_reply_give_up(struct chat_reply *reply)
{
    struct kg_err why;
    kg_fail(&why, KG_E_CANCELLED, "the client does not read: %zu bytes wait for it",
            reply->queue.length);
    catalog_chat_cancel(reply->chat, &why);
}

static void on_chat_event(void *data, const char *event, struct kg_str json)
{
    struct chat_reply *reply = data;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (!reply->streams)
        return;
    if (!reply->begun)
        http_reply_begin(reply->request, 200, "text/event-stream");
    reply->begun = true;
    kg_buf_printf(&text, "event: %s\ndata: ", event);
    kg_buf_str(&text, json);
    kg_buf_text(&text, "\n\n");
    if (!reply->full) {
        reply->full = !http_reply_piece(reply->request, kg_buf_view(&text));
        return;
    }
    kg_buf_str(&reply->queue, kg_buf_view(&text));
    if (reply->queue.length > QUEUE_BYTES)
        chat_reply_give_up(reply);
}

static void on_chat_room(void *data)
{
    struct chat_reply *reply = data;
    reply->full = !http_reply_piece(reply->request, kg_buf_view(&reply->queue));
    kg_buf_free(&reply->queue);
}

static void on_chat_gone(void *data)
{
    struct chat_reply *reply = data;
    struct kg_err why;
    kg_fail(&why, KG_E_CANCELLED, "the client left");
    if (reply->chat != NULL)
        catalog_chat_cancel(reply->chat, &why);
}

static void on_chat_done(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    struct chat_reply *reply = data;
    struct http_request *request = reply->request;
    http_on_gone(request, NULL, NULL);
    if (reply->begun && reply->queue.length > 0)
        (void)http_reply_piece(request, kg_buf_view(&reply->queue));
    if (reply->begun)
        http_reply_end(request);
    else if (err_or_null != NULL)
        http_reply_error(request, err_or_null);
    else
        http_reply(request, 200, json);
    kg_buf_free(&reply->queue);
    free(reply);
}

void http_handle_chat(struct http_request *request)
{
    static const struct catalog_chat_ops ops = {on_chat_event, on_chat_done};
    struct catalog_request asked;
    struct kg_str instance;
    if (!find_instance(request, &asked, &instance))
        return;
    struct chat_reply *reply = kg_alloc(sizeof(*reply));
    reply->request = request;
    reply->streams = http_body_flag(request, "stream", true);
    struct catalog_chat *chat =
        catalog_chat_begin(&asked, instance, http_asker(request), &ops, reply);
    if (chat == NULL)
        return;
    reply->chat = chat;
    http_on_gone(request, on_chat_gone, reply);
    http_on_room(request, on_chat_room, reply);
}

void http_handle_conversations(struct http_request *request)
{
    struct catalog_request asked;
    struct kg_str instance;
    if (find_instance(request, &asked, &instance))
        catalog_conversations(&asked, instance, http_asker(request),
                              http_query_parameter(request, "before"),
                              (size_t)http_query_int(request, "limit", 0));
}

void http_handle_conversation(struct http_request *request)
{
    struct catalog_request asked;
    struct kg_str instance;
    if (find_instance(request, &asked, &instance))
        catalog_conversation(&asked, instance, http_asker(request),
                             http_path_parameter(request, "conversation_id"),
                             (uint64_t)http_query_int(request, "after", 0),
                             (size_t)http_query_int(request, "limit", 0));
}
