/* Where everything is, in the three modes: one home folder, a user's folders, the system's. */
#include "config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char *paths_absolute(const char *path)
{
    if (path[0] == '/')
        return kg_strdup(path);
    kg_auto(kg_free) char *cwd = getcwd(NULL, 0);
    return kg_format("%s/%s", cwd ? cwd : "", path);
}

/* Without trailing slashes, so that names built on it read well. */
static char *tidy(const char *path)
{
    char *copy = paths_absolute(path);
    size_t length = strlen(copy);
    while (length > 1 && copy[length - 1] == '/')
        copy[--length] = '\0';
    return copy;
}

static char *user_dir(const char *variable, const char *below_home)
{
    const char *given = getenv(variable);
    if (given != NULL && given[0] == '/')
        return kg_format("%s/kaged", given);
    const char *home = getenv("HOME");
    kg_auto(kg_free) char *found = home && home[0] ? tidy(home) : kg_strdup("");
    return kg_format("%s/%s/kaged", found, below_home);
}

static char *user_run_dir(void)
{
    const char *given = getenv("XDG_RUNTIME_DIR");
    if (given != NULL && given[0] == '/')
        return kg_format("%s/kaged", given);
    return kg_format("/tmp/kaged-%u", (unsigned)getuid());
}

static void paths_fill(struct config_paths *paths, const char *config, const char *data,
                       const char *state, const char *run)
{
    paths->config_dir = kg_strdup(config);
    paths->config_dir_mode = 0755;
    paths->config_file = kg_format("%s/config.toml", config);
    paths->local_file = kg_format("%s/local.toml", config);
    paths->plugins_dir = kg_format("%s/plugins", data);
    paths->plugin_data_dir = kg_format("%s/plugin-data", data);
    paths->state_dir = kg_strdup(state);
    paths->state_db = kg_format("%s/kaged.db", state);
    paths->storage_dir = kg_format("%s/storage", state);
    paths->audit_dir = kg_format("%s/audit", state);
    paths->audit_key = kg_format("%s/audit.key", state);
    paths->audit_forward = kg_format("%s/audit.forward", state);
    paths->logs_dir = kg_format("%s/logs", state);
    paths->uids_file = kg_format("%s/uids", state);
    paths->secrets_file = kg_format("%s/secrets.json", state);
    paths->secrets_key = kg_format("%s/secrets.key", state);
    paths->catalog_key = kg_format("%s/catalog.key", state);
    paths->cluster_keys = kg_format("%s/cluster.keys", state);
    paths->run_dir = kg_strdup(run);
    paths->socket = kg_format("%s/kaged.sock", run);
    paths->pid_file = kg_format("%s/kaged.pid", run);
    paths->launch_file = kg_format("%s/launch-url", run);
}

static void fill_home(struct config_paths *paths, const char *home)
{
    paths->home = tidy(home);
    kg_auto(kg_free) char *state = kg_format("%s/state", paths->home);
    kg_auto(kg_free) char *run = kg_format("%s/run", paths->home);
    paths_fill(paths, paths->home, paths->home, state, run);
}

static void fill_user(struct config_paths *paths)
{
    kg_auto(kg_free) char *config = user_dir("XDG_CONFIG_HOME", ".config");
    kg_auto(kg_free) char *data = user_dir("XDG_DATA_HOME", ".local/share");
    kg_auto(kg_free) char *state = user_dir("XDG_STATE_HOME", ".local/state");
    kg_auto(kg_free) char *run = user_run_dir();
    paths_fill(paths, config, data, state, run);
    paths->config_dir_mode = 0700;
}

void config_paths_system(struct config_paths *ret_paths)
{
    *ret_paths = (struct config_paths){0};
    paths_fill(ret_paths, "/etc/kaged", "/var/lib/kaged", "/var/lib/kaged", "/run/kaged");
}

int config_paths_find(const char *home_or_null, struct config_paths *ret_paths, struct kg_err *err)
{
    struct config_paths paths = {0};
    const char *home = home_or_null ? home_or_null : getenv("KAGED_HOME");
    if (home != NULL && home[0] == '\0')
        return kg_fail(err, KG_E_USAGE, "the home folder is given, but empty");
    if (home != NULL)
        fill_home(&paths, home);
    else if (getuid() == 0)
        config_paths_system(&paths);
    else
        fill_user(&paths);
    *ret_paths = paths;
    return 0;
}

void config_paths_free(struct config_paths *paths)
{
    char **all[] = {
        &paths->home,         &paths->config_dir,      &paths->config_file, &paths->local_file,
        &paths->plugins_dir,  &paths->state_dir,       &paths->state_db,    &paths->audit_dir,
        &paths->audit_key,    &paths->plugin_data_dir, &paths->storage_dir, &paths->logs_dir,
        &paths->run_dir,      &paths->socket,          &paths->pid_file,    &paths->launch_file,
        &paths->secrets_file, &paths->secrets_key,     &paths->catalog_key, &paths->cluster_keys,
        &paths->uids_file,    &paths->audit_forward};
    for (size_t i = 0; i < KG_COUNT(all); i++)
        kg_free(all[i]);
}

/* A folder that somebody else could swap under us is no place for a socket or a key. */
static int make_private(const char *path, uid_t user, struct kg_err *err)
{
    int result = kg_make_dirs(path, 0700, err);
    if (result < 0)
        return result;
    struct stat there;
    if (lstat(path, &there) < 0)
        return kg_fail_errno(err, errno, "look at folder %s", path);
    if (!S_ISDIR(there.st_mode) || (there.st_uid != user && there.st_uid != 0))
        return kg_fail(err, KG_E_REFUSED, "folder %s: belongs to another user", path);
    if (access(path, W_OK) < 0)
        return kg_fail_errno(err, errno, "write to folder %s", path);
    return 0;
}

void config_paths_folders(const struct config_paths *paths,
                          const char *ret_folders[CONFIG_PATHS_FOLDERS + 1])
{
    const char *const folders[] = {
        paths->plugins_dir, paths->plugin_data_dir, paths->state_dir, paths->storage_dir,
        paths->audit_dir,   paths->logs_dir,        paths->run_dir,   NULL};
    memcpy(ret_folders, folders, sizeof(folders));
}

int config_paths_make_config(const struct config_paths *paths, struct kg_err *err)
{
    return kg_make_dirs(paths->config_dir, paths->config_dir_mode, err);
}

int config_paths_make(const struct config_paths *paths, uid_t user, struct kg_err *err)
{
    const char *folders[CONFIG_PATHS_FOLDERS + 1];
    config_paths_folders(paths, folders);
    int result = config_paths_make_config(paths, err);
    for (const char **folder = folders; *folder != NULL && result == 0; folder++)
        result = *folder == paths->plugins_dir ? kg_make_dirs(*folder, 0755, err)
                                               : make_private(*folder, user, err);
    if (result < 0)
        kg_hint(err, "choose a folder you may write to with --home, or fix its permissions");
    return result;
}
