/* The catalog's rows by SQLite. */
#include "state/sqlite.h"

static const char *catalog_sqlite_text_at(sqlite3_stmt *row, int column)
{
    return (const char *)sqlite3_column_text(row, column);
}

/* -- orgs -------------------------------------------------------------------------------------- */

static int sqlite_org_set(struct state *state, const struct state_org *org, struct kg_err *err)
{
    return sqlite_run(state, ORG_SET, err, "tttiittti", org->id, org->name, org->domain,
                      (int64_t)org->active, (int64_t)org->deleted, org->profile, org->settings,
                      org->quota, org->created_ms);
}

static int sqlite_orgs(struct state *state, state_org_fn *visit, void *data, struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, ORGS, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_org){
                        .id = catalog_sqlite_text_at(row, 0),
                        .name = catalog_sqlite_text_at(row, 1),
                        .domain = catalog_sqlite_text_at(row, 2),
                        .active = sqlite3_column_int(row, 3) != 0,
                        .deleted = sqlite3_column_int(row, 4) != 0,
                        .profile = catalog_sqlite_text_at(row, 5),
                        .settings = catalog_sqlite_text_at(row, 6),
                        .quota = catalog_sqlite_text_at(row, 7),
                        .created_ms = sqlite3_column_int64(row, 8),
                    });
    return sqlite_finish(state, ORGS, code, err);
}

/* -- principals -------------------------------------------------------------------------------- */

static int sqlite_principal_set(struct state *state, const struct state_principal *principal,
                                struct kg_err *err)
{
    return sqlite_run(state, PRINCIPAL_SET, err, "tttii", principal->id, principal->name,
                      principal->email, (int64_t)principal->sys_admin, principal->created_ms);
}

static int sqlite_principals(struct state *state, state_principal_fn *visit, void *data,
                             struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, PRINCIPALS, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_principal){
                        .id = catalog_sqlite_text_at(row, 0),
                        .name = catalog_sqlite_text_at(row, 1),
                        .email = catalog_sqlite_text_at(row, 2),
                        .sys_admin = sqlite3_column_int(row, 3) != 0,
                        .created_ms = sqlite3_column_int64(row, 4),
                    });
    return sqlite_finish(state, PRINCIPALS, code, err);
}

/* -- members ----------------------------------------------------------------------------------- */

static int sqlite_member_set(struct state *state, const struct state_member *member,
                             struct kg_err *err)
{
    return sqlite_run(state, MEMBER_SET, err, "ttii", member->org, member->principal,
                      (int64_t)member->is_admin, member->created_ms);
}

static int sqlite_member_remove(struct state *state, const char *org, const char *principal,
                                struct kg_err *err)
{
    return sqlite_run(state, MEMBER_REMOVE, err, "tt", org, principal);
}

static int sqlite_members(struct state *state, state_member_fn *visit, void *data,
                          struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, MEMBERS, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_member){
                        .org = catalog_sqlite_text_at(row, 0),
                        .principal = catalog_sqlite_text_at(row, 1),
                        .is_admin = sqlite3_column_int(row, 2) != 0,
                        .created_ms = sqlite3_column_int64(row, 3),
                    });
    return sqlite_finish(state, MEMBERS, code, err);
}

/* -- orchestrators ----------------------------------------------------------------------------- */

static int sqlite_orchestrator_set(struct state *state,
                                   const struct state_orchestrator *orchestrator,
                                   struct kg_err *err)
{
    return sqlite_run(state, ORCHESTRATOR_SET, err, "tttttttttitii", orchestrator->id,
                      orchestrator->org, orchestrator->name, orchestrator->framework,
                      orchestrator->mode, orchestrator->tier, orchestrator->whoami,
                      orchestrator->config, orchestrator->plugins, (int64_t)orchestrator->deleted,
                      orchestrator->created_by, orchestrator->created_ms, orchestrator->changed_ms);
}

static int sqlite_orchestrators(struct state *state, const char *org_or_null,
                                const char *id_or_null, state_orchestrator_fn *visit, void *data,
                                struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, ORCHESTRATORS, &row, err, "tt", org_or_null, id_or_null);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_orchestrator){
                        .id = catalog_sqlite_text_at(row, 0),
                        .org = catalog_sqlite_text_at(row, 1),
                        .name = catalog_sqlite_text_at(row, 2),
                        .framework = catalog_sqlite_text_at(row, 3),
                        .mode = catalog_sqlite_text_at(row, 4),
                        .tier = catalog_sqlite_text_at(row, 5),
                        .whoami = catalog_sqlite_text_at(row, 6),
                        .config = catalog_sqlite_text_at(row, 7),
                        .plugins = catalog_sqlite_text_at(row, 8),
                        .deleted = sqlite3_column_int(row, 9) != 0,
                        .created_by = catalog_sqlite_text_at(row, 10),
                        .created_ms = sqlite3_column_int64(row, 11),
                        .changed_ms = sqlite3_column_int64(row, 12),
                    });
    return sqlite_finish(state, ORCHESTRATORS, code, err);
}

/* -- packages ---------------------------------------------------------------------------------- */

static int sqlite_package_add(struct state *state, const struct state_package *package,
                              struct kg_err *err)
{
    return sqlite_run(state, PACKAGE_ADD, err, "tttttiittti", package->id, package->org,
                      package->pid, package->version, package->object, package->bytes,
                      (int64_t)package->enabled, package->card, package->document,
                      package->uploaded_by, package->created_ms);
}

static int sqlite_package_set_enabled(struct state *state, const char *org, const char *id,
                                      bool enabled, struct kg_err *err)
{
    return sqlite_run(state, PACKAGE_SET_ENABLED, err, "tti", org, id, (int64_t)enabled);
}

/* First none is: two may not be, not even for a moment. */
static int sqlite_package_set_latest(struct state *state, const char *org, const char *pid,
                                     const char *id, struct kg_err *err)
{
    int result = sqlite_run(state, PACKAGE_NO_LATEST, err, "tt", org, pid);
    return result < 0 ? result : sqlite_run(state, PACKAGE_SET_LATEST, err, "tt", org, id);
}

static int sqlite_packages(struct state *state, const struct state_package_query *query,
                           state_package_fn *visit, void *data, struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, PACKAGES, &row, err, "tiitttiiii", query->org,
                              (int64_t)query->with_system, (int64_t)query->system_only, query->pid,
                              query->id, query->version, (int64_t)query->latest_only,
                              (int64_t)query->enabled_only, (int64_t)query->system_enabled_only,
                              (int64_t)query->with_document);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_package){
                        .id = catalog_sqlite_text_at(row, 0),
                        .org = catalog_sqlite_text_at(row, 1),
                        .pid = catalog_sqlite_text_at(row, 2),
                        .version = catalog_sqlite_text_at(row, 3),
                        .object = catalog_sqlite_text_at(row, 4),
                        .bytes = sqlite3_column_int64(row, 5),
                        .enabled = sqlite3_column_int(row, 6) != 0,
                        .is_latest = sqlite3_column_int(row, 7) != 0,
                        .card = catalog_sqlite_text_at(row, 8),
                        .document = catalog_sqlite_text_at(row, 9),
                        .uploaded_by = catalog_sqlite_text_at(row, 10),
                        .created_ms = sqlite3_column_int64(row, 11),
                    });
    return sqlite_finish(state, PACKAGES, code, err);
}

/* -- what an org has set and granted ----------------------------------------------------------- */

static int sqlite_package_setting_set(struct state *state,
                                      const struct state_package_setting *setting,
                                      struct kg_err *err)
{
    if (setting->value == NULL)
        return sqlite_run(state, PACKAGE_SETTING_REMOVE, err, "tt", setting->org, setting->pid);
    return sqlite_run(state, PACKAGE_SETTING_SET, err, "ttt", setting->org, setting->pid,
                      setting->value);
}

static int sqlite_package_settings(struct state *state, const char *org, const char *pid,
                                   state_package_setting_fn *visit, void *data, struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, PACKAGE_SETTINGS, &row, err, "tt", org, pid);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_package_setting){.org = catalog_sqlite_text_at(row, 0),
                                                    .pid = catalog_sqlite_text_at(row, 1),
                                                    .value = catalog_sqlite_text_at(row, 2)});
    return sqlite_finish(state, PACKAGE_SETTINGS, code, err);
}

static int sqlite_package_grant_set(struct state *state, const struct state_package_grant *grant,
                                    struct kg_err *err)
{
    return sqlite_run(state, PACKAGE_GRANT_SET, err, "tttti", grant->org, grant->pid,
                      grant->capability, grant->granted_by, grant->at_ms);
}

static int sqlite_package_grant_remove(struct state *state, const struct state_package_grant *grant,
                                       struct kg_err *err)
{
    return sqlite_run(state, PACKAGE_GRANT_REMOVE, err, "ttt", grant->org, grant->pid,
                      grant->capability);
}

static int sqlite_package_grants(struct state *state, const char *org, const char *pid,
                                 state_package_grant_fn *visit, void *data, struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, PACKAGE_GRANTS, &row, err, "tt", org, pid);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_package_grant){
                        .org = catalog_sqlite_text_at(row, 0),
                        .pid = catalog_sqlite_text_at(row, 1),
                        .capability = catalog_sqlite_text_at(row, 2),
                        .granted_by = catalog_sqlite_text_at(row, 3),
                        .at_ms = sqlite3_column_int64(row, 4),
                    });
    return sqlite_finish(state, PACKAGE_GRANTS, code, err);
}

/* -- models of orgs ---------------------------------------------------------------------------- */

static int sqlite_llm_config_set(struct state *state, const struct state_llm_config *config,
                                 struct kg_err *err)
{
    return sqlite_run(state, LLM_CONFIG_SET, err, "tttttii", config->id, config->org, config->name,
                      config->value, config->box, config->created_ms, config->changed_ms);
}

static int sqlite_llm_config_remove(struct state *state, const char *org, const char *id,
                                    struct kg_err *err)
{
    return sqlite_run(state, LLM_CONFIG_REMOVE, err, "tt", org, id);
}

static int sqlite_llm_configs(struct state *state, const char *org, const char *id,
                              state_llm_config_fn *visit, void *data, struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, LLM_CONFIGS, &row, err, "tt", org, id);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_llm_config){
                        .id = catalog_sqlite_text_at(row, 0),
                        .org = catalog_sqlite_text_at(row, 1),
                        .name = catalog_sqlite_text_at(row, 2),
                        .value = catalog_sqlite_text_at(row, 3),
                        .box = catalog_sqlite_text_at(row, 4),
                        .created_ms = sqlite3_column_int64(row, 5),
                        .changed_ms = sqlite3_column_int64(row, 6),
                    });
    return sqlite_finish(state, LLM_CONFIGS, code, err);
}

const struct state_catalog_backend state_catalog_sqlite = {
    .org_set = sqlite_org_set,
    .orgs = sqlite_orgs,
    .principal_set = sqlite_principal_set,
    .principals = sqlite_principals,
    .member_set = sqlite_member_set,
    .member_remove = sqlite_member_remove,
    .members = sqlite_members,
    .orchestrator_set = sqlite_orchestrator_set,
    .orchestrators = sqlite_orchestrators,
    .package_add = sqlite_package_add,
    .package_set_enabled = sqlite_package_set_enabled,
    .package_set_latest = sqlite_package_set_latest,
    .packages = sqlite_packages,
    .package_setting_set = sqlite_package_setting_set,
    .package_settings = sqlite_package_settings,
    .package_grant_set = sqlite_package_grant_set,
    .package_grant_remove = sqlite_package_grant_remove,
    .package_grants = sqlite_package_grants,
    .llm_config_set = sqlite_llm_config_set,
    .llm_config_remove = sqlite_llm_config_remove,
    .llm_configs = sqlite_llm_configs,
};
