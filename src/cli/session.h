/* What the commands about sessions share: the way to one, and how a compaction reads. */
#ifndef KAGED_CLI_SESSION_H
#define KAGED_CLI_SESSION_H

#include "cli/cli.h"

/* "/api/v1/sessions/ID" of the first argument, and what follows. */
void session_put_target(struct kg_buf *target, const struct cli *cli, const char *rest);
/* Asks about it, and prints the answer; an empty body is none. */
int session_show(const struct cli *cli, const char *method, const char *rest, struct kg_str body,
                 cli_put *put);
/* "drop: 12 left out, 3 kept, 1 added; 9.1k to 2.2k tokens" of what a compaction tells. */
void session_put_compaction(struct kg_buf *out, const struct kg_node *told);

#endif
