/*
 * The common append in one statement, for a database to which each one is a journey: what has to be
 * known before is looked at there. What is not common, as entries that go first, injections behind
 * a compaction and tasks, or what is refused, goes step by step: see log.c.
 */
#include "session/internal.h"

#include <stdlib.h>

#define CONTENTS_MAX ((size_t)64 << 20) /* bytes in one statement */

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

static bool append_all_common(const struct session_draft *drafts, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (!append_is_common(drafts, i))
            return false;
        bytes += drafts[i].content.length;
    }
    return bytes <= CONTENTS_MAX;
}

/* -- the statement ----------------------------------------------------------------------------- */

struct appending {
    struct session_added *added; /* in order */
    size_t visited;
};

static void append_visit(void *data, int64_t seq, const char *id, int64_t tokens)
{
    struct appending *appending = data;
    struct session_added *added = &appending->added[appending->visited++];
    added->seq = (uint64_t)seq;
    added->context_tokens = (uint64_t)tokens;
    kg_str_copy(kg_str(id), added->id.text, sizeof(added->id.text));
}

static void append_take_draft(const struct session_draft *draft, struct session_added *added,
                              struct state_entry *ret_entry)
{
    added->id = kg_id_new("");
    added->created_ms = kg_wall_ms();
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
static char *append_title(const struct session_draft *drafts, size_t count)
{
    char *title = NULL;
    for (size_t i = 0; i < count && title == NULL; i++)
        if (drafts[i].kind == SESSION_MESSAGE && drafts[i].role == SESSION_USER)
            title = session_title_of(drafts[i].content);
    return title;
}

int session_append_at_once(struct state *state, const char *id, const struct session_draft *drafts,
                           size_t count, struct session_added *added, bool *ret_done,
                           struct kg_err *err)
{
    *ret_done = false;
    if (state_has_one_writer(state) || !append_all_common(drafts, count))
        return 0;
    kg_auto(kg_free) struct state_entry *entries = kg_alloc_array(count, sizeof(entries[0]));
    kg_auto(kg_free) char *title = append_title(drafts, count);
    struct appending appending = {.added = added};
    for (size_t i = 0; i < count; i++)
        append_take_draft(&drafts[i], &added[i], &entries[i]);
    const struct state_append append = {
        .session = id,
        .entries = entries,
        .count = count,
        .told = drafts[0].id,
        .title = title,
        .gap = RANK_GAP,
        .most = SESSION_ENTRIES_MAX,
        .now_ms = added[count - 1].created_ms,
    };
    int result = state_append(state, &append, append_visit, &appending, err);
    *ret_done = result == 0 && appending.visited == count;
    return result;
}
