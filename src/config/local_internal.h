/* What the readers of local.toml share. */
#ifndef KAGED_LOCAL_INTERNAL_H
#define KAGED_LOCAL_INTERNAL_H

#include "config/local.h"

/* No message repeats a value: it may be a secret. */
#define LOCAL_FAIL_AT(err, node, ...)                                                              \
    (kg_fail(err, KG_E_INVALID_CONFIG, __VA_ARGS__),                                               \
     kg_wrap(err, -EINVAL, "%u:%u", (node)->line, (node)->column))

/* [providers], then [models], which name them. */
int local_take_providers(struct local *local, const struct local_lookup *lookup_or_null,
                         struct kg_err *err);
int local_take_models(struct local *local, struct kg_err *err);

/* [grants] */
int local_take_grants(struct local *local, struct kg_err *err);
void local_free_grants(struct local *local);

/* [system_plugins] */
int local_take_system_plugins(struct local *local, struct kg_err *err);

/* [services] */
int local_take_services(struct local *local, struct kg_err *err);
/* A table of headers that cannot break a request; NULL is fine. */
int local_check_headers(const struct kg_node *headers_or_null, struct kg_err *err);

/* "sha256:" and 64 hexadecimal digits. */
bool local_is_hash(struct kg_str text);
/* A name that can stand in messages and in names of cages and files. */
int local_check_name(const struct kg_member *member, const char *section, struct kg_err *err);
/* The table of tables of that name, or NULL. */
int local_section_of(const struct local *local, const char *name, const struct kg_node **ret_table,
                     struct kg_err *err);

/* -- references.c: ${VAR}, ${secret:NAME}, ${file:PATH} ---------------------------------------- */

/* What the table of a plugin or a provider names, and could not be found; the first of it. */
struct local_problem {
    const struct local_problem *next;
    struct kg_str section, table;
    struct kg_err err;
};
/* The document once more, its references replaced; problems lie in it. */
struct kg_doc *local_replace(const struct kg_doc *doc, const struct local_lookup *lookup,
                             const struct local_problem **ret_problems, struct kg_err *err);
const struct kg_err *local_problem_of(const struct local *local, const char *section,
                                      struct kg_str table);

#endif
