/*
 * The command line: one table of commands, each row run by one function. All but a few are clients
 * of the daemon's HTTP API over its unix socket. Results go to stdout, errors to stderr.
 */
#ifndef KAGED_CLI_H
#define KAGED_CLI_H

#include "base/json/json.h"
#include "config/config.h"

#include <stdio.h>

/* -- the table --------------------------------------------------------------------------------- */

#define CLI_ARGUMENTS_MAX    256 /* on one command line */
#define CLI_PLACEHOLDERS_MAX 4   /* of a row; the last may stand for many */
#define CLI_OPTIONS_MAX      10
#define CLI_WORDS_MAX        64 /* the words of a command, with their spaces */

enum cli_exit { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 }; /* the others come from errors.def */

struct cli;
struct cli_page;

struct cli_option {
    const char *name;     /* without its dashes */
    char letter;          /* 0: none */
    const char *argument; /* NULL: takes none */
    const char *meaning;
};

enum cli_needs {
    CLI_DAEMON,  /* cli->paths, and a daemon behind its socket: what nearly all need */
    CLI_PATHS,   /* cli->paths, but no daemon */
    CLI_NOTHING, /* neither */
};

/* One row is the whole truth about one command: help, completion and manual page come from it. */
struct cli_command {
    const char *words;                               /* "plugin call" */
    const char *arguments[CLI_PLACEHOLDERS_MAX + 1]; /* "NAME", "[JSON]", "[COMMAND...]", "a|b" */
    struct cli_option options[CLI_OPTIONS_MAX + 1];  /* ended by a NULL name */
    const char *summary;                             /* one line */
    const char *help; /* paragraphs, one a line; " " starts an example */
    enum cli_needs needs;
    int (*run)(struct cli *cli); /* the exit code */
    const struct cli_page *page; /* or what is asked and printed, see rows.h */
};
extern const struct cli_command cli_commands[];
extern const size_t cli_command_count;
extern const struct cli_option
    cli_globals[]; /* before or after the command; NULL name at the end */

/* The row of exactly these words, or NULL. */
const struct cli_command *cli_command_find(const char *words);
/* Whether a row starts with these words: all rows do with "". */
bool cli_command_begins(const struct cli_command *command, const char *words);

/* -- what was asked ---------------------------------------------------------------------------- */

struct cli {
    const char *home; /* as given with --home, or NULL */
    bool system;      /* the folders of the system, whoever asks */
    bool json;
    bool help;
    bool version;
    char words[CLI_WORDS_MAX];         /* of the command, as far as they were given */
    const struct cli_command *command; /* NULL: the words are no command yet */
    const char *arguments[CLI_ARGUMENTS_MAX];
    size_t argument_count;
    const char
        *values[CLI_OPTIONS_MAX]; /* of the row's options; "" for a flag, NULL if not given */
    struct {
        const struct cli_option *option;
        const char *value;
    } given[CLI_ARGUMENTS_MAX]; /* the same, as often as they were given */
    size_t given_count;
    struct config_paths paths;
};

/* Reorders argv; everything in ret_cli is borrowed from it. */
int cli_parse(int argc, char **argv, struct cli *ret_cli, struct kg_err *err);
/* NULL if it was not given. */
const char *cli_argument(const struct cli *cli, size_t index);
const char *cli_option_value(const struct cli *cli, const char *name);
bool cli_has(const struct cli *cli, const char *name);
/* All that it was given with; NULL-ended and owned. */
char **cli_option_list(const struct cli *cli, const char *name);
/* The option as a number from min to max; *ret_value is untouched if it was not given. */
int cli_option_number(const struct cli *cli, const char *name, int64_t min, int64_t max,
                      int64_t *ret_value, struct kg_err *err);

/* -- help -------------------------------------------------------------------------------------- */

/* Help on a command, on a family ("plugin"), or with "" on all. */
void help_topic(struct kg_buf *out, const char *words);
/* Appends the table as JSON, for tools that write documentation. */
void help_json(struct kg_buf *out);
/* Appends what the last of the words can be, one a line with its meaning behind a tab. */
void complete_words(struct kg_buf *out, char *const *words);

/* -- printing ---------------------------------------------------------------------------------- */

/* Cuts what follows `from` to so many columns, "..." included. */
void print_cut(struct kg_buf *out, size_t from, size_t columns);
/* "850", "12.3k", "4.5M": four or five characters. */
void print_short(struct kg_buf *out, int64_t number);
/* "512K", "12.3M", "1.5G" */
void print_bytes(struct kg_buf *out, int64_t bytes);
/* "85us", "1.2ms", "12s" */
void print_latency(struct kg_buf *out, int64_t us);
/* "4 s", "3 min", "2 h 5 min", "3 d 4 h" */
void print_duration(struct kg_buf *out, int64_t ms);
/* "4s", "3m", "2h", "3d" */
void print_age(struct kg_buf *out, int64_t ms);
/* "2026-11-15T22:19:34.123Z (3 min ago)" */
void print_when(struct kg_buf *out, int64_t wall_ms);

/* Words with members of an object among them, escaped: "{name} is {state}"; see rows.h. */
void print_words(struct kg_buf *out, const struct kg_node *object, const char *words);
/* A value: a string as it is, all else as JSON; escaped, nothing of NULL. */
void print_value(struct kg_buf *out, const struct kg_node *value);
/* One line, its label padded to so many columns; none without a text. */
void print_fact(struct kg_buf *out, int columns, const char *label, struct kg_str text);

/* Writes to stdout; the caller still owns the text. */
void print_out(const struct kg_buf *text);
void print_line(struct kg_str line);
void print_text(struct kg_str text); /* a line too, of what somebody else wrote */
/* What a model, a plugin or a person wrote: line ends and tabs stay, other controls are escaped. */
void print_put_text(struct kg_buf *out, struct kg_str text, const char *indent);
/* Texts of a list, each a line. */
void print_put_lines(struct kg_buf *out, const char *indent, const struct kg_node *lines);
/*
 * The daemon's JSON on one line: as it came, but for characters that kg_buf_json_escaped escapes.
 */
void print_json(struct kg_str json);
/* Whether stdout is a terminal that shows colours, and nobody asked for none. */
bool print_colors(void);

/* -- markdown, see markdown.c ------------------------------------------------------------------ */

/* Where in a text a terminal is. Zeroed at its start. */
struct markdown {
    bool within;                       /* a line; else where a mark can be */
    bool heading, strong, code, fence; /* what is shown now */
    bool skips;                        /* the rest of a line that begins or ends a fence */
    bool star;                         /* one of two was there */
    char mark;                         /* of which so many are held */
    size_t held;
};
/* The next of it, which has no control characters but newlines, as a terminal with colours shows
 * it. */
void markdown_put(struct markdown *markdown, struct kg_str text, struct kg_buf *out);
/* What was held back, and the terminal as it was. */
void markdown_end(struct markdown *markdown, struct kg_buf *out);
/* Whether stdout is a terminal on which a line can be written again. */
bool print_is_screen(void);
/* The width of the terminal on stdout; SIZE_MAX if there is none. */
size_t print_columns(void);

/* How this program is called in hints from now on: as cli_self says it; borrowed. */
void print_speak_as(const char *how);
const char *print_self(void);
/* Advice, whoever gave it: its "kaged COMMAND" is one that works in this home. */
void print_put_hint(struct kg_buf *out, struct kg_str hint);
/* "kaged: MESSAGE" and, if there is one, "hint: HINT", each a line. */
void print_put_problem(struct kg_buf *out, struct kg_str message, struct kg_str hint);
/* The same on stderr; returns the exit code. */
int print_problem(int exit_code, struct kg_str message, struct kg_str hint);
/* The same for an error; the exit code is that of its row. */
static inline int print_error(const struct kg_err *err)
{
    return print_problem(kg_error_row(err->code)->exit_code, kg_str(err->message),
                         kg_str(err->hint));
}

/*
 * What is wrong with a file: each problem with its place; then what is valid all the same, or how
 * many errors there are.
 */
struct kg_problems;
void print_checked(struct kg_buf *out, const char *path, const struct kg_problems *problems,
                   const char *valid_or_null);

struct table;
struct table *table_new(const char *const *headings); /* NULL-ended */
/* The next cell, line by line; empty text shows as "-". */
void table_cell(struct table *table, struct kg_str text, const char *color_or_null);
/* The next cells are those members of an object; NULL-ended. */
void table_texts(struct table *table, const struct kg_node *object, const char *const *keys);
void table_print(struct table *table); /* and frees it */

/* -- asking ------------------------------------------------------------------------------------ */

/* Where a person can be asked, to be closed; -1: nowhere. */
int terminal_open(void);
/* Adds " [y/N] "; true for y, Y and yes. Ctrl-C, an empty answer and anything else are a no. */
bool terminal_ask(int fd, const char *question);
/* One line, which is not shown while it is typed; at most max bytes and one more. -EINTR: Ctrl-C.
 */
/* A line, without its end, behind words that are shown as they are; false: he ended it. */
bool terminal_read(int fd, struct kg_str prompt, struct kg_buf *ret_line);
int terminal_ask_secret(int fd, const char *question, struct kg_buf *ret_text, size_t max);
/* From now on Ctrl-C and a wish to end the program are only remembered. */
void terminal_catch_interrupts(void);
bool terminal_was_interrupted(void);
struct pollfd;
/* Waits for one; -1 with EINTR also if an interrupt came before. */
int terminal_poll(struct pollfd *fd);

/* -- the daemon -------------------------------------------------------------------------------- */

#define CLIENT_WAIT_FOREVER (-1)
#define CLIENT_LONG_POLL_MS 20000 /* how long the daemon is asked to wait for news */
#define CLIENT_PAUSE_MS     20    /* between two such questions, if it should not wait at all */

struct client_request {
    const char *method;       /* "GET" */
    const char *target;       /* path and query, encoded */
    struct kg_str body;       /* sent with POST and PUT */
    int64_t timeout_ms;       /* the call's, told to the daemon; 0: none */
    int64_t silence_ms;       /* without a byte for this long the daemon is hung; 0: the usual */
    const char *file;         /* of which an error lists all that is wrong; NULL: of none */
    const char *headers;      /* more of them, each with its line end; NULL: none */
    const char *content_type; /* of the body; NULL: JSON */
};
struct client_reply {
    int status;
    struct kg_buf body;
};
/* Connects and sends; what comes on the fd is the answer. Negative: it failed. */
int client_send(const char *socket_path, const struct client_request *request, struct kg_err *err);
int client_exchange(const char *socket_path, const struct client_request *request,
                    struct client_reply *ret_reply, struct kg_err *err);
/* An answer of lines, told while they come; each is bounded, how many there are is not. */
struct client_stream {
    void (*on_line)(void *data, struct kg_str line); /* without its end */
    /* Once, after a Ctrl-C: how many milliseconds of silence to wait for the end from now on. */
    int64_t (*on_interrupt)(void *data);
    void *data;
    const bool
        *leave; /* NULL, or true once the rest is not wanted: that is an end like any other */
};
/* ret_reply has a body only if the status is not 200. NULL stream: as client_exchange. */
int client_stream(const char *socket_path, const struct client_request *request,
                  const struct client_stream *stream, struct client_reply *ret_reply,
                  struct kg_err *err);
/* "/api/v1/KIND/NAME" and what follows, which is encoded already. */
void client_put_target(struct kg_buf *target, const char *kind, const char *name, const char *rest);
/* Adds "?name=value" or "&name=value". */
void client_put_query(struct kg_buf *target, const char *name, struct kg_str value);
void client_put_number(struct kg_buf *target, const char *name, int64_t value);

/* An option as a query of the same name, if it was given. */
void cli_put_option(struct kg_buf *target, const struct cli *cli, const char *name);
/* Asks the daemon; prints what went wrong, if anything did. Returns the exit code, 0 on success. */
int cli_ask(const struct cli *cli, const struct client_request *request, struct kg_buf *ret_body);
/* The same of an answer in lines. */
int cli_ask_lines(const struct cli *cli, const struct client_request *request,
                  const struct client_stream *stream, struct kg_buf *ret_body);
/* The same, and reads the answer. */
int cli_ask_object(const struct cli *cli, const struct client_request *request,
                   struct kg_buf *ret_body, struct kg_doc **ret_doc);
/* What of an answer is said in words. */
typedef void cli_put(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer);
/* Asks, and prints the answer: as it came with --json, else in words. */
int cli_show(const struct cli *cli, const struct client_request *request, cli_put *put);
/* "kaged", with --home if it was given, as a shell takes it: for advice on what to do next. */
char *cli_self(const struct cli *cli);
/* From now on Ctrl-C ends the program with exit code 0: that is how one leaves --follow. */
void cli_follow(void);
void cli_pause_ms(long ms); /* less than a second */

/* A value that is not shown while it is typed, or that is stdin; secret_wipe is for it. */
int cli_ask_value(const char *name, struct kg_buf *value, struct kg_err *err);

/* A member's text, or its number as text; empty if it is neither. */
struct kg_str cli_text(const struct kg_node *object, const char *key);
/* A member that is a time: RFC 3339 or milliseconds. False if it is neither. */
bool cli_time(const struct kg_node *object, const char *key, int64_t *ret_wall_ms);

/* -- daemon.user ------------------------------------------------------------------------------- */

struct cage_checks;
struct local;
/* local.toml with the secrets that it names; owned. */
struct local *cli_local_read(const struct cli *cli, struct kg_err *err);
/* Rows about the database that daemons share, where there is one. */
void cluster_add_checks(const struct cli *cli, const struct config *config,
                        struct cage_checks *checks);

/* The same about other nodes: whether this one can be reached, and when its certificate ends. */
void cluster_add_link_checks(const struct cli *cli, const struct config *config,
                             struct cage_checks *checks);
/* Fails while the daemon of this home runs. */
int cli_cluster_refuse_running(const struct cli *cli, struct kg_err *err);
/* The keys of a new cluster, unless this home has some. */
int cli_cluster_make_keys(const struct cli *cli, const char *node, struct kg_err *err);

struct cage_owner;
/* Whom the daemon runs as when it is started with this configuration by whoever runs this. */
int user_find(const struct config *config, struct cage_owner *ret_owner, struct kg_err *err);
/* Whether the daemon can start with it; errors name the file and the key's place in it. */
int settings_check(const struct config *config, const char *file, struct kg_err *err);
/* With auth.mode proxy: the secret. */
int settings_read_nonce(const struct config *config, struct kg_buf *ret_nonce, struct kg_err *err);
/* Each does nothing unless the daemon is to become somebody else. */
int user_give_folders(const struct config_paths *paths, const struct cage_owner *owner,
                      struct kg_err *err);
int user_become(const struct cage_owner *owner, struct kg_err *err);
/* As open(2), with that user's rights. */
int user_open(const struct cage_owner *owner, const char *path, int flags, mode_t mode);

/* -- a service manager ------------------------------------------------------------------------- */

struct loop;
struct systemd;
/* Takes what the manager put into the environment, which is gone afterwards. NULL on an error. */
struct systemd *systemd_meet(struct kg_err *err);
void systemd_free(struct systemd *systemd);
/* A listening socket of that domain (AF_UNIX) that the manager passed, now the caller's; or -1. */
int systemd_take_socket(struct systemd *systemd, int domain);
/* Closes what nobody took. */
void systemd_close_rest(struct systemd *systemd);
/* "READY=1", "STOPPING=1" or "", and what the daemon is doing, in words. */
void systemd_tell(const struct systemd *systemd, const char *state, const char *format, ...)
    KG_PRINTF(3, 4);
void systemd_tell_reloading(const struct systemd *systemd); /* to be followed by READY=1 */
/* Signs of life for as long as the loop turns, if the manager asked for them. */
void systemd_attach(struct systemd *systemd, struct loop *loop);
void systemd_detach(struct systemd *systemd);

/* -- the commands ------------------------------------------------------------------------------ */

extern const struct cli_page mcp_profile_list, mcp_profile_rm, mcp_status;
extern const struct cli_page system_plugin_list, system_plugin_status;
extern const struct cli_page plugin_grant, plugin_revoke, plugin_knobs;
extern const struct cli_page auth_token_list, auth_token_revoke;
extern const struct cli_page project_list, project_unload;
extern const struct cli_page daemon_status, daemon_reload;
extern const struct cli_page plugin_why, plugin_status;
extern const struct cli_page session_questions, session_commands, session_idle,
    session_undo_compact, session_resume, session_close, session_cancel;

int cli_start(struct cli *cli);
int cli_backup(struct cli *cli);
int cli_restore(struct cli *cli);
int cli_doctor(struct cli *cli);
int cli_plugin_validate(struct cli *cli);
int cli_plugin_new(struct cli *cli);
int cli_plugin_pack(struct cli *cli);
int cli_plugin_observe(struct cli *cli);
int cli_plugin_test(struct cli *cli);
int cli_project_validate(struct cli *cli);
int cli_project_init(struct cli *cli);
int cli_project_add(struct cli *cli);
int cli_project_load(struct cli *cli);
int cli_project_reload(struct cli *cli);
int cli_project_show(struct cli *cli);
int cli_config_check(struct cli *cli);
int cli_config_get(struct cli *cli);
int cli_config_set(struct cli *cli);
/* Sets a key of config.toml or local.toml, and says so; the code of the command. */
int cli_set_setting(const struct cli *cli, const char *name, const char *value);
int cli_config_path(struct cli *cli);
int cli_schema_check(struct cli *cli);
int cli_mcp_serve(struct cli *cli);
/* Whether --tools search was given; fails for another word. */
int cli_mcp_searches(const struct cli *cli, bool *ret_searches, struct kg_err *err);
int cli_mcp_connect(struct cli *cli);
int cli_mcp_disconnect(struct cli *cli);
int cli_mcp_log(struct cli *cli);
int cli_mcp_forget(struct cli *cli);
int cli_mcp_profile_set(struct cli *cli);
int cli_mcp_mark(struct cli *cli);
int cli_secret_set(struct cli *cli);
int cli_org_create(struct cli *cli);
int cli_org_list(struct cli *cli);
int cli_org_activate(struct cli *cli);
int cli_org_deactivate(struct cli *cli);
int cli_org_delete(struct cli *cli);
int cli_org_users(struct cli *cli);
int cli_org_members(struct cli *cli);
int cli_org_add_member(struct cli *cli);
int cli_org_remove_member(struct cli *cli);
int cli_org_models(struct cli *cli);
int cli_org_add_model(struct cli *cli);
int cli_org_change_model(struct cli *cli);
int cli_org_remove_model(struct cli *cli);
/* "/api/orgs/ORG" of the option --org; false: it is missing, which was said. */
bool cli_put_org(const struct cli *cli, struct kg_buf *target);
int cli_orchestrator_create(struct cli *cli);
int cli_orchestrator_list(struct cli *cli);
int cli_orchestrator_show(struct cli *cli);
int cli_orchestrator_config(struct cli *cli);
int cli_orchestrator_settings(struct cli *cli);
int cli_orchestrator_load(struct cli *cli);
int cli_orchestrator_reload(struct cli *cli);
int cli_orchestrator_unload(struct cli *cli);
int cli_orchestrator_delete(struct cli *cli);
int cli_orchestrator_chat(struct cli *cli);
int cli_catalog_upload(struct cli *cli);
int cli_catalog_list(struct cli *cli);
int cli_catalog_versions(struct cli *cli);
int cli_catalog_enable(struct cli *cli);
int cli_catalog_disable(struct cli *cli);
int cli_catalog_settings(struct cli *cli);
int cli_catalog_set(struct cli *cli);
int cli_catalog_unset(struct cli *cli);
int cli_catalog_grants(struct cli *cli);
int cli_catalog_grant(struct cli *cli);
int cli_catalog_revoke(struct cli *cli);
int cli_catalog_rotate(struct cli *cli);
int cli_secret_list(struct cli *cli);
int cli_secret_rm(struct cli *cli);
int cli_secret_rotate(struct cli *cli);
int cli_cluster_init(struct cli *cli);
int cli_cluster_leave(struct cli *cli);
int cli_cluster_status(struct cli *cli);
int cli_cluster_token(struct cli *cli);
int cli_cluster_join(struct cli *cli);
int cli_stop(struct cli *cli);
int cli_version(struct cli *cli);
int cli_help(struct cli *cli);
int cli_completion(struct cli *cli);
int cli_completion_words(struct cli *cli);
int cli_plugin_list(struct cli *cli);
int cli_plugin_storage(struct cli *cli);
int cli_plugin_logs(struct cli *cli);
int cli_plugin_enable(struct cli *cli);
int cli_plugin_disable(struct cli *cli);
int cli_plugin_restart(struct cli *cli);
int cli_plugin_reload(struct cli *cli);
int cli_plugin_tools(struct cli *cli);
int cli_mcp_import(struct cli *cli);
int cli_plugin_resources(struct cli *cli);
int cli_plugin_prompts(struct cli *cli);
int cli_plugin_knobs_get(struct cli *cli);
int cli_plugin_knobs_set(struct cli *cli);
int cli_plugin_call(struct cli *cli);
int cli_plugin_trace(struct cli *cli);
int cli_plugin_replay(struct cli *cli);
int cli_auth_open(struct cli *cli);
int cli_chat(struct cli *cli);
int cli_auth_token_create(struct cli *cli);
int cli_plugin_install(struct cli *cli);
int cli_plugin_dev(struct cli *cli);
int cli_plugin_approve(struct cli *cli);
int cli_plugin_uninstall(struct cli *cli);
int cli_plugin_promote(struct cli *cli);
int cli_consent_list(struct cli *cli);
int cli_consent_approve(struct cli *cli);
int cli_consent_decline(struct cli *cli);
int cli_session_new(struct cli *cli);
int cli_session_list(struct cli *cli);
int cli_session_show(struct cli *cli);
int cli_session_send(struct cli *cli);
int cli_session_command(struct cli *cli);
int cli_session_context(struct cli *cli);
int cli_session_tool(struct cli *cli);
int cli_session_compact(struct cli *cli);
int cli_session_pin(struct cli *cli);
int cli_session_fork(struct cli *cli);
int cli_session_undo(struct cli *cli);
int cli_session_redo(struct cli *cli);
int cli_session_rewind(struct cli *cli);
int cli_session_answer(struct cli *cli);
int cli_audit(struct cli *cli);
int cli_audit_verify(struct cli *cli);

/* Asks about the plugin of the first argument: "/api/v1/plugins/NAME" and the rest. */
int cli_ask_plugin(const struct cli *cli, const char *method, const char *rest,
                   struct kg_buf *ret_body, struct kg_doc **ret_doc);
/* Shows what a script is granted, and asks. False: no daemon knows a script of that name. */
bool cli_script_approve(const struct cli *cli, const char *name, int *ret_code);
/* Whether that is a script and no plugin; it is put among the others, or run while it changes. */
bool cli_is_script_file(const char *source);
int cli_script_install(const struct cli *cli, const char *source);
int cli_script_dev(const struct cli *cli, const char *source);
/* The same, and prints the answer as cli_show does. */
int cli_show_plugin(const struct cli *cli, const char *method, const char *rest, cli_put *put);
/* All of stdin, which messages call `what`. */
int cli_read_stdin(const char *what, size_t max_bytes, struct kg_buf *ret_text, struct kg_err *err);
/* A JSON object: the argument, stdin if it is "-", {} if there is none. */
int cli_take_params(const char *json_or_null, struct kg_buf *ret_params, struct kg_err *err);
/* Whether text is a JSON object, fit to be the parameters of a call. */
int plugin_params_check(struct kg_str text, struct kg_err *err);

#endif
