/*
 * Profiles: which tools a client may use, by patterns over PLUGIN.TOOL, and whether only those that
 * read. What is not named is not there: neither in a list nor for a call. A client of a profile
 * that was removed may use nothing. Whether a tool reads is its server's word, which the operator
 * approved, unless he marked it himself.
 */
#include "mcp/internal.h"

#include <errno.h>
#include <stdlib.h>

#define SETTINGS_MAX 1024 /* profiles, and as many marks */

struct profile {
    char **patterns; /* owned */
    bool reads_only, searches;
};

/* Values of the map of marks. */
static char marked_reading, marked_writing;

static void profile_free(struct profile *profile)
{
    if (profile == NULL)
        return;
    kg_list_free(profile->patterns);
    free(profile);
}

/* -- what matches ------------------------------------------------------------------------------ */

/* Only * means something else: any characters, or none. Goes back to the last one, never further.
 */
static bool profiles_fits(const char *pattern, struct kg_str text)
{
    const char *star = NULL;
    size_t at = 0, retry = 0;
    while (at < text.length) {
        if (*pattern == '*') {
            star = pattern++;
            retry = at;
        } else if (*pattern == text.data[at]) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star + 1;
            at = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* A pattern without a dot is of plugins, with all that they have. */
static bool names(const struct profile *profile, const char *plugin, struct kg_str full)
{
    for (char **pattern = profile->patterns; *pattern != NULL; pattern++)
        if (strchr(*pattern, '.') != NULL ? profiles_fits(*pattern, full)
                                          : profiles_fits(*pattern, kg_str(plugin)))
            return true;
    return false;
}

static bool reads(const struct mcp *mcp, const struct mcp_tool *tool, struct kg_str full)
{
    const void *mark = kg_map_get(mcp->marks, full);
    if (mark != NULL)
        return mark == &marked_reading;
    return tool->manifest->is_mcp &&
           kg_node_is_true(kg_node_get(tool->declared->node, "annotations"), "readOnlyHint");
}

bool mcp_allows(const struct mcp_scope *scope, const struct mcp_tool *tool)
{
    const struct kg_str profiles[] = {scope->profile, scope->confines};
    bool reads_only = scope->reads_only;
    if (scope->profile.length == 0 && scope->confines.length == 0 && !reads_only)
        return true;
    kg_auto(kg_buf_free) struct kg_buf full = {0};
    kg_buf_printf(&full, "%s.%s", tool->manifest->name, tool->declared->name);
    for (size_t i = 0; i < KG_COUNT(profiles); i++) {
        const struct profile *profile =
            profiles[i].length > 0 ? kg_map_get(scope->mcp->profiles, profiles[i]) : NULL;
        if (profiles[i].length > 0 &&
            (profile == NULL || !names(profile, tool->manifest->name, kg_buf_view(&full))))
            return false;
        reads_only |= profile != NULL && profile->reads_only;
    }
    return !reads_only || reads(scope->mcp, tool, kg_buf_view(&full));
}

/* By a pattern that takes all of it: PLUGIN, or PLUGIN.*. */
bool mcp_allows_plugin(const struct mcp_scope *scope, const char *plugin)
{
    const struct kg_str profiles[] = {scope->profile, scope->confines};
    kg_auto(kg_buf_free) struct kg_buf whole = {0};
    kg_buf_printf(&whole, "%s.", plugin);
    for (size_t i = 0; i < KG_COUNT(profiles); i++) {
        const struct profile *profile =
            profiles[i].length > 0 ? kg_map_get(scope->mcp->profiles, profiles[i]) : NULL;
        if (profiles[i].length > 0 &&
            (profile == NULL || !names(profile, plugin, kg_buf_view(&whole))))
            return false;
    }
    return true;
}

bool mcp_searches(const struct mcp_scope *scope)
{
    const struct kg_str profiles[] = {scope->profile, scope->confines};
    for (size_t i = 0; !scope->searches && i < KG_COUNT(profiles); i++) {
        const struct profile *profile =
            profiles[i].length > 0 ? kg_map_get(scope->mcp->profiles, profiles[i]) : NULL;
        if (profile != NULL && profile->searches)
            return true;
    }
    return scope->searches;
}

/* -- changing ---------------------------------------------------------------------------------- */

static void set_profile(struct mcp *mcp, struct kg_str name, const struct kg_node *definition)
{
    profile_free(kg_map_remove(mcp->profiles, name));
    if (definition == NULL)
        return;
    const struct kg_node *tools = kg_node_list(definition, "tools");
    struct profile *profile = kg_alloc(sizeof(*profile));
    profile->reads_only = kg_node_is_true(definition, "read_only");
    profile->searches = kg_node_is_true(definition, "search");
    profile->patterns = kg_list_new(tools->count);
    for (uint32_t i = 0; i < tools->count; i++)
        profile->patterns[i] = kg_str_dup(tools->items[i].text);
    kg_map_set(mcp->profiles, name, profile);
}

static void set_mark(struct mcp *mcp, struct kg_str tool, const struct kg_node *value)
{
    kg_map_remove(mcp->marks, tool);
    if (value != NULL && value->type == KG_BOOL)
        kg_map_set(mcp->marks, tool, value->boolean ? &marked_reading : &marked_writing);
}

static const struct kind {
    const char *name;
    void (*set)(struct mcp *mcp, struct kg_str name, const struct kg_node *value_or_null);
} profile_kind = {"profile", set_profile}, mark_kind = {"mark", set_mark};

/* One that is being kept. */
struct changing {
    struct mcp *mcp;
    const struct kind *kind;
    char *name, *value; /* owned; no value: it is removed */
    char *operator_id;  /* owned */
    state_kept_fn *on_done;
    void *data;
};

static void profiles_on_kept(void *data, const struct kg_err *err_or_null)
{
    struct changing *changing = data;
    struct mcp *mcp = changing->mcp;
    if (err_or_null == NULL) {
        kg_auto(kg_doc_cleanup) struct kg_doc *doc =
            changing->value ? kg_json_read(kg_str(changing->value), NULL) : NULL;
        bool is_profile = changing->kind == &profile_kind;
        changing->kind->set(mcp, kg_str(changing->name), doc ? doc->root : NULL);
        audit_emit(host_audit(mcp->host), AUDIT_MCP_PROFILE_CHANGED, KG_STR_NULL,
                   AUDIT_V_TEXT(is_profile ? changing->name : NULL),
                   AUDIT_V_TEXT(is_profile ? NULL : changing->name),
                   changing->value ? AUDIT_V_RAW(kg_str(changing->value)) : AUDIT_V_NULL,
                   AUDIT_V_TEXT(changing->operator_id));
    }
    changing->on_done(changing->data, err_or_null);
    free(changing->name);
    free(changing->value);
    free(changing->operator_id);
    free(changing);
}

static int profiles_change(struct mcp *mcp, const struct kind *kind, struct kg_str name,
                           const struct kg_node *value_or_null, const struct changing *request,
                           struct kg_err *err)
{
    const struct kg_map *map = kind == &profile_kind ? mcp->profiles : mcp->marks;
    if (value_or_null != NULL && kg_map_get(map, name) == NULL && kg_map_count(map) >= SETTINGS_MAX)
        return kg_fail(err, KG_E_BUSY, "there are %d of them already", SETTINGS_MAX);
    struct changing *changing = kg_alloc(sizeof(*changing));
    struct kg_buf value = {0};
    *changing = *request;
    changing->mcp = mcp;
    changing->kind = kind;
    changing->name = kg_str_dup(name);
    changing->operator_id = kg_strdup(request->operator_id);
    if (value_or_null != NULL) {
        kg_json_put_node(&value, value_or_null);
        changing->value = kg_buf_terminate(&value);
    }
    state_keep_mcp_setting(host_keeper(mcp->host),
                           &(struct state_mcp_setting){kind->name, changing->name, changing->value},
                           profiles_on_kept, changing);
    return 0;
}

static bool profiles_is_name(struct kg_str name)
{
    for (size_t i = 0; i < name.length; i++)
        if (!kg_is_lower(name.data[i]) && !kg_is_digit(name.data[i]) &&
            (i == 0 || strchr("._-", name.data[i]) == NULL))
            return false;
    return name.length >= 1 && name.length <= 64;
}

int mcp_profile_change(struct mcp *mcp, struct kg_str name, const struct kg_node *definition,
                       const char *operator_id, state_kept_fn *on_done, void *data,
                       struct kg_err *err)
{
    if (definition == NULL && kg_map_get(mcp->profiles, name) == NULL) {
        kg_fail(err, KG_E_NOT_FOUND, "there is no profile \"%.*s\"", KG_STR_CUT(name, 64));
        return kg_hint(err, "kaged mcp profile list shows them");
    }
    if (!profiles_is_name(name))
        return kg_fail(err, KG_E_USAGE,
                       "\"%.*s\" is not the name of a profile: 1 to 64 of a-z, 0-9, dots, dashes "
                       "and underscores, beginning with a letter or digit",
                       KG_STR_CUT(name, 64));
    return profiles_change(
        mcp, &profile_kind, name, definition,
        &(struct changing){.operator_id = (char *)operator_id, .on_done = on_done, .data = data},
        err);
}

int mcp_mark_change(struct mcp *mcp, struct kg_str tool, const struct kg_node *reads,
                    const char *operator_id, state_kept_fn *on_done, void *data, struct kg_err *err)
{
    struct host_named named;
    struct kg_str rest = tool, plugin = kg_str_cut(&rest, '.');
    if (rest.length == 0 || rest.length > 128)
        return kg_fail(err, KG_E_USAGE, "\"%.*s\" is not the name of a tool: PLUGIN.TOOL",
                       KG_STR_CUT(tool, 128));
    if (host_find(mcp->host, plugin, &named, err) < 0)
        return -ENOENT;
    return profiles_change(
        mcp, &mark_kind, tool, reads->type == KG_BOOL ? reads : NULL,
        &(struct changing){.operator_id = (char *)operator_id, .on_done = on_done, .data = data},
        err);
}

/* -- what is shown ----------------------------------------------------------------------------- */

static void put_profile(struct kg_json_writer *json, struct kg_str name,
                        const struct profile *profile)
{
    kg_json_begin(json, '{');
    kg_json_named_str(json, "name", name);
    kg_json_named_list(json, "tools", profile->patterns);
    kg_json_named_bool(json, "read_only", profile->reads_only);
    kg_json_named_bool(json, "search", profile->searches);
    kg_json_end(json, '}');
}

bool mcp_profile_json(const struct mcp *mcp, struct kg_str name, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    const struct profile *profile = kg_map_get(mcp->profiles, name);
    if (profile != NULL)
        put_profile(&json, name, profile);
    return profile != NULL;
}

void mcp_profiles_json(const struct mcp *mcp, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    struct kg_str name;
    void *value;
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "profiles", '[');
    for (size_t at = 0; kg_map_next(mcp->profiles, &at, &name, &value);)
        put_profile(&json, name, value);
    kg_json_end(&json, ']');
    kg_json_named_begin(&json, "marks", '[');
    for (size_t at = 0; kg_map_next(mcp->marks, &at, &name, &value);) {
        kg_json_begin(&json, '{');
        kg_json_named_str(&json, "tool", name);
        kg_json_named_bool(&json, "read_only", value == &marked_reading);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
}

/* -- its life ---------------------------------------------------------------------------------- */

static void profiles_take_stored(void *data, const struct state_mcp_setting *setting)
{
    struct mcp *mcp = data;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_str(setting->value), NULL);
    const struct kind *kind =
        strcmp(setting->kind, profile_kind.name) == 0 ? &profile_kind : &mark_kind;
    if (doc != NULL)
        kind->set(mcp, kg_str(setting->name), doc->root);
}

static int profiles_read(struct mcp *mcp, struct state *state, struct kg_err *err)
{
    mcp->profiles = kg_map_new();
    mcp->marks = kg_map_new();
    return state_mcp_settings(state, profiles_take_stored, mcp, err);
}

static int profiles_read_again(struct cluster_follow *follow, struct state *state,
                               struct kg_err *err)
{
    struct mcp *mcp = KG_CONTAINER(follow, struct mcp, follow);
    mcp->fresh = kg_alloc(sizeof(*mcp->fresh));
    return profiles_read(mcp->fresh, state, err);
}

static void profiles_clear(struct mcp *mcp);

static void profiles_take(struct cluster_follow *follow, bool take)
{
    struct mcp *mcp = KG_CONTAINER(follow, struct mcp, follow);
    struct mcp *fresh = kg_steal(&mcp->fresh);
    if (fresh == NULL)
        return;
    if (take) {
        struct mcp old = {.profiles = mcp->profiles, .marks = mcp->marks};
        mcp->profiles = fresh->profiles;
        mcp->marks = fresh->marks;
        profiles_clear(&old);
    } else {
        profiles_clear(fresh);
    }
    free(fresh);
}

int mcp_profiles_open(struct mcp *mcp, struct kg_err *err)
{
    struct state_keeper *keeper = host_keeper(mcp->host);
    int result = profiles_read(mcp, state_keeper_state(keeper), err);
    mcp->follow.read = profiles_read_again;
    mcp->follow.take = profiles_take;
    cluster_follow_begin(&mcp->follow, host_nodes(mcp->host), keeper, 1 << CLUSTER_MCP_SETTING);
    return result;
}

void mcp_profiles_close(struct mcp *mcp)
{
    cluster_follow_end(&mcp->follow);
    profiles_clear(mcp);
}

static void profiles_clear(struct mcp *mcp)
{
    struct kg_str name;
    void *profile;
    for (size_t at = 0; kg_map_next(mcp->profiles, &at, &name, &profile);)
        profile_free(profile);
    kg_map_free(mcp->profiles);
    kg_map_free(mcp->marks);
}
