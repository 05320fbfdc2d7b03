/* Sessions and entries as JSON. */
#include "live/internal.h"

#include <stdio.h>

static const char *json_text_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

void live_entry_write(const struct session_entry *entry, struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "id", entry->id.text);
    kg_json_named_int(json, "seq", (int64_t)entry->seq);
    kg_json_named_text(json, "agent", entry->agent);
    kg_json_named_text(json, "kind", session_kind_row(entry->kind)->name);
    kg_json_named_text(json, "role", session_role_names[entry->role]);
    kg_json_named_text(json, "plugin", entry->source);
    kg_json_named_text(json, "parent", json_text_or_null(entry->parent.text));
    kg_json_named_bool(json, "superseded", entry->superseded != 0);
    kg_json_named_bool(json, "pinned", entry->pinned);
    kg_json_named_time(json, "created_at", entry->created_ms);
    kg_json_named_int(json, "tokens", (int64_t)entry->tokens);
    kg_json_key(json, "content");
    if (entry->content.data != NULL)
        kg_json_raw(json, entry->content);
    else
        kg_json_null(json);
    kg_json_end(json, '}');
}

void live_added_write(const struct session_draft *draft, const struct session_added *added,
                      struct kg_json_writer *json)
{
    struct session_entry entry = {
        .id = added->id,
        .seq = added->seq,
        .kind = draft->kind,
        .role = draft->role,
        .agent = draft->agent,
        .source = draft->source,
        .created_ms = added->created_ms,
        .tokens = added->tokens,
        .content = draft->content,
    };
    if (draft->parent != NULL)
        kg_str_copy(kg_str(draft->parent), entry.parent.text, sizeof(entry.parent.text));
    live_entry_write(&entry, json);
}

static void write_agent(const struct sessions *sessions, const char *project_id,
                        const struct session_agent *agent, struct kg_json_writer *json)
{
    struct live_agent facts;
    bool known = live_agent_find(sessions, project_id, agent->path, &facts, NULL) == 0;
    kg_json_begin(json, '{');
    kg_json_named_text(json, "path", agent->path);
    kg_json_named_int(json, "entries", (int64_t)agent->entries);
    kg_json_named_int(json, "tokens", (int64_t)agent->tokens);
    kg_json_key(json, "window_tokens");
    if (known)
        kg_json_int(json, (int64_t)facts.window_tokens);
    else
        kg_json_null(json);
    kg_json_key(json, "threshold");
    char threshold[32] = "null";
    if (known)
        snprintf(threshold, sizeof(threshold), "%.4g", facts.threshold);
    kg_json_raw(json, kg_str(threshold));
    kg_json_end(json, '}');
}

void live_session_write(const struct sessions *sessions, const struct session *session,
                        const struct session_agents *agents, struct kg_json_writer *json)
{
    const struct live_session *live = kg_map_get(sessions->live, kg_str(session->id.text));
    kg_json_begin(json, '{');
    kg_json_named_text(json, "id", session->id.text);
    kg_json_named_text(json, "branch", session->branch.text);
    kg_json_named_text(json, "left_by", json_text_or_null(session->left_by.text));
    kg_json_named_text(json, "project_id", session->project_id);
    kg_json_named_text(json, "workdir", session->workdir);
    kg_json_named_text(json, "title", session->title);
    kg_json_named_text(json, "seat", session->seat);
    kg_json_named_text(json, "state", session_state_names[session->state]);
    kg_json_named_text(json, "operator_id", session->operator_id);
    kg_json_named_time(json, "created_at", session->created_ms);
    kg_json_named_time(json, "updated_at", session->updated_ms);
    kg_json_named_text(json, "parent", json_text_or_null(session->parent.text));
    kg_json_named_text(json, "parent_entry", json_text_or_null(session->parent_entry.text));
    kg_json_named_int(json, "entries", (int64_t)session->entries);
    kg_json_named_bool(json, "running", live != NULL && live->run != NULL);
    kg_json_named_begin(json, "agents", '[');
    for (size_t i = 0; i < agents->count; i++)
        write_agent(sessions, session->project_id, &agents->items[i], json);
    kg_json_end(json, ']');
    kg_json_end(json, '}');
}

void live_compacted_write(const struct live_compacted *compacted, struct kg_json_writer *json)
{
    const struct session_compaction_sums *sums = &compacted->sums;
    kg_json_begin(json, '{');
    kg_json_named_text(json, "mark", compacted->mark.text);
    kg_json_named_text(json, "agent", compacted->agent);
    kg_json_named_text(json, "strategy", session_strategy_names[compacted->strategy]);
    kg_json_named_text(json, "fell_back", compacted->fell_back);
    kg_json_named_int(json, "superseded", (int64_t)sums->superseded);
    kg_json_named_int(json, "kept", (int64_t)sums->kept);
    kg_json_named_int(json, "added", (int64_t)sums->added);
    kg_json_named_int(json, "tokens_before", (int64_t)sums->tokens_before);
    kg_json_named_int(json, "tokens_after", (int64_t)sums->tokens_after);
    kg_json_named_text(json, "state", session_state_names[compacted->state]);
    kg_json_end(json, '}');
}
