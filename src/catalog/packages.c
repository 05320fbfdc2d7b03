/*
 * What the catalog has: versions of packages, of an org or of the system. Whoever asks names an
 * org, and sees rows of that org and of the system, never another's. One version of a pid is the
 * latest: the highest that is enabled, or the highest of all where none is.
 */
#include "catalog/packages.h"

#include "catalog/version.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* -- one row as it is shown -------------------------------------------------------------------- */

static void catalog_packages_put_defaults(struct kg_json_writer *json, const struct kg_node *schema)
{
    kg_json_named_begin(json, "default_settings", '{');
    for (uint32_t i = 0; i < schema->count; i++) {
        const struct kg_node *item = &schema->items[i], *value = kg_node_get(item, "default");
        kg_auto(kg_free) char *key = kg_str_dup(kg_node_text(item, "key"));
        if (value == NULL || value->type == KG_NULL)
            continue;
        kg_json_key(json, key);
        if (kg_node_is_true(item, "sensitive"))
            kg_json_text(json, CATALOG_MASK);
        else
            kg_json_node(json, value);
    }
    kg_json_end(json, '}');
}

static void put_logo(struct kg_json_writer *json, const struct kg_node *logo)
{
    struct kg_str type = kg_node_text(logo, "media_type"), data = kg_node_text(logo, "base64");
    kg_auto(kg_free) char *url =
        type.data && data.data
            ? kg_format("data:%.*s;base64,%.*s", KG_STR_ARG(type), KG_STR_ARG(data))
            : NULL;
    kg_json_named_text(json, "logo_image", url);
}

void package_put_card(struct kg_buf *out, const struct kg_node *package)
{
    static const char *const texts[] = {"pid", "version", "name", "description",
                                        "tag", "kind",    NULL};
    static const char *const flags[] = {"is_specialized", "is_scoped", "stateless", NULL};
    static const char *const lists[] = {"capabilities", "declares", "dependencies", NULL};
    const struct kg_node *schema = kg_node_list(package, "settings_schema");
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    for (const char *const *key = texts; *key != NULL; key++)
        kg_json_named_str(&json, *key, kg_node_text(package, *key));
    for (const char *const *key = flags; *key != NULL; key++)
        kg_json_named_bool(&json, *key, kg_node_is_true(package, *key));
    for (const char *const *key = lists; *key != NULL; key++)
        kg_json_named_node(&json, *key, kg_node_list(package, *key));
    kg_json_key(&json, "settings_schema");
    settings_put_schema(&json, schema);
    catalog_packages_put_defaults(&json, schema);
    put_logo(&json, kg_node_get(package, "logo"));
    kg_json_end(&json, '}');
}

/* What never changes is put as it was written when it was uploaded. */
static void package_put(struct kg_json_writer *json, const struct state_package *row)
{
    struct kg_json_cursor inside = kg_json_inside(kg_str(row->card));
    struct kg_str raw_key, value;
    bool escaped; /* none of our own keys is */
    kg_json_begin(json, '{');
    kg_json_named_text(json, "id", row->id);
    kg_json_named_text(json, "source", row->org[0] != '\0' ? "org" : "system");
    kg_json_named_bool(json, "is_latest", row->is_latest);
    kg_json_named_bool(json, "enabled", row->enabled);
    while (kg_json_next_member(&inside, &raw_key, &escaped, &value)) {
        kg_auto(kg_free) char *key = kg_str_dup(raw_key);
        kg_json_named_raw(json, key, value);
    }
    kg_json_named_int(json, "bytes", row->bytes);
    kg_json_named_text(json, "sha256", row->object);
    kg_json_named_text(json, "uploaded_by", row->uploaded_by);
    kg_json_named_time(json, "created_at", row->created_ms);
    kg_json_end(json, '}');
}

/* -- looking up -------------------------------------------------------------------------------- */

void package_row_free(struct package_row *row)
{
    free(row->text);
    *row = (struct package_row){0};
}

/* Texts of a row, kept in one block. */
void package_row_keep(struct package_row *kept, const struct state_package *row)
{
    const char **fields[] = {&kept->row.id,       &kept->row.org,        &kept->row.pid,
                             &kept->row.version,  &kept->row.object,     &kept->row.card,
                             &kept->row.document, &kept->row.uploaded_by};
    size_t size = 0;
    package_row_free(kept);
    kept->row = *row;
    for (size_t i = 0; i < KG_COUNT(fields); i++)
        size += *fields[i] ? strlen(*fields[i]) + 1 : 0;
    char *at = kept->text = kg_alloc(size + 1);
    for (size_t i = 0; i < KG_COUNT(fields); i++) {
        if (*fields[i] == NULL)
            continue;
        size_t length = strlen(*fields[i]) + 1;
        memcpy(at, *fields[i], length);
        *fields[i] = at;
        at += length;
    }
}

struct catalog_package package_of(const struct package_row *row)
{
    return (struct catalog_package){
        .id = row->row.id,
        .org = row->row.org,
        .pid = row->row.pid,
        .version = row->row.version,
        .object = row->row.object,
        .bytes = (uint64_t)row->row.bytes,
        .document = row->row.document,
    };
}

struct finding {
    struct package_row *kept;
    const char *org;
};

/* The org's own goes before the system's. */
static void take_found(void *data, const struct state_package *row)
{
    struct finding *finding = data;
    if (finding->kept->text == NULL || row->org[0] != '\0')
        package_row_keep(finding->kept, row);
}

int package_find(struct state *state, const struct state_package_query *query,
                 struct package_row *ret_row, struct kg_err *err)
{
    struct finding finding = {ret_row, query->org};
    int result = state_packages(state, query, take_found, &finding, err);
    if (result < 0 || ret_row->text != NULL)
        return result;
    return kg_fail(err, KG_E_NO_PACKAGE, "there is no package %s%s%s in this catalog",
                   query->pid ? query->pid : query->id, query->version ? " " : "",
                   query->version ? query->version : "");
}

char *catalog_package_folder(const struct catalog *catalog, const struct catalog_package *package)
{
    return kg_format("%s/%s", catalog->trees, package->object);
}

/* -- lists ------------------------------------------------------------------------------------- */

struct list_op {
    struct catalog_op op;
    char *pid, *tag; /* owned; or NULL */
    struct state_package_query query;
    struct kg_json_writer json;
    size_t count;
};

static bool has_tag(const struct state_package *row, const char *tag)
{
    struct kg_str value = KG_STR_NULL;
    kg_auto(kg_buf_free) struct kg_buf wanted = {0};
    kg_json_put_string(&wanted, kg_str(tag));
    return kg_json_member(kg_str(row->card), "tag", &value) &&
           kg_str_equal(value, kg_buf_view(&wanted));
}

static void take_listed(void *data, const struct state_package *row)
{
    struct list_op *list = data;
    if (list->tag != NULL && !has_tag(row, list->tag))
        return;
    package_put(&list->json, row);
    list->count++;
}

static int run_list(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct list_op *list = KG_CONTAINER(task, struct list_op, op.task);
    list->json = kg_json_writer(&list->op.json);
    kg_json_begin(&list->json, '{');
    kg_json_named_begin(&list->json, "plugins", '[');
    int result = state_packages(state, &list->query, take_listed, list, err);
    kg_json_end(&list->json, ']');
    kg_json_end(&list->json, '}');
    if (result == 0 && list->pid != NULL && list->count == 0)
        return kg_fail(err, KG_E_NO_PACKAGE, "there is no package %s in this catalog", list->pid);
    return result;
}

static void list_op_clean(struct catalog_op *op)
{
    struct list_op *list = KG_CONTAINER(op, struct list_op, op);
    free(list->pid);
    free(list->tag);
}

static struct list_op *list_op_new(const struct catalog_request *request)
{
    struct list_op *list = catalog_op_new(request, sizeof(*list));
    list->op.task.run = run_list;
    list->op.clean = list_op_clean;
    list->query.org = list->op.org;
    return list;
}

/* An org sees its own, and what of the system is enabled; the system's admin all that is there. */
void catalog_packages_list(const struct catalog_request *request, struct kg_str tag,
                           bool include_disabled)
{
    if (request->org.data != NULL && catalog_request_org(request) == NULL)
        return;
    struct list_op *list = list_op_new(request);
    list->tag = tag.data ? kg_str_dup(tag) : NULL;
    list->query.with_system = request->org.data != NULL;
    list->query.latest_only = true;
    list->query.enabled_only = request->org.data == NULL && !include_disabled;
    list->query.system_enabled_only = request->org.data != NULL;
    catalog_op_read(&list->op);
}

void catalog_package_versions(const struct catalog_request *request, struct kg_str pid,
                              struct kg_str source)
{
    if (request->org.data != NULL && catalog_request_org(request) == NULL)
        return;
    struct list_op *list = list_op_new(request);
    list->pid = kg_str_dup(pid);
    list->query.pid = list->pid;
    list->query.with_system = request->org.data != NULL && !kg_str_is(source, "org");
    list->query.system_only = kg_str_is(source, "system");
    list->query.system_enabled_only = request->org.data != NULL;
    catalog_op_read(&list->op);
}

/* -- one --------------------------------------------------------------------------------------- */

struct one_op {
    struct catalog_op op;
    char *key; /* owned: an id, or a pid */
    struct state_package_query query;
    bool schema_only;
    struct package_row row;
    bool enable; /* of a change */
};

static void one_op_clean(struct catalog_op *op)
{
    struct one_op *one = KG_CONTAINER(op, struct one_op, op);
    free(one->key);
    package_row_free(&one->row);
}

static void one_op_init(struct one_op *one, struct kg_str key)
{
    one->op.clean = one_op_clean;
    one->key = kg_str_dup(key);
    one->query.org = one->op.org;
}

static struct one_op *one_op_new(const struct catalog_request *request, struct kg_str key)
{
    struct one_op *one = catalog_op_new(request, sizeof(*one));
    one_op_init(one, key);
    return one;
}

static int run_one(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct one_op *one = KG_CONTAINER(task, struct one_op, op.task);
    int result = package_find(state, &one->query, &one->row, err);
    struct kg_json_writer json = kg_json_writer(&one->op.json);
    struct kg_str schema = KG_STR_NULL;
    if (result < 0)
        return result;
    if (!one->schema_only)
        package_put(&json, &one->row.row);
    else if (kg_json_member(kg_str(one->row.row.card), "settings_schema", &schema))
        kg_buf_str(&one->op.json, schema);
    return 0;
}

void catalog_package_show(const struct catalog_request *request, struct kg_str id)
{
    if (request->org.data != NULL && catalog_request_org(request) == NULL)
        return;
    struct one_op *one = one_op_new(request, id);
    one->op.task.run = run_one;
    one->query.id = one->key;
    one->query.with_system = request->org.data != NULL;
    one->query.system_enabled_only = request->org.data != NULL;
    catalog_op_read(&one->op);
}

void catalog_package_schema(const struct catalog_request *request, struct kg_str pid)
{
    if (catalog_request_org(request) == NULL)
        return;
    struct one_op *one = one_op_new(request, pid);
    one->op.task.run = run_one;
    one->schema_only = true;
    one->query.pid = one->key;
    one->query.with_system = true;
    one->query.latest_only = true;
    one->query.enabled_only = true;
    catalog_op_read(&one->op);
}

/* -- enabling, disabling ----------------------------------------------------------------------- */

struct highest {
    char id[CATALOG_ID_TEXT];
    char version[CATALOG_VERSION_MAX + 1];
    bool enabled;
};

static void take_highest(void *data, const struct state_package *row)
{
    struct highest *highest = data;
    bool better = row->enabled > highest->enabled;
    bool same = row->enabled == highest->enabled;
    if (highest->id[0] != '\0' && !better &&
        !(same && catalog_version_compare(kg_str(row->version), kg_str(highest->version)) > 0))
        return;
    kg_str_copy(kg_str(row->id), highest->id, sizeof(highest->id));
    kg_str_copy(kg_str(row->version), highest->version, sizeof(highest->version));
    highest->enabled = row->enabled;
}

int package_settle_latest(struct state *state, const char *org, const char *pid, struct kg_err *err)
{
    struct highest highest = {0};
    const struct state_package_query all = {.org = org, .pid = pid};
    int result = state_packages(state, &all, take_highest, &highest, err);
    if (result == 0)
        result = state_package_set_latest(state, org, pid, highest.id, err);
    return result;
}

static int catalog_packages_run_change(struct state_task *task, struct state *state,
                                       struct kg_err *err)
{
    struct one_op *one = KG_CONTAINER(task, struct one_op, op.task);
    int result = package_find(state, &one->query, &one->row, err);
    if (result == 0)
        result = state_package_set_enabled(state, one->op.org, one->key, one->enable, err);
    if (result == 0)
        result = package_settle_latest(state, one->op.org, one->row.row.pid, err);
    struct package_row after = {0};
    if (result == 0)
        result = package_find(state, &one->query, &after, err);
    if (result == 0) {
        struct kg_json_writer json = kg_json_writer(&one->op.json);
        package_put(&json, &after.row);
    }
    package_row_free(&after);
    return result;
}

static void package_changed(struct catalog_op *op)
{
    const struct one_op *one = KG_CONTAINER(op, struct one_op, op);
    audit_emit(host_audit(op->catalog->host),
               one->enable ? AUDIT_CATALOG_PACKAGE_ENABLED : AUDIT_CATALOG_PACKAGE_DISABLED,
               kg_str(op->asker.request_id), AUDIT_V_TEXT(op->org[0] != '\0' ? op->org : NULL),
               AUDIT_V_TEXT(one->row.row.pid), AUDIT_V_TEXT(one->row.row.version),
               AUDIT_V_TEXT(op->asker.operator_id));
}

static int catalog_packages_run_find(struct state_task *task, struct state *state,
                                     struct kg_err *err)
{
    struct one_op *one = KG_CONTAINER(task, struct one_op, op.task);
    return package_find(state, &one->query, &one->row, err);
}

static void on_files_there(void *data, const struct kg_err *err_or_null)
{
    struct one_op *one = data;
    package_row_free(&one->row);
    if (err_or_null != NULL)
        catalog_op_answer(&one->op, err_or_null);
    else
        catalog_op_write(&one->op);
}

/* What is enabled can be run: its files are there before anybody is told so. */
static void on_found_to_enable(struct state_task *task, const struct kg_err *err_or_null)
{
    struct one_op *one = KG_CONTAINER(task, struct one_op, op.task);
    const struct state_package *row = &one->row.row;
    if (err_or_null != NULL) {
        catalog_op_answer(&one->op, err_or_null);
        return;
    }
    one->op.task.run = catalog_packages_run_change;
    catalog_tree_prepare(one->op.catalog, row->object, (uint64_t)row->bytes, on_files_there, one);
}

/* A version of the org's own, or by the system's admin of the system's. */
void catalog_package_enable(const struct catalog_request *request, struct kg_str id, bool enable)
{
    if (request->org.data != NULL && catalog_request_org(request) == NULL)
        return;
    struct one_op *one = one_op_new(request, id);
    one->op.task.run = catalog_packages_run_change;
    one->op.then = package_changed;
    one->query.id = one->key;
    one->enable = enable;
    if (!enable) {
        catalog_op_write(&one->op);
        return;
    }
    one->op.task.run = catalog_packages_run_find;
    one->op.task.done = on_found_to_enable;
    state_keeper_read(catalog_keeper(request->catalog), &one->op.task);
}

/* -- what was uploaded ------------------------------------------------------------------------- */

struct download {
    struct one_op one; /* first */
    struct loop_job job;
    int fd;
    struct kg_err err;
};

static void download_op_clean(struct catalog_op *op)
{
    struct download *download = KG_CONTAINER(op, struct download, one.op);
    kg_close(&download->fd);
    one_op_clean(op);
}

static void on_download_read(struct loop_job *job)
{
    struct download *download = KG_CONTAINER(job, struct download, job);
    catalog_op_answer(&download->one.op, download->err.code != KG_OK ? &download->err : NULL);
}

static void run_download_read(struct loop_job *job)
{
    struct download *download = KG_CONTAINER(job, struct download, job);
    kg_read_fd(download->fd, "the package", (size_t)download->one.row.row.bytes + 1,
               &download->one.op.json, &download->err);
}

static void on_download_opened(void *data, int fd, const char *path_or_null,
                               const struct kg_err *err_or_null)
{
    struct download *download = data;
    (void)path_or_null;
    download->fd = fd;
    if (err_or_null != NULL) {
        catalog_op_answer(&download->one.op, err_or_null);
        return;
    }
    download->job = (struct loop_job){.run = run_download_read, .done = on_download_read};
    loop_worker_submit(catalog_worker(download->one.op.catalog), &download->job);
}

static void on_download_found(struct state_task *task, const struct kg_err *err_or_null)
{
    struct download *download = KG_CONTAINER(task, struct download, one.op.task);
    const struct state_package *row = &download->one.row.row;
    if (err_or_null != NULL)
        catalog_op_answer(&download->one.op, err_or_null);
    else
        objects_open(download->one.op.catalog->objects, row->object, (uint64_t)row->bytes,
                     on_download_opened, download);
}

void catalog_package_download(const struct catalog_request *request, struct kg_str id)
{
    if (request->org.data != NULL && catalog_request_org(request) == NULL)
        return;
    struct download *download = catalog_op_new(request, sizeof(*download));
    struct one_op *one = &download->one;
    one_op_init(one, id);
    download->fd = -1;
    one->op.clean = download_op_clean;
    one->op.task.run = catalog_packages_run_find;
    one->op.task.done = on_download_found;
    one->query.id = one->key;
    one->query.with_system = request->org.data != NULL;
    one->query.system_enabled_only = request->org.data != NULL;
    state_keeper_read(catalog_keeper(request->catalog), &one->op.task);
}
