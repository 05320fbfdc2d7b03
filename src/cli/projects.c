/*
 * Projects that the daemon has: load, reload, list, show, unload. What a project's file says is a
 * stranger's, and is escaped on its way to the terminal.
 */
#include "cli/cli.h"

#include "project/project.h"

#include <errno.h>
#include <inttypes.h>

/* -- asking ------------------------------------------------------------------------------------ */

/* "/api/v1/projects/NAME" and what follows. */
static void put_target(struct kg_buf *target, const struct cli *cli, const char *rest)
{
    kg_buf_text(target, "/api/v1/projects/");
    client_put_encoded(target, kg_str(cli_argument(cli, 0)));
    kg_buf_text(target, rest);
}

/* Asks about the project of the first argument; --json prints the answer, and *ret_doc is NULL. */
static int ask_to_show(const struct cli *cli, const char *method, const char *rest,
                       const char *file_or_null, struct kg_doc **ret_doc)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    put_target(&target, cli, rest);
    const struct client_request request = {
        .method = method,
        .target = kg_buf_terminate(&target),
        .file = file_or_null,
        .silence_ms = strcmp(method, "GET") == 0 ? 0 : CLIENT_WAIT_FOREVER,
    };
    return cli_ask_to_show(cli, &request, ret_doc);
}

/* -- what became of it ------------------------------------------------------------------------- */

static void put_consents(struct kg_buf *out, const struct cli *cli, const struct kg_node *consents)
{
    kg_auto(kg_free) char *self = cli_self(cli);
    for (uint32_t i = 0; i < consents->count; i++) {
        const struct kg_node *consent = &consents->items[i];
        kg_buf_text(out, "  ");
        kg_buf_escaped(out, cli_text(consent, "plugin"));
        kg_buf_text(out, " is ");
        kg_buf_escaped(out, cli_text(consent, "state"));
        /* A no stands until it is asked for again. */
        bool declined = kg_str_is(cli_text(consent, "state"), "declined");
        kg_buf_printf(out,
                      declined ? "; to be asked again: %s project reload "
                               : ": %s project consent approve ",
                      self);
        kg_buf_escaped(out, cli_text(consent, declined ? "project_id" : "id"));
        kg_buf_char(out, '\n');
    }
}

/* "project music is active: 2 agents, 3 plugins", or why it is not, and what to do next. */
static void put_state(struct kg_buf *out, const struct cli *cli, const struct kg_node *project)
{
    struct kg_str reason = cli_text(project, "reason");
    const struct kg_node *consents = cli_list(project, "consents");
    uint32_t agents = cli_list(project, "agents")->count;
    int64_t plugins = kg_node_number(project, "plugins");
    kg_buf_text(out, "project ");
    kg_buf_escaped(out, cli_text(project, "id"));
    kg_buf_text(out, " is ");
    kg_buf_escaped(out, cli_text(project, "state"));
    kg_buf_text(out, ": ");
    if (consents->count > 0)
        kg_buf_text(out, "it waits for your answer");
    else if (reason.length > 0)
        kg_buf_escaped(out, reason);
    else
        kg_buf_printf(out, "%u agent%s, %" PRId64 " plugin%s", agents, agents == 1 ? "" : "s",
                      plugins, plugins == 1 ? "" : "s");
    kg_buf_char(out, '\n');
    put_consents(out, cli, consents);
}

/* Warnings, and what is wrong with its plugins. */
static void put_problems(struct kg_buf *out, const struct kg_node *project)
{
    const struct kg_node *problems = cli_list(project, "problems");
    for (uint32_t i = 0; i < problems->count; i++) {
        const struct kg_node *problem = &problems->items[i];
        kg_buf_escaped(out, cli_text(project, "file"));
        kg_buf_printf(out, ":%" PRId64 ":%" PRId64 ": ", kg_node_number(problem, "line"),
                      kg_node_number(problem, "column"));
        kg_buf_escaped(out, cli_text(problem, "message"));
        kg_buf_char(out, '\n');
    }
}

static void put_changes(struct kg_buf *out, const struct kg_node *project)
{
    const struct kg_node *changes = kg_node_get(project, "changes");
    if (changes == NULL)
        return;
    if (cli_list(project, "changes")->count == 0)
        kg_buf_text(out, "nothing changed\n");
    project_changes_view_words(changes, out);
}

static void say_loaded(const struct cli *cli, const struct kg_node *project)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    put_changes(&text, project);
    put_problems(&text, project);
    put_state(&text, cli, project);
    print_out(&text);
}

/* -- load, reload ------------------------------------------------------------------------------ */

int cli_project_load(struct cli *cli)
{
    kg_auto(project_location_free) struct project_location location = {0};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const char *path = cli_argument(cli, 0);
    struct kg_err err;
    /* Who names no folder has forgotten that he is in another, rather than meant this one. */
    int result =
        path ? project_locate_any(path, &location, &err) : project_locate(".", &location, &err);
    if (result < 0) {
        err.code = result == -ENOENT ? KG_E_NOT_FOUND : err.code;
        return print_error(&err);
    }
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "path", location.path);
    kg_json_named_bool(&json, "watch", cli_has(cli, "watch"));
    kg_json_end(&json, '}');
    const struct client_request request = {
        .method = "POST",
        .target = "/api/v1/projects",
        .body = kg_buf_view(&body),
        .file = location.path,
        .silence_ms = CLIENT_WAIT_FOREVER,
    };
    int code = cli_ask_to_show(cli, &request, &doc);
    if (doc != NULL)
        say_loaded(cli, doc->root);
    return code;
}

/* Where the project's file is, for what may be wrong with it; owned. */
static int ask_file(const struct cli *cli, char **ret_file)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    put_target(&target, cli, "");
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    int code = cli_ask_object(cli, &request, &body, &doc);
    if (code == CLI_DONE)
        *ret_file = kg_str_dup(cli_text(doc->root, "file"));
    return code;
}

int cli_project_reload(struct cli *cli)
{
    kg_auto(kg_free) char *file = NULL;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    int code = ask_file(cli, &file);
    if (code == CLI_DONE)
        code = ask_to_show(cli, "POST", "/reload", file, &doc);
    if (doc != NULL)
        say_loaded(cli, doc->root);
    return code;
}

/* -- list -------------------------------------------------------------------------------------- */

static void put_number(struct table *table, const struct kg_node *project, const char *key)
{
    table_cell(table, cli_text(project, key), NULL);
}

int cli_project_list(struct cli *cli)
{
    static const char *const headings[] = {"PROJECT",  "STATE", "AGENTS", "PLUGINS",
                                           "SESSIONS", "ROOT",  "REASON", NULL};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const struct client_request request = {.method = "GET", .target = "/api/v1/projects"};
    int code = cli_ask_to_show(cli, &request, &doc);
    if (doc == NULL)
        return code;
    const struct kg_node *projects = cli_list(doc->root, "projects");
    if (projects->count == 0) {
        fputs("no project is loaded\n", stderr);
        return CLI_DONE;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < projects->count; i++) {
        const struct kg_node *project = &projects->items[i];
        bool is_pending = kg_str_is(cli_text(project, "state"), "pending");
        table_cell(table, cli_text(project, "id"), NULL);
        table_cell(table, cli_text(project, "state"), is_pending ? "yellow" : "green");
        put_number(table, project, "agents");
        put_number(table, project, "plugins");
        put_number(table, project, "sessions");
        table_cell(table, cli_text(project, "root"), NULL);
        table_cell(table, cli_text(project, "reason"), NULL);
    }
    table_print(table);
    return CLI_DONE;
}

/* -- show -------------------------------------------------------------------------------------- */

static void put_line(struct kg_buf *out, const char *label, struct kg_str text)
{
    if (text.length == 0)
        return;
    kg_buf_printf(out, "  %-12s", label);
    kg_buf_escaped(out, text);
    kg_buf_char(out, '\n');
}

/* What is said of the whole, above its agents. */
static void put_facts(struct kg_buf *out, const struct kg_node *project)
{
    const struct kg_node *watch = kg_node_get(project, "watch");
    const struct kg_node *problem = kg_node_get(project, "reload_problem");
    int64_t loaded_ms;
    put_line(out, "root", cli_text(project, "root"));
    put_line(out, "file", cli_text(project, "file"));
    if (cli_time(project, "loaded_at", &loaded_ms)) {
        kg_buf_printf(out, "  %-12s", "loaded");
        print_when(out, loaded_ms);
        kg_buf_text(out, watch && watch->type == KG_BOOL && watch->boolean
                             ? ", read again when its file changes\n"
                             : "\n");
    }
    put_line(out, "sessions", cli_text(project, "sessions"));
    put_line(out, "not taken", cli_text(problem, "message"));
    put_line(out, "", cli_text(problem, "hint"));
}

static void say_project(const struct cli *cli, const struct kg_node *project)
{
    const struct kg_node *agents = cli_list(project, "agents");
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    put_state(&text, cli, project);
    put_facts(&text, project);
    put_problems(&text, project);
    for (uint32_t i = 0; i < agents->count; i++) {
        kg_buf_char(&text, '\n');
        project_agent_view_words(&agents->items[i], &text);
    }
    print_out(&text);
}

static void say_agent(const struct kg_node *agent)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    project_agent_view_words(agent, &text);
    print_out(&text);
}

int cli_project_show(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf rest = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const char *agent = cli_option_value(cli, "agent");
    if (agent != NULL) {
        kg_buf_text(&rest, "/agents/");
        client_put_encoded(&rest, kg_str(agent));
    }
    int code = ask_to_show(cli, "GET", kg_buf_terminate(&rest), NULL, &doc);
    if (doc != NULL && agent != NULL)
        say_agent(doc->root);
    else if (doc != NULL)
        say_project(cli, doc->root);
    return code;
}

/* -- unload ------------------------------------------------------------------------------------ */

int cli_project_unload(struct cli *cli)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    int code = ask_to_show(cli, "DELETE", cli_has(cli, "force") ? "?force=true" : "", NULL, &doc);
    if (doc == NULL)
        return code;
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_text(&line, "project ");
    kg_buf_escaped(&line, cli_text(doc->root, "id"));
    kg_buf_text(&line, " is unloaded; its files stay");
    print_line(kg_buf_view(&line));
    return CLI_DONE;
}
