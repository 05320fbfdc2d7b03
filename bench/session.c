/*
 * How sessions grow: the same steps on sessions of 10 to 100,000 entries, each a row of the table.
 * Appends go through the store, 64 under way at once; what one costs the loop and what it costs in
 * all is shown in processor time, as are the steps, so that a busy machine does not blur the
 * growth.
 *
 * usage: session-bench [FOLDER]   (a disk to measure; else /tmp)
 */
#include "session/session.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FLIGHT        64  /* appends under way at once */
#define CONTENT_BYTES 400 /* of one entry */
#define WAIT_MS       600000

struct bench {
    char dir[128], path[160];
    struct loop *loop;
    struct session_store *store;
    struct state *state; /* for what is measured without the store */
    char session[KG_ID_MAX];
    size_t entries, started, done;
    struct kg_err err;
};

__attribute__((noreturn)) static void die(const char *what, const char *why)
{
    fprintf(stderr, "session-bench: %s: %s\n", what, why);
    exit(1);
}

static void must(struct bench *bench, const char *what, int result)
{
    if (result < 0)
        die(what, bench->err.message);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t process_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static double ms_since(uint64_t start_ns)
{
    return (double)(process_ns() - start_ns) / 1e6;
}

/* -- appending --------------------------------------------------------------------------------- */

struct append {
    struct session_job job;
    struct bench *bench;
    size_t number;
};

static int run_append(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct append *append = KG_CONTAINER(job, struct append, job);
    struct session_added added;
    char text[CONTENT_BYTES + 16] = "\"";
    memset(text + 1, 'x', CONTENT_BYTES);
    for (size_t i = 5; i < CONTENT_BYTES; i += 6)
        text[i] = ' ';
    strcpy(text + CONTENT_BYTES, "\"");
    const struct session_draft draft = {
        .agent = "primary",
        .kind = SESSION_MESSAGE,
        .role = append->number % 4 ? SESSION_ASSISTANT : SESSION_USER,
        .content = kg_str(text),
    };
    return session_append(state, append->bench->session, &draft, 1, &added, err);
}

static void on_appended(struct session_job *job, const struct kg_err *err_or_null)
{
    struct append *append = KG_CONTAINER(job, struct append, job);
    struct bench *bench = append->bench;
    if (err_or_null != NULL)
        die("append", err_or_null->message);
    bench->done++;
    if (bench->started == bench->entries)
        return;
    append->number = bench->started++;
    session_store_write(bench->store, job);
}

static bool is_done(void *data)
{
    const struct bench *bench = data;
    return bench->done == bench->entries;
}

struct appended {
    double rate, loop_us, all_us;
};

static struct appended append_all(struct bench *bench)
{
    struct append appends[FLIGHT];
    uint64_t start_ns = kg_monotonic_ns(), all_ns = process_ns();
    uint64_t loop_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < FLIGHT && bench->started < bench->entries; i++) {
        appends[i] = (struct append){
            .job = {.run = run_append, .done = on_appended}, .bench = bench, .number = i};
        bench->started++;
        session_store_write(bench->store, &appends[i].job);
    }
    if (!loop_run_until(bench->loop, is_done, bench, WAIT_MS))
        die("append", "not done in time");
    double count = (double)bench->entries;
    return (struct appended){
        .rate = count / ((double)(kg_monotonic_ns() - start_ns) / 1e9),
        .loop_us = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - loop_ns) / 1e3 / count,
        .all_us = (double)(process_ns() - all_ns) / 1e3 / count,
    };
}

/* -- reading ----------------------------------------------------------------------------------- */

static double read_page(struct bench *bench)
{
    const struct session_page_query query = {.after = bench->entries / 2};
    struct session_entries page = {0};
    uint64_t start_ns = process_ns();
    must(bench, "page", session_page(bench->state, bench->session, &query, &page, &bench->err));
    double ms = ms_since(start_ns);
    session_entries_clear(&page);
    return ms;
}

static double build_context(struct bench *bench)
{
    struct session_entries entries = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    uint64_t start_ns = process_ns();
    must(bench, "context",
         session_context_read(bench->state, bench->session, "primary", &entries, &bench->err));
    session_context_write("primary", &entries, &text, NULL);
    double ms = ms_since(start_ns);
    session_entries_clear(&entries);
    return ms;
}

/* -- compacting -------------------------------------------------------------------------------- */

struct compacted {
    double plan_ms, payload_ms, result_ms, apply_ms, context_ms, undo_ms, fork_ms;
};

static struct session_compaction *make_plan(struct bench *bench, enum session_strategy strategy)
{
    const struct session_compaction_options options = {
        .strategy = strategy, .trigger = "manual", .keep_recent = 1};
    struct session_compaction *compaction = NULL;
    must(bench, "plan",
         session_compaction_read(bench->state, bench->session, "primary", &options, &compaction,
                                 &bench->err));
    return compaction;
}

/* A compactor that keeps all but one message, and repeats every word; as large as the wire takes.
 */
static double take_result(struct bench *bench)
{
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        make_plan(bench, SESSION_BY_DELEGATE);
    kg_auto(kg_buf_free) struct kg_buf payload = {0}, result = {0};
    size_t truncated;
    session_compaction_payload(compaction, "compactor", SESSION_PAYLOAD_MAX, &payload, &truncated);
    if (truncated > 0)
        return 0;
    struct kg_json_writer writer = kg_json_writer(&result);
    kg_buf_text(&result, "{\"role\":\"compactor\",\"superseded\":[],\"messages\":[");
    bool stays, goes, left_out = false;
    for (size_t i = 0; i < session_compaction_count(compaction); i++) {
        const struct session_entry *entry = session_compaction_entry(compaction, i, &stays, &goes);
        if (!stays && !left_out)
            left_out = true;
        else
            session_message_write(entry, &writer);
    }
    kg_buf_text(&result, "]}");
    enum session_fault fault;
    uint64_t start_ns = process_ns();
    must(bench, "result",
         session_compaction_take_result(compaction, "bench", kg_buf_view(&result), &fault,
                                        &bench->err));
    return ms_since(start_ns);
}

static double apply(struct bench *bench, struct session_compaction *compaction)
{
    struct session_added mark;
    uint64_t start_ns = process_ns();
    must(bench, "begin", state_step(bench->state, STATE_BEGIN_WRITE, &bench->err));
    must(bench, "apply", session_compaction_apply(bench->state, compaction, &mark, &bench->err));
    must(bench, "commit", state_step(bench->state, STATE_COMMIT, &bench->err));
    return ms_since(start_ns);
}

static double take_back(struct bench *bench)
{
    struct kg_id mark;
    uint64_t start_ns = process_ns();
    must(bench, "begin", state_step(bench->state, STATE_BEGIN_WRITE, &bench->err));
    must(bench, "undo",
         session_compaction_undo(bench->state, bench->session, "primary", &mark, &bench->err));
    must(bench, "commit", state_step(bench->state, STATE_COMMIT, &bench->err));
    return ms_since(start_ns);
}

static double fork_at_end(struct bench *bench)
{
    const struct session_page_query query = {.after = bench->entries - 1, .limit = 1};
    struct session_entries last = {0};
    struct session fork = {0};
    must(bench, "page", session_page(bench->state, bench->session, &query, &last, &bench->err));
    uint64_t start_ns = process_ns();
    must(bench, "begin", state_step(bench->state, STATE_BEGIN_WRITE, &bench->err));
    must(bench, "fork",
         session_fork(bench->state, bench->session, kg_str(last.items[0].id.text), "bench", &fork,
                      &bench->err));
    must(bench, "commit", state_step(bench->state, STATE_COMMIT, &bench->err));
    double ms = ms_since(start_ns);
    session_entries_clear(&last);
    session_clear(&fork);
    return ms;
}

static struct compacted compact(struct bench *bench)
{
    struct compacted times = {0};
    kg_auto(kg_buf_free) struct kg_buf payload = {0};
    times.result_ms = take_result(bench);
    uint64_t start_ns = process_ns();
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        make_plan(bench, SESSION_BY_DROP);
    times.plan_ms = ms_since(start_ns);
    start_ns = process_ns();
    session_compaction_payload(compaction, "observer", SESSION_PAYLOAD_MAX, &payload, NULL);
    times.payload_ms = ms_since(start_ns);
    times.fork_ms = fork_at_end(bench);
    times.apply_ms = apply(bench, compaction);
    times.context_ms = build_context(bench);
    times.undo_ms = take_back(bench);
    return times;
}

/* -- one row ----------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(path);
}

static void open_all(struct bench *bench, const char *folder)
{
    struct session session = {0};
    snprintf(bench->dir, sizeof(bench->dir), "%s/kaged-bench-XXXXXX", folder);
    if (mkdtemp(bench->dir) == NULL)
        die(folder, "no folder can be made in it");
    snprintf(bench->path, sizeof(bench->path), "%s/kaged.db", bench->dir);
    bench->loop = loop_new();
    bench->store = session_store_new(bench->loop, bench->path, &bench->err);
    bench->state = bench->store ? state_open(bench->path, &bench->err) : NULL;
    if (bench->state == NULL)
        die("open", bench->err.message);
    const struct session_new new = {.project_id = "bench", .workdir = "/", .operator_id = "bench"};
    must(bench, "create", session_create(bench->state, &new, &session, &bench->err));
    memcpy(bench->session, session.id.text, sizeof(bench->session));
    session_clear(&session);
}

static void close_all(struct bench *bench)
{
    session_store_free(bench->store);
    loop_free(bench->loop);
    state_close(bench->state);
    nftw(bench->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void measure(const char *folder, size_t entries)
{
    struct bench bench = {.entries = entries};
    open_all(&bench, folder);
    struct appended appended = append_all(&bench);
    double page_ms = read_page(&bench), context_ms = build_context(&bench);
    struct compacted times = compact(&bench);
    printf("%8zu %10.0f %8.1f %8.1f %8.2f %9.2f %8.2f %8.2f %8.2f %8.2f %9.2f %8.2f %8.2f\n",
           entries, appended.rate, appended.loop_us, appended.all_us, page_ms, context_ms,
           times.plan_ms, times.payload_ms, times.result_ms, times.apply_ms, times.context_ms,
           times.undo_ms, times.fork_ms);
    fflush(stdout);
    close_all(&bench);
}

int main(int argc, char **argv)
{
    printf("sessions, entries of %d bytes; appends: a second, and us of processor time of the loop "
           "and in all; steps: ms of it\n"
           "%8s %10s %8s %8s %8s %9s %8s %8s %8s %8s %9s %8s %8s\n",
           CONTENT_BYTES, "entries", "appends/s", "loop", "all", "page", "context", "plan",
           "payload", "result", "apply", "context'", "undo", "fork");
    for (size_t entries = 10; entries <= 100000; entries *= 10)
        measure(argc > 1 ? argv[1] : "/tmp", entries);
    return 0;
}
