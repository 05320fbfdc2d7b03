/*
 * [grants] of local.toml: of each plugin what the operator allows and closes, wherever it runs and
 * in single projects. Bounded, and of the right types; what the lines mean is not known here.
 */
#include "config/local_internal.h"

#include <errno.h>
#include <stdlib.h>

#define fail_at        LOCAL_FAIL_AT
#define LINES_MAX      256 /* of one list */
#define NAME_MAX_BYTES 128

static int config_grants_take_lines(const struct kg_node *table, const char *key, char ***ret_lines,
                                    struct kg_err *err)
{
    const struct kg_node *list = kg_node_get(table, key);
    *ret_lines = kg_list_new(0);
    if (list == NULL)
        return 0;
    if (list->type != KG_ARRAY)
        return fail_at(err, list, "%s takes a list of capabilities", key);
    if (list->count > LINES_MAX)
        return fail_at(err, list, "%s has more than %d lines", key, LINES_MAX);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct kg_node *line = &list->items[i];
        if (line->type != KG_STRING || memchr(line->text.data, '\0', line->text.length) != NULL)
            return fail_at(err, line, "%s takes a list of capabilities", key);
        kg_list_add(ret_lines, kg_str_dup(line->text));
    }
    return 0;
}

bool local_is_env_name(struct kg_str name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    if (name.length == 0 || name.length > NAME_MAX_BYTES ||
        (name.data[0] >= '0' && name.data[0] <= '9'))
        return false;
    for (size_t i = 0; i < name.length; i++)
        if (memchr(letters, name.data[i], sizeof(letters) - 1) == NULL)
            return false;
    return !kg_str_starts(name, "KAGED_");
}

/* A table of texts. What they are may be secret: no message has them. */
static int config_grants_take_env(const struct kg_node *table, char ***ret_env, struct kg_err *err)
{
    const struct kg_node *env = kg_node_get(table, "env");
    *ret_env = kg_list_new(0);
    if (env == NULL)
        return 0;
    if (env->type != KG_OBJECT || env->count > LINES_MAX)
        return fail_at(err, env, "env takes a table of at most %d texts", LINES_MAX);
    for (uint32_t i = 0; i < env->count; i++) {
        const struct kg_member *member = &env->members[i];
        const struct kg_str text = member->value.text;
        if (!local_is_env_name(member->key))
            return fail_at(err, &member->value, "env.%.*s: this cannot be the name of a variable",
                           KG_STR_CUT(member->key, KG_CUT_NAME));
        if (member->value.type != KG_STRING || memchr(text.data, '\0', text.length) != NULL)
            return fail_at(err, &member->value, "env.%.*s takes a text",
                           KG_STR_CUT(member->key, KG_CUT_NAME));
        kg_list_add(ret_env, kg_format("%.*s=%.*s", KG_STR_ARG(member->key), KG_STR_ARG(text)));
    }
    return 0;
}

static int config_grants_check_keys(const struct kg_node *table, bool of_project,
                                    struct kg_err *err)
{
    for (uint32_t i = 0; i < table->count; i++) {
        struct kg_str key = table->members[i].key;
        if (kg_str_is(key, "allow") || kg_str_is(key, "deny") ||
            (!of_project && (kg_str_is(key, "projects") || kg_str_is(key, "env"))))
            continue;
        fail_at(err, &table->members[i].value, "unknown key %.*s", KG_STR_CUT(key, KG_CUT_NAME));
        return kg_hint(err, "there are allow and deny%s", of_project ? "" : ", env and projects");
    }
    return 0;
}

static int config_grants_take_table(struct local *local, struct kg_str plugin,
                                    struct kg_str project, const struct kg_node *table,
                                    struct kg_err *err)
{
    if (table->type != KG_OBJECT)
        return fail_at(err, table, "grants.%.*s is a table: write it as [grants.%.*s]",
                       KG_STR_CUT(plugin, KG_CUT_NAME), KG_STR_CUT(plugin, KG_CUT_NAME));
    int result = config_grants_check_keys(table, project.length > 0, err);
    if (result < 0)
        return result;
    local->grants = kg_realloc(local->grants, (local->grant_count + 1) * sizeof(*local->grants));
    struct local_grant *grant = &local->grants[local->grant_count++];
    *grant = (struct local_grant){
        .plugin = plugin, .project = project, .problem = local_problem_of(local, "grants", plugin)};
    result = config_grants_take_lines(table, "allow", &grant->allow, err);
    if (result == 0)
        result = config_grants_take_lines(table, "deny", &grant->deny, err);
    return result < 0 ? result : config_grants_take_env(table, &grant->env, err);
}

static int config_grants_take_plugin(struct local *local, const struct kg_member *member,
                                     struct kg_err *err)
{
    int result = config_grants_take_table(local, member->key, KG_STR_NULL, &member->value, err);
    const struct kg_node *projects = result == 0 ? kg_node_get(&member->value, "projects") : NULL;
    if (projects == NULL)
        return result;
    if (projects->type != KG_OBJECT)
        return fail_at(err, projects, "projects is a table of tables");
    for (uint32_t i = 0; i < projects->count && result == 0; i++) {
        if (projects->members[i].key.length == 0)
            return fail_at(err, projects, "a project without a name");
        result = config_grants_take_table(local, member->key, projects->members[i].key,
                                          &projects->members[i].value, err);
    }
    return result;
}

int local_take_grants(struct local *local, struct kg_err *err)
{
    const struct kg_node *grants = kg_node_get(local->doc->root, "grants");
    if (grants == NULL)
        return 0;
    if (grants->type != KG_OBJECT)
        return fail_at(err, grants, "grants is a table of tables");
    int result = 0;
    for (uint32_t i = 0; i < grants->count && result == 0; i++)
        result = config_grants_take_plugin(local, &grants->members[i], err);
    return result;
}

void local_free_grants(struct local *local)
{
    for (size_t i = 0; i < local->grant_count; i++) {
        kg_list_free(local->grants[i].allow);
        kg_list_free(local->grants[i].deny);
        kg_list_free(local->grants[i].env);
    }
    free(local->grants);
}
