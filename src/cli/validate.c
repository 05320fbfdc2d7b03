/* kaged plugin validate: what is wrong with a manifest, for its author. Needs no daemon. */
#include "cli/cli.h"

#include "base/doc.h"
#include "manifest/manifest.h"

#include <errno.h>
#include <sys/stat.h>

static const char *severity_of(const struct manifest_problem *problem)
{
    return manifest_code_row(problem->code)->severity == MANIFEST_SEVERITY_ERROR ? "error"
                                                                                 : "warning";
}

static void put_problem(struct kg_buf *out, const char *path,
                        const struct manifest_problem *problem)
{
    kg_buf_printf(out, "%s:%u:%u: %s: ", path, problem->line, problem->column,
                  severity_of(problem));
    kg_buf_escaped(out, kg_str(problem->message));
    kg_buf_printf(out, " [%s]\n", manifest_code_row(problem->code)->code);
    if (problem->hint == NULL)
        return;
    kg_buf_text(out, "    ");
    kg_buf_escaped(out, kg_str(problem->hint));
    kg_buf_char(out, '\n');
}

static void put_problem_json(struct kg_json_writer *json, const struct manifest_problem *problem)
{
    kg_json_begin(json, '{');
    kg_json_key(json, "code");
    kg_json_text(json, manifest_code_row(problem->code)->code);
    kg_json_key(json, "severity");
    kg_json_text(json, severity_of(problem));
    kg_json_key(json, "line");
    kg_json_int(json, problem->line);
    kg_json_key(json, "column");
    kg_json_int(json, problem->column);
    kg_json_key(json, "message");
    kg_json_text(json, problem->message);
    kg_json_key(json, "hint");
    kg_json_text(json, problem->hint);
    kg_json_end(json, '}');
}

static void put_json(struct kg_buf *out, const char *path, const struct manifest_problems *problems)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_key(&json, "path");
    kg_json_text(&json, path);
    kg_json_key(&json, "valid");
    kg_json_bool(&json, problems->errors == 0);
    kg_json_key(&json, "problems");
    kg_json_begin(&json, '[');
    for (size_t i = 0; i < problems->count; i++)
        put_problem_json(&json, &problems->items[i]);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    kg_buf_char(out, '\n');
}

static void put_text(struct kg_buf *out, const char *path, const struct manifest *manifest,
                     const struct manifest_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        put_problem(out, path, &problems->items[i]);
    if (manifest != NULL)
        kg_buf_printf(out, "%s: %s %s is valid\n", path, manifest->name, manifest->version);
    else
        kg_buf_printf(out, "%s: %zu %s\n", path, problems->errors,
                      problems->errors == 1 ? "error" : "errors");
}

/* The folder of a plugin, or its manifest itself. */
static char *manifest_path(const char *path)
{
    struct stat there;
    if (stat(path, &there) == 0 && S_ISDIR(there.st_mode))
        return kg_format("%s/%s", path, MANIFEST_FILE);
    return kg_strdup(path);
}

int cli_plugin_validate(struct cli *cli)
{
    kg_auto(kg_free) char *path = manifest_path(cli_argument(cli, 0));
    kg_auto(manifest_problems_free) struct manifest_problems problems = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0}, out = {0};
    struct kg_err err;
    int result = kg_read_file(path, KG_DOC_BYTES_MAX, &text, &err);
    if (result < 0) {
        err.code = result == -ENOENT ? KG_E_NOT_FOUND : KG_E_INVALID_MANIFEST;
        return print_error(&err);
    }
    struct manifest *manifest = manifest_read(kg_buf_view(&text), &problems);
    if (cli->json)
        put_json(&out, path, &problems);
    else
        put_text(&out, path, manifest, &problems);
    manifest_free(manifest);
    print_out(&out);
    return problems.errors == 0 ? CLI_DONE : kg_error_row(KG_E_INVALID_MANIFEST)->exit_code;
}
