/*
 * The wire between the daemon and one plugin: lines of JSON-RPC 2.0 on two pipes.
 *   frame  cuts bytes into lines
 *   rpc    finds the envelope of a line as spans of it
 *   header texts of MCP in headers of HTTP
 *   peer   matches requests and replies, keeps deadlines and bounds
 */
#ifndef KAGED_WIRE_H
#define KAGED_WIRE_H

#include "base/json/json.h"
#include "loop/loop.h"

/* -- frame ------------------------------------------------------------------------------------- */

struct frame {
    struct kg_buf partial; /* the start of a line whose end has not come yet */
    size_t line_max;       /* bytes, without the newline */
    bool truncates;        /* a longer line is cut to line_max; otherwise it is an error */
    bool skipping;         /* the rest of a cut line is being passed over */
    struct kg_str over;    /* the start of a line that was an error, while that is told */
};
enum frame_result { FRAME_OK, FRAME_OVERSIZE, FRAME_STOPPED };
/* A line without its newline; false stops the delivery. */
typedef bool frame_line_fn(void *data, struct kg_str line);

/* Where the next bytes should be read to: behind the partial line, or the scratch buffer. */
char *frame_space(struct frame *frame, char *scratch, size_t scratch_size, size_t *ret_size);
/* Takes `length` bytes that were read to `space` and delivers the lines that they complete. */
enum frame_result frame_advance(struct frame *frame, char *space, size_t length,
                                frame_line_fn *on_line, void *data);
/* Delivers what is left without a newline, at the end of the stream. */
void frame_finish(struct frame *frame, frame_line_fn *on_line, void *data);
void frame_free(struct frame *frame);

/* -- rpc --------------------------------------------------------------------------------------- */

#define RPC_METHOD_MAX 129 /* 64 of a plugin, a dot, 64 of its tool */
#define RPC_ID_MAX     128 /* bytes of the id of a request, as it is written */

enum rpc_kind {
    RPC_NOISE, /* not JSON, or JSON that does not even look like JSON-RPC */
    RPC_BATCH, /* an array */
    RPC_REQUEST,
    RPC_NOTIFICATION,
    RPC_RESULT,
    RPC_ERROR,
    RPC_INVALID_REQUEST,  /* meant as a request or notification, and wrong */
    RPC_INVALID_RESPONSE, /* meant as a response, and wrong */
};

/* All spans are of the parsed line. */
struct rpc_message {
    enum rpc_kind kind;
    int64_t id;                      /* when has_id */
    bool has_id;                     /* it is an integer of ours: 1 or more */
    bool has_foreign_id;             /* an invalid request only for its id: a string, 0, 1.5 */
    struct kg_str id_text;           /* as it came; data NULL if absent */
    char method[RPC_METHOD_MAX + 1]; /* decoded, NUL-terminated */
    struct kg_str params;            /* as it came; data NULL if absent */
    struct kg_str result;
    struct kg_str error;
    const char *problem;      /* noise and invalid kinds: what is wrong, in words */
    enum kg_json_fault fault; /* noise that is not JSON */
};
void rpc_parse(struct kg_str line, struct rpc_message *ret_message);
/* The code and message of an error object that rpc_parse accepted; the message is decoded. */
int64_t rpc_error_code(struct kg_str error);
void rpc_error_message(struct kg_str error, struct kg_buf *ret_text);
/* An error object of our own. */
void rpc_put_error(struct kg_buf *out, enum kg_code code, const char *message);

/* -- header ------------------------------------------------------------------------------------ */

/* The value of a header: as it is, or in base64 if it could not stand in one. */
void header_put(struct kg_buf *out, struct kg_str value);
/* Whether a header that came says that; one that is missing, with no data, says nothing. */
bool header_is(struct kg_str header, struct kg_str value);

/* -- peer -------------------------------------------------------------------------------------- */

struct peer;

enum peer_phase {
    PEER_SILENT,  /* only the answer to `initialize` may come; anything else is a violation */
    PEER_WAITING, /* answered, not yet told `initialized`: its requests get not_initialized */
    PEER_OPEN,
};

enum peer_violation {
    PEER_OVERSIZE,
    PEER_UNKNOWN_ID,
    PEER_BAD_RESPONSE,
    PEER_TOO_EARLY,
    PEER_BAD_REQUEST, /* answered -32600 */
    PEER_BATCH,       /* the same */
    PEER_UNREAD,      /* answers that would have to be lost */
    PEER_VIOLATION_COUNT
};
const char *peer_violation_name(enum peer_violation violation); /* in the audit log */

/* What follows a violation. Nobody is told of one that is passed over. */
enum peer_verdict { PEER_FATAL, PEER_MILD, PEER_PASSED_OVER };
/* What a protocol allows a child. All zero, which is the rule without any, is the strictest. */
struct peer_rules {
    enum peer_phase begins;
    bool takes_any_id;        /* a request may have any id of JSON-RPC, not just 1, 2, 3... */
    const char *rate_limited; /* the notification that says that some were dropped; NULL: none */
    enum peer_verdict verdicts[PEER_VIOLATION_COUNT];
};

enum peer_end { PEER_STDOUT_CLOSED, PEER_STDIN_CLOSED };

/*
 * None of these may free the peer; peer_close is allowed in all of them. The last four may be NULL:
 * nobody is told then.
 */
struct peer_ops {
    /* Answered by peer_answer with that number, which is ours; the peer keeps the child's own id.
     * From here to the answer the deadlines of calls stand still. */
    void (*on_request)(void *data, int64_t request, struct kg_str method, struct kg_str params);
    void (*on_noise)(void *data, struct kg_str line, const char *problem);
    void (*on_violation)(void *data, enum peer_violation violation, const char *detail);
    void (*on_notification)(void *data, struct kg_str method, struct kg_str params);
    void (*on_flood)(void *data, uint32_t notifications); /* in one second */
    void (*on_hung)(void *data, const char *method, uint64_t timeout_ms);
    void (*on_end)(void *data, enum peer_end end);
};

/* Both ways, each line without its end, when it is queued or has come; must not touch the peer. */
enum peer_way { PEER_TO, PEER_FROM };
typedef void peer_tap_fn(void *data, enum peer_way way, struct kg_str line);

struct peer_limits {
    size_t line_max_bytes;
    size_t write_queue_max_bytes; /* of calls and notifications; as many again of answers, and some
                                   * more of short ones */
    uint32_t calls_in_flight_max;
    uint32_t notifications_per_sec;
    uint64_t call_wait_ms; /* how long, in sum, one call's deadline stands still */
};

/* Takes both fds (non-blocking). */
struct peer *peer_new(struct loop *loop, int in_fd, int out_fd, const struct peer_limits *limits,
                      const struct peer_ops *ops, void *data);
/* Borrowed; before the first message. */
void peer_set_rules(struct peer *peer, const struct peer_rules *rules);
void peer_set_phase(struct peer *peer, enum peer_phase phase);
/* Who hears all lines from now on; NULL: nobody. */
void peer_set_tap(struct peer *peer, peer_tap_fn *tap_or_null, void *data);
/* No more from or to the plugin; calls that wait are answered PEER_GONE. */
void peer_close(struct peer *peer);
/* Writes what is queued, then closes the plugin's stdin; its stdout is still read. */
void peer_close_input(struct peer *peer);
/* Reads what is left on stdout after the process is gone, then closes. */
void peer_drain(struct peer *peer);
void peer_free(struct peer *peer); /* closes; the memory goes when libuv lets go of it */

enum peer_outcome {
    PEER_RESULT,  /* payload: the result */
    PEER_ERROR,   /* payload: the error object */
    PEER_TIMEOUT, /* the host's deadline: the plugin hangs */
    PEER_EXPIRED, /* the caller's own, shorter deadline */
    PEER_GONE,    /* the plugin went away */
};
/* payload is borrowed from the received line and dies with the callback. */
typedef void peer_done_fn(void *data, enum peer_outcome outcome, struct kg_str payload);
typedef void peer_progress_fn(void *data, struct kg_str params); /* the same; before on_done */

struct peer_call {
    struct kg_str method;
    const struct kg_str *params; /* pieces of one JSON object, sent one after the other */
    size_t params_count;
    uint64_t timeout_ms;           /* the host's: past it the plugin counts as hung; 0: none */
    uint64_t caller_timeout_ms;    /* 0: none; it never stands still */
    peer_done_fn *on_done;         /* called once */
    peer_progress_fn *on_progress; /* or NULL */
    void *data;
};
/* Queues a request; peer_abandon takes *ret_id. Fails with KG_E_BUSY, TOO_LARGE, PLUGIN_DOWN. */
bool peer_takes_calls(const struct peer *peer); /* false: it closed its end, or we ours */
int peer_call(struct peer *peer, const struct peer_call *call, uint64_t *ret_id,
              struct kg_err *err);
/* The id that the next call gets, for a message that has to name it inside, too. */
uint64_t peer_next_id(const struct peer *peer);
/* The caller left: on_done is not called any more; the host's deadline stands. */
void peer_abandon(struct peer *peer, uint64_t id);
/* The same, and no answer is expected any more: its deadline goes, too. */
void peer_forget(struct peer *peer, uint64_t id);
/*
 * What the child says of that call: how far it is, and that in words for whoever made it. False:
 * nobody waits for it any more, or it was further before.
 */
bool peer_progress(struct peer *peer, uint64_t id, double progress, struct kg_str params);
int peer_notify(struct peer *peer, const char *method, struct kg_str params, struct kg_err *err);
/* A line as it is, for whoever tries a child out: an answer to it is one that nobody asked for. */
int peer_say(struct peer *peer, struct kg_str line, struct kg_err *err);
/* What has come of a line without its end, or of one that was too long, cut there. */
struct kg_str peer_rest(const struct peer *peer);
/* The answer to a request of the child; a second one to the same is passed over. */
void peer_answer_error(struct peer *peer, int64_t request, int rpc_code, const char *message);
/*
 * Answers with a result, or with an error object, that is JSON already. One that does not fit into
 * what the plugin may leave unread becomes a short error that says so.
 */
enum peer_answer { PEER_ANSWER_RESULT, PEER_ANSWER_ERROR };
void peer_answer(struct peer *peer, int64_t request, enum peer_answer kind, struct kg_str json);
/* How long, in all, answers were owed to the child. */
uint64_t peer_stood_ms(const struct peer *peer);

struct peer_counters {
    uint64_t bytes_in, bytes_out, notifications_dropped;
    uint32_t in_flight;
    uint32_t debts; /* requests of the other side that are not answered */
};
struct peer_counters peer_counters(const struct peer *peer);

#endif
