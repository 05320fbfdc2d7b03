/*
 * kaged cluster: what is shared, on its way into a database and back. Each command holds the home's
 * lock, so that no daemon starts in its middle, and the database's, so that none has it.
 */
#include "cli/cli.h"

#include "cage/cage.h"
#include "cli/install.h"
#include "cli/offline.h"
#include "host/cluster.h"
#include "secret/secret.h"

#include <errno.h>
#include <stdlib.h>

#define LABEL_COLUMNS 10

/* What the operator's files say. */
struct cluster_home {
    struct config *config;
    struct local *local;
    struct host_cluster cluster;
};

static void home_clear(struct cluster_home *home)
{
    host_cluster_clear(&home->cluster);
    local_free(home->local);
    config_free(home->config);
}

struct local *cli_local_read(const struct cli *cli, struct kg_err *err)
{
    struct secret_places places;
    secret_places_find(&cli->paths, &places);
    struct secret_values *values = secret_values_read(cli->paths.local_file, &places, err);
    secret_places_free(&places);
    if (values == NULL)
        return NULL;
    const struct local_lookup lookup = secret_values_lookup(values);
    struct local *local = local_load(cli->paths.local_file, &lookup, err);
    secret_values_drop(values);
    return local;
}

static int home_read(const struct cli *cli, const struct config *config, struct cluster_home *home,
                     struct kg_err *err)
{
    if (!host_cluster_is_set(config)) {
        kg_fail(err, KG_E_INVALID_CONFIG, "config.toml has no cluster.database");
        return kg_hint(err, "kaged config set cluster.database postgres://USER@HOST/DATABASE");
    }
    home->local = cli_local_read(cli, err);
    if (home->local == NULL)
        return -EINVAL;
    host_cluster_read(config, home->local, &cli->paths, &home->cluster);
    return 0;
}

/* As the daemon's user, whose files and passwords count. */
static int cli_cluster_home_open(const struct cli *cli, struct cluster_home *home,
                                 struct kg_err *err)
{
    home->config = config_load(cli->paths.config_file, err);
    if (home->config == NULL || offline_become(cli, home->config, err) < 0)
        return -EINVAL;
    return home_read(cli, home->config, home, err);
}

/* -- init and leave ---------------------------------------------------------------------------- */

struct carried {
    struct kg_buf text;
    struct kg_json_writer json;
    struct kg_buf tables;
    int64_t rows;
};

static void add_carried(void *data, const struct state_carried *carried)
{
    struct carried *all = data;
    all->rows += carried->rows;
    kg_json_named_int(&all->json, carried->table, carried->rows);
    if (carried->rows > 0)
        kg_buf_printf(&all->text, "  %-18s%lld\n", carried->table, (long long)carried->rows);
}

int cli_cluster_refuse_running(const struct cli *cli, struct kg_err *err)
{
    if (!door_daemon_runs(cli))
        return 0;
    kg_fail(err, KG_E_CONFLICT, "the daemon of this home is running");
    return kg_hint(err, "kaged stop");
}

typedef int change_fn(const struct cli *cli, const struct state_cluster_options *options,
                      struct carried *carried, struct kg_err *err);

static int init_home(const struct cli *cli, const struct state_cluster_options *options,
                     struct carried *carried, struct kg_err *err)
{
    enum state_cluster_start start = cli_has(cli, "from-local") ? STATE_CLUSTER_FROM_LOCAL
                                     : cli_has(cli, "existing") ? STATE_CLUSTER_EXISTING
                                                                : STATE_CLUSTER_EMPTY;
    int result = state_cluster_init(options, start, add_carried, carried, err);
    return result < 0 ? result : cli_cluster_make_keys(cli, options->node, err);
}

static int leave_home(const struct cli *cli, const struct state_cluster_options *options,
                      struct carried *carried, struct kg_err *err)
{
    (void)cli;
    return state_cluster_to_local(options, add_carried, carried, err);
}

static int change_home(struct cli *cli, change_fn *change, const char *words)
{
    struct kg_err err = {0};
    struct cluster_home home = {0};
    struct carried carried = {0};
    carried.json = kg_json_writer(&carried.tables);
    kg_json_begin(&carried.json, '{');
    kg_auto(kg_close) int lock_fd = -1;
    int result = cli_cluster_refuse_running(cli, &err);
    if (result == 0)
        result = cli_cluster_home_open(cli, &home, &err);
    if (result == 0)
        result = lock_fd = offline_lock(cli, &err);
    if (result >= 0)
        result = change(cli, &home.cluster.options, &carried, &err);
    kg_json_end(&carried.json, '}');
    if (result < 0) {
        print_error(&err);
    } else if (cli->json) {
        print_json(kg_buf_view(&carried.tables));
    } else {
        printf("%s%s\n", words, carried.rows > 0 ? "; rows that were carried over:" : "");
        fflush(stdout);
        print_out(&carried.text);
    }
    kg_buf_free(&carried.text);
    kg_buf_free(&carried.tables);
    home_clear(&home);
    return result < 0 ? kg_error_row(err.code)->exit_code : CLI_DONE;
}

int cli_cluster_init(struct cli *cli)
{
    if (cli_has(cli, "from-local") && cli_has(cli, "existing"))
        return print_problem(CLI_USAGE, KG_STR("--from-local and --existing exclude each other"),
                             KG_STR(""));
    return change_home(cli, init_home, "the state of this home is in the database from now on");
}

int cli_cluster_leave(struct cli *cli)
{
    if (!cli_has(cli, "to-local"))
        return print_problem(CLI_USAGE, KG_STR("cluster leave needs --to-local"),
                             KG_STR("it says where the state goes: into kaged.db of this home"));
    return change_home(
        cli, leave_home,
        "the state of this home is in kaged.db again; remove cluster.database from config.toml");
}

/* -- status ------------------------------------------------------------------------------------ */

static const char *node_state(const struct state_cluster_node *node)
{
    return node->stopped ? "stopped" : node->alive ? "running" : "away";
}

static void put_node_json(const struct state_cluster_node *node, struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", node->name);
    kg_json_named_text(json, "state", node_state(node));
    kg_json_named_text(json, "version", node->program);
    kg_json_named_text(json, "address", node->address[0] != '\0' ? node->address : NULL);
    kg_json_named_int(json, "seen_ms", node->seen_ms);
    kg_json_named_int(json, "leases", node->leases);
    kg_json_end(json, '}');
}

static void put_facts_json(const struct state_cluster_facts *facts, struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "database", facts->shown);
    kg_json_named_int(json, "server", facts->server / 10000);
    kg_json_named_text(json, "cluster", facts->name);
    kg_json_named_int(json, "schema", facts->version);
    kg_json_named_text(json, "node", facts->holder);
    kg_json_named_bool(json, "held", facts->held);
    kg_json_named_int(json, "seen_ms", facts->seen_ms);
    kg_json_named_int(json, "clock_ms", facts->clock_ms);
    kg_json_named_int(json, "sessions", facts->sessions);
    kg_json_named_int(json, "entries", facts->entries);
    kg_json_named_int(json, "connections", facts->connections);
    kg_json_named_int(json, "connections_max", facts->connections_max);
    kg_json_named_begin(json, "nodes", '[');
    for (size_t i = 0; i < facts->node_count; i++)
        put_node_json(&facts->nodes[i], json);
    kg_json_end(json, ']');
    kg_json_end(json, '}');
}

static void cli_cluster_put_label(struct kg_buf *out, const char *label, char *text)
{
    kg_auto(kg_free) char *owned = text;
    print_fact(out, LABEL_COLUMNS, label, kg_str(owned));
}

static void cli_cluster_put_nodes(const struct state_cluster_facts *facts, struct kg_buf *out)
{
    if (facts->node_count == 0)
        cli_cluster_put_label(out, "node", kg_strdup("none was started on it yet"));
    for (size_t i = 0; i < facts->node_count; i++) {
        const struct state_cluster_node *node = &facts->nodes[i];
        cli_cluster_put_label(out, "node",
                              kg_format("%s: %s, seen %lld ms ago, kaged %s, %s%s, %lld leases",
                                        node->name, node_state(node), (long long)node->seen_ms,
                                        node->program,
                                        node->address[0] != '\0' ? "at " : "not reached by others",
                                        node->address, (long long)node->leases));
    }
}

static void put_facts(const struct state_cluster_facts *facts, struct kg_buf *out)
{
    cli_cluster_put_label(out, "database", kg_strdup(facts->shown));
    cli_cluster_put_label(out, "server",
                          kg_format("PostgreSQL %d.%d, %lld of %lld connections",
                                    facts->server / 10000, facts->server % 10000,
                                    (long long)facts->connections,
                                    (long long)facts->connections_max));
    cli_cluster_put_label(out, "clock",
                          kg_format("%lld ms off this machine's", (long long)facts->clock_ms));
    cli_cluster_put_label(out, "schema",
                          facts->version == 0
                              ? kg_strdup("none; kaged cluster init makes it")
                              : kg_format("version %lld of %lld", (long long)facts->version,
                                          (long long)facts->newest_version));
    if (facts->version == 0)
        return;
    cli_cluster_put_nodes(facts, out);
    cli_cluster_put_label(out, "holds",
                          kg_format("%lld sessions, %lld entries", (long long)facts->sessions,
                                    (long long)facts->entries));
}

int cli_cluster_status(struct cli *cli)
{
    struct kg_err err = {0};
    struct cluster_home home = {0};
    kg_auto(state_cluster_facts_free) struct state_cluster_facts facts = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    home.config = config_load(cli->paths.config_file, &err);
    int result = home.config != NULL ? home_read(cli, home.config, &home, &err) : -EINVAL;
    if (result == 0)
        result = state_cluster_look(&home.cluster.options, &facts, &err);
    home_clear(&home);
    if (result < 0)
        return print_error(&err);
    struct kg_json_writer json = kg_json_writer(&text);
    if (cli->json)
        put_facts_json(&facts, &json);
    else
        put_facts(&facts, &text);
    if (cli->json)
        print_json(kg_buf_view(&text));
    else
        print_out(&text);
    return CLI_DONE;
}

/* -- for the doctor ---------------------------------------------------------------------------- */

/* What is wrong with it, the worst first; a row each. */
static void put_findings(struct cage_checks *checks, const struct state_cluster_facts *facts)
{
    const bool bad[] = {
        facts->server < STATE_CLUSTER_SERVER_MIN || facts->server > STATE_CLUSTER_SERVER_MAX,
        !facts->is_utf8,
        !facts->may_create,
        llabs((long long)facts->clock_ms) > 2000,
        facts->connections_max - facts->connections < 8,
        facts->version == 0,
    };
    static const struct {
        const char *detail, *means, *remedy;
    } rows[] = {
        {"its version is not one of 15 to 17", "kaged was not tried with it",
         "use PostgreSQL 15, 16 or 17"},
        {"it does not keep texts as UTF-8", "the daemon does not start",
         "createdb --encoding=UTF8 --template=template0 NAME"},
        {"its user may not make tables", "kaged cluster init, and newer kageds, fail",
         "GRANT CREATE ON DATABASE ... TO ...; or make the user its owner"},
        {"its clock differs by more than 2 s from this machine's",
         "times of nodes cannot be compared", "run a time service on both"},
        {"fewer than 8 of its connections are free", "calls may be answered with 503",
         "raise max_connections"},
        {"there is no state of kaged in it", "the daemon does not start",
         "kaged cluster init --from-local"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *detail = kg_format("%s: %s", facts->shown, rows[i].detail);
        if (bad[i])
            cage_checks_add(checks, "database", CAGE_STATUS_DEGRADED, detail, rows[i].means,
                            rows[i].remedy);
    }
}

/* One that stopped said so; of the others nobody knows. */
static void put_nodes_away(struct cage_checks *checks, const struct state_cluster_facts *facts)
{
    for (size_t i = 0; i < facts->node_count; i++) {
        const struct state_cluster_node *node = &facts->nodes[i];
        if (node->alive || node->stopped)
            continue;
        kg_auto(kg_free) char *detail = kg_format("node %s was seen %lld s ago, and has not said "
                                                  "that it stops",
                                                  node->name, (long long)node->seen_ms / 1000);
        cage_checks_add(checks, "database", CAGE_STATUS_DEGRADED, detail,
                        "what is on its disk is answered with 503", "start it");
    }
}

void cluster_add_checks(const struct cli *cli, const struct config *config,
                        struct cage_checks *checks)
{
    struct kg_err err = {0};
    struct cluster_home home = {0};
    kg_auto(state_cluster_facts_free) struct state_cluster_facts facts = {0};
    if (!host_cluster_is_set(config))
        return;
    int result = home_read(cli, config, &home, &err);
    if (result == 0)
        result = state_cluster_look(&home.cluster.options, &facts, &err);
    home_clear(&home);
    if (result < 0) {
        cage_checks_add(checks, "database", CAGE_STATUS_DEGRADED, err.message,
                        "what is shared cannot be used",
                        err.hint[0] != '\0' ? err.hint : "start it, or set cluster.database");
        return;
    }
    kg_auto(kg_free) char *detail =
        kg_format("%s: PostgreSQL %d.%d, its clock %lld ms off this machine's", facts.shown,
                  facts.server / 10000, facts.server % 10000, (long long)facts.clock_ms);
    cage_checks_add(checks, "database", CAGE_STATUS_OK, detail, NULL, NULL);
    put_findings(checks, &facts);
    put_nodes_away(checks, &facts);
}
