/*
 * kaged session send: one turn, told while it goes on. What the model says goes to stdout and
 * nothing else does; what happens beside it goes to stderr. Ctrl-C ends the turn, not the session.
 */
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define TEXT_MAX_BYTES  ((size_t)4 << 20)
#define STEPS_MAX       1000
#define NOTE_COLUMNS    200   /* of a line beside the text, where there is no terminal */
#define CANCEL_ASK_MS   5000  /* for the daemon to hear of it */
#define CANCEL_GRACE_MS 10000 /* and to end the turn */

struct turn {
    const struct cli *cli;
    bool reasoning;         /* is shown */
    bool within_line;       /* stdout's cursor */
    struct kg_str subagent; /* whose event is shown; empty: the agent's that was spoken to */
    struct markdown markdown;
    uint64_t called_ms; /* the tool that runs */
    bool ended;
    int code;
    struct session_answers answers;
};

/* -- beside the text --------------------------------------------------------------------------- */

static bool colors_on_stderr(void)
{
    const char *no_color = getenv("NO_COLOR");
    return isatty(STDERR_FILENO) && (no_color == NULL || no_color[0] == '\0');
}

/* Two messages, or a message and a note, never share a line. */
static void session_send_end_line(struct turn *turn)
{
    kg_auto(kg_buf_free) struct kg_buf rest = {0};
    if (turn->within_line && print_colors()) {
        markdown_end(&turn->markdown, &rest);
        print_out(&rest);
    }
    if (turn->within_line)
        putchar('\n');
    turn->within_line = false;
    fflush(stdout);
}

/* One line on stderr, cut; dim, as it is not what was asked for. */
static void session_send_note(struct turn *turn, struct kg_buf *line)
{
    size_t columns = print_columns();
    kg_auto(kg_buf_free) struct kg_buf whose = {0};
    session_send_end_line(turn);
    if (turn->subagent.length > 0) {
        kg_buf_text(&whose, "   ");
        kg_buf_escaped(&whose, turn->subagent);
        kg_buf_text(&whose, ": ");
        kg_buf_str(&whose, kg_buf_view(line));
        line = &whose;
    }
    print_cut(line, 0, columns == SIZE_MAX ? NOTE_COLUMNS : columns);
    const char *const form = colors_on_stderr() ? "\033[2m%s\033[0m\n" : "%s\n";
    fprintf(stderr, form, kg_buf_terminate(line));
}

/* -- what is told ------------------------------------------------------------------------------ */

static void show_text(struct turn *turn, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    print_put_text(&out, cli_text(told, "text"), "");
    if (out.length == 0)
        return;
    if (print_colors())
        markdown_put(&turn->markdown, kg_buf_view(&out), &shown);
    print_out(print_colors() ? &shown : &out);
    fflush(stdout);
    turn->within_line = out.data[out.length - 1] != '\n';
}

static void show_reasoning(struct turn *turn, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    if (!turn->reasoning)
        return;
    print_put_text(&out, cli_text(told, "text"), "");
    fflush(stdout);
    fprintf(stderr, colors_on_stderr() ? "\033[2m%s\033[0m" : "%s", kg_buf_terminate(&out));
}

static void show_tool_call(struct turn *turn, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    turn->called_ms = kg_monotonic_ms();
    print_words(&line, told, "-> {tool} ");
    print_value(&line, kg_node_get(told, "arguments"));
    session_send_note(turn, &line);
}

static void show_tool_result(struct turn *turn, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    bool failed = kg_node_is_true(told, "is_error") && !kg_node_is_true(told, "blocked");
    /* What is blocked says so itself. */
    print_words(&line, told, failed ? "<- {tool} failed: " : "<- {tool} ");
    if (print_is_screen() && turn->called_ms > 0) {
        kg_buf_char(&line, '(');
        print_latency(&line, (int64_t)(kg_monotonic_ms() - turn->called_ms) * 1000);
        kg_buf_text(&line, ") ");
        turn->called_ms = kg_monotonic_ms(); /* the next of several begins now */
    }
    print_value(&line, kg_node_get(told, "result"));
    session_send_note(turn, &line);
}

static void show_progress(struct turn *turn, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    print_words(&line, told, ".. {tool} {progress}");
    if (kg_node_get(told, "total") != NULL)
        print_words(&line, told, " of {total}");
    if (cli_text(told, "message").length > 0)
        print_words(&line, told, ": {message}");
    session_send_note(turn, &line);
}

static void ask_question(struct turn *turn, const struct kg_node *told)
{
    const struct kg_node *question = kg_node_typed(told, "question", KG_OBJECT);
    session_send_end_line(turn);
    if (question != NULL)
        session_ask(turn->cli, question, &turn->answers);
}

static void show_retry(struct turn *turn, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    print_words(&line, told, "{message}; asking again in ");
    print_latency(&line, kg_node_number(told, "after_ms") * 1000);
    session_send_note(turn, &line);
}

static void show_said(struct turn *turn, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    print_words(&line, told, "-- {plugin} says: {text}");
    session_send_note(turn, &line);
}

static void show_window(struct turn *turn, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_text(&line, "-- the context has about ");
    print_short(&line, kg_node_number(told, "tokens"));
    kg_buf_text(&line, " tokens, and the model takes ");
    print_short(&line, kg_node_number(told, "window_tokens"));
    session_send_note(turn, &line);
}

static void show_compaction(struct turn *turn, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_text(&line, "-- context compacted by ");
    session_put_compaction(&line, told);
    session_send_note(turn, &line);
}

/* -- the end ----------------------------------------------------------------------------------- */

/* How a turn can end, other than well, and which command about the session comes next. */
static const struct stop {
    const char *stop;
    enum kg_code code; /* for the exit code */
    const char *message;
    const char *advice, *verb, *rest; /* "advice: kaged session VERB ID rest" */
} stops[] = {
    {"length", KG_E_MODEL, "the answer was cut at the model's maximum of tokens",
     "let it go on with", "send", " 'go on'"},
    {"refused", KG_E_REFUSED, "the model refused to answer", "look at what it was asked with",
     "context", ""},
    {"steps", KG_E_CONFLICT, "the turn has reached its maximum of steps", "let it go on with",
     "send", " 'go on'; or allow more with --steps"},
    {"cancelled", KG_E_CANCELLED, "the turn was cancelled; what was said until then is kept",
     "look at it with", "show", ""},
    {"checkpoint", KG_E_CONFLICT, "the context is full, and the session waits for you",
     "make room with", "compact", " --strategy drop; or go on as it is with session resume"},
    {"other", KG_E_MODEL, "the model stopped for a reason that kaged does not know",
     "look at what it said with", "show", ""},
};

static int say_failed(const struct kg_node *error)
{
    enum kg_code code = kg_code_from_name(cli_text(error, "code"));
    struct kg_str message = cli_text(error, "message");
    return print_problem(kg_error_row(code)->exit_code,
                         message.length > 0 ? message : KG_STR("the turn failed"),
                         cli_text(error, "hint"));
}

static int say_stop(const struct cli *cli, struct kg_str stop)
{
    const struct stop *row = stops;
    while (row < stops + KG_COUNT(stops) - 1 && !kg_str_is(stop, row->stop))
        row++;
    kg_auto(kg_free) char *self = cli_self(cli);
    kg_auto(kg_free) char *hint = kg_format("%s: %s session %s %s%s", row->advice, self, row->verb,
                                            cli_argument(cli, 0), row->rest);
    return print_problem(kg_error_row(row->code)->exit_code, kg_str(row->message), kg_str(hint));
}

static void session_send_take_end(struct turn *turn, const struct kg_node *told)
{
    const struct kg_node *error = kg_node_get(told, "error");
    struct kg_str stop = cli_text(told, "stop");
    turn->ended = true;
    session_send_end_line(turn);
    if (kg_str_is(stop, "stop"))
        turn->code = CLI_DONE;
    else if (error != NULL && error->type == KG_OBJECT)
        turn->code = say_failed(error);
    else
        turn->code = say_stop(turn->cli, stop);
}

/* -- lines ------------------------------------------------------------------------------------- */

static void show_subagent(struct turn *turn, const struct kg_node *told);

static void session_send_show(struct turn *turn, const struct kg_node *told)
{
    static const struct {
        const char *type;
        void (*show)(struct turn *turn, const struct kg_node *told);
        bool also_inside; /* shown of subagents, too; what they say is the result of a tool */
    } rows[] = {
        {"text", show_text, false},          {"reasoning", show_reasoning, false},
        {"tool_call", show_tool_call, true}, {"tool_result", show_tool_result, true},
        {"retry", show_retry, true},         {"compaction", show_compaction, true},
        {"window", show_window, true},       {"progress", show_progress, true},
        {"question", ask_question, true},    {"subagent", show_subagent, false},
        {"said", show_said, false},
    };
    struct kg_str type = cli_text(told, "type");
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (kg_str_is(type, rows[i].type) && (rows[i].also_inside || turn->subagent.length == 0))
            rows[i].show(turn, told);
}

static void show_subagent(struct turn *turn, const struct kg_node *told)
{
    const struct kg_node *event = kg_node_typed(told, "event", KG_OBJECT);
    uint64_t called_ms = turn->called_ms;
    turn->subagent = cli_text(told, "agent");
    if (event != NULL && turn->subagent.length > 0)
        session_send_show(turn, event);
    turn->subagent = KG_STR_NULL;
    turn->called_ms = called_ms; /* the tool of the one around it runs on */
}

static void session_send_on_line(void *data, struct kg_str line)
{
    struct turn *turn = data;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(line, NULL);
    if (turn->cli->json) {
        print_json(line);
        fflush(stdout);
    }
    if (doc == NULL)
        return;
    if (!turn->cli->json)
        session_send_show(turn, doc->root);
    if (kg_str_is(cli_text(doc->root, "type"), "end"))
        session_send_take_end(turn, doc->root);
}

static int64_t session_send_on_interrupt(void *data)
{
    struct turn *turn = data;
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    struct client_reply reply = {0};
    session_put_target(&target, turn->cli, "/cancel");
    const struct client_request request = {
        .method = "POST", .target = kg_buf_terminate(&target), .silence_ms = CANCEL_ASK_MS};
    /* If it fails, leaving ends the turn as well. */
    if (client_exchange(turn->cli->paths.socket, &request, &reply, NULL) == 0)
        kg_buf_free(&reply.body);
    return CANCEL_GRACE_MS;
}

/* -- the command ------------------------------------------------------------------------------- */

/* The words behind the id, or stdin. */
static int session_send_take_text(const struct cli *cli, struct kg_buf *ret_text,
                                  struct kg_err *err)
{
    const char *first = cli_argument(cli, 1);
    if (first == NULL || (strcmp(first, "-") == 0 && cli_argument(cli, 2) == NULL))
        return cli_read_stdin("the message", TEXT_MAX_BYTES, ret_text, err);
    for (size_t i = 1; cli_argument(cli, i) != NULL; i++) {
        if (i > 1)
            kg_buf_char(ret_text, ' ');
        kg_buf_text(ret_text, cli_argument(cli, i));
    }
    return 0;
}

static int session_send_check_text(struct kg_str text, struct kg_err *err)
{
    size_t valid = kg_utf8_valid(text);
    if (valid < text.length)
        return kg_fail(err, KG_E_INVALID_PARAMS, "the message: byte %zu is not UTF-8", valid + 1);
    for (size_t i = 0; i < text.length; i++)
        if (strchr(" \n\t\r", text.data[i]) == NULL || text.data[i] == '\0')
            return 0;
    kg_fail(err, KG_E_USAGE, "session send: the message is empty");
    return kg_hint(err, "write it after the session, or pass it on stdin");
}

static void session_send_put_body(struct kg_buf *out, struct kg_str text, int64_t steps)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "text", text);
    if (steps > 0)
        kg_json_named_int(&json, "steps", steps);
    kg_json_end(&json, '}');
}

static int run_turn(const struct cli *cli, struct kg_str body)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, answer = {0};
    struct turn turn = {.cli = cli, .reasoning = cli_has(cli, "reasoning")};
    const struct client_stream stream = {session_send_on_line, session_send_on_interrupt, &turn,
                                         NULL};
    session_put_target(&target, cli, "/runs");
    const struct client_request request = {
        .method = "POST",
        .target = kg_buf_terminate(&target),
        .body = body,
        .silence_ms = CLIENT_WAIT_FOREVER, /* the daemon bounds what a model may take */
    };
    terminal_catch_interrupts();
    int code = cli_ask_lines(cli, &request, &stream, &answer);
    session_send_end_line(&turn);
    session_answers_free(&turn.answers);
    if (code != CLI_DONE || turn.ended)
        return turn.ended ? turn.code : code;
    struct kg_err err;
    kg_fail(&err, KG_E_INTERNAL, "the daemon did not say how the turn ended");
    return print_error(&err);
}

int cli_session_send(struct cli *cli)
{
    struct kg_err err;
    int64_t steps = 0;
    kg_auto(kg_buf_free) struct kg_buf text = {0}, body = {0};
    if (cli_option_number(cli, "steps", 1, STEPS_MAX, &steps, &err) < 0 ||
        session_send_take_text(cli, &text, &err) < 0 ||
        session_send_check_text(kg_buf_view(&text), &err) < 0)
        return print_error(&err);
    struct kg_str name, args;
    if (session_is_command(cli, kg_buf_view(&text), &name, &args))
        return session_run_command(cli, name, args);
    session_send_put_body(&body, kg_buf_view(&text), steps);
    return run_turn(cli, kg_buf_view(&body));
}
