/*
 * A host in memory: the plugin's engine as it is, with a link that a test holds the other end of.
 * Messages go through as text, so that a test sees what a host would see.
 */
#include "internal.h"

#include <stdlib.h>

struct kaged_test {
    struct engine engine;
    struct kg_buf said;        /* lines of the plugin that were not looked at yet */
    struct kg_buf answer_line; /* to the plugin's own request */
    int64_t last_id;
    kaged_test_answer *answer;
    void *answer_data;
    struct failure refusal; /* of the request that is being answered */
    struct kg_doc *reply;   /* of the last call */
    struct kg_buf result;
    struct kg_doc **notifications;
    size_t notification_count;
};

/* -- the other end of the link ----------------------------------------------------------------- */

static bool test_write(void *data, struct kg_str line)
{
    struct kaged_test *test = data;
    kg_buf_str(&test->said, line);
    return true;
}

/* The next line that the plugin said, or NULL. */
static struct kg_doc *next_said(struct kaged_test *test)
{
    const char *newline =
        test->said.length ? memchr(test->said.data, '\n', test->said.length) : NULL;
    if (newline == NULL)
        return NULL;
    size_t length = (size_t)(newline - test->said.data);
    struct kg_doc *doc = json_read((struct kg_str){test->said.data, length});
    kg_buf_consume(&test->said, length + 1);
    return doc;
}

static void keep_notification(struct kaged_test *test, struct kg_doc *doc)
{
    test->notifications =
        kg_realloc(test->notifications, (test->notification_count + 1) * sizeof(struct kg_doc *));
    test->notifications[test->notification_count++] = doc;
}

static void write_answer(struct kaged_test *test, const struct kg_node *id, const char *result)
{
    struct kg_json_writer json = kg_json_writer(&test->answer_line);
    test->answer_line.length = 0;
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    kg_json_key(&json, "id");
    kg_json_node(&json, id);
    kg_json_key(&json, result ? "result" : "error");
    if (result != NULL) {
        kg_json_raw(&json, kg_str(result));
    } else {
        kg_json_begin(&json, '{');
        kg_json_named_int(&json, "code", test->refusal.code);
        kg_json_named_text(&json, "message", test->refusal.message);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, '}');
}

static void answer_request(struct kaged_test *test, const struct kg_node *root)
{
    const struct kaged_json *params = json_of(kg_node_get(root, "params"));
    const char *method = kaged_json_text(json_of(kg_node_get(root, "method")));
    const char *result = NULL;
    kaged_test_refuse(test, KAGED_METHOD_NOT_FOUND, "method not found");
    if (test->answer != NULL)
        result = test->answer(test->answer_data, test, method, params);
    write_answer(test, kg_node_get(root, "id"), result);
}

/* The plugin waits for its host: what it has said is looked at, up to its request. */
static enum link_read test_read(void *data, int timeout_ms, struct kg_str *ret_line)
{
    struct kaged_test *test = data;
    struct kg_doc *doc;
    while ((doc = next_said(test)) != NULL) {
        bool request = kg_node_get(doc->root, "id") != NULL;
        if (!request) {
            keep_notification(test, doc);
            continue;
        }
        answer_request(test, doc->root);
        kg_doc_free(doc);
        *ret_line = kg_buf_view(&test->answer_line);
        return LINK_LINE;
    }
    return timeout_ms == 0 ? LINK_TIMEOUT : LINK_END;
}

/* -- for tests --------------------------------------------------------------------------------- */

/* After a message: notifications are kept, and the answer is the reply. */
static void look_at_said(struct kaged_test *test)
{
    struct kg_doc *doc;
    while ((doc = next_said(test)) != NULL) {
        if (kg_node_get(doc->root, "method") != NULL) {
            keep_notification(test, doc);
            continue;
        }
        kg_doc_free(test->reply);
        test->reply = doc;
    }
}

static void forget_reply(struct kaged_test *test)
{
    kg_doc_free(test->reply);
    test->reply = NULL;
    test->result.length = 0;
}

const struct kaged_json *kaged_test_call(struct kaged_test *test, const char *method,
                                         const char *params)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = kg_json_writer(&line);
    forget_reply(test);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    kg_json_named_int(&json, "id", ++test->last_id);
    kg_json_named_text(&json, "method", method);
    kg_json_key(&json, "params");
    kg_json_raw(&json, params ? kg_str(params) : KG_STR("{}"));
    kg_json_end(&json, '}');
    engine_take(&test->engine, kg_buf_view(&line));
    look_at_said(test);
    return test->reply ? json_of(kg_node_get(test->reply->root, "result")) : NULL;
}

const char *kaged_test_result(struct kaged_test *test)
{
    const struct kg_node *result = test->reply ? kg_node_get(test->reply->root, "result") : NULL;
    struct kg_json_writer json = kg_json_writer(&test->result);
    if (result == NULL)
        return NULL;
    test->result.length = 0;
    kg_json_node(&json, result);
    return kg_buf_terminate(&test->result);
}

static const struct kg_node *error_member(struct kaged_test *test, const char *key)
{
    return test->reply ? kg_node_get(kg_node_get(test->reply->root, "error"), key) : NULL;
}

int kaged_test_error(struct kaged_test *test)
{
    int64_t code = 0;
    return kg_node_int(error_member(test, "code"), &code) ? (int)code : 0;
}

const char *kaged_test_message(struct kaged_test *test)
{
    return kaged_json_text(json_of(error_member(test, "message")));
}

const char *kaged_test_line(struct kaged_test *test, const char *line)
{
    forget_reply(test);
    engine_take(&test->engine, kg_str(line));
    kg_buf_str(&test->result, kg_buf_view(&test->said));
    look_at_said(test);
    return test->result.length ? kg_buf_terminate(&test->result) : NULL;
}

void kaged_test_tick(struct kaged_test *test)
{
    engine_tick(&test->engine);
    look_at_said(test);
}

const struct kaged_json *kaged_test_notification(struct kaged_test *test, size_t index)
{
    return index < test->notification_count ? json_of(test->notifications[index]->root) : NULL;
}

void kaged_test_on_request(struct kaged_test *test, kaged_test_answer *answer, void *data)
{
    test->answer = answer;
    test->answer_data = data;
}

void kaged_test_refuse(struct kaged_test *test, int code, const char *message)
{
    failure_clear(&test->refusal);
    test->refusal.code = code;
    test->refusal.message = kg_strdup(message);
}

static void test_free(struct kaged_test *test)
{
    engine_free(&test->engine);
    kg_buf_free(&test->said);
    kg_buf_free(&test->answer_line);
    kg_buf_free(&test->result);
    failure_clear(&test->refusal);
    kg_doc_free(test->reply);
    for (size_t i = 0; i < test->notification_count; i++)
        kg_doc_free(test->notifications[i]);
    free(test->notifications);
    free(test);
}

static bool greet(struct kaged_test *test, const char *config)
{
    kaged_test_call(test, "initialize", "{\"api_version\":1,\"storage_available\":true}");
    if (kaged_test_error(test) == 0 && config != NULL) {
        kg_auto(kg_free) char *params = kg_format("{\"config\":%s}", config);
        kaged_test_call(test, "config.update", params);
    }
    if (kaged_test_error(test) != 0 || test->reply == NULL) {
        kaged_log(KAGED_ERROR, "the plugin refused the handshake",
                  KAGED_FIELDS({"error", kaged_text(kaged_test_message(test))}));
        return false;
    }
    kaged_test_line(test, "{\"jsonrpc\":\"2.0\",\"method\":\"initialized\",\"params\":{}}");
    return true;
}

struct kaged_test *kaged_test_start(const struct kaged_plugin *plugin, const char *config)
{
    struct kaged_test *test = kg_alloc(sizeof(*test));
    engine_init(&test->engine, plugin,
                (struct link){.read = test_read, .write = test_write, .data = test});
    if (greet(test, config))
        return test;
    test_free(test);
    return NULL;
}

void kaged_test_stop(struct kaged_test *test)
{
    if (test == NULL)
        return;
    engine_shut_down(&test->engine);
    test_free(test);
}
