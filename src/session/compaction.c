/*
 * The plan of a compaction: which entries go, and what is added. It is made of a context as it was
 * read, and nothing is written until it is applied. Each step walks the context a fixed number of
 * times, however long it is.
 */
#include "session/internal.h"

#include <errno.h>
#include <stdlib.h>

const char *const session_strategy_names[SESSION_STRATEGY_COUNT] = {
    [SESSION_BY_DROP] = "drop",
    [SESSION_BY_SUMMARY] = "summarize",
    [SESSION_BY_DELEGATE] = "delegate",
    [SESSION_BY_CHECKPOINT] = "checkpoint",
};

bool session_over_threshold(uint64_t tokens, uint64_t window_tokens, double threshold)
{
    return window_tokens > 0 && (double)tokens >= threshold * (double)window_tokens;
}

uint64_t session_target_tokens(uint64_t window_tokens, double threshold)
{
    return (uint64_t)(threshold * (double)window_tokens / 2);
}

/* -- additions --------------------------------------------------------------------------------- */

void additions_add(struct additions *additions, size_t after, enum session_role role,
                   struct kg_str text)
{
    if (additions->count == additions->capacity) {
        additions->capacity = additions->capacity ? additions->capacity * 2 : 4;
        additions->items =
            kg_realloc(additions->items, additions->capacity * sizeof(additions->items[0]));
    }
    additions->items[additions->count++] = (struct addition){
        .after = after, .role = role, .text = kg_str_dup(text), .length = text.length};
}

void additions_clear(struct additions *additions)
{
    for (size_t i = 0; i < additions->count; i++)
        free(additions->items[i].text);
    free(additions->items);
    *additions = (struct additions){0};
}

struct session_entry session_addition_entry(const struct session_compaction *compaction,
                                            const struct addition *addition,
                                            struct kg_buf *ret_content)
{
    ret_content->length = 0;
    kg_json_put_string(ret_content, (struct kg_str){addition->text, addition->length});
    return (struct session_entry){
        .id = addition->id,
        .kind = SESSION_SUMMARY,
        .role = addition->role,
        .agent = compaction->agent,
        .source = compaction->plugin,
        .tokens = session_tokens(kg_buf_view(ret_content), compaction->plugin),
        .content = kg_buf_view(ret_content),
    };
}

static uint64_t additions_tokens(const struct additions *additions, const char *source)
{
    uint64_t sum = 0;
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    for (size_t i = 0; i < additions->count; i++) {
        content.length = 0;
        kg_json_put_string(&content,
                           (struct kg_str){additions->items[i].text, additions->items[i].length});
        sum += session_tokens(kg_buf_view(&content), source);
    }
    return sum;
}

uint64_t session_planned_tokens(const struct session_compaction *compaction, const bool *goes,
                                const struct additions *additions, const char *source)
{
    uint64_t sum = additions_tokens(additions, source);
    for (size_t i = 0; i < compaction->entries.count; i++)
        sum += goes[i] ? 0 : compaction->entries.items[i].tokens;
    return sum;
}

/* -- planning ---------------------------------------------------------------------------------- */

/* One entry, and its partner; returns the tokens that this saves. */
static uint64_t compaction_let_go(struct session_compaction *compaction, size_t at)
{
    const struct session_entry *items = compaction->entries.items;
    size_t partner = compaction->partners[at];
    if (compaction->goes[at])
        return 0;
    compaction->goes[at] = true;
    if (partner == NONE || compaction->goes[partner])
        return items[at].tokens;
    compaction->goes[partner] = true;
    return items[at].tokens + items[partner].tokens;
}

/* The oldest first, until the target is reached; summaries last, since they hold the most. */
static void plan_drop(struct session_compaction *compaction)
{
    const struct session_entries *entries = &compaction->entries;
    uint64_t tokens = compaction->tokens_before;
    memset(compaction->goes, 0, entries->count);
    for (size_t i = 0; i < entries->count; i++)
        if (!compaction->stays[i] && entries->items[i].kind == SESSION_INJECTION)
            tokens -= compaction_let_go(compaction, i);
    for (int summaries = 0; summaries < 2; summaries++)
        for (size_t i = 0; i < entries->count && tokens > compaction->options.target_tokens; i++)
            if (!compaction->stays[i] && (entries->items[i].kind == SESSION_SUMMARY) == summaries)
                tokens -= compaction_let_go(compaction, i);
}

static void plan_all(struct session_compaction *compaction)
{
    for (size_t i = 0; i < compaction->entries.count; i++)
        compaction->goes[i] = !compaction->stays[i];
}

static void (*const planners[SESSION_STRATEGY_COUNT])(struct session_compaction *compaction) = {
    [SESSION_BY_DROP] = plan_drop,
    [SESSION_BY_SUMMARY] = plan_drop,
    [SESSION_BY_DELEGATE] = plan_all,
};

static size_t count_goes(const struct session_compaction *compaction)
{
    size_t count = 0;
    for (size_t i = 0; i < compaction->entries.count; i++)
        count += compaction->goes[i];
    return count;
}

/* -- making one -------------------------------------------------------------------------------- */

/* Marks and events are not part of a context; superseded ones no longer. */
static void leave_visible(struct session_entries *entries)
{
    size_t count = 0;
    for (size_t i = 0; i < entries->count; i++)
        if (session_kind_row(entries->items[i].kind)->in_context &&
            entries->items[i].superseded == 0)
            entries->items[count++] = entries->items[i];
    entries->count = count;
}

/* Content is read from the newest back: before the first that was not, a payload has nothing. */
static size_t readable_from(const struct session_entries *entries)
{
    size_t at = entries->count;
    while (at > 0 && entries->items[at - 1].content.data != NULL)
        at--;
    return at;
}

static struct session_compaction *compaction_make(struct session_entries *entries,
                                                  const struct session_compaction_options *options)
{
    struct session_compaction *compaction = kg_alloc(sizeof(*compaction));
    leave_visible(entries);
    compaction->entries = *entries;
    *entries = (struct session_entries){0};
    entries = &compaction->entries;
    compaction->partners = session_partners(entries);
    compaction->stays = kg_alloc_array(entries->count + 1, sizeof(bool));
    compaction->goes = kg_alloc_array(entries->count + 1, sizeof(bool));
    compaction->options = *options;
    compaction->trigger = kg_strdup(options->trigger);
    compaction->options.trigger = compaction->trigger;
    compaction->strategy = options->strategy;
    compaction->readable_from = readable_from(entries);
    for (size_t i = 0; i < entries->count; i++)
        compaction->tokens_before += entries->items[i].tokens;
    session_must_stay(entries, compaction->partners, options->keep_recent, compaction->stays);
    planners[options->strategy](compaction);
    return compaction;
}

static int compaction_check_options(const struct session_compaction_options *options,
                                    struct kg_err *err)
{
    if (planners[options->strategy] != NULL)
        return 0;
    return kg_fail(err, KG_E_INVALID_PARAMS, "compaction: %s removes nothing",
                   session_strategy_names[options->strategy]);
}

int session_compaction_new(struct session_entries *entries,
                           const struct session_compaction_options *options,
                           struct session_compaction **ret_compaction, struct kg_err *err)
{
    int result = compaction_check_options(options, err);
    if (result < 0)
        return result;
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        compaction_make(entries, options);
    compaction->session = kg_strdup("");
    compaction->agent = kg_strdup("primary");
    if (count_goes(compaction) == 0)
        return kg_fail(err, KG_E_CONFLICT, "compaction: nothing may be removed");
    *ret_compaction = kg_steal(&compaction);
    return 0;
}

/* The content of the newest entries, as much as a payload can hold. */
static int read_newest(struct state *state, struct session_entries *entries, struct kg_err *err)
{
    size_t bytes = 0;
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    for (size_t i = entries->count; i > 0; i--) {
        struct session_entry *entry = &entries->items[i - 1];
        bytes += entry->bytes;
        if (bytes > SESSION_PAYLOAD_MAX)
            break;
        content.length = 0;
        int result = state_content_get(state, entry->content_number, &content, err);
        if (result < 0)
            return result;
        entry->content = kg_arena_str(entries->arena, kg_buf_view(&content));
    }
    return 0;
}

static int compaction_read_context(struct state *state, const struct session *session,
                                   const char *agent, struct session_entries *entries,
                                   struct kg_err *err)
{
    const struct state_entry_query rows = {.order = STATE_ENTRIES_LIVE,
                                           .session = session->number,
                                           .agent = agent,
                                           .limit = SESSION_ENTRIES_MAX};
    int result = state_entries(state, &rows, session_entries_visit, entries, err);
    leave_visible(entries);
    return result < 0 ? result : read_newest(state, entries, err);
}

int session_compaction_read(struct state *state, const char *id, const char *agent,
                            const struct session_compaction_options *options,
                            struct session_compaction **ret_compaction, struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    uint64_t tokens, generation = 0;
    int result = compaction_check_options(options, err);
    if (result == 0)
        result = session_check_agent(agent, err);
    if (result == 0)
        result = session_load_open(state, id, &session, err);
    if (result == 0)
        result = session_agent_tokens(state, &session, agent, &tokens, &generation, err);
    if (result == 0)
        result = compaction_read_context(state, &session, agent, &entries, err);
    if (result < 0)
        return result;
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        compaction_make(&entries, options);
    compaction->session = kg_strdup(id);
    compaction->agent = kg_strdup(agent);
    compaction->generation = generation;
    if (count_goes(compaction) == 0) {
        kg_fail(err, KG_E_CONFLICT, "session %s: compact %s: nothing in its context may be removed",
                id, agent);
        return kg_hint(
            err,
            "the first message, the last %u turns and what is pinned stay; fewer turns with "
            "--keep-recent",
            options->keep_recent);
    }
    *ret_compaction = kg_steal(&compaction);
    return 0;
}

void session_compaction_free(struct session_compaction *compaction)
{
    if (compaction == NULL)
        return;
    session_entries_clear(&compaction->entries);
    additions_clear(&compaction->additions);
    free(compaction->partners);
    free(compaction->stays);
    free(compaction->goes);
    free(compaction->trigger);
    free(compaction->plugin);
    free(compaction->summary);
    free(compaction->fallback);
    free(compaction->session);
    free(compaction->agent);
    free(compaction);
}

void session_compaction_cleanup(struct session_compaction **compaction)
{
    session_compaction_free(*compaction);
    *compaction = NULL;
}

/* -- looking at one, and changing it ----------------------------------------------------------- */

struct session_compaction_sums session_compaction_sums(const struct session_compaction *compaction)
{
    size_t goes = count_goes(compaction);
    return (struct session_compaction_sums){
        .superseded = goes,
        .kept = compaction->entries.count - goes,
        .added = compaction->additions.count,
        .tokens_before = compaction->tokens_before,
        .tokens_after = session_planned_tokens(compaction, compaction->goes, &compaction->additions,
                                               compaction->plugin),
        .target_tokens = compaction->options.target_tokens,
    };
}

size_t session_compaction_count(const struct session_compaction *compaction)
{
    return compaction->entries.count;
}

const struct session_entry *session_compaction_entry(const struct session_compaction *compaction,
                                                     size_t at, bool *ret_must_stay, bool *ret_goes)
{
    *ret_must_stay = compaction->stays[at];
    *ret_goes = compaction->goes[at];
    return &compaction->entries.items[at];
}

const char *session_compaction_summary(const struct session_compaction *compaction)
{
    return compaction->summary;
}

void session_compaction_set_summary(struct session_compaction *compaction, struct kg_str text)
{
    size_t first = 0;
    while (!compaction->goes[first])
        first++;
    if (text.length > SESSION_SUMMARY_MAX)
        text.length = kg_utf8_valid((struct kg_str){text.data, SESSION_SUMMARY_MAX});
    additions_clear(&compaction->additions);
    additions_add(&compaction->additions, first > 0 ? first - 1 : NONE, SESSION_SYSTEM, text);
}

void session_compaction_fall_back(struct session_compaction *compaction, const char *reason)
{
    char *kept = kg_strdup(reason);
    free(compaction->fallback);
    free(compaction->plugin);
    free(compaction->summary);
    compaction->fallback = kept;
    compaction->plugin = compaction->summary = NULL;
    additions_clear(&compaction->additions);
    compaction->strategy = SESSION_BY_DROP;
    plan_drop(compaction);
}
