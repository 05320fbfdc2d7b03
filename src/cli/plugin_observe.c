/*
 * kaged plugin observe: a program in a cage that holds and is watched, and a manifest made of what
 * it tried. Its stdio is ours, so an MCP client can start this in the place of the server. What is
 * reported goes to stderr, since stdout is the program's; with --json it is the other way round.
 */
#include "cli/cli.h"
#include "cli/rows.h"

#include "base/doc.h"
#include "config/edit.h"
#include "kit/observe.h"
#include "manifest/grants.h"
#include "store/complete.h"
#include "store/server.h"
#include "store/server_source.h"
#include "store/store.h"
#include "store/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOR_SEC_MAX 86400
#define LEFT_SHOWN  40

/* What is observed, and where what is learned goes. */
struct observe_subject {
    char *dir;                 /* owned; the folder of its manifest */
    char *temporary;           /* owned; a folder of ours, or NULL */
    char *file;                /* owned; the manifest that --write makes or changes; NULL: none */
    char *name;                /* owned; of an installed plugin; NULL: it is none */
    struct kg_buf text;        /* the manifest */
    struct manifest *manifest; /* owned */
    struct grants grants;      /* of an installed plugin, with what the operator changed */
    char **given;              /* owned; lines that --ask added to it */
    int terminal;              /* where somebody is asked; -1: nowhere */
};

static void subject_free(struct observe_subject *subject)
{
    if (subject->temporary != NULL)
        (void)tree_remove(AT_FDCWD, subject->temporary, NULL);
    manifest_free(subject->manifest);
    grants_free(&subject->grants);
    kg_list_free(subject->given);
    kg_close(&subject->terminal);
    kg_buf_free(&subject->text);
    free(subject->dir);
    free(subject->temporary);
    free(subject->file);
    free(subject->name);
}

/* -- what is observed -------------------------------------------------------------------------- */

/* A list of texts as a value. */
static struct kg_doc *list_value(const char *const *items, size_t count)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_begin(&json, '[');
    for (size_t i = 0; i < count; i++)
        kg_json_text(&json, items[i]);
    kg_json_end(&json, ']');
    return kg_json_read(kg_buf_view(&text), NULL);
}

static int set_list(struct kg_buf *text, const char *key, const char *const *items, size_t count,
                    struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = list_value(items, count);
    return edit_yaml_set(text, &key, 1, doc->root, err);
}

static int plugin_observe_read_manifest(struct observe_subject *subject, struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    subject->manifest = manifest_read(kg_buf_view(&subject->text), &problems);
    if (subject->manifest != NULL && subject->manifest->url != NULL)
        return kg_fail(err, KG_E_USAGE, "%s runs somewhere else, and cannot be observed here",
                       subject->manifest->name);
    if (subject->manifest != NULL)
        return 0;
    manifest_problems_fail(&problems, subject->file ? subject->file : subject->dir, err);
    return -EINVAL;
}

/* Whether its command ends in those words already, as one that was learned before does. */
static bool has_arguments(const struct cli *cli, char *const *command)
{
    size_t had = kg_list_count(command), more = cli->argument_count - 1;
    for (size_t i = 0; i < more && more < had; i++)
        if (strcmp(command[had - more + i], cli->arguments[i + 1]) != 0)
            return false;
    return more < had;
}

/* Words behind the subject are more of its command. */
static int plugin_observe_add_arguments(const struct cli *cli, struct observe_subject *subject,
                                        struct kg_err *err)
{
    size_t count = 0, more = cli->argument_count - 1;
    int result = plugin_observe_read_manifest(subject, err);
    if (result < 0 || more == 0 || has_arguments(cli, subject->manifest->command))
        return result;
    size_t had = kg_list_count(subject->manifest->command);
    const char **words = kg_alloc_array(had + more + 1, sizeof(*words));
    for (size_t i = 0; i < had; i++)
        words[count++] = subject->manifest->command[i];
    for (size_t i = 0; i < more; i++)
        words[count++] = cli->arguments[i + 1];
    result = set_list(&subject->text, "command", words, count, err);
    free(words);
    manifest_free(kg_steal(&subject->manifest));
    return result < 0 ? result : plugin_observe_read_manifest(subject, err);
}

/* A folder without a manifest may say otherwise what its program is. */
static int complete_text(const char *dir, struct kg_buf *text, struct kg_err *err)
{
    static const struct {
        const char *file;
        complete_fn *make;
    } kinds[] = {{"package.json", package_manifest}, {"pyproject.toml", pyproject_manifest}};
    for (size_t i = 0; i < KG_COUNT(kinds); i++) {
        kg_auto(kg_free) char *path = kg_path_join(dir, kinds[i].file);
        kg_auto(kg_buf_free) struct kg_buf said = {0};
        char **remarks = NULL;
        if (kg_read_file(path, KG_DOC_BYTES_MAX, &said, NULL) < 0)
            continue;
        int result = kinds[i].make(kg_buf_view(&said), text, &remarks, err);
        kg_list_free(remarks);
        return result;
    }
    kg_fail(err, KG_E_NOT_FOUND, "%s has neither a %s nor a package.json or pyproject.toml", dir,
            MANIFEST_FILE);
    return kg_hint(err, "name the program itself");
}

static int plugin_observe_take_folder(const char *dir, struct observe_subject *subject,
                                      struct kg_err *err)
{
    subject->dir = kg_strdup(dir);
    subject->file = kg_path_join(dir, MANIFEST_FILE);
    int result = kg_read_file(subject->file, KG_DOC_BYTES_MAX, &subject->text, err);
    return result == -ENOENT ? complete_text(dir, &subject->text, err) : result;
}

static int make_temporary(struct observe_subject *subject, struct kg_err *err)
{
    const char *tmp = getenv("TMPDIR");
    kg_auto(kg_free) char *real = realpath(tmp != NULL && tmp[0] == '/' ? tmp : "/tmp", NULL);
    char *folder = kg_format("%s/kaged-observe-XXXXXX", real != NULL ? real : "/tmp");
    subject->temporary = mkdtemp(folder) != NULL ? folder : NULL;
    if (subject->temporary != NULL)
        return 0;
    int result = kg_fail_errno(err, errno, "make a folder like %s", folder);
    free(folder);
    return result;
}

/*
 * A program gets the manifest that an install of it would have, but for what its arguments name, in
 * a folder kaged-NAME here; one that is there from before is taken.
 */
static int plugin_observe_take_program(const char *path, struct observe_subject *subject,
                                       struct kg_err *err)
{
    kg_auto(kg_free) char *name = store_server_name(kg_path_name(path));
    struct store_source source = {.kind = STORE_PROGRAM, .place = (char *)path};
    char **remarks = NULL;
    if (name == NULL)
        return kg_fail(err, KG_E_USAGE, "%s: this is not a valid name for a plugin", path);
    if (make_temporary(subject, err) < 0)
        return -EIO;
    subject->dir = kg_strdup(subject->temporary);
    subject->file = kg_format("kaged-%s/%s", name, MANIFEST_FILE);
    if (kg_read_file(subject->file, KG_DOC_BYTES_MAX, &subject->text, NULL) == 0)
        return 0;
    kg_auto(kg_close) int fd = open(subject->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kg_auto(kg_free) char *made = kg_path_join(subject->dir, MANIFEST_FILE);
    int result = server_source_make(&source, fd, &remarks, err);
    kg_list_free(remarks);
    return result < 0 ? result : kg_read_file(made, KG_DOC_BYTES_MAX, &subject->text, err);
}

static int plugin_observe_take_installed(const struct cli *cli, const struct config *config,
                                         const char *name, struct observe_subject *subject,
                                         struct kg_err *err)
{
    const struct store_parts parts = {.paths = &cli->paths,
                                      .plugins_dir = config_plugins_dir(config, &cli->paths)};
    struct store *store = store_new(&parts);
    char *place = store_place(store, name);
    store_free(store);
    kg_auto(kg_free) char *file = place ? kg_path_join(place, MANIFEST_FILE) : NULL;
    subject->dir = place;
    subject->name = kg_strdup(name);
    if (file != NULL && kg_read_file(file, KG_DOC_BYTES_MAX, &subject->text, NULL) == 0)
        return 0;
    kg_fail(err, KG_E_NOT_FOUND, "there is no plugin %s, and no file or folder of that name", name);
    return kg_hint(err, "kaged plugin list shows those that are installed");
}

/* The lines of the manifest become those that the operator lets it have. Who cannot read his file
 * begins with what is declared. */
static int take_grants(const struct cli *cli, struct observe_subject *subject, struct kg_err *err)
{
    if (subject->name == NULL || access(cli->paths.local_file, R_OK) < 0)
        return 0;
    struct local *local = local_load(cli->paths.local_file, LOCAL_LEAVE, err);
    if (local == NULL || plugin_observe_read_manifest(subject, err) < 0) {
        local_free(local);
        return -EINVAL;
    }
    int result = grants_make(&subject->manifest->capability_set, local, subject->name, NULL,
                             &subject->grants, err);
    local_free(local);
    if (result == 0)
        result =
            set_list(&subject->text, "capabilities", (const char *const *)subject->grants.texts,
                     subject->grants.set.count, err);
    manifest_free(kg_steal(&subject->manifest));
    return result;
}

static int plugin_observe_take_package(const struct cli *cli, const struct config *config,
                                       const char *package, struct observe_subject *subject,
                                       struct kg_err *err)
{
    const char *at = package[0] != '\0' ? strchr(package + 1, '@') : NULL;
    kg_auto(kg_free) char *plain =
        kg_str_dup((struct kg_str){package, at ? (size_t)(at - package) : strlen(package)});
    kg_auto(kg_free) char *name = store_server_name(plain);
    if (name != NULL && plugin_observe_take_installed(cli, config, name, subject, err) == 0)
        return 0;
    kg_fail(err, KG_E_NOT_FOUND, "the package %s is not installed", package);
    return kg_hint(err, "kaged plugin install npm:%s fetches it, with no capability yet", package);
}

static int take_subject(const struct cli *cli, const struct config *config,
                        struct observe_subject *subject, struct kg_err *err)
{
    static const char npm[] = "npm:";
    const char *what = cli_argument(cli, 0);
    struct stat status;
    bool is_path = strchr(what, '/') != NULL && !kg_str_starts(kg_str(what), npm);
    kg_auto(kg_free) char *real = NULL;
    int result;
    if (kg_str_starts(kg_str(what), npm)) {
        result = plugin_observe_take_package(cli, config, what + strlen(npm), subject, err);
    } else if (!is_path) {
        result = plugin_observe_take_installed(cli, config, what, subject, err);
    } else if ((real = realpath(what, NULL)) == NULL || stat(real, &status) < 0) {
        result = kg_fail_errno(err, errno, "observe %s", what);
        err->code = KG_E_NOT_FOUND;
    } else if (S_ISDIR(status.st_mode)) {
        result = plugin_observe_take_folder(real, subject, err);
    } else if (!S_ISREG(status.st_mode) || access(real, X_OK) < 0) {
        result = kg_fail(err, KG_E_USAGE, "%s is neither a folder nor a program", what);
    } else {
        result = plugin_observe_take_program(real, subject, err);
    }
    if (result == 0)
        result = take_grants(cli, subject, err);
    return result < 0 ? result : plugin_observe_add_arguments(cli, subject, err);
}

/* -- who is asked ------------------------------------------------------------------------------ */

static char **lines_with(const struct capability_set *set, const char *line)
{
    char **lines = kg_list_new(set->count + 1);
    for (size_t i = 0; i < set->count; i++) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        capability_print(&set->items[i], &text);
        lines[i] = kg_strdup(kg_buf_terminate(&text));
    }
    lines[set->count] = kg_strdup(line);
    return lines;
}

/* The manifest with one line more; it stays what it was if that is none. */
static int plugin_observe_add_capability(struct observe_subject *subject, const char *line,
                                         struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    const struct capability_set *set = &subject->manifest->capability_set;
    char **lines = lines_with(set, line);
    kg_buf_str(&text, kg_buf_view(&subject->text));
    int result = set_list(&text, "capabilities", (const char *const *)lines, set->count + 1, err);
    kg_list_free(lines);
    struct manifest *manifest = result == 0 ? manifest_read(kg_buf_view(&text), &problems) : NULL;
    if (manifest == NULL && result == 0)
        manifest_problems_fail(&problems, line, err);
    if (manifest == NULL)
        return -EINVAL;
    manifest_free(subject->manifest);
    subject->manifest = manifest;
    kg_buf_free(&subject->text);
    subject->text = text;
    text = (struct kg_buf){0};
    return 0;
}

/* While it is asked, Ctrl-C is an answer to the question; then the room hears of it. */
static bool plugin_observe_ask_on(int terminal, const char *question)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction before[KG_COUNT(signals)];
    for (size_t i = 0; i < KG_COUNT(signals); i++)
        sigaction(signals[i], NULL, &before[i]);
    terminal_catch_interrupts();
    bool yes = terminal_ask(terminal, question);
    for (size_t i = 0; i < KG_COUNT(signals); i++)
        sigaction(signals[i], &before[i], NULL);
    if (terminal_was_interrupted())
        raise(SIGINT);
    return yes;
}

static const struct manifest *ask_operator(void *data, const char *line)
{
    struct observe_subject *subject = data;
    struct kg_err err = {0};
    kg_auto(capability_free) struct capability capability = {0};
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    kg_buf_printf(&words, "%s asks for %s", subject->manifest->name, line);
    if (capability_parse(kg_str(line), &capability, NULL) == 0) {
        kg_buf_text(&words, ": it ");
        capability_words(&capability, &words);
    }
    kg_buf_text(&words, ". Give it?");
    if (!plugin_observe_ask_on(subject->terminal, kg_buf_terminate(&words)))
        return NULL;
    if (plugin_observe_add_capability(subject, line, &err) < 0) {
        print_error(&err);
        return NULL;
    }
    kg_list_add(&subject->given, kg_strdup(line));
    return subject->manifest;
}

/* What was given on the way is as new as what is only proposed. */
static void mark_given(const struct observe_subject *subject, struct kit_proposal *proposal)
{
    for (size_t i = 0; i < proposal->line_count; i++)
        proposal->lines[i].is_new |= kg_list_has(subject->given, kg_str(proposal->lines[i].text));
}

/* -- what is shown ----------------------------------------------------------------------------- */

static void plugin_observe_put_times(struct kg_buf *out, uint64_t count, const char *calls)
{
    if (count == 0)
        kg_buf_text(out, "not used");
    else
        kg_buf_printf(out, "%llu time%s", (unsigned long long)count, count == 1 ? "" : "s");
    if (calls != NULL && calls[0] != '\0')
        kg_buf_printf(out, ", by %s", calls);
}

/* In the words that the operator is asked with. */
static void plugin_observe_put_line(struct kg_buf *out, const struct kit_line *line)
{
    kg_auto(capability_free) struct capability capability = {0};
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    kg_buf_text(out, line->is_new ? "  + " : "    ");
    kg_buf_escaped(out, kg_str(line->text));
    kg_buf_text(out, "\n      ");
    if (capability_parse(kg_str(line->text), &capability, NULL) == 0) {
        capability_words(&capability, &words);
        kg_buf_escaped(out, kg_buf_view(&words));
        kg_buf_text(out, "; ");
    }
    plugin_observe_put_times(out, line->count, line->calls);
    kg_buf_char(out, '\n');
}

static void put_left(struct kg_buf *out, const struct kit_proposal *proposal)
{
    if (proposal->left_count > 0)
        kg_buf_text(out, "left out:\n");
    for (size_t i = 0; i < proposal->left_count && i < LEFT_SHOWN; i++) {
        const struct kit_left *left = &proposal->left[i];
        kg_buf_text(out, "    ");
        kg_buf_escaped(out, kg_str(left->what));
        kg_buf_text(out, " (");
        plugin_observe_put_times(out, left->count, left->call);
        kg_buf_text(out, "): ");
        kg_buf_escaped(out, kg_str(left->why));
        kg_buf_char(out, '\n');
    }
    if (proposal->left_count > LEFT_SHOWN)
        kg_buf_printf(out, "    and %zu more; --json has all of them\n",
                      proposal->left_count - LEFT_SHOWN);
    if (proposal->others > 0)
        kg_buf_printf(out, "    and %llu attempts that were only counted: there were too many\n",
                      (unsigned long long)proposal->others);
}

static size_t count_new(const struct kit_proposal *proposal)
{
    size_t count = 0;
    for (size_t i = 0; i < proposal->line_count; i++)
        count += proposal->lines[i].is_new;
    return count;
}

static void plugin_observe_put_report(struct kg_buf *out, const struct observe_subject *subject,
                                      const struct kit_observed *observed,
                                      const struct kit_proposal *proposal)
{
    kg_buf_printf(out, "%s was observed for %.1f s", subject->manifest->name,
                  (double)observed->duration_ms / 1000);
    if (observed->how.signal == 0)
        kg_buf_printf(out, ", and ended with exit code %d", observed->how.exit_code);
    kg_buf_text(out, count_new(proposal) > 0    ? "; it would need (+ is new):\n"
                     : proposal->line_count > 0 ? "; it needs nothing more than it has:\n"
                                                : "; it needs nothing\n");
    for (size_t i = 0; i < proposal->line_count; i++)
        plugin_observe_put_line(out, &proposal->lines[i]);
    put_left(out, proposal);
}

static void plugin_observe_put_json(struct kg_buf *out, const struct observe_subject *subject,
                                    const struct kit_observed *observed,
                                    const struct kit_proposal *proposal)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", subject->manifest->name);
    kg_json_named_int(&json, "exit_code", observed->how.exit_code);
    kg_json_named_int(&json, "signal", observed->how.signal);
    kg_json_named_int(&json, "duration_ms", (int64_t)observed->duration_ms);
    kg_json_named_begin(&json, "lines", '[');
    for (size_t i = 0; i < proposal->line_count; i++) {
        const struct kit_line *line = &proposal->lines[i];
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "capability", line->text);
        kg_json_named_bool(&json, "new", line->is_new);
        kg_json_named_int(&json, "count", (int64_t)line->count);
        kg_json_named_text(&json, "calls", line->calls);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_named_begin(&json, "left_out", '[');
    for (size_t i = 0; i < proposal->left_count; i++) {
        kg_auto(kg_buf_free) struct kg_buf what = {0};
        kg_buf_escaped(&what, kg_str(proposal->left[i].what));
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "what", kg_buf_terminate(&what));
        kg_json_named_text(&json, "why", proposal->left[i].why);
        kg_json_named_int(&json, "count", (int64_t)proposal->left[i].count);
        kg_json_named_text(&json, "calls", proposal->left[i].call);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_named_int(&json, "others", (int64_t)proposal->others);
    kg_json_end(&json, '}');
    kg_buf_char(out, '\n');
}

/* -- what is done with it ---------------------------------------------------------------------- */

static int plugin_observe_replace_text(struct kg_buf *text, void *data, struct kg_err *err)
{
    const struct kg_buf *manifest = data;
    (void)err;
    text->length = 0;
    kg_buf_str(text, kg_buf_view(manifest));
    return 0;
}

static int plugin_observe_write_manifest(struct observe_subject *subject,
                                         const struct kit_proposal *proposal, struct kg_err *err)
{
    const char **lines = kg_alloc_array(proposal->line_count + 1, sizeof(*lines));
    for (size_t i = 0; i < proposal->line_count; i++)
        lines[i] = proposal->lines[i].text;
    int result = set_list(&subject->text, "capabilities", lines, proposal->line_count, err);
    free(lines);
    kg_auto(kg_free) char *folder = kg_path_folder(subject->file);
    if (result == 0 && subject->temporary != NULL)
        result = kg_make_dirs(folder, 0755, err);
    if (result == 0)
        result = edit_file(subject->file, plugin_observe_replace_text, &subject->text, err);
    if (result == 0 && subject->temporary != NULL && chmod(subject->file, 0644) < 0)
        result = kg_fail_errno(err, errno, "chmod %s", subject->file);
    return result;
}

static void plugin_observe_put_grants(struct kg_buf *body, const struct kit_proposal *proposal)
{
    struct kg_json_writer json = kg_json_writer(body);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "capabilities", '[');
    for (size_t i = 0; i < proposal->line_count; i++)
        if (proposal->lines[i].is_new)
            kg_json_text(&json, proposal->lines[i].text);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
}

/* As kaged plugin grant does, and asked for by name: nothing is granted without the option. */
static int grant_lines(const struct cli *cli, const struct observe_subject *subject,
                       const struct kit_proposal *proposal)
{
    static const struct cli_page page = {"POST", "/api/v1/plugins/{0}/grant",
                                         .silence_ms = CLIENT_WAIT_FOREVER,
                                         .words = "granted to {name}\n"};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    if (count_new(proposal) == 0)
        return CLI_DONE;
    plugin_observe_put_grants(&body, proposal);
    const struct page_given given = {.name = subject->name, .body = kg_buf_view(&body)};
    return page_show_with(cli, &page, &given);
}

/* -- the whole --------------------------------------------------------------------------------- */

static int plugin_observe_finish(const struct cli *cli, struct observe_subject *subject,
                                 const struct kit_observed *observed,
                                 const struct kit_proposal *proposal)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    bool fails =
        cli_has(cli, "write") && plugin_observe_write_manifest(subject, proposal, &err) < 0;
    if (cli->json)
        plugin_observe_put_json(&out, subject, observed, proposal);
    else
        plugin_observe_put_report(&out, subject, observed, proposal);
    if (!cli->json && cli_has(cli, "write") && !fails) {
        kg_auto(kg_free) char *folder = kg_path_folder(subject->file);
        kg_buf_printf(&out, "written: %s; to install it: kaged plugin install %s%s\n",
                      subject->file, folder[0] == '/' ? "" : "./", folder);
    }
    fflush(stdout);
    (void)!kg_write_all(cli->json ? STDOUT_FILENO : STDERR_FILENO, out.data, out.length);
    if (fails)
        return print_error(&err);
    return cli_has(cli, "grant") ? grant_lines(cli, subject, proposal) : CLI_DONE;
}

static int observe(const struct cli *cli, const struct config *config,
                   struct observe_subject *subject, int64_t for_sec)
{
    struct kg_err err = {0};
    const struct kit_room_parts parts = {.manifest = subject->manifest,
                                         .dir = subject->dir,
                                         .config = config,
                                         .paths = &cli->paths,
                                         .closed = &subject->grants.closed,
                                         .observed = true,
                                         .asks = subject->terminal >= 0};
    kg_auto(kit_observed_free) struct kit_observed observed = {0};
    kg_auto(kit_proposal_free) struct kit_proposal proposal = {0};
    const struct kit_observe_options options = {
        .for_ms = (uint64_t)for_sec * 1000,
        .output_fd = cli->json ? STDERR_FILENO : STDOUT_FILENO,
        .has_input = subject->terminal < 0 || !isatty(STDIN_FILENO),
        .ask = subject->terminal < 0 ? NULL : ask_operator,
        .data = subject,
    };
    struct kit_room *room = kit_room_new(&parts, &err);
    int result = room != NULL ? kit_observe(room, &options, &observed, &err) : -EINVAL;
    if (result == 0)
        kit_propose(room, &observed, &proposal);
    mark_given(subject, &proposal);
    kit_room_free(room);
    return result < 0 ? print_error(&err)
                      : plugin_observe_finish(cli, subject, &observed, &proposal);
}

static int check_use(const struct cli *cli, struct observe_subject *subject, struct kg_err *err)
{
    if (cli_has(cli, "ask") && (subject->terminal = terminal_open()) < 0) {
        kg_fail(err, KG_E_USAGE, "--ask needs a terminal to ask on");
        return kg_hint(err, "without it, what is needed is reported at the end");
    }
    if (cli_has(cli, "grant") && subject->name == NULL) {
        kg_fail(err, KG_E_USAGE, "--grant works only for an installed plugin");
        return kg_hint(err, "--write makes its manifest instead");
    }
    if (cli_has(cli, "write") && subject->file == NULL) {
        kg_fail(err, KG_E_USAGE, "the manifest of an installed plugin is what you approved");
        return kg_hint(err, "--grant adds lines of your own to it");
    }
    return 0;
}

int cli_plugin_observe(struct cli *cli)
{
    struct kg_err err = {0};
    int64_t for_sec = 0;
    kg_auto(subject_free) struct observe_subject subject = {.given = kg_list_new(0),
                                                            .terminal = -1};
    if (cli_option_number(cli, "for", 1, FOR_SEC_MAX, &for_sec, &err) < 0) {
        print_error(&err);
        return CLI_USAGE;
    }
    struct config *config = config_load(cli->paths.config_file, &err);
    int code;
    if (config == NULL || take_subject(cli, config, &subject, &err) < 0 ||
        check_use(cli, &subject, &err) < 0)
        code = print_error(&err);
    else
        code = observe(cli, config, &subject, for_sec);
    config_free(config);
    return code;
}
