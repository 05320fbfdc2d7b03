/*
 * The tables' generator. It fills the lists of the manual pages, and writes the example
 * configuration, from the same rows that the programs run on, so that neither can be behind the
 * other.
 *
 *   gen page PAGE.in   the page on stdout, its @lists@ filled in
 *   gen config         config.toml with every key
 */
#include "audit/audit.h"
#include "cli/cli.h"
#include "config/config.h"
#include "http/http.h"
#include "manifest/manifest.h"
#include "supervisor/supervisor.h"

#include <stdio.h>
#include <stdlib.h>

/* Text for roff: a leading dot or quote is no request, a dash no hyphen, a backslash no escape. */
static void put_text(struct kg_buf *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        kg_buf_text(out, "\\&");
    for (; *text != '\0'; text++) {
        if (*text == '-')
            kg_buf_text(out, "\\-");
        else if (*text == '\\')
            kg_buf_text(out, "\\e");
        else
            kg_buf_char(out, *text);
    }
}

static void put_option(struct kg_buf *out, const struct cli_option *option)
{
    kg_buf_text(out, ".TP\n\\fB");
    if (option->letter != 0)
        kg_buf_printf(out, "\\-%c\\fR, \\fB", option->letter);
    kg_buf_text(out, "\\-\\-");
    put_text(out, option->name);
    kg_buf_text(out, "\\fR");
    if (option->argument != NULL)
        kg_buf_printf(out, " \\fI%s\\fR", option->argument);
    kg_buf_char(out, '\n');
    put_text(out, option->meaning);
    kg_buf_char(out, '\n');
}

static void put_help(struct kg_buf *out, const char *help)
{
    while (*help != '\0') {
        size_t length = strcspn(help, "\n");
        kg_auto(kg_free) char *line = kg_str_dup((struct kg_str){help, length});
        if (line[0] == ' ')
            kg_buf_text(out, ".br\n"); /* an example keeps its line */
        put_text(out, line[0] == ' ' ? line + strspn(line, " ") : line);
        kg_buf_char(out, '\n');
        help += length + (help[length] == '\n');
    }
}

static void put_commands(struct kg_buf *out)
{
    for (size_t i = 0; i < cli_command_count; i++) {
        const struct cli_command *command = &cli_commands[i];
        kg_buf_text(out, ".TP\n\\fBkaged ");
        put_text(out, command->words);
        kg_buf_text(out, "\\fR");
        for (size_t k = 0; command->arguments[k] != NULL; k++) {
            kg_buf_text(out, " \\fI");
            put_text(out, command->arguments[k]);
            kg_buf_text(out, "\\fR");
        }
        kg_buf_char(out, '\n');
        put_help(out, command->help);
        if (command->options[0].name == NULL)
            continue;
        kg_buf_text(out, ".RS\n");
        for (size_t k = 0; command->options[k].name != NULL; k++)
            put_option(out, &command->options[k]);
        kg_buf_text(out, ".RE\n");
    }
}

static void put_options(struct kg_buf *out)
{
    for (const struct cli_option *option = cli_globals; option->name != NULL; option++)
        put_option(out, option);
}

static void put_config_default(struct kg_buf *out, const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_TYPE_INT:
        kg_buf_printf(out, "An integer from %lld to %lld; the default is %lld.\n",
                      (long long)key->min, (long long)key->max, (long long)key->fallback);
        break;
    case CONFIG_TYPE_BOOL:
        kg_buf_printf(out, "True or false; the default is %s.\n", key->fallback ? "true" : "false");
        break;
    case CONFIG_TYPE_TEXT:
        if (key->choices[0] != '\0')
            kg_buf_printf(out, "One of %s; the default is %s.\n", key->choices, key->text_fallback);
        else
            kg_buf_text(out, "A string; empty by default.\n");
        break;
    case CONFIG_TYPE_LIST:
        kg_buf_printf(out, "A list of %s; empty by default.\n",
                      key->folders ? "absolute folders" : "strings");
        break;
    case CONFIG_TYPE_INTS:
        kg_buf_printf(out, "An integer from %lld to %lld.\n", (long long)key->min,
                      (long long)key->max);
        break;
    case CONFIG_TYPE_LISTS:
        kg_buf_text(out, "A list of absolute folders.\n");
        break;
    }
}

/* The "*" of a section is for the operator to name. */
static void put_config_section(struct kg_buf *out, const char *section)
{
    size_t length = strcspn(section, "*");
    kg_buf_printf(out, ".SS [%.*s%s]\n", (int)length, section,
                  section[length] != '\0' ? "NAME" : "");
}

static void put_config(struct kg_buf *out)
{
    const char *section = "";
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (strcmp(section, key->section) != 0)
            put_config_section(out, key->section);
        section = key->section;
        kg_buf_printf(out, ".TP\n.B %s\n", strcmp(key->key, "*") == 0 ? "NAME" : key->key);
        put_text(out, key->meaning);
        kg_buf_char(out, '\n');
        put_config_default(out, key);
        kg_buf_printf(out, "Applies %s.\n", config_applies_words(key->applies));
    }
}

static void put_events(struct kg_buf *out)
{
    for (enum audit_event event = 0; event < AUDIT_EVENT_COUNT; event++) {
        const struct audit_event_row *row = audit_event_row(event);
        kg_buf_printf(out, ".TP\n.B %s\n", row->name);
        put_text(out, row->when);
        kg_buf_text(out, ":");
        for (size_t i = 0; row->fields[i] != NULL; i++)
            kg_buf_printf(out, "%s \\fI%s\\fR", i ? "," : "", row->fields[i]);
        kg_buf_text(out, ".\n");
    }
}

static void put_routes(struct kg_buf *out)
{
    for (size_t i = 0; i < http_route_count; i++) {
        const struct http_route *route = &http_routes[i];
        kg_buf_printf(out, ".TP\n\\fB%s %s\\fR\n", route->method, route->pattern);
        put_text(out, route->summary);
        kg_buf_text(out, ".\n");
        for (const struct http_parameter *query = route->query; query && query->name; query++) {
            kg_buf_printf(out, "\\fI%s\\fR (%s): ", query->name, query->type);
            put_text(out, query->meaning);
            kg_buf_text(out, ".\n");
        }
    }
}

static void put_errors(struct kg_buf *out)
{
    kg_buf_text(out, ".TS\nl l l l.\ncode\tHTTP\texit\tmeaning\n");
    for (int code = 1; code < KG_CODE_COUNT; code++) {
        const struct kg_error_row *row = kg_error_row((enum kg_code)code);
        kg_buf_printf(out, "%s\t%d\t%d\tT{\n%s\nT}\n", row->name, row->http_status, row->exit_code,
                      row->meaning);
    }
    kg_buf_text(out, ".TE\n");
}

/* Each JSON-RPC code once: the first row that has it is its own. */
static void put_rpc_errors(struct kg_buf *out)
{
    kg_buf_text(out, ".TS\nl l l.\ncode\tname\tmeaning\n");
    for (int code = 1; code < KG_CODE_COUNT; code++) {
        const struct kg_error_row *row = kg_error_row((enum kg_code)code);
        if (kg_code_from_rpc(row->rpc_code) == (enum kg_code)code)
            kg_buf_printf(out, "\\-%d\t%s\tT{\n%s\nT}\n", -row->rpc_code, row->name, row->meaning);
    }
    kg_buf_text(out, ".TE\n");
}

static void put_states(struct kg_buf *out)
{
    kg_buf_text(out, "A plugin is in one of these states; an event moves it to another.\n"
                     ".TS\nl l.\n");
    for (enum instance_state state = 0; state < INSTANCE_STATE_COUNT; state++)
        kg_buf_printf(out, "\\fB%s\\fR\t%s\n", instance_state_name(state),
                      instance_state_meaning(state));
    kg_buf_text(out, ".TE\n.PP\n.TS\nl l l.\nin\ton\tto\n");
    for (enum instance_state state = 0; state < INSTANCE_STATE_COUNT; state++)
        for (size_t i = 0; instance_transition(state, i).event != NULL; i++)
            kg_buf_printf(out, "%s\t%s\t%s\n", instance_state_name(state),
                          instance_transition(state, i).event,
                          instance_state_name(instance_transition(state, i).next));
    kg_buf_text(out, ".TE\n");
}

static void put_problems(struct kg_buf *out)
{
    for (int code = 0; code < MANIFEST_CODE_COUNT; code++) {
        const struct manifest_code_row *row = manifest_code_row((enum manifest_code)code);
        kg_buf_printf(out, ".TP\n.B %s\n", row->code);
        put_text(out, row->meaning);
        kg_buf_text(out, row->severity == MANIFEST_SEVERITY_WARNING ? " A warning.\n" : "\n");
    }
}

static void put_calls(struct kg_buf *out)
{
    static const char *const calls[] = {
#define CALL(name) #name,
#include "cage/syscalls.def"
#undef CALL
    };
    for (size_t i = 0; i < KG_COUNT(calls); i++)
        kg_buf_printf(out, "%s%s", calls[i], i + 1 < KG_COUNT(calls) ? ",\n" : ".\n");
}

static void put_version(struct kg_buf *out)
{
    kg_buf_text(out, KAGED_VERSION);
}

static const struct {
    const char *name;
    void (*put)(struct kg_buf *out);
} lists[] = {
    {"@commands@", put_commands},     {"@options@", put_options}, {"@config@", put_config},
    {"@events@", put_events},         {"@routes@", put_routes},   {"@errors@", put_errors},
    {"@rpc-errors@", put_rpc_errors}, {"@states@", put_states},   {"@version@", put_version},
    {"@problems@", put_problems},     {"@calls@", put_calls},
};

/* Replaces the first @list@ at or behind `at`; returns where to go on, NULL at the end. */
static const char *fill_next(struct kg_buf *out, const char *at)
{
    const char *mark = strchr(at, '@');
    if (mark == NULL) {
        kg_buf_text(out, at);
        return NULL;
    }
    kg_buf_append(out, at, (size_t)(mark - at));
    for (size_t i = 0; i < KG_COUNT(lists); i++) {
        if (!kg_str_starts(kg_str(mark), lists[i].name))
            continue;
        lists[i].put(out);
        mark += strlen(lists[i].name);
        /* A list ends its own last line. */
        return out->data[out->length - 1] == '\n' && *mark == '\n' ? mark + 1 : mark;
    }
    if (mark[1 + strspn(mark + 1, "abcdefghijklmnopqrstuvwxyz-")] == '@') {
        fprintf(stderr, "gen: no such list: %.20s\n", mark);
        exit(1);
    }
    kg_buf_char(out, '@'); /* one that means itself */
    return mark + 1;
}

static void put_page(struct kg_buf *out, const char *path)
{
    kg_auto(kg_buf_free) struct kg_buf page = {0};
    struct kg_err err;
    if (kg_read_file(path, 1 << 20, &page, &err) < 0) {
        fprintf(stderr, "gen: %s\n", err.message);
        exit(1);
    }
    if (strstr(kg_buf_terminate(&page), "@states@") || strstr(page.data, ".TS"))
        kg_buf_text(out, "'\\\" t\n"); /* asks man for the table preprocessor */
    for (const char *at = page.data; at != NULL;)
        at = fill_next(out, at);
}

int main(int argc, char **argv)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    if (argc == 3 && strcmp(argv[1], "page") == 0) {
        put_page(&out, argv[2]);
    } else if (argc == 2 && strcmp(argv[1], "config") == 0) {
        config_print_example(&out);
    } else {
        fputs("usage: gen page PAGE.in | gen config\n", stderr);
        return 2;
    }
    return fwrite(out.data, 1, out.length, stdout) == out.length ? 0 : 1;
}
