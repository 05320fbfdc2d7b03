/*
 * A plugin's storage for the operator: what is in it, a question of his own, a copy, a new start. A
 * table is called by its full name here, plugin_NAME_TABLE, since several plugins may have one of
 * that name. The questions are answered by the plugin's own storage process, within its bounds.
 */
#include "http/internal.h"

#include <stdlib.h>

struct storage_question {
    struct http_request *request;
    struct host_named named;
    char *path; /* owned; of an export */
};

static struct storage_question *storage_question_new(struct http_request *request,
                                                     struct host_named named)
{
    struct storage_question *question = kg_alloc(sizeof(*question));
    question->request = request;
    question->named = named;
    return question;
}

static void storage_question_free(struct storage_question *question)
{
    free(question->path);
    free(question);
}

/* The codes of the wire, as the API has them. */
static void reply_storage_error(struct http_request *request, struct kg_str error)
{
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    struct kg_err err = {0};
    int64_t code = rpc_error_code(error);
    rpc_error_message(error, &message);
    enum kg_code row = KG_E_PLUGIN;
    if (code == kg_error_row(KG_E_STORAGE_DENIED)->rpc_code)
        row = KG_E_STORAGE_DENIED;
    else if (code == kg_error_row(KG_E_INVALID_PARAMS)->rpc_code)
        row = KG_E_INVALID_PARAMS;
    kg_fail(&err, row, "%s", kg_buf_terminate(&message));
    http_reply_error(request, &err);
}

/* -- what is in it ----------------------------------------------------------------------------- */

static void storage_put_full_name(struct kg_json_writer *json, const char *plugin,
                                  struct kg_str table)
{
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    kg_buf_printf(&name, "plugin_%s_", plugin);
    for (size_t i = 0; i < name.length; i++)
        if (name.data[i] == '-')
            name.data[i] = '_';
    kg_buf_str(&name, table);
    kg_json_named_str(json, "full_name", kg_buf_view(&name));
}

static void storage_put_table(struct kg_json_writer *json, const char *plugin,
                              const struct kg_node *table)
{
    kg_json_begin(json, '{');
    for (uint32_t i = 0; i < table->count; i++) {
        kg_auto(kg_free) char *key = kg_str_dup(table->members[i].key);
        kg_json_key(json, key);
        kg_json_node(json, &table->members[i].value);
    }
    const struct kg_node *name = kg_node_get(table, "name");
    if (name != NULL && name->type == KG_STRING)
        storage_put_full_name(json, plugin, name->text);
    kg_json_end(json, '}');
}

static void reply_contents(struct http_request *request, struct host_named named,
                           const struct kg_node *tables)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct storage_facts facts = storage_facts(host_storage(named.process));
    const char *name = host_name(named);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", name);
    kg_json_named_text(&json, "file", facts.file);
    kg_json_named_int(&json, "bytes", (int64_t)facts.bytes);
    kg_json_named_int(&json, "bytes_max",
                      host_config(http_host(request))->limits_storage_size_bytes);
    kg_json_named_bool(&json, "running", facts.running);
    kg_json_named_bool(&json, "damaged", facts.damaged);
    kg_json_named_int(&json, "requests", (int64_t)facts.requests);
    kg_json_named_begin(&json, "tables", '[');
    for (uint32_t i = 0; tables != NULL && i < tables->count; i++)
        storage_put_table(&json, name, &tables->items[i]);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

static void on_contents(void *data, enum storage_outcome outcome, struct kg_str payload)
{
    struct storage_question *question = data;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    if (outcome == STORAGE_ERROR) {
        reply_storage_error(question->request, payload);
    } else {
        doc = kg_json_read(payload, NULL);
        reply_contents(question->request, question->named,
                       doc ? kg_node_get(doc->root, "tables") : NULL);
    }
    storage_question_free(question);
}

static void on_rows(void *data, enum storage_outcome outcome, struct kg_str payload)
{
    struct storage_question *question = data;
    if (outcome == STORAGE_ERROR)
        reply_storage_error(question->request, payload);
    else
        http_reply(question->request, 200, payload);
    storage_question_free(question);
}

static void http_storage_ask(struct http_request *request, struct host_named named,
                             const char *method, struct kg_str params, storage_done_fn *on_done)
{
    struct kg_err err = {0};
    struct storage_question *question = storage_question_new(request, named);
    const struct storage_request asked = {
        .method = method,
        .params = params,
        .only_reads = true,
        .on_done = on_done,
        .data = question,
    };
    if (storage_ask(host_storage(named.process), &asked, &err) == 0)
        return;
    storage_question_free(question);
    http_reply_error(request, &err);
}

/* With a statement its rows; else the tables, if there is a file at all. */
void http_handle_storage(struct http_request *request)
{
    struct host_named named;
    if (!http_find_process(request, &named))
        return; /* answered, and so freed */
    struct kg_str sql = http_query_parameter(request, "sql");
    struct storage_facts facts = storage_facts(host_storage(named.process));
    if (sql.data == NULL && (facts.bytes == 0 || facts.damaged)) {
        reply_contents(request, named, NULL);
    } else if (sql.data == NULL) {
        http_storage_ask(request, named, "size", KG_STR("{}"), on_contents);
    } else {
        kg_auto(kg_buf_free) struct kg_buf params = {0};
        kg_buf_text(&params, "{\"sql\":");
        kg_json_put_string(&params, sql);
        kg_buf_char(&params, '}');
        http_storage_ask(request, named, "query", kg_buf_view(&params), on_rows);
    }
}

/* -- a copy, a new start ----------------------------------------------------------------------- */

static void storage_on_exported(void *data, enum storage_outcome outcome, struct kg_str payload)
{
    struct storage_question *question = data;
    if (outcome == STORAGE_ERROR) {
        reply_storage_error(question->request, payload);
    } else {
        kg_auto(kg_buf_free) struct kg_buf body = {0};
        kg_buf_text(&body, "{\"path\":");
        kg_json_put_string(&body, kg_str(question->path));
        kg_buf_char(&body, '}');
        http_reply(question->request, 200, kg_buf_view(&body));
    }
    storage_question_free(question);
}

void http_handle_storage_export(struct http_request *request)
{
    struct kg_err err = {0};
    struct host_named named;
    if (!http_find_process(request, &named))
        return;
    struct storage_question *question = storage_question_new(request, named);
    if (host_storage_export(named.process, storage_on_exported, question, &question->path, &err) ==
        0)
        return;
    storage_question_free(question);
    http_reply_error(request, &err);
}

void http_handle_storage_reset(struct http_request *request)
{
    struct kg_err err = {0};
    struct host_named named;
    if (!http_find_process(request, &named))
        return;
    if (host_storage_reset(named.process, http_operator(request), &err) < 0)
        http_reply_error(request, &err);
    else
        reply_contents(request, named, NULL);
}
