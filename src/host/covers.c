/*
 * What lies over every cage, whatever that was granted: the folders that projects are made of,
 * those that plugins are run from by their authors, and what another plugin may only read though it
 * may write what is above. A process that was started before such a place was known, and could
 * write there, is restarted.
 */
#include "host/internal.h"
#include "project/project.h"

#include <stdlib.h>

void host_covers_add(struct host_covers *covers, const struct host_cover *cover)
{
    covers->items = kg_realloc(covers->items, (covers->count + 1) * sizeof(*covers->items));
    covers->items[covers->count++] = *cover;
}

void host_covers_free(struct host_covers *covers)
{
    for (size_t i = 0; i < covers->count; i++)
        free(covers->items[i].path);
    free(covers->items);
    *covers = (struct host_covers){0};
}

static void covers_add_project(void *data, const char *root)
{
    host_covers_add(data, &(struct host_cover){.path = kg_path_join(root, PROJECT_DIR),
                                               .ahead = true,
                                               .closed = HOST_PROJECTS_FILE,
                                               .note = HOST_PROJECTS_OWN});
}

/* Most have nothing that could be moved from under them, and that is seen at a glance. */
static bool may_hold(const struct host_process *process)
{
    const struct manifest *manifest = process->manifest;
    const struct capability_set *set = &process->grants.set;
    bool writes = false, reads = false;
    for (size_t i = 0; i < set->count; i++) {
        enum capability_kind kind = set->items[i].kind;
        writes = writes || kind == CAPABILITY_WRITE;
        reads = reads || kind == CAPABILITY_READ || kind == CAPABILITY_EXEC;
    }
    for (size_t i = 0; i < manifest->knob_count && reads; i++)
        writes = writes || strcmp(manifest->knobs[i].type, "path") == 0;
    return writes && reads;
}

void host_covers_collect(const struct host *host, struct host_covers *ret_covers)
{
    host->project_ops->roots(host->projects, covers_add_project, ret_covers);
    for (size_t i = 0; i < host->plugin_count; i++)
        if (host->plugins[i]->dev != NULL)
            host_covers_add(ret_covers,
                            &(struct host_cover){.path = kg_strdup(host->plugins[i]->dir),
                                                 .note = "a plugin is run from it"});
    if (host->scripts != NULL)
        host_covers_add(ret_covers,
                        &(struct host_cover){.path = kg_strdup(host_scripts_dir(host->scripts)),
                                             .note = "scripts are run from it"});
    for (struct host_process *at = NULL; (at = host_process_after(host, at)) != NULL;) {
        if (!may_hold(at))
            continue;
        const struct host_cage_parts parts =
            host_cage_parts_of((struct host_named){at->plugin, at}, NULL);
        policy_held(&parts, ret_covers);
    }
}

/* -- those that were started before ------------------------------------------------------------ */

static bool is_concerned(const struct host_process *process, const char *path, bool replaced)
{
    if (!host_process_runs(process))
        return false;
    return replaced ? cage_sees(process->sees, path) : cage_could_write(process->sees, path);
}

void host_cover(struct host *host, const char *path, bool replaced, char ***names)
{
    const struct kg_str place = {path, strlen(path)};
    for (struct host_process *at = NULL; (at = host_process_after(host, at)) != NULL;) {
        if (!is_concerned(at, path, replaced))
            continue;
        kg_log_about(KG_INFO, at->name, "is restarted: it could %s %s",
                     replaced ? "see another folder in place of" : "write", path);
        audit_emit(host->audit, AUDIT_PLUGIN_COVERED, KG_STR_NULL, AUDIT_V_TEXT(at->name),
                   AUDIT_V_STR(place));
        if (names != NULL)
            kg_list_add(names, kg_strdup(at->name));
        host_process_restart(at);
    }
}

bool host_could_write(const struct host *host, const char *path, char ***names)
{
    bool any = false;
    for (struct host_process *at = NULL; (at = host_process_after(host, at)) != NULL;) {
        if (!cage_could_write(at->sees, path))
            continue;
        any = true;
        if (!kg_list_has(*names, kg_str(at->name)))
            kg_list_add(names, kg_strdup(at->name));
    }
    return any;
}
