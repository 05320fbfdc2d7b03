/*
 * What can follow the words that were typed, read off the table; the scripts of the shells only
 * show it. Names of plugins, methods, projects and agents come from a daemon that runs, if one
 * answers at once. They are printed only if they are such as a manifest may have: a shell expands
 * what it completes.
 */
#include "cli/cli.h"

#include "audit/audit.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_MS     1000 /* who presses Tab waits for it */
#define TYPED_MAX_BYTES ((size_t)65536)

/* How far the words before the last one have come. */
struct typed {
    char command[CLI_WORDS_MAX]; /* "plugin call" */
    const char *home;            /* of --home, or NULL */
    bool system;
    bool any_command;                /* after "help": words of a command are its arguments */
    bool no_options;                 /* "--" stood before */
    const struct cli_option *option; /* whose value the last word is, or NULL */
    const char *first;               /* argument, or NULL */
    const char *project;             /* of --project, or NULL */
    size_t arguments;
    const char *last;   /* the word that is being typed */
    struct kg_str glue; /* what stands before its value: "--event=" */
};

/* -- candidates -------------------------------------------------------------------------------- */

static void cli_complete_put(struct kg_buf *out, const struct typed *typed, const char *word,
                             const char *meaning)
{
    kg_buf_str(out, typed->glue);
    kg_buf_printf(out, "%s\t%s\n", word, meaning);
}

/* A line end is where the next would begin, and a shell may take the rest for its own. */
static bool cli_complete_is_safe(struct kg_str name)
{
    static const char signs[] = "-_.@/";
    for (size_t i = 0; i < name.length; i++)
        if (!kg_is_letter_or_digit(name.data[i]) &&
            memchr(signs, name.data[i], sizeof(signs) - 1) == NULL)
            return false;
    return name.length > 0 && name.data[0] != '-';
}

static void put_safe(struct kg_buf *out, const struct typed *typed, struct kg_str name,
                     const char *meaning)
{
    if (!cli_complete_is_safe(name))
        return;
    kg_auto(kg_free) char *word = kg_str_dup(name);
    cli_complete_put(out, typed, word, meaning);
}

/* -- what a daemon knows ----------------------------------------------------------------------- */

/* A service manager may hold the socket of a daemon that does not run: asking would start it. */
static bool daemon_runs(const struct config_paths *paths)
{
    kg_auto(kg_buf_free) struct kg_buf pid = {0}, name = {0};
    if (kg_read_file(paths->pid_file, 32, &pid, NULL) < 0)
        return false;
    kg_auto(kg_free) char *path = kg_format("/proc/%d/comm", atoi(kg_buf_terminate(&pid)));
    return kg_read_file(path, 64, &name, NULL) == 0 && kg_str_is(kg_buf_view(&name), "kaged\n");
}

static char *expand_home(const char *path)
{
    const char *home = getenv("HOME");
    return path && kg_str_starts(kg_str(path), "~/") && home ? kg_format("%s%s", home, path + 1)
                                                             : kg_strdup(path);
}

/* NULL if nobody answers, or with an error. */
static struct kg_doc *cli_complete_ask(const struct typed *typed, const char *target)
{
    const struct client_request request = {"GET", target, .silence_ms = PATIENCE_MS};
    kg_auto(config_paths_free) struct config_paths paths = {0};
    kg_auto(kg_free) char *home = expand_home(typed->home);
    struct client_reply reply = {0};
    if (typed->system)
        config_paths_system(&paths);
    else if (config_paths_find(home, &paths, NULL) < 0)
        return NULL;
    struct kg_doc *doc = NULL;
    if (daemon_runs(&paths) && client_exchange(paths.socket, &request, &reply, NULL) == 0 &&
        reply.status == 200)
        doc = kg_json_read(kg_buf_view(&reply.body), NULL);
    kg_buf_free(&reply.body);
    return doc;
}

static const struct kg_node *cli_complete_list_of(const struct kg_doc *doc, const char *key)
{
    return kg_node_list(doc != NULL ? doc->root : NULL, key);
}

/* One member of each item of a list in the daemon's answer. */
static void cli_complete_put_listed(struct kg_buf *out, const struct typed *typed,
                                    const char *target, const char *list, const char *member,
                                    const char *meaning)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = cli_complete_ask(typed, target);
    const struct kg_node *items = cli_complete_list_of(doc, list);
    for (uint32_t i = 0; i < items->count; i++)
        put_safe(out, typed, cli_text(&items->items[i], member), meaning);
}

static void cli_complete_put_plugins(struct kg_buf *out, const struct typed *typed)
{
    cli_complete_put_listed(out, typed, "/api/v1/plugins", "plugins", "name", "plugin");
}

static void cli_complete_put_methods(struct kg_buf *out, const struct typed *typed)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    client_put_target(&target, "plugins", typed->first, "");
    cli_complete_put_listed(out, typed, kg_buf_terminate(&target), "methods", "name", "method");
}

static void put_knobs(struct kg_buf *out, const struct typed *typed)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    client_put_target(&target, "plugins", typed->first, "/knobs");
    cli_complete_put_listed(out, typed, kg_buf_terminate(&target), "knobs", "name", "knob");
}

static void cli_complete_put_secrets(struct kg_buf *out, const struct typed *typed)
{
    cli_complete_put_listed(out, typed, "/api/v1/secrets", "secrets", "name", "secret");
}

static void put_system_plugins(struct kg_buf *out, const struct typed *typed)
{
    cli_complete_put_listed(out, typed, "/api/v1/system-plugins", "system_plugins", "name",
                            "system plugin");
}

static void cli_complete_put_projects(struct kg_buf *out, const struct typed *typed)
{
    cli_complete_put_listed(out, typed, "/api/v1/projects", "projects", "id", "project");
}

/* The newest; each means its project, which has a name of letters, digits and dashes. */
static void put_sessions(struct kg_buf *out, const struct typed *typed)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        cli_complete_ask(typed, "/api/v1/sessions?limit=50");
    const struct kg_node *sessions = cli_complete_list_of(doc, "sessions");
    for (uint32_t i = 0; i < sessions->count; i++) {
        struct kg_str project = cli_text(&sessions->items[i], "project_id");
        kg_auto(kg_free) char *meaning =
            kg_str_dup(cli_complete_is_safe(project) ? project : KG_STR("session"));
        put_safe(out, typed, cli_text(&sessions->items[i], "id"), meaning);
    }
}

/* Of the session or the project that is the first argument, or of the project of an option. */
static void cli_complete_put_agents(struct kg_buf *out, const struct typed *typed)
{
    bool by_session = typed->first != NULL && strncmp(typed->command, "session ", 8) == 0;
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    if (by_session)
        client_put_target(&target, "sessions", typed->first, "");
    else
        client_put_target(&target, "projects", typed->project ? typed->project : typed->first,
                          "/agents");
    cli_complete_put_listed(out, typed, kg_buf_terminate(&target), "agents", "path", "agent");
}

/* -- what the tables know ---------------------------------------------------------------------- */

static void put_events(struct kg_buf *out, const struct typed *typed)
{
    for (enum audit_event event = 0; event < AUDIT_EVENT_COUNT; event++)
        cli_complete_put(out, typed, audit_event_row(event)->name, audit_event_row(event)->when);
}

static void cli_complete_put_keys(struct kg_buf *out, const struct typed *typed)
{
    for (size_t i = 0; i < config_key_count; i++) {
        kg_auto(kg_buf_free) struct kg_buf name = {0};
        config_key_print(&config_keys[i], KG_STR("*"), &name);
        if (strchr(kg_buf_terminate(&name), '*') == NULL) /* else the operator has to name it */
            cli_complete_put(out, typed, name.data, config_keys[i].meaning);
    }
}

/* Each of "bash|zsh|fish". */
static void cli_complete_put_choices(struct kg_buf *out, const struct typed *typed,
                                     const char *choices)
{
    for (size_t length; *choices != '\0'; choices += length + (choices[length] == '|')) {
        length = strcspn(choices, "|");
        put_safe(out, typed, (struct kg_str){choices, length}, "");
    }
}

/* Of the key before it. */
static void cli_complete_put_values(struct kg_buf *out, const struct typed *typed)
{
    for (size_t i = 0; typed->first != NULL && i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        kg_auto(kg_buf_free) struct kg_buf name = {0};
        config_key_print(key, KG_STR("*"), &name);
        if (strcmp(kg_buf_terminate(&name), typed->first) != 0)
            continue;
        if (key->type == CONFIG_TYPE_BOOL)
            cli_complete_put_choices(out, typed, "true|false");
        else if (key->type == CONFIG_TYPE_TEXT)
            cli_complete_put_choices(out, typed, key->choices);
    }
}

/* The shell knows its files best. */
static void cli_complete_put_files(struct kg_buf *out, const struct typed *typed)
{
    (void)typed;
    kg_buf_text(out, ":files\n");
}

static void put_folders(struct kg_buf *out, const struct typed *typed)
{
    (void)typed;
    kg_buf_text(out, ":folders\n");
}

/* What an argument, or the value of an option, is, by the word that stands for it in the table. */
static void cli_complete_put_kind(struct kg_buf *out, const struct typed *typed,
                                  const char *placeholder)
{
    static const struct {
        const char *placeholder;
        void (*put)(struct kg_buf *out, const struct typed *typed);
    } kinds[] = {
        {"NAME", cli_complete_put_plugins},
        {"METHOD", cli_complete_put_methods},
        {"KEY", cli_complete_put_keys},
        {"VALUE", cli_complete_put_values},
        {"EVENT", put_events},
        {"DIR", put_folders},
        {"PATH", cli_complete_put_files},
        {"FILE", cli_complete_put_files},
        {"SCHEMA", cli_complete_put_files},
        {"INSTANCE", cli_complete_put_files},
        {"SOURCE", cli_complete_put_files},
        {"PROJECT", cli_complete_put_projects},
        {"SECRET", cli_complete_put_secrets},
        {"SYSTEM_PLUGIN", put_system_plugins},
        {"SESSION", put_sessions},
        {"AGENT", cli_complete_put_agents},
        {"KNOB", put_knobs},
    };
    const char *start = placeholder + strspn(placeholder, "[");
    kg_auto(kg_free) char *kind = kg_str_dup((struct kg_str){start, strcspn(start, "].")});
    if (strchr(kind, '|') != NULL)
        cli_complete_put_choices(out, typed, kind);
    for (size_t i = 0; i < KG_COUNT(kinds); i++)
        if (strcmp(kind, kinds[i].placeholder) == 0)
            kinds[i].put(out, typed);
}

static void cli_complete_put_options(struct kg_buf *out, const struct typed *typed,
                                     const struct cli_option *options)
{
    for (; options->name != NULL; options++) {
        kg_auto(kg_free) char *word = kg_format("--%s", options->name);
        cli_complete_put(out, typed, word, options->meaning);
    }
}

/* Whether an earlier row has the same words up to there. */
static bool seen_before(size_t row, size_t length)
{
    const char *words = cli_commands[row].words;
    for (size_t i = 0; i < row; i++)
        if (strncmp(cli_commands[i].words, words, length) == 0 &&
            strchr(" ", cli_commands[i].words[length]) != NULL)
            return true;
    return false;
}

static void cli_complete_put_commands(struct kg_buf *out, const struct typed *typed)
{
    size_t skip = strlen(typed->command) + (typed->command[0] ? 1 : 0);
    for (size_t i = 0; i < cli_command_count; i++) {
        const char *words = cli_commands[i].words;
        if (!cli_command_begins(&cli_commands[i], typed->command) || strlen(words) <= skip)
            continue;
        size_t length = strcspn(words + skip, " ");
        if (seen_before(i, skip + length))
            continue;
        kg_auto(kg_free) char *word = kg_str_dup((struct kg_str){words + skip, length});
        kg_auto(kg_free) char *family = kg_format("commands about the %s", word);
        cli_complete_put(out, typed, word, words[skip + length] ? family : cli_commands[i].summary);
    }
}

/* -- the words before the last one ------------------------------------------------------------- */

static const struct cli_option *find_option(const struct cli_option *options, const char *word)
{
    for (; options->name != NULL; options++) {
        size_t length = strlen(options->name);
        bool by_name = strncmp(word, "--", 2) == 0 &&
                       strncmp(word + 2, options->name, length) == 0 &&
                       strchr("=", word[2 + length]) != NULL;
        bool by_letter = options->letter != 0 && word[1] == options->letter && word[2] == '\0';
        if (by_name || by_letter)
            return options;
    }
    return NULL;
}

static const struct cli_option *known_option(const struct typed *typed, const char *word)
{
    const struct cli_command *command = cli_command_find(typed->command);
    const struct cli_option *own = command ? find_option(command->options, word) : NULL;
    return own != NULL ? own : find_option(cli_globals, word);
}

static void cli_complete_take_value(struct typed *typed, const struct cli_option *option,
                                    const char *value)
{
    if (strcmp(option->name, "home") == 0)
        typed->home = value;
    else if (strcmp(option->name, "project") == 0)
        typed->project = value;
}

static void take_option(struct typed *typed, const char *word)
{
    const struct cli_option *option = known_option(typed, word);
    const char *equals = strchr(word, '=');
    if (strcmp(word, "--") == 0)
        typed->no_options = true;
    if (option == NULL)
        return;
    if (option->argument != NULL && equals == NULL)
        typed->option = option;
    else if (option->argument != NULL)
        cli_complete_take_value(typed, option, equals + 1);
    else if (strcmp(option->name, "system") == 0)
        typed->system = true;
}

static bool extend_command(struct typed *typed, const char *word)
{
    char longer[CLI_WORDS_MAX];
    int length = snprintf(longer, sizeof(longer), "%s%s%s", typed->command,
                          typed->command[0] ? " " : "", word);
    if (typed->arguments > 0 || (size_t)length >= sizeof(longer))
        return false;
    for (size_t i = 0; i < cli_command_count; i++)
        if (cli_command_begins(&cli_commands[i], longer)) {
            memcpy(typed->command, longer, sizeof(longer));
            return true;
        }
    return false;
}

/* "help" is followed by another command. */
static void look_for_help(struct typed *typed)
{
    const struct cli_command *command = cli_command_find(typed->command);
    if (command == NULL || command->arguments[0] == NULL ||
        strcmp(command->arguments[0], "[COMMAND...]") != 0)
        return;
    typed->command[0] = '\0';
    typed->any_command = true;
}

static void cli_complete_take_word(struct typed *typed, const char *word)
{
    if (strcmp(word, "=") == 0)
        return; /* bash takes --home=DIR apart */
    if (typed->option != NULL) {
        cli_complete_take_value(typed, typed->option, word);
        typed->option = NULL;
    } else if (word[0] == '-' && !typed->no_options) {
        take_option(typed, word);
    } else if (extend_command(typed, word)) {
        look_for_help(typed);
    } else if (typed->arguments++ == 0) {
        typed->first = word;
    }
}

/* -- the last word ----------------------------------------------------------------------------- */

/* "--event=" and what stands behind it are one word for most shells. */
static void look_for_glue(struct typed *typed)
{
    const char *equals = strchr(typed->last, '=');
    if (typed->option != NULL || equals == NULL || strncmp(typed->last, "--", 2) != 0)
        return;
    typed->option = known_option(typed, typed->last);
    typed->glue = (struct kg_str){typed->last, (size_t)(equals + 1 - typed->last)};
}

static void cli_complete_put_argument(struct kg_buf *out, const struct typed *typed)
{
    const struct cli_command *command = cli_command_find(typed->command);
    size_t last = 0;
    if (typed->arguments == 0)
        cli_complete_put_commands(out, typed);
    if (command == NULL || typed->any_command || command->arguments[0] == NULL)
        return;
    while (command->arguments[last + 1] != NULL)
        last++;
    bool repeats = strstr(command->arguments[last], "...") != NULL;
    if (typed->arguments <= last || repeats)
        cli_complete_put_kind(
            out, typed, command->arguments[typed->arguments < last ? typed->arguments : last]);
}

void complete_words(struct kg_buf *out, char *const *words)
{
    struct typed typed = {.last = ""};
    for (; *words != NULL && words[1] != NULL; words++)
        cli_complete_take_word(&typed, *words);
    if (*words != NULL && strcmp(*words, "=") != 0)
        typed.last = *words;
    look_for_glue(&typed);
    const struct cli_command *command = cli_command_find(typed.command);
    if (typed.option != NULL && typed.option->argument != NULL) {
        cli_complete_put_kind(out, &typed, typed.option->argument);
    } else if (typed.last[0] == '-' && !typed.no_options) {
        if (command != NULL)
            cli_complete_put_options(out, &typed, command->options);
        cli_complete_put_options(out, &typed, cli_globals);
    } else {
        cli_complete_put_argument(out, &typed);
    }
}

/* -- the command ------------------------------------------------------------------------------- */

static void cli_complete_give_up(int signal)
{
    (void)signal;
    _exit(CLI_DONE);
}

static void cli_complete_read_all(int fd, struct kg_buf *ret_text)
{
    char bytes[4096];
    ssize_t got;
    while (ret_text->length < TYPED_MAX_BYTES && (got = read(fd, bytes, sizeof(bytes))) > 0)
        kg_buf_append(ret_text, bytes, (size_t)got);
}

/* Nothing of this may disturb a command line: what cannot be known is not said. */
int cli_completion_words(struct cli *cli)
{
    (void)cli;
    kg_auto(kg_buf_free) struct kg_buf text = {0}, out = {0};
    signal(SIGALRM, cli_complete_give_up);
    alarm(PATIENCE_MS / 1000 + 1); /* whatever it waits for */
    cli_complete_read_all(STDIN_FILENO, &text);
    char **words = kg_list_new(0);
    for (char *line = kg_buf_terminate(&text), *end; (end = strchr(line, '\n')) != NULL;
         line = end + 1)
        kg_list_add(&words, kg_str_dup((struct kg_str){line, (size_t)(end - line)}));
    complete_words(&out, words);
    kg_list_free(words);
    print_out(&out);
    return CLI_DONE;
}
