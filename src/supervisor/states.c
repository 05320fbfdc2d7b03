/*
 * The whole life of an instance on one screen: what each event does in each state. An empty cell
 * means that the event changes nothing there. The tables in kaged-plugin(1) are this one.
 *
 *   disabled -> spawning -> running -> stopping -> stopped -> (what was to follow)
 *                  ^           |
 *                  +- crashed <+   after restart_failures in a row: failed
 */
#include "supervisor/internal.h"

struct cell {
    enum instance_state next;
    void (*action)(struct instance *instance, enum instance_event event); /* NULL: an empty cell */
};

static void states_only_move(struct instance *instance, enum instance_event event)
{
    (void)instance;
    (void)event;
}

static void fresh_start(struct instance *instance, enum instance_event event)
{
    instance_forget_failures(instance);
    instance->ops.on_fresh_start(instance->data);
    instance_start(instance, event);
}

/* The process is on its way out already; only what comes after it changes. */
static void follow_with(struct instance *instance, enum instance_event event)
{
    instance->follow = event == ON_STOP ? ON_NOTHING : event;
}

#define TO(state, action)                                                                          \
    {                                                                                              \
        INSTANCE_##state, action                                                                   \
    }

static const struct cell table[INSTANCE_STATE_COUNT][INSTANCE_EVENT_COUNT] =
    {
        [INSTANCE_DISABLED] =
            {
                [ON_ENABLE] = TO(SPAWNING, fresh_start),
                [ON_RESTART] = TO(SPAWNING, fresh_start),
                [ON_REST] = TO(IDLE, states_only_move),
            },
        [INSTANCE_IDLE] =
            {
                [ON_ENABLE] = TO(SPAWNING, fresh_start),
                [ON_RESTART] = TO(SPAWNING, fresh_start),
                [ON_DISABLE] = TO(DISABLED, states_only_move),
                [ON_STOP] = TO(STOPPED, states_only_move),
            },
        [INSTANCE_SPAWNING] =
            {
                [ON_DISABLE] = TO(STOPPING, instance_begin_ending),
                [ON_REST] = TO(STOPPING, instance_begin_ending),
                [ON_RESTART] = TO(STOPPING, instance_begin_ending),
                [ON_STOP] = TO(STOPPING, instance_begin_ending),
                [ON_END] = TO(STOPPING, instance_begin_ending),
                [ON_READY] = TO(RUNNING, instance_announce),
                [ON_EXIT] = TO(CRASHED, instance_count_crash),
                [ON_CRASH] = TO(CRASHED, instance_count_crash),
                [ON_REFUSE] = TO(FAILED, instance_give_up),
            },
        [INSTANCE_RUNNING] =
            {
                [ON_DISABLE] = TO(STOPPING, instance_begin_ending),
                [ON_REST] = TO(STOPPING, instance_begin_ending),
                [ON_RESTART] = TO(STOPPING, instance_begin_ending),
                [ON_STOP] = TO(STOPPING, instance_begin_ending),
                [ON_END] = TO(STOPPING, instance_begin_ending),
                [ON_EXIT] = TO(CRASHED, instance_count_crash),
            },
        [INSTANCE_STOPPING] =
            {
                [ON_ENABLE] = TO(STOPPING, follow_with),
                [ON_DISABLE] = TO(STOPPING, follow_with),
                [ON_REST] = TO(STOPPING, follow_with),
                [ON_RESTART] = TO(STOPPING, follow_with),
                [ON_STOP] = TO(STOPPING, follow_with),
                [ON_EXIT] = TO(STOPPED, instance_settle),
            },
        [INSTANCE_CRASHED] =
            {
                [ON_ENABLE] = TO(SPAWNING, fresh_start),
                [ON_RESTART] = TO(SPAWNING, fresh_start),
                [ON_DUE] = TO(SPAWNING, instance_start),
                [ON_DISABLE] = TO(DISABLED, states_only_move),
                [ON_REST] = TO(IDLE, states_only_move),
                [ON_STOP] = TO(STOPPED, states_only_move),
                [ON_EXHAUST] = TO(FAILED, instance_give_up),
            },
        [INSTANCE_FAILED] =
            {
                [ON_ENABLE] = TO(SPAWNING, fresh_start),
                [ON_RESTART] = TO(SPAWNING, fresh_start),
                [ON_DISABLE] = TO(DISABLED, states_only_move),
                [ON_STOP] = TO(STOPPED, states_only_move),
            },
        [INSTANCE_STOPPED] =
            {
                [ON_ENABLE] = TO(SPAWNING, fresh_start),
                [ON_RESTART] = TO(SPAWNING, fresh_start),
                [ON_DISABLE] = TO(DISABLED, states_only_move),
                [ON_REST] = TO(IDLE, states_only_move),
                [ON_CRASH] = TO(CRASHED, instance_count_crash),
                [ON_REJECT] = TO(FAILED, instance_give_up),
            },
};

static const struct {
    const char *name, *meaning;
} states[INSTANCE_STATE_COUNT] = {
    [INSTANCE_DISABLED] = {"disabled", "known but not enabled; no process"},
    [INSTANCE_IDLE] = {"idle", "starts at its next use; no process"},
    [INSTANCE_SPAWNING] = {"spawning", "the process is starting, the handshake is under way"},
    [INSTANCE_RUNNING] = {"running", "answers calls"},
    [INSTANCE_STOPPING] = {"stopping", "was asked to leave, or is being killed"},
    [INSTANCE_CRASHED] = {"crashed", "ended unexpectedly; a restart is due"},
    [INSTANCE_FAILED] = {"failed", "is not restarted until the operator enables it"},
    [INSTANCE_STOPPED] = {"stopped", "left cleanly because the daemon stops"},
};

const char *instance_state_name(enum instance_state state)
{
    return states[state].name;
}

const char *instance_state_meaning(enum instance_state state)
{
    return states[state].meaning;
}

static const char *const event_words[INSTANCE_EVENT_COUNT] = {
    [ON_ENABLE] = "the operator enables it, or somebody uses it",
    [ON_DISABLE] = "the operator disables it",
    [ON_REST] = "nobody uses it for now",
    [ON_RESTART] = "the operator restarts it",
    [ON_STOP] = "the daemon stops",
    [ON_READY] = "the handshake is done",
    [ON_END] = "it hangs, fails its pings or breaks the rules",
    [ON_EXIT] = "the process is gone",
    [ON_CRASH] = "the process was ended, or could not be started",
    [ON_REJECT] = "its author must fix it",
    [ON_REFUSE] = "its files are not those that were approved",
    [ON_EXHAUST] = "too many failures in a row",
    [ON_DUE] = "the delay is over",
};

/* What an exit was like tells more than that there was one. */
static void states_put_reason(const struct instance *instance, enum instance_event event,
                              struct kg_buf *ret_words)
{
    bool exited = event == ON_EXIT || event == ON_CRASH || event == ON_REJECT;
    if (event == ON_END && instance->report.detail[0] != '\0')
        kg_buf_text(ret_words, instance->report.detail);
    else if (exited && instance->last_report.cause != EXIT_NONE)
        exit_report_words(&instance->last_report, ret_words);
    else
        kg_buf_text(ret_words, event_words[event]);
}

static void states_tell_move(struct instance *instance, enum instance_state from,
                             enum instance_event event)
{
    if (instance->state == from)
        return;
    kg_auto(kg_buf_free) struct kg_buf reason = {0};
    states_put_reason(instance, event, &reason);
    instance->ops.on_move(instance->data, from, instance->state, kg_buf_terminate(&reason));
}

void instance_raise(struct instance *instance, enum instance_event event)
{
    const struct cell *cell = &table[instance->state][event];
    enum instance_state from = instance->state;
    if (cell->action == NULL)
        return;
    instance->state = cell->next;
    loop_timer_stop(instance->supervisor->loop, &instance->restart_timer);
    states_tell_move(instance, from, event); /* before the action, which may move on */
    cell->action(instance, event);
    instance->ops.on_state(instance->data);
}

struct instance_transition instance_transition(enum instance_state state, size_t index)
{
    for (int event = 0; event < INSTANCE_EVENT_COUNT; event++)
        if (table[state][event].action != NULL && index-- == 0)
            return (struct instance_transition){event_words[event], table[state][event].next};
    return (struct instance_transition){NULL, state};
}
