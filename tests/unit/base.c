/* The ground: texts, buffers, lists, maps, errors, log, clocks, ids, files, rates. */
#include "base/burst.h"
#include "base/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* -- helpers ----------------------------------------------------------------------------------- */

static void assert_text(struct kg_str got, const char *wanted)
{
    if (!kg_str_is(got, wanted))
        fail_msg("got '%.*s', wanted '%s'", KG_STR_ARG(got), wanted);
}

static char folder[64]; /* fresh for the group, removed after it */

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/kaged-unit-base.XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", folder);
    return system(command);
}

static char *in_folder(const char *name)
{
    return kg_format("%s/%s", folder, name);
}

static void put_file(const char *path, const char *text)
{
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(kg_write_all(fd, text, strlen(text)), 0);
}

/* -- text -------------------------------------------------------------------------------------- */

static void to_int_takes_all_of_int64_and_not_one_more(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"7", 7},
        {"-1", -1},
        {"007", 7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    for (size_t i = 0; i < KG_COUNT(good); i++) {
        int64_t value = 99;
        assert_true(kg_str_to_int(kg_str(good[i].text), &value));
        assert_int_equal(value, good[i].value);
    }
    static const char *const bad[] = {
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "1.0",
        "1e2",
        "0x1",
        "--1",
        "1-1",
        "१",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999999",
    };
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        int64_t value = 99;
        assert_false(kg_str_to_int(kg_str(bad[i]), &value));
        assert_int_equal(value, 99);
    }
}

static void to_int_stops_at_the_length_and_not_at_a_nul(void **state)
{
    (void)state;
    int64_t value = 0;
    assert_true(kg_str_to_int((struct kg_str){"123456", 3}, &value));
    assert_int_equal(value, 123);
    assert_false(kg_str_to_int((struct kg_str){"12\0", 3}, &value));
}

static void texts_without_data_are_empty_texts(void **state)
{
    (void)state;
    assert_true(kg_str_equal(KG_STR_NULL, KG_STR("")));
    assert_true(kg_str_starts(KG_STR_NULL, ""));
    assert_false(kg_str_starts(KG_STR_NULL, "a"));
    assert_int_equal(kg_str_compare(KG_STR_NULL, KG_STR("")), 0);
    assert_int_equal(kg_utf8_valid(KG_STR_NULL), 0);
    assert_int_equal(kg_hash(KG_STR_NULL), kg_hash(KG_STR("")));
    kg_auto(kg_free) char *copy = kg_str_dup(KG_STR_NULL);
    assert_string_equal(copy, "");
}

static void compare_orders_by_bytes_then_by_length(void **state)
{
    (void)state;
    assert_true(kg_str_compare(KG_STR("a"), KG_STR("b")) < 0);
    assert_true(kg_str_compare(KG_STR("ab"), KG_STR("a")) > 0);
    assert_true(kg_str_compare(KG_STR("a\xFF"), KG_STR("az")) > 0);
    assert_int_equal(kg_str_compare(KG_STR("same"), KG_STR("same")), 0);
}

static void characters_are_those_of_ascii(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'z';
        bool letter = lower || (c >= 'A' && c <= 'Z');
        assert_int_equal(kg_is_digit((char)c), digit);
        assert_int_equal(kg_is_lower((char)c), lower);
        assert_int_equal(kg_is_letter((char)c), letter);
        assert_int_equal(kg_is_letter_or_digit((char)c), letter || digit);
    }
}

static void texts_that_may_be_missing_are_compared(void **state)
{
    (void)state;
    assert_true(kg_same_text(NULL, NULL));
    assert_true(kg_same_text("a", "a"));
    assert_false(kg_same_text("a", "b"));
    assert_false(kg_same_text(NULL, ""));
    assert_false(kg_same_text("", NULL));
}

/* Five copies of this rule had drifted: on "/", on a folder that ends in a slash, and on "". */
static void path_is_within_a_folder_or_it_is_the_folder(void **state)
{
    (void)state;
    static const struct {
        const char *path, *folder;
        bool within;
    } rows[] = {
        {"/a", "/a", true},
        {"/a/b", "/a", true},
        {"/a/b/c", "/a", true},
        {"/ab", "/a", false},
        {"/a", "/a/b", false},
        {"/", "/", true},
        {"/a", "/", true},
        {"a", "/", false},
        {"project:/docs", "project:/", true},
        {"project:/", "project:/", true},
        {"project:/docs", "config:/", false},
        {"config:/x", "/", false},
        {"/a", "", false},
        {"", "", false},
        {"", "/", false},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (kg_path_within(rows[i].path, rows[i].folder) != rows[i].within)
            fail_msg("%s in %s", rows[i].path, rows[i].folder);
}

static void paths_are_cut_and_joined_at_a_slash(void **state)
{
    (void)state;
    static const struct {
        const char *path, *folder, *name, *joined;
    } rows[] = {
        {"/a/b", "/a", "b", "/a/b"},    {"/a", "/", "a", "/a"}, {"/", "/", "", "/"},
        {"a/b/c", "a/b", "c", "a/b/c"}, {"a", ".", "a", "./a"}, {"/a/", "/a", "", "/a/"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *above = kg_path_folder(rows[i].path);
        kg_auto(kg_free) char *joined = kg_path_join(above, kg_path_name(rows[i].path));
        assert_string_equal(above, rows[i].folder);
        assert_string_equal(kg_path_name(rows[i].path), rows[i].name);
        assert_string_equal(joined, rows[i].joined);
    }
}

static void nearest_suggests_what_is_close_and_nothing_else(void **state)
{
    (void)state;
    static const char *const keys[] = {"call_timeout_ms", "calls_in_flight", "line_max_bytes"};
    assert_string_equal(kg_str_nearest(KG_STR("call_timout_ms"), keys, 3), "call_timeout_ms");
    assert_string_equal(kg_str_nearest(KG_STR("calls_inflight"), keys, 3), "calls_in_flight");
    assert_null(kg_str_nearest(KG_STR("colour"), keys, 3));
    assert_null(kg_str_nearest(KG_STR(""), keys, 3));
    assert_null(kg_str_nearest(KG_STR("x"), keys, 0));
}

static void nearest_is_not_upset_by_long_texts(void **state)
{
    (void)state;
    char text[4096];
    memset(text, 'a', sizeof(text));
    char long_key[66] = {0};
    memset(long_key, 'a', 65);
    const char *keys[] = {long_key, "aaaa"};
    assert_null(kg_str_nearest((struct kg_str){text, sizeof(text)}, keys, 2));
    assert_string_equal(kg_str_nearest(KG_STR("aaab"), keys, 2), "aaaa");
    keys[0] = long_key + 1; /* 64 bytes, the longest that is compared */
    assert_string_equal(kg_str_nearest((struct kg_str){text, 64}, keys, 2), long_key + 1);
}

static void utf8_ends_where_it_is_wrong(void **state)
{
    (void)state;
    static const struct {
        struct kg_str text;
        size_t valid;
    } rows[] = {
        {KG_STR("plain ascii that is longer than a word"), 38},
        {KG_STR("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), 9},
        {KG_STR("ok\x80"), 2},   /* stray */
        {KG_STR("\xC0\xAF"), 0}, /* overlong / */
        {KG_STR("\xC1\xBF"), 0},
        {KG_STR("\xE0\x9F\xBF"), 0},     /* overlong in three */
        {KG_STR("\xF0\x8F\xBF\xBF"), 0}, /* overlong in four */
        {KG_STR("\xED\x9F\xBF"), 3},     /* the last before the surrogates */
        {KG_STR("\xED\xA0\x80"), 0},     /* a surrogate */
        {KG_STR("\xF4\x8F\xBF\xBF"), 4}, /* U+10FFFF */
        {KG_STR("\xF4\x90\x80\x80"), 0}, /* one past it */
        {KG_STR("\xF5\x80\x80\x80"), 0},
        {KG_STR("a\xE2\x82"), 1}, /* cut */
        {KG_STR("1234567\xE2\x82"), 7},
        {KG_STR("12345678\xC3\xA9"
                "12345678\xFF"),
         18},
        {KG_STR("nul\0is text"), 11},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *exact = malloc(rows[i].text.length);
        memcpy(exact, rows[i].text.data, rows[i].text.length);
        size_t valid = kg_utf8_valid((struct kg_str){exact, rows[i].text.length});
        if (valid != rows[i].valid)
            fail_msg("row %zu: %zu bytes are valid, not %zu", i, rows[i].valid, valid);
    }
}

/* -- buffers ----------------------------------------------------------------------------------- */

static void buf_grows_and_keeps_its_bytes(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    for (int i = 0; i < 100000; i++)
        kg_buf_char(&buf, (char)i);
    assert_int_equal(buf.length, 100000);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf.data[i], (char)i);
    assert_true(buf.capacity < 300000);
}

static void buf_consume_drops_the_front(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    kg_buf_consume(&buf, 0);
    kg_buf_text(&buf, "abcdef");
    kg_buf_consume(&buf, 2);
    assert_text(kg_buf_view(&buf), "cdef");
    kg_buf_consume(&buf, 4);
    assert_int_equal(buf.length, 0);
}

static void check_int(int64_t value)
{
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    char expected[32];
    snprintf(expected, sizeof(expected), "%lld", (long long)value);
    kg_buf_int(&buf, value);
    assert_text(kg_buf_view(&buf), expected);
}

static void buf_int_writes_integers_of_any_length(void **state)
{
    (void)state;
    check_int(0);
    check_int(INT64_MAX);
    check_int(INT64_MIN);
    for (int64_t power = 1; power <= INT64_MAX / 10; power *= 10)
        for (int64_t near = -1; near <= 1; near++) {
            check_int(power + near);
            check_int(-power - near);
            check_int(power * 7 + near);
        }
}

static void buf_printf_takes_any_length(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    kg_buf_printf(&buf, "%s", "");
    assert_int_equal(buf.length, 0);
    kg_buf_printf(&buf, "%s-%d", "a", 7);
    kg_buf_printf(&buf, "%5000d", 1);
    assert_int_equal(buf.length, 5003);
    kg_buf_append(&buf, NULL, 0);
    kg_buf_str(&buf, KG_STR_NULL);
    assert_int_equal(buf.length, 5003);
}

static void buf_terminate_does_not_count_the_nul(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    assert_string_equal(kg_buf_terminate(&buf), "");
    for (int i = 0; i < 64; i++)
        kg_buf_char(&buf, 'x');
    assert_int_equal(strlen(kg_buf_terminate(&buf)), 64);
    assert_int_equal(buf.length, 64);
}

static void escaped_text_cannot_turn_the_writing_around(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    kg_buf_escaped(&buf, KG_STR("a\xE2\x80\xAE"
                                "b\xEF\xBB\xBF\xE2\x80\xA8\0\xE2\x82"));
    kg_buf_escaped(&buf, KG_STR_NULL);
    assert_text(kg_buf_view(&buf), "a\\u202eb\\ufeff\\u2028\\x00\\xe2\\x82");
}

/* Names that look alike and are not: a zero width space, a soft hyphen, two fillers, a tag. */
static void escaped_text_hides_nothing(void **state)
{
    (void)state;
    static const char text[] = "a\xE2\x80\x8B\xC2\xAD\xE3\x85\xA4\xE1\xA0\x8E\xF3\xA0\x80\x81"
                               "b\xE2\x9A\xA0\xEF\xB8\x8F\xF0\x9F\x98\x80";
    kg_auto(kg_buf_free) struct kg_buf shown = {0}, json = {0};
    kg_buf_escaped(&shown, kg_str(text));
    assert_text(kg_buf_view(&shown), "a\\u200b\\u00ad\\u3164\\u180e\\U000e0001"
                                     "b\xE2\x9A\xA0\xEF\xB8\x8F\xF0\x9F\x98\x80");
    kg_buf_json_escaped(&json, KG_STR("\"\xF3\xA0\x81\xBF\""));
    assert_text(kg_buf_view(&json), "\"\\udb40\\udc7f\"");
}

/* -- lists and maps ---------------------------------------------------------------------------- */

static void list_holds_what_was_added(void **state)
{
    (void)state;
    char **list = kg_list_new(0);
    assert_int_equal(kg_list_count(list), 0);
    kg_list_add(&list, kg_strdup("one"));
    kg_list_add(&list, kg_strdup("two"));
    char **copy = kg_list_copy((const char *const *)list);
    kg_list_free(list);
    assert_int_equal(kg_list_count(copy), 2);
    assert_true(kg_list_has(copy, KG_STR("two")));
    assert_false(kg_list_has(copy, KG_STR("tw")));
    assert_false(kg_list_has(copy, KG_STR_NULL));
    kg_list_free(copy);
    kg_list_free(NULL);
}

#define MANY 10000

static struct kg_str number_key(char text[16], int number)
{
    return (struct kg_str){text, (size_t)snprintf(text, 16, "key-%d", number)};
}

static struct kg_map *map_of_many(char *values)
{
    struct kg_map *map = kg_map_new();
    char text[16];
    for (int i = 0; i < MANY; i++)
        kg_map_set(map, number_key(text, i), values + i);
    return map;
}

static void map_finds_each_of_ten_thousand_keys(void **state)
{
    (void)state;
    static char values[MANY];
    struct kg_map *map = map_of_many(values);
    char text[16];
    assert_int_equal(kg_map_count(map), MANY);
    for (int i = 0; i < MANY; i++)
        assert_ptr_equal(kg_map_get(map, number_key(text, i)), values + i);
    assert_null(kg_map_get(map, number_key(text, MANY)));
    kg_map_free(map);
}

static void map_walks_in_the_order_of_coming(void **state)
{
    (void)state;
    static char values[MANY];
    struct kg_map *map = map_of_many(values);
    char text[16];
    for (int i = 0; i < MANY; i++)
        if (i % 3 != 0)
            assert_ptr_equal(kg_map_remove(map, number_key(text, i)), values + i);
    kg_map_set(map, KG_STR("last"), values);
    size_t position = 0;
    int next = 0;
    struct kg_str key;
    void *value;
    while (kg_map_next(map, &position, &key, &value)) {
        if (next < MANY) {
            assert_true(kg_str_equal(key, number_key(text, next)));
            assert_ptr_equal(value, values + next);
        } else {
            assert_text(key, "last");
        }
        next += 3;
    }
    assert_int_equal(kg_map_count(map), (MANY + 2) / 3 + 1);
    kg_map_free(map);
}

static void map_forgets_what_was_removed(void **state)
{
    (void)state;
    static char values[MANY];
    struct kg_map *map = map_of_many(values);
    char text[16];
    for (int i = 0; i < MANY; i++)
        assert_non_null(kg_map_remove(map, number_key(text, i)));
    assert_int_equal(kg_map_count(map), 0);
    for (int i = 0; i < MANY; i++)
        assert_null(kg_map_remove(map, number_key(text, i)));
    size_t position = 0;
    assert_false(kg_map_next(map, &position, NULL, NULL));
    kg_map_set(map, number_key(text, 5), values);
    assert_ptr_equal(kg_map_get(map, number_key(text, 5)), values);
    kg_map_free(map);
}

static void map_stays_small_while_keys_come_and_go(void **state)
{
    (void)state;
    struct kg_map *map = kg_map_new();
    char text[16];
    for (int i = 0; i < 20 * MANY; i++) {
        kg_map_set(map, number_key(text, i), map);
        if (i >= 5)
            assert_ptr_equal(kg_map_remove(map, number_key(text, i - 5)), map);
    }
    size_t position = 0;
    for (int i = 0; i < 5; i++)
        assert_true(kg_map_next(map, &position, NULL, NULL));
    assert_true(position < 64); /* the holes were closed on the way */
    assert_false(kg_map_next(map, &position, NULL, NULL));
    kg_map_free(map);
}

static void map_set_again_keeps_the_place(void **state)
{
    (void)state;
    struct kg_map *map = kg_map_new();
    int first = 1, second = 2, third = 3;
    kg_map_set(map, KG_STR("a"), &first);
    kg_map_set(map, KG_STR("b"), &second);
    kg_map_set(map, KG_STR("a"), &third);
    size_t position = 0;
    struct kg_str key;
    void *value;
    assert_true(kg_map_next(map, &position, &key, &value));
    assert_text(key, "a");
    assert_ptr_equal(value, &third);
    assert_int_equal(kg_map_count(map), 2);
    kg_map_free(map);
}

static void map_takes_keys_that_are_empty_or_hold_nuls(void **state)
{
    (void)state;
    struct kg_map *map = kg_map_new();
    int empty = 0, one = 1, two = 2;
    assert_null(kg_map_get(map, KG_STR_NULL));
    kg_map_set(map, KG_STR(""), &empty);
    kg_map_set(map, KG_STR("a\0b"), &one);
    kg_map_set(map, KG_STR("a\0c"), &two);
    assert_ptr_equal(kg_map_get(map, KG_STR_NULL), &empty);
    assert_ptr_equal(kg_map_get(map, KG_STR("a\0b")), &one);
    assert_ptr_equal(kg_map_get(map, KG_STR("a\0c")), &two);
    assert_null(kg_map_get(map, KG_STR("a")));
    kg_map_free(map);
    kg_map_free(NULL);
}

/* -- errors ------------------------------------------------------------------------------------ */

static void errors_name_object_act_and_cause(void **state)
{
    (void)state;
    struct kg_err err;
    int result = kg_fail_errno(&err, ENOENT, "spawn %s", "bwrap");
    result = kg_wrap(&err, result, "plugin %s", "git");
    assert_int_equal(result, -ENOENT);
    assert_int_equal(err.code, KG_E_IO);
    assert_int_equal(err.errnum, ENOENT);
    assert_string_equal(err.message, "plugin git: spawn bwrap: No such file or directory");
    assert_string_equal(err.hint, "");
}

static void errors_may_be_unwanted(void **state)
{
    (void)state;
    assert_int_equal(kg_fail(NULL, KG_E_BUSY, "busy"), -EINVAL);
    assert_int_equal(kg_fail_errno(NULL, EPERM, "no"), -EPERM);
    assert_int_equal(kg_wrap(NULL, -EPERM, "more"), -EPERM);
    kg_hint(NULL, "try again");
}

static void errors_without_an_errno_are_still_failures(void **state)
{
    (void)state;
    struct kg_err err;
    assert_int_equal(kg_fail_errno(&err, 0, "odd"), -EIO);
}

static void a_new_error_has_no_old_hint(void **state)
{
    (void)state;
    struct kg_err err;
    kg_fail(&err, KG_E_BUSY, "first");
    kg_hint(&err, "wait %d s", 3);
    assert_string_equal(err.hint, "wait 3 s");
    kg_fail(&err, KG_E_NOT_FOUND, "second");
    assert_string_equal(err.hint, "");
    assert_string_equal(err.message, "second");
}

static void long_messages_are_cut_and_end(void **state)
{
    (void)state;
    struct kg_err err;
    char text[4096];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    kg_fail_errno(&err, ENOENT, "%s", text);
    assert_int_equal(strlen(err.message), KG_ERR_MESSAGE_MAX - 1);
    kg_wrap(&err, 0, "before");
    assert_int_equal(strlen(err.message), KG_ERR_MESSAGE_MAX - 1);
    assert_true(kg_str_starts(kg_str(err.message), "before: xxx"));
    kg_wrap(&err, 0, "%s", text);
    assert_int_equal(strlen(err.message), KG_ERR_MESSAGE_MAX - 1);
    kg_hint(&err, "%s", text);
    assert_int_equal(strlen(err.hint), sizeof(err.hint) - 1);
}

static void error_rows_are_found_by_code_and_name(void **state)
{
    (void)state;
    assert_int_equal(kg_code_from_rpc(-32601), KG_E_METHOD_NOT_FOUND);
    assert_int_equal(kg_code_from_rpc(-32603), KG_E_INTERNAL);
    assert_int_equal(kg_code_from_rpc(-32050), KG_E_PLUGIN);
    assert_int_equal(kg_code_from_rpc(0), KG_E_PLUGIN);
    assert_int_equal(kg_code_from_rpc(INT64_MIN), KG_E_PLUGIN);
    for (int code = 1; code < KG_CODE_COUNT; code++)
        assert_int_equal(kg_code_from_name(kg_str(kg_error_row(code)->name)), code);
    assert_int_equal(kg_code_from_name(KG_STR("no such name")), KG_E_INTERNAL);
    assert_ptr_equal(kg_error_row(KG_CODE_COUNT), kg_error_row(KG_E_INTERNAL));
}

/* -- log --------------------------------------------------------------------------------------- */

/* What one record puts on stderr. */
static char *logged(enum kg_log_format format, const char *message)
{
    kg_auto(kg_free) char *path = in_folder("log");
    put_file(path, "");
    int saved = dup(STDERR_FILENO);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    kg_log_set(KG_INFO, format);
    kg_log(KG_DEBUG, "not wanted");
    kg_log_about(KG_WARN, "git", "%s", message);
    kg_log_set(KG_INFO, KG_LOG_TEXT);
    dup2(saved, STDERR_FILENO);
    close(saved);
    struct kg_buf text = {0};
    assert_int_equal(kg_read_file(path, 1 << 20, &text, NULL), 0);
    return kg_buf_terminate(&text);
}

static void log_lets_no_control_character_through(void **state)
{
    (void)state;
    kg_time_set(0, -1);
    kg_auto(kg_free) char *line = logged(KG_LOG_TEXT, "a\nb\x1b[2J\x7f\xC2\x9B\x9B \xC3\xA9");
    assert_string_equal(line, "1970-01-01T00:00:00.000Z warn  plugin git: "
                              "a\\x0ab\\x1b[2J\\x7f\\u009b\\x9b \xC3\xA9\n");
    kg_time_set(-1, -1);
}

static void log_record_in_json_is_one_valid_line(void **state)
{
    (void)state;
    kg_auto(kg_free) char *line = logged(KG_LOG_JSON, "a\n\"b\"\xFF");
    struct kg_str text = kg_str(line);
    assert_ptr_equal(strchr(line, '\n'), line + text.length - 1);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, NULL);
    assert_non_null(doc);
    assert_text(kg_node_get(doc->root, "level")->text, "warn");
    assert_text(kg_node_get(doc->root, "plugin")->text, "git");
    assert_text(kg_node_get(doc->root, "message")->text, "a\n\"b\"\xEF\xBF\xBD");
}

static void log_cuts_a_message_without_end(void **state)
{
    (void)state;
    kg_auto(kg_free) char *message = kg_format("%100000d", 1);
    kg_auto(kg_free) char *line = logged(KG_LOG_TEXT, message);
    assert_true(strlen(line) < 3000);
    assert_int_equal(line[strlen(line) - 1], '\n');
}

/* -- time -------------------------------------------------------------------------------------- */

static void time_is_written_in_utc_with_milliseconds(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {1794781174123, "2026-11-15T22:19:34.123Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {253402300800000, "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
        {-1, "1970-01-01T00:00:00.000Z"},
        {INT64_MIN, "1970-01-01T00:00:00.000Z"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        char text[KG_TIME_TEXT];
        kg_time_format(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void time_reads_rfc_3339_and_dates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"1970-01-01", 0},
        {"1969-12-31T23:59:59Z", -1000},
        {"2026-11-15", 1794700800000},
        {"2026-11-15T22:19:34Z", 1794781174000},
        {"2026-11-15t22:19:34z", 1794781174000},
        {"2026-11-15 22:19:34", 1794781174000},
        {"2026-11-15T22:19:34.1Z", 1794781174100},
        {"2026-11-15T22:19:34.123456789Z", 1794781174123},
        {"2026-11-15T23:19:34+01:00", 1794781174000},
        {"2026-11-15T16:49:34.5-05:30", 1794781174500},
        {"2024-02-29", 1709164800000},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        int64_t ms = 99;
        if (!kg_time_parse(kg_str(rows[i].text), &ms) || ms != rows[i].ms)
            fail_msg("%s was read as %lld", rows[i].text, (long long)ms);
    }
}

static void time_refuses_what_no_calendar_has(void **state)
{
    (void)state;
    static const struct kg_str rows[] = {
        KG_STR(""),
        KG_STR("2026"),
        KG_STR("2026-11-1"),
        KG_STR("2026-13-01"),
        KG_STR("2026-00-01"),
        KG_STR("2026-02-30"),
        KG_STR("2023-02-29"),
        KG_STR("2026-11-00"),
        KG_STR("2026-11-32"),
        KG_STR("2026- 1- 1"),
        KG_STR("+026-01-01"),
        KG_STR("2026-11-15T"),
        KG_STR("2026-11-15T22:19"),
        KG_STR("2026-11-15T24:00:00Z"),
        KG_STR("2026-11-15T22:60:00Z"),
        KG_STR("2026-11-15T22:19:61Z"),
        KG_STR("2026-11-15T22:19:34.Z"),
        KG_STR("2026-11-15T22:19:34+1"),
        KG_STR("2026-11-15T22:19:34+24:00"),
        KG_STR("2026-11-15T22:19:34Zulu"),
        KG_STR("2026-11-15X22:19:34Z"),
        KG_STR("2026-11-15\0 22:19:34"),
        KG_STR("2026-11-15T22:19:34Z\0"),
        KG_STR("soon"),
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        int64_t ms = 99;
        if (kg_time_parse(rows[i], &ms))
            fail_msg("row %zu, %.*s, was read as %lld", i, KG_STR_ARG(rows[i]), (long long)ms);
        assert_int_equal(ms, 99);
    }
}

static void time_reads_spans_back_from_now(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t back_ms;
    } rows[] = {{"0s", 0}, {"90s", 90000}, {"15m", 900000}, {"2h", 7200000}, {"7d", 604800000}};
    kg_time_set(1794781174123, -1);
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        int64_t ms = 0;
        assert_true(kg_time_parse(kg_str(rows[i].text), &ms));
        assert_int_equal(ms, 1794781174123 - rows[i].back_ms);
    }
    static const char *const bad[] = {"s", "-1s", "1w", "1.5h", "9223372036854775807d"};
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        int64_t ms = 0;
        assert_false(kg_time_parse(kg_str(bad[i]), &ms));
    }
    kg_time_set(-1, -1);
}

static void clocks_can_be_set_and_given_back(void **state)
{
    (void)state;
    kg_time_set(5, 7);
    assert_int_equal(kg_wall_ms(), 5);
    assert_int_equal(kg_monotonic_ms(), 7);
    assert_int_equal(kg_monotonic_ns(), 7000000);
    kg_time_set(-1, -1);
    assert_true(kg_wall_ms() > 1600000000000);
    uint64_t before = kg_monotonic_ns();
    assert_true(kg_monotonic_ns() >= before);
}

static void test_burst_passes_so_many_and_then_few(void **state)
{
    (void)state;
    struct kg_burst burst = {0};
    uint64_t now_ms = 1000000;
    for (int i = 0; i < 5; i++)
        assert_true(kg_burst_pass(&burst, 5, 1000, now_ms));
    assert_false(kg_burst_pass(&burst, 5, 1000, now_ms + 999));
    assert_true(kg_burst_pass(&burst, 5, 1000, now_ms + 1000));
    assert_false(kg_burst_pass(&burst, 5, 1000, now_ms + 1001));
    unsigned passed = 0;
    for (unsigned i = 0; i < 10000; i++)
        passed += kg_burst_pass(&burst, 5, 1000, now_ms + 1000000 + i);
    assert_int_equal(passed, 5 + 9);
}

static void rate_passes_so_many_in_each_second(void **state)
{
    (void)state;
    struct kg_rate rate = {0};
    uint32_t dropped = 99;
    int passed = 0;
    for (int i = 0; i < 250; i++) {
        passed += kg_rate_pass(&rate, 100, 5000 + (uint64_t)i, &dropped);
        assert_int_equal(dropped, 0);
    }
    assert_int_equal(passed, 100);
    assert_true(kg_rate_pass(&rate, 100, 6000, &dropped));
    assert_int_equal(dropped, 150);
    assert_true(kg_rate_pass(&rate, 100, 6001, &dropped));
    assert_int_equal(dropped, 0); /* told once */
    assert_true(kg_rate_pass(&rate, 100, 90000, NULL));
}

/* -- ids --------------------------------------------------------------------------------------- */

static void ids_grow_and_never_repeat(void **state)
{
    (void)state;
    struct kg_id last = kg_id_new("");
    for (int i = 0; i < 100000; i++) {
        struct kg_id next = kg_id_new("");
        assert_true(strcmp(next.text, last.text) > 0); /* growing, so unique as well */
        last = next;
    }
}

static void ulids_count_up_in_their_digits(void **state)
{
    (void)state;
    char text[KG_ULID_LENGTH + 1] = "01ARZ3NDEKTSV4RRFFQ69G5000";
    for (size_t i = 1; i < 32; i++) {
        kg_ulid_count_up(text);
        assert_int_equal(text[KG_ULID_LENGTH - 1], kg_ulid_digits[i]);
    }
    kg_ulid_count_up(text);
    assert_string_equal(text, "01ARZ3NDEKTSV4RRFFQ69G5010");
}

static void ids_are_a_prefix_and_a_ulid(void **state)
{
    (void)state;
    kg_time_set(281474976710655, -1); /* 48 bits, the last millisecond that a ULID can name */
    struct kg_id id = kg_id_new("req__");
    assert_int_equal(strlen(id.text), 5 + KG_ULID_LENGTH);
    assert_memory_equal(id.text, "req__7ZZZZZZZZZ", 15);
    assert_int_equal(strspn(id.text + 5, "0123456789ABCDEFGHJKMNPQRSTVWXYZ"), KG_ULID_LENGTH);
    kg_time_set(-1, -1);
}

static void ids_grow_while_the_clock_goes_back(void **state)
{
    (void)state;
    kg_time_set(281474976710655, -1);
    struct kg_id before = kg_id_new("");
    kg_time_set(1000, -1);
    struct kg_id after = kg_id_new("");
    assert_true(strcmp(after.text, before.text) > 0);
    kg_time_set(-1, -1);
}

/* -- files ------------------------------------------------------------------------------------- */

static void read_file_takes_exactly_its_bound(void **state)
{
    (void)state;
    kg_auto(kg_free) char *path = in_folder("bound");
    put_file(path, "12345");
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err;
    assert_int_equal(kg_read_file(path, 5, &text, &err), 0);
    assert_text(kg_buf_view(&text), "12345");
    struct kg_buf untouched = {0};
    assert_true(kg_read_file(path, 4, &untouched, &err) < 0);
    assert_int_equal(err.code, KG_E_TOO_LARGE);
    assert_null(untouched.data);
}

static void read_file_names_the_file_and_the_cause(void **state)
{
    (void)state;
    struct kg_buf text = {0};
    struct kg_err err;
    assert_int_equal(kg_read_file("/nowhere/at/all", 10, &text, &err), -ENOENT);
    assert_string_equal(err.message, "open /nowhere/at/all: No such file or directory");
    assert_int_equal(kg_read_file(folder, 10, &text, &err), -EISDIR);
    assert_non_null(strstr(err.message, "Is a directory"));
}

/* A plugin's folder may hold a fifo where its manifest should be: opening it must not wait. */
static void read_file_does_not_wait_for_a_fifo(void **state)
{
    (void)state;
    kg_auto(kg_free) char *path = in_folder("fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    struct kg_buf text = {0};
    struct kg_err err;
    alarm(20);
    assert_true(kg_read_file(path, 10, &text, &err) < 0);
    alarm(0);
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_true(kg_read_file("/dev/zero", 10, &text, &err) < 0);
}

static void read_file_reads_files_without_a_size(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    assert_int_equal(kg_read_file("/proc/self/stat", 65536, &text, NULL), 0);
    assert_true(text.length > 10);
}

static void write_all_reports_what_the_system_says(void **state)
{
    (void)state;
    kg_auto(kg_close) int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(kg_write_all(fd, "x", 1), -ENOSPC);
    assert_int_equal(kg_write_all(-1, "x", 1), -EBADF);
    assert_int_equal(kg_write_all(-1, "", 0), 0);
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_true(S_ISDIR(status.st_mode));
    return status.st_mode & 0777;
}

static void make_dirs_makes_the_whole_path(void **state)
{
    (void)state;
    kg_auto(kg_free) char *path = in_folder("a/b//c/");
    assert_int_equal(kg_make_dirs(path, 0700, NULL), 0);
    assert_int_equal(mode_of(path), 0700);
    assert_int_equal(kg_make_dirs(path, 0755, NULL), 0);
    assert_int_equal(mode_of(path), 0700); /* what is there stays as it is */
    assert_int_equal(kg_make_dirs("/", 0700, NULL), 0);
}

static void make_dirs_goes_through_a_link_to_a_folder(void **state)
{
    (void)state;
    kg_auto(kg_free) char *link = in_folder("link");
    kg_auto(kg_free) char *path = in_folder("link/below");
    kg_auto(kg_free) char *behind = in_folder("below");
    assert_int_equal(symlink(folder, link), 0);
    assert_int_equal(kg_make_dirs(path, 0700, NULL), 0);
    assert_int_equal(mode_of(behind), 0700);
}

static void make_dirs_refuses_a_file_in_its_place(void **state)
{
    (void)state;
    struct kg_err err;
    kg_auto(kg_free) char *file = in_folder("file");
    kg_auto(kg_free) char *below = in_folder("file/below");
    put_file(file, "");
    assert_int_equal(kg_make_dirs(file, 0700, &err), -ENOTDIR);
    assert_non_null(strstr(err.message, "/file: Not a directory"));
    assert_int_equal(kg_make_dirs(below, 0700, &err), -ENOTDIR);
    assert_int_equal(kg_make_dirs("", 0700, &err), -ENOENT);
}

/* -- memory ------------------------------------------------------------------------------------ */

static void owned_locals_are_handed_over_once(void **state)
{
    (void)state;
    kg_auto(kg_free) char *text = kg_format("%s-%d", "a", 1);
    kg_auto(kg_free) char *taken = kg_steal(&text);
    assert_null(text);
    assert_string_equal(taken, "a-1");
    kg_auto(kg_close) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int stolen = kg_steal_fd(&fd);
    assert_int_equal(fd, -1);
    kg_close(&stolen);
    assert_int_equal(stolen, -1);
}

static void memory_is_zeroed_and_never_null(void **state)
{
    (void)state;
    kg_auto(kg_free) char *block = kg_alloc(1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(block[i], 0);
    kg_auto(kg_free) int *numbers = kg_alloc_array(10, sizeof(int));
    assert_int_equal(numbers[9], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(to_int_takes_all_of_int64_and_not_one_more),
        cmocka_unit_test(to_int_stops_at_the_length_and_not_at_a_nul),
        cmocka_unit_test(texts_without_data_are_empty_texts),
        cmocka_unit_test(compare_orders_by_bytes_then_by_length),
        cmocka_unit_test(characters_are_those_of_ascii),
        cmocka_unit_test(texts_that_may_be_missing_are_compared),
        cmocka_unit_test(path_is_within_a_folder_or_it_is_the_folder),
        cmocka_unit_test(paths_are_cut_and_joined_at_a_slash),
        cmocka_unit_test(nearest_suggests_what_is_close_and_nothing_else),
        cmocka_unit_test(nearest_is_not_upset_by_long_texts),
        cmocka_unit_test(utf8_ends_where_it_is_wrong),
        cmocka_unit_test(buf_grows_and_keeps_its_bytes),
        cmocka_unit_test(buf_consume_drops_the_front),
        cmocka_unit_test(buf_int_writes_integers_of_any_length),
        cmocka_unit_test(buf_printf_takes_any_length),
        cmocka_unit_test(buf_terminate_does_not_count_the_nul),
        cmocka_unit_test(escaped_text_cannot_turn_the_writing_around),
        cmocka_unit_test(escaped_text_hides_nothing),
        cmocka_unit_test(list_holds_what_was_added),
        cmocka_unit_test(map_finds_each_of_ten_thousand_keys),
        cmocka_unit_test(map_walks_in_the_order_of_coming),
        cmocka_unit_test(map_forgets_what_was_removed),
        cmocka_unit_test(map_stays_small_while_keys_come_and_go),
        cmocka_unit_test(map_set_again_keeps_the_place),
        cmocka_unit_test(map_takes_keys_that_are_empty_or_hold_nuls),
        cmocka_unit_test(errors_name_object_act_and_cause),
        cmocka_unit_test(errors_may_be_unwanted),
        cmocka_unit_test(errors_without_an_errno_are_still_failures),
        cmocka_unit_test(a_new_error_has_no_old_hint),
        cmocka_unit_test(long_messages_are_cut_and_end),
        cmocka_unit_test(error_rows_are_found_by_code_and_name),
        cmocka_unit_test(log_lets_no_control_character_through),
        cmocka_unit_test(log_record_in_json_is_one_valid_line),
        cmocka_unit_test(log_cuts_a_message_without_end),
        cmocka_unit_test(time_is_written_in_utc_with_milliseconds),
        cmocka_unit_test(time_reads_rfc_3339_and_dates),
        cmocka_unit_test(time_refuses_what_no_calendar_has),
        cmocka_unit_test(time_reads_spans_back_from_now),
        cmocka_unit_test(clocks_can_be_set_and_given_back),
        cmocka_unit_test(test_burst_passes_so_many_and_then_few),
        cmocka_unit_test(rate_passes_so_many_in_each_second),
        cmocka_unit_test(ids_grow_and_never_repeat),
        cmocka_unit_test(ulids_count_up_in_their_digits),
        cmocka_unit_test(ids_are_a_prefix_and_a_ulid),
        cmocka_unit_test(ids_grow_while_the_clock_goes_back),
        cmocka_unit_test(read_file_takes_exactly_its_bound),
        cmocka_unit_test(read_file_names_the_file_and_the_cause),
        cmocka_unit_test(read_file_does_not_wait_for_a_fifo),
        cmocka_unit_test(read_file_reads_files_without_a_size),
        cmocka_unit_test(write_all_reports_what_the_system_says),
        cmocka_unit_test(make_dirs_makes_the_whole_path),
        cmocka_unit_test(make_dirs_goes_through_a_link_to_a_folder),
        cmocka_unit_test(make_dirs_refuses_a_file_in_its_place),
        cmocka_unit_test(owned_locals_are_handed_over_once),
        cmocka_unit_test(memory_is_zeroed_and_never_null),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
