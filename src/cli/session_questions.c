/*
 * Questions of plugins, on a terminal: listed, answered, and asked in place while a turn runs. What
 * a plugin says is a stranger's words, shown escaped and with its name before them.
 */
#include "cli/rows.h"
#include "cli/session.h"

#include <stdlib.h>
#include <unistd.h>

#define ANSWER_ASK_MS 10000

/* -- the list ---------------------------------------------------------------------------------- */

static const struct row question_rows[] = {
    {"!questions", .words = "no questions\n"},
    {.each = "questions",
     .table = "QUESTION={id}; PLUGIN={plugin}; KIND={kind}; STATE={state}; TITLE={title}"},
    {0},
};
const struct cli_page page_session_questions = {"GET", "/api/v1/sessions/{1}/questions?all",
                                                .silence_ms = CLIENT_WAIT_FOREVER,
                                                .rows = question_rows};

/* -- one answer -------------------------------------------------------------------------------- */

static const struct cli_page answer_page = {"POST", "/api/v1/sessions/{1}/questions/{2}",
                                            .silence_ms = CLIENT_WAIT_FOREVER,
                                            .words = "{id}: {state}\n"};

static void session_questions_put_answer(struct kg_buf *out, const char *action,
                                         struct kg_str content)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "action", action);
    if (content.length > 0)
        kg_json_named_raw(&json, "content", content);
    kg_json_end(&json, '}');
}

int cli_session_answer(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0}, content = {0};
    const char *action = cli_has(cli, "decline")  ? "decline"
                         : cli_has(cli, "cancel") ? "cancel"
                                                  : "accept";
    struct kg_err err = {0};
    bool accepts = strcmp(action, "accept") == 0;
    if (accepts && cli_take_params(cli_argument(cli, 2), &content, &err) < 0)
        return print_error(&err);
    session_questions_put_answer(&body, action, accepts ? kg_buf_view(&content) : KG_STR_NULL);
    return page_show_with(cli, &answer_page, &(struct page_given){.body = kg_buf_view(&body)});
}

/* -- in place ---------------------------------------------------------------------------------- */

/* "Which branch? (one of main, dev) [main]: " */
static void session_questions_put_prompt(struct kg_buf *out, struct kg_str name,
                                         const struct kg_node *property, bool is_required)
{
    const struct kg_node *choices = kg_node_list(property, "enum");
    struct kg_str title = cli_text(property, "title");
    kg_buf_text(out, "  ");
    kg_buf_escaped(out, title.length > 0 ? title : name);
    if (cli_text(property, "description").length > 0) {
        kg_buf_text(out, ", ");
        kg_buf_escaped(out, cli_text(property, "description"));
    }
    for (uint32_t i = 0; i < choices->count; i++) {
        kg_buf_text(out, i == 0 ? " (one of " : ", ");
        kg_buf_escaped(out,
                       choices->items[i].type == KG_STRING ? choices->items[i].text : KG_STR("?"));
    }
    kg_buf_text(out, choices->count > 0 ? ")" : "");
    kg_buf_text(out, is_required ? ": " : " (may be empty): ");
}

/* A line as the schema's type has it; what does not fit is left to the daemon to refuse. */
static void session_questions_put_value(struct kg_json_writer *json, struct kg_str type,
                                        struct kg_str line)
{
    size_t offset;
    bool is_text = type.length == 0 || kg_str_is(type, "string");
    if (kg_str_is(type, "boolean"))
        kg_json_bool(json,
                     kg_str_is(line, "y") || kg_str_is(line, "yes") || kg_str_is(line, "true"));
    else if (!is_text && kg_json_check(line, &offset) == KG_JSON_OK)
        kg_json_raw(json, line);
    else
        kg_json_str(json, line);
}

/* Each property of the form, one after the other. False: he ended it. */
static bool session_questions_fill_in(int tty, const struct kg_node *schema,
                                      struct kg_buf *ret_content)
{
    const struct kg_node *properties = kg_node_typed(schema, "properties", KG_OBJECT);
    struct kg_json_writer json = kg_json_writer(ret_content);
    kg_json_begin(&json, '{');
    for (uint32_t i = 0; properties != NULL && i < properties->count; i++) {
        const struct kg_member *member = &properties->members[i];
        kg_auto(kg_buf_free) struct kg_buf prompt = {0}, line = {0};
        kg_auto(kg_free) char *key = kg_str_dup(member->key);
        bool is_required = kg_node_has_text(kg_node_get(schema, "required"), member->key);
        session_questions_put_prompt(&prompt, member->key, &member->value, is_required);
        if (!terminal_read(tty, kg_buf_view(&prompt), &line))
            return false;
        if (line.length == 0 && !is_required)
            continue;
        kg_json_key(&json, key);
        session_questions_put_value(&json, cli_text(&member->value, "type"), kg_buf_view(&line));
    }
    kg_json_end(&json, '}');
    return true;
}

/* NULL: the form has none, and is a yes or no; or it is not a form. */
static const struct kg_member *first_field(const struct kg_node *question)
{
    const struct kg_node *properties =
        kg_node_typed(kg_node_get(question, "schema"), "properties", KG_OBJECT);
    return properties != NULL && properties->count > 0 ? &properties->members[0] : NULL;
}

/* The action that he chose; the content of a form is filled in. */
static const char *ask_person(int tty, const struct kg_node *question, struct kg_buf *ret_content)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    bool is_url = kg_str_is(cli_text(question, "kind"), "url");
    kg_buf_text(&words, "plugin ");
    kg_buf_escaped(&words, cli_text(question, "plugin"));
    kg_buf_text(&words, " asks: ");
    kg_buf_escaped(&words, cli_text(question, "title"));
    if (is_url) {
        kg_buf_text(&words, "\n  open ");
        kg_buf_escaped(&words, cli_text(question, "url"));
    }
    kg_buf_char(&words, '\n');
    fwrite(words.data, 1, words.length, stderr);
    bool is_form = !is_url && first_field(question) != NULL;
    if (!terminal_ask(tty, is_url ? "Did you open it?" : is_form ? "Answer it?" : "Yes?"))
        return "decline";
    if (is_url)
        return "accept";
    return session_questions_fill_in(tty, kg_node_get(question, "schema"), ret_content) ? "accept"
                                                                                        : "cancel";
}

/* -- beforehand -------------------------------------------------------------------------------- */

void session_answers_free(struct session_answers *answers)
{
    kg_list_free(answers->texts);
}

static bool is_yes(struct kg_str text)
{
    return kg_str_is(text, "y") || kg_str_is(text, "yes") || kg_str_is(text, "true");
}

/* The action, and the content; NULL: nothing was said beforehand that answers it. */
static const char *session_questions_take_answer(const struct cli *cli,
                                                 const struct kg_node *question,
                                                 struct session_answers *answers,
                                                 struct kg_buf *ret_content)
{
    const struct kg_member *field = first_field(question);
    if (field == NULL)
        kg_buf_text(ret_content, "{}");
    if (field == NULL && cli_has(cli, "yes"))
        return "accept";
    if (answers->texts == NULL)
        answers->texts = cli_option_list(cli, "answer");
    if (answers->texts[answers->used] == NULL)
        return NULL;
    struct kg_str text = kg_str(answers->texts[answers->used++]);
    if (field == NULL)
        return is_yes(text) ? "accept" : "decline";
    struct kg_json_writer json = kg_json_writer(ret_content);
    kg_auto(kg_free) char *key = kg_str_dup(field->key);
    kg_json_begin(&json, '{');
    kg_json_key(&json, key);
    session_questions_put_value(&json, cli_text(&field->value, "type"), text);
    kg_json_end(&json, '}');
    return "accept";
}

static void tell_waiting(const struct cli *cli, const struct kg_node *question)
{
    kg_auto(kg_free) char *self = cli_self(cli);
    fprintf(stderr, "a plugin asks: %s session answer %s %.*s\n", self, cli_argument(cli, 0),
            KG_STR_ARG(cli_text(question, "id")));
}

/* Without a terminal somebody else may answer it: it is only told. */
void session_ask(const struct cli *cli, const struct kg_node *question,
                 struct session_answers *answers)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, rest = {0}, body = {0}, content = {0};
    struct client_reply reply = {0};
    struct kg_err err = {0};
    const char *action = session_questions_take_answer(cli, question, answers, &content);
    kg_auto(kg_close) int tty = action == NULL ? terminal_open() : -1;
    if (action == NULL && tty < 0) {
        tell_waiting(cli, question);
        return;
    }
    if (action == NULL)
        action = ask_person(tty, question, &content);
    session_questions_put_answer(
        &body, action, strcmp(action, "accept") == 0 ? kg_buf_view(&content) : KG_STR_NULL);
    kg_buf_text(&rest, "/questions/");
    kg_buf_percent(&rest, cli_text(question, "id"));
    session_put_target(&target, cli, kg_buf_terminate(&rest));
    const struct client_request request = {.method = "POST",
                                           .target = kg_buf_terminate(&target),
                                           .body = kg_buf_view(&body),
                                           .silence_ms = ANSWER_ASK_MS};
    if (client_exchange(cli->paths.socket, &request, &reply, &err) < 0)
        (void)print_error(&err);
    else if (reply.status >= 400)
        fprintf(stderr, "the answer was not accepted: %.*s\n",
                KG_STR_CUT(kg_buf_view(&reply.body), KG_CUT_CAUSE));
    kg_buf_free(&reply.body);
}
