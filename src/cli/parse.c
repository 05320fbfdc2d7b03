/*
 * From argv to one row of the table with its arguments and options. What does not fit is refused
 * with the nearest thing that would: nothing is run on a guess.
 */
#include "cli/cli.h"

#include <getopt.h>

#define GLOBALS_MAX 8
#define SET_MAX     (GLOBALS_MAX + CLI_OPTIONS_MAX)
#define FIRST_VALUE 256 /* what getopt_long gives for long options: past every letter */

/* The options that are valid at one place, as getopt_long wants them. */
struct option_set {
    const struct cli_option *options[SET_MAX];
    size_t count;
    struct option longs[SET_MAX + 1];
    char letters[2 * SET_MAX + 3];
};

static void cli_parse_set_add(struct option_set *set, const struct cli_option *options)
{
    for (; options->name != NULL && set->count < SET_MAX; options++) {
        set->longs[set->count] = (struct option){
            .name = options->name,
            .has_arg = options->argument ? required_argument : no_argument,
            .val = FIRST_VALUE + (int)set->count,
        };
        set->options[set->count++] = options;
        if (options->letter == 0)
            continue;
        char *end = set->letters + strlen(set->letters);
        *end++ = options->letter;
        if (options->argument != NULL)
            *end = ':';
    }
}

static const struct cli_option *set_find(const struct option_set *set, int value)
{
    if (value >= FIRST_VALUE && value < FIRST_VALUE + (int)set->count)
        return set->options[value - FIRST_VALUE];
    for (size_t i = 0; i < set->count; i++)
        if (set->options[i]->letter != 0 && set->options[i]->letter == value)
            return set->options[i];
    return NULL;
}

/* -- errors ------------------------------------------------------------------------------------ */

/* "plugin logs: ", to stand before a message about that command. */
static const char *before(const struct cli *cli, char text[CLI_WORDS_MAX + 2])
{
    snprintf(text, CLI_WORDS_MAX + 2, "%s%s", cli->words, cli->words[0] ? ": " : "");
    return text;
}

static void hint_usage(const struct cli *cli, struct kg_err *err)
{
    if (cli->command == NULL) {
        kg_hint(err, "list the commands with: kaged help%s%s", cli->words[0] ? " " : "",
                cli->words);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf arguments = {0};
    for (size_t i = 0; cli->command->arguments[i] != NULL; i++)
        kg_buf_printf(&arguments, " %s", cli->command->arguments[i]);
    kg_hint(err, "usage: kaged %s%s; more with: kaged help %s", cli->words,
            kg_buf_terminate(&arguments), cli->words);
}

static int unknown_long(const struct cli *cli, const struct option_set *set, const char *given,
                        struct kg_err *err)
{
    char start[CLI_WORDS_MAX + 2];
    const char *names[SET_MAX];
    for (size_t i = 0; i < set->count; i++)
        names[i] = set->options[i]->name;
    struct kg_str name = {given + 2, strcspn(given + 2, "=")};
    int result = kg_fail(err, KG_E_USAGE, "%sunknown option --%.*s", before(cli, start),
                         KG_STR_CUT(name, KG_CUT_WORD));
    const char *nearest = kg_str_nearest(name, names, set->count);
    if (nearest != NULL)
        kg_hint(err, "did you mean --%s?", nearest);
    else
        hint_usage(cli, err);
    return result;
}

/* getopt_long found fault with the option before optind. */
static int bad_option(const struct cli *cli, const struct option_set *set, int fault, char **argv,
                      struct kg_err *err)
{
    char start[CLI_WORDS_MAX + 2];
    const struct cli_option *known = set_find(set, optopt);
    if (known == NULL && optopt == 0)
        return unknown_long(cli, set, argv[optind - 1], err);
    int result;
    if (known == NULL)
        result = kg_fail(err, KG_E_USAGE, "%sunknown option -%c", before(cli, start), optopt);
    else if (fault == ':')
        result = kg_fail(err, KG_E_USAGE, "%s--%s needs %s", before(cli, start), known->name,
                         known->argument);
    else
        result = kg_fail(err, KG_E_USAGE, "%s--%s takes no value", before(cli, start), known->name);
    hint_usage(cli, err);
    return result;
}

/* -- options ----------------------------------------------------------------------------------- */

static void cli_parse_keep(struct cli *cli, const struct cli_option *option, const char *value)
{
    for (size_t i = 0; cli->command != NULL && i < CLI_OPTIONS_MAX; i++)
        if (option == &cli->command->options[i]) {
            cli->values[i] = value ? value : "";
            if (cli->given_count < CLI_ARGUMENTS_MAX) {
                cli->given[cli->given_count].option = option;
                cli->given[cli->given_count++].value = cli->values[i];
            }
            return;
        }
    if (strcmp(option->name, "home") == 0)
        cli->home = value;
    else if (strcmp(option->name, "system") == 0)
        cli->system = true;
    else if (strcmp(option->name, "json") == 0)
        cli->json = true;
    else if (strcmp(option->name, "help") == 0)
        cli->help = true;
    else
        cli->version = true;
}

/*
 * Takes the options that follow argv[0]. Before the command is known only global ones are valid,
 * and they end at the first word. *ret_next is the index of the first word after them.
 */
static int cli_parse_take_options(struct cli *cli, int argc, char **argv, int *ret_next,
                                  struct kg_err *err)
{
    /* ':' tells a missing value from an unknown option; '+' stops at the first word. */
    struct option_set set = {.letters = ":"};
    if (cli->command == NULL)
        strcpy(set.letters, "+:");
    /* getopt_long takes the first of a name: a command's own --version is not the global one. */
    if (cli->command != NULL)
        cli_parse_set_add(&set, cli->command->options);
    cli_parse_set_add(&set, cli_globals);
    optind = 0;
    opterr = 0;
    int value;
    while ((value = getopt_long(argc, argv, set.letters, set.longs, NULL)) != -1) {
        const struct cli_option *option = set_find(&set, value);
        if (option == NULL)
            return bad_option(cli, &set, value, argv, err);
        cli_parse_keep(cli, option, optarg);
    }
    *ret_next = optind;
    return 0;
}

/* -- the command ------------------------------------------------------------------------------- */

static bool some_begins(const char *words)
{
    for (size_t i = 0; i < cli_command_count; i++)
        if (cli_command_begins(&cli_commands[i], words))
            return true;
    return false;
}

/* Adds a word if there is a command that goes on with it. */
static bool cli_parse_extend(struct cli *cli, const char *word)
{
    char words[CLI_WORDS_MAX];
    int length =
        snprintf(words, sizeof(words), "%s%s%s", cli->words, cli->words[0] ? " " : "", word);
    if (length <= 0 || (size_t)length >= sizeof(words) || !some_begins(words))
        return false;
    memcpy(cli->words, words, sizeof(words));
    cli->command = cli_command_find(words);
    return true;
}

/* The words that may follow cli->words, each owned by the list. */
static char **next_words(const struct cli *cli)
{
    char **list = kg_list_new(0);
    size_t skip = strlen(cli->words) + (cli->words[0] ? 1 : 0);
    for (size_t i = 0; i < cli_command_count; i++) {
        const char *words = cli_commands[i].words;
        if (cli_command_begins(&cli_commands[i], cli->words) && strlen(words) > skip)
            kg_list_add(&list,
                        kg_str_dup((struct kg_str){words + skip, strcspn(words + skip, " ")}));
    }
    return list;
}

/* The command that ends in this word: "plugin logs" for "logs". */
static const struct cli_command *ending_in(const char *word)
{
    for (size_t i = 0; i < cli_command_count; i++) {
        const char *space = strrchr(cli_commands[i].words, ' ');
        if (space != NULL && strcmp(space + 1, word) == 0)
            return &cli_commands[i];
    }
    return NULL;
}

static int unknown_command(const struct cli *cli, const char *word, struct kg_err *err)
{
    const char *space = cli->words[0] ? " " : "";
    int result =
        kg_fail(err, KG_E_USAGE, "unknown command: %s%s%" KG_S_WORD, cli->words, space, word);
    char **known = next_words(cli);
    const char *nearest =
        kg_str_nearest(kg_str(word), (const char *const *)known, kg_list_count(known));
    const struct cli_command *elsewhere = cli->words[0] ? NULL : ending_in(word);
    if (elsewhere != NULL)
        kg_hint(err, "did you mean: kaged %s?", elsewhere->words);
    else if (nearest != NULL)
        kg_hint(err, "did you mean: kaged %s%s%s?", cli->words, space, nearest);
    else
        hint_usage(cli, err);
    kg_list_free(known);
    return result;
}

/* Global options and words up to a command; *at is the index of the last word taken. */
static int cli_parse_find_command(struct cli *cli, int argc, char **argv, int *at,
                                  struct kg_err *err)
{
    while (cli->command == NULL) {
        int next = 0;
        int result = cli_parse_take_options(cli, argc - *at, argv + *at, &next, err);
        if (result < 0)
            return result;
        if (*at + next >= argc)
            return 0;
        *at += next;
        if (!cli_parse_extend(cli, argv[*at]))
            return unknown_command(cli, argv[*at], err);
    }
    /* "audit" is a command, and "audit verify" is one too. */
    if (*at + 1 < argc && cli_parse_extend(cli, argv[*at + 1]))
        (*at)++;
    return 0;
}

/* -- arguments --------------------------------------------------------------------------------- */

static int keep_arguments(struct cli *cli, int argc, char **argv, struct kg_err *err)
{
    const char *const *wanted = cli->command->arguments;
    size_t known = 0;
    if (wanted[0] != NULL && strcmp(wanted[0], "SESSION") == 0 && cli_has(cli, "last")) {
        cli->arguments[cli->argument_count++] = "@last";
        known++;
    }
    bool repeated = false; /* the last one wanted may come once more, or not */
    for (int i = 0; i < argc; i++) {
        bool more = wanted[known] != NULL && strstr(wanted[known], "...") != NULL;
        if (wanted[known] == NULL || cli->argument_count == CLI_ARGUMENTS_MAX) {
            int result = kg_fail(err, KG_E_USAGE, "%s: one argument too many: %" KG_S_WORD,
                                 cli->words, argv[i]);
            hint_usage(cli, err);
            return result;
        }
        if (argv[i][0] == '\0' && strcmp(wanted[known], "VALUE") != 0) /* which may say nothing */
            return kg_fail(err, KG_E_USAGE, "%s: %s is empty", cli->words, wanted[known]);
        cli->arguments[cli->argument_count++] = argv[i];
        repeated = more;
        if (!more)
            known++;
    }
    if (wanted[known] != NULL && wanted[known][0] != '[' && !repeated) {
        int result = kg_fail(err, KG_E_USAGE, "%s: %s is missing", cli->words, wanted[known]);
        hint_usage(cli, err);
        return result;
    }
    return 0;
}

int cli_parse(int argc, char **argv, struct cli *ret_cli, struct kg_err *err)
{
    struct cli cli = {0};
    int at = 0;
    int result = cli_parse_find_command(&cli, argc, argv, &at, err);
    if (result == 0 && cli.command != NULL) {
        int next = 0;
        result = cli_parse_take_options(&cli, argc - at, argv + at, &next, err);
        if (result == 0 && !cli.help)
            result = keep_arguments(&cli, argc - at - next, argv + at + next, err);
    }
    if (result == 0)
        *ret_cli = cli;
    return result;
}

/* -- questions of the commands ----------------------------------------------------------------- */

const char *cli_argument(const struct cli *cli, size_t index)
{
    return index < cli->argument_count ? cli->arguments[index] : NULL;
}

const char *cli_option_value(const struct cli *cli, const char *name)
{
    const struct cli_option *options = cli->command->options;
    for (size_t i = 0; options[i].name != NULL; i++)
        if (strcmp(options[i].name, name) == 0)
            return cli->values[i];
    return NULL;
}

bool cli_has(const struct cli *cli, const char *name)
{
    return cli_option_value(cli, name) != NULL;
}

char **cli_option_list(const struct cli *cli, const char *name)
{
    char **list = kg_list_new(0);
    for (size_t i = 0; i < cli->given_count; i++)
        if (strcmp(cli->given[i].option->name, name) == 0)
            kg_list_add(&list, kg_strdup(cli->given[i].value));
    return list;
}

int cli_option_number(const struct cli *cli, const char *name, int64_t min, int64_t max,
                      int64_t *ret_value, struct kg_err *err)
{
    const char *text = cli_option_value(cli, name);
    int64_t value;
    if (text == NULL)
        return 0;
    if (!kg_str_to_int(kg_str(text), &value) || value < min || value > max)
        return kg_fail(err, KG_E_USAGE,
                       "%s: --%s: %" KG_S_WORD " is not a whole number from %lld to %lld",
                       cli->words, name, text, (long long)min, (long long)max);
    *ret_value = value;
    return 0;
}
