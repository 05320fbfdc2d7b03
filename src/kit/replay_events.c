/*
 * A trace read as what happened: who asked, who answered whom. An answer belongs to the request
 * with its id in the life of one process; what belongs to nothing is left out.
 */
#include "kit/replay_internal.h"
#include "wire/wire.h"

#include <stdlib.h>

#define DISCOVER "server/discover"

struct pairing {
    struct kit_events *events;
    struct kg_map *host, *plugin; /* owned: requests without an answer, by id */
    const char *asked;            /* what the host asked last in this life; NULL: nothing */
};

/* Whether a process starts here: an MCP server may be asked for its era before it is initialized.
 */
static bool is_start(const struct pairing *pairing, const struct kit_event *event)
{
    bool is_discovery = strcmp(event->method, DISCOVER) == 0;
    if (event->type != KIT_HOST_ASKS)
        return false;
    return is_discovery || (strcmp(event->method, "initialize") == 0 &&
                            (pairing->asked == NULL || strcmp(pairing->asked, DISCOVER) != 0));
}

void kit_put_outcome(struct kg_buf *out, bool is_result, struct kg_str payload)
{
    kg_buf_text(out, is_result ? "{\"result\":" : "{\"error\":");
    kg_buf_str(out, payload);
    kg_buf_char(out, '}');
}

static void begin_life(struct pairing *pairing)
{
    kg_map_free(pairing->host);
    kg_map_free(pairing->plugin);
    pairing->host = kg_map_new();
    pairing->plugin = kg_map_new();
    pairing->asked = NULL;
}

static struct kit_event *replay_events_add(struct kit_events *events, enum kit_event_type type,
                                           const struct trace_record *record)
{
    struct kit_event *event = &events->items[events->count++];
    *event = (struct kit_event){.type = type, .record = record};
    return event;
}

static void add_request(struct pairing *pairing, const struct trace_record *record,
                        const struct rpc_message *message)
{
    bool of_host = record->kind == TRACE_TO, is_request = message->kind != RPC_NOTIFICATION;
    if (!of_host && !is_request)
        return; /* notifications of the plugin are not compared */
    struct kit_event *event = replay_events_add(pairing->events,
                                                !of_host     ? KIT_PLUGIN_ASKS
                                                : is_request ? KIT_HOST_ASKS
                                                             : KIT_HOST_TELLS,
                                                record);
    struct kg_str method = {message->method, strlen(message->method) + 1};
    event->method = kg_arena_str(pairing->events->arena, method).data;
    event->body = message->params.length > 0 ? message->params : KG_STR("{}");
    event->id = message->id_text;
    event->starts = is_start(pairing, event);
    if (event->starts)
        begin_life(pairing);
    if (event->type == KIT_HOST_ASKS)
        pairing->asked = event->method;
    if (is_request)
        kg_map_set(of_host ? pairing->host : pairing->plugin, event->id, event);
}

static void add_answer(struct pairing *pairing, const struct trace_record *record,
                       const struct rpc_message *message)
{
    bool of_host = record->kind == TRACE_TO;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kit_event *request =
        kg_map_remove(of_host ? pairing->plugin : pairing->host, message->id_text);
    if (request == NULL)
        return; /* it was asked before the trace began */
    struct kit_event *event =
        replay_events_add(pairing->events, of_host ? KIT_HOST_ANSWERS : KIT_PLUGIN_ANSWERS, record);
    bool is_result = message->result.data != NULL;
    kit_put_outcome(&body, is_result, is_result ? message->result : message->error);
    event->body = kg_arena_str(pairing->events->arena, kg_buf_view(&body));
    event->pair = request;
    request->pair = event;
}

static void replay_events_add_line(struct pairing *pairing, const struct trace_record *record)
{
    struct rpc_message message;
    if (record->cut) {
        replay_events_add(pairing->events, KIT_CUT, record);
        return;
    }
    rpc_parse(record->line, &message);
    bool is_asked = message.kind == RPC_REQUEST ||
                    (message.kind == RPC_INVALID_REQUEST && message.has_foreign_id);
    if (is_asked || message.kind == RPC_NOTIFICATION)
        add_request(pairing, record, &message);
    else if (record->kind == TRACE_TO && message.kind == RPC_INVALID_RESPONSE &&
             message.id_text.data != NULL &&
             (message.result.data == NULL) != (message.error.data == NULL))
        add_answer(pairing, record, &message); /* to a request with an id of another kind */
    else if (message.kind == RPC_RESULT || message.kind == RPC_ERROR)
        add_answer(pairing, record, &message);
}

static bool replay_events_has_ended(struct kg_str state)
{
    static const char *const states[] = {"crashed", "failed", "stopped", "disabled"};
    for (size_t i = 0; i < KG_COUNT(states); i++)
        if (kg_str_is(state, states[i]))
            return true;
    return false;
}

void kit_events_read(const struct trace *trace, struct kit_events *ret_events)
{
    struct pairing pairing = {.events = ret_events};
    *ret_events = (struct kit_events){.arena = kg_arena_new()};
    ret_events->items = kg_alloc_array(trace->count + 1, sizeof(struct kit_event));
    begin_life(&pairing);
    for (size_t i = 0; i < trace->count; i++) {
        const struct trace_record *record = &trace->records[i];
        if (record->kind == TRACE_TO || record->kind == TRACE_FROM)
            replay_events_add_line(&pairing, record);
        else if (record->kind == TRACE_MISSED)
            replay_events_add(ret_events, KIT_GAP, record);
        else if (record->kind == TRACE_STATE && replay_events_has_ended(record->state))
            replay_events_add(ret_events, KIT_ENDED, record);
    }
    kg_map_free(pairing.host);
    kg_map_free(pairing.plugin);
}

void kit_events_free(struct kit_events *events)
{
    for (size_t i = 0; i < events->count; i++)
        kg_buf_free(&events->items[i].answer);
    free(events->items);
    kg_arena_free(events->arena);
}
