/* Hooks, with payloads as the daemon makes them, and their results read as the daemon reads them.
 */
#include "kit/run.h"

#include "host/hooks.h"

/* The story, or NULL, and the rule is unclear. */
static struct kit_story *story_of(struct kit_run *run)
{
    struct kg_err err = {0};
    if (run->story == NULL)
        run->story = kit_story_new(run->room, &err);
    if (run->story == NULL)
        kit_be_unclear(run, "no session could be made: %s", err.message);
    return run->story;
}

static const struct kit_ask *fire(struct kit_run *run, enum manifest_hook hook,
                                  struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf all = {0};
    kit_put_params(run, KIT_OF_AGENT, params, &all);
    const struct kit_question question = {
        .method = host_hook_row(hook)->method,
        .params = kg_buf_view(&all),
        .timeout_ms =
            host_hook_timeout_ms(kit_manifest(run)->hook_timeout_sec, run->room->parts.config),
    };
    return kit_question(run, &question);
}

static void each_hook(struct kit_run *run,
                      void (*check)(struct kit_run *run, enum manifest_hook hook,
                                    const struct kit_ask *ask))
{
    struct kit_story *story = story_of(run);
    for (enum manifest_hook hook = 0; story != NULL && hook < MANIFEST_HOOK_COUNT; hook++) {
        if (!kit_manifest(run)->hooks[hook])
            continue;
        if (kit_open(run) == NULL)
            return;
        const struct kit_ask *ask = fire(run, hook, kit_story_params(story, hook));
        if (ask != NULL)
            check(run, hook, ask);
    }
}

static void check_hooks_check_answer(struct kit_run *run, enum manifest_hook hook,
                                     const struct kit_ask *ask)
{
    if (kit_lives(run, ask) && ask->answer == KIT_ERROR)
        kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload),
                 "%s is answered with an error, which counts as nothing",
                 host_hook_row(hook)->method);
}

void kit_check_hook_answer(struct kit_run *run)
{
    each_hook(run, check_hooks_check_answer);
}

static void check_hooks_check_result(struct kit_run *run, enum manifest_hook hook,
                                     const struct kit_ask *ask)
{
    struct kg_err err = {0};
    kg_auto(host_hook_result_free) struct host_hook_result result = {0};
    if (ask->answer == KIT_RESULT &&
        host_hook_result_read(hook, kg_buf_view(&ask->payload), &result, &err) < 0)
        kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload), "%s",
                 err.message);
}

void kit_check_hook_result(struct kit_run *run)
{
    if (kit_has_found(run, KIT_RULE_HOOK_ANSWER)) {
        kit_be_unclear(run, "not every hook is answered");
        return;
    }
    each_hook(run, check_hooks_check_result);
}

void kit_check_hook_compactor(struct kit_run *run)
{
    struct kg_err err = {0};
    struct kit_story *story = story_of(run);
    const struct kit_ask *ask =
        story ? fire(run, MANIFEST_PRE_COMPACT, kit_story_compactor_params(story)) : NULL;
    if (ask == NULL)
        return;
    if (ask->answer == KIT_ERROR)
        kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload),
                 "the compactor answers with an error, so the oldest messages are dropped instead");
    else if (kit_story_check_compactor(story, kit_manifest(run)->name, kg_buf_view(&ask->payload),
                                       &err) < 0)
        kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload), "%s%s%s",
                 err.message, err.hint[0] ? "; " : "", err.hint);
}
