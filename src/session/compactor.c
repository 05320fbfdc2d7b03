/*
 * What a compactor returned is hostile until all of it was looked at. It replaces the plan as a
 * whole or not at all, and it cannot make the context lose what has to stay, nor change or reorder
 * what others said, nor tear a call from its result.
 */
#include "session/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

const char *const session_fault_names[] = {
    [SESSION_FAULT_NONE] = "none",
    [SESSION_FAULT_INVALID] = "invalid_compactor_result",
    [SESSION_FAULT_DROPPED_ALWAYS_KEEP] = "compactor_dropped_always_keep",
};

struct reading {
    const struct session_compaction *compaction;
    const char *plugin;
    struct kg_map *ids; /* of messages, to their entries */
    bool *listed;       /* owned: which of them the result keeps */
    bool *superseded;   /* owned: which of them it says are gone */
    struct additions additions;
    size_t last; /* the entry that was listed last, or NONE */
    enum session_fault fault;
    struct kg_err *err;
};

static int compactor_invalid(struct reading *reading, const char *format, ...) KG_PRINTF(2, 3);
static int compactor_invalid(struct reading *reading, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    reading->fault = SESSION_FAULT_INVALID;
    return kg_fail(reading->err, KG_E_BAD_RESULT, "compactor result: %s", text);
}

static int dropped(struct reading *reading, size_t at)
{
    const struct session_entry *entry = &reading->compaction->entries.items[at];
    reading->fault = SESSION_FAULT_DROPPED_ALWAYS_KEEP;
    kg_fail(reading->err, KG_E_BAD_RESULT,
            "compactor result: %s leaves the context, but it has to stay", entry->id.text);
    return kg_hint(reading->err, "give every message of messages_remaining back in \"messages\"");
}

/* -- walking objects and arrays ---------------------------------------------------------------- */

/* The members of an object that are looked for; a null is as good as none. */
struct wanted {
    const char *key;
    struct kg_str *span;
};

static int compactor_take_member(struct reading *reading, const char *of,
                                 const struct wanted *wanted, size_t count, struct kg_str key,
                                 bool escaped, struct kg_str value)
{
    for (size_t i = 0; i < count; i++) {
        if (!kg_json_raw_is(key, escaped, wanted[i].key))
            continue;
        if (wanted[i].span->data != NULL)
            return compactor_invalid(reading, "%s: \"%s\" is given twice", of, wanted[i].key);
        *wanted[i].span = value;
    }
    return 0;
}

/* `object` is valid JSON; what `of` names is for messages. */
static int compactor_take_members(struct reading *reading, const char *of, struct kg_str object,
                                  const struct wanted *wanted, size_t count)
{
    struct kg_json_cursor cursor = {object.data, object.data + object.length};
    kg_json_skip_space(&cursor);
    if (cursor.at == cursor.end || *cursor.at != '{')
        return compactor_invalid(reading, "%s: it is not an object", of);
    cursor.at++;
    struct kg_str key, value;
    bool escaped;
    int result = 0;
    while (result == 0 && kg_json_next_member(&cursor, &key, &escaped, &value))
        result = compactor_take_member(reading, of, wanted, count, key, escaped, value);
    for (size_t i = 0; i < count; i++)
        if (wanted[i].span->data != NULL && kg_str_is(*wanted[i].span, "null"))
            *wanted[i].span = KG_STR_NULL;
    return result;
}

typedef int item_fn(struct reading *reading, struct kg_str item);

static int each_item(struct reading *reading, const char *key, struct kg_str array, item_fn *take)
{
    if (array.data == NULL || array.data[0] != '[')
        return compactor_invalid(reading, "\"%s\" must be an array", key);
    struct kg_json_cursor cursor = kg_json_inside(array);
    struct kg_str item;
    int result = 0;
    while (result == 0 && kg_json_next_item(&cursor, &item))
        result = take(reading, item);
    return result;
}

/* The text of a JSON string; false if it is something else. */
static bool compactor_decode(struct kg_str json, struct kg_buf *ret_text)
{
    if (json.data == NULL || json.data[0] != '"')
        return false;
    kg_buf_reserve(ret_text, json.length);
    ret_text->length =
        kg_json_unescape((struct kg_str){json.data + 1, json.length - 2}, ret_text->data);
    return true;
}

/* -- messages ---------------------------------------------------------------------------------- */

struct message {
    struct kg_str id, role, kind, content;
};

static int compactor_find(struct reading *reading, struct kg_str id, size_t *ret_at)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (!compactor_decode(id, &text))
        return compactor_invalid(reading, "an id is not a string");
    const struct session_entry *entry = kg_map_get(reading->ids, kg_buf_view(&text));
    if (entry == NULL)
        return compactor_invalid(reading, "no message has the id \"%.*s\"",
                                 KG_STR_CUT(kg_buf_view(&text), KG_CUT_NAME));
    *ret_at = (size_t)(entry - reading->compaction->entries.items);
    return 0;
}

static bool role_is(struct kg_str json, enum session_role role)
{
    return json.length >= 2 && json.data[0] == '"' &&
           kg_json_raw_is((struct kg_str){json.data + 1, json.length - 2}, true,
                          session_role_names[role]);
}

/* One of the old ones: as it was, and behind those that it was behind. */
static int take_known(struct reading *reading, const struct message *message)
{
    size_t at = 0;
    int result = compactor_find(reading, message->id, &at);
    if (result < 0)
        return result;
    const struct session_entry *entry = &reading->compaction->entries.items[at];
    const char *id = entry->id.text;
    if (reading->listed[at])
        return compactor_invalid(reading, "%s is listed twice", id);
    if (reading->last != NONE && at < reading->last)
        return compactor_invalid(reading, "%s is not in its order", id);
    if (message->role.data != NULL && !role_is(message->role, entry->role))
        return compactor_invalid(reading, "%s has another role than before", id);
    if (message->content.data != NULL) {
        kg_auto(kg_buf_free) struct kg_buf told = {0};
        session_content_write(entry, &told);
        if (!session_same_json(message->content, kg_buf_view(&told)))
            return compactor_invalid(reading, "%s has other content than before", id);
    }
    reading->listed[at] = true;
    reading->last = at;
    return 0;
}

static bool is_new_kind(struct kg_str kind)
{
    return kind.data == NULL || kg_str_is(kind, "\"message\"") || kg_str_is(kind, "\"summary\"");
}

static int take_new(struct reading *reading, const struct message *message)
{
    static const enum session_role roles[] = {SESSION_SYSTEM, SESSION_USER, SESSION_ASSISTANT};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    size_t role = 0;
    while (role < KG_COUNT(roles) && !role_is(message->role, roles[role]))
        role++;
    if (role == KG_COUNT(roles))
        return compactor_invalid(reading, "a new message's role must be system, user or assistant");
    if (!is_new_kind(message->kind))
        return compactor_invalid(reading,
                                 "a new message must not be a tool call or the result of one");
    if (!compactor_decode(message->content, &text))
        return compactor_invalid(reading, "a new message's content must be a string");
    if (reading->additions.count == SESSION_NEW_MAX)
        return compactor_invalid(reading, "it has more than %d new messages", SESSION_NEW_MAX);
    additions_add(&reading->additions, reading->last, roles[role], kg_buf_view(&text));
    return 0;
}

static int compactor_take_message(struct reading *reading, struct kg_str item)
{
    struct message message = {0};
    const struct wanted wanted[] = {{"id", &message.id},
                                    {"role", &message.role},
                                    {"kind", &message.kind},
                                    {"content", &message.content}};
    int result = compactor_take_members(reading, "a message", item, wanted, KG_COUNT(wanted));
    if (result < 0)
        return result;
    return message.id.data ? take_known(reading, &message) : take_new(reading, &message);
}

static int take_superseded(struct reading *reading, struct kg_str item)
{
    size_t at = 0;
    int result = compactor_find(reading, item, &at);
    if (result < 0)
        return result;
    if (reading->compaction->stays[at])
        return dropped(reading, at);
    if (reading->listed[at])
        return compactor_invalid(reading, "%s is both kept and superseded",
                                 reading->compaction->entries.items[at].id.text);
    reading->superseded[at] = true;
    return 0;
}

/* -- the result as a whole --------------------------------------------------------------------- */

static int compactor_check_kept(struct reading *reading)
{
    const struct session_compaction *compaction = reading->compaction;
    for (size_t i = 0; i < compaction->entries.count; i++) {
        size_t partner = compaction->partners[i];
        if (compaction->stays[i] && !reading->listed[i])
            return dropped(reading, i);
        if (!reading->listed[i] && !reading->superseded[i])
            return compactor_invalid(reading, "%s is left out, but not superseded",
                                     compaction->entries.items[i].id.text);
        if (partner != NONE && reading->listed[i] && !reading->listed[partner])
            return compactor_invalid(
                reading, "%s is kept without %s: a call and its result belong together",
                compaction->entries.items[i].id.text, compaction->entries.items[partner].id.text);
    }
    return 0;
}

/* A model expects results right behind the calls. */
static int check_between(struct reading *reading)
{
    const struct session_compaction *compaction = reading->compaction;
    size_t addition = 0, open = 0;
    const struct additions *additions = &reading->additions;
    while (addition < additions->count && additions->items[addition].after == NONE)
        addition++;
    for (size_t i = 0; i < compaction->entries.count; i++) {
        size_t partner = compaction->partners[i];
        if (partner != NONE && reading->listed[i])
            open = partner > i ? open + 1 : open - 1;
        for (; addition < additions->count && additions->items[addition].after == i; addition++)
            if (open > 0)
                return compactor_invalid(reading,
                                         "a new message is between a tool's call and its result");
    }
    return 0;
}

static int compactor_check_size(struct reading *reading)
{
    const struct session_compaction *compaction = reading->compaction;
    kg_auto(kg_free) bool *goes = kg_alloc_array(compaction->entries.count + 1, sizeof(bool));
    for (size_t i = 0; i < compaction->entries.count; i++)
        goes[i] = !reading->listed[i];
    uint64_t after = session_planned_tokens(compaction, goes, &reading->additions, reading->plugin);
    if (after >= compaction->tokens_before)
        return compactor_invalid(reading, "it is not smaller than what it replaces");
    return 0;
}

static int compactor_read_result(struct reading *reading, struct kg_str text,
                                 struct kg_buf *ret_summary)
{
    struct kg_str role = KG_STR_NULL, messages = KG_STR_NULL, superseded = KG_STR_NULL,
                  summary = KG_STR_NULL;
    const struct wanted wanted[] = {{"role", &role},
                                    {"messages", &messages},
                                    {"superseded", &superseded},
                                    {"summary", &summary}};
    if (reading->compaction->readable_from > 0)
        return compactor_invalid(reading, "the plugin was not told all messages");
    if (kg_json_check(text, NULL) != KG_JSON_OK)
        return compactor_invalid(reading, "it is not JSON");
    int result = compactor_take_members(reading, "the result", text, wanted, KG_COUNT(wanted));
    if (result < 0)
        return result;
    if (!kg_str_is(role, "\"compactor\""))
        return compactor_invalid(reading, "\"role\" must be \"compactor\"");
    if (summary.data != NULL &&
        (!compactor_decode(summary, ret_summary) || ret_summary->length > SESSION_SUMMARY_MAX))
        return compactor_invalid(reading, "\"summary\" is a string of at most %d bytes",
                                 SESSION_SUMMARY_MAX);
    static int (*const checks[])(struct reading *) = {compactor_check_kept, check_between,
                                                      compactor_check_size};
    result = each_item(reading, "messages", messages, compactor_take_message);
    if (result == 0)
        result = each_item(reading, "superseded", superseded, take_superseded);
    for (size_t i = 0; i < KG_COUNT(checks) && result == 0; i++)
        result = checks[i](reading);
    return result;
}

/* -- taking it --------------------------------------------------------------------------------- */

static struct kg_map *index_ids(const struct session_entries *entries)
{
    struct kg_map *ids = kg_map_new();
    for (size_t i = 0; i < entries->count; i++)
        kg_map_set(ids, kg_str(entries->items[i].id.text), &entries->items[i]);
    return ids;
}

static void compactor_adopt(struct session_compaction *compaction, struct reading *reading,
                            struct kg_str summary)
{
    for (size_t i = 0; i < compaction->entries.count; i++)
        compaction->goes[i] = !reading->listed[i];
    additions_clear(&compaction->additions);
    compaction->additions = reading->additions;
    reading->additions = (struct additions){0};
    free(compaction->plugin);
    free(compaction->summary);
    compaction->plugin = kg_strdup(reading->plugin);
    compaction->summary = summary.length ? kg_str_dup(summary) : NULL;
}

int session_compaction_take_result(struct session_compaction *compaction, const char *plugin,
                                   struct kg_str result_json, enum session_fault *ret_fault,
                                   struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf summary = {0};
    struct reading reading = {
        .compaction = compaction,
        .plugin = plugin,
        .ids = index_ids(&compaction->entries),
        .listed = kg_alloc_array(compaction->entries.count + 1, sizeof(bool)),
        .superseded = kg_alloc_array(compaction->entries.count + 1, sizeof(bool)),
        .last = NONE,
        .err = err,
    };
    int result = compactor_read_result(&reading, result_json, &summary);
    if (result == 0)
        compactor_adopt(compaction, &reading, kg_buf_view(&summary));
    *ret_fault = reading.fault;
    kg_map_free(reading.ids);
    free(reading.listed);
    free(reading.superseded);
    additions_clear(&reading.additions);
    return result;
}
