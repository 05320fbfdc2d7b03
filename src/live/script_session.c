/*
 * What scripts ask of their session: what was said, as an index without words, and to move it. A
 * request is answered outside of all that the session waits for: reading sees what is committed,
 * and a move is only written down here; it is made when no turn runs and the command is over. There
 * is one place for it, and who comes last has it.
 */
#include "config/config.h"
#include "host/process.h"
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

#define ENTRIES_MAX 20000 /* that are told, the newest of them */

static struct live_session *session_of(struct sessions *sessions,
                                       struct host_script_request *request)
{
    struct kg_err err;
    const char *id = host_script_whom(request)->id;
    struct live_session *live = kg_map_get(sessions->live, kg_str(id));
    if (live != NULL && !sessions->stopping)
        return live;
    kg_fail(&err, KG_E_CONFLICT, "session %s is not in use any more", id);
    host_script_fail(request, &err);
    return NULL;
}

/* -- entries ----------------------------------------------------------------------------------- */

struct listing {
    struct session_job job;
    struct host_script_request *request;
    char *id; /* owned */
    struct kg_buf json;
    struct kg_json_writer writer;
    bool begun; /* the entry by which the session began was told */
};

/* As scripts call them; the first event is that the session began. */
static const char *kind_of(struct listing *listing, enum session_kind kind)
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
    return is_first ? "header" : kinds[kind];
}

static const char *role_of(enum session_kind kind, const char *role)
{
    return kind == SESSION_TOOL_RESULT ? "tool_result"
           : kind == SESSION_TOOL_CALL ? "assistant"
                                       : role;
}

static bool put_entry(void *data, const struct state_entry *row)
{
    struct listing *listing = data;
    struct kg_json_writer *json = &listing->writer;
    enum session_kind kind;
    if (!session_kind_find(kg_str(row->kind), &kind) ||
        (kind == SESSION_INJECTION && !listing->begun))
        return true; /* what was there before anything began is no place to go to */
    const char *word = kind_of(listing, kind);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "id", row->id);
    kg_json_named_text(json, "kind", word);
    kg_json_named_time(json, "ts", row->created_ms);
    if (strcmp(word, "message") == 0)
        kg_json_named_text(json, "role", role_of(kind, row->role));
    kg_json_end(json, '}');
    return true;
}

static int run_listing(struct session_job *job, struct state *state, struct kg_err *err)
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
    listing->writer = kg_json_writer(&listing->json);
    kg_json_begin(&listing->writer, '{');
    kg_json_named_begin(&listing->writer, "entries", '[');
    result = state_entries(state, &query, put_entry, listing, err);
    kg_json_end(&listing->writer, ']');
    kg_json_end(&listing->writer, '}');
    return result;
}

static void on_listed(struct session_job *job, const struct kg_err *err_or_null)
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

static void serve_entries(struct host_script_request *request, const struct kg_node *params,
                          void *data)
{
    struct sessions *sessions = data;
    (void)params;
    if (session_of(sessions, request) == NULL)
        return;
    struct listing *listing = kg_alloc(sizeof(*listing));
    listing->request = request;
    listing->id = kg_strdup(host_script_whom(request)->id);
    listing->job.run = run_listing;
    listing->job.done = on_listed;
    session_store_read(sessions->store, &listing->job);
}

/* -- moves ------------------------------------------------------------------------------------- */

void live_wanted_free(struct live_wanted *wanted)
{
    if (wanted == NULL)
        return;
    free(wanted->target);
    free(wanted->plugin);
    free(wanted);
}

static void want(struct host_script_request *request, const struct kg_node *params, void *data,
                 enum session_act act, bool files)
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
        .plugin = kg_strdup(host_process_status(host_script_asker(request)).plugin),
    };
    host_script_reply(request, KG_STR("{}"));
}

static void serve_fork_to(struct host_script_request *request, const struct kg_node *params,
                          void *data)
{
    want(request, params, data, SESSION_MOVE_FORK, false);
}

static void serve_switch(struct host_script_request *request, const struct kg_node *params,
                         void *data)
{
    want(request, params, data, SESSION_MOVE_SWITCH, false);
}

static void on_answered(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        host_script_fail(data, err_or_null);
    else
        host_script_reply(data, json);
}

/* The session of the script, in the name of who uses it. */
static struct sessions_request request_of(const struct live_session *live, struct host_asker *asker,
                                          struct host_script_request *request)
{
    return (struct sessions_request){
        .asker = asker, .session = kg_str(live->id.text), .on_done = on_answered, .data = request};
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
        want(request, params, data, act, true);
        return;
    }
    if (live == NULL)
        return;
    kg_auto(host_asker_cleanup) struct host_asker *asker = host_asker_new(live->operator_id, NULL);
    const struct sessions_request asked = request_of(live, asker, request);
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
    const struct sessions_request asked = request_of(live, asker, request);
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
    const struct sessions_request asked = request_of(live, asker, request);
    sessions_restore(data, &asked, id.data ? id : KG_STR(""), kg_node_is_true(params, "dry_run"));
}

#define WRITES SCRIPT_POWER(POWER_SESSION_WRITE)
#define FILES  (WRITES | SCRIPT_POWER(POWER_EXEC))
static const struct host_script_service services[] = {
    {"script.session.entries", "kage.session.entries", WRITES, serve_entries},
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
