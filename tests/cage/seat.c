/* A plugin in its cage without a daemon: what goes in and out, and that nothing of it is left. */
#include "kit/internal.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 60000

struct world {
    struct config_paths paths;
    struct config *config;
    struct manifest *manifest;
    struct kit_room *room;
    struct kg_buf lines; /* what the plugin said */
    size_t count;
    bool cut, too_long;
};

static void on_line(void *data, struct kg_str line)
{
    struct world *world = data;
    kg_buf_str(&world->lines, line);
    kg_buf_char(&world->lines, '\n');
    world->count++;
}

static void on_cut(void *data, struct kg_str line, bool too_long)
{
    struct world *world = data;
    on_line(data, line);
    world->cut = true;
    world->too_long = too_long;
}

static const struct kit_seat_ops ops = {.on_line = on_line, .on_cut = on_cut};

static struct world *world_new(const char *plugin)
{
    struct kg_err err = {0};
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct world *world = kg_alloc(sizeof(*world));
    kg_auto(kg_free) char *dir = kg_format("%s/%s", TEST_PLUGINS, plugin);
    assert_int_equal(config_paths_find("/nowhere/kaged", &world->paths, &err), 0);
    world->config = config_load(world->paths.config_file, &err);
    world->manifest = manifest_load(dir, &problems);
    assert_non_null(world->manifest);
    const struct kit_room_parts parts = {world->manifest, dir, world->config, &world->paths};
    world->room = kit_room_new(&parts, &err);
    if (world->room == NULL)
        fail_msg("%s", err.message);
    return world;
}

static void world_free(struct world *world)
{
    kg_auto(kg_free) char *folder = kg_strdup(world->room->paths.home);
    kit_room_free(world->room);
    assert_int_equal(access(folder, F_OK), -1);
    manifest_free(world->manifest);
    config_free(world->config);
    config_paths_free(&world->paths);
    kg_buf_free(&world->lines);
    free(world);
}

static struct kit_seat *sit(struct world *world)
{
    struct kg_err err = {0};
    struct kit_seat *seat = kit_seat_new(world->room, &ops, world, &err);
    if (seat == NULL)
        fail_msg("%s", err.message);
    return seat;
}

static bool has_line(void *data)
{
    return ((struct world *)data)->count > 0;
}

static void ask(struct world *world, struct kit_seat *seat, const char *line)
{
    world->lines.length = world->count = 0;
    assert_int_equal(peer_say(seat->peer, kg_str(line), NULL), 0);
    assert_true(kit_room_wait(world->room, has_line, world, WAIT_MS));
}

static void lines_go_in_and_come_out(void **state)
{
    (void)state;
    struct world *world = world_new("good-python");
    struct kit_seat *seat = sit(world);
    ask(world, seat, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}");
    assert_string_equal(kg_buf_terminate(&world->lines),
                        "{\"jsonrpc\": \"2.0\", \"id\": 7, \"result\": {\"status\": \"ok\"}}\n");
    peer_close_input(seat->peer);
    assert_true(kit_seat_wait_exit(seat, WAIT_MS));
    assert_int_equal(helper_child_exit(seat->child)->exit_code, 0);
    kit_seat_free(seat);
    world_free(world);
}

static void line_past_the_bound_is_cut_and_marked(void **state)
{
    (void)state;
    struct world *world = world_new("long-line");
    struct kit_seat *seat = sit(world);
    ask(world, seat, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"work.do\"}");
    assert_true(world->cut && world->too_long);
    assert_int_equal(world->lines.length, (4 << 20) + 1);
    kit_seat_free(seat);
    world_free(world);
}

static bool has_said(void *data)
{
    return peer_counters(data).bytes_in > 0;
}

static void line_without_its_end_is_told_at_the_end(void **state)
{
    (void)state;
    struct world *world = world_new("half-line");
    struct kit_seat *seat = sit(world);
    struct peer *peer = seat->peer;
    struct kg_str request =
        KG_STR("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"half.send\",\"params\":{\"bytes\":5}}");
    assert_int_equal(peer_say(peer, request, NULL), 0);
    assert_true(kit_room_wait(world->room, has_said, peer, WAIT_MS));
    helper_child_signal(seat->child, SIGKILL);
    assert_true(kit_seat_wait_exit(seat, WAIT_MS));
    assert_true(world->cut && !world->too_long);
    assert_string_equal(kg_buf_terminate(&world->lines),
                        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"xxxxx\n");
    kit_seat_free(seat);
    world_free(world);
}

static void words_on_stderr_and_the_exit_code_are_kept(void **state)
{
    (void)state;
    struct world *world = world_new("last-words");
    struct kit_seat *seat = sit(world);
    assert_int_equal(
        peer_say(seat->peer, KG_STR("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"work.do\"}"), NULL),
        0);
    assert_true(kit_seat_wait_exit(seat, WAIT_MS));
    kg_auto(kg_free) char *errors = kg_str_dup(helper_child_errors(seat->child));
    assert_non_null(strstr(errors, "FATAL: the reason"));
    assert_int_equal(helper_child_exit(seat->child)->exit_code, 3);
    kit_seat_free(seat);
    world_free(world);
}

static void project_and_storage_are_the_rooms_own(void **state)
{
    (void)state;
    struct world *world = world_new("remembers");
    kg_auto(kg_free) char *docs = kg_format("%s/docs", kit_room_project_root(world->room));
    assert_int_equal(access(docs, F_OK), 0);
    struct kit_seat *first = sit(world), *second = sit(world);
    assert_null(helper_child_exit(first->child));
    assert_non_null(kit_room_storage(world->room));
    kit_seat_free(first);
    kit_seat_free(second);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_go_in_and_come_out),
        cmocka_unit_test(line_past_the_bound_is_cut_and_marked),
        cmocka_unit_test(line_without_its_end_is_told_at_the_end),
        cmocka_unit_test(words_on_stderr_and_the_exit_code_are_kept),
        cmocka_unit_test(project_and_storage_are_the_rooms_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
