/*
 * The way to the store where no daemon runs: the same queue and the same store, in this process. A
 * change is made under the lock that a running daemon holds, so that none can start in its middle,
 * and it is written into the audit log as the daemon would.
 */
#include "cli/install.h"
#include "cli/offline.h"

#include "host/host.h"
#include "store/report.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOK_MS       100
#define CLOSE_WAIT_MS 5000
#define NEVER_MS      (UINT64_C(24) * 3600 * 1000)

struct store_door {
    struct door base;
    struct config *config;
    struct cage_owner owner;
    struct cage_checks checks;
    struct cage_facts *facts;
    struct cage_spawner *spawner;
    struct gate *gate;
    struct loop *loop;
    struct store *store;
    struct consent_queue *queue;
    char *operator_id; /* owned; who runs this */

    struct consent *consent;     /* the one that is worked on, or NULL */
    struct store_fetch *fetch;   /* while it is fetched, else NULL */
    struct store_source *source; /* owned */
    struct store_own own;        /* owned; what the operator adds; no lists: nothing */
    char *name;                  /* owned; what is in the store already, or NULL */
    struct loop_task task;       /* what must not happen before a call returns */
    int result;                  /* of the change that was made */
    struct kg_err err;           /* why not, if it is negative */
    char *taken_name, *taken_version;
};

static struct store_door *door_store_own(struct door *door)
{
    return KG_CONTAINER(door, struct store_door, base);
}

/* -- making an offer --------------------------------------------------------------------------- */

static void door_store_on_progress(void *data, const struct store_progress *progress)
{
    struct store_door *door = data;
    consent_progress(door->consent, progress);
}

static void tell_offer(struct store_door *door, struct store_offer *offer, const struct kg_err *err)
{
    if (offer != NULL)
        consent_offered(door->consent, offer);
    else
        consent_failed(door->consent, err);
}

static void door_store_on_fetched(void *data, struct store_fetched *fetched,
                                  const struct kg_err *err_or_null)
{
    struct store_door *door = data;
    struct store_offer *offer = NULL;
    struct kg_err err = err_or_null != NULL ? *err_or_null : (struct kg_err){0};
    door->fetch = NULL;
    if (fetched != NULL)
        store_offer_fetched(door->store, door->source, fetched, NULL, &offer, &err);
    const struct host_cage_parts parts = {
        .plugins_dir = store_dir(door->store),
        .config = door->config,
        .paths = &door->base.cli->paths,
        .facts = door->facts,
    };
    if (offer != NULL && door->own.grants != NULL &&
        (store_offer_add_own(door->store, offer, &door->own, &err) < 0 ||
         host_check_added(parts, offer, &err) < 0))
        store_offer_free(kg_steal(&offer));
    tell_offer(door, offer, &err);
}

static void look_at_installed(struct loop_task *task)
{
    struct store_door *door = KG_CONTAINER(task, struct store_door, task);
    struct store_offer *offer = NULL;
    struct kg_err err = {0};
    store_offer_installed(door->store, door->name, &offer, &err);
    tell_offer(door, offer, &err);
}

static int door_store_prepare(void *data, struct consent *consent, const struct consent_wish *wish,
                              struct kg_err *err)
{
    struct store_door *door = data;
    door->consent = consent;
    if (wish->source == NULL) {
        free(door->name);
        door->name = kg_strdup(wish->plugin);
        door->task.run = look_at_installed;
        loop_defer(door->loop, &door->task);
        return 0;
    }
    store_source_free(kg_steal(&door->source));
    store_own_free(&door->own);
    if (wish->own != NULL)
        door->own = store_own_copy(wish->own);
    int result = store_source_parse(wish->source, wish->version, "/", &door->source, err);
    if (result == 0) {
        kg_replace(&door->source->server, wish->server);
        door->source->packages = wish->packages;
    }
    return result < 0 ? result
                      : store_fetch(door->store, door->source, door_store_on_progress,
                                    door_store_on_fetched, door, &door->fetch, err);
}

static void door_store_cancel(void *data, struct consent *consent)
{
    struct store_door *door = data;
    (void)consent;
    loop_undefer(door->loop, &door->task);
    if (door->fetch != NULL)
        store_fetch_cancel(kg_steal(&door->fetch));
}

static void door_store_drop(void *data, struct store_offer *offer)
{
    (void)data;
    store_offer_free(offer);
}

/* -- changing the store ------------------------------------------------------------------------ */

static int begin_change(struct store_door *door, struct offline *ret_change, struct kg_err *err)
{
    int result = offline_begin(door->base.cli, door->config, door->loop, ret_change, err);
    if (result < 0)
        return result;
    result = offline_join(door->base.cli, door->config, ret_change, err);
    if (result < 0)
        offline_end(ret_change);
    return result;
}

static void tell_taken(struct loop_task *task)
{
    struct store_door *door = KG_CONTAINER(task, struct store_door, task);
    if (door->result < 0)
        consent_failed(door->consent, &door->err);
    else
        consent_taken(door->consent, &(struct consent_outcome){.name = door->taken_name,
                                                               .version = door->taken_version});
}

/* The offer is used up, or of no use any more. */
static void make_change(struct store_door *door, struct store_offer *offer,
                        const struct store_consent *yes)
{
    struct offline change;
    door->result = begin_change(door, &change, &door->err);
    if (door->result < 0) {
        store_offer_free(offer);
        return;
    }
    struct store_report *report = store_report_new(offer, yes->local, door->operator_id);
    door->result = store_take(door->store, offer, yes, NULL, &door->err);
    if (door->result == 0)
        store_report_taken(report, change.audit);
    else
        store_offer_free(offer);
    store_report_free(report);
    offline_end(&change);
}

static void door_store_take(void *data, struct consent *consent, struct store_offer *offer,
                            const struct store_consent *yes, const char *operator_id)
{
    struct store_door *door = data;
    (void)operator_id;
    door->consent = consent;
    door->taken_name = kg_strdup(offer->manifest->name);
    door->taken_version = kg_strdup(offer->manifest->version);
    make_change(door, offer, yes);
    door->task.run = tell_taken;
    loop_defer(door->loop, &door->task);
}

/* -- what the commands ask --------------------------------------------------------------------- */

static void put_consent(const struct consent *consent, struct door_answer *ret_consent)
{
    door_answer_free(ret_consent);
    struct kg_json_writer json = kg_json_writer(&ret_consent->body);
    consent_json(consent, true, &json);
}

static int door_store_answer_consent(const struct consent *consent, struct door_answer *ret_consent)
{
    put_consent(consent, ret_consent);
    return door_answer_read(ret_consent);
}

static int door_store_want(struct door *base, const struct door_wish *wish,
                           struct door_answer *ret_consent)
{
    struct store_door *door = door_store_own(base);
    struct kg_err err = {0};
    const struct consent_request request = {
        .wish = {.kind = wish->source != NULL ? CONSENT_INSTALL : CONSENT_APPROVE,
                 .plugin = wish->plugin,
                 .source = wish->source,
                 .version = wish->version,
                 .own = wish->own,
                 .server = wish->server,
                 .packages = wish->packages},
        .operator_id = door->operator_id,
    };
    struct consent *consent = consent_raise(door->queue, &request, &err);
    return consent != NULL ? door_store_answer_consent(consent, ret_consent) : print_error(&err);
}

struct waiting {
    const struct consent *consent;
    enum consent_state state;
};

static bool has_moved(void *data)
{
    const struct waiting *waiting = data;
    return consent_state(waiting->consent) != waiting->state || terminal_was_interrupted();
}

static int door_store_look(struct door *base, const char *id, struct door_answer *ret_consent)
{
    struct store_door *door = door_store_own(base);
    struct kg_err err = {0};
    struct consent *consent = consent_find(door->queue, kg_str(id), &err);
    if (consent == NULL)
        return print_error(&err);
    struct waiting waiting = {consent, consent_state(consent)};
    loop_run_until(door->loop, has_moved, &waiting, LOOK_MS);
    return door_store_answer_consent(consent, ret_consent);
}

static int door_store_approve(struct door *base, const char *id, const struct door_yes *yes,
                              struct door_answer *ret_consent)
{
    struct store_door *door = door_store_own(base);
    struct kg_err err = {0};
    struct consent *consent = consent_find(door->queue, kg_str(id), &err);
    const struct consent_answer answer = {
        .operator_id = door->operator_id,
        .hash = yes->hash,
        .path = yes->path,
        .packages = yes->packages,
        .allow_new_capabilities = yes->allow_new_capabilities,
        .replace_source = yes->replace_source,
    };
    if (consent == NULL || consent_approve(consent, &answer, &err) < 0)
        return print_error(&err);
    return door_store_answer_consent(consent, ret_consent);
}

static void door_store_decline(struct door *base, const char *id)
{
    struct store_door *door = door_store_own(base);
    struct consent *consent = consent_find(door->queue, kg_str(id), NULL);
    if (consent != NULL)
        (void)consent_decline(consent, door->operator_id, NULL);
}

static void door_store_put_removed(struct kg_buf *out, const char *name,
                                   const struct store_removed *removed)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", name);
    kg_json_named_text(&json, "version", removed->version);
    kg_json_named_bool(&json, "was_running", false);
    kg_json_named_text(&json, "storage", removed->storage);
    kg_json_named_bool(&json, "storage_dropped", removed->storage_dropped);
    kg_json_named_text(&json, "plugin_data", removed->plugin_data);
    kg_json_end(&json, '}');
}

static int door_store_uninstall(struct door *base, const char *name,
                                struct door_answer *ret_removed)
{
    struct store_door *door = door_store_own(base);
    struct kg_err err = {0};
    struct offline change;
    kg_auto(store_removed_free) struct store_removed removed = {0};
    const struct store_removal removal = {.keep_storage = cli_has(base->cli, "keep-storage")};
    if (begin_change(door, &change, &err) < 0)
        return print_error(&err);
    int result = store_remove(door->store, name, &removal, &removed, &err);
    if (result == 0)
        store_report_removed(change.audit, name, &removed, door->operator_id);
    offline_end(&change);
    if (result < 0)
        return print_error(&err);
    door_store_put_removed(&ret_removed->body, name, &removed);
    return door_answer_read(ret_removed);
}

static int door_store_promote(struct door *base, const char *name, struct door_answer *ret_plugin)
{
    struct store_door *door = door_store_own(base);
    struct kg_err err = {0};
    struct offline change;
    if (begin_change(door, &change, &err) < 0)
        return print_error(&err);
    int result = store_promote(door->store, name, &err);
    if (result == 0)
        store_report_promoted(change.audit, name, door->operator_id);
    offline_end(&change);
    if (result < 0)
        return print_error(&err);
    struct kg_json_writer json = kg_json_writer(&ret_plugin->body);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", name);
    kg_json_end(&json, '}');
    return door_answer_read(ret_plugin);
}

/* -- opening and closing ----------------------------------------------------------------------- */

static bool is_quiet(void *data)
{
    const struct store_door *door = data;
    return !store_is_fetching(door->store);
}

static void door_store_close_door(struct door *base)
{
    struct store_door *door = door_store_own(base);
    consent_queue_free(door->queue);
    if (door->store != NULL)
        loop_run_until(door->loop, is_quiet, door, CLOSE_WAIT_MS);
    store_free(door->store);
    gate_free(door->gate);
    cage_spawner_free(door->spawner);
    cage_facts_free(door->facts);
    cage_checks_free(&door->checks);
    store_source_free(door->source);
    store_own_free(&door->own);
    loop_free(door->loop);
    config_free(door->config);
    free(door->name);
    free(door->taken_name);
    free(door->taken_version);
    free(door->operator_id);
    free(door);
}

static void on_wait(void *data)
{
    (void)data;
    fputs("waiting for another kaged to be done with the plugin store...\n", stderr);
}

static void door_store_on_spawner_lost(void *data)
{
    (void)data; /* what it was to do ends with an error */
}

static int open_spawner(struct store_door *door, const char *plugins_dir, struct kg_err *err)
{
    const struct cage_site site = {.owner = &door->owner, .plugins_dir = plugins_dir};
    door->facts = cage_facts_check(&site, &door->checks, err);
    door->owner.uids.file = door->base.cli->paths.uids_file;
    door->spawner = door->facts ? cage_spawner_start_for(&door->owner, err) : NULL;
    return door->spawner != NULL ? 0 : -EINVAL;
}

/* As the daemon begins: folders, the spawner while we are who we are, then the daemon's user. */
static int prepare_process(struct store_door *door, bool fetches, struct kg_err *err)
{
    const struct config_paths *paths = &door->base.cli->paths;
    door->config = config_load(paths->config_file, err);
    if (door->config == NULL || user_find(door->config, &door->owner, err) < 0 ||
        config_paths_make(paths, door->owner.uid, err) < 0 ||
        user_give_folders(paths, &door->owner, err) < 0)
        return -EINVAL;
    if (fetches && open_spawner(door, config_plugins_dir(door->config, paths), err) < 0)
        return -EINVAL;
    return user_become(&door->owner, err);
}

static int door_store_open_store(struct store_door *door, struct kg_err *err)
{
    static const struct consent_ops ops = {
        .prepare = door_store_prepare,
        .cancel = door_store_cancel,
        .drop = door_store_drop,
        .take = door_store_take,
    };
    const char *chosen = door->config->plugins_dir;
    door->loop = loop_new();
    if (door->spawner != NULL &&
        cage_spawner_attach(door->spawner, door->loop, door_store_on_spawner_lost, door, err) < 0)
        return -EINVAL;
    const struct gate_limits network = host_gate_limits(door->config);
    if (door->spawner != NULL)
        door->gate = gate_new(door->loop, &network, err);
    if (door->spawner != NULL && door->gate == NULL)
        return -EINVAL;
    const struct store_parts parts = {
        .loop = door->loop,
        .spawner = door->spawner,
        .facts = door->facts,
        .gate = door->gate,
        .paths = &door->base.cli->paths,
        .plugins_dir = chosen[0] != '\0' ? chosen : NULL,
        .limits = store_limits_of(door->config),
    };
    door->store = store_new(&parts);
    store_on_wait(door->store, on_wait, NULL);
    if (store_recover(door->store, err) < 0)
        return -EIO;
    const struct consent_parts queue = {
        .loop = door->loop,
        .ops = &ops,
        .data = door,
        .limits = {.open_max = 1, .offer_ms = NEVER_MS},
    };
    door->queue = consent_queue_new(&queue, err);
    return door->queue != NULL ? 0 : -EINVAL;
}

int door_to_store(const struct cli *cli, bool fetches, struct door **ret_door)
{
    static const struct door_ops ops = {
        .want = door_store_want,
        .look = door_store_look,
        .approve = door_store_approve,
        .decline = door_store_decline,
        .uninstall = door_store_uninstall,
        .promote = door_store_promote,
        .close = door_store_close_door,
    };
    struct kg_err err = {0};
    struct store_door *door = kg_alloc(sizeof(*door));
    door->base = (struct door){&ops, cli};
    door->operator_id = offline_operator();
    signal(SIGPIPE, SIG_IGN);
    if (prepare_process(door, fetches, &err) < 0 || door_store_open_store(door, &err) < 0) {
        door_store_close_door(&door->base);
        return print_error(&err);
    }
    *ret_door = &door->base;
    return CLI_DONE;
}
