/*
 * Knobs: what a plugin lets the operator turn, with the value that holds for an agent, and the way
 * to another value. What its schema calls sensitive is not shown, and no secret can be among them.
 */
#include "http/internal.h"

static int find_knobs(struct http_request *request, struct projects_knobs *ret_knobs,
                      struct kg_err *err)
{
    struct kg_str agent = http_query_parameter(request, "agent");
    int result = projects_knobs_find(http_host(request), http_path_parameter(request, "name"),
                                     http_query_parameter(request, "project"),
                                     agent.data ? agent : KG_STR("primary"), ret_knobs, err);
    if (result < 0 || agent.data == NULL || ret_knobs->project != NULL)
        return result;
    projects_knobs_free(ret_knobs);
    kg_fail(err, KG_E_USAGE, "an agent is one of a project, and none is named");
    return kg_hint(err, "name the project too");
}

/* Whether the answer has a member of its own that is called so. */
static bool knobs_is_ours(struct kg_str key)
{
    static const char *const ours[] = {"name", "value", "origin", "hidden", "changes"};
    for (size_t i = 0; i < KG_COUNT(ours); i++)
        if (kg_str_is(key, ours[i]))
            return true;
    return false;
}

/* The members of the declaration as it is, with the value that holds now. */
static void knobs_put_members(struct kg_json_writer *json, struct host *host,
                              const struct projects_knobs *knobs, const struct manifest_knob *knob)
{
    const struct projects_knob_value value = projects_knob_value(host, knobs, knob);
    kg_json_named_text(json, "name", knob->name);
    for (uint32_t i = 0; i < knob->node->count; i++) {
        if (knobs_is_ours(knob->node->members[i].key))
            continue;
        kg_auto(kg_free) char *key = kg_str_dup(knob->node->members[i].key);
        kg_json_key(json, key);
        kg_json_node(json, &knob->node->members[i].value);
    }
    kg_json_named_node(json, "value", value.node);
    kg_json_named_text(json, "origin", value.origin);
    kg_json_named_bool(json, "hidden", value.hidden);
}

void http_handle_knobs(struct http_request *request)
{
    kg_auto(projects_knobs_free) struct projects_knobs knobs = {0};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct kg_err err = {0};
    if (find_knobs(request, &knobs, &err) < 0) {
        http_reply_error(request, &err);
        return;
    }
    const struct manifest *manifest = knobs.manifest;
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", knobs.name);
    kg_json_named_text(&json, "project_id",
                       knobs.project ? projects_facts(knobs.project).id : NULL);
    kg_json_named_text(&json, "agent_path", knobs.agent ? knobs.agent->path : NULL);
    kg_json_named_begin(&json, "knobs", '[');
    for (size_t i = 0; i < manifest->knob_count; i++) {
        kg_json_begin(&json, '{');
        knobs_put_members(&json, http_host(request), &knobs, &manifest->knobs[i]);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

/* -- turning ----------------------------------------------------------------------------------- */

/* The project has been read again since: everything is looked up again. */
static void knobs_on_written(void *data, struct kg_str changes, const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    kg_auto(projects_knobs_free) struct projects_knobs knobs = {0};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct kg_err err = {0};
    const struct manifest_knob *knob = NULL;
    if (err_or_null == NULL && find_knobs(request, &knobs, &err) == 0)
        knob = projects_knob_find(&knobs, http_path_parameter(request, "knob"), &err);
    if (knob == NULL) {
        http_reply_error(request, err_or_null ? err_or_null : &err);
        return;
    }
    kg_json_begin(&json, '{');
    knobs_put_members(&json, http_host(request), &knobs, knob);
    kg_json_key(&json, "changes");
    if (changes.length > 0)
        kg_json_raw(&json, changes);
    else
        kg_json_raw(&json, KG_STR("[]"));
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

static int write_knob(struct http_request *request, struct kg_err *err)
{
    kg_auto(projects_knobs_free) struct projects_knobs knobs = {0};
    int result = find_knobs(request, &knobs, err);
    if (result < 0)
        return result;
    const struct manifest_knob *knob =
        projects_knob_find(&knobs, http_path_parameter(request, "knob"), err);
    if (knob == NULL)
        return -1;
    if (knobs.project == NULL) {
        kg_fail(err, KG_E_USAGE, "a knob is set for an agent of a project");
        return kg_hint(err, "name the project: ?project=NAME");
    }
    const struct projects_knob_write write = {
        .value = kg_node_get(http_body_tree(request), "value"),
        .operator_id = http_operator(request),
        .request_id = http_request_id(request),
        .on_done = knobs_on_written,
        .data = request,
    };
    return projects_knob_write(http_host(request), &knobs, knob, &write, err);
}

void http_handle_knob_write(struct http_request *request)
{
    struct kg_err err = {0};
    if (write_knob(request, &err) < 0)
        http_reply_error(request, &err);
}
