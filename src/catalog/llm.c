/*
 * Models that an org has configured: one of the operator's in local.toml, or a provider that the
 * org brings with a key of its own. The key is sealed with the org's id and the configuration's,
 * and shown to nobody. A provider of an org's is reached only if catalog.org_may lets the org reach
 * its host, which is asked when it is set and whenever it is looked up. What one can be is checked
 * by who reads local.toml: an org's is such a file, of one provider and one model.
 */
#include "catalog/grants.h"
#include "catalog/internal.h"
#include "catalog/settings.h"

#include <errno.h>
#include <stdlib.h>

#define LLM_MAX      1000 /* of one org */
#define LLM_OPERATOR "local"

static const char *const texts[] = {"provider", "model", "base_url", NULL};
static const char *const numbers[] = {"context_window", "max_tokens", "temperature", NULL};

/* -- as a file of one model -------------------------------------------------------------------- */

static void put_toml(struct kg_buf *out, const char *key, const struct kg_node *value)
{
    if (value == NULL || value->type == KG_NULL)
        return;
    kg_buf_printf(out, "%s = ", key);
    kg_json_put_node(out, value);
    kg_buf_char(out, '\n');
}

/* The name is the provider's: no two orgs ever share a process that asks. */
static void put_local(struct kg_buf *out, const char *id, const struct kg_node *value,
                      struct kg_str api_key)
{
    kg_buf_printf(out, "[providers.llm-%s]\n", id);
    put_toml(out, "kind", kg_node_get(value, "provider"));
    put_toml(out, "base_url", kg_node_get(value, "base_url"));
    if (api_key.length > 0) {
        kg_buf_text(out, "api_key = ");
        kg_json_put_string(out, api_key);
    }
    kg_buf_printf(out, "\n[models.llm]\nprovider = \"llm-%s\"\n", id);
    put_toml(out, "model", kg_node_get(value, "model"));
    for (const char *const *key = numbers; *key != NULL; key++)
        put_toml(out, *key, kg_node_get(value, *key));
}

/* "2:12: base_url: ..." is about a file that nobody has seen. */
static void drop_place(struct kg_err *err)
{
    size_t length = strspn(err->message, "0123456789:");
    if (length > 0 && err->message[length] == ' ')
        memmove(err->message, err->message + length + 1, strlen(err->message + length + 1) + 1);
    err->code = KG_E_INVALID_PARAMS;
    err->hint[0] = '\0';
}

static struct local *llm_local(const char *id, const struct kg_node *value, struct kg_str api_key,
                               struct kg_err *err)
{
    kg_auto(secret_wipe) struct kg_buf text = {0};
    put_local(&text, id, value, api_key);
    struct local *local = local_read(kg_buf_view(&text), LOCAL_LEAVE, err);
    if (local == NULL) {
        drop_place(err);
        return NULL;
    }
    if (local->model_count == 1 && local->models[0].provider->host != NULL)
        return local;
    local_free(local);
    kg_fail(err, KG_E_INVALID_PARAMS, "base_url: it has a character that no address has");
    return NULL;
}

static bool llm_is_operators(const struct kg_node *value)
{
    return kg_str_is(kg_node_text(value, "provider"), LLM_OPERATOR);
}

/* On the loop. */
static int llm_check_reach(const struct catalog *catalog, const char *org_id,
                           const struct local_provider *provider, struct kg_err *err)
{
    bool is_v6 = strchr(provider->host, ':') != NULL;
    kg_auto(kg_free) char *capability = kg_format("net:%s%s%s:%u", is_v6 ? "[" : "", provider->host,
                                                  is_v6 ? "]" : "", provider->port);
    return org_grants_check(catalog, org_id, capability, err);
}

/* -- the key ----------------------------------------------------------------------------------- */

static char *key_context(const char *org, const char *id)
{
    return kg_format("kaged catalog\n%s llm %s\napi_key", org, id);
}

static int key_seal(const struct catalog *catalog, const char *org, const char *id,
                    struct kg_str key, char **ret_box, struct kg_err *err)
{
    kg_auto(kg_free) char *context = key_context(org, id);
    kg_auto(kg_buf_free) struct kg_buf box = {0};
    int result = secret_seal(&catalog->seal, kg_str(context), key, &box, err);
    if (result == 0)
        *ret_box = kg_str_dup(kg_buf_view(&box));
    return result;
}

static int key_open(const struct catalog *catalog, const struct state_llm_config *row,
                    struct kg_buf *ret_key, struct kg_err *err)
{
    kg_auto(kg_free) char *context = key_context(row->org, row->id);
    if (row->box == NULL)
        return 0;
    int result = secret_unseal(&catalog->seal, kg_str(context), kg_str(row->box), ret_key, err);
    return kg_wrap(err, result, "model %s", row->name);
}

/* -- rows -------------------------------------------------------------------------------------- */

/* A row with texts of its own. */
struct llm_row {
    char *id, *org, *name, *value, *box; /* owned; no id: there is none */
    int64_t created_ms, changed_ms;
};

static void llm_row_free(struct llm_row *row)
{
    free(row->id);
    free(row->org);
    free(row->name);
    free(row->value);
    free(row->box);
    *row = (struct llm_row){0};
}

static void take_llm_row(void *data, const struct state_llm_config *stored)
{
    struct llm_row *row = data;
    llm_row_free(row);
    *row = (struct llm_row){
        .id = kg_strdup(stored->id),
        .org = kg_strdup(stored->org),
        .name = kg_strdup(stored->name),
        .value = kg_strdup(stored->value),
        .box = kg_strdup(stored->box),
        .created_ms = stored->created_ms,
        .changed_ms = stored->changed_ms,
    };
}

static struct state_llm_config row_of(const struct llm_row *row)
{
    return (struct state_llm_config){
        .id = row->id,
        .org = row->org,
        .name = row->name,
        .value = row->value,
        .box = row->box,
        .created_ms = row->created_ms,
        .changed_ms = row->changed_ms,
    };
}

static int llm_row_read(struct state *state, const char *org, const char *id,
                        struct llm_row *ret_row, struct kg_err *err)
{
    int result = state_llm_configs(state, org, id, take_llm_row, ret_row, err);
    if (result < 0 || ret_row->id != NULL)
        return result;
    return kg_fail(err, KG_E_NOT_FOUND, "there is no model %s in this org", id);
}

static void put_llm(struct kg_json_writer *json, const struct state_llm_config *row)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *value = kg_json_read(kg_str(row->value), NULL);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "id", row->id);
    kg_json_named_text(json, "org_id", row->org);
    kg_json_named_text(json, "name", row->name);
    for (const char *const *key = texts; *key != NULL; key++)
        kg_json_named_str(json, *key, value ? kg_node_text(value->root, *key) : KG_STR_NULL);
    for (const char *const *key = numbers; *key != NULL; key++)
        kg_json_named_node(json, *key, value ? kg_node_get(value->root, *key) : NULL);
    kg_json_named_text(json, "api_key", row->box != NULL ? CATALOG_MASK : NULL);
    kg_json_named_time(json, "created_at", row->created_ms);
    kg_json_named_time(json, "updated_at", row->changed_ms);
    kg_json_end(json, '}');
}

/* -- showing ----------------------------------------------------------------------------------- */

struct llm_op {
    struct catalog_op op;
    char *id;            /* owned; NULL: all of them */
    struct llm_row row;  /* as it is */
    struct kg_doc *sent; /* owned: what of it is changed */
    struct kg_buf key;   /* secret: the new one */
    bool sets_key, is_new, removes;
    size_t count;
    bool name_taken;
    struct kg_json_writer json;
};

static void llm_op_clean(struct catalog_op *op)
{
    struct llm_op *asked = KG_CONTAINER(op, struct llm_op, op);
    free(asked->id);
    llm_row_free(&asked->row);
    kg_doc_free(asked->sent);
    secret_wipe(&asked->key);
}

static struct llm_op *llm_op_new(const struct catalog_request *request, struct kg_str id)
{
    struct llm_op *asked = catalog_op_new(request, sizeof(*asked));
    asked->op.clean = llm_op_clean;
    asked->id = id.data ? kg_str_dup(id) : NULL;
    return asked;
}

static void llm_put_listed(void *data, const struct state_llm_config *row)
{
    struct llm_op *asked = data;
    put_llm(&asked->json, row);
}

static int run_llm_list(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct llm_op *asked = KG_CONTAINER(task, struct llm_op, op.task);
    asked->json = kg_json_writer(&asked->op.json);
    kg_json_begin(&asked->json, '{');
    kg_json_named_begin(&asked->json, "llm_configs", '[');
    int result = state_llm_configs(state, asked->op.org, NULL, llm_put_listed, asked, err);
    kg_json_end(&asked->json, ']');
    kg_json_end(&asked->json, '}');
    return result;
}

static int run_llm_show(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct llm_op *asked = KG_CONTAINER(task, struct llm_op, op.task);
    int result = llm_row_read(state, asked->op.org, asked->id, &asked->row, err);
    if (result < 0)
        return result;
    struct kg_json_writer json = kg_json_writer(&asked->op.json);
    const struct state_llm_config row = row_of(&asked->row);
    put_llm(&json, &row);
    return 0;
}

void catalog_llm_list(const struct catalog_request *request)
{
    if (catalog_request_org(request) == NULL)
        return;
    struct llm_op *asked = llm_op_new(request, KG_STR_NULL);
    asked->op.task.run = run_llm_list;
    catalog_op_read(&asked->op);
}

void catalog_llm_show(const struct catalog_request *request, struct kg_str id)
{
    if (catalog_request_org(request) == NULL)
        return;
    struct llm_op *asked = llm_op_new(request, id);
    asked->op.task.run = run_llm_show;
    catalog_op_read(&asked->op);
}

/* -- changing ---------------------------------------------------------------------------------- */

/* What it is comes whole, or stays; of the rest the newer counts, and null takes one away. */
static char *llm_merge(const char *before, const struct kg_node *sent)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    kg_auto(kg_doc_cleanup) struct kg_doc *old = before ? kg_json_read(kg_str(before), NULL) : NULL;
    const char *const *const keys[] = {texts, numbers};
    bool is_whole = kg_node_get(sent, "provider") != NULL;
    kg_json_begin(&json, '{');
    for (size_t i = 0; i < KG_COUNT(keys); i++) {
        for (const char *const *key = keys[i]; *key != NULL; key++) {
            const struct kg_node *value = kg_node_get(sent, *key);
            if (value == NULL && old != NULL && !(keys[i] == texts && is_whole))
                value = kg_node_get(old->root, *key);
            if (value != NULL && value->type != KG_NULL)
                kg_json_named_node(&json, *key, value);
        }
    }
    kg_json_end(&json, '}');
    return kg_str_dup(kg_buf_view(&out));
}

static void see_other(void *data, const struct state_llm_config *row)
{
    struct llm_op *asked = data;
    asked->count++;
    asked->name_taken |=
        strcmp(row->name, asked->row.name) == 0 && strcmp(row->id, asked->row.id) != 0;
}

static int llm_check_room(struct llm_op *asked, struct state *state, struct kg_err *err)
{
    int result = state_llm_configs(state, asked->op.org, NULL, see_other, asked, err);
    if (result < 0)
        return result;
    if (asked->name_taken)
        return kg_fail(err, KG_E_EXISTS, "there is a model %s in this org already",
                       asked->row.name);
    if (asked->is_new && asked->count >= LLM_MAX)
        return kg_fail(err, KG_E_QUOTA, "the org has %d models already", LLM_MAX);
    return 0;
}

/* The next row, from what there is and what was sent. */
static int llm_apply(struct llm_op *asked, struct kg_err *err)
{
    struct llm_row *row = &asked->row;
    struct kg_str name = kg_node_text(asked->sent->root, "name");
    char *value = llm_merge(row->value, asked->sent->root);
    free(row->value);
    row->value = value;
    row->changed_ms = kg_wall_ms();
    if (name.data != NULL) {
        free(row->name);
        row->name = kg_str_dup(name);
    }
    if (!asked->sets_key)
        return 0;
    kg_free(&row->box);
    return asked->key.length == 0 ? 0
                                  : key_seal(asked->op.catalog, row->org, row->id,
                                             kg_buf_view(&asked->key), &row->box, err);
}

/* A key is for where it was meant to go: it does not follow to another address. */
static int llm_check_moved(struct llm_op *asked, const char *before, struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *old = before ? kg_json_read(kg_str(before), NULL) : NULL;
    kg_auto(kg_doc_cleanup) struct kg_doc *now = kg_json_read(kg_str(asked->row.value), NULL);
    if (now != NULL && llm_is_operators(now->root))
        kg_free(&asked->row.box);
    if (old == NULL || now == NULL || asked->row.box == NULL || asked->sets_key)
        return 0;
    for (const char *const *key = (const char *const[]){"provider", "base_url", NULL}; *key; key++)
        if (!kg_str_equal(kg_node_text(old->root, *key), kg_node_text(now->root, *key)))
            return kg_fail(err, KG_E_INVALID_PARAMS,
                           "%s: another provider needs its api_key to be given again", *key);
    return 0;
}

static int run_llm_change(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct llm_op *asked = KG_CONTAINER(task, struct llm_op, op.task);
    int result =
        asked->is_new ? 0 : llm_row_read(state, asked->op.org, asked->id, &asked->row, err);
    kg_auto(kg_free) char *before = kg_strdup(asked->row.value);
    if (result == 0)
        result = llm_apply(asked, err);
    if (result == 0)
        result = llm_check_moved(asked, before, err);
    if (result == 0)
        result = llm_check_room(asked, state, err);
    kg_auto(kg_doc_cleanup) struct kg_doc *value =
        result == 0 ? kg_json_read(kg_str(asked->row.value), err) : NULL;
    if (value == NULL)
        return result < 0 ? result : -EINVAL;
    kg_auto(secret_wipe) struct kg_buf key = {0};
    const struct state_llm_config row = row_of(&asked->row);
    if (!llm_is_operators(value->root)) {
        result = key_open(asked->op.catalog, &row, &key, err);
        struct local *local =
            result == 0 ? llm_local(row.id, value->root, kg_buf_view(&key), err) : NULL;
        if (local == NULL)
            return result < 0 ? result : -EINVAL;
        local_free(local);
    }
    struct kg_json_writer json = kg_json_writer(&asked->op.json);
    put_llm(&json, &row);
    return state_llm_config_set(state, &row, err);
}

static void llm_changed(struct catalog_op *op)
{
    const struct llm_op *asked = KG_CONTAINER(op, struct llm_op, op);
    audit_emit(host_audit(op->catalog->host),
               asked->removes ? AUDIT_CATALOG_LLM_REMOVED : AUDIT_CATALOG_LLM_CHANGED,
               kg_str(op->asker.request_id), AUDIT_V_TEXT(op->org), AUDIT_V_TEXT(asked->row.id),
               AUDIT_V_TEXT(asked->row.name), AUDIT_V_TEXT(op->asker.operator_id));
}

/* A model of the operator's: one that there is, and nothing of an org's own. */
static int llm_check_operators(const struct catalog_request *request, struct kg_err *err)
{
    const struct kg_node *sent = request->body;
    struct kg_str model = kg_node_text(sent, "model");
    if (local_model_find(host_local(request->catalog->host), model) == NULL)
        return kg_fail(err, KG_E_INVALID_PARAMS, "model: the operator has none called \"%.*s\"",
                       KG_STR_CUT(model, 64));
    if (kg_node_text(sent, "base_url").data != NULL || kg_node_text(sent, "api_key").data != NULL)
        return kg_fail(err, KG_E_INVALID_PARAMS,
                       "a model of the operator has his address and key, and no other");
    return 0;
}

/* What it is comes whole, so that it can be checked on the loop, which has the configuration. */
static int llm_check_sent(const struct catalog_request *request, struct kg_err *err)
{
    const struct kg_node *sent = request->body;
    bool has_model = kg_node_text(sent, "model").data != NULL;
    if (kg_node_text(sent, "provider").data == NULL) {
        if (!has_model && kg_node_get(sent, "base_url") == NULL)
            return 0;
        return kg_fail(err, KG_E_INVALID_PARAMS, "provider, model and base_url come together");
    }
    if (!has_model)
        return kg_fail(err, KG_E_INVALID_PARAMS, "provider and model come together");
    if (llm_is_operators(sent))
        return llm_check_operators(request, err);
    kg_auto(kg_free) char *org = kg_str_dup(request->org);
    struct local *local = llm_local("new", sent, KG_STR_NULL, err);
    if (local == NULL)
        return -EINVAL;
    int result = llm_check_reach(request->catalog, org, local->models[0].provider, err);
    local_free(local);
    return result;
}

static void llm_write(const struct catalog_request *request, struct kg_str id)
{
    struct kg_err err = {0};
    const struct kg_node *key = kg_node_get(request->body, "api_key");
    if (catalog_request_org(request) == NULL)
        return;
    if (llm_check_sent(request, &err) < 0) {
        catalog_fail(request, &err);
        return;
    }
    struct llm_op *asked = llm_op_new(request, id);
    asked->sent = kg_doc_copy(request->body);
    asked->is_new = id.data == NULL;
    asked->sets_key =
        key != NULL && !(key->type == KG_STRING && kg_str_is(key->text, CATALOG_MASK));
    if (asked->sets_key && key->type == KG_STRING)
        kg_buf_str(&asked->key, key->text);
    if (asked->is_new) {
        char uuid[CATALOG_ID_TEXT];
        catalog_uuid(uuid);
        asked->row.id = kg_strdup(uuid);
        asked->row.org = kg_strdup(asked->op.org);
        asked->row.created_ms = kg_wall_ms();
    }
    asked->op.task.run = run_llm_change;
    asked->op.then = llm_changed;
    catalog_op_write(&asked->op);
}

void catalog_llm_create(const struct catalog_request *request)
{
    llm_write(request, KG_STR_NULL);
}

void catalog_llm_change(const struct catalog_request *request, struct kg_str id)
{
    llm_write(request, id);
}

static int run_llm_remove(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct llm_op *asked = KG_CONTAINER(task, struct llm_op, op.task);
    int result = run_llm_show(task, state, err);
    return result < 0 ? result : state_llm_config_remove(state, asked->op.org, asked->id, err);
}

void catalog_llm_remove(const struct catalog_request *request, struct kg_str id)
{
    if (catalog_request_org(request) == NULL)
        return;
    struct llm_op *asked = llm_op_new(request, id);
    asked->removes = true;
    asked->op.task.run = run_llm_remove;
    asked->op.then = llm_changed;
    catalog_op_write(&asked->op);
}

/* -- for who asks a model ---------------------------------------------------------------------- */

struct llm_lookup {
    struct state_task task;
    struct catalog *catalog;
    char *org, *id; /* owned */
    struct llm_row row;
    struct local *local; /* owned; NULL: it is the operator's */
    char *alias;         /* owned: his */
    catalog_llm_fn *on_found;
    void *data;
};

static int run_llm_lookup(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct llm_lookup *lookup = KG_CONTAINER(task, struct llm_lookup, task);
    kg_auto(secret_wipe) struct kg_buf key = {0};
    int result = llm_row_read(state, lookup->org, lookup->id, &lookup->row, err);
    kg_auto(kg_doc_cleanup) struct kg_doc *value =
        result == 0 ? kg_json_read(kg_str(lookup->row.value), err) : NULL;
    if (value == NULL)
        return result < 0 ? result : -EINVAL;
    if (llm_is_operators(value->root)) {
        lookup->alias = kg_str_dup(kg_node_text(value->root, "model"));
        return 0;
    }
    const struct state_llm_config row = row_of(&lookup->row);
    result = key_open(lookup->catalog, &row, &key, err);
    if (result == 0)
        lookup->local = llm_local(row.id, value->root, kg_buf_view(&key), err);
    return result < 0 ? result : lookup->local == NULL ? -EINVAL : 0;
}

static void on_llm_found(struct state_task *task, const struct kg_err *err_or_null)
{
    struct llm_lookup *lookup = KG_CONTAINER(task, struct llm_lookup, task);
    struct kg_err err = {0};
    struct catalog_llm found = {.id = lookup->row.id, .name = lookup->row.name};
    if (err_or_null != NULL) {
        err = *err_or_null;
    } else if (lookup->local != NULL) {
        const struct local_provider *provider = lookup->local->models[0].provider;
        (void)llm_check_reach(lookup->catalog, lookup->org, provider, &err);
        found.own = lookup->local;
    }
    found.alias = lookup->alias;
    lookup->on_found(lookup->data, err.code != KG_OK ? NULL : &found,
                     err.code != KG_OK ? &err : NULL);
    if (err.code != KG_OK)
        local_free(lookup->local);
    llm_row_free(&lookup->row);
    free(lookup->alias);
    free(lookup->org);
    free(lookup->id);
    free(lookup);
}

void catalog_llm_find(struct catalog *catalog, const char *org, const char *id,
                      catalog_llm_fn *on_found, void *data)
{
    struct llm_lookup *lookup = kg_alloc(sizeof(*lookup));
    *lookup = (struct llm_lookup){
        .task = {.run = run_llm_lookup, .done = on_llm_found},
        .catalog = catalog,
        .org = kg_strdup(org),
        .id = kg_strdup(id),
        .on_found = on_found,
        .data = data,
    };
    lookup->task.org = catalog_scope(lookup->org);
    state_keeper_read(catalog_keeper(catalog), &lookup->task);
}

/* -- a new key --------------------------------------------------------------------------------- */

struct llm_rows {
    struct llm_row *items; /* owned */
    size_t count;
};

static void take_sealed(void *data, const struct state_llm_config *row)
{
    struct llm_rows *rows = data;
    if (row->box == NULL)
        return;
    rows->items = kg_realloc(rows->items, (rows->count + 1) * sizeof(*rows->items));
    rows->items[rows->count] = (struct llm_row){0};
    take_llm_row(&rows->items[rows->count++], row);
}

static int llm_reseal_row(const struct catalog *catalog, struct state *state,
                          struct llm_row *stored, struct kg_err *err)
{
    kg_auto(secret_wipe) struct kg_buf key = {0};
    struct state_llm_config row = row_of(stored);
    int result = key_open(catalog, &row, &key, err);
    if (result < 0)
        return result;
    kg_free(&stored->box);
    result = key_seal(catalog, row.org, row.id, kg_buf_view(&key), &stored->box, err);
    row.box = stored->box;
    return result < 0 ? result : state_llm_config_set(state, &row, err);
}

int catalog_llm_reseal(const struct catalog *catalog, struct state *state, size_t *count,
                       struct kg_err *err)
{
    struct llm_rows rows = {0};
    int result = state_llm_configs(state, NULL, NULL, take_sealed, &rows, err);
    for (size_t i = 0; i < rows.count; i++) {
        if (result == 0)
            result = llm_reseal_row(catalog, state, &rows.items[i], err);
        llm_row_free(&rows.items[i]);
    }
    free(rows.items);
    *count += rows.count;
    return result;
}
