/*
 * Commands that scripts register. One is run as an operator asks for it: what its script tells
 * meanwhile and what it returns are lines, the last of which is the result. A command that is left
 * alone by its caller goes on in its script, whose deadline stands.
 */
#include "host/asks.h"
#include "host/process.h"
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

struct command {
    struct live_work work;
    struct live_scripts scripts;
    char *name, *args; /* owned */
    char *process;     /* owned; whose it is; NULL until that is known */
    char *plugin;      /* owned; the same */
    struct host_call *call;
    struct host_listener listener;
    const struct turn_ops *ops;
    void *data;
    bool told;             /* a line */
    struct kg_buf result;  /* the last line, while the session moves */
    struct moving *moving; /* that move; NULL: there is none */
};

/* A move that the command asked for. It outlives a command that is left alone. */
struct moving {
    struct command *command; /* NULL: nobody wants to know */
};

static struct command *live_command_of(struct live_work *work)
{
    return KG_CONTAINER(work, struct command, work);
}

static void live_command_free(struct command *command)
{
    if (command->process != NULL) {
        host_events_unlisten(host_events(command->work.sessions->host), &command->listener);
        command->work.live->commands--;
        live_serve_wishes(command->work.live);
    }
    live_scripts_clear(&command->scripts);
    live_work_end(&command->work);
    kg_buf_free(&command->result);
    free(command->name);
    free(command->args);
    free(command->process);
    free(command->plugin);
    free(command);
}

static void command_refuse(struct command *command, const struct kg_err *err)
{
    const struct turn_ops *ops = command->ops;
    void *data = command->data;
    live_command_free(command);
    ops->on_refused(data, err);
}

/* -- which script ------------------------------------------------------------------------------ */

/* By its name or by another one that it goes by. */
static bool command_is_called(const struct kg_node *offer, struct kg_str name)
{
    return kg_str_equal(kg_node_text(offer, "name"), name) ||
           kg_node_has_text(kg_node_get(offer, "aliases"), name);
}

/* Of two scripts the first by name has it. */
static struct host_process *command_find(const struct live_session *live, struct kg_str name)
{
    struct host *host = live->sessions->host;
    for (struct host_plugin *at = NULL; (at = host_script_after(host, at)) != NULL;) {
        struct host_process *process = live_script_process(live, at);
        const struct kg_node *commands =
            kg_node_list(process ? host_script_offers(process) : NULL, "commands");
        for (uint32_t i = 0; i < commands->count; i++)
            if (command_is_called(&commands->items[i], name))
                return process;
    }
    return NULL;
}

/* -- lines ------------------------------------------------------------------------------------- */

static void command_tell(struct command *command, struct kg_json_writer *json)
{
    kg_json_end(json, '}');
    kg_buf_char(json->buf, '\n');
    command->told = true;
    command->ops->on_line(command->data, kg_buf_view(json->buf));
}

static void command_on_event(struct host_listener *listener, struct host_event *event)
{
    struct command *command = KG_CONTAINER(listener, struct command, listener);
    struct kg_err err;
    if (event->type != HOST_EVENT_NOTIFICATION || !kg_str_is(event->name, "script.notice") ||
        !kg_str_is(event->plugin, command->process))
        return;
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *notice = kg_json_read(event->params, &err);
    struct kg_json_writer json = kg_json_writer(&line);
    if (notice == NULL)
        return;
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "type", "notice");
    kg_json_named_text(&json, "plugin", command->plugin);
    kg_json_named_str(&json, "level", kg_node_text(notice->root, "level"));
    kg_json_named_str(&json, "text", kg_node_text(notice->root, "text"));
    command_tell(command, &json);
}

static void command_put_result(struct command *command, const struct host_reply *reply)
{
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *result =
        reply->error.code == KG_OK ? kg_json_read(reply->result, &err) : NULL;
    const struct kg_node *root = result ? result->root : NULL;
    const struct kg_node *structured = root ? kg_node_get(root, "structured") : NULL;
    struct kg_json_writer json = kg_json_writer(&command->result);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "type", "result");
    kg_json_named_text(&json, "command", command->name);
    kg_json_named_text(&json, "plugin", command->plugin);
    kg_json_named_bool(&json, "is_error", root == NULL || kg_node_is_true(root, "is_error"));
    kg_json_named_str(&json, "text",
                      root ? kg_node_text(root, "text") : kg_str(reply->error.message));
    if (structured != NULL) {
        kg_json_key(&json, "structured");
        kg_json_node(&json, structured);
    }
    kg_json_end(&json, '}');
    kg_buf_char(&command->result, '\n');
}

static void command_tell_question(void *data, const struct state_question *row)
{
    struct command *command = data;
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = kg_json_writer(&line);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "type", "question");
    kg_json_named_text(&json, "plugin", command->plugin);
    kg_json_key(&json, "question");
    live_question_write(row, &json);
    command_tell(command, &json);
}

static bool command_ask(void *data, struct host_ask *asked)
{
    struct command *command = data;
    return asked->kind != HOST_ASK_SAMPLE &&
           live_question_begin(&command->work, asked, command_tell_question, command);
}

static void command_withdraw_question(void *data, struct host_ask *asked, const char *why)
{
    struct command *command = data;
    (void)why;
    live_question_end(&command->work, asked);
}

/* -- the call ---------------------------------------------------------------------------------- */

static void command_on_called(struct live_work *work, const struct kg_err *err_or_null)
{
    struct command *command = live_command_of(work);
    const struct turn_ops *ops = command->ops;
    void *data = command->data;
    if (err_or_null != NULL && !command->told) {
        command_refuse(command, err_or_null);
        return;
    }
    live_command_free(command);
    ops->on_end(data);
}

static void command_end_well(struct command *command)
{
    command->told = true;
    command->ops->on_line(command->data, kg_buf_view(&command->result));
    live_arrived(&command->work, NULL);
}

/* What became of the move: a line of its own, before the result. */
static void command_tell_move(struct command *command, struct kg_str json,
                              const struct kg_err *err_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer writer = kg_json_writer(&line);
    kg_json_begin(&writer, '{');
    kg_json_named_text(&writer, "type", err_or_null ? "notice" : "moved");
    kg_json_named_text(&writer, "plugin", command->plugin);
    if (err_or_null != NULL) {
        kg_json_named_text(&writer, "level", "error");
        kg_json_named_text(&writer, "text", err_or_null->message);
    } else {
        kg_json_named_raw(&writer, "move", json);
    }
    command_tell(command, &writer);
}

static void command_on_moved(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    struct moving *moving = data;
    struct command *command = moving->command;
    free(moving);
    if (command == NULL)
        return;
    command->moving = NULL;
    command_tell_move(command, json, err_or_null);
    command_end_well(command);
}

/* The session moves when the command is over, and the result comes when it has. */
static void command_on_done(void *data, const struct host_reply *reply)
{
    struct command *command = data;
    struct moving *moving = kg_alloc(sizeof(*moving));
    command->call = NULL;
    command_put_result(command, reply);
    moving->command = command;
    if (live_move_wanted(command->work.live, command->work.asker, command_on_moved, moving)) {
        command->moving = moving;
        return;
    }
    free(moving);
    command_end_well(command);
}

static void command_withdraw(void *data)
{
    struct command *command = data;
    if (command->moving != NULL)
        kg_steal(&command->moving)->command = NULL;
    else
        host_call_cancel(kg_steal(&command->call));
}

static int send_command(struct command *command, struct host_process *process, struct kg_err *err)
{
    static const struct host_call_kind kind = {
        .act = DIALECT_METHOD,
        .audit_sent = host_audit_called,
        .audit_ended = host_audit_returned,
    };
    static const struct host_asked_ops asked = {.ask = command_ask,
                                                .withdraw = command_withdraw_question};
    struct host *host = command->work.sessions->host;
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", command->name);
    kg_json_named_text(&json, "args", command->args);
    kg_json_end(&json, '}');
    const struct host_passage passage = {
        .process = process,
        .method = KG_STR("script.command"),
        .params = kg_buf_view(&params),
        .asker = command->work.asker,
        .timeout_ms = host_call_timeout_ms(host, 0),
        .kind = &kind,
        .on_done = command_on_done,
        .asked = &asked,
        .data = command,
    };
    command->call = host_pass(host, &passage, err);
    return command->call != NULL ? 0 : -EINVAL;
}

static void command_on_scripts(struct live_work *work, const struct kg_err *err_or_null)
{
    struct command *command = live_command_of(work);
    struct kg_err err = {0};
    struct host_process *process =
        err_or_null ? NULL : command_find(work->live, kg_str(command->name));
    if (err_or_null == NULL && process == NULL) {
        kg_fail(&err, KG_E_NOT_FOUND, "session %s has no command /%s", work->live->id.text,
                command->name);
        kg_hint(&err, "kaged session commands %s lists them", work->live->id.text);
        err_or_null = &err;
    }
    if (err_or_null == NULL && send_command(command, process, &err) < 0)
        err_or_null = &err;
    if (err_or_null != NULL) {
        command_refuse(command, err_or_null);
        return;
    }
    const struct host_status status = host_process_status(process);
    work->live->commands++;
    command->process = kg_strdup(status.name);
    command->plugin = kg_strdup(status.plugin);
    command->listener.on_event = command_on_event;
    host_events_listen(host_events(work->sessions->host), &command->listener);
    live_await(work, command, command_withdraw, command_on_called);
}

static void command_on_started(struct live_work *work, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        command_refuse(live_command_of(work), err_or_null);
    else
        live_scripts_start(&live_command_of(work)->scripts, work, command_on_scripts);
}

static void command_on_open(struct live_work *work, const struct kg_err *err_or_null)
{
    struct kg_err err = {0};
    if (err_or_null == NULL && live_check_open(work->live, &err) < 0)
        err_or_null = &err;
    if (err_or_null != NULL) {
        command_refuse(live_command_of(work), err_or_null);
        return;
    }
    live_work_for(work, "primary");
    live_start(work, command_on_started);
}

struct command *command_start(struct sessions *sessions, const struct sessions_request *request,
                              struct kg_str name, struct kg_str args, const struct turn_ops *ops,
                              void *data, struct kg_err *err)
{
    if (live_op_check(sessions, true, err) < 0)
        return NULL;
    struct command *command = kg_alloc(sizeof(*command));
    live_work_begin(&command->work, sessions, request->asker);
    command->name = kg_str_dup(name);
    command->args = kg_str_dup(args.data ? args : KG_STR(""));
    command->ops = ops;
    command->data = data;
    live_open(&command->work, request->session, command_on_open);
    return command;
}

void command_cancel(struct command *command, const struct kg_err *why)
{
    if ((command->call == NULL && command->moving == NULL) || !live_withdraw(&command->work))
        return; /* it ends by itself, soon */
    command_on_called(&command->work, why);
}

/* -- all of them ------------------------------------------------------------------------------- */

struct listing {
    struct live_op op;
    struct live_scripts scripts;
};

static void command_clear_listing(struct live_op *op)
{
    live_scripts_clear(&KG_CONTAINER(op, struct listing, op)->scripts);
}

static void command_put_commands(const struct host_process *process, const char *plugin,
                                 struct kg_json_writer *json)
{
    const struct kg_node *commands = kg_node_list(host_script_offers(process), "commands");
    for (uint32_t i = 0; i < commands->count; i++) {
        const struct kg_node *offer = &commands->items[i];
        kg_json_begin(json, '{');
        kg_json_named_str(json, "name", kg_node_text(offer, "name"));
        kg_json_named_str(json, "description", kg_node_text(offer, "description"));
        kg_json_key(json, "aliases");
        kg_json_node(json, kg_node_list(offer, "aliases"));
        kg_json_named_text(json, "plugin", plugin);
        kg_json_end(json, '}');
    }
}

static void list_ready(struct live_op *op)
{
    const struct live_session *live = op->work.live;
    struct kg_json_writer json = kg_json_writer(&op->json);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "commands", '[');
    for (struct host_plugin *at = NULL;
         (at = host_script_after(op->work.sessions->host, at)) != NULL;) {
        const struct host_process *process = live_script_process(live, at);
        if (process != NULL)
            command_put_commands(process, host_status((struct host_named){at, NULL}).plugin, &json);
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    live_op_answer(op);
}

static void list_started(struct live_op *op)
{
    struct listing *listing = KG_CONTAINER(op, struct listing, op);
    live_scripts_start(&listing->scripts, &op->work, live_op_then(op, list_ready));
}

static void list_open(struct live_op *op)
{
    struct kg_err err = {0};
    if (live_check_open(op->work.live, &err) < 0) {
        live_op_fail(op, &err);
        return;
    }
    live_work_for(&op->work, "primary");
    live_start(&op->work, live_op_then(op, list_started));
}

void sessions_commands(struct sessions *sessions, const struct sessions_request *request)
{
    struct listing *listing =
        live_op_new(sizeof(*listing), sessions, request, command_clear_listing);
    if (live_op_admit(&listing->op, true))
        live_op_open(&listing->op, list_open);
}
