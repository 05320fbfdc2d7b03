/*
 * kaged chat: finds or begins a session, and becomes kaged-chat, which edits lines and runs this
 * program for everything else.
 */
#include "cli/rows.h"
#include "cli/session.h"

#include "cage/cage.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PROGRAM "kaged-chat"

/* The session that is gone on with, or a new one; owned texts. */
static int find_session(const struct cli *cli, char **ret_project, char **ret_session,
                        char **ret_seat)
{
    static const struct cli_page resume = {"GET", "/api/v1/sessions/{0}"};
    static const struct cli_page begin = {"POST", "/api/v1/projects/{0}/sessions", .body = "{}"};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const char *resumed = cli_has(cli, "last") ? "@last" : cli_option_value(cli, "resume");
    int code = resumed ? CLI_DONE : session_find_project(cli, ret_project);
    if (code != CLI_DONE)
        return code;
    const struct page_given given = {.name = resumed ? resumed : *ret_project};
    code = page_ask(cli, resumed ? &resume : &begin, &given, &body, &doc);
    if (code != CLI_DONE)
        return code;
    free(*ret_project);
    *ret_project = kg_str_dup(cli_text(doc->root, "project_id"));
    *ret_session = kg_str_dup(cli_text(doc->root, "id"));
    *ret_seat = kg_str_dup(cli_text(doc->root, "seat"));
    return CLI_DONE;
}

/* Of a home its own; else the user's, since what he said is his, whoever runs the daemon. */
static char *history_file(const struct cli *cli)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (cli->paths.home != NULL)
        return kg_format("%s/chat-history", cli->paths.home);
    if (state != NULL && state[0] == '/')
        return kg_format("%s/kaged-chat-history", state);
    return kg_format("%s/.kaged-chat-history", home ? home : "/nonexistent");
}

static int become_chat(const struct cli *cli, const char *project, const char *session)
{
    struct kg_err err;
    kg_auto(kg_free) char *program = cage_helper_path(PROGRAM);
    kg_auto(kg_free) char *self = realpath("/proc/self/exe", NULL);
    kg_auto(kg_free) char *history = history_file(cli);
    if (program == NULL || self == NULL) {
        kg_fail(&err, KG_E_NOT_FOUND, "chat: the program " PROGRAM " is not there");
        kg_hint(&err, "reinstall kaged; or use: kaged session send %s TEXT", session);
        return print_error(&err);
    }
    const char *argv[] = {program, self, history, project, session, NULL, NULL, NULL};
    size_t count = 5;
    if (cli->paths.home != NULL) {
        argv[count++] = "--home";
        argv[count++] = cli->paths.home;
    } else if (cli->system) {
        argv[count++] = "--system";
    }
    execv(program, (char *const *)argv);
    kg_fail_errno(&err, errno, "chat: start %s", program);
    return print_error(&err);
}

int cli_chat(struct cli *cli)
{
    struct kg_err err;
    kg_auto(kg_free) char *project = NULL, *session = NULL, *seat = NULL;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        kg_fail(&err, KG_E_USAGE, "chat: there is no terminal");
        kg_hint(&err, "in scripts use: kaged session send SESSION TEXT");
        return print_error(&err);
    }
    int code = find_session(cli, &project, &session, &seat);
    if (code == CLI_DONE)
        code = chat_offer_model(cli, project, seat);
    if (code != CLI_DONE)
        return code;
    printf("%s in project %s\n/help lists the commands, Ctrl-D leaves\n", session, project);
    fflush(stdout);
    return become_chat(cli, project, session);
}
