/*
 * What a model says in one step. It may say anything: each text, each call and all of them together
 * are bounded before they are kept, and every call that is kept can become an entry.
 */
#include "live/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX      ((size_t)SESSION_CONTENT_MAX / 6 - 64) /* it fits however it is escaped */
#define TOLD_MAX      ((size_t)16 << 20)                     /* text and thoughts of one answer */
#define CALLS_MADE    64                                     /* of one answer */
#define ARGUMENTS_MAX ((size_t)1 << 20)                      /* bytes of one call */
#define CALLS_BYTES   ((size_t)4 << 20)                      /* of all calls of one answer */
#define CALL_WORD_MAX 256                                    /* bytes of a name or an id */

static void call_clear(struct turn_call *call)
{
    free(call->name);
    free(call->problem);
    kg_buf_free(&call->arguments);
    kg_buf_free(&call->content);
}

void turn_answer_clear(struct turn_answer *answer)
{
    kg_buf_free(&answer->text);
    while (answer->call_count > 0)
        call_clear(&answer->calls[--answer->call_count]);
    free(answer->calls);
    *answer = (struct turn_answer){0};
}

int turn_answer_add_thought(struct turn_answer *answer, struct kg_str text, struct kg_err *err)
{
    answer->told_bytes += text.length;
    if (answer->told_bytes <= TOLD_MAX)
        return 0;
    return kg_fail(err, KG_E_TOO_LARGE, "the model said more than %zu bytes in one answer",
                   TOLD_MAX);
}

int turn_answer_add_text(struct turn_answer *answer, struct kg_str text, struct kg_err *err)
{
    if (answer->text.length + text.length > TEXT_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "the model's answer has more than %zu bytes", TEXT_MAX);
    kg_buf_str(&answer->text, text);
    return turn_answer_add_thought(answer, text, err);
}

/* -- calls ------------------------------------------------------------------------------------- */

static struct kg_str word_of(struct kg_str text)
{
    if (text.length > CALL_WORD_MAX)
        text.length = kg_utf8_valid((struct kg_str){text.data, CALL_WORD_MAX});
    return text;
}

static void turn_answer_write_content(struct turn_call *call, struct kg_str call_id)
{
    call->content.length = 0;
    struct kg_json_writer json = kg_json_writer(&call->content);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", call->name);
    kg_json_named_raw(&json, "arguments", kg_buf_view(&call->arguments));
    if (call_id.length > 0)
        kg_json_named_str(&json, "call_id", call_id);
    kg_json_end(&json, '}');
}

static struct session_draft draft_of(const struct turn_call *call, const char *agent)
{
    return (struct session_draft){.agent = agent,
                                  .kind = SESSION_TOOL_CALL,
                                  .role = SESSION_ASSISTANT,
                                  .content = kg_buf_view(&call->content)};
}

/* Called with nothing, since what it was called with cannot be kept. */
static void drop_arguments(struct turn_call *call, const char *problem)
{
    free(call->problem);
    call->problem = kg_strdup(problem);
    call->arguments.length = 0;
    kg_buf_text(&call->arguments, "{}");
}

/* The first thing that keeps it from being made. */
static void turn_answer_find_problem(const struct turn_answer *answer, struct turn_call *call,
                                     const struct model_event *event)
{
    char words[128];
    if (event->call.problem.length > 0) {
        kg_auto(kg_free) char *problem = kg_format("the arguments are not a JSON object: %.*s",
                                                   KG_STR_CUT(event->call.problem, KG_CUT_CAUSE));
        drop_arguments(call, problem);
    } else if (call->arguments.length > ARGUMENTS_MAX ||
               answer->call_bytes + call->arguments.length > CALLS_BYTES) {
        snprintf(words, sizeof(words), "the arguments have %zu bytes, which is too much",
                 call->arguments.length);
        drop_arguments(call, words);
    } else if (answer->call_count >= CALLS_MADE) {
        snprintf(words, sizeof(words), "refused: only the first %d calls of an answer are made",
                 CALLS_MADE);
        call->problem = kg_strdup(words);
    }
}

int turn_answer_add_call(struct turn_answer *answer, const struct model_event *event,
                         struct kg_err *err)
{
    if (answer->call_count == TURN_CALLS_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "the model calls more than %d tools at once",
                       TURN_CALLS_MAX);
    struct turn_call call = {.name = kg_str_dup(word_of(event->call.name))};
    struct kg_json_writer json = kg_json_writer(&call.arguments);
    kg_json_node(&json, event->call.arguments);
    turn_answer_find_problem(answer, &call, event);
    turn_answer_write_content(&call, word_of(event->call.id));
    struct session_draft draft = draft_of(&call, "primary");
    struct kg_err unfit = {0};
    if (session_check_draft(&draft, &unfit) < 0) {
        drop_arguments(&call, unfit.message);
        turn_answer_write_content(&call, word_of(event->call.id));
    }
    answer->call_bytes += call.arguments.length;
    answer->calls = kg_realloc(answer->calls, (answer->call_count + 1) * sizeof(answer->calls[0]));
    answer->calls[answer->call_count++] = call;
    return 0;
}

size_t turn_answer_message(const struct turn_answer *answer, const char *agent,
                           struct kg_buf *content, struct session_draft *ret_draft)
{
    if (answer->text.length == 0)
        return 0;
    kg_json_put_string(content, kg_buf_view(&answer->text));
    *ret_draft = (struct session_draft){.agent = agent,
                                        .kind = SESSION_MESSAGE,
                                        .role = SESSION_ASSISTANT,
                                        .content = kg_buf_view(content)};
    return 1;
}

size_t turn_answer_drafts(const struct turn_answer *answer, const char *agent,
                          struct kg_buf *content, struct session_draft *ret_drafts)
{
    size_t count = turn_answer_message(answer, agent, content, ret_drafts);
    for (size_t i = 0; i < answer->call_count; i++)
        ret_drafts[count++] = draft_of(&answer->calls[i], agent);
    return count;
}
