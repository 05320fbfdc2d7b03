/*
 * A plugin is added to an agent: its project's file is changed off the loop, as `kaged project add`
 * changes it, and then the project is read again. What fails before that leaves all as it was.
 */
#include "projects/internal.h"

#include <errno.h>
#include <stdlib.h>

struct adding {
    struct loop_job job;
    struct host *host;
    struct project_location location;
    char *agent_path, *package, *project_id, *operator_id; /* owned */
    int result;
    struct kg_err err;
    projects_fn *on_done;
    void *data;
};

static void adding_free(struct adding *adding)
{
    project_location_free(&adding->location);
    free(adding->agent_path);
    free(adding->package);
    free(adding->project_id);
    free(adding->operator_id);
    free(adding);
}

static void run_add(struct loop_job *job)
{
    struct adding *adding = KG_CONTAINER(job, struct adding, job);
    adding->result =
        project_add_plugin(&adding->location, adding->agent_path, adding->package, &adding->err);
    if (adding->result < 0)
        project_explain_refusal(adding->host, &adding->err);
}

static void add_on_added(struct loop_job *job)
{
    struct adding *adding = KG_CONTAINER(job, struct adding, job);
    struct host *host = adding->host;
    if (adding->result < 0)
        adding->on_done(adding->data, NULL, NULL, &adding->err);
    else
        projects_reload(host, kg_str(adding->project_id), adding->operator_id, adding->on_done,
                        adding->data);
    adding_free(adding);
    host_store_job_done(host);
}

/* The package of a plugin that is installed by that name; else what was given. NULL: neither. */
static char *add_package_of(struct host *host, struct kg_str plugin, struct kg_err *err)
{
    struct host_named named;
    if (host_find(host, plugin, &named, NULL) == 0 && host_status(named).manifest != NULL)
        return kg_strdup(host_status(named).manifest->package);
    if (manifest_package_is_valid(plugin))
        return kg_str_dup(plugin);
    kg_fail(err, KG_E_INVALID_PARAMS, "\"%.*s\" is not the name of a plugin, nor a package",
            KG_STR_CUT(plugin, KG_CUT_NAME));
    kg_hint(err, "kaged plugin list shows what is installed");
    return NULL;
}

int projects_add_plugin(struct host *host, const struct projects_addition *wanted,
                        projects_fn *on_done, void *data, struct kg_err *err)
{
    const struct projects_entry *project = projects_find(host, wanted->project, err);
    if (project == NULL)
        return -ENOENT;
    const struct projects_facts facts = projects_facts(project);
    const struct project_resolved_agent *agent =
        project_agent_find(facts.resolved, wanted->agent, err);
    if (agent == NULL)
        return kg_wrap(err, -ENOENT, "project %s", facts.id);
    char *package = add_package_of(host, wanted->plugin, err);
    if (package == NULL || project_check_file(&facts, err) < 0) {
        free(package);
        return -EINVAL;
    }
    struct adding *adding = kg_alloc(sizeof(*adding));
    *adding = (struct adding){
        .job = {.run = run_add, .done = add_on_added},
        .host = host,
        .location = project_file_location(&facts),
        .agent_path = kg_strdup(agent->path),
        .package = package,
        .project_id = kg_strdup(facts.id),
        .operator_id = kg_strdup(wanted->operator_id),
        .on_done = on_done,
        .data = data,
    };
    host_store_job(host, &adding->job);
    return 0;
}
