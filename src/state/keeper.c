/*
 * The loop never waits for kaged.db: a thread of its own has the handle, and writes one row after
 * the other, in the order in which they were asked for. Who asked is told once the row is there to
 * stay, or why it is not. A row is copied when it is asked for, so its texts may be anybody's.
 */
#include "loop/loop.h"
#include "state/internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#define TEXTS_MAX 10

/* What there is to write. */
struct row_kind {
    size_t size;
    int (*write)(struct state *state, const void *row, struct kg_err *err);
    size_t text_count;
    size_t texts[TEXTS_MAX]; /* where in the row they are */
};

struct state_keeper {
    struct loop *loop;          /* borrowed */
    struct state *state;        /* owned; the worker's while writes wait */
    struct loop_worker *worker; /* owned */
    size_t waiting;
};

struct write {
    struct loop_job job;
    struct state_keeper *keeper;
    const struct row_kind *kind;
    void *row;              /* owned, */
    char *texts[TEXTS_MAX]; /* as are the texts that it points to */
    state_kept_fn *on_kept;
    void *data;
    int result;
    struct kg_err err;
};

/* -- the kinds --------------------------------------------------------------------------------- */

static int write_choice(struct state *state, const void *row, struct kg_err *err)
{
    return state_plugin_choice_set(state, row, err);
}

static int write_failure(struct state *state, const void *row, struct kg_err *err)
{
    return state_failure_set(state, row, err);
}

static int write_script_grant(struct state *state, const void *row, struct kg_err *err)
{
    return state_script_grant_set(state, row, err);
}

static int write_prompt(struct state *state, const void *row, struct kg_err *err)
{
    return state_prompt_set(state, row, err);
}

static int keeper_write_question(struct state *state, const void *row, struct kg_err *err)
{
    return state_question_set(state, row, err);
}

static int write_credential(struct state *state, const void *row, struct kg_err *err)
{
    return state_credential_add(state, row, err);
}

static int remove_credential(struct state *state, const void *row, struct kg_err *err)
{
    return state_credential_remove(state, *(const char *const *)row, err);
}

static int write_mcp_setting(struct state *state, const void *row, struct kg_err *err)
{
    return state_mcp_setting_set(state, row, err);
}

static int write_mcp_calls(struct state *state, const void *row, struct kg_err *err)
{
    return state_mcp_calls_add(state, row, err);
}

static int write_consent(struct state *state, const void *row, struct kg_err *err)
{
    return state_consent_set(state, row, err);
}

static int remove_consent(struct state *state, const void *row, struct kg_err *err)
{
    return state_consent_remove(state, *(const char *const *)row, err);
}

static int write_activation(struct state *state, const void *row, struct kg_err *err)
{
    return state_activation_set(state, row, err);
}

static int write_project(struct state *state, const void *row, struct kg_err *err)
{
    return state_project_set(state, row, err);
}

static int write_nothing(struct state *state, const void *row, struct kg_err *err)
{
    (void)state, (void)row, (void)err;
    return 0;
}

#define TEXT(type, name) offsetof(struct state_##type, name)
static const struct row_kind choice_kind = {
    sizeof(struct state_plugin_choice), write_choice, 1, {TEXT(plugin_choice, plugin)}};
static const struct row_kind failure_kind = {sizeof(struct state_failure),
                                             write_failure,
                                             2,
                                             {TEXT(failure, process), TEXT(failure, reason)}};
static const struct row_kind script_grant_kind = {
    sizeof(struct state_script_grant),
    write_script_grant,
    2,
    {TEXT(script_grant, script), TEXT(script_grant, hash)}};
static const struct row_kind prompt_kind = {
    sizeof(struct state_prompt),
    write_prompt,
    3,
    {TEXT(prompt, project), TEXT(prompt, path), TEXT(prompt, hash)}};
static const struct row_kind question_kind = {
    sizeof(struct state_question),
    keeper_write_question,
    10,
    {TEXT(question, id), TEXT(question, session), TEXT(question, agent), TEXT(question, plugin),
     TEXT(question, kind), TEXT(question, title), TEXT(question, schema), TEXT(question, url),
     TEXT(question, state), TEXT(question, answered_by)}};
static const struct row_kind credential_kind = {
    sizeof(struct state_credential),
    write_credential,
    6,
    {TEXT(credential, id), TEXT(credential, name), TEXT(credential, scopes),
     TEXT(credential, operator_id), TEXT(credential, profile), TEXT(credential, principal)}};
static const struct row_kind mcp_setting_kind = {
    sizeof(struct state_mcp_setting),
    write_mcp_setting,
    3,
    {TEXT(mcp_setting, kind), TEXT(mcp_setting, name), TEXT(mcp_setting, value)}};
static const struct row_kind mcp_calls_kind = {
    sizeof(struct state_mcp_calls), write_mcp_calls, 1, {TEXT(mcp_calls, json)}};
static const struct row_kind credential_removal = {sizeof(const char *), remove_credential, 1, {0}};
static const struct row_kind consent_kind = {
    sizeof(struct state_consent),
    write_consent,
    10,
    {TEXT(consent, id), TEXT(consent, kind), TEXT(consent, state), TEXT(consent, project),
     TEXT(consent, plugin), TEXT(consent, source), TEXT(consent, base), TEXT(consent, version),
     TEXT(consent, reason), TEXT(consent, answered_by)}};
static const struct row_kind consent_removal = {sizeof(const char *), remove_consent, 1, {0}};
static const struct row_kind activation_kind = {
    sizeof(struct state_activation),
    write_activation,
    4,
    {TEXT(activation, project), TEXT(activation, plugin), TEXT(activation, consent),
     TEXT(activation, operator_id)}};
static const struct row_kind project_kind = {
    sizeof(struct state_project),
    write_project,
    4,
    {TEXT(project, id), TEXT(project, root), TEXT(project, file), TEXT(project, operator_id)}};

static const struct row_kind no_kind = {1, write_nothing, 0, {0}};

/* -- one write --------------------------------------------------------------------------------- */

static void keeper_run(struct loop_job *job)
{
    struct write *write = KG_CONTAINER(job, struct write, job);
    write->result = write->kind->write(write->keeper->state, write->row, &write->err);
}

static void keeper_on_done(struct loop_job *job)
{
    struct write *write = KG_CONTAINER(job, struct write, job);
    write->keeper->waiting--;
    if (write->on_kept != NULL)
        write->on_kept(write->data, write->result < 0 ? &write->err : NULL);
    for (size_t i = 0; i < write->kind->text_count; i++)
        free(write->texts[i]);
    free(write->row);
    free(write);
}

static void keeper_ask(struct state_keeper *keeper, const struct row_kind *kind, const void *row,
                       state_kept_fn *on_kept, void *data)
{
    struct write *write = kg_alloc(sizeof(*write));
    *write = (struct write){.keeper = keeper, .kind = kind, .on_kept = on_kept, .data = data};
    write->row = kg_alloc(kind->size);
    memcpy(write->row, row, kind->size);
    for (size_t i = 0; i < kind->text_count; i++) {
        const char **text = (const char **)((char *)write->row + kind->texts[i]);
        *text = write->texts[i] = kg_strdup(*text);
    }
    write->job.run = keeper_run;
    write->job.done = keeper_on_done;
    keeper->waiting++;
    loop_worker_submit(keeper->worker, &write->job);
}

void state_keep_question(struct state_keeper *keeper, const struct state_question *question,
                         state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &question_kind, question, on_kept, data);
}

void state_keep_choice(struct state_keeper *keeper, const struct state_plugin_choice *choice,
                       state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &choice_kind, choice, on_kept, data);
}

void state_keep_failure(struct state_keeper *keeper, const struct state_failure *failure,
                        state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &failure_kind, failure, on_kept, data);
}

void state_keep_script_grant(struct state_keeper *keeper, const struct state_script_grant *grant,
                             state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &script_grant_kind, grant, on_kept, data);
}

void state_keep_prompt(struct state_keeper *keeper, const struct state_prompt *prompt,
                       state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &prompt_kind, prompt, on_kept, data);
}

void state_keep_credential(struct state_keeper *keeper, const struct state_credential *credential,
                           state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &credential_kind, credential, on_kept, data);
}

void state_forget_credential(struct state_keeper *keeper, const char *id, state_kept_fn *on_kept,
                             void *data)
{
    keeper_ask(keeper, &credential_removal, &id, on_kept, data);
}

void state_keep_mcp_setting(struct state_keeper *keeper, const struct state_mcp_setting *setting,
                            state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &mcp_setting_kind, setting, on_kept, data);
}

void state_keep_mcp_calls(struct state_keeper *keeper, const struct state_mcp_calls *calls,
                          state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &mcp_calls_kind, calls, on_kept, data);
}

void state_keep_consent(struct state_keeper *keeper, const struct state_consent *consent,
                        state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &consent_kind, consent, on_kept, data);
}

void state_forget_consent(struct state_keeper *keeper, const char *id, state_kept_fn *on_kept,
                          void *data)
{
    keeper_ask(keeper, &consent_removal, &id, on_kept, data);
}

void state_keep_activation(struct state_keeper *keeper, const struct state_activation *activation,
                           state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &activation_kind, activation, on_kept, data);
}

void state_keep_project(struct state_keeper *keeper, const struct state_project *project,
                        state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &project_kind, project, on_kept, data);
}

void state_when_kept(struct state_keeper *keeper, state_kept_fn *on_kept, void *data)
{
    keeper_ask(keeper, &no_kind, "", on_kept, data);
}

/* -- tasks ------------------------------------------------------------------------------------- */

struct errand {
    struct loop_job job;
    struct state_task *task;
};

static int task_transact(struct state_task *task, struct state *state)
{
    int result = state_step(state, task->writes ? STATE_BEGIN_ALONE : STATE_BEGIN_READ, &task->err);
    if (result < 0)
        return result;
    if (task->org != NULL)
        state_scope(state, task->org);
    result = task->run(task, state, &task->err);
    if (result == 0 && task->writes)
        result = state_step(state, STATE_COMMIT, &task->err);
    if (state_in_transaction(state))
        state_step(state, STATE_ROLLBACK, NULL);
    return result;
}

static void run_errand(struct loop_job *job)
{
    struct state_task *task = KG_CONTAINER(job, struct errand, job)->task;
    struct state *state = task->keeper->state;
    task->result = task->writes ? state_step(state, STATE_SYNC_EACH, &task->err) : 0;
    if (task->result == 0)
        task->result = task_transact(task, state);
    if (task->writes)
        state_step(state, STATE_SYNC_LATER, NULL);
}

static void on_errand_done(struct loop_job *job)
{
    struct errand *errand = KG_CONTAINER(job, struct errand, job);
    struct state_task *task = errand->task;
    task->keeper->waiting--;
    free(errand);
    task->done(task, task->result < 0 ? &task->err : NULL);
}

static void run_task(struct state_keeper *keeper, struct state_task *task, bool writes)
{
    struct errand *errand = kg_alloc(sizeof(*errand));
    errand->job.run = run_errand;
    errand->job.done = on_errand_done;
    errand->task = task;
    task->keeper = keeper;
    task->writes = writes;
    task->result = 0;
    task->err = (struct kg_err){0};
    keeper->waiting++;
    loop_worker_submit(keeper->worker, &errand->job);
}

void state_keeper_read(struct state_keeper *keeper, struct state_task *task)
{
    run_task(keeper, task, false);
}

void state_keeper_write(struct state_keeper *keeper, struct state_task *task)
{
    run_task(keeper, task, true);
}

/* -- its life ---------------------------------------------------------------------------------- */

struct state_keeper *state_keeper_new(struct loop *loop, const char *place, struct kg_err *err)
{
    struct state *state = state_open(place, err);
    if (state == NULL)
        return NULL;
    struct state_keeper *keeper = kg_alloc(sizeof(*keeper));
    keeper->loop = loop;
    keeper->state = state;
    keeper->worker = loop_worker_new(loop, "kaged-state");
    return keeper;
}

void state_keeper_drain(struct state_keeper *keeper)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (keeper->waiting > 0) {
        loop_deliver_messages(keeper->loop);
        if (keeper->waiting > 0)
            nanosleep(&pause, NULL);
    }
}

struct state *state_keeper_state(struct state_keeper *keeper)
{
    state_keeper_drain(keeper);
    return keeper->state;
}

void state_keeper_free(struct state_keeper *keeper)
{
    if (keeper == NULL)
        return;
    state_keeper_drain(keeper);
    loop_worker_free(keeper->worker);
    state_close(keeper->state);
    free(keeper);
}
