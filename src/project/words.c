/*
 * The resolved project for people: each agent, and below it what it has. A project's texts are a
 * stranger's, so nothing of them reaches the terminal unescaped.
 */
#include "project/internal.h"

#define LABEL_COLUMNS 12
#define VALUE_MAX     60
#define KEY_MAX       40

static const char *const origin_words[] = {
    [PROJECT_ORIGIN_SCHEMA] = "the plugin's default",
    [PROJECT_ORIGIN_OPERATOR] = "local.toml",
    [PROJECT_ORIGIN_PRIMARY] = "the primary",
    [PROJECT_ORIGIN_AGENT] = "this agent",
};

/* -- columns ----------------------------------------------------------------------------------- */

static void pad(struct kg_buf *out, size_t from, size_t columns)
{
    do
        kg_buf_char(out, ' ');
    while (out->length - from < columns);
}

/* "  label       ", at the start of a line. */
static void put_label(struct kg_buf *out, size_t indent, const char *label)
{
    for (size_t i = 0; i < indent; i++)
        kg_buf_char(out, ' ');
    size_t from = out->length;
    kg_buf_escaped(out, kg_str(label));
    pad(out, from, LABEL_COLUMNS);
}

static void put_line(struct kg_buf *out, size_t indent, const char *label, const char *text)
{
    if (text == NULL)
        return;
    put_label(out, indent, label);
    kg_buf_escaped(out, kg_str(text));
    kg_buf_char(out, '\n');
}

/* At most so many bytes, "..." included. */
static struct kg_str cut(struct kg_buf *text, size_t max)
{
    if (text->length <= max)
        return kg_buf_view(text);
    text->length = max - 3;
    text->length = kg_utf8_valid(kg_buf_view(text));
    kg_buf_text(text, "...");
    return kg_buf_view(text);
}

/* -- an agent ---------------------------------------------------------------------------------- */

static void put_prompt(struct kg_buf *out, const struct project_resolved_agent *agent)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    if (agent->prompt_file != NULL)
        kg_buf_escaped(&line, kg_str(agent->prompt_file));
    else if (agent->prompt != NULL)
        kg_buf_escaped(&line, (struct kg_str){agent->prompt, strcspn(agent->prompt, "\n")});
    else
        return;
    put_label(out, 2, "prompt");
    kg_buf_str(out, cut(&line, VALUE_MAX));
    kg_buf_printf(out, " (%zu bytes)\n", agent->prompt ? strlen(agent->prompt) : 0);
}

static void put_compaction(struct kg_buf *out, const struct project_compaction *compaction)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    if (!project_compaction_is_said(compaction))
        return;
    if (compaction->strategy != PROJECT_STRATEGY_UNSET)
        kg_buf_printf(&line, ", %s", project_strategy_names[compaction->strategy]);
    if (compaction->delegate != NULL)
        kg_buf_printf(&line, " to %s", compaction->delegate);
    if (compaction->threshold > 0)
        kg_buf_printf(&line, ", at %.4g %% of the context", compaction->threshold * 100);
    if (compaction->keep_recent >= 0)
        kg_buf_printf(&line, ", the last %lld turns stay", (long long)compaction->keep_recent);
    if (compaction->summary_model != NULL)
        kg_buf_printf(&line, ", summaries by %s", compaction->summary_model);
    put_line(out, 2, "compaction", kg_buf_terminate(&line) + 2);
}

/* -- its plugins ------------------------------------------------------------------------------- */

static void put_hooks(struct kg_buf *out, const struct project_use *use)
{
    kg_auto(kg_buf_free) struct kg_buf hooks = {0}, roles = {0};
    for (size_t i = 0; i < MANIFEST_HOOK_COUNT; i++)
        if (use->hooks[i])
            kg_buf_printf(&hooks, "%s%s", hooks.length ? ", " : "", manifest_hook_names[i]);
    for (size_t i = 0; i < PROJECT_ROLE_COUNT; i++)
        if (use->roles & 1u << i)
            kg_buf_printf(&roles, "%s%s", roles.length ? ", " : "", project_role_names[i]);
    put_line(out, 4, "hooks", hooks.length ? kg_buf_terminate(&hooks) : NULL);
    put_line(out, 4, "roles", roles.length ? kg_buf_terminate(&roles) : NULL);
}

static void put_value(struct kg_buf *out, const struct project_setting *setting)
{
    kg_auto(kg_buf_free) struct kg_buf json_text = {0}, value = {0};
    struct kg_json_writer json = kg_json_writer(&json_text);
    kg_json_node(&json, setting->value);
    kg_buf_json_escaped(&value, kg_buf_view(&json_text));
    kg_buf_str(out, cut(&value, VALUE_MAX));
}

static void put_settings(struct kg_buf *out, const struct project_use *use)
{
    for (size_t i = 0; i < use->setting_count; i++) {
        const struct project_setting *setting = &use->settings[i];
        kg_auto(kg_buf_free) struct kg_buf key = {0};
        put_label(out, 4, i == 0 ? "config" : "");
        kg_buf_escaped(&key, kg_str(setting->key));
        kg_buf_str(out, cut(&key, KEY_MAX));
        kg_buf_text(out, " = ");
        if (setting->sensitive)
            kg_buf_text(out, "(hidden)");
        else
            put_value(out, setting);
        kg_buf_printf(out, "   [%s]\n", origin_words[setting->origin]);
    }
}

static void put_secrets(struct kg_buf *out, const struct project_use *use)
{
    for (size_t i = 0; i < use->secret_count; i++) {
        const struct project_secret *secret = &use->secrets[i];
        put_label(out, 4, i == 0 ? "secrets" : "");
        kg_buf_escaped(out, kg_str(secret->key));
        kg_buf_text(out, secret->set        ? ": set in local.toml\n"
                         : secret->required ? ": missing in local.toml\n"
                                            : ": not set\n");
    }
}

static void put_use(struct kg_buf *out, const struct project_use *use)
{
    put_label(out, 2, use->name);
    kg_buf_escaped(out, kg_str(use->package));
    if (use->plugin != NULL)
        kg_buf_printf(out, " %s", use->plugin->version);
    if (use->isolation == PROJECT_ISOLATION_PROJECT)
        kg_buf_text(out, ", shared by the project");
    kg_buf_char(out, '\n');
    put_line(out, 4, "not used", use->reason);
    put_line(out, 4, "wanted", use->plugin == NULL ? use->version : NULL);
    put_line(out, 4, "source", use->plugin == NULL ? use->source : NULL);
    put_hooks(out, use);
    put_settings(out, use);
    put_secrets(out, use);
}

static void put_tools(struct kg_buf *out, const struct project_resolved_agent *agent)
{
    const char *label = "tools";
    for (size_t i = 0; i < agent->use_count; i++) {
        const struct project_use *use = &agent->uses[i];
        for (size_t k = 0; use->state == PROJECT_READY && k < use->plugin->tool_count; k++) {
            put_label(out, 2, label);
            label = "";
            kg_buf_text(out, use->plugin->tools[k].name);
            kg_buf_text(out, use->tools[k] ? "\n" : " (off)\n");
        }
    }
}

/* -- the whole --------------------------------------------------------------------------------- */

static void put_agent(struct kg_buf *out, const struct project_resolved_agent *agent)
{
    kg_buf_printf(out, "\n%s\n", agent->path);
    put_line(out, 2, "model", agent->model);
    put_prompt(out, agent);
    put_compaction(out, &agent->compaction);
    for (size_t i = 0; i < agent->use_count; i++)
        put_use(out, &agent->uses[i]);
    put_tools(out, agent);
}

void project_words(const struct project_resolved *resolved, struct kg_buf *out)
{
    kg_buf_printf(out, "project %s: %zu agent%s\n", resolved->name, resolved->agent_count,
                  resolved->agent_count == 1 ? "" : "s");
    for (size_t i = 0; i < resolved->agent_count; i++)
        put_agent(out, &resolved->agents[i]);
    if (resolved->missing_count > 0)
        kg_buf_text(out, "\nto be installed\n");
    for (size_t i = 0; i < resolved->missing_count; i++) {
        const struct project_missing *missing = &resolved->missing[i];
        kg_buf_text(out, "  ");
        kg_buf_escaped(out, kg_str(missing->package));
        kg_buf_text(out, " ");
        kg_buf_escaped(out, kg_str(missing->version ? missing->version : "in any version"));
        kg_buf_text(out, missing->source ? " from " : "");
        kg_buf_escaped(out, kg_str(missing->source));
        kg_buf_char(out, '\n');
    }
}
