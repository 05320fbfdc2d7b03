/*
 * What a daemon has in memory of the database follows the changes of others: it is read again by a
 * task of the keeper's, behind all that this node itself has asked to be written, so that what is
 * read is never older than what is known.
 */
#include "cluster/cluster.h"

static void follow_read(struct cluster_follow *follow);

static int follow_run(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct cluster_follow *follow = KG_CONTAINER(task, struct cluster_follow, task);
    return follow->read(follow, state, err);
}

static void follow_on_read(struct state_task *task, const struct kg_err *err_or_null)
{
    struct cluster_follow *follow = KG_CONTAINER(task, struct cluster_follow, task);
    follow->is_reading = false;
    if (err_or_null != NULL) /* all is read again once the database is back */
        kg_log(KG_WARN, "cluster: read what was changed: %s", err_or_null->message);
    follow->take(follow, err_or_null == NULL && !follow->ended);
    if (follow->again && !follow->ended)
        follow_read(follow);
}

static void follow_read(struct cluster_follow *follow)
{
    follow->again = follow->is_reading;
    if (follow->is_reading)
        return;
    follow->is_reading = true;
    follow->task = (struct state_task){.run = follow_run, .done = follow_on_read};
    state_keeper_read(follow->keeper, &follow->task);
}

static void follow_on_change(struct cluster_listener *listener, enum cluster_kind kind,
                             const char *ref_or_null)
{
    (void)kind, (void)ref_or_null;
    follow_read(KG_CONTAINER(listener, struct cluster_follow, listener));
}

void cluster_follow_begin(struct cluster_follow *follow, struct cluster *cluster_or_null,
                          struct state_keeper *keeper, uint64_t kinds)
{
    follow->cluster = cluster_or_null;
    follow->keeper = keeper;
    follow->listener.kinds = kinds;
    follow->listener.on_change = follow_on_change;
    cluster_listen(cluster_or_null, &follow->listener);
}

void cluster_follow_end(struct cluster_follow *follow)
{
    if (follow->keeper == NULL)
        return;
    follow->ended = true;
    cluster_unlisten(follow->cluster, &follow->listener);
    if (follow->is_reading)
        state_keeper_drain(follow->keeper);
}
