/*
 * What an entry can be. A list of entries owns their texts in one arena, so that a page or a whole
 * context is freed at once.
 */
#include "session/internal.h"

#include <stdlib.h>

#define ROLE(role) (1u << SESSION_##role)

const char *const session_role_names[SESSION_ROLE_COUNT] = {
    [SESSION_SYSTEM] = "system",
    [SESSION_USER] = "user",
    [SESSION_ASSISTANT] = "assistant",
    [SESSION_TOOL] = "tool",
};

const char *const session_state_names[SESSION_STATE_COUNT] = {
    [SESSION_ACTIVE] = "active",
    [SESSION_IDLE] = "idle",
    [SESSION_STOPPED] = "stopped",
    [SESSION_CLOSED] = "closed",
};

static const struct session_kind_row kind_rows[SESSION_KIND_COUNT] = {
    [SESSION_MESSAGE] = {.name = "message",
                         .meaning = "What somebody said.",
                         .roles = ROLE(SYSTEM) | ROLE(USER) | ROLE(ASSISTANT),
                         .in_context = true,
                         .appendable = true},
    [SESSION_TOOL_CALL] = {.name = "tool_call",
                           .meaning = "The model asks for a tool; content has its name.",
                           .roles = ROLE(ASSISTANT),
                           .in_context = true,
                           .appendable = true},
    [SESSION_TOOL_RESULT] = {.name = "tool_result",
                             .meaning = "What came of a call, which is its parent.",
                             .roles = ROLE(TOOL),
                             .in_context = true,
                             .appendable = true},
    [SESSION_INJECTION] = {.name = "injection",
                           .meaning = "What a plugin's hook adds; it is wrapped in the context.",
                           .roles = ROLE(SYSTEM),
                           .in_context = true,
                           .appendable = true},
    [SESSION_SUMMARY] = {.name = "summary",
                         .meaning = "What a compaction put in place of what it superseded.",
                         .roles = ROLE(SYSTEM) | ROLE(USER) | ROLE(ASSISTANT),
                         .in_context = true},
    [SESSION_COMPACTION] = {.name = "compaction",
                            .meaning = "The mark of a compaction, with its figures.",
                            .roles = ROLE(SYSTEM),
                            .is_mark = true},
    [SESSION_CHECKPOINT] = {.name = "checkpoint",
                            .meaning = "The session was stopped here, since a context is too full.",
                            .roles = ROLE(SYSTEM),
                            .is_mark = true},
    [SESSION_UNDO] = {.name = "undo",
                      .meaning = "A compaction, which is its parent, was taken back.",
                      .roles = ROLE(SYSTEM)},
    [SESSION_EVENT] = {.name = "event",
                       .meaning = "Something that happened to the session; no model sees it.",
                       .roles = ROLE(SYSTEM),
                       .appendable = true},
};

const struct session_kind_row *session_kind_row(enum session_kind kind)
{
    return &kind_rows[kind];
}

bool session_kind_find(struct kg_str name, enum session_kind *ret_kind)
{
    for (size_t i = 0; i < SESSION_KIND_COUNT; i++) {
        if (kg_str_is(name, kind_rows[i].name)) {
            *ret_kind = (enum session_kind)i;
            return true;
        }
    }
    return false;
}

static bool session_entry_find_name(struct kg_str name, const char *const *names, size_t count,
                                    size_t *ret_at)
{
    for (size_t i = 0; i < count; i++) {
        if (kg_str_is(name, names[i])) {
            *ret_at = i;
            return true;
        }
    }
    return false;
}

bool session_role_find(struct kg_str name, enum session_role *ret_role)
{
    size_t at;
    bool found = session_entry_find_name(name, session_role_names, SESSION_ROLE_COUNT, &at);
    if (found)
        *ret_role = (enum session_role)at;
    return found;
}

bool session_state_find(struct kg_str name, enum session_state *ret_state)
{
    size_t at;
    bool found = session_entry_find_name(name, session_state_names, SESSION_STATE_COUNT, &at);
    if (found)
        *ret_state = (enum session_state)at;
    return found;
}

bool session_strategy_find(struct kg_str name, enum session_strategy *ret_strategy)
{
    size_t at;
    bool found = session_entry_find_name(name, session_strategy_names, SESSION_STRATEGY_COUNT, &at);
    if (found)
        *ret_strategy = (enum session_strategy)at;
    return found;
}

/* -- agents' paths ----------------------------------------------------------------------------- */

static bool is_other(char c)
{
    return kg_is_digit(c) || c == '_' || c == '-';
}

/* [a-z][a-z0-9_-]*, and a dot or the end behind it. */
static size_t name_length(struct kg_str text)
{
    size_t length = 0;
    if (text.length == 0 || !kg_is_lower(text.data[0]))
        return 0;
    while (length < text.length && (kg_is_lower(text.data[length]) || is_other(text.data[length])))
        length++;
    return length == text.length || text.data[length] == '.' ? length : 0;
}

bool session_agent_is_valid(struct kg_str path)
{
    static const char below[] = ".subagents.";
    if (path.length > SESSION_AGENT_MAX || !kg_str_starts(path, "primary"))
        return false;
    struct kg_str rest = {path.data + strlen("primary"), path.length - strlen("primary")};
    while (rest.length > 0) {
        if (!kg_str_starts(rest, below))
            return false;
        rest.data += sizeof(below) - 1;
        rest.length -= sizeof(below) - 1;
        size_t length = name_length(rest);
        if (length == 0)
            return false;
        rest.data += length;
        rest.length -= length;
    }
    return true;
}

/* -- lists ------------------------------------------------------------------------------------- */

void session_clear(struct session *session)
{
    free(session->project_id);
    free(session->workdir);
    free(session->operator_id);
    free(session->seat);
    free(session->title);
    *session = (struct session){0};
}

void session_list_clear(struct session_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        session_clear(&list->items[i]);
    free(list->items);
    *list = (struct session_list){0};
}

void session_agents_clear(struct session_agents *agents)
{
    for (size_t i = 0; i < agents->count; i++)
        free(agents->items[i].path);
    free(agents->items);
    *agents = (struct session_agents){0};
}

void session_entries_clear(struct session_entries *entries)
{
    kg_arena_free(entries->arena);
    free(entries->items);
    *entries = (struct session_entries){0};
}

static struct session_entry *session_entry_grow(struct session_entries *entries)
{
    if (entries->arena == NULL)
        entries->arena = kg_arena_new();
    if (entries->items == NULL || entries->count == entries->capacity) {
        entries->capacity = entries->capacity ? entries->capacity * 2 : 16;
        entries->items = kg_realloc(entries->items, entries->capacity * sizeof(entries->items[0]));
    }
    return &entries->items[entries->count++];
}

/* Neighbours mostly have the same texts, which need to be kept only once. */
static const char *session_entry_keep_text(struct session_entries *entries, const char *text,
                                           const char *neighbours)
{
    if (text == NULL)
        return NULL;
    if (neighbours != NULL && strcmp(text, neighbours) == 0)
        return neighbours;
    return kg_arena_str(entries->arena, (struct kg_str){text, strlen(text) + 1}).data;
}

void session_entries_add(struct session_entries *entries, const struct session_entry *entry)
{
    struct session_entry copy = *entry;
    struct session_entry *added = session_entry_grow(entries);
    const struct session_entry *before = entries->count > 1 ? added - 1 : NULL;
    copy.agent = session_entry_keep_text(entries, entry->agent, before ? before->agent : NULL);
    copy.source = session_entry_keep_text(entries, entry->source, before ? before->source : NULL);
    if (entry->content.data != NULL)
        copy.content = kg_arena_str(entries->arena, entry->content);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): kg_realloc never fails */
    *added = copy;
}

static void session_entry_take_id(const char *text, struct kg_id *id)
{
    if (text != NULL)
        strncpy(id->text, text, sizeof(id->text) - 1);
}

void session_entries_take(struct session_entries *entries, const struct state_entry *row)
{
    struct session_entry entry = {
        .kind = SESSION_EVENT, /* what a stranger put there is shown to no model */
        .seq = (uint64_t)row->seq,
        .agent = row->agent,
        .source = row->source,
        .superseded = (uint64_t)row->superseded,
        .pinned = row->pinned,
        .created_ms = row->created_ms,
        .rank = row->rank,
        .tokens = (uint64_t)row->tokens,
        .bytes = (size_t)row->bytes,
        .content_number = row->content_number,
        .content = row->content,
    };
    session_entry_take_id(row->id, &entry.id);
    session_entry_take_id(row->parent, &entry.parent);
    session_kind_find(kg_str(row->kind), &entry.kind);
    session_role_find(kg_str(row->role), &entry.role);
    session_entries_add(entries, &entry);
}

bool session_entries_visit(void *entries, const struct state_entry *row)
{
    session_entries_take(entries, row);
    return true;
}

/* -- calls and results ------------------------------------------------------------------------- */

static struct kg_str id_text(const struct kg_id *id)
{
    return kg_str(id->text);
}

size_t *session_partners(const struct session_entries *entries)
{
    size_t *partners = kg_alloc_array(entries->count + 1, sizeof(partners[0]));
    struct kg_map *calls = kg_map_new();
    for (size_t i = 0; i < entries->count; i++) {
        const struct session_entry *entry = &entries->items[i];
        partners[i] = NONE;
        if (entry->kind == SESSION_TOOL_CALL)
            kg_map_set(calls, id_text(&entry->id), (void *)&entries->items[i]);
        if (entry->kind != SESSION_TOOL_RESULT)
            continue;
        const struct session_entry *call = kg_map_remove(calls, id_text(&entry->parent));
        if (call == NULL)
            continue;
        partners[i] = (size_t)(call - entries->items);
        partners[partners[i]] = i;
    }
    kg_map_free(calls);
    return partners;
}
