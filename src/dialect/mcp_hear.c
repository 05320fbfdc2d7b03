/*
 * What an MCP server says by itself: requests, which are answered if they were offered, and
 * notifications, of which each is a row. Whatever is neither is noise.
 */
#include "dialect/mcp.h"

#define LOG_MAX_BYTES 4096

/* -- the server -------------------------------------------------------------------------------- */

void mcp_put_roots(struct dialect_talk *talk, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "roots", '[');
    if (talk->ops->put_roots != NULL)
        talk->ops->put_roots(talk->data, &json);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
}

/* elicitation/create, as kaged.ask takes it; a server's other words are left out. */
static void put_question(struct kg_str params, struct kg_buf *ret_params)
{
    static const char *const keys[][2] = {
        {"message", "title"}, {"requestedSchema", "schema"}, {"url", "url"}};
    struct kg_json_writer json = kg_json_writer(ret_params);
    struct kg_str value;
    kg_json_begin(&json, '{');
    for (size_t i = 0; i < KG_COUNT(keys); i++)
        if (kg_json_member(params, keys[i][0], &value))
            kg_json_named_raw(&json, keys[i][1], value);
    kg_json_end(&json, '}');
}

const char *mcp_translate(struct kg_str method, struct kg_str params, struct kg_buf *ret_params)
{
    if (kg_str_is(method, "elicitation/create")) {
        put_question(params, ret_params);
        return "kaged.ask";
    }
    bool samples = kg_str_is(method, "sampling/createMessage");
    if (!samples && !kg_str_is(method, "roots/list"))
        return NULL;
    kg_buf_str(ret_params, params.length > 0 ? params : KG_STR("{}"));
    return samples ? "kaged.sample" : "kaged.roots";
}

bool mcp_has_roots(const struct dialect_talk *talk)
{
    return talk->ops->put_roots != NULL && talk->ops->put_roots(talk->data, NULL);
}

/* What was not offered is a method that there is not. A modern server has no requests. */
bool mcp_on_request(struct dialect_talk *talk, int64_t request, struct kg_str method,
                    struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf asked = {0};
    if (kg_str_is(method, "ping")) {
        peer_answer(talk->peer, request, PEER_ANSWER_RESULT, KG_STR("{}"));
        return true;
    }
    if (kg_str_is(method, "roots/list") && mcp_has_roots(talk)) {
        mcp_put_roots(talk, &asked);
        peer_answer(talk->peer, request, PEER_ANSWER_RESULT, kg_buf_view(&asked));
        return true;
    }
    const char *name = mcp_translate(method, params, &asked);
    return name != NULL && !mcp_is_modern(talk) && mcp_may_request(talk, name) &&
           talk->ops->on_request(talk->data, request, kg_str(name), kg_buf_view(&asked));
}

static enum dialect_hearing hear_progress(struct dialect_talk *talk, struct kg_str params)
{
    return dialect_hear_progress(talk, params, "progressToken");
}

/* "warning search: the index is old" */
static enum dialect_hearing hear_message(struct dialect_talk *talk, struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    const struct kg_node *said = doc != NULL ? kg_node_get(doc->root, "data") : NULL;
    if (said == NULL)
        return DIALECT_NOISE;
    struct kg_str level = kg_node_text(doc->root, "level");
    struct kg_str logger = kg_node_text(doc->root, "logger");
    kg_buf_printf(&line, "%.*s", KG_STR_CUT(level.length ? level : KG_STR("info"), KG_CUT_NAME));
    if (logger.length > 0)
        kg_buf_printf(&line, " %.*s", KG_STR_CUT(logger, KG_CUT_NAME));
    kg_buf_text(&line, ": ");
    if (said->type == KG_STRING)
        kg_buf_str(&line, said->text);
    else
        kg_json_put_node(&line, said);
    if (line.length > LOG_MAX_BYTES)
        line.length = LOG_MAX_BYTES;
    talk->ops->on_log(talk->data, kg_buf_view(&line), params);
    return DIALECT_TAKEN;
}

static enum dialect_hearing hear_tools_changed(struct dialect_talk *talk, struct kg_str params)
{
    struct mcp *mcp = talk->state;
    (void)params;
    if (mcp->is_greeted && mcp->has.tools)
        mcp_list_again(mcp);
    return DIALECT_TAKEN;
}

static enum dialect_hearing hear_news(struct dialect_talk *talk, struct kg_str params)
{
    (void)talk, (void)params;
    return DIALECT_NEWS;
}

static enum dialect_hearing hear_nothing(struct dialect_talk *talk, struct kg_str params)
{
    (void)talk, (void)params;
    return DIALECT_TAKEN;
}

static const struct {
    const char *method;
    enum dialect_hearing (*hear)(struct dialect_talk *talk, struct kg_str params);
} notifications[] = {
    {"notifications/progress", hear_progress},
    {"notifications/message", hear_message},
    {"notifications/tools/list_changed", hear_tools_changed},
    {"notifications/resources/updated", hear_news},
    {"notifications/resources/list_changed", hear_news},
    {"notifications/prompts/list_changed", hear_news},
    {"notifications/elicitation/complete", hear_nothing}, /* who opened it says so */
    {"notifications/cancelled", hear_nothing}, /* of requests that are answered at once */
    {"notifications/subscriptions/acknowledged", hear_nothing},
};

enum dialect_hearing mcp_on_notification(struct dialect_talk *talk, struct kg_str method,
                                         struct kg_str params)
{
    for (size_t i = 0; i < KG_COUNT(notifications); i++)
        if (kg_str_is(method, notifications[i].method))
            return notifications[i].hear(talk, params);
    return DIALECT_NOISE;
}
