/*
 * Finds out what an unpacked package is. A worker looks which kind it is, and reads the manifest of
 * one that has it. The code of one in Python is only run in a cage without a network, by our
 * runner, bounded in time, memory, processes and output; whatever it does there, it ends with one
 * sentence or with a document that fits the schema.
 */
#include "package/internal.h"

#include "config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define OUTPUT_MAX    ((size_t)4 << 20)
#define MEMORY_BYTES  ((uint64_t)512 << 20)
#define PROCESSES_MAX 32
#define TMP_BYTES     ((size_t)16 << 20)
#define LAST_WORDS    300
#define MISSING_MAX   20
#define MISSING_BYTES 200

enum package_kind { PACKAGE_PYTHON, PACKAGE_KAGED, PACKAGE_BUNDLE };

struct package_discovery {
    struct loop_job job; /* first */
    struct package_place place;
    char *folder; /* owned */
    enum package_kind kind;
    struct package_runtime runtime; /* as it is set now, like the next two: that may change */
    struct kg_err no_runtime;       /* why there is none; KG_OK: there is */
    uint64_t timeout_ms;
    struct kg_buf json; /* of one that has a manifest */
    char **missing;     /* owned */
    struct kg_err err;
    struct helper_run *run; /* NULL: there is none any more */
    bool cancelled;
    package_discovered_fn *on_done;
    void *data;
};

static void discovery_free(struct package_discovery *discovery)
{
    free(discovery->folder);
    package_runtime_free(&discovery->runtime);
    kg_buf_free(&discovery->json);
    kg_list_free(discovery->missing);
    free(discovery);
}

/* -- the answer -------------------------------------------------------------------------------- */

static int discovery_fault(struct kg_err *err, const char *words)
{
    return kg_fail(err, KG_E_INVALID_SOURCE, "the package cannot be accepted: %s", words);
}

static void discovery_tell(struct package_discovery *discovery)
{
    struct kg_err *err = &discovery->err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    if (err->code == KG_OK) {
        doc = kg_json_read(kg_buf_view(&discovery->json), err);
        if (doc != NULL && package_check(doc->root, err) < 0)
            kg_doc_free(kg_steal(&doc));
    }
    if (!discovery->cancelled)
        discovery->on_done(discovery->data, doc ? doc->root : NULL, discovery->missing,
                           doc ? NULL : err);
    discovery_free(discovery);
}

/* -- in the cage ------------------------------------------------------------------------------- */

/* The last line that it wrote, which mostly says what went wrong. */
static void put_last_line(struct kg_buf *out, struct kg_str text)
{
    while (text.length > 0 && (unsigned char)text.data[text.length - 1] <= ' ')
        text.length--;
    const char *newline = text.length > 0 ? memrchr(text.data, '\n', text.length) : NULL;
    if (newline != NULL)
        text = kg_str_from(text, (size_t)(newline - text.data) + 1);
    if (text.length == 0)
        return;
    if (text.length > LAST_WORDS)
        text.length = LAST_WORDS;
    kg_buf_text(out, "; it wrote: ");
    kg_buf_escaped(out, text);
}

static int say_ended(const struct helper_run_result *result, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (result->how.memory_kills > 0)
        kg_buf_printf(&words, "it took more than %llu MiB of memory when it was inspected",
                      (unsigned long long)(MEMORY_BYTES >> 20));
    else if (result->how.signal != 0)
        kg_buf_printf(&words, "its process was ended by signal %d before it described itself",
                      result->how.signal);
    else
        kg_buf_printf(&words, "its process exited with code %d before it described itself",
                      result->how.exit_code);
    if (result->how.fork_refusals > 0)
        kg_buf_printf(&words, ", after it tried to have more than %d processes", PROCESSES_MAX);
    put_last_line(&words, kg_buf_view(&result->err));
    return discovery_fault(err, kg_buf_terminate(&words));
}

static int say_late(const struct package_discovery *discovery, struct kg_err *err)
{
    kg_auto(kg_free) char *words =
        kg_format("it did not describe itself within %llu ms; importing plugin.py, and "
                  "get_metadata(), must not wait for anything",
                  (unsigned long long)discovery->timeout_ms);
    return discovery_fault(err, words);
}

/* What the runner could not do is not the package's fault. */
static int say_refused(const struct kg_node *error, struct kg_err *err)
{
    struct kg_str message = kg_node_text(error, "message");
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    kg_buf_escaped(&words, kg_str_first(message, message.length < 700 ? message.length : 700));
    if (!kg_str_is(kg_node_text(error, "stage"), "runtime"))
        return discovery_fault(err, kg_buf_terminate(&words));
    kg_fail(err, KG_E_INVALID_CONFIG, "%s", kg_buf_terminate(&words));
    return package_runtime_hint(err);
}

/* The package's words with the kind that they are of, which is ours to say. */
static void discover_put_kind(const struct kg_node *package, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "kind", "python");
    for (uint32_t i = 0; i < package->count; i++) {
        if (kg_str_is(package->members[i].key, "kind"))
            continue;
        kg_auto(kg_free) char *key = kg_str_dup(package->members[i].key);
        kg_json_key(&json, key);
        kg_json_node(&json, &package->members[i].value);
    }
    kg_json_end(&json, '}');
}

/* Names that can be passed on: no option, and no line of its own. */
static void discovery_take_missing(struct package_discovery *discovery, const struct kg_node *error)
{
    const struct kg_node *missing = kg_node_list(error, "missing");
    for (uint32_t i = 0; i < missing->count && i < MISSING_MAX; i++) {
        struct kg_str text = missing->items[i].text;
        if (missing->items[i].type == KG_STRING && text.length > 0 &&
            text.length <= MISSING_BYTES && kg_is_letter_or_digit(text.data[0]) &&
            memchr(text.data, '\0', text.length) == NULL)
            kg_list_add(&discovery->missing, kg_str_dup(text));
    }
}

static int take_document(struct package_discovery *discovery, struct kg_str said)
{
    struct kg_err *err = &discovery->err, why;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(said, &why);
    const struct kg_node *root = doc ? doc->root : NULL;
    const struct kg_node *error = root ? kg_node_typed(root, "error", KG_OBJECT) : NULL;
    const struct kg_node *package = root ? kg_node_typed(root, "package", KG_OBJECT) : NULL;
    if (error != NULL) {
        discovery_take_missing(discovery, error);
        return say_refused(error, err);
    }
    if (package == NULL)
        return discovery_fault(err, "its description is not the document that was asked for");
    discover_put_kind(package, &discovery->json);
    return 0;
}

static int take_run(struct package_discovery *discovery, const struct helper_run_result *result)
{
    struct kg_err *err = &discovery->err;
    if (result->timed_out)
        return say_late(discovery, err);
    if (!result->how.built)
        return kg_fail(err, KG_E_CAGE, "the cage for inspecting a package: %.*s",
                       KG_STR_CUT(kg_buf_view(&result->err), LAST_WORDS));
    if (result->truncated && result->out.length >= OUTPUT_MAX)
        return discovery_fault(err, "its description is larger than 4 MiB");
    if (result->out.length == 0 || result->how.exit_code != 0)
        return say_ended(result, err);
    return take_document(discovery, kg_buf_view(&result->out));
}

static void discover_on_discovered(void *data, struct helper_run_result *result,
                                   const struct kg_err *err_or_null)
{
    struct package_discovery *discovery = data;
    discovery->run = NULL;
    if (err_or_null != NULL)
        discovery->err = *err_or_null;
    else
        (void)take_run(discovery, result);
    discovery_tell(discovery);
}

static struct cage_plan *discovery_plan(const struct package_discovery *discovery,
                                        struct kg_err *err)
{
    char **command = package_command(&discovery->runtime, NULL);
    const struct cage_policy policy = {
        .name = "discovery of a package",
        .install_dir = PACKAGE_DIR,
        .install_source = discovery->folder,
        .command = (const char *const *)command,
        .env = package_environment,
        .trees = discovery->runtime.trees,
        .tree_count = discovery->runtime.tree_count,
        .processes_max = PROCESSES_MAX,
        .tmp_bytes = TMP_BYTES,
        .memory_bytes = MEMORY_BYTES,
    };
    struct cage_plan *plan = cage_plan_new(&policy, discovery->place.facts, err);
    kg_list_free(command);
    if (plan == NULL)
        package_runtime_hint(err);
    return plan;
}

static int discovery_run(struct package_discovery *discovery)
{
    struct kg_err *err = &discovery->err;
    if (discovery->no_runtime.code != KG_OK) {
        *err = discovery->no_runtime;
        return -EINVAL;
    }
    struct cage_plan *plan = discovery_plan(discovery, err);
    if (plan == NULL)
        return -EINVAL;
    const struct helper_run_options options = {
        .output_max = OUTPUT_MAX,
        .timeout_ms = discovery->timeout_ms,
    };
    discovery->run = helper_run_start(&discovery->place.helper, plan, &options,
                                      discover_on_discovered, discovery, err);
    cage_plan_free(plan);
    return discovery->run == NULL ? -EINVAL : 0;
}

/* -- which kind it is -------------------------------------------------------------------------- */

static bool folder_has(const char *folder, const char *name)
{
    struct stat status;
    kg_auto(kg_free) char *path = kg_path_join(folder, name);
    return lstat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static void discover_on_look(struct loop_job *job)
{
    struct package_discovery *discovery = (struct package_discovery *)job;
    const char *folder = discovery->folder;
    if (folder_has(folder, MANIFEST_FILE))
        discovery->kind = PACKAGE_KAGED;
    else if (folder_has(folder, "manifest.json") && !folder_has(folder, "plugin.py"))
        discovery->kind = PACKAGE_BUNDLE;
    if (discovery->kind != PACKAGE_PYTHON)
        (void)package_describe(folder, discovery->kind == PACKAGE_BUNDLE, &discovery->json,
                               &discovery->err);
}

static void discover_on_looked(struct loop_job *job)
{
    struct package_discovery *discovery = (struct package_discovery *)job;
    bool is_python = discovery->kind == PACKAGE_PYTHON && !discovery->cancelled;
    if (!is_python || discovery_run(discovery) < 0)
        discovery_tell(discovery);
}

struct package_discovery *package_discover(const struct package_place *place, const char *folder,
                                           package_discovered_fn *on_done, void *data)
{
    struct package_discovery *discovery = kg_alloc(sizeof(*discovery));
    discovery->job.run = discover_on_look;
    discovery->job.done = discover_on_looked;
    discovery->place = *place;
    discovery->folder = kg_strdup(folder);
    discovery->missing = kg_list_new(0);
    discovery->on_done = on_done;
    discovery->data = data;
    discovery->timeout_ms = (uint64_t)place->config->limits_discover_ms;
    (void)package_runtime_find(place->config, &discovery->runtime, &discovery->no_runtime);
    loop_worker_submit(place->worker, &discovery->job);
    return discovery;
}

void package_discovery_cancel(struct package_discovery *discovery)
{
    discovery->cancelled = true;
    if (discovery->run != NULL)
        helper_run_kill(discovery->run); /* discover_on_discovered comes, and tells nobody */
}
