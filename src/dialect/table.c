/* The table of dialects. A child speaks the one that its plugin names. */
#include "dialect/dialect.h"

static const struct dialect *const rows[] = {
    &dialect_kaged,
    &dialect_mcp,
    &dialect_script,
    &dialect_package,
};

const struct dialect *dialect_find(struct kg_str name)
{
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (kg_str_is(name, rows[i]->name))
            return rows[i];
    return NULL;
}
