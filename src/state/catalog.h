/*
 * What the catalog keeps in kaged.db: orgs, principals, who is a member of what, packages, and
 * what an org has set and granted. Functions on a handle, for the thread that owns it. A row that
 * would be the second of its name is -EEXIST.
 */
#ifndef KAGED_STATE_CATALOG_H
#define KAGED_STATE_CATALOG_H

#include "state/state.h"

struct state_org {
    const char *id, *name;
    const char *domain; /* or NULL */
    bool active, deleted;
    const char *profile, *settings, *quota; /* JSON objects */
    int64_t created_ms;
};
/* One that is there is replaced. Texts of what is visited die with the callback, here and below. */
int state_org_set(struct state *state, const struct state_org *org, struct kg_err *err);
typedef void state_org_fn(void *data, const struct state_org *org);
int state_orgs(struct state *state, state_org_fn *visit, void *data, struct kg_err *err);

struct state_principal {
    const char *id, *name;
    const char *email; /* or NULL */
    bool sys_admin;
    int64_t created_ms;
};
int state_principal_set(struct state *state, const struct state_principal *principal,
                        struct kg_err *err);
typedef void state_principal_fn(void *data, const struct state_principal *principal);
int state_principals(struct state *state, state_principal_fn *visit, void *data,
                     struct kg_err *err);

struct state_member {
    const char *org, *principal;
    bool is_admin;
    int64_t created_ms;
};
int state_member_set(struct state *state, const struct state_member *member, struct kg_err *err);
int state_member_remove(struct state *state, const char *org, const char *principal,
                        struct kg_err *err);
typedef void state_member_fn(void *data, const struct state_member *member);
int state_members(struct state *state, state_member_fn *visit, void *data, struct kg_err *err);

/* One version of a package. */
struct state_package {
    const char *id;
    const char *org; /* "": the system's */
    const char *pid, *version;
    const char *object; /* the hash of what was uploaded */
    int64_t bytes;
    bool enabled, is_latest;
    const char *card;        /* JSON: what is shown of it */
    const char *document;    /* JSON: what it is; NULL where it was not asked for */
    const char *uploaded_by; /* or NULL */
    int64_t created_ms;
};
int state_package_add(struct state *state, const struct state_package *package, struct kg_err *err);
/* Of this org's alone, whatever id is given. */
int state_package_set_enabled(struct state *state, const char *org, const char *id, bool enabled,
                              struct kg_err *err);
/* That one, and no other version of the pid. */
int state_package_set_latest(struct state *state, const char *org, const char *pid, const char *id,
                             struct kg_err *err);
struct state_package_query {
    const char *org;          /* "": the system's */
    bool with_system;         /* those of the system, too */
    bool system_only;         /* and not the org's own */
    const char *pid, *id;     /* or NULL */
    const char *version;      /* or NULL */
    bool latest_only;         /* one of each pid */
    bool enabled_only;        /* of all, or ... */
    bool system_enabled_only; /* ... of the system's */
    bool with_document;
};
/* By pid, the oldest first; texts die with the callback. */
typedef void state_package_fn(void *data, const struct state_package *package);
int state_packages(struct state *state, const struct state_package_query *query,
                   state_package_fn *visit, void *data, struct kg_err *err);

/* What an org has set of a package, as catalog/settings.h has it. */
struct state_package_setting {
    const char *org, *pid;
    const char *value; /* NULL: nothing any more */
};
int state_package_setting_set(struct state *state, const struct state_package_setting *setting,
                              struct kg_err *err);
typedef void state_package_setting_fn(void *data, const struct state_package_setting *setting);
/* Of one org and pid, or NULL: of all. */
int state_package_settings(struct state *state, const char *org_or_null, const char *pid_or_null,
                           state_package_setting_fn *visit, void *data, struct kg_err *err);

/* What an org's admin lets a package reach. */
struct state_package_grant {
    const char *org, *pid, *capability;
    const char *granted_by; /* or NULL */
    int64_t at_ms;
};
int state_package_grant_set(struct state *state, const struct state_package_grant *grant,
                            struct kg_err *err);
int state_package_grant_remove(struct state *state, const struct state_package_grant *grant,
                               struct kg_err *err);
typedef void state_package_grant_fn(void *data, const struct state_package_grant *grant);
int state_package_grants(struct state *state, const char *org, const char *pid_or_null,
                         state_package_grant_fn *visit, void *data, struct kg_err *err);

/* A model as an org has configured it. */
struct state_llm_config {
    const char *id, *org, *name;
    const char *value; /* JSON */
    const char *box;   /* its key, sealed; or NULL */
    int64_t created_ms, changed_ms;
};
int state_llm_config_set(struct state *state, const struct state_llm_config *config,
                         struct kg_err *err);
int state_llm_config_remove(struct state *state, const char *org, const char *id,
                            struct kg_err *err);
typedef void state_llm_config_fn(void *data, const struct state_llm_config *config);
/* By name; NULL: of all orgs, all of the org. */
int state_llm_configs(struct state *state, const char *org_or_null, const char *id_or_null,
                      state_llm_config_fn *visit, void *data, struct kg_err *err);

#endif
