/* What the catalog's files share about packages; see packages.c. */
#ifndef KAGED_CATALOG_PACKAGES_H
#define KAGED_CATALOG_PACKAGES_H

#include "catalog/internal.h"
#include "catalog/settings.h"

/* A row with texts of its own. */
struct package_row {
    struct state_package row;
    char *text; /* owned; NULL: there is none */
};
void package_row_free(struct package_row *row);
/* With copies of its texts, instead of what it had. */
void package_row_keep(struct package_row *kept, const struct state_package *row);
/* As who runs it sees it; borrowed of the row. */
struct catalog_package package_of(const struct package_row *row);

/* On the keeper's thread. KG_E_NO_PACKAGE: there is none; the org's own goes before the system's.
 */
int package_find(struct state *state, const struct state_package_query *query,
                 struct package_row *ret_row, struct kg_err *err);
/* The highest version that is enabled is the latest from now on. */
int package_settle_latest(struct state *state, const char *org, const char *pid,
                          struct kg_err *err);
/* On the keeper's thread: keys of what the org has set that do not fit this schema; owned. */
int package_settings_dropped(struct state *state, const char *org, const char *pid,
                             const struct kg_node *schema, char ***ret_keys, struct kg_err *err);
/* What is shown of a package, of what its discovery found. */
void package_put_card(struct kg_buf *out, const struct kg_node *package);

#endif
