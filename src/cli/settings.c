/*
 * What config.toml asks of this machine, beyond what the file says by itself: an address that may
 * be listened on, a secret that can be read, a user that there is. start, `config check` and
 * `config set` ask here, so that none of them takes what another refuses.
 */
#include "cli/cli.h"

#include "host/cluster.h"
#include "http/http.h"

#include <errno.h>
#include <sys/stat.h>

#define NONCE_FILE_BYTES_MAX 4096

static bool is_behind_proxy(const struct config *config)
{
    return strcmp(config->auth_mode, "proxy") == 0;
}

static int cli_settings_check_user(const struct config *config, struct kg_err *err)
{
    struct cage_owner owner;
    return user_find(config, &owner, err);
}

static int check_bind(const struct config *config, struct kg_err *err)
{
    return config->daemon_bind[0] == '\0'
               ? 0
               : http_address_check(config->daemon_bind, is_behind_proxy(config), err);
}

/* The proxy's secret is the first line of its file, which must not be everybody's. */
int settings_read_nonce(const struct config *config, struct kg_buf *ret_nonce, struct kg_err *err)
{
    const char *path = config->auth_nonce_file;
    struct stat file;
    if (!is_behind_proxy(config))
        return 0;
    if (path[0] == '\0')
        return kg_fail(err, KG_E_INVALID_CONFIG,
                       "auth.mode is proxy, but auth.nonce_file is not set");
    if (stat(path, &file) == 0 && (file.st_mode & S_IRWXO) != 0) {
        kg_fail(err, KG_E_INVALID_CONFIG, "auth.nonce_file %s: everybody may use it", path);
        return kg_hint(err, "chmod o= %s", path);
    }
    int result = kg_read_file(path, NONCE_FILE_BYTES_MAX, ret_nonce, err);
    if (result < 0)
        return kg_wrap(err, result, "auth.nonce_file");
    const char *end = memchr(ret_nonce->data, '\n', ret_nonce->length);
    if (end != NULL)
        ret_nonce->length = (size_t)(end - ret_nonce->data);
    return http_nonce_check(kg_buf_view(ret_nonce), err);
}

static int check_nonce(const struct config *config, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf nonce = {0};
    return settings_read_nonce(config, &nonce, err);
}

/* It need not be there; but nothing else may be in its place. */
static int check_plugins_dir(const struct config *config, struct kg_err *err)
{
    struct stat there;
    const char *path = config->plugins_dir;
    if (path[0] == '\0')
        return 0;
    int errnum = stat(path, &there) < 0 ? errno : S_ISDIR(there.st_mode) ? 0 : ENOTDIR;
    if (errnum == 0 || errnum == ENOENT || errnum == EACCES)
        return 0;
    return kg_fail_errno(err, errnum, "plugins.dir is %s", path);
}

static int check_database(const struct config *config, struct kg_err *err)
{
    return host_cluster_is_set(config) ? state_cluster_check_url(config->cluster_database, err) : 0;
}

int settings_check(const struct config *config, const char *file, struct kg_err *err)
{
    static const struct {
        const char *section, *key;
        int (*check)(const struct config *config, struct kg_err *err);
    } rows[] = {
        {"daemon", "user", cli_settings_check_user}, {"daemon", "bind", check_bind},
        {"auth", "nonce_file", check_nonce},         {"plugins", "dir", check_plugins_dir},
        {"cluster", "database", check_database},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        int result = rows[i].check(config, err);
        if (result == 0)
            continue;
        err->code = KG_E_INVALID_CONFIG;
        config_wrap_place(config, file, rows[i].section, rows[i].key, err);
        return result;
    }
    return 0;
}
