/* A kaged.db of its own with one session in it, and short words for what tests of sessions do. */
#ifndef KAGED_TEST_SESSION_WORLD_H
#define KAGED_TEST_SESSION_WORLD_H

#include "session/session.h"

struct session_world {
    char dir[64], path[96];
    struct state *state;
    struct session session;
    const char *id; /* of that session */
    struct kg_err err;
};
int session_world_new(void **data); /* for cmocka */
int session_world_free(void **data);
void session_world_reopen(struct session_world *world);

/* Each fails the test when it fails. `text` becomes a JSON string. */
struct session_added add(struct session_world *world, const struct session_draft *draft);
struct session_added say(struct session_world *world, enum session_role role, const char *text);
struct session_added say_as(struct session_world *world, const char *agent, enum session_role role,
                            const char *text);
struct session_added call_tool(struct session_world *world, const char *name);
struct session_added answer_tool(struct session_world *world, const struct session_added *call,
                                 const char *text);
struct session_added inject(struct session_world *world, const char *plugin, const char *text,
                            const struct kg_id *mark_or_null);
void pin(struct session_world *world, const struct session_added *entry);

/* The context of the session's primary, or of an agent of any: owned JSON. */
char *context(struct session_world *world);
char *context_of(struct session_world *world, const char *id, const char *agent);
/* The contents of its messages that are strings, joined by "|": owned. */
char *contents(struct session_world *world);
char *contents_of(struct session_world *world, const char *id, const char *agent);

struct session_compaction *plan(struct session_world *world,
                                const struct session_compaction_options *options);
struct session_added apply(struct session_world *world, struct session_compaction *compaction);
struct kg_id undo(struct session_world *world);

#endif
