/* What the files of manifest/ share. */
#ifndef KAGED_MANIFEST_INTERNAL_H
#define KAGED_MANIFEST_INTERNAL_H

#include "manifest/manifest.h"

#define problems_at(problems, code, node, hint, ...)                                               \
    kg_problems_add(problems, &manifest_rows[MANIFEST_##code], (node)->line, (node)->column, hint, \
                    __VA_ARGS__)

/* The published schema, against which every manifest is checked first; see published.c. */
void published_check(const struct kg_node *root, struct kg_problems *problems);

/* Every rule that the schema cannot say; fills the manifest as it goes. See rules.c. */
void rules_apply(struct manifest *manifest, const struct kg_node *root,
                 struct kg_problems *problems);

#endif
