/* What the files of manifest/ share. */
#ifndef KAGED_MANIFEST_INTERNAL_H
#define KAGED_MANIFEST_INTERNAL_H

#include "manifest/manifest.h"

/* Adds a problem at a place; past MANIFEST_PROBLEMS_MAX it is only counted. */
void problems_add(struct manifest_problems *problems, enum manifest_code code, uint32_t line,
                  uint32_t column, const char *hint_or_null, const char *format, ...)
    KG_PRINTF(6, 7);
#define problems_at(problems, code, node, hint, ...)                                               \
    problems_add(problems, MANIFEST_##code, (node)->line, (node)->column, hint, __VA_ARGS__)
/* What an error says that reads "LINE:COLUMN: sentence"; the place has fields of its own here. */
void problems_add_err(struct manifest_problems *problems, enum manifest_code code,
                      const char *before, const struct kg_err *err);
void problems_sort(struct manifest_problems *problems);

/* The published schema, against which every manifest is checked first; see published.c. */
void published_check(const struct kg_node *root, struct manifest_problems *problems);

/* Every rule that the schema cannot say; fills the manifest as it goes. See rules.c. */
void rules_apply(struct manifest *manifest, const struct kg_node *root,
                 struct manifest_problems *problems);

#endif
