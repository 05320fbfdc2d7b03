/*
 * What a script finds when it starts: the parts of Lua's library that reach nothing outside of it.
 * What is not named here is not there. No table that a script sees leads to another one's powers:
 * a metatable on the way cannot be had.
 */
#include "script/worker/internal.h"

static const luaL_Reg libraries[] = {
    {LUA_GNAME, luaopen_base},       {LUA_STRLIBNAME, luaopen_string},
    {LUA_TABLIBNAME, luaopen_table}, {LUA_MATHLIBNAME, luaopen_math},
    {LUA_UTF8LIBNAME, luaopen_utf8}, {LUA_COLIBNAME, luaopen_coroutine},
    {LUA_OSLIBNAME, luaopen_os},
};

/* Table and name, or a global. */
static const char *const removed[][2] = {
    {NULL, "dofile"},   {NULL, "loadfile"}, {NULL, "load"},   {NULL, "loadstring"},
    {NULL, "require"},  {NULL, "package"},  {NULL, "debug"},  {NULL, "rawset"},
    {NULL, "io"},       {"os", "execute"},  {"os", "exit"},   {"os", "remove"},
    {"os", "rename"},   {"os", "tmpname"},  {"os", "getenv"}, {"os", "setlocale"},
    {"string", "dump"},
};

/* -- functions that are ours ------------------------------------------------------------------- */

/* A finalizer would run when it pleases the collector, without a budget. */
static int set_metatable(lua_State *lua)
{
    int type = lua_type(lua, 2);
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_argexpected(lua, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table");
    if (luaL_getmetafield(lua, 1, "__metatable") != LUA_TNIL)
        return luaL_error(lua, "cannot change a protected metatable");
    if (type == LUA_TTABLE) {
        lua_pushliteral(lua, "__gc");
        if (lua_rawget(lua, 2) != LUA_TNIL)
            return luaL_error(lua, "setmetatable: scripts have no finalizers (__gc)");
        lua_pop(lua, 1);
    }
    lua_settop(lua, 2);
    lua_setmetatable(lua, 1);
    return 1;
}

/* Once the budget is spent no coroutine gives a script a new one. */
static int call_if_in_budget(lua_State *lua)
{
    if (runner_of(lua)->limits.blown)
        return luaL_error(lua, "the script exceeded its CPU budget");
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
    return lua_gettop(lua);
}

static void guard_coroutines(lua_State *lua)
{
    static const char *const guarded[] = {"create", "wrap"};
    lua_getglobal(lua, LUA_COLIBNAME);
    for (size_t i = 0; i < KG_COUNT(guarded); i++) {
        lua_getfield(lua, -1, guarded[i]);
        lua_pushcclosure(lua, call_if_in_budget, 1);
        lua_setfield(lua, -2, guarded[i]);
    }
    lua_pop(lua, 1);
}

/* What is printed goes to the log; stdout is the daemon's. */
static int sandbox_print(lua_State *lua)
{
    luaL_Buffer line;
    int count = lua_gettop(lua);
    luaL_buffinit(lua, &line);
    for (int i = 1; i <= count; i++) {
        if (i > 1)
            luaL_addchar(&line, '\t');
        luaL_tolstring(lua, i, NULL);
        luaL_addvalue(&line);
    }
    luaL_pushresult(&line);
    struct kg_str words;
    words.data = lua_tolstring(lua, -1, &words.length);
    calls_log(runner_of(lua), "print", words);
    return 0;
}

/* -- all of it --------------------------------------------------------------------------------- */

static void remove_names(lua_State *lua)
{
    for (size_t i = 0; i < KG_COUNT(removed); i++) {
        if (removed[i][0] != NULL)
            lua_getglobal(lua, removed[i][0]);
        else
            lua_pushglobaltable(lua);
        lua_pushnil(lua);
        lua_setfield(lua, -2, removed[i][1]);
        lua_pop(lua, 1);
    }
}

/* Of the table or string at the top: there is a metatable, and nobody gets at it. */
static void protect_metatable(lua_State *lua)
{
    if (!lua_getmetatable(lua, -1))
        lua_createtable(lua, 0, 1);
    lua_pushboolean(lua, false);
    lua_setfield(lua, -2, "__metatable");
    lua_setmetatable(lua, -2);
}

void sandbox_open(lua_State *lua)
{
    for (size_t i = 0; i < KG_COUNT(libraries); i++) {
        luaL_requiref(lua, libraries[i].name, libraries[i].func, 1);
        lua_pop(lua, 1);
    }
    lua_pushnil(lua); /* what was required before is found there */
    lua_setfield(lua, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    remove_names(lua);
    guard_coroutines(lua);
    lua_register(lua, "setmetatable", set_metatable);
    lua_register(lua, "print", sandbox_print);
    lua_pushliteral(lua, "");
    protect_metatable(lua);
    lua_pop(lua, 1);
    lua_pushglobaltable(lua);
    protect_metatable(lua);
    lua_pop(lua, 1);
}
