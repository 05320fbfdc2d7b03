/* What the files of trace/ share. */
#ifndef KAGED_TRACE_INTERNAL_H
#define KAGED_TRACE_INTERNAL_H

#include "trace/trace.h"

/* -- secrets.c: texts that must not be shown, wherever they stand ------------------------------ */

struct trace_secrets;
struct trace_secrets *trace_secrets_new(void);
void trace_secrets_free(struct trace_secrets *secrets);
/*
 * Those that are kept are of the configuration; of the others, which were seen in a field that is
 * sensitive, only the latest are remembered.
 */
void trace_secrets_add(struct trace_secrets *secrets, struct kg_str text, bool is_kept);
/* Appends the line with all of them hidden; true if one was in it. */
bool trace_secrets_hide(struct trace_secrets *secrets, struct kg_str line, struct kg_buf *ret_line);

#endif
