/* What a project says of its agents, with what holds where it says nothing. Read at each use: the
 * project may have been read again since. */
#include "live/internal.h"

#include <errno.h>

#define THRESHOLD_PRESET   0.8
#define KEEP_RECENT_PRESET 4     /* turns */
#define LINE_FRAME         65536 /* bytes of a line on the wire beside a hook's payload */

static const enum session_strategy strategies[] = {
    [PROJECT_STRATEGY_UNSET] = SESSION_BY_DROP,
    [PROJECT_STRATEGY_DROP] = SESSION_BY_DROP,
    [PROJECT_STRATEGY_SUMMARIZE] = SESSION_BY_SUMMARY,
    [PROJECT_STRATEGY_DELEGATE] = SESSION_BY_DELEGATE,
    [PROJECT_STRATEGY_CHECKPOINT] = SESSION_BY_CHECKPOINT,
};

static bool compacts(const struct project_use *use, const char *name_or_null)
{
    return use->state == PROJECT_READY && (use->roles & MANIFEST_COMPACTOR) != 0 &&
           (name_or_null == NULL || strcmp(use->name, name_or_null) == 0);
}

/* The plugin that is named, or the only one that can. */
static const char *compactor_of(const struct project_resolved_agent *agent)
{
    for (size_t i = 0; i < agent->use_count; i++)
        if (compacts(&agent->uses[i], agent->compaction.delegate))
            return agent->uses[i].name;
    return NULL;
}

static uint64_t window_of(const struct sessions *sessions, const struct local_model *model)
{
    if (model != NULL && model->context_window > 0)
        return (uint64_t)model->context_window;
    return (uint64_t)host_config(sessions->host)->sessions_context_window;
}

static struct live_agent agent_describe(const struct sessions *sessions,
                                        struct projects_entry *project,
                                        const struct project_resolved_agent *resolved)
{
    const struct project_compaction *compaction = &resolved->compaction;
    const struct local_model *model =
        resolved->model ? models_known(sessions->models, resolved->model) : NULL;
    return (struct live_agent){
        .project = project,
        .resolved = resolved,
        .model = model,
        .window_tokens = window_of(sessions, model),
        .threshold = compaction->threshold > 0 ? compaction->threshold : THRESHOLD_PRESET,
        .strategy = compaction->delegate ? SESSION_BY_DELEGATE : strategies[compaction->strategy],
        .compactor = compactor_of(resolved),
        .keep_recent =
            compaction->keep_recent >= 0 ? (uint32_t)compaction->keep_recent : KEEP_RECENT_PRESET,
        .summary_model = compaction->summary_model,
    };
}

size_t live_payload_max(const struct sessions *sessions)
{
    size_t line = (size_t)host_config(sessions->host)->limits_line_max_bytes;
    size_t room = line > LINE_FRAME ? line - LINE_FRAME : line / 2;
    return room < SESSION_PAYLOAD_MAX ? room : SESSION_PAYLOAD_MAX;
}

int live_agent_find(const struct sessions *sessions, const char *project_id, const char *agent_path,
                    struct live_agent *ret_agent, struct kg_err *err)
{
    struct projects_entry *project = projects_find(sessions->host, kg_str(project_id), NULL);
    if (project == NULL) {
        kg_fail(err, KG_E_CONFLICT, "project %s is not loaded", project_id);
        return kg_hint(err, "kaged project load PATH");
    }
    struct projects_facts facts = projects_facts(project);
    const struct project_resolved_agent *resolved =
        project_resolved_find(facts.resolved, kg_str(agent_path));
    if (resolved == NULL) {
        kg_fail(err, KG_E_NOT_FOUND, "project %s has no agent %.*s", project_id,
                KG_STR_CUT(kg_str(agent_path), SESSION_AGENT_MAX));
        return kg_hint(err, "kaged project show %s lists its agents", project_id);
    }
    *ret_agent = agent_describe(sessions, project, resolved);
    return 0;
}

int live_ask_model(const struct live_work *work, const char *word,
                   const struct model_request *request, const struct model_ops *ops, void *data,
                   struct models_call **ret_call, struct kg_err *err)
{
    const char *id = work->asker->project_id;
    const struct projects_entry *project = projects_find(work->sessions->host, kg_str(id), NULL);
    const char *group = project != NULL ? projects_facts(project).group : NULL;
    const struct models_purpose purpose = {
        .word = word, .asker = work->asker, .group = group != NULL ? group : id};
    return models_ask(work->sessions->models, &purpose, request, ops, data, ret_call, err);
}
