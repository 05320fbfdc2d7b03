/* Params as the daemon sends them, and configurations that a plugin has to accept. */
#include "kit/run.h"

#include "kit/generate.h"

static void params_put_context(const struct kit_run *run, enum kit_context context,
                               struct kg_buf *out)
{
    bool has_agent = context == KIT_OF_AGENT || context == KIT_WITH_MORE;
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    if (context != KIT_BARE) {
        kg_json_named_text(&json, "operator_id", "kit");
        kg_json_named_text(&json, "project_id", has_agent ? KIT_PROJECT : NULL);
        kg_json_named_text(&json, "agent_path", has_agent ? "primary" : NULL);
        kg_json_named_text(&json, "session_id",
                           has_agent ? "ses_01JCKIT0000000000000000000" : NULL);
        if (kit_room_project_root(run->room) != NULL)
            kg_json_named_text(&json, "project_root", kit_room_project_root(run->room));
    }
    kg_json_named_text(&json, "request_id", "req_01JCKIT0000000000000000000");
    if (context == KIT_WITH_MORE) {
        kg_json_named_text(&json, "kit_unknown", "text");
        kg_json_key(&json, "kit_unknown_too");
        kg_json_raw(&json, KG_STR("{\"deep\":[1,null,true]}"));
    }
    kg_json_end(&json, '}');
}

void kit_put_params(const struct kit_run *run, enum kit_context context, struct kg_str object,
                    struct kg_buf *out)
{
    struct kg_json_cursor cursor = {object.data, object.data + object.length};
    kg_buf_str(out, KG_STR("{\"_context\":"));
    params_put_context(run, context, out);
    if (object.length > 0) {
        cursor.at++;
        kg_json_skip_space(&cursor);
    }
    if (object.length > 0 && *cursor.at != '}') {
        kg_buf_char(out, ',');
        kg_buf_append(out, cursor.at, (size_t)(cursor.end - cursor.at));
    } else {
        kg_buf_char(out, '}');
    }
}

/* -- calls ------------------------------------------------------------------------------------- */

void kit_put_nothing(const struct kit_run *run, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    if (run->talk->greeting != NULL)
        mcp_put_meta(&run->talk->greeting->talk, &json, 0, DIALECT_ANSWERS_ALL, NULL);
    kg_json_end(&json, '}');
}

enum kit_context kit_usual_context(const struct kit_target *target)
{
    return target->is_tool ? KIT_OF_AGENT : KIT_OF_CALLER;
}

const char *kit_put_call(const struct kit_run *run, const struct kit_target *target,
                         enum kit_context context, struct kg_str object, struct kg_buf *out)
{
    if (run->talk->greeting == NULL) {
        kit_put_params(run, context, object, out);
        return target->method;
    }
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", target->method);
    kg_json_named_raw(&json, "arguments", object.length > 0 ? object : KG_STR("{}"));
    mcp_put_meta(&run->talk->greeting->talk, &json, peer_next_id(run->talk->seat->peer),
                 DIALECT_ANSWERS_ALL, NULL);
    kg_json_end(&json, '}');
    return "tools/call";
}

/* -- configuration ----------------------------------------------------------------------------- */

/* What a setting of the operator's is bound to may be stricter than the schema: its default fits.
 */
static const struct kg_node *knob_default(const struct manifest *manifest, struct kg_str field)
{
    for (size_t i = 0; i < manifest->knob_count; i++) {
        const struct kg_node *value = kg_node_get(manifest->knobs[i].node, "default");
        if (kg_str_is(field, manifest->knobs[i].field) && value != NULL && value->type != KG_NULL)
            return value;
    }
    return NULL;
}

static bool params_put_part(const struct manifest *manifest, const struct kg_node *document,
                            const struct schema *schema, bool full, struct kg_json_writer *json)
{
    kg_auto(kit_instances_free) struct kit_instances made = {.count = 0};
    if (schema == NULL)
        return true;
    kit_generate_valid(document, schema, &made);
    if (made.count == 0)
        return false;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(kg_str(made.items[full && made.count > 1].json), NULL);
    kg_auto(kg_doc_cleanup) struct kg_doc *filled = schema_with_defaults(schema, doc->root);
    for (uint32_t i = 0; i < filled->root->count; i++) {
        const struct kg_member *member = &filled->root->members[i];
        const struct kg_node *better = knob_default(manifest, member->key);
        kg_auto(kg_free) char *key = kg_str_dup(member->key);
        kg_json_key(json, key);
        kg_json_node(json, better != NULL ? better : &member->value);
    }
    return true;
}

void kit_make_config(const struct manifest *manifest, bool full, struct kg_buf *out)
{
    kg_auto(kg_buf_free) struct kg_buf config = {0};
    struct kg_json_writer json = kg_json_writer(&config);
    if (manifest->config_schema == NULL && manifest->system_config_schema == NULL)
        return;
    kg_json_begin(&json, '{');
    bool made = params_put_part(manifest, manifest->config_schema_node, manifest->config_schema,
                                full, &json) &&
                params_put_part(manifest, manifest->system_config_schema_node,
                                manifest->system_config_schema, full, &json);
    kg_json_end(&json, '}');
    if (made)
        kg_buf_str(out, kg_buf_view(&config));
}
