/*
 * Commands that scripts have for a session. What one returns goes to stdout; what its script tells
 * meanwhile goes to stderr.
 */
#include "cli/rows.h"
#include "cli/session.h"

#include <stdlib.h>

struct outcome {
    const struct cli *cli;
    bool ended;
    int code;
    struct session_answers answers;
};

static void session_command_on_line(void *data, struct kg_str line)
{
    struct outcome *outcome = data;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(line, NULL);
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    if (outcome->cli->json)
        print_json(line);
    if (doc == NULL)
        return;
    const struct kg_node *question = kg_node_typed(doc->root, "question", KG_OBJECT);
    if (question != NULL && kg_str_is(cli_text(doc->root, "type"), "question"))
        session_ask(outcome->cli, question, &outcome->answers);
    bool is_result = kg_str_is(cli_text(doc->root, "type"), "result");
    bool is_error = is_result && kg_node_is_true(doc->root, "is_error");
    outcome->ended |= is_result;
    if (is_error)
        outcome->code = kg_error_row(KG_E_PLUGIN)->exit_code;
    print_put_text(&out, cli_text(doc->root, "text"), "");
    if (out.length == 0 || outcome->cli->json)
        return;
    kg_buf_char(&out, '\n');
    if (is_result && !is_error)
        print_out(&out);
    else
        fprintf(stderr, "%s%s", is_error ? "kaged: " : "", kg_buf_terminate(&out));
}

int session_run_command(const struct cli *cli, struct kg_str name, struct kg_str args)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, rest = {0}, body = {0}, answer = {0};
    struct outcome outcome = {.cli = cli};
    const struct client_stream stream = {session_command_on_line, NULL, &outcome, NULL};
    rows_put_text(&body, "args", args.data ? args : KG_STR(""));
    kg_buf_text(&rest, "/commands/");
    kg_buf_percent(&rest, name);
    session_put_target(&target, cli, kg_buf_terminate(&rest));
    const struct client_request request = {
        .method = "POST",
        .target = kg_buf_terminate(&target),
        .body = kg_buf_view(&body),
        .silence_ms = CLIENT_WAIT_FOREVER, /* the daemon bounds what a script may take */
    };
    int code = cli_ask_lines(cli, &request, &stream, &answer);
    session_answers_free(&outcome.answers);
    if (code != CLI_DONE || outcome.ended)
        return outcome.ended ? outcome.code : code;
    struct kg_err err;
    kg_fail(&err, KG_E_INTERNAL, "the daemon did not say how the command ended");
    return print_error(&err);
}

/* -- which there are --------------------------------------------------------------------------- */

static bool goes_by(const struct kg_node *command, struct kg_str name)
{
    const struct kg_node *aliases = kg_node_list(command, "aliases");
    bool found = kg_str_equal(cli_text(command, "name"), name);
    for (uint32_t i = 0; i < aliases->count; i++)
        found |= kg_str_equal(aliases->items[i].text, name);
    return found;
}

bool session_is_command(const struct cli *cli, struct kg_str line, struct kg_str *ret_name,
                        struct kg_str *ret_args)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    size_t end = 1;
    if (!kg_str_starts(line, "/"))
        return false;
    while (end < line.length && strchr(" \t\r\n", line.data[end]) == NULL)
        end++;
    struct kg_str name = {line.data + 1, end - 1};
    if (name.length == 0 || page_ask(cli, &page_session_commands, NULL, &body, &doc) != CLI_DONE)
        return false;
    const struct kg_node *commands = kg_node_list(doc->root, "commands");
    for (uint32_t i = 0; i < commands->count; i++)
        if (goes_by(&commands->items[i], name)) {
            *ret_name = name;
            *ret_args = kg_str_from(line, end < line.length ? end + 1 : end);
            return true;
        }
    return false;
}

/* -- the commands ------------------------------------------------------------------------------ */

int cli_session_command(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf args = {0};
    for (size_t i = 2; cli_argument(cli, i) != NULL; i++) {
        if (i > 2)
            kg_buf_char(&args, ' ');
        kg_buf_text(&args, cli_argument(cli, i));
    }
    const char *name = cli_argument(cli, 1);
    return session_run_command(cli, kg_str(name[0] == '/' ? name + 1 : name), kg_buf_view(&args));
}

static const struct row command_rows[] = {
    {.each = "commands", .words = "/{name}  {description}  ({plugin})\n"},
    {"!commands", .words = "no script has a command for it\n"},
    {0},
};
const struct cli_page page_session_commands = {"GET", "/api/v1/sessions/{1}/commands",
                                               .silence_ms = CLIENT_WAIT_FOREVER,
                                               .rows = command_rows};
