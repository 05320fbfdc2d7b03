/*
 * Completion scripts, read off the table. The scripts ask a running daemon for names of plugins and
 * take only such as a manifest may have: a shell expands what it completes.
 */
#include "cli/cli.h"

/* Prints each name that kaged plugin list shows, if it is one that is safe in a shell. */
#define LIST_NAMES "plugin list 2>/dev/null | sed -n '2,$s/^\\([A-Za-z0-9_@-]\\{1,\\}\\) .*/\\1/p'"

/* -- what the table says ----------------------------------------------------------------------- */

typedef void visit_fn(struct kg_buf *out, const char *words, const char *next, const char *summary);

static bool seen_before(size_t row, size_t length)
{
    const char *words = cli_commands[row].words;
    for (size_t i = 0; i < row; i++)
        if (strncmp(cli_commands[i].words, words, length) == 0 &&
            strchr(" ", cli_commands[i].words[length]) != NULL)
            return true;
    return false;
}

/* Visits each word that may follow `words`, with a summary. */
static void each_next_word(struct kg_buf *out, const char *words, visit_fn *visit)
{
    size_t skip = strlen(words) + (words[0] ? 1 : 0);
    for (size_t i = 0; i < cli_command_count; i++) {
        const char *row = cli_commands[i].words;
        if (!cli_command_begins(&cli_commands[i], words) || strlen(row) <= skip)
            continue;
        size_t length = strcspn(row + skip, " ");
        if (seen_before(i, skip + length))
            continue;
        kg_auto(kg_free) char *next = kg_str_dup((struct kg_str){row + skip, length});
        kg_auto(kg_free) char *family = kg_format("commands about the %s", next);
        bool whole = row[skip + length] == '\0';
        visit(out, words, next, whole ? cli_commands[i].summary : family);
    }
}

/* Calls visit for "", for each family that is no command itself, and for each command. */
static void each_prefix(struct kg_buf *out, void (*visit)(struct kg_buf *out, const char *words))
{
    visit(out, "");
    for (size_t i = 0; i < cli_command_count; i++) {
        const char *words = cli_commands[i].words;
        for (size_t at = strcspn(words, " "); words[at] != '\0';
             at += 1 + strcspn(words + at + 1, " ")) {
            kg_auto(kg_free) char *family = kg_str_dup((struct kg_str){words, at});
            if (!seen_before(i, at) && cli_command_find(family) == NULL)
                visit(out, family);
        }
        visit(out, words);
    }
}

static bool takes_plugin(const struct cli_command *command)
{
    return command != NULL && command->arguments[0] != NULL &&
           strncmp(command->arguments[0], "NAME", 4) == 0;
}

/* Whether a command's words follow: they are completed as if this one were not there. */
static bool takes_command(const char *words)
{
    const struct cli_command *command = cli_command_find(words);
    return command != NULL && command->arguments[0] != NULL &&
           strcmp(command->arguments[0], "[COMMAND...]") == 0;
}

/* The choices of an argument such as "bash|zsh|fish", or NULL. */
static const char *choices_of(const struct cli_command *command)
{
    const char *argument = command ? command->arguments[0] : NULL;
    return argument != NULL && strchr(argument, '|') != NULL ? argument : NULL;
}

static void put_choices(struct kg_buf *out, const char *choices)
{
    for (; choices != NULL && *choices != '\0'; choices++)
        kg_buf_char(out, *choices == '|' ? ' ' : *choices);
}

/* " --lines -n" */
static void put_option_words(struct kg_buf *out, const struct cli_option *option)
{
    for (; option->name != NULL; option++) {
        kg_buf_printf(out, " --%s", option->name);
        if (option->letter != 0)
            kg_buf_printf(out, " -%c", option->letter);
    }
}

/* Text within single quotes, for each of the shells. */
static void put_quotable(struct kg_buf *out, const char *text, const char *escape_quote)
{
    for (; *text != '\0'; text++)
        if (*text == '\'')
            kg_buf_text(out, escape_quote);
        else
            kg_buf_char(out, *text);
}

/* -- bash and zsh: how far the words before the cursor have come ------------------------------- */

static void put_walk_case(struct kg_buf *out, const char *words, const char *next,
                          const char *summary)
{
    (void)summary;
    kg_auto(kg_free) char *joined = kg_format("%s%s%s", words, words[0] ? " " : "", next);
    if (!takes_command(joined))
        kg_buf_printf(out, "        '%s:%s') command='%s' ;;\n", words, next, joined);
}

static void put_walk_cases(struct kg_buf *out, const char *words)
{
    each_next_word(out, words, put_walk_case);
}

/* Options whose value is a word of its own: that word is no argument. */
static void put_value_options(struct kg_buf *out)
{
    for (size_t i = 0; i < cli_command_count; i++)
        for (const struct cli_option *option = cli_commands[i].options; option->name != NULL;
             option++) {
            if (option->argument != NULL)
                kg_buf_printf(out, "        '%s:--%s') ((i++)) ;;\n", cli_commands[i].words,
                              option->name);
            if (option->argument != NULL && option->letter != 0)
                kg_buf_printf(out, "        '%s:-%c') ((i++)) ;;\n", cli_commands[i].words,
                              option->letter);
        }
}

static void put_walk(struct kg_buf *out, const char *words_array, const char *first,
                     const char *last)
{
    kg_buf_printf(out, "    for ((i = %s; i < %s; i++)); do\n", first, last);
    kg_buf_printf(out, "        case \"$command:${%s[i]}\" in\n", words_array);
    kg_buf_printf(out, "        *:--home) home=(--home \"${%s[i+1]}\"); ((i++)) ;;\n", words_array);
    put_value_options(out);
    each_prefix(out, put_walk_cases);
    kg_buf_text(out, "        *:-*) ;;\n"
                     "        *) ((arguments++)) ;;\n"
                     "        esac\n"
                     "    done\n");
}

/* -- bash -------------------------------------------------------------------------------------- */

static void put_bash_word(struct kg_buf *out, const char *words, const char *next,
                          const char *summary)
{
    (void)words;
    (void)summary;
    kg_buf_printf(out, "%s ", next);
}

static void put_bash_case(struct kg_buf *out, const char *words)
{
    const struct cli_command *command = cli_command_find(words);
    kg_buf_printf(out, "    '%s')\n        words='", words);
    each_next_word(out, words, put_bash_word);
    put_choices(out, choices_of(command));
    kg_buf_text(out, "'\n        options='");
    if (command != NULL)
        put_option_words(out, command->options);
    kg_buf_printf(out, "'\n        names=%s\n        ;;\n", takes_plugin(command) ? "yes" : "");
}

void completion_bash(struct kg_buf *out)
{
    kg_buf_text(out, "# Completion of kaged for bash, printed by: kaged completion bash\n"
                     "_kaged() {\n"
                     "    local current=${COMP_WORDS[COMP_CWORD]}\n"
                     "    local command='' words='' options='' names='' arguments=0 i\n"
                     "    local -a home=()\n"
                     "    if [ \"${COMP_WORDS[COMP_CWORD-1]}\" = --home ]; then\n"
                     "        COMPREPLY=($(compgen -d -- \"$current\"))\n"
                     "        return\n"
                     "    fi\n");
    put_walk(out, "COMP_WORDS", "1", "COMP_CWORD");
    kg_buf_text(out, "    case $command in\n");
    each_prefix(out, put_bash_case);
    kg_buf_text(out, "    esac\n"
                     "    if [ \"$names\" ] && [ $arguments -eq 0 ]; then\n"
                     "        words=$(kaged \"${home[@]}\" " LIST_NAMES ")\n"
                     "    fi\n"
                     "    [[ $current == -* ]] && words=\"$options");
    put_option_words(out, cli_globals);
    kg_buf_text(out, "\"\n"
                     "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                     "}\n"
                     "complete -F _kaged kaged\n");
}

/* -- zsh --------------------------------------------------------------------------------------- */

static void put_zsh_word(struct kg_buf *out, const char *words, const char *next,
                         const char *summary)
{
    (void)words;
    kg_buf_printf(out, "            '%s:", next);
    put_quotable(out, summary, "'\\''");
    kg_buf_text(out, "'\n");
}

static void put_zsh_options(struct kg_buf *out, const struct cli_option *option)
{
    for (; option->name != NULL; option++) {
        kg_buf_printf(out, "            '--%s:", option->name);
        put_quotable(out, option->meaning, "'\\''");
        kg_buf_text(out, "'\n");
    }
}

static void put_zsh_case(struct kg_buf *out, const char *words)
{
    const struct cli_command *command = cli_command_find(words);
    kg_buf_printf(out, "    '%s')\n        entries=(", words);
    put_choices(out, choices_of(command));
    kg_buf_char(out, '\n');
    each_next_word(out, words, put_zsh_word);
    kg_buf_text(out, "        )\n        flags=(\n");
    if (command != NULL)
        put_zsh_options(out, command->options);
    kg_buf_printf(out, "        )\n        names=%s\n        ;;\n",
                  takes_plugin(command) ? "yes" : "");
}

void completion_zsh(struct kg_buf *out)
{
    kg_buf_text(out, "#compdef kaged\n"
                     "# Completion of kaged for zsh, printed by: kaged completion zsh\n"
                     "_kaged() {\n"
                     "    local command='' names='' arguments=0 i\n"
                     "    local -a home entries flags\n"
                     "    if [[ $words[CURRENT-1] == --home ]]; then\n"
                     "        _files -/\n"
                     "        return\n"
                     "    fi\n");
    put_walk(out, "words", "2", "CURRENT");
    kg_buf_text(out, "    case $command in\n");
    each_prefix(out, put_zsh_case);
    kg_buf_text(out, "    esac\n"
                     "    if [[ -n $names && $arguments -eq 0 ]]; then\n"
                     "        entries=(${(f)\"$(kaged $home " LIST_NAMES ")\"})\n"
                     "    fi\n"
                     "    if [[ $words[CURRENT] == -* ]]; then\n"
                     "        flags+=(\n");
    put_zsh_options(out, cli_globals);
    kg_buf_text(out, "        )\n"
                     "        _describe option flags\n"
                     "    else\n"
                     "        _describe kaged entries\n"
                     "    fi\n"
                     "}\n"
                     "if [ \"$funcstack[1]\" = _kaged ]; then\n"
                     "    _kaged \"$@\"\n"
                     "else\n"
                     "    compdef _kaged kaged\n"
                     "fi\n");
}

/* -- fish -------------------------------------------------------------------------------------- */

static void put_fish_word(struct kg_buf *out, const char *words, const char *next,
                          const char *summary)
{
    kg_buf_printf(out, "complete -c kaged -n '__kaged_at \"%s\"' -a %s -d '", words, next);
    put_quotable(out, summary, "\\'");
    kg_buf_text(out, "'\n");
}

static void put_fish_option(struct kg_buf *out, const char *words, const struct cli_option *option)
{
    kg_buf_text(out, "complete -c kaged");
    if (words[0] != '\0')
        kg_buf_printf(out, " -n '__kaged_at \"%s\"'", words);
    kg_buf_printf(out, " -l %s", option->name);
    if (option->letter != 0)
        kg_buf_printf(out, " -s %c", option->letter);
    if (option->argument != NULL)
        kg_buf_text(out, strcmp(option->argument, "DIR") == 0
                             ? " -x -a '(__fish_complete_directories)'"
                             : " -x");
    kg_buf_text(out, " -d '");
    put_quotable(out, option->meaning, "\\'");
    kg_buf_text(out, "'\n");
}

static void put_fish_prefix(struct kg_buf *out, const char *words)
{
    const struct cli_command *command = cli_command_find(words);
    each_next_word(out, words, put_fish_word);
    if (command == NULL)
        return;
    for (const struct cli_option *option = command->options; option->name != NULL; option++)
        put_fish_option(out, words, option);
    if (choices_of(command) != NULL) {
        kg_buf_printf(out, "complete -c kaged -n '__kaged_at \"%s\"' -a '", words);
        put_choices(out, choices_of(command));
        kg_buf_text(out, "'\n");
    }
    if (takes_plugin(command))
        kg_buf_printf(out, "complete -c kaged -n '__kaged_at \"%s\"' -a '(__kaged_plugins)'\n",
                      words);
}

static void put_fish_case(struct kg_buf *out, const char *words, const char *next,
                          const char *summary)
{
    (void)summary;
    kg_auto(kg_free) char *joined = kg_format("%s%s%s", words, words[0] ? " " : "", next);
    if (!takes_command(joined))
        kg_buf_printf(out, "            case '%s:%s'\n                set command '%s'\n", words,
                      next, joined);
}

static void put_fish_cases(struct kg_buf *out, const char *words)
{
    each_next_word(out, words, put_fish_case);
}

void completion_fish(struct kg_buf *out)
{
    kg_buf_text(out, "# Completion of kaged for fish, printed by: kaged completion fish\n"
                     "function __kaged_at\n"
                     "    set -l command ''\n"
                     "    set -l skip 0\n"
                     "    for word in (commandline -opc)[2..-1]\n"
                     "        if test $skip = 1\n"
                     "            set skip 0\n"
                     "            continue\n"
                     "        end\n"
                     "        switch \"$command:$word\"\n"
                     "            case '*:--home'\n"
                     "                set skip 1\n");
    each_prefix(out, put_fish_cases);
    kg_buf_text(out, "        end\n"
                     "    end\n"
                     "    test \"$command\" = \"$argv[1]\"\n"
                     "end\n"
                     "function __kaged_plugins\n"
                     "    set -l words (commandline -opc)\n"
                     "    set -l home\n"
                     "    if set -l at (contains -i -- --home $words)\n"
                     "        set home --home $words[(math $at + 1)]\n"
                     "    end\n"
                     "    kaged $home " LIST_NAMES "\n"
                     "end\n"
                     "complete -c kaged -f\n");
    for (const struct cli_option *option = cli_globals; option->name != NULL; option++)
        put_fish_option(out, "", option);
    each_prefix(out, put_fish_prefix);
}

/* -- the command ------------------------------------------------------------------------------- */

int cli_completion(struct cli *cli)
{
    static const struct {
        const char *shell;
        void (*put)(struct kg_buf *out);
    } shells[] = {
        {"bash", completion_bash},
        {"zsh", completion_zsh},
        {"fish", completion_fish},
    };
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (size_t i = 0; i < KG_COUNT(shells); i++)
        if (strcmp(cli_argument(cli, 0), shells[i].shell) == 0)
            shells[i].put(&text);
    if (text.length == 0) {
        struct kg_err err;
        kg_fail(&err, KG_E_USAGE, "completion: %.100s is not a shell that kaged knows",
                cli_argument(cli, 0));
        kg_hint(&err, "usage: kaged completion %s", cli->command->arguments[0]);
        return print_error(&err);
    }
    print_out(&text);
    return CLI_DONE;
}
