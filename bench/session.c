/*
 * How sessions grow. Appends go through the store, 64 under way at once. What an append costs the
 * loop and in all is processor time, as are the steps, so that a busy machine does not blur the
 * growth.
 *
 * usage: session-bench FOLDER [URL]   with a URL, sessions are in that database of PostgreSQL
 * commands: entries COUNT    one session of so many entries: appends, a page, the context, the
 * steps of a compaction, a fork sessions COUNT   so many sessions: making one, a page of the
 * newest, one by its id appends COUNT IN_FLIGHT   the rate and latencies of appends alone
 */
#include "session/session.h"
#include "contender.h"
#include "state/cluster.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FLIGHT        64  /* appends under way at once */
#define CONTENT_BYTES 400 /* of one entry */
#define REPEATED      20  /* of a step that is short */
#define WAIT_MS       600000

struct bench {
    char dir[128], path[160];
    struct loop *loop;
    struct session_store *store;
    struct state *state; /* for what is measured without the store */
    char session[KG_ID_MAX];
    size_t entries, flight, started, done;
    struct state_cluster *cluster; /* NULL: kaged.db has it all */
    struct kg_err err;
};

/* What the program was started with. */
struct place {
    const char *folder, *url_or_null;
};

static void must(struct bench *bench, const char *what, int result)
{
    if (result < 0)
        contender_die(what, bench->err.message);
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
    uint64_t start_ns;
    char text[CONTENT_BYTES + 16];
    struct session_draft draft;
    struct session_added added;
    struct session_append order;
};

static int run_append(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct append *append = KG_CONTAINER(job, struct append, job);
    return append->order.done ? 0
                              : session_append(state, append->bench->session, &append->draft, 1,
                                               &append->added, err);
}

static void send_append(struct append *append)
{
    append->draft = (struct session_draft){
        .agent = "primary",
        .kind = SESSION_MESSAGE,
        .role = append->number % 4 ? SESSION_ASSISTANT : SESSION_USER,
        .content = kg_str(append->text),
    };
    append->order = (struct session_append){.id = append->bench->session,
                                            .drafts = &append->draft,
                                            .count = 1,
                                            .added = &append->added};
    append->job.append = &append->order;
    append->start_ns = kg_monotonic_ns();
    session_store_write(append->bench->store, &append->job);
}

static void write_text(char text[CONTENT_BYTES + 16])
{
    text[0] = '"';
    memset(text + 1, 'x', CONTENT_BYTES);
    for (size_t i = 5; i < CONTENT_BYTES; i += 6)
        text[i] = ' ';
    strcpy(text + CONTENT_BYTES, "\"");
}

static void on_appended(struct session_job *job, const struct kg_err *err_or_null)
{
    struct append *append = KG_CONTAINER(job, struct append, job);
    struct bench *bench = append->bench;
    if (err_or_null != NULL)
        contender_die("append", err_or_null->message);
    contender_sample((double)(kg_monotonic_ns() - append->start_ns) / 1e3);
    bench->done++;
    if (bench->started == bench->entries)
        return;
    append->number = bench->started++;
    send_append(append);
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
    size_t flight = bench->flight > 0 ? bench->flight : FLIGHT;
    uint64_t start_ns = kg_monotonic_ns(), all_ns = process_ns();
    uint64_t loop_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < flight && i < FLIGHT && bench->started < bench->entries; i++) {
        appends[i] = (struct append){
            .job = {.run = run_append, .done = on_appended}, .bench = bench, .number = i};
        write_text(appends[i].text);
        bench->started++;
        send_append(&appends[i]);
    }
    if (!loop_run_until(bench->loop, is_done, bench, WAIT_MS))
        contender_die("append", "not done in time");
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

/* -- a store with its folder ------------------------------------------------------------------- */

/* Another session, which is the bench's from now on. */
static void create(struct bench *bench)
{
    const struct session_new new = {.project_id = "bench", .workdir = "/", .operator_id = "bench"};
    struct session session = {0};
    must(bench, "create", session_create(bench->state, &new, &session, &bench->err));
    memcpy(bench->session, session.id.text, sizeof(bench->session));
    session_clear(&session);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(path);
}

static void see_nothing(void *data, const struct state_carried *carried)
{
    (void)data, (void)carried;
}

/* Each time a database without anything in it: the URL has its name. */
static void join(struct bench *bench, const char *url)
{
    const struct state_cluster_options options = {.database = url,
                                                  .node = "bench",
                                                  .program = "bench",
                                                  .place = bench->path,
                                                  .wait_ms = WAIT_MS};
    kg_log_set(KG_ERROR_LEVEL, KG_LOG_TEXT);
    if (state_cluster_init(&options, STATE_CLUSTER_EXISTING, see_nothing, NULL, &bench->err) < 0)
        must(bench, "init",
             state_cluster_init(&options, STATE_CLUSTER_EMPTY, see_nothing, NULL, &bench->err));
    bench->cluster = state_cluster_join(&options, &bench->err);
    must(bench, "join", bench->cluster != NULL ? 0 : -1);
}

static void open_all(struct bench *bench, const struct place *place)
{
    snprintf(bench->dir, sizeof(bench->dir), "%s/kaged-bench-XXXXXX", place->folder);
    if (mkdtemp(bench->dir) == NULL)
        contender_die(place->folder, "no folder can be made in it");
    snprintf(bench->path, sizeof(bench->path), "%s/kaged.db", bench->dir);
    if (place->url_or_null != NULL)
        join(bench, place->url_or_null);
    bench->loop = loop_new();
    bench->store = session_store_new(bench->loop, bench->path, &bench->err);
    bench->state = bench->store ? state_open(bench->path, &bench->err) : NULL;
    if (bench->state == NULL)
        contender_die("open", bench->err.message);
    create(bench);
}

static void close_all(struct bench *bench)
{
    session_store_free(bench->store);
    loop_free(bench->loop);
    state_close(bench->state);
    state_cluster_leave(bench->cluster);
    nftw(bench->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* -- the commands ------------------------------------------------------------------------------ */

static void run_entries(void *place, const long numbers[])
{
    struct bench bench = {.entries = (size_t)numbers[0]};
    open_all(&bench, place);
    struct appended appended = append_all(&bench);
    contender_figure("appends", appended.rate);
    contender_figure("loop_us", appended.loop_us);
    contender_figure("all_us", appended.all_us);
    contender_figure("page_ms", read_page(&bench));
    contender_figure("context_ms", build_context(&bench));
    struct compacted times = compact(&bench);
    contender_figure("plan_ms", times.plan_ms);
    contender_figure("payload_ms", times.payload_ms);
    contender_figure("result_ms", times.result_ms);
    contender_figure("apply_ms", times.apply_ms);
    contender_figure("context_after_ms", times.context_ms);
    contender_figure("undo_ms", times.undo_ms);
    contender_figure("fork_ms", times.fork_ms);
    close_all(&bench);
}

/* us of one more session, among all that are there. */
static double create_one(struct bench *bench)
{
    uint64_t start_ns = process_ns();
    for (int i = 0; i < REPEATED; i++)
        create(bench);
    return ms_since(start_ns) * 1e3 / REPEATED;
}

static double list_newest(struct bench *bench)
{
    const struct session_list_query query = {.project_id = "bench", .limit = 50};
    uint64_t start_ns = process_ns();
    for (int i = 0; i < REPEATED; i++) {
        kg_auto(session_list_clear) struct session_list list = {0};
        must(bench, "list", session_list(bench->state, &query, &list, &bench->err));
    }
    return ms_since(start_ns) * 1e3 / REPEATED;
}

static double find_one(struct bench *bench)
{
    uint64_t start_ns = process_ns();
    for (int i = 0; i < REPEATED; i++) {
        kg_auto(session_clear) struct session session = {0};
        must(bench, "find",
             session_find(bench->state, kg_str(bench->session), &session, &bench->err));
    }
    return ms_since(start_ns) * 1e3 / REPEATED;
}

static void run_sessions(void *place, const long numbers[])
{
    struct bench bench = {0};
    open_all(&bench, place);
    must(&bench, "begin", state_step(bench.state, STATE_BEGIN_WRITE, &bench.err));
    for (long i = 1; i < numbers[0]; i++)
        create(&bench);
    must(&bench, "commit", state_step(bench.state, STATE_COMMIT, &bench.err));
    contender_figure("find_us", find_one(&bench));
    contender_figure("list_us", list_newest(&bench));
    contender_figure("create_us", create_one(&bench));
    close_all(&bench);
}

static void run_appends(void *place, const long numbers[])
{
    struct bench bench = {.entries = (size_t)numbers[0], .flight = (size_t)numbers[1]};
    open_all(&bench, place);
    contender_figure("rate", append_all(&bench).rate);
    close_all(&bench);
}

int main(int argc, char **argv)
{
    static const struct contender_command commands[] = {{"entries", run_entries},
                                                        {"sessions", run_sessions},
                                                        {"appends", run_appends},
                                                        {NULL, NULL}};
    if (argc < 2 || argc > 3)
        contender_die("usage", "session-bench FOLDER [URL]");
    contender_serve(commands, NULL, &(struct place){argv[1], argv[2]});
    return 0;
}
