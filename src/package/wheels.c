/*
 * Wheels that a package depends on and that nobody here has, from the operator's index. Our runner
 * looks for them in a cage that reaches the index and nothing else, holds them against their
 * hashes, and adds them to a copy of the package's file; nobody's code runs there. What it leaves
 * is not believed: it is unpacked and looked at like what was uploaded.
 */
#include "package/internal.h"

#include "base/url.h"
#include "config/config.h"

#include <errno.h>
#include <stdlib.h>

#define OUTPUT_MAX    ((size_t)256 << 10)
#define MEMORY_BYTES  ((uint64_t)1 << 30) /* wheels are held in memory */
#define PROCESSES_MAX 8
#define TMP_BYTES     ((size_t)1 << 20)
#define CPU_SHARES    256
#define TIMEOUT_MS    180000
#define SAID_MAX      700
#define REACHES_MAX   2
#define PATHS         2

struct package_wheels {
    struct helper_run *run;
    const struct package_wheels_ops *ops; /* NULL: nobody wants to know any more */
    void *data;
};

bool package_has_index(const struct config *config)
{
    return config->catalog_runtimes_python_index[0] != '\0';
}

/* -- the answer -------------------------------------------------------------------------------- */

static int wheels_say_failed(const struct helper_run_result *result, const struct kg_node *error,
                             struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct kg_str said = error ? kg_node_text(error, "message") : kg_buf_view(&result->err);
    kg_buf_escaped(&words, kg_str_first(said, said.length < SAID_MAX ? said.length : SAID_MAX));
    if (result->timed_out)
        return kg_fail(err, KG_E_INVALID_SOURCE,
                       "what it depends on could not be had from the index within %d ms",
                       TIMEOUT_MS);
    return kg_fail(err, KG_E_INVALID_SOURCE,
                   "what it depends on could not be had from the index: %s",
                   words.length > 0 ? kg_buf_terminate(&words) : "its process ended");
}

static int wheels_take(const struct helper_run_result *result, char ***ret_added,
                       struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&result->out), NULL);
    const struct kg_node *root = doc ? doc->root : NULL;
    const struct kg_node *error = root ? kg_node_typed(root, "error", KG_OBJECT) : NULL;
    const struct kg_node *wheels = root ? kg_node_typed(root, "wheels", KG_ARRAY) : NULL;
    if (!result->how.built)
        return kg_fail(err, KG_E_CAGE, "the cage for wheels: %.*s",
                       KG_STR_CUT(kg_buf_view(&result->err), SAID_MAX));
    if (wheels == NULL || result->timed_out || result->how.exit_code != 0)
        return wheels_say_failed(result, error, err);
    for (uint32_t i = 0; i < wheels->count; i++)
        if (wheels->items[i].type == KG_STRING)
            kg_list_add(ret_added, kg_str_dup(wheels->items[i].text));
    return 0;
}

static void wheels_on_done(void *data, struct helper_run_result *result,
                           const struct kg_err *err_or_null)
{
    struct package_wheels *wheels = data;
    struct kg_err err = err_or_null ? *err_or_null : (struct kg_err){0};
    char **added = kg_list_new(0);
    if (err_or_null == NULL)
        (void)wheels_take(result, &added, &err);
    if (wheels->ops != NULL)
        wheels->ops->on_done(wheels->data, added, err.code != KG_OK ? &err : NULL);
    kg_list_free(added);
    free(wheels);
}

static void wheels_on_network(void *data, const struct gate_event *event)
{
    const struct package_wheels *wheels = data;
    if (wheels->ops != NULL)
        wheels->ops->on_network(wheels->data, event);
}

/* -- in the cage ------------------------------------------------------------------------------- */

static char **wheels_command(const struct package_wheels_want *want, const char *index)
{
    char **command = package_runner_command("fetch");
    kg_list_add(&command, kg_strdup(index));
    kg_list_add(&command, kg_strdup(want->file));
    kg_list_add(&command, kg_strdup(want->folder));
    kg_list_add(&command, kg_format("%llu", (unsigned long long)want->bytes_max));
    for (char *const *name = want->missing; *name != NULL; name++)
        kg_list_add(&command, kg_strdup(*name));
    return command;
}

/* The index, and where its files are. */
static size_t wheels_reaches(const struct config *config, struct cage_reach ret_reaches[])
{
    const char *const urls[] = {config->catalog_runtimes_python_index,
                                config->catalog_runtimes_python_files};
    size_t count = 0;
    for (size_t i = 0; i < KG_COUNT(urls); i++) {
        char *host = NULL;
        if (kg_url_host(urls[i], &host, &ret_reaches[count].port))
            ret_reaches[count++].host = host;
    }
    return count;
}

static struct cage_plan *wheels_plan(const struct package_place *place,
                                     const struct package_wheels_want *want, struct kg_err *err)
{
    kg_auto(package_runtime_free) struct package_runtime runtime = {0};
    struct cage_reach reaches[REACHES_MAX];
    const struct cage_path paths[PATHS] = {{.path = want->folder, .write = true, .own = true},
                                           {.path = want->file, .own = true}};
    if (package_runtime_find(place->config, &runtime, err) < 0)
        return NULL;
    char **command = wheels_command(want, place->config->catalog_runtimes_python_index);
    const struct cage_policy policy = {
        .name = "wheels of a package",
        .install_dir = PACKAGE_DIR,
        .install_source = want->folder,
        .command = (const char *const *)command,
        .env = package_environment,
        .paths = paths,
        .path_count = PATHS,
        .trees = runtime.trees,
        .tree_count = runtime.tree_count,
        .reaches = reaches,
        .reach_count = wheels_reaches(place->config, reaches),
        .processes_max = PROCESSES_MAX,
        .tmp_bytes = TMP_BYTES,
        .memory_bytes = MEMORY_BYTES,
        .cpu_shares = CPU_SHARES,
    };
    struct cage_plan *plan = cage_plan_new(&policy, place->facts, err);
    for (size_t i = 0; i < policy.reach_count; i++)
        free((char *)reaches[i].host);
    kg_list_free(command);
    return plan;
}

struct package_wheels *package_wheels_fetch(const struct package_place *place,
                                            const struct package_wheels_want *want,
                                            const struct package_wheels_ops *ops, void *data,
                                            struct kg_err *err)
{
    struct cage_plan *plan = wheels_plan(place, want, err);
    if (plan == NULL)
        return NULL;
    const struct helper_run_options options = {
        .output_max = OUTPUT_MAX, .timeout_ms = TIMEOUT_MS, .on_network = wheels_on_network};
    struct package_wheels *wheels = kg_alloc(sizeof(*wheels));
    wheels->ops = ops;
    wheels->data = data;
    wheels->run = helper_run_start(&place->helper, plan, &options, wheels_on_done, wheels, err);
    cage_plan_free(plan);
    if (wheels->run == NULL)
        kg_free(&wheels);
    return wheels;
}

void package_wheels_cancel(struct package_wheels *wheels)
{
    wheels->ops = NULL;
    helper_run_kill(wheels->run); /* wheels_on_done comes, and tells nobody */
}
