/*
 * What a plugin can ask of the daemon, from any thread and at any time. What it gives is checked
 * and copied here, on its thread; what needs the loop goes there as a message, and no more of them
 * wait than a bound.
 */
#include "native/internal.h"

#include <errno.h>
#include <stdlib.h>

#define TIMEOUT_MS     10000
#define TIMEOUT_MIN_MS 10
#define TIMEOUT_MAX_MS 300000
#define DELAY_MAX_MS   ((uint64_t)366 * 24 * 60 * 60 * 1000)

static struct native_plugin *functions_plugin_of(const struct kaged *kaged)
{
    return KG_CONTAINER(kaged, struct native_plugin, kaged);
}

static int functions_refuse(const struct native_plugin *plugin, const char *function,
                            const char *why)
{
    kg_log(KG_WARN, "system plugin %s: %s: %s", plugin->name, function, why);
    return -EINVAL;
}

static struct kg_str functions_text_of(const char *text, size_t max)
{
    return (struct kg_str){text, text != NULL ? strnlen(text, max) : 0};
}

/* -- what is known here ------------------------------------------------------------------------ */

static void do_log(const struct kaged *kaged, enum kaged_level level, const char *text)
{
    static const enum kg_level levels[] = {KG_DEBUG, KG_INFO, KG_WARN, KG_ERROR_LEVEL};
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_escaped(&line, functions_text_of(text, TEXT_MAX));
    bool known = (size_t)level < KG_COUNT(levels);
    kg_log(known ? levels[level] : KG_INFO, "system plugin %s: %s",
           functions_plugin_of(kaged)->name, kg_buf_terminate(&line));
}

static const char *do_config(const struct kaged *kaged)
{
    return functions_plugin_of(kaged)->config;
}

static const char *do_setting(const struct kaged *kaged, const char *name)
{
    const struct native_plugin *plugin = functions_plugin_of(kaged);
    for (size_t i = 0; i < plugin->setting_count; i++)
        if (strcmp(plugin->settings[i].name, name) == 0)
            return plugin->settings[i].text;
    return NULL;
}

static int do_timer(const struct kaged *kaged, uint64_t delay_ms, void (*on_due)(void *data),
                    void *data)
{
    struct native_plugin *plugin = functions_plugin_of(kaged);
    if (on_due == NULL || delay_ms > DELAY_MAX_MS)
        return functions_refuse(plugin, "timer",
                                "it needs a function, and a delay of at most a year");
    struct native_timer *timer = kg_alloc(sizeof(*timer));
    *timer = (struct native_timer){
        .due_ms = kg_monotonic_ms() + delay_ms, .on_due = on_due, .data = data};
    uv_mutex_lock(&plugin->lock);
    int result = plugin->ending || plugin->ended     ? -ESHUTDOWN
                 : plugin->timer_count >= TIMERS_MAX ? -ENOBUFS
                                                     : 0;
    if (result == 0) {
        struct native_timer **at = &plugin->timers;
        while (*at != NULL && (*at)->due_ms <= timer->due_ms)
            at = &(*at)->next;
        timer->next = *at;
        *at = timer;
        plugin->timer_count++;
        uv_cond_signal(&plugin->wake);
    }
    uv_mutex_unlock(&plugin->lock);
    if (result < 0)
        free(timer);
    return result;
}

/* -- what goes to the loop --------------------------------------------------------------------- */

/* A function that is run there, an audit event, or a request. */
struct errand {
    struct loop_message message;
    struct native_plugin *plugin;
    void (*function)(void *data);
    void *data;
    char *event, *details; /* owned, like the rest; NULL: not of this kind */
    char *method, *url;
    char **headers;
    struct kg_buf body;
    uint64_t timeout_ms;
    struct native_answer *answer; /* to be filled in */
};

static void errand_free(struct errand *errand)
{
    free(errand->event);
    free(errand->details);
    free(errand->method);
    free(errand->url);
    kg_list_free(errand->headers);
    kg_buf_free(&errand->body);
    if (errand->answer != NULL)
        native_answer_free(errand->answer);
    free(errand);
}

/* Takes the errand, whatever comes of it. */
static int send_errand(struct native_plugin *plugin, struct errand *errand,
                       void (*deliver)(struct loop_message *message))
{
    bool is_request = errand->answer != NULL;
    errand->plugin = plugin;
    errand->message.deliver = deliver;
    uv_mutex_lock(&plugin->lock);
    int result = plugin->loop == NULL || plugin->ended            ? -ESHUTDOWN
                 : plugin->posted >= POSTED_MAX                   ? -ENOBUFS
                 : is_request && plugin->requests >= REQUESTS_MAX ? -ENOBUFS
                                                                  : 0;
    if (result == 0) {
        plugin->posted++;
        plugin->requests += is_request;
        loop_post(plugin->loop, &errand->message);
    }
    uv_mutex_unlock(&plugin->lock);
    if (result < 0)
        errand_free(errand);
    return result;
}

/* Its first step on the loop; false: the daemon listens no more. */
static bool arrive(struct errand *errand)
{
    struct native_plugin *plugin = errand->plugin;
    uv_mutex_lock(&plugin->lock);
    plugin->posted--;
    uv_mutex_unlock(&plugin->lock);
    return plugin->native != NULL;
}

static void on_function(struct loop_message *message)
{
    struct errand *errand = KG_CONTAINER(message, struct errand, message);
    if (arrive(errand)) {
        uint64_t began_ms = kg_monotonic_ms();
        native_call_begin(errand->plugin, DOING_LOOP, "a function on the loop");
        errand->function(errand->data);
        native_call_end(errand->plugin, DOING_LOOP, "a function on the loop", began_ms);
    }
    errand_free(errand);
}

static int do_run_on_loop(const struct kaged *kaged, void (*function)(void *data), void *data)
{
    struct native_plugin *plugin = functions_plugin_of(kaged);
    if (function == NULL)
        return functions_refuse(plugin, "run_on_loop", "it needs a function");
    struct errand *errand = kg_alloc(sizeof(*errand));
    errand->function = function;
    errand->data = data;
    return send_errand(plugin, errand, on_function);
}

static void on_audit(struct loop_message *message)
{
    struct errand *errand = KG_CONTAINER(message, struct errand, message);
    if (arrive(errand))
        audit_emit(native_audit(errand->plugin->native), AUDIT_SYSTEM_PLUGIN_EVENT, KG_STR_NULL,
                   AUDIT_V_TEXT(errand->plugin->name), AUDIT_V_TEXT(errand->event),
                   errand->details != NULL ? AUDIT_V_RAW(kg_str(errand->details)) : AUDIT_V_NULL);
    errand_free(errand);
}

static int do_audit(const struct kaged *kaged, const char *event, const char *details)
{
    struct native_plugin *plugin = functions_plugin_of(kaged);
    struct kg_str name = functions_text_of(event, TEXT_MAX),
                  object = functions_text_of(details, DETAILS_MAX + 1);
    if (name.length == 0 || name.length == TEXT_MAX || !kg_str_is_plain(name))
        return functions_refuse(plugin, "audit", "the event needs a name of plain text");
    if (details != NULL &&
        (object.length > DETAILS_MAX || object.length == 0 || object.data[0] != '{' ||
         memchr(object.data, '\n', object.length) != NULL ||
         kg_json_check(object, NULL) != KG_JSON_OK))
        return functions_refuse(plugin, "audit",
                                "details are not a JSON object of one line and at most 4096 bytes");
    struct errand *errand = kg_alloc(sizeof(*errand));
    errand->event = kg_str_dup(name);
    errand->details = details != NULL ? kg_str_dup(object) : NULL;
    return send_errand(plugin, errand, on_audit);
}

/* -- requests ---------------------------------------------------------------------------------- */

static void functions_on_fetched(void *data, const struct fetch_answer *fetched)
{
    struct errand *errand = data;
    struct native_answer *answer = kg_steal(&errand->answer);
    answer->status = fetched->status;
    kg_buf_utf8(&answer->body, fetched->body);
    kg_buf_text(&answer->error, fetched->error);
    native_plugin_answer(errand->plugin, answer);
    errand_free(errand);
}

static struct fetch_request functions_request_of(const struct errand *errand, const char *whose)
{
    return (struct fetch_request){
        .whose = whose,
        .method = errand->method,
        .url = errand->url,
        .headers = errand->headers,
        .body = kg_buf_view(&errand->body),
        .timeout_ms = errand->timeout_ms,
        .answer_max = ANSWER_KEPT,
    };
}

static void functions_on_request(struct loop_message *message)
{
    struct errand *errand = KG_CONTAINER(message, struct errand, message);
    struct native_plugin *plugin = errand->plugin;
    struct kg_err err = {0};
    if (!arrive(errand)) {
        errand_free(errand);
        return;
    }
    const struct fetch_request request = functions_request_of(errand, plugin->name);
    struct fetch_call *call; /* nobody cancels it */
    if (fetch_ask(native_fetch(plugin->native), &request, functions_on_fetched, errand, &call,
                  &err) < 0)
        functions_on_fetched(errand, &(struct fetch_answer){.error = err.message});
}

/* What the plugin's header knew of the request; a shorter one ends in nothing. */
static struct kaged_http_request known_part(const struct kaged_http_request *given)
{
    struct kaged_http_request request = {0};
    memcpy(&request, given, given->size < sizeof(request) ? given->size : sizeof(request));
    return request;
}

static void fill_request(struct errand *errand, const struct kaged_http_request *given)
{
    static const char *const none[] = {NULL};
    bool has_body = given->body != NULL;
    errand->method = kg_strdup(given->method != NULL ? given->method : has_body ? "POST" : "GET");
    errand->url = kg_strdup(given->url);
    errand->headers = kg_list_copy(given->headers != NULL ? given->headers : none);
    if (has_body)
        kg_buf_str(&errand->body, functions_text_of(given->body, FETCH_BODY_BYTES + 1));
    errand->timeout_ms = given->timeout_ms != 0 ? given->timeout_ms : TIMEOUT_MS;
}

static int do_http(const struct kaged *kaged, const struct kaged_http_request *given,
                   void (*on_answer)(void *data, const struct kaged_http_answer *answer),
                   void *data)
{
    struct native_plugin *plugin = functions_plugin_of(kaged);
    struct kg_err err;
    if (given == NULL || given->size < offsetof(struct kaged_http_request, method))
        return functions_refuse(plugin, "http", "the request does not say its size");
    const struct kaged_http_request known = known_part(given);
    if (known.url == NULL)
        return functions_refuse(plugin, "http", "the request has no url");
    struct errand *errand = kg_alloc(sizeof(*errand));
    fill_request(errand, &known);
    const struct fetch_request request = functions_request_of(errand, plugin->name);
    bool in_time = errand->timeout_ms >= TIMEOUT_MIN_MS && errand->timeout_ms <= TIMEOUT_MAX_MS;
    if (!in_time || fetch_check(&request, &err) < 0) {
        errand_free(errand);
        return functions_refuse(plugin, "http",
                                in_time ? err.message : "timeout_ms must be from 10 to 300000");
    }
    errand->answer = kg_alloc(sizeof(*errand->answer));
    errand->answer->on_answer = on_answer;
    errand->answer->data = data;
    return send_errand(plugin, errand, functions_on_request);
}

void native_functions_fill(struct kaged *kaged)
{
    *kaged = (struct kaged){
        .size = sizeof(*kaged),
        .version = KAGED_VERSION,
        .log = do_log,
        .config = do_config,
        .setting = do_setting,
        .field = native_event_field,
        .timer = do_timer,
        .run_on_loop = do_run_on_loop,
        .http = do_http,
        .audit = do_audit,
    };
}
