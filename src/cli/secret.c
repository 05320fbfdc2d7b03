/*
 * kaged secret: the sealed store, by the daemon or, without one, in this process under its lock. A
 * value comes from a terminal that does not show it or from stdin, and goes nowhere else.
 */
#include "cli/cli.h"

#include "cli/install.h"
#include "cli/offline.h"
#include "cli/rows.h"
#include "secret/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* -- the value --------------------------------------------------------------------------------- */

static int read_stdin(struct kg_buf *value, struct kg_err *err)
{
    kg_buf_reserve(value, SECRET_BYTES_MAX + 2);
    while (value->length < SECRET_BYTES_MAX + 2) {
        ssize_t got =
            read(STDIN_FILENO, value->data + value->length, SECRET_BYTES_MAX + 2 - value->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kg_fail_errno(err, errno, "read the value from stdin");
        if (got == 0)
            break;
        value->length += (size_t)got;
    }
    value->length -= value->length > 0 && value->data[value->length - 1] == '\n';
    return 0;
}

int cli_ask_value(const char *name, struct kg_buf *value, struct kg_err *err)
{
    if (!isatty(STDIN_FILENO))
        return read_stdin(value, err);
    kg_auto(kg_close) int terminal = terminal_open();
    kg_auto(kg_free) char *question = kg_format("value of %s (not shown): ", name);
    if (terminal < 0)
        return kg_fail(err, KG_E_USAGE, "there is no terminal to ask for the value");
    terminal_catch_interrupts();
    if (terminal_ask_secret(terminal, question, value, SECRET_BYTES_MAX) < 0)
        return kg_fail(err, KG_E_CANCELLED, "nothing was set");
    return 0;
}

/* -- without a daemon -------------------------------------------------------------------------- */

struct home {
    struct config *config;
    struct loop *loop;
    struct secret_places places;
    struct offline offline;
    char *operator_id; /* owned */
};

static void home_close(struct home *home)
{
    if (home->offline.audit != NULL)
        offline_end(&home->offline);
    if (home->loop != NULL)
        loop_free(home->loop);
    config_free(home->config);
    secret_places_free(&home->places);
    free(home->operator_id);
}

static int secret_home_open(const struct cli *cli, struct home *home, struct kg_err *err)
{
    home->operator_id = offline_operator();
    home->config = config_load(cli->paths.config_file, err);
    if (home->config == NULL || offline_become(cli, home->config, err) < 0)
        return -EINVAL;
    home->loop = loop_new();
    secret_places_find(&cli->paths, &home->places);
    return offline_begin(cli, home->config, home->loop, &home->offline, err);
}

static struct secret_values *list_here(const struct cli *cli, struct kg_err *err)
{
    struct secret_places places;
    secret_places_find(&cli->paths, &places);
    struct secret_values *values = secret_values_list(cli->paths.local_file, &places, err);
    secret_places_free(&places);
    return values;
}

static int set_here(const struct cli *cli, struct home *home, struct kg_str value,
                    struct kg_err *err)
{
    const char *name = cli_argument(cli, 0);
    (void)cli;
    int result = secret_set(&home->places, kg_str(name), value, err);
    if (result == 0)
        audit_emit(home->offline.audit, AUDIT_SECRET_SET, KG_STR_NULL, AUDIT_V_TEXT(name),
                   AUDIT_V_TEXT(home->operator_id));
    return result;
}

static int remove_here(const struct cli *cli, struct home *home, struct kg_str value,
                       struct kg_err *err)
{
    const char *name = cli_argument(cli, 0);
    (void)value;
    struct secret_values *values = list_here(cli, err);
    int result = values == NULL ? -EINVAL : 0;
    if (result == 0 && !cli_has(cli, "force"))
        result = secret_check_unused(values, kg_str(name), err);
    secret_values_drop(values);
    if (result == 0)
        result = secret_remove(&home->places, kg_str(name), err);
    if (result == 0)
        audit_emit(home->offline.audit, AUDIT_SECRET_REMOVED, KG_STR_NULL, AUDIT_V_TEXT(name),
                   AUDIT_V_TEXT(home->operator_id));
    return result;
}

static int rotate_here(const struct cli *cli, struct home *home, struct kg_str value,
                       struct kg_err *err)
{
    size_t count = 0;
    (void)cli, (void)value;
    int result = secret_rotate(&home->places, &count, err);
    if (result == 0)
        audit_emit(home->offline.audit, AUDIT_SECRET_ROTATED, KG_STR_NULL,
                   AUDIT_V_INT((int64_t)count), AUDIT_V_TEXT(home->operator_id));
    return result;
}

/* -- both ways --------------------------------------------------------------------------------- */

/* One act: how the daemon is asked, what is done without one, and how the answer reads. */
struct act {
    const char *method, *target;
    int (*here)(const struct cli *cli, struct home *home, struct kg_str value, struct kg_err *err);
    const struct row *rows;
};

static void secret_put_answer(const struct cli *cli, const struct act *act, struct kg_str body)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(body, NULL);
    if (cli->json) {
        print_json(body);
    } else if (doc != NULL) {
        rows_put(&out, cli, doc->root, act->rows, 0);
        print_out(&out);
    }
}

/* The same object that the daemon answers with. */
static int answer_here(const struct cli *cli, struct kg_buf *ret_body, struct kg_err *err)
{
    const char *name = cli_argument(cli, 0);
    struct secret_values *values = list_here(cli, err);
    struct kg_json_writer json = kg_json_writer(ret_body);
    struct secret_fact fact;
    if (values == NULL)
        return -EINVAL;
    if (name == NULL) {
        secret_values_json(values, ret_body);
    } else if (secret_values_find(values, kg_str(name), &fact)) {
        secret_fact_json(&fact, &json);
    } else {
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "name", name);
        kg_json_end(&json, '}');
    }
    secret_values_drop(values);
    return 0;
}

static int act_here(const struct cli *cli, const struct act *act, struct kg_str value)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(home_close) struct home home = {0};
    struct kg_err err = {0};
    int result = act->here ? secret_home_open(cli, &home, &err) : 0;
    if (result == 0 && act->here != NULL)
        result = act->here(cli, &home, value, &err);
    if (result == 0)
        result = answer_here(cli, &body, &err);
    if (result < 0)
        return print_error(&err);
    secret_put_answer(cli, act, kg_buf_view(&body));
    return CLI_DONE;
}

static int act_there(const struct cli *cli, const struct act *act, struct kg_str value)
{
    kg_auto(secret_wipe) struct kg_buf body = {0};
    if (value.data != NULL) {
        kg_buf_reserve(&body, value.length * 6 + 64); /* nothing is left behind by growing */
        rows_put_text(&body, "value", value);
    }
    const struct cli_page page = {act->method, act->target, .silence_ms = CLIENT_WAIT_FOREVER,
                                  .rows = act->rows};
    return page_show_with(cli, &page, &(struct page_given){.body = kg_buf_view(&body)});
}

static int secret_run(const struct cli *cli, const struct act *act, struct kg_str value)
{
    return door_daemon_runs(cli) ? act_there(cli, act, value) : act_here(cli, act, value);
}

/* -- the commands ------------------------------------------------------------------------------ */

static void secret_put_short(struct kg_buf *out, const struct cli *cli,
                             const struct kg_node *secret)
{
    (void)cli, (void)secret;
    kg_buf_printf(out, "it is shorter than %d bytes: it is not redacted where it is shown\n",
                  SECRET_HIDDEN_MIN);
}

static void secret_put_use(struct kg_buf *out, const struct cli *cli, const struct kg_node *secret)
{
    (void)secret;
    kg_buf_printf(out, "to use it, write ${secret:%s} into a table of local.toml\n",
                  cli_argument(cli, 0));
}

static const struct row set_rows[] = {
    {.words = "secret {name} is set"},
    {"used_by", .words = "; used by {used_by:list}"},
    {.words = "\n"},
    {"!redacted", .put = secret_put_short},
    {"!used_by", .put = secret_put_use},
    {0},
};

int cli_secret_set(struct cli *cli)
{
    static const struct act act = {"PUT", "/api/v1/secrets/{1}", set_here, set_rows};
    kg_auto(secret_wipe) struct kg_buf value = {0};
    struct kg_err err = {0};
    const char *name = cli_argument(cli, 0);
    if (secret_check(kg_str(name), KG_STR("anything"), &err) < 0 ||
        cli_ask_value(name, &value, &err) < 0 ||
        secret_check(kg_str(name), kg_buf_view(&value), &err) < 0)
        return print_error(&err);
    return secret_run(cli, &act, kg_buf_view(&value));
}

static const struct cell list_cells[] = {
    {"REDACTED", "redacted", "yes", NULL}, {"REDACTED", NULL, "no", NULL}, {0}};
static const struct row list_rows[] = {
    {"!secrets", .words = "there are no secrets\n"},
    {.each = "secrets",
     .table = "SECRET={name}; SOURCE={source}; REDACTED; SET={set_at}; USED BY={used_by:list}",
     .cells = list_cells},
    {0},
};

int cli_secret_list(struct cli *cli)
{
    static const struct act act = {"GET", "/api/v1/secrets", NULL, list_rows};
    return secret_run(cli, &act, KG_STR_NULL);
}

static const struct row removed_rows[] = {{.words = "secret {name} is removed\n"}, {0}};

int cli_secret_rm(struct cli *cli)
{
    static const struct act act = {"DELETE", "/api/v1/secrets/{1}?force", remove_here,
                                   removed_rows};
    return secret_run(cli, &act, KG_STR_NULL);
}

static void secret_put_rotated(struct kg_buf *out, const struct cli *cli,
                               const struct kg_node *answer)
{
    const struct kg_node *secrets = kg_node_list(answer, "secrets");
    uint32_t count = 0;
    (void)cli;
    for (uint32_t i = 0; i < secrets->count; i++)
        count += kg_str_is(kg_node_text(&secrets->items[i], "source"), "sealed");
    kg_buf_printf(out, "%u secret%s sealed with the new key\n", count,
                  count == 1 ? " is" : "s are");
}

static const struct row rotated_rows[] = {{.put = secret_put_rotated}, {0}};

int cli_secret_rotate(struct cli *cli)
{
    static const struct act act = {"POST", "/api/v1/secrets/rotate", rotate_here, rotated_rows};
    return secret_run(cli, &act, KG_STR_NULL);
}
