/*
 * kaged plugin storage: what a plugin has stored, for its operator. The copy that the daemon makes
 * is his to move; everything else is only shown.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static void put_cell(struct table *table, const struct kg_node *value)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (value->type != KG_STRING)
        kg_json_put_node(&text, value);
    table_cell(table, value->type == KG_STRING ? value->text : kg_buf_view(&text), NULL);
}

/* -- rows -------------------------------------------------------------------------------------- */

static void put_rows(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *columns = kg_node_list(answer, "columns"),
                         *rows = kg_node_list(answer, "rows");
    (void)out, (void)cli;
    if (columns->count == 0)
        return;
    char **headings = kg_list_new(0);
    for (uint32_t i = 0; i < columns->count; i++) {
        char *heading = kg_str_dup(columns->items[i].text);
        for (char *at = heading; *at != '\0'; at++)
            *at = *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at;
        kg_list_add(&headings, heading);
    }
    struct table *table = table_new((const char *const *)headings);
    for (uint32_t i = 0; i < rows->count; i++)
        for (uint32_t column = 0; column < rows->items[i].count; column++)
            put_cell(table, &rows->items[i].members[column].value);
    table_print(table);
    kg_list_free(headings);
}

static int show_rows(const struct cli *cli, const char *sql)
{
    kg_auto(kg_buf_free) struct kg_buf rest = {0};
    kg_buf_text(&rest, "/storage");
    client_put_query(&rest, "sql", kg_str(sql));
    return cli_show_plugin(cli, "GET", kg_buf_terminate(&rest), put_rows);
}

/* -- what is in it ----------------------------------------------------------------------------- */

static void put_contents(struct kg_buf *out, const struct cli *cli, const struct kg_node *storage)
{
    static const char *const headings[] = {"TABLE", "ROWS", "TYPE", NULL};
    static const char *const keys[] = {"full_name", "rows", "type", NULL};
    const struct kg_node *tables = kg_node_list(storage, "tables");
    kg_buf_printf(out, "%" PRId64 " of %" PRId64 " bytes in ", kg_node_number(storage, "bytes"),
                  kg_node_number(storage, "bytes_max"));
    print_words(out, storage, "{file}\n");
    if (kg_node_is_true(storage, "damaged")) {
        kg_auto(kg_free) char *self = cli_self(cli);
        kg_buf_printf(out,
                      "it was damaged and is set aside; to start with an empty one: %s plugin "
                      "storage %s --reset\n",
                      self, cli_argument(cli, 0));
    }
    if (tables->count == 0)
        return;
    print_out(out);
    out->length = 0;
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < tables->count; i++)
        table_texts(table, &tables->items[i], keys);
    table_print(table);
}

/* -- a copy ------------------------------------------------------------------------------------ */

/* The daemon's copy lies in its own folder; it is moved to where the operator wants it. */
static int export_to(const struct cli *cli, const char *to)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    struct kg_err err;
    if (access(to, F_OK) == 0) {
        kg_fail(&err, KG_E_CONFLICT, "%s is there already", to);
        return print_error(&err);
    }
    int code = cli_ask_plugin(cli, "POST", "/storage/export", &body, &doc);
    if (code != CLI_DONE)
        return code;
    kg_auto(kg_free) char *from = kg_str_dup(cli_text(doc->root, "path"));
    int result = kg_copy_file(from, to, 0600);
    unlink(from);
    if (result == 0)
        return CLI_DONE;
    kg_fail_errno(&err, -result, "copy %s to %s", from, to);
    return print_error(&err);
}

int cli_plugin_storage(struct cli *cli)
{
    const char *to = cli_option_value(cli, "export");
    const char *sql = cli_argument(cli, 1);
    if ((to != NULL) + (sql != NULL) + cli_has(cli, "reset") > 1) {
        struct kg_err err;
        kg_fail(&err, KG_E_USAGE, "a statement, --export and --reset are three things");
        return print_error(&err);
    }
    if (to != NULL)
        return export_to(cli, to);
    if (sql != NULL)
        return show_rows(cli, sql);
    return cli_has(cli, "reset") ? cli_show_plugin(cli, "POST", "/storage/reset", put_contents)
                                 : cli_show_plugin(cli, "GET", "/storage", put_contents);
}
