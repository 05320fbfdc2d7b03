/* One event as a plugin is given it: a copy of all, so that it can be read on another thread. */
#include "native/internal.h"

#include <assert.h>
#include <stdlib.h>

#define NATIVE_HOOK(symbol, member_, name_, when_, ...)                                            \
    [NATIVE_##symbol] = {.name = name_,                                                            \
                         .when = when_,                                                            \
                         .fields = {__VA_ARGS__},                                                  \
                         .offset = offsetof(struct kaged_system_plugin, member_)},
const struct native_hook_row native_hook_rows[NATIVE_HOOKS] = {
#include "native/hooks.def"
};
#undef NATIVE_HOOK

/* Each hook of the header has its row. */
_Static_assert(sizeof(struct kaged_system_plugin) ==
                   offsetof(struct kaged_system_plugin, daemon_starting) +
                       NATIVE_HOOKS * sizeof(kaged_hook *),
               "hooks.def and system-plugin.h differ");

static struct kg_str event_cut(struct kg_str text)
{
    if (text.length > VALUE_MAX)
        text.length = VALUE_MAX;
    return text;
}

/* The text that a plugin is given; owned, NULL of null. */
static char *event_text_of(const struct audit_value *value)
{
    switch (value->type) {
    case AUDIT_STR:
        return kg_str_dup(event_cut(value->text));
    case AUDIT_RAW:
        return kg_str_dup(value->text);
    case AUDIT_INT:
        return kg_format("%lld", (long long)value->number);
    case AUDIT_BOOL:
        return kg_strdup(value->number != 0 ? "true" : "false");
    default:
        return NULL;
    }
}

static void event_put_value(struct kg_json_writer *json, const struct audit_value *value)
{
    switch (value->type) {
    case AUDIT_STR:
        kg_json_str(json, event_cut(value->text));
        break;
    case AUDIT_RAW:
        kg_json_raw(json, value->text);
        break;
    case AUDIT_INT:
        kg_json_int(json, value->number);
        break;
    case AUDIT_BOOL:
        kg_json_bool(json, value->number != 0);
        break;
    default:
        kg_json_null(json);
        break;
    }
}

struct native_event *native_event_new(enum native_hook hook, const struct audit_value *values,
                                      size_t count)
{
    const struct native_hook_row *row = &native_hook_rows[hook];
    struct native_event *event = kg_alloc(sizeof(*event));
    struct kg_json_writer json = kg_json_writer(&event->json);
    int64_t at_ms = kg_wall_ms();
    event->hook = hook;
    event->count = count;
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "event", row->name);
    kg_json_named_time(&json, "at", at_ms);
    for (size_t i = 0; i < count; i++) {
        assert(row->fields[i] != NULL);
        kg_json_key(&json, row->fields[i]);
        event_put_value(&json, &values[i]);
        event->values[i] = event_text_of(&values[i]);
    }
    kg_json_end(&json, '}');
    event->public = (struct kaged_event){
        .size = sizeof(event->public),
        .hook = row->name,
        .at_ms = at_ms,
        .json = kg_buf_terminate(&event->json),
    };
    return event;
}

void native_event_free(struct native_event *event)
{
    for (size_t i = 0; i < event->count; i++)
        free(event->values[i]);
    kg_buf_free(&event->json);
    free(event);
}

const char *native_event_field(const struct kaged_event *public, const char *name)
{
    const struct native_event *event = KG_CONTAINER(public, struct native_event, public);
    for (size_t i = 0; i < event->count; i++)
        if (strcmp(native_hook_rows[event->hook].fields[i], name) == 0)
            return event->values[i];
    return NULL;
}
