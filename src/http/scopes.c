/*
 * Scopes: what the bearer of a token may do. A route's row names one of them, or "any" for whoever
 * is known, or nothing if it is open; admin has them all, since it can make a token with any.
 */
#include "http/auth_internal.h"

#include <assert.h>

const char *const http_scope_names[] = {
    "plugins:read",
    "plugins:call",
    "plugins:write",
    "projects:read",
    "projects:write",
    "sessions:read",
    "sessions:write",
    "consents:write",
    "audit:read",
    "admin",
    NULL,
};
#define SCOPE_COUNT (KG_COUNT(http_scope_names) - 1)
static_assert(SCOPE_COUNT <= HTTP_SCOPES_MAX, "a bit for each");

static uint32_t bit_of(struct kg_str name)
{
    for (size_t i = 0; i < SCOPE_COUNT; i++)
        if (kg_str_is(name, http_scope_names[i]))
            return kg_str_is(name, "admin") ? HTTP_SCOPES_ALL : 1u << i;
    return 0;
}

static int unknown_scope(struct kg_str name, struct kg_err *err)
{
    const char *nearest = kg_str_nearest(name, http_scope_names, SCOPE_COUNT);
    int result = kg_fail(err, KG_E_USAGE, "there is no scope \"%.*s\"", KG_STR_CUT(name, 64));
    if (nearest != NULL)
        kg_hint(err, "did you mean %s?", nearest);
    else
        kg_hint(err, "kaged-api(7) lists the scopes");
    return result;
}

int http_scopes_parse(struct kg_str text, uint32_t *ret_scopes, struct kg_err *err)
{
    uint32_t scopes = 0;
    while (text.length > 0) {
        struct kg_str name = kg_str_cut(&text, ',');
        uint32_t bit = bit_of(name);
        if (bit == 0)
            return unknown_scope(name, err);
        scopes |= bit;
    }
    *ret_scopes = scopes;
    return 0;
}

void http_scopes_print(uint32_t scopes, struct kg_buf *out)
{
    if (scopes == HTTP_SCOPES_ALL) {
        kg_buf_text(out, "admin");
        return;
    }
    const char *comma = "";
    for (size_t i = 0; i < SCOPE_COUNT; i++) {
        if ((scopes & 1u << i) == 0)
            continue;
        kg_buf_printf(out, "%s%s", comma, http_scope_names[i]);
        comma = ",";
    }
}

bool http_scopes_allow(uint32_t scopes, const char *permission)
{
    if (permission == NULL || permission[0] == '\0' || strcmp(permission, "any") == 0)
        return true;
    uint32_t bit = bit_of(kg_str(permission));
    return bit != 0 && (scopes & bit) == bit;
}
