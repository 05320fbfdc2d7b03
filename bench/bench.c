/*
 * Measures the host through the code that users run: host_call with audit, context and cage on.
 * Each row runs interleaved with its peer, in rounds, and is printed as a ratio of medians; every
 * answer is checked. The call rows keep the loop and the plugin on one core.
 */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS       7
#define START_ROUNDS 41
#define CALLS        10000
#define IN_FLIGHT    64
#define ANSWER       "{\"ok\":true}"
#define SETTLE_MS    20 /* after a stop: what it left to do is no part of the next start */

/* -- statistics -------------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value below which that share of the (sorted) values lies. */
double quantile(double *values, size_t count, double share)
{
    qsort(values, count, sizeof(*values), compare_doubles);
    return values[(size_t)((double)(count - 1) * share)];
}

void print_row(const char *name, double value, const char *unit, const char *peer,
               double peer_value)
{
    printf("%-38s %12.1f %-8s %-26s %12.1f %8.2f\n", name, value, unit, peer, peer_value,
           value / peer_value);
}

/* -- a home with two plugins ------------------------------------------------------------------- */

void die(const char *what, const char *why)
{
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

static void copy_file(const char *from, const char *to, mode_t mode)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err;
    if (kg_read_file(from, 64 << 20, &text, &err) < 0)
        die("copy", err.message);
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0 || kg_write_all(fd, text.data, text.length) < 0)
        die(to, strerror(errno));
    close(fd);
}

/* With another name on its first line. */
static void copy_manifest(const char *from, const char *to, const char *name)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, renamed = {0};
    struct kg_err err;
    if (kg_read_file(from, 1 << 20, &text, &err) < 0)
        die("copy", err.message);
    kg_buf_printf(&renamed, "name: %s%s", name, strchr(kg_buf_terminate(&text), '\n'));
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || kg_write_all(fd, renamed.data, renamed.length) < 0)
        die(to, strerror(errno));
    close(fd);
}

static void install(const struct world *world, const char *name, const char *as)
{
    kg_auto(kg_free) char *dir = kg_format("%s/plugins/%s", world->home, as);
    kg_auto(kg_free) char *manifest =
        kg_format("%s/%s/kaged-plugin.yaml", world->plugin_source, name);
    kg_auto(kg_free) char *manifest_to = kg_format("%s/kaged-plugin.yaml", dir);
    kg_auto(kg_free) char *program = kg_format("%s/%s", world->plugin_build, name);
    kg_auto(kg_free) char *program_to = kg_format("%s/%s", dir, name);
    struct kg_err err;
    if (kg_make_dirs(dir, 0755, &err) < 0)
        die("install", err.message);
    copy_manifest(manifest, manifest_to, as);
    copy_file(program, program_to, 0755);
}

/* The operator's yes to what was copied in. */
static void approve(struct world *world, const char *name)
{
    struct kg_err err;
    struct store_offer *offer = NULL;
    struct store_consent consent = {.local = true};
    if (store_offer_installed(host_store(world->host), name, &offer, &err) < 0)
        die("approve", err.message);
    consent.hash = offer->hash;
    if (store_take(host_store(world->host), offer, &consent, NULL, &err) < 0)
        die("approve", err.message);
}

static void open_world(struct world *world)
{
    struct kg_err err = {0};
    strcpy(world->home, "/dev/shm/kaged-bench-XXXXXX"); /* the audit log on tmpfs */
    if (mkdtemp(world->home) == NULL)
        die("make a home", strerror(errno));
    install(world, "fast", "fast");
    install(world, "flood", "flood");
    for (size_t i = 0; i < BENCH_STORING; i++)
        install(world, "storing", bench_storing[i]);
    if (config_paths_find(world->home, &world->paths, &err) < 0 ||
        config_paths_make(&world->paths, geteuid(), &err) < 0 ||
        (world->facts = cage_facts_probe(&err)) == NULL ||
        (world->spawner = cage_spawner_start(&err)) == NULL)
        die("prepare", err.message);
    world->loop = loop_new();
    struct host_parts parts = {
        .loop = world->loop,
        .spawner = world->spawner,
        .facts = world->facts,
        .paths = &world->paths,
        .config = config_load(world->paths.config_file, &err),
    };
    if (cage_spawner_attach(world->spawner, world->loop, NULL, NULL, &err) < 0 ||
        (world->host = host_new(&parts, &err)) == NULL)
        die("start the host", err.message);
    kg_log_set(KG_ERROR_LEVEL, KG_LOG_TEXT);
    approve(world, "fast");
    approve(world, "flood");
    for (size_t i = 0; i < BENCH_STORING; i++)
        approve(world, bench_storing[i]);
    host_start(world->host);
}

static bool is_stopped(void *data)
{
    return ((struct world *)data)->stopped;
}

static void on_stopped(void *data)
{
    ((struct world *)data)->stopped = true;
}

static void close_world(struct world *world)
{
    host_stop(world->host, "the bench is done", on_stopped, world);
    loop_run_until(world->loop, is_stopped, world, DEADLINE_MS);
    host_free(world->host);
    cage_spawner_free(world->spawner);
    cage_facts_free(world->facts);
    loop_free(world->loop);
    config_paths_free(&world->paths);
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", world->home);
    if (system(command) != 0)
        fprintf(stderr, "bench: %s was left behind\n", world->home);
}

static bool is_running(void *data)
{
    struct host_plugin *plugin = data;
    return instance_state(plugin->instance) == INSTANCE_RUNNING;
}

static bool is_disabled(void *data)
{
    struct host_plugin *plugin = data;
    return instance_state(plugin->instance) == INSTANCE_DISABLED;
}

static void on_enabled(void *data, const struct kg_err *err_or_null)
{
    (void)data;
    if (err_or_null != NULL)
        die("enable", err_or_null->message);
}

struct host_plugin *start_plugin(struct world *world, const char *name)
{
    struct kg_err err;
    struct host_plugin *plugin = host_plugin_find(world->host, kg_str(name), &err);
    if (plugin == NULL)
        die("enable", err.message);
    host_enable(world->host, kg_str(name), "bench", on_enabled, NULL);
    if (!loop_run_until(world->loop, is_running, plugin, DEADLINE_MS))
        die(name, "does not run");
    return plugin;
}

static void stop_plugin(struct world *world, struct host_plugin *plugin)
{
    struct kg_err err;
    if (host_disable(world->host, kg_str(plugin->name), "bench", &err) < 0 ||
        !loop_run_until(world->loop, is_disabled, plugin, DEADLINE_MS))
        die(plugin->name, "does not stop");
}

/* -- calls through the host -------------------------------------------------------------------- */

struct load {
    struct host *host;
    size_t to_send, to_come;
    double *latencies_us; /* one for each call, in the order of answers */
    size_t answered;
};

struct flight {
    struct load *load;
    uint64_t sent_ns;
};

static void send_next(struct flight *flight);

static void on_answer(void *data, const struct host_reply *reply)
{
    struct flight *flight = data;
    struct load *load = flight->load;
    if (reply->error.code != KG_OK)
        die("call", reply->error.message);
    if (!kg_str_is(reply->result, ANSWER))
        die("call", "a wrong answer");
    load->latencies_us[load->answered++] = (double)(kg_monotonic_ns() - flight->sent_ns) / 1000.0;
    load->to_come--;
    if (load->to_send > 0)
        send_next(flight);
}

static void send_next(struct flight *flight)
{
    struct kg_err err;
    struct kg_id request_id = kg_id_new("req_");
    struct host_call_request request = {
        .plugin = KG_STR("fast"),
        .method = KG_STR("fast.echo"),
        .params = KG_STR("{\"text\":\"hello\",\"count\":42}"),
        .context = {.operator_id = "bench", .request_id = request_id.text},
        .on_done = on_answer,
        .data = flight,
    };
    flight->load->to_send--;
    flight->sent_ns = kg_monotonic_ns();
    if (host_call(flight->load->host, &request, &err) == NULL)
        die("call", err.message);
}

static bool all_answered(void *data)
{
    return ((struct load *)data)->to_come == 0;
}

/* Calls a second; latencies_us gets one value a call. */
static double drive(struct world *world, size_t calls, size_t in_flight, double *latencies_us)
{
    struct load load = {
        .host = world->host, .to_send = calls, .to_come = calls, .latencies_us = latencies_us};
    struct flight flights[IN_FLIGHT];
    uint64_t start_ns = kg_monotonic_ns();
    for (size_t i = 0; i < in_flight; i++) {
        flights[i].load = &load;
        send_next(&flights[i]);
    }
    if (!loop_run_until(world->loop, all_answered, &load, DEADLINE_MS))
        die("calls", "not all were answered");
    return (double)calls / ((double)(kg_monotonic_ns() - start_ns) / 1e9);
}

/* -- the limit: the same plugin on raw pipes, without a host ----------------------------------- */

#define WRAPPER_MAX 8
static const char *const no_wrapper[] = {NULL};
static const char *const bare_bwrap[] = {
    "/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/", "/", NULL};

struct raw {
    pid_t pid;
    int in, out;
};

/* wrapper: words to put before the program, NULL-ended. */
static struct raw raw_start(const struct world *world, const char *const *wrapper)
{
    int in[2], out[2];
    kg_auto(kg_free) char *program = kg_format("%s/plugins/fast/fast", world->home);
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        die("pipe", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        const char *words[WRAPPER_MAX + 2] = {0};
        size_t count = 0;
        for (; count < WRAPPER_MAX && wrapper[count] != NULL; count++)
            words[count] = wrapper[count];
        words[count] = program;
        dup2(in[0], 0);
        dup2(out[1], 1);
        execv(words[0], (char *const *)words);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    return (struct raw){pid, in[1], out[0]};
}

static void raw_stop(struct raw *raw)
{
    close(raw->in);
    close(raw->out);
    waitpid(raw->pid, NULL, 0);
}

/* Writes `batch` requests at once, reads as many answers; calls a second. */
static double raw_drive(struct raw *raw, size_t calls, size_t batch)
{
    static const char line[] =
        "{\"jsonrpc\":\"2.0\",\"id\":12345,\"method\":\"fast.echo\",\"params\":{\"_context\":{"
        "\"operator_id\":\"bench\",\"project_id\":null,\"agent_path\":null,\"session_id\":null,"
        "\"request_id\":\"req_01ARZ3NDEKTSV4RRFFQ69G5FAV\"},\"text\":\"hello\",\"count\":42}}\n";
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    char in[65536];
    for (size_t i = 0; i < batch; i++)
        kg_buf_append(&out, line, sizeof(line) - 1);
    uint64_t start_ns = kg_monotonic_ns();
    for (size_t done = 0; done < calls; done += batch) {
        if (kg_write_all(raw->in, out.data, out.length) < 0)
            die("raw", "write");
        for (size_t seen = 0; seen < batch;) {
            ssize_t got = read(raw->out, in, sizeof(in));
            if (got <= 0)
                die("raw", "read");
            for (ssize_t i = 0; i < got; i++)
                seen += in[i] == '\n';
        }
    }
    return (double)calls / ((double)(kg_monotonic_ns() - start_ns) / 1e9);
}

/* -- rows -------------------------------------------------------------------------------------- */

static void pin(pid_t pid, int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(pid, sizeof(set), &set);
}

static void bench_calls(struct world *world, struct host_plugin *fast, size_t in_flight,
                        const char *name, const char *peer)
{
    static double latencies[CALLS];
    double host[ROUNDS], raw[ROUNDS];
    struct raw pipes = raw_start(world, no_wrapper);
    pin(0, 0);
    pin(pipes.pid, 0);
    pin(instance_facts(fast->instance).pid, 0);
    for (int round = 0; round < ROUNDS; round++) {
        raw[round] = raw_drive(&pipes, (size_t)CALLS / IN_FLIGHT * IN_FLIGHT, in_flight);
        host[round] = drive(world, CALLS, in_flight, latencies);
    }
    raw_stop(&pipes);
    print_row(name, quantile(host, ROUNDS, 0.5), "calls/s", peer, quantile(raw, ROUNDS, 0.5));
}

static void bench_flood(struct world *world)
{
    static double latencies[CALLS];
    double quiet[ROUNDS], flooded[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        drive(world, CALLS, IN_FLIGHT, latencies);
        quiet[round] = quantile(latencies, CALLS, 0.99);
        struct host_plugin *flood = start_plugin(world, "flood");
        pin(instance_facts(flood->instance).pid, 1);
        drive(world, CALLS, IN_FLIGHT, latencies);
        flooded[round] = quantile(latencies, CALLS, 0.99);
        stop_plugin(world, flood);
    }
    print_row("p99 while another plugin floods", quantile(flooded, ROUNDS, 0.5), "us",
              "p99 in quiet", quantile(quiet, ROUNDS, 0.5));
}

static double raw_start_ms(const struct world *world, const char *const *wrapper)
{
    uint64_t start_ns = kg_monotonic_ns();
    struct raw raw = raw_start(world, wrapper);
    raw_drive(&raw, 1, 1);
    double ms = (double)(kg_monotonic_ns() - start_ns) / 1e6;
    raw_stop(&raw);
    return ms;
}

static void bench_start(struct world *world, struct host_plugin *fast)
{
    double caged[START_ROUNDS], plain[START_ROUNDS], bare[START_ROUNDS], latency;
    for (int round = 0; round < START_ROUNDS; round++) {
        stop_plugin(world, fast);
        usleep(SETTLE_MS * 1000);
        plain[round] = raw_start_ms(world, no_wrapper);
        bare[round] = raw_start_ms(world, bare_bwrap);
        uint64_t start_ns = kg_monotonic_ns();
        start_plugin(world, "fast");
        drive(world, 1, 1, &latency);
        caged[round] = (double)(kg_monotonic_ns() - start_ns) / 1e6;
    }
    double median = quantile(caged, START_ROUNDS, 0.5);
    double of_plain = quantile(plain, START_ROUNDS, 0.5);
    print_row("start to first answer, caged", median, "ms", "plain exec, no handshake", of_plain);
    print_row("start to first answer, caged", median, "ms", "bare bwrap, no handshake",
              quantile(bare, START_ROUNDS, 0.5));
    print_row("start, cost over plain exec", median - of_plain, "ms", "goal", 7);
    print_row("start, cost over plain exec, fastest",
              quantile(caged, START_ROUNDS, 0) - quantile(plain, START_ROUNDS, 0), "ms", "goal", 7);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("usage", "kaged-bench MANIFESTS PROGRAMS");
    struct world world = {.plugin_source = argv[1], .plugin_build = argv[2]};
    signal(SIGPIPE, SIG_IGN);
    open_world(&world);
    struct host_plugin *fast = start_plugin(&world, "fast");
    printf("%-38s %12s %-8s %-26s %12s %8s\n", "what", "value", "unit", "peer", "value", "ratio");
    bench_start(&world, fast);
    bench_calls(&world, fast, 1, "calls, one at a time, one core", "raw pipes");
    bench_calls(&world, fast, IN_FLIGHT, "calls, 64 in flight, one core", "raw pipes, gathered");
    bench_flood(&world);
    bench_storage(&world);
    close_world(&world);
    return 0;
}
