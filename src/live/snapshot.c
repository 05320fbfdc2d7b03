/*
 * Files of sessions' folders. A snapshot is taken before each turn of a project that wants it, and
 * before files are put back, so that this can be undone, too. How many a session has is bounded:
 * the oldest go first. One that cannot be taken holds no turn up: the log says why.
 */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

bool live_snapshots_wanted(const struct live_session *live)
{
    char *const *projects = host_config(live->sessions->host)->sessions_rewind;
    if (!live_has_folder(live))
        return false;
    return kg_list_has(projects, kg_str(live->project_id)) || kg_list_has(projects, KG_STR("*"));
}

void live_snapshot_clear(struct live_snapshot *snapshot)
{
    free(snapshot->way);
    free(snapshot->tree);
    free(snapshot->folder);
    free(snapshot->entry);
    kg_buf_free(&snapshot->left_out);
    kg_buf_free(&snapshot->changes);
    kg_list_free(snapshot->dropped);
    *snapshot = (struct live_snapshot){0};
}

void live_snapshot_put_changes(const struct live_snapshot *snapshot, struct kg_json_writer *json)
{
    kg_json_named_raw(json, "changes", kg_buf_view(&snapshot->changes));
    kg_json_named_int(json, "change_count", snapshot->change_count);
    kg_json_named_raw(json, "left_out", kg_buf_view(&snapshot->left_out));
    kg_json_named_int(json, "left_out_count", snapshot->left_out_count);
}

/* -- which there are, on the store's thread ---------------------------------------------------- */

static void live_snapshot_take_row(void *data, const struct state_snapshot *row)
{
    struct live_snapshot *found = data;
    if (found->id.text[0] != '\0')
        return;
    kg_str_copy(kg_str(row->id), found->id.text, sizeof(found->id.text));
    kg_replace(&found->way, row->way);
    kg_replace(&found->tree, row->tree);
    kg_replace(&found->folder, row->folder);
}

int live_snapshot_find(struct state *state, const char *session, const char *entry_or_null,
                       const char *id_or_null, struct live_snapshot *ret_found, struct kg_err *err)
{
    const struct state_snapshot_query query = {
        .session = session, .entry = entry_or_null, .id = id_or_null, .limit = 1};
    return state_snapshots(state, &query, live_snapshot_take_row, ret_found, err);
}

/* Those past the bound. */
struct oldest {
    char ***dropped;
    int64_t seen, most;
};

static void see_row(void *data, const struct state_snapshot *row)
{
    struct oldest *oldest = data;
    if (++oldest->seen >= oldest->most)
        kg_list_add(oldest->dropped, kg_strdup(row->id));
}

static bool see_entry(void *data, const struct state_entry *row)
{
    kg_replace(data, row->id);
    return false;
}

static int live_snapshot_run_look(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct live_work *work = KG_CONTAINER(job, struct live_work, job);
    struct live_snapshot *snapshot = work->snapshot;
    kg_auto(session_clear) struct session session = {0};
    struct oldest oldest = {.dropped = &snapshot->dropped, .most = snapshot->most};
    const struct state_snapshot_query query = {.session = work->live->id.text, .limit = INT64_MAX};
    int result = session_find(state, kg_str(work->live->id.text), &session, err);
    if (result < 0)
        return result;
    const struct state_entry_query last = {
        .order = STATE_ENTRIES_DOWN, .session = session.number, .after = INT64_MAX, .limit = 1};
    result = state_entries(state, &last, see_entry, &snapshot->entry, err);
    return result < 0 ? result : state_snapshots(state, &query, see_row, &oldest, err);
}

int live_snapshot_keep(struct state *state, const char *session,
                       const struct live_snapshot *snapshot, struct kg_err *err)
{
    const struct state_snapshot row = {
        .id = snapshot->id.text,
        .session = session,
        .entry = snapshot->entry ? snapshot->entry : "",
        .folder = snapshot->folder,
        .way = snapshot->way,
        .tree = snapshot->tree,
        .left_out = snapshot->left_out.length > 0 ? snapshot->left_out.data : "[]",
        .files = snapshot->files,
        .bytes = snapshot->bytes,
        .at_ms = kg_wall_ms(),
    };
    int result = state_snapshot_add(state, &row, err);
    for (char *const *at = snapshot->dropped; *at != NULL && result == 0; at++)
        result = state_snapshot_remove(state, *at, err);
    return result;
}

static int live_snapshot_run_keep(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct live_work *work = KG_CONTAINER(job, struct live_work, job);
    return live_snapshot_keep(state, work->live->id.text, work->snapshot, err);
}

/* -- the work ---------------------------------------------------------------------------------- */

static void live_snapshot_on_done(void *data, const struct snapshot_result *result,
                                  const struct kg_err *err)
{
    struct live_snapshot *snapshot = data;
    snapshot->run = NULL;
    if (result != NULL) {
        kg_replace(&snapshot->way, result->way);
        kg_replace(&snapshot->tree, result->tree);
        snapshot->files = result->files;
        snapshot->bytes = result->bytes;
        snapshot->left_out.length = snapshot->changes.length = 0;
        kg_buf_str(&snapshot->left_out, result->left_out);
        kg_buf_terminate(&snapshot->left_out);
        kg_buf_str(&snapshot->changes, result->changes);
        snapshot->left_out_count = result->left_out_count;
        snapshot->change_count = result->change_count;
    }
    live_arrived(snapshot->work, err);
}

static void live_snapshot_withdraw(void *data)
{
    struct live_snapshot *snapshot = data;
    snapshot_cancel(kg_steal(&snapshot->run));
}

static int live_snapshot_start(struct live_snapshot *snapshot, struct kg_err *err)
{
    struct live_work *work = snapshot->work;
    struct host *host = work->sessions->host;
    const struct config *config = host_config(host);
    const struct snapshot_place place = {
        .helper = {.loop = work->sessions->loop, .spawner = host_spawner(host)},
        .facts = host_facts(host),
        .store = work->sessions->snapshots_dir,
        .files_max = config->limits_snapshot_files,
        .bytes_max = config->limits_snapshot_mb << 20,
        .file_bytes_max = config->limits_snapshot_file_mb << 20,
    };
    const struct snapshot_wanted wanted = {
        .act = snapshot->act,
        .session = work->live->id.text,
        .folder = work->live->workdir,
        .id = snapshot->act == SNAPSHOT_TAKE ? snapshot->id.text : NULL,
        .way = snapshot->target ? snapshot->target->way : NULL,
        .tree = snapshot->target ? snapshot->target->tree : NULL,
        .dropped = snapshot->act == SNAPSHOT_TAKE ? snapshot->dropped : NULL,
    };
    snapshot->run = snapshot_start(&place, &wanted, live_snapshot_on_done, snapshot, err);
    return snapshot->run != NULL ? 0 : -EIO;
}

static void live_snapshot_on_looked(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_snapshot *snapshot = work->snapshot;
    struct kg_err err = {0};
    if (err_or_null == NULL && work->sessions->stopping) {
        live_fail_stopping(&err);
        err_or_null = &err;
    }
    if (err_or_null == NULL && live_snapshot_start(snapshot, &err) < 0)
        err_or_null = &err;
    if (err_or_null != NULL)
        live_later(work, err_or_null, snapshot->next);
    else
        live_await(work, snapshot, live_snapshot_withdraw, snapshot->next);
}

void live_snapshot_make(struct live_snapshot *snapshot, struct live_work *work,
                        enum snapshot_act act, const struct live_snapshot *target_or_null,
                        live_next_fn *next)
{
    live_snapshot_clear(snapshot);
    snapshot->work = work;
    snapshot->act = act;
    snapshot->target = target_or_null;
    snapshot->next = next;
    snapshot->id = kg_id_new("snp_");
    snapshot->dropped = kg_list_new(0);
    snapshot->folder = kg_strdup(work->live->workdir);
    snapshot->most = host_config(work->sessions->host)->limits_snapshots;
    work->snapshot = snapshot;
    live_read(work, live_snapshot_run_look, live_snapshot_on_looked);
}

/* -- before a turn ----------------------------------------------------------------------------- */

static void live_snapshot_on_kept(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_snapshot *snapshot = work->snapshot;
    live_next_fn *next = snapshot->after;
    if (err_or_null != NULL)
        kg_log(KG_WARN, "session %s: its files were not saved: %s", work->live->id.text,
               err_or_null->message);
    next(work, NULL);
}

static void live_snapshot_on_taken(struct live_work *work, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        live_snapshot_on_kept(work, err_or_null);
    else
        live_write(work, live_snapshot_run_keep, live_snapshot_on_kept);
}

void live_snapshot_take(struct live_snapshot *snapshot, struct live_work *work, live_next_fn *next)
{
    live_snapshot_make(snapshot, work, SNAPSHOT_TAKE, NULL, live_snapshot_on_taken);
    snapshot->after = next;
}
