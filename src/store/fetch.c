/*
 * From a source to a tree in the quarantine. kaged-unpack does the work in its cage; when the cage
 * is gone, what it left is looked at file by file, on a worker, as if nobody had looked before.
 * Ends exactly once: with a tree that keeps every rule, or with a reason and nothing left on the
 * disk.
 *
 *   store_fetch -> cage runs -> on_run_done -> worker: take out, check, hash -> on_done
 *                                        \-> worker: remove all             -> on_done(error)
 *
 * Before a package of npm is fetched, another cage tells how npm is set: fetch_on_looked. Where one
 * of the catalog is, its keeper tells: on_object.
 */
#include "store/fetch.h"
#include "helper/helper.h"
#include "store/complete.h"
#include "store/server_source.h"
#include "store/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORK             "work" /* what the cage may write to, in the quarantine's folder */
#define LAST_WORDS_BYTES 1024
#define LOOK_BYTES       ((size_t)64 * 1024) /* of npm's settings */
#define LOOK_TIMEOUT_MS  60000               /* nobody else has a part in that */

struct store_fetch {
    struct store *store;      /* borrowed; counts it */
    struct store_parts parts; /* the store itself may be gone before a cancelled fetch is */
    struct store_source source;
    struct store_limits limits;
    struct npm *npm;           /* owned; NULL: npm has no part in it */
    char **kept_args;          /* owned; of a package's version before */
    char *work;                /* the path that the cage sees WORK by; owned */
    store_fetched_fn *on_done; /* NULL: it is cancelled */
    void *data;
    struct store_quarantine *quarantine; /* owned; NULL once it is removed or handed over */
    struct helper_run *run;              /* NULL once it is over */
    struct fetch_words words;
    bool noisy; /* it said what it should not */
    struct loop_worker *worker;
    struct loop_job job;
    struct loop_task end;
    struct kg_err error; /* code KG_OK: all is well so far */
    struct store_tree tree;
    char **remarks; /* owned; NULL: none */
};

/* -- the end ----------------------------------------------------------------------------------- */

static void fetch_free(struct store_fetch *fetch)
{
    struct store *store = fetch->store;
    loop_worker_free(fetch->worker);
    store_quarantine_free(fetch->quarantine);
    store_tree_free(&fetch->tree);
    kg_list_free(fetch->remarks);
    kg_list_free(fetch->kept_args);
    fetch_words_free(&fetch->words);
    npm_free(fetch->npm);
    free(fetch->work);
    free(fetch->source.text);
    free(fetch->source.place);
    free(fetch->source.version);
    free(fetch->source.server);
    free(fetch);
    store->fetches--;
    if (store->fetches == 0 && store->on_idle != NULL)
        store->on_idle(store->on_idle_data);
}

bool store_is_fetching(const struct store *store)
{
    return store->fetches > 0;
}

void store_on_idle(struct store *store, void (*on_idle)(void *data), void *data)
{
    store->on_idle = on_idle;
    store->on_idle_data = data;
}

static struct store_fetched *fetch_take_fetched(struct store_fetch *fetch)
{
    struct store_fetched *fetched = kg_alloc(sizeof(*fetched));
    fetched->quarantine = kg_steal(&fetch->quarantine);
    fetched->tree = fetch->tree;
    fetch->tree = (struct store_tree){0};
    fetched->remarks = kg_steal(&fetch->remarks);
    return fetched;
}

static void fetch_on_end(struct loop_task *task)
{
    struct store_fetch *fetch = KG_CONTAINER(task, struct store_fetch, end);
    if (fetch->on_done != NULL && fetch->error.code != KG_OK)
        fetch->on_done(fetch->data, NULL, &fetch->error);
    else if (fetch->on_done != NULL)
        fetch->on_done(fetch->data, fetch_take_fetched(fetch), NULL);
    fetch_free(fetch);
}

/* -- on the worker ----------------------------------------------------------------------------- */

/* Of such a source a manifest is made, and no cage has to look at anything. */
static bool holds_nothing(const struct store_source *source)
{
    return source->kind == STORE_PROGRAM || source->kind == STORE_REMOTE;
}

static int make_tree(const struct store_fetch *fetch, struct kg_err *err)
{
    struct stat owner;
    int folder = fetch->quarantine->fd;
    static const char tree[] = WORK "/" STORE_TREE_NAME;
    if (fstat(folder, &owner) < 0 || mkdirat(folder, tree, 0755) < 0 ||
        fchmodat(folder, tree, 0755, 0) < 0 ||
        (owner.st_uid != geteuid() &&
         fchownat(folder, tree, owner.st_uid, owner.st_gid, AT_SYMLINK_NOFOLLOW) < 0))
        return kg_fail_errno(err, errno, "make a folder in %s", fetch->quarantine->path);
    return 0;
}

/* Out of the cage's folder, which goes, and to where nobody of the cage can have it open. */
static int fetch_take_out(const struct store_fetch *fetch, struct kg_err *err)
{
    int folder = fetch->quarantine->fd;
    if (renameat(folder, WORK "/" STORE_TREE_NAME, folder, STORE_TREE_NAME) < 0)
        return kg_fail_errno(err, errno, "take what kaged-unpack made");
    return tree_remove(folder, WORK, err);
}

/* It has a manifest afterwards, its own or one that is made. */
static int complete(struct store_fetch *fetch, int tree, struct kg_err *err)
{
    if (fetch->source.is_package)
        return 0;
    if (holds_nothing(&fetch->source))
        return server_source_make(&fetch->source, tree, &fetch->remarks, err);
    return fetch->source.kind == STORE_NPM
               ? npm_finish(fetch->npm, &fetch->source, fetch->kept_args, tree, &fetch->remarks,
                            err)
               : store_complete(tree, &fetch->remarks, err);
}

static int store_fetch_check(struct store_fetch *fetch, struct kg_err *err)
{
    int result = holds_nothing(&fetch->source) ? make_tree(fetch, err) : 0;
    if (result == 0)
        result = fetch_take_out(fetch, err);
    if (result < 0)
        return result;
    kg_auto(kg_close) int tree = openat(fetch->quarantine->fd, STORE_TREE_NAME,
                                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0)
        return kg_fail_errno(err, errno, "open what kaged-unpack made");
    result = complete(fetch, tree, err);
    struct kg_err broken;
    int read = tree_read_fresh(tree, &fetch->limits, &fetch->tree, &broken);
    if (read < 0)
        *err = broken; /* a rule of trees counts more than what else is missing */
    return read < 0 ? read : result;
}

/* The cage's own folder first: there may be more folders in each other than others expect. */
static void discard(struct store_fetch *fetch)
{
    struct kg_err err = {0};
    if (tree_remove(fetch->quarantine->fd, WORK, &err) < 0)
        kg_log(KG_WARN, "quarantine %s: %s", fetch->quarantine->id, err.message);
    store_quarantine_free(kg_steal(&fetch->quarantine));
}

static void fetch_run_job(struct loop_job *job)
{
    struct store_fetch *fetch = KG_CONTAINER(job, struct store_fetch, job);
    if (fetch->error.code == KG_OK && store_fetch_check(fetch, &fetch->error) < 0)
        kg_wrap(&fetch->error, -EINVAL, "what was fetched from %" KG_S_CAUSE, fetch->source.text);
    if (fetch->error.code != KG_OK)
        discard(fetch);
}

static void fetch_on_job_done(struct loop_job *job)
{
    struct store_fetch *fetch = KG_CONTAINER(job, struct store_fetch, job);
    if (fetch->on_done == NULL && fetch->quarantine != NULL) { /* cancelled while it was checked */
        kg_fail(&fetch->error, KG_E_CANCELLED, "cancelled");
        loop_worker_submit(fetch->worker, job);
        return;
    }
    loop_defer(fetch->parts.loop, &fetch->end);
}

static void begin_job(struct store_fetch *fetch)
{
    static const struct store_progress checking = {.phase = "checking"};
    if (fetch->error.code == KG_OK && fetch->words.on_progress != NULL)
        fetch->words.on_progress(fetch->data, &checking);
    fetch->worker = loop_worker_new(fetch->parts.loop, "kaged-fetch");
    fetch->job = (struct loop_job){.run = fetch_run_job, .done = fetch_on_job_done};
    loop_worker_submit(fetch->worker, &fetch->job);
}

/* -- the end of the cage ----------------------------------------------------------------------- */

static int fail_time(const struct store_fetch *fetch, struct kg_err *err)
{
    kg_fail(err, KG_E_TOO_LARGE, "it was not done after %llu s",
            (unsigned long long)(fetch->limits.timeout_ms + 999) / 1000);
    return kg_hint(err, "limits.install_timeout_ms of config.toml is the limit");
}

/* Without a word of its own about it. */
static int explain_end(const struct helper_run_result *result, struct kg_err *err)
{
    char words[LAST_WORDS_BYTES] = "";
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    struct kg_str said = kg_buf_view(&result->err);
    while (said.length > 0 && said.data[said.length - 1] == '\n')
        said.length--;
    kg_buf_escaped(&shown, said);
    snprintf(words, sizeof(words), "%s%s", shown.length > 0 ? ": " : "", kg_buf_terminate(&shown));
    if (!result->how.built)
        return kg_fail(err, KG_E_CAGE, "the cage of kaged-unpack could not be built%" KG_S_CAUSE,
                       words);
    if (result->how.signal != 0)
        return kg_fail(err, KG_E_INVALID_SOURCE,
                       "kaged-unpack was ended by signal %d (%s)%" KG_S_CAUSE, result->how.signal,
                       strsignal(result->how.signal), words);
    return kg_fail(err, KG_E_INTERNAL,
                   "kaged-unpack exited with code %d without a reason%" KG_S_CAUSE,
                   result->how.exit_code, words);
}

static int fetch_judge(const struct store_fetch *fetch, const struct helper_run_result *result,
                       struct kg_err *err)
{
    if (fetch->noisy)
        return kg_fail(err, KG_E_INVALID_SOURCE, "kaged-unpack broke its protocol, and was ended");
    if (result->timed_out)
        return fail_time(fetch, err);
    if (result->how.memory_kills > 0) /* also of a program that it runs, such as npm */
        return kg_fail(err, KG_E_TOO_LARGE, "it takes more memory to unpack than the bound");
    if (fetch->words.error.code != KG_OK) {
        *err = fetch->words.error;
        return -EINVAL;
    }
    bool left_well = result->how.built && result->how.signal == 0 && result->how.exit_code == 0;
    return left_well && fetch->words.done ? 0 : explain_end(result, err);
}

/* False: it was cancelled meanwhile, or there is no result. */
static bool run_is_over(struct store_fetch *fetch, const struct kg_err *err_or_null)
{
    fetch->run = NULL;
    if (fetch->on_done == NULL)
        kg_fail(&fetch->error, KG_E_CANCELLED, "cancelled");
    else if (err_or_null != NULL)
        fetch->error = *err_or_null;
    return fetch->error.code == KG_OK;
}

static void finish_run(struct store_fetch *fetch)
{
    if (fetch->error.code != KG_OK)
        kg_wrap(&fetch->error, -EINVAL, "%" KG_S_CAUSE, fetch->source.text);
    begin_job(fetch);
}

static void on_run_done(void *data, struct helper_run_result *result,
                        const struct kg_err *err_or_null)
{
    struct store_fetch *fetch = data;
    if (run_is_over(fetch, err_or_null))
        (void)fetch_judge(fetch, result, &fetch->error);
    finish_run(fetch);
}

/* -- while it runs ----------------------------------------------------------------------------- */

static void fetch_on_output(void *data, struct kg_str bytes)
{
    struct store_fetch *fetch = data;
    if (fetch->noisy || fetch->on_done == NULL || fetch_words_take(&fetch->words, bytes))
        return;
    fetch->noisy = true;
    helper_run_kill(fetch->run);
}

static void fetch_on_network(void *data, const struct gate_event *event)
{
    const struct store_fetch *fetch = data;
    const struct store_parts *parts = &fetch->parts;
    if (parts->on_network != NULL)
        parts->on_network(parts->network_data, &fetch->source, event);
}

/* -- the beginning ----------------------------------------------------------------------------- */

static int check_parts(const struct store *store, struct kg_err *err)
{
    const struct store_parts *parts = &store->parts;
    if (parts->loop != NULL && parts->spawner != NULL && parts->facts != NULL)
        return 0;
    kg_fail(err, KG_E_CAGE, "nothing can be fetched: there are no cages on this machine");
    return kg_hint(err, "see: kaged doctor");
}

/* The path that the cage sees it by: without a link. Owned; NULL with err. */
static char *make_work(const struct store_quarantine *quarantine, struct kg_err *err)
{
    struct stat owner;
    if (mkdirat(quarantine->fd, WORK, 0700) < 0 || fstat(quarantine->fd, &owner) < 0) {
        kg_fail_errno(err, errno, "make a folder in %s", quarantine->path);
        return NULL;
    }
    if (owner.st_uid != geteuid() &&
        fchownat(quarantine->fd, WORK, owner.st_uid, owner.st_gid, AT_SYMLINK_NOFOLLOW) < 0) {
        kg_fail_errno(err, errno, "give a folder in %s to its owner", quarantine->path);
        return NULL;
    }
    kg_auto(kg_free) char *work = kg_format("%s/%s", quarantine->path, WORK);
    char *real = realpath(work, NULL);
    if (real == NULL)
        kg_fail_errno(err, errno, "find %s", work);
    return real;
}

static int start_run(struct store_fetch *fetch, const struct cage_plan *plan,
                     const struct helper_run_options *options, helper_run_done_fn *on_done,
                     struct kg_err *err)
{
    const struct store_parts *parts = &fetch->parts;
    if (cage_plan_has_network(plan) && parts->gate == NULL)
        return kg_fail(err, KG_E_CAGE, "nothing can be fetched from the network here");
    const struct helper_place place = {
        .loop = parts->loop, .spawner = parts->spawner, .gate = parts->gate};
    fetch->run = helper_run_start(&place, plan, options, on_done, fetch, err);
    return fetch->run != NULL ? 0 : -EINVAL;
}

static int begin_unpack(struct store_fetch *fetch, struct kg_err *err)
{
    const struct helper_run_options options = {
        .input = fetch->npm != NULL ? kg_buf_view(&fetch->npm->settings) : KG_STR_NULL,
        .output_max = LAST_WORDS_BYTES,
        .timeout_ms = fetch->limits.timeout_ms,
        .on_output = fetch_on_output,
        .on_network = fetch_on_network,
    };
    struct cage_plan *plan =
        fetch_plan(fetch->store, &fetch->source, fetch->npm, &fetch->limits, fetch->work, err);
    if (plan == NULL)
        return -EINVAL;
    int result = start_run(fetch, plan, &options, on_run_done, err);
    cage_plan_free(plan);
    return result;
}

static int judge_look(struct store_fetch *fetch, const struct helper_run_result *result,
                      struct kg_err *err)
{
    if (result->timed_out)
        return kg_fail(err, KG_E_IO, "npm did not report its settings in time");
    if (!result->how.built || result->how.exit_code != 0) {
        kg_auto(kg_buf_free) struct kg_buf shown = {0};
        kg_buf_escaped(&shown, kg_buf_view(&result->err));
        return kg_fail(err, KG_E_INVALID_CONFIG, "npm did not report its settings: %" KG_S_CAUSE,
                       kg_buf_terminate(&shown));
    }
    int read = npm_look_read(fetch->npm, fetch->work, kg_buf_view(&result->out), err);
    return read < 0 ? read : begin_unpack(fetch, err);
}

static void fetch_on_looked(void *data, struct helper_run_result *result,
                            const struct kg_err *err_or_null)
{
    struct store_fetch *fetch = data;
    if (!run_is_over(fetch, err_or_null) || judge_look(fetch, result, &fetch->error) < 0)
        finish_run(fetch);
}

static int fetch_begin_look(struct store_fetch *fetch, struct kg_err *err)
{
    const struct helper_run_options options = {.output_max = LOOK_BYTES,
                                               .timeout_ms = LOOK_TIMEOUT_MS};
    fetch->npm = npm_find(err);
    if (fetch->npm == NULL)
        return -EINVAL;
    struct cage_plan *plan = npm_look_plan(fetch->npm, fetch->work, fetch->parts.facts, err);
    if (plan == NULL)
        return -EINVAL;
    int result = start_run(fetch, plan, &options, fetch_on_looked, err);
    cage_plan_free(plan);
    return result;
}

/* From now on the place is that of the archive. */
static void on_object(void *data, const char *path_or_null, const struct kg_err *err_or_null)
{
    struct store_fetch *fetch = data;
    kg_replace(&fetch->source.place, path_or_null);
    if (!run_is_over(fetch, err_or_null) || begin_unpack(fetch, &fetch->error) < 0)
        finish_run(fetch);
}

static int begin_object(struct store *store, struct store_fetch *fetch, struct kg_err *err)
{
    if (store->catalog_find == NULL) {
        kg_fail(err, KG_E_NO_DAEMON, "the daemon has the catalog, and does not run");
        return kg_hint(err, "kaged start");
    }
    store->catalog_find(store->catalog_data, fetch->source.place, fetch->source.version, on_object,
                        fetch);
    return 0;
}

static int fetch_begin(struct store *store, struct store_fetch *fetch, struct kg_err *err)
{
    int result = store_quarantine_new(store, &fetch->quarantine, err);
    if (result < 0)
        return result;
    fetch->work = make_work(fetch->quarantine, err);
    if (fetch->work == NULL)
        return -EINVAL;
    if (holds_nothing(&fetch->source)) {
        begin_job(fetch);
        return 0;
    }
    if (fetch->source.kind == STORE_CATALOG)
        return begin_object(store, fetch, err);
    bool uses_npm = fetch->source.kind == STORE_NPM || fetch->source.packages;
    return uses_npm ? fetch_begin_look(fetch, err) : begin_unpack(fetch, err);
}

int store_fetch(struct store *store, const struct store_source *source,
                store_progress_fn *on_progress, store_fetched_fn *on_done, void *data,
                struct store_fetch **ret_fetch, struct kg_err *err)
{
    int result = check_parts(store, err);
    if (result < 0)
        return result;
    struct store_fetch *fetch = kg_alloc(sizeof(*fetch));
    *fetch = (struct store_fetch){
        .store = store,
        .parts = store->parts,
        .source = {.kind = source->kind,
                   .text = kg_strdup(source->text),
                   .place = kg_strdup(source->place),
                   .version = kg_strdup(source->version),
                   .server = kg_strdup(source->server),
                   .packages = source->packages,
                   .is_package = source->is_package},
        .kept_args = npm_kept_args(store, source),
        .limits = store_limits_now(store),
        .words = {.on_progress = on_progress, .data = data},
        .on_done = on_done,
        .data = data,
        .end = {.run = fetch_on_end},
    };
    store->fetches++;
    result = fetch_begin(store, fetch, err);
    if (result < 0) {
        kg_wrap(err, result, "%" KG_S_CAUSE, source->text);
        fetch_free(fetch);
        return result;
    }
    *ret_fetch = fetch;
    return 0;
}

void store_fetch_cancel(struct store_fetch *fetch)
{
    fetch->on_done = NULL;
    fetch->words.on_progress = NULL;
    fetch->parts.on_network = NULL;
    if (fetch->run != NULL)
        helper_run_kill(fetch->run);
}
