/*
 * What no compaction may take from a context: the system's messages, what plugins injected at the
 * start, the first thing that the user said, the last turns, what is pinned, calls that wait for
 * their result; and with a call its result, with a result its call. What was injected after an
 * earlier compaction stays only until this one.
 */
#include "session/internal.h"

static bool is_user_message(const struct session_entry *entry)
{
    return entry->kind == SESSION_MESSAGE && entry->role == SESSION_USER;
}

/* Injected after a compaction, which is its parent. */
static bool is_temporary(const struct session_entry *entry)
{
    return entry->kind == SESSION_INJECTION && entry->parent.text[0] != '\0';
}

static bool keep_is_system(const struct session_entry *entry)
{
    return (entry->kind == SESSION_MESSAGE && entry->role == SESSION_SYSTEM) ||
           entry->kind == SESSION_INJECTION;
}

/* Where the last `turns` turns begin; the end if turns is 0. */
static size_t recent_from(const struct session_entries *entries, uint32_t turns)
{
    size_t at = entries->count;
    while (at > 0 && turns > 0)
        turns -= is_user_message(&entries->items[--at]);
    return at;
}

static size_t first_user_message(const struct session_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        if (is_user_message(&entries->items[i]))
            return i;
    return NONE;
}

void session_must_stay(const struct session_entries *entries, const size_t *partners,
                       uint32_t keep_recent, bool *stays)
{
    size_t first_user = first_user_message(entries);
    size_t recent = recent_from(entries, keep_recent);
    size_t open_turn = recent_from(entries, 1);
    for (size_t i = 0; i < entries->count; i++) {
        const struct session_entry *entry = &entries->items[i];
        bool waits = entry->kind == SESSION_TOOL_CALL && partners[i] == NONE && i >= open_turn;
        stays[i] = entry->pinned || (!is_temporary(entry) && (keep_is_system(entry) || waits ||
                                                              i == first_user || i >= recent));
    }
    for (size_t i = 0; i < entries->count; i++)
        if (stays[i] && partners[i] != NONE)
            stays[partners[i]] = true;
}
