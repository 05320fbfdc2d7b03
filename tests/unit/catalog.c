/* What the catalog reads of strangers: forms in pieces, and versions as PEP 440 orders them. */
#include "catalog/version.h"
#include "http/multipart.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- forms ------------------------------------------------------------------------------------- */

static void take_bytes(void *data, struct kg_str bytes)
{
    kg_buf_str(data, bytes);
}

static int read_form(struct kg_str body, size_t step, struct kg_buf *ret_file)
{
    struct kg_err err = {0};
    struct multipart form = {.on_bytes = take_bytes, .data = ret_file};
    int result =
        multipart_begin(&form, KG_STR("multipart/form-data; boundary=boundary"), "file", &err);
    for (size_t at = 0; result == 0 && at < body.length; at += step) {
        size_t length = body.length - at < step ? body.length - at : step;
        result = multipart_feed(&form, kg_str_first(kg_str_from(body, at), length), &err);
    }
    if (result == 0)
        result = multipart_end(&form, &err);
    multipart_free(&form);
    return result;
}

#define PART(name)                                                                                 \
    "--boundary\r\nContent-Disposition: form-data; name=\"" name "\"; filename=\"p.zip\"\r\n\r\n"

static void a_file_comes_out_of_a_form_whatever_its_pieces_are(void **state)
{
    static const char *const files[] = {"", "x", "PK\3\4 a\r\n--bo\r\n--bound",
                                        "\r\n\r\n--boundar\r\n"};
    (void)state;
    for (size_t i = 0; i < KG_COUNT(files); i++) {
        for (size_t step = 1; step < 80; step++) {
            kg_auto(kg_buf_free) struct kg_buf body = {0}, file = {0};
            kg_buf_printf(&body, PART("other") "zzz\r\n" PART("file") "%s\r\n--boundary--\r\n",
                          files[i]);
            assert_int_equal(read_form(kg_buf_view(&body), step, &file), 0);
            assert_true(kg_str_is(kg_buf_view(&file), files[i]));
        }
    }
}

static void what_is_no_form_is_refused(void **state)
{
    static const char *const bodies[] = {"",
                                         "x",
                                         PART("other") "x\r\n--boundary--\r\n",
                                         PART("file") "x",
                                         PART("file") "x\r\n--boundary",
                                         "--boundaryandmore\r\n\r\n\r\n--boundary--\r\n"};
    (void)state;
    for (size_t i = 0; i < KG_COUNT(bodies); i++) {
        kg_auto(kg_buf_free) struct kg_buf file = {0};
        assert_true(read_form(kg_str(bodies[i]), 7, &file) < 0);
    }
}

static void a_part_has_a_bounded_head(void **state)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0}, file = {0};
    (void)state;
    kg_buf_text(&body, "--boundary\r\nX: ");
    for (size_t i = 0; i < 2 * (size_t)MULTIPART_HEAD_MAX; i++)
        kg_buf_char(&body, 'x');
    assert_true(read_form(kg_buf_view(&body), 100, &file) < 0);
}

/* -- versions ---------------------------------------------------------------------------------- */

static void versions_have_the_order_of_pep_440(void **state)
{
    static const char *const order[] = {"1.0.dev1", "1.0a1",       "1.0b2",  "1.0rc1",
                                        "1.0",      "1.0.post1",   "1.0.1",  "1.9.0",
                                        "v1.10",    "1.10.1-rc.1", "1.10.1", "2!0.1"};
    (void)state;
    for (size_t i = 0; i < KG_COUNT(order); i++) {
        assert_true(catalog_version_valid(kg_str(order[i])));
        for (size_t k = 0; k < KG_COUNT(order); k++) {
            int compared = catalog_version_compare(kg_str(order[i]), kg_str(order[k]));
            assert_int_equal(compared, (i > k) - (i < k));
        }
    }
    assert_int_equal(catalog_version_compare(KG_STR("1.0"), KG_STR("1.0.0+local")), 0);
}

static void what_is_no_version_is_refused(void **state)
{
    static const char *const wrong[] = {"",     "x",  "1.0 ", "1..0",
                                        "1.0+", "-1", "1.0!", "9999999999999999999"};
    (void)state;
    for (size_t i = 0; i < KG_COUNT(wrong); i++)
        assert_false(catalog_version_valid(kg_str(wrong[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_comes_out_of_a_form_whatever_its_pieces_are),
        cmocka_unit_test(what_is_no_form_is_refused),
        cmocka_unit_test(a_part_has_a_bounded_head),
        cmocka_unit_test(versions_have_the_order_of_pep_440),
        cmocka_unit_test(what_is_no_version_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
