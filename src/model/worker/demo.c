/*
 * Not a model: a few fixed rules that look at what was said last and call the tool that fits, so
 * that a first conversation works without a provider. It says so of itself. What it writes is a
 * stream of the API of chat completions, and all behind that is as with any other provider.
 */
#include "model/worker/internal.h"

#include <strings.h>

#define RESULT_SHOWN_MAX 2000 /* bytes */

static const struct rule {
    const char *word;     /* that a message begins with */
    const char *tool;     /* as models know it */
    const char *argument; /* what follows the word; NULL: nothing does */
    const char *example;
} rules[] = {
    {"list", "workspace__list", NULL, "list the files"},
    {"read", "workspace__read", "path", "read README.md"},
    {"search", "workspace__search", "pattern", "search kaged"},
    {"remember", "notes__add", "text", "remember to water the plants"},
    {"notes", "notes__list", NULL, "notes"},
};

/* -- what was said ----------------------------------------------------------------------------- */

/* Of the user or of a tool; NULL: nothing yet. */
static const struct kg_node *last_message(const struct neutral *neutral)
{
    for (uint32_t i = neutral->messages->count; i > 0; i--) {
        const struct kg_node *message = &neutral->messages->items[i - 1];
        struct kg_str role = kg_node_text(message, "role");
        if (kg_str_is(role, "user") || kg_str_is(role, "tool"))
            return message;
    }
    return NULL;
}

static struct kg_str demo_trimmed(struct kg_str text)
{
    while (text.length > 0 && (unsigned char)text.data[0] <= ' ')
        text = kg_str_from(text, 1);
    while (text.length > 0 && (unsigned char)text.data[text.length - 1] <= ' ')
        text.length--;
    return text;
}

static bool has_tool(const struct neutral *neutral, const char *name)
{
    for (uint32_t i = 0; neutral->tools != NULL && i < neutral->tools->count; i++)
        if (kg_str_is(kg_node_text(&neutral->tools->items[i], "name"), name))
            return true;
    return false;
}

/* The rule for it and what follows its word, or NULL. */
static const struct rule *find_rule(const struct neutral *neutral, struct kg_str said,
                                    struct kg_str *ret_rest)
{
    for (size_t i = 0; i < KG_COUNT(rules); i++) {
        size_t length = strlen(rules[i].word);
        if (said.length < length || strncasecmp(said.data, rules[i].word, length) != 0 ||
            (said.length > length && (unsigned char)said.data[length] > ' '))
            continue;
        *ret_rest = demo_trimmed(kg_str_from(said, length));
        bool fits = rules[i].argument == NULL || ret_rest->length > 0;
        if (fits && has_tool(neutral, rules[i].tool))
            return &rules[i];
    }
    return NULL;
}

/* -- what is answered -------------------------------------------------------------------------- */

/* One event: what the delta has, and why the answer ends, if it does. */
static void demo_put_event(struct kg_buf *out, struct kg_str delta, const char *reason_or_null)
{
    kg_buf_text(out, "data: ");
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "choices", '[');
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "index", 0);
    kg_json_named_raw(&json, "delta", delta);
    kg_json_named_text(&json, "finish_reason", reason_or_null);
    kg_json_end(&json, '}');
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    kg_buf_text(out, "\n\n");
}

static void demo_put_text(struct kg_buf *out, struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf delta = {0};
    struct kg_json_writer json = kg_json_writer(&delta);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "content", text);
    kg_json_end(&json, '}');
    demo_put_event(out, kg_buf_view(&delta), NULL);
    demo_put_event(out, KG_STR("{}"), "stop");
}

static void demo_put_call(struct kg_buf *out, const struct rule *rule, struct kg_str argument,
                          uint32_t number)
{
    kg_auto(kg_buf_free) struct kg_buf delta = {0}, arguments = {0};
    struct kg_json_writer json = kg_json_writer(&arguments);
    kg_auto(kg_free) char *id = kg_format("demo_%u", number);
    kg_json_begin(&json, '{');
    if (rule->argument != NULL)
        kg_json_named_str(&json, rule->argument, argument);
    kg_json_end(&json, '}');
    json = kg_json_writer(&delta);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "tool_calls", '[');
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "index", 0);
    kg_json_named_text(&json, "id", id);
    kg_json_named_begin(&json, "function", '{');
    kg_json_named_text(&json, "name", rule->tool);
    kg_json_named_str(&json, "arguments", kg_buf_view(&arguments));
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    demo_put_event(out, kg_buf_view(&delta), NULL);
    demo_put_event(out, KG_STR("{}"), "tool_calls");
}

static void demo_put_result(struct kg_buf *out, const struct kg_node *message)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str result = kg_node_text(message, "content");
    bool is_cut = result.length > RESULT_SHOWN_MAX;
    result.length = is_cut ? RESULT_SHOWN_MAX : result.length;
    result.length = kg_utf8_valid(result);
    kg_buf_text(&text, kg_node_is_true(message, "is_error") ? "The tool failed:\n\n"
                                                            : "The tool answered:\n\n");
    kg_buf_str(&text, result);
    kg_buf_text(&text, is_cut ? "\n\n... and so on." : "");
    demo_put_text(out, kg_buf_view(&text));
}

static void put_introduction(struct kg_buf *out, const struct neutral *neutral)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "I am not a model: I am kaged's demo, which follows a few fixed rules, so "
                       "that a first conversation needs no key.");
    const char *before = " Try:\n";
    for (size_t i = 0; i < KG_COUNT(rules); i++) {
        if (!has_tool(neutral, rules[i].tool))
            continue;
        kg_buf_printf(&text, "%s  %s\n", before, rules[i].example);
        before = "";
    }
    kg_buf_text(&text, "\nFor a real model, add its provider to local.toml: see kaged.toml(5).");
    demo_put_text(out, kg_buf_view(&text));
}

static void demo_write_body(const struct neutral *neutral, struct kg_buf *out)
{
    const struct kg_node *last = last_message(neutral);
    struct kg_str rest = KG_STR("");
    const struct rule *rule = NULL;
    bool is_result = kg_str_is(kg_node_text(last, "role"), "tool");
    if (last != NULL && !is_result)
        rule = find_rule(neutral, demo_trimmed(kg_node_text(last, "content")), &rest);
    if (is_result)
        demo_put_result(out, last);
    else if (rule != NULL)
        demo_put_call(out, rule, rest, neutral->messages->count);
    else
        put_introduction(out, neutral);
    kg_buf_text(out, "data: [DONE]\n\n");
}

const struct dialect dialect_demo = {
    .name = "demo",
    .is_local = true,
    .write_body = demo_write_body,
    .take_event = openai_take_event,
};
