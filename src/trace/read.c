/*
 * A trace file, line by line. It may come from anywhere: each line is bounded by the file, checked
 * for what it must have, and an error names it. What a later version adds is passed over.
 */
#include "trace/trace.h"

#include <errno.h>
#include <stdlib.h>

struct reading {
    struct trace *trace;
    size_t capacity;
    size_t number; /* of the line */
    struct kg_err *err;
};

static int trace_read_fail(const struct reading *reading, const char *problem)
{
    return kg_fail(reading->err, KG_E_PARSE, "line %zu: %s", reading->number, problem);
}

/* -- members ----------------------------------------------------------------------------------- */

static struct kg_str trace_read_keep(const struct reading *reading, struct kg_str text)
{
    return kg_arena_str(reading->trace->arena, text);
}

/* False: it is there, and no text. */
static bool trace_read_take_text(const struct reading *reading, const struct kg_node *object,
                                 const char *key, struct kg_str *ret_text)
{
    const struct kg_node *node = kg_node_get(object, key);
    if (node == NULL || node->type == KG_NULL)
        return true;
    if (node->type == KG_STRING)
        *ret_text = trace_read_keep(reading, node->text);
    return node->type == KG_STRING;
}

static void trace_read_take_object(const struct reading *reading, const struct kg_node *object,
                                   const char *key, struct kg_str *ret_json)
{
    const struct kg_node *node = kg_node_get(object, key);
    if (node == NULL || node->type != KG_OBJECT)
        return;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_json_put_node(&text, node);
    *ret_json = trace_read_keep(reading, kg_buf_view(&text));
}

/* -- lines ------------------------------------------------------------------------------------- */

static int trace_read_take_header(const struct reading *reading, const struct kg_node *header)
{
    struct trace *trace = reading->trace;
    int64_t version = 0;
    if (!kg_node_int(kg_node_get(header, "kaged_trace"), &version) || version < 1)
        return trace_read_fail(reading,
                               "it is not the header of a trace: it has no \"kaged_trace\"");
    if (version > TRACE_VERSION)
        return kg_fail(reading->err, KG_E_PARSE,
                       "line 1: it is a trace of version %lld, and this kaged reads version %d",
                       (long long)version, TRACE_VERSION);
    const struct {
        const char *key;
        struct kg_str *ret_text;
    } texts[] = {
        {"plugin", &trace->plugin},
        {"version", &trace->version},
        {"manifest_hash", &trace->manifest_hash},
        {"kaged", &trace->kaged},
        {"at", &trace->at},
        {"config_root", &trace->config_root},
        {"project_root", &trace->project_root},
    };
    for (size_t i = 0; i < KG_COUNT(texts); i++)
        if (!trace_read_take_text(reading, header, texts[i].key, texts[i].ret_text))
            return kg_fail(reading->err, KG_E_PARSE, "line 1: \"%s\" is not text", texts[i].key);
    if (!manifest_name_is_valid(trace->plugin))
        return trace_read_fail(reading, "\"plugin\" is not the name of a plugin");
    trace_read_take_object(reading, header, "initialize", &trace->greeting);
    trace_read_take_object(reading, header, "config", &trace->config);
    return 0;
}

static bool trace_read_take_kind(const struct kg_node *record, enum trace_kind *ret_kind)
{
    const struct kg_node *dir = kg_node_get(record, "dir");
    for (enum trace_kind kind = 0; kind < TRACE_KIND_COUNT; kind++) {
        if (dir == NULL || dir->type != KG_STRING || !kg_str_is(dir->text, trace_kind_names[kind]))
            continue;
        *ret_kind = kind;
        return true;
    }
    return false;
}

static int take_record(struct reading *reading, const struct kg_node *node)
{
    struct trace *trace = reading->trace;
    struct trace_record record = {.number = reading->number};
    int64_t cut_from = 0;
    if (!trace_read_take_kind(node, &record.kind))
        return trace_read_fail(reading, "\"dir\" is not one of to, from, stderr, state and missed");
    if (!kg_node_int(kg_node_get(node, "t_us"), &record.t_us))
        return trace_read_fail(reading, "\"t_us\" is not a whole number");
    bool has_line = record.kind == TRACE_TO || record.kind == TRACE_FROM;
    if (!trace_read_take_text(reading, node, "line", &record.line) ||
        (has_line && record.line.data == NULL))
        return trace_read_fail(reading, "\"line\" is not text");
    if (record.kind == TRACE_STATE && !trace_read_take_text(reading, node, "to", &record.state))
        return trace_read_fail(reading, "\"to\" is not text");
    if (memchr(record.line.data ? record.line.data : "", '\n', record.line.length) != NULL)
        return trace_read_fail(reading, "\"line\" contains a line end");
    record.redacted = kg_node_is_true(node, "redacted");
    record.cut = kg_node_int(kg_node_get(node, "cut_from"), &cut_from);
    record.count = kg_node_number(node, "count");
    if (trace->count == TRACE_RECORDS_MAX)
        return kg_fail(reading->err, KG_E_TOO_LARGE, "it has more than %zu records",
                       TRACE_RECORDS_MAX);
    if (trace->count == reading->capacity) {
        reading->capacity = reading->capacity ? 2 * reading->capacity : 64;
        trace->records = kg_realloc(trace->records, reading->capacity * sizeof(*trace->records));
    }
    trace->records[trace->count++] = record;
    return 0;
}

static int trace_read_take_line(struct reading *reading, struct kg_str line, bool is_whole)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(line, reading->err);
    if (doc == NULL) {
        kg_wrap(reading->err, 0, "line %zu", reading->number);
        if (!is_whole)
            kg_hint(reading->err, "the file ends within a line: without that line it can be read");
        else if (reading->number == 1)
            kg_hint(reading->err, "a trace is made by: kaged plugin trace NAME --recorded -o FILE");
        if (reading->err != NULL)
            reading->err->code = KG_E_PARSE;
        return -EINVAL;
    }
    if (doc->root->type != KG_OBJECT)
        return trace_read_fail(reading, "it is not a JSON object");
    return reading->number == 1 ? trace_read_take_header(reading, doc->root)
                                : take_record(reading, doc->root);
}

struct trace *trace_read(struct kg_str text, struct kg_err *err)
{
    struct trace *trace = kg_alloc(sizeof(*trace));
    struct reading reading = {.trace = trace, .err = err};
    const char *at = text.data, *end = text.data + text.length;
    int result = 0;
    trace->arena = kg_arena_new();
    while (at < end && result == 0) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct kg_str line = {at, (size_t)((newline ? newline : end) - at)};
        reading.number++;
        result = trace_read_take_line(&reading, line, newline != NULL);
        at += line.length + 1;
    }
    if (result == 0 && reading.number == 0)
        result = kg_fail(err, KG_E_PARSE, "it is empty");
    if (result == 0)
        return trace;
    trace_free(trace);
    return NULL;
}

void trace_free(struct trace *trace)
{
    if (trace == NULL)
        return;
    kg_arena_free(trace->arena);
    free(trace->records);
    free(trace);
}
