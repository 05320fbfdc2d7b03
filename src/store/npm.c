/*
 * npm's own client decides where packages come from: by its settings, which it is asked for in a
 * cage without a network. Its files are copied for that, so that neither cage sees the home. Only
 * the registries and proxies that it names can be reached later, when it fetches.
 */
#include "store/npm.h"
#include "store/internal.h"
#include "store/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define SETTINGS_BYTES_MAX ((size_t)256 * 1024)
#define LOOK_PROCESSES     64
#define LOOK_TMP_BYTES     ((size_t)16 << 20)
#define LOOK_MEMORY_BYTES  ((uint64_t)512 << 20)
#define CPU_SHARES         256
#define USER_FILE          "npmrc"
#define GLOBAL_FILE        "npmrc-global"

/* node runs npm, and says first what it is. */
static const char script[] = "console.log(process.version);require(process.argv[1])";

/* -- where it is ------------------------------------------------------------------------------- */

/* npm's own program beside a node; owned. NULL: there is none. */
static char *find_cli(const struct runtime *node)
{
    static const char *const places[] = {"lib/node_modules/npm/bin/npm-cli.js",
                                         "share/nodejs/npm/bin/npm-cli.js"};
    for (size_t i = 0; i < KG_COUNT(places); i++) {
        kg_auto(kg_free) char *path = kg_path_join(node->folder, places[i]);
        char *real = realpath(path, NULL);
        if (real != NULL)
            return real;
    }
    return NULL;
}

struct npm *npm_find(struct kg_err *err)
{
    struct npm *npm = kg_alloc(sizeof(*npm));
    npm->nodes = runtimes_find("node");
    for (size_t i = 0; i < npm->nodes->count && npm->cli == NULL; i++) {
        npm->node = &npm->nodes->items[i];
        npm->cli = find_cli(npm->node);
    }
    if (npm->cli != NULL)
        return npm;
    kg_fail(err, KG_E_NOT_FOUND, "%s is not installed", npm->nodes->count > 0 ? "npm" : "node");
    kg_hint(err, "install it, for example with: apt install npm");
    npm_free(npm);
    return NULL;
}

void npm_free(struct npm *npm)
{
    if (npm == NULL)
        return;
    runtimes_free(npm->nodes);
    free(npm->cli);
    free(npm->node_version);
    free(npm->ca_file);
    for (size_t i = 0; i < npm->reach_count; i++)
        free((char *)npm->reaches[i].host);
    kg_buf_free(&npm->settings);
    free(npm);
}

/* -- its settings, asked ----------------------------------------------------------------------- */

/* The first of the files that is there. */
static int copy_first(const char *const *files, size_t count, const char *to, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (size_t i = 0; i < count; i++)
        if (files[i] != NULL && access(files[i], R_OK) == 0) {
            int result = kg_read_file(files[i], SETTINGS_BYTES_MAX, &text, err);
            if (result < 0)
                return result;
            break;
        }
    kg_auto(kg_close) int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int result = fd < 0 ? -errno : kg_write_all(fd, text.data, text.length);
    return result < 0 ? kg_fail_errno(err, -result, "write %s", to) : 0;
}

static int copy_files(const struct npm *npm, const char *folder, struct kg_err *err)
{
    const char *home = getenv("HOME");
    kg_auto(kg_free) char *user = home ? kg_path_join(home, ".npmrc") : NULL;
    kg_auto(kg_free) char *global = kg_path_join(npm->node->folder, "etc/npmrc");
    kg_auto(kg_free) char *to_user = kg_path_join(folder, USER_FILE);
    kg_auto(kg_free) char *to_global = kg_path_join(folder, GLOBAL_FILE);
    const char *const users[] = {getenv("npm_config_userconfig"), getenv("NPM_CONFIG_USERCONFIG"),
                                 user};
    const char *const globals[] = {getenv("npm_config_globalconfig"),
                                   getenv("NPM_CONFIG_GLOBALCONFIG"), global, "/etc/npmrc"};
    int result = copy_first(users, KG_COUNT(users), to_user, err);
    return result < 0 ? result : copy_first(globals, KG_COUNT(globals), to_global, err);
}

/* What of the daemon's environment says something to npm about networks. */
static bool is_setting(const char *entry)
{
    static const char *const names[] = {"npm_config_",
                                        "http_proxy=", "https_proxy=", "no_proxy=", "proxy="};
    for (size_t i = 0; i < KG_COUNT(names); i++)
        if (strncasecmp(entry, names[i], strlen(names[i])) == 0)
            return strncasecmp(entry, "npm_config_userconfig=", 22) != 0 &&
                   strncasecmp(entry, "npm_config_globalconfig=", 24) != 0;
    return false;
}

static void store_npm_add_files(char ***env, const char *folder)
{
    kg_list_add(env, kg_format("npm_config_userconfig=%s/" USER_FILE, folder));
    kg_list_add(env, kg_format("npm_config_globalconfig=%s/" GLOBAL_FILE, folder));
}

static char **look_environment(const char *folder)
{
    char **env = kg_list_new(0);
    for (char *const *entry = environ; *entry != NULL; entry++)
        if (is_setting(*entry))
            kg_list_add(&env, kg_strdup(*entry));
    kg_list_add(&env, kg_strdup("PATH=/usr/bin:/usr/local/bin"));
    kg_list_add(&env, kg_strdup("LC_ALL=C.UTF-8"));
    kg_list_add(&env, kg_strdup("HOME=/tmp"));
    store_npm_add_files(&env, folder);
    return env;
}

struct cage_plan *npm_look_plan(const struct npm *npm, const char *folder,
                                const struct cage_facts *facts, struct kg_err *err)
{
    if (copy_files(npm, folder, err) < 0)
        return NULL;
    const char *const command[] = {npm->node->program, "-e",   script,   npm->cli,
                                   "config",           "list", "--json", NULL};
    char **env = look_environment(folder);
    const struct cage_path paths[] = {{.path = npm->node->folder}};
    const struct cage_policy policy = {
        .name = "npm",
        .install_dir = folder,
        .command = command,
        .env = (const char *const *)env,
        .paths = paths,
        .path_count = npm->node->is_own ? 0 : 1,
        .processes_max = LOOK_PROCESSES,
        .tmp_bytes = LOOK_TMP_BYTES,
        .memory_bytes = LOOK_MEMORY_BYTES,
        .cpu_shares = CPU_SHARES,
    };
    struct cage_plan *plan = cage_plan_new(&policy, facts, err);
    kg_list_free(env);
    return plan;
}

/* -- its settings, read ------------------------------------------------------------------------ */

static int store_npm_add_reach(struct npm *npm, const char *what, struct kg_str url,
                               struct kg_err *err)
{
    kg_auto(kg_free) char *text = kg_str_dup(url);
    kg_auto(kg_free) char *host = NULL;
    uint16_t port;
    if (!source_web_host(text, &host, &port)) {
        kg_fail(err, KG_E_INVALID_CONFIG, "npm's setting %" KG_S_WORD " is not a URL of the web",
                what);
        return kg_hint(err, "npm config get %" KG_S_NAME " says what it is", what);
    }
    for (size_t i = 0; i < npm->reach_count; i++)
        if (npm->reaches[i].port == port && strcmp(npm->reaches[i].host, host) == 0)
            return 0;
    if (npm->reach_count == NPM_REACHES_MAX)
        return kg_fail(err, KG_E_INVALID_CONFIG, "npm is configured with more than %d registries",
                       NPM_REACHES_MAX);
    npm->reaches[npm->reach_count++] = (struct cage_reach){.host = kg_steal(&host), .port = port};
    return 0;
}

static bool names_host(struct kg_str key)
{
    return kg_str_is(key, "registry") || kg_str_ends(key, ":registry") || kg_str_is(key, "proxy") ||
           kg_str_is(key, "https-proxy") || kg_str_is(key, "http-proxy");
}

/* As an entry of an environment, in which npm has _ for -. */
static void keep_setting(struct npm *npm, struct kg_str key, struct kg_str value)
{
    if (memchr(value.data, '\n', value.length) != NULL)
        return;
    kg_buf_text(&npm->settings, "npm_config_");
    for (size_t i = 0; i < key.length; i++)
        kg_buf_char(&npm->settings, key.data[i] == '-' ? '_' : key.data[i]);
    kg_buf_char(&npm->settings, '=');
    kg_buf_str(&npm->settings, value);
    kg_buf_char(&npm->settings, '\n');
}

/* Those that could come from elsewhere than its files, which it has itself. */
static bool is_kept(struct kg_str key)
{
    static const char *const keys[] = {"registry", "proxy",  "https-proxy",
                                       "noproxy",  "cafile", "replace-registry-host"};
    for (size_t i = 0; i < KG_COUNT(keys); i++)
        if (kg_str_is(key, keys[i]))
            return true;
    return false;
}

static int store_npm_take_settings(struct npm *npm, const struct kg_node *settings,
                                   struct kg_err *err)
{
    for (uint32_t i = 0; i < settings->count; i++) {
        const struct kg_member *member = &settings->members[i];
        kg_auto(kg_free) char *key = kg_str_dup(member->key);
        if (kg_str_is(member->key, "strict-ssl") && member->value.type == KG_BOOL &&
            !member->value.boolean)
            keep_setting(npm, member->key, KG_STR("false"));
        if (member->value.type != KG_STRING || member->value.text.length == 0)
            continue;
        if (names_host(member->key) && store_npm_add_reach(npm, key, member->value.text, err) < 0)
            return -EINVAL;
        if (is_kept(member->key))
            keep_setting(npm, member->key, member->value.text);
        if (kg_str_is(member->key, "cafile")) {
            kg_auto(kg_free) char *file = kg_str_dup(member->value.text);
            npm->ca_file = realpath(file, NULL);
        }
    }
    return npm->reach_count > 0 ? 0 : kg_fail(err, KG_E_INVALID_CONFIG, "npm names no registry");
}

int npm_look_read(struct npm *npm, const char *folder, struct kg_str said, struct kg_err *err)
{
    struct kg_str version = kg_str_cut(&said, '\n');
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = said.data ? kg_json_read(said, NULL) : NULL;
    char **files = kg_list_new(0);
    if (doc == NULL || doc->root->type != KG_OBJECT || version.length < 2) {
        kg_list_free(files);
        return kg_fail(err, KG_E_INVALID_CONFIG, "npm did not report its settings");
    }
    npm->node_version = kg_str_dup(kg_str_from(version, version.data[0] == 'v'));
    store_npm_add_files(&files, folder);
    for (char **line = files; *line != NULL; line++)
        kg_buf_printf(&npm->settings, "%s\n", *line);
    kg_list_free(files);
    return store_npm_take_settings(npm, doc->root, err);
}
