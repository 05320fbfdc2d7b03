/*
 * Projects that the daemon has: load, reload, list, show, unload. What a project's file says is a
 * stranger's, and is escaped on its way to the terminal.
 */
#include "cli/cli.h"

#include "project/project.h"

#include <errno.h>
#include <inttypes.h>

/* -- asking ------------------------------------------------------------------------------------ */

/* Asks about the project of the first argument, and prints the answer. */
static int show(const struct cli *cli, const char *method, const char *rest,
                const char *file_or_null, cli_put *put)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    client_put_target(&target, "projects", cli_argument(cli, 0), rest);
    const struct client_request request = {
        .method = method,
        .target = kg_buf_terminate(&target),
        .file = file_or_null,
        .silence_ms = strcmp(method, "GET") == 0 ? 0 : CLIENT_WAIT_FOREVER,
    };
    return cli_show(cli, &request, put);
}

/* -- what became of it ------------------------------------------------------------------------- */

static void put_consents(struct kg_buf *out, const struct cli *cli, const struct kg_node *consents)
{
    kg_auto(kg_free) char *self = cli_self(cli);
    for (uint32_t i = 0; i < consents->count; i++) {
        const struct kg_node *consent = &consents->items[i];
        print_words(out, consent, "  {plugin} is {state}");
        /* A no stands until it is asked for again. */
        bool declined = kg_str_is(cli_text(consent, "state"), "declined");
        kg_buf_printf(out,
                      declined ? "; to be asked again: %s project reload "
                               : ": %s project consent approve ",
                      self);
        print_words(out, consent, declined ? "{project_id}\n" : "{id}\n");
    }
}

/* "project music is active: 2 agents, 3 plugins", or why it is not, and what to do next. */
static void put_state(struct kg_buf *out, const struct cli *cli, const struct kg_node *project)
{
    struct kg_str reason = cli_text(project, "reason");
    const struct kg_node *consents = kg_node_list(project, "consents");
    uint32_t agents = kg_node_list(project, "agents")->count;
    int64_t plugins = kg_node_number(project, "plugins");
    print_words(out, project, "project {id} is {state}: ");
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
    const struct kg_node *problems = kg_node_list(project, "problems");
    for (uint32_t i = 0; i < problems->count; i++) {
        const struct kg_node *problem = &problems->items[i];
        kg_buf_escaped(out, cli_text(project, "file"));
        kg_buf_printf(out, ":%" PRId64 ":%" PRId64 ": ", kg_node_number(problem, "line"),
                      kg_node_number(problem, "column"));
        print_words(out, problem, "{message}\n");
    }
}

static void put_changes(struct kg_buf *out, const struct kg_node *project)
{
    const struct kg_node *changes = kg_node_get(project, "changes");
    if (changes == NULL)
        return;
    if (kg_node_list(project, "changes")->count == 0)
        kg_buf_text(out, "nothing changed\n");
    project_changes_view_words(changes, out);
}

/* Who could write what the project is made of runs in a new cage. */
static void put_restarted(struct kg_buf *out, const struct kg_node *project)
{
    const struct kg_node *names = kg_node_list(project, "restarted");
    for (uint32_t i = 0; i < names->count; i++) {
        kg_buf_escaped(out, names->items[i].text);
        kg_buf_printf(out, " is restarted: it could write the project's %s\n", PROJECT_DIR);
    }
}

static void put_loaded(struct kg_buf *out, const struct cli *cli, const struct kg_node *project)
{
    put_restarted(out, project);
    put_changes(out, project);
    put_problems(out, project);
    put_state(out, cli, project);
}

/* -- load, reload ------------------------------------------------------------------------------ */

int cli_project_load(struct cli *cli)
{
    kg_auto(project_location_free) struct project_location location = {0};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
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
    return cli_show(cli, &request, put_loaded);
}

/* Where the project's file is, for what may be wrong with it; owned. */
static int ask_file(const struct cli *cli, char **ret_file)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    client_put_target(&target, "projects", cli_argument(cli, 0), "");
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    int code = cli_ask_object(cli, &request, &body, &doc);
    if (code == CLI_DONE)
        *ret_file = kg_str_dup(cli_text(doc->root, "file"));
    return code;
}

int cli_project_reload(struct cli *cli)
{
    kg_auto(kg_free) char *file = NULL;
    int code = ask_file(cli, &file);
    return code == CLI_DONE ? show(cli, "POST", "/reload", file, put_loaded) : code;
}

/* -- list -------------------------------------------------------------------------------------- */

static void put_list(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"PROJECT",  "STATE", "AGENTS", "PLUGINS",
                                           "SESSIONS", "ROOT",  "REASON", NULL};
    static const char *const rest[] = {"agents", "plugins", "sessions", "root", "reason", NULL};
    const struct kg_node *projects = kg_node_list(answer, "projects");
    (void)out, (void)cli;
    if (projects->count == 0) {
        fputs("no project is loaded\n", stderr);
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < projects->count; i++) {
        const struct kg_node *project = &projects->items[i];
        bool is_pending = kg_str_is(cli_text(project, "state"), "pending");
        table_cell(table, cli_text(project, "id"), NULL);
        table_cell(table, cli_text(project, "state"), is_pending ? "yellow" : "green");
        table_texts(table, project, rest);
    }
    table_print(table);
}

int cli_project_list(struct cli *cli)
{
    const struct client_request request = {.method = "GET", .target = "/api/v1/projects"};
    return cli_show(cli, &request, put_list);
}

/* -- show -------------------------------------------------------------------------------------- */

static void put_line(struct kg_buf *out, const char *label, struct kg_str text)
{
    print_fact(out, 12, label, text);
}

/* What is said of the whole, above its agents. */
static void put_facts(struct kg_buf *out, const struct kg_node *project)
{
    const struct kg_node *problem = kg_node_get(project, "reload_problem");
    int64_t loaded_ms;
    put_line(out, "root", cli_text(project, "root"));
    put_line(out, "file", cli_text(project, "file"));
    if (cli_time(project, "loaded_at", &loaded_ms)) {
        kg_buf_printf(out, "  %-12s", "loaded");
        print_when(out, loaded_ms);
        kg_buf_text(out, kg_node_is_true(project, "watch") ? ", read again when its file changes\n"
                                                           : "\n");
    }
    put_line(out, "sessions", cli_text(project, "sessions"));
    put_line(out, "not taken", cli_text(problem, "message"));
    put_line(out, "", cli_text(problem, "hint"));
    if (kg_node_list(project, "held")->count > 0)
        project_changes_view_words(kg_node_get(project, "held"), out);
}

static void put_project(struct kg_buf *out, const struct cli *cli, const struct kg_node *project)
{
    const struct kg_node *agents = kg_node_list(project, "agents");
    put_state(out, cli, project);
    put_facts(out, project);
    put_problems(out, project);
    for (uint32_t i = 0; i < agents->count; i++) {
        kg_buf_char(out, '\n');
        project_agent_view_words(&agents->items[i], out);
    }
}

static void put_agent(struct kg_buf *out, const struct cli *cli, const struct kg_node *agent)
{
    (void)cli;
    project_agent_view_words(agent, out);
}

int cli_project_show(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf rest = {0};
    const char *agent = cli_option_value(cli, "agent");
    if (agent != NULL) {
        kg_buf_text(&rest, "/agents/");
        kg_buf_percent(&rest, kg_str(agent));
    }
    return show(cli, "GET", kg_buf_terminate(&rest), NULL, agent != NULL ? put_agent : put_project);
}

/* -- unload ------------------------------------------------------------------------------------ */

static void put_unloaded(struct kg_buf *out, const struct cli *cli, const struct kg_node *project)
{
    (void)cli;
    print_words(out, project, "project {id} is unloaded; its files stay\n");
}

int cli_project_unload(struct cli *cli)
{
    return show(cli, "DELETE", cli_has(cli, "force") ? "?force=true" : "", NULL, put_unloaded);
}
