/*
 * Projects that the daemon has: load, reload, list, show, unload. What a project's file says is a
 * stranger's, and is escaped on its way to the terminal.
 */
#include "cli/rows.h"

#include "project/project.h"

#include <errno.h>

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

/* A no stands until it is asked for again. */
static const struct row consent_rows[] = {
    {.words = "  {plugin} is {state}"},
    {"state=declined", .words = "; to be asked again: {@self} project reload {project_id}\n"},
    {"!state=declined", .words = ": {@self} project consent approve {id}\n"},
    {0},
};

/* "project music is active: 2 agents, 3 plugins", or why it is not, and what to do next. */
static const struct row state_rows[] = {
    {.words = "project {id} is {state}: "},
    {"consents", .words = "it waits for your answer\n"},
    {"!consents reason", .words = "{reason}\n"},
    {"!consents !reason",
     .words = "{agents:count} agent{agents:s}, {plugins:count} plugin{plugins:s}\n"},
    {.each = "consents", .rows = consent_rows},
    {0},
};

/* Warnings, and what is wrong with its plugins. */
static void put_problems(struct kg_buf *out, const struct cli *cli, const struct kg_node *project)
{
    const struct kg_node *problems = kg_node_list(project, "problems");
    (void)cli;
    for (uint32_t i = 0; i < problems->count; i++) {
        print_words(out, project, "{file}");
        print_words(out, &problems->items[i], ":{line:count}:{column:count}: {message}\n");
    }
}

static void put_changes(struct kg_buf *out, const struct cli *cli, const struct kg_node *project)
{
    const struct kg_node *changes = kg_node_get(project, "changes");
    (void)cli;
    if (changes == NULL)
        return;
    if (kg_node_list(project, "changes")->count == 0)
        kg_buf_text(out, "nothing changed\n");
    project_changes_view_words(changes, out);
}

/* Who could write what the project is made of runs in a new cage. */
static const struct row loaded_rows[] = {
    {.each = "restarted",
     .words = "{.} is restarted: it could write the project's " PROJECT_DIR "\n"},
    {.put = put_changes},
    {.put = put_problems},
    {.rows = state_rows},
    {0},
};

static void put_loaded(struct kg_buf *out, const struct cli *cli, const struct kg_node *project)
{
    rows_put(out, cli, project, loaded_rows, 0);
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

static const struct cell list_cells[] = {
    {"STATE", "state=pending", "{state}", "yellow"}, {"STATE", NULL, "{state}", "green"}, {0}};
static const struct row list_rows[] = {
    {"!projects", .words = "no project is loaded\n", .aside = true},
    {.each = "projects",
     .table = "PROJECT={id}; STATE; AGENTS={agents}; PLUGINS={plugins}; SESSIONS={sessions}; "
              "ROOT={root}; REASON={reason}",
     .cells = list_cells},
    {0},
};
const struct cli_page project_list = {"GET", "/api/v1/projects", .rows = list_rows};

/* -- show -------------------------------------------------------------------------------------- */

static void put_held(struct kg_buf *out, const struct cli *cli, const struct kg_node *project)
{
    (void)cli;
    project_changes_view_words(kg_node_get(project, "held"), out);
}

static void put_agents(struct kg_buf *out, const struct cli *cli, const struct kg_node *project)
{
    const struct kg_node *agents = kg_node_list(project, "agents");
    (void)cli;
    for (uint32_t i = 0; i < agents->count; i++) {
        kg_buf_char(out, '\n');
        project_agent_view_words(&agents->items[i], out);
    }
}

static const struct row shown_rows[] = {
    {.rows = state_rows},
    {.label = "root", .words = "{root}"},
    {.label = "file", .words = "{file}"},
    {"loaded_at", .words = "  loaded      {loaded_at:when}"},
    {"loaded_at watch", .words = ", read again when its file changes"},
    {"loaded_at", .words = "\n"},
    {.label = "sessions", .words = "{sessions}"},
    {.label = "not taken", .words = "{reload_problem.message:hint}"},
    {.label = "", .words = "{reload_problem.hint:hint}"},
    {"held", .put = put_held},
    {.put = put_problems},
    {.put = put_agents},
    {0},
};

static void put_project(struct kg_buf *out, const struct cli *cli, const struct kg_node *project)
{
    rows_put(out, cli, project, shown_rows, 12);
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

const struct cli_page project_unload = {"DELETE", "/api/v1/projects/{1}?force",
                                        .silence_ms = CLIENT_WAIT_FOREVER,
                                        .words = "project {id} is unloaded; its files stay\n"};
