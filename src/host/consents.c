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
    struct host *host;
    struct kg_id consent;
    struct store_fetch *fetch;   /* while it is fetched; else NULL */
    struct store_source *source; /* owned */
    char *name;                  /* owned; the only one that fits, or NULL */
    struct work *next;           /* in host->fetches */
};

static void work_free(struct work *work)
{
    store_source_free(work->source);
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
static bool is_listed(const struct work *work)
{
    const struct work *at = work->host->fetches;
    while (at != NULL && at != work)
        at = at->next;
    return at != NULL;
}

static void unlist(struct work *work)
{
    struct work **at = &work->host->fetches;
    while (*at != NULL && *at != work)
        at = &(*at)->next;
    if (*at != NULL)
        *at = work->next;
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

static void on_offer(void *data, struct store_offer *offer, const struct kg_err *err_or_null)
{
    struct work *work = data;
    struct consent *consent = is_listed(work) ? consent_of(work) : NULL;
    unlist(work);
    if (consent != NULL && offer != NULL)
        consent_offered(consent, offer);
    else if (consent != NULL)
        consent_failed(consent, err_or_null);
    else
        host_offer_drop(work->host, offer);
    work_free(work);
}

static void on_progress(void *data, const struct store_progress *progress)
{
    struct consent *consent = consent_of(data);
    if (consent != NULL)
        consent_progress(consent, progress);
}

static void on_fetched(void *data, struct store_fetched *fetched, const struct kg_err *err_or_null)
{
    struct work *work = data;
    work->fetch = NULL;
    if (fetched == NULL)
        on_offer(work, NULL, err_or_null);
    else
        host_offer_fetched(work->host, work->source, fetched, work->name, on_offer, work);
}

/* A path is the caller's, whose folder the daemon does not know. */
static int check_absolute(const struct consent_wish *wish, struct kg_err *err)
{
    if (wish->base != NULL || wish->source[0] == '/' || strstr(wish->source, "://") != NULL)
        return 0;
    kg_fail(err, KG_E_USAGE, "source %.200s: neither an absolute path nor a URL", wish->source);
    kg_hint(err, "give the path from / on, or https://, git+https:// or file://");
    return -EINVAL;
}

static int begin_fetch(struct work *work, const struct consent_wish *wish, struct kg_err *err)
{
    int result = check_absolute(wish, err);
    if (result == 0)
        result = store_source_parse(wish->source, wish->version, wish->base ? wish->base : "/",
                                    &work->source, err);
    return result < 0 ? result
                      : store_fetch(host_store(work->host), work->source, on_progress, on_fetched,
                                    work, &work->fetch, err);
}

static int prepare(void *data, struct consent *consent, const struct consent_wish *wish,
                   struct kg_err *err)
{
    struct host *host = data;
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (wish->kind == CONSENT_DEV)
        return 0; /* who raises it has the offer */
    struct work *work = work_new(host, consent, wish->plugin);
    if (wish->source == NULL) {
        host_offer_installed(host, kg_str(work->name), on_offer, work);
    } else if (begin_fetch(work, wish, err) < 0) {
        work_free(work);
        return -EINVAL;
    }
    work->next = host->fetches;
    host->fetches = work;
    return 0;
}

static void cancel(void *data, struct consent *consent)
{
    struct host *host = data;
    struct work *work = host->fetches;
    while (work != NULL && strcmp(work->consent.text, consent_id(consent)) != 0)
        work = work->next;
    if (work == NULL)
        return;
    unlist(work);
    if (work->fetch == NULL)
        return; /* it ends in on_offer */
    store_fetch_cancel(work->fetch);
    work_free(work);
}

static void drop(void *data, struct store_offer *offer)
{
    host_offer_drop(data, offer);
}

/* -- taking one -------------------------------------------------------------------------------- */

static void on_taken(void *data, const struct host_changed *changed,
                     const struct kg_err *err_or_null)
{
    struct work *work = data;
    struct consent *consent = consent_of(work);
    if (consent != NULL && err_or_null != NULL)
        consent_failed(consent, err_or_null);
    else if (consent != NULL)
        consent_taken(consent, &(struct consent_outcome){
                                   .name = changed->name,
                                   .version = changed->version,
                                   .was_running = changed->was_running,
                                   .reverted = changed->reverted,
                                   .reason = changed->reason,
                               });
    work_free(work);
}

static void take(void *data, struct consent *consent, struct store_offer *offer,
                 const struct store_consent *yes, const char *operator_id)
{
    if (offer->kind == STORE_DEV)
        host_dev_take(data, consent, offer);
    else
        host_take(data, offer, yes, operator_id, on_taken, work_new(data, consent, NULL));
}

/* -- the network of a fetch -------------------------------------------------------------------- */

void host_fetch_network(void *data, const struct store_source *source,
                        const struct gate_event *event)
{
    static const char *const outcomes[] = {
        [GATE_CONNECTED] = "connected",
        [GATE_ENDED] = "ended",
        [GATE_DENIED] = "denied",
        [GATE_FAILED] = "failed",
    };
    const struct host *host = data;
    audit_emit(host->audit, AUDIT_STORE_FETCH_CONNECTION, KG_STR_NULL, AUDIT_V_TEXT(source->text),
               AUDIT_V_TEXT(outcomes[event->kind]), AUDIT_V_TEXT(event->host),
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
        .prepare = prepare,
        .cancel = cancel,
        .drop = drop,
        .take = take,
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
