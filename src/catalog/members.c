/*
 * Principals, who tokens belong to, and the orgs that they are members of. All are in memory, since
 * every request asks what its sender may do; a change counts once its row is written, and what is
 * taken away from the moment on in which that is asked for.
 */
#include "catalog/internal.h"

#include <stdlib.h>

/* -- the tables -------------------------------------------------------------------------------- */

static char *member_key(struct kg_str org, struct kg_str principal)
{
    return kg_format("%.*s %.*s", KG_STR_CUT(org, 64), KG_STR_CUT(principal, 64));
}

const struct catalog_member *catalog_member_find(const struct catalog *catalog, struct kg_str org,
                                                 struct kg_str principal)
{
    kg_auto(kg_free) char *key = member_key(org, principal);
    return kg_map_get(catalog->members, kg_str(key));
}

size_t catalog_members_count(const struct catalog *catalog, const struct catalog_org *org)
{
    size_t count = 0;
    void *each;
    for (size_t at = 0; kg_map_next(catalog->members, &at, &(struct kg_str){0}, &each);)
        count += ((const struct catalog_member *)each)->org == org;
    return count;
}

static struct catalog_principal *principal_of(const struct catalog *catalog,
                                              struct kg_str id_or_name)
{
    struct catalog_principal *found = kg_map_get(catalog->principals, id_or_name);
    void *each;
    for (size_t at = 0;
         found == NULL && kg_map_next(catalog->principals, &at, &(struct kg_str){0}, &each);)
        if (kg_str_is(id_or_name, ((struct catalog_principal *)each)->name))
            found = each;
    return found;
}

const char *catalog_principal_find(const struct catalog *catalog, struct kg_str id_or_name,
                                   const char **ret_name)
{
    const struct catalog_principal *found = principal_of(catalog, id_or_name);
    if (found == NULL)
        return NULL;
    *ret_name = found->name;
    return found->id;
}

static struct catalog_principal *keep_principal(struct catalog *catalog,
                                                const struct state_principal *row)
{
    struct catalog_principal *principal = kg_map_get(catalog->principals, kg_str(row->id));
    if (principal == NULL) {
        principal = kg_alloc(sizeof(*principal));
        kg_str_copy(kg_str(row->id), principal->id, sizeof(principal->id));
        kg_map_set(catalog->principals, kg_str(row->id), principal);
    }
    free(principal->name);
    free(principal->email);
    principal->name = kg_strdup(row->name);
    principal->email = kg_strdup(row->email);
    principal->sys_admin = row->sys_admin;
    principal->created_ms = row->created_ms;
    return principal;
}

static void members_take_principal(void *data, const struct state_principal *row)
{
    keep_principal(data, row);
}

static void members_take_member(void *data, const struct state_member *row)
{
    struct catalog *catalog = data;
    const struct catalog_org *org = kg_map_get(catalog->orgs, kg_str(row->org));
    const struct catalog_principal *principal =
        kg_map_get(catalog->principals, kg_str(row->principal));
    if (org == NULL || principal == NULL)
        return;
    kg_auto(kg_free) char *key = member_key(kg_str(row->org), kg_str(row->principal));
    struct catalog_member *member = kg_map_get(catalog->members, kg_str(key));
    if (member == NULL) {
        member = kg_alloc(sizeof(*member));
        kg_map_set(catalog->members, kg_str(key), member);
    }
    *member = (struct catalog_member){org, principal, row->is_admin, row->created_ms};
}

static void drop_member(struct catalog *catalog, struct kg_str org, struct kg_str principal)
{
    kg_auto(kg_free) char *key = member_key(org, principal);
    free(kg_map_remove(catalog->members, kg_str(key)));
}

int catalog_members_load(struct catalog *catalog, struct state *state, struct kg_err *err)
{
    int result = state_principals(state, members_take_principal, catalog, err);
    return result < 0 ? result : state_members(state, members_take_member, catalog, err);
}

void catalog_members_take(struct catalog *catalog, const struct catalog *fresh)
{
    void *each;
    for (size_t at = 0; kg_map_next(fresh->principals, &at, &(struct kg_str){0}, &each);) {
        const struct catalog_principal *new = each;
        keep_principal(catalog, &(struct state_principal){new->id, new->name, new->email,
                                                          new->sys_admin, new->created_ms});
    }
    char **gone = kg_list_new(0);
    struct kg_str key;
    for (size_t at = 0; kg_map_next(catalog->members, &at, &key, &each);)
        if (kg_map_get(fresh->members, key) == NULL)
            kg_list_add(&gone, kg_str_dup(key));
    for (char **name = gone; *name != NULL; name++)
        free(kg_map_remove(catalog->members, kg_str(*name)));
    kg_list_free(gone);
    for (size_t at = 0; kg_map_next(fresh->members, &at, &key, &each);) {
        const struct catalog_member *new = each;
        members_take_member(catalog, &(struct state_member){new->org->id, new->principal->id,
                                                            new->is_admin, new->created_ms});
    }
}

void catalog_members_free(struct catalog *catalog)
{
    void *each;
    for (size_t at = 0; kg_map_next(catalog->members, &at, &(struct kg_str){0}, &each);)
        free(each);
    for (size_t at = 0; kg_map_next(catalog->principals, &at, &(struct kg_str){0}, &each);) {
        free(((struct catalog_principal *)each)->name);
        free(((struct catalog_principal *)each)->email);
        free(each);
    }
    kg_map_free(catalog->members);
    kg_map_free(catalog->principals);
}

/* -- answers ----------------------------------------------------------------------------------- */

static void members_put_user(struct kg_json_writer *json, const struct catalog_principal *principal,
                             const struct catalog_member *member_or_null)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "user_id", principal->id);
    kg_json_named_text(json, "name", principal->name);
    kg_json_named_text(json, "email", principal->email);
    kg_json_named_time(json, "created_at", principal->created_ms);
    if (member_or_null == NULL) {
        kg_json_named_bool(json, "is_sys_admin", principal->sys_admin);
    } else {
        kg_json_named_text(json, "org_id", member_or_null->org->id);
        kg_json_named_bool(json, "is_admin", member_or_null->is_admin);
    }
    kg_json_end(json, '}');
}

void catalog_users_list(const struct catalog_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    void *each;
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "users", '[');
    for (size_t at = 0; kg_map_next(request->catalog->principals, &at, &(struct kg_str){0}, &each);)
        members_put_user(&json, each, NULL);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    catalog_reply(request, &out);
}

void catalog_members_list(const struct catalog_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    const struct catalog_org *org = catalog_request_org(request);
    void *each;
    if (org == NULL)
        return;
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "users", '[');
    for (size_t at = 0; kg_map_next(request->catalog->members, &at, &(struct kg_str){0}, &each);) {
        const struct catalog_member *member = each;
        if (member->org == org)
            members_put_user(&json, member->principal, member);
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    catalog_reply(request, &out);
}

/* -- changes ----------------------------------------------------------------------------------- */

/* What is written: the principal, the membership, or both; texts are owned. */
struct member_op {
    struct catalog_op op;
    char id[CATALOG_ID_TEXT];
    char *name, *email;
    bool sys_admin, is_admin;
    int64_t created_ms, member_ms;
    bool writes_principal, writes_member, removes_member;
    char *email_before; /* owned; of one that is known, as the change was made of it */
    bool is_known, sys_admin_before;
    bool is_new;          /* the member */
    int64_t bound, count; /* of members, then: the most (-1: any), and those that there are */
    enum audit_event event;
};

static void member_op_clean(struct catalog_op *op)
{
    struct member_op *change = KG_CONTAINER(op, struct member_op, op);
    free(change->name);
    free(change->email);
    free(change->email_before);
}

static struct state_principal principal_row(const struct member_op *change)
{
    return (struct state_principal){change->id, change->name, change->email, change->sys_admin,
                                    change->created_ms};
}

static struct state_member member_row(const struct member_op *change)
{
    return (struct state_member){change->op.org, change->id, change->is_admin, change->member_ms};
}

/* Another node may have changed him since this one read him. */
static void members_compare(void *data, const struct state_principal *row)
{
    struct member_op *change = data;
    const char *before = change->email_before ? change->email_before : "";
    if (strcmp(row->id, change->id) == 0 && (row->sys_admin != change->sys_admin_before ||
                                             strcmp(row->email ? row->email : "", before) != 0))
        change->is_known = false;
}

static int members_check_principal(struct member_op *change, struct state *state,
                                   struct kg_err *err)
{
    if (!change->writes_principal || !change->is_known)
        return 0;
    int result = state_principals(state, members_compare, change, err);
    if (result < 0 || change->is_known)
        return result;
    kg_fail(err, KG_E_CONFLICT, "the user %s was changed meanwhile", change->name);
    return kg_hint(err, "look at him, and try again");
}

static void members_count_one(void *data, const struct state_member *row)
{
    struct member_op *change = data;
    change->count += strcmp(row->org, change->op.org) == 0;
}

static int members_check_room(struct member_op *change, struct state *state, struct kg_err *err)
{
    if (!change->is_new || change->bound < 0)
        return 0;
    int result = state_members(state, members_count_one, change, err);
    return result < 0 || change->count < change->bound
               ? result
               : kg_fail(err, KG_E_QUOTA, "the org may have %lld members, and has them",
                         (long long)change->bound);
}

static int run_member(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct member_op *change = KG_CONTAINER(task, struct member_op, op.task);
    const struct state_principal principal = principal_row(change);
    const struct state_member member = member_row(change);
    int result = members_check_principal(change, state, err);
    if (result == 0)
        result = members_check_room(change, state, err);
    if (result < 0)
        return result;
    if (change->writes_principal)
        result = state_principal_set(state, &principal, err);
    if (result < 0)
        catalog_exists(err, "there is a user %s already", change->name);
    if (result == 0 && change->writes_member)
        result = state_member_set(state, &member, err);
    if (result == 0 && change->removes_member)
        result = state_member_remove(state, change->op.org, change->id, err);
    return result;
}

static void members_put_changed(struct member_op *change)
{
    struct catalog *catalog = change->op.catalog;
    struct kg_json_writer json = kg_json_writer(&change->op.json);
    const struct catalog_principal *principal = kg_map_get(catalog->principals, kg_str(change->id));
    const struct catalog_member *member =
        catalog_member_find(catalog, kg_str(change->op.org), kg_str(change->id));
    if (!change->removes_member) {
        members_put_user(&json, principal, change->op.org[0] != '\0' ? member : NULL);
        return;
    }
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "user_id", change->id);
    kg_json_named_text(&json, "org_id", change->op.org);
    kg_json_end(&json, '}');
}

static void member_written(struct catalog_op *op)
{
    struct member_op *change = KG_CONTAINER(op, struct member_op, op);
    struct catalog *catalog = op->catalog;
    const struct state_principal principal = principal_row(change);
    const struct state_member member = member_row(change);
    if (change->writes_principal)
        keep_principal(catalog, &principal);
    if (change->writes_member)
        members_take_member(catalog, &member);
    if (change->removes_member) /* it may have been read again meanwhile */
        drop_member(catalog, kg_str(op->org), kg_str(change->id));
    members_put_changed(change);
    const char *role = op->org[0] == '\0' ? change->sys_admin ? "sys_admin" : "user"
                       : change->is_admin ? "org_admin"
                                          : "org_member";
    audit_emit(host_audit(catalog->host), change->event, kg_str(op->asker.request_id),
               AUDIT_V_TEXT(op->org[0] != '\0' ? op->org : NULL), AUDIT_V_TEXT(change->name),
               AUDIT_V_TEXT(change->removes_member ? NULL : role),
               AUDIT_V_TEXT(op->asker.operator_id));
}

/* Principals are no org's. */
static void member_op_write(struct member_op *change)
{
    if (change->writes_principal)
        change->op.task.org = NULL;
    catalog_op_write(&change->op);
}

static struct member_op *member_op_new(const struct catalog_request *request,
                                       const struct catalog_principal *principal_or_null)
{
    struct member_op *change = catalog_op_new(request, sizeof(*change));
    change->op.task.run = run_member;
    change->op.then = member_written;
    change->op.clean = member_op_clean;
    change->member_ms = kg_wall_ms();
    if (principal_or_null == NULL) {
        catalog_uuid(change->id);
        change->created_ms = change->member_ms;
        change->writes_principal = true;
        return change;
    }
    kg_str_copy(kg_str(principal_or_null->id), change->id, sizeof(change->id));
    change->name = kg_strdup(principal_or_null->name);
    change->email = kg_strdup(principal_or_null->email);
    change->sys_admin = change->sys_admin_before = principal_or_null->sys_admin;
    change->email_before = kg_strdup(principal_or_null->email);
    change->is_known = true;
    change->created_ms = principal_or_null->created_ms;
    return change;
}

static void members_set_text(char **text, const struct kg_node *body, const char *key)
{
    struct kg_str value = kg_node_text(body, key);
    if (value.data == NULL)
        return;
    free(*text);
    *text = kg_str_dup(value);
}

void catalog_user_create(const struct catalog_request *request)
{
    struct kg_err err = {0};
    if (kg_map_count(request->catalog->principals) >= CATALOG_PRINCIPALS_MAX) {
        kg_fail(&err, KG_E_QUOTA, "there are %d users already", CATALOG_PRINCIPALS_MAX);
        catalog_fail(request, &err);
        return;
    }
    struct member_op *change = member_op_new(request, NULL);
    change->event = AUDIT_CATALOG_USER_CHANGED;
    members_set_text(&change->name, request->body, "name");
    members_set_text(&change->email, request->body, "email");
    change->sys_admin = kg_node_is_true(request->body, "is_sys_admin");
    member_op_write(change);
}

static void fail_no_user(const struct catalog_request *request, struct kg_str user)
{
    struct kg_err err = {0};
    kg_fail(&err, KG_E_NOT_FOUND, "there is no user \"%.*s\"%s", KG_STR_CUT(user, 64),
            request->org.data ? " in this org" : "");
    catalog_fail(request, &err);
}

void catalog_user_change(const struct catalog_request *request, struct kg_str user)
{
    const struct catalog_principal *principal = principal_of(request->catalog, user);
    if (principal == NULL) {
        fail_no_user(request, user);
        return;
    }
    struct member_op *change = member_op_new(request, principal);
    change->event = AUDIT_CATALOG_USER_CHANGED;
    change->writes_principal = true;
    members_set_text(&change->email, request->body, "email");
    if (kg_node_get(request->body, "is_sys_admin") != NULL)
        change->sys_admin = kg_node_is_true(request->body, "is_sys_admin");
    member_op_write(change);
}

/* Who is named and not known yet is made; he gets in once the operator makes a token for him. */
void catalog_member_add(const struct catalog_request *request)
{
    struct kg_err err = {0};
    struct kg_str user = kg_node_text(request->body, "user");
    const struct catalog_org *org = catalog_request_org(request);
    if (org == NULL)
        return;
    const struct catalog_principal *principal = principal_of(request->catalog, user);
    int64_t bound = catalog_org_quota(org, "max_members");
    if (principal != NULL &&
        catalog_member_find(request->catalog, request->org, kg_str(principal->id)) != NULL)
        kg_fail(&err, KG_E_EXISTS, "%s is a member of %s already", principal->name, org->name);
    else if (bound >= 0 && (int64_t)catalog_members_count(request->catalog, org) >= bound)
        kg_fail(&err, KG_E_QUOTA, "%s may have %lld members, and has them", org->name,
                (long long)bound);
    else if (principal == NULL &&
             kg_map_count(request->catalog->principals) >= CATALOG_PRINCIPALS_MAX)
        kg_fail(&err, KG_E_QUOTA, "there are %d users already", CATALOG_PRINCIPALS_MAX);
    if (err.code != KG_OK) {
        catalog_fail(request, &err);
        return;
    }
    struct member_op *change = member_op_new(request, principal);
    change->event = AUDIT_CATALOG_MEMBER_ADDED;
    change->writes_member = change->is_new = true;
    change->bound = bound;
    change->is_admin = kg_node_is_true(request->body, "is_admin");
    if (principal == NULL) {
        members_set_text(&change->name, request->body, "user");
        members_set_text(&change->email, request->body, "email");
    }
    member_op_write(change);
}

/* The member of the org that the path names; NULL: there is none, and it was answered. */
static const struct catalog_member *request_member(const struct catalog_request *request,
                                                   struct kg_str user)
{
    if (catalog_request_org(request) == NULL)
        return NULL;
    const struct catalog_principal *principal = principal_of(request->catalog, user);
    const struct catalog_member *member =
        principal ? catalog_member_find(request->catalog, request->org, kg_str(principal->id))
                  : NULL;
    if (member == NULL)
        fail_no_user(request, user);
    return member;
}

void catalog_member_change(const struct catalog_request *request, struct kg_str user)
{
    const struct catalog_member *member = request_member(request, user);
    if (member == NULL)
        return;
    struct member_op *change = member_op_new(request, member->principal);
    change->event = AUDIT_CATALOG_MEMBER_CHANGED;
    change->writes_member = true;
    change->is_admin = kg_node_is_true(request->body, "is_admin");
    change->member_ms = member->created_ms;
    member_op_write(change);
}

/* He is none from this moment on, even if the disk then refuses to forget him. */
void catalog_member_remove(const struct catalog_request *request, struct kg_str user)
{
    const struct catalog_member *member = request_member(request, user);
    if (member == NULL)
        return;
    struct member_op *change = member_op_new(request, member->principal);
    change->event = AUDIT_CATALOG_MEMBER_REMOVED;
    change->removes_member = true;
    drop_member(request->catalog, request->org, kg_str(change->id));
    member_op_write(change);
}
