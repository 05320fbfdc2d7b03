/* Uses all that a plugin can have; prints to stdout, which the SDK has to keep from the wire. */
#include <kaged-plugin.h>
#include <stdio.h>
#include <string.h>

static const struct kaged_json *param(struct kaged_call *call, const char *key)
{
    return kaged_json_get(kaged_params(call), key);
}

static int create_table(struct kaged_call *call)
{
    return kaged_has_storage(call)
               ? kaged_exec(call, "CREATE TABLE IF NOT EXISTS notes (text TEXT)", KAGED_NO_PARAMS,
                            NULL)
               : 0;
}

static int add(struct kaged_call *call)
{
    int64_t a, b;
    if (!kaged_json_int(param(call, "a"), &a) || !kaged_json_int(param(call, "b"), &b) ||
        kaged_json_count(kaged_params(call)) != 2)
        return kaged_invalid_params(call, "a and b are two integers");
    return kaged_reply(call, KAGED_FIELDS({"sum", kaged_int(a + b)}));
}

static int note(struct kaged_call *call)
{
    printf("a note\n");
    if (kaged_has_storage(call) &&
        kaged_exec(call, "INSERT INTO notes VALUES ('x')", KAGED_NO_PARAMS, NULL) < 0)
        return -1;
    kaged_progress(call, 1, 2, NULL);
    kaged_notify(call, "whole.noted", NULL);
    return kaged_reply(call, KAGED_FIELDS({"noted", kaged_bool(true)}));
}

static int find_all(struct kaged_call *call)
{
    struct kaged_writer *result = kaged_result(call);
    kaged_begin_array(result);
    kaged_end_array(result);
    return 0;
}

static int find(struct kaged_call *call)
{
    const char *text = kaged_json_text(param(call, "text"));
    if (text == NULL || text[0] == '\0' || kaged_json_count(kaged_params(call)) != 1)
        return kaged_invalid_params(call, "text is a string");
    return find_all(call);
}

static int on_session_start(struct kaged_call *call)
{
    return kaged_reply(call, KAGED_FIELDS({"inject", kaged_text("hello")}));
}

static int on_session_idle(struct kaged_call *call)
{
    (void)call;
    return 0;
}

static int pre_compact(struct kaged_call *call)
{
    const char *role = kaged_json_text(param(call, "role"));
    if (role == NULL || strcmp(role, "compactor") != 0)
        return on_session_start(call);
    return kaged_reply_compacted(call, param(call, "messages_remaining"),
                                 param(call, "messages_being_compacted"), "gone");
}

static int on_config(struct kaged_call *call)
{
    int64_t limit;
    if (!kaged_json_int(kaged_json_get(kaged_config(call), "limit"), &limit))
        return kaged_fail(call, KAGED_CONFIG_INVALID, "limit is an integer");
    return 0;
}

static const struct kaged_plugin whole = {
    .name = "whole",
    .version = "1.0.0",
    .notifications = (const char *const[]){"whole.noted", NULL},
    .methods = (const struct kaged_entry[]){{"whole.add", add}, {"whole.note", note}, {NULL, NULL}},
    .tools = (const struct kaged_entry[]){{"find", find}, {"all", find_all}, {NULL, NULL}},
    .hooks = (const struct kaged_entry[]){{"on_session_start", on_session_start},
                                          {"on_session_idle", on_session_idle},
                                          {"pre_compact", pre_compact},
                                          {"post_compact", on_session_start},
                                          {NULL, NULL}},
    .on_config = on_config,
    .on_ready = create_table,
};

int main(void)
{
    return kaged_run(&whole);
}
