/*
 * The audit log as people read it: one event a line, shortened. Only with --json is an event passed
 * on whole.
 */
#include "audit/audit.h"
#include "cli/cli.h"

#include <inttypes.h>

#define LINES_MAX              100000
#define FOLLOW_LIMIT           1000 /* events of one answer while following */
#define VALUE_COLUMNS_TERMINAL 32   /* of one field, so that a line has room for several */
#define VALUE_COLUMNS          200

/* -- one event a line -------------------------------------------------------------------------- */

/* As it is where that is plain, else in quotes: no value can pass for two. */
static void cli_audit_put_value(struct kg_buf *out, const struct kg_node *value)
{
    struct kg_str text = value->text;
    bool plain = value->type != KG_STRING || text.length > 0;
    for (size_t i = 0; value->type == KG_STRING && i < text.length && plain; i++)
        plain = strchr(" \"=", text.data[i]) == NULL || text.data[i] == '\0';
    if (plain) {
        print_value(out, value);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf quoted = {0};
    kg_json_put_string(&quoted, text);
    kg_buf_json_escaped(out, kg_buf_view(&quoted));
}

/* Whether a member has a place of its own in the line. */
static bool has_own_place(struct kg_str key)
{
    static const char *const keys[] = {"ts", "id", "event", "request_id"};
    for (size_t i = 0; i < KG_COUNT(keys); i++)
        if (kg_str_is(key, keys[i]))
            return true;
    return false;
}

static void cli_audit_put_field(struct kg_buf *out, struct kg_str key, const struct kg_node *value,
                                size_t columns)
{
    if (value == NULL || value->type == KG_NULL)
        return;
    kg_buf_char(out, ' ');
    kg_buf_escaped(out, key);
    kg_buf_char(out, '=');
    size_t from = out->length;
    cli_audit_put_value(out, value);
    print_cut(out, from, columns);
}

static void cli_audit_put_event(struct kg_buf *out, struct kg_str event, size_t columns)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(event, NULL);
    if (doc == NULL || doc->root->type != KG_OBJECT) {
        kg_buf_json_escaped(out, event);
        return;
    }
    const struct kg_node *root = doc->root;
    print_words(out, root, "{ts} {event}");
    for (uint32_t i = 0; i < root->count; i++)
        if (!has_own_place(root->members[i].key))
            cli_audit_put_field(out, root->members[i].key, &root->members[i].value, columns);
    cli_audit_put_field(out, KG_STR("request_id"), kg_node_get(root, "request_id"), columns);
}

/* -- answers ----------------------------------------------------------------------------------- */

static void print_event(const struct cli *cli, struct kg_str event)
{
    if (cli->json) {
        print_json(event);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    size_t columns = print_columns();
    cli_audit_put_event(&line, event, columns == SIZE_MAX ? VALUE_COLUMNS : VALUE_COLUMNS_TERMINAL);
    print_cut(&line, 0, columns);
    print_line(kg_buf_view(&line));
}

static void cli_audit_keep_id(struct kg_buf *id, struct kg_str event)
{
    struct kg_str raw;
    if (!kg_json_member(event, "id", &raw) || raw.length < 2 || raw.data[0] != '"')
        return;
    id->length = 0;
    kg_buf_append(id, raw.data + 1, raw.length - 2);
}

/* Prints the events of an answer, if shown; last_id becomes that of the last one. */
static int cli_audit_take_events(const struct cli *cli, struct kg_str body, bool shown,
                                 struct kg_buf *last_id)
{
    struct kg_str events, event;
    if (kg_json_check(body, NULL) != KG_JSON_OK || !kg_json_member(body, "events", &events) ||
        events.data[0] != '[') {
        struct kg_err err;
        kg_fail(&err, KG_E_INTERNAL, "the daemon's answer has no events");
        return print_error(&err);
    }
    struct kg_json_cursor cursor = kg_json_inside(events);
    while (kg_json_next_item(&cursor, &event)) {
        if (shown)
            print_event(cli, event);
        cli_audit_keep_id(last_id, event);
    }
    fflush(stdout);
    return CLI_DONE;
}

/* -- the command ------------------------------------------------------------------------------- */

static int ask_events(const struct cli *cli, int64_t limit, bool wait, bool shown,
                      struct kg_buf *last_id)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    kg_buf_text(&target, "/api/v1/audit");
    cli_put_option(&target, cli, "plugin");
    cli_put_option(&target, cli, "event");
    if (last_id->length > 0)
        client_put_query(&target, "after", kg_buf_view(last_id));
    else
        cli_put_option(&target, cli, "since");
    client_put_number(&target, "limit", limit);
    if (wait)
        client_put_number(&target, "wait_ms", CLIENT_LONG_POLL_MS);
    const struct client_request request = {
        .method = "GET",
        .target = kg_buf_terminate(&target),
    };
    int code = cli_ask(cli, &request, &body);
    return code != CLI_DONE ? code : cli_audit_take_events(cli, kg_buf_view(&body), shown, last_id);
}

static int check_since(const struct cli *cli, struct kg_err *err)
{
    int64_t wall_ms;
    const char *since = cli_option_value(cli, "since");
    if (since == NULL || kg_time_parse(kg_str(since), &wall_ms))
        return 0;
    kg_fail(err, KG_E_USAGE, "audit: --since: %" KG_S_WORD " is not a time", since);
    return kg_hint(err, "write it as 2026-11-15T22:19:34Z, 2026-11-15, 90s, 15m, 2h or 7d");
}

int cli_audit(struct cli *cli)
{
    struct kg_err err;
    int64_t lines = 50;
    kg_auto(kg_buf_free) struct kg_buf last_id = {0};
    if (cli_option_number(cli, "lines", 0, LINES_MAX, &lines, &err) < 0 ||
        check_since(cli, &err) < 0)
        return print_error(&err);
    bool follow = cli_has(cli, "follow");
    if (follow)
        cli_follow();
    /* With no lines wanted, one is asked for all the same: its id is where following starts. */
    int code = ask_events(cli, lines > 0 ? lines : 1, false, lines > 0, &last_id);
    while (code == CLI_DONE && follow) {
        cli_pause_ms(CLIENT_PAUSE_MS);
        code = ask_events(cli, FOLLOW_LIMIT, true, true, &last_id);
    }
    return code;
}

/* -- verify ------------------------------------------------------------------------------------ */

static void cli_audit_put_count(struct kg_buf *out, uint64_t count, const char *what)
{
    kg_buf_printf(out, "%" PRIu64 " %s%s", count, what, count == 1 ? "" : "s");
}

static void cli_audit_put_report(struct kg_buf *out, const struct audit_report *report)
{
    kg_buf_text(out, "audit log is whole: ");
    cli_audit_put_count(out, report->files, "file");
    kg_buf_text(out, ", ");
    cli_audit_put_count(out, report->blocks, "block");
    kg_buf_text(out, ", ");
    cli_audit_put_count(out, report->events, "event");
    if (report->unsealed > 0) {
        kg_buf_text(out, "; ");
        cli_audit_put_count(out, report->unsealed, "line");
        kg_buf_text(out, " not sealed yet");
    }
    kg_buf_char(out, '\n');
}

int cli_audit_verify(struct cli *cli)
{
    const struct audit_options options = {
        .dir = cli->paths.audit_dir,
        .state_db = cli->paths.state_db,
        .key_file = cli->paths.audit_key,
    };
    struct audit_report report = {0};
    struct kg_err err;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (audit_verify(&options, &report, &err) < 0)
        return print_error(&err);
    bool whole = report.problem[0] == '\0';
    if (cli->json) {
        audit_report_write(&report, &text);
        kg_buf_char(&text, '\n');
    } else if (whole) {
        cli_audit_put_report(&text, &report);
    }
    print_out(&text);
    if (whole)
        return CLI_DONE;
    return print_problem(CLI_FAILED, kg_str(report.problem), KG_STR_NULL);
}
