/*
 * kaged plugin install, approve, uninstall, promote, and kaged project consent: a person sees what
 * a plugin is and may do, and says yes or no. Where nobody can be asked, and nobody said yes
 * beforehand, it is shown, for a log, and nothing is done. Ctrl-C is a no.
 */
#include "cli/install.h"

#include "manifest/manifest.h"

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
    kg_fail(err, KG_E_REFUSED, "there is no terminal to ask on, so nothing was done");
    return kg_hint(err, "say yes beforehand with --yes, after a look at what it is");
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

/* What a question is about must stand where the question stands. */
static void say(const struct dialogue *dialogue, const struct kg_buf *text)
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

static char *id_of(const struct dialogue *dialogue)
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

static int refuse(struct dialogue *dialogue, const char *message)
{
    kg_auto(kg_free) char *id = id_of(dialogue);
    dialogue->door->ops->decline(dialogue->door, id);
    return print_problem(REFUSED, kg_str(message), KG_STR(""));
}

/* Asks until it is on its way no more; a yes that was given cannot be taken back. */
static int wait_while(struct dialogue *dialogue, const char *state, bool may_stop)
{
    kg_auto(kg_free) char *id = id_of(dialogue);
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
        return refuse(dialogue, "interrupted: nothing was done");
    return kg_str_is(state_of(dialogue), "failed") ? say_failure(dialogue) : CLI_DONE;
}

static int ask(struct dialogue *dialogue, const struct kg_buf *question)
{
    kg_auto(kg_free) char *text = kg_str_dup(kg_buf_view(question));
    if (terminal_ask(dialogue->tty, text))
        return CLI_DONE;
    return refuse(dialogue, terminal_was_interrupted() ? "interrupted: nothing was done"
                                                       : "declined: nothing was done");
}

/* --yes is a yes to a plugin, and never one to more than it could do before. */
static int check_flags(struct dialogue *dialogue, const struct kg_node *offer, size_t widened)
{
    kg_auto(kg_buf_free) struct kg_buf list = {0}, message = {0};
    if (widened == 0 || cli_has(dialogue->cli, "allow-new-capabilities"))
        return CLI_DONE;
    show_new_capabilities(&list, offer);
    kg_buf_printf(&message, "nothing was done: --yes does not allow new capabilities: %s",
                  kg_buf_terminate(&list));
    int code = refuse(dialogue, kg_buf_terminate(&message));
    fputs("hint: if that is what you want, add --allow-new-capabilities\n", stderr);
    return code;
}

/* A log shows what would be asked. */
static int refuse_unasked(struct dialogue *dialogue)
{
    kg_auto(kg_free) char *id = id_of(dialogue);
    struct kg_err err;
    if (dialogue->cli->json)
        print_json(kg_buf_view(&dialogue->consent.body));
    dialogue->door->ops->decline(dialogue->door, id);
    fail_unasked(&err);
    return print_error(&err);
}

/* A yes to what was offered, and one more to each widening of it. */
static int get_consent(struct dialogue *dialogue, const struct kg_node *offer, bool *ret_widens)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, question = {0}, list = {0};
    size_t widened = show_new_capabilities(&list, offer);
    show_offer(&text, dialogue->consent.doc->root, print_colors() && dialogue->live);
    kg_buf_char(&text, '\n');
    say(dialogue, &text);
    *ret_widens = widened > 0;
    if (dialogue->mute)
        return refuse_unasked(dialogue);
    if (dialogue->tty < 0)
        return check_flags(dialogue, offer, widened);
    show_question(&question, dialogue->consent.doc->root);
    int code = ask(dialogue, &question);
    if (code == CLI_DONE && widened > 0) {
        question.length = 0;
        show_widening_question(&question, offer);
        code = ask(dialogue, &question);
    }
    return code;
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
    show_done(&text, dialogue->consent.doc->root, self);
    print_out(&text);
}

static bool is_approved(const struct kg_node *consent)
{
    const struct kg_node *offer = kg_node_get(consent, "offer");
    return kg_str_is(cli_text(consent, "kind"), "approve") &&
           kg_str_equal(cli_text(offer, "hash"), cli_text(offer, "approved_hash"));
}

/* There is nothing to ask. */
static int say_approved(struct dialogue *dialogue)
{
    kg_auto(kg_free) char *id = id_of(dialogue);
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
    bool widens = false;
    const struct kg_node *offer = kg_node_get(dialogue->consent.doc->root, "offer");
    int code = get_consent(dialogue, offer, &widens);
    if (code != CLI_DONE)
        return code;
    kg_auto(kg_free) char *id = id_of(dialogue);
    kg_auto(kg_free) char *hash = kg_str_dup(cli_text(offer, "hash"));
    const struct door_yes yes = {.hash = hash, .allow_new_capabilities = widens};
    return dialogue->door->ops->approve(dialogue->door, id, &yes, &dialogue->consent);
}

/* From a consent that is being fetched to one that is done. */
static int lead(struct dialogue *dialogue)
{
    int code = wait_while(dialogue, "fetching", true);
    if (code != CLI_DONE)
        return code;
    const struct kg_node *offer = kg_node_get(dialogue->consent.doc->root, "offer");
    if (kg_node_typed(dialogue->consent.doc->root, "error", KG_OBJECT) != NULL)
        return say_failure(dialogue); /* it waits again, and this is why */
    if (!kg_str_is(state_of(dialogue), "offered") || offer == NULL)
        return print_problem(CLI_FAILED, KG_STR("somebody else has answered meanwhile"),
                             KG_STR("see how: kaged project consent list"));
    if (is_approved(dialogue->consent.doc->root))
        return say_approved(dialogue);
    code = dialogue_decide(dialogue);
    if (code == CLI_DONE)
        code = wait_while(dialogue, "installing", false);
    if (code == CLI_DONE)
        say_done(dialogue);
    return code;
}

/* -- install, approve -------------------------------------------------------------------------- */

char *door_absolute(const char *source)
{
    if (source[0] == '/' || strstr(source, "://") != NULL)
        return kg_strdup(source);
    kg_auto(kg_free) char *here = getcwd(NULL, 0);
    while (strncmp(source, "./", 2) == 0)
        source += 2;
    return kg_format("%s/%s", here != NULL ? here : "", source);
}

static int want(struct cli *cli, const struct door_wish *wish)
{
    kg_auto(dialogue_end) struct dialogue dialogue = {.tty = -1};
    int code = dialogue_begin(cli, wish->source ? DOOR_FETCH : DOOR_STORE, &dialogue);
    if (dialogue.door == NULL)
        return code;
    code = dialogue.door->ops->want(dialogue.door, wish, &dialogue.consent);
    return code == CLI_DONE ? lead(&dialogue) : code;
}

int dialogue_check_flags(const struct cli *cli)
{
    struct kg_err err;
    if (cli_has(cli, "yes") || !cli_has(cli, "allow-new-capabilities"))
        return CLI_DONE;
    kg_fail(&err, KG_E_USAGE, "%s: --allow-new-capabilities goes with --yes only", cli->words);
    return print_error(&err);
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
static char *find_source(const char *source, struct kg_err *err)
{
    kg_auto(kg_free) char *share = cli_share_dir();
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
            "%s is neither a folder or an archive here, nor a plugin that came "
            "with kaged",
            source);
    if (names.length > 0)
        kg_hint(err, "with kaged came %s", kg_buf_terminate(&names));
    return NULL;
}

int cli_plugin_install(struct cli *cli)
{
    struct kg_err err = {0};
    kg_auto(kg_free) char *source = find_source(cli_argument(cli, 0), &err);
    if (source == NULL)
        return print_error(&err);
    const struct door_wish wish = {
        .kind = "install", .source = source, .version = cli_option_value(cli, "version")};
    int code = dialogue_check_flags(cli);
    return code == CLI_DONE ? want(cli, &wish) : code;
}

/* One after the other; each has a yes or no of its own. */
int cli_plugin_approve(struct cli *cli)
{
    int worst = dialogue_check_flags(cli);
    if (worst != CLI_DONE)
        return worst;
    for (size_t i = 0; i < cli->argument_count && !terminal_was_interrupted(); i++) {
        int code = want(cli, &(struct door_wish){.kind = "approve", .plugin = cli->arguments[i]});
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
    code = door->ops->uninstall(door, cli_argument(cli, 0), cli_has(cli, "force"),
                                cli_has(cli, "keep-storage"), &removed);
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

static void put_consents(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"ID",      "STATE",  "PROJECT", "PLUGIN",
                                           "VERSION", "SOURCE", NULL};
    static const char *const keys[] = {"id", "state", "project_id", "plugin", "version", NULL};
    const struct kg_node *consents = kg_node_list(answer, "consents");
    (void)out, (void)cli;
    if (consents->count == 0) {
        fputs("nothing waits for consent\n", stderr);
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < consents->count; i++) {
        const struct kg_node *consent = &consents->items[i];
        struct kg_str source = cli_text(consent, "source");
        table_texts(table, consent, keys);
        bool none = source.length == 0 && kg_str_is(cli_text(consent, "kind"), "install");
        table_cell(table, none ? KG_STR("not specified") : source, NULL);
    }
    table_print(table);
}

int cli_consent_list(struct cli *cli)
{
    struct kg_err err;
    const char *act = cli_argument(cli, 0);
    if (act != NULL && strcmp(act, "list") != 0) {
        kg_fail(&err, KG_E_USAGE, "unknown command: %s %.100s", cli->words, act);
        kg_hint(&err, "list the commands with: kaged help project");
        return print_error(&err);
    }
    const struct client_request request = {.method = "GET", .target = "/api/v1/consents"};
    return cli_show(cli, &request, put_consents);
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
static int let_fetch(struct dialogue *dialogue, const char *path)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, question = {0};
    kg_auto(kg_free) char *id = id_of(dialogue);
    const struct kg_node *consent = dialogue->consent.doc->root;
    put_wish(&text, consent, path);
    say(dialogue, &text);
    kg_buf_text(&question, "Fetch it, to look at it?");
    int code = CLI_DONE;
    if (dialogue->tty >= 0 && can_be_fetched(consent, path))
        code = ask(dialogue, &question);
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
        code = let_fetch(&dialogue, path);
    return code == CLI_DONE ? lead(&dialogue) : code;
}

static void put_declined(struct kg_buf *out, const struct cli *cli, const struct kg_node *consent)
{
    (void)cli;
    print_words(out, consent, "declined: {plugin}\n");
}

int cli_consent_decline(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    client_put_target(&target, "consents", cli_argument(cli, 0), "/decline");
    const struct client_request request = {.method = "POST", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_declined);
}
