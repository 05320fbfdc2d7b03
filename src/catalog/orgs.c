/*
 * Orgs: each is a wall around its members, packages and settings. All are in memory, and one is
 * changed there only once its row is written. A deleted one stays as a row, so that its name and
 * domain are nobody else's, and is found by nobody.
 */
#include "catalog/orchestrators.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const profile_keys[] = {"display_name", "tier",          "description",
                                           "website",      "contact_email", "logo_url",
                                           "country",      "timezone",      NULL};

/* -- the table --------------------------------------------------------------------------------- */

static void org_clear(struct catalog_org *org)
{
    free(org->name);
    free(org->domain);
    free(org->profile);
    free(org->settings);
    free(org->quota);
}

static struct catalog_org org_copy(const struct catalog_org *org)
{
    struct catalog_org copy = *org;
    copy.name = kg_strdup(org->name);
    copy.domain = kg_strdup(org->domain);
    copy.profile = kg_strdup(org->profile);
    copy.settings = kg_strdup(org->settings);
    copy.quota = kg_strdup(org->quota);
    return copy;
}

static void take_org(void *data, const struct state_org *stored)
{
    struct catalog *catalog = data;
    struct catalog_org *org = kg_alloc(sizeof(*org));
    kg_str_copy(kg_str(stored->id), org->id, sizeof(org->id));
    org->name = kg_strdup(stored->name);
    org->domain = kg_strdup(stored->domain);
    org->active = stored->active;
    org->deleted = stored->deleted;
    org->profile = kg_strdup(stored->profile);
    org->settings = kg_strdup(stored->settings);
    org->quota = kg_strdup(stored->quota);
    org->created_ms = stored->created_ms;
    kg_map_set(catalog->orgs, kg_str(org->id), org);
}

int catalog_orgs_load(struct catalog *catalog, struct state *state, struct kg_err *err)
{
    return state_orgs(state, take_org, catalog, err);
}

/* Moves what it has into the one that is known. */
static const struct catalog_org *org_move(struct catalog *catalog, struct catalog_org *from)
{
    struct catalog_org *org = kg_map_get(catalog->orgs, kg_str(from->id));
    if (org == NULL) {
        org = kg_alloc(sizeof(*org));
        kg_map_set(catalog->orgs, kg_str(from->id), org);
    } else {
        org_clear(org);
    }
    *org = *from;
    *from = (struct catalog_org){0};
    if (org->deleted || !org->active)
        pool_unload_org(catalog->pool, org);
    return org;
}

void catalog_orgs_take(struct catalog *catalog, const struct catalog *fresh)
{
    void *org;
    for (size_t at = 0; kg_map_next(fresh->orgs, &at, &(struct kg_str){0}, &org);) {
        struct catalog_org copy = org_copy(org);
        org_move(catalog, &copy);
    }
}

void catalog_orgs_free(struct catalog *catalog)
{
    void *org;
    for (size_t at = 0; kg_map_next(catalog->orgs, &at, &(struct kg_str){0}, &org);) {
        org_clear(org);
        free(org);
    }
    kg_map_free(catalog->orgs);
}

const struct catalog_org *catalog_org_find(const struct catalog *catalog, struct kg_str id_or_name)
{
    struct catalog_org *org = kg_map_get(catalog->orgs, id_or_name);
    if (org != NULL)
        return org->deleted ? NULL : org;
    void *each;
    for (size_t at = 0; kg_map_next(catalog->orgs, &at, &(struct kg_str){0}, &each);) {
        org = each;
        if (!org->deleted && kg_str_is(id_or_name, org->name))
            return org;
    }
    return NULL;
}

int64_t catalog_org_quota(const struct catalog_org *org, const char *name)
{
    int64_t bound = -1;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_str(org->quota), NULL);
    const struct kg_node *value = doc ? kg_node_get(doc->root, name) : NULL;
    return value != NULL && kg_node_int(value, &bound) ? bound : -1;
}

/* -- answers ----------------------------------------------------------------------------------- */

static void put_org(struct kg_json_writer *json, const struct catalog_org *org)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *profile = kg_json_read(kg_str(org->profile), NULL);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "org_id", org->id);
    kg_json_named_text(json, "name", org->name);
    kg_json_named_text(json, "domain", org->domain);
    kg_json_named_text(json, "status", org->active ? "active" : "inactive");
    for (const char *const *key = profile_keys; *key != NULL; key++)
        kg_json_named_str(json, *key, profile ? kg_node_text(profile->root, *key) : KG_STR_NULL);
    kg_json_named_bool(json, "is_deleted", org->deleted);
    kg_json_named_time(json, "created_at", org->created_ms);
    kg_json_end(json, '}');
}

static void org_put_answer(struct kg_buf *out, const struct catalog_org *org)
{
    struct kg_json_writer json = kg_json_writer(out);
    put_org(&json, org);
}

/* All of them for who is over all; else those that he is a member of. */
void catalog_orgs_list(const struct catalog_request *request, bool all)
{
    const struct catalog *catalog = request->catalog;
    const char *principal = request->asker.principal;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    void *each;
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "orgs", '[');
    for (size_t at = 0; kg_map_next(catalog->orgs, &at, &(struct kg_str){0}, &each);) {
        const struct catalog_org *org = each;
        bool is_in = principal[0] == '\0' ||
                     catalog_role_of(catalog, principal, kg_str(org->id)) != CATALOG_NOBODY;
        if (all || (is_in && !org->deleted))
            put_org(&json, org);
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    catalog_reply(request, &out);
}

void catalog_org_show(const struct catalog_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    const struct catalog_org *org = catalog_request_org(request);
    if (org == NULL)
        return;
    org_put_answer(&out, org);
    catalog_reply(request, &out);
}

/* -- changes ----------------------------------------------------------------------------------- */

struct org_op {
    struct catalog_op op;
    struct catalog_org next;   /* owned: as it is from then on */
    struct catalog_org before; /* owned: what it was made of */
    bool is_new;
    bool is_same; /* the row is still that */
    void (*put)(struct kg_buf *out, const struct catalog_org *org);
};

char *catalog_merge(const char *before, const struct kg_node *more_or_null, const char *const *keys)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    kg_auto(kg_doc_cleanup) struct kg_doc *old = kg_json_read(kg_str(before), NULL);
    kg_json_begin(&json, '{');
    for (uint32_t i = 0; more_or_null != NULL && i < more_or_null->count; i++) {
        kg_auto(kg_free) char *key = kg_str_dup(more_or_null->members[i].key);
        bool wanted = keys == NULL;
        for (const char *const *known = keys; !wanted && *known != NULL; known++)
            wanted = strcmp(*known, key) == 0;
        if (wanted && more_or_null->members[i].value.type != KG_NULL)
            kg_json_named_node(&json, key, &more_or_null->members[i].value);
    }
    for (uint32_t i = 0; old != NULL && i < old->root->count; i++) {
        kg_auto(kg_free) char *key = kg_str_dup(old->root->members[i].key);
        if (more_or_null == NULL || kg_node_get(more_or_null, key) == NULL)
            kg_json_named_node(&json, key, &old->root->members[i].value);
    }
    kg_json_end(&json, '}');
    return kg_str_dup(kg_buf_view(&out));
}

static void orgs_replace(char **text, char *with)
{
    free(*text);
    *text = with;
}

static bool orgs_same_text(const char *a_or_null, const char *b_or_null)
{
    return a_or_null == NULL || b_or_null == NULL ? a_or_null == b_or_null
                                                  : strcmp(a_or_null, b_or_null) == 0;
}

static void orgs_compare(void *data, const struct state_org *row)
{
    struct org_op *change = data;
    const struct catalog_org *before = &change->before;
    if (strcmp(row->id, before->id) == 0)
        change->is_same = row->active == before->active && row->deleted == before->deleted &&
                          orgs_same_text(row->name, before->name) &&
                          orgs_same_text(row->domain, before->domain) &&
                          orgs_same_text(row->profile, before->profile) &&
                          orgs_same_text(row->settings, before->settings) &&
                          orgs_same_text(row->quota, before->quota);
}

/* Another node may have changed it since this one read it. */
static int orgs_check_same(struct org_op *change, struct state *state, struct kg_err *err)
{
    change->is_same = change->is_new;
    int result = change->is_new ? 0 : state_orgs(state, orgs_compare, change, err);
    if (result < 0 || change->is_same)
        return result;
    kg_fail(err, KG_E_CONFLICT, "the org %s was changed meanwhile", change->before.name);
    return kg_hint(err, "look at it, and try again");
}

static int run_org(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct org_op *change = KG_CONTAINER(task, struct org_op, op.task);
    const struct catalog_org *next = &change->next;
    int result = orgs_check_same(change, state, err);
    if (result < 0)
        return result;
    result = state_org_set(state,
                           &(struct state_org){
                               .id = next->id,
                               .name = next->name,
                               .domain = next->domain,
                               .active = next->active,
                               .deleted = next->deleted,
                               .profile = next->profile,
                               .settings = next->settings,
                               .quota = next->quota,
                               .created_ms = next->created_ms,
                           },
                           err);
    if (result < 0)
        catalog_exists(err, "another org has the name %s or the domain %s", next->name,
                       next->domain ? next->domain : "(none)");
    return result;
}

static void org_written(struct catalog_op *op)
{
    struct org_op *change = KG_CONTAINER(op, struct org_op, op);
    struct catalog *catalog = op->catalog;
    const struct catalog_org *org = org_move(catalog, &change->next);
    change->put(&op->json, org);
    audit_emit(host_audit(catalog->host),
               change->is_new ? AUDIT_CATALOG_ORG_CREATED : AUDIT_CATALOG_ORG_CHANGED,
               kg_str(op->asker.request_id), AUDIT_V_TEXT(org->id), AUDIT_V_TEXT(org->name),
               AUDIT_V_TEXT(org->deleted  ? "deleted"
                            : org->active ? "active"
                                          : "inactive"),
               AUDIT_V_TEXT(op->asker.operator_id));
}

static void org_op_clean(struct catalog_op *op)
{
    org_clear(&KG_CONTAINER(op, struct org_op, op)->next);
    org_clear(&KG_CONTAINER(op, struct org_op, op)->before);
}

static struct org_op *org_op_new(const struct catalog_request *request,
                                 const struct catalog_org *now)
{
    struct org_op *change = catalog_op_new(request, sizeof(*change));
    change->op.task.run = run_org;
    change->op.task.org = NULL; /* which there are is nobody's own */
    change->op.then = org_written;
    change->op.clean = org_op_clean;
    change->put = org_put_answer;
    change->next = org_copy(now);
    change->before = org_copy(now);
    return change;
}

/* Lower case, since names of hosts are. */
static char *orgs_domain_of(const struct kg_node *body)
{
    struct kg_str text = kg_node_text(body, "domain");
    char *domain = text.length > 0 ? kg_str_dup(text) : NULL;
    for (char *c = domain; c != NULL && *c != '\0'; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
    return domain;
}

static int orgs_check_room(const struct catalog *catalog, struct kg_err *err)
{
    if (kg_map_count(catalog->orgs) < CATALOG_ORGS_MAX)
        return 0;
    return kg_fail(err, KG_E_QUOTA, "there are %d orgs already", CATALOG_ORGS_MAX);
}

void catalog_org_create(const struct catalog_request *request)
{
    struct kg_err err = {0};
    struct catalog_org none = {.active = true, .created_ms = kg_wall_ms()};
    if (orgs_check_room(request->catalog, &err) < 0) {
        catalog_fail(request, &err);
        return;
    }
    struct org_op *change = org_op_new(request, &none);
    struct catalog_org *next = &change->next;
    change->is_new = true;
    catalog_uuid(next->id);
    next->name = kg_str_dup(kg_node_text(request->body, "name"));
    next->domain = orgs_domain_of(request->body);
    next->profile = catalog_merge("{}", request->body, profile_keys);
    next->settings = kg_strdup("{}");
    next->quota = catalog_merge("{}", kg_node_get(request->body, "quota"), NULL);
    catalog_op_write(&change->op);
}

/* What an org says of itself, its admin may change; the rest is up to who is over all of them. */
void catalog_org_change(const struct catalog_request *request, bool by_system)
{
    const struct kg_node *body = request->body;
    const struct catalog_org *org = catalog_request_org(request);
    if (org == NULL)
        return;
    struct org_op *change = org_op_new(request, org);
    struct catalog_org *next = &change->next;
    orgs_replace(&next->profile, catalog_merge(org->profile, body, profile_keys));
    if (by_system) {
        if (kg_node_text(body, "name").data != NULL)
            orgs_replace(&next->name, kg_str_dup(kg_node_text(body, "name")));
        if (kg_node_get(body, "domain") != NULL)
            orgs_replace(&next->domain, orgs_domain_of(body));
        if (kg_node_text(body, "status").data != NULL)
            next->active = kg_str_is(kg_node_text(body, "status"), "active");
        if (kg_node_get(body, "is_deleted") != NULL)
            next->deleted = kg_node_is_true(body, "is_deleted");
        orgs_replace(&next->quota, catalog_merge(org->quota, kg_node_get(body, "quota"), NULL));
    }
    catalog_op_write(&change->op);
}

/* -- settings, quota --------------------------------------------------------------------------- */

static void orgs_put_settings(struct kg_buf *out, const struct catalog_org *org)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "org_id", org->id);
    kg_json_named_raw(&json, "settings", kg_str(org->settings));
    kg_json_end(&json, '}');
}

void catalog_org_settings(const struct catalog_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    const struct catalog_org *org = catalog_request_org(request);
    if (org == NULL)
        return;
    orgs_put_settings(&out, org);
    catalog_reply(request, &out);
}

void catalog_org_settings_change(const struct catalog_request *request)
{
    const struct catalog_org *org = catalog_request_org(request);
    if (org == NULL)
        return;
    struct org_op *change = org_op_new(request, org);
    change->put = orgs_put_settings;
    orgs_replace(&change->next.settings, catalog_merge(org->settings, request->body, NULL));
    catalog_op_write(&change->op);
}

void catalog_org_quota_show(const struct catalog_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    const struct catalog_org *org = catalog_request_org(request);
    if (org == NULL)
        return;
    struct kg_json_writer json = kg_json_writer(&out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "org_id", org->id);
    kg_json_named_raw(&json, "quota", kg_str(org->quota));
    kg_json_named_begin(&json, "used", '{');
    kg_json_named_int(&json, "members", (int64_t)catalog_members_count(request->catalog, org));
    kg_json_named_int(&json, "orchestrators",
                      (int64_t)catalog_orchestrators_count(request->catalog, org));
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    catalog_reply(request, &out);
}
