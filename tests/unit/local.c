/* local.toml: the tables of plugins, what is ours and what is the plugin's, and ${VAR}. */
#include "config/local.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define HASH "sha256:abababababababababababababababababababababababababababababababab"

/* -- helpers ---------------------------------------------------------------------------------- */

static struct local *must_read(const char *text)
{
    struct kg_err err = {0};
    struct local *local = local_read(kg_str(text), LOCAL_REPLACE, &err);
    if (local == NULL)
        fail_msg("%s: %s", text, err.message);
    return local;
}

static const struct local_plugin *must_find(const struct local *local, const char *package)
{
    const struct local_plugin *plugin = local_plugin_find(local, kg_str(package));
    if (plugin == NULL)
        fail_msg("%s is not in it", package);
    return plugin;
}

/* Refused with exactly that message, "LINE:COLUMN: " before it. */
static void assert_refused(const char *text, const char *message)
{
    struct kg_err err = {0};
    if (local_read(kg_str(text), LOCAL_REPLACE, &err) != NULL)
        fail_msg("%s was taken", text);
    assert_int_equal(err.code, KG_E_INVALID_CONFIG);
    assert_string_equal(err.message, message);
}

static void assert_json(const struct kg_node *node, const char *json)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_json_put_node(&text, node);
    assert_string_equal(kg_buf_terminate(&text), json);
}

/* What the only plugin of the text is given as its secrets. */
static void assert_system(const char *text, const char *json)
{
    struct local *local = must_read(text);
    assert_int_equal(local->plugin_count, 1);
    assert_json(local->plugins[0].system, json);
    local_free(local);
}

static int set_variables(void **state)
{
    (void)state;
    setenv("KG_TEST_TOKEN", "s3cret", 1);
    setenv("KG_TEST_EMPTY", "", 1);
    setenv("KG_TEST_NESTED", "${KG_TEST_TOKEN}", 1);
    return unsetenv("KG_TEST_UNSET");
}

/* -- plugins ---------------------------------------------------------------------------------- */

static void a_file_without_plugins_has_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "# nothing\n", "[plugins]\n",
                                        "[providers.p]\nkind = \"openai\"\n"};
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        struct local *local = must_read(texts[i]);
        assert_int_equal(local->plugin_count, 0);
        assert_null(local_plugin_find(local, KG_STR("echo")));
        local_free(local);
    }
    local_free(NULL);
}

static void reserved_keys_are_taken_apart_from_the_rest(void **state)
{
    (void)state;
    struct local *local = must_read("[plugins.\"@kaged/memory\"]\n"
                                    "installed = \"1.2.3\"\nlocal = false\nhash = \"" HASH "\"\n"
                                    "api_token = \"t\"\nports = [1, 2]\n"
                                    "[plugins.\"@kaged/memory\".config]\nstore = \"config:/m\"\n");
    const struct local_plugin *plugin = must_find(local, "@kaged/memory");
    assert_true(kg_str_is(plugin->package, "@kaged/memory"));
    assert_true(kg_str_is(plugin->installed, "1.2.3"));
    assert_true(kg_str_is(plugin->hash, HASH));
    assert_false(plugin->local);
    assert_json(plugin->config, "{\"store\":\"config:/m\"}");
    assert_json(plugin->system, "{\"api_token\":\"t\",\"ports\":[1,2]}");
    local_free(local);
}

static void what_a_table_does_not_say_has_a_default(void **state)
{
    (void)state;
    struct local *local = must_read("[plugins.echo]\n");
    const struct local_plugin *plugin = must_find(local, "echo");
    assert_int_equal(plugin->installed.length, 0);
    assert_int_equal(plugin->hash.length, 0);
    assert_true(plugin->local);
    assert_null(plugin->config);
    assert_json(plugin->system, "{}");
    local_free(local);
}

static void plugins_are_found_by_their_package(void **state)
{
    (void)state;
    struct local *local = must_read("[plugins.a]\nx = 1\n[plugins.\"@s/a\"]\nx = 2\n"
                                    "[plugins]\nb = { x = 3 }\n");
    assert_int_equal(local->plugin_count, 3);
    assert_json(must_find(local, "a")->system, "{\"x\":1}");
    assert_json(must_find(local, "@s/a")->system, "{\"x\":2}");
    assert_json(must_find(local, "b")->system, "{\"x\":3}");
    assert_null(local_plugin_find(local, KG_STR("A")));
    assert_null(local_plugin_find(local, KG_STR_NULL));
    local_free(local);
}

static void only_four_keys_are_reserved(void **state)
{
    (void)state;
    static const char *const ours[] = {"installed", "local", "config", "hash"};
    static const char *const theirs[] = {"api_token", "Local", "configs", "", "hash "};
    for (size_t i = 0; i < KG_COUNT(ours); i++)
        assert_true(local_key_is_reserved(kg_str(ours[i])));
    for (size_t i = 0; i < KG_COUNT(theirs); i++)
        assert_false(local_key_is_reserved(kg_str(theirs[i])));
}

static void values_keep_their_types_and_places(void **state)
{
    (void)state;
    struct local *local = must_read("[plugins.a]\n  on = true\n  rate = 2.50\n"
                                    "  when = 1979-05-27\n  deep = { list = [[1], []] }\n");
    const struct kg_node *system = must_find(local, "a")->system;
    assert_json(system, "{\"on\":true,\"rate\":2.50,\"when\":\"1979-05-27\","
                        "\"deep\":{\"list\":[[1],[]]}}");
    assert_int_equal(kg_node_get(system, "rate")->line, 3);
    assert_int_equal(kg_node_get(system, "rate")->column, 10);
    assert_int_equal(kg_node_get(system, "when")->flavor, KG_DATE_LOCAL);
    local_free(local);
}

/* -- ${VAR} ----------------------------------------------------------------------------------- */

static void variables_are_replaced_wherever_a_string_stands(void **state)
{
    (void)state;
    assert_system("[plugins.a]\nt = \"${KG_TEST_TOKEN}\"\n", "{\"t\":\"s3cret\"}");
    assert_system("[plugins.a]\nt = \"<${KG_TEST_TOKEN}|${KG_TEST_TOKEN}>\"\n",
                  "{\"t\":\"<s3cret|s3cret>\"}");
    assert_system("[plugins.a]\nt = [\"${KG_TEST_TOKEN}\", {u = '${KG_TEST_TOKEN}'}]\n",
                  "{\"t\":[\"s3cret\",{\"u\":\"s3cret\"}]}");
    assert_system("[plugins.a]\nt = \"a${KG_TEST_EMPTY}b\"\n", "{\"t\":\"ab\"}");
}

static void variables_are_replaced_in_config_too(void **state)
{
    (void)state;
    struct local *local = must_read("[plugins.a]\nconfig = { url = \"u/${KG_TEST_TOKEN}\" }\n"
                                    "installed = \"${KG_TEST_TOKEN}\"\n");
    assert_json(must_find(local, "a")->config, "{\"url\":\"u/s3cret\"}");
    assert_true(kg_str_is(must_find(local, "a")->installed, "s3cret"));
    local_free(local);
}

static void a_value_that_came_in_is_not_looked_at_again(void **state)
{
    (void)state;
    assert_system("[plugins.a]\nt = \"${KG_TEST_NESTED}\"\n", "{\"t\":\"${KG_TEST_TOKEN}\"}");
}

static void two_dollars_stand_for_the_text_itself(void **state)
{
    (void)state;
    assert_system("[plugins.a]\nt = \"$${KG_TEST_TOKEN}\"\n", "{\"t\":\"${KG_TEST_TOKEN}\"}");
    assert_system("[plugins.a]\nt = \"$$${KG_TEST_TOKEN}\"\n", "{\"t\":\"$${KG_TEST_TOKEN}\"}");
    assert_system("[plugins.a]\nt = \"$KG_TEST_TOKEN $ $$ {} 5$\"\n",
                  "{\"t\":\"$KG_TEST_TOKEN $ $$ {} 5$\"}");
}

/* For who only looks at the file, or edits it, in another environment than the daemon's. */
static void variables_can_be_left_as_they_are(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct local *local =
        local_read(KG_STR("[plugins.a]\nt = \"${KG_TEST_UNSET}${\"\n"), LOCAL_LEAVE, &err);
    assert_non_null(local);
    assert_json(must_find(local, "a")->system, "{\"t\":\"${KG_TEST_UNSET}${\"}");
    local_free(local);
}

static void keys_are_left_as_they_are(void **state)
{
    (void)state;
    assert_system("[plugins.a]\n\"${KG_TEST_UNSET}\" = 1\n", "{\"${KG_TEST_UNSET}\":1}");
}

static void a_missing_variable_is_named_with_its_key(void **state)
{
    (void)state;
    struct kg_err err = {0};
    assert_null(local_read(KG_STR("[plugins.a]\nx = 1\napi_token = \"${KG_TEST_UNSET}\"\n"),
                           LOCAL_REPLACE, &err));
    assert_int_equal(err.code, KG_E_INVALID_CONFIG);
    assert_string_equal(err.message, "3:13: api_token needs the environment variable "
                                     "KG_TEST_UNSET, which is not set");
    assert_non_null(strstr(err.hint, "set KG_TEST_UNSET"));
    assert_refused("[plugins.a]\ndeep = { list = [\"ok\", \"${KG_TEST_UNSET}\"] }\n",
                   "2:24: list needs the environment variable KG_TEST_UNSET, which is not set");
    assert_refused("[providers.p]\napi_key = \"${KG_TEST_UNSET}\"\n",
                   "2:11: api_key needs the environment variable KG_TEST_UNSET, which is not set");
}

/* What stands behind a broken "${" may be a secret: it is not repeated. */
static void a_broken_variable_is_refused_without_its_text(void **state)
{
    (void)state;
    static const char *const values[] = {"${",     "${}",     "a${KG_TEST_TOKEN", "${s3 cret}",
                                         "${s3-}", "${1abc}", "${${s3cret}}",     "${s3\\u0000x}"};
    for (size_t i = 0; i < KG_COUNT(values); i++) {
        kg_auto(kg_free) char *text = kg_format("[plugins.a]\ntoken = \"%s\"\n", values[i]);
        assert_refused(text, "2:9: token: \"${\" without the name of a variable and \"}\"");
    }
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "[plugins.a]\ntoken = \"${");
    for (size_t i = 0; i < 100000; i++)
        kg_buf_text(&text, "ab");
    kg_buf_text(&text, "}\"\n");
    assert_refused(kg_buf_terminate(&text),
                   "2:9: token: \"${\" without the name of a variable and \"}\"");
}

/* -- what is refused -------------------------------------------------------------------------- */

static void an_unknown_section_gets_the_nearest(void **state)
{
    (void)state;
    struct kg_err err = {0};
    assert_null(local_read(KG_STR("\n[plugin.echo]\nx = 1\n"), LOCAL_REPLACE, &err));
    assert_int_equal(err.code, KG_E_INVALID_CONFIG);
    assert_string_equal(err.message, "2:2: unknown section plugin");
    assert_string_equal(err.hint, "did you mean plugins?");
    assert_refused("api_token = \"x\"\n", "1:1: unknown section api_token");
}

static void wrong_types_are_refused_at_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"plugins = 1\n", "1:11: plugins is a table of tables"},
        {"plugins = []\n", "1:11: plugins is a table of tables"},
        {"[[plugins]]\n", "1:3: plugins is a table of tables"},
        {"[plugins]\necho = 5\n", "2:8: plugins.echo is a table: write it as [plugins.\"echo\"]"},
        {"[[plugins.echo]]\n", "1:11: plugins.echo is a table: write it as [plugins.\"echo\"]"},
        {"[plugins.a]\nlocal = \"yes\"\n", "2:9: local takes true or false"},
        {"[plugins.a]\nconfig = [1]\n", "2:10: config takes a table"},
        {"[plugins.a]\ninstalled = 1.2\n", "2:13: installed takes a string"},
        {"[plugins.a]\nhash = {}\n", "2:8: hash takes a string"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_refused(rows[i].text, rows[i].message);
}

static void what_is_no_toml_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct kg_str texts[] = {
        KG_STR("[plugins.a]\nt = \"a\0b\"\n"), KG_STR("[plugins.a]\0"), KG_STR("[plugins.a\n"),
        KG_STR("[plugins.a]\nx = 1\nx = 2\n"), KG_STR("\xFF"),          KG_STR("x"),
    };
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        struct kg_err err = {0};
        assert_null(local_read(texts[i], LOCAL_REPLACE, &err));
        assert_int_equal(err.code, KG_E_INVALID_CONFIG);
        assert_in_range(err.message[0], '1', '3');
        assert_int_equal(err.message[1], ':');
    }
    assert_null(local_read(KG_STR("x"), LOCAL_REPLACE, NULL));
}

/* A reader that quotes what it could not read would show the secret that stands there. */
static void messages_do_not_repeat_a_value(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[plugins.a]\ntoken = s3cret\n",       "[plugins.a]\ntoken = \"s3cret\n",
        "[plugins.a]\ntoken = \"s3\\cret\"\n", "[plugins.a]\nlocal = \"s3cret\"\n",
        "[plugins.a]\nconfig = \"s3cret\"\n",  "[plugins.a]\ntoken = \"s3cret\" x\n",
        "[plugins.a]\ntoken = 's3cret\n",      "[plugins]\na = \"s3cret\"\n",
    };
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        struct kg_err err = {0};
        assert_null(local_read(kg_str(texts[i]), LOCAL_REPLACE, &err));
        if (strstr(err.message, "s3") != NULL || strstr(err.hint, "s3") != NULL)
            fail_msg("%s", err.message);
    }
}

/* -- files ------------------------------------------------------------------------------------ */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/kaged-unit-local.XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", folder);
    return system(command);
}

static char *write_file(struct kg_str text)
{
    char *path = kg_format("%s/local.toml", folder);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(kg_write_all(fd, text.data, text.length), 0);
    return path;
}

static void a_missing_file_is_an_empty_one(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct local *local = local_load("/nowhere/local.toml", LOCAL_REPLACE, &err);
    assert_non_null(local);
    assert_int_equal(local->plugin_count, 0);
    local_free(local);
}

static void load_names_the_file(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(kg_free) char *path = write_file(KG_STR("[plugins.a]\nlocal = 1\n"));
    kg_auto(kg_free) char *message = kg_format("%s:2:9: local takes true or false", path);
    assert_null(local_load(path, LOCAL_REPLACE, &err));
    assert_int_equal(err.code, KG_E_INVALID_CONFIG);
    assert_string_equal(err.message, message);
}

static void load_refuses_what_is_no_small_file(void **state)
{
    (void)state;
    struct kg_err err = {0};
    assert_null(local_load(folder, LOCAL_REPLACE, &err));
    assert_int_equal(err.code, KG_E_INVALID_CONFIG);
    kg_auto(kg_free) char *path = write_file(KG_STR("# "));
    assert_int_equal(truncate(path, (off_t)100 << 20), 0);
    assert_null(local_load(path, LOCAL_REPLACE, &err));
    assert_int_equal(err.code, KG_E_INVALID_CONFIG);
    assert_non_null(strstr(err.message, path));
}

#define VARIABLE_TEST(test) cmocka_unit_test_setup(test, set_variables)
#define FOLDER_TEST(test)   cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_without_plugins_has_none),
        cmocka_unit_test(reserved_keys_are_taken_apart_from_the_rest),
        cmocka_unit_test(what_a_table_does_not_say_has_a_default),
        cmocka_unit_test(plugins_are_found_by_their_package),
        cmocka_unit_test(only_four_keys_are_reserved),
        cmocka_unit_test(values_keep_their_types_and_places),
        VARIABLE_TEST(variables_are_replaced_wherever_a_string_stands),
        VARIABLE_TEST(variables_are_replaced_in_config_too),
        VARIABLE_TEST(a_value_that_came_in_is_not_looked_at_again),
        VARIABLE_TEST(two_dollars_stand_for_the_text_itself),
        VARIABLE_TEST(variables_can_be_left_as_they_are),
        VARIABLE_TEST(keys_are_left_as_they_are),
        VARIABLE_TEST(a_missing_variable_is_named_with_its_key),
        VARIABLE_TEST(a_broken_variable_is_refused_without_its_text),
        cmocka_unit_test(an_unknown_section_gets_the_nearest),
        cmocka_unit_test(wrong_types_are_refused_at_their_place),
        cmocka_unit_test(what_is_no_toml_is_refused_with_its_place),
        VARIABLE_TEST(messages_do_not_repeat_a_value),
        cmocka_unit_test(a_missing_file_is_an_empty_one),
        FOLDER_TEST(load_names_the_file),
        FOLDER_TEST(load_refuses_what_is_no_small_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
