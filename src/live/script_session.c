/*
 * What scripts ask of their session: what was said, as an index without words, to write into it and
 * to move it. A request is answered outside of all that the session waits for: reading sees what is
 * committed, and all else is only written down here; it is done when no turn runs, see
 * script_wishes.c, a move also when the command is over. For that there is one place, and who comes
 * last has it.
 */
#include "config/config.h"
#include "host/process.h"
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

#define ENTRIES_MAX     20000 /* that are told, the newest of them */
#define SHORT_ID_LENGTH 8

static struct live_session *session_of(struct sessions *sessions,
                                       struct host_script_request *request)
{
    struct kg_err err;
    const char *id = host_script_whom(request)->id;
    struct live_session *live = kg_map_get(sessions->live, kg_str(id));
    if (live != NULL && !sessions->stopping)
        return live;
    kg_fail(&err, KG_E_CONFLICT, "session %s is no longer in use", id);
    host_script_fail(request, &err);
    return NULL;
}

/* -- what is read ------------------------------------------------------------------------------ */

struct listing {
    struct session_job job;
    struct host_script_request *request;
    char *id;            /* owned */
    struct state *state; /* while it runs */
    struct kg_buf json;
    struct kg_json_writer writer;
    bool begun; /* the entry by which the session began was told */
};

/* Labels are events, which only their content tells. */
static bool script_session_is_label(const struct listing *listing, const struct state_entry *row)
{
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    struct kg_str event;
    struct kg_err err;
    return state_content_get(listing->state, row->content_number, &content, &err) == 0 &&
           kg_json_member(kg_buf_view(&content), "event", &event) && kg_str_is(event, "\"label\"");
}

/* As scripts call them; the first event is that the session began. */
static const char *script_session_kind_of(struct listing *listing, enum session_kind kind,
                                          const struct state_entry *row)
{
    static const char *const kinds[SESSION_KIND_COUNT] = {
        [SESSION_MESSAGE] = "message",       [SESSION_TOOL_CALL] = "message",
        [SESSION_TOOL_RESULT] = "message",   [SESSION_INJECTION] = "custom",
        [SESSION_SUMMARY] = "compaction",    [SESSION_COMPACTION] = "compaction",
        [SESSION_CHECKPOINT] = "compaction", [SESSION_UNDO] = "compaction",
        [SESSION_EVENT] = "custom",
    };
    bool is_first = kind == SESSION_EVENT && !listing->begun;
    listing->begun |= is_first;
    if (kind == SESSION_EVENT && !is_first && script_session_is_label(listing, row))
        return "label";
    return is_first ? "header" : kinds[kind];
}

static const char *role_of(enum session_kind kind, const char *role)
{
    return kind == SESSION_TOOL_RESULT ? "tool_result"
           : kind == SESSION_TOOL_CALL ? "assistant"
                                       : role;
}

static bool script_session_put_entry(void *data, const struct state_entry *row)
{
    struct listing *listing = data;
    struct kg_json_writer *json = &listing->writer;
    enum session_kind kind;
    if (!session_kind_find(kg_str(row->kind), &kind) ||
        (kind == SESSION_INJECTION && !listing->begun))
        return true; /* what was there before anything began is no place to go to */
    const char *word = script_session_kind_of(listing, kind, row);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "id", row->id);
    kg_json_named_text(json, "kind", word);
    kg_json_named_time(json, "ts", row->created_ms);
    if (strcmp(word, "message") == 0)
        kg_json_named_text(json, "role", role_of(kind, row->role));
    kg_json_end(json, '}');
    return true;
}

static int script_session_run_listing(struct session_job *job, struct state *state,
                                      struct kg_err *err)
{
    struct listing *listing = KG_CONTAINER(job, struct listing, job);
    kg_auto(session_clear) struct session session = {0};
    int result = session_find(state, kg_str(listing->id), &session, err);
    if (result < 0)
        return result;
    bool cut = session.entries > ENTRIES_MAX;
    const struct state_entry_query query = {
        .order = STATE_ENTRIES_UP,
        .session = session.number,
        .after = cut ? (int64_t)session.entries - ENTRIES_MAX : 0,
        .limit = ENTRIES_MAX,
    };
    listing->begun = cut;
    listing->state = state;
    listing->writer = kg_json_writer(&listing->json);
    kg_json_begin(&listing->writer, '{');
    kg_json_named_begin(&listing->writer, "entries", '[');
    result = state_entries(state, &query, script_session_put_entry, listing, err);
    kg_json_end(&listing->writer, ']');
    kg_json_end(&listing->writer, '}');
    return result;
}

static void script_session_on_listed(struct session_job *job, const struct kg_err *err_or_null)
{
    struct listing *listing = KG_CONTAINER(job, struct listing, job);
    if (err_or_null != NULL)
        host_script_fail(listing->request, err_or_null);
    else
        host_script_reply(listing->request, kg_buf_view(&listing->json));
    kg_buf_free(&listing->json);
    free(listing->id);
    free(listing);
}

static void serve_reading(struct host_script_request *request, struct sessions *sessions,
                          live_run_fn *run)
{
    if (session_of(sessions, request) == NULL)
        return;
    struct listing *listing = kg_alloc(sizeof(*listing));
    listing->request = request;
    listing->id = kg_strdup(host_script_whom(request)->id);
    listing->job.run = run;
    listing->job.done = script_session_on_listed;
    session_store_read(sessions->store, &listing->job);
}

static void serve_entries(struct host_script_request *request, const struct kg_node *params,
                          void *data)
{
    (void)params;
    serve_reading(request, data, script_session_run_listing);
}

static void script_session_put_session(struct kg_json_writer *json, const struct session *session)
{
    kg_json_begin(json, '{');
    kg_json_named_str(json, "id",
                      kg_str_first(kg_str(session->id.text + strlen("ses_")), SHORT_ID_LENGTH));
    kg_json_named_text(json, "value", session->id.text);
    kg_json_end(json, '}');
}

/* Those of the same project and operator, the newest first. */
static int run_sessions(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct listing *listing = KG_CONTAINER(job, struct listing, job);
    kg_auto(session_clear) struct session own = {0};
    kg_auto(session_list_clear) struct session_list list = {0};
    int result = session_find(state, kg_str(listing->id), &own, err);
    if (result < 0)
        return result;
    const struct session_list_query query = {.project_id = own.project_id};
    result = session_list(state, &query, &list, err);
    struct kg_json_writer json = kg_json_writer(&listing->json);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "sessions", '[');
    for (size_t i = 0; result == 0 && i < list.count; i++)
        if (strcmp(list.items[i].operator_id, own.operator_id) == 0)
            script_session_put_session(&json, &list.items[i]);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    return result;
}

static void serve_list(struct host_script_request *request, const struct kg_node *params,
                       void *data)
{
    (void)params;
    serve_reading(request, data, run_sessions);
}

/* The agent that scripts hear of; its prompt is for those who may hear words. */
static void serve_config(struct host_script_request *request, const struct kg_node *params,
                         void *data)
{
    const struct live_session *live = session_of(data, request);
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    struct live_agent agent;
    (void)params;
    if (live == NULL)
        return;
    bool known = live_agent_find(live->sessions, live->project_id, "primary", &agent, NULL) == 0;
    kg_json_begin(&json, '{');
    if (known && agent.resolved->model != NULL)
        kg_json_named_text(&json, "model", agent.resolved->model);
    if (known && agent.resolved->prompt != NULL &&
        host_script_may_hear(host_script_asker(request), "before_agent_start"))
        kg_json_named_text(&json, "system_prompt", agent.resolved->prompt);
    kg_json_end(&json, '}');
    host_script_reply(request, kg_buf_view(&result));
}

static void script_session_put_usage(struct kg_json_writer *json, const struct live_session *live)
{
    const struct live_usage *usage = &live->usage;
    struct live_agent agent;
    bool known = live_agent_find(live->sessions, live->project_id, "primary", &agent, NULL) == 0;
    kg_json_named_text(json, "model", usage->model);
    kg_json_named_int(json, "input_tokens", usage->input_tokens);
    kg_json_named_int(json, "output_tokens", usage->output_tokens);
    kg_json_named_int(json, "cache_read_tokens", usage->cached_tokens);
    kg_json_named_int(json, "cache_write_tokens", 0);
    kg_json_named_int(json, "current_context", usage->context_tokens);
    kg_json_named_int(json, "context_window", known ? (int64_t)agent.window_tokens : 0);
    kg_json_named_bool(json, "working", live->run != NULL && !live->run->moves);
}

/* Of the last answer; nothing before there is one. */
static void serve_usage(struct host_script_request *request, const struct kg_node *params,
                        void *data)
{
    const struct live_session *live = session_of(data, request);
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    (void)params;
    if (live == NULL)
        return;
    kg_json_begin(&json, '{');
    if (live->usage.model != NULL) {
        kg_json_named_begin(&json, "usage", '{');
        script_session_put_usage(&json, live);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, '}');
    host_script_reply(request, kg_buf_view(&result));
}

/* -- what waits for the end of the turn ---------------------------------------------------------
 */

static void add_wish(struct host_script_request *request, const struct kg_node *params, void *data,
                     enum live_wish_kind kind)
{
    struct live_session *live = session_of(data, request);
    struct kg_str target = kg_node_text(params, "target"), text = kg_node_text(params, "text");
    if (live == NULL)
        return;
    struct live_wish *wish = kg_alloc(sizeof(*wish));
    wish->kind = kind;
    wish->target = target.data ? kg_str_dup(target) : NULL;
    wish->triggers = kg_node_is_true(params, "trigger_turn");
    kg_buf_str(&wish->text, text);
    live_wish_add(request, live, wish);
}

/* JSON in a text, so that what it is made of is the script's own. */
static void serve_append(struct host_script_request *request, const struct kg_node *params,
                         void *data)
{
    struct kg_str text = kg_node_text(params, "text");
    struct kg_err err;
    size_t offset;
    if (text.data != NULL && text.data[0] == '{' && kg_json_check(text, &offset) == KG_JSON_OK) {
        add_wish(request, params, data, LIVE_WISH_ENTRY);
        return;
    }
    kg_fail(&err, KG_E_INVALID_PARAMS, "an entry is an object");
    host_script_fail(request, &err);
}

static void serve_label(struct host_script_request *request, const struct kg_node *params,
                        void *data)
{
    struct live_session *live = session_of(data, request);
    struct kg_str label = kg_node_text(params, "label");
    struct kg_str target = kg_node_text(params, "target");
    if (live == NULL)
        return;
    struct live_wish *wish = kg_alloc(sizeof(*wish));
    wish->kind = LIVE_WISH_LABEL;
    wish->target = kg_str_dup(target.data ? target : KG_STR(""));
    if (label.data != NULL)
        kg_json_put_string(&wish->text, label);
    else
        kg_buf_text(&wish->text, "null");
    live_wish_add(request, live, wish);
}

static void script_session_serve_fork(struct host_script_request *request,
                                      const struct kg_node *params, void *data)
{
    add_wish(request, params, data, LIVE_WISH_FORK);
}

static void script_session_serve_compact(struct host_script_request *request,
                                         const struct kg_node *params, void *data)
{
    add_wish(request, params, data, LIVE_WISH_COMPACT);
}

static void serve_message(struct host_script_request *request, const struct kg_node *params,
                          void *data)
{
    add_wish(request, params, data, LIVE_WISH_MESSAGE);
}

/* -- moves ------------------------------------------------------------------------------------- */

void live_wanted_free(struct live_wanted *wanted)
{
    if (wanted == NULL)
        return;
    live_wisher_clear(&wanted->wisher);
    free(wanted->target);
    free(wanted);
}

static void script_session_want(struct host_script_request *request, const struct kg_node *params,
                                void *data, enum session_act act, bool files)
{
    struct live_session *live = session_of(data, request);
    if (live == NULL)
        return;
    struct kg_str target = kg_node_text(params, "target");
    live_wanted_free(live->wanted);
    live->wanted = kg_alloc(sizeof(*live->wanted));
    *live->wanted = (struct live_wanted){
        .act = act,
        .files = files,
        .target = kg_str_dup(target.data ? target : KG_STR("")),
        .wisher = live_wisher_of(request),
    };
    host_script_reply(request, KG_STR("{}"));
}

static void serve_fork_to(struct host_script_request *request, const struct kg_node *params,
                          void *data)
{
    script_session_want(request, params, data, SESSION_MOVE_FORK, false);
}

static void serve_switch(struct host_script_request *request, const struct kg_node *params,
                         void *data)
{
    script_session_want(request, params, data, SESSION_MOVE_SWITCH, false);
}

static void script_session_on_answered(void *data, struct kg_str json,
                                       const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        host_script_fail(data, err_or_null);
    else
        host_script_reply(data, json);
}

/* The session of the script, in the name of whoever uses it. */
static struct sessions_request script_session_request_of(const struct live_session *live,
                                                         struct host_asker *asker,
                                                         struct host_script_request *request)
{
    return (struct sessions_request){.asker = asker,
                                     .session = kg_str(live->id.text),
                                     .on_done = script_session_on_answered,
                                     .data = request};
}

static bool find_act(struct kg_str name, enum session_act *ret_act)
{
    for (enum session_act act = 0; act <= SESSION_MOVE_REWIND; act++)
        if (kg_str_is(name, session_act_names[act])) {
            *ret_act = act;
            return true;
        }
    return false;
}

/* undo, redo and rewind, with the files; or what they would do. */
static void serve_rewind(struct host_script_request *request, const struct kg_node *params,
                         void *data)
{
    enum session_act act;
    struct kg_err err;
    if (!find_act(kg_node_text(params, "act"), &act)) {
        kg_fail(&err, KG_E_INVALID_PARAMS, "undo, redo or rewind");
        host_script_fail(request, &err);
        return;
    }
    struct live_session *live =
        kg_node_is_true(params, "dry_run") ? session_of(data, request) : NULL;
    if (!kg_node_is_true(params, "dry_run")) {
        script_session_want(request, params, data, act, true);
        return;
    }
    if (live == NULL)
        return;
    kg_auto(host_asker_cleanup) struct host_asker *asker = host_asker_new(live->operator_id, NULL);
    const struct sessions_request asked = script_session_request_of(live, asker, request);
    const struct sessions_movement wanted = {
        .act = act, .target = kg_node_text(params, "target"), .dry_run = true};
    sessions_move(data, &asked, &wanted);
}

/* -- files ------------------------------------------------------------------------------------- */

static void serve_snapshot(struct host_script_request *request, const struct kg_node *params,
                           void *data)
{
    const struct live_session *live = session_of(data, request);
    (void)params;
    if (live == NULL)
        return;
    kg_auto(host_asker_cleanup) struct host_asker *asker = host_asker_new(live->operator_id, NULL);
    const struct sessions_request asked = script_session_request_of(live, asker, request);
    sessions_snapshot(data, &asked);
}

static void serve_restore(struct host_script_request *request, const struct kg_node *params,
                          void *data)
{
    const struct live_session *live = session_of(data, request);
    struct kg_str id = kg_node_text(params, "id");
    if (live == NULL)
        return;
    kg_auto(host_asker_cleanup) struct host_asker *asker = host_asker_new(live->operator_id, NULL);
    const struct sessions_request asked = script_session_request_of(live, asker, request);
    sessions_restore(data, &asked, id.data ? id : KG_STR(""), kg_node_is_true(params, "dry_run"));
}

#define WRITES SCRIPT_POWER(POWER_SESSION_WRITE)
#define FILES  (WRITES | SCRIPT_POWER(POWER_EXEC))
static const struct host_script_service services[] = {
    {"script.session.entries", "kage.session.entries", WRITES, serve_entries},
    {"script.session.list", "kage.session.list", 0, serve_list},
    {"script.session.config", "kage.config", 0, serve_config},
    {"script.session.usage", "kage.context_usage", 0, serve_usage},
    {"script.session.append", "kage.session.append_entry", 0, serve_append},
    {"script.session.label", "kage.session.set_label", 0, serve_label},
    {"script.session.fork", "kage.session.fork", 0, script_session_serve_fork},
    {"script.session.compact", "kage.compact", 0, script_session_serve_compact},
    {"script.session.message", "kage.send_message", WRITES, serve_message},
    {"script.session.fork_to", "kage.session.fork_to", WRITES, serve_fork_to},
    {"script.session.switch", "kage.session.switch", WRITES, serve_switch},
    {"script.session.rewind", "kage.session.rewind", FILES, serve_rewind},
    {"script.session.snapshot", "kage.session.snapshot", FILES, serve_snapshot},
    {"script.session.restore", "kage.session.restore", FILES, serve_restore},
};

void live_serve_scripts(struct sessions *sessions, bool serve)
{
    host_set_script_services(sessions->host, serve ? services : NULL,
                             serve ? KG_COUNT(services) : 0, sessions);
}
