/*
 * Two servers in one loop, with a kaged-link each. What one of them is asked for and the other has
 * is answered by the other, as it would be there; who asks is known there, and nobody can say that
 * he is somebody else.
 */
#include "http/nodes.h"
#include "cluster/identity.h"
#include "http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS     60000
#define LARGE_BYTES ((size_t)3 * 1024 * 1024)
#define PIECE_BYTES 10007

/* -- routes ------------------------------------------------------------------------------------ */

static struct http_server *server_b;
static char *large;
static struct {
    struct http_request *request;
    size_t left, waits;
    int gone;
} stream;

static const char *name_of(const struct http_request *request)
{
    return http_server_of(request) == server_b ? "b" : "a";
}

/* Who answers, for whom, and what of the request arrived. */
static void say_all(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_printf(&text, "%s for %s, %.*s, x=%.*s, cookie=%.*s, id=%s, body=%.*s", name_of(request),
                  http_operator(request) ? http_operator(request) : "nobody",
                  KG_STR_ARG(http_query_parameter(request, "q")),
                  KG_STR_ARG(http_header(request, "x-test")),
                  KG_STR_ARG(http_header(request, "cookie")), http_request_id(request),
                  KG_STR_ARG(http_body(request)));
    http_add_header(request, "X-Answer", name_of(request));
    http_reply_text(request, 201, "text/plain", kg_buf_view(&text));
}

static void say_large(struct http_request *request)
{
    http_reply_text(request, 200, "text/plain", (struct kg_str){large, LARGE_BYTES});
}

static void say_conflict(struct http_request *request)
{
    struct kg_err err;
    kg_fail(&err, KG_E_CONFLICT, "not now");
    http_reply_error(request, &err);
}

static void send_pieces(void *data)
{
    (void)data;
    while (stream.left > 0) {
        stream.left--;
        if (!http_reply_piece(stream.request, (struct kg_str){large, PIECE_BYTES})) {
            stream.waits++;
            return;
        }
    }
    http_reply_end(kg_steal(&stream.request));
}

static void on_reader_gone(void *data)
{
    (void)data;
    stream.gone++;
    http_reply_end(kg_steal(&stream.request));
}

/* The first piece at once, and the others when the test says so. */
static void say_pieces(struct http_request *request)
{
    int64_t count = 0;
    kg_str_to_int(http_query_parameter(request, "q"), &count);
    stream.request = request;
    stream.left = (size_t)count;
    http_on_gone(request, on_reader_gone, NULL);
    http_reply_begin(request, 200, "text/event-stream");
    http_reply_piece(request, KG_STR("data: first\n\n"));
}

static void say_nothing(struct http_request *request)
{
    http_reply_text(request, 204, NULL, KG_STR_NULL);
}

static const struct http_parameter any_query[] = {{"q", "string", ""}, {NULL, NULL, NULL}};

static const struct http_route routes[] = {
    {"GET", "/{id}", "admin", 0, any_query, say_all, "", .of = HTTP_OF_PROJECT},
    {"POST", "/{id}", "admin", SIZE_MAX, any_query, say_all, "", .of = HTTP_OF_PROJECT},
    {"DELETE", "/{id}", "admin", 0, NULL, say_nothing, "", .of = HTTP_OF_PROJECT},
    {"GET", "/{id}/large", "admin", 0, NULL, say_large, "", .of = HTTP_OF_PROJECT},
    {"GET", "/{id}/failing", "admin", 0, NULL, say_conflict, "", .of = HTTP_OF_PROJECT},
    {"GET", "/{id}/pieces", "admin", 0, any_query, say_pieces, "", .of = HTTP_OF_PROJECT},
};

/* -- two nodes --------------------------------------------------------------------------------- */

struct world {
    struct loop *loop;
    uv_timer_t ticker;
    struct link_keys keys[2];
    struct http_server *servers[2];
    struct http_nodes *nodes[2];
    char *dir, *path;
    const char *a_asks; /* whom a has it that others have it; NULL: nobody else */
    bool b_is_away;
    const char *b_asks;
    int freed;
};

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static const char *a_holder(void *data, const char *project)
{
    const struct world *world = data;
    return strcmp(project, "theirs") == 0 ? world->a_asks : NULL;
}

static const char *b_holder(void *data, const char *project)
{
    (void)project;
    return ((const struct world *)data)->b_asks;
}

static const char *b_address(void *data, const char *node)
{
    const struct world *world = data;
    assert_string_equal(node, "b");
    return world->b_is_away ? NULL : http_nodes_address(world->nodes[1]);
}

static void keys_join(struct world *world, const char *name, struct link_keys *keys)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf request = {0};
    kg_buf_str(&keys->authority, kg_buf_view(&world->keys[0].authority));
    memcpy(keys->cluster_key, world->keys[0].cluster_key, sizeof(keys->cluster_key));
    assert_int_equal(link_keys_request(name, &request, &keys->key, &err), 0);
    assert_int_equal(
        link_keys_sign(&world->keys[0], name, kg_buf_view(&request), &keys->certificate, &err), 0);
}

static void open_node(struct world *world, int at)
{
    struct kg_err err = {0};
    const struct http_nodes_options options = {
        .node = at == 0 ? "a" : "b",
        .listen = "127.0.0.1:0",
        .address = "",
        .keys = &world->keys[at],
        .place = {.holder = at == 0 ? a_holder : b_holder, .address = b_address, .data = world},
    };
    static const struct http_limits limits = {8192, LARGE_BYTES, 16,    60000,
                                              4,    65536,       60000, LARGE_BYTES * 4};
    world->servers[at] = http_server_new(world->loop, NULL, &limits, routes, KG_COUNT(routes));
    world->nodes[at] = http_nodes_new(world->servers[at], &options, &err);
    if (world->nodes[at] == NULL)
        fail_msg("%s", err.message);
    if (at == 1)
        server_b = world->servers[1];
}

static int world_begin(void **state)
{
    struct world *world = kg_alloc(sizeof(*world));
    struct kg_err err = {0};
    signal(SIGPIPE, SIG_IGN);
    memset(&stream, 0, sizeof(stream));
    large = kg_alloc(LARGE_BYTES);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        large[i] = (char)('a' + i % 23);
    world->loop = loop_new();
    world->a_asks = "b";
    if (link_keys_make("a", &world->keys[0], &err) < 0)
        fail_msg("%s", err.message);
    keys_join(world, "b", &world->keys[1]);
    open_node(world, 0);
    open_node(world, 1);
    world->dir = kg_strdup("/tmp/kaged-nodes-XXXXXX");
    assert_non_null(mkdtemp(world->dir));
    world->path = kg_format("%s/kaged.sock", world->dir);
    assert_int_equal(http_server_listen(world->servers[0], world->path, &err), 0);
    uv_timer_init(loop_uv(world->loop), &world->ticker);
    uv_timer_start(&world->ticker, on_tick, 5, 5);
    *state = world;
    return 0;
}

static void on_freed(void *data)
{
    (*(int *)data)++;
}

static bool are_freed(void *data)
{
    return *(int *)data == 2;
}

static bool is_freed(void *data)
{
    return *(int *)data > 0;
}

static void close_b(struct world *world)
{
    http_server_free(kg_steal(&world->servers[1]), on_freed, &world->freed);
    assert_true(loop_run_until(world->loop, is_freed, &world->freed, WAIT_MS));
    world->nodes[1] = NULL;
}

static int world_end(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < 2; i++)
        if (world->servers[i] != NULL)
            http_server_free(world->servers[i], on_freed, &world->freed);
    assert_true(loop_run_until(world->loop, are_freed, &world->freed, WAIT_MS));
    uv_close((uv_handle_t *)&world->ticker, NULL);
    loop_free(world->loop);
    link_keys_free(&world->keys[0]);
    link_keys_free(&world->keys[1]);
    rmdir(world->dir);
    free(world->dir);
    free(world->path);
    free(world);
    free(large);
    return 0;
}

/* -- a client ---------------------------------------------------------------------------------- */

struct client {
    int fd;
    struct kg_buf got;
    bool ended;
    const char *until; /* NULL: the end */
};

static void client_read(struct client *client)
{
    static char bytes[65536];
    ssize_t more;
    while ((more = read(client->fd, bytes, sizeof(bytes))) > 0)
        kg_buf_append(&client->got, bytes, (size_t)more);
    client->ended = client->ended || more == 0 || (more < 0 && errno != EAGAIN);
}

static bool client_is_done(void *data)
{
    struct client *client = data;
    client_read(client);
    return client->ended ||
           (client->until != NULL && client->got.data != NULL &&
            memmem(client->got.data, client->got.length, client->until, strlen(client->until)));
}

static struct client client_open(const struct world *world)
{
    struct client client = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", world->path);
    assert_int_equal(connect(client.fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(fcntl(client.fd, F_SETFL, O_NONBLOCK), 0);
    return client;
}

static void client_say(const struct client *client, const char *line, const char *rest)
{
    kg_auto(kg_free) char *text = kg_format("%s HTTP/1.1\r\nHost: x\r\n%s", line, rest);
    assert_int_equal(write(client->fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void client_wait(struct world *world, struct client *client, const char *until)
{
    client->until = until;
    assert_true(loop_run_until(world->loop, client_is_done, client, WAIT_MS));
}

static void client_close(struct client *client)
{
    kg_close(&client->fd);
    kg_buf_free(&client->got);
}

/* The whole answer to one request, as text; the caller's. */
static char *ask(struct world *world, const char *line, const char *rest)
{
    struct client client = client_open(world);
    kg_auto(kg_free) char *all = kg_format("Connection: close\r\n%s", rest);
    client_say(&client, line, all);
    client_wait(world, &client, NULL);
    kg_buf_char(&client.got, '\0');
    kg_close(&client.fd);
    return client.got.data;
}

static void expect(const char *answer, const char *part)
{
    if (strstr(answer, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, answer);
}

/* -- passing on -------------------------------------------------------------------------------- */

static void what_another_node_has_is_answered_by_it_for_who_asks(void **state)
{
    struct world *world = *state;
    kg_auto(kg_free) char *own = ask(world, "GET /ours?q=1", "X-Request-Id: one\r\n\r\n");
    expect(own, "HTTP/1.1 201 Created\r\n");
    expect(own, "a for ");
    kg_auto(kg_free) char *theirs = ask(
        world, "POST /theirs?q=%41b",
        "X-Test: kept\r\nCookie: secret=1\r\nX-Request-Id: two\r\nContent-Length: 5\r\n\r\nhello");
    expect(theirs, "HTTP/1.1 201 Created\r\n");
    expect(theirs, "\r\nX-Answer: b\r\n");
    expect(theirs, "\r\nContent-Type: text/plain\r\n");
    expect(theirs, "\r\nX-Request-Id: two\r\n");
    expect(theirs, ", Ab, x=kept, cookie=, id=two, body=hello");
    const char *who = strstr(own, "a for ") + 6;
    kg_auto(kg_free) char *same = kg_format("b for %.*s,", (int)strcspn(who, ","), who);
    expect(theirs, same);
}

static void errors_and_empty_answers_come_back_as_they_are(void **state)
{
    struct world *world = *state;
    kg_auto(kg_free) char *failing = ask(world, "GET /theirs/failing", "\r\n");
    expect(failing, "HTTP/1.1 409 Conflict\r\n");
    expect(failing, "\"message\":\"not now\"");
    kg_auto(kg_free) char *nothing = ask(world, "DELETE /theirs", "\r\n");
    expect(nothing, "HTTP/1.1 204 No Content\r\n");
    kg_auto(kg_free) char *head = ask(world, "HEAD /theirs/large", "\r\n");
    expect(head, "HTTP/1.1 200 OK\r\n");
    assert_null(strstr(head, "abc"));
    kg_auto(kg_free) char *unknown = ask(world, "GET /theirs?z=1", "\r\n");
    expect(unknown, "HTTP/1.1 400");
}

static void requests_follow_each_other_on_one_connection(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < 50; i++) {
        kg_auto(kg_free) char *line = kg_format("GET /theirs?q=%d", i);
        kg_auto(kg_free) char *part = kg_format(", %d, x=", i);
        kg_auto(kg_free) char *answer = ask(world, line, "\r\n");
        expect(answer, part);
    }
}

static void a_large_answer_arrives_whole(void **state)
{
    struct world *world = *state;
    kg_auto(kg_free) char *answer = ask(world, "GET /theirs/large", "\r\n");
    const char *at = strstr(answer, "\r\n\r\n") + 4;
    size_t got = 0;
    expect(answer, "Transfer-Encoding: chunked\r\n");
    for (size_t length; (length = strtoul(at, (char **)&at, 16)) > 0; at += length + 2) {
        at += 2;
        for (size_t i = 0; i < length; i++, got++)
            if (at[i] != large[got])
                fail_msg("byte %zu is another", got);
    }
    assert_int_equal(got, LARGE_BYTES);
}

/* -- streams ----------------------------------------------------------------------------------- */

static void a_stream_is_passed_on_while_it_is_made(void **state)
{
    struct world *world = *state;
    struct client client = client_open(world);
    client_say(&client, "GET /theirs/pieces?q=2", "Connection: close\r\n\r\n");
    client_wait(world, &client, "data: first");
    assert_non_null(stream.request);
    assert_false(client.ended);
    send_pieces(NULL);
    client_wait(world, &client, NULL);
    assert_memory_equal(client.got.data + client.got.length - 7, "\r\n0\r\n\r\n", 7);
    client_close(&client);
}

static bool has_to_wait(void *data)
{
    (void)data;
    return stream.waits > 0;
}

static bool is_over(void *data)
{
    struct client *client = data;
    client_read(client);
    return client->ended;
}

/* Far more than sockets hold: so the other node's handler has to wait for who reads here. */
static void a_slow_reader_slows_the_node_that_answers(void **state)
{
    struct world *world = *state;
    enum { PIECES = 3000 };
    struct client client = client_open(world);
    client_say(&client, "GET /theirs/pieces?q=3000", "Connection: close\r\n\r\n");
    client_wait(world, &client, "data: first");
    http_on_room(stream.request, send_pieces, NULL);
    send_pieces(NULL);
    assert_true(loop_run_until(world->loop, has_to_wait, NULL, WAIT_MS));
    assert_true(stream.left > 0);
    assert_true(loop_run_until(world->loop, is_over, &client, WAIT_MS));
    assert_true(client.got.length > (size_t)PIECES * PIECE_BYTES);
    assert_memory_equal(client.got.data + client.got.length - 7, "\r\n0\r\n\r\n", 7);
    client_close(&client);
}

static bool reader_is_gone(void *data)
{
    (void)data;
    return stream.gone > 0;
}

static void a_client_that_leaves_is_gone_at_the_other_node_too(void **state)
{
    struct world *world = *state;
    struct client client = client_open(world);
    client_say(&client, "GET /theirs/pieces?q=2", "\r\n");
    client_wait(world, &client, "data: first");
    client_close(&client);
    assert_true(loop_run_until(world->loop, reader_is_gone, NULL, WAIT_MS));
}

/* -- when the other is away -------------------------------------------------------------------- */

static void a_node_that_is_away_is_named(void **state)
{
    struct world *world = *state;
    world->b_is_away = true;
    kg_auto(kg_free) char *known = ask(world, "GET /theirs", "\r\n");
    expect(known, "HTTP/1.1 503 ");
    expect(known, "\r\nRetry-After: ");
    expect(known, "\"node_away\"");
    expect(known, "the node b has it, and is away");
}

static const char *gone_address;
static const char *address_of_gone(void *data, const char *node)
{
    (void)data, (void)node;
    return gone_address;
}

static void a_node_that_went_is_503_and_one_that_is_back_is_found(void **state)
{
    struct world *world = *state;
    kg_auto(kg_free) char *before = ask(world, "GET /theirs", "\r\n");
    expect(before, "b for ");
    kg_auto(kg_free) char *address = kg_strdup(http_nodes_address(world->nodes[1]));
    close_b(world);
    gone_address = address;
    world->nodes[0]->place.address = address_of_gone;
    kg_auto(kg_free) char *away = ask(world, "GET /theirs", "\r\n");
    expect(away, "HTTP/1.1 503 ");
    expect(away, "\r\nRetry-After: ");
    expect(away, "the node b cannot be reached at 127.0.0.1:");
    open_node(world, 1);
    world->freed = 0;
    world->nodes[0]->place.address = b_address;
    kg_auto(kg_free) char *after = ask(world, "GET /theirs", "\r\n");
    expect(after, "b for ");
}

/* What came of the answer is not taken for all of it. */
static void a_stream_that_is_cut_off_ends_without_its_end(void **state)
{
    struct world *world = *state;
    struct client client = client_open(world);
    client_say(&client, "GET /theirs/pieces?q=2", "\r\n");
    client_wait(world, &client, "data: first");
    close_b(world);
    client_wait(world, &client, NULL);
    assert_null(memmem(client.got.data, client.got.length, "0\r\n\r\n", 5));
    client_close(&client);
    open_node(world, 1);
    world->freed = 0;
}

static void it_is_passed_on_once(void **state)
{
    struct world *world = *state;
    world->b_asks = "c";
    kg_auto(kg_free) char *answer = ask(world, "GET /theirs", "\r\n");
    expect(answer, "HTTP/1.1 503 ");
    expect(answer, "\"on_another_node\"");
    expect(answer, "the node c has it by now");
}

/* -- who comes by kaged-link ------------------------------------------------------------------- */

struct intruder {
    struct link_keys keys;
    struct link *link;
    int fd;
    bool done;
};

static void intruder_on_came(void *data, int fd, const char *node)
{
    (void)data, (void)node;
    kg_close(&fd);
}

static void intruder_on_refused(void *data, const char *address, const char *words)
{
    (void)data, (void)address, (void)words;
}

static void intruder_on_connected(void *data, int fd, const struct kg_err *err_or_null)
{
    struct intruder *intruder = data;
    if (err_or_null != NULL)
        fail_msg("%s", err_or_null->message);
    intruder->fd = fd;
    intruder->done = true;
}

static bool intruder_is_done(void *data)
{
    return ((struct intruder *)data)->done;
}

/* c is of the cluster, and says to b what it likes. */
static void intruder_say(struct world *world, const char *text, struct client *ret_client)
{
    struct intruder intruder = {.fd = -1};
    struct kg_err err = {0};
    keys_join(world, "c", &intruder.keys);
    const struct link_options options = {.loop = world->loop,
                                         .node = "c",
                                         .listen = "127.0.0.1:0",
                                         .keys = &intruder.keys,
                                         .on_came = intruder_on_came,
                                         .on_refused = intruder_on_refused};
    intruder.link = link_new(&options, &err);
    assert_non_null(intruder.link);
    link_connect(intruder.link, "b", http_nodes_address(world->nodes[1]), intruder_on_connected,
                 &intruder);
    assert_true(loop_run_until(world->loop, intruder_is_done, &intruder, WAIT_MS));
    *ret_client = (struct client){.fd = intruder.fd};
    assert_int_equal(fcntl(intruder.fd, F_SETFL, 0), 0);
    (void)!write(intruder.fd, text, strlen(text));
    assert_int_equal(fcntl(intruder.fd, F_SETFL, O_NONBLOCK), 0);
    client_wait(world, ret_client, NULL);
    kg_buf_char(&ret_client->got, '\0');
    link_free(intruder.link);
    link_keys_free(&intruder.keys);
}

static void intruder_expect(struct world *world, const char *headers, const char *part)
{
    struct client client;
    kg_auto(kg_free) char *text =
        kg_format("GET /theirs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n", headers);
    intruder_say(world, text, &client);
    expect(client.got.data, part);
    client_close(&client);
}

static void nobody_is_believed_without_a_signed_identity(void **state)
{
    struct world *world = *state;
    static const struct identity_request asked = {.method = {"GET", 3}, .target = {"/theirs", 7}};
    static const struct identity admin = {.via = {"unix", 4}, .scopes = UINT64_MAX};
    struct identities *a = identities_new(world->keys[0].cluster_key, "a");
    struct identities *c = identities_new(world->keys[0].cluster_key, "c");
    kg_auto(kg_buf_free) struct kg_buf of_a = {0}, of_c = {0};
    identity_sign(a, &admin, &asked, "b", &of_a);
    identity_sign(c, &admin, &asked, "b", &of_c);
    kg_auto(kg_free) char *stolen = kg_format(IDENTITY_HEADER ": %.*s\r\n", KG_STR_ARG(of_a));
    kg_auto(kg_free) char *own = kg_format(IDENTITY_HEADER ": %.*s\r\n", KG_STR_ARG(of_c));
    kg_auto(kg_free) char *twice = kg_format("%s%s", own, own);
    intruder_expect(world, "", "X-Kaged-Identity is missing");
    intruder_expect(world, "", "HTTP/1.1 403 ");
    intruder_expect(world, "X-Kaged-Identity: v1.e30.00\r\n", "X-Kaged-Identity is malformed");
    intruder_expect(world, stolen, "is of the node a, and came from c");
    intruder_expect(world, twice, "is there twice");
    intruder_expect(world, own, "b for nobody");
    intruder_expect(world, own, "was used before");
    identities_free(a);
    identities_free(c);
}

static void a_head_that_is_too_large_is_refused(void **state)
{
    struct world *world = *state;
    kg_auto(kg_buf_free) struct kg_buf headers = {0};
    kg_buf_text(&headers, "X-Long: ");
    for (int i = 0; i < 10000; i++)
        kg_buf_char(&headers, 'a');
    kg_buf_text(&headers, "\r\n");
    intruder_expect(world, kg_buf_terminate(&headers), "HTTP/1.1 431 ");
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, world_begin, world_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(what_another_node_has_is_answered_by_it_for_who_asks),
        IN_WORLD(errors_and_empty_answers_come_back_as_they_are),
        IN_WORLD(requests_follow_each_other_on_one_connection),
        IN_WORLD(a_large_answer_arrives_whole),
        IN_WORLD(a_stream_is_passed_on_while_it_is_made),
        IN_WORLD(a_slow_reader_slows_the_node_that_answers),
        IN_WORLD(a_client_that_leaves_is_gone_at_the_other_node_too),
        IN_WORLD(a_node_that_is_away_is_named),
        IN_WORLD(a_node_that_went_is_503_and_one_that_is_back_is_found),
        IN_WORLD(a_stream_that_is_cut_off_ends_without_its_end),
        IN_WORLD(it_is_passed_on_once),
        IN_WORLD(nobody_is_believed_without_a_signed_identity),
        IN_WORLD(a_head_that_is_too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
