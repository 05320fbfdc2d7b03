/*
 * The operator's hand on a plugin: his own lines over its manifest, kept in local.toml. What a
 * process may do is made here of both; everything that asks whether it may asks that. A grant is
 * checked as the manifest's own lines are, before anything is written; processes that may do
 * something else then are restarted in another cage.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

/* -- what it may do ---------------------------------------------------------------------------- */

void host_grants_make(const struct host *host, const struct manifest *manifest,
                      const struct host_whom *whom, struct grants *ret_grants)
{
    grants_free(ret_grants);
    (void)grants_make(&manifest->capability_set, host->local, manifest->name, whom->project,
                      ret_grants,
                      NULL); /* a plugin with such lines is not started: see plugin_config_check */
    if (ret_grants->texts == NULL)
        ret_grants->texts = kg_list_new(0);
}

const struct grants *host_grants_of(struct host_named named)
{
    return named.process ? &named.process->grants : &named.plugin->grants;
}

bool host_grants_renew(struct host_process *process)
{
    struct grants now = {0};
    host_grants_make(process->plugin->host, process->manifest, &process->whom, &now);
    bool differ = !grants_equal(&process->grants, &now);
    grants_free(&process->grants);
    process->grants = now;
    return differ;
}

static bool host_grants_has_own_lines(const struct local *local, const char *plugin,
                                      const char *project)
{
    for (size_t i = 0; i < local->grant_count; i++)
        if (kg_str_is(local->grants[i].plugin, plugin) &&
            kg_str_is(local->grants[i].project, project))
            return true;
    return false;
}

bool host_is_of_project(const struct host *host, const struct manifest *manifest,
                        const char *project_or_null, struct kg_str settings)
{
    kg_auto(grants_free) struct grants grants = {0};
    const struct host_whom whom = {.project = project_or_null};
    if (project_or_null != NULL &&
        host_grants_has_own_lines(host->local, manifest->name, project_or_null))
        return true;
    host_grants_make(host, manifest, &whom, &grants);
    return policy_is_of_project(manifest, &grants.set, settings);
}

/* -- granting ---------------------------------------------------------------------------------- */

struct granting {
    struct loop_job job;
    struct host_plugin *plugin; /* one reference */
    struct manifest *manifest;  /* the same; of when it was asked for */
    struct capability_set lines;
    char **texts; /* owned, as written to the audit log */
    char *project, *operator_id;
    bool revokes;
    struct audit_request request;
    int result;
    struct kg_err err;
    host_granted_fn *on_done;
    void *data;
};

static void granting_free(struct granting *granting)
{
    if (granting->plugin != NULL)
        host_plugin_drop(granting->plugin);
    manifest_free(granting->manifest);
    capability_set_free(&granting->lines);
    kg_list_free(granting->texts);
    free(granting->project);
    free(granting->operator_id);
    free(granting);
}

/* All that is asked for, each once. */
static int host_grants_read_lines(struct granting *granting, char *const *lines, struct kg_err *err)
{
    kg_auto(capability_remarks_free) struct capability_remarks remarks = {0};
    int result = capability_set_parse(lines, &granting->lines, &remarks, err);
    if (result < 0) {
        err->code = KG_E_USAGE;
        return result;
    }
    granting->texts = kg_list_new(0);
    for (size_t i = 0; i < granting->lines.count; i++) {
        struct kg_buf text = {0};
        capability_print(&granting->lines.items[i], &text);
        kg_list_add(&granting->texts, kg_buf_terminate(&text));
        if (granting->lines.items[i].kind == CAPABILITY_NET_NONE)
            return kg_fail(err, KG_E_USAGE, "capability \"net:[]\": it grants nothing");
    }
    if (granting->lines.count != kg_list_count(lines))
        return kg_fail(err, KG_E_USAGE, "a capability is named twice");
    return granting->lines.count > 0 ? 0 : kg_fail(err, KG_E_USAGE, "no capability is named");
}

/* Its process that the lines are for, of which a project's paths can be told; or none. */
static struct host_process *concerned(const struct granting *granting)
{
    struct host_process *found = NULL;
    for (struct host_process *at = granting->plugin->processes; at != NULL; at = at->next)
        if (granting->project != NULL ? kg_same_text(at->whom.project, granting->project)
                                      : found == NULL || at->whom.root != NULL)
            found = at;
    return found;
}

/* Whether a cage can be planned that has these and nothing else. */
static int host_grants_plan(struct host_cage_parts parts, const struct capability_set *set,
                            struct kg_err *err)
{
    const struct grants only = {.set = *set, .declared = set->count};
    parts.grants = &only;
    parts.settings = KG_STR_NULL;
    parts.unguarded = true; /* that is looked for when it starts */
    struct cage_plan *plan = host_cage_plan(&parts, err);
    cage_plan_free(plan);
    return plan != NULL ? 0 : -EINVAL;
}

/*
 * By the rules of a manifest's own lines: no link, nothing of kaged's, nothing that is not there. A
 * path of a project that nobody has entered yet is looked at when it is, and one who can have no
 * cage at all is not told so here.
 */
static int host_grants_check_line(struct host_cage_parts parts, const struct capability *line,
                                  struct kg_err *err)
{
    const struct capability_set nothing = {0}, one = {(struct capability *)line, 1};
    if (kg_str_starts(kg_str(line->path), "project:/") && parts.project_root == NULL)
        return 0;
    if (host_grants_plan(parts, &one, err) == 0 || host_grants_plan(parts, &nothing, NULL) < 0)
        return 0;
    err->code = KG_E_REFUSED;
    return -EINVAL;
}

int host_check_added(struct host_cage_parts parts, const struct store_offer *offer,
                     struct kg_err *err)
{
    kg_auto(kg_free) char *dir = kg_path_join(parts.plugins_dir, offer->manifest->name);
    kg_auto(kg_free) char *tree = store_offer_tree(offer);
    int result = 0;
    parts.manifest = offer->manifest;
    parts.dir = dir;
    parts.source = tree;
    for (size_t i = 0; i < offer->own_count && result == 0; i++) {
        kg_auto(capability_free) struct capability line = {0};
        if (offer->own[i].kind == STORE_OWN_GRANTED && offer->own[i].difference == STORE_NEW &&
            capability_parse(kg_str(offer->own[i].text), &line, NULL) == 0)
            result = host_grants_check_line(parts, &line, err);
    }
    return result;
}

/* What is closed is covered under its own name: under another it would be open still. */
static int check_closable(const struct granting *granting, const struct capability *line,
                          struct kg_err *err)
{
    kg_auto(kg_free) char *real = line->path[0] == '/' ? cage_real_path(line->path) : NULL;
    if (real == NULL || strcmp(real, line->path) == 0)
        return 0;
    kg_fail(err, KG_E_REFUSED, "plugin %s: close %s: this path contains a symbolic link",
            granting->plugin->name, line->path);
    return kg_hint(err, "use the real path, %s", real);
}

static int host_grants_check_lines(const struct granting *granting, struct kg_err *err)
{
    const struct host *host = granting->plugin->host;
    const struct host_named named = {granting->plugin, concerned(granting)};
    struct host_cage_parts parts = host_cage_parts_of(named, NULL);
    int result = 0;
    parts.manifest = granting->manifest;
    for (size_t i = 0; i < granting->lines.count && result == 0; i++)
        if (granting->revokes)
            result = check_closable(granting, &granting->lines.items[i], err);
        else if (host->no_cage.code == KG_OK)
            result = host_grants_check_line(parts, &granting->lines.items[i], err);
    return result;
}

static void host_grants_run(struct loop_job *job)
{
    struct granting *granting = KG_CONTAINER(job, struct granting, job);
    const struct store_grant grant = {
        .plugin = granting->manifest->name,
        .project = granting->project,
        .declared = &granting->manifest->capability_set,
        .lines = &granting->lines,
        .revokes = granting->revokes,
    };
    granting->result = store_grant(granting->plugin->host->store, &grant, &granting->err);
}

static void audit(const struct granting *granting)
{
    kg_auto(kg_buf_free) struct kg_buf lines = {0};
    struct kg_json_writer json = kg_json_writer(&lines);
    kg_json_begin(&json, '[');
    for (char **text = granting->texts; *text != NULL; text++)
        kg_json_text(&json, *text);
    kg_json_end(&json, ']');
    audit_emit(granting->plugin->host->audit,
               granting->revokes ? AUDIT_PLUGIN_REVOKED : AUDIT_PLUGIN_GRANTED, KG_STR_NULL,
               AUDIT_V_TEXT(granting->plugin->name), AUDIT_V_RAW(kg_buf_view(&lines)),
               AUDIT_V_TEXT(granting->project), AUDIT_V_TEXT(granting->operator_id));
}

/* One that failed for want of it gets another try. A change of the store reads it all itself. */
static void host_grants_apply(struct host_plugin *plugin, char ***restarted)
{
    struct host *host = plugin->host;
    if (plugin->gone || plugin->change != NULL || host->stopping)
        return;
    for (struct host_process *at = plugin->processes; at != NULL; at = at->next) {
        bool is_idle = !host_process_runs(at) && !host_process_is_starting(at);
        if (!host_grants_renew(at) || !host_process_is_wanted(at) ||
            (is_idle && instance_state(at->instance) == INSTANCE_DISABLED))
            continue;
        kg_list_add(restarted, kg_strdup(at->name));
        host_process_restart(at);
    }
    host_plugin_refresh(plugin);
    host->project_ops->refresh(host->projects);
}

static int take_effect(struct granting *granting, char ***restarted)
{
    int result = granting->result;
    if (result == 0)
        result = host_read_local_again(granting->plugin->host, &granting->err);
    if (result < 0)
        return result;
    audit(granting);
    host_grants_apply(granting->plugin, restarted);
    return 0;
}

static void host_grants_on_written(struct loop_job *job)
{
    struct granting *granting = KG_CONTAINER(job, struct granting, job);
    struct host *host = granting->plugin->host;
    struct audit_request before = audit_swap_request(host->audit, granting->request);
    char **restarted = kg_list_new(0);
    int result = take_effect(granting, &restarted);
    granting->on_done(granting->data, granting->plugin->name, restarted,
                      result < 0 ? &granting->err : NULL);
    kg_list_free(restarted);
    granting_free(granting);
    audit_swap_request(host->audit, before);
    host_store_job_done(host);
}

static int host_grants_find(struct granting *granting, struct host *host,
                            const struct host_grant *grant, struct kg_err *err)
{
    struct host_named named;
    int result = host_find(host, grant->name, &named, err);
    if (result < 0)
        return result;
    granting->plugin = host_plugin_keep(named.plugin);
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (!kg_str_is(grant->name, named.plugin->name)) {
        kg_fail(err, KG_E_USAGE, "%.*s is the process of one project",
                KG_STR_CUT(grant->name, KG_CUT_WORD));
        return kg_hint(err, "name the plugin, %s, and the project with --project",
                       named.plugin->name);
    }
    if (named.plugin->manifest == NULL) {
        *err = named.plugin->problem;
        return -EINVAL;
    }
    granting->manifest = manifest_keep(named.plugin->manifest);
    return host_check_unchanging(named.plugin, err);
}

void host_grant(struct host *host, const struct host_grant *grant, host_granted_fn *on_done,
                void *data)
{
    struct granting *granting = kg_alloc(sizeof(*granting));
    struct kg_err err = {0};
    granting->project = grant->project.length > 0 ? kg_str_dup(grant->project) : NULL;
    granting->operator_id = kg_strdup(grant->operator_id);
    granting->revokes = grant->revokes;
    granting->request = audit_request(host->audit);
    granting->on_done = on_done;
    granting->data = data;
    if (host_grants_find(granting, host, grant, &err) < 0 ||
        host_grants_read_lines(granting, grant->lines, &err) < 0 ||
        host_grants_check_lines(granting, &err) < 0) {
        granting_free(granting);
        on_done(data, NULL, NULL, &err);
        return;
    }
    granting->job.run = host_grants_run;
    granting->job.done = host_grants_on_written;
    host_store_job(host, &granting->job);
}
