/* Manifests: every rule of kaged-plugin.yaml, one at a time. */
#include "manifest/manifest.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* -- helpers ---------------------------------------------------------------------------------- */

/* A manifest that is fine, one entry a key. */
static const struct entry {
    const char *key, *text;
} entries[] = {
    {"name", "name: oh-my-pi\n"},
    {"version", "version: 1.4.2\n"},
    {"kaged_api", "kaged_api: 1\n"},
    {"description", "description: Presets.\n"},
    {"command", "command: [./run, --fast]\n"},
    {"capabilities", "capabilities: []\n"},
    {"methods", "methods: [presets.list]\n"},
};

/* It, with another text for one key (or one more key). */
static struct kg_buf manifest_with(const char *key, const char *text)
{
    struct kg_buf yaml = {0};
    bool replaced = false;
    for (size_t i = 0; i < KG_COUNT(entries); i++) {
        bool this_one = strcmp(entries[i].key, key) == 0;
        kg_buf_text(&yaml, this_one ? text : entries[i].text);
        replaced |= this_one;
    }
    if (!replaced)
        kg_buf_text(&yaml, text);
    return yaml;
}

static struct manifest *read_with(const char *key, const char *text, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf yaml = manifest_with(key, text);
    return manifest_read(kg_buf_view(&yaml), err);
}

static struct manifest *must_read_with(const char *key, const char *text)
{
    struct kg_err err = {0};
    struct manifest *manifest = read_with(key, text, &err);
    if (manifest == NULL)
        fail_msg("%s: %s", text, err.message);
    return manifest;
}

static void assert_taken(const char *key, const char *text)
{
    manifest_free(must_read_with(key, text));
}

/* Refused, with line, column and that message. */
static void assert_refused(const char *key, const char *text, const char *message)
{
    struct kg_err err = {0};
    unsigned line, column;
    struct manifest *manifest = read_with(key, text, &err);
    if (manifest != NULL)
        fail_msg("%.200s was taken", text);
    assert_int_equal(err.code, KG_E_INVALID_MANIFEST);
    if (sscanf(err.message, "%u:%u: ", &line, &column) != 2 || strstr(err.message, message) == NULL)
        fail_msg("%.200s: %s", text, err.message);
}

struct rule {
    const char *text;
    const char *problem; /* NULL: it is taken */
};

static void check_rules(const char *key, const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rules[i].problem == NULL)
            assert_taken(key, rules[i].text);
        else
            assert_refused(key, rules[i].text, rules[i].problem);
    }
}

#define CHECK_RULES(key, rules) check_rules(key, rules, KG_COUNT(rules))

/* -- the whole -------------------------------------------------------------------------------- */

static void every_field_is_read(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct manifest *manifest = manifest_read(
        KG_STR("name: memory-markdown\nversion: 0.1.0-rc.1\nkaged_api: 1\n"
               "description: >-\n  Markdown-file-backed\n  agent memory.\n"
               "author: kaged\nlicense: MIT\nhomepage: https://example.org/\n"
               "command:\n  - /usr/bin/env\n  - bun\n  - ./dist/index.js\n"
               "env:\n  LOG_LEVEL: info\n  EMPTY: \"\"\n"
               "capabilities:\n  - read:fs:config:/memory\n  - net: []\n"
               "methods: [presets.list]\nnotifications: [catalog.updated]\n"
               "shutdown_timeout_sec: 5\nhealth_interval_sec: 30\nhook_timeout_sec: 10\n"),
        &err);
    if (manifest == NULL)
        fail_msg("%s", err.message);
    assert_string_equal(manifest->name, "memory-markdown");
    assert_string_equal(manifest->version, "0.1.0-rc.1");
    assert_int_equal(manifest->kaged_api, 1);
    assert_string_equal(manifest->description, "Markdown-file-backed agent memory.");
    assert_string_equal(manifest->author, "kaged");
    assert_string_equal(manifest->license, "MIT");
    assert_string_equal(manifest->homepage, "https://example.org/");
    assert_int_equal(kg_list_count(manifest->command), 3);
    assert_string_equal(manifest->command[2], "./dist/index.js");
    assert_string_equal(manifest->env[0], "LOG_LEVEL=info");
    assert_string_equal(manifest->env[1], "EMPTY=");
    assert_string_equal(manifest->capabilities[0], "read:fs:config:/memory");
    assert_string_equal(manifest->capabilities[1], "net:[]");
    assert_string_equal(manifest->methods[0], "presets.list");
    assert_string_equal(manifest->notifications[0], "catalog.updated");
    assert_int_equal(manifest->shutdown_timeout_sec, 5);
    assert_int_equal(manifest->health_interval_sec, 30);
    assert_int_equal(manifest->hook_timeout_sec, 10);
    manifest_free(manifest);
}

static void what_is_absent_is_empty(void **state)
{
    (void)state;
    struct manifest *manifest = must_read_with("methods", "methods: [presets.list]\n");
    assert_null(manifest->author);
    assert_int_equal(kg_list_count(manifest->env), 0);
    assert_int_equal(kg_list_count(manifest->notifications), 0);
    assert_int_equal(manifest->shutdown_timeout_sec, 0);
    manifest_free(manifest);
    manifest_free(NULL);
}

static void each_required_key_is_missed_by_name(void **state)
{
    (void)state;
    static const char *const required[] = {"name",        "version", "kaged_api",
                                           "description", "command", "capabilities"};
    for (size_t i = 0; i < KG_COUNT(required); i++) {
        kg_auto(kg_free) char *message = kg_format("the key \"%s\" is missing", required[i]);
        assert_refused(required[i], "", message);
    }
}

static void a_plugin_that_offers_nothing_is_refused(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"", "offers nothing"},
        {"methods: []\n", "offers nothing"},
        {"methods: []\nhooks: []\ntools: []\nnotifications: []\n", "offers nothing"},
        {"hooks: [pre_compact]\n", NULL},
        {"tools: [{name: recall}]\n", NULL},
        {"notifications: [catalog.updated]\n", NULL},
    };
    CHECK_RULES("methods", rules);
}

static void what_is_no_map_of_keys_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",   "42\n",         "[]\n", "just words\n",  "name: [\n",
                                        "\t", "a: 1\na: 2\n", "\xFF", "--- 1\n--- 2\n"};
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        struct kg_err err = {0};
        unsigned line, column;
        assert_null(manifest_read(kg_str(texts[i]), &err));
        assert_int_equal(err.code, KG_E_INVALID_MANIFEST);
        if (sscanf(err.message, "%u:%u: ", &line, &column) != 2)
            fail_msg("%s", err.message);
    }
}

static void errors_point_at_the_value(void **state)
{
    (void)state;
    struct kg_err err = {0};
    assert_null(read_with("version", "version: one\n", &err));
    assert_true(kg_str_starts(kg_str(err.message), "2:10: version: "));
    assert_null(read_with("methods", "methods:\n  - presets.list\n  - Bad.Name\n", &err));
    assert_true(kg_str_starts(kg_str(err.message), "9:5: methods: \"Bad.Name\""));
}

/* -- rule by rule ----------------------------------------------------------------------------- */

static void names_are_slugs(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"name: a\n", NULL},
        {"name: a-1-b\n", NULL},
        {"name: a--\n", NULL},
        {"name: A\n", "is not valid"},
        {"name: oh_my\n", "is not valid"},
        {"name: 1a\n", "is not valid"},
        {"name: -a\n", "is not valid"},
        {"name: a.b\n", "is not valid"},
        {"name: a/b\n", "is not valid"},
        {"name: ..\n", "is not valid"},
        {"name: \"\"\n", "is not valid"},
        {"name: \"a\\n\"\n", "is not valid"},
        {"name: \"a\\0b\"\n", "NUL"},
        {"name: \"\xC3\xA9\"\n", "is not valid"},
        {"name: 7\n", "must be a string, not number"},
        {"name: null\n", "must be a string, not null"},
        {"name: [a]\n", "must be a string, not array"},
        {"name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", NULL},
        {"name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
         "longer than 64"},
    };
    CHECK_RULES("name", rules);
}

static void versions_are_semantic(void **state)
{
    (void)state;
    static const char *const good[] = {"0.0.0",
                                       "1.4.2",
                                       "10.20.30",
                                       "1.0.0-alpha",
                                       "1.0.0-alpha.1",
                                       "1.0.0-0.3.7",
                                       "1.0.0-x-y-z.--",
                                       "1.0.0+20130313144700",
                                       "1.0.0-beta+exp.sha.5114f85",
                                       "1.0.0+0.build.1-rc.10000",
                                       "999999999999999999.0.0",
                                       "1.0.0+007"};
    static const char *const bad[] = {
        "1",         "1.2",       "1.2.3.4", "01.2.3",   "1.02.3",     "1.2.03",
        "v1.2.3",    "1.2.3-",    "1.2.3+",  "1.2.3-01", "1.2.3-a..b", "1.2.3+a..b",
        "1.2.3-a_b", "1.2.3+a+b", "1.2.3 ",  " 1.2.3",   "",           "a.b.c",
        "1..3",      "1.2.",      "-1.2.3",  "1.2.3\n",  "^1.2.3"};
    for (size_t i = 0; i < KG_COUNT(good); i++) {
        kg_auto(kg_free) char *text = kg_format("version: \"%s\"\n", good[i]);
        assert_taken("version", text);
    }
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        kg_auto(kg_free) char *text = kg_format("version: \"%s\"\n", bad[i]);
        assert_refused("version", text, "is not a semantic version");
    }
}

static void a_version_without_quotes_gets_a_hint(void **state)
{
    (void)state;
    struct kg_err err = {0};
    assert_null(read_with("version", "version: 1.0\n", &err));
    assert_non_null(strstr(err.message, "must be a string, not number"));
    assert_non_null(strstr(err.hint, "put quotes around it"));
}

static void the_api_must_be_one_that_we_speak(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"kaged_api: 2\n", "a newer kaged is needed"},
        {"kaged_api: 2147483647\n", "a newer kaged is needed"},
        {"kaged_api: 0\n", "must be from 1"},
        {"kaged_api: -1\n", "must be from 1"},
        {"kaged_api: 9223372036854775807\n", "must be from 1"},
        {"kaged_api: 1.0\n", "must be an integer"},
        {"kaged_api: \"1\"\n", "must be an integer"},
        {"kaged_api: yes\n", "must be an integer"},
    };
    CHECK_RULES("kaged_api", rules);
}

static void assert_description(const char *piece, size_t count, const char *problem)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "description: \"");
    for (size_t i = 0; i < count; i++)
        kg_buf_text(&text, piece);
    kg_buf_text(&text, "\"\n");
    check_rules("description", &(struct rule){kg_buf_terminate(&text), problem}, 1);
}

static void descriptions_are_one_line_of_200_characters(void **state)
{
    (void)state;
    assert_description("a", 200, NULL);
    assert_description("a", 201, "at most 200");
    assert_description("\xE2\x82\xAC", 200, NULL); /* characters, not bytes */
    assert_description("\xE2\x82\xAC", 201, "at most 200");
    assert_description("a", 100000, "longer than");
    assert_description("a\\n", 2, "must be one line");
    assert_description("a\\r", 2, "must be one line");
    assert_description("\\e[2J", 1, "must be one line");
    assert_refused("description", "description: |\n  one\n  two\n", "must be one line");
    assert_refused("description", "description: 5\n", "must be a string");
}

static void commands_name_a_program(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"command: [./run]\n", NULL},
        {"command: [./run, \"\"]\n", NULL},
        {"command: []\n", "must name a program"},
        {"command: [\"\"]\n", "must name a program"},
        {"command: ./run\n", "must be a list, not string"},
        {"command: [./run, 5]\n", "must be a string, not number"},
        {"command: [\"a\\0b\"]\n", "NUL"},
    };
    CHECK_RULES("command", rules);
}

static void methods_have_two_to_four_segments(void **state)
{
    (void)state;
    static const char *const good[] = {"a.b",      "a.b.c.d",   "presets.list", "a_1.b_2__",
                                       "kagedx.y", "a.kaged.b", "systems.x"};
    static const char *const bad[] = {"a",
                                      "a.b.c.d.e",
                                      ".a",
                                      "a.",
                                      "a..b",
                                      "A.b",
                                      "a.B",
                                      "1.a",
                                      "a.1",
                                      "_a.b",
                                      "a._b",
                                      "a-b.c",
                                      "a.b ",
                                      "a b.c",
                                      "",
                                      "kaged.x",
                                      "kaged.hook.on_session_start",
                                      "system.x",
                                      "kaged.storage.query",
                                      "\xC3\xA9.a",
                                      "a.b\\n",
                                      "a/b.c"};
    for (size_t i = 0; i < KG_COUNT(good); i++) {
        kg_auto(kg_free) char *text = kg_format("methods: [\"%s\"]\n", good[i]);
        assert_taken("methods", text);
    }
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        kg_auto(kg_free) char *methods = kg_format("methods: [\"%s\"]\n", bad[i]);
        kg_auto(kg_free) char *notifications = kg_format("notifications: [\"%s\"]\n", bad[i]);
        assert_refused("methods", methods, "is not valid: two to four");
        assert_refused("notifications", notifications, "is not valid: two to four");
    }
}

static void methods_fit_on_the_wire(void **state)
{
    (void)state;
    char name[130];
    memset(name, 'a', sizeof(name));
    name[1] = '.';
    assert_true(manifest_method_is_valid((struct kg_str){name, 128}));
    assert_false(manifest_method_is_valid((struct kg_str){name, 129}));
    assert_false(manifest_method_is_valid(KG_STR("a.b\0")));
    assert_false(manifest_method_is_valid(KG_STR_NULL));
    assert_false(manifest_name_is_valid(KG_STR_NULL));
    assert_false(manifest_name_is_valid(KG_STR("a\0")));
}

static void env_maps_variables_to_strings(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"env: {A: x, _b1: \"a=b\"}\n", NULL},
        {"env: {}\n", NULL},
        {"env: [A]\n", "env must be a map"},
        {"env: A=b\n", "env must be a map"},
        {"env: {A: 1}\n", "must be a string, not number"},
        {"env: {A: true}\n", "must be a string, not boolean"},
        {"env: {A: null}\n", "must be a string, not null"},
        {"env: {A: [x]}\n", "must be a string, not array"},
        {"env: {1A: x}\n", "is not a variable name"},
        {"env: {\"\": x}\n", "is not a variable name"},
        {"env: {\"A=B\": x}\n", "is not a variable name"},
        {"env: {\"A\\0B\": x}\n", "is not a variable name"},
        {"env: {A-B: x}\n", "is not a variable name"},
        {"env: {A: \"x\\0y\"}\n", "NUL"},
    };
    CHECK_RULES("env", rules);
    struct kg_err err = {0};
    assert_null(read_with("env", "env: {PORT: 80}\n", &err));
    assert_non_null(strstr(err.hint, "put quotes around"));
}

static void assert_capabilities(const char *text, const char *wanted)
{
    struct manifest *manifest = must_read_with("capabilities", text);
    kg_auto(kg_buf_free) struct kg_buf joined = {0};
    for (char **at = manifest->capabilities; *at != NULL; at++)
        kg_buf_printf(&joined, "%s;", *at);
    manifest_free(manifest);
    assert_string_equal(kg_buf_terminate(&joined), wanted);
}

static void net_may_be_written_as_a_map(void **state)
{
    (void)state;
    assert_capabilities("capabilities: []\n", "");
    assert_capabilities("capabilities:\n  - net: []\n", "net:[];");
    assert_capabilities("capabilities:\n  - \"net:[]\"\n", "net:[];");
    assert_capabilities("capabilities:\n  - net:api.example.com:443\n", "net:api.example.com:443;");
    assert_capabilities("capabilities:\n  - net: [\"a:443\", \"b:*\"]\n  - read:fs:/opt/x\n",
                        "net:a:443;net:b:*;read:fs:/opt/x;");
}

static void capabilities_of_other_shapes_are_refused(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"capabilities: null\n", "must be a list, not null"},
        {"capabilities: net:[]\n", "must be a list"},
        {"capabilities: [1]\n", "must be a string, not number"},
        {"capabilities: [[]]\n", "must be a string, not array"},
        {"capabilities:\n  - net: \"*\"\n", "a capability is a string, or net: with a list"},
        {"capabilities:\n  - net:\n", "a capability is a string, or net: with a list"},
        {"capabilities:\n  - net: [1]\n", "must be a string, not number"},
        {"capabilities:\n  - net: [\"a\\0b\"]\n", "NUL"},
        {"capabilities:\n  - read: [/x]\n", "a capability is a string, or net: with a list"},
        {"capabilities:\n  - net: []\n    x: []\n", "a capability is a string"},
        {"capabilities:\n  - {}\n", "a capability is a string"},
        {"capabilities: [\"a\\0b\"]\n", "NUL"},
    };
    CHECK_RULES("capabilities", rules);
}

static struct kg_buf repeated(const char *before, const char *piece, size_t count,
                              const char *after)
{
    struct kg_buf text = {0};
    kg_buf_text(&text, before);
    for (size_t i = 0; i < count; i++)
        kg_buf_text(&text, piece);
    kg_buf_text(&text, after);
    kg_buf_terminate(&text);
    return text;
}

/* Many targets in few net: maps once cost time by the square of their number. */
static void lists_are_bounded(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf methods = repeated("methods: [", "a.b,", 1025, "]\n");
    kg_auto(kg_buf_free) struct kg_buf targets =
        repeated("capabilities:\n  - net: [", "a,", 60000, "]\n");
    kg_auto(kg_buf_free) struct kg_buf maps =
        repeated("capabilities:\n", "  - net: [a,b,c,d,e,f,g,h,i,j]\n", 1000, "");
    kg_auto(kg_buf_free) struct kg_buf fits = repeated("capabilities: [", "a,", 1024, "]\n");
    assert_refused("methods", methods.data, "at most 1024");
    assert_refused("capabilities", targets.data, "at most 1024");
    assert_refused("capabilities", maps.data, "more than 1024");
    assert_taken("capabilities", fits.data);
}

static void texts_are_bounded(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf author = repeated("author: ", "a", 5000, "\n");
    kg_auto(kg_buf_free) struct kg_buf path = repeated("capabilities: [", "a", 5000, "]\n");
    assert_refused("author", author.data, "longer than 4096");
    assert_refused("capabilities", path.data, "longer than 4096");
}

static void timeouts_are_within_the_documented_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        int min, max;
    } rows[] = {{"shutdown_timeout_sec", 1, 30},
                {"health_interval_sec", 5, 300},
                {"hook_timeout_sec", 1, 60}};
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        const int values[] = {rows[i].min - 1, rows[i].min, rows[i].max, rows[i].max + 1};
        for (size_t k = 0; k < KG_COUNT(values); k++) {
            kg_auto(kg_free) char *text = kg_format("%s: %d\n", rows[i].key, values[k]);
            bool fine = k == 1 || k == 2;
            check_rules(rows[i].key, &(struct rule){text, fine ? NULL : "it must be from"}, 1);
        }
        kg_auto(kg_free) char *text = kg_format("%s: 5.5\n", rows[i].key);
        assert_refused(rows[i].key, text, "must be an integer");
    }
}

static void optional_texts_must_be_texts(void **state)
{
    (void)state;
    assert_refused("author", "author: [a]\n", "author must be a string");
    assert_refused("license", "license: 3\n", "license must be a string");
    assert_refused("homepage", "homepage: {a: b}\n", "homepage must be a string");
    assert_taken("author", "author: \"\"\n");
}

/* -- files ------------------------------------------------------------------------------------ */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/kaged-unit-manifest.XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", folder);
    return system(command);
}

static void load_names_the_file(void **state)
{
    (void)state;
    struct kg_err err = {0};
    assert_null(manifest_load(folder, &err));
    assert_int_equal(err.code, KG_E_INVALID_MANIFEST);
    assert_non_null(strstr(err.message, "/kaged-plugin.yaml: No such file or directory"));

    kg_auto(kg_free) char *path = kg_format("%s/" MANIFEST_FILE, folder);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    kg_auto(kg_buf_free) struct kg_buf yaml = manifest_with("name", "name: BAD\n");
    assert_int_equal(kg_write_all(fd, yaml.data, yaml.length), 0);
    assert_null(manifest_load(folder, &err));
    assert_true(kg_str_starts(kg_str(err.message), path));
    assert_non_null(strstr(err.message, ": 1:7: name: \"BAD\""));
}

static void load_does_not_wait_for_a_fifo(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(kg_free) char *path = kg_format("%s/" MANIFEST_FILE, folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    assert_null(manifest_load(folder, &err));
    alarm(0);
    assert_int_equal(err.code, KG_E_INVALID_MANIFEST);
}

#define FOLDER_TEST(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(what_is_absent_is_empty),
        cmocka_unit_test(each_required_key_is_missed_by_name),
        cmocka_unit_test(a_plugin_that_offers_nothing_is_refused),
        cmocka_unit_test(what_is_no_map_of_keys_is_refused),
        cmocka_unit_test(errors_point_at_the_value),
        cmocka_unit_test(names_are_slugs),
        cmocka_unit_test(versions_are_semantic),
        cmocka_unit_test(a_version_without_quotes_gets_a_hint),
        cmocka_unit_test(the_api_must_be_one_that_we_speak),
        cmocka_unit_test(descriptions_are_one_line_of_200_characters),
        cmocka_unit_test(commands_name_a_program),
        cmocka_unit_test(methods_have_two_to_four_segments),
        cmocka_unit_test(methods_fit_on_the_wire),
        cmocka_unit_test(env_maps_variables_to_strings),
        cmocka_unit_test(net_may_be_written_as_a_map),
        cmocka_unit_test(capabilities_of_other_shapes_are_refused),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(texts_are_bounded),
        cmocka_unit_test(timeouts_are_within_the_documented_ranges),
        cmocka_unit_test(optional_texts_must_be_texts),
        FOLDER_TEST(load_names_the_file),
        FOLDER_TEST(load_does_not_wait_for_a_fifo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
