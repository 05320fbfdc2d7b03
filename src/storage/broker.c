/*
 * One plugin's storage process, seen from the daemon. Requests are answered in the order in which
 * they came, each exactly once: by the process, or by us if it did not live to. Only the oldest has
 * a deadline, since the others wait for it; when it passes, the process is killed, and what it had
 * not committed is undone by the next one.
 *
 *   closed -> starting -> open -> closing -> closed
 */
#include "storage/storage.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define KILL_GRACE_MS    1000  /* after statement_ms, in which the process itself gives up */
#define OPEN_GRACE_MS    10000 /* for the first request: the file may need to be recovered */
#define CLOSE_MS         5000  /* to write everything back and leave */
#define WORKER_CORRUPT   3     /* exit code of kaged-storage: the file is damaged */
#define LAST_WORDS_BYTES 1024
#define PROCESSES        8
#define TMP_BYTES        65536
#define HEAP_BYTES       (INT64_C(64) << 20)
#define MEMORY_BYTES     ((uint64_t)256 << 20)
#define CPU_SHARES       256
#define OPTION_BYTES     48

enum state { CLOSED, STARTING, OPEN, CLOSING };

/* One request, from storage_ask to its answer. */
struct ask {
    struct ask *next;
    struct storage *storage;
    const char *method;
    struct kg_buf params; /* until it is sent */
    bool sent;
    storage_done_fn *on_done; /* NULL: nobody waits */
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
    enum state state;
    struct cage_child *child; /* NULL without a process; freed by the cage */
    struct peer *peer;        /* NULL before the pipes are there */
    int err_fd;
    struct ask *first, **last; /* owned, oldest first */
    uint32_t waiting;
    uint64_t requests;
    int64_t statement_ms;       /* what this process was started with */
    struct loop_timer deadline; /* of the oldest, or of the closing */
    struct loop_timer idle;
    struct loop_task start; /* with requests that were asked for in this turn */
    bool late;              /* the oldest outlived its deadline */
    bool answered;          /* this process has answered something */
    bool damaged;
    bool ending; /* storage_close was called */
    bool gone;   /* storage_free was called; freed when the process is gone */
    struct export *export;
};

static void start_process(struct storage *storage);
static void send_waiting(struct storage *storage);

/* -- answers ----------------------------------------------------------------------------------- */

static void put_error(struct kg_buf *out, enum kg_code code, const char *message)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_key(&json, "code");
    kg_json_int(&json, kg_error_row(code)->rpc_code);
    kg_json_key(&json, "message");
    kg_json_text(&json, message);
    kg_json_end(&json, '}');
}

static void answer_error(storage_done_fn *on_done, void *data, enum kg_code code,
                         const char *message)
{
    kg_auto(kg_buf_free) struct kg_buf error = {0};
    put_error(&error, code, message);
    if (on_done != NULL)
        on_done(data, STORAGE_ERROR, kg_buf_view(&error));
}

static void ask_free(struct ask *ask)
{
    kg_buf_free(&ask->params);
    free(ask);
}

/* Takes it out of the list; mostly it is the first. */
static void unlink_ask(struct storage *storage, struct ask *ask)
{
    struct ask **at = &storage->first;
    while (*at != ask)
        at = &(*at)->next;
    *at = ask->next;
    if (storage->last == &ask->next)
        storage->last = at;
    storage->waiting--;
}

/* One that is in no list any more. */
static void fail_ask(struct ask *ask, enum kg_code code, const char *message)
{
    storage_done_fn *on_done = ask->on_done;
    void *data = ask->data;
    ask_free(ask);
    answer_error(on_done, data, code, message);
}

static struct ask *take_first(struct storage *storage)
{
    struct ask *ask = storage->first;
    storage->first = ask->next;
    if (storage->first == NULL)
        storage->last = &storage->first;
    storage->waiting--;
    return ask;
}

static void fail_all(struct storage *storage, enum kg_code code, const char *message)
{
    while (storage->first != NULL)
        fail_ask(take_first(storage), code, message);
}

/* -- deadlines --------------------------------------------------------------------------------- */

static void on_late(struct loop_timer *timer)
{
    struct storage *storage = KG_CONTAINER(timer, struct storage, deadline);
    storage->late = true;
    if (storage->child != NULL)
        cage_signal(storage->child, SIGKILL);
}

static void on_idle(struct loop_timer *timer);

/* After each change of who is oldest. */
static void set_timers(struct storage *storage)
{
    struct loop *loop = storage->place->loop;
    if (storage->state != OPEN)
        return;
    if (storage->first == NULL) {
        loop_timer_stop(loop, &storage->deadline);
        loop_timer_start(loop, &storage->idle, storage->place->limits.idle_ms, on_idle);
        return;
    }
    loop_timer_stop(loop, &storage->idle);
    uint64_t grace_ms = storage->answered ? KILL_GRACE_MS : OPEN_GRACE_MS;
    loop_timer_start(loop, &storage->deadline, (uint64_t)storage->statement_ms + grace_ms, on_late);
}

/* -- the end of a process ---------------------------------------------------------------------- */

static void close_process(struct storage *storage)
{
    struct loop *loop = storage->place->loop;
    storage->state = CLOSING;
    loop_timer_stop(loop, &storage->idle);
    loop_timer_start(loop, &storage->deadline, CLOSE_MS, on_late);
    peer_close_input(storage->peer);
}

static void on_idle(struct loop_timer *timer)
{
    close_process(KG_CONTAINER(timer, struct storage, idle));
}

/* What the process said on stderr before it left; it says nothing else there. */
static void read_last_words(struct storage *storage, char *ret_text, size_t size)
{
    ssize_t got = storage->err_fd >= 0 ? read(storage->err_fd, ret_text, size - 1) : 0;
    ret_text[got > 0 ? got : 0] = '\0';
    ret_text[strcspn(ret_text, "\n")] = '\0';
    kg_close(&storage->err_fd);
}

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
    kg_hint(err, "the operator lets it start empty with: kaged plugin storage %s --reset",
            storage->name);
    return -EINVAL;
}

/* Those that were sent: nobody knows how far the process came, except that the oldest was late. */
static void fail_sent(struct storage *storage, const char *why)
{
    bool late = storage->late;
    while (storage->first != NULL && storage->first->sent) {
        char message[LAST_WORDS_BYTES + 128];
        if (late)
            snprintf(message, sizeof(message),
                     "the statement took longer than %lld ms, and its storage process was ended",
                     (long long)storage->statement_ms);
        else
            snprintf(message, sizeof(message),
                     "the storage process ended before it answered; whether this was done is not "
                     "known%s%s",
                     why[0] != '\0' ? ": " : "", why);
        late = false;
        fail_ask(take_first(storage), KG_E_PLUGIN, message);
    }
}

static void storage_delete(struct storage *storage)
{
    struct loop *loop = storage->place->loop;
    loop_timer_stop(loop, &storage->deadline);
    loop_timer_stop(loop, &storage->idle);
    loop_undefer(loop, &storage->start);
    while (storage->first != NULL) {
        struct ask *ask = storage->first;
        storage->first = ask->next;
        ask_free(ask);
    }
    free(storage->name);
    free(storage->file);
    free(storage->wal);
    free(storage->marker);
    free(storage);
}

static void begin_export(struct storage *storage);

/* What comes after a process is gone: a copy of the file, the next process, or the end. */
static void go_on(struct storage *storage)
{
    if (storage->export != NULL && storage->state == CLOSED)
        begin_export(storage);
    else if (storage->first != NULL)
        loop_defer(storage->place->loop, &storage->start);
    else if (storage->ending)
        storage->ops.on_closed(storage->data);
}

static void on_exited(void *data, const struct cage_exit *how, const char *error_or_null)
{
    struct storage *storage = data;
    char words[LAST_WORDS_BYTES] = "";
    storage->child = NULL;
    loop_timer_stop(storage->place->loop, &storage->deadline);
    loop_timer_stop(storage->place->loop, &storage->idle);
    if (storage->peer != NULL) {
        peer_drain(storage->peer); /* an answer that was given just before still counts */
        peer_free(storage->peer);
        storage->peer = NULL;
    }
    read_last_words(storage, words, sizeof(words));
    storage->state = CLOSED;
    if (storage->gone) {
        storage_delete(storage);
        return;
    }
    if (!how->built && !storage->late) { /* the next would not fare better */
        fail_all(storage, KG_E_INTERNAL, error_or_null ? error_or_null : words);
    } else if (how->exit_code == WORKER_CORRUPT) {
        struct kg_err err = {0};
        move_damaged(storage);
        check_damaged(storage, &err);
        fail_all(storage, KG_E_PLUGIN, err.message);
    } else {
        fail_sent(storage, words);
    }
    storage->late = false;
    go_on(storage);
}

/* -- what the process says --------------------------------------------------------------------- */

static void on_request(void *data, int64_t id, struct kg_str method, struct kg_str params)
{
    struct storage *storage = data;
    (void)method, (void)params;
    peer_answer_error(storage->peer, id, kg_error_row(KG_E_METHOD_NOT_FOUND)->rpc_code, "");
}

/* SQL is in there, and SQL may have taken it over: what does not fit the wire ends it. */
static void give_up(struct storage *storage, const char *what)
{
    kg_log_about(KG_ERROR_LEVEL, storage->name, "its storage process is ended: %s", what);
    if (storage->child != NULL)
        cage_signal(storage->child, SIGKILL);
}

static void on_noise(void *data, struct kg_str line, const char *problem)
{
    (void)line;
    give_up(data, problem);
}

static void on_violation(void *data, enum peer_violation violation, const char *detail)
{
    (void)violation;
    give_up(data, detail);
}

/* Its calls have no deadline of the peer's, and after its end its exit follows. */
static const struct peer_ops peer_ops = {
    .on_request = on_request,
    .on_noise = on_noise,
    .on_violation = on_violation,
};

static void on_answer(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct ask *ask = data;
    struct storage *storage = ask->storage;
    if (outcome != PEER_RESULT && outcome != PEER_ERROR)
        return; /* the process is gone: fail_sent answers */
    storage_done_fn *on_done = ask->on_done;
    void *done_data = ask->data;
    storage->answered = true;
    unlink_ask(storage, ask);
    ask_free(ask);
    set_timers(storage);
    bool wanted = storage->export == NULL && !storage->ending;
    if (!wanted && storage->first == NULL && storage->state == OPEN)
        close_process(storage);
    if (on_done != NULL)
        on_done(done_data, outcome == PEER_RESULT ? STORAGE_RESULT : STORAGE_ERROR, payload);
}

/* -- starting ---------------------------------------------------------------------------------- */

static int send_ask(struct ask *ask, struct kg_str params, struct kg_err *err)
{
    const struct peer_call call = {
        .method = kg_str(ask->method),
        .params = &params,
        .params_count = 1,
        .on_done = on_answer,
        .data = ask,
    };
    int result = peer_call(ask->storage->peer, &call, NULL, err);
    ask->sent = result == 0;
    return result;
}

static void send_waiting(struct storage *storage)
{
    for (struct ask *ask = storage->first, *next; ask != NULL; ask = next) {
        struct kg_err err;
        next = ask->next;
        if (ask->sent)
            continue;
        if (send_ask(ask, kg_buf_view(&ask->params), &err) == 0) {
            kg_buf_free(&ask->params);
            continue;
        }
        unlink_ask(storage, ask);
        fail_ask(ask, err.code, err.message);
    }
    set_timers(storage);
}

static void on_spawned(void *data, pid_t pid, int in_fd, int out_fd, int err_fd)
{
    struct storage *storage = data;
    const struct storage_limits *limits = &storage->place->limits;
    const struct peer_limits wire = {
        .line_max_bytes = (size_t)limits->line_bytes,
        .write_queue_max_bytes = (size_t)limits->line_bytes * 4,
        .calls_in_flight_max = UINT32_MAX, /* requests_max is kept before, and may change */
        .notifications_per_sec = 1,
    };
    (void)pid;
    storage->peer = peer_new(storage->place->loop, in_fd, out_fd, &wire, &peer_ops, storage);
    peer_set_phase(storage->peer, PEER_OPEN);
    storage->err_fd = err_fd;
    storage->state = OPEN;
    send_waiting(storage);
}

static const struct cage_child_ops child_ops = {.on_spawned = on_spawned, .on_exited = on_exited};

/* They are in place before the process is: in its cage it can make nothing. */
static int make_file(const char *path, struct kg_err *err)
{
    kg_auto(kg_close) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? kg_fail_errno(err, errno, "make storage file %s", path) : 0;
}

static char **make_command(const struct storage *storage, const char *program)
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

static struct cage_plan *make_plan(const struct storage *storage, const char *program,
                                   struct kg_err *err)
{
    static const char *const env[] = {
        "LANG=C.UTF-8",
#ifdef __SANITIZE_ADDRESS__
        "ASAN_OPTIONS=detect_leaks=0", /* it would trace the process, which no cage allows */
#endif
        NULL,
    };
    const struct cage_path paths[] = {
        {.path = storage->file, .write = true, .own = true},
        {.path = storage->wal, .write = true, .own = true},
    };
    char **command = make_command(storage, program);
    kg_auto(kg_free) char *folder = kg_strdup(program);
    *strrchr(folder, '/') = '\0';
    kg_auto(kg_free) char *name = kg_format("%s (storage)", storage->name);
    const struct cage_policy policy = {
        .name = name,
        .install_dir = folder,
        .command = (const char *const *)command,
        .env = env,
        .paths = paths,
        .path_count = KG_COUNT(paths),
        .processes_max = PROCESSES,
        .tmp_bytes = TMP_BYTES,
#ifndef __SANITIZE_ADDRESS__
        .memory_bytes = MEMORY_BYTES,
#endif
        .cpu_shares = CPU_SHARES,
    };
    struct cage_plan *plan = cage_plan_new(&policy, storage->place->facts, err);
    kg_list_free(command);
    return plan;
}

static int spawn(struct storage *storage, struct kg_err *err)
{
    kg_auto(kg_free) char *program = cage_helper_path("kaged-storage");
    if (program == NULL) {
        kg_fail(err, KG_E_INTERNAL, "kaged-storage is not installed");
        kg_hint(err, "install kaged whole: make install");
        return -ENOENT;
    }
    if (make_file(storage->file, err) < 0 || make_file(storage->wal, err) < 0)
        return -EINVAL;
    struct cage_plan *plan = make_plan(storage, program, err);
    if (plan != NULL)
        storage->child = cage_spawn(storage->place->spawner, plan, &child_ops, storage, err);
    cage_plan_free(plan);
    return storage->child != NULL ? 0 : -EINVAL;
}

static void start_process(struct storage *storage)
{
    struct kg_err err = {0};
    if (storage->state != CLOSED || storage->export != NULL || storage->first == NULL)
        return;
    storage->late = false;
    storage->answered = false;
    storage->statement_ms = storage->place->limits.statement_ms;
    if (spawn(storage, &err) < 0)
        fail_all(storage, err.code, err.message);
    else
        storage->state = STARTING;
    if (storage->first == NULL && storage->ending)
        storage->ops.on_closed(storage->data);
}

static void on_start(struct loop_task *task)
{
    start_process(KG_CONTAINER(task, struct storage, start));
}

/* -- export ------------------------------------------------------------------------------------ */

static void run_export(struct loop_job *job)
{
    struct export *export = KG_CONTAINER(job, struct export, job);
    export->result = kg_copy_file(export->from, export->to, 0600);
}

static void on_exported(struct loop_job *job)
{
    struct export *export = KG_CONTAINER(job, struct export, job);
    struct storage *storage = export->storage;
    storage->export = NULL;
    if (export->result == 0) {
        export->on_done(export->data, STORAGE_RESULT, KG_STR("null"));
    } else {
        kg_auto(kg_free) char *message =
            kg_format("copy %s to %s: %s", export->from, export->to, strerror(-export->result));
        answer_error(export->on_done, export->data, KG_E_IO, message);
    }
    free(export->from);
    free(export->to);
    free(export);
    go_on(storage);
}

static void begin_export(struct storage *storage)
{
    loop_worker_submit(storage->export->worker, &storage->export->job);
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
        .job = {.run = run_export, .done = on_exported},
        .storage = storage,
        .from = kg_strdup(storage->file),
        .to = kg_strdup(path),
        .worker = worker,
        .on_done = on_done,
        .data = data,
    };
    storage->export = export;
    if (storage->state == CLOSED)
        begin_export(storage);
    else if (storage->state == OPEN && storage->first == NULL)
        close_process(storage);
    return 0;
}

/* -- the interface ----------------------------------------------------------------------------- */

struct storage *storage_new(const struct storage_place *place, const char *name,
                            const struct storage_ops *ops, void *data)
{
    struct storage *storage = kg_alloc(sizeof(*storage));
    storage->place = place;
    storage->ops = *ops;
    storage->data = data;
    storage->name = kg_strdup(name);
    storage->file = kg_format("%s/%s.db", place->dir, name);
    storage->wal = kg_format("%s-wal", storage->file);
    storage->marker = kg_format("%s.damaged", storage->file);
    storage->err_fd = -1;
    storage->last = &storage->first;
    storage->start.run = on_start;
    storage->damaged = access(storage->marker, F_OK) == 0;
    return storage;
}

void storage_free(struct storage *storage)
{
    if (storage == NULL)
        return;
    if (storage->child == NULL) {
        storage_delete(storage);
        return;
    }
    for (struct ask *ask = storage->first; ask != NULL; ask = ask->next)
        ask->on_done = NULL;
    storage->gone = true;
    cage_signal(storage->child, SIGKILL);
}

int storage_ask(struct storage *storage, const struct storage_request *request, struct kg_err *err)
{
    if (storage->place->facts == NULL || storage->ending)
        return kg_fail(err, KG_E_STOPPING, "plugin %s: there is no storage now", storage->name);
    if (check_damaged(storage, err) < 0)
        return -EINVAL;
    if (storage->waiting >= storage->place->limits.requests_max)
        return kg_fail(err, KG_E_BUSY, "plugin %s: %u storage requests wait already", storage->name,
                       storage->waiting);
    struct ask *ask = kg_alloc(sizeof(*ask));
    *ask = (struct ask){.storage = storage,
                        .method = request->method,
                        .on_done = request->on_done,
                        .data = request->data};
    bool now = storage->state == OPEN && storage->export == NULL;
    int result = now ? send_ask(ask, request->params, err) : 0;
    if (result < 0) {
        free(ask);
        return result;
    }
    if (!now)
        kg_buf_str(&ask->params, request->params);
    bool is_first = storage->first == NULL;
    *storage->last = ask;
    storage->last = &ask->next;
    storage->waiting++;
    storage->requests++;
    if (now && is_first)
        set_timers(storage);
    else if (storage->state == CLOSED)
        loop_defer(storage->place->loop, &storage->start);
    return 0;
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

void storage_close(struct storage *storage)
{
    storage->ending = true;
    if (storage->state == OPEN && storage->first == NULL)
        close_process(storage);
    else if (storage->state == CLOSED && storage->first == NULL && storage->export == NULL)
        storage->ops.on_closed(storage->data);
}

bool storage_is_closed(const struct storage *storage)
{
    return storage->state == CLOSED && storage->first == NULL && storage->export == NULL;
}

struct storage_facts storage_facts(const struct storage *storage)
{
    struct stat status;
    struct storage_facts facts = {
        .file = storage->file,
        .running = storage->child != NULL,
        .damaged = storage->damaged,
        .waiting = storage->waiting,
        .requests = storage->requests,
    };
    if (stat(storage->file, &status) == 0)
        facts.bytes = (uint64_t)status.st_size;
    return facts;
}
