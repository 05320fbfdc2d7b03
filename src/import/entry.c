/*
 * One entry of a client's file: the command line or the URL that somebody pasted there becomes a
 * source of ours. Whatever would fetch code when it is started is taken apart instead of run; what
 * names a key gives it up to the store of secrets.
 */
#include "import/internal.h"

#include "store/server.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define WORDS_MAX 128
#define PAIRS_MAX 48
#define WORD_MAX  4096
#define REFERENCE "${env."

const char *const import_kind_names[] = {
    [IMPORT_NPM] = "npm",         [IMPORT_PROGRAM] = "program", [IMPORT_REMOTE] = "remote",
    [IMPORT_NOT_YET] = "not-yet", [IMPORT_BAD] = "bad",
};

/* An entry on its way. */
struct work {
    struct import_server *server;
    const struct import_entry *entry;
    char **words;  /* of the command; owned */
    bool in_value; /* of a variable: a key is as good as any text there ... */
    bool had_key;  /* ... but must be told */
    bool is_unset; /* and so must one that nobody has set */
};

static void import_entry_give_up(struct work *work, enum import_kind kind, char *why)
{
    free(work->server->why);
    work->server->kind = kind;
    work->server->why = why;
}

/* -- keys -------------------------------------------------------------------------------------- */

/* A setting's name of any text: local.toml has some keys of its own. */
static char *key_name(struct kg_str text)
{
    static const char *const taken[] = {"installed", "installed_from", "local",        "config",
                                        "hash",      "process",        "system_config"};
    struct kg_buf name = {0};
    for (size_t i = 0; i < KG_COUNT(taken); i++)
        if (kg_str_is(text, taken[i]))
            kg_buf_text(&name, "key_");
    for (size_t i = 0; i < text.length && name.length < 40; i++)
        kg_buf_char(&name, kg_is_letter_or_digit(text.data[i]) ? text.data[i] : '_');
    return kg_buf_terminate(&name);
}

static void import_entry_add_key(struct import_server *server, char *name, struct kg_str value)
{
    server->keys = kg_realloc(server->keys, (server->key_count + 1) * sizeof(*server->keys));
    server->keys[server->key_count++] =
        (struct import_key){name, value.data != NULL ? kg_str_dup(value) : NULL};
}

/* Appends ${env.NAME}, which stands for it from now on. */
static void import_entry_put_key(struct work *work, struct kg_str text, struct kg_str value,
                                 struct kg_buf *out)
{
    struct import_server *server = work->server;
    if (work->in_value) {
        kg_buf_str(out, value);
        work->had_key = true;
        work->is_unset |= value.data == NULL;
        return;
    }
    kg_auto(kg_free) char *name = key_name(text);
    kg_buf_printf(out, REFERENCE "%s}", name);
    for (size_t i = 0; i < server->key_count; i++)
        if (strcmp(server->keys[i].name, name) == 0)
            return;
    import_entry_add_key(server, kg_steal(&name), value);
}

/* -- what stands for something else ------------------------------------------------------------ */

static void import_entry_put_variable(struct work *work, struct kg_str name,
                                      struct kg_str otherwise, struct kg_buf *out)
{
    kg_auto(kg_free) char *variable = kg_str_dup(name);
    const char *value = getenv(variable);
    if (value != NULL && import_is_key(name, kg_str(value)))
        import_entry_put_key(work, name, kg_str(value), out);
    else if (value != NULL)
        kg_buf_text(out, value);
    else if (otherwise.data != NULL)
        kg_buf_str(out, otherwise);
    else
        import_entry_put_key(work, name, KG_STR_NULL, out);
}

static bool import_entry_is_variable(struct kg_str name)
{
    bool good = name.length > 0 && name.length < 128 && !kg_is_digit(name.data[0]);
    for (size_t i = 0; good && i < name.length; i++)
        good = kg_is_letter_or_digit(name.data[i]) || name.data[i] == '_';
    return good;
}

/* inside: what stands between the braces. False: nobody knows what it means. */
static bool import_entry_put_reference(struct work *work, struct kg_str inside, struct kg_buf *out)
{
    if (kg_str_is(inside, "workspaceFolder") || kg_str_is(inside, "workspaceRoot")) {
        kg_buf_text(out, work->entry->folder);
        return true;
    }
    if (kg_str_is(inside, "userHome")) {
        import_entry_put_variable(work, KG_STR("HOME"), KG_STR_NULL, out);
        return true;
    }
    if (kg_str_starts(inside, "input:")) {
        import_entry_put_key(work, kg_str_from(inside, strlen("input:")), KG_STR_NULL, out);
        return true;
    }
    inside = kg_str_starts(inside, "env:") ? kg_str_from(inside, strlen("env:")) : inside;
    const char *colon = memmem(inside.data, inside.length, ":-", 2);
    struct kg_str name = colon ? kg_str_first(inside, (size_t)(colon - inside.data)) : inside;
    if (!import_entry_is_variable(name))
        return false;
    import_entry_put_variable(work, name,
                              colon ? kg_str_from(inside, name.length + 2) : KG_STR_NULL, out);
    return true;
}

/* Where the next "${...}" or "{env:...}" begins; NULL: there is none. */
static const char *next_reference(struct kg_str text, struct kg_str *ret_inside)
{
    for (size_t i = 0; i < text.length; i++) {
        struct kg_str rest = kg_str_from(text, i);
        size_t skip = kg_str_starts(rest, "${") ? 2 : kg_str_starts(rest, "{env:") ? 1 : 0;
        const char *end = skip > 0 ? memchr(rest.data, '}', rest.length) : NULL;
        if (end == NULL)
            continue;
        *ret_inside = (struct kg_str){rest.data + skip, (size_t)(end - rest.data) - skip};
        return rest.data;
    }
    return NULL;
}

static void expand(struct work *work, struct kg_str text, struct kg_buf *out)
{
    struct kg_str inside;
    const char *begin;
    if (kg_str_starts(text, "~/")) {
        import_entry_put_variable(work, KG_STR("HOME"), KG_STR_NULL, out);
        text = kg_str_from(text, 1);
    }
    while ((begin = next_reference(text, &inside)) != NULL) {
        kg_buf_append(out, text.data, (size_t)(begin - text.data));
        size_t end = (size_t)(inside.data + inside.length + 1 - text.data);
        if (!import_entry_put_reference(work, inside, out))
            kg_buf_append(out, begin, (size_t)(text.data + end - begin));
        text = kg_str_from(text, end);
    }
    kg_buf_str(out, text);
}

/* A number or true is as good as the text of it. */
static bool import_entry_put_value(struct work *work, const struct kg_node *node,
                                   struct kg_buf *out)
{
    if (node->type == KG_STRING && node->text.length <= WORD_MAX &&
        memchr(node->text.data, '\0', node->text.length) == NULL)
        expand(work, node->text, out);
    else if (node->type == KG_NUMBER || node->type == KG_BOOL)
        kg_json_put_node(out, node);
    else
        return false;
    return true;
}

/* -- variables and headers --------------------------------------------------------------------- */

static bool has_reference(const struct kg_buf *text)
{
    return text->length > 0 && memmem(text->data, text->length, REFERENCE, strlen(REFERENCE));
}

static void import_entry_add_header(struct work *work, struct kg_str name,
                                    const struct kg_buf *value)
{
    kg_auto(kg_buf_free) struct kg_buf pair = {0};
    kg_buf_printf(&pair, "%.*s=", KG_STR_ARG(name));
    if (!has_reference(value) && import_is_key(name, kg_buf_view(value)))
        import_entry_put_key(work, name, kg_buf_view(value), &pair);
    else
        kg_buf_str(&pair, kg_buf_view(value));
    kg_list_add(&work->server->headers, kg_str_dup(kg_buf_view(&pair)));
}

/* A variable is a key, or it is not; what it was made of does not matter. */
static bool add_variable(struct work *work, struct kg_str name, const struct kg_node *node)
{
    kg_auto(kg_buf_free) struct kg_buf value = {0};
    work->in_value = true;
    work->had_key = work->is_unset = false;
    bool is_good = import_entry_put_value(work, node, &value);
    work->in_value = false;
    if (!is_good)
        return false;
    if (work->had_key || import_is_key(name, kg_buf_view(&value)))
        import_entry_add_key(work->server, kg_str_dup(name),
                             work->is_unset ? KG_STR_NULL : kg_buf_view(&value));
    else
        kg_list_add(&work->server->env,
                    kg_format("%.*s=%.*s", KG_STR_ARG(name), KG_STR_ARG(kg_buf_view(&value))));
    return true;
}

static bool is_header(struct kg_str name)
{
    for (size_t i = 0; i < name.length; i++)
        if (!kg_is_letter_or_digit(name.data[i]) && name.data[i] != '-' && name.data[i] != '_')
            return false;
    return name.length > 0;
}

static bool add_written_header(struct work *work, struct kg_str name, const struct kg_node *node)
{
    kg_auto(kg_buf_free) struct kg_buf value = {0};
    if (!is_header(name) || !import_entry_put_value(work, node, &value))
        return false;
    import_entry_add_header(work, name, &value);
    return true;
}

static bool add_written_variable(struct work *work, struct kg_str name, const struct kg_node *node)
{
    return import_entry_is_variable(name) && !kg_str_starts(name, "KAGED_") &&
           add_variable(work, name, node);
}

static void take_pairs(struct work *work, const char *key,
                       bool (*add)(struct work *work, struct kg_str name,
                                   const struct kg_node *node))
{
    const struct kg_node *pairs = kg_node_typed(work->entry->node, key, KG_OBJECT);
    for (uint32_t i = 0; pairs != NULL && i < pairs->count && i < PAIRS_MAX; i++)
        if (!add(work, pairs->members[i].key, &pairs->members[i].value))
            kg_list_add(&work->server->dangers,
                        kg_format("%s: %.*s is left out: it is not plain text", key,
                                  KG_STR_CUT(pairs->members[i].key, KG_CUT_NAME)));
}

/* Codex names variables that hold them. */
static void take_headers_of_variables(struct work *work)
{
    const struct kg_node *pairs = kg_node_typed(work->entry->node, "env_http_headers", KG_OBJECT);
    struct kg_str bearer = kg_node_text(work->entry->node, "bearer_token_env_var");
    for (uint32_t i = 0; pairs != NULL && i < pairs->count && i < PAIRS_MAX; i++) {
        kg_auto(kg_buf_free) struct kg_buf value = {0};
        const struct kg_member *pair = &pairs->members[i];
        if (!is_header(pair->key) || pair->value.type != KG_STRING ||
            !import_entry_is_variable(pair->value.text))
            continue;
        import_entry_put_variable(work, pair->value.text, KG_STR_NULL, &value);
        import_entry_add_header(work, pair->key, &value);
    }
    if (import_entry_is_variable(bearer)) {
        kg_auto(kg_buf_free) struct kg_buf value = {0};
        kg_buf_text(&value, "Bearer ");
        import_entry_put_variable(work, bearer, KG_STR_NULL, &value);
        import_entry_add_header(work, KG_STR("Authorization"), &value);
    }
}

/* -- words ------------------------------------------------------------------------------------- */

/* "--api-key" before a value, or before "=" and a value: what it is called; empty: neither. */
static struct kg_str option_name(struct kg_str word)
{
    while (word.length > 0 && word.data[0] == '-')
        word = kg_str_from(word, 1);
    return kg_str_cut(&word, '=');
}

/* Where in a word a key begins; its length: there is none. */
static size_t key_at(struct kg_str before, struct kg_str word)
{
    const char *equals = word.data[0] == '-' ? memchr(word.data, '=', word.length) : NULL;
    if (equals != NULL) {
        struct kg_str value = kg_str_from(word, (size_t)(equals + 1 - word.data));
        return import_is_key(option_name(word), value) ? (size_t)(equals + 1 - word.data)
                                                       : word.length;
    }
    bool is_named = before.length > 1 && before.data[0] == '-' &&
                    memchr(before.data, '=', before.length) == NULL && word.data[0] != '-' &&
                    import_is_key(option_name(before), word);
    return is_named || import_word_is_key(word) ? 0 : word.length;
}

static void warn_of_key(struct work *work)
{
    static const char words[] = "a key is among its arguments: every user of this machine can see "
                                "it in the list of processes; a variable would not be seen";
    if (!kg_list_has(work->server->dangers, kg_str(words)))
        kg_list_add(&work->server->dangers, kg_strdup(words));
}

/* A path from the file's folder means another one elsewhere. */
static void import_entry_put_path(const struct work *work, struct kg_str word, struct kg_buf *out)
{
    bool is_relative = kg_str_is(word, ".") || kg_str_is(word, "..") || kg_str_starts(word, "./") ||
                       kg_str_starts(word, "../");
    kg_auto(kg_free) char *path =
        is_relative ? kg_format("%s/%.*s", work->entry->folder, KG_STR_ARG(word)) : NULL;
    kg_auto(kg_free) char *real = path ? realpath(path, NULL) : NULL;
    if (real != NULL)
        kg_buf_text(out, real);
    else
        kg_buf_str(out, word);
}

static void add_argument(struct work *work, const char *before_or_null, const char *word)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_str text = kg_str(word);
    size_t count = kg_list_count(work->server->args);
    size_t key = text.length > 0 ? key_at(kg_str(before_or_null), text) : 0;
    if (strstr(word, REFERENCE) != NULL || key == text.length) {
        import_entry_put_path(work, text, &out);
    } else {
        kg_auto(kg_free) char *name = kg_format("ARG_%zu", count + 1);
        kg_buf_str(&out, kg_str_first(text, key));
        import_entry_put_key(work, kg_str(name), kg_str_from(text, key), &out);
    }
    if (has_reference(&out))
        warn_of_key(work);
    kg_list_add(&work->server->args, kg_str_dup(kg_buf_view(&out)));
}

static void import_entry_add_arguments(struct work *work, size_t from)
{
    for (char **word = work->words + from; *word != NULL; word++)
        add_argument(work, word > work->words ? word[-1] : NULL, *word);
}

/* False: they cannot be read. */
static bool import_entry_add_words(struct work *work, const struct kg_node *node)
{
    for (uint32_t i = 0; node != NULL && i < node->count; i++) {
        kg_auto(kg_buf_free) struct kg_buf word = {0};
        if (i >= WORDS_MAX || !import_entry_put_value(work, &node->items[i], &word))
            return false;
        kg_list_add(&work->words, kg_str_dup(kg_buf_view(&word)));
    }
    return true;
}

/* As one list, whichever way a client writes it. */
static bool import_entry_take_words(struct work *work)
{
    const struct kg_node *node = work->entry->node;
    const struct kg_node *command = kg_node_get(node, "command");
    if (command != NULL && command->type == KG_STRING) {
        kg_auto(kg_buf_free) struct kg_buf word = {0};
        if (!import_entry_put_value(work, command, &word))
            return false;
        kg_list_add(&work->words, kg_str_dup(kg_buf_view(&word)));
    } else if (command != NULL &&
               (command->type != KG_ARRAY || !import_entry_add_words(work, command))) {
        return false;
    }
    return import_entry_add_words(work, kg_node_typed(node, "args", KG_ARRAY));
}

/* -- remote ------------------------------------------------------------------------------------ */

static bool import_entry_is_loopback(const char *url)
{
    static const char *const hosts[] = {"http://127.0.0.1", "http://localhost", "http://[::1]"};
    for (size_t i = 0; i < KG_COUNT(hosts); i++) {
        size_t length = strlen(hosts[i]);
        if (strncmp(url, hosts[i], length) == 0 && strchr(":/", url[length]) != NULL)
            return true;
    }
    return false;
}

static void import_entry_take_url(struct work *work, const char *url)
{
    if (strncmp(url, "https://", 8) != 0 && !import_entry_is_loopback(url)) {
        import_entry_give_up(work, IMPORT_BAD, kg_strdup("its URL is not https://"));
        return;
    }
    work->server->kind = IMPORT_REMOTE;
    work->server->source = kg_format("mcp+%s", url);
}

/* "Name: value" */
static void take_header_word(struct work *work, const char *word)
{
    kg_auto(kg_buf_free) struct kg_buf value = {0};
    struct kg_str rest = kg_str(word), name = kg_str_cut(&rest, ':');
    while (rest.length > 0 && rest.data[0] == ' ')
        rest = kg_str_from(rest, 1);
    kg_buf_str(&value, rest);
    if (is_header(name))
        import_entry_add_header(work, name, &value);
}

/* A bridge to a remote server, which we are ourselves. */
static void take_bridge(struct work *work, size_t from)
{
    const char *url = NULL;
    for (char **word = work->words + from; *word != NULL; word++) {
        if (strcmp(*word, "--header") == 0 && word[1] != NULL)
            take_header_word(work, *++word);
        else if (url == NULL && strstr(*word, "://") != NULL)
            url = *word;
    }
    if (url != NULL)
        import_entry_take_url(work, url);
    else
        import_entry_give_up(work, IMPORT_BAD, kg_strdup("mcp-remote is given no URL"));
}

/* -- programs that fetch ----------------------------------------------------------------------- */

/* An image's own name: what stands before its first slash may be the host that it comes from. */
static struct kg_str without_host(struct kg_str name)
{
    const char *slash = name.length > 0 ? memchr(name.data, '/', name.length) : NULL;
    if (slash == NULL || memchr(name.data, '.', (size_t)(slash - name.data)) == NULL)
        return name;
    return kg_str_from(name, (size_t)(slash - name.data) + 1);
}

static const char *alternative_to(struct kg_str name)
{
    static const struct {
        const char *name, *package;
    } rows[] = {
#define ALTERNATIVE(name, package) {name, package},
#include "import/alternatives.def"
#undef ALTERNATIVE
    };
    name = without_host(name);
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (kg_str_is(name, rows[i].name))
            return rows[i].package;
    return NULL;
}

static bool import_entry_is_package(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length <= 214 && text[0] != '.' && text[0] != '/' && text[0] != '-' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@/._^~-") ==
               length;
}

/* Without its version: "@scope/name@1.2" is "@scope/name". */
static struct kg_str import_entry_package_name(const char *text)
{
    const char *at = strchr(text + 1, '@');
    return at ? (struct kg_str){text, (size_t)(at - text)} : kg_str(text);
}

static void import_entry_take_package(struct work *work, size_t at)
{
    static const char latest[] = "@latest";
    const char *package = work->words[at];
    struct kg_str name = import_entry_package_name(package);
    if (!import_entry_is_package(package)) {
        import_entry_give_up(work, IMPORT_BAD,
                             kg_format("%" KG_S_WORD " is not a package of a registry", package));
        return;
    }
    if (kg_str_is(name, "mcp-remote")) {
        take_bridge(work, at + 1);
        return;
    }
    work->server->kind = IMPORT_NPM;
    work->server->source = kg_str_ends(kg_str(package), latest)
                               ? kg_format("npm:%.*s", KG_STR_ARG(name))
                               : kg_format("npm:%s", package);
    import_entry_add_arguments(work, at + 1);
}

/* npx [-y] [-p PACKAGE] PACKAGE ARGS... */
static void take_npx(struct work *work, size_t from)
{
    static const char *const with_package[] = {"-p", "--package"};
    size_t at = from;
    for (; work->words[at] != NULL && work->words[at][0] == '-'; at++)
        for (size_t i = 0; i < KG_COUNT(with_package); i++)
            if (strcmp(work->words[at], with_package[i]) == 0 && work->words[at + 1] != NULL) {
                import_entry_take_package(work, at + 1);
                return;
            }
    if (work->words[at] == NULL)
        import_entry_give_up(work, IMPORT_BAD, kg_strdup("npx is given no package"));
    else
        import_entry_take_package(work, at);
}

/* pnpm dlx PACKAGE, npm exec PACKAGE */
static void take_runner(struct work *work, size_t from)
{
    const char *act = work->words[from];
    bool runs = act != NULL &&
                (strcmp(act, "dlx") == 0 || strcmp(act, "exec") == 0 || strcmp(act, "x") == 0);
    if (runs)
        take_npx(work, from + 1);
    else
        import_entry_give_up(work, IMPORT_NOT_YET,
                             kg_format("%" KG_S_NAME
                                       " runs a script of a package, which kaged does not start",
                                       work->words[from - 1]));
}

/* Behind options, of which these take a value. */
static const char *first_word(char *const *words, const char *const *with_value)
{
    for (; *words != NULL; words++) {
        if ((*words)[0] != '-')
            return *words;
        for (const char *const *option = with_value; *option != NULL; option++)
            if (strcmp(*words, *option) == 0 && words[1] != NULL) {
                words++;
                break;
            }
    }
    return NULL;
}

static void say_not_yet(struct work *work, const char *runner, const char *what_or_null)
{
    struct kg_str name = kg_str(what_or_null);
    const char *tag = name.length > 0 ? strchr(kg_path_name(what_or_null), ':') : NULL;
    size_t length =
        tag ? (size_t)(tag - what_or_null) : strcspn(what_or_null ? what_or_null : "", "=@");
    const char *instead = alternative_to((struct kg_str){what_or_null, length});
    import_entry_give_up(work, IMPORT_NOT_YET,
                         kg_format("kaged does not start what %s fetches%s%" KG_S_WORD, runner,
                                   what_or_null ? ": " : "", what_or_null ? what_or_null : ""));
    work->server->instead = kg_strdup(instead);
}

static void take_docker(struct work *work, size_t from)
{
    static const char *const with_value[] = {
        "-e",       "--env",        "-v",         "--volume",   "--mount", "--name",    "--network",
        "--net",    "-p",           "--publish",  "--env-file", "-w",      "--workdir", "-u",
        "--user",   "--entrypoint", "--platform", "--add-host", "-l",      "--label",   "-m",
        "--memory", "--cpus",       "--pull",     NULL};
    bool runs = work->words[from] != NULL && strcmp(work->words[from], "run") == 0;
    say_not_yet(work, work->words[from - 1],
                runs ? first_word(work->words + from + 1, with_value) : NULL);
}

static void take_pypi(struct work *work, size_t from)
{
    static const char *const with_value[] = {"--python",    "-p",          "--with",
                                             "--index-url", "--directory", NULL};
    static const char *const acts[] = {"run", "tool", NULL};
    const char *runner = work->words[from - 1];
    while (work->words[from] != NULL &&
           (strcmp(work->words[from], acts[0]) == 0 || strcmp(work->words[from], acts[1]) == 0))
        from++;
    for (char **word = work->words + from; *word != NULL; word++)
        if ((strcmp(*word, "--from") == 0 || strcmp(*word, "--spec") == 0) && word[1] != NULL) {
            say_not_yet(work, runner, word[1]);
            return;
        }
    say_not_yet(work, runner, first_word(work->words + from, with_value));
}

/* -- programs of this machine ------------------------------------------------------------------ */

/* Owned; NULL: there is none. */
static char *find_on_path(const char *name)
{
    const char *path = getenv("PATH");
    struct kg_str rest = kg_str(path ? path : "/usr/local/bin:/usr/bin:/bin");
    while (rest.length > 0) {
        struct kg_str folder = kg_str_cut(&rest, ':');
        if (folder.length == 0 || folder.data[0] != '/')
            continue;
        kg_auto(kg_free) char *candidate = kg_format("%.*s/%s", KG_STR_ARG(folder), name);
        if (access(candidate, X_OK) == 0)
            return kg_steal(&candidate);
    }
    return NULL;
}

static void import_entry_take_program(struct work *work, size_t at)
{
    const char *command = work->words[at];
    const char *folder = work->entry->folder;
    kg_auto(kg_free) char *path = strchr(command, '/') == NULL ? find_on_path(command)
                                  : command[0] == '/'          ? kg_strdup(command)
                                                      : kg_format("%s/%s", folder, command);
    if (path == NULL || access(path, X_OK) < 0) {
        import_entry_give_up(work, IMPORT_BAD,
                             kg_format("the program %" KG_S_PATH " is not installed", command));
        return;
    }
    work->server->kind = IMPORT_PROGRAM;
    work->server->source = kg_format("program:%s", path);
    import_entry_add_arguments(work, at + 1);
}

static const struct {
    const char *name;
    void (*take)(struct work *work, size_t from);
} runners[] = {
    {"npx", take_npx},       {"bunx", take_npx},      {"pnpx", take_npx},
    {"npm", take_runner},    {"pnpm", take_runner},   {"yarn", take_runner},
    {"docker", take_docker}, {"podman", take_docker}, {"nerdctl", take_docker},
    {"uvx", take_pypi},      {"uv", take_pypi},       {"pipx", take_pypi},
};

static bool is_runner(const char *word, const char *name)
{
    struct kg_str base = kg_str(kg_path_name(word));
    if (kg_str_ends(base, ".cmd") || kg_str_ends(base, ".exe"))
        base.length -= 4;
    return kg_str_is(base, name);
}

static void import_entry_take_command(struct work *work)
{
    size_t at = 0;
    if (work->words[0] != NULL && is_runner(work->words[0], "cmd") && work->words[1] != NULL)
        at = 2; /* cmd /c */
    if (work->words[0] == NULL || work->words[at] == NULL || work->words[at][0] == '\0') {
        import_entry_give_up(work, IMPORT_BAD, kg_strdup("it has neither a command nor a URL"));
        return;
    }
    for (size_t i = 0; i < KG_COUNT(runners); i++)
        if (is_runner(work->words[at], runners[i].name)) {
            runners[i].take(work, at + 1);
            return;
        }
    import_entry_take_program(work, at);
}

/* -- the whole --------------------------------------------------------------------------------- */

static const struct kg_node *url_of(const struct kg_node *node)
{
    static const char *const keys[] = {"url", "httpUrl", "serverUrl"};
    const struct kg_node *found = NULL;
    for (size_t i = 0; i < KG_COUNT(keys) && found == NULL; i++)
        found = kg_node_typed(node, keys[i], KG_STRING);
    return found;
}

static void import_entry_take_entry(struct work *work)
{
    const struct kg_node *node = work->entry->node, *url = url_of(node);
    struct import_server *server = work->server;
    const struct kg_node *enabled = kg_node_typed(node, "enabled", KG_BOOL);
    server->disabled = kg_node_is_true(node, "disabled") || (enabled && !enabled->boolean);
    take_pairs(work, "env", add_written_variable);
    take_pairs(work, "environment", add_written_variable);
    take_pairs(work, "headers", add_written_header);
    take_pairs(work, "http_headers", add_written_header);
    take_headers_of_variables(work);
    if (kg_node_get(node, "envFile") != NULL)
        kg_list_add(&server->dangers, kg_strdup("its envFile is not read: set what it needs with "
                                                "kaged secret and local.toml"));
    if (node->type != KG_OBJECT) {
        import_entry_give_up(work, IMPORT_BAD, kg_strdup("it is not an object"));
    } else if (url != NULL) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        import_entry_put_value(work, url, &text);
        import_entry_take_url(work, kg_buf_terminate(&text));
    } else if (import_entry_take_words(work)) {
        import_entry_take_command(work);
    } else {
        import_entry_give_up(work, IMPORT_BAD, kg_strdup("its command cannot be read"));
    }
}

static bool import_entry_same_lists(char *const *a, char *const *b)
{
    size_t i = 0;
    while (a[i] != NULL && b[i] != NULL && strcmp(a[i], b[i]) == 0)
        i++;
    return a[i] == NULL && b[i] == NULL;
}

static bool same_keys(const struct import_server *a, const struct import_server *b)
{
    bool same = a->key_count == b->key_count;
    for (size_t i = 0; same && i < a->key_count; i++)
        same = strcmp(a->keys[i].name, b->keys[i].name) == 0 &&
               kg_same_text(a->keys[i].value, b->keys[i].value);
    return same;
}

static bool import_entry_is_same(const struct import_server *a, const struct import_server *b)
{
    return a->kind == b->kind && strcmp(a->name, b->name) == 0 &&
           kg_same_text(a->source, b->source) && kg_same_text(a->why, b->why) &&
           import_entry_same_lists(a->args, b->args) && import_entry_same_lists(a->env, b->env) &&
           import_entry_same_lists(a->headers, b->headers) && same_keys(a, b);
}

static bool import_entry_is_taken(const struct import_list *list, const char *plugin)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].plugin, plugin) == 0)
            return true;
    return false;
}

/* Two of one name that are not the same server: the second has a number. */
static char *free_name(const struct import_list *list, struct kg_str name)
{
    kg_auto(kg_free) char *text = kg_str_dup(name);
    kg_auto(kg_free) char *slug = store_server_name(text);
    char *plugin = kg_strdup(slug ? slug : "server");
    for (int number = 2; import_entry_is_taken(list, plugin); number++) {
        free(plugin);
        plugin = kg_format("%.58s-%d", slug ? slug : "server", number);
    }
    return plugin;
}

void import_add(struct import_list *list, const struct import_entry *entry, const char *client,
                const char *path)
{
    struct import_server server = {
        .name = kg_str_dup(
            kg_str_first(entry->name, entry->name.length < 200 ? entry->name.length : 200)),
        .client = kg_strdup(client),
        .files = kg_list_new(0),
        .args = kg_list_new(0),
        .env = kg_list_new(0),
        .headers = kg_list_new(0),
        .dangers = kg_list_new(0),
    };
    struct work work = {.server = &server, .entry = entry, .words = kg_list_new(0)};
    import_entry_take_entry(&work);
    kg_list_free(work.words);
    for (size_t i = 0; i < list->count; i++)
        if (import_entry_is_same(&list->items[i], &server)) {
            if (!kg_list_has(list->items[i].files, kg_str(path)))
                kg_list_add(&list->items[i].files, kg_strdup(path));
            import_server_free(&server);
            return;
        }
    server.plugin = free_name(list, entry->name);
    kg_list_add(&server.files, kg_strdup(path));
    list->items = kg_realloc(list->items, (list->count + 1) * sizeof(*list->items));
    list->items[list->count++] = server;
}
