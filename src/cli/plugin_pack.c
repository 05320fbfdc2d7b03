/*
 * kaged plugin pack: a plugin's folder as one file, which kaged plugin install takes; of an MCP
 * server an .mcpb, which other clients take, too. Needs no daemon.
 */
#include "cli/cli.h"

#include "store/pack.h"

static void plugin_pack_put_list(struct kg_buf *out, const char *word, char *const *texts)
{
    for (; *texts != NULL; texts++) {
        kg_buf_printf(out, "  %s: ", word);
        kg_buf_escaped(out, kg_str(*texts));
        kg_buf_char(out, '\n');
    }
}

static void plugin_pack_put_words(struct kg_buf *out, const struct store_pack *pack,
                                  const struct store_packed *packed)
{
    kg_buf_printf(out, "%s %s is packed: ", pack->manifest->name, pack->manifest->version);
    kg_buf_escaped(out, kg_str(pack->file));
    kg_buf_printf(out, ", %u files, %llu bytes\n  sha256: %s\n", packed->files,
                  (unsigned long long)packed->bytes, packed->hash);
    plugin_pack_put_list(out, "left out", packed->left_out);
    plugin_pack_put_list(out, "note", packed->remarks);
    if (packed->has_own && pack->manifest->is_mcp)
        kg_buf_text(out, "  note: its own manifest.json is in it as it is\n");
}

static void plugin_pack_put_json(struct kg_buf *out, const struct store_pack *pack,
                                 const struct store_packed *packed)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", pack->manifest->name);
    kg_json_named_text(&json, "version", pack->manifest->version);
    kg_json_named_text(&json, "file", pack->file);
    kg_json_named_int(&json, "files", packed->files);
    kg_json_named_int(&json, "bytes", (int64_t)packed->bytes);
    kg_json_named_text(&json, "sha256", packed->hash);
    kg_json_named_list(&json, "left_out", packed->left_out);
    kg_json_named_list(&json, "notes", packed->remarks);
    kg_json_end(&json, '}');
    kg_buf_char(out, '\n');
}

static int pack(const struct cli *cli, const struct store_pack *pack)
{
    kg_auto(store_packed_free) struct store_packed packed = {0};
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_err err = {0};
    if (store_pack(pack, &packed, &err) < 0)
        return print_error(&err);
    if (cli->json)
        plugin_pack_put_json(&out, pack, &packed);
    else
        plugin_pack_put_words(&out, pack, &packed);
    print_out(&out);
    return CLI_DONE;
}

int cli_plugin_pack(struct cli *cli)
{
    const char *dir = cli_argument(cli, 0), *given = cli_option_value(cli, "output");
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_free) char *path = kg_path_join(dir, MANIFEST_FILE);
    struct kg_err err = {0};
    struct config *config = config_load(cli->paths.config_file, &err);
    if (config == NULL)
        return print_error(&err);
    struct manifest *manifest = manifest_load(dir, &problems);
    int code;
    if (manifest != NULL) {
        kg_auto(kg_free) char *file = given ? kg_strdup(given) : store_pack_name(manifest);
        code = pack(cli, &(struct store_pack){.dir = dir,
                                              .manifest = manifest,
                                              .file = file,
                                              .limits = store_limits_of(config)});
    } else {
        manifest_problems_fail(&problems, path, &err);
        code = print_error(&err);
    }
    manifest_free(manifest);
    config_free(config);
    return code;
}
