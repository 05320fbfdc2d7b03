/*
 * undo, redo, rewind: what would go is shown first, and a yes is asked for, unless it was given
 * beforehand.
 */
#include "cli/session.h"

#include <inttypes.h>
#include <unistd.h>

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

static void put_entries(struct kg_buf *out, int64_t count)
{
    kg_buf_printf(out, "%" PRId64 " %s", count, count == 1 ? "entry" : "entries");
}

/* What becomes of files. */
static void session_move_put_files(struct kg_buf *out, const struct kg_node *plan)
{
    const struct kg_node *files = kg_node_typed(plan, "files", KG_OBJECT);
    if (files == NULL) {
        kg_buf_text(out, "files stay as they are: no snapshot of them was made for that\n");
        return;
    }
    const struct kg_node *changes = kg_node_list(files, "changes");
    const struct kg_node *left_out = kg_node_list(files, "left_out");
    int64_t more = kg_node_number(files, "change_count") - changes->count;
    for (uint32_t i = 0; i < changes->count; i++)
        print_words(out, &changes->items[i], "  {change}: {path}\n");
    if (more > 0)
        kg_buf_printf(out, "  and %" PRId64 " more files\n", more);
    if (changes->count == 0)
        kg_buf_text(out, "no file is another one\n");
    for (uint32_t i = 0; i < left_out->count; i++)
        print_words(out, &left_out->items[i], "  left alone: {path}, {why}\n");
}

/* What is to happen, or has. */
static void put_plan(struct kg_buf *out, const struct kg_node *plan)
{
    int64_t before = kg_node_number(plan, "entries_before");
    int64_t after = kg_node_number(plan, "entries_after");
    struct kg_str said = cli_text(plan, "said");
    if (kg_str_is(cli_text(plan, "act"), "redo")) {
        kg_buf_text(out, "back: ");
        put_entries(out, after);
        kg_buf_text(out, ", instead of ");
        kg_buf_printf(out, "%" PRId64, before);
    } else {
        put_entries(out, before - after);
        kg_buf_text(out, before - after == 1 ? " goes" : " go");
    }
    if (said.length > 0) {
        kg_buf_text(out, ", from here on: ");
        print_put_text(out, said, "");
    }
    kg_buf_char(out, '\n');
    session_move_put_files(out, plan);
}

static void session_move_put_done(struct kg_buf *out, const struct cli *cli,
                                  const struct kg_node *moved)
{
    (void)cli;
    put_plan(out, moved);
    if (!kg_node_is_true(moved, "applied"))
        kg_buf_text(out, "nothing was changed\n");
    else if (!kg_str_is(cli_text(moved, "act"), "redo"))
        print_words(out, moved, "done; kaged session redo {session_id} takes it back\n");
    else
        kg_buf_text(out, "done\n");
}

static int show_plan(const struct cli *cli, const char *rest, const char *entry_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0}, answer = {0}, out = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    session_put_target(&target, cli, rest);
    session_move_put_body(&body, cli, entry_or_null, true);
    const struct client_request request = {.method = "POST",
                                           .target = kg_buf_terminate(&target),
                                           .body = kg_buf_view(&body),
                                           .silence_ms = CLIENT_WAIT_FOREVER};
    int code = cli_ask_object(cli, &request, &answer, &doc);
    if (code != CLI_DONE)
        return code;
    put_plan(&out, doc->root);
    (void)!write(STDERR_FILENO, out.data, out.length);
    return CLI_DONE;
}

static int session_move_ask(const struct cli *cli, const char *rest, const char *entry_or_null)
{
    struct kg_err err;
    kg_auto(kg_close) int terminal = terminal_open();
    if (terminal < 0) {
        kg_fail(&err, KG_E_REFUSED, "nobody is there to be asked");
        kg_hint(&err, "--dry-run shows what would change, --yes does it");
        return print_error(&err);
    }
    int code = show_plan(cli, rest, entry_or_null);
    if (code != CLI_DONE)
        return code;
    if (terminal_ask(terminal, "Do it?"))
        return CLI_DONE;
    kg_fail(&err, KG_E_REFUSED, "nothing was changed");
    return print_error(&err);
}

static int session_move_move(const struct cli *cli, const char *rest, const char *entry_or_null)
{
    bool dry_run = cli_has(cli, "dry-run");
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    int code =
        dry_run || cli_has(cli, "yes") ? CLI_DONE : session_move_ask(cli, rest, entry_or_null);
    if (code != CLI_DONE)
        return code;
    session_move_put_body(&body, cli, entry_or_null, dry_run);
    return session_show(cli, "POST", rest, kg_buf_view(&body), session_move_put_done);
}

int cli_session_undo(struct cli *cli)
{
    return session_move_move(cli, "/undo", NULL);
}

int cli_session_redo(struct cli *cli)
{
    return session_move_move(cli, "/redo", NULL);
}

int cli_session_rewind(struct cli *cli)
{
    int code = CLI_DONE;
    kg_auto(kg_free) char *entry = session_entry_id(cli, cli_argument(cli, 1), &code);
    return entry != NULL ? session_move_move(cli, "/rewind", entry) : code;
}
