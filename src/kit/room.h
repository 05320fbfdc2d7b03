/*
 * A plugin in its real cage, without a daemon. A room is what its runs need: a loop, a spawner, a
 * gate, and temporary folders in the place of config:/, project:/ and the state, so that nothing of
 * the operator's is touched. All waits turn the room's loop; Ctrl-C ends them, and the room is then
 * left as after any other end.
 */
#ifndef KAGED_KIT_ROOM_H
#define KAGED_KIT_ROOM_H

#include "config/config.h"
#include "manifest/manifest.h"

/* Borrowed, and outlives the room. */
struct kit_room_parts {
    const struct manifest *manifest; /* its capabilities count as approved */
    const char *dir;                 /* the plugin's folder */
    const struct config *config;
    const struct config_paths *paths;    /* the operator's: no capability may reach there */
    const struct capability_set *closed; /* the operator's, also below a line; NULL: none */
    bool observed;                       /* its cages are watched, see observe.h */
    bool asks;                           /* and somebody is asked about hosts */
};

struct kit_room;
/* Must be called before the process has a second thread. Catches SIGINT, SIGTERM and SIGHUP. */
struct kit_room *kit_room_new(const struct kit_room_parts *parts, struct kg_err *err);
/* Every seat must be gone. Takes NULL. */
void kit_room_free(struct kit_room *room);

#endif
