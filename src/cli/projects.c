/*
 * Projects that the daemon has: load, reload, list, show, unload. What a project's file says is a
 * stranger's, and is escaped on its way to the terminal.
 */
#include "cli/rows.h"

#include "project/project.h"

#include <errno.h>

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
static void cli_projects_put_problems(struct kg_buf *out, const struct cli *cli,
                                      const struct kg_node *project)
{
    const struct kg_node *problems = kg_node_list(project, "problems");
    (void)cli;
    for (uint32_t i = 0; i < problems->count; i++) {
        print_words(out, project, "{file}");
        print_words(out, &problems->items[i], ":{line:count}:{column:count}: {message}\n");
    }
}

static void cli_projects_put_changes(struct kg_buf *out, const struct cli *cli,
                                     const struct kg_node *project)
{
    const struct kg_node *changes = kg_node_get(project, "changes");
    (void)cli;
    if (changes == NULL)
        return;
    if (kg_node_list(project, "changes")->count == 0)
        kg_buf_text(out, "nothing changed\n");
    project_changes_view_words(changes, out);
}

/* Plugins that could write what the project is made of run in a new cage. */
static const struct row loaded_rows[] = {
    {.each = "restarted",
     .words = "{.} is restarted: it could write the project's " PROJECT_DIR "\n"},
    {.put = cli_projects_put_changes},
    {.put = cli_projects_put_problems},
    {.rows = state_rows},
    {0},
};

/* -- load, reload ------------------------------------------------------------------------------ */

int cli_project_load(struct cli *cli)
{
    static const struct cli_page page = {"POST", "/api/v1/projects",
                                         .silence_ms = CLIENT_WAIT_FOREVER, .rows = loaded_rows};
    kg_auto(project_location_free) struct project_location location = {0};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    const char *path = cli_argument(cli, 0);
    struct kg_err err;
    /* Without a folder the user has more likely forgotten that he is in another than meant this
     * one. */
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
    const struct page_given given = {.body = kg_buf_view(&body), .file = location.path};
    return page_show_with(cli, &page, &given);
}

int cli_project_reload(struct cli *cli)
{
    static const struct cli_page before = {"GET", "/api/v1/projects/{1}"};
    static const struct cli_page page = {"POST", "/api/v1/projects/{1}/reload",
                                         .silence_ms = CLIENT_WAIT_FOREVER, .rows = loaded_rows};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    int code = page_ask(cli, &before, NULL, &body, &doc);
    if (code != CLI_DONE)
        return code;
    /* Where its file is, for what may be wrong with it. */
    kg_auto(kg_free) char *file = kg_str_dup(cli_text(doc->root, "file"));
    return page_show_with(cli, &page, &(struct page_given){.file = file});
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
const struct cli_page page_project_list = {"GET", "/api/v1/projects", .rows = list_rows};

/* -- show -------------------------------------------------------------------------------------- */

static void cli_projects_put_held(struct kg_buf *out, const struct cli *cli,
                                  const struct kg_node *project)
{
    (void)cli;
    project_changes_view_words(kg_node_get(project, "held"), out);
}

static void cli_projects_put_agents(struct kg_buf *out, const struct cli *cli,
                                    const struct kg_node *project)
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
    {"held", .put = cli_projects_put_held},
    {.put = cli_projects_put_problems},
    {.put = cli_projects_put_agents},
    {0},
};

static void cli_projects_put_agent(struct kg_buf *out, const struct cli *cli,
                                   const struct kg_node *agent)
{
    (void)cli;
    project_agent_view_words(agent, out);
}

static const struct row show_rows[] = {
    {"--agent", .put = cli_projects_put_agent},
    {"!--agent", .rows = shown_rows},
    {0},
};
const struct cli_page page_project_show = {"GET", "/api/v1/projects/{1}/agents/{--agent}",
                                           .without = "/api/v1/projects/{1}", .rows = show_rows,
                                           .columns = 12};

/* -- unload ------------------------------------------------------------------------------------ */

const struct cli_page page_project_unload = {"DELETE", "/api/v1/projects/{1}?force",
                                             .silence_ms = CLIENT_WAIT_FOREVER,
                                             .words = "project {id} is unloaded; its files stay\n"};
