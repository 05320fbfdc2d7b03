/* kaged org: orgs, their members, and the users that tokens can belong to. */
#include "cli/rows.h"

static const struct row list_rows[] = {
    {"!orgs", .words = "there are no orgs\n"},
    {.each = "orgs",
     .table = "NAME={name}; DOMAIN={domain}; STATUS={status}; ID={org_id}; CREATED={created_at}"},
    {0},
};
const struct cli_page page_org_list = {"GET", "/api/orgs", .rows = list_rows};

static const struct member create_members[] = {{"name", "1"}, {"domain", "--domain"}, {0}};
const struct cli_page page_org_create = {"POST", "/api/admin/orgs", create_members,
                                         .words = "created org {name}, with the id {org_id}\n"};

#define ORG_CHANGE "PATCH", "/api/admin/orgs/{1}"

const struct cli_page page_org_activate = {ORG_CHANGE, .body = "{\"status\":\"active\"}",
                                           .words = "org {name} is {status}\n"};
const struct cli_page page_org_deactivate = {ORG_CHANGE, .body = "{\"status\":\"inactive\"}",
                                             .words = "org {name} is {status}\n"};
const struct cli_page page_org_delete = {ORG_CHANGE, .body = "{\"is_deleted\":true}",
                                         .words = "org {name} is deleted\n"};

/* -- members and users ------------------------------------------------------------------------- */

static const struct cell role_cells[] = {{"ROLE", "is_sys_admin", "sys_admin", NULL},
                                         {"ROLE", "is_admin", "org_admin", NULL},
                                         {"ROLE", "org_id", "org_member", NULL},
                                         {0}};
static const struct row user_rows[] = {
    {"!users", .words = "there are none\n"},
    {.each = "users",
     .table = "NAME={name}; ROLE; EMAIL={email}; ID={user_id}",
     .cells = role_cells},
    {0},
};
const struct cli_page page_org_users = {"GET", "/api/admin/users", .rows = user_rows};
const struct cli_page page_org_members = {"GET", "/api/orgs/{1}/users", .rows = user_rows};

static const struct member add_members[] = {
    {"user", "2"}, {"is_admin", "--admin", MEMBER_FLAG}, {0}};
static const struct row added_rows[] = {
    {"is_admin", .words = "{name} is an admin of {@1}\n"},
    {"!is_admin", .words = "{name} is a member of {@1}\n"},
    {0},
};
const struct cli_page page_org_add_member = {"POST", "/api/orgs/{1}/members", add_members,
                                             .rows = added_rows};
const struct cli_page page_org_remove_member = {"DELETE", "/api/orgs/{1}/users/{2}",
                                                .words = "{@2} is no longer a member of {@1}\n"};
