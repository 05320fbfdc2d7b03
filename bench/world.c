/*
 * The host as the daemon has it: cages, audit log, context. The bench gives a home with plugins
 * that are approved; nothing is stubbed and nothing is left out on the way of a call.
 */
#include "world.h"

#include "projects/projects.h"

#include <signal.h>
#include <unistd.h>

/* -- the host ---------------------------------------------------------------------------------- */

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    ((struct world *)poll->data)->has_command = true;
    uv_poll_stop(poll);
}

void world_open(struct world *world, const char *home)
{
    struct kg_err err = {0};
    signal(SIGPIPE, SIG_IGN);
    kg_log_set(KG_ERROR_LEVEL, KG_LOG_TEXT);
    if (config_paths_find(home, &world->paths, &err) < 0 ||
        config_paths_make(&world->paths, geteuid(), &err) < 0 ||
        (world->facts = cage_facts_probe(&err)) == NULL ||
        (world->spawner = cage_spawner_start(&err)) == NULL)
        contender_die("prepare", err.message);
    world->loop = loop_new();
    struct host_parts parts = {
        .loop = world->loop,
        .spawner = world->spawner,
        .facts = world->facts,
        .paths = &world->paths,
        .config = config_load(world->paths.config_file, &err),
    };
    if (cage_spawner_attach(world->spawner, world->loop, NULL, NULL, &err) < 0 ||
        parts.config == NULL || (world->host = host_new(&parts, &err)) == NULL)
        contender_die("start the host", err.message);
    projects_open(world->host);
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

void world_close(struct world *world)
{
    if (world->commands.data != NULL)
        uv_close((uv_handle_t *)&world->commands, NULL);
    host_stop(world->host, "the bench is done", on_stopped, world);
    world_run_until(world, is_stopped, world, "the host does not stop");
    host_free(world->host);
    cage_spawner_free(world->spawner);
    cage_facts_free(world->facts);
    loop_free(world->loop);
    config_paths_free(&world->paths);
}

static bool has_command(void *data)
{
    return ((struct world *)data)->has_command;
}

void world_wait_command(void *data)
{
    struct world *world = data;
    if (world->commands.data == NULL)
        uv_poll_init(loop_uv(world->loop), &world->commands, STDIN_FILENO);
    world->commands.data = world;
    world->has_command = false;
    uv_poll_start(&world->commands, UV_READABLE | UV_DISCONNECT, on_readable);
    while (!loop_run_until(world->loop, has_command, world, DEADLINE_MS))
        continue;
}

void world_run_until(struct world *world, bool (*done)(void *data), void *data, const char *what)
{
    if (!loop_run_until(world->loop, done, data, DEADLINE_MS))
        contender_die("host", what);
}

/* -- plugins ----------------------------------------------------------------------------------- */

struct host_status world_status(const struct world *world, const char *name)
{
    struct kg_err err;
    struct host_named named;
    if (host_find(world->host, kg_str(name), &named, &err) < 0)
        contender_die(name, err.message);
    return host_status(named);
}

struct awaited {
    const struct world *world;
    const char *name;
    enum instance_state state;
};

static bool is_in_state(void *data)
{
    const struct awaited *awaited = data;
    return world_status(awaited->world, awaited->name).state == awaited->state;
}

static void on_acted(void *data, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        contender_die(data, err_or_null->message);
}

void world_start_plugin(struct world *world, const char *name)
{
    struct awaited awaited = {world, name, INSTANCE_RUNNING};
    host_enable(world->host, kg_str(name), "bench", on_acted, "enable");
    world_run_until(world, is_in_state, &awaited, "a plugin does not run");
}

void world_stop_plugin(struct world *world, const char *name)
{
    struct awaited awaited = {world, name, INSTANCE_DISABLED};
    host_disable(world->host, kg_str(name), "bench", on_acted, "disable");
    world_run_until(world, is_in_state, &awaited, "a plugin does not stop");
}

/* -- calls ------------------------------------------------------------------------------------- */

struct run {
    struct host *host;
    const struct load *load;
    struct kg_buf params;
    uint64_t end_ns; /* nothing is sent from then on */
    size_t answered, under_way;
};

struct flight {
    struct run *run;
    uint64_t sent_ns;
    struct audit_waiter waiter;
};

static void send_next(struct flight *flight, uint64_t now_ns);
static void send_now_or_later(struct flight *flight);

/* What comes back has _context in front; behind it stands what was sent. */
static bool is_right(const struct run *run, struct kg_str result)
{
    struct kg_str sent = kg_buf_view(&run->params);
    if (run->load->of == LOAD_MCP_TOOL)
        return kg_str_is(result, "{\"content\":[{\"type\":\"text\",\"text\":\"ok\"}]}");
    if (!run->load->back)
        return kg_str_is(result, "{\"ok\":true}");
    return result.length > sent.length && memcmp(result.data + result.length - (sent.length - 1),
                                                 sent.data + 1, sent.length - 1) == 0;
}

static void on_answer(void *data, const struct host_reply *reply)
{
    struct flight *flight = data;
    struct run *run = flight->run;
    if (reply->error.code != KG_OK)
        contender_die("call", reply->error.message);
    if (!is_right(run, reply->result))
        contender_die("call", "a wrong answer");
    uint64_t now_ns = kg_monotonic_ns();
    contender_sample((double)(now_ns - flight->sent_ns) / 1e3);
    run->answered++;
    run->under_way--;
    if (now_ns < run->end_ns)
        send_next(flight, now_ns);
}

static void call_now(struct flight *flight)
{
    struct kg_err err;
    struct kg_id request_id = kg_id_new("req_");
    struct run *run = flight->run;
    kg_auto(host_asker_cleanup) struct host_asker *asker = host_asker_new("bench", request_id.text);
    bool is_mcp = run->load->of == LOAD_MCP_TOOL, is_tool = run->load->of != LOAD_METHOD;
    struct host_call_request request = {
        .plugin = is_mcp ? KG_STR("fast-mcp") : KG_STR("fast"),
        .is_tool = is_tool,
        .method = is_mcp            ? KG_STR("fast-mcp.say")
                  : is_tool         ? KG_STR("fast.say")
                  : run->load->back ? KG_STR("fast.back")
                                    : KG_STR("fast.echo"),
        .params = kg_buf_view(&run->params),
        .asker = asker,
        .on_done = on_answer,
        .data = flight,
    };
    if (host_call(run->host, &request, &err) == NULL)
        contender_die("call", err.message);
}

static void on_ready(struct audit_waiter *waiter)
{
    send_now_or_later(KG_CONTAINER(waiter, struct flight, waiter));
}

/* A writer that is behind holds callers up, as it does those over HTTP. */
static void send_now_or_later(struct flight *flight)
{
    struct audit *audit = host_audit(flight->run->host);
    if (audit_ready(audit, NULL) || !audit_is_behind(audit)) {
        call_now(flight);
        return;
    }
    flight->waiter.on_ready = on_ready;
    audit_wait_ready(audit, &flight->waiter);
}

static void send_next(struct flight *flight, uint64_t now_ns)
{
    flight->run->under_way++;
    flight->sent_ns = now_ns;
    send_now_or_later(flight);
}

static bool is_over(void *data)
{
    return ((struct run *)data)->under_way == 0;
}

size_t world_call(struct world *world, const struct load *load, double *ret_seconds)
{
    struct run run = {.host = world->host, .load = load};
    kg_auto(kg_free) struct flight *flights =
        kg_alloc_array((size_t)load->in_flight, sizeof(*flights));
    kg_buf_text(&run.params, "{\"text\":\"");
    for (long i = 0; i < load->bytes; i++)
        kg_buf_char(&run.params, 'x');
    kg_buf_text(&run.params, "\",\"count\":42}");
    uint64_t start_ns = kg_monotonic_ns();
    run.end_ns = start_ns + (uint64_t)load->ms * 1000000;
    for (long i = 0; i < load->in_flight; i++) {
        flights[i].run = &run;
        send_next(&flights[i], kg_monotonic_ns());
    }
    world_run_until(world, is_over, &run, "not all calls were answered");
    *ret_seconds = (double)(kg_monotonic_ns() - start_ns) / 1e9;
    kg_buf_free(&run.params);
    return run.answered;
}
