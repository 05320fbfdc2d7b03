/* The daemon as a whole: stop, status, reload, version. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STOP_TIMEOUT_MS  60000
#define STOP_PATIENCE_MS 1000 /* then a terminal is told what is waited for */

int cli_version(struct cli *cli)
{
    puts(cli->json ? "{\"version\":\"" KAGED_VERSION "\"}" : "kaged " KAGED_VERSION);
    return CLI_DONE;
}

/* -- status ------------------------------------------------------------------------------------ */

static void put_plugin_counts(struct kg_buf *out, const struct kg_node *plugins)
{
    const char *comma = "";
    for (uint32_t i = 0; plugins != NULL && plugins->type == KG_OBJECT && i < plugins->count; i++) {
        const struct kg_member *state = &plugins->members[i];
        int64_t count;
        if (!kg_node_int(&state->value, &count) || count == 0)
            continue;
        kg_buf_printf(out, "%s%" PRId64 " ", comma, count);
        kg_buf_escaped(out, state->key);
        comma = ", ";
    }
    kg_buf_text(out, comma[0] ? "\n" : "none\n");
}

static void put_fact(struct kg_buf *out, const char *label, struct kg_str text)
{
    print_fact(out, 10, label, text);
}

static void put_listeners(struct kg_buf *out, const struct kg_node *listeners)
{
    for (uint32_t i = 0; i < listeners->count; i++)
        if (listeners->items[i].type == KG_STRING)
            put_fact(out, i == 0 ? "listens" : "", listeners->items[i].text);
}

static void put_figures(struct kg_buf *out, const struct kg_node *status)
{
    kg_buf_printf(out, "  calls     %" PRId64 ", of them %" PRId64 " with an error\n",
                  kg_node_number(status, "calls"), kg_node_number(status, "errors"));
    kg_buf_text(out, "  memory    ");
    print_bytes(out, kg_node_number(status, "memory_bytes"));
    kg_buf_printf(out, ", %" PRId64 " open files\n", kg_node_number(status, "open_fds"));
    kg_buf_text(out, "  loop lag  ");
    print_latency(out, kg_node_number(status, "loop_lag_us"));
    kg_buf_text(out, ", at most ");
    print_latency(out, kg_node_number(status, "loop_lag_max_us"));
    kg_buf_printf(out, "\n  events    %" PRId64 " audited, ",
                  kg_node_number(status, "audit_events"));
    print_bytes(out, kg_node_number(status, "audit_queue_bytes"));
    kg_buf_text(out, " waiting for the disk\n");
}

static void put_status(struct kg_buf *out, const struct cli *cli, const struct kg_node *status)
{
    int64_t started_ms;
    (void)cli;
    print_words(out, status,
                kg_node_is_true(status, "stopping") ? "kaged {version} is stopping\n"
                                                    : "kaged {version} is running\n");
    put_fact(out, "pid", cli_text(status, "pid"));
    put_fact(out, "user", cli_text(status, "user"));
    put_fact(out, "home", cli_text(status, "home"));
    put_fact(out, "config", cli_text(status, "config_file"));
    put_fact(out, "socket", cli_text(status, "socket"));
    put_fact(out, "tcp", cli_text(status, "tcp"));
    put_fact(out, "no tcp", cli_text(status, "tcp_problem"));
    put_fact(out, "log", cli_text(status, "log"));
    if (cli_time(status, "started_at", &started_ms)) {
        kg_buf_text(out, "  started   ");
        print_when(out, started_ms);
        kg_buf_char(out, '\n');
    }
    put_listeners(out, kg_node_list(status, "listeners"));
    put_fact(out, "audit", cli_text(status, "audit_problem"));
    put_fact(out, "cages", cli_text(status, "cages"));
    put_fact(out, "limits", cli_text(status, "limits"));
    kg_buf_text(out, "  plugins   ");
    put_plugin_counts(out, kg_node_get(status, "plugins"));
    put_figures(out, status);
}

static const struct client_request status_request = {.method = "GET", .target = "/api/v1/status"};

int cli_status(struct cli *cli)
{
    return cli_show(cli, &status_request, put_status);
}

/* -- reload ------------------------------------------------------------------------------------ */

static void put_changes(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *changed = kg_node_list(answer, "changed");
    const struct kg_node *problems = kg_node_list(answer, "problems");
    (void)cli;
    kg_buf_printf(out, "the configuration was read again:%s%s\n",
                  changed->count == 0 ? " no key of config.toml changed" : "",
                  changed->count > 0 || problems->count > 0 ? ""
                                                            : ", and what local.toml says holds");
    for (uint32_t i = 0; i < changed->count; i++)
        print_words(out, &changed->items[i], "  {key}: {applies}\n");
    for (uint32_t i = 0; i < problems->count; i++) {
        bool has_hint = cli_text(&problems->items[i], "hint").length > 0;
        print_words(out, &problems->items[i], "  problem with {plugin}: {message}\n");
        print_words(out, &problems->items[i], has_hint ? "    → {hint}\n" : "");
    }
}

int cli_reload(struct cli *cli)
{
    const struct client_request request = {.method = "POST", .target = "/api/v1/reload"};
    return cli_show(cli, &request, put_changes);
}

/* -- stop -------------------------------------------------------------------------------------- */

/* Waits for the process behind pidfd to end; false when it did not in time. */
static bool wait_until_gone(int pidfd, int64_t pid)
{
    uint64_t start_ms = kg_monotonic_ms(), waited_ms = 0;
    bool shown = false;
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    while (waited_ms < STOP_TIMEOUT_MS) {
        if (poll(&gone, 1, STOP_PATIENCE_MS) > 0)
            break;
        waited_ms = kg_monotonic_ms() - start_ms;
        shown = isatty(STDERR_FILENO);
        if (shown)
            fprintf(stderr,
                    "\rwaiting for kaged (pid %" PRId64 ") to stop its plugins: %" PRIu64 " s ",
                    pid, waited_ms / 1000);
    }
    if (shown)
        fputs("\r\033[K", stderr);
    return waited_ms < STOP_TIMEOUT_MS;
}

/* A daemon that left between two questions is just as stopped. */
static int open_pidfd(int64_t pid, int *ret_fd, struct kg_err *err)
{
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd < 0 && errno != ESRCH)
        return kg_fail_errno(err, errno, "watch kaged (pid %" PRId64 ")", pid);
    *ret_fd = fd;
    return 0;
}

int cli_stop(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    kg_auto(kg_close) int pidfd = -1;
    struct kg_err err;
    int code = cli_ask_object(cli, &status_request, &body, &doc);
    if (code != CLI_DONE)
        return code;
    int64_t pid = kg_node_number(doc->root, "pid");
    if (open_pidfd(pid, &pidfd, &err) < 0)
        return print_error(&err);
    const struct client_request request = {.method = "POST", .target = "/api/v1/stop"};
    code = cli_ask(cli, &request, &body);
    if (code != CLI_DONE)
        return code;
    if (pidfd >= 0 && !wait_until_gone(pidfd, pid)) {
        kg_fail(&err, KG_E_CONFLICT, "kaged (pid %" PRId64 ") still runs after %d s", pid,
                STOP_TIMEOUT_MS / 1000);
        kg_hint(&err, "a plugin takes long to leave; run stop again");
        return print_error(&err);
    }
    if (cli->json)
        print_json(kg_buf_view(&body));
    else
        print_line(KG_STR("kaged stopped"));
    return CLI_DONE;
}
