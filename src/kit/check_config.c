/* Configurations while it runs: what its schema allows, and what nobody should send. */
#include "kit/run.h"

#include "kit/generate.h"

#define INVALID_MAX 4

static void check_accepted(struct kit_run *run, bool full)
{
    kg_auto(kg_buf_free) struct kg_buf config = {0};
    kit_make_config(kit_manifest(run), full, &config);
    if (config.length == 0) {
        kit_be_unclear(run, "no configuration could be made that fits its schema");
        return;
    }
    const struct kit_ask *told = kit_send_config(run, kg_buf_view(&config));
    if (told == NULL || !kit_lives(run, told) || told->answer == KIT_RESULT ||
        kit_is_error(told, KG_E_METHOD_NOT_FOUND))
        return;
    kit_find(run, run->rule, kg_buf_view(&told->sent), kg_buf_view(&told->payload),
             "it refuses a configuration that fits its schema");
}

void kit_check_config_valid(struct kit_run *run)
{
    check_accepted(run, false);
    if (kit_open(run) != NULL)
        check_accepted(run, true);
}

static bool check_config_tell(struct kit_run *run, struct kg_str params)
{
    if (kit_open(run) == NULL)
        return false;
    const struct kit_question question = {.method = "config.update", .params = params};
    const struct kit_ask *told = kit_question(run, &question);
    return told != NULL && kit_lives(run, told);
}

void kit_check_config_garbage(struct kit_run *run)
{
    static const char *const odd[] = {"{\"config\":\"garbage\"}", "{\"config\":[1]}",
                                      "{\"config\":null}", "{}",
                                      "{\"config\":{\"kit_unknown\":[{}]}}"};
    const struct manifest *manifest = kit_manifest(run);
    kg_auto(kit_instances_free) struct kit_instances wrong = {.count = 0};
    for (size_t i = 0; i < KG_COUNT(odd); i++)
        if (!check_config_tell(run, kg_str(odd[i])))
            return;
    if (manifest->config_schema != NULL)
        kit_generate_invalid(manifest->config_schema_node, manifest->config_schema, &wrong);
    for (size_t i = 0; i < wrong.count && i < INVALID_MAX; i++) {
        kg_auto(kg_free) char *params = kg_format("{\"config\":%s}", wrong.items[i].json);
        if (!check_config_tell(run, kg_str(params)))
            return;
    }
}
