/* What the commands about sessions share: the way to one, and how a compaction reads. */
#ifndef KAGED_CLI_SESSION_H
#define KAGED_CLI_SESSION_H

#include "cli/cli.h"

/* "/api/v1/sessions/ID" of the first argument, and what follows. */
void session_put_target(struct kg_buf *target, const struct cli *cli, const char *rest);
/* The project of --project, or the one around the current folder; prints why there is none. */
int session_find_project(const struct cli *cli, char **ret_project);
/* "drop: 12 left out, 3 kept, 1 added; 9.1k to 2.2k tokens" of what a compaction tells. */
void session_put_compaction(struct kg_buf *out, const struct kg_node *told);

/*
 * An entry by the number that show prints, or by its id: that begins with a zero, which no number
 * does. Owned; NULL with the exit code if there is none of that number.
 */
char *session_entry_id(const struct cli *cli, const char *named, int *ret_code);

/* A question of a plugin while a turn runs: asked here, and answered. */
/* Answers that were given beforehand, --answer and --yes, are taken in their order. */
struct session_answers {
    char **texts; /* owned; NULL until it is looked for */
    size_t used;
};
void session_answers_free(struct session_answers *answers);
void session_ask(const struct cli *cli, const struct kg_node *question,
                 struct session_answers *answers);

/* -- a model to talk with, see chat_model.c ---------------------------------------------------- */

/* Where the agent has none: offers what is at hand on the terminal, and writes it after a yes. */
int chat_offer_model(const struct cli *cli, const char *project, const char *agent);

/* -- commands of scripts, see session_command.c ------------------------------------------------ */

/* Whether a line is "/name args" of a command that the session has. */
bool session_is_command(const struct cli *cli, struct kg_str line, struct kg_str *ret_name,
                        struct kg_str *ret_args);
int session_run_command(const struct cli *cli, struct kg_str name, struct kg_str args);

#endif
