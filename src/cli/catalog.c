/* kaged catalog: packages of an org, or of the system where no org is named. */
#include "cli/rows.h"

#include "store/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX          ((size_t)1 << 30) /* the daemon's own bound is far below */
#define UPLOAD_SILENCE_MS 600000
#define BOUNDARY          "kaged-catalog-upload-7f3c9a51d0e84b26"

/* With --org the org's own packages, else the system's. */
#define OF_CATALOG(method, rest)                                                                   \
    (method), "/api/orgs/{--org}/plugins" rest, .without = "/api/admin/plugins" rest

static const struct cell state_cells[] = {{"STATE", "!enabled", "disabled", NULL},
                                          {"STATE", "is_latest", "latest", NULL},
                                          {"STATE", NULL, "older", NULL},
                                          {0}};
static const struct row list_rows[] = {
    {"!plugins", .words = "there are no packages\n"},
    {.each = "plugins",
     .table = "PID={pid}; VERSION={version}; STATE; SOURCE={source}; KIND={kind}; ID={id}",
     .cells = state_cells},
    {0},
};
const struct cli_page page_catalog_list = {OF_CATALOG("GET", "?tag"), .rows = list_rows};
const struct cli_page page_catalog_versions = {OF_CATALOG("GET", "/{1}/versions"),
                                               .rows = list_rows};

static const struct row changed_rows[] = {
    {"!enabled", .words = "{pid} {version} is disabled"},
    {"enabled", .words = "{pid} {version} is enabled"},
    {"is_latest", .words = ", and the latest"},
    {.words = "\n"},
    {"enabled declares", .words = "it asks for these, and has only what an org grants it: "
                                  "{declares:list}\n"},
    {0},
};
const struct cli_page page_catalog_enable = {OF_CATALOG("PATCH", "/{1}"),
                                             .body = "{\"enabled\":true}", .rows = changed_rows};
const struct cli_page page_catalog_disable = {OF_CATALOG("PATCH", "/{1}"),
                                              .body = "{\"enabled\":false}", .rows = changed_rows};

/* -- uploading --------------------------------------------------------------------------------- */

static void tell_left_out(char *const *paths)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    for (; *paths != NULL; paths++) {
        kg_buf_text(&out, "left out: ");
        kg_buf_escaped(&out, kg_str(*paths));
        kg_buf_char(&out, '\n');
    }
    fputs(kg_buf_terminate(&out), stderr);
}

/* A folder as it is, without what belongs to whoever works on it. */
static int folder_pack(const struct cli *cli, const char *dir, struct kg_buf *ret_file,
                       struct kg_err *err)
{
    char folder[] = "/tmp/kaged-upload-XXXXXX";
    kg_auto(store_packed_free) struct store_packed packed = {0};
    struct config *config = config_load(cli->paths.config_file, err);
    if (config == NULL)
        return -EINVAL;
    const struct store_limits limits = store_limits_of(config);
    config_free(config);
    if (mkdtemp(folder) == NULL)
        return kg_fail_errno(err, errno, "make a folder in /tmp");
    kg_auto(kg_free) char *file = kg_path_join(folder, "package.zip");
    const struct store_pack pack = {.dir = dir, .file = file, .limits = limits};
    int result = store_pack(&pack, &packed, err);
    if (result == 0)
        result = kg_read_file(file, FILE_MAX, ret_file, err);
    if (result == 0)
        tell_left_out(packed.left_out);
    unlink(file);
    rmdir(folder);
    return result;
}

/* The archive's bytes, and how it is called by its ending. */
static int package_read(const struct cli *cli, const char *path, struct kg_buf *ret_file,
                        const char **ret_ending, struct kg_err *err)
{
    struct stat there;
    struct kg_str name = kg_str(path);
    bool is_folder = stat(path, &there) == 0 && S_ISDIR(there.st_mode);
    *ret_ending = kg_str_ends(name, ".mcpb")               ? ".mcpb"
                  : is_folder || kg_str_ends(name, ".zip") ? ".zip"
                                                           : "";
    return is_folder ? folder_pack(cli, path, ret_file, err)
                     : kg_read_file(path, FILE_MAX, ret_file, err);
}

static const struct row uploaded_rows[] = {
    {.words = "{pid} {version} is in the catalog, with the id {id}\n"},
    {.each = "warnings", .words = "warning: {.}\n"},
    {0},
};

int cli_catalog_upload(struct cli *cli)
{
    static const struct cli_page page = {OF_CATALOG("POST", "/upload"),
                                         .silence_ms = UPLOAD_SILENCE_MS, .rows = uploaded_rows};
    const char *ending = "";
    kg_auto(kg_buf_free) struct kg_buf body = {0}, file = {0};
    struct kg_err err = {0};
    if (package_read(cli, cli_argument(cli, 0), &file, &ending, &err) < 0)
        return print_error(&err);
    kg_buf_printf(&body,
                  "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"file\"; "
                  "filename=\"package%s\"\r\n\r\n",
                  ending);
    kg_buf_str(&body, kg_buf_view(&file));
    kg_buf_text(&body, "\r\n--" BOUNDARY "--\r\n");
    const struct page_given given = {.body = kg_buf_view(&body),
                                     .content_type = "multipart/form-data; boundary=" BOUNDARY};
    return page_show_with(cli, &page, &given);
}
