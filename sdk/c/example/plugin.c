/*
 * A whole plugin in C: it greets, and remembers whom in its storage.
 *
 *     cc -o greeter plugin.c $(pkg-config --cflags --libs kaged-plugin)
 */
#include <kaged-plugin.h>
#include <stdio.h>

static int create_table(struct kaged_call *call)
{
    if (!kaged_has_storage(call))
        return 0;
    return kaged_exec(call, "CREATE TABLE IF NOT EXISTS greeted (name TEXT PRIMARY KEY, times INT)",
                      KAGED_NO_PARAMS, NULL);
}

/* greeting.say {"name": "Anna"} */
static int say(struct kaged_call *call)
{
    const char *name = kaged_json_text(kaged_json_get(kaged_params(call), "name"));
    const char *word = kaged_json_text(kaged_json_get(kaged_config(call), "word"));
    char text[256];
    if (name == NULL)
        return kaged_invalid_params(call, "name must be a string");
    if (kaged_exec(call,
                   "INSERT INTO greeted VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1",
                   KAGED_PARAMS(kaged_text(name)), NULL) < 0)
        return -1; /* the host's error is the answer */
    snprintf(text, sizeof(text), "%s, %s!", word ? word : "Hello", name);
    return kaged_reply(call, KAGED_FIELDS({"text", kaged_text(text)}));
}

/* The tool greeter.known, for the model. */
static int known(struct kaged_call *call)
{
    const struct kaged_json *result;
    if (kaged_query(call, "SELECT name, times FROM greeted ORDER BY name", KAGED_NO_PARAMS,
                    &result) < 0)
        return -1;
    return kaged_reply(call, KAGED_FIELDS({"people", kaged_json(kaged_json_get(result, "rows"))}));
}

static int welcome(struct kaged_call *call)
{
    char text[256];
    snprintf(text, sizeof(text), "This is the project %s.", kaged_context(call)->project_id);
    return kaged_reply(call, KAGED_FIELDS({"inject", kaged_text(text)}));
}

static int check_config(struct kaged_call *call)
{
    const struct kaged_json *word = kaged_json_get(kaged_config(call), "word");
    if (word != NULL && kaged_json_length(word) == 0)
        return kaged_fail(call, KAGED_CONFIG_INVALID, "word must not be empty");
    return 0;
}

static const struct kaged_plugin greeter = {
    .name = "greeter",
    .version = "1.0.0",
    .capabilities = (const char *const[]){"kaged:storage:write", NULL},
    .methods = (const struct kaged_entry[]){{"greeting.say", say}, {NULL, NULL}},
    .tools = (const struct kaged_entry[]){{"known", known}, {NULL, NULL}},
    .hooks = (const struct kaged_entry[]){{"on_session_start", welcome}, {NULL, NULL}},
    .on_config = check_config,
    .on_ready = create_table,
};

int main(void)
{
    return kaged_run(&greeter);
}
