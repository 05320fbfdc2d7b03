/*
 * undo, redo, rewind: what would go is shown first, and a yes is asked for, unless it was given
 * beforehand.
 */
#include "cli/rows.h"
#include "cli/session.h"

#include <inttypes.h>

static void session_move_put_body(struct kg_buf *out, const struct cli *cli,
                                  const char *entry_or_null, bool dry_run)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    if (entry_or_null != NULL)
        kg_json_named_text(&json, "entry", entry_or_null);
    kg_json_named_bool(&json, "dry_run", dry_run);
    kg_json_named_bool(&json, "conversation_only", cli_has(cli, "conversation-only"));
    kg_json_end(&json, '}');
}

/* What becomes of files. */
static void put_more_files(struct kg_buf *out, const struct cli *cli, const struct kg_node *plan)
{
    const struct kg_node *files = kg_node_get(plan, "files");
    const struct kg_node *changes = kg_node_list(files, "changes");
    int64_t more = kg_node_number(files, "change_count") - changes->count;
    (void)cli;
    if (more > 0)
        kg_buf_printf(out, "  and %" PRId64 " more files\n", more);
}

static void put_said(struct kg_buf *out, const struct cli *cli, const struct kg_node *plan)
{
    (void)cli;
    kg_buf_text(out, ", from here on: ");
    print_put_text(out, cli_text(plan, "said"), "");
}

static void put_gone(struct kg_buf *out, const struct cli *cli, const struct kg_node *plan)
{
    int64_t gone = kg_node_number(plan, "entries_before") - kg_node_number(plan, "entries_after");
    (void)cli;
    kg_buf_printf(out, gone == 1 ? "%" PRId64 " entry goes" : "%" PRId64 " entries go", gone);
}

/* What is to happen, or has. */
static const struct row plan_rows[] = {
    {"act=redo", .words = "entries: {entries_after:count} again, instead of "
                          "{entries_before:count}"},
    {"!act=redo", .put = put_gone},
    {"said", .put = put_said},
    {.words = "\n"},
    {"!files", .words = "files stay as they are: they have no snapshot from then\n"},
    {.each = "files.changes", .words = "  {change}: {path}\n"},
    {"files", .put = put_more_files},
    {"files !files.changes", .words = "no file changes\n"},
    {.each = "files.left_out", .words = "  left alone: {path}, {why}\n"},
    {0},
};
static const struct row done_rows[] = {
    {.rows = plan_rows},
    {"!applied", .words = "nothing was changed\n"},
    {"applied !act=redo", .words = "done; {@self} session redo {session_id} takes it back\n"},
    {"applied act=redo", .words = "done\n"},
    {0},
};

/* Hooks and snapshots take their time, which the daemon bounds. */
#define MOVE(rest)                                                                                 \
    {                                                                                              \
        "POST", "/api/v1/sessions/{1}" rest, .silence_ms = CLIENT_WAIT_FOREVER, .rows = done_rows  \
    }

static int show_plan(const struct cli *cli, const struct cli_page *page, const char *entry_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0}, answer = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    session_move_put_body(&body, cli, entry_or_null, true);
    const struct page_given given = {.body = kg_buf_view(&body)};
    int code = page_ask(cli, page, &given, &answer, &doc);
    if (code == CLI_DONE)
        rows_say(cli, doc->root, plan_rows);
    return code;
}

static int session_move_ask(const struct cli *cli, const struct cli_page *page,
                            const char *entry_or_null)
{
    struct kg_err err;
    kg_auto(kg_close) int terminal = terminal_open();
    if (terminal < 0) {
        kg_fail(&err, KG_E_REFUSED, "there is nobody to ask");
        kg_hint(&err, "--dry-run shows what would change, --yes does it");
        return print_error(&err);
    }
    int code = show_plan(cli, page, entry_or_null);
    if (code != CLI_DONE)
        return code;
    if (terminal_ask(terminal, "Do it?"))
        return CLI_DONE;
    kg_fail(&err, KG_E_REFUSED, "nothing was changed");
    return print_error(&err);
}

static int session_move_move(const struct cli *cli, const struct cli_page *page,
                             const char *entry_or_null)
{
    bool dry_run = cli_has(cli, "dry-run");
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    int code =
        dry_run || cli_has(cli, "yes") ? CLI_DONE : session_move_ask(cli, page, entry_or_null);
    if (code != CLI_DONE)
        return code;
    session_move_put_body(&body, cli, entry_or_null, dry_run);
    return page_show_with(cli, page, &(struct page_given){.body = kg_buf_view(&body)});
}

int cli_session_undo(struct cli *cli)
{
    static const struct cli_page page = MOVE("/undo");
    return session_move_move(cli, &page, NULL);
}

int cli_session_redo(struct cli *cli)
{
    static const struct cli_page page = MOVE("/redo");
    return session_move_move(cli, &page, NULL);
}

int cli_session_rewind(struct cli *cli)
{
    static const struct cli_page page = MOVE("/rewind");
    int code = CLI_DONE;
    kg_auto(kg_free) char *entry = session_entry_id(cli, cli_argument(cli, 1), &code);
    return entry != NULL ? session_move_move(cli, &page, entry) : code;
}
