/*
 * A plugin's storage in its real cage, without a daemon: what the helper behind it does with
 * requests that come while its process is being closed.
 */
#include "storage/storage.h"
#include "world.h"

#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#define STATEMENT_MS 8000

static struct world *world;
static struct storage_place place;
static struct loop_worker *worker;

struct heard {
    struct storage *storage;
    unsigned results, errors, wanted;
    bool closed;
};

static void on_damaged(void *data, const char *moved_to)
{
    (void)data;
    fail_msg("damaged: %s", moved_to);
}

static void on_closed(void *data)
{
    ((struct heard *)data)->closed = true;
}

static void on_done(void *data, enum storage_outcome outcome, struct kg_str payload)
{
    struct heard *heard = data;
    (void)payload;
    ++*(outcome == STORAGE_RESULT ? &heard->results : &heard->errors);
}

static bool has_heard(void *data)
{
    const struct heard *heard = data;
    return heard->results + heard->errors == heard->wanted;
}

static bool is_closed(void *data)
{
    return ((struct heard *)data)->closed;
}

static void ask(struct heard *heard, const char *method, const char *params)
{
    struct kg_err err = {0};
    const struct storage_request request = {
        .method = method, .params = kg_str(params), .on_done = on_done, .data = heard};
    if (storage_ask(heard->storage, &request, &err) < 0)
        fail_msg("%s", err.message);
    heard->wanted++;
}

static void open_storage(struct heard *heard, const char *name)
{
    static const struct storage_ops ops = {on_damaged, on_closed};
    heard->storage = storage_new(&place, name, &ops, heard);
    ask(heard, "exec", "{\"sql\":\"CREATE TABLE t (a)\"}");
    assert_true(loop_run_until(world->loop, has_heard, heard, WORLD_WAIT_MS));
}

static void close_storage(struct heard *heard)
{
    storage_close(heard->storage);
    assert_true(loop_run_until(world->loop, is_closed, heard, WORLD_WAIT_MS));
    assert_false(storage_facts(heard->storage).running);
    storage_free(heard->storage);
}

/* They held the process open until it was killed for the time that the first of them waited. */
static void requests_that_come_before_a_copy_is_made_wait_for_it(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct heard heard = {0};
    kg_auto(kg_free) char *copy = kg_format("%s/copy.db", place.dir);
    open_storage(&heard, "copied");
    ask(&heard, "exec", "{\"sql\":\"INSERT INTO t VALUES (1)\"}");
    assert_int_equal(storage_export(heard.storage, copy, worker, on_done, &heard, &err), 0);
    heard.wanted++;
    ask(&heard, "query", "{\"sql\":\"SELECT a FROM t\"}");
    assert_true(loop_run_until(world->loop, has_heard, &heard, WORLD_WAIT_MS));
    assert_int_equal(heard.results, 4);
    assert_int_equal(access(copy, F_OK), 0);
    close_storage(&heard);
}

static void what_was_asked_before_the_end_is_answered(void **state)
{
    (void)state;
    struct heard heard = {0};
    open_storage(&heard, "closed");
    ask(&heard, "exec", "{\"sql\":\"INSERT INTO t VALUES (2)\"}");
    ask(&heard, "query", "{\"sql\":\"SELECT nothing\"}");
    close_storage(&heard);
    assert_int_equal(heard.results, 2);
    assert_int_equal(heard.errors, 1);
}

/* -- the suite --------------------------------------------------------------------------------- */

static int make_world(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    world = world_new();
    worker = loop_worker_new(world->loop, "copies");
    place = (struct storage_place){
        .loop = world->loop,
        .spawner = world->spawner,
        .facts = world->facts,
        .dir = world->folder,
        .limits =
            {
                .size_bytes = 1 << 24,
                .statement_ms = STATEMENT_MS,
                .rows_max = 100,
                .result_bytes = 1 << 20,
                .line_bytes = 1 << 20,
                .sql_bytes = 1 << 16,
                .value_bytes = 1 << 16,
                .depth = 100,
                .variables = 100,
                .requests_max = 16,
                .idle_ms = 60000,
            },
    };
    return 0;
}

static int free_world(void **state)
{
    (void)state;
    loop_worker_free(worker);
    world_free(world);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_that_come_before_a_copy_is_made_wait_for_it),
        cmocka_unit_test(what_was_asked_before_the_end_is_answered),
    };
    return cmocka_run_group_tests_name("cage storage", tests, make_world, free_world);
}
