/* The catalog's rows by PostgreSQL. */
#include "state/postgres.h"

/* -- orgs -------------------------------------------------------------------------------------- */

static int pg_org_set(struct state *state, const struct state_org *org, struct kg_err *err)
{
    return postgres_run(state, PG_ORG_SET, err, "tttiittti", org->id, org->name, org->domain,
                        (int64_t)org->active, (int64_t)org->deleted, org->profile, org->settings,
                        org->quota, org->created_ms);
}

static int pg_orgs(struct state *state, state_org_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_ORGS, &row, err, "");
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_org){
                        .id = postgres_text(&row, 0),
                        .name = postgres_text(&row, 1),
                        .domain = postgres_text(&row, 2),
                        .active = postgres_int(&row, 3) != 0,
                        .deleted = postgres_int(&row, 4) != 0,
                        .profile = postgres_text(&row, 5),
                        .settings = postgres_text(&row, 6),
                        .quota = postgres_text(&row, 7),
                        .created_ms = postgres_int(&row, 8),
                    });
    return 0;
}

/* -- principals -------------------------------------------------------------------------------- */

static int pg_principal_set(struct state *state, const struct state_principal *principal,
                            struct kg_err *err)
{
    return postgres_run(state, PG_PRINCIPAL_SET, err, "tttii", principal->id, principal->name,
                        principal->email, (int64_t)principal->sys_admin, principal->created_ms);
}

static int pg_principals(struct state *state, state_principal_fn *visit, void *data,
                         struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_PRINCIPALS, &row, err, "");
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_principal){
                        .id = postgres_text(&row, 0),
                        .name = postgres_text(&row, 1),
                        .email = postgres_text(&row, 2),
                        .sys_admin = postgres_int(&row, 3) != 0,
                        .created_ms = postgres_int(&row, 4),
                    });
    return 0;
}

/* -- members ----------------------------------------------------------------------------------- */

static int pg_member_set(struct state *state, const struct state_member *member, struct kg_err *err)
{
    return postgres_run(state, PG_MEMBER_SET, err, "ttii", member->org, member->principal,
                        (int64_t)member->is_admin, member->created_ms);
}

static int pg_member_remove(struct state *state, const char *org, const char *principal,
                            struct kg_err *err)
{
    return postgres_run(state, PG_MEMBER_REMOVE, err, "tt", org, principal);
}

static int pg_members(struct state *state, state_member_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_MEMBERS, &row, err, "");
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_member){
                        .org = postgres_text(&row, 0),
                        .principal = postgres_text(&row, 1),
                        .is_admin = postgres_int(&row, 2) != 0,
                        .created_ms = postgres_int(&row, 3),
                    });
    return 0;
}

/* -- packages ---------------------------------------------------------------------------------- */

static int pg_package_add(struct state *state, const struct state_package *package,
                          struct kg_err *err)
{
    return postgres_run(state, PG_PACKAGE_ADD, err, "tttttiittti", package->id, package->org,
                        package->pid, package->version, package->object, package->bytes,
                        (int64_t)package->enabled, package->card, package->document,
                        package->uploaded_by, package->created_ms);
}

static int pg_package_set_enabled(struct state *state, const char *org, const char *id,
                                  bool enabled, struct kg_err *err)
{
    return postgres_run(state, PG_PACKAGE_SET_ENABLED, err, "tti", org, id, (int64_t)enabled);
}

/* First none is: two may not be, not even for a moment. */
static int pg_package_set_latest(struct state *state, const char *org, const char *pid,
                                 const char *id, struct kg_err *err)
{
    int result = postgres_run(state, PG_PACKAGE_NO_LATEST, err, "tt", org, pid);
    return result < 0 ? result : postgres_run(state, PG_PACKAGE_SET_LATEST, err, "tt", org, id);
}

static int pg_packages(struct state *state, const struct state_package_query *query,
                       state_package_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_PACKAGES, &row, err, "tiitttiiii", query->org,
                                (int64_t)query->with_system, (int64_t)query->system_only,
                                query->pid, query->id, query->version, (int64_t)query->latest_only,
                                (int64_t)query->enabled_only, (int64_t)query->system_enabled_only,
                                (int64_t)query->with_document);
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_package){
                        .id = postgres_text(&row, 0),
                        .org = postgres_text(&row, 1),
                        .pid = postgres_text(&row, 2),
                        .version = postgres_text(&row, 3),
                        .object = postgres_text(&row, 4),
                        .bytes = postgres_int(&row, 5),
                        .enabled = postgres_int(&row, 6) != 0,
                        .is_latest = postgres_int(&row, 7) != 0,
                        .card = postgres_text(&row, 8),
                        .document = postgres_text(&row, 9),
                        .uploaded_by = postgres_text(&row, 10),
                        .created_ms = postgres_int(&row, 11),
                    });
    return 0;
}

/* -- what an org has set and granted ----------------------------------------------------------- */

static int pg_package_setting_set(struct state *state, const struct state_package_setting *setting,
                                  struct kg_err *err)
{
    if (setting->value == NULL)
        return postgres_run(state, PG_PACKAGE_SETTING_REMOVE, err, "tt", setting->org,
                            setting->pid);
    return postgres_run(state, PG_PACKAGE_SETTING_SET, err, "ttt", setting->org, setting->pid,
                        setting->value);
}

static int pg_package_settings(struct state *state, const char *org, const char *pid,
                               state_package_setting_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_PACKAGE_SETTINGS, &row, err, "tt", org, pid);
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_package_setting){.org = postgres_text(&row, 0),
                                                    .pid = postgres_text(&row, 1),
                                                    .value = postgres_text(&row, 2)});
    return 0;
}

static int pg_package_grant_set(struct state *state, const struct state_package_grant *grant,
                                struct kg_err *err)
{
    return postgres_run(state, PG_PACKAGE_GRANT_SET, err, "tttti", grant->org, grant->pid,
                        grant->capability, grant->granted_by, grant->at_ms);
}

static int pg_package_grant_remove(struct state *state, const struct state_package_grant *grant,
                                   struct kg_err *err)
{
    return postgres_run(state, PG_PACKAGE_GRANT_REMOVE, err, "ttt", grant->org, grant->pid,
                        grant->capability);
}

static int pg_package_grants(struct state *state, const char *org, const char *pid,
                             state_package_grant_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_PACKAGE_GRANTS, &row, err, "tt", org, pid);
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_package_grant){
                        .org = postgres_text(&row, 0),
                        .pid = postgres_text(&row, 1),
                        .capability = postgres_text(&row, 2),
                        .granted_by = postgres_text(&row, 3),
                        .at_ms = postgres_int(&row, 4),
                    });
    return 0;
}

/* -- models of orgs ---------------------------------------------------------------------------- */

static int pg_llm_config_set(struct state *state, const struct state_llm_config *config,
                             struct kg_err *err)
{
    return postgres_run(state, PG_LLM_CONFIG_SET, err, "tttttii", config->id, config->org,
                        config->name, config->value, config->box, config->created_ms,
                        config->changed_ms);
}

static int pg_llm_config_remove(struct state *state, const char *org, const char *id,
                                struct kg_err *err)
{
    return postgres_run(state, PG_LLM_CONFIG_REMOVE, err, "tt", org, id);
}

static int pg_llm_configs(struct state *state, const char *org, const char *id,
                          state_llm_config_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_LLM_CONFIGS, &row, err, "tt", org, id);
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_llm_config){
                        .id = postgres_text(&row, 0),
                        .org = postgres_text(&row, 1),
                        .name = postgres_text(&row, 2),
                        .value = postgres_text(&row, 3),
                        .box = postgres_text(&row, 4),
                        .created_ms = postgres_int(&row, 5),
                        .changed_ms = postgres_int(&row, 6),
                    });
    return 0;
}

/* -- orchestrators ----------------------------------------------------------------------------- */

static int pg_orchestrator_set(struct state *state, const struct state_orchestrator *orchestrator,
                               struct kg_err *err)
{
    return postgres_run(state, PG_ORCHESTRATOR_SET, err, "tttttttttitii", orchestrator->id,
                        orchestrator->org, orchestrator->name, orchestrator->framework,
                        orchestrator->mode, orchestrator->tier, orchestrator->whoami,
                        orchestrator->config, orchestrator->plugins, (int64_t)orchestrator->deleted,
                        orchestrator->created_by, orchestrator->created_ms,
                        orchestrator->changed_ms);
}

static int pg_orchestrators(struct state *state, const char *org_or_null, const char *id_or_null,
                            state_orchestrator_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_ORCHESTRATORS, &row, err, "tt", org_or_null, id_or_null);
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_orchestrator){
                        .id = postgres_text(&row, 0),
                        .org = postgres_text(&row, 1),
                        .name = postgres_text(&row, 2),
                        .framework = postgres_text(&row, 3),
                        .mode = postgres_text(&row, 4),
                        .tier = postgres_text(&row, 5),
                        .whoami = postgres_text(&row, 6),
                        .config = postgres_text(&row, 7),
                        .plugins = postgres_text(&row, 8),
                        .deleted = postgres_int(&row, 9) != 0,
                        .created_by = postgres_text(&row, 10),
                        .created_ms = postgres_int(&row, 11),
                        .changed_ms = postgres_int(&row, 12),
                    });
    return 0;
}

const struct state_catalog_backend state_catalog_postgres = {
    .org_set = pg_org_set,
    .orgs = pg_orgs,
    .principal_set = pg_principal_set,
    .principals = pg_principals,
    .member_set = pg_member_set,
    .member_remove = pg_member_remove,
    .members = pg_members,
    .package_add = pg_package_add,
    .package_set_enabled = pg_package_set_enabled,
    .package_set_latest = pg_package_set_latest,
    .packages = pg_packages,
    .package_setting_set = pg_package_setting_set,
    .package_settings = pg_package_settings,
    .package_grant_set = pg_package_grant_set,
    .package_grant_remove = pg_package_grant_remove,
    .package_grants = pg_package_grants,
    .llm_config_set = pg_llm_config_set,
    .llm_config_remove = pg_llm_config_remove,
    .llm_configs = pg_llm_configs,
    .orchestrator_set = pg_orchestrator_set,
    .orchestrators = pg_orchestrators,
};
