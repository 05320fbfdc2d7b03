/*
 * Conversations with orchestrators, which are sessions of their projects: who asks sees those that
 * he began, and of them what was said between him and the primary.
 */
#include "catalog/chat.h"

#include <stdlib.h>

bool catalog_conversation_is_of(const struct kg_node *session, const char *id, const char *project,
                                const struct host_asker *asker)
{
    struct kg_str operator_id = kg_node_text(session, "operator_id");
    return kg_str_is(kg_node_text(session, "id"), id) &&
           kg_str_is(kg_node_text(session, "project_id"), project) && asker->operator_id != NULL &&
           kg_str_is(operator_id, asker->operator_id);
}

int catalog_no_conversation(const char *id, struct kg_err *err)
{
    return kg_fail(err, KG_E_NOT_FOUND, "there is no conversation \"%.64s\"", id);
}

struct catalog_orchestrator *catalog_request_orchestrator(const struct catalog *catalog,
                                                          struct kg_str org, struct kg_str id,
                                                          struct kg_err *err)
{
    const struct catalog_org *found = catalog_org_find(catalog, org);
    if (found != NULL)
        return catalog_orchestrator_find(catalog, found, id, err);
    kg_fail(err, KG_E_NOT_FOUND, "there is no org \"%.*s\"", KG_STR_CUT(org, 64));
    return NULL;
}

/* A request that sessions answer, and what is made of that. */
struct history {
    struct catalog_request request;
    struct host_asker *asker; /* one reference */
    char *project, *session;  /* owned; no session: all */
    char *instance;           /* owned */
    uint64_t after;
    size_t limit;
};

static void history_end(struct history *history, struct kg_buf *json,
                        const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        catalog_fail(&history->request, err_or_null);
    else
        catalog_reply(&history->request, json);
    host_asker_unref(history->asker);
    free(history->project);
    free(history->session);
    free(history->instance);
    free(history);
}

static struct history *history_new(const struct catalog_request *request, struct kg_str id,
                                   struct host_asker *asker, struct kg_str session)
{
    struct kg_err err = {0};
    const struct catalog_orchestrator *found =
        catalog_request_orchestrator(request->catalog, request->org, id, &err);
    if (found == NULL) {
        catalog_fail(request, &err);
        return NULL;
    }
    struct history *history = kg_alloc(sizeof(*history));
    history->request = *request;
    history->asker = host_asker_ref(asker);
    history->instance = kg_strdup(found->id);
    history->project = orchestrator_project_id(found->id);
    history->session = session.data ? kg_str_dup(session) : NULL;
    return history;
}

static struct sessions_request conversations_request_of(struct history *history,
                                                        sessions_done_fn *on_done)
{
    return (struct sessions_request){
        .asker = history->asker,
        .session = history->session ? kg_str(history->session) : KG_STR(""),
        .on_done = on_done,
        .data = history,
    };
}

/* -- a list of them ---------------------------------------------------------------------------- */

static void put_conversation(struct kg_json_writer *json, const struct history *history,
                             const struct kg_node *session)
{
    kg_json_begin(json, '{');
    kg_json_named_str(json, "conversation_id", kg_node_text(session, "id"));
    kg_json_named_str(json, "title", kg_node_text(session, "title"));
    kg_json_named_text(json, "instance_id", history->instance);
    kg_json_named_str(json, "created_at", kg_node_text(session, "created_at"));
    kg_json_named_str(json, "updated_at", kg_node_text(session, "updated_at"));
    kg_json_end(json, '}');
}

static void conversations_on_listed(void *data, struct kg_str answer,
                                    const struct kg_err *err_or_null)
{
    struct history *history = data;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = err_or_null ? NULL : kg_json_read(answer, NULL);
    const struct kg_node *sessions = kg_node_list(doc ? doc->root : NULL, "sessions");
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "conversations", '[');
    for (uint32_t i = 0; i < sessions->count; i++)
        put_conversation(&json, history, &sessions->items[i]);
    kg_json_end(&json, ']');
    kg_json_named_bool(&json, "more", doc && kg_node_is_true(doc->root, "more"));
    kg_json_end(&json, '}');
    history_end(history, &out, err_or_null);
}

void catalog_conversations(const struct catalog_request *request, struct kg_str id,
                           struct host_asker *asker, struct kg_str before, size_t limit)
{
    struct history *history = history_new(request, id, asker, KG_STR_NULL);
    if (history == NULL)
        return;
    const struct sessions_request asked =
        conversations_request_of(history, conversations_on_listed);
    const struct sessions_list_query query = {
        .project_id = kg_str(history->project),
        .operator_id = kg_str(asker->operator_id ? asker->operator_id : ""),
        .before = before,
        .limit = limit,
    };
    sessions_list(request->catalog->sessions, &asked, &query);
}

/* -- what was said in one ---------------------------------------------------------------------- */

/* What a message is: a text, or parts of which those that are text count. */
static void conversations_put_content(struct kg_json_writer *json, const struct kg_node *content)
{
    struct kg_str text = content->type == KG_STRING ? content->text : kg_node_text(content, "text");
    kg_json_named_str(json, "content", text.data ? text : KG_STR(""));
}

static void conversations_put_message(struct kg_json_writer *json, const struct kg_node *entry)
{
    const struct kg_node *content = kg_node_get(entry, "content");
    struct kg_str role = kg_node_text(entry, "role");
    bool is_said = kg_str_is(kg_node_text(entry, "kind"), "message") &&
                   (kg_str_is(role, "user") || kg_str_is(role, "assistant"));
    if (!is_said || content == NULL)
        return;
    kg_json_begin(json, '{');
    kg_json_named_str(json, "id", kg_node_text(entry, "id"));
    kg_json_named_int(json, "seq", kg_node_number(entry, "seq"));
    kg_json_named_str(json, "role", role);
    conversations_put_content(json, content);
    kg_json_named_str(json, "created_at", kg_node_text(entry, "created_at"));
    kg_json_end(json, '}');
}

static void on_entries(void *data, struct kg_str answer, const struct kg_err *err_or_null)
{
    struct history *history = data;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = err_or_null ? NULL : kg_json_read(answer, NULL);
    const struct kg_node *entries = kg_node_list(doc ? doc->root : NULL, "entries");
    int64_t last = entries->count > 0 ? kg_node_number(&entries->items[entries->count - 1], "seq")
                                      : (int64_t)history->after;
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "conversation_id", history->session);
    kg_json_named_begin(&json, "messages", '[');
    for (uint32_t i = 0; i < entries->count; i++)
        conversations_put_message(&json, &entries->items[i]);
    kg_json_end(&json, ']');
    kg_json_named_int(&json, "last_seq", last);
    kg_json_named_bool(&json, "more", doc && kg_node_is_true(doc->root, "more"));
    kg_json_end(&json, '}');
    history_end(history, &out, err_or_null);
}

static void on_shown(void *data, struct kg_str answer, const struct kg_err *err_or_null)
{
    struct history *history = data;
    struct kg_err err = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = err_or_null ? NULL : kg_json_read(answer, NULL);
    if (err_or_null != NULL && err_or_null->code != KG_E_NOT_FOUND)
        err = *err_or_null;
    else if (doc == NULL || !catalog_conversation_is_of(doc->root, history->session,
                                                        history->project, history->asker))
        catalog_no_conversation(history->session, &err);
    if (err.code != KG_OK) {
        history_end(history, NULL, &err);
        return;
    }
    const struct sessions_request asked = conversations_request_of(history, on_entries);
    sessions_entries(history->request.catalog->sessions, &asked, KG_STR("primary"), history->after,
                     history->limit);
}

void catalog_conversation(const struct catalog_request *request, struct kg_str id,
                          struct host_asker *asker, struct kg_str conversation, uint64_t after,
                          size_t limit)
{
    struct history *history = history_new(request, id, asker, conversation);
    if (history == NULL)
        return;
    history->after = after;
    history->limit = limit;
    const struct sessions_request asked = conversations_request_of(history, on_shown);
    sessions_show(request->catalog->sessions, &asked);
}
