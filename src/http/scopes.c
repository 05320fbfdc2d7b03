/*
 * Scopes: what the bearer of a token may do. A route's row names one of them, or "any" for whoever
 * is known, or nothing if it is open; admin has them all, since it can make a token with any. Those
 * that begin with cadence: are the catalog's, and a row says which roles of an org have them.
 */
#include "http/auth_internal.h"

#include <assert.h>

#define MEMBER (1u << CATALOG_MEMBER)
#define ADMIN  (1u << CATALOG_ORG_ADMIN)
#define SYSTEM (1u << CATALOG_SYS_ADMIN)

static const struct {
    const char *name;
    unsigned roles; /* 0: it is the operator's */
} rows[] = {
    {"plugins:read", 0},
    {"plugins:call", 0},
    {"plugins:write", 0},
    {"projects:read", 0},
    {"projects:write", 0},
    {"sessions:read", 0},
    {"sessions:write", 0},
    {"consents:write", 0},
    {"audit:read", 0},
    {"admin", 0},
    {"cadence:system:admin", SYSTEM},
    {"cadence:system:orgs:create", SYSTEM},
    {"cadence:system:users:read", SYSTEM},
    {"cadence:system:users:write", SYSTEM},
    {"cadence:system:plugins:read", SYSTEM},
    {"cadence:system:plugins:write", SYSTEM},
    {"cadence:org:read", SYSTEM | ADMIN | MEMBER},
    {"cadence:org:write", SYSTEM | ADMIN},
    {"cadence:org:members:read", SYSTEM | ADMIN},
    {"cadence:org:members:write", SYSTEM | ADMIN},
    {"cadence:org:settings:read", SYSTEM | ADMIN},
    {"cadence:org:settings:write", SYSTEM | ADMIN},
    {"cadence:org:stats:read", SYSTEM | ADMIN},
    {"cadence:org:plugins:read", SYSTEM | ADMIN},
    {"cadence:org:plugins:write", SYSTEM | ADMIN},
    {"cadence:org:orchestrators:read", SYSTEM | ADMIN | MEMBER},
    {"cadence:org:orchestrators:write", SYSTEM | ADMIN},
    {"cadence:org:orchestrators:lifecycle", SYSTEM | ADMIN},
    {"cadence:org:llm-configs:read", SYSTEM | ADMIN},
    {"cadence:org:llm-configs:write", SYSTEM | ADMIN},
    {"cadence:chat:use", SYSTEM | ADMIN | MEMBER},
    {"cadence:chat:history:read", SYSTEM | ADMIN | MEMBER},
};
static_assert(KG_COUNT(rows) <= HTTP_SCOPES_MAX, "a bit for each");

const char *http_scope_name(size_t index)
{
    return index < KG_COUNT(rows) ? rows[index].name : NULL;
}

uint64_t http_scopes_of_role(enum catalog_role role)
{
    uint64_t scopes = 0;
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (rows[i].roles & 1u << role)
            scopes |= UINT64_C(1) << i;
    return scopes;
}

static uint64_t bit_of(struct kg_str name)
{
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (kg_str_is(name, rows[i].name))
            return kg_str_is(name, "admin") ? HTTP_SCOPES_ALL : UINT64_C(1) << i;
    return 0;
}

/* What the scope itself brings along: a system's admin has all of the catalog. */
static uint64_t scopes_of(struct kg_str name)
{
    return kg_str_is(name, "cadence:system:admin") ? http_scopes_of_role(CATALOG_SYS_ADMIN)
                                                   : bit_of(name);
}

static int unknown_scope(struct kg_str name, struct kg_err *err)
{
    const char *names[KG_COUNT(rows)];
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        names[i] = rows[i].name;
    const char *nearest = kg_str_nearest(name, names, KG_COUNT(names));
    int result =
        kg_fail(err, KG_E_USAGE, "there is no scope \"%.*s\"", KG_STR_CUT(name, KG_CUT_NAME));
    if (nearest != NULL)
        kg_hint(err, "did you mean %s?", nearest);
    else
        kg_hint(err, "kaged-api(7) lists the scopes");
    return result;
}

int http_scopes_parse(struct kg_str text, uint64_t *ret_scopes, struct kg_err *err)
{
    uint64_t scopes = 0;
    while (text.length > 0) {
        struct kg_str name = kg_str_cut(&text, ',');
        uint64_t bits = scopes_of(name);
        if (bits == 0)
            return unknown_scope(name, err);
        scopes |= bits;
    }
    *ret_scopes = scopes;
    return 0;
}

void http_scopes_print(uint64_t scopes, struct kg_buf *out)
{
    if (scopes == HTTP_SCOPES_ALL) {
        kg_buf_text(out, "admin");
        return;
    }
    const char *comma = "";
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        if ((scopes & UINT64_C(1) << i) == 0)
            continue;
        kg_buf_printf(out, "%s%s", comma, rows[i].name);
        comma = ",";
    }
}

bool http_scopes_allow(uint64_t scopes, const char *permission)
{
    if (permission == NULL || permission[0] == '\0' || strcmp(permission, "any") == 0)
        return true;
    uint64_t bit = bit_of(kg_str(permission));
    return bit != 0 && (scopes & bit) == bit;
}
