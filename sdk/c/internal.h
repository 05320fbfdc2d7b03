/*
 * What the parts of the library share. Values of JSON are nodes of base/json, read by a reader of
 * our own; a link is how the engine reaches its host, over stdio or in a test.
 */
#ifndef KAGED_SDK_INTERNAL_H
#define KAGED_SDK_INTERNAL_H

#include "base/json/json.h"
#include "kaged-plugin.h"

#define LINE_BYTES_MAX ((size_t)4 * 1024 * 1024) /* either way, without its newline */

/* -- JSON -------------------------------------------------------------------------------------- */

/* Texts end in NUL. Of a key that comes twice the last value counts. NULL: the host takes no such
 * text. */
struct kg_doc *json_read(struct kg_str text);
struct kg_doc *json_copy(const struct kg_node *node);
static inline const struct kaged_json *json_of(const struct kg_node *node)
{
    return (const struct kaged_json *)node;
}
static inline const struct kg_node *node_of(const struct kaged_json *value)
{
    return (const struct kg_node *)value;
}

/* Numbers with a point, whatever the locale of the author's program. */
#define NUMBER_TEXT 32
double number_read(const char *text);
void number_write(double value, char ret_text[NUMBER_TEXT]); /* finite ones only */

struct kaged_writer {
    struct kg_buf buf;
    struct kg_json_writer json;
    struct kaged_writer *next;
};
struct kaged_writer *writer_new(void);
void writer_free(struct kaged_writer *writer); /* takes NULL */

/* -- the link ---------------------------------------------------------------------------------- */

enum link_read {
    LINK_LINE,     /* *ret_line: valid until the next read */
    LINK_OVERSIZE, /* a line that was too long; it is passed over */
    LINK_TIMEOUT,  /* no line came in time */
    LINK_END,
};
struct link {
    enum link_read (*read)(void *data, int timeout_ms, struct kg_str *ret_line); /* -1: waits */
    /* A whole message with its newline. False: the host does not read any more. */
    bool (*write)(void *data, struct kg_str line);
    void *data;
};

struct stdio_link;
struct stdio_link *stdio_link_new(void);
void stdio_link_free(struct stdio_link *stdio);
struct link stdio_link_of(struct stdio_link *stdio);

/* -- messages ---------------------------------------------------------------------------------- */

enum message_kind {
    MESSAGE_BLANK,
    MESSAGE_REFUSED,
    MESSAGE_REQUEST,
    MESSAGE_NOTIFICATION,
    MESSAGE_RESPONSE
};
struct message {
    enum message_kind kind;
    struct kg_doc *doc;           /* owned; NULL where there is no JSON */
    const struct kg_node *id;     /* NULL: null */
    const char *method;           /* "" if it has a NUL in it: no method is called so */
    const struct kg_node *params; /* NULL: absent */
    int code;                     /* of a refusal */
    const char *problem;
};
void message_read(struct kg_str line, struct message *ret_message);
void message_oversize(struct message *ret_message);
void message_free(struct message *message);

/* -- the engine -------------------------------------------------------------------------------- */

enum engine_state { ENGINE_NEW, ENGINE_GREETED, ENGINE_OPEN };

struct failure {
    int code;            /* 0: none */
    char *message;       /* owned */
    struct kg_doc *data; /* owned, or NULL */
};
void failure_clear(struct failure *failure);

struct engine {
    const struct kaged_plugin *plugin; /* borrowed */
    struct link link;
    enum engine_state state;
    bool ending;
    bool has_storage;
    int64_t last_id;
    struct kg_doc *config; /* what config.update told last; NULL: nothing */
    char **projects;       /* sorted */
    struct message *held;  /* what came while a handler waited for the host */
    size_t held_count;
    kaged_handler *timed; /* of kaged_every(); NULL: none */
    uint64_t interval_ms, due_ms;
    struct kg_buf out;
};
void engine_init(struct engine *engine, const struct kaged_plugin *plugin, struct link link);
void engine_free(struct engine *engine);
/* One line of the host: handled, answered. */
void engine_take(struct engine *engine, struct kg_str line);
void engine_loop(struct engine *engine);
/* Runs what kaged_every() asked for. */
void engine_tick(struct engine *engine);
void engine_shut_down(struct engine *engine);
/* Whether it went out. */
bool engine_notify(struct engine *engine, const char *type, struct kg_str params);
/* Sends a request and waits: 0 and the result's document, or -1 and why. */
int engine_request(struct engine *engine, const char *method, struct kg_str params,
                   struct kg_doc **ret_doc, const struct kg_node **ret_result,
                   struct failure *failure);

/* Whether the request of that id was cancelled, as far as that has come. */
bool engine_is_cancelled(struct engine *engine, const struct kg_node *id);

/* A method of the host's own. */
struct system_row {
    const char *name;
    kaged_handler *run;
    enum engine_state request_from; /* the state from which on a request of that name is taken */
    enum engine_state notification_from;
    bool mute; /* as a notification it says nothing to anybody */
};
const struct system_row *
system_find(const char *method); /* NULL: it is the plugin's, or nobody's */

struct kaged_call {
    struct engine *engine;
    const struct kg_node *id;     /* NULL: it is a notification */
    const struct kg_node *params; /* an object */
    const struct kg_node *config;
    struct kaged_context context;
    struct kaged_writer *result; /* NULL: nothing was written */
    struct failure failure;
    struct kaged_writer *writers; /* owned */
    struct kg_doc **docs;         /* owned: results of the host */
    size_t doc_count;
    struct kg_arena *arena; /* owned, or NULL */
};
/* The params without what is the host's. */
const struct kg_node *call_own_params(struct kaged_call *call, const struct kg_node *params);
void call_free(struct kaged_call *call);

#endif
