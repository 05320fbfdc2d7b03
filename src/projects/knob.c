/*
 * A knob is turned: the value is checked twice, by the knob's own bounds and as a part of the whole
 * configuration; then it is written into the project's file off the loop, and the project is read
 * again. Whatever fails before the file was written leaves everything as it was.
 */
#include "projects/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* -- whose knobs ------------------------------------------------------------------------------- */

void projects_knobs_free(struct projects_knobs *knobs)
{
    kg_doc_free(knobs->settings);
    *knobs = (struct projects_knobs){0};
}

static const struct project_use *use_of(const struct project_resolved_agent *agent,
                                        const char *plugin)
{
    for (size_t i = 0; i < agent->use_count; i++)
        if (agent->uses[i].plugin != NULL && strcmp(agent->uses[i].plugin->name, plugin) == 0)
            return &agent->uses[i];
    return NULL;
}

static int say_undeclared(const struct project_resolved *resolved, const char *id,
                          const char *agent_path, const char *plugin, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf others = {0};
    int result = kg_fail(err, KG_E_NOT_FOUND, "project %s: %s does not declare the plugin %s", id,
                         agent_path, plugin);
    for (size_t i = 0; i < project_resolved_count(resolved); i++) {
        const struct project_resolved_agent *agent = project_resolved_at(resolved, i);
        if (use_of(agent, plugin) != NULL)
            kg_buf_printf(&others, "%s%s", others.length > 0 ? ", " : "", agent->path);
    }
    if (others.length > 0)
        kg_hint(err, "it is declared by %" KG_S_PATH, kg_buf_terminate(&others));
    else
        kg_hint(err, "no agent of the project declares it");
    return result;
}

/* The agent, and what it makes of the plugin. */
static int knob_find_use(struct host *host, struct kg_str project, struct kg_str agent_path,
                         struct projects_knobs *knobs, struct kg_err *err)
{
    knobs->project = projects_find(host, project, err);
    if (knobs->project == NULL)
        return -ENOENT;
    const struct projects_facts facts = projects_facts(knobs->project);
    knobs->agent = project_agent_find(facts.resolved, agent_path, err);
    if (knobs->agent == NULL)
        return kg_wrap(err, -ENOENT, "project %s", facts.id);
    knobs->use = use_of(knobs->agent, knobs->plugin);
    if (knobs->use == NULL)
        return say_undeclared(facts.resolved, facts.id, knobs->agent->path, knobs->plugin, err);
    return 0;
}

int projects_knobs_find(struct host *host, struct kg_str plugin, struct kg_str project_or_none,
                        struct kg_str agent_path, struct projects_knobs *ret_knobs,
                        struct kg_err *err)
{
    struct host_named named;
    if (host_find(host, plugin, &named, err) < 0)
        return -ENOENT;
    const struct host_status status = host_status(named);
    if (status.manifest == NULL) {
        *err = *status.problem;
        return -EINVAL;
    }
    struct projects_knobs knobs = {
        .name = status.name, .plugin = status.plugin, .manifest = status.manifest};
    if (project_or_none.length == 0 && status.whom->kind != HOST_NOBODY)
        project_or_none = kg_str(status.whom->project);
    if (project_or_none.length == 0)
        knobs.settings = host_plugin_settings(host, knobs.manifest);
    else if (knob_find_use(host, project_or_none, agent_path, &knobs, err) < 0)
        return -ENOENT;
    *ret_knobs = knobs;
    return 0;
}

const struct manifest_knob *projects_knob_find(const struct projects_knobs *knobs,
                                               struct kg_str name, struct kg_err *err)
{
    const struct manifest *manifest = knobs->manifest;
    const char **names = kg_alloc_array(manifest->knob_count + 1, sizeof(*names));
    const struct manifest_knob *found = NULL;
    for (size_t i = 0; i < manifest->knob_count && found == NULL; i++) {
        names[i] = manifest->knobs[i].name;
        if (kg_str_is(name, names[i]))
            found = &manifest->knobs[i];
    }
    if (found == NULL) {
        const char *nearest = kg_str_nearest(name, names, manifest->knob_count);
        kg_fail(err, KG_E_NOT_FOUND, "plugin %s: it has no knob \"%.*s\"", knobs->name,
                KG_STR_CUT(name, KG_CUT_NAME));
        if (nearest != NULL)
            kg_hint(err, "did you mean %s?", nearest);
        else
            kg_hint(err, "kaged plugin knobs %s lists them", knobs->name);
    }
    free(names);
    return found;
}

/* -- the value that holds ---------------------------------------------------------------------- */

static const struct project_setting *setting_of(const struct project_use *use, const char *key)
{
    for (size_t i = 0; use != NULL && i < use->setting_count; i++)
        if (strcmp(use->settings[i].key, key) == 0)
            return &use->settings[i];
    return NULL;
}

/* Whether the agent's own declaration has it. */
static bool knob_is_own(const struct project_use *use, const char *key)
{
    const struct project_setting *setting = setting_of(use, key);
    return setting != NULL && setting->origin == PROJECT_ORIGIN_AGENT;
}

/* What the operator's defaults have for it, or NULL. */
static const struct kg_node *operators_value(const struct host *host,
                                             const struct manifest *manifest, const char *key)
{
    const struct local_plugin *table =
        local_plugin_find(host_local(host), kg_str(manifest->package));
    return table && table->config ? kg_node_get(table->config, key) : NULL;
}

static struct projects_knob_value value_alone(struct host *host, const struct projects_knobs *knobs,
                                              const struct manifest_knob *knob)
{
    const struct kg_node *value =
        knobs->settings ? kg_node_get(knobs->settings->root, knob->field) : NULL;
    bool operators = operators_value(host, knobs->manifest, knob->field) != NULL;
    return (struct projects_knob_value){
        .node = value,
        .origin = project_origin_names[operators ? PROJECT_ORIGIN_OPERATOR : PROJECT_ORIGIN_SCHEMA],
        .hidden = project_hides(knobs->manifest, knob->field),
    };
}

struct projects_knob_value projects_knob_value(struct host *host,
                                               const struct projects_knobs *knobs,
                                               const struct manifest_knob *knob)
{
    struct projects_knob_value value = {0};
    const struct project_setting *setting = setting_of(knobs->use, knob->field);
    if (knobs->use == NULL)
        value = value_alone(host, knobs, knob);
    else if (setting != NULL)
        value = (struct projects_knob_value){setting->value, project_origin_names[setting->origin],
                                             setting->sensitive};
    if (value.node == NULL)
        return (struct projects_knob_value){kg_node_get(knob->node, "default"), "knob", false};
    if (value.hidden)
        value.node = NULL;
    return value;
}

/* -- as a part of the whole -------------------------------------------------------------------- */

static const struct kg_node nothing = {.type = KG_OBJECT, .line = 1, .column = 1};

/*
 * What takes the place of the agent's own value when that is removed: the primary's, where the
 * plugin is shared, or the operator's. NULL: the schema's default, if it has one.
 */
static const struct kg_node *value_below(const struct host *host,
                                         const struct projects_knobs *knobs, const char *key)
{
    const struct project_resolved *resolved = projects_facts(knobs->project).resolved;
    const struct project_resolved_agent *primary = project_resolved_at(resolved, 0);
    bool inherits = knobs->use->isolation == PROJECT_ISOLATION_PROJECT && knobs->agent != primary;
    for (size_t i = 0; inherits && i < primary->use_count; i++) {
        const struct project_use *use = &primary->uses[i];
        if (strcmp(use->name, knobs->use->name) == 0 && knob_is_own(use, key))
            return setting_of(use, key)->value;
    }
    return operators_value(host, knobs->manifest, key);
}

/* Whether a JSON pointer leads to the field, or into it. */
static bool is_about(struct kg_str pointer, const char *field)
{
    kg_auto(kg_buf_free) struct kg_buf own = {0};
    kg_buf_char(&own, '/');
    for (; *field != '\0'; field++) {
        if (*field == '~' || *field == '/')
            kg_buf_text(&own, *field == '~' ? "~0" : "~1");
        else
            kg_buf_char(&own, *field);
    }
    return kg_str_starts(pointer, kg_buf_terminate(&own)) &&
           (pointer.length == own.length || pointer.data[own.length] == '/');
}

/* Behind ", not " the checker shows what it found. */
static struct kg_str knob_sayable(struct kg_str message, bool hidden)
{
    static const char found[] = ", not ";
    const char *at = memmem(message.data, message.length, found, sizeof(found) - 1);
    return hidden && at ? (struct kg_str){message.data, (size_t)(at - message.data)} : message;
}

static int say_unfit(const struct projects_knobs *knobs, const struct manifest_knob *knob,
                     const struct kg_node *value_or_null, const struct schema_error *error,
                     struct kg_err *err)
{
    bool hidden = project_hides(knobs->manifest, knob->field);
    bool own = is_about(error->instance_path, knob->field);
    kg_auto(kg_free) char *value =
        value_or_null ? projects_knob_shown(value_or_null, hidden) : kg_strdup("no value");
    struct kg_str message = knob_sayable(error->message, hidden || !own);
    return kg_fail(err, KG_E_INVALID_PARAMS,
                   "knob %s: %s does not fit the config_schema of %s: %.*s%s%.*s", knob->name,
                   value, knobs->plugin, own ? 0 : (int)error->instance_path.length,
                   error->instance_path.data, own ? "" : " ", KG_STR_CUT(message, KG_CUT_CAUSE));
}

/* What was wrong before, elsewhere in the configuration, is not this knob's to fix. */
static int check_config(const struct projects_knobs *knobs, const struct manifest_knob *knob,
                        const struct kg_node *value_or_null, const struct kg_node *config,
                        struct kg_err *err)
{
    const struct manifest *manifest = knobs->manifest;
    kg_auto(schema_report_free) struct schema_report found = {0};
    bool was_fine = knobs->use->state == PROJECT_READY;
    if (manifest->config_schema == NULL || schema_check(manifest->config_schema, config, &found))
        return 0;
    if (found.gave_up)
        return kg_fail(err, KG_E_INVALID_PARAMS,
                       "knob %s: checking it against the config_schema of %s took too long",
                       knob->name, knobs->plugin);
    for (size_t i = 0; i < found.count; i++)
        if (was_fine || is_about(found.errors[i].instance_path, knob->field))
            return say_unfit(knobs, knob, value_or_null, &found.errors[i], err);
    return 0;
}

/* The configuration as it would be, against the plugin's own schema. NULL: without the value. */
static int knob_check_whole(const struct projects_knobs *knobs, const struct manifest_knob *knob,
                            const struct kg_node *value_or_null, struct kg_err *err)
{
    const struct manifest *manifest = knobs->manifest;
    const struct kg_node *config = knobs->use->config ? knobs->use->config : &nothing;
    struct kg_member *members = kg_alloc_array(config->count + 1u, sizeof(*members));
    struct kg_node changed = {.type = KG_OBJECT, .line = 1, .column = 1, .members = members};
    for (uint32_t i = 0; i < config->count; i++)
        if (!kg_str_is(config->members[i].key, knob->field))
            members[changed.count++] = config->members[i];
    if (value_or_null != NULL)
        members[changed.count++] = (struct kg_member){kg_str(knob->field), 1, 1, *value_or_null};
    kg_auto(kg_doc_cleanup) struct kg_doc *whole =
        manifest->config_schema ? schema_with_defaults(manifest->config_schema, &changed) : NULL;
    int result = check_config(knobs, knob, value_or_null, whole ? whole->root : &changed, err);
    free(members);
    return result;
}

static int knob_own_check(struct host *host, const struct projects_knobs *knobs,
                          const struct manifest_knob *knob, const struct kg_node *value,
                          struct kg_err *err)
{
    if (value->type == KG_NULL)
        return knob_check_whole(knobs, knob, value_below(host, knobs, knob->field), err);
    const struct projects_knob_check bounds = {knob, value, host_local(host),
                                               project_hides(knobs->manifest, knob->field)};
    int result = projects_knob_check(&bounds, err);
    return result < 0 ? result : knob_check_whole(knobs, knob, value, err);
}

/* -- writing ----------------------------------------------------------------------------------- */

/* A write that is under way. All texts are owned. */
struct turning {
    struct loop_job job;
    struct host *host;
    struct project_location location;
    char *agent_path, *use, *field;   /* where it is written */
    char *plugin, *knob, *project_id; /* for whoever is told */
    char *operator_id, *request_id;   /* NULL: unknown */
    struct kg_doc *value;             /* its root is the value */
    struct kg_doc *before;            /* the same of what stood there; NULL: nothing did */
    struct kg_buf changes;            /* of the project by it, as JSON; empty: none */
    uint32_t refusals;                /* of its process until then */
    struct turning *next;             /* of those that wait for the plugin's word */
    struct loop_task look;
    char *path_root, *path; /* must exist: so below that folder; NULL: no path */
    bool is_there;          /* the file says it already */
    int result;
    struct kg_err err;
    projects_knob_fn *on_done;
    void *data;
};

static void turning_free(struct turning *turning)
{
    char **texts[] = {&turning->agent_path,  &turning->use,        &turning->field,
                      &turning->plugin,      &turning->knob,       &turning->project_id,
                      &turning->operator_id, &turning->request_id, &turning->path_root,
                      &turning->path};
    for (size_t i = 0; i < KG_COUNT(texts); i++)
        free(*texts[i]);
    project_location_free(&turning->location);
    kg_doc_free(turning->value);
    kg_doc_free(turning->before);
    kg_buf_free(&turning->changes);
    free(turning);
}

/*
 * A path of the project has to be there, since nobody makes it; one of the plugin's own is made
 * when it starts, unless its knob says that it must be there.
 */
static void knob_take_path(struct turning *turning, const struct projects_knobs *knobs,
                           const struct manifest_knob *knob, const struct kg_node *value)
{
    const struct kg_node *must = kg_node_get(knob->node, "must_exist");
    bool is_projects = kg_str_starts(value->text, "project:/");
    if (strcmp(knob->type, "path") != 0 || value->type != KG_STRING ||
        !(is_projects || (must != NULL && must->type == KG_BOOL && must->boolean)))
        return;
    const char *slash = memchr(value->text.data, '/', value->text.length);
    size_t skip = slash ? (size_t)(slash + 1 - value->text.data) : value->text.length;
    turning->path = kg_str_dup((struct kg_str){value->text.data + skip, value->text.length - skip});
    kg_auto(kg_free) char *home = project_home(knobs->project, knobs->plugin);
    turning->path_root = is_projects
                             ? kg_strdup(projects_facts(knobs->project).root)
                             : kg_format("%s/%s", host_paths(turning->host)->plugin_data_dir, home);
}

struct project_location project_file_location(const struct projects_facts *facts)
{
    size_t skip = strlen(facts->root);
    return (struct project_location){
        .root = kg_strdup(facts->root),
        .file = kg_strdup(facts->path + skip + (facts->path[skip] == '/')),
        .path = kg_strdup(facts->path),
    };
}

/* The cage follows no link either. */
static int check_path_exists(const struct turning *turning, struct kg_err *err)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    if (turning->path == NULL)
        return 0;
    kg_auto(kg_close) int root = open(turning->path_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    kg_auto(kg_close) int fd =
        root < 0 ? -1
                 : (int)syscall(SYS_openat2, root, turning->path[0] ? turning->path : ".", &how,
                                sizeof(how));
    if (fd >= 0)
        return 0;
    int result = kg_fail_errno(err, errno, "knob %s: look at %s/%s", turning->knob,
                               turning->path_root, turning->path);
    if (err != NULL)
        err->code = KG_E_INVALID_PARAMS;
    kg_hint(err, "it must be there, without a link in its path");
    return result;
}

void project_explain_refusal(const struct host *host, struct kg_err *err)
{
    if (err->errnum != EACCES && err->errnum != EPERM && err->errnum != EROFS)
        return;
    err->code = KG_E_REFUSED;
    kg_hint(err,
            "the daemon runs as %s, who must be able to write the project's file and its "
            "folder",
            host_user(host));
}

static void knob_run_write(struct loop_job *job)
{
    struct turning *turning = KG_CONTAINER(job, struct turning, job);
    const struct kg_node *value = turning->value->root;
    const char *keys[] = {turning->field};
    turning->result = check_path_exists(turning, &turning->err);
    if (turning->result < 0 || turning->is_there)
        return;
    turning->result =
        project_set_config(&turning->location, turning->agent_path, turning->use, keys, 1,
                           value->type == KG_NULL ? NULL : value, &turning->err);
    if (turning->result < 0)
        project_explain_refusal(turning->host, &turning->err);
}

static void knob_end(struct turning *turning, const struct kg_err *err_or_null)
{
    turning->on_done(turning->data, kg_buf_view(&turning->changes), err_or_null);
    turning_free(turning);
}

/* -- what the plugin says to it ---------------------------------------------------------------- */

/* Of the process that is told by config.update; NULL: there is none, or calls carry it. */
static const struct instance *knob_instance_of(const struct turning *turning)
{
    struct projects_entry *project =
        projects_find(turning->host, kg_str(turning->project_id), NULL);
    const struct project_server *server =
        project ? project_server_find(project, turning->plugin) : NULL;
    struct host_process *process = server ? project_server_process(project, server) : NULL;
    return process ? host_process_status(process).instance : NULL;
}

static void knob_on_put_back(void *data, const struct projects_loaded *loaded_or_null,
                             const struct kg_problems *problems_or_null,
                             const struct kg_err *err_or_null)
{
    struct turning *turning = data;
    (void)loaded_or_null;
    (void)problems_or_null;
    if (turning->result == 0)
        kg_hint(&turning->err, "%s is as it was", turning->location.path);
    if (err_or_null != NULL)
        kg_log(KG_ERROR_LEVEL, "put back knob %s: %s", turning->knob, err_or_null->message);
    knob_end(turning, &turning->err);
}

static void run_put_back(struct loop_job *job)
{
    struct turning *turning = KG_CONTAINER(job, struct turning, job);
    const char *keys[] = {turning->field};
    struct kg_err err;
    turning->result =
        project_set_config(&turning->location, turning->agent_path, turning->use, keys, 1,
                           turning->before ? turning->before->root : NULL, &err);
    if (turning->result < 0)
        kg_log(KG_ERROR_LEVEL, "put back knob %s: %s", turning->knob, err.message);
}

static void on_back(struct loop_job *job)
{
    struct turning *turning = KG_CONTAINER(job, struct turning, job);
    projects_reload(turning->host, kg_str(turning->project_id), turning->operator_id,
                    knob_on_put_back, turning);
    host_store_job_done(turning->host);
}

/* The file says what holds: what the plugin did not take is taken back. */
static void knob_put_back(struct turning *turning, struct kg_str words)
{
    kg_fail(&turning->err, KG_E_INVALID_CONFIG, "plugin %s refused the knob %s: %.*s",
            turning->plugin, turning->knob, KG_STR_CUT(words, KG_CUT_PATH));
    turning->job = (struct loop_job){.run = run_put_back, .done = on_back};
    host_store_job(turning->host, &turning->job);
}

static void knob_on_look(struct loop_task *task);

/* Ends, is put back, or waits for the plugin's word. */
static void knob_judge(struct turning *turning)
{
    struct projects *projects = host_projects(turning->host);
    const struct instance *instance = knob_instance_of(turning);
    bool counts = instance != NULL && !turning->is_there && !host_is_stopping(turning->host);
    if (counts && instance_is_configuring(instance)) {
        turning->look.run = knob_on_look;
        turning->next = projects->turnings;
        projects->turnings = turning;
    } else if (counts && instance_config_refusals(instance) > turning->refusals) {
        knob_put_back(turning, instance_config_refused(instance));
    } else {
        knob_end(turning, NULL);
    }
}

static void knob_on_look(struct loop_task *task)
{
    struct turning *turning = KG_CONTAINER(task, struct turning, look);
    KG_UNLINK(host_projects(turning->host)->turnings, turning);
    knob_judge(turning);
}

void project_knobs_look(struct projects *projects)
{
    for (struct turning *at = projects->turnings; at != NULL; at = at->next)
        loop_defer(host_loop(projects->host), &at->look);
}

void project_knobs_end(struct projects *projects)
{
    while (projects->turnings != NULL) {
        struct turning *turning = projects->turnings;
        projects->turnings = turning->next;
        loop_undefer(host_loop(projects->host), &turning->look);
        knob_end(turning, NULL);
    }
}

static void knob_on_reloaded(void *data, const struct projects_loaded *loaded_or_null,
                             const struct kg_problems *problems_or_null,
                             const struct kg_err *err_or_null)
{
    struct turning *turning = data;
    struct kg_json_writer json = kg_json_writer(&turning->changes);
    (void)problems_or_null;
    if (err_or_null != NULL) {
        knob_end(turning, err_or_null);
        return;
    }
    if (loaded_or_null->changes != NULL)
        project_changes_json(loaded_or_null->changes, &json);
    knob_judge(turning);
}

static void knob_on_written(struct loop_job *job)
{
    struct turning *turning = KG_CONTAINER(job, struct turning, job);
    struct host *host = turning->host;
    if (turning->result == 0 && !turning->is_there)
        audit_emit(host_audit(host), AUDIT_PLUGIN_KNOB_WRITE, kg_str(turning->request_id),
                   AUDIT_V_TEXT(turning->plugin), AUDIT_V_TEXT(turning->knob),
                   AUDIT_V_TEXT(turning->agent_path));
    const struct instance *instance = knob_instance_of(turning);
    turning->refusals = instance ? instance_config_refusals(instance) : 0;
    if (turning->result == 0)
        projects_reload(host, kg_str(turning->project_id), turning->operator_id, knob_on_reloaded,
                        turning);
    else
        knob_end(turning, &turning->err);
    host_store_job_done(host);
}

/* What the agent's own declaration says of it; NULL: nothing. */
static struct kg_doc *own_value(const struct project_use *use, const char *field)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    const struct kg_node *value =
        knob_is_own(use, field) && use->config ? kg_node_get(use->config, field) : NULL;
    if (value == NULL)
        return NULL;
    kg_json_node(&json, value);
    return kg_json_read(kg_buf_view(&text), NULL);
}

int project_check_file(const struct projects_facts *facts, struct kg_err *err)
{
    if (facts->path != NULL)
        return 0;
    kg_fail(err, KG_E_CONFLICT, "project %s has no file to set it in", facts->id);
    return kg_hint(err, "write %s/%s and load that, or set a default in local.toml", PROJECT_DIR,
                   PROJECT_FILE);
}

int projects_knob_write(struct host *host, const struct projects_knobs *knobs,
                        const struct manifest_knob *knob, const struct projects_knob_write *write,
                        struct kg_err *err)
{
    const struct projects_facts facts = projects_facts(knobs->project);
    int result = knob_own_check(host, knobs, knob, write->value, err);
    if (result == 0)
        result = project_check_file(&facts, err);
    if (result < 0)
        return kg_wrap(err, result, "plugin %s", knobs->plugin);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    struct turning *turning = kg_alloc(sizeof(*turning));
    kg_json_node(&json, write->value);
    turning->value = kg_json_read(kg_buf_view(&text), NULL);
    turning->before = own_value(knobs->use, knob->field);
    turning->job = (struct loop_job){.run = knob_run_write, .done = knob_on_written};
    turning->host = host;
    turning->location = project_file_location(&facts);
    turning->agent_path = kg_strdup(knobs->agent->path);
    turning->use = kg_strdup(knobs->use->name);
    turning->field = kg_strdup(knob->field);
    turning->plugin = kg_strdup(knobs->plugin);
    turning->knob = kg_strdup(knob->name);
    turning->project_id = kg_strdup(facts.id);
    turning->operator_id = kg_strdup(write->operator_id);
    turning->request_id = kg_strdup(write->request_id);
    turning->on_done = write->on_done;
    turning->data = write->data;
    turning->is_there = write->value->type == KG_NULL && !knob_is_own(knobs->use, knob->field);
    knob_take_path(turning, knobs, knob, write->value);
    host_store_job(host, &turning->job);
    return 0;
}
