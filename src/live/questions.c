/*
 * Questions that plugins raise in a session. One is open from the moment it is asked to its answer,
 * its deadline or the end of its call, whichever comes first; attached clients see it, the first to
 * answer it counts, and what became of it is kept. Answers go to the plugin and nowhere else.
 */
#include "live/internal.h"

#include "host/asks.h"

#include <stdlib.h>

#define OPEN_MAX 32 /* in one session */

struct live_question {
    struct live_question *next; /* of its session */
    struct live_work *work;
    struct host_ask *ask;
};

/* -- what is told and kept of it --------------------------------------------------------------- */

static char *questions_text_or_null(struct kg_str text)
{
    return text.length > 0 ? kg_str_dup(text) : NULL;
}

/* Texts that are copies; the rest is borrowed. */
struct shown {
    struct state_question row;
    char *title, *schema, *url, *id, *plugin; /* owned */
};

static void shown_free(struct shown *shown)
{
    free(shown->title);
    free(shown->schema);
    free(shown->url);
    free(shown->id);
    free(shown->plugin);
}

static struct shown questions_show(const struct live_question *question)
{
    const struct host_ask *ask = question->ask;
    const struct live_work *work = question->work;
    struct shown shown = {
        .title = kg_str_dup(ask->title),
        .schema = questions_text_or_null(ask->schema),
        .url = questions_text_or_null(ask->url),
        .id = kg_strdup(ask->id.text),
        .plugin = kg_strdup(ask->plugin),
    };
    shown.row = (struct state_question){
        .id = shown.id,
        .session = work->live->id.text,
        .agent = work->asker->agent_path,
        .plugin = shown.plugin,
        .kind = host_ask_kind_names[ask->kind],
        .title = shown.title,
        .schema = shown.schema,
        .url = shown.url,
        .asked_ms = ask->asked_at_ms,
        .deadline_ms = ask->deadline_at_ms,
        .state = "open",
    };
    return shown;
}

/* What kaged.db has no text for is empty. */
static const char *or_null(const char *text_or_null)
{
    return text_or_null != NULL && text_or_null[0] != '\0' ? text_or_null : NULL;
}

void live_question_write(const struct state_question *row, struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "id", row->id);
    kg_json_named_text(json, "session_id", row->session);
    kg_json_named_text(json, "agent", or_null(row->agent));
    kg_json_named_text(json, "plugin", row->plugin);
    kg_json_named_text(json, "kind", row->kind);
    kg_json_named_text(json, "title", row->title);
    kg_json_named_raw(json, "schema", or_null(row->schema) ? kg_str(row->schema) : KG_STR("null"));
    kg_json_named_text(json, "url", or_null(row->url));
    kg_json_named_text(json, "state", row->state);
    kg_json_named_text(json, "answered_by", or_null(row->answered_by));
    kg_json_named_time(json, "asked_at", row->asked_ms);
    kg_json_named_time(json, "deadline_at", row->deadline_ms);
    kg_json_named_time(json, "ended_at", row->ended_ms);
    kg_json_end(json, '}');
}

static void questions_on_kept(void *data, const struct kg_err *err_or_null)
{
    (void)data;
    if (err_or_null != NULL)
        kg_log(KG_WARN, "a question could not be saved: %s", err_or_null->message);
}

/* Kept, told as an event; the one who follows the call is told of one that begins. */
static void questions_tell(struct sessions *sessions, const struct shown *shown)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    live_question_write(&shown->row, &json);
    state_keep_question(host_keeper(sessions->host), &shown->row, questions_on_kept, NULL);
    host_events_question(host_events(sessions->host), shown->row.plugin, shown->row.session,
                         shown->row.state, kg_buf_view(&text));
}

static void questions_finish(struct sessions *sessions, struct shown *shown, const char *state,
                             const char *answered_by)
{
    shown->row.state = state;
    shown->row.answered_by = answered_by;
    shown->row.ended_ms = kg_wall_ms();
    questions_tell(sessions, shown);
    shown_free(shown);
}

/* -- asked and withdrawn ----------------------------------------------------------------------- */

static size_t count_open(const struct live_session *live)
{
    size_t count = 0;
    for (const struct live_question *at = live->questions; at != NULL; at = at->next)
        count++;
    return count;
}

bool live_question_begin(struct live_work *work, struct host_ask *asked,
                         live_question_fn *on_question, void *data)
{
    struct live_session *live = work->live;
    if (count_open(live) >= OPEN_MAX || work->sessions->stopping)
        return false;
    struct live_question *question = kg_alloc(sizeof(*question));
    *question = (struct live_question){live->questions, work, asked};
    live->questions = question;
    struct shown shown = questions_show(question);
    questions_tell(work->sessions, &shown);
    if (on_question != NULL)
        on_question(data, &shown.row);
    shown_free(&shown);
    return true;
}

static void questions_tell_tool(void *data, const struct state_question *row)
{
    struct live_tool *tool = data;
    if (tool->on_question != NULL)
        tool->on_question(tool, row);
}

static bool questions_ask(void *data, struct host_ask *asked)
{
    struct live_tool *tool = data;
    if (asked->kind == HOST_ASK_SAMPLE)
        return live_sample_begin(tool, asked);
    return asked->kind != HOST_ASK_ROOTS &&
           live_question_begin(tool->work, asked, questions_tell_tool, tool);
}

static struct live_question *questions_find(const struct live_session *live, struct kg_str id)
{
    struct live_question *at = live->questions;
    while (at != NULL && !kg_str_is(id, at->ask->id.text))
        at = at->next;
    return at;
}

void live_question_end(struct live_work *work, const struct host_ask *asked)
{
    struct live_session *live = work->live;
    struct live_question *question = questions_find(live, kg_str(asked->id.text));
    if (question == NULL)
        return;
    struct shown shown = questions_show(question);
    KG_UNLINK(live->questions, question);
    free(question);
    questions_finish(work->sessions, &shown, "cancel", NULL);
}

static void questions_withdraw(void *data, struct host_ask *asked, const char *why)
{
    struct live_tool *tool = data;
    (void)why;
    if (asked->kind == HOST_ASK_SAMPLE)
        live_sample_end(tool, asked);
    else
        live_question_end(tool->work, asked);
}

const struct host_asked_ops live_asked_ops = {.ask = questions_ask, .withdraw = questions_withdraw};

/* -- what routes ask for ----------------------------------------------------------------------- */

struct asking {
    struct live_op op;
    bool all;
    char **open; /* owned: the ids of those that wait */
    char *id;    /* owned: of the one that is answered */
    struct kg_buf answer;
    struct kg_json_writer json;
};

static void clear_asking(struct live_op *op)
{
    struct asking *asking = KG_CONTAINER(op, struct asking, op);
    kg_list_free(asking->open);
    free(asking->id);
    kg_buf_free(&asking->answer);
}

/* One that a daemon before this one had asked waits for nothing any more. */
static void questions_put_kept(void *data, const struct state_question *row)
{
    struct asking *asking = data;
    struct state_question shown = *row;
    bool is_open = kg_list_has(asking->open, kg_str(row->id));
    if (!is_open && strcmp(row->state, "open") == 0)
        shown.state = "cancel";
    if (is_open || asking->all)
        live_question_write(&shown, &asking->json);
}

static int run_questions(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct asking *asking = KG_CONTAINER(job, struct asking, op.work.job);
    asking->op.json.length = 0;
    asking->json = kg_json_writer(&asking->op.json);
    kg_json_begin(&asking->json, '{');
    kg_json_named_begin(&asking->json, "questions", '[');
    int result =
        state_questions(state, asking->op.work.live->id.text, questions_put_kept, asking, err);
    kg_json_end(&asking->json, ']');
    kg_json_end(&asking->json, '}');
    return result;
}

static void questions_kept(void *data, const struct kg_err *err_or_null)
{
    struct live_op *op = data;
    (void)err_or_null;
    live_op_read(op, run_questions, live_op_answer);
}

/* What was asked just now is written by the keeper's thread: it is read after that. */
static void questions_open(struct live_op *op)
{
    struct asking *asking = KG_CONTAINER(op, struct asking, op);
    for (const struct live_question *at = op->work.live->questions; at != NULL; at = at->next)
        kg_list_add(&asking->open, kg_strdup(at->ask->id.text));
    state_when_kept(host_keeper(op->work.sessions->host), questions_kept, op);
}

void sessions_questions(struct sessions *sessions, const struct sessions_request *request, bool all)
{
    struct asking *asking = live_op_new(sizeof(*asking), sessions, request, clear_asking);
    asking->all = all;
    asking->open = kg_list_new(0);
    if (live_op_admit(&asking->op, false))
        live_op_open(&asking->op, questions_open);
}

void sessions_open_questions(const struct sessions *sessions, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    struct kg_str id;
    void *value;
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "questions", '[');
    for (size_t at = 0; kg_map_next(sessions->live, &at, &id, &value);) {
        const struct live_session *live = value;
        for (const struct live_question *one = live->questions; one != NULL; one = one->next) {
            struct shown shown = questions_show(one);
            live_question_write(&shown.row, &json);
            shown_free(&shown);
        }
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
}

/* Whatever the answer leads to, the question is out of the list by then. */
static int questions_give(struct live_op *op, struct live_question *question, struct kg_str answer,
                          struct kg_err *err)
{
    struct live_session *live = op->work.live;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(answer, err);
    if (doc == NULL)
        return -1;
    struct shown shown = questions_show(question);
    KG_UNLINK(live->questions, question);
    int result = host_ask_answer(question->ask, answer, err);
    if (result < 0) {
        question->next = live->questions;
        live->questions = question;
        shown_free(&shown);
        return result;
    }
    free(question);
    kg_auto(kg_free) char *action = kg_str_dup(kg_node_text(doc->root, "action"));
    struct kg_json_writer json = kg_json_writer(&op->json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "id", shown.row.id);
    kg_json_named_text(&json, "state", action);
    kg_json_end(&json, '}');
    questions_finish(op->work.sessions, &shown, action, op->work.asker->operator_id);
    return 0;
}

static void answer_open(struct live_op *op)
{
    struct asking *asking = KG_CONTAINER(op, struct asking, op);
    struct live_question *question = questions_find(op->work.live, kg_str(asking->id));
    struct kg_err err = {0};
    if (question == NULL) {
        kg_fail(&err, KG_E_NOT_FOUND, "session %s has no open question %" KG_S_NAME,
                op->work.live->id.text, asking->id);
        kg_hint(&err, "kaged session questions %s lists them", op->work.live->id.text);
    } else if (questions_give(op, question, kg_buf_view(&asking->answer), &err) == 0) {
        live_op_answer(op);
        return;
    }
    live_op_fail(op, &err);
}

void sessions_answer(struct sessions *sessions, const struct sessions_request *request,
                     struct kg_str id, struct kg_str answer)
{
    struct asking *asking = live_op_new(sizeof(*asking), sessions, request, clear_asking);
    asking->id = kg_str_dup(id);
    kg_buf_str(&asking->answer, answer);
    if (live_op_admit(&asking->op, false))
        live_op_open(&asking->op, answer_open);
}
