/*
 * Packages of the catalog, as they run: a package of one org in one version is a plugin that no
 * store has, with a seat for each process of it: callers that want the same settings of a stateless
 * one share a seat.
 */
#include "host/package.h"

#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

#define NAME_PART_MAX 40
#define HASH_SHOWN    12

struct host_package_use {
    struct host_package_use *next; /* of the seat */
    struct host_seat *seat;
    void (*on_moved)(void *data);
    void *data;
    struct loop_task moved;
};

struct host_seat {
    struct host_seat *next; /* of the package */
    struct host_plugin *plugin;
    struct host_process *process; /* NULL: it is being made */
    char *id;                     /* whom it serves; owned */
    char *org;                    /* owned */
    char hash[STORE_HASH_TEXT];   /* of the settings */
    struct kg_buf settings;
    struct host_package_use *uses;
    bool left; /* nobody can sit down any more */
    struct loop_task retire;
};

struct host_package {
    struct manifest *manifest; /* one reference */
    char *own_name;            /* owned; as it says it itself */
    bool stateless;
    unsigned made; /* seats, so far */
    struct host_seat *seats;
};

/* -- seats ------------------------------------------------------------------------------------- */

static struct host_seat *seat_of(const struct host_process *process)
{
    struct host_seat *seat = process->plugin->package->seats;
    while (seat != NULL && strcmp(seat->id, process->whom.id) != 0)
        seat = seat->next;
    return seat;
}

static void seat_free(struct host_seat *seat)
{
    loop_undefer(seat->plugin->host->loop, &seat->retire);
    KG_UNLINK(seat->plugin->package->seats, seat);
    if (seat->settings.length > 0)
        explicit_bzero(seat->settings.data, seat->settings.length);
    kg_buf_free(&seat->settings);
    free(seat->id);
    free(seat->org);
    free(seat);
}

/* Those that still leave have a plugin until they are gone. */
static void package_leave_if_empty(struct host_plugin *plugin)
{
    plugin->leaving = true;
    for (const struct host_seat *seat = plugin->package->seats; seat != NULL; seat = seat->next)
        plugin->leaving = plugin->leaving && seat->left;
}

/* Nobody uses it, and its last call is over. */
static void on_retire(struct loop_task *task)
{
    struct host_seat *seat = KG_CONTAINER(task, struct host_seat, retire);
    if (seat->uses != NULL || seat->left || seat->process->sent != NULL)
        return;
    seat->left = true;
    package_leave_if_empty(seat->plugin);
    host_process_leave(seat->process);
}

static void seat_look(struct host_seat *seat)
{
    seat->retire.run = on_retire;
    if (seat->uses == NULL)
        loop_defer(seat->plugin->host->loop, &seat->retire);
}

void host_package_idle(struct host_process *process)
{
    struct host_seat *seat = seat_of(process);
    if (seat != NULL)
        seat_look(seat);
}

void host_package_gone(struct host_process *process)
{
    struct host_seat *seat = seat_of(process);
    if (seat == NULL)
        return;
    for (struct host_package_use *use = seat->uses; use != NULL; use = use->next) {
        loop_undefer(seat->plugin->host->loop, &use->moved);
        use->seat = NULL; /* the host ends, and they will be dropped */
    }
    seat_free(seat);
}

static void on_use_moved(struct loop_task *task)
{
    struct host_package_use *use = KG_CONTAINER(task, struct host_package_use, moved);
    use->on_moved(use->data);
}

void host_package_moved(struct host_process *process)
{
    const struct host_seat *seat = seat_of(process);
    for (struct host_package_use *use = seat ? seat->uses : NULL; use != NULL; use = use->next) {
        use->moved.run = on_use_moved;
        if (use->on_moved != NULL)
            loop_defer(process->plugin->host->loop, &use->moved);
    }
}

bool host_package_is_used(const struct host_process *process)
{
    const struct host_seat *seat = seat_of(process);
    return seat != NULL && !seat->left;
}

/* -- a package as a plugin --------------------------------------------------------------------- */

void host_package_free(struct host_package *package)
{
    if (package == NULL)
        return;
    while (package->seats != NULL)
        seat_free(package->seats);
    manifest_free(package->manifest);
    free(package->own_name);
    free(package);
}

struct manifest *host_package_manifest(struct host_plugin *plugin)
{
    return manifest_keep(plugin->package->manifest);
}

const char *host_package_own_name(const struct host_plugin *plugin)
{
    return plugin->package != NULL ? plugin->package->own_name : plugin->name;
}

void host_package_settings(struct host_process *process, const struct manifest *manifest,
                           struct kg_buf *ret_json)
{
    const struct host_seat *seat = seat_of(process);
    (void)manifest;
    kg_buf_str(ret_json,
               seat && seat->settings.length > 0 ? kg_buf_view(&seat->settings) : KG_STR("{}"));
}

struct cage_plan *host_package_plan(const struct host_cage_parts *parts, struct kg_err *err)
{
    kg_auto(package_runtime_free) struct package_runtime runtime = {0};
    struct host_cage_parts with = *parts;
    if (package_runtime_find(parts->config, &runtime, err) < 0)
        return NULL;
    with.trees = runtime.trees;
    with.tree_count = runtime.tree_count;
    return host_cage_plan(&with, err);
}

/* "parcels-1f2e3d4c5b6a": its pid's last part, and a hash of all that makes it another one. */
static char *package_own_package_name(const struct host_package_want *want)
{
    char hash[STORE_HASH_TEXT], part[NAME_PART_MAX + 1];
    kg_auto(kg_buf_free) struct kg_buf all = {0};
    struct kg_str pid = kg_node_text(want->package, "pid");
    const char *dot = pid.length > 0 ? memrchr(pid.data, '.', pid.length) : NULL;
    struct kg_str last = dot ? kg_str_from(pid, (size_t)(dot - pid.data) + 1) : pid;
    kg_buf_printf(&all, "%s\n%.*s\n%.*s\n%s", want->org, KG_STR_ARG(pid),
                  KG_STR_ARG(kg_node_text(want->package, "version")), want->folder);
    for (const char *const *at = want->reaches; at != NULL && *at != NULL; at++)
        kg_buf_printf(&all, "\n%s", *at);
    store_hash_text(kg_buf_view(&all), hash);
    kg_str_copy(last, part, sizeof(part));
    for (char *at = part; *at != '\0'; at++)
        if (!kg_is_lower(*at) && !kg_is_digit(*at))
            *at = '-';
    return kg_format("%s%s-%.*s", kg_is_lower(part[0]) ? "" : "p", part, HASH_SHOWN,
                     hash + strlen("sha256:"));
}

static struct host_plugin *package_plugin(struct host *host, const struct host_package_want *want,
                                          struct kg_err *err)
{
    kg_auto(package_runtime_free) struct package_runtime runtime = {0};
    kg_auto(kg_free) char *name = package_own_package_name(want);
    struct host_plugin *plugin = host_plugin_find(host, kg_str(name));
    if (plugin != NULL)
        return plugin;
    if (package_runtime_find(host->config, &runtime, err) < 0)
        return NULL;
    kg_auto(kg_free) char *own_name = NULL;
    struct manifest *manifest = package_make_manifest(want->package, want->folder, name, &runtime,
                                                      want->reaches, &own_name, err);
    if (manifest == NULL)
        return NULL;
    manifest->tier = kg_str_is(kg_node_text(want->package, "kind"), "python") ? MANIFEST_PACKAGE
                                                                              : MANIFEST_PACKAGED;
    plugin = host_plugin_add(host, name);
    plugin->package = kg_alloc(sizeof(*plugin->package));
    plugin->package->own_name = kg_steal(&own_name);
    plugin->package->manifest = manifest;
    plugin->package->stateless = kg_node_is_true(want->package, "stateless");
    kg_replace(&plugin->dir, want->folder);
    kg_replace(&plugin->seen_dir, PACKAGE_DIR);
    (void)host_plugin_read(plugin);
    return plugin;
}

/* As learn_package_tools of package/manifest.c has them. */
static char *package_tools_text(const struct manifest *manifest)
{
    struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_begin(&json, '[');
    for (size_t i = 0; i < manifest->tool_count; i++) {
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "name", manifest->tools[i].name);
        kg_json_named_text(&json, "description", manifest->tools[i].description);
        if (manifest->tools[i].parameters_node != NULL)
            kg_json_named_node(&json, "inputSchema", manifest->tools[i].parameters_node);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    return kg_buf_terminate(&text);
}

char *host_package_text(const struct host_package_use *use, char **ret_tools)
{
    static const char *const left_out[] = {"config_schema", "system_config_schema", "knobs", NULL};
    struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    *ret_tools = NULL;
    if (use->seat == NULL)
        return NULL;
    const struct manifest *manifest = use->seat->plugin->package->manifest;
    const struct kg_node *root = manifest->doc->root;
    kg_json_begin(&json, '{');
    for (uint32_t i = 0; i < root->count; i++) {
        kg_auto(kg_free) char *key = kg_str_dup(root->members[i].key);
        if (!kg_list_has((char *const *)left_out, root->members[i].key))
            kg_json_named_node(&json, key, &root->members[i].value);
    }
    kg_json_end(&json, '}');
    if (manifest->tier == MANIFEST_PACKAGE)
        *ret_tools = package_tools_text(manifest);
    return kg_buf_terminate(&text);
}

const char *host_package_name(const struct host_package_use *use)
{
    return use->seat != NULL ? use->seat->plugin->name : NULL;
}

bool host_plugin_is_package(const struct host_plugin *plugin)
{
    return plugin->package != NULL;
}

void host_package_put_method(const struct host_process *process, const char *tool,
                             struct kg_buf *out)
{
    kg_buf_printf(out, "%s.%s", host_package_own_name(process->plugin), tool);
}

/* -- uses -------------------------------------------------------------------------------------- */

static struct host_seat *seat_find(const struct host_package *package, const char *hash)
{
    struct host_seat *seat = package->stateless ? package->seats : NULL;
    while (seat != NULL && (seat->left || strcmp(seat->hash, hash) != 0))
        seat = seat->next;
    return seat;
}

/* Each text in a value that is sensitive; a number is hidden as it is written. */
static void seat_hide_value(struct redact_set *secrets, const struct kg_node *value)
{
    if (value->type == KG_STRING || value->type == KG_NUMBER)
        redact_set_add(secrets, value->text, REDACT_KEPT);
    for (uint32_t i = 0; value->type == KG_ARRAY && i < value->count; i++)
        seat_hide_value(secrets, &value->items[i]);
    for (uint32_t i = 0; value->type == KG_OBJECT && i < value->count; i++)
        seat_hide_value(secrets, &value->members[i].value);
}

/* What must not be seen in what it prints. */
static void seat_hide(const struct host_seat *seat, const struct kg_node *schema)
{
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&seat->settings), &err);
    for (uint32_t i = 0; doc != NULL && i < schema->count; i++) {
        const struct kg_member *value =
            kg_node_member(doc->root, kg_node_text(&schema->items[i], "key"));
        if (value != NULL && kg_node_is_true(&schema->items[i], "sensitive"))
            seat_hide_value(seat->process->secrets, &value->value);
    }
}

static struct host_seat *seat_new(struct host_plugin *plugin, const struct host_package_want *want,
                                  const char *hash)
{
    struct host_seat *seat = kg_alloc(sizeof(*seat));
    struct host_package *package = plugin->package;
    seat->plugin = plugin;
    seat->org = kg_strdup(want->org);
    seat->id = kg_format("%.*s-%u", HASH_SHOWN, hash + strlen("sha256:"), ++package->made);
    kg_str_copy(kg_str(hash), seat->hash, sizeof(seat->hash));
    kg_buf_str(&seat->settings, want->settings);
    seat->next = package->seats;
    package->seats = seat;
    plugin->leaving = false;
    const struct host_whom whom = {.kind = HOST_ORG, .id = seat->id, .org = seat->org};
    seat->process = host_process_add(plugin, &whom);
    seat_hide(seat, kg_node_list(want->package, "settings_schema"));
    return seat;
}

static int package_check_cages(const struct host *host, struct kg_err *err)
{
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (host->no_cage.code == KG_OK)
        return 0;
    *err = host->no_cage;
    return -EINVAL;
}

static int check_want(const struct host *host, const struct host_package_want *want,
                      struct kg_err *err)
{
    if (package_check_cages(host, err) < 0)
        return -EINVAL;
    if (!kg_str_is(kg_node_text(want->package, "kind"), "mcpb"))
        return 0;
    kg_fail(err, KG_E_NOT_APPLICABLE, "package %.*s is an MCP server: it runs as a plugin",
            KG_STR_CUT(kg_node_text(want->package, "pid"), KG_CUT_WORD));
    return kg_hint(err, "kaged plugin install catalog:%s/%.*s", want->org,
                   KG_STR_CUT(kg_node_text(want->package, "pid"), KG_CUT_WORD));
}

struct host_package_use *host_package_use(struct host *host, const struct host_package_want *want,
                                          struct kg_err *err)
{
    char hash[STORE_HASH_TEXT];
    struct host_plugin *plugin =
        check_want(host, want, err) == 0 ? package_plugin(host, want, err) : NULL;
    if (plugin == NULL)
        return NULL;
    store_hash_text(want->settings, hash);
    struct host_seat *seat = seat_find(plugin->package, hash);
    if (seat == NULL)
        seat = seat_new(plugin, want, hash);
    struct host_package_use *use = kg_alloc(sizeof(*use));
    *use = (struct host_package_use){
        .next = seat->uses, .seat = seat, .on_moved = want->on_moved, .data = want->data};
    seat->uses = use;
    host_process_use(seat->process);
    return use;
}

void host_package_drop(struct host_package_use *use)
{
    struct host_seat *seat = use ? use->seat : NULL;
    if (seat != NULL) {
        loop_undefer(seat->plugin->host->loop, &use->moved);
        KG_UNLINK(seat->uses, use);
        seat_look(seat);
    }
    free(use);
}

struct host_process *host_package_process(const struct host_package_use *use)
{
    return use->seat != NULL ? use->seat->process : NULL;
}

static int say_package_gone(struct kg_err *err)
{
    return kg_fail(err, KG_E_STOPPING, "the daemon is stopping, and the package's process is gone");
}

enum host_package_state host_package_state(const struct host_package_use *use,
                                           struct kg_err *err_or_null)
{
    const struct host_process *process = host_package_process(use);
    if (process == NULL) {
        say_package_gone(err_or_null);
        return HOST_PACKAGE_FAILED;
    }
    enum instance_state state = instance_state(process->instance);
    if (instance_talk(process->instance) != NULL)
        return HOST_PACKAGE_READY;
    if (state != INSTANCE_FAILED && state != INSTANCE_STOPPED)
        return HOST_PACKAGE_STARTING;
    const struct exit_report *last = instance_facts(process->instance).last_exit;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (last != NULL)
        exit_report_words(last, &words);
    kg_fail(err_or_null, KG_E_PLUGIN_DOWN, "package %s: %" KG_S_CAUSE, process->plugin->name,
            kg_buf_terminate(&words));
    return HOST_PACKAGE_FAILED;
}

struct host_call *host_package_call(struct host *host, const struct host_package_call *call,
                                    struct kg_err *err)
{
    struct host_process *process = host_package_process(call->use);
    if (process == NULL) {
        say_package_gone(err);
        return NULL;
    }
    const struct manifest *manifest = process->manifest;
    const struct manifest_tool *tool =
        call->tool.length > 0 ? manifest_tool_find(manifest, call->tool) : NULL;
    kg_auto(kg_buf_free) struct kg_buf method = {0};
    if (call->tool.length > 0 && tool == NULL) {
        kg_fail(err, KG_E_METHOD_NOT_FOUND, "package %s has no tool %.*s", process->plugin->name,
                KG_STR_CUT(call->tool, KG_CUT_NAME));
        return NULL;
    }
    if (tool != NULL)
        host_package_put_method(process, tool->name, &method);
    const struct host_passage passage = {
        .process = process,
        .method = tool ? kg_buf_view(&method) : call->method,
        .params = call->params,
        .asker = call->asker,
        .params_schema = tool ? tool->parameters : NULL,
        .timeout_ms = host_call_timeout_ms(host, tool ? tool->timeout_ms : 0),
        .caller_timeout_ms = call->caller_timeout_ms,
        .kind = tool ? &host_tool_kind : &host_method_kind,
        .on_done = call->on_done,
        .on_progress = call->on_progress,
        .data = call->data,
    };
    return host_pass(host, &passage, err);
}
