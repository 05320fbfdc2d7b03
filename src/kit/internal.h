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
    struct storage *storage; /* NULL until it is asked for */
    bool interrupted;
    bool lost; /* the spawner is gone, and every process with it */
};

/* The plan of the plugin's cage. */
struct cage_plan *kit_room_plan(const struct kit_room *room, struct kg_err *err);

#endif
