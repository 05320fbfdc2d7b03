/*
 * kaged-model: asks models over the network. A request in a neutral form becomes a body of the
 * provider's API; the stream that comes back becomes neutral events. What a provider sends may be
 * hostile: everything is bounded, and nothing of it is passed on as it is.
 *
 *   stdin line -> request -> neutral -> dialect: body -> curl
 *   curl -> sse: events -> dialect: pieces -> answer: neutral events -> stdout lines
 */
#ifndef KAGED_MODEL_INTERNAL_H
#define KAGED_MODEL_INTERNAL_H

#include "base/json/json.h"
#include "base/sse.h"
#include "model/worker/limits.h"

/* -- failures ---------------------------------------------------------------------------------- */

struct failure {
    enum model_failure code; /* MODEL_OK: there is none */
    int status;              /* of HTTP, or 0 */
    int64_t retry_after_ms;  /* what the provider asked for; 0: it did not say */
    char message[512];
};

const char *failure_name(enum model_failure code);
bool failure_may_pass(enum model_failure code); /* whether another try may help */
/* Keeps the first. Returns -1, for whoever stops then. */
int failure_set(struct failure *failure, enum model_failure code, const char *format, ...)
    KG_PRINTF(3, 4);
/* What an answer with another status than 200 says. */
void failure_from_answer(struct failure *failure, int status, struct kg_str body,
                         char *const *secrets);
/* An error, an object or a text, in the middle of a stream. */
void failure_from_event(struct failure *failure, const struct kg_node *error, char *const *secrets);
/* ": " and a provider's words, if there are any: cut, printable, without the secrets. */
void failure_put_words(struct kg_buf *out, struct kg_str text, char *const *secrets);

/* -- requests ---------------------------------------------------------------------------------- */

struct dialect;

/* What is asked, checked; nodes are borrowed from the request's document. */
struct neutral {
    struct kg_str model, system;
    const struct kg_node *messages; /* an array */
    const struct kg_node *tools;    /* an array, or NULL */
    int64_t max_tokens;             /* 0: not said */
    struct kg_str temperature;      /* a number, or empty */
    bool reasoning;
};
/* Fails if it does not fit. */
int neutral_read(const struct kg_node *params, struct neutral *ret_neutral,
                 struct failure *failure);
/* The member if it is a string, else empty. */
/* The members of a tool's definition: what it is called, what for, and with which parameters. */
void neutral_put_tool(struct kg_json_writer *json, const struct kg_node *tool,
                      const char *schema_key);

struct bounds {
    int64_t connect_ms, idle_ms, total_ms;
    int64_t retries;
    int64_t answer_bytes; /* as received, over all events */
    int64_t event_bytes;
    int64_t tool_calls;
    int64_t argument_bytes; /* of one tool call */
};

struct request {
    int64_t id;
    const struct dialect *dialect;
    char *url;
    char **headers; /* NULL-ended, "Name: value" */
    char **secrets; /* NULL-ended; never to be shown */
    struct kg_buf body;
    struct bounds bounds;
};
struct request *request_new(int64_t id, struct kg_str params, struct failure *failure);
void request_free(struct request *request);

/* -- answers ----------------------------------------------------------------------------------- */

struct tool_part {
    int64_t index; /* the provider's */
    char *id;      /* owned; NULL: none was said */
    struct kg_buf name, arguments;
};

/* One attempt to have a request answered. */
struct answer {
    const struct request *request;
    struct kg_buf *lines; /* where events go, one line each; borrowed */
    struct kg_sse *sse;
    struct kg_buf text;    /* what is gathered for the next delta */
    const char *text_kind; /* "delta" or "reasoning" */
    struct tool_part *parts;
    size_t part_count;
    int64_t bytes;
    int64_t input_tokens, cached_tokens, output_tokens; /* negative: not said */
    const char *stop_reason;                            /* NULL: not said */
    bool ended;                                         /* the stream says that this was all */
    bool told;                                          /* something was passed on */
    struct failure failure;
};
struct answer *answer_new(const struct request *request, struct kg_buf *lines);
void answer_free(struct answer *answer);
/* Bytes of the stream. Negative: it failed, and no more may be fed. */
int answer_feed(struct answer *answer, struct kg_str bytes);
/* The end of the stream: what was gathered is passed on, and the usage; negative: it was cut. */
int answer_finish(struct answer *answer);
/* Of a local dialect: the whole, at once. */
void answer_locally(const struct request *request, struct kg_buf *lines);
/* The final line of a request: {"stop_reason":...}, or why there is none. */
void answer_put_result(struct kg_buf *lines, int64_t id, const char *stop_reason);
void answer_put_failure(struct kg_buf *lines, int64_t id, const struct failure *failure);
/* That another try follows after that time. */
void answer_put_retry(struct kg_buf *lines, int64_t id, const struct failure *failure,
                      uint64_t after_ms);

/* What the dialects build an answer of. Negative: a bound was passed. */
void answer_add_text(struct answer *answer, const char *kind, struct kg_str text);
struct tool_part *answer_part(struct answer *answer, int64_t index, struct kg_str id);
int answer_add_name(struct answer *answer, struct tool_part *part, struct kg_str name);
int answer_add_arguments(struct answer *answer, struct tool_part *part, struct kg_str piece);

/* -- dialects ---------------------------------------------------------------------------------- */

struct dialect {
    const char *name;
    bool is_local;          /* nobody is asked: what write_body writes is the answer's stream */
    const char *path;       /* below the base address */
    const char *key_header; /* what goes before the key */
    const char *own_header; /* sent with every request, or NULL */
    void (*write_body)(const struct neutral *neutral, struct kg_buf *out);
    /* The data of one event, an object. Negative: failed. */
    int (*take_event)(struct answer *answer, const struct kg_node *event);
};
extern const struct dialect dialect_openai, dialect_anthropic, dialect_demo;
int openai_take_event(struct answer *answer, const struct kg_node *event);

/* -- transfers --------------------------------------------------------------------------------- */

struct transfers;
struct transfers *transfers_new(struct kg_buf *lines, struct kg_err *err);
void transfers_free(struct transfers *transfers); /* ends all of them; nothing is answered */
void transfers_start(struct transfers *transfers, struct request *request); /* takes it */
void transfers_cancel(struct transfers *transfers, int64_t id);
/* Waits for the network and for `fd` to be readable, moves everything on; true if fd is. */
bool transfers_turn(struct transfers *transfers, int fd);

#endif
