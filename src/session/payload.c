/*
 * What hooks are told. A payload fits into one line of the wire: where it would not, the oldest
 * messages are left out and counted, never cut.
 */
#include "session/internal.h"

#include <stdlib.h>

/* Messages as they are written, from the newest back. */
struct pile {
    struct kg_buf buf; /* one behind the other */
    struct piece {
        size_t start, length;
        bool goes;
    } * pieces; /* owned */
    size_t count, capacity;
    size_t max_bytes, left_out;
};

static void pile_free(struct pile *pile)
{
    kg_buf_free(&pile->buf);
    free(pile->pieces);
}

/* Once one message did not fit, no older one does. */
static void pile_add(struct pile *pile, const struct session_entry *entry, size_t position,
                     bool goes)
{
    size_t start = pile->buf.length;
    if (pile->left_out == 0 && entry->content.data != NULL) {
        struct kg_json_writer writer = kg_json_writer(&pile->buf);
        session_message_begin(entry, &writer);
        if (position != NONE) {
            kg_json_named_int(&writer, "position", (int64_t)position);
            kg_json_named_int(&writer, "tokens", (int64_t)entry->tokens);
        }
        kg_json_end(&writer, '}');
    }
    /* A comma each; and what was written of one that does not fit is taken back. */
    if (pile->buf.length == start || pile->buf.length + pile->count + 1 > pile->max_bytes) {
        pile->buf.length = start;
        pile->left_out++;
        return;
    }
    if (pile->count == pile->capacity) {
        pile->capacity = pile->capacity ? pile->capacity * 2 : 64;
        pile->pieces = kg_realloc(pile->pieces, pile->capacity * sizeof(pile->pieces[0]));
    }
    pile->pieces[pile->count++] =
        (struct piece){.start = start, .length = pile->buf.length - start, .goes = goes};
}

static void payload_write_list(const struct pile *pile, const char *key, bool goes,
                               struct kg_json_writer *writer)
{
    kg_json_named_begin(writer, key, '[');
    for (size_t i = pile->count; i > 0; i--) {
        const struct piece *piece = &pile->pieces[i - 1];
        if (piece->goes == goes)
            kg_json_raw(writer, (struct kg_str){pile->buf.data + piece->start, piece->length});
    }
    kg_json_end(writer, ']');
}

/* A figure that is left out where there is none. */
static void write_count(const char *key, uint64_t count, struct kg_json_writer *writer)
{
    if (count == 0)
        return;
    kg_json_named_int(writer, key, (int64_t)count);
}

/* -- compaction -------------------------------------------------------------------------------- */

/* What was added behind the entry `after`, the last first; *at goes down past it. */
static void pile_additions(const struct session_compaction *compaction, size_t after, size_t *at,
                           struct pile *pile)
{
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    while (*at > 0 && compaction->additions.items[*at - 1].after == after) {
        const struct session_entry entry =
            session_addition_entry(compaction, &compaction->additions.items[--*at], &content);
        pile_add(pile, &entry, NONE, false);
    }
}

static void pile_context(const struct session_compaction *compaction, struct pile *pile)
{
    bool applied = compaction->applied;
    size_t addition = applied ? compaction->additions.count : 0;
    for (size_t i = compaction->entries.count; i > 0; i--) {
        size_t at = i - 1;
        pile_additions(compaction, at, &addition, pile);
        pile_add(pile, &compaction->entries.items[at], applied ? NONE : at, compaction->goes[at]);
    }
    pile_additions(compaction, NONE, &addition, pile);
}

void session_compaction_payload(const struct session_compaction *compaction, const char *role,
                                size_t max_bytes, struct kg_buf *buf, size_t *ret_truncated)
{
    static const size_t frame_bytes = 1024; /* keys, and the words below */
    struct pile pile = {.max_bytes = max_bytes > frame_bytes ? max_bytes - frame_bytes : 0};
    pile_context(compaction, &pile);
    struct kg_json_writer writer = kg_json_writer(buf);
    kg_json_begin(&writer, '{');
    kg_json_named_text(&writer, "role", role);
    payload_write_list(&pile, "messages_being_compacted", true, &writer);
    payload_write_list(&pile, "messages_remaining", false, &writer);
    kg_json_named_text(&writer, "strategy", session_strategy_names[compaction->strategy]);
    kg_json_named_text(&writer, "trigger", compaction->options.trigger);
    write_count("target_tokens", compaction->options.target_tokens, &writer);
    write_count("truncated", pile.left_out, &writer);
    kg_json_end(&writer, '}');
    if (ret_truncated != NULL)
        *ret_truncated = pile.left_out;
    pile_free(&pile);
}

/* -- transcripts ------------------------------------------------------------------------------- */

void session_transcript_write(const struct session_entries *entries, uint64_t left,
                              size_t max_bytes, struct kg_buf *buf)
{
    static const size_t frame_bytes = 128;
    struct pile pile = {.max_bytes = max_bytes > frame_bytes ? max_bytes - frame_bytes : 0};
    for (size_t i = entries->count; i > 0; i--)
        pile_add(&pile, &entries->items[i - 1], NONE, false);
    struct kg_json_writer writer = kg_json_writer(buf);
    kg_json_begin(&writer, '{');
    payload_write_list(&pile, "transcript", false, &writer);
    write_count("truncated", left + pile.left_out, &writer);
    kg_json_end(&writer, '}');
    pile_free(&pile);
}
