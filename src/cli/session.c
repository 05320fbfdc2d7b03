/*
 * Sessions: new, list, tool, idle, compact, pin, fork, resume, cancel, close. A session is named by
 * its id or a prefix of it, which the daemon looks up; nothing is done to one that was guessed.
 */
#include "cli/session.h"
#include "cli/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define LIST_MAX 100 /* what the daemon tells at once */

void session_put_target(struct kg_buf *target, const struct cli *cli, const char *rest)
{
    client_put_target(target, "sessions", cli_argument(cli, 0), rest);
}

/* Hooks, compactors and models take their time, which the daemon bounds. */
#define OF_SESSION(method, rest)                                                                   \
    (method), "/api/v1/sessions/{1}" rest, .silence_ms = CLIENT_WAIT_FOREVER

/* -- the project of a new session -------------------------------------------------------------- */

/* The project with the deepest root that the folder is in; NULL: none. */
static const struct kg_node *project_around(const struct kg_node *projects, const char *folder)
{
    const struct kg_node *found = NULL;
    size_t depth = 0;
    for (uint32_t i = 0; i < projects->count; i++) {
        kg_auto(kg_free) char *root = kg_str_dup(cli_text(&projects->items[i], "root"));
        kg_auto(kg_free) char *real = realpath(root, NULL);
        const char *place = real ? real : root;
        if (place[0] != '/' || !kg_path_within(folder, place) || strlen(place) < depth)
            continue;
        found = &projects->items[i];
        depth = strlen(place);
    }
    return found;
}

static int say_no_project(const struct cli *cli, const char *folder)
{
    kg_auto(kg_free) char *self = cli_self(cli);
    struct kg_err err;
    kg_fail(&err, KG_E_NOT_FOUND, "no loaded project contains the folder %s", folder);
    kg_hint(&err, "load it with: %s project load PATH; or name one: %s session new --project P",
            self, self);
    return print_error(&err);
}

/* Of the option, or of the folder that the command runs in. */
int session_find_project(const struct cli *cli, char **ret_project)
{
    const char *named = cli_option_value(cli, "project");
    if (named != NULL) {
        *ret_project = kg_strdup(named);
        return CLI_DONE;
    }
    struct kg_err err;
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof(folder)) == NULL) {
        kg_fail_errno(&err, errno, "find the current folder");
        kg_hint(&err, "name the project with --project");
        return print_error(&err);
    }
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    int code = page_ask(cli, &page_project_list, NULL, &body, &doc);
    if (code != CLI_DONE)
        return code;
    const struct kg_node *project = project_around(kg_node_list(doc->root, "projects"), folder);
    if (project == NULL)
        return say_no_project(cli, folder);
    *ret_project = kg_str_dup(cli_text(project, "id"));
    return CLI_DONE;
}

/* The daemon has a current folder of its own. */
static int find_workdir(const struct cli *cli, char **ret_workdir)
{
    const char *given = cli_option_value(cli, "workdir");
    if (given == NULL)
        return CLI_DONE;
    *ret_workdir = realpath(given, NULL);
    if (*ret_workdir != NULL)
        return CLI_DONE;
    struct kg_err err;
    kg_fail_errno(&err, errno, "session new: --workdir: %s", given);
    err.code = errno == ENOENT ? KG_E_NOT_FOUND : KG_E_IO;
    return print_error(&err);
}

int cli_session_new(struct cli *cli)
{
    /* Nothing else, for scripts to take it. */
    static const struct cli_page page = {"POST", "/api/v1/projects/{0}/sessions",
                                         .words = "{id}\n"};
    kg_auto(kg_free) char *project = NULL, *workdir = NULL;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    int code = find_workdir(cli, &workdir);
    if (code == CLI_DONE)
        code = session_find_project(cli, &project);
    if (code != CLI_DONE)
        return code;
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    if (workdir != NULL)
        kg_json_named_text(&json, "workdir", workdir);
    if (cli_has(cli, "seat"))
        kg_json_named_text(&json, "seat", cli_option_value(cli, "seat"));
    if (cli_has(cli, "title"))
        kg_json_named_text(&json, "title", cli_option_value(cli, "title"));
    kg_json_end(&json, '}');
    const struct page_given given = {.name = project, .body = kg_buf_view(&body)};
    return page_show_with(cli, &page, &given);
}

/* -- list -------------------------------------------------------------------------------------- */

static const struct cell list_cells[] = {{"STATE", "running", "running", "green"},
                                         {"STATE", "state=active", "{state}", "green"},
                                         {"STATE", "state=stopped", "{state}", "yellow"},
                                         {"STATE", NULL, "{state}", NULL},
                                         {0}};

static void put_older(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *sessions = kg_node_list(answer, "sessions");
    (void)cli;
    print_words(out, &sessions->items[sessions->count - 1],
                "older ones with: {@self} session list --before {id}\n");
}

static const struct row list_rows[] = {
    {"!sessions", .words = "no sessions\n"},
    {.each = "sessions",
     .table = "SESSION={id}; STATE; LAST={updated_at:age}; ENTRIES={entries}; "
              "PROJECT={project_id}; SEAT={seat}; TITLE={title}",
     .cells = list_cells},
    {"sessions more", .put = put_older},
    {0},
};

int cli_session_list(struct cli *cli)
{
    static const struct cli_page page = {
        "GET", "/api/v1/projects/{--project}/sessions?limit=--lines:50&state&before",
        .without = "/api/v1/sessions?limit=--lines:50&state&before", .rows = list_rows};
    struct kg_err err;
    int64_t lines = 0;
    if (cli_option_number(cli, "lines", 1, LIST_MAX, &lines, &err) < 0)
        return print_error(&err);
    return page_show(cli, &page);
}

/* -- tool -------------------------------------------------------------------------------------- */

/* The process that could not be reached, "memory@shop" or "memory", which the words begin with. */
static struct kg_str session_process_of(struct kg_str words, struct kg_str plugin)
{
    struct kg_str start = KG_STR("[BLOCKED] plugin ");
    if (!kg_str_starts(words, start.data))
        return plugin;
    struct kg_str name = {words.data + start.length, words.length - start.length};
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): what has a length has data */
    const char *space = memchr(name.data, ' ', name.length);
    name.length = space != NULL ? (size_t)(space - name.data) : 0;
    bool is_own = name.length > plugin.length && name.data[plugin.length] == '@' &&
                  memcmp(name.data, plugin.data, plugin.length) == 0;
    return is_own ? name : plugin;
}

/* A result in words, since the tool did not do what it was asked. */
static int say_tool_problem(const struct cli *cli, const struct kg_node *answer)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_free) char *self = cli_self(cli), *hint = NULL;
    const struct kg_node *result = kg_node_get(answer, "result");
    struct kg_str plugin = cli_text(answer, "plugin");
    if (result != NULL && result->type == KG_STRING) {
        kg_buf_str(&text, result->text);
    } else if (result != NULL) {
        kg_json_put_node(&text, result);
    }
    struct kg_str process = session_process_of(kg_buf_view(&text), plugin);
    if (kg_node_is_true(answer, "blocked") && plugin.length > 0)
        hint =
            kg_format("more with: %s plugin status %.*s", self, KG_STR_CUT(process, KG_CUT_WORD));
    bool nobodys = plugin.length == 0 && !kg_node_is_true(answer, "blocked");
    int code = nobodys ? kg_error_row(KG_E_NOT_FOUND)->exit_code : CLI_FAILED;
    return print_problem(code, kg_buf_view(&text), kg_str(hint));
}

int cli_session_tool(struct cli *cli)
{
    struct kg_err err;
    static const struct cli_page page = {OF_SESSION("POST", "/tools/{2}?agent")};
    kg_auto(kg_buf_free) struct kg_buf params = {0}, body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    if (cli_take_params(cli_argument(cli, 2), &params, &err) < 0)
        return print_error(&err);
    const struct page_given given = {.body = kg_buf_view(&params)};
    int code = page_ask(cli, &page, &given, &body, &doc);
    if (code != CLI_DONE)
        return code;
    bool failed = kg_node_is_true(doc->root, "blocked") || kg_node_is_true(doc->root, "is_error");
    struct kg_str result;
    if (cli->json)
        print_json(kg_buf_view(&body));
    else if (!failed && kg_json_member(kg_buf_view(&body), "result", &result))
        print_json(result);
    return failed ? say_tool_problem(cli, doc->root) : CLI_DONE;
}

/* -- idle -------------------------------------------------------------------------------------- */

static const struct row told_rows[] = {
    {"ok", .words = "{plugin} was told{error}\n"},
    {"!ok", .words = "{plugin} failed: {error}\n"},
    {0},
};
static const struct row idle_rows[] = {
    {.each = "hooks", .rows = told_rows},
    {"!hooks", .words = "no plugin of the primary subscribes to it\n"},
    {0},
};
const struct cli_page page_session_idle = {OF_SESSION("POST", "/idle"), .rows = idle_rows};

/* -- compact ----------------------------------------------------------------------------------- */

/* Why another strategy was not used. */
static void put_fallback(struct kg_buf *out, struct kg_str reason)
{
    static const struct {
        const char *reason, *words;
    } rows[] = {
        {"compactor_failed", "the compactor failed"},
        {"compactor_timeout", "the compactor took too long"},
        {"invalid_compactor_result", "what the compactor returned cannot be used"},
        {"compactor_dropped_always_keep", "the compactor left out what has to stay"},
        {"no_compactor", "no plugin of the agent is ready to compact"},
        {"payload_too_large", "the context is too large for the compactor"},
        {"summary_failed", "no model wrote a summary"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (kg_str_is(reason, rows[i].reason)) {
            kg_buf_text(out, rows[i].words);
            return;
        }
    kg_buf_escaped(out, reason);
}

void session_put_compaction(struct kg_buf *out, const struct kg_node *told)
{
    kg_buf_escaped(out, cli_text(told, "strategy"));
    if (kg_node_get(told, "superseded") == NULL)
        return;
    print_words(out, told,
                ": {superseded:count} left out, {kept:count} kept, {added:count} added; "
                "{tokens_before:short} to {tokens_after:short} tokens");
    static const char *const reasons[] = {"fell_back", "fallback"};
    for (size_t i = 0; i < KG_COUNT(reasons); i++) {
        struct kg_str reason = cli_text(told, reasons[i]);
        if (reason.length == 0)
            continue;
        kg_buf_text(out, "; fell back to that: ");
        put_fallback(out, reason);
    }
    if (cli_text(told, "summary").length > 0)
        print_words(out, told, ": {summary}");
}

static void session_put_figures(struct kg_buf *out, const struct cli *cli,
                                const struct kg_node *answer)
{
    (void)cli;
    session_put_compaction(out, answer);
}

static const struct row compact_rows[] = {
    {"strategy=checkpoint",
     .words = "a checkpoint was set; the session waits. Continue as it is: {@self} session resume "
              "{@1}\nor with less: {@self} session compact {@1} --strategy drop"},
    {"!strategy=checkpoint", .put = session_put_figures},
    {.words = "\n"},
    {0},
};

int cli_session_compact(struct cli *cli)
{
    static const struct cli_page page = {OF_SESSION("POST", "/compact"), .rows = compact_rows};
    struct kg_err err;
    int64_t keep_recent = -1;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    if (cli_option_number(cli, "keep-recent", 0, 10000, &keep_recent, &err) < 0)
        return print_error(&err);
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    if (cli_has(cli, "agent"))
        kg_json_named_text(&json, "agent", cli_option_value(cli, "agent"));
    if (cli_has(cli, "strategy"))
        kg_json_named_text(&json, "strategy", cli_option_value(cli, "strategy"));
    if (keep_recent >= 0)
        kg_json_named_int(&json, "keep_recent", keep_recent);
    kg_json_end(&json, '}');
    return page_show_with(cli, &page, &(struct page_given){.body = kg_buf_view(&body)});
}

static const struct member of_agent[] = {{"agent", "--agent"}, {0}};
const struct cli_page page_session_undo_compact = {
    OF_SESSION("POST", "/undo-compact"), .members = of_agent,
    .words = "the last compaction was undone: {tokens:short} tokens\n"};

/* -- one entry --------------------------------------------------------------------------------- */

char *session_entry_id(const struct cli *cli, const char *named, int *ret_code)
{
    int64_t number;
    if (!kg_str_to_int(kg_str(named), &number) || named[0] == '0' || number < 1)
        return kg_strdup(named);
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    session_put_target(&target, cli, "/entries");
    client_put_number(&target, "after", number - 1);
    client_put_number(&target, "limit", 1);
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    *ret_code = cli_ask_object(cli, &request, &body, &doc);
    if (*ret_code != CLI_DONE)
        return NULL;
    const struct kg_node *entries = kg_node_list(doc->root, "entries");
    if (entries->count > 0 && kg_node_number(&entries->items[0], "seq") == number)
        return kg_str_dup(cli_text(&entries->items[0], "id"));
    struct kg_err err;
    kg_fail(&err, KG_E_NOT_FOUND, "session %s has no entry %" PRId64, cli_argument(cli, 0), number);
    *ret_code = print_error(&err);
    return NULL;
}

static const struct row pin_rows[] = {
    {"--unpin", .words = "#{seq} is no longer pinned\n"},
    {"!--unpin", .words = "#{seq} is pinned: no compaction leaves it out\n"},
    {0},
};

int cli_session_pin(struct cli *cli)
{
    static const struct cli_page page = {OF_SESSION("POST", "/pin"), .rows = pin_rows};
    int code = CLI_DONE;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_free) char *entry = session_entry_id(cli, cli_argument(cli, 1), &code);
    if (entry == NULL)
        return code;
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "entry", entry);
    kg_json_named_bool(&json, "pinned", !cli_has(cli, "unpin"));
    kg_json_end(&json, '}');
    return page_show_with(cli, &page, &(struct page_given){.body = kg_buf_view(&body)});
}

int cli_session_fork(struct cli *cli)
{
    static const struct cli_page page = {OF_SESSION("POST", "/fork"), .words = "{id}\n"};
    int code = CLI_DONE;
    const char *named = cli_argument(cli, 1);
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_free) char *entry = named ? session_entry_id(cli, named, &code) : NULL;
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    if (entry != NULL)
        kg_json_named_text(&json, "entry", entry);
    kg_json_end(&json, '}');
    return code == CLI_DONE
               ? page_show_with(cli, &page, &(struct page_given){.body = kg_buf_view(&body)})
               : code;
}

/* -- resume, cancel, close --------------------------------------------------------------------- */

#define STATE_WORDS "{id} is {state}, seat {seat}\n"

static const struct member to_seat[] = {{"seat", "--seat"}, {0}};
const struct cli_page page_session_resume = {OF_SESSION("POST", "/resume"), .members = to_seat,
                                             .words = STATE_WORDS};
const struct cli_page page_session_close = {OF_SESSION("DELETE", ""), .words = STATE_WORDS};

static const struct row cancel_rows[] = {
    {"cancelled", .words = "the turn was cancelled\n"},
    {"!cancelled", .words = "no turn is running\n"},
    {0},
};
const struct cli_page page_session_cancel = {OF_SESSION("POST", "/cancel"), .rows = cancel_rows};
