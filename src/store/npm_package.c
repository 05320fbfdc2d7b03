/*
 * A package of npm that was fetched, and what it takes to run it: its own words about its program
 * and its runtime are checked here, before anybody is asked, and become a manifest.
 */
#include "store/complete.h"
#include "store/internal.h"
#include "store/npm.h"
#include "store/server.h"

#include "base/doc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCK_FILE       "package-lock.json"
#define LOCK_BYTES_MAX  ((size_t)16 << 20)
#define HEAD_BYTES      128
#define FOLDER_MAX      2048
#define NAMES_BYTES_MAX 500

struct package {
    struct npm *npm;
    const struct store_source *source;
    int tree_fd;
    struct kg_err *err;
    char *folder;        /* of the package, in the tree; owned */
    struct kg_doc *doc;  /* its package.json; owned */
    struct kg_doc *wish; /* of the operator: "name", "args"; owned; or NULL */
    char *const *kept;   /* arguments that it had before, unless others are wished */
    const char *program; /* its own, in the tree; owned */
    const struct runtime *node;
};

static void package_free(struct package *package)
{
    free(package->folder);
    free((char *)package->program);
    kg_doc_free(package->doc);
    kg_doc_free(package->wish);
}

/* -- reading ----------------------------------------------------------------------------------- */

/* A file of the tree, which nobody has looked at yet: no link leads out of it. An fd, or -1. */
static int npm_package_open_in(const struct package *package, const char *path)
{
    const struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, package->tree_fd, path, &how, sizeof(how));
}

/* NULL with err. */
static struct kg_doc *read_json(const struct package *package, const char *path, size_t max)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_close) int fd = npm_package_open_in(package, path);
    if (fd < 0) {
        kg_fail_errno(package->err, errno, "open %s", path);
        return NULL;
    }
    if (kg_read_fd(fd, path, max, &text, package->err) < 0)
        return NULL;
    struct kg_doc *doc = kg_json_read(kg_buf_view(&text), package->err);
    if (doc == NULL)
        kg_wrap(package->err, -EINVAL, "%s", path);
    return doc;
}

static char *npm_package_text_of(const struct kg_node *node, const char *key)
{
    const struct kg_node *found = kg_node_typed(node, key, KG_STRING);
    return found != NULL ? kg_str_dup(found->text) : NULL;
}

/* "author" is a text, or an object with a name. */
static char *author_of(const struct kg_node *node)
{
    const struct kg_node *author = kg_node_typed(node, "author", KG_OBJECT);
    return author != NULL ? npm_package_text_of(author, "name")
                          : npm_package_text_of(node, "author");
}

/* -- its program ------------------------------------------------------------------------------- */

/* The one that is called like the package, or the only one, or the first. */
static struct kg_str bin_of(const struct kg_node *package, const char *name)
{
    const struct kg_node *bin = kg_node_get(package, "bin");
    if (bin != NULL && bin->type == KG_STRING)
        return bin->text;
    if (bin == NULL || bin->type != KG_OBJECT || bin->count == 0)
        return KG_STR_NULL;
    const struct kg_member *member = kg_node_member(bin, kg_str(kg_path_name(name)));
    if (member == NULL)
        member = &bin->members[0];
    return member->value.type == KG_STRING ? member->value.text : KG_STR_NULL;
}

static int npm_package_find_program(struct package *package)
{
    const char *name = package->source->place;
    struct kg_str bin = bin_of(package->doc->root, name);
    if (bin.length == 0) {
        kg_fail(package->err, KG_E_INVALID_SOURCE, "package %s has no program: it has no bin",
                name);
        return kg_hint(package->err, "it may be a library, and not a server");
    }
    while (kg_str_starts(bin, "./"))
        bin = kg_str_from(bin, 2);
    kg_auto(kg_free) char *path =
        kg_format("%s/%.*s", package->folder, KG_STR_CUT(bin, KG_CUT_LINE));
    if (bin.data[0] == '/' || strstr(path, "..") != NULL ||
        faccessat(package->tree_fd, path, R_OK, 0) < 0)
        return kg_fail(package->err, KG_E_INVALID_SOURCE,
                       "package %s: its program %.*s is not in it", name,
                       KG_STR_CUT(bin, KG_CUT_PATH));
    package->program = kg_steal(&path);
    return 0;
}

/* Whether node runs it: a script without a first line of its own, or with one that says so. */
static bool is_for_node(const struct package *package)
{
    char head[HEAD_BYTES + 1] = "";
    kg_auto(kg_close) int fd = npm_package_open_in(package, package->program);
    ssize_t got = fd >= 0 ? read(fd, head, HEAD_BYTES) : 0;
    head[got > 0 ? got : 0] = '\0';
    head[strcspn(head, "\n")] = '\0';
    if (strncmp(head, "#!", 2) == 0)
        return strstr(head, "node") != NULL || strstr(head, "bun") != NULL;
    return memcmp(head, "\177ELF", 4) != 0;
}

/* -- its runtime ------------------------------------------------------------------------------- */

static int check_engine(struct package *package)
{
    struct npm *npm = package->npm;
    const struct kg_node *engines = kg_node_typed(package->doc->root, "engines", KG_OBJECT);
    kg_auto(kg_free) char *wants = engines ? npm_package_text_of(engines, "node") : NULL;
    struct kg_semver_range *range = wants ? kg_semver_range_parse(kg_str(wants), NULL) : NULL;
    for (size_t i = 0; i < npm->nodes->count; i++)
        if (&npm->nodes->items[i] == npm->node)
            kg_str_copy(kg_str(npm->node_version), npm->nodes->items[i].version,
                        RUNTIME_VERSION_TEXT);
    package->node = runtimes_fitting(npm->nodes, range);
    kg_semver_range_free(range);
    if (package->node != NULL)
        return 0;
    kg_fail(package->err, KG_E_INVALID_SOURCE,
            "package %s needs node %" KG_S_NAME ", and the one here is %s", package->source->place,
            wants, npm->node_version);
    return kg_hint(package->err, "install such a node; what nvm, mise, asdf, fnm or volta keep is "
                                 "found");
}

/* -- what has to be built ---------------------------------------------------------------------- */

static bool npm_package_has(const struct package *package, struct kg_str folder, const char *name)
{
    kg_auto(kg_free) char *path = kg_format("%.*s/%s", KG_STR_CUT(folder, FOLDER_MAX), name);
    return faccessat(package->tree_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A native addon without a compiled form is of no use before its script ran. */
static bool is_unbuilt(const struct package *package, const struct kg_member *entry)
{
    return kg_node_is_true(&entry->value, "hasInstallScript") &&
           !kg_node_is_true(&entry->value, "optional") &&
           npm_package_has(package, entry->key, "binding.gyp") &&
           !npm_package_has(package, entry->key, "prebuilds") &&
           !npm_package_has(package, entry->key, "build/Release");
}

/* What else wanted to run may have been of use: the operator is told. */
static void remark_scripts(const struct kg_node *entries, char ***ret_remarks)
{
    kg_auto(kg_buf_free) struct kg_buf names = {0};
    for (uint32_t i = 0; i < entries->count; i++)
        if (kg_node_is_true(&entries->members[i].value, "hasInstallScript") &&
            names.length < NAMES_BYTES_MAX) {
            kg_buf_text(&names, names.length > 0 ? ", " : "");
            kg_buf_escaped(&names, entries->members[i].key);
        }
    if (names.length == 0)
        return;
    *ret_remarks = kg_list_new(0);
    kg_list_add(ret_remarks, kg_format("the install scripts of these were not run: %s",
                                       kg_buf_terminate(&names)));
}

static int check_built(struct package *package, char ***ret_remarks)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *lock = read_json(package, LOCK_FILE, LOCK_BYTES_MAX);
    const struct kg_node *entries = lock ? kg_node_typed(lock->root, "packages", KG_OBJECT) : NULL;
    if (lock == NULL)
        return -EINVAL;
    for (uint32_t i = 0; entries != NULL && i < entries->count; i++) {
        const struct kg_member *entry = &entries->members[i];
        if (!is_unbuilt(package, entry))
            continue;
        kg_fail(package->err, KG_E_INVALID_SOURCE,
                "package %s needs a build step: %.*s is compiled when it is installed, and kaged "
                "runs no script of a package",
                package->source->place, KG_STR_CUT(entry->key, KG_CUT_PATH));
        return kg_hint(package->err, "npm install it into a folder yourself, put a "
                                     "kaged-plugin.yaml there, and install that folder");
    }
    if (entries != NULL)
        remark_scripts(entries, ret_remarks);
    return 0;
}

/* -- its manifest ------------------------------------------------------------------------------ */

static const struct known {
    const char *package;
    bool writes;
    const char *env, *capabilities;
} known[] = {
#define READ                                      false
#define WRITE                                     true
#define SERVER(package, paths, env, capabilities) {package, paths, env, capabilities},
#include "store/known.def"
#undef SERVER
#undef WRITE
#undef READ
};

/* What is known of a package that nobody has heard of. */
static const struct known unknown = {.env = "", .capabilities = ""};

static const struct known *known_of(const char *package)
{
    for (size_t i = 0; i < KG_COUNT(known); i++)
        if (strcmp(known[i].package, package) == 0)
            return &known[i];
    return &unknown;
}

static void npm_package_add_lines(char ***list, const char *lines)
{
    struct kg_str rest = kg_str(lines);
    while (rest.data != NULL && rest.length > 0)
        kg_list_add(list, kg_str_dup(kg_str_cut(&rest, '\n')));
}

static char **args_of(const struct package *package)
{
    const struct kg_node *list =
        package->wish ? kg_node_typed(package->wish->root, "args", KG_ARRAY) : NULL;
    if (list == NULL)
        return kg_list_copy((const char *const *)package->kept);
    char **args = kg_list_new(0);
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (list->items[i].type == KG_STRING)
            kg_list_add(&args, kg_str_dup(list->items[i].text));
    return args;
}

static char **npm_package_command_of(const struct package *package, char *const *args)
{
    char **command = kg_list_new(0);
    if (is_for_node(package))
        kg_list_add(&command, kg_strdup(package->node->word));
    kg_list_add(&command, kg_format("./%s", package->program));
    for (; *args != NULL; args++)
        kg_list_add(&command, kg_strdup(*args));
    return command;
}

static int npm_package_write_manifest(struct package *package, const char *name)
{
    const struct kg_node *root = package->doc->root;
    const struct known *row = known_of(package->source->place);
    char **args = args_of(package), **env = kg_list_new(0), **capabilities = kg_list_new(0);
    kg_auto(kg_free) char *version = npm_package_text_of(root, "version");
    kg_auto(kg_free) char *description = npm_package_text_of(root, "description");
    kg_auto(kg_free) char *author = author_of(root),
                          *license = npm_package_text_of(root, "license");
    kg_auto(kg_free) char *homepage = npm_package_text_of(root, "homepage");
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (!package->node->is_own)
        kg_list_add(&capabilities, kg_format("read:fs:%s", package->node->folder));
    npm_package_add_lines(&capabilities, row->capabilities);
    npm_package_add_lines(&env, row->env);
    store_server_paths(args, row->writes, &capabilities);
    char **command = npm_package_command_of(package, args);
    store_server_manifest(&(struct store_server){.name = name,
                                                 .package = package->source->place,
                                                 .version = version,
                                                 .description = description,
                                                 .author = author,
                                                 .license = license,
                                                 .homepage = homepage,
                                                 .command = command,
                                                 .env = env,
                                                 .capabilities = capabilities},
                          &text);
    kg_list_free(args);
    kg_list_free(env);
    kg_list_free(capabilities);
    kg_list_free(command);
    return complete_write(package->tree_fd, kg_buf_view(&text), package->err);
}

static int npm_package_make_manifest(struct package *package)
{
    kg_auto(kg_free) char *wished =
        package->wish ? npm_package_text_of(package->wish->root, "name") : NULL;
    kg_auto(kg_free) char *name = store_server_name(wished ? wished : package->source->place);
    if (name == NULL || (wished != NULL && strcmp(name, wished) != 0))
        return kg_fail(package->err, KG_E_USAGE,
                       "\"%" KG_S_NAME "\" cannot be the name of a plugin",
                       wished ? wished : package->source->place);
    return npm_package_write_manifest(package, name);
}

/* "its arguments stay: --root /srv/docs" */
static void remark_kept(const struct package *package, char ***remarks)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    bool are_given = package->wish != NULL && kg_node_get(package->wish->root, "args") != NULL;
    if (are_given || package->kept[0] == NULL)
        return;
    kg_buf_text(&words, "its arguments stay as they were:");
    for (char *const *arg = package->kept; *arg != NULL; arg++) {
        kg_buf_char(&words, ' ');
        kg_buf_shell(&words, kg_str(*arg));
    }
    if (*remarks == NULL)
        *remarks = kg_list_new(0);
    kg_list_add(remarks, kg_strdup(kg_buf_terminate(&words)));
}

/* What the package declares itself is taken as it is. */
static int check_own_manifest(const struct package *package)
{
    if (package->wish == NULL)
        return 0;
    return kg_fail(package->err, KG_E_USAGE,
                   "package %s has a manifest of its own: it takes neither a name nor arguments",
                   package->source->place);
}

int npm_finish(struct npm *npm, const struct store_source *source, char *const *kept_args,
               int tree_fd, char ***ret_remarks, struct kg_err *err)
{
    kg_auto(package_free) struct package package = {
        .npm = npm, .source = source, .tree_fd = tree_fd, .err = err, .kept = kept_args};
    if (source->server != NULL)
        package.wish = kg_json_read(kg_str(source->server), NULL);
    if (faccessat(tree_fd, MANIFEST_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return check_own_manifest(&package);
    package.folder = kg_format("node_modules/%s", source->place);
    kg_auto(kg_free) char *file = kg_format("%s/package.json", package.folder);
    package.doc = read_json(&package, file, KG_DOC_BYTES_MAX);
    int result = package.doc == NULL ? -EINVAL : npm_package_find_program(&package);
    if (result == 0)
        result = check_engine(&package);
    if (result == 0)
        result = check_built(&package, ret_remarks);
    if (result == 0)
        result = npm_package_make_manifest(&package);
    if (result == 0)
        remark_kept(&package, ret_remarks);
    return result;
}

/* -- the version before ------------------------------------------------------------------------ */

/* What stands behind the program of a manifest that npm_package_write_manifest made. */
static char **args_in(const char *dir, const char *package)
{
    kg_auto(kg_free) char *path = kg_path_join(dir, MANIFEST_FILE);
    kg_auto(kg_free) char *program = kg_format("./node_modules/%s/", package);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    char **args = kg_list_new(0);
    if (kg_read_file(path, KG_DOC_BYTES_MAX, &text, NULL) < 0)
        return args;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_yaml_read(kg_buf_view(&text), NULL);
    const struct kg_node *command =
        doc != NULL ? kg_node_typed(doc->root, "command", KG_ARRAY) : NULL;
    bool is_behind = false;
    for (uint32_t i = 0; command != NULL && i < command->count; i++) {
        if (is_behind)
            kg_list_add(&args, kg_str_dup(command->items[i].text));
        is_behind = is_behind || kg_str_starts(command->items[i].text, program);
    }
    return args;
}

char **npm_kept_args(struct store *store, const struct store_source *source)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *wish =
        source->server ? kg_json_read(kg_str(source->server), NULL) : NULL;
    kg_auto(kg_free) char *wished = wish ? npm_package_text_of(wish->root, "name") : NULL;
    kg_auto(kg_free) char *name = store_server_name(wished ? wished : source->place);
    kg_auto(kg_free) char *from = kg_format("npm:%s", source->place);
    kg_auto(store_record_free) struct store_record record = {0};
    if (source->kind != STORE_NPM || name == NULL ||
        store_record_read(store, name, &record, NULL) < 0 || !kg_same_text(record.from, from))
        return kg_list_new(0);
    kg_auto(kg_free) char *place = store_place(store, name);
    return args_in(place, source->place);
}
