/*
 * Plugins: logs, enable, disable, restart, reload, call. Names and words of a plugin are
 * hostile: they are encoded on their way to the daemon and escaped on their way to the terminal.
 */
#include "cli/rows.h"

#include <errno.h>
#include <unistd.h>

#define LINES_MAX        100000
#define PARAMS_MAX_BYTES ((size_t)64 << 20)
#define TIMEOUT_MAX_MS   3600000
#define CALL_GRACE_MS    30000 /* for the daemon to say that the time is over */
#define LAST_WORDS_MAX   10
#define POLL_MS          50

/* -- logs -------------------------------------------------------------------------------------- */

static void print_log_lines(const struct kg_node *lines)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    print_put_lines(&text, "", lines);
    print_out(&text);
}

/* One question: the last lines, or with a cursor what came after it. */
static int ask_log(const struct cli *cli, int64_t lines, int64_t *cursor, bool shown)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    client_put_target(&target, "plugins", cli_argument(cli, 0), "/logs");
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
        print_log_lines(kg_node_list(doc->root, "lines"));
    fflush(stdout);
    *cursor = kg_node_number(doc->root, "cursor");
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

static bool is_on_its_way(struct kg_str state)
{
    return kg_str_is(state, "spawning") || kg_str_is(state, "stopping");
}

static const struct cli_page this_plugin = {"GET", "/api/v1/plugins/{1}"};

/* How long that may take is the daemon's to say: limits.initialize_timeout_ms and its like. */
static int wait_to_settle(const struct cli *cli, struct kg_buf *body, struct kg_doc **doc)
{
    int code = CLI_DONE;
    while (code == CLI_DONE && is_on_its_way(cli_text((*doc)->root, "state"))) {
        cli_pause_ms(POLL_MS);
        code = page_ask(cli, &this_plugin, NULL, body, doc);
    }
    return code;
}

/* What a process that ended wrote to stderr last: most often the reason. */
static void say_last_words(const struct kg_node *last_exit)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_node lines = *kg_node_list(last_exit, "last_stderr");
    uint32_t left_out = lines.count > LAST_WORDS_MAX ? lines.count - LAST_WORDS_MAX : 0;
    if (lines.count == 0)
        return;
    lines.items += left_out;
    lines.count -= left_out;
    kg_buf_text(&text, "its last lines on stderr:\n");
    print_put_lines(&text, "    ", &lines);
    fputs(kg_buf_terminate(&text), stderr);
}

/* How interpreters say that a package is not there, which nothing fetches for a plugin. */
static bool lacks_packages(const struct kg_node *last_exit)
{
    static const char *const signs[] = {"Cannot find module", "Cannot find package",
                                        "ModuleNotFoundError"};
    const struct kg_node *lines = kg_node_list(last_exit, "last_stderr");
    for (uint32_t i = 0; i < lines->count; i++)
        for (size_t k = 0; lines->items[i].type == KG_STRING && k < KG_COUNT(signs); k++)
            if (memmem(lines->items[i].text.data, lines->items[i].text.length, signs[k],
                       strlen(signs[k])) != NULL)
                return true;
    return false;
}

/* The state is not the wanted one: why, from the report of the last exit or the state itself. */
static int say_unsettled(const struct cli *cli, const struct kg_node *plugin)
{
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    kg_auto(kg_free) char *self = cli_self(cli);
    bool lacks = lacks_packages(kg_node_get(plugin, "last_exit"));
    kg_auto(kg_free) char *hint =
        lacks ? kg_strdup("its packages are not in its folder: install a folder that has them, "
                          "such as after npm ci, or one with a package-lock.json")
              : kg_format("more with: %s plugin status %s", self, cli_argument(cli, 0));
    struct kg_str state = cli_text(plugin, "state"), problem = cli_text(plugin, "problem");
    struct kg_str words = cli_text(kg_node_get(plugin, "last_exit"), "words");
    kg_buf_printf(&message, "plugin %s is %.*s", cli_argument(cli, 0), KG_STR_ARG(state));
    if (problem.length > 0)
        kg_buf_printf(&message, ": %.*s", KG_STR_ARG(problem));
    else if (words.length > 0)
        kg_buf_printf(&message, ": %.*s", KG_STR_ARG(words));
    print_problem(CLI_FAILED, kg_buf_view(&message), kg_str(hint));
    say_last_words(kg_node_get(plugin, "last_exit"));
    return CLI_FAILED;
}

/* One that is idle starts when it is needed, by those that want it. */
static const struct row settled_rows[] = {
    {.words = "{@1} is {state}"},
    {"pid", .words = " (pid {pid})"},
    {"!pid state=idle", .words = ": {state_meaning}"},
    {"state=idle projects", .words = "; wanted by {projects:list}"},
    {.words = "\n"},
    {0},
};

/* One that starts at first use is as good as running. */
static bool is_settled(const struct kg_node *plugin, const char *wanted_state)
{
    struct kg_str state = cli_text(plugin, "state");
    return kg_str_is(state, wanted_state) ||
           (strcmp(wanted_state, "running") == 0 && kg_str_is(state, "idle") &&
            cli_text(plugin, "problem").length == 0);
}

static int cli_plugin_change(struct cli *cli, const char *target, const char *wanted_state)
{
    const struct cli_page page = {"POST", target};
    kg_auto(kg_buf_free) struct kg_buf body = {0}, text = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    int code = page_ask(cli, &page, NULL, &body, &doc);
    if (code == CLI_DONE)
        code = wait_to_settle(cli, &body, &doc);
    if (code != CLI_DONE)
        return code;
    bool settled = is_settled(doc->root, wanted_state);
    if (cli->json)
        print_json(kg_buf_view(&body));
    else if (settled)
        rows_put(&text, cli, doc->root, settled_rows, 0);
    print_out(&text);
    return settled ? CLI_DONE : say_unsettled(cli, doc->root);
}

int cli_plugin_enable(struct cli *cli)
{
    return cli_plugin_change(cli, "/api/v1/plugins/{1}/enable", "running");
}

int cli_plugin_disable(struct cli *cli)
{
    return cli_plugin_change(cli, "/api/v1/plugins/{1}/disable", "disabled");
}

int cli_plugin_restart(struct cli *cli)
{
    return cli_plugin_change(cli, "/api/v1/plugins/{1}/restart", "running");
}

/* -- reload ------------------------------------------------------------------------------------ */

/* "echo was restarted, because of: manifest, limits" */
static const struct row reloaded_rows[] = {
    {"action=nothing", .words = "{@1} was read again: nothing changed"},
    {"action=read", .words = "{@1} was read again; it is disabled"},
    {"action=told", .words = "{@1} was read again, and told its new configuration"},
    {"action=restarted", .words = "{@1} was restarted, because of"},
    {"reasons", .words = ": {reasons:list}"},
    {.words = "\n"},
    {.each = "others", .words = "{@key}: {.}\n"},
    {0},
};

int cli_plugin_reload(struct cli *cli)
{
    static const struct cli_page page = {"POST", "/api/v1/plugins/{1}/reload"};
    kg_auto(kg_buf_free) struct kg_buf body = {0}, after = {0}, text = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL, *plugin = NULL;
    int code = page_ask(cli, &page, NULL, &body, &doc);
    if (code != CLI_DONE)
        return code;
    if (kg_str_is(cli_text(doc->root, "action"), "restarted")) {
        code = page_ask(cli, &this_plugin, NULL, &after, &plugin);
        if (code == CLI_DONE)
            code = wait_to_settle(cli, &after, &plugin);
        if (code != CLI_DONE)
            return code;
        if (!kg_str_is(cli_text(plugin->root, "state"), "running"))
            return say_unsettled(cli, plugin->root);
    }
    if (cli->json)
        print_json(kg_buf_view(&body));
    else
        rows_put(&text, cli, doc->root, reloaded_rows, 0);
    print_out(&text);
    return CLI_DONE;
}

/* -- call -------------------------------------------------------------------------------------- */

int cli_read_stdin(const char *what, size_t max_bytes, struct kg_buf *ret_text, struct kg_err *err)
{
    for (;;) {
        kg_buf_reserve(ret_text, 65536);
        ssize_t got = read(STDIN_FILENO, ret_text->data + ret_text->length,
                           ret_text->capacity - ret_text->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kg_fail_errno(err, errno, "read %s from stdin", what);
        if (got == 0)
            return 0;
        ret_text->length += (size_t)got;
        if (ret_text->length > max_bytes)
            return kg_fail(err, KG_E_TOO_LARGE, "stdin: %s may have at most %zu MiB", what,
                           max_bytes >> 20);
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
        if (cursor.at < cursor.end && *cursor.at == '{')
            return 0;
        offset = (size_t)(cursor.at - text.data);
    }
    for (size_t i = 0; i < offset; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what has a length has data */
        column = text.data[i] == '\n' ? 1 : column + 1;
        line += text.data[i] == '\n';
    }
    kg_fail(err, KG_E_PARSE, "parameters: %zu:%zu: %s", line, column,
            fault == KG_JSON_OK ? "not a JSON object" : kg_json_fault_text(fault));
    return kg_hint(err, "write them as '{\"name\":\"value\"}', or - to read them from stdin");
}

int cli_take_params(const char *json_or_null, struct kg_buf *ret_params, struct kg_err *err)
{
    if (json_or_null == NULL)
        kg_buf_text(ret_params, "{}");
    else if (strcmp(json_or_null, "-") != 0)
        kg_buf_text(ret_params, json_or_null);
    else if (cli_read_stdin("the parameters", PARAMS_MAX_BYTES, ret_params, err) < 0)
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
        cli_take_params(cli_argument(cli, 2), &params, &err) < 0)
        return print_error(&err);
    client_put_target(&target, "plugins", cli_argument(cli, 0), "/call/");
    kg_buf_percent(&target, kg_str(cli_argument(cli, 1)));
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
