/*
 * [services] of local.toml: the keys for what the daemon itself asks outside, one table each. Where
 * that is stands in config.toml; here is only what nobody else may read.
 */
#include "config/local_internal.h"

#include <errno.h>

#define fail_at LOCAL_FAIL_AT

#define KEY_BYTES_MAX 4096

static const char *const names[] = {"audit", "bucket"};

/* Texts that become part of a header: without anything that could begin another one. */
static int take_key(const struct kg_node *table, const char *key, struct kg_str *ret_text,
                    struct kg_err *err)
{
    const struct kg_node *node = kg_node_get(table, key);
    if (node == NULL)
        return 0;
    bool good =
        node->type == KG_STRING && node->text.length > 0 && node->text.length <= KEY_BYTES_MAX;
    for (size_t i = 0; good && i < node->text.length; i++)
        good = node->text.data[i] > ' ' && node->text.data[i] < 0x7F;
    if (!good)
        return fail_at(err, node, "%s takes a text of 1 to %d characters without spaces", key,
                       KEY_BYTES_MAX);
    *ret_text = node->text;
    return 0;
}

static int config_services_check_keys(const struct kg_node *table, const char *const *keys,
                                      size_t count, struct kg_err *err)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct kg_member *member = &table->members[i];
        size_t at = 0;
        while (at < count && !kg_str_is(member->key, keys[at]))
            at++;
        if (at < count)
            continue;
        kg_fail(err, KG_E_INVALID_CONFIG, "%u:%u: unknown key %.*s", member->key_line,
                member->key_column, KG_STR_CUT(member->key, KG_CUT_NAME));
        const char *nearest = kg_str_nearest(member->key, keys, count);
        return nearest != NULL ? kg_hint(err, "did you mean %s?", nearest) : -EINVAL;
    }
    return 0;
}

static int take_audit(struct local_services *services, const struct kg_node *table,
                      struct kg_err *err)
{
    static const char *const keys[] = {"headers"};
    services->audit_headers = kg_node_get(table, "headers");
    int result = config_services_check_keys(table, keys, KG_COUNT(keys), err);
    return result < 0 ? result : local_check_headers(services->audit_headers, err);
}

static int take_bucket(struct local_services *services, const struct kg_node *table,
                       struct kg_err *err)
{
    static const char *const keys[] = {"access_key", "secret_key", "session_token"};
    int result = config_services_check_keys(table, keys, KG_COUNT(keys), err);
    if (result == 0)
        result = take_key(table, "access_key", &services->bucket_access_key, err);
    if (result == 0)
        result = take_key(table, "secret_key", &services->bucket_secret_key, err);
    return result < 0 ? result
                      : take_key(table, "session_token", &services->bucket_session_token, err);
}

static int config_services_take_one(struct local *local, const struct kg_member *member,
                                    struct kg_err *err)
{
    struct local_services *services = &local->services;
    const struct kg_err *problem = local_problem_of(local, "services", member->key);
    if (member->value.type != KG_OBJECT)
        return fail_at(err, &member->value, "services.%.*s is a table",
                       KG_STR_CUT(member->key, KG_CUT_NAME));
    if (kg_str_is(member->key, names[0])) {
        services->audit_problem = problem;
        return take_audit(services, &member->value, err);
    }
    if (kg_str_is(member->key, names[1])) {
        services->bucket_problem = problem;
        return take_bucket(services, &member->value, err);
    }
    fail_at(err, &member->value, "there is no service %.*s", KG_STR_CUT(member->key, KG_CUT_NAME));
    return kg_hint(err, "services.audit and services.bucket are known");
}

int local_take_services(struct local *local, struct kg_err *err)
{
    const struct kg_node *table;
    int result = local_section_of(local, "services", &table, err);
    for (uint32_t i = 0; result == 0 && table != NULL && i < table->count; i++)
        result = config_services_take_one(local, &table->members[i], err);
    return result;
}
