/* Frames: however the bytes of a stream arrive, the same lines come out. */
#include "wire/wire.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- helpers ---------------------------------------------------------------------------------- */

#define SCRATCH_BYTES 64

/* Lines as they came, each ended by '|', so that one text shows them all. */
struct seen {
    struct frame frame;
    struct kg_buf lines;
    unsigned stop_after; /* 0: never */
    unsigned count;
};

static bool on_line(void *data, struct kg_str line)
{
    struct seen *seen = data;
    kg_buf_str(&seen->lines, line);
    kg_buf_char(&seen->lines, '|');
    return ++seen->count != seen->stop_after;
}

static void seen_free(struct seen *seen)
{
    frame_free(&seen->frame);
    kg_buf_free(&seen->lines);
}

/* Gives the bytes as one or more reads would, none of more than `size`. */
static enum frame_result give(struct seen *seen, struct kg_str bytes, size_t size)
{
    enum frame_result result = FRAME_OK;
    while (bytes.length > 0 && result == FRAME_OK) {
        kg_auto(kg_free) char *scratch = malloc(SCRATCH_BYTES);
        size_t room = 0;
        char *space = frame_space(&seen->frame, scratch, SCRATCH_BYTES, &room);
        assert_true(room > 0);
        size_t length = bytes.length < size ? bytes.length : size;
        if (length > room)
            length = room;
        memcpy(space, bytes.data, length);
        result = frame_advance(&seen->frame, space, length, on_line, seen);
        bytes = (struct kg_str){bytes.data + length, bytes.length - length};
    }
    return result;
}

static void assert_seen(struct seen *seen, const char *wanted)
{
    if (!kg_str_is(kg_buf_view(&seen->lines), wanted))
        fail_msg("got '%.*s', wanted '%s'", KG_STR_ARG(kg_buf_view(&seen->lines)), wanted);
}

/* A line of so many bytes, with its newline. */
static struct kg_buf line_of(size_t length)
{
    struct kg_buf line = {0};
    for (size_t i = 0; i < length; i++)
        kg_buf_char(&line, (char)('a' + i % 26));
    kg_buf_char(&line, '\n');
    return line;
}

/* -- cutting ---------------------------------------------------------------------------------- */

static void lines_are_the_same_wherever_the_stream_is_split(void **state)
{
    (void)state;
    struct kg_str text = KG_STR("one\n\ntwo\r\n\xC3\xA9\rx\n{\"a\":\"\\n\"}\nend");
    for (size_t first = 0; first <= text.length; first++) {
        for (size_t second = first; second <= text.length; second++) {
            kg_auto(seen_free) struct seen seen = {.frame.line_max = 100};
            give(&seen, (struct kg_str){text.data, first}, 100);
            give(&seen, (struct kg_str){text.data + first, second - first}, 100);
            give(&seen, (struct kg_str){text.data + second, text.length - second}, 100);
            assert_seen(&seen, "one||two\r|\xC3\xA9\rx|{\"a\":\"\\n\"}|");
            frame_finish(&seen.frame, on_line, &seen);
            assert_seen(&seen, "one||two\r|\xC3\xA9\rx|{\"a\":\"\\n\"}|end|");
        }
    }
}

static void lines_are_the_same_byte_by_byte(void **state)
{
    (void)state;
    kg_auto(seen_free) struct seen seen = {.frame.line_max = 100};
    give(&seen, KG_STR("\n\na\r\nbc\n\n"), 1);
    assert_seen(&seen, "||a\r|bc||");
}

/* Only a newline ends a line; the JSON behind it takes the carriage return as white space. */
static void a_carriage_return_is_part_of_its_line(void **state)
{
    (void)state;
    kg_auto(seen_free) struct seen seen = {.frame.line_max = 100};
    give(&seen, KG_STR("a\r\nb\rc\n\r\n"), 100);
    assert_seen(&seen, "a\r|b\rc|\r|");
}

static void nul_is_a_byte_like_any_other(void **state)
{
    (void)state;
    kg_auto(seen_free) struct seen seen = {.frame.line_max = 100};
    give(&seen, KG_STR("a\0b\n\0\n"), 2);
    assert_true(kg_str_equal(kg_buf_view(&seen.lines), KG_STR("a\0b|\0|")));
}

static void a_million_blank_lines_cost_no_memory(void **state)
{
    (void)state;
    struct seen seen = {.frame.line_max = 100};
    char newlines[SCRATCH_BYTES];
    memset(newlines, '\n', sizeof(newlines));
    for (int i = 0; i < 1000000 / SCRATCH_BYTES; i++) {
        assert_int_equal(give(&seen, (struct kg_str){newlines, sizeof(newlines)}, 64), FRAME_OK);
        seen.lines.length = 0;
    }
    assert_int_equal(seen.frame.partial.capacity, 0);
    seen_free(&seen);
}

static void a_whole_line_is_delivered_from_where_it_was_read(void **state)
{
    (void)state;
    kg_auto(seen_free) struct seen seen = {.frame.line_max = 100};
    give(&seen, KG_STR("whole\nlines\n"), 100);
    assert_int_equal(seen.frame.partial.capacity, 0);
}

/* -- bounds ----------------------------------------------------------------------------------- */

static enum frame_result result_of(size_t line_max, size_t length, size_t read_size, size_t *lines)
{
    kg_auto(kg_buf_free) struct kg_buf line = line_of(length);
    kg_auto(seen_free) struct seen seen = {.frame.line_max = line_max};
    enum frame_result result = give(&seen, kg_buf_view(&line), read_size);
    *lines = seen.count;
    if (result == FRAME_OK) {
        line.data[length] = '|';
        assert_true(kg_str_equal(kg_buf_view(&seen.lines), kg_buf_view(&line)));
    }
    return result;
}

static void the_bound_holds_to_the_byte(void **state)
{
    (void)state;
    static const size_t bounds[] = {1, 5, 63, 64, 65, 4096, 70000};
    static const size_t reads[] = {1, 7, 64, 100000};
    for (size_t i = 0; i < KG_COUNT(bounds); i++) {
        for (size_t k = 0; k < KG_COUNT(reads); k++) {
            size_t lines;
            assert_int_equal(result_of(bounds[i], bounds[i] - 1, reads[k], &lines), FRAME_OK);
            assert_int_equal(lines, 1);
            assert_int_equal(result_of(bounds[i], bounds[i], reads[k], &lines), FRAME_OK);
            assert_int_equal(lines, 1);
            assert_int_equal(result_of(bounds[i], bounds[i] + 1, reads[k], &lines), FRAME_OVERSIZE);
            assert_int_equal(lines, 0);
        }
    }
}

static void four_mebibytes_hold_to_the_byte(void **state)
{
    (void)state;
    size_t bound = 4194304, lines;
    assert_int_equal(result_of(bound, bound, 65536, &lines), FRAME_OK);
    assert_int_equal(lines, 1);
    assert_int_equal(result_of(bound, bound + 1, 65536, &lines), FRAME_OVERSIZE);
    assert_int_equal(lines, 0);
}

static void lines_before_one_that_is_too_long_are_delivered(void **state)
{
    (void)state;
    kg_auto(seen_free) struct seen seen = {.frame.line_max = 3};
    assert_int_equal(give(&seen, KG_STR("abc\nabcd\nabc\n"), 100), FRAME_OVERSIZE);
    assert_seen(&seen, "abc|");
}

/* Whoever goes on reading after an oversize line must not pay for it in memory. */
static void a_line_without_end_is_not_kept(void **state)
{
    (void)state;
    struct seen seen = {.frame.line_max = 1000};
    kg_auto(kg_buf_free) struct kg_buf text = line_of(1000000);
    for (size_t at = 0; at + 50 < text.length; at += 50)
        give(&seen, (struct kg_str){text.data + at, 50}, 50);
    assert_true(seen.frame.partial.length <= 1000);
    assert_true(seen.frame.partial.capacity <= 16384);
    seen_free(&seen);
}

static void a_short_line_gives_back_the_memory_of_a_large_one(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf line = line_of(1000000);
    kg_auto(seen_free) struct seen seen = {.frame.line_max = 2000000};
    for (unsigned times = 1; times <= 2; times++) {
        assert_int_equal(give(&seen, kg_buf_view(&line), 65536), FRAME_OK);
        assert_int_equal(seen.count, times);
        assert_true(seen.frame.partial.capacity >= 1000000);
    }
    assert_int_equal(give(&seen, KG_STR("short\n"), 65536), FRAME_OK);
    assert_int_equal(seen.frame.partial.capacity, 0);
}

/* -- cutting long lines short ----------------------------------------------------------------- */

static void truncating_skips_the_rest_and_keeps_the_next(void **state)
{
    (void)state;
    struct kg_str text = KG_STR("abc\nabcd\nabcdefgh\n\nxyz\nlonger than all\nok\n");
    for (size_t size = 1; size <= text.length; size++) {
        kg_auto(seen_free) struct seen seen = {.frame = {.line_max = 3, .truncates = true}};
        assert_int_equal(give(&seen, text, size), FRAME_OK);
        assert_seen(&seen, "abc|abc|abc||xyz|lon|ok|");
    }
}

static void truncating_delivers_a_line_without_end_once(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = line_of(100000);
    kg_auto(seen_free) struct seen seen = {.frame = {.line_max = 4, .truncates = true}};
    text.length--; /* its newline */
    give(&seen, kg_buf_view(&text), 60);
    assert_seen(&seen, "abcd|");
    assert_true(seen.frame.partial.capacity <= 16384);
    frame_finish(&seen.frame, on_line, &seen);
    assert_seen(&seen, "abcd|");
}

static void truncating_hears_the_stop_too(void **state)
{
    (void)state;
    for (size_t size = 1; size < 12; size++) {
        kg_auto(seen_free) struct seen seen = {.frame = {.line_max = 3, .truncates = true},
                                               .stop_after = 2};
        assert_int_equal(give(&seen, KG_STR("ab\nabcdef\nab\n"), size), FRAME_STOPPED);
        assert_seen(&seen, "ab|abc|");
    }
}

/* -- stopping and ending ---------------------------------------------------------------------- */

static void nothing_follows_a_stop(void **state)
{
    (void)state;
    for (size_t size = 1; size < 12; size++) {
        kg_auto(seen_free) struct seen seen = {.frame.line_max = 100, .stop_after = 2};
        assert_int_equal(give(&seen, KG_STR("a\nbb\nc\nd\n"), size), FRAME_STOPPED);
        assert_seen(&seen, "a|bb|");
        frame_finish(&seen.frame, on_line, &seen);
        assert_seen(&seen, "a|bb|");
    }
}

static void finish_delivers_what_has_no_newline(void **state)
{
    (void)state;
    kg_auto(seen_free) struct seen seen = {.frame.line_max = 100};
    frame_finish(&seen.frame, on_line, &seen);
    assert_seen(&seen, "");
    give(&seen, KG_STR("a\nlast"), 100);
    frame_finish(&seen.frame, on_line, &seen);
    frame_finish(&seen.frame, on_line, &seen);
    assert_seen(&seen, "a|last|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_the_same_wherever_the_stream_is_split),
        cmocka_unit_test(lines_are_the_same_byte_by_byte),
        cmocka_unit_test(a_carriage_return_is_part_of_its_line),
        cmocka_unit_test(nul_is_a_byte_like_any_other),
        cmocka_unit_test(a_million_blank_lines_cost_no_memory),
        cmocka_unit_test(a_whole_line_is_delivered_from_where_it_was_read),
        cmocka_unit_test(the_bound_holds_to_the_byte),
        cmocka_unit_test(four_mebibytes_hold_to_the_byte),
        cmocka_unit_test(lines_before_one_that_is_too_long_are_delivered),
        cmocka_unit_test(a_line_without_end_is_not_kept),
        cmocka_unit_test(a_short_line_gives_back_the_memory_of_a_large_one),
        cmocka_unit_test(truncating_skips_the_rest_and_keeps_the_next),
        cmocka_unit_test(truncating_delivers_a_line_without_end_once),
        cmocka_unit_test(truncating_hears_the_stop_too),
        cmocka_unit_test(nothing_follows_a_stop),
        cmocka_unit_test(finish_delivers_what_has_no_newline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
