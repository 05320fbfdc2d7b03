/*
 * The audit log on real files, with its real thread and database: what is emitted is written, in
 * order, once; what is done to the files behind its back is found.
 */
#include "audit/audit.h"
#include "base/json/json.h"
#include "folder.h"
#include "state/state.h"

#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 60000 /* nobody waits that long: it only ends a test that hangs */

struct fixture {
    char root[64], dir[96], db[96], key[96];
    struct audit_options options;
    struct loop *loop;
    struct audit *audit;
    struct kg_err err;
    bool mounted;
};

/* -- a log in a fresh folder ------------------------------------------------------------------- */

static int set_up(void **data)
{
    struct fixture *fixture = kg_alloc(sizeof(*fixture));
    snprintf(fixture->root, sizeof(fixture->root), "/tmp/kaged-audit-XXXXXX");
    assert_non_null(mkdtemp(fixture->root));
    snprintf(fixture->dir, sizeof(fixture->dir), "%s/audit", fixture->root);
    snprintf(fixture->db, sizeof(fixture->db), "%s/kaged.db", fixture->root);
    snprintf(fixture->key, sizeof(fixture->key), "%s/audit.key", fixture->root);
    fixture->options = (struct audit_options){
        .dir = fixture->dir,
        .state_db = fixture->db,
        .key_file = fixture->key,
        .rotate_bytes = 1024 * 1024,
        .seal_interval_ms = 60000,
        .queue_bytes = 1024 * 1024,
    };
    fixture->loop = loop_new();
    kg_log_set(KG_ERROR_LEVEL + 1, KG_LOG_TEXT); /* warnings are expected here */
    *data = fixture;
    return 0;
}

static int tear_down(void **data)
{
    struct fixture *fixture = *data;
    kg_time_set(-1, -1);
    audit_close(fixture->audit);
    loop_free(fixture->loop);
    if (fixture->mounted)
        umount2(fixture->root, MNT_DETACH);
    folder_remove(fixture->root);
    free(fixture);
    return 0;
}

static void open_log(struct fixture *fixture)
{
    fixture->audit = audit_open(fixture->loop, &fixture->options, &fixture->err);
    if (fixture->audit == NULL)
        fail_msg("%s", fixture->err.message);
}

static void close_log(struct fixture *fixture)
{
    audit_close(fixture->audit);
    fixture->audit = NULL;
}

static void emit_enabled(struct fixture *fixture, const char *plugin)
{
    audit_emit(fixture->audit, AUDIT_PLUGIN_ENABLED, KG_STR_NULL, AUDIT_V_TEXT(plugin),
               AUDIT_V_TEXT("alice"));
}

static void emit_number(struct fixture *fixture, int number)
{
    audit_emit(fixture->audit, AUDIT_PLUGIN_STOPPED, KG_STR_NULL, AUDIT_V_TEXT("git"),
               AUDIT_V_INT(number));
}

/* One run of the daemon: its events end up in one block. */
static void run_with_events(struct fixture *fixture, int from, int count)
{
    open_log(fixture);
    for (int i = 0; i < count; i++)
        emit_number(fixture, from + i);
    close_log(fixture);
}

/* Three blocks of three events in one file. */
static void write_three_blocks(struct fixture *fixture)
{
    for (int run = 0; run < 3; run++)
        run_with_events(fixture, run * 3, 3);
}

/* Each event is a block in a file of its own; the last file is empty. */
static void write_small_files(struct fixture *fixture, int count)
{
    fixture->options.rotate_bytes = 1;
    run_with_events(fixture, 0, count);
}

struct delivery {
    struct loop_message message;
    bool delivered;
};

static void on_delivered(struct loop_message *message)
{
    KG_CONTAINER(message, struct delivery, message)->delivered = true;
}

static bool is_true(void *flag)
{
    return *(bool *)flag;
}

static void flush(struct fixture *fixture)
{
    struct delivery flushed = {.message.deliver = on_delivered};
    audit_flush(fixture->audit, &flushed.message);
    assert_true(loop_run_until(fixture->loop, is_true, &flushed.delivered, 10000));
}

/* -- the files as bytes ------------------------------------------------------------------------ */

static char *file_path(struct fixture *fixture, int number)
{
    return kg_format("%s/audit-%06d.ndjson", fixture->dir, number);
}

static struct kg_buf read_log_file(struct fixture *fixture, int number)
{
    kg_auto(kg_free) char *path = file_path(fixture, number);
    struct kg_buf text = {0};
    if (kg_read_file(path, 64 << 20, &text, &fixture->err) < 0)
        fail_msg("%s", fixture->err.message);
    kg_buf_terminate(&text);
    return text;
}

static void write_log_file(struct fixture *fixture, int number, struct kg_str text, int flags)
{
    kg_auto(kg_free) char *path = file_path(fixture, number);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CLOEXEC | flags);
    assert_true(fd >= 0);
    assert_int_equal(kg_write_all(fd, text.data, text.length), 0);
}

static size_t count_files(struct fixture *fixture)
{
    kg_auto(kg_free) char *pattern = kg_format("%s/audit-*.ndjson", fixture->dir);
    glob_t found;
    size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* The offset of a line, counted from 1. */
static size_t line_start(const struct kg_buf *text, int line)
{
    const char *at = text->data;
    while (--line > 0)
        at = strchr(at, '\n') + 1;
    return (size_t)(at - text->data);
}

/* Takes lines [first, last] out of a file. */
static void remove_lines(struct fixture *fixture, int number, int first, int last)
{
    kg_auto(kg_buf_free) struct kg_buf text = read_log_file(fixture, number);
    size_t from = line_start(&text, first), to = line_start(&text, last + 1);
    memmove(text.data + from, text.data + to, text.length - to);
    text.length -= to - from;
    write_log_file(fixture, number, kg_buf_view(&text), O_TRUNC);
}

static void remove_file(struct fixture *fixture, int number)
{
    kg_auto(kg_free) char *path = file_path(fixture, number);
    assert_int_equal(unlink(path), 0);
}

/* -- what verify says -------------------------------------------------------------------------- */

static struct audit_report verify(struct fixture *fixture)
{
    struct audit_report report;
    if (audit_verify(&fixture->options, &report, &fixture->err) < 0)
        fail_msg("%s", fixture->err.message);
    return report;
}

static void assert_clean(struct fixture *fixture)
{
    struct audit_report report = verify(fixture);
    assert_string_equal(report.problem, "");
}

static void assert_problem(struct fixture *fixture, const char *place, const char *what)
{
    struct audit_report report = verify(fixture);
    if (strstr(report.problem, place) == NULL || strstr(report.problem, what) == NULL)
        fail_msg("\"%s\" does not name \"%s\" and \"%s\"", report.problem, place, what);
}

/* -- answers to queries ------------------------------------------------------------------------ */

static struct kg_buf ask(struct fixture *fixture, struct audit_filter filter)
{
    struct kg_buf lines = {0};
    if (audit_query(fixture->dir, &filter, &lines, &fixture->err) < 0)
        fail_msg("%s", fixture->err.message);
    kg_buf_terminate(&lines);
    return lines;
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        lines++;
    return lines;
}

static size_t count_answers(struct fixture *fixture, struct audit_filter filter)
{
    kg_auto(kg_buf_free) struct kg_buf lines = ask(fixture, filter);
    return count_lines(lines.data);
}

/* Every line is an event with the numbers first, first + 1, ... */
static void assert_numbers(const char *lines, int first, int count)
{
    for (int i = 0; i < count; i++) {
        const char *end = strchr(lines, '\n');
        assert_non_null(end);
        struct kg_str value, line = {lines, (size_t)(end - lines)};
        int64_t number = -1;
        assert_int_equal(kg_json_check(line, &(size_t){0}), KG_JSON_OK);
        assert_true(kg_json_member(line, "exit_code", &value));
        assert_true(kg_str_to_int(value, &number));
        assert_int_equal(number, first + i);
        lines = end + 1;
    }
    assert_string_equal(lines, "");
}

/* -- events ------------------------------------------------------------------------------------ */

static void each_event_has_a_name_of_its_own_and_few_enough_fields(void **data)
{
    (void)data;
    for (int i = 0; i < AUDIT_EVENT_COUNT; i++) {
        const struct audit_event_row *row = audit_event_row(i);
        size_t fields = 0;
        while (fields <= AUDIT_FIELDS_MAX && row->fields[fields] != NULL)
            fields++;
        assert_in_range(fields, 1, AUDIT_FIELDS_MAX);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(row->name, audit_event_row(j)->name);
    }
}

static void an_event_is_a_line_with_the_fields_of_its_row(void **data)
{
    struct fixture *fixture = *data;
    kg_time_set(1794781174123, -1);
    open_log(fixture);
    audit_emit(fixture->audit, AUDIT_PLUGIN_METHOD_RETURNED, KG_STR("req_1"), AUDIT_V_TEXT("hello"),
               AUDIT_V_TEXT("greet"), AUDIT_V_INT(-7), AUDIT_V_BOOL(false),
               AUDIT_V_RAW(KG_STR("{\"code\":1}")));
    close_log(fixture);
    kg_auto(kg_buf_free) struct kg_buf text = ask(fixture, (struct audit_filter){0});
    const char *id = strstr(text.data, "\"id\":\"evt_");
    assert_non_null(id);
    kg_auto(kg_free) char *expected = kg_format(
        "{\"ts\":\"2026-11-15T22:19:34.123Z\",\"id\":\"%.30s\",\"event\":\"plugin.method_"
        "returned\","
        "\"request_id\":\"req_1\",\"name\":\"hello\",\"method\":\"greet\",\"duration_ms\":-7,"
        "\"success\":false,\"error\":{\"code\":1}}\n",
        id + 6);
    assert_string_equal(text.data, expected);
}

static void numbers_of_any_length_come_out_as_they_are(void **data)
{
    struct fixture *fixture = *data;
    static const int64_t numbers[] = {0,    9,    10,   99,    100,       999,
                                      1000, 1001, 9999, 10000, INT64_MAX, INT64_MIN};
    open_log(fixture);
    for (size_t i = 0; i < KG_COUNT(numbers); i++)
        audit_emit(fixture->audit, AUDIT_PLUGIN_NOTIFICATION_FLOOD, KG_STR_NULL,
                   AUDIT_V_TEXT("hello"), AUDIT_V_INT(numbers[i]));
    close_log(fixture);
    kg_auto(kg_buf_free) struct kg_buf text = ask(fixture, (struct audit_filter){0});
    for (size_t i = 0; i < KG_COUNT(numbers); i++) {
        kg_auto(kg_free) char *expected = kg_format(",\"rate\":%lld}\n", (long long)numbers[i]);
        assert_non_null(strstr(text.data, expected));
    }
}

static void an_event_without_request_has_no_request_id(void **data)
{
    struct fixture *fixture = *data;
    open_log(fixture);
    emit_enabled(fixture, NULL);
    close_log(fixture);
    kg_auto(kg_buf_free) struct kg_buf text = ask(fixture, (struct audit_filter){0});
    assert_null(strstr(text.data, "request_id"));
    assert_non_null(strstr(text.data, "\"name\":null"));
}

static void every_event_of_the_table_comes_out_as_json(void **data)
{
    struct fixture *fixture = *data;
    open_log(fixture);
    for (int event = 0; event < AUDIT_EVENT_COUNT; event++) {
        struct audit_value values[AUDIT_FIELDS_MAX];
        size_t count = 0;
        for (; audit_event_row(event)->fields[count] != NULL; count++)
            values[count] = AUDIT_V_INT((int64_t)count);
        audit_emit_values(fixture->audit, event, KG_STR_NULL, values, count);
    }
    close_log(fixture);
    kg_auto(kg_buf_free) struct kg_buf text = ask(fixture, (struct audit_filter){0});
    assert_int_equal(count_lines(text.data), AUDIT_EVENT_COUNT);
    const char *at = text.data;
    for (int event = 0; event < AUDIT_EVENT_COUNT; event++) {
        const struct audit_event_row *row = audit_event_row(event);
        struct kg_str value, line = {at, (size_t)(strchr(at, '\n') - at)};
        for (size_t i = 0; row->fields[i] != NULL; i++)
            assert_true(kg_json_member(line, row->fields[i], &value));
        at += line.length + 1;
    }
}

static void hostile_bytes_stay_within_their_string(void **data)
{
    static const struct kg_str hostile[] = {
        KG_STR("\"}\n{\"seal\":{}}\n"),
        KG_STR("\0\x01\x1F\x7F"),
        KG_STR("\xFF\xC0\x80\xED\xA0\x80"),
        KG_STR("back\\slash and more"),
        KG_STR("exactly8"),
        KG_STR("a quote \" past the eighth"),
        KG_STR("nul past \0 the eighth"),
        KG_STR("wide past the eighth \xC3\xA9\xFF"),
        KG_STR("tab at the very end of it\t"),
        KG_STR(""),
    };
    struct fixture *fixture = *data;
    open_log(fixture);
    for (size_t i = 0; i < KG_COUNT(hostile); i++)
        audit_emit(fixture->audit, AUDIT_PLUGIN_KILLED, hostile[i], AUDIT_V_STR(hostile[i]));
    audit_emit(fixture->audit, AUDIT_PLUGIN_KILLED, KG_STR_NULL,
               AUDIT_V_RAW(KG_STR("[1,\n2,\n\n3]\n")));
    close_log(fixture);
    kg_auto(kg_buf_free) struct kg_buf text = read_log_file(fixture, 1);
    assert_int_equal(count_lines(text.data), KG_COUNT(hostile) + 2); /* and the seal */
    assert_int_equal(count_answers(fixture, (struct audit_filter){0}), KG_COUNT(hostile) + 1);
    assert_non_null(strstr(text.data, "\"name\":\"back\\\\slash and more\""));
    assert_non_null(strstr(text.data, "\"name\":\"nul past \\u0000 the eighth\""));
    assert_non_null(strstr(text.data, "\"name\":[1, 2,  3] }"));
    assert_clean(fixture);
}

static void events_come_out_in_the_order_they_went_in(void **data)
{
    struct fixture *fixture = *data;
    open_log(fixture);
    for (int i = 0; i < 5000; i++) { /* some past the turn's 64 KiB, some not */
        emit_number(fixture, i);
        if (i % 700 == 0)
            flush(fixture);
    }
    close_log(fixture);
    kg_auto(kg_buf_free) struct kg_buf lines = ask(fixture, (struct audit_filter){0});
    assert_numbers(lines.data, 0, 5000);
    assert_clean(fixture);
}

static void ids_grow_even_when_the_clock_is_set_back(void **data)
{
    struct fixture *fixture = *data;
    static const int64_t clocks[] = {2000000000000, 2000000000001, 1999999999999, 2000000000001};
    for (size_t i = 0; i < KG_COUNT(clocks); i++) {
        kg_time_set(clocks[i], -1);
        run_with_events(fixture, 0, 40);
    }
    kg_auto(kg_buf_free) struct kg_buf lines = ask(fixture, (struct audit_filter){0});
    char last[31] = "";
    for (const char *at = lines.data; *at != '\0'; at = strchr(at, '\n') + 1) {
        const char *id = strstr(at, "\"id\":\"") + 6;
        assert_true(memcmp(id, last, 30) > 0);
        memcpy(last, id, 30);
    }
}

struct counting_listener {
    struct audit_listener listener;
    int heard;
};

static void count_event(struct audit_listener *listener, struct kg_str line, enum audit_event event)
{
    struct counting_listener *counting = KG_CONTAINER(listener, struct counting_listener, listener);
    assert_int_equal(event, AUDIT_PLUGIN_STOPPED);
    assert_int_equal(kg_json_check(line, &(size_t){0}), KG_JSON_OK);
    assert_int_equal(line.data[line.length - 1], '}');
    counting->heard++;
}

static void a_listener_hears_each_event_until_it_leaves(void **data)
{
    struct fixture *fixture = *data;
    struct counting_listener one = {.listener.on_event = count_event};
    struct counting_listener two = {.listener.on_event = count_event};
    open_log(fixture);
    audit_listen(fixture->audit, &one.listener);
    audit_listen(fixture->audit, &two.listener);
    emit_number(fixture, 1);
    audit_unlisten(fixture->audit, &one.listener);
    emit_number(fixture, 2);
    assert_int_equal(one.heard, 1);
    assert_int_equal(two.heard, 2);
}

/* -- writing ----------------------------------------------------------------------------------- */

static void a_flush_tells_when_all_events_are_in_the_file(void **data)
{
    struct fixture *fixture = *data;
    open_log(fixture);
    for (int i = 0; i < 100; i++)
        emit_number(fixture, i);
    flush(fixture);
    kg_auto(kg_buf_free) struct kg_buf lines = ask(fixture, (struct audit_filter){0});
    assert_numbers(lines.data, 0, 100);
}

static void a_flush_is_answered_before_close_returns(void **data)
{
    struct fixture *fixture = *data;
    struct delivery flushed = {.message.deliver = on_delivered};
    open_log(fixture);
    emit_number(fixture, 1);
    audit_flush(fixture->audit, &flushed.message);
    close_log(fixture);
    assert_true(flushed.delivered);
}

static void the_files_are_private(void **data)
{
    struct fixture *fixture = *data;
    run_with_events(fixture, 0, 1);
    kg_auto(kg_free) char *log = file_path(fixture, 1);
    const char *paths[] = {log, fixture->key, fixture->db};
    for (size_t i = 0; i < KG_COUNT(paths); i++) {
        struct stat status;
        assert_int_equal(stat(paths[i], &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
    }
}

static bool waits_on(void *data)
{
    (void)data;
    return false;
}

static void a_block_is_sealed_after_its_interval(void **data)
{
    struct fixture *fixture = *data;
    fixture->options.seal_interval_ms = 20;
    open_log(fixture);
    emit_number(fixture, 1);
    flush(fixture);
    /* The condition is in the files, and what it asks of the state is not asked on the loop. */
    for (int i = 0; i < 500 && verify(fixture).blocks == 0; i++)
        loop_run_until(fixture->loop, waits_on, NULL, 20);
    struct audit_report report = verify(fixture);
    assert_int_equal(report.blocks, 1);
    assert_int_equal(report.unsealed, 0);
    assert_string_equal(report.problem, "");
}

static void a_running_log_verifies_with_its_unsealed_lines(void **data)
{
    struct fixture *fixture = *data;
    run_with_events(fixture, 0, 3);
    open_log(fixture);
    emit_number(fixture, 3);
    flush(fixture);
    struct audit_report report = verify(fixture);
    assert_string_equal(report.problem, "");
    assert_int_equal(report.blocks, 1);
    assert_int_equal(report.events, 3);
    assert_int_equal(report.unsealed, 1);
}

static void an_empty_home_verifies(void **data)
{
    struct fixture *fixture = *data;
    struct audit_report report = verify(fixture);
    assert_string_equal(report.problem, "");
    assert_int_equal(report.files, 0);
}

static void a_large_burst_is_sealed_in_several_blocks(void **data)
{
    struct fixture *fixture = *data;
    open_log(fixture);
    for (int i = 0; i < 9000; i++)
        emit_number(fixture, i);
    close_log(fixture);
    struct audit_report report = verify(fixture);
    assert_string_equal(report.problem, "");
    assert_true(report.blocks >= 3);
    assert_int_equal(report.events, 9000);
}

static void a_log_rotates_and_keeps_the_newest_files(void **data)
{
    struct fixture *fixture = *data;
    fixture->options.rotate_bytes = 20000;
    fixture->options.keep = 3;
    open_log(fixture);
    for (int i = 0; i < 2000; i++)
        emit_number(fixture, i);
    close_log(fixture);
    assert_int_equal(count_files(fixture), 3);
    assert_clean(fixture);
    run_with_events(fixture, 2000, 10);
    assert_clean(fixture);
    kg_auto(kg_buf_free) struct kg_buf lines = ask(fixture, (struct audit_filter){.limit = 200});
    assert_numbers(lines.data, 1810, 200);
}

static void rotation_can_be_changed_while_it_runs(void **data)
{
    struct fixture *fixture = *data;
    open_log(fixture);
    for (int i = 0; i < 100; i++)
        emit_number(fixture, i);
    flush(fixture);
    audit_set_rotation(fixture->audit, 1000, 2);
    for (int i = 100; i < 200; i++)
        emit_number(fixture, i);
    close_log(fixture);
    assert_int_equal(count_files(fixture), 2);
    assert_clean(fixture);
}

static void a_lower_keep_deletes_at_the_next_start(void **data)
{
    struct fixture *fixture = *data;
    write_small_files(fixture, 5);
    assert_int_equal(count_files(fixture), 6);
    fixture->options.keep = 1;
    open_log(fixture);
    assert_int_equal(count_files(fixture), 1);
    close_log(fixture);
    assert_clean(fixture);
}

/* Deleting old files stopped half way: they are only older than the head says. */
static void files_that_should_be_deleted_do_no_harm(void **data)
{
    struct fixture *fixture = *data;
    write_small_files(fixture, 5);
    kg_auto(kg_buf_free) struct kg_buf second = read_log_file(fixture, 3);
    fixture->options.keep = 3;
    open_log(fixture);
    close_log(fixture);
    assert_int_equal(count_files(fixture), 3);
    write_log_file(fixture, 3, kg_buf_view(&second), O_CREAT);
    kg_auto(kg_free) char *path = file_path(fixture, 3);
    assert_int_equal(chmod(path, 0600), 0);
    assert_clean(fixture);
}

/* -- falling behind ---------------------------------------------------------------------------- */

struct flagging_waiter {
    struct audit_waiter waiter;
    bool called;
    struct audit *audit; /* with other: whose wait it ends */
    struct audit_waiter *other;
};

static void raise_flag(struct audit_waiter *waiter)
{
    KG_CONTAINER(waiter, struct flagging_waiter, waiter)->called = true;
}

static void a_full_queue_makes_callers_wait_until_it_is_written(void **data)
{
    struct fixture *fixture = *data;
    fixture->options.queue_bytes = 2000;
    struct flagging_waiter waiter = {.waiter.on_ready = raise_flag};
    const char *why = NULL;
    open_log(fixture);
    assert_true(audit_ready(fixture->audit, &why));
    for (int i = 0; i < 100; i++) /* within one turn: nothing is handed over */
        emit_number(fixture, i);
    assert_false(audit_ready(fixture->audit, &why));
    assert_non_null(why);
    audit_wait_ready(fixture->audit, &waiter.waiter);
    assert_true(loop_run_until(fixture->loop, is_true, &waiter.called, 10000));
    assert_true(audit_ready(fixture->audit, &why));
    close_log(fixture);
    kg_auto(kg_buf_free) struct kg_buf lines = ask(fixture, (struct audit_filter){0});
    assert_numbers(lines.data, 0, 100);
}

static void a_waiter_that_leaves_is_not_called(void **data)
{
    struct fixture *fixture = *data;
    struct flagging_waiter leaves = {.waiter.on_ready = raise_flag};
    struct flagging_waiter stays = {.waiter.on_ready = raise_flag};
    open_log(fixture);
    audit_wait_ready(fixture->audit, &leaves.waiter);
    audit_wait_ready(fixture->audit, &stays.waiter);
    audit_unwait(fixture->audit, &leaves.waiter);
    flush(fixture);
    assert_true(stays.called);
    assert_false(leaves.called);
    assert_false(leaves.waiter.waiting);
}

static void leave_other(struct audit_waiter *waiter)
{
    struct flagging_waiter *flagging = KG_CONTAINER(waiter, struct flagging_waiter, waiter);
    flagging->called = true;
    audit_unwait(flagging->audit, flagging->other);
}

static void a_waiter_may_end_the_wait_of_another(void **data)
{
    struct fixture *fixture = *data;
    struct flagging_waiter other = {.waiter.on_ready = raise_flag};
    open_log(fixture);
    struct flagging_waiter first = {
        .waiter.on_ready = leave_other, .audit = fixture->audit, .other = &other.waiter};
    audit_wait_ready(fixture->audit, &first.waiter);
    audit_wait_ready(fixture->audit, &other.waiter);
    flush(fixture);
    assert_true(first.called);
    assert_false(other.called);
}

/* A disk of 512 KiB for the log and its database, in a mount namespace of the test's own. */
static bool mount_small_disk(struct fixture *fixture, const char *test)
{
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("tmpfs", fixture->root, "tmpfs", 0, "mode=0700,size=512k") == 0) {
        fixture->mounted = true;
        return true;
    }
    const char *ci = getenv("CI");
    if (ci != NULL && strcmp(ci, "true") == 0)
        fail_msg("a tmpfs cannot be mounted");
    printf("SKIP %s: a tmpfs cannot be mounted\n", test);
    return false;
}

static void make_room(struct fixture *fixture)
{
    assert_int_equal(mount("tmpfs", fixture->root, "tmpfs", MS_REMOUNT, "size=8m"), 0);
}

static bool is_refused(void *data)
{
    struct fixture *fixture = data;
    const char *why;
    return !audit_ready(fixture->audit, &why) && strcmp(why, "the disk is full") == 0;
}

/* Emits events, counted from 0, until the disk takes no more. */
static int fill_disk(struct fixture *fixture)
{
    int count = 0;
    for (; count < 20000 && !is_refused(fixture); count++) {
        emit_number(fixture, count);
        if (count % 100 == 0)
            flush(fixture);
    }
    assert_true(is_refused(fixture));
    return count;
}

static void a_full_disk_loses_nothing_and_goes_on_when_there_is_room(void **data)
{
    struct fixture *fixture = *data;
    if (!mount_small_disk(fixture, __func__))
        return;
    struct flagging_waiter waiter = {.waiter.on_ready = raise_flag};
    open_log(fixture);
    int count = fill_disk(fixture);
    for (int i = 0; i < 100; i++) /* still taken */
        emit_number(fixture, count++);
    audit_wait_ready(fixture->audit, &waiter.waiter);
    flush(fixture);
    assert_false(waiter.called);
    assert_clean(fixture); /* half a line at its end is what a crash could leave */
    make_room(fixture);
    assert_true(loop_run_until(fixture->loop, is_true, &waiter.called, 10000));
    close_log(fixture);
    kg_auto(kg_buf_free) struct kg_buf lines = ask(fixture, (struct audit_filter){0});
    assert_numbers(lines.data, 0, count);
    assert_clean(fixture);
}

static void closing_on_a_full_disk_ends_and_leaves_a_log_that_verifies(void **data)
{
    struct fixture *fixture = *data;
    if (!mount_small_disk(fixture, __func__))
        return;
    open_log(fixture);
    fill_disk(fixture);
    close_log(fixture);
    assert_clean(fixture);
    make_room(fixture);
    run_with_events(fixture, 0, 1);
    assert_clean(fixture);
}

/* -- crashes ----------------------------------------------------------------------------------- */

static bool never(void *data)
{
    emit_number(data, 1);
    emit_number(data, 2);
    return false;
}

/* Emits as fast as it can until it is killed; blocks and files are as short as possible. */
static void run_until_killed(struct fixture *fixture)
{
    fixture->loop = loop_new();
    fixture->audit = audit_open(fixture->loop, &fixture->options, NULL);
    if (fixture->audit == NULL)
        _exit(1); /* a child must not run the other tests */
    for (;;)
        loop_run_until(fixture->loop, never, fixture, 1);
}

static void kill_after(pid_t child, unsigned delay_us)
{
    usleep(delay_us);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void a_killed_writer_leaves_a_log_that_verifies_before_and_after_the_next_start(void **data)
{
    struct fixture *fixture = *data;
    fixture->options.seal_interval_ms = 1;
    fixture->options.rotate_bytes = 6000;
    fixture->options.keep = 4;
    uint64_t events = 0;
    unsigned seed = (unsigned)getpid();
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            run_until_killed(fixture);
        kill_after(child, (unsigned)rand_r(&seed) % 40000);
        assert_clean(fixture);
        if (round % 2 == 0)
            continue; /* the next child starts on what this one left */
        run_with_events(fixture, 0, 1);
        assert_clean(fixture);
        events += verify(fixture).events;
    }
    assert_true(events > 20);
}

static void a_log_verifies_while_it_is_written(void **data)
{
    struct fixture *fixture = *data;
    fixture->options.seal_interval_ms = 1;
    fixture->options.rotate_bytes = 20000;
    fixture->options.keep = 5;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_until_killed(fixture);
    uint64_t events = 0, deadline_ms = kg_monotonic_ms() + WAIT_MS;
    for (int i = 0; i < 50 || (events == 0 && kg_monotonic_ms() < deadline_ms); i++) {
        struct audit_report report = verify(fixture);
        assert_string_equal(report.problem, "");
        events = report.events;
    }
    kill_after(child, 0);
    assert_true(events > 0);
}

static void half_a_line_is_cut_off_and_the_rest_is_sealed(void **data)
{
    struct fixture *fixture = *data;
    run_with_events(fixture, 0, 2);
    kg_auto(kg_buf_free) struct kg_buf text = read_log_file(fixture, 1);
    struct kg_str whole = {text.data, line_start(&text, 2)};
    write_log_file(fixture, 1, whole, O_APPEND);
    write_log_file(fixture, 1, KG_STR("{\"ts\":\"20"), O_APPEND);
    assert_int_equal(verify(fixture).unsealed, 1);
    assert_clean(fixture);
    open_log(fixture);
    close_log(fixture);
    assert_clean(fixture);
    kg_auto(kg_buf_free) struct kg_buf after = read_log_file(fixture, 1);
    assert_int_equal(count_lines(after.data), 5);
    assert_non_null(strstr(after.data, "\"recovered\":true"));
}

/* The seal is in the file, but the crash came before the head was written. */
static void a_head_that_is_behind_by_blocks_is_caught_up(void **data)
{
    struct fixture *fixture = *data;
    struct state_audit_head head;
    bool found;
    write_small_files(fixture, 2);
    struct state *state = state_open(fixture->db, &fixture->err);
    assert_int_equal(state_audit_head_get(state, &head, &found, NULL), 0);
    state_close(state);
    run_with_events(fixture, 2, 4);
    state = state_open(fixture->db, &fixture->err);
    assert_int_equal(state_audit_head_set(state, &head, NULL), 0);
    state_close(state);
    assert_clean(fixture);
    run_with_events(fixture, 6, 1);
    assert_clean(fixture);
    state = state_open(fixture->db, &fixture->err);
    assert_int_equal(state_audit_head_get(state, &head, &found, NULL), 0);
    state_close(state);
    assert_int_equal(head.block, 7);
    assert_int_equal(head.events, 7);
}

/* -- tampering --------------------------------------------------------------------------------- */

static void a_changed_line_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    kg_auto(kg_buf_free) struct kg_buf text = read_log_file(fixture, 1);
    *strstr(text.data, "\"exit_code\":4") = '\'';
    write_log_file(fixture, 1, kg_buf_view(&text), O_TRUNC);
    assert_problem(fixture, "audit-000001.ndjson: line 8", "block 2 has been changed");
}

static void a_removed_line_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    remove_lines(fixture, 1, 6, 6);
    assert_problem(fixture, "audit-000001.ndjson: line 7", "block 2 was sealed with 3 events");
}

static void a_removed_block_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    remove_lines(fixture, 1, 5, 8);
    assert_problem(fixture, "audit-000001.ndjson: line 8", "block 3 follows block 1");
}

static void a_removed_first_block_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    remove_lines(fixture, 1, 1, 4);
    assert_problem(fixture, "audit-000001.ndjson: line 4", "the start of the log is missing");
}

static void a_removed_seal_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    remove_lines(fixture, 1, 4, 4);
    assert_problem(fixture, "audit-000001.ndjson: line 7", "block 2");
}

static void a_changed_seal_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    kg_auto(kg_buf_free) struct kg_buf text = read_log_file(fixture, 1);
    char *hash = strstr(text.data, "\"hash\":\"") + 8;
    *hash = *hash == 'a' ? 'b' : 'a';
    write_log_file(fixture, 1, kg_buf_view(&text), O_TRUNC);
    assert_problem(fixture, "audit-000001.ndjson: line 4", "block 1");
}

static void a_removed_file_in_the_middle_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_small_files(fixture, 5);
    remove_file(fixture, 3);
    assert_problem(fixture, "audit-000003.ndjson", "missing");
}

static void a_removed_first_file_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_small_files(fixture, 5);
    remove_file(fixture, 1);
    assert_problem(fixture, "audit-000002.ndjson: line 2", "the start of the log is missing");
}

static void removed_last_files_are_found(void **data)
{
    struct fixture *fixture = *data;
    write_small_files(fixture, 5);
    remove_file(fixture, 5);
    remove_file(fixture, 6);
    assert_problem(fixture, "audit-000004.ndjson", "block 5 was signed");
}

static void all_files_removed_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    remove_file(fixture, 1);
    assert_problem(fixture, "the log", "block 3 was signed");
}

static void blocks_cut_off_the_end_are_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    remove_lines(fixture, 1, 9, 12);
    assert_problem(fixture, "audit-000001.ndjson", "it ends with block 2, but block 3 was signed");
}

static void a_sealed_block_cut_in_half_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    remove_lines(fixture, 1, 11, 12);
    assert_problem(fixture, "audit-000001.ndjson", "it ends with block 2, but block 3 was signed");
}

static void a_log_written_anew_by_another_daemon_is_found(void **data)
{
    struct fixture *fixture = *data, *other;
    void *other_data;
    write_three_blocks(fixture);
    set_up(&other_data);
    other = other_data;
    for (int run = 0; run < 3; run++)
        run_with_events(other, run * 5, 3);
    kg_auto(kg_buf_free) struct kg_buf forged = read_log_file(other, 1);
    tear_down(&other_data);
    write_log_file(fixture, 1, kg_buf_view(&forged), O_TRUNC);
    assert_problem(fixture, "audit-000001.ndjson: line 12", "not the one that was signed");
}

static void a_replaced_key_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    assert_int_equal(unlink(fixture->key), 0);
    assert_problem(fixture, fixture->key, "No such file");
    kg_auto(kg_close) int fd = open(fixture->key, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    char key[64] = "another key, which never signed anything";
    assert_int_equal(kg_write_all(fd, key, sizeof(key)), 0);
    assert_problem(fixture, fixture->key, "one of them was replaced");
}

static void an_edited_head_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    remove_lines(fixture, 1, 9, 12);
    struct state *state = state_open(fixture->db, &fixture->err);
    struct state_audit_head head;
    bool found;
    assert_int_equal(state_audit_head_get(state, &head, &found, NULL), 0);
    head.block = 2;
    assert_int_equal(state_audit_head_set(state, &head, NULL), 0);
    state_close(state);
    assert_problem(fixture, fixture->db, "does not fit the key");
}

static void a_lost_database_is_found(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    assert_int_equal(unlink(fixture->db), 0);
    assert_problem(fixture, fixture->db, "no signed head");
}

static int count_marks(struct fixture *fixture, int files)
{
    int marks = 0;
    for (int i = 1; i <= files; i++) {
        kg_auto(kg_buf_free) struct kg_buf text = read_log_file(fixture, i);
        for (const char *at = text.data; (at = strstr(at, "\"broken\":true")) != NULL; at++)
            marks++;
    }
    return marks;
}

static void a_start_on_a_cut_log_marks_it_once_and_for_all(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    remove_lines(fixture, 1, 9, 12);
    run_with_events(fixture, 100, 2);
    assert_problem(fixture, "audit-000002.ndjson: line 1", "before block 4");
    run_with_events(fixture, 102, 2);
    assert_problem(fixture, "audit-000002.ndjson: line 1", "before block 4");
    assert_int_equal(count_files(fixture), 2);
    assert_int_equal(count_marks(fixture, 2), 1);
    kg_auto(kg_buf_free) struct kg_buf lines = ask(fixture, (struct audit_filter){.limit = 4});
    assert_numbers(lines.data, 100, 4);
}

static void a_start_without_the_database_does_not_begin_a_clean_log(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    assert_int_equal(unlink(fixture->db), 0);
    run_with_events(fixture, 9, 1);
    assert_problem(fixture, "audit-000002.ndjson: line 1", "did not fit its signed head");
    assert_int_equal(verify(fixture).events, 10);
}

static void a_start_with_another_key_does_not_sign_as_if_nothing_was(void **data)
{
    struct fixture *fixture = *data;
    write_three_blocks(fixture);
    assert_int_equal(unlink(fixture->key), 0);
    run_with_events(fixture, 9, 1);
    assert_problem(fixture, "audit-000002.ndjson: line 1", "did not fit its signed head");
}

static void a_mark_cannot_be_taken_out(void **data)
{
    struct fixture *fixture = *data;
    a_start_on_a_cut_log_marks_it_once_and_for_all(data);
    kg_auto(kg_buf_free) struct kg_buf text = read_log_file(fixture, 2);
    static const char mark[] = ",\"broken\":true";
    char *at = strstr(text.data, mark);
    char *rest = at + sizeof(mark) - 1;
    memmove(at, rest, text.length - (size_t)(rest - text.data));
    text.length -= sizeof(mark) - 1;
    write_log_file(fixture, 2, kg_buf_view(&text), O_TRUNC);
    assert_problem(fixture, "audit-000002.ndjson: line 1", "block 4");
}

/* -- queries ----------------------------------------------------------------------------------- */

static void write_mixed(struct fixture *fixture)
{
    open_log(fixture);
    emit_enabled(fixture, "git");
    emit_enabled(fixture, "github");
    emit_number(fixture, 1); /* git stopped */
    audit_emit(fixture->audit, AUDIT_PLUGIN_HOOK_FIRED, KG_STR_NULL, AUDIT_V_TEXT("github"),
               AUDIT_V_TEXT("pre_compact"), AUDIT_V_NULL, AUDIT_V_NULL);
    audit_emit(fixture->audit, AUDIT_PLUGIN_HOOK_TIMEOUT, KG_STR_NULL, AUDIT_V_TEXT("a\"b"),
               AUDIT_V_TEXT("pre_compact"), AUDIT_V_NULL, AUDIT_V_INT(5));
    close_log(fixture);
}

static void a_query_filters_by_plugin_and_event(void **data)
{
    struct fixture *fixture = *data;
    static const struct {
        struct audit_filter filter;
        size_t answers;
    } rows[] = {
        {{.limit = 0}, 5},
        {{.plugin = KG_STR("git")}, 2},
        {{.plugin = KG_STR("github")}, 2},
        {{.plugin = KG_STR("a\"b")}, 1},
        {{.plugin = KG_STR("gi")}, 0},
        {{.event = KG_STR("plugin.enabled")}, 2},
        {{.event = KG_STR("plugin.hook.*")}, 2},
        {{.event = KG_STR("plugin.*")}, 5},
        {{.event = KG_STR("plugin.hook")}, 0},
        {{.plugin = KG_STR("git"), .event = KG_STR("plugin.stopped")}, 1},
        {{.limit = 2}, 2},
    };
    write_mixed(fixture);
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_int_equal(count_answers(fixture, rows[i].filter), rows[i].answers);
}

static void a_query_gives_what_happened_since_a_time(void **data)
{
    struct fixture *fixture = *data;
    fixture->options.rotate_bytes = 300;
    for (int i = 0; i < 10; i++) {
        kg_time_set(1700000000000 + i * 1000, -1);
        run_with_events(fixture, i, 1);
    }
    struct audit_filter filter = {.since_ms = 1700000006000};
    kg_auto(kg_buf_free) struct kg_buf lines = ask(fixture, filter);
    assert_numbers(lines.data, 6, 4);
}

static void a_query_goes_on_after_an_id_over_files(void **data)
{
    struct fixture *fixture = *data;
    fixture->options.rotate_bytes = 1000;
    run_with_events(fixture, 0, 50);
    assert_true(count_files(fixture) > 3);
    kg_auto(kg_buf_free) struct kg_buf all = ask(fixture, (struct audit_filter){0});
    char id[31] = "";
    for (int next = 0; next < 50;) {
        int count = 50 - next < 7 ? 50 - next : 7;
        kg_auto(kg_buf_free) struct kg_buf lines = {0};
        if (next == 0) {
            kg_buf_append(&lines, all.data, line_start(&all, 8));
            kg_buf_terminate(&lines);
        } else {
            lines = ask(fixture, (struct audit_filter){.after_id = kg_str(id), .limit = 7});
        }
        assert_numbers(lines.data, next, count);
        const char *last = strstr(lines.data + line_start(&lines, count), "evt_");
        memcpy(id, last, 30);
        next += count;
    }
    assert_int_equal(count_answers(fixture, (struct audit_filter){.after_id = kg_str(id)}), 0);
}

static void a_query_gives_the_last_ones_over_files(void **data)
{
    struct fixture *fixture = *data;
    fixture->options.rotate_bytes = 1000;
    run_with_events(fixture, 0, 50);
    kg_auto(kg_buf_free) struct kg_buf lines = ask(fixture, (struct audit_filter){.limit = 23});
    assert_numbers(lines.data, 27, 23);
}

static void an_answer_is_bounded_in_lines_and_bytes(void **data)
{
    struct fixture *fixture = *data;
    fixture->options.queue_bytes = 64 << 20;
    fixture->options.rotate_bytes = 3 << 20;
    open_log(fixture);
    for (int i = 0; i < 10500; i++)
        emit_number(fixture, i);
    flush(fixture);
    assert_int_equal(count_answers(fixture, (struct audit_filter){.limit = 1000000}), 10000);
    kg_auto(kg_free) char *long_text = kg_alloc(200001);
    memset(long_text, 'x', 200000);
    for (int i = 0; i < 60; i++)
        emit_enabled(fixture, long_text);
    close_log(fixture);
    kg_auto(kg_buf_free) struct kg_buf lines = ask(fixture, (struct audit_filter){0});
    assert_in_range(lines.length, 7 << 20, 8 << 20);
    assert_clean(fixture);
}

static void lines_that_are_no_events_do_not_reach_an_answer(void **data)
{
    struct fixture *fixture = *data;
    run_with_events(fixture, 0, 3);
    static const char *const odd[] = {"not json at all\n", "{}\n", "\n", "{\"ts\":\"\n"};
    for (size_t i = 0; i < KG_COUNT(odd); i++)
        write_log_file(fixture, 1, kg_str(odd[i]), O_APPEND);
    kg_auto(kg_buf_free) struct kg_buf text = read_log_file(fixture, 1);
    text.data[80] = '\\'; /* and an event that is no JSON any more */
    write_log_file(fixture, 1, kg_buf_view(&text), O_TRUNC);
    assert_int_equal(count_answers(fixture, (struct audit_filter){0}), 2);
    assert_int_equal(count_answers(fixture, (struct audit_filter){.plugin = KG_STR("git")}), 2);
}

static void a_missing_folder_is_named_in_the_error(void **data)
{
    struct fixture *fixture = *data;
    struct kg_buf lines = {0};
    assert_true(
        audit_query("/nonexistent/audit", &(struct audit_filter){0}, &lines, &fixture->err) < 0);
    assert_non_null(strstr(fixture->err.message, "/nonexistent/audit"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_event_has_a_name_of_its_own_and_few_enough_fields),
        TEST(an_event_is_a_line_with_the_fields_of_its_row),
        TEST(numbers_of_any_length_come_out_as_they_are),
        TEST(an_event_without_request_has_no_request_id),
        TEST(every_event_of_the_table_comes_out_as_json),
        TEST(hostile_bytes_stay_within_their_string),
        TEST(events_come_out_in_the_order_they_went_in),
        TEST(ids_grow_even_when_the_clock_is_set_back),
        TEST(a_listener_hears_each_event_until_it_leaves),
        TEST(a_flush_tells_when_all_events_are_in_the_file),
        TEST(a_flush_is_answered_before_close_returns),
        TEST(the_files_are_private),
        TEST(a_block_is_sealed_after_its_interval),
        TEST(a_running_log_verifies_with_its_unsealed_lines),
        TEST(an_empty_home_verifies),
        TEST(a_large_burst_is_sealed_in_several_blocks),
        TEST(a_log_rotates_and_keeps_the_newest_files),
        TEST(rotation_can_be_changed_while_it_runs),
        TEST(a_lower_keep_deletes_at_the_next_start),
        TEST(files_that_should_be_deleted_do_no_harm),
        TEST(a_full_queue_makes_callers_wait_until_it_is_written),
        TEST(a_waiter_that_leaves_is_not_called),
        TEST(a_waiter_may_end_the_wait_of_another),
        TEST(a_full_disk_loses_nothing_and_goes_on_when_there_is_room),
        TEST(closing_on_a_full_disk_ends_and_leaves_a_log_that_verifies),
        TEST(a_killed_writer_leaves_a_log_that_verifies_before_and_after_the_next_start),
        TEST(a_log_verifies_while_it_is_written),
        TEST(half_a_line_is_cut_off_and_the_rest_is_sealed),
        TEST(a_head_that_is_behind_by_blocks_is_caught_up),
        TEST(a_changed_line_is_found),
        TEST(a_removed_line_is_found),
        TEST(a_removed_block_is_found),
        TEST(a_removed_first_block_is_found),
        TEST(a_removed_seal_is_found),
        TEST(a_changed_seal_is_found),
        TEST(a_removed_file_in_the_middle_is_found),
        TEST(a_removed_first_file_is_found),
        TEST(removed_last_files_are_found),
        TEST(all_files_removed_is_found),
        TEST(blocks_cut_off_the_end_are_found),
        TEST(a_sealed_block_cut_in_half_is_found),
        TEST(a_log_written_anew_by_another_daemon_is_found),
        TEST(a_replaced_key_is_found),
        TEST(an_edited_head_is_found),
        TEST(a_lost_database_is_found),
        TEST(a_start_on_a_cut_log_marks_it_once_and_for_all),
        TEST(a_start_without_the_database_does_not_begin_a_clean_log),
        TEST(a_start_with_another_key_does_not_sign_as_if_nothing_was),
        TEST(a_mark_cannot_be_taken_out),
        TEST(a_query_filters_by_plugin_and_event),
        TEST(a_query_gives_what_happened_since_a_time),
        TEST(a_query_goes_on_after_an_id_over_files),
        TEST(a_query_gives_the_last_ones_over_files),
        TEST(an_answer_is_bounded_in_lines_and_bytes),
        TEST(lines_that_are_no_events_do_not_reach_an_answer),
        TEST(a_missing_folder_is_named_in_the_error),
    };
    return cmocka_run_group_tests_name("audit", tests, NULL, NULL);
}
