/*
 * The operator's yes to the file of a script: what config.toml grants it is shown in words, and the
 * yes names the hash of the file that was meant.
 */
#include "cli/cli.h"

#include <string.h>

/* NULL: there is no daemon, or no such script; nothing was said about it. */
static struct kg_doc *look(const struct cli *cli, const char *name, struct kg_buf *ret_body)
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

static void put_grants(struct kg_buf *out, const struct kg_node *script)
{
    const struct kg_node *grants = kg_node_list(script, "grants");
    print_words(out, script, "Script {name} ({file}) may, by config.toml:\n");
    for (uint32_t i = 0; i < grants->count; i++)
        print_words(out, &grants->items[i], "  {capability}: {words}\n");
    if (cli_text(script, "approved_hash").length > 0)
        kg_buf_text(out, "Its file changed since that was approved.\n");
}

static int send_yes(const struct cli *cli, const char *name, struct kg_str hash)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0}, answer = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "approve", hash);
    kg_json_end(&json, '}');
    client_put_target(&target, "plugins", name, "/script");
    const struct client_request request = {
        .method = "POST", .target = kg_buf_terminate(&target), .body = kg_buf_view(&body)};
    int code = cli_ask(cli, &request, &answer);
    if (code == CLI_DONE && cli->json)
        print_json(kg_buf_view(&answer));
    else if (code == CLI_DONE)
        printf("%s is approved as it is\n", name);
    return code;
}

static bool says_yes(const struct cli *cli)
{
    kg_auto(kg_close) int tty = terminal_open();
    if (cli_has(cli, "yes"))
        return true;
    return tty >= 0 && terminal_ask(tty, "Let it?");
}

static int decide(const struct cli *cli, const char *name, const struct kg_node *script)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
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
    put_grants(&shown, script);
    fwrite(shown.data, 1, shown.length, stderr);
    if (says_yes(cli))
        return send_yes(cli, name, hash);
    kg_fail(&err, KG_E_REFUSED, "script %s was not approved", name);
    kg_hint(&err, "without a terminal: --yes");
    return print_error(&err);
}

bool cli_script_approve(const struct cli *cli, const char *name, int *ret_code)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *script = look(cli, name, &body);
    if (script != NULL)
        *ret_code = decide(cli, name, script->root);
    return script != NULL;
}
