/*
 * kaged plugin new: a plugin that works, of a template and the SDK of its language. Both come from
 * the share tree that is built or installed with this program; nothing is fetched, no daemon is
 * needed, and what is there already is never written over.
 */
#include "cli/cli.h"

#include "manifest/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEMPLATE_NAME  "my-plugin" /* what the templates call themselves */
#define FILE_BYTES_MAX ((size_t)8 << 20)
#define DEPTH_MAX      16

/* -- languages --------------------------------------------------------------------------------- */

struct language {
    const char *name;   /* of --lang */
    const char *folder; /* in the share tree */
    const char *full_name;
    const char *program; /* what its author changes first */
    const char *sdk;  /* where its SDK is in the plugin's folder; of an MCP server, the protocol */
    const char *test; /* runs its own tests */
    bool built;       /* by make, before it can run */
    bool is_mcp;      /* it is an MCP server */
};

#define PYTHON_TEST "python3 -m unittest"
static const struct language languages[] = {
    {"ts", "ts", "TypeScript", "src/plugin.ts", "node_modules/", "npm test", false, false},
    {"python", "python", "Python", "plugin.py", "kaged_sdk/", PYTHON_TEST, false, false},
    {"shell", "shell", "bash", "plugin.sh", "kaged.sh", "tests/run", false, false},
    {"c", "c", "C", "plugin.c", "sdk/", "make test", true, false},
    {"ts", "mcp-ts", "TypeScript", "src/server.ts", "src/mcp.ts", "npm test", false, true},
    {"python", "mcp-python", "Python", "server.py", "mcp_stdio.py", PYTHON_TEST, false, true},
};

static const struct language *language_find(const char *name, bool is_mcp)
{
    for (size_t i = 0; i < KG_COUNT(languages); i++)
        if (strcmp(languages[i].name, name) == 0 && languages[i].is_mcp == is_mcp)
            return &languages[i];
    return NULL;
}

/* What else people call them. */
static const char *guess_language(const char *word)
{
    static const char *const known[][2] = {
        {"ts", "ts"},         {"typescript", "ts"},  {"javascript", "ts"}, {"js", "ts"},
        {"python", "python"}, {"python3", "python"}, {"py", "python"},     {"shell", "shell"},
        {"bash", "shell"},    {"sh", "shell"},       {"c", "c"},
    };
    const char *words[KG_COUNT(known)];
    for (size_t i = 0; i < KG_COUNT(known); i++)
        words[i] = known[i][0];
    const char *nearest = kg_str_nearest(kg_str(word), words, KG_COUNT(known));
    for (size_t i = 0; nearest != NULL && i < KG_COUNT(known); i++)
        if (strcmp(known[i][0], nearest) == 0)
            return known[i][1];
    return NULL;
}

static const struct language *take_language(const struct cli *cli, struct kg_err *err)
{
    const char *word = cli_option_value(cli, "lang");
    bool is_mcp = cli_has(cli, "mcp");
    const struct language *language = word ? language_find(word, is_mcp) : NULL;
    const char *guess = word ? guess_language(word) : NULL;
    if (language != NULL)
        return language;
    if (word == NULL)
        kg_fail(err, KG_E_USAGE, "plugin new: no language was given");
    else if (is_mcp)
        kg_fail(err, KG_E_USAGE, "plugin new: there is no template of an MCP server for %s", word);
    else
        kg_fail(err, KG_E_USAGE, "plugin new: there is no SDK for %s", word);
    if (guess != NULL && language_find(guess, is_mcp) != NULL)
        kg_hint(err, "did you mean --lang %s?", guess);
    else
        kg_hint(err, is_mcp ? "use --lang ts or python" : "use --lang ts, python, shell or c");
    return NULL;
}

/* -- the share tree ---------------------------------------------------------------------------- */

static bool plugin_new_is_folder(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

static int check_share(const char *share, const struct language *language, struct kg_err *err)
{
    kg_auto(kg_free) char *sdks = kg_format("%s/sdk", share);
    kg_auto(kg_free) char *sdk = kg_format("%s/%s", sdks, language->folder);
    if (plugin_new_is_folder(sdk))
        return 0;
    if (plugin_new_is_folder(sdks)) {
        kg_fail(err, KG_E_NOT_FOUND, "plugin new: %s has no SDK for %s", share,
                language->full_name);
        kg_hint(err, "in the source of kaged, scripts/share %s puts it there", language->folder);
    } else {
        kg_fail(err, KG_E_NOT_FOUND, "plugin new: there are no templates and SDKs in %s", share);
        kg_hint(err, "make build puts them beside the program; KAGED_SHARE names another folder");
    }
    return -ENOENT;
}

/* -- copying ----------------------------------------------------------------------------------- */

/* What was read, with the template's name replaced; a name of NULL leaves all as it is. */
static void plugin_new_put_renamed(struct kg_buf *out, struct kg_str text, const char *name)
{
    const size_t length = strlen(TEMPLATE_NAME);
    const char *found;
    while (name != NULL && text.length > 0 &&
           (found = memmem(text.data, text.length, TEMPLATE_NAME, length)) != NULL) {
        size_t before = (size_t)(found - text.data);
        kg_buf_append(out, text.data, before);
        kg_buf_text(out, name);
        text.data += before + length;
        text.length -= before + length;
    }
    kg_buf_str(out, text);
}

static int plugin_new_copy_file(const char *from, const char *to, mode_t mode, const char *name,
                                struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, written = {0};
    int result = kg_read_file(from, FILE_BYTES_MAX, &text, err);
    if (result < 0)
        return result;
    plugin_new_put_renamed(&written, kg_buf_view(&text), name);
    kg_auto(kg_close) int fd =
        open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & S_IXUSR ? 0777 : 0666);
    result = fd < 0 ? -errno : kg_write_all(fd, written.data, written.length);
    return result < 0 ? kg_fail_errno(err, -result, "write %s", to) : 0;
}

static int copy_tree(const char *from, const char *to, const char *name, int depth,
                     struct kg_err *err);

static int plugin_new_copy_entry(const char *from, const char *to, const char *name, int depth,
                                 struct kg_err *err)
{
    struct stat there;
    if (lstat(from, &there) < 0)
        return kg_fail_errno(err, errno, "read %s", from);
    if (S_ISDIR(there.st_mode))
        return copy_tree(from, to, name, depth + 1, err);
    if (S_ISREG(there.st_mode))
        return plugin_new_copy_file(from, to, there.st_mode, name, err);
    return kg_fail(err, KG_E_IO, "copy %s: it is neither a file nor a folder", from);
}

static int copy_tree(const char *from, const char *to, const char *name, int depth,
                     struct kg_err *err)
{
    const struct dirent *entry;
    int result = 0;
    DIR *dir = depth <= DEPTH_MAX ? opendir(from) : NULL;
    if (dir == NULL)
        return kg_fail_errno(err, depth <= DEPTH_MAX ? errno : ELOOP, "read %s", from);
    if (mkdir(to, 0777) < 0 && errno != EEXIST)
        result = kg_fail_errno(err, errno, "make the folder %s", to);
    while (result == 0 && (entry = readdir(dir)) != NULL) {
        kg_auto(kg_free) char *source = kg_format("%s/%s", from, entry->d_name);
        kg_auto(kg_free) char *target = kg_format("%s/%s", to, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = plugin_new_copy_entry(source, target, name, depth, err);
    }
    closedir(dir);
    return result;
}

/* -- the plugin's folder ----------------------------------------------------------------------- */

static int plugin_new_check_name(const char *name, struct kg_err *err)
{
    if (manifest_name_is_valid(kg_str(name)))
        return 0;
    kg_fail(err, KG_E_INVALID_MANIFEST, "plugin new: \"%s\" cannot be the name of a plugin", name);
    return kg_hint(err, "a name consists of a-z, 0-9 and dashes, begins with a letter, and has at "
                        "most 64 characters");
}

static int plugin_new_check_folder(const char *folder, struct kg_err *err)
{
    const struct dirent *entry;
    bool empty = true;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return errno == ENOENT ? 0 : kg_fail_errno(err, errno, "write into %s", folder);
    while ((entry = readdir(dir)) != NULL)
        empty = empty && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0);
    closedir(dir);
    if (empty)
        return 0;
    kg_fail(err, KG_E_CONFLICT, "plugin new: the folder %s is not empty", folder);
    kg_hint(err, "choose another name, or another folder with --dir");
    return -EEXIST;
}

static int write_plugin(const char *share, const struct language *language, const char *name,
                        const char *folder, struct kg_err *err)
{
    kg_auto(kg_free) char *template = kg_format("%s/templates/%s", share, language->folder);
    kg_auto(kg_free) char *sdk = kg_format("%s/sdk/%s", share, language->folder);
    int result = kg_make_dirs(folder, 0777, err);
    if (result == 0)
        result = copy_tree(template, folder, name, 0, err);
    if (result == 0)
        result = copy_tree(sdk, folder, NULL, 0, err);
    return result;
}

/* -- make -------------------------------------------------------------------------------------- */

static void become_make(const char *folder)
{
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execlp("make", "make", "--silent", "--no-print-directory", "-C", folder, (char *)NULL);
    _exit(127);
}

static int build(const char *folder, struct kg_err *err)
{
    int status = 0;
    fprintf(stderr, "kaged: compiling it: make -C %s\n", folder);
    pid_t child = fork();
    if (child == 0)
        become_make(folder);
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return kg_fail_errno(err, errno, "run make in %s", folder);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        kg_fail(err, KG_E_IO, "the plugin is written, but not compiled: make is not installed");
    else
        kg_fail(err, KG_E_IO, "the plugin is written, but not compiled: make failed");
    kg_hint(err, "it needs make and a C compiler, such as gcc; then run make -C %s", folder);
    return -EIO;
}

/* -- what to do next --------------------------------------------------------------------------- */

static void plugin_new_put_row(struct kg_buf *out, const char *what, const char *meaning)
{
    kg_buf_printf(out, "  %-28s %s\n", what, meaning);
}

static void plugin_new_put_words(struct kg_buf *out, const struct cli *cli,
                                 const struct language *language, const char *name,
                                 const char *folder)
{
    kg_auto(kg_free) char *self = cli_self(cli);
    kg_auto(kg_free) char *test = kg_format("%s plugin test .", self);
    kg_auto(kg_free) char *dev = kg_format("%s plugin dev .", self);
    kg_auto(kg_free) char *install = kg_format("%s plugin install .", self);
    kg_auto(kg_free) char *pack = kg_format("%s plugin pack .", self);
    kg_buf_printf(out, "%s is %s in %s, in the folder %s\n", name,
                  language->is_mcp ? "an MCP server" : "a plugin", language->full_name, folder);
    plugin_new_put_row(out, MANIFEST_FILE,
                       language->is_mcp ? "what it is and needs" : "what it is, needs and offers");
    plugin_new_put_row(out, language->program, "what it does");
    plugin_new_put_row(out, "tests/", "its own tests");
    plugin_new_put_row(out, language->sdk, language->is_mcp ? "the protocol" : "the SDK, a copy");
    kg_buf_printf(out, "next\n  cd %s\n", folder);
    plugin_new_put_row(out, language->test, "run its own tests");
    plugin_new_put_row(out, test, "run it in its cage, with messages good and bad");
    plugin_new_put_row(out, dev, "run it, and restart it after each change");
    plugin_new_put_row(out, install, "install it here");
    if (language->is_mcp)
        plugin_new_put_row(out, pack, "make one file of it, for others");
}

static void plugin_new_put_json(struct kg_buf *out, const struct language *language,
                                const char *name, const char *folder)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", name);
    kg_json_named_text(&json, "lang", language->name);
    kg_json_named_text(&json, "protocol", language->is_mcp ? "mcp" : "kaged");
    kg_json_named_text(&json, "path", folder);
    kg_json_end(&json, '}');
    kg_buf_char(out, '\n');
}

int cli_plugin_new(struct cli *cli)
{
    const char *name = cli_argument(cli, 0);
    const char *folder = cli_option_value(cli, "dir") ? cli_option_value(cli, "dir") : name;
    kg_auto(kg_free) char *share = config_share_dir();
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_err err;
    const struct language *language = take_language(cli, &err);
    if (language == NULL || plugin_new_check_name(name, &err) < 0 ||
        check_share(share, language, &err) < 0 || plugin_new_check_folder(folder, &err) < 0 ||
        write_plugin(share, language, name, folder, &err) < 0 ||
        (language->built && build(folder, &err) < 0))
        return print_error(&err);
    if (cli->json)
        plugin_new_put_json(&out, language, name, folder);
    else
        plugin_new_put_words(&out, cli, language, name, folder);
    print_out(&out);
    return CLI_DONE;
}
