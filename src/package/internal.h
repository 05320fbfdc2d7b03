/* What the files of package/ share. */
#ifndef KAGED_PACKAGE_INTERNAL_H
#define KAGED_PACKAGE_INTERNAL_H

#include "package/package.h"

/* The words that the runner is started with; a version is that of a process. Owned. */
char **package_command(const struct package_runtime *runtime, const char *version_or_null);
/* The words that any mode of it begins with. Owned. */
char **package_runner_command(const char *mode);
/* How to get one, as a hint of err. */
int package_runtime_hint(struct kg_err *err);
/* Whether it has the form of package-v1.json. */
int package_check(const struct kg_node *package, struct kg_err *err);
/* Of one that has a manifest of its own, or a bundle's; what package_check takes, appended. */
int package_describe(const char *folder, bool is_bundle, struct kg_buf *ret_json,
                     struct kg_err *err);

#endif
