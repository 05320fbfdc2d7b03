/* kaged catalog: packages of an org, or of the system where no org is named. */
#include "cli/cli.h"

#include "store/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)1 << 30) /* the daemon's own bound is far below */
#define BOUNDARY "kaged-catalog-upload-7f3c9a51d0e84b26"

/* "/api/orgs/ORG/plugins" or "/api/admin/plugins", and what follows. */
static void put_catalog_target(const struct cli *cli, struct kg_buf *target)
{
    const char *org = cli_option_value(cli, "org");
    kg_buf_text(target, org != NULL ? "/api/orgs/" : "/api/admin");
    if (org != NULL)
        kg_buf_percent(target, kg_str(org));
    kg_buf_text(target, "/plugins");
}

static void put_packages(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"PID", "VERSION", "STATE", "SOURCE", "KIND", "ID", NULL};
    const struct kg_node *plugins = kg_node_list(answer, "plugins");
    (void)cli;
    if (plugins->count == 0) {
        kg_buf_text(out, "there are no packages\n");
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < plugins->count; i++) {
        const struct kg_node *plugin = &plugins->items[i];
        table_texts(table, plugin, (const char *const[]){"pid", "version", NULL});
        table_cell(table,
                   !kg_node_is_true(plugin, "enabled")    ? KG_STR("disabled")
                   : kg_node_is_true(plugin, "is_latest") ? KG_STR("latest")
                                                          : KG_STR("older"),
                   NULL);
        table_texts(table, plugin, (const char *const[]){"source", "kind", "id", NULL});
    }
    table_print(table);
}

int cli_catalog_list(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    put_catalog_target(cli, &target);
    cli_put_option(&target, cli, "tag");
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_packages);
}

int cli_catalog_versions(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    put_catalog_target(cli, &target);
    kg_buf_char(&target, '/');
    kg_buf_percent(&target, kg_str(cli_argument(cli, 0)));
    kg_buf_text(&target, "/versions");
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_packages);
}

static void put_package(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    print_words(out, answer, "{pid} {version} is ");
    kg_buf_text(out, kg_node_is_true(answer, "enabled") ? "enabled" : "disabled");
    kg_buf_text(out, kg_node_is_true(answer, "is_latest") ? ", and the latest\n" : "\n");
    const struct kg_node *declares = kg_node_list(answer, "declares");
    for (uint32_t i = 0; kg_node_is_true(answer, "enabled") && i < declares->count; i++) {
        kg_buf_text(out, i == 0 ? "it wants, and has only what an org grants it: " : ", ");
        kg_buf_escaped(out, declares->items[i].text);
    }
    if (kg_node_is_true(answer, "enabled") && declares->count > 0)
        kg_buf_char(out, '\n');
}

static int catalog_change(const struct cli *cli, const char *body)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    put_catalog_target(cli, &target);
    kg_buf_char(&target, '/');
    kg_buf_percent(&target, kg_str(cli_argument(cli, 0)));
    const struct client_request request = {
        .method = "PATCH", .target = kg_buf_terminate(&target), .body = kg_str(body)};
    return cli_show(cli, &request, put_package);
}

int cli_catalog_enable(struct cli *cli)
{
    return catalog_change(cli, "{\"enabled\":true}");
}

int cli_catalog_disable(struct cli *cli)
{
    return catalog_change(cli, "{\"enabled\":false}");
}

/* -- uploading --------------------------------------------------------------------------------- */

static void put_uploaded(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *warnings = kg_node_list(answer, "warnings");
    (void)cli;
    print_words(out, answer, "{pid} {version} is in the catalog, by the id {id}\n");
    for (uint32_t i = 0; i < warnings->count; i++) {
        kg_buf_text(out, "warning: ");
        kg_buf_escaped(out, warnings->items[i].text);
        kg_buf_char(out, '\n');
    }
}

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

/* A folder as it is, without what belongs to who works on it. */
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

int cli_catalog_upload(struct cli *cli)
{
    const char *ending = "";
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0}, file = {0};
    struct kg_err err = {0};
    put_catalog_target(cli, &target);
    kg_buf_text(&target, "/upload");
    if (package_read(cli, cli_argument(cli, 0), &file, &ending, &err) < 0)
        return print_error(&err);
    kg_buf_printf(&body,
                  "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"file\"; "
                  "filename=\"package%s\"\r\n\r\n",
                  ending);
    kg_buf_str(&body, kg_buf_view(&file));
    kg_buf_text(&body, "\r\n--" BOUNDARY "--\r\n");
    const struct client_request request = {
        .method = "POST",
        .target = kg_buf_terminate(&target),
        .body = kg_buf_view(&body),
        .content_type = "multipart/form-data; boundary=" BOUNDARY,
        .silence_ms = 600000,
    };
    return cli_show(cli, &request, put_uploaded);
}
