/*
 * The resolved project for people: each agent, and below it what it has, as the JSON of view.c
 * tells it. A project's texts are a stranger's, so nothing of them reaches the terminal unescaped.
 */
#include "project/internal.h"

#include <stdlib.h>

#define LABEL_COLUMNS 12
#define VALUE_MAX     60
#define KEY_MAX       40

/* -- members ----------------------------------------------------------------------------------- */

/* The text of a string or a number; data NULL if it is neither. */
static struct kg_str project_words_text_of(const struct kg_node *object, const char *key)
{
    const struct kg_node *node = kg_node_get(object, key);
    bool is_text = node != NULL && (node->type == KG_STRING || node->type == KG_NUMBER);
    return is_text ? node->text : KG_STR_NULL;
}

/* -- columns ----------------------------------------------------------------------------------- */

static void pad(struct kg_buf *out, size_t from, size_t columns)
{
    do
        kg_buf_char(out, ' ');
    while (out->length - from < columns);
}

/* "  label       ", at the start of a line. */
static void project_words_put_label(struct kg_buf *out, size_t indent, struct kg_str label)
{
    for (size_t i = 0; i < indent; i++)
        kg_buf_char(out, ' ');
    size_t from = out->length;
    kg_buf_escaped(out, label);
    pad(out, from, LABEL_COLUMNS);
}

static void project_words_put_line(struct kg_buf *out, size_t indent, const char *label,
                                   struct kg_str text)
{
    if (text.length == 0)
        return;
    project_words_put_label(out, indent, kg_str(label));
    kg_buf_escaped(out, text);
    kg_buf_char(out, '\n');
}

/* At most so many bytes, "..." included. */
static void project_words_put_cut(struct kg_buf *out, const struct kg_buf *text, size_t max)
{
    size_t length = text->length <= max ? text->length : max - 3;
    length = kg_utf8_valid((struct kg_str){text->data, length});
    kg_buf_append(out, text->data, length);
    kg_buf_text(out, length < text->length ? "..." : "");
}

static void project_words_put_value(struct kg_buf *out, const struct kg_node *value)
{
    kg_auto(kg_buf_free) struct kg_buf json_text = {0}, shown = {0};
    kg_json_put_node(&json_text, value);
    kg_buf_json_escaped(&shown, kg_buf_view(&json_text));
    project_words_put_cut(out, &shown, VALUE_MAX);
}

/* -- an agent ---------------------------------------------------------------------------------- */

static void project_words_put_prompt(struct kg_buf *out, const struct kg_node *agent)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_str file = project_words_text_of(agent, "prompt_file"),
                  prompt = project_words_text_of(agent, "prompt");
    const char *newline = prompt.length > 0 ? memchr(prompt.data, '\n', prompt.length) : NULL;
    if (file.length > 0)
        kg_buf_escaped(&line, file);
    else if (prompt.data != NULL)
        kg_buf_escaped(&line, (struct kg_str){prompt.data, newline ? (size_t)(newline - prompt.data)
                                                                   : prompt.length});
    else
        return;
    project_words_put_label(out, 2, KG_STR("prompt"));
    project_words_put_cut(out, &line, VALUE_MAX);
    kg_buf_printf(out, " (%zu bytes)\n", prompt.length);
}

/* ", at 80 % of the context": what is said of it, behind a comma. */
static void project_words_put_part(struct kg_buf *line, const char *before, struct kg_str text,
                                   const char *after)
{
    if (text.length > 0)
        kg_buf_printf(line, "%s%.*s%s", before, KG_STR_ARG(text), after);
}

static void put_compaction(struct kg_buf *out, const struct kg_node *compaction)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_str threshold = project_words_text_of(compaction, "threshold");
    project_words_put_part(&line, ", ", project_words_text_of(compaction, "strategy"), "");
    project_words_put_part(&line, " to ", project_words_text_of(compaction, "delegate"), "");
    if (threshold.length > 0) {
        kg_auto(kg_free) char *number = kg_str_dup(threshold);
        kg_buf_printf(&line, ", at %.4g %% of the context", strtod(number, NULL) * 100);
    }
    struct kg_str turns = project_words_text_of(compaction, "keep_recent");
    project_words_put_part(&line, ", the last ", turns,
                           kg_str_is(turns, "1") ? " turn stays" : " turns stay");
    project_words_put_part(&line, ", summaries by ",
                           project_words_text_of(compaction, "summary_model"), "");
    if (line.length > 2)
        project_words_put_line(out, 2, "compaction",
                               (struct kg_str){line.data + 2, line.length - 2});
}

/* -- its plugins ------------------------------------------------------------------------------- */

static void project_words_put_names(struct kg_buf *out, const char *label,
                                    const struct kg_node *names)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    for (uint32_t i = 0; i < names->count; i++) {
        kg_buf_text(&line, i > 0 ? ", " : "");
        if (names->items[i].type == KG_STRING)
            kg_buf_str(&line, names->items[i].text);
    }
    project_words_put_line(out, 4, label, kg_buf_view(&line));
}

static const char *origin_words(struct kg_str origin)
{
    static const char *const words[] = {
        [PROJECT_ORIGIN_SCHEMA] = "the plugin's default",
        [PROJECT_ORIGIN_OPERATOR] = "local.toml",
        [PROJECT_ORIGIN_PRIMARY] = "the primary",
        [PROJECT_ORIGIN_AGENT] = "this agent",
    };
    for (size_t i = 0; i < KG_COUNT(words); i++)
        if (kg_str_is(origin, project_origin_names[i]))
            return words[i];
    return "?";
}

static void project_words_put_settings(struct kg_buf *out, const struct kg_node *settings)
{
    for (uint32_t i = 0; i < settings->count; i++) {
        const struct kg_node *setting = &settings->items[i];
        const struct kg_node *value = kg_node_get(setting, "value");
        kg_auto(kg_buf_free) struct kg_buf key = {0};
        project_words_put_label(out, 4, i == 0 ? KG_STR("config") : KG_STR(""));
        kg_buf_escaped(&key, project_words_text_of(setting, "key"));
        project_words_put_cut(out, &key, KEY_MAX);
        kg_buf_text(out, " = ");
        if (value != NULL)
            project_words_put_value(out, value);
        else
            kg_buf_text(out, "(hidden)");
        kg_buf_printf(out, "   [%s]\n", origin_words(project_words_text_of(setting, "origin")));
    }
}

static void project_words_put_secrets(struct kg_buf *out, const struct kg_node *secrets)
{
    for (uint32_t i = 0; i < secrets->count; i++) {
        const struct kg_node *secret = &secrets->items[i];
        project_words_put_label(out, 4, i == 0 ? KG_STR("secrets") : KG_STR(""));
        kg_buf_escaped(out, project_words_text_of(secret, "key"));
        kg_buf_text(out, kg_node_is_true(secret, "set")        ? ": set in local.toml\n"
                         : kg_node_is_true(secret, "required") ? ": missing in local.toml\n"
                                                               : ": not set\n");
    }
}

static void project_words_put_use(struct kg_buf *out, const struct kg_node *use)
{
    struct kg_str installed = project_words_text_of(use, "installed");
    project_words_put_label(out, 2, project_words_text_of(use, "name"));
    kg_buf_escaped(out, project_words_text_of(use, "package"));
    kg_buf_text(out, installed.length > 0 ? " " : "");
    kg_buf_escaped(out, installed);
    if (kg_str_is(project_words_text_of(use, "isolation"),
                  project_isolation_names[PROJECT_ISOLATION_PROJECT]))
        kg_buf_text(out, ", shared by the project");
    kg_buf_char(out, '\n');
    project_words_put_line(out, 4, "not used", project_words_text_of(use, "reason"));
    if (installed.length == 0) {
        project_words_put_line(out, 4, "wanted", project_words_text_of(use, "version"));
        project_words_put_line(out, 4, "source", project_words_text_of(use, "source"));
    }
    project_words_put_names(out, "hooks", kg_node_list(use, "hooks"));
    project_words_put_names(out, "roles", kg_node_list(use, "roles"));
    project_words_put_settings(out, kg_node_list(use, "config"));
    project_words_put_secrets(out, kg_node_list(use, "secrets"));
}

static void project_words_put_tools(struct kg_buf *out, const char *label,
                                    const struct kg_node *tools)
{
    for (uint32_t i = 0; i < tools->count; i++) {
        project_words_put_label(out, 2, i == 0 ? kg_str(label) : KG_STR(""));
        kg_buf_escaped(out, project_words_text_of(&tools->items[i], "name"));
        kg_buf_text(out, kg_node_is_true(&tools->items[i], "enabled") ? "\n" : " (off)\n");
    }
}

/* -- the whole --------------------------------------------------------------------------------- */

void project_agent_view_words(const struct kg_node *agent, struct kg_buf *out)
{
    const struct kg_node *uses = kg_node_list(agent, "plugins");
    kg_buf_escaped(out, project_words_text_of(agent, "path"));
    kg_buf_char(out, '\n');
    project_words_put_line(out, 2, "model", project_words_text_of(agent, "model"));
    project_words_put_prompt(out, agent);
    put_compaction(out, kg_node_get(agent, "compaction"));
    for (uint32_t i = 0; i < uses->count; i++)
        project_words_put_use(out, &uses->items[i]);
    project_words_put_tools(out, "tools", kg_node_list(agent, "tools"));
    project_words_put_tools(out, "hands to", kg_node_list(agent, "handoffs"));
}

static void project_words_put_missing(struct kg_buf *out, const struct kg_node *missing)
{
    struct kg_str version = project_words_text_of(missing, "version"),
                  source = project_words_text_of(missing, "source");
    kg_buf_text(out, "  ");
    kg_buf_escaped(out, project_words_text_of(missing, "package"));
    kg_buf_text(out, " ");
    kg_buf_escaped(out, version.length > 0 ? version : KG_STR("in any version"));
    kg_buf_text(out, source.length > 0 ? " from " : "");
    kg_buf_escaped(out, source);
    kg_buf_char(out, '\n');
}

static void put_view(const struct kg_node *view, struct kg_buf *out)
{
    const struct kg_node *agents = kg_node_list(view, "agents"),
                         *missing = kg_node_list(view, "missing");
    kg_buf_text(out, "project ");
    kg_buf_escaped(out, project_words_text_of(view, "name"));
    kg_buf_printf(out, ": %u agent%s\n", agents->count, agents->count == 1 ? "" : "s");
    for (uint32_t i = 0; i < agents->count; i++) {
        kg_buf_char(out, '\n');
        project_agent_view_words(&agents->items[i], out);
    }
    if (missing->count > 0)
        kg_buf_text(out, "\nto be installed\n");
    for (uint32_t i = 0; i < missing->count; i++)
        project_words_put_missing(out, &missing->items[i]);
}

/* -- what changed ------------------------------------------------------------------------------ */

/* A prompt or a tool is too long to show what it was and is. */
static bool shows_values(const struct kg_node *change)
{
    static const enum project_change_kind short_ones[] = {
        PROJECT_CHANGE_MODEL,     PROJECT_CHANGE_COMPACTION, PROJECT_CHANGE_ORDER,
        PROJECT_CHANGE_PLUGIN,    PROJECT_CHANGE_VERSION,    PROJECT_CHANGE_STATE,
        PROJECT_CHANGE_ISOLATION, PROJECT_CHANGE_CONFIG};
    for (size_t i = 0; i < KG_COUNT(short_ones); i++)
        if (kg_str_is(project_words_text_of(change, "kind"), project_change_names[short_ones[i]]))
            return !kg_node_is_true(change, "hidden");
    return false;
}

static void project_words_put_change(struct kg_buf *out, const struct kg_node *change)
{
    const struct kg_node *before = kg_node_get(change, "before");
    const struct kg_node *after = kg_node_get(change, "after");
    static const char *const places[] = {" ", "agent", " ", "plugin", ": ", "kind", " ", "what"};
    kg_buf_char(out, !before ? '+' : !after ? '-' : '~');
    for (size_t i = 0; i < KG_COUNT(places); i += 2) {
        struct kg_str text = project_words_text_of(change, places[i + 1]);
        kg_buf_text(out, text.length > 0 ? places[i] : "");
        kg_buf_escaped(out, text);
    }
    if (shows_values(change) && (before || after)) {
        kg_buf_char(out, ' ');
        project_words_put_value(out, before ? before : after);
        kg_buf_text(out, before && after ? " -> " : "");
        if (before && after)
            project_words_put_value(out, after);
    }
    kg_buf_text(out, kg_node_is_true(change, "hidden") ? " (hidden)\n" : "\n");
}

void project_changes_view_words(const struct kg_node *changes, struct kg_buf *out)
{
    for (uint32_t i = 0; changes && changes->type == KG_ARRAY && i < changes->count; i++)
        project_words_put_change(out, &changes->items[i]);
}

/* -- of what was not JSON yet ------------------------------------------------------------------ */

void project_words(const struct project_resolved *resolved, struct kg_buf *out)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    project_view(resolved, NULL, &json);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), NULL);
    if (doc != NULL)
        put_view(doc->root, out);
}
