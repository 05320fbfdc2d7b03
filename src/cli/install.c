/*
 * kaged plugin install, approve, uninstall, promote, and kaged project consent: a person sees what
 * a plugin is and may do, and says yes or no. Where nobody can be asked, and nobody said yes
 * beforehand, it is shown, for a log, and nothing is done. Ctrl-C is a no.
 */
#include "cli/install.h"
#include "cli/rows.h"

#include "manifest/manifest.h"
#include "store/store.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#define REFUSED 5 /* the exit code of what was not consented to */

/* -- the door ---------------------------------------------------------------------------------- */

void door_answer_free(struct door_answer *answer)
{
    kg_buf_free(&answer->body);
    kg_doc_free(answer->doc);
    answer->doc = NULL;
}

int door_answer_read(struct door_answer *answer)
{
    struct kg_err err;
    answer->doc = kg_json_read(kg_buf_view(&answer->body), &err);
    return answer->doc != NULL ? CLI_DONE : print_error(&err);
}

/* To the daemon if one runs; else to the store, if that is enough. */
static int open_door(const struct cli *cli, enum door_needs needs, struct door **ret_door)
{
    if (needs != DOOR_DAEMON && !door_daemon_runs(cli))
        return door_to_store(cli, needs == DOOR_FETCH, ret_door);
    *ret_door = door_to_daemon(cli);
    return CLI_DONE;
}

/* -- the dialogue ------------------------------------------------------------------------------ */

void dialogue_end(struct dialogue *dialogue)
{
    kg_close(&dialogue->tty);
    door_answer_free(&dialogue->consent);
    if (dialogue->door != NULL)
        dialogue->door->ops->close(dialogue->door);
    dialogue->door = NULL;
}

static int fail_unasked(struct kg_err *err)
{
    kg_fail(err, KG_E_REFUSED, "there is no terminal to ask on: nothing was done");
    return kg_hint(err, "look at what it is, then agree with --yes");
}

/* Without a person and without --yes there is no way to a yes: what others asked for waits on. */
int dialogue_begin(struct cli *cli, enum door_needs needs, struct dialogue *ret_dialogue)
{
    struct dialogue dialogue = {.cli = cli, .tty = -1, .live = print_is_screen() && !cli->json};
    struct kg_err err;
    if (!cli_has(cli, "yes")) {
        dialogue.tty = terminal_open();
        dialogue.mute = dialogue.tty < 0;
        if (dialogue.mute && needs == DOOR_DAEMON) {
            fail_unasked(&err);
            return print_error(&err);
        }
    }
    int code = open_door(cli, needs, &dialogue.door);
    if (code != CLI_DONE) {
        dialogue_end(&dialogue);
        return code;
    }
    terminal_catch_interrupts();
    *ret_dialogue = dialogue;
    return CLI_DONE;
}

/* -- what is said ------------------------------------------------------------------------------ */

void dialogue_say(const struct dialogue *dialogue, const struct kg_buf *text)
{
    if (!dialogue->cli->json && (dialogue->tty < 0 || isatty(STDOUT_FILENO)))
        print_out(text);
    else if (dialogue->tty >= 0)
        (void)kg_write_all(dialogue->tty, text->data, text->length);
}

static void say_progress(const struct dialogue *dialogue)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    if (!dialogue->live)
        return;
    show_progress(&line, dialogue->consent.doc->root);
    print_cut(&line, 0, print_columns() - 1);
    printf("\r\033[K%s", kg_buf_terminate(&line));
    fflush(stdout);
}

static void end_progress(const struct dialogue *dialogue)
{
    if (dialogue->live)
        fputs("\r\033[K", stdout);
    fflush(stdout);
}

static struct kg_str state_of(const struct dialogue *dialogue)
{
    return cli_text(dialogue->consent.doc->root, "state");
}

static char *cli_install_id_of(const struct dialogue *dialogue)
{
    return kg_str_dup(cli_text(dialogue->consent.doc->root, "id"));
}

/* The error of a consent that failed, as a command's own. */
static int say_failure(const struct dialogue *dialogue)
{
    const struct kg_node *error = kg_node_get(dialogue->consent.doc->root, "error");
    enum kg_code code = kg_code_from_name(cli_text(error, "code"));
    if (dialogue->cli->json)
        print_json(kg_buf_view(&dialogue->consent.body));
    return print_problem(kg_error_row(code)->exit_code, cli_text(error, "message"),
                         cli_text(error, "hint"));
}

/* -- the steps --------------------------------------------------------------------------------- */

static int cli_install_refuse(struct dialogue *dialogue, const char *message)
{
    kg_auto(kg_free) char *id = cli_install_id_of(dialogue);
    dialogue->door->ops->decline(dialogue->door, id);
    return print_problem(REFUSED, kg_str(message), KG_STR(""));
}

/* Asks until it is on its way no more; a yes that was given cannot be taken back. */
static int cli_install_wait_while(struct dialogue *dialogue, const char *state, bool may_stop)
{
    kg_auto(kg_free) char *id = cli_install_id_of(dialogue);
    int code = CLI_DONE;
    while (code == CLI_DONE && kg_str_is(state_of(dialogue), state)) {
        if (may_stop && terminal_was_interrupted())
            break;
        say_progress(dialogue);
        code = dialogue->door->ops->look(dialogue->door, id, &dialogue->consent);
    }
    end_progress(dialogue);
    if (code != CLI_DONE)
        return code;
    if (may_stop && terminal_was_interrupted())
        return cli_install_refuse(dialogue, "interrupted: nothing was done");
    return kg_str_is(state_of(dialogue), "failed") ? say_failure(dialogue) : CLI_DONE;
}

static int cli_install_ask(struct dialogue *dialogue, const struct kg_buf *question)
{
    kg_auto(kg_free) char *text = kg_str_dup(kg_buf_view(question));
    if (terminal_ask(dialogue->tty, text))
        return CLI_DONE;
    return cli_install_refuse(dialogue, terminal_was_interrupted() ? "interrupted: nothing was done"
                                                                   : "declined: nothing was done");
}

static bool is_widened(const struct kg_node *offer)
{
    kg_auto(kg_buf_free) struct kg_buf list = {0};
    return show_new_capabilities(&list, offer) > 0;
}

static void refuse_widening(struct kg_buf *out, const struct kg_node *offer)
{
    kg_buf_text(out, "allow new capabilities: ");
    show_new_capabilities(out, offer);
}

static void refuse_source(struct kg_buf *out, const struct kg_node *offer)
{
    print_words(out, offer,
                "replace {name} from {installed_from} by another plugin of that name, "
                "from {from}");
}

/* --yes is a yes to a plugin, and never one to more than it could do before, or to another. */
static const struct own_yes {
    const char *option;
    bool (*is_needed)(const struct kg_node *offer);
    void (*ask)(struct kg_buf *out, const struct kg_node *offer);
    void (*refuse)(struct kg_buf *out, const struct kg_node *offer); /* "--yes does not ..." */
} own_yeses[] = {
    {"replace-source", show_is_of_other_source, show_source_question, refuse_source},
    {"allow-new-capabilities", is_widened, show_widening_question, refuse_widening},
};

static int check_flags(struct dialogue *dialogue, const struct kg_node *offer)
{
    for (size_t i = 0; i < KG_COUNT(own_yeses); i++) {
        const struct own_yes *row = &own_yeses[i];
        kg_auto(kg_buf_free) struct kg_buf message = {0};
        if (!row->is_needed(offer) || cli_has(dialogue->cli, row->option))
            continue;
        kg_buf_text(&message, "nothing was done: --yes does not ");
        row->refuse(&message, offer);
        int code = cli_install_refuse(dialogue, kg_buf_terminate(&message));
        fprintf(stderr, "hint: if that is what you want, add --%s\n", row->option);
        return code;
    }
    return CLI_DONE;
}

/* A log shows what would be asked. */
static int cli_install_refuse_unasked(struct dialogue *dialogue)
{
    kg_auto(kg_free) char *id = cli_install_id_of(dialogue);
    struct kg_err err;
    if (dialogue->cli->json)
        print_json(kg_buf_view(&dialogue->consent.body));
    dialogue->door->ops->decline(dialogue->door, id);
    fail_unasked(&err);
    return print_error(&err);
}

/* A yes to what was offered, and one more to each thing that needs its own. */
static int get_consent(struct dialogue *dialogue, const struct kg_node *offer)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, question = {0};
    show_offer(&text, dialogue->consent.doc->root, print_colors() && dialogue->live);
    kg_buf_char(&text, '\n');
    dialogue_say(dialogue, &text);
    if (dialogue->mute)
        return cli_install_refuse_unasked(dialogue);
    if (dialogue->tty < 0)
        return check_flags(dialogue, offer);
    show_question(&question, dialogue->consent.doc->root);
    int code = cli_install_ask(dialogue, &question);
    for (size_t i = 0; code == CLI_DONE && i < KG_COUNT(own_yeses); i++) {
        if (!own_yeses[i].is_needed(offer))
            continue;
        question.length = 0;
        own_yeses[i].ask(&question, offer);
        code = cli_install_ask(dialogue, &question);
    }
    return code;
}

/* Whether there is a second yes: to what a server of the operator's own tells of when it runs. */
static bool sees_tools(const struct dialogue *dialogue)
{
    const struct kg_node *consent = dialogue->consent.doc->root;
    return dialogue->door->to_daemon && cli_text(consent, "project_id").length == 0 &&
           kg_str_is(cli_text(kg_node_get(consent, "offer"), "protocol"), "mcp");
}

static void say_done(const struct dialogue *dialogue)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_free) char *self = cli_self(dialogue->cli);
    if (dialogue->cli->json) {
        print_json(kg_buf_view(&dialogue->consent.body));
        return;
    }
    if (dialogue->tty >= 0 && isatty(STDOUT_FILENO))
        kg_buf_char(&text, '\n');
    show_done(&text, dialogue->consent.doc->root, sees_tools(dialogue) ? NULL : self);
    print_out(&text);
}

static bool is_approved(const struct kg_node *consent)
{
    const struct kg_node *offer = kg_node_get(consent, "offer");
    return kg_str_is(cli_text(consent, "kind"), "approve") &&
           kg_str_equal(cli_text(offer, "hash"), cli_text(offer, "approved_hash"));
}

/* There is nothing to ask. */
static int cli_install_say_approved(struct dialogue *dialogue)
{
    kg_auto(kg_free) char *id = cli_install_id_of(dialogue);
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    print_words(&line, dialogue->consent.doc->root, "{plugin} is as it was approved");
    dialogue->door->ops->decline(dialogue->door, id);
    if (dialogue->cli->json)
        print_json(kg_buf_view(&dialogue->consent.body));
    else
        print_line(kg_buf_view(&line));
    return CLI_DONE;
}

int dialogue_decide(struct dialogue *dialogue)
{
    const struct kg_node *offer = kg_node_get(dialogue->consent.doc->root, "offer");
    int code = get_consent(dialogue, offer);
    if (code != CLI_DONE)
        return code;
    kg_auto(kg_free) char *id = cli_install_id_of(dialogue);
    kg_auto(kg_free) char *hash = kg_str_dup(cli_text(offer, "hash"));
    const struct door_yes yes = {
        .hash = hash,
        .allow_new_capabilities = is_widened(offer),
        .replace_source = show_is_of_other_source(offer),
    };
    return dialogue->door->ops->approve(dialogue->door, id, &yes, &dialogue->consent);
}

/* What the operator asked for himself, he asks for again. */
static int want_packages(struct dialogue *dialogue, const char *id)
{
    struct door_wish wish = *dialogue->wish;
    wish.packages = true;
    dialogue->door->ops->decline(dialogue->door, id);
    door_answer_free(&dialogue->consent);
    return dialogue->door->ops->want(dialogue->door, &wish, &dialogue->consent);
}

/* What a project wants stays its wish. */
static int let_packages(struct dialogue *dialogue, const char *id)
{
    const struct door_yes yes = {.packages = true};
    return dialogue->door->ops->approve(dialogue->door, id, &yes, &dialogue->consent);
}

/* With what it needs of npm, if that is wanted: then all of it is fetched again, and offered. */
static int fetch_packages(struct dialogue *dialogue)
{
    kg_auto(kg_buf_free) struct kg_buf question = {0};
    kg_auto(kg_free) char *id = cli_install_id_of(dialogue);
    const struct kg_node *offer = kg_node_get(dialogue->consent.doc->root, "offer");
    int64_t missing = kg_node_number(offer, "packages_missing");
    if (dialogue->mute || missing == 0)
        return CLI_DONE;
    print_words(&question, offer,
                "{name} came without the packages that its package-lock.json "
                "names. Fetch them by npm?");
    kg_auto(kg_free) char *text = kg_str_dup(kg_buf_view(&question));
    if (dialogue->tty >= 0 && !terminal_ask(dialogue->tty, text))
        return CLI_DONE;
    int code = dialogue->wish != NULL ? want_packages(dialogue, id) : let_packages(dialogue, id);
    return code == CLI_DONE ? cli_install_wait_while(dialogue, "fetching", true) : code;
}

/* From a consent that is being fetched to one that is done. */
static int lead(struct dialogue *dialogue)
{
    int code = cli_install_wait_while(dialogue, "fetching", true);
    if (code == CLI_DONE)
        code = fetch_packages(dialogue);
    if (code != CLI_DONE)
        return code;
    const struct kg_node *offer = kg_node_get(dialogue->consent.doc->root, "offer");
    if (kg_node_typed(dialogue->consent.doc->root, "error", KG_OBJECT) != NULL)
        return say_failure(dialogue); /* it waits again, and this is why */
    if (!kg_str_is(state_of(dialogue), "offered") || offer == NULL)
        return print_problem(CLI_FAILED, KG_STR("somebody else has answered meanwhile"),
                             KG_STR("see how: kaged project consent list"));
    if (is_approved(dialogue->consent.doc->root))
        return cli_install_say_approved(dialogue);
    code = dialogue_decide(dialogue);
    if (code == CLI_DONE)
        code = cli_install_wait_while(dialogue, "installing", false);
    if (code == CLI_DONE)
        say_done(dialogue);
    return code == CLI_DONE && sees_tools(dialogue) ? dialogue_see_tools(dialogue) : code;
}

/* -- install, approve -------------------------------------------------------------------------- */

char *door_absolute(const char *source)
{
    if (source[0] == '/' || !store_source_is_path(source))
        return kg_strdup(source);
    kg_auto(kg_free) char *here = getcwd(NULL, 0);
    while (strncmp(source, "./", 2) == 0)
        source += 2;
    return kg_format("%s/%s", here != NULL ? here : "", source);
}

static int cli_install_want(struct cli *cli, const struct door_wish *wish)
{
    kg_auto(dialogue_end) struct dialogue dialogue = {.tty = -1};
    int code = dialogue_begin(cli, wish->source ? DOOR_FETCH : DOOR_STORE, &dialogue);
    if (dialogue.door == NULL)
        return code;
    dialogue.wish = wish;
    code = dialogue.door->ops->want(dialogue.door, wish, &dialogue.consent);
    return code == CLI_DONE ? lead(&dialogue) : code;
}

int dialogue_check_flags(const struct cli *cli)
{
    struct kg_err err;
    for (size_t i = 0; !cli_has(cli, "yes") && i < KG_COUNT(own_yeses); i++) {
        if (!cli_has(cli, own_yeses[i].option))
            continue;
        kg_fail(&err, KG_E_USAGE, "%s: --%s goes with --yes only", cli->words, own_yeses[i].option);
        return print_error(&err);
    }
    return CLI_DONE;
}

/* The names of the plugins that came with this program: "echo, notes". */
static void put_shipped(struct kg_buf *out, const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.')
            kg_buf_printf(out, "%s%s", out->length > 0 ? ", " : "", entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

/* A bare name that is nothing here is that of a plugin that came with this program. NULL: of none.
 */
static char *cli_install_find_source(const char *source, struct kg_err *err)
{
    kg_auto(kg_free) char *share = config_share_dir();
    kg_auto(kg_free) char *folder = kg_format("%s/plugins", share);
    kg_auto(kg_free) char *shipped = kg_format("%s/%s", folder, source);
    kg_auto(kg_buf_free) struct kg_buf names = {0};
    if (!manifest_name_is_valid(kg_str(source)) || access(source, F_OK) == 0)
        return door_absolute(source);
    char *found = realpath(shipped, NULL);
    if (found != NULL)
        return found;
    put_shipped(&names, folder);
    kg_fail(err, KG_E_NOT_FOUND,
            "%s is neither a folder nor an archive here, nor a plugin that comes with kaged",
            source);
    if (names.length > 0)
        kg_hint(err, "kaged comes with %s", kg_buf_terminate(&names));
    return NULL;
}

/* --secret K, and K=NAME where the secret is called otherwise. */
static struct store_own own_lines(const struct cli *cli)
{
    struct store_own own = {cli_option_list(cli, "grant"), cli_option_list(cli, "env")};
    char **secrets = cli_option_list(cli, "secret");
    for (char **text = secrets; *text != NULL; text++) {
        int length = (int)strcspn(*text, "=");
        const char *name = (*text)[length] == '=' ? *text + length + 1 : *text;
        kg_list_add(&own.env, kg_format("%.*s=${secret:%s}", length, *text, name));
    }
    kg_list_free(secrets);
    return own;
}

/* The server has another folder to start from than the operator. */
static void put_arg(struct kg_json_writer *json, const char *arg)
{
    static const char *const starts[] = {"./", "../"};
    bool is_path = strcmp(arg, ".") == 0 || strcmp(arg, "..") == 0;
    for (size_t i = 0; i < KG_COUNT(starts); i++)
        is_path |= strncmp(arg, starts[i], strlen(starts[i])) == 0;
    kg_auto(kg_free) char *real = is_path ? realpath(arg, NULL) : NULL;
    kg_json_text(json, real != NULL ? real : arg);
}

/* "Name: value" each. */
static void cli_install_put_headers(struct kg_json_writer *json, char *const *headers)
{
    if (headers[0] == NULL)
        return;
    kg_json_named_begin(json, "headers", '{');
    for (; *headers != NULL; headers++) {
        struct kg_str value = kg_str(*headers);
        kg_auto(kg_free) char *name = kg_str_dup(kg_str_cut(&value, ':'));
        while (value.length > 0 && value.data[0] == ' ')
            value = kg_str_from(value, 1);
        kg_json_named_str(json, name, value);
    }
    kg_json_end(json, '}');
}

/* What the command says of a server; false: nothing. */
static bool cli_install_put_server(struct kg_buf *out, const struct cli *cli)
{
    const char *name = cli_option_value(cli, "name");
    struct kg_json_writer json = kg_json_writer(out);
    char **headers = cli_option_list(cli, "header");
    bool has_args = cli->argument_count > 1 || cli_has(cli, "no-args");
    if (name == NULL && !has_args && headers[0] == NULL) {
        kg_list_free(headers);
        return false;
    }
    kg_json_begin(&json, '{');
    if (name != NULL)
        kg_json_named_text(&json, "name", name);
    if (has_args)
        kg_json_named_begin(&json, "args", '[');
    for (size_t i = 1; i < cli->argument_count; i++)
        put_arg(&json, cli->arguments[i]);
    if (has_args)
        kg_json_end(&json, ']');
    cli_install_put_headers(&json, headers);
    kg_json_end(&json, '}');
    kg_list_free(headers);
    return true;
}

int cli_plugin_install(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf server = {0};
    struct kg_err err = {0};
    if (cli_is_script_file(cli_argument(cli, 0)))
        return cli_script_install(cli, cli_argument(cli, 0));
    kg_auto(kg_free) char *source = cli_install_find_source(cli_argument(cli, 0), &err);
    if (source == NULL)
        return print_error(&err);
    kg_auto(store_own_free) struct store_own own = own_lines(cli);
    const struct door_wish wish = {
        .kind = "install",
        .source = source,
        .version = cli_option_value(cli, "version"),
        .own = store_own_is_empty(&own) ? NULL : &own,
        .server = cli_install_put_server(&server, cli) ? kg_buf_terminate(&server) : NULL,
    };
    int code = dialogue_check_flags(cli);
    if (code == CLI_DONE && store_own_check(&own, &err) < 0)
        code = print_error(&err);
    return code == CLI_DONE ? cli_install_want(cli, &wish) : code;
}

/* One after the other; each has a yes or no of its own. */
int cli_plugin_approve(struct cli *cli)
{
    int worst = dialogue_check_flags(cli);
    if (worst != CLI_DONE)
        return worst;
    for (size_t i = 0; i < cli->argument_count && !terminal_was_interrupted(); i++) {
        int code = CLI_DONE;
        if (!cli_script_approve(cli, cli->arguments[i], &code))
            code = cli_install_want(
                cli, &(struct door_wish){.kind = "approve", .plugin = cli->arguments[i]});
        if (code != CLI_DONE)
            worst = code;
    }
    return worst;
}

/* -- uninstall, promote ------------------------------------------------------------------------ */

int cli_plugin_uninstall(struct cli *cli)
{
    kg_auto(door_answer_free) struct door_answer removed = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct door *door = NULL;
    int code = open_door(cli, DOOR_STORE, &door);
    if (code != CLI_DONE)
        return code;
    code = door->ops->uninstall(door, cli_argument(cli, 0), &removed);
    door->ops->close(door);
    if (code != CLI_DONE)
        return code;
    if (cli->json) {
        print_json(kg_buf_view(&removed.body));
        return CLI_DONE;
    }
    show_uninstalled(&text, removed.doc->root);
    print_out(&text);
    return CLI_DONE;
}

int cli_plugin_promote(struct cli *cli)
{
    kg_auto(door_answer_free) struct door_answer plugin = {0};
    struct door *door = NULL;
    int code = open_door(cli, DOOR_STORE, &door);
    if (code != CLI_DONE)
        return code;
    code = door->ops->promote(door, cli_argument(cli, 0), &plugin);
    door->ops->close(door);
    if (code == CLI_DONE && cli->json)
        print_json(kg_buf_view(&plugin.body));
    else if (code == CLI_DONE)
        printf("✓ %s is available to every project\n", cli_argument(cli, 0));
    return code;
}

/* -- consents of projects ---------------------------------------------------------------------- */

static const struct cell source_cells[] = {
    {"SOURCE", "!source kind=install", "not specified", NULL},
    {"SOURCE", NULL, "{source}", NULL},
    {0}};
static const struct row consent_rows[] = {
    {"!consents", .words = "nothing waits for consent\n", .aside = true},
    {.each = "consents",
     .table = "ID={id}; STATE={state}; PROJECT={project_id}; PLUGIN={plugin}; VERSION={version}; "
              "SOURCE",
     .cells = source_cells},
    {0},
};

int cli_consent_list(struct cli *cli)
{
    static const struct cli_page page = {"GET", "/api/v1/consents", .rows = consent_rows};
    struct kg_err err;
    const char *act = cli_argument(cli, 0);
    if (act != NULL && strcmp(act, "list") != 0) {
        kg_fail(&err, KG_E_USAGE, "unknown command: %s %" KG_S_WORD, cli->words, act);
        kg_hint(&err, "list the commands with: kaged help project");
        return print_error(&err);
    }
    return page_show(cli, &page);
}

/* "Project web wants plugin oh-my-pi." and where it would come from. */
static void put_wish(struct kg_buf *out, const struct kg_node *consent, const char *path)
{
    struct kg_str source = cli_text(consent, "source");
    bool of_project = cli_text(consent, "project_id").length > 0;
    print_words(out, consent,
                of_project ? "Project {project_id} wants plugin {plugin}.\n"
                           : "Plugin {plugin}.\n");
    print_fact(out, 0, "version: ", cli_text(consent, "version"));
    if (path != NULL)
        print_fact(out, 0, "source: ", kg_str(path));
    else if (!kg_str_is(cli_text(consent, "kind"), "activate"))
        print_fact(out, 0, "source: ", source.length > 0 ? source : KG_STR("not specified"));
}

/* Whether there is something to say yes to; where there is none, the daemon says why. */
static bool can_be_fetched(const struct kg_node *consent, const char *path)
{
    static const char *const states[] = {"wanted", "failed", "expired"};
    bool waits = false;
    for (size_t i = 0; i < KG_COUNT(states); i++)
        waits |= kg_str_is(cli_text(consent, "state"), states[i]);
    return waits && !kg_str_is(cli_text(consent, "kind"), "activate") &&
           (path != NULL || cli_text(consent, "source").length > 0);
}

/* What was asked for by a project is fetched only after a yes to its source. */
static int cli_install_let_fetch(struct dialogue *dialogue, const char *path)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, question = {0};
    kg_auto(kg_free) char *id = cli_install_id_of(dialogue);
    const struct kg_node *consent = dialogue->consent.doc->root;
    put_wish(&text, consent, path);
    dialogue_say(dialogue, &text);
    kg_buf_text(&question, "Fetch it, to look at it?");
    int code = CLI_DONE;
    if (dialogue->tty >= 0 && can_be_fetched(consent, path))
        code = cli_install_ask(dialogue, &question);
    const struct door_yes yes = {.path = path};
    return code == CLI_DONE
               ? dialogue->door->ops->approve(dialogue->door, id, &yes, &dialogue->consent)
               : code;
}

int cli_consent_approve(struct cli *cli)
{
    kg_auto(dialogue_end) struct dialogue dialogue = {.tty = -1};
    kg_auto(kg_free) char *path = cli_argument(cli, 1) ? door_absolute(cli_argument(cli, 1)) : NULL;
    int code = dialogue_check_flags(cli);
    if (code == CLI_DONE)
        code = dialogue_begin(cli, DOOR_DAEMON, &dialogue);
    if (dialogue.door == NULL)
        return code;
    code = dialogue.door->ops->look(dialogue.door, cli_argument(cli, 0), &dialogue.consent);
    if (code == CLI_DONE && !kg_str_is(state_of(&dialogue), "offered") &&
        !kg_str_is(state_of(&dialogue), "fetching"))
        code = cli_install_let_fetch(&dialogue, path);
    return code == CLI_DONE ? lead(&dialogue) : code;
}

const struct cli_page page_consent_decline = {"POST", "/api/v1/consents/{1}/decline",
                                              .words = "declined: {plugin}\n"};
