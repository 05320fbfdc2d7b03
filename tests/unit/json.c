/* JSON: what the scanner accepts and refuses, what the tree keeps, what the writer puts out. */
#include "base/json/json.h"
#include "same_tree.h"
#include "suite.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SAMPLE                                                                                     \
    "{\"jsonrpc\":\"2.0\", \"id\" : 17,\n\t\"params\": {\"path\":\"/a\\u00e9\\ud83d\\ude00\\n\","  \
    " \"list\":[true,false , null,-0.5e+10,[],{}], \"\xC3\xA9\":\"\xE2\x82\xAC\"}}"

/* -- helpers ----------------------------------------------------------------------------------- */

/* Checks a copy of exactly its size, so that a read past the end is found. */
static enum kg_json_fault check_exact(struct kg_str text, size_t *ret_offset)
{
    kg_auto(kg_free) char *exact = kg_alloc(text.length);
    if (text.length)
        memcpy(exact, text.data, text.length);
    return kg_json_check((struct kg_str){exact, text.length}, ret_offset);
}

static enum kg_json_fault fault_of(const char *text)
{
    return check_exact(kg_str(text), NULL);
}

static struct kg_doc *read_text(const char *text)
{
    struct kg_err err;
    struct kg_doc *doc = kg_json_read(kg_str(text), &err);
    if (doc == NULL)
        fail_msg("%s", err.message);
    return doc;
}

static void assert_text(struct kg_str got, const char *wanted)
{
    if (!kg_str_is(got, wanted))
        fail_msg("got '%.*s', wanted '%s'", KG_STR_ARG(got), wanted);
}

static void assert_put(struct kg_str text, const char *wanted)
{
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    kg_json_put_string(&buf, text);
    assert_text(kg_buf_view(&buf), wanted);
}

/* open repeated, then middle, then close repeated. */
static struct kg_buf nest(const char *open, const char *middle, const char *close, size_t depth)
{
    struct kg_buf buf = {0};
    for (size_t i = 0; i < depth; i++)
        kg_buf_text(&buf, open);
    kg_buf_text(&buf, middle);
    for (size_t i = 0; i < depth; i++)
        kg_buf_text(&buf, close);
    return buf;
}

/* -- scanner ----------------------------------------------------------------------------------- */

static void scanner_accepts_every_kind_of_value(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "null",
        " true ",
        "false\n",
        "\"\"",
        "0",
        "-0",
        "10",
        "-12.50",
        "1e5",
        "1E-5",
        "0.0e+00",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1]",
        "[1 , 2]",
        "{\"a\":1}",
        "{ \"a\" : [ { } ] , \"\" : 1 }",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uFFFF\"",
        "\"\\uD83D\\uDe00\"",
        "\"\x7F\"",
        SAMPLE,
    };
    for (size_t i = 0; i < KG_COUNT(texts); i++)
        if (fault_of(texts[i]) != KG_JSON_OK)
            fail_msg("refused: %s", texts[i]);
}

static void scanner_names_the_fault_and_its_byte(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum kg_json_fault fault;
        size_t offset;
    } rows[] = {
        {"", KG_JSON_TRUNCATED, 0},         {"  ", KG_JSON_TRUNCATED, 2},
        {"tru", KG_JSON_TRUNCATED, 3},      {"truE", KG_JSON_SYNTAX, 3},
        {"[1,]", KG_JSON_SYNTAX, 3},        {"[1 2]", KG_JSON_SYNTAX, 3},
        {"[1}", KG_JSON_SYNTAX, 2},         {"{\"a\":1]", KG_JSON_SYNTAX, 6},
        {"{\"a\" 1}", KG_JSON_SYNTAX, 5},   {"{1:1}", KG_JSON_SYNTAX, 1},
        {"{\"a\":1,}", KG_JSON_SYNTAX, 7},  {"{}{}", KG_JSON_SYNTAX, 2},
        {"01", KG_JSON_SYNTAX, 1},          {"-", KG_JSON_TRUNCATED, 1},
        {"+1", KG_JSON_SYNTAX, 0},          {"1.", KG_JSON_TRUNCATED, 2},
        {"[1.]", KG_JSON_SYNTAX, 3},        {"1e+", KG_JSON_TRUNCATED, 3},
        {".5", KG_JSON_SYNTAX, 0},          {"'a'", KG_JSON_SYNTAX, 0},
        {"\"\\x\"", KG_JSON_SYNTAX, 2},     {"\"\\u12g4\"", KG_JSON_SYNTAX, 5},
        {"\"\\u12", KG_JSON_TRUNCATED, 5},  {"\"abcdefghij", KG_JSON_TRUNCATED, 11},
        {"\"a\nb\"", KG_JSON_CONTROL, 2},   {"\xEF\xBB\xBF{}", KG_JSON_SYNTAX, 0},
        {"\"ab\xC3\"", KG_JSON_UTF8, 3},    {"\"\xFF\n\"", KG_JSON_UTF8, 1},
        {"\"\n\xFF\"", KG_JSON_CONTROL, 1},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        size_t offset = SIZE_MAX;
        enum kg_json_fault fault = check_exact(kg_str(rows[i].text), &offset);
        if (fault != rows[i].fault || offset != rows[i].offset)
            fail_msg("%s: %s at %zu", rows[i].text, kg_json_fault_text(fault), offset);
    }
}

static void scanner_refuses_lone_surrogates(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\"\\uD800\"",           "\"\\uDC00\"",        "\"\\uDFFFa\"",
        "\"\\uD800\\uD800\"",    "\"\\uD800x\"",       "\"\\uD800\\n\"",
        "\"\\uDC00\\uD800\"",    "\"\\uDBFF\\u0041\"", "\"\\uD83D\\uDE00\\uDE00\"",
        "\"\\uD800\\uE000 ok\"",
    };
    for (size_t i = 0; i < KG_COUNT(texts); i++)
        if (fault_of(texts[i]) != KG_JSON_SURROGATE)
            fail_msg("not refused as a surrogate: %s", texts[i]);
}

static void scanner_refuses_every_control_character_in_a_string(void **state)
{
    (void)state;
    for (int c = 0; c < 0x20; c++) {
        char text[] = {'"', 'a', 'b', (char)c, 'c', '"'};
        size_t offset = 0;
        assert_int_equal(check_exact((struct kg_str){text, sizeof(text)}, &offset),
                         KG_JSON_CONTROL);
        assert_int_equal(offset, 3);
    }
}

static void scanner_takes_four_bytes_for_white_space_and_no_other(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char text[] = {'[', (char)c, ']', '\0'};
        bool space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
        bool digit = c >= '0' && c <= '9';
        enum kg_json_fault fault = check_exact((struct kg_str){text, 3}, NULL);
        assert_int_equal(fault == KG_JSON_OK, space || digit);
    }
}

static void scanner_finds_a_special_byte_wherever_it_stands(void **state)
{
    (void)state;
    for (size_t length = 0; length < 34; length++) {
        for (size_t at = 0; at < length; at++) {
            char text[36];
            memset(text, '~', sizeof(text));
            text[0] = text[length + 1] = '"';
            struct kg_str all = {text, length + 2};
            assert_int_equal(check_exact(all, NULL), KG_JSON_OK);
            text[at + 1] = '\x1F';
            assert_int_equal(check_exact(all, NULL), KG_JSON_CONTROL);
            text[at + 1] = '\x80';
            assert_int_equal(check_exact(all, NULL), KG_JSON_UTF8);
            text[at + 1] = '"';
            assert_int_equal(check_exact(all, NULL), KG_JSON_SYNTAX);
            text[at + 1] = '\\';
            assert_int_not_equal(check_exact(all, NULL), KG_JSON_OK);
        }
    }
}

static void scanner_accepts_depth_256_and_refuses_257(void **state)
{
    (void)state;
    static const char *const pairs[][3] = {
        {"[", "", "]"}, {"{\"k\":", "1", "}"}, {"[{\"k\":", "1", "}]"}, {" [ 0 , ", "[]", " ] "}};
    static const size_t fits[] = {256, 256, 128, 255};
    for (size_t i = 0; i < KG_COUNT(pairs); i++) {
        size_t offset;
        kg_auto(kg_buf_free) struct kg_buf good =
            nest(pairs[i][0], pairs[i][1], pairs[i][2], fits[i]);
        kg_auto(kg_buf_free) struct kg_buf deep =
            nest(pairs[i][0], pairs[i][1], pairs[i][2], fits[i] + 1);
        assert_int_equal(check_exact(kg_buf_view(&good), &offset), KG_JSON_OK);
        assert_int_equal(check_exact(kg_buf_view(&deep), &offset), KG_JSON_DEPTH);
    }
}

static void scanner_survives_a_million_open_brackets(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf deep = nest("[", "", "", 1000000);
    size_t offset = 0;
    assert_int_equal(check_exact(kg_buf_view(&deep), &offset), KG_JSON_DEPTH);
    assert_int_equal(offset, KG_JSON_DEPTH_MAX);
}

static void scanner_accepts_a_number_of_a_million_digits(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf number = nest("7", "", "", 1000000);
    assert_int_equal(check_exact(kg_buf_view(&number), NULL), KG_JSON_OK);
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&number), &err);
    assert_non_null(doc);
    assert_int_equal(doc->root->text.length, 1000000);
}

static void scanner_accepts_a_string_of_four_mebibytes(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_char(&text, '"');
    while (text.length < 4 * 1024 * 1024)
        kg_buf_text(&text, "sixteen bytes \xC3\xA9\\n");
    kg_buf_char(&text, '"');
    assert_int_equal(check_exact(kg_buf_view(&text), NULL), KG_JSON_OK);
}

static void scanner_refuses_every_prefix_of_a_document(void **state)
{
    (void)state;
    struct kg_str sample = KG_STR(SAMPLE);
    for (size_t length = 0; length < sample.length; length++) {
        size_t offset = SIZE_MAX;
        enum kg_json_fault fault = check_exact((struct kg_str){sample.data, length}, &offset);
        bool cut = fault == KG_JSON_TRUNCATED && offset == length;
        bool cut_in_character = fault == KG_JSON_UTF8 && (sample.data[length] & 0xC0) == 0x80;
        if (!cut && !cut_in_character)
            fail_msg("prefix of %zu: %s at %zu", length, kg_json_fault_text(fault), offset);
    }
    assert_int_equal(check_exact(sample, NULL), KG_JSON_OK);
}

static void skip_value_spans_exactly_the_value(void **state)
{
    (void)state;
    static const char *const values[] = {"1",    "-2.5e3", "\"a\\\"b\"",    "true",
                                         "null", "[ ]",    "[1,[2],{}, 3]", "{\"k\" : {}}"};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (size_t i = 0; i < KG_COUNT(values); i++)
        kg_buf_printf(&text, "%s ", values[i]);
    struct kg_json_cursor cursor = {text.data, text.data + text.length};
    for (size_t i = 0; i < KG_COUNT(values); i++) {
        struct kg_str span;
        assert_int_equal(kg_json_skip_value(&cursor, &span), KG_JSON_OK);
        assert_text(span, values[i]);
        kg_json_skip_space(&cursor);
    }
    assert_ptr_equal(cursor.at, cursor.end);
}

static void skip_value_leaves_its_outputs_alone_on_a_fault(void **state)
{
    (void)state;
    struct kg_str span = KG_STR("before");
    struct kg_str text = KG_STR("[1,x]");
    struct kg_json_cursor cursor = {text.data, text.data + text.length};
    assert_int_equal(kg_json_skip_value(&cursor, &span), KG_JSON_SYNTAX);
    assert_text(span, "before");
    assert_int_equal(cursor.at - text.data, 3);
}

static void skip_string_gives_the_raw_text_and_whether_it_has_escapes(void **state)
{
    (void)state;
    struct kg_str text = KG_STR("\"plain\"\"with\\n\"");
    struct kg_json_cursor cursor = {text.data, text.data + text.length};
    struct kg_str raw;
    bool escaped;
    assert_int_equal(kg_json_skip_string(&cursor, &raw, &escaped), KG_JSON_OK);
    assert_text(raw, "plain");
    assert_false(escaped);
    assert_int_equal(kg_json_skip_string(&cursor, &raw, &escaped), KG_JSON_OK);
    assert_text(raw, "with\\n");
    assert_true(escaped);
    assert_ptr_equal(cursor.at, cursor.end);
}

static void unescape_decodes_every_escape(void **state)
{
    (void)state;
    struct kg_str raw =
        KG_STR("<\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude00\\u0000>");
    char out[128];
    size_t length = kg_json_unescape(raw, out);
    struct kg_str wanted = KG_STR("<\"\\/\b\f\n\r\tA\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\0>");
    assert_int_equal(length, wanted.length);
    assert_memory_equal(out, wanted.data, length);
}

static void raw_strings_are_compared_decoded(void **state)
{
    (void)state;
    assert_true(kg_json_raw_is(KG_STR("method"), false, "method"));
    assert_true(kg_json_raw_is(KG_STR("m\\u0065thod"), true, "method"));
    assert_true(kg_json_raw_is(KG_STR("\\ud83d\\ude00"), true, "\xF0\x9F\x98\x80"));
    assert_false(kg_json_raw_is(KG_STR("m\\u0065tho"), true, "method"));
    assert_false(kg_json_raw_is(KG_STR("m\\u0065thods"), true, "method"));
    assert_false(kg_json_raw_is(KG_STR("m\\u0000"), true, "m"));
}

static void member_finds_the_first_of_a_name(void **state)
{
    (void)state;
    struct kg_str text = KG_STR(" { \"a\" : {\"id\":0} , \"\\u0069d\" : [ 1 ] , \"id\":2 } ");
    struct kg_str value;
    assert_true(kg_json_member(text, "id", &value));
    assert_text(value, "[ 1 ]");
    assert_true(kg_json_member(text, "a", &value));
    assert_text(value, "{\"id\":0}");
    assert_false(kg_json_member(text, "b", &value));
    assert_false(kg_json_member(KG_STR("{}"), "a", &value));
    assert_false(kg_json_member(KG_STR("[\"a\",1]"), "a", &value));
    assert_false(kg_json_member(KG_STR(""), "a", &value));
}

static void member_spans_agree_with_the_tree(void **state)
{
    (void)state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text(SAMPLE);
    for (uint32_t i = 0; i < doc->root->count; i++) {
        const struct kg_member *member = &doc->root->members[i];
        kg_auto(kg_free) char *key = kg_str_dup(member->key);
        struct kg_str span;
        assert_true(kg_json_member(KG_STR(SAMPLE), key, &span));
        struct kg_err err;
        kg_auto(kg_doc_cleanup) struct kg_doc *part = kg_json_read(span, &err);
        assert_non_null(part);
        assert_true(same_tree(part->root, &member->value));
    }
}

/* -- tree -------------------------------------------------------------------------------------- */

static void tree_holds_decoded_texts_and_raw_numbers(void **state)
{
    (void)state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        read_text("{\"k\\u00e9y\":\"a\\tb\",\"n\":-0.10E+2,\"t\":true,\"f\":false,\"z\":null}");
    assert_text(kg_node_get(doc->root, "k\xC3\xA9y")->text, "a\tb");
    assert_text(kg_node_get(doc->root, "n")->text, "-0.10E+2");
    assert_true(kg_node_get(doc->root, "t")->boolean);
    assert_int_equal(kg_node_get(doc->root, "f")->type, KG_BOOL);
    assert_false(kg_node_get(doc->root, "f")->boolean);
    assert_int_equal(kg_node_get(doc->root, "z")->type, KG_NULL);
    assert_null(kg_node_get(doc->root, "missing"));
    assert_null(kg_node_get(kg_node_get(doc->root, "n"), "n"));
    assert_null(kg_node_get(NULL, "n"));
}

static void tree_outlives_the_text(void **state)
{
    (void)state;
    char *text = kg_strdup("[\"string\", 123, {\"key\":1}]");
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text(text);
    memset(text, 'x', strlen(text));
    free(text);
    assert_text(doc->root->items[0].text, "string");
    assert_text(doc->root->items[1].text, "123");
    assert_text(doc->root->items[2].members[0].key, "key");
}

static void tree_knows_where_everything_stood(void **state)
{
    (void)state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        read_text(" {\n  \"a\": [1,\r\n\t\"x\"],\n\"b\":{}}");
    const struct kg_member *a = &doc->root->members[0];
    assert_int_equal(doc->root->line, 1);
    assert_int_equal(doc->root->column, 2);
    assert_int_equal(a->key_line, 2);
    assert_int_equal(a->key_column, 3);
    assert_int_equal(a->value.column, 8);
    assert_int_equal(a->value.items[0].column, 9);
    assert_int_equal(a->value.items[1].line, 3);
    assert_int_equal(a->value.items[1].column, 2);
    assert_int_equal(doc->root->members[1].key_line, 4);
    assert_int_equal(doc->root->members[1].value.column, 5);
}

static void tree_errors_read_line_column_sentence(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "1:1: the text ends too early"},
        {"[1,\n 2,\n  x]", "3:3: unexpected 'x'"},
        {"[\x01]", "1:2: unexpected 0x01"},
        {"{\n\"a\":\"\xFF\"}", "2:6: this is not UTF-8"},
        {"{\"a\":1,\n \"b\":2, \"a\":3}", "2:9: the key \"a\" is given twice"},
        {"{\"x\":{\"a\":1,\"\\u0061\":2}}", "1:13: the key \"a\" is given twice"},
        {"{\"\\n\":1,\"\\u000a\":2}", "1:9: the key \"\\n\" is given twice"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct kg_err err = {0};
        assert_null(kg_json_read(kg_str(rows[i][0]), &err));
        assert_string_equal(err.message, rows[i][1]);
        assert_int_equal(err.code, KG_E_PARSE);
    }
}

static void tree_error_shows_only_the_start_of_a_long_key(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf key = nest("\xE2\x82\xAC", "", "", 10000);
    kg_auto(kg_free) char *text =
        kg_format("{\"%s\":1,\"%s\":1}", kg_buf_terminate(&key), kg_buf_terminate(&key));
    struct kg_err err = {0};
    assert_null(kg_json_read(kg_str(text), &err));
    assert_true(strlen(err.message) < 120);
    assert_int_equal(kg_utf8_valid(kg_str(err.message)), strlen(err.message));
}

static void tree_allows_a_key_again_in_another_object(void **state)
{
    (void)state;
    kg_doc_free(read_text("{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":2}]}"));
}

static void tree_reads_depth_256_and_refuses_257(void **state)
{
    (void)state;
    struct kg_err err;
    kg_auto(kg_buf_free) struct kg_buf good = nest("{\"k\":[", "1", "]}", 128);
    kg_auto(kg_buf_free) struct kg_buf deep = nest("{\"k\":[", "[]", "]}", 128);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&good), &err);
    assert_non_null(doc);
    assert_null(kg_json_read(kg_buf_view(&deep), &err));
    assert_string_equal(err.message, "1:769: nested too deep");
}

static struct kg_buf object_of(size_t keys, const char *last)
{
    struct kg_buf text = {0};
    for (size_t i = 0; i < keys; i++)
        kg_buf_printf(&text, "%c\"key%zu\":%zu", i ? ',' : '{', i, i);
    kg_buf_printf(&text, ",\"%s\":-1}", last);
    return text;
}

static void tree_finds_every_key_of_a_hundred_thousand(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = object_of(100000, "last");
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), &err);
    assert_non_null(doc);
    assert_int_equal(doc->root->count, 100001);
    for (int64_t i = 0; i < 100000; i++) {
        char key[32];
        int64_t value;
        snprintf(key, sizeof(key), "key%d", (int)i);
        assert_true(kg_node_int(kg_node_get(doc->root, key), &value));
        assert_int_equal(value, i);
    }
    assert_null(kg_node_get(doc->root, "key100000"));
}

static void tree_refuses_a_key_given_twice_at_every_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 31, 32, 33, 34, 63, 64, 65, 66, 127, 128, 129, 100000};
    for (size_t i = 0; i < KG_COUNT(sizes); i++) {
        struct kg_err err;
        kg_auto(kg_buf_free) struct kg_buf first = object_of(sizes[i], "key0");
        assert_null(kg_json_read(kg_buf_view(&first), &err));
        kg_auto(kg_buf_free) struct kg_buf none = object_of(sizes[i], "key");
        kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&none), &err);
        assert_non_null(doc);
        assert_int_equal(kg_node_get(doc->root, "key")->text.data[0], '-');
    }
}

static void node_int_takes_whole_numbers_within_int64(void **state)
{
    (void)state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text(
        "[-9223372036854775808,9223372036854775807,9223372036854775808,1.0,1e3,\"1\",true]");
    kg_auto(kg_doc_cleanup) struct kg_doc *small = read_text("[-0,-17,999999999999999999]");
    static const int64_t values[] = {0, -17, 999999999999999999};
    int64_t value = 0;
    for (uint32_t i = 0; i < small->root->count; i++) {
        assert_true(kg_node_int(&small->root->items[i], &value));
        assert_true(value == values[i]);
    }
    assert_true(kg_node_int(&doc->root->items[0], &value));
    assert_true(value == INT64_MIN);
    assert_true(kg_node_int(&doc->root->items[1], &value));
    assert_true(value == INT64_MAX);
    for (uint32_t i = 2; i < doc->root->count; i++)
        assert_false(kg_node_int(&doc->root->items[i], &value));
    assert_true(value == INT64_MAX);
    assert_false(kg_node_int(NULL, &value));
}

static void arena_memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct kg_arena *arena = kg_arena_new();
    size_t bytes = 0;
    for (size_t size = 0; size < 3000; size += 7) {
        char *piece = kg_arena_alloc(arena, size);
        assert_int_equal((uintptr_t)piece % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(piece[i], 0);
        memset(piece, 0xAA, size);
        assert_text(kg_arena_str(arena, KG_STR("odd")), "odd");
        bytes += size + 3;
    }
    assert_int_equal(kg_arena_bytes(arena), bytes);
    kg_arena_free(arena);
    kg_arena_free(NULL);
}

static void builder_can_be_left_at_any_point(void **state)
{
    (void)state;
    struct kg_builder *builder = kg_builder_new();
    kg_builder_open(builder, KG_OBJECT, 1, 1);
    for (int i = 0; i < 100; i++) {
        struct kg_str key = {
            "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
            "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk",
            (size_t)i};
        assert_true(kg_builder_key(builder, key, 1, 1));
        kg_builder_value(builder, (struct kg_node){.type = KG_NULL});
    }
    kg_builder_key(builder, KG_STR("open"), 1, 1);
    kg_builder_open(builder, KG_ARRAY, 1, 1);
    assert_int_equal(kg_builder_depth(builder), 2);
    kg_builder_free(builder);
    kg_builder_free(NULL);
}

/* -- writer ------------------------------------------------------------------------------------ */

static void writer_puts_the_commas(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    struct kg_json_writer writer = kg_json_writer(&buf);
    kg_json_begin(&writer, '{');
    kg_json_key(&writer, "a");
    kg_json_begin(&writer, '[');
    kg_json_int(&writer, INT64_MIN);
    kg_json_bool(&writer, true);
    kg_json_null(&writer);
    kg_json_begin(&writer, '[');
    kg_json_end(&writer, ']');
    kg_json_begin(&writer, '{');
    kg_json_end(&writer, '}');
    kg_json_end(&writer, ']');
    kg_json_key(&writer, "b\"");
    kg_json_text(&writer, "text");
    kg_json_key(&writer, "c");
    kg_json_raw(&writer, KG_STR("1.50"));
    kg_json_key(&writer, "d");
    kg_json_str(&writer, KG_STR_NULL);
    kg_json_key(&writer, "e");
    kg_json_text(&writer, NULL);
    kg_json_end(&writer, '}');
    assert_text(kg_buf_view(&buf),
                "{\"a\":[-9223372036854775808,true,null,[],{}],\"b\\\"\":\"text\","
                "\"c\":1.50,\"d\":null,\"e\":null}");
}

static void writer_gives_back_what_was_read(void **state)
{
    (void)state;
    const char *text = "{\"a\":[1.0,-0,1e400,\"x\\n\\u0001\xC3\xA9\x7F\"],\"\":{},\"b\":[[],null]}";
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text(text);
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    kg_json_put_node(&buf, doc->root);
    assert_text(kg_buf_view(&buf), text);
}

static void writer_writes_null_for_numbers_that_json_lacks(void **state)
{
    (void)state;
    struct kg_node items[] = {{.type = KG_NUMBER, .text = KG_STR("inf")},
                              {.type = KG_NUMBER, .text = KG_STR("-inf")},
                              {.type = KG_NUMBER, .text = KG_STR("nan")},
                              {.type = KG_NUMBER, .text = KG_STR("7")}};
    struct kg_node node = {.type = KG_ARRAY, .count = KG_COUNT(items), .items = items};
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    kg_json_put_node(&buf, &node);
    assert_text(kg_buf_view(&buf), "[null,null,null,7]");
}

static void put_string_escapes_what_json_wants_escaped(void **state)
{
    (void)state;
    assert_put(KG_STR(""), "\"\"");
    assert_put(KG_STR_NULL, "\"\"");
    assert_put(KG_STR("plain text, long enough for words / \x7F"),
               "\"plain text, long enough for words / \x7F\"");
    assert_put(KG_STR("a\"b\\c\b\f\n\r\t"), "\"a\\\"b\\\\c\\b\\f\\n\\r\\t\"");
    assert_put(KG_STR("\0\x01\x1F"), "\"\\u0000\\u0001\\u001f\"");
    assert_put(KG_STR("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
               "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
}

static void put_string_replaces_each_byte_that_is_not_utf8(void **state)
{
    (void)state;
#define BAD "\xEF\xBF\xBD"
    assert_put(KG_STR("a\xFFz"), "\"a" BAD "z\"");
    assert_put(KG_STR("\xE2\x82"), "\"" BAD BAD "\"");
    assert_put(KG_STR("\xE2\x82\"\xAC"), "\"" BAD BAD "\\\"" BAD "\"");
    assert_put(KG_STR("\xED\xA0\x80 ok \xC3\xA9"), "\"" BAD BAD BAD " ok \xC3\xA9\"");
#undef BAD
}

static void check_undone(struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    kg_json_put_string(&buf, text);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&buf), NULL);
    assert_non_null(doc);
    assert_true(kg_str_equal(doc->root->text, text));
}

static void put_string_is_undone_by_reading(void **state)
{
    (void)state;
    for (int c = 0; c < 0x80; c++) {
        char text[24];
        for (size_t at = 0; at < sizeof(text); at++) {
            memset(text, 'a', sizeof(text));
            text[at] = (char)c;
            check_undone((struct kg_str){text, sizeof(text)});
        }
    }
}

/* Short texts take a way of their own; each is a copy of exactly its size. */
static void put_string_finds_what_is_not_plain_in_texts_of_any_length(void **state)
{
    (void)state;
    static const char *const odd[] = {"\"", "\\", "\x1F", "\n", "\xC3\xA9", "\x7F", "z"};
    for (size_t length = 2; length <= 80; length++)
        for (size_t i = 0; i < KG_COUNT(odd); i++)
            for (size_t at = 0; at + strlen(odd[i]) <= length; at++) {
                kg_auto(kg_free) char *text = malloc(length);
                memset(text, 'a', length);
                memcpy(text + at, odd[i], strlen(odd[i]));
                check_undone((struct kg_str){text, length});
            }
}

/* -- public suites ----------------------------------------------------------------------------- */

struct parsing {
    unsigned accepted, must_accept;
    unsigned refused, must_refuse;
    unsigned either;
    unsigned round_trips, duplicates;
};

static void judge_parsing(const char *path, struct kg_str text, void *data)
{
    struct parsing *count = data;
    bool accepted = kg_json_check(text, NULL) == KG_JSON_OK;
    switch (strrchr(path, '/')[1]) {
    case 'y':
        count->must_accept++;
        count->accepted += accepted;
        break;
    case 'n':
        count->must_refuse++;
        count->refused += !accepted;
        break;
    default:
        count->either++;
        return;
    }
    if (accepted != (strrchr(path, '/')[1] == 'y'))
        printf("# wrong: %s\n", path);
}

static void scanner_agrees_with_json_test_suite(void **state)
{
    (void)state;
    kg_auto(kg_free) char *dir = suite_path("JSONTestSuite/test_parsing");
    if (dir == NULL)
        return suite_skip(__func__, "JSONTestSuite/test_parsing");
    struct parsing count = {0};
    suite_each_file(dir, ".json", judge_parsing, &count);
    printf("# JSONTestSuite: %u of %u accepted, %u of %u refused, %u either way\n", count.accepted,
           count.must_accept, count.refused, count.must_refuse, count.either);
    assert_int_equal(count.accepted, 95);
    assert_int_equal(count.must_accept, 95);
    assert_int_equal(count.refused, 188);
    assert_int_equal(count.must_refuse, 188);
}

static void judge_round_trip(const char *path, struct kg_str text, void *data)
{
    struct parsing *count = data;
    struct kg_err err = {0};
    bool accepted = kg_json_check(text, NULL) == KG_JSON_OK;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, &err);
    if (doc == NULL) {
        bool twice = strstr(err.message, "is given twice") != NULL;
        if (accepted != twice)
            fail_msg("%s: %s", path, err.message);
        count->duplicates += twice;
        return;
    }
    assert_true(accepted);
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    kg_json_put_node(&buf, doc->root);
    kg_auto(kg_doc_cleanup) struct kg_doc *again = kg_json_read(kg_buf_view(&buf), &err);
    if (again == NULL || !same_tree(doc->root, again->root))
        fail_msg("%s does not come back as it was", path);
    count->round_trips++;
}

static void tree_of_json_test_suite_is_written_and_read_again(void **state)
{
    (void)state;
    kg_auto(kg_free) char *dir = suite_path("JSONTestSuite/test_parsing");
    if (dir == NULL)
        return suite_skip(__func__, "JSONTestSuite/test_parsing");
    struct parsing count = {0};
    suite_each_file(dir, ".json", judge_round_trip, &count);
    printf("# JSONTestSuite: %u trees written and read again, %u refused for a key given twice\n",
           count.round_trips, count.duplicates);
    assert_true(count.round_trips >= 93);
    assert_int_equal(count.duplicates, 2);
}

/* One line of utf8tests.txt, as its bytes: "number:[in]valid hex:bytes[:...]" or
 * "number:valid:text". */
static bool parse_utf8_test(const char *line, struct kg_buf *ret_bytes, bool *ret_valid)
{
    const char *kind = strchr(line, ':');
    const char *value = kind ? strchr(kind + 1, ':') : NULL;
    if (line[0] == '#' || value == NULL)
        return false;
    kg_auto(kg_free) char *name = kg_str_dup((struct kg_str){kind, (size_t)(value - kind)});
    *ret_valid = strstr(name, "invalid") == NULL;
    value++;
    if (strstr(name, "hex") == NULL) {
        kg_buf_append(ret_bytes, value, strcspn(value, "\n"));
        return true;
    }
    for (; *value != '\0' && *value != ':' && *value != '\n'; value++) {
        unsigned byte;
        if (*value == ' ' || sscanf(value, "%2x", &byte) != 1)
            continue;
        kg_buf_char(ret_bytes, (char)byte);
        value++;
    }
    return true;
}

static bool has_control(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if ((unsigned char)text.data[i] < 0x20)
            return true;
    return false;
}

struct utf8_count {
    unsigned tests, agree;
    unsigned controls; /* valid UTF-8 that JSON refuses all the same */
};

/*
 * The bytes between quotes: in JSON a control character is refused too, whatever UTF-8 says of it.
 */
static void judge_utf8_line(const char *line, struct utf8_count *count)
{
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    bool valid;
    if (!parse_utf8_test(line, &bytes, &valid))
        return;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_char(&text, '"');
    kg_buf_str(&text, kg_buf_view(&bytes));
    kg_buf_char(&text, '"');
    enum kg_json_fault fault = check_exact(kg_buf_view(&text), NULL);
    bool control = has_control(kg_buf_view(&bytes));
    bool agree = control ? fault == KG_JSON_CONTROL || (!valid && fault == KG_JSON_UTF8)
                         : fault == (valid ? KG_JSON_OK : KG_JSON_UTF8);
    agree = agree && valid == (kg_utf8_valid(kg_buf_view(&bytes)) == bytes.length);
    count->tests++;
    count->agree += agree;
    count->controls += control;
    if (!agree)
        printf("# wrong: %s", line);
}

static void scanner_agrees_with_utf8tests(void **state)
{
    (void)state;
    kg_auto(kg_free) char *path = suite_path("utf8tests/utf8tests.txt");
    if (path == NULL)
        return suite_skip(__func__, "utf8tests/utf8tests.txt");
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    struct utf8_count count = {0};
    kg_auto(kg_free) char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) >= 0)
        judge_utf8_line(line, &count);
    fclose(file);
    printf("# utf8tests: %u of %u agree, %u of them with a control character\n", count.agree,
           count.tests, count.controls);
    assert_int_equal(count.agree, count.tests);
    assert_true(count.tests >= 222);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scanner_accepts_every_kind_of_value),
        cmocka_unit_test(scanner_names_the_fault_and_its_byte),
        cmocka_unit_test(scanner_refuses_lone_surrogates),
        cmocka_unit_test(scanner_refuses_every_control_character_in_a_string),
        cmocka_unit_test(scanner_takes_four_bytes_for_white_space_and_no_other),
        cmocka_unit_test(scanner_finds_a_special_byte_wherever_it_stands),
        cmocka_unit_test(scanner_accepts_depth_256_and_refuses_257),
        cmocka_unit_test(scanner_survives_a_million_open_brackets),
        cmocka_unit_test(scanner_accepts_a_number_of_a_million_digits),
        cmocka_unit_test(scanner_accepts_a_string_of_four_mebibytes),
        cmocka_unit_test(scanner_refuses_every_prefix_of_a_document),
        cmocka_unit_test(skip_value_spans_exactly_the_value),
        cmocka_unit_test(skip_value_leaves_its_outputs_alone_on_a_fault),
        cmocka_unit_test(skip_string_gives_the_raw_text_and_whether_it_has_escapes),
        cmocka_unit_test(unescape_decodes_every_escape),
        cmocka_unit_test(raw_strings_are_compared_decoded),
        cmocka_unit_test(member_finds_the_first_of_a_name),
        cmocka_unit_test(member_spans_agree_with_the_tree),
        cmocka_unit_test(tree_holds_decoded_texts_and_raw_numbers),
        cmocka_unit_test(tree_outlives_the_text),
        cmocka_unit_test(tree_knows_where_everything_stood),
        cmocka_unit_test(tree_errors_read_line_column_sentence),
        cmocka_unit_test(tree_error_shows_only_the_start_of_a_long_key),
        cmocka_unit_test(tree_allows_a_key_again_in_another_object),
        cmocka_unit_test(tree_reads_depth_256_and_refuses_257),
        cmocka_unit_test(tree_finds_every_key_of_a_hundred_thousand),
        cmocka_unit_test(tree_refuses_a_key_given_twice_at_every_size),
        cmocka_unit_test(node_int_takes_whole_numbers_within_int64),
        cmocka_unit_test(arena_memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(builder_can_be_left_at_any_point),
        cmocka_unit_test(writer_puts_the_commas),
        cmocka_unit_test(writer_gives_back_what_was_read),
        cmocka_unit_test(writer_writes_null_for_numbers_that_json_lacks),
        cmocka_unit_test(put_string_escapes_what_json_wants_escaped),
        cmocka_unit_test(put_string_replaces_each_byte_that_is_not_utf8),
        cmocka_unit_test(put_string_is_undone_by_reading),
        cmocka_unit_test(put_string_finds_what_is_not_plain_in_texts_of_any_length),
        cmocka_unit_test(scanner_agrees_with_json_test_suite),
        cmocka_unit_test(tree_of_json_test_suite_is_written_and_read_again),
        cmocka_unit_test(scanner_agrees_with_utf8tests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
