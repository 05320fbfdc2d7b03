/*
 * Processes of one program that ask the world, one for each user, host and port, and the calls that
 * they work on. A call ends exactly once: by its process, by us if that did not live to, or
 * silently when its caller withdraws it. One whose connection was lost waits a moment for what the
 * gatekeeper has to say about that: to the process, what is refused is just lost.
 */
#include "helper/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define REASON_MS    250 /* in which the gatekeeper tells why a connection was lost */
#define REASON_BYTES 256
#define PROCESSES    8     /* threads look up names */
#define TMP_BYTES    65536 /* they write no files */
#define CPU_SHARES   256   /* they mostly wait */

struct helper_user {
    struct helper_user *next;
    struct helper_pool *pool;
    char *whose, *host; /* owned */
    uint16_t port;
    struct helper *helper;         /* owned */
    struct helper_pool_call *lost; /* owned; those that lost their connection */
    struct loop_timer explain;     /* of these: the gatekeeper may know more */
    char reason[REASON_BYTES];     /* why its last connection came to nothing */
};

struct helper_pool_call {
    struct helper_pool_call *next; /* in user->lost */
    struct helper_user *user;
    struct helper_call *asked; /* NULL: it is answered */
    struct kg_buf payload;     /* of one that is lost */
    void (*on_done)(void *data, const struct helper_answer *answer);
    void *data;
};

struct helper_pool {
    const struct helper_pool_place *place;
    const struct helper_pool_kind *kind;
    struct helper_user *first; /* owned */
    bool closing;
    void (*on_closed)(void *data);
    void *closed_data;
    struct loop_task closed;
};

static struct loop *helper_pool_loop_of(const struct helper_user *user)
{
    return user->pool->place->where.loop;
}

/* -- calls ------------------------------------------------------------------------------------- */

static void pool_call_free(struct helper_pool_call *call)
{
    kg_buf_free(&call->payload);
    free(call);
}

/* It is still there while its caller hears of it, who may ask again. */
static void pool_call_end(struct helper_pool_call *call, const struct helper_answer *answer)
{
    call->on_done(call->data, answer);
    pool_call_free(call);
}

static void end_lost(struct helper_user *user, enum helper_outcome outcome)
{
    while (user->lost != NULL) {
        struct helper_pool_call *call = user->lost;
        const struct helper_answer answer = {
            .outcome = outcome, .payload = kg_buf_view(&call->payload), .words = user->reason};
        user->lost = call->next;
        pool_call_end(call, &answer);
    }
}

static void on_explained(struct loop_timer *timer)
{
    end_lost(KG_CONTAINER(timer, struct helper_user, explain), HELPER_ERROR);
}

static void helper_pool_explain(struct helper_user *user)
{
    loop_timer_start(helper_pool_loop_of(user), &user->explain,
                     user->reason[0] != '\0' ? 0 : REASON_MS, on_explained);
}

static void helper_pool_on_misfit(void *data, const char *what)
{
    const struct helper_user *user = data;
    kg_log(KG_ERROR_LEVEL, "%s for %s is ended: %s", user->pool->kind->program, user->whose, what);
}

static void helper_pool_on_answer(void *data, const struct helper_answer *answer)
{
    struct helper_pool_call *call = data;
    struct helper_user *user = call->user;
    const struct helper_pool_kind *kind = user->pool->kind;
    call->asked = NULL;
    if (answer->outcome == HELPER_LATE)
        helper_pool_on_misfit(user, "it does not answer");
    if (answer->outcome != HELPER_ERROR || !kind->is_lost(answer->payload)) {
        pool_call_end(call, answer);
        return;
    }
    kg_buf_str(&call->payload, answer->payload);
    call->next = user->lost;
    user->lost = call;
    helper_pool_explain(user);
}

/* -- processes --------------------------------------------------------------------------------- */

static void helper_pool_on_notification(void *data, struct kg_str method, struct kg_str params)
{
    struct helper_user *user = data;
    if (user->pool->kind->on_notification != NULL)
        user->pool->kind->on_notification(user, method, params);
}

static void helper_pool_on_network(void *data, const struct gate_event *event)
{
    struct helper_user *user = data;
    const struct helper_pool_place *place = user->pool->place;
    if (event->kind == GATE_CONNECTED)
        user->reason[0] = '\0';
    if (event->kind == GATE_DENIED || event->kind == GATE_FAILED) {
        snprintf(user->reason, sizeof(user->reason), "%s port %u: %s", event->host, event->port,
                 event->reason);
        if (user->lost != NULL)
            helper_pool_explain(user);
    }
    if (place->on_network != NULL)
        place->on_network(place->data, user->whose, event);
}

static int helper_pool_prepare(void *data, const char *program, struct helper_start *ret_start,
                               struct kg_err *err)
{
    struct helper_user *user = data;
    const struct helper_pool_place *place = user->pool->place;
    const struct helper_pool_kind *kind = user->pool->kind;
    kg_auto(kg_free) char *name = kg_format("%s (%s)", user->whose, kind->label);
    const struct cage_reach reach = {.host = user->host, .port = user->port};
    const char *const command[] = {program, NULL};
    const struct cage_policy policy = {
        .name = name,
        .command = command,
        .reaches = &reach,
        .reach_count = user->host[0] != '\0' ? 1 : 0,
        .processes_max = PROCESSES,
        .tmp_bytes = TMP_BYTES,
        .memory_bytes = kind->memory_bytes,
        .cpu_shares = CPU_SHARES,
    };
    user->reason[0] = '\0';
    *ret_start = (struct helper_start){
        .plan = helper_plan(program, policy, place->facts, err),
        .wire =
            {
                .line_max_bytes = kind->line_bytes,
                .write_queue_max_bytes = kind->line_bytes * 4,
                .calls_in_flight_max = UINT32_MAX, /* calls_max is kept before */
                .notifications_per_sec = kind->on_notification != NULL ? UINT32_MAX : 1,
            },
        .idle_ms = place->idle_ms,
    };
    return ret_start->plan != NULL ? 0 : -EINVAL;
}

static void user_free(struct helper_user *user)
{
    KG_UNLINK(user->pool->first, user);
    end_lost(user, HELPER_GONE);
    loop_timer_stop(helper_pool_loop_of(user), &user->explain);
    helper_free(user->helper);
    free(user->whose);
    free(user->host);
    free(user);
}

static void on_closed_task(struct loop_task *task)
{
    struct helper_pool *pool = KG_CONTAINER(task, struct helper_pool, closed);
    pool->on_closed(pool->closed_data);
}

static void helper_pool_check_closed(struct helper_pool *pool)
{
    if (pool->first == NULL && pool->closing)
        loop_defer(pool->place->where.loop, &pool->closed);
}

/* What still waits for a reason gets none any more; who hears that may ask again. */
static void helper_pool_on_rest(void *data)
{
    struct helper_user *user = data;
    struct helper_pool *pool = user->pool;
    end_lost(user, HELPER_ERROR);
    if (helper_calls(user->helper) > 0)
        return;
    user_free(user);
    helper_pool_check_closed(pool);
}

static struct helper_user *user_new(struct helper_pool *pool, const struct helper_target *target)
{
    static const struct helper_ops ops = {
        .prepare = helper_pool_prepare,
        .on_notification = helper_pool_on_notification,
        .on_network = helper_pool_on_network,
        .on_misfit = helper_pool_on_misfit,
        .on_rest = helper_pool_on_rest,
    };
    struct helper_user *user = kg_alloc(sizeof(*user));
    *user = (struct helper_user){
        .next = pool->first,
        .pool = pool,
        .whose = kg_str_dup(target->whose),
        .host = kg_strdup(target->host),
        .port = target->port,
    };
    user->helper = helper_new(&pool->place->where, pool->kind->program, &ops, user);
    pool->first = user;
    return user;
}

static struct helper_user *user_of(struct helper_pool *pool, const struct helper_target *target)
{
    struct helper_user *found = NULL;
    for (struct helper_user *at = pool->first; at != NULL; at = at->next) {
        if (!kg_str_is(target->whose, at->whose))
            continue;
        bool same = at->port == target->port && strcmp(at->host, target->host) == 0;
        if (same || pool->kind->has_one_address)
            helper_retire(at->helper, !same);
        if (same)
            found = at;
    }
    return found != NULL ? found : user_new(pool, target);
}

void *helper_user_find(const struct helper_user *user, int64_t id)
{
    const struct helper_pool_call *call = helper_find(user->helper, id);
    return call != NULL ? call->data : NULL;
}

void helper_user_give_up(struct helper_user *user, const char *what)
{
    helper_give_up(user->helper, what);
}

const char *helper_user_whose(const struct helper_user *user)
{
    return user->whose;
}

/* -- asking ------------------------------------------------------------------------------------ */

bool helper_pool_is_open(const struct helper_pool *pool)
{
    return !pool->closing && pool->place->facts != NULL && pool->place->where.gate != NULL;
}

uint32_t helper_pool_calls(const struct helper_pool *pool, struct kg_str whose)
{
    uint32_t calls = 0;
    for (const struct helper_user *at = pool->first; at != NULL; at = at->next)
        if (kg_str_is(whose, at->whose))
            calls += helper_calls(at->helper);
    return calls;
}

bool helper_pool_is_full(const struct helper_pool *pool, struct kg_str whose)
{
    return helper_pool_calls(pool, whose) >= pool->place->calls_max;
}

void helper_pool_leave(struct helper_pool *pool, struct kg_str whose)
{
    for (struct helper_user *at = pool->first; at != NULL; at = at->next)
        if (kg_str_is(whose, at->whose))
            helper_retire(at->helper, true);
}

uint32_t helper_pool_processes(const struct helper_pool *pool)
{
    uint32_t count = 0;
    for (const struct helper_user *at = pool->first; at != NULL; at = at->next)
        count += helper_runs(at->helper);
    return count;
}

int helper_pool_ask(struct helper_pool *pool, const struct helper_target *target,
                    const struct helper_request *request, struct helper_pool_call **ret_call,
                    struct kg_err *err)
{
    struct helper_pool_call *call = kg_alloc(sizeof(*call));
    *call = (struct helper_pool_call){
        .user = user_of(pool, target), .on_done = request->on_done, .data = request->data};
    struct helper_request asked = *request;
    asked.timeout_ms += HELPER_START_MS;
    asked.on_done = helper_pool_on_answer;
    asked.data = call;
    int result = helper_ask(call->user->helper, &asked, &call->asked, err);
    if (result < 0)
        free(call);
    else
        *ret_call = call;
    return result;
}

struct helper_user *helper_pool_user(const struct helper_pool_call *call)
{
    return call->user;
}

void helper_pool_withdraw(struct helper_pool_call *call)
{
    if (call->asked != NULL)
        helper_withdraw(call->asked);
    else
        KG_UNLINK(call->user->lost, call);
    pool_call_free(call);
}

/* -- all of them ------------------------------------------------------------------------------- */

struct helper_pool *helper_pool_new(const struct helper_pool_place *place,
                                    const struct helper_pool_kind *kind)
{
    struct helper_pool *pool = kg_alloc(sizeof(*pool));
    pool->place = place;
    pool->kind = kind;
    pool->closed.run = on_closed_task;
    return pool;
}

void helper_pool_close(struct helper_pool *pool, void (*on_closed)(void *data), void *data)
{
    struct kg_err err;
    kg_fail(&err, KG_E_STOPPING, "the daemon is stopping");
    pool->closing = true;
    pool->on_closed = on_closed;
    pool->closed_data = data;
    for (struct helper_user *at = pool->first, *next; at != NULL; at = next) {
        next = at->next;
        end_lost(at, HELPER_ERROR); /* what was answered already keeps its answer */
        helper_refuse(at->helper, &err);
        helper_retire(at->helper, true);
        if (helper_is_closed(at->helper))
            user_free(at);
    }
    helper_pool_check_closed(pool);
}

void helper_pool_free(struct helper_pool *pool)
{
    if (pool == NULL)
        return;
    for (struct helper_user *at = pool->first, *next; at != NULL; at = next) {
        next = at->next;
        user_free(at);
    }
    loop_undefer(pool->place->where.loop, &pool->closed);
    free(pool);
}
