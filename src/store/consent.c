/*
 * The queue of consents. It is bounded; what was answered makes room for what was not. An offer is
 * owned by its consent until it is taken, declined or too old, and there is one way to take it:
 * consent_approve with the hash of what was shown.
 */
#include "store/consent_internal.h"
#include "store/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define FETCHES_MAX 4 /* at the same time; each has a cage of its own */
#define TEXT_MAX    4096
#define SERVER_MAX  16384

const char *const consent_kind_names[CONSENT_KIND_COUNT] = {
    [CONSENT_INSTALL] = "install",   [CONSENT_UPGRADE] = "upgrade", [CONSENT_APPROVE] = "approve",
    [CONSENT_ACTIVATE] = "activate", [CONSENT_DEV] = "dev",
};

/* -- one of them ------------------------------------------------------------------------------- */

static const struct consent_ops *ops_of(const struct consent *consent)
{
    return consent->queue->parts.ops;
}

static void *consent_data_of(const struct consent *consent)
{
    return consent->queue->parts.data;
}

void consent_end_offer(struct consent *consent)
{
    loop_timer_stop(consent->queue->parts.loop, &consent->expiry);
    consent->expires_ms = 0;
    kg_buf_free(&consent->offer_json);
    if (consent->offer != NULL)
        ops_of(consent)->drop(consent_data_of(consent), kg_steal(&consent->offer));
}

void consent_stop_fetching(struct consent *consent)
{
    ops_of(consent)->cancel(consent_data_of(consent), consent);
}

void consent_forget_offer(struct consent *consent)
{
    kg_buf_free(&consent->offer_json);
    kg_replace(&consent->taken_version, NULL);
}

void consent_forget_answer(struct consent *consent)
{
    consent->reason = (struct kg_err){.code = KG_OK};
    consent_forget_offer(consent);
}

static void consent_free(struct consent *consent)
{
    if (consent->state == CONSENT_FETCHING)
        consent_stop_fetching(consent);
    consent_end_offer(consent);
    if (consent->activation != NULL)
        consent->activation->consent = NULL;
    free(consent->project);
    free(consent->plugin);
    free(consent->source);
    free(consent->base);
    free(consent->version);
    store_own_free(&consent->own);
    free(consent->server);
    free(consent->raised_by);
    free(consent->answered_by);
    free(consent->taken_version);
    free(consent);
}

#define tell(consent, event, ...)                                                                  \
    do {                                                                                           \
        if ((consent)->queue->parts.audit != NULL)                                                 \
            audit_emit((consent)->queue->parts.audit, event, kg_str((consent)->request.id),        \
                       AUDIT_V_TEXT((consent)->id.text), AUDIT_V_TEXT((consent)->plugin),          \
                       AUDIT_V_TEXT((consent)->project), __VA_ARGS__);                             \
    } while (0)

/* It is asked for, or answered, by the request that is being handled. */
static void note_request(struct consent *consent)
{
    if (consent->queue->parts.audit != NULL)
        consent->request = audit_request(consent->queue->parts.audit);
}

/* -- the queue --------------------------------------------------------------------------------- */

struct consent_queue *consent_queue_new(const struct consent_parts *parts, struct kg_err *err)
{
    struct consent_queue *queue = kg_alloc(sizeof(*queue));
    queue->parts = *parts;
    if (consent_load_kept(queue, err) == 0)
        return queue;
    consent_queue_free(queue);
    return NULL;
}

void consent_queue_free(struct consent_queue *queue)
{
    if (queue == NULL)
        return;
    for (size_t i = 0; i < queue->count; i++)
        consent_free(queue->items[i]);
    consent_free_active(queue);
    free(queue->items);
    free(queue);
}

void consent_queue_set_limits(struct consent_queue *queue, const struct consent_limits *limits)
{
    queue->parts.limits = *limits;
}

size_t consent_count(const struct consent_queue *queue)
{
    return queue->count;
}

struct consent *consent_at(const struct consent_queue *queue, size_t index)
{
    return queue->items[index];
}

struct consent *consent_find(const struct consent_queue *queue, struct kg_str id,
                             struct kg_err *err)
{
    for (size_t i = 0; i < queue->count; i++)
        if (kg_str_is(id, queue->items[i]->id.text))
            return queue->items[i];
    kg_fail(err, KG_E_NOT_FOUND, "there is no consent \"%.*s\"", KG_STR_CUT(id, KG_CUT_NAME));
    kg_hint(err, "list them with: kaged project consent list");
    return NULL;
}

struct consent *consent_of_project(const struct consent_queue *queue, const char *project,
                                   const char *plugin)
{
    for (size_t i = 0; i < queue->count; i++) {
        struct consent *consent = queue->items[i];
        if (consent->project != NULL && strcmp(consent->project, project) == 0 &&
            strcmp(manifest_name_in(consent->plugin), manifest_name_in(plugin)) == 0)
            return consent;
    }
    return NULL;
}

struct consent *consent_add(struct consent_queue *queue, enum consent_kind kind)
{
    struct consent *consent = kg_alloc(sizeof(*consent));
    consent->queue = queue;
    consent->id = kg_id_new("con_");
    consent->kind = kind;
    consent->raised_ms = consent->changed_ms = kg_wall_ms();
    queue->items = kg_realloc(queue->items, (queue->count + 1) * sizeof(struct consent *));
    queue->items[queue->count++] = consent;
    return consent;
}

static void consent_remove_at(struct consent_queue *queue, size_t index)
{
    struct consent *consent = queue->items[index];
    queue->count--;
    memmove(&queue->items[index], &queue->items[index + 1],
            (queue->count - index) * sizeof(struct consent *));
    consent_free(consent);
}

/* As many as are open at most are remembered after their answer; the oldest go. */
static void forget_old_answers(struct consent_queue *queue)
{
    size_t settled = 0;
    for (size_t i = queue->count; i-- > 0;) {
        if (!consent_state_is_settled(queue->items[i]->state) ||
            ++settled <= queue->parts.limits.open_max)
            continue;
        consent_unkeep(queue->items[i]);
        consent_remove_at(queue, i);
    }
}

static size_t count_state(const struct consent_queue *queue, enum consent_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < queue->count; i++)
        count += queue->items[i]->state == state;
    return count;
}

static int consent_check_room(const struct consent_queue *queue, struct kg_err *err)
{
    size_t open = 0;
    for (size_t i = 0; i < queue->count; i++)
        open += !consent_state_is_settled(queue->items[i]->state);
    if (open < queue->parts.limits.open_max)
        return 0;
    kg_fail(err, KG_E_BUSY, "%zu consents are already waiting for an answer", open);
    return kg_hint(err, "answer them: kaged project consent list");
}

void consent_forget_project(struct consent_queue *queue, const char *project)
{
    for (size_t i = queue->count; i-- > 0;) {
        struct consent *consent = queue->items[i];
        if (consent->project == NULL || strcmp(consent->project, project) != 0)
            continue;
        consent_unkeep(consent);
        if (consent->state == CONSENT_INSTALLING)
            kg_replace(&consent->project, NULL); /* it ends as the operator's own */
        else
            consent_remove_at(queue, i);
    }
}

void consent_keep_wanted(struct consent_queue *queue, const char *project, char *const *plugins)
{
    for (size_t i = queue->count; i-- > 0;) {
        struct consent *consent = queue->items[i];
        if (consent->project == NULL || strcmp(consent->project, project) != 0 ||
            consent_state_is_settled(consent->state) || consent->state == CONSENT_INSTALLING ||
            kg_list_has(plugins, kg_str(manifest_name_in(consent->plugin))))
            continue;
        consent_unkeep(consent);
        consent_remove_at(queue, i);
    }
}

void consent_listen(struct consent_queue *queue, struct consent_listener *listener)
{
    listener->next = queue->listeners;
    queue->listeners = listener;
}

void consent_unlisten(struct consent_queue *queue, struct consent_listener *listener)
{
    KG_UNLINK(queue->listeners, listener);
}

/* -- fetching ---------------------------------------------------------------------------------- */

static bool needs_source(const struct consent *consent)
{
    return consent->kind == CONSENT_INSTALL || consent->kind == CONSENT_UPGRADE;
}

static int check_fetch(const struct consent *consent, const char *source, struct kg_err *err)
{
    if (needs_source(consent) && source == NULL) {
        kg_fail(err, KG_E_USAGE, "plugin %s: source not specified", consent->plugin);
        return kg_hint(err, "say where its files are: kaged project consent approve %s PATH",
                       consent->id.text);
    }
    if (count_state(consent->queue, CONSENT_FETCHING) < FETCHES_MAX)
        return 0;
    kg_fail(err, KG_E_BUSY, "%d plugins are already being fetched", FETCHES_MAX);
    return kg_hint(err, "try again when one of them is done");
}

static int start_fetching(struct consent *consent, const char *source, const char *base,
                          struct kg_err *err)
{
    const struct consent_wish wish = {
        .kind = consent->kind,
        .plugin = consent->plugin == NULL ? NULL
                  : needs_source(consent) ? consent->plugin
                                          : manifest_name_in(consent->plugin),
        .source = needs_source(consent) ? source : NULL,
        .base = base,
        .version = consent->version,
        .own = store_own_is_empty(&consent->own) ? NULL : &consent->own,
        .server = consent->server,
        .packages = consent->packages,
    };
    int result = check_fetch(consent, source, err);
    return result < 0 ? result
                      : ops_of(consent)->prepare(consent_data_of(consent), consent, &wish, err);
}

void consent_progress(struct consent *consent, const struct store_progress *progress)
{
    snprintf(consent->phase, sizeof(consent->phase), "%s", progress->phase);
    consent->progress = *progress;
    consent->progress.phase = consent->phase;
    consent->has_progress = true;
}

static void on_expiry(struct loop_timer *timer)
{
    struct consent *consent = KG_CONTAINER(timer, struct consent, expiry);
    tell(consent, AUDIT_CONSENT_EXPIRED,
         AUDIT_V_INT((int64_t)consent->queue->parts.limits.offer_ms));
    consent_raise_event(consent, ON_LATE);
}

void consent_begin_offer(struct consent *consent)
{
    const struct consent_limits *limits = &consent->queue->parts.limits;
    consent->expires_ms = kg_wall_ms() + (int64_t)limits->offer_ms;
    loop_timer_start(consent->queue->parts.loop, &consent->expiry, limits->offer_ms, on_expiry);
}

void consent_offered(struct consent *consent, struct store_offer *offer)
{
    struct kg_json_writer json = kg_json_writer(&consent->offer_json);
    consent->offer = offer;
    store_offer_json(offer, &json);
    if (consent->plugin == NULL)
        consent->plugin = kg_strdup(offer->manifest->name);
    tell(consent, AUDIT_CONSENT_OFFERED, AUDIT_V_TEXT(offer->manifest->version),
         AUDIT_V_TEXT(offer->hash));
    consent_raise_event(consent, ON_OFFER);
}

void consent_failed(struct consent *consent, const struct kg_err *err)
{
    consent->reason = *err;
    kg_buf_free(&consent->offer_json);
    tell(consent, AUDIT_CONSENT_FAILED, AUDIT_V_TEXT(err->message));
    consent_raise_event(consent, ON_FAILED);
}

/* -- asking ------------------------------------------------------------------------------------ */

static bool is_bounded(const char *text_or_null)
{
    return text_or_null == NULL || strlen(text_or_null) <= TEXT_MAX;
}

static int check_server(const struct consent_wish *wish, struct kg_err *err)
{
    if (wish->server == NULL)
        return 0;
    if (strlen(wish->server) > SERVER_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "the arguments are longer than %d bytes", SERVER_MAX);
    if (wish->source != NULL && store_source_makes_manifest(wish->source))
        return 0;
    kg_fail(err, KG_E_USAGE,
            "source %" KG_S_PATH ": a plugin has its name and its arguments from its "
            "manifest",
            wish->source ? wish->source : "");
    return kg_hint(
        err,
        "a name and arguments are for MCP servers: npm:PACKAGE -- ARGS, program:/PATH -- ARGS");
}

static int consent_check_request(const struct consent_request *request, struct kg_err *err)
{
    const struct consent_wish *wish = &request->wish;
    if (!is_bounded(wish->plugin) || !is_bounded(wish->source) || !is_bounded(wish->base) ||
        !is_bounded(wish->version) || !is_bounded(request->project))
        return kg_fail(err, KG_E_TOO_LARGE, "a text is longer than %d bytes", TEXT_MAX);
    if (wish->plugin != NULL && !manifest_package_is_valid(kg_str(wish->plugin)))
        return kg_fail(err, KG_E_USAGE, "\"%" KG_S_NAME "\" cannot be the name of a plugin",
                       wish->plugin);
    if (wish->plugin == NULL && (request->project != NULL || wish->source == NULL))
        return kg_fail(err, KG_E_USAGE, "neither a plugin nor a source is named");
    int result = check_server(wish, err);
    return result < 0 || wish->own == NULL ? result : store_own_check(wish->own, err);
}

static void set_wish(struct consent *consent, const struct consent_request *request)
{
    consent->kind = request->wish.kind;
    kg_replace(&consent->project, request->project);
    kg_replace(&consent->plugin, request->wish.plugin);
    kg_replace(&consent->source, request->wish.source);
    kg_replace(&consent->base, request->wish.base);
    kg_replace(&consent->version, request->wish.version);
    store_own_free(&consent->own);
    if (request->wish.own != NULL)
        consent->own = store_own_copy(request->wish.own);
    kg_replace(&consent->server, request->wish.server);
    consent->packages = request->wish.packages;
    kg_replace(&consent->raised_by, request->operator_id);
    note_request(consent);
}

static bool same_wish(const struct consent *consent, const struct consent_wish *wish)
{
    return consent->kind == wish->kind && kg_same_text(consent->source, wish->source) &&
           kg_same_text(consent->version, wish->version) &&
           kg_same_text(consent->base, wish->base) && kg_same_text(consent->server, wish->server);
}

static void tell_raised(const struct consent *consent)
{
    tell(consent, AUDIT_CONSENT_RAISED, AUDIT_V_TEXT(consent_kind_names[consent->kind]),
         AUDIT_V_TEXT(consent->source), AUDIT_V_TEXT(consent->version),
         AUDIT_V_TEXT(consent->raised_by));
}

/* The operator named it: that is the leave to fetch it. */
static int begin_own(struct consent *consent, struct kg_err *err)
{
    int result = start_fetching(consent, consent->source, consent->base, err);
    if (result < 0)
        return result;
    tell_raised(consent);
    consent_raise_event(consent, ON_FETCH);
    return 0;
}

/* Nothing is fetched before the operator says so. */
static void begin_projects(struct consent *consent)
{
    consent_keep(consent);
    tell_raised(consent);
}

/* What is on its way, or was answered in the same words, stays as it is. */
static struct consent *raise_again(struct consent *consent, const struct consent_request *request)
{
    bool settled = consent_state_is_settled(consent->state);
    bool same = same_wish(consent, &request->wish);
    if (settled ? same && !request->again : same || consent->state != CONSENT_WANTED)
        return consent;
    set_wish(consent, request);
    kg_replace(&consent->answered_by, NULL);
    tell_raised(consent);
    if (settled) {
        consent_raise_event(consent, ON_AGAIN);
        return consent;
    }
    consent_keep(consent);
    return consent;
}

struct consent *consent_raise(struct consent_queue *queue, const struct consent_request *request,
                              struct kg_err *err)
{
    if (consent_check_request(request, err) < 0)
        return NULL;
    struct consent *known = request->project != NULL
                                ? consent_of_project(queue, request->project, request->wish.plugin)
                                : NULL;
    if (known != NULL)
        return raise_again(known, request);
    if (consent_check_room(queue, err) < 0)
        return NULL;
    struct consent *consent = consent_add(queue, request->wish.kind);
    set_wish(consent, request);
    if (consent->project != NULL) {
        begin_projects(consent);
    } else if (begin_own(consent, err) < 0) {
        consent_remove_at(queue, queue->count - 1);
        return NULL;
    }
    forget_old_answers(queue);
    return consent;
}

/* -- answering --------------------------------------------------------------------------------- */

static int refuse_state(const struct consent *consent, const char *act, struct kg_err *err)
{
    kg_fail(err, KG_E_CONFLICT, "consent %s is %s, and cannot be %s: %s", consent->id.text,
            consent_state_name(consent->state), act, consent_state_meaning(consent->state));
    if (consent->state == CONSENT_DECLINED && consent->project != NULL)
        kg_hint(err, "to be asked again: kaged project reload %s", consent->project);
    return -EINVAL;
}

static int consent_let_fetch(struct consent *consent, const struct consent_answer *answer,
                             struct kg_err *err)
{
    bool lacks = consent->state == CONSENT_OFFERED && consent->offer->packages_missing > 0;
    if (consent->state == CONSENT_OFFERED && !(answer->packages && lacks)) {
        kg_fail(err, KG_E_USAGE, "consent %s: the answer does not say to what", consent->id.text);
        return kg_hint(err, "give the hash of the offer that was shown");
    }
    /* That of a run for development ends with it: nobody would make the offer. */
    if (consent->kind == CONSENT_DEV || !consent_takes_event(consent, ON_FETCH))
        return refuse_state(consent, "fetched", err);
    const char *source = answer->path != NULL ? answer->path : consent->source;
    const char *base = answer->path != NULL ? NULL : consent->base;
    bool had = consent->packages;
    consent->packages = had || answer->packages;
    int result = start_fetching(consent, source, base, err);
    if (result < 0) {
        consent->packages = had;
        return result;
    }
    if (answer->path != NULL) {
        kg_replace(&consent->source, source);
        kg_replace(&consent->base, NULL); /* it is the operator's, not of the project */
    }
    kg_replace(&consent->answered_by, answer->operator_id);
    note_request(consent);
    tell(consent, AUDIT_CONSENT_FETCH_ALLOWED, AUDIT_V_TEXT(consent->source),
         AUDIT_V_TEXT(answer->operator_id));
    consent_raise_event(consent, ON_FETCH);
    return 0;
}

static void list_new_capabilities(const struct store_offer *offer, struct kg_buf *out)
{
    for (size_t i = 0; i < offer->capability_count; i++) {
        if (offer->capabilities[i].difference != STORE_NEW)
            continue;
        kg_buf_text(out, out->length > 0 ? ", " : "");
        kg_buf_text(out, offer->capabilities[i].text);
    }
}

static int consent_check_answer(const struct consent *consent, const struct consent_answer *answer,
                                struct kg_err *err)
{
    const struct store_offer *offer = consent->offer;
    if (consent->state != CONSENT_OFFERED)
        return refuse_state(consent, "approved", err);
    if (strcmp(answer->hash, offer->hash) != 0) {
        kg_fail(err, KG_E_CONFLICT, "consent %s: what was shown is not what is offered",
                consent->id.text);
        return kg_hint(err, "look at it again: its hash is %s", offer->hash);
    }
    int result = store_check_source(offer, answer->replace_source, err);
    if (result < 0 || !store_offer_widens(offer) || answer->allow_new_capabilities)
        return result;
    kg_auto(kg_buf_free) struct kg_buf list = {0};
    list_new_capabilities(offer, &list);
    kg_fail(err, KG_E_REFUSED,
            "plugin %s %s wants capabilities that it does not have: %" KG_S_CAUSE,
            offer->manifest->name, offer->manifest->version, kg_buf_terminate(&list));
    return kg_hint(err, "they need an approval of their own: allow_new_capabilities");
}

/* Files that the operator approved already need no second yes. */
static bool only_activates(const struct consent *consent)
{
    return consent->kind == CONSENT_ACTIVATE &&
           strcmp(consent->offer->hash, consent->offer->approved_hash) == 0;
}

static void activate_installed(struct consent *consent)
{
    kg_auto(kg_free) char *name = kg_strdup(consent->offer->manifest->name);
    kg_auto(kg_free) char *version = kg_strdup(consent->offer->manifest->version);
    ops_of(consent)->drop(consent_data_of(consent), kg_steal(&consent->offer));
    consent_taken(consent, &(struct consent_outcome){.name = name, .version = version});
}

static void consent_take(struct consent *consent, const struct consent_answer *answer)
{
    kg_auto(kg_free) char *hash = kg_strdup(consent->offer->hash);
    const struct store_consent yes = {
        .hash = hash,
        .allow_new_capabilities = answer->allow_new_capabilities,
        .replace_source = answer->replace_source,
        .local = consent->project == NULL,
    };
    ops_of(consent)->take(consent_data_of(consent), consent, kg_steal(&consent->offer), &yes,
                          answer->operator_id);
}

int consent_approve(struct consent *consent, const struct consent_answer *answer,
                    struct kg_err *err)
{
    if (answer->hash == NULL)
        return consent_let_fetch(consent, answer, err);
    int result = consent_check_answer(consent, answer, err);
    if (result < 0)
        return result;
    kg_replace(&consent->answered_by, answer->operator_id);
    note_request(consent);
    kg_auto(kg_buf_free) struct kg_buf added = {0};
    struct kg_json_writer json = kg_json_writer(&added);
    store_offer_added_json(consent->offer, &json);
    tell(consent, AUDIT_CONSENT_APPROVED, AUDIT_V_TEXT(consent->offer->manifest->version),
         AUDIT_V_TEXT(consent->offer->hash), AUDIT_V_BOOL(store_offer_widens(consent->offer)),
         AUDIT_V_RAW(kg_buf_view(&added)), AUDIT_V_TEXT(answer->operator_id));
    loop_timer_stop(consent->queue->parts.loop, &consent->expiry);
    consent->expires_ms = 0;
    consent_raise_event(consent, ON_YES);
    if (only_activates(consent))
        activate_installed(consent);
    else
        consent_take(consent, answer);
    return 0;
}

int consent_decline(struct consent *consent, const char *operator_id, struct kg_err *err)
{
    if (!consent_takes_event(consent, ON_NO))
        return refuse_state(consent, "declined", err);
    kg_replace(&consent->answered_by, operator_id);
    note_request(consent);
    tell(consent, AUDIT_CONSENT_DECLINED, AUDIT_V_TEXT(operator_id));
    consent_raise_event(consent, ON_NO);
    return 0;
}

static void consent_end_well(struct consent *consent, const char *version, bool was_running)
{
    kg_replace(&consent->taken_version, version);
    consent->was_running = was_running;
    consent_raise_event(consent, ON_TAKEN);
}

void consent_activated(struct consent *consent, const struct consent_activation *activation,
                       const struct kg_err *err_or_null)
{
    if (err_or_null != NULL) {
        consent_failed(consent, err_or_null);
        return;
    }
    tell(consent, AUDIT_CONSENT_ACTIVATED, AUDIT_V_TEXT(consent->answered_by));
    consent_end_well(consent, activation->version, activation->was_running);
}

void consent_taken(struct consent *consent, const struct consent_outcome *outcome)
{
    struct kg_err err = outcome->reason;
    if (outcome->reverted) {
        kg_wrap(&err, 0, "plugin %s: the new version did not start, and %s is back", outcome->name,
                outcome->version);
        consent_failed(consent, &err);
    } else if (consent->project != NULL) {
        consent_activate(consent, outcome);
    } else {
        consent_end_well(consent, outcome->version, outcome->was_running);
    }
}

/* -- showing ----------------------------------------------------------------------------------- */

const char *consent_id(const struct consent *consent)
{
    return consent->id.text;
}

const char *consent_project(const struct consent *consent)
{
    return consent->project;
}

struct kg_id consent_key(const struct consent *consent)
{
    return consent->id;
}

enum consent_state consent_state(const struct consent *consent)
{
    return consent->state;
}

static void consent_put_error(struct kg_json_writer *json, const struct kg_err *reason)
{
    kg_json_key(json, "error");
    if (reason->code == KG_OK) {
        kg_json_null(json);
        return;
    }
    kg_json_begin(json, '{');
    kg_json_named_text(json, "code", kg_error_row(reason->code)->name);
    kg_json_named_text(json, "message", reason->message);
    kg_json_named_text(json, "hint", reason->hint[0] != '\0' ? reason->hint : NULL);
    kg_json_end(json, '}');
}

static void put_progress(struct kg_json_writer *json, const struct consent *consent)
{
    kg_json_key(json, "progress");
    if (!consent->has_progress) {
        kg_json_null(json);
        return;
    }
    kg_json_begin(json, '{');
    kg_json_named_text(json, "phase", consent->phase);
    kg_json_named_int(json, "bytes", (int64_t)consent->progress.bytes);
    kg_json_named_int(json, "files", (int64_t)consent->progress.files);
    kg_json_named_int(json, "bytes_expected", (int64_t)consent->progress.bytes_expected);
    kg_json_end(json, '}');
}

static void consent_put_done(struct kg_json_writer *json, const struct consent *consent)
{
    kg_json_key(json, "installed");
    if (consent->taken_version == NULL) {
        kg_json_null(json);
        return;
    }
    kg_json_begin(json, '{');
    kg_json_named_text(json, "version", consent->taken_version);
    kg_json_named_bool(json, "was_running", consent->was_running);
    kg_json_end(json, '}');
}

void consent_json(const struct consent *consent, bool with_offer, struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "id", consent->id.text);
    kg_json_named_text(json, "kind", consent_kind_names[consent->kind]);
    kg_json_named_text(json, "plugin", consent->plugin);
    kg_json_named_text(json, "project_id", consent->project);
    kg_json_named_text(json, "source", consent->source);
    kg_json_named_text(json, "version", consent->version);
    kg_json_named_text(json, "state", consent_state_name(consent->state));
    kg_json_named_text(json, "state_meaning", consent_state_meaning(consent->state));
    consent_put_error(json, &consent->reason);
    kg_json_named_text(json, "raised_by", consent->raised_by);
    kg_json_named_text(json, "answered_by", consent->answered_by);
    kg_json_named_time(json, "raised_at", consent->raised_ms);
    kg_json_named_time(json, "changed_at", consent->changed_ms);
    kg_json_named_time(json, "expires_at", consent->expires_ms);
    put_progress(json, consent);
    consent_put_done(json, consent);
    if (with_offer) {
        kg_json_key(json, "offer");
        if (consent->offer_json.length > 0)
            kg_json_raw(json, kg_buf_view(&consent->offer_json));
        else
            kg_json_null(json);
    }
    kg_json_end(json, '}');
}
