/*
 * Plugins: list, logs, enable, disable, restart, call. Names and words of a plugin are hostile:
 * they are encoded on their way to the daemon and escaped on their way to the terminal.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#define LINES_MAX         100000
#define PARAMS_MAX_BYTES  ((size_t)64 << 20)
#define TIMEOUT_MAX_MS    3600000
#define CALL_GRACE_MS     30000 /* for the daemon to say that the time is over */
#define POLL_MS           50
#define SPAWN_TIMEOUT_MS  12000
#define ENDING_TIMEOUT_MS 60000

/* "/api/v1/plugins/NAME" and what follows. */
static void put_target(struct kg_buf *target, const struct cli *cli, const char *rest)
{
    kg_buf_text(target, "/api/v1/plugins/");
    client_put_encoded(target, kg_str(cli_argument(cli, 0)));
    kg_buf_text(target, rest);
}

int cli_ask_plugin(const struct cli *cli, const char *method, const char *rest,
                   struct kg_buf *ret_body, struct kg_doc **ret_doc)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    put_target(&target, cli, rest);
    const struct client_request request = {.method = method, .target = kg_buf_terminate(&target)};
    return cli_ask_object(cli, &request, ret_body, ret_doc);
}

/* -- list -------------------------------------------------------------------------------------- */

static const char *state_color(struct kg_str state)
{
    if (kg_str_is(state, "running"))
        return "green";
    if (kg_str_is(state, "failed") || kg_str_is(state, "crashed"))
        return "red";
    return NULL;
}

static void join_texts(struct kg_buf *out, const struct kg_node *list)
{
    for (uint32_t i = 0; list != NULL && list->type == KG_ARRAY && i < list->count; i++) {
        if (i > 0)
            kg_buf_char(out, ',');
        if (list->items[i].type == KG_STRING)
            kg_buf_str(out, list->items[i].text);
    }
}

static void put_plugin_row(struct table *table, const struct kg_node *plugin, bool verbose)
{
    struct kg_str state = cli_text(plugin, "state"), problem = cli_text(plugin, "problem");
    struct kg_str pid = cli_number(plugin, "pid") > 0 ? cli_text(plugin, "pid") : KG_STR("");
    table_cell(table, cli_text(plugin, "name"), NULL);
    table_cell(table, cli_text(plugin, "version"), NULL);
    if (problem.length > 0 && kg_str_is(state, "disabled"))
        table_cell(table,
                   kg_str_is(cli_text(plugin, "problem_code"), "invalid_manifest")
                       ? KG_STR("disabled (invalid manifest)")
                       : KG_STR("disabled (invalid config)"),
                   "red");
    else
        table_cell(table, state, state_color(state));
    table_cell(table, pid, NULL);
    if (verbose) {
        kg_auto(kg_buf_free) struct kg_buf capabilities = {0};
        join_texts(&capabilities, kg_node_get(plugin, "capabilities"));
        table_cell(table, kg_buf_view(&capabilities), NULL);
        table_cell(table, cli_text(plugin, "homepage"), NULL);
        table_cell(table, cli_text(plugin, "dir"), NULL);
    }
    if (problem.length > 0)
        table_cell(table, problem, "red");
    else
        table_cell(table, cli_text(plugin, "description"), NULL);
}

static void print_plugins(const struct kg_node *plugins, bool verbose)
{
    static const char *const brief_headings[] = {"NAME", "VERSION",     "STATE",
                                                 "PID",  "DESCRIPTION", NULL};
    static const char *const all_headings[] = {"NAME",   "VERSION",      "STATE",
                                               "PID",    "CAPABILITIES", "HOMEPAGE",
                                               "FOLDER", "DESCRIPTION",  NULL};
    struct table *table = table_new(verbose ? all_headings : brief_headings);
    for (uint32_t i = 0; i < plugins->count; i++)
        put_plugin_row(table, &plugins->items[i], verbose);
    table_print(table);
}

int cli_plugin_list(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const struct client_request request = {.method = "GET", .target = "/api/v1/plugins"};
    int code = cli_ask_object(cli, &request, &body, &doc);
    if (code != CLI_DONE)
        return code;
    const struct kg_node *plugins = kg_node_get(doc->root, "plugins");
    if (cli->json)
        print_json(kg_buf_view(&body));
    else if (plugins != NULL && plugins->type == KG_ARRAY && plugins->count > 0)
        print_plugins(plugins, cli_has(cli, "verbose"));
    else
        fprintf(stderr, "no plugins; kaged looks for them in %s\n", cli->paths.plugins_dir);
    return CLI_DONE;
}

/* -- status ------------------------------------------------------------------------------------ */

int cli_plugin_status(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0}, text = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    int code = cli_ask_plugin(cli, "GET", cli_has(cli, "cage") ? "?cage=true" : "", &body, &doc);
    if (code != CLI_DONE)
        return code;
    if (cli->json) {
        print_json(kg_buf_view(&body));
        return CLI_DONE;
    }
    plugin_status_put(&text, cli, doc->root);
    print_out(&text);
    return CLI_DONE;
}

/* -- why --------------------------------------------------------------------------------------- */

int cli_plugin_why(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0}, text = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    int code = cli_ask_plugin(cli, "GET", "/why", &body, &doc);
    if (code != CLI_DONE)
        return code;
    if (cli->json) {
        print_json(kg_buf_view(&body));
        return CLI_DONE;
    }
    plugin_why_put(&text, doc->root);
    print_out(&text);
    return CLI_DONE;
}

/* -- logs -------------------------------------------------------------------------------------- */

static void print_log_lines(const struct kg_node *lines)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (uint32_t i = 0; lines != NULL && lines->type == KG_ARRAY && i < lines->count; i++) {
        kg_buf_escaped(&text,
                       lines->items[i].type == KG_STRING ? lines->items[i].text : KG_STR(""));
        kg_buf_char(&text, '\n');
    }
    print_out(&text);
}

/* One question: the last lines, or with a cursor what came after it. */
static int ask_log(const struct cli *cli, int64_t lines, int64_t *cursor, bool shown)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    put_target(&target, cli, "/logs");
    if (*cursor < 0) {
        client_put_number(&target, "lines", lines);
    } else {
        client_put_number(&target, "after", *cursor);
        client_put_number(&target, "wait_ms", CLIENT_LONG_POLL_MS);
    }
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    int code = cli_ask_object(cli, &request, &body, &doc);
    if (code != CLI_DONE)
        return code;
    if (shown && cli->json)
        print_json(kg_buf_view(&body));
    else if (shown)
        print_log_lines(kg_node_get(doc->root, "lines"));
    fflush(stdout);
    *cursor = cli_number(doc->root, "cursor");
    return CLI_DONE;
}

int cli_plugin_logs(struct cli *cli)
{
    struct kg_err err;
    int64_t lines = 100, cursor = -1;
    if (cli_option_number(cli, "lines", 0, LINES_MAX, &lines, &err) < 0)
        return print_error(&err);
    bool follow = cli_has(cli, "follow");
    if (follow)
        cli_follow();
    /* With no lines wanted, one is asked for all the same: its cursor is where following starts. */
    int code = ask_log(cli, lines > 0 ? lines : 1, &cursor, lines > 0);
    while (code == CLI_DONE && follow) {
        cli_pause_ms(CLIENT_PAUSE_MS);
        code = ask_log(cli, lines, &cursor, true);
    }
    return code;
}

/* -- enable, disable, restart ------------------------------------------------------------------ */

static int64_t time_for(struct kg_str state)
{
    if (kg_str_is(state, "spawning"))
        return SPAWN_TIMEOUT_MS;
    if (kg_str_is(state, "stopping"))
        return ENDING_TIMEOUT_MS;
    return 0;
}

/* Asks until the plugin is on its way no more, or has been in one state for too long. */
static int wait_to_settle(const struct cli *cli, struct kg_buf *body, struct kg_doc **doc)
{
    int code = CLI_DONE;
    int64_t allowed_ms = 0;
    uint64_t since_ms = kg_monotonic_ms();
    while (code == CLI_DONE) {
        int64_t now_allowed_ms = time_for(cli_text((*doc)->root, "state"));
        if (now_allowed_ms != allowed_ms)
            since_ms = kg_monotonic_ms();
        allowed_ms = now_allowed_ms;
        if (kg_monotonic_ms() - since_ms >= (uint64_t)allowed_ms)
            break;
        cli_pause_ms(POLL_MS);
        code = cli_ask_plugin(cli, "GET", "", body, doc);
    }
    return code;
}

/* The state is not the wanted one: why, from the report of the last exit or the state itself. */
static int say_unsettled(const struct cli *cli, const struct kg_node *plugin)
{
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    kg_auto(kg_free) char *self = cli_self(cli);
    kg_auto(kg_free) char *hint =
        kg_format("more with: %s plugin status %s", self, cli_argument(cli, 0));
    struct kg_str state = cli_text(plugin, "state"), problem = cli_text(plugin, "problem");
    struct kg_str words = cli_text(kg_node_get(plugin, "last_exit"), "words");
    kg_buf_printf(&message, "plugin %s is %.*s", cli_argument(cli, 0), KG_STR_ARG(state));
    if (problem.length > 0)
        kg_buf_printf(&message, ": %.*s", KG_STR_ARG(problem));
    else if (words.length > 0 && time_for(state) == 0)
        kg_buf_printf(&message, ": %.*s", KG_STR_ARG(words));
    return print_problem(CLI_FAILED, kg_buf_view(&message), kg_str(hint));
}

static void say_settled(const struct cli *cli, const struct kg_node *plugin)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_escaped(&line, kg_str(cli_argument(cli, 0)));
    kg_buf_text(&line, " is ");
    kg_buf_escaped(&line, cli_text(plugin, "state"));
    if (cli_number(plugin, "pid") > 0)
        kg_buf_printf(&line, " (pid %" PRId64 ")", cli_number(plugin, "pid"));
    print_line(kg_buf_view(&line));
}

static int change(struct cli *cli, const char *act, const char *wanted_state)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    int code = cli_ask_plugin(cli, "POST", act, &body, &doc);
    if (code == CLI_DONE)
        code = wait_to_settle(cli, &body, &doc);
    if (code != CLI_DONE)
        return code;
    bool settled = kg_str_is(cli_text(doc->root, "state"), wanted_state);
    if (cli->json)
        print_json(kg_buf_view(&body));
    else if (settled)
        say_settled(cli, doc->root);
    return settled ? CLI_DONE : say_unsettled(cli, doc->root);
}

int cli_plugin_enable(struct cli *cli)
{
    return change(cli, "/enable", "running");
}

int cli_plugin_disable(struct cli *cli)
{
    return change(cli, "/disable", "disabled");
}

int cli_plugin_restart(struct cli *cli)
{
    return change(cli, "/restart", "running");
}

/* -- call -------------------------------------------------------------------------------------- */

static int read_stdin(struct kg_buf *ret_text, struct kg_err *err)
{
    for (;;) {
        kg_buf_reserve(ret_text, 65536);
        ssize_t got = read(STDIN_FILENO, ret_text->data + ret_text->length,
                           ret_text->capacity - ret_text->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kg_fail_errno(err, errno, "read the parameters from stdin");
        if (got == 0)
            return 0;
        ret_text->length += (size_t)got;
        if (ret_text->length > PARAMS_MAX_BYTES)
            return kg_fail(err, KG_E_TOO_LARGE, "the parameters are larger than %zu MiB",
                           PARAMS_MAX_BYTES >> 20);
    }
}

int plugin_params_check(struct kg_str text, struct kg_err *err)
{
    size_t offset = 0;
    enum kg_json_fault fault = kg_json_check(text, &offset);
    size_t line = 1, column = 1;
    if (fault == KG_JSON_OK) {
        struct kg_json_cursor cursor = {text.data, text.data + text.length};
        kg_json_skip_space(&cursor);
        if (*cursor.at == '{')
            return 0;
        offset = (size_t)(cursor.at - text.data);
    }
    for (size_t i = 0; i < offset; i++) {
        column = text.data[i] == '\n' ? 1 : column + 1;
        line += text.data[i] == '\n';
    }
    int result = kg_fail(err, KG_E_PARSE, "parameters: %zu:%zu: %s", line, column,
                         fault == KG_JSON_OK ? "not a JSON object" : kg_json_fault_text(fault));
    kg_hint(err, "write them as '{\"name\":\"value\"}', or - to read them from stdin");
    return result;
}

static int take_params(const struct cli *cli, struct kg_buf *ret_params, struct kg_err *err)
{
    const char *json = cli_argument(cli, 2);
    if (json == NULL)
        kg_buf_text(ret_params, "{}");
    else if (strcmp(json, "-") != 0)
        kg_buf_text(ret_params, json);
    else if (read_stdin(ret_params, err) < 0)
        return -EIO;
    return plugin_params_check(kg_buf_view(ret_params), err);
}

/* A terminal gets the same JSON without the characters that could fool its reader. */
static void print_result(const struct cli *cli, struct kg_str result)
{
    if (isatty(STDOUT_FILENO) && !cli->json)
        print_json(result);
    else
        print_line(result);
}

int cli_plugin_call(struct cli *cli)
{
    struct kg_err err;
    int64_t timeout_ms = 0;
    kg_auto(kg_buf_free) struct kg_buf params = {0}, target = {0}, body = {0};
    if (cli_option_number(cli, "timeout", 1, TIMEOUT_MAX_MS, &timeout_ms, &err) < 0 ||
        take_params(cli, &params, &err) < 0)
        return print_error(&err);
    put_target(&target, cli, "/call/");
    client_put_encoded(&target, kg_str(cli_argument(cli, 1)));
    const struct client_request request = {
        .method = "POST",
        .target = kg_buf_terminate(&target),
        .body = kg_buf_view(&params),
        .timeout_ms = timeout_ms,
        /* Without a time of the caller's, the daemon's own ends the call. */
        .silence_ms = timeout_ms > 0 ? timeout_ms + CALL_GRACE_MS : CLIENT_WAIT_FOREVER,
    };
    int code = cli_ask(cli, &request, &body);
    if (code == CLI_DONE)
        print_result(cli, kg_buf_view(&body));
    return code;
}
