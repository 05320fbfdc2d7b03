/* The table of hooks, and the reading of their results: bounded, and all of one or nothing. */
#include "host/hooks.h"

/* In the order of manifest_hook_names, where their names are. */
static const struct host_hook_row rows[MANIFEST_HOOK_COUNT] = {
    [MANIFEST_ON_SESSION_START] =
        {
            .name = "on_session_start",
            .method = "kaged.hook.on_session_start",
            .when = "Before the first message of a session reaches the model",
            .scope = HOST_HOOK_OF_SESSION,
            .powers = HOST_HOOK_INJECT,
        },
    [MANIFEST_ON_SESSION_IDLE] =
        {
            .name = "on_session_idle",
            .method = "kaged.hook.on_session_idle",
            .when = "When nothing has happened in a session for a while",
            .scope = HOST_HOOK_OF_SESSION,
        },
    [MANIFEST_PRE_COMPACT] =
        {
            .name = "pre_compact",
            .method = "kaged.hook.pre_compact",
            .when = "Before an agent's context is compacted",
            .scope = HOST_HOOK_OF_AGENT,
            .powers = HOST_HOOK_INJECT | HOST_HOOK_RETAIN | HOST_HOOK_COMPACT,
        },
    [MANIFEST_POST_COMPACT] =
        {
            .name = "post_compact",
            .method = "kaged.hook.post_compact",
            .when = "After an agent's context was compacted",
            .scope = HOST_HOOK_OF_AGENT,
            .powers = HOST_HOOK_INJECT | HOST_HOOK_RETAIN,
        },
};

const struct host_hook_row *host_hook_row(enum manifest_hook hook)
{
    return &rows[hook];
}

bool host_hook_fires_for(enum manifest_hook hook, const char *agent_path)
{
    return rows[hook].scope == HOST_HOOK_OF_AGENT || strcmp(agent_path, "primary") == 0;
}

uint64_t host_hook_timeout_ms(int64_t manifest_sec, const struct config *config)
{
    return (uint64_t)(manifest_sec > 0 ? manifest_sec * 1000 : config->limits_hook_timeout_ms);
}

/* -- results ----------------------------------------------------------------------------------- */

void host_hook_result_free(struct host_hook_result *result)
{
    kg_buf_free(&result->inject);
    kg_list_free(result->retain);
    result->retain = NULL;
}

static bool hooks_is_string(struct kg_str json)
{
    return json.length >= 2 && json.data[0] == '"';
}

/* `json` is a valid string. */
static void hooks_decode(struct kg_str json, struct kg_buf *buf)
{
    kg_buf_reserve(buf, json.length);
    buf->length +=
        kg_json_unescape((struct kg_str){json.data + 1, json.length - 2}, buf->data + buf->length);
}

static int take_inject(enum manifest_hook hook, struct kg_str json, struct host_hook_result *result,
                       struct kg_err *err)
{
    if (!(rows[hook].powers & HOST_HOOK_INJECT) || kg_str_is(json, "null"))
        return 0;
    if (!hooks_is_string(json))
        return kg_fail(err, KG_E_BAD_RESULT, "hook %s: inject: it is not a string",
                       rows[hook].name);
    hooks_decode(json, &result->inject);
    if (result->inject.length > HOST_HOOK_TEXT_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "hook %s: inject: it has more than %d bytes",
                       rows[hook].name, HOST_HOOK_TEXT_MAX);
    return 0;
}

static int hooks_take_line(enum manifest_hook hook, struct kg_str json,
                           struct host_hook_result *result, size_t *bytes, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    if (!hooks_is_string(json))
        return kg_fail(err, KG_E_BAD_RESULT, "hook %s: retain: it has more than strings",
                       rows[hook].name);
    hooks_decode(json, &line);
    *bytes += line.length;
    if (*bytes > HOST_HOOK_TEXT_MAX || kg_list_count(result->retain) == HOST_HOOK_RETAIN_MAX)
        return kg_fail(err, KG_E_TOO_LARGE,
                       "hook %s: retain: it has more than %d lines or %d bytes", rows[hook].name,
                       HOST_HOOK_RETAIN_MAX, HOST_HOOK_TEXT_MAX);
    if (line.length > 0 && memchr(line.data, '\0', line.length) != NULL)
        return kg_fail(err, KG_E_BAD_RESULT, "hook %s: retain: a line contains a NUL",
                       rows[hook].name);
    kg_list_add(&result->retain, kg_str_dup(kg_buf_view(&line)));
    return 0;
}

static int take_retain(enum manifest_hook hook, struct kg_str json, struct host_hook_result *result,
                       struct kg_err *err)
{
    if (!(rows[hook].powers & HOST_HOOK_RETAIN) || kg_str_is(json, "null"))
        return 0;
    if (json.data[0] != '[')
        return kg_fail(err, KG_E_BAD_RESULT, "hook %s: retain: it is not a list", rows[hook].name);
    result->retain = kg_list_new(0);
    struct kg_json_cursor cursor = kg_json_inside(json);
    struct kg_str item;
    size_t bytes = 0;
    int taken = 0;
    while (taken == 0 && kg_json_next_item(&cursor, &item))
        taken = hooks_take_line(hook, item, result, &bytes, err);
    return taken;
}

static int hooks_take_object(enum manifest_hook hook, struct kg_str json,
                             struct host_hook_result *result, struct kg_err *err)
{
    struct kg_str value;
    int taken = 0;
    if (kg_json_member(json, "inject", &value))
        taken = take_inject(hook, value, result, err);
    if (taken == 0 && kg_json_member(json, "retain", &value))
        taken = take_retain(hook, value, result, err);
    return taken;
}

int host_hook_result_read(enum manifest_hook hook, struct kg_str json,
                          struct host_hook_result *ret_result, struct kg_err *err)
{
    struct kg_json_cursor cursor = {json.data, json.length ? json.data + json.length : json.data};
    struct kg_str value;
    kg_json_skip_space(&cursor);
    if (kg_json_check(json, NULL) != KG_JSON_OK ||
        kg_json_skip_value(&cursor, &value) != KG_JSON_OK)
        return kg_fail(err, KG_E_BAD_RESULT, "hook %s: the result is not JSON", rows[hook].name);
    kg_auto(host_hook_result_free) struct host_hook_result result = {0};
    int taken = 0;
    if (value.data[0] == '{')
        taken = hooks_take_object(hook, value, &result, err);
    else if (hooks_is_string(value))
        taken = take_inject(hook, value, &result, err);
    else if (!kg_str_is(value, "null") && rows[hook].powers != 0)
        taken = kg_fail(err, KG_E_BAD_RESULT,
                        "hook %s: the result is neither null nor a string nor an object",
                        rows[hook].name);
    if (taken < 0)
        return taken;
    *ret_result = result;
    result = (struct host_hook_result){0};
    return 0;
}

void host_hook_result_text(const struct host_hook_result *result, struct kg_buf *buf)
{
    kg_buf_str(buf, kg_buf_view(&result->inject));
    for (size_t i = 0; result->retain != NULL && result->retain[i] != NULL; i++) {
        kg_buf_text(buf, buf->length > 0 ? "\n- " : "- ");
        for (const char *at = result->retain[i]; *at != '\0'; at++) {
            kg_buf_char(buf, *at);
            if (*at == '\n')
                kg_buf_text(buf, "  "); /* still the same item */
        }
    }
}
