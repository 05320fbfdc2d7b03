/*
 * Objects, by a row: files alone, or a bucket with files as its cache. Each call goes from step to
 * step and ends once; what blocks runs on a worker, what leaves the machine in a cage.
 *
 *   put   files:                       into its place
 *         bucket:  to the bucket    -> into the cache
 *   open  files:   seen to be whole
 *         bucket:  in the cache? -> in the files of before? -> from the bucket -> seen to be whole
 *                                                                              -> into the cache
 *
 * What is in a bucket was whole when it was put, and nobody else's word is taken for it: what comes
 * back is held against its hash, also when it comes from the cache.
 */
#include "objects/internal.h"

#include "loop/loop.h"
#include "store/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define TRANSFERS_MAX 4   /* at the same time */
#define WAITING_MAX   256 /* calls that wait for one of them */
#define CHECK_BYTES   4096

struct objects_call {
    struct objects_call *next;
    struct objects *objects;
    struct loop_job job;
    void (*after)(struct objects_call *call);     /* the job that runs */
    bool busy;                                    /* a job runs */
    bool transfers;                               /* counts among those */
    void (*waits_for)(struct objects_call *call); /* a transfer, once there is room; or NULL */
    struct bucket_run *run;
    char hash[OBJECTS_HASH_TEXT];
    char *file, *staging, *path; /* owned; or NULL */
    uint64_t bytes, cache_max;
    uint64_t cache_bytes; /* that the cache has; 0: nobody looked */
    int fd;
    struct kg_err err;
    objects_done_fn *on_done;
    objects_check_fn *on_checked; /* of a check, instead */
    void *data;
};

struct objects_row {
    void (*put)(struct objects_call *call);
    void (*open)(struct objects_call *call);
};

struct objects {
    struct objects_parts parts;
    const struct objects_row *row;
    char *files, *cache, *staging; /* owned: folders */
    char *bucket;                  /* owned; NULL: there is none */
    struct loop_worker *worker;    /* owned; NULL: nothing was asked yet */
    struct objects_call *calls;
    uint32_t transfers, waiting;
    bool stopping;
    struct objects_facts facts;
};

/* -- steps ------------------------------------------------------------------------------------- */

static void call_next_transfer(struct objects *objects);

static void call_end(struct objects_call *call)
{
    struct objects *objects = call->objects;
    struct kg_err err = call->err;
    if (err.code == KG_OK && objects->stopping && call->fd < 0)
        kg_fail(&err, KG_E_STOPPING, "the daemon is stopping");
    KG_UNLINK(objects->calls, call);
    if (call->cache_bytes > 0)
        objects->facts.cache_bytes = call->cache_bytes;
    objects->transfers -= call->transfers;
    objects->waiting -= call->waits_for != NULL;
    objects->facts.errors += err.code != KG_OK && err.code != KG_E_STOPPING;
    int fd = err.code == KG_OK ? kg_steal_fd(&call->fd) : -1;
    kg_close(&call->fd);
    if (call->on_done != NULL)
        call->on_done(call->data, fd, call->path, err.code != KG_OK ? &err : NULL);
    free(call->file);
    free(call->staging);
    free(call->path);
    free(call);
    call_next_transfer(objects);
}

static void objects_on_job_done(struct loop_job *job)
{
    struct objects_call *call = KG_CONTAINER(job, struct objects_call, job);
    call->busy = false;
    call->after(call);
}

static void call_work(struct objects_call *call, void (*run)(struct loop_job *job),
                      void (*after)(struct objects_call *call))
{
    struct objects *objects = call->objects;
    if (objects->worker == NULL)
        objects->worker = loop_worker_new(objects->parts.place.loop, "kaged-objects");
    call->job = (struct loop_job){.run = run, .done = objects_on_job_done};
    call->after = after;
    call->busy = true;
    loop_worker_submit(objects->worker, &call->job);
}

static struct objects_call *call_of(struct loop_job *job)
{
    return KG_CONTAINER(job, struct objects_call, job);
}

/* A transfer begins now, or when another one ends. */
static void call_transfer(struct objects_call *call, void (*begin)(struct objects_call *call))
{
    struct objects *objects = call->objects;
    if (objects->transfers < TRANSFERS_MAX) {
        objects->transfers++;
        call->transfers = true;
        begin(call);
    } else if (objects->waiting < WAITING_MAX) {
        objects->waiting++;
        call->waits_for = begin;
    } else {
        kg_fail(&call->err, KG_E_BUSY, "too many objects are already under way");
        call_end(call);
    }
}

static void call_next_transfer(struct objects *objects)
{
    struct objects_call *next = NULL;
    for (struct objects_call *at = objects->calls; at != NULL; at = at->next)
        next = at->waits_for != NULL ? at : next; /* the oldest is the last */
    if (next == NULL || objects->transfers >= TRANSFERS_MAX || objects->stopping)
        return;
    void (*begin)(struct objects_call * call) = next->waits_for;
    next->waits_for = NULL;
    objects->waiting--;
    objects->transfers++;
    next->transfers = true;
    begin(next);
}

static void call_run(struct objects_call *call, const struct bucket_errand *errand,
                     bucket_done_fn *on_done)
{
    call->run = bucket_run_start(&call->objects->parts, errand, on_done, call, &call->err);
    if (call->run == NULL)
        call_end(call);
}

/* -- files ------------------------------------------------------------------------------------- */

static void run_file_put(struct loop_job *job)
{
    struct objects_call *call = call_of(job);
    objects_file_put(call->objects->files, call->hash, call->file, &call->err);
}

static void files_put(struct objects_call *call)
{
    call_work(call, run_file_put, call_end);
}

/* -1: it is not there, or not what it should be. */
static void call_look_in(struct objects_call *call, const char *folder, struct kg_err *err)
{
    int fd = objects_file_open(folder, call->hash, err);
    call->fd = fd < 0 ? -1 : fd;
    if (fd >= 0)
        call->path = objects_file_path(folder, call->hash);
}

static void run_file_open(struct loop_job *job)
{
    struct objects_call *call = call_of(job);
    call_look_in(call, call->objects->files, &call->err);
}

static void files_open(struct objects_call *call)
{
    call_work(call, run_file_open, call_end);
}

static const struct objects_row files_row = {files_put, files_open};

/* -- to the bucket ----------------------------------------------------------------------------- */

/* The object is safe already: a cache that cannot be written costs a transfer, later. */
static void run_cache(struct loop_job *job)
{
    struct objects_call *call = call_of(job);
    struct objects *objects = call->objects;
    struct kg_err err;
    if (objects_file_put(objects->cache, call->hash, call->file, &err) < 0)
        kg_log(KG_WARN, "cache of the bucket: %s", err.message);
    call->cache_bytes = objects_file_trim(objects->cache, call->cache_max);
}

static void objects_on_sent(void *data, const struct bucket_answer *answer,
                            const struct kg_err *err_or_null)
{
    struct objects_call *call = data;
    call->run = NULL;
    if (err_or_null != NULL) {
        call->err = *err_or_null;
        call_end(call);
        return;
    }
    call->objects->facts.bytes_out += answer->bytes;
    call_work(call, run_cache, call_end);
}

static void bucket_begin_put(struct objects_call *call)
{
    const struct bucket_errand errand = {
        .act = "put", .key = call->hash, .hash = call->hash, .file = call->file};
    call_run(call, &errand, objects_on_sent);
}

static void bucket_put(struct objects_call *call)
{
    call_transfer(call, bucket_begin_put);
}

/* -- from the bucket --------------------------------------------------------------------------- */

static void objects_run_take(struct loop_job *job)
{
    struct objects_call *call = call_of(job);
    struct objects *objects = call->objects;
    char found[OBJECTS_HASH_TEXT];
    kg_auto(kg_free) char *file = kg_path_join(call->staging, "object");
    kg_auto(kg_close) int fd = open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        kg_fail_errno(&call->err, errno, "open what came from the bucket");
    } else if (objects_hash(fd, found, &call->err) == 0 && strcmp(found, call->hash) != 0) {
        kg_fail(&call->err, KG_E_IO,
                "the object %s is damaged in the bucket: it is not what its hash says", call->hash);
        kg_hint(&call->err, "put it back from the bucket's own versions, or upload the package "
                            "again");
    } else if (call->err.code == KG_OK) {
        struct kg_err err;
        if (objects_file_put(objects->cache, call->hash, file, &err) < 0)
            kg_log(KG_WARN, "cache of the bucket: %s", err.message);
        else
            call->path = objects_file_path(objects->cache, call->hash);
        call->cache_bytes = objects_file_trim(objects->cache, call->cache_max);
        call->fd = kg_steal_fd(&fd);
    }
}

static void run_leave(struct loop_job *job)
{
    struct objects_call *call = call_of(job);
    tree_remove(AT_FDCWD, call->staging, NULL);
}

static void call_leave(struct objects_call *call)
{
    call_work(call, run_leave, call_end);
}

static void objects_on_got(void *data, const struct bucket_answer *answer,
                           const struct kg_err *err_or_null)
{
    struct objects_call *call = data;
    call->run = NULL;
    call->objects->facts.bytes_in += answer->bytes;
    if (err_or_null == NULL) {
        call_work(call, objects_run_take, call_leave);
        return;
    }
    call->err = *err_or_null;
    if (answer->is_missing) {
        kg_fail(&call->err, KG_E_IO, "the object %s is not in the bucket %s", call->hash,
                call->objects->bucket);
        kg_hint(&call->err, "put it back from the bucket's own versions, or upload the package "
                            "again");
    }
    call_leave(call);
}

static void bucket_begin_get(struct objects_call *call)
{
    const struct bucket_errand errand = {
        .act = "get", .key = call->hash, .folder = call->staging, .bytes_max = call->bytes};
    call_run(call, &errand, objects_on_got);
}

static void objects_on_looked(struct objects_call *call)
{
    struct objects_facts *facts = &call->objects->facts;
    bool is_here = call->fd >= 0;
    facts->hits += is_here;
    facts->misses += !is_here;
    if (is_here || call->err.code != KG_OK || call->objects->stopping)
        call_end(call);
    else
        call_transfer(call, bucket_begin_get);
}

/* What is damaged here is fetched again. */
static void objects_run_look(struct loop_job *job)
{
    struct objects_call *call = call_of(job);
    struct objects *objects = call->objects;
    struct kg_err err = {0};
    call_look_in(call, objects->cache, &err);
    if (call->fd < 0 && err.errnum != ENOENT) {
        kg_log(KG_WARN, "cache of the bucket: %s; it is fetched again", err.message);
        objects_file_remove(objects->cache, call->hash);
    }
    if (call->fd < 0)
        call_look_in(call, objects->files, &err);
    if (call->fd >= 0)
        return;
    call->staging = kg_format("%s/%s", objects->staging, kg_id_new("get_").text);
    kg_make_dirs(call->staging, 0700, &call->err);
}

static void bucket_open(struct objects_call *call)
{
    call_work(call, objects_run_look, objects_on_looked);
}

static const struct objects_row bucket_row = {bucket_put, bucket_open};

/* -- what is asked ----------------------------------------------------------------------------- */

static struct objects_call *objects_call_new(struct objects *objects, const char *hash, void *data)
{
    struct objects_call *call = kg_alloc(sizeof(*call));
    call->objects = objects;
    call->fd = -1;
    call->cache_max = (uint64_t)objects->parts.config(objects->parts.data)->cluster_cache_mb << 20;
    call->data = data;
    kg_str_copy(kg_str(hash), call->hash, sizeof(call->hash));
    call->next = objects->calls;
    objects->calls = call;
    return call;
}

void objects_put(struct objects *objects, const char *hash, const char *file,
                 objects_done_fn *on_done, void *data)
{
    struct objects_call *call = objects_call_new(objects, hash, data);
    call->file = kg_strdup(file);
    call->on_done = on_done;
    objects->row->put(call);
}

void objects_open(struct objects *objects, const char *hash, uint64_t bytes,
                  objects_done_fn *on_done, void *data)
{
    struct objects_call *call = objects_call_new(objects, hash, data);
    call->bytes = bytes;
    call->on_done = on_done;
    objects->row->open(call);
}

static void on_checked(void *data, const struct bucket_answer *answer,
                       const struct kg_err *err_or_null)
{
    struct objects_call *call = data;
    const struct kg_node *said = answer->said;
    const struct objects_check check = {
        .reached = said != NULL && kg_node_number(said, "status") > 0,
        .may_write = said != NULL && kg_node_is_true(said, "put"),
        .may_read = said != NULL && kg_node_is_true(said, "got"),
        .may_remove = said != NULL && kg_node_is_true(said, "removed"),
        .clock_ms = answer->clock_ms,
        .problem = err_or_null ? err_or_null->message : "",
        .hint = err_or_null ? err_or_null->hint : "",
    };
    call->run = NULL;
    call->on_checked(call->data, &check);
    call->on_checked = NULL;
    call_end(call);
}

void objects_check(struct objects *objects, objects_check_fn *on_done, void *data)
{
    kg_auto(kg_free) char *key = kg_format("kaged-check-%s", kg_id_new("").text);
    struct objects_call *call = objects_call_new(objects, "", data);
    for (char *at = key; *at != '\0'; at++)
        *at = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
    const struct bucket_errand errand = {.act = "check", .key = key, .bytes_max = CHECK_BYTES};
    call->on_checked = on_done;
    call->run = bucket_run_start(&objects->parts, &errand, on_checked, call, &call->err);
    if (call->run != NULL)
        return;
    struct objects_check check = {.problem = call->err.message, .hint = call->err.hint};
    on_done(data, &check);
    call_end(call);
}

struct objects_facts objects_facts(const struct objects *objects)
{
    struct objects_facts facts = objects->facts;
    facts.bucket = objects->bucket;
    return facts;
}

/* -- life -------------------------------------------------------------------------------------- */

struct objects *objects_new(const struct objects_parts *parts, struct kg_err *err)
{
    const struct config *config = parts->config(parts->data);
    bool has_bucket = config->cluster_bucket[0] != '\0';
    kg_auto(bucket_place_free) struct bucket_place place = {0};
    if (has_bucket && bucket_place_find(config, &place, err) < 0)
        return NULL;
    struct objects *objects = kg_alloc(sizeof(*objects));
    objects->parts = *parts;
    objects->row = has_bucket ? &bucket_row : &files_row;
    objects->bucket = has_bucket ? kg_strdup(config->cluster_bucket) : NULL;
    objects->files = kg_path_join(parts->folder, "objects");
    objects->cache = kg_path_join(parts->folder, "cache");
    objects->staging = kg_path_join(parts->folder, "staging");
    tree_remove(AT_FDCWD, objects->staging, NULL); /* what a killed daemon left */
    return objects;
}

void objects_stop(struct objects *objects)
{
    objects->stopping = true;
    for (struct objects_call *call = objects->calls, *next; call != NULL; call = next) {
        next = call->next;
        if (call->busy)
            continue;
        if (call->run != NULL)
            bucket_run_cancel(kg_steal(&call->run));
        if (call->on_checked != NULL)
            call->on_checked(call->data, &(struct objects_check){
                                             .problem = "the daemon is stopping", .hint = ""});
        kg_fail(&call->err, KG_E_STOPPING, "the daemon is stopping");
        call_end(call);
    }
}

void objects_free(struct objects *objects)
{
    if (objects == NULL)
        return;
    objects_stop(objects);
    loop_worker_free(objects->worker);
    free(objects->files);
    free(objects->cache);
    free(objects->staging);
    free(objects->bucket);
    free(objects);
}
