/* Texts that must not be shown: in which forms they are found, and what of a text stays. */
#include "redact/redact.h"
#include "base/json/json.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECRET "s3cr3t+t0ken/with \"quotes\""

static struct redact_set *set;

static int set_up(void **state)
{
    (void)state;
    set = redact_set_new(NULL);
    redact_set_add(set, KG_STR(SECRET), REDACT_KEPT);
    redact_set_add(set, KG_STR("abcd"), REDACT_KEPT);
    return 0;
}

static int set_down(void **state)
{
    (void)state;
    redact_set_free(set);
    return 0;
}

static void assert_put(const struct redact_set *from, const char *text, bool is_cut,
                       const char *shown)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    bool any = redact_put(from, kg_str(text), is_cut, &out);
    assert_string_equal(kg_buf_terminate(&out), shown);
    assert_int_equal(any, strcmp(text, shown) != 0);
}

static void a_secret_is_hidden_in_every_form(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"is " SECRET "!", "is [redacted]!"},
        {"{\"a\":{\"b\":\"s3cr3t+t0ken/with \\u0022quotes\\\"\"}}",
         "{\"a\":{\"b\":\"[redacted]\"}}"},
        {"log: \"s3cr3t+t0ken/with \\\"quotes\\\"\"", "log: \"[redacted]\""},
        {"?q=s3cr3t%2Bt0ken%2Fwith%20%22quotes%22&x", "?q=[redacted]&x"},
        {"?q=s3cr3t%2bt0ken%2fwith%20%22quotes%22&x", "?q=[redacted]&x"},
        /* base64 of the secret, of "x" and it, of "xy" and it */
        {"b64 czNjcjN0K3Qwa2VuL3dpdGggInF1b3RlcyI=", "b64 [redacted]I="},
        {"b64 eHMzY3IzdCt0MGtlbi93aXRoICJxdW90ZXMi", "b64 eH[redacted]"},
        {"b64 eHlzM2NyM3QrdDBrZW4vd2l0aCAicXVvdGVzIg==", "b64 eHl[redacted]g=="},
        {"abcd abcde", "[redacted] abcde"},
        {"nothing of it", "nothing of it"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_put(set, rows[i][0], false, rows[i][1]);
    assert_put(NULL, SECRET, false, SECRET);
}

static void the_beginning_of_a_secret_at_a_cut_is_hidden(void **state)
{
    (void)state;
    assert_put(set, "token s3cr3t+t0k", true, "token [redacted]");
    assert_put(set, "token s3cr3t+t0k", false, "token s3cr3t+t0k");
    assert_put(set, "token s3cr3x", true, "token s3cr3x");
    assert_put(set, SECRET " and s3cr", true, "[redacted] and [redacted]");
}

static void what_is_added_later_or_to_the_other_set_is_hidden_at_once(void **state)
{
    (void)state;
    struct redact_set *own = redact_set_new(set);
    assert_put(own, "a " SECRET, false, "a [redacted]");
    redact_set_add(own, KG_STR("mine alone"), REDACT_SEEN);
    redact_set_add(set, KG_STR("everybody's"), REDACT_KEPT);
    assert_put(own, "mine alone, everybody's", false, "[redacted], [redacted]");
    assert_put(set, "mine alone, everybody's", false, "mine alone, [redacted]");
    redact_set_free(own);
}

/* Of what was only seen the latest stay; of what we were told all, or nothing is shown. */
static void no_number_of_secrets_makes_one_visible(void **state)
{
    (void)state;
    for (int i = 0; i < 5000; i++) {
        kg_auto(kg_free) char *text = kg_format("seen-%06d", i);
        redact_set_add(set, kg_str(text), REDACT_SEEN);
    }
    assert_put(set, "seen-004999 seen-000000", false, "[redacted] seen-000000");
    for (int i = 0; i < 1000; i++) {
        kg_auto(kg_free) char *text = kg_format("kept-%06d", i);
        redact_set_add(set, kg_str(text), REDACT_KEPT);
    }
    assert_put(set, "kept-000000 kept-000999 " SECRET, false, "[redacted] [redacted] [redacted]");
    for (int i = 0; i < 1000; i++) {
        kg_auto(kg_free) char *text = kg_format("more-%06d", i);
        redact_set_add(set, kg_str(text), REDACT_KEPT);
    }
    assert_put(set, "plain", false, "[redacted]");
}

/* A text without secrets costs about the same whether there is one secret or a thousand. */
static void many_secrets_and_a_long_text_are_no_quadratic_work(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0}, out = {0};
    for (int i = 0; i < 1000; i++) {
        kg_auto(kg_free) char *value = kg_format("%08x-secret", (unsigned)i * 2654435761u);
        redact_set_add(set, kg_str(value), REDACT_KEPT);
    }
    for (unsigned i = 0; text.length < (4 << 20); i++)
        kg_buf_printf(&text, "%08x ", i * 40503u);
    kg_buf_text(&text, SECRET);
    assert_true(redact_put(set, kg_buf_view(&text), false, &out)); /* and it was not given up: */
    assert_int_equal(out.length, text.length - strlen(SECRET) + strlen(REDACT_MARK));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, set_down)
    const struct CMUnitTest tests[] = {
        TEST(a_secret_is_hidden_in_every_form),
        TEST(the_beginning_of_a_secret_at_a_cut_is_hidden),
        TEST(what_is_added_later_or_to_the_other_set_is_hidden_at_once),
        TEST(no_number_of_secrets_makes_one_visible),
        TEST(many_secrets_and_a_long_text_are_no_quadratic_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
