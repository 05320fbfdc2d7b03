/*
 * A trace as a person reads it: a line a record, the time first, an arrow for who speaks to whom,
 * and behind an answer what was asked and how long it took. What plugins wrote is escaped.
 */
#include "cli/trace_print.h"
#include "trace/trace.h"
#include "wire/wire.h"

#include <stdlib.h>

#define ASKED_MAX    4096 /* requests of one side whose answers are waited for; a power of two */
#define SCREEN_BYTES 2000 /* of one message on a terminal */
#define HEAD_COLUMNS 17   /* the time and the arrow */

struct asked {
    int64_t id; /* 0: none */
    int64_t t_us;
    char method[RPC_METHOD_MAX + 1];
};

struct trace_printer {
    bool colors;
    size_t text_max;
    size_t columns;         /* of the text of a record; SIZE_MAX: any */
    struct asked *asked[2]; /* owned: by the host, and by the plugin */
};

static const struct {
    const char *mark, *color;
} looks[TRACE_KIND_COUNT] = {
    [TRACE_TO] = {"-->", "36"},    [TRACE_FROM] = {"<--", "32"},   [TRACE_STDERR] = {"err", "33"},
    [TRACE_STATE] = {"===", "35"}, [TRACE_MISSED] = {"...", "31"},
};

struct trace_printer *trace_printer_new(void)
{
    struct trace_printer *printer = kg_alloc(sizeof(*printer));
    printer->colors = print_colors();
    printer->text_max = print_is_screen() ? SCREEN_BYTES : SIZE_MAX;
    printer->columns = SIZE_MAX;
    for (size_t i = 0; i < KG_COUNT(printer->asked); i++)
        printer->asked[i] = kg_alloc_array(ASKED_MAX, sizeof(struct asked));
    return printer;
}

void trace_printer_free(struct trace_printer *printer)
{
    if (printer == NULL)
        return;
    for (size_t i = 0; i < KG_COUNT(printer->asked); i++)
        free(printer->asked[i]);
    free(printer);
}

void trace_printer_fit(struct trace_printer *printer, bool cut)
{
    size_t columns = print_columns();
    printer->text_max = cut && columns != SIZE_MAX ? SCREEN_BYTES : SIZE_MAX;
    printer->columns = cut && columns != SIZE_MAX
                           ? columns - (columns > HEAD_COLUMNS ? HEAD_COLUMNS : columns)
                           : SIZE_MAX;
}

static void trace_print_put_text(const struct trace_printer *printer, struct kg_buf *out,
                                 struct kg_str text)
{
    size_t most = printer->text_max;
    if (text.length <= most) {
        kg_buf_escaped(out, text);
        return;
    }
    kg_buf_escaped(out, (struct kg_str){text.data, most});
    kg_buf_printf(out, "... (%zu bytes)", text.length);
}

/* -- messages ---------------------------------------------------------------------------------- */

static struct asked *trace_print_slot(struct trace_printer *printer, enum trace_kind asker,
                                      int64_t id)
{
    return &printer->asked[asker][(uint64_t)id & (ASKED_MAX - 1)];
}

/* Where there is little room, what kaged puts before a caller's own parameters is left out. */
static void trace_print_put_params(const struct trace_printer *printer, struct kg_buf *out,
                                   struct kg_str params)
{
    struct kg_str context;
    if (printer->columns == SIZE_MAX || !kg_str_starts(params, "{\"_context\":") ||
        !kg_json_member(params, "_context", &context)) {
        trace_print_put_text(printer, out, params);
        return;
    }
    const char *rest = context.data + context.length, *end = params.data + params.length;
    rest += rest < end && *rest == ',';
    kg_buf_char(out, '{');
    trace_print_put_text(printer, out, (struct kg_str){rest, (size_t)(end - rest)});
}

static void trace_print_put_request(struct trace_printer *printer, struct kg_buf *out,
                                    enum trace_kind way, int64_t t_us,
                                    const struct rpc_message *message)
{
    kg_buf_escaped(out, kg_str(message->method));
    if (message->kind == RPC_REQUEST) {
        struct asked *asked = trace_print_slot(printer, way, message->id);
        *asked = (struct asked){.id = message->id, .t_us = t_us};
        memcpy(asked->method, message->method, sizeof(asked->method));
        kg_buf_printf(out, " #%lld", (long long)message->id);
    }
    kg_buf_char(out, ' ');
    trace_print_put_params(printer, out, message->params);
}

static void trace_print_put_answer(struct trace_printer *printer, struct kg_buf *out,
                                   enum trace_kind way, int64_t t_us,
                                   const struct rpc_message *message)
{
    struct asked *asked =
        trace_print_slot(printer, way == TRACE_TO ? TRACE_FROM : TRACE_TO, message->id);
    if (asked->id == message->id && message->id != 0) {
        kg_buf_escaped(out, kg_str(asked->method));
        kg_buf_printf(out, " #%lld ", (long long)message->id);
        print_latency(out, t_us - asked->t_us);
        asked->id = 0;
    } else {
        kg_buf_printf(out, "#%lld", (long long)message->id);
    }
    kg_buf_text(out, message->kind == RPC_ERROR ? " error " : " ");
    trace_print_put_text(printer, out,
                         message->kind == RPC_ERROR ? message->error : message->result);
}

static void trace_print_put_message(struct trace_printer *printer, struct kg_buf *out,
                                    enum trace_kind way, int64_t t_us, struct kg_str line)
{
    struct rpc_message message;
    rpc_parse(line, &message);
    if (message.kind == RPC_REQUEST || message.kind == RPC_NOTIFICATION)
        trace_print_put_request(printer, out, way, t_us, &message);
    else if (message.kind == RPC_RESULT || message.kind == RPC_ERROR)
        trace_print_put_answer(printer, out, way, t_us, &message);
    else
        trace_print_put_text(printer, out, line);
}

/* -- records ----------------------------------------------------------------------------------- */

static void trace_print_put_header(struct kg_buf *out, const struct kg_node *header)
{
    kg_buf_text(out, "trace of ");
    kg_buf_escaped(out, cli_text(header, "process"));
    kg_buf_char(out, ' ');
    kg_buf_escaped(out, cli_text(header, "version"));
    kg_buf_text(out, " since ");
    kg_buf_escaped(out, cli_text(header, "at"));
    kg_buf_char(out, '\n');
}

static void trace_print_put_body(struct trace_printer *printer, struct kg_buf *out,
                                 enum trace_kind kind, const struct kg_node *record)
{
    struct kg_str line = cli_text(record, "line");
    switch (kind) {
    case TRACE_TO:
    case TRACE_FROM:
        trace_print_put_message(printer, out, kind, kg_node_number(record, "t_us"), line);
        break;
    case TRACE_STDERR:
        trace_print_put_text(printer, out, line);
        break;
    case TRACE_STATE:
        kg_buf_escaped(out, cli_text(record, "from"));
        kg_buf_text(out, " -> ");
        kg_buf_escaped(out, cli_text(record, "to"));
        kg_buf_text(out, ": ");
        kg_buf_escaped(out, cli_text(record, "reason"));
        break;
    default:
        kg_buf_printf(out, "%lld records are left out here",
                      (long long)kg_node_number(record, "count"));
    }
    if (kg_node_number(record, "cut_from") > 0)
        kg_buf_printf(out, " (cut from %lld bytes)", (long long)kg_node_number(record, "cut_from"));
}

static enum trace_kind trace_print_kind_of(const struct kg_node *record)
{
    enum trace_kind kind = 0;
    while (kind < TRACE_KIND_COUNT && !kg_str_is(cli_text(record, "dir"), trace_kind_names[kind]))
        kind++;
    return kind;
}

void trace_print_time(const struct kg_node *record, struct kg_buf *out)
{
    int64_t t_us = kg_node_number(record, "t_us");
    kg_buf_printf(out, "%5lld.%06lld ", (long long)t_us / 1000000, (long long)t_us % 1000000);
}

void trace_printer_put(struct trace_printer *printer, const struct kg_node *record,
                       struct kg_buf *out)
{
    enum trace_kind kind = trace_print_kind_of(record);
    if (kg_node_get(record, "kaged_trace") != NULL)
        trace_print_put_header(out, record);
    if (kind == TRACE_KIND_COUNT)
        return;
    const char *color = printer->colors ? looks[kind].color : NULL;
    trace_print_time(record, out);
    if (color != NULL)
        kg_buf_printf(out, "\033[%sm%s\033[0m ", color, looks[kind].mark);
    else
        kg_buf_printf(out, "%s ", looks[kind].mark);
    bool dim = printer->colors && kind == TRACE_STDERR; /* it stands between the messages */
    kg_buf_text(out, dim ? "\033[2m" : "");
    size_t from = out->length;
    if (cli_text(record, "process").length > 0) {
        kg_buf_escaped(out, cli_text(record, "process"));
        kg_buf_char(out, ' ');
    }
    trace_print_put_body(printer, out, kind, record);
    print_cut(out, from, printer->columns);
    kg_buf_text(out, dim ? "\033[0m\n" : "\n");
}
