/*
 * A conversation with one process: requests of ours and their answers, and what the plugin says of
 * its own, which is served as the daemon would. Each line is judged by the daemon's own reader;
 * what it would hold against the plugin is a finding of the rule that forbids it. What would make
 * it kill the plugin spends the talk.
 */
#include "kit/run.h"

#include "host/host.h"

#include <stdio.h>
#include <stdlib.h>

#define SENT_KEPT_BYTES 512
#define GREETING_STEPS  4 /* of an MCP server, each as long as one answer may take */
#define WAIT_STEPS      8 /* of a timeout: when it is looked whether something moves */

static struct kg_str last_sent(const struct kit_talk *talk)
{
    return kg_buf_view(&talk->last_sent);
}

/* What goes wrong with an id while a rule looks at ids is that rule's. */
static enum kit_rule_id rule_of_ids(const struct kit_run *run, enum kit_rule_id otherwise)
{
    static const enum kit_rule_id rules[] = {KIT_RULE_ID_NUMBER, KIT_RULE_ID_STRING,
                                             KIT_RULE_NOTIFICATION_UNKNOWN, KIT_RULE_CANCEL_UNKNOWN,
                                             KIT_RULE_CANCEL_CALL};
    for (size_t i = 0; i < KG_COUNT(rules); i++)
        if (run->rule == rules[i])
            return rules[i];
    return otherwise;
}

/* -- answers ----------------------------------------------------------------------------------- */

/* The only request that waits, or NULL. */
static struct kit_ask *only_waiting(const struct kit_talk *talk)
{
    struct kit_ask *found = NULL;
    for (size_t i = 0; i < talk->ask_count; i++) {
        if (talk->asks[i]->answer != KIT_NO_ANSWER)
            continue;
        if (found != NULL)
            return NULL;
        found = talk->asks[i];
    }
    return found;
}

/*
 * What came was meant as an answer: nobody has to wait for a better one. But what answers a
 * notification answers nothing else.
 */
static void break_waiting(struct kit_talk *talk)
{
    struct kit_ask *ask = only_waiting(talk);
    if (ask != NULL && talk->run->rule != KIT_RULE_NOTIFICATION_UNKNOWN)
        ask->answer = KIT_BROKEN;
}

static struct kit_ask *find_ask(const struct kit_talk *talk, struct kg_str id)
{
    for (size_t i = 0; i < talk->ask_count; i++)
        if (kg_str_is(id, talk->asks[i]->id))
            return talk->asks[i];
    return NULL;
}

static void kit_talk_take_answer(struct kit_talk *talk, struct kit_ask *ask,
                                 const struct rpc_message *message, struct kg_str line)
{
    bool ok = message->kind == RPC_RESULT;
    if (++ask->answers > 1) {
        /* While another waits, it was that one's answer, with a wrong id. */
        bool is_wrong = only_waiting(talk) != NULL;
        enum kit_rule_id rule =
            is_wrong ? rule_of_ids(talk->run, KIT_RULE_ID_ONCE) : KIT_RULE_ID_ONCE;
        kit_find(talk->run, rule, kg_buf_view(&ask->sent), line,
                 "the request with the id %" KG_S_NAME " was answered twice", ask->id);
        if (rule != KIT_RULE_ID_ONCE)
            break_waiting(talk);
        return;
    }
    if (ask->answer != KIT_NO_ANSWER)
        return;
    ask->answer = ok ? KIT_RESULT : KIT_ERROR;
    kg_buf_str(&ask->payload, ok ? message->result : message->error);
}

static void take_stray(struct kit_talk *talk, struct kg_str id, struct kg_str line)
{
    bool is_to_notification = talk->run->rule == KIT_RULE_NOTIFICATION_UNKNOWN;
    kit_find(talk->run, rule_of_ids(talk->run, KIT_RULE_ID_KNOWN),
             is_to_notification ? KG_STR("an unknown notification") : last_sent(talk), line,
             "an answer has the id %.*s, which no request had", KG_STR_CUT(id, KG_CUT_NAME));
    break_waiting(talk);
}

/* JSON-RPC's way to say that a request could not even be read. */
static void take_unread(struct kit_talk *talk, struct kg_str line)
{
    kit_find(talk->run, rule_of_ids(talk->run, talk->run->rule), last_sent(talk), line,
             "it could not read what was sent");
    break_waiting(talk);
}

static void take_broken(struct kit_talk *talk, const char *problem, struct kg_str line)
{
    kit_find(talk->run, rule_of_ids(talk->run, KIT_RULE_STDOUT_ANSWER), last_sent(talk), line, "%s",
             problem);
    break_waiting(talk);
}

/* An id that was written without care makes no JSON. */
static void take_noise(struct kit_talk *talk, const char *problem, struct kg_str line)
{
    bool is_id = talk->run->rule == KIT_RULE_ID_STRING;
    kit_find(talk->run, is_id ? KIT_RULE_ID_STRING : KIT_RULE_STDOUT_JSON, last_sent(talk), line,
             "%s", problem);
    if (is_id)
        break_waiting(talk);
}

static bool kit_talk_is_string(struct kg_str json)
{
    return json.length > 0 && json.data[0] == '"';
}

/*
 * The daemon's ids are numbers, and its reader knows no others: where we asked with a string, the
 * line is read with a number in its place.
 */
static struct kit_ask *read_string_id(const struct kit_talk *talk, struct kg_str line,
                                      struct kg_buf *scratch, struct rpc_message *message)
{
    struct kg_str id, method;
    if (message->kind != RPC_INVALID_RESPONSE || kg_json_member(line, "method", &method) ||
        !kg_json_member(line, "id", &id) || !kit_talk_is_string(id))
        return NULL;
    struct kit_ask *ask = find_ask(talk, id);
    if (ask == NULL)
        return NULL;
    size_t before = (size_t)(id.data - line.data);
    kg_buf_append(scratch, line.data, before);
    kg_buf_char(scratch, '1');
    kg_buf_append(scratch, id.data + id.length, line.length - before - id.length);
    rpc_parse(kg_buf_view(scratch), message);
    return ask;
}

static void kit_talk_on_response(struct kit_talk *talk, struct kit_ask *ask,
                                 const struct rpc_message *message, struct kg_str line)
{
    struct kg_str id = KG_STR("null"), error;
    bool has_id = kg_json_member(line, "id", &id);
    if (has_id && kg_str_is(id, "null") && kg_json_member(line, "error", &error)) {
        take_unread(talk, line);
        return;
    }
    if (ask == NULL && message->has_id)
        ask = find_ask(talk, id);
    if (message->kind == RPC_INVALID_RESPONSE && (ask != NULL || message->has_id || !has_id))
        take_broken(talk, message->problem, line);
    else if (ask == NULL)
        take_stray(talk, id, line);
    else
        kit_talk_take_answer(talk, ask, message, line);
}

/* -- requests of the plugin -------------------------------------------------------------------- */

static void kit_talk_answer_error(const struct kit_talk *talk, int64_t request, enum kg_code code,
                                  const char *message)
{
    peer_answer_error(talk->seat->peer, request, kg_error_row(code)->rpc_code, message);
}

/* Nobody is there to be asked, and no model. */
static void answer_ask(const struct kit_talk *talk, const struct host_service *service,
                       int64_t request)
{
    bool asks_person = service->needs == CAPABILITY_ASK;
    bool asks_roots = service->kind == HOST_ASK_ROOTS;
    *(asks_person ? &talk->run->seen.asked : &talk->run->seen.sampled) = true;
    if (asks_person)
        peer_answer(talk->seat->peer, request, PEER_ANSWER_RESULT,
                    asks_roots ? KG_STR("{\"roots\":[]}") : KG_STR("{\"action\":\"cancel\"}"));
    else
        kit_talk_answer_error(talk, request, KG_E_NOT_APPLICABLE, "there is no model in a test");
}

/* By the host's name of it. */
static void kit_talk_serve(void *data, int64_t request, struct kg_str method, struct kg_str params)
{
    struct kit_talk *talk = data;
    struct kit_run *run = talk->run;
    const struct host_service *service = host_service_find(method);
    struct kg_err err = {0};
    if (service == NULL) {
        kit_find(run, KIT_RULE_REQUEST_KNOWN, last_sent(talk), talk->line,
                 "it asked for %.*s, which the daemon does not have", KG_STR_ARG(method));
        kg_auto(kg_free) char *words = kg_format("kaged has no method %.*s", KG_STR_ARG(method));
        kit_talk_answer_error(talk, request, KG_E_METHOD_NOT_FOUND, words);
    } else if (host_service_check(service, &kit_manifest(run)->capability_set, &err) < 0) {
        kit_find(run, KIT_RULE_STORAGE_DECLARED, last_sent(talk), talk->line, "%s", err.message);
        kit_talk_answer_error(talk, request, err.code, err.message);
    } else if (service->asks == NULL) {
        answer_ask(talk, service, request);
    } else {
        bool writes = service->needs == CAPABILITY_STORAGE_WRITE;
        *(writes ? &run->seen.storage_write : &run->seen.storage_read) = true;
        if (kit_serve(run->room, talk->seat, service, request, params, &err) < 0)
            kit_talk_answer_error(talk, request, err.code, err.message);
    }
}

/* An MCP server's, which the row knows by its own name, if it was offered. */
static void serve_mcp(struct kit_talk *talk, int64_t request, struct kg_str method,
                      struct kg_str params)
{
    if (talk->greeting != NULL &&
        dialect_mcp.on_request(&talk->greeting->talk, request, method, params))
        return;
    kit_find(talk->run, KIT_RULE_MCP_REQUEST, last_sent(talk), talk->line,
             "it asked for %.*s, which it was not offered", KG_STR_CUT(method, KG_CUT_NAME));
    kit_talk_answer_error(talk, request, KG_E_METHOD_NOT_FOUND, "it was not offered");
}

static void kit_talk_on_request(void *data, int64_t request, struct kg_str method,
                                struct kg_str params)
{
    struct kit_talk *talk = data;
    if (talk->spent)
        return;
    if (kit_manifest(talk->run)->is_mcp)
        serve_mcp(talk, request, method, params);
    else
        kit_talk_serve(talk, request, method, params);
}

/* Those that come in time go to kit_talk_on_request. */
static void kit_talk_check_request(struct kit_talk *talk, const struct rpc_message *message,
                                   struct kg_str line)
{
    if (talk->phase != PEER_OPEN)
        kit_find(talk->run, KIT_RULE_MESSAGE_EARLY, last_sent(talk), line,
                 "it asked for %s before it was told initialized", message->method);
}

static const char *progress_method(const struct kit_run *run)
{
    return kit_manifest(run)->is_mcp ? "notifications/progress" : "kaged.progress";
}

/* What MCP has is for kit_talk_on_notification to tell. */
static void kit_talk_check_declared(struct kit_talk *talk, const struct rpc_message *message,
                                    struct kg_str line)
{
    struct kit_run *run = talk->run;
    if (kit_manifest(run)->is_mcp)
        return;
    if (!kg_list_has(kit_manifest(run)->notifications, kg_str(message->method)))
        kit_find(run, KIT_RULE_NOTIFICATION_DECLARED, last_sent(talk), line,
                 "it sent %s, which its manifest does not list", message->method);
    else if (!kg_list_has(run->seen.notifications, kg_str(message->method)))
        kg_list_add(&run->seen.notifications, kg_strdup(message->method));
}

static void check_notification(struct kit_talk *talk, const struct rpc_message *message,
                               struct kg_str line)
{
    struct kit_run *run = talk->run;
    uint32_t per_sec = (uint32_t)run->room->parts.config->limits_notifications_per_sec;
    if (talk->phase != PEER_OPEN) {
        kit_find(run, KIT_RULE_MESSAGE_EARLY, last_sent(talk), line,
                 "it sent %s before it was told initialized", message->method);
        return;
    }
    if (strcmp(message->method, progress_method(run)) == 0)
        return;
    kit_talk_check_declared(talk, message, line);
    if (!kg_rate_pass(&talk->notifications, per_sec, kg_monotonic_ms(), NULL))
        kit_find(run, KIT_RULE_NOTIFICATION_RATE, last_sent(talk), line,
                 "it sent more than %u notifications in a second", per_sec);
}

/* By the row of the dialect, which knows what is under way. */
static void kit_talk_on_notification(void *data, struct kg_str method, struct kg_str params)
{
    struct kit_talk *talk = data;
    const struct dialect *dialect = kit_dialect(talk->run->room);
    struct dialect_talk own = {.dialect = dialect, .peer = talk->seat->peer};
    bool is_mcp = dialect == &dialect_mcp;
    bool is_progress = kg_str_is(method, is_mcp ? "notifications/progress" : "kaged.progress");
    if (talk->spent || (is_mcp && talk->greeting == NULL) || (!is_mcp && !is_progress))
        return;
    if (dialect->on_notification(is_mcp ? &talk->greeting->talk : &own, method, params) !=
        DIALECT_NOISE)
        return;
    if (is_progress)
        kit_find(talk->run, KIT_RULE_PROGRESS_CALL, last_sent(talk), talk->line,
                 "it told progress of no call under way, or less than before");
    else
        kit_find(talk->run, KIT_RULE_MCP_NOTIFICATION, last_sent(talk), talk->line,
                 "it sent %.*s, which is not part of MCP, or not in this form",
                 KG_STR_CUT(method, KG_CUT_NAME));
}

/* -- lines ------------------------------------------------------------------------------------- */

static void on_too_early(struct kit_talk *talk, struct kg_str line)
{
    kit_find(talk->run, KIT_RULE_INITIALIZE_SILENCE, last_sent(talk), line,
             "a message came before the answer to initialize");
    talk->spent = true;
}

static bool is_answer(enum rpc_kind kind)
{
    return kind == RPC_RESULT || kind == RPC_ERROR || kind == RPC_INVALID_RESPONSE;
}

/* What is not JSON stands in the place of the answer to initialize. Empty lines do not. */
static bool is_broken_hello(const struct rpc_message *message, struct kg_str line)
{
    struct kg_json_cursor cursor = {line.data, line.data + line.length};
    kg_json_skip_space(&cursor);
    return message->kind == RPC_NOISE && message->fault != KG_JSON_OK && cursor.at < cursor.end;
}

static void on_early_line(struct kit_talk *talk, const struct rpc_message *message,
                          struct kg_str line)
{
    if (message->kind != RPC_NOISE)
        on_too_early(talk, line);
    else if (!is_broken_hello(message, line))
        kit_find(talk->run, KIT_RULE_STDOUT_JSON, last_sent(talk), line, "%s", message->problem);
    else {
        kit_find(talk->run, KIT_RULE_INITIALIZE_ANSWER, last_sent(talk), line, "%s",
                 message->problem);
        break_waiting(talk);
    }
}

static void kit_talk_on_message(struct kit_talk *talk, const struct rpc_message *message,
                                struct kg_str line)
{
    struct kit_run *run = talk->run;
    switch (message->kind) {
    case RPC_BATCH:
        kit_find(run, KIT_RULE_STDOUT_BATCH, last_sent(talk), line, "it sent a batch");
        break_waiting(talk);
        break;
    case RPC_INVALID_REQUEST:
        if (!message->has_foreign_id || !kit_manifest(run)->is_mcp)
            kit_find(run, KIT_RULE_STDOUT_REQUEST, last_sent(talk), line, "%s", message->problem);
        break;
    case RPC_REQUEST:
        kit_talk_check_request(talk, message, line);
        break;
    case RPC_NOTIFICATION:
        check_notification(talk, message, line);
        break;
    default:
        take_noise(talk, message->problem, line);
        break;
    }
}

static void kit_talk_read_line(struct kit_talk *talk, struct kg_str line)
{
    struct rpc_message message;
    kg_auto(kg_buf_free) struct kg_buf scratch = {0};
    rpc_parse(line, &message);
    struct kit_ask *ask = read_string_id(talk, line, &scratch, &message);
    if (is_answer(message.kind))
        kit_talk_on_response(talk, ask, &message, line);
    else if (talk->phase == PEER_SILENT)
        on_early_line(talk, &message, line);
    else
        kit_talk_on_message(talk, &message, line);
}

/* A line without its end may still be an answer; but only who leaves cuts one off. */
static void on_cut(void *data, struct kg_str line, bool too_long)
{
    struct kit_talk *talk = data;
    if (talk->spent)
        return;
    if (too_long)
        kit_find(talk->run, KIT_RULE_LINE_LENGTH, last_sent(talk), line,
                 "a line has more than %lld bytes",
                 (long long)talk->run->room->parts.config->limits_line_max_bytes);
    else
        kit_find(talk->run, KIT_RULE_LINE_END, last_sent(talk), line,
                 "stdout ended in the middle of a line");
    break_waiting(talk);
    talk->spent = talk->spent || too_long;
}

static void kit_talk_on_line(void *data, struct kg_str line)
{
    struct kit_talk *talk = data;
    talk->line = line;
    if (!talk->spent)
        kit_talk_read_line(talk, line);
}

static void add_ask(struct kit_talk *talk, struct kit_ask *ask, const char *method)
{
    ask->method = kg_strdup(method);
    kg_buf_str(&ask->sent, last_sent(talk));
    talk->asks = kg_realloc(talk->asks, (talk->ask_count + 1) * sizeof(*talk->asks));
    talk->asks[talk->ask_count++] = ask;
}

static void keep_sent(struct kit_talk *talk, struct kg_str line)
{
    talk->last_sent.length = 0;
    kg_buf_append(&talk->last_sent, line.data,
                  line.length < SENT_KEPT_BYTES ? line.length : SENT_KEPT_BYTES);
}

/* What a greeting sends is asked like the rest; other lines that we do not send here are answers.
 */
static void kit_talk_on_sent(void *data, struct kg_str line)
{
    struct kit_talk *talk = data;
    struct rpc_message message = {.kind = RPC_NOISE};
    if (!talk->sending)
        rpc_parse(line, &message);
    if (talk->sending || message.kind == RPC_REQUEST)
        keep_sent(talk, line);
    if (message.kind != RPC_REQUEST)
        return;
    struct kit_ask *ask = kg_alloc(sizeof(*ask));
    ask->id = kg_str_dup(message.id_text);
    add_ask(talk, ask, message.method);
}

static void kit_talk_on_network(void *data, const struct gate_event *event)
{
    struct kit_talk *talk = data;
    struct kit_seen *seen = &talk->run->seen;
    kg_auto(kg_free) char *host = kg_format("%s:%u", event->host, event->port);
    if (event->kind != GATE_DENIED && !kg_list_has(seen->hosts, kg_str(host)))
        kg_list_add(&seen->hosts, kg_steal(&host));
}

/* -- life -------------------------------------------------------------------------------------- */

struct kit_talk *kit_talk_new(struct kit_run *run, struct kg_err *err)
{
    static const struct kit_seat_ops ops = {
        .on_line = kit_talk_on_line,
        .on_cut = on_cut,
        .on_sent = kit_talk_on_sent,
        .on_request = kit_talk_on_request,
        .on_notification = kit_talk_on_notification,
        .on_network = kit_talk_on_network,
    };
    struct kit_talk *talk = kg_alloc(sizeof(*talk));
    talk->run = run;
    talk->phase = kit_dialect(run->room)->rules.begins;
    talk->seat = kit_seat_new(run->room, &ops, talk, err);
    if (talk->seat == NULL) {
        kit_talk_free(talk);
        return NULL;
    }
    return talk;
}

void kit_talk_free(struct kit_talk *talk)
{
    if (talk == NULL)
        return;
    kit_seat_free(talk->seat);
    kit_greeting_free(talk->greeting);
    for (size_t i = 0; i < talk->ask_count; i++) {
        free(talk->asks[i]->id);
        free(talk->asks[i]->method);
        kg_buf_free(&talk->asks[i]->sent);
        kg_buf_free(&talk->asks[i]->payload);
        free(talk->asks[i]);
    }
    free(talk->asks);
    kg_buf_free(&talk->last_sent);
    free(talk);
}

void kit_talk_set_phase(struct kit_talk *talk, enum peer_phase phase)
{
    talk->phase = phase;
    peer_set_phase(talk->seat->peer, phase);
}

bool kit_talk_is_spent(const struct kit_talk *talk)
{
    return talk->spent || helper_child_exit(talk->seat->child) != NULL || talk->seat->in_closed ||
           talk->seat->out_closed;
}

/* -- sending ----------------------------------------------------------------------------------- */

/* What it says next is not before the answer to initialize any more. */
static void kit_talk_on_answered(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct kit_talk *talk = data;
    (void)payload;
    if (talk->phase == PEER_SILENT && (outcome == PEER_RESULT || outcome == PEER_ERROR))
        kit_talk_set_phase(talk, PEER_WAITING);
}

/* The peer's own ids are numbers in turn: an answer to another is ours alone to read. */
static void kit_talk_say(struct kit_talk *talk, const char *id, const char *method,
                         struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = kg_json_writer(&line);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    kg_json_key(&json, "id");
    kg_json_raw(&json, kg_str(id));
    kg_json_named_text(&json, "method", method);
    kg_json_key(&json, "params");
    kg_json_raw(&json, params);
    kg_json_end(&json, '}');
    (void)peer_say(talk->seat->peer, kg_buf_view(&line), NULL);
}

/* One that it does not take any more stays without an answer. */
struct kit_ask *kit_talk_ask(struct kit_talk *talk, const char *id, const char *method,
                             struct kg_str params)
{
    const struct peer_call call = {
        .method = kg_str(method),
        .params = &params,
        .params_count = 1,
        .on_done = kit_talk_on_answered,
        .data = talk,
    };
    struct kit_ask *ask = kg_alloc(sizeof(*ask));
    uint64_t number = 0;
    talk->last_sent.length = 0;
    talk->sending = true;
    if (id != NULL)
        kit_talk_say(talk, id, method, params);
    else
        (void)peer_call(talk->seat->peer, &call, &number, NULL);
    talk->sending = false;
    ask->id = id != NULL ? kg_strdup(id) : kg_format("%llu", (unsigned long long)number);
    add_ask(talk, ask, method);
    return ask;
}

const struct kit_ask *kit_talk_asked(const struct kit_talk *talk, const char *method)
{
    for (size_t i = talk->ask_count; i > 0; i--)
        if (strcmp(talk->asks[i - 1]->method, method) == 0)
            return talk->asks[i - 1];
    return NULL;
}

void kit_talk_notify(struct kit_talk *talk, const char *method, struct kg_str params)
{
    talk->sending = true;
    (void)peer_notify(talk->seat->peer, method, params, NULL);
    talk->sending = false;
}

/* -- waiting ----------------------------------------------------------------------------------- */

struct waiting {
    const struct kit_talk *talk;
    struct kit_ask *const *asks;
    size_t count;
};

static size_t answered(const struct waiting *waiting)
{
    size_t count = 0;
    for (size_t i = 0; i < waiting->count; i++)
        count += waiting->asks[i]->answer != KIT_NO_ANSWER;
    return count;
}

static bool kit_talk_is_over(void *data)
{
    const struct waiting *waiting = data;
    return kit_talk_is_spent(waiting->talk) || answered(waiting) == waiting->count;
}

/* A closed stream is mostly the first sign of an exit. */
static void check_streams(struct kit_talk *talk)
{
    bool in_is_closed = talk->seat->in_closed;
    if (!in_is_closed && !talk->seat->out_closed)
        return;
    if (helper_child_exit(talk->seat->child) == NULL &&
        !kit_seat_wait_exit(talk->seat, talk->run->timeout_ms))
        kit_find(talk->run, KIT_RULE_STREAM_OPEN, last_sent(talk), KG_STR(""),
                 "it closed its %s and keeps running", in_is_closed ? "stdin" : "stdout");
}

bool kit_talk_wait(struct kit_talk *talk, struct kit_ask *const *asks, size_t count,
                   uint64_t timeout_ms)
{
    struct waiting waiting = {talk, asks, count};
    uint64_t step_ms = timeout_ms / WAIT_STEPS + 1;
    for (uint64_t quiet_ms = 0; quiet_ms < timeout_ms; quiet_ms += step_ms) {
        uint64_t taken = peer_counters(talk->seat->peer).bytes_out;
        size_t before = answered(&waiting);
        if (kit_room_wait(talk->run->room, kit_talk_is_over, &waiting, step_ms) ||
            talk->run->room->interrupted)
            break;
        if (peer_counters(talk->seat->peer).bytes_out > taken || answered(&waiting) > before)
            quiet_ms = 0;
    }
    check_streams(talk); /* one that answers may close a stream right after it */
    return answered(&waiting) == count;
}

static bool all_served(void *data)
{
    const struct kit_talk *talk = data;
    return !kit_serves(talk->run->room, talk->seat) || kit_talk_is_spent(talk);
}

void kit_talk_wait_served(struct kit_talk *talk, uint64_t timeout_ms)
{
    kit_room_wait(talk->run->room, all_served, talk, timeout_ms);
    check_streams(talk);
}

/* -- the greeting of an MCP server ------------------------------------------------------------- */

static bool kit_talk_is_greeted(void *data)
{
    const struct kit_talk *talk = data;
    return kit_greeting_is_over(talk->greeting) || kit_talk_is_spent(talk);
}

/* The row has a time for each of its steps; the whole is bounded, too. */
bool kit_talk_greet(struct kit_talk *talk, enum dialect_variant variant, uint64_t timeout_ms)
{
    talk->greeting = kit_greeting_new(talk->seat, variant, timeout_ms, kit_talk_serve, talk);
    kit_room_wait(talk->run->room, kit_talk_is_greeted, talk, timeout_ms * GREETING_STEPS);
    check_streams(talk);
    return talk->greeting->is_ready && !kit_talk_is_spent(talk);
}
