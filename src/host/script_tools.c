/*
 * Tools of scripts, as models are offered them: beside those of plugins, in place of one of them,
 * or under another name. What a script registers is a stranger's: a name that is taken stays whose
 * it is, and a call goes to the script that registered the tool, in the conversation that it is of.
 */
#include "host/internal.h"

#define NAME_MAX_BYTES 64 /* that models take */

static struct host_process *process_in(const struct host_plugin *script, const char *session_id)
{
    const struct host_whom whom = {.kind = HOST_SESSION, .id = session_id};
    struct host_process *process = host_process_find(script, &whom);
    return process != NULL && instance_talk(process->instance) != NULL ? process : NULL;
}

static const struct kg_node *script_tools_list_of(const struct host_plugin *script,
                                                  const char *session_id, const char *key)
{
    const struct host_process *process = process_in(script, session_id);
    return kg_node_list(process ? host_script_offers(process) : NULL, key);
}

/* "script.tool", as people see it, and "script__tool", as models do. */
static bool script_tools_is_called(const struct host_plugin *script, const struct kg_node *tool,
                                   struct kg_str called)
{
    size_t length = strlen(script->name);
    if (!kg_str_starts(called, script->name))
        return false;
    struct kg_str rest = kg_str_from(called, length);
    size_t dots = kg_str_starts(rest, ".") ? 1 : kg_str_starts(rest, "__") ? 2 : 0;
    return dots > 0 && kg_str_equal(kg_str_from(rest, dots), kg_node_text(tool, "name"));
}

struct host_process *host_script_with_tool(const struct host *host, const char *session_id,
                                           struct kg_str tool)
{
    for (struct host_plugin *at = NULL; (at = host_script_after(host, at)) != NULL;) {
        const struct kg_node *tools = script_tools_list_of(at, session_id, "tools");
        for (uint32_t i = 0; i < tools->count; i++)
            if (script_tools_is_called(at, &tools->items[i], tool))
                return process_in(at, session_id);
    }
    return NULL;
}

/* -- what is offered --------------------------------------------------------------------------- */

static void put_wire_name(const struct host_plugin *script, struct kg_str name, struct kg_buf *out)
{
    kg_buf_printf(out, "%s__%.*s", script->name, KG_STR_ARG(name));
}

static void script_tools_put_tool(const struct kg_node *tool, struct kg_str name,
                                  struct kg_json_writer *json)
{
    const struct kg_node *schema = kg_node_typed(tool, "schema", KG_OBJECT);
    kg_json_begin(json, '{');
    kg_json_named_str(json, "name", name);
    kg_json_named_str(json, "description", kg_node_text(tool, "description"));
    kg_json_key(json, "parameters");
    if (schema != NULL)
        kg_json_node(json, schema);
    else
        kg_json_raw(json, KG_STR("{\"type\":\"object\"}"));
    kg_json_end(json, '}');
}

/* The first tool that takes the place of one of that name; NULL: none does. */
static const struct kg_node *find_override(const struct host *host, const char *session_id,
                                           struct kg_str name, struct host_plugin **ret_script)
{
    for (struct host_plugin *at = NULL; (at = host_script_after(host, at)) != NULL;) {
        const struct kg_node *tools = script_tools_list_of(at, session_id, "tools");
        for (uint32_t i = 0; i < tools->count; i++)
            if (kg_node_is_true(&tools->items[i], "overrides") &&
                kg_str_equal(kg_node_text(&tools->items[i], "name"), name)) {
                *ret_script = at;
                return &tools->items[i];
            }
    }
    return NULL;
}

static bool script_tools_has_name(const struct kg_doc *offered, struct kg_str name)
{
    for (uint32_t i = 0; i < offered->root->count; i++)
        if (kg_str_equal(kg_node_text(&offered->root->items[i], "name"), name))
            return true;
    return false;
}

static bool is_wire_name(struct kg_str name)
{
    for (size_t i = 0; i < name.length; i++)
        if (!kg_is_letter_or_digit(name.data[i]) && name.data[i] != '-' && name.data[i] != '_')
            return false;
    return name.length > 0 && name.length <= NAME_MAX_BYTES;
}

/* What a rename is about: a name as it is offered, or one of the script's own tools. */
static bool is_renamed(const struct host_plugin *script, const struct kg_node *rename,
                       struct kg_str name)
{
    struct kg_str from = kg_node_text(rename, "from");
    kg_auto(kg_buf_free) struct kg_buf own = {0};
    put_wire_name(script, from, &own);
    return is_wire_name(kg_node_text(rename, "to")) &&
           (kg_str_equal(from, name) || kg_str_equal(kg_buf_view(&own), name));
}

/* As the first script wants it that says so. */
static struct kg_str offered_name(const struct host *host, const char *session_id,
                                  struct kg_str name)
{
    for (struct host_plugin *at = NULL; (at = host_script_after(host, at)) != NULL;) {
        const struct kg_node *renames = script_tools_list_of(at, session_id, "renames");
        for (uint32_t i = 0; i < renames->count; i++)
            if (is_renamed(at, &renames->items[i], name))
                return kg_node_text(&renames->items[i], "to");
    }
    return name;
}

/* Each under one name: one that is taken is not given away. */
static void script_tools_put_offered(const struct host *host, const char *session_id,
                                     const struct kg_doc *offered, struct kg_json_writer *json)
{
    for (uint32_t i = 0; i < offered->root->count; i++) {
        const struct kg_node *tool = &offered->root->items[i];
        struct kg_str name = kg_node_text(tool, "name");
        struct kg_str to = offered_name(host, session_id, name);
        struct host_plugin *script;
        const struct kg_node *other = find_override(host, session_id, name, &script);
        bool renamed = !kg_str_equal(to, name) && !script_tools_has_name(offered, to);
        kg_json_begin(json, '{');
        kg_json_named_str(json, "name", renamed ? to : name);
        kg_json_named_str(json, "description", kg_node_text(other ? other : tool, "description"));
        const struct kg_node *schema =
            other ? kg_node_typed(other, "schema", KG_OBJECT) : kg_node_get(tool, "parameters");
        kg_json_key(json, "parameters");
        if (schema != NULL)
            kg_json_node(json, schema);
        else
            kg_json_raw(json, KG_STR("{\"type\":\"object\"}"));
        kg_json_end(json, '}');
    }
}

/* Adds those of scripts that take nobody's place. */
static bool script_tools_add_own(const struct host *host, const char *session_id,
                                 const struct kg_doc *offered, struct kg_json_writer *json)
{
    bool changes = false;
    for (struct host_plugin *at = NULL; (at = host_script_after(host, at)) != NULL;) {
        const struct kg_node *tools = script_tools_list_of(at, session_id, "tools");
        changes |= script_tools_list_of(at, session_id, "renames")->count > 0;
        for (uint32_t i = 0; i < tools->count; i++) {
            const struct kg_node *tool = &tools->items[i];
            struct kg_str name = kg_node_text(tool, "name");
            bool overrides =
                kg_node_is_true(tool, "overrides") && script_tools_has_name(offered, name);
            kg_auto(kg_buf_free) struct kg_buf wire = {0};
            put_wire_name(at, name, &wire);
            changes |= overrides;
            if (!overrides)
                script_tools_put_tool(tool, kg_buf_view(&wire), json);
        }
    }
    return changes;
}

void host_script_put_tools(const struct host *host, const char *session_id, struct kg_buf *tools)
{
    struct kg_err err;
    if (host_script_after(host, NULL) == NULL)
        return;
    kg_auto(kg_doc_cleanup) struct kg_doc *offered = kg_json_read(kg_buf_view(tools), &err);
    if (offered == NULL || offered->root->type != KG_ARRAY)
        return;
    struct kg_json_writer json = kg_json_writer(tools);
    json.comma = offered->root->count > 0;
    tools->length--; /* its end */
    bool changes = script_tools_add_own(host, session_id, offered, &json);
    kg_buf_char(tools, ']');
    if (!changes)
        return;
    kg_auto(kg_doc_cleanup) struct kg_doc *all = kg_json_read(kg_buf_view(tools), &err);
    tools->length = 0;
    json = kg_json_writer(tools);
    kg_json_begin(&json, '[');
    script_tools_put_offered(host, session_id, all, &json);
    kg_json_end(&json, ']');
}

/* -- what is called ---------------------------------------------------------------------------- */

/* The name that a rename hides; as it was if none does. */
static void put_unrenamed(const struct host *host, const char *session_id, struct kg_str called,
                          struct kg_buf *out)
{
    for (struct host_plugin *at = NULL; (at = host_script_after(host, at)) != NULL;) {
        const struct kg_node *renames = script_tools_list_of(at, session_id, "renames");
        const struct kg_node *tools = script_tools_list_of(at, session_id, "tools");
        for (uint32_t i = 0; i < renames->count; i++) {
            struct kg_str from = kg_node_text(&renames->items[i], "from");
            if (!kg_str_equal(kg_node_text(&renames->items[i], "to"), called))
                continue;
            for (uint32_t k = 0; k < tools->count; k++)
                if (kg_str_equal(kg_node_text(&tools->items[k], "name"), from) &&
                    !kg_node_is_true(&tools->items[k], "overrides")) {
                    put_wire_name(at, from, out);
                    return;
                }
            kg_buf_str(out, from);
            return;
        }
    }
    kg_buf_str(out, called);
}

/* The script whose own tool that is, by its bare name. */
static struct host_plugin *find_bare(const struct host *host, const char *session_id,
                                     struct kg_str name)
{
    for (struct host_plugin *at = NULL; (at = host_script_after(host, at)) != NULL;) {
        const struct kg_node *tools = script_tools_list_of(at, session_id, "tools");
        for (uint32_t i = 0; i < tools->count; i++)
            if (kg_str_equal(kg_node_text(&tools->items[i], "name"), name))
                return at;
    }
    return NULL;
}

void host_script_put_called(const struct host *host, const char *session_id, struct kg_str called,
                            bool is_known, struct kg_buf *ret_name)
{
    struct host_plugin *script = NULL;
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    put_unrenamed(host, session_id, called, &name);
    if (find_override(host, session_id, kg_buf_view(&name), &script) == NULL && !is_known &&
        kg_str_equal(kg_buf_view(&name), called))
        script = find_bare(host, session_id, called);
    if (script != NULL)
        put_wire_name(script, kg_buf_view(&name), ret_name);
    else
        kg_buf_str(ret_name, kg_buf_view(&name));
}
