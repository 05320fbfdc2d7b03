/* Reading sessions: everything comes in pages or within a bound, whatever is kept. */
#include "session/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

/* -- rows -------------------------------------------------------------------------------------- */

static void session_read_take_id(const char *text, struct kg_id *ret_id)
{
    *ret_id = (struct kg_id){{0}};
    if (text != NULL)
        strncpy(ret_id->text, text, sizeof(ret_id->text) - 1);
}

static void session_read_take_session(const struct state_session *row, struct session *ret_session)
{
    *ret_session = (struct session){
        .number = row->number,
        .project_id = kg_strdup(row->project_id),
        .workdir = kg_strdup(row->workdir),
        .operator_id = kg_strdup(row->operator_id),
        .seat = kg_strdup(row->seat),
        .title = row->title ? kg_strdup(row->title) : NULL,
        .created_ms = row->created_ms,
        .updated_ms = row->updated_ms,
        .entries = (uint64_t)row->entries,
    };
    session_state_find(kg_str(row->state), &ret_session->state);
    session_read_take_id(row->id, &ret_session->id);
    session_read_take_id(row->parent, &ret_session->parent);
    session_read_take_id(row->parent_entry, &ret_session->parent_entry);
    session_read_take_id(row->branch, &ret_session->branch);
    session_read_take_id(row->left_by, &ret_session->left_by);
}

static void visit_one(void *data, const struct state_session *row)
{
    session_read_take_session(row, data);
}

static void visit_list(void *data, const struct state_session *row)
{
    struct session_list *list = data;
    list->items = kg_realloc(list->items, (list->count + 1) * sizeof(list->items[0]));
    session_read_take_session(row, &list->items[list->count++]);
}

/* -- by name ----------------------------------------------------------------------------------- */

static int no_session(struct kg_str id, struct kg_err *err)
{
    kg_fail(err, KG_E_NOT_FOUND, "session %.*s: there is none", KG_STR_CUT(id, 80));
    kg_hint(err, "kaged session list shows those that there are");
    return -ENOENT;
}

int session_load(struct state *state, const char *id, struct session *ret_session,
                 struct kg_err *err)
{
    struct session session = {0};
    int result = state_session_get(state, id, visit_one, &session, err);
    if (result == 0 && session.number == 0)
        return no_session(kg_str(id), err);
    if (result == 0)
        *ret_session = session;
    return result;
}

int session_load_branch(struct state *state, const char *branch, struct session *ret_session,
                        struct kg_err *err)
{
    struct session session = {0};
    int result = state_session_of_branch(state, branch, visit_one, &session, err);
    if (result == 0 && session.number == 0)
        return kg_fail(err, KG_E_NOT_FOUND, "branch %.80s: there is none", branch);
    if (result == 0)
        *ret_session = session;
    return result;
}

/* The ids that begin so: from `first` up to, not with, `past`. */
struct range {
    char first[KG_ID_MAX], past[KG_ID_MAX];
};

/* Crockford's letters, small ones too; false if no id can begin so. */
static bool make_range(const char *kind, struct kg_str prefix, struct range *ret_range)
{
    size_t used = strlen(kind);
    if (prefix.length >= used && strncasecmp(prefix.data, kind, used) == 0) {
        prefix.data += used;
        prefix.length -= used;
    }
    if (prefix.length == 0 || prefix.length > KG_ULID_LENGTH)
        return false;
    *ret_range = (struct range){0};
    memcpy(ret_range->first, kind, used);
    for (size_t i = 0; i < prefix.length; i++) {
        char c = prefix.data[i];
        c = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
        if (!(kg_is_digit(c) || (c >= 'A' && c <= 'Z')))
            return false;
        ret_range->first[used++] = c;
    }
    memcpy(ret_range->past, ret_range->first, used);
    ret_range->past[used] = '~'; /* behind all letters */
    return true;
}

int session_find(struct state *state, struct kg_str id, struct session *ret_session,
                 struct kg_err *err)
{
    struct range range;
    kg_auto(session_list_clear) struct session_list found = {0};
    bool is_last = kg_str_is(id, "@last");
    if (!is_last && !make_range("ses_", id, &range))
        return no_session(id, err);
    if (is_last)
        range = (struct range){.first = "ses_", .past = "ses_~"};
    struct state_session_query query = {
        .first = range.first, .past = range.past, .limit = is_last ? 1 : 2};
    int result = state_sessions(state, &query, visit_list, &found, err);
    query.left = true; /* only then: what was left must not stand in the way of what is used */
    if (result == 0 && found.count == 0 && !is_last)
        result = state_sessions(state, &query, visit_list, &found, err);
    if (result < 0)
        return result;
    if (found.count == 0)
        return no_session(id, err);
    if (found.count > 1) {
        kg_fail(err, KG_E_CONFLICT, "session %.*s: several begin so, %s and %s among them",
                KG_STR_CUT(id, 40), found.items[0].id.text, found.items[1].id.text);
        return kg_hint(err, "give more of its id");
    }
    *ret_session = found.items[0];
    found.items[0] = (struct session){0};
    return 0;
}

static int no_entry(const struct session *session, struct kg_str id, struct kg_err *err)
{
    kg_fail(err, KG_E_NOT_FOUND, "session %s: entry %.*s: there is none", session->id.text,
            KG_STR_CUT(id, 80));
    kg_hint(err, "kaged session show %s lists them", session->id.text);
    return -ENOENT;
}

int session_entry_named(struct state *state, const struct session *session, struct kg_str id,
                        bool content, struct session_entries *ret_entries, struct kg_err *err)
{
    struct range range;
    kg_auto(session_entries_clear) struct session_entries found = {0};
    if (!make_range("", id, &range))
        return no_entry(session, id, err);
    const struct state_entry_query query = {.order = STATE_ENTRIES_NAMED,
                                            .session = session->number,
                                            .first = range.first,
                                            .past = range.past,
                                            .limit = 2,
                                            .content = content};
    int result = state_entries(state, &query, session_entries_visit, &found, err);
    if (result < 0)
        return result;
    if (found.count == 0)
        return no_entry(session, id, err);
    if (found.count > 1) {
        kg_fail(err, KG_E_CONFLICT, "session %s: entry %.*s: several begin so", session->id.text,
                KG_STR_CUT(id, 40));
        return kg_hint(err, "give more of its id");
    }
    *ret_entries = found;
    found = (struct session_entries){0};
    return 0;
}

int session_entry_find(struct state *state, const char *id, struct kg_str entry,
                       struct session_entries *ret_entries, struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    int result = session_load(state, id, &session, err);
    return result < 0 ? result
                      : session_entry_named(state, &session, entry, true, ret_entries, err);
}

/* -- pages ------------------------------------------------------------------------------------- */

static size_t page_limit(size_t wanted, size_t most)
{
    return wanted == 0 || wanted > most ? most : wanted;
}

int session_list(struct state *state, const struct session_list_query *query,
                 struct session_list *ret_list, struct kg_err *err)
{
    size_t limit = page_limit(query->limit, SESSION_PAGE_SESSIONS);
    const struct state_session_query rows = {
        .project_id = query->project_id,
        .operator_id = query->operator_id,
        .state = query->state ? session_state_names[*query->state] : NULL,
        .first = "ses_",
        .past = query->before ? query->before : "ses_~",
        .limit = (int64_t)limit + 1,
    };
    kg_auto(session_list_clear) struct session_list list = {0};
    int result = state_sessions(state, &rows, visit_list, &list, err);
    if (result < 0)
        return result;
    list.more = list.count > limit;
    if (list.more)
        session_clear(&list.items[--list.count]);
    *ret_list = list;
    list = (struct session_list){0};
    return 0;
}

/* What is read until a bound is reached. */
struct bounded {
    struct session_entries entries;
    size_t limit, bytes, bytes_max;
};

static bool visit_page(void *data, const struct state_entry *row)
{
    struct bounded *page = data;
    page->bytes += (size_t)row->bytes;
    page->entries.more = page->entries.count == page->limit ||
                         (page->entries.count > 0 && page->bytes > page->bytes_max);
    if (!page->entries.more)
        session_entries_take(&page->entries, row);
    return !page->entries.more;
}

int session_page(struct state *state, const char *id, const struct session_page_query *query,
                 struct session_entries *ret_entries, struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    int result = session_load(state, id, &session, err);
    if (result < 0)
        return result;
    struct bounded page = {.limit = page_limit(query->limit, SESSION_PAGE_ENTRIES),
                           .bytes_max = SESSION_PAGE_BYTES};
    const struct state_entry_query rows = {.order = STATE_ENTRIES_UP,
                                           .session = session.number,
                                           .agent = query->agent,
                                           .after = (int64_t)query->after,
                                           .limit = (int64_t)page.limit + 1,
                                           .content = true};
    result = state_entries(state, &rows, visit_page, &page, err);
    if (result < 0) {
        session_entries_clear(&page.entries);
        return result;
    }
    *ret_entries = page.entries;
    return 0;
}

/* -- contexts ---------------------------------------------------------------------------------- */

static bool visit_context(void *data, const struct state_entry *row)
{
    struct bounded *context = data;
    context->bytes += (size_t)row->bytes;
    context->entries.more = context->bytes > context->bytes_max;
    if (!context->entries.more)
        session_entries_take(&context->entries, row);
    return !context->entries.more;
}

int session_context_read(struct state *state, const char *id, const char *agent,
                         struct session_entries *ret_entries, struct kg_err *err)
{
    struct bounded context = {.bytes_max = SESSION_CONTEXT_MAX};
    const struct state_context_query query = {
        .session = id, .agent = agent, .limit = SESSION_ENTRIES_MAX};
    bool found = false;
    int result = session_check_agent(agent, err);
    if (result == 0)
        result = state_context(state, &query, visit_context, &context, &found, err);
    if (result == 0 && !found)
        result = no_session(kg_str(id), err);
    if (result == 0 && context.entries.more) {
        result = kg_fail(err, KG_E_TOO_LARGE, "session %s: the context of %s has more than %d MiB",
                         id, agent, SESSION_CONTEXT_MAX >> 20);
        kg_hint(err, "kaged session compact %s makes it smaller", id);
    }
    if (result < 0) {
        session_entries_clear(&context.entries);
        return result;
    }
    *ret_entries = context.entries;
    return 0;
}

static void visit_agents(void *data, const struct state_agent *row)
{
    struct session_agents *agents = data;
    agents->items = kg_realloc(agents->items, (agents->count + 1) * sizeof(agents->items[0]));
    agents->items[agents->count++] = (struct session_agent){
        .path = kg_strdup(row->path),
        .entries = (uint64_t)row->entries,
        .tokens = (uint64_t)row->tokens,
    };
}

int session_agents_read(struct state *state, const char *id, struct session_agents *ret_agents,
                        struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    kg_auto(session_agents_clear) struct session_agents agents = {0};
    int result = session_load(state, id, &session, err);
    if (result == 0)
        result = state_agents(state, session.number, NULL, visit_agents, &agents, err);
    if (result < 0)
        return result;
    *ret_agents = agents;
    agents = (struct session_agents){0};
    return 0;
}

static void visit_sums(void *data, const struct state_agent *row)
{
    struct state_agent *sums = data;
    *sums = (struct state_agent){.tokens = row->tokens, .generation = row->generation};
}

int session_agent_tokens(struct state *state, const struct session *session, const char *agent,
                         uint64_t *ret_tokens, uint64_t *ret_generation, struct kg_err *err)
{
    struct state_agent sums = {0};
    int result = state_agents(state, session->number, agent, visit_sums, &sums, err);
    if (result < 0)
        return result;
    *ret_tokens = (uint64_t)sums.tokens;
    if (ret_generation != NULL)
        *ret_generation = (uint64_t)sums.generation;
    return 0;
}

/* -- transcripts ------------------------------------------------------------------------------- */

#define MESSAGE_FRAME 256 /* bytes around the content of a message, at most */

struct transcript {
    struct session_entries entries; /* the newest first */
    uint64_t after, left;
    size_t bytes, bytes_max;
};

/* Not what plugins injected: a plugin that remembers would remember its own words. */
static bool session_read_is_said(const struct state_entry *row)
{
    return strcmp(row->kind, session_kind_row(SESSION_MESSAGE)->name) == 0 ||
           strcmp(row->kind, session_kind_row(SESSION_TOOL_CALL)->name) == 0 ||
           strcmp(row->kind, session_kind_row(SESSION_TOOL_RESULT)->name) == 0;
}

static bool visit_transcript(void *data, const struct state_entry *row)
{
    struct transcript *transcript = data;
    if ((uint64_t)row->seq <= transcript->after)
        return false;
    if (!session_read_is_said(row))
        return true;
    transcript->bytes += (size_t)row->bytes + MESSAGE_FRAME;
    if (transcript->bytes > transcript->bytes_max) {
        transcript->left++;
        return true;
    }
    session_entries_take(&transcript->entries, row);
    return true;
}

/* Reads the content of what was found, the oldest first, into a list of its own. */
static int read_contents(struct state *state, const struct session_entries *newest_first,
                         struct session_entries *entries, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    int result = 0;
    for (size_t i = newest_first->count; i > 0 && result == 0; i--) {
        struct session_entry entry = newest_first->items[i - 1];
        content.length = 0;
        result = state_content_get(state, entry.content_number, &content, err);
        if (result < 0)
            break;
        entry.content = kg_buf_view(&content);
        session_entries_add(entries, &entry);
    }
    return result;
}

int session_transcript_read(struct state *state, const char *id, const char *agent, uint64_t after,
                            size_t max_bytes, struct session_entries *ret_entries,
                            uint64_t *ret_left, struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    struct transcript transcript = {.after = after, .bytes_max = max_bytes};
    int result = session_load(state, id, &session, err);
    if (result < 0)
        return result;
    const struct state_entry_query rows = {.order = STATE_ENTRIES_DOWN,
                                           .session = session.number,
                                           .agent = agent,
                                           .after = INT64_MAX,
                                           .limit = SESSION_ENTRIES_MAX};
    result = state_entries(state, &rows, visit_transcript, &transcript, err);
    if (result == 0)
        result = read_contents(state, &transcript.entries, &entries, err);
    session_entries_clear(&transcript.entries);
    if (result < 0)
        return result;
    *ret_entries = entries;
    *ret_left = transcript.left;
    entries = (struct session_entries){0};
    return 0;
}
