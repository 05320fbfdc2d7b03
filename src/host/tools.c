/*
 * Tools of servers that tell of them only when they run. What agents get are those that the
 * operator approved, with every word that he read; a server that runs is only compared with them.
 * What is new or changed is held until his yes, and the old ones go on.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

struct host_tools {
    struct store_tools approved;
    bool is_approved;   /* there was a yes, be it to an empty list */
    struct kg_buf seen; /* what a process listed, if that is something else; empty: it is not */
    enum dialect_variant seen_variant; /* of that process */
    char *hash; /* of the files that all of this is about; owned; NULL: of none */
};

void host_tools_free(struct host_tools *tools)
{
    if (tools == NULL)
        return;
    store_tools_free(&tools->approved);
    kg_buf_free(&tools->seen);
    free(tools->hash);
    free(tools);
}

/* -- what the manifest gets -------------------------------------------------------------------- */

static struct kg_str host_tools_name_of(const struct kg_node *tool)
{
    return kg_node_text(tool, "name");
}

/* Those that are switched on. */
static void host_tools_put_offered(const struct host_tools *tools, struct kg_buf *ret_list)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(kg_buf_view(&tools->approved.tools), NULL);
    struct kg_json_writer json = kg_json_writer(ret_list);
    kg_json_begin(&json, '[');
    for (uint32_t i = 0; doc != NULL && i < doc->root->count; i++)
        if (!kg_list_has(tools->approved.off, host_tools_name_of(&doc->root->items[i])))
            kg_json_node(&json, &doc->root->items[i]);
    kg_json_end(&json, ']');
}

/* The hash of the files that a yes is for; NULL: there was none. Owned. */
static char *hash_of(const struct host_plugin *plugin, const struct manifest *manifest)
{
    const struct local_plugin *local =
        local_plugin_find(plugin->host->local, kg_str(manifest->package));
    return local != NULL && local->hash.length > 0 ? kg_str_dup(local->hash) : NULL;
}

static void read_approved(struct host_plugin *plugin, const struct manifest *manifest)
{
    struct host_tools *tools = plugin->tools;
    kg_auto(kg_free) char *hash = hash_of(plugin, manifest);
    if (!kg_same_text(hash, tools->hash))
        tools->seen.length = 0; /* of another version */
    kg_replace(&tools->hash, hash);
    store_tools_free(&tools->approved);
    tools->approved = (struct store_tools){0};
    tools->is_approved =
        hash != NULL && store_tools_read(plugin->host->store, plugin->name, hash, &tools->approved);
}

/* Of what its author runs, nothing waits for a yes: it has what it listed last. */
void host_tools_load(struct host_plugin *plugin, struct manifest *manifest,
                     struct kg_problems *problems)
{
    kg_auto(kg_buf_free) struct kg_buf offered = {0};
    if (!host_lists_tools(manifest))
        return;
    if (plugin->tools == NULL)
        plugin->tools = kg_alloc(sizeof(*plugin->tools));
    if (plugin->dev == NULL)
        read_approved(plugin, manifest);
    if (!plugin->tools->is_approved)
        return;
    host_tools_put_offered(plugin->tools, &offered);
    manifest_learn_tools(manifest, kg_buf_view(&offered), problems);
}

char *host_tools_offered(struct host_named named)
{
    struct kg_buf offered = {0};
    if (named.plugin->tools == NULL)
        return NULL;
    host_tools_put_offered(named.plugin->tools, &offered);
    return kg_buf_terminate(&offered);
}

enum dialect_variant host_tools_variant(const struct host_plugin *plugin)
{
    int64_t variant = plugin->tools ? plugin->tools->approved.variant : DIALECT_UNKNOWN;
    return variant == DIALECT_MCP_LEGACY || variant == DIALECT_MCP_MODERN
               ? (enum dialect_variant)variant
               : DIALECT_UNKNOWN;
}

/* -- what a server lists ----------------------------------------------------------------------- */

static const struct kg_node *host_tools_find_tool(const struct kg_node *list, struct kg_str name)
{
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (kg_str_equal(host_tools_name_of(&list->items[i]), name))
            return &list->items[i];
    return NULL;
}

struct counts {
    int64_t added, changed, removed;
};

/* A server may list thousands. The first of a name counts, as for host_tools_find_tool. */
static struct kg_map *host_tools_by_name(const struct kg_node *list_or_null)
{
    struct kg_map *map = kg_map_new();
    for (uint32_t i = 0; list_or_null != NULL && i < list_or_null->count; i++) {
        struct kg_node *tool = &list_or_null->items[i];
        if (kg_map_get(map, host_tools_name_of(tool)) == NULL)
            kg_map_set(map, host_tools_name_of(tool), tool);
    }
    return map;
}

static struct counts host_tools_compare(const struct kg_node *approved_or_null,
                                        const struct kg_node *seen)
{
    struct counts counts = {0};
    struct kg_map *befores = host_tools_by_name(approved_or_null), *nows = host_tools_by_name(seen);
    for (uint32_t i = 0; i < seen->count; i++) {
        const struct kg_node *before = kg_map_get(befores, host_tools_name_of(&seen->items[i]));
        counts.added += before == NULL;
        counts.changed += before != NULL && !kg_node_is_same(before, &seen->items[i]);
    }
    for (uint32_t i = 0; approved_or_null != NULL && i < approved_or_null->count; i++)
        counts.removed += kg_map_get(nows, host_tools_name_of(&approved_or_null->items[i])) == NULL;
    kg_map_free(befores);
    kg_map_free(nows);
    return counts;
}

static void restart_all(struct host_plugin *plugin)
{
    for (struct host_process *at = plugin->processes; at != NULL; at = at->next)
        if (host_process_runs(at))
            host_process_raise(at, HOST_ON_RESTART);
    plugin->host->project_ops->refresh(plugin->host->projects);
}

static void host_tools_take_over(struct host_plugin *plugin, struct kg_str list,
                                 enum dialect_variant variant)
{
    struct host_tools *tools = plugin->tools;
    tools->approved.tools.length = 0;
    kg_buf_str(&tools->approved.tools, list);
    if (tools->approved.off == NULL)
        tools->approved.off = kg_list_new(0); /* nothing was stored of it yet */
    tools->approved.variant = variant;
    tools->is_approved = true;
    tools->seen.length = 0;
}

static void on_author_restart(struct loop_task *task)
{
    struct host_plugin *plugin = KG_CONTAINER(task, struct host_plugin, tools_task);
    if (host_plugin_read(plugin) == 0)
        restart_all(plugin);
}

static void take_from_author(struct host_process *process, struct kg_str list)
{
    struct host_plugin *plugin = process->plugin;
    host_tools_take_over(plugin, list, instance_variant(process->instance));
    plugin->tools_task.run = on_author_restart;
    loop_defer(plugin->host->loop, &plugin->tools_task);
}

static void host_tools_hold(struct host_process *process, struct kg_str list, struct counts counts)
{
    struct host_plugin *plugin = process->plugin;
    plugin->tools->seen.length = 0;
    kg_buf_str(&plugin->tools->seen, list);
    plugin->tools->seen_variant = instance_variant(process->instance);
    host_process_use(process); /* it stays until it is idle, as after any use */
    host_use_moved(process);
    kg_log_about(KG_WARN, process->name,
                 "lists tools that were not approved: %lld new, %lld changed; kaged plugin tools "
                 "%s shows them",
                 (long long)counts.added, (long long)counts.changed, plugin->name);
    audit_emit(plugin->host->audit, AUDIT_PLUGIN_TOOLS_HELD, KG_STR_NULL,
               AUDIT_V_TEXT(process->name), AUDIT_V_INT(counts.added), AUDIT_V_INT(counts.changed),
               AUDIT_V_INT(counts.removed));
}

/* A tool that is gone needs no yes; one that comes back as it was needs none either. */
void host_tools_seen(struct host_process *process)
{
    struct host_plugin *plugin = process->plugin;
    struct kg_str list = instance_tools(process->instance);
    struct host_tools *tools = plugin->tools;
    if (tools == NULL)
        return;
    kg_auto(kg_doc_cleanup) struct kg_doc *seen = kg_json_read(list, NULL);
    kg_auto(kg_doc_cleanup) struct kg_doc *approved =
        tools->is_approved ? kg_json_read(kg_buf_view(&tools->approved.tools), NULL) : NULL;
    if (seen == NULL)
        return;
    struct counts counts = host_tools_compare(approved ? approved->root : NULL, seen->root);
    bool is_news = !tools->is_approved || counts.added + counts.changed > 0;
    if (!is_news)
        tools->seen.length = 0;
    else if (plugin->dev != NULL)
        take_from_author(process, list);
    else if (!kg_str_equal(kg_buf_view(&tools->seen), list))
        host_tools_hold(process, list, counts);
}

bool host_tools_wait(const struct host_plugin *plugin)
{
    return plugin->tools != NULL && plugin->tools->seen.length > 0;
}

bool host_tools_are_unknown(const struct host_plugin *plugin)
{
    const struct host_tools *tools = plugin->tools;
    return tools != NULL && !tools->is_approved && tools->seen.length == 0;
}

/* -- what is shown ----------------------------------------------------------------------------- */

static void host_tools_put_text(struct kg_json_writer *json, const struct kg_node *tool,
                                const char *key)
{
    const struct kg_node *node = kg_node_typed(tool, key, KG_STRING);
    kg_json_named_str(json, key, node != NULL ? node->text : KG_STR(""));
}

/* What a name looks like: names that are read alike have the same. */
static void put_look(struct kg_buf *out, struct kg_str name)
{
    static const struct {
        const char *written, *read;
    } alike[] = {{"rn", "m"}, {"vv", "w"}, {"0", "o"}, {"1", "l"}, {"i", "l"},
                 {"I", "l"},  {"5", "s"},  {"-", "_"}, {".", "_"}};
    for (size_t at = 0; at < name.length;) {
        struct kg_str rest = kg_str_from(name, at);
        size_t i = 0;
        while (i < KG_COUNT(alike) && !kg_str_starts(rest, alike[i].written))
            i++;
        if (i < KG_COUNT(alike))
            kg_buf_text(out, alike[i].read);
        else
            kg_buf_char(out, *rest.data >= 'A' && *rest.data <= 'Z' ? (char)(*rest.data | 0x20)
                                                                    : *rest.data);
        at += i < KG_COUNT(alike) ? strlen(alike[i].written) : 1;
    }
}

/* The first tool of each look. */
static void add_looks(struct kg_map *looks, const struct kg_node *list_or_null)
{
    for (uint32_t i = 0; list_or_null != NULL && i < list_or_null->count; i++) {
        kg_auto(kg_buf_free) struct kg_buf look = {0};
        put_look(&look, host_tools_name_of(&list_or_null->items[i]));
        if (kg_map_get(looks, kg_buf_view(&look)) == NULL)
            kg_map_set(looks, kg_buf_view(&look), &list_or_null->items[i]);
    }
}

/* A letter of another writing looks like one of ours: what it is, is said by its number. */
static void put_odd_name(struct kg_buf *out, struct kg_str name)
{
    kg_buf_text(out,
                "its name is not 1 to 128 characters of A-Z a-z 0-9 _ . -, so it is not offered");
    for (size_t at = 0, length; at < name.length; at += length) {
        uint32_t code = kg_utf8_decode(name.data + at, &length);
        if (code < 0x80)
            continue;
        kg_buf_printf(out, "; it has U+%04X, which may look like another letter", code);
        return;
    }
}

/* Why to look twice, in words; nothing: there is no reason. `at`: its place in the list. */
static void host_tools_put_danger(struct kg_buf *out, const struct kg_node *tool, uint32_t at,
                                  const struct kg_map *looks)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, look = {0};
    struct kg_str name = host_tools_name_of(tool);
    kg_json_put_node(&text, tool);
    put_look(&look, name);
    const struct kg_node *first = kg_map_get(looks, kg_buf_view(&look));
    if (!kg_str_is_plain(kg_buf_view(&text)))
        kg_buf_text(out,
                    "it has invisible characters, or ones that change the direction of writing");
    else if (!manifest_mcp_tool_name_is_valid(name))
        put_odd_name(out, name);
    else if (at >= MANIFEST_LEARNED_MAX)
        kg_buf_printf(out, "it is not offered: only the first %d tools of a server are",
                      MANIFEST_LEARNED_MAX);
    else if (first != NULL && !kg_str_equal(host_tools_name_of(first), name))
        kg_buf_printf(out, "its name looks like that of another tool, %.*s",
                      KG_STR_CUT(host_tools_name_of(first), KG_CUT_WORD));
}

/* What has no member of its own here: a yes is for these words, too. */
static void put_more(struct kg_json_writer *json, const struct kg_node *tool)
{
    static const char *const shown[] = {"name", "description", "inputSchema", "annotations"};
    kg_json_named_begin(json, "more", '{');
    for (uint32_t i = 0; i < tool->count; i++) {
        const struct kg_member *member = &tool->members[i];
        size_t k = 0;
        while (k < KG_COUNT(shown) && !kg_str_is(member->key, shown[k]))
            k++;
        if (k < KG_COUNT(shown))
            continue;
        kg_auto(kg_free) char *key = kg_str_dup(member->key);
        kg_json_named_node(json, key, &member->value);
    }
    kg_json_end(json, '}');
}

static void host_tools_put_words(struct kg_json_writer *json, const struct kg_node *tool,
                                 uint32_t at, const struct kg_map *looks)
{
    kg_auto(kg_buf_free) struct kg_buf danger = {0};
    host_tools_put_danger(&danger, tool, at, looks);
    host_tools_put_text(json, tool, "description");
    kg_json_named_node(json, "parameters_schema", kg_node_get(tool, "inputSchema"));
    kg_json_named_node(json, "annotations", kg_node_get(tool, "annotations"));
    put_more(json, tool);
    kg_json_named_text(json, "danger", danger.length > 0 ? kg_buf_terminate(&danger) : NULL);
}

/* A list that is being shown. */
struct shown_tools {
    struct kg_json_writer *json;
    const struct host_plugin *plugin;
    const struct kg_node *approved, *seen; /* NULL: there is no such list */
    struct kg_map *befores, *nows;         /* the same by name */
    struct kg_map *looks;
};

/* now: what a changed one would be after a yes. */
static void host_tools_put_tool(const struct shown_tools *shown, const struct kg_node *tool,
                                uint32_t at, const char *state, const struct kg_node *now_or_null)
{
    struct kg_json_writer *json = shown->json;
    struct kg_str name = host_tools_name_of(tool);
    kg_auto(kg_free) char *full =
        kg_format("%s.%.*s", shown->plugin->name, KG_STR_CUT(name, KG_CUT_PATH));
    kg_json_begin(json, '{');
    kg_json_named_str(json, "name", name);
    kg_json_named_text(json, "full_name", full);
    host_tools_put_words(json, tool, at, shown->looks);
    kg_json_named_text(json, "state", state);
    if (now_or_null != NULL) {
        kg_json_named_begin(json, "now", '{');
        host_tools_put_words(json, now_or_null, (uint32_t)(now_or_null - shown->seen->items),
                             shown->looks);
        kg_json_end(json, '}');
    }
    kg_json_end(json, '}');
}

static void put_approved(const struct shown_tools *shown, uint32_t at)
{
    const struct kg_node *tool = &shown->approved->items[at];
    const struct kg_node *seen = kg_map_get(shown->nows, host_tools_name_of(tool));
    bool is_changed = seen != NULL && !kg_node_is_same(tool, seen);
    const char *state = "approved";
    if (kg_list_has(shown->plugin->tools->approved.off, host_tools_name_of(tool)))
        state = "off";
    else if (is_changed)
        state = "changed";
    else if (shown->seen != NULL && seen == NULL)
        state = "gone";
    host_tools_put_tool(shown, tool, at, state, is_changed ? seen : NULL);
}

static void host_tools_put_both(const struct shown_tools *shown)
{
    for (uint32_t i = 0; shown->approved != NULL && i < shown->approved->count; i++)
        put_approved(shown, i);
    for (uint32_t i = 0; shown->seen != NULL && i < shown->seen->count; i++)
        if (kg_map_get(shown->befores, host_tools_name_of(&shown->seen->items[i])) == NULL)
            host_tools_put_tool(shown, &shown->seen->items[i], i, "new", NULL);
}

static struct kg_doc *read_list(const struct kg_buf *list)
{
    return list->length > 0 ? kg_json_read(kg_buf_view(list), NULL) : NULL;
}

void host_tools_digest(struct host_named named, char ret_digest[STORE_HASH_TEXT])
{
    const struct host_tools *tools = named.plugin->tools;
    ret_digest[0] = '\0';
    if (tools != NULL && tools->seen.length > 0)
        store_hash_text(kg_buf_view(&tools->seen), ret_digest);
}

bool host_tools_put(struct host_named named, struct kg_json_writer *json)
{
    const struct host_plugin *plugin = named.plugin;
    const struct host_tools *tools = plugin->tools;
    if (tools == NULL)
        return false;
    kg_auto(kg_doc_cleanup) struct kg_doc *approved = read_list(&tools->approved.tools);
    kg_auto(kg_doc_cleanup) struct kg_doc *seen = read_list(&tools->seen);
    struct shown_tools shown = {.json = json,
                                .plugin = plugin,
                                .approved = approved ? approved->root : NULL,
                                .seen = seen ? seen->root : NULL,
                                .looks = kg_map_new()};
    shown.befores = host_tools_by_name(shown.approved);
    shown.nows = host_tools_by_name(shown.seen);
    add_looks(shown.looks, shown.approved);
    add_looks(shown.looks, shown.seen);
    host_tools_put_both(&shown);
    kg_map_free(shown.befores);
    kg_map_free(shown.nows);
    kg_map_free(shown.looks);
    return true;
}

/* -- the operator's word ----------------------------------------------------------------------- */

struct deciding {
    struct loop_job job;
    struct host_plugin *plugin; /* one reference */
    char *hash;                 /* owned */
    struct host_asker *asker;   /* a reference */
    struct store_tools tools;   /* as they are to be; owned */
    bool approves;
    int result;
    struct kg_err err;
    host_acted_fn *on_done;
    void *data;
};

static void run_decided(struct loop_job *job)
{
    struct deciding *deciding = KG_CONTAINER(job, struct deciding, job);
    deciding->result = store_tools_write(deciding->plugin->host->store, deciding->plugin->name,
                                         deciding->hash, &deciding->tools, &deciding->err);
}

static void host_tools_apply(struct deciding *deciding)
{
    struct host_plugin *plugin = deciding->plugin;
    if (deciding->approves)
        plugin->tools->seen.length = 0;
    audit_emit(plugin->host->audit, AUDIT_PLUGIN_TOOLS_APPROVED,
               kg_str(deciding->asker->request_id), AUDIT_V_TEXT(plugin->name),
               AUDIT_V_TEXT(deciding->asker->operator_id), AUDIT_V_BOOL(deciding->approves));
    if (host_plugin_load(plugin) < 0)
        kg_log_about(KG_ERROR_LEVEL, plugin->name, "%s", plugin->problem.message);
    restart_all(plugin);
}

static void on_decided(struct loop_job *job)
{
    struct deciding *deciding = KG_CONTAINER(job, struct deciding, job);
    struct host_plugin *plugin = deciding->plugin;
    if (deciding->result == 0 && !plugin->gone)
        host_tools_apply(deciding);
    deciding->on_done(deciding->data, deciding->result < 0 ? &deciding->err : NULL);
    host_store_job_done(plugin->host);
    host_plugin_drop(plugin);
    store_tools_free(&deciding->tools);
    free(deciding->hash);
    host_asker_unref(deciding->asker);
    free(deciding);
}

static int host_tools_check_tools(const struct host_plugin *plugin, struct kg_err *err)
{
    if (plugin->tools == NULL)
        return kg_fail(err, KG_E_NOT_APPLICABLE,
                       "plugin %s declares its tools in its manifest: they were approved with it",
                       plugin->name);
    return host_check_not_dev(plugin, err);
}

static struct deciding *deciding_new(struct host_plugin *plugin, struct host_asker *asker)
{
    struct deciding *deciding = kg_alloc(sizeof(*deciding));
    const struct store_tools *now = &plugin->tools->approved;
    deciding->plugin = host_plugin_keep(plugin);
    deciding->hash = hash_of(plugin, plugin->manifest);
    deciding->asker = host_asker_ref(asker);
    kg_buf_str(&deciding->tools.tools, now->tools.length ? kg_buf_view(&now->tools) : KG_STR("[]"));
    deciding->tools.variant = now->variant;
    deciding->tools.off = now->off ? kg_list_copy((const char *const *)now->off) : kg_list_new(0);
    return deciding;
}

static void host_tools_decide(struct deciding *deciding, host_acted_fn *on_done, void *data)
{
    deciding->on_done = on_done;
    deciding->data = data;
    deciding->job.run = run_decided;
    deciding->job.done = on_decided;
    host_store_job(deciding->plugin->host, &deciding->job);
}

static int check_shown(const struct host_plugin *plugin, struct kg_str digest, struct kg_err *err)
{
    char now[STORE_HASH_TEXT];
    int result = host_tools_check_tools(plugin, err);
    if (result < 0)
        return result;
    host_tools_digest((struct host_named){.plugin = (struct host_plugin *)plugin}, now);
    if (now[0] == '\0') {
        kg_fail(err, KG_E_CONFLICT, "plugin %s: no tools wait for approval", plugin->name);
        return kg_hint(err, "a server tells of its tools when it runs: kaged plugin enable %s",
                       plugin->name);
    }
    if (kg_str_is(digest, now))
        return 0;
    kg_fail(err, KG_E_CONFLICT, "plugin %s: its tools are not those that were shown", plugin->name);
    return kg_hint(err, "look at them again: kaged plugin tools %s", plugin->name);
}

void host_tools_approve(struct host_named named, struct kg_str digest, struct host_asker *asker,
                        host_acted_fn *on_done, void *data)
{
    struct kg_err err = {0};
    if (check_shown(named.plugin, digest, &err) < 0) {
        on_done(data, &err);
        return;
    }
    struct deciding *deciding = deciding_new(named.plugin, asker);
    deciding->approves = true;
    deciding->tools.tools.length = 0;
    kg_buf_str(&deciding->tools.tools, kg_buf_view(&named.plugin->tools->seen));
    deciding->tools.variant = named.plugin->tools->seen_variant;
    host_tools_decide(deciding, on_done, data);
}

static int host_tools_check_named(const struct host_plugin *plugin, struct kg_str tool,
                                  struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *approved = read_list(&plugin->tools->approved.tools);
    if (approved != NULL && host_tools_find_tool(approved->root, tool) != NULL)
        return 0;
    kg_fail(err, KG_E_NOT_FOUND, "plugin %s has no approved tool \"%.*s\"", plugin->name,
            KG_STR_CUT(tool, KG_CUT_WORD));
    return kg_hint(err, "kaged plugin tools %s lists them", plugin->name);
}

static void host_tools_remove_name(char **list, struct kg_str name)
{
    size_t kept = 0;
    for (size_t i = 0; list[i] != NULL; i++) {
        if (kg_str_is(name, list[i]))
            free(list[i]);
        else
            list[kept++] = list[i];
    }
    list[kept] = NULL;
}

void host_tools_switch(struct host_named named, struct kg_str tool, bool off,
                       struct host_asker *asker, host_acted_fn *on_done, void *data)
{
    struct kg_err err = {0};
    if (host_tools_check_tools(named.plugin, &err) < 0 ||
        host_tools_check_named(named.plugin, tool, &err) < 0) {
        on_done(data, &err);
        return;
    }
    struct deciding *deciding = deciding_new(named.plugin, asker);
    host_tools_remove_name(deciding->tools.off, tool);
    if (off)
        kg_list_add(&deciding->tools.off, kg_str_dup(tool));
    host_tools_decide(deciding, on_done, data);
}
