/*
 * kaged cluster token and join: how a home becomes a node of a cluster that is there. What the
 * token says is believed before anything is sent: only who has the authority's certificate gets the
 * secret. The home is changed once all is known, and the keys first: without the note in the state
 * folder nobody uses them.
 */
#include "cli/cli.h"

#include "cage/cage.h"
#include "cli/install.h"
#include "cli/offline.h"
#include "cli/rows.h"
#include "cluster/link.h"
#include "config/edit.h"
#include "host/cluster.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#define TOKEN_PREFIX "kgj_"
#define TOKEN_MAX    1024

/* -- the keys of a new cluster ----------------------------------------------------------------- */

int cli_cluster_make_keys(const struct cli *cli, const char *node, struct kg_err *err)
{
    kg_auto(link_keys_free) struct link_keys keys = {0};
    int found = link_keys_read(cli->paths.cluster_keys, &keys, err);
    if (found <= 0)
        return found; /* those that are there stay */
    int result = link_keys_make(node, &keys, err);
    return result < 0 ? result : link_keys_write(cli->paths.cluster_keys, &keys, err);
}

/* -- token ------------------------------------------------------------------------------------- */

int cli_cluster_token(struct cli *cli)
{
    static const struct cli_page page = {"POST", "/api/v1/cluster/tokens", .words = "{token}\n"};
    struct kg_err err = {0};
    int64_t minutes = 60;
    char body[48];
    if (cli_option_number(cli, "minutes", 1, 10080, &minutes, &err) < 0)
        return print_error(&err);
    snprintf(body, sizeof(body), "{\"minutes\":%lld}", (long long)minutes);
    return page_show_with(cli, &page, &(struct page_given){.body = kg_str(body)});
}

/* -- for the doctor ---------------------------------------------------------------------------- */

#define SOON_DAYS 60

static void link_check_expiry(const struct link_keys *keys, struct cage_checks *checks)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    const char *const words[] = {"expiry", NULL};
    int result = link_tool(words, kg_buf_view(&keys->certificate), &said, &err);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        result == 0 ? kg_json_read(kg_buf_view(&said), &err) : NULL;
    if (doc == NULL) {
        cage_checks_add(checks, "certificate", CAGE_STATUS_DEGRADED, err.message,
                        "other nodes cannot be reached", "kaged cluster join TOKEN");
        return;
    }
    int64_t days = kg_node_number(doc->root, "days");
    kg_auto(kg_free) char *detail =
        kg_format("this node's, for other nodes, ends in %lld days", (long long)days);
    bool soon = days < SOON_DAYS;
    cage_checks_add(checks, "certificate", soon ? CAGE_STATUS_DEGRADED : CAGE_STATUS_OK, detail,
                    soon ? "other nodes do not believe it then" : NULL,
                    soon ? "kaged cluster join TOKEN, with a token of another node" : NULL);
}

/* Asks for nothing that is answered: whoever answers has the cluster's authority. */
static void link_check_reach(const struct config *config, const struct link_keys *keys,
                             struct cage_checks *checks)
{
    static const char ask[] = "POST /api/v1/cluster/join HTTP/1.1\r\nHost: kaged\r\n"
                              "Connection: close\r\nContent-Length: 2\r\n\r\n{}";
    const char *address =
        config->cluster_address[0] != '\0' ? config->cluster_address : config->cluster_listen;
    char fingerprint[LINK_FINGERPRINT];
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    if (kg_str_ends(kg_str(address), ":0"))
        return; /* where it listens is known to the daemon alone */
    link_fingerprint(kg_buf_view(&keys->authority), fingerprint);
    const char *const words[] = {"join", address, fingerprint, NULL};
    int result = link_tool(words, kg_str(ask), &said, &err);
    kg_auto(kg_free) char *detail =
        result == 0 ? kg_format("this node answers at %s", address)
                    : kg_format("this node does not answer at %s: %s", address, err.message);
    cage_checks_add(checks, "link", result == 0 ? CAGE_STATUS_OK : CAGE_STATUS_DEGRADED, detail,
                    result == 0 ? NULL : "other nodes answer 503 for what this one has",
                    result == 0 ? NULL : "see cluster.listen, cluster.address and firewalls");
}

void cluster_add_link_checks(const struct cli *cli, const struct config *config,
                             struct cage_checks *checks)
{
    struct kg_err err = {0};
    kg_auto(link_keys_free) struct link_keys keys = {0};
    if (config->cluster_listen[0] == '\0')
        return;
    int found = link_keys_read(cli->paths.cluster_keys, &keys, &err);
    if (found != 0) {
        cage_checks_add(checks, "certificate", CAGE_STATUS_DEGRADED,
                        found < 0 ? err.message : "this home has no keys of a cluster",
                        "the daemon does not start",
                        "kaged cluster init, or kaged cluster join TOKEN");
        return;
    }
    link_check_expiry(&keys, checks);
    if (door_daemon_runs(cli))
        link_check_reach(config, &keys, checks);
}

/* -- what a token says ------------------------------------------------------------------------- */

struct join_token {
    char *text; /* owned, and overwritten; the others lie in it */
    const char *fingerprint, *secret, *address;
};

static void join_token_free(struct join_token *token)
{
    if (token->text != NULL)
        explicit_bzero(token->text, strlen(token->text));
    free(token->text);
}

static int join_token_read(const char *given, struct join_token *ret_token, struct kg_err *err)
{
    size_t length = 0;
    char *text = kg_alloc(TOKEN_MAX);
    char *rest = text;
    ret_token->text = text;
    bool read =
        kg_str_starts(kg_str(given), TOKEN_PREFIX) &&
        sodium_base642bin((unsigned char *)text, TOKEN_MAX - 1, given + 4, strlen(given + 4), NULL,
                          &length, NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0;
    ret_token->fingerprint = strsep(&rest, " ");
    ret_token->secret = strsep(&rest, " ");
    ret_token->address = rest;
    if (read && rest != NULL && strlen(ret_token->fingerprint) == LINK_FINGERPRINT - 1)
        return 0;
    kg_fail(err, KG_E_USAGE, "that is not a token of kaged cluster token");
    return kg_hint(err, "it begins with " TOKEN_PREFIX ", and has to be given whole");
}

/* -- asking ------------------------------------------------------------------------------------ */

static void join_write_request(const struct join_token *token, const char *node,
                               struct kg_str request, struct kg_buf *out)
{
    kg_auto(link_wipe) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "secret", token->secret);
    kg_json_named_text(&json, "node", node);
    kg_json_named_str(&json, "request", request);
    kg_json_end(&json, '}');
    kg_buf_printf(out,
                  "POST /api/v1/cluster/join HTTP/1.1\r\nHost: kaged\r\nConnection: close\r\n"
                  "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                  body.length);
    kg_buf_str(out, kg_buf_view(&body));
}

/* The body of an answer with status 200; else what it says. */
static int join_read_answer(struct kg_str answer, struct kg_doc **ret_doc, struct kg_err *err)
{
    const char *end = memmem(answer.data, answer.length, "\r\n\r\n", 4);
    size_t head = end != NULL ? (size_t)(end - answer.data) + 4 : answer.length;
    struct kg_doc *doc = kg_json_read(kg_str_from(answer, head), NULL);
    bool good = doc != NULL && kg_str_starts(answer, "HTTP/1.1 200 ");
    *ret_doc = doc;
    if (good)
        return 0;
    const struct kg_node *error = doc != NULL ? kg_node_get(doc->root, "error") : NULL;
    struct kg_str message = error != NULL ? kg_node_text(error, "message") : KG_STR_NULL;
    struct kg_str hint = error != NULL ? kg_node_text(error, "hint") : KG_STR_NULL;
    kg_fail(err, error != NULL ? kg_code_from_name(kg_node_text(error, "code")) : KG_E_INTERNAL,
            "%.*s",
            KG_STR_CUT(message.length > 0 ? message : KG_STR("what answers is no node"), 400));
    return hint.length > 0 ? kg_hint(err, "%.*s", KG_STR_CUT(hint, 200)) : -EINVAL;
}

static int join_ask(const struct join_token *token, const char *node, struct link_keys *keys,
                    struct kg_doc **ret_doc, struct kg_err *err)
{
    kg_auto(link_wipe) struct kg_buf wanted = {0}, request = {0}, answer = {0};
    int result = link_keys_request(node, &wanted, &keys->key, err);
    if (result < 0)
        return result;
    join_write_request(token, node, kg_buf_view(&wanted), &request);
    const char *const words[] = {"join", token->address, token->fingerprint, NULL};
    result = link_tool(words, kg_buf_view(&request), &answer, err);
    return result < 0 ? result : join_read_answer(kg_buf_view(&answer), ret_doc, err);
}

/* -- what is kept ------------------------------------------------------------------------------ */

struct join_text {
    const char *key;
    struct kg_str value;
};

static int join_write_text(struct kg_buf *text, void *data, struct kg_err *err)
{
    const struct join_text *given = data;
    const struct kg_node value = {.type = KG_STRING, .text = given->value};
    const char *const path[] = {"cluster", given->key};
    return edit_toml_set(text, path, KG_COUNT(path), &value, err);
}

static int join_write_whole(struct kg_buf *text, void *data, struct kg_err *err)
{
    (void)err;
    text->length = 0;
    kg_buf_str(text, *(const struct kg_str *)data);
    return 0;
}

/* Where the state and the packages are; what the other has not, this one need not have either. */
static int join_keep_settings(const struct cli *cli, const struct kg_node *answer,
                              struct kg_err *err)
{
    static const char *const keys[] = {"database", "bucket", "endpoint", "region", "style"};
    for (size_t i = 0; i < KG_COUNT(keys); i++) {
        struct join_text text = {keys[i], kg_node_text(answer, keys[i])};
        int result = text.value.length > 0
                         ? edit_file(cli->paths.config_file, join_write_text, &text, err)
                         : 0;
        if (result < 0)
            return result;
    }
    struct join_text password = {"password", kg_node_text(answer, "password")};
    return password.value.length > 0
               ? edit_file(cli->paths.local_file, join_write_text, &password, err)
               : 0;
}

static int join_keep_keys(const struct cli *cli, const struct kg_node *answer,
                          struct link_keys *keys, struct kg_err *err)
{
    struct kg_str digits = kg_node_text(answer, "cluster_key");
    struct kg_str catalog_key = kg_node_text(answer, "catalog_key");
    size_t length = 0;
    kg_buf_str(&keys->authority, kg_node_text(answer, "authority"));
    kg_buf_str(&keys->authority_key, kg_node_text(answer, "authority_key"));
    kg_buf_str(&keys->certificate, kg_node_text(answer, "certificate"));
    if (sodium_hex2bin(keys->cluster_key, sizeof(keys->cluster_key), digits.data, digits.length,
                       NULL, &length, NULL) != 0 ||
        length != sizeof(keys->cluster_key) || catalog_key.length == 0)
        return kg_fail(err, KG_E_INTERNAL, "the node's answer lacks a key");
    int result = link_keys_write(cli->paths.cluster_keys, keys, err);
    if (result == 0)
        result = edit_file(cli->paths.catalog_key, join_write_whole, &catalog_key, err);
    return result;
}

/* -- join -------------------------------------------------------------------------------------- */

/* With what was brought, the home's state is the cluster's from now on. */
static int join_note(const struct cli *cli, struct kg_err *err)
{
    kg_auto(host_cluster_clear) struct host_cluster cluster = {0};
    struct config *config = config_load(cli->paths.config_file, err);
    struct local *local = config != NULL ? cli_local_read(cli, err) : NULL;
    int result = -EINVAL;
    if (local != NULL) {
        host_cluster_read(config, local, &cli->paths, &cluster);
        result = state_cluster_init(&cluster.options, STATE_CLUSTER_EXISTING, NULL, NULL, err);
    }
    local_free(local);
    config_free(config);
    return result;
}

static int join_home(const struct cli *cli, const struct join_token *token,
                     const struct config *config, struct kg_err *err)
{
    kg_auto(link_keys_free) struct link_keys keys = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    kg_auto(kg_free) char *node = host_cluster_node(config);
    kg_auto(kg_close) int lock = offline_lock(cli, err);
    if (lock < 0)
        return lock;
    int result = join_ask(token, node, &keys, &doc, err);
    if (result == 0)
        result = join_keep_keys(cli, doc->root, &keys, err);
    if (result == 0)
        result = join_keep_settings(cli, doc->root, err);
    if (result == 0)
        result = join_note(cli, err);
    if (result == 0 && !cli->json)
        printf("this home is the node %s of the cluster from now on%s\n", node,
               config->cluster_listen[0] == '\0' ? "; set cluster.listen, so that others reach it"
                                                 : "");
    return result;
}

int cli_cluster_join(struct cli *cli)
{
    struct kg_err err = {0};
    kg_auto(join_token_free) struct join_token token = {0};
    struct config *config = NULL;
    int result = join_token_read(cli_argument(cli, 0), &token, &err);
    if (result == 0)
        result = cli_cluster_refuse_running(cli, &err);
    if (result == 0) {
        config = config_load(cli->paths.config_file, &err);
        result = config != NULL ? offline_become(cli, config, &err) : -EINVAL;
    }
    if (result == 0)
        result = join_home(cli, &token, config, &err);
    config_free(config);
    if (result == 0 && cli->json)
        print_json(KG_STR("{\"joined\":true}"));
    return result < 0 ? print_error(&err) : CLI_DONE;
}
