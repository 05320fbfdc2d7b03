/* The daemon as a whole: stop, status, reload, version. */
#include "cli/rows.h"

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

static void cli_daemon_put_plugin_counts(struct kg_buf *out, const struct cli *cli,
                                         const struct kg_node *status)
{
    const struct kg_node *plugins = kg_node_typed(status, "plugins", KG_OBJECT);
    const char *comma = "";
    (void)cli;
    kg_buf_text(out, "  plugins   ");
    for (uint32_t i = 0; plugins != NULL && i < plugins->count; i++) {
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

static const struct row status_rows[] = {
    {"stopping", .words = "kaged {version} is stopping\n"},
    {"!stopping", .words = "kaged {version} is running\n"},
    {.label = "pid", .words = "{pid}"},
    {.label = "user", .words = "{user}"},
    {.label = "home", .words = "{home}"},
    {.label = "config", .words = "{config_file}"},
    {.label = "socket", .words = "{socket}"},
    {.label = "tcp", .words = "{tcp}"},
    {.label = "no tcp", .words = "{tcp_problem:hint}"},
    {.label = "log", .words = "{log}"},
    {.label = "started", .words = "{started_at:when}"},
    {.label = "listens", .each = "listeners", .words = "{.}"},
    {.label = "audit", .words = "{audit_problem:hint}"},
    {.label = "cages", .words = "{cages:hint}"},
    {.label = "limits", .words = "{limits:hint}"},
    {.put = cli_daemon_put_plugin_counts},
    {.label = "calls", .words = "{calls:count}, {errors:count} with an error"},
    {.label = "memory", .words = "{memory_bytes:bytes}, {open_fds:count} open files"},
    {.label = "loop lag", .words = "{loop_lag_us:latency}, at most {loop_lag_max_us:latency}"},
    {.label = "events",
     .words = "{audit_events:count} audited, {audit_queue_bytes:bytes} waiting "
              "for the disk"},
    {0},
};
const struct cli_page page_daemon_status = {"GET", "/api/v1/status", .rows = status_rows,
                                            .columns = 10};

static const struct client_request status_request = {.method = "GET", .target = "/api/v1/status"};

/* -- reload ------------------------------------------------------------------------------------ */

static const struct row problem_rows[] = {
    {.words = "  problem with {plugin}: {message}\n"},
    {"hint", .words = "    → {hint}\n"},
    {0},
};
static const struct row reload_rows[] = {
    {.words = "the configuration was read again:"},
    {"!changed", .words = " no key of config.toml changed"},
    {"!changed !problems", .words = ", and local.toml is in effect"},
    {.words = "\n"},
    {.each = "changed", .words = "  {key}: {applies}\n"},
    {.each = "problems", .rows = problem_rows},
    {0},
};
const struct cli_page page_daemon_reload = {"POST", "/api/v1/reload", .rows = reload_rows};

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
        kg_hint(&err, "a plugin takes long to stop; run stop again");
        return print_error(&err);
    }
    if (cli->json)
        print_json(kg_buf_view(&body));
    else
        print_line(KG_STR("kaged stopped"));
    return CLI_DONE;
}
