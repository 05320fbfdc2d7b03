/*
 * What packages may reach outside of their cages, which is nothing until an org's admin grants it,
 * and never more than catalog.org_may lets the org have: that is asked when something is granted,
 * and again whenever a process is made ready. Only hosts can be granted.
 */
#include "catalog/packages.h"

#include "catalog/grants.h"
#include "manifest/capability.h"

#include <errno.h>
#include <stdlib.h>

#define GRANTS_MAX 100 /* of one package in one org */

/* -- the ceiling ------------------------------------------------------------------------------- */

static const struct config_named *may_of(const struct catalog *catalog, const char *name)
{
    return config_named_get(&host_config(catalog->host)->catalog_org_may, kg_str(name));
}

static bool may_covers(const struct config_named *named, const struct capability *wanted)
{
    struct capability_set allowed = {0};
    bool covers = named != NULL && capability_set_parse(named->list, &allowed, NULL, NULL) == 0 &&
                  capability_set_covers(&allowed, wanted);
    capability_set_free(&allowed);
    return covers;
}

/* By the org's name, or for all of them. */
static bool org_may(const struct catalog *catalog, const struct catalog_org *org,
                    const struct capability *wanted)
{
    return may_covers(may_of(catalog, org->name), wanted) ||
           may_covers(may_of(catalog, "*"), wanted);
}

static int grant_parse(struct kg_str text, struct capability *ret_capability, struct kg_err *err)
{
    kg_auto(capability_free) struct capability capability = {0};
    if (capability_parse(text, &capability, err) < 0) {
        err->code = KG_E_INVALID_PARAMS;
        return -EINVAL;
    }
    if (capability.kind != CAPABILITY_NET_HOST && capability.kind != CAPABILITY_NET_ANY) {
        kg_fail(err, KG_E_INVALID_PARAMS,
                "%.*s: a package of the catalog can be granted hosts alone", KG_STR_CUT(text, 200));
        return kg_hint(err, "net:HOST:PORT");
    }
    *ret_capability = capability;
    capability = (struct capability){0};
    return 0;
}

static int grant_check(const struct catalog *catalog, const struct catalog_org *org,
                       const struct capability *wanted, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (org_may(catalog, org, wanted))
        return 0;
    capability_print(wanted, &text);
    kg_fail(err, KG_E_REFUSED, "org %s may not reach %s", org->name, kg_buf_terminate(&text));
    return kg_hint(err, "the operator says in [catalog.org_may] of config.toml what each org may");
}

int org_grants_check(const struct catalog *catalog, const char *org_id, const char *capability,
                     struct kg_err *err)
{
    kg_auto(capability_free) struct capability wanted = {0};
    const struct catalog_org *org = catalog_org_find(catalog, kg_str(org_id));
    if (org == NULL)
        return kg_fail(err, KG_E_NOT_FOUND, "there is no org %s", org_id);
    int result = grant_parse(kg_str(capability), &wanted, err);
    return result < 0 ? result : grant_check(catalog, org, &wanted, err);
}

/* -- for who runs it --------------------------------------------------------------------------- */

static void take_grant(void *data, const struct state_package_grant *grant)
{
    kg_list_add(data, kg_strdup(grant->capability));
}

int org_grants_read(struct state *state, const char *org, const char *pid, char ***ret_grants,
                    struct kg_err *err)
{
    char **grants = kg_list_new(0);
    int result = state_package_grants(state, org, pid, take_grant, &grants, err);
    if (result == 0)
        *ret_grants = kg_steal(&grants);
    kg_list_free(grants);
    return result;
}

char **org_grants_reaches(const struct catalog *catalog, const char *org_id, char *const *grants)
{
    const struct catalog_org *org = catalog_org_find(catalog, kg_str(org_id));
    char **reaches = kg_list_new(0);
    for (char *const *at = grants; org != NULL && at != NULL && *at != NULL; at++) {
        kg_auto(capability_free) struct capability capability = {0};
        struct kg_err err;
        if (grant_parse(kg_str(*at), &capability, &err) == 0 && org_may(catalog, org, &capability))
            kg_list_add(&reaches, kg_strdup(*at + strlen("net:")));
    }
    return reaches;
}

/* -- showing ----------------------------------------------------------------------------------- */

struct grants_op {
    struct catalog_op op;
    char *pid;        /* owned */
    char *capability; /* owned: to grant or take back; NULL: it is shown alone */
    bool revokes;
    struct package_row row;
    struct kg_buf rows; /* of the answer */
    struct kg_json_writer json;
    size_t count;
    bool is_there; /* before */
};

static void grants_op_clean(struct catalog_op *op)
{
    struct grants_op *asked = KG_CONTAINER(op, struct grants_op, op);
    free(asked->pid);
    free(asked->capability);
    package_row_free(&asked->row);
    kg_buf_free(&asked->rows);
}

static void count_grant(void *data, const struct state_package_grant *grant)
{
    struct grants_op *asked = data;
    asked->count++;
    asked->is_there |= strcmp(grant->capability, asked->capability) == 0;
}

static int grants_write(struct grants_op *asked, struct state *state, struct kg_err *err)
{
    const struct state_package_grant grant = {
        .org = asked->op.org,
        .pid = asked->pid,
        .capability = asked->capability,
        .granted_by = asked->op.asker.operator_id,
        .at_ms = kg_wall_ms(),
    };
    int result = state_package_grants(state, asked->op.org, asked->pid, count_grant, asked, err);
    if (result < 0)
        return result;
    if (asked->revokes && !asked->is_there)
        return kg_fail(err, KG_E_NOT_FOUND, "package %s was not granted %s", asked->pid,
                       asked->capability);
    if (!asked->revokes && !asked->is_there && asked->count >= GRANTS_MAX)
        return kg_fail(err, KG_E_QUOTA, "package %s has %d grants already", asked->pid, GRANTS_MAX);
    return asked->revokes ? state_package_grant_remove(state, &grant, err)
                          : state_package_grant_set(state, &grant, err);
}

static void put_grant(void *data, const struct state_package_grant *grant)
{
    struct grants_op *asked = data;
    struct kg_json_writer *json = &asked->json;
    kg_json_begin(json, '{');
    kg_json_named_text(json, "capability", grant->capability);
    kg_json_named_text(json, "granted_by", grant->granted_by);
    kg_json_named_time(json, "granted_at", grant->at_ms);
    kg_json_end(json, '}');
}

static int run_grants(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct grants_op *asked = KG_CONTAINER(task, struct grants_op, op.task);
    const struct state_package_query query = {
        .org = asked->op.org,
        .with_system = true,
        .pid = asked->pid,
        .latest_only = true,
        .system_enabled_only = true,
    };
    int result = package_find(state, &query, &asked->row, err);
    if (result == 0 && asked->capability != NULL)
        result = grants_write(asked, state, err);
    asked->json = kg_json_writer(&asked->rows);
    kg_json_begin(&asked->json, '[');
    if (result == 0)
        result = state_package_grants(state, asked->op.org, asked->pid, put_grant, asked, err);
    kg_json_end(&asked->json, ']');
    return result;
}

static void put_may(struct kg_json_writer *json, const struct config_named *named)
{
    for (char *const *at = named ? named->list : NULL; at != NULL && *at != NULL; at++)
        kg_json_text(json, *at);
}

/* On the loop, which has the configuration. */
static void grants_answer(struct catalog_op *op)
{
    struct grants_op *asked = KG_CONTAINER(op, struct grants_op, op);
    const struct catalog_org *org = catalog_org_find(op->catalog, kg_str(op->org));
    struct kg_json_writer json = kg_json_writer(&op->json);
    struct kg_str declares = KG_STR("[]");
    (void)kg_json_member(kg_str(asked->row.row.card), "declares", &declares);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "org_id", op->org);
    kg_json_named_text(&json, "pid", asked->pid);
    kg_json_named_raw(&json, "declares", declares);
    kg_json_named_raw(&json, "grants", kg_buf_view(&asked->rows));
    kg_json_named_begin(&json, "org_may", '[');
    put_may(&json, org ? may_of(op->catalog, org->name) : NULL);
    put_may(&json, may_of(op->catalog, "*"));
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    if (asked->capability == NULL || asked->is_there != asked->revokes)
        return;
    audit_emit(host_audit(op->catalog->host),
               asked->revokes ? AUDIT_CATALOG_GRANT_REVOKED : AUDIT_CATALOG_GRANTED,
               kg_str(op->asker.request_id), AUDIT_V_TEXT(op->org), AUDIT_V_TEXT(asked->pid),
               AUDIT_V_TEXT(asked->capability), AUDIT_V_TEXT(op->asker.operator_id));
    catalog_tell_changed(op->catalog, op->org, asked->pid);
}

static struct grants_op *grants_op_new(const struct catalog_request *request, struct kg_str pid)
{
    struct grants_op *asked = catalog_op_new(request, sizeof(*asked));
    asked->op.task.run = run_grants;
    asked->op.then = grants_answer;
    asked->op.clean = grants_op_clean;
    asked->pid = kg_str_dup(pid);
    return asked;
}

void catalog_grants(const struct catalog_request *request, struct kg_str pid)
{
    if (catalog_request_org(request) != NULL)
        catalog_op_read(&grants_op_new(request, pid)->op);
}

static void grants_change(const struct catalog_request *request, struct kg_str pid,
                          struct kg_str capability, bool revokes)
{
    struct kg_err err = {0};
    kg_auto(capability_free) struct capability wanted = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    const struct catalog_org *org = catalog_request_org(request);
    if (org == NULL)
        return;
    if (grant_parse(capability, &wanted, &err) < 0 ||
        (!revokes && grant_check(request->catalog, org, &wanted, &err) < 0)) {
        catalog_fail(request, &err);
        return;
    }
    struct grants_op *asked = grants_op_new(request, pid);
    capability_print(&wanted, &text);
    asked->capability = kg_str_dup(kg_buf_view(&text));
    asked->revokes = revokes;
    catalog_op_write(&asked->op);
}

void catalog_grant(const struct catalog_request *request, struct kg_str pid)
{
    grants_change(request, pid, kg_node_text(request->body, "capability"), false);
}

void catalog_revoke(const struct catalog_request *request, struct kg_str pid,
                    struct kg_str capability)
{
    grants_change(request, pid, capability, true);
}
