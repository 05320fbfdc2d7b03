/* kaged.db: what was set is there after reopening, and a database from the future is left alone. */
#include "state/state.h"
#include "folder.h"
#include "loop/loop.h"
#include "state/sessions.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
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
    snprintf(fixture->dir, sizeof(fixture->dir), "/tmp/kaged-state-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    snprintf(fixture->path, sizeof(fixture->path), "%s/kaged.db", fixture->dir);
    *data = fixture;
    return 0;
}

static int tear_down(void **data)
{
    struct fixture *fixture = *data;
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

static struct state_audit_head some_head(void)
{
    struct state_audit_head head = {.first_block = 3, .block = UINT64_C(1) << 40, .events = 12345};
    memset(head.first_prev, 0xA1, sizeof(head.first_prev));
    memset(head.hash, 0xB2, sizeof(head.hash));
    memset(head.signature, 0x00, sizeof(head.signature));
    return head;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void a_new_database_is_private_and_empty(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    struct stat status;
    assert_int_equal(stat(fixture->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    struct state_audit_head head;
    bool found = true;
    assert_int_equal(state_audit_head_get(state, &head, &found, NULL), 0);
    assert_false(found);
    state_close(state);
}

static void the_head_survives_reopening(void **data)
{
    struct fixture *fixture = *data;
    struct state_audit_head set = some_head(), got = {0};
    struct state *state = open_state(fixture);
    assert_int_equal(state_audit_head_set(state, &(struct state_audit_head){.block = 1}, NULL), 0);
    assert_int_equal(state_audit_head_set_synced(state, &set, NULL), 0);
    state_close(state);
    state = open_state(fixture);
    bool found = false;
    assert_int_equal(state_audit_head_get(state, &got, &found, NULL), 0);
    assert_true(found);
    assert_memory_equal(&got, &set, sizeof(set));
    state_close(state);
}

static void a_second_handle_sees_what_the_first_wrote(void **data)
{
    struct fixture *fixture = *data;
    struct state *writer = open_state(fixture);
    struct state *reader = state_open_readonly(fixture->path, &fixture->err);
    assert_non_null(reader);
    struct state_audit_head set = some_head(), got = {0};
    bool found = false;
    assert_int_equal(state_audit_head_set(writer, &set, NULL), 0);
    assert_int_equal(state_audit_head_get(reader, &got, &found, NULL), 0);
    assert_true(found);
    assert_int_equal(got.events, set.events);
    state_close(reader);
    state_close(writer);
}

static void a_readonly_handle_cannot_write(void **data)
{
    struct fixture *fixture = *data;
    state_close(open_state(fixture));
    struct state *state = state_open_readonly(fixture->path, &fixture->err);
    assert_non_null(state);
    struct state_audit_head head = some_head();
    assert_int_equal(state_audit_head_set(state, &head, &fixture->err), -EROFS);
    assert_non_null(strstr(fixture->err.message, fixture->path));
    state_close(state);
}

static void see_choice(void *data, const struct state_plugin_choice *choice)
{
    struct state_plugin_choice *wanted = data;
    if (strcmp(choice->plugin, wanted->plugin) == 0)
        wanted->choice = choice->choice;
}

static enum state_choice choice_of(struct state *state, const char *plugin)
{
    struct state_plugin_choice wanted = {plugin, STATE_UNSAID};
    assert_int_equal(state_plugin_choices(state, see_choice, &wanted, NULL), 0);
    return wanted.choice;
}

static void choose(struct state *state, const char *plugin, enum state_choice choice)
{
    const struct state_plugin_choice row = {plugin, choice};
    assert_int_equal(state_plugin_choice_set(state, &row, NULL), 0);
}

static void put_failure(void *data, const struct state_failure *failure)
{
    kg_buf_printf(data, "%s: %s\n", failure->process, failure->reason);
}

static void set_failure(struct state *state, const char *process, const char *reason_or_null)
{
    const struct state_failure row = {process, reason_or_null};
    assert_int_equal(state_failure_set(state, &row, NULL), 0);
}

static void what_failed_is_kept_until_it_is_forgotten_also_in_projects(void **data)
{
    kg_auto(kg_buf_free) struct kg_buf failures = {0};
    struct state *state = open_state(*data);
    set_failure(state, "git", "it left");
    set_failure(state, "git@music", "it left");
    set_failure(state, "github@music", "it hung");
    set_failure(state, "github@music", "it left, too");
    set_failure(state, "git", NULL);
    state_close(state);
    state = open_state(*data);
    assert_int_equal(state_failures(state, put_failure, &failures, NULL), 0);
    assert_string_equal(kg_buf_terminate(&failures), "github@music: it left, too\n");
    state_close(state);
}

static void the_operators_choice_is_kept_and_can_be_taken_back(void **data)
{
    struct state *state = open_state(*data);
    assert_int_equal(choice_of(state, "git"), STATE_UNSAID);
    choose(state, "git", STATE_DISABLED);
    choose(state, "github", STATE_ENABLED);
    state_close(state);
    state = open_state(*data);
    assert_int_equal(choice_of(state, "git"), STATE_DISABLED);
    assert_int_equal(choice_of(state, "github"), STATE_ENABLED);
    choose(state, "git", STATE_UNSAID);
    assert_int_equal(choice_of(state, "git"), STATE_UNSAID);
    state_close(state);
}

static void count_credential(void *data, const struct state_credential *credential)
{
    struct state_credential *expected = data;
    assert_string_equal(credential->id, "tok_1");
    assert_int_equal(credential->kind, STATE_TOKEN);
    assert_memory_equal(credential->hash, expected->hash, STATE_HASH_BYTES);
    assert_string_equal(credential->name, "ci");
    assert_string_equal(credential->scopes, "plugins:read");
    assert_string_equal(credential->operator_id, "eve");
    assert_int_equal(credential->created_ms, 5);
    assert_int_equal(credential->expires_ms, 7);
    assert_string_equal(credential->profile, "review");
    expected->created_ms++;
}

static void credentials_are_kept_until_they_are_removed(void **data)
{
    struct state_credential credential = {.id = "tok_1",
                                          .kind = STATE_TOKEN,
                                          .hash = {1, 2, 3},
                                          .name = "ci",
                                          .scopes = "plugins:read",
                                          .operator_id = "eve",
                                          .created_ms = 5,
                                          .expires_ms = 7,
                                          .profile = "review"};
    struct state_credential seen = credential;
    struct state *state = open_state(*data);
    assert_int_equal(state_credential_add(state, &credential, NULL), 0);
    state_close(state);
    state = open_state(*data);
    seen.created_ms = 0;
    assert_int_equal(state_credentials(state, count_credential, &seen, NULL), 0);
    assert_int_equal(seen.created_ms, 1);
    assert_int_equal(state_credential_remove(state, "tok_1", NULL), 0);
    assert_int_equal(state_credentials(state, count_credential, &seen, NULL), 0);
    assert_int_equal(seen.created_ms, 1);
    state_close(state);
}

static void see_setting(void *data, const struct state_mcp_setting *setting)
{
    assert_string_equal(setting->kind, "profile");
    assert_string_equal(setting->name, "review");
    assert_string_equal(setting->value, "{}");
    ++*(int *)data;
}

static void what_mcp_clients_may_use_is_kept_until_it_is_removed(void **data)
{
    struct state_mcp_setting setting = {"profile", "review", "{}"};
    int seen = 0;
    struct state *state = open_state(*data);
    assert_int_equal(state_mcp_setting_set(state, &setting, NULL), 0);
    state_close(state);
    state = open_state(*data);
    assert_int_equal(state_mcp_settings(state, see_setting, &seen, NULL), 0);
    setting.value = NULL;
    assert_int_equal(state_mcp_setting_set(state, &setting, NULL), 0);
    assert_int_equal(state_mcp_settings(state, see_setting, &seen, NULL), 0);
    assert_int_equal(seen, 1);
    state_close(state);
}

static void see_call(void *data, const struct state_mcp_call *call)
{
    kg_buf_printf(data, "%s.%s %s;", call->plugin, call->tool, call->arguments);
}

static void calls_of(struct state *state, const char *tool, const char *expected)
{
    kg_auto(kg_buf_free) struct kg_buf seen = {0};
    const struct state_mcp_query query = {.tool = tool, .limit = 10};
    assert_int_equal(state_mcp_calls(state, &query, see_call, &seen, NULL), 0);
    assert_string_equal(kg_buf_terminate(&seen), expected);
}

#define CALL(at, tool)                                                                             \
    "{\"at_ms\":" at                                                                               \
    ",\"client\":\"c 1\",\"owner\":\"unix:me\",\"plugin\":\"git\",\"tool\":\"" tool                \
    "\",\"bytes_in\":1,\"bytes_out\":2,\"duration_ms\":3,\"outcome\":\"done\",\"arguments\":\"{}"  \
    "\"}"

static void what_mcp_clients_called_is_bounded_by_age_and_by_size(void **data)
{
    struct state *state = open_state(*data);
    struct state_mcp_calls calls = {"[" CALL("5", "log") "," CALL("9", "show") "]", 0, 0};
    assert_int_equal(state_mcp_calls_add(state, &calls, NULL), 0);
    calls_of(state, NULL, "git.show {};git.log {};");
    calls_of(state, "git.l*", "git.log {};");
    calls_of(state, "git", "git.show {};git.log {};");
    calls = (struct state_mcp_calls){"[" CALL("9", "add") "]", 6, 0};
    assert_int_equal(state_mcp_calls_add(state, &calls, NULL), 0);
    calls_of(state, NULL, "git.add {};git.show {};");
    calls = (struct state_mcp_calls){"[]", 0, (int64_t)strlen(CALL("9", "add")) + 10};
    assert_int_equal(state_mcp_calls_add(state, &calls, NULL), 0);
    calls_of(state, NULL, "git.add {};");
    state_close(state);
}

#define DROP_CATALOG                                                                               \
    "DROP TABLE org; DROP TABLE principal; DROP TABLE org_member; DROP TABLE package; "            \
    "DROP TABLE package_setting; DROP TABLE package_grant; DROP TABLE llm_config; "

static void a_database_of_the_first_version_is_brought_up_to_date(void **data)
{
    struct fixture *fixture = *data;
    state_close(open_state(fixture));
    run_sql(fixture->path, "DROP TABLE credential; DROP TABLE consent; DROP TABLE activation; "
                           "DROP TABLE session; DROP TABLE session_content; "
                           "DROP TABLE session_entry; DROP TABLE session_agent; "
                           "DROP TABLE project; DROP TABLE plugin_failure; "
                           "DROP TABLE mcp_setting; DROP TABLE project_prompt; "
                           "DROP TABLE mcp_call; DROP TABLE question; "
                           "DROP TABLE script_grant; "
                           "DROP TABLE session_move; DROP TABLE session_snapshot; "
                           "DROP TABLE session_restore; " DROP_CATALOG "PRAGMA user_version = 1");
    struct state *state = open_state(fixture);
    assert_int_equal(state_credential_remove(state, "tok_1", NULL), 0);
    state_close(state);
}

static void see_branch(void *data, const struct state_session *session)
{
    assert_string_equal(session->branch, "br_01K");
    assert_null(session->left_by);
    ++*(int *)data;
}

static void a_session_from_before_branches_stands_on_one(void **data)
{
    struct fixture *fixture = *data;
    int seen = 0;
    state_close(open_state(fixture));
    run_sql(fixture->path,
            "DROP TABLE session_move; DROP TABLE session_snapshot; DROP TABLE session_restore; "
            "DROP INDEX session_by_branch; "
            "ALTER TABLE session DROP COLUMN branch; ALTER TABLE session DROP COLUMN left_by; "
            "INSERT INTO session (id, project_id, workdir, seat, state, operator_id, created_ms, "
            "updated_ms, entries) VALUES ('ses_01K', 'p', '/', 'primary', 'idle', 'ann', 1, 1, 0); "
            "ALTER TABLE credential DROP COLUMN principal; " DROP_CATALOG
            "PRAGMA user_version = 13");
    struct state *state = open_state(fixture);
    assert_int_equal(state_session_get(state, "ses_01K", see_branch, &seen, NULL), 0);
    assert_int_equal(state_session_of_branch(state, "br_01K", see_branch, &seen, NULL), 0);
    assert_int_equal(seen, 2);
    state_close(state);
}

static void count_consent(void *data, const struct state_consent *consent)
{
    struct state_consent *expected = data;
    assert_string_equal(consent->id, expected->id);
    assert_string_equal(consent->state, expected->state);
    assert_string_equal(consent->project, "web");
    assert_string_equal(consent->plugin, "git");
    assert_null(consent->source);
    assert_string_equal(consent->version, "1.0.0");
    assert_int_equal(consent->raised_ms, 5);
    expected->changed_ms++;
}

static void consents_are_kept_and_replaced(void **data)
{
    struct state_consent consent = {.id = "con_1",
                                    .kind = "install",
                                    .state = "wanted",
                                    .project = "web",
                                    .plugin = "git",
                                    .version = "1.0.0",
                                    .raised_ms = 5};
    struct state *state = open_state(*data);
    assert_int_equal(state_consent_set(state, &consent, NULL), 0);
    consent.state = "declined";
    assert_int_equal(state_consent_set(state, &consent, NULL), 0);
    state_close(state);
    state = open_state(*data);
    assert_int_equal(state_consents(state, count_consent, &consent, NULL), 0);
    assert_int_equal(consent.changed_ms, 1);
    assert_int_equal(state_consent_remove(state, "con_1", NULL), 0);
    assert_int_equal(state_consents(state, count_consent, &consent, NULL), 0);
    assert_int_equal(consent.changed_ms, 1);
    state_close(state);
}

static void see_activation(void *data, const struct state_activation *activation)
{
    struct state_activation *wanted = data;
    if (strcmp(activation->project, wanted->project) == 0 &&
        strcmp(activation->plugin, wanted->plugin) == 0)
        wanted->at_ms = activation->at_ms;
}

static bool is_active(struct state *state, const char *project, const char *plugin)
{
    struct state_activation wanted = {.project = project, .plugin = plugin};
    assert_int_equal(state_activations(state, see_activation, &wanted, NULL), 0);
    return wanted.at_ms != 0;
}

static void activations_belong_to_a_project(void **data)
{
    const struct state_activation in_web = {"web", "git", "con_1", "ann", 5};
    const struct state_activation in_shop = {"shop", "git", "con_2", "ann", 6};
    struct state *state = open_state(*data);
    assert_int_equal(state_activation_set(state, &in_web, NULL), 0);
    assert_int_equal(state_activation_set(state, &in_shop, NULL), 0);
    assert_true(is_active(state, "web", "git"));
    assert_false(is_active(state, "web", "github"));
    assert_int_equal(state_activation_remove(state, "web", "git", NULL), 0);
    assert_false(is_active(state, "web", "git"));
    assert_true(is_active(state, "shop", "git"));
    assert_int_equal(state_activation_remove(state, NULL, "git", NULL), 0);
    assert_false(is_active(state, "shop", "git"));
    state_close(state);
}

static void see_project(void *data, const struct state_project *project)
{
    const struct state_project *expected = data;
    assert_string_equal(project->id, expected->id);
    assert_string_equal(project->root, expected->root);
    assert_string_equal(project->file, expected->file);
    assert_int_equal(project->watched, expected->watched);
    assert_null(project->operator_id);
    ((struct state_project *)data)->loaded_ms = project->loaded_ms;
}

static void projects_are_kept_until_they_are_unloaded(void **data)
{
    struct state *state = open_state(*data);
    struct state_project project = {"web", "/srv/web", ".kaged/project.yaml", true, NULL, 7};
    assert_int_equal(state_project_set(state, &project, NULL), 0);
    assert_int_equal(state_projects(state, see_project, &project, NULL), 0);
    assert_int_equal(project.loaded_ms, 7);
    project.loaded_ms = 0;
    assert_int_equal(state_project_set(state, &project, NULL), 0);
    project.loaded_ms = 7;
    assert_int_equal(state_projects(state, see_project, &project, NULL), 0);
    assert_int_equal(project.loaded_ms, 0);
    state_close(state);
}

static void activations_do_not_follow_a_name_into_another_folder(void **data)
{
    struct state *state = open_state(*data);
    const struct state_activation activation = {"web", "git", "con_1", "ada", 5};
    struct state_project project = {"web", "/srv/web", "p.yaml", false, "ada", 7};
    assert_int_equal(state_project_set(state, &project, NULL), 0);
    assert_int_equal(state_activation_set(state, &activation, NULL), 0);
    project.loaded_ms = 0; /* unloaded, and loaded again from the same folder */
    assert_int_equal(state_project_set(state, &project, NULL), 0);
    project.loaded_ms = 8;
    assert_int_equal(state_project_set(state, &project, NULL), 0);
    assert_true(is_active(state, "web", "git"));
    project.root = "/tmp/stranger";
    assert_int_equal(state_project_set(state, &project, NULL), 0);
    assert_false(is_active(state, "web", "git"));
    state_close(state);
}

static void a_newer_schema_is_refused_in_a_sentence(void **data)
{
    struct fixture *fixture = *data;
    state_close(open_state(fixture));
    run_sql(fixture->path, "PRAGMA user_version = 99");
    assert_null(state_open(fixture->path, &fixture->err));
    assert_non_null(strstr(fixture->err.message, "its schema has version 99"));
    assert_true(fixture->err.hint[0] != '\0');
    assert_null(state_open_readonly(fixture->path, NULL));
}

static void a_file_that_is_no_database_is_named(void **data)
{
    struct fixture *fixture = *data;
    FILE *file = fopen(fixture->path, "w");
    fputs("this is not a database, though it is long enough to be mistaken for one", file);
    fclose(file);
    assert_null(state_open(fixture->path, &fixture->err));
    assert_non_null(strstr(fixture->err.message, fixture->path));
    assert_non_null(strstr(fixture->err.message, "not a database"));
}

static void a_missing_folder_is_named(void **data)
{
    struct fixture *fixture = *data;
    assert_null(state_open("/nonexistent/kaged.db", &fixture->err));
    assert_string_equal(fixture->err.message, "state database /nonexistent/kaged.db: open: "
                                              "No such file or directory");
}

static void a_damaged_head_is_an_error_not_a_missing_one(void **data)
{
    struct fixture *fixture = *data;
    struct state *state = open_state(fixture);
    struct state_audit_head head = some_head(), got;
    assert_int_equal(state_audit_head_set(state, &head, NULL), 0);
    state_close(state);
    run_sql(fixture->path,
            "PRAGMA ignore_check_constraints = ON; UPDATE audit_head SET hash = x'00'");
    state = open_state(fixture);
    bool found = false;
    assert_true(state_audit_head_get(state, &got, &found, &fixture->err) < 0);
    assert_non_null(strstr(fixture->err.message, "damaged"));
    state_close(state);
}

static void a_file_without_schema_reads_as_empty(void **data)
{
    struct fixture *fixture = *data;
    run_sql(fixture->path, "PRAGMA journal_mode = WAL");
    struct state *state = state_open_readonly(fixture->path, &fixture->err);
    assert_non_null(state);
    struct state_audit_head head;
    bool found = true;
    assert_int_equal(state_audit_head_get(state, &head, &found, NULL), 0);
    assert_false(found);
    state_close(state);
}

/* -- beside a loop ----------------------------------------------------------------------------- */

static void on_kept(void *data, const struct kg_err *err_or_null)
{
    assert_null(err_or_null);
    assert_true(loop_runs_here());
    *(bool *)data = true;
}

static bool is_true(void *data)
{
    return *(bool *)data;
}

static void a_keeper_writes_in_order_and_tells_the_loop(void **data)
{
    struct fixture *fixture = *data;
    struct loop *loop = loop_new();
    struct state_keeper *keeper = state_keeper_new(loop, fixture->path, &fixture->err);
    bool kept = false;
    char name[] = "git";
    const struct state_plugin_choice choices[] = {{name, STATE_ENABLED}, {name, STATE_DISABLED}};
    state_keep_choice(keeper, &choices[0], NULL, NULL);
    state_keep_choice(keeper, &choices[1], NULL, NULL);
    state_when_kept(keeper, on_kept, &kept);
    name[0] = 'x'; /* the rows were copied */
    assert_true(loop_run_until(loop, is_true, &kept, 10000));
    assert_int_equal(choice_of(state_keeper_state(keeper), "git"), STATE_DISABLED);
    state_keeper_free(keeper);
    loop_free(loop);
}

static void on_failed(void *data, const struct kg_err *err_or_null)
{
    assert_non_null(err_or_null);
    assert_non_null(strstr(err_or_null->message, "write a plugin's choice"));
    *(bool *)data = true;
}

static void a_keeper_tells_why_it_could_not_write_and_ends_with_nothing_left(void **data)
{
    struct fixture *fixture = *data;
    struct loop *loop = loop_new();
    struct state_keeper *keeper = state_keeper_new(loop, fixture->path, &fixture->err);
    const struct state_plugin_choice choice = {"git", STATE_ENABLED};
    bool failed = false;
    run_sql(fixture->path, "DROP TABLE plugin_choice");
    state_keep_choice(keeper, &choice, on_failed, &failed);
    state_keeper_free(keeper);
    assert_true(failed);
    loop_free(loop);
}

struct asking {
    struct loop_task task;
    struct state *state;
};

static void ask_on_the_loop(struct loop_task *task)
{
    struct asking *asking = KG_CONTAINER(task, struct asking, task);
    struct state_plugin_choice wanted = {.plugin = "git"};
    (void)state_plugin_choices(asking->state, see_choice, &wanted, NULL);
    _exit(0);
}

/* The daemon of each flow test is built with this check, and would end there. */
static void who_asks_while_his_loop_runs_is_ended(void **data)
{
    struct state *state = open_state(*data);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct asking asking = {.task.run = ask_on_the_loop, .state = state};
        struct loop *loop = loop_new();
        signal(SIGABRT, SIG_DFL);
        kg_log_set(KG_ERROR_LEVEL + 1, KG_LOG_TEXT);
        loop_defer(loop, &asking.task);
        loop_run(loop);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    state_close(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_database_is_private_and_empty),
        TEST(the_head_survives_reopening),
        TEST(a_second_handle_sees_what_the_first_wrote),
        TEST(a_readonly_handle_cannot_write),
        TEST(what_failed_is_kept_until_it_is_forgotten_also_in_projects),
        TEST(the_operators_choice_is_kept_and_can_be_taken_back),
        TEST(credentials_are_kept_until_they_are_removed),
        TEST(what_mcp_clients_may_use_is_kept_until_it_is_removed),
        TEST(what_mcp_clients_called_is_bounded_by_age_and_by_size),
        TEST(a_database_of_the_first_version_is_brought_up_to_date),
        TEST(a_session_from_before_branches_stands_on_one),
        TEST(consents_are_kept_and_replaced),
        TEST(activations_belong_to_a_project),
        TEST(projects_are_kept_until_they_are_unloaded),
        TEST(activations_do_not_follow_a_name_into_another_folder),
        TEST(a_newer_schema_is_refused_in_a_sentence),
        TEST(a_file_that_is_no_database_is_named),
        TEST(a_missing_folder_is_named),
        TEST(a_damaged_head_is_an_error_not_a_missing_one),
        TEST(a_file_without_schema_reads_as_empty),
        TEST(a_keeper_writes_in_order_and_tells_the_loop),
        TEST(a_keeper_tells_why_it_could_not_write_and_ends_with_nothing_left),
        TEST(who_asks_while_his_loop_runs_is_ended),
    };
    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
