/*
 * Authentication in its parts: scopes, credentials by their hashes, the launch URL, the count of
 * failures; and the door as a whole, asked by raw bytes over TCP.
 */
#include "folder.h"
#include "http/auth_internal.h"
#include "state/sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS  60000
#define START_MS INT64_C(1800000000000)
#define NONCE    "0123456789abcdef0123456789abcdef"

/* -- a server over TCP ------------------------------------------------------------------------- */

static void say_operator(struct http_request *request)
{
    const char *operator_id = http_operator(request);
    http_reply_text(request, 200, "text/plain", kg_str(operator_id ? operator_id : "nobody"));
}

static const struct http_parameter launch_query[] = {{"token", "string", ""}, {NULL, NULL, NULL}};
static const struct http_route routes[] = {
    {"GET", "/open", "", 0, NULL, say_operator, ""},
    {"GET", "/who", "any", 0, NULL, say_operator, ""},
    {"GET", "/read", "plugins:read", 0, NULL, say_operator, ""},
    {"POST", "/write", "plugins:write", 100, NULL, say_operator, ""},
    {"GET", "/call", "plugins:call", 0, NULL, say_operator, ""},
    {"GET", "/admin", "admin", 0, NULL, say_operator, ""},
    {"GET", "/", "", 0, launch_query, http_handle_root, ""},
    {"GET", "/session", "any", 0, NULL, http_handle_session, ""},
};

struct fixture {
    char root[64], audit_dir[96], db[96], key[96], launch[96], socket[96];
    struct loop *loop;
    struct state_keeper *keeper;
    struct audit *audit;
    struct http_auth *auth;
    struct http_server *server;
    struct kg_err err;
    char *hosts[2];
    bool freed;
};

static struct fixture *fixture_new(void)
{
    struct fixture *fixture = kg_alloc(sizeof(*fixture));
    snprintf(fixture->root, sizeof(fixture->root), "/tmp/kaged-auth-XXXXXX");
    assert_non_null(mkdtemp(fixture->root));
    snprintf(fixture->audit_dir, sizeof(fixture->audit_dir), "%s/audit", fixture->root);
    snprintf(fixture->db, sizeof(fixture->db), "%s/kaged.db", fixture->root);
    snprintf(fixture->key, sizeof(fixture->key), "%s/audit.key", fixture->root);
    snprintf(fixture->launch, sizeof(fixture->launch), "%s/launch-url", fixture->root);
    snprintf(fixture->socket, sizeof(fixture->socket), "%s/kaged.sock", fixture->root);
    return fixture;
}

static void open_auth(struct fixture *fixture, enum http_auth_mode mode)
{
    const struct http_auth_options options = {
        .keeper = fixture->keeper,
        .audit = fixture->audit,
        .launch_file = fixture->launch,
        .mode = mode,
        .nonce = mode == HTTP_AUTH_PROXY ? KG_STR(NONCE) : KG_STR(""),
    };
    const struct http_auth_limits limits = {
        .hosts = fixture->hosts, .session_ms = 3600000, .failures_per_min = 1000};
    fixture->auth = http_auth_new(fixture->loop, &options, &limits, &fixture->err);
    if (fixture->auth == NULL)
        fail_msg("%s", fixture->err.message);
}

static int set_up_mode(void **data, enum http_auth_mode mode)
{
    struct fixture *fixture = fixture_new();
    const struct audit_options options = {
        .dir = fixture->audit_dir,
        .state_db = fixture->db,
        .key_file = fixture->key,
        .rotate_bytes = 1 << 20,
        .seal_interval_ms = 60000,
        .queue_bytes = 1 << 20,
    };
    const struct http_limits limits = {65536, 65536, 16, 60000};
    kg_log_set(KG_ERROR_LEVEL + 1, KG_LOG_TEXT); /* refusals are expected here */
    signal(SIGPIPE, SIG_IGN);
    fixture->hosts[0] = "kaged.example";
    fixture->loop = loop_new();
    fixture->keeper = state_keeper_new(fixture->loop, fixture->db, &fixture->err);
    assert_non_null(fixture->keeper);
    fixture->audit = audit_open(fixture->loop, &options, &fixture->err);
    assert_non_null(fixture->audit);
    open_auth(fixture, mode);
    fixture->server = http_server_new(fixture->loop, NULL, &limits, routes, KG_COUNT(routes));
    http_server_set_auth(fixture->server, fixture->auth);
    if (http_server_listen(fixture->server, fixture->socket, &fixture->err) < 0 ||
        http_server_listen_tcp(fixture->server, "127.0.0.1:0", &fixture->err) < 0)
        fail_msg("%s", fixture->err.message);
    *data = fixture;
    return 0;
}

static int set_up(void **data)
{
    return set_up_mode(data, HTTP_AUTH_LOCAL);
}

static int set_up_proxy(void **data)
{
    return set_up_mode(data, HTTP_AUTH_PROXY);
}

static int set_up_insecure(void **data)
{
    return set_up_mode(data, HTTP_AUTH_INSECURE);
}

static void on_freed(void *data)
{
    *(bool *)data = true;
}

static bool is_true(void *data)
{
    return *(bool *)data;
}

static int tear_down(void **data)
{
    struct fixture *fixture = *data;
    kg_time_set(-1, -1);
    http_server_free(fixture->server, on_freed, &fixture->freed);
    assert_true(loop_run_until(fixture->loop, is_true, &fixture->freed, WAIT_MS));
    http_auth_free(fixture->auth);
    audit_close(fixture->audit);
    state_keeper_free(fixture->keeper);
    loop_free(fixture->loop);
    folder_remove(fixture->root);
    free(fixture);
    return 0;
}

/* -- asking it --------------------------------------------------------------------------------- */

struct exchange {
    int fd;
    struct kg_buf in;
    bool ended;
};

static bool has_ended(void *data)
{
    struct exchange *exchange = data;
    char bytes[4096];
    ssize_t got;
    while ((got = read(exchange->fd, bytes, sizeof(bytes))) > 0)
        kg_buf_append(&exchange->in, bytes, (size_t)got);
    exchange->ended |= got == 0 || (got < 0 && errno != EAGAIN);
    return exchange->ended;
}

/* Sends one request to the TCP listener; the status, and the whole answer. */
static int ask(struct fixture *fixture, const char *line, const char *headers,
               struct kg_buf *ret_answer)
{
    struct sockaddr_in address;
    int length = sizeof(address);
    uv_tcp_getsockname(&fixture->server->tcp, (struct sockaddr *)&address, &length);
    struct exchange exchange = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_int_equal(connect(exchange.fd, (struct sockaddr *)&address, sizeof(address)), 0);
    fcntl(exchange.fd, F_SETFL, O_NONBLOCK);
    kg_auto(kg_free) char *text =
        kg_format("%s HTTP/1.1\r\nConnection: close\r\n%s\r\n", line, headers);
    assert_int_equal(write(exchange.fd, text, strlen(text)), strlen(text));
    assert_true(loop_run_until(fixture->loop, has_ended, &exchange, WAIT_MS));
    close(exchange.fd);
    assert_true(exchange.in.length > 12);
    kg_buf_free(ret_answer);
    *ret_answer = exchange.in;
    return atoi(kg_buf_terminate(ret_answer) + strlen("HTTP/1.1 "));
}

static int status_of(struct fixture *fixture, const char *line, const char *headers)
{
    kg_auto(kg_buf_free) struct kg_buf answer = {0};
    return ask(fixture, line, headers, &answer);
}

#define HOST "Host: 127.0.0.1\r\n"

static void on_added(void *data, struct http_credential *credential,
                     const struct kg_err *err_or_null)
{
    assert_null(err_or_null);
    *(struct http_credential **)data = credential;
}

/* NULL: it was refused. */
static struct http_credential *add(struct fixture *fixture, const struct http_credential *wanted,
                                   const char *secret)
{
    struct http_credential *added = NULL;
    if (http_credentials_add(&fixture->auth->credentials, wanted, kg_str(secret), on_added, &added,
                             &fixture->err) < 0)
        return NULL;
    assert_null(http_credentials_find(&fixture->auth->credentials, wanted->kind, kg_str(secret)));
    state_keeper_drain(fixture->keeper);
    return added;
}

static struct http_credential *add_token(struct fixture *fixture, const char *name,
                                         const char *secret, const char *scopes, int64_t expires_ms)
{
    struct http_credential wanted = {
        .kind = STATE_TOKEN, .name = (char *)name, .operator_id = "eve", .expires_ms = expires_ms};
    assert_int_equal(http_scopes_parse(kg_str(scopes), &wanted.scopes, &fixture->err), 0);
    return add(fixture, &wanted, secret);
}

static void add_session(struct fixture *fixture, const char *secret)
{
    struct http_credential wanted = {.kind = STATE_SESSION,
                                     .name = "",
                                     .scopes = HTTP_SCOPES_ALL,
                                     .operator_id = "eve",
                                     .expires_ms = kg_wall_ms() + 3600000};
    assert_non_null(add(fixture, &wanted, secret));
}

/* -- scopes ------------------------------------------------------------------------------------ */

static void each_route_asks_for_a_scope_that_there_is(void **data)
{
    (void)data;
    for (size_t i = 0; i < http_route_count; i++)
        if (!http_scopes_allow(HTTP_SCOPES_ALL, http_routes[i].permission))
            fail_msg("%s %s: nobody can have %s", http_routes[i].method, http_routes[i].pattern,
                     http_routes[i].permission);
}

static void only_what_is_harmless_is_open(void **data)
{
    /* The last has files that are the same in each kaged: its scripts and styles. */
    static const char *const open[] = {"/healthz", "/", "/auth/launch", "/page/{file}"};
    (void)data;
    for (size_t i = 0; i < http_route_count; i++) {
        bool known = false;
        for (size_t k = 0; k < KG_COUNT(open); k++)
            known |= strcmp(http_routes[i].pattern, open[k]) == 0;
        if (http_routes[i].permission[0] == '\0' && !known)
            fail_msg("%s %s is open to everybody", http_routes[i].method, http_routes[i].pattern);
    }
}

static void scopes_read_back_as_they_were_written(void **data)
{
    static const char *const rows[] = {"plugins:read", "plugins:read,audit:read", "admin"};
    (void)data;
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        uint64_t scopes = 0;
        assert_int_equal(http_scopes_parse(kg_str(rows[i]), &scopes, NULL), 0);
        http_scopes_print(scopes, &text);
        assert_string_equal(kg_buf_terminate(&text), rows[i]);
    }
}

static void unknown_scope_is_refused_with_the_nearest(void **data)
{
    (void)data;
    struct kg_err err;
    uint64_t scopes = 77;
    assert_true(http_scopes_parse(KG_STR("audit:read,plugin:read"), &scopes, &err) < 0);
    assert_non_null(strstr(err.hint, "plugins:read"));
    assert_int_equal(scopes, 77);
}

static void only_admin_has_what_was_not_given(void **data)
{
    (void)data;
    uint64_t all = 0, one = 0;
    assert_int_equal(http_scopes_parse(KG_STR("admin"), &all, NULL), 0);
    assert_int_equal(http_scopes_parse(KG_STR("plugins:read"), &one, NULL), 0);
    assert_true(http_scopes_allow(all, "plugins:write"));
    assert_true(http_scopes_allow(one, "plugins:read"));
    assert_true(http_scopes_allow(one, "any"));
    assert_false(http_scopes_allow(one, "plugins:write"));
    assert_false(http_scopes_allow(one, "admin"));
    assert_false(http_scopes_allow(all, "no:such"));
}

/* -- secrets and credentials ------------------------------------------------------------------- */

static void secrets_differ_and_fit_a_url(void **data)
{
    (void)data;
    char one[HTTP_SECRET_TEXT], other[HTTP_SECRET_TEXT];
    http_secret_make(one);
    http_secret_make(other);
    assert_int_equal(strlen(one), HTTP_SECRET_TEXT - 1);
    assert_int_equal(
        strspn(one, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
        HTTP_SECRET_TEXT - 1);
    assert_string_not_equal(one, other);
    assert_false(http_secret_equal(kg_str(one), kg_str(other)));
    assert_true(http_secret_equal(kg_str(one), kg_str(one)));
    assert_false(http_secret_equal(KG_STR(""), KG_STR("")));
}

static void token_is_found_by_its_secret_also_after_a_restart(void **data)
{
    struct fixture *fixture = *data;
    assert_non_null(add_token(fixture, "ci", "kgd_secret", "plugins:read", 0));
    http_auth_free(fixture->auth);
    open_auth(fixture, HTTP_AUTH_LOCAL);
    http_server_set_auth(fixture->server, fixture->auth);
    const struct http_credentials *credentials = &fixture->auth->credentials;
    struct http_credential *found =
        http_credentials_find(credentials, STATE_TOKEN, KG_STR("kgd_secret"));
    assert_non_null(found);
    assert_string_equal(found->name, "ci");
    assert_string_equal(found->operator_id, "eve");
    assert_null(http_credentials_find(credentials, STATE_TOKEN, KG_STR("kgd_secre")));
    assert_null(http_credentials_find(credentials, STATE_SESSION, KG_STR("kgd_secret")));
}

static void secret_is_not_in_the_database(void **data)
{
    struct fixture *fixture = *data;
    assert_non_null(add_token(fixture, "ci", "kgd_a-very-secret-text", "plugins:read", 0));
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    kg_auto(kg_free) char *journal = kg_format("%s-wal", fixture->db);
    const char *const files[] = {fixture->db, journal};
    for (size_t i = 0; i < KG_COUNT(files); i++) {
        kg_auto(kg_buf_free) struct kg_buf file = {0};
        assert_int_equal(kg_read_file(files[i], 1 << 20, &file, NULL), 0);
        kg_buf_str(&bytes, kg_buf_view(&file));
    }
    assert_non_null(memmem(bytes.data, bytes.length, "plugins:read", 12));
    assert_null(memmem(bytes.data, bytes.length, "a-very-secret-text", 18));
}

static void on_refused(void *data, struct http_credential *credential,
                       const struct kg_err *err_or_null)
{
    (void)credential;
    assert_non_null(err_or_null);
    *(bool *)data = true;
}

/* Another's lock stands for whatever keeps kaged.db from being written. */
static void what_the_disk_refuses_has_not_happened(void **data)
{
    struct fixture *fixture = *data;
    struct http_credentials *credentials = &fixture->auth->credentials;
    struct http_credential *token = add_token(fixture, "ci", "kgd_1", "plugins:read", 0);
    struct http_credential wanted = {.kind = STATE_TOKEN, .name = "more", .operator_id = "eve"};
    bool refused = false, stays = false;
    struct state *other = state_open(fixture->db, &fixture->err);
    assert_int_equal(state_step(other, STATE_BEGIN_WRITE, &fixture->err), 0);
    assert_int_equal(http_credentials_add(credentials, &wanted, KG_STR("kgd_2"), on_refused,
                                          &refused, &fixture->err),
                     0);
    http_credentials_remove(credentials, token, on_refused, &stays);
    assert_null(http_credentials_find(credentials, STATE_TOKEN, KG_STR("kgd_1")));
    state_keeper_drain(fixture->keeper);
    state_close(other);
    assert_true(refused && stays);
    assert_int_equal(credentials->count, 1);
    assert_ptr_equal(http_credentials_find(credentials, STATE_TOKEN, KG_STR("kgd_1")), token);
    assert_non_null(add_token(fixture, "more", "kgd_2", "plugins:read", 0));
}

static void two_tokens_cannot_have_one_name(void **data)
{
    struct fixture *fixture = *data;
    assert_non_null(add_token(fixture, "ci", "kgd_1", "plugins:read", 0));
    assert_null(add_token(fixture, "ci", "kgd_2", "plugins:read", 0));
    assert_int_equal(fixture->err.code, KG_E_CONFLICT);
}

static void the_oldest_session_goes_when_there_are_too_many(void **data)
{
    struct fixture *fixture = *data;
    const struct http_credentials *credentials = &fixture->auth->credentials;
    for (int i = 0; i < 150; i++) {
        char secret[16];
        snprintf(secret, sizeof(secret), "s%d", i);
        add_session(fixture, secret);
    }
    assert_int_equal(credentials->count, 100);
    assert_null(http_credentials_find(credentials, STATE_SESSION, KG_STR("s0")));
    assert_non_null(http_credentials_find(credentials, STATE_SESSION, KG_STR("s149")));
}

/* -- the launch URL ---------------------------------------------------------------------------- */

static void launch_url_works_once_and_its_file_goes(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf url = {0}, file = {0};
    char who[HTTP_OPERATOR_MAX];
    struct http_launch *launch = &fixture->auth->launch;
    assert_int_equal(http_launch_make(fixture->auth, "http://here", "eve", &url, NULL), 0);
    struct stat status;
    assert_int_equal(stat(fixture->launch, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(kg_read_file(fixture->launch, 1000, &file, NULL), 0);
    assert_int_equal(strncmp(file.data, url.data, url.length), 0);
    kg_auto(kg_free) char *token = kg_strdup(strstr(kg_buf_terminate(&url), "token=") + 6);
    assert_false(http_launch_use(launch, KG_STR("wrong"), who));
    assert_true(http_launch_use(launch, kg_str(token), who));
    assert_string_equal(who, "eve");
    assert_false(http_launch_use(launch, kg_str(token), who));
    assert_false(http_launch_use(launch, KG_STR(""), who));
    assert_int_equal(access(fixture->launch, F_OK), -1);
}

static void launch_url_that_waits_is_given_again_to_the_same_operator_only(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf one = {0}, again = {0}, other = {0};
    http_launch_make(fixture->auth, "http://here", "eve", &one, NULL);
    http_launch_make(fixture->auth, "http://here", "eve", &again, NULL);
    http_launch_make(fixture->auth, "http://here", "bob", &other, NULL);
    assert_true(kg_str_equal(kg_buf_view(&one), kg_buf_view(&again)));
    assert_false(kg_str_equal(kg_buf_view(&one), kg_buf_view(&other)));
}

static void launch_url_expires_after_a_day(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf url = {0};
    char who[HTTP_OPERATOR_MAX];
    kg_time_set(START_MS, -1);
    http_launch_make(fixture->auth, "http://here", "eve", &url, NULL);
    kg_time_set(START_MS + 86400000, -1);
    const char *token = strstr(kg_buf_terminate(&url), "token=") + 6;
    assert_false(http_launch_use(&fixture->auth->launch, kg_str(token), who));
}

static void file_in_the_way_of_the_launch_url_is_replaced_not_followed(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf url = {0};
    kg_auto(kg_free) char *victim = kg_format("%s/victim", fixture->root);
    kg_auto(kg_free) char *fresh = kg_format("%s.new", fixture->launch);
    close(open(victim, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    assert_int_equal(symlink(victim, fixture->launch), 0);
    assert_int_equal(symlink(victim, fresh), 0);
    assert_int_equal(http_launch_make(fixture->auth, "http://here", "eve", &url, NULL), 0);
    struct stat status;
    assert_int_equal(stat(victim, &status), 0);
    assert_int_equal(status.st_size, 0);
}

/* -- failures ---------------------------------------------------------------------------------- */

static struct http_source source_of(const char *address)
{
    struct http_source source;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (uv_ip4_addr(address, 1, &v4) == 0)
        http_source_of((struct sockaddr *)&v4, &source);
    else if (uv_ip6_addr(address, 1, &v6) == 0)
        http_source_of((struct sockaddr *)&v6, &source);
    assert_string_equal(source.text, address);
    return source;
}

static bool fails(struct fixture *fixture, const char *address)
{
    unsigned wait_sec = 0;
    struct http_source source = source_of(address);
    bool few = http_attempts_fail(&fixture->auth->attempts, &source, "token", "no", &wait_sec);
    assert_true(few || (wait_sec > 0 && wait_sec <= 60));
    return few;
}

static void one_source_in_one_minute_may_fail_so_often(void **data)
{
    struct fixture *fixture = *data;
    fixture->auth->attempts.failures_per_min = 3;
    for (int i = 0; i < 3; i++)
        assert_true(fails(fixture, "192.0.2.1"));
    assert_false(fails(fixture, "192.0.2.1"));
    assert_true(fails(fixture, "192.0.2.2"));
}

static void all_of_this_machine_is_one_source_as_is_a_network_of_ipv6(void **data)
{
    struct fixture *fixture = *data;
    fixture->auth->attempts.failures_per_min = 1;
    assert_true(fails(fixture, "127.0.0.1"));
    assert_false(fails(fixture, "127.9.9.9"));
    assert_false(fails(fixture, "::1"));
    assert_true(fails(fixture, "2001:db8::1"));
    assert_false(fails(fixture, "2001:db8::2"));
    assert_true(fails(fixture, "2001:db8:0:1::1"));
}

static void sources_without_end_are_counted_in_a_table_of_fixed_size(void **data)
{
    struct fixture *fixture = *data;
    for (int i = 0; i < 5000; i++) {
        char address[32];
        snprintf(address, sizeof(address), "10.0.%d.%d", i / 250, i % 250);
        assert_true(fails(fixture, address));
    }
    assert_true(fixture->auth->attempts.suppressed > 0);
}

struct tally {
    struct audit_listener listener;
    unsigned events;
    int64_t suppressed;
};

static void on_event(struct audit_listener *listener, struct kg_str line, enum audit_event event)
{
    struct tally *tally = KG_CONTAINER(listener, struct tally, listener);
    struct kg_str raw;
    int64_t count = 0;
    if (event != AUDIT_AUTH_FAILED)
        return;
    assert_true(kg_json_member(line, "suppressed", &raw) && kg_str_to_int(raw, &count));
    tally->events++;
    tally->suppressed += count;
}

static void failures_that_are_not_told_are_counted_in_the_audit_log(void **data)
{
    struct fixture *fixture = *data;
    struct tally tally = {.listener = {.on_event = on_event}};
    audit_listen(fixture->audit, &tally.listener);
    for (int i = 0; i < 500; i++)
        fails(fixture, "192.0.2.1");
    http_attempts_close(&fixture->auth->attempts);
    audit_unlisten(fixture->audit, &tally.listener);
    assert_in_range(tally.events, 2, 22); /* ten in a second, and the rest */
    assert_int_equal(tally.events + tally.suppressed, 500);
}

/* -- the door ---------------------------------------------------------------------------------- */

#define CI    HOST "Authorization: Bearer kgd_ci\r\n"
#define ADMIN HOST "Authorization: Bearer kgd_admin\r\n"
#define WEB   HOST "Cookie: a=b; kaged_session=s3cret\r\n"

static void requests_are_let_in_or_not(void **data)
{
    static const struct {
        int status;
        const char *line, *headers;
    } rows[] = {
        {200, "GET /open", HOST},
        {401, "GET /who", HOST},
        {401, "GET /nowhere", HOST},
        {401, "POST /who", HOST},
        {200, "GET /who", CI},
        {404, "GET /nowhere", CI},
        {405, "POST /who", CI},
        {200, "GET /read", CI},
        {403, "POST /write", CI "Content-Length: 0\r\n"},
        {403, "GET /admin", CI},
        {200, "GET /admin", ADMIN},
        {200, "POST /write", ADMIN "Content-Length: 0\r\n"},
        {200, "GET /read", HOST "authorization: bearer kgd_ci\r\n"},
        {401, "GET /read", HOST "Authorization: Bearer kgd_old\r\n"},
        {401, "GET /read", HOST "Authorization: Bearer kgd_c\r\n"},
        {401, "GET /read", HOST "Authorization: Bearer \r\n"},
        {401, "GET /read", HOST "Authorization: Basic kgd_ci\r\n"},
        {401, "GET /read", CI "Authorization: Bearer kgd_admin\r\n"},
        {401, "GET /read", HOST "Authorization: Bearer s3cret\r\n"},
        {401, "GET /read", HOST "Cookie: kaged_session=kgd_admin\r\n"},
        {401, "GET /read", WEB "Authorization: Bearer wrong\r\n"},
        {200, "GET /read", WEB},
        {401, "GET /read", HOST "Cookie: xkaged_session=s3cret\r\n"},
        {401, "GET /read", HOST "Cookie: kaged_session=\r\n"},
        {401, "GET /read", HOST "X-Kaged-User-Id: eve\r\nX-Kaged-Auth-Nonce: " NONCE "\r\n"},
        {403, "GET /read", "Host: evil.example\r\nAuthorization: Bearer kgd_ci\r\n"},
        {403, "GET /open", "Host: 127.0.0.1.evil.example\r\n"},
        {403, "GET /open", "Host: 127.0.0.2\r\n"},
        {200, "GET /open", "Host: localhost:7777\r\n"},
        {200, "GET /open", "Host: LOCALHOST\r\n"},
        {200, "GET /open", "Host: kaged.example:443\r\n"},
        {200, "GET /read", CI "Origin: http://127.0.0.1\r\n"},
        {403, "GET /read", CI "Origin: http://127.0.0.1:3000\r\n"},
        {403, "GET /read", CI "Origin: http://localhost\r\n"},
        {403, "GET /open", HOST "Origin: null\r\n"},
        {403, "GET /open", HOST "Origin: http://127.0.0.1\r\nOrigin: http://evil.example\r\n"},
        {403, "GET /read", CI "Sec-Fetch-Site: cross-site\r\n"},
        {403, "GET /read", CI "Sec-Fetch-Site: same-site\r\n"},
        {200, "GET /read", CI "Sec-Fetch-Site: same-origin\r\n"},
        {200, "GET /open", HOST "Sec-Fetch-Site: cross-site\r\n"},
    };
    struct fixture *fixture = *data;
    add_token(fixture, "ci", "kgd_ci", "plugins:read", 0);
    add_token(fixture, "admin", "kgd_admin", "admin", 0);
    add_token(fixture, "old", "kgd_old", "admin", kg_wall_ms() - 1);
    add_session(fixture, "s3cret");
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        int status = status_of(fixture, rows[i].line, rows[i].headers);
        if (status != rows[i].status)
            fail_msg("%s with %s is answered %d, not %d", rows[i].line, rows[i].headers, status,
                     rows[i].status);
    }
}

static void session_needs_its_csrf_token_for_all_that_is_not_reading(void **data)
{
    struct fixture *fixture = *data;
    char right[HTTP_SECRET_TEXT], other[HTTP_SECRET_TEXT];
    add_session(fixture, "s3cret");
    http_auth_csrf(KG_STR("s3cret"), right);
    http_auth_csrf(KG_STR("another"), other);
    kg_auto(kg_free) char *with = kg_format(WEB "X-Kaged-CSRF: %s\r\n", right);
    kg_auto(kg_free) char *wrong = kg_format(WEB "X-Kaged-CSRF: %s\r\n", other);
    const char *const lines[] = {"GET /call", "POST /write"};
    for (size_t i = 0; i < KG_COUNT(lines); i++) {
        assert_int_equal(status_of(fixture, lines[i], WEB), 403);
        assert_int_equal(status_of(fixture, lines[i], wrong), 403);
        assert_int_equal(status_of(fixture, lines[i], with), 200);
    }
    kg_auto(kg_buf_free) struct kg_buf answer = {0};
    assert_int_equal(ask(fixture, "GET /session", WEB, &answer), 200);
    assert_non_null(strstr(kg_buf_terminate(&answer), right));
}

static void refused_requests_get_429_and_right_ones_still_pass(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf answer = {0};
    add_token(fixture, "ci", "kgd_ci", "plugins:read", 0);
    fixture->auth->attempts.failures_per_min = 2;
    assert_int_equal(status_of(fixture, "GET /who", HOST), 401);
    assert_int_equal(status_of(fixture, "GET /who", HOST), 401);
    assert_int_equal(ask(fixture, "GET /who", HOST, &answer), 429);
    assert_non_null(strstr(kg_buf_terminate(&answer), "\r\nRetry-After: "));
    assert_int_equal(status_of(fixture, "GET /who", CI), 200);
}

static void token_without_the_scope_does_not_count_as_a_failed_login(void **data)
{
    struct fixture *fixture = *data;
    add_token(fixture, "ci", "kgd_ci", "plugins:read", 0);
    fixture->auth->attempts.failures_per_min = 2;
    for (int i = 0; i < 5; i++)
        assert_int_equal(status_of(fixture, "GET /admin", CI), 403);
    assert_int_equal(status_of(fixture, "GET /who", HOST), 401);
    assert_int_equal(status_of(fixture, "GET /who", HOST), 401);
    assert_int_equal(status_of(fixture, "GET /who", HOST), 429);
    assert_int_equal(status_of(fixture, "GET /admin", CI), 403);
}

static void head_does_not_use_the_launch_url_up(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf url = {0}, answer = {0};
    http_launch_make(fixture->auth, "", "eve", &url, NULL);
    kg_auto(kg_free) char *head = kg_format("HEAD %s", kg_buf_terminate(&url));
    kg_auto(kg_free) char *get = kg_format("GET %s", kg_buf_terminate(&url));
    assert_int_equal(status_of(fixture, head, HOST), 200);
    assert_int_equal(ask(fixture, get, HOST, &answer), 303);
    assert_non_null(strstr(kg_buf_terminate(&answer), "\r\nSet-Cookie: kaged_session="));
    assert_int_equal(status_of(fixture, get, HOST), 401);
}

static void proxy_must_know_the_nonce_and_name_one_user(void **data)
{
#define RIGHT HOST "X-Kaged-Auth-Nonce: " NONCE "\r\n"
    static const struct {
        int status;
        const char *headers;
    } rows[] = {
        {200, RIGHT "X-Kaged-User-Id: bob@example.org\r\n"},
        {401, RIGHT},
        {401, RIGHT "X-Kaged-User-Id: \r\n"},
        {401, RIGHT "X-Kaged-User-Id: bob\r\nX-Kaged-User-Id: root\r\n"},
        {401, RIGHT "X-Kaged-User-Id: \xFF\r\n"},
        {401, HOST "X-Kaged-User-Id: bob\r\n"},
        {401, HOST "X-Kaged-User-Id: bob\r\nX-Kaged-Auth-Nonce: 0123\r\n"},
        {401, RIGHT "X-Kaged-User-Id: bob\r\nX-Kaged-Auth-Nonce: x\r\n"},
        {401, HOST "Authorization: Bearer kgd_ci\r\n"},
    };
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf answer = {0};
    add_token(fixture, "ci", "kgd_ci", "admin", 0);
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        int status = ask(fixture, "GET /admin", rows[i].headers, &answer);
        if (status != rows[i].status)
            fail_msg("%s is answered %d, not %d", rows[i].headers, status, rows[i].status);
        if (status == 200)
            assert_non_null(strstr(kg_buf_terminate(&answer), "\r\n\r\nbob@example.org"));
    }
}

static void insecure_lets_everybody_in_but_other_pages_and_says_so(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf answer = {0};
    assert_int_equal(ask(fixture, "GET /admin", HOST, &answer), 200);
    assert_non_null(strstr(kg_buf_terminate(&answer), "\r\nX-Kaged-Warning: "));
    assert_non_null(strstr(kg_buf_terminate(&answer), "\r\n\r\nnobody"));
    assert_int_equal(ask(fixture, "GET /admin", "Host: evil.example\r\n", &answer), 403);
    assert_non_null(strstr(kg_buf_terminate(&answer), "\r\nX-Kaged-Warning: "));
    assert_int_equal(status_of(fixture, "GET /call", HOST "Sec-Fetch-Site: cross-site\r\n"), 403);
}

static void short_nonce_is_refused(void **data)
{
    struct fixture *fixture = *data;
    const struct http_auth_options options = {
        .keeper = fixture->keeper,
        .audit = fixture->audit,
        .launch_file = fixture->launch,
        .mode = HTTP_AUTH_PROXY,
        .nonce = KG_STR("secret"),
    };
    const struct http_auth_limits limits = {.hosts = fixture->hosts};
    assert_null(http_auth_new(fixture->loop, &options, &limits, &fixture->err));
    assert_int_equal(fixture->err.code, KG_E_INVALID_CONFIG);
    assert_null(strstr(fixture->err.message, "secret\""));
}

/* -- binding ----------------------------------------------------------------------------------- */

static int try_bind(struct fixture *fixture, const char *bind)
{
    const struct http_limits limits = {65536, 65536, 16, 60000};
    struct http_server *server =
        http_server_new(fixture->loop, NULL, &limits, routes, KG_COUNT(routes));
    bool freed = false;
    http_server_set_auth(server, fixture->auth);
    int result = http_server_listen_tcp(server, bind, &fixture->err);
    assert_true((result == 0) == (http_server_address(server) != NULL));
    http_server_free(server, on_freed, &freed);
    assert_true(loop_run_until(fixture->loop, is_true, &freed, WAIT_MS));
    return result;
}

static void only_addresses_of_this_machine_are_bound(void **data)
{
    static const char *const bad[] = {
        "127.0.0.1",   "127.0.0.1:",      "127.0.0.1:65536", "127.0.0.1:-1",      ":7777",
        "::1:7777",    "[127.0.0.1:7777", "[::1]",           "example.org:7777",  "0.0.0.0:0",
        "192.0.2.1:0", "[::]:0",          "[2001:db8::1]:0", "[::ffff:7f00:1]:0",
    };
    struct fixture *fixture = *data;
    assert_int_equal(try_bind(fixture, "127.0.0.1:0"), 0);
    assert_int_equal(try_bind(fixture, "localhost:0"), 0);
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        if (try_bind(fixture, bad[i]) == 0)
            fail_msg("%s was bound", bad[i]);
        assert_int_equal(fixture->err.code, KG_E_INVALID_CONFIG);
        assert_true(fixture->err.hint[0] != '\0');
    }
}

static void busy_port_is_named(void **data)
{
    struct fixture *fixture = *data;
    const char *taken = http_server_address(fixture->server);
    assert_int_equal(try_bind(fixture, taken), -EADDRINUSE);
    assert_non_null(strstr(fixture->err.message, taken));
}

#define TEST(name)          cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_PROXY(name)    cmocka_unit_test_setup_teardown(name, set_up_proxy, tear_down)
#define TEST_INSECURE(name) cmocka_unit_test_setup_teardown(name, set_up_insecure, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_route_asks_for_a_scope_that_there_is),
        cmocka_unit_test(only_what_is_harmless_is_open),
        cmocka_unit_test(scopes_read_back_as_they_were_written),
        cmocka_unit_test(unknown_scope_is_refused_with_the_nearest),
        cmocka_unit_test(only_admin_has_what_was_not_given),
        TEST(secrets_differ_and_fit_a_url),
        TEST(token_is_found_by_its_secret_also_after_a_restart),
        TEST(secret_is_not_in_the_database),
        TEST(what_the_disk_refuses_has_not_happened),
        TEST(two_tokens_cannot_have_one_name),
        TEST(the_oldest_session_goes_when_there_are_too_many),
        TEST(launch_url_works_once_and_its_file_goes),
        TEST(launch_url_that_waits_is_given_again_to_the_same_operator_only),
        TEST(launch_url_expires_after_a_day),
        TEST(file_in_the_way_of_the_launch_url_is_replaced_not_followed),
        TEST(one_source_in_one_minute_may_fail_so_often),
        TEST(all_of_this_machine_is_one_source_as_is_a_network_of_ipv6),
        TEST(sources_without_end_are_counted_in_a_table_of_fixed_size),
        TEST(failures_that_are_not_told_are_counted_in_the_audit_log),
        TEST(requests_are_let_in_or_not),
        TEST(session_needs_its_csrf_token_for_all_that_is_not_reading),
        TEST(refused_requests_get_429_and_right_ones_still_pass),
        TEST(token_without_the_scope_does_not_count_as_a_failed_login),
        TEST(head_does_not_use_the_launch_url_up),
        TEST_PROXY(proxy_must_know_the_nonce_and_name_one_user),
        TEST_INSECURE(insecure_lets_everybody_in_but_other_pages_and_says_so),
        TEST(short_nonce_is_refused),
        TEST(only_addresses_of_this_machine_are_bound),
        TEST(busy_port_is_named),
    };
    return cmocka_run_group_tests_name("auth", tests, NULL, NULL);
}
