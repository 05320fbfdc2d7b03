/*
 * An audit log of many calls, as the daemon writes it, and what it costs to ask it.
 *
 * usage: audit-bench FOLDER
 * commands: log LINES   a new log of so many lines: the rate of writing them; then ms of queries
 *                       for the last 100 lines, for a plugin that is rare, for a rare event, for
 *                       the last 100 after an id, for a plugin that is not in it, and of
 *                       verifying all
 */
#include "audit/audit.h"
#include "contender.h"

#define RARE_EVERY 1000 /* lines */
#define WAIT_MS    60000

struct bench {
    char *folder, *dir, *key, *state_db; /* of the log at hand */
    unsigned logs;
    struct loop *loop;
    struct audit_options options;
    struct audit *audit;
};

static void name_files(struct bench *bench)
{
    kg_free(&bench->dir);
    kg_free(&bench->key);
    kg_free(&bench->state_db);
    unsigned number = bench->logs++;
    bench->dir = kg_format("%s/audit-%u", bench->folder, number);
    bench->key = kg_format("%s/audit-%u.key", bench->folder, number);
    bench->state_db = kg_format("%s/audit-%u.db", bench->folder, number);
    bench->options = (struct audit_options){.dir = bench->dir,
                                            .state_db = bench->state_db,
                                            .key_file = bench->key,
                                            .rotate_bytes = 64 << 20,
                                            .seal_interval_ms = 1000,
                                            .queue_bytes = 8 << 20};
}

static bool is_over(void *data)
{
    return !((struct audit_waiter *)data)->waiting;
}

static void on_ready(struct audit_waiter *waiter)
{
    (void)waiter; /* that it waits no more is enough */
}

static void wait_ready(struct bench *bench)
{
    struct audit_waiter waiter = {.on_ready = on_ready};
    if (audit_ready(bench->audit, NULL))
        return;
    audit_wait_ready(bench->audit, &waiter);
    if (!loop_run_until(bench->loop, is_over, &waiter, WAIT_MS))
        contender_die("audit", "the writer does not catch up");
}

static void emit_line(struct bench *bench, long number)
{
    struct kg_id request = kg_id_new("req_");
    if (number % RARE_EVERY == 0)
        audit_emit(bench->audit, AUDIT_PLUGIN_ENABLED, KG_STR_NULL, AUDIT_V_TEXT("rare"),
                   AUDIT_V_TEXT("bench"));
    else
        audit_emit(bench->audit, AUDIT_PLUGIN_METHOD_CALLED, kg_str(request.text),
                   AUDIT_V_TEXT("fast"), AUDIT_V_TEXT("fast.echo"), AUDIT_V_TEXT("bench"),
                   AUDIT_V_NULL);
    wait_ready(bench);
}

static void write_log(struct bench *bench, long lines)
{
    struct kg_err err;
    uint64_t start_ns = kg_monotonic_ns();
    bench->audit = audit_open(bench->loop, &bench->options, &err);
    if (bench->audit == NULL)
        contender_die("audit", err.message);
    for (long i = 0; i < lines; i++)
        emit_line(bench, i);
    audit_close(bench->audit);
    contender_figure("rate", (double)lines * 1e9 / (double)(kg_monotonic_ns() - start_ns));
}

/* found: how many lines must come. */
static void query(struct bench *bench, const char *name, const struct audit_filter *filter,
                  size_t found)
{
    struct kg_err err;
    kg_auto(kg_buf_free) struct kg_buf lines = {0};
    uint64_t start_ns = kg_monotonic_ns();
    if (audit_query(bench->dir, filter, &lines, &err) < 0)
        contender_die(name, err.message);
    contender_figure(name, (double)(kg_monotonic_ns() - start_ns) / 1e6);
    size_t count = 0;
    for (size_t i = 0; i < lines.length; i++)
        count += lines.data[i] == '\n';
    if (count != found)
        contender_die(name, "a wrong number of lines");
}

/* The last page of somebody who asks for all of it, a page after the other. */
static void query_page(struct bench *bench, size_t lines)
{
    struct kg_err err;
    kg_auto(kg_buf_free) struct kg_buf last = {0};
    struct audit_filter filter = {.limit = lines < 101 ? lines : 101};
    if (audit_query(bench->dir, &filter, &last, &err) < 0)
        contender_die("page", err.message);
    static const size_t id_at = 39, id_length = 30;
    filter.after_id = (struct kg_str){last.data + id_at, id_length};
    query(bench, "page_ms", &filter, filter.limit - 1);
}

static void verify(struct bench *bench, uint64_t least)
{
    struct kg_err err;
    struct audit_report report;
    uint64_t start_ns = kg_monotonic_ns();
    if (audit_verify(&bench->options, &report, &err) < 0)
        contender_die("verify", err.message);
    if (report.problem[0] != '\0' || report.events < least)
        contender_die("verify", report.problem);
    contender_figure("verify_ms", (double)(kg_monotonic_ns() - start_ns) / 1e6);
}

static void run_log(void *data, const long numbers[])
{
    struct bench *bench = data;
    size_t lines = (size_t)numbers[0], rare = (lines + RARE_EVERY - 1) / RARE_EVERY;
    size_t asked = rare < 100 ? rare : 100;
    name_files(bench);
    write_log(bench, numbers[0]);
    query(bench, "last_ms", &(struct audit_filter){.limit = 100}, lines < 100 ? lines : 100);
    query(bench, "plugin_ms", &(struct audit_filter){.plugin = KG_STR("rare"), .limit = 100},
          asked);
    query(bench, "event_ms",
          &(struct audit_filter){.event = KG_STR("plugin.enabled"), .limit = 100}, asked);
    query_page(bench, lines);
    query(bench, "none_ms", &(struct audit_filter){.plugin = KG_STR("none"), .limit = 100}, 0);
    verify(bench, lines);
}

int main(int argc, char **argv)
{
    static const struct contender_command commands[] = {{"log", run_log}, {NULL, NULL}};
    if (argc != 2)
        contender_die("usage", "audit-bench FOLDER");
    struct bench bench = {.folder = argv[1], .loop = loop_new()};
    contender_serve(commands, NULL, &bench);
    loop_free(bench.loop);
    kg_free(&bench.dir);
    kg_free(&bench.key);
    kg_free(&bench.state_db);
    return 0;
}
