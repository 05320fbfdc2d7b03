/*
 * Orchestrators that run. One is loaded whole or not at all: its row is read, its packages are
 * found, told what they need and started; once all of them are ready its project is exchanged for
 * the new one in one step, and who still has the old packages keeps them until he is done. A load
 * that fails leaves what runs as it was.
 *
 *   row -> packages and their settings -> processes -> ready -> the project -> loaded
 *
 * A hot one is loaded at the start and stays; one of the tier demand at its first use, until it was
 * idle for long enough, or another one needs the place.
 *
 * Where several nodes share the state, one is loaded on the node that has its lease: that is taken
 * first, given back at the end, and where it is lost all that runs here ends. A hot one whose node
 * is gone is loaded by another.
 */
#include "catalog/orchestrators.h"

#include <errno.h>
#include <stdlib.h>

#define LOADS_AT_ONCE 4
#define LOAD_GRACE_MS 10000 /* over the time that one handshake may take */
#define CLAIM_MS      50    /* that each of those that are loaded makes another node go first */
#define CLAIM_MOST_MS 2000

struct pool_loading;
struct pool_place {
    struct pool_place *next;
    struct pool *pool;
    struct catalog_orchestrator *orchestrator;
    char *project; /* owned */
    bool is_loaded;
    uint64_t revision;                  /* that is loaded */
    char **pids;                        /* owned; of that */
    char *model;                        /* owned; that it brought; NULL: none */
    struct projects_packages *packages; /* kept; the same */
    struct host_package_use **uses;     /* owned, NULL-ended; of those */
    struct host_package_use **scoped;   /* the same, of some */
    size_t chats;
    uint64_t used_ms;
    struct loop_timer idle;
    struct pool_loading *loading; /* NULL: it is not being loaded */
    struct kg_waits waits;        /* for that */
    struct kg_waits later;        /* for another load, of what was saved since */
    struct kg_err problem;        /* of the last load; KG_OK: none */
};

struct pool {
    struct catalog *catalog;
    struct pool_place *places; /* owned */
    struct pool_loading *queue;
    size_t running; /* loads */
    struct pool_loading *loads;
    struct projects_listener listener;
    struct loop_task look;
    struct cluster_listener leases;
    struct loop_timer claim; /* of hot ones that their nodes have left */
    bool stopping;
};

/* A package that is being loaded. */
struct loading_package {
    struct pool_loading *loading;
    char *pid, *shown, *folder;   /* owned */
    struct kg_doc *document;      /* owned */
    struct kg_buf settings;       /* secret */
    char **missing, **reaches;    /* owned */
    struct host_package_use *use; /* owned until `made` has it */
};

struct pool_loading {
    struct pool_loading *next; /* in the queue, then among those that run */
    struct pool *pool;
    struct pool_place *place; /* NULL: it was unloaded meanwhile */
    struct state_task task;
    char id[CATALOG_ID_TEXT], org[CATALOG_ID_TEXT];
    uint64_t revision;
    struct orchestrator_row row;
    char *model;                      /* owned; what its agents call their model */
    bool brings;                      /* it is not the operator's */
    struct loading_package *packages; /* owned */
    size_t count;
    size_t asked;                   /* answers that are to come */
    struct projects_packages *made; /* owned; what its project has of them; NULL: not yet */
    struct loop_timer timer;
    bool is_starting; /* its processes are waited for */
    struct kg_err err;
};

static void pool_pump(struct pool *pool);
static void loading_end(struct pool_loading *loading, const struct kg_err *err_or_null);

static struct loop *catalog_pool_loop_of(const struct pool *pool)
{
    return pool->catalog->loop;
}

static struct cluster *pool_nodes(const struct pool *pool)
{
    return host_nodes(pool->catalog->host);
}

/* -- places ------------------------------------------------------------------------------------ */

static struct pool_place *catalog_pool_place_of(struct pool *pool,
                                                struct catalog_orchestrator *orchestrator)
{
    if (orchestrator->place != NULL)
        return orchestrator->place;
    struct pool_place *place = kg_alloc(sizeof(*place));
    place->pool = pool;
    place->orchestrator = orchestrator;
    place->project = orchestrator_project_id(orchestrator->id);
    place->next = pool->places;
    pool->places = place;
    orchestrator->place = place;
    return place;
}

static void on_project_gone(void *data, const struct kg_err *err_or_null)
{
    (void)data;
    (void)err_or_null; /* it was not there */
}

static void model_leave(struct pool *pool, char *alias)
{
    if (alias != NULL)
        sessions_bring_model(pool->catalog->sessions, alias, NULL);
    free(alias);
}

/* What it has of packages; their processes end when nobody else has them. */
static void place_clear(struct pool_place *place)
{
    loop_timer_stop(catalog_pool_loop_of(place->pool), &place->idle);
    kg_list_free(kg_steal(&place->pids));
    model_leave(place->pool, kg_steal(&place->model));
    free(kg_steal(&place->uses));
    free(kg_steal(&place->scoped));
    projects_packages_drop(kg_steal(&place->packages));
    place->is_loaded = false;
}

/* Nothing of it runs here. */
static void place_release(struct pool_place *place)
{
    if (pool_nodes(place->pool) != NULL && !place->is_loaded && place->loading == NULL)
        cluster_release(pool_nodes(place->pool), place->project);
}

static void place_unload(struct pool_place *place)
{
    if (!place->is_loaded)
        return;
    place_clear(place);
    projects_unload(place->pool->catalog->host, kg_str(place->project), true, NULL, on_project_gone,
                    NULL);
    place_release(place);
}

static void catalog_pool_on_idle(struct loop_timer *timer)
{
    struct pool_place *place = KG_CONTAINER(timer, struct pool_place, idle);
    kg_log(KG_INFO, "orchestrator %s was idle, and ends", place->orchestrator->id);
    place_unload(place);
}

static void place_rest(struct pool_place *place)
{
    const struct config *config = host_config(place->pool->catalog->host);
    place->used_ms = loop_now_ms(catalog_pool_loop_of(place->pool));
    if (place->is_loaded && place->chats == 0 && strcmp(place->orchestrator->tier, "demand") == 0)
        loop_timer_start(catalog_pool_loop_of(place->pool), &place->idle,
                         (uint64_t)config->catalog_demand_idle_sec * 1000, catalog_pool_on_idle);
    else
        loop_timer_stop(catalog_pool_loop_of(place->pool), &place->idle);
}

/* One of the tier demand that rests, the longest of them, gives way. */
static int catalog_pool_make_room(struct pool *pool, const struct pool_place *wanted,
                                  struct kg_err *err)
{
    size_t most = (size_t)host_config(pool->catalog->host)->catalog_loaded_max, count = 0;
    struct pool_place *oldest = NULL;
    for (struct pool_place *at = pool->places; at != NULL; at = at->next) {
        count += at != wanted && (at->is_loaded || at->loading != NULL);
        if (loop_timer_running(&at->idle) && at != wanted && at->loading == NULL &&
            (oldest == NULL || at->used_ms < oldest->used_ms))
            oldest = at;
    }
    if (count < most)
        return 0;
    if (oldest != NULL) {
        place_unload(oldest);
        return 0;
    }
    kg_fail(err, KG_E_BUSY, "%zu orchestrators are loaded, and all of them are in use", count);
    return kg_hint(err, "unload one, or raise catalog.loaded_max");
}

/* -- a load's memory --------------------------------------------------------------------------- */

static void package_clear(struct loading_package *package, bool has_use)
{
    if (has_use)
        host_package_drop(package->use);
    kg_doc_free(package->document);
    secret_wipe(&package->settings);
    kg_list_free(package->missing);
    kg_list_free(package->reaches);
    free(package->pid);
    free(package->shown);
    free(package->folder);
}

static void loading_free(struct pool_loading *loading)
{
    loop_timer_stop(catalog_pool_loop_of(loading->pool), &loading->timer);
    for (size_t i = 0; i < loading->count; i++)
        package_clear(&loading->packages[i], loading->made == NULL);
    projects_packages_drop(loading->made);
    free(loading->packages);
    orchestrator_row_free(&loading->row);
    if (loading->brings)
        model_leave(loading->pool, kg_steal(&loading->model));
    free(loading->model);
    free(loading);
}

static bool loading_is_off(const struct pool_loading *loading, struct kg_err *err)
{
    if (loading->pool->stopping)
        kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    else if (loading->place == NULL)
        kg_fail(err, KG_E_CONFLICT, "the orchestrator was unloaded meanwhile");
    else
        return false;
    return true;
}

/* -- the project ------------------------------------------------------------------------------- */

/* What is loaded from now on; the old packages are let go. */
static void place_take(struct pool_place *place, struct pool_loading *loading)
{
    size_t scoped = 0;
    place_clear(place);
    place->packages = kg_steal(&loading->made);
    place->uses = kg_alloc_array(loading->count + 1, sizeof(*place->uses));
    place->scoped = kg_alloc_array(loading->count + 1, sizeof(*place->scoped));
    place->pids = kg_list_new(loading->count);
    for (size_t i = 0; i < loading->count; i++) {
        struct loading_package *package = &loading->packages[i];
        place->uses[i] = package->use;
        place->pids[i] = kg_strdup(package->pid);
        if (kg_node_is_true(package->document->root, "is_scoped"))
            place->scoped[scoped++] = package->use;
        package->use = NULL;
    }
    if (loading->brings)
        place->model = kg_steal(&loading->model);
    place->revision = loading->revision;
    place->is_loaded = true;
}

static void on_project_loaded(void *data, const struct projects_loaded *loaded_or_null,
                              const struct kg_problems *problems_or_null,
                              const struct kg_err *err_or_null)
{
    struct pool_loading *loading = data;
    struct kg_err err = {0};
    (void)loaded_or_null;
    (void)problems_or_null;
    if (err_or_null == NULL && loading_is_off(loading, &err)) {
        kg_auto(kg_free) char *project = orchestrator_project_id(loading->id);
        projects_unload(loading->pool->catalog->host, kg_str(project), true, NULL, on_project_gone,
                        NULL);
        err_or_null = &err;
    }
    if (err_or_null == NULL)
        place_take(loading->place, loading);
    loading_end(loading, err_or_null);
}

static void load_project(struct pool_loading *loading)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_free) struct text_package *packages =
        kg_alloc_array(loading->count + 1, sizeof(*packages));
    loading->made = projects_packages_new();
    for (size_t i = 0; i < loading->count; i++) {
        const struct loading_package *package = &loading->packages[i];
        packages[i] = (struct text_package){
            .shown = package->shown,
            .name = host_package_name(package->use),
            .document = package->document->root,
        };
        projects_packages_add(loading->made, package->shown, package->use);
    }
    orchestrator_put_text(&loading->row, loading->model, packages, loading->count, &text);
    projects_load_text(loading->pool->catalog->host, loading->place->project, kg_buf_view(&text),
                       loading->made, NULL, on_project_loaded, loading);
}

/* -- processes --------------------------------------------------------------------------------- */

/* Looks at what is waited for: all are there, or one will not come. */
static void loading_look(struct pool_loading *loading)
{
    struct kg_err err = {0};
    bool all_ready = true;
    if (!loading->is_starting)
        return;
    bool is_off = loading_is_off(loading, &err);
    for (size_t i = 0; !is_off && err.code == KG_OK && i < loading->count; i++) {
        const struct loading_package *package = &loading->packages[i];
        enum host_package_state state = host_package_state(package->use, &err);
        all_ready = all_ready && state == HOST_PACKAGE_READY;
        if (state == HOST_PACKAGE_FAILED)
            kg_wrap(&err, -EINVAL, "%s", package->pid);
    }
    if (err.code == KG_OK && !all_ready)
        return;
    loading->is_starting = false;
    loop_timer_stop(catalog_pool_loop_of(loading->pool), &loading->timer);
    if (err.code != KG_OK)
        loading_end(loading, &err);
    else
        load_project(loading);
}

static void catalog_pool_on_look(struct loop_task *task)
{
    struct pool *pool = KG_CONTAINER(task, struct pool, look);
    for (struct pool_loading *at = pool->loads, *next; at != NULL; at = next) {
        next = at->next;
        loading_look(at);
    }
}

static void on_package_moved(void *data)
{
    struct pool *pool = data;
    loop_defer(catalog_pool_loop_of(pool), &pool->look);
}

static void on_load_time(struct loop_timer *timer)
{
    struct pool_loading *loading = KG_CONTAINER(timer, struct pool_loading, timer);
    struct kg_err err = {0};
    loading->is_starting = false;
    kg_fail(&err, KG_E_PLUGIN_TIMEOUT, "its packages were not ready in time");
    loading_end(loading, &err);
}

static int start_package(struct loading_package *package, struct kg_err *err)
{
    struct pool_loading *loading = package->loading;
    const struct host_package_want want = {
        .org = loading->org,
        .folder = package->folder,
        .package = package->document->root,
        .settings = kg_buf_view(&package->settings),
        .reaches = (const char *const *)package->reaches,
        .on_moved = on_package_moved,
        .data = loading->pool,
    };
    package->use = host_package_use(loading->pool->catalog->host, &want, err);
    secret_wipe(&package->settings);
    return package->use != NULL ? 0 : kg_wrap(err, -EINVAL, "%s", package->pid);
}

/* First all that can be wrong without them. */
static int start_packages(struct pool_loading *loading, struct kg_err *err)
{
    const struct config *config = host_config(loading->pool->catalog->host);
    char **taken = kg_list_new(0);
    int result = 0;
    for (size_t i = 0; result == 0 && i < loading->count; i++)
        result = settings_need(loading->packages[i].pid, loading->packages[i].missing, err);
    for (size_t i = 0; result == 0 && i < loading->count; i++) {
        struct loading_package *package = &loading->packages[i];
        package->shown = orchestrator_shown(package->pid, taken);
        kg_list_add(&taken, kg_strdup(package->shown));
        result = start_package(package, err);
    }
    kg_list_free(taken);
    if (result < 0)
        return result;
    loading->is_starting = true;
    loop_timer_start(catalog_pool_loop_of(loading->pool), &loading->timer,
                     (uint64_t)config->limits_initialize_timeout_ms + LOAD_GRACE_MS, on_load_time);
    on_package_moved(loading->pool);
    return 0;
}

/* -- packages and their settings --------------------------------------------------------------- */

static void loading_prepared(struct pool_loading *loading)
{
    struct kg_err err = loading->err;
    if (err.code == KG_OK && !loading_is_off(loading, &err))
        start_packages(loading, &err);
    if (err.code != KG_OK)
        loading_end(loading, &err);
}

/* Its files are there, or it cannot be had. */
static void on_package_there(void *data, const struct kg_err *err_or_null)
{
    struct loading_package *package = data;
    struct pool_loading *loading = package->loading;
    if (err_or_null != NULL && loading->err.code == KG_OK)
        loading->err = *err_or_null;
    if (--loading->asked == 0)
        loading_prepared(loading);
}

static void catalog_pool_on_prepared(void *data, const struct catalog_prepared *prepared_or_null,
                                     const struct kg_err *err_or_null)
{
    struct loading_package *package = data;
    struct catalog *catalog = package->loading->pool->catalog;
    struct kg_err err = {0};
    if (err_or_null != NULL) {
        on_package_there(package, err_or_null);
        return;
    }
    const struct catalog_package *found = &prepared_or_null->package;
    package->document = kg_json_read(kg_str(found->document), &err);
    if (package->document == NULL) {
        on_package_there(package, &err);
        return;
    }
    package->folder = catalog_package_folder(catalog, found);
    kg_buf_str(&package->settings, prepared_or_null->settings);
    package->missing = kg_list_copy((const char *const *)prepared_or_null->missing);
    package->reaches = kg_list_copy(prepared_or_null->reaches);
    catalog_tree_prepare(catalog, found->object, found->bytes, on_package_there, package);
}

static void prepare_packages(struct pool_loading *loading)
{
    struct catalog *catalog = loading->pool->catalog;
    const struct orchestrator_row *row = &loading->row;
    loading->packages = kg_alloc_array(row->plugin_count + 1, sizeof(*loading->packages));
    for (size_t i = 0; i < row->plugin_count; i++) {
        const struct orchestrator_plugin *plugin = &row->plugins[i];
        if (!plugin->active)
            continue;
        struct loading_package *package = &loading->packages[loading->count++];
        kg_auto(kg_free) char *scope = orchestrator_scope(row->id, plugin->pid);
        const struct catalog_wanted wanted = {
            .org = loading->org,
            .pid = plugin->pid,
            .version = plugin->version,
            .overrides = plugin->settings,
            .scope = scope,
        };
        package->loading = loading;
        package->pid = kg_strdup(plugin->pid);
        loading->asked++;
        catalog_package_prepare(catalog, &wanted, catalog_pool_on_prepared, package);
    }
    if (loading->asked == 0)
        loading_prepared(loading);
}

/* -- its row ----------------------------------------------------------------------------------- */

/* An alias of local.toml. */
static int take_alias(struct pool_loading *loading, struct kg_str alias, struct kg_err *err)
{
    if (alias.length == 0) {
        kg_fail(err, KG_E_INVALID_CONFIG, "the orchestrator %s names no model", loading->row.name);
        return kg_hint(err, "set default_llm_config_id, or model, in its config");
    }
    if (local_model_find(host_local(loading->pool->catalog->host), alias) == NULL)
        return kg_fail(err, KG_E_INVALID_CONFIG, "the operator has no model %.*s",
                       KG_STR_CUT(alias, 64));
    loading->model = kg_str_dup(alias);
    return 0;
}

/* One of the org's own is known by a name of this load alone. */
static void on_llm(void *data, const struct catalog_llm *found_or_null,
                   const struct kg_err *err_or_null)
{
    struct pool_loading *loading = data;
    struct kg_err err = {0};
    if (err_or_null != NULL) {
        err = *err_or_null;
        err.code = err.code == KG_E_NOT_FOUND ? KG_E_INVALID_CONFIG : err.code;
        kg_wrap(&err, -EINVAL, "default_llm_config_id");
    } else if (found_or_null->own != NULL) {
        char id[CATALOG_ID_TEXT];
        catalog_uuid(id);
        loading->model = kg_format("llm:%s", id);
        loading->brings = true;
        sessions_bring_model(loading->pool->catalog->sessions, loading->model, found_or_null->own);
    } else {
        take_alias(loading, kg_str(found_or_null->alias), &err);
    }
    if (err.code == KG_OK)
        (void)loading_is_off(loading, &err);
    if (err.code != KG_OK)
        loading_end(loading, &err);
    else
        prepare_packages(loading);
}

static int catalog_pool_run_row(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct pool_loading *loading = KG_CONTAINER(task, struct pool_loading, task);
    return orchestrator_row_read(state, loading->org, loading->id, &loading->row, err);
}

static void on_row(struct state_task *task, const struct kg_err *err_or_null)
{
    struct pool_loading *loading = KG_CONTAINER(task, struct pool_loading, task);
    struct kg_err err = {0};
    if (err_or_null != NULL)
        err = *err_or_null;
    else
        (void)loading_is_off(loading, &err);
    kg_auto(kg_doc_cleanup) struct kg_doc *config =
        err.code == KG_OK ? kg_json_read(kg_str(loading->row.config), NULL) : NULL;
    const struct kg_node *root = config ? config->root : NULL;
    kg_auto(kg_free) char *llm = kg_str_dup(kg_node_text(root, "default_llm_config_id"));
    if (err.code == KG_OK && llm[0] == '\0')
        take_alias(loading, kg_node_text(root, "model"), &err);
    if (err.code != KG_OK)
        loading_end(loading, &err);
    else if (llm[0] != '\0')
        catalog_llm_find(loading->pool->catalog, loading->org, llm, on_llm, loading);
    else
        prepare_packages(loading);
}

/* -- from its beginning to its end ------------------------------------------------------------- */

static void loading_read(struct pool_loading *loading)
{
    loading->revision = loading->place->orchestrator->revision;
    loading->task = (struct state_task){
        .run = catalog_pool_run_row, .done = on_row, .org = catalog_scope(loading->org)};
    state_keeper_read(catalog_keeper(loading->pool->catalog), &loading->task);
}

/* What is known here of its sessions may be from before others had them. */
static void on_lease(void *data, const struct kg_err *err_or_null)
{
    struct pool_loading *loading = data;
    struct kg_err err = {0};
    kg_auto(kg_free) char *project = orchestrator_project_id(loading->id);
    if (err_or_null == NULL)
        sessions_let_go(loading->pool->catalog->sessions, project, NULL);
    if (err_or_null == NULL && loading_is_off(loading, &err)) {
        const struct catalog_orchestrator *orchestrator =
            kg_map_get(loading->pool->catalog->orchestrators, kg_str(loading->id));
        place_release(orchestrator->place);
        err_or_null = &err;
    }
    if (err_or_null != NULL)
        loading_end(loading, err_or_null);
    else
        loading_read(loading);
}

static void loading_start(struct pool_loading *loading)
{
    struct cluster *nodes = pool_nodes(loading->pool);
    struct kg_err err = {0};
    bool is_off = loading_is_off(loading, &err);
    if (is_off || catalog_pool_make_room(loading->pool, loading->place, &err) < 0)
        loading_end(loading, &err);
    else if (nodes != NULL && !cluster_holds(nodes, loading->place->project))
        cluster_take(nodes, loading->place->project, on_lease, loading);
    else
        loading_read(loading);
}

static void pool_pump(struct pool *pool)
{
    while (pool->queue != NULL && pool->running < LOADS_AT_ONCE) {
        struct pool_loading *loading = pool->queue;
        pool->queue = loading->next;
        loading->next = pool->loads;
        pool->loads = loading;
        pool->running++;
        loading_start(loading);
    }
}

static void place_begin(struct pool_place *place)
{
    struct pool *pool = place->pool;
    struct pool_loading **last = &pool->queue;
    struct pool_loading *loading = kg_alloc(sizeof(*loading));
    while (*last != NULL)
        last = &(*last)->next;
    *last = loading;
    loading->pool = pool;
    loading->place = place;
    kg_str_copy(kg_str(place->orchestrator->id), loading->id, sizeof(loading->id));
    kg_str_copy(kg_str(place->orchestrator->org->id), loading->org, sizeof(loading->org));
    place->loading = loading;
    pool_pump(pool);
}

static void place_told(struct pool_place *place, const struct kg_err *err_or_null)
{
    bool is_elsewhere = err_or_null != NULL && err_or_null->code == KG_E_ELSEWHERE;
    place->loading = NULL;
    place->problem = err_or_null != NULL && !is_elsewhere ? *err_or_null : (struct kg_err){0};
    place_release(place);
    if (err_or_null != NULL && !is_elsewhere)
        kg_log(KG_WARN, "orchestrator %s is not loaded: %s", place->orchestrator->id,
               err_or_null->message);
    place_rest(place);
    kg_waits_tell(&place->waits, err_or_null);
    if (place->later.first == NULL || place->loading != NULL)
        return;
    for (struct kg_wait *wait; (wait = place->later.first) != NULL;) {
        kg_wait_withdraw(wait);
        kg_wait_add(&place->waits, wait, wait->on_done);
    }
    place_begin(place);
}

static void loading_end(struct pool_loading *loading, const struct kg_err *err_or_null)
{
    struct pool *pool = loading->pool;
    struct pool_place *place = loading->place;
    struct kg_err err = err_or_null != NULL ? *err_or_null : (struct kg_err){0};
    KG_UNLINK(pool->loads, loading);
    pool->running--;
    loading_free(loading);
    if (place != NULL)
        place_told(place, err.code != KG_OK ? &err : NULL);
    if (!pool->stopping)
        pool_pump(pool);
}

void pool_load(struct pool *pool, struct catalog_orchestrator *orchestrator, struct kg_wait *wait,
               void (*on_done)(struct kg_wait *wait, const struct kg_err *err_or_null))
{
    struct pool_place *place = catalog_pool_place_of(pool, orchestrator);
    if (place->loading != NULL) {
        kg_wait_add(&place->later, wait, on_done);
        return;
    }
    kg_wait_add(&place->waits, wait, on_done);
    place_begin(place);
}

static void place_end(struct pool_place *place, const struct kg_err *err)
{
    struct pool_loading *loading = kg_steal(&place->loading);
    place_unload(place);
    place->problem = (struct kg_err){0};
    if (loading == NULL)
        return;
    loading->place = NULL;
    place_release(place);
    on_package_moved(place->pool);
    kg_waits_tell(&place->waits, err);
    kg_waits_tell(&place->later, err);
}

void pool_unload(struct pool *pool, struct catalog_orchestrator *orchestrator)
{
    struct kg_err err = {0};
    kg_fail(&err, KG_E_CONFLICT, "the orchestrator %s was unloaded meanwhile", orchestrator->name);
    place_end(catalog_pool_place_of(pool, orchestrator), &err);
}

void pool_changed(struct pool *pool, struct catalog_orchestrator *orchestrator)
{
    if (orchestrator->deleted)
        pool_unload(pool, orchestrator);
    else if (orchestrator->place != NULL)
        place_rest(orchestrator->place);
}

void pool_unload_org(struct pool *pool, const struct catalog_org *org)
{
    for (struct pool_place *at = pool->places; at != NULL; at = at->next)
        if (at->orchestrator->org == org)
            pool_unload(pool, at->orchestrator);
}

/* A package of the org is told something else now, or may reach something else. */
static void pool_mark(struct pool *pool, const char *org, const char *pid)
{
    for (struct pool_place *at = pool->places; at != NULL; at = at->next)
        if (at->is_loaded && strcmp(at->orchestrator->org->id, org) == 0 &&
            kg_list_has(at->pids, kg_str(pid)))
            at->orchestrator->revision++;
}

/* -- what is asked of it ----------------------------------------------------------------------- */

static bool place_is_ready(const struct pool_place *place, struct kg_err *err)
{
    for (size_t i = 0; place->is_loaded && place->uses[i] != NULL; i++)
        if (host_package_state(place->uses[i], err) == HOST_PACKAGE_FAILED)
            return false;
    return place->is_loaded;
}

/* On a node that is there. */
static bool place_is_elsewhere(const struct pool_place *place)
{
    const struct cluster *nodes = pool_nodes(place->pool);
    const char *holder = nodes != NULL ? cluster_holder(nodes, place->project) : NULL;
    const struct cluster_node *node = holder != NULL ? cluster_node_find(nodes, holder) : NULL;
    return node != NULL && !node->is_self && node->is_alive;
}

void pool_put(struct pool *pool, struct catalog_orchestrator *orchestrator,
              struct kg_json_writer *json)
{
    const struct pool_place *place = catalog_pool_place_of(pool, orchestrator);
    struct kg_err err = {0};
    bool is_ready = place_is_ready(place, &err);
    if (err.code == KG_OK)
        err = place->problem;
    kg_json_named_bool(json, "is_ready", is_ready || place_is_elsewhere(place));
    kg_json_named_bool(json, "stale",
                       place->is_loaded && place->revision != orchestrator->revision);
    kg_json_named_text(json, "load_error", err.code != KG_OK ? err.message : NULL);
}

void pool_get(struct pool *pool, struct catalog_orchestrator *orchestrator, struct kg_wait *wait,
              void (*on_done)(struct kg_wait *wait, const struct kg_err *err_or_null))
{
    struct pool_place *place = catalog_pool_place_of(pool, orchestrator);
    const struct cluster *nodes = pool_nodes(pool);
    struct kg_err err = {0};
    if (place->is_loaded && (nodes == NULL || cluster_holds(nodes, place->project))) {
        on_done(wait, NULL);
    } else if (place->loading != NULL) {
        kg_wait_add(&place->waits, wait, on_done);
    } else if (place->is_loaded || place_is_elsewhere(place)) {
        cluster_fail_elsewhere(nodes, place->project, &err);
        on_done(wait, &err);
    } else if (strcmp(orchestrator->tier, "hot") == 0) {
        kg_fail(&err, KG_E_NOT_READY, "the orchestrator %s is not loaded", orchestrator->name);
        kg_hint(&err, "POST /api/orgs/%s/orchestrators/%s/load", orchestrator->org->id,
                orchestrator->id);
        on_done(wait, &err);
    } else {
        pool_load(pool, orchestrator, wait, on_done);
    }
}

int pool_use_begin(struct catalog_orchestrator *orchestrator, struct pool_use *ret_use,
                   struct kg_err *err)
{
    struct pool_place *place = orchestrator->place;
    size_t count = 0;
    if (place == NULL || !place->is_loaded)
        return kg_fail(err, KG_E_NOT_READY, "the orchestrator %s is not loaded",
                       orchestrator->name);
    while (place->scoped[count] != NULL)
        count++;
    *ret_use = (struct pool_use){
        .place = place,
        .project = kg_strdup(place->project),
        .scoped = kg_alloc_array(count + 1, sizeof(*ret_use->scoped)),
        .packages = projects_packages_keep(place->packages),
    };
    memcpy(ret_use->scoped, place->scoped, count * sizeof(*ret_use->scoped));
    place->chats++;
    place_rest(place);
    return 0;
}

void pool_use_end(struct pool_use *use)
{
    struct pool_place *place = use->place;
    projects_packages_drop(use->packages);
    free(use->scoped);
    free(use->project);
    *use = (struct pool_use){0};
    if (place == NULL)
        return;
    place->chats--;
    place_rest(place);
}

/* -- from the daemon's start to its end -------------------------------------------------------- */

/* The operator unloaded its project. */
static void catalog_pool_on_project_change(struct projects_listener *listener, const char *id,
                                           struct projects_entry *project_or_null)
{
    struct pool *pool = KG_CONTAINER(listener, struct pool, listener);
    for (struct pool_place *at = pool->places; project_or_null == NULL && at != NULL; at = at->next)
        if (at->is_loaded && strcmp(at->project, id) == 0) {
            place_clear(at);
            place_release(at);
        }
}

/* All that runs of it ends now: another node may go on with it soon. */
static void pool_on_lost(void *data, const char *project)
{
    struct pool *pool = data;
    struct kg_err err = {0};
    kg_fail(&err, KG_E_ELSEWHERE, "the lease of %s was lost", project);
    kg_hint(&err, "try again in some seconds");
    sessions_let_go(pool->catalog->sessions, project, &err);
    for (struct pool_place *at = pool->places; at != NULL; at = at->next)
        if (strcmp(at->project, project) == 0)
            place_end(at, &err);
}

static void on_package_changed(void *data, const char *org, const char *pid)
{
    pool_mark(data, org, pid);
}

static void on_hot(struct kg_wait *wait, const struct kg_err *err_or_null)
{
    (void)err_or_null; /* it is in the log, and shown */
    free(wait);
}

static bool pool_wants(const struct catalog_orchestrator *orchestrator)
{
    return !orchestrator->deleted && orchestrator->org->active && !orchestrator->org->deleted &&
           strcmp(orchestrator->tier, "hot") == 0;
}

/* One that failed here is not tried again by itself. */
static void pool_on_claim(struct loop_timer *timer)
{
    struct pool *pool = KG_CONTAINER(timer, struct pool, claim);
    void *each;
    for (size_t at = 0; !pool->stopping && kg_map_next(pool->catalog->orchestrators, &at,
                                                       &(struct kg_str){0}, &each);) {
        struct catalog_orchestrator *orchestrator = each;
        if (!pool_wants(orchestrator))
            continue;
        const struct pool_place *place = catalog_pool_place_of(pool, orchestrator);
        if (!place->is_loaded && place->loading == NULL && place->problem.code == KG_OK &&
            cluster_is_left(pool_nodes(pool), place->project))
            pool_load(pool, orchestrator, kg_alloc(sizeof(struct kg_wait)), on_hot);
    }
}

/* Who has the least goes first. */
static void pool_on_leases(struct cluster_listener *listener, enum cluster_kind kind,
                           const char *ref_or_null)
{
    (void)kind, (void)ref_or_null;
    struct pool *pool = KG_CONTAINER(listener, struct pool, leases);
    uint64_t wait_ms = 0;
    for (const struct pool_place *at = pool->places; at != NULL; at = at->next)
        wait_ms += at->is_loaded || at->loading != NULL ? CLAIM_MS : 0;
    if (!pool->stopping && !loop_timer_running(&pool->claim))
        loop_timer_start(catalog_pool_loop_of(pool), &pool->claim,
                         wait_ms < CLAIM_MOST_MS ? wait_ms : CLAIM_MOST_MS, pool_on_claim);
}

struct pool *pool_new(struct catalog *catalog)
{
    struct pool *pool = kg_alloc(sizeof(*pool));
    pool->catalog = catalog;
    pool->look.run = catalog_pool_on_look;
    pool->listener.on_change = catalog_pool_on_project_change;
    projects_listen(catalog->host, &pool->listener);
    catalog_on_changed(catalog, on_package_changed, pool);
    return pool;
}

void pool_start(struct pool *pool)
{
    void *each;
    pool->leases.kinds = 1 << CLUSTER_LEASE;
    pool->leases.on_change = pool_on_leases;
    cluster_listen(pool_nodes(pool), &pool->leases);
    if (pool_nodes(pool) != NULL)
        cluster_on_lost(pool_nodes(pool), pool_on_lost, pool);
    for (size_t at = 0;
         kg_map_next(pool->catalog->orchestrators, &at, &(struct kg_str){0}, &each);) {
        struct catalog_orchestrator *orchestrator = each;
        if (pool_wants(orchestrator))
            pool_load(pool, orchestrator, kg_alloc(sizeof(struct kg_wait)), on_hot);
    }
}

/* Those that wait are told; what is asked of others comes back to a load that is off. */
void pool_stop(struct pool *pool)
{
    struct kg_err err = {0};
    kg_fail(&err, KG_E_STOPPING, "the daemon is stopping");
    pool->stopping = true;
    for (struct pool_place *at = pool->places; at != NULL; at = at->next) {
        kg_waits_tell(&at->waits, &err);
        kg_waits_tell(&at->later, &err);
    }
    loop_defer(catalog_pool_loop_of(pool), &pool->look);
}

/* The leases stay with the node for as long as it writes for them. */
static void pool_leave(struct pool *pool)
{
    struct cluster *nodes = pool_nodes(pool);
    loop_timer_stop(catalog_pool_loop_of(pool), &pool->claim);
    if (nodes == NULL || pool->leases.on_change == NULL)
        return;
    cluster_on_lost(nodes, NULL, NULL);
    cluster_unlisten(nodes, &pool->leases);
    for (const struct pool_loading *at = pool->loads; at != NULL; at = at->next)
        cluster_withdraw(nodes, at);
}

void pool_free(struct pool *pool)
{
    if (pool == NULL)
        return;
    pool_leave(pool);
    loop_undefer(catalog_pool_loop_of(pool), &pool->look);
    projects_unlisten(pool->catalog->host, &pool->listener);
    for (struct pool_loading *lists[] = {pool->queue, pool->loads}, **list = lists;
         list < lists + KG_COUNT(lists); list++)
        for (struct pool_loading *next; *list != NULL; *list = next) {
            next = (*list)->next;
            loading_free(*list);
        }
    for (struct pool_place *next; pool->places != NULL; pool->places = next) {
        next = pool->places->next;
        place_clear(pool->places);
        free(pool->places->project);
        free(pool->places);
    }
    free(pool);
}
