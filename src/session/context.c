/*
 * What a model would be sent, in a form of our own that adapters turn into each provider's. A model
 * sees a call and its result, or neither: providers refuse the one without the other.
 */
#include "session/internal.h"

#include <stdlib.h>

/* -- one message ------------------------------------------------------------------------------- */

/* The text of content that is one JSON string. */
static void context_decode(struct kg_str content, struct kg_buf *buf)
{
    struct kg_json_cursor cursor = {content.data, content.data + content.length};
    struct kg_str raw;
    bool escaped;
    kg_json_skip_space(&cursor);
    if (kg_json_skip_string(&cursor, &raw, &escaped) != KG_JSON_OK)
        return; /* an entry of such a kind was checked before it was kept */
    kg_buf_reserve(buf, raw.length + 1);
    buf->length += kg_json_unescape(raw, buf->data + buf->length);
}

static void context_write_text(const struct session_entry *entry, struct kg_buf *buf)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, safe = {0};
    context_decode(entry->content, &text);
    if (entry->source != NULL)
        session_wrap(entry->source, kg_buf_view(&text), &safe);
    else
        session_defuse(kg_buf_view(&text), &safe);
    kg_json_put_string(buf, kg_buf_view(&safe));
}

/* Messages travel in lines. In valid JSON a raw newline is white space and nothing else. */
void session_join_lines(struct kg_buf *buf, size_t from)
{
    static const char breaks[] = {'\n', '\r'};
    const char *end = buf->data + buf->length;
    for (size_t i = 0; i < sizeof(breaks); i++)
        for (char *at = buf->data + from;
             at < end && (at = memchr(at, breaks[i], (size_t)(end - at))) != NULL; at++)
            *at = ' ';
}

void session_content_write(const struct session_entry *entry, struct kg_buf *buf)
{
    size_t from = buf->length;
    if (entry->kind == SESSION_INJECTION || entry->kind == SESSION_SUMMARY)
        context_write_text(entry, buf);
    else if (entry->kind == SESSION_TOOL_RESULT)
        session_defuse_json(entry->content, buf); /* plugins write these, too */
    else
        kg_buf_str(buf, entry->content);
    session_join_lines(buf, from);
}

void session_message_begin(const struct session_entry *entry, struct kg_json_writer *writer)
{
    kg_json_begin(writer, '{');
    kg_json_named_text(writer, "id", entry->id.text);
    kg_json_named_text(writer, "role", session_role_names[entry->role]);
    if (entry->kind != SESSION_MESSAGE)
        kg_json_named_text(writer, "kind", session_kind_row(entry->kind)->name);
    if (entry->parent.text[0] != '\0' && entry->kind != SESSION_MESSAGE)
        kg_json_named_text(writer, "parent", entry->parent.text);
    if (entry->source != NULL)
        kg_json_named_text(writer, "plugin", entry->source);
    if (entry->pinned)
        kg_json_named_bool(writer, "pinned", true);
    kg_json_key(writer, "content");
    session_content_write(entry, writer->buf);
    writer->comma = true;
}

void session_message_write(const struct session_entry *entry, struct kg_json_writer *writer)
{
    session_message_begin(entry, writer);
    kg_json_end(writer, '}');
}

/* -- a context --------------------------------------------------------------------------------- */

static bool needs_partner(const struct session_entry *entry)
{
    return entry->kind == SESSION_TOOL_CALL || entry->kind == SESSION_TOOL_RESULT;
}

static bool is_shown(const struct session_entries *entries, const size_t *partners, size_t at)
{
    const struct session_entry *entry = &entries->items[at];
    if (entry->superseded != 0 || !session_kind_row(entry->kind)->in_context)
        return false;
    return !needs_partner(entry) ||
           (partners[at] != NONE && entries->items[partners[at]].superseded == 0);
}

static struct session_context_sums add_up(const struct session_entries *entries,
                                          const size_t *partners)
{
    struct session_context_sums sums = {0};
    for (size_t i = 0; i < entries->count; i++) {
        const struct session_entry *entry = &entries->items[i];
        if (is_shown(entries, partners, i)) {
            sums.messages++;
            sums.tokens += entry->tokens;
        } else if (entry->kind == SESSION_TOOL_CALL && entry->superseded == 0) {
            sums.unanswered++;
        }
    }
    return sums;
}

void session_context_write(const char *agent, const struct session_entries *entries,
                           struct kg_buf *buf, struct session_context_sums *ret_sums)
{
    size_t *partners = session_partners(entries);
    struct session_context_sums sums = add_up(entries, partners);
    struct kg_json_writer writer = kg_json_writer(buf);
    kg_json_begin(&writer, '{');
    kg_json_named_text(&writer, "agent_path", agent);
    kg_json_named_int(&writer, "tokens", (int64_t)sums.tokens);
    kg_json_named_begin(&writer, "messages", '[');
    for (size_t i = 0; i < entries->count; i++)
        if (is_shown(entries, partners, i))
            session_message_write(&entries->items[i], &writer);
    kg_json_end(&writer, ']');
    kg_json_end(&writer, '}');
    free(partners);
    if (ret_sums != NULL)
        *ret_sums = sums;
}
