/*
 * Programs that run for scripts, each in a cage of its own: what it may see is planned as for a
 * plugin that declares the same, so what is closed or guarded is so here, too. A run ends before
 * its request is answered, or with the process that asked; nothing of it is left then.
 */
#include "host/internal.h"

#include "helper/helper.h"

#include <errno.h>
#include <stdlib.h>

#define RUNS_MAX 4 /* of one process at the same time */

struct host_script_run {
    struct host_script_run *next;
    struct host_script_request *request; /* owned */
    struct host *host;
    struct host_script_wish wish; /* its texts are owned */
    struct manifest *manifest;    /* that its cage is planned by */
    struct host_search *search;   /* owned; NULL: nothing can be written */
    struct host_guarded *guarded; /* owned; NULL: nothing is watched */
    struct helper_run *run;       /* NULL: it has not begun */
};

/* -- its end ----------------------------------------------------------------------------------- */

static void script_run_free(struct host_script_run *run)
{
    KG_UNLINK(run->host->script_runs, run);
    host_search_drop(run->search);
    host_guarded_end(run->guarded);
    manifest_free(run->manifest);
    kg_list_free(run->wish.command);
    kg_buf_free(&run->wish.input);
    free(run);
}

static void script_run_fail(struct host_script_run *run, const struct kg_err *err)
{
    struct host_script_request *request = run->request;
    struct kg_err wrapped = *err;
    kg_wrap(&wrapped, 0, "%s", run->wish.call);
    script_run_free(run);
    host_script_fail(request, &wrapped);
}

/* A cage that could not be built says so on stderr. */
static void script_run_on_done(void *data, struct helper_run_result *result,
                               const struct kg_err *err_or_null)
{
    struct host_script_run *run = data;
    struct kg_err err = {0};
    run->run = NULL;
    if (err_or_null == NULL && !result->how.built)
        kg_fail(&err, KG_E_CAGE, "%.*s", KG_STR_CUT(kg_buf_view(&result->err), KG_CUT_CAUSE));
    else if (err_or_null != NULL)
        err = *err_or_null;
    if (err.code != KG_OK) {
        script_run_fail(run, &err);
        return;
    }
    struct host_script_request *request = run->request;
    host_script_ran_fn *on_ran = run->wish.on_ran;
    script_run_free(run);
    on_ran(request, result);
}

void host_script_runs_end(const struct host_process *process)
{
    static const struct kg_err gone = {.code = KG_E_CANCELLED, .message = "its script is gone"};
    struct host_script_run *next;
    for (struct host_script_run *at = process->plugin->host->script_runs; at != NULL; at = next) {
        next = at->next;
        if (host_script_asker(at->request) != process)
            continue;
        if (at->run != NULL)
            helper_run_cancel(kg_steal(&at->run));
        script_run_fail(at, &gone);
    }
}

/* -- its cage ---------------------------------------------------------------------------------- */

/* What a plugin would declare that does the same; HOME is its /tmp, which goes with it. */
static struct manifest *script_run_make_manifest(const struct host_script_run *run,
                                                 struct kg_err *err)
{
    const struct host_script_wish *wish = &run->wish;
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "{\"name\":\"script\",\"version\":\"0.0.0\",\"kaged_api\":1,"
                       "\"description\":\"A program of a script.\",\"command\":[\"env\"],"
                       "\"notifications\":[\"script.ran\"],"
                       "\"env\":{\"HOME\":\"/tmp\",\"GIT_CONFIG_COUNT\":\"1\","
                       "\"GIT_CONFIG_KEY_0\":\"safe.directory\","
                       "\"GIT_CONFIG_VALUE_0\":\"*\",\"GIT_TERMINAL_PROMPT\":\"0\"},"
                       "\"capabilities\":[");
    kg_json_put_string(&text, kg_str(wish->capability));
    kg_buf_text(&text, "]}");
    struct manifest *manifest = manifest_read(kg_buf_view(&text), &problems);
    if (manifest == NULL) {
        manifest_problems_fail(&problems, wish->call, err);
        return NULL;
    }
    const char *script = host_script_asker(run->request)->plugin->name;
    manifest->name = kg_arena_text(manifest->doc->arena, kg_str(script));
    kg_list_free(manifest->command);
    manifest->command = kg_list_copy((const char *const *)wish->command);
    return manifest;
}

static struct host_cage_parts parts_of(const struct host_script_run *run, const char *folder,
                                       const struct host_covers *covers,
                                       struct host_covers *ret_guards)
{
    const struct host *host = run->host;
    const struct host_whom *whom = host_script_whom(run->request);
    return (struct host_cage_parts){
        .manifest = run->manifest,
        .dir = folder,
        .plugins_dir = host->plugins_dir,
        .config = host->config,
        .paths = host->paths,
        .project_root = whom->root,
        .project_id = whom->project,
        .covers = covers,
        .ret_guards = ret_guards,
        .search = run->search,
        .facts = host->facts,
        .runs_all = run->wish.runs_all ? run->manifest->command[HOST_ENV_WORDS] : NULL,
        .make_folders = true,
    };
}

static struct cage_plan *script_run_make_plan(struct host_script_run *run, struct kg_err *err)
{
    kg_auto(host_covers_free) struct host_covers covers = {0}, guards = {0};
    const struct host *host = run->host;
    kg_auto(kg_free) char *program = helper_program("kaged-lua", err);
    kg_auto(kg_free) char *folder = program ? kg_path_folder(program) : NULL;
    if (host->no_cage.code != KG_OK)
        *err = host->no_cage;
    if (folder == NULL || host->no_cage.code != KG_OK)
        return NULL;
    host_covers_collect(host, &covers);
    const struct host_cage_parts parts = parts_of(run, folder, &covers, &guards);
    struct cage_plan *plan = host_cage_plan(&parts, err);
    if (plan != NULL && run->search != NULL)
        run->guarded = host_guarded_new(host_script_asker(run->request), &guards);
    return plan;
}

static void script_run_on_network(void *data, const struct gate_event *event)
{
    const struct host_script_run *run = data;
    instance_heard_network(host_script_asker(run->request)->instance, event);
}

static void script_run_start(void *data)
{
    struct host_script_run *run = data;
    struct kg_err err = {0};
    const struct host_script_wish *wish = &run->wish;
    const struct helper_place place = {run->host->loop, run->host->supervisor.spawner,
                                       run->host->gate};
    const struct helper_run_options options = {
        .input = kg_buf_view(&wish->input),
        .output_max = wish->output_max,
        .timeout_ms = wish->timeout_ms,
        .on_network = script_run_on_network,
    };
    struct cage_plan *plan = script_run_make_plan(run, &err);
    if (plan != NULL)
        run->run = helper_run_start(&place, plan, &options, script_run_on_done, run, &err);
    cage_plan_free(plan);
    if (run->run == NULL)
        script_run_fail(run, &err);
}

/* -- its beginning ----------------------------------------------------------------------------- */

static int script_run_check_count(const struct host *host, const struct host_process *process,
                                  struct kg_err *err)
{
    size_t count = 0;
    for (const struct host_script_run *at = host->script_runs; at != NULL; at = at->next)
        count += host_script_asker(at->request) == process;
    return count <= RUNS_MAX
               ? 0
               : kg_fail(err, KG_E_BUSY, "%d of its programs are already running", RUNS_MAX);
}

/* What may be written is looked at first, for what is guarded in it. */
static void script_run_begin(struct host_script_run *run)
{
    const struct host_whom *whom = host_script_whom(run->request);
    if (kg_str_starts(kg_str(run->wish.capability), "write:")) {
        char **writable = kg_list_new(0);
        kg_list_add(&writable, kg_strdup(whom->root));
        run->search = host_search_begin(run->host, writable, script_run_start, run);
    } else {
        script_run_start(run);
    }
}

void host_script_run(struct host_script_request *request, const struct host_script_wish *wish)
{
    struct kg_err err = {0};
    struct host_process *process = host_script_asker(request);
    struct host *host = process->plugin->host;
    struct host_script_run *run = kg_alloc(sizeof(*run));
    *run = (struct host_script_run){
        .next = host->script_runs, .request = request, .host = host, .wish = *wish};
    host->script_runs = run;
    if (host_script_whom(request)->root == NULL)
        kg_fail(&err, KG_E_NOT_APPLICABLE, "the session has no folder");
    else if (script_run_check_count(host, process, &err) == 0)
        run->manifest = script_run_make_manifest(run, &err);
    if (err.code != KG_OK)
        script_run_fail(run, &err);
    else
        script_run_begin(run);
}
