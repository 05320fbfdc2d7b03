/*
 * Files of scripts: the operator's yes to one, which names the hash of what was meant and comes
 * after what config.toml grants it, in words; one that is put among the others; one that keeps its
 * grants while its author changes it.
 */
#include "cli/rows.h"
#include "config/edit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL: there is no daemon, or no such script; nothing was said about it. */
static struct kg_doc *plugin_script_look(const struct cli *cli, const char *name,
                                         struct kg_buf *ret_body)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    client_put_target(&target, "plugins", name, "/script");
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    struct client_reply reply = {0};
    struct kg_err err = {0};
    bool known =
        client_exchange(cli->paths.socket, &request, &reply, &err) == 0 && reply.status == 200;
    *ret_body = reply.body;
    return known ? kg_json_read(kg_buf_view(ret_body), &err) : NULL;
}

static const struct row grant_rows[] = {
    {.words = "Script {name} ({file}) may, by config.toml:\n"},
    {.each = "grants", .words = "  {capability}: {words}\n"},
    {"approved_hash", .words = "Its file changed since that was approved.\n"},
    {0},
};

static int send_yes(const struct cli *cli, const char *name, struct kg_str hash)
{
    static const struct cli_page page = {"POST", "/api/v1/plugins/{0}/script",
                                         .words = "{name} is approved as it is\n"};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    rows_put_text(&body, "approve", hash);
    const struct page_given given = {.name = name, .body = kg_buf_view(&body)};
    return page_show_with(cli, &page, &given);
}

static bool plugin_script_says_yes(const struct cli *cli, const char *question)
{
    kg_auto(kg_close) int tty = terminal_open();
    if (cli_has(cli, "yes"))
        return true;
    return tty >= 0 && terminal_ask(tty, question);
}

static int plugin_script_decide(const struct cli *cli, const char *name,
                                const struct kg_node *script)
{
    struct kg_str hash = cli_text(script, "hash");
    struct kg_err err = {0};
    if (kg_node_list(script, "grants")->count == 0) {
        fprintf(stderr, "script %s is granted nothing: there is nothing to approve\n", name);
        return CLI_DONE;
    }
    if (kg_str_equal(hash, cli_text(script, "approved_hash"))) {
        fprintf(stderr, "script %s is as it was approved\n", name);
        return CLI_DONE;
    }
    rows_say(cli, script, grant_rows);
    if (plugin_script_says_yes(cli, "Allow it?"))
        return send_yes(cli, name, hash);
    kg_fail(&err, KG_E_REFUSED, "script %s was not approved", name);
    kg_hint(&err, "without a terminal: --yes");
    return print_error(&err);
}

bool cli_script_approve(const struct cli *cli, const char *name, int *ret_code)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *script = plugin_script_look(cli, name, &body);
    if (script != NULL)
        *ret_code = plugin_script_decide(cli, name, script->root);
    return script != NULL;
}

/* -- install ------------------------------------------------------------------------------------
 */

#define SOURCE_MAX     ((size_t)1 << 20)
#define NAME_MAX_BYTES 64

struct file {
    char *name;          /* owned, like all that follows; its stem */
    char *path, *target; /* where it is, and where scripts are run from */
    struct kg_buf text;
    struct config *config;
};

static void file_free(struct file *file)
{
    free(file->name);
    free(file->path);
    free(file->target);
    kg_buf_free(&file->text);
    config_free(file->config);
}

bool cli_is_script_file(const char *source)
{
    struct stat there;
    return kg_str_ends(kg_str(source), ".lua") && stat(source, &there) == 0 &&
           !S_ISDIR(there.st_mode);
}

static int plugin_script_check_name(const struct file *file, struct kg_err *err)
{
    size_t length = strlen(file->name);
    for (size_t i = 0; i < length; i++)
        if (!kg_is_letter_or_digit(file->name[i]) && strchr("-_", file->name[i]) == NULL)
            length = 0;
    if (length > 0 && length <= NAME_MAX_BYTES)
        return 0;
    return kg_fail(err, KG_E_INVALID_SOURCE,
                   "%s: the name of a script is 1 to %d letters, digits, - and _", file->path,
                   NAME_MAX_BYTES);
}

static int plugin_script_read_text(struct file *file, struct kg_err *err)
{
    struct stat there;
    if (stat(file->path, &there) < 0)
        return kg_fail_errno(err, errno, "read %s", file->path);
    if (!S_ISREG(there.st_mode))
        return kg_fail(err, KG_E_INVALID_SOURCE, "%s is not a file", file->path);
    int result = kg_read_file(file->path, SOURCE_MAX, &file->text, err);
    if (result == 0 && kg_utf8_valid(kg_buf_view(&file->text)) != file->text.length)
        result = kg_fail(err, KG_E_INVALID_SOURCE, "%s is not UTF-8", file->path);
    return result;
}

/* A plugin of the store has its folder there. */
static int plugin_script_check_free(const struct cli *cli, const struct file *file,
                                    struct kg_err *err)
{
    kg_auto(kg_free) char *taken =
        kg_path_join(config_plugins_dir(file->config, &cli->paths), file->name);
    if (access(taken, F_OK) < 0)
        return 0;
    kg_fail(err, KG_E_CONFLICT, "there is already a plugin called %s", file->name);
    return kg_hint(err, "give the file another name");
}

static int file_read(const struct cli *cli, const char *source, struct file *file,
                     struct kg_err *err)
{
    const char *name = kg_path_name(source);
    file->name = kg_str_dup(kg_str_first(kg_str(name), strlen(name) - strlen(".lua")));
    file->path = kg_strdup(source);
    file->config = config_load(cli->paths.config_file, err);
    if (file->config == NULL)
        return -EINVAL;
    const char *own = file->config->scripts_dir;
    kg_auto(kg_free) char *folder =
        own[0] != '\0' ? kg_strdup(own) : kg_path_join(cli->paths.config_dir, "scripts");
    file->target = kg_path_join(folder, name);
    if (plugin_script_check_name(file, err) < 0 || plugin_script_read_text(file, err) < 0 ||
        plugin_script_check_free(cli, file, err) < 0)
        return -EINVAL;
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return kg_fail_errno(err, errno, "make %s", folder);
    return 0;
}

static void put_offer(struct kg_buf *out, const struct file *file)
{
    const struct config_named *granted =
        config_named_get(&file->config->plugins_capabilities, kg_str(file->name));
    char *const *grants = granted != NULL ? granted->list : NULL;
    kg_buf_printf(out, "Script %s, %zu bytes, from ", file->name, file->text.length);
    kg_buf_escaped(out, kg_str(file->path));
    kg_buf_printf(out,
                  "%s.\nIt runs in each session, in a cage that has nothing; it hears of turns, "
                  "may forbid or change calls of tools, and reads the session's folder.\n",
                  access(file->target, F_OK) == 0 ? ", in place of the one that is there" : "");
    if (grants == NULL || grants[0] == NULL)
        kg_buf_text(out, "config.toml grants it nothing else.\n");
    for (; grants != NULL && *grants != NULL; grants++) {
        kg_buf_printf(out, "  %s: ", *grants);
        config_grant_words(kg_str(*grants), out);
        kg_buf_char(out, '\n');
    }
}

static int plugin_script_put_text(struct kg_buf *text, void *data, struct kg_err *err)
{
    const struct file *file = data;
    (void)err;
    text->length = 0;
    kg_buf_str(text, kg_buf_view(&file->text));
    return 0;
}

/* Reads the file and shows what it would be. Fails if that is not wanted. */
static int file_offer(const struct cli *cli, const char *source, const char *note,
                      const char *question, struct file *ret_file, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf offer = {0};
    if (file_read(cli, source, ret_file, err) < 0)
        return -EINVAL;
    put_offer(&offer, ret_file);
    kg_buf_text(&offer, note);
    fwrite(offer.data, 1, offer.length, stderr);
    if (plugin_script_says_yes(cli, question))
        return 0;
    kg_fail(err, KG_E_REFUSED, "script %s was declined", ret_file->name);
    return kg_hint(err, "without a terminal: --yes");
}

int cli_script_install(const struct cli *cli, const char *source)
{
    kg_auto(file_free) struct file file = {0};
    struct kg_err err = {0};
    if (file_offer(cli, source, "", "Install it?", &file, &err) < 0 ||
        edit_file(file.target, plugin_script_put_text, &file, &err) < 0)
        return print_error(&err);
    printf("%s is installed in %s\n", file.name, file.target);
    return CLI_DONE;
}

/* -- dev ----------------------------------------------------------------------------------------
 */

#define LOOK_MS 300

/* What the file has become is approved as it is: whoever runs this writes it. */
static int approve_again(const struct cli *cli, const struct file *file)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *script = plugin_script_look(cli, file->name, &body);
    struct kg_str hash = script ? cli_text(script->root, "hash") : KG_STR_NULL;
    if (script == NULL || kg_node_list(script->root, "grants")->count == 0 ||
        kg_str_equal(hash, cli_text(script->root, "approved_hash")))
        return CLI_DONE;
    return send_yes(cli, file->name, hash);
}

/* True: the file is another than before. */
static bool has_changed(struct file *file)
{
    struct kg_buf text = {0};
    struct kg_err err;
    bool changed = kg_read_file(file->path, SOURCE_MAX, &text, &err) == 0 &&
                   kg_utf8_valid(kg_buf_view(&text)) == text.length &&
                   !kg_str_equal(kg_buf_view(&text), kg_buf_view(&file->text));
    if (!changed) {
        kg_buf_free(&text);
        return false;
    }
    kg_buf_free(&file->text);
    file->text = text;
    return true;
}

static int plugin_script_put_in_place(struct file *file, struct kg_err *err)
{
    kg_auto(kg_free) char *from = realpath(file->path, NULL), *to = realpath(file->target, NULL);
    return from != NULL && kg_same_text(from, to)
               ? 0
               : edit_file(file->target, plugin_script_put_text, file, err);
}

static int keep_up(const struct cli *cli, struct file *file)
{
    struct kg_err err = {0};
    int code = CLI_DONE;
    while (code == CLI_DONE && !terminal_was_interrupted()) {
        if (has_changed(file) && plugin_script_put_in_place(file, &err) < 0)
            return print_error(&err);
        code = approve_again(cli, file);
        cli_pause_ms(LOOK_MS);
    }
    return code;
}

int cli_script_dev(const struct cli *cli, const char *source)
{
    static const char note[] = "What you change keeps its grants until you leave with Ctrl-C.\n";
    kg_auto(file_free) struct file file = {0};
    struct kg_err err = {0};
    if (file_offer(cli, source, note, "Run it like this?", &file, &err) < 0 ||
        plugin_script_put_in_place(&file, &err) < 0)
        return print_error(&err);
    printf("%s runs from %s as %s changes\n", file.name, file.target, file.path);
    fflush(stdout);
    terminal_catch_interrupts();
    return keep_up(cli, &file);
}
