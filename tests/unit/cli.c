/* The command line's pure parts: the table, parsing, help, completion, what reaches a terminal. */
#include "base/base.h"
#include "folder.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* cmocka has a print_error of its own. */
#define print_error cli_print_error
#include "cage/cage.h"
#include "cli/rows.h"
#undef print_error

/* -- helpers ----------------------------------------------------------------------------------- */

static struct kg_err err;

#define parse(ret_cli, ...)                                                                        \
    parse_words(ret_cli, (char *[]){"kaged", __VA_ARGS__, NULL}) /* NULL-ended, as argv is */

static int parse_words(struct cli *ret_cli, char **argv)
{
    int argc = 0;
    while (argv[argc] != NULL)
        argc++;
    err = (struct kg_err){0};
    return cli_parse(argc, argv, ret_cli, &err);
}

#define assert_refused(message_part, hint_part, ...)                                               \
    do {                                                                                           \
        struct cli refused;                                                                        \
        assert_true(parse(&refused, __VA_ARGS__) < 0);                                             \
        assert_int_equal(kg_error_row(err.code)->exit_code, CLI_USAGE);                            \
        assert_non_null(strstr(err.message, message_part));                                        \
        assert_non_null(strstr(err.hint, hint_part));                                              \
    } while (0)

static void assert_escaped(struct kg_str text, const char *wanted)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_buf_escaped(&out, text);
    assert_string_equal(kg_buf_terminate(&out), wanted);
}

static void assert_duration(int64_t ms, const char *wanted)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    print_duration(&out, ms);
    assert_string_equal(kg_buf_terminate(&out), wanted);
}

static void assert_fits_80_columns(const char *words)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    help_topic(&out, words);
    size_t column = 0;
    for (size_t i = 0; i < out.length; i++) {
        column = out.data[i] == '\n' ? 0 : column + 1;
        if (column > 80)
            fail_msg("help on '%s' is wider than 80 columns", words);
    }
}

/* -- the table --------------------------------------------------------------------------------- */

static void every_command_has_words_of_its_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_command_count; i++)
        assert_ptr_equal(cli_command_find(cli_commands[i].words), &cli_commands[i]);
}

static void every_command_says_what_it_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_command_count; i++) {
        const struct cli_command *command = &cli_commands[i];
        assert_true(strlen(command->summary) > 0 && strlen(command->summary) <= 60);
        assert_true(strlen(command->help) > strlen(command->summary));
        assert_true((command->run != NULL) != (command->page != NULL));
        for (const struct cli_option *option = command->options; option->name; option++)
            assert_true(strlen(option->meaning) > 0);
    }
}

static void no_option_of_a_command_hides_a_global_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_command_count; i++)
        for (const struct cli_option *own = cli_commands[i].options; own->name; own++)
            for (const struct cli_option *global = cli_globals; global->name; global++) {
                /* One that takes a value cannot be mistaken for one that takes none. */
                if (own->argument == NULL || global->argument != NULL)
                    assert_string_not_equal(own->name, global->name);
                assert_true(own->letter == 0 || own->letter != global->letter);
            }
}

/* -- parsing ----------------------------------------------------------------------------------- */

static void global_options_stand_anywhere(void **state)
{
    (void)state;
    struct cli before, between, after;
    assert_int_equal(parse(&before, "--home", "/h", "--json", "plugin", "list"), 0);
    assert_int_equal(parse(&between, "plugin", "--home=/h", "--json", "list"), 0);
    assert_int_equal(parse(&after, "plugin", "list", "--json", "--home", "/h"), 0);
    const struct cli *all[] = {&before, &between, &after};
    for (size_t i = 0; i < KG_COUNT(all); i++) {
        assert_string_equal(all[i]->home, "/h");
        assert_true(all[i]->json);
        assert_string_equal(all[i]->command->words, "plugin list");
    }
}

static void arguments_and_options_mix(void **state)
{
    (void)state;
    struct cli cli;
    assert_int_equal(parse(&cli, "plugin", "call", "--timeout", "50", "echo", "say", "{\"a\":1}"),
                     0);
    assert_string_equal(cli_argument(&cli, 0), "echo");
    assert_string_equal(cli_argument(&cli, 1), "say");
    assert_string_equal(cli_argument(&cli, 2), "{\"a\":1}");
    assert_null(cli_argument(&cli, 3));
    assert_string_equal(cli_option_value(&cli, "timeout"), "50");
}

static void letters_mean_their_options(void **state)
{
    (void)state;
    struct cli cli;
    int64_t lines = 0;
    assert_int_equal(parse(&cli, "plugin", "logs", "echo", "-fn7"), 0);
    assert_true(cli_has(&cli, "follow"));
    assert_int_equal(cli_option_number(&cli, "lines", 0, 10, &lines, &err), 0);
    assert_int_equal(lines, 7);
}

static void option_that_was_not_given_is_not_there(void **state)
{
    (void)state;
    struct cli cli;
    int64_t lines = 100;
    assert_int_equal(parse(&cli, "plugin", "logs", "echo"), 0);
    assert_false(cli_has(&cli, "follow"));
    assert_null(cli_option_value(&cli, "lines"));
    assert_int_equal(cli_option_number(&cli, "lines", 0, 10, &lines, &err), 0);
    assert_int_equal(lines, 100);
}

static void command_and_its_longer_sister_are_told_apart(void **state)
{
    (void)state;
    struct cli cli;
    assert_int_equal(parse(&cli, "audit", "--event", "verify"), 0);
    assert_string_equal(cli.command->words, "audit");
    assert_int_equal(parse(&cli, "audit", "verify"), 0);
    assert_string_equal(cli.command->words, "audit verify");
}

static void dash_alone_is_an_argument(void **state)
{
    (void)state;
    struct cli cli;
    assert_int_equal(parse(&cli, "plugin", "call", "echo", "say", "-"), 0);
    assert_string_equal(cli_argument(&cli, 2), "-");
}

static void help_wants_no_arguments(void **state)
{
    (void)state;
    struct cli cli;
    assert_int_equal(parse(&cli, "plugin", "call", "--help"), 0);
    assert_true(cli.help);
    assert_int_equal(parse(&cli, "plugin", "-h"), 0);
    assert_true(cli.help);
    assert_null(cli.command);
    assert_string_equal(cli.words, "plugin");
}

static void wrong_words_are_refused_with_the_nearest(void **state)
{
    (void)state;
    assert_refused("unknown command: plugn", "kaged plugin?", "plugn", "list");
    assert_refused("unknown command: plugin statsu", "kaged plugin status?", "plugin", "statsu");
    assert_refused("unknown command: logs", "kaged plugin logs?", "logs", "echo");
    assert_refused("unknown command: ", "kaged help", "");
    assert_refused("unknown option --folow", "--follow", "plugin", "logs", "echo", "--folow");
    assert_refused("unknown option --jsn", "--json", "--jsn", "status");
    assert_refused("unknown option -z", "kaged help plugin logs", "plugin", "logs", "echo", "-z");
}

static void wrong_arguments_are_refused_with_the_usage(void **state)
{
    (void)state;
    assert_refused("METHOD is missing", "NAME METHOD [JSON]", "plugin", "call", "echo");
    assert_refused("too many: more", "kaged status", "status", "more");
    assert_refused("--lines needs N", "NAME", "plugin", "logs", "echo", "--lines");
    assert_refused("--json takes no value", "kaged help", "--json=yes", "status");
    assert_refused("NAME is empty", "", "plugin", "status", "");
}

static void numbers_outside_their_range_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "x", "5x", "-1", "11", "99999999999999999999"};
    for (size_t i = 0; i < KG_COUNT(wrong); i++) {
        struct cli cli;
        int64_t lines = 3;
        assert_int_equal(parse(&cli, "plugin", "logs", "echo", "-n", (char *)wrong[i]), 0);
        assert_true(cli_option_number(&cli, "lines", 0, 10, &lines, &err) < 0);
        assert_non_null(strstr(err.message, "--lines"));
        assert_int_equal(lines, 3);
    }
}

static void params_must_be_an_object(void **state)
{
    (void)state;
    assert_int_equal(plugin_params_check(KG_STR(" {\"a\":[1]}\n"), &err), 0);
    assert_true(plugin_params_check(KG_STR("{\"a\":\n1,}"), &err) < 0);
    assert_non_null(strstr(err.message, "2:3:"));
    assert_int_equal(kg_error_row(err.code)->exit_code, 6);
    assert_true(plugin_params_check(KG_STR("  [1]"), &err) < 0);
    assert_non_null(strstr(err.message, "1:3: not a JSON object"));
    assert_true(plugin_params_check(KG_STR(""), &err) < 0);
}

/* -- help and completion ----------------------------------------------------------------------- */

static void help_fits_80_columns(void **state)
{
    (void)state;
    assert_fits_80_columns("");
    assert_fits_80_columns("plugin");
    for (size_t i = 0; i < cli_command_count; i++)
        assert_fits_80_columns(cli_commands[i].words);
}

static void help_on_all_names_every_command(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    help_topic(&out, "");
    for (size_t i = 0; i < cli_command_count; i++)
        assert_non_null(strstr(kg_buf_terminate(&out), cli_commands[i].words));
}

static void help_on_a_command_names_its_options(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_command_count; i++) {
        kg_auto(kg_buf_free) struct kg_buf out = {0};
        help_topic(&out, cli_commands[i].words);
        for (const struct cli_option *option = cli_commands[i].options; option->name; option++)
            assert_non_null(strstr(kg_buf_terminate(&out), option->name));
    }
}

static void help_as_json_is_json_with_every_command(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    help_json(&out);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&out), &err);
    assert_non_null(doc);
    assert_int_equal(kg_node_get(doc->root, "commands")->count, cli_command_count);
}

/* What can follow, each word with a blank behind it. */
#define completed(...) completed_words((char *[]){__VA_ARGS__, NULL})

static char *completed_words(char *const *words)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_buf list = {0};
    complete_words(&out, words);
    for (const char *at = kg_buf_terminate(&out); *at != '\0'; at = strchr(at, '\n') + 1)
        kg_buf_printf(&list, "%.*s ", (int)strcspn(at, "\t\n"), at);
    return kg_buf_terminate(&list);
}

#define assert_completed(wanted, ...)                                                              \
    do {                                                                                           \
        kg_auto(kg_free) char *found = completed(__VA_ARGS__);                                     \
        assert_string_equal(found, wanted);                                                        \
    } while (0)

#define assert_offers(word, ...)                                                                   \
    do {                                                                                           \
        kg_auto(kg_free) char *found = completed(__VA_ARGS__);                                     \
        assert_non_null(strstr(found, word " "));                                                  \
    } while (0)

static void completion_knows_every_command(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_command_count; i++) {
        const struct cli_command *command = &cli_commands[i];
        kg_auto(kg_free) char *line = kg_strdup(command->words);
        char *words[8] = {0}, *rest = line;
        size_t count = 0;
        for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
            words[count] = "";
            words[count + 1] = NULL;
            kg_auto(kg_free) char *found = completed_words(words);
            assert_non_null(strstr(found, word));
            words[count++] = word;
        }
        words[count] = "-";
        kg_auto(kg_free) char *found = completed_words(words);
        for (const struct cli_option *option = command->options; option->name; option++)
            assert_non_null(strstr(found, option->name));
        assert_non_null(strstr(found, "--home "));
    }
}

static void completion_knows_what_an_argument_is(void **state)
{
    (void)state;
    assert_completed("words bash zsh fish ", "completion", "");
    assert_completed(":files ", "plugin", "validate", "");
    assert_completed(":files ", "schema", "check", "a.json", "b");
    assert_completed("text json ", "config", "set", "logging.format", "");
    assert_completed("true false ", "config", "set", "sandbox.private_networks", "");
    assert_completed("", "config", "set", "logging.level", "info", "");
    assert_offers("limits.call_timeout_ms", "config", "get", "");
    assert_offers("call", "help", "plugin", "");
    assert_completed("", "no", "such", "");
}

static void completion_knows_what_an_option_takes(void **state)
{
    (void)state;
    assert_completed(":folders ", "--home", "");
    assert_offers("plugin.crashed", "audit", "--event", "");
    assert_offers("--event=plugin.crashed", "audit", "--event=pl");
    assert_completed("", "plugin", "logs", "-n", "");
    /* bash takes it apart */
    assert_offers("plugin.crashed", "audit", "--event", "=");
    assert_offers("plugin.crashed", "audit", "--event", "=", "pl");
    /* the value of an option is no argument, nor a command */
    assert_offers("verify", "audit", "--event", "plugin.crashed", "");
    assert_offers("--event", "audit", "--home", "audit", "--");
    assert_completed("", "plugin", "status", "--", "--");
}

/* -- what reaches a terminal ------------------------------------------------------------------- */

static void control_characters_are_escaped(void **state)
{
    (void)state;
    assert_escaped(KG_STR("plain caf\xC3\xA9 \xF0\x9F\x98\x80"),
                   "plain caf\xC3\xA9 \xF0\x9F\x98\x80");
    assert_escaped(KG_STR("\x1B[31mred\x07"), "\\x1b[31mred\\x07");
    assert_escaped(KG_STR("a\r\nb\t\x7F"), "a\\x0d\\x0ab\\x09\\x7f");
    assert_escaped((struct kg_str){"a\0b", 3}, "a\\x00b");
    assert_escaped(KG_STR("\xC2\x9B"
                          "2J"),
                   "\\u009b2J");
    assert_escaped(KG_STR("\xE2\x80\xAE"
                          "abc"),
                   "\\u202eabc");
    assert_escaped(KG_STR("\x9B"
                          "2J\xFF\xE2\x80"),
                   "\\x9b2J\\xff\\xe2\\x80");
    assert_escaped(KG_STR_NULL, "");
}

static void text_of_others_keeps_its_lines_and_nothing_else(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    print_put_text(&out, KG_STR("one\n\ttwo\x1B[2J\r\n\xE2\x80\xAEthree"), "  ");
    assert_string_equal(kg_buf_terminate(&out), "  one\n  \ttwo\\x1b[2J\\x0d\n  \\u202ethree");
    out.length = 0;
    print_put_text(&out, KG_STR_NULL, "");
    assert_int_equal(out.length, 0);
}

static void escaped_json_means_the_same(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_buf_json_escaped(&out, KG_STR("{\"a\\u001b\":\r\n\t\"\xC2\x9B\x7F\xE2\x80\xAE\xC3\xA9\"}"));
    assert_string_equal(kg_buf_terminate(&out),
                        "{\"a\\u001b\":   \"\\u009b\\u007f\\u202e\xC3\xA9\"}");
}

static void long_text_is_cut_to_its_columns(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_buf_text(&out, "key=0123456789");
    print_cut(&out, 4, 10);
    assert_string_equal(kg_buf_terminate(&out), "key=0123456789");
    print_cut(&out, 4, 9);
    assert_string_equal(kg_buf_terminate(&out), "key=012345...");
}

static void durations_read_as_people_say_them(void **state)
{
    (void)state;
    assert_duration(-5, "0 s");
    assert_duration(4999, "4 s");
    assert_duration(185000, "3 min");
    assert_duration(7500000, "2 h 5 min");
    assert_duration(86400000LL * 3 + 3600000LL * 4, "3 d 4 h");
}

static void targets_are_percent_encoded(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    kg_buf_text(&target, "/plugins/");
    kg_buf_percent(&target, KG_STR("a/b?c d\xC3\xA9"));
    client_put_query(&target, "event", KG_STR("plugin.*"));
    client_put_number(&target, "limit", 5);
    assert_string_equal(kg_buf_terminate(&target),
                        "/plugins/a%2Fb%3Fc%20d%C3%A9?event=plugin.%2A&limit=5");
}

static void advice_carries_the_home_that_was_given(void **state)
{
    (void)state;
    kg_auto(kg_free) char *plain = cli_self(&(struct cli){0});
    kg_auto(kg_free) char *simple = cli_self(&(struct cli){.home = "/srv/kaged"});
    kg_auto(kg_free) char *quoted = cli_self(&(struct cli){.home = "my '$home"});
    assert_string_equal(plain, "kaged");
    assert_string_equal(simple, "kaged --home /srv/kaged");
    assert_string_equal(quoted, "kaged --home 'my '\\''$home'");
}

static void put_status(struct kg_buf *out, const struct kg_node *plugin)
{
    rows_put(out, &(struct cli){0}, plugin, page_plugin_status.rows, page_plugin_status.columns);
}

/* Each row is one of the words that rows.h tells of. */
static void rows_say_what_is_there(void **state)
{
    (void)state;
    static const struct row item_rows[] = {{"n>1", .words = "<{n}>"}, {"!n>1", .words = "-"}, {0}};
    static const struct row rows[] = {
        {.words = "{a.b} {c|d} {e:count} item{e:s} {bytes:bytes} {json:json}\n"},
        {"yes", "yes", "{c|d}"},
        {"no", "no", "{d}"},
        {"!no d=x|y d=y", "one of", "{d}"},
        {"e~two !e~three", "has", "{e:list}"},
        {.label = "none", .words = "{nothing}"},
        {.label = "each", .each = "e", .words = "{.}"},
        {.each = "items", .rows = item_rows},
        {0},
    };
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(KG_STR("{\"a\":{\"b\":\"in\\u001b\"},\"d\":\"y\",\"e\":[\"one\",\"two\"],"
                            "\"bytes\":2048,\"json\":{\"k\":[1]},\"yes\":true,\"no\":false,"
                            "\"items\":[{\"n\":1},{\"n\":2}]}"),
                     &err);
    rows_put(&out, &(struct cli){0}, doc->root, rows, 8);
    assert_string_equal(kg_buf_terminate(&out),
                        "in\\x1b y 2 items 2K {\"k\":[1]}\n  yes     y\n  one of  y\n"
                        "  has     one, two\n  each    one\n          two\n-<2>");
}

static void status_marks_what_a_running_plugin_does_not_offer(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(KG_STR("{\"name\":\"git\",\"version\":\"1.0\",\"state\":\"running\","
                            "\"methods\":[{\"name\":\"a\",\"available\":true},"
                            "{\"name\":\"b\",\"available\":false}]}"),
                     &err);
    put_status(&out, doc->root);
    const char *text = kg_buf_terminate(&out);
    assert_non_null(strstr(text, "git 1.0 is running"));
    assert_non_null(strstr(text, "b (missing)\n"));
    assert_null(strstr(text, "a (missing)"));
}

static void status_says_how_a_failed_plugin_ended_and_what_to_do(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(KG_STR("{\"name\":\"git\",\"state\":\"failed\","
                            "\"methods\":[{\"name\":\"a\",\"available\":false}],"
                            "\"last_exit\":{\"words\":\"exited with code 3\",\"failures\":5,"
                            "\"last_stderr\":[\"oh\\u001bno\"]}}"),
                     &err);
    print_speak_as("kaged --home /h");
    put_status(&out, doc->root);
    print_speak_as("kaged");
    const char *text = kg_buf_terminate(&out);
    assert_non_null(strstr(text, "exited with code 3"));
    assert_non_null(strstr(text, "enable it with: kaged --home /h plugin enable git\n"));
    assert_non_null(strstr(text, "    oh\\x1bno\n"));
    assert_null(strstr(text, "(missing)"));
}

static void status_tells_when_the_restart_comes(void **state)
{
    (void)state;
    kg_time_set(1000000, -1);
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(KG_STR("{\"name\":\"git\",\"state\":\"crashed\",\"last_exit\":"
                            "{\"words\":\"left\",\"restart_at\":1003500}}"),
                     &err);
    put_status(&out, doc->root);
    kg_time_set(-1, -1);
    assert_non_null(strstr(kg_buf_terminate(&out), "restart in 4 s\n"));
}

/* -- whom the daemon becomes ------------------------------------------------------------------- */

/* As the system's folders are: that of the state is above those of plugins, and nobody's yet. */
static void folders_above_others_are_given_before_any_is_tried(void **state)
{
    (void)state;
    char base[] = "/tmp/kg-XXXXXX";
    struct cage_owner owner;
    if (geteuid() != 0) {
        puts("SKIP folders_above_others_are_given_before_any_is_tried: only root gives folders");
        return;
    }
    assert_int_equal(cage_owner_find("nobody", &owner, &err), 0);
    assert_non_null(mkdtemp(base));
    assert_int_equal(chmod(base, 0755), 0);
    kg_auto(kg_free) char *lib = kg_format("%s/lib", base), *run = kg_format("%s/run", base);
    kg_auto(kg_free) char *plugins = kg_format("%s/plugins", lib);
    kg_auto(kg_free) char *data = kg_format("%s/plugin-data", lib);
    kg_auto(kg_free) char *local = kg_format("%s/local.toml", base);
    struct config_paths paths = {
        .config_dir = base,
        .config_dir_mode = 0755,
        .local_file = local,
        .plugins_dir = plugins,
        .plugin_data_dir = data,
        .state_dir = lib,
        .storage_dir = lib,
        .audit_dir = lib,
        .logs_dir = lib,
        .run_dir = run,
    };
    mode_t before = umask(077);
    assert_int_equal(config_paths_make(&paths, owner.uid, &err), 0);
    umask(before);
    int result = user_give_folders(&paths, &owner, &err);
    assert_int_equal(folder_remove(base), 0);
    assert_string_equal(result < 0 ? err.message : "", "");
}

/* In one piece and sign by sign: where a text is cut makes no difference. */
static void assert_shown(const char *markdown, const char *expected)
{
    for (size_t piece = 1; piece <= strlen(markdown); piece += piece < 3 ? 1 : strlen(markdown)) {
        struct markdown state = {0};
        kg_auto(kg_buf_free) struct kg_buf out = {0};
        for (size_t at = 0; at < strlen(markdown); at += piece)
            markdown_put(&state, (struct kg_str){markdown + at, strnlen(markdown + at, piece)},
                         &out);
        markdown_end(&state, &out);
        assert_string_equal(kg_buf_terminate(&out), expected);
    }
}

static void markdown_is_shown_as_terminals_can(void **state)
{
    (void)state;
    assert_shown("plain 2*3 and - no list\n", "plain 2*3 and - no list\n");
    assert_shown("a **b** c", "a \033[0m\033[1mb\033[0m c");
    assert_shown("# Head\nbody", "\033[0m\033[1mHead\033[0m\nbody");
    assert_shown("- one\n  * two\n-three\n", "• one\n  • two\n-three\n");
    assert_shown("say `x*y`", "say \033[0m\033[36mx*y\033[0m");
    assert_shown("```c\nint **a; `b`\n```\nend", "\033[0m\033[2mint **a; `b`\n\033[0mend");
    assert_shown("x **", "x \033[0m\033[1m\033[0m");
    assert_shown("*", "*");
    assert_shown("##", "##");
    assert_shown("#hash and ####### seven", "#hash and ####### seven");
}

static void last_stands_for_the_session(void **state)
{
    (void)state;
    struct cli cli;
    assert_int_equal(parse(&cli, "session", "send", "--last", "hello"), 0);
    assert_string_equal(cli_argument(&cli, 0), "@last");
    assert_string_equal(cli_argument(&cli, 1), "hello");
    assert_null(cli_argument(&cli, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_above_others_are_given_before_any_is_tried),
        cmocka_unit_test(every_command_has_words_of_its_own),
        cmocka_unit_test(every_command_says_what_it_does),
        cmocka_unit_test(no_option_of_a_command_hides_a_global_one),
        cmocka_unit_test(global_options_stand_anywhere),
        cmocka_unit_test(arguments_and_options_mix),
        cmocka_unit_test(letters_mean_their_options),
        cmocka_unit_test(option_that_was_not_given_is_not_there),
        cmocka_unit_test(command_and_its_longer_sister_are_told_apart),
        cmocka_unit_test(dash_alone_is_an_argument),
        cmocka_unit_test(help_wants_no_arguments),
        cmocka_unit_test(wrong_words_are_refused_with_the_nearest),
        cmocka_unit_test(wrong_arguments_are_refused_with_the_usage),
        cmocka_unit_test(numbers_outside_their_range_are_refused),
        cmocka_unit_test(params_must_be_an_object),
        cmocka_unit_test(help_fits_80_columns),
        cmocka_unit_test(help_on_all_names_every_command),
        cmocka_unit_test(help_on_a_command_names_its_options),
        cmocka_unit_test(help_as_json_is_json_with_every_command),
        cmocka_unit_test(completion_knows_every_command),
        cmocka_unit_test(completion_knows_what_an_argument_is),
        cmocka_unit_test(completion_knows_what_an_option_takes),
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(markdown_is_shown_as_terminals_can),
        cmocka_unit_test(last_stands_for_the_session),
        cmocka_unit_test(text_of_others_keeps_its_lines_and_nothing_else),
        cmocka_unit_test(escaped_json_means_the_same),
        cmocka_unit_test(long_text_is_cut_to_its_columns),
        cmocka_unit_test(durations_read_as_people_say_them),
        cmocka_unit_test(targets_are_percent_encoded),
        cmocka_unit_test(advice_carries_the_home_that_was_given),
        cmocka_unit_test(rows_say_what_is_there),
        cmocka_unit_test(status_marks_what_a_running_plugin_does_not_offer),
        cmocka_unit_test(status_says_how_a_failed_plugin_ended_and_what_to_do),
        cmocka_unit_test(status_tells_when_the_restart_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
