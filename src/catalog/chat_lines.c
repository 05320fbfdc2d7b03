/*
 * What happens in a turn, as clients of the catalog know it: who speaks, what is said, what a tool
 * shows ahead of the answer, and figures at the end. What an agent below the primary says is for
 * the primary, and not told.
 */
#include "catalog/chat.h"

#include <stdlib.h>

static void chat_tell(struct catalog_chat *chat, const char *event, struct kg_buf *json)
{
    chat->answer.told = true;
    chat->ops->on_event(chat->data, event, kg_buf_view(json));
}

/* "primary.subagents.parcels" is parcels. */
static struct kg_str agent_name(struct kg_str path)
{
    const char *dot = path.length > 0 ? memrchr(path.data, '.', path.length) : NULL;
    return dot != NULL ? kg_str_from(path, (size_t)(dot - path.data) + 1) : path;
}

static void tell_agent(struct catalog_chat *chat, struct kg_str path)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "agent", agent_name(path));
    kg_json_named_text(&json, "session_id", chat->session);
    kg_json_end(&json, '}');
    chat_tell(chat, "agent", &out);
}

void chat_tell_message(struct catalog_chat *chat, struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "content", text);
    kg_json_end(&json, '}');
    kg_buf_str(&chat->answer.said, text);
    chat_tell(chat, "message", &out);
}

static void chat_lines_tell_tool(struct catalog_chat *chat, const struct kg_node *line)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    const struct kg_node *stream = kg_node_get(line, "stream");
    if (stream == NULL)
        return; /* progress of another kind */
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "tool", kg_node_text(line, "tool"));
    kg_json_named_node(&json, "data", stream);
    kg_json_end(&json, '}');
    chat_tell(chat, "tool", &out);
}

static void chat_lines_put_figures(const struct catalog_chat *chat, struct kg_json_writer *json)
{
    kg_json_named_text(json, "session_id", chat->session);
    kg_json_named_text(json, "conversation_id", chat->session);
    kg_json_named_text(json, "instance_id", chat->orchestrator->id);
    kg_json_named_int(json, "agent_hops", chat->answer.hops);
    kg_json_named_text(json, "current_agent", "primary"); /* who answers */
    kg_json_named_text(json, "stop", chat->answer.stop);
    kg_json_named_int(json, "input_tokens", chat->answer.input_tokens);
    kg_json_named_int(json, "output_tokens", chat->answer.output_tokens);
}

void chat_tell_metadata(struct catalog_chat *chat)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    kg_json_begin(&json, '{');
    chat_lines_put_figures(chat, &json);
    kg_json_end(&json, '}');
    chat_tell(chat, "metadata", &out);
}

void chat_put_answer(const struct catalog_chat *chat, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    chat_lines_put_figures(chat, &json);
    kg_json_named_str(&json, "response", kg_buf_view(&chat->answer.said));
    kg_json_end(&json, '}');
}

/* As the flat form of errors has it. */
void chat_tell_error(struct catalog_chat *chat, const struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "code", kg_error_row(err->code)->catalog_code);
    kg_json_named_text(&json, "message", err->message);
    kg_json_named_text(&json, "session_id", chat->session);
    kg_json_end(&json, '}');
    chat_tell(chat, "error", &out);
}

/* -- lines ------------------------------------------------------------------------------------- */

static void add_usage(struct chat_answer *answer, const struct kg_node *line)
{
    answer->input_tokens += kg_node_number(line, "input_tokens");
    answer->output_tokens += kg_node_number(line, "output_tokens");
}

static void chat_lines_take_end(struct chat_answer *answer, const struct kg_node *line)
{
    const struct kg_node *error = kg_node_typed(line, "error", KG_OBJECT);
    free(answer->stop);
    answer->stop = kg_str_dup(kg_node_text(line, "stop"));
    if (error == NULL)
        return;
    kg_fail(&answer->err, kg_code_from_name(kg_node_text(error, "code")), "%.*s",
            KG_STR_ARG(kg_node_text(error, "message")));
}

static void take_inner(struct catalog_chat *chat, const struct kg_node *line)
{
    const struct kg_node *event = kg_node_get(line, "event");
    struct kg_str type = kg_node_text(event, "type");
    if (kg_str_is(type, "start")) {
        chat->answer.hops++;
        tell_agent(chat, kg_node_text(line, "agent"));
    } else if (kg_str_is(type, "progress")) {
        chat_lines_tell_tool(chat, event);
    } else if (kg_str_is(type, "usage")) {
        add_usage(&chat->answer, event);
    } else if (kg_str_is(type, "end")) {
        tell_agent(chat, KG_STR("primary"));
    }
}

void chat_take_line(struct catalog_chat *chat, struct kg_str line)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(line, NULL);
    const struct kg_node *root = doc ? doc->root : NULL;
    struct kg_str type = kg_node_text(root, "type");
    if (kg_str_is(type, "start"))
        tell_agent(chat, kg_node_text(root, "agent"));
    else if (kg_str_is(type, "text"))
        chat_tell_message(chat, kg_node_text(root, "text"));
    else if (kg_str_is(type, "tool_call"))
        chat->answer.said.length = 0; /* it was no answer yet */
    else if (kg_str_is(type, "progress"))
        chat_lines_tell_tool(chat, root);
    else if (kg_str_is(type, "usage"))
        add_usage(&chat->answer, root);
    else if (kg_str_is(type, "subagent"))
        take_inner(chat, root);
    else if (kg_str_is(type, "end"))
        chat_lines_take_end(&chat->answer, root);
}
