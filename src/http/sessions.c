/* The routes of sessions: what a request says goes to the sessions, what they answer comes back. */
#include "http/internal.h"

static struct sessions_request http_sessions_request_of(struct http_request *request)
{
    return (struct sessions_request){
        .session = http_path_parameter(request, "id"),
        .asker = http_asker(request),
        .on_done = http_on_answer,
        .data = request,
    };
}

/* -- with a body ------------------------------------------------------------------------------- */

static struct kg_str body_text(const struct http_request *request, const char *name)
{
    return kg_node_text(http_body_tree(request), name);
}

/* Their contents are kept as the bytes that came. */
void http_handle_session_messages(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_append(http_sessions(request), &asked, http_body(request));
}

void http_handle_session_compact(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    const struct sessions_compaction wanted = {
        .agent = body_text(request, "agent"),
        .strategy = body_text(request, "strategy"),
        .keep_recent = http_body_int(request, "keep_recent", -1),
    };
    sessions_compact(http_sessions(request), &asked, &wanted);
}

void http_handle_session_undo(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_undo(http_sessions(request), &asked, body_text(request, "agent"));
}

void http_handle_session_pin(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_pin(http_sessions(request), &asked, body_text(request, "entry"),
                 http_body_flag(request, "pinned", true));
}

void http_handle_session_fork(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_fork(http_sessions(request), &asked, body_text(request, "entry"));
}

static void http_sessions_move(struct http_request *request, enum session_act act,
                               struct kg_str target)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    const struct sessions_movement wanted = {
        .act = act,
        .target = target,
        .dry_run = http_body_flag(request, "dry_run", false),
        .conversation_only = http_body_flag(request, "conversation_only", false)};
    sessions_move(http_sessions(request), &asked, &wanted);
}

void http_handle_session_move_back(struct http_request *request)
{
    http_sessions_move(request, SESSION_MOVE_UNDO, KG_STR_NULL);
}

void http_handle_session_redo(struct http_request *request)
{
    http_sessions_move(request, SESSION_MOVE_REDO, KG_STR_NULL);
}

void http_handle_session_rewind(struct http_request *request)
{
    http_sessions_move(request, SESSION_MOVE_REWIND, body_text(request, "entry"));
}

void http_handle_session_resume(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_resume(http_sessions(request), &asked, body_text(request, "seat"));
}

/* The id of the path is the project's. */
void http_handle_session_create(struct http_request *request)
{
    struct sessions_request asked = http_sessions_request_of(request);
    const struct sessions_wanted wanted = {.project_id = asked.session,
                                           .workdir = body_text(request, "workdir"),
                                           .seat = body_text(request, "seat"),
                                           .title = body_text(request, "title")};
    asked.session = KG_STR_NULL;
    sessions_create(http_sessions(request), &asked, &wanted);
}

void http_handle_questions(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_questions(http_sessions(request), &asked,
                       kg_str_is(http_query_parameter(request, "all"), "true"));
}

void http_handle_open_questions(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    sessions_open_questions(http_sessions(request), &body);
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_answer(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_answer(http_sessions(request), &asked, http_path_parameter(request, "question"),
                    http_body(request));
}

static void on_tool_caller_gone(void *data)
{
    sessions_tool_cancel(data);
}

void http_handle_session_tool(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    struct sessions_use *use =
        sessions_tool(http_sessions(request), &asked, http_query_parameter(request, "agent"),
                      http_path_parameter(request, "tool"), http_body(request));
    http_on_gone(request, on_tool_caller_gone, use);
}

/* -- without one ------------------------------------------------------------------------------- */

void http_handle_sessions(struct http_request *request)
{
    struct sessions_request asked = http_sessions_request_of(request);
    const struct sessions_list_query query = {
        .project_id = asked.session.length > 0 ? asked.session : KG_STR_NULL,
        .state = http_query_parameter(request, "state"),
        .before = http_query_parameter(request, "before"),
        .limit = (uint64_t)http_query_int(request, "limit", 0),
    };
    asked.session = KG_STR_NULL;
    sessions_list(http_sessions(request), &asked, &query);
}

void http_handle_session_show(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_show(http_sessions(request), &asked);
}

void http_handle_session_close(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_close(http_sessions(request), &asked);
}

void http_handle_session_entries(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_entries(http_sessions(request), &asked, http_query_parameter(request, "agent"),
                     (uint64_t)http_query_int(request, "after", 0),
                     (uint64_t)http_query_int(request, "limit", 0));
}

void http_handle_session_context(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_context(http_sessions(request), &asked, http_query_parameter(request, "agent"),
                     http_query_parameter(request, "tools"));
}

void http_handle_session_idle(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_idle(http_sessions(request), &asked);
}

void http_handle_run_cancel(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_cancel(http_sessions(request), &asked);
}

void http_handle_session_commands(struct http_request *request)
{
    const struct sessions_request asked = http_sessions_request_of(request);
    sessions_commands(http_sessions(request), &asked);
}
