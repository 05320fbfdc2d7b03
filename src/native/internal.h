/* What the files of native/ share. */
#ifndef KAGED_NATIVE_INTERNAL_H
#define KAGED_NATIVE_INTERNAL_H

#include "native/native.h"

#include <kaged/system-plugin.h>
#include <uv.h>

#define SLOW_MS       50   /* more than this is named */
#define QUEUE_MAX     256  /* events that wait for one plugin ... */
#define QUEUE_COMMON  128  /* ... and how many of them may be of connections and requests */
#define TIMERS_MAX    64   /* of one plugin */
#define POSTED_MAX    64   /* messages of one plugin that wait for the loop */
#define REQUESTS_MAX  16   /* of one plugin on their way */
#define VALUE_MAX     4096 /* bytes of one field; the rest is cut */
#define DETAILS_MAX   4096 /* of an audit event */
#define TEXT_MAX      1024 /* of a line in the log, and of an event's name */
#define ANSWER_KEPT   ((size_t)65536)
#define START_WAIT_MS 30000 /* for one that is required */
#define STOP_WAIT_MS  2000  /* for what hooks began before */

/* -- doing.c: what a plugin is doing, on disk before it does it -------------------------------- */

#define DOING_TEXT 96
enum doing_where { DOING_THREAD, DOING_LOOP, DOING_PLACES };
struct doing {
    int fd; /* -1: it cannot be written down */
};
/* What the daemon before us left: "hook auth.failed" and the like, or "". */
void doing_open(struct doing *doing, const char *folder, const char *name,
                char ret_left[DOING_TEXT]);
void doing_begin(const struct doing *doing, enum doing_where where, const char *what);
void doing_end(const struct doing *doing, enum doing_where where);
void doing_close(struct doing *doing); /* nothing is being done any more */

/* -- events, see event.c ----------------------------------------------------------------------- */

struct native_event {
    struct kaged_event public; /* first: plugins are given its address */
    struct native_event *next;
    enum native_hook hook;
    struct kg_buf json;
    size_t count;
    char *values[NATIVE_FIELDS_MAX]; /* owned; by the hook's fields; NULL: null */
};
struct native_event *native_event_new(enum native_hook hook, const struct audit_value *values,
                                      size_t count);
void native_event_free(struct native_event *event);
const char *native_event_field(const struct kaged_event *event, const char *name);

/* -- a plugin, see plugin.c -------------------------------------------------------------------- */

enum native_state { NATIVE_STARTING, NATIVE_RUNNING, NATIVE_FAILED, NATIVE_STOPPED };

struct native_timer {
    struct native_timer *next;
    uint64_t due_ms;
    void (*on_due)(void *data);
    void *data;
};

struct native_answer {
    struct native_answer *next;
    int status;
    struct kg_buf body, error;
    void (*on_answer)(void *data, const struct kaged_http_answer *answer);
    void *data;
};

struct native_setting {
    char *name, *text; /* owned */
};

/*
 * Lives until the process ends, and so does what it was loaded from: a thread that the plugin made,
 * or one that never came back from a hook, may still use it. What the lock guards is marked.
 */
struct native_plugin {
    struct kaged kaged; /* first: what the plugin is given */
    struct native_plugin *next;
    struct native *native; /* for the loop only */
    char *name, *path;     /* owned, like the next four */
    char *local_file;      /* where its table is, for messages */
    char *config;
    struct native_setting *settings;
    size_t setting_count;
    char hash[NATIVE_HASH_TEXT];
    bool required;
    uint32_t allowed; /* hooks that its table names, a bit each */
    uint32_t wanted;  /* the loop's: those that it may still want to hear of */
    struct doing doing;
    char left[DOING_TEXT]; /* what it was doing when the daemon before us ended; "": nothing */
    uv_thread_t thread;
    bool has_thread;
    const struct kaged_system_plugin *table; /* of the thread, like the state */
    void *own_state;

    uv_mutex_t lock;   /* around all that follows */
    uv_cond_t wake;    /* its thread: there is something to do */
    uv_cond_t changed; /* who waits for it to be loaded */
    struct loop *loop; /* NULL: closed, and nothing of it is heard any more */
    enum native_state state;
    struct kg_err problem; /* why it failed */
    char version[64];
    uint32_t hooks; /* that it has */
    struct native_event *events, **events_tail;
    size_t event_count, common_count;
    struct native_timer *timers; /* by time */
    size_t timer_count;
    struct native_answer *answers, **answers_tail;
    size_t posted, requests;
    bool ending;      /* the thread is to end */
    bool ended;       /* it did */
    bool left_behind; /* it did not, and nobody waits for it any more */
    uint64_t calls, dropped, slow;
    char slowest[DOING_TEXT];
    uint64_t slowest_ms;
    char now[DOING_TEXT]; /* what its thread is in; "": nothing */
    uint64_t now_since_ms;
    bool now_told; /* that it takes long */
    struct kg_rate slow_logged, dropped_logged;
};
struct native_plugin *native_plugin_new(struct native *native, struct loop *loop,
                                        const struct local_system_plugin *table);
void native_plugin_fail(struct native_plugin *plugin, const struct kg_err *err);
void native_plugin_begin(struct native_plugin *plugin); /* makes its thread */
/* Takes the event over. */
void native_plugin_tell(struct native_plugin *plugin, struct native_event *event);
void native_plugin_answer(struct native_plugin *plugin, struct native_answer *answer);
void native_answer_free(struct native_answer *answer);
/* Around each call of its code; `what` is named if it takes long. */
void native_call_begin(struct native_plugin *plugin, enum doing_where where, const char *what);
void native_call_end(struct native_plugin *plugin, enum doing_where where, const char *what,
                     uint64_t began_ms);
void native_run_stop(struct native_plugin *plugin); /* on its thread, like all of it */
/* On the loop, from its thread: it is loaded, or failed; and it has ended. */
void native_on_loaded(struct native_plugin *plugin);
void native_on_ended(struct native_plugin *plugin);
/* Ends its thread once it has done what waits; nothing more is taken from it. */
void native_plugin_end(struct native_plugin *plugin);
/* Nothing of it is heard from now on; joins its thread, or leaves it behind. */
void native_plugin_close(struct native_plugin *plugin);
/* Names what it has been in for too long, once; whether it is in anything. */
bool native_plugin_look(struct native_plugin *plugin);

/* -- load.c: on the plugin's thread ------------------------------------------------------------ */

int native_load(struct native_plugin *plugin, struct kg_err *err);
kaged_hook *native_hook_of(const struct kaged_system_plugin *table, enum native_hook hook);

/* -- functions.c ------------------------------------------------------------------------------- */

void native_functions_fill(struct kaged *kaged);

/* -- native.c ---------------------------------------------------------------------------------- */

struct helper_pool *native_fetch(struct native *native);
struct audit *native_audit(struct native *native);

#endif
