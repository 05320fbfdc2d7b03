/*
 * Plays a trace. Events are gone through in the order of the trace: what the host said is sent, and
 * where the plugin answered then, its answer is waited for and compared now. So requests that were
 * in flight together are again, and what came after an answer comes after it. Requests of the
 * plugin are answered as they come, from the trace.
 *
 * A trace may begin in the middle of a life. The handshake is then made up from the header, and
 * storage that the plugin asks for and the trace does not have is an empty database.
 */
#include "kit/replay_internal.h"

#include "kit/internal.h"

#include "host/host.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define GRACE_MS    2000 /* for an end that the trace has */
#define WINDOW      256  /* requests of the plugin that one may be, since order may differ */
#define IGNORED_MAX 64
#define NOTE_MAX    200

struct replay {
    const struct kit_replay_parts *parts;
    struct kit_replay_counts *counts;
    struct kit_room *room;
    struct kit_seat *seat;
    struct kit_place places[3]; /* ended by an empty one */
    char *config_root;          /* owned */
    struct kit_events events;

    /* the life that is played */
    struct kit_event *first, *end;
    struct kit_event *asks; /* the first request of the plugin that may not have come again */
    bool greeted;           /* its handshake is not in the trace */
    bool is_over;           /* the process had ended here */
    bool has_gap;           /* the trace lacks something of it */
    bool shut;              /* it was told to leave */
    bool hung;              /* it was killed for its silence */
    int64_t base_us;        /* of the trace, when the seat's time was base_ns */
    uint64_t base_ns;
    unsigned greetings;            /* parts of a handshake that was made up, and answered */
    struct kit_greeting *greeting; /* that of an MCP server; NULL: none was made up */
};

const char *const kit_outcome_names[KIT_OUTCOME_COUNT] = {
    [KIT_SAME] = "same",
    [KIT_DIFFERS] = "differs",
    [KIT_UNANSWERED] = "no_answer",
    [KIT_ANSWERED] = "new_answer",
    [KIT_ASKS_OTHER] = "asks_other",
    [KIT_ASKS_NEW] = "asks_new",
    [KIT_NOT_COMPARED] = "not_compared",
};

/* -- steps ------------------------------------------------------------------------------------- */

static void replay_tell(struct replay *replay, const struct kit_step *step)
{
    replay->counts->outcomes[step->outcome]++;
    replay->parts->on_step(replay->parts->data, step);
}

/* What cannot be the same: what a version is, and what a plugin says of its health. */
static void list_ignored(const struct replay *replay, const char *method,
                         const char *ret_ignored[IGNORED_MAX + 2])
{
    size_t count = 0;
    for (const char *const *at = replay->parts->ignored; *at != NULL && count < IGNORED_MAX; at++)
        ret_ignored[count++] = *at;
    if (strcmp(method, "initialize") == 0)
        ret_ignored[count++] =
            replay->parts->room.manifest->is_mcp ? "/result/serverInfo/version" : "/result/version";
    else if (strcmp(method, "ping") == 0)
        ret_ignored[count++] = "/result";
    ret_ignored[count] = NULL;
}

static void describe_end(const struct replay *replay, char note[NOTE_MAX])
{
    const struct cage_exit *how = helper_child_exit(replay->seat->child);
    if (replay->hung)
        snprintf(note, NOTE_MAX, "it did not answer within %lld ms, and was killed",
                 (long long)replay->parts->room.config->limits_call_timeout_ms);
    else if (how == NULL)
        snprintf(note, NOTE_MAX, "it does not answer");
    else if (how->signal != 0)
        snprintf(note, NOTE_MAX, "it was killed by signal %d", how->signal);
    else
        snprintf(note, NOTE_MAX, "it exited with code %d", how->exit_code);
}

static void judge_answers(struct replay *replay, struct kit_step step,
                          const struct kit_event *asked)
{
    const char *ignored[IGNORED_MAX + 2];
    kg_auto(kit_comparison_clear) struct kit_comparison comparison = {.ignored = ignored,
                                                                      .places = replay->places};
    list_ignored(replay, asked->method, ignored);
    kit_compare(&comparison, asked->pair->body, kg_buf_view(&asked->answer));
    step.outcome = comparison.count == 0 ? KIT_SAME : KIT_DIFFERS;
    step.comparison = &comparison;
    replay_tell(replay, &step);
}

/* Compares what came with what came then, each of which may be nothing. */
static void replay_judge(struct replay *replay, struct kit_event *asked)
{
    char note[NOTE_MAX] = "";
    bool is_answered = asked->answer.length > 0;
    const struct kit_event *then = asked->pair;
    struct kit_step step = {
        .number = asked->record->number,
        .method = asked->method,
        .was_us = then ? then->record->t_us - asked->record->t_us : -1,
        .is_us = is_answered ? (int64_t)(asked->answered_ns - asked->sent_ns) / 1000 : -1,
        .note = note,
        .redacted = asked->record->redacted || (then != NULL && then->record->redacted),
    };
    asked->judged = true;
    if (then != NULL && is_answered) {
        judge_answers(replay, step, asked);
        return;
    }
    if (then != NULL || !is_answered)
        describe_end(replay, note);
    if (then == NULL && (!replay->is_over || replay->has_gap)) {
        step.outcome = KIT_NOT_COMPARED;
        snprintf(note, NOTE_MAX, "the trace has no answer to it");
    } else if (then == NULL) {
        step.outcome = is_answered ? KIT_ANSWERED : KIT_SAME;
    } else {
        step.outcome = KIT_UNANSWERED;
    }
    replay_tell(replay, &step);
}

static void pass_over(struct replay *replay, const struct kit_event *event, const char *why)
{
    const struct kit_step step = {
        .number = event->record->number,
        .method = "",
        .outcome = KIT_NOT_COMPARED,
        .was_us = -1,
        .is_us = -1,
        .note = why,
    };
    replay_tell(replay, &step);
}

/* -- what the plugin asks ---------------------------------------------------------------------- */

/* With the paths of now for those of then. */
static void replay_put_moved(const struct replay *replay, struct kg_str body, struct kg_buf *out)
{
    kg_buf_str(out, body);
    for (const struct kit_place *place = replay->places; place->then.length > 0; place++) {
        kg_auto(kg_buf_free) struct kg_buf before = *out;
        *out = (struct kg_buf){0};
        kit_put_moved(out, kg_buf_view(&before), place->then, place->now);
    }
}

/* body: {"result":...} or {"error":...}. */
static void send_answer(const struct replay *replay, int64_t request, struct kg_str body)
{
    kg_auto(kg_buf_free) struct kg_buf moved = {0};
    struct kg_str payload;
    replay_put_moved(replay, body, &moved);
    bool is_result = kg_json_member(kg_buf_view(&moved), "result", &payload);
    if (is_result || kg_json_member(kg_buf_view(&moved), "error", &payload))
        peer_answer(replay->seat->peer, request, is_result ? PEER_ANSWER_RESULT : PEER_ANSWER_ERROR,
                    payload);
}

static uint64_t replay_send_request(const struct replay *replay, const char *method,
                                    struct kg_str params, peer_done_fn *on_done, void *data)
{
    kg_auto(kg_buf_free) struct kg_buf moved = {0};
    replay_put_moved(replay, params, &moved);
    struct kg_str view = kg_buf_view(&moved);
    const struct peer_call call = {
        .method = kg_str(method),
        .params = &view,
        .params_count = 1,
        .on_done = on_done,
        .data = data,
    };
    uint64_t id = 0;
    (void)peer_call(replay->seat->peer, &call, &id, NULL);
    return id;
}

static void send_notification(const struct replay *replay, const char *method, struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf moved = {0};
    replay_put_moved(replay, params, &moved);
    (void)peer_notify(replay->seat->peer, method, kg_buf_view(&moved), NULL);
}

static bool replay_is_same(const struct replay *replay, struct kg_str was, struct kg_str is)
{
    static const char *const none[] = {NULL};
    kg_auto(kit_comparison_clear) struct kit_comparison comparison = {.ignored = none,
                                                                      .places = replay->places};
    if (kg_str_equal(was, is))
        return true;
    kit_compare(&comparison, was, is);
    return comparison.count == 0;
}

/* The request of then that this one is; *ret_other: the next of that method, if none is. */
static struct kit_event *replay_find_asked(struct replay *replay, const char *method,
                                           struct kg_str params, struct kit_event **ret_other)
{
    size_t looked = 0;
    while (replay->asks < replay->end &&
           (replay->asks->type != KIT_PLUGIN_ASKS || replay->asks->used))
        replay->asks++;
    for (struct kit_event *at = replay->asks; at < replay->end && looked < WINDOW; at++) {
        if (at->type != KIT_PLUGIN_ASKS || at->used)
            continue;
        looked++;
        if (strcmp(at->method, method) != 0)
            continue;
        if (replay_is_same(replay, at->body, params))
            return at;
        if (*ret_other == NULL)
            *ret_other = at;
    }
    return NULL;
}

/* An empty database answers what was asked before the trace began. */
static bool ask_storage(struct replay *replay, int64_t request, struct kg_str method,
                        struct kg_str params)
{
    const struct host_service *service = host_service_find(method);
    return service != NULL &&
           host_service_check(service, &replay->room->parts.manifest->capability_set, NULL) == 0 &&
           kit_serve(replay->room, replay->seat, service, request, params, NULL) == 0;
}

static void tell_asked(struct replay *replay, const char *method,
                       const struct kit_event *other_or_null, struct kg_str params)
{
    static const char *const none[] = {NULL};
    kg_auto(kit_comparison_clear) struct kit_comparison comparison = {.ignored = none,
                                                                      .places = replay->places};
    struct kit_step step = {
        .number = other_or_null ? other_or_null->record->number : 0,
        .method = method,
        .outcome = other_or_null ? KIT_ASKS_OTHER : KIT_ASKS_NEW,
        .was_us = -1,
        .is_us = -1,
        .note = "",
        .comparison = &comparison,
    };
    if (other_or_null != NULL)
        kit_compare(&comparison, other_or_null->body, params);
    replay_tell(replay, &step);
}

static void replay_on_asked(struct replay *replay, int64_t request, struct kg_str method,
                            struct kg_str params)
{
    kg_auto(kg_free) char *name = kg_str_dup(method);
    struct kit_event *other = NULL;
    params = params.length > 0 ? params : KG_STR("{}");
    struct kit_event *asked = replay_find_asked(replay, name, params, &other);
    bool is_lacking = replay->greeted || replay->has_gap;
    if (asked == NULL && is_lacking && ask_storage(replay, request, method, params))
        return;
    if (asked == NULL) {
        tell_asked(replay, name, other, params);
        asked = other;
    }
    if (asked == NULL) {
        peer_answer_error(replay->seat->peer, request, kg_error_row(KG_E_INTERNAL)->rpc_code,
                          "the trace that is played has no answer to this");
        return;
    }
    asked->used = true;
    if (asked->pair != NULL)
        send_answer(replay, request, asked->pair->body);
}

/* What an MCP server asks during a greeting that was made up, the greeting answers. */
static void replay_on_request(void *data, int64_t request, struct kg_str method,
                              struct kg_str params)
{
    struct replay *replay = data;
    bool is_greeting = replay->greeting != NULL && !kit_greeting_is_over(replay->greeting);
    if (!is_greeting || !dialect_mcp.on_request(&replay->greeting->talk, request, method, params))
        replay_on_asked(replay, request, method, params);
}

static void replay_refuse(void *data, int64_t request, struct kg_str method, struct kg_str params)
{
    struct replay *replay = data;
    (void)method, (void)params;
    peer_answer_error(replay->seat->peer, request, kg_error_row(KG_E_INTERNAL)->rpc_code,
                      "there is nobody to ask");
}

/* -- what the plugin answers ------------------------------------------------------------------- */

static void replay_on_answer(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct kit_event *asked = data;
    if (outcome != PEER_RESULT && outcome != PEER_ERROR)
        return;
    asked->answered_ns = kit_seat_ns(asked->seat);
    kit_put_outcome(&asked->answer, outcome == PEER_RESULT, payload);
}

static void on_greeted(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct replay *replay = data;
    (void)payload;
    replay->greetings += outcome == PEER_RESULT || outcome == PEER_ERROR;
}

/* -- waiting ----------------------------------------------------------------------------------- */

static bool replay_is_gone(const struct replay *replay)
{
    return helper_child_exit(replay->seat->child) != NULL || replay->seat->out_closed;
}

struct wait {
    const struct replay *replay;
    const struct kit_event *asked; /* NULL: only for the end */
    unsigned greetings;            /* that must be there; 0: the event is waited for */
};

static bool replay_is_done(void *data)
{
    const struct wait *wait = data;
    const struct kit_greeting *greeting = wait->replay->greeting;
    bool is_greeted =
        wait->greetings != 0 && (greeting != NULL ? kit_greeting_is_over(greeting)
                                                  : wait->replay->greetings == wait->greetings);
    bool is_answered = wait->asked != NULL && wait->asked->answer.length > 0;
    return is_greeted || is_answered || replay_is_gone(wait->replay);
}

static bool never(void *data)
{
    (void)data;
    return false;
}

/* Answers that are still on their way after a stream was closed count; then why it ended is known.
 */
static void replay_wait_for(struct replay *replay, struct wait wait)
{
    uint64_t timeout_ms = (uint64_t)replay->parts->room.config->limits_call_timeout_ms;
    wait.replay = replay;
    bool in_time = kit_room_wait(replay->room, replay_is_done, &wait, timeout_ms);
    if (in_time && !replay_is_gone(replay))
        return;
    if (!in_time) {
        replay->hung = true;
        helper_child_signal(replay->seat->child, SIGKILL); /* as the daemon would */
    }
    (void)kit_seat_wait_exit(replay->seat, GRACE_MS);
}

/* So that it is as long after the first as it was then. */
static void keep_time(struct replay *replay, const struct kit_event *event)
{
    if (!replay->parts->timed)
        return;
    if (replay->base_ns == 0) {
        replay->base_us = event->record->t_us;
        replay->base_ns = kit_seat_ns(replay->seat) + 1;
    }
    int64_t due_us = event->record->t_us - replay->base_us;
    int64_t now_us = (int64_t)(kit_seat_ns(replay->seat) - replay->base_ns) / 1000;
    if (due_us > now_us)
        (void)kit_room_wait(replay->room, never, NULL, (uint64_t)(due_us - now_us) / 1000);
}

/* -- one life ---------------------------------------------------------------------------------- */

/* The handshake that the trace does not have. */
static void greet(struct replay *replay)
{
    const struct trace *trace = replay->parts->trace;
    kg_auto(kg_buf_free) struct kg_buf config = {0};
    replay->greeted = true;
    if (replay->parts->room.manifest->is_mcp) {
        replay->greeting = kit_greeting_new(
            replay->seat, DIALECT_UNKNOWN,
            (uint64_t)replay->parts->room.config->limits_call_timeout_ms, replay_refuse, replay);
        replay_wait_for(replay, (struct wait){.greetings = 1});
        return;
    }
    replay_send_request(replay, "initialize",
                        trace->greeting.length > 0 ? trace->greeting
                                                   : KG_STR("{\"api_version\":1}"),
                        on_greeted, replay);
    replay_wait_for(replay, (struct wait){.greetings = 1});
    if (trace->config.length > 0 && !replay_is_gone(replay)) {
        kg_buf_text(&config, "{\"config\":");
        kg_buf_str(&config, trace->config);
        kg_buf_char(&config, '}');
        replay_send_request(replay, "config.update", kg_buf_view(&config), on_greeted, replay);
        replay_wait_for(replay, (struct wait){.greetings = 2});
    }
    if (!replay_is_gone(replay))
        send_notification(replay, "initialized", KG_STR("{}"));
}

/* A cancel names a request, which has another id now. Nothing is written for what is none. */
static void put_cancelled(const struct replay *replay, const struct kit_event *event,
                          struct kg_buf *out)
{
    bool is_mcp = strcmp(event->method, "notifications/cancelled") == 0;
    struct kg_str id;
    if ((!is_mcp && strcmp(event->method, "kaged.cancel") != 0) ||
        !kg_json_member(event->body, is_mcp ? "requestId" : "id", &id))
        return;
    for (const struct kit_event *at = replay->first; at < event; at++)
        if (at->type == KIT_HOST_ASKS && at->sent && kg_str_equal(at->id, id)) {
            kg_buf_printf(out, "{\"%s\":%llu}", is_mcp ? "requestId" : "id",
                          (unsigned long long)at->sent_id);
            return;
        }
}

static void replay_say(struct replay *replay, struct kit_event *event)
{
    if (replay_is_gone(replay))
        return;
    keep_time(replay, event);
    replay->counts->redacted += event->record->redacted;
    event->sent = true;
    event->sent_ns = kit_seat_ns(replay->seat);
    event->seat = replay->seat;
    if (event->type == KIT_HOST_ASKS) {
        event->sent_id =
            replay_send_request(replay, event->method, event->body, replay_on_answer, event);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf renamed = {0};
    put_cancelled(replay, event, &renamed);
    send_notification(replay, event->method,
                      renamed.length > 0 ? kg_buf_view(&renamed) : event->body);
    if (strcmp(event->method, "shutdown") == 0) {
        peer_close_input(replay->seat->peer);
        replay->shut = true;
    }
}

/* Requests that had no answer when the process ended have none now, if it ends again. */
static void end_life(struct replay *replay, struct kit_event *at)
{
    bool waited = false;
    if (replay->is_over)
        return;
    replay->is_over = true;
    for (struct kit_event *event = replay->first; event < at; event++) {
        if (event->type != KIT_HOST_ASKS || event->pair != NULL || event->judged)
            continue;
        if (!waited && !replay_is_gone(replay))
            (void)kit_seat_wait_exit(replay->seat, GRACE_MS);
        waited = true;
        replay_judge(replay, event);
    }
}

static void play(struct replay *replay, struct kit_event *event)
{
    switch (event->type) {
    case KIT_HOST_ASKS:
    case KIT_HOST_TELLS:
        replay_say(replay, event);
        break;
    case KIT_PLUGIN_ANSWERS:
        if (event->pair->sent && !replay_is_gone(replay))
            replay_wait_for(replay, (struct wait){.asked = event->pair});
        replay_judge(replay, event->pair);
        break;
    case KIT_ENDED:
        end_life(replay, event);
        break;
    case KIT_CUT:
        replay->has_gap = true;
        pass_over(replay, event, "its line was cut when it was recorded");
        break;
    case KIT_GAP:
        replay->has_gap = true;
        replay->counts->missed += event->record->count;
        break;
    case KIT_HOST_ANSWERS:
    case KIT_PLUGIN_ASKS:
        break; /* when it asks again */
    }
}

/* It is told to leave as the daemon would, and killed if it does not. */
static void dismiss(struct replay *replay)
{
    const char *shutdown = kit_dialect(replay->room)->shutdown;
    if (!replay_is_gone(replay) && !replay->shut) {
        if (shutdown != NULL)
            send_notification(replay, shutdown, KG_STR("{}"));
        peer_close_input(replay->seat->peer);
    }
    (void)kit_seat_wait_exit(replay->seat, GRACE_MS);
    kit_seat_free(kg_steal(&replay->seat));
    kit_greeting_free(kg_steal(&replay->greeting));
}

static int play_life(struct replay *replay, struct kg_err *err)
{
    static const struct kit_seat_ops ops = {.on_request = replay_on_request};
    replay->asks = replay->first;
    replay->greeted = replay->is_over = replay->has_gap = replay->shut = replay->hung = false;
    replay->base_ns = 0;
    replay->greetings = 0;
    replay->seat = kit_seat_new(replay->room, &ops, replay, err);
    if (replay->seat == NULL)
        return -EINVAL;
    peer_set_phase(replay->seat->peer, PEER_OPEN); /* the trace says what comes when */
    if (!replay->first->starts)
        greet(replay);
    for (struct kit_event *event = replay->first; event < replay->end && !replay->room->interrupted;
         event++)
        play(replay, event);
    for (struct kit_event *event = replay->first; event < replay->end; event++)
        if (event->type == KIT_HOST_ASKS && !event->judged && event->sent)
            replay_judge(replay, event);
    dismiss(replay);
    return 0;
}

/* -- all of it --------------------------------------------------------------------------------- */

static bool is_worth_playing(const struct kit_event *from, const struct kit_event *to)
{
    while (from < to && from->type != KIT_HOST_ASKS)
        from++;
    return from < to;
}

static int play_all(struct replay *replay, struct kg_err *err)
{
    struct kit_event *at = replay->events.items, *end = at + replay->events.count;
    int result = 0;
    while (at < end && result == 0) {
        replay->first = at++;
        while (at < end && !at->starts)
            at++;
        replay->end = at;
        if (is_worth_playing(replay->first, replay->end))
            result = play_life(replay, err);
        if (result == 0 && replay->room->interrupted)
            result = kg_fail(err, KG_E_CANCELLED, "interrupted");
    }
    return result;
}

static void replay_find_places(struct replay *replay)
{
    const struct trace *trace = replay->parts->trace;
    const char *project_root = kit_room_project_root(replay->room);
    size_t count = 0;
    replay->config_root =
        kg_format("%s/%s", replay->room->paths.plugin_data_dir, replay->parts->room.manifest->name);
    if (trace->config_root.length > 0)
        replay->places[count++] =
            (struct kit_place){trace->config_root, kg_str(replay->config_root)};
    if (trace->project_root.length > 0 && project_root != NULL)
        replay->places[count++] = (struct kit_place){trace->project_root, kg_str(project_root)};
}

int kit_replay(const struct kit_replay_parts *parts, struct kit_replay_counts *ret_counts,
               struct kg_err *err)
{
    struct replay replay = {.parts = parts, .counts = ret_counts};
    *ret_counts = (struct kit_replay_counts){0};
    replay.room = kit_room_new(&parts->room, err);
    if (replay.room == NULL)
        return -EINVAL;
    kit_events_read(parts->trace, &replay.events);
    replay_find_places(&replay);
    int result = play_all(&replay, err);
    kit_room_free(replay.room);
    kit_events_free(&replay.events);
    free(replay.config_root);
    return result;
}
