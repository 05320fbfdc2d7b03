/* Where the parts of a home are: in one folder, in a user's three, or in the system's. */
#include "backup/internal.h"

const char *const backup_place_names[BACKUP_PLACES] = {"configuration", "data", "state"};

void backup_roots_find(const struct config_paths *paths, struct backup_roots *ret_roots)
{
    ret_roots->roots[BACKUP_CONFIG] = kg_path_folder(paths->config_file);
    ret_roots->roots[BACKUP_DATA] = kg_path_folder(paths->plugins_dir);
    ret_roots->roots[BACKUP_STATE] = kg_strdup(paths->state_dir);
}

void backup_roots_free(struct backup_roots *roots)
{
    for (int place = 0; place < BACKUP_PLACES; place++)
        kg_free(&roots->roots[place]);
}

const char *backup_outer_root(const struct backup_roots *roots, enum backup_place place)
{
    const char *outer = roots->roots[place];
    for (int other = 0; other < BACKUP_PLACES; other++)
        if (kg_path_within(outer, roots->roots[other]))
            outer = roots->roots[other];
    return outer;
}

enum backup_place backup_place_of(const struct config_paths *paths, const char *path)
{
    kg_auto(backup_roots_free) struct backup_roots roots = {0};
    backup_roots_find(paths, &roots);
    if (kg_path_within(path, paths->plugins_dir) || kg_path_within(path, paths->plugin_data_dir))
        return BACKUP_DATA;
    if (kg_path_within(path, roots.roots[BACKUP_STATE]))
        return BACKUP_STATE;
    bool is_config = kg_path_within(path, roots.roots[BACKUP_CONFIG]);
    return is_config ? BACKUP_CONFIG : BACKUP_DATA;
}
