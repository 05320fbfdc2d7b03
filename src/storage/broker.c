/*
 * One plugin's storage, seen from the daemon: its file, and the helper that has it open. Requests
 * are answered in the order in which they came, each exactly once. Only the oldest has a deadline,
 * since the others wait for it; when it passes, the process is killed, and what it had not
 * committed is undone by the next one.
 */
#include "helper/helper.h"
#include "storage/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define KILL_GRACE_MS  1000  /* after statement_ms, in which the process itself gives up */
#define OPEN_GRACE_MS  10000 /* for the first request: the file may need to be recovered */
#define CLOSE_MS       5000  /* for what was asked before the end */
#define WORKER_CORRUPT 3     /* exit code of kaged-storage: the file is damaged */
#define PROCESSES      8
#define TMP_BYTES      65536
#define HEAP_BYTES     (INT64_C(64) << 20)
#define MEMORY_BYTES   ((uint64_t)256 << 20)
#define CPU_SHARES     256

/* One request, from storage_ask to its answer. */
struct ask {
    const struct storage *storage;
    const void *whose;
    storage_done_fn *on_done;
    void *data;
};

/* A copy of the file, made on another thread while no process has it open. */
struct export
{
    struct loop_job job;
    struct storage *storage;
    char *from, *to; /* owned */
    struct loop_worker *worker;
    storage_done_fn *on_done;
    void *data;
    int result;
};

struct storage {
    const struct storage_place *place;
    struct storage_ops ops;
    void *data;
    char *name, *file, *wal, *marker; /* owned */
    struct helper *helper;            /* owned */
    uint64_t requests;
    int64_t statement_ms; /* what the process was started with */
    bool damaged;
    bool ending; /* storage_close was called */
    struct loop_timer end_timer;
    struct export *export;
};

/* -- answers ----------------------------------------------------------------------------------- */

static void broker_answer_error(storage_done_fn *on_done, void *data, enum kg_code code,
                                const char *message)
{
    kg_auto(kg_buf_free) struct kg_buf error = {0};
    rpc_put_error(&error, code, message);
    on_done(data, STORAGE_ERROR, kg_buf_view(&error));
}

/* Of what was sent, nobody knows how far the process came. */
static void answer_ended(const struct ask *ask, const char *words)
{
    kg_auto(kg_free) char *message = kg_format(
        "the storage process ended before it answered; whether this was done is not known%s%s",
        words[0] != '\0' ? ": " : "", words);
    broker_answer_error(ask->on_done, ask->data, KG_E_PLUGIN, message);
}

static void answer_late(const struct ask *ask)
{
    kg_auto(kg_free) char *message =
        kg_format("the statement took longer than %lld ms, and its storage process was ended",
                  (long long)ask->storage->statement_ms);
    broker_answer_error(ask->on_done, ask->data, KG_E_PLUGIN, message);
}

static void broker_on_answer(void *data, const struct helper_answer *answer)
{
    struct ask ask = *(struct ask *)data;
    free(data);
    switch (answer->outcome) {
    case HELPER_RESULT:
        ask.on_done(ask.data, STORAGE_RESULT, answer->payload);
        break;
    case HELPER_ERROR:
        ask.on_done(ask.data, STORAGE_ERROR, answer->payload);
        break;
    case HELPER_REFUSED:
        broker_answer_error(ask.on_done, ask.data, answer->code, answer->words);
        break;
    case HELPER_UNBUILT:
        broker_answer_error(ask.on_done, ask.data, KG_E_INTERNAL, answer->words);
        break;
    case HELPER_ENDED:
        answer_ended(&ask, answer->words);
        break;
    case HELPER_LATE:
        answer_late(&ask);
        break;
    case HELPER_GONE:
        break;
    }
}

/* -- the end of a process ---------------------------------------------------------------------- */

/* The file is kept for whoever wants to save something of it; a mark keeps a new one away. */
static void move_damaged(struct storage *storage)
{
    char when[KG_TIME_TEXT];
    kg_time_format(kg_wall_ms(), when);
    kg_auto(kg_free) char *moved = kg_format("%s.damaged-%s", storage->file, when);
    kg_auto(kg_free) char *moved_wal = kg_format("%s-wal", moved);
    kg_auto(kg_close) int marker =
        open(storage->marker, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (marker < 0 || kg_write_all(marker, moved, strlen(moved)) < 0 ||
        rename(storage->file, moved) < 0 || rename(storage->wal, moved_wal) < 0)
        kg_log_about(KG_ERROR_LEVEL, storage->name, "move damaged storage %s aside: %s",
                     storage->file, strerror(errno));
    storage->damaged = true;
    kg_log_about(KG_ERROR_LEVEL, storage->name, "its storage is damaged, and is called %s now",
                 moved);
    storage->ops.on_damaged(storage->data, moved);
}

static int check_damaged(const struct storage *storage, struct kg_err *err)
{
    if (!storage->damaged)
        return 0;
    kg_fail(err, KG_E_REFUSED, "the storage of plugin %s was damaged and is set aside",
            storage->name);
    return kg_hint(err, "the operator lets it start empty with: kaged plugin storage %s --reset",
                   storage->name);
}

static void broker_on_exited(void *data, const struct cage_exit *how)
{
    struct storage *storage = data;
    struct kg_err err = {0};
    if (how->exit_code != WORKER_CORRUPT)
        return;
    move_damaged(storage);
    check_damaged(storage, &err);
    err.code = KG_E_PLUGIN;
    helper_refuse(storage->helper, &err);
}

/* SQL is in there, and SQL may have taken it over: what does not fit the wire ends it. */
static void broker_on_misfit(void *data, const char *what)
{
    const struct storage *storage = data;
    kg_log_about(KG_ERROR_LEVEL, storage->name, "its storage process is ended: %s", what);
}

/* No process has the file: what comes now is a copy of it, or the end. */
static void broker_on_rest(void *data)
{
    struct storage *storage = data;
    if (storage->export != NULL)
        loop_worker_submit(storage->export->worker, &storage->export->job);
    else if (storage->ending)
        storage->ops.on_closed(storage->data);
}

/* -- starting ---------------------------------------------------------------------------------- */

/* They are in place before the process is: in its cage it can make nothing. */
static int broker_make_file(const char *path, struct kg_err *err)
{
    kg_auto(kg_close) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? kg_fail_errno(err, errno, "make storage file %s", path) : 0;
}

static char **broker_make_command(const struct storage *storage, const char *program)
{
    const struct storage_limits *limits = &storage->place->limits;
    const struct {
        const char *name;
        int64_t value;
    } options[] = {
        {"size_bytes", limits->size_bytes},   {"statement_ms", limits->statement_ms},
        {"rows_max", limits->rows_max},       {"result_bytes", limits->result_bytes},
        {"line_bytes", limits->line_bytes},   {"sql_bytes", limits->sql_bytes},
        {"value_bytes", limits->value_bytes}, {"depth", limits->depth},
        {"variables", limits->variables},     {"heap_bytes", HEAP_BYTES},
    };
    char **command = kg_list_new(0);
    kg_list_add(&command, kg_strdup(program));
    kg_list_add(&command, kg_strdup(storage->file));
    for (size_t i = 0; i < KG_COUNT(options); i++)
        kg_list_add(&command, kg_format("%s=%lld", options[i].name, (long long)options[i].value));
    kg_list_add(&command, kg_format("sync=%s", limits->sync_full ? "full" : "normal"));
    return command;
}

static struct cage_plan *broker_make_plan(const struct storage *storage, const char *program,
                                          struct kg_err *err)
{
    const struct cage_path paths[] = {
        {.path = storage->file, .write = true, .own = true},
        {.path = storage->wal, .write = true, .own = true},
    };
    char **command = broker_make_command(storage, program);
    kg_auto(kg_free) char *name = kg_format("%s (storage)", storage->name);
    const struct cage_policy policy = {
        .name = name,
        .command = (const char *const *)command,
        .paths = paths,
        .path_count = KG_COUNT(paths),
        .processes_max = PROCESSES,
        .tmp_bytes = TMP_BYTES,
        .memory_bytes = MEMORY_BYTES,
        .cpu_shares = CPU_SHARES,
    };
    struct cage_plan *plan = helper_plan(program, policy, storage->place->facts, err);
    kg_list_free(command);
    return plan;
}

static int broker_prepare(void *data, const char *program, struct helper_start *ret_start,
                          struct kg_err *err)
{
    struct storage *storage = data;
    const struct storage_limits *limits = &storage->place->limits;
    if (broker_make_file(storage->file, err) < 0 || broker_make_file(storage->wal, err) < 0)
        return -EINVAL;
    struct cage_plan *plan = broker_make_plan(storage, program, err);
    if (plan == NULL)
        return -EINVAL;
    storage->statement_ms = limits->statement_ms;
    *ret_start = (struct helper_start){
        .plan = plan,
        .wire =
            {
                .line_max_bytes = (size_t)limits->line_bytes,
                .write_queue_max_bytes = (size_t)limits->line_bytes * 4,
                .calls_in_flight_max = UINT32_MAX, /* requests_max is kept before, and may change */
                .notifications_per_sec = 1,
            },
        .idle_ms = limits->idle_ms,
        .turn_ms = (uint64_t)limits->statement_ms + KILL_GRACE_MS,
        .first_turn_ms = (uint64_t)limits->statement_ms + OPEN_GRACE_MS,
    };
    return 0;
}

/* -- export ------------------------------------------------------------------------------------ */

static void run_export(struct loop_job *job)
{
    struct export *export = KG_CONTAINER(job, struct export, job);
    export->result = kg_copy_file(export->from, export->to, 0600);
}

static void broker_on_exported(struct loop_job *job)
{
    struct export *export = KG_CONTAINER(job, struct export, job);
    struct storage *storage = export->storage;
    storage->export = NULL;
    helper_hold(storage->helper, false);
    if (export->result == 0) {
        export->on_done(export->data, STORAGE_RESULT, KG_STR("null"));
    } else {
        kg_auto(kg_free) char *message =
            kg_format("copy %s to %s: %s", export->from, export->to, strerror(-export->result));
        broker_answer_error(export->on_done, export->data, KG_E_IO, message);
    }
    free(export->from);
    free(export->to);
    free(export);
    if (storage->ending && storage_is_closed(storage))
        storage->ops.on_closed(storage->data);
}

int storage_export(struct storage *storage, const char *path, struct loop_worker *worker,
                   storage_done_fn *on_done, void *data, struct kg_err *err)
{
    if (storage->export != NULL || storage->ending)
        return kg_fail(err, KG_E_BUSY, "plugin %s: its storage is being copied or closed",
                       storage->name);
    if (access(storage->file, F_OK) < 0)
        return kg_fail(err, KG_E_NOT_FOUND, "plugin %s has stored nothing", storage->name);
    struct export *export = kg_alloc(sizeof(*export));
    *export = (struct export){
        .job = {.run = run_export, .done = broker_on_exported},
        .storage = storage,
        .from = kg_strdup(storage->file),
        .to = kg_strdup(path),
        .worker = worker,
        .on_done = on_done,
        .data = data,
    };
    storage->export = export;
    helper_hold(storage->helper, true);
    if (helper_is_closed(storage->helper))
        broker_on_rest(storage);
    return 0;
}

/* -- the interface ----------------------------------------------------------------------------- */

struct storage *storage_new(const struct storage_place *place, const char *name,
                            const struct storage_ops *ops, void *data)
{
    static const struct helper_ops helper_ops = {
        .prepare = broker_prepare,
        .on_misfit = broker_on_misfit,
        .on_exited = broker_on_exited,
        .on_rest = broker_on_rest,
    };
    const struct helper_place where = {.loop = place->loop, .spawner = place->spawner};
    struct storage *storage = kg_alloc(sizeof(*storage));
    storage->place = place;
    storage->ops = *ops;
    storage->data = data;
    storage->name = kg_strdup(name);
    storage->file = kg_format("%s/%s.db", place->dir, name);
    storage->wal = kg_format("%s-wal", storage->file);
    storage->marker = kg_format("%s.damaged", storage->file);
    storage->helper = helper_new(&where, "kaged-storage", &helper_ops, storage);
    storage->damaged = access(storage->marker, F_OK) == 0;
    return storage;
}

void storage_free(struct storage *storage)
{
    if (storage == NULL)
        return;
    loop_timer_stop(storage->place->loop, &storage->end_timer);
    helper_free(storage->helper);
    free(storage->name);
    free(storage->file);
    free(storage->wal);
    free(storage->marker);
    free(storage);
}

int storage_ask(struct storage *storage, const struct storage_request *request, struct kg_err *err)
{
    uint32_t waiting = helper_calls(storage->helper);
    if (storage->place->facts == NULL || storage->ending)
        return kg_fail(err, KG_E_STOPPING, "plugin %s: there is no storage now", storage->name);
    if (check_damaged(storage, err) < 0)
        return -EINVAL;
    if (waiting >= storage->place->limits.requests_max)
        return kg_fail(err, KG_E_BUSY, "plugin %s: %u storage requests are already waiting",
                       storage->name, waiting);
    struct ask *ask = kg_alloc(sizeof(*ask));
    *ask = (struct ask){storage, request->whose, request->on_done, request->data};
    const struct helper_request asked = {
        .method = request->method,
        .params = request->params,
        .only_reads = request->only_reads,
        .on_done = broker_on_answer,
        .data = ask,
    };
    int result = helper_ask(storage->helper, &asked, NULL, err);
    if (result < 0)
        free(ask);
    else
        storage->requests++;
    return result;
}

static bool is_whose(const void *data, const void *whose)
{
    return ((const struct ask *)data)->whose == whose;
}

void storage_drop(struct storage *storage, const void *whose)
{
    struct kg_err err = {0};
    kg_fail(&err, KG_E_CANCELLED, "plugin %s: the caller of its storage is gone", storage->name);
    helper_refuse_some(storage->helper, is_whose, whose, &err);
}

int storage_reset(struct storage *storage, struct kg_err *err)
{
    if (!storage->damaged) {
        kg_fail(err, KG_E_CONFLICT, "the storage of plugin %s is not damaged", storage->name);
        return -ENOENT;
    }
    if (unlink(storage->marker) < 0 && errno != ENOENT)
        return kg_fail_errno(err, errno, "remove %s", storage->marker);
    storage->damaged = false;
    return 0;
}

void storage_kill(struct storage *storage)
{
    struct kg_err err = {0};
    storage->ending = true;
    kg_fail(&err, KG_E_STOPPING, "plugin %s: its storage was closed before this was answered",
            storage->name);
    helper_kill(storage->helper);
    helper_refuse(storage->helper, &err);
}

static void on_end_late(struct loop_timer *timer)
{
    storage_kill(KG_CONTAINER(timer, struct storage, end_timer));
}

void storage_close(struct storage *storage)
{
    if (!storage->ending)
        loop_timer_start(storage->place->loop, &storage->end_timer, CLOSE_MS, on_end_late);
    storage->ending = true;
    helper_retire(storage->helper, true);
    if (storage_is_closed(storage))
        storage->ops.on_closed(storage->data);
}

bool storage_is_closed(const struct storage *storage)
{
    return helper_is_closed(storage->helper) && helper_calls(storage->helper) == 0 &&
           storage->export == NULL;
}

struct storage_facts storage_facts(const struct storage *storage)
{
    struct stat status;
    struct storage_facts facts = {
        .file = storage->file,
        .running = helper_runs(storage->helper),
        .damaged = storage->damaged,
        .waiting = helper_calls(storage->helper),
        .requests = storage->requests,
    };
    if (stat(storage->file, &status) == 0)
        facts.bytes = (uint64_t)status.st_size;
    return facts;
}
