/*
 * kaged doctor: the rows that the daemon itself decides by, and then a full cage, built the way
 * that plugins get theirs, with a program in it that tells what it sees. The verdict is measured.
 */
#include "cli/cli.h"

#include "helper/helper.h"
#include "native/native.h"
#include "store/store.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define TRIAL_TIMEOUT_MS 20000
#define TRIAL_BYTES      65536
#define TRIAL_INPUT      "as it went in"
#define DAEMON_WAIT_MS   3000
#define SERVICES_WAIT_MS 30000 /* a bucket is tried meanwhile */
#define CLOCK_MS         120000
#define NAME_COLUMNS     16

/* -- the trial --------------------------------------------------------------------------------- */

/* What the program must find in its /proc/self/status: each is a wall that stands. */
static const struct {
    const char *line, *wall;
} walls[] = {
    {"\nNoNewPrivs:\t1\n", "it could gain privileges"},
    {"\nSeccomp:\t2\n", "no filter of system calls is loaded"},
    {"\nCapEff:\t0000000000000000\n", "it has capabilities"},
    {"\nCapBnd:\t0000000000000000\n", "it could gain capabilities"},
};

static int check_walls(struct helper_run_result *result, struct kg_err *err)
{
    const char *seen = kg_buf_terminate(&result->out);
    if (strncmp(seen, TRIAL_INPUT "\n", sizeof(TRIAL_INPUT)) != 0)
        return kg_fail(err, KG_E_CAGE, "what went in did not come out");
    for (size_t i = 0; i < KG_COUNT(walls); i++)
        if (strstr(seen, walls[i].line) == NULL)
            return kg_fail(err, KG_E_CAGE, "the cage stands, but %s", walls[i].wall);
    return 0;
}

static int doctor_check_result(struct helper_run_result *result, struct kg_err *err)
{
    char *said = kg_buf_terminate(&result->err);
    said[strcspn(said, "\n")] = '\0';
    if (result->timed_out)
        return kg_fail(err, KG_E_CAGE, "the program did not end within %d s",
                       TRIAL_TIMEOUT_MS / 1000);
    if (!result->how.built || result->how.exit_code != 0)
        return kg_fail(err, KG_E_CAGE, "%s",
                       said[0] != '\0' ? said : "the program ended without a word");
    return check_walls(result, err);
}

static void doctor_on_lost(void *data)
{
    (void)data; /* the run ends with an error then */
}

static int run_trial(struct cage_spawner *spawner, const struct cage_plan *plan, struct kg_err *err)
{
    struct helper_run_options options = {.input = KG_STR(TRIAL_INPUT "\n"),
                                         .output_max = TRIAL_BYTES,
                                         .timeout_ms = TRIAL_TIMEOUT_MS};
    kg_auto(helper_run_result_free) struct helper_run_result result = {0};
    struct loop *loop = loop_new();
    const struct helper_place place = {.loop = loop, .spawner = spawner};
    int failed = cage_spawner_attach(spawner, loop, doctor_on_lost, NULL, err);
    if (failed == 0)
        failed = helper_run(&place, plan, &options, &result, err);
    if (failed == 0)
        failed = doctor_check_result(&result, err);
    cage_spawner_free(spawner);
    loop_free(loop);
    return failed;
}

/* In a folder of its own, which belongs to whom the daemon's plugins belong to. */
static int try_cage(const struct cage_facts *facts, const struct cage_owner *owner,
                    const char *folder, struct kg_err *err)
{
    static const char *const command[] = {"cat", "-", "/proc/self/status", NULL};
    struct cage_policy policy = {.name = "doctor",
                                 .install_dir = folder,
                                 .command = command,
                                 .processes_max = 8,
                                 .tmp_bytes = 65536};
    if (owner->uid != geteuid() && chown(folder, owner->uid, owner->gid) < 0)
        return kg_fail_errno(err, errno, "give folder %s to uid %u", folder, (unsigned)owner->uid);
    struct cage_plan *plan = cage_plan_new(&policy, facts, err);
    struct cage_spawner *spawner = plan != NULL ? cage_spawner_start_for(owner, err) : NULL;
    int result = spawner != NULL ? run_trial(spawner, plan, err) : -EINVAL;
    cage_plan_free(plan);
    return result;
}

static void add_trial(struct cage_checks *checks, const struct cage_facts *facts,
                      const struct cage_owner *owner)
{
    struct kg_err err = {0};
    char folder[] = "/tmp/kaged-doctor-XXXXXX";
    uint64_t start_ms = kg_monotonic_ms();
    signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(folder) == NULL) {
        kg_fail_errno(&err, errno, "make folder %s", folder);
    } else {
        try_cage(facts, owner, folder, &err);
        rmdir(folder);
    }
    kg_auto(kg_free) char *detail =
        err.code == KG_OK ? kg_format("a program ran in a full cage, %llu ms",
                                      (unsigned long long)(kg_monotonic_ms() - start_ms))
                          : kg_format("run a program in a full cage: %s", err.message);
    if (err.code == KG_OK)
        cage_checks_add(checks, "trial", CAGE_STATUS_OK, detail, NULL, NULL);
    else
        cage_checks_add(checks, "trial", CAGE_STATUS_MISSING, detail, "no plugin can start",
                        err.hint[0] != '\0' ? err.hint : "fix what the message names");
}

/* -- the daemon that runs ---------------------------------------------------------------------- */

/* What it found at its start may differ: limits, rights and namespaces are each process's own. */
static void add_daemon(const struct cli *cli, struct cage_checks *checks)
{
    const struct client_request request = {
        .method = "GET", .target = "/api/v1/status", .silence_ms = DAEMON_WAIT_MS};
    struct kg_err err = {0};
    struct client_reply reply = {0};
    kg_auto(kg_free) char *detail = NULL;
    if (client_exchange(cli->paths.socket, &request, &reply, &err) < 0) {
        detail = err.code == KG_E_NO_DAEMON ? kg_strdup("not running")
                                            : kg_format("cannot be asked: %s", err.message);
    } else {
        kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&reply.body), NULL);
        struct kg_str cages = doc ? cli_text(doc->root, "cages") : KG_STR("");
        struct kg_str user = doc ? cli_text(doc->root, "user") : KG_STR("");
        detail = kg_format("runs as %.*s; its cages: %.*s", KG_STR_CUT(user, 64),
                           KG_STR_CUT(cages, 256));
    }
    kg_buf_free(&reply.body);
    cage_checks_add(checks, "daemon", CAGE_STATUS_OK, detail, NULL, NULL);
}

/* -- what was never asked ---------------------------------------------------------------------- */

/* Told once: what was installed before counts as approved. */
static void doctor_add_settings(const struct cli *cli, const struct config *config,
                                struct cage_checks *checks)
{
    const struct store_parts parts = {.paths = &cli->paths,
                                      .plugins_dir = config_plugins_dir(config, &cli->paths)};
    kg_auto(kg_buf_free) struct kg_buf text = {0}, detail = {0};
    struct store *store = store_new(&parts);
    bool any = store_settings_before(store, &text);
    store_free(store);
    if (!any)
        return;
    char *rest = NULL;
    for (char *line = strtok_r(kg_buf_terminate(&text), "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        kg_buf_printf(&detail, "%s%s", detail.length > 0 ? "; " : "", line);
    cage_checks_add(checks, "settings", CAGE_STATUS_OK, kg_buf_terminate(&detail),
                    "these plugins may read and write where their settings point; they were "
                    "installed before kaged asked about that, and count as approved",
                    "kaged plugin status --cage shows what each may; this is told once");
}

/* -- system plugins ---------------------------------------------------------------------------- */

static void add_native(struct cage_checks *checks, struct kg_str name, const char *detail,
                       const char *means, const char *remedy)
{
    kg_auto(kg_free) char *words = kg_format("%.*s: %s", KG_STR_CUT(name, 64), detail);
    cage_checks_add(checks, "system plugin", means ? CAGE_STATUS_DEGRADED : CAGE_STATUS_OK, words,
                    means, remedy);
}

/* What the daemon that runs knows of one. */
static void add_running(struct cage_checks *checks, const struct kg_node *plugin)
{
    static const char after[] = "ask its author; without its table in local.toml it is not loaded";
    struct kg_str name = cli_text(plugin, "name"), problem = cli_text(plugin, "problem");
    kg_auto(kg_buf_free) struct kg_buf detail = {0};
    if (problem.length > 0) {
        kg_auto(kg_free) char *remedy = kg_str_dup(cli_text(plugin, "hint"));
        print_words(&detail, plugin, "{problem}");
        add_native(checks, name, kg_buf_terminate(&detail), "it is not loaded",
                   remedy[0] != '\0' ? remedy
                                     : "fix what the message names, then start the daemon");
    } else if (cli_text(plugin, "left_in").length > 0) {
        print_words(&detail, plugin, "the daemon ended while it was in: {left_in}");
        add_native(checks, name, kg_buf_terminate(&detail), "it may have crashed the daemon",
                   after);
    } else if (kg_node_number(plugin, "busy_ms") > 1000) {
        print_words(&detail, plugin, "it has been in {busy} for {busy_ms} ms");
        add_native(checks, name, kg_buf_terminate(&detail), "its events wait, and then are dropped",
                   after);
    } else if (kg_node_number(plugin, "slow") > 0) {
        print_words(&detail, plugin,
                    "{slow} of {calls} calls took over 50 ms; {slowest} took {slowest_ms} ms");
        add_native(checks, name, kg_buf_terminate(&detail), "its events wait, and may be dropped",
                   after);
    } else {
        print_words(&detail, plugin, "{state}, {calls} calls, none of them slow");
        add_native(checks, name, kg_buf_terminate(&detail), NULL, NULL);
    }
}

/* What it answers; NULL: it does not. */
static struct kg_doc *ask_daemon(const struct cli *cli, const char *target, int64_t silence_ms)
{
    const struct client_request request = {
        .method = "GET", .target = target, .silence_ms = silence_ms};
    struct client_reply reply = {0};
    struct kg_err err = {0};
    bool answered =
        client_exchange(cli->paths.socket, &request, &reply, &err) == 0 && reply.status == 200;
    struct kg_doc *doc = answered ? kg_json_read(kg_buf_view(&reply.body), NULL) : NULL;
    kg_buf_free(&reply.body);
    return doc;
}

static bool add_all_running(const struct cli *cli, struct cage_checks *checks)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        ask_daemon(cli, "/api/v1/system-plugins", DAEMON_WAIT_MS);
    const struct kg_node *plugins = doc ? kg_node_list(doc->root, "system_plugins") : NULL;
    for (uint32_t i = 0; plugins != NULL && i < plugins->count; i++)
        add_running(checks, &plugins->items[i]);
    return doc != NULL;
}

/* Without a daemon: whether the next start could load them. No byte of them is run. */
static void add_system_plugins(const struct cli *cli, const struct cage_owner *owner,
                               struct cage_checks *checks)
{
    struct kg_err err = {0};
    char hash[NATIVE_HASH_TEXT];
    if (add_all_running(cli, checks))
        return;
    struct local *local = local_load(cli->paths.local_file, LOCAL_LEAVE, &err);
    for (size_t i = 0; local != NULL && i < local->system_plugin_count; i++) {
        const struct local_system_plugin *plugin = &local->system_plugins[i];
        if (native_check_file(plugin, owner->uid, hash, &err) == 0)
            add_native(checks, plugin->name, "its file may be loaded", NULL, NULL);
        else
            add_native(checks, plugin->name, err.message, "it will not be loaded",
                       err.hint[0] != '\0' ? err.hint : "fix what the message names");
    }
    local_free(local);
}

/* -- what the daemon asks outside ---------------------------------------------------------------
 */

static void add_forward(struct cage_checks *checks, const struct kg_node *forward)
{
    kg_auto(kg_buf_free) struct kg_buf detail = {0};
    const char *means = NULL, *remedy = NULL;
    bool lost = kg_node_number(forward, "lost") > 0 || kg_node_number(forward, "lost_files") > 0;
    print_words(&detail, forward, "{target}: {sent} events sent");
    if (lost) {
        print_words(&detail, forward,
                    "; {lost} events and {lost_files} whole files could not be sent in time");
        means = "the receiver lacks them; the log has them, as far as audit.keep reaches";
        remedy = "raise audit.keep, or see why the receiver was away";
    }
    if (kg_node_number(forward, "failures") > 0) {
        print_words(&detail, forward,
                    "; {waiting_bytes} bytes of the log wait, it is tried again: {problem}");
        means = "events wait in the log, and are lost to the receiver once it is rotated";
        remedy = "fix what the message names; it goes on by itself then";
    }
    cage_checks_add(checks, "audit forward", means ? CAGE_STATUS_DEGRADED : CAGE_STATUS_OK,
                    kg_buf_terminate(&detail), means, remedy);
}

/* Signatures are refused a quarter of an hour from its time: it is told before. */
static void add_bucket(struct cage_checks *checks, const struct kg_node *bucket)
{
    kg_auto(kg_buf_free) struct kg_buf detail = {0};
    kg_auto(kg_free) char *remedy = kg_str_dup(cli_text(bucket, "hint"));
    int64_t clock_ms = kg_node_number(bucket, "clock_ms");
    const char *means = NULL;
    if (cli_text(bucket, "problem").length > 0) {
        print_words(&detail, bucket, "{bucket}: {problem}");
        means = "packages cannot be uploaded, and only those of the cache be had";
    } else if (!kg_node_is_true(bucket, "may_read") || !kg_node_is_true(bucket, "may_write")) {
        print_words(&detail, bucket, "{bucket}: what was put did not come back as it was");
        means = "packages cannot be kept there";
    } else {
        print_words(&detail, bucket, "{bucket}: an object was put, read and removed");
    }
    if (clock_ms > CLOCK_MS || clock_ms < -CLOCK_MS) {
        print_words(&detail, bucket, "; its clock is ahead of ours by {clock_ms} ms");
        means = means ? means : "once that is a quarter of an hour, it refuses all";
    }
    cage_checks_add(checks, "bucket", means ? CAGE_STATUS_DEGRADED : CAGE_STATUS_OK,
                    kg_buf_terminate(&detail), means,
                    means == NULL       ? NULL
                    : remedy[0] != '\0' ? remedy
                                        : "set the clock, or see what the server says");
}

static void add_services(const struct cli *cli, struct cage_checks *checks)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        ask_daemon(cli, "/api/v1/services", SERVICES_WAIT_MS);
    const struct kg_node *forward =
        doc ? kg_node_typed(doc->root, "audit_forward", KG_OBJECT) : NULL;
    const struct kg_node *bucket = doc ? kg_node_typed(doc->root, "bucket", KG_OBJECT) : NULL;
    if (forward != NULL)
        add_forward(checks, forward);
    if (bucket != NULL)
        add_bucket(checks, bucket);
}

/* -- showing ----------------------------------------------------------------------------------- */

static const struct {
    const char *mark, *color, *sentence;
    int exit_code;
} verdicts[] = {
    [CAGE_STATUS_OK] = {"ok", "32", "Plugins run fully caged.", CLI_DONE},
    [CAGE_STATUS_DEGRADED] = {"warn", "33", "Plugins run caged, but some layers are missing.",
                              CLI_FAILED},
    [CAGE_STATUS_MISSING] = {"FAIL", "31", "Plugins will refuse to start.", 5},
};

static void put_extra(struct kg_buf *out, const char *label, const char *text)
{
    if (text[0] == '\0')
        return;
    kg_buf_printf(out, "      %-*s %s: ", NAME_COLUMNS, "", label);
    kg_buf_escaped(out, kg_str(text));
    kg_buf_char(out, '\n');
}

static void put_check(struct kg_buf *out, const struct cage_check *check, bool colors)
{
    const char *mark = verdicts[check->status].mark;
    if (colors)
        kg_buf_printf(out, "\033[%sm%-4s\033[0m", verdicts[check->status].color, mark);
    else
        kg_buf_printf(out, "%-4s", mark);
    kg_buf_printf(out, "  %-*s ", NAME_COLUMNS, check->name);
    kg_buf_escaped(out, kg_str(check->detail));
    kg_buf_char(out, '\n');
    put_extra(out, "means", check->means);
    put_extra(out, check->status == CAGE_STATUS_OK ? "advice" : "to fix it", check->remedy);
}

/* worst: of what cages are made of; what follows those checks is no layer of them. */
static void put_checks(struct kg_buf *out, const struct cage_checks *checks, enum cage_status worst)
{
    bool colors = print_colors();
    for (size_t i = 0; i < checks->count; i++)
        put_check(out, &checks->items[i], colors);
    kg_buf_printf(out, "\n%s\n", verdicts[worst].sentence);
}

/* -- the whole --------------------------------------------------------------------------------- */

static void examine(const struct cli *cli, const struct config *config,
                    const struct cage_owner *owner, struct cage_checks *ret_checks)
{
    const struct config_paths *paths = &cli->paths;
    const char *folders[CONFIG_PATHS_FOLDERS + 1];
    config_paths_folders(paths, folders);
    struct cage_site site = {
        .owner = owner,
        .folders = folders,
        .plugins_dir = config_plugins_dir(config, paths),
    };
    struct kg_err err = {0};
    struct cage_facts *facts = cage_facts_check(&site, ret_checks, &err);
    if (facts != NULL)
        add_trial(ret_checks, facts, owner);
    cage_facts_free(facts);
    add_daemon(cli, ret_checks);
    doctor_add_settings(cli, config, ret_checks);
}

int cli_doctor(struct cli *cli)
{
    struct kg_err err = {0};
    struct cage_owner owner;
    kg_auto(cage_checks_free) struct cage_checks checks = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct config *config = config_load(cli->paths.config_file, &err);
    if (config == NULL || user_find(config, &owner, &err) < 0) {
        config_free(config);
        return print_error(&err);
    }
    examine(cli, config, &owner, &checks);
    enum cage_status worst = cage_checks_worst(&checks);
    cluster_add_checks(cli, config, &checks);
    cluster_add_link_checks(cli, config, &checks);
    config_free(config);
    add_system_plugins(cli, &owner, &checks);
    add_services(cli, &checks);
    if (cli->json) {
        struct kg_json_writer json = kg_json_writer(&text);
        cage_checks_json(&checks, worst, &json);
        print_json(kg_buf_view(&text));
    } else {
        put_checks(&text, &checks, worst);
        print_out(&text);
    }
    return worst != CAGE_STATUS_OK ? verdicts[worst].exit_code
                                   : verdicts[cage_checks_worst(&checks)].exit_code;
}
