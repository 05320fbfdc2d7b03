/*
 * kaged-lua: one script of a stranger, in one Lua 5.4 of its own. What it may do is what
 * prelude.lua gives it, and all that leaves the process is a line to the daemon, which checks it
 * again. The Lua may loop, lie and eat memory: bounds in here give a friendly error, and the cage
 * and the daemon's deadlines hold where these do not reach.
 *
 *   limits   memory and instructions
 *   bridge   JSON to Lua and back
 *   sandbox  the environment of a script
 *   calls    what the prelude needs of C
 *   serve    lines in, lines out, and the coroutines in between
 */
#ifndef KAGED_SCRIPT_WORKER_INTERNAL_H
#define KAGED_SCRIPT_WORKER_INTERNAL_H

#include "wire/wire.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

struct options {
    int64_t memory_bytes; /* of Lua */
    int64_t instructions; /* for each entry: a load, an event, a command's step, a tool, a timer */
    int64_t line_bytes;   /* of a message, and of a JSON text in Lua */
    int64_t queue_lines;  /* that wait while Lua waits for the daemon */
    int64_t timers;
};
extern const struct kg_option options_rows[];

/* -- limits.c ---------------------------------------------------------------------------------- */

struct limits {
    size_t memory_used, memory_max;
    uint64_t steps_used, steps_max; /* instructions, counted in strides */
    bool blown;                     /* the instructions are used up: nothing goes on */
};
void *limits_allocate(void *limits, void *block, size_t old_size, size_t new_size);

struct job;
struct line;
struct runner {
    const struct options *options;
    struct limits limits;
    lua_State *lua;     /* the main thread; runs nothing of the script's */
    lua_State *running; /* the outermost coroutine that does; NULL: none */
    int prelude;        /* what prelude.lua returned, in the registry, like the next two */
    int arrays;         /* tables that were JSON arrays, weak */
    char *name;         /* owned; of the script */
    char *version;      /* owned; as the daemon told it */
    int in_fd, out_fd, log_fd;
    struct frame frame;
    struct line *lines, **lines_end; /* that came and were not looked at */
    size_t line_count;
    struct job *parked; /* that wait for an answer */
    int64_t last_id;    /* of our requests */
    struct kg_buf out;
    int failure; /* negative errno: the pipes are of no use any more */
    bool ended;  /* stdin ended, or a shutdown came */
};
struct runner *runner_of(lua_State *lua);
/* A new budget for what runs on that coroutine. */
void limits_arm(struct runner *runner, lua_State *coroutine);

/* -- bridge.c ---------------------------------------------------------------------------------- */

/* Pushes the value; raises for what is not JSON. */
void bridge_push(lua_State *lua, struct kg_str json);
/* Appends the value as JSON; raises for what cannot be written. What was appended then is rubbish.
 */
void bridge_write(lua_State *lua, int index, struct kg_buf *out);

/* -- sandbox.c --------------------------------------------------------------------------------- */

/* Opens what a script may have; the prelude runs then. Raises. */
void sandbox_open(lua_State *lua);

/* -- calls.c ----------------------------------------------------------------------------------- */

void calls_open(lua_State *lua); /* pushes the table that the prelude is given */
/* Words for an error of any type, at the top; never raises but for memory. */
void calls_put_error(lua_State *lua, struct kg_buf *out);
void calls_log(struct runner *runner, const char *level, struct kg_str words);
extern const char calls_ask_mark; /* its address is what a question yields first */

/* -- serve.c ----------------------------------------------------------------------------------- */

struct runner *runner_new(const struct options *options, int in_fd, int out_fd, struct kg_err *err);
void runner_free(struct runner *runner);
/* Up to the end of stdin, or a shutdown. 0 or a negative errno. */
int runner_serve(struct runner *runner);
/* Runs a timer that is due; how long it was until that one, in ms; negative: there is none. */
int runner_run_due(struct runner *runner);
/* One line as it would have come; for the fuzzer. */
void runner_take(struct runner *runner, struct kg_str line);
/*
 * A request of the script's own, answered while it waits: pings are answered meanwhile, all else
 * has to wait. 0, or negative and the error in words; *ret_result is JSON.
 */
int runner_ask(struct runner *runner, const char *method, struct kg_str params,
               struct kg_buf *ret_result, struct kg_buf *ret_words);
void runner_tell(struct runner *runner, const char *method, struct kg_str params);

#endif
