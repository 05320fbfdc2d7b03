/* [providers] and [models] of local.toml: what is taken, what stands in for what is not said. */
#include "config/local.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define PROVIDER "[providers.p]\nkind = \"openai\"\n"

static struct local *must_read(const char *text)
{
    struct kg_err err = {0};
    struct local *local = local_read(kg_str(text), LOCAL_REPLACE, &err);
    if (local == NULL)
        fail_msg("%s: %s", text, err.message);
    return local;
}

static void assert_refused(const char *text, const char *message, const char *hint)
{
    struct kg_err err = {0};
    if (local_read(kg_str(text), LOCAL_REPLACE, &err) != NULL)
        fail_msg("%s was taken", text);
    assert_int_equal(err.code, KG_E_INVALID_CONFIG);
    assert_string_equal(err.message, message);
    assert_string_equal(err.hint, hint);
}

static void a_provider_that_says_only_its_kind_has_defaults(void **state)
{
    (void)state;
    struct local *local = must_read("[providers.a]\nkind = \"openai\"\n"
                                    "[providers.b]\nkind = \"anthropic\"\n");
    const struct local_provider *a = local_provider_find(local, KG_STR("a"));
    const struct local_provider *b = local_provider_find(local, KG_STR("b"));
    assert_int_equal(a->kind, LOCAL_OPENAI);
    assert_true(kg_str_is(a->base_url, "https://api.openai.com/v1"));
    assert_string_equal(a->host, "api.openai.com");
    assert_int_equal(a->port, 443);
    assert_int_equal(a->api_key.length, 0);
    assert_null(a->headers);
    assert_int_equal(a->retries, 2);
    assert_int_equal(a->timeout_ms, 600000);
    assert_int_equal(b->kind, LOCAL_ANTHROPIC);
    assert_true(kg_str_is(b->base_url, "https://api.anthropic.com"));
    assert_null(local_provider_find(local, KG_STR("c")));
    local_free(local);
}

static void all_that_a_provider_says_is_taken(void **state)
{
    (void)state;
    setenv("KG_TEST_KEY", "s3cret", 1);
    struct local *local = must_read(
        "[providers.mine]\nkind = \"openai\"\nbase_url = \"https://LLM.Example.com:8443/v1/\"\n"
        "api_key = \"${KG_TEST_KEY}\"\nheaders = { X-Team = \"${KG_TEST_KEY}\" }\n"
        "connect_timeout_ms = 100\nidle_timeout_ms = 200\ntimeout_ms = 300\nretries = 0\n"
        "calls_max = 7\nwaiting_max = 0\n");
    const struct local_provider *mine = local_provider_find(local, KG_STR("mine"));
    assert_true(kg_str_is(mine->base_url, "https://LLM.Example.com:8443/v1"));
    assert_string_equal(mine->host, "llm.example.com");
    assert_int_equal(mine->port, 8443);
    assert_true(kg_str_is(mine->api_key, "s3cret"));
    assert_true(kg_str_is(kg_node_get(mine->headers, "X-Team")->text, "s3cret"));
    assert_int_equal(mine->connect_timeout_ms, 100);
    assert_int_equal(mine->idle_timeout_ms, 200);
    assert_int_equal(mine->timeout_ms, 300);
    assert_int_equal(mine->retries, 0);
    assert_int_equal(mine->calls_max, 7);
    assert_int_equal(mine->waiting_max, 0);
    local_free(local);
}

static void a_model_names_its_provider(void **state)
{
    (void)state;
    struct local *local =
        must_read("[models.fast]\nprovider = \"p\"\nmodel = \"gpt-x\"\nfast = true\n" PROVIDER
                  "[models]\nbig = { provider = \"p\", model = \"o9\", context_window = 200000, "
                  "max_tokens = 4096, reasoning = true, temperature = 0.50 }\n");
    const struct local_model *fast = local_model_find(local, KG_STR("fast"));
    const struct local_model *big = local_model_find(local, KG_STR("big"));
    assert_true(kg_str_is(fast->provider->name, "p"));
    assert_true(kg_str_is(fast->model, "gpt-x"));
    assert_true(fast->fast && !fast->reasoning);
    assert_int_equal(fast->context_window, 0);
    assert_int_equal(fast->temperature.length, 0);
    assert_int_equal(big->context_window, 200000);
    assert_int_equal(big->max_tokens, 4096);
    assert_true(kg_str_is(big->temperature, "0.50"));
    assert_true(big->reasoning && !big->fast);
    assert_null(local_model_find(local, KG_STR("slow")));
    local_free(local);
}

static void http_is_for_this_machine_unless_it_is_meant(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host;
        uint16_t port;
    } rows[] = {
        {"http://localhost:11434/v1", "localhost", 11434}, {"http://127.0.0.1", "127.0.0.1", 80},
        {"http://127.8.0.1:1/", "127.8.0.1", 1},           {"http://[::1]:8080/v1", "::1", 8080},
        {"https://[2001:db8::1]", "2001:db8::1", 443},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *text = kg_format(PROVIDER "base_url = \"%s\"\n", rows[i].url);
        struct local *local = must_read(text);
        assert_string_equal(local->providers[0].host, rows[i].host);
        assert_int_equal(local->providers[0].port, rows[i].port);
        local_free(local);
    }
    static const char key[] = PROVIDER "base_url = \"http://10.0.0.7:8000/v1\"\napi_key = \"k\"\n";
    assert_refused(key, "3:12: base_url: http:// would show the key to the network",
                   "use https://, or set insecure = true if that is intended");
    kg_auto(kg_free) char *meant = kg_format("%sinsecure = true\n", key);
    local_free(must_read(meant));
}

static void http_without_a_key_is_for_a_private_network(void **state)
{
    (void)state;
    static const char open_words[] =
        "3:12: base_url: http:// would show what is said to the network";
    static const char hint[] = "use https://, or set insecure = true if that is intended";
    static const char *const inside[] = {"10.0.0.7",    "172.16.0.1", "172.31.9.9", "192.168.1.2",
                                         "169.254.1.1", "100.64.0.1", "[fd00::7]",  "[fe80::1]",
                                         "gpu",         "gpu.local",  "ollama.lan", "a.b.internal"};
    static const char *const outside[] = {"11.0.0.7",     "172.32.0.1",    "192.169.1.2",
                                          "100.128.0.1",  "[2001:db8::1]", "example.org",
                                          "local.example"};
    for (size_t i = 0; i < KG_COUNT(inside); i++) {
        kg_auto(kg_free) char *text =
            kg_format(PROVIDER "base_url = \"http://%s:8000/v1\"\n", inside[i]);
        kg_auto(kg_free) char *headers = kg_format("%sheaders = { x-key = \"k\" }\n", text);
        local_free(must_read(text));
        assert_refused(headers, open_words, hint);
    }
    for (size_t i = 0; i < KG_COUNT(outside); i++) {
        kg_auto(kg_free) char *text =
            kg_format(PROVIDER "base_url = \"http://%s:8000/v1\"\n", outside[i]);
        assert_refused(text, open_words, hint);
    }
}

static void addresses_that_lead_nowhere_are_refused(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "3:12: base_url takes a string of 1 to 2048 bytes"},
        {"ftp://x", "3:12: base_url: it does not start with https:// or http://"},
        {"https://", "3:12: base_url: it has no host"},
        {"https:///v1", "3:12: base_url: it has no host"},
        {"https://[::1", "3:12: base_url: it has no host"},
        {"https://[x]/", "3:12: base_url: it has no host"},
        {"https://*/", "3:12: base_url: it has no host"},
        {"https://a:0/", "3:12: base_url: its port is not one from 1 to 65535"},
        {"https://a:65536", "3:12: base_url: its port is not one from 1 to 65535"},
        {"https://a:", "3:12: base_url: its port is not one from 1 to 65535"},
        {"https://[::1]x", "3:12: base_url: its port is not one from 1 to 65535"},
        {"https://key@a/",
         "3:12: base_url: it contains a user name: keys belong in api_key or headers"},
        {"https://a/?b", "3:12: base_url: it contains a \"?\" or \"#\""},
        {"https://a/ b", "3:12: base_url: it contains a character that no address may have"},
        {"https://\xC3\xA4/", "3:12: base_url: it contains a character that no address may have"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *text = kg_format(PROVIDER "base_url = \"%s\"\n", rows[i][0]);
        assert_refused(text, rows[i][1], "");
    }
}

static void what_is_wrong_is_told_with_its_place(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"providers = 1\n", "1:13: providers is a table of tables", ""},
        {"[providers]\np = 1\n", "2:5: providers.p is a table", ""},
        {"[providers.\"a b\"]\nkind = \"openai\"\n",
         "1:12: a name in [providers] has 1 to 64 letters, digits, \"-\", \"_\" and \".\"", ""},
        {"[providers.p]\n", "1:12: providers.p does not say its kind", ""},
        {"[providers.p]\nkind = \"gemini\"\n",
         "2:8: kind takes \"openai\", \"anthropic\" or \"demo\"", ""},
        {"[providers.p]\nkind = \"demo\"\nbase_url = \"http://localhost/\"\n",
         "3:12: the demo takes no base_url: it asks nobody", ""},
        {PROVIDER "api_kye = \"s3cret\"\n", "3:1: unknown key api_kye", "did you mean api_key?"},
        {PROVIDER "api_key = 1\n", "3:11: api_key takes a string", ""},
        {PROVIDER "api_key = \"a\\nb\"\n", "3:11: api_key contains a control character", ""},
        {PROVIDER "retries = 11\n", "3:11: retries takes a number from 0 to 10", ""},
        {PROVIDER "headers = { \"a:b\" = \"c\" }\n", "3:21: headers: that is not a header name",
         ""},
        {PROVIDER "headers = { Host = \"c\" }\n", "3:20: headers: host cannot be set", ""},
        {PROVIDER "headers = { a = \"c\\r\\nd: e\" }\n",
         "3:17: a header contains a control character", ""},
        {"models = []\n", "1:10: models is a table of tables", ""},
        {PROVIDER "[models.m]\nmodel = \"x\"\n", "3:9: models.m does not say its provider", ""},
        {PROVIDER "[models.m]\nprovider = \"p\"\n", "3:9: models.m does not say its model", ""},
        {"[providers.main]\nkind = \"openai\"\n[models.m]\nprovider = \"mian\"\nmodel = \"x\"\n",
         "4:12: there is no provider mian", "did you mean main?"},
        {"[models.m]\nprovider = \"openai\"\nmodel = \"x\"\n", "2:12: there is no provider openai",
         "write a table [providers.openai]"},
        {PROVIDER "[models.m]\ncontextwindow = 1\n", "4:1: unknown key contextwindow",
         "did you mean context_window?"},
        {PROVIDER "[models.m]\ntemperature = inf\n", "4:15: temperature takes a number", ""},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_refused(rows[i][0], rows[i][1], rows[i][2]);
}

/* For who looks at the file in another environment than the daemon's. */
static void what_variables_stand_for_is_not_judged_while_they_are_left(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct local *local =
        local_read(KG_STR(PROVIDER "base_url = \"${WHERE}/v1\"\n"), LOCAL_LEAVE, &err);
    assert_non_null(local);
    local_free(local);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_provider_that_says_only_its_kind_has_defaults),
        cmocka_unit_test(all_that_a_provider_says_is_taken),
        cmocka_unit_test(a_model_names_its_provider),
        cmocka_unit_test(http_is_for_this_machine_unless_it_is_meant),
        cmocka_unit_test(http_without_a_key_is_for_a_private_network),
        cmocka_unit_test(addresses_that_lead_nowhere_are_refused),
        cmocka_unit_test(what_is_wrong_is_told_with_its_place),
        cmocka_unit_test(what_variables_stand_for_is_not_judged_while_they_are_left),
    };
    return cmocka_run_group_tests_name("providers", tests, NULL, NULL);
}
