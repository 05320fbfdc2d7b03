/* Which rules concern a plugin; and what it declares and was not seen to use. */
#include "kit/run.h"

/* -- when a rule applies ----------------------------------------------------------------------- */

const char *kit_applies_config(const struct kit_run *run)
{
    const struct manifest *manifest = kit_manifest(run);
    bool has = manifest->config_schema != NULL || manifest->system_config_schema != NULL;
    return has ? NULL : "it takes no configuration";
}

const char *kit_applies_ping(const struct kit_run *run)
{
    return run->answers_ping ? NULL : "it answers no ping";
}

const char *kit_applies_methods(const struct kit_run *run)
{
    return kit_manifest(run)->method_count > 0 ? NULL : "it has no methods";
}

const char *kit_applies_tools(const struct kit_run *run)
{
    for (size_t i = 0; i < run->target_count; i++)
        if (run->targets[i].is_tool)
            return NULL;
    return "it has no tools";
}

const char *kit_applies_calls(const struct kit_run *run)
{
    bool is_called = run->shook_hands && run->target_count > 0;
    return is_called ? NULL : "nothing in it could be called";
}

static bool has_schema(const struct kit_run *run, bool is_tool)
{
    for (size_t i = 0; i < run->target_count; i++)
        if (run->targets[i].is_tool == is_tool && run->targets[i].params != NULL)
            return true;
    return false;
}

const char *kit_applies_method_schemas(const struct kit_run *run)
{
    return has_schema(run, false) ? NULL : "its methods have no schemas";
}

const char *kit_applies_tool_schemas(const struct kit_run *run)
{
    return has_schema(run, true) ? NULL : "its tools have no schemas";
}

const char *kit_applies_result_schemas(const struct kit_run *run)
{
    for (size_t i = 0; i < run->target_count; i++)
        if (run->targets[i].result != NULL)
            return NULL;
    return "its methods have no schemas for results";
}

const char *kit_applies_hooks(const struct kit_run *run)
{
    for (size_t i = 0; i < MANIFEST_HOOK_COUNT; i++)
        if (kit_manifest(run)->hooks[i])
            return NULL;
    return "it has no hooks";
}

const char *kit_applies_compactor(const struct kit_run *run)
{
    const struct manifest *manifest = kit_manifest(run);
    bool compacts = (manifest->roles & MANIFEST_COMPACTOR) && manifest->hooks[MANIFEST_PRE_COMPACT];
    return compacts ? NULL : "it is not a compactor";
}

static bool check_advice_is_visible(const struct capability *capability)
{
    return capability->kind == CAPABILITY_STORAGE_READ ||
           capability->kind == CAPABILITY_STORAGE_WRITE || capability->kind == CAPABILITY_ASK ||
           capability->kind == CAPABILITY_SAMPLE || capability->kind == CAPABILITY_NET_HOST ||
           capability->kind == CAPABILITY_NET_ANY;
}

const char *kit_applies_visible_capabilities(const struct kit_run *run)
{
    const struct capability_set *set = &kit_manifest(run)->capability_set;
    if (!run->shook_hands)
        return "its handshake did not succeed";
    for (size_t i = 0; i < set->count; i++)
        if (check_advice_is_visible(&set->items[i]))
            return NULL;
    return "it declares none whose use can be observed";
}

const char *kit_applies_notifications(const struct kit_run *run)
{
    if (!run->shook_hands)
        return "its handshake did not succeed";
    return kit_manifest(run)->notifications[0] != NULL ? NULL : "it has no notifications";
}

/* -- what was not seen ------------------------------------------------------------------------- */

static bool reached(const struct kit_run *run, const struct capability *capability)
{
    kg_auto(kg_free) char *prefix = capability->port != 0
                                        ? kg_format("%s:%u", capability->host, capability->port)
                                        : kg_format("%s:", capability->host);
    for (char **host = run->seen.hosts; *host != NULL; host++)
        if (kg_str_starts(kg_str(*host), prefix))
            return true;
    return false;
}

static bool is_used(const struct kit_run *run, const struct capability *capability)
{
    switch (capability->kind) {
    case CAPABILITY_STORAGE_READ:
        return run->seen.storage_read;
    case CAPABILITY_STORAGE_WRITE:
        return run->seen.storage_write || run->seen.storage_read;
    case CAPABILITY_ASK:
        return run->seen.asked;
    case CAPABILITY_SAMPLE:
        return run->seen.sampled;
    case CAPABILITY_NET_ANY:
        return run->seen.hosts[0] != NULL;
    default:
        return reached(run, capability);
    }
}

void kit_check_capability_used(struct kit_run *run)
{
    const struct capability_set *set = &kit_manifest(run)->capability_set;
    for (size_t i = 0; i < set->count; i++) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        if (!check_advice_is_visible(&set->items[i]) || is_used(run, &set->items[i]))
            continue;
        capability_print(&set->items[i], &text);
        kit_find(run, run->rule, KG_STR(""), KG_STR(""), "%s was not used in this run",
                 kg_buf_terminate(&text));
    }
}

void kit_check_notification_used(struct kit_run *run)
{
    for (char **name = kit_manifest(run)->notifications; *name != NULL; name++)
        if (!kg_list_has(run->seen.notifications, kg_str(*name)))
            kit_find(run, run->rule, KG_STR(""), KG_STR(""), "%s was not sent in this run", *name);
}
