/*
 * kaged plugin dev: a plugin runs from its author's folder for as long as this command does, and
 * all that is said with it is shown. What needs a yes is asked for while the plugin stands still.
 */
#include "cli/install.h"
#include "cli/trace_print.h"

#include <stdlib.h>
#include <unistd.h>

struct dev {
    struct cli *cli;
    struct dialogue dialogue;
    struct trace_printer *printer;
    char *manifest; /* owned; its path */
    bool started;
    bool leave; /* the rest is not wanted */
    bool ended; /* the daemon said so, or the operator */
    int code;   /* then */
};

static const char bold[] = "\033[1m", yellow[] = "\033[33m", red[] = "\033[31m",
                  plain[] = "\033[0m";

/* -- what is shown besides the messages -------------------------------------------------------- */

/* "    1.234567 *** TEXT", in a colour where there are any. */
static void cli_dev_note(const struct kg_node *told, const char *color, const struct kg_buf *text)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    const char *on = print_colors() ? color : "", *off = on[0] != '\0' ? plain : "";
    trace_print_time(told, &line);
    kg_buf_printf(&line, "%s*** ", on);
    kg_buf_str(&line, kg_buf_view(text));
    kg_buf_printf(&line, "%s\n", off);
    print_out(&line);
}

static void show_started(struct dev *dev, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    print_words(&text, told,
                dev->started ? "{name} {version} is started again"
                             : "{name} {version} runs from {folder}; Ctrl-C ends it");
    cli_dev_note(told, bold, &text);
    dev->started = true;
    text.length = 0;
    kg_buf_text(&text,
                "it works in projects: it starts with a session of a project that declares it");
    if (kg_node_is_true(told, "of_project"))
        cli_dev_note(told, yellow, &text);
}

static void show_changed(struct dev *dev, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    const struct kg_node *files = kg_node_list(told, "files");
    (void)dev;
    kg_buf_text(&text, "changed:");
    for (uint32_t i = 0; i < files->count; i++) {
        kg_buf_text(&text, i > 0 ? ", " : " ");
        kg_buf_escaped(&text, files->items[i].text);
    }
    if (kg_node_number(told, "changes") > 2 * (int64_t)files->count)
        kg_buf_printf(&text, " (%lld changes)", (long long)kg_node_number(told, "changes"));
    cli_dev_note(told, bold, &text);
}

static void cli_dev_put_problem(struct kg_buf *text, const struct kg_node *problem)
{
    bool has_hint = cli_text(problem, "hint").length > 0;
    print_words(text, problem, has_hint ? "{message}; hint: {hint}" : "{message}");
}

/* What went wrong, in the colour that it deserves. */
static void show_problem(const struct kg_node *told, const char *color)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    cli_dev_put_problem(&text, told);
    cli_dev_note(told, color, &text);
}

static void show_warning(struct dev *dev, const struct kg_node *told)
{
    (void)dev;
    show_problem(told, yellow);
}

/* One line for each problem, as compilers have it: editors know the form. */
static void show_invalid(struct dev *dev, const struct kg_node *told)
{
    const struct kg_node *problems = kg_node_list(told, "problems");
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (problems->count == 0)
        show_problem(told, red);
    for (uint32_t i = 0; i < problems->count; i++) {
        const struct kg_node *problem = &problems->items[i];
        text.length = 0;
        kg_buf_escaped(&text, kg_str(dev->manifest));
        kg_buf_printf(&text, ":%lld:%lld: ", (long long)kg_node_number(problem, "line"),
                      (long long)kg_node_number(problem, "column"));
        cli_dev_put_problem(&text, problem);
        cli_dev_note(told, kg_str_is(cli_text(problem, "severity"), "error") ? red : yellow, &text);
    }
    text.length = 0;
    kg_buf_text(&text, "the plugin stays as it was until the manifest is valid");
    cli_dev_note(told, bold, &text);
}

static void show_declined(struct dev *dev, const struct kg_node *told)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    (void)dev;
    kg_buf_text(&text, "it is stopped until its manifest asks for less; Ctrl-C ends this");
    cli_dev_note(told, yellow, &text);
}

/* -- asking ------------------------------------------------------------------------------------ */

static void cli_dev_finish(struct dev *dev, int code)
{
    dev->leave = dev->ended = true;
    dev->code = code;
}

/*
 * The first no ends the run, and so does one that nobody could be asked for. What was answered too
 * late, since the manifest had changed again, is asked for again.
 */
static void cli_dev_ask(struct dev *dev, const struct kg_node *told)
{
    struct dialogue *dialogue = &dev->dialogue;
    door_answer_free(&dialogue->consent);
    kg_json_put_node(&dialogue->consent.body, kg_node_get(told, "consent"));
    int code = door_answer_read(&dialogue->consent);
    if (code == CLI_DONE)
        code = dialogue_decide(dialogue);
    bool refused = code == kg_error_row(KG_E_REFUSED)->exit_code;
    if (terminal_was_interrupted())
        cli_dev_finish(dev, dev->started ? CLI_DONE : code);
    else if (refused && (!dev->started || dialogue->tty < 0))
        cli_dev_finish(dev, code);
}

static void cli_dev_take_end(struct dev *dev, const struct kg_node *told)
{
    enum kg_code code = kg_code_from_name(cli_text(told, "code"));
    fflush(stdout);
    cli_dev_finish(dev, print_problem(kg_error_row(code)->exit_code, cli_text(told, "message"),
                                      cli_text(told, "hint")));
}

/* -- lines ------------------------------------------------------------------------------------- */

/* What the author can do about an exit that he did not want. */
static void show_advice(const struct kg_node *record)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str to = cli_text(record, "to");
    if (!kg_str_is(to, "crashed") && !kg_str_is(to, "failed"))
        return;
    kg_buf_text(&text, kg_str_is(to, "failed") ? "it is started again when you change it"
                                               : "it is started again in a moment");
    cli_dev_note(record, red, &text);
}

/* The steps of a restart that goes as it should; that there is one was told. */
static bool is_expected(const struct kg_node *record)
{
    struct kg_str reason = cli_text(record, "reason");
    return kg_str_is(cli_text(record, "dir"), "state") && kg_str_starts(reason, "the operator ") &&
           (memchr(reason.data, '(', reason.length) == NULL ||
            kg_str_ends(reason, "(exited with code 0)"));
}

static void show_record(struct dev *dev, const struct kg_node *record)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (is_expected(record))
        return;
    trace_printer_put(dev->printer, record, &text);
    print_out(&text);
    if (kg_str_is(cli_text(record, "dir"), "state"))
        show_advice(record);
}

static const struct {
    const char *type;
    void (*show)(struct dev *dev, const struct kg_node *told);
} shows[] = {
    {"started", show_started}, {"restarted", show_started}, {"changed", show_changed},
    {"invalid", show_invalid}, {"warning", show_warning},   {"declined", show_declined},
};

static void cli_dev_show(struct dev *dev, const struct kg_node *told)
{
    struct kg_str type = cli_text(told, "type");
    for (size_t i = 0; i < KG_COUNT(shows); i++)
        if (kg_str_is(type, shows[i].type))
            shows[i].show(dev, told);
    if (type.length == 0)
        show_record(dev, told);
}

static void cli_dev_on_line(void *data, struct kg_str line)
{
    struct dev *dev = data;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(line, NULL);
    if (dev->leave || doc == NULL)
        return;
    if (dev->cli->json)
        print_json(line);
    else
        cli_dev_show(dev, doc->root);
    fflush(stdout);
    dev->leave |= ferror(stdout) != 0; /* its reader has left */
    if (kg_str_is(cli_text(doc->root, "type"), "consent"))
        cli_dev_ask(dev, doc->root);
    else if (kg_str_is(cli_text(doc->root, "type"), "end"))
        cli_dev_take_end(dev, doc->root);
    dev->started |= kg_str_is(cli_text(doc->root, "type"), "started");
}

static int64_t cli_dev_on_interrupt(void *data)
{
    cli_dev_finish(data, CLI_DONE);
    return 0;
}

/* -- the command ------------------------------------------------------------------------------- */

/* With "." and ".." as the shell's folder has them; of links the daemon has its own opinion. */
static char *cli_dev_folder_of(const char *argument)
{
    char *path = door_absolute(argument);
    bool winds = strstr(path, "/../") != NULL || strstr(path, "/./") != NULL;
    for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; length--)
        path[length - 1] = '\0';
    const char *last = strrchr(path, '/');
    winds = winds || strcmp(last, "/.") == 0 || strcmp(last, "/..") == 0;
    char *real = winds ? realpath(path, NULL) : NULL;
    if (real == NULL)
        return path;
    free(path);
    return real;
}

static int cli_dev_run(struct dev *dev, const char *path)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0}, answer = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    const struct client_stream stream = {cli_dev_on_line, cli_dev_on_interrupt, dev, &dev->leave};
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "path", path);
    kg_json_end(&json, '}');
    const struct client_request request = {
        .method = "POST",
        .target = "/api/v1/dev",
        .body = kg_buf_view(&body),
        .silence_ms = CLIENT_WAIT_FOREVER,
        .file = dev->manifest,
    };
    int code = cli_ask_lines(dev->cli, &request, &stream, &answer);
    return dev->ended ? dev->code : code;
}

int cli_plugin_dev(struct cli *cli)
{
    if (cli_is_script_file(cli_argument(cli, 0)))
        return cli_script_dev(cli, cli_argument(cli, 0));
    struct dev dev = {.cli = cli, .dialogue = {.tty = -1}};
    kg_auto(kg_free) char *path = cli_dev_folder_of(cli_argument(cli, 0));
    int code = dialogue_check_flags(cli);
    if (code == CLI_DONE)
        code = dialogue_begin(cli, DOOR_DAEMON, &dev.dialogue);
    if (code != CLI_DONE)
        return code;
    dev.manifest = kg_format("%s/kaged-plugin.yaml", path);
    dev.printer = trace_printer_new();
    trace_printer_fit(dev.printer, !cli_has(cli, "full"));
    code = cli_dev_run(&dev, path);
    trace_printer_free(dev.printer);
    dialogue_end(&dev.dialogue);
    free(dev.manifest);
    return code;
}
