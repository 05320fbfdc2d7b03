/*
 * The audit log: NDJSON, append-only, in blocks that hash each other, written by a thread of its
 * own. An event that audit_emit took is written before a clean stop; a writer that falls behind
 * slows callers (audit_ready turns false), it never drops.
 */
#ifndef KAGED_AUDIT_H
#define KAGED_AUDIT_H

#include "base/base.h"
#include "loop/loop.h"

/* One row of events.def is the whole truth about one event: its name, when, and its fields. */
enum audit_event {
#define AUDIT_EVENT(symbol, name, when, ...) AUDIT_##symbol,
#include "audit/events.def"
#undef AUDIT_EVENT
    AUDIT_EVENT_COUNT
};

#define AUDIT_FIELDS_MAX 10
struct audit_event_row {
    const char *name;
    const char *when;
    const char *fields[AUDIT_FIELDS_MAX + 1]; /* NULL-ended */
};
const struct audit_event_row *audit_event_row(enum audit_event event);

/* The value of one field, in the order of the event's row. */
struct audit_value {
    enum { AUDIT_NULL, AUDIT_STR, AUDIT_INT, AUDIT_BOOL, AUDIT_RAW } type;
    struct kg_str text; /* AUDIT_STR: any bytes; AUDIT_RAW: valid JSON */
    int64_t number;     /* AUDIT_INT, AUDIT_BOOL */
};
#define AUDIT_V_STR(value)  ((struct audit_value){.type = AUDIT_STR, .text = (value)})
#define AUDIT_V_TEXT(value) audit_text(value)
#define AUDIT_V_INT(value)  ((struct audit_value){.type = AUDIT_INT, .number = (value)})
#define AUDIT_V_BOOL(value) ((struct audit_value){.type = AUDIT_BOOL, .number = (value)})
#define AUDIT_V_RAW(value)  ((struct audit_value){.type = AUDIT_RAW, .text = (value)})
#define AUDIT_V_NULL        ((struct audit_value){.type = AUDIT_NULL})
static inline struct audit_value audit_text(const char *text) /* NULL: null */
{
    return (struct audit_value){.type = text ? AUDIT_STR : AUDIT_NULL, .text = kg_str(text)};
}

struct audit_options {
    const char *dir;           /* state/audit; made if missing */
    const char *state_db;      /* state/kaged.db, where the signed head is kept */
    const char *key_file;      /* state/audit.key, made if missing (0600) */
    uint64_t rotate_bytes;     /* a file past this is followed by a new one */
    unsigned keep;             /* files kept; 0: all */
    uint64_t seal_interval_ms; /* a block is sealed and synced at least this often */
    size_t queue_bytes;        /* past this, audit_ready is false */
};

struct audit;
/* Seals what a crash left unsealed, then starts the writer. */
struct audit *audit_open(struct loop *loop, const struct audit_options *options,
                         struct kg_err *err);
void audit_set_rotation(struct audit *audit, uint64_t rotate_bytes, unsigned keep);
/* Writes, seals and syncs everything, joins the writer. */
void audit_close(struct audit *audit);

/*
 * The request that is being handled: an event that is given none is of this one. Who goes on with
 * its work later takes it along, and puts it back for that time. The lines of its events have its
 * traceparent, if it came with one.
 */
#define AUDIT_REQUEST_MAX 64
struct audit_request {
    char id[AUDIT_REQUEST_MAX + 1];        /* "": none */
    char traceparent[KG_TRACEPARENT_TEXT]; /* the trace that it is part of; "": none is known */
};
struct audit_request audit_request(const struct audit *audit);
/* Returns the one before, which is to be put back. */
struct audit_request audit_swap_request(struct audit *audit, struct audit_request request);

/*
 * Takes one event. request_id is empty where it is that of audit_request, or none. The values
 * follow the row's fields; their number is checked. Loop thread only; never blocks, never writes to
 * disk.
 */
void audit_emit_values(struct audit *audit, enum audit_event event, struct kg_str request_id,
                       const struct audit_value *values, size_t count);
#define audit_emit(audit, event, request_id, ...)                                                  \
    audit_emit_values(audit, event, request_id, (const struct audit_value[]){__VA_ARGS__},         \
                      sizeof((const struct audit_value[]){__VA_ARGS__}) /                          \
                          sizeof(struct audit_value))

/* Bytes that were emitted and are not in the file yet. */
uint64_t audit_waiting_bytes(const struct audit *audit);
/*
 * False while the queue is over its bound or the disk refuses writes; *ret_why (or NULL) says
 * which. This and the next may be asked by any thread.
 */
bool audit_ready(const struct audit *audit, const char **ret_why);
/* Whether it is only slow: the disk takes what it is given, and audit_ready will be true again. */
bool audit_is_behind(const struct audit *audit);
/* Calls back on the loop, once for each wait, when audit_ready turns true again. */
struct audit_waiter {
    struct audit_waiter *next;
    void (*on_ready)(struct audit_waiter *waiter);
    bool waiting;
};
void audit_wait_ready(struct audit *audit, struct audit_waiter *waiter);
void audit_unwait(struct audit *audit, struct audit_waiter *waiter);

/*
 * Posts the message once everything emitted so far is in the file, for readers that must see it; or
 * once the disk has refused it. It comes before audit_close returns.
 */
void audit_flush(struct audit *audit, struct loop_message *when_written);

/* -- reading ----------------------------------------------------------------------------------- */

struct audit_filter {
    struct kg_str plugin;   /* empty: any; matches the field "name" */
    struct kg_str event;    /* empty: any; "plugin.hook.*" matches by prefix */
    int64_t since_ms;       /* wall clock; 0: any */
    struct kg_str after_id; /* only events after the one with this id; empty: any */
    size_t limit;           /* the last `limit` that match (the first ones, with after_id) */
};
/*
 * Reads the files of dir (any thread); appends the matching lines, as they are, each with its \n.
 * At most 10,000 lines (which is also what a limit of 0 means) and 8 MiB.
 */
int audit_query(const char *dir, const struct audit_filter *filter, struct kg_buf *ret_lines,
                struct kg_err *err);

/* Between two lines of the log, for who sends it on. All zero: its very beginning. */
struct audit_position {
    uint32_t file;
    uint64_t offset;
    uint64_t lost;       /* events that were passed over, since their file was the next to go */
    uint64_t lost_files; /* files that were gone before anybody could count what was in them */
};
int audit_end(const char *dir, struct audit_position *ret_position, struct kg_err *err);
uint64_t audit_bytes_after(const char *dir, const struct audit_position *position);
/*
 * Passes over what is gone, and files that rotation removes next if so many are kept; the events of
 * those are counted as lost.
 */
int audit_skip_rotated(const char *dir, unsigned keep, struct audit_position *position,
                       struct kg_err *err);
/*
 * Gives take one event after the other, without its \n, and moves the position behind it. take: 0:
 * taken; positive: it wants no more, and comes back to this one; or a negative errno.
 */
typedef int audit_take_fn(void *data, struct kg_str line, struct kg_err *err);
int audit_read_on(const char *dir, struct audit_position *position, audit_take_fn *take, void *data,
                  struct kg_err *err);

struct audit_report {
    uint64_t files, blocks, events;
    uint64_t unsealed; /* lines after the last seal: what a running daemon has not sealed yet */
    char problem[512]; /* "" when all is well; else the file, the line and what is wrong */
};
void audit_report_write(const struct audit_report *report, struct kg_buf *out); /* as JSON */
/* Checks every block, the chain, and the signed head in the state database. Needs no daemon. */
int audit_verify(const struct audit_options *options, struct audit_report *ret_report,
                 struct kg_err *err);

/* -- following: called on the loop for each event as it is emitted ----------------------------- */

struct audit_listener {
    struct audit_listener *next;
    /* line is without its \n and dies with the callback, which must not emit. */
    void (*on_event)(struct audit_listener *listener, struct kg_str line, enum audit_event event);
};
void audit_listen(struct audit *audit, struct audit_listener *listener);
void audit_unlisten(struct audit *audit, struct audit_listener *listener);

#endif
