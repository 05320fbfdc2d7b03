/*
 * Events on a WebSocket, as a client sees them: frames in, frames out. Client and server share one
 * loop, and the events are made by the test.
 */
#include "http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS    60000
#define HANDSHAKE  "Host: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
#define KEY        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define VERSION    "Sec-WebSocket-Version: 13\r\n"
#define MANY_BYTES ((size_t)256 * 1024)

enum { TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10 };

/* -- a server ---------------------------------------------------------------------------------- */

static struct host_events *events;

static void serve(struct http_request *request)
{
    http_serve_events(request, events, HTTP_EVENT_ANY);
}

static void serve_without_audit(struct http_request *request)
{
    http_serve_events(request, events, HTTP_EVENT_ANY & ~(1U << HOST_EVENT_AUDIT));
}

static void say_ok(struct http_request *request)
{
    http_reply(request, 200, KG_STR("{}"));
}

static const struct http_parameter query[] = {{"plugin", "string", ""},
                                              {"event", "string", ""},
                                              {"type", "event_type", ""},
                                              {NULL, NULL, NULL}};
static const struct http_route routes[] = {
    {"GET", "/events", "", 0, query, serve, "", false},
    {"GET", "/few", "", 0, query, serve_without_audit, "", false},
    {"GET", "/", "", 0, NULL, say_ok, "", false},
};

struct fixture {
    struct loop *loop;
    struct http_server *server;
    struct http_limits limits;
    uv_timer_t ticker;
    char *dir, *path;
    bool freed;
};

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static int setup(void **state)
{
    struct fixture *fixture = kg_alloc(sizeof(*fixture));
    fixture->loop = loop_new();
    fixture->limits = (struct http_limits){.header_bytes = 65536,
                                           .connections = 64,
                                           .idle_ms = 60000,
                                           .websockets = 8,
                                           .websocket_queue_bytes = MANY_BYTES,
                                           .websocket_ping_ms = 60000};
    fixture->server =
        http_server_new(fixture->loop, NULL, &fixture->limits, routes, KG_COUNT(routes));
    fixture->dir = kg_strdup("/tmp/kaged-ws-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    fixture->path = kg_format("%s/kaged.sock", fixture->dir);
    assert_int_equal(http_server_listen(fixture->server, fixture->path, NULL), 0);
    uv_timer_init(loop_uv(fixture->loop), &fixture->ticker);
    uv_timer_start(&fixture->ticker, on_tick, 5, 5);
    events = host_events_new();
    *state = fixture;
    return 0;
}

static void on_freed(void *data)
{
    *(bool *)data = true;
}

static bool is_true(void *data)
{
    return *(bool *)data;
}

static void end_server(struct fixture *fixture)
{
    if (fixture->server != NULL)
        http_server_free(fixture->server, on_freed, &fixture->freed);
    fixture->server = NULL;
    assert_true(loop_run_until(fixture->loop, is_true, &fixture->freed, WAIT_MS));
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    end_server(fixture);
    host_events_free(events); /* nobody listens any more */
    uv_close((uv_handle_t *)&fixture->ticker, NULL);
    loop_free(fixture->loop);
    rmdir(fixture->dir);
    free(fixture->dir);
    free(fixture->path);
    free(fixture);
    return 0;
}

static void set_limits(struct fixture *fixture, size_t websockets, size_t queue_bytes,
                       uint64_t ping_ms)
{
    fixture->limits.websockets = websockets;
    fixture->limits.websocket_queue_bytes = queue_bytes;
    fixture->limits.websocket_ping_ms = ping_ms;
    http_server_set_limits(fixture->server, &fixture->limits);
}

/* -- a client ---------------------------------------------------------------------------------- */

struct client {
    struct fixture *fixture;
    int fd;
    struct kg_buf in;
    bool ended;
    /* the frame that was found last: */
    unsigned opcode;
    bool is_last;
    struct kg_str payload;
    size_t taken;
};

static struct client client_open(struct fixture *fixture)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct client client = {.fixture = fixture};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", fixture->path);
    client.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client.fd, (struct sockaddr *)&address, sizeof(address)), 0);
    fcntl(client.fd, F_SETFL, O_NONBLOCK);
    return client;
}

static void client_free(struct client *client)
{
    kg_close(&client->fd);
    kg_buf_free(&client->in);
}

static void client_pull(struct client *client)
{
    char bytes[65536];
    ssize_t got;
    while ((got = read(client->fd, bytes, sizeof(bytes))) > 0)
        kg_buf_append(&client->in, bytes, (size_t)got);
    client->ended |= got == 0 || (got < 0 && errno != EAGAIN);
}

static void client_send(struct client *client, const void *bytes, size_t length)
{
    assert_int_equal(send(client->fd, bytes, length, MSG_NOSIGNAL), length);
}

/* The mask is zero, which leaves the payload as it is. */
static void client_frame(struct client *client, unsigned first_byte, struct kg_str payload)
{
    char head[6] = {(char)first_byte, (char)(0x80 | payload.length), 0, 0, 0, 0};
    client_send(client, head, sizeof(head));
    if (payload.length > 0)
        client_send(client, payload.data, payload.length);
}

static size_t frame_length(const unsigned char *at, size_t have, size_t *ret_head)
{
    size_t extra = have < 2 ? 8 : at[1] == 126 ? 2 : at[1] == 127 ? 8 : 0;
    size_t length = 0;
    if (have < 2 + extra)
        return SIZE_MAX;
    for (size_t i = 0; i < extra; i++)
        length = length << 8 | at[2 + i];
    *ret_head = 2 + extra;
    return extra > 0 ? length : at[1];
}

static bool has_frame(void *data)
{
    struct client *client = data;
    size_t head;
    client_pull(client);
    const unsigned char *at = (const unsigned char *)client->in.data;
    size_t length = frame_length(at, client->in.length, &head);
    if (length == SIZE_MAX || client->in.length < head + length)
        return client->ended;
    client->opcode = at[0] & 0x0F;
    client->is_last = at[0] >> 7;
    client->payload = (struct kg_str){client->in.data + head, length};
    client->taken = head + length;
    return true;
}

/* The opcode of the next frame; 0 if the connection ended without one. */
static unsigned client_next(struct client *client)
{
    kg_buf_consume(&client->in, client->taken);
    client->taken = 0;
    if (!loop_run_until(client->fixture->loop, has_frame, client, WAIT_MS))
        fail_msg("no frame within %d ms", WAIT_MS);
    return client->taken > 0 ? client->opcode : 0;
}

static bool has_head(void *data)
{
    struct client *client = data;
    client_pull(client);
    return client->ended ||
           (client->in.length > 0 && memmem(client->in.data, client->in.length, "\r\n\r\n", 4));
}

static int client_ask(struct client *client, const char *url, const char *headers)
{
    kg_auto(kg_free) char *text = kg_format("GET %s HTTP/1.1\r\n%s\r\n", url, headers);
    client_send(client, text, strlen(text));
    assert_true(loop_run_until(client->fixture->loop, has_head, client, WAIT_MS));
    int64_t status = 0;
    kg_str_to_int((struct kg_str){client->in.data + 9, 3}, &status);
    return (int)status;
}

static struct client listen_to(struct fixture *fixture, const char *url)
{
    struct client client = client_open(fixture);
    assert_int_equal(client_ask(&client, url, HANDSHAKE KEY VERSION), 101);
    const char *end = memmem(client.in.data, client.in.length, "\r\n\r\n", 4);
    kg_buf_consume(&client.in, (size_t)(end + 4 - client.in.data));
    return client;
}

static void assert_has(struct kg_str text, const char *part)
{
    if (memmem(text.data, text.length, part, strlen(part)) == NULL)
        fail_msg("\"%s\" is not in \"%.*s\"", part, KG_STR_ARG(text));
}

/* The next message is text and has all of the part in it. */
static void assert_hears(struct client *client, const char *part)
{
    assert_int_equal(client_next(client), TEXT);
    assert_true(client->is_last);
    assert_int_equal(kg_json_check(client->payload, &(size_t){0}), KG_JSON_OK);
    assert_has(client->payload, part);
}

static void assert_closed_with(struct client *client, unsigned code)
{
    assert_int_equal(client_next(client), CLOSE);
    assert_true(client->payload.length >= 2);
    const unsigned char *at = (const unsigned char *)client->payload.data;
    assert_int_equal((unsigned)at[0] << 8 | at[1], code);
    assert_int_equal(client_next(client), 0);
}

static void notify(const char *plugin, const char *method, const char *params)
{
    host_events_notification(events, plugin, kg_str(method), kg_str(params));
}

static void notify_long(char fill, size_t length)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    kg_buf_char(&params, '"');
    for (size_t i = 0; i < length; i++)
        kg_buf_char(&params, fill);
    kg_buf_char(&params, '"');
    host_events_notification(events, "p", KG_STR("long"), kg_buf_view(&params));
}

/* -- the handshake ----------------------------------------------------------------------------- */

static void handshake_is_that_of_the_rfc(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "/events", HANDSHAKE KEY VERSION), 101);
    struct kg_str head = kg_buf_view(&client.in);
    assert_has(head, "HTTP/1.1 101 Switching Protocols\r\n");
    assert_has(head, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
    assert_has(head, "Upgrade: websocket\r\nConnection: Upgrade\r\n");
}

static void request_that_does_not_upgrade_is_told_to(void **state)
{
    static const struct {
        const char *headers;
        int status;
    } asked[] = {
        {"Host: a\r\n", 426},
        {"Host: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" KEY VERSION, 426},
        {HANDSHAKE KEY, 426},
        {HANDSHAKE KEY "Sec-WebSocket-Version: 8\r\n", 426},
        {HANDSHAKE VERSION, 400},
        {HANDSHAKE VERSION "Sec-WebSocket-Key: short\r\n", 400},
        {HANDSHAKE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ===\r\n", 400},
        {"Host: a\r\nConnection: close\r\nUpgrade: websocket\r\n" KEY VERSION, 400},
    };
    for (size_t i = 0; i < KG_COUNT(asked); i++) {
        kg_auto(client_free) struct client client = client_open(*state);
        assert_int_equal(client_ask(&client, "/events", asked[i].headers), asked[i].status);
        if (asked[i].status == 426)
            assert_has(kg_buf_view(&client.in), "Sec-WebSocket-Version: 13\r\n");
    }
}

static void unknown_type_is_refused_and_so_is_one_that_may_not_be_seen(void **state)
{
    kg_auto(client_free) struct client unknown = client_open(*state);
    assert_int_equal(client_ask(&unknown, "/events?type=x", HANDSHAKE KEY VERSION), 400);
    kg_auto(client_free) struct client hidden = client_open(*state);
    assert_int_equal(client_ask(&hidden, "/few?type=audit", HANDSHAKE KEY VERSION), 403);
}

static void number_of_websockets_is_bounded(void **state)
{
    set_limits(*state, 1, MANY_BYTES, 60000);
    kg_auto(client_free) struct client first = listen_to(*state, "/events");
    kg_auto(client_free) struct client second = client_open(*state);
    assert_int_equal(client_ask(&second, "/events", HANDSHAKE KEY VERSION), 503);
    client_frame(&first, 0x80 | CLOSE, KG_STR(""));
    assert_int_equal(client_next(&first), CLOSE);
    assert_int_equal(client_next(&first), 0);
    kg_auto(client_free) struct client third = listen_to(*state, "/events");
    notify("p", "x", "1");
    assert_hears(&third, "\"method\":\"x\"");
}

/* -- events ------------------------------------------------------------------------------------ */

static void notification_arrives_with_its_params_byte_for_byte(void **state)
{
    kg_auto(client_free) struct client client = listen_to(*state, "/events");
    notify("echo", "echo.\"said\"", "{\"n\": 1.50, \"t\":\"\\u0041\"}");
    assert_hears(&client,
                 "{\"type\":\"notification\",\"plugin\":\"echo\",\"method\":\"echo.\\\"said"
                 "\\\"\",\"params\":{\"n\": 1.50, \"t\":\"\\u0041\"},\"at\":\"20");
    notify("echo", "echo.bare", "");
    assert_hears(&client, "\"params\":null");
}

static void change_of_state_arrives(void **state)
{
    kg_auto(client_free) struct client client = listen_to(*state, "/events");
    host_events_state(events, "echo", "running", "crashed", "killed by signal 9");
    assert_hears(&client, "{\"type\":\"state\",\"plugin\":\"echo\",\"from\":\"running\",\"to\":"
                          "\"crashed\",\"reason\":\"killed by signal 9\",\"at\":\"20");
}

static void audit_event_arrives_as_it_is_in_the_log(void **state)
{
    kg_auto(client_free) struct client client = listen_to(*state, "/events?plugin=echo");
    host_events_audit(events, KG_STR("{\"event\":\"plugin.killed\",\"name\":\"other\"}"),
                      AUDIT_PLUGIN_KILLED);
    host_events_audit(events, KG_STR("{\"event\":\"daemon.stopped\",\"name\":\"echo\"}"),
                      AUDIT_DAEMON_STOPPED);
    host_events_audit(events, KG_STR("{\"event\":\"plugin.killed\",\"name\":\"echo\"}"),
                      AUDIT_PLUGIN_KILLED);
    assert_hears(&client, "{\"type\":\"audit\",\"event\":\"plugin.killed\",\"name\":\"echo\"}");
}

static void filters_choose(void **state)
{
    static const struct {
        const char *url, *heard;
    } rows[] = {
        {"/events?plugin=b", "\"method\":\"two.x\""},
        {"/events?event=two.x", "\"method\":\"two.x\""},
        {"/events?event=two.*", "\"method\":\"two.x\""},
        {"/events?event=*&plugin=b", "\"method\":\"two.x\""},
        {"/events?type=state", "\"to\":\"running\""},
        {"/events?event=running", "\"to\":\"running\""},
        {"/events?type=audit", "\"type\":\"audit\""},
        {"/events?event=plugin.k*", "\"type\":\"audit\""},
        {"/few?plugin=c", "\"method\":\"last\""},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(client_free) struct client client = listen_to(*state, rows[i].url);
        notify("a", "two", "1");
        notify("b", "two.x", "1");
        host_events_state(events, "a", "spawning", "running", "the handshake is done");
        host_events_audit(events, KG_STR("{\"name\":\"c\"}"), AUDIT_PLUGIN_KILLED);
        notify("c", "last", "1");
        assert_hears(&client, rows[i].heard);
    }
}

static void long_event_arrives_in_fragments(void **state)
{
    kg_auto(client_free) struct client client = listen_to(*state, "/events");
    kg_auto(kg_buf_free) struct kg_buf whole = {0};
    notify_long('x', (size_t)4 * 1024 * 1024);
    for (unsigned expected = TEXT;; expected = 0) {
        client_next(&client);
        assert_int_equal(client.opcode, expected);
        kg_buf_str(&whole, client.payload);
        if (client.is_last)
            break;
    }
    assert_int_equal(kg_json_check(kg_buf_view(&whole), &(size_t){0}), KG_JSON_OK);
    assert_true(whole.length > (size_t)4 * 1024 * 1024);
    notify("p", "after", "1");
    assert_hears(&client, "after");
}

static void slow_reader_is_told_how_much_it_missed(void **state)
{
    struct fixture *fixture = *state;
    set_limits(fixture, 8, 4096, 60000);
    kg_auto(client_free) struct client slow = listen_to(fixture, "/events");
    kg_auto(client_free) struct client quick = listen_to(fixture, "/events?event=short");
    size_t sent = 0, heard = 0, missed = 0;
    for (; sent < 200; sent++) {
        notify_long('y', 8000);
        uv_run(loop_uv(fixture->loop), UV_RUN_NOWAIT);
    }
    notify("p", "short", "1");
    assert_hears(&quick, "short");
    for (;;) {
        assert_int_equal(client_next(&slow), TEXT);
        struct kg_str count;
        int64_t number = 0;
        if (kg_json_member(slow.payload, "count", &count)) {
            assert_has(slow.payload, "{\"type\":\"missed\",\"count\":");
            assert_true(kg_str_to_int(count, &number));
            missed += (size_t)number;
        } else {
            heard++;
        }
        if (heard + missed == sent + 1)
            break;
    }
    assert_true(missed > 0 && heard > 0);
    notify("p", "again", "1");
    assert_hears(&slow, "again");
}

/* -- control frames ---------------------------------------------------------------------------- */

static void ping_is_answered(void **state)
{
    kg_auto(client_free) struct client client = listen_to(*state, "/events");
    client_frame(&client, 0x80 | PING, KG_STR("are you there"));
    assert_int_equal(client_next(&client), PONG);
    assert_has(client.payload, "are you there");
}

static void frame_may_come_byte_by_byte(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = listen_to(fixture, "/events");
    static const unsigned char frame[] = {0x89, 0x82, 1, 2, 3, 4, 'h' ^ 1, 'i' ^ 2};
    for (size_t i = 0; i < sizeof(frame); i++) {
        client_send(&client, frame + i, 1);
        uv_run(loop_uv(fixture->loop), UV_RUN_NOWAIT);
    }
    assert_int_equal(client_next(&client), PONG);
    assert_true(kg_str_is(client.payload, "hi"));
}

static void client_is_pinged_and_kept_while_it_answers(void **state)
{
    set_limits(*state, 8, MANY_BYTES, 30);
    kg_auto(client_free) struct client client = listen_to(*state, "/events");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(client_next(&client), PING);
        client_frame(&client, 0x80 | PONG, client.payload);
    }
    notify("p", "x", "1");
    while (client_next(&client) == PING)
        client_frame(&client, 0x80 | PONG, client.payload);
    assert_int_equal(client.opcode, TEXT);
}

static void client_that_does_not_answer_a_ping_is_let_go(void **state)
{
    set_limits(*state, 8, MANY_BYTES, 30);
    kg_auto(client_free) struct client client = listen_to(*state, "/events");
    assert_int_equal(client_next(&client), PING);
    assert_closed_with(&client, 1011);
}

/* Without a byte read or sent, which would be a sign of life. */
static bool is_cut_off(void *data)
{
    const struct client *client = data;
    struct pollfd poller = {.fd = client->fd};
    return poll(&poller, 1, 0) == 1 && (poller.revents & POLLHUP) != 0;
}

static void client_that_never_reads_is_cut(void **state)
{
    struct fixture *fixture = *state;
    set_limits(fixture, 8, MANY_BYTES, 50);
    kg_auto(client_free) struct client client = listen_to(fixture, "/events");
    for (int i = 0; i < 100; i++) {
        notify_long('z', 16000);
        uv_run(loop_uv(fixture->loop), UV_RUN_NOWAIT);
    }
    assert_true(loop_run_until(fixture->loop, is_cut_off, &client, WAIT_MS));
}

/* It sends on, which is a sign of life, but not of one that would ever hear its farewell. */
static bool is_cut_off_while_it_talks(void *data)
{
    const struct client *client = data;
    (void)!send(client->fd, "\x8a\x80\0\0\0\0", 6, MSG_NOSIGNAL);
    return is_cut_off(data);
}

static void client_that_breaks_the_rules_and_never_reads_is_cut(void **state)
{
    struct fixture *fixture = *state;
    set_limits(fixture, 8, MANY_BYTES, 500);
    kg_auto(client_free) struct client client = listen_to(fixture, "/events");
    for (int i = 0; i < 100; i++) {
        notify_long('z', 16000);
        uv_run(loop_uv(fixture->loop), UV_RUN_NOWAIT);
    }
    client_frame(&client, 0x80 | TEXT, KG_STR("hi"));
    assert_true(loop_run_until(fixture->loop, is_cut_off_while_it_talks, &client, WAIT_MS));
}

static void farewell_is_returned_with_its_code(void **state)
{
    kg_auto(client_free) struct client client = listen_to(*state, "/events");
    client_frame(&client, 0x80 | CLOSE, KG_STR("\x0f\xa1over"));
    assert_closed_with(&client, 4001);
    kg_auto(client_free) struct client bare = listen_to(*state, "/events");
    client_frame(&bare, 0x80 | CLOSE, KG_STR(""));
    assert_int_equal(client_next(&bare), CLOSE);
    assert_int_equal(bare.payload.length, 0);
    assert_int_equal(client_next(&bare), 0);
}

static void client_that_breaks_the_rules_is_told_which(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        unsigned code;
    } rows[] = {
        {"\x81\x82\0\0\0\0hi", 8, 1008},                                 /* text */
        {"\x01\x82\0\0\0\0hi", 8, 1008},                                 /* its first fragment */
        {"\x82\x82\0\0\0\0hi", 8, 1003},                                 /* binary */
        {"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0x", 15, 1003}, /* nearly endless */
        {"\x80\x82\0\0\0\0hi", 8, 1002},                                 /* goes on with nothing */
        {"\x89\x02hi", 4, 1002},                                         /* not masked */
        {"\xc9\x82\0\0\0\0hi", 8, 1002},                                 /* a reserved bit */
        {"\x83\x82\0\0\0\0hi", 8, 1002},                                 /* an unknown kind */
        {"\x8b\x82\0\0\0\0hi", 8, 1002},
        {"\x09\x82\0\0\0\0hi", 8, 1002},       /* a ping in fragments */
        {"\x89\xfe\0\x7e\0\0\0\0", 8, 1002},   /* a long ping */
        {"\x82\xfe\0\x01\0\0\0\0x", 9, 1002},  /* a length that is too long */
        {"\x88\x81\0\0\0\0x", 7, 1002},        /* half a code */
        {"\x88\x82\0\0\0\0\x03\xed", 8, 1002}, /* 1005, which nobody sends */
        {"\x88\x82\0\0\0\0\0\0", 8, 1002},
        {"\x88\x83\0\0\0\0\x03\xe8\xff", 9, 1007}, /* not UTF-8 */
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(client_free) struct client client = listen_to(*state, "/events");
        client_send(&client, rows[i].bytes, rows[i].length);
        assert_closed_with(&client, rows[i].code);
    }
}

/* Each ping asks for an answer; of those that nobody reads only the last is kept. */
static void flood_of_pings_is_bounded(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = listen_to(fixture, "/events");
    char frame[6 + 125] = {(char)0x89, (char)(0x80 | 125)};
    for (int i = 0; i < 20000; i++) {
        if (send(client.fd, frame, sizeof(frame), MSG_NOSIGNAL) < 0)
            assert_int_equal(errno, EAGAIN);
        uv_run(loop_uv(fixture->loop), UV_RUN_NOWAIT);
    }
    kg_auto(client_free) struct client other = listen_to(fixture, "/events");
    notify("p", "x", "1");
    assert_hears(&other, "x");
}

/* -- the end ----------------------------------------------------------------------------------- */

static void client_that_leaves_is_forgotten(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = listen_to(fixture, "/events");
    kg_auto(client_free) struct client other = listen_to(fixture, "/events");
    client_free(&client);
    for (int i = 0; i < 3; i++)
        notify("p", "x", "1");
    assert_hears(&other, "x");
}

static void daemon_that_stops_goes_away(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = listen_to(fixture, "/events");
    notify("p", "last", "1");
    end_server(fixture);
    assert_hears(&client, "last");
    assert_closed_with(&client, 1001);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(handshake_is_that_of_the_rfc),
        TEST(request_that_does_not_upgrade_is_told_to),
        TEST(unknown_type_is_refused_and_so_is_one_that_may_not_be_seen),
        TEST(number_of_websockets_is_bounded),
        TEST(notification_arrives_with_its_params_byte_for_byte),
        TEST(change_of_state_arrives),
        TEST(audit_event_arrives_as_it_is_in_the_log),
        TEST(filters_choose),
        TEST(long_event_arrives_in_fragments),
        TEST(slow_reader_is_told_how_much_it_missed),
        TEST(ping_is_answered),
        TEST(frame_may_come_byte_by_byte),
        TEST(client_is_pinged_and_kept_while_it_answers),
        TEST(client_that_does_not_answer_a_ping_is_let_go),
        TEST(client_that_never_reads_is_cut),
        TEST(client_that_breaks_the_rules_and_never_reads_is_cut),
        TEST(farewell_is_returned_with_its_code),
        TEST(client_that_breaks_the_rules_is_told_which),
        TEST(flood_of_pings_is_bounded),
        TEST(client_that_leaves_is_forgotten),
        TEST(daemon_that_stops_goes_away),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
