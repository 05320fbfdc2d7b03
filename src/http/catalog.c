/*
 * The routes of the catalog: each hands on what its path and body say, and who asks. That he may,
 * in this org, was seen at the door.
 */
#include "http/internal.h"

struct catalog_request http_catalog_request(struct http_request *request)
{
    struct catalog *catalog = http_server_of(request)->catalog;
    struct kg_str named = http_path_parameter(request, "org_id");
    const struct catalog_org *org = catalog_org_find(catalog, named);
    return (struct catalog_request){
        .catalog = catalog,
        .asker = {.operator_id = http_operator(request),
                  .principal = request->principal,
                  .request_id = request->request_id},
        .org = org                ? kg_str(org->id)
               : named.length > 0 ? named
                                  : KG_STR_NULL,
        .body = request->tree ? request->tree->root : NULL,
        .on_answer = http_on_answer,
        .data = request,
    };
}

/* -- orgs -------------------------------------------------------------------------------------- */

void http_handle_orgs(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_orgs_list(&asked, false);
}

void http_handle_orgs_all(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_orgs_list(&asked, true);
}

void http_handle_org(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_org_show(&asked);
}

void http_handle_org_create(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_org_create(&asked);
}

void http_handle_org_profile(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_org_change(&asked, false);
}

void http_handle_org_change(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_org_change(&asked, true);
}

void http_handle_org_settings(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_org_settings(&asked);
}

void http_handle_org_settings_change(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_org_settings_change(&asked);
}

void http_handle_org_quota(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_org_quota_show(&asked);
}

/* -- users and members ------------------------------------------------------------------------- */

void http_handle_users(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_users_list(&asked);
}

void http_handle_user_create(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_user_create(&asked);
}

void http_handle_user_change(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_user_change(&asked, http_path_parameter(request, "user_id"));
}

void http_handle_members(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_members_list(&asked);
}

void http_handle_member_add(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_member_add(&asked);
}

void http_handle_member_change(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_member_change(&asked, http_path_parameter(request, "user_id"));
}

void http_handle_member_remove(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_member_remove(&asked, http_path_parameter(request, "user_id"));
}

/* -- models ------------------------------------------------------------------------------------ */

void http_handle_llm_list(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_llm_list(&asked);
}

void http_handle_llm_show(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_llm_show(&asked, http_path_parameter(request, "llm_config_id"));
}

void http_handle_llm_create(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_llm_create(&asked);
}

void http_handle_llm_change(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_llm_change(&asked, http_path_parameter(request, "llm_config_id"));
}

void http_handle_llm_remove(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_llm_remove(&asked, http_path_parameter(request, "llm_config_id"));
}
