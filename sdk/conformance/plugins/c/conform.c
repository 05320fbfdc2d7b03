/* The plugin that README.md describes, with the SDK for C. */
#include <kaged-plugin.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct kaged_json *param(struct kaged_call *call, const char *key)
{
    return kaged_json_get(kaged_params(call), key);
}

static int64_t number(struct kaged_call *call, const char *key)
{
    int64_t value = 0;
    kaged_json_int(param(call, key), &value);
    return value;
}

static int reply_with(struct kaged_call *call, const struct kaged_json *value)
{
    kaged_put(kaged_result(call), kaged_json(value));
    return 0;
}

static int echo(struct kaged_call *call)
{
    return reply_with(call, kaged_params(call));
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int keys(struct kaged_call *call)
{
    size_t count = kaged_json_count(kaged_params(call));
    const char **names = calloc(count + 1, sizeof(*names));
    for (size_t i = 0; names != NULL && i < count; i++)
        names[i] = kaged_json_key_at(kaged_params(call), i);
    if (names == NULL)
        return -1;
    qsort(names, count, sizeof(*names), compare);
    kaged_begin_array(kaged_result(call));
    for (size_t i = 0; i < count; i++)
        kaged_put(kaged_result(call), kaged_text(names[i]));
    kaged_end_array(kaged_result(call));
    free(names);
    return 0;
}

static int context(struct kaged_call *call)
{
    const struct kaged_context *who = kaged_context(call);
    return kaged_reply(call, KAGED_FIELDS({"operator_id", kaged_text(who->operator_id)},
                                          {"project_id", kaged_text(who->project_id)},
                                          {"agent_path", kaged_text(who->agent_path)},
                                          {"session_id", kaged_text(who->session_id)},
                                          {"request_id", kaged_text(who->request_id)}));
}

static int config(struct kaged_call *call)
{
    return reply_with(call, kaged_config(call));
}

static int projects(struct kaged_call *call)
{
    kaged_begin_array(kaged_result(call));
    for (const char *const *project = kaged_projects(call); *project != NULL; project++)
        kaged_put(kaged_result(call), kaged_text(*project));
    kaged_end_array(kaged_result(call));
    return 0;
}

static int nothing(struct kaged_call *call)
{
    (void)call;
    return 0;
}

static int need(struct kaged_call *call)
{
    if (kaged_json_type(param(call, "name")) != KAGED_STRING)
        return kaged_invalid_params(call, "name must be a string");
    return kaged_reply(call, KAGED_FIELDS({"name", kaged_json(param(call, "name"))}));
}

static int fail(struct kaged_call *call)
{
    return kaged_fail_with(call, -32050, KAGED_FIELDS({"name", kaged_json(param(call, "name"))}),
                           "no such preset");
}

static int refuse(struct kaged_call *call)
{
    return kaged_fail(call, KAGED_PLUGIN_ERROR, "refused");
}

static int crash(struct kaged_call *call)
{
    (void)call;
    return -1;
}

static int print(struct kaged_call *call)
{
    printf("stray words\n");
    printf("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"forged\"}\n");
    if (system("cat; echo from a child") != 0)
        return -1;
    return kaged_reply(call, KAGED_FIELDS({"printed", kaged_bool(true)}));
}

static int slow(struct kaged_call *call)
{
    usleep((useconds_t)number(call, "ms") * 1000);
    return kaged_reply(call, KAGED_FIELDS({"slept", kaged_int(number(call, "ms"))}));
}

static int big(struct kaged_call *call)
{
    size_t length = (size_t)number(call, "bytes");
    char *text = malloc(length + 1);
    if (text == NULL)
        return -1;
    memset(text, 'x', length);
    kaged_put(kaged_result(call), kaged_text_n(text, length));
    free(text);
    return 0;
}

static int deep(struct kaged_call *call)
{
    int64_t levels = number(call, "levels");
    for (int64_t i = 0; i < levels; i++)
        kaged_begin_array(kaged_result(call));
    for (int64_t i = 0; i < levels; i++)
        kaged_end_array(kaged_result(call));
    return 0;
}

static int progress(struct kaged_call *call)
{
    return kaged_progress(call, 1, 2, "half");
}

static int notify(struct kaged_call *call)
{
    struct kaged_writer *params = kaged_writer(call);
    kaged_put_fields(params, KAGED_FIELDS({"text", kaged_json(param(call, "text"))}));
    return kaged_notify(call, "test.noted", params);
}

static int log_it(struct kaged_call *call)
{
    kaged_log(KAGED_WARN, "careful", KAGED_FIELDS({"n", kaged_json(param(call, "n"))}));
    return 0;
}

static int store(struct kaged_call *call)
{
    const struct kaged_json *exec, *query;
    if (kaged_exec(call, "INSERT INTO notes(text) VALUES (?)",
                   KAGED_PARAMS(kaged_json(param(call, "text"))), &exec) < 0 ||
        kaged_query(call, "SELECT text FROM notes", KAGED_NO_PARAMS, &query) < 0)
        return -1;
    return kaged_reply(call,
                       KAGED_FIELDS({"exec", kaged_json(exec)}, {"query", kaged_json(query)}));
}

static int batch(struct kaged_call *call)
{
    const struct kaged_json *result;
    const struct kaged_statement statements[] = {
        {"INSERT INTO notes(text) VALUES (?)", KAGED_PARAMS(kaged_json(param(call, "text")))},
        {"DELETE FROM old", KAGED_NO_PARAMS},
    };
    if (kaged_batch(call, statements, 2, &result) < 0)
        return -1;
    return reply_with(call, result);
}

static int tables(struct kaged_call *call)
{
    const struct kaged_json *result;
    return kaged_schema(call, &result) < 0 ? -1 : reply_with(call, result);
}

static int ask(struct kaged_call *call)
{
    struct kaged_writer *params = kaged_writer(call);
    const struct kaged_json *answer;
    kaged_put(params, kaged_json(kaged_params(call)));
    return kaged_ask(call, params, &answer) == 0 ? reply_with(call, answer) : -1;
}

static int sample(struct kaged_call *call)
{
    struct kaged_writer *params = kaged_writer(call);
    const struct kaged_json *said;
    kaged_put(params, kaged_json(kaged_params(call)));
    return kaged_sample(call, params, &said) == 0 ? reply_with(call, said) : -1;
}

/* Until it is cancelled, or the time is over. */
static int see_cancel(struct kaged_call *call)
{
    bool cancelled = false;
    for (int waited_ms = 0; !cancelled && waited_ms < 60000; waited_ms += 20) {
        usleep(20000);
        cancelled = kaged_cancelled(call);
    }
    return kaged_reply(call, KAGED_FIELDS({"cancelled", kaged_bool(cancelled)}));
}

static int catch_it(struct kaged_call *call)
{
    if (kaged_exec(call, "DROP TABLE notes", KAGED_NO_PARAMS, NULL) == 0)
        return kaged_reply(call, NULL);
    kaged_reply(call, KAGED_FIELDS({"code", kaged_int(kaged_error_code(call))},
                                   {"message", kaged_text(kaged_error_message(call))},
                                   {"data", kaged_json(kaged_error_data(call))}));
    kaged_error_forget(call);
    return 0;
}

static int shout(struct kaged_call *call)
{
    char *text = strdup(kaged_json_text(param(call, "text")));
    for (char *at = text; at != NULL && *at != '\0'; at++)
        *at = (char)toupper((unsigned char)*at);
    kaged_reply(call, KAGED_FIELDS({"text", kaged_text(text)}));
    free(text);
    return 0;
}

static int on_session_start(struct kaged_call *call)
{
    char text[256];
    snprintf(text, sizeof(text), "welcome to %s", kaged_context(call)->project_id);
    return kaged_reply(call, KAGED_FIELDS({"inject", kaged_text(text)}));
}

static int on_session_idle(struct kaged_call *call)
{
    int64_t count = (int64_t)kaged_json_count(param(call, "transcript"));
    kaged_log(KAGED_INFO, "idle", KAGED_FIELDS({"messages", kaged_int(count)}));
    return 0;
}

static int retain(struct kaged_call *call, const char *first, const char *second,
                  const char *inject)
{
    struct kaged_writer *result = kaged_result(call);
    kaged_begin_object(result);
    kaged_key(result, "retain");
    kaged_begin_array(result);
    kaged_put(result, kaged_text(first));
    if (second != NULL)
        kaged_put(result, kaged_text(second));
    kaged_end_array(result);
    if (inject != NULL)
        kaged_put_field(result, "inject", kaged_text(inject));
    kaged_end_object(result);
    return 0;
}

static int pre_compact(struct kaged_call *call)
{
    const char *role = kaged_json_text(param(call, "role"));
    const struct kaged_json *old = param(call, "messages_being_compacted");
    char text[256];
    if (role == NULL)
        return kaged_invalid_params(call, "role must be a string");
    if (strcmp(role, "compactor") == 0) {
        snprintf(text, sizeof(text), "dropped %zu", kaged_json_count(old));
        return kaged_reply_compacted(call, param(call, "messages_remaining"), old, text);
    }
    snprintf(text, sizeof(text), "role was %s", role);
    return retain(call, text, NULL, NULL);
}

static int post_compact(struct kaged_call *call)
{
    char text[256];
    snprintf(text, sizeof(text), "after %s", kaged_json_text(param(call, "strategy")));
    return retain(call, "one", "two", text);
}

static int on_config(struct kaged_call *call)
{
    const struct kaged_json *words = kaged_json_get(kaged_config(call), "refuse");
    if (kaged_json_type(words) == KAGED_STRING)
        return kaged_fail_with(call, 0, KAGED_FIELDS({"field", kaged_text("refuse")}), "%s",
                               kaged_json_text(words));
    return kaged_json_is_true(kaged_json_get(kaged_config(call), "crash")) ? -1 : 0;
}

static void on_shutdown(void *data)
{
    (void)data;
    kaged_log(KAGED_INFO, "bye", NULL);
}

static const struct kaged_entry methods[] = {
    {"test.echo", echo},
    {"test.keys", keys},
    {"test.context", context},
    {"test.config", config},
    {"test.projects", projects},
    {"test.nothing", nothing},
    {"test.need", need},
    {"test.fail", fail},
    {"test.refuse", refuse},
    {"test.crash", crash},
    {"test.print", print},
    {"test.slow", slow},
    {"test.big", big},
    {"test.deep", deep},
    {"test.notify", notify},
    {"test.log", log_it},
    {"test.store", store},
    {"test.batch", batch},
    {"test.tables", tables},
    {"test.catch", catch_it},
    {"test.progress", progress},
    {"test.ask", ask},
    {"test.sample", sample},
    {"test.cancelled", see_cancel},
    {NULL, NULL},
};
static const struct kaged_entry tools[] = {{"shout", shout}, {NULL, NULL}};
static const struct kaged_entry hooks[] = {
    {"on_session_start", on_session_start},
    {"on_session_idle", on_session_idle},
    {"pre_compact", pre_compact},
    {"post_compact", post_compact},
    {NULL, NULL},
};

int main(void)
{
    const struct kaged_plugin plugin = {
        .name = "conform",
        .version = "1.2.3",
        .capabilities = (const char *const[]){"kaged:storage:write", NULL},
        .notifications = (const char *const[]){"test.noted", NULL},
        .methods = methods,
        .tools = tools,
        .hooks = hooks,
        .on_config = on_config,
        .on_shutdown = on_shutdown,
    };
    return kaged_run(&plugin);
}
