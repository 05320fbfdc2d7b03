/* The store: jobs off the loop, and nothing that was told to be done is ever lost. */
#include "session_world.h"
#include "state_place.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 60000

struct fixture {
    struct session_world *world;
    struct loop *loop;
    struct session_store *store;
    size_t done;
};

static int set_up(void **data)
{
    struct fixture *fixture = kg_alloc(sizeof(*fixture));
    session_world_new((void **)&fixture->world);
    fixture->loop = loop_new();
    fixture->store = session_store_new(fixture->loop, fixture->world->path, &fixture->world->err);
    assert_non_null(fixture->store);
    *data = fixture;
    return 0;
}

static int tear_down(void **data)
{
    struct fixture *fixture = *data;
    session_store_free(fixture->store);
    loop_free(fixture->loop);
    session_world_free((void **)&fixture->world);
    free(fixture);
    return 0;
}

/* Appends one message; its content is its number and as many letters. */
struct append {
    struct session_job job;
    struct fixture *fixture;
    size_t number;
    struct session_added added;
    char session[KG_ID_MAX];
    enum kg_code code;
    bool fails_late; /* after it has written */
};

static void write_content(size_t number, struct kg_buf *buf)
{
    size_t letters = number * 37 % 3000;
    kg_buf_printf(buf, "{\"n\":%zu,\"x\":\"", number);
    for (size_t i = 0; i < letters; i++)
        kg_buf_char(buf, (char)('a' + (number + i) % 26));
    kg_buf_text(buf, "\"}");
}

static int run_append(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct append *append = KG_CONTAINER(job, struct append, job);
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    write_content(append->number, &content);
    const struct session_draft draft = {.agent = "primary",
                                        .kind = SESSION_MESSAGE,
                                        .role = SESSION_USER,
                                        .content = kg_buf_view(&content)};
    int result = session_append(state, append->session, &draft, 1, &append->added, err);
    if (result == 0 && append->fails_late)
        return kg_fail(err, KG_E_REFUSED, "on purpose");
    return result;
}

static void on_appended(struct session_job *job, const struct kg_err *err_or_null)
{
    struct append *append = KG_CONTAINER(job, struct append, job);
    append->code = err_or_null ? err_or_null->code : KG_OK;
    append->fixture->done++;
}

static void start(struct fixture *fixture, struct append *append, size_t number)
{
    *append = (struct append){
        .job = {.run = run_append, .done = on_appended}, .fixture = fixture, .number = number};
    memcpy(append->session, fixture->world->id, strlen(fixture->world->id) + 1);
    session_store_write(fixture->store, &append->job);
}

static size_t wanted;
static bool all_done(void *data)
{
    return ((struct fixture *)data)->done == wanted;
}

static void wait_for(struct fixture *fixture, size_t count)
{
    wanted = count;
    assert_true(loop_run_until(fixture->loop, all_done, fixture, WAIT_MS));
}

static void jobs_of_one_turn_are_done_in_their_order(void **data)
{
    struct fixture *fixture = *data;
    struct append appends[300];
    for (size_t i = 0; i < KG_COUNT(appends); i++)
        start(fixture, &appends[i], i);
    assert_int_equal(session_store_queued(fixture->store), KG_COUNT(appends));
    wait_for(fixture, KG_COUNT(appends));
    assert_int_equal(session_store_queued(fixture->store), 0);
    for (size_t i = 0; i < KG_COUNT(appends); i++) {
        assert_int_equal(appends[i].code, KG_OK);
        assert_int_equal(appends[i].added.seq, i + 1);
    }
}

static void who_fails_takes_back_only_its_own(void **data)
{
    struct fixture *fixture = *data;
    struct append appends[5];
    for (size_t i = 0; i < KG_COUNT(appends); i++)
        start(fixture, &appends[i], i);
    appends[1].fails_late = true;
    memcpy(appends[3].session, "ses_7ZZ", 8);
    wait_for(fixture, KG_COUNT(appends));
    static const enum kg_code codes[] = {KG_OK, KG_E_REFUSED, KG_OK, KG_E_NOT_FOUND, KG_OK};
    static const uint64_t seqs[] = {1, 0, 2, 0, 3};
    for (size_t i = 0; i < KG_COUNT(appends); i++) {
        assert_int_equal(appends[i].code, codes[i]);
        if (codes[i] == KG_OK)
            assert_int_equal(appends[i].added.seq, seqs[i]);
    }
    kg_auto(session_clear) struct session session = {0};
    assert_int_equal(
        session_find(fixture->world->state, kg_str(fixture->world->id), &session, NULL), 0);
    assert_int_equal(session.entries, 3);
}

struct look {
    struct session_job job;
    struct fixture *fixture;
    struct session session;
    bool writes;
    int result;
};

static int run_look(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct look *look = KG_CONTAINER(job, struct look, job);
    const char *id = look->fixture->world->id;
    if (look->writes)
        return session_set_state(state, id, SESSION_CLOSED, err);
    return session_find(state, kg_str(id), &look->session, err);
}

static void on_looked(struct session_job *job, const struct kg_err *err_or_null)
{
    struct look *look = KG_CONTAINER(job, struct look, job);
    look->result = err_or_null ? -1 : 0;
    look->fixture->done++;
}

static void a_reader_sees_what_was_told_to_be_done(void **data)
{
    struct fixture *fixture = *data;
    struct append append;
    struct look look = {.job = {.run = run_look, .done = on_looked}, .fixture = fixture};
    start(fixture, &append, 1);
    wait_for(fixture, 1);
    session_store_read(fixture->store, &look.job);
    wait_for(fixture, 2);
    assert_int_equal(look.result, 0);
    assert_int_equal(look.session.entries, 1);
    session_clear(&look.session);
}

static void a_reader_cannot_write(void **data)
{
    struct fixture *fixture = *data;
    struct look look = {
        .job = {.run = run_look, .done = on_looked}, .fixture = fixture, .writes = true};
    session_store_read(fixture->store, &look.job);
    wait_for(fixture, 1);
    assert_true(look.result < 0);
}

static void freeing_the_store_finishes_what_was_asked(void **data)
{
    struct fixture *fixture = *data;
    struct append appends[50];
    struct look look = {.job = {.run = run_look, .done = on_looked}, .fixture = fixture};
    for (size_t i = 0; i < KG_COUNT(appends); i++)
        start(fixture, &appends[i], i);
    session_store_read(fixture->store, &look.job);
    session_store_free(kg_steal(&fixture->store));
    assert_int_equal(fixture->done, KG_COUNT(appends) + 1);
    assert_int_equal(appends[49].added.seq, 50);
    session_clear(&look.session);
}

/* -- what PostgreSQL is asked for -------------------------------------------------------------- */

/* One statement each of those that the backend knows. */
#define STATEMENT "execute k"

static void listen_once_connected(struct fixture *fixture)
{
    struct append append;
    state_place_listen();
    start(fixture, &append, 0);
    wait_for(fixture, 1);
    state_place_mark();
}

static void an_append_is_one_statement(void **data)
{
    struct fixture *fixture = *data;
    struct append append;
    listen_once_connected(fixture);
    start(fixture, &append, 1);
    wait_for(fixture, 2);
    assert_int_equal(append.code, KG_OK);
    assert_int_equal(state_place_asked(STATEMENT), 1);
    assert_int_equal(state_place_asked("COMMIT"), 1);
    assert_int_equal(state_place_asked("SAVEPOINT"), 0);
}

static void appends_of_one_turn_share_a_commit(void **data)
{
    struct fixture *fixture = *data;
    struct append appends[40];
    listen_once_connected(fixture);
    for (size_t i = 0; i < KG_COUNT(appends); i++)
        start(fixture, &appends[i], i);
    wait_for(fixture, KG_COUNT(appends) + 1);
    assert_int_equal(state_place_asked(STATEMENT), KG_COUNT(appends));
    assert_true(state_place_asked("COMMIT") < KG_COUNT(appends) / 2);
}

struct step {
    struct session_job job;
    struct fixture *fixture;
    struct session_draft draft;
    struct session_added added;
    size_t messages; /* of the context */
    int result;
};

static int run_step(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct step *step = KG_CONTAINER(job, struct step, job);
    const char *id = step->fixture->world->id;
    if (!job->once)
        return session_append(state, id, &step->draft, 1, &step->added, err);
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    int result = session_context_read(state, id, "primary", &entries, err);
    step->messages = entries.count;
    return result;
}

static void on_step(struct session_job *job, const struct kg_err *err_or_null)
{
    struct step *step = KG_CONTAINER(job, struct step, job);
    step->result = err_or_null != NULL ? -1 : 0;
    step->fixture->done++;
}

static void a_tool_call_is_two_statements_and_a_context_one(void **data)
{
    struct fixture *fixture = *data;
    struct step call = {.job = {.run = run_step, .done = on_step}, .fixture = fixture};
    struct step result = call, context = call;
    listen_once_connected(fixture);
    call.draft = (struct session_draft){.agent = "primary",
                                        .kind = SESSION_TOOL_CALL,
                                        .role = SESSION_ASSISTANT,
                                        .source = "echo",
                                        .content = KG_STR("{\"name\":\"echo.say\"}")};
    session_store_write(fixture->store, &call.job);
    wait_for(fixture, 2);
    result.draft = (struct session_draft){.agent = "primary",
                                          .kind = SESSION_TOOL_RESULT,
                                          .role = SESSION_TOOL,
                                          .source = "echo",
                                          .parent = call.added.id.text,
                                          .content = KG_STR("{\"result\":1}")};
    session_store_write(fixture->store, &result.job);
    wait_for(fixture, 3);
    assert_int_equal(call.result + result.result, 0);
    assert_int_equal(state_place_asked(STATEMENT), 2);
    state_place_mark();
    context.job.once = true;
    session_store_read(fixture->store, &context.job);
    wait_for(fixture, 4);
    assert_int_equal(context.messages, 3);
    assert_int_equal(state_place_asked(STATEMENT), 1);
    assert_int_equal(state_place_asked("BEGIN"), 0);
}

/* -- what can go wrong ------------------------------------------------------------------------- */

/* Another process holds the lock for longer than anybody waits: all fail, and the next succeed. */
static void a_batch_without_a_transaction_fails_as_a_whole(void **data)
{
    struct fixture *fixture = *data;
    struct append appends[3], later;
    assert_int_equal(state_step(fixture->world->state, STATE_BEGIN_WRITE, NULL), 0);
    for (size_t i = 0; i < KG_COUNT(appends); i++)
        start(fixture, &appends[i], i);
    wait_for(fixture, 3);
    for (size_t i = 0; i < KG_COUNT(appends); i++)
        assert_int_equal(appends[i].code, KG_E_IO);
    assert_int_equal(state_step(fixture->world->state, STATE_ROLLBACK, NULL), 0);
    start(fixture, &later, 7);
    wait_for(fixture, 4);
    assert_int_equal(later.code, KG_OK);
    assert_int_equal(later.added.seq, 1);
}

/* Files cannot grow for a while: what was not done is told so, and what was stays. */
static void a_full_disk_refuses_and_loses_nothing(void **data)
{
    struct fixture *fixture = *data;
    struct append appends[400], later;
    struct rlimit old, tight;
    size_t failed = 0;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = 262144;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    for (size_t i = 0; i < KG_COUNT(appends); i++)
        start(fixture, &appends[i], i);
    wait_for(fixture, KG_COUNT(appends));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    for (size_t i = 0; i < KG_COUNT(appends); i++)
        failed += appends[i].code != KG_OK;
    assert_true(failed > 0);
    start(fixture, &later, 1000);
    wait_for(fixture, KG_COUNT(appends) + 1);
    assert_int_equal(later.code, KG_OK);
    assert_int_equal(later.added.seq, KG_COUNT(appends) - failed + 1);
}

/* -- crashes ----------------------------------------------------------------------------------- */

/* What the child tells: the number of an entry that is done, and its id. */
struct told {
    size_t number;
    char id[KG_ID_MAX];
};

#define CHILD_FLIGHT 16

struct child {
    struct fixture fixture;
    int out;
    size_t next;
    struct append appends[CHILD_FLIGHT];
};

static void on_child_appended(struct session_job *job, const struct kg_err *err_or_null)
{
    struct append *append = KG_CONTAINER(job, struct append, job);
    struct child *child = KG_CONTAINER(append->fixture, struct child, fixture);
    struct told told = {.number = append->number};
    if (err_or_null != NULL)
        _exit(2);
    memcpy(told.id, append->added.id.text, sizeof(told.id));
    if (write(child->out, &told, sizeof(told)) != sizeof(told))
        _exit(3);
    append->number = child->next++;
    append->job = (struct session_job){.run = run_append, .done = on_child_appended};
    session_store_write(child->fixture.store, &append->job);
}

/* Writes without end, several at a time, until it is killed. */
static void be_the_child(struct session_world *world, size_t from, int out)
{
    struct child child = {.out = out, .next = from};
    child.fixture.world = world;
    child.fixture.loop = loop_new();
    child.fixture.store = session_store_new(child.fixture.loop, world->path, &world->err);
    if (child.fixture.store == NULL)
        _exit(1);
    for (size_t i = 0; i < KG_COUNT(child.appends); i++) {
        start(&child.fixture, &child.appends[i], child.next++);
        child.appends[i].job.done = on_child_appended;
    }
    loop_run(child.fixture.loop);
}

/* Reads what it tells, kills it somewhere in the middle, then reads the rest. */
static size_t run_child(struct session_world *world, size_t from, size_t kill_after,
                        struct told *told, size_t max)
{
    int pipes[2];
    size_t count = 0;
    bool killed = false;
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(pipes[0]);
        be_the_child(world, from, pipes[1]);
        _exit(0);
    }
    close(pipes[1]);
    while (count < max && read(pipes[0], &told[count], sizeof(*told)) == sizeof(*told)) {
        if (++count >= kill_after && !killed)
            killed = kill(pid, SIGKILL) == 0;
    }
    close(pipes[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return count;
}

static void holds_its_number(const struct session_entry *entry)
{
    kg_auto(kg_buf_free) struct kg_buf expected = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(entry->content, NULL);
    int64_t number;
    assert_non_null(doc);
    assert_true(kg_node_int(kg_node_get(doc->root, "n"), &number));
    write_content((size_t)number, &expected);
    assert_true(kg_str_equal(kg_buf_view(&expected), entry->content));
}

/* All that was told is there, whole, in the order that it was told in; and no number is missing. */
static size_t check_log(struct session_world *world, const struct told *told, size_t count,
                        uint64_t after)
{
    size_t found = 0;
    for (;;) {
        const struct session_page_query query = {.after = after};
        kg_auto(session_entries_clear) struct session_entries page = {0};
        assert_int_equal(session_page(world->state, world->id, &query, &page, &world->err), 0);
        for (size_t i = 0; i < page.count; i++) {
            assert_int_equal(page.items[i].seq, ++after);
            holds_its_number(&page.items[i]);
            if (found < count && strcmp(page.items[i].id.text, told[found].id) == 0)
                found++;
        }
        if (!page.more)
            break;
    }
    assert_int_equal(found, count);
    return after;
}

static void a_killed_writer_loses_nothing_that_it_told(void **data)
{
    enum { ROUNDS = 6, TOLD_MAX = 4000 };
    struct session_world *world = *data;
    struct told *told = kg_alloc_array(TOLD_MAX, sizeof(*told));
    uint64_t written = 0;
    srandom((unsigned)getpid());
    for (size_t round = 0; round < ROUNDS; round++) {
        state_close(kg_steal(&world->state));
        size_t kill_after = 1 + (size_t)random() % 500;
        size_t count = run_child(world, round * 1000000, kill_after, told, TOLD_MAX);
        session_world_reopen(world);
        uint64_t now = check_log(world, told, count, written);
        assert_true(now - written <= count + CHILD_FLIGHT);
        written = now;
    }
    free(told);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* On both kinds of state; the other two are about the lock, and the disk, of a file. */
#define SHARED_TESTS                                                                               \
    TEST(jobs_of_one_turn_are_done_in_their_order), TEST(who_fails_takes_back_only_its_own),       \
        TEST(a_reader_sees_what_was_told_to_be_done), TEST(a_reader_cannot_write),                 \
        TEST(freeing_the_store_finishes_what_was_asked),                                           \
        cmocka_unit_test_setup_teardown(a_killed_writer_loses_nothing_that_it_told,                \
                                        session_world_new, session_world_free)

int main(void)
{
    const struct CMUnitTest shared[] = {
        SHARED_TESTS,
        TEST(an_append_is_one_statement),
        TEST(appends_of_one_turn_share_a_commit),
        TEST(a_tool_call_is_two_statements_and_a_context_one),
    };
    const struct CMUnitTest tests[] = {
        SHARED_TESTS,
        TEST(a_batch_without_a_transaction_fails_as_a_whole),
        TEST(a_full_disk_refuses_and_loses_nothing),
    };
    return state_place_is_postgres() ? STATE_PLACE_RUN("session_store", shared)
                                     : STATE_PLACE_RUN("session_store", tests);
}
