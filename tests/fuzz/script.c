/*
 * Lines to kaged-lua, and JSON through Lua: whatever comes, each line is answered by lines of JSON
 * that are not too long, and a value that was read is written as JSON that reads as the same value.
 */
#include "script/worker/internal.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct options options;
static struct runner *runner;
static int out_fd, log_fd, in[2];

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* A script that was loaded takes commands, events and tools; it is new for each input. */
static void prepare(void)
{
    static const char load[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"script.load\",\"params\":{\"name\":\"t\","
        "\"source\":\"kage.on('turn_end', function(e) kage.notify(kage.json.encode(e)) end) "
        "kage.on('tool_call', function(e) return e end) "
        "kage.register_command{name='c',description='',args={{name='x',kind='text'}},"
        "handler=function(r) return kage.ui.input(r) end} "
        "kage.register_tool{name='t',description='',execute=function(i) return i end}\"}}";
    struct kg_err err;
    if (out_fd == 0) {
        kg_options_preset(options_rows, &options);
        options.memory_bytes = 16 << 20;
        options.instructions = 1000000;
        options.line_bytes = 1 << 16;
        out_fd = memfd_create("answers", MFD_CLOEXEC);
        must(out_fd > 0 && pipe2(in, O_CLOEXEC) == 0);
        close(in[1]); /* who waits for the daemon is told that it is gone */
        log_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    }
    runner = runner_new(&options, in[0], out_fd, &err);
    must(runner != NULL);
    runner->log_fd = log_fd;
    runner_take(runner, kg_str(load));
}

static void check_answers(void)
{
    char text[1 << 17];
    ssize_t got = pread(out_fd, text, sizeof(text), 0);
    struct kg_str rest = {text, got > 0 ? (size_t)got : 0};
    while (rest.length > 0 && (size_t)got < sizeof(text)) {
        struct kg_str line = kg_str_cut(&rest, '\n');
        must(line.length <= (size_t)options.line_bytes);
        must(line.length == 0 || kg_json_check(line, NULL) == KG_JSON_OK);
    }
    must(ftruncate(out_fd, 0) == 0 && lseek(out_fd, 0, SEEK_SET) == 0);
}

struct trip {
    struct kg_str in;
    struct kg_buf out;
};

static int make_trip(lua_State *lua)
{
    struct trip *trip = lua_touserdata(lua, 1);
    bridge_push(lua, trip->in);
    bridge_write(lua, -1, &trip->out);
    return 0;
}

static bool passes(struct trip *trip)
{
    lua_State *lua = runner->lua;
    lua_settop(lua, 0);
    lua_pushcfunction(lua, make_trip);
    lua_pushlightuserdata(lua, trip);
    bool passed = lua_pcall(lua, 1, 0, 0) == LUA_OK;
    lua_settop(lua, 0);
    return passed;
}

/* Keys of an object have no order in Lua: what comes back is of one length. */
static void check_trip(struct kg_str json)
{
    struct trip first = {.in = json};
    if (passes(&first)) {
        struct trip second = {.in = kg_buf_view(&first.out)};
        must(kg_json_check(second.in, NULL) == KG_JSON_OK);
        must(passes(&second) && second.out.length == first.out.length);
        kg_buf_free(&second.out);
    }
    kg_buf_free(&first.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kg_str rest = {(const char *)data, size};
    prepare();
    check_trip(rest);
    while (rest.length > 0 && !runner->ended)
        runner_take(runner, kg_str_cut(&rest, '\n'));
    check_answers();
    runner_free(runner);
    return 0;
}
