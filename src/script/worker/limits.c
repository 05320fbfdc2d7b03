/*
 * A script has so much memory, and so many instructions each time it is entered. Past the second
 * every further instruction raises: whatever catches the error cannot go on with it.
 */
#include "script/worker/internal.h"

#include <stdlib.h>

#define STRIDE 1000000 /* instructions between two looks */

/* -- memory ------------------------------------------------------------------------------------ */

void *limits_allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    struct limits *limits = data;
    size_t before = block != NULL ? old_size : 0; /* without a block it says what it is for */
    if (new_size == 0) {
        free(block);
        limits->memory_used -= before;
        return NULL;
    }
    if (new_size > before && new_size - before > limits->memory_max - limits->memory_used)
        return NULL;
    void *grown = realloc(block, new_size);
    if (grown != NULL)
        limits->memory_used += new_size - before;
    return grown;
}

/* -- instructions ------------------------------------------------------------------------------ */

struct runner *runner_of(lua_State *lua)
{
    return *(struct runner **)lua_getextraspace(lua);
}

/* Coroutines inherit the hook of whoever creates them; one that met a spent budget has a stride
 * of 1.
 */
static void on_count(lua_State *lua, lua_Debug *debug)
{
    struct runner *runner = runner_of(lua);
    struct limits *limits = &runner->limits;
    (void)debug;
    limits->steps_used += (uint64_t)lua_gethookcount(lua);
    limits->blown |= limits->steps_used >= limits->steps_max;
    lua_sethook(lua, on_count, LUA_MASKCOUNT, limits->blown ? 1 : STRIDE);
    if (!limits->blown)
        return;
    if (runner->running != NULL)
        lua_sethook(runner->running, on_count, LUA_MASKCOUNT, 1);
    luaL_error(lua, "the script exceeded its CPU budget");
}

void limits_arm(struct runner *runner, lua_State *coroutine)
{
    struct limits *limits = &runner->limits;
    uint64_t stride = limits->steps_max < STRIDE ? limits->steps_max : STRIDE;
    limits->steps_used = 0;
    limits->blown = false;
    lua_sethook(coroutine, on_count, LUA_MASKCOUNT, (int)stride);
}
