/* The way to the store that leads by the daemon: each act is a request of its API. */
#include "cli/install.h"
#include "cli/rows.h"

#include <stdlib.h>

#define LOOK_PAUSE_MS 100

bool door_daemon_runs(const struct cli *cli)
{
    const struct client_request request = {.method = "GET", .target = "/healthz"};
    struct client_reply reply = {0};
    struct kg_err err = {0};
    int result = client_exchange(cli->paths.socket, &request, &reply, &err);
    kg_buf_free(&reply.body);
    return result == 0 || err.code != KG_E_NO_DAEMON;
}

static int door_daemon_ask(struct door *door, const struct cli_page *page, const char *name,
                           struct kg_str body, struct door_answer *ret_answer)
{
    const struct page_given given = {.name = name, .body = body};
    return page_ask(door->cli, page, &given, &ret_answer->body, &ret_answer->doc);
}

static void door_daemon_put_text(struct kg_json_writer *json, const char *key,
                                 const char *text_or_null)
{
    if (text_or_null != NULL)
        kg_json_named_text(json, key, text_or_null);
}

static void door_daemon_put_own(struct kg_json_writer *json, const struct store_own *own)
{
    kg_json_named_list(json, "grants", own->grants);
    kg_json_named_begin(json, "env", '{');
    for (char **entry = own->env; *entry != NULL; entry++) {
        size_t length = strcspn(*entry, "=");
        kg_auto(kg_free) char *name = kg_str_dup((struct kg_str){*entry, length});
        kg_json_named_text(json, name, *entry + length + ((*entry)[length] == '='));
    }
    kg_json_end(json, '}');
}

static int door_daemon_want(struct door *door, const struct door_wish *wish,
                            struct door_answer *ret_consent)
{
    static const struct cli_page approve = {"POST", "/api/v1/plugins/{0}/approve"};
    static const struct cli_page install = {"POST", "/api/v1/plugins"};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    if (wish->source == NULL)
        return door_daemon_ask(door, &approve, wish->plugin, KG_STR_NULL, ret_consent);
    kg_json_begin(&json, '{');
    door_daemon_put_text(&json, "source", wish->source);
    door_daemon_put_text(&json, "version", wish->version);
    if (wish->own != NULL)
        door_daemon_put_own(&json, wish->own);
    if (wish->packages)
        kg_json_named_bool(&json, "packages", true);
    if (wish->server != NULL)
        kg_json_named_raw(&json, "server", kg_str(wish->server));
    kg_json_end(&json, '}');
    return door_daemon_ask(door, &install, NULL, kg_buf_view(&body), ret_consent);
}

static int door_daemon_look(struct door *door, const char *id, struct door_answer *ret_consent)
{
    static const struct cli_page page = {"GET", "/api/v1/consents/{0}"};
    cli_pause_ms(LOOK_PAUSE_MS);
    return door_daemon_ask(door, &page, id, KG_STR_NULL, ret_consent);
}

static int door_daemon_approve(struct door *door, const char *id, const struct door_yes *yes,
                               struct door_answer *ret_consent)
{
    static const struct cli_page page = {"POST", "/api/v1/consents/{0}/approve"};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    door_daemon_put_text(&json, "hash", yes->hash);
    door_daemon_put_text(&json, "path", yes->path);
    if (yes->packages)
        kg_json_named_bool(&json, "packages", true);
    kg_json_named_bool(&json, "allow_new_capabilities", yes->allow_new_capabilities);
    kg_json_named_bool(&json, "replace_source", yes->replace_source);
    kg_json_end(&json, '}');
    return door_daemon_ask(door, &page, id, kg_buf_view(&body), ret_consent);
}

static void door_daemon_decline(struct door *door, const char *id)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    struct client_reply reply = {0};
    client_put_target(&target, "consents", id, "/decline");
    const struct client_request request = {.method = "POST", .target = kg_buf_terminate(&target)};
    /* Whatever became of it meanwhile, it was not approved. */
    (void)client_exchange(door->cli->paths.socket, &request, &reply, NULL);
    kg_buf_free(&reply.body);
}

static int door_daemon_uninstall(struct door *door, const char *name,
                                 struct door_answer *ret_removed)
{
    /* The daemon waits for the plugin's end, which it bounds. */
    static const struct cli_page page = {"DELETE",
                                         "/api/v1/plugins/{0}?force&keep_storage=--keep-storage",
                                         .silence_ms = CLIENT_WAIT_FOREVER};
    return door_daemon_ask(door, &page, name, KG_STR_NULL, ret_removed);
}

static int door_daemon_promote(struct door *door, const char *name, struct door_answer *ret_plugin)
{
    static const struct cli_page page = {"POST", "/api/v1/plugins/{0}/promote"};
    return door_daemon_ask(door, &page, name, KG_STR_NULL, ret_plugin);
}

static void door_daemon_close_door(struct door *door)
{
    free(door);
}

struct door *door_to_daemon(const struct cli *cli)
{
    static const struct door_ops ops = {
        .want = door_daemon_want,
        .look = door_daemon_look,
        .approve = door_daemon_approve,
        .decline = door_daemon_decline,
        .uninstall = door_daemon_uninstall,
        .promote = door_daemon_promote,
        .close = door_daemon_close_door,
    };
    struct door *door = kg_alloc(sizeof(*door));
    door->ops = &ops;
    door->cli = cli;
    door->to_daemon = true;
    return door;
}
