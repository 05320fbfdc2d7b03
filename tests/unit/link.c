/*
 * Connections between nodes: two kaged-links on loopback. Who is of another cluster, or not who he
 * should be, does not get in; bytes pass whole, at the pace of who reads, and each side hears of
 * the other's end.
 */
#include "cluster/link.h"
#include "base/json/json.h"
#include "cluster/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 20000
#define MUCH        ((size_t)3 << 20)

struct node {
    struct link_keys keys;
    struct link *link;
    int came; /* the last connection that came, or -1 */
    char from[LINK_NODE_MAX + 1];
    int refused;
    char words[200];
    int made; /* the one that was made, or -1 */
    struct kg_err err;
    bool done;
};

struct world {
    struct loop *loop;
    struct node a, b;
};

/* -- a world ----------------------------------------------------------------------------------- */

static void node_on_came(void *data, int fd, const char *from)
{
    struct node *node = data;
    kg_close(&node->came);
    node->came = fd;
    snprintf(node->from, sizeof(node->from), "%s", from);
}

static void node_on_refused(void *data, const char *address, const char *words)
{
    struct node *node = data;
    assert_non_null(strstr(address, "127.0.0.1:"));
    node->refused++;
    snprintf(node->words, sizeof(node->words), "%s", words);
}

static void node_on_made(void *data, int fd, const struct kg_err *err_or_null)
{
    struct node *node = data;
    node->made = fd;
    node->err = err_or_null != NULL ? *err_or_null : (struct kg_err){0};
    node->done = true;
}

static void keys_sign(const struct link_keys *by, const char *name, struct link_keys *keys)
{
    struct kg_err err = {0};
    struct kg_buf request = {0};
    kg_buf_str(&keys->authority, kg_buf_view(&by->authority));
    memcpy(keys->cluster_key, by->cluster_key, sizeof(keys->cluster_key));
    assert_int_equal(link_keys_request(name, &request, &keys->key, &err), 0);
    assert_int_equal(link_keys_sign(by, name, kg_buf_view(&request), &keys->certificate, &err), 0);
    kg_buf_free(&request);
}

static void node_start(struct world *world, struct node *node, const char *name)
{
    struct kg_err err = {0};
    const struct link_options options = {
        .loop = world->loop,
        .node = name,
        .listen = "127.0.0.1:0",
        .keys = &node->keys,
        .on_came = node_on_came,
        .on_refused = node_on_refused,
        .data = node,
    };
    node->came = node->made = -1;
    node->link = link_new(&options, &err);
    if (node->link == NULL)
        fail_msg("%s", err.message);
}

static int world_begin(void **state)
{
    struct world *world = kg_alloc(sizeof(*world));
    struct kg_err err = {0};
    signal(SIGPIPE, SIG_IGN);
    world->loop = loop_new();
    if (link_keys_make("a", &world->a.keys, &err) < 0)
        fail_msg("%s", err.message);
    keys_sign(&world->a.keys, "b", &world->b.keys);
    node_start(world, &world->a, "a");
    node_start(world, &world->b, "b");
    *state = world;
    return 0;
}

static void node_end(struct node *node)
{
    link_free(node->link);
    kg_close(&node->came);
    kg_close(&node->made);
    link_keys_free(&node->keys);
}

static bool never(void *data)
{
    (void)data;
    return false;
}

static int world_end(void **state)
{
    struct world *world = *state;
    node_end(&world->a);
    node_end(&world->b);
    loop_run_until(world->loop, never, NULL, 10);
    loop_free(world->loop);
    free(world);
    return 0;
}

static bool node_is_done(void *data)
{
    return ((struct node *)data)->done;
}

static bool node_was_reached(void *data)
{
    const struct node *node = data;
    return node->came >= 0 || node->refused > 0;
}

/* a connects to that address, and waits for what comes of it. */
static void world_connect(struct world *world, const char *name, const char *address)
{
    world->a.done = false;
    kg_close(&world->a.made);
    link_connect(world->a.link, name, address, node_on_made, &world->a);
    assert_true(loop_run_until(world->loop, node_is_done, &world->a, PATIENCE_MS));
}

static void world_join(struct world *world)
{
    world_connect(world, "b", link_address(world->b.link));
    if (world->a.made < 0)
        fail_msg("%s", world->a.err.message);
    assert_true(loop_run_until(world->loop, node_was_reached, &world->b, PATIENCE_MS));
    assert_string_equal(world->b.from, "a");
}

/* Both are in processes of their own: reading may wait. */
static void block(int fd)
{
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
}

static void read_exactly(int fd, const char *text)
{
    char got[64] = "";
    for (size_t length = 0; length < strlen(text);) {
        ssize_t more = read(fd, got + length, strlen(text) - length);
        assert_true(more > 0);
        length += (size_t)more;
    }
    assert_string_equal(got, text);
}

/* -- who gets in ------------------------------------------------------------------------------- */

static void bytes_pass_between_two_nodes(void **state)
{
    struct world *world = *state;
    world_join(world);
    block(world->a.made);
    block(world->b.came);
    assert_int_equal(write(world->a.made, "hello", 5), 5);
    read_exactly(world->b.came, "hello");
    assert_int_equal(write(world->b.came, "and back", 8), 8);
    read_exactly(world->a.made, "and back");
}

static void a_node_of_another_cluster_does_not_get_in(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    link_free(world->b.link);
    link_keys_free(&world->b.keys);
    world->b.keys = (struct link_keys){0};
    assert_int_equal(link_keys_make("b", &world->b.keys, &err), 0);
    node_start(world, &world->b, "b");
    world_connect(world, "b", link_address(world->b.link));
    assert_int_equal(world->a.made, -1);
    assert_int_equal(world->a.err.code, KG_E_NODE_AWAY);
    assert_non_null(strstr(world->a.err.message, "the node b cannot be reached"));
    assert_non_null(strstr(world->a.err.message, "its certificate: "));
    assert_int_equal(world->b.came, -1);
}

/* TLS 1.3 lets a client believe that it is in before the server has seen its certificate. */
static void a_stranger_who_connects_is_refused_and_told_of(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct link_keys ours = world->b.keys;
    struct link_keys other = {0};
    assert_int_equal(link_keys_make("a", &other, &err), 0);
    link_free(world->a.link);
    /* It believes in the cluster, but has a certificate of its own. */
    link_keys_free(&world->a.keys);
    world->a.keys = other;
    world->a.keys.authority = (struct kg_buf){0};
    kg_buf_str(&world->a.keys.authority, kg_buf_view(&ours.authority));
    link_wipe(&other.authority);
    node_start(world, &world->a, "a");
    link_connect(world->a.link, "b", link_address(world->b.link), node_on_made, &world->a);
    assert_true(loop_run_until(world->loop, node_was_reached, &world->b, PATIENCE_MS));
    assert_int_equal(world->b.refused, 1);
    assert_non_null(strstr(world->b.words, "certificate"));
    assert_int_equal(world->b.came, -1);
}

static void another_node_at_that_address_is_not_believed(void **state)
{
    struct world *world = *state;
    world_connect(world, "c", link_address(world->b.link));
    assert_int_equal(world->a.made, -1);
    assert_non_null(strstr(world->a.err.message, "its certificate is of the node \"b\""));
}

static void nobody_at_the_address_is_said_at_once(void **state)
{
    struct world *world = *state;
    kg_auto(kg_free) char *gone = kg_strdup(link_address(world->b.link));
    link_free(kg_steal(&world->b.link));
    world_connect(world, "b", gone);
    assert_non_null(strstr(world->a.err.message, "Connection refused"));
    world_connect(world, "b", "not an address");
    assert_non_null(strstr(world->a.err.message, "not an address and a port"));
}

/* What is no TLS at all, and one who says nothing. */
static void noise_is_refused_and_silence_does_not_keep_others_out(void **state)
{
    struct world *world = *state;
    const char *port = strrchr(link_address(world->b.link), ':') + 1;
    struct sockaddr_in place;
    uv_ip4_addr("127.0.0.1", atoi(port), &place);
    kg_auto(kg_close) int noisy = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    kg_auto(kg_close) int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(silent, (struct sockaddr *)&place, sizeof(place)), 0);
    assert_int_equal(connect(noisy, (struct sockaddr *)&place, sizeof(place)), 0);
    assert_int_equal(write(noisy, "GET / HTTP/1.1\r\n\r\n", 18), 18);
    assert_true(loop_run_until(world->loop, node_was_reached, &world->b, PATIENCE_MS));
    assert_int_equal(world->b.refused, 1);
    assert_non_null(strstr(world->b.words, "TLS"));
    world->b.refused = 0;
    world_join(world);
}

/* -- bytes ------------------------------------------------------------------------------------- */

/* Writes until the other side takes no more. */
static size_t fill(int fd)
{
    static const char piece[65536];
    size_t all = 0;
    int quiet = 0;
    while (all < ((size_t)256 << 20) && quiet < 20) {
        ssize_t sent = write(fd, piece, sizeof(piece));
        all += sent > 0 ? (size_t)sent : 0;
        quiet = sent > 0 ? 0 : quiet + 1;
        if (sent < 0)
            usleep(10000);
    }
    return all;
}

static void a_slow_reader_holds_the_writer_back_and_loses_nothing(void **state)
{
    struct world *world = *state;
    static char piece[65536];
    world_join(world);
    size_t sent = fill(world->a.made), got = 0;
    assert_true(sent < ((size_t)64 << 20)); /* what sockets hold, and no more */
    assert_int_equal(shutdown(world->a.made, SHUT_WR), 0);
    block(world->b.came);
    for (ssize_t more; (more = read(world->b.came, piece, sizeof(piece))) > 0;)
        got += (size_t)more;
    assert_int_equal(got, sent);
}

/* One side has said all, and still hears the other. */
static void the_end_of_one_direction_leaves_the_other(void **state)
{
    struct world *world = *state;
    char byte;
    world_join(world);
    block(world->a.made);
    block(world->b.came);
    assert_int_equal(write(world->a.made, "last", 4), 4);
    assert_int_equal(shutdown(world->a.made, SHUT_WR), 0);
    read_exactly(world->b.came, "last");
    assert_int_equal(read(world->b.came, &byte, 1), 0);
    assert_int_equal(write(world->b.came, "answer", 6), 6);
    read_exactly(world->a.made, "answer");
    kg_close(&world->b.came);
    assert_int_equal(read(world->a.made, &byte, 1), 0);
}

static void who_leaves_is_missed_at_the_other_end(void **state)
{
    struct world *world = *state;
    char byte;
    world_join(world);
    block(world->b.came);
    kg_close(&world->a.made);
    assert_int_equal(read(world->b.came, &byte, 1), 0);
}

static void much_passes_both_ways_at_once(void **state)
{
    struct world *world = *state;
    static char piece[16384], got[16384];
    size_t sent[2] = {0}, received[2] = {0};
    world_join(world);
    int ends[2] = {world->a.made, world->b.came};
    while (received[0] < MUCH || received[1] < MUCH)
        for (int i = 0; i < 2; i++) {
            for (size_t at = 0; at < sizeof(piece); at++)
                piece[at] = (char)((sent[i] + at) % 251 + (size_t)i);
            ssize_t more = sent[i] < MUCH ? write(ends[i], piece, sizeof(piece)) : 0;
            sent[i] += more > 0 ? (size_t)more : 0;
            more = read(ends[1 - i], got, sizeof(got));
            for (ssize_t at = 0; at < more; at++)
                if (got[at] != (char)((received[i] + (size_t)at) % 251 + (size_t)i))
                    fail_msg("byte %zu is another", received[i] + (size_t)at);
            received[i] += more > 0 ? (size_t)more : 0;
            assert_true(more > 0 || (more < 0 && errno == EAGAIN));
        }
    assert_int_equal(received[0], sent[0]);
    assert_int_equal(received[1], sent[1]);
}

/* -- keys -------------------------------------------------------------------------------------- */

static void keys_are_kept_for_the_operator_alone(void **state)
{
    struct kg_err err = {0};
    char folder[] = "/tmp/kg-link-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    kg_auto(kg_free) char *path = kg_path_join(folder, "keys");
    kg_auto(link_keys_free) struct link_keys made = {0}, read = {0};
    assert_int_equal(link_keys_read(path, &read, &err), 1);
    assert_int_equal(link_keys_make("a", &made, &err), 0);
    assert_int_equal(link_keys_write(path, &made, &err), 0);
    assert_int_equal(link_keys_read(path, &read, &err), 0);
    assert_true(kg_str_equal(kg_buf_view(&made.key), kg_buf_view(&read.key)));
    assert_memory_equal(made.cluster_key, read.cluster_key, sizeof(made.cluster_key));
    assert_int_equal(chmod(path, 0640), 0);
    assert_true(link_keys_read(path, &read, &err) < 0);
    assert_int_equal(err.code, KG_E_REFUSED);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void what_is_no_request_is_not_signed(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf certificate = {0};
    assert_true(link_keys_sign(&world->a.keys, "c", KG_STR("nonsense"), &certificate, &err) < 0);
    assert_non_null(strstr(err.message, "sign a certificate"));
}

/* -- who asks ---------------------------------------------------------------------------------- */

static const unsigned char cluster_key[LINK_KEY_BYTES] = {1, 2, 3};

static const struct identity somebody = {
    .via = {"token", 5},
    .operator_id = {"ann", 3},
    .principal = {"p1", 2},
    .credential_id = {"tok_1", 5},
    .scopes = UINT64_C(1) << 62 | 5,
};
static const struct identity_request asked = {
    .method = {"POST", 4}, .target = {"/api/v1/sessions/x/runs?a=b", 27}, .body_bytes = 17};

static int check_at(struct identities *at, const struct kg_buf *value, const char *from,
                    const struct identity_request *request, struct kg_err *err)
{
    struct identity got = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *text = NULL;
    int result = identity_check(at, kg_buf_view(value), from, request, &text, &got, err);
    if (result < 0)
        return result;
    assert_true(kg_str_is(got.operator_id, "ann") && kg_str_is(got.node, "a"));
    assert_true(kg_str_is(got.principal, "p1") && kg_str_is(got.via, "token"));
    assert_true(got.scopes == somebody.scopes);
    return 0;
}

static void refuse_at(struct identities *at, const struct kg_buf *value, const char *from,
                      const struct identity_request *request, const char *words)
{
    struct kg_err err = {0};
    assert_true(check_at(at, value, from, request, &err) < 0);
    assert_int_equal(err.code, KG_E_REFUSED);
    if (strstr(err.message, words) == NULL)
        fail_msg("%s", err.message);
}

static void an_identity_counts_once_where_it_was_made_for(void **state)
{
    struct identities *a = identities_new(cluster_key, "a"), *b = identities_new(cluster_key, "b");
    struct identities *c = identities_new(cluster_key, "c");
    kg_auto(kg_buf_free) struct kg_buf value = {0};
    struct identity_request other = asked;
    struct kg_err err = {0};
    (void)state;
    identity_sign(a, &somebody, &asked, "b", &value);
    refuse_at(c, &value, "a", &asked, "is for the node b, not for c");
    refuse_at(b, &value, "c", &asked, "is of the node a, and came from c");
    other.method = KG_STR("GET");
    refuse_at(b, &value, "a", &other, "not signed by this cluster for this request");
    other = asked;
    other.target = KG_STR("/api/v1/sessions/y/runs?a=b");
    refuse_at(b, &value, "a", &other, "not signed");
    other = asked;
    other.body_bytes = -1;
    refuse_at(b, &value, "a", &other, "not signed");
    assert_int_equal(check_at(b, &value, "a", &asked, &err), 0);
    refuse_at(b, &value, "a", &asked, "was used before");
    identities_free(a);
    identities_free(b);
    identities_free(c);
}

static void what_was_changed_or_is_missing_is_refused(void **state)
{
    static const unsigned char other_key[LINK_KEY_BYTES] = {9};
    struct identities *a = identities_new(cluster_key, "a"), *b = identities_new(cluster_key, "b");
    struct identities *stranger = identities_new(other_key, "a");
    kg_auto(kg_buf_free) struct kg_buf value = {0}, none = {0}, forged = {0};
    (void)state;
    refuse_at(b, &none, "a", &asked, "is missing");
    identity_sign(stranger, &somebody, &asked, "b", &forged);
    refuse_at(b, &forged, "a", &asked, "not signed by this cluster");
    identity_sign(a, &somebody, &asked, "b", &value);
    for (size_t i = 0; i < value.length; i += 7) {
        value.data[i] ^= 1;
        refuse_at(b, &value, "a", &asked, "X-Kaged-Identity is");
        value.data[i] ^= 1;
    }
    for (size_t length = 0; length < value.length; length += 11) {
        struct kg_buf cut = {.data = value.data, .length = length, .capacity = value.capacity};
        refuse_at(b, &cut, "a", &asked, "X-Kaged-Identity is malformed");
    }
    identities_free(a);
    identities_free(b);
    identities_free(stranger);
}

static void an_old_identity_is_refused_and_so_is_one_from_before_a_restart(void **state)
{
    int64_t now_ms = kg_wall_ms();
    kg_auto(kg_buf_free) struct kg_buf old = {0}, before = {0}, after = {0};
    struct kg_err err = {0};
    (void)state;
    kg_time_set(now_ms - 40000, -1);
    struct identities *a = identities_new(cluster_key, "a"), *b = identities_new(cluster_key, "b");
    identity_sign(a, &somebody, &asked, "b", &old);
    kg_time_set(now_ms, -1);
    identity_sign(a, &somebody, &asked, "b", &before);
    refuse_at(b, &old, "a", &asked, "from our clock");
    struct identities *again = identities_new(cluster_key, "a");
    identity_sign(again, &somebody, &asked, "b", &after);
    assert_int_equal(check_at(b, &after, "a", &asked, &err), 0);
    refuse_at(b, &before, "a", &asked, "was used before");
    kg_time_set(-1, -1);
    identities_free(a);
    identities_free(b);
    identities_free(again);
}

static void identities_may_arrive_in_any_order(void **state)
{
    enum { COUNT = 5000, WINDOW = 4096 };
    struct identities *a = identities_new(cluster_key, "a"), *b = identities_new(cluster_key, "b");
    static struct kg_buf values[COUNT];
    struct kg_err err = {0};
    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        identity_sign(a, &somebody, &asked, "b", &values[i]);
    for (size_t i = COUNT; i-- > COUNT - WINDOW;) /* the last first */
        assert_int_equal(check_at(b, &values[i], "a", &asked, &err), 0);
    for (size_t i = 0; i < COUNT; i += 97)
        refuse_at(b, &values[i], "a", &asked, "was used before");
    for (size_t i = 0; i < COUNT; i++)
        kg_buf_free(&values[i]);
    identities_free(a);
    identities_free(b);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, world_begin, world_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(bytes_pass_between_two_nodes),
        IN_WORLD(a_node_of_another_cluster_does_not_get_in),
        IN_WORLD(a_stranger_who_connects_is_refused_and_told_of),
        IN_WORLD(another_node_at_that_address_is_not_believed),
        IN_WORLD(nobody_at_the_address_is_said_at_once),
        IN_WORLD(noise_is_refused_and_silence_does_not_keep_others_out),
        IN_WORLD(a_slow_reader_holds_the_writer_back_and_loses_nothing),
        IN_WORLD(the_end_of_one_direction_leaves_the_other),
        IN_WORLD(who_leaves_is_missed_at_the_other_end),
        IN_WORLD(much_passes_both_ways_at_once),
        IN_WORLD(what_is_no_request_is_not_signed),
        cmocka_unit_test(keys_are_kept_for_the_operator_alone),
        cmocka_unit_test(an_identity_counts_once_where_it_was_made_for),
        cmocka_unit_test(what_was_changed_or_is_missing_is_refused),
        cmocka_unit_test(an_old_identity_is_refused_and_so_is_one_from_before_a_restart),
        cmocka_unit_test(identities_may_arrive_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
