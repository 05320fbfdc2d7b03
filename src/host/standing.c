/*
 * How a process stands with the host, on one screen: what each event does in each state. An empty
 * cell means that the event changes nothing there. Below it the supervisor has a table of its own,
 * for what becomes of a process that was started.
 *
 *   rests -> (wanted: a quick look) -> starts -> is enabled -> (unwanted, unused) -> rests
 *         -> is checked, in full ---->
 *   any -> is held by a change of the store, which may try it -> rests, and what is wanted follows
 *   any -> leaves -> gone
 */
#include "host/internal.h"

struct cell {
    enum host_standing next;
    void (*action)(struct host_process *process); /* NULL: an empty cell */
};

static void standing_only_move(struct host_process *process)
{
    (void)process;
}

/* One that failed waits for the operator; one that runs goes on. */
static void start_if_idle(struct host_process *process)
{
    enum instance_state state = instance_state(process->instance);
    if (state == INSTANCE_DISABLED || state == INSTANCE_IDLE || state == INSTANCE_STOPPING)
        host_start_if_approved(process);
}

static void standing_start(struct host_process *process)
{
    instance_enable(process->instance);
    host_process_raise(process, HOST_ON_STARTED);
}

static void restart(struct host_process *process)
{
    instance_restart(process->instance);
    host_process_raise(process, HOST_ON_STARTED);
}

static void standing_end(struct host_process *process)
{
    instance_disable(process->instance);
}

static void rest(struct host_process *process)
{
    instance_rest(process->instance);
}

static void end_for_good(struct host_process *process)
{
    instance_disable(process->instance);
    host_look_for_left(process->plugin->host);
}

/* The change may have let it run all the time. */
static void standing_resume(struct host_process *process)
{
    if (host_process_runs(process))
        host_process_raise(process, HOST_ON_STARTED);
    host_process_follow(process);
}

#define TO(state, action)                                                                          \
    {                                                                                              \
        HOST_##state, action                                                                       \
    }

static const struct cell table[HOST_STANDING_COUNT][HOST_STANDING_EVENT_COUNT] =
    {
        [HOST_RESTS] =
            {
                [HOST_ON_WANTED] = TO(RESTS, start_if_idle),
                [HOST_ON_UNWANTED] = TO(RESTS, standing_end),
                [HOST_ON_UNUSED] = TO(RESTS, rest),
                [HOST_ON_CHECK] = TO(CHECKED, standing_only_move),
                [HOST_ON_APPROVED] = TO(STARTS, standing_start),
                [HOST_ON_RESTART] = TO(STARTS, restart),
                [HOST_ON_STARTED] = TO(ENABLED, standing_only_move),
                [HOST_ON_HELD] = TO(HELD, standing_only_move),
                [HOST_ON_LEFT] = TO(LEAVES, end_for_good),
            },
        [HOST_CHECKED] =
            {
                [HOST_ON_UNWANTED] = TO(RESTS, standing_end),
                [HOST_ON_UNUSED] = TO(RESTS, rest),
                [HOST_ON_APPROVED] = TO(STARTS, standing_start),
                [HOST_ON_RESTART] = TO(STARTS, restart),
                [HOST_ON_CHECKED] = TO(RESTS, standing_only_move),
                [HOST_ON_HELD] = TO(HELD, standing_only_move),
                [HOST_ON_LEFT] = TO(LEAVES, end_for_good),
            },
        [HOST_STARTS] =
            {
                [HOST_ON_STARTED] = TO(ENABLED, standing_only_move),
            },
        [HOST_ENABLED] =
            {
                [HOST_ON_UNWANTED] = TO(RESTS, standing_end),
                [HOST_ON_UNUSED] = TO(RESTS, rest),
                [HOST_ON_CHECK] = TO(CHECKED, standing_only_move),
                [HOST_ON_APPROVED] = TO(STARTS, standing_start),
                [HOST_ON_RESTART] = TO(STARTS, restart),
                [HOST_ON_HELD] = TO(HELD, standing_only_move),
                [HOST_ON_LEFT] = TO(LEAVES, end_for_good),
            },
        [HOST_HELD] =
            {
                [HOST_ON_TRIED] = TO(TRIED, standing_only_move),
                [HOST_ON_FREED] = TO(RESTS, standing_resume),
                [HOST_ON_LEFT] = TO(LEAVES, end_for_good),
            },
        [HOST_TRIED] =
            {
                [HOST_ON_FREED] = TO(RESTS, standing_resume),
                [HOST_ON_LEFT] = TO(LEAVES, end_for_good),
            },
        [HOST_LEAVES] =
            {
                [HOST_ON_ENDED] = TO(GONE, host_process_remove),
            },
};

void host_process_raise(struct host_process *process, enum host_standing_event event)
{
    const struct cell *cell = &table[process->standing][event];
    if (cell->action == NULL)
        return;
    process->standing = cell->next;
    cell->action(process); /* which may move on, or free it */
}
