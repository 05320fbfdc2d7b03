/*
 * A session starts once: before its first message or tool call is recorded, the primary's plugins
 * are told, and what they inject stands before all else. That it was started is an entry of its
 * own, so that no restart of the daemon tells them twice.
 */
#include "live/internal.h"

#include <stdlib.h>

struct starting {
    struct live_work work; /* as the primary */
    struct projects_settling settling;
    struct session_draft *drafts; /* owned, like the next */
    struct kg_buf *texts;
    char **plugins; /* a list */
    size_t count;   /* of injections */
};

static void live_start_end(struct live_work *work, const struct kg_err *err_or_null)
{
    struct starting *starting = KG_CONTAINER(work, struct starting, work);
    struct live_session *live = work->live;
    live->start = err_or_null ? LIVE_NOT_STARTED : LIVE_STARTED;
    kg_waits_tell(&live->starting, err_or_null);
    for (size_t i = 0; i < starting->count; i++)
        kg_buf_free(&starting->texts[i]);
    kg_list_free(starting->plugins);
    free(starting->texts);
    free(starting->drafts);
    live_work_end(work);
    free(starting);
}

/* -- what plugins inject ----------------------------------------------------------------------- */

static void live_start_on_recorded(struct live_work *work, const struct kg_err *err_or_null)
{
    const struct live_session *live = work->live;
    if (err_or_null == NULL)
        audit_emit(host_audit(work->sessions->host), AUDIT_SESSION_STARTED,
                   kg_str(work->asker->request_id), AUDIT_V_TEXT(live->id.text),
                   AUDIT_V_TEXT(live->project_id), AUDIT_V_INT((int64_t)work->draft_count - 1),
                   AUDIT_V_TEXT(work->asker->operator_id));
    live_start_end(work, err_or_null);
}

static void add_injection(struct starting *starting, const struct projects_hook_answer *answer)
{
    size_t at = starting->count++;
    char *plugin = kg_strdup(answer->plugin);
    kg_list_add(&starting->plugins, plugin);
    kg_json_put_string(&starting->texts[at], kg_buf_view(&answer->result->inject));
    starting->drafts[at] = (struct session_draft){.agent = "primary",
                                                  .kind = SESSION_INJECTION,
                                                  .role = SESSION_SYSTEM,
                                                  .source = plugin,
                                                  .content = kg_buf_view(&starting->texts[at]),
                                                  .first = true};
}

static void live_start_on_hooks(struct live_work *work, const struct kg_err *err_or_null)
{
    struct starting *starting = KG_CONTAINER(work, struct starting, work);
    if (err_or_null != NULL) {
        live_start_end(work, err_or_null);
        return;
    }
    size_t most = work->answer_count < SESSION_APPEND_MAX ? work->answer_count : SESSION_APPEND_MAX;
    starting->drafts = kg_alloc_array(most + 1, sizeof(starting->drafts[0]));
    starting->plugins = kg_list_new(0);
    starting->texts = kg_alloc_array(most + 1, sizeof(starting->texts[0]));
    for (size_t i = 0; i < work->answer_count && starting->count < SESSION_APPEND_MAX - 1; i++) {
        const struct projects_hook_answer *answer = &work->answers[i];
        if (answer->error.code == KG_OK && answer->result != NULL &&
            answer->result->inject.length > 0)
            add_injection(starting, answer);
    }
    starting->drafts[starting->count] =
        (struct session_draft){.agent = "primary",
                               .kind = SESSION_EVENT,
                               .role = SESSION_SYSTEM,
                               .content = KG_STR("{\"event\":\"started\"}")};
    live_append(work, starting->drafts, starting->count + 1, NULL, live_start_on_recorded);
}

/* -- when the plugins run ---------------------------------------------------------------------- */

static void live_start_withdraw(void *settling)
{
    projects_settling_withdraw(settling);
}

static void on_plugins(struct live_work *work, const struct kg_err *err_or_null)
{
    const struct projects_hook_fire fire = {.hook = MANIFEST_ON_SESSION_START};
    if (err_or_null != NULL)
        live_start_end(work, err_or_null);
    else
        live_fire(work, &fire, live_start_on_hooks);
}

static void live_start_on_settled(struct kg_wait *wait, const struct kg_err *err_or_null)
{
    live_arrived(&KG_CONTAINER(wait, struct starting, settling.wait)->work, err_or_null);
}

static void live_start_begin(struct live_session *live, struct host_asker *asker)
{
    struct starting *starting = kg_alloc(sizeof(*starting));
    live->start = LIVE_STARTING;
    live_hold(live);
    starting->work.live = live;
    live_work_begin(&starting->work, live->sessions, asker);
    live_work_for(&starting->work, "primary");
    live_await(&starting->work, &starting->settling, live_start_withdraw, on_plugins);
    projects_when_settled(live->sessions->host, live->project_id, NULL, &starting->settling,
                          live_start_on_settled);
}

/* -- asking for it ----------------------------------------------------------------------------- */

static int live_start_check(struct live_session *live, struct kg_err *err)
{
    if (live->sessions->stopping)
        return live_fail_stopping(err);
    if (live->state == SESSION_CLOSED)
        return live_check_open(live, err);
    return live_enter(live, err);
}

void live_start(struct live_work *work, live_next_fn *next)
{
    struct live_session *live = work->live;
    struct kg_err err = {0};
    if (live_start_check(live, &err) < 0) {
        next(work, &err);
        return;
    }
    const char *operator_id = work->asker->operator_id;
    if (operator_id != NULL &&
        (live->operator_id == NULL || strcmp(live->operator_id, operator_id)))
        kg_replace(&live->operator_id, operator_id);
    if (live->start == LIVE_STARTED) {
        next(work, NULL);
        return;
    }
    live_wait(work, &live->starting, next);
    if (live->start == LIVE_NOT_STARTED)
        live_start_begin(live, work->asker);
}
