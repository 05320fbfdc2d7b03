/*
 * Questions of plugins, from the request to its answer. Each belongs to one call, and ends with it
 * at the latest; the plugin is answered once, whatever happens to whoever was asked. What a plugin
 * says here is bounded in number and size, and its schema is compiled like any stranger's.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

#define TITLE_MAX_BYTES  2048
#define SCHEMA_MAX_BYTES 32768
#define URL_MAX_BYTES    2048
#define SAMPLE_MAX_BYTES ((size_t)1 << 20)
#define CANCEL           "{\"action\":\"cancel\"}"
#define NO_ROOTS         "{\"roots\":[]}"

const char *const host_ask_kind_names[HOST_ASK_KIND_COUNT] = {[HOST_ASK_FORM] = "form",
                                                              [HOST_ASK_URL] = "url",
                                                              [HOST_ASK_SAMPLE] = "sample",
                                                              [HOST_ASK_ROOTS] = "roots"};

struct host_question {
    struct host_ask base;
    struct host_question *next; /* of its call */
    struct host_call *call;
    uint32_t start;              /* which process asked, */
    int64_t request;             /* by which request; */
    struct dialect_input *input; /* or in an answer, and then the two above are not used */
    struct kg_buf title, schema_text, url, params, key; /* what the base shows */
    struct schema *schema;                              /* owned; NULL: any object will do */
    struct loop_timer timer;
};

_Static_assert(DIALECT_FORMS == 1 << HOST_ASK_FORM && DIALECT_URLS == 1 << HOST_ASK_URL &&
                   DIALECT_SAMPLES == 1 << HOST_ASK_SAMPLE &&
                   DIALECT_ROOTS == 1 << HOST_ASK_ROOTS && DIALECT_ANSWERS_ALL == HOST_ASK_ANY,
               "a dialect has the same bits");

unsigned host_asks_answers(const struct host_call *call)
{
    if (call->asked == NULL)
        return 0;
    return call->asked->can != NULL ? call->asked->can(call->data) : HOST_ASK_ANY;
}

/* -- its end ----------------------------------------------------------------------------------- */

static void host_asks_question_free(struct host_question *question)
{
    struct host_call *call = question->call;
    KG_UNLINK(call->questions, question);
    loop_timer_stop(call->host->loop, &question->timer);
    kg_buf_free(&question->title);
    kg_buf_free(&question->schema_text);
    kg_buf_free(&question->url);
    kg_buf_free(&question->params);
    kg_buf_free(&question->key);
    schema_free(question->schema);
    free(question);
}

/* The child is told; the question is gone before, since the answer may end its call. */
static void host_asks_own_end(struct host_question *question, const char *action,
                              enum peer_answer kind, struct kg_str json)
{
    const struct host_call *call = question->call;
    struct host_process *process = call->process;
    struct dialect_input *input = question->input;
    uint32_t start = question->start;
    int64_t request = question->request;
    audit_emit(call->host->audit, AUDIT_PLUGIN_ANSWERED, kg_str(call->asker->request_id),
               AUDIT_V_TEXT(process->name), AUDIT_V_TEXT(question->base.id.text),
               AUDIT_V_TEXT(action));
    host_asks_question_free(question);
    if (input == NULL) {
        instance_answer(process->instance, start, request, kind, json);
    } else {
        input->host = NULL;
        input->on_answer(input, kind, json);
    }
}

static void end_unanswered(struct host_question *question, const char *why)
{
    kg_auto(kg_buf_free) struct kg_buf error = {0};
    kg_log_about(KG_INFO, question->call->process->name, "its question %s got no answer: %s",
                 question->base.id.text, why);
    if (question->base.kind != HOST_ASK_SAMPLE) {
        host_asks_own_end(question, "cancel", PEER_ANSWER_RESULT,
                          question->base.kind == HOST_ASK_ROOTS ? KG_STR(NO_ROOTS)
                                                                : KG_STR(CANCEL));
        return;
    }
    rpc_put_error(&error, KG_E_CANCELLED, why);
    host_asks_own_end(question, "cancel", PEER_ANSWER_ERROR, kg_buf_view(&error));
}

static void host_asks_withdraw(struct host_question *question, const char *why)
{
    question->call->asked->withdraw(question->call->data, &question->base, why);
}

static void host_asks_on_deadline(struct loop_timer *timer)
{
    struct host_question *question = KG_CONTAINER(timer, struct host_question, timer);
    static const char why[] = "nobody answered in time";
    host_asks_withdraw(question, why);
    end_unanswered(question, why);
}

/* One in an answer goes with the answer, and nobody is told. */
void host_asks_end(struct host_call *call)
{
    static const char why[] = "its call ended";
    while (call->questions != NULL) {
        struct host_question *question = call->questions;
        host_asks_withdraw(question, why);
        if (question->input != NULL) {
            question->input->host = NULL;
            host_asks_question_free(question);
        } else {
            end_unanswered(question, why);
        }
    }
}

void host_drop_input(void *data, struct dialect_input *input)
{
    struct host_question *question = input->host;
    (void)data;
    if (question == NULL)
        return;
    host_asks_withdraw(question, "its call ended");
    input->host = NULL;
    host_asks_question_free(question);
}

/* -- the answer -------------------------------------------------------------------------------- */

static int host_asks_check_content(const struct host_question *question,
                                   const struct kg_node *content, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    if (content == NULL || content->type != KG_OBJECT)
        return kg_fail(err, KG_E_INVALID_PARAMS, "the answer has no object \"content\"");
    kg_json_put_node(&json, content);
    return question->schema == NULL ? 0
                                    : host_check_schema(question->schema, kg_buf_view(&json),
                                                        KG_E_INVALID_PARAMS, "the answer", err);
}

static int check_action(struct kg_str action, struct kg_err *err)
{
    if (kg_str_is(action, "accept") || kg_str_is(action, "decline") || kg_str_is(action, "cancel"))
        return 0;
    return kg_fail(err, KG_E_INVALID_PARAMS, "\"action\" must be accept, decline or cancel");
}

static int answer_person(struct host_question *question, const struct kg_node *said,
                         struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    struct kg_str action = kg_node_text(said, "action");
    const struct kg_node *content = kg_node_get(said, "content");
    bool fills_in = question->base.kind == HOST_ASK_FORM && kg_str_is(action, "accept");
    if (check_action(action, err) < 0 ||
        (fills_in && host_asks_check_content(question, content, err) < 0))
        return -EINVAL;
    char word[8];
    kg_str_copy(action, word, sizeof(word));
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "action", action);
    if (fills_in) {
        kg_json_key(&json, "content");
        kg_json_node(&json, content);
    }
    kg_json_end(&json, '}');
    host_asks_own_end(question, word, PEER_ANSWER_RESULT, kg_buf_view(&result));
    return 0;
}

int host_ask_answer(struct host_ask *ask, struct kg_str json, struct kg_err *err)
{
    struct host_question *question = KG_CONTAINER(ask, struct host_question, base);
    if (ask->kind == HOST_ASK_SAMPLE || ask->kind == HOST_ASK_ROOTS) {
        if (json.length == 0 || json.data[0] != '{')
            return kg_fail(err, KG_E_INVALID_PARAMS, "the answer is not an object");
        host_asks_own_end(question, "accept", PEER_ANSWER_RESULT, json);
        return 0;
    }
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(json, err);
    return doc != NULL ? answer_person(question, doc->root, err) : -EINVAL;
}

void host_ask_fail(struct host_ask *ask, const struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf error = {0};
    rpc_put_error(&error, err->code, err->message);
    host_asks_own_end(KG_CONTAINER(ask, struct host_question, base), "failed", PEER_ANSWER_ERROR,
                      kg_buf_view(&error));
}

/* -- whose it is ------------------------------------------------------------------------------- */

bool host_is_same_conversation(const struct host_asker *a, const struct host_asker *b)
{
    if (a->caller_id != NULL || b->caller_id != NULL)
        return kg_same_text(a->caller_id, b->caller_id);
    if (a->session_id != NULL || b->session_id != NULL)
        return kg_same_text(a->session_id, b->session_id);
    return kg_same_text(a->request_id, b->request_id);
}

/* The call of the only conversation that has one under way; rather one that can be asked. */
static struct host_call *find_call(const struct host_process *process, struct kg_err *err)
{
    struct host_call *found = process->sent;
    if (found == NULL) {
        kg_fail(err, KG_E_NOT_APPLICABLE, "no call is under way, so there is nobody to ask");
        return NULL;
    }
    for (struct host_call *at = process->sent; at != NULL; at = at->next_sent) {
        if (!host_is_same_conversation(at->asker, process->sent->asker)) {
            kg_fail(err, KG_E_NOT_APPLICABLE,
                    "several conversations are under way, so it is not known whom to ask");
            kg_hint(err, "with `process: session` each has a process of its own");
            return NULL;
        }
        if (found->asked == NULL)
            found = at;
    }
    return found;
}

/* -- the question ------------------------------------------------------------------------------ */

static int take_title(struct host_question *question, const struct kg_node *params,
                      struct kg_err *err)
{
    struct kg_str title = kg_node_text(params, "title");
    if (title.length == 0 || title.length > TITLE_MAX_BYTES)
        return kg_fail(err, KG_E_INVALID_PARAMS, "\"title\" must be a string of 1 to %d bytes",
                       TITLE_MAX_BYTES);
    redact_put(question->call->process->secrets, title, false, &question->title);
    return 0;
}

static int take_schema(struct host_question *question, const struct kg_node *params,
                       struct kg_err *err)
{
    static const struct schema_options options = {.draft = SCHEMA_DRAFT_2020_12, .formats = true};
    const struct kg_node *schema = kg_node_get(params, "schema");
    if (schema == NULL) {
        kg_buf_text(&question->schema_text, "{\"type\":\"object\"}");
        return 0;
    }
    kg_json_put_node(&question->schema_text, schema);
    if (schema->type != KG_OBJECT || question->schema_text.length > SCHEMA_MAX_BYTES)
        return kg_fail(err, KG_E_INVALID_PARAMS, "\"schema\" must be an object of at most %d bytes",
                       SCHEMA_MAX_BYTES);
    question->schema = schema_compile(schema, &options, err);
    return question->schema != NULL ? 0 : kg_wrap(err, -EINVAL, "\"schema\"");
}

/* Only what a browser opens as a page: a person is asked to follow a stranger's link. */
static int host_asks_take_url(struct host_question *question, struct kg_str url, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf escaped = {0};
    kg_buf_escaped(&escaped, url);
    bool is_web = kg_str_starts(url, "https://") || kg_str_starts(url, "http://");
    if (!is_web || url.length > URL_MAX_BYTES || !kg_str_equal(kg_buf_view(&escaped), url))
        return kg_fail(err, KG_E_INVALID_PARAMS,
                       "\"url\" must begin with https:// or http:// and have at most %d bytes",
                       URL_MAX_BYTES);
    question->base.kind = HOST_ASK_URL;
    kg_buf_str(&question->url, url);
    return 0;
}

static int host_asks_read_params(struct host_question *question, const struct host_service *service,
                                 struct kg_str params, struct kg_err *err)
{
    if (params.length > SAMPLE_MAX_BYTES)
        return kg_fail(err, KG_E_TOO_LARGE, "the params have more than %zu bytes",
                       SAMPLE_MAX_BYTES);
    kg_buf_str(&question->params, params);
    question->base.kind = service->kind;
    if (service->kind != HOST_ASK_FORM)
        return 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, err);
    if (doc == NULL || take_title(question, doc->root, err) < 0)
        return -EINVAL;
    struct kg_str url = kg_node_text(doc->root, "url");
    return url.data != NULL ? host_asks_take_url(question, url, err)
                            : take_schema(question, doc->root, err);
}

static void host_asks_fill_in(struct host_question *question)
{
    const struct host *host = question->call->host;
    struct host_ask *base = &question->base;
    base->id = kg_id_new("qst_");
    base->plugin = question->call->process->name;
    base->title = kg_buf_view(&question->title);
    base->schema = kg_buf_view(&question->schema_text);
    base->url = kg_buf_view(&question->url);
    base->params = kg_buf_view(&question->params);
    base->key = kg_buf_view(&question->key);
    base->asked_at_ms = kg_wall_ms();
    base->deadline_at_ms = base->asked_at_ms + host->config->limits_question_ms;
}

static int host_asks_check_count(struct host_call *call, struct kg_err *err)
{
    size_t open = 0;
    for (const struct host_question *at = call->questions; at != NULL; at = at->next)
        open++;
    if (open >= HOST_ASKS_OPEN_MAX || call->question_count >= HOST_ASKS_MAX)
        return kg_fail(err, KG_E_BUSY, "one call has at most %d questions, and %d at a time",
                       HOST_ASKS_MAX, HOST_ASKS_OPEN_MAX);
    call->question_count++;
    return 0;
}

/* Takes over what is filled in of `question`. */
static int host_asks_begin(struct host_question *question, const struct host_service *service,
                           struct kg_str params, struct kg_err *err)
{
    struct host_call *call = question->call;
    question->next = call->questions;
    call->questions = question;
    if (host_asks_check_count(call, err) < 0 ||
        host_asks_read_params(question, service, params, err) < 0) {
        host_asks_question_free(question);
        return -EINVAL;
    }
    host_asks_fill_in(question);
    audit_emit(call->host->audit, AUDIT_PLUGIN_ASKED, kg_str(call->asker->request_id),
               AUDIT_V_TEXT(call->process->name), AUDIT_V_TEXT(question->base.id.text),
               AUDIT_V_TEXT(host_ask_kind_names[question->base.kind]),
               AUDIT_V_TEXT(call->asker->session_id));
    if (call->asked == NULL || !call->asked->ask(call->data, &question->base)) {
        end_unanswered(question, "the caller cannot be asked");
        return 0;
    }
    loop_timer_start(call->host->loop, &question->timer,
                     (uint64_t)call->host->config->limits_question_ms, host_asks_on_deadline);
    return 0;
}

int host_ask_serve(struct host_process *process, const struct host_service *service,
                   int64_t request, struct kg_str params, struct kg_err *err)
{
    struct host_call *call = find_call(process, err);
    if (call == NULL)
        return -EINVAL;
    struct host_question *question = kg_alloc(sizeof(*question));
    question->call = call;
    question->start = instance_start_count(process->instance);
    question->request = request;
    return host_asks_begin(question, service, params, err);
}

/* The call is known: its answer asks. Answered later, so that the caller is not called back yet. */
bool host_on_input(void *data, struct dialect_input *input)
{
    struct host_process *process = data;
    struct host_call *call = KG_CONTAINER(input->call, struct host_call, wire);
    const struct host_service *service = host_service_find(input->method);
    struct kg_err err = {0};
    if (service == NULL || call->asked == NULL ||
        host_service_check(service, &process->grants.set, &err) < 0)
        return false;
    struct host_question *question = kg_alloc(sizeof(*question));
    question->call = call;
    question->input = input;
    kg_buf_str(&question->key, input->key);
    input->host = question;
    if (host_asks_begin(question, service, input->params, &err) == 0)
        return true;
    kg_log_about(KG_WARN, process->name, "its question is not asked: %s", err.message);
    input->host = NULL;
    return false;
}
