/*
 * What an MCP server offers beside tools, for people: resources and prompts. Its words are a
 * stranger's, and are shown escaped; only what a resource holds is printed as it is, for a pipe.
 */
#include "cli/rows.h"

#include <unistd.h>

/* Without a title, its name. */
static const struct row resource_rows[] = {
    {.each = "resources", .table = "URI={uri}; NAME={title|name}; DESCRIPTION={description}"},
    {.each = "resourceTemplates",
     .table = "URI TEMPLATE={uriTemplate}; NAME={title|name}; DESCRIPTION={description}"},
    {"!resources !resourceTemplates", .words = "plugin {@1} has none\n", .aside = true},
    {0},
};

/* A terminal obeys what it is told; a file or a pipe takes it as it is. */
static void put_text(struct kg_buf *out, struct kg_str text)
{
    while (text.length > 0) {
        const char *end = memchr(text.data, '\n', text.length);
        size_t length = end != NULL ? (size_t)(end - text.data) : text.length;
        if (isatty(STDOUT_FILENO))
            kg_buf_escaped(out, kg_str_first(text, length));
        else
            kg_buf_str(out, kg_str_first(text, length));
        if (end != NULL)
            kg_buf_char(out, '\n');
        text = kg_str_from(text, end != NULL ? length + 1 : length);
    }
}

static void put_bytes(struct kg_buf *out, const struct kg_node *item, const char *key)
{
    kg_buf_text(out, "(");
    kg_buf_escaped(out, cli_text(item, "mimeType"));
    kg_buf_printf(out, ", %zu bytes of base64; --json has them)\n", cli_text(item, key).length);
}

/* A block of content. A link is only told: nobody follows it. */
static void put_block(struct kg_buf *out, const struct kg_node *block)
{
    const struct kg_node *inner = kg_node_typed(block, "resource", KG_OBJECT);
    if (inner != NULL)
        block = inner;
    if (kg_node_typed(block, "text", KG_STRING) != NULL) {
        put_text(out, cli_text(block, "text"));
        if (out->length > 0 && out->data[out->length - 1] != '\n')
            kg_buf_char(out, '\n');
    } else if (cli_text(block, "blob").length > 0) {
        put_bytes(out, block, "blob");
    } else if (cli_text(block, "data").length > 0) {
        put_bytes(out, block, "data");
    } else if (cli_text(block, "uri").length > 0) {
        kg_buf_text(out, "(a link: ");
        kg_buf_escaped(out, cli_text(block, "uri"));
        kg_buf_text(out, ")\n");
    }
}

static void put_contents(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *contents = kg_node_list(answer, "contents");
    (void)cli;
    for (uint32_t i = 0; i < contents->count; i++)
        put_block(out, &contents->items[i]);
}

int cli_plugin_resources(struct cli *cli)
{
    static const struct cli_page page = {"GET", "/api/v1/plugins/{1}/resources?templates",
                                         .rows = resource_rows};
    const char *uri = cli_argument(cli, 1);
    kg_auto(kg_buf_free) struct kg_buf rest = {0};
    if (uri == NULL)
        return page_show(cli, &page);
    kg_buf_text(&rest, "/resources");
    client_put_query(&rest, "uri", kg_str(uri));
    return cli_show_plugin(cli, "GET", kg_buf_terminate(&rest), put_contents);
}

/* -- prompts ----------------------------------------------------------------------------------- */

/* "topic [style]" */
static void put_arguments(struct kg_buf *out, const struct kg_node *arguments)
{
    for (uint32_t i = 0; i < arguments->count; i++) {
        const struct kg_node *argument = &arguments->items[i];
        bool required = kg_node_is_true(argument, "required");
        kg_buf_text(out, i > 0 ? " " : "");
        kg_buf_text(out, required ? "" : "[");
        kg_buf_str(out, cli_text(argument, "name"));
        kg_buf_text(out, required ? "" : "]");
    }
}

static void print_prompts(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"PROMPT", "ARGUMENTS", "DESCRIPTION", NULL};
    const struct kg_node *prompts = kg_node_list(answer, "prompts");
    (void)out, (void)cli;
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < prompts->count; i++) {
        kg_auto(kg_buf_free) struct kg_buf arguments = {0};
        put_arguments(&arguments, kg_node_list(&prompts->items[i], "arguments"));
        table_cell(table, cli_text(&prompts->items[i], "name"), NULL);
        table_cell(table, kg_buf_view(&arguments), NULL);
        table_cell(table, cli_text(&prompts->items[i], "description"), NULL);
    }
    table_print(table);
}

static const struct row prompt_rows[] = {
    {"!prompts", .words = "plugin {@1} has no prompts\n", .aside = true},
    {"prompts", .put = print_prompts},
    {0},
};

static void put_messages(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *messages = kg_node_list(answer, "messages");
    (void)cli;
    for (uint32_t i = 0; i < messages->count; i++) {
        const struct kg_node *content = kg_node_get(&messages->items[i], "content");
        kg_buf_escaped(out, cli_text(&messages->items[i], "role"));
        kg_buf_text(out, ": ");
        if (content != NULL)
            put_block(out, content);
    }
}

int cli_plugin_prompts(struct cli *cli)
{
    static const struct cli_page page = {"GET", "/api/v1/plugins/{1}/prompts", .rows = prompt_rows};
    const char *name = cli_argument(cli, 1);
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0}, arguments = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct kg_err err = {0};
    if (name == NULL)
        return page_show(cli, &page);
    if (cli_take_params(cli_argument(cli, 2), &arguments, &err) < 0)
        return print_error(&err);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", name);
    kg_json_named_raw(&json, "arguments", kg_buf_view(&arguments));
    kg_json_end(&json, '}');
    client_put_target(&target, "plugins", cli_argument(cli, 0), "/prompts");
    const struct client_request request = {
        .method = "POST", .target = kg_buf_terminate(&target), .body = kg_buf_view(&body)};
    return cli_show(cli, &request, put_messages);
}
