/*
 * Projects, as the operator loads, looks at and unloads them. A project's file is a stranger's: if
 * it cannot be used, the answer lists all that is wrong with it. No secret is in what is shown.
 */
#include "http/internal.h"

/* -- finding ----------------------------------------------------------------------------------- */

/* The project of the path; answers 404 itself. */
static struct projects_entry *http_projects_find_project(struct http_request *request)
{
    struct kg_err err;
    struct projects_entry *project =
        projects_find(http_host(request), http_path_parameter(request, "id"), &err);
    if (project == NULL)
        http_reply_error(request, &err);
    return project;
}

/* Of one that could not be read since the daemon started there is none. */
static size_t count_agents(const struct project_resolved *resolved_or_null)
{
    return resolved_or_null ? project_resolved_count(resolved_or_null) : 0;
}

/* -- answers ----------------------------------------------------------------------------------- */

/* How many plugins its agents have together, each counted once. */
static size_t count_plugins(const struct project_resolved *resolved)
{
    struct kg_map *packages = kg_map_new();
    for (size_t i = 0; i < count_agents(resolved); i++) {
        const struct project_resolved_agent *agent = project_resolved_at(resolved, i);
        for (size_t k = 0; k < agent->use_count; k++)
            kg_map_set(packages, kg_str(agent->uses[k].package), packages);
    }
    size_t count = kg_map_count(packages);
    kg_map_free(packages);
    return count;
}

/* What a project is, in a list and alone. */
static void http_projects_put_identity(struct kg_json_writer *json,
                                       const struct projects_facts *facts)
{
    kg_json_named_text(json, "id", facts->id);
    kg_json_named_text(json, "root", facts->root);
    kg_json_named_text(json, "source", facts->source);
    kg_json_named_text(json, "file", facts->path);
    kg_json_named_text(json, "state", projects_state_names[facts->state]);
    kg_json_named_text(json, "reason", facts->reason);
    kg_json_named_int(json, "plugins", (int64_t)count_plugins(facts->resolved));
    kg_json_named_int(json, "sessions", (int64_t)facts->sessions);
    kg_json_named_bool(json, "watch", facts->watched);
    kg_json_named_time(json, "loaded_at", facts->loaded_at_ms);
}

static void put_reload_problem(struct kg_json_writer *json, const struct kg_err *problem)
{
    kg_json_key(json, "reload_problem");
    if (problem == NULL || problem->code == KG_OK) {
        kg_json_null(json);
        return;
    }
    kg_json_begin(json, '{');
    kg_json_named_text(json, "code", kg_error_row(problem->code)->name);
    kg_json_named_text(json, "message", problem->message);
    kg_json_named_text(json, "hint", problem->hint[0] ? problem->hint : NULL);
    kg_json_end(json, '}');
}

static void http_projects_put_held(struct kg_json_writer *json,
                                   const struct project_changes *held_or_null)
{
    kg_json_key(json, "held");
    if (held_or_null != NULL)
        project_changes_json(held_or_null, json);
    else
        kg_json_null(json);
}

/* What it still wants of the operator, and what he refused it. */
static void http_projects_put_consents(struct kg_json_writer *json, struct host *host,
                                       const char *id)
{
    const struct consent_queue *queue = host_consents(host);
    kg_json_named_begin(json, "consents", '[');
    for (size_t i = 0; queue != NULL && i < consent_count(queue); i++) {
        const struct consent *consent = consent_at(queue, i);
        const char *project = consent_project(consent);
        if (project != NULL && strcmp(project, id) == 0 && consent_state(consent) != CONSENT_DONE)
            consent_json(consent, false, json);
    }
    kg_json_end(json, ']');
}

/* NULL: it was not read. */
static void reply_project(struct http_request *request, const struct projects_entry *project,
                          const struct projects_loaded *loaded_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    const struct projects_facts facts = projects_facts(project);
    kg_json_begin(&json, '{');
    http_projects_put_identity(&json, &facts);
    put_reload_problem(&json, facts.reload_problem);
    http_projects_put_held(&json, facts.held);
    http_projects_put_consents(&json, http_host(request), facts.id);
    if (facts.resolved != NULL)
        project_view_members(facts.resolved, facts.problems, &json);
    if (loaded_or_null != NULL && loaded_or_null->changes != NULL) {
        kg_json_key(&json, "changes");
        project_changes_json(loaded_or_null->changes, &json);
    }
    if (loaded_or_null != NULL)
        kg_json_named_list(&json, "restarted", loaded_or_null->restarted);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

void http_put_projects(struct kg_json_writer *json, const struct host *host)
{
    for (size_t i = 0; i < projects_count(host); i++) {
        const struct projects_facts facts = projects_facts(projects_at(host, i));
        kg_json_begin(json, '{');
        http_projects_put_identity(json, &facts);
        kg_json_named_int(json, "agents", (int64_t)count_agents(facts.resolved));
        kg_json_end(json, '}');
    }
}

void http_handle_projects(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "projects", '[');
    http_put_projects(&json, http_host(request));
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_project(struct http_request *request)
{
    const struct projects_entry *project = http_projects_find_project(request);
    if (project != NULL)
        reply_project(request, project, NULL);
}

/* -- loading ----------------------------------------------------------------------------------- */

static void on_loaded(void *data, const struct projects_loaded *loaded_or_null,
                      const struct kg_problems *problems_or_null, const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    if (err_or_null != NULL)
        http_reply_problems(request, err_or_null, problems_or_null);
    else
        reply_project(request, loaded_or_null->project, loaded_or_null);
}

static int http_projects_check_path(const char *path, struct kg_err *err)
{
    if (path[0] == '/')
        return 0;
    kg_fail(err, KG_E_USAGE, "path %" KG_S_PATH ": it is not absolute", path);
    return kg_hint(err, "the daemon runs in another folder: write an absolute path");
}

void http_handle_project_load(struct http_request *request)
{
    kg_auto(kg_free) char *path = http_body_text(request, "path");
    bool watch = http_body_flag(request, "watch", false);
    struct kg_err err = {0};
    if (http_projects_check_path(path, &err) < 0)
        http_reply_error(request, &err);
    else
        projects_load(http_host(request), path, watch, http_operator(request), on_loaded, request);
}

void http_handle_project_reload(struct http_request *request)
{
    projects_reload(http_host(request), http_path_parameter(request, "id"), http_operator(request),
                    on_loaded, request);
}

void http_handle_project_add(struct http_request *request)
{
    struct kg_err err = {0};
    const struct projects_addition wanted = {
        .project = http_path_parameter(request, "id"),
        .agent = http_path_parameter(request, "path"),
        .plugin = kg_node_text(http_body_tree(request), "plugin"),
        .operator_id = http_operator(request),
    };
    if (projects_add_plugin(http_host(request), &wanted, on_loaded, request, &err) < 0)
        http_reply_error(request, &err);
}

static void on_unloaded(void *data, const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    if (err_or_null != NULL) {
        http_reply_error(request, err_or_null);
        return;
    }
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "id", http_path_parameter(request, "id"));
    kg_json_named_bool(&json, "unloaded", true);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_project_unload(struct http_request *request)
{
    bool force = http_query_flag(request, "force");
    projects_unload(http_host(request), http_path_parameter(request, "id"), force,
                    http_operator(request), on_unloaded, request);
}

/* -- agents ------------------------------------------------------------------------------------ */

void http_handle_agents(struct http_request *request)
{
    const struct projects_entry *project = http_projects_find_project(request);
    if (project == NULL)
        return;
    const struct project_resolved *resolved = projects_facts(project).resolved;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "agents", '[');
    for (size_t i = 0; i < count_agents(resolved); i++)
        project_agent_view(project_resolved_at(resolved, i), &json);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_agent(struct http_request *request)
{
    struct kg_str dialect = http_query_parameter(request, "tools");
    struct kg_err err = {0};
    const struct projects_entry *project = http_projects_find_project(request);
    if (project == NULL)
        return;
    const struct project_resolved_agent *agent = project_agent_find(
        projects_facts(project).resolved, http_path_parameter(request, "path"), &err);
    if (agent == NULL) {
        kg_wrap(&err, 0, "project %s", projects_facts(project).id);
        http_reply_error(request, &err);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    project_agent_view_members(agent, &json);
    if (dialect.data != NULL) {
        kg_json_key(&json, "tools_json");
        project_tools_json(agent, kg_str_is(dialect, "openai") ? PROJECT_OPENAI : PROJECT_ANTHROPIC,
                           &json);
    }
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}
