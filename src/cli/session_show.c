/*
 * What was said in a session, as a person reads it: when, who, what. Messages are shown whole,
 * calls of tools and what came of them in one line. All of it was written by others, so nothing of
 * it reaches the terminal but as text.
 */
#include "cli/rows.h"
#include "cli/session.h"

#include <inttypes.h>
#include <stdlib.h>

#define LINE_COLUMNS 200 /* of what is cut, where there is no terminal */
#define PAGE_ENTRIES 200
#define INDENT       "    "

static const char bold[] = "\033[1m", dim[] = "\033[2m", plain[] = "\033[0m";

static size_t line_columns(void)
{
    size_t columns = print_columns();
    return columns == SIZE_MAX ? LINE_COLUMNS : columns;
}

/* -- content ----------------------------------------------------------------------------------- */

static void session_show_put_paragraph(struct kg_buf *out, struct kg_str text)
{
    while (text.length > 0 && text.data[text.length - 1] == '\n')
        text.length--;
    print_put_text(out, text, INDENT);
    kg_buf_char(out, '\n');
}

/* A text, or the texts among parts, or whatever else it is. */
static void session_show_put_said(struct kg_buf *out, const struct kg_node *content)
{
    if (content == NULL)
        return;
    if (content->type == KG_STRING) {
        session_show_put_paragraph(out, content->text);
        return;
    }
    if (content->type == KG_ARRAY) {
        for (uint32_t i = 0; i < content->count; i++)
            session_show_put_said(out, &content->items[i]);
        return;
    }
    const struct kg_node *text = kg_node_get(content, "text");
    if (text != NULL && text->type == KG_STRING) {
        session_show_put_paragraph(out, text->text);
        return;
    }
    kg_buf_text(out, INDENT);
    print_value(out, content);
    kg_buf_char(out, '\n');
}

/* " memory.recall {"query":"x"}" */
static void session_show_put_call(struct kg_buf *out, const struct kg_node *content)
{
    print_words(out, content, " {name} ");
    print_value(out, kg_node_get(content, "arguments"));
}

static void session_show_put_result(struct kg_buf *out, const struct kg_node *content)
{
    const struct kg_node *result = kg_node_get(content, "result");
    const struct kg_node *error = kg_node_get(content, "error");
    kg_buf_text(out, error ? " failed: " : ": ");
    print_value(out, error ? error : result ? result : content);
}

/* -- one entry --------------------------------------------------------------------------------- */

/*
 * What a head and a body are, by kind and, of messages, by role; a task is what a call of another
 * agent said. `%` stands for the agent, `#` for the entry that it belongs to.
 */
enum body { SAID, CALL, RESULT, FIGURES, BARE };
static const struct form {
    const char *kind, *role; /* NULL role: any */
    const char *words;
    bool by_plugin; /* the plugin's name comes first */
    enum body body;
} forms[] = {
    {"message", "task", "task# for %", false, SAID},
    {"message", "user", "user to %", false, SAID},
    {"message", "system", "system to %", false, SAID},
    {"message", NULL, "%", false, SAID},
    {"tool_call", NULL, "% calls", false, CALL},
    {"tool_result", NULL, "result#", false, RESULT},
    {"injection", NULL, " adds for %", true, SAID},
    {"summary", NULL, "summary for %", false, SAID},
    {"compaction", NULL, "context of % compacted by ", false, FIGURES},
    {"checkpoint", NULL, "context of % stopped at a ", false, FIGURES},
    {"undo", NULL, "compaction# of % undone", false, BARE},
    {NULL, NULL, "", false, CALL},
};

static const struct form *form_of(struct kg_str kind, struct kg_str role)
{
    const struct form *form = forms;
    while (form->kind != NULL &&
           (!kg_str_is(kind, form->kind) || (form->role != NULL && !kg_str_is(role, form->role))))
        form++;
    return form;
}

/* Whose it is, and which entry it belongs to; 0: none that was shown. */
struct origin {
    struct kg_str agent;
    uint64_t parent;
};

static void session_show_put_words(struct kg_buf *out, const struct form *form,
                                   const struct kg_node *entry, struct origin origin)
{
    if (form->by_plugin)
        print_words(out, entry, "plugin {plugin}");
    for (const char *at = form->words; *at != '\0'; at++) {
        if (*at == '%')
            kg_buf_escaped(out, origin.agent);
        else if (*at != '#')
            kg_buf_char(out, *at);
        else if (origin.parent > 0)
            kg_buf_printf(out, " #%" PRIu64, origin.parent);
    }
}

static void session_show_put_event(struct kg_buf *out, const struct kg_node *content)
{
    struct kg_str event = cli_text(content, "event");
    if (kg_str_is(event, "started")) {
        kg_buf_text(out, "the session started");
    } else if (kg_str_is(event, "seat_moved")) {
        print_words(out, content, "the seat moved from {from} to {to}");
    } else if (kg_str_is(event, "turn_failed")) {
        print_words(out, content, "the turn failed: {message}");
    } else {
        kg_buf_text(out, "event: ");
        print_value(out, content);
    }
}

static void session_show_put_detail(struct kg_buf *out, const struct form *form,
                                    const struct kg_node *content)
{
    if (form->kind == NULL)
        session_show_put_event(out, content);
    else if (form->body == CALL)
        session_show_put_call(out, content);
    else if (form->body == RESULT)
        session_show_put_result(out, content);
    else if (form->body == FIGURES)
        session_put_compaction(out, content);
}

/* The line that says who; what was said stands below it. */
static void session_show_put_entry(struct kg_buf *out, struct kg_buf *head,
                                   const struct kg_node *entry, struct origin origin)
{
    struct kg_str kind = cli_text(entry, "kind");
    bool is_task = kg_str_is(kind, "message") && cli_text(entry, "parent").length > 0;
    const struct form *form = form_of(kind.length > 0 ? kind : KG_STR("message"),
                                      is_task ? KG_STR("task") : cli_text(entry, "role"));
    const struct kg_node *content = kg_node_get(entry, "content");
    bool colors = print_colors(), gone = kg_node_is_true(entry, "superseded");
    kg_buf_text(head, kg_node_is_true(entry, "pinned") ? "(pinned) " : "");
    kg_buf_text(head, gone ? "(superseded) " : "");
    session_show_put_words(head, form, entry, origin);
    session_show_put_detail(head, form, content);
    print_cut(head, 0, line_columns());
    bool is_bold = colors && !gone && form->body == SAID;
    kg_buf_text(out, colors && gone ? dim : is_bold ? bold : "");
    kg_buf_str(out, kg_buf_view(head));
    kg_buf_text(out, is_bold ? plain : "");
    kg_buf_char(out, '\n');
    if (form->body == SAID)
        session_show_put_said(out, content);
    kg_buf_text(out, colors && gone ? plain : "");
}

/* -- show -------------------------------------------------------------------------------------- */

struct transcript {
    const struct cli *cli;
    bool all;
    char day[11];           /* of the last entry, "2026-11-15" */
    int64_t after;          /* the last entry's number */
    uint64_t left_out;      /* superseded ones */
    struct kg_map *numbers; /* owned: those of calls and marks, by their ids */
};

static struct origin session_show_origin_of(struct transcript *transcript,
                                            const struct kg_node *entry)
{
    struct kg_str kind = cli_text(entry, "kind");
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): it is a map of numbers */
    void *number = (void *)(uintptr_t)transcript->after;
    if (kg_str_is(kind, "tool_call") || kg_str_is(kind, "compaction"))
        kg_map_set(transcript->numbers, cli_text(entry, "id"), number);
    void *parent = kg_map_get(transcript->numbers, cli_text(entry, "parent"));
    return (struct origin){cli_text(entry, "agent"), (uintptr_t)parent};
}

/* The day stands above the first entry of it, the time of day before each. */
static void session_show_put_time(struct transcript *transcript, struct kg_buf *out,
                                  struct kg_buf *head, const struct kg_node *entry)
{
    int64_t created_ms;
    char text[KG_TIME_TEXT];
    kg_buf_printf(head, "#%" PRId64 " ", kg_node_number(entry, "seq"));
    if (!cli_time(entry, "created_at", &created_ms))
        return;
    kg_time_format(created_ms, text);
    if (strncmp(transcript->day, text, sizeof(transcript->day) - 1) != 0) {
        memcpy(transcript->day, text, sizeof(transcript->day) - 1);
        kg_buf_printf(out, "%s (UTC)\n", transcript->day);
    }
    kg_buf_printf(head, "%.8s ", text + sizeof(transcript->day));
}

/* What subagents say and do stands further in than what made them. */
static void put_depth(struct kg_buf *head, struct kg_str agent)
{
    size_t dots = 0;
    for (size_t i = 0; i < agent.length; i++)
        dots += agent.data[i] == '.';
    for (size_t i = 0; i < dots / 2; i++) /* "primary.subagents.maker" */
        kg_buf_text(head, "  ");
}

static void print_entry(struct transcript *transcript, const struct kg_node *entry)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0}, head = {0};
    transcript->after = kg_node_number(entry, "seq");
    if (transcript->cli->json) {
        kg_json_put_node(&out, entry);
        print_json(kg_buf_view(&out));
        return;
    }
    struct origin origin = session_show_origin_of(transcript, entry);
    if (kg_node_is_true(entry, "superseded") && !transcript->all) {
        transcript->left_out++;
        return;
    }
    session_show_put_time(transcript, &out, &head, entry);
    put_depth(&head, origin.agent);
    session_show_put_entry(&out, &head, entry, origin);
    print_out(&out);
}

/* One page of entries; *ret_more: there is another. */
static int print_page(struct transcript *transcript, bool *ret_more)
{
    const struct cli *cli = transcript->cli;
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    session_put_target(&target, cli, "/entries");
    cli_put_option(&target, cli, "agent");
    client_put_number(&target, "after", transcript->after);
    client_put_number(&target, "limit", PAGE_ENTRIES);
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    int code = cli_ask_object(cli, &request, &body, &doc);
    if (code != CLI_DONE)
        return code;
    const struct kg_node *entries = kg_node_list(doc->root, "entries");
    for (uint32_t i = 0; i < entries->count; i++)
        print_entry(transcript, &entries->items[i]);
    *ret_more = entries->count > 0 && kg_node_is_true(doc->root, "more");
    return CLI_DONE;
}

/* "  primary: 12 entries, about 3.4k of 128k tokens, compacted at 102k" */
static void session_show_put_agent(struct kg_buf *out, const struct kg_node *agent)
{
    int64_t entries = kg_node_number(agent, "entries"),
            window = kg_node_number(agent, "window_tokens");
    print_words(out, agent,
                entries == 1 ? "  {path}: 1 entry, about " : "  {path}: {entries} entries, about ");
    print_words(out, agent,
                window > 0 ? "{tokens:short} of {window_tokens:short} tokens"
                           : "{tokens:short} tokens");
    kg_auto(kg_free) char *threshold = kg_str_dup(cli_text(agent, "threshold"));
    double share = strtod(threshold, NULL);
    if (window > 0 && share > 0 && share <= 1) {
        kg_buf_text(out, ", compacted at ");
        print_short(out, (int64_t)(share * (double)window));
    }
    kg_buf_char(out, '\n');
}

static void session_show_put_agents(struct kg_buf *out, const struct cli *cli,
                                    const struct kg_node *session)
{
    const struct kg_node *agents = kg_node_list(session, "agents");
    (void)cli;
    for (uint32_t i = 0; i < agents->count; i++)
        session_show_put_agent(out, &agents->items[i]);
}

static const struct row session_rows[] = {
    {.words = "{id}"},
    {"state", .words = " is {state}"},
    {"project_id", .words = "; project {project_id}"},
    {"seat", .words = ", seat {seat}"},
    {"operator_id", .words = ", of {operator_id}"},
    {"workdir", .words = ", in {workdir}"},
    {"parent", .words = "; forked from {parent}"},
    {"running", .words = "; a turn is running"},
    {.words = "\n"},
    {.put = session_show_put_agents},
    {0},
};

int cli_session_show(struct cli *cli)
{
    static const struct cli_page page = {"GET", "/api/v1/sessions/{1}"};
    kg_auto(kg_buf_free) struct kg_buf body = {0}, out = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    int code = page_ask(cli, &page, NULL, &body, &doc);
    if (code != CLI_DONE)
        return code;
    if (!cli->json)
        rows_put(&out, cli, doc->root, session_rows, 0);
    print_out(&out);
    struct transcript transcript = {
        .cli = cli, .all = cli_has(cli, "all"), .numbers = kg_map_new()};
    for (bool more = true; more && code == CLI_DONE;)
        code = print_page(&transcript, &more);
    kg_map_free(transcript.numbers);
    if (transcript.left_out > 0)
        printf("%" PRIu64 " superseded %s not shown; --all shows them\n", transcript.left_out,
               transcript.left_out == 1 ? "entry is" : "entries are");
    return code;
}

/* -- context ----------------------------------------------------------------------------------- */

static void put_prompt(struct kg_buf *out, const struct cli *cli, const struct kg_node *context)
{
    (void)cli;
    session_show_put_paragraph(out, cli_text(context, "system"));
}

static void put_messages(struct kg_buf *out, const struct cli *cli, const struct kg_node *context)
{
    const struct kg_node *messages = kg_node_list(context, "messages");
    (void)cli;
    for (uint32_t i = 0; i < messages->count; i++) {
        kg_auto(kg_buf_free) struct kg_buf head = {0};
        const struct origin origin = {.agent = cli_text(context, "agent_path")};
        session_show_put_entry(out, &head, &messages->items[i], origin);
    }
}

static const struct row context_rows[] = {
    {.words = "{agent_path}"},
    {"model", .words = ", model {model}"},
    {.words = ": about {tokens:short} of {window_tokens:short} tokens\n"},
    {"system", .words = "prompt\n"},
    {"system", .put = put_prompt},
    {.put = put_messages},
    {"tools", .words = "tools\n"},
    {.each = "tools", .words = INDENT "{.:json}\n"},
    {0},
};
const struct cli_page page_session_context = {"GET", "/api/v1/sessions/{1}/context?agent&tools",
                                              .silence_ms = CLIENT_WAIT_FOREVER,
                                              .rows = context_rows};
