/* What packages were granted; see grants.c. */
#ifndef KAGED_CATALOG_GRANTS_H
#define KAGED_CATALOG_GRANTS_H

#include "catalog/internal.h"

/* On the keeper's thread: all that the org granted the package; owned. */
int org_grants_read(struct state *state, const char *org, const char *pid, char ***ret_grants,
                    struct kg_err *err);
/* On the loop: those of them that the org may have now, as "HOST:PORT"; owned. */
char **org_grants_reaches(const struct catalog *catalog, const char *org_id, char *const *grants);
/* On the loop: whether an org may reach that at all. */
int org_grants_check(const struct catalog *catalog, const char *org_id, const char *capability,
                     struct kg_err *err);

#endif
