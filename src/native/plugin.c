/*
 * A plugin and its thread: all of its code runs there, one thing after the other, behind a queue
 * with a bound, so that nobody waits for it. What does not fit into the queue is dropped and
 * counted. Its memory is never freed, see internal.h.
 */
#include "native/internal.h"

#include <pthread.h>
#include <stdlib.h>

#define LOGGED_PER_SEC 1

/* Reachable from here for as long as the process lives. */
static struct native_plugin *kept;

/* -- making it --------------------------------------------------------------------------------- */

/* A string as it is, all else as JSON. */
static char *setting_text(const struct kg_node *node)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (node->type == KG_STRING)
        return kg_str_dup(node->text);
    kg_json_put_node(&text, node);
    return kg_str_dup(kg_buf_view(&text));
}

static void native_plugin_take_config(struct native_plugin *plugin, const struct kg_node *config)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    size_t count = config != NULL ? config->count : 0;
    plugin->settings = kg_alloc_array(count + 1, sizeof(*plugin->settings));
    plugin->setting_count = count;
    for (size_t i = 0; i < count; i++)
        plugin->settings[i] = (struct native_setting){kg_str_dup(config->members[i].key),
                                                      setting_text(&config->members[i].value)};
    if (config != NULL)
        kg_json_put_node(&text, config);
    plugin->config = config != NULL ? kg_str_dup(kg_buf_view(&text)) : kg_strdup("{}");
}

struct native_plugin *native_plugin_new(struct native *native, struct loop *loop,
                                        const struct local_system_plugin *table)
{
    struct native_plugin *plugin = kg_alloc(sizeof(*plugin));
    native_functions_fill(&plugin->kaged);
    plugin->native = native;
    plugin->loop = loop;
    plugin->name = kg_str_dup(table->name);
    plugin->path = kg_str_dup(table->path);
    plugin->required = table->required;
    plugin->doing.fd = -1;
    plugin->events_tail = &plugin->events;
    plugin->answers_tail = &plugin->answers;
    native_plugin_take_config(plugin, table->config);
    if (uv_mutex_init(&plugin->lock) || uv_cond_init(&plugin->wake) ||
        uv_cond_init(&plugin->changed))
        abort(); /* as for every thread that is had at start-up */
    plugin->next = kept;
    kept = plugin;
    return plugin;
}

void native_plugin_fail(struct native_plugin *plugin, const struct kg_err *err)
{
    uv_mutex_lock(&plugin->lock);
    plugin->state = NATIVE_FAILED;
    plugin->problem = *err;
    plugin->ended = true;
    uv_mutex_unlock(&plugin->lock);
    plugin->wanted = 0;
}

/* -- calls of its code ------------------------------------------------------------------------- */

void native_call_begin(struct native_plugin *plugin, enum doing_where where, const char *what)
{
    doing_begin(&plugin->doing, where, what);
    if (where != DOING_THREAD)
        return;
    uv_mutex_lock(&plugin->lock);
    kg_str_copy(kg_str(what), plugin->now, sizeof(plugin->now));
    plugin->now_since_ms = kg_monotonic_ms();
    plugin->now_told = false;
    uv_mutex_unlock(&plugin->lock);
}

/* Under the lock. */
static void note_slow(struct native_plugin *plugin, const char *what, uint64_t took_ms)
{
    uint32_t more = 0;
    plugin->slow++;
    if (took_ms >= plugin->slowest_ms) {
        plugin->slowest_ms = took_ms;
        kg_str_copy(kg_str(what), plugin->slowest, sizeof(plugin->slowest));
    }
    if (kg_rate_pass(&plugin->slow_logged, LOGGED_PER_SEC, kg_monotonic_ms(), &more))
        kg_log(KG_WARN, "system plugin %s: %s took %llu ms, more than %d", plugin->name, what,
               (unsigned long long)took_ms, SLOW_MS);
}

void native_call_end(struct native_plugin *plugin, enum doing_where where, const char *what,
                     uint64_t began_ms)
{
    uint64_t took_ms = kg_monotonic_ms() - began_ms;
    doing_end(&plugin->doing, where);
    uv_mutex_lock(&plugin->lock);
    plugin->calls++;
    if (where == DOING_THREAD)
        plugin->now[0] = '\0';
    if (took_ms > SLOW_MS)
        note_slow(plugin, what, took_ms);
    uv_mutex_unlock(&plugin->lock);
}

bool native_plugin_look(struct native_plugin *plugin)
{
    uv_mutex_lock(&plugin->lock);
    bool is_busy = plugin->now[0] != '\0';
    uint64_t since_ms = is_busy ? kg_monotonic_ms() - plugin->now_since_ms : 0;
    if (since_ms > SLOW_MS && !plugin->now_told) {
        plugin->now_told = true;
        kg_log(KG_WARN, "system plugin %s: it has been in %s for %llu ms; what follows waits",
               plugin->name, plugin->now, (unsigned long long)since_ms);
    }
    uv_mutex_unlock(&plugin->lock);
    return is_busy;
}

static void run_hook(struct native_plugin *plugin, struct native_event *event)
{
    kaged_hook *hook = native_hook_of(plugin->table, event->hook);
    char what[DOING_TEXT];
    uint64_t began_ms = kg_monotonic_ms();
    if (hook != NULL) {
        snprintf(what, sizeof(what), "hook %s", native_hook_rows[event->hook].name);
        native_call_begin(plugin, DOING_THREAD, what);
        hook(plugin->own_state, &event->public);
        native_call_end(plugin, DOING_THREAD, what, began_ms);
    }
    native_event_free(event);
}

static void run_answer(struct native_plugin *plugin, struct native_answer *answer)
{
    uint64_t began_ms = kg_monotonic_ms();
    const struct kaged_http_answer public = {
        .size = sizeof(public),
        .status = answer->status,
        .body = kg_buf_terminate(&answer->body),
        .body_length = answer->body.length,
        .error = kg_buf_terminate(&answer->error),
    };
    if (answer->on_answer != NULL) {
        native_call_begin(plugin, DOING_THREAD, "answer to http");
        answer->on_answer(answer->data, &public);
        native_call_end(plugin, DOING_THREAD, "answer to http", began_ms);
    }
    native_answer_free(answer);
}

static void run_timer(struct native_plugin *plugin, struct native_timer *timer)
{
    uint64_t began_ms = kg_monotonic_ms();
    native_call_begin(plugin, DOING_THREAD, "timer");
    timer->on_due(timer->data);
    native_call_end(plugin, DOING_THREAD, "timer", began_ms);
    free(timer);
}

void native_run_stop(struct native_plugin *plugin)
{
    uint64_t began_ms = kg_monotonic_ms();
    if (plugin->table->stop == NULL)
        return;
    native_call_begin(plugin, DOING_THREAD, "stop");
    plugin->table->stop(plugin->own_state);
    native_call_end(plugin, DOING_THREAD, "stop", began_ms);
}

/* -- the thread -------------------------------------------------------------------------------- */

static bool timer_is_due(const struct native_plugin *plugin)
{
    return plugin->timers != NULL && plugin->timers->due_ms <= kg_monotonic_ms();
}

/* Under the lock: waits until there is something to do; false: it is to end, and all is done. */
static bool wait_for_work(struct native_plugin *plugin)
{
    for (;;) {
        if (plugin->answers != NULL || plugin->events != NULL || timer_is_due(plugin))
            return true;
        if (plugin->ending && plugin->requests == 0)
            return false;
        if (plugin->timers == NULL) {
            uv_cond_wait(&plugin->wake, &plugin->lock);
            continue;
        }
        uint64_t now_ms = kg_monotonic_ms(), due_ms = plugin->timers->due_ms;
        if (due_ms > now_ms)
            uv_cond_timedwait(&plugin->wake, &plugin->lock, (due_ms - now_ms) * 1000000);
    }
}

static struct native_answer *native_plugin_take_answer(struct native_plugin *plugin)
{
    struct native_answer *answer = plugin->answers;
    if (answer == NULL)
        return NULL;
    plugin->answers = answer->next;
    if (plugin->answers == NULL)
        plugin->answers_tail = &plugin->answers;
    plugin->requests--;
    return answer;
}

static struct native_timer *take_timer(struct native_plugin *plugin)
{
    struct native_timer *timer = timer_is_due(plugin) ? plugin->timers : NULL;
    if (timer != NULL) {
        plugin->timers = timer->next;
        plugin->timer_count--;
    }
    return timer;
}

static bool is_common(enum native_hook hook)
{
    return hook == NATIVE_TRANSPORT_CONNECTED || hook == NATIVE_TRANSPORT_REQUEST ||
           hook == NATIVE_TRANSPORT_CLOSED;
}

static struct native_event *native_plugin_take_event(struct native_plugin *plugin)
{
    struct native_event *event = plugin->events;
    if (event == NULL)
        return NULL;
    plugin->events = event->next;
    if (plugin->events == NULL)
        plugin->events_tail = &plugin->events;
    plugin->event_count--;
    plugin->common_count -= is_common(event->hook);
    return event;
}

static void native_plugin_serve(struct native_plugin *plugin)
{
    for (;;) {
        struct native_answer *answer = NULL;
        struct native_timer *timer = NULL;
        struct native_event *event = NULL;
        uv_mutex_lock(&plugin->lock);
        bool goes_on = wait_for_work(plugin);
        if (goes_on && (answer = native_plugin_take_answer(plugin)) == NULL &&
            (timer = take_timer(plugin)) == NULL)
            event = native_plugin_take_event(plugin);
        uv_mutex_unlock(&plugin->lock);
        if (!goes_on)
            return;
        if (answer != NULL)
            run_answer(plugin, answer);
        else if (timer != NULL)
            run_timer(plugin, timer);
        else if (event != NULL)
            run_hook(plugin, event);
    }
}

struct news {
    struct loop_message message;
    struct native_plugin *plugin;
    void (*tell)(struct native_plugin *plugin);
};

static void on_news(struct loop_message *message)
{
    struct news *news = KG_CONTAINER(message, struct news, message);
    if (news->plugin->native != NULL)
        news->tell(news->plugin);
    free(news);
}

/* Posts to the loop if that still listens: then the message is the loop's. */
static bool native_post(struct native_plugin *plugin, struct loop_message *message)
{
    uv_mutex_lock(&plugin->lock);
    bool is_open = plugin->loop != NULL;
    if (is_open)
        loop_post(plugin->loop, message);
    uv_mutex_unlock(&plugin->lock);
    return is_open;
}

static void tell_loop(struct native_plugin *plugin, void (*tell)(struct native_plugin *plugin))
{
    struct news *news = kg_alloc(sizeof(*news));
    *news = (struct news){.message.deliver = on_news, .plugin = plugin, .tell = tell};
    if (!native_post(plugin, &news->message))
        free(news);
}

static void native_plugin_work(void *data)
{
    struct native_plugin *plugin = data;
    struct kg_err err = {0};
    pthread_setname_np(pthread_self(), "kaged-native");
    bool is_loaded = native_load(plugin, &err) == 0;
    uv_mutex_lock(&plugin->lock);
    plugin->state = is_loaded ? NATIVE_RUNNING : NATIVE_FAILED;
    plugin->problem = err;
    uv_cond_broadcast(&plugin->changed);
    uv_mutex_unlock(&plugin->lock);
    tell_loop(plugin, native_on_loaded);
    if (is_loaded) {
        native_plugin_serve(plugin);
        native_run_stop(plugin);
    }
    uv_mutex_lock(&plugin->lock);
    plugin->state = is_loaded ? NATIVE_STOPPED : NATIVE_FAILED;
    plugin->ended = true;
    uv_mutex_unlock(&plugin->lock);
    tell_loop(plugin, native_on_ended);
}

void native_plugin_begin(struct native_plugin *plugin)
{
    if (uv_thread_create(&plugin->thread, native_plugin_work, plugin))
        abort(); /* no thread can be had at start-up */
    plugin->has_thread = true;
}

/* -- from the loop ----------------------------------------------------------------------------- */

void native_plugin_tell(struct native_plugin *plugin, struct native_event *event)
{
    bool common = is_common(event->hook);
    uint32_t more = 0;
    uv_mutex_lock(&plugin->lock);
    bool fits = plugin->event_count < QUEUE_MAX && !plugin->ending && !plugin->ended &&
                (!common || plugin->common_count < QUEUE_COMMON);
    if (fits) {
        *plugin->events_tail = event;
        plugin->events_tail = &event->next;
        plugin->event_count++;
        plugin->common_count += common;
        uv_cond_signal(&plugin->wake);
    } else if (!plugin->ended) {
        plugin->dropped++;
        if (kg_rate_pass(&plugin->dropped_logged, LOGGED_PER_SEC, kg_monotonic_ms(), &more))
            kg_log(KG_WARN, "system plugin %s: it does not keep up: %s was dropped, %llu so far",
                   plugin->name, native_hook_rows[event->hook].name,
                   (unsigned long long)plugin->dropped);
    }
    uv_mutex_unlock(&plugin->lock);
    if (!fits)
        native_event_free(event);
}

void native_plugin_answer(struct native_plugin *plugin, struct native_answer *answer)
{
    uv_mutex_lock(&plugin->lock);
    bool is_heard = !plugin->ended && !plugin->left_behind;
    if (is_heard) {
        *plugin->answers_tail = answer;
        plugin->answers_tail = &answer->next;
        uv_cond_signal(&plugin->wake);
    }
    uv_mutex_unlock(&plugin->lock);
    if (!is_heard)
        native_answer_free(answer);
}

void native_answer_free(struct native_answer *answer)
{
    kg_buf_free(&answer->body);
    kg_buf_free(&answer->error);
    free(answer);
}

void native_plugin_end(struct native_plugin *plugin)
{
    uv_mutex_lock(&plugin->lock);
    plugin->ending = true;
    uv_cond_signal(&plugin->wake);
    uv_mutex_unlock(&plugin->lock);
}

/* What was not run is not kept, either. */
static void drop_work(struct native_plugin *plugin)
{
    while (plugin->events != NULL)
        native_event_free(native_plugin_take_event(plugin));
    for (struct native_answer *answer; (answer = native_plugin_take_answer(plugin)) != NULL;)
        native_answer_free(answer);
    while (plugin->timers != NULL) {
        struct native_timer *timer = plugin->timers;
        plugin->timers = timer->next;
        free(timer);
    }
}

void native_plugin_close(struct native_plugin *plugin)
{
    uv_mutex_lock(&plugin->lock);
    bool ended = plugin->ended;
    plugin->loop = NULL;
    plugin->ending = true;
    plugin->left_behind = !ended;
    if (!ended)
        kg_log(KG_WARN, "system plugin %s: it does not return from %s, and is left behind",
               plugin->name, plugin->now[0] != '\0' ? plugin->now : "its thread");
    if (ended)
        drop_work(plugin);
    uv_cond_signal(&plugin->wake);
    uv_mutex_unlock(&plugin->lock);
    if (ended && plugin->has_thread)
        uv_thread_join(&plugin->thread);
    if (ended)
        doing_close(&plugin->doing);
    else
        doing_end(&plugin->doing, DOING_THREAD); /* it is not a crash; its thread has the file */
}
