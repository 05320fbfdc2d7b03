/*
 * A store that is older than versions, where plugins/NAME itself was what was approved. Nothing of
 * it is deleted; what was installed counts as approved, path settings among it, of which doctor
 * tells once, since nobody was ever asked about them.
 */
#include "store/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define NOTICE_NAME      "settings-before"
#define NOTICE_BYTES_MAX ((size_t)1 << 20)

static void note_settings(const struct store *store, const char *name, const char *hash,
                          struct kg_buf *notice)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_free) char *path = store_version_path(store, name, hash);
    struct manifest *manifest = manifest_load(path, &problems);
    if (manifest == NULL)
        return;
    kg_auto(manifest_reaches_free) struct manifest_reaches reaches = manifest_reaches_of(manifest);
    for (size_t i = 0; i < reaches.count; i++)
        kg_buf_printf(notice, "%s: setting:%s:%s\n", name, reaches.items[i].knob->name,
                      reaches.items[i].prefix);
    manifest_free(manifest);
}

/* Only what was approved moves; what was changed since waits where it is for the operator. */
static int takeover_take_over(struct store *store, const struct store_hold *hold, const char *name,
                              const char *hash, struct kg_buf *notice, struct kg_err *err)
{
    kg_auto(store_look_free) struct store_look look = {0};
    if (store_look_read(store, hold->plugins_fd, name, &look, NULL) < 0 ||
        strcmp(look.tree.hash, hash) != 0)
        return 0;
    int result = store_version_put(store, hold, hold->plugins_fd, name, name, hash, err);
    if (result < 0)
        return result;
    kg_log_about(KG_INFO, name, "its files moved to versions of the plugin store");
    store_approved_write(store, hold, name, &look, "");
    note_settings(store, name, hash, notice);
    return 0;
}

static char *notice_path(const struct store *store)
{
    return kg_format("%s/" NOTICE_NAME, store->folder);
}

/* One who was killed before may have noted some already. */
static void keep_notice(const struct store *store, const struct store_hold *hold,
                        struct kg_buf *notice)
{
    struct kg_err err;
    kg_auto(kg_free) char *path = notice_path(store);
    if (notice->length == 0)
        return;
    (void)kg_read_file(path, NOTICE_BYTES_MAX, notice, NULL);
    if (store_write_public(hold->folder_fd, NOTICE_NAME, kg_buf_view(notice), &err) < 0)
        kg_log(KG_WARN, "%s", err.message);
}

int store_take_over(struct store *store, const struct store_hold *hold, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf notice = {0};
    struct local *local = local_load(store->parts.paths->local_file, LOCAL_LEAVE, err);
    int result = local ? 0 : -EINVAL;
    for (size_t i = 0; result == 0 && i < local->plugin_count; i++) {
        const struct local_plugin *plugin = &local->plugins[i];
        kg_auto(kg_free) char *name = kg_str_dup(manifest_package_name(plugin->package));
        kg_auto(kg_free) char *hash = kg_str_dup(plugin->hash);
        kg_auto(kg_free) char *path = store_version_path(store, name, hash);
        if (path != NULL && !store_version_is_there(store, name, hash))
            result = takeover_take_over(store, hold, name, hash, &notice, err);
    }
    keep_notice(store, hold, &notice);
    local_free(local);
    return result;
}

bool store_settings_before(struct store *store, struct kg_buf *ret_text)
{
    kg_auto(kg_free) char *path = notice_path(store);
    return kg_read_file(path, NOTICE_BYTES_MAX, ret_text, NULL) == 0 && unlink(path) == 0;
}
