/* The program: what was asked is parsed, then one row of the table runs. The exit code says the
 * rest. */
#include "cli/rows.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>

/* Words that are not a command are answered with help, on stderr since nothing was done. */
static int say_what_there_is(const struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    help_topic(&text, cli->words);
    fwrite(text.data, 1, text.length, stderr);
    return CLI_USAGE;
}

static int find_paths(struct cli *cli, struct kg_err *err)
{
    if (!cli->system)
        return config_paths_find(cli->home, &cli->paths, err);
    if (cli->home != NULL)
        return kg_fail(err, KG_E_USAGE, "--system and --home name different folders: use one");
    config_paths_system(&cli->paths);
    return 0;
}

static int cli_run(struct cli *cli)
{
    if (cli->help) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        help_topic(&text, cli->words);
        print_out(&text);
        return CLI_DONE;
    }
    if (cli->version)
        return cli_version(cli);
    if (cli->command == NULL)
        return say_what_there_is(cli);
    struct kg_err err;
    if (cli->command->needs != CLI_NOTHING && find_paths(cli, &err) < 0)
        return print_error(&err);
    const struct cli_page *page = cli->command->page;
    int code = page != NULL ? page_show(cli, page) : cli->command->run(cli);
    config_paths_free(&cli->paths);
    return code;
}

/* A result that could not be written was not delivered. */
static int cli_finish(int code)
{
    struct kg_err err;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    kg_fail_errno(&err, errno, "write the result");
    int failed = print_error(&err);
    return code != CLI_DONE ? code : failed;
}

/* What is printed is UTF-8 whatever the locale says, and has to be measured as that. */
static void use_utf8(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

int main(int argc, char **argv)
{
    use_utf8();
    struct cli cli;
    struct kg_err err;
    if (cli_parse(argc, argv, &cli, &err) < 0)
        return print_error(&err);
    kg_auto(kg_free) char *self = cli_self(&cli);
    print_speak_as(self);
    return cli_finish(cli_run(&cli));
}
