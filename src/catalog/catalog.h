/*
 * The catalog: orgs, who is in them, and the packages that they have. What every request asks for
 * (orgs, principals, roles) is in memory; the rest is read on the thread that has kaged.db. Each
 * operation answers once with JSON, maybe before it returns. A row of another org does not exist
 * for who asks: whatever takes an org looks at rows of that org, and at the system's, alone.
 */
#ifndef KAGED_CATALOG_H
#define KAGED_CATALOG_H

#include "host/host.h"
#include "objects/objects.h"

#define CATALOG_ID_TEXT 37 /* a UUID, and NUL */

struct catalog;
struct catalog_parts {
    struct loop *loop; /* borrowed, like the rest */
    struct host *host;
    struct cage_spawner *spawner;
    const struct cage_facts *facts;
    struct sessions *sessions;
};
/* Before the loop runs: it reads what is kept. */
struct catalog *catalog_new(const struct catalog_parts *parts, struct kg_err *err);
void catalog_start(struct catalog *catalog); /* the host was started */
/* What is uploaded ends; the loop has to turn until that is answered. */
void catalog_stop(struct catalog *catalog);
struct objects *catalog_objects(const struct catalog *catalog); /* its own, of packages */
void catalog_free(struct catalog *catalog); /* before the host is freed; takes NULL */

/* -- who may do what --------------------------------------------------------------------------- */

/* What a principal is in an org; http/scopes.c says what each may do. */
enum catalog_role { CATALOG_NOBODY, CATALOG_MEMBER, CATALOG_ORG_ADMIN, CATALOG_SYS_ADMIN };
/* org.data NULL: in none in particular, where there are system admins and nobody else. */
enum catalog_role catalog_role_of(const struct catalog *catalog, const char *principal,
                                  struct kg_str org);
/* The id of the principal with this id or name; NULL: there is none. Lives until it is changed. */
const char *catalog_principal_find(const struct catalog *catalog, struct kg_str id_or_name,
                                   const char **ret_name);

/* Who asks. All is borrowed until the answer. */
struct catalog_asker {
    const char *operator_id; /* his name; NULL: unknown */
    const char *principal;   /* "": the operator himself, who is a system admin */
    const char *request_id;
};
/* Exactly once. The JSON dies with the callback. */
typedef void catalog_answer_fn(void *data, struct kg_str json, const struct kg_err *err_or_null);
struct catalog_request {
    struct catalog *catalog;
    struct catalog_asker asker;
    struct kg_str org;          /* the id in the path; data NULL: the system's */
    const struct kg_node *body; /* as its schema wants it; NULL: there is none */
    catalog_answer_fn *on_answer;
    void *data;
};

/* -- orgs -------------------------------------------------------------------------------------- */

struct catalog_org {
    char id[CATALOG_ID_TEXT];
    char *name;   /* owned, like all texts */
    char *domain; /* or NULL */
    bool active, deleted;
    char *profile, *settings, *quota; /* JSON objects */
    int64_t created_ms;
};
/* By its id or name; NULL: there is none, or it was deleted. */
const struct catalog_org *catalog_org_find(const struct catalog *catalog, struct kg_str id_or_name);
/* A bound of its quota by name; -1: there is none. */
int64_t catalog_org_quota(const struct catalog_org *org, const char *name);

/* Org: {"org_id","name","display_name","domain","tier","status",...,"is_deleted","created_at"} */
void catalog_orgs_list(const struct catalog_request *request, bool all);
void catalog_org_show(const struct catalog_request *request);
void catalog_org_create(const struct catalog_request *request);
void catalog_org_change(const struct catalog_request *request, bool by_system);
void catalog_org_settings(const struct catalog_request *request);
void catalog_org_settings_change(const struct catalog_request *request);
void catalog_org_quota_show(const struct catalog_request *request);

/* -- principals and members -------------------------------------------------------------------- */

/* User: {"user_id","name","email","is_sys_admin","created_at"}; of an org also "is_admin" */
void catalog_users_list(const struct catalog_request *request);
void catalog_user_create(const struct catalog_request *request);
void catalog_user_change(const struct catalog_request *request, struct kg_str user);
void catalog_members_list(const struct catalog_request *request);
void catalog_member_add(const struct catalog_request *request);
void catalog_member_change(const struct catalog_request *request, struct kg_str user);
void catalog_member_remove(const struct catalog_request *request, struct kg_str user);

/* -- packages ---------------------------------------------------------------------------------- */

/* One version of a package, for who runs it. All is borrowed for the callback. */
struct catalog_package {
    const char *id;
    const char *org; /* "": the system's */
    const char *pid, *version;
    const char *object;   /* the hash of what was uploaded */
    uint64_t bytes;       /* of it */
    const char *document; /* JSON: package-v1.json */
};
/* Where its files are, which never change; owned. */
char *catalog_package_folder(const struct catalog *catalog, const struct catalog_package *package);

/* -- what an org sets of packages -------------------------------------------------------------- */

/*
 * All that a process of a package is started with, for who runs it. overrides has the form of
 * settings.h, and its boxes are of that scope.
 */
struct catalog_wanted {
    const char *org, *pid;
    const char *version;   /* NULL: the latest */
    const char *overrides; /* over what the org has set; or NULL */
    const char *scope;
};
/* All is borrowed for the callback. */
struct catalog_prepared {
    struct catalog_package package;
    struct kg_str settings;     /* merged and unsealed, keys sorted: host_package_want.settings */
    char *const *missing;       /* required settings without a value: settings_need refuses them */
    const char *const *reaches; /* what it was granted and may have: host_package_want.reaches */
};
typedef void catalog_prepared_fn(void *data, const struct catalog_prepared *prepared_or_null,
                                 const struct kg_err *err_or_null);
/*
 * What a pid means in an org, by its id: the org's own, or else the system's; the latest, or that
 * version. It must be enabled. Never before this returns.
 */
void catalog_package_prepare(struct catalog *catalog, const struct catalog_wanted *wanted,
                             catalog_prepared_fn *on_done, void *data);

/* An org changed what a package is told, or may reach: what runs is to be started anew. One alone
 * can be told; on the loop. */
typedef void catalog_changed_fn(void *data, const char *org, const char *pid);
void catalog_on_changed(struct catalog *catalog, catalog_changed_fn *on_changed, void *data);

/* {"org_id","pid","version","settings":[item and "value","is_set"],"missing","dropped"}; for the
 * latest version, or that one. The body of a change: {"settings":{KEY: VALUE}}. */
void catalog_package_settings(const struct catalog_request *request, struct kg_str pid,
                              struct kg_str version);
void catalog_package_settings_change(const struct catalog_request *request, struct kg_str pid,
                                     struct kg_str version);
/* {"org_id","pid","declares","grants":[{"capability","granted_by","granted_at"}],"org_may"}; only
 * hosts are granted, by {"capability"} in the body, and no more than catalog.org_may says. */
void catalog_grants(const struct catalog_request *request, struct kg_str pid);
void catalog_grant(const struct catalog_request *request, struct kg_str pid);
void catalog_revoke(const struct catalog_request *request, struct kg_str pid,
                    struct kg_str capability);
/* All that is sealed gets a new key: {"sealed": how many rows}. */
void catalog_rotate(const struct catalog_request *request);

/* -- models of orgs ---------------------------------------------------------------------------- */

/* LlmConfig: {"id","org_id","name","provider","model","base_url",...,"api_key": masked,...} */
void catalog_llm_list(const struct catalog_request *request);
void catalog_llm_show(const struct catalog_request *request, struct kg_str id);
void catalog_llm_create(const struct catalog_request *request);
void catalog_llm_change(const struct catalog_request *request, struct kg_str id);
void catalog_llm_remove(const struct catalog_request *request, struct kg_str id);

/* One of them, for who asks it; borrowed for the callback, but for own. */
struct catalog_llm {
    const char *id, *name;
    const char *alias; /* a model of local.toml, for models_find; NULL: it is the org's own */
    /* The receiver's, who calls local_free: own->models[0] is for model_request.model. Or NULL. */
    struct local *own;
};
typedef void catalog_llm_fn(void *data, const struct catalog_llm *found_or_null,
                            const struct kg_err *err_or_null);
/* Never before this returns. */
void catalog_llm_find(struct catalog *catalog, const char *org, const char *id,
                      catalog_llm_fn *on_found, void *data);
/* -- orchestrators ----------------------------------------------------------------------------- */

/*
 * Orchestrator: {"instance_id","org_id","name","framework_type","engine","mode","tier","status",
 *  "whoami","config","active_plugin_ids","plugin_settings","config_hash","created_by","created_at",
 *  "updated_at","is_ready","stale","load_error"}; one is named by its id or its name.
 */
/* The project that it is run as, by its id or name; owned. NULL: the org has none of that name. */
char *catalog_orchestrator_project(const struct catalog *catalog, struct kg_str org,
                                   struct kg_str id_or_name);
void catalog_orchestrators_list(const struct catalog_request *request);
void catalog_orchestrator_show(const struct catalog_request *request, struct kg_str id);
void catalog_orchestrator_create(const struct catalog_request *request);
void catalog_orchestrator_change(const struct catalog_request *request, struct kg_str id);
void catalog_orchestrator_delete(const struct catalog_request *request, struct kg_str id);
void catalog_orchestrator_settings(const struct catalog_request *request, struct kg_str id);
void catalog_orchestrator_activate(const struct catalog_request *request, struct kg_str id);
/* {"message","instance_id","tier"}, once it is loaded. */
void catalog_orchestrator_load(const struct catalog_request *request, struct kg_str id);
void catalog_orchestrator_unload(const struct catalog_request *request, struct kg_str id);

/* -- chats with them, which are sessions ------------------------------------------------------- */

struct catalog_chat_ops {
    /* What happens, as it does: "agent", "message", "tool", "metadata" or "error", and an object.
     */
    void (*on_event)(void *data, const char *event, struct kg_str json);
    /* Once, at the end: {"session_id","conversation_id","response","agent_hops","current_agent",
     * "stop","instance_id"}, or why there is no answer; the chat is gone. */
    void (*on_done)(void *data, struct kg_str json, const struct kg_err *err_or_null);
};
struct catalog_chat;
/*
 * One message and its answer. The body: {"message","conversation_id"?,"resource_id"?}. NULL:
 * on_done was called. on_answer of the request is not looked at.
 */
struct catalog_chat *catalog_chat_begin(const struct catalog_request *request, struct kg_str id,
                                        struct host_asker *asker,
                                        const struct catalog_chat_ops *ops, void *data);
void catalog_chat_cancel(struct catalog_chat *chat, const struct kg_err *why); /* it ends soon */

/* Those of who asks: {"conversations":[{"conversation_id","title","instance_id","created_at",
 * "updated_at"}],"more"} */
void catalog_conversations(const struct catalog_request *request, struct kg_str id,
                           struct host_asker *asker, struct kg_str before, size_t limit);
/* {"messages":[{"id","seq","role","content","created_at"}],"more"} */
void catalog_conversation(const struct catalog_request *request, struct kg_str id,
                          struct host_asker *asker, struct kg_str conversation, uint64_t after,
                          size_t limit);

/*
 * A file that comes in pieces. NULL: it was answered. bytes: false: wait for on_room. The end
 * answers, later; with an error nothing is kept.
 */
struct catalog_upload;
struct catalog_upload *catalog_upload_begin(const struct catalog_request *request,
                                            void (*on_room)(void *data), void *room_data);
bool catalog_upload_bytes(struct catalog_upload *upload, const char *file_name,
                          struct kg_str bytes);
void catalog_upload_end(struct catalog_upload *upload, const struct kg_err *err_or_null);

/* Package: the document's fields, and "source", "kind", "bytes", "sha256", "uploaded_by". */
void catalog_packages_list(const struct catalog_request *request, struct kg_str tag,
                           bool include_disabled);
void catalog_package_versions(const struct catalog_request *request, struct kg_str pid,
                              struct kg_str source);
void catalog_package_show(const struct catalog_request *request, struct kg_str id);
void catalog_package_schema(const struct catalog_request *request, struct kg_str pid);
void catalog_package_enable(const struct catalog_request *request, struct kg_str id, bool enable);
/* Its bytes are the answer. */
void catalog_package_download(const struct catalog_request *request, struct kg_str id);

#endif
