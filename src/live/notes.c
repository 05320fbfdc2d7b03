/* Whatever hooks of one compaction a plugin answers, the context gets one injection of it. */
#include "live/internal.h"

#include <stdlib.h>

static struct live_note *notes_note_of(struct live_notes *notes, const char *plugin)
{
    for (size_t i = 0; i < notes->count; i++)
        if (strcmp(notes->items[i].plugin, plugin) == 0)
            return &notes->items[i];
    notes->items = kg_realloc(notes->items, (notes->count + 1) * sizeof(notes->items[0]));
    notes->items[notes->count] = (struct live_note){.plugin = kg_strdup(plugin)};
    return &notes->items[notes->count++];
}

void live_notes_take(struct live_notes *notes, const struct projects_hook_answer *answer)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (answer->error.code != KG_OK || answer->result == NULL)
        return;
    host_hook_result_text(answer->result, &text);
    if (text.length == 0)
        return;
    struct live_note *note = notes_note_of(notes, answer->plugin);
    if (note->text.length > 0)
        kg_buf_char(&note->text, '\n');
    kg_buf_str(&note->text, kg_buf_view(&text));
}

void live_notes_append(struct live_notes *notes, struct live_work *work, const char *mark,
                       live_next_fn *next)
{
    size_t count = notes->count < SESSION_APPEND_MAX ? notes->count : SESSION_APPEND_MAX;
    free(notes->drafts);
    notes->drafts = kg_alloc_array(count, sizeof(notes->drafts[0]));
    for (size_t i = 0; i < count; i++) {
        struct live_note *note = &notes->items[i];
        kg_json_put_string(&note->content, kg_buf_view(&note->text));
        notes->drafts[i] = (struct session_draft){.agent = work->asker->agent_path,
                                                  .kind = SESSION_INJECTION,
                                                  .role = SESSION_SYSTEM,
                                                  .source = note->plugin,
                                                  .parent = mark,
                                                  .content = kg_buf_view(&note->content)};
    }
    live_append(work, notes->drafts, count, NULL, next);
}

void live_notes_clear(struct live_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++) {
        free(notes->items[i].plugin);
        kg_buf_free(&notes->items[i].text);
        kg_buf_free(&notes->items[i].content);
    }
    free(notes->items);
    free(notes->drafts);
    *notes = (struct live_notes){0};
}
