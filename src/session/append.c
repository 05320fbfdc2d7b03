/*
 * The common append in one statement, and several in one go, for a database to which each one is a
 * journey: what has to be known before is looked at there. What is not common, as entries that go
 * first, injections behind a compaction and tasks, or what is refused, goes step by step: see
 * log.c.
 */
#include "session/internal.h"

#include <stdlib.h>

#define CONTENTS_MAX ((size_t)8 << 20) /* bytes after which no more go together */

/* -- whether it is common ---------------------------------------------------------------------- */

static bool append_is_common(const struct session_draft *drafts, size_t at)
{
    const struct session_draft *draft = &drafts[at];
    bool is_result = draft->kind == SESSION_TOOL_RESULT;
    if (draft->first || (draft->id != NULL && at > 0) || (draft->parent != NULL) != is_result ||
        session_check_draft(draft, NULL) < 0)
        return false;
    if (!is_result)
        return true;
    for (size_t i = 0; i < at; i++)
        if (drafts[i].parent != NULL && strcmp(drafts[i].parent, draft->parent) == 0)
            return false;
    return strlen(draft->parent) == KG_ULID_LENGTH;
}

static bool append_all_common(const struct session_append *append)
{
    for (size_t i = 0; i < append->count; i++)
        if (!append_is_common(append->drafts, i))
            return false;
    return append->count > 0 && append->count <= SESSION_APPEND_MAX;
}

/* -- the statements ---------------------------------------------------------------------------- */

/* Those that go together; what they are made of is owned. */
struct append_group {
    struct session_append *const *appends;
    struct state_append *rows;
    size_t count, bytes;
};

static void append_visit(void *data, size_t append, size_t entry,
                         const struct state_appended *appended)
{
    struct session_append *made = ((struct append_group *)data)->appends[append];
    struct session_added *added = &made->added[entry];
    added->seq = (uint64_t)appended->seq;
    added->context_tokens = (uint64_t)appended->tokens;
    kg_str_copy(kg_str(appended->id), added->id.text, sizeof(added->id.text));
    made->done = entry + 1 == made->count;
}

static void append_take_draft(const struct session_draft *draft, struct session_added *added,
                              struct state_entry *ret_entry)
{
    *added = (struct session_added){.id = kg_id_new(""), .created_ms = kg_wall_ms()};
    if (session_kind_row(draft->kind)->in_context)
        added->tokens = session_tokens(draft->content, draft->source);
    *ret_entry = (struct state_entry){
        .id = added->id.text,
        .agent = draft->agent,
        .kind = session_kind_row(draft->kind)->name,
        .role = session_role_names[draft->role],
        .source = draft->source,
        .parent = draft->parent,
        .tokens = (int64_t)added->tokens,
        .content = draft->content,
    };
}

/* What a session without a title would be called by these. */
static char *append_title(const struct session_append *append)
{
    char *title = NULL;
    for (size_t i = 0; i < append->count && title == NULL; i++)
        if (append->drafts[i].kind == SESSION_MESSAGE && append->drafts[i].role == SESSION_USER)
            title = session_title_of(append->drafts[i].content);
    return title;
}

static void append_group_add(struct append_group *group, const struct session_append *append)
{
    struct state_entry *entries = kg_alloc_array(append->count, sizeof(entries[0]));
    for (size_t i = 0; i < append->count; i++) {
        append_take_draft(&append->drafts[i], &append->added[i], &entries[i]);
        group->bytes += append->drafts[i].content.length;
    }
    group->rows[group->count++] = (struct state_append){
        .session = append->id,
        .entries = entries,
        .count = append->count,
        .told = append->drafts[0].id,
        .title = append_title(append),
        .gap = RANK_GAP,
        .most = SESSION_ENTRIES_MAX,
        .now_ms = append->added[append->count - 1].created_ms,
    };
}

static void append_group_free(struct append_group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        free((void *)group->rows[i].entries);
        free((void *)group->rows[i].title);
    }
    free(group->rows);
}

int session_append_at_once(struct state *state, struct session_append *const *appends, size_t count,
                           struct kg_err *err)
{
    struct append_group group = {.appends = appends};
    if (state_has_one_writer(state))
        return 0;
    group.rows = kg_alloc_array(count, sizeof(group.rows[0]));
    while (group.count < count && group.bytes < CONTENTS_MAX &&
           append_all_common(appends[group.count]))
        append_group_add(&group, appends[group.count]);
    int result = group.count > 0
                     ? state_append(state, group.rows, group.count, append_visit, &group, err)
                     : 0;
    for (size_t i = 0; i < group.count && result < 0; i++)
        appends[i]->done = false;
    append_group_free(&group);
    return result;
}
