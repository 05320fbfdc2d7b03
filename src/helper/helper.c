/*
 * A program of ours in a cage, and what it was asked. A call ends exactly once: by the process, by
 * us if that did not live to, or silently when its caller withdraws it. Calls that were sent stand
 * before those that were not, oldest first. A process that is late, or says what it should not, is
 * killed; what it had ends with it, and what it had not goes to the next.
 *
 *   closed -> starting -> open -> closing -> closed
 */
#include "helper/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define CLOSE_MS         5000 /* to finish and leave, with nothing to do any more */
#define LAST_WORDS_BYTES 1024 /* of what it said on stderr; it says nothing else there */

enum state { CLOSED, STARTING, OPEN, CLOSING };

struct helper_call {
    struct helper_call *next;
    struct helper *helper;
    const char *method;
    struct kg_buf params; /* until it is sent; or until its end, to be sent again */
    bool only_reads;
    uint64_t id; /* of the peer, once it is sent; 0: not yet */
    struct loop_timer deadline;
    void (*on_done)(void *data, const struct helper_answer *answer);
    void *data;
};

struct helper {
    struct helper_place place;
    const char *program;
    const struct helper_ops *ops;
    void *data;
    enum state state;
    struct helper_start with;   /* without its plan */
    struct helper_child *child; /* owned; NULL without a process */
    struct peer *peer;          /* NULL before the pipes are there */
    struct helper_call *first, **last;
    uint32_t calls;
    struct loop_timer idle, late;
    struct loop_task start; /* with what was asked in this turn */
    bool answered;          /* this process has answered something */
    bool killed;            /* by us */
    bool retired, held;
};

/* -- calls ------------------------------------------------------------------------------------- */

static void helper_unlink_call(struct helper *helper, struct helper_call *call)
{
    struct helper_call **at = &helper->first;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    if (helper->last == &call->next)
        helper->last = at;
    helper->calls--;
}

/* The peer must not answer to what is not there any more. */
static void helper_call_free(struct helper *helper, struct helper_call *call)
{
    if (call->id != 0 && helper->peer != NULL)
        peer_abandon(helper->peer, call->id);
    loop_timer_stop(helper->place.loop, &call->deadline);
    kg_buf_free(&call->params);
    free(call);
}

static void helper_look(struct helper *helper);

/* The call is gone before its caller hears of it, who may ask again at once. */
static void helper_end_call(struct helper *helper, struct helper_call *call,
                            const struct helper_answer *answer)
{
    struct helper_call last = *call;
    helper_unlink_call(helper, call);
    helper_call_free(helper, call);
    helper_look(helper);
    last.on_done(last.data, answer);
}

/*
 * Those that are in the list now. Each callback may add calls, which stay, or withdraw others: so
 * they are looked for again each time.
 */
static void end_calls(struct helper *helper, const struct helper_answer *answer)
{
    for (uint32_t count = helper->calls; count > 0 && helper->first != NULL; count--)
        helper_end_call(helper, helper->first, answer);
}

/* The process is gone with what it had; what only reads goes to the next, once. */
static void end_sent(struct helper *helper, const struct helper_answer *answer)
{
    for (struct helper_call *call = helper->first; call != NULL;) {
        bool was_sent = call->id != 0;
        if (was_sent && !call->only_reads) {
            helper_end_call(helper, call, answer);
            call = helper->first; /* the caller may have changed the list */
            continue;
        }
        if (was_sent)
            loop_timer_stop(helper->place.loop, &call->deadline);
        call->only_reads = call->only_reads && !was_sent;
        call->id = 0;
        call = call->next;
    }
}

void helper_refuse(struct helper *helper, const struct kg_err *err)
{
    const struct helper_answer answer = {
        .outcome = HELPER_REFUSED, .code = err->code, .words = err->message};
    end_calls(helper, &answer);
}

static void close_process(struct helper *helper);

void helper_refuse_some(struct helper *helper,
                        bool (*is_meant)(const void *data, const void *whose), const void *whose,
                        const struct kg_err *err)
{
    const struct helper_answer answer = {
        .outcome = HELPER_REFUSED, .code = err->code, .words = err->message};
    struct helper_call *call = helper->first;
    while (call != NULL && (call->id == 0 || !is_meant(call->data, whose)))
        call = call->next;
    if (call != NULL && helper->state == OPEN)
        close_process(helper); /* first: nobody's time runs while it works on what nobody wants */
    for (call = helper->first; call != NULL;) {
        bool meant = is_meant(call->data, whose);
        if (meant)
            helper_end_call(helper, call, &answer);
        call = meant ? helper->first : call->next; /* the caller may have changed the list */
    }
}

void *helper_find(const struct helper *helper, int64_t id)
{
    const struct helper_call *call = helper->first;
    while (call != NULL && (id <= 0 || call->id != (uint64_t)id))
        call = call->next;
    return call != NULL ? call->data : NULL;
}

/* -- the end of a process ---------------------------------------------------------------------- */

/* What is asked from now on waits for the next one. */
static void kill_process(struct helper *helper)
{
    helper->killed = true;
    if (helper->state == OPEN)
        helper->state = CLOSING;
    loop_timer_stop(helper->place.loop, &helper->idle);
    if (helper->child != NULL)
        helper_child_signal(helper->child, SIGKILL);
}

void helper_kill(struct helper *helper)
{
    kill_process(helper);
}

static void helper_on_late(struct loop_timer *timer)
{
    kill_process(KG_CONTAINER(timer, struct helper, late));
}

static void close_process(struct helper *helper)
{
    helper->state = CLOSING;
    loop_timer_stop(helper->place.loop, &helper->idle);
    loop_timer_start(helper->place.loop, &helper->late, CLOSE_MS, helper_on_late);
    peer_close_input(helper->peer);
}

static void helper_on_idle(struct loop_timer *timer)
{
    close_process(KG_CONTAINER(timer, struct helper, idle));
}

static void helper_on_deadline(struct loop_timer *timer)
{
    static const struct helper_answer answer = {.outcome = HELPER_LATE, .words = ""};
    struct helper_call *call = KG_CONTAINER(timer, struct helper_call, deadline);
    kill_process(call->helper);
    helper_end_call(call->helper, call, &answer);
}

static void time_turn(struct helper *helper)
{
    const struct helper_start *with = &helper->with;
    struct helper_call *oldest = helper->first;
    if (with->turn_ms != 0 && oldest != NULL && !loop_timer_running(&oldest->deadline))
        loop_timer_start(helper->place.loop, &oldest->deadline,
                         helper->answered ? with->turn_ms : with->first_turn_ms,
                         helper_on_deadline);
}

/* After each change of what there is to do. */
static void helper_look(struct helper *helper)
{
    bool is_unwanted = helper->retired && helper->calls == 0;
    bool has_sent = helper->first != NULL && helper->first->id != 0;
    if (helper->state == STARTING && is_unwanted)
        kill_process(helper);
    if (helper->state != OPEN)
        return;
    if (is_unwanted || (helper->held && !has_sent)) {
        close_process(helper);
        return;
    }
    if (helper->calls > 0)
        loop_timer_stop(helper->place.loop, &helper->idle);
    else
        loop_timer_start(helper->place.loop, &helper->idle, helper->with.idle_ms, helper_on_idle);
    time_turn(helper);
}

/* What comes after a process is gone: the next, or nothing. */
static void helper_go_on(struct helper *helper)
{
    if (helper->first != NULL && !helper->held)
        loop_defer(helper->place.loop, &helper->start);
    else
        helper->ops->on_rest(helper->data);
}

static void helper_on_exited(void *data, const struct cage_exit *how, const char *error_or_null)
{
    struct helper *helper = data;
    char words[LAST_WORDS_BYTES];
    struct kg_str said = helper_child_errors(helper->child);
    snprintf(words, sizeof(words), "%.*s", KG_STR_ARG(said));
    words[strcspn(words, "\n")] = '\0';
    helper_child_free(kg_steal(&helper->child));
    loop_timer_stop(helper->place.loop, &helper->idle);
    loop_timer_stop(helper->place.loop, &helper->late);
    if (helper->peer != NULL) {
        peer_drain(helper->peer); /* an answer that was given just before still counts */
        peer_free(kg_steal(&helper->peer));
    }
    helper->state = CLOSED;
    if (helper->ops->on_exited != NULL)
        helper->ops->on_exited(helper->data, how);
    bool is_hopeless = !how->built && !helper->killed;
    const struct helper_answer answer = {
        .outcome = is_hopeless ? HELPER_UNBUILT : HELPER_ENDED,
        .words = error_or_null != NULL ? error_or_null : words,
    };
    if (is_hopeless)
        end_calls(helper, &answer);
    else
        end_sent(helper, &answer);
    helper_go_on(helper);
}

/* -- what the process says --------------------------------------------------------------------- */

/* It may have been taken over by what it works on. */
void helper_give_up(struct helper *helper, const char *what)
{
    if (!helper->killed)
        helper->ops->on_misfit(helper->data, what);
    kill_process(helper);
}

static void helper_on_notification(void *data, struct kg_str method, struct kg_str params)
{
    struct helper *helper = data;
    if (helper->ops->on_notification != NULL)
        helper->ops->on_notification(helper->data, method, params);
}

static void helper_on_request(void *data, int64_t id, struct kg_str method, struct kg_str params)
{
    (void)id, (void)method, (void)params;
    helper_give_up(data, "it asked for something");
}

static void helper_on_noise(void *data, struct kg_str line, const char *problem)
{
    (void)line;
    helper_give_up(data, problem);
}

static void helper_on_violation(void *data, enum peer_violation violation, const char *detail)
{
    (void)violation;
    helper_give_up(data, detail);
}

/* Calls have deadlines of ours, and after its end its exit follows. */
static const struct peer_ops peer_ops = {
    .on_request = helper_on_request,
    .on_noise = helper_on_noise,
    .on_violation = helper_on_violation,
    .on_notification = helper_on_notification,
};

static void helper_on_answer(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct helper_call *call = data;
    if (outcome != PEER_RESULT && outcome != PEER_ERROR)
        return; /* the process is gone: helper_on_exited answers */
    const struct helper_answer answer = {
        .outcome = outcome == PEER_RESULT ? HELPER_RESULT : HELPER_ERROR,
        .payload = payload,
        .words = "",
    };
    call->helper->answered = true;
    helper_end_call(call->helper, call, &answer);
}

/* -- starting ---------------------------------------------------------------------------------- */

static int helper_send_call(struct helper_call *call, struct kg_str params, struct kg_err *err)
{
    const struct peer_call request = {
        .method = kg_str(call->method),
        .params = &params,
        .params_count = 1,
        .on_done = helper_on_answer,
        .data = call,
    };
    return peer_call(call->helper->peer, &request, &call->id, err);
}

static void helper_send_waiting(struct helper *helper)
{
    for (struct helper_call *call = helper->first; call != NULL && helper->state == OPEN;) {
        struct kg_err err = {0};
        if (call->id != 0 || helper_send_call(call, kg_buf_view(&call->params), &err) == 0) {
            if (!call->only_reads)
                kg_buf_free(&call->params);
            call = call->next;
            continue;
        }
        const struct helper_answer answer = {
            .outcome = HELPER_REFUSED, .code = err.code, .words = err.message};
        helper_end_call(helper, call, &answer);
        call = helper->first; /* the caller may have changed the list */
    }
}

static void helper_on_spawned(void *data, int in_fd, int out_fd)
{
    struct helper *helper = data;
    helper->peer =
        peer_new(helper->place.loop, in_fd, out_fd, &helper->with.wire, &peer_ops, helper);
    peer_set_phase(helper->peer, PEER_OPEN);
    if (helper->killed)
        return;
    helper->state = OPEN;
    helper_send_waiting(helper);
    helper_look(helper);
}

static void helper_on_network(void *data, const struct gate_event *event)
{
    struct helper *helper = data;
    if (helper->ops->on_network != NULL)
        helper->ops->on_network(helper->data, event);
}

static int helper_spawn(struct helper *helper, struct kg_err *err)
{
    static const struct helper_child_ops ops = {helper_on_spawned, helper_on_exited,
                                                helper_on_network};
    static const struct helper_errors errors = {.max_bytes = LAST_WORDS_BYTES};
    kg_auto(kg_free) char *program = helper_program(helper->program, err);
    struct helper_start with = {0};
    if (program == NULL || helper->ops->prepare(helper->data, program, &with, err) < 0)
        return -EINVAL;
    helper->child = helper_child_new(&helper->place, with.plan, errors, &ops, helper, err);
    cage_plan_free(kg_steal(&with.plan));
    helper->with = with;
    return helper->child != NULL ? 0 : -EINVAL;
}

static void on_start(struct loop_task *task)
{
    struct helper *helper = KG_CONTAINER(task, struct helper, start);
    struct kg_err err = {0};
    if (helper->state != CLOSED || helper->held)
        return;
    helper->answered = helper->killed = false;
    if (helper->first != NULL && helper_spawn(helper, &err) == 0) {
        helper->state = STARTING;
        return;
    }
    helper_refuse(helper, &err);
    helper_go_on(helper);
}

/* -- the interface ----------------------------------------------------------------------------- */

struct helper *helper_new(const struct helper_place *place, const char *program,
                          const struct helper_ops *ops, void *data)
{
    struct helper *helper = kg_alloc(sizeof(*helper));
    helper->place = *place;
    helper->program = program;
    helper->ops = ops;
    helper->data = data;
    helper->last = &helper->first;
    helper->start.run = on_start;
    return helper;
}

void helper_free(struct helper *helper)
{
    static const struct helper_answer answer = {.outcome = HELPER_GONE, .words = ""};
    if (helper == NULL)
        return;
    helper->state = CLOSED;
    peer_free(kg_steal(&helper->peer));
    end_calls(helper, &answer);
    loop_timer_stop(helper->place.loop, &helper->idle);
    loop_timer_stop(helper->place.loop, &helper->late);
    loop_undefer(helper->place.loop, &helper->start);
    helper_child_free(helper->child);
    free(helper);
}

int helper_ask(struct helper *helper, const struct helper_request *request,
               struct helper_call **ret_call_or_null, struct kg_err *err)
{
    struct helper_call *call = kg_alloc(sizeof(*call));
    call->helper = helper;
    call->method = request->method;
    call->on_done = request->on_done;
    call->data = request->data;
    call->only_reads = request->only_reads;
    /* One that is on its way out says why by its exit; what it cannot take waits for that. */
    bool now = helper->state == OPEN && !helper->held && peer_takes_calls(helper->peer);
    int result = now ? helper_send_call(call, request->params, err) : 0;
    if (result < 0) {
        free(call);
        return result;
    }
    if (!now || call->only_reads)
        kg_buf_str(&call->params, request->params);
    *helper->last = call;
    helper->last = &call->next;
    helper->calls++;
    if (request->timeout_ms != 0)
        loop_timer_start(helper->place.loop, &call->deadline, request->timeout_ms,
                         helper_on_deadline);
    if (helper->state == CLOSED)
        loop_defer(helper->place.loop, &helper->start);
    helper_look(helper);
    if (ret_call_or_null != NULL)
        *ret_call_or_null = call;
    return 0;
}

void helper_withdraw(struct helper_call *call)
{
    struct helper *helper = call->helper;
    if (call->id != 0 && helper->peer != NULL) {
        char params[48];
        snprintf(params, sizeof(params), "{\"id\":%llu}", (unsigned long long)call->id);
        (void)peer_notify(helper->peer, "cancel", kg_str(params), NULL);
    }
    helper_unlink_call(helper, call);
    helper_call_free(helper, call);
    helper_look(helper);
}

void helper_retire(struct helper *helper, bool retired)
{
    helper->retired = retired;
    helper_look(helper);
}

void helper_hold(struct helper *helper, bool held)
{
    helper->held = held;
    if (!held && helper->state == CLOSED && helper->first != NULL)
        loop_defer(helper->place.loop, &helper->start);
    else if (!held)
        helper_send_waiting(helper);
    helper_look(helper);
}

uint32_t helper_calls(const struct helper *helper)
{
    return helper->calls;
}

bool helper_runs(const struct helper *helper)
{
    return helper->child != NULL;
}

bool helper_is_closed(const struct helper *helper)
{
    return helper->state == CLOSED;
}
