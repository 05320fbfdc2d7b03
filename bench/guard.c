/*
 * The hot paths, each again and again in guard_measured, which is where bench/guard has callgrind
 * count instructions. What comes before it is not counted, nor what other threads do.
 *
 * usage: kaged-guard PATH COUNT ARGUMENT...
 *   scan FILE              a line is cut, validated, its envelope found
 *   schema SCHEMA FILE     from bytes to verdict
 *   http FOLDER            a request over a socket: parsed, routed by the daemon's table, answered
 *   call HOME              a call of a caged plugin through the host, with audit
 *   calls HOME             the same, sixty-four of them in flight: what all of them take
 *   tools HOME             the same of a tool, whose parameters are checked
 *   mcp HOME               a call of a tool of a caged MCP server through the host, with audit
 *   mcps HOME              the same, sixty-four of them in flight
 */
#include "http/http.h"
#include "schema/schema.h"
#include "world.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void guard_measured(void (*once)(void *data), void *data, long count);

/*
 * In place of the C library's: the wall clock stands still while instructions are counted. A slow
 * machine would write more timestamps anew.
 */
static struct timespec still;

int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    if (clock == CLOCK_REALTIME && still.tv_sec != 0) {
        *ret_now = still;
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, clock, ret_now);
}

__attribute__((noinline, noclone)) void guard_measured(void (*once)(void *data), void *data,
                                                       long count)
{
    for (long i = 0; i < count; i++)
        once(data);
}

/* A first time fills caches, the allocator's too. */
static void measure(void (*once)(void *data), void *data, long count)
{
    for (int i = 0; i < 10; i++)
        once(data);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    still = now;
    guard_measured(once, data, count);
    still.tv_sec = 0;
}

static void must(bool holds, const char *what)
{
    if (!holds)
        contender_die("guard", what);
}

static struct kg_buf read_file(const char *path)
{
    struct kg_buf text = {0};
    must(kg_read_file(path, 1 << 20, &text, NULL) == 0, path);
    return text;
}

/* -- scan -------------------------------------------------------------------------------------- */

struct scan {
    struct frame frame;
    struct kg_buf line;
};

static bool on_line(void *data, struct kg_str line)
{
    struct rpc_message message;
    (void)data;
    rpc_parse(line, &message);
    must(message.kind == RPC_RESULT, "a wrong envelope");
    return true;
}

static void scan_once(void *data)
{
    struct scan *scan = data;
    frame_advance(&scan->frame, scan->line.data, scan->line.length, on_line, scan);
}

static void guard_scan(char **arguments, long count)
{
    struct scan scan = {.frame = {.line_max = 1 << 20}, .line = read_file(arguments[0])};
    measure(scan_once, &scan, count);
    kg_buf_free(&scan.line);
    frame_free(&scan.frame);
}

/* -- schema ------------------------------------------------------------------------------------ */

struct check {
    struct schema *schema;
    struct kg_buf instance;
};

static void check_once(void *data)
{
    struct check *check = data;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&check->instance), NULL);
    must(doc != NULL && schema_check(check->schema, doc->root, NULL), "the instance does not fit");
}

static void guard_schema(char **arguments, long count)
{
    kg_auto(kg_buf_free) struct kg_buf text = read_file(arguments[0]);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), NULL);
    struct kg_err err;
    const struct schema_options options = {.draft = SCHEMA_DRAFT_2020_12};
    struct check check = {.instance = read_file(arguments[1])};
    must(doc != NULL, "no JSON");
    check.schema = schema_compile(doc->root, &options, &err);
    must(check.schema != NULL, "the schema does not compile");
    measure(check_once, &check, count);
    schema_free(check.schema);
    kg_buf_free(&check.instance);
}

/* -- http -------------------------------------------------------------------------------------- */

#define REQUEST                                                                                    \
    "POST /api/v1/plugins/fast/call/fast.echo HTTP/1.1\r\nHost: localhost\r\n"                     \
    "Content-Length: 27\r\n\r\n{\"text\":\"hello\",\"count\":42}"
#define ANSWER "{\"ok\":true}"

struct web {
    struct loop *loop;
    int client;
    char answer[4096];
    size_t length;
    bool freed;
};

static void answer_fixed(struct http_request *request)
{
    must(kg_str_is(http_path_parameter(request, "method"), "fast.echo"), "another route");
    http_reply(request, 200, KG_STR(ANSWER));
}

static bool is_answered(void *data)
{
    struct web *web = data;
    size_t room = sizeof(web->answer) - web->length;
    ssize_t got = recv(web->client, web->answer + web->length, room, MSG_DONTWAIT);
    web->length += got > 0 ? (size_t)got : 0;
    size_t tail = strlen(ANSWER);
    return web->length > tail && memcmp(web->answer + web->length - tail, ANSWER, tail) == 0;
}

static void request_once(void *data)
{
    struct web *web = data;
    web->length = 0;
    must(write(web->client, REQUEST, strlen(REQUEST)) == (ssize_t)strlen(REQUEST), "write");
    must(loop_run_until(web->loop, is_answered, web, DEADLINE_MS), "no answer");
}

static void on_freed(void *data)
{
    ((struct web *)data)->freed = true;
}

static bool is_freed(void *data)
{
    return ((struct web *)data)->freed;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    must(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
    return fd;
}

static void guard_http(char **arguments, long count)
{
    static const struct http_limits limits = {65536, 1 << 20, 16, 60000, 4, 65536, 60000};
    struct http_route *routes = kg_alloc_array(http_route_count, sizeof(*routes));
    memcpy(routes, http_routes, http_route_count * sizeof(*routes));
    for (size_t i = 0; i < http_route_count; i++)
        routes[i].handle = answer_fixed;
    struct web web = {.loop = loop_new()};
    struct kg_err err;
    kg_auto(kg_free) char *path = kg_format("%s/guard.sock", arguments[0]);
    struct http_server *server = http_server_new(web.loop, NULL, &limits, routes, http_route_count);
    must(http_server_listen(server, path, &err) == 0, "listen");
    web.client = connect_to(path);
    measure(request_once, &web, count);
    close(web.client);
    http_server_free(server, on_freed, &web);
    must(loop_run_until(web.loop, is_freed, &web, DEADLINE_MS), "the server does not end");
    loop_free(web.loop);
    kg_free(&routes);
}

/* -- call -------------------------------------------------------------------------------------- */

struct guarded_calls {
    struct world *world;
    struct load load;
};

static void load_once(void *data)
{
    const struct guarded_calls *calls = data;
    double seconds;
    world_call(calls->world, &calls->load, &seconds);
}

static void measure_calls(char **arguments, long count, const char *plugin, struct load load)
{
    struct world world = {0};
    struct guarded_calls calls = {&world, load};
    world_open(&world, arguments[0]);
    world_start_plugin(&world, plugin);
    measure(load_once, &calls, count);
    world_close(&world);
}

static void guard_call(char **arguments, long count)
{
    measure_calls(arguments, count, "fast", (struct load){0, 1, 5, false, LOAD_METHOD});
}

static void guard_calls(char **arguments, long count)
{
    measure_calls(arguments, count, "fast", (struct load){0, 64, 5, false, LOAD_METHOD});
}

static void guard_tools(char **arguments, long count)
{
    measure_calls(arguments, count, "fast", (struct load){0, 64, 5, false, LOAD_TOOL});
}

static void guard_mcp(char **arguments, long count)
{
    measure_calls(arguments, count, "fast-mcp", (struct load){0, 1, 5, false, LOAD_MCP_TOOL});
}

static void guard_mcps(char **arguments, long count)
{
    measure_calls(arguments, count, "fast-mcp", (struct load){0, 64, 5, false, LOAD_MCP_TOOL});
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int arguments;
        void (*guard)(char **arguments, long count);
    } paths[] = {
        {"scan", 1, guard_scan}, {"schema", 2, guard_schema}, {"http", 1, guard_http},
        {"call", 1, guard_call}, {"calls", 1, guard_calls},   {"tools", 1, guard_tools},
        {"mcp", 1, guard_mcp},   {"mcps", 1, guard_mcps},
    };
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < KG_COUNT(paths) && argc > 2; i++)
        if (strcmp(paths[i].name, argv[1]) == 0 && argc == 3 + paths[i].arguments) {
            paths[i].guard(argv + 3, strtol(argv[2], NULL, 10));
            return 0;
        }
    contender_die("usage", "kaged-guard PATH COUNT ARGUMENT...");
}
