/*
 * Orchestrators: what an org has made of its packages, its words and a model. Which there are is in
 * memory; what one is made of is read and changed in its row, on the keeper's thread, and counts
 * for what runs at the next load. One of another org does not exist, one that was deleted is gone.
 */
#include "catalog/orchestrators.h"

#include <stdlib.h>

/* -- those that there are ---------------------------------------------------------------------- */

static struct catalog_orchestrator *orchestrator_keep(struct catalog *catalog, const char *id,
                                                      const struct catalog_org *org)
{
    struct catalog_orchestrator *known = kg_map_get(catalog->orchestrators, kg_str(id));
    if (known != NULL)
        return known;
    known = kg_alloc(sizeof(*known));
    kg_str_copy(kg_str(id), known->id, sizeof(known->id));
    known->org = org;
    kg_map_set(catalog->orchestrators, kg_str(id), known);
    return known;
}

static void take_orchestrator(void *data, const struct state_orchestrator *stored)
{
    struct catalog *catalog = data;
    const struct catalog_org *org = kg_map_get(catalog->orgs, kg_str(stored->org));
    if (org == NULL)
        return;
    struct catalog_orchestrator *known = orchestrator_keep(catalog, stored->id, org);
    kg_replace(&known->name, stored->name);
    kg_replace(&known->mode, stored->mode);
    kg_replace(&known->tier, stored->tier);
    known->deleted = stored->deleted;
    known->changed_ms = stored->changed_ms;
}

void catalog_orchestrators_take(struct catalog *catalog, const struct catalog *fresh)
{
    void *each;
    for (size_t at = 0; kg_map_next(fresh->orchestrators, &at, &(struct kg_str){0}, &each);) {
        const struct catalog_orchestrator *new = each;
        struct catalog_orchestrator *known =
            orchestrator_keep(catalog, new->id, kg_map_get(catalog->orgs, kg_str(new->org->id)));
        if (known->changed_ms == new->changed_ms)
            continue;
        kg_replace(&known->name, new->name);
        kg_replace(&known->mode, new->mode);
        kg_replace(&known->tier, new->tier);
        known->deleted = new->deleted;
        known->changed_ms = new->changed_ms;
        known->revision++;
        pool_changed(catalog->pool, known);
    }
}

int catalog_orchestrators_load(struct catalog *catalog, struct state *state, struct kg_err *err)
{
    return state_orchestrators(state, NULL, NULL, take_orchestrator, catalog, err);
}

void catalog_orchestrators_free(struct catalog *catalog)
{
    void *each;
    for (size_t at = 0; kg_map_next(catalog->orchestrators, &at, &(struct kg_str){0}, &each);) {
        struct catalog_orchestrator *known = each;
        free(known->name);
        free(known->mode);
        free(known->tier);
        free(known);
    }
    kg_map_free(catalog->orchestrators);
}

size_t catalog_orchestrators_count(const struct catalog *catalog, const struct catalog_org *org)
{
    size_t count = 0;
    void *each;
    for (size_t at = 0; kg_map_next(catalog->orchestrators, &at, &(struct kg_str){0}, &each);) {
        const struct catalog_orchestrator *known = each;
        count += known->org == org && !known->deleted;
    }
    return count;
}

struct catalog_orchestrator *catalog_orchestrator_find(const struct catalog *catalog,
                                                       const struct catalog_org *org,
                                                       struct kg_str id_or_name, struct kg_err *err)
{
    struct catalog_orchestrator *found = kg_map_get(catalog->orchestrators, id_or_name);
    void *each;
    if (found != NULL && found->org == org && found->deleted) {
        kg_fail(err, KG_E_GONE, "the orchestrator %s was deleted", found->name);
        return NULL;
    }
    if (found != NULL && found->org == org)
        return found;
    for (size_t at = 0; kg_map_next(catalog->orchestrators, &at, &(struct kg_str){0}, &each);) {
        found = each;
        if (found->org == org && !found->deleted && kg_str_is(id_or_name, found->name))
            return found;
    }
    kg_fail(err, KG_E_NOT_FOUND, "there is no orchestrator \"%.*s\"", KG_STR_CUT(id_or_name, 64));
    kg_hint(err, "kaged orchestrator list --org %s shows those that there are", org->name);
    return NULL;
}

/* The one that a request names; NULL: there is none, and it was answered. */
static struct catalog_orchestrator *request_orchestrator(const struct catalog_request *request,
                                                         struct kg_str id_or_name)
{
    struct kg_err err = {0};
    const struct catalog_org *org = catalog_request_org(request);
    if (org == NULL)
        return NULL;
    struct catalog_orchestrator *found =
        catalog_orchestrator_find(request->catalog, org, id_or_name, &err);
    if (found == NULL)
        catalog_fail(request, &err);
    return found;
}

/* -- showing ----------------------------------------------------------------------------------- */

/* One that is shown, without what the pool knows of it; that is put in on the loop. */
struct shown_row {
    char id[CATALOG_ID_TEXT];
    struct kg_buf json;
};

struct orchestrators_op {
    struct catalog_op op;
    char id[CATALOG_ID_TEXT]; /* "": all of the org */
    struct shown_row *rows;   /* owned */
    size_t count;
    bool is_list;
    struct orchestrator_row row; /* of a change: as it is from then on */
    struct kg_doc *body;         /* owned; the same */
    int64_t quota;               /* of one that is made; -1: no bound */
    const char *act;             /* for the audit log; NULL: nothing is changed */
    int (*apply)(struct orchestrators_op *asked, struct state *state, struct kg_err *err);
};

static void orchestrators_op_clean(struct catalog_op *op)
{
    struct orchestrators_op *asked = KG_CONTAINER(op, struct orchestrators_op, op);
    for (size_t i = 0; i < asked->count; i++)
        kg_buf_free(&asked->rows[i].json);
    free(asked->rows);
    orchestrator_row_free(&asked->row);
    kg_doc_free(asked->body);
}

static int show_row(struct orchestrators_op *asked, struct state *state,
                    const struct orchestrator_row *row, struct kg_err *err)
{
    asked->rows = kg_realloc(asked->rows, (asked->count + 1) * sizeof(*asked->rows));
    struct shown_row *shown = &asked->rows[asked->count++];
    *shown = (struct shown_row){0};
    kg_str_copy(kg_str(row->id), shown->id, sizeof(shown->id));
    struct kg_json_writer json = kg_json_writer(&shown->json);
    return orchestrator_row_put(state, row, &json, err);
}

struct row_list {
    struct orchestrator_row *items; /* owned */
    size_t count;
};

static void take_listed_row(void *data, const struct state_orchestrator *stored)
{
    struct row_list *list = data;
    if (stored->deleted)
        return;
    list->items = kg_realloc(list->items, (list->count + 1) * sizeof(*list->items));
    orchestrator_row_take(stored, &list->items[list->count++]);
}

static int catalog_orchestrators_run_show(struct state_task *task, struct state *state,
                                          struct kg_err *err)
{
    struct orchestrators_op *asked = KG_CONTAINER(task, struct orchestrators_op, op.task);
    struct row_list list = {0};
    const char *id = asked->id[0] != '\0' ? asked->id : NULL;
    int result = state_orchestrators(state, asked->op.org, id, take_listed_row, &list, err);
    for (size_t i = 0; i < list.count; i++) {
        if (result == 0)
            result = show_row(asked, state, &list.items[i], err);
        orchestrator_row_free(&list.items[i]);
    }
    free(list.items);
    if (result == 0 && id != NULL && list.count == 0)
        return kg_fail(err, KG_E_NOT_FOUND, "there is no orchestrator %s", id);
    return result;
}

static void catalog_orchestrators_put_shown(struct orchestrators_op *asked)
{
    const struct catalog *catalog = asked->op.catalog;
    struct kg_json_writer json = kg_json_writer(&asked->op.json);
    if (asked->is_list) {
        kg_json_begin(&json, '{');
        kg_json_named_begin(&json, "orchestrators", '[');
    }
    for (size_t i = 0; i < asked->count; i++) {
        struct shown_row *shown = &asked->rows[i];
        struct kg_json_writer item = {&shown->json, true};
        pool_put(catalog->pool, kg_map_get(catalog->orchestrators, kg_str(shown->id)), &item);
        kg_json_end(&item, '}');
        kg_json_raw(&json, kg_buf_view(&shown->json));
    }
    if (asked->is_list) {
        kg_json_end(&json, ']');
        kg_json_end(&json, '}');
    }
}

static void orchestrators_read(struct catalog_op *op)
{
    catalog_orchestrators_put_shown(KG_CONTAINER(op, struct orchestrators_op, op));
}

static struct orchestrators_op *orchestrators_op_new(const struct catalog_request *request,
                                                     const char *id)
{
    struct orchestrators_op *asked = catalog_op_new(request, sizeof(*asked));
    asked->op.task.run = catalog_orchestrators_run_show;
    asked->op.then = orchestrators_read;
    asked->op.clean = orchestrators_op_clean;
    kg_str_copy(kg_str(id), asked->id, sizeof(asked->id));
    return asked;
}

char *catalog_orchestrator_project(const struct catalog *catalog, struct kg_str org,
                                   struct kg_str id_or_name)
{
    const struct catalog_org *found = catalog_org_find(catalog, org);
    const struct catalog_orchestrator *orchestrator =
        found ? catalog_orchestrator_find(catalog, found, id_or_name, NULL) : NULL;
    return orchestrator ? orchestrator_project_id(orchestrator->id) : NULL;
}

void catalog_orchestrators_list(const struct catalog_request *request)
{
    if (catalog_request_org(request) == NULL)
        return;
    struct orchestrators_op *asked = orchestrators_op_new(request, "");
    asked->is_list = true;
    catalog_op_read(&asked->op);
}

void catalog_orchestrator_show(const struct catalog_request *request, struct kg_str id)
{
    const struct catalog_orchestrator *found = request_orchestrator(request, id);
    if (found != NULL)
        catalog_op_read(&orchestrators_op_new(request, found->id)->op);
}

/* -- changing ---------------------------------------------------------------------------------- */

static int fail_invalid(struct kg_err *err, const char *what)
{
    return kg_fail(err, KG_E_INVALID_PARAMS, "%s", what);
}

/* Its packages are there, and one has what the mode needs. */
static int check_packages(struct state *state, const struct orchestrator_row *row,
                          struct kg_err *err)
{
    bool is_scoped = false;
    size_t active = 0;
    for (size_t i = 0; i < row->plugin_count; i++) {
        struct package_row found = {0};
        if (!row->plugins[i].active)
            continue;
        active++;
        int result = orchestrator_package(state, row->org, &row->plugins[i], &found, err);
        kg_auto(kg_doc_cleanup) struct kg_doc *document =
            result == 0 ? kg_json_read(kg_str(found.row.document), NULL) : NULL;
        is_scoped |= document != NULL && kg_node_is_true(document->root, "is_scoped");
        package_row_free(&found);
        if (result < 0)
            return kg_wrap(err, result, "active_plugin_ids");
    }
    if (active == 0)
        return fail_invalid(err, "active_plugin_ids: at least one package is needed");
    if (row->plugin_count > ORCHESTRATOR_PLUGINS_MAX)
        return kg_fail(err, KG_E_INVALID_PARAMS, "an orchestrator has at most %d packages",
                       ORCHESTRATOR_PLUGINS_MAX);
    if (strcmp(row->mode, "grounded") == 0 && !is_scoped)
        return fail_invalid(err, "the mode grounded needs a package that is scoped: one that has "
                                 "load_anchor and build_scope_rules");
    return 0;
}

static int catalog_orchestrators_run_change(struct state_task *task, struct state *state,
                                            struct kg_err *err)
{
    struct orchestrators_op *asked = KG_CONTAINER(task, struct orchestrators_op, op.task);
    struct orchestrator_row *row = &asked->row;
    int result = row->name != NULL /* it is new */
                     ? 0
                     : orchestrator_row_read(state, asked->op.org, asked->id, row, err);
    if (result == 0)
        result = asked->apply(asked, state, err);
    row->changed_ms = kg_wall_ms();
    if (result == 0)
        result = orchestrator_row_write(state, row, err);
    return result < 0 ? result : show_row(asked, state, row, err);
}

static void orchestrator_written(struct catalog_op *op)
{
    struct orchestrators_op *asked = KG_CONTAINER(op, struct orchestrators_op, op);
    const struct orchestrator_row *row = &asked->row;
    struct catalog *catalog = op->catalog;
    struct catalog_orchestrator *known =
        orchestrator_keep(catalog, row->id, kg_map_get(catalog->orgs, kg_str(row->org)));
    kg_replace(&known->name, row->name);
    kg_replace(&known->mode, row->mode);
    kg_replace(&known->tier, row->tier);
    known->deleted = row->deleted;
    known->changed_ms = row->changed_ms;
    known->revision++;
    pool_changed(catalog->pool, known);
    catalog_orchestrators_put_shown(asked);
    audit_emit(host_audit(catalog->host), AUDIT_CATALOG_ORCHESTRATOR_CHANGED,
               kg_str(op->asker.request_id), AUDIT_V_TEXT(row->org), AUDIT_V_TEXT(row->id),
               AUDIT_V_TEXT(row->name), AUDIT_V_TEXT(asked->act),
               AUDIT_V_TEXT(op->asker.operator_id));
}

static struct orchestrators_op *
change_op_new(const struct catalog_request *request, const char *id, const char *act,
              int (*apply)(struct orchestrators_op *, struct state *, struct kg_err *))
{
    struct orchestrators_op *asked = orchestrators_op_new(request, id);
    asked->op.task.run = catalog_orchestrators_run_change;
    asked->op.then = orchestrator_written;
    asked->body = request->body ? kg_doc_copy(request->body) : NULL;
    asked->act = act;
    asked->apply = apply;
    return asked;
}

static void catalog_orchestrators_change_one(const struct catalog_request *request,
                                             struct kg_str id, const char *act,
                                             int (*apply)(struct orchestrators_op *, struct state *,
                                                          struct kg_err *))
{
    const struct catalog_orchestrator *found = request_orchestrator(request, id);
    if (found != NULL)
        catalog_op_write(&change_op_new(request, found->id, act, apply)->op);
}

/* -- making one -------------------------------------------------------------------------------- */

struct live_count {
    int64_t count;
};

static void count_live(void *data, const struct state_orchestrator *stored)
{
    struct live_count *live = data;
    live->count += !stored->deleted;
}

static int apply_create(struct orchestrators_op *asked, struct state *state, struct kg_err *err)
{
    struct orchestrator_row *row = &asked->row;
    struct live_count live = {0};
    int result =
        orchestrator_row_attach(row, kg_node_list(asked->body->root, "active_plugin_ids"), err);
    if (result == 0)
        result = check_packages(state, row, err);
    if (result == 0 && asked->quota >= 0)
        result = state_orchestrators(state, row->org, NULL, count_live, &live, err);
    if (result == 0 && asked->quota >= 0 && live.count >= asked->quota)
        return kg_fail(err, KG_E_QUOTA, "the org may have %lld orchestrators, and has them",
                       (long long)asked->quota);
    return result;
}

/* Its schema has seen to the rest; of the modes it says which we have, not which there are. */
static int catalog_orchestrators_check_mode(const struct kg_node *body, struct kg_err *err)
{
    struct kg_str mode = kg_node_text(body, "mode");
    if (kg_str_is(mode, "supervisor") || kg_str_is(mode, "grounded"))
        return 0;
    return kg_fail(err, KG_E_INVALID_PARAMS,
                   "the mode \"%.*s\" cannot be used here: it has to be supervisor or grounded",
                   KG_STR_CUT(mode, 40));
}

static char *text_or(const struct kg_node *body, const char *key, const char *fallback)
{
    struct kg_str text = kg_node_text(body, key);
    return text.data ? kg_str_dup(text) : kg_strdup(fallback);
}

void catalog_orchestrator_create(const struct catalog_request *request)
{
    struct kg_err err = {0};
    const struct kg_node *body = request->body;
    const struct catalog_org *org = catalog_request_org(request);
    if (org == NULL)
        return;
    if (kg_map_count(request->catalog->orchestrators) >= CATALOG_ORCHESTRATORS_MAX)
        kg_fail(&err, KG_E_QUOTA, "there are %d orchestrators already", CATALOG_ORCHESTRATORS_MAX);
    else
        catalog_orchestrators_check_mode(body, &err);
    if (err.code != KG_OK) {
        catalog_fail(request, &err);
        return;
    }
    struct orchestrators_op *asked = change_op_new(request, "", "created", apply_create);
    asked->quota = catalog_org_quota(org, "max_orchestrators");
    asked->row = (struct orchestrator_row){
        .name = text_or(body, "name", NULL),
        .framework = text_or(body, "framework_type", NULL),
        .mode = text_or(body, "mode", NULL),
        .tier = text_or(body, "tier", "demand"),
        .whoami = text_or(body, "whoami", NULL),
        .config = catalog_merge("{}", kg_node_get(body, "config"), NULL),
        .created_by = kg_strdup(request->asker.operator_id),
        .created_ms = kg_wall_ms(),
    };
    catalog_uuid(asked->row.id);
    kg_str_copy(kg_str(org->id), asked->row.org, sizeof(asked->row.org));
    catalog_op_write(&asked->op);
}

/* -- changing one ------------------------------------------------------------------------------ */

static void set_config(struct orchestrator_row *row, const struct kg_node *more)
{
    char *next = catalog_merge(row->config, more, NULL);
    free(row->config);
    row->config = next;
}

static void set_given(char **text, const struct kg_node *body, const char *key)
{
    const struct kg_node *given = kg_node_get(body, key);
    if (given == NULL)
        return;
    free(*text);
    *text = given->type == KG_STRING ? kg_str_dup(given->text) : NULL;
}

static int apply_change(struct orchestrators_op *asked, struct state *state, struct kg_err *err)
{
    const struct kg_node *body = asked->body->root;
    const struct kg_node *attached = kg_node_typed(body, "active_plugin_ids", KG_ARRAY);
    struct orchestrator_row *row = &asked->row;
    set_given(&row->name, body, "name");
    set_given(&row->tier, body, "tier");
    set_given(&row->whoami, body, "whoami");
    set_config(row, kg_node_get(body, "config"));
    if (attached == NULL)
        return 0;
    int result = orchestrator_row_attach(row, attached, err);
    return result < 0 ? result : check_packages(state, row, err);
}

void catalog_orchestrator_change(const struct catalog_request *request, struct kg_str id)
{
    catalog_orchestrators_change_one(request, id, "changed", apply_change);
}

static int apply_delete(struct orchestrators_op *asked, struct state *state, struct kg_err *err)
{
    (void)state;
    (void)err;
    asked->row.deleted = true;
    return 0;
}

void catalog_orchestrator_delete(const struct catalog_request *request, struct kg_str id)
{
    catalog_orchestrators_change_one(request, id, "deleted", apply_delete);
}

/* -- settings of its packages ------------------------------------------------------------------ */

static int find_attached(const struct orchestrator_row *row, struct kg_str reference,
                         struct orchestrator_plugin **ret_plugin, struct kg_err *err)
{
    *ret_plugin = orchestrator_plugin_find(row, reference);
    if (*ret_plugin != NULL)
        return 0;
    return kg_fail(err, KG_E_INVALID_PARAMS, "%s has no package %.*s", row->name,
                   KG_STR_CUT(reference, 140));
}

/* {KEY: VALUE}, of that or of [{"key","value"}]. */
static struct kg_doc *settings_sent(const struct kg_node *settings, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    if (settings->type == KG_OBJECT)
        return kg_doc_copy(settings);
    kg_json_begin(&json, '{');
    for (uint32_t i = 0; i < settings->count; i++) {
        kg_auto(kg_free) char *key = kg_str_dup(kg_node_text(&settings->items[i], "key"));
        kg_json_named_node(&json, key, kg_node_get(&settings->items[i], "value"));
    }
    kg_json_end(&json, '}');
    return kg_json_read(kg_buf_view(&text), err);
}

static int change_settings(const struct orchestrators_op *asked, struct state *state,
                           struct orchestrator_plugin *plugin, const struct kg_node *settings,
                           struct kg_err *err)
{
    struct package_row found = {0};
    kg_auto(kg_buf_free) struct kg_buf next = {0};
    kg_auto(kg_free) char *scope = orchestrator_scope(asked->row.id, plugin->pid);
    const struct settings_seal seal = {&asked->op.catalog->seal, scope};
    int result = orchestrator_package(state, asked->row.org, plugin, &found, err);
    kg_auto(kg_doc_cleanup) struct kg_doc *document =
        result == 0 ? kg_json_read(kg_str(found.row.document), err) : NULL;
    kg_auto(kg_doc_cleanup) struct kg_doc *sent =
        document != NULL ? settings_sent(settings, err) : NULL;
    package_row_free(&found);
    if (sent == NULL)
        return -1;
    result = settings_change(kg_node_list(document->root, "settings_schema"), plugin->settings,
                             sent->root, &seal, &next, err);
    if (result < 0)
        return kg_wrap(err, result, "%s", plugin->pid);
    free(plugin->settings);
    plugin->settings = kg_str_dup(kg_buf_view(&next));
    return 0;
}

static int catalog_orchestrators_apply_settings(struct orchestrators_op *asked, struct state *state,
                                                struct kg_err *err)
{
    const struct kg_node *all = kg_node_get(asked->body->root, "plugin_settings");
    int result = 0;
    for (uint32_t i = 0; i < all->count && result == 0; i++) {
        struct orchestrator_plugin *plugin;
        const struct kg_node *value = &all->members[i].value;
        result = find_attached(&asked->row, all->members[i].key, &plugin, err);
        if (result == 0)
            result = change_settings(asked, state, plugin, kg_node_get(value, "settings"), err);
    }
    return result;
}

void catalog_orchestrator_settings(const struct catalog_request *request, struct kg_str id)
{
    catalog_orchestrators_change_one(request, id, "settings", catalog_orchestrators_apply_settings);
}

/* Values go along by their keys; those that do not fit are left unused. */
static int apply_activate(struct orchestrators_op *asked, struct state *state, struct kg_err *err)
{
    const struct kg_node *body = asked->body->root;
    struct orchestrator_plugin *plugin;
    struct package_row found = {0};
    int result = find_attached(&asked->row, kg_node_text(body, "pid"), &plugin, err);
    if (result < 0)
        return result;
    set_given(&plugin->version, body, "version");
    plugin->active = true;
    result = orchestrator_package(state, asked->row.org, plugin, &found, err);
    package_row_free(&found);
    return result;
}

void catalog_orchestrator_activate(const struct catalog_request *request, struct kg_str id)
{
    catalog_orchestrators_change_one(request, id, "activated", apply_activate);
}

/* -- loading ----------------------------------------------------------------------------------- */

struct lifecycle {
    struct kg_wait wait;
    struct catalog_request request;
    struct catalog_orchestrator *orchestrator;
    const char *act;
};

static void answer_lifecycle(const struct lifecycle *lifecycle, const char *message)
{
    const struct catalog_request *request = &lifecycle->request;
    const struct catalog_orchestrator *orchestrator = lifecycle->orchestrator;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    audit_emit(host_audit(request->catalog->host), AUDIT_CATALOG_ORCHESTRATOR_CHANGED,
               kg_str(request->asker.request_id), AUDIT_V_TEXT(orchestrator->org->id),
               AUDIT_V_TEXT(orchestrator->id), AUDIT_V_TEXT(orchestrator->name),
               AUDIT_V_TEXT(lifecycle->act), AUDIT_V_TEXT(request->asker.operator_id));
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "message", message);
    kg_json_named_text(&json, "instance_id", orchestrator->id);
    kg_json_named_text(&json, "tier", orchestrator->tier);
    kg_json_end(&json, '}');
    catalog_reply(request, &out);
}

static void on_pool_loaded(struct kg_wait *wait, const struct kg_err *err_or_null)
{
    struct lifecycle *lifecycle = KG_CONTAINER(wait, struct lifecycle, wait);
    if (err_or_null != NULL)
        catalog_fail(&lifecycle->request, err_or_null);
    else
        answer_lifecycle(lifecycle, "Orchestrator loaded");
    free(lifecycle);
}

void catalog_orchestrator_load(const struct catalog_request *request, struct kg_str id)
{
    struct catalog_orchestrator *found = request_orchestrator(request, id);
    if (found == NULL)
        return;
    struct lifecycle *lifecycle = kg_alloc(sizeof(*lifecycle));
    *lifecycle = (struct lifecycle){.request = *request, .orchestrator = found, .act = "loaded"};
    pool_load(request->catalog->pool, found, &lifecycle->wait, on_pool_loaded);
}

void catalog_orchestrator_unload(const struct catalog_request *request, struct kg_str id)
{
    struct catalog_orchestrator *found = request_orchestrator(request, id);
    if (found == NULL)
        return;
    const struct lifecycle lifecycle = {
        .request = *request, .orchestrator = found, .act = "unloaded"};
    pool_unload(request->catalog->pool, found);
    answer_lifecycle(&lifecycle, "Orchestrator unloaded");
}

/* -- a new key --------------------------------------------------------------------------------- */

static int catalog_orchestrators_reseal_row(const struct catalog *catalog, struct state *state,
                                            struct orchestrator_row *row, size_t *count,
                                            struct kg_err *err)
{
    for (size_t i = 0; i < row->plugin_count; i++) {
        struct orchestrator_plugin *plugin = &row->plugins[i];
        kg_auto(kg_buf_free) struct kg_buf next = {0};
        kg_auto(kg_free) char *scope = orchestrator_scope(row->id, plugin->pid);
        const struct settings_seal seal = {&catalog->seal, scope};
        if (plugin->settings == NULL)
            continue;
        int result = settings_reseal(plugin->settings, &seal, &next, err);
        if (result < 0)
            return kg_wrap(err, result, "package %s of the orchestrator %s", plugin->pid, row->id);
        free(plugin->settings);
        plugin->settings = kg_str_dup(kg_buf_view(&next));
        (*count)++;
    }
    return orchestrator_row_write(state, row, err);
}

static void take_any_row(void *data, const struct state_orchestrator *stored)
{
    struct row_list *list = data;
    list->items = kg_realloc(list->items, (list->count + 1) * sizeof(*list->items));
    orchestrator_row_take(stored, &list->items[list->count++]);
}

int catalog_orchestrators_reseal(const struct catalog *catalog, struct state *state, size_t *count,
                                 struct kg_err *err)
{
    struct row_list list = {0};
    int result = state_orchestrators(state, NULL, NULL, take_any_row, &list, err);
    for (size_t i = 0; i < list.count; i++) {
        if (result == 0)
            result = catalog_orchestrators_reseal_row(catalog, state, &list.items[i], count, err);
        orchestrator_row_free(&list.items[i]);
    }
    free(list.items);
    return result;
}
