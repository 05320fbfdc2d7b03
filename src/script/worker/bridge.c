/*
 * JSON to Lua and back. Nothing here runs a metamethod: a table is what it holds. A null is nil; a
 * table that was an array stays one while it is empty, which a weak table in the registry
 * remembers, so that scripts see nothing of it.
 */
#include "script/worker/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DEPTH_MAX      128
#define ENVELOPE_BYTES 512 /* of a line, around a value */

/* -- into Lua ---------------------------------------------------------------------------------- */

static void push_number(lua_State *lua, const struct kg_node *node)
{
    char text[64];
    int64_t integer;
    if (kg_node_int(node, &integer)) {
        lua_pushinteger(lua, integer);
        return;
    }
    if (node->text.length < sizeof(text)) {
        kg_str_copy(node->text, text, sizeof(text));
        lua_pushnumber(lua, strtod(text, NULL));
        return;
    }
    lua_pushlstring(lua, node->text.data, node->text.length); /* it ends in NUL there */
    lua_Number number = strtod(lua_tostring(lua, -1), NULL);
    lua_pop(lua, 1);
    lua_pushnumber(lua, number);
}

static void push_node(lua_State *lua, const struct kg_node *node, int arrays);

static void push_array(lua_State *lua, const struct kg_node *node, int arrays)
{
    lua_createtable(lua, 0, 0);
    lua_pushvalue(lua, -1);
    lua_pushinteger(lua, node->count);
    lua_rawset(lua, arrays);
    for (uint32_t i = 0; i < node->count; i++) {
        push_node(lua, &node->items[i], arrays);
        lua_rawseti(lua, -2, i + 1);
    }
}

static void push_object(lua_State *lua, const struct kg_node *node, int arrays)
{
    lua_createtable(lua, 0, 0);
    for (uint32_t i = 0; i < node->count; i++) {
        const struct kg_member *member = &node->members[i];
        lua_pushlstring(lua, member->key.data, member->key.length);
        push_node(lua, &member->value, arrays);
        lua_rawset(lua, -3);
    }
}

static void push_node(lua_State *lua, const struct kg_node *node, int arrays)
{
    luaL_checkstack(lua, 6, "JSON");
    switch (node->type) {
    case KG_BOOL:
        lua_pushboolean(lua, node->boolean);
        break;
    case KG_NUMBER:
        push_number(lua, node);
        break;
    case KG_STRING:
        lua_pushlstring(lua, node->text.data, node->text.length);
        break;
    case KG_ARRAY:
        push_array(lua, node, arrays);
        break;
    case KG_OBJECT:
        push_object(lua, node, arrays);
        break;
    default:
        lua_pushnil(lua);
    }
}

static int push_protected(lua_State *lua)
{
    const struct kg_doc *doc = lua_touserdata(lua, 1);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, runner_of(lua)->arrays);
    push_node(lua, doc->root, lua_gettop(lua));
    return 1;
}

void bridge_push(lua_State *lua, struct kg_str json)
{
    struct kg_err err = {0};
    luaL_checkstack(lua, 4, "JSON");
    if (json.length > (size_t)runner_of(lua)->options->line_bytes)
        luaL_error(lua, "a text of %d bytes is too large", (int)json.length);
    lua_pushcfunction(lua, push_protected); /* before there is something to free */
    struct kg_doc *doc = kg_json_read(json, &err);
    if (doc == NULL)
        luaL_error(lua, "%s", err.message);
    lua_pushlightuserdata(lua, doc);
    int status = lua_pcall(lua, 1, 1, 0);
    kg_doc_free(doc);
    if (status != LUA_OK)
        lua_error(lua);
}

/* -- out of Lua -------------------------------------------------------------------------------- */

struct writing {
    struct kg_buf *out;
    size_t bytes_max;
    int arrays; /* its index */
};

static void write_value(lua_State *lua, const struct writing *writing, int index, unsigned depth);

/* Before so many bytes more: what was written may have become longer than it was. */
static void check_size(lua_State *lua, const struct writing *writing, size_t more)
{
    size_t length = writing->out->length;
    if (length > writing->bytes_max || more > writing->bytes_max - length)
        luaL_error(lua, "the value is larger than %d bytes", (int)writing->bytes_max);
}

static void write_text(lua_State *lua, const struct writing *writing, int index)
{
    struct kg_str text;
    text.data = lua_tolstring(lua, index, &text.length);
    if (kg_utf8_valid(text) != text.length)
        luaL_error(lua, "a string is not UTF-8");
    check_size(lua, writing, text.length);
    kg_json_put_string(writing->out, text);
}

/* The shortest that reads back the same, and looks like no integer. */
static void write_number(lua_State *lua, const struct writing *writing, int index)
{
    char text[64];
    if (lua_isinteger(lua, index)) {
        kg_buf_int(writing->out, lua_tointeger(lua, index));
        return;
    }
    double number = lua_tonumber(lua, index);
    if (!isfinite(number)) {
        kg_buf_text(writing->out, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    kg_buf_text(writing->out, text);
    if (strpbrk(text, ".e") == NULL)
        kg_buf_text(writing->out, ".0");
}

/* How many items a table has that was an array, with holes for nulls; -1: it is none any more. */
static lua_Integer count_marked(lua_State *lua, int index, lua_Integer was)
{
    lua_Integer most = 0, length = (lua_Integer)lua_rawlen(lua, index);
    lua_Integer bound = was > length ? was : length;
    for (lua_pushnil(lua); lua_next(lua, index) != 0;) {
        lua_pop(lua, 1);
        lua_Integer key = lua_isinteger(lua, -1) ? lua_tointeger(lua, -1) : 0;
        if (key < 1 || key > bound) {
            lua_pop(lua, 1);
            return -1;
        }
        most = key > most ? key : most;
    }
    return most;
}

/* The same of any table: one that begins with 1 and has no holes. */
static lua_Integer count_items(lua_State *lua, const struct writing *writing, int index)
{
    lua_pushvalue(lua, index);
    bool marked = lua_rawget(lua, writing->arrays) == LUA_TNUMBER;
    lua_Integer was = lua_tointeger(lua, -1), length = (lua_Integer)lua_rawlen(lua, index);
    lua_pop(lua, 1);
    if (marked && (was = count_marked(lua, index, was)) >= 0)
        return was;
    for (lua_Integer i = 1; i <= length; i++) {
        bool is_hole = lua_rawgeti(lua, index, i) == LUA_TNIL;
        lua_pop(lua, 1);
        if (is_hole)
            return -1;
    }
    return length > 0 ? length : -1;
}

static void write_key(lua_State *lua, const struct writing *writing)
{
    if (lua_type(lua, -2) == LUA_TSTRING)
        write_text(lua, writing, -2);
    else if (lua_isinteger(lua, -2))
        kg_buf_printf(writing->out, "\"%lld\"", (long long)lua_tointeger(lua, -2));
    else
        luaL_error(lua, "a key is neither a string nor an integer");
}

static void write_object(lua_State *lua, const struct writing *writing, int index, unsigned depth)
{
    bool more = false;
    kg_buf_char(writing->out, '{');
    for (lua_pushnil(lua); lua_next(lua, index) != 0; more = true) {
        if (more)
            kg_buf_char(writing->out, ',');
        write_key(lua, writing);
        kg_buf_char(writing->out, ':');
        write_value(lua, writing, lua_gettop(lua), depth);
        lua_pop(lua, 1);
    }
    kg_buf_char(writing->out, '}');
}

static void write_table(lua_State *lua, const struct writing *writing, int index, unsigned depth)
{
    luaL_checkstack(lua, 6, "JSON");
    if (depth == DEPTH_MAX)
        luaL_error(lua, "a table is nested in more than %d others, or in itself", DEPTH_MAX);
    lua_Integer count = count_items(lua, writing, index);
    if (count < 0) {
        write_object(lua, writing, index, depth);
        return;
    }
    kg_buf_char(writing->out, '[');
    for (lua_Integer i = 1; i <= count; i++) {
        if (i > 1)
            kg_buf_char(writing->out, ',');
        lua_rawgeti(lua, index, i);
        write_value(lua, writing, lua_gettop(lua), depth);
        lua_pop(lua, 1);
    }
    kg_buf_char(writing->out, ']');
}

static void write_value(lua_State *lua, const struct writing *writing, int index, unsigned depth)
{
    check_size(lua, writing, 0);
    switch (lua_type(lua, index)) {
    case LUA_TBOOLEAN:
        kg_buf_text(writing->out, lua_toboolean(lua, index) ? "true" : "false");
        break;
    case LUA_TNUMBER:
        write_number(lua, writing, index);
        break;
    case LUA_TSTRING:
        write_text(lua, writing, index);
        break;
    case LUA_TTABLE:
        write_table(lua, writing, index, depth + 1);
        break;
    default:
        kg_buf_text(writing->out, "null");
    }
}

void bridge_write(lua_State *lua, int index, struct kg_buf *out)
{
    struct writing writing = {
        .out = out, .bytes_max = (size_t)runner_of(lua)->options->line_bytes - ENVELOPE_BYTES};
    int value = lua_absindex(lua, index);
    luaL_checkstack(lua, 6, "JSON");
    lua_rawgeti(lua, LUA_REGISTRYINDEX, runner_of(lua)->arrays);
    writing.arrays = lua_gettop(lua);
    write_value(lua, &writing, value, 0);
    check_size(lua, &writing, 0);
    lua_pop(lua, 1);
}
