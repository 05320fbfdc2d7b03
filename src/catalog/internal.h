/* What the files of the catalog share. */
#ifndef KAGED_CATALOG_INTERNAL_H
#define KAGED_CATALOG_INTERNAL_H

#include "catalog/catalog.h"
#include "cluster/cluster.h"
#include "objects/objects.h"
#include "secret/secret.h"
#include "state/catalog.h"

#define CATALOG_ORGS_MAX          10000
#define CATALOG_PRINCIPALS_MAX    100000
#define CATALOG_ORCHESTRATORS_MAX 20000

struct catalog_principal {
    char id[CATALOG_ID_TEXT];
    char *name;  /* owned, like email */
    char *email; /* or NULL */
    bool sys_admin;
    int64_t created_ms;
};

struct catalog_member {
    const struct catalog_org *org;             /* borrowed from the catalog, which forgets none */
    const struct catalog_principal *principal; /* the same */
    bool is_admin;
    int64_t created_ms;
};

struct catalog {
    struct loop *loop; /* borrowed, like the host */
    struct host *host;
    struct kg_map *orgs;          /* by id: struct catalog_org, owned */
    struct kg_map *principals;    /* by id: struct catalog_principal, owned */
    struct kg_map *members;       /* by "ORG PRINCIPAL": struct catalog_member, owned */
    struct kg_map *orchestrators; /* by id: struct catalog_orchestrator, owned */
    struct pool *pool;            /* owned */
    struct sessions *sessions;
    struct cage_spawner *spawner;
    const struct cage_facts *facts;
    struct loop_worker *worker;     /* owned; NULL: nothing was uploaded yet */
    struct catalog_upload *uploads; /* under way */
    struct catalog_tree *preparing; /* the same */
    bool stopping;
    struct objects *objects;        /* owned */
    char *trees, *incoming;         /* owned: folders of unpacked packages, and of what comes */
    struct secret_places seal;      /* of what is sensitive; never changes */
    catalog_changed_fn *on_changed; /* may be NULL */
    void *changed_data;
    struct cluster_follow follow;     /* what other nodes change of the tables */
    struct catalog *fresh;            /* owned; the tables, as that has read them */
    struct cluster_listener listener; /* for what is not in them */
};

void catalog_uuid(char ret_text[CATALOG_ID_TEXT]);
struct state_keeper *catalog_keeper(const struct catalog *catalog);
struct loop_worker *catalog_worker(struct catalog *catalog); /* made at its first use */
/* What its processes are told, or may reach, is not what it was. */
void catalog_tell_changed(const struct catalog *catalog, const char *org, const char *pid);

/* -- trees.c ----------------------------------------------------------------------------------- */

/* The files of a package, beside their place; owned. Blocks. May be there in part after an error.
 */
char *catalog_tree_copy(const struct catalog *catalog, const struct store_fetched *fetched,
                        struct kg_err *err);
/* Into their place; where there are some already, these stay where they are. Blocks. */
int catalog_tree_place(const struct catalog *catalog, const char *fresh, const char *hash,
                       struct kg_err *err);
/* Once, never before it returns: they are there, or err says why not. */
typedef void catalog_tree_fn(void *data, const struct kg_err *err_or_null);
void catalog_tree_prepare(struct catalog *catalog, const char *hash, uint64_t bytes,
                          catalog_tree_fn *on_ready, void *data);
void catalog_trees_stop(struct catalog *catalog);

/* Of a task for that org; the system's own is the daemon's. */
static inline const char *catalog_scope(const char *org)
{
    return org[0] != '\0' ? org : NULL;
}

/* -- answers: answer.c ------------------------------------------------------------------------- */

/* A request that is answered later: what of it outlives the call, and a task of the keeper. */
struct catalog_op {
    struct state_task task; /* first; its run is the operation's own */
    struct catalog *catalog;
    struct catalog_asker asker;
    char org[CATALOG_ID_TEXT]; /* "": the system's */
    catalog_answer_fn *on_answer;
    void *data;
    struct kg_buf json; /* the answer */
    /* On the loop, after the task went well, before the answer; may be NULL. */
    void (*then)(struct catalog_op *op);
    void (*clean)(struct catalog_op *op); /* what more it has; may be NULL */
};
/* size: of the struct that begins with it. */
void *catalog_op_new(const struct catalog_request *request, size_t size);
void catalog_op_read(struct catalog_op *op);
void catalog_op_write(struct catalog_op *op);
/* Answers, and frees the op. */
void catalog_op_answer(struct catalog_op *op, const struct kg_err *err_or_null);
/* The same for who has no op yet. */
void catalog_reply(const struct catalog_request *request, struct kg_buf *json);
void catalog_fail(const struct catalog_request *request, const struct kg_err *err);
/* What a unique index says becomes the sentence. */
void catalog_exists(struct kg_err *err, const char *format, ...) KG_PRINTF(2, 3);

/* The org of the request; NULL: there is none, and it was answered. */
struct catalog_org *catalog_request_org(const struct catalog_request *request);

/* -- orgs.c, members.c ------------------------------------------------------------------------- */

int catalog_orgs_load(struct catalog *catalog, struct state *state, struct kg_err *err);
void catalog_orgs_free(struct catalog *catalog);
/* As they were read again: those that are known stay where they are. */
void catalog_orgs_take(struct catalog *catalog, const struct catalog *fresh);
void catalog_members_take(struct catalog *catalog, const struct catalog *fresh);
int catalog_members_load(struct catalog *catalog, struct state *state, struct kg_err *err);
void catalog_members_free(struct catalog *catalog);
size_t catalog_members_count(const struct catalog *catalog, const struct catalog_org *org);
const struct catalog_member *catalog_member_find(const struct catalog *catalog, struct kg_str org,
                                                 struct kg_str principal);

/* The members of both, the newer ones first; null takes one away. keys NULL: whatever comes. Owned.
 */
char *catalog_merge(const char *before, const struct kg_node *more_or_null,
                    const char *const *keys);

/* -- what other nodes change: follow.c --------------------------------------------------------- */

/* Makes the tables, with nothing in them; and frees them with all that they have. */
void catalog_tables_new(struct catalog *catalog);
int catalog_tables_load(struct catalog *catalog, struct state *state, struct kg_err *err);
void catalog_tables_free(struct catalog *catalog);
void catalog_follow_begin(struct catalog *catalog);
void catalog_follow_end(struct catalog *catalog);

/* -- packages as plugins: install.c ------------------------------------------------------------ */

/* From now on the store of plugins finds packages; until the catalog is freed. */
void catalog_serve_store(struct catalog *catalog);

/* -- a new key: rotate.c ----------------------------------------------------------------------- */

/* On the keeper's thread: seals what they have with the key that is now to be used, and counts. */
int catalog_orchestrators_reseal(const struct catalog *catalog, struct state *state, size_t *count,
                                 struct kg_err *err);
int catalog_settings_reseal(const struct catalog *catalog, struct state *state, size_t *count,
                            struct kg_err *err);
int catalog_llm_reseal(const struct catalog *catalog, struct state *state, size_t *count,
                       struct kg_err *err);

#endif
