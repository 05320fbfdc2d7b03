/* What the files of kit/ share. */
#ifndef KAGED_KIT_INTERNAL_H
#define KAGED_KIT_INTERNAL_H

#include "kit/seat.h"

#define KIT_SIGNALS 3

struct kit_room {
    struct kit_room_parts parts;
    char *dir; /* owned, without a link in it; of the plugin */
    struct loop *loop;
    uv_signal_t signals[KIT_SIGNALS];
    struct cage_facts *facts;
    struct cage_spawner *spawner;
    struct gate *gate;
    char *folder, *project; /* owned; the temporary one, and the project in it */
    struct config_paths paths;
    struct kg_buf settings;
    struct storage_place storage_place;
    struct storage *storage;   /* NULL until it is asked for */
    struct kit_served *served; /* owned; requests that it has */
    bool interrupted;
    bool lost; /* the spawner is gone, and every process with it */
};

/* The plan of the plugin's cage. */
struct cage_plan *kit_room_plan(const struct kit_room *room, struct kg_err *err);

/* -- requests of the plugin, see serve.c ------------------------------------------------------- */

struct host_service;
struct rpc_message;
/* key: "result" or "error". */
void kit_seat_answer(struct kit_seat *seat, int64_t id, const char *key, struct kg_str json);
void kit_seat_answer_error(struct kit_seat *seat, int64_t id, enum kg_code code,
                           const char *message);
/* Has the plugin's database answer; on failure nothing is answered. */
int kit_serve(struct kit_room *room, struct kit_seat *seat, const struct host_service *service,
              const struct rpc_message *message, struct kg_err *err);
/* Whether an answer of the database to this seat is still to come. */
bool kit_serves(const struct kit_room *room, const struct kit_seat *seat);
/* The seat takes no more answers. */
void kit_serve_leave(struct kit_room *room, const struct kit_seat *seat);
/* After the storage is gone, which may have left some unanswered. */
void kit_serve_end(struct kit_room *room);

#endif
