/* What the readers of local.toml share. */
#ifndef KAGED_LOCAL_INTERNAL_H
#define KAGED_LOCAL_INTERNAL_H

#include "config/local.h"

/* No message repeats a value: it may be a secret. */
#define LOCAL_FAIL_AT(err, node, ...)                                                              \
    (kg_fail(err, KG_E_INVALID_CONFIG, __VA_ARGS__),                                               \
     kg_wrap(err, -EINVAL, "%u:%u", (node)->line, (node)->column))

/* [providers], then [models], which name them. */
int local_take_providers(struct local *local, enum local_variables variables, struct kg_err *err);
int local_take_models(struct local *local, struct kg_err *err);

#endif
