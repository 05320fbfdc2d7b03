/*
 * What scripts ask for that waits for the end of the turn: entries and labels are written, sessions
 * are forked, contexts compacted, messages said. All but messages in the order in which they were
 * asked for; a move comes behind those, and messages come last. A wish is of the process that made
 * it: where that ended since, or is exchanged for what its file has become, the wish is dropped.
 *
 * A message is said within the turn that runs, before its next step, or else begins a turn. How
 * many turns scripts begin without a person in between is bounded.
 */
#include "config/config.h"
#include "host/process.h"
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

#define WISHES_MAX        64                 /* that wait, of one session */
#define WISHES_PER_MINUTE 240                /* of one session */
#define WISH_BYTES_MAX    ((size_t)64 << 10) /* of what is written or said */
#define TARGET_BYTES_MAX  128
#define SCRIPT_TURNS_MAX  8 /* that scripts begin, one after the other */

/* -- who asked --------------------------------------------------------------------------------- */

struct live_wisher live_wisher_of(const struct host_script_request *request)
{
    struct host_process *process = host_script_asker(request);
    return (struct live_wisher){kg_strdup(host_process_status(process).plugin),
                                host_script_start(process)};
}

void live_wisher_clear(struct live_wisher *wisher)
{
    kg_free(&wisher->plugin);
}

bool live_wisher_stands(const struct live_session *live, const struct live_wisher *wisher,
                        const char *what)
{
    const struct host_plugin *script =
        host_plugin_find(live->sessions->host, kg_str(wisher->plugin));
    const struct host_process *process = script ? live_script_process(live, script) : NULL;
    if (process != NULL && wisher->start != 0 && host_script_start(process) == wisher->start)
        return true;
    kg_log_about(KG_WARN, wisher->plugin,
                 "session %s: %s that it asked for is dropped: its process was exchanged or ended",
                 live->id.text, what);
    return false;
}

/* -- the list ---------------------------------------------------------------------------------- */

static void script_wishes_wish_free(struct live_wish *wish)
{
    live_wisher_clear(&wish->wisher);
    kg_buf_free(&wish->text);
    free(wish->target);
    free(wish);
}

void live_wishes_free(struct live_session *live)
{
    while (live->wishes != NULL) {
        struct live_wish *wish = live->wishes;
        live->wishes = wish->next;
        script_wishes_wish_free(wish);
    }
}

/* The first of messages, or of what is none. Owned; NULL: there is none. */
static struct live_wish *wish_take(struct live_session *live, bool messages)
{
    for (struct live_wish **at = &live->wishes; *at != NULL; at = &(*at)->next) {
        struct live_wish *wish = *at;
        if ((wish->kind == LIVE_WISH_MESSAGE) != messages)
            continue;
        *at = wish->next;
        return wish;
    }
    return NULL;
}

static size_t wish_count(const struct live_session *live)
{
    size_t count = 0;
    for (const struct live_wish *at = live->wishes; at != NULL; at = at->next)
        count++;
    return count;
}

static int check_rate(struct live_session *live, struct kg_err *err)
{
    uint64_t now_ms = loop_now_ms(live->sessions->loop);
    if (now_ms - live->wishes_since_ms >= 60000) {
        live->wishes_since_ms = now_ms;
        live->wishes_made = 0;
    }
    if (wish_count(live) >= WISHES_MAX)
        return kg_fail(err, KG_E_BUSY, "%d requests of scripts wait for the end of the turn",
                       WISHES_MAX);
    if (live->wishes_made++ < WISHES_PER_MINUTE)
        return 0;
    return kg_fail(err, KG_E_BUSY, "scripts of a session ask for at most %d such things a minute",
                   WISHES_PER_MINUTE);
}

void live_wish_add(struct host_script_request *request, struct live_session *live,
                   struct live_wish *wish)
{
    struct kg_err err = {0};
    struct live_wish **end = &live->wishes;
    if (wish->text.length > WISH_BYTES_MAX)
        kg_fail(&err, KG_E_TOO_LARGE, "it has more than %zu bytes", WISH_BYTES_MAX);
    else if (wish->target != NULL && strlen(wish->target) > TARGET_BYTES_MAX)
        kg_fail(&err, KG_E_INVALID_PARAMS, "that is not the id of an entry");
    else
        check_rate(live, &err);
    if (err.code != KG_OK) {
        script_wishes_wish_free(wish);
        host_script_fail(request, &err);
        return;
    }
    wish->wisher = live_wisher_of(request);
    while (*end != NULL)
        end = &(*end)->next;
    *end = wish;
    host_script_reply(request, KG_STR("{}"));
    live_serve_wishes(live);
}

/* -- entries and labels ------------------------------------------------------------------------ */

struct writing {
    struct live_op op;
    char *target; /* owned; the entry that is labelled; NULL: none is */
    struct kg_buf text, content;
    struct session_draft draft;
    char *plugin; /* owned */
};

static struct writing *writing_of(struct live_op *op)
{
    return KG_CONTAINER(op, struct writing, op);
}

static void clear_writing(struct live_op *op)
{
    struct writing *writing = writing_of(op);
    kg_buf_free(&writing->text);
    kg_buf_free(&writing->content);
    free(writing->target);
    free(writing->plugin);
}

/* On the store's thread: the label is of the one entry whose id begins so. */
static int script_wishes_run_find(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct writing *writing = KG_CONTAINER(job, struct writing, op.work.job);
    kg_auto(session_entries_clear) struct session_entries found = {0};
    int result = session_entry_find(state, writing->op.work.live->id.text, kg_str(writing->target),
                                    &found, err);
    if (result == 0)
        kg_replace(&writing->target, found.items[0].id.text);
    return result < 0 ? kg_wrap(err, result, "set a label") : 0;
}

/* No model sees it: it is an event, with the words of the script inside. */
static void write_found(struct live_op *op)
{
    struct writing *writing = writing_of(op);
    struct kg_json_writer json = kg_json_writer(&writing->content);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "event", writing->target ? "label" : "custom");
    kg_json_named_text(&json, "plugin", writing->plugin);
    if (writing->target != NULL)
        kg_json_named_text(&json, "entry", writing->target);
    kg_json_named_raw(&json, writing->target ? "label" : "entry", kg_buf_view(&writing->text));
    kg_json_end(&json, '}');
    writing->draft = (struct session_draft){.agent = "primary",
                                            .kind = SESSION_EVENT,
                                            .role = SESSION_SYSTEM,
                                            .content = kg_buf_view(&writing->content)};
    live_append(&op->work, &writing->draft, 1, NULL, live_op_then(op, live_op_answer));
}

static void write_open(struct live_op *op)
{
    if (writing_of(op)->target != NULL)
        live_op_read(op, script_wishes_run_find, write_found);
    else
        write_found(op);
}

static void on_served(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    (void)data, (void)json;
    if (err_or_null != NULL)
        kg_log(KG_WARN, "what a script asked for was not done: %s", err_or_null->message);
}

static void serve_writing(struct live_session *live, struct host_asker *asker,
                          struct live_wish *wish)
{
    const struct sessions_request request = {
        .asker = asker, .session = kg_str(live->id.text), .on_done = on_served};
    struct writing *writing =
        live_op_new(sizeof(*writing), live->sessions, &request, clear_writing);
    writing->text = wish->text;
    wish->text = (struct kg_buf){0};
    writing->target = kg_steal(&wish->target);
    writing->plugin = kg_strdup(wish->wisher.plugin);
    if (live_op_admit(&writing->op, true))
        live_op_open(&writing->op, write_open);
}

/* -- forks and compactions --------------------------------------------------------------------- */

static void script_wishes_serve_fork(struct live_session *live, struct host_asker *asker,
                                     struct live_wish *wish)
{
    const struct sessions_request request = {
        .asker = asker, .session = kg_str(live->id.text), .on_done = on_served};
    sessions_fork(live->sessions, &request, kg_str(wish->target ? wish->target : ""));
}

static void script_wishes_on_compacted(void *data, const struct live_compacted *compacted_or_null,
                                       const struct kg_err *err_or_null)
{
    (void)data, (void)compacted_or_null;
    on_served(NULL, KG_STR_NULL, err_or_null);
}

static void script_wishes_serve_compact(struct live_session *live, struct host_asker *asker,
                                        struct live_wish *wish)
{
    const struct live_compact compact = {
        .asker = asker,
        .agent = "primary",
        .trigger = "manual",
        .prompt = wish->text.length > 0 ? kg_buf_terminate(&wish->text) : NULL};
    live_compact(live, &compact, script_wishes_on_compacted, NULL);
}

/* -- messages ---------------------------------------------------------------------------------- */

/* Nobody reads such a turn as it runs; what is said in it is in the session. */
static void script_wishes_on_refused(void *data, const struct kg_err *err)
{
    (void)data;
    kg_log(KG_WARN, "a turn that a script wanted did not begin: %s", err->message);
}

static void script_wishes_on_line(void *data, struct kg_str line)
{
    (void)data, (void)line;
}

static void script_wishes_on_end(void *data)
{
    (void)data;
}

const struct turn_ops live_script_turn_ops = {script_wishes_on_refused, script_wishes_on_line,
                                              script_wishes_on_end};

bool live_message_waits(const struct live_session *live)
{
    for (const struct live_wish *at = live->wishes; at != NULL; at = at->next)
        if (at->kind == LIVE_WISH_MESSAGE && at->triggers)
            return true;
    return false;
}

bool live_message_take(struct live_session *live, char **ret_plugin, struct kg_buf *ret_text)
{
    for (struct live_wish *wish; (wish = wish_take(live, true)) != NULL;
         script_wishes_wish_free(wish)) {
        if (!live_wisher_stands(live, &wish->wisher, "a message"))
            continue;
        *ret_plugin = kg_steal(&wish->wisher.plugin);
        kg_buf_free(ret_text);
        *ret_text = wish->text;
        wish->text = (struct kg_buf){0};
        script_wishes_wish_free(wish);
        return true;
    }
    return false;
}

static void script_wishes_begin_turn(struct live_session *live, struct host_asker *asker)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_free) char *plugin = NULL;
    struct kg_err err = {0};
    const struct sessions_request request = {.asker = asker, .session = kg_str(live->id.text)};
    if (!live_message_waits(live))
        return;
    if (live->script_turns >= SCRIPT_TURNS_MAX) {
        if (live->script_turns++ == SCRIPT_TURNS_MAX)
            kg_log(KG_WARN, "session %s: scripts begin no more turns until somebody says something",
                   live->id.text);
        return;
    }
    if (!live_message_take(live, &plugin, &text))
        return;
    live->script_turns++;
    kg_log_about(KG_INFO, plugin, "session %s: it begins a turn", live->id.text);
    if (turn_start(live->sessions, &request, kg_buf_view(&text),
                   host_config(live->sessions->host)->sessions_steps_max, &live_script_turn_ops,
                   NULL, &err) == NULL)
        script_wishes_on_refused(NULL, &err);
}

void live_script_turn_ended(struct live_session *live, bool well)
{
    if (!well)
        live->script_turns = SCRIPT_TURNS_MAX;
}

/* -- between turns ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*serve)(struct live_session *live, struct host_asker *asker, struct live_wish *wish);
} kinds[] = {
    [LIVE_WISH_ENTRY] = {"an entry", serve_writing},
    [LIVE_WISH_LABEL] = {"a label", serve_writing},
    [LIVE_WISH_FORK] = {"a fork", script_wishes_serve_fork},
    [LIVE_WISH_COMPACT] = {"a compaction", script_wishes_serve_compact},
};

void live_serve_wishes(struct live_session *live)
{
    struct live_wish *wish;
    kg_auto(host_asker_cleanup) struct host_asker *asker = NULL;
    if (live->run != NULL || live->sessions->stopping || live->state == SESSION_CLOSED ||
        (live->wishes == NULL && live->wanted == NULL))
        return;
    asker = host_asker_new(live->operator_id, NULL);
    for (; (wish = wish_take(live, false)) != NULL; script_wishes_wish_free(wish))
        if (live_wisher_stands(live, &wish->wisher, kinds[wish->kind].name))
            kinds[wish->kind].serve(live, asker, wish);
    if (live->commands > 0)
        return; /* what it asks for besides comes when it is over */
    if (live->wanted != NULL)
        live_move_if_wanted(live); /* and messages behind it */
    else
        script_wishes_begin_turn(live, asker);
}
