/*
 * A session in a kaged.db of the room's own, so that what hooks are told is made by the code that
 * makes it in the daemon. It has a tool's call in it, and enough to compact.
 */
#include "kit/run.h"

#include "host/hooks.h"
#include "session/session.h"

#include <errno.h>
#include <stdlib.h>

#define TURNS       8
#define KEPT_TURNS  2
#define SAID_BYTES  400
#define SYSTEM_TEXT "You are an agent of the conformance kit."

struct kit_story {
    struct state *state;
    struct session session;
    struct session_compaction *compaction; /* that a compactor is asked about */
    struct kg_buf idle, pre, post, designated;
};

static int story_append(struct kit_story *story, const struct session_draft *draft,
                        struct session_added *ret_added, struct kg_err *err)
{
    return session_append(story->state, story->session.id.text, draft, 1, ret_added, err);
}

static int story_say(struct kit_story *story, enum session_role role, const char *text,
                     struct kg_err *err)
{
    struct session_added added;
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    kg_json_put_string(&json, kg_str(text));
    const struct session_draft draft = {
        .agent = "primary", .kind = SESSION_MESSAGE, .role = role, .content = kg_buf_view(&json)};
    return story_append(story, &draft, &added, err);
}

static int use_tool(struct kit_story *story, struct kg_err *err)
{
    struct session_added call, result;
    const struct session_draft asks = {
        .agent = "primary",
        .kind = SESSION_TOOL_CALL,
        .role = SESSION_ASSISTANT,
        .content = KG_STR("{\"name\":\"read\",\"arguments\":{\"path\":\"colours.txt\"}}"),
    };
    int failed = story_append(story, &asks, &call, err);
    const struct session_draft answers = {
        .agent = "primary",
        .kind = SESSION_TOOL_RESULT,
        .role = SESSION_TOOL,
        .parent = call.id.text,
        .content = KG_STR("\"red, green, \\u00e4nd \\\"blue\\\"\\n\""),
    };
    return failed < 0 ? failed : story_append(story, &answers, &result, err);
}

static int talk_for_a_while(struct kit_story *story, struct kg_err *err)
{
    char long_text[SAID_BYTES];
    memset(long_text, 'w', sizeof(long_text));
    for (size_t i = 7; i < sizeof(long_text); i += 8)
        long_text[i] = ' ';
    long_text[sizeof(long_text) - 1] = '\0';
    int result = story_say(story, SESSION_SYSTEM, SYSTEM_TEXT, err);
    for (int turn = 0; turn < TURNS && result == 0; turn++) {
        result = story_say(story, SESSION_USER, long_text, err);
        if (result == 0 && turn == 1)
            result = use_tool(story, err);
        if (result == 0)
            result = story_say(story, SESSION_ASSISTANT, long_text, err);
    }
    return result;
}

static int story_plan(struct kit_story *story, enum session_strategy strategy,
                      struct session_compaction **ret_compaction, struct kg_err *err)
{
    const struct session_compaction_options options = {
        .strategy = strategy, .trigger = "threshold_crossed", .keep_recent = KEPT_TURNS};
    return session_compaction_read(story->state, story->session.id.text, "primary", &options,
                                   ret_compaction, err);
}

/* For observers: the compaction that a plugin was not asked about, before it and after. */
static int tell_compaction(struct kit_story *story, struct kg_err *err)
{
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction = NULL;
    struct session_added mark;
    int result = story_plan(story, SESSION_BY_DROP, &compaction, err);
    if (result < 0)
        return result;
    session_compaction_payload(compaction, "observer", SESSION_PAYLOAD_MAX, &story->pre, NULL);
    result = session_compaction_apply(story->state, compaction, &mark, err);
    if (result == 0)
        session_compaction_payload(compaction, "observer", SESSION_PAYLOAD_MAX, &story->post, NULL);
    return result;
}

static int story_tell_all(struct kit_story *story, struct kg_err *err)
{
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    uint64_t left = 0;
    int result = session_transcript_read(story->state, story->session.id.text, "primary", 0,
                                         SESSION_PAYLOAD_MAX, &entries, &left, err);
    if (result < 0)
        return result;
    session_transcript_write(&entries, left, SESSION_PAYLOAD_MAX, &story->idle);
    result = story_plan(story, SESSION_BY_DELEGATE, &story->compaction, err);
    if (result < 0)
        return result;
    session_compaction_payload(story->compaction, "compactor", SESSION_PAYLOAD_MAX,
                               &story->designated, NULL);
    return tell_compaction(story, err);
}

struct kit_story *kit_story_new(const struct kit_room *room, struct kg_err *err)
{
    struct kit_story *story = kg_alloc(sizeof(*story));
    const struct session_new new = {
        .project_id = KIT_PROJECT, .workdir = room->paths.home, .operator_id = "kit"};
    story->state = state_open(room->paths.state_db, err);
    if (story->state == NULL || session_create(story->state, &new, &story->session, err) < 0 ||
        talk_for_a_while(story, err) < 0 || story_tell_all(story, err) < 0) {
        kit_story_free(story);
        return NULL;
    }
    return story;
}

void kit_story_free(struct kit_story *story)
{
    if (story == NULL)
        return;
    session_compaction_free(story->compaction);
    session_clear(&story->session);
    state_close(story->state);
    kg_buf_free(&story->idle);
    kg_buf_free(&story->pre);
    kg_buf_free(&story->post);
    kg_buf_free(&story->designated);
    free(story);
}

struct kg_str kit_story_params(const struct kit_story *story, enum manifest_hook hook)
{
    switch (hook) {
    case MANIFEST_ON_SESSION_IDLE:
        return kg_buf_view(&story->idle);
    case MANIFEST_PRE_COMPACT:
        return kg_buf_view(&story->pre);
    case MANIFEST_POST_COMPACT:
        return kg_buf_view(&story->post);
    default:
        return KG_STR_NULL; /* the start of a session has nothing to tell */
    }
}

struct kg_str kit_story_compactor_params(const struct kit_story *story)
{
    return kg_buf_view(&story->designated);
}

int kit_story_check_compactor(struct kit_story *story, const char *plugin, struct kg_str result,
                              struct kg_err *err)
{
    enum session_fault fault;
    return session_compaction_take_result(story->compaction, plugin, result, &fault, err);
}
