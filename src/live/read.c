/* Reading sessions: what is large is written as JSON on the store's thread, not on the loop. */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

/* -- one, and many ----------------------------------------------------------------------------- */

struct listing {
    struct live_op op;
    char *project_id, *operator_id, *state, *before; /* owned; NULL: any */
    size_t limit;
    struct session_list list;
    struct session_agents *agents; /* owned: of each of them */
};

static void live_read_clear_listing(struct live_op *op)
{
    struct listing *listing = KG_CONTAINER(op, struct listing, op);
    for (size_t i = 0; listing->agents != NULL && i < listing->list.count; i++)
        session_agents_clear(&listing->agents[i]);
    free(listing->agents);
    session_list_clear(&listing->list);
    free(listing->project_id);
    free(listing->operator_id);
    free(listing->state);
    free(listing->before);
}

static int check_listing(const struct listing *listing, enum session_state *ret_state,
                         struct kg_err *err)
{
    if (listing->state != NULL && !session_state_find(kg_str(listing->state), ret_state)) {
        kg_fail(err, KG_E_INVALID_PARAMS, "state \"%.*s\": no session can be in it",
                KG_STR_CUT(kg_str(listing->state), 40));
        return kg_hint(err, "active, idle, stopped or closed");
    }
    return 0;
}

static int live_read_run_listing(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct listing *listing = KG_CONTAINER(job, struct listing, op.work.job);
    enum session_state only = SESSION_ACTIVE;
    int result = check_listing(listing, &only, err);
    if (result < 0)
        return result;
    const struct session_list_query query = {.project_id = listing->project_id,
                                             .operator_id = listing->operator_id,
                                             .state = listing->state ? &only : NULL,
                                             .before = listing->before,
                                             .limit = listing->limit};
    result = session_list(state, &query, &listing->list, err);
    if (result < 0)
        return result;
    listing->agents = kg_alloc_array(listing->list.count + 1, sizeof(listing->agents[0]));
    for (size_t i = 0; i < listing->list.count && result == 0; i++)
        result =
            session_agents_read(state, listing->list.items[i].id.text, &listing->agents[i], err);
    return result;
}

static void answer_listing(struct live_op *op)
{
    struct listing *listing = KG_CONTAINER(op, struct listing, op);
    struct kg_json_writer json = kg_json_writer(&op->json);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "sessions", '[');
    for (size_t i = 0; i < listing->list.count; i++)
        live_session_write(op->work.sessions, &listing->list.items[i], &listing->agents[i], &json);
    kg_json_end(&json, ']');
    kg_json_named_bool(&json, "more", listing->list.more);
    kg_json_end(&json, '}');
    live_op_answer(op);
}

static char *live_read_text_of(struct kg_str text)
{
    return text.data ? kg_str_dup(text) : NULL;
}

void sessions_list(struct sessions *sessions, const struct sessions_request *request,
                   const struct sessions_list_query *query)
{
    struct listing *listing =
        live_op_new(sizeof(*listing), sessions, request, live_read_clear_listing);
    listing->project_id = live_read_text_of(query->project_id);
    listing->operator_id = live_read_text_of(query->operator_id);
    listing->state = live_read_text_of(query->state);
    listing->before = live_read_text_of(query->before);
    listing->limit = query->limit;
    if (live_op_admit(&listing->op, false))
        live_op_read(&listing->op, live_read_run_listing, answer_listing);
}

static int live_read_run_show(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct listing *listing = KG_CONTAINER(job, struct listing, op.work.job);
    struct session session = {0};
    int result = session_find(state, kg_str(listing->op.session), &session, err);
    if (result < 0)
        return result;
    listing->list.items = kg_alloc(sizeof(session));
    listing->list.items[0] = session;
    listing->list.count = 1;
    listing->agents = kg_alloc(sizeof(listing->agents[0]));
    return session_agents_read(state, session.id.text, &listing->agents[0], err);
}

static void answer_show(struct live_op *op)
{
    struct listing *listing = KG_CONTAINER(op, struct listing, op);
    struct kg_json_writer json = kg_json_writer(&op->json);
    live_session_write(op->work.sessions, &listing->list.items[0], &listing->agents[0], &json);
    live_op_answer(op);
}

void sessions_show(struct sessions *sessions, const struct sessions_request *request)
{
    struct listing *listing =
        live_op_new(sizeof(*listing), sessions, request, live_read_clear_listing);
    if (live_op_admit(&listing->op, false))
        live_op_read(&listing->op, live_read_run_show, answer_show);
}

static int live_read_run_project(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct live_op *op = KG_CONTAINER(job, struct live_op, work.job);
    kg_auto(session_clear) struct session session = {0};
    int result = session_find(state, kg_str(op->session), &session, err);
    if (result == 0)
        kg_buf_text(&op->json, session.project_id);
    return result;
}

void sessions_project(struct sessions *sessions, const struct sessions_request *request)
{
    struct live_op *op = live_op_new(sizeof(*op), sessions, request, NULL);
    if (live_op_admit(op, false))
        live_op_read(op, live_read_run_project, live_op_answer);
}

/* -- entries ----------------------------------------------------------------------------------- */

struct paging {
    struct live_op op;
    char *agent; /* owned; NULL: of all */
    uint64_t after;
    size_t limit;
};

static void clear_paging(struct live_op *op)
{
    free(KG_CONTAINER(op, struct paging, op)->agent);
}

static void live_read_write_page(const struct session_entries *entries, struct kg_buf *buf)
{
    struct kg_json_writer json = kg_json_writer(buf);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "entries", '[');
    for (size_t i = 0; i < entries->count; i++)
        live_entry_write(&entries->items[i], &json);
    kg_json_end(&json, ']');
    kg_json_named_bool(&json, "more", entries->more);
    kg_json_end(&json, '}');
}

static int run_page(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct paging *paging = KG_CONTAINER(job, struct paging, op.work.job);
    kg_auto(session_clear) struct session session = {0};
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    const struct session_page_query query = {
        .agent = paging->agent, .after = paging->after, .limit = paging->limit};
    int result = session_find(state, kg_str(paging->op.session), &session, err);
    if (result == 0)
        result = session_page(state, session.id.text, &query, &entries, err);
    if (result == 0)
        live_read_write_page(&entries, &paging->op.json);
    return result;
}

void sessions_entries(struct sessions *sessions, const struct sessions_request *request,
                      struct kg_str agent, uint64_t after, size_t limit)
{
    struct paging *paging = live_op_new(sizeof(*paging), sessions, request, clear_paging);
    paging->agent = live_read_text_of(agent);
    paging->after = after < INT64_MAX ? after : INT64_MAX;
    paging->limit = limit;
    if (live_op_admit(&paging->op, false))
        live_op_read(&paging->op, run_page, live_op_answer);
}

/* -- a context --------------------------------------------------------------------------------- */

struct showing {
    struct live_op op;
    char *agent; /* owned; NULL: the seat */
    char *dialect;
    struct kg_buf more; /* what the project says of it: the rest of the object */
};

static void clear_showing(struct live_op *op)
{
    struct showing *showing = KG_CONTAINER(op, struct showing, op);
    free(showing->agent);
    free(showing->dialect);
    kg_buf_free(&showing->more);
}

static int run_context(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct showing *showing = KG_CONTAINER(job, struct showing, op.work.job);
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    struct kg_buf *json = &showing->op.json;
    int result =
        session_context_read(state, showing->op.work.live->id.text, showing->agent, &entries, err);
    if (result < 0)
        return result;
    session_context_write(showing->agent, &entries, json, NULL);
    json->length--; /* the closing brace */
    kg_buf_str(json, kg_buf_view(&showing->more));
    return 0;
}

static void on_context_free(struct live_op *op)
{
    live_read_once(&op->work, run_context, live_op_then(op, live_op_answer));
}

/* `,"model":...}`: the project may change before the context is read. */
static void write_more(struct showing *showing, const struct live_agent *agent,
                       const enum project_dialect *dialect)
{
    struct kg_json_writer json = kg_json_writer(&showing->more);
    json.comma = true;
    kg_json_named_text(&json, "model", agent->resolved->model);
    kg_json_named_int(&json, "window_tokens", (int64_t)agent->window_tokens);
    kg_json_named_text(&json, "system", agent->resolved->prompt);
    if (dialect != NULL) {
        kg_json_key(&json, "tools");
        project_tools_json(agent->resolved, *dialect, &json);
    }
    kg_json_end(&json, '}');
}

static int live_read_find_dialect(const char *name, enum project_dialect *ret_dialect,
                                  struct kg_err *err)
{
    static const char *const names[] = {
        [PROJECT_OPENAI] = "openai", [PROJECT_ANTHROPIC] = "anthropic"};
    for (size_t i = 0; i < KG_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret_dialect = (enum project_dialect)i;
            return 0;
        }
    }
    return kg_fail(err, KG_E_INVALID_PARAMS, "tools: \"openai\" or \"anthropic\"");
}

static void show_context(struct live_op *op)
{
    struct showing *showing = KG_CONTAINER(op, struct showing, op);
    enum project_dialect dialect = PROJECT_OPENAI;
    struct live_agent agent;
    struct kg_err err;
    if (showing->agent == NULL)
        showing->agent = kg_strdup(op->work.live->seat);
    int result = showing->dialect ? live_read_find_dialect(showing->dialect, &dialect, &err) : 0;
    if (result == 0)
        result = live_agent_find(op->work.sessions, op->work.live->project_id, showing->agent,
                                 &agent, &err);
    if (result < 0) {
        live_op_fail(op, &err);
        return;
    }
    write_more(showing, &agent, showing->dialect ? &dialect : NULL);
    live_when_compacted(&op->work, showing->agent, live_op_then(op, on_context_free));
}

void sessions_context(struct sessions *sessions, const struct sessions_request *request,
                      struct kg_str agent, struct kg_str dialect)
{
    struct showing *showing = live_op_new(sizeof(*showing), sessions, request, clear_showing);
    showing->agent = live_read_text_of(agent);
    showing->dialect = live_read_text_of(dialect);
    if (live_op_admit(&showing->op, false))
        live_op_open(&showing->op, show_context);
}
