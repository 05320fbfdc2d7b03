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
static void plugin_offers_put_text(struct kg_buf *out, struct kg_str text)
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

static void plugin_offers_put_bytes(struct kg_buf *out, const struct kg_node *item, const char *key)
{
    kg_buf_text(out, "(");
    kg_buf_escaped(out, cli_text(item, "mimeType"));
    kg_buf_printf(out, ", %zu bytes of base64; --json has them)\n", cli_text(item, key).length);
}

/* A block of content. A link is only told: nobody follows it. */
static void plugin_offers_put_block(struct kg_buf *out, const struct kg_node *block)
{
    const struct kg_node *inner = kg_node_typed(block, "resource", KG_OBJECT);
    if (inner != NULL)
        block = inner;
    if (kg_node_typed(block, "text", KG_STRING) != NULL) {
        plugin_offers_put_text(out, cli_text(block, "text"));
        if (out->length > 0 && out->data[out->length - 1] != '\n')
            kg_buf_char(out, '\n');
    } else if (cli_text(block, "blob").length > 0) {
        plugin_offers_put_bytes(out, block, "blob");
    } else if (cli_text(block, "data").length > 0) {
        plugin_offers_put_bytes(out, block, "data");
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
        plugin_offers_put_block(out, &contents->items[i]);
}

static const struct row content_rows[] = {{.put = put_contents}, {0}};

int cli_plugin_resources(struct cli *cli)
{
    static const struct cli_page list = {"GET", "/api/v1/plugins/{1}/resources?templates",
                                         .rows = resource_rows};
    static const struct cli_page one = {"GET", "/api/v1/plugins/{1}/resources?uri=2",
                                        .rows = content_rows};
    return page_show(cli, cli_argument(cli, 1) == NULL ? &list : &one);
}

/* -- prompts ----------------------------------------------------------------------------------- */

/* "topic [style]" */
static void plugin_offers_put_arguments(struct kg_buf *out, const struct kg_node *prompt)
{
    const struct kg_node *arguments = kg_node_list(prompt, "arguments");
    for (uint32_t i = 0; i < arguments->count; i++) {
        const struct kg_node *argument = &arguments->items[i];
        bool required = kg_node_is_true(argument, "required");
        kg_buf_text(out, i > 0 ? " " : "");
        kg_buf_text(out, required ? "" : "[");
        kg_buf_str(out, cli_text(argument, "name"));
        kg_buf_text(out, required ? "" : "]");
    }
}

static const struct cell argument_cells[] = {{"ARGUMENTS", .put = plugin_offers_put_arguments},
                                             {0}};
static const struct row prompt_rows[] = {
    {"!prompts", .words = "plugin {@1} has no prompts\n", .aside = true},
    {.each = "prompts",
     .table = "PROMPT={name}; ARGUMENTS; DESCRIPTION={description}",
     .cells = argument_cells},
    {0},
};

static void plugin_offers_put_messages(struct kg_buf *out, const struct cli *cli,
                                       const struct kg_node *answer)
{
    const struct kg_node *messages = kg_node_list(answer, "messages");
    (void)cli;
    for (uint32_t i = 0; i < messages->count; i++) {
        const struct kg_node *content = kg_node_get(&messages->items[i], "content");
        kg_buf_escaped(out, cli_text(&messages->items[i], "role"));
        kg_buf_text(out, ": ");
        if (content != NULL)
            plugin_offers_put_block(out, content);
    }
}

static const struct row message_rows[] = {{.put = plugin_offers_put_messages}, {0}};

int cli_plugin_prompts(struct cli *cli)
{
    static const struct cli_page list = {"GET", "/api/v1/plugins/{1}/prompts", .rows = prompt_rows};
    static const struct cli_page one = {"POST", "/api/v1/plugins/{1}/prompts",
                                        .rows = message_rows};
    const char *name = cli_argument(cli, 1);
    kg_auto(kg_buf_free) struct kg_buf body = {0}, arguments = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct kg_err err = {0};
    if (name == NULL)
        return page_show(cli, &list);
    if (cli_take_params(cli_argument(cli, 2), &arguments, &err) < 0)
        return print_error(&err);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", name);
    kg_json_named_raw(&json, "arguments", kg_buf_view(&arguments));
    kg_json_end(&json, '}');
    return page_show_with(cli, &one, &(struct page_given){.body = kg_buf_view(&body)});
}
