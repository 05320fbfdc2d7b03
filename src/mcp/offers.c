/*
 * What servers offer beside tools: resources, prompts and completion, all by the host's one door.
 * At the door of one plugin everything is passed on as it is. At that of all plugins a prompt is
 * called PLUGIN__PROMPT and a resource PLUGIN+URI, which is a URI again, so that no server can pass
 * for another; and lists are those of servers that run, since nobody starts all of them to look.
 */
#include "mcp/internal.h"

#include <errno.h>
#include <stdlib.h>

#define PROMPTS_MAX      8192 /* of one plugin, whose names are remembered */
#define PROMPT_MAX_BYTES 512

/* What of an answer names something: the list, and the key in each of its items. */
static const struct {
    const char *method, *list, *key;
    bool is_list, is_cached;
} rows[HOST_OFFER_COUNT] = {
    [HOST_RESOURCES] = {"resources/list", "resources", "uri", true, true},
    [HOST_TEMPLATES] = {"resources/templates/list", "resourceTemplates", "uriTemplate", true, true},
    [HOST_RESOURCE] = {"resources/read", "contents", "uri", false, true},
    [HOST_PROMPTS] = {"prompts/list", "prompts", "name", true, true},
    [HOST_PROMPT] = {"prompts/get", NULL, NULL, false, false},
    [HOST_COMPLETION] = {"completion/complete", NULL, NULL, false, false},
};

/* -- which servers there are ------------------------------------------------------------------- */

/* Of what serves the client: the process of its project if there is one, or the one for nobody. */
char *mcp_server_name(const struct mcp_scope *scope, struct kg_str plugin)
{
    struct host_named named;
    kg_auto(kg_free) char *own =
        kg_format("%.*s@%.*s", KG_STR_CUT(plugin, 64u), KG_STR_CUT(scope->project, 128u));
    bool is_own =
        scope->project.length > 0 && host_find(scope->mcp->host, kg_str(own), &named, NULL) == 0;
    return is_own ? kg_steal(&own) : kg_str_dup(plugin);
}

/* Whether the client may use all of it: of a plugin that it has some tools of, it has no more. */
bool mcp_may_use(const struct mcp_scope *scope, struct kg_str plugin)
{
    struct host_named named;
    if (host_find(scope->mcp->host, plugin, &named, NULL) < 0)
        return false;
    const struct host_status status = host_status(named);
    return status.manifest != NULL && status.manifest->is_mcp && mcp_has_plugin(scope, named) &&
           mcp_allows_plugin(scope, status.plugin);
}

/* Those that run and have such a list; the texts are owned. */
static char **running_servers(const struct mcp_scope *scope, enum host_offer what)
{
    size_t count;
    char **found = kg_list_new(0);
    kg_auto(kg_free) struct host_named *names = host_names(scope->mcp->host, &count);
    for (size_t i = 0; i < count; i++) {
        if (names[i].process == NULL)
            continue;
        const struct host_status status = host_status(names[i]);
        kg_auto(kg_free) char *own = mcp_server_name(scope, kg_str(status.plugin));
        if (status.state == INSTANCE_RUNNING && strcmp(own, status.name) == 0 &&
            mcp_may_use(scope, kg_str(status.plugin)) &&
            instance_method(status.instance, kg_str(rows[what].method)) == METHOD_OFFERED)
            kg_list_add(&found, kg_strdup(status.name));
    }
    return found;
}

/* -- names at the door of all ------------------------------------------------------------------ */

/*
 * Most names tell by themselves what they mean. One that had to be cut or changed is remembered
 * when it is listed, with those of its plugin: none can fill the memory of others.
 */
static void names_free(struct kg_map *names)
{
    struct kg_str outer;
    void *name;
    for (size_t at = 0; kg_map_next(names, &at, &outer, &name);)
        free(name);
    kg_map_free(names);
}

void mcp_offers_close(struct mcp *mcp)
{
    struct kg_str plugin;
    void *names;
    for (size_t at = 0; kg_map_next(mcp->prompts, &at, &plugin, &names);)
        names_free(names);
    kg_map_free(mcp->prompts);
}

static void mcp_offers_put_full_name(struct kg_str plugin, struct kg_str name, struct kg_buf *out)
{
    kg_auto(kg_buf_free) struct kg_buf full = {0};
    kg_buf_str(&full, plugin);
    kg_buf_char(&full, '.');
    kg_buf_str(&full, name);
    manifest_model_name_put(kg_buf_view(&full), out);
}

/* Whether the name at the door of all is PLUGIN__NAME as it was written. */
static bool tells_itself(struct kg_str outer, struct kg_str *ret_plugin, struct kg_str *ret_name)
{
    kg_auto(kg_buf_free) struct kg_buf again = {0};
    *ret_plugin = mcp_plugin_in(outer);
    if (ret_plugin->length == 0)
        return false;
    *ret_name = kg_str_from(outer, ret_plugin->length + 2);
    mcp_offers_put_full_name(*ret_plugin, *ret_name, &again);
    return kg_str_equal(kg_buf_view(&again), outer);
}

/* The oldest of a plugin that lists ever others are forgotten. */
static void mcp_offers_remember(struct mcp *mcp, const char *plugin, struct kg_str outer,
                                struct kg_str name)
{
    struct kg_map *names = kg_map_get(mcp->prompts, kg_str(plugin));
    if (names != NULL && kg_map_get(names, outer) != NULL)
        return;
    if (names != NULL && kg_map_count(names) >= PROMPTS_MAX) {
        kg_map_remove(mcp->prompts, kg_str(plugin));
        names_free(kg_steal(&names));
    }
    if (names == NULL) {
        names = kg_map_new();
        kg_map_set(mcp->prompts, kg_str(plugin), names);
    }
    kg_map_set(names, outer, kg_str_dup(name));
}

static void put_prompt_name(struct mcp *mcp, const char *plugin, struct kg_str name,
                            struct kg_buf *out)
{
    struct kg_str own_plugin, own_name;
    mcp_offers_put_full_name(kg_str(plugin), name, out);
    bool is_plain =
        tells_itself(kg_buf_view(out), &own_plugin, &own_name) && kg_str_equal(own_name, name);
    if (!is_plain && name.length <= PROMPT_MAX_BYTES)
        mcp_offers_remember(mcp, plugin, kg_buf_view(out), name);
}

/* False: it can be nobody's. */
static bool find_prompt(struct mcp *mcp, struct kg_str outer, struct kg_str *ret_plugin,
                        struct kg_str *ret_name)
{
    void *names;
    for (size_t at = 0; kg_map_next(mcp->prompts, &at, ret_plugin, &names);) {
        const char *name = kg_map_get(names, outer);
        if (name == NULL)
            continue;
        *ret_name = kg_str(name);
        return true;
    }
    return tells_itself(outer, ret_plugin, ret_name);
}

static void put_outer(struct mcp *mcp, enum host_offer what, const char *plugin, struct kg_str name,
                      struct kg_buf *out)
{
    if (what == HOST_PROMPTS) {
        put_prompt_name(mcp, plugin, name, out);
        return;
    }
    kg_buf_printf(out, "%s+", plugin);
    kg_buf_str(out, name);
}

/* The items of an answer, with the names that they have at the door of all. */
static void mcp_offers_put_renamed(struct mcp *mcp, enum host_offer what, const char *plugin,
                                   const struct kg_node *items, struct kg_json_writer *json)
{
    for (uint32_t i = 0; i < items->count; i++) {
        const struct kg_node *item = &items->items[i];
        struct kg_str name = kg_node_text(item, rows[what].key);
        kg_auto(kg_buf_free) struct kg_buf outer = {0};
        if (name.length == 0)
            continue;
        put_outer(mcp, what, plugin, name, &outer);
        kg_json_begin(json, '{');
        kg_json_named_str(json, rows[what].key, kg_buf_view(&outer));
        for (uint32_t k = 0; k < item->count; k++) {
            kg_auto(kg_free) char *key = kg_str_dup(item->members[k].key);
            if (strcmp(key, rows[what].key) == 0)
                continue;
            kg_json_key(json, key);
            kg_json_node(json, &item->members[k].value);
        }
        kg_json_end(json, '}');
    }
}

/* "files+file:///x" is file:///x of files. False: it names no plugin. */
bool mcp_resource_split(struct kg_str outer, struct kg_str *ret_plugin, struct kg_str *ret_uri)
{
    const char *plus = outer.length > 0 ? memchr(outer.data, '+', outer.length) : NULL;
    if (plus == NULL)
        return false;
    *ret_plugin = kg_str_first(outer, (size_t)(plus - outer.data));
    *ret_uri = kg_str_from(outer, ret_plugin->length + 1);
    return true;
}

/* -- what is asked for ------------------------------------------------------------------------- */

/* What of params is between the client and us. */
static bool mcp_offers_is_ours(const char *name)
{
    return strcmp(name, "_meta") == 0 || strcmp(name, "inputResponses") == 0 ||
           strcmp(name, "requestState") == 0;
}

/* Params with one member changed, unless there is no key; the others as they came. */
static void mcp_offers_put_params(struct kg_json_writer *json, const struct kg_node *params,
                                  const char *key, struct kg_str text)
{
    kg_json_begin(json, '{');
    if (key != NULL)
        kg_json_named_str(json, key, text);
    for (uint32_t i = 0; i < params->count; i++) {
        const struct kg_member *member = &params->members[i];
        kg_auto(kg_free) char *name = kg_str_dup(member->key);
        if ((key != NULL && strcmp(name, key) == 0) || mcp_offers_is_ours(name))
            continue;
        kg_json_key(json, name);
        kg_json_node(json, &member->value);
    }
    kg_json_end(json, '}');
}

/* Finds the plugin that a name at the door of all is about, and what it is called there. */
static int find_inner(struct mcp *mcp, struct kg_str outer, bool is_prompt,
                      struct kg_str *ret_plugin, struct kg_str *ret_name, struct kg_err *err)
{
    if (is_prompt ? find_prompt(mcp, outer, ret_plugin, ret_name)
                  : mcp_resource_split(outer, ret_plugin, ret_name))
        return 0;
    kg_fail(err, KG_E_INVALID_PARAMS, "there is no %s \"%.*s\"", is_prompt ? "prompt" : "resource",
            KG_STR_CUT(outer, KG_CUT_PATH));
    return kg_hint(err, "list them first");
}

static int read_completion(struct mcp *mcp, const struct kg_node *params, struct kg_buf *inner,
                           struct kg_str *ret_plugin, struct kg_err *err)
{
    struct kg_json_writer json = kg_json_writer(inner);
    const struct kg_node *ref = kg_node_typed(params, "ref", KG_OBJECT);
    bool is_prompt = kg_str_is(kg_node_text(ref, "type"), "ref/prompt");
    const char *key = is_prompt ? "name" : "uri";
    struct kg_str name;
    if (find_inner(mcp, kg_node_text(ref, key), is_prompt, ret_plugin, &name, err) < 0)
        return -EINVAL;
    kg_json_begin(&json, '{');
    kg_json_key(&json, "ref");
    mcp_offers_put_params(&json, ref, key, name);
    for (uint32_t i = 0; i < params->count; i++) {
        kg_auto(kg_free) char *member = kg_str_dup(params->members[i].key);
        if (strcmp(member, "ref") == 0 || mcp_offers_is_ours(member))
            continue;
        kg_json_key(&json, member);
        kg_json_node(&json, &params->members[i].value);
    }
    kg_json_end(&json, '}');
    return 0;
}

/* At the door of all: which plugin is meant, and the params as that one knows them. */
static int read_outer(struct mcp *mcp, enum host_offer what, const struct kg_node *params,
                      struct kg_buf *inner, struct kg_str *ret_plugin, struct kg_err *err)
{
    struct kg_json_writer json = kg_json_writer(inner);
    bool is_prompt = what == HOST_PROMPT;
    const char *key = is_prompt ? "name" : "uri";
    struct kg_str name;
    if (what == HOST_COMPLETION)
        return read_completion(mcp, params, inner, ret_plugin, err);
    if (find_inner(mcp, kg_node_text(params, key), is_prompt, ret_plugin, &name, err) < 0)
        return -EINVAL;
    mcp_offers_put_params(&json, params, key, name);
    return 0;
}

/* -- answers ----------------------------------------------------------------------------------- */

static void put_cache(struct kg_json_writer *json, const struct mcp_call *call)
{
    if (call->era != MCP_ERA_MODERN || !rows[call->offer].is_cached)
        return;
    kg_json_named_int(json, "ttlMs", 0);
    kg_json_named_text(json, "cacheScope", "private");
}

/* A list, or the contents of a resource, of our own making. */
static void answer_items(struct mcp_call *call, struct kg_str items)
{
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    kg_json_begin(&json, '{');
    if (call->era == MCP_ERA_MODERN)
        kg_json_named_text(&json, "resultType", "complete");
    put_cache(&json, call);
    kg_json_key(&json, rows[call->offer].list);
    kg_json_begin(&json, '[');
    kg_buf_str(&result, items);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    mcp_call_answer(call, kg_buf_view(&result));
}

/* What a server answered, with what its own era may not have. */
static void answer_as_it_is(struct mcp_call *call, struct kg_str result)
{
    struct kg_str there;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (call->era != MCP_ERA_MODERN || result.data[0] != '{') {
        mcp_call_answer(call, result);
        return;
    }
    struct kg_json_writer json = kg_json_writer(&text);
    struct kg_json_cursor inside = kg_json_inside(result);
    kg_json_begin(&json, '{');
    if (!kg_json_member(result, "resultType", &there))
        kg_json_named_text(&json, "resultType", "complete");
    if (!kg_json_member(result, "ttlMs", &there))
        put_cache(&json, call);
    kg_json_skip_space(&inside);
    if (*inside.at != '}' && text.length > 1)
        kg_buf_char(&text, ',');
    kg_buf_append(&text, inside.at, (size_t)(result.data + result.length - inside.at));
    mcp_call_answer(call, kg_buf_view(&text));
}

/* The server's own error, with the code that the client's era has for it. */
static void mcp_offers_answer_error(struct mcp_call *call, const struct host_reply *reply)
{
    if (reply->plugin_error.length == 0) {
        mcp_call_fail(call, &reply->error);
        return;
    }
    int64_t code = rpc_error_code(reply->plugin_error);
    if (code == MCP_NOT_FOUND && call->era == MCP_ERA_MODERN)
        code = MCP_INVALID_PARAMS;
    mcp_call_pass_error(call, code, reply->plugin_error);
}

static void answer_renamed(struct mcp_call *call, struct kg_str result)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(result, NULL);
    kg_auto(kg_buf_free) struct kg_buf items = {0};
    struct kg_json_writer json = kg_json_writer(&items);
    if (doc != NULL)
        mcp_offers_put_renamed(call->mcp, call->offer, call->plugin,
                               kg_node_list(doc->root, rows[call->offer].list), &json);
    answer_items(call, kg_buf_view(&items));
}

static void mcp_offers_on_asked(void *data, const struct host_reply *reply)
{
    struct mcp_call *call = data;
    call->sent = NULL;
    if (reply->error.code == KG_E_METHOD_NOT_FOUND && rows[call->offer].is_list)
        answer_items(call, KG_STR(""));
    else if (reply->error.code != KG_OK)
        mcp_offers_answer_error(call, reply);
    else if (call->is_of_all && rows[call->offer].list != NULL)
        answer_renamed(call, reply->result);
    else
        answer_as_it_is(call, reply->result);
}

/* -- asking ------------------------------------------------------------------------------------ */

static int mcp_offers_ask(struct mcp_call *call, const char *server, host_done_fn *on_done,
                          struct kg_err *err)
{
    const struct host_call_request request = {
        .plugin = kg_str(server),
        .params = call->arguments,
        .asker = call->asker,
        .on_done = on_done,
        .on_progress = mcp_call_progress,
        .asked = call->servers == NULL ? &mcp_asked_ops : NULL,
        .data = call,
    };
    call->sent = host_offer_ask(call->mcp->host, call->offer, &request, err);
    return call->sent != NULL ? 0 : -EINVAL;
}

/* -- a list of all servers, one after the other ------------------------------------------------ */

static void mcp_offers_ask_next(struct mcp_call *call);

static void mcp_offers_on_listed(void *data, const struct host_reply *reply)
{
    struct mcp_call *call = data;
    struct kg_json_writer json = {.buf = &call->list, .comma = call->list.length > 0};
    call->sent = NULL;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        reply->error.code == KG_OK ? kg_json_read(reply->result, NULL) : NULL;
    kg_auto(kg_free) char *plugin = kg_strdup(call->plugin);
    plugin[strcspn(plugin, "@")] = '\0';
    if (doc != NULL)
        mcp_offers_put_renamed(call->mcp, call->offer, plugin,
                               kg_node_list(doc->root, rows[call->offer].list), &json);
    mcp_offers_ask_next(call);
}

/* One that cannot be asked any more is left out. */
static void mcp_offers_ask_next(struct mcp_call *call)
{
    struct kg_err err;
    while (call->servers[call->server] != NULL) {
        kg_replace(&call->plugin, call->servers[call->server++]);
        if (mcp_offers_ask(call, call->plugin, mcp_offers_on_listed, &err) == 0)
            return;
    }
    answer_items(call, kg_buf_view(&call->list));
}

static void mcp_offers_list_all(struct mcp_exchange *exchange, enum host_offer what)
{
    struct mcp_call *call =
        mcp_call_new(exchange, kg_str(rows[what].method), KG_STR("{}"), KG_STR_NULL);
    call->offer = what;
    call->servers = running_servers(&exchange->scope, what);
    mcp_call_keep(call);
    mcp_offers_ask_next(call);
}

/* -- the door ---------------------------------------------------------------------------------- */

/* inner: its params as the server knows them. */
static void ask_one(struct mcp_exchange *exchange, enum host_offer what, struct kg_str plugin,
                    struct kg_str inner, struct kg_str params)
{
    struct kg_err err = {0};
    if (!mcp_may_use(&exchange->scope, plugin)) {
        mcp_reply_error(exchange, 200, MCP_METHOD_NOT_FOUND, "no server here offers this");
        return;
    }
    kg_auto(kg_free) char *server = mcp_server_name(&exchange->scope, plugin);
    kg_auto(kg_free) char *name = kg_str_dup(plugin);
    struct kg_str method = kg_str(rows[what].method);
    if (mcp_call_again(exchange, params, method, name, inner))
        return;
    struct mcp_call *call = mcp_call_new(exchange, method, inner, mcp_progress_token(params));
    mcp_asks_bring(call, params);
    call->offer = what;
    call->plugin = kg_steal(&name);
    call->is_of_all = exchange->scope.plugin.length == 0;
    if (mcp_offers_ask(call, server, mcp_offers_on_asked, &err) < 0) {
        const struct host_reply refused = {.error = err};
        mcp_offers_on_asked(call, &refused);
        return;
    }
    mcp_call_keep(call);
}

void mcp_offer(struct mcp_exchange *exchange, enum host_offer what, struct kg_str params)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    kg_auto(kg_buf_free) struct kg_buf inner = {0};
    const char *refused = mcp_call_refusal(exchange);
    struct kg_str plugin = exchange->scope.plugin;
    struct kg_json_writer json = kg_json_writer(&inner);
    struct kg_err err;
    if (doc == NULL || refused != NULL) {
        mcp_reply_error(exchange, 200, MCP_INVALID_REQUEST,
                        refused ? refused : "a key of params is given twice");
    } else if (plugin.length > 0) {
        mcp_offers_put_params(&json, doc->root, NULL, KG_STR_NULL);
        ask_one(exchange, what, plugin, kg_buf_view(&inner), params);
    } else if (rows[what].is_list) {
        mcp_offers_list_all(exchange, what);
    } else if (read_outer(exchange->scope.mcp, what, doc->root, &inner, &plugin, &err) < 0) {
        mcp_reply_error(exchange, 200, MCP_INVALID_PARAMS, err.message);
    } else {
        ask_one(exchange, what, plugin, kg_buf_view(&inner), params);
    }
}
