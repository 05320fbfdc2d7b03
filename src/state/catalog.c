/* The catalog's rows, whatever keeps them: each call goes to the backend that opened the database.
 */
#include "state/internal.h"

int state_org_set(struct state *state, const struct state_org *org, struct kg_err *err)
{
    return state_backend(state)->catalog->org_set(state, org, err);
}

int state_orgs(struct state *state, state_org_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->catalog->orgs(state, visit, data, err);
}

int state_principal_set(struct state *state, const struct state_principal *principal,
                        struct kg_err *err)
{
    return state_backend(state)->catalog->principal_set(state, principal, err);
}

int state_principals(struct state *state, state_principal_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->catalog->principals(state, visit, data, err);
}

int state_member_set(struct state *state, const struct state_member *member, struct kg_err *err)
{
    return state_backend(state)->catalog->member_set(state, member, err);
}

int state_member_remove(struct state *state, const char *org, const char *principal,
                        struct kg_err *err)
{
    return state_backend(state)->catalog->member_remove(state, org, principal, err);
}

int state_members(struct state *state, state_member_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->catalog->members(state, visit, data, err);
}

int state_package_add(struct state *state, const struct state_package *package, struct kg_err *err)
{
    return state_backend(state)->catalog->package_add(state, package, err);
}

int state_package_set_enabled(struct state *state, const char *org, const char *id, bool enabled,
                              struct kg_err *err)
{
    return state_backend(state)->catalog->package_set_enabled(state, org, id, enabled, err);
}

int state_package_set_latest(struct state *state, const char *org, const char *pid, const char *id,
                             struct kg_err *err)
{
    return state_backend(state)->catalog->package_set_latest(state, org, pid, id, err);
}

int state_packages(struct state *state, const struct state_package_query *query,
                   state_package_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->catalog->packages(state, query, visit, data, err);
}

int state_package_setting_set(struct state *state, const struct state_package_setting *setting,
                              struct kg_err *err)
{
    return state_backend(state)->catalog->package_setting_set(state, setting, err);
}

int state_package_settings(struct state *state, const char *org_or_null, const char *pid_or_null,
                           state_package_setting_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->catalog->package_settings(state, org_or_null, pid_or_null, visit,
                                                           data, err);
}

int state_package_grant_set(struct state *state, const struct state_package_grant *grant,
                            struct kg_err *err)
{
    return state_backend(state)->catalog->package_grant_set(state, grant, err);
}

int state_package_grant_remove(struct state *state, const struct state_package_grant *grant,
                               struct kg_err *err)
{
    return state_backend(state)->catalog->package_grant_remove(state, grant, err);
}

int state_package_grants(struct state *state, const char *org, const char *pid_or_null,
                         state_package_grant_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->catalog->package_grants(state, org, pid_or_null, visit, data, err);
}

int state_llm_config_set(struct state *state, const struct state_llm_config *config,
                         struct kg_err *err)
{
    return state_backend(state)->catalog->llm_config_set(state, config, err);
}

int state_llm_config_remove(struct state *state, const char *org, const char *id,
                            struct kg_err *err)
{
    return state_backend(state)->catalog->llm_config_remove(state, org, id, err);
}

int state_llm_configs(struct state *state, const char *org_or_null, const char *id_or_null,
                      state_llm_config_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->catalog->llm_configs(state, org_or_null, id_or_null, visit, data,
                                                      err);
}
