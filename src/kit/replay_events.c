/*
 * A trace read as what happened: who asked, who answered whom. An answer belongs to the request
 * with its id in the life of one process; what belongs to nothing is left out.
 */
#include "kit/replay_internal.h"
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>

struct pairing {
    struct kit_events *events;
    struct kg_map *host, *plugin; /* owned: requests without an answer, by id */
};

bool kit_event_is_start(const struct kit_event *event)
{
    return event->type == KIT_HOST_ASKS && strcmp(event->method, "initialize") == 0;
}

/* An id as the key of a map. */
static struct kg_str id_text(int64_t id, char text[24])
{
    return (struct kg_str){text, (size_t)snprintf(text, 24, "%lld", (long long)id)};
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
}

static struct kit_event *add(struct kit_events *events, enum kit_event_type type,
                             const struct trace_record *record)
{
    struct kit_event *event = &events->items[events->count++];
    *event = (struct kit_event){.type = type, .record = record};
    return event;
}

static void add_request(struct pairing *pairing, const struct trace_record *record,
                        const struct rpc_message *message)
{
    bool of_host = record->kind == TRACE_TO, is_request = message->kind == RPC_REQUEST;
    char text[24];
    if (!of_host && !is_request)
        return; /* notifications of the plugin are not compared */
    struct kit_event *event = add(pairing->events,
                                  !of_host     ? KIT_PLUGIN_ASKS
                                  : is_request ? KIT_HOST_ASKS
                                               : KIT_HOST_TELLS,
                                  record);
    struct kg_str method = {message->method, strlen(message->method) + 1};
    event->method = kg_arena_str(pairing->events->arena, method).data;
    event->body = message->params.length > 0 ? message->params : KG_STR("{}");
    event->id = message->id;
    if (kit_event_is_start(event))
        begin_life(pairing);
    if (is_request)
        kg_map_set(of_host ? pairing->host : pairing->plugin, id_text(event->id, text), event);
}

static void add_answer(struct pairing *pairing, const struct trace_record *record,
                       const struct rpc_message *message)
{
    bool of_host = record->kind == TRACE_TO;
    char text[24];
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kit_event *request =
        kg_map_remove(of_host ? pairing->plugin : pairing->host, id_text(message->id, text));
    if (request == NULL)
        return; /* it was asked before the trace began */
    struct kit_event *event =
        add(pairing->events, of_host ? KIT_HOST_ANSWERS : KIT_PLUGIN_ANSWERS, record);
    bool is_result = message->kind == RPC_RESULT;
    kit_put_outcome(&body, is_result, is_result ? message->result : message->error);
    event->body = kg_arena_str(pairing->events->arena, kg_buf_view(&body));
    event->pair = request;
    request->pair = event;
}

static void add_line(struct pairing *pairing, const struct trace_record *record)
{
    struct rpc_message message;
    if (record->cut) {
        add(pairing->events, KIT_CUT, record);
        return;
    }
    rpc_parse(record->line, &message);
    if (message.kind == RPC_REQUEST || message.kind == RPC_NOTIFICATION)
        add_request(pairing, record, &message);
    else if (message.kind == RPC_RESULT || message.kind == RPC_ERROR)
        add_answer(pairing, record, &message);
}

static bool has_ended(struct kg_str state)
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
            add_line(&pairing, record);
        else if (record->kind == TRACE_MISSED)
            add(ret_events, KIT_GAP, record);
        else if (record->kind == TRACE_STATE && has_ended(record->state))
            add(ret_events, KIT_ENDED, record);
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
