/* Help is read off the table, and fits 80 columns. */
#include "cli/cli.h"

#define WIDTH 79

/* -- text of a given width --------------------------------------------------------------------- */

static void spaces(struct kg_buf *out, size_t count)
{
    while (count-- > 0)
        kg_buf_char(out, ' ');
}

/* Puts a piece that must not be broken behind the others, or on a new line if it does not fit. */
static void help_put_piece(struct kg_buf *out, size_t *column, size_t indent, struct kg_str piece)
{
    if (*column > indent && *column + 1 + piece.length > WIDTH) {
        kg_buf_char(out, '\n');
        spaces(out, indent);
        *column = indent;
    } else if (*column > indent) {
        kg_buf_char(out, ' ');
        ++*column;
    }
    kg_buf_str(out, piece);
    *column += piece.length;
}

/* Fills a paragraph from the column `indent` on, where the cursor is already. */
static void help_put_paragraph(struct kg_buf *out, size_t indent, struct kg_str text)
{
    size_t column = indent, at = 0;
    while (at < text.length) {
        size_t end = at;
        while (end < text.length && text.data[end] != ' ')
            end++;
        if (end > at)
            help_put_piece(out, &column, indent, (struct kg_str){text.data + at, end - at});
        at = end + 1;
    }
    kg_buf_char(out, '\n');
}

/* Each line is a paragraph; one that starts with a space is an example and stays as it is. */
static void put_paragraphs(struct kg_buf *out, const char *text)
{
    while (*text != '\0') {
        struct kg_str line = {text, strcspn(text, "\n")};
        if (line.data[0] == ' ')
            kg_buf_printf(out, "  %.*s\n", KG_STR_ARG(line));
        else
            help_put_paragraph(out, 0, line);
        text += line.length;
        if (*text == '\n')
            text++;
    }
}

/* -- the parts of help ------------------------------------------------------------------------- */

static void put_option_name(struct kg_buf *out, const struct cli_option *option)
{
    kg_buf_printf(out, "--%s", option->name);
    if (option->argument != NULL)
        kg_buf_printf(out, " %s", option->argument);
}

/* "kaged plugin logs NAME [--follow] [--lines N]", broken to lines of 80 columns. */
static void help_put_usage(struct kg_buf *out, const struct cli_command *command)
{
    size_t start = out->length, indent = 13;
    kg_buf_printf(out, "kaged %s", command->words);
    size_t column = out->length - start + 7; /* behind "Usage: " */
    for (size_t i = 0; command->arguments[i] != NULL; i++)
        help_put_piece(out, &column, indent, kg_str(command->arguments[i]));
    for (const struct cli_option *option = command->options; option->name != NULL; option++) {
        kg_auto(kg_buf_free) struct kg_buf piece = {0};
        kg_buf_char(&piece, '[');
        put_option_name(&piece, option);
        kg_buf_char(&piece, ']');
        help_put_piece(out, &column, indent, kg_buf_view(&piece));
    }
}

static void help_put_options(struct kg_buf *out, const char *heading,
                             const struct cli_option *option)
{
    size_t meaning_column = 24;
    kg_buf_printf(out, "\n%s:\n", heading);
    for (; option->name != NULL; option++) {
        size_t start = out->length;
        if (option->letter != 0)
            kg_buf_printf(out, "  -%c, ", option->letter);
        else
            kg_buf_text(out, "      ");
        put_option_name(out, option);
        if (out->length - start >= meaning_column) {
            kg_buf_char(out, '\n');
            start = out->length;
        }
        spaces(out, meaning_column - (out->length - start));
        help_put_paragraph(out, meaning_column, kg_str(option->meaning));
    }
}

static void help_put_commands(struct kg_buf *out, const char *words)
{
    for (size_t i = 0; i < cli_command_count; i++) {
        const struct cli_command *command = &cli_commands[i];
        if (cli_command_begins(command, words))
            kg_buf_printf(out, "  %-16s  %s\n", command->words, command->summary);
    }
}

static void help_put_command(struct kg_buf *out, const struct cli_command *command)
{
    kg_buf_text(out, "Usage: ");
    help_put_usage(out, command);
    kg_buf_text(out, "\n\n");
    put_paragraphs(out, command->help);
    if (command->options[0].name != NULL)
        help_put_options(out, "Options", command->options);
    help_put_options(out, "Options of every command", cli_globals);
}

/* Whether there are commands that go on where this one ends. */
static bool is_also_family(const char *words)
{
    for (size_t i = 0; i < cli_command_count; i++)
        if (cli_command_begins(&cli_commands[i], words) && cli_commands[i].words[strlen(words)])
            return true;
    return false;
}

void help_topic(struct kg_buf *out, const char *words)
{
    const struct cli_command *command = cli_command_find(words);
    if (command != NULL) {
        help_put_command(out, command);
        if (!is_also_family(words))
            return;
        kg_buf_text(out, "\nCommands:\n");
        help_put_commands(out, words);
        return;
    }
    if (words[0] == '\0')
        kg_buf_text(out, "kaged " KAGED_VERSION ": runs plugins that nobody has to trust, "
                         "each in a cage of its own\n\n");
    kg_buf_printf(out, "Usage: kaged [--home DIR] [--json] %s%sCOMMAND\n\nCommands:\n", words,
                  words[0] ? " " : "");
    help_put_commands(out, words);
    help_put_options(out, "Options of every command", cli_globals);
    kg_buf_printf(out, "\nHelp on one command: kaged help %s%sCOMMAND\n", words,
                  words[0] ? " " : "");
    if (words[0] == '\0')
        put_paragraphs(out, "Exit codes: 0 done, 1 failed, 2 usage, 3 the daemon is not running, "
                            "4 not found, 5 refused, 6 invalid input.");
}

/* -- as JSON ----------------------------------------------------------------------------------- */

static void put_json_options(struct kg_json_writer *json, const char *key,
                             const struct cli_option *option)
{
    kg_json_named_begin(json, key, '[');
    for (; option->name != NULL; option++) {
        kg_json_begin(json, '{');
        kg_json_named_text(json, "name", option->name);
        kg_json_named_str(json, "letter",
                          option->letter ? (struct kg_str){&option->letter, 1} : KG_STR_NULL);
        kg_json_named_text(json, "argument", option->argument);
        kg_json_named_text(json, "meaning", option->meaning);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void put_json_command(struct kg_json_writer *json, const struct cli_command *command)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "words", command->words);
    kg_json_named_begin(json, "arguments", '[');
    for (size_t i = 0; command->arguments[i] != NULL; i++)
        kg_json_text(json, command->arguments[i]);
    kg_json_end(json, ']');
    put_json_options(json, "options", command->options);
    kg_json_named_text(json, "summary", command->summary);
    kg_json_named_text(json, "help", command->help);
    kg_json_named_bool(json, "needs_daemon", command->needs == CLI_DAEMON);
    kg_json_end(json, '}');
}

void help_json(struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    put_json_options(&json, "options", cli_globals);
    kg_json_named_begin(&json, "commands", '[');
    for (size_t i = 0; i < cli_command_count; i++)
        put_json_command(&json, &cli_commands[i]);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    kg_buf_char(out, '\n');
}

/* -- the command ------------------------------------------------------------------------------- */

int cli_help(struct cli *cli)
{
    struct cli topic = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (cli->argument_count > 0) {
        /*
         * The words go the way of a command line, so that a wrong one is answered in the same way.
         */
        char *argv[CLI_ARGUMENTS_MAX + 3] = {"kaged"};
        int argc = 1;
        for (size_t i = 0; i < cli->argument_count; i++)
            argv[argc++] = (char *)cli->arguments[i];
        argv[argc++] = "--help";
        struct kg_err err;
        if (cli_parse(argc, argv, &topic, &err) < 0)
            return print_error(&err);
    }
    if (cli->json)
        help_json(&text);
    else
        help_topic(&text, topic.words);
    print_out(&text);
    return CLI_DONE;
}
