/* Records of a trace on the terminal, for every command that shows them. */
#ifndef KAGED_CLI_TRACE_PRINT_H
#define KAGED_CLI_TRACE_PRINT_H

#include "cli/cli.h"

struct trace_printer;
struct trace_printer *trace_printer_new(void);
void trace_printer_free(struct trace_printer *printer); /* takes NULL */
/* Whether records are cut to the width of the terminal, or shown whole. */
void trace_printer_fit(struct trace_printer *printer, bool cut);
/* Appends one record of a trace, its header too, in words; what is none is passed over. */
void trace_printer_put(struct trace_printer *printer, const struct kg_node *record,
                       struct kg_buf *out);
/* "    1.234567 ", the time that a record begins with. */
void trace_print_time(const struct kg_node *record, struct kg_buf *out);

#endif
