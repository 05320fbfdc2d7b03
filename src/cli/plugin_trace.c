/*
 * What is said with a plugin: shown as it happens, or written to a file that replay reads. The file
 * holds payloads, so only its owner may read it.
 */
#include "cli/rows.h"
#include "cli/trace_print.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct follower {
    const struct cli *cli;
    const char *path; /* NULL: it is shown */
    int fd;
    struct trace_printer *printer;
    struct kg_err err; /* KG_OK: all is well */
    uint64_t records, missed;
    bool leave; /* the rest is not wanted */
};

/* -- lines ------------------------------------------------------------------------------------- */

/* At the first line: what cannot be had must not cost a file that is there. */
static void plugin_trace_open_file(struct follower *follower)
{
    follower->fd =
        open(follower->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void plugin_trace_write_line(struct follower *follower, struct kg_str line)
{
    if (follower->fd < 0)
        plugin_trace_open_file(follower);
    if (follower->fd >= 0 && kg_write_all(follower->fd, line.data, line.length) == 0 &&
        kg_write_all(follower->fd, "\n", 1) == 0)
        return;
    kg_fail_errno(&follower->err, errno, "write %s", follower->path);
    follower->leave = true;
}

static void show_line(struct follower *follower, struct kg_str line, const struct kg_node *record)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (follower->cli->json) {
        print_json(line);
    } else {
        trace_printer_put(follower->printer, record, &text);
        print_out(&text);
    }
    fflush(stdout);
    follower->leave |= ferror(stdout) != 0; /* its reader has left */
}

static void plugin_trace_count(struct follower *follower, const struct kg_node *record)
{
    struct kg_str kind = cli_text(record, "dir");
    if (kg_str_is(kind, "missed"))
        follower->missed += (uint64_t)kg_node_number(record, "count");
    else if (kind.length > 0) /* the header has none */
        follower->records++;
}

static void plugin_trace_on_line(void *data, struct kg_str line)
{
    struct follower *follower = data;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(line, NULL);
    if (follower->leave || doc == NULL)
        return;
    plugin_trace_count(follower, doc->root);
    if (follower->path != NULL)
        plugin_trace_write_line(follower, line);
    else
        show_line(follower, line, doc->root);
}

static int64_t plugin_trace_on_interrupt(void *data)
{
    struct follower *follower = data;
    follower->leave = true;
    return 0;
}

/* -- the command ------------------------------------------------------------------------------- */

static void say_what_was_written(const struct follower *follower)
{
    fprintf(stderr, "%llu records in %s", (unsigned long long)follower->records, follower->path);
    if (follower->missed > 0)
        fprintf(stderr, ", and %llu that were left out", (unsigned long long)follower->missed);
    fputc('\n', stderr);
}

static int plugin_trace_follow(const struct cli *cli, struct follower *follower, const char *rest)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    const struct client_stream stream = {plugin_trace_on_line, plugin_trace_on_interrupt, follower,
                                         &follower->leave};
    client_put_target(&target, "plugins", cli_argument(cli, 0), rest);
    const struct client_request request = {
        .method = "GET",
        .target = kg_buf_terminate(&target),
        .silence_ms = CLIENT_WAIT_FOREVER,
    };
    terminal_catch_interrupts();
    int code = cli_ask_lines(cli, &request, &stream, &body);
    if (code != CLI_DONE || follower->err.code == KG_OK)
        return code;
    return print_error(&follower->err);
}

static int plugin_trace_record(const struct cli *cli)
{
    static const struct cli_page on = {"POST", "/api/v1/plugins/{1}/trace",
                                       .body = "{\"record\":true}",
                                       .words = "the recorder of {@1} is on\n"};
    static const struct cli_page off = {"POST", "/api/v1/plugins/{1}/trace",
                                        .body = "{\"record\":false}",
                                        .words = "the recorder of {@1} is off\n"};
    return page_show(cli, cli_has(cli, "on") ? &on : &off);
}

static const struct {
    const char *option, *rest;
} kinds[] = {{"recorded", "/trace?of=recorded"}, {"crash", "/trace?of=crash"}};

/* Each option says something else; two of them cannot be meant. */
static int plugin_trace_check_options(const struct cli *cli, struct kg_err *err)
{
    static const char *const exclusive[] = {"on", "off", "recorded", "crash"};
    int given = 0;
    for (size_t i = 0; i < KG_COUNT(exclusive); i++)
        given += cli_has(cli, exclusive[i]);
    if (given > 1)
        return kg_fail(err, KG_E_USAGE,
                       "plugin trace: only one of --on, --off, --recorded and "
                       "--crash can be given");
    if ((cli_has(cli, "on") || cli_has(cli, "off")) && cli_has(cli, "output"))
        return kg_fail(err, KG_E_USAGE,
                       "plugin trace: --output goes with what is read, not with "
                       "--on and --off");
    return 0;
}

int cli_plugin_trace(struct cli *cli)
{
    struct follower follower = {.cli = cli, .fd = -1, .path = cli_option_value(cli, "output")};
    const char *rest = "/trace";
    struct kg_err err;
    if (plugin_trace_check_options(cli, &err) < 0)
        return print_error(&err);
    if (cli_has(cli, "on") || cli_has(cli, "off"))
        return plugin_trace_record(cli);
    for (size_t i = 0; i < KG_COUNT(kinds); i++)
        if (cli_has(cli, kinds[i].option))
            rest = kinds[i].rest;
    follower.printer = trace_printer_new();
    int code = plugin_trace_follow(cli, &follower, rest);
    if (code == CLI_DONE && follower.path != NULL)
        say_what_was_written(&follower);
    trace_printer_free(follower.printer);
    kg_close(&follower.fd);
    return code;
}
