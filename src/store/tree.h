/* What the parts of the store share about trees; see store.h for the rest. */
#ifndef KAGED_STORE_TREE_H
#define KAGED_STORE_TREE_H

#include "store/store.h"

/*
 * Blocks. store_tree_read of what kaged-unpack left behind, which must also be as it always leaves
 * it: the top folder's owner's, in one filesystem, of plain modes, no file with a second name.
 */
int tree_read_fresh(int dirfd, const struct store_limits *limits, struct store_tree *ret_tree,
                    struct kg_err *err);
/* SHA-256. */
void tree_digest(struct kg_str text, unsigned char ret_sha256[32]);
/* Blocks. Copies these entries of a folder into a new one, `name` in parent_fd. */
int tree_copy(int from_fd, const struct store_tree *tree, int parent_fd, const char *name,
              struct kg_err *err);
/* Blocks. Removes a folder with all that is in it, whatever it is. name is in dirfd. */
int tree_remove(int dirfd, const char *name, struct kg_err *err);

#endif
