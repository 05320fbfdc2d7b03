/* Questions about files that are written by hand: where lines lie in them, and what their times
 * are. */
#include "audit/audit.h"
#include "folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define BLOCK 65536 /* the query reads so much at once */
#define T0    1700000000000

struct fixture {
    char dir[64];
    struct kg_err err;
};

static int set_up(void **data)
{
    struct fixture *fixture = kg_alloc(sizeof(*fixture));
    snprintf(fixture->dir, sizeof(fixture->dir), "/tmp/kaged-query-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    *data = fixture;
    return 0;
}

static int tear_down(void **data)
{
    struct fixture *fixture = *data;
    folder_remove(fixture->dir);
    free(fixture);
    return 0;
}

/* -- files ------------------------------------------------------------------------------------- */

/* A line of at least so many bytes; the time in its id may be another. */
static void put_event(struct kg_buf *file, int number, int64_t ts_ms, int64_t id_ms, size_t bytes)
{
    char ts[KG_TIME_TEXT], id[KG_ULID_TIME];
    size_t start = file->length;
    kg_time_format(ts_ms, ts);
    kg_ulid_time(id_ms, id);
    kg_buf_printf(file,
                  "{\"ts\":\"%s\",\"id\":\"evt_%.10s%016d\",\"event\":\"plugin.stopped\","
                  "\"name\":\"git\",\"exit_code\":%d,\"pad\":\"",
                  ts, id, number, number);
    static const char end[] = "\"}\n";
    size_t used = file->length - start + sizeof(end) - 1, pad = bytes > used ? bytes - used : 0;
    kg_buf_reserve(file, pad);
    memset(file->data + file->length, 'x', pad);
    file->length += pad;
    kg_buf_text(file, end);
}

static void put_events(struct kg_buf *file, int from, int count)
{
    for (int i = from; i < from + count; i++)
        put_event(file, i, T0 + i, T0 + i, 0);
}

static void write_file(struct fixture *fixture, int number, const struct kg_buf *text)
{
    kg_auto(kg_free) char *path = kg_format("%s/audit-%06d.ndjson", fixture->dir, number);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(kg_write_all(fd, text->data, text->length), 0);
}

/* The answer's events, by their numbers: "3 4 5". */
static void assert_answer(struct fixture *fixture, struct audit_filter filter, const char *numbers)
{
    kg_auto(kg_buf_free) struct kg_buf lines = {0}, found = {0};
    if (audit_query(fixture->dir, &filter, &lines, &fixture->err) < 0)
        fail_msg("%s", fixture->err.message);
    kg_buf_terminate(&lines);
    static const char key[] = "\"exit_code\":";
    for (const char *at = lines.data; (at = strstr(at, key)) != NULL; at += sizeof(key))
        kg_buf_printf(&found, "%s%d", found.length > 0 ? " " : "", atoi(at + sizeof(key) - 1));
    kg_buf_terminate(&found);
    assert_string_equal(found.data, numbers);
    assert_true(lines.length == 0 || lines.data[lines.length - 1] == '\n');
}

/* -- where lines lie --------------------------------------------------------------------------- */

static void a_line_may_lie_in_any_number_of_blocks(void **data)
{
    struct fixture *fixture = *data;
    static const size_t sizes[] = {BLOCK / 2, BLOCK - 1, BLOCK,
                                   BLOCK + 1, 3 * BLOCK, 7 * BLOCK - 5};
    for (size_t i = 0; i < KG_COUNT(sizes); i++) {
        kg_auto(kg_buf_free) struct kg_buf file = {0};
        put_events(&file, 0, 1);
        put_event(&file, 1, T0, T0, sizes[i]);
        put_event(&file, 2, T0, T0, sizes[i]);
        put_events(&file, 3, 2);
        write_file(fixture, 1, &file);
        assert_answer(fixture, (struct audit_filter){.limit = 3}, "2 3 4");
        assert_answer(fixture, (struct audit_filter){0}, "0 1 2 3 4");
    }
}

static void the_end_of_a_line_may_be_the_end_of_a_block(void **data)
{
    struct fixture *fixture = *data;
    for (size_t bytes = BLOCK - 1; bytes <= BLOCK + 1; bytes++) {
        kg_auto(kg_buf_free) struct kg_buf file = {0};
        put_events(&file, 0, 2);
        put_event(&file, 2, T0, T0, bytes); /* exactly the last block, or one byte off */
        write_file(fixture, 1, &file);
        assert_answer(fixture, (struct audit_filter){0}, "0 1 2");
    }
}

static void half_a_line_at_the_end_is_not_there_yet(void **data)
{
    struct fixture *fixture = *data;
    static const size_t halves[] = {1, 100, BLOCK, 3 * BLOCK + 7};
    for (size_t i = 0; i < KG_COUNT(halves); i++) {
        kg_auto(kg_buf_free) struct kg_buf file = {0};
        put_events(&file, 0, 3);
        size_t whole = file.length;
        put_event(&file, 3, T0, T0, 4 * BLOCK);
        file.length = whole + halves[i];
        write_file(fixture, 1, &file);
        assert_answer(fixture, (struct audit_filter){.limit = 2}, "1 2");
    }
}

static void a_file_may_be_empty_or_have_only_half_a_line(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf file = {0}, half = {0}, empty = {0};
    put_events(&file, 0, 3);
    kg_buf_text(&half, "{\"ts\":\"20");
    write_file(fixture, 1, &empty);
    assert_answer(fixture, (struct audit_filter){0}, "");
    write_file(fixture, 1, &file);
    write_file(fixture, 2, &half);
    write_file(fixture, 3, &empty);
    assert_answer(fixture, (struct audit_filter){.limit = 2}, "1 2");
}

static void the_limit_counts_over_files(void **data)
{
    struct fixture *fixture = *data;
    for (int number = 1; number <= 3; number++) {
        kg_auto(kg_buf_free) struct kg_buf file = {0};
        put_events(&file, number * 10, 2);
        write_file(fixture, number, &file);
    }
    assert_answer(fixture, (struct audit_filter){.limit = 2}, "30 31");
    assert_answer(fixture, (struct audit_filter){.limit = 3}, "21 30 31");
    assert_answer(fixture, (struct audit_filter){.limit = 100}, "10 11 20 21 30 31");
}

static void a_filter_may_match_nothing_in_many_blocks(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf file = {0};
    put_events(&file, 0, 5000);
    write_file(fixture, 1, &file);
    write_file(fixture, 2, &file);
    assert_answer(fixture, (struct audit_filter){.plugin = KG_STR("gi"), .limit = 1}, "");
    assert_answer(fixture, (struct audit_filter){.event = KG_STR("git"), .limit = 1}, "");
    /* What is wanted stands in the line, but not where it should. */
    assert_answer(fixture, (struct audit_filter){.plugin = KG_STR("plugin.stopped")}, "");
    assert_answer(fixture, (struct audit_filter){.event = KG_STR("git*")}, "");
}

static void a_line_that_is_too_long_is_an_error(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf file = {0}, lines = {0};
    put_events(&file, 0, 1);
    write_file(fixture, 1, &file);
    kg_auto(kg_free) char *path = kg_format("%s/audit-000001.ndjson", fixture->dir);
    assert_int_equal(truncate(path, 65 << 20), 0); /* a hole, and a line's end behind it */
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "\n", 1), 1);
    struct audit_filter filter = {.limit = 1};
    assert_true(audit_query(fixture->dir, &filter, &lines, &fixture->err) < 0);
    assert_int_equal(fixture->err.code, KG_E_TOO_LARGE);
}

static void each_id_leads_to_what_came_after_it(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf file = {0}, next = {0};
    for (int i = 0; i < 10000; i++) {
        put_event(&file, i, T0 + i, T0 + i, i % 2500 == 0 ? 5 * BLOCK : 0);
        if (i % 100 == 0)
            kg_buf_text(&file, "{\"seal\":{}}\n");
    }
    put_events(&next, 10000, 2);
    write_file(fixture, 1, &file);
    write_file(fixture, 2, &next);
    static const int had[] = {0, 1, 100, 2499, 2500, 2501, 4999, 7500, 9998, 9999, 10000};
    for (size_t i = 0; i < KG_COUNT(had); i++) {
        char time[KG_ULID_TIME];
        kg_ulid_time(T0 + had[i], time);
        kg_auto(kg_free) char *id = kg_format("evt_%.10s%016d", time, had[i]);
        kg_auto(kg_free) char *numbers =
            had[i] < 10000 ? kg_format("%d %d", had[i] + 1, had[i] + 2) : kg_strdup("10001");
        assert_answer(fixture, (struct audit_filter){.after_id = kg_str(id), .limit = 2}, numbers);
    }
    assert_answer(fixture, (struct audit_filter){.after_id = KG_STR("evt_0"), .limit = 2}, "0 1");
    assert_answer(fixture, (struct audit_filter){.after_id = KG_STR("evt_Z"), .limit = 2}, "");
}

/* -- times ------------------------------------------------------------------------------------- */

static void a_clock_that_was_set_back_hides_nothing(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf file = {0};
    put_event(&file, 0, T0, T0, 0);
    put_event(&file, 1, T0 + 10000, T0 + 10000, 0);
    put_event(&file, 2, T0 + 2000, T0 + 10000, 0); /* ids do not go back */
    put_event(&file, 3, T0 + 3000, T0 + 10000, 0);
    write_file(fixture, 1, &file);
    assert_answer(fixture, (struct audit_filter){.since_ms = T0 + 5000}, "1");
    assert_answer(fixture, (struct audit_filter){.since_ms = T0 + 3000}, "1 3");
    assert_answer(fixture, (struct audit_filter){.since_ms = T0 + 20000}, "");
    assert_answer(fixture, (struct audit_filter){.since_ms = -1}, "0 1 2 3");
}

static void nothing_is_read_from_before_the_time_asked_for(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_buf_free) struct kg_buf file = {0};
    put_event(&file, 0, T0, T0, (size_t)65 << 20); /* whoever reads this fails */
    put_event(&file, 1, T0 + 1000, T0 + 1000, 0);
    put_event(&file, 2, T0 + 2000, T0 + 2000, 0);
    write_file(fixture, 1, &file);
    assert_answer(fixture, (struct audit_filter){.since_ms = T0 + 1500}, "2");
    assert_answer(fixture, (struct audit_filter){.limit = 2}, "1 2");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_line_may_lie_in_any_number_of_blocks),
        TEST(the_end_of_a_line_may_be_the_end_of_a_block),
        TEST(half_a_line_at_the_end_is_not_there_yet),
        TEST(a_file_may_be_empty_or_have_only_half_a_line),
        TEST(the_limit_counts_over_files),
        TEST(a_filter_may_match_nothing_in_many_blocks),
        TEST(a_line_that_is_too_long_is_an_error),
        TEST(each_id_leads_to_what_came_after_it),
        TEST(a_clock_that_was_set_back_hides_nothing),
        TEST(nothing_is_read_from_before_the_time_asked_for),
    };
    return cmocka_run_group_tests_name("audit_query", tests, NULL, NULL);
}
