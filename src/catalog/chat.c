/*
 * One message to an orchestrator, and its answer: a turn of a session in its project. At each
 * moment it waits for one thing, and ends once.
 *
 *   the pool -> its session, new or his own -> what the resource is -> the turn -> the end
 *
 * A resource that no package knows ends it with an answer that says so; no model is asked.
 */
#include "catalog/chat.h"

#include <errno.h>
#include <stdlib.h>

#define RESOURCE_SHOWN 200

static void ask_grounds(struct catalog_chat *chat);

/* -- its end ----------------------------------------------------------------------------------- */

static void chat_free(struct catalog_chat *chat)
{
    pool_use_end(&chat->use);
    host_asker_unref(chat->asker);
    free(chat->message);
    free(chat->resource);
    free(chat->session);
    free(chat->answer.stop);
    kg_buf_free(&chat->answer.said);
    kg_buf_free(&chat->grounds);
    free(chat);
}

static void chat_end(struct catalog_chat *chat, const struct kg_err *err_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    const struct catalog_chat_ops *ops = chat->ops;
    void *data = chat->data;
    struct kg_err err = err_or_null != NULL ? *err_or_null : (struct kg_err){0};
    if (err.code != KG_OK && chat->answer.told)
        chat_tell_error(chat, &err);
    if (err.code == KG_OK) {
        chat_tell_metadata(chat);
        chat_put_answer(chat, &json);
    }
    chat_free(chat);
    ops->on_done(data, kg_buf_view(&json), err.code != KG_OK ? &err : NULL);
}

/* Whether it is over: it failed, or nobody wants to know any more. */
static bool chat_ends(struct catalog_chat *chat, const struct kg_err *err_or_null)
{
    if (err_or_null == NULL && !chat->cancelled)
        return false;
    chat_end(chat, err_or_null != NULL ? err_or_null : &chat->why);
    return true;
}

/* -- the turn ---------------------------------------------------------------------------------- */

static void on_turn_refused(void *data, const struct kg_err *err)
{
    struct catalog_chat *chat = data;
    chat->turn = NULL;
    chat_end(chat, err);
}

static void on_turn_line(void *data, struct kg_str line)
{
    chat_take_line(data, line);
}

static void catalog_chat_on_turn_end(void *data)
{
    struct catalog_chat *chat = data;
    struct kg_err err = chat->answer.err;
    chat->turn = NULL;
    if (err.code == KG_OK && chat->cancelled)
        err = chat->why;
    chat_end(chat, err.code != KG_OK ? &err : NULL);
}

static struct sessions_request catalog_chat_request_of(struct catalog_chat *chat,
                                                       sessions_done_fn *on_done)
{
    return (struct sessions_request){
        .asker = chat->asker,
        .session = chat->session ? kg_str(chat->session) : KG_STR(""),
        .on_done = on_done,
        .data = chat,
    };
}

static void catalog_chat_begin_turn(struct catalog_chat *chat)
{
    static const struct turn_ops ops = {
        .on_refused = on_turn_refused, .on_line = on_turn_line, .on_end = catalog_chat_on_turn_end};
    const struct sessions_request request = catalog_chat_request_of(chat, NULL);
    struct kg_err err = {0};
    chat->turn = turn_start(chat->catalog->sessions, &request, kg_str(chat->message), INT64_MAX,
                            &ops, chat, &err);
    if (chat->turn == NULL)
        chat_end(chat, &err);
}

/* -- what the resource is ---------------------------------------------------------------------- */

static void catalog_chat_put_entry(struct kg_json_writer *json, const char *role,
                                   struct kg_str content)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "role", role);
    kg_json_named_str(json, "content", content);
    kg_json_end(json, '}');
}

static void on_grounds_kept(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    struct catalog_chat *chat = data;
    (void)json;
    if (!chat_ends(chat, err_or_null))
        catalog_chat_begin_turn(chat);
}

static void on_unknown_kept(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    struct catalog_chat *chat = data;
    (void)json;
    if (chat_ends(chat, err_or_null))
        return;
    chat_tell_message(chat, kg_buf_view(&chat->grounds));
    chat->answer.stop = kg_strdup("unknown_resource");
    chat_end(chat, NULL);
}

/* Both are kept: that nobody knows the resource as what was said and answered. */
static void keep_grounds(struct catalog_chat *chat)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    const struct sessions_request request =
        catalog_chat_request_of(chat, chat->found ? on_grounds_kept : on_unknown_kept);
    if (!chat->found)
        kg_buf_printf(&chat->grounds, "There is no resource \"%.*s\" here that I could speak of.",
                      KG_STR_CUT(kg_str(chat->resource), RESOURCE_SHOWN));
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "messages", '[');
    if (!chat->found)
        catalog_chat_put_entry(&json, "user", kg_str(chat->message));
    catalog_chat_put_entry(&json, chat->found ? "system" : "assistant",
                           kg_buf_view(&chat->grounds));
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    sessions_append(chat->catalog->sessions, &request, kg_buf_view(&body));
}

static void ask_package(struct catalog_chat *chat, const char *method, struct kg_str params,
                        host_done_fn *on_done)
{
    const struct host_package_call call = {
        .use = chat->use.scoped[chat->scoped],
        .method = kg_str(method),
        .params = params,
        .asker = chat->asker,
        .on_done = on_done,
        .data = chat,
    };
    struct kg_err err = {0};
    chat->call = host_package_call(chat->catalog->host, &call, &err);
    if (chat->call == NULL)
        chat_end(chat, &err);
}

/* What a package answered; NULL: it is over. */
static struct kg_doc *take_reply(struct catalog_chat *chat, const struct host_reply *reply)
{
    struct kg_err err = reply->error;
    chat->call = NULL;
    struct kg_doc *doc = err.code == KG_OK ? kg_json_read(reply->result, &err) : NULL;
    if (!chat_ends(chat, err.code != KG_OK ? &err : NULL))
        return doc;
    kg_doc_free(doc);
    return NULL;
}

static void on_rules(void *data, const struct host_reply *reply)
{
    struct catalog_chat *chat = data;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = take_reply(chat, reply);
    if (doc == NULL)
        return;
    struct kg_str rules = kg_node_text(doc->root, "rules");
    if (rules.length > 0)
        kg_buf_printf(&chat->grounds, "\nIts rules: %.*s\n", KG_STR_ARG(rules));
    chat->scoped++;
    ask_grounds(chat);
}

static void on_anchor(void *data, const struct host_reply *reply)
{
    struct catalog_chat *chat = data;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = take_reply(chat, reply);
    if (doc == NULL)
        return;
    const struct kg_node *context = kg_node_get(doc->root, "context");
    if (!kg_node_is_true(doc->root, "found") || context == NULL) {
        chat->scoped++;
        ask_grounds(chat);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    kg_json_begin(&json, '{');
    kg_json_named_node(&json, "context", context);
    kg_json_end(&json, '}');
    kg_buf_printf(&chat->grounds, "%sThis conversation is about the resource \"%.*s\":\n",
                  chat->found ? "\n" : "", KG_STR_CUT(kg_str(chat->resource), RESOURCE_SHOWN));
    kg_json_put_node(&chat->grounds, context);
    chat->found = true;
    ask_package(chat, HOST_PACKAGE_RULES, kg_buf_view(&params), on_rules);
}

static void ask_grounds(struct catalog_chat *chat)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    if (chat->use.scoped[chat->scoped] == NULL) {
        keep_grounds(chat);
        return;
    }
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "resource_id", chat->resource);
    kg_json_end(&json, '}');
    ask_package(chat, HOST_PACKAGE_ANCHOR, kg_buf_view(&params), on_anchor);
}

/* -- the session ------------------------------------------------------------------------------- */

static bool is_grounded(const struct catalog_chat *chat)
{
    return strcmp(chat->orchestrator->mode, "grounded") == 0;
}

static void chat_has_session(struct catalog_chat *chat)
{
    if (is_grounded(chat) && chat->resource != NULL)
        ask_grounds(chat);
    else
        catalog_chat_begin_turn(chat);
}

static void on_session_made(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    struct catalog_chat *chat = data;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = err_or_null ? NULL : kg_json_read(json, NULL);
    if (doc != NULL)
        chat->session = kg_str_dup(kg_node_text(doc->root, "id"));
    if (!chat_ends(chat, err_or_null))
        chat_has_session(chat);
}

/* Only who began it goes on with it, and where he began it. */
static void on_session_shown(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    struct catalog_chat *chat = data;
    struct kg_err err = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = err_or_null ? NULL : kg_json_read(json, NULL);
    if (err_or_null != NULL && err_or_null->code != KG_E_NOT_FOUND)
        err = *err_or_null;
    else if (doc == NULL ||
             !catalog_conversation_is_of(doc->root, chat->session, chat->use.project, chat->asker))
        catalog_no_conversation(chat->session, &err);
    if (!chat_ends(chat, err.code != KG_OK ? &err : NULL))
        chat_has_session(chat);
}

static void catalog_chat_on_got(struct kg_wait *wait, const struct kg_err *err_or_null)
{
    struct catalog_chat *chat = KG_CONTAINER(wait, struct catalog_chat, wait);
    struct kg_err err = {0};
    if (err_or_null != NULL)
        err = *err_or_null;
    else
        pool_use_begin(chat->orchestrator, &chat->use, &err);
    if (chat_ends(chat, err.code != KG_OK ? &err : NULL))
        return;
    const struct sessions_request request =
        catalog_chat_request_of(chat, chat->session ? on_session_shown : on_session_made);
    const struct sessions_wanted wanted = {.project_id = kg_str(chat->use.project)};
    if (chat->session != NULL)
        sessions_show(chat->catalog->sessions, &request);
    else
        sessions_create(chat->catalog->sessions, &request, &wanted);
}

static void catalog_chat_on_begin(struct loop_task *task)
{
    struct catalog_chat *chat = KG_CONTAINER(task, struct catalog_chat, begin);
    pool_get(chat->catalog->pool, chat->orchestrator, &chat->wait, catalog_chat_on_got);
}

/* -- from outside ------------------------------------------------------------------------------ */

static char *catalog_chat_text_of(const struct kg_node *body, const char *key)
{
    struct kg_str text = kg_node_text(body, key);
    return text.length > 0 ? kg_str_dup(text) : NULL;
}

static int check_chat(const struct catalog_chat *chat, struct kg_err *err)
{
    if (!is_grounded(chat) || chat->resource != NULL || chat->session != NULL)
        return 0;
    return kg_fail(err, KG_E_INVALID_PARAMS,
                   "resource_id is missing: a conversation with %s is about one resource",
                   chat->orchestrator->name);
}

struct catalog_chat *catalog_chat_begin(const struct catalog_request *request, struct kg_str id,
                                        struct host_asker *asker,
                                        const struct catalog_chat_ops *ops, void *data)
{
    struct kg_err err = {0};
    struct catalog_orchestrator *found =
        catalog_request_orchestrator(request->catalog, request->org, id, &err);
    if (found == NULL) {
        ops->on_done(data, KG_STR_NULL, &err);
        return NULL;
    }
    struct catalog_chat *chat = kg_alloc(sizeof(*chat));
    chat->catalog = request->catalog;
    chat->orchestrator = found;
    chat->asker = host_asker_ref(asker);
    chat->ops = ops;
    chat->data = data;
    chat->message = catalog_chat_text_of(request->body, "message");
    chat->resource = catalog_chat_text_of(request->body, "resource_id");
    chat->session = catalog_chat_text_of(request->body, "conversation_id");
    if (check_chat(chat, &err) < 0) {
        chat_end(chat, &err);
        return NULL;
    }
    chat->begin.run = catalog_chat_on_begin;
    loop_defer(chat->catalog->loop, &chat->begin);
    return chat;
}

static void on_cancelled(struct loop_task *task)
{
    struct catalog_chat *chat = KG_CONTAINER(task, struct catalog_chat, begin);
    chat_end(chat, &chat->why);
}

/* What cannot be withdrawn ends it when it comes back. */
void catalog_chat_cancel(struct catalog_chat *chat, const struct kg_err *why)
{
    bool waits = chat->call != NULL || chat->wait.list != NULL || chat->begin.queued;
    if (chat->cancelled)
        return;
    chat->cancelled = true;
    chat->why = *why;
    if (chat->turn != NULL)
        turn_cancel(chat->turn, why);
    if (!waits)
        return;
    if (chat->call != NULL)
        host_call_cancel(kg_steal(&chat->call));
    kg_wait_withdraw(&chat->wait);
    chat->begin.run = on_cancelled;
    loop_defer(chat->catalog->loop, &chat->begin);
}
