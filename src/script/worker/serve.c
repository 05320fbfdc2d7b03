/*
 * Lines in, lines out. Each request runs in a coroutine of its own, so that what asks a person can
 * be parked while other requests are served; what asks the daemon waits for it on the spot. A
 * request is answered once: with what its coroutine returned, or with words.
 */
#include "script/worker/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES 65536

static const char prelude_text[] =
#include "prelude.lua.h"
    ;

const struct kg_option options_rows[] = {
    KG_OPTION(struct options, memory_bytes, 1 << 20, INT64_C(1) << 40, 64 << 20),
    KG_OPTION(struct options, instructions, 1000, INT64_MAX, 1000000000),
    KG_OPTION(struct options, line_bytes, 1024, INT32_MAX, 4 << 20),
    KG_OPTION(struct options, queue_lines, 1, 1 << 20, 1024),
    KG_OPTION(struct options, timers, 0, 1 << 20, 1000),
    {NULL},
};

struct line {
    struct line *next;
    size_t length;
    char text[];
};

struct job {
    struct job *next;
    struct kg_buf id; /* of the request, as it came; empty: nobody waits */
    int64_t asked;    /* the id of our request that it is parked for */
    int reference;    /* of its coroutine, in the registry; LUA_NOREF: none yet */
    lua_State *coroutine;
};

/* -- out --------------------------------------------------------------------------------------- */

static void script_worker_flush(struct runner *runner)
{
    int result = kg_write_all(runner->out_fd, runner->out.data, runner->out.length);
    runner->out.length = 0;
    if (result < 0)
        runner->failure = result;
}

static void script_worker_answer(struct runner *runner, struct kg_str id, const char *member,
                                 struct kg_str json)
{
    if (id.length == 0)
        return;
    kg_buf_text(&runner->out, "{\"jsonrpc\":\"2.0\",\"id\":");
    kg_buf_str(&runner->out, id);
    kg_buf_printf(&runner->out, ",\"%s\":", member);
    kg_buf_str(&runner->out, json);
    kg_buf_text(&runner->out, "}\n");
    script_worker_flush(runner);
}

static void script_worker_answer_failure(struct runner *runner, struct kg_str id, enum kg_code code,
                                         const char *words)
{
    kg_auto(kg_buf_free) struct kg_buf error = {0};
    rpc_put_error(&error, code, words);
    script_worker_answer(runner, id, "error", kg_buf_view(&error));
}

static void script_worker_send_request(struct runner *runner, int64_t id_or_0, const char *method,
                                       struct kg_str params)
{
    kg_buf_text(&runner->out, "{\"jsonrpc\":\"2.0\"");
    if (id_or_0 != 0)
        kg_buf_printf(&runner->out, ",\"id\":%lld", (long long)id_or_0);
    kg_buf_printf(&runner->out, ",\"method\":\"%s\",\"params\":", method);
    kg_buf_str(&runner->out, params);
    kg_buf_text(&runner->out, "}\n");
    script_worker_flush(runner);
}

void runner_tell(struct runner *runner, const char *method, struct kg_str params)
{
    script_worker_send_request(runner, 0, method, params);
}

/* -- coroutines -------------------------------------------------------------------------------- */

static void job_free(struct runner *runner, struct job *job)
{
    luaL_unref(runner->lua, LUA_REGISTRYINDEX, job->reference);
    kg_buf_free(&job->id);
    free(job);
}

/* What the main thread does of its own may lack memory: then it is words. */
static int script_worker_protect(struct runner *runner, lua_CFunction function, void *data,
                                 struct kg_buf *ret_words)
{
    lua_State *lua = runner->lua;
    lua_settop(lua, 0);
    lua_pushcfunction(lua, function); /* needs no memory: it is not a closure */
    lua_pushlightuserdata(lua, data);
    if (lua_pcall(lua, 1, 0, 0) == LUA_OK)
        return 0;
    calls_put_error(lua, ret_words);
    kg_buf_terminate(ret_words);
    lua_settop(lua, 0);
    return -1;
}

/* A function of the prelude, pushed. */
static void push_function(lua_State *lua, const char *name)
{
    lua_rawgeti(lua, LUA_REGISTRYINDEX, runner_of(lua)->prelude);
    lua_getfield(lua, -1, name);
    lua_remove(lua, -2);
}

struct registering {
    struct kg_buf json; /* empty: nothing is new */
};

static int read_registered(lua_State *lua)
{
    struct registering *registering = lua_touserdata(lua, 1);
    push_function(lua, "registered");
    lua_call(lua, 0, 1);
    if (!lua_isnil(lua, -1))
        bridge_write(lua, -1, &registering->json);
    return 0;
}

/* Before each answer, so that the caller knows what there is. */
static void tell_registered(struct runner *runner)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct registering registering = {0};
    if (script_worker_protect(runner, read_registered, &registering, &words) < 0)
        calls_log(runner, "error", kg_buf_view(&words));
    else if (registering.json.length > 0)
        runner_tell(runner, "script.registered", kg_buf_view(&registering.json));
    kg_buf_free(&registering.json);
}

struct finishing {
    struct job *job;
    struct kg_buf json;
};

static int script_worker_write_result(lua_State *lua)
{
    struct finishing *finishing = lua_touserdata(lua, 1);
    lua_State *coroutine = finishing->job->coroutine;
    if (lua_gettop(coroutine) > 0)
        lua_xmove(coroutine, lua, 1);
    else
        lua_pushnil(lua);
    bridge_write(lua, -1, &finishing->json);
    return 0;
}

static void script_worker_end_well(struct runner *runner, struct job *job)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct finishing finishing = {.job = job};
    lua_settop(job->coroutine, lua_gettop(job->coroutine) > 0 ? 1 : 0);
    int result = script_worker_protect(runner, script_worker_write_result, &finishing, &words);
    tell_registered(runner);
    if (result == 0)
        script_worker_answer(runner, kg_buf_view(&job->id), "result", kg_buf_view(&finishing.json));
    else
        script_worker_answer_failure(runner, kg_buf_view(&job->id), KG_E_PLUGIN, words.data);
    kg_buf_free(&finishing.json);
    job_free(runner, job);
}

static void end_badly(struct runner *runner, struct job *job, const char *words)
{
    calls_log(runner, "error", kg_str(words));
    tell_registered(runner);
    script_worker_answer_failure(runner, kg_buf_view(&job->id), KG_E_PLUGIN, words);
    job_free(runner, job);
}

/* An error leaves its coroutine as it was when it was raised. */
static int put_raised(lua_State *lua)
{
    struct finishing *finishing = lua_touserdata(lua, 1);
    lua_xmove(finishing->job->coroutine, lua, 1);
    calls_put_error(lua, &finishing->json);
    return 0;
}

static void end_raised(struct runner *runner, struct job *job)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct finishing finishing = {.job = job};
    bool told = script_worker_protect(runner, put_raised, &finishing, &words) == 0;
    lua_gc(runner->lua, LUA_GCCOLLECT);
    end_badly(runner, job, kg_buf_terminate(told ? &finishing.json : &words));
    kg_buf_free(&finishing.json);
}

static int script_worker_write_question(lua_State *lua)
{
    struct finishing *finishing = lua_touserdata(lua, 1);
    lua_xmove(finishing->job->coroutine, lua, 1);
    bridge_write(lua, -1, &finishing->json);
    return 0;
}

/* It asks a person: mark and question; or it yielded by itself, which has no meaning here. */
static void park(struct runner *runner, struct job *job, int count)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct finishing finishing = {.job = job};
    if (count != 2 || lua_touserdata(job->coroutine, -2) != (void *)&calls_ask_mark) {
        end_badly(runner, job, "a handler yielded outside of a coroutine of its own");
        return;
    }
    if (script_worker_protect(runner, script_worker_write_question, &finishing, &words) < 0) {
        end_badly(runner, job, words.data);
    } else {
        lua_settop(job->coroutine, 0);
        job->asked = ++runner->last_id;
        job->next = runner->parked;
        runner->parked = job;
        script_worker_send_request(runner, job->asked, "kaged.ask", kg_buf_view(&finishing.json));
    }
    kg_buf_free(&finishing.json);
}

static void script_worker_resume(struct runner *runner, struct job *job, int arguments)
{
    int count = 0;
    lua_State *outer = runner->running;
    limits_arm(runner, job->coroutine);
    runner->running = job->coroutine;
    int status = lua_resume(job->coroutine, runner->lua, arguments, &count);
    runner->running = outer;
    if (status == LUA_OK)
        script_worker_end_well(runner, job);
    else if (status == LUA_YIELD)
        park(runner, job, count);
    else
        end_raised(runner, job);
}

/* -- what is asked of the script --------------------------------------------------------------- */

struct beginning {
    struct job *job;
    const char *method;
    struct kg_str params;
};

/* The prelude's dispatch, the method and its parameters are on the coroutine's stack then. */
static int script_worker_begin(lua_State *lua)
{
    struct beginning *beginning = lua_touserdata(lua, 1);
    struct job *job = beginning->job;
    job->coroutine = lua_newthread(lua);
    job->reference = luaL_ref(lua, LUA_REGISTRYINDEX);
    push_function(lua, "dispatch");
    lua_pushstring(lua, beginning->method);
    bridge_push(lua, beginning->params.length > 0 ? beginning->params : KG_STR("{}"));
    lua_xmove(lua, job->coroutine, 3);
    return 0;
}

static void script_worker_run(struct runner *runner, struct kg_str id, const char *method,
                              struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct job *job = kg_alloc(sizeof(*job));
    job->reference = LUA_NOREF;
    kg_buf_str(&job->id, id);
    struct beginning beginning = {job, method, params};
    if (script_worker_protect(runner, script_worker_begin, &beginning, &words) < 0)
        end_badly(runner, job, words.data);
    else
        script_worker_resume(runner, job, 2);
}

struct resuming {
    struct job *job;
    struct kg_str json;
};

static int push_answer(lua_State *lua)
{
    struct resuming *resuming = lua_touserdata(lua, 1);
    bridge_push(lua, resuming->json);
    lua_xmove(lua, resuming->job->coroutine, 1);
    return 0;
}

/* An answer, or none: that is nil for the caller. */
static void unpark(struct runner *runner, int64_t id, struct kg_str result)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct job *job = runner->parked;
    while (job != NULL && job->asked != id)
        job = job->next;
    if (job == NULL)
        return; /* nobody waits for it */
    KG_UNLINK(runner->parked, job);
    struct resuming resuming = {job, result.length > 0 ? result : KG_STR("null")};
    if (script_worker_protect(runner, push_answer, &resuming, &words) < 0)
        end_badly(runner, job, words.data);
    else
        script_worker_resume(runner, job, 1);
}

/* -- the greeting ------------------------------------------------------------------------------ */

static char *script_worker_text_of(struct kg_str params, const char *key)
{
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, &err);
    struct kg_str text = doc ? kg_node_text(doc->root, key) : KG_STR_NULL;
    return kg_str_dup(text.data ? text : KG_STR(""));
}

static void initialize(struct runner *runner, struct kg_str id, struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    free(runner->name);
    runner->name = script_worker_text_of(params, "plugin_name");
    free(runner->version);
    runner->version = script_worker_text_of(params, "plugin_version");
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", runner->name);
    kg_json_named_text(&json, "version", runner->version);
    kg_json_named_int(&json, "api_version", 1);
    kg_json_end(&json, '}');
    script_worker_answer(runner, id, "result", kg_buf_view(&result));
}

/* -- lines ------------------------------------------------------------------------------------- */

static void script_worker_take_request(struct runner *runner, const struct rpc_message *message)
{
    if (strcmp(message->method, "ping") == 0)
        script_worker_answer(runner, message->id_text, "result", KG_STR("{\"status\":\"ok\"}"));
    else if (strcmp(message->method, "initialize") == 0)
        initialize(runner, message->id_text, message->params);
    else if (kg_str_starts(kg_str(message->method), "script."))
        script_worker_run(runner, message->id_text, message->method + strlen("script."),
                          message->params);
    else
        script_worker_answer_failure(runner, message->id_text, KG_E_METHOD_NOT_FOUND,
                                     "there is no such method");
}

void runner_take(struct runner *runner, struct kg_str line)
{
    struct rpc_message message;
    rpc_parse(line, &message);
    switch (message.kind) {
    case RPC_REQUEST:
        script_worker_take_request(runner, &message);
        break;
    case RPC_NOTIFICATION:
        runner->ended |= strcmp(message.method, "shutdown") == 0;
        break;
    case RPC_RESULT:
        unpark(runner, message.id, message.result);
        break;
    case RPC_ERROR:
        calls_log(runner, "info", KG_STR("a question was not answered"));
        unpark(runner, message.id, KG_STR_NULL);
        break;
    default:
        calls_log(runner, "error", KG_STR("a line that is not a message was dropped"));
    }
}

/* Pings do not wait: a script that waits for the daemon is well. */
static bool script_worker_on_line(void *data, struct kg_str text)
{
    struct runner *runner = data;
    struct rpc_message message;
    rpc_parse(text, &message);
    if (message.kind == RPC_REQUEST && strcmp(message.method, "ping") == 0) {
        script_worker_take_request(runner, &message);
        return true;
    }
    struct line *line = kg_alloc(sizeof(*line) + text.length);
    line->length = text.length;
    memcpy(line->text, text.data, text.length);
    *runner->lines_end = line;
    runner->lines_end = &line->next;
    runner->line_count++;
    return runner->line_count <= (size_t)runner->options->queue_lines;
}

/* Waits for bytes, for at most so long (negative: for ever), and reads once. */
static void script_worker_read_more(struct runner *runner, int timeout_ms)
{
    char scratch[READ_BYTES];
    size_t size;
    struct pollfd ready = {.fd = runner->in_fd, .events = POLLIN};
    if (poll(&ready, 1, timeout_ms) <= 0)
        return;
    char *space = frame_space(&runner->frame, scratch, sizeof(scratch), &size);
    ssize_t got = read(runner->in_fd, space, size);
    if (got < 0 && errno != EINTR && errno != EAGAIN)
        runner->failure = -errno;
    runner->ended |= got == 0;
    if (got > 0 && frame_advance(&runner->frame, space, (size_t)got, script_worker_on_line,
                                 runner) != FRAME_OK)
        runner->failure = -EMSGSIZE;
}

static struct line *script_worker_take_line(struct runner *runner, struct line **at)
{
    struct line *line = *at;
    *at = line->next;
    if (*at == NULL)
        runner->lines_end = at;
    runner->line_count--;
    return line;
}

/* -- what the script asks ---------------------------------------------------------------------- */

static bool answers(const struct line *line, int64_t id, struct rpc_message *ret_message)
{
    rpc_parse((struct kg_str){line->text, line->length}, ret_message);
    return (ret_message->kind == RPC_RESULT || ret_message->kind == RPC_ERROR) &&
           ret_message->id == id;
}

static int script_worker_take_answer(const struct rpc_message *message, struct kg_buf *ret_result,
                                     struct kg_buf *ret_words)
{
    if (message->kind == RPC_ERROR) {
        rpc_error_message(message->error, ret_words);
        return -1;
    }
    kg_buf_str(ret_result, message->result);
    return 0;
}

int runner_ask(struct runner *runner, const char *method, struct kg_str params,
               struct kg_buf *ret_result, struct kg_buf *ret_words)
{
    struct rpc_message message;
    int64_t id = ++runner->last_id;
    struct line **at = runner->lines_end;
    script_worker_send_request(runner, id, method, params);
    while (runner->failure == 0) {
        for (; *at != NULL; at = &(*at)->next) {
            if (!answers(*at, id, &message))
                continue;
            struct line *line = script_worker_take_line(runner, at);
            int result = script_worker_take_answer(&message, ret_result, ret_words);
            free(line);
            return result;
        }
        if (runner->ended)
            break;
        script_worker_read_more(runner, -1);
    }
    kg_buf_text(ret_words, "the daemon is gone");
    return -1;
}

/* -- timers ------------------------------------------------------------------------------------ */

static int read_due(lua_State *lua)
{
    int *due_ms = lua_touserdata(lua, 1);
    push_function(lua, "due");
    lua_call(lua, 0, 1);
    *due_ms = lua_isinteger(lua, -1) ? (int)lua_tointeger(lua, -1) : -1;
    return 0;
}

/* How long until the next one; negative: there is none. */
static int next_due_ms(struct runner *runner)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    int due_ms = -1;
    return script_worker_protect(runner, read_due, &due_ms, &words) == 0 ? due_ms : -1;
}

int runner_run_due(struct runner *runner)
{
    int due_ms = next_due_ms(runner);
    if (due_ms == 0)
        script_worker_run(runner, KG_STR_NULL, "timer", KG_STR_NULL);
    return due_ms;
}

int runner_serve(struct runner *runner)
{
    while (runner->failure == 0 && (!runner->ended || runner->lines != NULL)) {
        if (runner->lines != NULL) {
            struct line *line = script_worker_take_line(runner, &runner->lines);
            runner_take(runner, (struct kg_str){line->text, line->length});
            free(line);
            continue;
        }
        script_worker_read_more(runner, runner_run_due(runner));
    }
    return runner->failure;
}

/* -- life -------------------------------------------------------------------------------------- */

static int open_lua(lua_State *lua)
{
    struct runner *runner = lua_touserdata(lua, 1);
    lua_newtable(lua);
    lua_newtable(lua);
    lua_pushliteral(lua, "k");
    lua_setfield(lua, -2, "__mode");
    lua_setmetatable(lua, -2);
    runner->arrays = luaL_ref(lua, LUA_REGISTRYINDEX);
    sandbox_open(lua);
    if (luaL_loadbufferx(lua, prelude_text, sizeof(prelude_text) - 1, "=kage", "t") != LUA_OK)
        return lua_error(lua);
    calls_open(lua);
    lua_call(lua, 1, 1);
    runner->prelude = luaL_ref(lua, LUA_REGISTRYINDEX);
    return 0;
}

struct runner *runner_new(const struct options *options, int in_fd, int out_fd, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct runner *runner = kg_alloc(sizeof(*runner));
    runner->options = options;
    runner->in_fd = in_fd;
    runner->out_fd = out_fd;
    runner->log_fd = STDERR_FILENO;
    runner->lines_end = &runner->lines;
    runner->frame.line_max = (size_t)options->line_bytes;
    runner->limits.memory_max = (size_t)options->memory_bytes;
    runner->limits.steps_max = (uint64_t)options->instructions;
    runner->lua = lua_newstate(limits_allocate, &runner->limits);
    if (runner->lua == NULL) {
        kg_fail(err, KG_E_INTERNAL, "Lua failed to start in %lld bytes",
                (long long)options->memory_bytes);
    } else {
        *(struct runner **)lua_getextraspace(runner->lua) = runner;
        if (script_worker_protect(runner, open_lua, runner, &words) == 0)
            return runner;
        kg_fail(err, KG_E_INTERNAL, "Lua failed to start: %s", words.data);
    }
    runner_free(runner);
    return NULL;
}

void runner_free(struct runner *runner)
{
    while (runner->parked != NULL) {
        struct job *job = runner->parked;
        runner->parked = job->next;
        job_free(runner, job);
    }
    if (runner->lua != NULL)
        lua_close(runner->lua);
    while (runner->lines != NULL)
        free(script_worker_take_line(runner, &runner->lines));
    frame_free(&runner->frame);
    kg_buf_free(&runner->out);
    free(runner->name);
    free(runner->version);
    free(runner);
}
