/*
 * Logs and the audit log: questions that may wait for an answer. One asks again every now and then
 * until there is something to tell, the time is over, or the client left.
 */
#include "http/internal.h"

#include <stdlib.h>

#define POLL_EVERY_MS 200   /* how often a waiting question looks again */
#define WAIT_MAX_MS   60000 /* the longest that one question waits */

struct question {
    struct http_request *request;
    struct loop_timer timer;
    uint64_t until_ms;
    bool gone;
    uint64_t asked_at; /* host_audit_count when the audit log was last asked */
    void (*ask)(struct question *question);
    char *plugin;               /* owned */
    struct audit_filter filter; /* its texts are owned by the question */
    char *texts[3];
    int64_t cursor;
};

static void http_follow_question_free(struct question *question)
{
    loop_timer_stop(host_loop(http_host(question->request)), &question->timer);
    for (size_t i = 0; i < KG_COUNT(question->texts); i++)
        free(question->texts[i]);
    free(question->plugin);
    free(question);
}

static void question_answer(struct question *question, struct kg_str json)
{
    struct http_request *request = question->request;
    http_follow_question_free(question);
    http_reply(request, 200, json);
}

static void question_fail(struct question *question, const struct kg_err *err)
{
    struct http_request *request = question->request;
    http_follow_question_free(question);
    http_reply_error(request, err);
}

static void on_question_due(struct loop_timer *timer)
{
    struct question *question = KG_CONTAINER(timer, struct question, timer);
    question->ask(question);
}

/* True if the question waits for more; false if it must be answered now. */
static bool question_waits(struct question *question)
{
    struct host *host = http_host(question->request);
    if (question->gone || host_is_stopping(host) ||
        loop_now_ms(host_loop(host)) >= question->until_ms)
        return false;
    loop_timer_start(host_loop(host), &question->timer, POLL_EVERY_MS, on_question_due);
    return true;
}

static void on_asker_gone(void *data)
{
    struct question *question = data;
    question->gone = true;
    if (!loop_timer_running(&question->timer))
        return; /* it is being asked, and the answer will find nobody */
    loop_timer_stop(host_loop(http_host(question->request)), &question->timer);
    question->ask(question);
}

static struct question *http_follow_question_new(struct http_request *request,
                                                 void (*ask)(struct question *question))
{
    struct question *question = kg_alloc(sizeof(*question));
    int64_t wait_ms = http_query_int(request, "wait_ms", 0);
    question->request = request;
    question->ask = ask;
    question->until_ms = loop_due_ms((uint64_t)(wait_ms < WAIT_MAX_MS ? wait_ms : WAIT_MAX_MS));
    http_on_gone(request, on_asker_gone, question);
    return question;
}

static void ask_logs(struct question *question)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, body = {0};
    struct kg_err err = {0};
    struct host_named named;
    int64_t cursor = 0;
    int64_t lines = http_query_int(question->request, "lines", 100);
    bool follows = question->cursor >= 0;
    int found = host_find(http_host(question->request), kg_str(question->plugin), &named, &err);
    if (found < 0 || (named.process != NULL &&
                      instance_log_read(host_status(named).instance, question->cursor,
                                        lines > 0 ? (size_t)lines : 1, &text, &cursor, &err) < 0)) {
        question_fail(question, &err);
        return;
    }
    if (follows && text.length == 0 && question_waits(question))
        return;
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    http_put_lines(&json, "lines", kg_buf_view(&text));
    kg_json_named_int(&json, "cursor", cursor);
    kg_json_end(&json, '}');
    question_answer(question, kg_buf_view(&body));
}

void http_handle_logs(struct http_request *request)
{
    struct host_named named;
    if (!http_find_plugin(request, &named))
        return;
    struct question *question = http_follow_question_new(request, ask_logs);
    question->plugin = kg_strdup(host_name(named));
    question->cursor = http_query_int(request, "after", -1);
    ask_logs(question);
}

static void on_audit_lines(void *data, struct kg_str lines, const struct kg_err *err_or_null)
{
    struct question *question = data;
    if (err_or_null != NULL) {
        question_fail(question, err_or_null);
        return;
    }
    if (lines.length == 0 && question_waits(question))
        return;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_buf_str(&body, KG_STR("{\"events\":["));
    for (size_t i = 0; i < lines.length; i++)
        kg_buf_char(&body, lines.data[i] == '\n' ? ',' : lines.data[i]);
    if (lines.length > 0)
        body.length--; /* the comma after the last */
    kg_buf_str(&body, KG_STR("]}"));
    question_answer(question, kg_buf_view(&body));
}

static void ask_audit(struct question *question)
{
    uint64_t count = host_audit_count(http_host(question->request));
    if (count == question->asked_at && question_waits(question))
        return; /* nothing came since: the files need not be read again */
    question->asked_at = count;
    host_audit_query(http_host(question->request), &question->filter, on_audit_lines, question);
}

static struct kg_str http_follow_keep_text(struct question *question, size_t slot,
                                           struct kg_str text)
{
    question->texts[slot] = kg_str_dup(text);
    return (struct kg_str){question->texts[slot], text.length};
}

void http_handle_audit(struct http_request *request)
{
    int64_t since_ms = 0;
    struct kg_str since = http_query_parameter(request, "since");
    if (since.data != NULL)
        kg_time_parse(since, &since_ms);
    int64_t limit = http_query_int(request, "limit", 100);
    struct question *question = http_follow_question_new(request, ask_audit);
    question->asked_at = UINT64_MAX;
    question->filter = (struct audit_filter){
        .plugin = http_follow_keep_text(question, 0, http_query_parameter(request, "plugin")),
        .event = http_follow_keep_text(question, 1, http_query_parameter(request, "event")),
        .after_id = http_follow_keep_text(question, 2, http_query_parameter(request, "after")),
        .since_ms = since_ms,
        .limit = limit > 0 ? (size_t)limit : 1,
    };
    ask_audit(question);
}

void http_handle_audit_verify(struct http_request *request)
{
    struct kg_err err;
    if (host_audit_verify(http_host(request), http_on_answer, request, &err) < 0)
        http_reply_error(request, &err);
}
