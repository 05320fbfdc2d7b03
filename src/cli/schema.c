/* kaged schema check: JSON Schema by hand, for authors and for tools. Needs no daemon. */
#include "cli/cli.h"

#include "base/doc.h"
#include "schema/schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define FILE_BYTES_MAX ((size_t)16 * 1024 * 1024)

static int cli_schema_invalid(const struct kg_err *err)
{
    enum kg_code code = err->errnum == ENOENT ? KG_E_NOT_FOUND : KG_E_INVALID_CONFIG;
    return print_problem(kg_error_row(code)->exit_code, kg_str(err->message), kg_str(err->hint));
}

/* JSON, or YAML or TOML by the name of the file. */
static struct kg_doc *schema_load(const char *path, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (kg_read_file(path, FILE_BYTES_MAX, &text, err) < 0)
        return NULL;
    struct kg_doc *doc;
    if (kg_str_ends(kg_str(path), ".yaml") || kg_str_ends(kg_str(path), ".yml"))
        doc = kg_yaml_read(kg_buf_view(&text), err);
    else if (kg_str_ends(kg_str(path), ".toml"))
        doc = kg_toml_read(kg_buf_view(&text), err);
    else
        doc = kg_json_read(kg_buf_view(&text), err);
    if (doc == NULL)
        kg_wrap_file(err, path);
    return doc;
}

static struct schema *cli_schema_compile(const struct kg_node *node, struct kg_err *err)
{
    const struct schema_options options = {.draft = SCHEMA_DRAFT_2020_12, .formats = true};
    return schema_compile(node, &options, err);
}

static void schema_put_error(struct kg_buf *out, const char *path, const struct schema_error *error)
{
    kg_buf_escaped(out, kg_str(path));
    kg_buf_printf(out, ":%u:%u: ", error->line, error->column);
    kg_buf_escaped(out, error->instance_path.length ? error->instance_path : KG_STR("/"));
    kg_buf_char(out, ' ');
    kg_buf_escaped(out, error->message);
    kg_buf_text(out, " (");
    kg_buf_escaped(out, error->schema_path);
    kg_buf_text(out, ")\n");
}

static int check_files(struct cli *cli)
{
    struct kg_err err = {0};
    const char *path = cli_argument(cli, 1);
    kg_auto(kg_doc_cleanup) struct kg_doc *schema_doc = schema_load(cli_argument(cli, 0), &err);
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = schema_doc ? schema_load(path, &err) : NULL;
    if (instance == NULL)
        return cli_schema_invalid(&err);
    struct schema *schema = cli_schema_compile(schema_doc->root, &err);
    if (schema == NULL) {
        kg_wrap_file(&err, cli_argument(cli, 0));
        return cli_schema_invalid(&err);
    }
    kg_auto(schema_report_free) struct schema_report report = {0};
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    bool fits = schema_check(schema, instance->root, &report);
    schema_free(schema);
    for (size_t i = 0; i < report.count; i++)
        schema_put_error(&out, path, &report.errors[i]);
    if (fits)
        kg_buf_printf(&out, "%s fits\n", path);
    print_out(&out);
    return fits ? CLI_DONE : kg_error_row(KG_E_INVALID_CONFIG)->exit_code;
}

/* One line {"schema":...,"instance":...}; false also for a line that cannot be used. */
static bool schema_check_line(struct kg_str line)
{
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(line, &err);
    const struct kg_node *schema_node = doc ? kg_node_get(doc->root, "schema") : NULL;
    const struct kg_node *instance = doc ? kg_node_get(doc->root, "instance") : NULL;
    if (schema_node == NULL || instance == NULL)
        return false;
    struct schema *schema = cli_schema_compile(schema_node, &err);
    bool fits = schema != NULL && schema_check(schema, instance, NULL);
    schema_free(schema);
    return fits;
}

static int schema_check_lines(void)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    while ((length = getline(&line, &size, stdin)) >= 0) {
        puts(schema_check_line((struct kg_str){line, (size_t)length}) ? "true" : "false");
        fflush(stdout);
    }
    free(line);
    return ferror(stdin) || ferror(stdout) ? CLI_FAILED : CLI_DONE;
}

int cli_schema_check(struct cli *cli)
{
    if (cli_has(cli, "lines"))
        return schema_check_lines();
    if (cli_argument(cli, 1) != NULL)
        return check_files(cli);
    return print_problem(CLI_USAGE, KG_STR("schema check takes a schema and an instance"),
                         KG_STR("or --lines, to read both from stdin"));
}
