/* The lines of a trace as they are written: each is one JSON object, whatever the plugin wrote. */
#include "trace/trace.h"

const char *const trace_kind_names[TRACE_KIND_COUNT] = {
    [TRACE_TO] = "to",       [TRACE_FROM] = "from",     [TRACE_STDERR] = "stderr",
    [TRACE_STATE] = "state", [TRACE_MISSED] = "missed",
};

void trace_put_header(struct kg_buf *out, const struct trace_header *header)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "kaged_trace", TRACE_VERSION);
    kg_json_named_text(&json, "plugin", header->plugin);
    kg_json_named_text(&json, "process", header->process);
    kg_json_named_text(&json, "version", header->version);
    kg_json_named_text(&json, "manifest_hash", header->manifest_hash);
    kg_json_named_text(&json, "kaged", KAGED_VERSION);
    kg_json_named_time(&json, "at", header->at_ms);
    kg_json_named_text(&json, "config_root", header->config_root);
    kg_json_named_text(&json, "project_root", header->project_root);
    kg_json_key(&json, "initialize");
    kg_json_raw(&json, header->greeting.length ? header->greeting : KG_STR("null"));
    kg_json_key(&json, "config");
    kg_json_raw(&json, header->config.length ? header->config : KG_STR("null"));
    kg_json_end(&json, '}');
    kg_buf_char(out, '\n');
}

static void trace_record_put_kind(struct kg_buf *out, enum trace_kind kind)
{
    kg_buf_printf(out, "\"dir\":\"%s\"", trace_kind_names[kind]);
}

static void trace_record_put_pair(struct kg_buf *out, const char *key, struct kg_str text)
{
    kg_buf_text(out, key);
    kg_json_put_string(out, text);
}

void trace_put_line(struct kg_buf *out, enum trace_kind kind, struct kg_str line, bool redacted,
                    size_t line_max)
{
    struct kg_str shown = line;
    if (line.length > line_max) {
        shown.length = line_max;
        for (int i = 0; i < 3 && ((unsigned char)line.data[shown.length] & 0xc0) == 0x80; i++)
            shown.length--; /* not within a character */
    }
    trace_record_put_kind(out, kind);
    trace_record_put_pair(out, ",\"line\":", shown);
    if (shown.length < line.length)
        kg_buf_printf(out, ",\"cut_from\":%zu", line.length);
    if (redacted)
        kg_buf_str(out, KG_STR(",\"redacted\":true"));
}

void trace_put_state(struct kg_buf *out, const char *from, const char *to, const char *reason)
{
    trace_record_put_kind(out, TRACE_STATE);
    trace_record_put_pair(out, ",\"from\":", kg_str(from));
    trace_record_put_pair(out, ",\"to\":", kg_str(to));
    trace_record_put_pair(out, ",\"reason\":", kg_str(reason));
}

void trace_put_missed(struct kg_buf *out, uint64_t count)
{
    trace_record_put_kind(out, TRACE_MISSED);
    kg_buf_printf(out, ",\"count\":%llu", (unsigned long long)count);
}

void trace_put_record(struct kg_buf *out, int64_t t_us, struct kg_str body)
{
    kg_buf_str(out, KG_STR("{\"t_us\":"));
    kg_buf_int(out, t_us);
    kg_buf_char(out, ',');
    kg_buf_str(out, body);
    kg_buf_str(out, KG_STR("}\n"));
}
