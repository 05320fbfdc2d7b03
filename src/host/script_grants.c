/*
 * What config.toml grants a script is for one file: the one that was there when grant and file were
 * first seen together. That is recorded, logged and audited; another file of that name runs without
 * the grants until the operator approves it. Whether a process has a power is asked at each of its
 * requests: its grants, and the file that it was started with, count as they are then.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

/* -- what is recorded -------------------------------------------------------------------------- */

static void script_grants_remember(struct host *host, const char *script, const char *hash_or_null)
{
    free(kg_map_remove(host->script_hashes, kg_str(script)));
    if (hash_or_null != NULL)
        kg_map_set(host->script_hashes, kg_str(script), kg_strdup(hash_or_null));
}

static void on_grant(void *data, const struct state_script_grant *grant)
{
    script_grants_remember(data, grant->script, grant->hash);
}

int host_script_grants_open(struct host *host, struct kg_err *err)
{
    host->script_hashes = kg_map_new();
    return state_script_grants(state_keeper_state(host->keeper), on_grant, host, err);
}

void host_script_grants_free(struct host *host)
{
    struct kg_str script;
    void *hash;
    for (size_t at = 0;
         host->script_hashes && kg_map_next(host->script_hashes, &at, &script, &hash);)
        free(hash);
    kg_map_free(host->script_hashes);
}

static void script_grants_on_kept(void *data, const struct kg_err *err_or_null)
{
    (void)data;
    if (err_or_null != NULL)
        kg_log(KG_ERROR_LEVEL, "remember the files of scripts: %s", err_or_null->message);
}

static void script_grants_keep(struct host *host, const char *script, const char *hash_or_null)
{
    const struct state_script_grant row = {script, hash_or_null};
    script_grants_remember(host, script, hash_or_null);
    state_keep_script_grant(host->keeper, &row, script_grants_on_kept, NULL);
}

/* -- a script and its file --------------------------------------------------------------------- */

/* The operator's list; NULL: there is none, or nothing in it. */
static char *const *granted(const struct host *host, const char *script)
{
    const struct config_named *named =
        config_named_get(&host->config->plugins_capabilities, kg_str(script));
    return named != NULL && named->list[0] != NULL ? named->list : NULL;
}

static const char *recorded(const struct host_plugin *plugin)
{
    return kg_map_get(plugin->host->script_hashes, kg_str(plugin->name));
}

static void script_grants_put_words(char *const *grants, struct kg_buf *out)
{
    for (size_t i = 0; grants[i] != NULL; i++) {
        kg_buf_printf(out, "%s%s (", i > 0 ? "; " : "", grants[i]);
        config_grant_words(kg_str(grants[i]), out);
        kg_buf_char(out, ')');
    }
}

static void script_grants_record(struct host_plugin *plugin, char *const *grants,
                                 const char *operator_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0}, list = {0};
    script_grants_keep(plugin->host, plugin->name, plugin->script->hash);
    script_grants_put_words(grants, &words);
    kg_log_about(KG_WARN, plugin->name, "this file may now: %s", kg_buf_terminate(&words));
    struct kg_json_writer json = kg_json_writer(&list);
    kg_json_begin(&json, '[');
    for (; *grants != NULL; grants++)
        kg_json_text(&json, *grants);
    kg_json_end(&json, ']');
    audit_emit(plugin->host->audit, AUDIT_SCRIPT_GRANTED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_RAW(kg_buf_view(&list)), AUDIT_V_TEXT(plugin->script->hash),
               AUDIT_V_TEXT(operator_or_null));
}

static void note_changed(struct host_plugin *plugin)
{
    struct host_script *script = plugin->script;
    bool is_news = strcmp(script->refused_hash, script->hash) != 0;
    kg_fail(&script->notice, KG_E_NOT_APPROVED,
            "its file is not the one that its grants are for: it runs without them");
    kg_hint(&script->notice, "look at the file, then: kaged plugin approve %s", plugin->name);
    if (!is_news)
        return;
    kg_str_copy(kg_str(script->hash), script->refused_hash, sizeof(script->refused_hash));
    kg_log_about(KG_WARN, plugin->name, "%s; %s", script->notice.message, script->notice.hint);
    audit_emit(plugin->host->audit, AUDIT_SCRIPT_CHANGED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_TEXT(script->hash));
}

void host_script_grants_look(struct host_plugin *plugin)
{
    char *const *grants = granted(plugin->host, plugin->name);
    const char *hash = recorded(plugin);
    plugin->script->notice = (struct kg_err){.code = KG_OK};
    if (grants == NULL || plugin->script->hash[0] == '\0')
        return;
    if (hash == NULL)
        script_grants_record(plugin, grants, NULL);
    else if (strcmp(hash, plugin->script->hash) != 0)
        note_changed(plugin);
}

const struct kg_err *host_script_notice(struct host_named named)
{
    bool is_all = named.process == NULL || named.process->whom.kind == HOST_NOBODY;
    const struct host_process *at = is_all ? named.plugin->processes : named.process;
    for (; at != NULL; at = is_all ? at->next : NULL)
        if (at->load_problem.code != KG_OK)
            return &at->load_problem;
    return &named.plugin->script->notice;
}

/* The first that has a hash and no grant any more; owned, NULL: none. */
static char *find_ungranted(const struct host *host)
{
    struct kg_str script;
    void *hash;
    for (size_t at = 0; kg_map_next(host->script_hashes, &at, &script, &hash);) {
        kg_auto(kg_free) char *name = kg_str_dup(script);
        if (granted(host, name) == NULL)
            return kg_steal(&name);
    }
    return NULL;
}

void host_script_grants_tidy(struct host *host)
{
    const struct config_names *all = &host->config->plugins_capabilities;
    for (char *name; (name = find_ungranted(host)) != NULL; free(name))
        script_grants_keep(host, name, NULL);
    for (size_t i = 0; i < all->count; i++) {
        const struct host_plugin *plugin = host_plugin_find(host, kg_str(all->items[i].name));
        if (plugin == NULL || plugin->script == NULL)
            kg_log(KG_WARN,
                   "%s: plugins.capabilities.%s is for a script that does not exist: %s/%s.lua",
                   host->paths->config_file, all->items[i].name, host_scripts_dir(host->scripts),
                   all->items[i].name);
    }
}

/* -- a process --------------------------------------------------------------------------------- */

/* What the file as it is now may do. */
static char *const *grants_of_file(const struct host_plugin *plugin)
{
    const char *hash = recorded(plugin);
    return hash != NULL && strcmp(hash, plugin->script->hash) == 0
               ? granted(plugin->host, plugin->name)
               : NULL;
}

void host_script_note_settings(struct host_process *process)
{
    kg_str_copy(kg_str(process->plugin->script->hash), process->set_hash,
                sizeof(process->set_hash));
}

void host_script_note_start(struct host_process *process)
{
    kg_str_copy(kg_str(process->set_hash), process->started_hash, sizeof(process->started_hash));
}

uint32_t host_script_start(const struct host_process *process)
{
    bool stays = process->instance != NULL && instance_talk(process->instance) != NULL &&
                 strcmp(process->started_hash, process->set_hash) == 0;
    return stays ? instance_start_count(process->instance) : 0;
}

/* It may be about to be exchanged: what it was started with, and what it will be, must both fit. */
char *const *host_script_grants(const struct host_process *process)
{
    const char *hash = recorded(process->plugin);
    bool fits = hash != NULL && strcmp(hash, process->started_hash) == 0 &&
                strcmp(hash, process->set_hash) == 0;
    return fits ? granted(process->plugin->host, process->plugin->name) : NULL;
}

void host_script_put_powers(const struct host_plugin *plugin, struct kg_json_writer *json)
{
    char *const *grants = grants_of_file(plugin);
    kg_json_named_begin(json, "grants", '{');
    for (enum config_power power = 0; power < POWER_COUNT; power++)
        if (config_grants_have(grants, power))
            kg_json_named_bool(json, config_power_names[power], true);
    kg_json_end(json, '}');
}

/* Those whose words are said to the model, or by it. */
bool host_script_may_hear(const struct host_process *process, const char *event)
{
    static const char *const telling[] = {"transform_context", "before_provider_request",
                                          "compact_prepare", "before_agent_start",
                                          "message_update"};
    for (size_t i = 0; i < KG_COUNT(telling); i++)
        if (strcmp(telling[i], event) == 0)
            return config_grants_have(host_script_grants(process), POWER_CONTEXT);
    return true;
}

/* -- what the operator sees and says ----------------------------------------------------------- */

static int check_script(struct host_named named, struct kg_err *err)
{
    const struct host_plugin *plugin = named.plugin;
    if (plugin->script == NULL)
        return kg_fail(err, KG_E_NOT_APPLICABLE, "plugin %s is not a script", plugin->name);
    return plugin->script->hash[0] != '\0' ? 0
                                           : kg_fail(err, KG_E_NOT_APPLICABLE, "script %s: %s",
                                                     plugin->name, plugin->problem.message);
}

int host_script_write_grants(struct host_named named, struct kg_buf *ret_json, struct kg_err *err)
{
    const struct host_plugin *plugin = named.plugin;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct kg_json_writer json = kg_json_writer(ret_json);
    if (check_script(named, err) < 0)
        return -EINVAL;
    char *const *grants = granted(plugin->host, plugin->name);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", plugin->name);
    kg_json_named_text(&json, "file", plugin->script->path);
    kg_json_named_text(&json, "hash", plugin->script->hash);
    kg_json_named_text(&json, "approved_hash", recorded(plugin));
    kg_json_named_begin(&json, "grants", '[');
    for (; grants != NULL && *grants != NULL; grants++) {
        words.length = 0;
        config_grant_words(kg_str(*grants), &words);
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "capability", *grants);
        kg_json_named_str(&json, "words", kg_buf_view(&words));
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    return 0;
}

int host_script_approve(struct host_named named, struct kg_str hash, const char *operator_id,
                        struct kg_err *err)
{
    struct host_plugin *plugin = named.plugin;
    if (check_script(named, err) < 0)
        return -EINVAL;
    char *const *grants = granted(plugin->host, plugin->name);
    if (grants == NULL) {
        kg_fail(err, KG_E_NOT_APPLICABLE, "script %s is granted nothing", plugin->name);
        return kg_hint(err, "grant it something in [plugins.capabilities] of config.toml");
    }
    if (!kg_str_is(hash, plugin->script->hash)) {
        kg_fail(err, KG_E_CONFLICT, "the file of script %s has changed since then", plugin->name);
        return kg_hint(err, "look at it again: kaged plugin approve %s", plugin->name);
    }
    script_grants_record(plugin, grants, operator_id);
    plugin->script->notice = (struct kg_err){.code = KG_OK};
    host_plugin_refresh(plugin);
    return 0;
}
