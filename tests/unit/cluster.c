/* A state that daemons share: who has it, what a lost connection means, and the way there and back.
 */
#include "state/cluster.h"
#include "folder.h"
#include "state/catalog.h"
#include "state/postgres.h"
#include "state/sessions.h"
#include "state_place.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char dir[64];
    char path[96];
    struct kg_err err;
};

static int set_up(void **data)
{
    struct fixture *fixture = kg_alloc(sizeof(*fixture));
    snprintf(fixture->dir, sizeof(fixture->dir), "/tmp/kaged-cluster-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    snprintf(fixture->path, sizeof(fixture->path), "%s/kaged.db", fixture->dir);
    state_place_begin(fixture->path);
    *data = fixture;
    return 0;
}

static int tear_down(void **data)
{
    struct fixture *fixture = *data;
    state_place_end();
    folder_remove(fixture->dir);
    free(fixture);
    return 0;
}

static struct state *open_state(struct fixture *fixture)
{
    struct state *state = state_open(fixture->path, &fixture->err);
    if (state == NULL)
        fail_msg("%s", fixture->err.message);
    return state;
}

static void must(struct fixture *fixture, int result)
{
    if (result < 0)
        fail_msg("%s", fixture->err.message);
}

static struct state_cluster_options options_of(const struct fixture *fixture, const char *node)
{
    return (struct state_cluster_options){.database = state_place_url(),
                                          .node = node,
                                          .program = "test",
                                          .place = fixture->path,
                                          .wait_ms = 300};
}

static void add_setting(struct fixture *fixture, struct state *state, const char *name)
{
    const struct state_mcp_setting setting = {"mark", name, "{}"};
    must(fixture, state_mcp_setting_set(state, &setting, &fixture->err));
}

static void count_setting(void *data, const struct state_mcp_setting *setting)
{
    (void)setting;
    ++*(size_t *)data;
}

static size_t settings_of(struct fixture *fixture, struct state *state)
{
    size_t count = 0;
    must(fixture, state_mcp_settings(state, count_setting, &count, &fixture->err));
    return count;
}

/* -- who has it -------------------------------------------------------------------------------- */

static void a_second_daemon_of_one_name_is_refused_and_told_so(void **data)
{
    struct fixture *fixture = *data;
    const struct state_cluster_options twin = options_of(fixture, "test");
    assert_null(state_cluster_join(&twin, &fixture->err));
    assert_int_equal(fixture->err.code, KG_E_CONFLICT);
    assert_non_null(strstr(fixture->err.message, "the daemon of node test has it"));
}

static void a_home_of_another_cluster_is_refused(void **data)
{
    struct fixture *fixture = *data;
    struct state_cluster_options options = options_of(fixture, "test");
    state_place_end();
    must(fixture, state_cluster_note(fixture->path, "clu_another", &fixture->err));
    assert_null(state_cluster_join(&options, &fixture->err));
    assert_non_null(strstr(fixture->err.message, "is not the one that this home was made to use"));
    must(fixture, state_cluster_note(fixture->path, NULL, &fixture->err));
    assert_null(state_cluster_join(&options, &fixture->err));
    assert_non_null(strstr(fixture->err.message, "its state is in kaged.db"));
}

/* Cut off, it comes back late: meanwhile the other took the database, and went again. */
static void who_lost_the_database_to_another_takes_no_more_work(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    add_setting(fixture, state, "first");
    state_place_ask("UPDATE kaged.node SET incarnation = 'life_of_thief' WHERE name = 'test'");
    state_place_cut();
    const struct state_mcp_setting setting = {"mark", "second", "{}"};
    assert_true(state_mcp_setting_set(state, &setting, &fixture->err) < 0);
    assert_int_equal(fixture->err.code, KG_E_DATABASE_AWAY);
    assert_non_null(strstr(fixture->err.message, "another daemon has had this node's name"));
    assert_true(state_mcp_setting_set(state, &setting, &fixture->err) < 0);
    state_close(state);
}

static void a_newer_schema_is_refused_in_a_sentence(void **data)
{
    struct fixture *fixture = *data;
    const struct state_cluster_options options = options_of(fixture, "test");
    state_place_end();
    state_place_ask("UPDATE kaged.cluster SET version = 99");
    assert_null(state_cluster_join(&options, &fixture->err));
    assert_int_equal(fixture->err.code, KG_E_CONFLICT);
    assert_non_null(strstr(fixture->err.message, "version 99"));
}

static void a_database_that_is_away_is_named_and_not_its_password(void **data)
{
    struct fixture *fixture = *data;
    struct state_cluster_options options = options_of(fixture, "test");
    state_place_end();
    options.database = "postgres://kaged@/x?host=/nowhere";
    options.password_or_null = "as secret as it gets";
    assert_null(state_cluster_join(&options, &fixture->err));
    assert_int_equal(fixture->err.code, KG_E_DATABASE_AWAY);
    assert_non_null(strstr(fixture->err.message, "postgres://kaged@/x"));
    assert_null(strstr(fixture->err.message, "secret"));
}

static void a_url_with_a_password_is_refused(void **data)
{
    static const char *const urls[] = {"postgres://a:b@host/x", "postgres://a@host/x?password=b",
                                       "http://host/x", ""};
    struct kg_err err;
    (void)data;
    for (size_t i = 0; i < KG_COUNT(urls); i++)
        assert_true(state_cluster_check_url(urls[i], &err) < 0);
    assert_int_equal(state_cluster_check_url("postgres://a@[::1]:5432/x", &err), 0);
}

/* -- lost connections -------------------------------------------------------------------------- */

static void what_may_be_done_twice_is_done_again_on_a_new_connection(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    add_setting(fixture, state, "one");
    state_place_cut();
    add_setting(fixture, state, "two");
    state_place_cut();
    assert_int_equal(settings_of(fixture, state), 2);
    state_close(state);
}

static void what_may_not_be_done_twice_is_told_as_unknown(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    const struct state_credential credential = {
        .id = "tok_1", .name = "x", .scopes = "", .operator_id = "eve"};
    assert_int_equal(settings_of(fixture, state), 0); /* it is connected */
    state_place_cut();
    assert_true(state_credential_add(state, &credential, &fixture->err) < 0);
    assert_int_equal(fixture->err.code, KG_E_DATABASE_AWAY);
    assert_non_null(strstr(fixture->err.message, "not known"));
    must(fixture, state_credential_add(state, &credential, &fixture->err));
    state_close(state);
}

static void a_transaction_is_begun_anew_but_never_continued(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    const struct state_mcp_setting setting = {"mark", "lost", "{}"};
    assert_int_equal(settings_of(fixture, state), 0);
    state_place_cut(); /* before: nobody notices */
    must(fixture, state_step(state, STATE_BEGIN_WRITE, &fixture->err));
    add_setting(fixture, state, "lost");
    state_place_cut(); /* within: all of it is gone */
    assert_true(state_mcp_setting_set(state, &setting, &fixture->err) < 0);
    assert_true(state_mcp_setting_set(state, &setting, &fixture->err) < 0);
    assert_true(state_in_transaction(state));
    assert_true(state_step(state, STATE_COMMIT, &fixture->err) < 0);
    must(fixture, state_step(state, STATE_ROLLBACK, &fixture->err));
    assert_false(state_in_transaction(state));
    assert_int_equal(settings_of(fixture, state), 0);
    state_close(state);
}

/* The commit finds its connection cut: the server knows that nothing came of it. */
static void a_commit_without_an_answer_is_looked_up(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    must(fixture, state_step(state, STATE_BEGIN_WRITE, &fixture->err));
    add_setting(fixture, state, "x");
    state_place_cut();
    assert_true(state_step(state, STATE_COMMIT, &fixture->err) < 0);
    assert_int_equal(fixture->err.code, KG_E_DATABASE_AWAY);
    assert_non_null(strstr(fixture->err.message, "nothing was written"));
    assert_int_equal(settings_of(fixture, state), 0);
    state_close(state);
}

/* Its answer is lost, but it was done. */
static void a_commit_that_was_done_is_told_as_done(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    struct postgres *postgres = &postgres_own(state)->postgres;
    must(fixture, state_step(state, STATE_BEGIN_WRITE, &fixture->err));
    add_setting(fixture, state, "x");
    assert_int_equal(postgres_script(postgres, "COMMIT", "commit", &fixture->err), 0);
    state_place_cut();
    must(fixture, state_step(state, STATE_COMMIT, &fixture->err));
    assert_int_equal(settings_of(fixture, state), 1);
    state_close(state);
}

/* Its process at the server hangs: another connection does the work, and that one never will. */
static void a_silent_server_is_not_waited_for(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    struct postgres *postgres = &postgres_own(state)->postgres;
    assert_int_equal(settings_of(fixture, state), 0);
    int pid = postgres->pq->PQbackendPID(postgres->connection);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    postgres->answer_ms = 2000;
    const struct state_mcp_setting old = {"mark", "x", "1"}, new = {"mark", "x", "2"};
    int result = state_mcp_setting_set(state, &old, &fixture->err);
    postgres->answer_ms = 0;
    if (result == 0)
        result = state_mcp_setting_set(state, &new, &fixture->err);
    kill(pid, SIGCONT);
    must(fixture, result);
    assert_int_not_equal(postgres->pq->PQbackendPID(postgres->connection), pid);
    state_place_ask("DO $$ BEGIN FOR i IN 1..6000 LOOP EXIT WHEN (SELECT count(*) FROM "
                    "pg_stat_activity WHERE application_name = 'kaged test writer') <= 1; "
                    "PERFORM pg_stat_clear_snapshot(), pg_sleep(0.01); END LOOP; "
                    "ASSERT (SELECT value FROM kaged.mcp_setting WHERE name = 'x') = '2'; END $$");
    state_close(state);
}

static void a_statement_that_failed_is_not_committed_over(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    const struct state_credential credential = {
        .id = "tok_1", .name = "x", .scopes = "", .operator_id = "eve"};
    must(fixture, state_credential_add(state, &credential, &fixture->err));
    must(fixture, state_step(state, STATE_BEGIN_WRITE, &fixture->err));
    add_setting(fixture, state, "x");
    assert_int_equal(state_credential_add(state, &credential, &fixture->err), -EEXIST);
    assert_true(state_step(state, STATE_COMMIT, &fixture->err) < 0);
    assert_int_equal(settings_of(fixture, state), 0);
    state_close(state);
}

/* -- orgs -------------------------------------------------------------------------------------- */

static void add_package(struct fixture *fixture, struct state *state, const char *org)
{
    kg_auto(kg_free) char *id = kg_format("pkg-%s", org);
    const struct state_package package = {.id = id,
                                          .org = org,
                                          .pid = "p",
                                          .version = "1.0.0",
                                          .object = "x",
                                          .card = "{}",
                                          .document = "{}"};
    must(fixture, state_package_add(state, &package, &fixture->err));
}

static void see_package(void *data, const struct state_package *package)
{
    kg_buf_printf(data, "%s ", package->id);
}

/* As somebody would ask who forgot which org it is for. */
static void ask_of_all(struct fixture *fixture, struct state *state, struct kg_buf *ret_ids)
{
    struct postgres *postgres = &postgres_own(state)->postgres;
    PGresult *rows = postgres_ask(postgres, "SELECT id FROM package ORDER BY id", "forget a WHERE",
                                  NULL, NULL, &fixture->err);
    must(fixture, rows != NULL ? 0 : -1);
    for (int i = 0; i < postgres->pq->PQntuples(rows); i++)
        kg_buf_printf(ret_ids, "%s ", postgres_text_at(postgres, rows, i, 0));
    postgres->pq->PQclear(rows);
}

static void who_works_for_an_org(struct fixture *fixture, struct state *state, const char *org)
{
    kg_auto(kg_buf_free) struct kg_buf ids = {0};
    const struct state_package_query query = {.org = org};
    must(fixture, state_step(state, STATE_BEGIN_WRITE, &fixture->err));
    state_scope(state, org);
    must(fixture, state_packages(state, &query, see_package, &ids, &fixture->err));
    kg_buf_text(&ids, "| ");
    ask_of_all(fixture, state, &ids);
    kg_auto(kg_free) char *wanted = kg_format("pkg-%s | pkg- pkg-%s ", org, org);
    assert_string_equal(kg_buf_terminate(&ids), wanted);
}

static void work_for_an_org_sees_no_row_of_another(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    kg_auto(kg_buf_free) struct kg_buf ids = {0};
    add_package(fixture, state, "");
    add_package(fixture, state, "one");
    add_package(fixture, state, "two");
    who_works_for_an_org(fixture, state, "one");
    must(fixture, state_step(state, STATE_COMMIT, &fixture->err));
    who_works_for_an_org(fixture, state, "two");
    state_place_cut(); /* and on a connection that is made anew */
    state_step(state, STATE_ROLLBACK, NULL);
    who_works_for_an_org(fixture, state, "two");
    must(fixture, state_step(state, STATE_ROLLBACK, &fixture->err));
    ask_of_all(fixture, state, &ids); /* the daemon itself */
    assert_string_equal(kg_buf_terminate(&ids), "pkg- pkg-one pkg-two ");
    state_close(state);
}

static void work_for_an_org_writes_no_row_of_another(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    const struct state_package_setting other = {"two", "p", "{}"};
    add_package(fixture, state, "");
    add_package(fixture, state, "two");
    must(fixture, state_step(state, STATE_BEGIN_WRITE, &fixture->err));
    state_scope(state, "one");
    must(fixture, state_package_set_enabled(state, "two", "pkg-two", true, &fixture->err));
    must(fixture, state_package_set_enabled(state, "", "pkg-", true, &fixture->err));
    assert_true(state_package_setting_set(state, &other, &fixture->err) < 0);
    assert_non_null(strstr(fixture->err.message, "row-level security"));
    must(fixture, state_step(state, STATE_ROLLBACK, &fixture->err));
    must(fixture, state_step(state, STATE_BEGIN_WRITE, &fixture->err));
    state_scope(state, "one");
    const struct state_mcp_setting setting = {"mark", "x", "{}"};
    assert_true(state_mcp_setting_set(state, &setting, &fixture->err) < 0);
    assert_non_null(strstr(fixture->err.message, "permission denied"));
    must(fixture, state_step(state, STATE_ROLLBACK, &fixture->err));
    state_place_ask("DO $$ BEGIN ASSERT (SELECT sum(enabled) FROM kaged.package) = 0; END $$");
    state_close(state);
}

/* -- there and back ---------------------------------------------------------------------------- */

static void add_rows(void *data, const struct state_carried *carried)
{
    *(int64_t *)data += carried->rows;
}

static void fill(struct fixture *fixture, struct state *state)
{
    const struct state_session session = {.id = "ses_1",
                                          .project_id = "p",
                                          .workdir = "/srv/\xc3\xa4",
                                          .seat = "primary",
                                          .state = "idle",
                                          .operator_id = "eve",
                                          .branch = "br_1",
                                          .entries = 1};
    const struct state_entry entry = {.seq = 1,
                                      .id = "ent_1",
                                      .agent = "primary",
                                      .kind = "message",
                                      .role = "user",
                                      .tokens = 3,
                                      .content = {"\0\1\xff", 3}};
    const struct state_org org = {.id = "org_1",
                                  .name = "acme",
                                  .active = true,
                                  .profile = "{}",
                                  .settings = "{}",
                                  .quota = "{}"};
    int64_t number = 0;
    must(fixture, state_session_add(state, &session, &number, &fixture->err));
    must(fixture, state_entry_add(state, number, &entry, &fixture->err));
    must(fixture, state_org_set(state, &org, &fixture->err));
    add_setting(fixture, state, "x");
}

static bool see_content(void *data, const struct state_entry *entry)
{
    kg_buf_str(data, entry->content);
    return true;
}

static void assert_filled(struct fixture *fixture, struct state *state, int64_t number)
{
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    const struct state_entry_query query = {
        .order = STATE_ENTRIES_UP, .session = number, .limit = -1, .content = true};
    must(fixture, state_entries(state, &query, see_content, &content, &fixture->err));
    assert_int_equal(content.length, 3);
    assert_memory_equal(content.data, "\0\1\xff", 3);
    assert_int_equal(settings_of(fixture, state), 1);
}

static void a_home_goes_into_the_database_and_comes_back(void **data)
{
    struct fixture *fixture = *data;
    struct state_cluster_options options = options_of(fixture, "test");
    int64_t there = 0, back = 0;
    state_place_end();
    must(fixture, state_cluster_note(fixture->path, NULL, &fixture->err));
    state_place_ask("DROP SCHEMA kaged CASCADE");
    struct state *state = open_state(fixture); /* kaged.db alone */
    fill(fixture, state);
    state_close(state);
    must(fixture,
         state_cluster_init(&options, STATE_CLUSTER_FROM_LOCAL, add_rows, &there, &fixture->err));
    assert_int_equal(there, 5); /* with the entry's content */
    options.wait_ms = 60000;
    struct state_cluster *cluster = state_cluster_join(&options, &fixture->err);
    must(fixture, cluster != NULL ? 0 : -1);
    state = open_state(fixture);
    assert_filled(fixture, state, 1);
    const struct state_session more = {.id = "ses_2",
                                       .project_id = "p",
                                       .workdir = "/",
                                       .seat = "primary",
                                       .state = "idle",
                                       .operator_id = "eve",
                                       .branch = "br_2"};
    int64_t number = 0;
    must(fixture, state_session_add(state, &more, &number, &fixture->err));
    assert_int_equal(number, 2); /* it counts on */
    state_close(state);
    state_cluster_leave(cluster);
    must(fixture, state_cluster_to_local(&options, add_rows, &back, &fixture->err));
    assert_int_equal(back, 6);
    kg_auto(kg_free) char *noted = NULL;
    must(fixture, state_cluster_noted(fixture->path, &noted, &fixture->err));
    assert_null(noted);
    state = open_state(fixture);
    assert_filled(fixture, state, 1);
    state_close(state);
}

/* A text that PostgreSQL cannot hold: nothing is there afterwards, and the home is as it was. */
static void a_home_that_cannot_be_carried_stays_where_it_is(void **data)
{
    struct fixture *fixture = *data;
    const struct state_cluster_options options = options_of(fixture, "test");
    int64_t rows = 0;
    state_place_end();
    must(fixture, state_cluster_note(fixture->path, NULL, &fixture->err));
    state_place_ask("DROP SCHEMA kaged CASCADE");
    struct state *state = open_state(fixture);
    add_setting(fixture, state, "\xff\xfe");
    state_close(state);
    assert_true(
        state_cluster_init(&options, STATE_CLUSTER_FROM_LOCAL, add_rows, &rows, &fixture->err) < 0);
    assert_non_null(strstr(fixture->err.message, "mcp_setting"));
    assert_int_equal(rows, 0);
    kg_auto(kg_free) char *noted = NULL;
    must(fixture, state_cluster_noted(fixture->path, &noted, &fixture->err));
    assert_null(noted);
    kg_auto(state_cluster_facts_free) struct state_cluster_facts facts = {0};
    must(fixture, state_cluster_look(&options, &facts, &fixture->err));
    assert_int_equal(facts.version, 0);
}

static void a_database_with_a_state_is_not_made_anew(void **data)
{
    struct fixture *fixture = *data;
    const struct state_cluster_options options = options_of(fixture, "test");
    int64_t rows = 0;
    assert_true(state_cluster_init(&options, STATE_CLUSTER_EMPTY, add_rows, &rows, &fixture->err) <
                0); /* the daemon has it */
    assert_non_null(strstr(fixture->err.message, "the daemon of node test has it"));
    state_place_end();
    assert_true(state_cluster_init(&options, STATE_CLUSTER_EMPTY, add_rows, &rows, &fixture->err) <
                0);
    assert_non_null(strstr(fixture->err.message, "already a state of kaged"));
    must(fixture,
         state_cluster_init(&options, STATE_CLUSTER_EXISTING, add_rows, &rows, &fixture->err));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_second_daemon_of_one_name_is_refused_and_told_so),
        TEST(a_home_of_another_cluster_is_refused),
        TEST(who_lost_the_database_to_another_takes_no_more_work),
        TEST(a_newer_schema_is_refused_in_a_sentence),
        TEST(a_database_that_is_away_is_named_and_not_its_password),
        TEST(a_url_with_a_password_is_refused),
        TEST(what_may_be_done_twice_is_done_again_on_a_new_connection),
        TEST(what_may_not_be_done_twice_is_told_as_unknown),
        TEST(a_transaction_is_begun_anew_but_never_continued),
        TEST(a_commit_without_an_answer_is_looked_up),
        TEST(a_commit_that_was_done_is_told_as_done),
        TEST(a_silent_server_is_not_waited_for),
        TEST(a_statement_that_failed_is_not_committed_over),
        TEST(work_for_an_org_sees_no_row_of_another),
        TEST(work_for_an_org_writes_no_row_of_another),
        TEST(a_home_goes_into_the_database_and_comes_back),
        TEST(a_home_that_cannot_be_carried_stays_where_it_is),
        TEST(a_database_with_a_state_is_not_made_anew),
    };
    return STATE_PLACE_RUN("cluster", tests);
}
