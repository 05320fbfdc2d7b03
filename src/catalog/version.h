/* Versions of packages, as PEP 440 writes and orders them. Pure. */
#ifndef KAGED_CATALOG_VERSION_H
#define KAGED_CATALOG_VERSION_H

#include "base/base.h"

#define CATALOG_VERSION_MAX 64 /* bytes */

bool catalog_version_valid(struct kg_str version);
/* Below 0: a is the older one. Both must be valid. What is behind a "+" does not count. */
int catalog_version_compare(struct kg_str a, struct kg_str b);

#endif
