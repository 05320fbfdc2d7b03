/*
 * The operator's own lines over a manifest, as local.toml keeps them: [grants.NAME], and for one
 * project [grants.NAME.projects.PROJECT]. They are read, changed and written under one lock, so
 * that of two who change them at once both are heard.
 */
#include "store/internal.h"

#include <errno.h>
#include <stdlib.h>

static void store_grants_read_lines(const struct local *local, const struct store_grant *grant,
                                    struct grants_lines *ret_lines)
{
    struct kg_str project = kg_str(grant->project ? grant->project : "");
    for (size_t i = 0; i < local->grant_count; i++) {
        const struct local_grant *at = &local->grants[i];
        if (!kg_str_is(at->plugin, grant->plugin) || !kg_str_equal(at->project, project))
            continue;
        ret_lines->allow = kg_list_copy((const char *const *)at->allow);
        ret_lines->deny = kg_list_copy((const char *const *)at->deny);
        return;
    }
    ret_lines->allow = kg_list_new(0);
    ret_lines->deny = kg_list_new(0);
}

/* Each line counts for the next: the second of two that are the same is one too many. */
static int store_grants_apply(const struct kg_buf *text, const struct store_grant *grant,
                              const struct capability *line, struct grants_lines *ret_lines,
                              struct kg_err *err)
{
    kg_auto(grants_free) struct grants before = {0};
    struct local *local = local_read(kg_buf_view(text), LOCAL_LEAVE, err);
    if (local == NULL)
        return -EINVAL;
    int result = grants_make(grant->declared, local, grant->plugin, grant->project, &before, err);
    store_grants_read_lines(local, grant, ret_lines);
    local_free(local);
    if (result < 0 || (grant->only_missing && grants_cover(&before, line)))
        return result;
    return (grant->revokes ? grants_deny : grants_allow)(&before, grant->plugin, line, ret_lines,
                                                         err);
}

/* A list without a line is not written. */
static int store_grants_write_list(struct kg_buf *text, const struct store_grant *grant,
                                   const char *key, char *const *lines, struct kg_err *err)
{
    const char *path[5] = {"grants", grant->plugin};
    size_t count = 2;
    if (grant->project != NULL) {
        path[count++] = "projects";
        path[count++] = grant->project;
    }
    path[count++] = key;
    struct kg_node list = {.type = KG_ARRAY, .count = (uint32_t)kg_list_count(lines)};
    if (list.count == 0)
        return store_record_cut(text, path, count, err);
    list.items = kg_alloc_array(list.count, sizeof(*list.items));
    for (uint32_t i = 0; i < list.count; i++)
        list.items[i] = (struct kg_node){.type = KG_STRING, .text = kg_str(lines[i])};
    int result = edit_toml_set(text, path, count, &list, err);
    free(list.items);
    return result;
}

static bool says_something(const struct kg_buf *text, const char *plugin, const char *project)
{
    bool any = false;
    struct local *local = local_read(kg_buf_view(text), LOCAL_LEAVE, NULL);
    for (size_t i = 0; local != NULL && i < local->grant_count; i++)
        any = any || (kg_str_is(local->grants[i].plugin, plugin) &&
                      (project == NULL || kg_str_is(local->grants[i].project, project)) &&
                      (local->grants[i].allow[0] != NULL || local->grants[i].deny[0] != NULL ||
                       local->grants[i].env[0] != NULL));
    local_free(local);
    return any;
}

/* A table that lost its last line was ours alone. */
static int drop_empty(struct kg_buf *text, const struct store_grant *grant, struct kg_err *err)
{
    const char *const path[] = {"grants", grant->plugin, "projects", grant->project};
    int result = 0;
    if (grant->project != NULL && !says_something(text, grant->plugin, grant->project))
        result = store_record_cut(text, path, KG_COUNT(path), err);
    if (result == 0 && !says_something(text, grant->plugin, NULL))
        result = store_record_cut(text, path, 2, err);
    return result;
}

int store_grant_change(struct kg_buf *text, void *data, struct kg_err *err)
{
    const struct store_grant *grant = data;
    int result = 0;
    for (size_t i = 0; i < grant->lines->count && result == 0; i++) {
        kg_auto(grants_lines_free) struct grants_lines lines = {0};
        result = store_grants_apply(text, grant, &grant->lines->items[i], &lines, err);
        if (result == 0)
            result = store_grants_write_list(text, grant, "allow", lines.allow, err);
        if (result == 0)
            result = store_grants_write_list(text, grant, "deny", lines.deny, err);
    }
    return result < 0 ? result : drop_empty(text, grant, err);
}

int store_grant(struct store *store, const struct store_grant *grant, struct kg_err *err)
{
    return store_record_edit(store, store_grant_change, grant, err);
}
