/*
 * The rules that a schema cannot say, one function each, in one table. They run also on a tree that
 * the published schema refused, so that an author sees all that is wrong at once: a value of
 * another type counts as absent here, since the schema has reported it. Each fills its part of the
 * manifest.
 */
#include "manifest/internal.h"

#include "base/url.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* The most that the published schema allows in a list or map, and among the values of a knob. */
#define ENTRIES_MAX     1024
#define KNOB_VALUES_MAX 256

const char *const manifest_hook_names[MANIFEST_HOOK_COUNT + 1] = {
    [MANIFEST_ON_SESSION_START] = "on_session_start",
    [MANIFEST_ON_SESSION_IDLE] = "on_session_idle",
    [MANIFEST_PRE_COMPACT] = "pre_compact",
    [MANIFEST_POST_COMPACT] = "post_compact",
};

struct reading {
    struct manifest *manifest;
    const struct kg_node *root;
    struct kg_problems *problems;
};

/* -- helpers ----------------------------------------------------------------------------------- */

/* One with more entries than it may have counts as absent, too: no rule has to be quick on it. */
static const struct kg_node *bounded(const struct kg_node *node, uint32_t max)
{
    return node != NULL && node->count <= max ? node : NULL;
}

static const struct kg_node *list(const struct reading *reading, const char *key)
{
    return bounded(kg_node_typed(reading->root, key, KG_ARRAY), ENTRIES_MAX);
}

static const struct kg_node *manifest_rules_map(const struct reading *reading, const char *key)
{
    return bounded(kg_node_typed(reading->root, key, KG_OBJECT), ENTRIES_MAX);
}

static const struct kg_node *text(const struct reading *reading, const char *key)
{
    return kg_node_typed(reading->root, key, KG_STRING);
}

/* A text of the tree with a NUL behind it, kept as long as the manifest. */
static const char *manifest_rules_keep(const struct reading *reading, struct kg_str text)
{
    return kg_arena_text(reading->manifest->doc->arena, text);
}

static const char *manifest_rules_text_of(const struct reading *reading, const char *key)
{
    const struct kg_node *node = text(reading, key);
    return node ? manifest_rules_keep(reading, node->text) : NULL;
}

static double manifest_rules_number_of(const struct kg_node *node)
{
    kg_auto(kg_free) char *digits = kg_str_dup(node->text);
    return strtod(digits, NULL);
}

/* A schema takes 5.0 for an integer, too. Values out of every range here are 0. */
static int64_t int_value(const struct kg_node *node)
{
    double value = node != NULL && node->type == KG_NUMBER ? manifest_rules_number_of(node) : 0;
    return value > -1e9 && value < 1e9 ? (int64_t)value : 0;
}

static int64_t int_of(const struct reading *reading, const char *key)
{
    return int_value(kg_node_get(reading->root, key));
}

static size_t manifest_rules_count_of(const struct kg_node *node)
{
    return node ? node->count : 0;
}

static char **texts_of(const struct kg_node *node)
{
    char **texts = kg_list_new(manifest_rules_count_of(node));
    size_t count = 0;
    for (size_t i = 0; i < manifest_rules_count_of(node); i++)
        if (node->items[i].type == KG_STRING)
            texts[count++] = kg_str_dup(node->items[i].text);
    return texts;
}

static struct schema *manifest_rules_compile(const struct reading *reading,
                                             const struct kg_node *node, const char *what)
{
    struct kg_err err = {0};
    const struct schema_options options = {.draft = SCHEMA_DRAFT_2020_12, .formats = true};
    if (node == NULL || (node->type != KG_OBJECT && node->type != KG_BOOL))
        return NULL;
    struct schema *schema = schema_compile(node, &options, &err);
    if (schema == NULL) {
        kg_auto(kg_free) char *before = kg_format("%s: ", what);
        kg_problems_add_err(reading->problems, &manifest_rows[MANIFEST_SCHEMA_INVALID], before,
                            &err);
    }
    return schema;
}

/* -- who it is --------------------------------------------------------------------------------- */

static void take_identity(const struct reading *reading)
{
    struct manifest *manifest = reading->manifest;
    manifest->name = manifest_rules_text_of(reading, "name");
    manifest->version = manifest_rules_text_of(reading, "version");
    manifest->kaged_api = int_of(reading, "kaged_api");
    manifest->description = manifest_rules_text_of(reading, "description");
    manifest->author = manifest_rules_text_of(reading, "author");
    manifest->license = manifest_rules_text_of(reading, "license");
    manifest->homepage = manifest_rules_text_of(reading, "homepage");
    manifest->idle_after_sec = int_of(reading, "idle_after");
    manifest->shutdown_timeout_sec = int_of(reading, "shutdown_timeout_sec");
    manifest->health_interval_sec = int_of(reading, "health_interval_sec");
    manifest->hook_timeout_sec = int_of(reading, "hook_timeout_sec");
}

bool manifest_name_is_builtin(struct kg_str name)
{
    static const char *const builtin[] = {"file",  "search", "code", "debug",
                                          "shell", "kaged",  "agent"};
    for (size_t i = 0; i < KG_COUNT(builtin); i++)
        if (kg_str_is(name, builtin[i]))
            return true;
    return false;
}

static void manifest_rules_check_name(const struct reading *reading)
{
    const struct kg_node *name = text(reading, "name");
    if (name != NULL && manifest_name_is_builtin(name->text))
        problems_at(reading->problems, NAME_BUILTIN, name, "choose another name",
                    "the name \"%.*s\" is that of built-in tools, which would be easy to confuse",
                    KG_STR_ARG(name->text));
}

static void manifest_rules_check_package(const struct reading *reading)
{
    struct manifest *manifest = reading->manifest;
    const char *package = manifest_rules_text_of(reading, "package");
    manifest->package = package ? package : manifest->name;
    if (package == NULL || manifest->name == NULL)
        return;
    if (!kg_str_is(manifest_package_name(kg_str(package)), manifest->name))
        problems_at(reading->problems, PACKAGE_NAME, text(reading, "package"), NULL,
                    "the package \"%s\" does not end with the name \"%s\"", package,
                    manifest->name);
}

/* -- what it runs ------------------------------------------------------------------------------ */

static void manifest_rules_take_command(const struct reading *reading)
{
    reading->manifest->command = texts_of(list(reading, "command"));
}

static void manifest_rules_take_env(const struct reading *reading)
{
    static const char *const reserved[] = {"KAGED_PLUGIN_NAME", "KAGED_PLUGIN_DIR",
                                           "KAGED_API_VERSION"};
    const struct kg_node *env = manifest_rules_map(reading, "env");
    reading->manifest->env = kg_list_new(0);
    for (size_t i = 0; i < manifest_rules_count_of(env); i++) {
        const struct kg_member *member = &env->members[i];
        if (member->value.type != KG_STRING)
            continue;
        for (size_t k = 0; k < KG_COUNT(reserved); k++)
            if (kg_str_is(member->key, reserved[k]))
                problems_at(reading->problems, ENV_RESERVED, &member->value, "remove it",
                            "%s is set by the daemon; this value is not used", reserved[k]);
        kg_list_add(&reading->manifest->env, kg_format("%.*s=%.*s", KG_STR_ARG(member->key),
                                                       KG_STR_ARG(member->value.text)));
    }
}

/* -- a server somewhere else ------------------------------------------------------------------- */

static void report_remote(const struct reading *reading, const char *hint, const char *what)
{
    problems_at(reading->problems, REMOTE_INVALID, text(reading, "url"), hint, "url: %s", what);
}

/* Without TLS only what leaves this machine for nobody. */
static bool manifest_rules_is_safe(const char *url, const char *host)
{
    return strncmp(url, "https://", 8) == 0 || strcmp(host, "127.0.0.1") == 0 ||
           strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

static void manifest_rules_check_reach(const struct reading *reading, const char *host,
                                       uint16_t port)
{
    struct capability needed = {.kind = CAPABILITY_NET_HOST, .host = kg_strdup(host), .port = port};
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    capability_print(&needed, &line);
    kg_auto(kg_free) char *hint = kg_format("add %s to capabilities", kg_buf_terminate(&line));
    if (!capability_set_covers(&reading->manifest->capability_set, &needed))
        report_remote(reading, hint, "the server is not granted to reach its own host");
    free(needed.host);
}

static void take_headers(const struct reading *reading)
{
    const struct kg_node *headers = manifest_rules_map(reading, "headers");
    reading->manifest->headers = kg_list_new(0);
    for (size_t i = 0; i < manifest_rules_count_of(headers); i++)
        if (headers->members[i].value.type == KG_STRING)
            kg_list_add(&reading->manifest->headers,
                        kg_format("%.*s: %.*s", KG_STR_ARG(headers->members[i].key),
                                  KG_STR_ARG(headers->members[i].value.text)));
}

static void take_remote(const struct reading *reading)
{
    struct manifest *manifest = reading->manifest;
    kg_auto(kg_free) char *host = NULL;
    uint16_t port;
    manifest->url = manifest_rules_text_of(reading, "url");
    take_headers(reading);
    if (manifest->url == NULL)
        return;
    if (!manifest->is_mcp)
        report_remote(reading, "add protocol: mcp", "only an MCP server can be somewhere else");
    else if (list(reading, "command") != NULL)
        report_remote(reading, "keep one of them", "there is a command as well");
    else if (!kg_url_host(manifest->url, &host, &port))
        report_remote(reading, NULL, "its host or port cannot be read");
    else if (!manifest_rules_is_safe(manifest->url, host))
        report_remote(reading, "write https://", "without TLS anybody on the way could read it");
    else
        manifest_rules_check_reach(reading, host, port);
    kg_list_free(manifest->command);
    manifest->command = kg_list_new(0);
    kg_list_add(&manifest->command, kg_strdup("kaged-remote"));
    kg_list_add(&manifest->command, kg_strdup(manifest->url));
}

/* -- what it needs ----------------------------------------------------------------------------- */

/* The strings of a list whose entries may be written as `- net: [...]`, and the node of each. */
struct written {
    char **texts;
    const struct kg_node **nodes;
    size_t count;
};

static void written_add(struct written *written, const struct kg_node *node, char *text)
{
    kg_list_add(&written->texts, text);
    written->nodes = kg_realloc(written->nodes, (written->count + 1) * sizeof(*written->nodes));
    written->nodes[written->count++] = node;
}

/* Past the bound one more is kept, so that it is seen. */
static bool written_is_full(const struct written *written)
{
    return written->count > CAPABILITY_COUNT_MAX;
}

static void written_take(struct written *written, const struct kg_node *entry)
{
    if (entry->type == KG_STRING) {
        written_add(written, entry, kg_str_dup(entry->text));
        return;
    }
    const struct kg_node *targets = kg_node_typed(entry, "net", KG_ARRAY);
    if (targets != NULL && targets->count == 0)
        written_add(written, entry, kg_strdup("net:[]"));
    for (size_t i = 0; i < manifest_rules_count_of(targets) && !written_is_full(written); i++)
        if (targets->items[i].type == KG_STRING)
            written_add(written, &targets->items[i],
                        kg_format("net:%.*s", KG_STR_ARG(targets->items[i].text)));
}

static void report_remarks(const struct reading *reading, const struct written *written,
                           const struct capability_remarks *remarks)
{
    for (size_t i = 0; i < remarks->count; i++) {
        const struct capability_remark *remark = &remarks->items[i];
        assert(written->nodes != NULL && remark->index < written->count);
        const struct kg_node *node = written->nodes[remark->index];
        kg_problems_add(reading->problems,
                        &manifest_rows[remark->is_error ? MANIFEST_CAPABILITY_INVALID
                                                        : MANIFEST_CAPABILITY_REDUNDANT],
                        node->line, node->column, remark->hint, "%s", remark->text);
    }
}

static void take_capabilities(const struct reading *reading)
{
    struct manifest *manifest = reading->manifest;
    const struct kg_node *capabilities = list(reading, "capabilities");
    struct written written = {.texts = kg_list_new(0)};
    kg_auto(capability_remarks_free) struct capability_remarks remarks = {0};
    for (size_t i = 0; i < manifest_rules_count_of(capabilities) && !written_is_full(&written); i++)
        written_take(&written, &capabilities->items[i]);
    if (written_is_full(&written))
        problems_at(reading->problems, OUT_OF_RANGE, capabilities, NULL,
                    "there are more than %d capabilities", CAPABILITY_COUNT_MAX);
    (void)capability_set_parse(written.texts, &manifest->capability_set, &remarks, NULL);
    report_remarks(reading, &written, &remarks);
    manifest->capabilities = kg_list_new(manifest->capability_set.count);
    for (size_t i = 0; i < manifest->capability_set.count; i++) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        capability_print(&manifest->capability_set.items[i], &text);
        manifest->capabilities[i] = kg_str_dup(kg_buf_view(&text));
    }
    kg_list_free(written.texts);
    free(written.nodes);
}

/* -- hooks and roles --------------------------------------------------------------------------- */

static void manifest_rules_take_hooks(const struct reading *reading)
{
    const struct kg_node *hooks = list(reading, "hooks");
    for (size_t i = 0; i < MANIFEST_HOOK_COUNT; i++)
        reading->manifest->hooks[i] = kg_node_has_text(hooks, kg_str(manifest_hook_names[i]));
}

static unsigned role_bit(const struct kg_node *role)
{
    return role->type == KG_STRING && kg_str_is(role->text, "compactor") ? MANIFEST_COMPACTOR
                                                                         : MANIFEST_OBSERVER;
}

static void take_roles(const struct reading *reading)
{
    struct manifest *manifest = reading->manifest;
    const struct kg_node *role = text(reading, "role"), *roles = list(reading, "roles");
    const struct kg_node *place = roles ? roles : role;
    if (role != NULL && roles != NULL)
        problems_at(reading->problems, ROLE_TWICE, role, "keep roles",
                    "both role and roles are given");
    if (role != NULL)
        manifest->roles |= role_bit(role);
    for (size_t i = 0; i < manifest_rules_count_of(roles); i++)
        manifest->roles |= role_bit(&roles->items[i]);
    if (place == NULL && manifest_rules_count_of(list(reading, "hooks")) > 0)
        manifest->roles = MANIFEST_OBSERVER;
    if ((manifest->roles & MANIFEST_COMPACTOR) && !manifest->hooks[MANIFEST_PRE_COMPACT])
        problems_at(reading->problems, ROLE_WITHOUT_HOOK, place, "add pre_compact to hooks",
                    "a compactor must subscribe to the hook pre_compact");
}

/* -- methods, notifications, tools ------------------------------------------------------------- */

static bool manifest_rules_is_reserved(struct kg_str name)
{
    static const char *const names[] = {"config.update", "projects.activated",
                                        "projects.deactivated"};
    for (size_t i = 0; i < KG_COUNT(names); i++)
        if (kg_str_is(name, names[i]))
            return true;
    return kg_str_starts(name, "kaged.") || kg_str_starts(name, "system.");
}

static void check_reserved(const struct reading *reading, const char *key)
{
    const struct kg_node *names = list(reading, key);
    for (size_t i = 0; i < manifest_rules_count_of(names); i++)
        if (names->items[i].type == KG_STRING && manifest_rules_is_reserved(names->items[i].text))
            problems_at(reading->problems, METHOD_RESERVED, &names->items[i],
                        "kaged., system. and the system's own methods are reserved",
                        "%s: \"%.*s\" is reserved for kaged", key,
                        KG_STR_CUT(names->items[i].text, KG_CUT_WORD));
}

/* What a caller may ask of any MCP server; whether this one answers, it says itself. */
static char **mcp_methods(void)
{
    static const char *const methods[] = {
        "resources/list",      "resources/templates/list", "resources/read",
        "resources/subscribe", "resources/unsubscribe",    "prompts/list",
        "prompts/get",         "completion/complete",      "logging/setLevel",
    };
    char **names = kg_list_new(KG_COUNT(methods));
    for (size_t i = 0; i < KG_COUNT(methods); i++)
        names[i] = kg_strdup(methods[i]);
    return names;
}

static void take_protocol(const struct reading *reading)
{
    static const char *const others[] = {"methods", "hooks",   "tools",        "role",
                                         "roles",   "schemas", "notifications"};
    const struct kg_node *protocol = text(reading, "protocol");
    reading->manifest->is_mcp = protocol != NULL && kg_str_is(protocol->text, "mcp");
    reading->manifest->tier = reading->manifest->is_mcp ? MANIFEST_MCP : MANIFEST_CAGED;
    for (size_t i = 0; reading->manifest->is_mcp && i < KG_COUNT(others); i++) {
        const struct kg_node *node = kg_node_get(reading->root, others[i]);
        if (node != NULL)
            problems_at(reading->problems, NOT_OF_MCP, node, "leave it out",
                        "an MCP server cannot declare %s", others[i]);
    }
}

static void take_methods(const struct reading *reading)
{
    struct manifest *manifest = reading->manifest;
    check_reserved(reading, "methods");
    check_reserved(reading, "notifications");
    manifest->method_names = manifest->is_mcp ? mcp_methods() : texts_of(list(reading, "methods"));
    manifest->notifications = texts_of(list(reading, "notifications"));
    manifest->method_count = kg_list_count(manifest->method_names);
    manifest->methods = kg_alloc_array(manifest->method_count + 1, sizeof(*manifest->methods));
    for (size_t i = 0; i < manifest->method_count; i++)
        manifest->methods[i].name = manifest->method_names[i];
}

static struct manifest_method *method_named(const struct reading *reading, struct kg_str name)
{
    struct manifest *manifest = reading->manifest;
    for (size_t i = 0; i < manifest->method_count; i++)
        if (kg_str_is(name, manifest->methods[i].name))
            return &manifest->methods[i];
    return NULL;
}

static void report_unnamed(const struct reading *reading, const char *map,
                           const struct kg_member *member, const char *what, const char *nearest)
{
    char hint[200];
    if (nearest != NULL)
        snprintf(hint, sizeof(hint), "did you mean %s?", nearest);
    else
        snprintf(hint, sizeof(hint), "declare it in %s", what);
    kg_problems_add(reading->problems, &manifest_rows[MANIFEST_METHOD_UNKNOWN], member->key_line,
                    member->key_column, hint, "%s: \"%.*s\" is not one of the %s", map,
                    KG_STR_CUT(member->key, KG_CUT_WORD), what);
}

static void take_schemas(const struct reading *reading)
{
    const struct kg_node *schemas = manifest_rules_map(reading, "schemas");
    for (size_t i = 0; i < manifest_rules_count_of(schemas); i++) {
        const struct kg_member *member = &schemas->members[i];
        struct manifest_method *method = method_named(reading, member->key);
        if (method == NULL) {
            report_unnamed(reading, "schemas", member, "methods",
                           kg_str_nearest(member->key,
                                          (const char *const *)reading->manifest->method_names,
                                          reading->manifest->method_count));
            continue;
        }
        char what[200];
        snprintf(what, sizeof(what), "schemas.%s.params", method->name);
        method->params =
            manifest_rules_compile(reading, kg_node_get(&member->value, "params"), what);
        snprintf(what, sizeof(what), "schemas.%s.result", method->name);
        method->result =
            manifest_rules_compile(reading, kg_node_get(&member->value, "result"), what);
    }
}

static void check_tool_is_new(const struct reading *reading, const struct kg_node *name)
{
    for (size_t i = 0; i < reading->manifest->tool_count; i++)
        if (kg_str_is(name->text, reading->manifest->tools[i].name)) {
            problems_at(reading->problems, TOOL_TWICE, name, NULL,
                        "the tool \"%.*s\" is declared twice", KG_STR_CUT(name->text, KG_CUT_NAME));
            return;
        }
}

static void manifest_rules_take_tool(const struct reading *reading, const struct kg_node *node)
{
    const struct kg_node *name = kg_node_typed(node, "name", KG_STRING);
    const struct kg_node *description = kg_node_typed(node, "description", KG_STRING);
    if (name == NULL || description == NULL)
        return;
    check_tool_is_new(reading, name);
    struct manifest_tool *tool = &reading->manifest->tools[reading->manifest->tool_count++];
    tool->name = manifest_rules_keep(reading, name->text);
    tool->description = manifest_rules_keep(reading, description->text);
    tool->node = node;
    tool->parameters_node = kg_node_get(node, "parameters_schema");
    char what[128];
    snprintf(what, sizeof(what), "the parameters_schema of %s", tool->name);
    tool->parameters = manifest_rules_compile(reading, tool->parameters_node, what);
}

/* Names of tools have the plugin's before theirs, and there two letters are the least. */
static void check_tool_prefix(const struct reading *reading)
{
    const struct kg_node *name = text(reading, "name");
    if (name != NULL && name->text.length == 1)
        problems_at(reading->problems, TOOL_NAME, name, "give it two letters or more",
                    "the name \"%.*s\" is too short as a prefix for names of tools",
                    KG_STR_ARG(name->text));
}

static void manifest_rules_take_tools(const struct reading *reading)
{
    const struct kg_node *tools = list(reading, "tools");
    if (manifest_rules_count_of(tools) > 0)
        check_tool_prefix(reading);
    reading->manifest->tools =
        kg_alloc_array(manifest_rules_count_of(tools) + 1, sizeof(*reading->manifest->tools));
    for (size_t i = 0; i < manifest_rules_count_of(tools); i++)
        manifest_rules_take_tool(reading, &tools->items[i]);
}

/* Tools go by their own name, or with the plugin's before it, as they are called. */
static struct manifest_tool *tool_named(const struct reading *reading, struct kg_str name)
{
    struct manifest *manifest = reading->manifest;
    size_t prefix = manifest->name ? strlen(manifest->name) + 1 : 0;
    if (prefix > 0 && name.length > prefix && kg_str_starts(name, manifest->name) &&
        name.data[prefix - 1] == '.')
        name = (struct kg_str){name.data + prefix, name.length - prefix};
    for (size_t i = 0; i < manifest->tool_count; i++)
        if (kg_str_is(name, manifest->tools[i].name))
            return &manifest->tools[i];
    return NULL;
}

static void report_untimed(const struct reading *reading, const struct kg_member *member)
{
    const struct manifest *manifest = reading->manifest;
    size_t count = manifest->method_count;
    const char **names = kg_alloc_array(count + manifest->tool_count + 1, sizeof(*names));
    for (size_t i = 0; i < count; i++)
        names[i] = manifest->methods[i].name;
    for (size_t i = 0; i < manifest->tool_count; i++)
        names[count++] = manifest->tools[i].name;
    report_unnamed(reading, "timeouts", member, "methods or tools",
                   kg_str_nearest(member->key, names, count));
    free(names);
}

/* A plugin may list its tools among its methods, too: then both have it. */
static void take_timeouts(const struct reading *reading)
{
    const struct kg_node *timeouts = manifest_rules_map(reading, "timeouts");
    for (size_t i = 0; i < manifest_rules_count_of(timeouts); i++) {
        const struct kg_member *member = &timeouts->members[i];
        uint64_t timeout_ms = (uint64_t)int_value(&member->value) * 1000;
        struct manifest_method *method = method_named(reading, member->key);
        struct manifest_tool *tool = tool_named(reading, member->key);
        if (method != NULL)
            method->timeout_ms = timeout_ms;
        if (tool != NULL)
            tool->timeout_ms = timeout_ms;
        if (method == NULL && tool == NULL && !reading->manifest->is_mcp)
            report_untimed(reading, member);
    }
}

static void check_offers(const struct reading *reading)
{
    static const char *const offers[] = {"methods", "hooks", "tools", "notifications"};
    for (size_t i = 0; i < KG_COUNT(offers); i++)
        if (manifest_rules_count_of(kg_node_typed(reading->root, offers[i], KG_ARRAY)) > 0)
            return;
    if (reading->manifest->is_mcp)
        return;
    problems_at(reading->problems, NOTHING_OFFERED, reading->root,
                "declare methods, hooks, tools or notifications", "the plugin offers nothing");
}

/* -- its processes ----------------------------------------------------------------------------- */

const char *const manifest_process_names[] = {"shared", "project", "session", NULL};

static bool has_any(const struct reading *reading, const char *key)
{
    return manifest_rules_count_of(kg_node_typed(reading->root, key, KG_ARRAY)) > 0;
}

/* The first capability that reaches into a project; NULL: none does. */
static const struct capability *of_project(const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->capability_set.count; i++)
        if (kg_str_starts(kg_str(manifest->capability_set.items[i].path), "project:/"))
            return &manifest->capability_set.items[i];
    return NULL;
}

static void manifest_rules_take_process(const struct reading *reading)
{
    struct manifest *manifest = reading->manifest;
    const struct kg_node *said = text(reading, "process");
    const struct capability *reaches = of_project(manifest);
    bool offers = has_any(reading, "hooks") || has_any(reading, "tools");
    bool is_projects = (offers && !manifest->is_mcp) || reaches != NULL;
    manifest->process = is_projects ? MANIFEST_PROJECT : MANIFEST_SHARED;
    for (size_t i = 0; said != NULL && i < MANIFEST_PROCESS_COUNT; i++)
        if (kg_str_is(said->text, manifest_process_names[i]))
            manifest->process = (enum manifest_process)i;
    if (said == NULL || manifest->process != MANIFEST_SHARED || reaches == NULL)
        return;
    problems_at(reading->problems, PROCESS_SHARED, said, "leave it out, or write project",
                "one process for all projects cannot have %s: each has its own", reaches->path);
    manifest->process = MANIFEST_PROJECT;
}

/* A plugin that is asked for its tools alone has nothing to do before: they are known from here, or
 * from the operator's approval. */
static void take_start(const struct reading *reading)
{
    const struct kg_node *said = text(reading, "start");
    bool is_mcp = reading->manifest->is_mcp;
    bool tools_alone = has_any(reading, "tools") && !is_mcp && !has_any(reading, "methods") &&
                       !has_any(reading, "hooks") && !has_any(reading, "roles") &&
                       text(reading, "role") == NULL && !has_any(reading, "notifications");
    reading->manifest->first_use =
        said ? kg_str_is(said->text, "first-use") : tools_alone || is_mcp;
}

/* -- configuration ----------------------------------------------------------------------------- */

static void take_config_schemas(const struct reading *reading)
{
    struct manifest *manifest = reading->manifest;
    manifest->config_schema_node = manifest_rules_map(reading, "config_schema");
    manifest->system_config_schema_node = manifest_rules_map(reading, "system_config_schema");
    manifest->config_schema =
        manifest_rules_compile(reading, manifest->config_schema_node, "config_schema");
    manifest->system_config_schema = manifest_rules_compile(
        reading, manifest->system_config_schema_node, "system_config_schema");
}

static const struct kg_node *manifest_rules_properties_of(const struct reading *reading,
                                                          const char *schema)
{
    return kg_node_typed(manifest_rules_map(reading, schema), "properties", KG_OBJECT);
}

static void check_config_fields(const struct reading *reading)
{
    static const char *const reserved[] = {"installed", "local",   "config",
                                           "hash",      "process", "system_config"};
    const struct kg_node *project = manifest_rules_properties_of(reading, "config_schema");
    const struct kg_node *system = manifest_rules_properties_of(reading, "system_config_schema");
    for (size_t i = 0; i < manifest_rules_count_of(system); i++) {
        const struct kg_member *member = &system->members[i];
        if (kg_node_member(project, member->key) != NULL)
            kg_problems_add(reading->problems, &manifest_rows[MANIFEST_CONFIG_OVERLAP],
                            member->key_line, member->key_column, "keep it in one of them",
                            "the field \"%.*s\" is in both config_schema and system_config_schema",
                            KG_STR_CUT(member->key, KG_CUT_NAME));
        for (size_t k = 0; k < KG_COUNT(reserved); k++)
            if (kg_str_is(member->key, reserved[k]))
                kg_problems_add(reading->problems, &manifest_rows[MANIFEST_CONFIG_RESERVED],
                                member->key_line, member->key_column, "choose another name",
                                "system_config_schema: \"%s\" is a key of local.toml itself",
                                reserved[k]);
    }
}

/* -- knobs ------------------------------------------------------------------------------------- */

/* What a knob of a type writes, in the words of a schema's "type". */
static const struct {
    const char *knob, *schema, *schema_too;
} knob_types[] = {
    {"range", "number", "integer"},  {"int_range", "integer", "number"},
    {"enum", "string", NULL},        {"boolean", "boolean", NULL},
    {"text", "string", NULL},        {"multiline", "string", NULL},
    {"model_alias", "string", NULL}, {"path", "string", NULL},
};

static bool schema_type_fits(const struct kg_node *field, const char *type)
{
    const struct kg_node *declared_type = kg_node_get(field, "type");
    if (type == NULL || declared_type == NULL)
        return type != NULL && kg_node_get(field, "enum") != NULL && declared_type == NULL;
    if (declared_type->type == KG_STRING)
        return kg_str_is(declared_type->text, type);
    return kg_node_has_text(declared_type, kg_str(type));
}

static bool manifest_rules_same_texts(const struct kg_node *a, const struct kg_node *b)
{
    if (manifest_rules_count_of(a) != manifest_rules_count_of(b))
        return false;
    for (size_t i = 0; i < manifest_rules_count_of(a); i++)
        if (a->items[i].type != KG_STRING || !kg_node_has_text(b, a->items[i].text))
            return false;
    return true;
}

static void check_knob_type(const struct reading *reading, const struct manifest_knob *knob,
                            const struct kg_node *field)
{
    const struct kg_node *values =
        bounded(kg_node_typed(knob->node, "values", KG_ARRAY), KNOB_VALUES_MAX);
    const struct kg_node *allowed = kg_node_typed(field, "enum", KG_ARRAY);
    bool fits = true; /* as far as this rule goes, for a type that the schema refused */
    for (size_t i = 0; i < KG_COUNT(knob_types); i++)
        if (strcmp(knob->type, knob_types[i].knob) == 0)
            fits = schema_type_fits(field, knob_types[i].schema) ||
                   schema_type_fits(field, knob_types[i].schema_too);
    if (!fits)
        problems_at(reading->problems, KNOB_TYPE, knob->node, NULL,
                    "the knob \"%s\" is of the type %s, which config_schema does not allow for "
                    "\"%s\"",
                    knob->name, knob->type, knob->field);
    else if (values != NULL && (allowed == NULL || !manifest_rules_same_texts(values, allowed)))
        problems_at(reading->problems, KNOB_TYPE, values, "give both the same values",
                    "the values of the knob \"%s\" are not those of the enum of \"%s\"", knob->name,
                    knob->field);
}

static const char *range_problem(const struct kg_node *knob, const struct kg_node *fallback)
{
    const struct kg_node *min = kg_node_typed(knob, "min", KG_NUMBER),
                         *max = kg_node_typed(knob, "max", KG_NUMBER);
    if (min == NULL || max == NULL || fallback->type != KG_NUMBER)
        return NULL;
    if (manifest_rules_number_of(min) > manifest_rules_number_of(max))
        return "min is larger than max";
    return manifest_rules_number_of(fallback) < manifest_rules_number_of(min) ||
                   manifest_rules_number_of(fallback) > manifest_rules_number_of(max)
               ? "the default is not between min and max"
               : NULL;
}

static size_t manifest_rules_characters(struct kg_str text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.length; i++)
        count += ((unsigned char)text.data[i] & 0xC0) != 0x80;
    return count;
}

/* NULL if the default is within the knob's own bounds, else what is wrong with it. */
static const char *default_problem(const struct manifest_knob *knob)
{
    const struct kg_node *fallback = kg_node_get(knob->node, "default");
    const struct kg_node *max_length = kg_node_typed(knob->node, "max_length", KG_NUMBER);
    const struct kg_node *values = kg_node_typed(knob->node, "values", KG_ARRAY);
    if (fallback == NULL)
        return NULL;
    if (strcmp(knob->type, "range") == 0 || strcmp(knob->type, "int_range") == 0)
        return range_problem(knob->node, fallback);
    if (fallback->type != KG_STRING)
        return NULL;
    if (strcmp(knob->type, "enum") == 0 && values != NULL &&
        !kg_node_has_text(values, fallback->text))
        return "the default is not one of the values";
    if (manifest_knob_is_path(knob) && !manifest_knob_allows(knob, fallback->text))
        return "the default has none of the prefixes";
    if (max_length != NULL &&
        (double)manifest_rules_characters(fallback->text) > manifest_rules_number_of(max_length))
        return "the default is longer than max_length";
    return NULL;
}

/* The field that binds_to names, or NULL with a problem. */
static const struct kg_node *bound_field(const struct reading *reading, struct manifest_knob *knob)
{
    const struct kg_node *binds = kg_node_typed(knob->node, "binds_to", KG_STRING);
    if (binds == NULL)
        return NULL;
    const struct kg_node *project = manifest_rules_properties_of(reading, "config_schema");
    const struct kg_node *system = manifest_rules_properties_of(reading, "system_config_schema");
    struct kg_str path = binds->text;
    bool config = kg_str_starts(path, "config.");
    struct kg_str field = config ? (struct kg_str){path.data + 7, path.length - 7} : KG_STR_NULL;
    const struct kg_member *found = config ? kg_node_member(project, field) : NULL;
    if (found != NULL) {
        knob->field = manifest_rules_keep(reading, field);
        return &found->value;
    }
    if (kg_str_starts(path, "system_config.") ||
        (config && kg_node_member(system, field) != NULL)) {
        problems_at(reading->problems, KNOB_SYSTEM, binds, "bind it to a field of config_schema",
                    "the knob \"%s\" is bound to \"%.*s\", which is the operator's secret",
                    knob->name, KG_STR_CUT(path, KG_CUT_WORD));
        return NULL;
    }
    problems_at(reading->problems, KNOB_UNBOUND, binds, "write config.FIELD",
                "the knob \"%s\" is bound to \"%.*s\", which config_schema does not have",
                knob->name, KG_STR_CUT(path, KG_CUT_WORD));
    return NULL;
}

static void take_knob(const struct reading *reading, const struct kg_member *member)
{
    const struct kg_node *type = kg_node_typed(&member->value, "type", KG_STRING);
    if (type == NULL)
        return;
    struct manifest_knob *knob = &reading->manifest->knobs[reading->manifest->knob_count++];
    knob->name = manifest_rules_keep(reading, member->key);
    knob->node = &member->value;
    knob->type = manifest_rules_keep(reading, type->text);
    const struct kg_node *field = bound_field(reading, knob);
    if (field != NULL)
        check_knob_type(reading, knob, field);
    const char *wrong = default_problem(knob);
    if (wrong != NULL)
        problems_at(reading->problems, KNOB_DEFAULT, knob->node, NULL, "the knob \"%s\": %s",
                    knob->name, wrong);
}

static void take_knobs(const struct reading *reading)
{
    const struct kg_node *knobs = manifest_rules_map(reading, "knobs");
    reading->manifest->knobs =
        kg_alloc_array(manifest_rules_count_of(knobs) + 1, sizeof(*reading->manifest->knobs));
    for (size_t i = 0; i < manifest_rules_count_of(knobs); i++)
        take_knob(reading, &knobs->members[i]);
}

/* -- the table --------------------------------------------------------------------------------- */

static void (*const rules[])(const struct reading *reading) = {
    take_protocol,
    take_identity,
    manifest_rules_check_name,
    manifest_rules_check_package,
    manifest_rules_take_command,
    manifest_rules_take_env,
    take_capabilities,
    take_remote,
    manifest_rules_take_hooks,
    take_roles,
    take_methods,
    take_schemas,
    manifest_rules_take_tools,
    take_timeouts,
    check_offers,
    manifest_rules_take_process,
    take_start,
    take_config_schemas,
    check_config_fields,
    take_knobs,
};

void rules_apply(struct manifest *manifest, const struct kg_node *root,
                 struct kg_problems *problems)
{
    const struct reading reading = {manifest, root, problems};
    for (size_t i = 0; i < KG_COUNT(rules); i++)
        rules[i](&reading);
}
