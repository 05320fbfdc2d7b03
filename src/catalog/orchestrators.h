/* Orchestrators as the files of the catalog share them: their rows, and those that are loaded. */
#ifndef KAGED_CATALOG_ORCHESTRATORS_H
#define KAGED_CATALOG_ORCHESTRATORS_H

#include "catalog/packages.h"
#include "host/package.h"
#include "live/live.h"

#define ORCHESTRATOR_PLUGINS_MAX 64 /* packages of one */
#define ORCHESTRATOR_HASH_TEXT   65

/* -- what is kept of one: orchestrator_row.c --------------------------------------------------- */

/* A row with texts of its own; the keeper's thread has it. */
struct orchestrator_row {
    char id[CATALOG_ID_TEXT], org[CATALOG_ID_TEXT];
    char *name, *framework, *mode, *tier; /* owned, like all texts */
    char *whoami;                         /* or NULL */
    char *config;                         /* a JSON object */
    char *created_by;                     /* or NULL */
    struct orchestrator_plugin *plugins;  /* owned */
    size_t plugin_count;
    bool deleted;
    int64_t created_ms, changed_ms;
};
/* A package of it, in the order in which it was attached. */
struct orchestrator_plugin {
    char *pid;
    char *version;  /* the one that it is held to; NULL: the latest */
    char *settings; /* as settings.h has them; or NULL */
    bool active;    /* one that was taken off keeps its settings */
};
void orchestrator_row_free(struct orchestrator_row *row); /* also for kg_auto */
/* KG_E_NOT_FOUND: the org has none of that id. */
int orchestrator_row_read(struct state *state, const char *org, const char *id,
                          struct orchestrator_row *ret_row, struct kg_err *err);
void orchestrator_row_take(const struct state_orchestrator *stored,
                           struct orchestrator_row *ret_row);
int orchestrator_row_write(struct state *state, const struct orchestrator_row *row,
                           struct kg_err *err);
/* "PID", "PID@VERSION", or as it is shown, "org:PID@VERSION". */
struct orchestrator_plugin *orchestrator_plugin_find(const struct orchestrator_row *row,
                                                     struct kg_str reference);
/* They are active from then on, in that order, and no other is. */
int orchestrator_row_attach(struct orchestrator_row *row, const struct kg_node *references,
                            struct kg_err *err);
/* What its settings are sealed for; owned. */
char *orchestrator_scope(const char *id, const char *pid);
/* Its members, the object is left open: whether it runs is not the row's to say. */
int orchestrator_row_put(struct state *state, const struct orchestrator_row *row,
                         struct kg_json_writer *json, struct kg_err *err);
/* Which package that is now, with its document. KG_E_INVALID_PARAMS: there is none. */
int orchestrator_package(struct state *state, const char *org,
                         const struct orchestrator_plugin *plugin, struct package_row *ret_row,
                         struct kg_err *err);

/* -- those that there are: orchestrators.c ----------------------------------------------------- */

struct pool_place;
/* What every request asks for; the rest is in its row. The catalog forgets none. */
struct catalog_orchestrator {
    char id[CATALOG_ID_TEXT];
    const struct catalog_org *org; /* borrowed from the catalog */
    char *name;                    /* owned, like the others */
    char *mode, *tier;
    bool deleted;
    int64_t changed_ms;       /* as its row has it */
    uint64_t revision;        /* counts what was changed since the daemon started */
    struct pool_place *place; /* owned by the pool */
};
int catalog_orchestrators_load(struct catalog *catalog, struct state *state, struct kg_err *err);
void catalog_orchestrators_free(struct catalog *catalog);
/* As they were read again, after the orgs. */
void catalog_orchestrators_take(struct catalog *catalog, const struct catalog *fresh);
size_t catalog_orchestrators_count(const struct catalog *catalog, const struct catalog_org *org);
/* By id or name, of that org; KG_E_GONE: it was deleted. */
struct catalog_orchestrator *catalog_orchestrator_find(const struct catalog *catalog,
                                                       const struct catalog_org *org,
                                                       struct kg_str id_or_name,
                                                       struct kg_err *err);

/* -- those that run: pool.c -------------------------------------------------------------------- */

struct pool;
struct pool *pool_new(struct catalog *catalog);
void pool_start(struct pool *pool); /* hot ones are loaded */
void pool_stop(struct pool *pool);
void pool_free(struct pool *pool); /* takes NULL */

/* As its row has it now, in place of what runs; then that is used, and the old one ends. Who waits
 * is told once, maybe before it returns; where it fails, what ran goes on. */
void pool_load(struct pool *pool, struct catalog_orchestrator *orchestrator, struct kg_wait *wait,
               void (*on_done)(struct kg_wait *wait, const struct kg_err *err_or_null));
/* It ends, whoever uses it. */
void pool_unload(struct pool *pool, struct catalog_orchestrator *orchestrator);
/* It was deleted, or has another tier. */
void pool_changed(struct pool *pool, struct catalog_orchestrator *orchestrator);
/* Those of an org that is gone, or not active. */
void pool_unload_org(struct pool *pool, const struct catalog_org *org);
/* The members "is_ready", "stale", "load_error". */
void pool_put(struct pool *pool, struct catalog_orchestrator *orchestrator,
              struct kg_json_writer *json);

/* What a chat has of one that runs, until it gives it back. */
struct pool_use {
    struct pool_place *place;           /* NULL: it did not begin */
    char *project;                      /* its id; owned */
    struct host_package_use **scoped;   /* owned, NULL-ended: packages with load_anchor */
    struct projects_packages *packages; /* kept, with those */
};
/* Loads one of the tier demand; as pool_load. KG_E_NOT_READY: a hot one that is not loaded. */
void pool_get(struct pool *pool, struct catalog_orchestrator *orchestrator, struct kg_wait *wait,
              void (*on_done)(struct kg_wait *wait, const struct kg_err *err_or_null));
/* When that was told. Fails if it was unloaded meanwhile. */
int pool_use_begin(struct catalog_orchestrator *orchestrator, struct pool_use *ret_use,
                   struct kg_err *err);
void pool_use_end(struct pool_use *use);

/* -- as a project: orchestrator_text.c --------------------------------------------------------- */

/* A package, for its part of the text. */
struct text_package {
    const char *shown;              /* what agents know it by */
    const char *name;               /* the host's name for it */
    const struct kg_node *document; /* package-v1.json */
};
char *orchestrator_project_id(const char *id); /* owned */
/* What agents know a pid by; unlike those that are taken. Owned. */
char *orchestrator_shown(const char *pid, char *const *taken);
void orchestrator_put_text(const struct orchestrator_row *row, const char *model,
                           const struct text_package *packages, size_t count, struct kg_buf *out);

#endif
