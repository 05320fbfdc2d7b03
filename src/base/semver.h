/*
 * Semantic versions 2.0.0, and ranges of them as npm writes them: `^1.2`, `~1.2.3`, `>=1 <3`,
 * `1.x`, `1.2 - 2`, `1.2.3 || 2`. Texts of strangers: bounded, and read whole or not at all.
 */
#ifndef KAGED_SEMVER_H
#define KAGED_SEMVER_H

#include "base/base.h"

#define KG_SEMVER_BYTES_MAX  256
#define KG_SEMVER_NUMBER_MAX 9007199254740991u /* as npm has it */
#define KG_SEMVER_RANGE_MAX  64                /* comparisons in a range */

/* The texts are spans of what was read. */
struct kg_semver {
    uint64_t number[3];       /* major, minor, patch */
    struct kg_str prerelease; /* without its '-'; empty: none */
    struct kg_str build;      /* without its '+'; counts for nothing in comparisons */
};
bool kg_semver_parse(struct kg_str text, struct kg_semver *ret_version);
/* Precedence: negative, 0 or positive. A prerelease comes before its release. */
int kg_semver_compare(const struct kg_semver *a, const struct kg_semver *b);

struct kg_semver_range;
/* NULL with err: KG_E_USAGE with what is wrong. */
struct kg_semver_range *kg_semver_range_parse(struct kg_str text, struct kg_err *err);
void kg_semver_range_free(struct kg_semver_range *range);
/*
 * Whether the version is in the range. A prerelease is only where the range names one of the same
 * major, minor and patch: ^1.2.3 does not ask for 1.3.0-beta.
 */
bool kg_semver_range_has(const struct kg_semver_range *range, const struct kg_semver *version);

#endif
