/*
 * What an org has set of the packages that it sees, and all that a process of one is to be told. A
 * value is kept by org and pid, so that a new version finds what fits it; which version is looked
 * at decides the schema. The keeper's thread opens and seals, and nothing unsealed outlives it but
 * in what catalog_package_prepare hands over.
 */
#include "catalog/grants.h"
#include "catalog/packages.h"

#include <stdlib.h>

/* -- shared by the operations ------------------------------------------------------------------ */

static void take_setting(void *data, const struct state_package_setting *setting)
{
    char **ret_value = data;
    free(*ret_value);
    *ret_value = kg_strdup(setting->value);
}

/* What the org has set; *ret_stored NULL: nothing. */
static int settings_of(struct state *state, const char *org, const char *pid, char **ret_stored,
                       struct kg_err *err)
{
    return state_package_settings(state, org, pid, take_setting, ret_stored, err);
}

int package_settings_dropped(struct state *state, const char *org, const char *pid,
                             const struct kg_node *schema, char ***ret_keys, struct kg_err *err)
{
    kg_auto(kg_free) char *stored = NULL;
    int result = settings_of(state, org, pid, &stored, err);
    if (result == 0)
        *ret_keys = settings_dropped(schema, stored);
    return result;
}

static char *scope_of(const char *org, const char *pid)
{
    return kg_format("%s %s", org, pid);
}

static struct state_package_query query_of(const char *org, const char *pid,
                                           const char *version_or_null)
{
    return (struct state_package_query){
        .org = org,
        .with_system = true,
        .pid = pid,
        .version = version_or_null,
        .latest_only = version_or_null == NULL,
        .enabled_only = true,
        .with_document = true,
    };
}

/* -- showing, changing ------------------------------------------------------------------------- */

struct settings_op {
    struct catalog_op op;
    char *pid, *version; /* owned; no version: the latest */
    struct kg_doc *sent; /* owned: what to set; NULL: it is shown alone */
    struct package_row row;
};

static void settings_op_clean(struct catalog_op *op)
{
    struct settings_op *asked = KG_CONTAINER(op, struct settings_op, op);
    free(asked->pid);
    free(asked->version);
    kg_doc_free(asked->sent);
    package_row_free(&asked->row);
}

static void package_settings_put_settings(const struct settings_op *asked,
                                          const struct kg_node *schema, const char *stored,
                                          struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    char **missing = settings_missing(schema, stored), **dropped = settings_dropped(schema, stored);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "org_id", asked->op.org);
    kg_json_named_text(&json, "pid", asked->pid);
    kg_json_named_text(&json, "version", asked->row.row.version);
    kg_json_key(&json, "settings");
    settings_put_form(&json, schema, stored);
    kg_json_named_list(&json, "missing", missing);
    kg_json_named_list(&json, "dropped", dropped);
    kg_json_end(&json, '}');
    kg_list_free(missing);
    kg_list_free(dropped);
}

static int settings_write(struct settings_op *asked, struct state *state,
                          const struct kg_node *schema, char **stored, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf next = {0};
    kg_auto(kg_free) char *scope = scope_of(asked->op.org, asked->pid);
    const struct settings_seal seal = {&asked->op.catalog->seal, scope};
    int result = settings_change(schema, *stored, asked->sent->root, &seal, &next, err);
    if (result < 0)
        return result;
    free(*stored);
    *stored = kg_str_dup(kg_buf_view(&next));
    return state_package_setting_set(
        state,
        &(struct state_package_setting){.org = asked->op.org, .pid = asked->pid, .value = *stored},
        err);
}

static int run_settings(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct settings_op *asked = KG_CONTAINER(task, struct settings_op, op.task);
    const struct state_package_query query = query_of(asked->op.org, asked->pid, asked->version);
    kg_auto(kg_free) char *stored = NULL;
    int result = package_find(state, &query, &asked->row, err);
    if (result == 0)
        result = settings_of(state, asked->op.org, asked->pid, &stored, err);
    kg_auto(kg_doc_cleanup) struct kg_doc *document =
        result == 0 ? kg_json_read(kg_str(asked->row.row.document), err) : NULL;
    if (document == NULL)
        return result < 0 ? result : -1;
    const struct kg_node *schema = kg_node_list(document->root, "settings_schema");
    if (asked->sent != NULL)
        result = settings_write(asked, state, schema, &stored, err);
    if (result == 0)
        package_settings_put_settings(asked, schema, stored, &asked->op.json);
    return result;
}

static void settings_written(struct catalog_op *op)
{
    const struct settings_op *asked = KG_CONTAINER(op, struct settings_op, op);
    kg_auto(kg_buf_free) struct kg_buf keys = {0};
    const struct kg_node *sent = asked->sent->root;
    for (uint32_t i = 0; i < sent->count; i++)
        kg_buf_printf(&keys, "%s%.*s", i > 0 ? " " : "", KG_STR_ARG(sent->members[i].key));
    audit_emit(host_audit(op->catalog->host), AUDIT_CATALOG_SETTINGS_CHANGED,
               kg_str(op->asker.request_id), AUDIT_V_TEXT(op->org), AUDIT_V_TEXT(asked->pid),
               AUDIT_V_STR(kg_buf_view(&keys)), AUDIT_V_TEXT(op->asker.operator_id));
    catalog_tell_changed(op->catalog, op->org, asked->pid);
}

static struct settings_op *settings_op_new(const struct catalog_request *request, struct kg_str pid,
                                           struct kg_str version)
{
    struct settings_op *asked = catalog_op_new(request, sizeof(*asked));
    asked->op.task.run = run_settings;
    asked->op.clean = settings_op_clean;
    asked->pid = kg_str_dup(pid);
    asked->version = version.data ? kg_str_dup(version) : NULL;
    return asked;
}

void catalog_package_settings(const struct catalog_request *request, struct kg_str pid,
                              struct kg_str version)
{
    if (catalog_request_org(request) != NULL)
        catalog_op_read(&settings_op_new(request, pid, version)->op);
}

void catalog_package_settings_change(const struct catalog_request *request, struct kg_str pid,
                                     struct kg_str version)
{
    if (catalog_request_org(request) == NULL)
        return;
    struct settings_op *asked = settings_op_new(request, pid, version);
    asked->sent = kg_doc_copy(kg_node_get(request->body, "settings"));
    asked->op.then = settings_written;
    catalog_op_write(&asked->op);
}

/* -- for who runs it --------------------------------------------------------------------------- */

struct preparing {
    struct state_task task;
    struct catalog *catalog;
    char *org, *pid, *version, *overrides, *scope; /* owned */
    struct package_row row;
    struct kg_buf settings; /* secret */
    char **missing;         /* owned, like the grants */
    char **grants;
    catalog_prepared_fn *on_prepared;
    void *data;
};

static int preparing_merge(struct preparing *preparing, struct state *state, struct kg_err *err)
{
    const struct secret_places *places = &preparing->catalog->seal;
    kg_auto(kg_free) char *stored = NULL;
    kg_auto(kg_free) char *scope = scope_of(preparing->org, preparing->pid);
    int result = settings_of(state, preparing->org, preparing->pid, &stored, err);
    kg_auto(kg_doc_cleanup) struct kg_doc *document =
        result == 0 ? kg_json_read(kg_str(preparing->row.row.document), err) : NULL;
    if (document == NULL)
        return result < 0 ? result : -1;
    const struct settings_layer layers[] = {
        {stored, {places, scope}},
        {preparing->overrides, {places, preparing->scope}},
    };
    return settings_merge(kg_node_list(document->root, "settings_schema"), layers, KG_COUNT(layers),
                          &preparing->settings, &preparing->missing, err);
}

static int run_prepare(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct preparing *preparing = KG_CONTAINER(task, struct preparing, task);
    const struct state_package_query query =
        query_of(preparing->org, preparing->pid, preparing->version);
    int result = package_find(state, &query, &preparing->row, err);
    if (result == 0)
        result = org_grants_read(state, preparing->org, preparing->pid, &preparing->grants, err);
    return result < 0 ? result : preparing_merge(preparing, state, err);
}

static void package_settings_on_prepared(struct state_task *task, const struct kg_err *err_or_null)
{
    struct preparing *preparing = KG_CONTAINER(task, struct preparing, task);
    char **reaches = org_grants_reaches(preparing->catalog, preparing->org, preparing->grants);
    const struct catalog_prepared prepared = {
        .package = package_of(&preparing->row),
        .settings = kg_buf_view(&preparing->settings),
        .missing = preparing->missing,
        .reaches = (const char *const *)reaches,
    };
    preparing->on_prepared(preparing->data, err_or_null ? NULL : &prepared, err_or_null);
    package_row_free(&preparing->row);
    secret_wipe(&preparing->settings);
    kg_list_free(preparing->missing);
    kg_list_free(preparing->grants);
    kg_list_free(reaches);
    free(preparing->org);
    free(preparing->pid);
    free(preparing->version);
    free(preparing->overrides);
    free(preparing->scope);
    free(preparing);
}

void catalog_package_prepare(struct catalog *catalog, const struct catalog_wanted *wanted,
                             catalog_prepared_fn *on_done, void *data)
{
    struct preparing *preparing = kg_alloc(sizeof(*preparing));
    *preparing = (struct preparing){
        .task = {.run = run_prepare, .done = package_settings_on_prepared},
        .catalog = catalog,
        .org = kg_strdup(wanted->org),
        .pid = kg_strdup(wanted->pid),
        .version = kg_strdup(wanted->version),
        .overrides = kg_strdup(wanted->overrides),
        .scope = kg_strdup(wanted->scope),
        .on_prepared = on_done,
        .data = data,
    };
    preparing->task.org = catalog_scope(preparing->org);
    state_keeper_read(catalog_keeper(catalog), &preparing->task);
}

/* -- a new key --------------------------------------------------------------------------------- */

struct resealing {
    const struct catalog *catalog;
    struct state *state;
    size_t count;
    struct state_package_setting *rows; /* owned, like their texts */
};

static void package_settings_take_row(void *data, const struct state_package_setting *setting)
{
    struct resealing *resealing = data;
    resealing->rows =
        kg_realloc(resealing->rows, (resealing->count + 1) * sizeof(*resealing->rows));
    resealing->rows[resealing->count++] = (struct state_package_setting){
        kg_strdup(setting->org), kg_strdup(setting->pid), kg_strdup(setting->value)};
}

static int package_settings_reseal_row(const struct resealing *resealing,
                                       const struct state_package_setting *row, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf next = {0};
    kg_auto(kg_free) char *scope = scope_of(row->org, row->pid);
    const struct settings_seal seal = {&resealing->catalog->seal, scope};
    int result = settings_reseal(row->value, &seal, &next, err);
    if (result < 0)
        return kg_wrap(err, result, "package %s of org %s", row->pid, row->org);
    return state_package_setting_set(
        resealing->state,
        &(struct state_package_setting){row->org, row->pid, kg_buf_terminate(&next)}, err);
}

int catalog_settings_reseal(const struct catalog *catalog, struct state *state, size_t *count,
                            struct kg_err *err)
{
    struct resealing resealing = {.catalog = catalog, .state = state};
    int result =
        state_package_settings(state, NULL, NULL, package_settings_take_row, &resealing, err);
    for (size_t i = 0; i < resealing.count; i++) {
        if (result == 0)
            result = package_settings_reseal_row(&resealing, &resealing.rows[i], err);
        free((char *)resealing.rows[i].org);
        free((char *)resealing.rows[i].pid);
        free((char *)resealing.rows[i].value);
    }
    free(resealing.rows);
    *count += resealing.count;
    return result;
}
