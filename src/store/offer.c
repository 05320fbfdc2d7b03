/*
 * An offer is all that the operator is asked to say yes to. Differences are to what was approved,
 * never to what merely lies in the store: a manifest that somebody edited there grants nothing.
 */
#include "store/internal.h"

#include "base/doc.h"
#include "base/semver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *const store_change_names[] = {
    [STORE_INSTALL] = "install",     [STORE_UPGRADE] = "upgrade", [STORE_DOWNGRADE] = "downgrade",
    [STORE_REINSTALL] = "reinstall", [STORE_APPROVE] = "approve", [STORE_DEV] = "dev",
};
const char *const store_difference_names[] = {
    [STORE_SAME] = "same",
    [STORE_NEW] = "new",
    [STORE_REMOVED] = "removed",
};

/* What is there already, and what of it was approved. */
struct base {
    bool exists;                /* a version of it, or a folder put there by hand */
    struct store_record record; /* owned, like the rest */
    struct manifest *manifest;  /* as it was approved; NULL: not known */
    struct store_tree tree;     /* the files then; empty if not known */
    char *version;              /* NULL: none */
};

static void base_free(struct base *base)
{
    store_record_free(&base->record);
    manifest_free(base->manifest);
    store_tree_free(&base->tree);
    free(base->version);
}

void store_offer_free(struct store_offer *offer)
{
    if (offer == NULL)
        return;
    for (size_t i = 0; i < offer->capability_count; i++) {
        free(offer->capabilities[i].text);
        free(offer->capabilities[i].words);
    }
    for (size_t i = 0; i < offer->change_count; i++) {
        kg_list_free(offer->changes[i].before);
        kg_list_free(offer->changes[i].after);
    }
    for (size_t i = 0; i < offer->own_count; i++) {
        free(offer->own[i].text);
        free(offer->own[i].words);
    }
    free(offer->own);
    store_own_free(&offer->added);
    free(offer->capabilities);
    free(offer->changes);
    free(offer->source);
    free(offer->installed_version);
    free(offer->from);
    free(offer->installed_from);
    kg_list_free(offer->warnings);
    store_tree_diff_free(&offer->diff);
    store_tree_free(&offer->tree);
    manifest_free(offer->manifest);
    store_quarantine_free(offer->quarantine);
    free(offer);
}

bool store_offer_widens(const struct store_offer *offer)
{
    return offer->capabilities_new > 0;
}

/* -- the manifest ------------------------------------------------------------------------------ */

static void keep_warnings(struct store_offer *offer, const struct kg_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        kg_list_add(&offer->warnings,
                    kg_format("%u:%u: %s", problems->items[i].line, problems->items[i].column,
                              problems->items[i].message));
}

/* NULL: it could not be read, and the problems say why. */
static int take_manifest(struct store_offer *offer, struct manifest *manifest,
                         const struct kg_problems *problems, struct kg_err *err)
{
    struct kg_semver version;
    offer->manifest = manifest;
    if (manifest == NULL)
        return manifest_problems_fail(problems, MANIFEST_FILE, err);
    keep_warnings(offer, problems);
    if (!kg_str_is(manifest_package_name(kg_str(manifest->package)), manifest->name))
        return kg_fail(err, KG_E_INVALID_MANIFEST,
                       "plugin %s: its package \"%s\" does not end in its name", manifest->name,
                       manifest->package);
    if (!kg_semver_parse(kg_str(manifest->version), &version))
        return kg_fail(err, KG_E_INVALID_MANIFEST,
                       "plugin %s: no version can be compared with \"%s\"", manifest->name,
                       manifest->version);
    return 0;
}

static int offer_read_manifest(struct store_offer *offer, const char *dir, struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest = manifest_load(dir, &problems);
    return take_manifest(offer, manifest, &problems, err);
}

/* -- what is there ----------------------------------------------------------------------------- */

/* The listing that was kept, or else the version itself if it is what was approved. */
static void find_approved(struct store *store, const char *name, struct base *base)
{
    const char *hash = base->record.hash;
    struct store_limits limits = store_limits_now(store);
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    if (hash == NULL)
        return;
    if (store_approved_tree(store, name, hash, &base->tree))
        base->manifest = store_approved_manifest(store, name, &base->tree);
    if (base->manifest != NULL)
        return;
    kg_auto(kg_free) char *path = store_version_path(store, name, hash);
    kg_auto(kg_close) int fd = path ? store_open_dir(AT_FDCWD, path) : -ENOENT;
    kg_auto(store_tree_free) struct store_tree tree = {0};
    if (fd < 0 || store_tree_read(fd, &limits, &tree, NULL) < 0 || strcmp(tree.hash, hash) != 0)
        return;
    store_tree_free(&base->tree);
    base->tree = tree;
    tree = (struct store_tree){0};
    base->manifest = manifest_load(path, &problems);
}

static char *offer_version_of(struct store *store, const char *name, const struct base *base)
{
    if (base->manifest != NULL)
        return kg_strdup(base->manifest->version);
    if (base->record.installed != NULL)
        return kg_strdup(base->record.installed);
    kg_auto(kg_free) char *path = kg_format("%s/%s", store->dir, name);
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest = manifest_load(path, &problems);
    char *version = manifest ? kg_strdup(manifest->version) : NULL;
    manifest_free(manifest);
    return version;
}

static int check_conflicts(const struct store_offer *offer, const struct base *base,
                           struct kg_err *err)
{
    const struct store_record *record = &base->record;
    if (record->package == NULL || (record->installed == NULL && record->hash == NULL) ||
        strcmp(record->package, offer->manifest->package) == 0)
        return 0;
    kg_fail(err, KG_E_CONFLICT,
            "plugin %s is installed from another package: %s, and this one is %s",
            offer->manifest->name, record->package, offer->manifest->package);
    return kg_hint(err, "kaged plugin uninstall %s, then install this one", offer->manifest->name);
}

static int look_at_base(struct store *store, const struct store_offer *offer, struct base *ret_base,
                        struct kg_err *err)
{
    const char *name = offer->manifest->name;
    kg_auto(base_free) struct base base = {0};
    kg_auto(kg_free) char *path = kg_format("%s/%s", store->dir, name);
    struct stat there;
    base.exists = lstat(path, &there) == 0;
    if (base.exists && !S_ISDIR(there.st_mode))
        return kg_fail(err, KG_E_CONFLICT, "plugin %s: %s is not a folder", name, path);
    int result = store_record_read(store, name, &base.record, err);
    base.exists = base.exists || store_version_is_there(store, name, base.record.hash);
    if (result == 0)
        result = check_conflicts(offer, &base, err);
    if (result < 0)
        return result;
    if (base.exists) {
        find_approved(store, name, &base);
        base.version = offer_version_of(store, name, &base);
    }
    *ret_base = base;
    base = (struct base){0};
    return 0;
}

static enum store_change_kind offer_kind_of(const struct store_offer *offer,
                                            const struct base *base)
{
    struct kg_semver offered, installed;
    if (!base->exists)
        return STORE_INSTALL;
    if (base->version == NULL || !kg_semver_parse(kg_str(base->version), &installed))
        return STORE_UPGRADE;
    kg_semver_parse(kg_str(offer->manifest->version), &offered);
    int order = kg_semver_compare(&offered, &installed);
    return order > 0 ? STORE_UPGRADE : order < 0 ? STORE_DOWNGRADE : STORE_REINSTALL;
}

/* -- differences of capabilities --------------------------------------------------------------- */

static void offer_add_capability(struct store_offer *offer, const struct capability *capability,
                                 enum store_difference difference)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, words = {0};
    struct store_capability *added = &offer->capabilities[offer->capability_count++];
    capability_print(capability, &text);
    capability_words(capability, &words);
    *added = (struct store_capability){
        .text = kg_str_dup(kg_buf_view(&text)),
        .words = kg_str_dup(kg_buf_view(&words)),
        .difference = difference,
    };
    if (!capability_is_dangerous(capability, &added->danger))
        added->danger = NULL;
    offer->capabilities_new += difference == STORE_NEW && capability->kind != CAPABILITY_NET_NONE;
}

/* net:[] gives nothing, so that any list covers it; all the same it comes and goes. */
static bool offer_has_capability(const struct capability_set *set,
                                 const struct capability *capability)
{
    bool stated = capability->kind != CAPABILITY_NET_NONE;
    for (size_t i = 0; !stated && i < set->count; i++)
        stated = set->items[i].kind == CAPABILITY_NET_NONE;
    return stated && capability_set_covers(set, capability);
}

/* "setting:NAME:PREFIX"; where it points now is where nobody has turned it. */
static void offer_add_reach(struct store_offer *offer, const struct manifest *manifest,
                            const struct manifest_reach *reach, enum store_difference difference)
{
    struct store_capability *added = &offer->capabilities[offer->capability_count++];
    const char *setting = reach->knob->name;
    struct kg_str points = manifest_knob_default(manifest, reach->knob);
    bool is_here = kg_str_starts(points, reach->prefix);
    *added = (struct store_capability){
        .text = kg_format("setting:%s:%s", setting, reach->prefix),
        .words = kg_format("may read and write where its setting %s points, below %s%s%.*s",
                           setting, reach->prefix, is_here ? ", now " : "",
                           KG_STR_ARG(is_here ? points : KG_STR(""))),
        .difference = difference,
    };
    if (!manifest_reach_is_dangerous(reach, &added->danger))
        added->danger = NULL;
    offer->capabilities_new += difference == STORE_NEW;
}

/* before: NULL if nothing was ever approved. What an approved one covers is not new. */
static void compare_reaches(struct store_offer *offer, const struct manifest *before,
                            const struct manifest_reaches *now, const struct manifest_reaches *old)
{
    for (size_t i = 0; i < now->count; i++)
        offer_add_reach(offer, offer->manifest, &now->items[i],
                        before == NULL || manifest_reach_is_covered(&now->items[i], before, old)
                            ? STORE_SAME
                            : STORE_NEW);
    for (size_t i = 0; i < old->count; i++)
        if (!manifest_reach_is_covered(&old->items[i], offer->manifest, now))
            offer_add_reach(offer, before, &old->items[i], STORE_REMOVED);
}

/* Path settings are capabilities, too. */
static void compare_capabilities(struct store_offer *offer, const struct manifest *before)
{
    static const struct capability_set nothing = {0};
    const struct capability_set *now = &offer->manifest->capability_set;
    const struct capability_set *old = before ? &before->capability_set : &nothing;
    kg_auto(manifest_reaches_free) struct manifest_reaches reaches =
        manifest_reaches_of(offer->manifest);
    kg_auto(manifest_reaches_free) struct manifest_reaches old_reaches = {0};
    if (before != NULL)
        old_reaches = manifest_reaches_of(before);
    size_t most = now->count + old->count + reaches.count + old_reaches.count;
    offer->capabilities = kg_alloc_array(most + 1, sizeof(*offer->capabilities));
    for (size_t i = 0; i < now->count; i++)
        offer_add_capability(
            offer, &now->items[i],
            before == NULL || offer_has_capability(old, &now->items[i]) ? STORE_SAME : STORE_NEW);
    for (size_t i = 0; i < old->count; i++)
        if (!offer_has_capability(now, &old->items[i]))
            offer_add_capability(offer, &old->items[i], STORE_REMOVED);
    compare_reaches(offer, before, &reaches, &old_reaches);
}

/* -- other differences ------------------------------------------------------------------------- */

static char **names_of_hooks(const struct manifest *manifest)
{
    char **list = kg_list_new(0);
    for (int i = 0; i < MANIFEST_HOOK_COUNT; i++)
        if (manifest->hooks[i])
            kg_list_add(&list, kg_strdup(manifest_hook_names[i]));
    return list;
}

static char **names_of_roles(const struct manifest *manifest)
{
    char **list = kg_list_new(0);
    if (manifest->roles & MANIFEST_OBSERVER)
        kg_list_add(&list, kg_strdup("observer"));
    if (manifest->roles & MANIFEST_COMPACTOR)
        kg_list_add(&list, kg_strdup("compactor"));
    return list;
}

/* Settings that open a path to it, with where they point if nobody turns them. */
static char **names_of_paths(const struct manifest *manifest)
{
    char **list = kg_list_new(0);
    for (size_t i = 0; i < manifest->knob_count; i++) {
        const struct manifest_knob *knob = &manifest->knobs[i];
        struct kg_str points = manifest_knob_default(manifest, knob);
        if (manifest_knob_is_path(knob))
            kg_list_add(&list, kg_format("%s: %.*s", knob->name,
                                         KG_STR_ARG(points.length ? points : KG_STR("nowhere"))));
    }
    return list;
}

/* With what a model reads of them, since that is what makes it call one. */
static char **names_of_tools(const struct manifest *manifest)
{
    char **list = kg_list_new(0);
    for (size_t i = 0; i < manifest->tool_count; i++) {
        const struct manifest_tool *tool = &manifest->tools[i];
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        struct kg_json_writer json = kg_json_writer(&text);
        kg_buf_printf(&text, "%s: %s", tool->name, tool->description ? tool->description : "");
        if (tool->parameters_node != NULL) {
            kg_buf_char(&text, ' ');
            kg_json_node(&json, tool->parameters_node);
        }
        kg_list_add(&list, kg_str_dup(kg_buf_view(&text)));
    }
    return list;
}

static char **offer_copy_of(char *const *list)
{
    return kg_list_copy((const char *const *)list);
}

static char **words_of_command(const struct manifest *manifest)
{
    return offer_copy_of(manifest->command);
}

static char **lines_of_env(const struct manifest *manifest)
{
    return offer_copy_of(manifest->env);
}

static char **names_of_methods(const struct manifest *manifest)
{
    return offer_copy_of(manifest->method_names);
}

static char **names_of_notifications(const struct manifest *manifest)
{
    return offer_copy_of(manifest->notifications);
}

static char **name_of_process(const struct manifest *manifest)
{
    char **list = kg_list_new(0);
    kg_list_add(&list, kg_strdup(manifest_process_names[manifest->process]));
    return list;
}

static const struct {
    const char *what;
    char **(*list)(const struct manifest *manifest);
    bool asks;  /* more of it lets the plugin see or do more */
    bool first; /* told where nothing was approved before; what else is there the rest tells */
} compared[] = {
    {"command", words_of_command, false, false},
    {"env", lines_of_env, false, false},
    {"roles", names_of_roles, true, true},
    {"hooks", names_of_hooks, true, true},
    {"paths", names_of_paths, true, false},
    {"tools", names_of_tools, false, false},
    {"methods", names_of_methods, false, false},
    {"notifications", names_of_notifications, false, true},
    {"process", name_of_process, false, false},
};

static bool offer_same_lists(char *const *a, char *const *b)
{
    size_t i = 0;
    while (a[i] != NULL && b[i] != NULL && strcmp(a[i], b[i]) == 0)
        i++;
    return a[i] == NULL && b[i] == NULL;
}

/* before: NULL if there was none. */
static void compare_manifests(struct store_offer *offer, const struct manifest *before)
{
    offer->changes = kg_alloc_array(KG_COUNT(compared), sizeof(*offer->changes));
    for (size_t i = 0; i < KG_COUNT(compared); i++) {
        if (before == NULL && !compared[i].first)
            continue;
        struct store_changed change = {
            .what = compared[i].what,
            .before = before ? compared[i].list(before) : kg_list_new(0),
            .after = compared[i].list(offer->manifest),
        };
        if (!offer_same_lists(change.before, change.after)) {
            offer->changes[offer->change_count++] = change;
            continue;
        }
        kg_list_free(change.before);
        kg_list_free(change.after);
    }
}

static bool offer_asks(const struct store_changed *change)
{
    bool matters = false, more = false;
    for (size_t i = 0; i < KG_COUNT(compared); i++)
        matters = matters || (compared[i].asks && strcmp(compared[i].what, change->what) == 0);
    for (char **item = change->after; *item != NULL; item++)
        more = more || !kg_list_has(change->before, kg_str(*item));
    return matters && more;
}

bool store_offer_asks(const struct store_offer *offer)
{
    bool any = !offer->compared || store_offer_widens(offer);
    for (size_t i = 0; i < offer->change_count; i++)
        any = any || offer_asks(&offer->changes[i]);
    return any;
}

/* What one process for all has stored is nobody's in particular: no project gets it. */
static void warn_of_process(struct store_offer *offer, const struct store_record *before)
{
    bool was_shared = before->process == NULL || strcmp(before->process, "shared") == 0;
    if (offer->kind == STORE_APPROVE || before->hash == NULL || !was_shared ||
        offer->manifest->process == MANIFEST_SHARED)
        return;
    kg_list_add(&offer->warnings,
                kg_format("from now on each %s has a process of it, with files and storage of its "
                          "own; what it stored so far stays with its process for no project: "
                          "kaged plugin storage %s",
                          manifest_process_names[offer->manifest->process], offer->manifest->name));
}

/* -- the offer --------------------------------------------------------------------------------- */

/*
 * What was approved once and is not known any more cannot have covered anything: then every
 * capability is new. Where nothing ever was, the yes is for all of them, as for an install.
 */
static void offer_compare(struct store_offer *offer, struct base *base)
{
    static const struct manifest nothing = {0};
    offer->compared = base->manifest != NULL;
    offer->installed_version = kg_steal(&base->version);
    offer->installed_from = kg_steal(&base->record.from);
    offer->local = base->record.package == NULL || base->record.local;
    if (base->record.hash != NULL)
        snprintf(offer->approved_hash, sizeof(offer->approved_hash), "%s", base->record.hash);
    bool first =
        offer->kind == STORE_INSTALL || (offer->kind == STORE_APPROVE && base->record.hash == NULL);
    compare_capabilities(offer, base->manifest ? base->manifest : first ? NULL : &nothing);
    compare_manifests(offer, base->manifest);
    warn_of_process(offer, &base->record);
    if (base->tree.count > 0)
        store_tree_compare(&base->tree, &offer->tree, &offer->diff);
}

static struct store_offer *offer_new(const char *origin)
{
    struct store_offer *offer = kg_alloc(sizeof(*offer));
    offer->id = kg_id_new("off_");
    offer->origin = origin;
    offer->warnings = kg_list_new(0);
    return offer;
}

static void offer_cleanup(struct store_offer **offer)
{
    store_offer_free(*offer);
}

static void offer_describe(struct store_offer *offer)
{
    memcpy(offer->hash, offer->tree.hash, sizeof(offer->hash));
    offer->bytes = offer->tree.bytes;
    for (size_t i = 0; i < offer->tree.count; i++)
        offer->files += offer->tree.entries[i].type != STORE_ENTRY_FOLDER;
}

/* Whether a version is the one that was asked for, or in the range. */
static bool is_asked_for(const char *asked, const char *version)
{
    struct kg_semver parsed;
    if (strcmp(asked + (asked[0] == 'v'), version) == 0)
        return true;
    if (kg_semver_parse(kg_str(asked), &parsed) || !kg_semver_parse(kg_str(version), &parsed))
        return false;
    struct kg_semver_range *range = kg_semver_range_parse(kg_str(asked), NULL);
    bool fits = range != NULL && kg_semver_range_has(range, &parsed);
    kg_semver_range_free(range);
    return fits;
}

/* npm has names for versions, such as latest, and knows alone what they mean. */
static bool is_tag(const struct store_source *source)
{
    struct kg_semver version;
    if (source->kind != STORE_NPM || kg_semver_parse(kg_str(source->version), &version))
        return false;
    struct kg_semver_range *range = kg_semver_range_parse(kg_str(source->version), NULL);
    kg_semver_range_free(range);
    return range == NULL;
}

static int check_asked(const struct store_offer *offer, const struct store_source *source,
                       const char *expect, struct kg_err *err)
{
    const struct manifest *manifest = offer->manifest;
    if (expect != NULL && strcmp(manifest_name_in(expect), manifest->name) != 0)
        return kg_fail(err, KG_E_CONFLICT, "%" KG_S_PATH " is plugin %s, not %" KG_S_NAME,
                       source->text, manifest->name, expect);
    if (expect != NULL && !manifest_is_package(manifest, expect)) {
        kg_fail(err, KG_E_CONFLICT, "%" KG_S_PATH " is the package %s, not %" KG_S_WORD,
                source->text, manifest->package, expect);
        return kg_hint(err, "declare it by that name");
    }
    if (source->version != NULL && !is_tag(source) &&
        !is_asked_for(source->version, manifest->version))
        return kg_fail(err, KG_E_CONFLICT,
                       "%" KG_S_PATH " is version %s of plugin %s, not %" KG_S_NAME, source->text,
                       manifest->version, manifest->name, source->version);
    return 0;
}

/* What was lost on the way here is lost where it comes from, and has to be set right there. */
static int offer_check_program(const struct store_offer *offer, const struct store_source *source,
                               struct kg_err *err)
{
    const char *program = offer->manifest->command[0];
    if (program == NULL || program[0] == '/' || strchr(program, '/') == NULL)
        return 0;
    program += kg_str_starts(kg_str(program), "./") ? 2 : 0;
    for (size_t i = 0; i < offer->tree.count; i++) {
        const struct store_entry *entry = &offer->tree.entries[i];
        if (strcmp(entry->path, program) != 0 || entry->type != STORE_ENTRY_FILE ||
            entry->executable)
            continue;
        kg_auto(kg_free) char *path = source->kind == STORE_FOLDER
                                          ? kg_path_join(source->place, program)
                                          : kg_format("%s in %s", program, source->text);
        kg_fail(err, KG_E_INVALID_MANIFEST, "plugin %s: its program %s is not executable",
                offer->manifest->name, path);
        return kg_hint(err, source->kind == STORE_FOLDER ? "chmod +x %s" : "chmod +x it there: %s",
                       path);
    }
    return 0;
}

static bool has_entry(const struct store_tree *tree, const char *path)
{
    for (size_t i = 0; i < tree->count; i++)
        if (strcmp(tree->entries[i].path, path) == 0)
            return true;
    return false;
}

/* A checkout of a plugin for node is not one that runs before its packages are fetched, too. */
static void warn_of_packages(struct store_offer *offer, const char *dir)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_free) char *path = kg_path_join(dir, "package.json");
    if (!has_entry(&offer->tree, "package.json") || has_entry(&offer->tree, "node_modules") ||
        kg_read_file(path, KG_DOC_BYTES_MAX, &text, NULL) < 0)
        return;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), NULL);
    const struct kg_node *needs = doc ? kg_node_typed(doc->root, "dependencies", KG_OBJECT) : NULL;
    if (needs == NULL || needs->count == 0)
        return;
    if (has_entry(&offer->tree, "package-lock.json"))
        offer->packages_missing = needs->count;
    kg_list_add(&offer->warnings,
                kg_format("package.json has %u dependencies, and node_modules is missing: what "
                          "imports them fails. Install a folder in which npm ci was run",
                          needs->count));
}

int store_offer_fetched(struct store *store, const struct store_source *source,
                        struct store_fetched *fetched, const char *expect,
                        struct store_offer **ret_offer, struct kg_err *err)
{
    kg_auto(base_free) struct base base = {0};
    kg_auto(offer_cleanup) struct store_offer *offer =
        offer_new(store_source_kind_names[source->kind]);
    offer->source = kg_strdup(source->text);
    offer->quarantine = kg_steal(&fetched->quarantine);
    offer->tree = fetched->tree;
    fetched->tree = (struct store_tree){0};
    if (fetched->remarks != NULL) {
        kg_list_free(offer->warnings);
        offer->warnings = kg_steal(&fetched->remarks);
    }
    store_fetched_free(fetched);
    offer_describe(offer);
    kg_auto(kg_free) char *dir = kg_format("%s/" STORE_TREE_NAME, offer->quarantine->path);
    int result = offer_read_manifest(offer, dir, err);
    if (result == 0)
        result = check_asked(offer, source, expect, err);
    if (result == 0)
        result = offer_check_program(offer, source, err);
    if (result == 0)
        warn_of_packages(offer, dir);
    if (result == 0)
        result = look_at_base(store, offer, &base, err);
    if (result < 0)
        return result;
    offer->kind = offer_kind_of(offer, &base);
    offer->from = store_source_key(source, offer->manifest);
    offer_compare(offer, &base);
    store_offer_show_own(store, offer);
    *ret_offer = kg_steal(&offer);
    return 0;
}

static int offer_check_folder(const struct store_offer *offer, const char *name, struct kg_err *err)
{
    if (strcmp(offer->manifest->name, name) == 0)
        return 0;
    kg_fail(err, KG_E_INVALID_MANIFEST, "the folder is called %s, but its plugin %s", name,
            offer->manifest->name);
    return kg_hint(err, "give both the same name");
}

int store_offer_installed(struct store *store, const char *name, struct store_offer **ret_offer,
                          struct kg_err *err)
{
    kg_auto(base_free) struct base base = {0};
    kg_auto(offer_cleanup) struct store_offer *offer = offer_new("store");
    struct store_limits limits = store_limits_now(store);
    if (!store_name_is_plugin(name))
        return kg_fail(err, KG_E_NOT_FOUND, "there is no plugin \"%" KG_S_NAME "\"", name);
    kg_auto(store_record_free) struct store_record record = {0};
    if (store_record_read(store, name, &record, err) < 0)
        return -EINVAL;
    kg_auto(kg_free) char *dir = store_files_path(store, name, record.hash);
    if (dir == NULL)
        return kg_fail(err, KG_E_NOT_FOUND, "there is no plugin \"%s\"", name);
    kg_auto(kg_close) int fd = store_open_dir(AT_FDCWD, dir);
    if (fd < 0)
        return kg_fail_errno(err, -fd, "plugin %s: open %s", name, dir);
    int result = store_tree_read(fd, &limits, &offer->tree, err);
    if (result < 0)
        return kg_wrap(err, result, "plugin %s", name);
    offer_describe(offer);
    offer->kind = STORE_APPROVE;
    result = offer_read_manifest(offer, dir, err);
    if (result == 0)
        result = offer_check_folder(offer, name, err);
    if (result == 0)
        result = look_at_base(store, offer, &base, err);
    if (result < 0)
        return kg_wrap(err, result, "plugin %s", name);
    offer_compare(offer, &base);
    store_offer_show_own(store, offer);
    *ret_offer = kg_steal(&offer);
    return 0;
}

int store_offer_dev(const char *folder, struct kg_str text, const struct manifest *before,
                    struct store_offer **ret_offer, struct kg_problems *ret_problems,
                    struct kg_err *err)
{
    kg_auto(offer_cleanup) struct store_offer *offer =
        offer_new(store_source_kind_names[STORE_FOLDER]);
    struct manifest *manifest = manifest_read(text, ret_problems);
    int result = take_manifest(offer, manifest, ret_problems, err);
    if (result < 0)
        return result;
    offer->kind = STORE_DEV;
    offer->source = kg_strdup(folder);
    offer->local = true;
    offer->compared = before != NULL;
    store_hash_text(text, offer->hash);
    compare_capabilities(offer, before);
    compare_manifests(offer, before);
    *ret_offer = kg_steal(&offer);
    return 0;
}
