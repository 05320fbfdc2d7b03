/*
 * The loop's side of a cluster: what is known of the other nodes, and what this one has. That it
 * has a lease is believed for a part of the lease's time only, counted from when the database was
 * asked to renew it; then it is given up, whatever the thread that asks is waiting for.
 */
#include "cluster/thread.h"

#include <errno.h>
#include <stdlib.h>

struct cluster {
    struct loop *loop; /* borrowed */
    char *self;
    uint64_t believe_ms; /* in a lease, after it was renewed */
    struct cluster_thread *thread;
    struct cluster_view *view; /* NULL: the database was not looked at yet */
    struct kg_map *held;       /* by project: struct held, owned */
    uint64_t renewed_ms;       /* when that was asked for, for all of them */
    struct loop_timer doubt;
    struct cluster_wish *takes; /* that are under way */
    struct cluster_listener *listeners;
    cluster_lost_fn *on_lost; /* may be NULL */
    void *lost_data;
    bool ended;
};

struct held {
    int64_t epoch;
};

/* -- changes ----------------------------------------------------------------------------------- */

void cluster_listen(struct cluster *cluster, struct cluster_listener *listener)
{
    if (cluster == NULL)
        return;
    listener->next = cluster->listeners;
    cluster->listeners = listener;
}

void cluster_unlisten(struct cluster *cluster, struct cluster_listener *listener)
{
    if (cluster != NULL)
        KG_UNLINK(cluster->listeners, listener);
}

static void cluster_tell_change(struct cluster *cluster, enum cluster_kind kind,
                                const char *ref_or_null)
{
    for (struct cluster_listener *at = cluster->listeners, *next; at != NULL; at = next) {
        next = at->next;
        if ((at->kinds >> kind & 1) != 0)
            at->on_change(at, kind, ref_or_null);
    }
}

static void cluster_on_view(struct loop_message *message)
{
    struct cluster_view *view = KG_CONTAINER(message, struct cluster_view, message);
    struct cluster *cluster = view->cluster;
    cluster_view_free(cluster->view);
    cluster->view = view;
    if (cluster->ended)
        return;
    for (int kind = 0; view->all_changed && kind < CLUSTER_KIND_COUNT; kind++)
        cluster_tell_change(cluster, (enum cluster_kind)kind, NULL);
    for (size_t i = 0; !view->all_changed && i < view->change_count; i++)
        cluster_tell_change(cluster, view->changes[i].kind, view->changes[i].ref);
    if (view->holders_changed && !view->all_changed)
        cluster_tell_change(cluster, CLUSTER_LEASE, NULL);
}

/* -- nodes ------------------------------------------------------------------------------------- */

const char *cluster_self(const struct cluster *cluster)
{
    return cluster->self;
}

void cluster_set_address(struct cluster *cluster, const char *address)
{
    cluster_thread_set_address(cluster->thread, address);
}

const struct cluster_node *cluster_node_find(const struct cluster *cluster, const char *name)
{
    for (size_t i = 0; cluster->view != NULL && i < cluster->view->node_count; i++)
        if (strcmp(cluster->view->nodes[i].name, name) == 0)
            return &cluster->view->nodes[i];
    return NULL;
}

void cluster_nodes(const struct cluster *cluster, cluster_node_fn *visit, void *data)
{
    for (size_t i = 0; cluster->view != NULL && i < cluster->view->node_count; i++)
        visit(data, &cluster->view->nodes[i]);
}

/* -- leases ------------------------------------------------------------------------------------ */

const char *cluster_holder(const struct cluster *cluster, const char *project)
{
    if (kg_map_get(cluster->held, kg_str(project)) != NULL)
        return cluster->self;
    const char *node =
        cluster->view != NULL ? kg_map_get(cluster->view->holders, kg_str(project)) : NULL;
    return node != NULL && node[0] != '\0' ? node : NULL;
}

bool cluster_is_left(const struct cluster *cluster, const char *project)
{
    const char *node =
        cluster->view != NULL ? kg_map_get(cluster->view->holders, kg_str(project)) : NULL;
    return node != NULL && node[0] == '\0' && kg_map_get(cluster->held, kg_str(project)) == NULL;
}

bool cluster_holds(const struct cluster *cluster, const char *project)
{
    return kg_map_get(cluster->held, kg_str(project)) != NULL &&
           kg_monotonic_ms() < cluster->renewed_ms + cluster->believe_ms;
}

int cluster_fail_elsewhere(const struct cluster *cluster, const char *project, struct kg_err *err)
{
    const char *holder = cluster_holder(cluster, project);
    const struct cluster_node *node = holder ? cluster_node_find(cluster, holder) : NULL;
    kg_fail(err, KG_E_ELSEWHERE, "%s is on node %s%s", project, holder ? holder : "?",
            node != NULL && !node->is_alive ? ", which is away" : "");
    return kg_hint(err, "try again in some seconds, or ask that node");
}

static void cluster_ask(struct cluster *cluster, struct cluster_wish wish, const char *project)
{
    struct cluster_wish *asked = kg_alloc(sizeof(*asked));
    *asked = wish;
    asked->cluster = cluster;
    asked->project = kg_strdup(project);
    if (asked->is_take) {
        asked->next = cluster->takes;
        cluster->takes = asked;
    }
    cluster_thread_ask(cluster->thread, asked);
}

/* It is not ours from this moment on, and the database hears of it when it can. */
static void held_drop(struct cluster *cluster, const char *project, bool is_left)
{
    struct held *held = kg_map_remove(cluster->held, kg_str(project));
    if (held == NULL)
        return;
    cluster_ask(cluster, (struct cluster_wish){.epoch = held->epoch, .is_left = is_left}, project);
    free(held);
}

static void held_lose(struct cluster *cluster, const char *project)
{
    if (kg_map_get(cluster->held, kg_str(project)) == NULL)
        return;
    kg_log(KG_WARN, "cluster: the lease of %s is lost, and what runs of it ends", project);
    held_drop(cluster, project, true);
    if (cluster->on_lost != NULL)
        cluster->on_lost(cluster->lost_data, project);
}

static void cluster_on_doubt(struct loop_timer *timer);

/* The timer is as good as the last renewal. */
static void doubt_begin(struct cluster *cluster)
{
    uint64_t now_ms = kg_monotonic_ms(), until_ms = cluster->renewed_ms + cluster->believe_ms;
    if (kg_map_count(cluster->held) == 0)
        loop_timer_stop(cluster->loop, &cluster->doubt);
    else
        loop_timer_start(cluster->loop, &cluster->doubt, until_ms > now_ms ? until_ms - now_ms : 0,
                         cluster_on_doubt);
}

static void cluster_on_doubt(struct loop_timer *timer)
{
    struct cluster *cluster = KG_CONTAINER(timer, struct cluster, doubt);
    if (kg_monotonic_ms() < cluster->renewed_ms + cluster->believe_ms) {
        doubt_begin(cluster);
        return;
    }
    char **names = kg_list_new(0);
    struct kg_str name;
    void *held;
    for (size_t at = 0; kg_map_next(cluster->held, &at, &name, &held);)
        kg_list_add(&names, kg_str_dup(name));
    for (char **each = names; *each != NULL; each++)
        held_lose(cluster, *each);
    kg_list_free(names);
}

static void cluster_on_renewed(struct loop_message *message)
{
    struct cluster_renewed *renewed = KG_CONTAINER(message, struct cluster_renewed, message);
    struct cluster *cluster = renewed->cluster;
    for (char **each = renewed->lost; !cluster->ended && *each != NULL; each++)
        held_lose(cluster, *each);
    if (renewed->asked_ms > cluster->renewed_ms)
        cluster->renewed_ms = renewed->asked_ms;
    if (!cluster->ended)
        doubt_begin(cluster);
    kg_list_free(renewed->lost);
    free(renewed);
}

static void held_take(struct cluster *cluster, const struct cluster_wish *wish)
{
    struct held *held = kg_map_get(cluster->held, kg_str(wish->project));
    if (kg_map_count(cluster->held) == 0)
        cluster->renewed_ms = wish->asked_ms;
    if (held == NULL) {
        held = kg_alloc(sizeof(*held));
        kg_map_set(cluster->held, kg_str(wish->project), held);
    }
    held->epoch = wish->epoch;
    doubt_begin(cluster);
}

static void cluster_on_wish(struct loop_message *message)
{
    struct cluster_wish *wish = KG_CONTAINER(message, struct cluster_wish, message);
    struct cluster *cluster = wish->cluster;
    if (wish->is_take)
        KG_UNLINK(cluster->takes, wish);
    if (wish->is_take && !cluster->ended) {
        if (wish->err.code == KG_OK)
            held_take(cluster, wish);
        if (wish->on_taken != NULL)
            wish->on_taken(wish->data, wish->err.code != KG_OK ? &wish->err : NULL);
        else
            cluster_release(cluster, wish->project);
    }
    free(wish->project);
    free(wish);
}

void cluster_take(struct cluster *cluster, const char *project, cluster_taken_fn *on_taken,
                  void *data)
{
    cluster_ask(cluster, (struct cluster_wish){.is_take = true, .on_taken = on_taken, .data = data},
                project);
}

void cluster_withdraw(struct cluster *cluster, const void *data)
{
    for (struct cluster_wish *at = cluster->takes; at != NULL; at = at->next)
        if (at->data == data)
            at->on_taken = NULL;
}

void cluster_release(struct cluster *cluster, const char *project)
{
    held_drop(cluster, project, false);
    doubt_begin(cluster);
}

void cluster_on_lost(struct cluster *cluster, cluster_lost_fn *on_lost, void *data)
{
    cluster->on_lost = on_lost;
    cluster->lost_data = data;
}

/* -- its life ---------------------------------------------------------------------------------- */

struct cluster *cluster_new(const struct cluster_options *options, struct kg_err *err)
{
    struct cluster *cluster = kg_alloc(sizeof(*cluster));
    cluster->loop = options->loop;
    cluster->self = kg_strdup(options->node);
    cluster->believe_ms = options->lease_ms * 7 / 10;
    cluster->held = kg_map_new();
    const struct cluster_thread_parts parts = {
        .loop = options->loop,
        .cluster = cluster,
        .state = options->state,
        .node = cluster->self,
        .lease_ms = options->lease_ms,
        .on_wish = cluster_on_wish,
        .on_renewed = cluster_on_renewed,
        .on_view = cluster_on_view,
    };
    cluster->thread = cluster_thread_new(&parts, err);
    if (cluster->thread != NULL)
        return cluster;
    cluster_free(cluster);
    return NULL;
}

void cluster_free(struct cluster *cluster)
{
    struct kg_str name;
    void *held;
    if (cluster == NULL)
        return;
    cluster->ended = true;
    loop_timer_stop(cluster->loop, &cluster->doubt);
    if (cluster->thread != NULL)
        cluster_thread_free(cluster->thread);
    for (size_t at = 0; kg_map_next(cluster->held, &at, &name, &held);)
        free(held);
    kg_map_free(cluster->held);
    cluster_view_free(cluster->view);
    free(cluster->self);
    free(cluster);
}
