/*
 * What a plugin asks of the daemon, answered in its place. Its database may answer when the seat is
 * gone, or never, so what waits for it belongs to the room.
 */
#include "kit/internal.h"

#include "host/host.h"
#include "wire/wire.h"

#include <stdlib.h>

/* A request of the plugin that its storage has. */
struct kit_served {
    struct kit_served *next; /* in room->served */
    struct kit_room *room;
    struct kit_seat *seat; /* NULL: it is gone */
    int64_t id;
};

void kit_seat_answer(struct kit_seat *seat, int64_t id, const char *key, struct kg_str json)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"%s\":", (long long)id, key);
    kg_buf_str(&line, json);
    kg_buf_char(&line, '}');
    kit_seat_send(seat, kg_buf_view(&line));
}

void kit_seat_answer_error(struct kit_seat *seat, int64_t id, enum kg_code code,
                           const char *message)
{
    kg_auto(kg_buf_free) struct kg_buf error = {0};
    struct kg_json_writer json = kg_json_writer(&error);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "code", kg_error_row(code)->rpc_code);
    kg_json_named_text(&json, "message", message);
    kg_json_end(&json, '}');
    kit_seat_answer(seat, id, "error", kg_buf_view(&error));
}

static void on_stored(void *data, enum storage_outcome outcome, struct kg_str payload)
{
    struct kit_served *served = data;
    struct kit_served **link = &served->room->served;
    while (*link != served)
        link = &(*link)->next;
    *link = served->next;
    if (served->seat != NULL)
        kit_seat_answer(served->seat, served->id, outcome == STORAGE_RESULT ? "result" : "error",
                        payload);
    free(served);
}

int kit_serve(struct kit_room *room, struct kit_seat *seat, const struct host_service *service,
              const struct rpc_message *message, struct kg_err *err)
{
    struct kit_served *served = kg_alloc(sizeof(*served));
    *served = (struct kit_served){room->served, room, seat, message->id};
    const struct storage_request request = {
        .method = service->asks,
        .params = message->params.length > 0 ? message->params : KG_STR("{}"),
        .on_done = on_stored,
        .data = served,
    };
    int result = storage_ask(kit_room_storage(room), &request, err);
    if (result < 0)
        free(served);
    else
        room->served = served;
    return result;
}

bool kit_serves(const struct kit_room *room, const struct kit_seat *seat)
{
    const struct kit_served *served = room->served;
    while (served != NULL && served->seat != seat)
        served = served->next;
    return served != NULL;
}

void kit_serve_leave(struct kit_room *room, const struct kit_seat *seat)
{
    for (struct kit_served *served = room->served; served != NULL; served = served->next)
        if (served->seat == seat)
            served->seat = NULL;
}

void kit_serve_end(struct kit_room *room)
{
    for (struct kit_served *served; (served = room->served) != NULL;) {
        room->served = served->next;
        free(served);
    }
}
