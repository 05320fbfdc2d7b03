/*
 * What kaged-unpack says on stdout: one JSON object a line, few enough and short enough for the
 * daemon, which believes none of it.
 */
#include "base/json/json.h"
#include "store/unpack/internal.h"

#define PAUSE_MS 100

static void store_unpack_report_put_line(struct report *report, struct kg_buf *line)
{
    kg_buf_char(line, '\n');
    /* Nobody listens any more: then nobody needs it. */
    (void)kg_write_all(report->fd, line->data, line->length);
}

static void store_unpack_report_tell(struct report *report, const char *type)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = kg_json_writer(&line);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "type", type);
    kg_json_named_text(&json, "phase", report->phase);
    kg_json_named_int(&json, "files", (int64_t)report->files);
    kg_json_named_int(&json, "bytes", (int64_t)report->bytes);
    kg_json_named_int(&json, "bytes_expected", (int64_t)report->bytes_expected);
    kg_json_end(&json, '}');
    store_unpack_report_put_line(report, &line);
    report->told_ms = kg_monotonic_ms();
}

void report_progress(struct report *report)
{
    if (kg_monotonic_ms() - report->told_ms >= PAUSE_MS)
        store_unpack_report_tell(report, "progress");
}

void report_phase(struct report *report, const char *phase, uint64_t bytes_expected)
{
    report->phase = phase;
    report->files = report->bytes = 0;
    report->bytes_expected = bytes_expected;
    store_unpack_report_tell(report, "progress");
}

void report_done(struct report *report)
{
    store_unpack_report_tell(report, "done");
}

void report_failure(struct report *report, const struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = kg_json_writer(&line);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "type", "failed");
    kg_json_named_text(&json, "code", kg_error_row(err->code)->name);
    kg_json_named_text(&json, "message", err->message);
    kg_json_named_text(&json, "hint", err->hint);
    kg_json_end(&json, '}');
    store_unpack_report_put_line(report, &line);
}
