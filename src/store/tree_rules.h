/*
 * What may be in a plugin's folder: the rules that kaged-unpack keeps while it writes a tree, and
 * that the daemon checks again on what it finds. Neither needs the other's word.
 */
#ifndef KAGED_STORE_TREE_RULES_H
#define KAGED_STORE_TREE_RULES_H

#include "base/base.h"

#define TREE_PATH_BYTES_MAX 1024 /* of a name with its folders */
#define TREE_NAME_BYTES_MAX 255  /* of one part of it */
#define TREE_LINK_BYTES_MAX 1024 /* of what a link says */
#define TREE_LINKS_MAX      40   /* that lead on to each other */

/* Why a path below the top may not be; NULL: it may. depth_max: its parts. */
const char *tree_path_problem(struct kg_str path, uint32_t depth_max);
/* Why something of this st_mode may not be; NULL: it may. */
const char *tree_mode_problem(mode_t mode);

/* What the link of that path says, NUL-terminated; NULL: there is no link of that path. */
typedef const char *tree_link_fn(void *data, struct kg_str path);
/*
 * Why a link may not say this; NULL: it may. It stays below the top whichever links of the tree it
 * leads over. What is not there is taken for a folder: somebody could make it.
 */
const char *tree_link_problem(struct kg_str path, const char *target, tree_link_fn *link_of,
                              void *data);

/* Appends a path in quotes for people to read, cut if it is long. */
void tree_quote(struct kg_buf *out, struct kg_str path);

#endif
