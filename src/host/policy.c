/*
 * What a plugin's approved capabilities, its settings and the configuration come to: the policy of
 * its cage. Paths are put in their place here; whether they may be had is the planner's to say.
 * A folder below config:/ is made when the plugin may write there, and by nobody's links: a plugin
 * that ran before may have planted some.
 */
#include "helper/helper.h"
#include "host/internal.h"
#include "project/project.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A policy, and what its texts live in. */
struct policy {
    const struct host_cage_parts *parts;
    struct cage_policy cage;
    struct cage_path *paths; /* owned, like all that follows */
    struct cage_cover *covers;
    struct host_covers guards;
    char **aheads; /* folders to be made once the plan is good */
    struct cage_program *programs;
    struct cage_reach *reaches, *closed_reaches;
    struct cage_support *supports;
    char **texts;
    char **env, **command;
    char **kept;
    char *config_root;
    struct host_covers closed; /* by the operator */
    bool runs_helper;          /* its command is a program of ours */
};

static void policy_free(struct policy *policy)
{
    free(policy->paths);
    free(policy->covers);
    host_covers_free(&policy->guards);
    kg_list_free(policy->aheads);
    free(policy->programs);
    free(policy->reaches);
    free(policy->closed_reaches);
    free(policy->supports);
    kg_list_free(policy->texts);
    kg_list_free(policy->env);
    kg_list_free(policy->command);
    kg_list_free(policy->kept);
    host_covers_free(&policy->closed);
    free(policy->config_root);
}

char *host_real_path(const char *path)
{
    char *real = cage_real_path(path);
    return real ? real : kg_strdup(path);
}

/* -- paths ------------------------------------------------------------------------------------- */

static const char config_prefix[] = "config:/";
static const char project_prefix[] = "project:/";

static bool is_of_project(const char *path)
{
    return strncmp(path, project_prefix, sizeof(project_prefix) - 1) == 0;
}

static char *below(const char *root, const char *rest)
{
    return rest[0] == '\0' ? kg_strdup(root) : kg_format("%s/%s", root, rest);
}

/* A declared path as one of the host; owned. NULL with err if it has no place now. */
static char *policy_place(const struct policy *policy, const char *path, bool *ret_own,
                          struct kg_err *err)
{
    const struct host_cage_parts *parts = policy->parts;
    *ret_own = false;
    if (strncmp(path, config_prefix, sizeof(config_prefix) - 1) == 0) {
        *ret_own = true;
        return below(policy->config_root, path + sizeof(config_prefix) - 1);
    }
    if (!is_of_project(path))
        return kg_strdup(path);
    if (parts->project_root != NULL)
        return below(parts->project_root, path + sizeof(project_prefix) - 1);
    kg_fail(err, KG_E_REFUSED,
            "plugin %s: %s: it works in the folder of a project, and there is none",
            parts->manifest->name, path);
    kg_hint(err, "a plugin with %s is started by the project that declares it", project_prefix);
    return NULL;
}

static void close_host(struct policy *policy, const struct capability *line)
{
    struct cage_policy *cage = &policy->cage;
    policy->closed_reaches = kg_realloc(policy->closed_reaches,
                                        (cage->closed_count + 1) * sizeof(*policy->closed_reaches));
    policy->closed_reaches[cage->closed_count++] = (struct cage_reach){line->host, line->port};
}

/* What the operator closed. What has no place now is nowhere in the cage either. */
static void policy_add_closed(struct policy *policy)
{
    const struct grants *grants = policy->parts->grants;
    for (size_t i = 0; grants != NULL && i < grants->closed.count; i++) {
        const struct capability *line = &grants->closed.items[i];
        bool own;
        if (line->kind == CAPABILITY_NET_HOST)
            close_host(policy, line);
        if (line->kind != CAPABILITY_READ && line->kind != CAPABILITY_WRITE)
            continue;
        char *path = policy_place(policy, line->path, &own, NULL);
        if (path != NULL)
            host_covers_add(&policy->closed,
                            &(struct host_cover){.path = path,
                                                 .write = line->kind == CAPABILITY_READ,
                                                 .ahead = true,
                                                 .empty = line->kind == CAPABILITY_READ,
                                                 .note = "closed by the operator"});
    }
}

/* Whatever way it was written, and whoever asks for it. */
static bool is_closed(const struct policy *policy, const char *path, bool write)
{
    for (size_t i = 0; i < policy->closed.count; i++)
        if ((write || policy->closed.items[i].write) &&
            kg_path_within(path, policy->closed.items[i].path))
            return true;
    return false;
}

/* note is taken over; NULL: the path is as it was declared. */
static int policy_add_path(struct policy *policy, const char *declared, bool write, char *note,
                           struct kg_err *err)
{
    struct cage_policy *cage = &policy->cage;
    struct cage_path path = {.write = write, .note = note};
    if (note != NULL)
        kg_list_add(&policy->texts, note);
    char *text = policy_place(policy, declared, &path.own, err);
    if (text == NULL)
        return -EINVAL;
    kg_list_add(&policy->texts, text);
    if (is_closed(policy, text, write))
        return 0;
    path.path = text;
    policy->paths = kg_realloc(policy->paths, (cage->path_count + 1) * sizeof(*policy->paths));
    policy->paths[cage->path_count++] = path;
    return 0;
}

static int policy_add_program(struct policy *policy, const struct capability *capability,
                              struct kg_err *err)
{
    struct cage_policy *cage = &policy->cage;
    bool own;
    char *folder = policy_place(policy, capability->path, &own, err);
    if (folder == NULL)
        return -EINVAL;
    kg_list_add(&policy->texts, folder);
    policy->programs =
        kg_realloc(policy->programs, (cage->program_count + 1) * sizeof(*policy->programs));
    policy->programs[cage->program_count++] =
        (struct cage_program){.program = capability->program, .folder = folder};
    return own ? policy_add_path(policy, capability->path, false, NULL, err) : 0;
}

static int policy_add_reach(struct policy *policy, const char *host, uint16_t port)
{
    struct cage_policy *cage = &policy->cage;
    policy->reaches =
        kg_realloc(policy->reaches, (cage->reach_count + 1) * sizeof(*policy->reaches));
    policy->reaches[cage->reach_count++] = (struct cage_reach){.host = host, .port = port};
    return 0;
}

/* How it was written, if that is not its path, and whether the operator wrote it. */
static char *policy_note_of(const struct capability *capability, bool granted)
{
    bool is_plain = capability->path[0] == '/';
    if (!granted)
        return is_plain ? NULL : kg_strdup(capability->path);
    return is_plain ? kg_strdup("granted by the operator")
                    : kg_format("%s, granted by the operator", capability->path);
}

static int policy_add_capability(struct policy *policy, const struct capability *capability,
                                 bool granted, struct kg_err *err)
{
    switch (capability->kind) {
    case CAPABILITY_READ:
    case CAPABILITY_WRITE:
        return policy_add_path(policy, capability->path, capability->kind == CAPABILITY_WRITE,
                               policy_note_of(capability, granted), err);
    case CAPABILITY_EXEC:
        return policy_add_program(policy, capability, err);
    case CAPABILITY_NET_HOST:
        return policy_add_reach(policy, capability->host, capability->port);
    case CAPABILITY_NET_ANY:
        return policy_add_reach(policy, "*", 0);
    default:
        return 0; /* nothing that the cage could give */
    }
}

static struct kg_str policy_text_of(const struct kg_doc *settings, const char *field)
{
    const struct kg_node *value = settings ? kg_node_get(settings->root, field) : NULL;
    return value != NULL && value->type == KG_STRING ? value->text : KG_STR_NULL;
}

/*
 * A plugin may read and write where a setting of the type `path` points, if that is below config:/
 * or project:/. The grammar of capabilities says what such a path may look like.
 */
static int add_knobs(struct policy *policy, struct kg_err *err)
{
    const struct manifest *manifest = policy->parts->manifest;
    kg_auto(kg_doc_cleanup) struct kg_doc *settings = NULL;
    if (policy->parts->settings.length > 0)
        settings = kg_json_read(policy->parts->settings, NULL);
    for (size_t i = 0; i < manifest->knob_count; i++) {
        const struct manifest_knob *knob = &manifest->knobs[i];
        struct kg_str value = policy_text_of(settings, knob->field);
        if (!manifest_knob_is_path(knob) || value.length == 0)
            continue;
        if (!manifest_knob_allows(knob, value))
            return kg_fail(err, KG_E_REFUSED,
                           "plugin %s: its setting %s points outside of its prefixes",
                           manifest->name, knob->name);
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        kg_auto(capability_free) struct capability capability = {0};
        kg_buf_text(&text, "write:fs:");
        kg_buf_str(&text, value);
        if (capability_parse(kg_buf_view(&text), &capability, NULL) < 0 ||
            capability.path[0] == '/')
            continue;
        char *note = kg_format("where its setting %s points, now %s", knob->name, capability.path);
        int result = policy_add_path(policy, capability.path, true, note, err);
        if (result < 0)
            return kg_wrap(err, result, "its setting %s", knob->name);
    }
    return 0;
}

bool policy_is_of_project(const struct manifest *manifest, const struct capability_set *set,
                          struct kg_str settings)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    for (size_t i = 0; i < set->count; i++)
        if (is_of_project(set->items[i].path))
            return true;
    for (size_t i = 0; i < manifest->knob_count && settings.length > 0; i++) {
        const struct manifest_knob *knob = &manifest->knobs[i];
        if (!manifest_knob_is_path(knob))
            continue;
        if (doc == NULL)
            doc = kg_json_read(settings, NULL);
        if (kg_str_starts(policy_text_of(doc, knob->field), project_prefix))
            return true;
    }
    return false;
}

bool policy_paths_differ(const struct manifest *manifest, struct kg_str old_settings,
                         struct kg_str new_settings)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *old = kg_json_read(old_settings, NULL);
    kg_auto(kg_doc_cleanup) struct kg_doc *new = kg_json_read(new_settings, NULL);
    for (size_t i = 0; i < manifest->knob_count; i++) {
        const struct manifest_knob *knob = &manifest->knobs[i];
        if (manifest_knob_is_path(knob) &&
            !kg_str_equal(policy_text_of(old, knob->field), policy_text_of(new, knob->field)))
            return true;
    }
    return false;
}

/* -- what is closed to it --------------------------------------------------------------------- */

static int policy_refuse(const struct policy *policy, const char *path, const char *why,
                         struct kg_err *err)
{
    return kg_fail(err, KG_E_REFUSED, "plugin %s: write %s: %s", policy->parts->manifest->name,
                   path, why);
}

/* The nearest path above decides. */
static bool may_write(const struct policy *policy, const char *path)
{
    const struct cage_path *nearest = NULL;
    for (size_t i = 0; i < policy->cage.path_count; i++) {
        const struct cage_path *at = &policy->paths[i];
        if (kg_path_within(path, at->path) &&
            (nearest == NULL || strlen(at->path) > strlen(nearest->path) ||
             (at->write && strcmp(at->path, nearest->path) == 0)))
            nearest = at;
    }
    return nearest != NULL && nearest->write;
}

static int policy_check_closed(const struct policy *policy, const struct host_cover *what,
                               struct kg_err *err)
{
    for (size_t i = 0; i < policy->cage.path_count && what->closed != NULL; i++) {
        const struct cage_path *path = &policy->paths[i];
        if (path->write && !path->own && kg_path_within(path->path, what->path))
            return policy_refuse(policy, path->path, what->closed, err);
    }
    return 0;
}

/* So that nobody else can make it once the plugin runs. */
int host_make_ahead(const char *path, struct kg_err *err)
{
    struct stat above;
    kg_auto(kg_free) char *parent = kg_path_folder(path);
    kg_auto(kg_close) int folder = open(parent, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &above) < 0 || mkdirat(folder, kg_path_name(path), 0755) < 0)
        return errno == EEXIST || errno == EACCES || errno == EPERM || errno == EROFS ||
                       errno == ENOENT
                   ? 0
                   : kg_fail_errno(err, errno, "make folder %s", path);
    kg_auto(kg_close) int made =
        openat(folder, kg_path_name(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made >= 0 && geteuid() == 0 && fchown(made, above.st_uid, above.st_gid) < 0)
        return kg_fail_errno(err, errno, "give folder %s to its owner", path);
    kg_log(KG_INFO, "made the folder %s, empty, so that it can be kept from plugins", path);
    return 0;
}

static int cover(struct policy *policy, const struct host_cover *what, struct kg_err *err)
{
    struct cage_policy *cage = &policy->cage;
    int result = policy_check_closed(policy, what, err);
    if (result < 0)
        return result;
    if (what->ahead && policy->parts->make_folders && access(what->path, F_OK) < 0 &&
        may_write(policy, what->path))
        kg_list_add(&policy->aheads, kg_strdup(what->path));
    policy->covers = kg_realloc(policy->covers, (cage->cover_count + 1) * sizeof(*policy->covers));
    policy->covers[cage->cover_count++] = (struct cage_cover){.path = what->path,
                                                              .write = what->write && !what->empty,
                                                              .empty = what->empty,
                                                              .note = what->note};
    return 0;
}

/*
 * What says which plugins a project uses is never theirs to write: its folder lies read-only over
 * what they may. A file elsewhere cannot be covered, since editors replace it.
 */
static int protect_project(struct policy *policy, struct kg_err *err)
{
    const struct host_cage_parts *parts = policy->parts;
    if (parts->project_root == NULL)
        return 0;
    char *folder = below(parts->project_root, PROJECT_DIR);
    kg_list_add(&policy->texts, folder);
    for (size_t i = 0; i < policy->cage.path_count && parts->project_file != NULL; i++) {
        const struct cage_path *path = &policy->paths[i];
        if (path->write && !path->own && kg_path_within(parts->project_file, path->path) &&
            !kg_path_within(parts->project_file, folder)) {
            int result = policy_refuse(policy, path->path, HOST_PROJECTS_FILE, err);
            kg_hint(err, "a project's file in %s can be kept from its plugins", PROJECT_DIR);
            return result;
        }
    }
    return cover(
        policy,
        &(struct host_cover){
            .path = folder, .ahead = true, .closed = HOST_PROJECTS_FILE, .note = HOST_PROJECTS_OWN},
        err);
}

/* What was looked for before counts, if it was for these. */
static int find_guards(struct policy *policy, char *const *grants, struct kg_err *err)
{
    int result = 0;
    if (policy->parts->unguarded)
        return 0;
    const struct host_covers *found =
        host_search_covers(policy->parts->search, grants, &result, err);
    if (found == NULL)
        return guards_find(grants, &policy->guards, err);
    for (size_t i = 0; i < found->count && result == 0; i++) {
        struct host_cover cover = found->items[i];
        cover.path = kg_strdup(cover.path);
        host_covers_add(&policy->guards, &cover);
    }
    return result;
}

/* What kaged keeps for the plugin itself is nobody's else to run: it is left alone. */
static int policy_guard(struct policy *policy, struct kg_err *err)
{
    char **grants = kg_list_new(0);
    int result = 0;
    for (size_t i = 0; i < policy->cage.path_count && result == 0; i++) {
        const struct cage_path *path = &policy->paths[i];
        if (!path->write || path->own)
            continue;
        const struct cage_guard *named = cage_guard_of(path->path);
        if (named != NULL && named->never)
            result = policy_refuse(policy, path->path, HOST_PROJECTS_FILE, err);
        kg_list_add(&grants, kg_strdup(path->path));
    }
    if (result == 0 && (result = find_guards(policy, grants, err)) < 0)
        kg_wrap(err, result, "plugin %s", policy->parts->manifest->name);
    kg_list_free(grants);
    for (size_t i = 0; i < policy->guards.count && result == 0; i++)
        if (!policy->guards.items[i].link)
            result = cover(policy, &policy->guards.items[i], err);
    return result;
}

/* What the operator closed comes first: there is nothing below it to be kept. */
static int policy_protect(struct policy *policy, struct kg_err *err)
{
    const struct host_covers *covers = policy->parts->covers;
    int result = 0;
    for (size_t i = 0; i < policy->closed.count && result == 0; i++)
        result = cover(policy, &policy->closed.items[i], err);
    if (result == 0)
        result = protect_project(policy, err);
    for (size_t i = 0; covers != NULL && i < covers->count && result == 0; i++)
        result = cover(policy, &covers->items[i], err);
    return result < 0 ? result : policy_guard(policy, err);
}

/* -- folders that kaged keeps for the plugin --------------------------------------------------- */

/* Opens the folder `name` in `folder`, which is made if it is not there; a link is not followed. */
static int policy_enter(int folder, const char *name)
{
    if (mkdirat(folder, name, 0700) < 0 && errno != EEXIST)
        return -1;
    return openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Part by part, so that no link on the way, planted by the plugin, leads anywhere else. */
static int make_below(const char *root, const char *path, struct kg_err *err)
{
    kg_auto(kg_free) char *rest = kg_strdup(path + strlen(root));
    kg_auto(kg_close) int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *next = NULL;
    for (char *part = strtok_r(rest, "/", &next); part != NULL && folder >= 0;
         part = strtok_r(NULL, "/", &next)) {
        struct stat there;
        bool is_file =
            fstatat(folder, part, &there, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(there.st_mode);
        if (is_file && next[strspn(next, "/")] == '\0')
            return 0; /* the setting or the manifest names a file */
        int inner = policy_enter(folder, part);
        close(folder);
        folder = inner;
    }
    return folder < 0 ? kg_fail_errno(err, errno, "make folder %s", path) : 0;
}

static int policy_make_folders(const struct policy *policy, struct kg_err *err)
{
    kg_auto(kg_free) char *data_dir = host_real_path(policy->parts->paths->plugin_data_dir);
    for (size_t i = 0; i < policy->cage.path_count; i++) {
        const struct cage_path *path = &policy->paths[i];
        /* Its whole config:/ is there for whoever names it, as a program's folder, too. */
        bool makes = path->write || strcmp(path->path, policy->config_root) == 0;
        int result = path->own && makes ? make_below(data_dir, path->path, err) : 0;
        if (result < 0)
            return kg_wrap(err, result, "plugin %s", policy->parts->manifest->name);
    }
    return 0;
}

/* -- environment ------------------------------------------------------------------------------- */

static bool policy_is_reserved(const char *entry)
{
    static const char *const ours[] = {
        "KAGED_PLUGIN_NAME=", "KAGED_PLUGIN_DIR=",   "KAGED_API_VERSION=",
        "KAGED_CONFIG_ROOT=", "KAGED_PROJECT_ROOT=", "KAGED_PROJECT_ID="};
    for (size_t i = 0; i < KG_COUNT(ours); i++)
        if (kg_str_starts(kg_str(entry), ours[i]))
            return true;
    return false;
}

static bool uses_config_root(const struct policy *policy)
{
    for (size_t i = 0; i < policy->cage.path_count; i++)
        if (policy->paths[i].own)
            return true;
    return false;
}

/* The documented environment; the manifest's own entries come later and win, where they may; those
 * of the operator come last. */
static void policy_make_environment(struct policy *policy, char *const *declared)
{
    const struct host_cage_parts *parts = policy->parts;
    char **env = kg_list_new(0);
    kg_list_add(&env, kg_format("KAGED_LOG_LEVEL=%s", kg_level_names[kg_log_level()]));
    kg_list_add(&env, kg_format("HOME=%s", parts->dir));
    kg_list_add(&env, kg_strdup("PATH=/usr/bin:/usr/local/bin"));
    kg_list_add(&env, kg_strdup("LANG=C.UTF-8"));
    kg_list_add(&env, kg_strdup("TMPDIR=/tmp"));
    for (char *const *entry = declared; *entry != NULL; entry++)
        if (!policy_is_reserved(*entry))
            kg_list_add(&env, kg_strdup(*entry));
    for (char **entry = parts->grants ? parts->grants->env : NULL; entry && *entry; entry++)
        kg_list_add(&env, kg_strdup(*entry));
    kg_list_add(&env, kg_format("KAGED_PLUGIN_NAME=%s", parts->manifest->name));
    kg_list_add(&env, kg_format("KAGED_PLUGIN_DIR=%s", parts->dir));
    kg_list_add(&env, kg_format("KAGED_API_VERSION=%d", DIALECT_API_VERSION));
    if (uses_config_root(policy))
        kg_list_add(&env, kg_format("KAGED_CONFIG_ROOT=%s", policy->config_root));
    if (parts->project_root != NULL)
        kg_list_add(&env, kg_format("KAGED_PROJECT_ROOT=%s", parts->project_root));
    if (parts->project_id != NULL)
        kg_list_add(&env, kg_format("KAGED_PROJECT_ID=%s", parts->project_id));
    policy->env = env;
}

/* A setting may hold what would be another header. */
static int policy_add_headers(struct policy *policy, char *const *headers, struct kg_err *err)
{
    for (size_t i = 0; headers[i] != NULL; i++) {
        for (const char *at = headers[i]; *at != '\0'; at++)
            if ((unsigned char)*at < 0x20 || *at == 0x7F)
                return kg_fail(err, KG_E_INVALID_CONFIG,
                               "the header %.*s contains a control character",
                               (int)strcspn(headers[i], ":"), headers[i]);
        kg_list_add(&policy->env, kg_format("KAGED_REMOTE_HEADER_%zu=%s", i + 1, headers[i]));
    }
    return 0;
}

/* A server somewhere else is spoken to by a program of ours, which its cage gets. */
static int use_bridge(struct policy *policy, const struct host_filling *by, struct kg_err *err)
{
    const char *const *declared = (const char *const *)policy->parts->manifest->headers;
    kg_auto(kg_free) char *program = helper_program("kaged-remote", err);
    char **headers = NULL;
    if (program == NULL || host_fill_in(declared, HOST_ENVIRONMENT, by, &headers, err) < 0)
        return -EINVAL;
    int result = policy_add_headers(policy, headers, err);
    kg_list_free(headers);
    if (result < 0)
        return result;
    kg_replace(&policy->command[0], program);
    policy->runs_helper = true;
    for (const char *const *entry = helper_environment; *entry != NULL; entry++)
        kg_list_add(&policy->env, kg_strdup(*entry));
    return policy_add_path(policy, program, false, NULL, err);
}

/* Of a server that is not told its configuration otherwise, it is in its words. */
static int fill_words(struct policy *policy, struct kg_err *err)
{
    const struct host_cage_parts *parts = policy->parts;
    const struct manifest *manifest = parts->manifest;
    struct host_filling by = {parts->settings, parts->dir, policy->config_root, NULL};
    char **declared = NULL;
    int result =
        host_fill_in((const char *const *)manifest->env, HOST_ENVIRONMENT, &by, &declared, err);
    if (result < 0)
        return result;
    policy_make_environment(policy, declared);
    kg_list_free(declared);
    by.env = policy->env;
    result = host_fill_in((const char *const *)manifest->command, HOST_COMMAND, &by,
                          &policy->command, err);
    return result == 0 && manifest->url != NULL ? use_bridge(policy, &by, err) : result;
}

static int policy_make_words(struct policy *policy, struct kg_err *err)
{
    const struct manifest *manifest = policy->parts->manifest;
    if (host_tier_of(manifest)->words_have_settings)
        return kg_wrap(err, fill_words(policy, err), "plugin %s", manifest->name);
    policy_make_environment(policy, manifest->env);
    policy->command = kg_list_copy((const char *const *)manifest->command);
    return 0;
}

/* -- the whole --------------------------------------------------------------------------------- */

/* What no plugin may see, whatever it declares. */
static void policy_add_kept(char ***kept, const struct config_paths *paths)
{
    kg_auto(kg_free) char *config_dir = kg_path_folder(paths->config_file);
    const char *const folders[] = {config_dir, paths->plugins_dir, paths->plugin_data_dir,
                                   paths->state_dir, paths->run_dir};
    for (size_t i = 0; i < KG_COUNT(folders); i++)
        kg_list_add(kept, host_real_path(folders[i]));
}

char **policy_kept(const struct config_paths *paths, const char *plugins_dir)
{
    char **kept = kg_list_new(0);
    policy_add_kept(&kept, paths);
    kg_list_add(&kept, host_real_path(plugins_dir));
    return kept;
}

static char **kept_folders(const struct host_cage_parts *parts)
{
    char **kept = policy_kept(parts->paths, parts->plugins_dir);
    if (parts->also_kept != NULL)
        policy_add_kept(&kept, parts->also_kept);
    return kept;
}

/* The operator's, and where the system's programs are, for one that may run them. */
static struct cage_support *supports_of(const struct config_names *names, const char *runs_all,
                                        size_t *ret_count)
{
    static const char *const all[] = {
        "/usr/bin",   "/usr/local/bin", "/usr/lib",       "/usr/libexec",
        "/usr/share", "/usr/include",   "/usr/local/lib", NULL};
    struct cage_support *supports = kg_alloc_array(names->count + 1, sizeof(*supports));
    *ret_count = names->count + (runs_all != NULL);
    supports[names->count] = (struct cage_support){runs_all, all};
    for (size_t i = 0; i < names->count; i++)
        supports[i] = (struct cage_support){
            .program = names->items[i].name,
            .folders = (const char *const *)names->items[i].list,
        };
    return supports;
}

static int policy_add_declared(struct policy *policy, struct kg_err *err)
{
    const struct grants *grants = policy->parts->grants;
    const struct capability_set *set =
        grants ? &grants->set : &policy->parts->manifest->capability_set;
    int result = 0;
    policy_add_closed(policy);
    for (size_t i = 0; i < set->count && result == 0; i++)
        result =
            policy_add_capability(policy, &set->items[i], grants && i >= grants->declared, err);
    return result < 0 ? result : add_knobs(policy, err);
}

/* Where config:/ is; owned. */
static char *config_root_of(const struct host_cage_parts *parts)
{
    kg_auto(kg_free) char *data_dir = host_real_path(parts->paths->plugin_data_dir);
    return kg_format("%s/%s", data_dir, parts->home ? parts->home : parts->manifest->name);
}

static int policy_fill(struct policy *policy, struct kg_err *err)
{
    const struct host_cage_parts *parts = policy->parts;
    policy->config_root = config_root_of(parts);
    policy->kept = kept_folders(parts);
    policy->texts = kg_list_new(0);
    policy->aheads = kg_list_new(0);
    policy->supports =
        supports_of(&parts->config->sandbox_support, parts->runs_all, &policy->cage.support_count);
    int result = policy_add_declared(policy, err);
    if (result == 0)
        result = policy_protect(policy, err);
    if (result < 0)
        return result;
    return policy_make_words(policy, err);
}

char **policy_writable(const struct host_cage_parts *parts)
{
    kg_auto(policy_free) struct policy policy = {.parts = parts};
    char **grants = kg_list_new(0);
    policy.config_root = config_root_of(parts);
    policy.texts = kg_list_new(0);
    if (policy_add_declared(&policy, NULL) < 0)
        return grants;
    for (size_t i = 0; i < policy.cage.path_count; i++)
        if (policy.paths[i].write && !policy.paths[i].own)
            kg_list_add(&grants, kg_strdup(policy.paths[i].path));
    return grants;
}

/* What lies nowhere now, as a path of a project without one, holds nothing. */
void policy_held(const struct host_cage_parts *parts, struct host_covers *covers)
{
    kg_auto(policy_free) struct policy policy = {.parts = parts};
    policy.config_root = config_root_of(parts);
    policy.texts = kg_list_new(0);
    if (policy_add_declared(&policy, NULL) < 0)
        return;
    for (size_t i = 0; i < policy.cage.path_count; i++) {
        kg_auto(kg_free) char *above = kg_path_folder(policy.paths[i].path);
        if (!policy.paths[i].write && !policy.paths[i].own && may_write(&policy, above))
            host_covers_add(covers, &(struct host_cover){.path = kg_strdup(policy.paths[i].path),
                                                         .write = true});
    }
    for (size_t i = 0; i < policy.cage.program_count; i++) {
        const char *program = policy.programs[i].program;
        if (program[0] == '/' && may_write(&policy, program))
            host_covers_add(covers,
                            &(struct host_cover){.path = kg_strdup(program), .write = true});
    }
}

/* What is said for the plugin, or else for all. */
struct instance_limits policy_limits(const struct config *config, const char *plugin)
{
#define FOR_PLUGIN(key)                                                                            \
    config_int_for(&config->sandbox_plugins_##key, plugin, config->sandbox_##key)
    return (struct instance_limits){
        .memory_bytes = (uint64_t)FOR_PLUGIN(memory_mb) << 20,
        .cpu_shares = (unsigned)FOR_PLUGIN(cpu_shares),
        .processes_max = (unsigned)FOR_PLUGIN(processes_max),
        .tmp_bytes = (size_t)FOR_PLUGIN(tmp_bytes),
    };
#undef FOR_PLUGIN
}

/* Nothing is made for a plan that is refused; what was made counts in a new one. */
static struct cage_plan *plan_policy(const struct policy *policy, struct kg_err *err)
{
    struct cage_plan *plan = cage_plan_new(&policy->cage, policy->parts->facts, err);
    if (plan == NULL || policy->aheads[0] == NULL)
        return plan;
    cage_plan_free(plan);
    for (char **path = policy->aheads; *path != NULL; path++)
        if (host_make_ahead(*path, err) < 0)
            return NULL;
    return cage_plan_new(&policy->cage, policy->parts->facts, err);
}

bool policy_is_explained(const struct config *config, const char *plugin)
{
    return config->sandbox_explain || kg_list_has(config->sandbox_explain_plugins, kg_str(plugin));
}

struct cage_plan *host_cage_plan(const struct host_cage_parts *parts, struct kg_err *err)
{
    kg_auto(policy_free) struct policy policy = {.parts = parts};
    const struct instance_limits limits = policy_limits(parts->config, parts->manifest->name);
    if (policy_fill(&policy, err) < 0 ||
        (parts->make_folders && policy_make_folders(&policy, err) < 0))
        return NULL;
    policy.cage.name = parts->manifest->name;
    policy.cage.install_dir = parts->dir;
    policy.cage.install_source = parts->source;
    policy.cage.command = (const char *const *)policy.command;
    policy.cage.env = (const char *const *)policy.env;
    policy.cage.paths = policy.paths;
    policy.cage.covers = policy.covers;
    policy.cage.programs = policy.programs;
    policy.cage.trees = parts->trees;
    policy.cage.tree_count = parts->tree_count;
    policy.cage.reaches = policy.reaches;
    policy.cage.closed = policy.closed_reaches;
    policy.cage.kept = (const char *const *)policy.kept;
    policy.cage.supports = policy.supports;
    policy.cage.root_writable = (const char *const *)parts->config->sandbox_root_writable;
    policy.cage.processes_max = limits.processes_max;
    policy.cage.tmp_bytes = limits.tmp_bytes;
    policy.cage.memory_bytes =
        policy.runs_helper ? helper_memory(limits.memory_bytes) : limits.memory_bytes;
    policy.cage.cpu_shares = limits.cpu_shares;
    policy.cage.watched =
        parts->observed || policy_is_explained(parts->config, parts->manifest->name);
    policy.cage.answers_names = parts->observed;
    policy.cage.asks_hosts = parts->asks;
    struct cage_plan *plan = plan_policy(&policy, err);
    if (plan != NULL && parts->ret_guards != NULL) {
        *parts->ret_guards = policy.guards;
        policy.guards = (struct host_covers){0};
    }
    return plan;
}
