/*
 * One plugin that may run. The instance owns its peer, its log and its timers; the process belongs
 * to the cage, which tells us when it is gone. Every way out of a run ends in instance_on_exited,
 * once.
 *
 *   start -> cage_spawn -> instance_on_spawned -> greeting -> running -> ... -> instance_on_exited
 * -> settle or crash
 */
#include "supervisor/internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* -- what is to run ---------------------------------------------------------------------------- */

static void clear_spec(struct instance *instance)
{
    free(instance->version);
    kg_list_free(instance->methods);
    kg_list_free(instance->capabilities);
    free(instance->method_offered);
}

void instance_set_spec(struct instance *instance, const struct instance_spec *spec)
{
    clear_spec(instance);
    instance->version = kg_strdup(spec->version);
    instance->methods = kg_list_copy(spec->methods);
    instance->capabilities = kg_list_copy(spec->capabilities);
    instance->times = spec->times;
    instance->limits = spec->limits;
    instance->method_offered = kg_alloc_array(kg_list_count(instance->methods) + 1, sizeof(bool));
    talk_set_spec(instance, spec);
}

struct instance *instance_new(struct supervisor *supervisor, const struct instance_spec *spec,
                              const struct instance_ops *ops, void *data)
{
    struct instance *instance = kg_alloc(sizeof(*instance));
    instance->supervisor = supervisor;
    instance->ops = *ops;
    instance->data = data;
    instance->name = kg_strdup(spec->name);
    instance->plugin = kg_strdup(spec->plugin ? spec->plugin : spec->name);
    instance->follow = ON_NOTHING;
    instance->secrets = spec->secrets;
    instance_set_spec(instance, spec);
    instance->log = plugin_log_new(supervisor, spec->name, spec->secrets);
    exit_report_clear(&instance->report);
    exit_report_clear(&instance->last_report);
    return instance;
}

/* -- what is only counted ---------------------------------------------------------------------- */

#define COUNT_MS 10000

static void tell_counts(struct instance *instance)
{
    loop_timer_stop(instance->supervisor->loop, &instance->count_timer);
    walls_tell_counts(instance);
    talk_tell_counts(instance);
}

static void on_count_due(struct loop_timer *timer)
{
    tell_counts(KG_CONTAINER(timer, struct instance, count_timer));
}

void instance_counted(struct instance *instance)
{
    if (!loop_timer_running(&instance->count_timer))
        loop_timer_start(instance->supervisor->loop, &instance->count_timer, COUNT_MS,
                         on_count_due);
}

static void stop_timers(struct instance *instance)
{
    struct loop *loop = instance->supervisor->loop;
    loop_timer_stop(loop, &instance->ending_timer);
    loop_timer_stop(loop, &instance->stream_timer);
    loop_timer_stop(loop, &instance->reset_timer);
    watchdog_end(instance);
    health_end(instance);
}

void instance_free(struct instance *instance)
{
    if (instance == NULL)
        return;
    stop_timers(instance);
    loop_timer_stop(instance->supervisor->loop, &instance->restart_timer);
    explain_forget(instance);
    tell_counts(instance);
    walls_forget(instance);
    kg_buf_free(&instance->unheard_type);
    peer_free(instance->peer);
    plugin_log_free(instance->log);
    exit_report_clear(&instance->report);
    exit_report_clear(&instance->last_report);
    clear_spec(instance);
    kg_buf_free(&instance->talk.config);
    kg_buf_free(&instance->talk.config_told);
    kg_buf_free(&instance->talk.config_taken);
    kg_buf_free(&instance->talk.config_refused);
    kg_list_free(instance->talk.subscriptions);
    free(instance->talk.log_level);
    kg_buf_free(&instance->talk.tools);
    free(instance->name);
    free(instance->plugin);
    free(instance);
}

/* -- the tap ----------------------------------------------------------------------------------- */

static void on_wire_line(void *data, enum peer_way way, struct kg_str line)
{
    struct instance *instance = data;
    instance->tap(instance->tap_data, way == PEER_TO ? INSTANCE_TO : INSTANCE_FROM, line);
}

static void on_stderr_line(void *data, struct kg_str line)
{
    struct instance *instance = data;
    instance->tap(instance->tap_data, INSTANCE_STDERR, line);
}

static void tap_peer(struct instance *instance)
{
    if (instance->peer != NULL)
        peer_set_tap(instance->peer, instance->tap ? on_wire_line : NULL, instance);
}

void instance_set_tap(struct instance *instance, instance_tap_fn *tap_or_null, void *data)
{
    instance->tap = tap_or_null;
    instance->tap_data = data;
    tap_peer(instance);
    plugin_log_set_tap(instance->log, tap_or_null ? on_stderr_line : NULL, instance);
}

/* -- starting ---------------------------------------------------------------------------------- */

static void instance_on_spawned(void *data, pid_t pid, int in_fd, int out_fd, int err_fd)
{
    struct instance *instance = data;
    struct supervisor *supervisor = instance->supervisor;
    instance->peer = peer_new(supervisor->loop, in_fd, out_fd, &supervisor->limits.wire,
                              &talk_peer_ops, instance);
    tap_peer(instance);
    plugin_log_attach(instance->log, err_fd);
    watchdog_begin(instance);
    audit_emit(supervisor->audit, AUDIT_PLUGIN_SPAWNED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
               AUDIT_V_TEXT(instance->version), AUDIT_V_INT(pid),
               AUDIT_V_TEXT(instance->cage_id.text));
    if (instance->state == INSTANCE_SPAWNING)
        talk_begin(instance);
}

/* What is left in the pipes is read first: an answer given just before the exit still counts. */
static void collect_rest(struct instance *instance)
{
    if (instance->peer != NULL) {
        peer_drain(instance->peer);
        struct peer_counters counters = peer_counters(instance->peer);
        instance->past.bytes_in += counters.bytes_in;
        instance->past.bytes_out += counters.bytes_out;
        instance->past.notifications_dropped += counters.notifications_dropped;
        dialect_end(&instance->talk);
        peer_free(instance->peer);
        instance->peer = NULL;
    }
    plugin_log_detach(instance->log);
}

/* bwrap and the shim say on stderr what they could not do, and that is the last thing they say. */
static struct kg_str last_line(const struct kg_buf *text)
{
    size_t end = text->length, start;
    while (end > 0 && text->data[end - 1] == '\n')
        end--;
    for (start = end; start > 0 && text->data[start - 1] != '\n';)
        start--;
    return (struct kg_str){text->data + start, end - start};
}

static enum exit_cause cause_of(const struct cage_exit *how)
{
    if (!how->built)
        return EXIT_CAGE;
    if (how->signal == SIGKILL && how->memory_kills > 0)
        return EXIT_MEMORY;
    return how->signal == SIGSYS ? EXIT_SECCOMP : EXIT_LEFT;
}

static void finish_report(struct instance *instance, const struct cage_exit *how, const char *error)
{
    struct exit_report *report = &instance->report;
    report->at_ms = kg_wall_ms();
    report->exit_code = how->built ? how->exit_code : -1;
    report->signal = how->built ? how->signal : 0;
    plugin_log_tail(instance->log, &report->last_stderr);
    if (report->cause == EXIT_NONE)
        report->cause = cause_of(how);
    limits_report(instance, CAGE_LIMIT_MEMORY, how->memory_kills);
    limits_report(instance, CAGE_LIMIT_PROCESSES, how->fork_refusals);
    if (report->cause == EXIT_SECCOMP)
        audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_SECCOMP_KILLED, KG_STR_NULL,
                   AUDIT_V_TEXT(instance->name), AUDIT_V_INT(how->signal));
    struct kg_str why = kg_str(error);
    if (error == NULL && report->cause == EXIT_CAGE)
        why = last_line(&report->last_stderr);
    if (report->detail[0] == '\0' && why.length > 0)
        snprintf(report->detail, sizeof(report->detail), "%.*s", KG_STR_CUT(why, KG_CUT_CAUSE));
    exit_report_clear(&instance->last_report);
    instance->last_report = *report;
    *report = (struct exit_report){.exit_code = -1};
}

static void instance_on_exited(void *data, const struct cage_exit *how, const char *error_or_null)
{
    struct instance *instance = data;
    instance->child = NULL;
    walls_end(instance);
    collect_rest(instance);
    tell_counts(instance);
    stop_timers(instance); /* after it: what was still in the pipes may have started some */
    instance->started_at_ms = 0;
    finish_report(instance, how, error_or_null);
    instance_raise(instance, ON_EXIT);
}

static void on_limit(void *data, enum cage_limit limit, uint32_t count)
{
    struct instance *instance = data;
    if (talk_audit_takes_more(instance))
        limits_report(instance, limit, count);
}

static const struct cage_child_ops child_ops = {
    .on_spawned = instance_on_spawned,
    .on_exited = instance_on_exited,
    .on_socket = walls_take,
    .on_limit = on_limit,
    .on_denied = walls_denied,
};

static int instance_spawn(struct instance *instance, struct kg_err *err)
{
    struct cage_plan *plan = instance->ops.make_plan(instance->data, err);
    if (plan != NULL)
        instance->child =
            cage_spawn(instance->supervisor->spawner, plan, &child_ops, instance, err);
    if (instance->child != NULL)
        walls_begin(instance, plan);
    cage_plan_free(plan);
    return instance->child != NULL ? 0 : -1;
}

/* What never had a process ended, whatever the reason. */
static void finish_unstarted(struct instance *instance)
{
    const struct cage_exit never_built = {.exit_code = -1};
    instance->started_at_ms = 0;
    finish_report(instance, &never_built, NULL);
}

static void instance_launch(struct instance *instance)
{
    struct kg_err err = {0};
    if (instance_spawn(instance, &err) == 0)
        return;
    kg_log_about(KG_ERROR_LEVEL, instance->name, "start: %s", err.message);
    bool refused = err.code == KG_E_NOT_APPROVED;
    instance->report.cause = refused ? EXIT_REFUSED : EXIT_CAGE;
    snprintf(instance->report.detail, sizeof(instance->report.detail), "%s%s%s", err.message,
             err.hint[0] != '\0' ? "; " : "", err.hint);
    finish_unstarted(instance);
    instance_raise(instance, refused ? ON_REFUSE : ON_CRASH);
}

void instance_prepared(struct instance *instance)
{
    if (!instance->preparing)
        return; /* it was ended meanwhile */
    instance->preparing = false;
    instance_launch(instance);
}

void instance_start(struct instance *instance, enum instance_event event)
{
    (void)event;
    instance->ending = ENDING_NOT;
    instance->follow = ON_NOTHING;
    instance->starts++;
    instance->cage_id = kg_id_new("cage_");
    instance->started_at_ms = kg_wall_ms();
    exit_report_clear(&instance->report);
    instance->report.limits = instance->limits;
    plugin_log_forget(instance->log);
    instance->preparing = !instance->ops.prepare(instance->data);
    if (!instance->preparing)
        instance_launch(instance);
}

static void on_ran_long_enough(struct loop_timer *timer)
{
    instance_forget_failures(KG_CONTAINER(timer, struct instance, reset_timer));
}

void instance_announce(struct instance *instance, enum instance_event event)
{
    (void)event;
    kg_log_about(KG_INFO, instance->name, "running, version %s", instance->version);
    loop_timer_start(instance->supervisor->loop, &instance->reset_timer,
                     instance->supervisor->limits.restart_reset_ms, on_ran_long_enough);
    health_begin(instance);
}

void instance_forget_failures(struct instance *instance)
{
    instance->failures = 0;
}

/* -- ending ------------------------------------------------------------------------------------ */

static void end_step(struct instance *instance);

static void on_ending_due(struct loop_timer *timer)
{
    struct instance *instance = KG_CONTAINER(timer, struct instance, ending_timer);
    if (instance->ending < ENDING_KILL)
        instance->ending++;
    end_step(instance);
}

/* The three steps: ask and close stdin; SIGTERM; SIGKILL. Each has its time. */
static void end_step(struct instance *instance)
{
    struct supervisor *supervisor = instance->supervisor;
    uint64_t wait_ms = 0;
    switch (instance->ending) {
    case ENDING_NOT:
        return;
    case ENDING_SHUTDOWN:
        if (instance->talk.dialect->shutdown != NULL)
            (void)peer_notify(instance->peer, instance->talk.dialect->shutdown, KG_STR("{}"), NULL);
        peer_close_input(instance->peer);
        wait_ms = instance->times.shutdown_timeout_ms;
        break;
    case ENDING_TERM:
        cage_signal(instance->child, SIGTERM);
        wait_ms = supervisor->limits.term_timeout_ms;
        break;
    case ENDING_KILL:
        cage_signal(instance->child, SIGKILL);
        return;
    }
    loop_timer_start(supervisor->loop, &instance->ending_timer, wait_ms, on_ending_due);
}

void instance_begin_ending(struct instance *instance, enum instance_event event)
{
    health_end(instance);
    if (event != ON_END) {
        instance->report.cause = event == ON_STOP   ? EXIT_DAEMON
                                 : event == ON_REST ? EXIT_IDLE
                                                    : EXIT_OPERATOR;
        instance->follow = event == ON_STOP ? ON_NOTHING : event;
        instance->ending = instance->peer != NULL ? ENDING_SHUTDOWN : ENDING_KILL;
    }
    if (!instance->preparing) {
        end_step(instance);
        return;
    }
    instance->preparing = false;
    instance->ending = ENDING_NOT;
    finish_unstarted(instance);
    instance_raise(instance, ON_EXIT);
}

void instance_end(struct instance *instance, enum exit_cause cause, enum ending from,
                  enum instance_event follow, const char *format, ...)
{
    if (instance->child == NULL ||
        (instance->state != INSTANCE_SPAWNING && instance->state != INSTANCE_RUNNING))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(instance->report.detail, sizeof(instance->report.detail), format, args);
    va_end(args);
    instance->report.cause = cause;
    instance->follow = follow;
    instance->ending = from;
    kg_log_about(KG_WARN, instance->name, "ending it: %s", instance->report.detail);
    if (from == ENDING_KILL)
        peer_close(instance->peer);
    instance_raise(instance, ON_END);
}

static void audit_exit(struct instance *instance)
{
    struct audit *audit = instance->supervisor->audit;
    const struct exit_report *report = &instance->last_report;
    if (report->cause == EXIT_LEFT && report->exit_code == 0) {
        audit_emit(audit, AUDIT_PLUGIN_EXITED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
                   AUDIT_V_INT(0), AUDIT_V_STR(kg_buf_view(&report->last_stderr)));
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    exit_report_words(report, &words);
    audit_emit(audit, AUDIT_PLUGIN_CRASHED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
               report->exit_code >= 0 ? AUDIT_V_INT(report->exit_code) : AUDIT_V_NULL,
               report->signal ? AUDIT_V_INT(report->signal) : AUDIT_V_NULL,
               AUDIT_V_STR(kg_buf_view(&words)), AUDIT_V_STR(kg_buf_view(&report->last_stderr)));
    kg_log_about(KG_WARN, instance->name, "%s", kg_buf_terminate(&words));
}

/* The process that we ended is gone. */
void instance_settle(struct instance *instance, enum instance_event event)
{
    (void)event;
    struct audit *audit = instance->supervisor->audit;
    enum instance_event follow = instance->follow;
    enum exit_cause cause = instance->last_report.cause;
    bool asked = cause == EXIT_OPERATOR || cause == EXIT_DAEMON || cause == EXIT_IDLE;
    if (asked && instance->ending == ENDING_KILL)
        audit_emit(audit, AUDIT_PLUGIN_KILLED, KG_STR_NULL, AUDIT_V_TEXT(instance->name));
    else if (asked)
        audit_emit(audit, AUDIT_PLUGIN_STOPPED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
                   AUDIT_V_INT(instance->last_report.exit_code));
    else if (follow != ON_CRASH && follow != ON_REJECT)
        audit_exit(instance); /* the operator was quicker than what was to follow */
    instance->ending = ENDING_NOT;
    instance->follow = ON_NOTHING;
    if (follow != ON_NOTHING)
        instance_raise(instance, follow);
}

/* -- restarts ---------------------------------------------------------------------------------- */

static void on_restart_due(struct loop_timer *timer)
{
    instance_raise(KG_CONTAINER(timer, struct instance, restart_timer), ON_DUE);
}

static uint64_t restart_delay_ms(const struct supervisor_limits *limits, uint32_t failures)
{
    uint64_t delay_ms = limits->restart_delay_ms;
    for (uint32_t i = 1; i < failures && delay_ms < limits->restart_delay_max_ms; i++)
        delay_ms *= 2;
    return delay_ms < limits->restart_delay_max_ms ? delay_ms : limits->restart_delay_max_ms;
}

void instance_count_crash(struct instance *instance, enum instance_event event)
{
    (void)event;
    const struct supervisor_limits *limits = &instance->supervisor->limits;
    struct loop *loop = instance->supervisor->loop;
    uint64_t now_ms = loop_now_ms(loop);
    audit_exit(instance);
    if (instance->failures == 0 ||
        now_ms - instance->first_failure_ms > limits->restart_window_ms) {
        instance->failures = 0;
        instance->first_failure_ms = now_ms;
    }
    instance->failures++;
    instance->last_report.failures = instance->failures;
    if (instance->failures >= limits->restart_failures) {
        instance_raise(instance, ON_EXHAUST);
        return;
    }
    uint64_t delay_ms = restart_delay_ms(limits, instance->failures);
    instance->last_report.restart_at_ms = kg_wall_ms() + (int64_t)delay_ms;
    loop_timer_start(loop, &instance->restart_timer, delay_ms, on_restart_due);
}

void instance_give_up(struct instance *instance, enum instance_event event)
{
    struct audit *audit = instance->supervisor->audit;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    const char *why = event == ON_REJECT   ? "its author must fix it"
                      : event == ON_REFUSE ? "its files are not those that were approved"
                                           : "too many failures";
    if (event == ON_REJECT)
        audit_exit(instance);
    exit_report_words(&instance->last_report, &words);
    kg_log_about(KG_ERROR_LEVEL, instance->name, "failed, and will not be restarted: %s",
                 kg_buf_terminate(&words));
    audit_emit(audit, AUDIT_PLUGIN_FAILED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
               AUDIT_V_INT(instance->failures), AUDIT_V_STR(kg_buf_view(&words)));
    audit_emit(audit, AUDIT_PLUGIN_DISABLED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
               AUDIT_V_TEXT(why), AUDIT_V_NULL);
}

/* -- what the host asks and tells -------------------------------------------------------------- */

void instance_set_config(struct instance *instance, struct kg_str config)
{
    struct dialect_talk *talk = &instance->talk;
    if (kg_str_equal(kg_buf_view(&talk->config), config))
        return;
    talk->config.length = 0;
    kg_buf_str(&talk->config, config);
    if (instance->state == INSTANCE_RUNNING)
        talk_configure(instance);
    else
        talk->config_again = true; /* the handshake may have told it the old one */
}

struct kg_str instance_config(const struct instance *instance)
{
    return kg_buf_view(&instance->talk.config);
}

bool instance_is_configuring(const struct instance *instance)
{
    return instance->talk.config_asked;
}

struct kg_str instance_config_refused(const struct instance *instance)
{
    return kg_buf_view(&instance->talk.config_refused);
}

uint32_t instance_config_refusals(const struct instance *instance)
{
    return instance->talk.config_refusals;
}

void instance_set_limits(struct instance *instance, const struct instance_limits *limits)
{
    instance->limits = *limits;
}

void instance_set_times(struct instance *instance, const struct instance_times *times)
{
    instance->times = *times;
}

void instance_set_failed(struct instance *instance, const char *reason)
{
    instance->state = INSTANCE_FAILED;
    instance->last_report.cause = EXIT_EARLIER;
    instance->last_report.at_ms = kg_wall_ms();
    snprintf(instance->last_report.detail, sizeof(instance->last_report.detail), "%s", reason);
}

void instance_enable(struct instance *instance)
{
    instance_raise(instance, ON_ENABLE);
}

void instance_disable(struct instance *instance)
{
    instance_raise(instance, ON_DISABLE);
}

void instance_rest(struct instance *instance)
{
    instance_raise(instance, ON_REST);
}

void instance_restart(struct instance *instance)
{
    instance_raise(instance, ON_RESTART);
}

void instance_stop(struct instance *instance)
{
    instance_raise(instance, ON_STOP);
}

void instance_kill(struct instance *instance)
{
    instance_stop(instance);
    if (instance->state != INSTANCE_STOPPING)
        return;
    instance->ending = ENDING_KILL;
    end_step(instance);
}

bool instance_has_process(const struct instance *instance)
{
    return instance->child != NULL || instance->preparing;
}

enum instance_state instance_state(const struct instance *instance)
{
    return instance->state;
}

bool instance_is_starting(const struct instance *instance)
{
    return instance->state == INSTANCE_SPAWNING ||
           (instance->state == INSTANCE_STOPPING &&
            (instance->follow == ON_ENABLE || instance->follow == ON_RESTART));
}

struct dialect_talk *instance_talk(struct instance *instance)
{
    return instance->state == INSTANCE_RUNNING ? &instance->talk : NULL;
}

struct kg_str instance_tools(const struct instance *instance)
{
    return kg_buf_view(&instance->talk.tools);
}

void instance_subscribe(struct instance *instance, char *const *uris)
{
    dialect_subscribe(&instance->talk, uris);
}

void instance_set_log_level(struct instance *instance, const char *level)
{
    dialect_set_log_level(&instance->talk, level);
}

enum dialect_variant instance_variant(const struct instance *instance)
{
    return instance->talk.variant;
}

enum instance_method instance_method(const struct instance *instance, struct kg_str method)
{
    for (size_t i = 0; instance->methods[i] != NULL; i++)
        if (kg_str_is(method, instance->methods[i]))
            return instance->method_offered[i] ? METHOD_OFFERED : METHOD_MISSING;
    return METHOD_UNKNOWN;
}

uint32_t instance_start_count(const struct instance *instance)
{
    return instance->starts;
}

void instance_answer(struct instance *instance, uint32_t start, int64_t request,
                     enum peer_answer kind, struct kg_str json)
{
    if (instance->peer != NULL && instance->starts == start)
        peer_answer(instance->peer, request, kind, json);
}

struct instance_facts instance_facts(const struct instance *instance)
{
    struct instance_facts facts = {
        .pid = instance->child ? cage_child_pid(instance->child) : 0,
        .cage_id = instance->child ? instance->cage_id.text : "",
        .started_at_ms = instance->started_at_ms,
        .starts = instance->starts,
        .failures = instance->failures,
        .health_failures = instance->health_failures,
        .limits = instance->child ? instance->report.limits : instance->limits,
        .limits_mode = cage_spawner_limits(instance->supervisor->spawner)->mode,
        .hits = {instance->report.hits[0], instance->report.hits[1]},
        .bytes_in = instance->past.bytes_in,
        .bytes_out = instance->past.bytes_out,
        .notifications_dropped = instance->past.notifications_dropped,
        .net_connections = instance->network ? gate_cage_connections(instance->network) : 0,
        .last_exit = instance->last_report.cause != EXIT_NONE ? &instance->last_report : NULL,
    };
    if (instance->peer != NULL) {
        struct peer_counters counters = peer_counters(instance->peer);
        facts.in_flight = counters.in_flight;
        facts.debts = counters.debts;
        facts.bytes_in += counters.bytes_in;
        facts.bytes_out += counters.bytes_out;
        facts.notifications_dropped += counters.notifications_dropped;
    }
    return facts;
}

pid_t instance_cage_process(const struct instance *instance)
{
    return instance->child ? cage_child_root(instance->child) : 0;
}

void instance_methods(const struct instance *instance,
                      void (*visit)(void *data, const char *method, bool offered), void *data)
{
    for (size_t i = 0; instance->methods[i] != NULL; i++)
        visit(data, instance->methods[i], instance->method_offered[i]);
}

int instance_log_read(struct instance *instance, int64_t after, size_t lines,
                      struct kg_buf *ret_text, int64_t *ret_cursor, struct kg_err *err)
{
    return plugin_log_read(instance->log, after, lines, ret_text, ret_cursor, err);
}
