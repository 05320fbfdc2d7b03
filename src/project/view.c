/*
 * The resolved project as JSON, for the API and for tools. One object; what is sensitive is left
 * out of it, and so is every secret.
 */
#include "project/internal.h"

#include <stdio.h>

const char *const project_role_names[] = {"observer", "compactor"};

/* -- a plugin of an agent ---------------------------------------------------------------------- */

static void view_put_hooks(struct kg_json_writer *json, const struct project_use *use)
{
    kg_json_named_begin(json, "hooks", '[');
    for (size_t i = 0; i < MANIFEST_HOOK_COUNT; i++)
        if (use->hooks[i])
            kg_json_text(json, manifest_hook_names[i]);
    kg_json_end(json, ']');
    kg_json_named_begin(json, "roles", '[');
    for (size_t i = 0; i < PROJECT_ROLE_COUNT; i++)
        if (use->roles & 1u << i)
            kg_json_text(json, project_role_names[i]);
    kg_json_end(json, ']');
}

static void view_put_settings(struct kg_json_writer *json, const struct project_use *use)
{
    kg_json_named_begin(json, "config", '[');
    for (size_t i = 0; i < use->setting_count; i++) {
        const struct project_setting *setting = &use->settings[i];
        kg_json_begin(json, '{');
        kg_json_named_text(json, "key", setting->key);
        kg_json_named_text(json, "origin", project_origin_names[setting->origin]);
        kg_json_named_bool(json, "sensitive", setting->sensitive);
        if (!setting->sensitive) {
            kg_json_key(json, "value");
            kg_json_node(json, setting->value);
        }
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void view_put_secrets(struct kg_json_writer *json, const struct project_use *use)
{
    kg_json_named_begin(json, "secrets", '[');
    for (size_t i = 0; i < use->secret_count; i++) {
        kg_json_begin(json, '{');
        kg_json_named_text(json, "key", use->secrets[i].key);
        kg_json_named_bool(json, "required", use->secrets[i].required);
        kg_json_named_bool(json, "set", use->secrets[i].set);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void view_put_use(struct kg_json_writer *json, const struct project_use *use)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", use->name);
    kg_json_named_text(json, "package", use->package);
    kg_json_named_text(json, "plugin", use->plugin ? use->plugin->name : NULL);
    kg_json_named_text(json, "installed", use->plugin ? use->plugin->version : NULL);
    kg_json_named_text(json, "version", use->version);
    kg_json_named_text(json, "source", use->source);
    kg_json_named_text(json, "state", project_state_names[use->state]);
    kg_json_named_text(json, "reason", use->reason);
    kg_json_named_text(json, "isolation", project_isolation_names[use->isolation]);
    view_put_hooks(json, use);
    view_put_settings(json, use);
    view_put_secrets(json, use);
    kg_json_end(json, '}');
}

/* -- an agent ---------------------------------------------------------------------------------- */

bool project_compaction_is_said(const struct project_compaction *compaction)
{
    return compaction->threshold > 0 || compaction->strategy != PROJECT_STRATEGY_UNSET ||
           compaction->delegate != NULL || compaction->keep_recent >= 0 ||
           compaction->summary_model != NULL;
}

static void view_put_number(struct kg_json_writer *json, const char *key, double value)
{
    char text[32];
    kg_json_key(json, key);
    snprintf(text, sizeof(text), "%.12g", value);
    kg_json_raw(json, kg_str(text));
}

/* Only what is said; null if nothing is. */
void project_put_compaction(const struct project_compaction *compaction,
                            struct kg_json_writer *json)
{
    if (!project_compaction_is_said(compaction)) {
        kg_json_null(json);
        return;
    }
    kg_json_begin(json, '{');
    if (compaction->threshold > 0)
        view_put_number(json, "threshold", compaction->threshold);
    if (compaction->strategy != PROJECT_STRATEGY_UNSET)
        kg_json_named_text(json, "strategy", project_strategy_names[compaction->strategy]);
    if (compaction->delegate != NULL)
        kg_json_named_text(json, "delegate", compaction->delegate);
    if (compaction->keep_recent >= 0)
        view_put_number(json, "keep_recent", (double)compaction->keep_recent);
    if (compaction->summary_model != NULL)
        kg_json_named_text(json, "summary_model", compaction->summary_model);
    kg_json_end(json, '}');
}

static void view_put_tools(struct kg_json_writer *json, const struct project_use *use)
{
    for (size_t i = 0; use->state == PROJECT_READY && i < use->plugin->tool_count; i++) {
        const struct project_tool *tool = &use->plugin->tools[i];
        kg_json_begin(json, '{');
        kg_json_named_text(json, "name", tool->name);
        kg_json_named_text(json, "model_name", tool->wire_name);
        kg_json_named_text(json, "plugin", use->name);
        kg_json_named_bool(json, "enabled", use->tools[i]);
        kg_json_named_text(json, "description", tool->description);
        kg_json_end(json, '}');
    }
}

static void put_subagents(struct kg_json_writer *json, const struct project_resolved_agent *agent)
{
    for (size_t i = 0; i < agent->handoff_count; i++) {
        const struct project_handoff *handoff = &agent->handoffs[i];
        kg_json_begin(json, '{');
        kg_json_named_text(json, "name", handoff->tool.name);
        kg_json_named_text(json, "model_name", handoff->tool.wire_name);
        kg_json_named_text(json, "agent", handoff->agent);
        kg_json_named_bool(json, "enabled", handoff->enabled);
        kg_json_named_text(json, "description", handoff->tool.description);
        kg_json_end(json, '}');
    }
}

void project_agent_view_members(const struct project_resolved_agent *agent,
                                struct kg_json_writer *json)
{
    kg_json_named_text(json, "path", agent->path);
    kg_json_named_text(json, "model", agent->model);
    kg_json_named_text(json, "prompt", agent->prompt);
    kg_json_named_text(json, "prompt_file", agent->prompt_file);
    kg_json_key(json, "compaction");
    project_put_compaction(&agent->compaction, json);
    kg_json_named_begin(json, "plugins", '[');
    for (size_t i = 0; i < agent->use_count; i++)
        view_put_use(json, &agent->uses[i]);
    kg_json_end(json, ']');
    kg_json_named_begin(json, "tools", '[');
    for (size_t i = 0; i < agent->use_count; i++)
        view_put_tools(json, &agent->uses[i]);
    kg_json_end(json, ']');
    kg_json_named_text(json, "description", agent->description);
    kg_json_named_bool(json, "delegate", agent->delegates);
    kg_json_named_begin(json, "handoffs", '[');
    put_subagents(json, agent);
    kg_json_end(json, ']');
}

void project_agent_view(const struct project_resolved_agent *agent, struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    project_agent_view_members(agent, json);
    kg_json_end(json, '}');
}

/* -- the whole --------------------------------------------------------------------------------- */

static void view_put_missing(struct kg_json_writer *json, const struct project_missing *missing)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "package", missing->package);
    kg_json_named_text(json, "version", missing->version);
    kg_json_named_text(json, "source", missing->source);
    kg_json_named_text(json, "installed", missing->installed);
    kg_json_end(json, '}');
}

void project_view_members(const struct project_resolved *resolved,
                          const struct kg_problems *problems, struct kg_json_writer *json)
{
    kg_json_named_text(json, "name", resolved->name);
    kg_json_named_begin(json, "agents", '[');
    for (size_t i = 0; i < resolved->agent_count; i++)
        project_agent_view(&resolved->agents[i], json);
    kg_json_end(json, ']');
    kg_json_named_begin(json, "missing", '[');
    for (size_t i = 0; i < resolved->missing_count; i++)
        view_put_missing(json, &resolved->missing[i]);
    kg_json_end(json, ']');
    if (problems != NULL) {
        kg_json_key(json, "problems");
        kg_problems_json(problems, json);
    }
}

void project_view(const struct project_resolved *resolved, const struct kg_problems *problems,
                  struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    project_view_members(resolved, problems, json);
    kg_json_end(json, '}');
}
