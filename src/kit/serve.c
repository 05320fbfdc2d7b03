/*
 * What a plugin asks of the daemon, answered in its place. Its database may answer when the seat is
 * gone, or never, so what waits for it belongs to the room.
 */
#include "kit/internal.h"

#include "host/host.h"

#include <stdlib.h>

/* A request of the plugin that its storage has. */
struct kit_served {
    struct kit_served *next; /* in room->served */
    struct kit_room *room;
    struct kit_seat *seat; /* NULL: it is gone */
    int64_t request;
};

static void kit_serve_on_stored(void *data, enum storage_outcome outcome, struct kg_str payload)
{
    struct kit_served *served = data;
    KG_UNLINK(served->room->served, served);
    if (served->seat != NULL)
        peer_answer(served->seat->peer, served->request,
                    outcome == STORAGE_RESULT ? PEER_ANSWER_RESULT : PEER_ANSWER_ERROR, payload);
    free(served);
}

int kit_serve(struct kit_room *room, struct kit_seat *seat, const struct host_service *service,
              int64_t request, struct kg_str params, struct kg_err *err)
{
    struct kit_served *served = kg_alloc(sizeof(*served));
    *served = (struct kit_served){room->served, room, seat, request};
    const struct storage_request asked = {
        .method = service->asks,
        .params = params.length > 0 ? params : KG_STR("{}"),
        .on_done = kit_serve_on_stored,
        .data = served,
    };
    int result = storage_ask(kit_room_storage(room), &asked, err);
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
