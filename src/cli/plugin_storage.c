/*
 * kaged plugin storage: what a plugin has stored, for its operator. The copy that the daemon makes
 * is his to move; everything else is only shown.
 */
#include "cli/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void plugin_storage_put_cell(struct table *table, const struct kg_node *value)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (value->type != KG_STRING)
        kg_json_put_node(&text, value);
    table_cell(table, value->type == KG_STRING ? value->text : kg_buf_view(&text), NULL);
}

/* -- rows -------------------------------------------------------------------------------------- */

static void plugin_storage_put_rows(struct kg_buf *out, const struct cli *cli,
                                    const struct kg_node *answer)
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
            plugin_storage_put_cell(table, &rows->items[i].members[column].value);
    table_print(table);
    kg_list_free(headings);
}

static const struct row answer_rows[] = {{.put = plugin_storage_put_rows}, {0}};

/* -- what is in it ----------------------------------------------------------------------------- */

static const struct row content_rows[] = {
    {.words = "{bytes:count} of {bytes_max:count} bytes in {file}\n"},
    {"damaged", .words = "it was damaged and is set aside; to start with an empty one: {@self} "
                         "plugin storage {@1} --reset\n"},
    {.each = "tables", .table = "TABLE={full_name}; ROWS={rows}; TYPE={type}"},
    {0},
};

/* -- a copy ------------------------------------------------------------------------------------ */

/* The daemon's copy lies in its own folder; it is moved to where the operator wants it. */
static int export_to(const struct cli *cli, const char *to)
{
    static const struct cli_page page = {"POST", "/api/v1/plugins/{1}/storage/export"};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    struct kg_err err;
    if (access(to, F_OK) == 0) {
        kg_fail(&err, KG_E_CONFLICT, "%s already exists", to);
        return print_error(&err);
    }
    int code = page_ask(cli, &page, NULL, &body, &doc);
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
    static const struct cli_page contents = {"GET", "/api/v1/plugins/{1}/storage",
                                             .rows = content_rows};
    static const struct cli_page reset = {"POST", "/api/v1/plugins/{1}/storage/reset",
                                          .rows = content_rows};
    static const struct cli_page rows = {"GET", "/api/v1/plugins/{1}/storage?sql=2",
                                         .rows = answer_rows};
    const char *to = cli_option_value(cli, "export");
    const char *sql = cli_argument(cli, 1);
    if ((to != NULL) + (sql != NULL) + cli_has(cli, "reset") > 1) {
        struct kg_err err;
        kg_fail(&err, KG_E_USAGE, "use only one of a statement, --export and --reset");
        return print_error(&err);
    }
    if (to != NULL)
        return export_to(cli, to);
    return page_show(cli, sql != NULL ? &rows : cli_has(cli, "reset") ? &reset : &contents);
}
