/* What the files of kit/ share. */
#ifndef KAGED_KIT_INTERNAL_H
#define KAGED_KIT_INTERNAL_H

#include "dialect/dialect.h"
#include "helper/helper.h"
#include "kit/observe.h"
#include "kit/replay.h"
#include "kit/room.h"
#include "storage/storage.h"

#include <signal.h>

/* -- the room ---------------------------------------------------------------------------------- */

#define KIT_SIGNALS 3
#define KIT_PROJECT "kit" /* the name of the project */

struct kit_room {
    struct kit_room_parts parts;
    char *dir; /* owned, without a link in it; of the plugin */
    struct loop *loop;
    uv_signal_t signals[KIT_SIGNALS];
    struct cage_facts *facts;
    struct cage_spawner *spawner;
    struct gate *gate;
    char *folder, *project;    /* owned; the temporary one, and the project in it */
    struct config_paths paths; /* the temporary folders; also for kaged.db */
    struct kg_buf settings;    /* what it is configured with if nobody says anything; or empty */
    struct storage_place storage_place;
    struct storage *storage;   /* NULL until it is asked for */
    struct kit_served *served; /* owned; requests that it has */
    bool interrupted;
    bool lost; /* the spawner is gone, and every process with it */
};

/* Around the making of a thread: Ctrl-C is for ours alone, which may wait for an answer then. */
void kit_signals_keep(sigset_t *ret_before);
void kit_signals_as(const sigset_t *before);
/* The plan of the plugin's cage. */
struct cage_plan *kit_room_plan(const struct kit_room *room, struct kg_err *err);
/* Whether a cage could have this capability, besides those of the manifest. */
int kit_room_check(const struct kit_room *room, const char *capability, struct kg_err *err);
/* It has another manifest from now on, with the same name; cages that are there stay as they are.
 */
int kit_room_declare(struct kit_room *room, const struct manifest *manifest, struct kg_err *err);
/* What is spoken with the plugin. */
static inline const struct dialect *kit_dialect(const struct kit_room *room)
{
    return room->parts.manifest->is_mcp ? &dialect_mcp : &dialect_kaged;
}
/* NULL if the plugin's process would not be one of a project's own. */
const char *kit_room_project_root(const struct kit_room *room);
/* The plugin's database, kept from seat to seat; made when it is first asked for. */
struct storage *kit_room_storage(struct kit_room *room);
/* Until done(data), for timeout_ms at most; false: it is not done. */
bool kit_room_wait(struct kit_room *room, bool (*done)(void *data), void *data,
                   uint64_t timeout_ms);

/* -- lines that a program would need, see propose.c ---------------------------------------------
 */

/* Owned. */
char *kit_line_of_path(enum cage_act act, const char *path);
char *kit_line_of_host(const char *host, uint16_t port);
bool kit_line_covers(const struct capability *line, const struct cage_need *need);
bool kit_holds_home(const char *path);
bool kit_may_gather(const char *folder);

/* -- our stdin, for one program after the other -------------------------------------------------
 */

struct kit_feed;
/* keeps: each program is told all of it. NULL: there is no thread for it. */
struct kit_feed *kit_feed_new(bool has_input, bool keeps);
void kit_feed_to(struct kit_feed *feed, int fd); /* takes the fd, also without a feed */
void kit_feed_free(struct kit_feed *feed);       /* takes NULL */

/* -- somebody who is asked, see asking.c --------------------------------------------------------
 */

struct kit_asking;
struct kit_asking *kit_asking_new(struct kit_room *room, kit_ask_fn *ask, void *data);
void kit_asking_free(struct kit_asking *asking); /* takes NULL, as all do but the last */
bool kit_asking_waits(const struct kit_asking *asking);
/* Folders and files that were only looked at wait until nothing more is tried in them. */
void kit_asking_settle(struct kit_asking *asking);
void kit_asking_attempt(void *asking, const struct cage_attempt *attempt);
/* waits: a connection is held at the gate. */
void kit_asking_host(struct kit_asking *asking, const char *host, uint16_t port, bool waits);
/* Adds what is not given to the list. True: what was given takes a new cage. */
bool kit_asking_ask_all(struct kit_asking *asking, struct gate_cage *network_or_null,
                        char ***refused);

/* -- the seat: one process, with the daemon's own peer ----------------------------------------- */

struct kit_seat;

typedef void kit_request_fn(void *data, int64_t request, struct kg_str method,
                            struct kg_str params);

/* None may free the seat. Texts die with the callback. NULL: nobody asks. */
struct kit_seat_ops {
    /* A line of its stdout, maybe no JSON, no UTF-8. The peer takes it next; not to be touched. */
    void (*on_line)(void *data, struct kg_str line);
    /* A line without its end: stdout ended there, or limits.line_max_bytes was reached. */
    void (*on_cut)(void *data, struct kg_str line, bool too_long);
    void (*on_sent)(void *data, struct kg_str line); /* queued for it */
    /* A request that the peer has no answer to: for peer_answer. */
    kit_request_fn *on_request;
    void (*on_notification)(void *data, struct kg_str method, struct kg_str params);
    void (*on_network)(void *data, const struct gate_event *event);
};

struct kit_seat {
    struct kit_room *room; /* borrowed */
    struct kit_seat_ops ops;
    void *data;
    struct helper_child *child; /* owned; its exit is known once all that it wrote was told */
    struct peer *peer;          /* owned; closed after its end */
    uint64_t started_ns;
    bool in_closed, out_closed; /* by the plugin, maybe by ending */
    struct kg_err error;        /* of the cage */
};

/* Starts the plugin; when this returns its pipes are there, or err says why not. */
struct kit_seat *kit_seat_new(struct kit_room *room, const struct kit_seat_ops *ops, void *data,
                              struct kg_err *err);
/* Kills what still lives and waits until it is gone. Takes NULL. */
void kit_seat_free(struct kit_seat *seat);
uint64_t kit_seat_ns(const struct kit_seat *seat); /* since it was taken */
bool kit_seat_wait_exit(struct kit_seat *seat, uint64_t timeout_ms);

/* -- the greeting of an MCP server, see greet.c ------------------------------------------------ */

struct kit_greeting {
    struct dialect_talk talk;
    struct kit_room *room; /* borrowed */
    kit_request_fn *on_request;
    void *data;
    bool *offered; /* owned */
    bool is_ready;
    char *failed; /* owned; why it never will be; NULL: nothing is known */
};

/* Begins it. What the server asks, in the host's words, goes to on_request. */
struct kit_greeting *kit_greeting_new(struct kit_seat *seat, enum dialect_variant variant,
                                      uint64_t timeout_ms, kit_request_fn *on_request, void *data);
bool kit_greeting_is_over(const struct kit_greeting *greeting);
/* After the seat is gone. Takes NULL. */
void kit_greeting_free(struct kit_greeting *greeting);

/* -- requests of the plugin, see serve.c ------------------------------------------------------- */

struct host_service;
/* Has the plugin's database answer; on failure nothing is answered. */
int kit_serve(struct kit_room *room, struct kit_seat *seat, const struct host_service *service,
              int64_t request, struct kg_str params, struct kg_err *err);
/* Whether an answer of the database to this seat is still to come. */
bool kit_serves(const struct kit_room *room, const struct kit_seat *seat);
/* The seat takes no more answers. */
void kit_serve_leave(struct kit_room *room, const struct kit_seat *seat);
/* After the storage is gone, which may have left some unanswered. */
void kit_serve_end(struct kit_room *room);

/* Appends the text with each mention of one folder turned into the other. */
void kit_put_moved(struct kg_buf *out, struct kg_str text, struct kg_str from, struct kg_str to);

#endif
