/*
 * One run of kaged-snapshot. It may write the folder and its store, and nothing that is guarded in
 * the folder; what it says is read as a stranger's words.
 */
#include "snapshot/snapshot.h"

#include "base/json/json.h"

#include <errno.h>
#include <stdlib.h>

#define TIMEOUT_MS   UINT64_C(120000)
#define OUTPUT_MAX   ((size_t)1 << 20)
#define PROCESSES    32
#define TMP_BYTES    ((size_t)256 << 20)
#define MEMORY_BYTES ((uint64_t)1 << 30)
#define CPU_SHARES   512

struct snapshot_run {
    struct helper_run *run;
    snapshot_done_fn *on_done; /* NULL: nobody wants to know */
    void *data;
    char *folder; /* owned */
};

static void snapshot_run_free(struct snapshot_run *run)
{
    free(run->folder);
    free(run);
}

/* -- its cage ---------------------------------------------------------------------------------- */

static char *ref_of(const char *session, const char *id)
{
    return kg_format("refs/kaged/%s/%s", session, id);
}

static char **snapshot_make_command(const char *program, const struct snapshot_place *place,
                                    const struct snapshot_wanted *wanted, const char *store)
{
    static const char *const acts[] = {
        [SNAPSHOT_TAKE] = "take",
        [SNAPSHOT_COMPARE] = "compare",
        [SNAPSHOT_RESTORE] = "restore",
    };
    char **command = kg_list_new(0);
    kg_list_add(&command, kg_strdup(program));
    kg_list_add(&command, kg_strdup(acts[wanted->act]));
    kg_list_add(&command, kg_strdup(wanted->folder));
    kg_list_add(&command, kg_strdup(store));
    kg_list_add(&command, kg_format("files_max=%lld", (long long)place->files_max));
    kg_list_add(&command, kg_format("bytes_max=%lld", (long long)place->bytes_max));
    kg_list_add(&command, kg_format("file_bytes_max=%lld", (long long)place->file_bytes_max));
    if (wanted->way != NULL)
        kg_list_add(&command, kg_format("way=%s", wanted->way));
    if (wanted->tree != NULL)
        kg_list_add(&command, kg_format("tree=%s", wanted->tree));
    kg_auto(kg_free) char *ref = wanted->id ? ref_of(wanted->session, wanted->id) : NULL;
    if (ref != NULL)
        kg_list_add(&command, kg_format("ref=%s", ref));
    for (char *const *at = wanted->dropped; at != NULL && *at != NULL; at++) {
        kg_auto(kg_free) char *dropped = ref_of(wanted->session, *at);
        kg_list_add(&command, kg_format("drop=%s", dropped));
    }
    return command;
}

/* What is guarded in the folder cannot be written in this cage, either. */
static struct cage_cover *make_covers(const char *folder, size_t *ret_count)
{
    struct cage_cover *covers = kg_alloc_array(cage_guard_count, sizeof(covers[0]));
    for (size_t i = 0; i < cage_guard_count; i++)
        covers[i] = (struct cage_cover){.path = kg_path_join(folder, cage_guards[i].path),
                                        .note = cage_guards[i].why};
    *ret_count = cage_guard_count;
    return covers;
}

static void free_covers(struct cage_cover *covers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free((char *)covers[i].path);
    free(covers);
}

static struct cage_plan *snapshot_make_plan(const struct snapshot_place *place,
                                            const struct snapshot_wanted *wanted, const char *store,
                                            struct kg_err *err)
{
    kg_auto(kg_free) char *program = helper_program("kaged-snapshot", err);
    if (program == NULL)
        return NULL;
    char **command = snapshot_make_command(program, place, wanted, store);
    size_t cover_count;
    struct cage_cover *covers = make_covers(wanted->folder, &cover_count);
    const struct cage_path paths[] = {{.path = wanted->folder, .write = true, .own = true},
                                      {.path = store, .write = true, .own = true}};
    const struct cage_program programs[] = {{.program = "git", .folder = wanted->folder}};
    const struct cage_policy policy = {
        .name = "kaged-snapshot",
        .command = (const char *const *)command,
        .paths = paths,
        .path_count = KG_COUNT(paths),
        .covers = covers,
        .cover_count = cover_count,
        .programs = programs,
        .program_count = KG_COUNT(programs),
        .processes_max = PROCESSES,
        .tmp_bytes = TMP_BYTES,
        .memory_bytes = MEMORY_BYTES,
        .cpu_shares = CPU_SHARES,
    };
    struct cage_plan *plan = helper_plan(program, policy, place->facts, err);
    kg_list_free(command);
    free_covers(covers, cover_count);
    return plan;
}

/* -- what it says ------------------------------------------------------------------------------ */

static int snapshot_fail(const struct snapshot_run *run, struct helper_run_result *result,
                         struct kg_err *err)
{
    struct kg_str words = kg_buf_view(&result->err);
    while (words.length > 0 && words.data[words.length - 1] == '\n')
        words.length--;
    for (size_t i = words.length; i > 0; i--)
        if (words.data[i - 1] == '\n') {
            words = kg_str_from(words, i);
            break;
        }
    if (result->timed_out)
        return kg_fail(err, KG_E_BUSY, "snapshot of %s: it took too long", run->folder);
    return kg_fail(err, KG_E_IO, "snapshot of %s: %.*s", run->folder,
                   KG_STR_CUT(words.length > 0 ? words : KG_STR("it failed"), KG_CUT_CAUSE));
}

static bool is_id(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!kg_is_digit(text.data[i]) && !(text.data[i] >= 'a' && text.data[i] <= 'f'))
            return false;
    return text.length >= 40 && text.length <= 64;
}

static bool is_list(struct kg_str json)
{
    return json.length > 0 && json.data[0] == '[';
}

static int snapshot_own_tell(const struct snapshot_run *run, struct helper_run_result *result,
                             struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&result->out), err);
    struct kg_str left_out, changes;
    struct kg_str tree = doc ? kg_node_text(doc->root, "tree") : KG_STR_NULL;
    if (tree.data == NULL || !is_id(tree) ||
        !kg_json_member(kg_buf_view(&result->out), "left_out", &left_out) ||
        !kg_json_member(kg_buf_view(&result->out), "changes", &changes) || !is_list(left_out) ||
        !is_list(changes))
        return kg_fail(err, KG_E_IO, "snapshot of %s: its report makes no sense", run->folder);
    kg_auto(kg_free) char *text = kg_str_dup(tree);
    const struct snapshot_result told = {
        .way = kg_str_is(kg_node_text(doc->root, "way"), "git") ? "git" : "copy",
        .tree = text,
        .files = kg_node_number(doc->root, "files"),
        .bytes = kg_node_number(doc->root, "bytes"),
        .left_out = left_out,
        .changes = changes,
        .left_out_count = kg_node_number(doc->root, "left_out_count"),
        .change_count = kg_node_number(doc->root, "change_count"),
    };
    run->on_done(run->data, &told, NULL);
    return 0;
}

static void snapshot_on_run(void *data, struct helper_run_result *result,
                            const struct kg_err *err_or_null)
{
    struct snapshot_run *run = data;
    struct kg_err err = err_or_null ? *err_or_null : (struct kg_err){0};
    bool is_well = err_or_null == NULL && result->how.built && result->how.exit_code == 0;
    if (err_or_null == NULL && !is_well)
        snapshot_fail(run, result, &err);
    if (!is_well || snapshot_own_tell(run, result, &err) < 0)
        run->on_done(run->data, NULL, &err);
    snapshot_run_free(run);
}

/* -- starting ---------------------------------------------------------------------------------- */

struct snapshot_run *snapshot_start(const struct snapshot_place *place,
                                    const struct snapshot_wanted *wanted, snapshot_done_fn *on_done,
                                    void *data, struct kg_err *err)
{
    kg_auto(kg_free) char *store = kg_path_join(place->store, wanted->session);
    if (place->facts == NULL) {
        kg_fail(err, KG_E_REFUSED, "no cage can be built here, so no snapshot can be made");
        return NULL;
    }
    if (kg_make_dirs(store, 0700, err) < 0)
        return NULL;
    struct cage_plan *plan = snapshot_make_plan(place, wanted, store, err);
    if (plan == NULL)
        return NULL;
    struct snapshot_run *run = kg_alloc(sizeof(*run));
    run->on_done = on_done;
    run->data = data;
    run->folder = kg_strdup(wanted->folder);
    const struct helper_run_options options = {.output_max = OUTPUT_MAX, .timeout_ms = TIMEOUT_MS};
    run->run = helper_run_start(&place->helper, plan, &options, snapshot_on_run, run, err);
    cage_plan_free(plan);
    if (run->run != NULL)
        return run;
    snapshot_run_free(run);
    return NULL;
}

void snapshot_cancel(struct snapshot_run *run)
{
    helper_run_cancel(run->run);
    snapshot_run_free(run);
}
