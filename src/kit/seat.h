/*
 * A plugin in its real cage, without a daemon. A room is what its runs need: a loop, a spawner, a
 * gate, and temporary folders in the place of config:/, project:/ and the state, so that nothing of
 * the operator's is touched. A seat is one process in it, with raw lines in and out. All waits turn
 * the room's loop; Ctrl-C ends them, and the room is then left as after any other end.
 */
#ifndef KAGED_KIT_SEAT_H
#define KAGED_KIT_SEAT_H

#include "cage/gate.h"
#include "config/config.h"
#include "manifest/manifest.h"
#include "storage/storage.h"

/* -- the room ---------------------------------------------------------------------------------- */

/* Borrowed, and outlives the room. */
struct kit_room_parts {
    const struct manifest *manifest; /* its capabilities count as approved */
    const char *dir;                 /* the plugin's folder */
    const struct config *config;
    const struct config_paths *paths; /* the operator's: no capability may reach there */
};

struct kit_room;
/* Must be called before the process has a second thread. Catches SIGINT, SIGTERM and SIGHUP. */
struct kit_room *kit_room_new(const struct kit_room_parts *parts, struct kg_err *err);
/* Every seat must be gone. Takes NULL. */
void kit_room_free(struct kit_room *room);

const struct manifest *kit_room_manifest(const struct kit_room *room);
const struct config *kit_room_config(const struct kit_room *room);
/* The temporary folders; also for kaged.db. */
const struct config_paths *kit_room_paths(const struct kit_room *room);
#define KIT_PROJECT "kit" /* the name of the project */
/* NULL if the plugin's process would not be one of a project's own. */
const char *kit_room_project_root(const struct kit_room *room);
/* What the plugin is configured with if nobody says anything: a JSON object, or empty. */
struct kg_str kit_room_settings(const struct kit_room *room);
/* The plugin's database, kept from seat to seat; made when it is first asked for. */
struct storage *kit_room_storage(struct kit_room *room);

/* Until done(data), for timeout_ms at most; false: it is not done. */
bool kit_room_wait(struct kit_room *room, bool (*done)(void *data), void *data,
                   uint64_t timeout_ms);
bool kit_room_was_interrupted(const struct kit_room *room);

/* -- the seat ---------------------------------------------------------------------------------- */

/* One line of stdout; the text dies with the callback. */
struct kit_line {
    struct kg_str text; /* without its newline; maybe no JSON, no UTF-8 */
    uint64_t at_ns;     /* since the seat was taken */
    bool too_long;      /* past limits.line_max_bytes, and cut there */
    bool unfinished;    /* stdout ended before its newline */
};

/* None may free the seat; kit_seat_send is allowed in all of them. NULL: nobody asks. */
struct kit_seat_ops {
    void (*on_line)(void *data, const struct kit_line *line);
    void (*on_network)(void *data, const struct gate_event *event);
};

struct kit_seat;
/* Starts the plugin; when this returns its pipes are there, or err says why not. */
struct kit_seat *kit_seat_new(struct kit_room *room, const struct kit_seat_ops *ops, void *data,
                              struct kg_err *err);
/* Kills what still lives and waits until it is gone. Takes NULL. */
void kit_seat_free(struct kit_seat *seat);

/* Queues bytes as they are, and a newline; written while the room waits. */
void kit_seat_send(struct kit_seat *seat, struct kg_str line);
/* Closes stdin of the plugin once all that is queued was written. */
void kit_seat_close_input(struct kit_seat *seat);
void kit_seat_signal(struct kit_seat *seat, int signal);

uint64_t kit_seat_ns(const struct kit_seat *seat); /* since it was taken */
/* How it ended; NULL while a process of it lives. All that it wrote has been told by then. */
const struct cage_exit *kit_seat_exit(const struct kit_seat *seat);
/* Waits for that. */
bool kit_seat_wait_exit(struct kit_seat *seat, uint64_t timeout_ms);
/* It closed a stream, maybe by ending. */
bool kit_seat_stdin_is_closed(const struct kit_seat *seat);
bool kit_seat_stdout_is_closed(const struct kit_seat *seat);
size_t kit_seat_unsent(const struct kit_seat *seat); /* bytes that it has not read yet */
/* The end of what it wrote on stderr. */
struct kg_str kit_seat_stderr(const struct kit_seat *seat);

#endif
