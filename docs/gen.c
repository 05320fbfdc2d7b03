/*
 * The tables' generator. It fills the lists of the manual pages, and writes the example
 * configuration, from the same rows that the programs run on, so that neither can be behind the
 * other.
 *
 *   gen page PAGE.in SCHEMA  the page on stdout, its @lists@ filled in; SCHEMA is the manifest's
 *   gen config               config.toml with every key
 *   gen openapi              the HTTP API as an OpenAPI document
 */
#include "audit/audit.h"
#include "cli/cli.h"
#include "config/config.h"
#include "http/http.h"
#include "kit/kit.h"
#include "manifest/manifest.h"
#include "native/native.h"
#include "project/project.h"
#include "store/consent.h"
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

static void put_command(struct kg_buf *out, const struct cli_command *command)
{
    kg_buf_text(out, ".TP\n\\fBkaged ");
    put_text(out, command->words);
    kg_buf_text(out, "\\fR");
    for (size_t i = 0; command->arguments[i] != NULL; i++) {
        kg_buf_text(out, " \\fI");
        put_text(out, command->arguments[i]);
        kg_buf_text(out, "\\fR");
    }
    kg_buf_char(out, '\n');
    put_help(out, command->help);
    if (command->options[0].name == NULL)
        return;
    kg_buf_text(out, ".RS\n");
    for (size_t i = 0; command->options[i].name != NULL; i++)
        put_option(out, &command->options[i]);
    kg_buf_text(out, ".RE\n");
}

/* Families that have pages of their own. */
static const char *const families[] = {"mcp", "plugin", "project", "session"};

static bool has_own_page(const struct cli_command *command)
{
    for (size_t i = 0; i < KG_COUNT(families); i++)
        if (cli_command_begins(command, families[i]))
            return true;
    return false;
}

/* kaged(1) has the others. */
static void put_commands(struct kg_buf *out)
{
    for (size_t i = 0; i < cli_command_count; i++)
        if (!has_own_page(&cli_commands[i]))
            put_command(out, &cli_commands[i]);
}

static void put_family(struct kg_buf *out, const char *family)
{
    for (size_t i = 0; i < cli_command_count; i++)
        if (cli_command_begins(&cli_commands[i], family))
            put_command(out, &cli_commands[i]);
}

static void put_mcp_commands(struct kg_buf *out)
{
    put_family(out, "mcp");
}

static void put_plugin_commands(struct kg_buf *out)
{
    put_family(out, "plugin");
}

static void put_project_commands(struct kg_buf *out)
{
    put_family(out, "project");
}

static void put_session_commands(struct kg_buf *out)
{
    put_family(out, "session");
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
            kg_buf_printf(out, "%s; empty by default.\n",
                          key->form != NULL ? "An absolute folder" : "A string");
        break;
    case CONFIG_TYPE_LIST:
        kg_buf_printf(out, "A list of %s; empty by default.\n", key->form->many);
        break;
    case CONFIG_TYPE_INTS:
        kg_buf_printf(out, "An integer from %lld to %lld.\n", (long long)key->min,
                      (long long)key->max);
        break;
    case CONFIG_TYPE_LISTS:
        kg_buf_text(out, "A list of absolute folders.\n");
        break;
    case CONFIG_TYPE_TABLES:
        kg_buf_text(out, "A table; its owner defines the keys.\n");
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

static void put_event(struct kg_buf *out, const char *name, const char *when,
                      const char *const *fields)
{
    kg_buf_printf(out, ".TP\n.B %s\n", name);
    put_text(out, when);
    kg_buf_text(out, ":");
    for (size_t i = 0; fields[i] != NULL; i++)
        kg_buf_printf(out, "%s \\fI%s\\fR", i ? "," : "", fields[i]);
    kg_buf_text(out, ".\n");
}

static void put_events(struct kg_buf *out)
{
    for (enum audit_event event = 0; event < AUDIT_EVENT_COUNT; event++) {
        const struct audit_event_row *row = audit_event_row(event);
        put_event(out, row->name, row->when, row->fields);
    }
}

static void put_parameters(struct kg_buf *out, const struct http_parameter *parameters)
{
    for (; parameters && parameters->name; parameters++) {
        kg_buf_text(out, "\\fI");
        put_text(out, parameters->name);
        kg_buf_printf(out, "\\fR (%s): ", http_type_find(parameters->type)->what);
        put_text(out, parameters->meaning);
        kg_buf_text(out, ".\n");
    }
}

static void put_routes(struct kg_buf *out)
{
    for (size_t i = 0; i < http_route_count; i++) {
        const struct http_route *route = &http_routes[i];
        bool scoped = route->permission[0] != '\0' && strcmp(route->permission, "any") != 0;
        kg_buf_printf(out, ".TP\n\\fB%s %s\\fR%s%s%s\n", route->method, route->pattern,
                      scoped ? " (" : "", scoped ? route->permission : "", scoped ? ")" : "");
        put_text(out, route->summary);
        kg_buf_text(out, ".\n");
        if (route->permission[0] != '\0')
            kg_buf_printf(out, "Needs %s.\n", route->permission);
        put_parameters(out, route->query);
        put_parameters(out, route->headers);
    }
}

static void put_errors(struct kg_buf *out)
{
    kg_buf_text(out, ".TS\nl l l lx.\ncode\tHTTP\texit\tmeaning\n");
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
    kg_buf_text(out, ".TS\nl l lx.\ncode\tname\tmeaning\n");
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
    kg_buf_text(out, ".TE\n.PP\n.TS\nnokeep;\nl l l.\nin\ton\tto\n");
    for (enum instance_state state = 0; state < INSTANCE_STATE_COUNT; state++)
        for (size_t i = 0; instance_transition(state, i).event != NULL; i++)
            kg_buf_printf(out, "%s\t%s\t%s\n", instance_state_name(state),
                          instance_transition(state, i).event,
                          instance_state_name(instance_transition(state, i).next));
    kg_buf_text(out, ".TE\n");
}

static void put_consents(struct kg_buf *out)
{
    kg_buf_text(out, ".TS\nl l.\n");
    for (enum consent_state state = 0; state < CONSENT_STATE_COUNT; state++)
        kg_buf_printf(out, "\\fB%s\\fR\t%s\n", consent_state_name(state),
                      consent_state_meaning(state));
    kg_buf_text(out, ".TE\n.PP\n.TS\nl l l.\nin\ton\tto\n");
    for (enum consent_state state = 0; state < CONSENT_STATE_COUNT; state++)
        for (size_t i = 0; consent_transition(state, i).event != NULL; i++)
            kg_buf_printf(out, "%s\t%s\t%s\n", consent_state_name(state),
                          consent_transition(state, i).event,
                          consent_state_name(consent_transition(state, i).next));
    kg_buf_text(out, ".TE\n");
}

static void put_rows(struct kg_buf *out, const struct kg_problem_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kg_buf_printf(out, ".TP\n.B %s\n", rows[i].code);
        put_text(out, rows[i].meaning);
        kg_buf_text(out, rows[i].severity == KG_SEVERITY_WARNING ? " A warning.\n" : "\n");
    }
}

static void put_problems(struct kg_buf *out)
{
    put_rows(out, manifest_rows, MANIFEST_CODE_COUNT);
}

static void put_project_problems(struct kg_buf *out)
{
    put_rows(out, project_rows, PROJECT_CODE_COUNT);
}

static void put_kit_rules(struct kg_buf *out)
{
    for (enum kit_rule_id rule = 0; rule < KIT_RULE_COUNT; rule++) {
        kg_buf_printf(out, ".TP\n.B %s\n", kit_rule_name(rule));
        put_text(out, kit_rule_title(rule));
        kg_buf_text(out, "; else: ");
        put_text(out, kit_rule_mend(rule));
        kg_buf_text(out, "\n");
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

/* Those with that rule, as a list in a sentence. */
static void put_places(struct kg_buf *out, const char *wanted)
{
    static const struct {
        const char *path, *rule;
    } places[] = {
#define PLACE(path, rule) {path, #rule},
#include "cage/places.def"
#undef PLACE
    };
    for (size_t i = 0; i < KG_COUNT(places); i++)
        if (strcmp(places[i].rule, wanted) == 0)
            kg_buf_printf(out, ".IR %s ,\n", places[i].path);
}

static void put_whole_places(struct kg_buf *out)
{
    put_places(out, "WHOLE");
}

static void put_trees(struct kg_buf *out)
{
    put_places(out, "MEMORY");
    put_places(out, "TREE");
}

static void put_guards(struct kg_buf *out)
{
    static const struct {
        const char *path, *missing, *grant, *why;
    } guards[] = {
#define GUARD(path, missing, grant, why) {path, #missing, #grant, why},
#include "cage/guards.def"
#undef GUARD
    };
    kg_buf_text(out, ".TS\nl l l l.\n");
    for (size_t i = 0; i < KG_COUNT(guards); i++)
        kg_buf_printf(out, "\\&%s\t%s\t%s\t%s\n", guards[i].path,
                      strcmp(guards[i].missing, "AHEAD") == 0 ? "yes" : "\\-",
                      strcmp(guards[i].grant, "NEVER") == 0 ? "never" : "named", guards[i].why);
    kg_buf_text(out, ".TE\n");
}

static void put_hooks(struct kg_buf *out)
{
    for (int hook = 0; hook < NATIVE_HOOKS; hook++) {
        const struct native_hook_row *row = &native_hook_rows[hook];
        put_event(out, row->name, row->when, row->fields);
    }
}

/* Where those are that came with this program. */
static void put_system_plugins(struct kg_buf *out)
{
    put_text(out, KAGED_SYSTEM_PLUGINS);
}

static void put_version(struct kg_buf *out)
{
    kg_buf_text(out, KAGED_VERSION);
}

/* -- the manifest, as its published schema has it ---------------------------------------------- */

static const char *schema_path;

/* A keyword of the schema itself, or of what it refers to. */
static const struct kg_node *keyword(const struct kg_node *root, const struct kg_node *schema,
                                     const char *name)
{
    const struct kg_node *found = kg_node_get(schema, name);
    const struct kg_node *reference = kg_node_get(schema, "$ref");
    if (found != NULL || reference == NULL)
        return found;
    const size_t skip = strlen("#/$defs/");
    kg_auto(kg_free) char *definition =
        kg_str_dup((struct kg_str){reference->text.data + skip, reference->text.length - skip});
    return kg_node_get(kg_node_get(kg_node_get(root, "$defs"), definition), name);
}

static void put_bound(struct kg_buf *out, const struct kg_node *bound, const char *before,
                      const char *after)
{
    if (bound != NULL)
        kg_buf_printf(out, "%s%.*s%s", before, KG_STR_ARG(bound->text), after);
}

static void put_range(struct kg_buf *out, const struct kg_node *min, const struct kg_node *max)
{
    if (kg_str_equal(min->text, max->text))
        kg_buf_printf(out, "The integer %.*s", KG_STR_ARG(min->text));
    else
        kg_buf_printf(out, "An integer from %.*s to %.*s", KG_STR_ARG(min->text),
                      KG_STR_ARG(max->text));
}

static void put_choices(struct kg_buf *out, const struct kg_node *choices)
{
    for (uint32_t i = 0; i < choices->count; i++)
        kg_buf_printf(out, "%s%.*s", i ? ", " : "", KG_STR_ARG(choices->items[i].text));
}

/* "A list of at most 256 strings" */
static void put_value_words(struct kg_buf *out, const struct kg_node *root,
                            const struct kg_node *schema)
{
    const struct kg_node *type = keyword(root, schema, "type");
    const struct kg_node *choices = keyword(root, schema, "enum");
    const struct kg_node *items = keyword(root, schema, "items");
    struct kg_str name = type && type->type == KG_STRING ? type->text : KG_STR("");
    if (choices != NULL) {
        kg_buf_text(out, "One of ");
        put_choices(out, choices);
    } else if (kg_str_is(name, "string")) {
        kg_buf_text(out, "A string");
        put_bound(out, keyword(root, schema, "maxLength"), " of at most ", " characters");
    } else if (kg_str_is(name, "integer")) {
        put_range(out, keyword(root, schema, "minimum"), keyword(root, schema, "maximum"));
        put_bound(out, keyword(root, schema, "default"), "; the default is ", "");
    } else if (kg_str_is(name, "array") && items && kg_node_get(items, "enum")) {
        kg_buf_text(out, "A list of ");
        put_choices(out, kg_node_get(items, "enum"));
    } else if (kg_str_is(name, "array")) {
        kg_buf_text(out, "A list");
        put_bound(out, keyword(root, schema, "maxItems"), " of at most ", " entries");
    } else {
        kg_buf_text(out, "A map");
        put_bound(out, keyword(root, schema, "maxProperties"), " of at most ", " entries");
    }
}

static bool is_required(const struct kg_node *root, struct kg_str name)
{
    const struct kg_node *required = kg_node_get(root, "required");
    for (uint32_t i = 0; i < required->count; i++)
        if (kg_str_equal(required->items[i].text, name))
            return true;
    return false;
}

static void put_fields(struct kg_buf *out)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err;
    struct kg_doc *doc = NULL;
    if (kg_read_file(schema_path, 1 << 20, &text, &err) == 0)
        doc = kg_json_read(kg_buf_view(&text), &err);
    if (doc == NULL) {
        fprintf(stderr, "gen: %s: %s\n", schema_path, err.message);
        exit(1);
    }
    const struct kg_node *fields = kg_node_get(doc->root, "properties");
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct kg_member *field = &fields->members[i];
        const struct kg_node *meaning = kg_node_get(&field->value, "description");
        if (meaning == NULL) {
            fprintf(stderr, "gen: %s: %.*s has no description\n", schema_path,
                    KG_STR_ARG(field->key));
            exit(1);
        }
        kg_auto(kg_free) char *words = kg_str_dup(meaning->text);
        kg_buf_printf(out, ".TP\n.B %.*s\n", KG_STR_ARG(field->key));
        put_text(out, words);
        kg_buf_char(out, '\n');
        put_value_words(out, doc->root, &field->value);
        kg_buf_text(out, is_required(doc->root, field->key) ? "; required.\n" : ".\n");
    }
    kg_doc_free(doc);
}

/* -- pages ------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*put)(struct kg_buf *out);
} lists[] = {
    {"@commands@", put_commands},
    {"@options@", put_options},
    {"@config@", put_config},
    {"@fields@", put_fields},
    {"@mcp-commands@", put_mcp_commands},
    {"@plugin-commands@", put_plugin_commands},
    {"@project-commands@", put_project_commands},
    {"@session-commands@", put_session_commands},
    {"@events@", put_events},
    {"@routes@", put_routes},
    {"@errors@", put_errors},
    {"@rpc-errors@", put_rpc_errors},
    {"@states@", put_states},
    {"@version@", put_version},
    {"@problems@", put_problems},
    {"@project-problems@", put_project_problems},
    {"@calls@", put_calls},
    {"@places-whole@", put_whole_places},
    {"@places-trees@", put_trees},
    {"@guards@", put_guards},
    {"@kit-rules@", put_kit_rules},
    {"@consents@", put_consents},
    {"@hooks@", put_hooks},
    {"@system-plugins@", put_system_plugins},
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
    kg_auto(kg_buf_free) struct kg_buf filled = {0};
    for (const char *at = kg_buf_terminate(&page); at != NULL;)
        at = fill_next(&filled, at);
    if (strstr(kg_buf_terminate(&filled), "\n.TS\n"))
        kg_buf_text(out, "'\\\" t\n"); /* asks man for the table preprocessor */
    kg_buf_str(out, kg_buf_view(&filled));
}

int main(int argc, char **argv)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    if (argc == 4 && strcmp(argv[1], "page") == 0) {
        schema_path = argv[3];
        put_page(&out, argv[2]);
    } else if (argc == 2 && strcmp(argv[1], "config") == 0) {
        config_print_example(&out);
    } else if (argc == 2 && strcmp(argv[1], "openapi") == 0) {
        http_openapi_put(&out, http_routes, http_route_count);
    } else {
        fputs("usage: gen page PAGE.in SCHEMA | gen config | gen openapi\n", stderr);
        return 2;
    }
    return fwrite(out.data, 1, out.length, stdout) == out.length ? 0 : 1;
}
