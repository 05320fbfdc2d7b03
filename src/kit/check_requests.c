/* What every plugin answers alike, whatever it is for. The last rule ends it by the end of stdin.
 */
#include "kit/run.h"

#define LARGEST_ID "9007199254740991" /* that every reader of JSON keeps exactly */
#define STRING_ID  "\"kit-7f3a\""

void kit_check_ping(struct kit_run *run)
{
    const struct kit_question question = {.method = "ping", .params = KG_STR("{}")};
    const struct kit_ask *ask = kit_question(run, &question);
    struct kg_str status;
    if (ask == NULL)
        return;
    run->answers_ping = true;
    if (ask->answer == KIT_RESULT && ask->payload.data[0] == '{' &&
        kg_json_member(kg_buf_view(&ask->payload), "status", &status) &&
        kg_str_is(status, "\"ok\""))
        return;
    kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload),
             "ping is answered with something other than {\"status\":\"ok\"}");
}

static void ping_with(struct kit_run *run, const char *id)
{
    const struct kit_question question = {.id = id, .method = "ping", .params = KG_STR("{}")};
    kit_question(run, &question);
}

void kit_check_id_number(struct kit_run *run)
{
    ping_with(run, LARGEST_ID);
}

void kit_check_id_string(struct kit_run *run)
{
    ping_with(run, STRING_ID);
}

void kit_check_method_unknown(struct kit_run *run)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    kit_put_nothing(run, &params);
    const struct kit_question question = {
        .method = "kit.no_such_method", .params = kg_buf_view(&params), .is_simple = true};
    const struct kit_ask *ask = kit_question(run, &question);
    if (ask == NULL)
        return;
    if (!kit_is_error(ask, KG_E_METHOD_NOT_FOUND))
        kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload),
                 "an unknown method is answered with %s",
                 ask->answer == KIT_RESULT ? "a result" : "another error");
    kit_lives(run, ask);
}

void kit_check_notification_unknown(struct kit_run *run)
{
    kit_talk_notify(run->talk, "system.rate_limited", KG_STR("{\"limit_per_sec\":100}"));
    kit_talk_notify(run->talk, "kit.no_such_notification", KG_STR("{\"kit\":[1,null]}"));
    const struct kit_ask nothing = {.sent = {.data = (char *)"kit.no_such_notification",
                                             .length = sizeof("kit.no_such_notification") - 1}};
    kit_lives(run, &nothing);
}

static void tell_project(struct kit_run *run, const char *method, const char *params)
{
    if (kit_open(run) == NULL)
        return;
    const struct kit_question question = {
        .method = method, .params = kg_str(params), .is_simple = true};
    const struct kit_ask *ask = kit_question(run, &question);
    if (ask == NULL || !kit_lives(run, ask) || ask->answer == KIT_RESULT ||
        kit_is_error(ask, KG_E_METHOD_NOT_FOUND))
        return;
    kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload),
             "%s is answered with an error other than -32601", method);
}

void kit_check_projects(struct kit_run *run)
{
    struct kg_str settings = kg_buf_view(&run->room->settings);
    kg_auto(kg_free) char *activated =
        kg_format("{\"project\":\"" KIT_PROJECT "\",\"config\":%.*s}",
                  KG_STR_ARG(settings.length > 0 ? settings : KG_STR("{}")));
    if (kit_has_found(run, KIT_RULE_METHOD_UNKNOWN)) {
        kit_be_unclear(run, "it does not answer unknown methods as it should");
        return;
    }
    tell_project(run, "projects.activated", activated);
    tell_project(run, "projects.deactivated", "{\"project\":\"" KIT_PROJECT "\"}");
}

void kit_check_shutdown_eof(struct kit_run *run)
{
    peer_close_input(run->talk->seat->peer);
    kit_expect_exit(run, "the end of stdin");
}
