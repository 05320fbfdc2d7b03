/*
 * From a stranger's bytes to a version in the catalog. Nothing is believed on the way, and nothing
 * is there before all of it is: the row is written last, in the transaction that also sees that the
 * version is newer than all before it.
 *
 *   pieces -> a file -> its magic -> kaged-unpack in a cage -> the rules of trees -> discovery in a
 *   cage (-> what it lacks, from an index -> a file with that, from its magic on) -> pid and domain
 * -> the tree beside its place -> could there be a row? -> the object -> row and tree -> answer
 *
 * Each arrow may be the last one: upload_fail says why, and upload_clean leaves nothing behind.
 */
#include "catalog/orchestrators.h"
#include "catalog/version.h"
#include "package/package.h"
#include "store/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HELD_BYTES ((size_t)1024 * 1024) /* that wait for the disk before the client has to */

struct catalog_upload {
    struct catalog_op op;
    struct catalog_upload *next;
    struct loop_job job;
    void (*after)(struct catalog_upload *upload); /* the job that runs */
    bool busy, ended;
    bool object_is_put;
    void (*on_room)(void *data);
    void *room_data;
    struct kg_buf held; /* came, and is not being written yet */
    struct kg_buf writing;
    uint64_t bytes, bytes_max;
    int fd;
    char *file, *name; /* owned: where it is, and what the client calls it */
    char hash[OBJECTS_HASH_TEXT];
    struct store_fetch *fetch;
    struct store_fetched *fetched; /* owned */
    struct package_discovery *discovery;
    struct package_wheels *wheels;
    char **missing, **added; /* owned: what it lacks, and what was taken for that; NULL: nothing */
    char *completed;         /* owned: the folder of the file that has it; NULL: none */
    struct kg_doc *package;  /* owned: what it is */
    char *tree;              /* owned: a copy of it, beside its place; NULL: none */
    char *domain;            /* owned: the org's, or NULL */
    int64_t quota;           /* pids that the org may have; -1: no bound */
    char id[CATALOG_ID_TEXT];
    char **dropped; /* owned: keys of the org's settings that do not fit it */
    struct kg_buf card, document;
    struct kg_err err;     /* code KG_OK: all is well so far */
    struct kg_err job_err; /* the same, of the job that runs */
};

static struct catalog_upload *upload_of(struct catalog_op *op)
{
    return KG_CONTAINER(op, struct catalog_upload, op);
}

/* -- jobs on the worker ------------------------------------------------------------------------ */

static void upload_on_job_done(struct loop_job *job)
{
    struct catalog_upload *upload = KG_CONTAINER(job, struct catalog_upload, job);
    upload->busy = false;
    if (upload->err.code == KG_OK)
        upload->err = upload->job_err;
    upload->after(upload);
}

static void upload_run(struct catalog_upload *upload, void (*run)(struct loop_job *job),
                       void (*after)(struct catalog_upload *upload))
{
    upload->job = (struct loop_job){.run = run, .done = upload_on_job_done};
    upload->after = after;
    upload->busy = true;
    loop_worker_submit(catalog_worker(upload->op.catalog), &upload->job);
}

/* -- the end ----------------------------------------------------------------------------------- */

static void run_clean(struct loop_job *job)
{
    struct catalog_upload *upload = KG_CONTAINER(job, struct catalog_upload, job);
    kg_close(&upload->fd);
    if (upload->file != NULL)
        unlink(upload->file);
    if (upload->tree != NULL && access(upload->tree, F_OK) == 0)
        tree_remove(AT_FDCWD, upload->tree, NULL);
    if (upload->completed != NULL && access(upload->completed, F_OK) == 0)
        tree_remove(AT_FDCWD, upload->completed, NULL);
    store_fetched_free(kg_steal(&upload->fetched));
}

static void upload_answer(struct catalog_upload *upload)
{
    struct catalog_upload **at = &upload->op.catalog->uploads;
    while (*at != upload)
        at = &(*at)->next;
    *at = upload->next;
    catalog_op_answer(&upload->op, upload->err.code != KG_OK ? &upload->err : NULL);
}

static void upload_end(struct catalog_upload *upload)
{
    upload_run(upload, run_clean, upload_answer);
}

static void upload_op_clean(struct catalog_op *op)
{
    struct catalog_upload *upload = upload_of(op);
    kg_buf_free(&upload->held);
    kg_buf_free(&upload->writing);
    kg_buf_free(&upload->card);
    kg_buf_free(&upload->document);
    kg_doc_free(upload->package);
    kg_list_free(upload->dropped);
    kg_list_free(upload->missing);
    kg_list_free(upload->added);
    free(upload->completed);
    free(upload->file);
    free(upload->name);
    free(upload->tree);
    free(upload->domain);
}

/* The rest is a package's own fault, in the words that clients of such catalogs know. */
static void upload_fail(struct catalog_upload *upload, const struct kg_err *err)
{
    upload->err = *err;
    if (err->code == KG_E_INVALID_SOURCE || err->code == KG_E_INVALID_MANIFEST ||
        err->code == KG_E_TOO_LARGE || err->code == KG_E_USAGE || err->code == KG_E_REFUSED)
        kg_fail(&upload->err, KG_E_INVALID_PACKAGE, "Invalid plugin file: %.600s", err->message);
    if (err->hint[0] != '\0')
        kg_hint(&upload->err, "%s", err->hint);
    upload_end(upload);
}

/* -- the row ----------------------------------------------------------------------------------- */

struct newest {
    char version[CATALOG_VERSION_MAX + 1];
    bool found;
};

static void take_newest(void *data, const struct state_package *row)
{
    struct newest *newest = data;
    if (newest->found &&
        catalog_version_compare(kg_str(row->version), kg_str(newest->version)) <= 0)
        return;
    kg_str_copy(kg_str(row->version), newest->version, sizeof(newest->version));
    newest->found = true;
}

static void count_pid(void *data, const struct state_package *row)
{
    (void)row;
    ++*(int64_t *)data;
}

static int check_newer(struct state *state, const struct state_package *row, struct kg_err *err)
{
    struct newest newest = {0};
    const struct state_package_query query = {.org = row->org, .pid = row->pid};
    int result = state_packages(state, &query, take_newest, &newest, err);
    if (result < 0 || !newest.found ||
        catalog_version_compare(kg_str(row->version), kg_str(newest.version)) > 0)
        return result;
    kg_fail(err, strcmp(row->version, newest.version) == 0 ? KG_E_EXISTS : KG_E_CONFLICT,
            "version %s of %s is not newer than %s, which is here already", row->version, row->pid,
            newest.version);
    return kg_hint(err, "give it a higher version and upload it again");
}

static int upload_check_room(const struct catalog_upload *upload, struct state *state,
                             const struct state_package *row, struct kg_err *err)
{
    struct package_row same = {0};
    int64_t count = 0;
    const struct state_package_query all = {.org = row->org, .latest_only = true};
    const struct state_package_query own = {.org = row->org, .pid = row->pid};
    if (upload->quota < 0 || package_find(state, &own, &same, NULL) == 0) {
        package_row_free(&same);
        return 0;
    }
    int result = state_packages(state, &all, count_pid, &count, err);
    if (result == 0 && count >= upload->quota)
        return kg_fail(err, KG_E_QUOTA, "the org may have %lld packages, and has them",
                       (long long)upload->quota);
    return result;
}

/* An org without a domain takes no name that the system has. */
static int check_system(const struct catalog_upload *upload, struct state *state,
                        const struct state_package *row, struct kg_err *err)
{
    struct package_row systems = {0};
    const struct state_package_query query = {.org = "", .pid = row->pid};
    if (row->org[0] == '\0' || upload->domain != NULL ||
        package_find(state, &query, &systems, NULL) < 0)
        return 0;
    package_row_free(&systems);
    return kg_fail(err, KG_E_INVALID_PACKAGE,
                   "Plugin pid '%s' is a system plugin's, and this organization has no domain",
                   row->pid);
}

static int upload_run_row(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct catalog_upload *upload = KG_CONTAINER(task, struct catalog_upload, op.task);
    const struct kg_node *package = upload->package->root;
    kg_auto(kg_free) char *pid = kg_str_dup(kg_node_text(package, "pid"));
    kg_auto(kg_free) char *version = kg_str_dup(kg_node_text(package, "version"));
    const struct state_package row = {
        .id = upload->id,
        .org = upload->op.org,
        .pid = pid,
        .version = version,
        .object = upload->hash,
        .bytes = (int64_t)upload->bytes,
        .enabled = true,
        .card = kg_buf_terminate(&upload->card),
        .document = kg_buf_terminate(&upload->document),
        .uploaded_by = upload->op.asker.operator_id,
        .created_ms = kg_wall_ms(),
    };
    int result = check_newer(state, &row, err);
    if (result == 0)
        result = check_system(upload, state, &row, err);
    if (result == 0)
        result = upload_check_room(upload, state, &row, err);
    if (result < 0 || !upload->object_is_put)
        return result;
    result = state_package_add(state, &row, err);
    if (result == 0)
        result = package_settle_latest(state, row.org, pid, err);
    if (result == 0)
        result = package_settings_dropped(
            state, row.org, pid, kg_node_list(package, "settings_schema"), &upload->dropped, err);
    /* Files go into their place last; a rename that fails takes the row back. */
    return result < 0 ? result
                      : catalog_tree_place(upload->op.catalog, upload->tree, upload->hash, err);
}

static void upload_put_warnings(struct kg_json_writer *json, const struct catalog_upload *upload)
{
    const struct kg_node *warnings = kg_node_list(upload->package->root, "warnings");
    kg_json_named_begin(json, "warnings", '[');
    for (uint32_t i = 0; i < warnings->count; i++)
        kg_json_node(json, &warnings->items[i]);
    for (char *const *wheel = upload->added; wheel != NULL && *wheel != NULL; wheel++) {
        kg_auto(kg_free) char *words = kg_format("%s was taken from the index", *wheel);
        kg_json_text(json, words);
    }
    for (char *const *key = upload->dropped; *key != NULL; key++) {
        kg_auto(kg_free) char *words = kg_format(
            "setting %s: the value that the org has set does not fit this version, and is not used",
            *key);
        kg_json_text(json, words);
    }
    kg_json_end(json, ']');
}

static void upload_put_answer(struct catalog_upload *upload)
{
    const struct kg_node *package = upload->package->root;
    struct kg_json_writer json = kg_json_writer(&upload->op.json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "message", "Plugin uploaded successfully");
    kg_json_named_text(&json, "id", upload->id);
    kg_json_named_str(&json, "pid", kg_node_text(package, "pid"));
    kg_json_named_str(&json, "version", kg_node_text(package, "version"));
    if (upload->op.org[0] != '\0')
        kg_json_named_text(&json, "org_id", upload->op.org);
    else
        kg_json_named_bool(&json, "is_latest", true);
    upload_put_warnings(&json, upload);
    kg_json_end(&json, '}');
}

static void on_row_written(struct state_task *task, const struct kg_err *err_or_null)
{
    struct catalog_upload *upload = KG_CONTAINER(task, struct catalog_upload, op.task);
    const struct catalog_op *op = &upload->op;
    if (err_or_null != NULL) {
        upload_fail(upload, err_or_null);
        return;
    }
    upload_put_answer(upload);
    audit_emit(host_audit(op->catalog->host), AUDIT_CATALOG_PACKAGE_UPLOADED,
               kg_str(op->asker.request_id), AUDIT_V_TEXT(op->org[0] != '\0' ? op->org : NULL),
               AUDIT_V_STR(kg_node_text(upload->package->root, "pid")),
               AUDIT_V_STR(kg_node_text(upload->package->root, "version")),
               AUDIT_V_TEXT(upload->hash), AUDIT_V_INT((int64_t)upload->bytes),
               AUDIT_V_TEXT(op->asker.operator_id));
    upload_end(upload);
}

/* What is in no row is harmless, and what is in one is there: the object goes first. */
static void on_object_put(void *data, int fd, const char *path_or_null,
                          const struct kg_err *err_or_null)
{
    struct catalog_upload *upload = data;
    (void)fd, (void)path_or_null;
    if (err_or_null != NULL) {
        upload_fail(upload, err_or_null);
        return;
    }
    upload->object_is_put = true;
    upload->op.task.done = on_row_written;
    state_keeper_write(catalog_keeper(upload->op.catalog), &upload->op.task);
}

static void on_row_checked(struct state_task *task, const struct kg_err *err_or_null)
{
    struct catalog_upload *upload = KG_CONTAINER(task, struct catalog_upload, op.task);
    if (err_or_null != NULL) {
        upload_fail(upload, err_or_null);
        return;
    }
    objects_put(upload->op.catalog->objects, upload->hash, upload->file, on_object_put, upload);
}

/* Most of what cannot have a row is found before its bytes go anywhere. */
static void write_row(struct catalog_upload *upload)
{
    if (upload->err.code != KG_OK) {
        upload_end(upload);
        return;
    }
    catalog_uuid(upload->id);
    package_put_card(&upload->card, upload->package->root);
    kg_json_put_node(&upload->document, upload->package->root);
    upload->op.task.run = upload_run_row;
    upload->op.task.done = on_row_checked;
    state_keeper_read(catalog_keeper(upload->op.catalog), &upload->op.task);
}

/* -- the tree ---------------------------------------------------------------------------------- */

static void run_copy(struct loop_job *job)
{
    struct catalog_upload *upload = KG_CONTAINER(job, struct catalog_upload, job);
    upload->tree = catalog_tree_copy(upload->op.catalog, upload->fetched, &upload->job_err);
}

/* -- whose pid it is --------------------------------------------------------------------------- */

/* com.acme of acme.com; owned. */
static char *reversed(const char *domain)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_str rest = kg_str(domain);
    while (rest.length > 0) {
        size_t at = rest.length;
        while (at > 0 && rest.data[at - 1] != '.')
            at--;
        kg_buf_printf(&out, "%s%.*s", out.length > 0 ? "." : "", (int)(rest.length - at),
                      rest.data + at);
        rest.length = at > 0 ? at - 1 : 0;
    }
    return kg_str_dup(kg_buf_view(&out));
}

static bool upload_is_below(struct kg_str pid, const char *domain)
{
    kg_auto(kg_free) char *prefix = reversed(domain);
    return kg_str_starts(pid, prefix) &&
           (pid.length == strlen(prefix) || pid.data[strlen(prefix)] == '.');
}

static int check_pid(const struct catalog_upload *upload, struct kg_str pid, struct kg_err *err)
{
    const struct catalog *catalog = upload->op.catalog;
    void *each;
    if (upload->op.org[0] == '\0')
        return 0;
    if (upload->domain != NULL && !upload_is_below(pid, upload->domain)) {
        kg_auto(kg_free) char *prefix = reversed(upload->domain);
        return kg_fail(err, KG_E_INVALID_PACKAGE,
                       "Plugin pid '%.*s' does not match organization domain '%s'. The pid must "
                       "start with '%s'",
                       KG_STR_CUT(pid, 200), upload->domain, prefix);
    }
    for (size_t at = 0; kg_map_next(catalog->orgs, &at, &(struct kg_str){0}, &each);) {
        const struct catalog_org *other = each;
        if (other->domain != NULL && strcmp(other->id, upload->op.org) != 0 &&
            upload->domain == NULL && upload_is_below(pid, other->domain))
            return kg_fail(err, KG_E_INVALID_PACKAGE,
                           "Plugin pid '%.*s' is below the domain of another organization",
                           KG_STR_CUT(pid, 200));
    }
    return 0;
}

/* -- what it lacks ----------------------------------------------------------------------------- */

static void upload_run_check(struct loop_job *job);
static void upload_unpack(struct catalog_upload *upload);

static struct package_place upload_place(const struct catalog *catalog, struct gate *gate_or_null)
{
    return (struct package_place){
        .helper = {.loop = catalog->loop, .spawner = catalog->spawner, .gate = gate_or_null},
        .facts = catalog->facts,
        .config = host_config(catalog->host),
        .worker = catalog->worker,
    };
}

/* The file with wheels takes the place of what was uploaded. */
static void run_take_completed(struct loop_job *job)
{
    struct catalog_upload *upload = KG_CONTAINER(job, struct catalog_upload, job);
    kg_auto(kg_free) char *path = kg_path_join(upload->completed, "package.zip");
    kg_auto(kg_close) int from = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (from < 0 || fstat(from, &status) < 0 || !S_ISREG(status.st_mode) ||
        (uint64_t)status.st_size > upload->bytes_max) {
        kg_fail(&upload->job_err, KG_E_INVALID_SOURCE, "its wheels could not be put into it");
        return;
    }
    store_fetched_free(kg_steal(&upload->fetched));
    kg_close(&upload->fd);
    unlink(upload->file);
    int result = kg_copy_fd(from, upload->file, 0600);
    upload->fd = result < 0 ? result : open(upload->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    upload->bytes = (uint64_t)status.st_size;
    if (upload->fd < 0)
        kg_fail_errno(&upload->job_err, result < 0 ? -result : errno, "copy a package");
}

static void upload_on_completed(struct catalog_upload *upload)
{
    if (upload->err.code != KG_OK)
        upload_end(upload);
    else
        upload_run(upload, upload_run_check, upload_unpack);
}

static void upload_on_wheels(void *data, char *const *added, const struct kg_err *err_or_null)
{
    struct catalog_upload *upload = data;
    upload->wheels = NULL;
    if (err_or_null != NULL) {
        upload_fail(upload, err_or_null);
        return;
    }
    upload->added = kg_list_copy((const char *const *)added);
    upload_run(upload, run_take_completed, upload_on_completed);
}

static void upload_on_network(void *data, const struct gate_event *event)
{
    const struct catalog_upload *upload = data;
    struct host *host = upload->op.catalog->host;
    audit_emit(host_audit(host), AUDIT_STORE_FETCH_CONNECTION, kg_str(upload->op.asker.request_id),
               AUDIT_V_TEXT(host_config(host)->catalog_runtimes_python_index),
               AUDIT_V_TEXT(gate_outcomes[event->kind]), AUDIT_V_TEXT(event->host),
               AUDIT_V_INT(event->port), AUDIT_V_TEXT(event->address), AUDIT_V_TEXT(event->reason),
               AUDIT_V_INT((int64_t)event->bytes_in));
}

static void upload_fetch_wheels(struct catalog_upload *upload)
{
    static const struct package_wheels_ops ops = {.on_done = upload_on_wheels,
                                                  .on_network = upload_on_network};
    struct kg_err err = {0};
    struct catalog *catalog = upload->op.catalog;
    const struct package_place place = upload_place(catalog, host_gate(catalog->host));
    const struct package_wheels_want want = {
        .file = upload->file,
        .folder = upload->completed,
        .bytes_max = upload->bytes_max,
        .missing = upload->missing,
    };
    if (catalog->stopping && upload->err.code == KG_OK)
        kg_fail(&upload->err, KG_E_STOPPING, "the daemon is stopping");
    if (upload->err.code != KG_OK) {
        upload_end(upload);
        return;
    }
    upload->wheels = package_wheels_fetch(&place, &want, &ops, upload, &err);
    if (upload->wheels == NULL)
        upload_fail(upload, &err);
}

static void run_make_completed(struct loop_job *job)
{
    struct catalog_upload *upload = KG_CONTAINER(job, struct catalog_upload, job);
    (void)kg_make_dirs(upload->completed, 0700, &upload->job_err);
}

/* Whether what it lacks is looked for: once, and where there is an index. */
static bool upload_completes(struct catalog_upload *upload, char *const *missing)
{
    const struct catalog *catalog = upload->op.catalog;
    if (missing[0] == NULL || upload->missing != NULL ||
        !package_has_index(host_config(catalog->host)))
        return false;
    upload->missing = kg_list_copy((const char *const *)missing);
    upload->completed = kg_format("%s/%s", catalog->incoming, kg_id_new("whl_").text);
    upload_run(upload, run_make_completed, upload_fetch_wheels);
    return true;
}

/* -- what it is -------------------------------------------------------------------------------- */

static void upload_on_discovered(void *data, const struct kg_node *package_or_null,
                                 char *const *missing, const struct kg_err *err_or_null)
{
    struct catalog_upload *upload = data;
    struct kg_err err = {0};
    upload->discovery = NULL;
    if (err_or_null != NULL && upload_completes(upload, missing))
        return;
    if (err_or_null != NULL) {
        upload_fail(upload, err_or_null);
        return;
    }
    upload->package = kg_doc_copy(package_or_null);
    struct kg_str version = kg_node_text(package_or_null, "version");
    if (!catalog_version_valid(version))
        kg_fail(&err, KG_E_INVALID_PACKAGE, "Invalid plugin file: \"%.*s\" is not a version",
                KG_STR_CUT(version, 64));
    else
        check_pid(upload, kg_node_text(package_or_null, "pid"), &err);
    if (err.code != KG_OK)
        upload_fail(upload, &err);
    else
        upload_run(upload, run_copy, write_row);
}

static bool upload_is_named(const struct store_entry *entry, const char *name)
{
    return strcmp(kg_path_name(entry->path), name) == 0;
}

/* At its top: what a package must have, one of it. */
static int upload_check_tree(const struct store_tree *tree, struct kg_err *err)
{
    size_t plugins = 0;
    bool has_manifest = false;
    for (size_t i = 0; i < tree->count; i++) {
        const char *path = tree->entries[i].path;
        plugins += upload_is_named(&tree->entries[i], "plugin.py");
        has_manifest |= strcmp(path, MANIFEST_FILE) == 0 || strcmp(path, "manifest.json") == 0;
    }
    if (has_manifest || plugins == 1)
        return 0;
    if (plugins > 1)
        return kg_fail(
            err, KG_E_INVALID_PACKAGE,
            "Invalid plugin file: there are %zu files plugin.py in it, and one is needed", plugins);
    kg_fail(err, KG_E_INVALID_PACKAGE, "No plugin.py found in zip archive");
    return kg_hint(err, "a package has plugin.py, kaged-plugin.yaml or a bundle's manifest.json");
}

static void upload_on_fetched(void *data, struct store_fetched *fetched,
                              const struct kg_err *err_or_null)
{
    struct catalog_upload *upload = data;
    struct catalog *catalog = upload->op.catalog;
    struct kg_err err = {0};
    upload->fetch = NULL;
    upload->fetched = fetched;
    if (err_or_null != NULL || upload_check_tree(&fetched->tree, &err) < 0) {
        upload_fail(upload, err_or_null ? err_or_null : &err);
        return;
    }
    const struct package_place place = upload_place(catalog, NULL);
    kg_auto(kg_free) char *folder = kg_format("%s/tree", fetched->quarantine->path);
    upload->discovery = package_discover(&place, folder, upload_on_discovered, upload);
}

static void upload_unpack(struct catalog_upload *upload)
{
    struct kg_err err = {0};
    struct store_source source = {
        .kind = STORE_ARCHIVE,
        .text = upload->name,
        .place = upload->file,
        .is_package = true,
    };
    if (upload->op.catalog->stopping && upload->err.code == KG_OK)
        kg_fail(&upload->err, KG_E_STOPPING, "the daemon is stopping");
    if (upload->err.code != KG_OK)
        upload_end(upload);
    else if (store_fetch(host_store(upload->op.catalog->host), &source, NULL, upload_on_fetched,
                         upload, &upload->fetch, &err) < 0)
        upload_fail(upload, &err);
}

/* -- the file ---------------------------------------------------------------------------------- */

static int invalid_file(struct kg_err *err, const char *why)
{
    kg_fail(err, KG_E_INVALID_PACKAGE, "Invalid plugin file: %s", why);
    return kg_hint(err, "a package is a .zip or .mcpb file; zip it again if it was damaged");
}

static void upload_run_check(struct loop_job *job)
{
    struct catalog_upload *upload = KG_CONTAINER(job, struct catalog_upload, job);
    char magic[4] = "";
    if (upload->fd < 0 || pread(upload->fd, magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) ||
        memcmp(magic, "PK\3\4", sizeof(magic)) != 0)
        invalid_file(&upload->job_err, "it does not begin as a ZIP file does");
    else
        objects_hash(upload->fd, upload->hash, &upload->job_err);
}

static void upload_run_write(struct loop_job *job)
{
    struct catalog_upload *upload = KG_CONTAINER(job, struct catalog_upload, job);
    if (upload->fd < 0) {
        kg_auto(kg_free) char *folder = kg_path_folder(upload->file);
        if (kg_make_dirs(folder, 0700, &upload->job_err) < 0)
            return;
        upload->fd = open(upload->file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    int result = upload->fd < 0
                     ? -errno
                     : kg_write_all(upload->fd, upload->writing.data, upload->writing.length);
    if (result < 0)
        kg_fail_errno(&upload->job_err, -result, "write what is uploaded");
    upload->writing.length = 0;
}

static void write_held(struct catalog_upload *upload);

static void upload_on_written(struct catalog_upload *upload)
{
    bool failed = upload->err.code != KG_OK;
    if (!failed && upload->held.length > 0 && (upload->ended || upload->held.length >= HELD_BYTES))
        write_held(upload);
    else if (upload->ended && failed)
        upload_end(upload);
    else if (upload->ended)
        upload_run(upload, upload_run_check, upload_unpack);
    if (!upload->ended && upload->on_room != NULL)
        upload->on_room(upload->room_data);
}

static void write_held(struct catalog_upload *upload)
{
    struct kg_buf empty = upload->writing;
    upload->writing = upload->held;
    upload->held = empty;
    upload_run(upload, upload_run_write, upload_on_written);
}

struct catalog_upload *catalog_upload_begin(const struct catalog_request *request,
                                            void (*on_room)(void *data), void *room_data)
{
    struct catalog *catalog = request->catalog;
    const struct catalog_org *org = NULL;
    if (request->org.data != NULL && (org = catalog_request_org(request)) == NULL)
        return NULL;
    struct catalog_upload *upload = catalog_op_new(request, sizeof(*upload));
    upload->op.clean = upload_op_clean;
    upload->fd = -1;
    upload->on_room = on_room;
    upload->room_data = room_data;
    upload->domain = org ? kg_strdup(org->domain) : NULL;
    upload->quota = org ? catalog_org_quota(org, "max_packages") : -1;
    upload->bytes_max = (uint64_t)host_config(catalog->host)->catalog_upload_max_bytes;
    upload->next = catalog->uploads;
    catalog->uploads = upload;
    return upload;
}

bool catalog_upload_bytes(struct catalog_upload *upload, const char *file_name, struct kg_str bytes)
{
    struct kg_str name = kg_str(file_name);
    bool is_bundle = kg_str_ends(name, ".mcpb");
    if (upload->file == NULL && upload->err.code == KG_OK) {
        kg_auto(kg_free) char *shown = kg_format("%.100s", file_name);
        upload->name = kg_steal(&shown);
        upload->file = kg_format("%s/%s.%s", upload->op.catalog->incoming, kg_id_new("upl_").text,
                                 is_bundle ? "mcpb" : "zip");
        if (!is_bundle && !kg_str_ends(name, ".zip"))
            invalid_file(&upload->err, "only .zip files are supported");
    }
    upload->bytes += bytes.length;
    if (upload->bytes > upload->bytes_max && upload->err.code == KG_OK) {
        kg_fail(&upload->err, KG_E_INVALID_PACKAGE,
                "Invalid plugin file: it has more than %llu bytes",
                (unsigned long long)upload->bytes_max);
        kg_hint(&upload->err, "catalog.upload_max_bytes says how many it may have");
    }
    if (upload->err.code != KG_OK)
        return true; /* the rest is read, and dropped */
    kg_buf_str(&upload->held, bytes);
    if (!upload->busy && upload->held.length >= HELD_BYTES)
        write_held(upload);
    return upload->held.length < HELD_BYTES;
}

void catalog_upload_end(struct catalog_upload *upload, const struct kg_err *err_or_null)
{
    upload->ended = true;
    upload->on_room = NULL;
    if (err_or_null != NULL && upload->err.code == KG_OK)
        upload->err = *err_or_null;
    if (!upload->busy)
        upload_on_written(upload);
}

/* The daemon stops: what is under way ends with that. */
void catalog_stop(struct catalog *catalog)
{
    catalog->stopping = true;
    pool_stop(catalog->pool);
    objects_stop(catalog->objects);
    catalog_trees_stop(catalog);
    for (struct catalog_upload *upload = catalog->uploads, *next; upload != NULL; upload = next) {
        next = upload->next;
        bool waits = upload->fetch != NULL || upload->discovery != NULL || upload->wheels != NULL;
        if (upload->fetch != NULL)
            store_fetch_cancel(kg_steal(&upload->fetch));
        if (upload->discovery != NULL)
            package_discovery_cancel(kg_steal(&upload->discovery));
        if (upload->wheels != NULL)
            package_wheels_cancel(kg_steal(&upload->wheels));
        if (waits) {
            kg_fail(&upload->err, KG_E_STOPPING, "the daemon is stopping");
            upload_end(upload);
        }
    }
}
