/* Entries of clients' files: what each becomes, and what of it is a key. */
#include "import/import.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct import_list parse(const char *text, const char *path)
{
    struct import_list list = {0};
    struct kg_err err = {0};
    if (import_parse(kg_str(text), path, "Test", "/srv/shop", &list, &err) < 0)
        fail_msg("%s", err.message);
    return list;
}

static const struct import_server *only(const struct import_list *list)
{
    assert_int_equal(list->count, 1);
    return &list->items[0];
}

static char *joined(char *const *list)
{
    struct kg_buf text = {0};
    for (size_t i = 0; list[i] != NULL; i++)
        kg_buf_printf(&text, "%s%s", i > 0 ? " " : "", list[i]);
    return kg_buf_terminate(&text);
}

static void assert_words(char *const *list, const char *words)
{
    kg_auto(kg_free) char *text = joined(list);
    assert_string_equal(text, words);
}

static const char *key_of(const struct import_server *server, const char *name)
{
    for (size_t i = 0; i < server->key_count; i++)
        if (strcmp(server->keys[i].name, name) == 0)
            return server->keys[i].value ? server->keys[i].value : "(unset)";
    return "(none)";
}

/* -- commands ---------------------------------------------------------------------------------- */

/* In: a command line as JSON. Out: kind, source or why, arguments. */
static void commands_become_sources(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        enum import_kind kind;
        const char *source, *args;
    } rows[] = {
        {"\"npx\",\"args\":[\"-y\",\"@a/b\",\"x\"]", IMPORT_NPM, "npm:@a/b", "x"},
        {"\"npx\",\"args\":[\"--yes\",\"b@1.2.3\"]", IMPORT_NPM, "npm:b@1.2.3", ""},
        {"\"npx\",\"args\":[\"b@latest\"]", IMPORT_NPM, "npm:b", ""},
        {"\"npx.cmd\",\"args\":[\"b\"]", IMPORT_NPM, "npm:b", ""},
        {"\"cmd\",\"args\":[\"/c\",\"npx\",\"-y\",\"b\",\"y\"]", IMPORT_NPM, "npm:b", "y"},
        {"\"/opt/n/bin/npx\",\"args\":[\"-p\",\"b\",\"run-b\"]", IMPORT_NPM, "npm:b", "run-b"},
        {"\"bunx\",\"args\":[\"b\"]", IMPORT_NPM, "npm:b", ""},
        {"\"pnpm\",\"args\":[\"dlx\",\"b\"]", IMPORT_NPM, "npm:b", ""},
        {"[\"npx\",\"-y\",\"b\"]", IMPORT_NPM, "npm:b", ""},
        {"\"npx\",\"args\":[\"mcp-remote\",\"https://m.example/x\"]", IMPORT_REMOTE,
         "mcp+https://m.example/x", ""},
        {"\"/bin/cat\",\"args\":[\"-u\"]", IMPORT_PROGRAM, "program:/bin/cat", "-u"},
        {"\"npx\",\"args\":[\"../b\"]", IMPORT_BAD, NULL, ""},
        {"\"npx\",\"args\":[\"-y\"]", IMPORT_BAD, NULL, ""},
        {"\"npm\",\"args\":[\"run\",\"x\"]", IMPORT_NOT_YET, NULL, ""},
        {"\"/nowhere/x\"", IMPORT_BAD, NULL, ""},
        {"\"no-such-program-here\"", IMPORT_BAD, NULL, ""},
        {"\"\"", IMPORT_BAD, NULL, ""},
        {"7", IMPORT_BAD, NULL, ""},
        {"\"cat\",\"args\":[{}]", IMPORT_BAD, NULL, ""},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *text =
            kg_format("{\"mcpServers\":{\"s\":{\"command\":%s}}}", rows[i].words);
        kg_auto(import_list_free) struct import_list list = parse(text, "/x.json");
        const struct import_server *server = only(&list);
        if (server->kind != rows[i].kind)
            fail_msg("%s: %s", rows[i].words, import_kind_names[server->kind]);
        assert_true(kg_same_text(server->source, rows[i].source));
        assert_true((server->why != NULL) == (rows[i].source == NULL));
        assert_words(server->args, rows[i].args);
    }
}

static void what_fetches_otherwise_is_named_with_the_package_of_the_same_server(void **state)
{
    (void)state;
    static const struct {
        const char *words, *what, *instead;
    } rows[] = {
        {"\"docker\",\"args\":[\"run\",\"-i\",\"--rm\",\"-e\",\"A\",\"mcp/github:1\"]",
         "docker fetches: mcp/github:1", "@modelcontextprotocol/server-github"},
        {"\"docker\",\"args\":[\"run\",\"--mount\",\"type=bind\",\"mcp/memory\"]", "mcp/memory",
         "@modelcontextprotocol/server-memory"},
        {"\"uvx\",\"args\":[\"mcp-server-fetch\"]", "uvx fetches: mcp-server-fetch", NULL},
        {"\"uvx\",\"args\":[\"--from\",\"git+https://x\",\"y\"]", "git+https://x", NULL},
        {"\"pipx\",\"args\":[\"run\",\"thing==1\"]", "pipx fetches: thing==1", NULL},
        {"\"docker\",\"args\":[\"run\",\"images.test/github/github-mcp-server:2\"]",
         "docker fetches: images.test/github", "@modelcontextprotocol/server-github"},
        {"\"docker\"", "docker fetches", NULL},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *text =
            kg_format("{\"mcpServers\":{\"s\":{\"command\":%s}}}", rows[i].words);
        kg_auto(import_list_free) struct import_list list = parse(text, "/x.json");
        const struct import_server *server = only(&list);
        assert_int_equal(server->kind, IMPORT_NOT_YET);
        if (strstr(server->why, rows[i].what) == NULL)
            fail_msg("%s: %s", rows[i].words, server->why);
        assert_true(kg_same_text(server->instead, rows[i].instead));
    }
}

/* -- keys -------------------------------------------------------------------------------------- */

static void keys_leave_variables_headers_and_arguments(void **state)
{
    (void)state;
    kg_auto(import_list_free) struct import_list list =
        parse("{\"mcpServers\":{\"My Server\":{\"command\":\"npx\",\"args\":[\"b\",\"--api-key\","
              "\"hunter2\",\"--token=abc\",\"--port=80\",\"plain\"],\"env\":{\"GITHUB_TOKEN\":"
              "\"x\",\"LOG\":\"debug\",\"DB\":\"postgres://u:p@h/d\",\"N\":5}}}}",
              "/x.json");
    const struct import_server *server = only(&list);
    assert_string_equal(server->plugin, "my-server");
    assert_words(server->env, "LOG=debug N=5");
    assert_words(server->args, "--api-key ${env.ARG_2} --token=${env.ARG_3} --port=80 plain");
    assert_string_equal(key_of(server, "GITHUB_TOKEN"), "x");
    assert_string_equal(key_of(server, "DB"), "postgres://u:p@h/d");
    assert_string_equal(key_of(server, "ARG_2"), "hunter2");
    assert_string_equal(key_of(server, "ARG_3"), "abc");
    assert_int_equal(server->key_count, 4);
    assert_int_equal(kg_list_count(server->dangers), 1);
}

static void words_that_are_keys_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
        bool is_key;
    } rows[] = {
        {"GITHUB_PERSONAL_ACCESS_TOKEN", "x", true},
        {"apiKey", "x", true},
        {"Authorization", "Bearer x", true},
        {"X-API-Key", "x", true},
        {"THING", "ghp_0123456789", true},
        {"THING", "sk-abcdefgh", true},
        {"THING", "d41d8cd98f00b204e9800998ecf8427e", true},
        {"KEYBOARD", "us", false},
        {"PATH", "/usr/bin", false},
        {"LOG_LEVEL", "debug", false},
        {"URL", "https://example.org/a:b", false},
        {"DIR", "/home/u/a-very-long-folder-name-without-digits", false},
        {"TOKEN", "", false},
        {"AUTHOR", "Ann", false},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (import_is_key(kg_str(rows[i].name), kg_str(rows[i].value)) != rows[i].is_key)
            fail_msg("%s=%s", rows[i].name, rows[i].value);
}

static void what_stands_for_something_else_is_looked_up(void **state)
{
    (void)state;
    setenv("IMPORT_TEST_DIR", "/data", 1);
    setenv("IMPORT_TEST_TOKEN", "t0", 1);
    unsetenv("IMPORT_TEST_NONE");
    kg_auto(import_list_free) struct import_list list =
        parse("{\"servers\":{\"s\":{\"command\":\"npx\",\"args\":[\"b\",\"${IMPORT_TEST_DIR}/x\","
              "\"${IMPORT_TEST_NONE:-y}\",\"${workspaceFolder}/z\",\"${what is this}\"],\"env\":{"
              "\"A\":\"${input:my-key}\",\"B\":\"${env:IMPORT_TEST_TOKEN}\",\"C\":"
              "\"${IMPORT_TEST_NONE}\",\"D\":\"{env:IMPORT_TEST_DIR}\"}}}}",
              "/srv/shop/.vscode/mcp.json");
    const struct import_server *server = only(&list);
    assert_words(server->args, "/data/x y /srv/shop/z ${what is this}");
    assert_words(server->env, "D=/data");
    assert_string_equal(key_of(server, "A"), "(unset)");
    assert_string_equal(key_of(server, "B"), "t0");
    assert_string_equal(key_of(server, "C"), "(unset)");
}

static void headers_name_their_keys(void **state)
{
    (void)state;
    unsetenv("E_TOKEN");
    kg_auto(import_list_free) struct import_list list =
        parse("[mcp_servers.e]\nurl = \"https://h/m\"\nbearer_token_env_var = \"E_TOKEN\"\n"
              "http_headers = { X-Team = \"blue\", X-Api-Key = \"k\" }\n",
              "/c.toml");
    const struct import_server *server = only(&list);
    assert_string_equal(server->source, "mcp+https://h/m");
    assert_words(server->headers, "X-Team=blue X-Api-Key=${env.X_Api_Key} "
                                  "Authorization=Bearer ${env.E_TOKEN}");
    assert_string_equal(key_of(server, "X_Api_Key"), "k");
    assert_string_equal(key_of(server, "E_TOKEN"), "(unset)");
}

/* -- files ------------------------------------------------------------------------------------- */

static void each_client_writes_it_its_own_way(void **state)
{
    (void)state;
    static const struct {
        const char *path, *text, *names;
    } rows[] = {
        {"/a.json", "{\"mcpServers\":{\"a\":{\"url\":\"https://h/m\"}}}", "a"},
        {"/b.json", "// editors\n{\"servers\":{\"b\":{\"command\":\"npx\",\"args\":[\"b\",],},},}",
         "b"},
        {"/c.json",
         "{\"mcp\":{\"c\":{\"type\":\"local\",\"command\":[\"npx\",\"c\"],\"environment\":{}}}}",
         "c"},
        {"/d.toml",
         "[mcp_servers.d]\ncommand = \"npx\"\nargs = [\"-y\", \"d\"]\n[mcp_servers.e]\n"
         "url = \"https://h/m\"\nbearer_token_env_var = \"E_TOKEN\"\n",
         "d e"},
        {"/e.json",
         "{\"mcpServers\":{\"u\":{\"command\":\"npx\",\"args\":[\"u\"]}},\"projects\":{\"/p\":{"
         "\"mcpServers\":{\"p\":{\"command\":\"npx\",\"args\":[\"p\"]}}},\"/q\":{}}}",
         "u p"},
        {"/f.json", "{\"other\": 1 /* nothing */}", ""},
        {"/g.json", "{\"mcpServers\":{\"x\":5}}", "x"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(import_list_free) struct import_list list = parse(rows[i].text, rows[i].path);
        kg_auto(kg_buf_free) struct kg_buf names = {0};
        for (size_t k = 0; k < list.count; k++)
            kg_buf_printf(&names, "%s%s", k > 0 ? " " : "", list.items[k].name);
        assert_string_equal(kg_buf_terminate(&names), rows[i].names);
    }
}

static void one_server_in_two_files_is_one_and_another_of_its_name_has_a_number(void **state)
{
    (void)state;
    static const char same[] = "{\"mcpServers\":{\"s\":{\"command\":\"npx\",\"args\":[\"b\"]}}}";
    static const char other[] = "{\"mcpServers\":{\"s\":{\"command\":\"npx\",\"args\":[\"c\"]}}}";
    kg_auto(import_list_free) struct import_list list = {0};
    struct kg_err err = {0};
    assert_int_equal(import_parse(kg_str(same), "/1", "A", "/", &list, &err), 0);
    assert_int_equal(import_parse(kg_str(same), "/2", "B", "/", &list, &err), 0);
    assert_int_equal(import_parse(kg_str(other), "/3", "C", "/", &list, &err), 0);
    assert_int_equal(list.count, 2);
    assert_words(list.items[0].files, "/1 /2");
    assert_string_equal(list.items[0].plugin, "s");
    assert_string_equal(list.items[1].plugin, "s-2");
}

static void a_file_that_cannot_be_read_is_named_with_its_place(void **state)
{
    (void)state;
    kg_auto(import_list_free) struct import_list list = {0};
    struct kg_err err = {0};
    assert_true(import_parse(KG_STR("{\n \"mcpServers\": {"), "/x.json", "", "/", &list, &err) < 0);
    assert_non_null(strstr(err.message, "/x.json:2:"));
    assert_true(import_parse(KG_STR("/* never ends"), "/x.json", "", "/", &list, &err) < 0);
    assert_true(import_parse(KG_STR("{\"a\":\"never ends\\"), "/x.json", "", "/", &list, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_become_sources),
        cmocka_unit_test(what_fetches_otherwise_is_named_with_the_package_of_the_same_server),
        cmocka_unit_test(keys_leave_variables_headers_and_arguments),
        cmocka_unit_test(words_that_are_keys_are_known),
        cmocka_unit_test(what_stands_for_something_else_is_looked_up),
        cmocka_unit_test(headers_name_their_keys),
        cmocka_unit_test(each_client_writes_it_its_own_way),
        cmocka_unit_test(one_server_in_two_files_is_one_and_another_of_its_name_has_a_number),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
