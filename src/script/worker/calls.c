/*
 * What prelude.lua cannot do in Lua. A script never sees this table: it holds what the prelude made
 * of it. Whatever is allocated in here outside of Lua is freed before an error climbs.
 */
#include "base/base64.h"
#include "script/worker/internal.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_MAX 4096
#define WORDS_MAX    4096 /* of an error */
#define SLEEP_MAX_MS 500

const char calls_ask_mark = 0;

/* -- texts ------------------------------------------------------------------------------------- */

static struct kg_str cut(struct kg_str text, size_t length)
{
    return kg_str_first(text, text.length < length ? text.length : length);
}

/* Lines of what is written to stderr are the log of the plugin. */
void calls_log(struct runner *runner, const char *level, struct kg_str words)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_printf(&line, "%s: ", level);
    kg_buf_escaped(&line, cut(words, LOG_LINE_MAX));
    kg_buf_char(&line, '\n');
    (void)kg_write_all(runner->log_fd, line.data, line.length);
}

static int to_text(lua_State *lua)
{
    luaL_tolstring(lua, 1, NULL);
    return 1;
}

/* An error may be of any type, and its own __tostring may fail. */
void calls_put_error(lua_State *lua, struct kg_buf *out)
{
    struct kg_str text = KG_STR_NULL;
    if (lua_type(lua, -1) == LUA_TSTRING) {
        text.data = lua_tolstring(lua, -1, &text.length);
        kg_buf_escaped(out, cut(text, WORDS_MAX));
        return;
    }
    const char *type = luaL_typename(lua, -1);
    lua_pushcfunction(lua, to_text);
    lua_pushvalue(lua, -2);
    if (lua_pcall(lua, 1, 1, 0) == LUA_OK)
        text.data = lua_tolstring(lua, -1, &text.length);
    kg_buf_printf(out, "an error that is a %s: ", type);
    kg_buf_escaped(out, text.data ? cut(text, WORDS_MAX) : KG_STR("(without words)"));
    lua_pop(lua, 1);
}

static int push_words(lua_State *lua)
{
    struct kg_str words = *(struct kg_str *)lua_touserdata(lua, 1);
    lua_pushlstring(lua, words.data, words.length);
    return 1;
}

/* Pushes a text that is freed then, whether there is memory for it or not. */
static void push_owned(lua_State *lua, struct kg_buf *owned)
{
    struct kg_str view = kg_buf_view(owned);
    lua_pushcfunction(lua, push_words);
    lua_pushlightuserdata(lua, &view);
    int status = lua_pcall(lua, 1, 1, 0);
    kg_buf_free(owned);
    if (status != LUA_OK)
        lua_error(lua);
}

static int words(lua_State *lua)
{
    struct kg_buf text = {0};
    lua_settop(lua, 1);
    calls_put_error(lua, &text);
    push_owned(lua, &text);
    return 1;
}

static int log_line(lua_State *lua)
{
    struct kg_str text;
    const char *level = luaL_checkstring(lua, 1);
    text.data = luaL_checklstring(lua, 2, &text.length);
    calls_log(runner_of(lua), level, text);
    return 0;
}

/* -- JSON -------------------------------------------------------------------------------------- */

static int write_protected(lua_State *lua)
{
    bridge_write(lua, 2, lua_touserdata(lua, 1));
    return 0;
}

/* Of the value at the index; raises with the buffer freed. */
static void encode_or_raise(lua_State *lua, int index, struct kg_buf *ret_json)
{
    int value = lua_absindex(lua, index);
    luaL_checkstack(lua, 4, "JSON");
    lua_pushcfunction(lua, write_protected);
    lua_pushlightuserdata(lua, ret_json);
    lua_pushvalue(lua, value);
    if (lua_pcall(lua, 2, 0, 0) == LUA_OK)
        return;
    kg_buf_free(ret_json);
    lua_error(lua);
}

static int encode(lua_State *lua)
{
    struct kg_buf json = {0};
    luaL_checkany(lua, 1);
    encode_or_raise(lua, 1, &json);
    push_owned(lua, &json);
    return 1;
}

static int decode(lua_State *lua)
{
    struct kg_str text;
    text.data = luaL_checklstring(lua, 1, &text.length);
    bridge_push(lua, text);
    return 1;
}

/* -- bytes ------------------------------------------------------------------------------------- */

static int to_base64(lua_State *lua)
{
    struct kg_str bytes;
    struct kg_buf text = {0};
    bytes.data = luaL_checklstring(lua, 1, &bytes.length);
    kg_base64_put(&text, bytes);
    push_owned(lua, &text);
    return 1;
}

static int from_base64(lua_State *lua)
{
    struct kg_str text;
    struct kg_buf bytes = {0};
    text.data = luaL_checklstring(lua, 1, &text.length);
    kg_buf_reserve(&bytes, text.length + 1);
    if (!kg_base64_read(text, (unsigned char *)bytes.data, &bytes.length))
        bytes.length = 0; /* it comes from the daemon, which writes none that cannot be read */
    push_owned(lua, &bytes);
    return 1;
}

/* -- the daemon -------------------------------------------------------------------------------- */

static int push_json(lua_State *lua)
{
    bridge_push(lua, *(struct kg_str *)lua_touserdata(lua, 1));
    return 1;
}

static int ask(lua_State *lua)
{
    struct kg_buf params = {0}, result = {0}, failure = {0};
    const char *method = luaL_checkstring(lua, 1);
    luaL_checktype(lua, 2, LUA_TTABLE);
    luaL_checkstack(lua, 4, "ask");
    encode_or_raise(lua, 2, &params);
    int asked = runner_ask(runner_of(lua), method, kg_buf_view(&params), &result, &failure);
    kg_buf_free(&params);
    if (asked < 0) {
        push_owned(lua, &failure);
        return lua_error(lua);
    }
    struct kg_str view = kg_buf_view(&result);
    lua_pushcfunction(lua, push_json);
    lua_pushlightuserdata(lua, &view);
    int status = lua_pcall(lua, 1, 1, 0);
    kg_buf_free(&result);
    return status == LUA_OK ? 1 : lua_error(lua);
}

static int tell(lua_State *lua)
{
    struct kg_buf params = {0};
    const char *method = luaL_checkstring(lua, 1);
    luaL_checktype(lua, 2, LUA_TTABLE);
    encode_or_raise(lua, 2, &params);
    runner_tell(runner_of(lua), method, kg_buf_view(&params));
    kg_buf_free(&params);
    return 0;
}

static int is_parked(lua_State *lua)
{
    lua_pushboolean(lua, runner_of(lua)->parked != NULL);
    return 1;
}

/* -- time and code ----------------------------------------------------------------------------- */

static int now_ms(lua_State *lua)
{
    lua_pushinteger(lua, kg_wall_ms());
    return 1;
}

static int monotonic_ms(lua_State *lua)
{
    lua_pushinteger(lua, (lua_Integer)kg_monotonic_ms());
    return 1;
}

static int sleep_ms(lua_State *lua)
{
    lua_Integer ms = luaL_checkinteger(lua, 1);
    if (ms < 0 || ms > SLEEP_MAX_MS)
        return luaL_error(lua, "kage.sleep_ms: from 0 to %d ms", SLEEP_MAX_MS);
    const struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
    return 0;
}

/* Text only: bytecode could do anything. The function, or nil and why it cannot be read. */
static int load_text(lua_State *lua)
{
    size_t length;
    const char *source = luaL_checklstring(lua, 1, &length);
    lua_pushfstring(lua, "=%s", luaL_checkstring(lua, 2));
    if (luaL_loadbufferx(lua, source, length, lua_tostring(lua, -1), "t") == LUA_OK)
        return 1;
    lua_pushnil(lua);
    lua_insert(lua, -2);
    return 2;
}

void calls_open(lua_State *lua)
{
    static const luaL_Reg calls[] = {
        {"ask", ask},
        {"tell", tell},
        {"parked", is_parked},
        {"log", log_line},
        {"words", words},
        {"encode", encode},
        {"decode", decode},
        {"now_ms", now_ms},
        {"monotonic_ms", monotonic_ms},
        {"sleep_ms", sleep_ms},
        {"load", load_text},
        {"to_base64", to_base64},
        {"from_base64", from_base64},
        {NULL, NULL},
    };
    luaL_newlib(lua, calls);
    lua_pushlightuserdata(lua, (void *)&calls_ask_mark);
    lua_setfield(lua, -2, "ask_mark");
    lua_pushinteger(lua, runner_of(lua)->options->timers);
    lua_setfield(lua, -2, "timers_max");
    lua_pushliteral(lua, KAGED_VERSION);
    lua_setfield(lua, -2, "version");
}
