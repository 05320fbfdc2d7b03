/*
 * Files that the operator hands over with his browser: an archive is kept in a folder of its own
 * until it was fetched from there like any other, and a script goes where scripts are. An archive
 * comes in pieces, since it may be larger than a body. What is here is an operator's own, but still
 * bounded: how many there are, how large, how long each stays.
 */
#include "http/internal.h"

#include "base/base64.h"
#include "host/process.h"
#include "store/source.h"
#include "store/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define UPLOADS_MAX    8
#define KEPT_SECONDS   3600
#define NAME_MAX_BYTES 128
#define ID_PREFIX      "upl_"

struct upload {
    struct loop_job job;
    struct http_request *request;
    char *folder, *name, *id; /* owned; no id: it begins */
    unsigned char *bytes;     /* owned */
    size_t length;
    uint64_t size, bytes_max; /* with this piece; and at most */
    struct kg_err err;
};

static void upload_free(struct upload *upload)
{
    free(upload->folder);
    free(upload->name);
    free(upload->id);
    free(upload->bytes);
    free(upload);
}

/* -- on the worker ----------------------------------------------------------------------------- */

/* Those that stood for long enough go; how many are left. */
static size_t uploads_sweep(int folder)
{
    size_t left = 0;
    DIR *dir = fdopendir(fcntl(folder, F_DUPFD_CLOEXEC, 0));
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        struct stat there;
        if (strncmp(entry->d_name, ID_PREFIX, strlen(ID_PREFIX)) != 0 ||
            fstatat(folder, entry->d_name, &there, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (there.st_mtime + KEPT_SECONDS < time(NULL))
            tree_remove(folder, entry->d_name, NULL);
        else
            left++;
    }
    if (dir != NULL)
        closedir(dir);
    return left;
}

static int uploads_begin(struct upload *upload, int folder)
{
    if (uploads_sweep(folder) >= UPLOADS_MAX) {
        kg_fail(&upload->err, KG_E_BUSY, "%d files were handed over within the last hour",
                UPLOADS_MAX);
        return kg_hint(&upload->err, "wait, or install it by its path: kaged plugin install FILE");
    }
    const struct kg_id id = kg_id_new(ID_PREFIX);
    upload->id = kg_strdup(id.text);
    if (mkdirat(folder, upload->id, 0700) < 0)
        return kg_fail_errno(&upload->err, errno, "make the folder %s", upload->id);
    return 0;
}

/* The next piece, behind what is there. */
static int uploads_append(struct upload *upload, int folder)
{
    struct stat there;
    kg_auto(kg_close) int own =
        openat(folder, upload->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    kg_auto(kg_close) int file =
        own < 0 ? -1
                : openat(own, upload->name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                         0600);
    if (own < 0)
        return kg_fail(&upload->err, KG_E_NOT_FOUND, "there is no upload %s", upload->id);
    if (file < 0 || fstat(file, &there) < 0)
        return kg_fail_errno(&upload->err, errno, "open %s", upload->name);
    upload->size = (uint64_t)there.st_size + upload->length;
    if (upload->size > upload->bytes_max) {
        tree_remove(folder, upload->id, NULL);
        kg_fail(&upload->err, KG_E_TOO_LARGE, "%s has more than %llu bytes", upload->name,
                (unsigned long long)upload->bytes_max);
        return kg_hint(&upload->err, "limits.install_source_bytes is the limit");
    }
    int result = kg_write_all(file, upload->bytes, upload->length);
    return result < 0 ? kg_fail_errno(&upload->err, -result, "write %s", upload->name) : 0;
}

static void run_upload(struct loop_job *job)
{
    struct upload *upload = KG_CONTAINER(job, struct upload, job);
    if (kg_make_dirs(upload->folder, 0700, &upload->err) < 0)
        return;
    kg_auto(kg_close) int folder = open(upload->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        kg_fail_errno(&upload->err, errno, "open the folder %s", upload->folder);
    else if (upload->id != NULL || uploads_begin(upload, folder) == 0)
        uploads_append(upload, folder);
}

/* -- on the loop ------------------------------------------------------------------------------- */

static void on_uploaded(struct loop_job *job)
{
    struct upload *upload = KG_CONTAINER(job, struct upload, job);
    struct http_request *request = upload->request;
    struct host *host = http_host(request);
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    if (upload->err.code == KG_OK) {
        kg_auto(kg_free) char *path =
            kg_format("%s/%s/%s", upload->folder, upload->id, upload->name);
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "id", upload->id);
        kg_json_named_text(&json, "path", path);
        kg_json_named_int(&json, "bytes", (int64_t)upload->size);
        kg_json_end(&json, '}');
    }
    http_on_answer(request, kg_buf_view(&body), upload->err.code == KG_OK ? NULL : &upload->err);
    upload_free(upload);
    host_store_job_done(host);
}

/* One word that is a file's name on every machine. */
static int uploads_check_name(struct kg_str name, struct kg_err *err)
{
    kg_auto(kg_free) char *text = kg_str_dup(name);
    bool is_plain = name.length > 0 && name.length <= NAME_MAX_BYTES && name.data[0] != '.';
    for (size_t i = 0; i < name.length; i++)
        is_plain &= kg_is_letter_or_digit(name.data[i]) || strchr("._-+", name.data[i]) != NULL;
    if (is_plain && source_archive_format(text) != NULL)
        return 0;
    kg_fail(err, KG_E_INVALID_PARAMS, "\"%.*s\" is not the name of an archive",
            KG_STR_CUT(name, NAME_MAX_BYTES));
    return kg_hint(
        err,
        "use letters, digits, . _ - + and, at the end, .zip, .mcpb, .dxt, .tar, .tgz or .tar.gz");
}

static int uploads_check_id(struct kg_str id, struct kg_err *err)
{
    bool is_one = kg_str_starts(id, ID_PREFIX) && id.length < sizeof(struct kg_id);
    for (size_t i = strlen(ID_PREFIX); i < id.length; i++)
        is_one &= kg_is_letter_or_digit(id.data[i]);
    return id.data == NULL || is_one ? 0
                                     : kg_fail(err, KG_E_NOT_FOUND, "there is no upload %.*s",
                                               KG_STR_CUT(id, KG_CUT_NAME));
}

/* NULL with the reason. */
static unsigned char *uploads_decode(struct kg_str text, size_t *ret_length, struct kg_err *err)
{
    unsigned char *bytes = kg_alloc(text.length / 4 * 3 + 3);
    if (kg_base64_read(text, bytes, ret_length))
        return bytes;
    free(bytes);
    kg_fail(err, KG_E_INVALID_PARAMS, "content is not base64");
    return NULL;
}

void http_handle_upload(struct http_request *request)
{
    const struct kg_node *body = http_body_tree(request);
    struct kg_str name = kg_node_text(body, "name"), id = kg_node_text(body, "id");
    struct host *host = http_host(request);
    struct kg_err err = {0};
    size_t length = 0;
    unsigned char *bytes = NULL;
    if (uploads_check_name(name, &err) == 0 && uploads_check_id(id, &err) == 0)
        bytes = uploads_decode(kg_node_text(body, "content"), &length, &err);
    if (bytes == NULL) {
        http_reply_error(request, &err);
        return;
    }
    struct upload *upload = kg_alloc(sizeof(*upload));
    *upload = (struct upload){
        .job = {.run = run_upload, .done = on_uploaded},
        .request = request,
        .folder = kg_path_join(host_paths(host)->state_dir, "uploads"),
        .name = kg_str_dup(name),
        .id = id.data ? kg_str_dup(id) : NULL,
        .bytes = bytes,
        .length = length,
        .bytes_max = (uint64_t)host_config(host)->limits_install_source_bytes,
    };
    host_store_job(host, &upload->job);
}

/* -- scripts ----------------------------------------------------------------------------------- */

void http_handle_script_add(struct http_request *request)
{
    struct kg_str name = http_path_parameter(request, "script");
    kg_auto(kg_free) char *path = NULL;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct kg_err err = {0};
    path = host_script_add(http_host(request), name,
                           kg_node_text(http_body_tree(request), "source"), &err);
    if (path != NULL) {
        kg_json_begin(&json, '{');
        kg_json_named_str(&json, "name", name);
        kg_json_named_text(&json, "file", path);
        kg_json_end(&json, '}');
    }
    http_on_answer(request, kg_buf_view(&body), path != NULL ? NULL : &err);
}
