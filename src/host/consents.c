/*
 * The consent queue of a running daemon: what it fetches is fetched by the store, and its slow work
 * is done off the loop. Work that is under way knows its consent by id only, so that it may end
 * after the consent was declined, or after the queue is gone.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

/* One offer that is being made, or one that is being taken. */
struct work {
    struct loop_job job; /* makes the offer */
    struct host *host;
    struct kg_id consent;
    struct store_fetch *fetch;     /* while it is fetched; else NULL */
    struct store_source *source;   /* owned; NULL: what is installed is offered */
    struct store_fetched *fetched; /* the job's */
    char *name;                    /* owned; the only one that fits, or NULL */
    struct store_own own;          /* owned; what the operator adds; no lists: nothing */
    struct store_offer *offer;     /* what the job made, or else why not */
    struct kg_err err;
    struct work *next; /* in host->fetches */
};

static void work_free(struct work *work)
{
    store_source_free(work->source);
    store_own_free(&work->own);
    free(work->name);
    free(work);
}

/* NULL: nobody waits for it any more. */
static struct consent *consent_of(const struct work *work)
{
    const struct consent_queue *queue = work->host->consents;
    return queue != NULL ? consent_find(queue, kg_str(work->consent.text), NULL) : NULL;
}

/* Whether the consent still waits for this: it could have been declined, and wanted again. */
static bool host_consents_is_listed(const struct work *work)
{
    const struct work *at = work->host->fetches;
    while (at != NULL && at != work)
        at = at->next;
    return at != NULL;
}

static struct work *work_new(struct host *host, const struct consent *consent, const char *name)
{
    struct work *work = kg_alloc(sizeof(*work));
    work->host = host;
    work->consent = consent_key(consent);
    work->name = kg_strdup(name);
    return work;
}

/* -- making an offer --------------------------------------------------------------------------- */

/* What the operator adds is told to be none now, and not by a plugin that does not start. */
static void check_added(struct work *work)
{
    const struct host *host = work->host;
    const struct host_cage_parts parts = {
        .plugins_dir = host->plugins_dir,
        .config = host->config,
        .paths = host->paths,
        .facts = host->facts,
    };
    if (host->no_cage.code != KG_OK || host_check_added(parts, work->offer, &work->err) == 0)
        return;
    host_offer_drop(work->host, kg_steal(&work->offer));
}

static void end_offer(struct work *work)
{
    struct consent *consent = host_consents_is_listed(work) ? consent_of(work) : NULL;
    KG_UNLINK(work->host->fetches, work);
    if (work->offer != NULL && work->own.grants != NULL)
        check_added(work);
    if (consent != NULL && work->offer != NULL)
        consent_offered(consent, work->offer);
    else if (consent != NULL)
        consent_failed(consent, &work->err);
    else
        host_offer_drop(work->host, work->offer);
    work_free(work);
}

static void run_offer(struct loop_job *job)
{
    struct work *work = KG_CONTAINER(job, struct work, job);
    struct store *store = work->host->store;
    if (work->source != NULL)
        (void)store_offer_fetched(store, work->source, work->fetched, work->name, &work->offer,
                                  &work->err);
    else
        (void)store_offer_installed(store, work->name, &work->offer, &work->err);
    if (work->offer != NULL && work->own.grants != NULL &&
        store_offer_add_own(store, work->offer, &work->own, &work->err) < 0)
        store_offer_free(kg_steal(&work->offer));
}

static void on_offer_made(struct loop_job *job)
{
    struct work *work = KG_CONTAINER(job, struct work, job);
    struct host *host = work->host;
    end_offer(work);
    host_store_job_done(host);
}

static void make_offer(struct work *work)
{
    work->job.run = run_offer;
    work->job.done = on_offer_made;
    host_store_job(work->host, &work->job);
}

static void host_consents_on_progress(void *data, const struct store_progress *progress)
{
    struct consent *consent = consent_of(data);
    if (consent != NULL)
        consent_progress(consent, progress);
}

static void host_consents_on_fetched(void *data, struct store_fetched *fetched,
                                     const struct kg_err *err_or_null)
{
    struct work *work = data;
    work->fetch = NULL;
    work->fetched = fetched;
    if (fetched != NULL) {
        make_offer(work);
        return;
    }
    work->err = *err_or_null;
    end_offer(work);
}

/* A path is the caller's, whose folder the daemon does not know. */
static int check_absolute(const struct consent_wish *wish, struct kg_err *err)
{
    if (wish->base != NULL || wish->source[0] == '/' || !store_source_is_path(wish->source))
        return 0;
    kg_fail(err, KG_E_USAGE, "source %" KG_S_PATH ": neither an absolute path nor a URL",
            wish->source);
    return kg_hint(err,
                   "give an absolute path, or https://, git+https://, file://, npm: or catalog:");
}

static int begin_fetch(struct work *work, const struct consent_wish *wish, struct kg_err *err)
{
    int result = check_absolute(wish, err);
    if (result == 0)
        result = store_source_parse(wish->source, wish->version, wish->base ? wish->base : "/",
                                    &work->source, err);
    if (result == 0) {
        kg_replace(&work->source->server, wish->server);
        work->source->packages = wish->packages;
    }
    return result < 0 ? result
                      : store_fetch(host_store(work->host), work->source, host_consents_on_progress,
                                    host_consents_on_fetched, work, &work->fetch, err);
}

static int host_consents_prepare(void *data, struct consent *consent,
                                 const struct consent_wish *wish, struct kg_err *err)
{
    struct host *host = data;
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (wish->kind == CONSENT_DEV)
        return 0; /* who raises it has the offer */
    struct work *work = work_new(host, consent, wish->plugin);
    if (wish->own != NULL)
        work->own = store_own_copy(wish->own);
    if (wish->source == NULL) {
        make_offer(work);
    } else if (begin_fetch(work, wish, err) < 0) {
        work_free(work);
        return -EINVAL;
    }
    work->next = host->fetches;
    host->fetches = work;
    return 0;
}

static void host_consents_cancel(void *data, struct consent *consent)
{
    struct host *host = data;
    struct work *work = host->fetches;
    while (work != NULL && strcmp(work->consent.text, consent_id(consent)) != 0)
        work = work->next;
    if (work == NULL)
        return;
    KG_UNLINK(host->fetches, work);
    if (work->fetch == NULL)
        return; /* its job ends it */
    store_fetch_cancel(work->fetch);
    work_free(work);
}

static void host_consents_drop(void *data, struct store_offer *offer)
{
    host_offer_drop(data, offer);
}

/* -- taking one -------------------------------------------------------------------------------- */

static void host_consents_on_taken(void *data, const struct host_changed *changed,
                                   const struct kg_err *err_or_null)
{
    struct work *work = data;
    struct consent *consent = consent_of(work);
    if (consent != NULL && err_or_null != NULL)
        consent_failed(consent, err_or_null);
    else if (consent != NULL)
        consent_taken(consent, &changed->outcome);
    work_free(work);
}

static void host_consents_take(void *data, struct consent *consent, struct store_offer *offer,
                               const struct store_consent *yes, const char *operator_id)
{
    if (offer->kind == STORE_DEV)
        host_dev_take(data, consent, offer);
    else
        host_take(data, offer, yes, operator_id, host_consents_on_taken,
                  work_new(data, consent, NULL));
}

/* -- the network of a fetch -------------------------------------------------------------------- */

void host_fetch_network(void *data, const struct store_source *source,
                        const struct gate_event *event)
{
    const struct host *host = data;
    audit_emit(host->audit, AUDIT_STORE_FETCH_CONNECTION, KG_STR_NULL, AUDIT_V_TEXT(source->text),
               AUDIT_V_TEXT(gate_outcomes[event->kind]), AUDIT_V_TEXT(event->host),
               AUDIT_V_INT(event->port), AUDIT_V_TEXT(event->address), AUDIT_V_TEXT(event->reason),
               AUDIT_V_INT((int64_t)event->bytes_in));
}

/* -- the queue --------------------------------------------------------------------------------- */

static struct consent_limits limits_of(const struct config *config)
{
    return (struct consent_limits){
        .open_max = (size_t)config->limits_consents,
        .offer_ms = (uint64_t)config->limits_consent_offer_ms,
    };
}

int host_consents_open(struct host *host, struct kg_err *err)
{
    static const struct consent_ops ops = {
        .prepare = host_consents_prepare,
        .cancel = host_consents_cancel,
        .drop = host_consents_drop,
        .take = host_consents_take,
    };
    const struct consent_parts parts = {
        .loop = host->loop,
        .keeper = host->keeper,
        .audit = host->audit,
        .ops = &ops,
        .data = host,
        .limits = limits_of(host->config),
    };
    host->consents = consent_queue_new(&parts, err);
    return host->consents != NULL ? 0 : -EINVAL;
}

void host_consents_set_limits(struct host *host)
{
    const struct consent_limits limits = limits_of(host->config);
    consent_queue_set_limits(host->consents, &limits);
}

void host_consents_close(struct host *host)
{
    consent_queue_free(kg_steal(&host->consents));
}

struct consent_queue *host_consents(struct host *host)
{
    return host->consents;
}
