/*
 * Which plugins a project may use. Until the operator has agreed to every plugin that it declares a
 * project is pending. Nothing is fetched here: a consent only says what is wanted.
 */
#include "projects/internal.h"

#include <stdlib.h>

/* What is missing until a plugin can be used. */
struct need {
    const char *package;
    const char *version, *source; /* NULL if nothing is asked for */
    bool is_needed;
    bool is_apart; /* the project is active without it */
    enum consent_kind kind;
};

struct needs {
    struct need *items; /* owned */
    size_t count;
};

static void needs_free(struct needs *needs)
{
    free(needs->items);
}

/* What is there for every project, and was never enabled, stays off until somebody says yes. */
static bool projects_consents_is_off(const struct projects_entry *project, const char *plugin)
{
    kg_auto(kg_free) char *own = kg_format("%s@%s", plugin, project->id);
    const struct host *host = project->host;
    return host_choice(host, plugin) == STATE_UNSAID && !host_is_enabled(host, plugin) &&
           !host_is_enabled(host, own);
}

/* A client may be started in any folder: a yes to the plugin is none to reach into each of them. */
static bool waits_for_yes(const struct projects_entry *project, const char *name)
{
    kg_auto(kg_free) char *own = kg_format("%s@%s", name, project->id);
    const struct host_plugin *plugin = host_plugin_find(project->host, kg_str(name));
    return project->source->asks_for_reach && plugin != NULL &&
           host_plugin_reaches_projects(plugin) && !host_is_enabled(project->host, own);
}

bool project_may_use(const struct projects_entry *project, const struct project_use *use)
{
    struct host *host = project->host;
    const char *name = manifest_name_in(use->package);
    const char *package = use->plugin ? use->plugin->package : use->package;
    const struct local_plugin *local = local_plugin_find(host_local(host), kg_str(package));
    struct host_named named = {.plugin = host_plugin_find(host, kg_str(name))};
    if (project_package_find(project->packages, name) != NULL)
        return true; /* who keeps the project has seen to that */
    bool active = (local != NULL && local->local && !projects_consents_is_off(project, name) &&
                   !waits_for_yes(project, name)) ||
                  (named.plugin != NULL && host_status(named).is_dev);
    return active || (host_consents(host) != NULL &&
                      consent_is_active(host_consents(host), project->id, name));
}

static struct need *need_of(struct needs *needs, const char *package)
{
    for (size_t i = 0; i < needs->count; i++)
        if (strcmp(needs->items[i].package, package) == 0)
            return &needs->items[i];
    needs->items = kg_realloc(needs->items, (needs->count + 1) * sizeof(*needs->items));
    needs->items[needs->count] = (struct need){.package = package};
    return &needs->items[needs->count++];
}

/* A plugin has one consent, so the first agent that asks for something decides what it is. */
static void projects_consents_add_use(const struct projects_entry *project,
                                      const struct project_use *use, struct needs *needs)
{
    size_t known = needs->count;
    struct need *need = need_of(needs, use->package);
    bool must_fetch = use->state == PROJECT_NOT_INSTALLED || use->state == PROJECT_WRONG_VERSION;
    if (must_fetch && (!need->is_needed || need->kind == CONSENT_ACTIVATE)) {
        need->is_needed = true;
        need->kind = use->state == PROJECT_NOT_INSTALLED ? CONSENT_INSTALL : CONSENT_UPGRADE;
        need->version = use->version;
        need->source = use->source;
    } else if (!must_fetch && needs->count > known && !project_may_use(project, use)) {
        need->is_needed = true;
        need->is_apart = waits_for_yes(project, manifest_name_in(use->package));
        need->kind = CONSENT_ACTIVATE;
    }
}

static struct needs projects_consents_collect(const struct projects_entry *project)
{
    struct needs needs = {0};
    for (size_t i = 0; i < project_resolved_count(project->resolved); i++) {
        const struct project_resolved_agent *agent = project_resolved_at(project->resolved, i);
        for (size_t k = 0; k < agent->use_count; k++)
            projects_consents_add_use(project, &agent->uses[k], &needs);
    }
    return needs;
}

/* What was done, and is needed again, is asked for again: a plugin may have been uninstalled. */
static bool was_done(const struct projects_entry *project, const char *package)
{
    const struct consent *before =
        consent_of_project(host_consents(project->host), project->id, package);
    return before != NULL && consent_state(before) == CONSENT_DONE;
}

static void raise_one(const struct projects_entry *project, const struct need *need, bool again,
                      const char *operator_id, struct kg_buf *reason)
{
    static const char *const acts[] = {
        [CONSENT_INSTALL] = "is to be installed",
        [CONSENT_UPGRADE] = "is to be upgraded",
        [CONSENT_ACTIVATE] = "is to be allowed",
    };
    const struct consent_request request = {
        .wish = {.kind = need->kind,
                 .plugin = need->package,
                 .source = need->source,
                 .base = need->kind != CONSENT_ACTIVATE ? project->root : NULL,
                 .version = need->version},
        .project = project->id,
        .operator_id = operator_id,
        .again = again || was_done(project, need->package),
    };
    struct kg_err err;
    const struct consent *consent = consent_raise(host_consents(project->host), &request, &err);
    bool off = need->kind == CONSENT_ACTIVATE &&
               projects_consents_is_off(project, manifest_name_in(need->package));
    kg_buf_printf(reason, "%s%" KG_S_WORD " %s%s (", reason->length > 0 ? ", " : "", need->package,
                  off ? "is not enabled, and " : "", acts[need->kind]);
    if (consent == NULL)
        kg_buf_printf(reason, "%" KG_S_PATH ")", err.message);
    else if (consent_state_is_settled(consent_state(consent)))
        kg_buf_printf(reason, "%s: %s)", consent_id(consent),
                      consent_state_name(consent_state(consent)));
    else
        kg_buf_printf(reason, "%s)", consent_id(consent));
}

static void forget_others(const struct projects_entry *project, const struct needs *needs)
{
    char **names = kg_list_new(needs->count);
    size_t count = 0;
    for (size_t i = 0; i < needs->count; i++)
        if (needs->items[i].is_needed)
            names[count++] = kg_strdup(manifest_name_in(needs->items[i].package));
    consent_keep_wanted(host_consents(project->host), project->id, names);
    kg_list_free(names);
}

static void set_active(struct projects_entry *project)
{
    bool is_news = project->reason != NULL;
    free(kg_steal(&project->reason));
    project->state = PROJECTS_ACTIVE;
    if (!is_news)
        return;
    kg_log(KG_INFO, "project %s is active", project->id);
    audit_emit(host_audit(project->host), AUDIT_PROJECT_ACTIVATED, KG_STR_NULL,
               AUDIT_V_TEXT(project->id));
}

static void set_pending(struct projects_entry *project, char *reason)
{
    bool is_news = project->reason == NULL || strcmp(project->reason, reason) != 0;
    free(project->reason);
    project->reason = reason;
    project->state = PROJECTS_PENDING;
    if (!is_news)
        return;
    kg_log(KG_WARN, "project %s is pending: %" KG_S_CAUSE, project->id, reason);
    audit_emit(host_audit(project->host), AUDIT_PROJECT_PENDING, KG_STR_NULL,
               AUDIT_V_TEXT(project->id), AUDIT_V_TEXT(reason));
}

void project_ask_consents(struct projects_entry *project, bool again, const char *operator_id)
{
    kg_auto(kg_buf_free) struct kg_buf reason = {0}, apart = {0};
    if (host_consents(project->host) == NULL)
        return; /* the daemon stops */
    kg_auto(needs_free) struct needs needs = projects_consents_collect(project);
    forget_others(project, &needs);
    for (size_t i = 0; i < needs.count; i++)
        if (needs.items[i].is_needed)
            raise_one(project, &needs.items[i], again, operator_id,
                      needs.items[i].is_apart ? &apart : &reason);
    if (reason.length == 0) {
        set_active(project);
        return;
    }
    kg_buf_text(&reason, "; answer with: kaged project consent");
    set_pending(project, kg_strdup(kg_buf_terminate(&reason)));
}
