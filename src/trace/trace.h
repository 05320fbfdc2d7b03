/*
 * A conversation with a plugin, written down: what both sides said, line by line, and when.
 *   record   the lines of a trace, as they are written
 *   redact   what must not be in them
 *   ring     the last of them
 *   read     a trace file, which may come from anywhere
 */
#ifndef KAGED_TRACE_H
#define KAGED_TRACE_H

#include "base/json/json.h"
#include "manifest/manifest.h"
#include "redact/redact.h"

#define TRACE_VERSION  1
#define TRACE_REDACTED REDACT_MARK

/* -- record: one JSON object a line, the header first ------------------------------------------ */

enum trace_kind {
    TRACE_TO,     /* a line to the plugin */
    TRACE_FROM,   /* a line of the plugin */
    TRACE_STDERR, /* a line that it wrote on stderr */
    TRACE_STATE,  /* it started, exited, ... */
    TRACE_MISSED, /* so many records were left out here */
    TRACE_KIND_COUNT
};
extern const char *const trace_kind_names[TRACE_KIND_COUNT];

struct trace_header {
    const char *plugin;  /* its own name: what replay looks for */
    const char *process; /* plugin or plugin@project */
    const char *version;
    const char *manifest_hash; /* "sha256:..." of its manifest, or NULL */
    int64_t at_ms;             /* wall clock, when t_us is 0 */
    struct kg_str greeting;    /* params of `initialize`, for a trace that begins later */
    const char *config_root, *project_root; /* where these are for the plugin; or NULL */
    struct kg_str config; /* what it was last told by config.update, redacted; or empty */
};
void trace_put_header(struct kg_buf *out, const struct trace_header *header);

/*
 * All of a record but its time, so that readers who began at different times can share it. A line
 * longer than line_max bytes is cut, and the record says how long it was.
 */
void trace_put_line(struct kg_buf *out, enum trace_kind kind, struct kg_str line, bool redacted,
                    size_t line_max);
void trace_put_state(struct kg_buf *out, const char *from, const char *to, const char *reason);
void trace_put_missed(struct kg_buf *out, uint64_t count);
/* The record itself: a line with its end. */
void trace_put_record(struct kg_buf *out, int64_t t_us, struct kg_str body);

/* -- redact ------------------------------------------------------------------------------------ */

/* What is secret about one plugin. Everything is copied. */
struct trace_secret_parts {
    const struct manifest *manifest;
    const struct kg_node *system; /* the operator's own keys in local.toml, or NULL */
    struct kg_str config;         /* what the plugin was told: a JSON object, or empty */
};
struct trace_redactor;
/* What is secret about the plugin is added to the set, now and whenever something is redacted. */
struct trace_redactor *trace_redactor_new(const struct trace_secret_parts *parts,
                                          struct redact_set *secrets);
/* Whether secrets may come by what is said with the plugin, so that one has to listen. */
bool trace_redactor_learns(const struct trace_redactor *redactor);
void trace_redactor_free(struct trace_redactor *redactor); /* takes NULL */
/* Appends the line as it may be shown; true if something in it was hidden. */
bool trace_redact(struct trace_redactor *redactor, enum trace_kind kind, struct kg_str line,
                  struct kg_buf *ret_line);
/* The same of a call's params, or of its result. */
void trace_redact_params(struct trace_redactor *redactor, const char *method, struct kg_str params,
                         struct kg_buf *ret_json);
void trace_redact_result(struct trace_redactor *redactor, const char *method, struct kg_str result,
                         struct kg_buf *ret_json);
/* The same of a configuration, a JSON object. */
void trace_redact_config(struct trace_redactor *redactor, struct kg_str config,
                         struct kg_buf *ret_json);

/* -- ring -------------------------------------------------------------------------------------- */

struct trace_ring;
struct trace_ring *trace_ring_new(void);
void trace_ring_free(struct trace_ring *ring); /* takes NULL */
/* Drops the oldest for as long as it holds more than that. */
void trace_ring_set_limits(struct trace_ring *ring, size_t records_max, size_t bytes_max);
void trace_ring_add(struct trace_ring *ring, uint64_t at_ns, struct kg_str body);
/* Another with the same records, which they share. */
struct trace_ring *trace_ring_copy(const struct trace_ring *ring);
size_t trace_ring_count(const struct trace_ring *ring);
size_t trace_ring_bytes(const struct trace_ring *ring);
uint64_t trace_ring_dropped(const struct trace_ring *ring);
/* The index-th, oldest first; the text lives as long as the ring keeps it. */
struct kg_str trace_ring_at(const struct trace_ring *ring, size_t index, uint64_t *ret_at_ns);

/* -- read: hostile, so bounded and checked; all texts live in the trace ------------------------ */

#define TRACE_FILE_MAX    ((size_t)64 << 20)
#define TRACE_RECORDS_MAX ((size_t)1000000)

struct trace_record {
    enum trace_kind kind;
    size_t number; /* of its line in the file, from 1 */
    int64_t t_us;
    struct kg_str line;  /* of the first three kinds */
    struct kg_str state; /* that it is in now, of TRACE_STATE */
    int64_t count;       /* of TRACE_MISSED */
    bool redacted, cut;
};

struct trace {
    struct kg_arena *arena; /* owned */
    struct kg_str plugin, version, manifest_hash, kaged, at;
    struct kg_str greeting, config;          /* JSON; empty: it has none */
    struct kg_str config_root, project_root; /* empty: it has none */
    struct trace_record *records;            /* owned */
    size_t count;
};
/* Errors name the line: "line 3: ...". */
struct trace *trace_read(struct kg_str text, struct kg_err *err);
void trace_free(struct trace *trace); /* takes NULL */

#endif
