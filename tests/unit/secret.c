/* Secrets: the sealed file, its keys, what a rotation that is cut off leaves, and programs. */
#include "secret/secret.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"

#define VALUE "correct horse battery staple"

struct world {
    char folder[64];
    struct secret_places places;
    char *local;
};

static int begin(void **state)
{
    struct world *world = kg_alloc(sizeof(*world));
    strcpy(world->folder, "/tmp/kaged-secret-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    world->places = (struct secret_places){.store = kg_path_join(world->folder, "secrets.json"),
                                           .key = kg_path_join(world->folder, "secrets.key"),
                                           .next_key = kg_path_join(world->folder, "key.next")};
    world->local = kg_path_join(world->folder, "local.toml");
    *state = world;
    return 0;
}

static int end(void **state)
{
    struct world *world = *state;
    folder_remove(world->folder);
    secret_places_free(&world->places);
    free(world->local);
    free(world);
    return 0;
}

static void write_text(const char *path, struct kg_str text)
{
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(kg_write_all(fd, text.data, text.length), 0);
}

static void must_set(struct world *world, const char *name, const char *value)
{
    struct kg_err err = {0};
    if (secret_set(&world->places, kg_str(name), kg_str(value), &err) < 0)
        fail_msg("%s", err.message);
}

static void assert_value(struct world *world, const char *name, const char *value)
{
    struct secrets secrets = {0};
    struct kg_err err = {0};
    if (secrets_read(&world->places, &secrets, &err) < 0)
        fail_msg("%s", err.message);
    const struct secret *secret = secrets_find(&secrets, kg_str(name));
    assert_non_null(secret);
    assert_true(kg_str_is(kg_buf_view(&secret->value), value));
    secrets_free(&secrets);
}

static void refuses(struct world *world, enum kg_code code, const char *words)
{
    struct secrets secrets = {0};
    struct kg_err err = {0};
    assert_true(secrets_read(&world->places, &secrets, &err) < 0);
    assert_int_equal(err.code, code);
    if (strstr(err.message, words) == NULL)
        fail_msg("%s", err.message);
}

/* -- the file ---------------------------------------------------------------------------------- */

static void what_is_set_is_read_and_is_not_in_the_file(void **state)
{
    struct world *world = *state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct stat key, store;
    must_set(world, "one", VALUE);
    must_set(world, "two", "another value");
    must_set(world, "one", VALUE " 2");
    assert_value(world, "one", VALUE " 2");
    assert_value(world, "two", "another value");
    assert_int_equal(kg_read_file(world->places.store, 65536, &text, NULL), 0);
    assert_null(memmem(text.data, text.length, "horse", 5));
    assert_int_equal(stat(world->places.key, &key), 0);
    assert_int_equal(stat(world->places.store, &store), 0);
    assert_int_equal(key.st_mode & 0777, 0600);
    assert_int_equal(store.st_mode & 0777, 0600);
}

static void what_cannot_be_a_secret_is_refused_by_its_reason(void **state)
{
    struct world *world = *state;
    kg_auto(kg_free) char *large = kg_alloc(1048577);
    memset(large, 'x', 1048576);
    const struct {
        const char *name;
        struct kg_str value;
        enum kg_code code;
    } rows[] = {
        {"big", {large, 1048576}, KG_E_TOO_LARGE},
        {"nul", KG_STR("a\0b"), KG_E_USAGE},
        {"empty", KG_STR(""), KG_E_USAGE},
        {"bytes", KG_STR("\xff\xfe"), KG_E_USAGE},
        {"", KG_STR("x"), KG_E_USAGE},
        {"a/b", KG_STR("x"), KG_E_USAGE},
        {"-a", KG_STR("x"), KG_E_USAGE},
        {"a}b", KG_STR("x"), KG_E_USAGE},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct kg_err err = {0};
        assert_true(secret_set(&world->places, kg_str(rows[i].name), rows[i].value, &err) < 0);
        assert_int_equal(err.code, rows[i].code);
        assert_true(access(world->places.store, F_OK) < 0);
    }
    must_set(world, "short", "1");
    assert_value(world, "short", "1");
}

static void a_box_cannot_take_the_place_of_another(void **state)
{
    struct world *world = *state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    must_set(world, "aaa", VALUE);
    must_set(world, "bbb", "the other");
    assert_int_equal(kg_read_file(world->places.store, 65536, &text, NULL), 0);
    char *a = memmem(text.data, text.length, "\"aaa\"", 5);
    char *b = memmem(text.data, text.length, "\"bbb\"", 5);
    memcpy(a, "\"bbb\"", 5);
    memcpy(b, "\"aaa\"", 5);
    write_text(world->places.store, kg_buf_view(&text));
    refuses(world, KG_E_IO, "damaged");
}

static void a_file_that_was_cut_off_or_is_newer_is_refused_whole(void **state)
{
    struct world *world = *state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    must_set(world, "aaa", VALUE);
    assert_int_equal(kg_read_file(world->places.store, 65536, &text, NULL), 0);
    write_text(world->places.store, kg_str_first(kg_buf_view(&text), text.length / 2));
    refuses(world, KG_E_IO, "damaged");
    write_text(world->places.store, KG_STR("{\"version\":2}"));
    refuses(world, KG_E_CONFLICT, "newer");
}

static void without_its_key_nothing_is_opened_and_nothing_is_overwritten(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    must_set(world, "aaa", VALUE);
    assert_int_equal(unlink(world->places.key), 0);
    refuses(world, KG_E_REFUSED, "sealed with is missing");
    assert_true(secret_set(&world->places, KG_STR("bbb"), KG_STR("x"), &err) < 0);
    assert_int_equal(err.code, KG_E_REFUSED);
}

static void a_key_that_others_can_read_is_refused(void **state)
{
    struct world *world = *state;
    must_set(world, "aaa", VALUE);
    assert_int_equal(chmod(world->places.key, 0644), 0);
    refuses(world, KG_E_REFUSED, "others");
}

/* -- rotation ---------------------------------------------------------------------------------- */

static void rotation_seals_all_and_the_old_key_opens_nothing(void **state)
{
    struct world *world = *state;
    kg_auto(kg_buf_free) struct kg_buf old = {0};
    struct kg_err err = {0};
    size_t count = 0;
    must_set(world, "one", VALUE);
    must_set(world, "two", "another value");
    assert_int_equal(kg_read_file(world->places.key, 4096, &old, NULL), 0);
    assert_int_equal(secret_rotate(&world->places, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_value(world, "one", VALUE);
    assert_true(access(world->places.next_key, F_OK) < 0);
    write_text(world->places.key, kg_buf_view(&old));
    refuses(world, KG_E_REFUSED, "sealed with is missing");
}

/* Cut off at each of its steps: one of the two keys opens the file, and the next one finishes. */
static void a_rotation_that_was_cut_off_loses_nothing(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf old = {0};
    size_t count = 0;
    must_set(world, "one", VALUE);
    assert_int_equal(kg_read_file(world->places.key, 4096, &old, NULL), 0);
    /* After the first: a key that seals nothing. */
    write_text(world->places.next_key, KG_STR("00112233445566778899aabbccddeeff"
                                              "00112233445566778899aabbccddeeff\n"));
    assert_value(world, "one", VALUE);
    assert_int_equal(secret_rotate(&world->places, &count, &err), 0);
    assert_value(world, "one", VALUE);
    /* After the second: the old key is still in its place. */
    assert_int_equal(rename(world->places.key, world->places.next_key), 0);
    write_text(world->places.key, kg_buf_view(&old));
    assert_value(world, "one", VALUE);
    must_set(world, "two", "set in between");
    assert_int_equal(secret_rotate(&world->places, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_value(world, "one", VALUE);
    assert_value(world, "two", "set in between");
    assert_true(access(world->places.next_key, F_OK) < 0);
}

static void a_service_managers_key_goes_before_the_file_and_is_rotated_to(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    size_t count = 0;
    must_set(world, "one", VALUE);
    world->places.credential = kg_path_join(world->folder, "kaged-key");
    write_text(world->places.credential, KG_STR("ffeeddccbbaa99887766554433221100"
                                                "ffeeddccbbaa99887766554433221100\n"));
    assert_value(world, "one", VALUE);
    assert_int_equal(secret_rotate(&world->places, &count, &err), 0);
    assert_true(access(world->places.key, F_OK) < 0);
    assert_value(world, "one", VALUE);
    assert_true(secret_rotate(&world->places, &count, &err) < 0);
    assert_int_equal(err.code, KG_E_CONFLICT);
}

/* -- what local.toml names --------------------------------------------------------------------- */

static void look_up(struct world *world, const char *text, const char *plugin, const char *system,
                    const char *problem_or_null)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    write_text(world->local, kg_str(text));
    struct secret_values *values = secret_values_read(world->local, &world->places, &err);
    assert_non_null(values);
    const struct local_lookup lookup = secret_values_lookup(values);
    struct local *local = local_load(world->local, &lookup, &err);
    if (local == NULL)
        fail_msg("%s", err.message);
    const struct local_plugin *found = local_plugin_find(local, kg_str(plugin));
    kg_json_put_node(&json, found->system);
    if (problem_or_null == NULL && found->problem != NULL)
        fail_msg("%s", found->problem->message);
    if (problem_or_null == NULL)
        assert_string_equal(kg_buf_terminate(&json), system);
    else if (found->problem == NULL || strstr(found->problem->message, problem_or_null) == NULL)
        fail_msg("not %s but %s", problem_or_null, found->problem ? found->problem->message : "");
    local_free(local);
    secret_values_drop(values);
}

static void a_table_gets_what_it_names_and_its_problem_is_its_own(void **state)
{
    struct world *world = *state;
    kg_auto(kg_free) char *file = kg_path_join(world->folder, "token");
    kg_auto(kg_free) char *named = kg_format("[plugins.a]\nt = \"${file:%s}\"\n", file);
    must_set(world, "one", VALUE);
    write_text(file, KG_STR("from a file\n"));
    look_up(world, "[plugins.a]\nt = \"<${secret:one}>\"\n[plugins.b]\nu = \"${secret:none}\"\n",
            "a", "{\"t\":\"<" VALUE ">\"}", NULL);
    look_up(world, "[plugins.a]\nt = 1\n[plugins.b]\nu = \"${secret:none}\"\n", "b", NULL,
            ": u: there is no secret none");
    look_up(world, named, "a", "{\"t\":\"from a file\"}", NULL);
    assert_int_equal(unlink(file), 0);
    look_up(world, named, "a", NULL, "No such file");
    assert_int_equal(mkfifo(file, 0600), 0);
    look_up(world, named, "a", NULL, "regular");
    look_up(world, "[plugins.a]\nt = \"$${secret:one}\"\n", "a", "{\"t\":\"${secret:one}\"}", NULL);
}

static void references_that_are_written_wrongly_are_refused_without_their_text(void **state)
{
    struct world *world = *state;
    static const char *const texts[] = {
        "[plugins.a]\nt = \"${secret:hunter 2}\"\n",
        "[plugins.a]\nt = \"${secret:}\"\n",
        "[plugins.a]\nt = \"${file:hunter}\"\n",
        "[secrets]\ncommand = [\"${secret:hunter}\"]\n",
        "[secrets]\ncommand = \"hunter\"\n",
        "[secrets]\ncommand = []\n",
        "[secrets]\nenv = [\"hunter\"]\n",
        "[secrets]\ncommand = [\"x\"]\ntimeout_ms = 0\n",
    };
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        struct kg_err err = {0};
        write_text(world->local, kg_str(texts[i]));
        assert_null(secret_values_read(world->local, &world->places, &err));
        assert_int_equal(err.code, KG_E_INVALID_CONFIG);
        assert_null(strstr(err.message, "hunter"));
    }
}

/* -- programs ---------------------------------------------------------------------------------- */

#define PROGRAM(script)                                                                            \
    "[secrets]\ncommand = [\"sh\", \"-c\", '''" script "''']\ntimeout_ms = 60000\n"
#define HANGS(script) "[secrets]\ncommand = [\"sh\", \"-c\", '''" script "''']\ntimeout_ms = 300\n"
#define USES          "[plugins.a]\nt = \"${secret:mail.token}\"\n"

static void a_program_answers_for_what_is_not_sealed(void **state)
{
    struct world *world = *state;
    setenv("KG_TEST_SEEN", "seen", 1);
    setenv("KG_TEST_HIDDEN", "hidden", 1);
    look_up(world, PROGRAM("echo \"<$0>\"") USES, "a", "{\"t\":\"<mail.token>\"}", NULL);
    look_up(
        world,
        PROGRAM("echo \"{name} $KG_TEST_SEEN$KG_TEST_HIDDEN\"") "environment = [\"KG_TEST_SEEN\", "
                                                                "\"KG_TEST_UNSET\"]\n" USES,
        "a", "{\"t\":\"mail.token seen\"}", NULL);
    must_set(world, "mail.token", VALUE);
    look_up(world, PROGRAM("echo wrong") USES, "a", "{\"t\":\"" VALUE "\"}", NULL);
}

static void a_program_that_hangs_floods_or_fails_is_ended_and_named(void **state)
{
    struct world *world = *state;
    look_up(world, HANGS("sleep 1000 & exec sleep 1000") USES, "a", NULL, "did not answer in 300");
    look_up(world, HANGS("exec >&-; exec sleep 1000") USES, "a", NULL, "did not end in 300");
    look_up(world, PROGRAM("head -c 1048576 /dev/zero | tr '\\0' x") USES, "a", NULL, "more than");
    look_up(world, PROGRAM("echo hunter2; exit 7") USES, "a", NULL, "exit code 7");
    look_up(world, PROGRAM("kill -9 $$") USES, "a", NULL, "signal 9");
    look_up(world, PROGRAM("true") USES, "a", NULL, "empty");
    look_up(world, PROGRAM("printf 'a\\000b'") USES, "a", NULL, "NUL");
    look_up(world, "[secrets]\ncommand = [\"/nowhere/pass\"]\n" USES, "a", NULL, "No such file");
}

static void a_file_that_others_can_write_runs_no_program(void **state)
{
    struct world *world = *state;
    write_text(world->local, KG_STR(PROGRAM("echo x") USES));
    assert_int_equal(chmod(world->local, 0620), 0);
    look_up(world, PROGRAM("echo x") USES, "a", NULL, "can be written by others");
    assert_int_equal(chmod(world->local, 0600), 0);
    assert_int_equal(chmod(world->folder, 0770), 0);
    look_up(world, PROGRAM("echo x") USES, "a", NULL, "can be written by others");
}

static void users_are_told_and_hold_it(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    must_set(world, "one", VALUE);
    must_set(world, "tiny", "1234567");
    write_text(world->local,
               KG_STR("[plugins.a]\nt = \"${secret:one}${secret:one}\"\n[plugins.\"@x/b\"]\n"
                      "t = \"${secret:one}\"\nu = \"${secret:gone}\"\n"));
    struct secret_values *values = secret_values_read(world->local, &world->places, &err);
    assert_non_null(values);
    secret_values_json(values, &json);
    kg_buf_terminate(&json);
    assert_non_null(strstr(json.data, "\"used_by\":[\"plugins.a\",\"plugins.@x/b\"]"));
    assert_non_null(strstr(json.data, "{\"name\":\"gone\",\"source\":\"missing\""));
    assert_non_null(
        strstr(json.data, "{\"name\":\"tiny\",\"source\":\"sealed\",\"redacted\":false"));
    assert_true(secret_check_unused(values, KG_STR("one"), &err) < 0);
    assert_int_equal(err.code, KG_E_REFUSED);
    assert_int_equal(secret_check_unused(values, KG_STR("tiny"), &err), 0);
    secret_values_drop(values);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_set_is_read_and_is_not_in_the_file),
        TEST(what_cannot_be_a_secret_is_refused_by_its_reason),
        TEST(a_box_cannot_take_the_place_of_another),
        TEST(a_file_that_was_cut_off_or_is_newer_is_refused_whole),
        TEST(without_its_key_nothing_is_opened_and_nothing_is_overwritten),
        TEST(a_key_that_others_can_read_is_refused),
        TEST(rotation_seals_all_and_the_old_key_opens_nothing),
        TEST(a_rotation_that_was_cut_off_loses_nothing),
        TEST(a_service_managers_key_goes_before_the_file_and_is_rotated_to),
        TEST(a_table_gets_what_it_names_and_its_problem_is_its_own),
        TEST(references_that_are_written_wrongly_are_refused_without_their_text),
        TEST(a_program_answers_for_what_is_not_sealed),
        TEST(a_program_that_hangs_floods_or_fails_is_ended_and_named),
        TEST(a_file_that_others_can_write_runs_no_program),
        TEST(users_are_told_and_hold_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
