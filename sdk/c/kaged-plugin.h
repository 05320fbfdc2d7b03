/*
 * Plugins for kaged in C. Describe the plugin in a `struct kaged_plugin`, and let kaged_run() speak
 * with the host: one call at a time, each to its handler. Link libkaged-plugin.a (pkg-config
 * kaged-plugin). Whatever lives as long as a call is freed with it: there is nothing to free here.
 */
#ifndef KAGED_PLUGIN_H
#define KAGED_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KAGED_API_VERSION 1

/* A plugin's own codes are from -32099 to -32000. */
enum kaged_code {
    KAGED_PARSE_ERROR = -32700,
    KAGED_INVALID_REQUEST = -32600,
    KAGED_METHOD_NOT_FOUND = -32601,
    KAGED_INVALID_PARAMS = -32602,
    KAGED_INTERNAL = -32603,
    KAGED_PLUGIN_ERROR = -32000,
    KAGED_CAPABILITY_DENIED = -32001,
    KAGED_NOT_INITIALIZED = -32002,
    KAGED_STORAGE_DENIED = -32003,
    KAGED_CONFIG_INVALID = -32004,
    KAGED_BUSY = -32005,
    KAGED_NOT_APPLICABLE = -32006,
};

struct kaged_call;

/* -- the plugin -------------------------------------------------------------------------------- */

/*
 * 0: done; the result is what was written with kaged_result() or kaged_reply(), else null.
 * Anything else: failed, with the error of kaged_fail(), or with an internal error.
 */
typedef int kaged_handler(struct kaged_call *call);

struct kaged_entry {
    const char *name; /* NULL ends a table */
    kaged_handler *run;
};

/* Tables and lists may be NULL. */
struct kaged_plugin {
    const char *name; /* these four are the manifest's */
    const char *version;
    const char *const *capabilities;  /* a list, ended by NULL */
    const char *const *notifications; /* a list, ended by NULL */
    const struct kaged_entry *methods;
    const struct kaged_entry *tools;       /* by their short names */
    const struct kaged_entry *hooks;       /* "on_session_start", ... */
    kaged_handler *on_config;              /* kaged_params() is the configuration; may refuse it */
    kaged_handler *on_project_activated;   /* params: project, config */
    kaged_handler *on_project_deactivated; /* params: project */
    kaged_handler *on_ready;               /* the handshake is done: storage works */
    void (*on_shutdown)(void *data);
    void *data; /* for kaged_data() */
};

/*
 * Serves the host on stdin and stdout until it ends; what main() should return. stdout becomes
 * stderr, and stdin empty, for everybody else: a stray print cannot break the protocol.
 */
int kaged_run(const struct kaged_plugin *plugin);

/* -- values of JSON: they live as long as the call --------------------------------------------- */

struct kaged_json;
enum kaged_type {
    KAGED_NULL, /* also of a value that is not there: NULL */
    KAGED_BOOL,
    KAGED_NUMBER,
    KAGED_STRING,
    KAGED_ARRAY,
    KAGED_OBJECT
};
enum kaged_type kaged_json_type(const struct kaged_json *value);
/* The member of that name; NULL if there is none, or if this is no object. */
const struct kaged_json *kaged_json_get(const struct kaged_json *object, const char *key);
/* Items of an array, members of an object; 0 of anything else. */
size_t kaged_json_count(const struct kaged_json *value);
const struct kaged_json *kaged_json_at(const struct kaged_json *value, size_t index);
const char *kaged_json_key_at(const struct kaged_json *object, size_t index);
/* Ends in NUL; NULL if it is no string. A text may have NULs in it: then the length tells. */
const char *kaged_json_text(const struct kaged_json *value);
size_t kaged_json_length(const struct kaged_json *value);
/* False if it is no number, or none that fits. */
bool kaged_json_int(const struct kaged_json *value, int64_t *ret_value);
bool kaged_json_double(const struct kaged_json *value, double *ret_value);
bool kaged_json_is_true(const struct kaged_json *value);

/* -- values to give ---------------------------------------------------------------------------- */

struct kaged_value {
    enum {
        KAGED_V_NULL,
        KAGED_V_BOOL,
        KAGED_V_INT,
        KAGED_V_DOUBLE,
        KAGED_V_TEXT,
        KAGED_V_BLOB,
        KAGED_V_JSON
    } kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            const void *data;
            size_t length;
        } bytes;
        const struct kaged_json *json;
    } as;
};
struct kaged_value kaged_null(void);
struct kaged_value kaged_bool(bool value);
struct kaged_value kaged_int(int64_t value);
struct kaged_value kaged_double(double value);
struct kaged_value kaged_text(const char *text); /* NULL: null */
struct kaged_value kaged_text_n(const char *text, size_t length);
struct kaged_value kaged_blob(const void *data, size_t length); /* for storage */
struct kaged_value kaged_json(const struct kaged_json *value);

struct kaged_field {
    const char *key; /* NULL ends a list */
    struct kaged_value value;
};
/* KAGED_FIELDS({"name", kaged_text(name)}, {"size", kaged_int(3)}) */
#define KAGED_FIELDS(...) ((const struct kaged_field[]){__VA_ARGS__, {NULL, {KAGED_V_NULL, {0}}}})

/* -- a writer of JSON: puts the commas itself -------------------------------------------------- */

struct kaged_writer;
struct kaged_writer *kaged_writer(struct kaged_call *call); /* freed with the call */
void kaged_begin_object(struct kaged_writer *writer);
void kaged_end_object(struct kaged_writer *writer);
void kaged_begin_array(struct kaged_writer *writer);
void kaged_end_array(struct kaged_writer *writer);
void kaged_key(struct kaged_writer *writer, const char *key);
void kaged_put(struct kaged_writer *writer, struct kaged_value value);
void kaged_put_field(struct kaged_writer *writer, const char *key, struct kaged_value value);
void kaged_put_fields(struct kaged_writer *writer,
                      const struct kaged_field *fields); /* an object */

/* -- a call ------------------------------------------------------------------------------------ */

/* Texts are NULL where nothing was given. The three in the middle are all set, or none. */
struct kaged_context {
    const char *operator_id;
    const char *project_id;
    const char *agent_path;
    const char *session_id;
    const char *request_id;
    const char *project_root; /* only in a process that serves one project */
};

const struct kaged_json *kaged_params(struct kaged_call *call); /* an object */
const struct kaged_context *kaged_context(struct kaged_call *call);
/* The configuration that holds for this call: an object. */
const struct kaged_json *kaged_config(struct kaged_call *call);
/* The active projects, sorted; a list, ended by NULL. */
const char *const *kaged_projects(struct kaged_call *call);
bool kaged_has_storage(struct kaged_call *call);
void *kaged_data(struct kaged_call *call);

/* The writer of the result. */
struct kaged_writer *kaged_result(struct kaged_call *call);
/* The result is this object. Returns 0. */
int kaged_reply(struct kaged_call *call, const struct kaged_field *fields);
/*
 * The result of a compactor to pre_compact. messages: the whole new list; superseded: the messages
 * that it replaces, of which the ids are taken; summary may be NULL. Returns 0.
 */
int kaged_reply_compacted(struct kaged_call *call, const struct kaged_json *messages,
                          const struct kaged_json *superseded, const char *summary);

/* The call fails so. Each returns -1. on_config's default is KAGED_CONFIG_INVALID, with code 0. */
int kaged_fail(struct kaged_call *call, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int kaged_fail_with(struct kaged_call *call, int code, const struct kaged_field *data,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
/* "invalid params: ", and what is wrong. */
int kaged_invalid_params(struct kaged_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What a failed request to the host left; a handler that goes on forgets it. */
int kaged_error_code(struct kaged_call *call); /* 0: none */
const char *kaged_error_message(struct kaged_call *call);
const struct kaged_json *kaged_error_data(struct kaged_call *call); /* NULL: none */
void kaged_error_forget(struct kaged_call *call);

/* -- storage: each waits for the host. 0, or -1 with the host's error as the call's ------------ */

struct kaged_statement {
    const char *sql;
    const struct kaged_value *params;
    size_t count;
};
/* The values for the marks of a statement: KAGED_PARAMS(kaged_int(1), kaged_text("x")) */
#define KAGED_PARAMS(...)                                                                          \
    (const struct kaged_value[]){__VA_ARGS__},                                                     \
        sizeof((const struct kaged_value[]){__VA_ARGS__}) / sizeof(struct kaged_value)
#define KAGED_NO_PARAMS NULL, 0

/*
 * Results, as the host gives them: {columns, rows}; {rows_affected, last_insert_rowid}; {results};
 * {tables}. ret_result may be NULL.
 */
int kaged_query(struct kaged_call *call, const char *sql, const struct kaged_value *params,
                size_t count, const struct kaged_json **ret_result);
int kaged_exec(struct kaged_call *call, const char *sql, const struct kaged_value *params,
               size_t count, const struct kaged_json **ret_result);
int kaged_batch(struct kaged_call *call, const struct kaged_statement *statements, size_t count,
                const struct kaged_json **ret_result); /* all of them or none */
int kaged_schema(struct kaged_call *call, const struct kaged_json **ret_result);
/* The bytes of a blob in a row, decoded; NULL if it is none. */
const void *kaged_json_blob(struct kaged_call *call, const struct kaged_json *value,
                            size_t *ret_length);

/*
 * -- questions: the same. Params are an object that the writer holds: {title, schema} or {title,
 * url} for a person, with kaged:ask; {messages, systemPrompt, maxTokens} for the model, with
 * kaged:sample. Results: {action, content}, action being accept, decline or cancel; {role, content,
 * model}, as MCP has it.
 */
int kaged_ask(struct kaged_call *call, struct kaged_writer *params,
              const struct kaged_json **ret_answer);
int kaged_sample(struct kaged_call *call, struct kaged_writer *params,
                 const struct kaged_json **ret_result);

/* -- to the host and to the log ---------------------------------------------------------------- */

/*
 * `run` is called each time that so many milliseconds have passed, between calls; it has no params.
 * A later kaged_every() takes its place, and one with 0 ends it.
 */
void kaged_every(struct kaged_call *call, unsigned milliseconds, kaged_handler *run);
/* params: an object, or NULL. 0, or -1 if it cannot be sent. */
int kaged_notify(struct kaged_call *call, const char *type, struct kaged_writer *params);

/*
 * Tells who called how far it is; the figure does not fall. total: 0 if it is not known; message:
 * or NULL. 0, or -1 if it cannot be sent.
 */
int kaged_progress(struct kaged_call *call, double progress, double total, const char *message);

/*
 * Whether who called has left: the work may end, and the call is answered all the same. Reads what
 * has come by now, and waits for nothing.
 */
bool kaged_cancelled(struct kaged_call *call);

enum kaged_level { KAGED_DEBUG, KAGED_INFO, KAGED_WARN, KAGED_ERROR };
/* A line of JSON on stderr. fields may be NULL. */
void kaged_log(enum kaged_level level, const char *message, const struct kaged_field *fields);

/* -- a host in memory, for unit tests ---------------------------------------------------------- */

struct kaged_test;
/*
 * The handshake, and config.update if there is a configuration (JSON). NULL if the plugin refuses
 * it; then stderr says why.
 */
struct kaged_test *kaged_test_start(const struct kaged_plugin *plugin, const char *config);
void kaged_test_stop(struct kaged_test *test); /* shuts the plugin down; takes NULL */
/*
 * Answers the plugin's requests: the result as JSON, or NULL after kaged_test_refuse(). Without it
 * all are refused.
 */
typedef const char *kaged_test_answer(void *data, struct kaged_test *test, const char *method,
                                      const struct kaged_json *params);
void kaged_test_on_request(struct kaged_test *test, kaged_test_answer *answer, void *data);
void kaged_test_refuse(struct kaged_test *test, int code, const char *message);
/* A call by its whole name; params (JSON) may be NULL. The result, or NULL if it failed. */
const struct kaged_json *kaged_test_call(struct kaged_test *test, const char *method,
                                         const char *params);
/* The result of the last call as text. */
const char *kaged_test_result(struct kaged_test *test);
int kaged_test_error(struct kaged_test *test); /* the code of the last call's error; 0: none */
const char *kaged_test_message(struct kaged_test *test);
/* One line as it is; the lines that came back, or NULL if none did. */
const char *kaged_test_line(struct kaged_test *test, const char *line);
/* The time of kaged_every() has come. */
void kaged_test_tick(struct kaged_test *test);
/* The notifications that came so far, oldest first; NULL past the last. */
const struct kaged_json *kaged_test_notification(struct kaged_test *test, size_t index);

#ifdef __cplusplus
}
#endif

#endif
