/*
 * Scripts: files NAME.lua in one folder, each a plugin whose manifest is made here. Its source is
 * read once and told to each of its processes: what runs is what was read, and the cage sees no
 * file. A file that is not text of a bearable size, or not a file at all, is a plugin that cannot
 * be used, and says why.
 */
#include "host/internal.h"

#include "helper/helper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOURCE_MAX     ((size_t)1 << 20)
#define NAME_MAX_BYTES 64
#define SCRIPTS_MAX    256
#define TMP_BYTES      65536

struct host_scripts {
    char *dir;
    struct host_watch *watch;
};

void host_script_free(struct host_script *script)
{
    if (script == NULL)
        return;
    free(script->path);
    kg_buf_free(&script->source);
    free(script);
}

const char *host_scripts_dir(const struct host_scripts *scripts)
{
    return scripts->dir;
}

bool host_plugin_is_script(const struct host_plugin *plugin)
{
    return plugin->script != NULL;
}

bool host_process_is_script(const struct host_process *process)
{
    return process->tier->joins_sessions;
}

/* -- one file ---------------------------------------------------------------------------------- */

static bool is_script_name(struct kg_str name)
{
    for (size_t i = 0; i < name.length; i++)
        if (!kg_is_letter_or_digit(name.data[i]) && name.data[i] != '-' && name.data[i] != '_')
            return false;
    return name.length > 0 && name.length <= NAME_MAX_BYTES;
}

/* A FIFO, a link or a device is not waited for, and not followed. */
static int read_source(const char *path, struct kg_buf *ret_text, struct kg_err *err)
{
    struct stat there;
    kg_auto(kg_close) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return kg_fail_errno(err, errno, "read %s", path);
    if (fstat(fd, &there) < 0 || !S_ISREG(there.st_mode))
        return kg_fail(err, KG_E_INVALID_MANIFEST, "%s is not a file", path);
    int result = kg_read_fd(fd, path, SOURCE_MAX, ret_text, err);
    if (result == 0 && kg_utf8_valid(kg_buf_view(ret_text)) != ret_text->length)
        result = kg_fail(err, KG_E_INVALID_MANIFEST, "%s is not UTF-8", path);
    return result;
}

/* All that a manifest says of a script; its name may have what no other plugin's has. */
static const char manifest_text[] =
    "{\"name\":\"script\",\"version\":\"0.0.0\",\"kaged_api\":1,\"description\":\"A script.\","
    "\"command\":[\"kaged-lua\"],\"process\":\"session\",\"notifications\":[\"script.notice\"],"
    "\"capabilities\":[\"kaged:storage:read\",\"kaged:storage:write\",\"kaged:ask\"]}";

struct manifest *host_script_manifest(struct host_plugin *plugin, struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_buf_free) struct kg_buf source = {0};
    if (read_source(plugin->script->path, &source, err) < 0)
        return NULL;
    struct manifest *manifest = manifest_read(kg_str(manifest_text), &problems);
    if (manifest == NULL) {
        manifest_problems_fail(&problems, plugin->script->path, err);
        return NULL;
    }
    manifest->name = manifest->package = kg_arena_text(manifest->doc->arena, kg_str(plugin->name));
    manifest->tier = MANIFEST_SCRIPT;
    kg_buf_free(&plugin->script->source);
    plugin->script->source = source;
    store_hash_text(kg_buf_view(&source), plugin->script->hash);
    source = (struct kg_buf){0};
    host_script_grants_look(plugin);
    return manifest;
}

/* -- what a process is started with ------------------------------------------------------------ */

static void host_script_put_session(const struct host_whom *whom, struct kg_json_writer *json)
{
    kg_json_named_begin(json, "session", '{');
    kg_json_named_text(json, "id", whom->id);
    kg_json_named_text(json, "project", whom->project);
    kg_json_named_text(json, "cwd", whom->root);
    kg_json_end(json, '}');
}

void host_script_settings(struct host_process *process, const struct manifest *manifest,
                          struct kg_buf *ret_json)
{
    (void)manifest; /* which is the same for all */
    const struct host_plugin *plugin = process->plugin;
    const struct config_named *own =
        config_named_get(&plugin->host->config->plugins_config, kg_str(plugin->name));
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", plugin->name);
    kg_json_named_str(&json, "source", kg_buf_view(&plugin->script->source));
    kg_json_named_raw(&json, "config", own ? kg_str(own->list[0]) : KG_STR("{}"));
    host_script_put_session(&process->whom, &json);
    host_script_put_powers(plugin, &json);
    kg_json_end(&json, '}');
    host_script_note_settings(process);
}

/* A cage that has nothing: no file, no network, no program but the runner. */
struct cage_plan *host_script_plan(const struct host_cage_parts *parts, struct kg_err *err)
{
    const struct instance_limits limits = policy_limits(parts->config, parts->manifest->name);
    kg_auto(kg_free) char *program = helper_program("kaged-lua", err);
    if (program == NULL)
        return NULL;
    kg_auto(kg_free) char *line_bytes =
        kg_format("line_bytes=%lld", (long long)parts->config->limits_line_max_bytes);
    const char *const command[] = {program, line_bytes, NULL};
    const struct cage_policy policy = {
        .name = parts->manifest->name,
        .command = command,
        .processes_max = 4, /* a sanitizer has a thread of its own */
        .tmp_bytes = TMP_BYTES,
        .memory_bytes = limits.memory_bytes,
        .cpu_shares = limits.cpu_shares,
    };
    return helper_plan(program, policy, parts->facts, err);
}

/* -- what it registered ------------------------------------------------------------------------ */

void host_script_registered(struct host_process *process)
{
    struct kg_err err;
    kg_doc_free(process->registered);
    process->registered = kg_json_read(instance_tools(process->instance), &err);
    struct kg_str problem = kg_node_text(host_script_offers(process), "problem");
    process->load_problem = (struct kg_err){.code = KG_OK};
    if (problem.length > 0)
        kg_fail(&process->load_problem, KG_E_PLUGIN, "its file could not be run to its end: %.*s",
                KG_STR_CUT(problem, KG_CUT_CAUSE));
}

const struct kg_node *host_script_offers(const struct host_process *process)
{
    return process->registered ? process->registered->root : NULL;
}

bool host_script_hears(const struct host_process *process, const char *event)
{
    const struct kg_node *events = kg_node_list(host_script_offers(process), "events");
    return kg_node_has_text(events, kg_str(event)) && instance_talk(process->instance) != NULL &&
           host_script_may_hear(process, event);
}

struct host_plugin *host_script_after(const struct host *host, const struct host_plugin *script)
{
    bool found = script == NULL;
    for (size_t i = 0; i < host->plugin_count; i++) {
        if (found && host_plugin_is_script(host->plugins[i]) && !host->plugins[i]->leaving)
            return host->plugins[i];
        found |= host->plugins[i] == script;
    }
    return NULL;
}

bool host_script_is_enabled(const struct host_plugin *plugin)
{
    const struct host *host = plugin->host;
    char *const *only = host->config->scripts_enabled;
    return plugin->manifest != NULL && plugin->problem.code == KG_OK &&
           host_choice(host, plugin->name) != STATE_DISABLED &&
           (only[0] == NULL || kg_list_has(only, kg_str(plugin->name)));
}

/* -- the folder -------------------------------------------------------------------------------- */

static void host_script_own_refuse(struct host *host, const char *path, const char *why)
{
    kg_log(KG_ERROR_LEVEL, "script %s: %s", path, why);
    audit_emit(host->audit, AUDIT_PLUGIN_DISABLED, KG_STR_NULL, AUDIT_V_TEXT(kg_path_name(path)),
               AUDIT_V_TEXT(why), AUDIT_V_NULL);
}

static void add_script(struct host *host, const char *file)
{
    kg_auto(kg_free) char *path = kg_path_join(host->scripts->dir, file);
    struct kg_str name = kg_str_first(kg_str(file), strlen(file) - strlen(".lua"));
    kg_auto(kg_free) char *stem = kg_str_dup(name);
    if (!is_script_name(name)) {
        host_script_own_refuse(host, path, "its name must be 1 to 64 letters, digits, - and _");
        return;
    }
    struct host_plugin *plugin = host_plugin_find(host, name);
    if (plugin != NULL && plugin->script == NULL) {
        host_script_own_refuse(host, path, "a plugin already has that name");
        return;
    }
    if (plugin != NULL)
        return;
    plugin = host_plugin_add(host, stem);
    plugin->script = kg_alloc(sizeof(*plugin->script));
    plugin->script->path = kg_steal(&path);
    kg_replace(&plugin->dir, plugin->script->path);
    if (host_plugin_load(plugin) < 0)
        host_script_own_refuse(host, plugin->script->path, plugin->problem.message);
}

static int is_lua(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && kg_str_ends(kg_str(entry->d_name), ".lua");
}

static void host_script_find_new(struct host *host)
{
    struct dirent **files = NULL;
    int count = scandir(host->scripts->dir, &files, is_lua, alphasort);
    for (int i = 0; i < count; i++) {
        if (i < SCRIPTS_MAX)
            add_script(host, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    if (count > SCRIPTS_MAX)
        kg_log(KG_WARN, "%s: only the first %d scripts are read", host->scripts->dir, SCRIPTS_MAX);
}

/* One whose file is gone leaves with its processes. */
static void leave_gone(struct host *host)
{
    for (size_t i = 0; i < host->plugin_count; i++) {
        struct host_plugin *plugin = host->plugins[i];
        if (plugin->script == NULL || access(plugin->script->path, F_OK) == 0)
            continue;
        plugin->leaving = true;
        for (struct host_process *at = plugin->processes; at != NULL; at = at->next)
            host_process_raise(at, HOST_ON_LEFT);
        host_look_for_left(host);
    }
}

static void host_script_read_again(struct host_plugin *plugin)
{
    bool was_usable = plugin->problem.code == KG_OK;
    host_plugin_refresh(plugin);
    if (was_usable && plugin->problem.code != KG_OK)
        host_script_own_refuse(plugin->host, plugin->script->path, plugin->problem.message);
}

/* What changed is read again, and its processes start again, those in a turn when that is over. */
static void host_script_on_quiet(void *data)
{
    struct host *host = data;
    leave_gone(host);
    for (size_t i = 0; i < host->plugin_count; i++)
        if (host->plugins[i]->script != NULL && !host->plugins[i]->leaving)
            host_script_read_again(host->plugins[i]);
    host_script_find_new(host);
}

void host_process_in_turn(struct host_process *process, bool in_turn)
{
    process->in_turn = in_turn;
    if (!in_turn && process->plugin->manifest != NULL)
        host_process_refresh(process);
}

void host_find_scripts(struct host *host)
{
    static const struct host_watch_ops ops = {.on_quiet = host_script_on_quiet};
    struct kg_err err;
    if (host->scripts == NULL) {
        const char *dir = host->config->scripts_dir;
        host->scripts = kg_alloc(sizeof(*host->scripts));
        host->scripts->dir =
            dir[0] != '\0' ? kg_strdup(dir) : kg_path_join(host->paths->config_dir, "scripts");
        host->scripts->watch = host_watch_new(host->loop, &ops, host);
    }
    if (access(host->scripts->dir, F_OK) == 0) {
        host_watch_renew(host->scripts->watch);
        host_watch_add(host->scripts->watch, host->scripts->dir, NULL);
        if (host_watch_begin(host->scripts->watch, &err) > 0)
            kg_log(KG_WARN, "%s", err.message);
        host_script_on_quiet(host);
    }
    host_script_grants_tidy(host);
}

/* -- a new one --------------------------------------------------------------------------------- */

/* Whole or not at all, and never over another. */
static int write_script(const char *path, struct kg_str source, struct kg_err *err)
{
    kg_auto(kg_free) char *draft = kg_format("%s.new", path);
    kg_auto(kg_close) int fd =
        open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return kg_fail_errno(err, errno, "make %s", draft);
    int result = kg_write_all(fd, source.data, source.length);
    if (result == 0 && renameat2(AT_FDCWD, draft, AT_FDCWD, path, RENAME_NOREPLACE) < 0)
        result = -errno;
    if (result == 0)
        return 0;
    unlink(draft);
    if (result != -EEXIST)
        return kg_fail_errno(err, -result, "write %s", path);
    kg_fail(err, KG_E_CONFLICT, "there is already a script %s", path);
    return kg_hint(err, "give it another name, or change the file where it is");
}

char *host_script_add(struct host *host, struct kg_str name, struct kg_str source,
                      struct kg_err *err)
{
    if (!is_script_name(name)) {
        kg_fail(err, KG_E_INVALID_PARAMS, "\"%.*s\" is not the name of a script",
                KG_STR_CUT(name, NAME_MAX_BYTES));
        kg_hint(err, "1 to %d letters, digits, - and _", NAME_MAX_BYTES);
        return NULL;
    }
    const char *dir = host->scripts->dir;
    kg_auto(kg_free) char *path = kg_format("%s/%.*s.lua", dir, KG_STR_ARG(name));
    if (kg_make_dirs(dir, 0700, err) < 0 || write_script(path, source, err) < 0)
        return NULL;
    host_find_scripts(host);
    return kg_steal(&path);
}

void host_scripts_free(struct host *host)
{
    if (host->scripts == NULL)
        return;
    host_watch_free(host->scripts->watch);
    free(host->scripts->dir);
    free(kg_steal(&host->scripts));
}
