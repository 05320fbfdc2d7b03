/*
 * Between an instance and the dialect that its process speaks: what the dialect asks of us, and
 * what the peer hears for it. Nothing here knows a method by its name.
 */
#include "supervisor/internal.h"

#include <stdio.h>

/* -- for the dialect --------------------------------------------------------------------------- */

static void supervisor_talk_on_ready(void *data)
{
    struct instance *instance = data;
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_INITIALIZED, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_INT((int64_t)kg_list_count(instance->methods)),
               AUDIT_V_INT((int64_t)kg_list_count(instance->capabilities)));
    instance_raise(instance, ON_READY);
    if (instance->talk.config_again && instance->state == INSTANCE_RUNNING)
        talk_configure(instance);
}

static void supervisor_talk_on_failed(void *data, bool mend, const char *words)
{
    instance_end(data, EXIT_HANDSHAKE, ENDING_KILL, mend ? ON_REJECT : ON_CRASH, "%s", words);
}

static void supervisor_talk_on_configured(void *data)
{
    struct instance *instance = data;
    instance->ops.on_configured(instance->data);
}

static bool supervisor_talk_serve(void *data, int64_t request, struct kg_str method,
                                  struct kg_str params)
{
    struct instance *instance = data;
    return instance->ops.on_request(instance->data, request, method, params);
}

static bool supervisor_talk_has_storage(void *data)
{
    struct instance *instance = data;
    return instance->ops.has_storage(instance->data);
}

static bool supervisor_talk_may_claim(void *data, struct kg_str capability)
{
    struct instance *instance = data;
    return instance->ops.may_claim(instance->data, capability);
}

static bool supervisor_talk_is_tool(void *data, struct kg_str method)
{
    const struct instance *instance = data;
    return instance->ops.is_tool(instance->data, method);
}

static bool supervisor_talk_may_notify(void *data, struct kg_str type)
{
    const struct instance *instance = data;
    return instance->ops.may_notify(instance->data, type);
}

static void supervisor_talk_put_projects(void *data, struct kg_json_writer *json)
{
    struct instance *instance = data;
    instance->ops.put_projects(instance->data, json);
}

static bool supervisor_talk_put_roots(void *data, struct kg_json_writer *json_or_null)
{
    struct instance *instance = data;
    return instance->ops.put_roots(instance->data, json_or_null);
}

static void supervisor_talk_on_tools(void *data)
{
    struct instance *instance = data;
    instance->ops.on_tools(instance->data);
}

static void supervisor_talk_on_log(void *data, struct kg_str line, struct kg_str message)
{
    struct instance *instance = data;
    plugin_log_say(instance->log, line);
    instance->ops.on_log(instance->data, message);
}

static bool supervisor_talk_may_request(void *data, struct kg_str method)
{
    struct instance *instance = data;
    return instance->ops.may_request != NULL && instance->ops.may_request(instance->data, method);
}

static bool on_input(void *data, struct dialect_input *input)
{
    struct instance *instance = data;
    return instance->ops.on_input(instance->data, input);
}

static void drop_input(void *data, struct dialect_input *input)
{
    struct instance *instance = data;
    instance->ops.drop_input(instance->data, input);
}

static const struct dialect_ops dialect_ops = {
    .on_ready = supervisor_talk_on_ready,
    .on_failed = supervisor_talk_on_failed,
    .on_request = supervisor_talk_serve,
    .on_configured = supervisor_talk_on_configured,
    .has_storage = supervisor_talk_has_storage,
    .may_claim = supervisor_talk_may_claim,
    .is_tool = supervisor_talk_is_tool,
    .may_notify = supervisor_talk_may_notify,
    .put_projects = supervisor_talk_put_projects,
    .put_roots = supervisor_talk_put_roots,
    .on_tools = supervisor_talk_on_tools,
    .on_log = supervisor_talk_on_log,
    .may_request = supervisor_talk_may_request,
    .on_input = on_input,
    .drop_input = drop_input,
};

void talk_set_spec(struct instance *instance, const struct instance_spec *spec)
{
    struct dialect_talk *talk = &instance->talk;
    talk->dialect = spec->dialect;
    talk->variant = spec->variant;
    talk->ops = &dialect_ops;
    talk->data = instance;
    talk->loop = instance->supervisor->loop;
    talk->audit = instance->supervisor->audit;
    talk->name = instance->name;
    talk->plugin = instance->plugin;
    talk->version = instance->version;
    talk->methods = instance->methods;
    talk->capabilities = instance->capabilities;
    talk->method_offered = instance->method_offered;
    talk->config.length = 0;
    kg_buf_str(&talk->config, spec->config);
}

void talk_begin(struct instance *instance)
{
    instance->talk.peer = instance->peer;
    instance->talk.config_asked = false;
    instance->talk.config_refused.length = 0;
    instance->talk.config_taken.length = 0;
    kg_buf_str(&instance->talk.config_taken, kg_buf_view(&instance->talk.config));
    instance->talk.timeout_ms = instance->supervisor->limits.initialize_timeout_ms;
    dialect_begin(&instance->talk);
}

void talk_configure(struct instance *instance)
{
    if (instance->talk.dialect->configure != NULL)
        instance->talk.dialect->configure(&instance->talk);
}

void instance_put_greeting(struct instance *instance, struct kg_buf *ret_json)
{
    if (instance->talk.dialect->put_greeting != NULL)
        instance->talk.dialect->put_greeting(&instance->talk, ret_json);
    else
        kg_buf_str(ret_json, KG_STR("{}"));
}

/* -- what the child says ----------------------------------------------------------------------- */

/*
 * While the audit log cannot be written, what a plugin says unasked is passed over and counted: it
 * must neither grow our memory nor keep us from reading its answers.
 */
#define NEWS_BURST       1000 /* notifications that are told one by one, */
#define NEWS_REFILL_MS   1000 /* and one more after each of these */
#define COMPLAINTS_BURST 600  /* the same of what it does wrong */
#define COMPLAINTS_MS    10000

bool talk_audit_takes_more(struct instance *instance)
{
    struct audit *audit = instance->supervisor->audit;
    if (!audit_ready(audit, NULL))
        return false;
    if (instance->unaudited > 0)
        audit_emit(audit, AUDIT_PLUGIN_NOTIFICATION_FLOOD, KG_STR_NULL,
                   AUDIT_V_TEXT(instance->name), AUDIT_V_INT(instance->unaudited));
    instance->unaudited = 0;
    return true;
}

static void supervisor_talk_on_request(void *data, int64_t request, struct kg_str method,
                                       struct kg_str params)
{
    struct instance *instance = data;
    struct dialect_talk *talk = &instance->talk;
    if (talk->dialect->on_request != NULL
            ? talk->dialect->on_request(talk, request, method, params)
            : supervisor_talk_serve(instance, request, method, params))
        return;
    char message[RPC_METHOD_MAX + 64];
    snprintf(message, sizeof(message), "kaged has no method %.*s", KG_STR_ARG(method));
    peer_answer_error(instance->peer, request, kg_error_row(KG_E_METHOD_NOT_FOUND)->rpc_code,
                      message);
}

static void tell_news(struct instance *instance, struct kg_str method, struct kg_str params)
{
    if (!talk_audit_takes_more(instance)) {
        instance->unaudited++;
        return;
    }
    if (kg_burst_pass(&instance->news, NEWS_BURST, NEWS_REFILL_MS,
                      loop_now_ms(instance->supervisor->loop))) {
        audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_NOTIFICATION, KG_STR_NULL,
                   AUDIT_V_TEXT(instance->name), AUDIT_V_STR(method), AUDIT_V_INT(0));
    } else {
        instance->unheard++;
        instance->unheard_type.length = 0;
        kg_buf_str(&instance->unheard_type, method);
        instance_counted(instance);
    }
    instance->ops.on_notification(instance->data, method, params);
}

void talk_tell_counts(struct instance *instance)
{
    if (instance->unheard == 0)
        return;
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_NOTIFICATION, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_STR(kg_buf_view(&instance->unheard_type)),
               AUDIT_V_INT(instance->unheard - 1)); /* it was counted itself */
    instance->unheard = 0;
}

static void on_flood(void *data, uint32_t notifications)
{
    struct instance *instance = data;
    kg_log_about(KG_WARN, instance->name, "sent %u notifications in a second; some were dropped",
                 notifications);
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_NOTIFICATION_FLOOD, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_INT(notifications));
}

bool instance_may_complain(struct instance *instance, uint32_t *ret_suppressed)
{
    uint64_t now_ms = loop_now_ms(instance->supervisor->loop);
    uint32_t dropped;
    if (!talk_audit_takes_more(instance))
        return false;
    bool passes = kg_rate_pass(&instance->noise, instance->supervisor->limits.noise_events_per_sec,
                               now_ms, &dropped);
    instance->uncomplained += dropped;
    if (!passes)
        return false;
    if (!kg_burst_pass(&instance->complaints, COMPLAINTS_BURST, COMPLAINTS_MS, now_ms)) {
        instance->uncomplained++;
        return false;
    }
    *ret_suppressed = instance->uncomplained;
    instance->uncomplained = 0;
    return true;
}

static void supervisor_talk_on_noise(void *data, struct kg_str line, const char *problem)
{
    struct instance *instance = data;
    uint32_t suppressed;
    if (!instance_may_complain(instance, &suppressed))
        return;
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    redact_put(instance->secrets, line, false, &shown);
    line = kg_buf_view(&shown);
    if (line.length > 200)
        line.length = 200;
    kg_log_about(KG_WARN, instance->name, "stdout: %s: %.*s", problem, KG_STR_ARG(line));
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_STDOUT_NOISE, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_STR(line), AUDIT_V_INT(suppressed));
}

static void refuse_news(struct instance *instance, struct kg_str type)
{
    uint32_t suppressed;
    if (!instance_may_complain(instance, &suppressed))
        return;
    kg_log_about(KG_WARN, instance->name, "its manifest does not declare the notification %.*s",
                 KG_STR_CUT(type, KG_CUT_PATH));
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_NOTIFICATION_REFUSED, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_STR(type), AUDIT_V_INT(suppressed));
}

static void supervisor_talk_on_notification(void *data, struct kg_str method, struct kg_str params)
{
    struct instance *instance = data;
    struct dialect_talk *talk = &instance->talk;
    enum dialect_hearing heard = DIALECT_NEWS;
    if (talk->dialect->on_notification != NULL)
        heard = talk->dialect->on_notification(talk, method, params);
    if (heard == DIALECT_NEWS)
        tell_news(instance, method, params);
    else if (heard == DIALECT_NOISE)
        supervisor_talk_on_noise(instance, method, "a notification that means nothing");
    else if (heard == DIALECT_REFUSED)
        refuse_news(instance, method);
}

static void supervisor_talk_on_violation(void *data, enum peer_violation violation,
                                         const char *detail)
{
    struct instance *instance = data;
    uint32_t suppressed;
    bool fatal = instance->talk.dialect->rules.verdicts[violation] == PEER_FATAL;
    if (!fatal && !instance_may_complain(instance, &suppressed))
        return;
    kg_log_about(KG_WARN, instance->name, "protocol violation: %s: %s",
                 peer_violation_name(violation), detail);
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_PROTOCOL_VIOLATION, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_TEXT(peer_violation_name(violation)),
               AUDIT_V_TEXT(detail));
    if (!fatal)
        return;
    instance_end(instance, EXIT_VIOLATION, ENDING_KILL, ON_CRASH, "%s", detail);
    peer_close(instance->peer); /* also when it was on its way out: nothing it says counts now */
}

static void on_hung(void *data, const char *method, uint64_t timeout_ms)
{
    instance_end(data, EXIT_HUNG, ENDING_TERM, ON_CRASH, "%s took longer than %llu ms", method,
                 (unsigned long long)timeout_ms);
}

static void on_stream_grace_over(struct loop_timer *timer)
{
    struct instance *instance = KG_CONTAINER(timer, struct instance, stream_timer);
    instance_end(instance, EXIT_STREAM, ENDING_TERM, ON_CRASH,
                 "the process is still running, but no longer takes messages");
}

/* A closed stream is mostly the first sign of an exit: wait for that a little before acting. */
static void supervisor_talk_on_end(void *data, enum peer_end end)
{
    struct instance *instance = data;
    (void)end;
    if (instance->state != INSTANCE_SPAWNING && instance->state != INSTANCE_RUNNING)
        return;
    loop_timer_start(instance->supervisor->loop, &instance->stream_timer,
                     instance->supervisor->limits.term_timeout_ms / 2, on_stream_grace_over);
}

const struct peer_ops talk_peer_ops = {
    .on_request = supervisor_talk_on_request,
    .on_notification = supervisor_talk_on_notification,
    .on_flood = on_flood,
    .on_noise = supervisor_talk_on_noise,
    .on_violation = supervisor_talk_on_violation,
    .on_hung = on_hung,
    .on_end = supervisor_talk_on_end,
};
