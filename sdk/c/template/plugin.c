/* my-plugin: greets people by name. sdk/ is the SDK; the manifest is kaged-plugin.yaml. */
#include <kaged-plugin.h>
#include <stdio.h>

static int greet(struct kaged_call *call)
{
    const char *name = kaged_json_text(kaged_json_get(kaged_params(call), "name"));
    const char *word = kaged_json_text(kaged_json_get(kaged_config(call), "word"));
    char text[256];
    if (name == NULL)
        return kaged_invalid_params(call, "name must be a string");
    snprintf(text, sizeof(text), "%s, %s!", word ? word : "Hello", name);
    return kaged_reply(call, KAGED_FIELDS({"text", kaged_text(text)}));
}

static int welcome(struct kaged_call *call)
{
    const char *text = "The tool my-plugin.greet greets people.";
    return kaged_reply(call, KAGED_FIELDS({"inject", kaged_text(text)}));
}

static const struct kaged_plugin plugin = {
    .name = "my-plugin",
    .version = "0.1.0",
    .tools = (const struct kaged_entry[]){{"greet", greet}, {NULL, NULL}},
    .methods = (const struct kaged_entry[]){{"greeting.say", greet}, {NULL, NULL}},
    .hooks = (const struct kaged_entry[]){{"on_session_start", welcome}, {NULL, NULL}},
};

int main(void)
{
    return kaged_run(&plugin);
}
