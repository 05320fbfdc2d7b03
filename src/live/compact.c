/*
 * A compaction, from its plan to what plugins say afterwards. One at a time for each agent; nothing
 * that a plugin or a model does wrong can end it: then the oldest are dropped. In order:
 *
 *   plan -> pre_compact -> [compactor's result | summary | fall back] -> apply -> post_compact
 *    ^                                                                     |
 *    +------------------------ the context was rewritten meanwhile <-------+
 *
 * What is added meanwhile begins none: when the one under way ends, it looks again.
 */
#include "live/internal.h"

#include "redact/shared.h"

#include <errno.h>
#include <stdlib.h>

#define ATTEMPTS_MAX 3

struct live_compaction {
    struct live_compaction *next; /* of the session */
    struct live_work work;        /* as the agent */
    const char *agent;            /* of its asker */
    const char *trigger;
    bool has_strategy, has_keep_recent;
    enum session_strategy strategy;
    uint32_t keep_recent;

    /* What the project said when it began. */
    struct kg_err problem; /* that it cannot begin */
    char *prompt;          /* owned: words for whoever sums up; NULL: none */
    char *compactor;       /* owned: the agent's word for the plugin; NULL: none is asked */
    uint64_t window_tokens, target_tokens;
    size_t payload_max;

    unsigned attempts;
    bool told_triggered;
    struct session_compaction *plan; /* owned */
    struct kg_buf for_observers, for_compactor;
    bool truncated; /* the compactor could not be told all */
    struct live_notes notes;
    struct live_summary summary;
    char *plugin;         /* owned: the compactor's own name, once it has answered */
    struct kg_buf result; /* the compactor's */
    bool has_result;
    enum session_fault fault;
    char *reason, *error; /* owned: why it fell back */

    struct session_added mark;
    bool marked; /* of a checkpoint */
    live_compacted_fn *on_done;
    void *data;
    struct kg_waits waiters;

    struct host_asker *adder; /* a reference; who added to the context meanwhile; NULL: nobody */
    uint64_t tokens;          /* of the context, after what was added or applied last */
};

/* -- its life ---------------------------------------------------------------------------------- */

static struct live_compaction *compact_find(const struct live_session *live, const char *agent)
{
    struct live_compaction *at = live->compactions;
    while (at != NULL && strcmp(at->agent, agent) != 0)
        at = at->next;
    return at;
}

const char *live_compacting(const struct live_session *live)
{
    return live->compactions ? live->compactions->agent : NULL;
}

void live_when_compacted(struct live_work *work, const char *agent, live_next_fn *next)
{
    struct live_compaction *under_way = compact_find(work->live, agent);
    if (under_way == NULL)
        next(work, NULL);
    else
        live_wait(work, &under_way->waiters, next);
}

static void clear_answer(struct live_compaction *compaction)
{
    kg_free(&compaction->plugin);
    kg_free(&compaction->reason);
    kg_free(&compaction->error);
    compaction->result.length = 0;
    compaction->has_result = false;
    compaction->fault = SESSION_FAULT_NONE;
}

static void compaction_free(struct live_compaction *compaction)
{
    session_compaction_free(compaction->plan);
    clear_answer(compaction);
    live_notes_clear(&compaction->notes);
    live_summary_clear(&compaction->summary);
    kg_buf_free(&compaction->result);
    kg_buf_free(&compaction->for_observers);
    kg_buf_free(&compaction->for_compactor);
    free(compaction->compactor);
    free(compaction->prompt);
    host_asker_unref(compaction->adder);
    live_work_end(&compaction->work);
    free(compaction);
}

static struct live_compacted compact_describe(const struct live_compaction *compaction)
{
    struct live_compacted compacted = {
        .agent = compaction->agent,
        .mark = compaction->mark.id,
        .strategy = compaction->reason ? SESSION_BY_DROP : compaction->strategy,
        .fell_back = compaction->reason,
        .state = compaction->work.live->state,
    };
    if (compaction->plan != NULL)
        compacted.sums = session_compaction_sums(compaction->plan);
    else
        compacted.sums.tokens_before = compacted.sums.tokens_after =
            compaction->mark.context_tokens;
    return compacted;
}

static void compact_tell(struct live_compaction *compaction, const struct kg_err *err_or_null)
{
    struct live_compacted compacted = {0};
    if (err_or_null == NULL)
        compacted = compact_describe(compaction);
    for (struct live_run *run = compaction->work.live->run; err_or_null == NULL && run != NULL;
         run = run->outer)
        if (run->on_compacted != NULL && strcmp(run->agent, compaction->agent) == 0)
            run->on_compacted(run, &compacted);
    if (compaction->on_done != NULL)
        compaction->on_done(compaction->data, err_or_null ? NULL : &compacted, err_or_null);
}

static bool begin_if_full(struct live_session *live, const char *agent, struct host_asker *asker,
                          uint64_t tokens)
{
    const struct live_compact compact = {
        .asker = asker, .agent = agent, .trigger = "threshold_crossed"};
    struct live_agent facts;
    if (live->sessions->stopping || live->state == SESSION_STOPPED ||
        live_agent_find(live->sessions, live->project_id, agent, &facts, NULL) < 0 ||
        !session_over_threshold(tokens, facts.window_tokens, facts.threshold))
        return false;
    live_compact(live, &compact, NULL, NULL);
    return true;
}

/* What plugins add around a compaction is its own: it brings about no other. */
bool live_compact_if_full(struct live_work *work, const char *agent, uint64_t tokens)
{
    struct live_compaction *under_way = compact_find(work->live, agent);
    if (under_way == NULL)
        return begin_if_full(work->live, agent, work->asker, tokens);
    under_way->tokens = tokens;
    if (work != &under_way->work && under_way->adder == NULL)
        under_way->adder = host_asker_ref(work->asker);
    return true;
}

/* What was added meanwhile began none: it is looked at now, and whoever waits goes on waiting. */
static void compact_look_again(struct live_compaction *compaction)
{
    struct live_session *live = compaction->work.live;
    if (compaction->adder == NULL ||
        !begin_if_full(live, compaction->agent, compaction->adder, compaction->tokens))
        return;
    struct kg_waits *waiters = &compact_find(live, compaction->agent)->waiters;
    while (compaction->waiters.first != NULL) {
        struct kg_wait *wait = compaction->waiters.first;
        kg_wait_withdraw(wait);
        kg_wait_add(waiters, wait, wait->on_done);
    }
}

static void compact_end(struct live_compaction *compaction, const struct kg_err *err_or_null)
{
    KG_UNLINK(compaction->work.live->compactions, compaction);
    compact_tell(compaction, err_or_null);
    compact_look_again(compaction);
    kg_waits_tell(&compaction->waiters, NULL);
    compaction_free(compaction);
}

static void end_stopping(struct live_compaction *compaction)
{
    struct kg_err err;
    live_fail_stopping(&err);
    compact_end(compaction, &err);
}

static struct live_compaction *compaction_of(struct live_work *work)
{
    return KG_CONTAINER(work, struct live_compaction, work);
}

/* -- what is audited --------------------------------------------------------------------------- */

static struct audit *compact_audit_of(const struct live_compaction *compaction)
{
    return host_audit(compaction->work.live->sessions->host);
}

static struct kg_str compact_request_of(const struct live_compaction *compaction)
{
    return kg_str(compaction->work.asker->request_id);
}

static const char *strategy_of(const struct live_compaction *compaction)
{
    return session_strategy_names[compaction->strategy];
}

static void audit_triggered(struct live_compaction *compaction, uint64_t tokens)
{
    if (compaction->told_triggered)
        return;
    compaction->told_triggered = true;
    audit_emit(compact_audit_of(compaction), AUDIT_COMPACTION_TRIGGERED,
               compact_request_of(compaction), AUDIT_V_TEXT(compaction->work.live->id.text),
               AUDIT_V_TEXT(compaction->agent), AUDIT_V_TEXT(strategy_of(compaction)),
               AUDIT_V_TEXT(compaction->trigger), AUDIT_V_INT((int64_t)tokens),
               AUDIT_V_INT((int64_t)compaction->window_tokens));
}

static void audit_failed(const struct live_compaction *compaction, const char *reason,
                         const char *error)
{
    if (compaction->fault == SESSION_FAULT_DROPPED_ALWAYS_KEEP)
        audit_emit(compact_audit_of(compaction), AUDIT_PLUGIN_COMPACTOR_DROPPED_ALWAYS_KEEP,
                   compact_request_of(compaction), AUDIT_V_TEXT(compaction->plugin),
                   AUDIT_V_TEXT(compaction->work.live->id.text), AUDIT_V_TEXT(compaction->agent),
                   AUDIT_V_TEXT(error));
    audit_emit(compact_audit_of(compaction), AUDIT_COMPACTION_FAILED,
               compact_request_of(compaction), AUDIT_V_TEXT(compaction->work.live->id.text),
               AUDIT_V_TEXT(compaction->agent), AUDIT_V_TEXT(strategy_of(compaction)),
               AUDIT_V_TEXT(compaction->trigger), AUDIT_V_TEXT(compaction->plugin),
               AUDIT_V_TEXT(reason), AUDIT_V_TEXT(error));
}

static void audit_completed(const struct live_compaction *compaction)
{
    struct live_compacted done = compact_describe(compaction);
    if (compaction->reason != NULL)
        audit_failed(compaction, compaction->reason, compaction->error);
    audit_emit(
        compact_audit_of(compaction), AUDIT_COMPACTION_COMPLETED, compact_request_of(compaction),
        AUDIT_V_TEXT(compaction->work.live->id.text), AUDIT_V_TEXT(compaction->agent),
        AUDIT_V_TEXT(session_strategy_names[done.strategy]), AUDIT_V_TEXT(compaction->trigger),
        AUDIT_V_TEXT(done.mark.text), AUDIT_V_INT((int64_t)done.sums.superseded),
        AUDIT_V_INT((int64_t)done.sums.tokens_before), AUDIT_V_INT((int64_t)done.sums.tokens_after),
        AUDIT_V_TEXT(session_compaction_summary(compaction->plan)));
}

static void audit_flagged(struct live_compaction *compaction)
{
    audit_triggered(compaction, compaction->mark.context_tokens);
    audit_emit(compact_audit_of(compaction), AUDIT_COMPACTION_FLAGGED,
               compact_request_of(compaction), AUDIT_V_TEXT(compaction->work.live->id.text),
               AUDIT_V_TEXT(compaction->agent), AUDIT_V_TEXT(strategy_of(compaction)),
               AUDIT_V_TEXT(compaction->trigger), AUDIT_V_TEXT(compaction->mark.id.text),
               AUDIT_V_INT((int64_t)compaction->mark.context_tokens));
}

/* -- post_compact ------------------------------------------------------------------------------ */

static void on_noted(struct live_work *work, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        kg_log(KG_WARN, "what plugins add to a compaction is lost: %s", err_or_null->message);
    compact_end(compaction_of(work), NULL);
}

/* An error is that the daemon stops: the compaction is done all the same. */
static void compact_on_post(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_compaction *compaction = compaction_of(work);
    for (size_t i = 0; i < work->answer_count; i++)
        live_notes_take(&compaction->notes, &work->answers[i]);
    if (err_or_null != NULL || compaction->notes.count == 0)
        compact_end(compaction, NULL);
    else
        live_notes_append(&compaction->notes, work, compaction->mark.id.text, on_noted);
}

static void fire_post(struct live_compaction *compaction)
{
    const struct projects_hook_fire fire = {.hook = MANIFEST_POST_COMPACT,
                                            .params = kg_buf_view(&compaction->for_observers)};
    live_fire(&compaction->work, &fire, compact_on_post);
}

/* -- applying the plan ------------------------------------------------------------------------- */

static void step_plan(struct live_compaction *compaction);

static void fall_back(struct live_compaction *compaction, const char *reason, const char *error)
{
    char *kept_reason = kg_strdup(reason), *kept_error = kg_strdup(error);
    free(compaction->reason);
    free(compaction->error);
    compaction->reason = kept_reason;
    compaction->error = kept_error;
    session_compaction_fall_back(compaction->plan, reason);
}

/* On the store's thread, since a result of megabytes takes its time. */
static void compact_take_result(struct live_compaction *compaction)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    bool hides = redact_put_shared_json(kg_buf_view(&compaction->result), &shown);
    if (session_compaction_take_result(compaction->plan, compaction->plugin,
                                       kg_buf_view(hides ? &shown : &compaction->result),
                                       &compaction->fault, &err) < 0)
        fall_back(compaction, session_fault_names[compaction->fault], err.message);
}

static int compact_run_apply(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct live_compaction *compaction = KG_CONTAINER(job, struct live_compaction, work.job);
    if (compaction->has_result)
        compact_take_result(compaction);
    int result = session_compaction_apply(state, compaction->plan, &compaction->mark, err);
    if (result < 0)
        return result;
    compaction->for_observers.length = 0;
    session_compaction_payload(compaction->plan, "observer", compaction->payload_max,
                               &compaction->for_observers, NULL);
    return 0;
}

static void compact_on_applied(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_compaction *compaction = compaction_of(work);
    struct live_session *live = work->live;
    bool stopping = work->sessions->stopping;
    if (err_or_null != NULL) {
        compaction->mark = (struct session_added){0};
        if (err_or_null->code == KG_E_CONFLICT && ++compaction->attempts < ATTEMPTS_MAX &&
            !stopping) {
            step_plan(compaction);
            return;
        }
        audit_failed(compaction, "not_applied", err_or_null->message);
        compact_end(compaction, err_or_null);
        return;
    }
    compaction->tokens = compaction->mark.context_tokens;
    if (live->state == SESSION_STOPPED)
        live_set_state(live, SESSION_ACTIVE);
    audit_completed(compaction);
    if (stopping)
        compact_end(compaction, NULL);
    else
        fire_post(compaction);
}

static void step_apply(struct live_compaction *compaction)
{
    live_write(&compaction->work, compact_run_apply, compact_on_applied);
}

/* -- pre_compact ------------------------------------------------------------------------------- */

static void on_summary(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_compaction *compaction = compaction_of(work);
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    bool hides = redact_put_shared(kg_buf_view(&compaction->summary.text), &shown);
    if (err_or_null != NULL)
        fall_back(compaction, "summary_failed", err_or_null->message);
    else
        session_compaction_set_summary(compaction->plan,
                                       kg_buf_view(hides ? &shown : &compaction->summary.text));
    step_apply(compaction);
}

/* What there is of the compactor, if there is nothing of it that could be taken. */
static void explain_no_result(struct live_compaction *compaction, const struct kg_err *error)
{
    if (compaction->truncated)
        fall_back(compaction, "payload_too_large", "the context does not fit into one call");
    else if (compaction->compactor == NULL)
        fall_back(compaction, "no_compactor", "no plugin of the agent is ready to compact");
    else if (error->code == KG_E_PLUGIN_TIMEOUT)
        fall_back(compaction, "compactor_timeout", error->message);
    else
        fall_back(compaction, "compactor_failed",
                  error->code != KG_OK ? error->message : "the compactor was not asked");
}

static bool is_designated(const struct live_compaction *compaction,
                          const struct projects_hook_answer *answer)
{
    return compaction->compactor != NULL && !compaction->truncated &&
           strcmp(answer->use, compaction->compactor) == 0;
}

static void take_compactor(struct live_compaction *compaction,
                           const struct projects_hook_answer *answer, struct kg_err *ret_error)
{
    compaction->plugin = kg_strdup(answer->plugin);
    *ret_error = answer->error;
    compaction->has_result = answer->error.code == KG_OK && answer->raw.length > 0;
    if (compaction->has_result)
        kg_buf_str(&compaction->result, answer->raw);
}

static void on_pre(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_compaction *compaction = compaction_of(work);
    struct kg_err error = {0};
    if (err_or_null != NULL) {
        compact_end(compaction, err_or_null);
        return;
    }
    for (size_t i = 0; i < work->answer_count; i++) {
        if (is_designated(compaction, &work->answers[i]))
            take_compactor(compaction, &work->answers[i], &error);
        else
            live_notes_take(&compaction->notes, &work->answers[i]);
    }
    if (compaction->strategy == SESSION_BY_SUMMARY) {
        live_summarize(&compaction->summary, work, compaction->plan, compaction->prompt,
                       on_summary);
        return;
    }
    if (compaction->strategy == SESSION_BY_DELEGATE && !compaction->has_result)
        explain_no_result(compaction, &error);
    step_apply(compaction);
}

static void fire_pre(struct live_compaction *compaction)
{
    struct projects_hook_fire fire = {.hook = MANIFEST_PRE_COMPACT,
                                      .params = kg_buf_view(&compaction->for_observers)};
    if (compaction->compactor != NULL && !compaction->truncated) {
        fire.designated = compaction->compactor;
        fire.designated_params = kg_buf_view(&compaction->for_compactor);
    }
    clear_answer(compaction);
    live_notes_clear(&compaction->notes);
    live_fire(&compaction->work, &fire, on_pre);
}

/* -- the plan ---------------------------------------------------------------------------------- */

static void write_payloads(struct live_compaction *compaction)
{
    size_t left_out = 0;
    compaction->for_observers.length = compaction->for_compactor.length = 0;
    session_compaction_payload(compaction->plan, "observer", compaction->payload_max,
                               &compaction->for_observers, &left_out);
    compaction->truncated = compaction->compactor != NULL && left_out > 0;
    if (compaction->compactor != NULL && !compaction->truncated)
        session_compaction_payload(compaction->plan, "compactor", compaction->payload_max,
                                   &compaction->for_compactor, &left_out);
}

/*
 * Whether something goes that was said, and not only what an earlier compaction left. If not, a
 * plugin that adds much after each compaction, or a model that sums up at length, would be asked
 * for the next one with each entry, and nothing would be gained.
 */
static bool takes_what_was_said(const struct session_compaction *plan)
{
    for (size_t i = 0; i < session_compaction_count(plan); i++) {
        bool stays, goes;
        const struct session_entry *entry = session_compaction_entry(plan, i, &stays, &goes);
        if (goes && entry->kind != SESSION_INJECTION && entry->kind != SESSION_SUMMARY)
            return true;
    }
    return false;
}

static bool is_manual(const struct live_compaction *compaction)
{
    return strcmp(compaction->trigger, "manual") == 0;
}

static int compact_run_plan(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct live_compaction *compaction = KG_CONTAINER(job, struct live_compaction, work.job);
    const struct session_compaction_options options = {
        .strategy = compaction->strategy,
        .trigger = compaction->trigger,
        .keep_recent = compaction->keep_recent,
        .target_tokens = compaction->target_tokens,
    };
    if (compaction->problem.code != KG_OK) {
        *err = compaction->problem;
        return -EINVAL;
    }
    session_compaction_cleanup(&compaction->plan);
    int result = session_compaction_read(state, compaction->work.live->id.text, compaction->agent,
                                         &options, &compaction->plan, err);
    if (result < 0)
        return result;
    if (!is_manual(compaction) && !takes_what_was_said(compaction->plan))
        return kg_fail(err, KG_E_CONFLICT,
                       "session %s: compact %s: only what the last compaction left may be removed",
                       compaction->work.live->id.text, compaction->agent);
    write_payloads(compaction);
    return 0;
}

static void compact_on_planned(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_compaction *compaction = compaction_of(work);
    if (err_or_null != NULL) {
        if (compaction->told_triggered)
            audit_failed(compaction, "not_planned", err_or_null->message);
        compact_end(compaction, err_or_null);
        return;
    }
    if (compaction->work.live->sessions->stopping) {
        end_stopping(compaction);
        return;
    }
    audit_triggered(compaction, session_compaction_sums(compaction->plan).tokens_before);
    fire_pre(compaction);
}

static void step_plan(struct live_compaction *compaction)
{
    live_read(&compaction->work, compact_run_plan, compact_on_planned);
}

/* -- a checkpoint instead ---------------------------------------------------------------------- */

static int run_checkpoint(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct live_compaction *compaction = KG_CONTAINER(job, struct live_compaction, work.job);
    bool once = !is_manual(compaction);
    return session_checkpoint(state, compaction->work.live->id.text, compaction->agent,
                              compaction->trigger, once, &compaction->mark, &compaction->marked,
                              err);
}

static void on_checkpoint(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_compaction *compaction = compaction_of(work);
    struct kg_err err = err_or_null ? *err_or_null : (struct kg_err){0};
    if (err_or_null == NULL && !compaction->marked)
        kg_fail(&err, KG_E_CONFLICT, "session %s: %s was flagged since its last compaction",
                compaction->work.live->id.text, compaction->agent);
    if (err.code == KG_OK) {
        live_set_state(compaction->work.live, SESSION_STOPPED);
        audit_flagged(compaction);
    }
    compact_end(compaction, err.code != KG_OK ? &err : NULL);
}

static void step_checkpoint(struct live_compaction *compaction)
{
    live_write(&compaction->work, run_checkpoint, on_checkpoint);
}

/* -- beginning --------------------------------------------------------------------------------- */

static void read_project(struct live_compaction *compaction)
{
    const struct live_session *live = compaction->work.live;
    struct live_agent agent;
    compaction->payload_max = live_payload_max(live->sessions);
    if (live_agent_find(live->sessions, live->project_id, compaction->agent, &agent,
                        &compaction->problem) < 0)
        return;
    if (!compaction->has_strategy)
        compaction->strategy = agent.strategy;
    if (!compaction->has_keep_recent)
        compaction->keep_recent = agent.keep_recent;
    if (compaction->strategy == SESSION_BY_DELEGATE && agent.compactor != NULL)
        compaction->compactor = kg_strdup(agent.compactor);
    compaction->window_tokens = agent.window_tokens;
    if (!is_manual(compaction))
        compaction->target_tokens = session_target_tokens(agent.window_tokens, agent.threshold);
}

/* How the one before ended is nothing to this one. */
static void compact_begin(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_compaction *compaction = compaction_of(work);
    struct live_session *live = work->live;
    (void)err_or_null;
    if (compact_find(live, compaction->agent) != NULL) {
        live_when_compacted(work, compaction->agent, compact_begin);
        return;
    }
    compaction->next = live->compactions;
    live->compactions = compaction;
    if (work->sessions->stopping)
        live_fail_stopping(&compaction->problem);
    else
        read_project(compaction);
    if (compaction->problem.code == KG_OK && compaction->strategy == SESSION_BY_CHECKPOINT)
        step_checkpoint(compaction);
    else
        step_plan(compaction);
}

void live_compact(struct live_session *live, const struct live_compact *compact,
                  live_compacted_fn *on_done, void *data)
{
    struct live_compaction *compaction = kg_alloc(sizeof(*compaction));
    live_hold(live);
    compaction->work.live = live;
    live_work_begin(&compaction->work, live->sessions, compact->asker);
    live_work_for(&compaction->work, compact->agent);
    compaction->agent = compaction->work.asker->agent_path;
    compaction->trigger = compact->trigger;
    compaction->has_strategy = compact->strategy != NULL;
    compaction->has_keep_recent = compact->keep_recent != NULL;
    if (compact->strategy != NULL)
        compaction->strategy = *compact->strategy;
    if (compact->keep_recent != NULL)
        compaction->keep_recent = *compact->keep_recent;
    compaction->prompt = compact->prompt ? kg_strdup(compact->prompt) : NULL;
    compaction->on_done = on_done;
    compaction->data = data;
    compact_begin(&compaction->work, NULL);
}
