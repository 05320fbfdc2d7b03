/* See session_world.h. */
#include "session_world.h"
#include "folder.h"
#include "state_place.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void must(struct session_world *world, int result)
{
    if (result < 0)
        fail_msg("%s", world->err.message);
}

int session_world_new(void **data)
{
    struct session_world *world = kg_alloc(sizeof(*world));
    snprintf(world->dir, sizeof(world->dir), "/tmp/kaged-session-XXXXXX");
    assert_non_null(mkdtemp(world->dir));
    snprintf(world->path, sizeof(world->path), "%s/kaged.db", world->dir);
    state_place_begin(world->path);
    session_world_reopen(world);
    const struct session_new new = {
        .project_id = "music", .workdir = "/srv/music", .operator_id = "eve"};
    must(world, session_create(world->state, &new, &world->session, &world->err));
    world->id = world->session.id.text;
    *data = world;
    return 0;
}

int session_world_free(void **data)
{
    struct session_world *world = *data;
    session_clear(&world->session);
    state_close(world->state);
    state_place_end();
    folder_remove(world->dir);
    free(world);
    return 0;
}

void session_world_reopen(struct session_world *world)
{
    state_close(world->state);
    world->state = state_open(world->path, &world->err);
    if (world->state == NULL)
        fail_msg("%s", world->err.message);
}

/* -- entries ----------------------------------------------------------------------------------- */

struct session_added add(struct session_world *world, const struct session_draft *draft)
{
    struct session_added added;
    must(world, session_append(world->state, world->id, draft, 1, &added, &world->err));
    return added;
}

struct session_added say_as(struct session_world *world, const char *agent, enum session_role role,
                            const char *text)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    kg_json_put_string(&json, kg_str(text));
    const struct session_draft draft = {
        .agent = agent, .kind = SESSION_MESSAGE, .role = role, .content = kg_buf_view(&json)};
    return add(world, &draft);
}

struct session_added say(struct session_world *world, enum session_role role, const char *text)
{
    return say_as(world, "primary", role, text);
}

struct session_added call_tool(struct session_world *world, const char *name)
{
    kg_auto(kg_free) char *json = kg_format("{\"name\":\"%s\",\"arguments\":{}}", name);
    const struct session_draft draft = {.agent = "primary",
                                        .kind = SESSION_TOOL_CALL,
                                        .role = SESSION_ASSISTANT,
                                        .content = kg_str(json)};
    return add(world, &draft);
}

struct session_added answer_tool(struct session_world *world, const struct session_added *call,
                                 const char *text)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    kg_json_put_string(&json, kg_str(text));
    const struct session_draft draft = {.agent = "primary",
                                        .kind = SESSION_TOOL_RESULT,
                                        .role = SESSION_TOOL,
                                        .parent = call->id.text,
                                        .content = kg_buf_view(&json)};
    return add(world, &draft);
}

struct session_added inject(struct session_world *world, const char *plugin, const char *text,
                            const struct kg_id *mark_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    kg_json_put_string(&json, kg_str(text));
    const struct session_draft draft = {.agent = "primary",
                                        .kind = SESSION_INJECTION,
                                        .role = SESSION_SYSTEM,
                                        .source = plugin,
                                        .parent = mark_or_null ? mark_or_null->text : NULL,
                                        .content = kg_buf_view(&json),
                                        .first = mark_or_null == NULL};
    return add(world, &draft);
}

void pin(struct session_world *world, const struct session_added *entry)
{
    must(world, session_pin(world->state, world->id, kg_str(entry->id.text), true, &world->err));
}

/* -- contexts ---------------------------------------------------------------------------------- */

char *context_of(struct session_world *world, const char *id, const char *agent)
{
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    struct kg_buf text = {0};
    must(world, session_context_read(world->state, id, agent, &entries, &world->err));
    session_context_write(agent, &entries, &text, NULL);
    return kg_buf_terminate(&text);
}

char *context(struct session_world *world)
{
    return context_of(world, world->id, "primary");
}

char *contents_of(struct session_world *world, const char *id, const char *agent)
{
    kg_auto(kg_free) char *json = context_of(world, id, agent);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_str(json), &world->err);
    struct kg_buf text = {0};
    if (doc == NULL) {
        fail_msg("%s", world->err.message);
        return NULL;
    }
    const struct kg_node *messages = kg_node_get(doc->root, "messages");
    for (uint32_t i = 0; i < messages->count; i++) {
        const struct kg_node *content = kg_node_get(&messages->items[i], "content");
        const struct kg_node *name = kg_node_get(content, "name");
        if (i > 0)
            kg_buf_char(&text, '|');
        kg_buf_str(&text, name ? name->text : content->text);
    }
    return kg_buf_terminate(&text);
}

char *contents(struct session_world *world)
{
    return contents_of(world, world->id, "primary");
}

/* -- compaction -------------------------------------------------------------------------------- */

struct session_compaction *plan(struct session_world *world,
                                const struct session_compaction_options *options)
{
    struct session_compaction *compaction = NULL;
    must(world, session_compaction_read(world->state, world->id, "primary", options, &compaction,
                                        &world->err));
    return compaction;
}

struct session_added apply(struct session_world *world, struct session_compaction *compaction)
{
    struct session_added mark;
    must(world, session_compaction_apply(world->state, compaction, &mark, &world->err));
    return mark;
}

struct kg_id undo(struct session_world *world)
{
    struct kg_id mark;
    must(world, session_compaction_undo(world->state, world->id, "primary", &mark, &world->err));
    return mark;
}
