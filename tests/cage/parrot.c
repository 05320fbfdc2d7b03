/*
 * A dialect that no daemon has, to show what a row can say: woken or else greeted, a list of words
 * in pages, one message for all calls, with who calls behind it and a token for progress, answers
 * in several exchanges, and a way to say never mind. It takes the place of kaged's own in the
 * table.
 */
#include "dialect/dialect.h"

#include <stdio.h>

enum step { WAKE, HELLO, WORDS };
#define WAKE_PATIENCE_MS 200

/* -- the greeting ------------------------------------------------------------------------------ */

static int take_wake(struct dialect_talk *talk, enum peer_outcome outcome, struct kg_str payload)
{
    (void)payload;
    if (outcome == PEER_RESULT)
        return dialect_fail(talk, "no bird answers that");
    return HELLO;
}

static int take_hello(struct dialect_talk *talk, enum peer_outcome outcome, struct kg_str payload)
{
    struct kg_str name;
    if (outcome != PEER_RESULT || !kg_json_member(payload, "name", &name))
        return dialect_fail(talk, "it does not greet back");
    if (!kg_json_raw_is((struct kg_str){name.data + 1, name.length - 2}, true, talk->plugin))
        return dialect_reject(talk, "it is %.*s", KG_STR_CUT(name, 64));
    return WORDS;
}

static void on_words(struct dialect_talk *talk, struct kg_str words,
                     const struct kg_err *err_or_null)
{
    struct kg_json_cursor cursor;
    struct kg_str item, word;
    if (err_or_null != NULL) {
        dialect_go_on(talk, dialect_fail(talk, "%s", err_or_null->message));
        return;
    }
    kg_buf_str(&talk->tools, words);
    for (size_t i = 0; talk->methods[i] != NULL; i++)
        talk->method_offered[i] = false;
    cursor = kg_json_inside(words);
    while (kg_json_next_item(&cursor, &item))
        for (size_t i = 0; talk->methods[i] != NULL && kg_json_member(item, "word", &word); i++)
            if (kg_json_raw_is((struct kg_str){word.data + 1, word.length - 2}, true,
                               talk->methods[i]))
                talk->method_offered[i] = true;
    dialect_go_on(talk, GREETING_DONE);
}

static int list_words(struct dialect_talk *talk)
{
    static const struct dialect_list words = {
        .method = "bird/words",
        .items = "words",
        .next = "then",
        .cursor = "from",
        .pages_max = 10,
        .bytes_max = 10000,
        .on_list = on_words,
    };
    dialect_list(talk, &words);
    return GREETING_LATER;
}

static const struct dialect_step steps[] = {
    [WAKE] = {.method = "bird/wake", .patience_ms = WAKE_PATIENCE_MS, .take = take_wake},
    [HELLO] = {.method = "bird/hello", .take = take_hello},
    [WORDS] = {.act = list_words},
};

/* -- calls ------------------------------------------------------------------------------------- */

static int call(struct dialect_call *call, const struct dialect_message *message,
                struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    kg_json_begin(&json, '{');
    kg_json_key(&json, "what");
    kg_json_str(&json, message->method);
    kg_json_key(&json, "with");
    kg_json_raw(&json, message->params.length ? message->params : KG_STR("{}"));
    kg_json_key(&json, "for");
    kg_json_raw(&json, message->context);
    kg_json_key(&json, "token");
    kg_json_int(&json, (int64_t)peer_next_id(call->talk->peer));
    kg_json_end(&json, '}');
    struct kg_str view = kg_buf_view(&params);
    return dialect_send(call, KG_STR("bird/do"), &view, 1, err);
}

static enum dialect_reading go_on(struct dialect_call *call, struct kg_str after,
                                  struct kg_buf *ret_json)
{
    const struct kg_str params[] = {KG_STR("{\"after\":"), after, KG_STR("}")};
    if (dialect_send(call, KG_STR("bird/more"), params, KG_COUNT(params), NULL) == 0)
        return DIALECT_AGAIN;
    kg_buf_text(ret_json, "{\"code\":-32603,\"message\":\"it cannot be asked again\"}");
    return DIALECT_ERROR;
}

static enum dialect_reading read_answer(struct dialect_call *call, enum peer_outcome outcome,
                                        struct kg_str payload, struct kg_buf *ret_json)
{
    struct kg_str part;
    if (outcome != PEER_RESULT)
        return DIALECT_AS_IT_IS;
    if (kg_json_member(payload, "more", &part))
        return go_on(call, part, ret_json);
    if (kg_json_member(payload, "said", &part)) {
        kg_buf_str(ret_json, part);
        return DIALECT_RESULT;
    }
    bool squawks = kg_json_member(payload, "squawk", &part);
    kg_buf_printf(ret_json, "{\"code\":-32602,\"message\":%.*s}",
                  KG_STR_ARG(squawks ? part : KG_STR("\"\"")));
    return DIALECT_ERROR;
}

static void cancel(struct dialect_call *call)
{
    char params[64];
    snprintf(params, sizeof(params), "{\"call\":%llu}", (unsigned long long)call->id);
    (void)peer_notify(call->talk->peer, "bird/never-mind", kg_str(params), NULL);
}

/* -- the child --------------------------------------------------------------------------------- */

static bool on_request(struct dialect_talk *talk, int64_t request, struct kg_str method,
                       struct kg_str params)
{
    if (kg_str_is(method, "bird/find"))
        return talk->ops->on_request(talk->data, request, KG_STR("kaged.storage.query"), params);
    if (!kg_str_is(method, "bird/ping"))
        return false;
    peer_answer(talk->peer, request, PEER_ANSWER_RESULT, KG_STR("{}"));
    return true;
}

static enum dialect_hearing on_notification(struct dialect_talk *talk, struct kg_str method,
                                            struct kg_str params)
{
    struct kg_str token;
    int64_t id;
    if (!kg_str_is(method, "bird/progress"))
        return DIALECT_NEWS;
    return kg_json_member(params, "token", &token) && kg_str_to_int(token, &id) && id > 0 &&
                   peer_progress(talk->peer, (uint64_t)id, 0, params)
               ? DIALECT_TAKEN
               : DIALECT_NOISE;
}

const struct dialect dialect_parrot = {
    .name = "kaged",
    .rules = {.begins = PEER_WAITING, .takes_any_id = true},
    .ping = "bird/there",
    .steps = steps,
    .tells_context = true,
    .knows = {[DIALECT_METHOD] = true},
    .call = call,
    .read = read_answer,
    .cancel = cancel,
    .on_request = on_request,
    .on_notification = on_notification,
};
